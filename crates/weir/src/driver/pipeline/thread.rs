//! A stage's thread.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_io::stage::{Lender, PortCounts, Refused, StageInput, StageOutput};
use weir_nf::host::Stage;
use weir_packet::{Frame, FramePool, PacketMemory, Time};
use weir_runtime::{Lie, Report, Runtime, RuntimeConfig};

use super::super::crew::{EventBox, Part, Visit};
use super::super::inbox::{Inbox, Shows, ThreadCounts};
use super::super::rest::Sleeper;
use super::super::spares::{self, TheirSpares};

/// Frames that are worked on at a time.
const BURST: usize = 64;
/// Rounds after which questions are looked for.
const LOOK: u32 = 64;
/// Frames that a stage must have before it takes a burst: for what functions
/// emit.
const FEW: usize = 64;

/// What a stage's thread is made of.
pub(super) struct StagePlan {
    /// What it runs; `None` only carries frames from one port to another.
    pub(super) work: Option<StageWork>,
    pub(super) input: Box<dyn StageInput>,
    pub(super) output: Box<dyn StageOutput>,
    pub(super) core: Option<usize>,
    /// Packets that are fetched ahead into the cache.
    pub(super) prefetch: usize,
    pub(super) rest: Sleeper,
    pub(super) events: EventBox,
    pub(super) memory: Arc<PacketMemory>,
    pub(super) ready: Arc<AtomicBool>,
}

/// The stage and what it needs.
pub(super) struct StageWork {
    pub(super) stage: Stage,
    pub(super) config: RuntimeConfig,
    pub(super) pool: FramePool,
    pub(super) spares: TheirSpares,
    pub(super) asked: Questions,
}

/// Where a stage's thread is asked, and what it says of itself.
pub(super) struct Questions {
    pub(super) inbox: Inbox,
    /// Its name, for people.
    pub(super) name: String,
    /// Number of its chain, of its step in the plan, and of its branch there.
    pub(super) place: (usize, usize, usize),
}

/// What a stage's thread leaves behind.
#[derive(Debug, Default)]
pub(super) struct StageEnd {
    pub(super) report: Option<Report>,
    pub(super) lies: Vec<Lie>,
    pub(super) refused: Refused,
    /// What its input and its output counted.
    pub(super) counts: (PortCounts, PortCounts),
    pub(super) busy: Duration,
    pub(super) pool: Option<FramePool>,
    pub(super) lender: Option<Lender>,
}

/// What a thread does with frames, and its pool.
struct Engine {
    runtime: Runtime,
    pool: FramePool,
    spares: TheirSpares,
    asked: Questions,
}

/// A stage's thread as it shows itself.
struct Shown<'a> {
    runtime: &'a mut Runtime,
    pool: &'a mut FramePool,
    output: &'a mut Vec<Frame>,
    events: &'a EventBox,
    name: &'a str,
    place: (usize, usize, usize),
}

impl Shows for Shown<'_> {
    fn counts(&mut self) -> ThreadCounts {
        let mut counts = ThreadCounts {
            name: self.name.to_owned(),
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

impl Engine {
    /// Answers what is asked; what leaves goes to the end of `left`.
    fn answer(&mut self, left: &mut Vec<Frame>, events: &EventBox) {
        self.asked.inbox.answer(&mut Shown {
            runtime: &mut self.runtime,
            pool: &mut self.pool,
            output: left,
            events,
            name: &self.asked.name,
            place: self.asked.place,
        });
    }
}

/// Frames taken out of a ring, the next ones fetched into the cache while those
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

/// Runs a stage until its input is over.
///
/// # Errors
///
/// A stage that can't be run, a core that there is not, or the end of the
/// stage behind.
pub(super) fn run(plan: StagePlan) -> Result<StageEnd, String> {
    let StagePlan {
        work,
        mut input,
        mut output,
        core,
        prefetch,
        mut rest,
        events,
        memory,
        ready,
    } = plan;
    if let Some(core) = core {
        super::super::pin(core)?;
    }
    let mut engine = match work {
        None => None,
        Some(work) => Some(Engine {
            runtime: Runtime::new(&work.stage, work.config).map_err(|error| error.to_string())?,
            pool: work.pool,
            spares: work.spares,
            asked: work.asked,
        }),
    };
    ready.store(true, Ordering::Release);
    rest.wake_others();
    let mut queue = Queue::new(prefetch);
    let mut burst = Vec::with_capacity(BURST);
    let mut left: Vec<Frame> = Vec::with_capacity(2 * BURST);
    let mut busy = Duration::ZERO;
    let (mut rounds, mut idle) = (0u32, true);
    loop {
        rounds = rounds.wrapping_add(1);
        if let Some(engine) = &mut engine
            && (idle || rounds.is_multiple_of(LOOK))
        {
            engine.answer(&mut left, &events);
        }
        // Asked before the ring is looked at: what came before the end is seen.
        let over = input.is_over();
        let mut worked = false;
        if !left.is_empty() {
            worked = output.give(&mut left) > 0;
            if output.is_gone() {
                return Err("the stage behind it is gone".to_owned());
            }
        }
        let supplied = engine.as_ref().is_none_or(|e| e.pool.available() >= FEW);
        if left.is_empty() && supplied {
            queue.next(input.as_mut(), &memory, &mut burst);
            if !burst.is_empty() {
                worked = true;
                let start = Instant::now();
                match &mut engine {
                    Some(engine) => {
                        engine
                            .runtime
                            .process(&mut engine.pool, &mut burst, &mut left);
                        events.put(engine.runtime.events());
                    }
                    None => left.append(&mut burst),
                }
                busy += start.elapsed();
                output.give(&mut left);
            }
        }
        if let Some(engine) = &mut engine {
            worked |= spares::settle(&mut engine.pool, &mut engine.spares);
        }
        if over && !worked && left.is_empty() && queue.is_empty() {
            break;
        }
        idle = !worked;
        if worked {
            rest.wake_others();
        }
        match left.is_empty() {
            true => rest.pause(worked, &mut input),
            false => rest.hold(worked, &mut input),
        }
    }
    rest.wake_others();
    let refused = output.refused();
    let mut end = StageEnd {
        refused,
        counts: (input.counts(), output.counts()),
        busy,
        lender: output.close(),
        ..StageEnd::default()
    };
    if let Some(mut engine) = engine {
        let Engine { runtime, pool, .. } = &mut engine;
        runtime.finish_with(pool, Time::ZERO, |log| events.put(log));
        end.report = Some(engine.runtime.report());
        end.lies = engine.runtime.lies().to_vec();
        end.pool = Some(engine.pool);
    }
    Ok(end)
}
