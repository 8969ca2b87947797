//! Comparison of copies with what their owners sent (`weir verify`).

use weir_protocol::actors::Compared;

/// A runtime's comparison of the copies of its units, of all chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Id of the runtime.
    pub runtime: u32,
    /// How far it is.
    pub found: Compared,
}

/// What a runtime has found so far; `None` of a thread that is none.
pub type Comparing = Option<Comparison>;
