//! `weir run` with interfaces: packets of both directions, until it is told to
//! end.

mod introduce;
mod looks;
mod owned;
mod ran;

use std::time::Instant;

use weir_ctl::command::CommandSender;
use weir_graph::ChainFile;
use weir_io::live::{self, EndSignals, LiveClock, LiveOptions};
use weir_nf::host::Stage;
use weir_packet::{FramePool, MemoryLayout};
use weir_runtime::RuntimeConfig;

use super::commands::command_channel;
use super::control_socket::open_control;
use super::guard::Guardian;
use super::plan::PlanSummary;
use super::ports::Ports;
use super::signals::end_signals;
use super::summary::{Ended, More};
use super::wires::Sorted;
use super::{alone, apart, cluster, network, pipeline, workers};
use crate::args::Run;
use crate::doctor;
use crate::driver::live::{Live, LivePorts, Replay, Speed, Way};
use crate::driver::{ChainPlan, Dispatcher, EventFile, Executor, Lease, Patience, Workers};
use crate::exit::{Failure, Outcome};
use crate::say::say;

use introduce::introduce;
use looks::looks;
use ran::Ran;

/// Refuses what does not go together with interfaces, or without.
pub(super) fn check(args: &Run, ports: &Ports) -> Result<(), Failure> {
    if ports.are_live() {
        return Ok(());
    }
    let only = [
        (
            args.duration.is_some(),
            "--for is for runs with interfaces: others end with their inputs",
        ),
        (
            args.pace != Speed::default(),
            "--pace is for runs with interfaces: others go by the times of packets, as fast as \
             they can",
        ),
    ];
    match only.into_iter().find(|(given, _)| *given) {
        Some((_, message)) => Err(Failure::usage(message)),
        None => Ok(()),
    }
}

/// Chains of one stage each: on this thread, among workers, or behind a switch.
pub(super) fn run(
    args: &Run,
    file: &ChainFile,
    stages: &[Stage],
    plans: &[ChainPlan],
    ports: &Ports,
    config: RuntimeConfig,
) -> Outcome {
    let sorted = looked_at(args, file, ports)?;
    go_first(args)?;
    let memory = sorted.memory()?;
    // Threads that start inherit it: a signal would kill them.
    let signals = end_signals()?;
    let chains = (stages, plans);
    if let Some(runtimes) = args.runtimes {
        let rest = (sorted, signals, memory);
        return switched(args, runtimes, file, chains, rest, config, None);
    }
    if let Some(workers) = args.workers {
        if let Some(obstacle) = Workers::obstacle(stages) {
            let more = workers::by_switch(workers, obstacle);
            let rest = (sorted, signals, memory);
            return switched(args, workers, file, chains, rest, config, Some(more));
        }
        let obstacle = match &args.placed {
            Some(_) => Some("the placement gives the ports a thread".to_owned()),
            None => owned::obstacle(&sorted, workers)?,
        };
        match obstacle {
            None => {
                return owned::run(args, file, stages, sorted, signals, config, workers);
            }
            Some(why) => say(format_args!(
                "note: {why}: one thread has all ports and passes packets to the workers"
            )),
        }
        let settings = workers::settings(args, workers, config, memory);
        let executor = Workers::start(stages, &settings)?;
        let senders = executor.command_senders();
        let ran = drive(args, file, sorted, signals, config.seed, executor, senders)?;
        return ran.end(args, config, |executor, of_run| {
            workers::sum_up(executor, args, of_run);
        });
    }
    let core = alone::core(args, plans)?;
    if let Some(core) = core.or(args.cores.first().copied()) {
        weir_exec::pin(core).map_err(Failure::outside)?;
    }
    let executor = alone::executor(args, stages, config, memory)?;
    let inputs = sorted.all().inputs;
    let ran = drive(
        args,
        file,
        sorted,
        signals,
        config.seed,
        executor,
        Vec::new(),
    )?;
    ran.end(args, config, |executor, of_run| {
        alone::sum_up(executor, args, file, plans, &inputs, of_run);
    })
}

/// Chains of one stage each, behind a switch with so many runtimes.
fn switched(
    args: &Run,
    runtimes: u32,
    file: &ChainFile,
    (stages, plans): (&[Stage], &[ChainPlan]),
    (sorted, signals, memory): (Sorted, EndSignals, MemoryLayout),
    config: RuntimeConfig,
    more: Option<Box<dyn More>>,
) -> Outcome {
    let chains = (stages, plans, cluster::processes(args, runtimes, plans));
    // At full speed captures wait, as the chain takes them.
    let ports_drop = args.pace != Speed::Full;
    let played = cluster::start(args, runtimes, file, chains, (config, memory), ports_drop)?
        .handing_over(args.lease.is_some());
    let senders = played.command_senders();
    let ran = drive(args, file, sorted, signals, config.seed, played, senders)?;
    ran.end(args, config, |played, of_run| {
        played.sum_up(args, more, of_run);
    })
}

/// Plans of several stages.
pub(super) fn pipeline(
    args: &Run,
    file: &ChainFile,
    plans: Vec<ChainPlan>,
    ports: &Ports,
    config: RuntimeConfig,
) -> Outcome {
    let sorted = looked_at(args, file, ports)?;
    go_first(args)?;
    let settings = pipeline::settings(args, config, sorted.memory()?);
    let signals = end_signals()?;
    let plan = PlanSummary::of(&plans);
    let processes = apart::processes(args, &plans, Patience::LIVE);
    let executor = pipeline::start(args, plans, settings, processes)?;
    let senders = executor.command_senders();
    let ran = drive(args, file, sorted, signals, config.seed, executor, senders)?;
    ran.end(args, config, |executor, of_run| {
        pipeline::sum_up(executor, plan, args, file, of_run);
    })
}

/// The ports in their order, once the machine was found fit for them; what is
/// not as it should be is said aloud.
pub(super) fn looked_at(args: &Run, file: &ChainFile, ports: &Ports) -> Result<Sorted, Failure> {
    let sorted = Sorted::of(args, file, ports)?;
    for warning in doctor::before_run(ports.live(), file, &args.cores, args.force)? {
        say(format_args!("warning: {warning}"));
    }
    Ok(sorted)
}

/// This thread, and all that it starts, go before what brings packets on the same cores, if that
/// is wanted.
fn go_first(args: &Run) -> Result<(), Failure> {
    if !args.goes_first() {
        return Ok(());
    }
    if args.never_sleeps() {
        return Err(Failure::usage(
            "threads that go first must sleep now and then, or nobody else has their cores: leave \
             out --first or --busy-poll (in the chain file: `first` or `busy-poll` of `threads`)",
        ));
    }
    live::go_first().map_err(|error| {
        Failure::outside(format!(
            "threads can't go first ({error}): it takes CAP_SYS_NICE, and a control group with a \
             real-time share"
        ))
    })
}

/// Opens the ports, moves packets until the end, and closes them. `senders` are
/// of the executor's own threads.
fn drive<C: Executor>(
    args: &Run,
    file: &ChainFile,
    sorted: Sorted,
    signals: EndSignals,
    seed: u64,
    mut executor: C,
    mut senders: Vec<CommandSender>,
) -> Result<Ran<C>, Failure> {
    let clock = LiveClock::start();
    let takes_over = args.lease.as_ref().is_some_and(Lease::takes_over);
    let (layer, odd) = network::layer(file, &sorted, seed, clock, takes_over)?;
    let events = EventFile::live(&args.events)?;
    let (sender, handler) = command_channel(true)?;
    senders.push(sender);
    let control = open_control(
        args,
        file,
        "live",
        &sorted.all(),
        senders,
        executor.unseen(),
    )?;
    // From here on nothing passes until the ports are open: what can fail for
    // other reasons, or takes its time, was done before.
    let mut guardian = Guardian::ask(args)?;
    let before = guardian.as_ref().map(|guardian| guardian.before);
    let ports = open(args, &sorted, executor.pool(), clock)?;
    let said = introduce(args, &sorted, &ports, &odd);
    if let Some(guardian) = &mut guardian {
        guardian.running()?;
    }
    let looks = looks(args, signals, guardian, clock, handler);
    let mut live = Live::new(executor, ports, layer, Dispatcher::new(file), looks, events);
    live.wakeful = args.never_sleeps();
    let start = Instant::now();
    let mut ended = live.drive();
    let elapsed = start.elapsed();
    // Nothing answers any more.
    drop(control);
    ended = ended.and(live.finish());
    let (inputs, outputs) = live.counters();
    let of_run = Ended {
        inputs,
        outputs,
        refused: live.dispatcher.refused,
        elapsed,
        more: network::summary(live.layer.report(), &sorted)
            .into_iter()
            .chain(before.map(|before| Box::new(before) as Box<dyn More>))
            .collect(),
        warnings: odd
            .into_iter()
            .chain(live.ports.warnings())
            .chain(live.layer.warnings())
            .collect(),
        ..Ended::default()
    };
    Ok(Ran {
        executor: live.executor,
        sorted,
        of_run,
        said,
        events: live.events,
        ended,
    })
}

fn open(
    args: &Run,
    ports: &Sorted,
    pool: &mut FramePool,
    clock: LiveClock,
) -> Result<LivePorts, Failure> {
    let outside = |error: weir_io::port::PortError| Failure::outside(error.to_string());
    let mut open = Vec::new();
    for (number, port) in ports.live.iter().enumerate() {
        let options = LiveOptions {
            number: number as u8,
            side: port.side,
            clock,
            busy_poll: args.never_sleeps(),
        };
        if let Some(live) = port.spec.open_live(options, pool) {
            open.push(Way::Both(live.map_err(outside)?));
        }
    }
    for port in &ports.replays {
        let input = port.spec.open_input(open.len() as u8, port.side);
        let replay = Replay::new(input.map_err(outside)?, args.pace, clock);
        open.push(Way::In(replay));
    }
    for port in &ports.others {
        let number = open.len() as u8;
        open.push(Way::Out(port.spec.open_output(number).map_err(outside)?));
    }
    let stays = ports.stays;
    Ok(LivePorts::new(open, clock, stays))
}
