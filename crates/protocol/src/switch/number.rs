//! From the ports to the runtimes: classify, number, keep, send.

use weir_packet::{
    Disposition, FlowKey, Frame, FrameMeta, FramePool, PacketMemory, Time, frame_flags,
};
use weir_runtime::notes;

use super::units::mark;
use super::{Switch, SwitchCount, SwitchDrop};
use crate::ids::{Clock, UnitId, View};
use crate::journal::Done;
use crate::plant::Plant;

/// Units whose record is fetched ahead.
const AHEAD: usize = 24;

impl Switch {
    /// Packets from the ports, to be classified, numbered and sent on.
    pub fn ingress(&mut self, now: Time, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        self.packets.taken += frames.len() as u64;
        if self.recovery.is_some() {
            self.hold(pool, frames);
        } else {
            self.take(now, pool, frames);
        }
        self.advance(now, pool);
    }

    /// Classifies, numbers and sends.
    pub(super) fn take(&mut self, now: Time, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        let mut classified = core::mem::take(&mut self.classified);
        self.classifier.classify(pool, frames, &mut classified);
        self.number_all(now, pool, &mut classified);
        self.classified = classified;
    }

    fn number_all(&mut self, now: Time, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        let memory = pool.memory().clone();
        for frame in frames.iter().take(AHEAD) {
            self.units.prefetch(memory.meta(frame).unit);
        }
        let mut frames = frames.drain(..);
        while let Some(frame) = frames.next() {
            if let Some(next) = frames.as_slice().get(AHEAD - 1) {
                self.units.prefetch(memory.meta(next).unit);
            }
            self.number(now, pool, &memory, frame);
        }
    }

    #[inline]
    fn number(&mut self, now: Time, pool: &mut FramePool, memory: &PacketMemory, mut frame: Frame) {
        let (meta, bytes) = memory.read(&frame);
        let (id, len) = (meta.unit, meta.len);
        let place = id as u32;
        let unit = self.units.at(place);
        if (unit.id != id || unit.owner == 0 || self.sweep.is_on())
            && let Err(drop) = self.open_for(now, pool, id)
        {
            self.drops.add(drop);
            pool.give(frame);
            return;
        }
        let can_copy = self.kept.copies() && self.kept.has_room() && self.spares(pool, 2);
        let unit = self.units.at_mut(place);
        if unit.sent >= Clock::LAST.0 {
            self.drops.add(SwitchDrop::ClockUsedUp);
            pool.give(frame);
            return;
        }
        if self.kept.keeps() {
            let copy = if can_copy {
                // The unit's state was lost before this packet, whenever it is
                // sent again.
                let mut meta = *meta;
                meta.flags |= unit.fresh & frame_flags::AFTER_LOSS;
                pool.copy(bytes, meta).ok()
            } else {
                None
            };
            if !self.kept.has_room() || self.kept.copies() && copy.is_none() {
                self.drops.add(SwitchDrop::UnackedFull);
                pool.give(frame);
                return;
            }
            unit.sent += 1;
            self.kept.push(unit, unit.sent, now, copy);
        } else {
            unit.sent += 1;
        }
        let meta = memory.meta_mut(&mut frame);
        meta.clock = unit.sent;
        meta.view = unit.view;
        meta.flags |= unit.fresh;
        meta.disposition = Disposition::Pending;
        self.packets.flying += 1;
        self.packets.bytes += u64::from(len);
        self.outbox.journal.note(Done::Numbered {
            unit: UnitId(id),
            view: View(unit.view),
            clock: Clock(unit.sent),
        });
        match self.outbox.lanes.get_mut(usize::from(unit.owner) - 1) {
            Some(lane) => lane.frames.push(frame),
            None => {
                self.internal.note("a numbered packet for nobody");
                pool.give(frame);
            }
        }
    }

    /// Sees to it that a unit has a view in which a packet can be numbered.
    #[cold]
    fn open_for(&mut self, now: Time, pool: &mut FramePool, id: u64) -> Result<(), SwitchDrop> {
        let place = id as u32;
        if self.units.at(place).id != id {
            // A unit that the classifier has just named.
            if !self.units.begin(id) {
                return Err(SwitchDrop::UnackedFull);
            }
        } else if self.sweep.is_on() && self.needs_view(place) {
            self.react(now, pool, place);
        }
        let unit = self.units.at(place);
        if unit.owner != 0 {
            return Ok(());
        }
        // A view is opened only for a packet that will be numbered: without one no
        // owner would know of the unit, and nobody end it.
        let can_copy = !self.kept.copies() || self.spares(pool, 2);
        if self.kept.keeps() && !(self.kept.has_room() && can_copy) {
            self.orphan(now, place);
            return Err(SwitchDrop::UnackedFull);
        }
        if !self.has_views() {
            self.orphan(now, place);
            Err(SwitchDrop::ViewsUsedUp)
        } else if self.open_first(now, place) {
            Ok(())
        } else {
            self.orphan(now, place);
            Err(SwitchDrop::NoRuntime)
        }
    }

    /// Ends a flow of a unit, as somebody has asked from outside: a numbered
    /// tick with a note of it. Whoever owns the unit by then does nothing where
    /// it has no such flow. False where another tick of the unit is on its way
    /// or there is no room: ask again. A unit that is over has no flow to end.
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
        if self.sweep.is_on() && self.needs_view(place) {
            // No number is given in a view of a switch that is gone.
            self.react(now, pool, place);
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

    /// True where more frames are free than so many times those that are left
    /// for entries: what comes in must not take the frames of what lets it out.
    pub(super) fn spares(&self, pool: &FramePool, times: usize) -> bool {
        let reserve = match self.settings.plant {
            Some(Plant::NoReserve) => 0,
            _ => self.settings.reserve as usize,
        };
        pool.available() > times * reserve
    }

    /// An owner asks for a tick: numbered at once, or as soon as there is room.
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

    /// Numbers ticks that wait for room. One whose unit needs another view, or
    /// has had a tick since, is not: its owner asks again for what is due.
    pub(super) fn number_ticks(&mut self, now: Time, pool: &mut FramePool) {
        self.ticks_tried = now;
        while !self.kept.keeps() || self.kept.has_room() {
            if !self.spares(pool, 1) {
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

    /// Numbers a tick for the owner of a unit; false where there is no room.
    /// `what` is empty, or a note of the flow to end.
    pub(super) fn number_tick(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        place: u32,
        what: &[u8],
    ) -> bool {
        if self.kept.keeps() && !self.kept.has_room() || !self.spares(pool, 1) {
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
        if self.kept.keeps() {
            meta.flags |= unit.fresh & frame_flags::AFTER_LOSS;
            let copy = pool.copy(what, meta).ok();
            if copy.is_none() && self.every > 0 {
                // Applied again it would have another time.
                pool.give(frame);
                return false;
            }
            unit.sent += 1;
            self.kept.push(unit, unit.sent, now, copy);
        } else {
            unit.sent += 1;
        }
        unit.tick = unit.sent;
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
            .lanes
            .get_mut(usize::from(owner).wrapping_sub(1))
        {
            Some(lane) => lane.frames.push(frame),
            None => {
                self.internal.note("a tick for nobody");
                pool.give(frame);
            }
        }
        true
    }

    /// A unit without owner is removed after a while, if it stays so.
    pub(super) fn orphan(&mut self, now: Time, place: u32) {
        let unit = self.units.at_mut(place);
        if !unit.has(mark::ORPHAN) {
            unit.marks |= mark::ORPHAN;
            let id = unit.id;
            self.timers.orphans.push_back((now, id));
        }
    }
}
