//! Ends: an owner asks for ticks when something is due, and for the unit's end
//! when nothing is left of it. Only the switch grants an end.

use weir_packet::{FramePool, Time};

use super::cold::{Ending, Role};
use super::table::{ENDED, Hot};
use super::{ActorCount, Actors};
use crate::ids::{Clock, UnitId, View};
use crate::message::Message;
use crate::plant::Plant;

/// The end of an empty unit is asked for until the unit ends, has a state or
/// another owner. Each time waits twice as long as the last, up to this many
/// doublings: a switch that has not heard of it yet hears of it, and a unit
/// that never ends (what has no flow) costs a message now and then.
const DOUBLINGS: u32 = 8;
/// Units whose dues are asked for in one go.
const DUES: usize = 256;

impl Actors {
    /// Asks for a tick for each unit in which something is due.
    pub(super) fn ask_ticks(&mut self, now: Time) {
        if self.dues_at().is_none_or(|at| at > now) {
            return;
        }
        let mut due = core::mem::take(&mut self.due);
        due.clear();
        let then = now.max(self.packet_time);
        self.engine.due_units(then, DUES, &mut due);
        for &unit in &due {
            // The timers of a view that ends are the next owner's.
            let live = self.table.live(UnitId(unit));
            let Some(hot) = live.filter(|hot| !hot.is_closing()) else {
                // Its state may be here before its view.
                self.engine.not_asked(unit);
                continue;
            };
            self.counts.add(ActorCount::TickAsked);
            self.tell_switch(Message::Tick {
                unit: hot.unit,
                view: hot.view,
            });
        }
        if due.len() < DUES {
            self.dues_seen = self.packet_time;
        }
        // More may be due; else the engine says when.
        self.dues_from = match due.len() < DUES {
            true => now.plus(self.settings.repeat_after / 8 + 1),
            false => now,
        };
        self.due = due;
    }

    /// True where units may be due by the packets' time that no tick was asked
    /// for.
    pub fn has_dues(&self) -> bool {
        let next = self.engine.next_due();
        self.dues_seen < self.packet_time && next.is_some_and(|at| at <= self.packet_time)
    }

    /// When units are next asked for dues.
    pub(super) fn dues_at(&self) -> Option<Time> {
        let next = self.engine.next_due()?;
        // By the packets' own time, where that is ahead.
        let is_due = next <= self.packet_time;
        let next = match self.settings.plant {
            Some(Plant::DuesLate) => next.plus(500_000_000),
            _ if is_due => Time::ZERO,
            _ => next,
        };
        Some(next.max(self.dues_from))
    }

    /// After a packet that may have left nothing of the unit: asks for its
    /// end, at once or when no packet has come for a while.
    pub(super) fn look_for_end(&mut self, now: Time, unit: UnitId, at_once: bool) {
        let Some(hot) = self.table.live(unit) else {
            return;
        };
        if hot.is_closing() || self.engine.has_unit(unit.0) {
            return;
        }
        let due = now.plus(self.wait());
        let cold = self.cold.entry(unit).or_default();
        cold.ending = Some(Ending {
            clock: hot.clock,
            due,
            tries: 0,
        });
        // No end is granted that the replica does not know of.
        self.send_owed(now, hot);
        if at_once {
            self.ask_end(hot);
        }
        self.arm(unit, due);
    }

    fn ask_end(&mut self, hot: Hot) {
        self.counts.add(ActorCount::EndAsked);
        self.tell_switch(Message::End {
            unit: hot.unit,
            view: hot.view,
            clock: hot.clock,
        });
    }

    /// Asks for the end again, where the unit is still empty.
    pub(super) fn end_again(&mut self, now: Time, unit: UnitId) -> Option<Time> {
        let ending = self.cold.get(&unit)?.ending?;
        if ending.due > now {
            return Some(ending.due);
        }
        let hot = self.table.live(unit);
        let still = hot.filter(|hot| !hot.is_closing() && !self.engine.has_unit(unit.0));
        // Packets that leave no state may have come since.
        let again = still.map(|hot| match hot.clock == ending.clock {
            true => (hot, ending.tries),
            false => (hot, 0),
        });
        let again = again.map(|(hot, tries)| {
            self.counts.add(ActorCount::EndRepeated);
            self.ask_end(hot);
            let tries = (tries + 1).min(DOUBLINGS);
            Ending {
                due: now.plus(self.wait() << tries),
                tries,
                clock: hot.clock,
            }
        });
        self.cold.get_mut(&unit)?.ending = again;
        Some(again?.due)
    }

    /// The switch's word that views of the unit below `below` are of no use
    /// any more; with `ended` the unit is over.
    pub(super) fn forget(&mut self, pool: &mut FramePool, unit: UnitId, below: View, ended: bool) {
        let Some(hot) = self.table.of(unit) else {
            return self.fence(pool, unit, below, ended);
        };
        // With a view that is not below, another life has the unit's number.
        if ended && self.newest(&hot) < below {
            self.counts.add(ActorCount::Ended);
            self.drop_unit(pool, unit);
            return self.bury(unit, below);
        }
        let stale = hot.is_live() && hot.view < below;
        if stale {
            self.engine.forget_unit(unit.0);
            self.unmake_live(unit, below);
        } else if !hot.is_live() {
            self.unmake_live(unit, below);
        }
        let mut forgotten = u64::from(stale);
        let mut outputs = Vec::new();
        if let Some(cold) = self.cold.get_mut(&unit) {
            let newer = cold.stored.split_off(&below);
            forgotten += cold.stored.len() as u64;
            let older = core::mem::replace(&mut cold.stored, newer);
            outputs.extend(older.into_values().map(|stored| stored.kept));
            if stale {
                outputs.push(core::mem::take(&mut cold.live).kept);
                cold.closing = None;
                cold.pulled = None;
                cold.copying = None;
                cold.ending = None;
            }
            if cold.waiting.is_some_and(|w| w.open.view < below) {
                cold.waiting = None;
            }
            if cold.refused.is_some_and(|(view, _)| view < below) {
                cold.refused = None;
            }
            if cold.ahead.as_ref().is_some_and(|ahead| ahead.2 < below) {
                cold.ahead = None;
            }
            if cold
                .staged
                .as_ref()
                .is_some_and(|staged| staged.view() < below)
            {
                cold.staged = None;
            }
            // Its view is over, and who owns the unit now does not copy.
            if let Some(early) = cold.early
                && early.old < below
                && cold.waiting.is_none()
            {
                cold.early = None;
                self.engine.forget_unit(unit.0);
            }
        }
        self.doubt_ports(unit, &outputs, |_| true);
        self.counts.add_many(ActorCount::Forgotten, forgotten);
        let dropped = self.hold.drop_below(pool, unit, below);
        self.counts.add_many(ActorCount::HoldDropped, dropped);
        self.tidy(unit);
    }

    /// The same for a unit of which nothing is here: drops what came early, and
    /// notes in the unit's place that views below `below` are stale. An entry of
    /// such a view may still be on its way, of an owner that was replaced; without
    /// the note it would begin a copy of which no one speaks again.
    ///
    /// The note needs no memory of its own and no end: it is the place's record
    /// until another unit takes the place, whose views are higher.
    fn fence(&mut self, pool: &mut FramePool, unit: UnitId, below: View, ended: bool) {
        if let Some(cold) = self.cold.remove(&unit)
            && let Some(at) = cold.timer
        {
            self.timers.remove(&(at, unit));
        }
        let dropped = self.hold.drop_below(pool, unit, below);
        self.counts.add_many(ActorCount::HoldDropped, dropped);
        if !ended {
            // `below` is a view of the unit: what has the place with a lower one
            // is an earlier life.
            if self.claim(pool, unit, below) {
                self.unmake_live(unit, below);
            }
            return;
        }
        // `below` is no view of the unit, and may be above those of another life
        // that has the place.
        let Some(there) = self.table.at(unit) else {
            return;
        };
        if !there.is_live() && !self.cold.contains_key(&there.unit) {
            self.table.set(Hot {
                unit,
                view: there.view,
                flags: ENDED,
                clock: Clock::ZERO,
                limit: Clock(below.0),
            });
        }
    }

    /// Answers the switch that older views are forgotten, where it can't know.
    pub(super) fn forgotten(&mut self, unit: UnitId, below: View) {
        if self.settings.keep_outputs {
            self.tell_switch(Message::Forgotten { unit, below });
        }
    }

    /// Notes that a unit is over. The numbers of its own views stay what they
    /// were: another life in its place may have begun before the switch said
    /// this.
    fn bury(&mut self, unit: UnitId, below: View) {
        if let Some(hot) = self.table.of(unit) {
            self.table.set(Hot {
                flags: ENDED,
                limit: Clock(below.0),
                ..hot
            });
        }
    }

    /// Bytes of all actors that are kept as such.
    pub(super) fn stored_bytes(&self) -> (u64, u64, u64) {
        let (mut actors, mut replicas, mut bytes) = (0, 0, 0);
        for stored in self.cold.values().flat_map(|cold| cold.stored.values()) {
            actors += 1;
            replicas += u64::from(stored.role == Role::Replica);
            bytes += stored.state.as_ref().map_or(0, |s| s.len() as u64) + stored.kept.bytes();
        }
        (actors, replicas, bytes)
    }
}
