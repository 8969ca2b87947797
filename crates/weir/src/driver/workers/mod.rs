//! Workers: plain runtimes on threads, each with the flows that are steered to
//! it, where a chain keeps nothing that flows of several pairs of hosts share.
//! The driver behind `weir run --workers`.
//!
//! The calling thread has the ports: it steers packets
//! ([`weir_runtime::Steering`]) into the workers' rings and takes out of theirs
//! what leaves. There is no switch, so nothing moves, and the order of packets
//! is that of each pair of hosts.

mod thread;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rtrb::Consumer;
use weir_io::{IdlePolicy, Waker};
use weir_nf::host::Stage;
use weir_packet::{Frame, FramePool, MemoryLayout, PacketMemory, Time};
use weir_runtime::{Obstacle, Report, RuntimeConfig, Steering};

use super::cluster::ClusterError;
use super::crew::{Crew, EventBox, cause_of};
use super::inbox::{Inbox, Post};
use super::rest::{Sleeper, WAKEFUL, Wakers};

use super::ring::{Lane, drain, lane};
use super::spares::{self, LARGE_SHARE, SHARE, Spares, spare_rings};
use thread::{WorkerEnds, WorkerPlan, WorkerSignals};

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

/// What workers are made of; without more a single one.
#[derive(Clone, Debug, Default)]
pub struct WorkersSettings {
    /// Workers, at least one.
    pub workers: u32,
    /// Cores to keep threads on: the ports' on the first, the workers on the
    /// others in turn. The machine decides where there are none.
    pub cores: Vec<usize>,
    /// What engines are given.
    pub engine: RuntimeConfig,
    /// Frames that the ports need beside those of packets under way, and their
    /// sizes.
    pub memory: MemoryLayout,
    /// No thread ever sleeps.
    pub wakeful: bool,
}

/// What one worker did.
#[derive(Clone, Debug)]
pub struct WorkerCounts {
    /// Packets that came to it.
    pub packets: u64,
    /// Flows that it opened.
    pub flows: u64,
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

/// What workers did.
#[derive(Debug, Default)]
pub struct WorkersEnd {
    /// Per chain, of all workers together.
    pub reports: Vec<Report>,
    /// Per worker.
    pub workers: Vec<WorkerCounts>,
    /// Per chain.
    pub limits: Vec<SharedLimits>,
    /// Frames that nobody gave back; 0 unless there is a bug.
    pub leaked: usize,
}

struct Member {
    /// Per chain.
    to: Vec<Lane<Frame>>,
    from: Consumer<Frame>,
    spares: Spares,
    signals: Arc<WorkerSignals>,
    thread: Option<JoinHandle<Result<thread::WorkerEnd, String>>>,
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
    ends: Vec<(usize, thread::WorkerEnd)>,
    packet_time: Time,
    rest: Sleeper,
    /// Packets were put into rings since the workers were last woken.
    gave: bool,
    posts: Vec<Post>,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers")
            .field("members", &self.members.len())
            .finish_non_exhaustive()
    }
}

/// The stage as one of so many workers runs it: the limits are shared out.
fn part_of(stage: &Stage, workers: u32) -> Stage {
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
    pub fn start(stages: &[Stage], settings: &WorkersSettings) -> Result<Workers, ClusterError> {
        let workers = settings.workers.max(1);
        let layout = MemoryLayout {
            small_frames: settings.memory.small_frames
                + UNDER_WAY
                + workers * (SHARE + RESERVE as u32),
            large_frames: settings.memory.large_frames + workers * LARGE_SHARE,
            ..settings.memory
        };
        let memory = PacketMemory::new(layout, settings.engine.advise);
        let pool = FramePool::new(memory)
            .ok_or_else(|| ClusterError("packet memory was taken twice".to_owned()))?;
        if let Some(core) = settings.cores.first() {
            super::pin(*core).map_err(ClusterError)?;
        }
        let policy = match settings.wakeful {
            true => WAKEFUL,
            false => IdlePolicy::default(),
        };
        let wakers = Wakers::new(workers as usize)?;
        let parts: Vec<Stage> = stages.iter().map(|s| part_of(s, workers)).collect();
        let limits = parts.iter().map(|part| SharedLimits {
            chain: part.chain.clone(),
            flows: part.flows.max,
            buffer_bytes: part.flows.buffer_bytes,
        });
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
            rest: Sleeper::new(&wakers, 0, policy),
            gave: false,
            posts: Vec::new(),
        };
        for number in 0..workers {
            let rest = Sleeper::new(&wakers, number as usize + 1, policy);
            all.spawn(number, &parts, settings, rest)?;
        }
        while !all.members.iter().all(|m| m.signals.ready()) {
            all.look_after_all()?;
            all.rest.after(false, &mut ());
        }
        Ok(all)
    }

    fn spawn(
        &mut self,
        number: u32,
        stages: &[Stage],
        settings: &WorkersSettings,
        rest: Sleeper,
    ) -> Result<(), ClusterError> {
        let cores = &settings.cores;
        let core = match cores.len() {
            0 => None,
            1 => cores.first(),
            n => cores.get(1 + number as usize % (n - 1)),
        };
        let (to, input) = stages.iter().map(|_| lane(FRAMES)).unzip();
        let (output, from) = lane(FRAMES);
        let (spares, their_spares) = spare_rings();
        let signals = Arc::new(WorkerSignals::default());
        let (post, inbox) = Inbox::new(false)
            .map_err(|error| ClusterError(format!("can't make an inbox: {error}")))?;
        self.posts.push(post);
        let plan = WorkerPlan {
            number,
            stages: stages.to_vec(),
            config: settings.engine,
            core: core.copied(),
            rest,
            ends: WorkerEnds {
                input,
                output,
                spares: their_spares,
                signals: Arc::clone(&signals),
                events: self.events.clone(),
                inbox,
            },
            pool: self.pool.share(SHARE, LARGE_SHARE),
        };
        let thread = std::thread::Builder::new()
            .name(format!("worker {}", number + 1))
            .spawn(move || thread::run(plan))
            .map_err(|error| ClusterError(format!("can't start a thread: {error}")))?;
        self.members.push(Member {
            to,
            from,
            spares,
            signals,
            thread: Some(thread),
            batch: Vec::with_capacity(BURST),
        });
        Ok(())
    }

    /// Where the workers are asked, in their order.
    pub(crate) fn posts(&self) -> Vec<Post> {
        self.posts.clone()
    }

    fn look_after_all(&mut self) -> Result<(), ClusterError> {
        for (number, member) in self.members.iter_mut().enumerate() {
            if !member.thread.as_ref().is_some_and(JoinHandle::is_finished) {
                continue;
            }
            let Some(thread) = member.thread.take() else {
                continue;
            };
            match thread.join() {
                Ok(Ok(end)) => self.ends.push((number, end)),
                Ok(Err(message)) => return Err(ClusterError(message)),
                Err(panic) => {
                    let cause = cause_of(panic.as_ref());
                    return Err(ClusterError(format!(
                        "worker {} has died of a bug: {cause}",
                        number + 1
                    )));
                }
            }
        }
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
            end.workers.push(WorkerCounts {
                packets: worker.packets,
                flows: worker.reports.iter().map(|r| r.flows.seen).sum(),
                busy: worker.busy,
            });
            for (chain, report) in worker.reports.iter().enumerate() {
                match end.reports.get_mut(chain) {
                    Some(sum) => sum.add(report),
                    None => end.reports.push(report.clone()),
                }
            }
            self.pool.join(worker.pool);
        }
        spares::take_reserve(&mut self.pool);
        end.leaked = self.pool.outstanding();
        end
    }
}

impl Crew for Workers {
    fn pool(&mut self) -> &mut FramePool {
        &mut self.pool
    }

    fn room(&self) -> usize {
        let waits = |member: &Member| member.to.iter().any(|lane| lane.waiting() > 0);
        if self.members.iter().any(waits) {
            return 0;
        }
        let reserve = RESERVE * self.members.len() + BURST;
        self.pool.available().saturating_sub(reserve)
    }

    fn take(&mut self, chain: usize, frames: &mut Vec<Frame>) {
        let Some(steering) = self.steering.get_mut(chain) else {
            return self.pool.give_all(frames);
        };
        let memory = Arc::clone(self.pool.memory());
        if let Some(last) = frames.last() {
            self.packet_time = self.packet_time.max(memory.meta(last).time);
        }
        for frame in frames.drain(..) {
            let (meta, bytes) = memory.read(&frame);
            let worker = steering.worker_of(meta, bytes) as usize;
            match self.members.get_mut(worker) {
                Some(member) => member.batch.push(frame),
                // It names none but these.
                None => self.pool.give(frame),
            }
        }
        for member in &mut self.members {
            if let Some(lane) = member.to.get_mut(chain) {
                lane.extend(&mut member.batch);
            }
        }
        self.gave = true;
    }

    fn step(
        &mut self,
        out: &mut Vec<Frame>,
        events: &mut Vec<u8>,
        may_rest: bool,
    ) -> Result<bool, ClusterError> {
        let mut worked = false;
        for member in &mut self.members {
            worked |= drain(&mut member.from, BURST, out) > 0;
            for lane in &mut member.to {
                self.gave |= lane.waiting() > 0;
                lane.flush(Time::ZERO);
            }
            if member.thread.is_some() {
                self.gave |= spares::balance(&mut self.pool, &mut member.spares);
            }
        }
        worked |= self.events.take(events);
        if !worked {
            self.look_after_all()?;
        }
        if worked || self.gave {
            self.rest.wake_others();
            self.gave = false;
        }
        if worked || may_rest {
            self.rest.pause(worked, &mut ());
        }
        Ok(worked)
    }

    fn bed(&self) -> Option<(&Waker, Duration)> {
        self.rest.bed()
    }

    fn stop(&mut self) {
        let time = self.packet_time;
        for member in &mut self.members {
            // A worker looks at its rings after this: what still waits for a
            // place in one has to be in it before.
            if member.to.iter().all(|lane| lane.waiting() == 0) {
                member.signals.stop(time);
                self.gave = true;
            }
        }
    }

    fn is_over(&self) -> bool {
        let over = |member: &Member| member.thread.is_none() && member.from.is_empty();
        self.members.iter().all(over) && self.events.is_empty()
    }
}
