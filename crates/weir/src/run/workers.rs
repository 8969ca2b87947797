//! `weir run --workers`: packets steered over plain runtimes, or, where that
//! can't be, a switch.

use std::fmt::Write as _;

use serde_json::{Value, json};
use weir_ctl::DriverDrop;
use weir_graph::ChainFile;
use weir_nf::host::Stage;
use weir_packet::MemoryLayout;
use weir_runtime::{Obstacle, RuntimeConfig};

use crate::args::Run;
use crate::driver::{ChainPlan, Workers, WorkersEnd, WorkersSettings};
use crate::exit::Outcome;
use crate::say::say;

use super::audit;
use super::conclude::conclude;
use super::input::Input;
use super::line::Line;
use super::onlook::Watched;
use super::placement;
use super::ports::Ports;
use super::summary::{Ended, More, Own};
use crate::output::thousands;

pub(super) fn run(
    args: &Run,
    workers: u32,
    file: &ChainFile,
    (plans, stages): (&[ChainPlan], &[Stage]),
    ports: &Ports,
    config: RuntimeConfig,
    watched: &mut Watched<'_>,
) -> Outcome {
    if let Some(obstacle) = Workers::obstacle(stages) {
        let more = by_switch(workers, obstacle);
        return super::cluster::run(
            args,
            workers,
            file,
            (plans, stages),
            ports,
            config,
            Some(more),
            watched,
        );
    }
    let input = Input::open(ports)?;
    let settings = settings(args, workers, config, ports.memory());
    let executor = Workers::start(stages, &settings)?;
    let senders = executor.command_senders();
    let mut line = Line::open(executor, input, args, file, ports)?;
    line.open_control(args, file, ports, "workers", senders)?;
    let (mut of_run, ended) = line.drive(args, watched)?;
    sum_up(line.executor, args, &mut of_run);
    conclude(args, ports, of_run, ended, config.seed, watched)
}

/// The settings of workers.
pub(super) fn settings(
    args: &Run,
    workers: u32,
    engine: RuntimeConfig,
    memory: MemoryLayout,
) -> WorkersSettings {
    WorkersSettings {
        workers,
        spread: placement::spread(args, workers),
        engine,
        memory,
        wakeful: args.never_sleeps(),
    }
}

/// Adds what workers did.
pub(super) fn sum_up(executor: Workers, args: &Run, of_run: &mut Ended) {
    let mut end = executor.end();
    of_run.leaked(end.leaked);
    of_run.reports = end.reports.clone();
    audit::add(args, std::mem::take(&mut end.lies), of_run);
    of_run.more.push(Box::new(end));
}

/// Says why a switch steers, and what the summary says of it.
pub(super) fn by_switch(workers: u32, obstacle: Obstacle) -> Box<dyn More> {
    let why = obstacle.to_string();
    say(format_args!(
        "note: {why}: a switch steers, which knows what belongs together (as with --runtimes {workers})"
    ));
    Box::new(BySwitch { workers, why })
}

/// Workers whose packets a switch steers.
struct BySwitch {
    workers: u32,
    why: String,
}

impl More for BySwitch {
    fn add_json(&self, value: &mut Value) {
        value["workers"] = json!({
            "count": self.workers,
            "steered_by": "switch",
            "why": self.why,
        });
    }

    fn add_text(&self, text: &mut String) {
        // Writing to a `String` can't fail.
        let _ = writeln!(
            text,
            "\n{} workers, steered by a switch: {}",
            self.workers, self.why
        );
    }
}

impl More for WorkersEnd {
    fn own(&self) -> Own {
        let reason = DriverDrop::WorkerFailed.name().to_owned();
        let failed = Some((reason, self.unprocessed)).filter(|(_, count)| *count > 0);
        Own {
            drops: failed.into_iter().collect(),
            ..Own::default()
        }
    }

    fn add_json(&self, value: &mut Value) {
        value["workers"] = json!({
            "count": self.workers.len(),
            "steered_by": "hosts",
            "own_ports": self.own_ports,
            "each": self.workers.iter().map(|worker| json!({
                "packets": worker.packets,
                "flows": worker.flows,
                "steered": worker.steered,
                "busy_s": worker.busy.as_secs_f64(),
            })).collect::<Vec<_>>(),
            "limits": self.limits.iter().map(|limits| (limits.chain.clone(), json!({
                "flows_max": limits.flows,
                "buffer_bytes": limits.buffer_bytes,
            }))).collect::<serde_json::Map<_, _>>(),
        });
    }

    fn add_text(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "\n  {:<10} {:>12} {:>12} {:>12} {:>10}",
            "workers", "packets", "flows", "steered", "busy s"
        );
        for (number, worker) in self.workers.iter().enumerate() {
            let _ = writeln!(
                text,
                "  {:<10} {:>12} {:>12} {:>12} {:>10.3}",
                number + 1,
                thousands(worker.packets),
                thousands(worker.flows),
                thousands(worker.steered),
                worker.busy.as_secs_f64()
            );
        }
        let tracked = self.reports.iter().zip(&self.limits);
        for (report, limits) in tracked.filter(|(report, _)| report.flows.tracked) {
            let _ = writeln!(
                text,
                "  each: at most {} flows and {} bytes of side buffers of {}",
                thousands(u64::from(limits.flows)),
                thousands(limits.buffer_bytes as u64),
                report.chain
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::ports::Ports;
    use crate::run::summary::Summary;

    /// They came in and are nowhere else: without them the counts would not balance.
    #[test]
    fn packets_for_a_failed_worker_are_drops_of_the_summary() {
        let of = |unprocessed| {
            let end = WorkersEnd {
                unprocessed,
                ..WorkersEnd::default()
            };
            let ended = Ended {
                reports: Vec::new(),
                inputs: Vec::new(),
                outputs: Vec::new(),
                refused: 0,
                elapsed: std::time::Duration::ZERO,
                more: vec![Box::new(end)],
                warnings: Vec::new(),
            };
            Summary::of(ended, &Ports::default(), 1).to_json()["drops"].clone()
        };
        assert_eq!(of(3), json!({"worker_failed": 3}));
        assert_eq!(of(0), json!({}));
    }
}
