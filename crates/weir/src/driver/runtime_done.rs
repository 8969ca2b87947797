//! What a runtime leaves behind: its counts, and the events of its last flows.

use std::time::Duration;

use weir_packet::Internal;
use weir_protocol::RuntimeId;
use weir_runtime::{Lie, Report};

/// Count of numbers in rings that named no frame of their writer's.
pub(super) const BAD_DESCRIPTORS: &str = "bad_descriptors";
/// Count of messages in rings that made no sense.
pub(super) const BAD_MESSAGES: &str = "bad_messages";

/// The end of a runtime.
#[derive(Debug)]
pub(super) struct RuntimeDone {
    pub(super) id: RuntimeId,
    /// Per chain.
    pub(super) reports: Vec<Report>,
    /// Violations of descriptors that an audit found.
    pub(super) lies: Vec<Lie>,
    /// Lines of the flows that ended with the run.
    pub(super) events: Vec<u8>,
    pub(super) busy: Duration,
    pub(super) packets: u64,
    /// Units that it owned at the end, all chains together.
    pub(super) units: u64,
    /// Most packets it held for units whose state was not there yet.
    pub(super) held_most: u64,
    pub(super) counts: Vec<(String, u64)>,
    pub(super) died: bool,
    /// Of the node itself; the report of a chain takes it over.
    pub(super) internal: Internal,
}

impl RuntimeDone {
    /// That of a runtime which has done nothing, with these events.
    pub(super) fn of(id: RuntimeId, events: Vec<u8>) -> RuntimeDone {
        RuntimeDone {
            id,
            reports: Vec::new(),
            lies: Vec::new(),
            events,
            busy: Duration::ZERO,
            packets: 0,
            units: 0,
            held_most: 0,
            counts: Vec::new(),
            died: false,
            internal: Internal::default(),
        }
    }
}

impl RuntimeDone {
    /// The same of a runtime that has died: its flows are elsewhere, or lost.
    pub(super) fn of_dead(mut self) -> RuntimeDone {
        self.died = true;
        self.units = 0;
        for report in &mut self.reports {
            report.flows.nothing_is_open();
        }
        self
    }
}
