//! Conditions on header fields of packets, as inspection tries them.

use crate::rule::{IpOption, PacketTest, StreamSide};
use crate::view::{ICMPV6, PacketView};

/// True if the condition holds for a packet.
pub(crate) fn holds(test: &PacketTest, packet: &PacketView<'_>) -> bool {
    let tcp = packet.tcp.as_ref();
    let icmp = packet.icmp.as_ref();
    match *test {
        PacketTest::PayloadSize(compare) => {
            u32::try_from(packet.payload.len()).is_ok_and(|size| compare.holds(size))
        }
        PacketTest::StreamSize(whose, compare) => {
            let fits = packet.stream_bytes;
            let fits = fits.map(|both| both.map(|bytes| compare.holds(bytes)));
            fits.is_some_and(|[client, server]| match whose {
                StreamSide::Client => client,
                StreamSide::Server => server,
                StreamSide::Both => client && server,
                StreamSide::Either => client || server,
            })
        }
        PacketTest::TcpFlags(flags) => tcp.is_some_and(|tcp| flags.holds(tcp.flags)),
        PacketTest::IcmpType(compare) => icmp.is_some_and(|icmp| compare.holds(icmp.kind.into())),
        PacketTest::IcmpCode(compare) => icmp.is_some_and(|icmp| compare.holds(icmp.code.into())),
        PacketTest::IcmpId(id) => icmp.is_some_and(|icmp| icmp.id == Some(id)),
        PacketTest::Event(event) => packet.events.contains(event),
        PacketTest::StreamEvent(event) => packet.stream_events.contains(event),
        PacketTest::TcpMss(compare) => {
            let size = tcp.and_then(|_| segment_size(packet.transport_header));
            size.is_some_and(|size| compare.holds(size.into()))
        }
        PacketTest::Icmpv6Mtu(compare) => {
            let size = packet.transport_header.get(4..8);
            let size = size.and_then(|bytes| bytes.try_into().ok().map(u32::from_be_bytes));
            packet.flow.protocol == ICMPV6
                && icmp.is_some_and(|icmp| icmp.kind == PACKET_TOO_BIG)
                && size.is_some_and(|size| compare.holds(size))
        }
        PacketTest::IcmpSequence(number) => icmp.is_some_and(|icmp| icmp.sequence == Some(number)),
        PacketTest::IpOption(option) => has_ip_option(packet.ip_options, option),
        PacketTest::SameAddresses => packet.flow.source == packet.flow.destination,
        PacketTest::FragmentBits(flags) => {
            let word = ipv4_word(packet, 6);
            word.is_some_and(|word| flags.holds((word >> 13) as u8))
        }
        PacketTest::FragmentOffset(compare) => {
            let word = ipv4_word(packet, 6);
            word.is_some_and(|word| compare.holds(u32::from(word & 0x1fff)))
        }
        PacketTest::TypeOfService(compare) => {
            let word = ipv4_word(packet, 0);
            word.is_some_and(|word| compare.holds(u32::from(word & 0xff)))
        }
        PacketTest::Ttl(compare) => compare.holds(packet.ttl.into()),
        PacketTest::IpProtocol(compare) => compare.holds(packet.flow.protocol.into()),
        PacketTest::IpId(id) => packet.ip_id == Some(id),
        PacketTest::TcpSequence(number) => tcp.is_some_and(|tcp| tcp.sequence == number),
        PacketTest::TcpAcknowledgement(number) => {
            tcp.is_some_and(|tcp| tcp.acknowledgement == number)
        }
        PacketTest::TcpWindow { value, negated } => {
            tcp.is_some_and(|tcp| (tcp.window == value) != negated)
        }
    }
}

/// Two bytes of an IPv4 header (RFC 791 section 3.1).
fn ipv4_word(packet: &PacketView<'_>, at: usize) -> Option<u16> {
    let header = packet.network_header;
    let word = header.get(at..at + 2)?.try_into().ok()?;
    (header.first()? >> 4 == 4).then_some(u16::from_be_bytes(word))
}

/// ICMPv6's Packet Too Big.
const PACKET_TOO_BIG: u8 = 2;

/// The maximum segment size among the options of a TCP header (RFC 9293 section 3.2).
fn segment_size(header: &[u8]) -> Option<u16> {
    let mut options = header.get(20..)?;
    loop {
        match *options {
            [2, 4, high, low, ..] => return Some(u16::from_be_bytes([high, low])),
            [1, ref rest @ ..] => options = rest,
            [0, ..] => return None,
            [_, length, ..] if length >= 2 => options = options.get(usize::from(length)..)?,
            _ => return None,
        }
    }
}

/// Walks the options of an IPv4 header (RFC 791 §3.1). A malformed option ends the walk.
fn has_ip_option(mut options: &[u8], wanted: IpOption) -> bool {
    const END: u8 = 0;
    const NOP: u8 = 1;
    while let Some(&kind) = options.first() {
        if wanted == IpOption::Any || wanted == IpOption::Type(kind) {
            return true;
        }
        let length = match kind {
            END => return false,
            NOP => 1,
            _ => match options.get(1) {
                Some(&length) if length >= 2 => usize::from(length),
                _ => return false,
            },
        };
        options = options.get(length..).unwrap_or(&[]);
    }
    false
}
