//! Plans of several stages: `weir run --plan pipeline`.

use weir_graph::ChainFile;
use weir_packet::MemoryLayout;
use weir_runtime::{Lie, Report, RuntimeConfig};

use crate::args::Run;
use crate::driver::{ChainPlan, Pace, Patience, Pipeline, PipelineSettings, Processes};
use crate::exit::{Failure, Outcome};

use super::apart::{self, Apart};
use super::audit;
use super::conclude::conclude;
use super::input::Input;
use super::line::Line;
use super::onlook::Watched;
use super::placement;
use super::plan::PlanSummary;
use super::ports::Ports;
use super::summary::Ended;

pub(super) fn run(
    args: &Run,
    file: &ChainFile,
    plans: Vec<ChainPlan>,
    ports: &Ports,
    config: RuntimeConfig,
    watched: &mut Watched<'_>,
) -> Outcome {
    let settings = settings(args, config, ports.memory());
    let plan = PlanSummary::of(&plans);
    let input = Input::open(ports)?;
    let processes = match watched.is_on() {
        false => apart::processes(args, &plans, Patience::default()),
        true => {
            apart::check_watched(&plans)?;
            None
        }
    };
    let executor = start(args, plans, settings, processes)?;
    let senders = executor.command_senders();
    let mut line = Line::open(executor, input, args, file, ports)?;
    line.open_control(args, file, ports, "stages", senders)?;
    let (mut of_run, ended) = line.drive(args, watched)?;
    sum_up(line.executor, plan, args, file, &mut of_run);
    conclude(args, ports, of_run, ended, config.seed, watched)
}

/// Starts the stages where they are to run.
pub(super) fn start(
    args: &Run,
    plans: Vec<ChainPlan>,
    settings: PipelineSettings,
    processes: Option<Processes>,
) -> Result<Pipeline, Failure> {
    let homes = processes.as_ref().map_or(&[][..], |p| &p.steps);
    let placement = placement::of_plans(args, &plans, homes)?;
    Ok(Pipeline::start_placed(
        plans, settings, processes, &placement,
    )?)
}

/// The settings of plans.
pub(super) fn settings(
    args: &Run,
    engine: RuntimeConfig,
    memory: MemoryLayout,
) -> PipelineSettings {
    PipelineSettings {
        pace: Pace {
            yield_after: args.yield_after,
            prefetch: usize::from(args.prefetch),
        },
        engine,
        memory,
        wakeful: args.never_sleeps(),
    }
}

/// Adds what plans did.
pub(super) fn sum_up(
    executor: Pipeline,
    plan: PlanSummary,
    args: &Run,
    file: &ChainFile,
    of_run: &mut Ended,
) {
    let end = executor.end();
    for (chain, written) in end.chains.iter().zip(&file.chains) {
        let mut report = chain.report.clone();
        in_order_of(&mut report, written);
        of_run.reports.push(report);
    }
    of_run.leaked(end.leaked);
    let lies: Vec<Lie> = end.chains.iter().flat_map(|c| &c.lies).cloned().collect();
    of_run.more.push(Box::new(plan.with(&end)));
    if args.processes || !end.processes.is_empty() {
        let apart = Apart {
            processes: end.processes,
            pages: end.pages,
        };
        for border in apart.processes.iter().filter_map(|p| p.border.as_ref()) {
            of_run.internal(&border.counts.internal);
        }
        of_run.warnings.extend(apart.warnings());
        of_run.more.push(Box::new(apart));
    }
    audit::add(args, lies, of_run);
}

/// Puts functions in the order in which the chain has them.
pub(super) fn in_order_of(report: &mut Report, chain: &weir_graph::Chain) {
    let nodes = &chain.stage.nodes;
    let place = |name: &str| nodes.iter().position(|node| node.name == name);
    let at = |name: &str| place(name).unwrap_or(nodes.len());
    report.functions.sort_by_key(|function| at(&function.name));
}
