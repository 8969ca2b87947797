//! Scaling at the size of NFActor's Fig. 8, in virtual time: figures and plot.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use serde_json::json;
use weir_sim::scaling::{Load, Sample, Summary, run};

use crate::plot::{Axis, Line, Plot, svg};

/// Runs the scenario with `parts` times fewer flows, in virtual time.
pub(crate) fn scaling(parts: u32, seed: u64) -> Result<(), String> {
    let load = Load {
        seed,
        ..Load::default()
    }
    .scaled(parts);
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/results"));
    let path = folder.join("scaling.jsonl");
    let failed = |error| format!("can't write {}: {error}", path.display());
    let mut file = BufWriter::new(File::create(&path).map_err(failed)?);
    let about = json!({
        "scenario": "scaling",
        "seed": seed,
        "scaled_down": parts,
        "seconds": load.seconds(),
        "flow_seconds": load.flow_seconds,
        "flow_rate": load.flow_rate,
        "flows": [load.low, load.high],
        "capacity": load.capacity,
        "queue": load.queue,
        "batch": load.scaling.batch,
        "drops": load.scaling.drops,
    });
    writeln!(file, "{about}").map_err(failed)?;
    println!(
        "{:>6} {:>7} {:>9} {:>9} {:>8} {:>8} {:>6}  actions",
        "second", "flows", "offered", "out", "lost", "runtimes", "moved"
    );
    let mut samples = Vec::new();
    let mut written = Ok(());
    let summary = run(&load, &mut |sample| {
        if !sample.actions.is_empty() || sample.second.is_multiple_of(10) {
            row(sample);
        }
        let line = serde_json::to_string(sample).map_err(|error| error.to_string());
        let line = line.and_then(|line| writeln!(file, "{line}").map_err(failed));
        written = core::mem::replace(&mut written, Ok(())).and(line);
        samples.push(sample.clone());
    })?;
    written?;
    let line = serde_json::to_string(&summary).map_err(|error| error.to_string())?;
    writeln!(file, "{line}")
        .and_then(|()| file.flush())
        .map_err(failed)?;
    let figure = folder.join("scaling.svg");
    std::fs::write(&figure, figures(&load, &samples))
        .map_err(|error| format!("can't write {}: {error}", figure.display()))?;
    say(&summary);
    println!(
        "figures in {}, plot in {}",
        path.display(),
        figure.display()
    );
    Ok(())
}

fn row(sample: &Sample) {
    println!(
        "{:>6} {:>7} {:>9} {:>9} {:>8} {:>8} {:>6}  {}",
        sample.second,
        sample.flows,
        sample.offered,
        sample.out,
        sample.lost,
        sample.runtimes,
        sample.moved,
        sample.actions.join(", ")
    );
}

fn say(summary: &Summary) {
    let share = 100.0 * summary.lost as f64 / summary.offered.max(1) as f64;
    println!(
        "{} packets offered, {} out, {} lost at inputs ({share:.2} %), {} dropped otherwise, \
         {} reordered, {} doubled; at most {} runtimes, {} started, {} stopped; {} units moved",
        summary.offered,
        summary.out,
        summary.lost,
        summary.dropped,
        summary.reordered,
        summary.doubled,
        summary.most_runtimes,
        summary.added,
        summary.removed,
        summary.moved
    );
}

fn figures(load: &Load, samples: &[Sample]) -> String {
    let line = |label: &str, of: &dyn Fn(&Sample) -> f64| {
        let points = samples.iter().map(|s| (f64::from(s.second), of(s)));
        Line::new(label, points.collect())
    };
    let axes = |title: &str, y: &str| Plot::new(title, Axis::new("seconds"), Axis::new(y));
    let capacity = f64::from(load.capacity);
    // Above it packets are lost and a runtime is added; below it one is emptied.
    let no_change = |s: &Sample| {
        let all = f64::from(s.runtimes) * capacity;
        (all * f64::from(load.scaling.calm) / 1_000.0, all)
    };
    let no_change = samples.iter().map(no_change).collect();
    svg(&[
        axes("Load and throughput", "packets per second")
            .line(line("offered", &|s| s.offered as f64).dashed())
            .line(line("throughput", &|s| s.out as f64))
            .line(
                line("capacity, to one half", &|s| {
                    f64::from(s.runtimes) * capacity
                })
                .steps()
                .band(no_change),
            ),
        axes("Runtimes", "number").line(line("runtimes", &|s| f64::from(s.runtimes)).steps()),
        axes("Packets lost at full inputs", "per second").line(line("lost", &|s| s.lost as f64)),
        axes("Flows moved by scaling out", "flows in a second")
            .line(line("moved", &|s| f64::from(s.moved))),
    ])
}
