//! Copies are compared with what their owners sent, as an operator asks (`weir verify`).
//!
//! The owner names a unit's state by its digest, behind the state itself on the same stream, so that
//! a copy that has all that was sent is asked about the clock that it is at. Where it differs all the
//! same, the owner sends it whole.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;
use weir_packet::Time;

use super::cold::Role;
use super::{ActorCount, Actors};
use crate::ids::{Clock, RuntimeId, UnitId, View};
use crate::message::{Comparison, Message};

/// A comparison of all copies of the units of a runtime, in numbers of units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Units that are not looked at yet.
    pub left: u64,
    /// Copies that were asked about.
    pub asked: u64,
    /// Of these: the copy is what it was sent.
    pub equal: u64,
    /// It is something else, and was sent whole once more.
    pub differs: u64,
    /// It is of another clock, so that it could not be compared: more was on its way.
    pub behind: u64,
    /// The asked one has no copy of this view.
    pub missing: u64,
    /// Units without a copy, or of which nothing was sent yet.
    pub skipped: u64,
}

impl Compared {
    /// Copies that have not answered.
    pub fn unanswered(&self) -> u64 {
        let answered = self.equal + self.differs + self.behind + self.missing;
        self.asked.saturating_sub(answered)
    }
}

/// The digest of a unit's exported state.
pub(super) fn digest(state: &[u8]) -> u64 {
    // Not against forgers: links have a key of their own.
    let mut hasher = SipHasher13::new();
    hasher.write(state);
    hasher.finish()
}

impl Actors {
    /// Begins to compare the copies of all units that are owned here. What one before has not yet
    /// looked at is given up, and its answers no longer count.
    pub fn begin_comparison(&mut self) {
        let owned = self.table.units().filter(|hot| hot.is_live());
        self.to_compare = owned.map(|hot| hot.unit).collect();
        self.compared = Compared::default();
        self.comparison = self.comparison.wrapping_add(1);
    }

    /// The comparison as it stands.
    pub fn compared(&self) -> Compared {
        Compared {
            left: self.to_compare.len() as u64,
            ..self.compared
        }
    }

    /// Asks about the copies of up to so many more units; true where some are left.
    pub fn compare_some(&mut self, most: usize) -> bool {
        let from = self.to_compare.len().saturating_sub(most);
        for unit in self.to_compare.split_off(from) {
            self.compare(unit);
        }
        !self.to_compare.is_empty()
    }

    fn compare(&mut self, unit: UnitId) {
        let hot = self.table.live(unit);
        let cold = self.cold.get(&unit);
        let sent = hot.zip(cold).and_then(|(hot, cold)| {
            let replica = cold.live.replica?;
            let (clock, digest) = cold.live.sent()?;
            Some((replica, hot.view, clock, digest))
        });
        let Some((replica, view, clock, digest)) = sent else {
            self.compared.skipped += 1;
            return self.counts.add(ActorCount::CompareSkipped);
        };
        self.compared.asked += 1;
        self.counts.add(ActorCount::CompareAsked);
        let question = Message::Compare {
            unit,
            view,
            clock,
            digest,
            round: self.comparison,
        };
        self.tell_runtime(replica, question);
    }

    /// An owner asks about the copy that it feeds.
    pub(super) fn compare_copy(
        &mut self,
        from: RuntimeId,
        (unit, view): (UnitId, View),
        (clock, wanted): (Clock, u64),
        round: u32,
    ) {
        let stored = self.cold.get(&unit).and_then(|c| c.stored.get(&view));
        let copy = stored.filter(|its| its.role == Role::Replica && its.peer == Some(from));
        let found = match copy {
            None => {
                // Of a view that is over here, or from one who feeds no copy.
                self.counts.add(ActorCount::MessageStale);
                Comparison::Missing
            }
            Some(copy) if copy.clock != clock => Comparison::Behind,
            Some(copy) => match copy.state.as_deref().map(digest) == Some(wanted) {
                true => Comparison::Equal,
                false => Comparison::Differs,
            },
        };
        let answer = Message::Compared {
            unit,
            view,
            round,
            found,
        };
        self.tell_runtime(from, answer);
    }

    /// What the replica found. Of another view, or from another runtime, it says nothing.
    pub(super) fn compared_at(
        &mut self,
        now: Time,
        from: RuntimeId,
        (unit, view): (UnitId, View),
        (round, found): (u32, Comparison),
    ) {
        let is_current = self.table.live(unit).is_some_and(|hot| hot.view == view);
        let replica = self.cold.get(&unit).and_then(|cold| cold.live.replica);
        if !is_current || replica != Some(from) || round != self.comparison {
            return self.counts.add(ActorCount::MessageStale);
        }
        if self.compared.unanswered() == 0 {
            return self.counts.add(ActorCount::MessageRefused);
        }
        let (field, count) = match found {
            Comparison::Equal => (&mut self.compared.equal, ActorCount::CompareEqual),
            Comparison::Differs => (&mut self.compared.differs, ActorCount::CompareDiffers),
            Comparison::Behind => (&mut self.compared.behind, ActorCount::CompareBehind),
            Comparison::Missing => (&mut self.compared.missing, ActorCount::CompareMissing),
        };
        *field += 1;
        self.counts.add(count);
        if found == Comparison::Differs {
            self.send_state(now, unit);
        }
    }
}
