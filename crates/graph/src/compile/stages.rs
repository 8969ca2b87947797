//! From a plan to stages that engines run.

use weir_nf::host::{Node, Stage, Target};

use super::graph::Processor;
use super::plan::{Plan, PlannedStage, Step};

impl Plan {
    /// The stages of each step, one for each of its [`PlannedStage`]s. They
    /// share the functions of `written`, the chain as it was loaded; a plan of
    /// one stage gives exactly one. Instances of a stage are made of clones.
    ///
    /// A link to another stage is [`Target::Later`] with the number of the
    /// processor in [`Plan::graph`]. Into a parallel step it names the first
    /// processor of the first branch; the copy for another branch begins with
    /// that branch's first one, which is its [`Stage::first`]. Links out of
    /// a branch lead where the last branch's do.
    ///
    /// # Errors
    ///
    /// The name of a processor that `written` lacks: it is another chain's.
    pub fn stages(&self, written: &Stage) -> Result<Vec<Vec<Stage>>, String> {
        self.steps
            .iter()
            .map(|step| {
                let planned = step.stages();
                let end = planned.last().map_or(0, |stage| stage.nodes.end);
                let several = planned.len() > 1;
                planned
                    .iter()
                    .map(|stage| self.stage(stage, several.then_some(end), written))
                    .collect()
            })
            .collect()
    }

    /// `end`: where the parallel step ends that the stage is a branch of.
    fn stage(
        &self,
        planned: &PlannedStage,
        end: Option<usize>,
        written: &Stage,
    ) -> Result<Stage, String> {
        let (from, to) = (planned.nodes.start, planned.nodes.end);
        let past = |node: usize| match end {
            // Past the branch is past the whole step.
            Some(end) if node >= to && node < end => self
                .graph
                .nodes
                .get(end - 1)
                .and_then(|last| last.next.first())
                .copied()
                .unwrap_or(Target::Out),
            _ => Target::Node(node),
        };
        let target = |target: &Target| match *target {
            Target::Node(node) => match past(node) {
                Target::Node(node) if (from..to).contains(&node) => Target::Node(node - from),
                Target::Node(node) => Target::Later(node as u8),
                other => other,
            },
            other => other,
        };
        let nodes = self.graph.nodes[from..to]
            .iter()
            .map(|node| {
                Ok(Node {
                    name: node.name.clone(),
                    processor: self.function(node, written)?,
                    same_as: node.same_as.and_then(|earlier| earlier.checked_sub(from)),
                    next: node.next.iter().map(target).collect(),
                })
            })
            .collect::<Result<_, String>>()?;
        Ok(Stage {
            chain: written.chain.clone(),
            number: written.number,
            first: from as u8,
            nodes,
            flows: written.flows,
            pools: written.pools.clone(),
            sets: written.sets.clone(),
        })
    }

    /// The function of a processor: by its name, or an equal one's where a pass
    /// added it.
    fn function(
        &self,
        node: &Processor,
        written: &Stage,
    ) -> Result<weir_nf::host::SharedProcessor, String> {
        let named = |name: &str| written.nodes.iter().find(|node| node.name == name);
        let found = named(&node.name).or_else(|| {
            let equal = self.written.nodes.iter().find(|other| other.equals(node))?;
            named(&equal.name)
        });
        match found {
            Some(found) => Ok(found.processor.clone()),
            None => Err(format!(
                "the plan of the chain `{}` has a processor `{}` that the stage lacks",
                self.chain, node.name
            )),
        }
    }
}

impl Step {
    /// Its stages: one, or the branches of a parallel step.
    pub fn stages(&self) -> &[PlannedStage] {
        match self {
            Step::Stage(stage) => core::slice::from_ref(stage),
            Step::Parallel(branches) => branches,
        }
    }

    /// Numbers of all its processors in the plan's graph.
    pub fn nodes(&self) -> core::ops::Range<usize> {
        let stages = self.stages();
        let from = stages.first().map_or(0, |stage| stage.nodes.start);
        from..stages.last().map_or(from, |stage| stage.nodes.end)
    }
}
