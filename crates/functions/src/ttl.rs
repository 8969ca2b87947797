//! Decrements the time to live, as a router does.

use std::net::{Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::packet::checksum::{self, Sum};
use weir_nf::packet::{LinkType, protocol::ip};
use weir_nf::prelude::*;

use crate::outer::{Version, outer};

/// Settings: answers to senders of packets that ran out of hops.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Send ICMP or ICMPv6 "time exceeded" to the sender of a packet that is dropped, as
    /// traceroute needs it. Say the function's own addresses too: without `address` none is sent
    /// for IPv4, without `address6` none for IPv6.
    pub icmp: bool,
    /// IPv4 address from which "time exceeded" is sent.
    pub address: Option<Ipv4Addr>,
    /// IPv6 address from which "time exceeded" is sent.
    pub address6: Option<Ipv6Addr>,
}

/// Decrements the outermost time to live or hop limit.
#[derive(Debug)]
pub struct Ttl {
    address: Option<Ipv4Addr>,
    address6: Option<Ipv6Addr>,
}

weir_nf::labels! {
    /// Drop reasons.
    enum Reason: Counter<Packets> {
        /// Its time to live, or hop limit, is over.
        TtlExpired = "ttl_expired",
    }
}

weir_nf::labels! {
    /// Counters.
    enum Count: Counter<Packets> {
        /// ICMP errors that told the senders.
        TimeExceededSent = "time_exceeded_sent",
    }
}

/// Change of a checksum when the upper octet of a word gets one less, in the machine's byte order.
const LESS: u16 = (!0x0100u16).to_be();

/// Longest link header in front of which an answer is made: Ethernet with eight tags.
const MAX_LINK: usize = 46;

impl NetworkFunction for Ttl {
    type Settings = Settings;
    type State = ();
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "Decrements IPv4's time to live (the checksum is adapted as in RFC 1624, so a \
                 wrong one stays wrong) or IPv6's hop limit in the outermost header. A packet \
                 that has 1 or 0 left is dropped as ttl_expired; with `icmp: true` and an address \
                 its sender is told (RFC 792, RFC 4443 section 3.3), except where RFC 1812 \
                 section 4.3.2.7 and RFC 4443 section 2.4 forbid it: about ICMP errors, later \
                 fragments, and packets to or from a group or nobody. The answer goes back on \
                 the side and with the link header that the packet came with, addresses swapped. \
                 Answers are not limited in rate beyond 256 per burst: put a policer behind the \
                 port where that matters. Packets that are not IP pass.",
        needs: Needs::Network,
        reads: Parts::LINK
            .and(Parts::NETWORK)
            .and(Parts::TRANSPORT)
            .and(Parts::PAYLOAD),
        writes: Parts::NETWORK,
        drops: Reason::TABLE,
        counters: Count::TABLE,
        emits: true,
        cycles: 10,
        ..Descriptor::new("ttl", "decrements the time to live")
    };

    fn new(settings: Settings, _: &mut SetUp<'_>) -> Result<Ttl, SettingsError> {
        let Settings {
            icmp,
            address,
            address6,
        } = settings;
        if icmp && address.is_none() && address6.is_none() {
            return Err(
                SettingsError::new("icmp", "there is no address to send from")
                    .help("set address: or address6: to an address of this router"),
            );
        }
        if !icmp && (address.is_some() || address6.is_some()) {
            return Err(SettingsError::new(
                "icmp",
                "an address is set but nothing is sent from it",
            )
            .help("set icmp: true, or take the address away"));
        }
        if address.is_some_and(|a| a.is_multicast() || a.is_broadcast() || a.is_unspecified()) {
            return Err(SettingsError::new("address", "not the address of one host")
                .help("set an address of this router"));
        }
        if address6.is_some_and(|a| a.is_multicast() || a.is_unspecified()) {
            return Err(
                SettingsError::new("address6", "not the address of one host")
                    .help("set an address of this router"),
            );
        }
        Ok(Ttl { address, address6 })
    }

    fn without_flow(&self, packet: &mut Packet<'_>, cx: &mut Context<'_>) -> Verdict {
        if decrement(packet) {
            return Verdict::Pass;
        }
        if let Some((version, at)) = outer(packet) {
            self.answer(packet, version, at, cx);
        }
        Verdict::Drop(Reason::TtlExpired.into())
    }

    /// Packets with time to live are done in one tight loop; the others are left to
    /// [`Ttl::without_flow`], since an answer needs the context.
    #[inline]
    fn process_burst(&self, burst: &mut Burst<'_, Self>, cx: &mut Context<'_>) {
        let (mut left, mut alive) = (burst.mask(), 0u64);
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            left &= left - 1;
            let mut packet = burst.packet(i);
            let lives = decrement(&mut packet);
            alive |= u64::from(lives) << i;
        }
        burst.pass(alive);
        let mut expired = burst.mask() & !alive;
        while expired != 0 {
            let i = expired.trailing_zeros() as usize;
            expired &= expired - 1;
            burst.step(i, self, cx);
        }
    }
}

/// Takes one off the outermost header; false (and nothing is changed) where none would be left.
/// A packet that is not IP passes unchanged.
#[inline(always)]
fn decrement(packet: &mut Packet<'_>) -> bool {
    if !packet.headers().is_ip() {
        return true;
    }
    let at = usize::from(packet.headers().outer_l3);
    // The parser's flags are about the innermost header; the outer one says itself what it is.
    let Some(fixed) = packet
        .bytes_mut()
        .get_mut(at..)
        .and_then(<[u8]>::first_chunk_mut::<12>)
    else {
        return true;
    };
    match fixed[0] >> 4 {
        4 if fixed[8] > 1 => {
            fixed[8] -= 1;
            // RFC 1624 equation 3: HC' = ~(~HC + ~m + m'), with ~m + m' = ~0x0100. Ones'
            // complement sums are the same in either byte order.
            let inverse = !u16::from_ne_bytes([fixed[10], fixed[11]]);
            let (sum, carry) = inverse.overflowing_add(LESS);
            [fixed[10], fixed[11]] = (!(sum.wrapping_add(u16::from(carry)))).to_ne_bytes();
            true
        }
        6 if fixed[7] > 1 => {
            fixed[7] -= 1;
            true
        }
        4 | 6 => false,
        _ => true,
    }
}

impl Ttl {
    fn answer(&self, packet: &Packet<'_>, version: Version, at: usize, cx: &mut Context<'_>) {
        let sent = match (version, self.address, self.address6) {
            (Version::V4, Some(address), _) => answer_v4(packet, at, address, cx),
            (Version::V6, _, Some(address)) => answer_v6(packet, at, address, cx),
            _ => return,
        };
        if sent.is_some() {
            cx.count(Count::TimeExceededSent, 1);
        }
    }
}

/// Bytes of ICMP header in front of the quoted packet.
const ICMP_HEADER: usize = 8;

/// Room for an answer of `len` bytes of IP behind a copy of the packet's link header with its
/// addresses swapped; gives the IP part.
fn room<'a>(
    packet: &Packet<'_>,
    at: usize,
    len: usize,
    cx: &'a mut Context<'_>,
) -> Option<&'a mut [u8]> {
    if at > MAX_LINK {
        return None;
    }
    let link = packet.bytes().get(..at)?;
    let bytes = cx.emit(packet.side(), at + len)?;
    let (front, rest) = bytes.split_at_mut_checked(at)?;
    front.copy_from_slice(link);
    if packet.meta().link == LinkType::Ethernet
        && let Some(addresses) = front.first_chunk_mut::<12>()
    {
        addresses.rotate_left(6);
    }
    Some(rest)
}

fn answer_v4(
    packet: &Packet<'_>,
    at: usize,
    address: Ipv4Addr,
    cx: &mut Context<'_>,
) -> Option<()> {
    const HEADER: usize = 20;
    // RFC 1812 section 4.3.2.3: as much of the packet as fits 576 bytes.
    const QUOTE: usize = 576 - HEADER - ICMP_HEADER;
    let original = quoted(packet, at, QUOTE)?;
    let fixed = original.first_chunk::<20>()?;
    let source = Ipv4Addr::new(fixed[12], fixed[13], fixed[14], fixed[15]);
    let destination = Ipv4Addr::new(fixed[16], fixed[17], fixed[18], fixed[19]);
    let nobody = |a: Ipv4Addr| a.is_multicast() || a.is_broadcast() || a.is_unspecified();
    let later_fragment = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1fff != 0;
    let is_error = fixed[9] == ip::ICMP
        && original
            .get(usize::from(fixed[0] & 15) * 4)
            .is_none_or(|kind| !matches!(kind, 0 | 8 | 9 | 10 | 13..=18));
    if nobody(source) || nobody(destination) || source.is_loopback() || later_fragment || is_error {
        return None;
    }
    let len = HEADER + ICMP_HEADER + original.len();
    let reply = room(packet, at, len, cx)?;
    let (header, message) = reply.split_first_chunk_mut::<HEADER>()?;
    header[0] = 0x45;
    // Internetwork control (RFC 1812 section 4.3.2.5).
    header[1] = 0xc0;
    header[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    header[8] = 64;
    header[9] = ip::ICMP;
    header[12..16].copy_from_slice(&address.octets());
    header[16..20].copy_from_slice(&source.octets());
    let sum = checksum::internet(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    // Type 11, code 0: time to live exceeded in transit.
    write_message(message, 11, original, Sum::new())
}

fn answer_v6(
    packet: &Packet<'_>,
    at: usize,
    address: Ipv6Addr,
    cx: &mut Context<'_>,
) -> Option<()> {
    const HEADER: usize = 40;
    // RFC 4443 section 3.3: as much of the packet as fits the smallest MTU.
    const QUOTE: usize = 1_280 - HEADER - ICMP_HEADER;
    let original = quoted(packet, at, QUOTE)?;
    let fixed = original.first_chunk::<40>()?;
    let (source, destination) = (&fixed[8..24], &fixed[24..40]);
    let unspecified = source.iter().all(|&octet| octet == 0);
    let headers = packet.headers();
    // Behind extension headers the parser knows where ICMPv6 is, unless a tunnel was opened.
    let transport = if headers.tunnels == 0 {
        (headers.proto == ip::ICMPV6).then(|| packet.bytes().get(usize::from(headers.l4)))
    } else {
        (fixed[6] == ip::ICMPV6).then(|| original.get(HEADER))
    };
    let is_error =
        transport.is_some_and(|kind| kind.is_none_or(|kind| *kind < 128 || *kind == 137));
    if source[0] == 0xff || destination[0] == 0xff || unspecified || is_error {
        return None;
    }
    if headers.tunnels == 0 && headers.is_later_fragment() {
        return None;
    }
    let len = HEADER + ICMP_HEADER + original.len();
    let (to, from) = (address_of(source)?, address);
    let reply = room(packet, at, len, cx)?;
    let (header, message) = reply.split_first_chunk_mut::<HEADER>()?;
    header[0] = 0x60;
    header[4..6].copy_from_slice(&((len - HEADER) as u16).to_be_bytes());
    header[6] = ip::ICMPV6;
    header[7] = 64;
    header[8..24].copy_from_slice(&from.octets());
    header[24..40].copy_from_slice(&to.octets());
    let sum = Sum::new()
        .bytes(&header[8..40])
        .word(u16::from(ip::ICMPV6))
        .long((len - HEADER) as u32);
    // Type 3, code 0: hop limit exceeded in transit.
    write_message(message, 3, original, sum)
}

fn address_of(bytes: &[u8]) -> Option<Ipv6Addr> {
    Some(Ipv6Addr::from(*bytes.first_chunk::<16>()?))
}

/// The packet from its outermost IP header, without padding, at most `most` bytes of it.
fn quoted<'a>(packet: &'a Packet<'_>, at: usize, most: usize) -> Option<&'a [u8]> {
    let end = (packet.headers().end as usize).min(packet.len());
    let whole = packet.bytes().get(at..end.max(at))?;
    whole.get(..whole.len().min(most))
}

fn write_message(message: &mut [u8], kind: u8, original: &[u8], pseudo: Sum) -> Option<()> {
    let (head, quote) = message.split_first_chunk_mut::<ICMP_HEADER>()?;
    *head = [kind, 0, 0, 0, 0, 0, 0, 0];
    quote.get_mut(..original.len())?.copy_from_slice(original);
    let sum = pseudo.bytes(message).checksum();
    message.get_mut(2..4)?.copy_from_slice(&sum.to_be_bytes());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_nf::packet::{FrameMeta, HEADROOM, Headers, ParseOptions, parse};

    #[test]
    fn every_checksum_stays_right_and_wrong_ones_stay_wrong() {
        for checksum in 0..=u16::MAX {
            for ttl in [2u8, 64, 255] {
                let mut header = [
                    0x45, 0, 0, 20, 1, 2, 0, 0, ttl, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
                ];
                // The identification takes all values, so that every sum occurs.
                header[4..6].copy_from_slice(&checksum.to_be_bytes());
                let sum = checksum::internet(&header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
                with_packet(&header, |packet| {
                    assert!(decrement(packet));
                    assert_eq!(packet.bytes()[8], ttl - 1);
                    let mut whole = packet.bytes().to_vec();
                    whole[10..12].fill(0);
                    let anew = checksum::internet(&whole).to_be_bytes();
                    assert_eq!(packet.bytes()[10..12], anew, "as computed anew");
                });
                header[10] ^= 0x10;
                with_packet(&header, |packet| {
                    assert!(decrement(packet));
                    assert!(!checksum::ipv4_is_right(packet.bytes()));
                });
            }
        }
    }

    fn with_packet(bytes: &[u8], then: impl FnOnce(&mut Packet<'_>)) {
        let mut meta = FrameMeta::received(Time::ZERO, bytes.len() as u32);
        let mut room = vec![0; HEADROOM + bytes.len()];
        room[HEADROOM..].copy_from_slice(bytes);
        let mut headers: Headers = parse(bytes, LinkType::RawIp, &ParseOptions::default()).unwrap();
        then(&mut Packet::new(&mut meta, &mut room, &mut headers));
    }

    #[test]
    fn an_expired_packet_is_left_as_it_was() {
        let mut header = [
            0x45, 0, 0, 20, 1, 2, 0, 0, 1, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        for ttl in [0, 1] {
            header[8] = ttl;
            with_packet(&header, |packet| {
                assert!(!decrement(packet));
                assert_eq!(packet.bytes(), header);
            });
        }
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        let make = |settings: Settings| {
            let (mut pools, mut warnings) = (Vec::new(), Vec::new());
            let mut sources = weir_nf::NoSources;
            let mut set_up = SetUp::new(&mut sources, &mut pools, &mut warnings, 1);
            Ttl::new(settings, &mut set_up)
        };
        let address = Some(Ipv4Addr::new(192, 0, 2, 1));
        assert!(make(Settings::default()).is_ok());
        assert!(
            make(Settings {
                icmp: true,
                address,
                address6: None
            })
            .is_ok()
        );
        let error = make(Settings {
            icmp: true,
            ..Settings::default()
        })
        .unwrap_err();
        assert_eq!(error.path, "icmp");
        assert!(
            make(Settings {
                address,
                ..Settings::default()
            })
            .is_err()
        );
        let group = Some(Ipv4Addr::new(224, 0, 0, 1));
        let error = make(Settings {
            icmp: true,
            address: group,
            address6: None,
        })
        .unwrap_err();
        assert_eq!(error.path, "address");
    }
}
