//! NAPT for IPv4 (RFC 4787, RFC 5382, RFC 5508); docs/nat44.md has the table
//! of requirements.

mod settings;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr};

use weir_nf::packet::checksum::Change;
use weir_nf::packet::protocol::ip;
use weir_nf::packet::{HeaderFlags, Headers};
use weir_nf::prelude::*;
use weir_nf::{Event, Owned, PoolId, PoolSpec, PortLease, PortSpace, Want};

pub use settings::{Behaviour, Pooling, Settings};

use crate::rewrite::{self, End, Tuple};
use weir_nf::packet::{Prefix, Prefixes};

/// Kinds of a flow's translation.
mod kind {
    /// Nothing is translated.
    pub(super) const UNTOUCHED: u8 = 0;
    /// A mapping.
    pub(super) const MAPPED: u8 = 1;
}

/// A mapping: one client port (or one connection) and its external port.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Mapping {
    internal: [u8; 4],
    external: [u8; 4],
    internal_port: [u8; 2],
    external_port: [u8; 2],
    /// Change that translation outwards makes to IPv4's header checksum, and to the transport's
    /// ([`Change::to_bits`]).
    network_out: u16,
    transport_out: u16,
    /// The same inwards.
    network_in: u16,
    transport_in: u16,
    /// Number of the external address in the pool.
    address: u16,
    /// A [`PortSpace`].
    space: u8,
    kind: u8,
}

impl State for Mapping {
    const VERSION: u16 = 1;
}

impl Mapping {
    fn new(internal: (Ipv4Addr, u16), external: (Ipv4Addr, u16), lease: PortLease) -> Mapping {
        let (out, back) = (
            Change::new().ipv4(internal.0, external.0),
            Change::new().ipv4(external.0, internal.0),
        );
        let (port_out, port_back) = (
            Change::new().word(internal.1, external.1),
            Change::new().word(external.1, internal.1),
        );
        // ICMP's checksum does not cover addresses.
        let covers = lease.space != PortSpace::Icmp;
        let transport = |addresses: Change, port: Change| {
            if covers { addresses.and(port) } else { port }.to_bits()
        };
        Mapping {
            internal: internal.0.octets(),
            external: external.0.octets(),
            internal_port: internal.1.to_be_bytes(),
            external_port: external.1.to_be_bytes(),
            network_out: out.to_bits(),
            transport_out: transport(out, port_out),
            network_in: back.to_bits(),
            transport_in: transport(back, port_back),
            address: lease.address,
            space: lease.space as u8,
            kind: kind::MAPPED,
        }
    }

    fn lease(&self) -> PortLease {
        PortLease {
            address: self.address,
            port: u16::from_be_bytes(self.external_port),
            space: match self.space {
                0 => PortSpace::Tcp,
                1 => PortSpace::Udp,
                _ => PortSpace::Icmp,
            },
        }
    }

    fn internal(&self) -> (Ipv4Addr, u16) {
        (
            Ipv4Addr::from(self.internal),
            u16::from_be_bytes(self.internal_port),
        )
    }

    fn external(&self) -> (Ipv4Addr, u16) {
        (
            Ipv4Addr::from(self.external),
            u16::from_be_bytes(self.external_port),
        )
    }
}

/// The function.
#[derive(Debug)]
pub struct Nat44 {
    settings: Settings,
    filtering: Behaviour,
    inside: Prefixes,
    pool: PoolId,
    /// External addresses in the order of their numbers, which is ascending.
    addresses: Vec<Ipv4Addr>,
    lowest: u32,
    /// Highest address less the lowest.
    span: u32,
    seed: u64,
}

weir_nf::labels! {
    /// Drop reasons.
    enum Reason: Counter<Packets> {
        /// No port of the pool is free for a new mapping.
        NoPort = "no_port",
        /// It comes from outside to an address of the pool, and no client has that port.
        NoMapping = "no_mapping",
        /// Its protocol has no ports, and the chain does not let those pass.
        Protocol = "protocol",
        /// Its headers can't be rewritten: they are damaged or not all there.
        Untranslatable = "untranslatable",
        /// It comes from outside with the address of a client inside.
        Spoofed = "spoofed",
        /// A client wrote to another's public address, and `hairpin` is off.
        HairpinOff = "hairpin_off",
    }
}

weir_nf::labels! {
    /// Counters.
    enum Count: Counter<Packets> {
        /// Mappings that were made.
        Created = "created": Counter<Times>,
        /// Mappings that ended.
        Deleted = "deleted": Counter<Times>,
        /// Packets from one client to another by its public address.
        Hairpins = "hairpins",
        /// ICMP errors that were translated.
        Errors = "errors",
    }
}

impl Nat44 {
    #[inline]
    fn is_external(&self, address: Ipv4Addr) -> bool {
        u32::from(address).wrapping_sub(self.lowest) <= self.span
            && self.addresses.binary_search(&address).is_ok()
    }

    /// Leases an external port for a client.
    fn lease(
        &self,
        client: Ipv4Addr,
        port: u16,
        space: PortSpace,
        cx: &mut Context<'_>,
    ) -> Option<(Ipv4Addr, PortLease)> {
        // If only the parity is to be kept, a port outside of every pool asks for it.
        let port = match (self.settings.preserve_port, self.settings.parity) {
            (true, _) => Some(port),
            (false, true) => Some(port & 1),
            (false, false) => None,
        };
        let want = Want {
            port,
            parity: self.settings.parity,
        };
        let mut x = u64::from(u32::from(client)) ^ self.seed;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let count = self.addresses.len();
        let first = ((x ^ x >> 31) % count.max(1) as u64) as usize;
        let tries = match self.settings.pooling {
            Pooling::Paired => 1,
            Pooling::Arbitrary => count,
        };
        for attempt in 0..tries {
            let number = (first + attempt) % count;
            let address = *self.addresses.get(number)?;
            let mut take = |want| cx.leases.take(self.pool, number as u16, space, want);
            // Parity is a wish: a port of the other kind is better than none.
            let lease = take(want).or_else(|| want.parity.then(|| take(Want::default())).flatten());
            if let Some(lease) = lease {
                return Some((address, lease));
            }
        }
        None
    }

    /// Asks for the names under which answers come: those of a connection from
    /// inside under the external address, those of one from outside (or the
    /// hairpin) under the internal one. `tuple` is the packet as translated.
    #[cold]
    fn name_answers(&self, tuple: &Tuple, turned: bool, flow: &FlowInfo<'_>, cx: &mut Context<'_>) {
        let (mut key, direction) = tuple.key(flow.key());
        if turned {
            // The answers come back turned as well, the other way.
            key = key.turned(direction.opposite());
        }
        let client = if flow.to_server() {
            direction
        } else {
            direction.opposite()
        };
        cx.alias(key, client);
    }

    /// Translates what nearly all packets are: whole TCP or UDP behind an IPv4
    /// header without options, of the mapping and to no neighbour. The same as
    /// [`Nat44::other`] does, in a straight line; false (and nothing is
    /// changed) for all else.
    #[inline(always)]
    fn plain(&self, packet: &mut Packet<'_>, state: &Mapping) -> bool {
        const PLAIN: HeaderFlags = HeaderFlags::TCP.union(HeaderFlags::UDP);
        const NOT: HeaderFlags = HeaderFlags::FRAGMENT.union(HeaderFlags::LATER_FRAGMENT);
        let headers = packet.headers();
        let (l3, flags) = (usize::from(headers.l3), headers.flags);
        let is_tcp = headers.is_tcp();
        if state.kind != kind::MAPPED
            || !flags.intersects(PLAIN)
            || flags.intersects(NOT)
            || usize::from(headers.l4) != l3 + 20
        {
            return false;
        }
        // As far as the end of TCP's checksum; the shortest UDP is left to `other`.
        let room = packet.bytes_mut().get_mut(l3..);
        let Some(head) = room.and_then(<[u8]>::first_chunk_mut::<38>) else {
            return false;
        };
        let (network, transport);
        if [head[12], head[13], head[14], head[15]] == state.internal
            && [head[20], head[21]] == state.internal_port
        {
            let to = u32::from_be_bytes([head[16], head[17], head[18], head[19]]);
            if to.wrapping_sub(self.lowest) <= self.span {
                return false;
            }
            [head[12], head[13], head[14], head[15]] = state.external;
            [head[20], head[21]] = state.external_port;
            (network, transport) = (state.network_out, state.transport_out);
        } else if [head[16], head[17], head[18], head[19]] == state.external
            && [head[22], head[23]] == state.external_port
            && [head[12], head[13], head[14], head[15]] != state.internal
        {
            [head[16], head[17], head[18], head[19]] = state.internal;
            [head[22], head[23]] = state.internal_port;
            (network, transport) = (state.network_in, state.transport_in);
        } else {
            return false;
        }
        [head[10], head[11]] = adjust([head[10], head[11]], network);
        if is_tcp {
            [head[36], head[37]] = adjust([head[36], head[37]], transport);
        } else if [head[26], head[27]] != [0, 0] {
            // RFC 768: zero means that there is none, and is sent as all ones.
            let sum = adjust([head[26], head[27]], transport);
            [head[26], head[27]] = if sum == [0, 0] { [0xff, 0xff] } else { sum };
        }
        true
    }

    /// Any packet: the first of a flow, ICMP, fragments, hairpins, options,
    /// and what the mapping is not for.
    #[inline(never)]
    fn other(
        &self,
        packet: &mut Packet<'_>,
        state: &Mapping,
        flow: &FlowInfo<'_>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        if state.kind != kind::MAPPED {
            return self.untouched(packet);
        }
        if packet.headers().flags.contains(HeaderFlags::ICMP_ERROR) {
            return self.error(packet, state, cx);
        }
        let Some((source, destination)) = ipv4_ends(packet) else {
            return Verdict::Drop(Reason::Untranslatable.into());
        };
        if source == state.internal {
            self.outwards(packet, state, destination.into(), flow, cx)
        } else if destination == state.external {
            self.inwards(packet, state, flow, cx)
        } else {
            Verdict::Drop(Reason::NoMapping.into())
        }
    }

    /// From inside to outside.
    fn outwards(
        &self,
        packet: &mut Packet<'_>,
        state: &Mapping,
        destination: Ipv4Addr,
        flow: &FlowInfo<'_>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        let done = translate(
            packet,
            End::Source,
            state.external,
            (state.internal_port, state.external_port),
            state.network_out,
            state.transport_out,
        );
        if done.is_none() {
            return Verdict::Drop(Reason::Untranslatable.into());
        }
        let turned = self.is_external(destination);
        if flow.is_first()
            && let Some(tuple) = Tuple::of(packet)
        {
            self.name_answers(&tuple, turned, flow, cx);
        }
        if !turned {
            return Verdict::Pass;
        }
        if !self.settings.hairpin {
            return Verdict::Drop(Reason::HairpinOff.into());
        }
        cx.count(Count::Hairpins, 1);
        Verdict::Turn
    }

    /// From outside to inside.
    fn inwards(
        &self,
        packet: &mut Packet<'_>,
        state: &Mapping,
        flow: &FlowInfo<'_>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        let done = translate(
            packet,
            End::Destination,
            state.internal,
            (state.external_port, state.internal_port),
            state.network_in,
            state.transport_in,
        );
        if done.is_none() {
            return Verdict::Drop(Reason::Untranslatable.into());
        }
        if flow.is_first()
            && flow.to_server()
            && let Some(tuple) = Tuple::of(packet)
        {
            self.name_answers(&tuple, false, flow, cx);
        }
        Verdict::Pass
    }

    /// An ICMP error about a packet of the mapping (RFC 5508 section 4).
    #[cold]
    fn error(&self, packet: &mut Packet<'_>, state: &Mapping, cx: &mut Context<'_>) -> Verdict {
        let Some((quote, (source, destination))) =
            rewrite::quote(packet).zip(rewrite::addresses_of(packet))
        else {
            return Verdict::Drop(Reason::Untranslatable.into());
        };
        let ((internal, internal_port), (external, external_port)) =
            (state.internal(), state.external());
        // With ports: both ends of a hairpin may have one external address.
        let done = if (quote.source, quote.ports().0) == (external.into(), external_port) {
            // From outside, about a packet that went out.
            let outer = (destination == IpAddr::V4(external))
                .then_some((End::Destination, internal.into()));
            rewrite::rewrite_error(
                packet,
                &quote,
                End::Source,
                internal.into(),
                internal_port,
                outer,
            )
        } else if (quote.destination, quote.ports().1) == (internal.into(), internal_port) {
            // From inside, about a packet that came in. Routers inside have no
            // address outside: they too speak with the mapping's (REQ-5).
            let hidden = matches!(source, IpAddr::V4(a) if self.inside.has_ipv4(a));
            let outer = hidden.then_some((End::Source, external.into()));
            rewrite::rewrite_error(
                packet,
                &quote,
                End::Destination,
                external.into(),
                external_port,
                outer,
            )
        } else {
            return Verdict::Drop(Reason::NoMapping.into());
        };
        if done.is_none() {
            return Verdict::Drop(Reason::Untranslatable.into());
        }
        cx.count(Count::Errors, 1);
        let turned = matches!(rewrite::addresses_of(packet), Some((_, IpAddr::V4(to))) if self.is_external(to));
        match (turned, self.settings.hairpin) {
            (false, _) => Verdict::Pass,
            (true, true) => Verdict::Turn,
            (true, false) => Verdict::Drop(Reason::HairpinOff.into()),
        }
    }

    #[cold]
    fn untouched(&self, packet: &Packet<'_>) -> Verdict {
        match rewrite::addresses_of(packet) {
            // Nobody asked for this.
            Some((_, IpAddr::V4(to))) if self.is_external(to) => {
                Verdict::Drop(Reason::NoMapping.into())
            }
            Some((IpAddr::V4(from), _)) if self.inside.has_ipv4(from) => {
                Verdict::Drop(Reason::Untranslatable.into())
            }
            _ => Verdict::Pass,
        }
    }
}

/// Source and destination of an IPv4 packet.
fn ipv4_ends(packet: &Packet<'_>) -> Option<([u8; 4], [u8; 4])> {
    let l3 = usize::from(packet.headers().l3);
    let addresses = packet.bytes().get(l3 + 12..)?.first_chunk::<8>()?;
    let [a, b, c, d, e, f, g, h] = *addresses;
    Some(([a, b, c, d], [e, f, g, h]))
}

/// A checksum after a change ([`Change::to_bits`]): RFC 1624 equation 3 in 16 bits.
#[inline(always)]
fn adjust(checksum: [u8; 2], change: u16) -> [u8; 2] {
    let (sum, carry) = (!u16::from_be_bytes(checksum)).overflowing_add(change);
    (!sum.wrapping_add(u16::from(carry))).to_be_bytes()
}

/// Rewrites one end of a TCP, UDP or ICMP query packet by what was computed
/// when the mapping was made. Later fragments get the address only. `None`
/// where the packet has not the port that the mapping is for (a host that
/// talks to itself) or is too short.
fn translate(
    packet: &mut Packet<'_>,
    end: End,
    address: [u8; 4],
    (old, new): ([u8; 2], [u8; 2]),
    network: u16,
    transport: u16,
) -> Option<()> {
    let headers: Headers = *packet.headers();
    let bytes = packet.bytes_mut();
    let head = bytes
        .get_mut(usize::from(headers.l3)..)?
        .first_chunk_mut::<20>()?;
    let sum = Change::from_bits(network).apply(u16::from_be_bytes([head[10], head[11]]));
    [head[10], head[11]] = sum.to_be_bytes();
    let at = match end {
        End::Source => 12,
        End::Destination => 16,
    };
    head.get_mut(at..at + 4)?.copy_from_slice(&address);
    if headers.is_later_fragment() {
        return Some(());
    }
    let change = Change::from_bits(transport);
    let segment = bytes.get_mut(usize::from(headers.l4)..)?;
    let at = match end {
        End::Source => 0,
        End::Destination => 2,
    };
    match headers.proto {
        ip::TCP => {
            let head = segment.first_chunk_mut::<18>()?;
            if [head[at], head[at + 1]] != old {
                return None;
            }
            [head[at], head[at + 1]] = new;
            let sum = change.apply(u16::from_be_bytes([head[16], head[17]]));
            [head[16], head[17]] = sum.to_be_bytes();
        }
        ip::UDP => {
            let head = segment.first_chunk_mut::<8>()?;
            if [head[at], head[at + 1]] != old {
                return None;
            }
            [head[at], head[at + 1]] = new;
            let sum = change.apply_udp(u16::from_be_bytes([head[6], head[7]]));
            [head[6], head[7]] = sum.to_be_bytes();
        }
        _ => {
            let head = segment.first_chunk_mut::<8>()?;
            if [head[4], head[5]] != old {
                return None;
            }
            [head[4], head[5]] = new;
            let sum = change.apply(u16::from_be_bytes([head[2], head[3]]));
            [head[2], head[3]] = sum.to_be_bytes();
        }
    }
    Some(())
}

impl NetworkFunction for Nat44 {
    type Settings = Settings;
    type State = Mapping;
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "\
Translates the addresses and ports of clients inside (`inside`) to those of a pool,
for TCP, UDP and ICMP queries over IPv4, as RFC 4787, RFC 5382 and RFC 5508 ask;
docs/nat44.md says requirement by requirement what weir does.

A mapping lives as long as one of its flows; time-outs are the chain's (`flows`),
by default those of the RFCs but for `tcp-closed` (`4m` there). Its port is leased
from the pool and given back when it ends. Where no port is left new flows are
dropped as `no_port`. ICMP errors are translated with the packet that they quote. Later fragments follow
the first one. A packet from outside to an external address without a mapping is
dropped as `no_mapping`, never answered. What comes from elsewhere than `inside`
and goes elsewhere than the pool passes untouched, IPv6 included.

The chain needs a port on each side for connections from outside
(`filtering: endpoint-independent`) and for hairpins. Protocols that have no ports
are dropped as `protocol` (SCTP too: its checksum and multihoming need a NAT of
their own). No application's payload is rewritten (no ALG).",
        needs: Needs::Flow,
        scope: MAPPING_SCOPE,
        reads: Parts::NETWORK.and(Parts::TRANSPORT).and(Parts::PAYLOAD),
        writes: Parts::NETWORK.and(Parts::TRANSPORT).and(Parts::PAYLOAD),
        drops: Reason::TABLE,
        counters: Count::TABLE,
        shares: true,
        aliases: true,
        events: true,
        turns: true,
        cycles: 60,
        ..Descriptor::new("nat44", "Port-translating NAT for IPv4 (NAPT)")
    };

    fn new(settings: Settings, set_up: &mut SetUp<'_>) -> Result<Nat44, SettingsError> {
        let inside = Prefixes::parse(settings.inside.iter())
            .map_err(|message| SettingsError::new("inside", message))?;
        if inside.is_empty() {
            return Err(SettingsError::new("inside", "nobody is inside")
                .help("leave it out for the private addresses"));
        }
        let addresses = settings::addresses(&settings, &inside)?;
        let (first, last) = settings::ports(&settings)?;
        let filtering = match (settings.mapping, settings.filtering) {
            (Behaviour::AddressAndPortDependent, Some(Behaviour::EndpointIndependent)) => {
                return Err(SettingsError::new(
                    "filtering",
                    "a mapping for one connection lets only that connection's other end in",
                )
                .help("leave `filtering` out, or make `mapping` endpoint-independent"));
            }
            (mapping, filtering) => filtering.unwrap_or(mapping),
        };
        if settings.mapping == Behaviour::AddressAndPortDependent {
            set_up.warn("address-and-port-dependent mapping breaks RFC 4787 REQ-1: peer-to-peer applications will suffer");
        }
        if settings.block == 0 || !settings.block.is_multiple_of(64) {
            return Err(SettingsError::new(
                "block",
                "a block is a multiple of 64 ports",
            ));
        }
        let pool = set_up.lease(
            "pool",
            PoolSpec {
                addresses: addresses.iter().map(|&a| a.into()).collect(),
                first,
                last,
                block: settings.block,
            },
        )?;
        let ends = addresses.first().zip(addresses.last());
        let (lowest, highest) = ends.map_or((0, 0), |(&a, &b)| (u32::from(a), u32::from(b)));
        Ok(Nat44 {
            settings,
            filtering,
            inside,
            pool,
            addresses,
            lowest,
            span: highest - lowest,
            seed: set_up.seed,
        })
    }

    /// The pool, outside.
    fn owns(&self) -> Vec<Owned> {
        let single = |address: &Ipv4Addr| {
            let addresses = Prefix::new((*address).into(), 32).ok()?;
            Some(Owned {
                addresses,
                ports: None,
                side: Some(Side::Outside),
            })
        };
        self.addresses.iter().filter_map(single).collect()
    }

    /// Mappings are for hosts inside, also where the peer opened the connection.
    fn is_client(&self, source: IpAddr, side: Side) -> bool {
        side == Side::Inside && matches!(source, IpAddr::V4(a) if self.inside.has_ipv4(a))
    }

    fn scope(&self) -> Scope {
        match self.settings.mapping {
            Behaviour::EndpointIndependent => MAPPING_SCOPE,
            Behaviour::AddressAndPortDependent => Scope::Flow,
        }
    }

    fn open(
        &self,
        packet: &Packet<'_>,
        flow: &FlowInfo<'_>,
        cx: &mut Context<'_>,
    ) -> Result<Mapping, DropReason> {
        let headers = packet.headers();
        let Some(tuple) = Tuple::of(packet) else {
            return Ok(Mapping::default());
        };
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (tuple.source, tuple.destination)
        else {
            return Ok(Mapping::default());
        };
        if !self.inside.has_ipv4(source) {
            return if self.is_external(destination) {
                Err(Reason::NoMapping.into())
            } else {
                Ok(Mapping::default())
            };
        }
        if packet.side() == Side::Outside {
            return Err(Reason::Spoofed.into());
        }
        if !flow.to_server() || headers.flags.contains(HeaderFlags::ICMP_ERROR) {
            // A SYN+ACK or an ICMP error about what was never seen: there is
            // no mapping that it could belong to (RFC 5508 REQ-4, REQ-5).
            return Err(Reason::NoMapping.into());
        }
        let space = match tuple.proto {
            ip::TCP => PortSpace::Tcp,
            ip::UDP => PortSpace::Udp,
            ip::ICMP if rewrite::query_id(packet.bytes(), headers).is_some() => PortSpace::Icmp,
            _ => return Err(Reason::Protocol.into()),
        };
        if headers.is_later_fragment() {
            return Err(Reason::Untranslatable.into());
        }
        let (external, lease) = self
            .lease(source, tuple.source_port, space, cx)
            .ok_or(Reason::NoPort)?;
        cx.count(Count::Created, 1);
        if self.filtering == Behaviour::EndpointIndependent {
            let key = flow.key();
            let (end, _) = weir_nf::packet::FlowKey::one_end(
                external.into(),
                lease.port,
                tuple.proto,
                key.zone(),
                key.chain(),
            );
            cx.open_alias(end);
        }
        let state = Mapping::new((source, tuple.source_port), (external, lease.port), lease);
        if self.settings.log && cx.wants_events() {
            describe(&mut cx.event("nat", flow), "create", &state);
        }
        Ok(state)
    }

    #[inline(always)]
    fn process(
        &self,
        packet: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        if !flow.info.is_first() && self.plain(packet, &flow.state) {
            return Verdict::Pass;
        }
        let info = flow.info;
        self.other(&mut packet.reborrow(), &flow.state, &info, cx)
    }

    fn without_flow(&self, packet: &mut Packet<'_>, _: &mut Context<'_>) -> Verdict {
        self.untouched(packet)
    }

    fn show(&self, state: &Mapping, (): &(), shown: &mut Shown) {
        if state.kind != kind::MAPPED {
            shown.flag("mapped", false);
            return;
        }
        let end = |address: [u8; 4], port: [u8; 2]| {
            format!("{}:{}", Ipv4Addr::from(address), u16::from_be_bytes(port))
        };
        shown
            .flag("mapped", true)
            .text("internal", end(state.internal, state.internal_port))
            .text("external", end(state.external, state.external_port));
    }

    fn close(&self, flow: &mut Flow<'_, Self>, why: CloseReason, cx: &mut Context<'_>) {
        let state = *flow.state;
        if state.kind != kind::MAPPED {
            return;
        }
        // Once only, also where the flow is ended again.
        flow.state.kind = kind::UNTOUCHED;
        cx.leases.give(self.pool, state.lease());
        cx.count(Count::Deleted, 1);
        if self.settings.log && cx.wants_events() {
            let mut event = cx.unit_event("nat", &flow.info);
            event.text(
                "proto",
                match state.space {
                    0 => "TCP",
                    1 => "UDP",
                    _ => "ICMP",
                },
            );
            event.text("reason", why.name());
            describe(&mut event, "delete", &state);
        }
    }
}

/// A client's address, port and protocol: what RFC 4787 REQ-1 maps.
const MAPPING_SCOPE: Scope = Scope::Fields(
    Fields::CLIENT_ADDRESS
        .and(Fields::CLIENT_PORT)
        .and(Fields::PROTOCOL),
);

/// Adds the mapping to an event.
fn describe(event: &mut Event<'_>, what: &str, state: &Mapping) {
    let (internal, internal_port) = state.internal();
    let (external, external_port) = state.external();
    event
        .object("nat")
        .text("event", what)
        .address("internal_ip", internal.into())
        .number("internal_port", u64::from(internal_port))
        .address("external_ip", external.into())
        .number("external_port", u64::from(external_port))
        .end();
}
