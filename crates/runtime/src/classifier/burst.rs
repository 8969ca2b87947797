//! A burst's way through the classifier.

use std::sync::Arc;

use weir_nf::host::{BURST, OnMalformed};
use weir_nf::{FlowInfo, Scope};
use weir_packet::{
    Direction, FlowKey, FragmentKey, Frame, FrameMeta, FramePool, Packet, PacketMemory,
    ParseOptions, parse_into,
};

use super::names::NoRoom;
use super::{Classifier, head_of};
use crate::drops::EngineDrop;
use crate::flows::index::NONE;
use crate::fragments::{Owner, is_among};
use crate::look::{AHEAD, Kinds, ParseOutput, look_for_keys, unread};
use crate::open::{client_of, key_of_fields};
use crate::scratch::{Lead, all};

/// The result of classifying a burst, as masks.
struct Found {
    /// Packets that were classified; the rest waits for the next burst.
    count: usize,
    /// Packets that have a unit.
    alive: u64,
    /// Later fragments to hold.
    held: u64,
}

impl Classifier {
    /// Writes the unit of each packet into its metadata (clock and view become
    /// 0) and moves it to `output`, in order. A malformed packet, or one without
    /// room for its new flow, is counted and goes back to `pool`; a later
    /// fragment that comes before its first one is held, and follows it. The
    /// frames must be of `pool`'s memory.
    pub fn classify(
        &mut self,
        pool: &mut FramePool,
        input: &mut Vec<Frame>,
        output: &mut Vec<Frame>,
    ) {
        self.packets_in += input.len() as u64;
        while !input.is_empty() {
            let start = (self.cycles)();
            let memory = match self.memory.take() {
                Some(memory) if Arc::ptr_eq(&memory, pool.memory()) => memory,
                _ => Arc::clone(pool.memory()),
            };
            self.burst(pool, &memory, input, output);
            self.memory = Some(memory);
            self.engine_cycles += (self.cycles)().wrapping_sub(start);
        }
    }

    /// Takes at most a burst of packets from the front of `input`.
    fn burst(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        input: &mut Vec<Frame>,
        output: &mut Vec<Frame>,
    ) {
        let n = input.len().min(BURST);
        if let Some(first) = input.first() {
            self.now = self.now.max(memory.meta(first).time.0);
        }
        if self.fragments.held() > 0 {
            self.drop_held(pool, Some(self.now));
        }
        let kinds = self.look(memory, &input[..n]);
        let mut found = Found {
            count: n,
            alive: kinds.alive,
            held: 0,
        };
        self.resolve(memory, &mut input[..n], &kinds, &mut found);
        let faulty = kinds.faulty & all(found.count);
        if faulty != 0 {
            self.count_faults(faulty);
        }
        self.leave(pool, memory, input, output, &found);
        if !self.over.is_empty() {
            self.follow_first(memory, output);
        }
    }

    /// Parses the packets, makes their keys, and fetches what the keys lead to.
    #[inline(never)]
    fn look(&mut self, memory: &PacketMemory, frames: &[Frame]) -> Kinds {
        let Some(options) = self.parse else {
            return Kinds {
                alive: all(frames.len()),
                ..Kinds::default()
            };
        };
        for frame in frames.iter().take(AHEAD) {
            memory.prefetch(frame);
        }
        let Some(names) = &self.names else {
            return self.look_for_faults(memory, frames, &options);
        };
        let scratch = &mut *self.scratch;
        let looked = ParseOutput {
            headers: &mut scratch.headers,
            lookups: &mut scratch.lookups,
            faults: &mut scratch.faults,
        };
        let (index, seed) = (&names.index, names.seed);
        let lead = move |_: &FrameMeta, key: &FlowKey| {
            let hash = key.hash(seed);
            index.prefetch(hash);
            let candidate = NONE;
            Lead { hash, candidate }
        };
        let mut kinds = look_for_keys::<false>(memory, frames, &options, &self.key, looked, lead);
        for (i, lookup) in scratch.lookups.iter_mut().enumerate().take(frames.len()) {
            if kinds.flows >> i & 1 != 0 {
                lookup.candidate = index.candidate(lookup.hash);
                names.prefetch(lookup.candidate);
            }
        }
        if self.options.malformed != OnMalformed::Pass {
            kinds.alive &= !kinds.faulty;
        }
        kinds
    }

    /// Parses the packets of a chain without flows: all are the liaison's.
    #[inline(never)]
    fn look_for_faults(
        &mut self,
        memory: &PacketMemory,
        frames: &[Frame],
        options: &ParseOptions,
    ) -> Kinds {
        let mut kinds = Kinds {
            alive: all(frames.len()),
            ..Kinds::default()
        };
        let scratch = &mut *self.scratch;
        for (i, (frame, headers)) in frames.iter().zip(&mut scratch.headers).enumerate() {
            if let Some(next) = frames.get(i + AHEAD) {
                memory.prefetch(next);
            }
            let (meta, bytes) = memory.read(frame);
            let fault = match parse_into(bytes, meta.link, options, headers) {
                Ok(()) => headers.damage(),
                Err(fault) => {
                    *headers = unread(meta.link, bytes);
                    Some(fault)
                }
            };
            if let Some(fault) = fault {
                scratch.faults[i] = fault;
                kinds.faulty |= 1 << i;
            }
        }
        if self.options.malformed != OnMalformed::Pass {
            kinds.alive &= !kinds.faulty;
        }
        kinds
    }

    #[cold]
    fn count_faults(&mut self, mut faulty: u64) {
        let dropped = self.options.malformed != OnMalformed::Pass;
        while faulty != 0 {
            let i = faulty.trailing_zeros() as usize;
            faulty &= faulty - 1;
            self.reasons
                .count_malformed(self.scratch.faults[i], dropped);
        }
    }

    /// Gives each packet its unit, in order.
    fn resolve(
        &mut self,
        memory: &PacketMemory,
        frames: &mut [Frame],
        kinds: &Kinds,
        found: &mut Found,
    ) {
        let mut from = 0;
        while from < found.count {
            from = self.resolve_known(memory, frames, kinds, from);
            if from < found.count {
                self.resolve_one(memory, frames, kinds, from, found);
                from += 1;
            }
        }
        let past = all(found.count);
        found.alive &= past;
        found.held &= past;
    }

    /// Takes packets from number `from` on for as long as their names are
    /// known: nearly all are. Gives the number of the first other one.
    #[inline(never)]
    fn resolve_known(
        &mut self,
        memory: &PacketMemory,
        frames: &mut [Frame],
        kinds: &Kinds,
        from: usize,
    ) -> usize {
        let n = frames.len().min(BURST);
        let Some(names) = &self.names else {
            return from;
        };
        let (frames, scratch) = (&mut frames[..n], &*self.scratch);
        let (all_headers, all_lookups) = (&scratch.headers[..n], &scratch.lookups[..n]);
        let mut bytes = 0;
        let mut i = from;
        while i < n {
            let (headers, lookup) = (&all_headers[i], &all_lookups[i]);
            // The candidate is nearly always right. Nothing ends within a
            // burst, so what the index led to is still there.
            match names.get(lookup.candidate) {
                Some(name)
                    if kinds.flows >> i & 1 != 0
                        && name.key == lookup.key
                        && name.stays()
                        && !headers.is_fragment() =>
                {
                    let meta = memory.meta_mut(&mut frames[i]);
                    meta.unit = name.unit;
                    meta.clock = 0;
                    meta.view = 0;
                    bytes += u64::from(meta.len);
                }
                _ => break,
            }
            i += 1;
        }
        self.bytes_in += bytes;
        self.bytes_out += bytes;
        i
    }

    /// Gives packet `i` its unit, holds it or drops it; or leaves it to the
    /// next burst, by setting `found.count`.
    #[inline(never)]
    fn resolve_one(
        &mut self,
        memory: &PacketMemory,
        frames: &mut [Frame],
        kinds: &Kinds,
        i: usize,
        found: &mut Found,
    ) {
        let bit = 1u64 << i;
        let length = u64::from(memory.meta(&frames[i]).len);
        let unit = if kinds.alive & bit == 0 {
            None
        } else if kinds.flows & bit != 0 {
            let direction = self.scratch.lookups[i].direction;
            let unit = self.resolve_flow(memory, frames, i, direction, found);
            if found.count <= i {
                return;
            }
            unit
        } else if kinds.later & bit != 0 {
            self.resolve_later(memory, frames, i, found)
        } else {
            Some(self.liaison())
        };
        self.bytes_in += length;
        match unit {
            Some(unit) => {
                self.bytes_out += length;
                self.enter(memory, &mut frames[i], unit);
            }
            None => found.alive &= !bit,
        }
    }

    fn enter(&mut self, memory: &PacketMemory, frame: &mut Frame, unit: u64) {
        let meta = memory.meta_mut(frame);
        meta.unit = unit;
        meta.clock = 0;
        meta.view = 0;
    }

    fn resolve_flow(
        &mut self,
        memory: &PacketMemory,
        frames: &mut [Frame],
        i: usize,
        direction: Direction,
        found: &mut Found,
    ) -> Option<u64> {
        let bytes = memory.bytes(&frames[i]);
        let fragment = FragmentKey::of(bytes, &self.scratch.headers[i], &self.key);
        if let Some(key) = &fragment
            && is_among(
                key,
                memory,
                frames,
                &self.scratch.headers,
                &self.key,
                found.held,
            )
        {
            // Later fragments came before it in this very burst: they must be
            // put aside before it can call them.
            found.count = i;
            return None;
        }
        let unit = match self.unit_for(memory, frames, i, direction) {
            Ok(unit) => unit,
            Err(reason) => {
                self.reasons.count(reason);
                return None;
            }
        };
        if let Some(key) = fragment {
            // The later ones follow it, those that wait at once.
            let owner = Owner {
                flow: 0,
                id: unit,
                direction,
            };
            let now = memory.meta(&frames[i]).time.0;
            self.fragments.first(key, owner, now);
            if self.fragments.held() > 0 && self.fragments.waits_for(&key) {
                self.fragments.release(&key, &mut self.over);
                for frame in &mut self.over {
                    let meta = memory.meta_mut(frame);
                    meta.unit = unit;
                    meta.clock = 0;
                    meta.view = 0;
                }
                found.count = i + 1;
            }
        }
        Some(unit)
    }

    /// The unit of packet `i`, which has a key; opens a flow where it is new.
    fn unit_for(
        &mut self,
        memory: &PacketMemory,
        frames: &mut [Frame],
        i: usize,
        direction: Direction,
    ) -> Result<u64, EngineDrop> {
        let (key, hash) = (self.scratch.lookups[i].key, self.scratch.lookups[i].hash);
        let side = memory.meta(&frames[i]).side;
        let full = |room| match room {
            NoRoom::Flows => EngineDrop::FlowTableFull,
            NoRoom::Units => EngineDrop::ScopeTableFull,
        };
        let Some(names) = &mut self.names else {
            return Ok(self.liaison());
        };
        if let Some(unit) = names.unit_of_packet(&key, hash) {
            return Ok(unit);
        }
        if let Some(unit) = names.unit_behind(&key, direction, side) {
            return names.open_in(&key, hash, unit).map(|()| unit).map_err(full);
        }
        if names.is_full() {
            return Err(EngineDrop::FlowTableFull);
        }
        let scope = self.scope_key(memory, frames, i, &key, direction);
        let Some(names) = &mut self.names else {
            return Ok(self.liaison());
        };
        names.open(&key, hash, &scope).map_err(full)
    }

    /// The key of the coarsest scope for packet `i`, which opens a flow.
    fn scope_key(
        &mut self,
        memory: &PacketMemory,
        frames: &mut [Frame],
        i: usize,
        key: &FlowKey,
        direction: Direction,
    ) -> FlowKey {
        let Some((scope, keyed_by)) = self.scope else {
            return *key;
        };
        let side = memory.meta(&frames[i]).side;
        let is_client = |source| {
            let mut functions = self.functions.iter();
            functions.any(|(_, function)| function.is_client(source, side))
        };
        let headers = &mut self.scratch.headers[i];
        let head = head_of(key, client_of(headers, key, direction, false, is_client));
        match scope {
            Scope::Flow => *key,
            Scope::Fields(fields) => key_of_fields(&head, fields),
            Scope::Own(_) => {
                let info = FlowInfo::new(&head, direction, head.id, 1);
                let (meta, room) = memory.split_mut(&mut frames[i]);
                let packet = Packet::new(meta, room, headers);
                let keyed_by = self.functions.get(keyed_by);
                let own = keyed_by.and_then(|(_, function)| function.scope_key(&packet, &info));
                own.unwrap_or(*key)
            }
        }
    }

    /// The unit of a later fragment: that of its first one. `None` where it
    /// is held, or dropped because it can't be.
    fn resolve_later(
        &mut self,
        memory: &PacketMemory,
        frames: &[Frame],
        i: usize,
        found: &mut Found,
    ) -> Option<u64> {
        let (meta, bytes) = memory.read(&frames[i]);
        let Some(key) = FragmentKey::of(bytes, &self.scratch.headers[i], &self.key) else {
            return Some(self.liaison());
        };
        match self.fragments.later(&key, meta.time.0) {
            Some(owner) if self.is_live(owner.id) => return Some(owner.id),
            _ if self.options.held_fragments == 0 => return Some(self.liaison()),
            _ if self.fragments.has_room_for(found.held.count_ones()) => {
                found.held |= 1 << i;
            }
            _ => self.reasons.count(EngineDrop::FragmentsFull),
        }
        None
    }

    /// Hands the burst's packets on: out, into the fragment memory, or back to
    /// the pool.
    #[inline(never)]
    fn leave(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        input: &mut Vec<Frame>,
        output: &mut Vec<Frame>,
        found: &Found,
    ) {
        let n = found.count;
        self.packets_out += u64::from(found.alive.count_ones());
        if found.alive == all(n) {
            if n == input.len() {
                output.append(input);
            } else {
                output.extend(input.drain(..n));
            }
            return;
        }
        for (i, frame) in input.drain(..n).enumerate() {
            if found.alive >> i & 1 != 0 {
                output.push(frame);
            } else if found.held >> i & 1 != 0 {
                self.hold(pool, memory, i, frame);
            } else {
                pool.give(frame);
            }
        }
    }

    fn hold(&mut self, pool: &mut FramePool, memory: &PacketMemory, i: usize, frame: Frame) {
        let (meta, bytes) = memory.read(&frame);
        let key = FragmentKey::of(bytes, &self.scratch.headers[i], &self.key);
        let now = meta.time.0;
        match key {
            Some(key) if self.fragments.has_room_for(0) && !pool.is_scarce(&frame) => {
                self.fragments.hold(key, frame, now);
            }
            _ => {
                self.reasons.count(EngineDrop::FragmentsFull);
                pool.give(frame);
            }
        }
    }

    /// Sends the fragments that waited for the last packet after it.
    #[cold]
    fn follow_first(&mut self, memory: &PacketMemory, output: &mut Vec<Frame>) {
        self.packets_out += self.over.len() as u64;
        for frame in &self.over {
            self.bytes_out += u64::from(memory.meta(frame).len);
        }
        output.append(&mut self.over);
    }
}
