mod merges;
mod mutations;
mod random;
mod stages;

use super::sketch::graph;
use super::*;

/// Compiles what the lines say, as options ask.
fn plan(lines: &[&str], options: &Options) -> Plan {
    match compile("test", &graph(lines), options) {
        Ok(plan) => plan,
        Err(faults) => panic!("{faults:#?}"),
    }
}

/// Compiles what the lines say, on one core.
fn merged(lines: &[&str]) -> Plan {
    plan(lines, &Options::default())
}

impl Plan {
    fn root(&self, name: &str) -> Option<&str> {
        let node = self.graph.nodes.iter().find(|node| node.name == name)?;
        node.same_as
            .map(|root| self.graph.nodes[root].name.as_str())
    }

    /// Reasons that a pass gave, with `+` where it did something.
    fn why(&self, pass: Pass) -> Vec<String> {
        let of_pass = self.decisions.iter().filter(|d| d.pass == pass);
        of_pass
            .map(|d| format!("{} {}", if d.done { "+" } else { "-" }, d.why))
            .collect()
    }

    /// Names of the processors of each stage: stages with ` | `, branches
    /// with ` & `.
    fn line(&self) -> String {
        let stage = |stage: &PlannedStage| {
            let names: Vec<&str> = self.graph.nodes[stage.nodes.clone()]
                .iter()
                .map(|node| node.name.as_str())
                .collect();
            names.join(" ")
        };
        let step = |step: &Step| {
            let names: Vec<String> = step.stages().iter().map(stage).collect();
            names.join(" & ")
        };
        let steps: Vec<String> = self.steps.iter().map(step).collect();
        steps.join(" | ")
    }
}
