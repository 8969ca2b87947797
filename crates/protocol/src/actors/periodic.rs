//! A state for the replica every so many packets, instead of one per burst
//! ([`crate::settings::Replication::Every`]).
//!
//! The owner sends outputs to the switch directly, and the state to the replica
//! every [`Open::every`] packets, when its view closes, and when it has owed one
//! for a while. The replica tells the switch which state it has; the switch keeps
//! the packets after that one. After a failure the replica is behind what was let
//! out: it applies those packets again without output, then the others with it.
//! States and outputs are the same because a packet brings its time with it and no
//! function of the chain takes what flows share.

use weir_packet::{Frame, PacketMemory, Time, frame_flags};

use super::cold::Keeper;
use super::table::{Hot, SILENT};
use super::{ActorCount, Actors};
use crate::ids::{Clock, RuntimeId, UnitId, View};
use crate::message::{Message, Open};
use crate::plant::Plant;

impl Keeper {
    /// The replica that gets each burst's entries and passes them on.
    pub(crate) fn passes_on(&self) -> Option<RuntimeId> {
        self.replica.filter(|_| self.every == 0)
    }

    /// True where the replica gets a state every so many packets.
    pub(crate) fn owes(&self) -> bool {
        self.every > 0 && self.replica.is_some()
    }
}

impl Actors {
    // ---- the owner's side

    /// Packets of the unit were applied: its replica is owed a state, now or
    /// soon.
    pub(super) fn owe(&mut self, now: Time, unit: UnitId) {
        let soon = now.plus(self.settings.repeat_after);
        let live = self.table.live(unit);
        let (Some(hot), Some(cold)) = (live, self.cold.get_mut(&unit)) else {
            return self.internal.note("entries of a unit that is not here");
        };
        let since = hot.clock.0.saturating_sub(cold.live.told.0);
        if since >= u64::from(cold.live.every) {
            self.counts.add(ActorCount::StateInTurn);
            self.send_state(now, unit);
        } else if cold.live.due.is_none() {
            cold.live.due = Some(soon);
            self.arm(unit, soon);
        }
    }

    /// The view closes: a state that is owed is sent.
    pub(super) fn send_owed(&mut self, now: Time, hot: Hot) {
        let cold = self.cold.get(&hot.unit);
        if cold.is_some_and(|cold| cold.live.owes() && cold.live.told < hot.clock) {
            self.counts.add(ActorCount::StateAtClose);
            self.send_state(now, hot.unit);
        }
    }

    /// A state is owed for long, or the switch has not confirmed the last one.
    pub(super) fn state_due(&mut self, now: Time, unit: UnitId) -> Option<Time> {
        let hot = self.table.live(unit);
        let keeper = &mut self.cold.get_mut(&unit)?.live;
        let due = keeper.due?;
        if due > now {
            return Some(due);
        }
        keeper.due = None;
        let (told, held) = (keeper.told, keeper.held);
        if keeper.replica.is_none() && keeper.silent > Clock::ZERO {
            return self.held_alone(now, hot?);
        }
        if !keeper.owes() || hot.is_none_or(|hot| hot.clock <= held) {
            return None;
        }
        let is_again = told > held;
        keeper.again = match is_again {
            true => keeper.again.saturating_add(1),
            false => 0,
        };
        self.counts.add(match is_again {
            true => ActorCount::StateAgain,
            false => ActorCount::StateInTime,
        });
        self.send_state(now, unit);
        self.cold.get(&unit)?.live.due
    }

    /// Without a replica the view can be settled as soon as its owner has applied again all
    /// that was let out: nothing else says so where no word is lost.
    fn held_alone(&mut self, now: Time, hot: Hot) -> Option<Time> {
        if hot.flags & SILENT == 0 {
            self.say(now, hot.unit, true);
            return None;
        }
        let due = now.plus(self.wait());
        self.cold.get_mut(&hot.unit)?.live.due = Some(due);
        Some(due)
    }

    /// The switch knows that the replica holds the state after `clock`.
    pub(super) fn state_stored(&mut self, now: Time, unit: UnitId, view: View, clock: Clock) {
        let soon = now.plus(self.settings.repeat_after);
        let live = self.table.live(unit).filter(|hot| hot.view == view);
        let (Some(hot), Some(cold)) = (live, self.cold.get_mut(&unit)) else {
            return self.counts.add(ActorCount::MessageStale);
        };
        if clock > cold.live.held {
            cold.live.held = clock;
            cold.live.again = 0;
        }
        if cold.live.held >= hot.clock {
            cold.live.due = None;
        } else if cold.live.held >= cold.live.told {
            cold.live.due = Some(soon);
            self.arm(unit, soon);
        }
    }

    // ---- after a failure

    /// A view begins with a state that is behind what was let out: the switch sends
    /// those packets again. Where outputs wait for the replica only a restart leaves
    /// one behind, and what it lacks is lost: the switch says so when it is asked.
    pub(super) fn apply_again(&mut self, now: Time, open: &Open, clock: Clock) {
        let unit = open.unit;
        if clock >= open.out {
            return;
        }
        if self.settings.plant == Some(Plant::NotAppliedAgain) {
            if let Some(hot) = self.table.live(unit) {
                let clock = open.out;
                self.table.set(Hot { clock, ..hot });
            }
            return;
        }
        self.counts.add(ActorCount::AppliesAgain);
        self.mark(unit, SILENT, 0);
        let due = now.plus(self.wait());
        if let Some(cold) = self.cold.get_mut(&unit) {
            // The packets are on their way; what is lost is asked for.
            cold.live.asked = Some(now);
            // Silent packets make no entries but change the state.
            cold.live.due = Some(due);
        }
        self.arm(unit, due);
    }

    /// An owner that has not applied all of them goes on in another view: the
    /// switch sends them to a new owner only.
    pub(super) fn ask_for_silent(&mut self, now: Time, unit: UnitId) {
        let live = self.table.live(unit);
        let (Some(hot), Some(cold)) = (live, self.cold.get_mut(&unit)) else {
            return;
        };
        if hot.flags & SILENT != 0 {
            cold.live.asked = None;
            self.ask_repeat(now, hot);
        }
    }

    /// The next packet of a unit that applies packets again.
    pub(super) fn silence(&mut self, memory: &PacketMemory, hot: &mut Hot, frame: &mut Frame) {
        let keeper = self.cold.get(&hot.unit).map(|cold| &cold.live);
        let (silent, every) = keeper.map_or((Clock::ZERO, 0), |k| (k.silent, k.every));
        let meta = memory.meta_mut(frame);
        if hot.clock <= silent && every == 0 && meta.flags & frame_flags::LOST != 0 {
            // Its entry goes the way of all entries: the replica follows clock by clock.
            // The gate is past it.
            self.counts.add(ActorCount::SwitchRestart);
        } else if hot.clock <= silent {
            self.counts.add(ActorCount::AppliedAgain);
            meta.flags |= frame_flags::NO_OUTPUT;
        }
        if hot.clock >= silent {
            hot.flags &= !SILENT;
        }
    }

    // ---- the replica's side

    /// Tells the switch up to where this replica holds the view's state.
    pub(super) fn tell_stored(&mut self, unit: UnitId, view: View) {
        let stored = self.cold.get(&unit).and_then(|cold| cold.stored.get(&view));
        if let Some(clock) = stored.map(|stored| stored.clock) {
            self.tell_switch(Message::Stored { unit, view, clock });
        }
    }
}
