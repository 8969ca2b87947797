//! A plan as text.

use core::fmt::Write;

use weir_nf::host::Target;

use super::{called, joined_links, same_as, stages, target_name};
use crate::compile::{Balance, Decision, Graph, Home, Plan, PlannedStage, Step};

/// The plan as a tree of stages and processors, the chain as written before
/// it and the reasons behind it.
pub fn text(plan: &Plan) -> String {
    let mut out = String::new();
    let (runs, all) = called(&plan.graph);
    let _ = writeln!(
        out,
        "chain {}: {}; {}",
        plan.chain,
        plural(plan.written.nodes.len(), "processor"),
        match (runs, all) {
            (1, 1) => "it is called".to_owned(),
            (1, _) => "1 is called".to_owned(),
            _ if runs == all => "all are called".to_owned(),
            _ => format!("{runs} are called"),
        }
    );
    let _ = writeln!(out, "\nas written");
    let everything: Vec<usize> = (0..plan.written.nodes.len()).collect();
    processors(&mut out, &plan.written, &everything, "  ");
    let _ = writeln!(out, "\nas it runs");
    let names = stages(plan);
    let mut names = names.iter();
    for step in &plan.steps {
        match step {
            Step::Stage(stage) => {
                if let Some((name, _)) = names.next() {
                    one(&mut out, plan, name, stage, "  ");
                }
            }
            Step::Parallel(branches) => {
                let _ = writeln!(out, "  side by side");
                for stage in branches {
                    if let Some((name, _)) = names.next() {
                        one(&mut out, plan, name, stage, "  │ ");
                    }
                }
            }
        }
    }
    if !plan.decisions.is_empty() {
        let _ = writeln!(out, "\nwhy");
        decisions(&mut out, plan.decisions.iter());
    }
    out
}

/// Decisions, a line each.
pub(super) fn decisions<'a>(out: &mut String, list: impl Iterator<Item = &'a Decision>) {
    for decision in list {
        // The sentence names the others.
        let about = match decision.about.first() {
            None => String::new(),
            Some(name) => format!("{name}: "),
        };
        let _ = writeln!(
            out,
            "  {} {:<11}  {about}{}",
            if decision.done { "✓" } else { "–" },
            decision.pass.name(),
            decision.why
        );
    }
}

fn one(out: &mut String, plan: &Plan, name: &str, stage: &PlannedStage, indent: &str) {
    let _ = writeln!(out, "{indent}stage {name}{}", about(stage));
    let numbers: Vec<usize> = stage.nodes.clone().collect();
    processors(out, &plan.graph, &numbers, &format!("{indent}  "));
}

/// Remarks about a stage itself: core, instances, process, cycles.
pub(super) fn about(stage: &PlannedStage) -> String {
    let mut words = Vec::new();
    if let Some(core) = stage.core {
        words.push(format!("core {core}"));
    }
    if stage.instances > 1 {
        let by = match stage.balance {
            Balance::RoundRobin => "bursts in turn",
            Balance::Flow => "by flow",
        };
        words.push(format!("{} instances, {by}", stage.instances));
    }
    match stage.home {
        Home::Main => {}
        Home::Process => words.push("a process of its own".to_owned()),
        Home::Tenant => words.push("a process of its own, not trusted".to_owned()),
    }
    if stage.cycles > 0 {
        words.push(format!("about {} cycles per packet", stage.cycles));
    }
    if words.is_empty() {
        String::new()
    } else {
        format!(" ({})", words.join(", "))
    }
}

fn processors(out: &mut String, graph: &Graph, numbers: &[usize], indent: &str) {
    let width = numbers
        .iter()
        .map(|&number| graph.nodes[number].name.chars().count())
        .max()
        .unwrap_or(0);
    for (place, &number) in numbers.iter().enumerate() {
        let node = &graph.nodes[number];
        let last = place + 1 == numbers.len();
        let (corner, bar) = if last {
            ("└─", "  ")
        } else {
            ("├─", "│ ")
        };
        let same = match same_as(graph, number) {
            Some(earlier) => format!("  = {earlier}, not called again"),
            None => String::new(),
        };
        let pad = width - node.name.chars().count();
        let _ = writeln!(
            out,
            "{indent}{corner} {}{:pad$}  {}{same}",
            node.name, "", node.kind
        );
        let next_here = numbers.get(place + 1).copied();
        let shown: Vec<(String, Target)> = joined_links(graph, number)
            .into_iter()
            .filter(|(label, target)| {
                // The plain way on needs no line.
                let straight = match (target, next_here) {
                    (Target::Node(next), Some(here)) => *next == here,
                    (Target::Out, None) => number + 1 == graph.nodes.len(),
                    (Target::Node(next), None) => *next == number + 1,
                    _ => false,
                };
                !(label == "pass" && straight)
            })
            .collect();
        for (count, (label, target)) in shown.iter().enumerate() {
            let corner = if count + 1 == shown.len() {
                "└"
            } else {
                "├"
            };
            let _ = writeln!(
                out,
                "{indent}{bar}   {corner} {label} → {}",
                target_name(graph, *target)
            );
        }
    }
}

/// `1 stage`, `2 stages`.
pub(super) fn plural(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}
