//! From chains to plans: what the command line asks of the compiler, and what
//! the summary says of the result.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use weir_graph::compile::{Flags, Mode, Options, Plan, PlannedStage, Step};
use weir_graph::{Chain, ChainFile};
use weir_nf::host::Stage;

use crate::args::Run;
use crate::driver::{ChainPlan, PipelineEnd, ThreadCounts};
use crate::exit::Failure;
use crate::plan::{compile_with, costs};

use super::summary::More;
use super::table::thousands;

/// Compiles the chains of a file as the command line asks.
pub(super) fn plans(args: &Run, file: &ChainFile) -> Result<Vec<ChainPlan>, Failure> {
    let costs = costs(args.costs.as_deref(), file)?;
    // Runtimes behind a switch and workers have a chain each, as a whole.
    let whole = match (args.runtimes, args.workers) {
        (Some(_), _) => Some("--runtimes"),
        (_, Some(_)) => Some("--workers"),
        _ => None,
    };
    let mut plans = Vec::new();
    for (chain, cycles) in file.chains.iter().zip(costs) {
        let flags = Flags {
            mode: args.plan,
            passes: args.passes,
            cores: (!args.cores.is_empty() && whole.is_none()).then(|| args.cores.clone()),
            cycles,
        };
        let mut options = chain.plan.clone().with(&flags);
        if let Some(option) = whole {
            if options.mode == Mode::Pipeline {
                let help = match args.plan {
                    Some(_) => "leave one of the two out",
                    None => "the chain file asks for the pipeline; `--plan rtc` puts that aside",
                };
                return Err(Failure::usage(format!(
                    "a plan that is a pipeline can't be run with {option}, whose threads have whole chains each: {help}"
                )));
            }
            let whole = Flags {
                mode: Some(Mode::RunToCompletion),
                cores: Some(Vec::new()),
                ..Flags::default()
            };
            options = options.with(&whole);
        }
        plans.push(plan(chain, &options)?);
    }
    Ok(plans)
}

fn plan(chain: &Chain, options: &Options) -> Result<ChainPlan, Failure> {
    let plan = compile_with(chain, options)?;
    let stages = plan
        .stages(&chain.stage)
        .map_err(|error| Failure::chain(format!("error: {error}")))?;
    Ok(ChainPlan { plan, stages })
}

/// The stage of a plan that has one; `None` where there are several, or
/// several instances of one.
pub(super) fn only_stage(chain: &ChainPlan) -> Option<&Stage> {
    match (chain.plan.steps.as_slice(), chain.stages.as_slice()) {
        ([Step::Stage(planned)], [stages]) if planned.instances <= 1 => stages.first(),
        _ => None,
    }
}

/// Core of the first stage, which is the calling thread's.
pub(super) fn first_core(chain: &ChainPlan) -> Option<usize> {
    chain.plan.steps.first()?.stages().first()?.core
}

/// What the summary says of plans.
pub(super) struct PlanSummary {
    plans: Vec<Plan>,
    /// Per chain; none where all chains are of one stage.
    threads: Vec<Vec<ThreadCounts>>,
}

impl PlanSummary {
    pub(super) fn of(plans: &[ChainPlan]) -> PlanSummary {
        PlanSummary {
            plans: plans.iter().map(|chain| chain.plan.clone()).collect(),
            threads: Vec::new(),
        }
    }

    /// Adds what the threads did.
    pub(super) fn with(mut self, end: &PipelineEnd) -> PlanSummary {
        self.threads = end.chains.iter().map(|c| c.threads.clone()).collect();
        self
    }

    fn stage_json(&self, chain: usize, step: usize, branch: usize, stage: &PlannedStage) -> Value {
        let plan = &self.plans[chain];
        let nodes = plan.graph.nodes.get(stage.nodes.clone()).unwrap_or(&[]);
        let threads: Vec<&ThreadCounts> = self
            .threads
            .get(chain)
            .into_iter()
            .flatten()
            .filter(|t| t.is_stage && t.step == step && t.place.0 == branch)
            .collect();
        let mut value = json!({
            "functions": nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(),
            "instances": stage.instances,
            "core": stage.core,
            "cycles": stage.cycles,
        });
        if !threads.is_empty() {
            value["refused_bursts"] = threads.iter().map(|t| t.refused.bursts).sum::<u64>().into();
            value["refused_packets"] = threads.iter().map(|t| t.refused.frames).sum::<u64>().into();
            value["busy_s"] = threads
                .iter()
                .map(|t| t.busy.as_secs_f64())
                .sum::<f64>()
                .into();
        }
        value
    }
}

/// Processors that another one's verdicts stand for.
fn merged(plan: &Plan) -> Vec<(&str, &str)> {
    let nodes = &plan.graph.nodes;
    let same = nodes.iter().filter_map(|node| {
        let earlier = nodes.get(node.same_as?)?;
        Some((node.name.as_str(), earlier.name.as_str()))
    });
    same.collect()
}

impl More for PlanSummary {
    fn add_json(&self, value: &mut Value) {
        let chains = self.plans.iter().enumerate().map(|(number, plan)| {
            let steps = plan.steps.iter().enumerate().map(|(step, planned)| {
                let stages = planned.stages().iter().enumerate();
                let stages =
                    stages.map(|(branch, stage)| self.stage_json(number, step, branch, stage));
                json!({"parallel": planned.stages().len() > 1, "stages": stages.collect::<Vec<_>>()})
            });
            let of_chain = json!({
                "steps": steps.collect::<Vec<_>>(),
                "same_as": merged(plan).into_iter().map(|(name, earlier)| {
                    (name.to_owned(), json!(earlier))
                }).collect::<Map<_, _>>(),
                "done": plan.decisions.iter().filter(|d| d.done).map(|decision| json!({
                    "pass": decision.pass.name(),
                    "why": decision.why,
                })).collect::<Vec<_>>(),
            });
            (plan.chain.clone(), of_chain)
        });
        value["plan"] = chains.collect::<Map<_, _>>().into();
    }

    fn add_text(&self, text: &mut String) {
        for (number, plan) in self.plans.iter().enumerate() {
            // Writing to a `String` can't fail.
            for (name, earlier) in merged(plan) {
                let _ = writeln!(text, "\n{name}: as {earlier} has decided");
            }
            if plan.steps.len() < 2 {
                continue;
            }
            let _ = writeln!(
                text,
                "\n  {:<34} {:>6} {:>10} {:>12} {:>10}",
                format!("stages of {}", plan.chain),
                "core",
                "instances",
                "refused",
                "busy s"
            );
            for (step, planned) in plan.steps.iter().enumerate() {
                for (branch, stage) in planned.stages().iter().enumerate() {
                    let line = self.stage_json(number, step, branch, stage);
                    let nodes = plan.graph.nodes.get(stage.nodes.clone()).unwrap_or(&[]);
                    let names: Vec<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
                    let mark = if branch > 0 { "∥ " } else { "" };
                    let core = stage.core.map_or("-".to_owned(), |core| core.to_string());
                    let _ = writeln!(
                        text,
                        "  {:<34} {core:>6} {:>10} {:>12} {:>10.3}",
                        format!("{} {mark}{}", step + 1, names.join(", ")),
                        stage.instances,
                        thousands(line["refused_packets"].as_u64().unwrap_or(0)),
                        line["busy_s"].as_f64().unwrap_or(0.0)
                    );
                }
            }
        }
    }
}
