//! The summary of a run: counts of all chains and ports together.

use std::time::Duration;

use serde_json::{Map, Value, json};
use weir_ctl::DriverDrop;
use weir_io::port::PortCounters;
use weir_packet::Internal;
use weir_runtime::{FunctionReport, Report};
use weir_telemetry::Counters as _;

use super::ports::{Ports, RunPort};
use crate::counters;

/// A run's counts. `packets_in = packets_out − emitted + Σ drops + held + kept`.
pub(super) struct Summary {
    pub(super) reports: Vec<Report>,
    pub(super) inputs: Vec<(RunPort, PortCounters)>,
    pub(super) outputs: Vec<(RunPort, PortCounters)>,
    pub(super) packets_in: u64,
    pub(super) bytes_in: u64,
    pub(super) packets_out: u64,
    pub(super) bytes_out: u64,
    pub(super) emitted: u64,
    pub(super) held: u64,
    /// Packets that ended in weir as they should.
    pub(super) kept: u64,
    pub(super) drops: Vec<(String, u64)>,
    pub(super) malformed: Vec<(String, u64)>,
    pub(super) flows: u64,
    pub(super) elapsed: Duration,
    pub(super) seed: u64,
    pub(super) warnings: Vec<String>,
    /// Parts added by the way of running.
    pub(super) more: Vec<Box<dyn More>>,
}

/// The part of the summary that a way of running (a switch, workers, a plan) adds.
pub(super) trait More {
    /// Its fields.
    fn add_json(&self, value: &mut Value);
    /// Its lines.
    fn add_text(&self, text: &mut String);
    /// Packets of its own, which are in no chain's report.
    fn own(&self) -> Own {
        Own::default()
    }
}

/// Packets that a way of running made or took itself.
#[derive(Default)]
pub(super) struct Own {
    /// Made: answers, questions, ICMP errors, fragments.
    pub(super) made: u64,
    /// Ended in weir as they should: what is for weir itself, all of a tap.
    pub(super) kept: u64,
    /// Still waiting.
    pub(super) held: u64,
    /// Dropped, by reason.
    pub(super) drops: Vec<(String, u64)>,
}

/// The results of a run, from which the summary is made.
#[derive(Default)]
pub(super) struct Ended {
    pub(super) reports: Vec<Report>,
    pub(super) inputs: Vec<PortCounters>,
    pub(super) outputs: Vec<PortCounters>,
    /// Packets that no chain takes.
    pub(super) refused: u64,
    pub(super) elapsed: Duration,
    pub(super) more: Vec<Box<dyn More>>,
    /// More to warn of.
    pub(super) warnings: Vec<String>,
}

impl Ended {
    /// Warns of states that cannot occur.
    pub(super) fn internal(&mut self, internal: &Internal) {
        if let Some(first) = internal.first() {
            let count = internal.count();
            self.warnings.push(format!(
                "{count} states that cannot occur were met, first at {first}: this is a fault of weir"
            ));
        }
    }

    /// Warns where frames were not given back.
    pub(super) fn leaked(&mut self, frames: usize) {
        if frames > 0 {
            self.warnings.push(format!(
                "{frames} frames were not given back: this is a fault of weir"
            ));
        }
    }
}

impl Summary {
    pub(super) fn of(ended: Ended, ports: &Ports, seed: u64) -> Summary {
        let Ended {
            reports,
            inputs,
            outputs,
            refused,
            elapsed,
            more,
            warnings: others,
        } = ended;
        let inputs: Vec<_> = ports.inputs.iter().cloned().zip(inputs).collect();
        let outputs: Vec<_> = ports.outputs.iter().cloned().zip(outputs).collect();
        let sum = |f: fn(&Report) -> u64| reports.iter().map(f).sum::<u64>();
        let own: Vec<Own> = more.iter().map(|more| more.own()).collect();
        let owned = |f: fn(&Own) -> u64| own.iter().map(f).sum::<u64>();
        let mut drops = Totals::default();
        drops.add_ports(inputs.iter().chain(&outputs));
        if refused > 0 {
            drops.add(DriverDrop::NoChain.name(), refused);
        }
        drops.add_chains(&reports);
        drops.add_all(own.iter().flat_map(|own| &own.drops));
        let mut malformed = Totals::default();
        malformed.add_all(reports.iter().flat_map(|report| &report.malformed));
        let of = |ports: &[(RunPort, PortCounters)], f: fn(&PortCounters) -> u64| {
            ports.iter().map(|(_, counters)| f(counters)).sum::<u64>()
        };
        let mut warnings = warnings(&reports, &inputs);
        warnings.extend(others);
        Summary {
            packets_in: of(&inputs, |c| c.packets + c.dropped()),
            bytes_in: of(&inputs, |c| c.bytes + c.dropped_bytes),
            packets_out: of(&outputs, |c| c.packets),
            bytes_out: of(&outputs, |c| c.bytes),
            emitted: sum(|r| r.emitted) + owned(|own| own.made),
            held: sum(|r| r.held) + owned(|own| own.held),
            kept: owned(|own| own.kept),
            flows: sum(|r| r.flows.seen),
            drops: drops.0,
            malformed: malformed.0,
            elapsed,
            seed,
            warnings,
            reports,
            inputs,
            outputs,
            more,
        }
    }

    pub(super) fn dropped(&self) -> u64 {
        self.drops.iter().map(|(_, n)| n).sum()
    }

    pub(super) fn ns_per_packet(&self) -> f64 {
        self.elapsed.as_nanos() as f64 / self.packets_in.max(1) as f64
    }

    /// Every function with the name under which the summary knows it.
    pub(super) fn functions(&self) -> impl Iterator<Item = (String, &FunctionReport)> {
        let several = self.reports.len() > 1;
        self.reports.iter().flat_map(move |report| {
            report.functions.iter().map(move |function| {
                let name = if several {
                    format!("{}.{}", report.chain, function.name)
                } else {
                    function.name.clone()
                };
                (name, function)
            })
        })
    }

    pub(super) fn to_json(&self) -> Value {
        let mut value = json!({
            "packets_in": self.packets_in,
            "packets_out": self.packets_out,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "emitted": self.emitted,
            "drops": counts(&self.drops),
            "held": self.held,
            "kept": self.kept,
            "flows": self.flows,
            "malformed": counts(&self.malformed),
            "nfs": self.functions().map(|(name, f)| (name, function(f))).collect::<Map<_, _>>(),
            "elapsed_s": self.elapsed.as_secs_f64(),
            "ns_per_packet": self.ns_per_packet(),
            "chains": self.reports.iter().map(|r| (r.chain.clone(), chain(r))).collect::<Map<_, _>>(),
            "ports": {
                "in": self.inputs.iter().map(port).collect::<Vec<_>>(),
                "out": self.outputs.iter().map(port).collect::<Vec<_>>(),
            },
            "seed": self.seed,
            "warnings": self.warnings,
        });
        for more in &self.more {
            more.add_json(&mut value);
        }
        value
    }
}

/// Sums by name, in the order in which names came first.
#[derive(Default)]
struct Totals(Vec<(String, u64)>);

impl Totals {
    fn add(&mut self, name: &str, count: u64) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, n)) => *n += count,
            None => self.0.push((name.to_owned(), count)),
        }
    }

    fn add_all<'a>(&mut self, counts: impl IntoIterator<Item = &'a (String, u64)>) {
        for (name, count) in counts {
            self.add(name, *count);
        }
    }

    fn add_ports<'a>(&mut self, ports: impl Iterator<Item = &'a (RunPort, PortCounters)>) {
        for (reason, count) in ports.flat_map(|(_, port)| port.drops.named()) {
            self.add(reason, count);
        }
    }

    /// Adds the drops of chains. Where there are several, a reason of a function carries its
    /// chain's name; the engine's own reasons are the same everywhere.
    fn add_chains(&mut self, reports: &[Report]) {
        let several = reports.len() > 1;
        for report in reports {
            for (reason, count) in &report.drops {
                let is_of = |f: &FunctionReport| {
                    let rest = reason.strip_prefix(&f.name);
                    rest.is_some_and(|rest| rest.starts_with('.'))
                };
                if several && report.functions.iter().any(is_of) {
                    self.add(&format!("{}.{reason}", report.chain), *count);
                } else {
                    self.add(reason, *count);
                }
            }
        }
    }
}

fn counts(list: &[(String, u64)]) -> Value {
    counters::named(list.iter().map(|(name, n)| (name, *n)))
}

fn function(report: &FunctionReport) -> Value {
    let mut value = counters::to_json(report.entries());
    value["nf"] = json!(report.nf);
    value["cycles_per_packet"] = json!(report.cycles as f64 / report.packets.max(1) as f64);
    value["counters"] = counters::named(report.counters.iter().copied());
    if !report.tally.is_empty() {
        value["tally"] = counts(&report.tally);
    }
    value
}

fn chain(report: &Report) -> Value {
    let mut value = counters::to_json(report.entries());
    value["drops"] = counts(&report.drops);
    value["malformed"] = counts(&report.malformed);
    value["flows"] = counters::to_json(report.flows.entries());
    value["flows"]["tracked"] = json!(report.flows.tracked);
    value["flows"]["ended"] = counters::labelled(&report.flows.ended);
    value
}

fn port((port, counters): &(RunPort, PortCounters)) -> Value {
    let mut value = counters::to_json(counters.entries());
    value["name"] = json!(port.name);
    value["side"] = json!(port.side.name());
    value["port"] = json!(port.text);
    value["drops"] = counters::labelled(&counters.drops);
    value["cut_short"] = json!(counters.cut_short);
    if let Some(mode) = &counters.mode {
        value["mode"] = json!(mode);
    }
    if counters.mode.is_some() || counters.noticed.sum() > 0 {
        value["noticed"] = counters::labelled(&counters.noticed);
    }
    value
}

fn warnings(reports: &[Report], inputs: &[(RunPort, PortCounters)]) -> Vec<String> {
    let mut warnings: Vec<String> = inputs
        .iter()
        .filter_map(|(_, counters)| counters.cut_short.clone())
        .collect();
    for report in reports {
        let mut warn = |count: u64, what: &str| {
            if count > 0 {
                warnings.push(format!("chain {}: {count} {what}", report.chain));
            }
        };
        let first = report.internal_first.as_deref().unwrap_or("?");
        warn(
            report.internal,
            &format!("internal errors (first at {first}): please report this bug of weir"),
        );
        warn(
            report.events_lost,
            "events were lost: more came in one batch than the buffer holds",
        );
        warn(
            report.emits_lost,
            "packets could not be made: no frame was free",
        );
        warn(
            report.flows.aliases_refused,
            "aliases of flows could not be had",
        );
        warn(
            report.flows.buffers_refused,
            "times a side buffer could not grow: raise flows.buffers",
        );
    }
    warnings
}
