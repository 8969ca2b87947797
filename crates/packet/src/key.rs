//! Flow keys: the name under which both directions of a conversation are kept.

use core::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::protocol::ip;
use crate::read::chunk;

/// Which way a packet travels in its flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Direction {
    /// The packet's source is end point A of its [`FlowKey`].
    #[default]
    Forward = 0,
    /// The packet's source is end point B.
    Reverse = 1,
}

impl Direction {
    /// The other one.
    #[inline]
    pub const fn opposite(self) -> Direction {
        match self {
            Direction::Forward => Direction::Reverse,
            Direction::Reverse => Direction::Forward,
        }
    }

    /// 0 or 1, as an index.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A bidirectional flow: two end points, a protocol, a zone and a chain.
///
/// End point A is the one with the lower (address, port), so that both directions of a
/// conversation give the same key. 48 octets: words 0 and 1 are address A, 2 and 3 address B
/// (an IPv4 address fills the low half of word 1 or 3), word 4 is port A, port B and zone from
/// the top, word 5 is protocol, chain and address family from the bottom.
///
/// # Example
///
/// ```
/// use weir_packet::{Direction, FlowKey};
/// use std::net::IpAddr;
///
/// let client: IpAddr = "192.0.2.9".parse()?;
/// let server: IpAddr = "192.0.2.1".parse()?;
/// let (there, way) = FlowKey::new(client, 40_000, server, 443, 6, 0, 0);
/// let (back, other) = FlowKey::new(server, 443, client, 40_000, 6, 0, 0);
/// assert_eq!(there, back);
/// assert_eq!(there.hash(7), back.hash(7));
/// assert_eq!(way, other.opposite());
/// assert_eq!(there.source(way), (client, 40_000));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[allow(clippy::derived_hash_with_manual_eq)]
#[derive(
    Clone,
    Copy,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    Default,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout,
)]
#[repr(C, align(16))]
pub struct FlowKey([u64; 6]);

/// All words at once: a call to `memcmp` would cost more than the comparison.
impl PartialEq for FlowKey {
    #[inline(always)]
    fn eq(&self, other: &FlowKey) -> bool {
        crate::lanes::same(&self.0, &other.0)
    }
}

const _: () = assert!(size_of::<FlowKey>() == 48 && align_of::<FlowKey>() == 16);

/// The address in words `at` and `at + 1` of a key.
pub(crate) fn address(key: &[u64; 6], at: usize) -> IpAddr {
    let value = u128::from(key[at]) << 64 | u128::from(key[at + 1]);
    if key[5] & FAMILY_IPV6 != 0 {
        IpAddr::V6(Ipv6Addr::from(value))
    } else {
        IpAddr::V4(Ipv4Addr::from(value as u32))
    }
}

/// Set in word 5 for IPv6.
const FAMILY_IPV6: u64 = 1 << 16;
/// Set in word 5 for packets that were turned, and which way they went.
const TURNED: u64 = 1 << 17;
const TURNED_REVERSE: u64 = 1 << 18;

/// Word 5.
#[inline(always)]
pub(crate) const fn kind(proto: u8, chain: u8, ipv6: bool) -> u64 {
    proto as u64 | (chain as u64) << 8 | if ipv6 { FAMILY_IPV6 } else { 0 }
}

impl FlowKey {
    /// The key of a packet with this source and destination, and its way in the flow.
    ///
    /// Ports are 0 for protocols without. Source and destination are of one family in every
    /// packet; where they are not, the IPv4 one is taken as an IPv4-mapped IPv6 address.
    pub fn new(
        source: IpAddr,
        source_port: u16,
        destination: IpAddr,
        destination_port: u16,
        proto: u8,
        zone: u32,
        chain: u8,
    ) -> (FlowKey, Direction) {
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => FlowKey::ipv4(
                (u32::from(source), source_port),
                (u32::from(destination), destination_port),
                zone,
                kind(proto, chain, false),
            ),
            _ => FlowKey::ipv6(
                (words(&to_ipv6(source).octets()), source_port),
                (words(&to_ipv6(destination).octets()), destination_port),
                zone,
                kind(proto, chain, true),
            ),
        }
    }

    /// The key of one end alone: the other address and port are zero. And the
    /// way of packets that come from that end.
    pub fn one_end(
        address: IpAddr,
        port: u16,
        proto: u8,
        zone: u32,
        chain: u8,
    ) -> (FlowKey, Direction) {
        let nowhere = match address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        FlowKey::new(address, port, nowhere, 0, proto, zone, chain)
    }

    #[inline(always)]
    pub(crate) fn ipv4(s: (u32, u16), d: (u32, u16), zone: u32, kind: u64) -> (FlowKey, Direction) {
        // Address and port in one number each: one comparison, no branch that depends on data.
        let s = u64::from(s.0) << 16 | u64::from(s.1);
        let d = u64::from(d.0) << 16 | u64::from(d.1);
        FlowKey::ordered(s, d, zone, kind)
    }

    /// Of two IPv4 end points, each address and port in one word.
    #[inline(always)]
    fn ordered(s: u64, d: u64, zone: u32, kind: u64) -> (FlowKey, Direction) {
        let (a, b) = (s.min(d), s.max(d));
        let ports = (a & 0xffff) << 48 | (b & 0xffff) << 32 | u64::from(zone);
        let direction = if s <= d {
            Direction::Forward
        } else {
            Direction::Reverse
        };
        (FlowKey([0, a >> 16, 0, b >> 16, ports, kind]), direction)
    }

    #[inline(always)]
    pub(crate) fn ipv6(
        s: ([u64; 2], u16),
        d: ([u64; 2], u16),
        zone: u32,
        kind: u64,
    ) -> (FlowKey, Direction) {
        let (direction, a, b) = if s <= d {
            (Direction::Forward, s, d)
        } else {
            (Direction::Reverse, d, s)
        };
        let ports = u64::from(a.1) << 48 | u64::from(b.1) << 32 | u64::from(zone);
        (
            FlowKey([a.0[0], a.0[1], b.0[0], b.0[1], ports, kind]),
            direction,
        )
    }

    /// The key as six words, for storage; the layout is described at [`FlowKey`].
    #[inline]
    pub const fn to_words(self) -> [u64; 6] {
        self.0
    }

    /// The key with these words. The order of the end points is not checked.
    #[inline]
    pub const fn from_words(words: [u64; 6]) -> FlowKey {
        FlowKey(words)
    }

    /// Address and port of end point A, the lower one.
    pub fn a(&self) -> (IpAddr, u16) {
        (self.address(0), (self.0[4] >> 48) as u16)
    }

    /// Address and port of end point B.
    pub fn b(&self) -> (IpAddr, u16) {
        (self.address(2), (self.0[4] >> 32) as u16)
    }

    fn address(&self, word: usize) -> IpAddr {
        address(&self.0, word)
    }

    /// Address and port that a packet in this direction comes from.
    pub fn source(&self, direction: Direction) -> (IpAddr, u16) {
        match direction {
            Direction::Forward => self.a(),
            Direction::Reverse => self.b(),
        }
    }

    /// Address and port that a packet in this direction goes to.
    pub fn destination(&self, direction: Direction) -> (IpAddr, u16) {
        self.source(direction.opposite())
    }

    /// The IP protocol.
    #[inline]
    pub const fn proto(&self) -> u8 {
        self.0[5] as u8
    }

    /// VLAN ids or tunnel key (see [`Headers::zone`](crate::Headers::zone)); 0 where zones are not used.
    #[inline]
    pub const fn zone(&self) -> u32 {
        self.0[4] as u32
    }

    /// The chain that the flow belongs to.
    #[inline]
    pub const fn chain(&self) -> u8 {
        (self.0[5] >> 8) as u8
    }

    /// True if the addresses are IPv6.
    #[inline]
    pub const fn is_ipv6(&self) -> bool {
        self.0[5] & FAMILY_IPV6 != 0
    }

    /// The same flow in another chain.
    #[inline]
    #[must_use]
    pub const fn with_chain(mut self, chain: u8) -> FlowKey {
        self.0[5] = self.0[5] & !0xff00 | (chain as u64) << 8;
        self
    }

    /// The key of packets that a NAT turned back (a hairpin) and that travel in `direction`.
    ///
    /// Unlike other keys it is one-way: what turned from one client's external port to
    /// another's belongs to the receiver's flow, what turned the other way to the sender's, and
    /// both have the same two end points.
    #[inline]
    #[must_use]
    pub const fn turned(mut self, direction: Direction) -> FlowKey {
        self.0[5] |= match direction {
            Direction::Forward => TURNED,
            Direction::Reverse => TURNED | TURNED_REVERSE,
        };
        self
    }

    /// A hash that is good in its high and its low bits.
    ///
    /// Not cryptographic: `seed` must be unpredictable where flows come from strangers, so that
    /// they can't be chosen to collide.
    #[inline]
    pub fn hash(&self, seed: u64) -> u64 {
        hash_words(&self.0, seed)
    }
}

impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((a, a_port), (b, b_port)) = (self.a(), self.b());
        match self.proto() {
            ip::TCP => f.write_str("tcp ")?,
            ip::UDP => f.write_str("udp ")?,
            ip::SCTP => f.write_str("sctp ")?,
            ip::ICMP => f.write_str("icmp ")?,
            ip::ICMPV6 => f.write_str("icmpv6 ")?,
            other => write!(f, "proto {other} ")?,
        }
        end_point(f, a, a_port)?;
        f.write_str(" - ")?;
        end_point(f, b, b_port)?;
        if self.zone() != 0 {
            write!(f, " zone {:#x}", self.zone())?;
        }
        Ok(())
    }
}

fn end_point(f: &mut fmt::Formatter<'_>, address: IpAddr, port: u16) -> fmt::Result {
    match address {
        _ if port == 0 => write!(f, "{address}"),
        IpAddr::V4(address) => write!(f, "{address}:{port}"),
        IpAddr::V6(address) => write!(f, "[{address}]:{port}"),
    }
}

/// How ICMP is given to flows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum IcmpKey {
    /// Echo and the other queries use their id as both ports, so that request and reply meet;
    /// an error takes the key of the packet that it quotes, and travels against it.
    #[default]
    Conversation,
    /// Protocol and addresses only.
    Addresses,
}

/// How keys are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeyOptions {
    /// The chain to put into the key.
    pub chain: u8,
    /// Keep equal addresses in different VLANs or tunnels apart.
    pub zone: bool,
    /// How ICMP is given to flows.
    pub icmp: IcmpKey,
}

#[inline(always)]
pub(crate) fn ipv4_addresses(bytes: &[u8], l3: usize) -> Option<[u32; 2]> {
    let [a, b, c, d, e, f, g, h] = *chunk::<8>(bytes, l3 + 12)?;
    Some([
        u32::from_be_bytes([a, b, c, d]),
        u32::from_be_bytes([e, f, g, h]),
    ])
}

#[inline]
pub(crate) fn ipv6_addresses(bytes: &[u8], l3: usize) -> Option<[[u64; 2]; 2]> {
    let source = chunk::<16>(bytes, l3 + 8)?;
    let destination = chunk::<16>(bytes, l3 + 24)?;
    Some([words(source), words(destination)])
}

#[inline(always)]
fn words(octets: &[u8; 16]) -> [u64; 2] {
    let value = u128::from_be_bytes(*octets);
    [(value >> 64) as u64, value as u64]
}

fn to_ipv6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

// Odd constants with about half of their bits set, from the fraction of the square roots of
// 2, 3, 5 and 7: any such would do.
const K0: u64 = 0x6a09_e667_f3bc_c909;
const K1: u64 = 0xbb67_ae85_84ca_a73b;
const K2: u64 = 0x3c6e_f372_fe94_f82b;
const K3: u64 = 0xa54f_f53a_5f1d_36f1;

/// Folded multiplication: every bit of the operands reaches both halves of the product.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
pub(crate) fn hash_words(w: &[u64; 6], seed: u64) -> u64 {
    // Words that IPv4 keys use: both addresses in one, ports and zone in another.
    let mut addresses = w[1] ^ w[3].rotate_left(32);
    let mut state = seed ^ K0;
    if w[5] & FAMILY_IPV6 != 0 {
        addresses = fold(w[0] ^ seed ^ K1, w[1] ^ K2);
        state = fold(w[2] ^ seed ^ K3, w[3] ^ K1) ^ K0;
    }
    let mixed = fold(addresses ^ state, w[4] ^ seed.rotate_left(32) ^ K1);
    fold(mixed ^ w[5].wrapping_mul(K3), seed ^ K2)
}
