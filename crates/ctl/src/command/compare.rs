//! Comparison of copies with what their owners sent (`weir verify`).

/// A runtime's comparison of the copies of its units, in numbers of units of all chains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Id of the runtime.
    pub runtime: u32,
    /// Units that are not looked at yet.
    pub left: u64,
    /// Copies that were asked about.
    pub asked: u64,
    /// Copies that are what was sent.
    pub equal: u64,
    /// Copies that are something else; they were sent whole once more.
    pub differs: u64,
    /// Copies of another clock, which could not be compared.
    pub behind: u64,
    /// Copies that the asked one does not have.
    pub missing: u64,
    /// Units without a copy, or of which nothing was sent yet.
    pub skipped: u64,
}

/// What a runtime has found so far; `None` of a thread that is none.
pub type Comparing = Option<Comparison>;
