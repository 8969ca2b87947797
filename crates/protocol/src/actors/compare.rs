//! Copies are compared with what their owners sent, as an operator asks (`weir verify`).
//!
//! The owner names a unit's state by its digest, behind the state itself on the same stream, so that
//! a copy that has all that was sent is asked about the clock that it is at. A copy that is not what
//! was sent, or is not there twice in a row, is sent whole. Few questions are under way at a time:
//! packets and their copies don't wait behind them.

use std::collections::BTreeMap;
use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;
use weir_packet::Time;

use super::cold::Role;
use super::{ActorCount, Actors};
use crate::ids::{Clock, RuntimeId, UnitId, View};
use crate::message::{Comparison, Message};

/// Questions under way at a time, and octets of the states that they are about: a replica digests
/// all that come at once. One that is longer goes alone.
const UNDER_WAY: usize = 64;
const OCTETS_UNDER_WAY: usize = 256 << 10;
/// Units that are looked at in one go, whether there is something to ask about them or not.
const AT_ONCE: usize = 256;
/// Nanoseconds that what a copy lacks has to come, before it is asked about again.
const AGAIN_AFTER: u64 = 50_000_000;
/// Nanoseconds after which an answer is waited for no more.
const PATIENCE: u64 = 2_000_000_000;

/// A comparison of all copies of the units of a runtime, in numbers of units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Number of the comparison, from 1; of several chains their sum.
    pub round: u32,
    /// Units that are not done: not asked about yet, asked about, or to be asked about again.
    pub left: u64,
    /// The copy is what it was sent.
    pub equal: u64,
    /// It is something else, and is sent whole once more.
    pub differs: u64,
    /// Twice it was of another clock: it is sent whole.
    pub behind: u64,
    /// Twice the asked one had no copy of this view: it is sent whole.
    pub missing: u64,
    /// The unit has ended meanwhile, or has another owner or replica.
    pub over: u64,
    /// No answer came in time.
    pub unanswered: u64,
    /// Units without a copy, or of which nothing was sent that could be compared.
    pub skipped: u64,
}

impl Compared {
    /// Adds that of another chain.
    pub fn add(&mut self, other: &Compared) {
        self.round = self.round.wrapping_add(other.round);
        self.left += other.left;
        self.equal += other.equal;
        self.differs += other.differs;
        self.behind += other.behind;
        self.missing += other.missing;
        self.over += other.over;
        self.unanswered += other.unanswered;
        self.skipped += other.skipped;
    }
}

/// The comparison that is under way, or was the last one.
#[derive(Debug, Default)]
pub(super) struct Comparing {
    done: Compared,
    /// Units to ask about.
    left: Vec<UnitId>,
    /// Those whose copies were not there, or of another clock.
    again: Vec<UnitId>,
    /// When the last one of these was found.
    found_at: Time,
    /// The ones of `again` are asked about.
    is_second: bool,
    asked: BTreeMap<UnitId, Asked>,
}

/// A question under way.
#[derive(Clone, Copy, Debug)]
struct Asked {
    view: View,
    replica: RuntimeId,
    octets: usize,
    at: Time,
}

/// The digest of a unit's exported state.
pub(super) fn digest(state: &[u8]) -> u64 {
    // Not against forgers: links have a key of their own.
    let mut hasher = SipHasher13::new();
    hasher.write(state);
    hasher.finish()
}

impl Comparing {
    fn is_over(&self) -> bool {
        self.left.is_empty() && self.again.is_empty() && self.asked.is_empty()
    }

    fn has_room(&self, octets: usize) -> bool {
        let under_way: usize = self.asked.values().map(|asked| asked.octets).sum();
        let fits = under_way + octets <= OCTETS_UNDER_WAY;
        self.asked.len() < UNDER_WAY && (fits || self.asked.is_empty())
    }
}

impl Actors {
    /// Begins to compare the copies of all units that are owned here; one that is under way goes on.
    pub fn begin_comparison(&mut self) {
        if !self.comparing.is_over() {
            return;
        }
        let owned = self.table.units().filter(|hot| hot.is_live());
        self.comparing = Comparing {
            done: Compared {
                round: self.comparing.done.round.wrapping_add(1),
                ..Compared::default()
            },
            left: owned.map(|hot| hot.unit).collect(),
            ..Comparing::default()
        };
    }

    /// The comparison as it stands.
    pub fn compared(&self) -> Compared {
        let Comparing {
            done,
            left,
            again,
            asked,
            ..
        } = &self.comparing;
        Compared {
            left: (left.len() + again.len() + asked.len()) as u64,
            ..*done
        }
    }

    /// Gives up what is not compared yet: the runtime is about to end.
    pub fn end_comparison(&mut self) {
        self.comparing.left = Vec::new();
        self.comparing.again = Vec::new();
        self.comparing.asked.clear();
    }

    /// Asks about more copies, as far as answers to the questions before have come; false where
    /// nothing was asked.
    pub fn compare_some(&mut self, now: Time) -> bool {
        if self.comparing.is_over() {
            return false;
        }
        self.settle_questions(now);
        let Comparing {
            left,
            again,
            found_at,
            is_second,
            asked,
            ..
        } = &mut self.comparing;
        let is_time = now.0.saturating_sub(found_at.0) >= AGAIN_AFTER;
        if left.is_empty() && asked.is_empty() && is_time {
            *is_second = true;
            core::mem::swap(left, again);
        }
        for done in 0..AT_ONCE {
            let Some(unit) = self.comparing.left.pop() else {
                return done > 0;
            };
            if !self.compare(now, unit) {
                self.comparing.left.push(unit);
                return done > 0;
            }
        }
        true
    }

    /// Strikes questions off whose answers come no more, or are of no use.
    fn settle_questions(&mut self, now: Time) {
        let (table, cold) = (&self.table, &self.cold);
        let done = &mut self.comparing.done;
        self.comparing.asked.retain(|unit, asked| {
            let is_current = table.live(*unit).is_some_and(|hot| hot.view == asked.view);
            let replica = cold.get(unit).and_then(|cold| cold.live.replica);
            let counter = match is_current && replica == Some(asked.replica) {
                false => &mut done.over,
                true if now.0.saturating_sub(asked.at.0) > PATIENCE => &mut done.unanswered,
                true => return true,
            };
            *counter += 1;
            false
        });
    }

    /// Asks about a unit's copy; false where it has to wait.
    fn compare(&mut self, now: Time, unit: UnitId) -> bool {
        let hot = self.table.live(unit);
        let Some((hot, cold)) = hot.zip(self.cold.get(&unit)) else {
            // It ended, or went, before it was asked about.
            self.comparing.done.over += u64::from(hot.is_none());
            self.comparing.done.skipped += u64::from(hot.is_some());
            return true;
        };
        let Some((replica, octets)) = cold.live.replica.zip(cold.live.sent_octets()) else {
            self.comparing.done.skipped += 1;
            self.counts.add(ActorCount::CompareSkipped);
            return true;
        };
        if !self.comparing.has_room(octets) {
            return false;
        }
        let Some((clock, digest)) = cold.live.sent() else {
            self.internal.note("a state was sent, and has no digest");
            return true;
        };
        let asked = Asked {
            view: hot.view,
            replica,
            octets,
            at: now,
        };
        self.comparing.asked.insert(unit, asked);
        self.counts.add(ActorCount::CompareAsked);
        let question = Message::Compare {
            unit,
            view: hot.view,
            clock,
            digest,
            round: self.comparing.done.round,
        };
        self.tell_runtime(replica, question);
        true
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

    /// Counts a replica's answer. One that no question of this comparison is under way for is stale.
    pub(super) fn compared_at(
        &mut self,
        now: Time,
        from: RuntimeId,
        (unit, view): (UnitId, View),
        (round, found): (u32, Comparison),
    ) {
        let asked = self.comparing.asked.get(&unit);
        let is_asked = asked.is_some_and(|asked| (asked.view, asked.replica) == (view, from));
        if !is_asked || round != self.comparing.done.round {
            return self.counts.add(ActorCount::MessageStale);
        }
        self.comparing.asked.remove(&unit);
        let done = &mut self.comparing.done;
        let (field, count) = match found {
            Comparison::Equal => (&mut done.equal, ActorCount::CompareEqual),
            Comparison::Differs => (&mut done.differs, ActorCount::CompareDiffers),
            // The missing updates may still be on their way: the unit is asked about again.
            Comparison::Behind | Comparison::Missing if !self.comparing.is_second => {
                self.comparing.found_at = now;
                return self.comparing.again.push(unit);
            }
            Comparison::Behind => (&mut done.behind, ActorCount::CompareBehind),
            Comparison::Missing => (&mut done.missing, ActorCount::CompareMissing),
        };
        *field += 1;
        self.counts.add(count);
        if found != Comparison::Equal {
            self.send_state(now, unit);
        }
    }
}
