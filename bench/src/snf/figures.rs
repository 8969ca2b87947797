//! SNF §9, figure by figure: runs, raw figures, tables with the paper's figures beside ours.

use serde_json::{Value, json};
use weir::driver::Histogram;
use weir_protocol::flowlets::FlowletSettings;

use super::assign::Mode;
use super::bed::{self, EPOCH, Outcome, Setting, StateMode};
use super::report::{Report, percent, time, times};
use super::scene::{PACES, Scene, UNITS, modes};
use super::trace::{Shape, Trace};
use super::units::{Pace, UnitSettings};
use crate::plot::{Axis, Line, Plot};

/// Settings that stay as they are.
pub(super) const FIXED: FlowletSettings = FlowletSettings {
    adapts: false,
    ..FlowletSettings::DEFAULT
};

/// Percentiles of Fig. 4.
const SHARES: [f64; 5] = [0.01, 0.25, 0.5, 0.75, 0.99];

fn quantiles(latency: &Histogram) -> [u64; 5] {
    SHARES.map(|share| latency.quantile(share))
}

fn gigabits(bits: f64) -> String {
    format!("{:.2}", bits / 1e9)
}

/// A run as a line of raw figures.
fn raw(figure: &str, case: &Value, trace: &Trace, outcome: &Outcome) -> Value {
    let chances = outcome.chances as f64 / f64::from(trace.flows());
    json!({
        "figure": figure, "case": case, "trace": trace.name(),
        "packets": outcome.packets, "done": outcome.done, "reordered": outcome.reordered,
        "latency_ns": {
            "p1": outcome.latency.quantile(0.01), "p25": outcome.latency.quantile(0.25),
            "p50": outcome.latency.quantile(0.5), "p75": outcome.latency.quantile(0.75),
            "p99": outcome.latency.quantile(0.99), "most": outcome.latency.max(),
        },
        "offered_bits_per_s": outcome.offered(), "units": outcome.units(),
        "unit_seconds": outcome.unit_seconds, "seconds": outcome.seconds,
        "chances_per_flow": chances, "moved": outcome.moved, "waited": outcome.waited,
        "waited_by_size": outcome.waited_by_size, "waited_by_late_copy": outcome.waited_by_late,
        "bound": outcome.bound, "overfull": outcome.overfull, "copies": outcome.copies,
        "copies_used": outcome.used, "pulls": outcome.pulls, "store_writes": outcome.written,
        "rehomed": outcome.rehomed, "alpha": outcome.adapted.0, "k": outcome.adapted.1,
    })
}

/// Runs, and refuses figures of a run that lost or reordered packets.
pub(super) fn run(trace: &Trace, setting: Setting) -> Result<Outcome, String> {
    let outcome = bed::run(trace, setting)?;
    let lost = outcome.packets - outcome.done;
    if lost > 0 || outcome.reordered > 0 {
        let reordered = outcome.reordered;
        return Err(format!("lost {lost} packets, reordered {reordered}"));
    }
    Ok(outcome)
}

/// The traces: packets, flows and sizes of each.
pub(super) fn traces(report: &mut Report, scene: Scene) -> Result<(), String> {
    let mut rows = Vec::new();
    let papers = ["199k, 6.4M, 1,434 B, 5 %", "1.7k, 3.8M, 368 B, –"];
    for (shape, paper) in [Shape::wan(), Shape::edge()].into_iter().zip(papers) {
        let trace = scene.trace(shape);
        let facts = trace.facts();
        report.raw(&json!({
            "figure": "traces", "trace": trace.name(), "flows": facts.flows,
            "packets": facts.packets, "bytes": facts.bytes, "seconds": facts.seconds,
            "median_bytes": facts.median, "flows_over_10_kb": facts.large,
            "print": format!("{:016x}", facts.print), "shape": format!("{:?}", trace.shape()),
        }))?;
        rows.push(vec![
            trace.name().to_owned(),
            facts.flows.to_string(),
            facts.packets.to_string(),
            format!("{} B", facts.median),
            percent(facts.large),
            format!("{:.1} s", facts.seconds),
            gigabits(facts.bytes as f64 * 8.0 / facts.seconds),
            paper.to_owned(),
        ]);
    }
    let columns = [
        "trace",
        "flows",
        "packets",
        "median packet",
        "flows over 10 KB",
        "length",
        "Gbit/s",
        "paper: flows, packets, median, over 10 KB",
    ];
    report.table("Traces", &columns, &rows);
    Ok(())
}

/// The paper's figures for the four modes: p75, and that over flowlets'.
const FIG_3: [&str; 4] = [
    "275.4 ms (19.6K ×)",
    "64.5 ms (4.6K ×)",
    "41.1 ms (2.9K ×)",
    "p50 5 µs, p99 2.8 ms",
];

/// Figures 1, 2 and 3: the four modes.
pub(super) fn modes_compared(report: &mut Report, scene: Scene) -> Result<(), String> {
    let (mut one, mut two, mut three) = (Vec::new(), Vec::new(), Vec::new());
    for shape in [Shape::wan(), Shape::edge()] {
        let trace = scene.trace(shape);
        for (kind, pace) in PACES {
            let units = UnitSettings { pace, ..UNITS };
            let mut outcomes = Vec::new();
            for (mode, state) in modes() {
                let setting = Setting {
                    units,
                    ..scene.setting(mode, state)
                };
                let outcome = run(&trace, setting)?;
                let case = json!({"mode": mode.name(), "unit": kind});
                report.raw(&raw("1-3", &case, &trace, &outcome))?;
                outcomes.push((mode.name(), outcome));
            }
            let name = trace.name();
            three.extend(latency_rows(name, kind, &outcomes));
            if kind == PACES[0].0 {
                raw_epochs(report, name, &outcomes)?;
                one.extend(provision_rows(&trace, &outcomes));
                two.extend(utilisation_rows(name, &outcomes));
                report.plot(&format!("fig1-{name}.svg"), &provision_plot(&outcomes))?;
            }
        }
    }
    let columns = [
        "trace",
        "mode",
        "offered Gbit/s",
        "units",
        "used of them",
        "chances per flow",
        "moved",
        "paper",
    ];
    report.table("Fig. 1: units, and chances to assign", &columns, &one);
    let columns = [
        "trace",
        "mode",
        "> 100 %",
        "80–100 %",
        "50–80 %",
        "< 50 %",
        "most",
    ];
    report.table("Fig. 2: use of units per epoch of 100 ms", &columns, &two);
    let columns = [
        "trace",
        "units",
        "mode",
        "p25",
        "p50",
        "p75",
        "p99",
        "p75 to flowlet's",
        "paper: p75 (ratio)",
    ];
    report.table("Fig. 3: latency of a NAT", &columns, &three);
    Ok(())
}

fn raw_epochs(
    report: &mut Report,
    trace: &str,
    outcomes: &[(String, Outcome)],
) -> Result<(), String> {
    for (mode, outcome) in outcomes {
        let epochs: Vec<_> = outcome
            .epochs
            .iter()
            .map(|e| (e.offered, e.units))
            .collect();
        let shares: Vec<f64> = outcome
            .utilisation
            .iter()
            .map(|(_, share)| *share)
            .collect();
        report.raw(&json!({
            "figure": "1-2", "trace": trace, "mode": mode, "epoch_ms": EPOCH / 1_000_000,
            "offered_bits_per_s_and_units": epochs, "utilisation": shares,
        }))?;
    }
    Ok(())
}

fn latency_rows(trace: &str, kind: &str, outcomes: &[(String, Outcome)]) -> Vec<Vec<String>> {
    let of = |outcome: &Outcome| quantiles(&outcome.latency);
    let best = outcomes.last().map_or(1, |(_, outcome)| of(outcome)[3]);
    let rows = outcomes.iter().zip(FIG_3);
    rows.map(|((mode, outcome), paper)| {
        let [_, p25, p50, p75, p99] = of(outcome);
        let mut row = vec![trace.to_owned(), kind.to_owned(), mode.clone()];
        row.extend([p25, p50, p75, p99].map(time));
        row.extend([times(p75, best), paper.to_owned()]);
        row
    })
    .collect()
}

fn provision_rows(trace: &Trace, outcomes: &[(String, Outcome)]) -> Vec<Vec<String>> {
    let flows = f64::from(trace.flows());
    let rows = outcomes.iter().map(|(mode, outcome)| {
        let used = outcome.offered() / 1e9 / outcome.units();
        let paper = match mode.as_str() {
            "flowlet" => "3.36 × the chances (4.66 × in §9.6)",
            "vanilla" => "over- and under-provisioned",
            _ => "over-provisioned",
        };
        vec![
            trace.name().to_owned(),
            mode.clone(),
            gigabits(outcome.offered()),
            format!("{:.2}", outcome.units()),
            percent(used),
            format!("{:.2}", outcome.chances as f64 / flows),
            outcome.moved.to_string(),
            paper.to_owned(),
        ]
    });
    rows.collect()
}

fn utilisation_rows(trace: &str, outcomes: &[(String, Outcome)]) -> Vec<Vec<String>> {
    let rows = outcomes.iter().map(|(mode, outcome)| {
        let all = outcome.utilisation.len().max(1) as f64;
        let share = |from: f64, to: f64| {
            let between = |(_, at): &&(u16, f64)| *at > from && *at <= to;
            percent(outcome.utilisation.iter().filter(between).count() as f64 / all)
        };
        let most = outcome.utilisation.iter().map(|(_, share)| *share);
        let most = most.fold(0.0, f64::max);
        vec![
            trace.to_owned(),
            mode.clone(),
            share(1.0, f64::INFINITY),
            share(0.8, 1.0),
            share(0.5, 0.8),
            share(-1.0, 0.5),
            percent(most),
        ]
    });
    rows.collect()
}

fn provision_plot(outcomes: &[(String, Outcome)]) -> Vec<Plot> {
    let epochs = |outcome: &Outcome, of: fn(&bed::Epoch) -> f64| {
        let points = outcome.epochs.iter().enumerate();
        points
            .map(|(n, epoch)| (n as f64 * EPOCH as f64 / 1e9, of(epoch)))
            .collect::<Vec<_>>()
    };
    let mut plot = Plot::new(
        "Load, and units of 1 Gbit/s",
        Axis::new("seconds"),
        Axis::new("Gbit/s"),
    );
    if let Some((_, outcome)) = outcomes.first() {
        plot = plot.line(Line::new("offered", epochs(outcome, |e| e.offered / 1e9)).dashed());
    }
    for (mode, outcome) in outcomes {
        plot = plot.line(Line::new(mode, epochs(outcome, |e| e.units)).steps());
    }
    vec![plot]
}

/// The state modes of Fig. 4.
fn state_cases() -> Vec<(String, StateMode, FlowletSettings)> {
    let many = FlowletSettings {
        copies: 9,
        alpha: 75,
        ..FIXED
    };
    let mut cases: Vec<(String, StateMode, FlowletSettings)> = StateMode::ALL
        .map(|state| (state.name().to_owned(), state, FlowletSettings::DEFAULT))
        .to_vec();
    let more = "proactive, K 9, α 0.75".to_owned();
    cases.push((more, StateMode::Proactive, many));
    cases
}

/// Fig. 4: how states follow the work. Units are enough for all, so that queues stay short.
pub(super) fn states(report: &mut Report, scene: Scene) -> Result<(), String> {
    let trace = scene.trace(Shape::wan());
    let (mut rows, mut tails) = (Vec::new(), Vec::new());
    for (name, state, settings) in state_cases() {
        let setting = Setting {
            units: enough(),
            ..scene.setting(Mode::Flowlet(settings), state)
        };
        let outcome = run(&trace, setting)?;
        report.raw(&raw("4", &json!({"state": name}), &trace, &outcome))?;
        let paper = match (state, settings.copies) {
            (StateMode::Store, _) => "0.67 / 168.18 µs",
            (StateMode::Reactive, _) => "0.61 / 132.74 µs",
            (StateMode::Proactive, 3) => "0.44 / 11.01 µs; 90.43 % waited for nothing",
            _ => "",
        };
        let [p1, p25, p50, p75, p99] = quantiles(&outcome.latency);
        let mut row = vec![name];
        row.extend([p1, p25, p50, p75, outcome.latency.quantile(0.95), p99].map(time));
        row.push(percent(
            outcome.moved as f64 / outcome.chances.max(1) as f64,
        ));
        row.extend([percent(outcome.ready()), paper.to_owned()]);
        rows.push(row);
        tails.push([outcome.latency.quantile(0.95), p99]);
    }
    let columns = [
        "state",
        "p1",
        "p25",
        "p50",
        "p75",
        "p95",
        "p99",
        "moved",
        "moved without a wait",
        "paper: median / tail",
    ];
    report.table(
        "Fig. 4: latency of a NAT by how states follow",
        &columns,
        &rows,
    );
    say_tails(report, &tails);
    Ok(())
}

/// p95 and p99 of store and reactive, to those of copies ahead.
fn say_tails(report: &mut Report, tails: &[[u64; 2]]) {
    if let [store, _, reactive, proactive, many] = *tails {
        let ratios = |at: usize, one: [u64; 2]| {
            format!(
                "{} and {}",
                times(store[at], one[at]),
                times(reactive[at], one[at])
            )
        };
        report.say(&format!(
            "p95 of store and reactive to that of copies ahead: {}, p99: {}; with K 9: p95 {}, p99 {} \
             (paper, tail: 15.3 × and 12.1 ×).",
            ratios(0, proactive),
            ratios(1, proactive),
            ratios(0, many),
            ratios(1, many),
        ));
    }
}

/// As many units as the highest load needs, from the beginning: nothing is started.
fn enough() -> UnitSettings {
    UnitSettings {
        least: 14,
        most: 14,
        ..UNITS
    }
}

/// Fig. 5: flows of an attacker bring bursts just after they were placed.
pub(super) fn attack(report: &mut Report, scene: Scene) -> Result<(), String> {
    let mut rows = Vec::new();
    for (every, paper) in [
        (100, "101 (677.9) → 87 (504.4) µs"),
        (50, "201.2 µs (1.5 ms) → 93 (702.4) µs"),
        (10, "752 µs (5.2 ms) → 102 (756.2) µs"),
    ] {
        let trace = scene.trace(Shape::wan().attacked(every));
        let mut row = vec![format!("each {every}th")];
        for size in [u32::MAX, FlowletSettings::DEFAULT.size] {
            let units = UnitSettings {
                pace: Pace::Strict,
                ..UNITS
            };
            let settings = FlowletSettings {
                size,
                ..FlowletSettings::DEFAULT
            };
            let outcome = run(
                &trace,
                Setting {
                    units,
                    ..scene.flowlets(settings)
                },
            )?;
            let case = json!({"every": every, "size": size});
            report.raw(&raw("5", &case, &trace, &outcome))?;
            let [_, _, p50, _, p99] = quantiles(&outcome.latency);
            row.extend([time(p50), time(p99), format!("{:.2}", outcome.units())]);
        }
        row.push(paper.to_owned());
        rows.push(row);
    }
    let columns = [
        "flows that attack",
        "time-out: p50",
        "p99",
        "units",
        "time-out + size: p50",
        "p99",
        "units",
        "paper: median (tail), time-out → both",
    ];
    report.table("Fig. 5: bursts of 20 packets of 1,400 B", &columns, &rows);
    Ok(())
}

/// Fig. 6: copies and α, with units of 500 Mbit/s, 15 at most.
pub(super) fn copies(report: &mut Report, scene: Scene) -> Result<(), String> {
    let trace = scene.trace(Shape::wan().at(3.5e9));
    let mut rows = Vec::new();
    for copies in [1, 3, 6, 9] {
        for alpha in [0, 25, 50, 75] {
            let settings = FlowletSettings {
                alpha,
                copies,
                capacity: 62_500_000,
                ..FIXED
            };
            let units = UnitSettings {
                capacity: settings.capacity,
                most: 15,
                ..UNITS
            };
            let outcome = run(
                &trace,
                Setting {
                    units,
                    ..scene.flowlets(settings)
                },
            )?;
            let case = json!({"k": copies, "alpha": alpha});
            report.raw(&raw("6", &case, &trace, &outcome))?;
            let paper = match (copies, alpha) {
                (3, 0) => "107 µs",
                (3, 75) => "6.8 µs",
                (9, 75) => "15.2 µs",
                _ => "",
            };
            let [_, _, p50, p75, p99] = quantiles(&outcome.latency);
            let mut row = vec![
                copies.to_string(),
                format!("{:.2}", f64::from(alpha) / 100.0),
            ];
            row.extend([p50, p75, p99].map(time));
            row.extend([
                format!("{:.2}", outcome.units()),
                percent(outcome.ready()),
                percent(outcome.used as f64 / outcome.copies.max(1) as f64),
                paper.to_owned(),
            ]);
            rows.push(row);
        }
    }
    let columns = [
        "K",
        "α",
        "p50",
        "p75",
        "p99",
        "units",
        "moved without a wait",
        "copies used",
        "paper: latency",
    ];
    report.table("Fig. 6: copies ahead (K) and α", &columns, &rows);
    Ok(())
}

/// Fig. 7: the size at which a flowlet is cut.
pub(super) fn sizes(report: &mut Report, scene: Scene) -> Result<(), String> {
    let trace = scene.trace(Shape::wan());
    let mut rows = Vec::new();
    for size in [5_000, 10_000, 15_000, 30_000, 60_000, u32::MAX] {
        let settings = FlowletSettings { size, ..FIXED };
        let outcome = run(&trace, scene.flowlets(settings))?;
        report.raw(&raw("7", &json!({"size": size}), &trace, &outcome))?;
        let [_, _, p50, p75, p99] = quantiles(&outcome.latency);
        let name = match size {
            u32::MAX => "none".to_owned(),
            _ => format!("{} KB", size / 1_000),
        };
        let mut row = vec![name];
        row.extend([p50, p75, p99].map(time));
        row.extend([
            format!("{:.2}", outcome.units()),
            format!("{:.2}", outcome.chances as f64 / f64::from(trace.flows())),
            outcome.pulls.to_string(),
        ]);
        rows.push(row);
    }
    let columns = [
        "size",
        "p50",
        "p75",
        "p99",
        "units",
        "chances per flow",
        "pulls",
    ];
    report.table(
        "Fig. 7: size of a flowlet (paper: larger, fewer pulls and more units)",
        &columns,
        &rows,
    );
    Ok(())
}

/// §9.6: the time-out.
pub(super) fn gaps(report: &mut Report, scene: Scene) -> Result<(), String> {
    let mut rows = Vec::new();
    for shape in [Shape::wan(), Shape::edge()] {
        let trace = scene.trace(shape);
        for (gap, paper) in [(100_000, "5.18 ×"), (500_000, "4.66 ×")] {
            let settings = FlowletSettings { gap, ..FIXED };
            let outcome = run(&trace, scene.flowlets(settings))?;
            report.raw(&raw("9.6", &json!({"gap_ns": gap}), &trace, &outcome))?;
            let [_, _, p50, p75, p99] = quantiles(&outcome.latency);
            let mut row = vec![trace.name().to_owned(), time(gap)];
            row.push(format!(
                "{:.2} ×",
                outcome.chances as f64 / f64::from(trace.flows())
            ));
            row.extend([p50, p75, p99].map(time));
            row.extend([
                percent(outcome.ready()),
                percent(outcome.waited_by_late as f64 / outcome.moved.max(1) as f64),
                paper.to_owned(),
            ]);
            rows.push(row);
        }
    }
    let columns = [
        "trace",
        "T",
        "chances of per flow",
        "p50",
        "p75",
        "p99",
        "moved without a wait",
        "waited for a copy on its way",
        "paper: chances",
    ];
    report.table("§9.6: the time-out T", &columns, &rows);
    Ok(())
}
