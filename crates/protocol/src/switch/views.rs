//! Views: opened as a unit's first, as planned, or after a failure; settled.

use weir_packet::{FramePool, Time};

use super::forgets::Forget;
use super::runtimes::Slot;
use super::units::{REPLICA, Unit, mark};
use super::{Switch, SwitchCount, moves};
use crate::ids::{Clock, UnitId, View};
use crate::journal::{Done, Start};
use crate::message::{Message, MoveMode, Open, Origin, Refusal};
use crate::plant::Plant;
use weir_packet::frame_flags;

/// A view that is open and not settled.
#[derive(Debug)]
pub(super) struct Pending {
    /// The last settled view; none for a unit's first.
    pub(super) old: View,
    /// Its owner, and its replica.
    pub(super) old_owner: Slot,
    pub(super) old_replica: Slot,
    /// Packets after this clock belong to the new view.
    pub(super) base: Clock,
    /// The settled view was closed as planned, at the base.
    pub(super) planned: bool,
    pub(super) mode: MoveMode,
    /// How the owner comes by the state.
    pub(super) origin: Origin,
    /// When it was opened, for the duration of a hand-over.
    pub(super) opened: Time,
    /// The state is held: settled as soon as the old view is let out.
    pub(super) held: bool,
    /// The owner refused: the source goes on as soon as the old view is let
    /// out.
    pub(super) refused: bool,
    /// Others that took part in views given up since the settled one.
    pub(super) others: Vec<Slot>,
}

/// Views of a generation that only failures may use: new flows and moves leave
/// them. More than one for each of ten thousand failures of a hundred units.
const VIEWS_FOR_FAILURES: u64 = 1 << 20;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Pendings {
    records: Vec<Option<Pending>>,
    free: Vec<u32>,
    /// Views after a settled one: the window bounds them.
    pub(super) unsettled: u32,
}

impl Pendings {
    /// The record with this number plus one.
    #[inline]
    pub(super) fn get(&self, link: u32) -> Option<&Pending> {
        self.records.get((link as usize).wrapping_sub(1))?.as_ref()
    }

    pub(super) fn get_mut(&mut self, link: u32) -> Option<&mut Pending> {
        self.records
            .get_mut((link as usize).wrapping_sub(1))?
            .as_mut()
    }

    /// All records.
    pub(super) fn records(&self) -> impl Iterator<Item = &Pending> {
        self.records.iter().flatten()
    }

    fn add(&mut self, pending: Pending) -> u32 {
        self.unsettled += u32::from(pending.old != View::NONE);
        match self.free.pop() {
            Some(at) => {
                if let Some(place) = self.records.get_mut(at as usize) {
                    *place = Some(pending);
                }
                at + 1
            }
            None => {
                self.records.push(Some(pending));
                self.records.len() as u32
            }
        }
    }

    fn remove(&mut self, link: u32) -> Option<Pending> {
        let place = self.records.get_mut((link as usize).wrapping_sub(1))?;
        let pending = place.take()?;
        self.free.push(link - 1);
        self.unsettled -= u32::from(pending.old != View::NONE);
        Some(pending)
    }
}

impl Switch {
    fn take_view_number(&mut self) -> View {
        let view = self.next_view;
        self.next_view = match self.settings.plant {
            Some(Plant::ViewsShort) => View(view.0 >> 32 << 32 | (view.next().0 & 0xffff_ffff)),
            _ => view.next(),
        };
        view
    }

    /// True where the generation has a number left for a view that can wait or
    /// be refused. The last ones are for views after failures.
    pub(super) fn has_views(&self) -> bool {
        self.has_views_but(VIEWS_FOR_FAILURES)
    }

    /// True where more than `reserved` numbers are left.
    pub(super) fn has_views_but(&self, reserved: u64) -> bool {
        self.next_view.generation() == self.settings.generation
            && self.next_view.number() < View::LAST_NUMBER - reserved
    }

    /// The switch begins with this view of its generation, or with the next one
    /// where it is further: for tests of what happens when numbers run out.
    pub fn begin_at_view(&mut self, number: u64) {
        let first = View::first_of(self.settings.generation).0 - 1;
        let at = View(first + number.min(View::LAST_NUMBER));
        self.next_view = self.next_view.max(at);
    }

    /// Gives the unit's current view to others, and keeps the accounts.
    pub(super) fn set_holders(&mut self, place: u32, owner: Slot, replica: Slot) {
        self.kept.hold_none(place);
        if let Some(flowlets) = &mut self.flowlets {
            flowlets.moved(place, owner);
        }
        let unit = self.units.at_mut(place);
        let before = (unit.owner, unit.replica);
        unit.owner = owner;
        unit.replica = replica;
        let is_planted = self.settings.plant == Some(Plant::GaugeOnlyRises);
        let lacked = before.0 != 0 && before.1 == 0 && !is_planted;
        let lacks = owner != 0 && replica == 0;
        let without = &mut self.runtimes.without_replica;
        *without = *without + u32::from(lacks) - u32::from(lacked);
        let ends = [(before.0, before.1 == 0, -1i32), (owner, replica == 0, 1)];
        for (slot, alone, by) in ends {
            if let Some(runtime) = self.runtimes.get_mut(slot) {
                runtime.owns = runtime.owns.saturating_add_signed(by);
                let alone = i32::from(alone) * by;
                runtime.alone = runtime.alone.saturating_add_signed(alone);
            }
        }
        for (slot, by) in [(before.1, -1i32), (replica, 1)] {
            if let Some(runtime) = self.runtimes.get_mut(slot) {
                runtime.copies = runtime.copies.saturating_add_signed(by);
            }
        }
    }

    fn add_pending(&mut self, now: Time, place: u32, pending: Pending) {
        for slot in [pending.old_owner, pending.old_replica] {
            if let Some(runtime) = self.runtimes.get_mut(slot) {
                runtime.waits += 1;
            }
        }
        let link = self.pendings.add(pending);
        let unit = self.units.at_mut(place);
        unit.pending = link;
        let (id, view) = (unit.id(), unit.view());
        self.timers.views.push_back((now, id, view));
        self.send_opening(place);
    }

    pub(super) fn take_pending(&mut self, place: u32) -> Option<Pending> {
        let unit = self.units.at_mut(place);
        let pending = self.pendings.remove(core::mem::take(&mut unit.pending))?;
        let replica = match self.settings.plant {
            Some(Plant::WaitsStay) => 0,
            _ => pending.old_replica,
        };
        for slot in [pending.old_owner, replica] {
            if let Some(runtime) = self.runtimes.get_mut(slot) {
                runtime.waits = runtime.waits.saturating_sub(1);
            }
        }
        Some(pending)
    }

    fn note_opened(&mut self, place: u32, base: Clock, from: Start, holder: Slot) {
        let unit = self.units.at(place);
        if let Some(owner) = self.runtimes.id(unit.owner) {
            self.outbox.journal.note(Done::Opened {
                unit: unit.id(),
                view: unit.view(),
                base,
                owner,
                replica: self.runtimes.id(unit.replica),
                from,
                holder: self.runtimes.id(holder),
            });
        }
    }

    /// Opens the view that a unit starts with, or starts with again after its
    /// state was lost. False where no runtime takes units.
    pub(super) fn open_first(&mut self, now: Time, place: u32) -> bool {
        let id = self.units.at(place).id;
        let Some(owner) = self.dispatch(id, 0) else {
            return false;
        };
        let after_loss = self.units.at(place).has(mark::LOST);
        self.counts.add(if after_loss {
            SwitchCount::OpenedAfterLoss
        } else {
            SwitchCount::FirstOpened
        });
        self.begin_first(now, place, owner, after_loss);
        true
    }

    /// Opens a view without state at `owner`.
    pub(super) fn begin_first(&mut self, now: Time, place: u32, owner: Slot, after_loss: bool) {
        let replica = self.choose_replica(place, owner);
        let view = self.take_view_number();
        self.set_holders(place, owner, replica);
        let unit = self.units.at_mut(place);
        unit.view = view.0;
        unit.marks &= !(mark::LOST | mark::ORPHAN);
        unit.fresh = frame_flags::FRESH
            | if after_loss {
                frame_flags::AFTER_LOSS
            } else {
                0
            };
        let base = Clock(unit.out);
        let again = base != Clock::ZERO || after_loss;
        let start = match (after_loss, unit.sent) {
            (true, _) => Start::AfterLoss,
            (false, 0) => Start::Nothing,
            // Again: what was numbered before goes on in it.
            (false, _) => Start::Resumed,
        };
        self.note_opened(place, base, start, 0);
        // A first packet says by itself that there is no state; a replica and
        // a base it can't name.
        if replica != 0 || again {
            self.open_in_words(now, place);
        }
    }

    /// Sends `Open` for a view without state of which nothing was let out yet.
    pub(super) fn open_in_words(&mut self, now: Time, place: u32) {
        let unit = self.units.at(place);
        let after_loss = unit.fresh & frame_flags::AFTER_LOSS != 0;
        let pending = Pending {
            old: View::NONE,
            old_owner: 0,
            old_replica: 0,
            base: Clock(unit.out),
            planned: false,
            mode: MoveMode::Push,
            origin: Origin::Nothing { after_loss },
            opened: now,
            held: false,
            refused: false,
            others: Vec::new(),
        };
        self.add_pending(now, place, pending);
    }

    /// Opens a planned view at `target`: packets from now on are its.
    pub(super) fn open_planned(&mut self, now: Time, place: u32, target: Slot, mode: MoveMode) {
        let replica = self.choose_replica(place, target);
        let unit = self.units.at(place);
        let (old, old_owner, old_replica) = (unit.view(), unit.owner, unit.replica);
        let Some(source) = self.runtimes.id(old_owner) else {
            return self
                .internal
                .note("a unit with an owner is moved from nobody");
        };
        let view = self.take_view_number();
        self.set_holders(place, target, replica);
        let unit = self.units.at_mut(place);
        unit.view = view.0;
        let base = Clock(unit.sent);
        self.counts.add(match mode {
            MoveMode::Push => SwitchCount::PlannedPush,
            MoveMode::Pull => SwitchCount::PlannedPull,
            MoveMode::Reprocess => SwitchCount::PlannedReprocess,
        });
        self.note_opened(place, base, Start::Planned, old_owner);
        let pending = Pending {
            old,
            old_owner,
            old_replica,
            base,
            planned: true,
            mode,
            origin: Origin::Planned { source },
            opened: now,
            held: false,
            refused: false,
            others: Vec::new(),
        };
        self.add_pending(now, place, pending);
    }

    /// Opens a view after a failure, or to change the replica: `holder` of
    /// the settled view `old` goes on from its actor of that view, or a runtime
    /// that asks it for the state where it is a logger, and the packets after
    /// `out` are sent again.
    pub(super) fn open_resumed(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        place: u32,
        holder: Slot,
        (old, old_owner, old_replica): (View, Slot, Slot),
    ) {
        let Some(source) = self.runtimes.id(holder) else {
            return self.internal.note("a view goes on at nobody");
        };
        let Some(owner) = self.heir(place, holder) else {
            // The logger has the state. Packets are dropped until a runtime comes.
            self.sweep.await_heir();
            return self.counts.add(SwitchCount::HeirAwaited);
        };
        self.stop_preparing(place);
        let unit = self.units.at(place);
        let claimed = old.generation() != self.settings.generation;
        let is_replica_change = unit.pending == 0 && owner == holder && holder == unit.owner;
        let others = self.give_up_pending(place);
        let replica = self.choose_replica(place, owner);
        let reuse = self.settings.plant == Some(Plant::ViewReused);
        let view = if reuse {
            self.units.at(place).view()
        } else {
            self.take_view_number()
        };
        self.set_holders(place, owner, replica);
        let unit = self.units.at_mut(place);
        unit.view = view.0;
        unit.fresh = 0;
        if self.settings.plant == Some(Plant::OutGoesBack) {
            unit.out = self.kept.since(unit);
        }
        let base = Clock(unit.out);
        let start = if claimed {
            Start::Claimed(old)
        } else {
            Start::Resumed
        };
        self.note_opened(place, base, start, holder);
        let pending = Pending {
            old,
            old_owner,
            old_replica,
            base,
            planned: false,
            mode: MoveMode::Push,
            origin: Origin::Resumed { source },
            opened: now,
            held: false,
            refused: false,
            others,
        };
        self.add_pending(now, place, pending);
        // An owner whose replica alone is another has applied what was let out.
        let since = match is_replica_change {
            true => base.0,
            false => self.kept.since(self.units.at(place)),
        };
        self.send_again(now, pool, place, Clock(since));
    }

    /// Gives up an unsettled view; all who have something of the unit beside the holders
    /// of the settled one.
    fn give_up_pending(&mut self, place: u32) -> Vec<Slot> {
        let unit = *self.units.at(place);
        let mut others = self.leftovers.take(unit.id());
        if let Some(given_up) = self.take_pending(place) {
            others.extend(given_up.others);
            others.extend([unit.owner, unit.replica]);
            if given_up.planned && self.settings.plant != Some(Plant::FailedUncounted) {
                self.counts.add(SwitchCount::MoveFailed);
            }
        }
        others
    }

    /// The runtime that goes on from what `holder` has: itself, but for a logger.
    /// `None` where a logger has the state and no runtime is there.
    fn heir(&mut self, place: u32, holder: Slot) -> Option<Slot> {
        let is_planted = self.settings.plant == Some(Plant::LoggerOwns);
        if is_planted || !self.runtimes.is_logger(holder) {
            return Some(holder);
        }
        let unit = *self.units.at(place);
        // The refuser of a unit is asked again only if there is no other.
        let heir = self.dispatch_or_drain(unit.id, unit.owner)?;
        self.counts.add(SwitchCount::ResumedFromLogger);
        Some(heir)
    }

    /// A runtime for a unit that has none: one that drains where no other is there, and `not`
    /// where that is the only one.
    pub(super) fn dispatch_or_drain(&mut self, unit: u64, not: Slot) -> Option<Slot> {
        let picked = self.dispatch(unit, not).filter(|slot| *slot != not);
        let is_runtime = |slot: &Slot| !self.runtimes.is_logger(*slot);
        let mut others = self.runtimes.here().filter(|slot| *slot != not);
        let other = picked.or_else(|| others.find(is_runtime));
        // `not` is the only one that may be left.
        other.or_else(|| self.runtimes.here().find(is_runtime))
    }

    /// True where a logger has the unit's state, or all its packets are here, and no runtime is
    /// there to go on.
    pub(super) fn awaits_heir(&self, place: u32) -> bool {
        self.sweep.awaits_heir() && self.needs_view(place)
    }

    /// Sends an open view's messages to its owner and its source.
    pub(super) fn send_opening(&mut self, place: u32) {
        let unit = *self.units.at(place);
        let Some(pending) = self.pendings.get(unit.pending) else {
            return self.internal.note("a view is opened that is settled");
        };
        let open = Open {
            unit: unit.id(),
            view: unit.view(),
            old: pending.old,
            // No state is that before the first packet that is here.
            base: match pending.origin {
                Origin::Nothing { .. } => Clock(self.kept.since(&unit)).min(pending.base),
                _ => pending.base,
            },
            out: Clock(unit.out),
            origin: pending.origin,
            replica: self.runtimes.id(unit.replica),
            every: self.every,
        };
        let closed =
            pending
                .planned
                .then_some((pending.old, pending.old_owner, pending.base, pending.mode));
        self.tell(unit.owner, Message::Open(open));
        if let (Some((old, source, at, mode)), Some(to)) = (closed, self.runtimes.id(unit.owner)) {
            self.tell(
                source,
                Message::Closed {
                    unit: unit.id(),
                    old,
                    at,
                    new: unit.view(),
                    to,
                    mode,
                },
            );
        }
    }

    /// The unit's packets after `after` are sent (again), each in its view; of
    /// those without a copy a `Lost`.
    pub(super) fn send_again(&mut self, now: Time, pool: &mut FramePool, place: u32, after: Clock) {
        let unit = *self.units.at(place);
        let after = after.0.max(self.kept.since(&unit));
        if self.kept.keeps() {
            let packets = self.kept.packets_of(&unit, after);
            let clocks: Vec<u64> = packets.map(|(clock, _)| clock).collect();
            for clock in clocks {
                self.send_packet(now, pool, place, clock);
            }
        } else {
            for clock in after + 1..=unit.sent {
                self.send_lost(now, pool, &unit, clock);
            }
        }
    }

    /// View and receiver of a packet of the unit: packets up to the
    /// clock at which the settled view was closed stay its own.
    pub(super) fn route(&self, unit: &Unit, clock: u64) -> (View, Slot) {
        match self.pendings.get(unit.pending) {
            Some(p) if p.planned && clock <= p.base.0 => (p.old, p.old_owner),
            _ => (unit.view(), unit.owner),
        }
    }

    /// Settles the current view: what was before it may be forgotten.
    pub(super) fn settle(&mut self, now: Time, place: u32) {
        let unit = self.units.at_mut(place);
        unit.fresh = 0;
        unit.tries = 0;
        let (id, view) = (unit.id(), unit.view());
        self.outbox.journal.note(Done::Settled { unit: id, view });
        if self.settings.plant == Some(Plant::ImpossibleMet) {
            self.internal.note("a planted bug");
        }
        if let Some(pending) = self.take_pending(place)
            && pending.old != View::NONE
        {
            if pending.planned && self.settings.plant == Some(Plant::NamesForgotten) {
                self.classifier.remove_unit(id.0, &mut Vec::new());
            }
            if pending.planned {
                self.hand_overs.add(now.since(pending.opened));
            }
            let by_target = self.settings.plant == Some(Plant::TargetForgets) && pending.planned;
            let mut told = pending.others;
            if !by_target {
                told.extend([pending.old_owner, pending.old_replica]);
            }
            told.sort_unstable();
            told.dedup();
            for slot in told {
                self.forget(now, slot, id, view, false);
            }
        }
        self.review(place);
    }

    /// Says `Forget`, now and (where messages may be lost) again until it is
    /// answered.
    pub(super) fn forget(&mut self, now: Time, to: Slot, unit: UnitId, below: View, ended: bool) {
        if !self.runtimes.is_here(to) {
            return;
        }
        let forget = Forget {
            to,
            unit,
            below,
            ended,
        };
        self.tell_forget(forget);
        if self.settings.acknowledge {
            self.forgets.add(now, forget);
        }
    }

    /// The same to a runtime that has the newest copy of a unit that is over:
    /// it is told when those that were told before have answered.
    pub(super) fn forget_last(&mut self, now: Time, to: Slot, unit: UnitId, below: View) {
        let forget = Forget {
            to,
            unit,
            below,
            ended: true,
        };
        if !self.settings.acknowledge || self.settings.plant == Some(Plant::ForgetUnordered) {
            return self.forget(now, to, unit, below, true);
        }
        if self.runtimes.is_here(to) {
            self.forgets.add_last(now, forget);
        }
    }

    fn tell_forget(&mut self, forget: Forget) {
        let Forget {
            to,
            unit,
            below,
            ended,
        } = forget;
        self.tell(to, Message::Forget { unit, below, ended });
    }

    /// A runtime has forgotten what it was told to.
    pub(super) fn forgotten(&mut self, from: Slot, unit: UnitId, below: View) {
        let mut tell = Vec::new();
        let below = match self.settings.plant {
            Some(Plant::OlderForgotten) => View(u64::MAX),
            _ => below,
        };
        if self.forgets.answered(from, unit, below, &mut tell) {
            self.counts.add(SwitchCount::ForgetAnswered);
        }
        tell.into_iter().for_each(|forget| self.tell_forget(forget));
    }

    /// Tells the runtimes that forget a unit last, if no other is left.
    pub(super) fn forget_on(&mut self, unit: UnitId) {
        let mut tell = Vec::new();
        self.forgets.go_on(unit, &mut tell);
        tell.into_iter().for_each(|forget| self.tell_forget(forget));
    }

    /// A runtime that is gone is not waited for.
    pub(super) fn forget_none_at(&mut self, gone: Slot) {
        let mut tell = Vec::new();
        self.forgets.drop_of(gone, &mut tell);
        if self.settings.plant == Some(Plant::ForgetsMiscounted) {
            self.forgets.miscount(1);
        }
        tell.into_iter().for_each(|forget| self.tell_forget(forget));
    }

    /// Says `Forget` again to those that have not answered.
    pub(super) fn repeat_forgets(&mut self, now: Time) {
        let since = Time(now.0.saturating_sub(self.patience()));
        while let Some(again) = self.forgets.again(now, since) {
            for forget in again {
                self.counts.add(SwitchCount::ForgetRepeated);
                self.tell_forget(forget);
            }
        }
    }

    /// Looks whether a unit whose view was just settled is where it is wanted.
    pub(super) fn review(&mut self, place: u32) {
        let unit = self.units.at(place);
        if unit.owner == 0 || !unit.is_settled() {
            return;
        }
        if unit.wanted != 0 {
            self.queue(place);
        } else if unit.tries >= moves::TRIES {
            // Nobody takes it; it stays where it is until someone asks.
        } else if self.runtimes.is_draining(unit.owner) {
            self.want(place, super::units::ANY, self.moves.drain_mode);
        } else if self.lacks_replica(unit) {
            self.want(place, REPLICA, MoveMode::Push);
        }
    }

    /// True where the unit's replica is leaving or on the owner's host, or there
    /// is none, and there could be a better one.
    pub(super) fn lacks_replica(&self, unit: &Unit) -> bool {
        self.settings.plant != Some(Plant::NeverProtected)
            && self.settings.replication != crate::settings::Replication::None
            && !unit.has(mark::LONG)
            && {
                let could_be_any = || self.runtimes.keepers().any(|slot| slot != unit.owner);
                match unit.replica {
                    0 => could_be_any(),
                    replica => {
                        self.runtimes.is_draining(replica) && could_be_any()
                            || self.runtimes.could_be_better(unit.owner, replica)
                    }
                }
            }
    }

    /// An entry of the closed view was let out: a view that waited for its
    /// last one goes on.
    pub(super) fn closed_out(&mut self, now: Time, pool: &mut FramePool, place: u32) {
        let unit = self.units.at(place);
        let Some(pending) = self.pendings.get(unit.pending) else {
            return;
        };
        if !pending.planned || unit.out < pending.base.0 {
            return;
        }
        if pending.refused {
            self.go_back(now, pool, place, Refusal::Full);
        } else if pending.held {
            self.counts.add(SwitchCount::SettledByHeld);
            self.settle(now, place);
        }
    }
}
