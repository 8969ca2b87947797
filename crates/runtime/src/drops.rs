//! The engine's own reasons for dropping a packet.

use weir_packet::Malformed;

/// A reason that is no function's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EngineDrop {
    /// No flow was free and the chain refuses new ones.
    FlowTableFull,
    /// No record was free for the flow's unit in a wider scope.
    ScopeTableFull,
    /// A later fragment came before its first one and no place was free to
    /// hold it.
    FragmentsFull,
    /// A held fragment's first one never came.
    FragmentTimeout,
    /// A packet was to be turned a second time.
    TurnedTwice,
    /// A function gave a packet no verdict: a fault of the function.
    NoVerdict,
    /// Under a switch: the packet's unit has no place here.
    NoSuchUnit,
    /// Under a switch: no frame was free for what the packet may cause.
    NoFrame,
    /// In a later stage: the packet is for no function here, or its flow is
    /// not what it says.
    Misplaced,
}

/// The engine's own reasons for dropping a packet, malformed ones apart.
pub const ENGINE: [&str; 9] = [
    "flow_table_full",
    "scope_table_full",
    "fragments_full",
    "fragment_timeout",
    "turned_twice",
    "no_verdict",
    "no_such_unit",
    "no_frame",
    "misplaced",
];

impl EngineDrop {
    /// As in the report.
    pub(crate) fn name(self) -> &'static str {
        ENGINE[self as usize]
    }

    /// All of them.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        ENGINE.into_iter()
    }
}

/// Counts per reason.
#[derive(Debug)]
pub(crate) struct Reasons {
    engine: [u64; ENGINE.len()],
    malformed: [u64; Malformed::COUNT],
    malformed_dropped: [u64; Malformed::COUNT],
}

impl Default for Reasons {
    fn default() -> Reasons {
        Reasons {
            engine: [0; ENGINE.len()],
            malformed: [0; Malformed::COUNT],
            malformed_dropped: [0; Malformed::COUNT],
        }
    }
}

impl Reasons {
    pub(crate) fn count(&mut self, drop: EngineDrop) {
        self.count_many(drop, 1);
    }

    pub(crate) fn count_many(&mut self, drop: EngineDrop, packets: u32) {
        self.engine[drop as usize] += u64::from(packets);
    }

    pub(crate) fn count_malformed(&mut self, fault: Malformed, dropped: bool) {
        self.malformed[fault as usize] += 1;
        self.malformed_dropped[fault as usize] += u64::from(dropped);
    }

    /// Reasons with packets, for the report.
    pub(crate) fn drops(&self) -> Vec<(String, u64)> {
        let malformed = Malformed::ALL
            .iter()
            .zip(self.malformed_dropped)
            .map(|(fault, n)| (format!("malformed.{}", fault.reason()), n));
        let engine = ENGINE
            .iter()
            .zip(self.engine)
            .map(|(&name, n)| (name.to_owned(), n));
        malformed.chain(engine).filter(|(_, n)| *n > 0).collect()
    }

    /// Malformed packets by reason, dropped or not.
    pub(crate) fn malformed(&self) -> Vec<(String, u64)> {
        Malformed::ALL
            .iter()
            .zip(self.malformed)
            .filter(|(_, n)| *n > 0)
            .map(|(fault, n)| (fault.reason().to_owned(), n))
            .collect()
    }
}
