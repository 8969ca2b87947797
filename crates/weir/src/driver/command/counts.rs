//! Counts of a thread.

use std::time::Duration;

use weir_io::port::PortCounters;

use super::super::executor::{Counted, Executor, PartReport, StageProcessCounts, Visit};
use super::super::live::LayerReport;

/// Counts of a thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadCounts {
    /// Its name, for people.
    pub(crate) name: String,
    pub(crate) reports: Vec<PartReport>,
    /// Of the ports, where it has them.
    pub(crate) inputs: Vec<PortCounters>,
    pub(crate) outputs: Vec<PortCounters>,
    /// Packets that no chain takes.
    pub(crate) refused: u64,
    /// How weir stands in the network, where it has the interfaces.
    pub(crate) network: Option<LayerReport>,
    /// Stages in processes, which the thread that has the ports looks after.
    pub(crate) processes: Vec<StageProcessCounts>,
    /// Time in which it slept.
    pub(crate) idle: Duration,
    /// Packets that arrived here and went to another worker, whose flows they are.
    pub(crate) steered: u64,
    /// Frames of its pool: all that it was made with, and those free now.
    pub(crate) frames: u64,
    pub(crate) frames_free: u64,
}

impl ThreadCounts {
    /// Of a thread with these runtimes.
    pub(crate) fn of_parts(parts: impl FnOnce(&mut Visit<'_>)) -> ThreadCounts {
        let mut reports = Vec::new();
        parts(&mut |part| reports.push(part.report()));
        ThreadCounts {
            reports,
            ..ThreadCounts::default()
        }
    }

    /// Of the thread that has the ports: the counts of its executor, and the frames.
    pub(crate) fn of<C: Executor>(executor: &mut C) -> ThreadCounts {
        let reports = executor.reports();
        let counted = |switch: bool| {
            let mut parts = reports.iter().map(|report| &report.part);
            parts.any(|part| matches!(part, Counted::Switch) == switch)
        };
        let name = match (counted(true), counted(false)) {
            (true, _) => "switch",
            (false, true) => "chains",
            (false, false) => "ports",
        };
        let pool = executor.pool();
        ThreadCounts {
            name: name.to_owned(),
            frames: (pool.available() + pool.outstanding()) as u64,
            frames_free: pool.available() as u64,
            reports,
            processes: executor.processes(),
            ..ThreadCounts::default()
        }
    }
}
