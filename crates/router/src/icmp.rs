//! ICMP errors: when one may be sent, and what it looks like (RFC 792, RFC
//! 1812 section 4.3, RFC 4443).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_packet::Time;
use weir_packet::checksum::Sum;
use weir_packet::icmp::{IcmpRepr, IcmpView, IcmpViewMut, kind as icmp};
use weir_packet::icmpv6::{Icmpv6Repr, Icmpv6View, Icmpv6ViewMut, kind as icmpv6};
use weir_packet::ipv4::{Ipv4Repr, Ipv4View};
use weir_packet::ipv6::{Ipv6Repr, Ipv6View};
use weir_packet::protocol::ip;

/// Octets of an Ethernet header.
pub(crate) const LINK: usize = 14;
/// Largest ICMP error over IPv4 (RFC 1812 section 4.3.2.3).
const MOST_V4: usize = 576;
/// Largest over IPv6: what every link takes (RFC 4443 section 2.4 (c)).
const MOST_V6: usize = 1_280;
/// Room for any error with its Ethernet header.
pub(crate) const ROOM: usize = LINK + MOST_V6;
/// Time to live of what the router makes.
pub(crate) const TTL: u8 = 64;
/// Precedence of internetwork control (RFC 1812 section 4.3.2.5).
const CONTROL: u8 = 0xc0;

/// Kinds of ICMP errors that the router sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Time or hops are up.
    TimeExceeded,
    /// Larger than this MTU.
    TooBig(u16),
    /// No route.
    NoRoute,
    /// The next hop, or the host, does not answer.
    Silent,
    /// It may not go there.
    Prohibited,
    /// Its source has no meaning beyond its link (RFC 4443 section 3.1).
    Scope,
    /// Nobody listens at the port.
    Port,
}

impl Refusal {
    /// Errors of one class share a limit.
    const fn class(self) -> usize {
        match self {
            Refusal::TimeExceeded => 0,
            Refusal::TooBig(_) => 1,
            _ => 2,
        }
    }

    fn v4(self) -> IcmpRepr {
        let unreachable = |code, mtu| IcmpRepr::Unreachable { code, mtu };
        match self {
            Refusal::TimeExceeded => IcmpRepr::TimeExceeded { code: 0 },
            Refusal::TooBig(mtu) => unreachable(4, mtu),
            Refusal::NoRoute => unreachable(0, 0),
            Refusal::Silent | Refusal::Scope => unreachable(1, 0),
            Refusal::Prohibited => unreachable(13, 0),
            Refusal::Port => unreachable(3, 0),
        }
    }

    fn v6(self) -> Icmpv6Repr {
        let unreachable = |code| Icmpv6Repr::Unreachable { code };
        match self {
            Refusal::TimeExceeded => Icmpv6Repr::TimeExceeded { code: 0 },
            Refusal::TooBig(mtu) => Icmpv6Repr::TooBig {
                mtu: u32::from(mtu),
            },
            Refusal::NoRoute => unreachable(0),
            Refusal::Silent => unreachable(3),
            Refusal::Prohibited => unreachable(1),
            Refusal::Scope => unreachable(2),
            Refusal::Port => unreachable(4),
        }
    }
}

/// How many errors may be sent: a token bucket for each class, so that the
/// errors that path discovery needs are not lost among others.
#[derive(Debug)]
pub(crate) struct Limit {
    per_second: u64,
    /// Nanoseconds that each class has saved up, and since when.
    saved: [(u64, Time); 3],
}

const SECOND: u64 = 1_000_000_000;

impl Limit {
    pub(crate) fn new(per_second: u32) -> Limit {
        Limit {
            per_second: u64::from(per_second),
            saved: [(SECOND / 10, Time::ZERO); 3],
        }
    }

    /// True if one more may be sent.
    pub(crate) fn take(&mut self, now: Time, refusal: Refusal) -> bool {
        let Some((saved, since)) = self.saved.get_mut(refusal.class()) else {
            return false;
        };
        let Some(price) = SECOND.checked_div(self.per_second) else {
            return false;
        };
        // At least one, however few they are in a second.
        let most = (SECOND / 10).max(price);
        *saved = saved.saturating_add(now.since(*since)).min(most);
        *since = now.max(*since);
        match saved.checked_sub(price) {
            Some(left) => {
                *saved = left;
                true
            }
            None => false,
        }
    }
}

/// The sender of the packet, if an error about it may be sent at all (RFC 1122
/// section 3.2.2, RFC 4443 section 2.4 (e)): not about ICMP errors, later
/// fragments, nor to anything but a single host.
pub(crate) fn may_be_told(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => {
            let view = Ipv4View::new(packet).ok()?;
            let (source, destination) = (view.source(), view.destination());
            let first = source.octets()[0];
            if view.fragment_offset() != 0
                || first == 0
                || first == 127
                || first >= 224
                || destination.octets()[0] >= 224
            {
                return None;
            }
            if view.proto() == ip::ICMP {
                let kind = IcmpView::new(view.payload()).ok()?.kind();
                let query = matches!(kind, icmp::ECHO_REPLY | icmp::ECHO | 13..=18);
                if !query {
                    return None;
                }
            }
            Some(source.into())
        }
        6 => {
            let view = Ipv6View::new(packet).ok()?;
            let (source, destination) = (view.source(), view.destination());
            if source.is_multicast()
                || source.is_unspecified()
                || source.is_loopback()
                || destination.is_multicast()
            {
                return None;
            }
            let mut extensions = view.extensions();
            for extension in extensions.by_ref() {
                let extension = extension.ok()?;
                if extension.fragment().is_some_and(|f| f.offset() != 0) {
                    return None;
                }
            }
            if extensions.next_header() == ip::ICMPV6 {
                let message = Icmpv6View::new(extensions.rest()).ok()?;
                if message.kind() < 128 || message.kind() == icmpv6::REDIRECT {
                    return None;
                }
            }
            Some(source.into())
        }
        _ => None,
    }
}

/// Writes an error about `packet` behind the place of an Ethernet header: the
/// octets used, that header's included.
pub(crate) fn write(
    buffer: &mut [u8; ROOM],
    refusal: Refusal,
    (source, destination): (IpAddr, IpAddr),
    packet: &[u8],
) -> Option<usize> {
    let out = buffer.get_mut(LINK..)?;
    let length = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            v4(out, refusal, source, destination, packet)?
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            v6(out, refusal, source, destination, packet)?
        }
        _ => return None,
    };
    Some(LINK + length)
}

fn v4(
    out: &mut [u8],
    refusal: Refusal,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    packet: &[u8],
) -> Option<usize> {
    let quoted = packet.get(..packet.len().min(MOST_V4 - 28))?;
    let header = Ipv4Repr {
        source,
        destination,
        proto: ip::ICMP,
        ttl: TTL,
        tos: CONTROL,
        // Never fragmented, so the number means nothing (RFC 6864).
        dont_fragment: true,
        payload_len: (8 + quoted.len()) as u16,
        ..Ipv4Repr::default()
    };
    let at = header.emit(out).ok()?;
    let message = out.get_mut(at..at + 8 + quoted.len())?;
    refusal.v4().emit(message).ok()?;
    message.get_mut(8..)?.copy_from_slice(quoted);
    IcmpViewMut::new(message).ok()?.fill_checksum();
    Some(at + 8 + quoted.len())
}

fn v6(
    out: &mut [u8],
    refusal: Refusal,
    source: Ipv6Addr,
    destination: Ipv6Addr,
    packet: &[u8],
) -> Option<usize> {
    let quoted = packet.get(..packet.len().min(MOST_V6 - 48))?;
    let length = 8 + quoted.len();
    let at = header_v6(out, source, destination, length as u16, TTL)?;
    let message = out.get_mut(at..at + length)?;
    refusal.v6().emit(message).ok()?;
    message.get_mut(8..)?.copy_from_slice(quoted);
    let pseudo = Sum::new().pseudo_ipv6(source, destination, ip::ICMPV6, length as u32);
    Icmpv6ViewMut::new(message).ok()?.fill_checksum(pseudo);
    Some(at + length)
}

/// Writes the IPv6 header of an ICMPv6 message: the octets used.
pub(crate) fn header_v6(
    out: &mut [u8],
    source: Ipv6Addr,
    destination: Ipv6Addr,
    payload_len: u16,
    hop_limit: u8,
) -> Option<usize> {
    let header = Ipv6Repr {
        source,
        destination,
        next_header: ip::ICMPV6,
        hop_limit,
        payload_len,
        ..Ipv6Repr::default()
    };
    header.emit(out).ok()
}
