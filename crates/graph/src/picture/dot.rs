//! A plan in Graphviz' language.

use core::fmt::Write;

use weir_nf::host::Target;

use super::text::about;
use super::{joined_links, same_as, stages, target_node};
use crate::compile::{Graph, Plan};

/// The chain as written and the plan, side by side in one directed graph, for
/// `dot -Tsvg`.
pub fn dot(plan: &Plan) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "digraph {} {{", quoted(&plan.chain));
    let _ = writeln!(
        out,
        "  rankdir=LR; compound=true;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n  \
         edge [fontname=\"sans-serif\", fontsize=10];"
    );
    let _ = writeln!(
        out,
        "  subgraph cluster_written {{\n    label=\"as written\";"
    );
    nodes(&mut out, &plan.written, "w", 0..plan.written.nodes.len());
    let _ = writeln!(out, "  }}");
    edges(&mut out, &plan.written, "w");
    let _ = writeln!(out, "  subgraph cluster_runs {{\n    label=\"as it runs\";");
    for (name, stage) in stages(plan) {
        let label = format!("stage {name}{}", about(stage));
        let _ = writeln!(
            out,
            "  subgraph {} {{\n    label={}; style=dashed;",
            quoted(&format!("cluster_stage_{name}")),
            quoted(&label)
        );
        nodes(&mut out, &plan.graph, "r", stage.nodes.clone());
        let _ = writeln!(out, "  }}");
    }
    let _ = writeln!(out, "  }}");
    edges(&mut out, &plan.graph, "r");
    out.push_str("}\n");
    out
}

fn nodes(out: &mut String, graph: &Graph, prefix: &str, numbers: core::ops::Range<usize>) {
    for number in numbers {
        let node = &graph.nodes[number];
        let style = match same_as(graph, number) {
            Some(_) => ", style=\"rounded,dotted\"",
            None => "",
        };
        let text = format!("{}\n{}", node.name, node.kind);
        let _ = writeln!(
            out,
            "    {prefix}{number} [label={}{style}];",
            quoted(&text)
        );
    }
}

fn edges(out: &mut String, graph: &Graph, prefix: &str) {
    let mut out_used = false;
    let mut drop_used = false;
    for number in 0..graph.nodes.len() {
        for (label, target) in joined_links(graph, number) {
            let to = match (target_node(target), target) {
                (Some(other), _) => format!("{prefix}{other}"),
                (None, Target::Drop) => {
                    drop_used = true;
                    format!("{prefix}drop")
                }
                (None, _) => {
                    out_used = true;
                    format!("{prefix}out")
                }
            };
            let text = if label == "pass" {
                String::new()
            } else {
                format!(" [label={}]", quoted(&label))
            };
            let _ = writeln!(out, "  {prefix}{number} -> {to}{text};");
        }
        if let Some(earlier) = graph.nodes[number].same_as {
            let _ = writeln!(
                out,
                "  {prefix}{earlier} -> {prefix}{number} [style=dotted, constraint=false, \
                 label=\"verdicts\"];"
            );
        }
    }
    for (used, name) in [(out_used, "out"), (drop_used, "drop")] {
        if used {
            let _ = writeln!(
                out,
                "  {prefix}{name} [label={}, shape=plain];",
                quoted(name)
            );
        }
    }
}

/// A string of Graphviz' language.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
