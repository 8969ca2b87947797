//! Forwarding.

use super::*;

#[test]
fn a_packet_gets_its_next_hops_address_and_one_hop_less_rfc1812_5_3_1() {
    for (source, destination) in [("10.0.0.5", "192.0.2.9"), ("fd00:1::5", "fd00:7::9")] {
        let mut rig = Rig::known();
        rig.forward(LAN, &udp(LAN, source, destination, 9, 10));
        let out = rig.only(WAN);
        assert_eq!(macs(&out), (GATE_MAC, WAN_MAC));
        assert_eq!(ends(&out), (ip(source), ip(destination), 8));
        // And back, to a host on the link itself.
        rig.forward(WAN, &udp(WAN, destination, source, 64, 10));
        let back = rig.only(LAN);
        assert_eq!(macs(&back), (HOST_MAC, LAN_MAC));
        assert_eq!(ends(&back).2, 63);
    }
}

#[test]
fn what_is_for_others_is_dropped_under_its_reason() {
    let good = udp(LAN, "10.0.0.5", "192.0.2.9", 9, 10);
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        bytes
    };
    let to = |destination: &str| udp(LAN, "10.0.0.5", destination, 9, 10);
    let from = |source: &str| udp(LAN, source, "192.0.2.9", 9, 10);
    let cases = [
        (Reason::OtherStation, with(&|b| b[5] ^= 1)),
        (Reason::LinkBroadcast, with(&|b| b[..6].fill(0xff))),
        (Reason::Malformed, with(&|b| b[24] ^= 1)),
        (Reason::Malformed, with(&|b| b.truncate(40))),
        (Reason::Malformed, with(&|b| b.truncate(13))),
        (
            Reason::Tagged,
            with(&|b| b[12..14].copy_from_slice(&[0x81, 0])),
        ),
        (
            Reason::NotIp,
            with(&|b| b[12..14].copy_from_slice(&[0x88, 0xcc])),
        ),
        (Reason::Multicast, to("224.0.0.5")),
        (Reason::Broadcast, to("255.255.255.255")),
        (Reason::Broadcast, to("10.0.0.255")),
        (Reason::Broadcast, to("198.51.100.255")),
        (Reason::Broadcast, to("198.51.100.0")),
        (Reason::Martian, to("127.0.0.1")),
        (Reason::Martian, to("240.0.0.1")),
        (Reason::Martian, from("127.0.0.1")),
        (Reason::Martian, from("0.0.0.0")),
        (Reason::Martian, from("224.0.0.1")),
        (Reason::LinkLocal, to("169.254.1.1")),
        (Reason::LinkLocal, from("169.254.1.1")),
        (Reason::ToRouter, to("198.51.100.1")),
        (Reason::SameSide, to("10.0.0.6")),
        (Reason::Multicast, udp(LAN, "fd00:1::5", "ff02::1", 9, 10)),
        (Reason::LinkLocal, udp(LAN, "fd00:1::5", "fe80::77", 9, 10)),
        (Reason::LinkLocal, udp(LAN, "fe80::77", "fd00:7::9", 9, 10)),
        (Reason::Martian, udp(LAN, "::1", "fd00:7::9", 9, 10)),
        (Reason::NoRoute, udp(LAN, "fd00:1::5", "2001:db8::9", 9, 10)),
    ];
    for (reason, bytes) in cases {
        let mut rig = Rig::known();
        assert!(rig.receive(LAN, &bytes).is_empty(), "{}", reason.name());
        rig.dropped(true, reason, 1);
    }
}

#[test]
fn a_source_route_is_not_followed_rfc7126_4_3() {
    let mut bytes = udp(LAN, "10.0.0.5", "192.0.2.9", 9, 10);
    // Loose source route with one address, and the end of the list.
    let options = [131, 7, 4, 192, 0, 2, 1, 0];
    bytes.splice(34..34, options);
    bytes[14] = 0x47;
    let length = (bytes.len() - 14) as u16;
    bytes[16..18].copy_from_slice(&length.to_be_bytes());
    bytes[24..26].fill(0);
    let sum = weir_packet::checksum::internet(&bytes[14..42]);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    let mut rig = Rig::known();
    assert!(rig.receive(LAN, &bytes).is_empty());
    rig.dropped(true, Reason::SourceRoute, 1);
    // Another option (record route) does no harm.
    bytes[34] = 7;
    bytes[24..26].fill(0);
    let sum = weir_packet::checksum::internet(&bytes[14..42]);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(rig.receive(LAN, &bytes).len(), 1);
}

#[test]
fn what_functions_own_goes_to_the_chain() {
    let mut rig = Rig::known();
    for (at, source, destination) in [
        (WAN, "192.0.2.9", "198.51.100.10"),
        (WAN, "192.0.2.9", "203.0.113.80"),
        (LAN, "10.0.0.5", "203.0.113.80"),
        (LAN, "fd00:1::5", "fd00:9::80"),
    ] {
        let taken = rig.receive(at, &udp(at, source, destination, 9, 10));
        assert_eq!(taken.len(), 1, "{destination}");
        assert_eq!(ends(&taken[0]).2, 8);
        // A packet that the chain does not translate goes no further.
        rig.send(at, &taken[0]);
    }
    rig.dropped(false, Reason::ToOwned, 4);
}

#[test]
fn an_address_of_the_router_that_the_nat_uses_too_goes_to_the_chain() {
    let mut config = config();
    config.owned[0].addresses = "198.51.100.1/32".parse().unwrap();
    let mut rig = Rig::of(config);
    let packet = udp(WAN, "198.51.100.7", "198.51.100.1", 9, 10);
    assert_eq!(rig.receive(WAN, &packet).len(), 1);
    // The router answers a ping of the address.
    assert!(
        rig.receive(WAN, &echo(WAN, "198.51.100.7", "198.51.100.1"))
            .is_empty()
    );
    assert_eq!(rig.router.counts().echo, 1);
}

#[test]
fn echo_requests_to_its_own_addresses_are_answered_rfc1812_4_3_3_6() {
    let mut rig = Rig::known();
    for (source, destination) in [
        ("10.0.0.5", "10.0.0.1"),
        // Its other port's address is as good.
        ("10.0.0.5", "198.51.100.1"),
        ("fd00:1::5", "fd00:1::1"),
    ] {
        assert!(rig.receive(LAN, &echo(LAN, source, destination)).is_empty());
        let out = rig.only(LAN);
        assert_eq!(macs(&out), (HOST_MAC, LAN_MAC));
        assert_eq!(ends(&out), (ip(destination), ip(source), 64));
        let (kind, code, word, rest) = icmp(&out);
        assert!(kind == 0 || kind == 129);
        assert_eq!(
            (code, word, rest.as_slice()),
            (0, 7 << 16 | 1, &b"hello"[..])
        );
    }
    // Its link-local address (RFC 4291 appendix A: of 02:00:00:00:00:01).
    let own = "fe80::ff:fe00:1";
    assert!(rig.receive(LAN, &echo(LAN, "fd00:1::5", own)).is_empty());
    assert_eq!(ends(&rig.only(LAN)).0, ip(own));
}

#[test]
fn an_answer_is_as_long_as_its_datagram_and_its_source_is_on_its_link() {
    let mut rig = Rig::known();
    let request = echo(LAN, "10.0.0.5", "10.0.0.1");
    let padded = [&request[..], &[0xee; 20]].concat();
    rig.receive(LAN, &padded);
    assert_eq!(rig.only(LAN).len(), request.len());
    // RFC 4291 section 2.5.6: from another link's address, whose answer would
    // leave by the WAN.
    rig.receive(LAN, &echo(LAN, "fd00:7::9", "fe80::ff:fe00:1"));
    assert!(rig.out(WAN).is_empty());
    rig.dropped(false, Reason::LinkLocal, 1);
}

#[test]
fn datagrams_that_may_be_cut_are_cut_rfc791_3_2() {
    let mut rig = Rig::known();
    let mut whole = udp(LAN, "10.0.0.5", "192.0.2.9", 9, 1_460);
    whole[20] = 0; // etherparse sets "don't fragment"
    whole[24..26].fill(0);
    let sum = weir_packet::checksum::internet(&whole[14..34]);
    whole[24..26].copy_from_slice(&sum.to_be_bytes());
    rig.forward(LAN, &whole);
    let pieces = rig.out(WAN);
    assert_eq!(pieces.len(), 2);
    let mut data = Vec::new();
    for (piece, more) in pieces.iter().zip([true, false]) {
        assert!(piece.len() - 14 <= 1_400);
        assert_eq!(ends(piece), (ip("10.0.0.5"), ip("192.0.2.9"), 8));
        let flags = u16::from_be_bytes([piece[20], piece[21]]);
        assert_eq!(flags & 0x2000 != 0, more);
        assert_eq!(usize::from(flags & 0x1fff) * 8, data.len());
        assert_eq!(piece[18..20], whole[18..20], "the identification");
        data.extend_from_slice(&piece[34..]);
    }
    assert_eq!(data, whole[34..]);
    assert_eq!(rig.router.counts().fragments, 2);
}

#[test]
fn an_answer_that_its_link_does_not_take_is_cut_or_dropped() {
    let mut rig = Rig::known();
    // From behind the WAN, whose link takes less than the LAN's; by the LAN.
    let request = |source: &str, destination: &str| {
        let mut bytes = Vec::new();
        let builder = PacketBuilder::ethernet2(HOST_MAC.0, LAN_MAC.0);
        let payload = [0x5a; 1_450];
        match (ip(source), ip(destination)) {
            (IpAddr::V4(a), IpAddr::V4(b)) => builder
                .ipv4(a.octets(), b.octets(), 9)
                .icmpv4_echo_request(7, 1)
                .write(&mut bytes, &payload),
            (IpAddr::V6(a), IpAddr::V6(b)) => builder
                .ipv6(a.octets(), b.octets(), 9)
                .icmpv6_echo_request(7, 1)
                .write(&mut bytes, &payload),
            _ => panic!("two families"),
        }
        .unwrap();
        bytes
    };
    // The same twice, not to be cut and so without an identification: the pieces
    // of its answers have one each, or they would be put together crosswise (RFC
    // 6864 section 4.3).
    let mut identifications = Vec::new();
    for _ in 0..2 {
        let asked = request("192.0.2.9", "10.0.0.1");
        assert_eq!(asked[18..21], [0, 0, 0x40]);
        rig.receive(LAN, &asked);
        let pieces = rig.out(WAN);
        assert_eq!(pieces.len(), 2);
        assert!(pieces.iter().all(|piece| piece.len() - 14 <= 1_400));
        assert_eq!(pieces[0][18..20], pieces[1][18..20]);
        identifications.push(pieces[0][18..20].to_vec());
    }
    assert_ne!(identifications[0], identifications[1]);
    // Only who sends a datagram of IPv6 may cut it, and path MTU discovery is
    // more than an echo is worth.
    rig.receive(LAN, &request("fd00:7::9", "fd00:1::1"));
    assert!(rig.out(WAN).is_empty());
    rig.dropped(false, Reason::TooBig, 1);
}
