//! The metrics for Prometheus: the counts in its text format.
//!
//! Most metrics are those of the tables beside the code that counts. docs/metrics.md
//! lists all, which a test checks. No label has a value that packets choose.

use weir_api::v1;
use weir_io::port::PortCounters;
use weir_router::RouterCounts;
use weir_runtime::{FlowReport, FunctionReport, Report};
use weir_telemetry::prometheus::{Family, Labels, Text};
use weir_telemetry::usage::UsageLine;
use weir_telemetry::{Counters, Kind};

use crate::command::{
    FlowletCounts, LayerReport, RuntimePlaceCounts, ScalingCounts, StageProcessCounts, SwitchCounts,
};

use crate::sets::SetCounts;

use super::asked::{Asked, Counts};
use super::bill::Billed;
use super::reloads::ReloadCounts;

/// Names of labels, by what they tell apart.
const PORT: &[&str] = &["port", "direction"];
const PORT_REASON: &[&str] = &["port", "direction", "reason"];
const NETWORK: &[&str] = &["mode"];
const NETWORK_REASON: &[&str] = &["mode", "reason"];
const CHAIN: &[&str] = &["chain"];
const CHAIN_REASON: &[&str] = &["chain", "reason"];
const FUNCTION: &[&str] = &["chain", "function", "nf"];
const FUNCTION_COUNTER: &[&str] = &["chain", "function", "nf", "counter"];
const STAGE: &[&str] = &["chain", "stage"];
const RUNTIME: &[&str] = &["place"];
const THREAD: &[&str] = &["thread"];
const SET: &[&str] = &["set"];
const BILLED: &[&str] = &["tenant", "chain", "function"];

/// The data that the text shows.
struct Shown<'a> {
    info: &'a v1::GetInfoResponse,
    reloads: &'a ReloadCounts,
    sets: &'a [(String, SetCounts)],
    inputs: &'a [v1::PortInfo],
    outputs: &'a [v1::PortInfo],
    counts: &'a Counts,
    billed: &'a [UsageLine],
}

/// All metrics as they stand.
pub(super) fn text(asked: &Asked, counts: &Counts) -> String {
    let shown = Shown {
        info: &asked.info,
        reloads: &asked.reloads.counts(),
        sets: &asked.sets.counts(),
        inputs: asked.inputs(),
        outputs: asked.outputs(),
        counts,
        billed: &asked.billed.as_ref().map_or_else(Vec::new, Billed::totals),
    };
    let mut text = Text::new();
    shown.write(&mut text);
    text.into_string()
}

fn labels(names: &'static [&'static str], values: &[&str]) -> Labels {
    let values = values.iter().map(|value| (*value).to_owned());
    names.iter().copied().zip(values).collect()
}

/// Writes each counter of a table, for all who have one.
fn table<'a, C: Counters + 'a>(
    text: &mut Text,
    prefix: &str,
    names: &'static [&'static str],
    all: &[(Labels, &'a C)],
) {
    for (index, entry) in C::TABLE.iter().enumerate() {
        let samples = all.iter().filter_map(|(labels, counters)| {
            let value = *counters.values().get(index)?;
            Some((labels.clone(), value))
        });
        text.write(&Family::of(entry, prefix, names), samples);
    }
}

impl Shown<'_> {
    fn write(&self, text: &mut Text) {
        self.instance(text);
        self.ports(text);
        self.network(text);
        self.chains(text);
        self.functions(text);
        self.stages(text);
        self.runtimes(text);
        self.switches(text);
        self.scaling(text);
        self.threads(text);
        self.billed(text);
    }

    /// What the ledger has of tenants.
    fn billed(&self, text: &mut Text) {
        let with = |number: fn(&UsageLine) -> u64| {
            let lines = self.billed.iter();
            let lines = lines.map(move |line| {
                let row = &line.row;
                let labels = labels(BILLED, &[&row.tenant, &row.chain, &row.function]);
                (labels, number(line))
            });
            lines.collect::<Vec<_>>()
        };
        let mut one = |name: &str, help, samples| {
            text.write(&Family::new(name, Kind::Counter, help, BILLED), samples);
        };
        let help = "Packets that tenants are billed: let out by a chain, or given to a function.";
        one("weir_billed_packets_total", help, with(|it| it.packets));
        let help = "Bytes of the packets that tenants are billed.";
        one("weir_billed_bytes_total", help, with(|it| it.bytes));
        let help = "Packets that functions have dropped, and that tenants are billed.";
        one(
            "weir_billed_dropped_packets_total",
            help,
            with(|it| it.dropped),
        );
        // The average of an hour is not known before its end: until then it may go down.
        let help = "Time of processors that tenants are billed, by the samples so far.";
        let name = "weir_billed_compute_seconds";
        let family = Family::seconds(name, Kind::Gauge, help, BILLED);
        text.write(&family, with(|it| it.compute_ns));
    }

    fn instance(&self, text: &mut Text) {
        let names = &["instance", "mode", "version"];
        let info = Family::new("weir_info", Kind::Gauge, "Always 1; what runs.", names);
        let v1::GetInfoResponse {
            name,
            mode,
            version,
            ..
        } = self.info;
        text.write(&info, [(labels(names, &[name, mode, version]), 1)]);
        let help = "Time since the start.";
        let uptime = Family::seconds("weir_uptime_seconds", Kind::Gauge, help, &[]);
        text.write(&uptime, [(vec![], self.counts.elapsed.as_nanos() as u64)]);
        let help = "Packets that no chain takes.";
        let no_chain = Family::new("weir_no_chain_packets_total", Kind::Counter, help, &[]);
        let refused = self
            .counts
            .threads
            .iter()
            .map(|thread| thread.refused)
            .sum();
        text.write(&no_chain, [(vec![], refused)]);
        table(text, "weir", &[], &[(vec![], self.reloads)]);
        let sets = self.sets.iter();
        let sets: Vec<_> = sets.map(|(name, of)| (labels(SET, &[name]), of)).collect();
        table(text, "weir_set", SET, &sets);
    }

    /// Ports with their counts; a port that was named twice is one.
    fn by_port(&self) -> Vec<(Labels, PortCounters)> {
        let (inputs, outputs) = (self.counts.inputs(), self.counts.outputs());
        let inputs = self.inputs.iter().zip(&inputs);
        let inputs = inputs.map(|(port, counters)| (port, "in", counters));
        let outputs = self.outputs.iter().zip(&outputs);
        let outputs = outputs.map(|(port, counters)| (port, "out", counters));
        let mut all: Vec<(Labels, PortCounters)> = Vec::new();
        for (port, direction, counters) in inputs.chain(outputs) {
            let labels = labels(PORT, &[&port.port, direction]);
            match all.iter_mut().find(|(known, _)| *known == labels) {
                Some((_, sum)) => sum.add(counters),
                None => all.push((labels, counters.clone())),
            }
        }
        all
    }

    fn ports(&self, text: &mut Text) {
        let all = self.by_port();
        let counters: Vec<_> = all.iter().map(|(l, c)| (l.clone(), c)).collect();
        table::<PortCounters>(text, "weir_port", PORT, &counters);
        let with = |labels: &Labels, reason: &str| -> Labels {
            let reason = [("reason", reason.to_owned())];
            labels.iter().cloned().chain(reason).collect()
        };
        let help = "Packets lost at a port, by reason.";
        let name = "weir_port_dropped_packets_total";
        let drops = all.iter().flat_map(|(labels, counters)| {
            let drops = counters.drops.named();
            drops.map(|(reason, n)| (with(labels, reason), n))
        });
        text.write(&Family::new(name, Kind::Counter, help, PORT_REASON), drops);
        let help = "What a port noticed about packets that it did not lose.";
        let name = "weir_port_noticed_total";
        let noticed = all.iter().flat_map(|(labels, counters)| {
            let noticed = counters.noticed.named();
            noticed.map(|(reason, n)| (with(labels, reason), n))
        });
        text.write(
            &Family::new(name, Kind::Counter, help, PORT_REASON),
            noticed,
        );
    }

    fn network(&self, text: &mut Text) {
        let network = self.counts.network();
        let network = network.as_ref();
        let help = "Packets of a tap that passed the chain and did not leave.";
        let kept = match network {
            Some(LayerReport::Tap { kept }) => Some((labels(NETWORK, &["tap"]), *kept)),
            _ => None,
        };
        let name = "weir_network_kept_packets_total";
        text.write(&Family::new(name, Kind::Counter, help, NETWORK), kept);
        let router = match network {
            Some(LayerReport::Router(report)) => Some(&report.counts),
            _ => None,
        };
        let counters = router.map(|counts| (labels(NETWORK, &["router"]), counts));
        let counters: Vec<_> = counters.into_iter().collect();
        table::<RouterCounts>(text, "weir_network", NETWORK, &counters);
        let help = "Packets that a router dropped before the chains and behind them, by reason.";
        let drops = router.map(RouterCounts::drops).unwrap_or_default();
        let drops = drops.counted().map(|(reason, n)| {
            let name = format!("network.{}", reason.name());
            (labels(NETWORK_REASON, &["router", &name]), n)
        });
        let name = "weir_network_dropped_packets_total";
        text.write(
            &Family::new(name, Kind::Counter, help, NETWORK_REASON),
            drops,
        );
    }

    fn chains(&self, text: &mut Text) {
        let all = || self.counts.reports.iter();
        let reports: Vec<_> = all().map(|r| (labels(CHAIN, &[&r.chain]), r)).collect();
        table::<Report>(text, "weir_chain", CHAIN, &reports);
        let flows = all().map(|r| (labels(CHAIN, &[&r.chain]), &r.flows));
        table::<FlowReport>(text, "weir_flow", CHAIN, &flows.collect::<Vec<_>>());
        let by = |report: &Report, reason: &str| labels(CHAIN_REASON, &[&report.chain, reason]);
        let mut one = |name: &str, help, samples: Vec<(Labels, u64)>| {
            text.write(
                &Family::new(name, Kind::Counter, help, CHAIN_REASON),
                samples,
            );
        };
        let drops = all().flat_map(|r| r.drops.iter().map(move |(why, n)| (by(r, why), *n)));
        let help = "Packets that a chain dropped, by reason.";
        one("weir_chain_dropped_packets_total", help, drops.collect());
        let malformed =
            all().flat_map(|r| r.malformed.iter().map(move |(why, n)| (by(r, why), *n)));
        let help = "Malformed packets, dropped or passed on, by reason.";
        one(
            "weir_chain_malformed_packets_total",
            help,
            malformed.collect(),
        );
        let ended = all().flat_map(|r| r.flows.ended.named().map(move |(why, n)| (by(r, why), n)));
        one(
            "weir_flows_ended_total",
            "Flows ended, by why.",
            ended.collect(),
        );
    }

    fn functions(&self, text: &mut Text) {
        let reports = self.counts.reports.iter();
        let all: Vec<(&Report, &FunctionReport)> = reports
            .flat_map(|report| report.functions.iter().map(move |f| (report, f)))
            .collect();
        let functions = all.iter().map(|(report, f)| {
            let labels = labels(FUNCTION, &[&report.chain, &f.name, f.nf]);
            (labels, *f)
        });
        let functions: Vec<_> = functions.collect();
        table::<FunctionReport>(text, "weir_function", FUNCTION, &functions);
        let help = "A function's own counters, by name (`weir nf show`).";
        let counters = all.iter().flat_map(|(report, f)| {
            f.counters.iter().map(move |(name, n)| {
                let values = [&report.chain, &f.name, f.nf, *name];
                (labels(FUNCTION_COUNTER, &values), *n)
            })
        });
        let name = "weir_function_counter_total";
        text.write(
            &Family::new(name, Kind::Counter, help, FUNCTION_COUNTER),
            counters,
        );
    }

    fn stages(&self, text: &mut Text) {
        let all = self
            .counts
            .threads
            .iter()
            .flat_map(|thread| &thread.processes);
        let all: Vec<(Labels, &StageProcessCounts)> = all
            .map(|process| {
                let (chain, step) = process.place;
                let chain = self.info.chains.get(chain).map_or("", |chain| &chain.name);
                (labels(STAGE, &[chain, &(step + 1).to_string()]), process)
            })
            .collect();
        table::<StageProcessCounts>(text, "weir_stage", STAGE, &all);
        let help = "1 while a stage's process is at work, 0 while it is started or given up.";
        let ready = all.iter().map(|(labels, process)| {
            let ready = u64::from(process.state == "ready");
            (labels.clone(), ready)
        });
        let family = Family::new("weir_stage_ready", Kind::Gauge, help, STAGE);
        text.write(&family, ready);
    }

    fn runtimes(&self, text: &mut Text) {
        let threads = self.counts.threads.iter();
        let all: Vec<(Labels, &RuntimePlaceCounts)> = threads
            .flat_map(|thread| &thread.runtimes)
            .map(|place| (labels(RUNTIME, &[&place.place.to_string()]), place))
            .collect();
        table::<RuntimePlaceCounts>(text, "weir_runtime", RUNTIME, &all);
        let help = "1 while a runtime has units or may get some, 0 while its place has none.";
        let ready = |of_loggers| {
            let all = all
                .iter()
                .filter(move |(_, its)| its.is_logger == of_loggers);
            all.map(|(labels, place)| {
                let ready = matches!(place.state, "ready" | "draining");
                (labels.clone(), u64::from(ready))
            })
        };
        let family = Family::new("weir_runtime_ready", Kind::Gauge, help, RUNTIME);
        text.write(&family, ready(false));
        let help = "1 while a logger keeps copies, or may get some, 0 while its place has none.";
        let family = Family::new("weir_logger_ready", Kind::Gauge, help, RUNTIME);
        text.write(&family, ready(true));
    }

    fn switches(&self, text: &mut Text) {
        let threads = self.counts.threads.iter();
        let all: Vec<(Labels, &SwitchCounts)> = threads
            .flat_map(|thread| &thread.switches)
            .map(|switch| {
                let chain = self.info.chains.get(switch.chain);
                let name = chain.map_or("", |chain| &chain.name);
                (labels(CHAIN, &[name]), switch)
            })
            .collect();
        table::<SwitchCounts>(text, "weir_switch", CHAIN, &all);
        let all: Vec<(Labels, &FlowletCounts)> = all
            .iter()
            .filter_map(|(labels, switch)| Some((labels.clone(), switch.flowlets.as_ref()?)))
            .collect();
        table::<FlowletCounts>(text, "weir_flowlets", CHAIN, &all);
    }

    fn scaling(&self, text: &mut Text) {
        let threads = self.counts.threads.iter();
        let all: Vec<(Labels, &ScalingCounts)> = threads
            .filter_map(|thread| thread.scaling.as_ref())
            .map(|counts| (labels(&[], &[]), counts))
            .collect();
        table::<ScalingCounts>(text, "weir_scaling", &[], &all);
    }

    fn threads(&self, text: &mut Text) {
        let threads = || self.counts.threads.iter();
        let label = |name: &str| labels(THREAD, &[name]);
        let help = "Time in which a thread slept, since nothing came.";
        let name = "weir_thread_idle_seconds_total";
        let idle = threads().map(|t| (label(&t.name), t.idle.as_nanos() as u64));
        text.write(&Family::seconds(name, Kind::Counter, help, THREAD), idle);
        let with_frames = || threads().filter(|t| t.frames > 0);
        let help = "Frames of packet memory that are a thread's.";
        let frames = with_frames().map(|t| (label(&t.name), t.frames));
        text.write(
            &Family::new("weir_thread_frames", Kind::Gauge, help, THREAD),
            frames,
        );
        let help = "Those of them that are free.";
        let free = with_frames().map(|t| (label(&t.name), t.frames_free));
        let family = Family::new("weir_thread_free_frames", Kind::Gauge, help, THREAD);
        text.write(&family, free);
        let help = "Packets that arrived at a thread's ports and went to another worker, whose flows they are.";
        let steered = threads().map(|t| (label(&t.name), t.steered));
        let name = "weir_thread_steered_packets_total";
        text.write(&Family::new(name, Kind::Counter, help, THREAD), steered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANUAL: &str = include_str!("../../../../docs/metrics.md");

    #[test]
    fn the_manual_lists_every_metric_and_no_other() {
        let (info, counts) = (v1::GetInfoResponse::default(), Counts::default());
        let mut text = Text::new();
        let shown = Shown {
            info: &info,
            reloads: &ReloadCounts::default(),
            sets: &[("blocked".to_owned(), SetCounts::default())],
            inputs: &[],
            outputs: &[],
            counts: &counts,
            billed: &[],
        };
        shown.write(&mut text);
        let wanted: Vec<String> = text.families().iter().map(Family::row).collect();
        let rows = MANUAL.lines().filter(|line| line.starts_with("| `weir_"));
        let rows: Vec<&str> = rows.collect();
        assert!(
            rows == wanted,
            "docs/metrics.md should have:\n{}",
            wanted.join("\n")
        );
        for family in text.families() {
            let is_total = family.name().ends_with("_total");
            assert_eq!(
                is_total,
                family.kind() == Kind::Counter,
                "{}",
                family.name()
            );
        }
        let mut names: Vec<&str> = text.families().iter().map(Family::name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), wanted.len(), "a name occurs twice");
    }
}
