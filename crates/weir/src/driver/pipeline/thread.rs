//! A stage's thread.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_io::stage::{Lender, PortCounts, Refused, StageInput, StageOutput};
use weir_nf::host::Stage;
use weir_packet::{Frame, FramePool, PacketMemory, Time};
use weir_runtime::{Lie, Report, Runtime, RuntimeConfig};

use super::super::crew::EventBox;
use super::super::rest::Sleeper;
use super::super::spares::{self, TheirSpares};

/// Frames that are worked on at a time.
const BURST: usize = 64;
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
        }),
    };
    ready.store(true, Ordering::Release);
    rest.wake_others();
    let mut queue = Queue::new(prefetch);
    let mut burst = Vec::with_capacity(BURST);
    let mut left: Vec<Frame> = Vec::with_capacity(2 * BURST);
    let mut busy = Duration::ZERO;
    loop {
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
        rest.after(worked);
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
