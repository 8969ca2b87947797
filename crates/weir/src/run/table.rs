//! The summary as a table.

use crate::output::thousands;
use std::fmt::Write as _;

use weir_telemetry::Counts;

use super::summary::Summary;

/// Rows shown of a long list.
const ROWS: usize = 12;

/// Renders a summary for people.
pub(super) fn render(summary: &Summary) -> String {
    let mut text = String::new();
    let chains: Vec<&str> = summary.reports.iter().map(|r| r.chain.as_str()).collect();
    // Writing to a `String` can't fail.
    let _ = writeln!(text, "chain {}", chains.join(", "));
    for (port, counters) in &summary.inputs {
        let _ = writeln!(
            text,
            "  in   {:<34} {:>12} packets {:>14} bytes",
            port.text,
            thousands(counters.packets + counters.dropped()),
            thousands(counters.bytes + counters.dropped_bytes)
        );
    }
    for (port, counters) in &summary.outputs {
        let _ = writeln!(
            text,
            "  out  {:<34} {:>12} packets {:>14} bytes",
            port.text,
            thousands(counters.packets),
            thousands(counters.bytes)
        );
    }
    functions(&mut text, summary);
    list(&mut text, "dropped", summary.dropped(), &summary.drops);
    let malformed = summary.malformed.iter().map(|(_, n)| n).sum();
    if malformed > 0 {
        list(&mut text, "malformed", malformed, &summary.malformed);
    }
    if summary.emitted > 0 {
        let _ = writeln!(
            text,
            "\nmade by functions {:>24}",
            thousands(summary.emitted)
        );
    }
    if summary.held > 0 {
        let _ = writeln!(text, "\nheld {:>37}", thousands(summary.held));
    }
    if summary.kept > 0 {
        let _ = writeln!(text, "\nkept by weir {:>29}", thousands(summary.kept));
    }
    flows(&mut text, summary);
    for more in &summary.more {
        more.add_text(&mut text);
    }
    let events: u64 = summary.reports.iter().map(|r| r.events).sum();
    let _ = writeln!(
        text,
        "\n{} packets in {:.3} s ({:.0} ns per packet), {} events",
        thousands(summary.packets_in),
        summary.elapsed.as_secs_f64(),
        summary.ns_per_packet(),
        thousands(events)
    );
    text
}

fn functions(text: &mut String, summary: &Summary) {
    let width = summary
        .functions()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or(0)
        .max(8);
    let _ = writeln!(
        text,
        "\n  {:<width$} {:>12} {:>14} {:>10} {:>14}",
        "function", "packets", "bytes", "dropped", "cycles/packet"
    );
    for (name, f) in summary.functions() {
        let _ = writeln!(
            text,
            "  {name:<width$} {:>12} {:>14} {:>10} {:>14.1}",
            thousands(f.packets),
            thousands(f.bytes),
            thousands(f.dropped),
            f.cycles as f64 / f.packets.max(1) as f64
        );
        let own: Vec<String> = f
            .counters
            .iter()
            .filter(|(_, n)| *n > 0)
            .map(|(name, n)| format!("{name} {}", thousands(*n)))
            .collect();
        for line in own.chunks(4) {
            let _ = writeln!(text, "  {:<width$}   {}", "", line.join(", "));
        }
        let mut tally = f.tally.clone();
        tally.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        for (name, n) in tally.iter().take(ROWS) {
            let _ = writeln!(text, "  {:<width$}   {:>10}  {name}", "", thousands(*n));
        }
        if tally.len() > ROWS {
            let _ = writeln!(text, "  {:<width$}   … and {} more", "", tally.len() - ROWS);
        }
    }
}

fn list(text: &mut String, title: &str, total: u64, rows: &[(String, u64)]) {
    let _ = writeln!(
        text,
        "\n{title} {:>width$}",
        thousands(total),
        width = 41 - title.len()
    );
    let mut rows = rows.to_vec();
    rows.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    for (reason, n) in &rows {
        let _ = writeln!(text, "  {reason:<28} {:>11}", thousands(*n));
    }
}

fn flows(text: &mut String, summary: &Summary) {
    let tracked: Vec<_> = summary.reports.iter().filter(|r| r.flows.tracked).collect();
    if tracked.is_empty() {
        let _ = writeln!(
            text,
            "\nflows: not tracked (no function of the chain needs them; `flows: {{track: always}}` does)"
        );
        return;
    }
    let _ = writeln!(text, "\nflows {:>36}", thousands(summary.flows));
    let mut ended = Counts::default();
    for report in tracked {
        ended.merge(&report.flows.ended);
    }
    for (why, n) in ended.named() {
        let _ = writeln!(
            text,
            "  {:<28} {:>11}",
            format!("ended: {why}"),
            thousands(n)
        );
    }
}
