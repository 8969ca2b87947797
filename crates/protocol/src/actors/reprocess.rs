//! Reprocessing: the target gets an early state and then copies of the packets
//! that change it, which it applies without output. When the view ends it is
//! there already.

use weir_packet::{FramePool, Time, frame_flags};

use super::cold::{Copying, Early};
use super::kept::Kept;
use super::table::{COPYING, Hot};
use super::{ActorCount, Actors, Place};
use crate::entry::to_frame;
use crate::ids::{Clock, RuntimeId, UnitId, View};
use crate::message::{Entry, Image, Message, MoveMode, Open, Part};

impl Actors {
    // ---- the source's side

    /// Sends an early state, if packets may be applied twice here, and asks
    /// for the move.
    pub(super) fn prepare(&mut self, now: Time, unit: UnitId, view: View, to: RuntimeId) {
        if to == self.settings.id {
            return self.counts.add(ActorCount::MessageRefused);
        }
        let live = self.table.live(unit);
        let Some(hot) = live.filter(|hot| hot.view == view && !hot.is_closing()) else {
            return self.counts.add(ActorCount::MessageStale);
        };
        let mut mode = MoveMode::Reprocess;
        let is_long = |state: Vec<u8>| state.len() > self.settings.most;
        if !self.engine.is_replayable() || self.export(unit).is_some_and(is_long) {
            self.counts.add(ActorCount::CopyingImpossible);
            mode = MoveMode::Push;
        } else if self.copying_to(unit) != Some(to) {
            self.start_copying(now, hot, to);
        }
        self.tell_switch(Message::Move {
            unit,
            view,
            to,
            mode,
        });
    }

    fn copying_to(&self, unit: UnitId) -> Option<RuntimeId> {
        Some(self.cold.get(&unit)?.copying?.to)
    }

    fn start_copying(&mut self, now: Time, hot: Hot, to: RuntimeId) {
        let unit = hot.unit;
        self.cold.entry(unit).or_default();
        // The state that leaves now contains all changes so far.
        self.look_for_change(unit);
        let until = now.plus(self.patience());
        let phases = self.phases(unit);
        if let Some(cold) = self.cold.get_mut(&unit) {
            cold.copying = Some(Copying {
                to,
                changed: hot.clock,
                dirty: false,
                phases,
                until,
            });
        }
        self.counts.add(ActorCount::CopyingStarted);
        let image = Image {
            clock: hot.clock,
            state: self.export(unit),
            since: hot.clock,
            outputs: Vec::new(),
        };
        let state = Message::State {
            unit,
            old: hot.view,
            new: View::NONE,
            image,
        };
        self.tell_runtime(to, state);
        self.mark(unit, COPYING, 0);
        self.arm(unit, until);
    }

    /// Copies a packet that was just applied, if it changed the state.
    pub(super) fn send_copy(&mut self, hot: Hot, packet: Part) {
        self.look_for_change(hot.unit);
        let phases = self.phases(hot.unit);
        let copying = self.cold.get_mut(&hot.unit);
        let Some(copying) = copying.and_then(|cold| cold.copying.as_mut()) else {
            return;
        };
        // The next change may depend on the phase that this packet has led to.
        copying.dirty |= core::mem::replace(&mut copying.phases, phases) != phases;
        let emptied = packet.flags & frame_flags::TICK != 0 && !self.engine.has_unit(hot.unit.0);
        if !core::mem::take(&mut copying.dirty) && !emptied {
            return;
        }
        let after = core::mem::replace(&mut copying.changed, hot.clock);
        let to = copying.to;
        self.counts.add(ActorCount::CopySent);
        let copy = Message::Copy {
            unit: hot.unit,
            old: hot.view,
            clock: hot.clock,
            after,
            packet,
        };
        self.tell_runtime(to, copy);
    }

    /// A number that changes with the phases of the unit's flows, and with what
    /// the next one will be judged by.
    pub(super) fn phases(&self, unit: UnitId) -> u64 {
        self.engine.phases_of(unit.0)
    }

    /// The unit's state that the engine itself keeps.
    pub(super) fn touched(&self, unit: UnitId) -> Vec<u8> {
        let mut touched = Vec::new();
        if self.engine.has_unit(unit.0) {
            self.engine.export_touch(unit.0, &mut touched);
        }
        touched
    }

    // ---- the target's side

    /// An early state: into the engine, where nothing but copies reaches it.
    #[allow(clippy::too_many_arguments)] // a message's fields
    pub(super) fn early(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        from: RuntimeId,
        unit: UnitId,
        old: View,
        image: Image,
    ) {
        if old.generation() < self.generation {
            return self.counts.add(ActorCount::MessageStale);
        }
        if !self.may_begin_early(unit, old, from) || !self.claim(pool, unit, old) {
            return self.counts.add(ActorCount::MessageStale);
        }
        self.retire(unit);
        let until = now.plus(self.patience());
        let installed = match &image.state {
            Some(state) => self.engine.install_unit(unit.0, state).is_ok(),
            None => true,
        };
        if !installed {
            // The state itself will be refused, when it comes, or fit then.
            self.counts.add(ActorCount::CopiesLost);
            return self.tidy(unit);
        }
        self.counts.add(ActorCount::EarlyInstalled);
        self.cold.entry(unit).or_default().early = Some(Early {
            from,
            old,
            clock: image.clock,
            until,
        });
        self.arm(unit, until);
    }

    /// True where an early state of the view `old` may go into the engine: nothing
    /// newer than its view is known but the view that it is for, whose `Open` may
    /// come first, and the view does not live here. A replica's copy of it may.
    fn may_begin_early(&self, unit: UnitId, old: View, from: RuntimeId) -> bool {
        let cold = self.cold.get(&unit);
        if let Some(waiting) = cold.and_then(|cold| cold.waiting) {
            let begun = cold.is_some_and(|cold| cold.early.is_some());
            return waiting.open.old == old && waiting.source == from && !begun;
        }
        let hot = self.table.of(unit);
        match self.whereabouts(unit, old) {
            Place::Stored => hot.is_some_and(|hot| self.newest(&hot) == old),
            Place::Unknown => true,
            _ => false,
        }
    }

    /// A packet that changed the state at the source.
    #[allow(clippy::too_many_arguments)] // a message's fields
    pub(super) fn copy(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        from: RuntimeId,
        unit: UnitId,
        old: View,
        (after, clock): (Clock, Clock),
        packet: &Part,
    ) {
        let early = self.cold.get(&unit).and_then(|cold| cold.early);
        let Some(mut early) = early.filter(|e| e.from == from && e.old == old) else {
            return self.counts.add(ActorCount::MessageStale);
        };
        if clock <= early.clock {
            return self.counts.add(ActorCount::MessageStale);
        }
        let frame = match early.clock == after {
            true => to_frame(pool, (unit, old, clock), packet),
            false => Err(weir_packet::NoFrame::Exhausted),
        };
        let Ok(mut frame) = frame else {
            return self.give_up_early(unit, ActorCount::CopiesLost);
        };
        pool.memory().meta_mut(&mut frame).flags |= frame_flags::NO_OUTPUT;
        self.run.push(frame);
        let mut entries = core::mem::take(&mut self.scratch);
        self.engine.apply(pool, &mut self.run, &mut entries);
        pool.give_all(&mut entries);
        self.scratch = entries;
        self.counts.add(ActorCount::CopyApplied);
        early.clock = clock;
        early.until = now.plus(self.patience());
        if let Some(cold) = self.cold.get_mut(&unit) {
            cold.early = Some(early);
        }
    }

    /// The view is open and its source has sent the last copy.
    pub(super) fn copied(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        open: &Open,
        changed: Clock,
        touched: &[u8],
        outputs: Vec<Entry>,
    ) {
        let unit = open.unit;
        let early = self.cold.get(&unit).and_then(|cold| cold.early);
        let whole = early.is_some_and(|early| early.clock == changed);
        let fits = match self.engine.has_unit(unit.0) {
            true => whole && self.engine.install_touch(unit.0, touched).is_ok(),
            false => whole && touched.is_empty(),
        };
        if !fits {
            self.give_up_early(unit, ActorCount::CopiesLost);
            return self.pull(now, unit);
        }
        self.counts.add(ActorCount::Reprocessed);
        let kept = Kept::after(outputs, open.out);
        self.take_over(now, pool, open, open.base, kept);
    }

    /// Forgets an early state.
    pub(super) fn give_up_early(&mut self, unit: UnitId, why: ActorCount) {
        self.counts.add(why);
        if let Some(cold) = self.cold.get_mut(&unit)
            && cold.early.take().is_some()
        {
            self.engine.forget_unit(unit.0);
        }
        self.tidy(unit);
    }
}
