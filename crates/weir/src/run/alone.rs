//! Chains of one stage each, run by the thread that has the ports.

use weir_graph::ChainFile;
use weir_nf::host::Stage;
use weir_packet::{FramePool, MemoryLayout};
use weir_runtime::{Lie, Runtime, RuntimeConfig};

use crate::args::Run;
use crate::driver::live::Alone;
use crate::driver::{ChainPlan, Executor as _};
use crate::exit::{Failure, Outcome};

use super::conclude::conclude;
use super::input::Input;
use super::line::Line;
use super::onlook::Watched;
use super::plan::PlanSummary;
use super::ports::{Ports, RunPort};
use super::summary::Ended;
use super::{audit, frames, pipeline, placement};

pub(super) fn run(
    args: &Run,
    file: &ChainFile,
    (plans, stages): (&[ChainPlan], &[Stage]),
    ports: &Ports,
    config: RuntimeConfig,
    watched: &mut Watched<'_>,
) -> Outcome {
    if let Some(core) = core(args, plans)? {
        weir_exec::pin(core).map_err(Failure::outside)?;
    }
    let executor = executor(args, stages, config, ports.memory())?;
    // Outputs are created last, so that an unreadable input truncates no file.
    let input = Input::open(ports)?;
    let mut line = Line::open(executor, input, args, file, ports)?;
    line.open_control(args, file, ports, "files", Vec::new())?;
    let (mut of_run, ended) = line.drive(args, watched)?;
    sum_up(line.executor, args, file, plans, &ports.inputs, &mut of_run);
    conclude(args, ports, of_run, ended, config.seed, watched)
}

/// The core of the only thread.
pub(super) fn core(args: &Run, plans: &[ChainPlan]) -> Result<Option<usize>, Failure> {
    let placement = placement::of_plans(args, plans, &[])?;
    Ok(placement.cores().first().copied().flatten())
}

/// A runtime per chain, and frames for their packets.
pub(super) fn executor(
    args: &Run,
    stages: &[Stage],
    config: RuntimeConfig,
    memory: MemoryLayout,
) -> Result<Alone, Failure> {
    let Some(pool) = FramePool::new(frames::memory(args, memory)) else {
        return Err(Failure::outside("packet memory was taken twice"));
    };
    let runtimes = stages.iter().map(|stage| Runtime::new(stage, config));
    let runtimes = runtimes.collect::<Result<_, _>>();
    let runtimes = runtimes.map_err(|error| Failure::chain(format!("error: {error}")))?;
    Ok(Alone::new(pool, runtimes))
}

/// Adds what they did. `inputs` are the ports by their numbers.
pub(super) fn sum_up(
    mut executor: Alone,
    args: &Run,
    file: &ChainFile,
    plans: &[ChainPlan],
    inputs: &[RunPort],
    of_run: &mut Ended,
) {
    of_run.reports = executor.chain_reports();
    for (report, chain) in of_run.reports.iter_mut().zip(&file.chains) {
        pipeline::in_order_of(report, chain);
    }
    of_run.leaked(executor.pool().outstanding());
    frames::report(of_run, executor.pool().memory(), inputs);
    of_run.more.push(Box::new(PlanSummary::of(plans)));
    let lies = executor.runtimes.iter().flat_map(Runtime::lies);
    audit::add(args, lies.cloned().collect::<Vec<Lie>>(), of_run);
}
