//! Timers of the switch: repeats, and units that nobody wants.
//!
//! Each list has one interval, so the first of a list is due first. Nothing
//! here looks at all units.

use std::collections::{BTreeSet, VecDeque};

use weir_packet::{Disposition, FramePool, Time, frame_flags};

use super::units::{Unit, mark};
use super::{Slot, Switch, SwitchCount, moves};
use crate::flowlets::Flowlets;
use crate::ids::{Clock, UnitId, View};
use crate::message::MoveMode;
use crate::plant::Plant;
use crate::settings::LAST_RESORT;

/// Packets sent again per tick: what is not answered is not to drown in
/// repeats.
const REPEATS: usize = 256;

/// A unit without owner is removed after this many repeat intervals.
const ORPHAN_INTERVALS: u64 = 1_000;

/// The lists.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// Unsettled views, and owners asked to prepare: since when they wait.
    pub(super) views: VecDeque<(Time, UnitId, View)>,
    /// Units without owner: since when.
    pub(super) orphans: VecDeque<(Time, u64)>,
}

/// Packets to be sent again as soon as frames are free. On a path that loses nothing nobody
/// would ask for them.
#[derive(Debug, Default)]
pub(super) struct Owed {
    /// Unit, clock, and whether a `Lost` stands for the packet whatever is kept.
    packets: VecDeque<(UnitId, u64, bool)>,
    /// When frames were last looked for.
    tried: Time,
}

/// Time after which frames are looked for again: they come back without a word.
const FRAMES_AGAIN: u64 = 1_000_000;

impl Switch {
    /// Does what is due.
    pub fn tick(&mut self, now: Time, pool: &mut FramePool) {
        if let Some(flowlets) = &mut self.flowlets {
            flowlets.advance(now);
        }
        self.add_late_names();
        if !self.owed.packets.is_empty() {
            self.pay_owed(now, pool);
        }
        self.remove_orphans(now, pool);
        self.advance(now, pool);
        if !self.repeats() {
            return;
        }
        self.find_wait();
        let due = |at: Time| now.since(at) >= self.wait;
        if self.recovery.as_ref().is_some_and(|r| due(r.asked)) {
            self.ask_again(now, pool);
        }
        self.repeat_views(now);
        self.repeat_forgets(now);
        self.repeat_packets(now, pool);
        self.find_wait();
    }

    /// True but for a planted bug.
    fn repeats(&self) -> bool {
        self.settings.plant != Some(Plant::NoRepeats)
    }

    /// When [`Switch::tick`] has something to do next.
    pub fn next_deadline(&self) -> Option<Time> {
        let after = self.wait;
        let can_open = self.window_is_open() && self.sweep.is_on()
            || self.may_move() && self.moves.queued() > 0;
        let busy = self.recovery.is_none() && (can_open || self.sweep.goes_on());
        if busy || !self.late_names_is_empty() {
            return Some(Time::ZERO);
        }
        let orphan = self
            .timers
            .orphans
            .front()
            .map(|(at, _)| at.plus(self.orphan_after()));
        let owed = (!self.owed.packets.is_empty()).then(|| self.owed.tried.plus(FRAMES_AGAIN));
        if !self.repeats() {
            return orphan;
        }
        // Room comes with entries, most often; frames come back without a word.
        let ticks = (!self.ticks.is_empty()).then(|| self.ticks_tried.plus(after));
        let copies = self.kept.oldest().filter(|_| self.settings.acknowledge);
        let copies = copies.map(|(at, ..)| at.plus(self.patience()));
        [
            orphan,
            owed,
            ticks,
            self.timers.views.front().map(|(at, ..)| at.plus(after)),
            self.flowlets.as_ref().and_then(Flowlets::next_look),
            self.forgets.oldest().map(|at| at.plus(self.patience())),
            self.recovery.as_ref().map(|r| r.asked.plus(after)),
            copies,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Goes on with what the window holds up.
    #[inline]
    pub(super) fn advance(&mut self, now: Time, pool: &mut FramePool) {
        if self.sweep.is_on() {
            self.sweep_on(now, pool);
        }
        if self.moves.queued() > 0 {
            self.pump(now, Some(pool));
        }
        self.take_names_over(now, pool);
        self.send_states_ahead(now);
        if !self.ticks.is_empty() {
            self.number_ticks(now, pool);
        }
    }

    fn repeat_views(&mut self, now: Time) {
        // Many views may have one replica.
        let mut replicas = BTreeSet::new();
        self.repeat_due_views(now, &mut replicas);
        for replica in replicas {
            self.introduce(replica);
        }
    }

    /// Says again what was not answered in time; gives the replicas of views that were opened again.
    fn repeat_due_views(&mut self, now: Time, replicas: &mut BTreeSet<Slot>) {
        for _ in 0..self.timers.views.len() {
            let Some(&(at, id, view)) = self.timers.views.front() else {
                return;
            };
            if now.since(at) < self.wait {
                return;
            }
            self.timers.views.pop_front();
            let Some(place) = self.units.find(id) else {
                continue;
            };
            let unit = self.units.at_mut(place);
            if unit.view() != view {
                continue;
            }
            let (pending, owner, replica) = (unit.pending, unit.owner, unit.replica);
            if pending != 0 {
                let source = self.pendings.get(pending).map_or(0, |p| self.source_of(p));
                let is_heard = [owner, source].iter().any(|at| self.runtimes.is_here(*at));
                if is_heard && self.is_asked_again(now, at, pending) {
                    self.counts.add(SwitchCount::OpenRepeated);
                    self.send_opening(place);
                    replicas.insert(replica);
                }
            } else if unit.has(mark::PREPARING) {
                unit.tries = unit.tries.saturating_add(1);
                let target = unit.wanted;
                if unit.tries < moves::TRIES && self.runtimes.is_live(target) {
                    self.send_prepare(place);
                } else {
                    unit.tries = 0;
                    self.counts.add(SwitchCount::PreparedInVain);
                    self.want(place, target, MoveMode::Push);
                    continue;
                }
            } else {
                continue;
            }
            self.timers.views.push_back((now, id, view));
        }
    }

    /// True where what is said of an open view is said again, which was looked at before.
    fn is_asked_again(&self, now: Time, before: Time, pending: u32) -> bool {
        let patience = self.patience();
        let opened = self.pendings.get(pending).map_or(now, |open| open.opened);
        !self.settings.lossless || now.since(opened) / patience > before.since(opened) / patience
    }

    /// A unit without owner is removed after this time.
    fn orphan_after(&self) -> u64 {
        self.settings.repeat_after.saturating_mul(ORPHAN_INTERVALS)
    }

    /// Computes after which time what was not answered is sent again. A path
    /// that loses nothing is not measured: there a wait means that a thread
    /// does not run.
    pub(super) fn find_wait(&mut self) {
        if core::mem::take(&mut self.is_measured) && !self.settings.lossless {
            self.wait = self.runtimes.wait().unwrap_or(self.settings.repeat_after);
        }
    }

    /// Time after which a packet that was not let out is sent again, or a word that was not
    /// answered: on a path that loses nothing they are on their way.
    pub(super) fn patience(&self) -> u64 {
        let in_haste = self.settings.plant == Some(Plant::RepeatsInHaste);
        match self.settings.lossless && !in_haste {
            true => self.settings.repeat_after.saturating_mul(LAST_RESORT),
            false => self.wait,
        }
    }

    /// A packet of the unit at a place was not answered in time: its runtime is
    /// waited for twice as long, once in each round.
    fn back_off(&mut self, now: Time, place: u32) {
        let owner = self.units.at(place).owner;
        if let Some(runtime) = self.runtimes.get_mut(owner)
            && now.since(runtime.round_at) >= runtime.trip.wait()
        {
            runtime.round_at = now;
            runtime.trip.back_off();
            self.is_measured = true;
        }
    }

    /// Sends packets again that were not let out for a while. Where nothing is
    /// lost on the way and nobody acknowledges, a wait means no loss.
    fn repeat_packets(&mut self, now: Time, pool: &mut FramePool) {
        if !self.settings.acknowledge {
            return;
        }
        for _ in 0..REPEATS {
            let Some((at, place, clock)) = self.kept.oldest() else {
                return;
            };
            if now.since(at) < self.patience() {
                return;
            }
            if self.sweep.is_on() && self.needs_view(place) {
                self.react(now, pool, place);
                if self
                    .kept
                    .oldest()
                    .is_none_or(|(_, p, n)| (p, n) != (place, clock))
                {
                    continue;
                }
            }
            if self.kept.renew_oldest(now) {
                self.back_off(now, place);
                self.send_packet(now, pool, place, clock);
            }
        }
    }

    /// A packet can't be sent again for want of a frame.
    fn owe(&mut self, now: Time, unit: UnitId, clock: u64, lost: bool) {
        if self.settings.lossless {
            if self.owed.packets.is_empty() {
                self.owed.tried = now;
            }
            self.owed.packets.push_back((unit, clock, lost));
            self.counts.add(SwitchCount::RepeatOwed);
        }
    }

    /// An entry found no frame. Its sender says it again when it gets its packet again.
    pub(super) fn owe_entry(&mut self, now: Time, unit: UnitId, clock: Clock) {
        let last = self.owed.packets.back();
        if last.is_none_or(|(of, _, lost)| *of != unit || *lost) {
            self.owe(now, unit, clock.0, false);
        }
    }

    /// Sends what is owed, as far as there are frames.
    fn pay_owed(&mut self, now: Time, pool: &mut FramePool) {
        self.owed.tried = now;
        // Once each: one that finds no frame of its size is owed again.
        for _ in 0..self.owed.packets.len() {
            if !self.leaves_reserve(pool, 1) {
                return;
            }
            let Some((id, clock, lost)) = self.owed.packets.pop_front() else {
                return;
            };
            let Some(place) = self.units.find(id) else {
                continue;
            };
            let unit = *self.units.at(place);
            match lost {
                true => self.send_lost(now, pool, &unit, clock),
                false => self.send_packet(now, pool, place, clock),
            }
        }
    }

    /// Sends one packet of a unit again, or what stands for it.
    pub(super) fn send_packet(&mut self, now: Time, pool: &mut FramePool, place: u32, clock: u64) {
        let memory = pool.memory().clone();
        let unit = *self.units.at(place);
        let packet = self.kept.packets_of(&unit, clock - 1).next();
        let packet = packet.filter(|(number, _)| *number == clock);
        match packet {
            Some((_, Some(copy))) => {
                let (meta, bytes) = memory.read(copy);
                if self.leaves_reserve(pool, 1)
                    && let Ok(frame) = pool.copy(bytes, *meta)
                {
                    self.kept.mark_repeated(&unit, clock);
                    self.send_frame(pool, place, clock, frame, frame_flags::REPEATED);
                    self.counts.add(SwitchCount::Repeated);
                } else {
                    self.owe(now, unit.id(), clock, false);
                }
            }
            Some((_, None)) => self.send_lost(now, pool, &unit, clock),
            None => {}
        }
    }

    /// Sends a `Lost` in the place of a packet of which no copy is kept.
    pub(super) fn send_lost(&mut self, now: Time, pool: &mut FramePool, unit: &Unit, clock: u64) {
        let mut meta = weir_packet::FrameMeta::received(now, 0);
        meta.unit = unit.id;
        let flag = if clock == unit.tick {
            frame_flags::TICK
        } else {
            frame_flags::LOST
        };
        let place = unit.id as u32;
        let record = self.units.at(place);
        if record.fresh != 0 && record.pending == 0 {
            // The first packet itself says that its view is open; this does not.
            self.open_in_words(now, place);
        }
        // A tick that says which flow is to end says it again.
        let said = self.ends_said.get(&place);
        let said = said.filter(|(id, at, _)| id.0 == meta.unit && at.0 == clock);
        let what = said.map_or(&[][..], |(_, _, what)| what);
        if self.leaves_reserve(pool, 1)
            && let Ok(frame) = pool.copy(what, meta)
        {
            let flags = flag | frame_flags::REPEATED;
            self.send_frame(pool, place, clock, frame, flags);
            self.counts.add(SwitchCount::LostSent);
        } else {
            self.owe(now, unit.id(), clock, true);
        }
    }

    fn send_frame(
        &mut self,
        pool: &mut FramePool,
        place: u32,
        clock: u64,
        mut frame: weir_packet::Frame,
        flag: u8,
    ) {
        let unit = *self.units.at(place);
        let (view, owner) = self.route(&unit, clock);
        let meta = pool.memory().meta_mut(&mut frame);
        meta.unit = unit.id;
        meta.clock = clock;
        meta.view = view.0;
        meta.disposition = Disposition::Pending;
        meta.flags |= flag | unit.fresh;
        let queue = usize::from(owner).wrapping_sub(1);
        match self.outbox.queues.get_mut(queue) {
            Some(queue) if self.runtimes.is_here(owner) => queue.frames.push(frame),
            _ => pool.give(frame),
        }
    }

    /// Removes units that had no owner for long.
    fn remove_orphans(&mut self, now: Time, pool: &mut FramePool) {
        let long = self.orphan_after();
        while self
            .timers
            .orphans
            .front()
            .is_some_and(|(at, _)| now.since(*at) >= long)
        {
            let Some((_, id)) = self.timers.orphans.pop_front() else {
                return self.internal.note("an orphan that was there");
            };
            let id = UnitId(id);
            let Some(place) = self.units.find(id) else {
                continue;
            };
            let unit = self.units.at_mut(place);
            unit.marks &= !mark::ORPHAN;
            if unit.owner == 0 && id.0 != self.classifier.liaison() {
                self.counts.add(SwitchCount::OrphanRemoved);
                self.end_unit(now, pool, id);
            }
        }
    }
}
