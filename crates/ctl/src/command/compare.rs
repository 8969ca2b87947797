//! Comparison of copies with what their owners sent (`weir verify`).

/// A runtime's comparison of the copies of its units, in numbers of units of all chains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Id of the runtime.
    pub runtime: u32,
    /// Number of its comparison, from 1.
    pub round: u32,
    /// Units that are not done.
    pub left: u64,
    /// Copies that are what was sent.
    pub equal: u64,
    /// Copies that are something else; they are sent whole once more.
    pub differs: u64,
    /// Copies that were of another clock, twice; they are sent whole.
    pub behind: u64,
    /// Copies that the asked one did not have, twice; they are sent whole.
    pub missing: u64,
    /// Units that have ended meanwhile, or have another owner or replica.
    pub over: u64,
    /// Copies of which no answer came in time.
    pub unanswered: u64,
    /// Units without a copy, or of which nothing was sent that could be compared.
    pub skipped: u64,
}

/// What a runtime has found so far; `None` of a thread that is none.
pub type Comparing = Option<Comparison>;
