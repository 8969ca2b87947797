//! The parser against another implementation, etherparse: on built packets and real captures.

mod capture;

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice, VlanId};
use proptest::collection::vec;
use proptest::prelude::*;
use weir_packet::checksum::{Verdict, check_ipv4, check_transport};
use weir_packet::{
    Headers, KeyOptions, KeyOutcome, LinkType, Malformed, ParseOptions, classify, flow_key,
    key_of_plainest, parse, parse_generally, parse_plainest,
};

/// Whether both found the same: offsets, ports, payload. `None` where the other one stopped
/// before the transport.
fn same(bytes: &[u8], headers: &Headers, sliced: &SlicedPacket) -> Option<bool> {
    let offset = |part: &[u8]| part.as_ptr() as usize - bytes.as_ptr() as usize;
    let l3 = match sliced.net.as_ref()? {
        NetSlice::Ipv4(ipv4) => offset(ipv4.header().slice()),
        NetSlice::Ipv6(ipv6) => offset(ipv6.header().slice()),
        NetSlice::Arp(_) => return None,
    };
    let (ports, payload) = match sliced.transport.as_ref()? {
        TransportSlice::Udp(udp) => ((udp.source_port(), udp.destination_port()), udp.payload()),
        TransportSlice::Tcp(tcp) => ((tcp.source_port(), tcp.destination_port()), tcp.payload()),
        _ => return None,
    };
    // UDP may end before the IP packet does; `Headers` has the IP packet's end.
    let ours = headers.payload_of(bytes).get(..payload.len());
    Some(
        usize::from(headers.l3) == l3
            && headers.ports(bytes) == Some(ports)
            && usize::from(headers.payload) == offset(payload)
            && ours == Some(payload),
    )
}

proptest! {
    #[test]
    fn built_packets_are_read(
        tags in 0usize..3, six: bool, udp: bool, source: u16, destination: u16,
        payload in vec(any::<u8>(), 0..80), a: [u8; 16], b: [u8; 16],
    ) {
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let id = |n| VlanId::try_new(n).expect("an id");
        let v4 = |x: [u8; 16]| [x[0], x[1], x[2], x[3]];
        let builder = match (tags, six) {
            (0, false) => builder.ipv4(v4(a), v4(b), 9),
            (0, true) => builder.ipv6(a, b, 9),
            (1, false) => builder.single_vlan(id(7)).ipv4(v4(a), v4(b), 9),
            (1, true) => builder.single_vlan(id(7)).ipv6(a, b, 9),
            (_, false) => builder.double_vlan(id(7), id(8)).ipv4(v4(a), v4(b), 9),
            (_, true) => builder.double_vlan(id(7), id(8)).ipv6(a, b, 9),
        };
        let mut bytes = Vec::new();
        if udp {
            builder.udp(source, destination).write(&mut bytes, &payload).expect("a packet");
        } else {
            let tcp = builder.tcp(source, destination, 5, 1000).syn();
            let tcp = tcp.options(&[etherparse::TcpOptionElement::MaximumSegmentSize(1400)]);
            tcp.expect("options").write(&mut bytes, &payload).expect("a packet");
        }
        bytes.resize(bytes.len().max(60), 0); // padding
        let headers = parse(&bytes, LinkType::Ethernet, &ParseOptions::default()).expect("a packet");
        let sliced = SlicedPacket::from_ethernet(&bytes).expect("a packet");
        prop_assert_eq!(same(&bytes, &headers, &sliced), Some(true));
        prop_assert_eq!(check_transport(&bytes, &headers), Verdict::Good);
        prop_assert_eq!(check_ipv4(&bytes, &headers), if six { Verdict::Unchecked } else { Verdict::Good });
        prop_assert_eq!(usize::from(headers.vlans), tags);
        prop_assert_eq!(headers.vlan, [if tags > 0 { 7 } else { 0 }, if tags > 1 { 8 } else { 0 }]);
        prop_assert_eq!(headers.zone, [0, 7, 7 << 12 | 8][tags]);
    }
}

#[test]
fn captures_are_read_as_etherparse_reads_them() {
    let Some(folder) = capture::traces() else {
        return;
    };
    let index = std::fs::read_to_string(folder.join("truth/summary.tsv")).expect("summary.tsv");
    let (mut compared, mut different, mut plain) = (0, 0, 0);
    for trace in index
        .lines()
        .skip(1)
        .filter_map(|line| line.split('\t').next())
    {
        for packet in capture::read(&folder.join("traces").join(trace)) {
            let bytes = &packet.bytes;
            let options = ParseOptions::default();
            let parsed = parse(bytes, packet.link, &options);

            // Both steps in one give what the steps give.
            let mut headers = Headers::default();
            let keys = KeyOptions::default();
            let outcome = classify(bytes, packet.link, &options, &keys, &mut headers);
            match parsed {
                Ok(parsed) => {
                    assert_eq!(headers, parsed, "{trace}");
                    assert_eq!(outcome, Ok(flow_key(bytes, &parsed, &keys)), "{trace}");
                    assert_eq!(parsed.is_ip(), outcome != Ok(KeyOutcome::None), "{trace}");
                }
                Err(fault) => assert_eq!(outcome, Err(fault), "{trace}"),
            }

            if packet.link != LinkType::Ethernet {
                continue;
            }
            let mut straight = Headers::default();
            if let Some(head) = parse_plainest(bytes, packet.link, &options, &mut straight) {
                plain += 1;
                let general = parse_generally(bytes, LinkType::Ethernet, &options);
                assert_eq!(general, Ok(straight), "{trace}");
                let (key, direction) = key_of_plainest(head, &keys);
                let general = flow_key(bytes, &straight, &keys);
                assert_eq!(general, KeyOutcome::Flow(key, direction), "{trace}");
            }
            let Ok(sliced) = SlicedPacket::from_ethernet(bytes) else {
                continue;
            };
            let same = match parsed {
                Ok(headers) => same(bytes, &headers, &sliced),
                // The other one takes a UDP length beyond the packet for the packet's.
                Err(Malformed::UdpBadLength) => None,
                Err(_) => sliced.transport.is_some().then_some(false),
            };
            if let Some(same) = same {
                compared += 1;
                if !same {
                    different += 1;
                    eprintln!("{trace}: {parsed:?}\n  {:?}", sliced.transport);
                }
            }
        }
    }
    eprintln!("{compared} packets compared, {different} read differently");
    assert!(
        compared > 40_000 && plain > 20_000,
        "{plain} went the straight way"
    );
    assert!(different * 10_000 <= compared, "{different} of {compared}");
}
