//! Counts of a thread.

use std::time::Duration;

use weir_io::port::PortCounters;

use super::network::LayerReport;
use super::part::{PartReport, RuntimePlaceCounts, StageProcessCounts, SwitchCounts, Visit};
use super::scaling::ScalingCounts;

/// Counts of a thread.
#[derive(Clone, Debug, Default)]
pub struct ThreadCounts {
    /// Its name, for people.
    pub name: String,
    /// Number of the process that it is of, on that one's host; 0 for this one.
    pub process: u32,
    /// Number of its command channel, in the order of [`crate::server::Offer`].
    pub channel: u32,
    /// Of its parts of chains.
    pub reports: Vec<PartReport>,
    /// Of the ports that packets come in by, where it has them.
    pub inputs: Vec<PortCounters>,
    /// Of the ports that packets leave by.
    pub outputs: Vec<PortCounters>,
    /// Packets that no chain takes.
    pub refused: u64,
    /// How weir stands in the network, where it has the interfaces.
    pub network: Option<LayerReport>,
    /// Stages in processes, which the thread that has the ports looks after.
    pub processes: Vec<StageProcessCounts>,
    /// Places of runtimes, which the switch's thread looks after.
    pub runtimes: Vec<RuntimePlaceCounts>,
    /// Switches, by chain, on the thread that has them.
    pub switches: Vec<SwitchCounts>,
    /// How the number of runtimes follows their load, where it does.
    pub scaling: Option<ScalingCounts>,
    /// Time in which it slept.
    pub idle: Duration,
    /// Packets that arrived here and went to another worker, whose flows they are.
    pub steered: u64,
    /// Frames that its pool was made with.
    pub frames: u64,
    /// Those that are free now.
    pub frames_free: u64,
}

impl ThreadCounts {
    /// Of a thread with these runtimes.
    pub fn of_parts(parts: impl FnOnce(&mut Visit<'_>)) -> ThreadCounts {
        let mut reports = Vec::new();
        parts(&mut |part| reports.push(part.report()));
        ThreadCounts {
            reports,
            ..ThreadCounts::default()
        }
    }
}
