//! A packet as rules see it.

use std::net::IpAddr;

use weir_nf::packet::icmp::IcmpView;
use weir_nf::packet::icmpv6::Icmpv6View;
use weir_nf::packet::ipv4::Ipv4View;
use weir_nf::packet::ipv6::Ipv6View;
use weir_nf::packet::tcp::TcpView;
use weir_nf::prelude::*;
use weir_signatures::{FlowContext, IcmpFields, PacketView, TcpFields};

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
    let (mut tcp, mut icmp) = (None, None);
    if later {
        // A later fragment has data at the place of the transport header.
    } else if let Some(view) = TcpView::of(bytes, headers) {
        tcp = Some(TcpFields {
            flags: view.flags(),
            sequence: view.sequence(),
            acknowledgement: view.acknowledgement(),
            window: view.window(),
        });
    } else if let Some(view) = IcmpView::of(bytes, headers) {
        let query = view.is_query();
        icmp = Some(IcmpFields {
            kind: view.kind(),
            code: view.code(),
            id: query.then(|| view.id()),
            sequence: query.then(|| view.sequence()),
        });
    } else if let Some(view) = Icmpv6View::of(bytes, headers) {
        let query = view.is_query();
        icmp = Some(IcmpFields {
            kind: view.kind(),
            code: view.code(),
            id: query.then(|| view.id()),
            sequence: query.then(|| view.sequence()),
        });
    }
    let payload = if later {
        bytes
            .get(usize::from(headers.payload)..headers.end as usize)
            .unwrap_or(&[])
    } else {
        packet.payload()
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
        },
        payload,
        in_stream: false,
        first_in_direction: true,
        reassembled: false,
        ttl,
        ip_id,
        ip_options,
        tcp,
        icmp,
    })
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
    established: bool,
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
        established,
    }
}
