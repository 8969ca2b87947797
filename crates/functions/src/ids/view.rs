//! A packet as rules see it.

use std::net::IpAddr;

use weir_nf::packet::Headers;
use weir_nf::packet::icmp::IcmpView;
use weir_nf::packet::icmpv6::Icmpv6View;
use weir_nf::packet::ipv4::Ipv4View;
use weir_nf::packet::ipv6::Ipv6View;
use weir_nf::packet::tcp::TcpView;
use weir_nf::prelude::*;
use weir_signatures::{
    Application, DecodeEvents, FlowContext, IcmpFields, PacketView, StreamEvents, TcpFields, view,
};

use super::state::Progress;

/// The packet, without what only its flow can say: direction, connection state
/// and place in the flow are those of a first packet. `None` for what is not
/// IP. `ports` stand in for those of a later fragment, which has none.
#[inline]
pub(super) fn packet_view<'p>(
    packet: &'p Packet<'_>,
    ports: impl FnOnce() -> (u16, u16),
) -> Option<PacketView<'p>> {
    let (bytes, headers) = (packet.bytes(), packet.headers());
    let later = headers.is_later_fragment();
    let (source, destination, ttl, ip_id, ip_options): (IpAddr, IpAddr, u8, Option<u16>, &[u8]);
    if let Some(ip) = Ipv4View::of(bytes, headers) {
        (source, destination) = (ip.source().into(), ip.destination().into());
        (ttl, ip_id, ip_options) = (ip.ttl(), Some(ip.id()), ip.option_bytes());
    } else if let Some(ip) = Ipv6View::of(bytes, headers) {
        (source, destination) = (ip.source().into(), ip.destination().into());
        (ttl, ip_id, ip_options) = (ip.hop_limit(), None, &[]);
    } else {
        return None;
    }
    let (source_port, destination_port) = if later {
        ports()
    } else {
        headers.ports(bytes).unwrap_or((0, 0))
    };
    // A later fragment has data at the place of the transport header.
    let (tcp, icmp) = match later {
        true => (None, None),
        false => (tcp_fields(bytes, headers), icmp_fields(bytes, headers)),
    };
    let payload = if later {
        bytes
            .get(usize::from(headers.payload)..headers.end as usize)
            .unwrap_or(&[])
    } else {
        packet.payload()
    };
    let network_header = bytes
        .get(usize::from(headers.l3)..usize::from(headers.l4))
        .unwrap_or(&[]);
    let transport_header = match later {
        true => &[],
        false => transport_header(bytes, headers),
    };
    Some(PacketView {
        flow: FlowContext {
            source,
            destination,
            source_port,
            destination_port,
            protocol: headers.proto,
            to_server: true,
            established: false,
            application: Application::Undecided,
        },
        payload,
        in_stream: false,
        stream_bytes: None,
        stream_events: StreamEvents::NONE,
        first_in_direction: true,
        first_decided: false,
        events: DecodeEvents::NONE,
        reassembled: false,
        ttl,
        ip_id,
        ip_options,
        network_header,
        transport_header,
        tcp,
        icmp,
    })
}

/// The transport header; of ICMPv6 with all that follows it.
#[inline]
fn transport_header<'p>(bytes: &'p [u8], headers: &Headers) -> &'p [u8] {
    let end = match headers.proto {
        view::ICMPV6 => headers.end as usize,
        _ => usize::from(headers.payload),
    };
    bytes.get(usize::from(headers.l4)..end).unwrap_or(&[])
}

#[inline]
fn tcp_fields(bytes: &[u8], headers: &Headers) -> Option<TcpFields> {
    let view = TcpView::of(bytes, headers)?;
    Some(TcpFields {
        flags: view.flags(),
        sequence: view.sequence(),
        acknowledgement: view.acknowledgement(),
        window: view.window(),
    })
}

#[inline]
fn icmp_fields(bytes: &[u8], headers: &Headers) -> Option<IcmpFields> {
    let fields = |kind, code, query: bool, id, sequence| IcmpFields {
        kind,
        code,
        id: query.then_some(id),
        sequence: query.then_some(sequence),
    };
    if let Some(v) = IcmpView::of(bytes, headers) {
        return Some(fields(
            v.kind(),
            v.code(),
            v.is_query(),
            v.id(),
            v.sequence(),
        ));
    }
    let v = Icmpv6View::of(bytes, headers)?;
    Some(fields(
        v.kind(),
        v.code(),
        v.is_query(),
        v.id(),
        v.sequence(),
    ))
}

/// The same flow seen from the other end.
pub(super) fn turned(flow: &FlowContext) -> FlowContext {
    FlowContext {
        source: flow.destination,
        destination: flow.source,
        source_port: flow.destination_port,
        destination_port: flow.source_port,
        to_server: !flow.to_server,
        ..*flow
    }
}

/// The flow by its key alone, as packets in `direction` would show it.
pub(super) fn flow_of_key(
    key: &FlowKey,
    direction: Direction,
    to_server: bool,
    progress: Progress,
) -> FlowContext {
    let (source, source_port) = key.source(direction);
    let (destination, destination_port) = key.destination(direction);
    FlowContext {
        source,
        destination,
        source_port,
        destination_port,
        protocol: key.proto(),
        to_server,
        established: progress.is_established(key.proto() == view::TCP),
        application: progress.application(),
    }
}
