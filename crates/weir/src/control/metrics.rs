//! What Prometheus reads: the counts in its text format, version 0.0.4.
//!
//! Names and labels are listed in docs/metrics.md, which a test holds to
//! [`METRICS`]. No label has a value that packets choose.

use std::fmt::Write as _;

use weir_api::v1;
use weir_runtime::{FunctionReport, Report};

use super::asked::{Asked, Counts};

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
}
use Kind::{Counter, Gauge};

/// Name, kind, help, labels.
type Metric = (&'static str, Kind, &'static str, &'static str);

/// Every metric there is, in the order in which they are written.
const METRICS: &[Metric] = &[
    (
        "weir_info",
        Gauge,
        "Always 1; what runs.",
        "instance, mode, version",
    ),
    ("weir_uptime_seconds", Gauge, "Time since the start.", ""),
    (
        "weir_port_packets_total",
        Counter,
        "Packets that came in or went out by a port.",
        "port, direction",
    ),
    (
        "weir_port_bytes_total",
        Counter,
        "Their bytes.",
        "port, direction",
    ),
    (
        "weir_port_dropped_packets_total",
        Counter,
        "Packets lost at a port, by reason.",
        "port, direction, reason",
    ),
    (
        "weir_no_chain_packets_total",
        Counter,
        "Packets that no chain takes.",
        "",
    ),
    (
        "weir_network_packets_total",
        Counter,
        "What a router or a tap has counted, by name (`network` of a summary).",
        "mode, count",
    ),
    (
        "weir_network_waiting_packets",
        Gauge,
        "Packets that wait in a router for a neighbour.",
        "mode",
    ),
    (
        "weir_network_dropped_packets_total",
        Counter,
        "Packets that a router dropped before the chains and behind them, by reason.",
        "mode, reason",
    ),
    (
        "weir_chain_packets_in_total",
        Counter,
        "Packets that a chain took in.",
        "chain",
    ),
    (
        "weir_chain_bytes_in_total",
        Counter,
        "Their bytes.",
        "chain",
    ),
    (
        "weir_chain_packets_out_total",
        Counter,
        "Packets that a chain put out, those that functions made included.",
        "chain",
    ),
    (
        "weir_chain_bytes_out_total",
        Counter,
        "Their bytes.",
        "chain",
    ),
    (
        "weir_chain_emitted_packets_total",
        Counter,
        "Packets that functions made.",
        "chain",
    ),
    (
        "weir_chain_held_packets",
        Gauge,
        "Packets that wait in a chain (fragments).",
        "chain",
    ),
    (
        "weir_chain_dropped_packets_total",
        Counter,
        "Packets that a chain dropped, by reason.",
        "chain, reason",
    ),
    (
        "weir_chain_malformed_packets_total",
        Counter,
        "Malformed packets, dropped or passed on, by reason.",
        "chain, reason",
    ),
    (
        "weir_chain_events_total",
        Counter,
        "Events recorded.",
        "chain",
    ),
    (
        "weir_chain_events_lost_total",
        Counter,
        "Events lost since their buffer was full.",
        "chain",
    ),
    (
        "weir_chain_internal_total",
        Counter,
        "Internal errors: states that cannot occur and did, a bug of weir.",
        "chain",
    ),
    (
        "weir_chain_engine_cycles_total",
        Counter,
        "Processor cycles outside functions: parsing, looking up.",
        "chain",
    ),
    ("weir_flows", Gauge, "Flows open.", "chain"),
    ("weir_flows_opened_total", Counter, "Flows opened.", "chain"),
    (
        "weir_flows_ended_total",
        Counter,
        "Flows ended, by why.",
        "chain, reason",
    ),
    (
        "weir_flow_aliases",
        Gauge,
        "Further names of flows.",
        "chain",
    ),
    (
        "weir_flow_aliases_refused_total",
        Counter,
        "Further names that could not be had.",
        "chain",
    ),
    (
        "weir_leased_ports",
        Gauge,
        "Ports that functions (NATs) have leased.",
        "chain",
    ),
    (
        "weir_side_buffer_bytes",
        Gauge,
        "Bytes of side buffers in use.",
        "chain",
    ),
    (
        "weir_function_packets_total",
        Counter,
        "Packets that reached a function.",
        "chain, function, nf",
    ),
    (
        "weir_function_bytes_total",
        Counter,
        "Their bytes.",
        "chain, function, nf",
    ),
    (
        "weir_function_cycles_total",
        Counter,
        "Processor cycles spent in a function.",
        "chain, function, nf",
    ),
    (
        "weir_function_dropped_packets_total",
        Counter,
        "Packets that a function dropped.",
        "chain, function, nf",
    ),
    (
        "weir_function_counter_total",
        Counter,
        "A function's own counters, by name (`weir nf show`).",
        "chain, function, nf, counter",
    ),
    (
        "weir_stage_deaths_total",
        Counter,
        "Times that a stage's process died.",
        "chain, stage",
    ),
    (
        "weir_stage_lost_flows_total",
        Counter,
        "Flows whose state in a stage was lost with its process.",
        "chain, stage",
    ),
    (
        "weir_stage_ready",
        Gauge,
        "1 while a stage's process is at work, 0 while it is started or given up.",
        "chain, stage",
    ),
    (
        "weir_thread_idle_seconds_total",
        Counter,
        "Time in which a thread slept, since nothing came.",
        "thread",
    ),
    (
        "weir_thread_frames",
        Gauge,
        "Frames of packet memory that are a thread's.",
        "thread",
    ),
    (
        "weir_thread_free_frames",
        Gauge,
        "Those of them that are free.",
        "thread",
    ),
    (
        "weir_thread_steered_packets_total",
        Counter,
        "Packets that arrived at a thread's ports and went to another worker, whose flows they are.",
        "thread",
    ),
];

/// Labels of a port, its packets, bytes, and drops by reason.
type OfPort = (
    Vec<(&'static str, String)>,
    u64,
    u64,
    Vec<(&'static str, u64)>,
);

/// The text, metric by metric.
struct Text {
    text: String,
}

impl Text {
    /// Writes a metric: its head, and a line per value.
    fn metric(
        &mut self,
        name: &str,
        values: impl IntoIterator<Item = (Vec<(&'static str, String)>, f64)>,
    ) {
        let mut values = values.into_iter().peekable();
        let known = METRICS.iter().find(|(known, ..)| *known == name);
        let (Some((_, kind, help, _)), Some(_)) = (known, values.peek()) else {
            return;
        };
        let kind = match kind {
            Counter => "counter",
            Gauge => "gauge",
        };
        // Writing to a `String` can't fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in values {
            self.text.push_str(name);
            for (i, (label, text)) in labels.iter().enumerate() {
                self.text.push(if i == 0 { '{' } else { ',' });
                let _ = write!(self.text, "{label}=\"");
                escape(&mut self.text, text);
                self.text.push('"');
            }
            if !labels.is_empty() {
                self.text.push('}');
            }
            let _ = writeln!(self.text, " {value}");
        }
    }
}

fn escape(into: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\\' => into.push_str("\\\\"),
            '"' => into.push_str("\\\""),
            '\n' => into.push_str("\\n"),
            c => into.push(c),
        }
    }
}

/// All metrics as they stand.
pub(super) fn text(asked: &Asked, counts: &Counts) -> String {
    let mut text = Text {
        text: String::with_capacity(16 << 10),
    };
    let info = &asked.info;
    let labels = vec![
        ("instance", info.name.clone()),
        ("mode", info.mode.clone()),
        ("version", info.version.clone()),
    ];
    text.metric("weir_info", [(labels, 1.0)]);
    text.metric(
        "weir_uptime_seconds",
        [(vec![], counts.elapsed.as_secs_f64())],
    );
    ports(&mut text, asked, counts);
    let refused: u64 = counts.threads.iter().map(|thread| thread.refused).sum();
    text.metric("weir_no_chain_packets_total", [(vec![], refused as f64)]);
    network(&mut text, counts);
    chains(&mut text, &counts.reports);
    functions(&mut text, &counts.reports);
    processes(&mut text, asked, counts);
    let threads = || counts.threads.iter();
    let label = |name: &str| vec![("thread", name.to_owned())];
    let idle = threads().map(|t| (label(&t.name), t.idle.as_secs_f64()));
    text.metric("weir_thread_idle_seconds_total", idle);
    let with_frames = || threads().filter(|t| t.frames > 0);
    let frames = with_frames().map(|t| (label(&t.name), t.frames as f64));
    text.metric("weir_thread_frames", frames);
    let free = with_frames().map(|t| (label(&t.name), t.frames_free as f64));
    text.metric("weir_thread_free_frames", free);
    let steered = threads().map(|t| (label(&t.name), t.steered as f64));
    text.metric("weir_thread_steered_packets_total", steered);
    text.text
}

fn processes(text: &mut Text, asked: &Asked, counts: &Counts) {
    let mut one = |name: &str, of: fn(&v1::StageProcess) -> u64| {
        let all = super::convert::processes(asked, counts).map(|process| {
            let labels = vec![
                ("chain", process.chain.clone()),
                ("stage", process.stage.to_string()),
            ];
            (labels, of(&process) as f64)
        });
        text.metric(name, all);
    };
    one("weir_stage_deaths_total", |p| p.deaths);
    one("weir_stage_lost_flows_total", |p| p.flows_lost);
    one("weir_stage_ready", |p| u64::from(p.state == "ready"));
}

fn network(text: &mut Text, counts: &Counts) {
    let Some(network) = super::convert::network(counts) else {
        return;
    };
    let labels = |label: &'static str, name: &str| {
        vec![("mode", network.mode.clone()), (label, name.to_owned())]
    };
    let (waiting, grown): (Vec<_>, Vec<_>) =
        network.counts.iter().partition(|c| c.name == "waiting");
    let grown = grown.into_iter();
    text.metric(
        "weir_network_packets_total",
        grown.map(|c| (labels("count", &c.name), c.value as f64)),
    );
    let waiting = waiting.into_iter();
    let mode = || vec![("mode", network.mode.clone())];
    text.metric(
        "weir_network_waiting_packets",
        waiting.map(|c| (mode(), c.value as f64)),
    );
    let drops = network.drops.iter();
    text.metric(
        "weir_network_dropped_packets_total",
        drops.map(|c| (labels("reason", &c.name), c.value as f64)),
    );
}

fn ports(text: &mut Text, asked: &Asked, counts: &Counts) {
    let (inputs, outputs) = (counts.inputs(), counts.outputs());
    let inputs = asked
        .inputs()
        .iter()
        .zip(&inputs)
        .map(|(p, c)| (p, "in", c));
    let outputs = asked
        .outputs()
        .iter()
        .zip(&outputs)
        .map(|(p, c)| (p, "out", c));
    // A port may be named twice: then its counts are one.
    let mut all: Vec<OfPort> = Vec::new();
    for (port, direction, counters) in inputs.chain(outputs) {
        let labels = vec![
            ("port", port.port.clone()),
            ("direction", direction.to_owned()),
        ];
        match all.iter_mut().find(|(known, ..)| *known == labels) {
            Some((_, packets, bytes, drops)) => {
                *packets += counters.packets;
                *bytes += counters.bytes;
                for (reason, n) in &counters.drops {
                    match drops.iter_mut().find(|(known, _)| known == reason) {
                        Some((_, sum)) => *sum += n,
                        None => drops.push((reason, *n)),
                    }
                }
            }
            None => all.push((
                labels,
                counters.packets,
                counters.bytes,
                counters.drops.clone(),
            )),
        }
    }
    let packets = all
        .iter()
        .map(|(labels, n, ..)| (labels.clone(), *n as f64));
    text.metric("weir_port_packets_total", packets);
    let bytes = all
        .iter()
        .map(|(labels, _, n, _)| (labels.clone(), *n as f64));
    text.metric("weir_port_bytes_total", bytes);
    let drops = all.iter().flat_map(|(labels, .., drops)| {
        drops.iter().map(|(reason, n)| {
            let reason = [("reason", (*reason).to_owned())];
            (labels.iter().cloned().chain(reason).collect(), *n as f64)
        })
    });
    text.metric("weir_port_dropped_packets_total", drops.collect::<Vec<_>>());
}

fn chains(text: &mut Text, reports: &[Report]) {
    let label = |report: &Report| vec![("chain", report.chain.clone())];
    let mut one = |name: &str, of: fn(&Report) -> u64| {
        text.metric(name, reports.iter().map(|r| (label(r), of(r) as f64)));
    };
    one("weir_chain_packets_in_total", |r| r.packets_in);
    one("weir_chain_bytes_in_total", |r| r.bytes_in);
    one("weir_chain_packets_out_total", |r| r.packets_out);
    one("weir_chain_bytes_out_total", |r| r.bytes_out);
    one("weir_chain_emitted_packets_total", |r| r.emitted);
    one("weir_chain_held_packets", |r| r.held);
    one("weir_chain_events_total", |r| r.events);
    one("weir_chain_events_lost_total", |r| r.events_lost);
    one("weir_chain_internal_total", |r| r.internal);
    one("weir_chain_engine_cycles_total", |r| r.engine_cycles);
    one("weir_flows", |r| r.flows.active);
    one("weir_flows_opened_total", |r| r.flows.seen);
    one("weir_flow_aliases", |r| r.flows.aliases);
    one("weir_flow_aliases_refused_total", |r| {
        r.flows.aliases_refused
    });
    one("weir_leased_ports", |r| r.flows.leased);
    one("weir_side_buffer_bytes", |r| r.flows.buffer_bytes);
    let by = |report: &Report, reason: &str| {
        vec![
            ("chain", report.chain.clone()),
            ("reason", reason.to_owned()),
        ]
    };
    let drops = reports.iter().flat_map(|report| {
        report
            .drops
            .iter()
            .map(|(reason, n)| (by(report, reason), *n as f64))
    });
    text.metric("weir_chain_dropped_packets_total", drops);
    let malformed = reports.iter().flat_map(|report| {
        report
            .malformed
            .iter()
            .map(|(reason, n)| (by(report, reason), *n as f64))
    });
    text.metric("weir_chain_malformed_packets_total", malformed);
    let ended = reports.iter().flat_map(|report| {
        report
            .flows
            .ended
            .iter()
            .map(|(why, n)| (by(report, why), *n as f64))
    });
    text.metric("weir_flows_ended_total", ended);
}

fn functions(text: &mut Text, reports: &[Report]) {
    let all = || {
        reports
            .iter()
            .flat_map(|r| r.functions.iter().map(move |f| (r, f)))
    };
    let label = |report: &Report, f: &FunctionReport| {
        vec![
            ("chain", report.chain.clone()),
            ("function", f.name.clone()),
            ("nf", f.nf.to_owned()),
        ]
    };
    let mut one = |name: &str, of: fn(&FunctionReport) -> u64| {
        text.metric(name, all().map(|(r, f)| (label(r, f), of(f) as f64)));
    };
    one("weir_function_packets_total", |f| f.packets);
    one("weir_function_bytes_total", |f| f.bytes);
    one("weir_function_cycles_total", |f| f.cycles);
    one("weir_function_dropped_packets_total", |f| f.dropped);
    let counters = all().flat_map(|(report, f)| {
        f.counters.iter().map(move |(name, n)| {
            let mut labels = label(report, f);
            labels.push(("counter", (*name).to_owned()));
            (labels, *n as f64)
        })
    });
    text.metric("weir_function_counter_total", counters);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANUAL: &str = include_str!("../../../../docs/metrics.md");

    #[test]
    fn the_manual_lists_every_metric_and_no_other() {
        for (name, kind, help, labels) in METRICS {
            let kind = format!("{kind:?}").to_lowercase();
            let row = format!("| `{name}` | {kind} | {labels} | {help} |");
            assert!(MANUAL.contains(&row), "docs/metrics.md lacks: {row}");
        }
        let rows = MANUAL.lines().filter(|line| line.starts_with("| `weir_"));
        assert_eq!(rows.count(), METRICS.len());
    }

    #[test]
    fn names_have_units_and_counters_say_so() {
        for (name, kind, help, _) in METRICS {
            assert!(name.starts_with("weir_") && help.ends_with('.'), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == Counter, "{name}");
        }
    }

    #[test]
    fn labels_are_escaped() {
        let mut text = Text {
            text: String::new(),
        };
        let labels = vec![("chain", "a\"b\\c\nd".to_owned())];
        text.metric("weir_flows", [(labels, 2.0)]);
        let expected = "# HELP weir_flows Flows open.\n# TYPE weir_flows gauge\nweir_flows{chain=\"a\\\"b\\\\c\\nd\"} 2\n";
        assert_eq!(text.text, expected);
    }
}
