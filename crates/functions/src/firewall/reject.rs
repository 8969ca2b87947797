//! Answers to rejected senders: a TCP reset (RFC 9293 section 3.10.7.1), or ICMP type 3 code 13
//! (RFC 1812 section 5.2.7.1), or ICMPv6 type 1 code 1 (RFC 4443 section 3.1).

use std::net::IpAddr;

use weir_nf::Context;
use weir_nf::packet::checksum::Sum;
use weir_nf::packet::protocol::ip;
use weir_nf::packet::{HeaderFlags, LinkType, Packet};

use crate::rewrite;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// Most of an IPv4 packet that is quoted, so that the error is at most 576
/// octets (RFC 1812 section 4.3.2.3).
const QUOTE_IPV4: usize = 576 - 28;
/// The same for IPv6: at most 1,280 octets (RFC 4443 section 2.4).
const QUOTE_IPV6: usize = 1280 - 48;

/// Answers the packet. Nothing is sent for errors, resets, later fragments,
/// packets to or from a group, and packets in tunnels; false then.
pub(super) fn answer(packet: &Packet<'_>, cx: &mut Context<'_>) -> bool {
    send(packet, cx).is_some()
}

fn send(packet: &Packet<'_>, cx: &mut Context<'_>) -> Option<()> {
    let headers = *packet.headers();
    let never = HeaderFlags::ICMP_ERROR | HeaderFlags::LATER_FRAGMENT | HeaderFlags::TUNNEL;
    if headers.flags.intersects(never) || headers.tcp_flags & RST != 0 {
        return None;
    }
    let (source, destination) = rewrite::addresses_of(packet)?;
    if !is_host(source) || !is_host(destination) {
        return None;
    }
    let l3 = usize::from(headers.l3);
    let bytes = packet.bytes().get(..headers.end as usize)?;
    let link = bytes.get(..l3)?;
    let quoted = bytes.get(l3..)?;
    let ip_len = if headers.is_ipv4() { 20 } else { 40 };
    let most = if headers.is_ipv4() {
        QUOTE_IPV4
    } else {
        QUOTE_IPV6
    };
    let quoted = quoted.get(..quoted.len().min(most))?;
    let transport_len = if headers.is_tcp() {
        20
    } else {
        8 + quoted.len()
    };
    let room = cx.emit(packet.side(), l3 + ip_len + transport_len)?;
    room.get_mut(..l3)?.copy_from_slice(link);
    if packet.meta().link == LinkType::Ethernet {
        // A backbone's frame (802.1ah) has the customer's in it.
        let customers = Some(usize::from(headers.l2)).filter(|&l2| l2 != 0);
        for frame in [Some(0), customers].into_iter().flatten() {
            let macs = room.get_mut(frame..)?.first_chunk_mut::<12>()?;
            let (to, from) = macs.split_at_mut(6);
            to.swap_with_slice(from);
        }
    }
    let (header, transport) = room.get_mut(l3..)?.split_at_mut_checked(ip_len)?;
    let proto = match (headers.is_tcp(), headers.is_ipv4()) {
        (true, _) => ip::TCP,
        (false, true) => ip::ICMP,
        (false, false) => ip::ICMPV6,
    };
    // The answer goes the other way.
    let sum = write_ip(header, destination, source, proto, transport_len as u16)?;
    let at = if headers.is_tcp() {
        reset(packet, transport.first_chunk_mut::<20>()?)?;
        16
    } else {
        let (head, body) = transport.split_first_chunk_mut::<8>()?;
        (head[0], head[1]) = match headers.is_ipv4() {
            true => (3, 13),
            false => (1, 1),
        };
        body.copy_from_slice(quoted);
        2
    };
    let check = sum.bytes(transport).checksum();
    transport
        .get_mut(at..at + 2)?
        .copy_from_slice(&check.to_be_bytes());
    Some(())
}

/// Writes the IP header; returns the sum with which the transport's checksum begins.
fn write_ip(
    header: &mut [u8],
    source: IpAddr,
    destination: IpAddr,
    proto: u8,
    transport_len: u16,
) -> Option<Sum> {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let header = header.first_chunk_mut::<20>()?;
            header[0] = 0x45;
            header[2..4].copy_from_slice(&(20 + transport_len).to_be_bytes());
            header[6] = 0x40;
            header[8] = 64;
            header[9] = proto;
            header[12..16].copy_from_slice(&source.octets());
            header[16..20].copy_from_slice(&destination.octets());
            let check = Sum::new().bytes(header).checksum();
            header[10..12].copy_from_slice(&check.to_be_bytes());
            // ICMP's checksum covers no pseudo-header.
            match proto {
                ip::TCP => Some(Sum::new().pseudo_ipv4(source, destination, proto, 20)),
                _ => Some(Sum::new()),
            }
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let header = header.first_chunk_mut::<40>()?;
            header[0] = 0x60;
            header[4..6].copy_from_slice(&transport_len.to_be_bytes());
            header[6] = proto;
            header[7] = 64;
            header[8..24].copy_from_slice(&source.octets());
            header[24..40].copy_from_slice(&destination.octets());
            Some(Sum::new().pseudo_ipv6(source, destination, proto, u32::from(transport_len)))
        }
        _ => None,
    }
}

/// The reset that answers a segment.
fn reset(packet: &Packet<'_>, out: &mut [u8; 20]) -> Option<()> {
    let segment = packet.transport().first_chunk::<20>()?;
    let flags = packet.headers().tcp_flags;
    let seq = u32::from_be_bytes([segment[4], segment[5], segment[6], segment[7]]);
    out[0..2].copy_from_slice(&segment[2..4]);
    out[2..4].copy_from_slice(&segment[0..2]);
    if flags & ACK != 0 {
        out[4..8].copy_from_slice(&segment[8..12]);
        out[13] = RST;
    } else {
        let length = packet.headers().payload_len()
            + u32::from(flags & SYN != 0)
            + u32::from(flags & FIN != 0);
        out[8..12].copy_from_slice(&seq.wrapping_add(length).to_be_bytes());
        out[13] = RST | ACK;
    }
    out[12] = 5 << 4;
    Some(())
}

fn is_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => !(a.is_multicast() || a.is_broadcast() || a.is_unspecified()),
        IpAddr::V6(a) => !(a.is_multicast() || a.is_unspecified()),
    }
}
