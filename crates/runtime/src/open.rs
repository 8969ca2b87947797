//! New flows and the units they join.

use std::net::IpAddr;

use weir_nf::host::{FlowHead, Timeouts, WhenFull};
use weir_nf::{CloseReason, Fields, FlowInfo, Scope};
use weir_packet::{
    Direction, FlowKey, Frame, FramePool, HeaderFlags, Headers, Packet, PacketMemory, Side,
};

use crate::classify::Resolved;
use crate::drops::EngineDrop;
use crate::flows::{FlowTable, Found, HAS_TABLE, tcp};
use crate::follow::units::mixed_id;
use crate::runtime::Runtime;
use crate::scratch::Lookup;

/// Flows looked at for one to evict.
const EVICTION_SAMPLE: u32 = 128;

impl Runtime {
    #[cold]
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn open(
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
        if self.scratch.opened_from[side.opposite() as usize] && self.may_ask_aliases() {
            // It may answer a flow that was opened a moment ago from the other
            // side, under an alias that is not asked for yet.
            return Resolved::Cut;
        }
        let full = self.is_full();
        if full && let Some(refused) = self.make_room(pool, i, now) {
            return refused;
        }
        let Some(table) = self.counts.internal.expect(self.table.as_mut(), HAS_TABLE) else {
            return Resolved::Cut;
        };
        let Lookup { key, hash, .. } = self.scratch.lookups[i];
        let unit = match unit {
            // The unit may have ended with the flow that made room.
            Some(_) if full => match table.find(&key, hash, direction, side) {
                Found::Unit(unit) => Some(unit),
                _ => None,
            },
            unit => unit,
        };
        let id = table.new_id();
        let Some(flow) = table.flows.open(&key, hash, id, now) else {
            return Resolved::Refused(EngineDrop::FlowTableFull);
        };
        self.begin_flow(flow, i, direction, unit.is_some(), side, now);
        let joined = match unit {
            Some(unit) => self.join_unit(flow, unit),
            None => self.join_units(pool, memory, frames, i, flow, direction, now, None),
        };
        if !joined {
            if let Some(table) = self.table.as_mut() {
                table.remove_flow(flow);
            }
            return Resolved::Refused(EngineDrop::ScopeTableFull);
        }
        self.tell_flow_opened(flow);
        self.counts.open_flow();
        self.scratch.opened_from[side as usize] = true;
        Resolved::Flow(flow, direction)
    }

    /// True where functions may ask for names of flows.
    pub(crate) fn may_ask_aliases(&self) -> bool {
        let table = self.table.as_ref();
        table.is_some_and(|table| table.aliases.may_be_asked())
    }

    fn is_full(&self) -> bool {
        let table = self.table.as_ref();
        table.is_none_or(|table| table.flows.is_full())
    }

    /// Makes room for a flow in a full table: ends flows whose time-out has passed, also if the wheel
    /// has not reached them between two bursts, or else the longest idle one. Returns what becomes of
    /// packet `i` if there is no room.
    fn make_room(&mut self, pool: &mut FramePool, i: usize, now: u64) -> Option<Resolved> {
        self.now = self.now.max(now);
        self.end_due(pool, i);
        if !self.is_full() {
            return None;
        }
        if self.reading.options().when_full == WhenFull::Refuse {
            return Some(Resolved::Refused(EngineDrop::FlowTableFull));
        }
        let busy = &self.scratch.places[..i];
        let victim = self.table.as_mut().and_then(|table| {
            table.flows.longest_idle(EVICTION_SAMPLE, |flow| {
                busy.iter().any(|place| place.flow == flow)
            })
        });
        match victim {
            Some(victim) => self.end_flow(pool, victim, CloseReason::Evicted),
            // Every flow looked at has a packet in this burst.
            None if i > 0 => return Some(Resolved::Cut),
            None => return Some(Resolved::Refused(EngineDrop::FlowTableFull)),
        }
        None
    }

    /// Sets the client and the time-out of a new flow by its first packet, number `i`, and puts it into
    /// the wheel. `to_alias`: the packet goes to an open alias.
    pub(crate) fn begin_flow(
        &mut self,
        flow: u32,
        i: usize,
        direction: Direction,
        to_alias: bool,
        side: Side,
        now: u64,
    ) {
        let Some(table) = self.counts.internal.expect(self.table.as_mut(), HAS_TABLE) else {
            return;
        };
        let (headers, key) = (&self.scratch.headers[i], &self.scratch.lookups[i].key);
        let is_client = |source| {
            let mut nodes = self.functions.nodes().iter();
            nodes.any(|node| node.processor.is_client(source, side))
        };
        let client = client_of(headers, key, direction, to_alias, is_client);
        let head = table.flows.blocks.head_mut(flow);
        if client == Direction::Reverse {
            head.bits |= FlowHead::CLIENT_IS_B;
        }
        head.idle_ms = tcp::first_timeout(key.proto(), &self.reading.options().timeouts);
        if head.idle_ms != Timeouts::NEVER {
            let due = now.saturating_add(u64::from(head.idle_ms) * 1_000_000);
            table.wheel.insert(flow, due);
        }
    }

    /// Puts a new flow into a unit of the finest wider scope.
    pub(crate) fn join_unit(&mut self, flow: u32, unit: u32) -> bool {
        let Some(table) = self.counts.internal.expect(self.table.as_mut(), HAS_TABLE) else {
            return false;
        };
        table.scopes[0].records.cold[unit as usize].holders += 1;
        table.flows.cold[flow as usize].parent = unit + 1;
        true
    }

    /// Puts a new flow into its unit of every wider scope, opening units where
    /// needed; under a switch within its `home`.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn join_units(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        frames: &mut [Frame],
        i: usize,
        flow: u32,
        direction: Direction,
        now: u64,
        home: Option<Home>,
    ) -> bool {
        let scopes = self.table.as_ref().map_or(0, |table| table.scopes.len());
        // From the coarsest scope down, so that a new unit finds its parent.
        let mut parent = 0;
        for number in (0..scopes).rev() {
            let Some(table) = self.counts.internal.expect(self.table.as_mut(), HAS_TABLE) else {
                return false;
            };
            if let Some(home) = home.filter(|home| home.root != 0 && number + 1 == scopes) {
                // The switch has said which it is: no key is needed.
                parent = home.root;
                table.scopes[number].records.cold[parent as usize - 1].holders += 1;
                continue;
            }
            let scope = &table.scopes[number];
            let head = table.flows.blocks.head(flow);
            let key = match scope.scope {
                Scope::Flow => head.key,
                Scope::Fields(fields) => key_of_fields(head, fields),
                Scope::Own(_) => {
                    let info = FlowInfo::new(head, direction, head.id, 1);
                    let (meta, room) = memory.split_mut(&mut frames[i]);
                    let packet = Packet::new(meta, room, &mut self.scratch.headers[i]);
                    let by = &self.functions.nodes()[scope.keyed_by].processor;
                    by.scope_key(&packet, &info).unwrap_or(head.key)
                }
            };
            let unit = match find_unit(table, number, &key, home) {
                Some(unit) => unit,
                None => {
                    let Some(unit) = open_unit(table, number, &key, parent, home, now) else {
                        self.let_go(pool, number + 1, parent, None);
                        return false;
                    };
                    self.tell_unit_opened(number, unit);
                    unit
                }
            };
            let Some(table) = self.counts.internal.expect(self.table.as_mut(), HAS_TABLE) else {
                return false;
            };
            table.scopes[number].records.cold[unit as usize].holders += 1;
            if let Some(above) = parent.checked_sub(1) {
                // The walk's hold: the finest unit is all that the flow holds.
                table.scopes[number + 1].records.cold[above as usize].holders -= 1;
            }
            parent = unit + 1;
        }
        if let Some(table) = self.table.as_mut() {
            table.flows.cold[flow as usize].parent = parent;
        }
        true
    }
}

/// The unit of this key in scope number `number`; under a switch within its `home`.
fn find_unit(table: &FlowTable, number: usize, key: &FlowKey, home: Option<Home>) -> Option<u32> {
    let hash = table.hash(key);
    let records = &table.scopes[number].records;
    let Some(home) = home else {
        return records.find(key, hash);
    };
    records.index.find(hash, |record| {
        records.blocks.head(record).key == *key
            && home.root != 0
            && table.root_of(number + 1, record) == Some(home.root - 1)
    })
}

/// Opens a unit that holds on to its parent (a record of the next wider scope plus one, 0 for none).
/// `None` where its table is full.
fn open_unit(
    table: &mut FlowTable,
    number: usize,
    key: &FlowKey,
    parent: u32,
    home: Option<Home>,
    now: u64,
) -> Option<u32> {
    let hash = table.hash(key);
    let id = match home {
        None => table.new_id(),
        Some(home) if number + 1 == table.scopes.len() => home.unit,
        Some(home) => mixed_id(home.unit, home.clock, number + 1),
    };
    let records = &mut table.scopes[number].records;
    let unit = records.open(key, hash, id, now)?;
    records.cold[unit as usize].parent = parent;
    if let Some(above) = parent.checked_sub(1) {
        table.scopes[number + 1].records.cold[above as usize].holders += 1;
    }
    Some(unit)
}

/// The unit that the switch has said a new flow is of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home {
    pub(crate) unit: u64,
    /// The packet's number in it.
    pub(crate) clock: u64,
    /// Record of the coarsest scope, plus one; 0 where there is none yet.
    pub(crate) root: u32,
}

/// Direction, under `key`, of the client's packets, by the first packet. A
/// SYN+ACK comes from the server, also when its SYN was not seen; so do segments
/// of a connection under way whose ports say so, unless they go to an open alias
/// (`to_alias`): who sends there is a client to the function that gave it; or a
/// function knows the sender for a client (`is_client`). An ICMP error about
/// another protocol's flow is about a packet of the client.
#[inline(always)]
pub(crate) fn client_of(
    headers: &Headers,
    key: &FlowKey,
    direction: Direction,
    to_alias: bool,
    is_client: impl FnOnce(IpAddr) -> bool,
) -> Direction {
    const SYN: u8 = 2;
    const ACK: u8 = 16;
    let syn_ack = headers.is_tcp() && headers.tcp_flags & (SYN | ACK) == SYN | ACK;
    let under_way = headers.is_tcp() && headers.tcp_flags & SYN == 0 && !to_alias;
    let about = headers.flags.contains(HeaderFlags::ICMP_ERROR) && headers.proto != key.proto();
    let (source, source_port) = key.source(direction);
    let answers = || is_answer(source_port, key.destination(direction).1) && !is_client(source);
    if syn_ack || about || under_way && answers() {
        direction.opposite()
    } else {
        direction
    }
}

/// True where a TCP segment of a connection under way comes from the server, by
/// its ports. weir may have been started in the middle of a download.
///
/// Clients take ports of the dynamic range, which begins at 32768 on Linux and at
/// 49152 elsewhere (RFC 6335 section 6). Behind a NAT they may have any port from
/// 1024; then a well-known port tells the server, unless it is one of 512 to
/// 1023, which privileged clients (NFS) take. Where ports say nothing the sender
/// is taken for the client.
fn is_answer(source: u16, destination: u16) -> bool {
    const DYNAMIC: u16 = 32_768;
    const WELL_KNOWN: u16 = 512;
    const USER: u16 = 1_024;
    source < DYNAMIC && destination >= DYNAMIC || source < WELL_KNOWN && destination >= USER
}

/// The key of a scope made of fields of the flow's key.
pub(crate) fn key_of_fields(head: &FlowHead, fields: Fields) -> FlowKey {
    let client = head.client_direction();
    let key = &head.key;
    let end = |(address, port): (IpAddr, u16), with_address: bool, with_port: bool| {
        let nowhere = match address {
            IpAddr::V4(_) => IpAddr::from([0u8; 4]),
            IpAddr::V6(_) => IpAddr::from([0u8; 16]),
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

#[cfg(test)]
mod tests {
    use super::is_answer;

    #[test]
    fn ports_tell_servers_from_clients() {
        for (server, client) in [
            (80, 40_000),
            (443, 1_024),
            (22, 60_999),
            (8_080, 33_000),
            (5_432, 49_152),
            (2_049, 40_000),
        ] {
            assert!(is_answer(server, client), "{server} to {client}");
            assert!(!is_answer(client, server), "{client} to {server}");
        }
        // A privileged client of NFS, peers, and two clients' ports.
        for (a, b) in [(800, 2_049), (179, 179), (5_000, 6_000), (40_000, 50_000)] {
            assert!(!is_answer(a, b) && !is_answer(b, a), "{a} and {b}");
        }
    }
}
