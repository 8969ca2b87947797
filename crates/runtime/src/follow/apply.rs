//! Packets of units that live here, in; their entries, out.

use weir_nf::CloseReason;
use weir_nf::host::{BURST, Place};
use weir_packet::{
    Direction, Disposition, FlowKey, FragmentKey, Frame, FrameMeta, FramePool, PacketMemory,
    frame_flags as flags,
};

use super::units::BELONGINGS;
use super::{FOLLOWS, following};
use crate::classify::Classified;
use crate::drops::EngineDrop;
use crate::flows::Found;
use crate::fragments::Owner;
use crate::look::Kinds;
use crate::notes::{self, Note};
use crate::runtime::Runtime;
use crate::scratch::Lookup;

/// Flows and open aliases that one tick ends, but for the aliases of its last
/// flow: what it causes must find room.
pub(crate) const ENDS_PER_TICK: usize = 512;
/// Frames that must be free before a tick is applied, for notes of so many.
pub const FRAMES_PER_TICK: usize = 16;

/// The result of giving a packet its flow.
pub(super) enum Given {
    /// It has one, or none is for it.
    Done,
    /// It is dropped.
    Refused(EngineDrop),
    /// The burst ends before it.
    Cut,
}

impl Runtime {
    /// Applies packets of units that live here, each in its unit's order, and
    /// gives the entry of each, in the order of `input`: side frames
    /// ([`weir_packet::Disposition::Emitted`], [`weir_packet::Disposition::Notes`]) and then
    /// the packet's own frame with what has become of it. All frames of an
    /// entry carry the packet's unit, clock and view. A packet of a unit
    /// that is not here makes it. Frames with `NO_OUTPUT` are applied and go
    /// back to `pool`: no entry, no event, no count; `LOST` ones do nothing and
    /// `TICK` ones end the flow of which they carry a note, else what is due in
    /// their unit at their time (at most 512
    /// flows and open aliases; what is left is due again).
    ///
    /// Notes that must not be lost (aliases, ends, leases) need a frame: where none
    /// is free a packet is not applied but dropped, counted as `no_frame`.
    /// Emitted packets and events are lost then, and counted as well; the entry says how many
    /// emitted packets its own lacks ([`Note::EmitsLost`]).
    ///
    /// # Panics
    ///
    /// In an engine that is alone.
    pub fn apply(
        &mut self,
        pool: &mut FramePool,
        input: &mut Vec<Frame>,
        entries: &mut Vec<Frame>,
    ) {
        assert!(
            self.follow.is_some(),
            "only an engine that follows a switch applies its packets"
        );
        while !input.is_empty() {
            self.apply_burst(pool, input, entries);
        }
    }

    /// Applies at most a burst from the front of `input`.
    fn apply_burst(
        &mut self,
        pool: &mut FramePool,
        input: &mut Vec<Frame>,
        entries: &mut Vec<Frame>,
    ) {
        let start = self.cost.now();
        let memory = self.waiting.take_memory(pool);
        let first = input.first().map_or(0, |frame| memory.meta(frame).flags);
        let silent = first & flags::NO_OUTPUT != 0;
        self.world.silent = silent;
        if first & (flags::LOST | flags::TICK) != 0 {
            self.apply_nothing(pool, &memory, input, entries);
        } else {
            let alike = alike(&memory, &input[..input.len().min(BURST)]);
            let room = if silent { alike } else { pool.available() };
            if room == 0 {
                self.refuse(&memory, input, entries);
            } else {
                let mut n = alike.min(room);
                if self.observers.are_there() {
                    n = self.watch_begin(&memory, &mut input[..n]);
                }
                self.world.emits.spare = n;
                self.apply_packets(pool, &memory, input, entries, n);
            }
        }
        self.world.silent = false;
        self.waiting.put_memory(memory);
        self.cost.end_burst(start);
    }

    fn apply_packets(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        input: &mut Vec<Frame>,
        entries: &mut Vec<Frame>,
        n: usize,
    ) {
        let found = self.classify(pool, memory, &mut input[..n]);
        if self.observers.are_there() {
            self.watch_classified(memory, &input[..found.count]);
        }
        if !self.world.silent {
            self.counts.take_in(found.count, found.bytes);
        }
        let dispositions = self.run(pool, memory, &mut input[..found.count], &found);
        if self.observers.are_there() {
            self.watch_leave(memory, &input[..found.count], &found, &dispositions);
        }
        self.leave_as_entries(pool, memory, input, entries, &found, dispositions);
        if self.observers.are_there() {
            self.watch_end();
        }
    }

    /// The first packet can't be applied: no frame is free for what it may
    /// cause.
    #[cold]
    fn refuse(&mut self, memory: &PacketMemory, input: &mut Vec<Frame>, entries: &mut Vec<Frame>) {
        let mut frame = input.remove(0);
        let meta = memory.meta_mut(&mut frame);
        meta.disposition = Disposition::Dropped;
        meta.set_path(0);
        self.counts.take_in(1, u64::from(meta.len));
        self.give_up_packet(memory, &frame, EngineDrop::NoFrame);
        entries.push(frame);
    }

    /// Applies the first frame, which is no packet: a tick or a lost one.
    #[cold]
    fn apply_nothing(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        input: &mut Vec<Frame>,
        entries: &mut Vec<Frame>,
    ) {
        // It stays where it is until functions have run: one that panics takes no frame with it.
        let frame = &mut input[0];
        let meta = memory.meta_mut(frame);
        meta.disposition = Disposition::Applied;
        meta.set_path(0);
        let meta = *meta;
        self.set_clock(meta.unit, meta.clock);
        let silent = self.world.silent;
        if meta.flags & flags::TICK != 0 {
            self.now = meta.time.0;
            self.world.caused_by(0);
            self.world.events.give_whole();
            if silent || pool.available() >= FRAMES_PER_TICK {
                match notes::read(memory.bytes(frame)).next() {
                    Some(Ok(Note::FlowEnded { key })) => {
                        self.end_one_in(pool, meta.unit, &key, meta.clock);
                    }
                    _ => self.end_due_in(pool, meta.unit, meta.time.0, meta.clock),
                }
            } else {
                self.counts.so_far.ticks_lost += 1;
            }
        }
        let frame = input.remove(0);
        if silent {
            self.drop_side_frames(pool);
            pool.give(frame);
            return;
        }
        if self.has_side_frames() {
            self.world.emits.spare = 0;
            self.sort_emitted();
            self.push_side_frames(pool, memory, 0, 0, &frame, entries);
            self.clear_side_frames();
        } else {
            self.world.events.clear();
        }
        entries.push(frame);
    }

    /// Notes the clock of a packet that reaches no flow in its unit.
    fn set_clock(&mut self, unit: u64, clock: u64) {
        let internal = &mut self.counts.internal;
        let Some((table, follow)) = following(internal, &mut self.table, &mut self.follow) else {
            return;
        };
        let Some(known) = follow.units.get(unit) else {
            return;
        };
        let head = match (known.root.checked_sub(1), table.scopes.last_mut()) {
            (Some(root), Some(scope)) => scope.records.blocks.head_mut(root),
            _ => match known.first.checked_sub(1) {
                Some(flow) => table.flows.blocks.head_mut(flow),
                None => return,
            },
        };
        head.clock = clock;
    }

    /// Gives each packet its flow, in order; cuts the burst where one depends
    /// on what those before it ask for.
    pub(crate) fn follow_all(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        frames: &mut [Frame],
        kinds: &Kinds,
        found: &mut Classified,
    ) {
        if let Some(follow) = &mut self.follow {
            follow.opened.clear();
        }
        let mut left = kinds.flows | kinds.later;
        loop {
            left = self.resolve_known::<true>(memory, frames, left, kinds);
            if left == 0 {
                return;
            }
            let i = left.trailing_zeros() as usize;
            left &= left - 1;
            let given = if kinds.later >> i & 1 != 0 {
                self.follow_later(memory, frames, i)
            } else {
                let direction = self.scratch.lookups[i].direction;
                self.follow_flow(pool, memory, frames, i, direction)
            };
            match given {
                Given::Done => {}
                Given::Refused(reason) => {
                    self.scratch.places[i] = Place::NONE;
                    found.alive &= !(1 << i);
                    if !self.world.silent {
                        self.refuse_packet(i, reason);
                    }
                }
                Given::Cut => {
                    found.count = i;
                    found.alive &= crate::scratch::all(i);
                    return;
                }
            }
        }
    }

    /// True where packet `i` may not be looked up yet: an earlier one of its
    /// unit in this burst has opened a flow and may ask for a name.
    fn waits(&self, unit: u64) -> bool {
        let follow = self.follow.as_ref();
        follow.is_some_and(|follow| follow.opened.contains(&unit))
    }

    /// True where one of the first `before` packets is of the unit.
    fn is_unit_busy(
        &self,
        memory: &PacketMemory,
        frames: &[Frame],
        unit: u64,
        before: usize,
    ) -> bool {
        frames[..before.min(frames.len())]
            .iter()
            .any(|frame| memory.meta(frame).unit == unit)
    }

    /// Gives packet `i` the flow of its unit that its key names, or opens one.
    #[inline(never)]
    fn follow_flow(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        frames: &mut [Frame],
        i: usize,
        direction: Direction,
    ) -> Given {
        let meta = *memory.meta(&frames[i]);
        let now = meta.time.0;
        if self.waits(meta.unit) {
            return Given::Cut;
        }
        if !self.enter_unit(meta.unit) {
            return Given::Refused(EngineDrop::NoSuchUnit);
        }
        let Lookup { key, .. } = self.scratch.lookups[i];
        let find = |runtime: &Runtime| runtime.find_in_unit(&key, direction, &meta);
        let asks = self.may_ask_aliases();
        // One of the unit's earlier packets may ask for the name that this one
        // has, or for one that goes with the flow that this one ends.
        let waits = |runtime: &Runtime| asks && runtime.is_unit_busy(memory, frames, meta.unit, i);
        let (mut ended, mut scope) = (false, None);
        let known = match find(self) {
            Some(Found::Flow(flow, direction)) => match self.why_over(flow, i, now) {
                None => Some((flow, direction)),
                Some(_) if self.is_busy(flow, i) || waits(self) => return Given::Cut,
                Some(why) => {
                    self.now = now;
                    self.world.caused_by(i);
                    self.set_head_clock(flow, meta.clock);
                    self.end_flow(pool, flow, why);
                    ended = true;
                    if let Some(Found::Unit(unit)) = find(self) {
                        scope = Some(unit);
                    }
                    None
                }
            },
            Some(Found::Unit(unit)) => {
                scope = Some(unit);
                None
            }
            _ => None,
        };
        let (flow, direction) = match known {
            Some(known) => known,
            None => {
                if waits(self) {
                    return Given::Cut;
                }
                let opened = self.open_in_unit(pool, memory, frames, i, direction, scope, &meta);
                let flow = match opened {
                    Ok(flow) => flow,
                    Err(reason) => return Given::Refused(reason),
                };
                if asks && let Some(follow) = &mut self.follow {
                    follow.opened.push(meta.unit);
                }
                // The end of the unit's flow under this key, a tick's
                // perhaps, may be let out when the switch has known the
                // packet by that flow already. (A unit that is one flow
                // keeps its key.) Its first packet follows no end.
                if ended || self.is_wide() && meta.clock > 1 {
                    self.note_opening(i, flow);
                }
                (flow, direction)
            }
        };
        let bytes = memory.bytes(&frames[i]);
        self.enter_in_unit(i, flow, direction, &meta, Some(bytes));
        if self.scratch.headers[i].is_fragment() {
            self.remember_datagram(memory, &frames[i], i, flow, direction);
        }
        Given::Done
    }

    /// Looks the key of a packet with this metadata up within its unit.
    fn find_in_unit(&self, key: &FlowKey, direction: Direction, meta: &FrameMeta) -> Option<Found> {
        let (table, follow) = (self.table.as_ref()?, self.follow.as_ref()?);
        let unit = follow.units.get(meta.unit)?;
        Some(table.find_in(&follow.units, unit, key, direction, meta.side))
    }

    /// Why `flow` ends before packet `i` of the burst, if it does.
    fn why_over(&self, flow: u32, i: usize, now: u64) -> Option<CloseReason> {
        let head = self.table.as_ref()?.flows.blocks.head(flow);
        self.reading.over(head, &self.scratch.headers[i], now)
    }

    /// Remembers the flow of a datagram whose first fragment this is.
    #[cold]
    fn remember_datagram(
        &mut self,
        memory: &PacketMemory,
        frame: &Frame,
        i: usize,
        flow: u32,
        direction: Direction,
    ) {
        let (meta, bytes) = memory.read(frame);
        let key = FragmentKey::of(bytes, &self.scratch.headers[i], self.reading.key());
        let internal = &mut self.counts.internal;
        let Some(key) = internal.expect(key, "a fragment has a key") else {
            return;
        };
        let Some((table, follow)) = following(internal, &mut self.table, &mut self.follow) else {
            return;
        };
        let id = table.flows.blocks.head(flow).id;
        let owner = Owner {
            flow,
            id,
            direction,
        };
        let unit = follow.units.get_mut(meta.unit);
        let Some(unit) = internal.expect(unit, "a flow's unit is here") else {
            return;
        };
        unit.changed |= BELONGINGS;
        if !follow.datagrams.first(unit, key, owner, meta.time.0) {
            self.counts.so_far.datagrams_forgotten += 1;
        }
    }

    /// Gives a later fragment the flow of its first one. Nothing is held here:
    /// the switch has held what came before its first one, so a first fragment
    /// that is not known was lost, and the later one goes the way of packets
    /// without a flow.
    fn follow_later(&mut self, memory: &PacketMemory, frames: &[Frame], i: usize) -> Given {
        let (meta, bytes) = memory.read(&frames[i]);
        let meta = *meta;
        if self.waits(meta.unit) {
            return Given::Cut;
        }
        let key = FragmentKey::of(bytes, &self.scratch.headers[i], self.reading.key());
        let owner = key.zip(self.follow.as_ref()).and_then(|(key, follow)| {
            let unit = follow.units.get(meta.unit)?;
            follow.datagrams.later(unit, &key, meta.time.0)
        });
        match owner {
            Some(owner) => self.enter_in_unit(i, owner.flow, owner.direction, &meta, None),
            None => {
                self.scratch.places[i] = Place::NONE;
                if !self.world.silent {
                    self.counts.so_far.fragments_alone += 1;
                }
            }
        }
        Given::Done
    }

    /// Makes the place of a unit its own. False where it can't have one: its
    /// number is beyond the table, or a later life lives there.
    fn enter_unit(&mut self, unit: u64) -> bool {
        let Some(follow) = self.counts.internal.expect(self.follow.as_mut(), FOLLOWS) else {
            return false;
        };
        let Some(there) = follow.units.at_place_of(unit).map(|there| there.id) else {
            return false;
        };
        if there == unit {
            return unit != 0;
        }
        if unit >> 32 <= there >> 32 && there != 0 || unit == 0 {
            return false;
        }
        if there != 0 {
            // It has ended: only the switch says so, and only it gives its
            // place to another.
            self.forget_unit(there);
        }
        let follow = self.follow.as_mut();
        follow.is_some_and(|follow| follow.units.begin(unit))
    }

    /// True where units are wider than flows.
    fn is_wide(&self) -> bool {
        let table = self.table.as_ref();
        table.is_some_and(|table| !table.scopes.is_empty())
    }

    fn set_head_clock(&mut self, flow: u32, clock: u64) {
        if let Some(table) = &mut self.table {
            table.flows.blocks.head_mut(flow).clock = clock;
        }
    }
}

/// How many of the first frames are packets that are all to be let out, or all
/// not.
fn alike(memory: &PacketMemory, frames: &[Frame]) -> usize {
    for frame in frames {
        memory.prefetch(frame);
    }
    let marks =
        |frame: &Frame| memory.meta(frame).flags & (flags::NO_OUTPUT | flags::LOST | flags::TICK);
    let Some(first) = frames.first().map(marks) else {
        return 0;
    };
    frames
        .iter()
        .position(|frame| marks(frame) != first)
        .unwrap_or(frames.len())
}
