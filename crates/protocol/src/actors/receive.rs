//! Data frames: to the engine in runs, and its entries into the books.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_packet::{Disposition, Frame, FrameMeta, FramePool, PacketMemory, Time, frame_flags};

use super::cold::{Keeper, Role};
use super::hold::Put;
use super::table::{COPYING, GAP, Hot, REPLICA, SILENT, UNSURE};
use super::{ActorCount, Actors, After, Place, RUN};
use crate::entry::to_part;
use crate::ids::{Clock, RuntimeId, UnitId, View};
use crate::in_process::PER_PACKET;
use crate::message::{Entry, EntryBatch, Message};
use crate::plant::Plant;
use weir_runtime::FRAMES_PER_TICK;

/// Frames that are no packet: they may leave a unit without state.
const NO_PACKET: u8 = frame_flags::TICK | frame_flags::LOST;

/// Packets that need as many frames as a tick, which may be among those that are held.
const PACKETS_PER_TICK: usize = FRAMES_PER_TICK / PER_PACKET;

const NOT_TAKEN: &str = "a frame that was put aside is not there";

impl Actors {
    /// Data frames from the switch. Where the driver waits
    /// ([`crate::settings::ActorSettings::waits`]) no more are taken out of `frames` than the
    /// pool has frames for what they cause: the rest is for the next call, when there are more.
    pub fn frames(&mut self, now: Time, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        if self.settings.is_logger {
            let refused = frames.len() as u64;
            self.counts.add_many(ActorCount::PacketRefused, refused);
            return pool.give_all(frames);
        }
        // A packet may be older than those before, and its flow be due at once.
        self.dues_seen = Time::ZERO;
        let most = frames.len().min(self.affords(pool));
        self.packets += most as u64;
        let memory = Arc::clone(pool.memory());
        let mut left = most;
        self.look_ahead(&memory, frames.get(..left).unwrap_or_default());
        while left > 0 {
            // The runs before may have caused more than is usual: each of many alerts is an event.
            let count = left.min(RUN).min(self.affords(pool));
            if count == 0 {
                self.packets -= left as u64;
                break;
            }
            left -= count;
            let asked = self.whose_turn(&memory, frames, count);
            // No local holds a frame while functions run, here and wherever the run is
            // given to the engine: a panic takes none with it ([`Actors::give_back`]).
            self.taken.extend(frames.drain(..count).rev());
            while let Some(frame) = self.taken.pop() {
                let meta = memory.meta(&frame);
                if meta.flags & NO_PACKET == 0
                    && let Some(keeps) = self.table.step(meta.unit, meta.view, meta.clock)
                {
                    self.keeping |= keeps;
                    self.run.push(frame);
                } else if self.lacks_frames(pool, meta) {
                    self.taken.push(frame);
                    break;
                } else {
                    self.odd_frame(now, pool, &memory, frame);
                    if self.affords(pool) < self.taken.len() {
                        // It was given to the engine by itself, and caused a lot.
                        break;
                    }
                }
            }
            // They arrive while the engine works.
            self.look_ahead(&memory, frames.get(..left).unwrap_or_default());
            self.flush(now, pool);
            if let Some(unit) = asked {
                self.ask_preference(now, unit);
            }
            if !self.taken.is_empty() {
                // A tick or packet that has to wait for frames, and all behind it.
                self.packets -= (self.taken.len() + left) as u64;
                frames.splice(..0, self.taken.drain(..).rev());
                break;
            }
        }
        self.want_leases(now);
    }

    /// True of a tick that has to wait for frames: those of the packets before it are not
    /// back yet.
    fn lacks_frames(&self, pool: &FramePool, meta: &FrameMeta) -> bool {
        let others = self.run.len() * PER_PACKET;
        self.settings.waits
            && meta.flags & frame_flags::TICK != 0
            && pool.available() < FRAMES_PER_TICK + others
    }

    /// Packets that can be taken beside those of the run.
    fn affords(&self, pool: &FramePool) -> usize {
        self.bears(pool).saturating_sub(self.run.len())
    }

    /// Packets that the pool has frames for, with what they cause: notes and
    /// emitted packets. Where the driver can't wait, packets are repeated: one that is dropped
    /// for want of a frame is no worse than one that was lost.
    fn bears(&self, pool: &FramePool) -> usize {
        let is_short = self.settings.plant == Some(Plant::FramesUnseen);
        match !self.settings.waits || is_short {
            true => usize::MAX,
            false => pool.available() / PER_PACKET,
        }
    }

    /// Fetches the records of the next run.
    #[inline]
    fn look_ahead(&self, memory: &PacketMemory, frames: &[Frame]) {
        for frame in frames.iter().take(RUN) {
            let unit = memory.meta(frame).unit;
            self.table.prefetch(unit);
            self.engine.expect(unit);
        }
    }

    /// A frame that is not simply the next packet of a live actor.
    #[cold]
    fn odd_frame(&mut self, now: Time, pool: &mut FramePool, memory: &PacketMemory, frame: Frame) {
        let meta = *memory.meta(&frame);
        let (unit, view, clock) = (UnitId(meta.unit), View(meta.view), Clock(meta.clock));
        if clock == Clock::ZERO || clock > Clock::LAST {
            self.counts.add(ActorCount::PacketRefused);
            return pool.give(frame);
        }
        if view.generation() < self.generation {
            self.counts.add(ActorCount::StalePacket);
            return pool.give(frame);
        }
        self.renew(pool, view.generation());
        match self.whereabouts(unit, view) {
            Place::Live => self.live_frame(now, pool, memory, &meta, frame),
            Place::Waiting => {
                self.counts.add(ActorCount::HeldForState);
                self.hold_frame(now, pool, &meta, frame);
            }
            Place::Unknown => {
                const KINDS: u8 = frame_flags::FRESH | frame_flags::AFTER_LOSS | frame_flags::LOST;
                // Only the first packet begins an actor: a frame is not
                // signed, and one that went astray must not. What stands for
                // the first one does not either: the actor that it began
                // elsewhere would be another than the owner's, which may have
                // got the packet. The switch opens such a view in words.
                if meta.flags & KINDS == frame_flags::FRESH && clock == Clock(1) {
                    self.taken.push(frame);
                    self.begin(now, pool, unit, view);
                    if let Some(frame) = self.internal.expect(self.taken.pop(), NOT_TAKEN) {
                        self.live_frame(now, pool, memory, &meta, frame);
                    }
                } else {
                    self.counts.add(ActorCount::HeldEarly);
                    self.hold_frame(now, pool, &meta, frame);
                }
            }
            Place::Stored => {
                if meta.flags & frame_flags::REPEATED != 0 {
                    self.say_stored(now, unit, view);
                }
                self.counts.add(ActorCount::Duplicate);
                pool.give(frame);
            }
            Place::Stale | Place::Refused => {
                self.counts.add(ActorCount::StalePacket);
                pool.give(frame);
            }
            Place::Nowhere => {
                self.counts.add(ActorCount::PacketRefused);
                pool.give(frame);
            }
        }
    }

    /// A first view: what was known of the unit's place is of another life.
    fn begin(&mut self, now: Time, pool: &mut FramePool, unit: UnitId, view: View) {
        let there = self.table.at(unit).unwrap_or_default();
        if there.is_live() || self.cold.contains_key(&there.unit) {
            self.flush(now, pool);
            self.drop_unit(pool, unit);
        }
        if self.claim(pool, unit, view) {
            self.counts.add(ActorCount::Fresh);
            self.make_live(pool, unit, view, Clock::ZERO);
            let early = match self.hold.has((unit, view)) {
                true => GAP,
                false => 0,
            };
            self.mark(unit, UNSURE | early, 0);
            self.after.push(After::Begun(unit));
        }
    }

    fn hold_frame(&mut self, now: Time, pool: &mut FramePool, meta: &FrameMeta, frame: Frame) {
        let key = (UnitId(meta.unit), View(meta.view));
        if self.hold.put(pool, now, key, Clock(meta.clock), frame) == Put::Overflow {
            self.counts.add(ActorCount::HoldOverflow);
        }
        self.sweep_after(now);
    }

    fn live_frame(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        memory: &PacketMemory,
        meta: &FrameMeta,
        frame: Frame,
    ) {
        let Some(hot) = self.table.live(UnitId(meta.unit)) else {
            self.internal
                .note("a packet of a live actor without a record");
            return pool.give(frame);
        };
        if meta.clock <= hot.clock.0 {
            self.counts.add(ActorCount::Duplicate);
            pool.give(frame);
            if meta.flags & frame_flags::REPEATED != 0 {
                self.echo(now, pool, hot);
            }
        } else if meta.clock > hot.limit.0 {
            self.counts.add(ActorCount::PacketRefused);
            pool.give(frame);
        } else if meta.clock > hot.clock.0 + 1 {
            self.counts.add(ActorCount::Gap);
            self.hold_frame(now, pool, meta, frame);
            self.mark(hot.unit, GAP, 0);
            if !self.ready.contains(&hot.unit) {
                self.ask_repeat(now, hot);
            }
        } else {
            self.accept(now, pool, memory, hot, frame);
            if hot.flags & GAP != 0 {
                self.release(now, pool, hot.unit);
            }
        }
    }

    /// Takes the packet that comes next for a live actor.
    fn accept(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        memory: &PacketMemory,
        mut hot: Hot,
        mut frame: Frame,
    ) {
        let flags = memory.meta(&frame).flags;
        let copied = hot.flags & COPYING != 0;
        let mut part = None;
        if copied {
            // A packet that may have to be copied is applied alone, so that its
            // own change is seen.
            self.taken.push(frame);
            self.flush(now, pool);
            frame = match self.internal.expect(self.taken.pop(), NOT_TAKEN) {
                Some(frame) => frame,
                None => return,
            };
            part = Some(to_part(memory, &frame));
        }
        hot.clock = hot.clock.next();
        if hot.flags & SILENT != 0 {
            self.silence(memory, &mut hot, &mut frame);
        }
        self.table.set(hot);
        self.keeping |= hot.flags & REPLICA != 0;
        if flags & frame_flags::TICK != 0 {
            self.after.push(After::Ticked(hot.unit));
        } else if flags & frame_flags::LOST != 0 {
            self.after.push(After::Begun(hot.unit));
        }
        self.run.push(frame);
        if let Some(part) = part {
            self.flush(now, pool);
            self.send_copy(hot, part);
        }
        if hot.clock == hot.limit {
            self.after.push(After::Close(hot.unit));
        }
    }

    /// Applies what is held for the unit's live actor and has become its turn;
    /// no more than the pool has frames for.
    pub(super) fn release(&mut self, now: Time, pool: &mut FramePool, unit: UnitId) {
        let memory = Arc::clone(pool.memory());
        while let Some(hot) = self.table.live(unit) {
            let key = (unit, hot.view);
            if self.affords(pool) < PACKETS_PER_TICK && self.hold.has(key) {
                if !self.run.is_empty() {
                    self.flush(now, pool);
                    continue;
                }
                self.counts.add(ActorCount::HeldForFrames);
                self.mark(unit, GAP, 0);
                self.ready.insert(unit);
                return;
            }
            let next = match hot.clock < hot.limit {
                true => self.hold.next(pool, key, hot.clock.next()),
                false => None,
            };
            if let Some(frame) = next {
                self.accept(now, pool, &memory, hot, frame);
                continue;
            }
            if self.hold.has(key) {
                self.mark(unit, GAP, 0);
                self.ask_repeat(now, hot);
            } else {
                self.mark(unit, 0, GAP);
                if hot.flags & SILENT == 0
                    && let Some(cold) = self.cold.get_mut(&unit)
                {
                    cold.live.asked = None;
                }
            }
            break;
        }
    }

    /// Gives the run to the engine, keeps and sends its entries, and does what
    /// is to be done after it.
    pub(super) fn flush(&mut self, now: Time, pool: &mut FramePool) {
        if !self.run.is_empty() {
            if self.bears(pool) < self.run.len() {
                self.internal
                    .note("packets are applied that there may be too few frames for");
            }
            let keeping = core::mem::take(&mut self.keeping)
                || self.settings.keep_outputs
                || self.settings.plant == Some(Plant::DropWithoutEntry);
            if keeping {
                self.engine.apply(pool, &mut self.run, &mut self.scratch);
                let mut entries = core::mem::take(&mut self.scratch);
                self.keep(now, pool, &mut entries);
                self.scratch = entries;
            } else {
                self.engine
                    .apply(pool, &mut self.run, &mut self.outbox.entries);
            }
        }
        while let Some(after) = self.after.pop() {
            match after {
                After::Close(unit) => self.close(now, unit),
                After::Ticked(unit) => self.look_for_end(now, unit, true),
                After::Begun(unit) => self.look_for_end(now, unit, false),
            }
        }
    }

    /// Puts entries into the units' books and sends them on: to the switch, or
    /// to the units' replicas.
    fn keep(&mut self, now: Time, pool: &mut FramePool, entries: &mut Vec<Frame>) {
        let memory = Arc::clone(pool.memory());
        let mut batches: BTreeMap<(RuntimeId, UnitId), EntryBatch> = BTreeMap::new();
        let mut owed: Vec<UnitId> = Vec::new();
        let mut parts = Vec::new();
        let mut frames: Vec<Frame> = Vec::new();
        for frame in entries.drain(..) {
            let meta = memory.meta(&frame);
            let (unit, view) = (UnitId(meta.unit), View(meta.view));
            let (clock, disposition) = (Clock(meta.clock), meta.disposition);
            parts.push(to_part(&memory, &frame));
            frames.push(frame);
            if !disposition.closes() {
                continue;
            }
            let mut parts = core::mem::take(&mut parts);
            if disposition == Disposition::Dropped
                && self.settings.plant == Some(Plant::DropWithoutEntry)
            {
                pool.give_all(&mut frames);
                continue;
            }
            let keeper = self.cold.get(&unit).map(|cold| &cold.live);
            let replica = keeper.and_then(Keeper::passes_on);
            let is_owed = keeper.is_some_and(Keeper::owes);
            if replica.is_none() && !is_owed && !self.settings.keep_outputs {
                self.outbox.entries.append(&mut frames);
                continue;
            }
            self.ports.note(now, (unit, clock), &parts);
            self.shorten(pool, &mut parts, &mut frames);
            let entry = Entry { clock, parts };
            match replica {
                None => self.outbox.entries.append(&mut frames),
                Some(replica) => {
                    pool.give_all(&mut frames);
                    let batch = batches
                        .entry((replica, unit))
                        .or_insert_with(|| EntryBatch {
                            unit,
                            view,
                            clock,
                            state: crate::message::StateUpdate::Omitted,
                            entries: Vec::new(),
                        });
                    batch.clock = clock;
                    batch.entries.push(entry.clone());
                }
            }
            self.sample(now, unit, clock);
            if is_owed && owed.last() != Some(&unit) {
                owed.push(unit);
            }
            let kept = &mut self.cold.entry(unit).or_default().live.kept;
            kept.push(entry);
            if self.settings.plant == Some(Plant::OwnerForgets) {
                kept.clear();
            }
        }
        // An entry without an end is a fault of the engine; no frame leaks.
        pool.give_all(&mut frames);
        self.replicate(batches);
        for unit in owed {
            self.owe(now, unit);
        }
    }

    /// Asks the switch, once in a while, for what is missing.
    pub(super) fn ask_repeat(&mut self, now: Time, hot: Hot) {
        let wait = self.until_asked_again();
        let cold = self.cold.entry(hot.unit).or_default();
        let due = cold.live.asked.map(|at| at.plus(wait));
        if due.is_none_or(|due| due <= now) {
            cold.live.asked = Some(now);
            self.counts.add(ActorCount::RepeatAsked);
            self.tell_switch(Message::Repeat {
                unit: hot.unit,
                view: hot.view,
                after: hot.clock,
            });
        }
        self.arm(hot.unit, now.plus(wait));
    }

    /// The switch repeats a packet that was applied: it misses the entry.
    fn echo(&mut self, now: Time, pool: &mut FramePool, hot: Hot) {
        self.flush(now, pool);
        let again = self.until_said_again();
        let due = self
            .cold
            .get(&hot.unit)
            .is_some_and(|cold| !cold.live.kept.is_empty() && cold.live.said.plus(again) <= now);
        if due {
            self.counts.add(ActorCount::SaidAgain);
            self.say(now, hot.unit, false);
        }
    }

    /// The same for an actor whose view is over. Only the source of a planned
    /// view can still be heard.
    fn say_stored(&mut self, now: Time, unit: UnitId, view: View) {
        let again = self.until_said_again();
        let stored = self
            .cold
            .get_mut(&unit)
            .and_then(|c| c.stored.get_mut(&view));
        let Some(stored) = stored else {
            return self.internal.note("a stored actor that is not there");
        };
        let due = stored.role == Role::Source
            && !stored.kept.is_empty()
            && stored.said.plus(again) <= now;
        if due {
            stored.said = now;
            self.counts.add(ActorCount::SaidAgain);
            self.say_of_stored(unit, view);
        }
    }
}
