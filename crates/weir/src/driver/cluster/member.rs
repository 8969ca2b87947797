//! A runtime, seen from the switch's thread.

use weir_packet::Frame;

use super::super::wiring::{RuntimeEnds, SwitchEnds};

/// Places of runtimes are as many as at the start.
pub(super) const NO_MEMBER: &str = "a place of no runtime";

/// The state of one runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It was never started.
    Absent,
    /// Its thread reserves memory.
    Starts,
    /// It may own units.
    Runs,
    /// It gives its units away.
    Drains,
    /// It was told to finish.
    Leaves,
    /// Its thread is over.
    Gone,
}

pub(super) struct Member {
    pub(super) ends: SwitchEnds,
    /// Until the thread has them.
    pub(super) theirs: Option<RuntimeEnds>,
    /// Number of its node, until that is over.
    pub(super) node: Option<usize>,
    pub(super) state: State,
    /// Per chain: frames of an entry whose last one has not come yet.
    pub(super) partial: Vec<Vec<Frame>>,
}

impl Member {
    /// True where its thread runs and was not told to finish.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Runs | State::Drains)
    }
}
