//! The report of a campaign.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use weir_sim::Violation;
use weir_sim::campaign::{Campaign, Failed};
use weir_sim::minimise::{Minimal, minimise};
use weir_sim::plan::Plan;
use weir_sim::settings::Settings;
use weir_sim::trace::Line;
use weir_sim::traffic::Recorded;

use crate::args::{Format, Sim};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Lines of a minimised run that are printed at most.
const LINES: usize = 200;

pub(crate) struct Report<'a> {
    sum: &'a Campaign,
    never: Vec<&'a str>,
    elapsed: Duration,
}

impl<'a> Report<'a> {
    pub(crate) fn new(
        args: &Sim,
        _: &Settings,
        sum: &'a Campaign,
        elapsed: Duration,
    ) -> Report<'a> {
        Report {
            sum,
            never: if args.coverage {
                sum.never()
            } else {
                Vec::new()
            },
            elapsed,
        }
    }

    /// Prints it; a failing seed is made smaller first.
    pub(crate) fn print(
        &self,
        args: &Sim,
        settings: &Settings,
        recorded: Option<&[Recorded]>,
    ) -> Outcome {
        let minimal = match self.sum.failed.first() {
            Some(failed) if !args.no_minimise => {
                let plan = Plan::draw(failed.seed, settings, recorded);
                Some(minimise(settings, &plan).map_err(Failure::outside)?)
            }
            _ => None,
        };
        match args.output {
            Format::Json => output::json(&self.to_json(args, minimal.as_ref()))?,
            Format::Text => output::line(&self.to_text(args, minimal.as_ref()))?,
        }
        if self.sum.failed.is_empty() && self.never.is_empty() {
            Ok(Exit::Done)
        } else {
            Ok(Exit::Failed)
        }
    }

    fn to_json(&self, args: &Sim, minimal: Option<&Minimal>) -> Value {
        let sum = self.sum;
        let failed: Vec<Value> = sum
            .failed
            .iter()
            .map(|failed| {
                json!({
                    "seed": failed.seed,
                    "invariant": failed.violation.invariant.name(),
                    "at_us": failed.violation.at / 1_000,
                    "text": failed.violation.text,
                    "repeat": repeat(args, failed.seed),
                })
            })
            .collect();
        json!({
            "seed": args.seed,
            "seeds": sum.seeds,
            "packets": sum.packets,
            "owner_changes_asked": sum.moves,
            "owner_changes_least": sum.least_moved,
            "failed": failed,
            "minimised": minimal.map(events),
            "never_reached": self.never,
            "tally": sum.tally,
            "world": sum.world,
            "counts": sum.counts,
            "virtual_s": sum.time as f64 / 1e9,
            "elapsed_s": self.elapsed.as_secs_f64(),
        })
    }

    fn to_text(&self, args: &Sim, minimal: Option<&Minimal>) -> String {
        let sum = self.sum;
        let get = |name: &str| sum.tally.get(name).copied().unwrap_or(0);
        let mut text = String::new();
        // Writing to a string can't fail.
        let _ = writeln!(
            text,
            "{} seeds, {} packets, {} owner changes ({} at least in a seed), {} failures healed, \
             {} switch restarts: {} s ({:.0} packets/s)",
            sum.seeds,
            sum.packets,
            get("moved"),
            sum.least_moved.unwrap_or(0),
            get("resumed"),
            sum.world.get("switch_crashes").copied().unwrap_or(0),
            self.elapsed.as_secs(),
            sum.packets as f64 / self.elapsed.as_secs_f64().max(1e-9),
        );
        for failed in &sum.failed {
            text += &violation(failed.seed, &failed.violation);
            let _ = writeln!(text, "  repeat: {}", repeat(args, failed.seed));
        }
        if sum.failed.is_empty() {
            text += "no invariant was broken\n";
        }
        if let Some(minimal) = minimal {
            text += &minimised(minimal);
        }
        if !self.never.is_empty() {
            let _ = writeln!(text, "never reached: {}", self.never.join(", "));
        }
        text
    }
}

/// A violation in words.
pub(crate) fn violation(seed: u64, violation: &Violation) -> String {
    let unit = violation.unit.map_or_else(String::new, |unit| {
        format!(" of unit {}.{}", unit.slot(), unit.incarnation())
    });
    format!(
        "seed {seed}: {}{unit} at {} us: {}\n",
        violation.invariant.name(),
        violation.at / 1_000,
        violation.text
    )
}

/// A line of a trace.
pub(crate) fn line(line: &Line) -> String {
    format!("{:>10} us  {}", line.at / 1_000, line.text)
}

/// The command that repeats a seed.
fn repeat(args: &Sim, seed: u64) -> String {
    let mut command = format!(
        "weir sim --seed {seed} --faults {} --runtimes {} --flows {} --packets {} --moves {}",
        args.faults, args.runtimes, args.flows, args.packets, args.moves
    );
    if let Some(mode) = args.mode {
        command += &format!(" --mode {mode}");
    }
    if let Some(replication) = args.replication {
        command += &format!(" --replication {replication}");
    }
    if let Some(hosts) = args.hosts {
        command += &format!(" --hosts {hosts}");
    }
    if let Some(loggers) = args.loggers {
        command += &format!(" --loggers {loggers}");
    }
    if let Some(heartbeats) = args.heartbeats {
        command += &format!(" --heartbeats {heartbeats}");
    }
    if let Some(flowlets) = args.flowlets {
        command += &format!(" --flowlets {flowlets}");
    }
    if let Some(compare) = args.compare {
        command += &format!(" --compare {compare}");
    }
    if let Some(take_back) = args.take_back {
        command += &format!(" --take-back {take_back}");
    }
    if args.chains > 1 {
        command += &format!(" --chains {}", args.chains);
    }
    for (set, option) in [
        (args.every_fault, " --every-fault"),
        (args.plain_links, " --plain-links"),
    ] {
        if set {
            command += option;
        }
    }
    for (value, option) in [
        (&args.chain, "--chain"),
        (&args.plant, "--plant"),
        (&args.input, "--in"),
    ] {
        if let Some(value) = value {
            let _ = write!(command, " {option} {value}");
        }
    }
    command
}

fn about(minimal: &Minimal) -> Vec<String> {
    let unit = minimal.outcome.violation.as_ref().and_then(|v| v.unit);
    let all = minimal.trace.lines().iter();
    let lines: Vec<&Line> = match unit {
        Some(unit) => all
            .filter(|line| line.unit.is_none_or(|u| u == unit))
            .collect(),
        None => all.collect(),
    };
    let from = lines.len().saturating_sub(LINES);
    lines.iter().skip(from).map(|l| line(l)).collect()
}

fn events(minimal: &Minimal) -> Value {
    json!({
        "runs": minimal.runs,
        "faults": minimal.plan.faults.to_string(),
        "packets": minimal.plan.packets.len(),
        "steps": minimal.plan.steps.len(),
        "events": about(minimal),
    })
}

fn minimised(minimal: &Minimal) -> String {
    let lines = about(minimal);
    let mut text = format!(
        "made smaller in {} runs: chain {}, faults {}, {} packets, {} steps\n",
        minimal.runs,
        minimal.plan.chain.name(),
        minimal.plan.faults,
        minimal.plan.packets.len(),
        minimal.plan.steps.len(),
    );
    for line in lines {
        text += &line;
        text.push('\n');
    }
    if let Some(found) = &minimal.outcome.violation {
        text += &violation(minimal.plan.seed, found);
    }
    text
}

/// A seed that failed, for tables.
pub(crate) fn short(failed: &Failed) -> String {
    format!(
        "{}: {}",
        failed.violation.invariant.name(),
        failed.violation.text
    )
}
