//! `weir run --runtimes`: a switch and runtimes on threads, with a script.

use std::net::SocketAddr;

use weir_graph::{ChainFile, MOST_RUNTIMES, Script};
use weir_nf::host::Stage;
use weir_packet::MemoryLayout;
use weir_protocol::settings::Replication;
use weir_runtime::RuntimeConfig;

use crate::args::{Host, Run, ScalingBy};
use crate::chains;
use crate::driver::process::digest_of_chains;
use crate::driver::{ChainPlan, Cluster, ClusterSettings, RemoteHosts, RuntimeProcesses};
use crate::exit::{Failure, Outcome};

use super::conclude::conclude;
use super::identity::{beats, key, name_of, start_of};
use super::input::Input;
use super::line::Line;
use super::onlook::Watched;
use super::placement;
use super::played::Played;
use super::player::Player;
use super::ports::Ports;
use super::scaling::Scaler;
use super::summary::More;
use super::tenants::tenants;
use super::{apart, upgrade};

#[allow(clippy::too_many_arguments)] // each is a part of the run
pub(super) fn run(
    args: &Run,
    runtimes: u32,
    file: &ChainFile,
    (plans, stages): (&[ChainPlan], &[Stage]),
    ports: &Ports,
    config: RuntimeConfig,
    more: Option<Box<dyn More>>,
    watched: &mut Watched<'_>,
) -> Outcome {
    let mut input = Input::open(ports)?;
    if let Some(raised) = &args.raised {
        input.go_on_behind(raised.mark.clone());
    }
    // Watches that are armed at the start see engines of this process alone.
    let processes = match watched.is_on() {
        false => processes(args, runtimes, plans),
        true => None,
    };
    let memory = ports.memory();
    let chains = (stages, plans, processes);
    let executor = start(args, runtimes, file, chains, (config, memory), false)?;
    let executor = match ports.inputs.len() {
        0 | 1 => executor,
        _ => executor.in_turns(file),
    };
    let senders = executor.command_senders();
    let mut line = Line::open(executor, input, args, file, ports)?;
    line.open_control(args, file, ports, "runtimes", senders)?;
    let (mut of_run, ended) = line.drive(args, watched)?;
    line.executor.sum_up(args, more, &mut of_run);
    conclude(args, ports, of_run, ended, config.seed, watched)
}

/// Refuses a replication without runtimes between which states could be replicated, and fewer
/// runtimes at most than at the start.
pub(super) fn check(args: &Run) -> Result<(), Failure> {
    let replicates = args.replication.is_some_and(|how| how != Replication::None);
    match args.runtimes {
        None if replicates => Err(Failure::usage(
            "`--replication` needs runtimes that have one another's states: say how many with `--runtimes N`",
        )),
        Some(1) if replicates && loggers(args) == 0 => Err(Failure::usage(
            "`--replication` needs a second runtime or a logger: say `--runtimes 2` or more, or \
             `--loggers 1`",
        )),
        Some(_) if args.hosts.is_empty() && has_far_logger(args) => Err(Failure::usage(
            "loggers are on other hosts: say with `--hosts` where runtimes are (`--hosts local` for \
             this one), and with `--key` how hosts know one another",
        )),
        Some(_) if !replicates && loggers(args) > 0 => Err(Failure::usage(
            "loggers keep copies of states, and none are made: say `--replication each-burst`, or \
             leave out `--loggers`",
        )),
        Some(runtimes) if args.most_runtimes.is_some_and(|most| most < runtimes) => {
            Err(Failure::usage(format!(
                "there are {runtimes} runtimes at the start: `--most-runtimes` is {runtimes} or more"
            )))
        }
        Some(runtimes) => {
            fits(places(args, runtimes), loggers(args))?;
            scaling_fits(args, runtimes)
        }
        None => Ok(()),
    }
}

/// Refuses more runtimes and loggers than a cluster may have.
fn fits(runtimes: u32, loggers: u32) -> Result<(), Failure> {
    match runtimes + loggers {
        0..=MOST_RUNTIMES => Ok(()),
        both => Err(Failure::usage(format!(
            "{runtimes} runtimes and {loggers} loggers make {both}: a cluster has at most \
             {MOST_RUNTIMES} of both"
        ))),
    }
}

/// True where a logger is on another host.
fn has_far_logger(args: &Run) -> bool {
    let mut loggers = args.loggers.iter().flat_map(|all| &all.0);
    loggers.any(|host| *host != Host::Local)
}

/// How many loggers a run has.
pub(super) fn loggers(args: &Run) -> u32 {
    args.loggers.as_ref().map_or(0, |all| all.0.len() as u32)
}

/// Refuses a range of runtimes in which those of the start are not, or for which there are too few
/// places.
fn scaling_fits(args: &Run, runtimes: u32) -> Result<(), Failure> {
    let Some(ScalingBy(by)) = args.scaling else {
        return Ok(());
    };
    let (minimum, maximum) = (by.minimum, by.maximum);
    if !(minimum..=maximum).contains(&runtimes) {
        return Err(Failure::usage(format!(
            "`--runtimes {runtimes}` is not within `--scaling {minimum}-{maximum}`"
        )));
    }
    match args.most_runtimes {
        Some(most) if most < maximum => Err(Failure::usage(format!(
            "`--scaling` may start {maximum} runtimes: `--most-runtimes` is {maximum} or more"
        ))),
        _ => Ok(()),
    }
}

/// Starts a cluster, with what its script says. Its ports drop what there is no room for, or
/// else wait.
pub(super) fn start(
    args: &Run,
    runtimes: u32,
    file: &ChainFile,
    (stages, plans, processes): (&[Stage], &[ChainPlan], Option<RuntimeProcesses>),
    (config, memory): (RuntimeConfig, MemoryLayout),
    ports_drop: bool,
) -> Result<Played, Failure> {
    let script = script(args, runtimes, file)?;
    fits(places_with(args, runtimes, &script), loggers(args))?;
    let settings = ClusterSettings {
        processes,
        tenants: tenants(args, file)?,
        ports_drop,
        remote: remote(args, places_with(args, runtimes, &script), plans)?,
        ..settings(args, runtimes, &script, config, memory)
    };
    let cluster = Cluster::start(stages, settings)?;
    let scaler = args.scaling.as_ref();
    let has_flowlets = args.flowlets.is_some();
    let scaler = scaler.map(|by| Scaler::new(by, has_flowlets)).transpose();
    let scaler = scaler.map_err(Failure::usage)?;
    Ok(Played::new(cluster, Player::new(script, file)).scaled(scaler))
}

/// The runtimes that have processes of their own: all with `--processes`, else those that
/// the placement says.
pub(super) fn processes(
    args: &Run,
    runtimes: u32,
    plans: &[ChainPlan],
) -> Option<RuntimeProcesses> {
    let places = match &args.placed {
        Some(placed) => placement::in_processes(placed, runtimes),
        None if args.processes => (0..runtimes as usize).collect(),
        None => Vec::new(),
    };
    (!places.is_empty()).then(|| RuntimeProcesses {
        command: apart::command(),
        places,
        digest: digest_of_chains(plans),
    })
}

/// The hosts of the runtimes, where some are others than this one.
fn remote(args: &Run, runtimes: u32, plans: &[ChainPlan]) -> Result<Option<RemoteHosts>, Failure> {
    let agent = |host: &Host| match host {
        Host::Local => None,
        Host::Agent(at) => Some(*at),
    };
    let agents: Vec<Option<SocketAddr>> = args.hosts.iter().map(agent).collect();
    let loggers = args.loggers.iter().flat_map(|all| &all.0);
    let logger_agents: Vec<Option<SocketAddr>> = loggers.map(agent).collect();
    if agents.iter().chain(&logger_agents).all(Option::is_none) {
        return Ok(None);
    }
    let Some(key) = key(args)? else {
        return Ok(None);
    };
    let start = start_of(args);
    upgrade::note_start(start);
    Ok(Some(RemoteHosts {
        agents,
        logger_agents,
        runtimes: runtimes as usize,
        key,
        beats: beats(args),
        run: name_of(args),
        digest: digest_of_chains(plans),
        start,
        before: args
            .raised
            .as_ref()
            .and_then(|raised| raised.before)
            .or(upgrade::before()),
        lease: args.lease.clone(),
    }))
}

/// The script of a run; an empty one without.
fn script(args: &Run, runtimes: u32, file: &ChainFile) -> Result<Script, Failure> {
    match &args.script {
        Some(path) => chains::load_script(path, runtimes, file),
        None => Ok(Script::default()),
    }
}

/// Runtimes that there may be at a time, without those that a script adds.
pub(super) fn places(args: &Run, runtimes: u32) -> u32 {
    let scaled = args.scaling.map_or(runtimes, |by| by.0.maximum);
    args.most_runtimes.unwrap_or(scaled).max(runtimes)
}

/// The same, with those that a script adds.
fn places_with(args: &Run, runtimes: u32, script: &Script) -> u32 {
    (runtimes + script.added).max(places(args, runtimes))
}

/// The settings of a cluster.
fn settings(
    args: &Run,
    runtimes: u32,
    script: &Script,
    engine: RuntimeConfig,
    memory: MemoryLayout,
) -> ClusterSettings {
    let (most, loggers) = (places_with(args, runtimes, script), loggers(args));
    ClusterSettings {
        runtimes,
        most_runtimes: most,
        loggers,
        spread: placement::spread(args, most + loggers),
        dispatch: args.dispatch.into(),
        flowlets: args.flowlets.map(|by| by.0),
        replication: args.replication.unwrap_or_default(),
        engine,
        memory,
        wakeful: args.never_sleeps(),
        happened: args.happened.clone(),
        ledger: (args.billing.as_ref()).map(|billing| billing.ledger.clone()),
        ..ClusterSettings::default()
    }
}
