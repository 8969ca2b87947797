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
    let (placed, form) = match &args.placement {
        Some(path) => {
            let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
            let (placed, form) = checked(read(path)?, file).map_err(wrong)?;
            check_cores(&placed).map_err(wrong)?;
            (placed, form)
        }
        None if other => return Ok(args),
        None => match of_file(file)? {
            Some((placed, form)) => {
                check_cores(&placed).map_err(Failure::usage)?;
                (placed, form)
            }
            None => return Ok(args),
        },
    };
    match form {
        Form::Stages => {}
        Form::Runtimes(count) => args.runtimes = Some(count),
        Form::Workers(count) => args.workers = Some(count),
    }
    args.placed = Some(placed);
    Ok(args)
}

/// The placement that the chain file writes, and its form.
pub(crate) fn of_file(file: &ChainFile) -> Result<Option<(Placement, Form)>, Failure> {
    let Some(placing) = &file.placement else {
        return Ok(None);
    };
    let wrong = |why| Failure::chain(format!("{}: error: {why}", placing.written_at));
    let checked = checked(placement::of_file(placing), file);
    checked.map(Some).map_err(wrong)
}

/// A placement that may be one of this file, without its guard, and its form.
fn checked(mut placed: Placement, file: &ChainFile) -> Result<(Placement, Form), String> {
    placed.check()?;
    if placement::without_guard(&mut placed) && !file.network.fails_open() {
        let why = "a guard is for a bump that fails open (`network: {on-failure: open}`)";
        return Err(why.to_owned());
    }
    let form = placement::form_of(&placed)?;
    Ok((placed, form))
}

/// Checks that this machine has the cores of a placement.
fn check_cores(placed: &Placement) -> Result<(), String> {
    let cores: Vec<usize> = placed.cores().into_iter().flatten().collect();
    weir_exec::check_cores(&cores)
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
