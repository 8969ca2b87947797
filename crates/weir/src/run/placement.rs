//! The placement of a run's nodes: from `--placement`, or chosen by weir.

use std::path::Path;

use weir_exec::Placement;
use weir_graph::ChainFile;
use weir_graph::compile::Home;

use crate::args::Run;
use crate::driver::placement::{self, Form};
use crate::driver::{ChainPlan, Spread};
use crate::exit::Failure;

/// The arguments with what `--placement` or else the chain file says: how many
/// runtimes or workers there are. Other forms of the command line put what the
/// chain file says aside.
pub(super) fn applied(args: &Run, file: &ChainFile) -> Result<Run, Failure> {
    let mut args = args.clone();
    let other = args.runtimes.is_some()
        || args.workers.is_some()
        || args.processes
        || !args.cores.is_empty();
    let (path, mut placed) = match (&args.placement, &file.placement) {
        (Some(path), _) => (path, read(path)?),
        (None, Some(placing)) if !other => (&args.chain, placement::of_file(placing)),
        (None, _) => return Ok(args),
    };
    let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    placed.check().map_err(wrong)?;
    if placement::without_guard(&mut placed) && !file.network.fails_open() {
        let why = "a guard is for a bump that fails open (`network: {on-failure: open}`)";
        return Err(wrong(why.to_owned()));
    }
    match placement::form_of(&placed).map_err(wrong)? {
        Form::Stages => {}
        Form::Runtimes(count) => args.runtimes = Some(count),
        Form::Workers(count) => args.workers = Some(count),
    }
    let cores: Vec<usize> = placed.cores().into_iter().flatten().collect();
    weir_exec::check_cores(&cores).map_err(wrong)?;
    args.placed = Some(placed);
    Ok(args)
}

fn read(path: &Path) -> Result<Placement, Failure> {
    let outside =
        |error: std::io::Error| Failure::outside(format!("can't read {}: {error}", path.display()));
    let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(outside)?;
    serde_json::from_str(&text).map_err(|error| wrong(format!("it is no placement: {error}")))
}

/// The threads of so many runtimes or workers.
pub(super) fn spread(args: &Run, count: u32) -> Spread {
    let placed = args.placed.as_ref();
    // It was found well before.
    let placed = placed.and_then(|placed| placement::spread_of(placed).ok());
    placed.unwrap_or_else(|| Spread::one_each(&args.cores, count as usize))
}

/// Places, from 0, of those of so many runtimes that have a process in this placement.
pub(super) fn in_processes(placed: &Placement, runtimes: u32) -> Vec<usize> {
    let number = |place: usize| format!("runtime {}", place + 1);
    let places = 0..runtimes as usize;
    places
        .filter(|place| {
            let found = placed.find(&number(*place));
            found.is_some_and(|((process, ..), _)| process > 0)
        })
        .collect()
}

/// The placement of these plans' stages: the given one if it fits, else the chosen
/// one. `homes` says, per chain and step, which stages run as processes.
pub(super) fn of_plans(
    args: &Run,
    plans: &[ChainPlan],
    homes: &[Vec<Home>],
) -> Result<Placement, Failure> {
    let chosen = placement::of_plans(plans, homes);
    match &args.placed {
        None => Ok(chosen),
        Some(given) => placement::fitted(given, &chosen)
            .map_err(|why| Failure::usage(format!("the placement: {why}"))),
    }
}

/// The home of a stage: its process where a placement was given, else what the
/// chain file and `--processes` say.
pub(crate) fn home_of(
    (processes, placed): (bool, Option<&Placement>),
    chain: &ChainPlan,
    number: usize,
) -> Home {
    let step = chain.plan.steps.get(number);
    let Some(step) = step.filter(|step| number > 0 && step.stages().len() == 1) else {
        return Home::Main;
    };
    let Some(only) = step.stages().first().filter(|only| only.instances <= 1) else {
        return Home::Main;
    };
    let name = placement::node_name(&chain.plan.chain, number, step, (0, 0));
    match (only.home, placed.map(|placed| placed.thread_of(&name))) {
        (Home::Tenant, _) => Home::Tenant,
        (_, Some(Some(_))) => Home::Main,
        (_, Some(None)) => Home::Process,
        (Home::Main, None) if processes => Home::Process,
        (home, None) => home,
    }
}

/// The homes of all stages, by chain and step.
pub(crate) fn homes(
    processes: bool,
    placed: Option<&Placement>,
    plans: &[ChainPlan],
) -> Vec<Vec<Home>> {
    let of = |chain: &ChainPlan| {
        let steps = 0..chain.plan.steps.len();
        steps
            .map(|step| home_of((processes, placed), chain, step))
            .collect()
    };
    plans.iter().map(of).collect()
}
