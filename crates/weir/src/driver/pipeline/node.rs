//! A stage of a plan, and a carrier of frames between two ports, as nodes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_ctl::command::{CommandHandler, CommandTarget, Part, ThreadCounts, Visit};
use weir_exec::{Node, Round, frames};
use weir_io::stage::{Lender, PortCounts, Refused, StageInput, StageOutput};
use weir_nf::host::Stage;
use weir_packet::{Frame, FramePool, PacketMemory, Time};
use weir_runtime::{Lie, Report, Runtime, RuntimeConfig};

use super::super::executor::EventBox;

/// Frames that are worked on at a time.
const BURST: usize = 64;
/// Free frames that a stage needs before it takes a burst: for what functions
/// emit.
const FEW: usize = 64;

/// Parts of a node, made into one on the thread of its worker.
pub(super) struct NodePlan {
    /// The stage that it runs; `None` for a carrier.
    pub(super) work: Option<StageWork>,
    pub(super) input: Box<dyn StageInput>,
    pub(super) output: Box<dyn StageOutput>,
    /// Packets that are fetched ahead into the cache.
    pub(super) prefetch: usize,
    pub(super) events: EventBox,
    pub(super) memory: Arc<PacketMemory>,
}

/// A stage and what it needs.
pub(super) struct StageWork {
    pub(super) stage: Stage,
    pub(super) config: RuntimeConfig,
    pub(super) pool: FramePool,
    pub(super) commands: StageCommands,
}

/// A stage's command handler, with the stage's name and place.
pub(super) struct StageCommands {
    pub(super) handler: CommandHandler,
    /// Its name, for people.
    pub(super) name: String,
    /// Number of its chain, of its step in the plan, and of its branch there.
    pub(super) place: (usize, usize, usize),
}

/// The end of a node.
#[derive(Debug, Default)]
pub(super) struct StageEnd {
    pub(super) report: Option<Report>,
    pub(super) lies: Vec<Lie>,
    pub(super) refused: Refused,
    /// Counts of its input and its output.
    pub(super) counts: (PortCounts, PortCounts),
    pub(super) busy: Duration,
    pub(super) pool: Option<FramePool>,
    pub(super) lender: Option<Lender>,
}

/// A stage's runtime, and its pool.
struct Engine {
    runtime: Runtime,
    pool: FramePool,
    commands: StageCommands,
}

/// A stage, or a carrier: takes bursts from its input and gives what leaves to
/// its output.
pub(super) struct StageNode {
    engine: Option<Engine>,
    input: Box<dyn StageInput>,
    output: Box<dyn StageOutput>,
    queue: Queue,
    burst: Vec<Frame>,
    /// Frames that leave and found no room yet.
    left: Vec<Frame>,
    events: EventBox,
    memory: Arc<PacketMemory>,
    busy: Duration,
}

/// The parts that commands read and change.
struct Shown<'a> {
    runtime: &'a mut Runtime,
    pool: &'a mut FramePool,
    output: &'a mut Vec<Frame>,
    events: &'a EventBox,
    name: &'a str,
    place: (usize, usize, usize),
}

impl CommandTarget for Shown<'_> {
    fn counts(&mut self) -> ThreadCounts {
        let mut counts = ThreadCounts {
            name: self.name.to_owned(),
            idle: weir_exec::asleep(),
            ..ThreadCounts::of_parts(|visit| self.parts(visit))
        };
        for part in &mut counts.reports {
            along_first_branch(&mut part.report, self.place.2);
        }
        counts
    }

    fn parts(&mut self, visit: &mut Visit<'_>) {
        let (chain, stage, _) = self.place;
        visit(Part {
            chain,
            stage,
            runtime: self.runtime,
            pool: self.pool,
            output: self.output,
        });
    }

    fn take_events(&mut self) {
        self.events.put(self.runtime.events());
    }

    fn now(&self) -> Option<Time> {
        None
    }
}

/// The packets of a parallel step are counted along its first branch.
pub(super) fn along_first_branch(report: &mut Report, branch: usize) {
    if branch > 0 {
        (report.packets_in, report.bytes_in) = (0, 0);
        (report.packets_out, report.bytes_out) = (0, 0);
    }
}

/// Frames taken out of an input, the next ones fetched into the cache while those
/// before them are worked on.
pub(super) struct Queue {
    frames: VecDeque<Frame>,
    /// Frames fetched ahead.
    ahead: usize,
    taken: Vec<Frame>,
}

impl Queue {
    pub(super) fn new(ahead: usize) -> Queue {
        Queue {
            frames: VecDeque::with_capacity(BURST + ahead),
            ahead,
            taken: Vec::with_capacity(BURST + ahead),
        }
    }

    /// True where no frame is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Fills up, and gives out a burst.
    pub(super) fn next(
        &mut self,
        input: &mut dyn StageInput,
        memory: &PacketMemory,
        burst: &mut Vec<Frame>,
    ) {
        let most = (BURST + self.ahead).saturating_sub(self.frames.len());
        input.take(&mut self.taken, most);
        if self.ahead > 0 {
            // The burst's own were fetched when they were those ahead; what is
            // new of it is fetched now, so far as `ahead` goes.
            let known = self.frames.len();
            let near = self.ahead.saturating_sub(known);
            let far = (BURST.saturating_sub(known)).max(near);
            for (at, frame) in self.taken.iter().enumerate() {
                if at < near || at >= far {
                    memory.prefetch(frame);
                }
            }
        }
        self.frames.extend(self.taken.drain(..));
        let count = self.frames.len().min(BURST);
        burst.extend(self.frames.drain(..count));
    }
}

impl StageNode {
    /// Makes the node.
    ///
    /// # Errors
    ///
    /// A stage that can't be run.
    pub(super) fn new(plan: NodePlan) -> Result<StageNode, String> {
        let engine = match plan.work {
            None => None,
            Some(work) => Some(Engine {
                runtime: Runtime::new(&work.stage, work.config)
                    .map_err(|error| error.to_string())?,
                pool: work.pool,
                commands: work.commands,
            }),
        };
        Ok(StageNode {
            engine,
            input: plan.input,
            output: plan.output,
            queue: Queue::new(plan.prefetch),
            burst: Vec::with_capacity(BURST),
            left: Vec::with_capacity(2 * BURST),
            events: plan.events,
            memory: plan.memory,
            busy: Duration::ZERO,
        })
    }

    /// Takes a burst through the stage. True where there was one.
    fn process(&mut self) -> bool {
        self.queue
            .next(self.input.as_mut(), &self.memory, &mut self.burst);
        if self.burst.is_empty() {
            return false;
        }
        let start = Instant::now();
        match &mut self.engine {
            Some(Engine { runtime, pool, .. }) => {
                runtime.process(pool, &mut self.burst, &mut self.left);
                self.events.put(runtime.events());
            }
            None => self.left.append(&mut self.burst),
        }
        self.busy += start.elapsed();
        self.output.give(&mut self.left);
        true
    }
}

impl Node for StageNode {
    type Report = StageEnd;

    fn step(&mut self) -> Result<Round, String> {
        // Read before the queue: what came before the end is seen.
        let over = self.input.is_over();
        let mut worked = false;
        if !self.left.is_empty() {
            worked = self.output.give(&mut self.left) > 0;
            if self.output.is_gone() {
                return Err("the next stage has ended".to_owned());
            }
        }
        let engine = self.engine.as_ref();
        if self.left.is_empty() && engine.is_none_or(|e| e.pool.available() >= FEW) {
            worked |= self.process();
        }
        if let Some(engine) = &mut self.engine {
            worked |= frames::settle(&mut engine.pool);
        }
        let blocked = !self.left.is_empty();
        Ok(Round {
            worked,
            blocked,
            over: over && !worked && !blocked && self.queue.is_empty(),
            ..Round::default()
        })
    }

    fn take_commands(&mut self) -> bool {
        let Some(engine) = &mut self.engine else {
            return false;
        };
        engine.commands.handler.carry_out(&mut Shown {
            runtime: &mut engine.runtime,
            pool: &mut engine.pool,
            output: &mut self.left,
            events: &self.events,
            name: &engine.commands.name,
            place: engine.commands.place,
        });
        engine.commands.handler.is_busy()
    }

    fn prepare_park(&mut self) -> bool {
        self.input.prepare_park()
    }

    fn unpark(&mut self) {
        self.input.unpark();
    }

    fn finish(self) -> Result<StageEnd, String> {
        let mut end = StageEnd {
            refused: self.output.refused(),
            counts: (self.input.counts(), self.output.counts()),
            busy: self.busy,
            lender: self.output.close(),
            ..StageEnd::default()
        };
        if let Some(engine) = self.engine {
            let Engine {
                mut runtime,
                mut pool,
                ..
            } = engine;
            runtime.finish_with(&mut pool, Time::ZERO, |log| self.events.put(log));
            end.report = Some(runtime.report());
            end.lies = runtime.lies().to_vec();
            end.pool = Some(pool);
        }
        Ok(end)
    }
}
