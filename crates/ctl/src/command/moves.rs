//! Moves of units between runtimes behind a switch.

use weir_graph::ScriptMode;

/// Units to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveUnits {
    /// Id of the runtime that gives them.
    pub from: u32,
    /// Id of the runtime that gets them.
    pub to: u32,
    /// So many of each chain; all without it.
    pub count: Option<u32>,
    /// How their states come over.
    pub mode: ScriptMode,
}

/// How many units were asked to move, or why none was; `None` of a thread without a switch.
pub type Moving = Option<Result<u32, String>>;
