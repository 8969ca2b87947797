//! Plans for people and programs: as text, as a picture, as data.

mod data;
mod dot;
mod explain;
mod svg;
mod text;

pub use data::{PlanData, plan_data};
pub use dot::dot;
pub use explain::{explain, unknown};
pub use svg::svg;
pub use text::text;

use weir_nf::host::Target;

use crate::compile::{Graph, Plan, PlannedStage, Step};

/// Name of a link's target.
fn target_name(graph: &Graph, target: Target) -> String {
    match target {
        Target::Node(number) => graph.nodes[number].name.clone(),
        Target::Later(number) => graph.nodes[usize::from(number)].name.clone(),
        Target::Out => "out".to_owned(),
        Target::Drop => "drop".to_owned(),
    }
}

/// The node that a link leads to, if it leads to one.
fn target_node(target: Target) -> Option<usize> {
    match target {
        Target::Node(number) => Some(number),
        Target::Later(number) => Some(usize::from(number)),
        Target::Out | Target::Drop => None,
    }
}

/// The links of a node that say something: each label with its target, those
/// that lead where `pass` does left out, and those that nobody is sent by.
fn links(graph: &Graph, number: usize) -> Vec<(String, Target)> {
    let node = &graph.nodes[number];
    let pass = node.next.first().copied().unwrap_or(Target::Out);
    let mut links = vec![("pass".to_owned(), pass)];
    let labels = node.labels.iter().zip(&node.next).enumerate().skip(1);
    for (link, (label, &target)) in labels {
        if target != pass && node.gives(link) {
            links.push((label.clone(), target));
        }
    }
    links
}

/// The same with all labels of one target together.
fn joined_links(graph: &Graph, number: usize) -> Vec<(String, Target)> {
    let mut joined: Vec<(String, Target)> = Vec::new();
    for (label, target) in links(graph, number) {
        match joined.iter_mut().find(|(_, known)| *known == target) {
            Some((labels, _)) => {
                labels.push_str(", ");
                labels.push_str(&label);
            }
            None => joined.push((label, target)),
        }
    }
    joined
}

/// The stages of a plan with their numbers, from 1; those side by side have a
/// letter behind it.
fn stages(plan: &Plan) -> Vec<(String, &PlannedStage)> {
    let mut out = Vec::new();
    for (number, step) in plan.steps.iter().enumerate() {
        match step {
            Step::Stage(stage) => out.push((format!("{}", number + 1), stage)),
            Step::Parallel(branches) => {
                for (letter, stage) in (b'a'..=b'z').zip(branches) {
                    out.push((format!("{}{}", number + 1, letter as char), stage));
                }
            }
        }
    }
    out
}

/// How many processors are called, of how many.
fn called(graph: &Graph) -> (usize, usize) {
    let called = graph.nodes.iter().filter(|n| n.same_as.is_none()).count();
    (called, graph.nodes.len())
}

/// Name of the processor whose verdicts stand for `number`'s.
fn same_as(graph: &Graph, number: usize) -> Option<&str> {
    let earlier = graph.nodes[number].same_as?;
    Some(&graph.nodes[earlier].name)
}

#[cfg(test)]
mod tests;
