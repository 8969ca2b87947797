//! The engine's own reasons for dropping a packet.

use weir_packet::Malformed;
use weir_telemetry::{Counts, labels};

labels! {
    /// A reason that is no function's; malformed packets have [`Malformed`].
    pub enum EngineDrop: Counter<Packets> {
        /// It would open a flow, the table is full (`flows.max`), and the chain refuses new flows.
        FlowTableFull = "flow_table_full",
        /// No record was free for the client, or other scope, that its flow belongs to.
        ScopeTableFull = "scope_table_full",
        /// A later fragment came before the first one, and no place was free to hold it.
        FragmentsFull = "fragments_full",
        /// A later fragment was held, and the first one never came.
        FragmentTimeout = "fragment_timeout",
        /// A function sent it back through the chain a second time.
        TurnedTwice = "turned_twice",
        /// A function gave it no verdict: a fault of the function.
        NoVerdict = "no_verdict",
        /// Under a switch: the unit that it belongs to has no place in the runtime.
        NoSuchUnit = "no_such_unit",
        /// No frame of packet memory was free for what it may cause.
        NoFrame = "no_frame",
        /// In a later stage: it is for no function there, or its flow is not what it says.
        Misplaced = "misplaced",
    }
}

/// Counts per reason.
#[derive(Debug, Default)]
pub(crate) struct Reasons {
    engine: Counts<EngineDrop>,
    malformed: Counts<Malformed>,
    malformed_dropped: Counts<Malformed>,
}

impl Reasons {
    pub(crate) fn count(&mut self, drop: EngineDrop) {
        self.engine.add(drop);
    }

    pub(crate) fn count_malformed(&mut self, fault: Malformed, dropped: bool) {
        self.malformed.add(fault);
        self.malformed_dropped.add_many(fault, u64::from(dropped));
    }

    /// Reasons with packets, for the report.
    pub(crate) fn drops(&self) -> Vec<(String, u64)> {
        let malformed = self.malformed_dropped.counted();
        let malformed = malformed.map(|(fault, n)| (format!("malformed.{}", fault.reason()), n));
        let engine = self.engine.counted();
        let engine = engine.map(|(drop, n)| (drop.name().to_owned(), n));
        malformed.chain(engine).collect()
    }

    /// Malformed packets by reason, dropped or not.
    pub(crate) fn malformed(&self) -> Vec<(String, u64)> {
        let malformed = self.malformed.counted();
        malformed
            .map(|(fault, n)| (fault.reason().to_owned(), n))
            .collect()
    }
}
