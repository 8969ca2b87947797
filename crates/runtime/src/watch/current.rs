//! The packet that is traced, while it is alone in a burst.

use weir_nf::host::Target;
use weir_nf::{CloseReason, EventLog, ShownField};
use weir_packet::LinkType;
use weir_telemetry::Counts;

use super::record::PacketTrace;

/// The way that a function sends a packet.
pub(super) enum Way {
    Dropped(String),
    Turned,
    /// Label and target.
    On(usize, Target),
    Nothing,
}

/// The packet that is alone in the burst.
pub(super) struct Current {
    /// Bit per trace that wants it.
    pub(super) slots: u8,
    pub(super) full: bool,
    pub(super) trace: PacketTrace,
    /// Counts before it.
    pub(super) opened: u64,
    pub(super) ended: Counts<CloseReason>,
    /// The phase of its flow's connection before the function.
    pub(super) phase: Option<&'static str>,
    pub(super) start: u64,
    /// The runtime's own log, which counts only: another one stands in for it.
    pub(super) quiet: Option<EventLog>,
}

/// A traced packet as a function finds it.
pub(super) struct Before {
    pub(super) bytes: Vec<u8>,
    pub(super) link: LinkType,
    pub(super) state: Vec<ShownField>,
    pub(super) counters: Vec<u64>,
    pub(super) events: usize,
    pub(super) made: usize,
    pub(super) aliases: usize,
    pub(super) start: u64,
}
