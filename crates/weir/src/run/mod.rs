//! `weir run`: packets from ports through chains to ports.

pub(crate) mod agent;
mod alone;
pub(crate) mod apart;
mod audit;
mod cluster;
mod cluster_summary;
mod commands;
mod conclude;
#[cfg_attr(not(feature = "control"), path = "control_absent.rs")]
mod control_socket;
mod engine_config;
mod events_told;
mod frames;
mod guard;
mod identity;
mod input;
mod line;
mod live;
mod network;
mod onlook;
mod pipeline;
pub(crate) mod placement;
mod plan;
mod played;
mod player;
mod ports;
mod progress;
mod refusals;
#[cfg(feature = "control")]
mod reload;
mod replacement;
mod resize;
mod scaling;
#[cfg(feature = "control")]
mod sets;
mod signals;
#[cfg(feature = "control")]
pub(crate) use signals::end_signals;
mod standby;
mod summary;
mod table;
mod tenants;
mod texts;
pub(crate) mod up;
mod upgrade;
mod wires;
mod workers;

use weir_graph::ChainFile;
use weir_nf::Sets;
use weir_nf::host::{Kind, Stage};
use weir_runtime::{RunAtStart, RuntimeConfig};

use crate::args::{Again, Run};
use crate::billing::{self, Billing};
use crate::driver::ChainPlan;
use crate::exit::{Exit, Failure, Outcome};
use crate::{chains, program, seed};

use engine_config::engine_config;
use onlook::Watched;
pub(crate) use onlook::{Onlooker, input_names, places};
pub(crate) use ports::{Also, Ports, once};
use standby::Stood;

pub(crate) fn run(args: &Run, kinds: &[Kind]) -> Outcome {
    run_with(args, kinds, None, Watched(None))
}

/// Runs packets of captures through a chain while somebody looks on, who has
/// armed watches `at_start`.
pub(crate) fn run_watched(
    args: &Run,
    kinds: &[Kind],
    at_start: RunAtStart,
    onlooker: &mut dyn Onlooker,
) -> Outcome {
    run_with(args, kinds, Some(at_start), Watched(Some(onlooker)))
}

fn run_with(
    args: &Run,
    kinds: &[Kind],
    at_start: Option<RunAtStart>,
    watched: Watched<'_>,
) -> Outcome {
    signals::hold_hangups()?;
    weir_exec::check_cores(&args.cores).map_err(Failure::usage)?;
    let seed = args.seed.unwrap_or_else(seed::random);
    if program::is_tried() {
        texts::inherit();
        texts::load(args, seed, kinds)?;
        return Ok(Exit::Done);
    }
    let resumes = upgrade::resume()?;
    let file = match (args.guarded, resumes) {
        (true, _) => {
            texts::inherit();
            texts::load(args, seed, kinds)?
        }
        (false, true) => texts::load(args, seed, kinds)?,
        (false, false) => {
            let path = (args.chain.as_path(), chains::From::Anything);
            let with = (seed, &Sets::default());
            let (file, read) = chains::read_chains(path, &args.templates, &args.set, with, kinds)?;
            chains::tell_warnings(&file);
            texts::keep(read);
            file
        }
    };
    upgrade::conclude(run_loaded(args, &file, (seed, kinds), at_start, watched))
}

/// Runs packets through chains that are loaded, with this seed and functions of these kinds.
fn run_loaded(
    args: &Run,
    file: &ChainFile,
    (seed, kinds): (u64, &[Kind]),
    at_start: Option<RunAtStart>,
    mut watched: Watched<'_>,
) -> Outcome {
    #[cfg(feature = "control")]
    sets::restore(file)?;
    let written = &placement::applied(args, file)?;
    let args = &Run {
        again: Some(Again {
            kinds: kinds.to_vec(),
            seed,
            cores: written.cores.clone(),
        }),
        ..written.with(&file.threads)
    };
    chains::check_cores(&args.cores, &args.chain)?;
    cluster::check(args)?;
    let also = Also {
        chain: &args.chain,
        script: args.script.as_deref(),
        events: &args.events,
    };
    let ports = Ports::parse(&args.input, &args.out, file, also)?;
    live::check(args, &ports)?;
    network::check(args, file, &ports)?;
    standby::check(args, file)?;
    if guard::wanted(args, file, &ports) {
        return guard::run(args, &ports);
    }
    let config = RuntimeConfig {
        at_start,
        ..engine_config(args, seed)
    };
    // To the compiler cores of the command line are not those of the file,
    // before which come a chain's own.
    let plans = plan::plans(written, file)?;
    let stages = plans.iter().map(|chain| plan::only_stage(chain).cloned());
    let Some(stages) = stages.collect::<Option<Vec<Stage>>>() else {
        frames::check_one_stage(args)?;
        if ports.are_live() {
            return live::pipeline(args, file, plans, &ports, config);
        }
        return pipeline::run(args, file, plans, &ports, config, &mut watched);
    };
    if args.standby && ports.are_live() {
        // One that could not run must not seem to stand by.
        live::looked_at(args, file, &ports)?;
    }
    let args = &billed(args, file)?;
    let args = &match standby::stand(args, &plans)? {
        Stood::Alone => args.clone(),
        Stood::Has(lease) => Run {
            lease: Some(lease),
            ..args.clone()
        },
        Stood::Ended => return Ok(Exit::Done),
    };
    if ports.are_live() {
        return live::run(args, file, &stages, &plans, &ports, config);
    }
    let chains = (&*plans, &*stages);
    whole_chains(args, file, chains, &ports, config, &mut watched)
}

/// The same run with a ledger, where it has switches, and none that another process keeps.
fn billed(args: &Run, file: &ChainFile) -> Result<Run, Failure> {
    if args.runtimes.is_none() || args.billing.is_some() {
        return Ok(args.clone());
    }
    let stem = args.chain.file_stem().unwrap_or_default().to_string_lossy();
    let name = args.name.as_deref().unwrap_or(&stem);
    let ledger = billing::open(args.ledger.as_deref(), billing::names(name, None, file))?;
    Ok(Run {
        billing: Some(Billing {
            ledger,
            folder: args.ledger.clone(),
            prices: None,
        }),
        ..args.clone()
    })
}

/// Chains of one stage each, between captures.
fn whole_chains(
    args: &Run,
    file: &ChainFile,
    chains: (&[ChainPlan], &[Stage]),
    ports: &Ports,
    config: RuntimeConfig,
    watched: &mut Watched<'_>,
) -> Outcome {
    if let Some(runtimes) = args.runtimes {
        return cluster::run(args, runtimes, file, chains, ports, config, None, watched);
    }
    if let Some(workers) = args.workers {
        return workers::run(args, workers, file, chains, ports, config, watched);
    }
    alone::run(args, file, chains, ports, config, watched)
}
