//! Workers: plain runtimes on threads, each with the flows that are steered to
//! it, where a chain keeps nothing that flows of several pairs of hosts share.
//! The driver behind `weir run --workers`.
//!
//! The calling thread has the ports: it steers packets
//! ([`weir_runtime::Steering`]) into the workers' rings and takes out of theirs
//! what leaves. There is no switch, so nothing moves, and the order of packets
//! is that of each pair of hosts.

mod node;

use std::sync::Arc;
use std::time::Duration;

use rtrb::Consumer;
use weir_ctl::command::{CommandHandler, CommandSender};
use weir_exec::frames::{HIGH, LARGE_HIGH, LARGE_SHARE, SHARE};
use weir_exec::queue::{Sender, drain, queue};
use weir_exec::{ExecError, NEVER_PARK, Parker, Parks as _, Round, Team, Wakers, frames};
use weir_io::IdlePolicy;
use weir_nf::host::Stage;
use weir_packet::{Frame, FramePool, Internal, MemoryLayout, PacketMemory, Time};
use weir_runtime::{Lie, Obstacle, Report, RuntimeConfig, Steering};

use super::executor::{EventBox, Executor};
use super::spread::Spread;
use super::wiring::NO_CHAIN;
use node::{Ends, Stop, WorkerEnd, WorkerNode};

/// Frames on their way in one direction, per worker and chain.
const FRAMES: usize = 1_024;
/// Frames of a worker that are taken in at a time.
const BURST: usize = 256;
/// Frames beside those of packets: what the pool of the ports keeps back for
/// each worker that may run short.
const RESERVE: usize = 768;
/// Small frames for packets under way beside those of a memory as it is without
/// workers, and without the workers' shares.
const UNDER_WAY: u32 = 4_096;

/// Settings of the workers. The default is a single worker.
#[derive(Clone, Debug, Default)]
pub struct WorkersSettings {
    /// Workers, at least one.
    pub workers: u32,
    /// Threads that the workers run on.
    pub spread: Spread,
    /// Configuration of the engines.
    pub engine: RuntimeConfig,
    /// Frames that the ports need beside those of packets under way, and their
    /// sizes.
    pub memory: MemoryLayout,
    /// No thread ever sleeps.
    pub wakeful: bool,
}

/// Counts of one worker.
#[derive(Clone, Debug)]
pub struct WorkerCounts {
    /// Packets that came to it.
    pub packets: u64,
    /// Flows that it opened.
    pub flows: u64,
    /// Packets that arrived at its ports and went to another worker, whose flows
    /// they are.
    pub steered: u64,
    /// Time in which it had something to do.
    pub busy: Duration,
}

/// The limits of a chain as each of its workers has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedLimits {
    /// Name of the chain.
    pub chain: String,
    /// Most flows at a time.
    pub flows: u32,
    /// Bytes of side buffers.
    pub buffer_bytes: usize,
}

/// Counts of all workers.
#[derive(Debug, Default)]
pub struct WorkersEnd {
    /// Per chain, of all workers together.
    pub reports: Vec<Report>,
    /// Per worker.
    pub workers: Vec<WorkerCounts>,
    /// Per chain.
    pub limits: Vec<SharedLimits>,
    /// Violations of descriptors that an audit found.
    pub lies: Vec<Lie>,
    /// Each worker owns a part of the ports; else one thread has them all.
    pub own_ports: bool,
    /// Packets that were queued for a worker that failed before it took them.
    pub unprocessed: u64,
    /// Frames that nobody gave back; 0 unless there is a bug.
    pub leaked: usize,
}

impl SharedLimits {
    /// Of a stage as one worker runs it.
    pub(crate) fn of(part: &Stage) -> SharedLimits {
        SharedLimits {
            chain: part.chain.clone(),
            flows: part.flows.max,
            buffer_bytes: part.flows.buffer_bytes,
        }
    }
}

impl WorkersEnd {
    /// Adds what the next worker did.
    pub(crate) fn add(&mut self, reports: &[Report], packets: u64, steered: u64, busy: Duration) {
        self.workers.push(WorkerCounts {
            packets,
            flows: reports.iter().map(|r| r.flows.seen).sum(),
            steered,
            busy,
        });
        for (chain, report) in reports.iter().enumerate() {
            match self.reports.get_mut(chain) {
                Some(sum) => sum.add(report),
                None => self.reports.push(report.clone()),
            }
        }
    }
}

struct Member {
    /// Per chain.
    to: Vec<Sender<Frame>>,
    from: Consumer<Frame>,
    stop: Arc<Stop>,
    /// Packets of the batch that is being steered.
    batch: Vec<Frame>,
}

/// Steering and ports on the calling thread, and a runtime per chain on each
/// worker's.
pub struct Workers {
    pool: FramePool,
    steering: Vec<Steering>,
    members: Vec<Member>,
    events: EventBox,
    limits: Vec<SharedLimits>,
    team: Team<WorkerNode>,
    ends: Vec<(usize, WorkerEnd)>,
    packet_time: Time,
    park: Parker,
    /// Packets were put into rings since the workers were last woken.
    gave: bool,
    senders: Vec<CommandSender>,
    /// Counted in the first chain's report.
    internal: Internal,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers")
            .field("members", &self.members.len())
            .finish_non_exhaustive()
    }
}

/// The stage as one of so many workers runs it: the limits are shared out.
pub(crate) fn part_of(stage: &Stage, workers: u32) -> Stage {
    let mut part = stage.clone();
    let workers = workers.max(1);
    part.flows.max = stage.flows.max.div_ceil(workers);
    part.flows.buffer_bytes = stage.flows.buffer_bytes.div_ceil(workers as usize);
    part
}

impl Workers {
    /// The first thing that keeps packets of these chains from being steered
    /// by their hosts.
    pub fn obstacle(stages: &[Stage]) -> Option<Obstacle> {
        stages.iter().find_map(Steering::obstacle)
    }

    /// Starts the threads, and waits until all have reserved their memory.
    ///
    /// # Errors
    ///
    /// A stage that can't be run, a thread that can't be started or pinned.
    pub fn start(stages: &[Stage], settings: &WorkersSettings) -> Result<Workers, ExecError> {
        let workers = settings.workers.max(1);
        let layout = MemoryLayout {
            small_frames: settings.memory.small_frames
                + UNDER_WAY
                + workers * (HIGH + RESERVE) as u32,
            large_frames: settings.memory.large_frames + workers * LARGE_HIGH as u32,
            ..settings.memory
        };
        let memory = PacketMemory::new(layout, settings.engine.advise);
        let pool = FramePool::new(memory)
            .ok_or_else(|| ExecError("packet memory was taken twice".to_owned()))?;
        if let Some(core) = settings.spread.ports_core() {
            weir_exec::pin(core).map_err(ExecError)?;
        }
        let policy = match settings.wakeful {
            true => NEVER_PARK,
            false => IdlePolicy::default(),
        };
        let wakers = Wakers::new(settings.spread.threads(workers as usize))?;
        let parts: Vec<Stage> = stages.iter().map(|s| part_of(s, workers)).collect();
        let limits = parts.iter().map(SharedLimits::of);
        let seed = settings.engine.seed;
        let steering = stages.iter().map(|s| Steering::new(s, workers, seed));
        let mut all = Workers {
            pool,
            steering: steering.collect(),
            members: Vec::new(),
            events: EventBox::default(),
            limits: limits.collect(),
            ends: Vec::new(),
            packet_time: Time::ZERO,
            park: Parker::new(&wakers, 0, policy),
            team: Team::new(&wakers),
            gave: false,
            senders: Vec::new(),
            internal: Internal::default(),
        };
        for number in 0..workers {
            all.place(number, &parts, settings)?;
        }
        all.team
            .start(|thread| Parker::new(&wakers, thread, policy))?;
        while !all.team.all_ready() {
            all.join_ended()?;
            all.park.pause(false, &mut ());
        }
        Ok(all)
    }

    fn place(
        &mut self,
        number: u32,
        stages: &[Stage],
        settings: &WorkersSettings,
    ) -> Result<(), ExecError> {
        let (to, input) = stages.iter().map(|_| queue(FRAMES)).unzip();
        let (output, from) = queue(FRAMES);
        let stop = Arc::new(Stop::default());
        let (sender, handler) = CommandHandler::new(false)
            .map_err(|error| ExecError(format!("can't make a command channel: {error}")))?;
        self.senders.push(sender);
        let ends = Ends {
            input,
            output,
            stop: Arc::clone(&stop),
            events: self.events.clone(),
            handler,
        };
        let (stages, config) = (stages.to_vec(), settings.engine);
        let pool = self.pool.share(SHARE, LARGE_SHARE);
        let make = move || WorkerNode::new(number, &stages, config, ends, pool);
        let name = format!("worker {}", number + 1);
        let (thread, core) = settings.spread.of(number as usize);
        self.team.place(thread, core, name, make);
        self.members.push(Member {
            to,
            from,
            stop,
            batch: Vec::with_capacity(BURST),
        });
        Ok(())
    }

    /// Commands to the workers, in their order.
    pub(crate) fn command_senders(&self) -> Vec<CommandSender> {
        self.senders.clone()
    }

    fn join_ended(&mut self) -> Result<(), ExecError> {
        self.ends.extend(self.team.join_ended()?);
        Ok(())
    }

    /// Sums up, when all is over.
    pub fn end(mut self) -> WorkersEnd {
        let mut end = WorkersEnd {
            limits: self.limits,
            ..WorkersEnd::default()
        };
        self.ends.sort_by_key(|(number, _)| *number);
        for (_, worker) in self.ends {
            end.add(&worker.reports, worker.packets, 0, worker.busy);
            end.lies.extend(worker.lies);
            self.pool.join(worker.pool);
        }
        if let Some(report) = end.reports.first_mut() {
            report.add_internal(&self.internal);
        }
        frames::take_reserve(&mut self.pool);
        end.leaked = self.pool.outstanding();
        end
    }
}

impl Executor for Workers {
    fn pool(&mut self) -> &mut FramePool {
        &mut self.pool
    }

    fn room(&self) -> usize {
        let waits = |member: &Member| member.to.iter().any(|queue| queue.waiting() > 0);
        if self.members.iter().any(waits) {
            return 0;
        }
        let reserve = RESERVE * self.members.len() + BURST;
        self.pool.available().saturating_sub(reserve)
    }

    fn take(&mut self, chain: usize, frames: &mut Vec<Frame>) {
        let steering = self.steering.get_mut(chain);
        let Some(steering) = self.internal.expect(steering, NO_CHAIN) else {
            return self.pool.give_all(frames);
        };
        let memory = Arc::clone(self.pool.memory());
        if let Some(last) = frames.last() {
            self.packet_time = self.packet_time.max(memory.meta(last).time);
        }
        for frame in frames.drain(..) {
            let (meta, bytes) = memory.read(&frame);
            let worker = steering.worker_of(meta, bytes) as usize;
            let member = self.members.get_mut(worker);
            match self.internal.expect(member, "there is no such worker") {
                Some(member) => member.batch.push(frame),
                None => self.pool.give(frame),
            }
        }
        for member in &mut self.members {
            if let Some(queue) = self.internal.expect(member.to.get_mut(chain), NO_CHAIN) {
                queue.extend(&mut member.batch);
            }
        }
        self.gave = true;
    }

    fn step(&mut self, out: &mut Vec<Frame>, events: &mut Vec<u8>) -> Result<Round, ExecError> {
        let local = self.team.round()?;
        let mut worked = local.worked;
        for member in &mut self.members {
            worked |= drain(&mut member.from, BURST, out) > 0;
            for queue in &mut member.to {
                self.gave |= queue.waiting() > 0;
                queue.flush();
            }
        }
        if self.team.has_threads() {
            self.gave |= frames::balance(&mut self.pool);
        }
        worked |= self.events.take(events);
        if !worked {
            self.join_ended()?;
        }
        Ok(Round {
            worked,
            gave: std::mem::take(&mut self.gave) || local.gave,
            ..Round::default()
        })
    }

    fn parker(&self) -> Option<&Parker> {
        Some(&self.park)
    }

    fn pass_time(&mut self, now: Time) -> bool {
        for member in &self.members {
            member.stop.pass_time(now);
        }
        false
    }

    fn prepare_park(&mut self) -> bool {
        self.team.prepare_park()
    }

    fn unpark(&mut self) {
        self.team.unpark();
    }

    fn stop(&mut self) {
        let time = self.packet_time;
        for member in &mut self.members {
            // A worker reads its queues after the order to stop: what still waits
            // for room in one has to be in it before.
            if member.to.iter().all(|queue| queue.waiting() == 0) {
                member.stop.set(time);
                self.gave = true;
            }
        }
    }

    fn is_over(&self) -> bool {
        let empty = |member: &Member| member.from.is_empty();
        self.team.all_over() && self.members.iter().all(empty) && self.events.is_empty()
    }
}
