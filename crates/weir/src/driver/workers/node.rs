//! A worker's node: a plain runtime per chain.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rtrb::Consumer;
use weir_ctl::command::{CommandHandler, CommandTarget, ThreadCounts, Visit};
use weir_exec::queue::{Sender, drain};
use weir_exec::{Node, Round, frames};
use weir_nf::host::Stage;
use weir_packet::{Frame, FramePool, Time};
use weir_runtime::{Lie, Report, Runtime, RuntimeConfig};

use super::super::executor::{EventBox, visit_alone};

/// Frames of a chain that are worked on at a time.
const BURST: usize = 256;
/// Free frames that a worker needs for one packet, mostly: what functions emit.
const PER_PACKET: usize = 2;

/// The order to stop, and the time, from the ports' thread.
#[derive(Debug, Default)]
pub(super) struct Stop {
    stop: AtomicBool,
    /// The time of day in a live run; 0 where time is the packets'.
    now: AtomicU64,
    /// Time of the last packet of the run, valid once it stops.
    packet_time: AtomicU64,
}

impl Stop {
    /// The worker sees the time when it wakes up next, 0.1 s from now at most.
    pub(super) fn pass_time(&self, now: Time) {
        self.now.store(now.0, Ordering::Relaxed);
    }

    /// All packets are in the worker's queues.
    pub(super) fn set(&self, packet_time: Time) {
        self.packet_time.store(packet_time.0, Ordering::Relaxed);
        self.stop.store(true, Ordering::Release);
    }
}

/// A worker's ends of its queues.
pub(super) struct Ends {
    /// Per chain.
    pub(super) input: Vec<Consumer<Frame>>,
    pub(super) output: Sender<Frame>,
    pub(super) stop: Arc<Stop>,
    pub(super) events: EventBox,
    pub(super) handler: CommandHandler,
}

/// The end of a worker.
#[derive(Debug)]
pub(super) struct WorkerEnd {
    /// Per chain.
    pub(super) reports: Vec<Report>,
    /// Violations of descriptors that an audit found.
    pub(super) lies: Vec<Lie>,
    pub(super) packets: u64,
    pub(super) busy: Duration,
    pub(super) pool: FramePool,
}

/// A runtime per chain, and what they need.
pub(super) struct WorkerNode {
    ends: Ends,
    shown: Shown,
    input: Vec<Frame>,
    packets: u64,
    busy: Duration,
}

/// The parts that commands read and change.
struct Shown {
    number: u32,
    runtimes: Vec<Runtime>,
    pool: FramePool,
    output: Vec<Frame>,
    events: EventBox,
}

impl CommandTarget for Shown {
    fn counts(&mut self) -> ThreadCounts {
        ThreadCounts {
            name: format!("worker {}", self.number + 1),
            idle: weir_exec::asleep(),
            ..ThreadCounts::of_parts(|visit| self.parts(visit))
        }
    }

    fn parts(&mut self, visit: &mut Visit<'_>) {
        visit_alone(&mut self.runtimes, &mut self.pool, &mut self.output, visit);
    }

    fn take_events(&mut self) {
        for runtime in &mut self.runtimes {
            self.events.put(runtime.events());
        }
    }

    fn now(&self) -> Option<Time> {
        None
    }
}

impl WorkerNode {
    /// Worker `number`, from 0, of these stages.
    ///
    /// # Errors
    ///
    /// A stage that can't be run.
    pub(super) fn new(
        number: u32,
        stages: &[Stage],
        config: RuntimeConfig,
        ends: Ends,
        pool: FramePool,
    ) -> Result<WorkerNode, String> {
        let mut runtimes = Vec::new();
        for stage in stages {
            let mut runtime = Runtime::new(stage, config).map_err(|error| error.to_string())?;
            runtime.be_worker(number);
            runtimes.push(runtime);
        }
        Ok(WorkerNode {
            shown: Shown {
                number,
                runtimes,
                pool,
                output: Vec::with_capacity(2 * BURST),
                events: ends.events.clone(),
            },
            ends,
            input: Vec::with_capacity(BURST),
            packets: 0,
            busy: Duration::ZERO,
        })
    }

    /// Takes a burst of each chain through its runtime. True where there was one.
    fn process(&mut self) -> bool {
        let Shown {
            runtimes,
            pool,
            output,
            ..
        } = &mut self.shown;
        let (start, before) = (Instant::now(), self.packets);
        for (runtime, queue) in runtimes.iter_mut().zip(&mut self.ends.input) {
            let most = BURST.min(pool.available() / PER_PACKET);
            let taken = drain(queue, most, &mut self.input);
            if taken == 0 {
                continue;
            }
            self.packets += taken as u64;
            runtime.process(pool, &mut self.input, output);
            self.ends.events.put(runtime.events());
            self.ends.output.extend(output);
        }
        let some = self.packets > before;
        if some {
            self.busy += start.elapsed();
        }
        some
    }
}

impl WorkerNode {
    /// Ends flows that are idle for too long. True where more are.
    fn pass_time(&mut self) -> bool {
        let now = Time(self.ends.stop.now.load(Ordering::Relaxed));
        let mut more = false;
        if now > Time::ZERO {
            let Shown {
                runtimes,
                pool,
                output,
                ..
            } = &mut self.shown;
            for runtime in runtimes {
                more |= runtime.pass_time(pool, now, output);
                self.ends.events.put(runtime.events());
            }
        }
        more
    }
}

impl Node for WorkerNode {
    type Report = WorkerEnd;

    fn step(&mut self) -> Result<Round, String> {
        // Read before the queues: what was sent before the order to stop is in them.
        let stopping = self.ends.stop.stop.load(Ordering::Acquire);
        let waited = self.ends.output.waiting();
        // Output goes before input, so that nothing piles up here.
        let room = self.ends.output.flush();
        let mut worked = self.ends.output.waiting() < waited;
        if room {
            worked |= self.process();
            // Time goes on between bursts; while packets come it is theirs.
            worked = worked || self.pass_time();
        }
        worked |= frames::settle(&mut self.shown.pool);
        let empty = self.ends.input.iter().all(Consumer::is_empty);
        Ok(Round {
            worked,
            over: stopping && !worked && empty && self.ends.output.waiting() == 0,
            ..Round::default()
        })
    }

    fn take_commands(&mut self) -> bool {
        self.ends.handler.carry_out(&mut self.shown);
        self.ends.handler.is_busy()
    }

    fn finish(self) -> Result<WorkerEnd, String> {
        let time = Time(self.ends.stop.packet_time.load(Ordering::Relaxed));
        let Shown {
            mut runtimes,
            mut pool,
            ..
        } = self.shown;
        for runtime in &mut runtimes {
            runtime.finish_with(&mut pool, time, |log| self.ends.events.put(log));
        }
        let lies = runtimes.iter().flat_map(Runtime::lies);
        Ok(WorkerEnd {
            lies: lies.cloned().collect(),
            reports: runtimes.iter().map(Runtime::report).collect(),
            packets: self.packets,
            busy: self.busy,
            pool,
        })
    }
}
