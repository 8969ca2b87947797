//! Input of the rules: a packet, and new bytes of a stream. The caller, which knows the frames, fills it in.

use std::net::IpAddr;

use crate::app_protocol::AppProtocol;
use crate::events::{DecodeEvents, StreamEvents};

/// Protocol number of ICMP for IPv4.
pub const ICMP: u8 = 1;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// Protocol number of ICMP for IPv6.
pub const ICMPV6: u8 = 58;
/// Protocol number of SCTP.
pub const SCTP: u8 = 132;

/// Application protocol of a flow, as far as the parsers know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Application {
    /// Too little was seen, or nobody looks.
    #[default]
    Undecided,
    /// This protocol.
    Known(AppProtocol),
    /// None of the protocols that parsers know.
    Other,
}

/// The flow a packet or a stream's bytes belong to, as seen in their direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowContext {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Source port; 0 where the protocol has none.
    pub source_port: u16,
    /// Destination port; 0 where the protocol has none.
    pub destination_port: u16,
    /// Number of the protocol over IP (behind extension headers), such as [`TCP`].
    pub protocol: u8,
    /// The direction is from the side that opened the flow.
    pub to_server: bool,
    /// TCP: the handshake was complete before this packet (or the flow was picked up without one, where that
    /// is allowed). Other protocols: both sides have sent something, this packet included.
    pub established: bool,
    /// Application protocol of the flow.
    pub application: Application,
}

/// TCP header fields (RFC 9293 §3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpFields {
    /// The low eight flags, FIN lowest.
    pub flags: u8,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// Window, not scaled.
    pub window: u16,
}

/// ICMP header fields, of either version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IcmpFields {
    /// Type.
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// Identifier, where the type has one.
    pub id: Option<u16>,
    /// Sequence number, where the type has one.
    pub sequence: Option<u16>,
}

/// One packet.
#[derive(Debug, Clone, Copy)]
pub struct PacketView<'a> {
    /// Its flow and direction.
    pub flow: FlowContext,
    /// Bytes after the transport header, without padding. ICMP: after its first eight bytes; protocols that are
    /// not opened: after the IP header.
    pub payload: &'a [u8],
    /// The payload is part of the reassembled stream, so that it is, was or will be given to
    /// [`RuleSet::inspect_stream`](crate::RuleSet::inspect_stream). For a TCP segment that stream reassembly
    /// does not take (no connection, a reset with data, ...) this is false, and rules that would look at the
    /// stream look at the packet, as Suricata's do.
    pub in_stream: bool,
    /// First packet of its flow in this direction: rules that look at nothing but addresses are tried only
    /// then.
    pub first_in_direction: bool,
    /// First packet of its flow in this direction since it is known what the flow speaks: rules that ask for
    /// nothing else (`app-layer-protocol`) are tried only then.
    pub first_decided: bool,
    /// TCP: bytes of the client's stream and of the server's, their SYNs counted as one each, this packet included;
    /// `None` where the streams are not followed.
    pub stream_bytes: Option<[u32; 2]>,
    /// The packet was put together from fragments.
    pub reassembled: bool,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Identification field, IPv4 only.
    pub ip_id: Option<u16>,
    /// Options of the IPv4 header, as they are in the packet; empty for IPv6.
    pub ip_options: &'a [u8],
    /// The header of IPv4 with its options, or that of IPv6 with its extension headers; empty where the caller has
    /// none.
    pub network_header: &'a [u8],
    /// The header of TCP with its options, of UDP, or of ICMP (that of ICMPv6 with all that follows it);
    /// empty for other protocols and later fragments.
    pub transport_header: &'a [u8],
    /// Anomalies of its headers.
    pub events: DecodeEvents,
    /// Anomalies in its connection.
    pub stream_events: StreamEvents,
    /// TCP header fields; present for TCP.
    pub tcp: Option<TcpFields>,
    /// ICMP header fields; present for ICMP of either version.
    pub icmp: Option<IcmpFields>,
}

/// New bytes of a stream's direction, in order and without gaps, with some of the bytes before them.
#[derive(Debug, Clone, Copy)]
pub struct StreamBytes<'a> {
    /// The last bytes of the stream up to and including the new ones. The more old bytes, the farther apart
    /// the contents of a rule may lie; all of them must lie in one window for the rule to match. At least
    /// [`RuleSet::longest_content`](crate::RuleSet::longest_content) old bytes are needed (or all there
    /// are) so that each content may be split over segments.
    pub window: &'a [u8],
    /// Index in `window` of the first new byte; its length when there is none.
    pub new_from: usize,
    /// Offset in the stream of the first byte of `window`; the first byte of a stream is 0.
    pub offset: u64,
    /// No more bytes of this message are to be expected: the other side has begun to answer, or the stream
    /// has ended. Decides what waits for more bytes, such as `endswith` and negated contents, and begins a
    /// new message.
    pub last: bool,
}
