//! A plan as data, for `--output json`.

use serde::Serialize;

use super::{links, same_as, stages, target_name};
use crate::compile::{Balance, Graph, Plan};

/// A plan for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanData {
    /// Name of the chain.
    pub chain: String,
    /// The chain as written, templates expanded, in the order in which it runs.
    pub written: Vec<ProcessorData>,
    /// Processors that run.
    pub runs: Vec<ProcessorData>,
    /// The stages, in the order of the packets' way.
    pub stages: Vec<StageData>,
    /// Decisions, in order.
    pub decisions: Vec<DecisionData>,
}

/// A processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessorData {
    /// Its name.
    pub name: String,
    /// The entry of the chain file that it is of.
    pub instance: String,
    /// Name of the function.
    pub function: String,
    /// The earlier processor whose verdicts stand for its own, if it is not
    /// called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_as: Option<String>,
    /// Targets of its links: labels and names of processors, `out` or `drop`. A label that is not
    /// here leads where `pass` does, or is not given under the settings.
    pub links: Vec<LinkData>,
    /// Cycles that a packet is thought to cost; 0 where that is not known.
    pub cycles: u32,
}

/// A link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkData {
    /// `pass` or a label.
    pub label: String,
    /// Target of the link.
    pub to: String,
}

/// A stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StageData {
    /// Its number; stages side by side have one number and a letter each.
    pub stage: String,
    /// Its processors.
    pub processors: Vec<String>,
    /// Instances side by side.
    pub instances: u16,
    /// How packets are given to the instances: `round-robin` or `flow`.
    pub balance: &'static str,
    /// The core it is kept on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core: Option<usize>,
    /// Cycles that a packet is thought to cost.
    pub cycles: u32,
    /// Kind of the process that runs it: `main`, `process` or `tenant` (not trusted).
    pub home: &'static str,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DecisionData {
    /// Name of the pass.
    pub pass: &'static str,
    /// The processors it is about.
    pub about: Vec<String>,
    /// True where something was changed.
    pub done: bool,
    /// The decision and its reason.
    pub why: String,
}

impl PlanData {
    /// Keeps the part about the instance or processor called `name`.
    #[must_use]
    pub fn about(mut self, name: &str) -> PlanData {
        let of = |processor: &ProcessorData| processor.instance == name || processor.name == name;
        self.written.retain(of);
        self.runs.retain(of);
        let names: Vec<String> = self.written.iter().map(|p| p.name.clone()).collect();
        let is_one = |other: &String| other == name || names.contains(other);
        self.stages.retain(|s| s.processors.iter().any(is_one));
        self.decisions.retain(|d| d.about.iter().any(is_one));
        self
    }
}

/// The plan as data.
pub fn plan_data(plan: &Plan) -> PlanData {
    PlanData {
        chain: plan.chain.clone(),
        written: processors(&plan.written),
        runs: processors(&plan.graph),
        stages: stages(plan)
            .into_iter()
            .map(|(name, stage)| StageData {
                stage: name,
                processors: stage
                    .nodes
                    .clone()
                    .map(|number| plan.graph.nodes[number].name.clone())
                    .collect(),
                instances: stage.instances,
                balance: match stage.balance {
                    Balance::RoundRobin => "round-robin",
                    Balance::Flow => "flow",
                },
                core: stage.core,
                cycles: stage.cycles,
                home: stage.home.name(),
            })
            .collect(),
        decisions: plan
            .decisions
            .iter()
            .map(|decision| DecisionData {
                pass: decision.pass.name(),
                about: decision.about.clone(),
                done: decision.done,
                why: decision.why.clone(),
            })
            .collect(),
    }
}

fn processors(graph: &Graph) -> Vec<ProcessorData> {
    graph
        .nodes
        .iter()
        .enumerate()
        .map(|(number, node)| ProcessorData {
            name: node.name.clone(),
            instance: node.instance.clone(),
            function: node.kind.clone(),
            same_as: same_as(graph, number).map(str::to_owned),
            links: links(graph, number)
                .into_iter()
                .map(|(label, target)| LinkData {
                    label,
                    to: target_name(graph, target),
                })
                .collect(),
            cycles: node.effects.cycles,
        })
        .collect()
}
