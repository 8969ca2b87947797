//! A runtime, seen from the switch's thread.

use std::time::{Duration, Instant};

use weir_exec::{Forget, RestartPolicy, Restarts};
use weir_packet::Frame;
use weir_protocol::RuntimeId;

use super::super::wiring::{RuntimeEnds, SwitchEnds};

/// Places of runtimes are as many as at the start.
pub(super) const NO_MEMBER: &str = "a place of no runtime";

/// A runtime that has died gets a successor in its place, under a new id: at once the
/// first time, later after a pause, so that a bug that each packet meets does not take the
/// processor from the other runtimes.
const RUNTIME: RestartPolicy = RestartPolicy {
    first_at_once: true,
    pause: Duration::from_millis(100),
    longest: Duration::from_secs(10),
    forget: Forget::Older(Duration::from_secs(30)),
    most: Some(8),
    most_false_starts: Some(2),
};

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
    /// Its thread is over. It may get a successor.
    Gone,
}

pub(super) struct Member {
    pub(super) ends: SwitchEnds,
    /// Until the thread has them.
    pub(super) theirs: Option<RuntimeEnds>,
    /// Number of its node, until that is over.
    pub(super) node: Option<usize>,
    pub(super) state: State,
    pub(super) deaths: Restarts,
    /// How often one has died here.
    pub(super) died: u64,
    /// When it began to run, and when its successor is to start.
    pub(super) since: Option<Instant>,
    pub(super) successor_at: Option<Instant>,
    /// Per chain: frames of an entry whose last one has not come yet.
    pub(super) partial: Vec<Vec<Frame>>,
}

impl Member {
    /// One that was never started, for so many chains.
    pub(super) fn absent(ends: SwitchEnds, theirs: RuntimeEnds, chains: usize) -> Member {
        Member {
            ends,
            theirs: Some(theirs),
            node: None,
            state: State::Absent,
            deaths: Restarts::new(RUNTIME),
            died: 0,
            since: None,
            successor_at: None,
            partial: (0..chains).map(|_| Vec::new()).collect(),
        }
    }

    /// True where a runtime of this place has died, or left.
    pub(super) fn is_dead(&self, id: RuntimeId) -> bool {
        self.ends.id != id || self.state == State::Gone
    }

    /// The id of its successor, among so many places.
    pub(super) fn next_id(&self, places: usize) -> RuntimeId {
        RuntimeId(self.ends.id.0.saturating_add(places as u32))
    }

    /// Its state in a word; `None` of one that was never started.
    pub(super) fn word(&self) -> Option<&'static str> {
        Some(match self.state {
            State::Absent => return None,
            State::Starts => "starting",
            State::Runs => "ready",
            State::Drains => "draining",
            State::Leaves => "leaving",
            State::Gone if self.successor_at.is_some() => "starting",
            State::Gone => "over",
        })
    }

    /// True where its thread runs and was not told to finish.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Runs | State::Drains)
    }
}
