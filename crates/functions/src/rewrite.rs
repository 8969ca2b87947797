//! Rewrites one end of a packet (address, and port or ICMP query id) and updates the
//! checksums; also in the packet that an ICMP error quotes.
//!
//! Checksums are updated incrementally (RFC 1624): a wrong one stays wrong, and truncated
//! captures work. SCTP's CRC32c is computed anew instead, which takes the whole packet: a first
//! fragment whose port would change is not rewritten, and a truncated one keeps its old CRC. Of
//! protocols other than TCP, UDP, SCTP and ICMP only the addresses are rewritten, no checksum
//! above IP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_nf::packet::checksum::{Change, sctp};
use weir_nf::packet::icmp::is_query;
use weir_nf::packet::protocol::ip;
use weir_nf::packet::{Direction, FlowKey, HeaderFlags, Headers, Packet, Quoted};

/// One end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Source address and port.
    Source,
    /// Destination address and port.
    Destination,
}

impl End {
    /// Offset of the address in an IPv4 header.
    const fn ipv4(self) -> usize {
        match self {
            End::Source => 12,
            End::Destination => 16,
        }
    }

    const fn ipv6(self) -> usize {
        match self {
            End::Source => 8,
            End::Destination => 24,
        }
    }

    const fn port(self) -> usize {
        match self {
            End::Source => 0,
            End::Destination => 2,
        }
    }
}

/// Addresses and ports in the packet's headers now. The flow's key has those before any
/// rewriting. An ICMP query has its id as both ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuple {
    pub(crate) source: IpAddr,
    pub(crate) source_port: u16,
    pub(crate) destination: IpAddr,
    pub(crate) destination_port: u16,
    pub(crate) proto: u8,
}

impl Tuple {
    /// Reads an IP packet's tuple. Without ports (such as a later fragment) they are 0.
    pub(crate) fn of(packet: &Packet<'_>) -> Option<Tuple> {
        let (headers, bytes) = (packet.headers(), packet.bytes());
        let l3 = usize::from(headers.l3);
        let (source, destination) = addresses(bytes, l3, headers.is_ipv4(), headers.is_ipv6())?;
        let (source_port, destination_port) = if headers.is_later_fragment() {
            (0, 0)
        } else if let Some(ports) = headers.ports(bytes) {
            ports
        } else if let Some(id) = query_id(bytes, headers) {
            (id, id)
        } else {
            (0, 0)
        };
        Some(Tuple {
            source,
            source_port,
            destination,
            destination_port,
            proto: headers.proto,
        })
    }

    /// The key of packets with this tuple, in the zone and chain of `like`.
    pub(crate) fn key(&self, like: &FlowKey) -> (FlowKey, Direction) {
        FlowKey::new(
            self.source,
            self.source_port,
            self.destination,
            self.destination_port,
            self.proto,
            like.zone(),
            like.chain(),
        )
    }
}

/// Source and destination address of a packet.
pub(crate) fn addresses_of(packet: &Packet<'_>) -> Option<(IpAddr, IpAddr)> {
    let headers = packet.headers();
    addresses(
        packet.bytes(),
        usize::from(headers.l3),
        headers.is_ipv4(),
        headers.is_ipv6(),
    )
}

fn addresses(bytes: &[u8], l3: usize, ipv4: bool, ipv6: bool) -> Option<(IpAddr, IpAddr)> {
    let network = bytes.get(l3..)?;
    if ipv4 {
        let head = network.first_chunk::<20>()?;
        let at = |i: usize| Ipv4Addr::new(head[i], head[i + 1], head[i + 2], head[i + 3]);
        Some((at(12).into(), at(16).into()))
    } else if ipv6 {
        let source = *network.get(8..)?.first_chunk::<16>()?;
        let destination = *network.get(24..)?.first_chunk::<16>()?;
        Some((
            Ipv6Addr::from(source).into(),
            Ipv6Addr::from(destination).into(),
        ))
    } else {
        None
    }
}

/// The id of an ICMP query or its reply.
pub(crate) fn query_id(bytes: &[u8], headers: &Headers) -> Option<u16> {
    let l4 = usize::from(headers.l4);
    if !headers
        .flags
        .intersects(HeaderFlags::ICMP | HeaderFlags::ICMPV6)
        || headers.is_later_fragment()
        || !is_query(headers.proto, *bytes.get(l4)?)
    {
        return None;
    }
    read_u16(bytes, l4 + 4)
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..)?
        .first_chunk::<2>()
        .map(|b| u16::from_be_bytes(*b))
}

fn write_u16(bytes: &mut [u8], at: usize, value: u16) -> Option<()> {
    *bytes.get_mut(at..)?.first_chunk_mut::<2>()? = value.to_be_bytes();
    Some(())
}

/// Overwrites octets and returns the change to a checksum over them. Their number, and
/// their offset in the data that is summed, must be even.
fn write_octets(bytes: &mut [u8], at: usize, new: &[u8]) -> Option<Change> {
    let place = bytes.get_mut(at..at + new.len())?;
    let mut change = Change::new();
    for (old, new) in place.chunks_exact_mut(2).zip(new.chunks_exact(2)) {
        if let ([a, b], [c, d]) = (&mut *old, new) {
            change = change.word(u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
            (*a, *b) = (*c, *d);
        }
    }
    Some(change)
}

fn octets(address: &IpAddr, room: &mut [u8; 16]) -> usize {
    match address {
        IpAddr::V4(a) => {
            room[..4].copy_from_slice(&a.octets());
            4
        }
        IpAddr::V6(a) => {
            *room = a.octets();
            16
        }
    }
}

/// Rewrites one end of the packet: address, and port or query id; in a later fragment
/// only the address. `None` if the packet is of another address family, too short, or a
/// fragment of SCTP whose checksum would change; it may be partly rewritten then.
pub(crate) fn rewrite_end(
    packet: &mut Packet<'_>,
    end: End,
    address: IpAddr,
    port: u16,
) -> Option<()> {
    let headers = *packet.headers();
    if headers.is_ipv4() != address.is_ipv4() || !headers.is_ip() {
        return None;
    }
    let (l3, l4) = (usize::from(headers.l3), usize::from(headers.l4));
    let bytes = packet.bytes_mut();
    let moved = self::address(bytes, l3, end, address)?;
    if headers.is_later_fragment() {
        return Some(());
    }
    if headers.is_tcp() {
        let change = moved.and(write_octets(bytes, l4 + end.port(), &port.to_be_bytes())?);
        let sum = change.apply(read_u16(bytes, l4 + 16)?);
        write_u16(bytes, l4 + 16, sum)
    } else if headers.is_udp() {
        let change = moved.and(write_octets(bytes, l4 + end.port(), &port.to_be_bytes())?);
        let sum = change.apply_udp(read_u16(bytes, l4 + 6)?);
        write_u16(bytes, l4 + 6, sum)
    } else if headers.is_sctp() {
        let old = read_u16(bytes, l4 + end.port())?;
        if old != port {
            if headers.is_fragment() {
                return None;
            }
            write_octets(bytes, l4 + end.port(), &port.to_be_bytes())?;
            if !headers.is_cut() {
                let segment = bytes.get_mut(l4..headers.end as usize)?;
                let sum = sctp(segment);
                segment.get_mut(8..12)?.copy_from_slice(&sum.to_le_bytes());
            }
        }
        Some(())
    } else if headers
        .flags
        .intersects(HeaderFlags::ICMP | HeaderFlags::ICMPV6)
    {
        // ICMPv6's checksum covers the addresses, ICMP's does not.
        let mut change = if headers.is_ipv6() {
            moved
        } else {
            Change::new()
        };
        if query_id(bytes, &headers).is_some() {
            change = change.and(write_octets(bytes, l4 + 4, &port.to_be_bytes())?);
        }
        let sum = change.apply(read_u16(bytes, l4 + 2)?);
        write_u16(bytes, l4 + 2, sum)
    } else {
        Some(())
    }
}

/// Writes an address into the IP header at `l3`, and updates the header checksum of
/// IPv4. Returns the change to a pseudo-header.
fn address(bytes: &mut [u8], l3: usize, end: End, address: IpAddr) -> Option<Change> {
    let mut room = [0; 16];
    let length = octets(&address, &mut room);
    let new = room.get(..length)?;
    if length == 4 {
        let change = write_octets(bytes, l3 + end.ipv4(), new)?;
        let sum = change.apply(read_u16(bytes, l3 + 10)?);
        write_u16(bytes, l3 + 10, sum)?;
        Some(change)
    } else {
        write_octets(bytes, l3 + end.ipv6(), new)
    }
}

/// The packet that an ICMP error quotes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quote {
    place: Quoted,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
}

impl Quote {
    /// Source and destination port; of an ICMP query its id as both; 0 without either.
    pub(crate) fn ports(&self) -> (u16, u16) {
        (self.place.source_port, self.place.destination_port)
    }
}

/// Parses the packet that an ICMP error quotes. `None` where [`Quoted::of`] finds none.
pub(crate) fn quote(packet: &Packet<'_>) -> Option<Quote> {
    let bytes = packet.bytes();
    let place = Quoted::of(bytes, packet.headers())?;
    let (source, destination) = addresses(bytes, place.l3, !place.ipv6, place.ipv6)?;
    Some(Quote {
        place,
        source,
        destination,
    })
}

/// Rewrites one end (`inner`) of the packet that an ICMP error quotes, and the address of
/// one end of the error itself (`outer`, if given) (RFC 5508 section 4.2). The addresses
/// must be of the packet's family; this is not checked. `None` if the error is too short;
/// it may be partly rewritten then.
pub(crate) fn rewrite_error(
    packet: &mut Packet<'_>,
    quote: &Quote,
    inner: End,
    address: IpAddr,
    port: u16,
    outer: Option<(End, IpAddr)>,
) -> Option<()> {
    let headers = *packet.headers();
    let (l3, l4) = (usize::from(headers.l3), usize::from(headers.l4));
    let limit = headers.end as usize;
    let bytes = packet.bytes_mut().get_mut(..limit)?;
    // Changes to the data that the error's own checksum covers.
    let mut all = Change::new();
    if let Some((end, address)) = outer {
        let moved = self::address(bytes, l3, end, address)?;
        if headers.is_ipv6() {
            all = moved;
        }
    }
    let mut room = [0; 16];
    let length = octets(&address, &mut room);
    let new = room.get(..length)?;
    let moved = if length == 4 {
        let moved = write_octets(bytes, quote.place.l3 + inner.ipv4(), new)?;
        let sum = moved.apply(read_u16(bytes, quote.place.l3 + 10)?);
        all = all.and(write_octets(
            bytes,
            quote.place.l3 + 10,
            &sum.to_be_bytes(),
        )?);
        moved
    } else {
        write_octets(bytes, quote.place.l3 + inner.ipv6(), new)?
    };
    all = all.and(moved);
    // The quote may end anywhere behind the ports, so each field may be
    // missing.
    let at = quote.place.l4;
    let (port_at, sum_at, mut change) = match quote.place.proto {
        ip::TCP => (Some(at + inner.port()), Some(at + 16), moved),
        ip::UDP => (Some(at + inner.port()), Some(at + 6), moved),
        ip::ICMP => (Some(at + 4), Some(at + 2), Change::new()),
        ip::ICMPV6 => (Some(at + 4), Some(at + 2), moved),
        // Its CRC covers octets that are not quoted.
        ip::SCTP => (Some(at + inner.port()), None, moved),
        _ => (None, None, moved),
    };
    if let Some(ported) = port_at.and_then(|at| set_if_there(bytes, at, port)) {
        change = change.and(ported);
        all = all.and(ported);
    }
    if let Some((sum_at, old)) = sum_at.and_then(|at| Some((at, read_u16(bytes, at)?))) {
        let sum = if quote.place.proto == ip::UDP {
            change.apply_udp(old)
        } else {
            change.apply(old)
        };
        all = all.and(write_octets(bytes, sum_at, &sum.to_be_bytes())?);
    }
    let sum = all.apply(read_u16(bytes, l4 + 2)?);
    write_u16(bytes, l4 + 2, sum)
}

fn set_if_there(bytes: &mut [u8], at: usize, value: u16) -> Option<Change> {
    bytes.get(at..)?.first_chunk::<2>()?;
    write_octets(bytes, at, &value.to_be_bytes())
}

#[cfg(test)]
#[path = "rewrite_tests.rs"]
pub(crate) mod tests;
