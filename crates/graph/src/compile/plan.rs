//! Result of the compiler: the graph before and after, its stages, and the reasons.

use weir_nf::Scope;
use weir_nf::host::Target;

use super::graph::{Graph, Processor};

/// A compiled chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Name of the chain.
    pub chain: String,
    /// The chain as written, templates expanded.
    pub written: Graph,
    /// The graph that runs.
    pub graph: Graph,
    /// How it is cut, in the order of the packets' way. One stage is run to
    /// completion.
    pub steps: Vec<Step>,
    /// Decisions for and against a change, with reasons, in the order in which they were made.
    pub decisions: Vec<Decision>,
}

impl Plan {
    /// What a process must have the same as another one, so that a state of the one is a state of
    /// the other: processors and their settings as they are written, links, and stages. Two releases
    /// that compile a chain alike say the same.
    pub fn identity(&self) -> String {
        let mut text = format!("chain {}\n", self.chain);
        for node in &self.graph.nodes {
            let Processor {
                name,
                instance,
                kind,
                settings,
                labels,
                next,
                same_as,
                effects,
            } = node;
            let same_as = same_as.map_or(-1, |at| at as i64);
            let labels = labels.join(",");
            let next: Vec<String> = next
                .iter()
                .map(|to| match to {
                    Target::Node(at) => format!("node {at}"),
                    Target::Later(at) => format!("later {at}"),
                    Target::Out => "out".to_owned(),
                    Target::Drop => "drop".to_owned(),
                })
                .collect();
            let (next, stateful) = (next.join(","), effects.stateful);
            let scope = scope_word(effects.scope);
            text.push_str(&format!(
                "{name}\t{instance}\t{kind}\t{settings}\t{labels}\t{next}\t{same_as}\t{scope}\t\
                 {stateful}\n"
            ));
        }
        for step in &self.steps {
            text.push_str("step\n");
            for stage in step.stages() {
                let (nodes, home) = (&stage.nodes, stage.home.name());
                let (from, to, instances) = (nodes.start, nodes.end, stage.instances);
                let balance = match stage.balance {
                    Balance::RoundRobin => "turns",
                    Balance::Flow => "flow",
                };
                text.push_str(&format!("{from} {to} {instances} {balance} {home}\n"));
            }
        }
        text
    }

    /// True where the other one differs in settings alone: the same processors in the same
    /// stages, and the same ones stand for others.
    pub fn has_shape_of(&self, other: &Plan) -> bool {
        let shape = |plan: &Plan| -> Vec<_> {
            let nodes = plan.graph.nodes.iter();
            let shapes = nodes.map(|node| {
                (
                    node.name.clone(),
                    node.kind.clone(),
                    node.next.clone(),
                    node.same_as,
                )
            });
            shapes.collect()
        };
        self.chain == other.chain && self.steps == other.steps && shape(self) == shape(other)
    }
}

/// A scope in words that no release changes.
fn scope_word(scope: Scope) -> String {
    match scope {
        Scope::Flow => "flow".to_owned(),
        Scope::Fields(fields) => format!("fields {:#x}", fields.bits()),
        Scope::Own(name) => format!("own {name}"),
    }
}

/// A part of the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A stage.
    Stage(PlannedStage),
    /// Stages that get the same packets, side by side. The first one is given
    /// the packets themselves, the others copies; the step is over for a packet
    /// when each has marked it.
    Parallel(Vec<PlannedStage>),
}

/// A stage of a plan: processors that run to completion on one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedStage {
    /// Numbers of its processors in the plan's graph, one after another.
    pub nodes: core::ops::Range<usize>,
    /// Instances side by side behind a balanced port; 1 for none.
    pub instances: u16,
    /// How packets are given to the instances.
    pub balance: Balance,
    /// The core it is kept on; `None` leaves it to the system.
    pub core: Option<usize>,
    /// Cycles that a packet is thought to cost here.
    pub cycles: u32,
    /// Home of the stage's process.
    pub home: Home,
}

/// Kinds of processes that run a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Home {
    /// The main process's, unless a command line wants all stages apart.
    #[default]
    Main,
    /// One of its own, which shares the packet memory: it is trusted.
    Process,
    /// One of its own behind a border, over which packets are copied: it is
    /// not trusted.
    Tenant,
}

impl Home {
    /// Its word in output.
    pub const fn name(self) -> &'static str {
        match self {
            Home::Main => "main",
            Home::Process => "process",
            Home::Tenant => "tenant",
        }
    }
}

/// How a balanced port chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// Bursts in turn: for stages without state.
    RoundRobin,
    /// A flow's packets to one instance.
    Flow,
}

/// One decision of the compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The pass that made it.
    pub pass: Pass,
    /// Names of the processors it is about, the one it is mostly about first.
    pub about: Vec<String>,
    /// True where something was changed; false where it was considered and
    /// left.
    pub done: bool,
    /// The decision and the reason, in a sentence.
    pub why: String,
}

/// A pass of the compiler, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pass {
    /// Templates become processors.
    Expand,
    /// Equal work is done once.
    Consolidate,
    /// Equal classification on several branches is done before they part.
    Hoist,
    /// Independent neighbours run side by side.
    Parallelise,
    /// The graph is cut into stages.
    Stage,
    /// The result is held against the chain as written.
    Check,
}

impl Pass {
    /// All, in their order.
    pub const ALL: [Pass; 6] = [
        Pass::Expand,
        Pass::Consolidate,
        Pass::Hoist,
        Pass::Parallelise,
        Pass::Stage,
        Pass::Check,
    ];

    /// Name in options and output.
    pub const fn name(self) -> &'static str {
        match self {
            Pass::Expand => "expand",
            Pass::Consolidate => "consolidate",
            Pass::Hoist => "hoist",
            Pass::Parallelise => "parallelise",
            Pass::Stage => "stage",
            Pass::Check => "check",
        }
    }
}
