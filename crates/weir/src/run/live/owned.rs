//! Workers that each own a part of the ports: receive queues, or a member of a group
//! of packet sockets, and a way to send.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_ctl::command::{CommandHandler, CommandSender, LayerReport};
use weir_graph::ChainFile;
use weir_io::live::{
    EndSignals, LiveClock, LiveOptions, LivePort, LiveSpec, live_layout, member_frames,
};
use weir_io::port::{Null, PortCounters, PortError, PortSpec};
use weir_nf::host::Stage;
use weir_packet::{Advise, FramePool, Internal, MemoryLayout, PacketMemory};
use weir_runtime::{Runtime, RuntimeConfig, Steering};

use super::super::commands::command_channel;
use super::super::control_socket::open_control;
use super::super::guard::Guardian;
use super::super::ports::RunPort;
use super::super::summary::{Ended, More};
use super::super::wires::Sorted;
use super::super::{audit, network};
use super::introduce::introduce;
use super::looks::looks;
use super::ran::Ran;
use crate::args::Run;
use crate::driver::live::{
    Group, Layer, Live, LivePorts, Looks, MOST_WORKERS, PanicGuard, Peer, PeerEnd, Queues, Way,
};
use crate::driver::{Dispatcher, EventFile, SharedLimits, WorkersEnd};
use crate::exit::{Failure, Outcome};

/// Small frames of a worker for packets on their way, beside those of its ports'
/// rings: four bursts of each neighbour, and what flows hold.
const UNDER_WAY: u32 = 4_096;
/// Small frames that whichever worker runs short may have.
const RESERVE: usize = 1_024;
/// Large frames of a worker.
const LARGE: u32 = 32;

fn outside(error: PortError) -> Failure {
    Failure::outside(error.to_string())
}

/// Why one thread must have the ports; `None` where so many workers can own parts
/// of them.
pub(super) fn obstacle(sorted: &Sorted, workers: u32) -> Result<Option<String>, Failure> {
    if workers > MOST_WORKERS {
        return Ok(Some(format!(
            "{MOST_WORKERS} workers at most can own ports"
        )));
    }
    if let Some(played) = sorted.replays.first() {
        return Ok(Some(format!("`{}` is played by one thread", played.text)));
    }
    let written = |port: &&RunPort| port.spec != PortSpec::Null;
    if let Some(written) = sorted.others.iter().find(written) {
        return Ok(Some(format!("`{}` is written by one thread", written.text)));
    }
    for port in &sorted.live {
        let PortSpec::Live(live) = &port.spec else {
            return Ok(Some(format!(
                "one thread emulates the link of `{}`",
                port.text
            )));
        };
        let most = live.most_members().map_err(outside)?;
        if most < workers {
            return Ok(Some(match live {
                LiveSpec::Tap { .. } => format!("`{}` has one queue", port.text),
                _ => format!(
                    "`{}` has {most} queue{} to receive and send on (`ethtool -L`)",
                    port.text,
                    if most == 1 { "" } else { "s" }
                ),
            }));
        }
    }
    Ok(None)
}

/// The interfaces; none is behind an emulated link.
fn specs(sorted: &Sorted) -> impl Iterator<Item = &LiveSpec> {
    sorted.live.iter().filter_map(|port| port.spec.live())
}

/// A pool for each worker, over one memory. The first has the reserve's frames, too.
fn pools(sorted: &Sorted, workers: u32, advise: Advise) -> Result<Vec<FramePool>, Failure> {
    let share = member_frames(specs(sorted), workers).map_err(outside)? + UNDER_WAY;
    let layout = MemoryLayout {
        // A whole number of pages.
        small_frames: (workers * share + RESERVE as u32).next_multiple_of(2),
        large_frames: workers * LARGE,
        ..live_layout(specs(sorted)).map_err(outside)?
    };
    let memory = PacketMemory::new(layout, advise);
    let Some(mut first) = FramePool::new(memory) else {
        return Err(Failure::outside("packet memory was taken twice"));
    };
    let mut pools: Vec<FramePool> = (1..workers).map(|_| first.share(share, LARGE)).collect();
    first.to_reserve(RESERVE);
    pools.insert(0, first);
    Ok(pools)
}

/// The parts of a worker, apart from its ports.
struct Plan {
    number: usize,
    stages: Vec<Stage>,
    config: RuntimeConfig,
    steering: Vec<Steering>,
    queues: Queues,
    group: Arc<Group>,
    dispatcher: Dispatcher,
    layer: Box<dyn Layer>,
    clock: LiveClock,
    wakeful: bool,
}

/// A worker's ports, and what is left of its frames.
struct Opened {
    pool: FramePool,
    members: Vec<Box<dyn LivePort>>,
    /// Ports where packets are counted and forgotten.
    nowhere: usize,
}

/// A plan with its runtimes.
struct Ready {
    plan: Plan,
    runtimes: Vec<Runtime>,
}

/// The results of a worker.
struct WorkerEnd {
    ended: Result<(), Failure>,
    peer: PeerEnd,
    inputs: Vec<PortCounters>,
    outputs: Vec<PortCounters>,
    refused: u64,
    layer: LayerReport,
    warnings: Vec<String>,
    busy: Duration,
}

impl Plan {
    /// Reserves the memory of the runtimes, on the thread that will run them.
    fn prepare(self) -> Result<Ready, Failure> {
        let mut runtimes = Vec::new();
        for stage in &self.stages {
            let made = Runtime::new(stage, self.config);
            let mut runtime = made.map_err(|error| Failure::chain(format!("error: {error}")))?;
            runtime.be_worker(self.number as u32);
            runtimes.push(runtime);
        }
        Ok(Ready {
            plan: self,
            runtimes,
        })
    }
}

impl Opened {
    /// The ports, and the frames that are left.
    fn into_ports(self, clock: LiveClock) -> (FramePool, LivePorts) {
        let mut ways: Vec<Way> = self.members.into_iter().map(Way::Both).collect();
        let nowhere = || Way::Out(Box::<Null>::default());
        ways.extend(std::iter::repeat_with(nowhere).take(self.nowhere));
        (self.pool, LivePorts::new(ways, clock, true))
    }
}

impl Ready {
    /// The worker, on its ports.
    fn begin(
        self,
        (pool, ports): (FramePool, LivePorts),
        looks: Looks,
        events: Option<EventFile>,
    ) -> Live<Peer> {
        let Ready { plan, runtimes } = self;
        let peer = Peer::new(
            plan.number,
            pool,
            runtimes,
            plan.steering,
            plan.queues,
            plan.group,
        );
        let mut live = Live::new(peer, ports, plan.layer, plan.dispatcher, looks, events);
        live.wakeful = plan.wakeful;
        live
    }
}

/// Moves packets until the run ends, and ends the worker. `between` is called when no
/// more packets come, before the flows end.
fn work(
    live: &mut Live<Peer>,
    group: &Group,
    between: impl FnOnce(),
) -> (Result<(), Failure>, Duration) {
    let start = Instant::now();
    let driven = live.drive();
    let busy = start.elapsed().saturating_sub(live.asleep());
    group.stop();
    between();
    let ended = driven.and(live.finish());
    // Others must not wait for a worker that failed.
    group.be_over(live.executor.number());
    (ended, busy)
}

impl WorkerEnd {
    fn of(
        live: Live<Peer>,
        (ended, busy): (Result<(), Failure>, Duration),
    ) -> (WorkerEnd, Option<EventFile>) {
        let (inputs, outputs) = live.counters();
        let end = WorkerEnd {
            ended,
            inputs,
            outputs,
            refused: live.dispatcher.refused,
            layer: live.layer.report(),
            warnings: live
                .ports
                .warnings()
                .into_iter()
                .chain(live.layer.warnings())
                .collect(),
            busy,
            peer: live.executor.end(),
        };
        (end, live.events)
    }
}

/// A worker's thread.
struct Thread {
    handle: JoinHandle<Result<Option<WorkerEnd>, Failure>>,
    ready: Receiver<()>,
    ports: Sender<Opened>,
}

impl Thread {
    fn start(plan: Plan, core: Option<usize>, handler: CommandHandler) -> Result<Thread, Failure> {
        let (says, ready) = channel();
        let (ports, opened) = channel::<Opened>();
        let name = format!("worker {}", plan.number + 1);
        let run = move || {
            let group = Arc::clone(&plan.group);
            let _guard = PanicGuard {
                group: &group,
                worker: plan.number,
            };
            if let Some(core) = core {
                weir_exec::pin(core).map_err(Failure::outside)?;
            }
            let ready = plan.prepare()?;
            // Nobody listens any more where the run can't begin.
            let _ = says.send(());
            let Ok(opened) = opened.recv() else {
                return Ok(None);
            };
            let clock = ready.plan.clock;
            let looks = Looks::of_worker(Arc::clone(&group), clock, handler);
            let mut live = ready.begin(opened.into_ports(clock), looks, None);
            let worked = work(&mut live, &group, || ());
            Ok(Some(WorkerEnd::of(live, worked).0))
        };
        let handle = std::thread::Builder::new()
            .name(name)
            .spawn(run)
            .map_err(|error| Failure::outside(format!("can't start a thread: {error}")))?;
        Ok(Thread {
            handle,
            ready,
            ports,
        })
    }

    /// Joins it; `number` is for people.
    fn join(self, number: usize) -> Result<Option<WorkerEnd>, Failure> {
        // It waits for its ports no more.
        drop(self.ports);
        self.handle.join().unwrap_or_else(|panic| {
            let cause = weir_exec::cause_of(panic.as_ref());
            Err(Failure::outside(format!(
                "worker {number} has died of a bug: {cause}"
            )))
        })
    }
}

/// The plans of so many workers, and what to warn of.
fn plans(
    args: &Run,
    file: &ChainFile,
    stages: &[Stage],
    sorted: &Sorted,
    config: RuntimeConfig,
    group: &Arc<Group>,
    clock: LiveClock,
) -> Result<(Vec<Plan>, Vec<String>), Failure> {
    let workers = group.count() as u32;
    let parts: Vec<Stage> = stages
        .iter()
        .map(|s| crate::driver::part_of(s, workers))
        .collect();
    let queues = Queues::between(group.count(), stages.len());
    let (layers, odd) = network::layers(file, sorted, config.seed, clock, group)?;
    let plan = |((number, queues), layer)| {
        let steering = stages
            .iter()
            .map(|s| Steering::new(s, workers, config.seed));
        Plan {
            number,
            stages: parts.clone(),
            config,
            steering: steering.collect(),
            queues,
            group: Arc::clone(group),
            dispatcher: Dispatcher::new(file),
            layer,
            clock,
            wakeful: args.never_sleeps(),
        }
    };
    let queues = queues.into_iter().enumerate();
    Ok((queues.zip(layers).map(plan).collect(), odd))
}

/// Opens the ports: what each worker owns of them.
fn open(
    args: &Run,
    sorted: &Sorted,
    mut pools: Vec<FramePool>,
    clock: LiveClock,
) -> Result<Vec<Opened>, Failure> {
    let mut members: Vec<Vec<Box<dyn LivePort>>> = pools.iter().map(|_| Vec::new()).collect();
    for (number, (port, spec)) in sorted.live.iter().zip(specs(sorted)).enumerate() {
        let options = LiveOptions {
            number: number as u8,
            side: port.side,
            clock,
            busy_poll: args.never_sleeps(),
        };
        let opened = spec.open_members(options, &mut pools).map_err(outside)?;
        for (members, member) in members.iter_mut().zip(opened) {
            members.push(member);
        }
    }
    let each = pools.into_iter().zip(members);
    Ok(each
        .map(|(pool, members)| Opened {
            pool,
            members,
            nowhere: sorted.others.len(),
        })
        .collect())
}

/// Workers that can work once they have ports.
struct Prepared {
    group: Arc<Group>,
    clock: LiveClock,
    first: Ready,
    handler: CommandHandler,
    /// The other workers.
    threads: Vec<Thread>,
    /// Command channels of all workers; that of the first comes last.
    senders: Vec<CommandSender>,
    limits: Vec<SharedLimits>,
    /// Warnings for the operator.
    odd: Vec<String>,
}

/// Starts the threads, and waits until all have reserved their memory.
fn prepare(
    args: &Run,
    file: &ChainFile,
    stages: &[Stage],
    sorted: &Sorted,
    config: RuntimeConfig,
    workers: u32,
) -> Result<Prepared, Failure> {
    let clock = LiveClock::start();
    let group = Arc::new(Group::new(workers as usize)?);
    let core = |number: usize| args.cores.get(number % args.cores.len().max(1)).copied();
    let (mut others, odd) = plans(args, file, stages, sorted, config, &group, clock)?;
    let first = others.remove(0);
    let limits = first.stages.iter().map(SharedLimits::of).collect();
    if let Some(core) = core(0) {
        weir_exec::pin(core).map_err(Failure::outside)?;
    }
    let (mut threads, mut senders) = (Vec::new(), Vec::new());
    for plan in others {
        let (sender, handler) = command_channel(true)?;
        senders.push(sender);
        let core = core(plan.number);
        threads.push(Thread::start(plan, core, handler)?);
    }
    let (sender, handler) = command_channel(true)?;
    senders.push(sender);
    let first = first.prepare()?;
    if !threads.iter().all(|thread| thread.ready.recv().is_ok()) {
        join(threads)?;
        return Err(Failure::outside("a worker could not begin"));
    }
    Ok(Prepared {
        group,
        clock,
        first,
        handler,
        threads,
        senders,
        limits,
        odd,
    })
}

/// Joins threads: what they leave behind, and the first failure where one has failed
/// before it had its ports, or panicked.
fn join(threads: Vec<Thread>) -> Result<Vec<WorkerEnd>, Failure> {
    let joined: Vec<_> = (2..)
        .zip(threads)
        .map(|(number, thread)| thread.join(number))
        .collect();
    let ends: Result<Vec<Option<WorkerEnd>>, Failure> = joined.into_iter().collect();
    Ok(ends?.into_iter().flatten().collect())
}

/// Runs so many workers, each on a part of the ports; the first on the calling thread,
/// which writes the events and takes the signals.
pub(super) fn run(
    args: &Run,
    file: &ChainFile,
    stages: &[Stage],
    sorted: Sorted,
    signals: EndSignals,
    config: RuntimeConfig,
    workers: u32,
) -> Outcome {
    let events = EventFile::live(&args.events)?;
    let prepared = prepare(args, file, stages, &sorted, config, workers)?;
    let Prepared { group, clock, .. } = &prepared;
    let (group, clock) = (Arc::clone(group), *clock);
    let all = sorted.all();
    let control = open_control(args, file, "live", &all, prepared.senders, Vec::new())?;
    let pools = pools(&sorted, workers, config.advise)?;
    // From here on nothing passes until the ports are open: what can fail for
    // other reasons, or takes its time, was done before.
    let mut guardian = Guardian::ask(args)?;
    let before = guardian.as_ref().map(|guardian| guardian.before);
    let mut opened = open(args, &sorted, pools, clock)?;
    let (pool, ports) = opened.remove(0).into_ports(clock);
    let said = introduce(args, &sorted, &ports, &prepared.odd);
    if let Some(guardian) = &mut guardian {
        guardian.running()?;
    }
    for (thread, opened) in prepared.threads.iter().zip(opened) {
        // One that is gone says why when it is joined.
        let _ = thread.ports.send(opened);
    }
    let looks = looks(args, signals, guardian, clock, prepared.handler);
    let looks = looks.in_group(Arc::clone(&group));
    let start = Instant::now();
    let mut live = prepared.first.begin((pool, ports), looks, events);
    let guard = PanicGuard {
        group: &group,
        worker: 0,
    };
    let worked = work(&mut live, &group, || drop(control));
    drop(guard);
    let elapsed = start.elapsed();
    let (first, mut events) = WorkerEnd::of(live, worked);
    let others = join(prepared.threads);
    if let Some(events) = &mut events {
        // The first worker takes no more events once it has failed.
        let mut rest = Vec::new();
        group.take_events(&mut rest);
        events.offer_lines(&rest);
    }
    let mut lies = Vec::new();
    for worker in others.iter().flatten().chain([&first]) {
        lies.extend_from_slice(&worker.peer.lies);
    }
    let (of_run, ended) = sum_up(first, others, prepared.limits, &sorted, elapsed);
    let mut ran = Ran {
        executor: (),
        of_run,
        said,
        events,
        ended,
        sorted,
    };
    let own = before.map(|before| Box::new(before) as Box<dyn More>);
    ran.of_run.more.extend(own);
    ran.of_run.warnings.extend(prepared.odd);
    ran.end(args, config, |(), of_run| {
        audit::add(args, lies, of_run);
    })
}

/// Sums up the results of all workers; fails with the first failure.
fn sum_up(
    first: WorkerEnd,
    others: Result<Vec<WorkerEnd>, Failure>,
    limits: Vec<SharedLimits>,
    sorted: &Sorted,
    elapsed: Duration,
) -> (Ended, Result<(), Failure>) {
    let (others, mut ended) = match others {
        Ok(others) => (others, Ok(())),
        Err(failure) => (Vec::new(), Err(failure)),
    };
    let mut of_run = Ended {
        inputs: vec![PortCounters::default(); first.inputs.len()],
        outputs: vec![PortCounters::default(); first.outputs.len()],
        elapsed,
        ..Ended::default()
    };
    let mut end = WorkersEnd {
        limits,
        own_ports: true,
        ..WorkersEnd::default()
    };
    let mut layer = LayerReport::Bump;
    let mut internal = Internal::default();
    let mut peers = Vec::new();
    for worker in std::iter::once(first).chain(others) {
        ended = ended.and(worker.ended);
        add_ports(&mut of_run.inputs, &worker.inputs);
        add_ports(&mut of_run.outputs, &worker.outputs);
        of_run.refused += worker.refused;
        of_run.warnings.extend(worker.warnings);
        layer.add(&worker.layer);
        internal.add(&worker.peer.internal);
        end.add(
            &worker.peer.reports,
            worker.peer.packets,
            worker.peer.steered,
            worker.busy,
        );
        peers.push(worker.peer);
    }
    of_run.more.extend(network::summary(layer, sorted));
    of_run.internal(&internal);
    let gathered = PeerEnd::gather(peers);
    end.leaked = gathered.missing;
    end.unprocessed = gathered.unprocessed as u64;
    if gathered.unprocessed > 0 {
        of_run.warnings.push(format!(
            "{} packets were queued for a worker that had failed, and are lost (`worker_failed`)",
            gathered.unprocessed
        ));
    }
    // After a panic the frames of that worker are gone.
    if ended.is_ok() {
        of_run.leaked(end.leaked);
    }
    of_run.reports.clone_from(&end.reports);
    of_run.more.push(Box::new(end));
    (of_run, ended)
}

fn add_ports(sums: &mut [PortCounters], counts: &[PortCounters]) {
    for (sum, counts) in sums.iter_mut().zip(counts) {
        sum.add(counts);
    }
}
