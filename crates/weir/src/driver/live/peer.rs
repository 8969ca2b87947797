//! The chains of one of several workers that each own a part of the ports.
//!
//! ```text
//!   queues of the card ──▶ worker 1 ──▶ its flows ──▶ its way out
//!                             │ ▲ thread queues: packets of the other's flows
//!                             ▼ │
//!   queues of the card ──▶ worker 2 ──▶ its flows ──▶ its way out
//! ```
//!
//! The kernel or the card spreads packets by a hash of its own, which does not know
//! what a chain keeps together. So each packet is classified where it arrives
//! ([`Steering`]), and is queued to the worker that has its flow if that is another.
//! The packets of a flow that arrive at one worker stay in their order.

use std::sync::Arc;

use rtrb::Consumer;
use weir_ctl::command::Visit;
use weir_exec::queue::{Sender, drain, queue};
use weir_exec::{ExecError, Parker, Round, frames};
use weir_io::IdlePolicy;
use weir_nf::EventLog;
use weir_packet::{Frame, FramePool, Internal, Time};
use weir_runtime::{Lie, Report, Runtime, Steering};

use super::super::BATCH;
use super::super::executor::{Executor, take_lines, visit_alone};
use super::group::Group;

/// Room for packets on their way from one worker to another, per chain.
const QUEUE: usize = 1_024;
/// Packets that are taken from such a queue at a time.
const BURST: usize = 256;
/// Frames that go to the reserve of the memory, and come from it, at a time.
const SPARE: usize = 256;
/// Steps after which large frames are evened out.
const EVEN: u32 = 1_024;

/// A worker's ends of the queues to and from the others.
pub(crate) struct Queues {
    /// By worker, then by chain. The worker's own are not used.
    to: Vec<Vec<Sender<Frame>>>,
    from: Vec<Vec<Consumer<Frame>>>,
}

impl Queues {
    /// The queues between so many workers of so many chains: the ends of each.
    pub(crate) fn between(workers: usize, chains: usize) -> Vec<Queues> {
        let none = || Queues {
            to: Vec::new(),
            from: Vec::new(),
        };
        let mut all: Vec<Queues> = std::iter::repeat_with(none).take(workers).collect();
        for from in 0..workers {
            for to in 0..workers {
                // A worker queues nothing for itself.
                let slots = if from == to { 1 } else { QUEUE };
                let (senders, receivers) = (0..chains).map(|_| queue(slots)).unzip();
                all[from].to.push(senders);
                all[to].from.push(receivers);
            }
        }
        all
    }

    fn waiting(&self) -> bool {
        self.to.iter().flatten().any(|queue| queue.waiting() > 0)
    }

    fn are_empty(&self) -> bool {
        self.from.iter().flatten().all(Consumer::is_empty)
    }
}

/// One worker's chains, and its queues.
pub(crate) struct Peer {
    number: usize,
    pool: FramePool,
    runtimes: Vec<Runtime>,
    /// Per chain.
    steering: Vec<Steering>,
    queues: Queues,
    group: Arc<Group>,
    park: Option<Parker>,
    /// Packets of a batch, by their worker.
    batches: Vec<Vec<Frame>>,
    input: Vec<Frame>,
    /// Packets that leave.
    done: Vec<Frame>,
    /// Workers that something was queued for since they were last woken.
    gave: u64,
    /// Free frames, of all sizes and large, once the ports had theirs.
    usual: usize,
    usual_large: usize,
    steps: u32,
    /// Packets that went through its chains, and those that went to other workers.
    packets: u64,
    steered: u64,
    quiet: bool,
    /// The runtime whose flows end next, and from which of them on, once no more
    /// packets come.
    ending: Option<(usize, u32)>,
    internal: Internal,
}

/// The end of a worker.
pub(crate) struct PeerEnd {
    /// Per chain.
    pub(crate) reports: Vec<Report>,
    /// Violations of descriptors that an audit found.
    pub(crate) lies: Vec<Lie>,
    pub(crate) packets: u64,
    pub(crate) steered: u64,
    pub(crate) internal: Internal,
    pool: FramePool,
    queues: Queues,
}

impl Peer {
    /// Worker `number`, from 0, with a runtime and a steering per chain. `pool` has
    /// given the ports their frames.
    pub(crate) fn new(
        number: usize,
        pool: FramePool,
        runtimes: Vec<Runtime>,
        steering: Vec<Steering>,
        queues: Queues,
        group: Arc<Group>,
    ) -> Peer {
        let batch = || Vec::with_capacity(BATCH);
        Peer {
            number,
            usual: pool.available(),
            usual_large: pool.available_large(),
            pool,
            runtimes,
            steering,
            queues,
            park: group.parker(number, IdlePolicy::default()),
            batches: std::iter::repeat_with(batch).take(group.count()).collect(),
            group,
            input: Vec::with_capacity(BURST),
            done: Vec::with_capacity(2 * BURST),
            gave: 0,
            steps: 0,
            packets: 0,
            steered: 0,
            quiet: false,
            ending: None,
            internal: Internal::default(),
        }
    }

    /// Takes packets of this worker's flows through a chain.
    fn process(&mut self, chain: usize, frames: &mut Vec<Frame>) {
        self.packets += frames.len() as u64;
        let runtime = self.runtimes.get_mut(chain);
        match self
            .internal
            .expect(runtime, "a packet of a chain that is not there")
        {
            Some(runtime) => runtime.process(&mut self.pool, frames, &mut self.done),
            None => self.pool.give_all(frames),
        }
    }

    /// Takes what other workers have queued. True where there was something.
    fn take_queued(&mut self) -> bool {
        let mut input = std::mem::take(&mut self.input);
        let mut any = false;
        for worker in 0..self.group.count() {
            for chain in 0..self.runtimes.len() {
                let queue = self.queues.from.get_mut(worker);
                let queue = queue.and_then(|queues| queues.get_mut(chain));
                let Some(queue) = queue else { continue };
                if drain(queue, BURST, &mut input) > 0 {
                    any = true;
                    self.process(chain, &mut input);
                }
            }
        }
        self.input = input;
        any
    }

    /// Queues what found no room before.
    fn flush(&mut self) {
        for (worker, queues) in self.queues.to.iter_mut().enumerate() {
            for queue in queues {
                let waited = queue.waiting();
                if waited > 0 {
                    queue.flush();
                    self.gave |= u64::from(queue.waiting() < waited) << worker;
                }
            }
        }
    }

    /// Moves events to the worker that writes them. True where the first has some
    /// from others.
    fn move_events(&mut self, lines: &mut Vec<u8>) -> bool {
        if self.number == 0 {
            take_lines(&mut self.runtimes, lines);
            return self.group.events().take(lines);
        }
        for runtime in &mut self.runtimes {
            let log = runtime.events();
            if log.lines().is_empty() {
                continue;
            }
            if self.group.has_room_for_events() {
                self.group.events().put(log);
                self.gave |= 1;
            } else if self.group.is_over(0) {
                // The worker that writes events has failed, so no room will come.
                lose(log);
            }
        }
        false
    }

    /// True where events have not found room with the worker that writes them.
    fn keeps_events(&mut self) -> bool {
        let mut all = self.runtimes.iter_mut();
        all.any(|runtime| !runtime.events().lines().is_empty())
    }

    /// Evens out free frames: packets arrive at one worker and leave at another.
    fn even_out(&mut self) {
        let free = self.pool.available();
        if free > self.usual + 2 * SPARE {
            self.pool.to_reserve(SPARE);
        } else if free < self.usual / 2 {
            self.pool.from_reserve();
        }
        self.steps = (self.steps + 1) % EVEN;
        if self.steps == 0 {
            let large = self.pool.available_large();
            if large > self.usual_large {
                self.pool.large_to_reserve(large - self.usual_large);
            } else if large < self.usual_large {
                self.pool.large_from_reserve();
            }
        }
    }

    /// Its number, from 0.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// True where packets wait for room with a worker that still takes packets.
    fn owes_packets(&self) -> bool {
        let mut queues = self.queues.to.iter().enumerate();
        queues.any(|(worker, queues)| {
            queues.iter().any(|queue| queue.waiting() > 0) && !self.group.is_over(worker)
        })
    }

    /// Sums up what it did; the ports are closed.
    pub(crate) fn end(self) -> PeerEnd {
        let Peer {
            mut pool,
            mut done,
            mut runtimes,
            ..
        } = self;
        pool.give_all(&mut done);
        // A worker that failed keeps events that nobody takes any more.
        runtimes
            .iter_mut()
            .for_each(|runtime| lose(runtime.events()));
        PeerEnd {
            reports: runtimes.iter().map(Runtime::report).collect(),
            lies: runtimes.iter().flat_map(Runtime::lies).cloned().collect(),
            packets: self.packets,
            steered: self.steered,
            internal: self.internal,
            pool,
            queues: self.queues,
        }
    }
}

/// The frames of a run that is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gathered {
    /// Frames that are nowhere.
    pub(crate) missing: usize,
    /// Packets that were queued for a worker that failed before it took them.
    pub(crate) unprocessed: usize,
}

/// Counts the lines of a log as lost, and forgets them.
fn lose(log: &mut EventLog) {
    let lines = log.lines().iter().filter(|byte| **byte == b'\n').count();
    log.count_lost(lines as u64);
    log.clear();
}

impl PeerEnd {
    /// Takes together the frames of all workers, which are over, with the packets that
    /// were queued for a worker that failed.
    pub(crate) fn gather(mut ends: Vec<PeerEnd>) -> Gathered {
        let mut left = Vec::new();
        let mut unprocessed = 0;
        loop {
            for queue in ends
                .iter_mut()
                .flat_map(|end| end.queues.to.iter_mut().flatten())
            {
                queue.flush();
            }
            for queue in ends
                .iter_mut()
                .flat_map(|end| end.queues.from.iter_mut().flatten())
            {
                drain(queue, usize::MAX, &mut left);
            }
            if left.is_empty() {
                break;
            }
            unprocessed += left.len();
            if let Some(end) = ends.first_mut() {
                end.pool.give_all(&mut left);
            }
        }
        let Some(mut pool) = ends.pop().map(|end| end.pool) else {
            return Gathered::default();
        };
        for end in ends {
            pool.join(end.pool);
        }
        frames::take_reserve(&mut pool);
        Gathered {
            missing: pool.outstanding(),
            unprocessed,
        }
    }
}

impl Executor for Peer {
    fn pool(&mut self) -> &mut FramePool {
        &mut self.pool
    }

    /// None while packets wait for another worker: the ports wait, too, and count
    /// what they have no room for. Else what finds no frame waits in its port.
    fn room(&self) -> usize {
        match self.queues.waiting() {
            true => 0,
            false => usize::MAX,
        }
    }

    fn take(&mut self, chain: usize, frames: &mut Vec<Frame>) {
        let memory = Arc::clone(self.pool.memory());
        let Some(steering) = self.steering.get_mut(chain) else {
            self.internal.note("packets of a chain that is not there");
            return self.pool.give_all(frames);
        };
        frames.iter().for_each(|frame| memory.prefetch(frame));
        for frame in frames.drain(..) {
            let (meta, bytes) = memory.read(&frame);
            let worker = steering.worker_of(meta, bytes) as usize;
            let batch = self.batches.get_mut(worker);
            match self
                .internal
                .expect(batch, "a packet was steered to nobody")
            {
                Some(batch) => batch.push(frame),
                None => self.pool.give(frame),
            }
        }
        let others = self.batches.iter_mut().zip(&mut self.queues.to);
        for (worker, (batch, queues)) in others.enumerate() {
            if batch.is_empty() || worker == self.number {
                continue;
            }
            let queue = queues.get_mut(chain);
            if let Some(queue) = self.internal.expect(queue, "a chain without a queue") {
                self.steered += batch.len() as u64;
                queue.extend(batch);
                self.gave |= 1 << worker;
            }
        }
        if let Some(batch) = self.batches.get_mut(self.number).map(std::mem::take) {
            let mut batch = batch;
            self.process(chain, &mut batch);
            if let Some(place) = self.batches.get_mut(self.number) {
                *place = batch;
            }
        }
    }

    fn pass_time(&mut self, now: Time) -> bool {
        let mut more = false;
        for runtime in &mut self.runtimes {
            more |= runtime.pass_time(&mut self.pool, now, &mut self.done);
        }
        more
    }

    fn step(&mut self, out: &mut Vec<Frame>, events: &mut Vec<u8>) -> Result<Round, ExecError> {
        let mut worked = self.take_queued();
        worked |= !self.done.is_empty();
        out.append(&mut self.done);
        self.flush();
        worked |= self.move_events(events);
        self.even_out();
        if self.gave != 0 {
            self.group.wake(self.gave);
            self.gave = 0;
        }
        if self.queues.waiting() {
            // Nobody tells when there is room, so the worker does not park.
            std::thread::yield_now();
        }
        Ok(Round {
            worked,
            ..Round::default()
        })
    }

    fn parker(&self) -> Option<&Parker> {
        self.park.as_ref()
    }

    fn prepare_park(&mut self) -> bool {
        !self.queues.waiting()
    }

    fn parts(&mut self, output: &mut Vec<Frame>, visit: &mut Visit<'_>) {
        visit_alone(&mut self.runtimes, &mut self.pool, output, visit);
    }

    fn worker(&self) -> Option<(usize, u64)> {
        Some((self.number, self.steered))
    }

    /// First all workers queue what they have for others, then they take it, and
    /// only then do flows end: some at a time, when what is in a log was taken.
    fn stop(&mut self) {
        if !self.quiet {
            self.quiet = !self.owes_packets();
            if self.quiet {
                self.group.be_quiet(self.number);
            }
            return;
        }
        // Asked before the queues are looked at.
        if !self.group.are_quiet() || !self.queues.are_empty() || self.keeps_events() {
            return;
        }
        let Some((at, from)) = self.ending else {
            self.ending = Some((0, 0));
            return;
        };
        if let Some(runtime) = self.runtimes.get_mut(at) {
            let next = runtime.finish_some(&mut self.pool, from);
            self.ending = Some(next.map_or((at + 1, 0), |from| (at, from)));
        } else if self.number > 0 {
            self.group.be_over(self.number);
        }
    }

    fn is_over(&self) -> bool {
        let ended = self.ending.is_some_and(|(at, _)| at >= self.runtimes.len());
        match self.number {
            0 => ended && self.group.others_are_over() && self.group.events().is_empty(),
            _ => ended && self.group.is_over(self.number),
        }
    }
}

#[cfg(test)]
#[path = "peer_tests.rs"]
mod tests;
