//! Failures: runtimes that are suspected, views that are refused, units
//! that are lost.

use std::collections::BTreeSet;

use weir_packet::{FramePool, Time};

use super::runtimes::{Slot, Standing};
use super::units::{ANY, REPLICA, Unit, mark};
use super::views::Pending;
use super::{Switch, SwitchCount, SwitchDrop, moves};
use crate::ids::{Clock, RuntimeId, UnitId, View};
use crate::journal::Done;
use crate::message::{Message, MoveMode, Origin, Refusal};
use crate::plant::Plant;

/// Places looked at per tick.
const STRIDE: u32 = 4_096;

/// A walk over all units, a part at a time: after a runtime has died, left,
/// begun to drain or come. While it is on, a unit is looked at before its next
/// packet.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// Next place.
    at: u32,
    /// Places left.
    left: u32,
    /// The unit at the next place waits until the window opens.
    waits: bool,
    /// Views that fill the window were looked at, since the last start.
    window_seen: bool,
    /// Units were passed over that wait for a runtime, since the last start.
    awaits_heir: bool,
}

impl Sweep {
    /// Starts again, from the first place: what was looked at is looked at once
    /// more, and units that come meanwhile, behind the last place, don't push
    /// others out of the walk.
    pub(super) fn start(&mut self, places: u32) {
        self.at = 0;
        self.left = places;
        self.waits = false;
        self.window_seen = false;
        self.awaits_heir = false;
    }

    /// A unit waits for a runtime, whose coming starts the walk again.
    pub(super) fn await_heir(&mut self) {
        self.awaits_heir = true;
    }

    /// True where a unit may wait for a runtime.
    pub(super) const fn awaits_heir(&self) -> bool {
        self.awaits_heir
    }

    /// True where a unit has to be looked at before its next packet.
    #[inline]
    pub(super) const fn is_unfinished(&self) -> bool {
        self.left > 0 || self.awaits_heir
    }

    #[inline]
    pub(super) const fn is_on(&self) -> bool {
        self.left > 0
    }

    /// True where it has something to do before the window opens.
    pub(super) const fn goes_on(&self) -> bool {
        self.left > 0 && !self.waits
    }
}

impl Switch {
    /// A runtime is dead, or thought so; it is not used again under this id.
    pub fn suspect(&mut self, now: Time, pool: &mut FramePool, runtime: RuntimeId) {
        let Some(slot) = self.runtimes.find(runtime) else {
            return;
        };
        if !self.runtimes.is_here(slot) {
            return;
        }
        self.counts.add(SwitchCount::Suspected);
        self.runtimes.stand(slot, Standing::Dead);
        // A switch after this one must not go on from what it has: units that
        // it knows may have ended elsewhere by then. The others remember it, and
        // hear of it before they hear of those ends.
        self.runtimes.fence(runtime);
        let here: Vec<Slot> = self.runtimes.here().collect();
        for other in here {
            self.tell(other, Message::Suspect { runtime });
        }
        if let Some(queue) = self.outbox.queues.get_mut(usize::from(slot) - 1) {
            pool.give_all(&mut queue.frames);
        }
        if let Some(runtime) = self.runtimes.get_mut(slot) {
            pool.give_all(&mut runtime.partial);
        }
        self.retire(slot);
        self.tell_cluster();
        self.sweep.start(self.units.top());
        if self.recovery.is_some() {
            self.will_not_answer(now, pool, slot);
        } else {
            self.react_in_window(now, pool);
            self.react_on_the_way(now, pool);
        }
        self.advance(now, pool);
        self.blocks_may_be_free();
    }

    /// Replaces the unsettled views that can't be settled any more. They have
    /// their places in the window: the sweep, which waits for a free one,
    /// would wait for them.
    fn react_in_window(&mut self, now: Time, pool: &mut FramePool) {
        let unsettled = self.timers.views.iter();
        let places: Vec<u32> = unsettled
            .filter(|(_, id, view)| {
                let unit = self.units.find(*id).map(|place| self.units.at(place));
                let fills = |unit: &Unit| unit.pending != 0 || unit.has(mark::PREPARING);
                unit.is_some_and(|unit| fills(unit) && unit.view() == *view)
            })
            .map(|(_, id, _)| id.slot())
            .collect();
        self.react_at(now, pool, &places);
    }

    /// Opens views of units with packets on their way first: a host waits for the answer.
    fn react_on_the_way(&mut self, now: Time, pool: &mut FramePool) {
        let mut seen = BTreeSet::new();
        let all = self.kept.on_their_way();
        let places: Vec<u32> = all.filter(|place| seen.insert(*place)).collect();
        self.react_at(now, pool, &places);
    }

    fn react_at(&mut self, now: Time, pool: &mut FramePool, places: &[u32]) {
        for place in places {
            if self.needs_view(*place) {
                self.react(now, pool, *place);
            }
        }
    }

    /// A runtime is gone: its blocks are free when nothing of it is left.
    pub(super) fn retire(&mut self, slot: Slot) {
        self.forget_none_at(slot);
        let era = self.kept.end_era();
        if let Some(runtime) = self.runtimes.get_mut(slot) {
            runtime.era = era;
        }
        let queue = self.outbox.queues.get_mut(usize::from(slot) - 1);
        if let Some(queue) = queue.filter(|queue| queue.frames.is_empty()) {
            queue.frames = Vec::new();
        }
    }

    /// True where a unit can't go on in its view: its owner or replica is
    /// gone, the source of an unsettled view, or the switch that opened it.
    pub(super) fn needs_view(&self, place: u32) -> bool {
        let unit = self.units.at(place);
        unit.id != 0
            && unit.owner != 0
            && (self.runtimes.is_gone(unit.owner)
                || self.runtimes.is_gone(unit.replica)
                || unit.view().generation() != self.settings.generation
                || self
                    .pendings
                    .get(unit.pending)
                    .is_some_and(|p| self.runtimes.is_gone(self.source_of(p))))
    }

    /// The other member that the owner of an unsettled view gets its state from; 0 where
    /// it has the state.
    pub(super) fn source_of(&self, pending: &Pending) -> Slot {
        match pending.origin {
            Origin::Planned { .. } => pending.old_owner,
            Origin::Resumed { source } => {
                let slot = self.runtimes.find(source).unwrap_or(0);
                if self.runtimes.is_logger(slot) {
                    slot
                } else {
                    0
                }
            }
            Origin::Nothing { .. } => 0,
        }
    }

    /// Opens the view that a unit needs after a failure, or gives it up.
    pub(super) fn react(&mut self, now: Time, pool: &mut FramePool, place: u32) {
        if !self.has_views_but(0) {
            return self.lose(now, pool, place);
        }
        let unit = *self.units.at(place);
        let is_here = |slot| self.runtimes.is_here(slot);
        if let Some(pending) = self.pendings.get_mut(unit.pending)
            && pending.planned
            && !self.settings.acknowledge
            && self.settings.plant != Some(Plant::SourceNotWaitedFor)
            && unit.out < pending.base.0
            && is_here(pending.old_owner)
        {
            // The source has not kept what it put out, and is here: it goes on when
            // all of that is.
            pending.refused = true;
            return;
        }
        let settled = match self.pendings.get(unit.pending) {
            Some(p) if p.old != View::NONE => (p.old, p.old_owner, p.old_replica),
            None if unit.fresh == 0 => (unit.view(), unit.owner, unit.replica),
            _ if self.settings.plant == Some(Plant::FirstLost) => {
                return self.lose(now, pool, place);
            }
            // Nothing of the first view was let out, or all of its packets are
            // here: nothing is lost with it.
            _ if self.kept.copies() || unit.sent == unit.out => {
                return self.begin_again(now, pool, place, 0);
            }
            _ => return self.lose(now, pool, place),
        };
        let (_, owner, replica) = settled;
        let is_planted = self.settings.plant == Some(Plant::HoldersIgnored) && unit.pending != 0;
        if is_planted {
            self.lose(now, pool, place);
        } else if self.runtimes.is_here(owner) {
            self.counts
                .add(if self.pendings.get(unit.pending).is_none() {
                    SwitchCount::ReplicaChanged
                } else {
                    SwitchCount::ResumedAtOwner
                });
            self.open_resumed(now, pool, place, owner, settled);
        } else if self.runtimes.is_here(replica) {
            self.counts.add(SwitchCount::ResumedAtReplica);
            self.open_resumed(now, pool, place, replica, settled);
        } else {
            self.lose(now, pool, place);
        }
    }

    /// Opens a first view again, elsewhere than at `not` if that is possible.
    fn begin_again(&mut self, now: Time, pool: &mut FramePool, place: u32, not: Slot) {
        let unit = *self.units.at(place);
        let given_up = [unit.owner, unit.replica];
        let Some(owner) = self.dispatch_or_drain(unit.id, not) else {
            if self.settings.plant == Some(Plant::FirstNotAwaited) {
                return self.lose(now, pool, place);
            }
            // Nothing is lost yet. Packets are dropped until a runtime comes.
            self.sweep.await_heir();
            return self.counts.add(SwitchCount::FirstAwaits);
        };
        self.take_pending(place);
        self.counts.add(SwitchCount::FirstOpenedAgain);
        let after_loss = unit.fresh & weir_packet::frame_flags::AFTER_LOSS != 0;
        self.begin_first(now, place, owner, after_loss);
        let view = self.units.at(place).view();
        // The owner as well, where it is the same again: it put the actor of the view
        // that was given up aside.
        for slot in given_up {
            if slot != 0 {
                self.forget(now, slot, unit.id(), view, false);
            }
        }
        let since = self.kept.since(self.units.at(place));
        self.send_again(now, pool, place, Clock(since));
    }

    /// All who had the unit's state are gone. Its numbered packets are
    /// dropped; the next one starts from no state.
    pub(super) fn lose(&mut self, now: Time, pool: &mut FramePool, place: u32) {
        self.stop_preparing(place);
        let mut told = vec![];
        let unit = *self.units.at(place);
        told.extend([unit.owner, unit.replica]);
        if let Some(pending) = self.take_pending(place) {
            told.extend(pending.others);
            told.extend([pending.old_owner, pending.old_replica]);
        }
        told.extend(self.leftovers.take(unit.id()));
        self.set_holders(place, 0, 0);
        self.ends_said.remove(&place);
        self.counts.add(SwitchCount::UnitLost);
        self.outbox.journal.note(Done::OwnerLost {
            unit: unit.id(),
            first: Clock(unit.out + 1),
            last: Clock(unit.sent),
        });
        let ticks = u64::from(unit.tick > unit.out);
        let packets = (unit.sent - unit.out).saturating_sub(ticks);
        let reason = match self.settings.plant {
            Some(Plant::LossMisnamed) => SwitchDrop::Functions,
            _ => SwitchDrop::OwnerLost,
        };
        self.drops.add_many(reason, packets);
        self.packets.flying = self.packets.flying.saturating_sub(packets);
        let memory = pool.memory().clone();
        for mut parked in self.kept.take_all_parked(&unit) {
            self.free_unheard(parked.from, &memory, &parked.frames);
            pool.give_all(&mut parked.frames);
        }
        let record = self.units.at_mut(place);
        record.out = record.sent;
        record.fresh = 0;
        record.wanted = 0;
        record.tries = 0;
        record.marks |= mark::LOST;
        let sent = record.sent;
        self.kept.release(record, sent, false, pool);
        self.kept.state_held(place, u64::MAX, pool);
        if self.units.at(place).has(mark::LEAVING) {
            self.let_names_go(place);
        }
        self.mark_orphan(now, place);
        told.sort_unstable();
        told.dedup();
        for slot in told {
            self.forget(now, slot, unit.id(), unit.view().next(), false);
        }
    }

    /// The owner of the current view can't take it: its failure, without
    /// suspicion.
    pub(super) fn refused(&mut self, now: Time, pool: &mut FramePool, place: u32, why: Refusal) {
        let unit = self.units.at_mut(place);
        if why == Refusal::TooLong && unit.replica != 0 {
            unit.marks |= mark::LONG;
            return self.react(now, pool, place);
        }
        unit.tries = unit.tries.saturating_add(1);
        let unit = *unit;
        self.counts.add(SwitchCount::ViewRefused);
        let Some(pending) = self.pendings.get_mut(unit.pending) else {
            if unit.fresh != 0 {
                self.first_refused(now, pool, place);
            }
            return;
        };
        if pending.old == View::NONE {
            self.first_refused(now, pool, place);
        } else if pending.planned && !self.settings.acknowledge && unit.out < pending.base.0 {
            // The source has not kept what it put out: it goes on when all of
            // that is here.
            pending.refused = true;
        } else {
            self.go_back(now, pool, place, why);
        }
    }

    fn first_refused(&mut self, now: Time, pool: &mut FramePool, place: u32) {
        let unit = *self.units.at(place);
        if !self.has_views_but(0) {
            return self.lose(now, pool, place);
        }
        let can_repeat = self.kept.copies() || unit.sent == unit.out;
        if unit.tries < moves::TRIES && can_repeat {
            self.begin_again(now, pool, place, unit.owner);
        } else {
            self.lose(now, pool, place);
        }
    }

    /// Back to a holder of the settled view: not the one that has refused to
    /// resume from it.
    pub(super) fn go_back(&mut self, now: Time, pool: &mut FramePool, place: u32, why: Refusal) {
        let unit = *self.units.at(place);
        let Some(pending) = self.pendings.get(unit.pending) else {
            return self.internal.note("a view is given up that is settled");
        };
        if !self.has_views_but(0) {
            return self.lose(now, pool, place);
        }
        let (old, mut owner, mut replica) = (pending.old, pending.old_owner, pending.old_replica);
        if !pending.planned {
            if unit.owner == owner {
                owner = 0;
            }
            if unit.owner == replica {
                replica = 0;
            }
            // Another runtime may take what a logger has.
            let source = self.source_of(pending);
            if source != 0 && (why == Refusal::NoState || unit.tries >= moves::TRIES) {
                owner = if owner == source { 0 } else { owner };
                replica = if replica == source { 0 } else { replica };
            }
        }
        let (holder, count) = if self.runtimes.is_here(owner) {
            (owner, SwitchCount::ResumedAtOwner)
        } else if self.runtimes.is_here(replica) {
            (replica, SwitchCount::ResumedAtReplica)
        } else {
            return self.lose(now, pool, place);
        };
        self.counts.add(count);
        self.open_resumed(now, pool, place, holder, (old, owner, replica));
    }

    /// Walks on over the units.
    pub(super) fn sweep_on(&mut self, now: Time, pool: &mut FramePool) {
        if self.sweep.waits {
            if !self.window_is_open() {
                return;
            }
            self.sweep.waits = false;
        }
        for _ in 0..STRIDE {
            if !self.sweep.is_on() || self.recovery.is_some() {
                return;
            }
            let place = self.sweep.at;
            if self.needs_view(place) {
                if self.needs_room(place) && !self.window_is_open() {
                    return self.sweep_waits(now, pool);
                }
                self.react(now, pool, place);
            } else {
                let unit = *self.units.at(place);
                if unit.id != 0 && unit.owner != 0 && unit.wanted == 0 {
                    if self.runtimes.is_draining(unit.owner) {
                        self.want(place, ANY, self.moves.drain_mode);
                    } else if self.lacks_replica(&unit) {
                        self.want(place, REPLICA, MoveMode::Push);
                    }
                }
            }
            self.sweep.left -= 1;
            self.sweep.at = place + 1;
        }
    }

    /// True where the view that a unit needs counts in the window: not one in the place of
    /// another, nor a first one.
    fn needs_room(&self, place: u32) -> bool {
        let unit = self.units.at(place);
        let is_here = |slot| self.runtimes.is_here(slot);
        unit.pending == 0 && unit.fresh == 0 && (is_here(unit.owner) || is_here(unit.replica))
    }

    /// The walk stays where it is until the window opens: to walk on in a full one, and
    /// again from the first place, costs the square of the units. Views that fill the
    /// window may wait for a walk themselves.
    fn sweep_waits(&mut self, now: Time, pool: &mut FramePool) {
        self.sweep.waits = true;
        if !core::mem::replace(&mut self.sweep.window_seen, true) {
            self.react_in_window(now, pool);
        }
    }

    /// A unit is over: its names, its record.
    pub(super) fn end_unit(&mut self, now: Time, pool: &mut FramePool, id: UnitId) {
        let place = id.slot();
        self.stop_preparing(place);
        let pending = self.take_pending(place);
        let unit = *self.units.at(place);
        let mut told = vec![unit.owner, unit.replica];
        if let Some(pending) = pending {
            told.extend(pending.others);
        }
        self.set_holders(place, 0, 0);
        let record = self.units.at_mut(place);
        let sent = record.sent;
        self.kept.release(record, sent, false, pool);
        self.kept.state_held(place, u64::MAX, pool);
        *record = super::units::Unit::default();
        self.forget_flowlet(place);
        let mut freed = Vec::new();
        self.classifier.remove_unit(id.0, &mut freed);
        self.none_leave(id);
        self.leases_gone(id);
        self.names_gone(&freed);
        let below = self.next_view;
        for slot in told {
            if slot != 0 {
                self.forget(now, slot, id, below, true);
            }
        }
    }

    /// A runtime asks whether its unit may end (design §6).
    pub(super) fn end_asked(&mut self, now: Time, pool: &mut FramePool, place: u32, clock: Clock) {
        let unit = self.units.at(place);
        let id = unit.id();
        let is_still = clock.0 == unit.sent && clock.0 == unit.out;
        let granted = unit.is_settled()
            && (is_still || self.settings.plant == Some(Plant::EndUnlooked))
            && id.0 != self.classifier.liaison();
        if !granted {
            self.counts.add(SwitchCount::EndRefused);
            return;
        }
        // An older copy must not outlive this one: a switch that starts again
        // would go on from it.
        let is_ordered = self.settings.plant != Some(Plant::ForgetUnordered);
        // A replica that is behind the end has a state still, and must not outlive
        // the owner, which has none.
        let is_held = self.kept.since(self.units.at(place)) == clock.0
            || self.settings.plant == Some(Plant::EndsUnheld);
        if !is_held || is_ordered && self.forgets.waits(id) || self.forgets.is_full() {
            self.counts.add(SwitchCount::EndWaits);
            return;
        }
        self.counts.add(SwitchCount::EndGranted);
        self.outbox.journal.note(Done::Ended { unit: id });
        self.end_unit(now, pool, id);
    }

    /// The switch waits no longer for what a source was asked for before a move.
    pub(super) fn stop_preparing(&mut self, place: u32) {
        let unit = self.units.at_mut(place);
        if unit.has(mark::PREPARING) {
            unit.marks &= !mark::PREPARING;
            self.moves.preparing = self.moves.preparing.saturating_sub(1);
        }
    }

    /// Packets of the unit were asked for again.
    pub(super) fn repeat_asked(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        place: u32,
        after: Clock,
    ) {
        self.counts.add(SwitchCount::RepeatAsked);
        let unit = *self.units.at(place);
        if after.0 < unit.out && unit.pending != 0 {
            // It has not heard where the view begins.
            self.send_opening(place);
        }
        // The owner has all that was let out, where outputs wait for its replica. One that
        // is behind was that replica, and a restart took the claim of an owner that
        // died since: nobody has those packets, and no output of them has left. On a
        // path that loses nothing no owner is behind: it has applied them meanwhile.
        let is_untold = self.settings.plant == Some(Plant::BehindUntold);
        let may_lose = self.settings.acknowledge && !self.settings.lossless;
        if may_lose && self.every == 0 && !is_untold {
            for clock in after.0 + 1..=unit.out {
                self.send_lost(now, pool, &unit, clock);
            }
        }
        // On a path that loses nothing what is missing is on its way: calling
        // it lost would make it so.
        if self.settings.acknowledge || self.kept.keeps() {
            self.send_again(now, pool, place, after);
        }
    }

    /// Says who keeps copies of a runtime's units from now on.
    pub(super) fn set_replica(&mut self, of: RuntimeId, replica: Option<RuntimeId>) {
        let slot = replica.and_then(|id| self.runtimes.find(id)).unwrap_or(0);
        let of = self.runtimes.find(of).unwrap_or(0);
        match self.runtimes.get_mut(of) {
            Some(runtime) => runtime.replica = slot,
            None => self.counts.add(SwitchCount::MessageMisdirected),
        }
    }

    /// Asks an owner for an early snapshot.
    pub(super) fn send_prepare(&mut self, place: u32) {
        let unit = *self.units.at(place);
        if let Some(to) = self.runtimes.id(unit.wanted) {
            self.tell(
                unit.owner,
                Message::Prepare {
                    unit: unit.id(),
                    view: unit.view(),
                    to,
                },
            );
        }
    }
}
