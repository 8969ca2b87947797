//! The rarely used part of a unit, beside the record of its live actor: copies of other
//! views, and hand-overs under way.

use std::collections::BTreeMap;

use weir_packet::Time;

use super::compare::digest;
use super::kept::Kept;
use super::pieces::{Portion, Staged};
use crate::ids::{Clock, RuntimeId, View};
use crate::message::{Entry, Image, MoveMode, Open, Refusal};

/// The purpose of an actor that is kept as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It was the owner and gave the unit away at the clock where its view
    /// ended.
    Source,
    /// It was the owner when a failure, or an older dead end, put another view
    /// in its place.
    Retired,
    /// It is the copy of another's.
    Replica,
}

/// An actor kept as bytes.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) role: Role,
    /// The owner that feeds this replica; of an owner, its replica.
    pub(crate) peer: Option<RuntimeId>,
    pub(crate) clock: Clock,
    pub(crate) state: Option<Vec<u8>>,
    pub(crate) kept: Kept,
    /// When the outputs were last sent again.
    pub(crate) said: Time,
    /// Up to where they were sent, where they are too long for one repetition.
    pub(crate) cursors: Cursors,
}

/// The content of a replica, if it got all that it was sent.
#[derive(Debug)]
pub(crate) struct Basis {
    pub(crate) clock: Clock,
    pub(crate) state: Vec<u8>,
    /// Times that changes were sent since the last whole state.
    pub(crate) changes: u16,
}

/// Up to where the outputs of a stored actor were sent. One place for both
/// receivers would give each a part of every cycle, and neither all of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursors {
    replica: Clock,
    next_owner: Clock,
}

impl Stored {
    /// The portion that the next repetition sends to the replica of its view.
    pub(crate) fn for_replica(&mut self, at_once: usize, longest: usize) -> Portion {
        let portion = self.kept.portion(self.cursors.replica, at_once, longest);
        self.cursors.replica = portion.cursor;
        portion
    }

    /// The portion that the next repetition sends to the owner of the view after it.
    pub(crate) fn for_next_owner(&mut self, at_once: usize, longest: usize) -> Portion {
        let from = self.cursors.next_owner;
        let portion = self.kept.portion(from, at_once, longest);
        self.cursors.next_owner = portion.cursor;
        portion
    }
}

/// The live actor's share.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    pub(crate) replica: Option<RuntimeId>,
    pub(crate) kept: Kept,
    /// Packets from one state for the replica to the next; 0: each burst has one.
    pub(crate) every: u32,
    /// The state that a replica which gets one with each burst was sent last: the next
    /// one is said as changes of it.
    pub(crate) basis: Option<Basis>,
    /// Clock of the last state that was sent to the replica.
    pub(crate) told: Clock,
    /// Its digest and length, where the replica gets a state every so many packets.
    pub(crate) told_digest: Option<(u64, usize)>,
    /// Clock of the last one that the switch knows to be held.
    pub(crate) held: Clock,
    /// When a state is sent at the latest, where one is owed or not confirmed.
    pub(crate) due: Option<Time>,
    /// Times that the last state was sent again without a word of it: the wait doubles
    /// with each, so that a replica that is cut off finds no heap of them.
    pub(crate) again: u32,
    /// Packets up to here are applied without output: they were let out in an
    /// older view.
    pub(crate) silent: Clock,
    /// A function's state has changed since the replica was told.
    pub(crate) changed: bool,
    /// When the outputs were last sent again.
    pub(crate) said: Time,
    /// Up to where they were sent, where they are too long for one repetition.
    pub(crate) cursor: Clock,
    /// The view it resumed from after a failure.
    pub(crate) resumed: View,
    /// When the switch was last asked to repeat what is missing.
    pub(crate) asked: Option<Time>,
}

impl Keeper {
    /// Clock and digest of what the replica has, if it got all that it was sent.
    pub(crate) fn sent(&self) -> Option<(Clock, u64)> {
        match (&self.basis, self.told_digest) {
            (Some(basis), _) => Some((basis.clock, digest(&basis.state))),
            (None, Some((digest, _))) => Some((self.told, digest)),
            (None, None) => None,
        }
    }

    /// Octets of that state.
    pub(crate) fn sent_octets(&self) -> Option<usize> {
        let basis = self.basis.as_ref().map(|basis| basis.state.len());
        basis.or(self.told_digest.map(|(_, octets)| octets))
    }
}

/// A view that is open here and has no state yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) open: Open,
    pub(crate) source: RuntimeId,
    /// When the source is asked (again).
    pub(crate) due: Time,
    pub(crate) asked: bool,
}

/// The end of the live actor's view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closing {
    pub(crate) new: View,
    pub(crate) to: RuntimeId,
    pub(crate) mode: MoveMode,
    /// The new owner has asked for the state.
    pub(crate) pulled: bool,
}

/// The source's side of a reprocessing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copying {
    pub(crate) to: RuntimeId,
    /// Clock of the last change that the target knows.
    pub(crate) changed: Clock,
    /// A change happened that no copy was sent for yet.
    pub(crate) dirty: bool,
    /// The engine's phases of the flows after the last packet.
    pub(crate) phases: u64,
    /// It is given up then.
    pub(crate) until: Time,
}

/// The target's side of a reprocessing: the state is in the engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Early {
    pub(crate) from: RuntimeId,
    pub(crate) old: View,
    pub(crate) clock: Clock,
    pub(crate) until: Time,
}

/// Messages of a view that came before its `Open`.
#[derive(Clone, Debug)]
pub(crate) enum Ahead {
    State(Image),
    Copied {
        clock: Clock,
        changed: Clock,
        touched: Vec<u8>,
        outputs: Vec<Entry>,
    },
}

/// The unit is empty and the switch is asked to end it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    pub(crate) clock: Clock,
    pub(crate) due: Time,
    pub(crate) tries: u32,
}

/// Everything of a unit that a plain live actor does not need.
#[derive(Debug, Default)]
pub(crate) struct Cold {
    pub(crate) live: Keeper,
    pub(crate) stored: BTreeMap<View, Stored>,
    pub(crate) waiting: Option<Waiting>,
    pub(crate) closing: Option<Closing>,
    /// A view for which its owner has asked for the state, before the switch has closed
    /// this one.
    pub(crate) pulled: Option<(View, RuntimeId)>,
    pub(crate) copying: Option<Copying>,
    pub(crate) early: Option<Early>,
    /// With its sender, the view it is of and the one it is for, and when it
    /// is given up.
    pub(crate) ahead: Option<(RuntimeId, View, View, Ahead, Time)>,
    /// Outputs that came ahead of the state that they belong to.
    pub(crate) staged: Option<Staged>,
    /// A view that could not be taken, and why.
    pub(crate) refused: Option<(View, Refusal)>,
    pub(crate) ending: Option<Ending>,
    /// The runtime that the functions preferred, and when the switch was last asked for it.
    pub(crate) preferred: Option<(RuntimeId, Time)>,
    /// When the unit's timer goes off.
    pub(crate) timer: Option<Time>,
}

impl Cold {
    /// The highest view that is known here beside the record's.
    pub(crate) fn newest(&self) -> View {
        let stored = self.stored.last_key_value().map(|(view, _)| *view);
        let refused = self.refused.map_or(View::NONE, |(view, _)| view);
        let waiting = self.waiting.map(|waiting| waiting.open.view);
        stored.max(waiting).unwrap_or(View::NONE).max(refused)
    }

    /// True where nothing in it is of use: the unit gets by without it.
    pub(crate) fn is_idle(&self) -> bool {
        self.stored.is_empty()
            && self.waiting.is_none()
            && self.closing.is_none()
            && self.pulled.is_none()
            && self.copying.is_none()
            && self.early.is_none()
            && self.ahead.is_none()
            && self.staged.is_none()
            && self.refused.is_none()
            && self.ending.is_none()
            && self.preferred.is_none()
            && self.timer.is_none()
            && self.live.replica.is_none()
            && self.live.kept.is_empty()
            && self.live.asked.is_none()
            && self.live.due.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replica_and_next_owner_each_get_all_outputs() {
        let entry = |clock| Entry {
            clock: Clock(clock),
            parts: Vec::new(),
        };
        let mut stored = Stored {
            role: Role::Source,
            peer: Some(RuntimeId(2)),
            clock: Clock(10),
            state: None,
            kept: Kept::after((1..=10).map(entry).collect(), Clock::ZERO),
            said: Time(0),
            cursors: Cursors::default(),
        };
        // Seven of ten entries at once.
        let at_once = 7 * entry(1).wire_len();
        for is_last in [false, true, false, true] {
            for portion in [
                stored.for_next_owner(at_once, at_once),
                stored.for_replica(at_once, at_once),
            ] {
                assert_eq!(portion.last.is_some(), is_last);
            }
        }
    }
}
