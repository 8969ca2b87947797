//! Runtimes that come and go behind a switch.

use weir_graph::ScriptMode;

/// A change of the number of runtimes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resize {
    /// The units of the runtimes with these ids go to the others, then they end, and none takes
    /// their places.
    Drain(Vec<u32>, ScriptMode),
    /// So many run: more are started, or those of the last places are drained.
    Scale(u32, ScriptMode),
    /// The same, and another one starts in the place of each when it is over.
    Renew(Vec<u32>, ScriptMode),
}

/// The runtimes that come and go by a [`Resize`], by their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resized {
    /// Those that start.
    pub started: Vec<u32>,
    /// Those that give their units away, and end.
    pub draining: Vec<u32>,
}

/// The answer to a [`Resize`]: an error says why nothing changes. A thread without a switch answers
/// `None`.
pub type Resizing = Option<Result<Resized, String>>;

/// The answer to a switch that is to hand over: an error says why it goes on. A thread without a switch
/// answers `None`.
pub type HandingOver = Option<Result<(), String>>;
