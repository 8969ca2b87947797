//! The part of the summary for a run with a switch.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::driver::ClusterEnd;

use super::summary::More;
use crate::output::{role, thousands};

impl More for ClusterEnd {
    fn add_json(&self, value: &mut Value) {
        add_json(self, value);
    }

    fn add_text(&self, text: &mut String) {
        add_text(self, text);
    }
}

/// Adds `runtimes`, `hand_overs`, `switch`, and where runtimes have processes
/// `packet_memory`.
fn add_json(end: &ClusterEnd, value: &mut Value) {
    value["runtimes"] = end
        .runtimes
        .iter()
        .map(|runtime| {
            json!({
                "id": runtime.id.0,
                "role": role(runtime.is_logger),
                "packets": runtime.packets,
                "units": runtime.units,
                "busy_s": runtime.busy.as_secs_f64(),
                "held_most": runtime.held_most,
                "died": runtime.died,
            })
        })
        .collect();
    let replication = end.replication.iter();
    value["replication"] = replication.map(ToString::to_string).collect();
    if let Some(pages) = &end.pages {
        value["packet_memory"] = json!(pages);
    }
    let durations = &end.hand_overs.durations;
    let us = |ns: u64| ns as f64 / 1_000.0;
    value["hand_overs"] = json!({
        "count": durations.count(),
        "unfinished": end.hand_overs.under_way(),
        "p50_us": us(durations.quantile(0.5)),
        "p99_us": us(durations.quantile(0.99)),
        "max_us": us(durations.max()),
        "packets_held_most": held_most(end),
        "lost": end.lost(),
        "reordered": end.gate.reordered,
        "repeated": end.count("repeated"),
        "refused": end.refused(),
    });
    value["switch"] = end
        .counts
        .iter()
        .filter(|(_, n)| *n > 0)
        .map(|(name, n)| (name.clone(), json!(n)))
        .collect::<Map<_, _>>()
        .into();
}

fn held_most(end: &ClusterEnd) -> u64 {
    let most = end.runtimes.iter().map(|runtime| runtime.held_most);
    most.max().unwrap_or(0)
}

/// Adds the tables.
fn add_text(end: &ClusterEnd, text: &mut String) {
    // Writing to a `String` can't fail.
    let _ = writeln!(
        text,
        "\n  {:<10} {:>12} {:>12} {:>10}",
        "runtimes", "packets", "units", "busy s"
    );
    for runtime in &end.runtimes {
        let died = if runtime.died { "  died" } else { "" };
        let logger = if runtime.is_logger { "  logger" } else { "" };
        let _ = writeln!(
            text,
            "  {:<10} {:>12} {:>12} {:>10.3}{logger}{died}",
            runtime.id.0,
            thousands(runtime.packets),
            thousands(runtime.units),
            runtime.busy.as_secs_f64()
        );
    }
    if let Some(pages) = &end.pages {
        let _ = writeln!(text, "  in processes; packet memory: {pages}");
    }
    let durations = &end.hand_overs.durations;
    let _ = writeln!(text, "\nhand-overs {:>31}", thousands(durations.count()));
    if durations.count() == 0 && end.hand_overs.under_way() == 0 {
        return;
    }
    for (name, share) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
        let _ = writeln!(
            text,
            "  {:<28} {:>8.3} ms",
            format!("duration {name}"),
            durations.quantile(share) as f64 / 1e6
        );
    }
    for (name, n) in [
        ("packets held at most", held_most(end)),
        ("lost", end.lost()),
        ("reordered", end.gate.reordered),
        ("repeated", end.count("repeated")),
        ("refused", end.refused()),
    ] {
        let _ = writeln!(text, "  {name:<28} {:>11}", thousands(n));
    }
}
