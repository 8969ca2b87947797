//! The way in: classifies packets, numbers them within their units, keeps copies for
//! retransmission, and sends them to runtimes.

use weir_packet::{
    Disposition, FlowKey, Frame, FrameMeta, FramePool, PacketMemory, Time, frame_flags,
};
use weir_runtime::notes;

use super::units::mark;
use super::{Switch, SwitchCount, SwitchDrop};
use crate::ids::{Clock, UnitId, View};
use crate::journal::Done;
use crate::plant::Plant;

/// How many packets ahead the records of units are prefetched.
const AHEAD: usize = 24;

impl Switch {
    /// Packets from the ports, to be classified, numbered and sent on.
    pub fn ingress(&mut self, now: Time, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        self.packets.taken += frames.len() as u64;
        if let Some(flowlets) = &mut self.flowlets {
            flowlets.advance(now);
        }
        if self.recovery.is_some() {
            self.hold(pool, frames);
        } else {
            self.take(now, pool, frames);
        }
        self.advance(now, pool);
    }

    /// Packets from the ports that are not let in, for this reason: they are counted and dropped.
    pub fn refuse(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>, why: SwitchDrop) {
        let memory = pool.memory();
        let bytes = frames.iter().map(|frame| u64::from(memory.meta(frame).len));
        self.packets.refused += bytes.sum::<u64>();
        self.packets.taken += frames.len() as u64;
        self.drops.add_many(why, frames.len() as u64);
        pool.give_all(frames);
    }

    /// As [`Switch::ingress`], without the check for a recovery.
    pub(super) fn take(&mut self, now: Time, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        let mut classified = core::mem::take(&mut self.classified);
        self.classifier.classify(pool, frames, &mut classified);
        self.number_all(now, pool, &mut classified);
        self.classified = classified;
    }

    fn number_all(&mut self, now: Time, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        let memory = pool.memory().clone();
        for frame in frames.iter().take(AHEAD) {
            self.prefetch(memory.meta(frame).unit);
        }
        let mut frames = frames.drain(..);
        while let Some(frame) = frames.next() {
            if let Some(next) = frames.as_slice().get(AHEAD - 1) {
                self.prefetch(memory.meta(next).unit);
            }
            self.number(now, pool, &memory, frame);
        }
    }

    #[inline]
    fn prefetch(&self, unit: u64) {
        self.units.prefetch(unit);
        if let Some(flowlets) = &self.flowlets {
            flowlets.prefetch(unit as u32);
        }
    }

    #[inline]
    fn number(&mut self, now: Time, pool: &mut FramePool, memory: &PacketMemory, mut frame: Frame) {
        let (meta, bytes) = memory.read(&frame);
        let (id, len) = (meta.unit, meta.len);
        if self.settings.plant == Some(Plant::BytesEarly) {
            self.packets.bytes += u64::from(len);
        }
        let place = id as u32;
        let unit = self.units.at(place);
        if (unit.id != id || unit.owner == 0 || self.sweep.is_unfinished())
            && let Err(drop) = self.open_for(now, pool, id)
        {
            self.drops.add(match (self.settings.plant, drop) {
                (Some(Plant::NobodyMisnamed), SwitchDrop::NoRuntime) => SwitchDrop::RecoveryFull,
                _ => drop,
            });
            pool.give(frame);
            return;
        }
        let can_copy = self.kept.copies() && self.kept.has_room() && self.leaves_reserve(pool, 2);
        let can_keep =
            !self.kept.keeps() || self.kept.has_room() && (can_copy || !self.kept.copies());
        if let Some(flowlets) = &self.flowlets
            && can_keep
            && flowlets.begins(place, now, len)
        {
            self.begin_flowlet(now, place);
        }
        let unit = self.units.at_mut(place);
        if unit.sent >= Clock::LAST.0 {
            self.drops.add(SwitchDrop::ClockUsedUp);
            pool.give(frame);
            return;
        }
        if self.kept.keeps() {
            let copy = if can_copy {
                // Mark the copy, too: if it is sent again, the receiver must know that
                // the unit's state was lost before this packet.
                let mut meta = *meta;
                meta.flags |= unit.fresh & frame_flags::AFTER_LOSS;
                pool.copy(bytes, meta).ok()
            } else {
                None
            };
            let missing = match self.kept.has_room() {
                false => Some(SwitchDrop::UnackedFull),
                true if self.kept.copies() && copy.is_none() => Some(SwitchDrop::FramesShort),
                true => None,
            };
            if let Some(reason) = missing {
                let reason = match (self.settings.plant, reason) {
                    (Some(Plant::RoomMisnamed), SwitchDrop::UnackedFull) => SwitchDrop::FramesShort,
                    (Some(Plant::RoomMisnamed), _) => SwitchDrop::UnackedFull,
                    (_, reason) => reason,
                };
                if self.settings.plant != Some(Plant::DropUncounted) {
                    self.drops.add(reason);
                }
                pool.give(frame);
                return;
            }
            unit.sent += 1;
            self.kept.push(unit, unit.sent, now, copy);
        } else {
            unit.sent += 1;
        }
        if let Some(flowlets) = &mut self.flowlets {
            flowlets.count(place, now, unit.owner, len);
        }
        let meta = memory.meta_mut(&mut frame);
        meta.clock = unit.sent;
        meta.view = unit.view;
        meta.flags |= unit.fresh;
        meta.disposition = Disposition::Pending;
        self.packets.flying += 1;
        if self.settings.plant != Some(Plant::BytesEarly) {
            self.packets.bytes += u64::from(len);
        }
        self.outbox.journal.note(Done::Numbered {
            unit: UnitId(id),
            view: View(unit.view),
            clock: Clock(unit.sent),
        });
        match self.outbox.queues.get_mut(usize::from(unit.owner) - 1) {
            Some(queue) => queue.frames.push(frame),
            None => {
                self.internal.note("a numbered packet for nobody");
                pool.give(frame);
            }
        }
    }

    /// Ensures that a unit has an owner and a view in which packets can be numbered.
    #[cold]
    fn open_for(&mut self, now: Time, pool: &mut FramePool, id: u64) -> Result<(), SwitchDrop> {
        let place = id as u32;
        if self.units.at(place).id != id {
            // A new unit: the classifier has just assigned the id.
            if !self.units.begin(id) {
                return Err(SwitchDrop::UnackedFull);
            }
            self.forget_flowlet(place);
        } else if self.sweep.is_unfinished() && self.needs_view(place) {
            self.react(now, pool, place);
            if self.awaits_heir(place) {
                return Err(SwitchDrop::NoRuntime);
            }
        }
        let unit = self.units.at(place);
        if unit.owner != 0 {
            return Ok(());
        }
        // Open a view only if the packet can be numbered: an owner that gets no packet
        // does not know the unit, and would never end it.
        let can_copy = !self.kept.copies() || self.leaves_reserve(pool, 2);
        if self.kept.keeps() && !(self.kept.has_room() && can_copy) {
            self.mark_orphan(now, place);
            return Err(match self.kept.has_room() {
                false => SwitchDrop::UnackedFull,
                true => SwitchDrop::FramesShort,
            });
        }
        if !self.has_views() {
            self.mark_orphan(now, place);
            Err(SwitchDrop::ViewsUsedUp)
        } else if self.open_first(now, place) {
            Ok(())
        } else {
            self.mark_orphan(now, place);
            Err(SwitchDrop::NoRuntime)
        }
    }

    /// Ends a flow of a unit for an operator: sends the owner a numbered tick with a note of
    /// the flow, which an owner without such a flow ignores. False if another tick of the
    /// unit is in flight or there is no room: call again. True, too, if the unit has ended.
    pub fn end_flow(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        unit: UnitId,
        key: &FlowKey,
    ) -> bool {
        let Some(place) = self.units.find(unit) else {
            return true;
        };
        if self.sweep.is_unfinished() && self.needs_view(place) {
            // A view of an earlier switch must be replaced before anything is numbered in it.
            self.react(now, pool, place);
            if self.awaits_heir(place) {
                return false;
            }
        }
        let known = self.units.at(place);
        if known.owner == 0 || self.settings.plant == Some(Plant::EndForgotten) {
            return true;
        }
        if known.tick > known.out {
            return false;
        }
        let mut note = Vec::new();
        notes::write(&notes::Note::FlowEnded { key: *key }, &mut note);
        self.number_tick(now, pool, place, &note)
    }

    /// True if more than `times` the reserve is free. The reserve is kept for entries: if
    /// incoming packets took all frames, none could be released.
    pub(super) fn leaves_reserve(&self, pool: &FramePool, times: usize) -> bool {
        let reserve = match self.settings.plant {
            Some(Plant::NoReserve) => 0,
            _ => self.settings.reserve as usize,
        };
        pool.available() > times * reserve
    }

    /// Handles an owner's request for a tick: numbered at once, or queued until there is
    /// room. Refused while a tick of the unit is in flight.
    pub(super) fn tick_asked(&mut self, now: Time, pool: &mut FramePool, place: u32) {
        let unit = self.units.at(place);
        if unit.tick > unit.out {
            return self.counts.add(SwitchCount::TickRefused);
        }
        if self.ticks.is_empty() && self.number_tick(now, pool, place, &[]) {
            return;
        }
        if self.settings.plant == Some(Plant::TickRefused) {
            return self.counts.add(SwitchCount::TickRefused);
        }
        let unit = self.units.at_mut(place);
        if !unit.has(mark::TICK) {
            unit.marks |= mark::TICK;
            let id = unit.id();
            self.ticks.push_back(id);
            self.counts.add(SwitchCount::TickDeferred);
        }
    }

    /// Numbers the ticks that wait for room. A unit that needs another view or has a tick in
    /// flight is skipped: its owner asks again.
    pub(super) fn number_ticks(&mut self, now: Time, pool: &mut FramePool) {
        self.ticks_tried = now;
        while !self.kept.keeps() || self.kept.has_room() {
            if !self.leaves_reserve(pool, 1) {
                return;
            }
            let Some(id) = self.ticks.pop_front() else {
                return;
            };
            let Some(place) = self.units.find(id) else {
                continue;
            };
            let unit = self.units.at_mut(place);
            unit.marks &= !mark::TICK;
            if unit.owner != 0 && unit.tick <= unit.out && !self.needs_view(place) {
                self.number_tick(now, pool, place, &[]);
            }
        }
    }

    /// Numbers a tick and sends it to the unit's owner. `what` is its payload: nothing, or a
    /// note of the flow to end. False if there is no room or the unit's clock is used up.
    pub(super) fn number_tick(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        place: u32,
        what: &[u8],
    ) -> bool {
        if self.kept.keeps() && !self.kept.has_room() || !self.leaves_reserve(pool, 1) {
            return false;
        }
        let unit = self.units.at(place);
        if unit.sent >= Clock::LAST.0 {
            return false;
        }
        let mut meta = FrameMeta::received(now.max(self.packet_time), 0);
        meta.unit = unit.id;
        meta.flags = frame_flags::TICK;
        let Ok(mut frame) = pool.copy(what, meta) else {
            return false;
        };
        let unit = self.units.at_mut(place);
        let step = 1 + u64::from(self.settings.plant == Some(Plant::NumberSkipped));
        if self.kept.keeps() {
            meta.flags |= unit.fresh & frame_flags::AFTER_LOSS;
            let copy = pool.copy(what, meta).ok();
            if copy.is_none() && self.every > 0 {
                // A replay needs the copy: a new tick would have another time, and give
                // another state.
                pool.give(frame);
                return false;
            }
            unit.sent += step;
            self.kept.push(unit, unit.sent, now, copy);
        } else {
            unit.sent += step;
            if !what.is_empty() {
                let said = (unit.id(), Clock(unit.sent), what.to_vec());
                self.ends_said.insert(place, said);
            }
        }
        unit.tick = unit.sent;
        if let Some(flowlets) = &mut self.flowlets {
            flowlets.outdate(place);
        }
        let (view, clock, fresh, owner) = (unit.view, unit.sent, unit.fresh, unit.owner);
        let meta = pool.memory().meta_mut(&mut frame);
        meta.clock = clock;
        meta.view = view;
        meta.flags |= fresh;
        self.counts.add(SwitchCount::TickNumbered);
        self.outbox.journal.note(Done::Numbered {
            unit: UnitId(meta.unit),
            view: View(view),
            clock: Clock(clock),
        });
        match self
            .outbox
            .queues
            .get_mut(usize::from(owner).wrapping_sub(1))
        {
            Some(queue) => queue.frames.push(frame),
            None => {
                self.internal.note("a tick for nobody");
                pool.give(frame);
            }
        }
        true
    }

    /// Marks a unit without owner, to be removed later if it still has none.
    pub(super) fn mark_orphan(&mut self, now: Time, place: u32) {
        let unit = self.units.at_mut(place);
        if !unit.has(mark::ORPHAN) {
            unit.marks |= mark::ORPHAN;
            let id = unit.id;
            self.timers.orphans.push_back((now, id));
        }
    }
}
