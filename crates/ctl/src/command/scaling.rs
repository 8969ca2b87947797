//! The state of scaling (`weir run --scaling`), as `weir get scaling` shows it.

use std::time::{Duration, SystemTime};

weir_telemetry::counters! {
    /// Scaling, as it stands.
    #[derive(Clone, Debug)]
    pub struct ScalingCounts {
        /// Runtimes that scaling has started.
        pub started: Counter<Times>,
        /// Runtimes that scaling has begun to drain.
        pub drained: Counter<Times>,
        /// Units that scaling has moved away from overloaded runtimes.
        pub moved: Counter<Units>,
        /// Decisions of scaling that could not be carried out.
        pub refused: Counter<Times>,
    } and {
        /// Fewest and most runtimes.
        pub bounds: (u32, u32),
        /// Time between two decisions.
        pub interval: Duration,
        /// Packets per second that one runtime took in at the last overload; `None` before one.
        pub peak: Option<u64>,
        /// Runtimes with units, or that may get some.
        pub loads: Vec<RuntimeLoad>,
        /// The newest decisions, the oldest first.
        pub decisions: Vec<Decided>,
    }
}

/// The load of a runtime in the last interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuntimeLoad {
    /// Its id.
    pub id: u32,
    /// Units that it owns.
    pub units: u32,
    /// Packets per second that it took in; `None` before it was seen for an interval.
    pub packets: Option<u64>,
    /// Share of the interval in which ports waited for it, in parts per thousand.
    pub held_back: u32,
}

/// A decision, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// When.
    pub at: SystemTime,
    /// The action and its reason, or why it was refused.
    pub what: String,
}
