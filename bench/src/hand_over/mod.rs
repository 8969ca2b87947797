//! Flows that move in real time, under traffic: `weir-bench handover`.
//!
//! Firewall, HTTP parser and load balancer; two runtimes; all flows at one of
//! them, traffic on all. What is measured is in docs/benchmarks.md.

mod central;
mod run;
mod traffic;

use std::time::Duration;

use serde_json::json;
use weir::driver::{ClusterEnd, Histogram};
use weir_protocol::message::Selection;

use crate::log::{self, Log};
use crate::plot::{Axis, Line, Plot, svg};
use run::{Moved, Scene, Way};

/// Packets a second where nothing else is said.
const RATE: u64 = 100_000;
/// Flows of each of several moves at once.
const PER_MOVE: u32 = 1_000;

/// All tables and plots; `quick` has few points, to try it out.
pub(crate) fn tables(quick: bool) -> Result<(), String> {
    let mut log = Log::create("hand-over.jsonl")?;
    all_flows(&mut log, quick)?;
    numbers(&mut log, quick)?;
    rates(&mut log, quick)?;
    at_once(&mut log, quick)?;
    log.finish()
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1_000.0
}

/// Refuses the figures of a run that lost or reordered packets.
fn check(end: &ClusterEnd) -> Result<(), String> {
    let dropped: u64 = end.reports.iter().map(|report| report.dropped()).sum();
    if end.lost() > 0 || end.gate.reordered > 0 || end.leaked > 0 || dropped > 0 {
        return Err(format!(
            "lost {}, reordered {}, dropped {dropped}, leaked {}",
            end.lost(),
            end.gate.reordered,
            end.leaked
        ));
    }
    Ok(())
}

fn held(end: &ClusterEnd, by_controller: u64) -> u64 {
    let by_runtimes = end.runtimes.iter().map(|runtime| runtime.held_most);
    by_runtimes.max().unwrap_or(0).max(by_controller)
}

/// All flows to the other runtime and back.
fn all_flows(log: &mut Log, quick: bool) -> Result<(), String> {
    let sizes: &[u32] = if quick {
        &[10_000]
    } else {
        &[100_000, 300_000]
    };
    println!(
        "all flows to the other runtime and back, {RATE} packets/s of 512 bytes on all of them"
    );
    println!(
        "{:>8} {:>10} {:>5} {:>9} {:>11} {:>7} {:>5} {:>10} {:>9} {:>9} {:>9} {:>9}",
        "flows",
        "way",
        "",
        "time ms",
        "flows/s",
        "held",
        "lost",
        "reordered",
        "p50 us",
        "p99 us",
        "still p50",
        "still p99"
    );
    for &flows in sizes {
        for way in Way::ALL {
            let mut scene = Scene::new(flows, RATE, way)?;
            scene.traffic(Duration::from_millis(300))?;
            let before = scene.traffic(Duration::from_secs(1))?;
            let there = scene.moves(1, 2, &[Selection::All])?;
            scene.traffic(Duration::from_millis(300))?;
            let back = scene.moves(2, 1, &[Selection::All])?;
            scene.traffic(Duration::from_millis(300))?;
            let by_controller = scene.held_by_controller;
            let end = scene.end()?;
            check(&end)?;
            let held = held(&end, by_controller);
            for (name, moved) in [("there", &there), ("back", &back)] {
                row(flows, way, name, moved, held, &end, &before);
                log.line(&json!({
                    "what": "all flows", "flows": flows, "way": way.name(), "leg": name,
                    "rate": RATE, "moved": moved.flows, "seconds": moved.took.as_secs_f64(),
                    "flows_per_s": moved.flows as f64 / moved.took.as_secs_f64(),
                    "held_most": held, "lost": end.lost(), "reordered": end.gate.reordered,
                    "repeated": end.count("repeated"), "refused": end.refused(),
                    "hand_over_p50_us": us(end.hand_overs.durations.quantile(0.5)),
                    "hand_over_p99_us": us(end.hand_overs.durations.quantile(0.99)),
                    "latency_p50_us": us(moved.latency.quantile(0.5)),
                    "latency_p99_us": us(moved.latency.quantile(0.99)),
                    "still_p50_us": us(before.quantile(0.5)),
                    "still_p99_us": us(before.quantile(0.99)),
                }))?;
            }
        }
    }
    Ok(())
}

fn row(
    flows: u32,
    way: Way,
    leg: &str,
    moved: &Moved,
    held: u64,
    end: &ClusterEnd,
    before: &Histogram,
) {
    println!(
        "{flows:>8} {:>10} {leg:>5} {:>9.1} {:>11.0} {held:>7} {:>5} {:>10} {:>9.0} {:>9.0} {:>9.0} {:>9.0}",
        way.name(),
        moved.took.as_secs_f64() * 1e3,
        moved.flows as f64 / moved.took.as_secs_f64(),
        end.lost(),
        end.gate.reordered,
        us(moved.latency.quantile(0.5)),
        us(moved.latency.quantile(0.99)),
        us(before.quantile(0.5)),
        us(before.quantile(0.99)),
    );
}

/// How long a move takes, and what it does to latency.
struct Point {
    x: f64,
    ms: f64,
    p99_us: f64,
}

/// A table of moves, a column per way, and its plot: time above latency.
fn figure(
    log: &mut Log,
    (title, label, file): (&str, &str, &str),
    xs: &[u64],
    mut measure: impl FnMut(u64, Way) -> Result<(Moved, ClusterEnd), String>,
) -> Result<(), String> {
    println!("\n{title}: ms (latency p99 in us)");
    let names = Way::ALL.map(|way| format!("{:>22}", way.name()));
    println!("{label:>20} {}", names.join(""));
    let mut lines: Vec<Vec<Point>> = Way::ALL.iter().map(|_| Vec::new()).collect();
    for &x in xs {
        let mut row = format!("{x:>20} ");
        for (way, line) in Way::ALL.into_iter().zip(&mut lines) {
            let (moved, end) = measure(x, way)?;
            check(&end)?;
            let point = Point {
                x: x as f64,
                ms: moved.took.as_secs_f64() * 1e3,
                p99_us: us(moved.latency.quantile(0.99)),
            };
            row += &format!("{:>13.1} ({:>6.0})", point.ms, point.p99_us);
            log.line(&json!({
                "what": title, "x": x, "x_is": label, "way": way.name(), "moved": moved.flows,
                "ms": point.ms, "latency_p50_us": us(moved.latency.quantile(0.5)),
                "latency_p99_us": point.p99_us, "lost": end.lost(),
                "reordered": end.gate.reordered, "repeated": end.count("repeated"),
                "hand_over_p50_us": us(end.hand_overs.durations.quantile(0.5)),
                "hand_over_p99_us": us(end.hand_overs.durations.quantile(0.99)),
            }))?;
            line.push(point);
        }
        println!("{row}");
    }
    let panel = |name: &str, y: Axis, of: fn(&Point) -> f64| {
        let mut plot = Plot::new(name, Axis::new(label), y);
        for (way, points) in Way::ALL.into_iter().zip(&lines) {
            let points = points.iter().map(|point| (point.x, of(point))).collect();
            let line = Line::new(way.name(), points).dots();
            plot = plot.line(if way == Way::Central {
                line.dashed()
            } else {
                line
            });
        }
        plot
    };
    let plots = [
        panel(title, Axis::new("ms"), |point| point.ms),
        panel("latency p99 meanwhile", Axis::log("us"), |point| {
            point.p99_us
        }),
    ];
    log::plot(file, &svg(&plots))
}

/// NFActor's Fig. 6: flows moved at a time.
fn numbers(log: &mut Log, quick: bool) -> Result<(), String> {
    let xs: &[u64] = if quick {
        &[1_000, 5_000]
    } else {
        &[1_000, 10_000, 50_000, 100_000]
    };
    let what = (
        "time of a move by its flows",
        "flows moved",
        "hand-over-flows.svg",
    );
    let flows = *xs.last().unwrap_or(&1) as u32;
    figure(log, what, xs, |count, way| {
        let mut scene = Scene::new(flows, RATE, way)?;
        scene.traffic(Duration::from_millis(300))?;
        let moved = scene.moves(1, 2, &[Selection::Number(count as u32)])?;
        Ok((moved, scene.end()?))
    })
}

/// OpenNF+'s Fig. 4: the rate of packets.
fn rates(log: &mut Log, quick: bool) -> Result<(), String> {
    let xs: &[u64] = if quick {
        &[20_000, 100_000]
    } else {
        &[10_000, 50_000, 100_000, 150_000, 200_000]
    };
    let what = (
        "time of a move of 10,000 flows by the rate",
        "packets per second",
        "hand-over-rate.svg",
    );
    figure(log, what, xs, |rate, way| {
        let mut scene = Scene::new(10_000, rate, way)?;
        scene.traffic(Duration::from_millis(300))?;
        let moved = scene.moves(1, 2, &[Selection::All])?;
        Ok((moved, scene.end()?))
    })
}

/// OpenNF+'s Fig. 5: moves at once.
fn at_once(log: &mut Log, quick: bool) -> Result<(), String> {
    let xs: &[u64] = if quick { &[1, 4] } else { &[1, 5, 10, 15, 20] };
    let what = (
        "time of moves of 1,000 flows by how many are at once",
        "moves at once",
        "hand-over-at-once.svg",
    );
    figure(log, what, xs, |moves, way| {
        let mut scene = Scene::new(20 * PER_MOVE, RATE, way)?;
        scene.traffic(Duration::from_millis(300))?;
        let each = vec![Selection::Number(PER_MOVE); moves as usize];
        let moved = scene.moves(1, 2, &each)?;
        Ok((moved, scene.end()?))
    })
}
