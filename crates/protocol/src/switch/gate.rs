//! The gate: which entry is let out, and what happens then.

use weir_packet::{Disposition, Frame, FramePool, PacketMemory, Time, frame_flags};

use super::kept::Parked;
use super::runtimes::Slot;
use super::units::{Unit, mark};
use super::{Meter, Switch, SwitchCount, SwitchDrop};
use crate::entry::to_frame;
use crate::ids::{Clock, RuntimeId, UnitId, View};
use crate::journal::Done;
use crate::message::{EntryBatch, Message};
use crate::plant::Plant;

/// Flags that say how a packet was sent, and end with its entry.
const SENDING: u8 = frame_flags::FRESH | frame_flags::AFTER_LOSS | frame_flags::REPEATED;

/// Units whose record is fetched ahead.
const AHEAD: usize = 12;

/// Most side frames of one entry.
const MOST_SIDE: usize = 2_048;

/// The decision on an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    LetOut,
    Park,
    Refused(SwitchCount),
}

impl Switch {
    /// Entries from a ring, as frames (see the crate's documentation). An
    /// entry may come in parts over several calls.
    pub fn entries(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        from: RuntimeId,
        frames: &mut Vec<Frame>,
    ) {
        let slot = self.runtimes.find(from).unwrap_or(0);
        if !self.runtimes.is_here(slot) {
            self.counts.add(SwitchCount::MessageFromStranger);
            pool.give_all(frames);
            return;
        }
        let memory = pool.memory().clone();
        let mut side = match self.runtimes.get_mut(slot) {
            Some(runtime) => core::mem::take(&mut runtime.partial),
            None => Vec::new(),
        };
        for frame in frames.iter().take(AHEAD) {
            self.units.prefetch(memory.meta(frame).unit);
        }
        let mut drain = frames.drain(..);
        while let Some(frame) = drain.next() {
            if let Some(next) = drain.as_slice().get(AHEAD - 1) {
                self.units.prefetch(memory.meta(next).unit);
            }
            if side.is_empty() {
                match self.let_out_plain(now, pool, &memory, slot, frame) {
                    None => continue,
                    Some(frame) => {
                        self.part(now, pool, &memory, slot, &mut side, frame);
                    }
                }
            } else {
                self.part(now, pool, &memory, slot, &mut side, frame);
            }
        }
        drop(drain);
        if let Some(runtime) = self.runtimes.get_mut(slot) {
            runtime.partial = side;
        }
        self.end_burst(now, pool);
    }

    /// Lets out an entry that is one frame, next in order, of a settled view;
    /// gives any other back.
    #[inline]
    fn let_out_plain(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        memory: &PacketMemory,
        from: Slot,
        mut frame: Frame,
    ) -> Option<Frame> {
        let meta = memory.meta_mut(&mut frame);
        let place = meta.unit as u32;
        let unit = self.units.at(place);
        let (speaker, retain) = (self.speaker(unit), self.retains(unit));
        let unit = self.units.at_mut(place);
        let is_plain = meta.unit == unit.id
            && meta.view == unit.view
            && meta.clock == unit.out + 1
            && meta.clock <= unit.sent
            && meta.clock != unit.tick
            && unit.pending == 0
            && unit.fresh == 0
            && !unit.has(mark::LEAVING)
            && from == speaker
            && retain == (self.every > 0)
            && matches!(meta.disposition, Disposition::Out | Disposition::Dropped)
            && !self.sweep.is_on()
            && self.takeovers.is_empty();
        if !is_plain {
            return Some(frame);
        }
        meta.flags &= !SENDING;
        let (len, path, disposition) = (meta.len, meta.path(), meta.disposition);
        let whole = meta.wire_len;
        self.outbox.journal.note(Done::LetOut {
            unit: UnitId(unit.id),
            view: View(unit.view),
            clock: Clock(unit.out + 1),
        });
        unit.out += 1;
        self.packets.flying = self.packets.flying.saturating_sub(1);
        self.counts.add(SwitchCount::LetOut);
        if self.settings.acknowledge && !unit.has(mark::ACK) {
            unit.marks |= mark::ACK;
            self.acks.push(place);
        }
        let mut more = false;
        if unit.first != 0 {
            let out = unit.out;
            let sent = self.kept.release(unit, out, retain, pool);
            more = self.kept.is_next_parked(unit, out + 1);
            self.measure(now, from, sent);
        }
        if disposition == Disposition::Out {
            self.packets.out += 1;
            self.packets.bytes_out += u64::from(len);
            self.meter.left(path, len);
            self.outbox.out.push(frame);
        } else {
            self.meter.dropped(path, whole);
            self.drops.add(SwitchDrop::Functions);
            pool.give(frame);
        }
        if more {
            self.let_out_parked(now, pool, memory, place);
        }
        None
    }

    /// A frame of an entry: kept aside until the closing one comes.
    fn part(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        memory: &PacketMemory,
        from: Slot,
        side: &mut Vec<Frame>,
        frame: Frame,
    ) {
        let meta = memory.meta(&frame);
        let differs = side.first().is_some_and(|first| {
            let first = memory.meta(first);
            (first.unit, first.view, first.clock) != (meta.unit, meta.view, meta.clock)
        });
        if differs || side.len() >= MOST_SIDE {
            self.counts.add(SwitchCount::EntryTorn);
            pool.give_all(side);
        }
        if meta.disposition.closes() {
            self.entry(now, pool, memory, from, side, frame);
        } else if meta.disposition == Disposition::Pending {
            self.counts.add(SwitchCount::EntryTorn);
            pool.give(frame);
        } else {
            side.push(frame);
        }
    }

    /// Entries that came as a message.
    pub(super) fn batch(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        from: Slot,
        batch: &EntryBatch,
    ) {
        let memory = pool.memory().clone();
        let mut side = Vec::new();
        for entry in &batch.entries {
            let name = (batch.unit, batch.view, entry.clock);
            let Some((own, before)) = entry.parts.split_last() else {
                self.counts.add(SwitchCount::EntryTorn);
                continue;
            };
            let is_odd = |disposition: Disposition| {
                disposition.closes() || disposition == Disposition::Pending
            };
            if !own.disposition.closes() || before.iter().any(|part| is_odd(part.disposition)) {
                self.counts.add(SwitchCount::EntryTorn);
                continue;
            }
            let mut whole = true;
            for part in before {
                match to_frame(pool, name, part) {
                    Ok(frame) => side.push(frame),
                    Err(_) => whole = false,
                }
            }
            match to_frame(pool, name, own) {
                Ok(frame) if whole => self.entry(now, pool, &memory, from, &mut side, frame),
                other => {
                    self.counts.add(SwitchCount::EntryNoFrame);
                    self.owe_entry(now, batch.unit, entry.clock);
                    other.into_iter().for_each(|frame| pool.give(frame));
                    pool.give_all(&mut side);
                }
            }
        }
    }

    /// A whole entry: `side` and the closing frame.
    fn entry(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        memory: &PacketMemory,
        from: Slot,
        side: &mut Vec<Frame>,
        frame: Frame,
    ) {
        let meta = memory.meta(&frame);
        let (unit, view, clock) = (UnitId(meta.unit), View(meta.view), Clock(meta.clock));
        if self.sweep.is_on()
            && let Some(place) = self.units.find(unit)
            && self.needs_view(place)
        {
            self.react(now, pool, place);
        }
        match self.admit(from, unit, view, clock) {
            Admission::LetOut if self.waits_for_name(unit, side, memory) => {
                self.park(now, pool, from, (unit, view, clock), side, frame);
            }
            Admission::LetOut => {
                let place = unit.slot();
                self.let_out(now, pool, memory, (place, view, clock), side, frame);
                self.let_out_parked(now, pool, memory, place);
            }
            Admission::Park => self.park(now, pool, from, (unit, view, clock), side, frame),
            Admission::Refused(why) => {
                self.refuse_entry(from, unit, view, why);
                self.free_unheard(from, memory, side);
                pool.give_all(side);
                pool.give(frame);
            }
        }
    }

    /// The rule of the gate (design §7): n = out + 1, in the current view, or
    /// in the settled one up to the clock at which it was closed as planned,
    /// while the current one is unsettled.
    fn admit(&self, from: Slot, id: UnitId, view: View, clock: Clock) -> Admission {
        let Some(place) = self.units.find(id) else {
            return Admission::Refused(SwitchCount::EntryUnknownUnit);
        };
        let unit = self.units.at(place);
        let plant = self.settings.plant;
        let speaker = if view == unit.view() && unit.owner != 0 {
            Some(self.speaker(unit))
        } else {
            self.pendings
                .get(unit.pending)
                .filter(|p| {
                    let is_past = clock > p.base && plant != Some(Plant::ClosedGoesOn);
                    p.planned && p.old == view && !is_past
                })
                .map(|p| {
                    if p.old_replica != 0 && self.every == 0 {
                        p.old_replica
                    } else {
                        p.old_owner
                    }
                })
        };
        match speaker {
            Some(speaker) if speaker != from => {
                return Admission::Refused(SwitchCount::EntryNotOwner);
            }
            None if plant != Some(Plant::NoViewCheck) => {
                return Admission::Refused(SwitchCount::EntryOldView);
            }
            _ => {}
        }
        if clock.0 > unit.sent {
            Admission::Refused(SwitchCount::EntryNotSent)
        } else if clock.0 == unit.out + 1 || plant == Some(Plant::NoOrderAtGate) {
            Admission::LetOut
        } else if clock.0 <= unit.out {
            Admission::Refused(SwitchCount::EntryDuplicate)
        } else {
            Admission::Park
        }
    }

    fn refuse_entry(&mut self, from: Slot, id: UnitId, view: View, why: SwitchCount) {
        self.counts.add(why);
        match why {
            SwitchCount::EntryDuplicate => self.acknowledge(id.slot()),
            SwitchCount::EntryUnknownUnit => self.disown(from, id),
            SwitchCount::EntryOldView => self.correct(from, id, view),
            _ => {}
        }
    }

    /// Tells a runtime that a unit is over.
    pub(super) fn disown(&mut self, to: Slot, id: UnitId) {
        // A switch that gathers claims knows no unit yet.
        if self.recovery.is_some() || self.told == (id.0, to) {
            return;
        }
        // It may have the newest copy of a unit that is over, while older ones
        // are still there: its turn comes.
        if self.forgets.has_last(id) {
            return;
        }
        self.told = (id.0, to);
        let below = self.next_view;
        self.tell(
            to,
            Message::Forget {
                unit: id,
                below,
                ended: true,
            },
        );
    }

    /// Tells a runtime that still works in a view older than the settled one.
    pub(super) fn correct(&mut self, to: Slot, id: UnitId, view: View) {
        let unit = self.units.at(id.slot());
        let settled = match self.pendings.get(unit.pending) {
            Some(pending) => pending.old,
            None if unit.fresh != 0 => View::NONE,
            None if unit.owner == 0 => unit.view().next(),
            None => unit.view(),
        };
        if view < settled && self.told != (id.0, to) {
            self.told = (id.0, to);
            self.tell(
                to,
                Message::Forget {
                    unit: id,
                    below: settled,
                    ended: false,
                },
            );
        }
    }

    /// Keeps an entry that came early. Of two of one clock the one of the
    /// newer view stays.
    fn park(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        from: Slot,
        (id, view, clock): (UnitId, View, Clock),
        side: &mut Vec<Frame>,
        frame: Frame,
    ) {
        let unit = self.units.at_mut(id.slot());
        let there = self.kept.parked_view(unit, clock.0);
        if there.is_some_and(|there| there >= view.0) {
            self.counts.add(SwitchCount::EntryDuplicate);
            pool.give_all(side);
            pool.give(frame);
            return;
        }
        // Waiting entries must leave room for the entry that they wait for. Where
        // nothing is repeated entries come in frames of their own.
        if self.settings.acknowledge && pool.is_low(&frame) {
            self.counts.add(SwitchCount::EntryNoFrame);
            self.owe_entry(now, id, clock);
            pool.give_all(side);
            pool.give(frame);
            return;
        }
        let mut frames = core::mem::take(side);
        frames.push(frame);
        let entry = Parked {
            view: view.0,
            from,
            frames,
        };
        self.kept.park(unit, clock.0, entry, pool);
        self.counts.add(SwitchCount::Parked);
    }

    /// Lets out what was parked and is next; its view is looked at again.
    pub(super) fn let_out_parked(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        memory: &PacketMemory,
        place: u32,
    ) {
        loop {
            let unit = self.units.at(place);
            let next = unit.out + 1;
            let Some(mut parked) = self.kept.take_parked(unit, next) else {
                return;
            };
            let Some(frame) = parked.frames.pop() else {
                return self.internal.note("a parked entry without a frame");
            };
            let (id, view, clock) = (unit.id(), View(parked.view), Clock(next));
            if self.admit(parked.from, id, view, clock) == Admission::LetOut {
                if self.waits_for_name(id, &parked.frames, memory) {
                    parked.frames.push(frame);
                    let unit = self.units.at_mut(place);
                    return self.kept.park(unit, next, parked, pool);
                }
                self.counts.add(SwitchCount::ParkedLetOut);
                let name = (place, view, clock);
                self.let_out(now, pool, memory, name, &mut parked.frames, frame);
            } else {
                self.counts.add(SwitchCount::ParkedRefused);
                self.free_unheard(parked.from, memory, &parked.frames);
                pool.give_all(&mut parked.frames);
                pool.give(frame);
                return;
            }
        }
    }

    /// Lets an entry out, whole: first its names, then its outputs, then `out`
    /// is its clock.
    fn let_out(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        memory: &PacketMemory,
        (place, view, clock): (u32, View, Clock),
        side: &mut Vec<Frame>,
        frame: Frame,
    ) {
        let unit = self.units.at(place);
        let (id, is_current, is_tick) = (unit.id(), view == unit.view(), clock.0 == unit.tick);
        let late = self.settings.plant == Some(Plant::AliasAfterOutput);
        let mut leased = super::names::Leased::default();
        for frame in side.iter() {
            let (meta, bytes) = memory.read(frame);
            if meta.disposition == Disposition::Notes {
                self.take_names((id, clock), bytes, late, &mut leased);
            }
        }
        if !late {
            self.take_leases(id, &leased);
        }
        self.outbox.journal.note(Done::LetOut {
            unit: id,
            view,
            clock,
        });
        self.counts.add(if is_current {
            SwitchCount::LetOut
        } else {
            SwitchCount::LetOutClosing
        });
        for mut frame in side.drain(..) {
            let meta = memory.meta_mut(&mut frame);
            if meta.disposition == Disposition::Emitted {
                meta.flags &= !SENDING;
                self.packets.emitted += 1;
                self.packets.out += 1;
                if self.settings.plant != Some(Plant::BytesUncounted) {
                    self.packets.bytes_out += u64::from(meta.len);
                }
                self.meter.emitted(meta.len);
                self.outbox.out.push(frame);
            } else {
                self.take_events(memory.bytes(&frame));
                pool.give(frame);
            }
        }
        self.packet_out(pool, memory, is_tick, frame);
        if is_tick {
            self.ends_said.remove(&place);
        }
        let unit = self.units.at_mut(place);
        unit.out = unit.out.max(clock.0);
        let out = unit.out;
        let leaving = unit.has(mark::LEAVING);
        self.let_go(now, pool, place, out);
        if leaving {
            self.let_names_go(place);
        }
        self.acknowledge(place);
        if is_current {
            let unit = self.units.at(place);
            // An entry from the owner does not say what the replica has.
            let says_held = self.every == 0 || unit.replica == 0;
            if !unit.is_settled() && says_held {
                self.counts.add(SwitchCount::SettledByEntry);
                self.settle(now, place);
            }
        } else {
            self.closed_out(now, pool, place);
        }
    }

    /// The unit's packets up to `out` are answered: their copies go, or stay until
    /// a replica's state contains them.
    fn let_go(&mut self, now: Time, pool: &mut FramePool, place: u32, out: u64) {
        let unit = self.units.at(place);
        let (speaker, retain) = (self.speaker(unit), self.retains(unit));
        let unit = self.units.at_mut(place);
        if unit.first != 0 {
            let sent = self.kept.release(unit, out, retain, pool);
            self.measure(now, speaker, sent);
        }
        if self.every > 0 && !retain {
            self.kept.state_held(place, out, pool);
        }
    }

    /// The runtime that sends the entries of the unit's current view.
    #[inline]
    fn speaker(&self, unit: &Unit) -> Slot {
        if self.every > 0 {
            unit.owner
        } else {
            unit.holder()
        }
    }

    /// True where packets that are let out are kept until a replica's state
    /// contains them. Without a replica the owner alone has the state.
    #[inline]
    fn retains(&self, unit: &Unit) -> bool {
        self.every > 0
            && self.settings.plant != Some(Plant::PacketsNotKept)
            && (unit.replica != 0
                || self
                    .pendings
                    .get(unit.pending)
                    .is_some_and(|p| p.old_replica != 0))
    }

    /// The packet's own frame leaves, in the way its disposition says.
    fn packet_out(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        is_tick: bool,
        mut frame: Frame,
    ) {
        if is_tick {
            pool.give(frame);
            return;
        }
        self.packets.flying = self.packets.flying.saturating_sub(1);
        let meta = memory.meta_mut(&mut frame);
        meta.flags &= !SENDING;
        let (len, path, whole) = (meta.len, meta.path(), meta.wire_len);
        match meta.disposition {
            Disposition::Out => {
                self.meter.left(path, len);
                self.packets.out += 1;
                self.packets.bytes_out += u64::from(meta.len);
                self.outbox.out.push(frame);
            }
            Disposition::Turned => {
                self.meter.passed(path, len);
                self.counts.add(SwitchCount::Turned);
                self.packets.turning += 1;
                self.turned.push(frame);
            }
            Disposition::Applied => {
                self.drops.add(SwitchDrop::Lost);
                pool.give(frame);
            }
            _ => {
                self.meter.dropped(path, whole);
                self.drops.add(SwitchDrop::Functions);
                pool.give(frame);
            }
        }
    }

    /// Totals of what was let out, as it is billed.
    pub fn meter(&mut self) -> &Meter {
        self.meter.add_up();
        &self.meter
    }

    /// A packet that was sent once, at `sent`, is answered by what `from` says.
    #[inline]
    fn measure(&mut self, now: Time, from: Slot, sent: Option<Time>) {
        if let Some(sent) = sent
            && let Some(runtime) = self.runtimes.get_mut(from)
        {
            runtime.trip.measure(now.since(sent));
            self.is_measured = true;
        }
    }

    /// Notes that the keepers of a unit's outputs are to be told how far it
    /// is let out.
    fn acknowledge(&mut self, place: u32) {
        let unit = self.units.at_mut(place);
        if self.settings.acknowledge && !unit.has(mark::ACK) {
            unit.marks |= mark::ACK;
            self.acks.push(place);
        }
    }

    /// Does what is left when a burst has been taken in: acknowledgements,
    /// packets that enter again, views that may open now.
    pub(super) fn end_burst(&mut self, now: Time, pool: &mut FramePool) {
        self.told = (0, 0);
        self.find_wait();
        let mut acks = core::mem::take(&mut self.acks);
        for place in acks.drain(..) {
            self.send_out(place);
        }
        self.acks = acks;
        self.tell_freed();
        if !self.turned.is_empty() {
            let mut turned = core::mem::take(&mut self.turned);
            self.enter_again(now, pool, &mut turned);
            self.turned = turned;
        }
        self.advance(now, pool);
        self.serve_waiting();
    }

    fn send_out(&mut self, place: u32) {
        let unit = self.units.at_mut(place);
        unit.marks &= !mark::ACK;
        let (id, out) = (unit.id(), Clock(unit.out));
        let current = (unit.view(), unit.owner, unit.replica);
        if id.0 == 0 {
            return;
        }
        let old = self
            .pendings
            .get(unit.pending)
            .map(|p| (p.old, p.old_owner, p.old_replica));
        for (view, owner, replica) in [Some(current), old].into_iter().flatten() {
            for keeper in [owner, replica] {
                if keeper != 0 {
                    self.tell(
                        keeper,
                        Message::Out {
                            unit: id,
                            view,
                            out,
                        },
                    );
                }
            }
        }
    }

    /// Packets that were turned enter as from the other side.
    fn enter_again(&mut self, now: Time, pool: &mut FramePool, turned: &mut Vec<Frame>) {
        let memory = pool.memory().clone();
        self.packets.turning -= turned.len() as u64;
        for frame in turned.iter_mut() {
            let meta = memory.meta_mut(frame);
            meta.disposition = Disposition::Pending;
            meta.unit = 0;
            meta.clock = 0;
            meta.view = 0;
            meta.set_path(0);
        }
        self.take(now, pool, turned);
    }
}
