//! Explanation of the plan for one NF: decisions about it, with reasons.

use core::fmt::Write;

use super::text::{decisions, plural};
use super::{joined_links, same_as, stages, target_name};
use crate::compile::{Effects, Plan};
use crate::nearest::suggestion;

/// Message if no plan has an instance or processor called `name`: the nearest name that there is,
/// or else all instances.
pub fn unknown(plans: &[Plan], name: &str) -> String {
    let nodes = || plans.iter().flat_map(|plan| &plan.written.nodes);
    let all = nodes().flat_map(|node| [node.instance.as_str(), node.name.as_str()]);
    let all: Vec<&str> = all.collect();
    let mut instances: Vec<&str> = Vec::new();
    for node in nodes() {
        if !instances.contains(&node.instance.as_str()) {
            instances.push(&node.instance);
        }
    }
    match suggestion(name, "", &all) {
        Some(help) if help.starts_with("did") => help,
        _ => format!("it has {}", instances.join(", ")),
    }
}

/// Explains the instance or processor called `name`: its processors, their stages, their effects
/// on packets, and each decision about them. `None` if the chain has nothing of that name.
pub fn explain(plan: &Plan, name: &str) -> Option<String> {
    let of = |node: &crate::compile::Processor| node.instance == name || node.name == name;
    let written: Vec<&str> = plan
        .written
        .nodes
        .iter()
        .filter(|node| of(node))
        .map(|node| node.name.as_str())
        .collect();
    if written.is_empty() {
        return None;
    }
    let mut out = format!("{name}: {}\n", plural(written.len(), "processor"));
    let stages = stages(plan);
    for processor in &written {
        let Some(number) = plan.graph.nodes.iter().position(|n| n.name == *processor) else {
            let _ = writeln!(out, "\n{processor}: not in the plan");
            continue;
        };
        let node = &plan.graph.nodes[number];
        let _ = writeln!(out, "\n{processor} ({})", node.kind);
        if let Some((stage, _)) = stages.iter().find(|(_, s)| s.nodes.contains(&number)) {
            let _ = writeln!(out, "  runs in stage {stage}");
        }
        let _ = match same_as(&plan.graph, number) {
            Some(earlier) => writeln!(
                out,
                "  is not called: the verdicts of {earlier} stand for its"
            ),
            None => writeln!(out, "  is called"),
        };
        write_effects(&mut out, &node.effects);
        for (label, target) in joined_links(&plan.graph, number) {
            let _ = writeln!(out, "  {label} → {}", target_name(&plan.graph, target));
        }
    }
    let about = |decision: &&crate::compile::Decision| {
        decision
            .about
            .iter()
            .any(|other| other == name || written.contains(&other.as_str()))
    };
    let mut list = plan.decisions.iter().filter(about).peekable();
    if list.peek().is_some() {
        out.push_str("\nwhy\n");
        decisions(&mut out, list);
    }
    Some(out)
}

fn write_effects(out: &mut String, effects: &Effects) {
    let parts = |parts: weir_nf::Parts| {
        let names: Vec<&str> = parts.names().collect();
        match names.is_empty() {
            true => "nothing".to_owned(),
            false => names.join(", "),
        }
    };
    let (reads, writes) = (parts(effects.reads), parts(effects.writes));
    let _ = writeln!(out, "  reads {reads}; writes {writes}");
    let does: Vec<&str> = [
        (effects.stateful, "keeps state"),
        (effects.drops, "drops"),
        (effects.counts, "counts"),
        (effects.events, "writes events"),
        (effects.emits, "emits packets"),
        (effects.shares, "takes shared resources"),
        (effects.aliases, "names flows anew"),
        (effects.turns, "turns packets back"),
    ]
    .into_iter()
    .filter_map(|(does, what)| does.then_some(what))
    .collect();
    if !does.is_empty() {
        let _ = writeln!(out, "  {}", does.join(", "));
    }
    if effects.cycles > 0 {
        let _ = writeln!(out, "  about {} cycles per packet", effects.cycles);
    }
}
