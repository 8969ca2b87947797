//! A worker's thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rtrb::Consumer;
use weir_nf::host::Stage;
use weir_packet::{Frame, FramePool, Time};
use weir_runtime::{Report, Runtime, RuntimeConfig};

use super::super::crew::{EventBox, Visit, visit_alone};
use super::super::inbox::{Inbox, Shows, ThreadCounts};
use super::super::rest::Sleeper;
use super::super::ring::{Lane, drain};
use super::super::spares::{self, TheirSpares};

/// Frames of a chain that are worked on at a time.
const BURST: usize = 256;
/// Frames of its pool that a worker may need for one packet, mostly: what
/// functions emit.
const PER_PACKET: usize = 2;
/// Rounds after which questions are looked for.
const LOOK: u32 = 64;

/// What a worker and the ports' thread tell one another without a message.
#[derive(Debug, Default)]
pub(super) struct WorkerSignals {
    ready: AtomicBool,
    stop: AtomicBool,
    /// Time of the last packet of the run, valid once it stops.
    packet_time: AtomicU64,
}

impl WorkerSignals {
    /// True once the worker has reserved its memory.
    pub(super) fn ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// All packets are in the worker's rings.
    pub(super) fn stop(&self, packet_time: Time) {
        self.packet_time.store(packet_time.0, Ordering::Relaxed);
        self.stop.store(true, Ordering::Release);
    }
}

/// A worker's ends of its rings.
pub(super) struct WorkerEnds {
    /// Per chain.
    pub(super) input: Vec<Consumer<Frame>>,
    pub(super) output: Lane<Frame>,
    pub(super) spares: TheirSpares,
    pub(super) signals: Arc<WorkerSignals>,
    pub(super) events: EventBox,
    pub(super) inbox: Inbox,
}

/// What a worker's thread is made of.
pub(super) struct WorkerPlan {
    /// From 0.
    pub(super) number: u32,
    pub(super) stages: Vec<Stage>,
    pub(super) config: RuntimeConfig,
    pub(super) core: Option<usize>,
    pub(super) rest: Sleeper,
    pub(super) ends: WorkerEnds,
    pub(super) pool: FramePool,
}

/// What a worker's thread leaves behind.
#[derive(Debug)]
pub(super) struct WorkerEnd {
    /// Per chain.
    pub(super) reports: Vec<Report>,
    pub(super) packets: u64,
    pub(super) busy: Duration,
    pub(super) pool: FramePool,
}

/// A worker as it shows itself.
struct Shown<'a> {
    number: u32,
    runtimes: &'a mut Vec<Runtime>,
    pool: &'a mut FramePool,
    output: &'a mut Vec<Frame>,
    events: &'a EventBox,
}

impl Shows for Shown<'_> {
    fn counts(&mut self) -> ThreadCounts {
        ThreadCounts {
            name: format!("worker {}", self.number + 1),
            ..ThreadCounts::of_parts(|visit| self.parts(visit))
        }
    }

    fn parts(&mut self, visit: &mut Visit<'_>) {
        visit_alone(self.runtimes, self.pool, self.output, visit);
    }

    fn take_events(&mut self) {
        for runtime in self.runtimes.iter_mut() {
            self.events.put(runtime.events());
        }
    }

    fn now(&self) -> Option<Time> {
        None
    }
}

/// Runs a worker until it is told to stop and its rings are empty.
///
/// # Errors
///
/// A stage that can't be run, a core that there is not.
pub(super) fn run(plan: WorkerPlan) -> Result<WorkerEnd, String> {
    let WorkerPlan {
        number,
        stages,
        config,
        core,
        mut rest,
        mut ends,
        mut pool,
    } = plan;
    if let Some(core) = core {
        super::super::pin(core)?;
    }
    let mut runtimes = Vec::new();
    for stage in &stages {
        let mut runtime = Runtime::new(stage, config).map_err(|error| error.to_string())?;
        runtime.be_worker(number);
        runtimes.push(runtime);
    }
    ends.signals.ready.store(true, Ordering::Release);
    rest.wake_others();
    let mut input = Vec::with_capacity(BURST);
    let mut output = Vec::with_capacity(2 * BURST);
    let (mut packets, mut busy) = (0, Duration::ZERO);
    let (mut rounds, mut idle) = (0u32, true);
    loop {
        rounds = rounds.wrapping_add(1);
        // After a round without work it is asked before it sleeps again.
        if idle || rounds.is_multiple_of(LOOK) || ends.inbox.is_busy() {
            ends.inbox.answer(&mut Shown {
                number,
                runtimes: &mut runtimes,
                pool: &mut pool,
                output: &mut output,
                events: &ends.events,
            });
        }
        // Looked at before the rings: what was sent before it is in them.
        let stopping = ends.signals.stop.load(Ordering::Acquire);
        let waited = ends.output.waiting();
        // What leaves goes before what comes, so that nothing piles up here.
        let room = ends.output.flush(Time::ZERO);
        let mut worked = ends.output.waiting() < waited;
        if room {
            let (start, mut some) = (Instant::now(), false);
            for (runtime, ring) in runtimes.iter_mut().zip(&mut ends.input) {
                let most = BURST.min(pool.available() / PER_PACKET);
                let taken = drain(ring, most, &mut input);
                if taken == 0 {
                    continue;
                }
                (worked, some) = (true, true);
                packets += taken as u64;
                runtime.process(&mut pool, &mut input, &mut output);
                ends.events.put(runtime.events());
                ends.output.extend(&mut output);
            }
            if some {
                busy += start.elapsed();
            }
        }
        worked |= spares::settle(&mut pool, &mut ends.spares);
        let empty = ends.input.iter().all(Consumer::is_empty);
        if stopping && !worked && empty && ends.output.waiting() == 0 {
            break;
        }
        idle = !worked;
        rest.after(worked || ends.inbox.is_busy(), &mut ());
    }
    rest.wake_others();
    let time = Time(ends.signals.packet_time.load(Ordering::Relaxed));
    for runtime in &mut runtimes {
        runtime.finish_with(&mut pool, time, |log| ends.events.put(log));
    }
    Ok(WorkerEnd {
        reports: runtimes.iter().map(Runtime::report).collect(),
        packets,
        busy,
        pool,
    })
}
