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

/// The comparison of a runtime; `None` where the thread is no runtime's.
pub type Comparing = Option<Comparison>;
