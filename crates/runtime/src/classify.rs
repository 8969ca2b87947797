//! From bytes to flows: parse, key, look up.

use weir_nf::host::{BURST, FlowHead, OnMalformed, Place, Timeouts};
use weir_nf::{CloseReason, Phase, tcp_seen};
use weir_packet::{
    Direction, FlowKey, FragmentKey, Frame, FrameMeta, FramePool, Headers, PacketMemory,
    ParseOptions, parse_into,
};

use crate::drops::EngineDrop;
use crate::flows::index::NONE;
use crate::flows::{Found, HAS_TABLE, tcp};
use crate::fragments::{Owner, is_among};
use crate::known::note_units;
use crate::look::{AHEAD, Kinds, ParseOutput, look_for_keys, unread};
use crate::reading::Reading;
use crate::runtime::Runtime;
use crate::scratch::{Lead, Lookup, bytes_of};

/// Result of classifying a burst. In masks, bit `i` stands for packet `i`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Classified {
    /// Packets that were classified; the rest waits for the next burst.
    pub(crate) count: usize,
    /// Packets for the first function.
    pub(crate) alive: u64,
    /// Later fragments to hold until their first fragment comes.
    pub(crate) held: u64,
    /// Bytes of the packets that were classified: no mask.
    pub(crate) bytes: u64,
}

/// Result of resolving a packet's flow.
pub(crate) enum Resolved {
    Flow(u32, Direction),
    /// Cut the burst before this packet: its flow must end first, but has earlier
    /// packets in the burst.
    Cut,
    /// Drop the packet: no flow could be opened.
    Refused(EngineDrop),
}

impl Runtime {
    /// Finds the flow of each packet; opens new flows and ends timed-out ones.
    /// A packet that is neither `alive` nor `held` has been counted as dropped.
    #[inline(never)]
    pub(crate) fn classify(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        frames: &mut [Frame],
    ) -> Classified {
        let mut found = Classified {
            count: frames.len(),
            alive: crate::scratch::all(frames.len()),
            held: 0,
            bytes: 0,
        };
        let Some(options) = self.reading.parse().copied() else {
            found.bytes = bytes_of(memory, frames);
            return found;
        };
        for frame in frames.iter().take(AHEAD) {
            memory.prefetch(frame);
        }
        let kinds = if self.table.is_some() {
            self.parse_and_key(memory, frames, &options)
        } else {
            self.look(memory, frames, &options)
        };
        found.alive = kinds.alive;
        if self.table.is_some() {
            self.scratch.opened_from = [false; 2];
            if !self.has_shortcuts() {
                self.fetch(kinds.flows);
            }
            if self.follow.is_some() {
                self.follow_all(pool, memory, frames, &kinds, &mut found);
            } else {
                self.resolve_all(pool, memory, frames, &kinds, &mut found);
            }
        }
        found.bytes = match found.count == frames.len() {
            true => kinds.bytes,
            false => bytes_of(memory, &frames[..found.count]),
        };
        let faulty = kinds.faulty & crate::scratch::all(found.count);
        if faulty != 0 && !self.world.silent {
            self.count_faults(faulty);
        }
        found
    }

    /// Parses the packets of a chain without flows.
    fn look(&mut self, memory: &PacketMemory, frames: &[Frame], options: &ParseOptions) -> Kinds {
        let mut kinds = Kinds::default();
        let scratch = &mut *self.scratch;
        for (i, (frame, headers)) in frames.iter().zip(&mut scratch.headers).enumerate() {
            if let Some(next) = frames.get(i + AHEAD) {
                memory.prefetch(next);
            }
            let (meta, bytes) = memory.read(frame);
            kinds.bytes += u64::from(meta.len);
            match parse_into(bytes, meta.link, options, headers) {
                Ok(()) => {
                    kinds.alive |= 1 << i;
                    if let Some(fault) = headers.damage() {
                        scratch.faults[i] = fault;
                        kinds.faulty |= 1 << i;
                    }
                }
                Err(fault) => {
                    scratch.faults[i] = fault;
                    kinds.faulty |= 1 << i;
                    *headers = unread(meta.link, bytes);
                }
            }
        }
        match self.reading.options().malformed {
            OnMalformed::Pass => kinds.alive |= kinds.faulty,
            _ => kinds.alive &= !kinds.faulty,
        }
        kinds
    }

    /// Parses the packets and computes their keys; prefetches index buckets, or state
    /// blocks where unit ids lead to them.
    #[inline(never)]
    fn parse_and_key(
        &mut self,
        memory: &PacketMemory,
        frames: &[Frame],
        options: &ParseOptions,
    ) -> Kinds {
        let Some(table) = self.counts.internal.expect(self.table.as_ref(), HAS_TABLE) else {
            return Kinds::default();
        };
        let scratch = &mut *self.scratch;
        let looked = ParseOutput {
            headers: &mut scratch.headers,
            lookups: &mut scratch.lookups,
            faults: &mut scratch.faults,
        };
        let key = self.reading.key();
        let mut kinds = match &self.follow {
            Some(follow) if table.scopes.is_empty() => {
                // Under a switch without wider scopes the unit id gives the record.
                let (units, lines) = (&follow.units, self.reading.block_lines());
                let lead = move |meta: &FrameMeta, _: &FlowKey| {
                    let candidate = units.shortcut(meta.unit);
                    table.flows.blocks.prefetch(candidate, lines);
                    Lead { hash: 0, candidate }
                };
                look_for_keys::<true>(memory, frames, options, key, looked, lead)
            }
            _ => {
                let (index, seed) = (&table.flows.index, table.seed());
                let lead = move |_: &FrameMeta, key: &FlowKey| {
                    let hash = key.hash(seed);
                    index.prefetch(hash);
                    let candidate = NONE;
                    Lead { hash, candidate }
                };
                look_for_keys::<true>(memory, frames, options, key, looked, lead)
            }
        };
        let mut none = crate::scratch::all(frames.len()) & !kinds.flows;
        while none != 0 {
            scratch.places[none.trailing_zeros() as usize % BURST] = Place::NONE;
            none &= none - 1;
        }
        if self.reading.options().malformed != OnMalformed::Pass {
            kinds.alive &= !kinds.faulty;
        }
        kinds
    }

    #[cold]
    fn count_faults(&mut self, mut faulty: u64) {
        let dropped = self.reading.options().malformed != OnMalformed::Pass;
        while faulty != 0 {
            let i = faulty.trailing_zeros() as usize;
            faulty &= faulty - 1;
            let fault = self.scratch.faults[i];
            self.counts.malformed(fault, dropped);
            if dropped && self.observers.are_there() {
                self.watch_drop(i, crate::watch::Why::Malformed(fault));
            }
        }
    }

    /// True if a unit id gives its flow's record, so that the index is searched only
    /// where that fails.
    #[inline]
    fn has_shortcuts(&self) -> bool {
        let table = self.table.as_ref();
        self.follow.is_some() && table.is_some_and(|table| table.scopes.is_empty())
    }

    /// Prefetches the state blocks of the candidates, also behind aliases. A candidate
    /// has the hash of the key; the key itself is compared later.
    #[inline(never)]
    fn fetch(&mut self, flows: u64) {
        let Some(table) = self.counts.internal.expect(self.table.as_ref(), HAS_TABLE) else {
            return;
        };
        let lookups = &mut self.scratch.lookups;
        table.fetch(lookups, flows, self.reading.block_lines());
        if !table.scopes.is_empty() {
            table.fetch_units(lookups, flows);
        }
    }

    /// Resolves the flow of each packet, in order. Cuts the burst where a flow must
    /// end that has earlier packets in it.
    fn resolve_all(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        frames: &mut [Frame],
        kinds: &Kinds,
        found: &mut Classified,
    ) {
        let mut left = kinds.flows | kinds.later;
        loop {
            left = self.resolve_known::<false>(memory, frames, left, kinds);
            if left == 0 {
                return;
            }
            let i = left.trailing_zeros() as usize;
            left &= left - 1;
            let cut = if kinds.later >> i & 1 != 0 {
                self.resolve_later(memory, frames, i, found);
                false
            } else {
                let direction = self.scratch.lookups[i].direction;
                self.resolve_flow(pool, memory, frames, i, direction, found)
            };
            if cut {
                // Packets from `found.count` on (from packet i, or behind it) wait
                // for the next burst.
                let mask = crate::scratch::all(found.count);
                found.alive &= mask;
                found.held &= mask;
                return;
            }
        }
    }

    /// The slow path. Resolves the flow of packet `i`. True if the burst is cut, at `i`
    /// or after it; `found.count` is its new length.
    #[inline(never)]
    fn resolve_flow(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        frames: &mut [Frame],
        i: usize,
        direction: Direction,
        found: &mut Classified,
    ) -> bool {
        let now = memory.meta(&frames[i]).time.0;
        let fragment = if self.scratch.headers[i].is_fragment() {
            let bytes = memory.bytes(&frames[i]);
            FragmentKey::of(bytes, &self.scratch.headers[i], self.reading.key())
        } else {
            None
        };
        if let Some(key) = &fragment
            && is_among(
                key,
                memory,
                frames,
                &self.scratch.headers,
                self.reading.key(),
                found.held,
            )
        {
            // Later fragments precede their first one in this burst: cut it here, so
            // that they are held before the first one releases them.
            found.count = i;
            return true;
        }
        let resolved = self.resolve(pool, memory, frames, i, direction, now);
        let (flow, direction) = match resolved {
            Resolved::Flow(flow, direction) => (flow, direction),
            Resolved::Cut => {
                found.count = i;
                return true;
            }
            Resolved::Refused(reason) => {
                self.scratch.places[i] = Place::NONE;
                self.refuse_packet(i, reason);
                found.alive &= !(1 << i);
                return false;
            }
        };
        self.update_flow_and_units(memory, frames, i, flow, direction, now, true);
        // A first fragment: note its flow for later ones, and release those held.
        let Some(key) = fragment else {
            return false;
        };
        let id = self
            .table
            .as_ref()
            .map_or(0, |table| table.flows.blocks.head(flow).id);
        self.fragments.first(
            key,
            Owner {
                flow,
                id,
                direction,
            },
            now,
        );
        if self.fragments.held() > 0 && self.fragments.waits_for(&key) {
            self.fragments.release(&key, self.waiting.requeue());
            found.count = i + 1;
            return true;
        }
        false
    }

    /// Assigns a later fragment to the flow of its first one, or holds it.
    fn resolve_later(
        &mut self,
        memory: &PacketMemory,
        frames: &mut [Frame],
        i: usize,
        found: &mut Classified,
    ) {
        let bytes = memory.bytes(&frames[i]);
        let key = FragmentKey::of(bytes, &self.scratch.headers[i], self.reading.key());
        let Some(key) = self.counts.internal.expect(key, "a fragment has a key") else {
            return;
        };
        let now = memory.meta(&frames[i]).time.0;
        let live = |owner: &Owner| {
            self.table.as_ref().is_some_and(|table| {
                table.flows.is_live(owner.flow)
                    && table.flows.blocks.head(owner.flow).id == owner.id
            })
        };
        match self.fragments.later(&key, now) {
            Some(owner) if live(&owner) => {
                self.update_flow_and_units(
                    memory,
                    frames,
                    i,
                    owner.flow,
                    owner.direction,
                    now,
                    false,
                );
            }
            _ if self.reading.options().held_fragments == 0 => {}
            _ if self.fragments.has_room_for(found.held.count_ones()) => {
                found.held |= 1 << i;
                found.alive &= !(1 << i);
            }
            _ => {
                self.refuse_packet(i, EngineDrop::FragmentsFull);
                found.alive &= !(1 << i);
            }
        }
    }

    /// Updates the flow and units of packet `i`: last-seen times, clocks, TCP phase.
    /// `whole` is false for a later fragment: it has no transport header.
    #[allow(clippy::too_many_arguments)]
    fn update_flow_and_units(
        &mut self,
        memory: &PacketMemory,
        frames: &mut [Frame],
        i: usize,
        flow: u32,
        direction: Direction,
        now: u64,
        whole: bool,
    ) {
        let bytes = whole.then(|| memory.bytes(&frames[i]));
        self.update_flow(i, flow, direction, now, bytes);
        let Some(table) = self.counts.internal.expect(self.table.as_mut(), HAS_TABLE) else {
            return;
        };
        let head = table.flows.blocks.head(flow);
        let (mut unit, mut clock) = (head.id, head.clock);
        if !table.scopes.is_empty() {
            (unit, clock) = note_units(table, &mut self.scratch.units, i, flow, now);
        }
        let (meta, _) = memory.split_mut(&mut frames[i]);
        meta.unit = unit;
        meta.clock = clock;
        meta.view = 1;
    }

    /// Updates the flow of packet `i`: last-seen time, clock, TCP phase. `bytes` is
    /// `None` if the packet has no transport header.
    #[inline]
    pub(crate) fn update_flow(
        &mut self,
        i: usize,
        flow: u32,
        direction: Direction,
        now: u64,
        bytes: Option<&[u8]>,
    ) {
        let Some(table) = self.counts.internal.expect(self.table.as_mut(), HAS_TABLE) else {
            return;
        };
        let head = table.flows.blocks.head_mut(flow);
        head.last_seen = head.last_seen.max(now);
        head.clock += 1;
        let mut of_packet = 0;
        if let Some(bytes) = bytes {
            let to_server = direction == head.client_direction();
            let before = head.idle_ms;
            let is_outside = tcp::follow(
                head,
                bytes,
                &self.scratch.headers[i],
                to_server,
                &self.reading.options().timeouts,
            );
            if is_outside {
                of_packet = tcp_seen::RESET_OUTSIDE;
                let counted = u64::from(!self.world.silent);
                self.counts.so_far.flows.resets_ignored += counted;
            }
            if head.idle_ms < before {
                // The time-out is shorter now: move the flow to an earlier slot.
                let due = head
                    .last_seen
                    .saturating_add(u64::from(head.idle_ms) * 1_000_000);
                table.wheel.remove(flow);
                table.wheel.insert(flow, due.saturating_add(1));
            }
        }
        self.scratch.places[i] = Place {
            clock: head.clock,
            flow,
            tcp: head.tcp | of_packet,
            phase: head.phase,
            direction,
        };
    }

    /// Finds the flow of packet `i`; ends it if it is over, and opens a new one if
    /// there is none.
    fn resolve(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        frames: &mut [Frame],
        i: usize,
        direction: Direction,
        now: u64,
    ) -> Resolved {
        let Some(table) = self.counts.internal.expect(self.table.as_mut(), HAS_TABLE) else {
            return Resolved::Cut;
        };
        let Lookup { key, hash, .. } = self.scratch.lookups[i];
        let side = memory.meta(&frames[i]).side;
        let unit = match table.find(&key, hash, direction, side) {
            Found::Flow(flow, direction) => {
                let head = table.flows.blocks.head(flow);
                let Some(why) = self.reading.over(head, &self.scratch.headers[i], now) else {
                    return Resolved::Flow(flow, direction);
                };
                if self.is_busy(flow, i) {
                    return Resolved::Cut;
                }
                self.now = self.now.max(now);
                self.end_flow(pool, flow, why);
                // The key may have been an alias that ended with the flow.
                match self
                    .table
                    .as_ref()
                    .map(|table| table.find(&key, hash, direction, side))
                {
                    Some(Found::Unit(unit)) => Some(unit),
                    _ => None,
                }
            }
            Found::Unit(unit) => Some(unit),
            Found::None => None,
        };
        self.open(pool, memory, frames, i, direction, now, unit)
    }

    /// True if one of the first `before` packets of the burst belongs to `flow`.
    pub(crate) fn is_busy(&self, flow: u32, before: usize) -> bool {
        let places = &self.scratch.places[..before.min(BURST)];
        places.iter().any(|place| place.flow == flow)
    }
}

impl Reading {
    /// Reason for which a flow ends before this packet, if it does: its time-out has
    /// passed, or a SYN reuses the ports of a closed connection.
    pub(crate) fn over(&self, head: &FlowHead, headers: &Headers, now: u64) -> Option<CloseReason> {
        if now.saturating_sub(head.last_seen) > u64::from(head.idle_ms) * 1_000_000
            && head.idle_ms != Timeouts::NEVER
        {
            return Some(ended_by_silence(head));
        }
        if head.phase() == Phase::Closed && self.options().timeouts.reuse && tcp::opens(headers) {
            return Some(CloseReason::Reused);
        }
        None
    }
}

/// Close reason of a flow whose time-out has passed. A TCP connection that was already
/// closed counts as finished or reset, not as idle.
pub(crate) fn ended_by_silence(head: &FlowHead) -> CloseReason {
    if head.phase() != Phase::Closed {
        CloseReason::Idle
    } else if head.tcp & weir_nf::tcp_seen::RESET != 0 {
        CloseReason::Reset
    } else {
        CloseReason::Finished
    }
}
