use super::*;
use crate::walk::Walk;
use proptest::prelude::*;

const TCP: [u8; 20] = [
    0x9c, 0x40, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 1, 0, 0, 0, 0, 0,
];
const UDP: [u8; 8] = [0x9c, 0x40, 0, 53, 0, 8, 0, 0];

fn ipv4(proto: u8, rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![
        0x45, 0, 0, 0, 0, 1, 0, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ];
    packet.extend(rest);
    let total = packet.len() as u16;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet
}

fn ipv6(next: u8, rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, next, 64];
    packet[4..6].copy_from_slice(&(rest.len() as u16).to_be_bytes());
    packet.extend([0x20; 32]);
    packet.extend(rest);
    packet
}

fn ethernet(kind: u16, rest: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &kind.to_be_bytes(), rest].concat()
}

fn udp(port: u16, rest: &[u8]) -> Vec<u8> {
    let length = (8 + rest.len()) as u16;
    [
        &[0x9c, 0x40][..],
        &port.to_be_bytes(),
        &length.to_be_bytes(),
        &[0, 0],
        rest,
    ]
    .concat()
}

fn full(bytes: &[u8]) -> Result<Headers, Malformed> {
    parse(bytes, LinkType::Ethernet, &ParseOptions::default())
}

fn inner(bytes: &[u8]) -> Result<Headers, Malformed> {
    parse(
        bytes,
        LinkType::Ethernet,
        &ParseOptions {
            inner: true,
            ..Default::default()
        },
    )
}

#[test]
fn plain_tcp() {
    let frame = ethernet(0x0800, &ipv4(6, &[&TCP[..], b"GET /"].concat()));
    let headers = full(&frame).expect("a packet");
    assert_eq!((headers.l3, headers.l4, headers.payload), (14, 34, 54));
    assert_eq!((headers.tcp_flags, headers.proto), (0x18, 6));
    assert_eq!(headers.payload_of(&frame), b"GET /");
    assert_eq!(headers.ports(&frame), Some((40_000, 80)));
    assert_eq!(headers.flags, HeaderFlags::IPV4 | HeaderFlags::TCP);
}

#[test]
fn padding_lies_after_the_end() {
    let mut frame = ethernet(0x0800, &ipv4(17, &UDP));
    frame.resize(60, 0);
    let headers = full(&frame).expect("a packet");
    assert_eq!((headers.end, headers.payload_len()), (42, 0));
    assert!(!headers.is_cut());
}

#[test]
fn cut_in_the_payload_is_fine_and_in_a_header_is_not() {
    let frame = ethernet(0x0800, &ipv4(6, &[&TCP[..], &[0; 100]].concat()));
    let headers = full(&frame[..60]).expect("a packet");
    assert!(headers.is_cut() && headers.is_tcp());
    assert_eq!((headers.end, headers.payload_len()), (60, 6));
    assert_eq!(full(&frame[..50]), Err(Malformed::TcpTruncated));
    assert_eq!(full(&frame[..30]), Err(Malformed::Ipv4Truncated));
    assert_eq!(full(&frame[..13]), Err(Malformed::EthernetTruncated));
    let lenient = ParseOptions {
        lenient: true,
        ..Default::default()
    };
    let headers = parse(&frame[..50], LinkType::Ethernet, &lenient).expect("a packet");
    assert_eq!(headers.damage(), Some(Malformed::TcpTruncated));
    assert_eq!(headers.ports(&frame), Some((40_000, 80)));
    let headers = parse(&frame[..36], LinkType::Ethernet, &lenient).expect("a packet");
    assert!(headers.is_ipv4() && !headers.has_ports());
}

#[test]
fn faults_have_names() {
    let with = |at: usize, octet: u8, proto, rest: &[u8]| {
        let mut frame = ethernet(0x0800, &ipv4(proto, rest));
        frame[at] = octet;
        full(&frame).expect_err("a fault")
    };
    assert_eq!(with(14, 0x65, 6, &TCP), Malformed::Ipv4BadVersion);
    assert_eq!(with(14, 0x44, 6, &TCP), Malformed::Ipv4BadHeaderLength);
    assert_eq!(with(17, 19, 6, &TCP), Malformed::Ipv4BadTotalLength);
    assert_eq!(with(46, 0x40, 6, &TCP), Malformed::TcpBadOffset);
    assert_eq!(with(46, 0xf0, 6, &TCP), Malformed::TcpBadOffset);
    assert_eq!(with(39, 7, 17, &UDP), Malformed::UdpBadLength);
    assert_eq!(with(39, 9, 17, &UDP), Malformed::UdpBadLength);
    assert_eq!(with(0, 0, 17, &UDP[..6]), Malformed::UdpTruncated);
    assert_eq!(with(0, 0, 132, &[0; 8]), Malformed::SctpTruncated);
    assert_eq!(with(0, 0, 1, &[0; 4]), Malformed::IcmpTruncated);
    let six = |packet: &[u8]| full(&ethernet(0x86dd, packet)).expect_err("a fault");
    assert_eq!(six(&ipv4(6, &[0; 30])), Malformed::Ipv6BadVersion);
    assert_eq!(six(&ipv6(6, &[])[..39]), Malformed::Ipv6Truncated);
    assert_eq!(
        six(&ipv6(0, &[17, 1, 0, 0, 0, 0, 0, 0])),
        Malformed::Ipv6BadExtension
    );
    assert_eq!(
        six(&ipv6(60, &[60, 0, 0, 0, 0, 0, 0, 0].repeat(17))),
        Malformed::Ipv6TooManyExtensions
    );
    assert_eq!(six(&ipv6(58, &[1, 2, 3])), Malformed::Icmpv6Truncated);
    assert_eq!(
        full(&ethernet(0x0806, &[0, 1, 8, 0, 6, 4, 0, 1])),
        Err(Malformed::ArpTruncated)
    );
    assert_eq!(
        full(&ethernet(0x8100, &[0, 1])),
        Err(Malformed::VlanTruncated)
    );
    assert_eq!(
        full(&ethernet(0x8847, &[0, 1, 0, 64])),
        Err(Malformed::MplsTruncated)
    );
    assert_eq!(
        full(&ethernet(0x8864, &[0x11, 0])),
        Err(Malformed::PppoeTruncated)
    );
    assert_eq!(
        full(&ethernet(0x8864, &[0x21, 0, 0, 0, 0, 0])),
        Err(Malformed::PppoeBadVersion)
    );
    assert_eq!(
        full(&ethernet(0x8100, &[0, 1, 0x81, 0].repeat(50))),
        Err(Malformed::TooManyLayers)
    );
}

#[test]
fn offloaded_lengths() {
    let mut frame = ethernet(0x0800, &ipv4(6, &[&TCP[..], &[7; 3000]].concat()));
    frame[16..18].copy_from_slice(&[0, 0]);
    let headers = full(&frame).expect("a packet");
    assert!(headers.flags.contains(HeaderFlags::NO_LENGTH));
    assert_eq!(headers.payload_len(), 3000);
    let mut frame = ethernet(0x86dd, &ipv6(6, &[&TCP[..], &[7; 3000]].concat()));
    frame[18..20].copy_from_slice(&[0, 0]);
    assert_eq!(full(&frame).expect("a packet").payload_len(), 3000);
}

#[test]
fn jumbogram() {
    let mut rest = vec![17, 0, 0xc2, 4, 0, 1, 0, 0x10];
    rest.extend([0x9c, 0x40, 0, 53, 0, 0, 0, 0]);
    rest.resize(0x10010, 5);
    let mut packet = ipv6(0, &[]);
    packet.extend(rest);
    packet.extend([0; 30]); // a trailer
    let headers = full(&ethernet(0x86dd, &packet)).expect("a packet");
    assert_eq!(headers.end, 14 + 40 + 0x10010);
    assert!(headers.is_udp());
}

#[test]
fn tags_and_labels_are_skipped() {
    let tagged = ethernet(
        0x88a8,
        &[&[0x20, 7, 0x81, 0, 0, 9, 8, 0][..], &ipv4(17, &UDP)].concat(),
    );
    let headers = full(&tagged).expect("a packet");
    assert_eq!(
        (headers.vlan, headers.vlans, headers.zone),
        ([7, 9], 2, 7 << 12 | 9)
    );
    assert_eq!((headers.ethertype, headers.l3), (0x0800, 22));
    let labels = [0, 0x10, 0, 64, 0, 0x11, 1, 64];
    let frame = ethernet(0x8847, &[&labels[..], &ipv6(17, &UDP)].concat());
    assert!(full(&frame).expect("a packet").is_ipv6());
    // A pseudowire with a control word.
    let wire = ethernet(0x0800, &ipv4(17, &UDP));
    let frame = ethernet(0x8847, &[&labels[4..], &[0; 4], &wire].concat());
    let headers = full(&frame).expect("a packet");
    assert_eq!((headers.is_udp(), headers.l2), (true, 22));
    let session = [0x11, 0, 0, 1, 0, 30, 0, 0x21];
    let frame = ethernet(0x8864, &[&session[..], &ipv4(17, &UDP)].concat());
    assert!(full(&frame).expect("a packet").is_udp());
    // 802.3 with SNAP.
    let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
    let frame = ethernet(36, &[&snap[..], &ipv4(17, &UDP)].concat());
    assert!(full(&frame).expect("a packet").is_udp());
    let nsh = [0x0f, 0xc2, 2, 1, 0, 0, 1, 255];
    let frame = ethernet(0x894f, &[&nsh[..], &ipv4(17, &UDP)].concat());
    assert!(full(&frame).expect("a packet").is_udp());
    assert_eq!(full(&frame[..18]), Err(Malformed::NshTruncated));
    // Spanning tree is no fault and has no flow.
    let headers = full(&ethernet(38, &[0x42, 0x42, 3, 0, 0])).expect("a packet");
    assert!(!headers.is_ip());
}

#[test]
fn every_link_type_leads_to_ip() {
    let packet = ipv4(17, &UDP);
    let six = ipv6(17, &UDP);
    let check = |link, head: &[u8], packet: &[u8]| {
        let frame = [head, packet].concat();
        let headers = parse(&frame, link, &ParseOptions::default()).expect("a packet");
        assert!(headers.is_udp(), "{link:?} {headers:?}");
        assert_eq!(usize::from(headers.l3), head.len(), "{link:?}");
        assert_eq!(headers.link, link);
        for length in 0..head.len() {
            let cut = parse(&frame[..length], link, &ParseOptions::default());
            assert!(
                cut.is_err() || !cut.expect("no fault").is_ip(),
                "{link:?} {length}"
            );
        }
    };
    check(LinkType::RawIp, &[], &packet);
    check(LinkType::RawIp, &[], &six);
    check(LinkType::Null, &[2, 0, 0, 0], &packet);
    check(LinkType::Null, &[0, 0, 0, 2], &packet);
    check(LinkType::Null, &[30, 0, 0, 0], &six);
    check(LinkType::Loop, &[0, 0, 0, 24], &six);
    check(LinkType::Ppp, &[0xff, 3, 0, 0x21], &packet);
    check(LinkType::Ppp, &[0x21], &packet);
    check(LinkType::Ppp, &[0, 0x57], &six);
    check(LinkType::PppHdlc, &[0xff, 3, 0, 0x21], &packet);
    check(LinkType::PppHdlc, &[0x0f, 0, 8, 0], &packet);
    check(LinkType::CiscoHdlc, &[0x8f, 0, 0x86, 0xdd], &six);
    check(LinkType::FrameRelay, &[0x18, 0x41, 3, 0xcc], &packet);
    check(
        LinkType::FrameRelay,
        &[0x18, 0x41, 3, 0, 0x80, 0, 0, 0, 8, 0],
        &packet,
    );
    check(
        LinkType::Nflog,
        &[2, 0, 0, 0, 8, 0, 1, 0, 8, 0, 1, 2, 36, 0, 9, 0],
        &packet,
    );
    let mut cooked = [0; 16];
    cooked[14] = 8;
    check(LinkType::LinuxSll, &cooked, &packet);
    let mut cooked = [0; 20];
    cooked[..2].copy_from_slice(&[0x86, 0xdd]);
    check(LinkType::LinuxSll2, &cooked, &six);
    let headers = parse(&packet, LinkType::Opaque, &ParseOptions::default()).expect("a packet");
    assert!(!headers.is_ip());
}

#[test]
fn tunnels_open_on_request_only() {
    let inside = ipv4(6, &TCP);
    let frame = ethernet(0x0800, &inside);
    let check = |name: &str, outer: Vec<u8>, zone: u32| {
        let outer = ethernet(0x0800, &outer);
        assert!(!full(&outer).expect(name).is_tcp(), "{name}");
        let headers = inner(&outer).expect(name);
        assert!(
            headers.is_tcp() && headers.tunnels == 1,
            "{name}: {headers:?}"
        );
        assert_eq!(
            usize::from(headers.l3),
            outer.len() - inside.len(),
            "{name}"
        );
        assert_eq!(headers.outer_l3, 14, "{name}");
        assert_eq!(headers.zone, 1 << 31 | zone, "{name}");
        // Cut inside the tunnel: a lenient parse leaves it closed, or keeps its addresses.
        let lenient = ParseOptions {
            inner: true,
            lenient: true,
            ..Default::default()
        };
        for length in 34..outer.len() {
            let headers = parse(&outer[..length], LinkType::Ethernet, &lenient).expect(name);
            // (PPP cut to one octet opens on a protocol that is not IP.)
            assert!(headers.is_ipv4() || headers.tunnels == 1, "{name} {length}");
        }
    };
    let vxlan = [&[8, 0, 0, 0, 0, 0, 42, 0][..], &frame].concat();
    check("vxlan", ipv4(17, &udp(4789, &vxlan)), 42);
    check("vxlan", ipv4(17, &udp(8472, &vxlan)), 42);
    let geneve = [&[1, 0, 0x65, 0x58, 0, 0, 42, 0, 1, 2, 3, 4][..], &frame].concat();
    check("geneve", ipv4(17, &udp(6081, &geneve)), 42);
    let geneve = [&[0, 0, 8, 0, 0, 0, 42, 0][..], &inside].concat();
    check("geneve ip", ipv4(17, &udp(6081, &geneve)), 42);
    let gre = [&[0, 0, 8, 0][..], &inside].concat();
    check("gre", ipv4(47, &gre), 0);
    check("gre in udp", ipv4(17, &udp(4754, &gre)), 0);
    let gre = [
        &[0xb0, 0, 0x65, 0x58, 0, 0, 0, 0, 0, 0, 0, 42, 0, 0, 0, 1][..],
        &frame,
    ]
    .concat();
    check("gre ethernet", ipv4(47, &gre), 42);
    let pptp = [
        &[
            0x30, 0x81, 0x88, 0x0b, 0, 9, 0, 5, 0, 0, 0, 1, 0, 0, 0, 1, 0xff, 3, 0, 0x21,
        ][..],
        &inside,
    ]
    .concat();
    check("pptp", ipv4(47, &pptp), 0);
    let erspan = [
        &[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 0, 0, 0, 0, 0, 0, 0][..],
        &frame,
    ]
    .concat();
    check("erspan", ipv4(47, &erspan), 0);
    let eoip = [&[0x20, 1, 0x64, 0, 0, 0, 0, 42][..], &frame].concat();
    check("eoip", ipv4(47, &eoip), 42);
    check("ipip", ipv4(4, &inside), 0);
    let headers = inner(&ethernet(0x0800, &ipv4(41, &ipv6(17, &UDP)))).expect("6in4");
    assert!(headers.is_ipv6() && headers.is_udp() && !headers.is_ipv4());

    let short = ethernet(0x0800, &ipv4(17, &udp(4789, &[8, 0, 0])));
    assert_eq!(inner(&short), Err(Malformed::VxlanTruncated));
    // Nested beyond what is followed: the packet is the one in the last tunnel opened.
    let mut nest = inside;
    for _ in 0..20 {
        nest = ipv4(4, &nest);
    }
    let headers = inner(&ethernet(0x0800, &nest)).expect("a packet");
    assert_eq!(
        (headers.tunnels, headers.proto),
        (crate::walk::MAX_TUNNELS, 4)
    );
}

#[test]
fn fragments_are_not_opened() {
    let mut frame = ethernet(0x0800, &ipv4(4, &ipv4(6, &TCP)));
    frame[20] = 0x20;
    let headers = inner(&frame).expect("a packet");
    assert!(headers.is_fragment() && headers.tunnels == 0);
    frame[21] = 5;
    assert!(inner(&frame).expect("a packet").is_later_fragment());
}

#[test]
fn depth_is_kept() {
    let frame = ethernet(0x0800, &ipv4(6, &TCP[..10]));
    let to = |depth| ParseOptions {
        depth,
        ..Default::default()
    };
    assert_eq!(full(&frame), Err(Malformed::TcpTruncated));
    let headers = parse(&frame, LinkType::Ethernet, &to(Depth::L3)).expect("a packet");
    assert!(headers.is_ipv4() && !headers.is_tcp());
    assert_eq!((headers.proto, headers.l4), (6, 34));
    let headers = parse(&frame[..16], LinkType::Ethernet, &to(Depth::L2)).expect("a packet");
    assert!(!headers.is_ip());
    assert_eq!((headers.ethertype, headers.l3), (0x0800, 14));
}

/// Frames that start plausibly, so that random octets reach the inner parsers.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let kinds = proptest::sample::select(vec![
        0x0800u16, 0x86dd, 0x8100, 0x88a8, 0x8847, 0x8864, 0x0806, 0x8903, 0x894f, 0x0026,
    ]);
    let first = proptest::sample::select(vec![0x45u8, 0x60, 0x46, 0x11, 0xaa, 0x00]);
    let proto = proptest::sample::select(vec![0u8, 1, 4, 6, 17, 41, 43, 44, 47, 51, 58, 60, 132]);
    let port = proptest::sample::select(vec![4789u16, 8472, 6081, 4754, 53]);
    (
        kinds,
        first,
        proto,
        port,
        any::<bool>(),
        proptest::collection::vec(any::<u8>(), 0..200),
    )
        .prop_map(|(kind, first, proto, port, whole, mut rest)| {
            let length = rest.len() as u16;
            let mut put = |at: usize, value: u8| {
                if let Some(place) = rest.get_mut(at) {
                    *place = value;
                }
            };
            put(0, first);
            put(if first == 0x60 { 6 } else { 9 }, proto);
            if whole && first == 0x45 {
                put(2, (length >> 8) as u8);
                put(3, length as u8);
                put(6, 0);
                put(7, 0);
                put(22, (port >> 8) as u8);
                put(23, port as u8);
                put(24, (length.saturating_sub(20) >> 8) as u8);
                put(25, length.saturating_sub(20) as u8);
                put(32, 0x50);
            }
            ethernet(kind, &rest)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn nothing_panics_and_offsets_are_inside(
        frame in frames(), link in 0u8..12, depth in 0u8..3, open: bool, lenient: bool, ethernet: bool,
    ) {
        let link = if ethernet { LinkType::Ethernet } else { LinkType::from_u8(link) };
        let depth = [Depth::L2, Depth::L3, Depth::L4][usize::from(depth)];
        let options = ParseOptions { depth, inner: open, lenient };
        if let Ok(headers) = parse(&frame, link, &options) {
            prop_assert!(headers.end as usize <= frame.len());
            prop_assert!(usize::from(headers.l3) <= frame.len());
            if headers.is_ip() && !headers.flags.contains(HeaderFlags::DAMAGED) {
                prop_assert!(headers.l3 < headers.l4);
                prop_assert!(headers.l4 <= headers.payload);
                prop_assert!(u32::from(headers.payload) <= headers.end);
                prop_assert!(headers.outer_l3 <= headers.l3);
            }
            for options in [crate::KeyOptions::default(), crate::KeyOptions { icmp: crate::IcmpKey::Addresses, ..Default::default() }] {
                let _ = crate::flow_key(&frame, &headers, &options);
                let _ = crate::FragmentKey::of(&frame, &headers, &options);
            }
            let _ = crate::checksum::check_ipv4(&frame, &headers);
            let _ = crate::checksum::check_transport(&frame, &headers);
            let mut copy = frame.clone();
            let _ = crate::checksum::fill(&mut copy, &headers);
        }
    }

    /// If the straight way answers, the walker answers the same.
    #[test]
    fn the_straight_way_agrees(frame in frames(), open: bool) {
        let options = ParseOptions { inner: open, ..Default::default() };
        if let Some(found) = plain(&frame, open) {
            let mut headers = Headers { zone: 9, l2: 9, damage: 9, ..Headers::default() };
            found.put(&mut headers);
            prop_assert_eq!(Walk::new(&frame, LinkType::Ethernet, &options).run(), Ok(headers));
        }
        let mut headers = Headers { zone: 9, l2: 9, damage: 9, ..Headers::default() };
        if let Some(head) = parse_plainest(&frame, LinkType::Ethernet, &options, &mut headers) {
            prop_assert_eq!(Walk::new(&frame, LinkType::Ethernet, &options).run(), Ok(headers));
            let keys = KeyOptions { chain: 3, zone: true, ..KeyOptions::default() };
            let (key, direction) = key_of_plainest(head, &keys);
            prop_assert_eq!(flow_key(&frame, &headers, &keys), KeyOutcome::Flow(key, direction));
        }
    }
}

/// The ports of the innermost packet, in its zone.
#[track_caller]
fn opened(bytes: &[u8], zone: u32) {
    let headers = inner(bytes).unwrap();
    assert!(headers.is_udp(), "{headers:?}");
    assert_eq!(headers.ports(bytes), Some((40_000, 53)), "{headers:?}");
    assert_eq!(headers.zone, zone, "{headers:?}");
    // However it is cut, it is read without a fault of weir's.
    for length in 0..bytes.len() {
        let _ = inner(&bytes[..length]);
    }
}

#[test]
fn backbone_frames_are_opened_within_their_service() {
    let frame = ethernet(0x0800, &ipv4(17, &UDP));
    let instance = |frame: &[u8]| ethernet(0x88e7, &[&[0x20, 1, 2, 3][..], frame].concat());
    opened(&instance(&frame), 1 << 30 | 0x01_0203);
    // The backbone's VLAN, and a customer's.
    let tagged = ethernet(0x8100, &[&[0, 7, 8, 0][..], &ipv4(17, &UDP)].concat());
    let backbone = [&[2; 12][..], &[0x88, 0xa8, 0, 9], &instance(&tagged)[12..]].concat();
    opened(&backbone, 1 << 30 | 0x01_0203);
    assert_eq!(inner(&backbone).unwrap().vlan, [9, 7]);
}

#[test]
fn tags_of_port_extenders_are_passed_over() {
    let tag = [&[0x80, 1, 0, 2, 8, 0][..], &ipv4(17, &UDP)].concat();
    opened(&ethernet(0x8926, &tag), 0);
}

#[test]
fn packets_of_mobile_users_are_opened() {
    let inside = ipv4(17, &UDP);
    let frame = |gtp: &[u8]| ethernet(0x0800, &ipv4(17, &udp(2152, gtp)));
    let plain = [&[0x30, 255, 0, 28, 0, 0, 0, 5][..], &inside].concat();
    opened(&frame(&plain), 1 << 31);
    // A sequence number, and two extensions (the first of eight octets).
    let options = [
        &[0x36, 255, 0, 44, 0, 0, 0, 5, 0, 1, 0, 0x85][..],
        &[2, 0, 0, 0, 0, 0, 0, 0xc0],
        &[1, 0, 0, 0],
        &inside,
    ];
    opened(&frame(&options.concat()), 1 << 31);
    // A frame of an Ethernet session, whatever its addresses begin with.
    for first in [0x02, 0x45, 0x60] {
        let mut framed = ethernet(0x0800, &inside);
        framed[0] = first;
        let tagged = [&framed[..12], &[0x81, 0, 0, 9], &framed[12..]].concat();
        for user in [framed, tagged] {
            let head = [0x30, 255, 0, user.len() as u8, 0, 0, 0, 5];
            opened(&frame(&[&head[..], &user].concat()), 1 << 31);
        }
    }
    // A packet whose source looks like the type of a frame.
    let mut from_there = inside.clone();
    from_there[12..16].copy_from_slice(&[8, 0, 0x40, 1]);
    opened(&frame(&[&plain[..8], &from_there].concat()), 1 << 31);
    // An extension without length, another version, an echo: no packet of a user's.
    for other in [
        &[0x34, 255, 0, 28, 0, 0, 0, 5, 0, 1, 0, 0x85, 0, 0, 0, 0][..],
        &[0x48, 255, 0, 28, 0, 0, 0, 5],
        &[0x30, 1, 0, 0, 0, 0, 0, 0],
        &[0x30, 255, 0, 4, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff],
    ] {
        let bytes = frame(other);
        let headers = inner(&bytes).unwrap();
        assert_eq!(
            (headers.tunnels, headers.ports(&bytes)),
            (0, Some((40_000, 2152)))
        );
    }
}

#[test]
fn wireless_frames_of_access_points_are_opened() {
    let inside = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &ipv4(17, &UDP)].concat();
    let frame = |control: [u8; 2], more: usize, qos: u8| {
        let mut gre = vec![0, 0, 0x82, 0x00, control[0], control[1]];
        gre.extend([0; 22]);
        gre.extend(std::iter::repeat_n(qos, more));
        gre.extend(&inside);
        ethernet(0x0800, &ipv4(47, &gre))
    };
    opened(&frame([0x08, 1], 0, 0), 1 << 31);
    opened(&frame([0x88, 1], 2, 0), 1 << 31);
    opened(&frame([0x88, 0x83], 12, 0), 1 << 31);
    // Encrypted, an aggregate, a beacon, no data.
    for (control, more, qos) in [
        ([0x08, 0x41], 0, 0),
        ([0x88, 1], 2, 0x80),
        ([0x80, 0], 0, 0),
        ([0x48, 1], 0, 0),
    ] {
        assert_eq!(inner(&frame(control, more, qos)).unwrap().tunnels, 0);
    }
}

#[test]
fn loopback_families_of_other_systems_are_known() {
    let read = |head: [u8; 4], packet: &[u8]| {
        let bytes = [&head[..], packet].concat();
        parse(&bytes, LinkType::Null, &ParseOptions::default()).unwrap()
    };
    let (four, six) = (ipv4(17, &UDP), ipv6(17, &UDP));
    for family in [10, 23, 24, 28, 30] {
        assert!(read([family, 0, 0, 0], &six).is_ipv6(), "{family}");
        assert!(read([0, 0, 0, family], &six).is_ipv6(), "{family}");
    }
    assert!(read([2, 0, 0, 0], &four).is_ipv4());
    assert!(read([0, 0, 8, 0], &four).is_ipv4());
    assert!(read([0, 0, 0x86, 0xdd], &six).is_ipv6());
    assert!(read([0xff, 3, 0, 0x21], &four).is_ipv4());
    // IPX on BSD, and a family that nobody has.
    assert!(!read([23, 0, 0, 0], &[0xff; 30]).is_ip());
    assert!(!read([99, 0, 0, 0], &four).is_ip());
}
