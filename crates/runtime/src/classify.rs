//! From bytes to flows: parse, key, look up, open.

use weir_nf::host::{BURST, FlowHead, NO_FLOW, OnMalformed, Timeouts, WhenFull};
use weir_nf::{CloseReason, Fields, FlowInfo, Phase, Scope};
use weir_packet::{
    Direction, FlowKey, FragmentKey, Frame, FramePool, Headers, KeyOutcome, Packet, PacketMemory,
    flow_key, frame_flags, parse_into,
};

use crate::drops::EngineDrop;
use crate::flows::{FlowTable, Found, tcp};
use crate::fragments::Owner;
use crate::runtime::Runtime;

/// Flows looked at for one to evict.
const EVICTION_SAMPLE: u32 = 128;
/// Frames fetched ahead of the one being parsed.
const AHEAD: usize = 4;

/// What classification found of a burst, as masks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Classified {
    /// Packets that were classified; the rest waits for the next burst.
    pub(crate) count: usize,
    /// Packets for the first function.
    pub(crate) alive: u64,
    /// Later fragments to hold.
    pub(crate) held: u64,
    /// Packets that travel in the reverse direction of their key.
    pub(crate) reverse: u64,
}

enum Resolved {
    Flow(u32, Direction),
    /// The flow must end before this packet, and has packets in this burst.
    Cut,
    Refused(EngineDrop),
}

/// What the first look at a packet says it is.
#[derive(Clone, Copy, Default)]
struct Kinds {
    flows: u64,
    reverse: u64,
    later: u64,
    alive: u64,
}

impl Runtime {
    /// Finds the flow of each packet, opening flows and ending those whose
    /// time is over. Packets that are not `alive` and not `held` were counted
    /// as dropped.
    #[inline(never)]
    pub(crate) fn classify(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        frames: &mut [Frame],
    ) -> Classified {
        let n = frames.len();
        let all = crate::execute::all(n);
        if self.parse.is_none() {
            return Classified {
                count: n,
                alive: all,
                ..Classified::default()
            };
        }
        self.scratch.opened_from = [false; 2];
        let kinds = self.look(memory, frames);
        if self.table.is_none() {
            return Classified {
                count: n,
                alive: kinds.alive,
                ..Classified::default()
            };
        }
        self.fetch(kinds.flows);
        let mut found = Classified {
            count: n,
            alive: kinds.alive,
            held: 0,
            reverse: kinds.reverse,
        };
        let mut left = kinds.flows | kinds.later;
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            left &= left - 1;
            let later = kinds.later >> i & 1 != 0;
            let cut = if later {
                self.resolve_later(memory, frames, i, &mut found);
                false
            } else {
                self.resolve_flow(pool, memory, frames, i, &mut found)
            };
            if cut {
                // Everything before packet i (or including it, where only its
                // successors must wait) goes first.
                let mask = crate::execute::all(found.count);
                found.alive &= mask;
                found.held &= mask;
                break;
            }
        }
        found
    }

    /// Parses the packets and makes their keys; fetches index buckets.
    fn look(&mut self, memory: &PacketMemory, frames: &[Frame]) -> Kinds {
        let Some(options) = self.parse else {
            return Kinds::default();
        };
        let mut kinds = Kinds::default();
        for frame in frames.iter().take(AHEAD) {
            memory.prefetch(frame);
        }
        let scratch = &mut *self.scratch;
        scratch.flows = [NO_FLOW; BURST];
        let places = scratch
            .headers
            .iter_mut()
            .zip(&mut scratch.keys)
            .zip(&mut scratch.hashes);
        let ahead = frames
            .iter()
            .skip(AHEAD)
            .map(Some)
            .chain(core::iter::repeat(None));
        let mut bit = 1u64;
        for ((frame, next), ((headers, place), hash)) in frames.iter().zip(ahead).zip(places) {
            if let Some(next) = next {
                memory.prefetch(next);
            }
            let (meta, bytes) = memory.read(frame);
            let link = meta.link;
            match parse_into(bytes, link, &options, headers) {
                Ok(()) => {
                    if let Some(fault) = headers.damage() {
                        self.reasons.count_malformed(fault, false);
                    }
                    kinds.alive |= bit;
                    if let Some(table) = &self.table {
                        match flow_key(bytes, headers, &self.key) {
                            KeyOutcome::Flow(mut key, direction) => {
                                if meta.flags & frame_flags::TURNED != 0 {
                                    key = key.turned(direction);
                                }
                                *hash = table.hash(&key);
                                table.flows.index.prefetch(*hash);
                                *place = key;
                                kinds.flows |= bit;
                                if direction == Direction::Reverse {
                                    kinds.reverse |= bit;
                                }
                            }
                            KeyOutcome::LaterFragment(_) => kinds.later |= bit,
                            KeyOutcome::None => {}
                        }
                    }
                }
                Err(fault) => {
                    let pass = self.options.malformed == OnMalformed::Pass;
                    self.reasons.count_malformed(fault, !pass);
                    *headers = Headers::default();
                    headers.end = bytes.len() as u32;
                    headers.link = link;
                    if pass {
                        kinds.alive |= bit;
                    }
                }
            }
            bit <<= 1;
        }
        kinds
    }

    /// Fetches the blocks that the keys seem to lead to, behind aliases too.
    fn fetch(&mut self, flows: u64) {
        let Some(table) = &self.table else { return };
        let scratch = &mut *self.scratch;
        let lines = self.block_lines;
        let mut left = flows;
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            scratch.candidates[i] = table.candidate(scratch.hashes[i], lines);
            left &= left - 1;
        }
        if table.aliases.len() > 0 {
            let mut left = flows;
            while left != 0 {
                let i = left.trailing_zeros() as usize;
                table.fetch_behind_alias(scratch.candidates[i], lines);
                left &= left - 1;
            }
        }
        if !table.scopes.is_empty() {
            for step in [FlowTable::fetch_membership, FlowTable::fetch_units] {
                let mut left = flows;
                while left != 0 {
                    let i = left.trailing_zeros() as usize;
                    step(table, scratch.candidates[i]);
                    left &= left - 1;
                }
            }
        }
    }

    /// Gives packet `i` its flow. True where the burst is cut: at `i`, or
    /// after it (`found.count` says which).
    #[inline(never)]
    fn resolve_flow(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        frames: &mut [Frame],
        i: usize,
        found: &mut Classified,
    ) -> bool {
        let direction = if found.reverse >> i & 1 == 0 {
            Direction::Forward
        } else {
            Direction::Reverse
        };
        let now = memory.meta(&frames[i]).time.0;
        let resolved = self.resolve(pool, memory, frames, i, direction, now);
        let (flow, direction) = match resolved {
            Resolved::Flow(flow, direction) => (flow, direction),
            Resolved::Cut => {
                found.count = i;
                return true;
            }
            Resolved::Refused(reason) => {
                self.reasons.count(reason);
                found.alive &= !(1 << i);
                return false;
            }
        };
        found.reverse = found.reverse & !(1 << i) | u64::from(direction == Direction::Reverse) << i;
        self.enter(memory, frames, i, flow, direction, now, true);
        if !self.scratch.headers[i].is_fragment() {
            return false;
        }
        // A first fragment: the later ones follow it, those that wait at once.
        let bytes = memory.bytes(&frames[i]);
        let Some(key) = FragmentKey::of(bytes, &self.scratch.headers[i], &self.key) else {
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
            self.fragments.release(&key, &mut self.requeue);
            found.count = i + 1;
            return true;
        }
        false
    }

    /// Gives a later fragment the flow of its first one, or holds it.
    fn resolve_later(
        &mut self,
        memory: &PacketMemory,
        frames: &mut [Frame],
        i: usize,
        found: &mut Classified,
    ) {
        let bytes = memory.bytes(&frames[i]);
        let Some(key) = FragmentKey::of(bytes, &self.scratch.headers[i], &self.key) else {
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
                found.reverse |= u64::from(owner.direction == Direction::Reverse) << i;
                self.enter(memory, frames, i, owner.flow, owner.direction, now, false);
            }
            _ if self.options.held_fragments == 0 => {}
            _ if self.fragments.has_room_for(found.held.count_ones()) => {
                found.held |= 1 << i;
                found.alive &= !(1 << i);
            }
            _ => {
                self.reasons.count(EngineDrop::FragmentsFull);
                found.alive &= !(1 << i);
            }
        }
    }

    /// Notes packet `i` in its flow and units: times, clocks, phase.
    #[inline]
    fn enter(
        &mut self,
        memory: &PacketMemory,
        frames: &mut [Frame],
        i: usize,
        flow: u32,
        direction: Direction,
        now: u64,
        whole: bool,
    ) {
        let Some(table) = self.table.as_mut() else {
            return;
        };
        self.scratch.flows[i] = flow;
        let head = table.flows.blocks.head_mut(flow);
        if whole {
            let to_server = direction == head.client_direction();
            tcp::follow(
                head,
                &self.scratch.headers[i],
                to_server,
                &self.options.timeouts,
            );
        }
        head.last_seen = head.last_seen.max(now);
        head.clock += 1;
        let (mut unit, mut clock) = (head.id, head.clock);
        if !table.scopes.is_empty() {
            let mut parent = table.flows.cold[flow as usize].parent;
            for (scope, units) in table.scopes.iter_mut().zip(&mut self.scratch.units) {
                let Some(record) = parent.checked_sub(1) else {
                    break;
                };
                units[i] = record;
                let head = scope.records.blocks.head_mut(record);
                head.last_seen = head.last_seen.max(now);
                head.clock += 1;
                (unit, clock) = (head.id, head.clock);
                parent = scope.records.cold[record as usize].parent;
            }
        }
        let (meta, _) = memory.split_mut(&mut frames[i]);
        meta.unit = unit;
        meta.clock = clock;
        meta.view = 1;
    }

    #[inline]
    fn resolve(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        frames: &mut [Frame],
        i: usize,
        direction: Direction,
        now: u64,
    ) -> Resolved {
        let Some(table) = self.table.as_ref() else {
            return Resolved::Cut;
        };
        let (key, hash) = (self.scratch.keys[i], self.scratch.hashes[i]);
        let candidate = self.scratch.candidates[i];
        let side = memory.meta(&frames[i]).side;
        let known = if table.is_flow(candidate, &key) {
            Found::Flow(candidate, direction)
        } else {
            table.find(&key, hash, direction, side)
        };
        let unit = match known {
            Found::Flow(flow, direction) => {
                let head = table.flows.blocks.head(flow);
                let Some(why) = self.over(head, &self.scratch.headers[i], now) else {
                    return Resolved::Flow(flow, direction);
                };
                if self.scratch.flows[..i].contains(&flow) {
                    return Resolved::Cut;
                }
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

    /// Why a flow is over before a packet at `now`, if it is.
    #[inline]
    fn over(&self, head: &FlowHead, headers: &Headers, now: u64) -> Option<CloseReason> {
        if now.saturating_sub(head.last_seen) > u64::from(head.idle_ms) * 1_000_000
            && head.idle_ms != Timeouts::NEVER
        {
            return Some(ended_by_silence(head));
        }
        if head.phase() == Phase::Closed && self.options.timeouts.reuse && tcp::opens(headers) {
            return Some(CloseReason::Reused);
        }
        None
    }

    #[cold]
    #[allow(clippy::too_many_arguments)]
    fn open(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        frames: &mut [Frame],
        i: usize,
        direction: Direction,
        now: u64,
        unit: Option<u32>,
    ) -> Resolved {
        let side = memory.meta(&frames[i]).side;
        if self.scratch.opened_from[side.opposite() as usize]
            && self
                .table
                .as_ref()
                .is_some_and(|table| table.aliases.may_be_asked())
        {
            // It may answer a flow that was opened a moment ago from the other
            // side, under an alias that is not asked for yet.
            return Resolved::Cut;
        }
        let full = self
            .table
            .as_ref()
            .is_none_or(|table| table.flows.is_full());
        if full {
            if self.options.when_full == WhenFull::Refuse {
                return Resolved::Refused(EngineDrop::FlowTableFull);
            }
            let busy = &self.scratch.flows[..i];
            let victim = self.table.as_mut().and_then(|table| {
                table
                    .flows
                    .longest_idle(EVICTION_SAMPLE, |flow| busy.contains(&flow))
            });
            match victim {
                Some(victim) => self.end_flow(pool, victim, CloseReason::Evicted),
                // Every flow looked at has a packet in this burst.
                None if i > 0 => return Resolved::Cut,
                None => return Resolved::Refused(EngineDrop::FlowTableFull),
            }
        }
        let headers = self.scratch.headers[i];
        let Some(table) = self.table.as_mut() else {
            return Resolved::Cut;
        };
        let id = table.new_id();
        let key = self.scratch.keys[i];
        let Some(flow) = table.flows.open(&key, self.scratch.hashes[i], id, now) else {
            return Resolved::Refused(EngineDrop::FlowTableFull);
        };
        let head = table.flows.blocks.head_mut(flow);
        // A SYN+ACK comes from the server, also when its SYN was not seen.
        let client = if headers.is_tcp() && headers.tcp_flags & 0x12 == 0x12 {
            direction.opposite()
        } else {
            direction
        };
        if client == Direction::Reverse {
            head.bits |= FlowHead::CLIENT_IS_B;
        }
        head.idle_ms = tcp::first_timeout(key.proto(), &self.options.timeouts);
        if head.idle_ms != Timeouts::NEVER {
            table.wheel.insert(
                flow,
                now.saturating_add(u64::from(head.idle_ms) * 1_000_000),
            );
        }
        let joined = match unit {
            Some(unit) => self.join_unit(flow, unit),
            None => self.join_units(memory, frames, i, flow, direction, now),
        };
        if !joined {
            if let Some(table) = self.table.as_mut() {
                table.remove_flow(flow);
            }
            return Resolved::Refused(EngineDrop::ScopeTableFull);
        }
        self.opened += 1;
        self.scratch.opened_from[side as usize] = true;
        Resolved::Flow(flow, direction)
    }

    /// Puts a new flow into a unit of the finest wider scope.
    fn join_unit(&mut self, flow: u32, unit: u32) -> bool {
        let Some(table) = self.table.as_mut() else {
            return false;
        };
        let Some(scope) = table.scopes.first_mut() else {
            return false;
        };
        scope.records.cold[unit as usize].holders += 1;
        table.flows.cold[flow as usize].parent = unit + 1;
        true
    }

    /// Puts a new flow into its unit of every wider scope, opening units where
    /// needed.
    fn join_units(
        &mut self,
        memory: &PacketMemory,
        frames: &mut [Frame],
        i: usize,
        flow: u32,
        direction: Direction,
        now: u64,
    ) -> bool {
        let Some(table) = self.table.as_mut() else {
            return false;
        };
        // From the coarsest scope down, so that a new unit finds its parent.
        let mut parent = 0;
        for number in (0..table.scopes.len()).rev() {
            let head = table.flows.blocks.head(flow);
            let scope = &table.scopes[number];
            let key = match scope.scope {
                Scope::Flow => head.key,
                Scope::Fields(fields) => key_of_fields(head, fields),
                Scope::Own(_) => {
                    let info = FlowInfo::new(head, direction, head.id, 1);
                    let (meta, room) = memory.split_mut(&mut frames[i]);
                    let packet = Packet::new(meta, room, &mut self.scratch.headers[i]);
                    let by = &self.nodes[scope.keyed_by].processor;
                    by.scope_key(&packet, &info).unwrap_or(head.key)
                }
            };
            let hash = table.hash(&key);
            let unit = match table.scopes[number].records.find(&key, hash) {
                Some(unit) => unit,
                None => {
                    let id = table.new_id();
                    let records = &mut table.scopes[number].records;
                    let Some(unit) = records.open(&key, hash, id, now) else {
                        self.release_unit(number + 1, parent);
                        return false;
                    };
                    records.cold[unit as usize].parent = parent;
                    // The unit holds on to its parent; the walk's own hold on
                    // the parent is given to it.
                    if let Some(above) = parent.checked_sub(1) {
                        table.scopes[number + 1].records.cold[above as usize].holders += 1;
                    }
                    unit
                }
            };
            table.scopes[number].records.cold[unit as usize].holders += 1;
            if let Some(above) = parent.checked_sub(1) {
                // The walk's hold: the finest unit is all that the flow holds.
                table.scopes[number + 1].records.cold[above as usize].holders -= 1;
            }
            parent = unit + 1;
        }
        table.flows.cold[flow as usize].parent = parent;
        true
    }
}

/// How a flow that was silent for its time-out has ended: a closed connection
/// has finished, or was reset, whenever its record is freed.
pub(crate) fn ended_by_silence(head: &FlowHead) -> CloseReason {
    if head.phase() != Phase::Closed {
        CloseReason::Idle
    } else if head.tcp & weir_nf::tcp_seen::RESET != 0 {
        CloseReason::Reset
    } else {
        CloseReason::Finished
    }
}

/// The key of a scope made of fields of the flow's key.
fn key_of_fields(head: &FlowHead, fields: Fields) -> FlowKey {
    let client = head.client_direction();
    let key = &head.key;
    let end = |(address, port): (std::net::IpAddr, u16), with_address: bool, with_port: bool| {
        let nowhere = match address {
            std::net::IpAddr::V4(_) => std::net::IpAddr::from([0u8; 4]),
            std::net::IpAddr::V6(_) => std::net::IpAddr::from([0u8; 16]),
        };
        (
            if with_address { address } else { nowhere },
            if with_port { port } else { 0 },
        )
    };
    let (source, source_port) = end(
        key.source(client),
        fields.contains(Fields::CLIENT_ADDRESS),
        fields.contains(Fields::CLIENT_PORT),
    );
    let (destination, destination_port) = end(
        key.destination(client),
        fields.contains(Fields::SERVER_ADDRESS),
        fields.contains(Fields::SERVER_PORT),
    );
    let proto = if fields.contains(Fields::PROTOCOL) {
        key.proto()
    } else {
        0
    };
    FlowKey::new(
        source,
        source_port,
        destination,
        destination_port,
        proto,
        key.zone(),
        key.chain(),
    )
    .0
}
