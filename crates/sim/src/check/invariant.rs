//! The invariants of every run.

use weir_protocol::UnitId;

/// An invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// Packets in = packets out − emitted + dropped + held; no frame is lost.
    Conservation,
    /// A packet is let out once, and lost only where it may be.
    ExactlyOnce,
    /// In the order of their clocks.
    Order,
    /// Nothing of a view is let out that is not the current one.
    OneView,
    /// Nothing is let out that no replica holds.
    OutputCommit,
    /// Outputs and states are those of one runtime.
    Equivalence,
    /// A leased port is one live unit's.
    Bindings,
    /// A unit that could have a replica has none for long.
    Protection,
    /// The packets of a flow are in one unit.
    OneUnit,
    /// A flow ends when it was idle for its time, not before.
    Expiry,
    /// All that is asked for comes to an end.
    Stuck,
    /// Nothing is left of what has ended.
    Leak,
    /// Counts and gauges are right, and what is kept twice agrees.
    Books,
    /// What streams and wire formats carry arrives as it was sent, and nothing else does.
    Carriage,
    /// Who is suspected was silent, and who is silent is suspected.
    Suspicion,
    /// Input that makes no sense is refused.
    BadInput,
    /// A fault of the code that it noticed itself.
    Panic,
}

impl Invariant {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Invariant::Conservation => "I1 conservation",
            Invariant::ExactlyOnce => "I2 exactly once",
            Invariant::Order => "I3 order",
            Invariant::OneView => "I4 one view",
            Invariant::OutputCommit => "I5 output commit",
            Invariant::Equivalence => "I6 equivalence",
            Invariant::Bindings => "bindings",
            Invariant::Protection => "protection",
            Invariant::OneUnit => "one unit",
            Invariant::Expiry => "expiry",
            Invariant::Stuck => "stuck",
            Invariant::Leak => "leak",
            Invariant::Books => "books",
            Invariant::Carriage => "carriage",
            Invariant::Suspicion => "suspicion",
            Invariant::BadInput => "bad input",
            Invariant::Panic => "panic",
        }
    }
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// When, in nanoseconds from the start.
    pub at: u64,
    /// The unit, if it is one unit's.
    pub unit: Option<UnitId>,
    /// The event.
    pub text: String,
}
