//! From chains to plans: what the command line asks of the compiler, and what
//! the summary says of the result.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use weir_graph::compile::{Balance, Flags, Mode, Options, Plan, PlannedStage, Step};
use weir_graph::{Chain, ChainFile};
use weir_io::stage::PortCounts;
use weir_nf::host::Stage;

use crate::args::Run;
use crate::driver::{ChainPlan, PipelineEnd, ThreadCounts};
use crate::exit::Failure;
use crate::plan::{compile_with, costs};

use super::summary::More;
use crate::output::thousands;

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
    Ok(ChainPlan {
        plan,
        stages,
        texts: chain.texts.clone(),
    })
}

/// The stage of a plan that has one; `None` where there are several, or
/// several instances of one.
pub(super) fn only_stage(chain: &ChainPlan) -> Option<&Stage> {
    match (chain.plan.steps.as_slice(), chain.stages.as_slice()) {
        ([Step::Stage(planned)], [stages]) if planned.instances <= 1 => stages.first(),
        _ => None,
    }
}

/// The part of the summary for plans.
pub(super) struct PlanSummary {
    plans: Vec<Plan>,
    /// Per chain; none where all chains are of one stage.
    threads: Vec<Vec<ThreadCounts>>,
    /// Per chain and step, what the ports around it counted; likewise.
    ports: Vec<Vec<PortCounts>>,
}

impl PlanSummary {
    pub(super) fn of(plans: &[ChainPlan]) -> PlanSummary {
        PlanSummary {
            plans: plans.iter().map(|chain| chain.plan.clone()).collect(),
            threads: Vec::new(),
            ports: Vec::new(),
        }
    }

    /// Adds what the threads did.
    pub(super) fn with(mut self, end: &PipelineEnd) -> PlanSummary {
        self.threads = end.chains.iter().map(|c| c.threads.clone()).collect();
        self.ports = end.chains.iter().map(|c| c.ports.clone()).collect();
        self
    }

    /// Counters of the ports around a step, by name; empty if the plan did not run.
    fn counted(&self, chain: usize, step: usize, planned: &Step) -> Vec<(&'static str, u64)> {
        let counts = self.ports.get(chain).and_then(|steps| steps.get(step));
        counts.map_or_else(Vec::new, |counts| counted(planned, counts))
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
        if stage.instances > 1 {
            value["balance"] = json!(match stage.balance {
                Balance::Flow => "flow",
                Balance::RoundRobin => "round-robin",
            });
        }
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

/// Counters of the ports around a step, by name.
fn counted(step: &Step, counts: &PortCounts) -> Vec<(&'static str, u64)> {
    let copies = [
        ("copies", counts.copies),
        ("copied_bytes", counts.copied_bytes),
    ];
    let more = match step {
        Step::Parallel(_) => vec![
            ("branched", counts.branched),
            ("uncopied", counts.uncopied),
            ("joined", counts.joined),
            ("branch_lost", counts.branch_lost),
            ("branch_dropped", counts.branch_dropped),
            ("length_changed", counts.length_changed),
            ("stray", counts.stray),
            ("foreign", counts.foreign),
        ],
        Step::Stage(stage) if stage.instances <= 1 => return Vec::new(),
        Step::Stage(stage) if stage.balance == Balance::RoundRobin => {
            vec![("turns", counts.turns), ("lost", counts.lost)]
        }
        Step::Stage(_) => vec![("lost", counts.lost)],
    };
    copies.into_iter().chain(more).collect()
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
                let mut of_step = json!({
                    "parallel": planned.stages().len() > 1,
                    "stages": stages.collect::<Vec<_>>(),
                });
                let counted = self.counted(number, step, planned);
                if !counted.is_empty() {
                    let counted = counted.into_iter();
                    of_step["ports"] = counted
                        .map(|(name, count)| (name.to_owned(), json!(count)))
                        .collect::<Map<_, _>>()
                        .into();
                }
                of_step
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
                let counted = self.counted(number, step, planned);
                let words: Vec<String> = counted
                    .into_iter()
                    .filter(|(_, count)| *count > 0)
                    .map(|(name, count)| format!("{name} {}", thousands(count)))
                    .collect();
                if !words.is_empty() {
                    let _ = writeln!(text, "    ports: {}", words.join(", "));
                }
            }
        }
    }
}
