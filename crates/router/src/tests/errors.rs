//! ICMP errors to senders.

use super::*;

#[test]
fn a_packet_whose_hops_are_up_dies_and_its_sender_is_told_rfc1812_5_3_1() {
    for (source, destination, kind, own) in [
        ("10.0.0.5", "192.0.2.9", 11, "10.0.0.1"),
        ("fd00:1::5", "fd00:7::9", 3, "fd00:1::1"),
    ] {
        for ttl in [0, 1] {
            let mut rig = Rig::known();
            let packet = udp(LAN, source, destination, ttl, 10);
            assert!(rig.receive(LAN, &packet).is_empty());
            let out = rig.only(LAN);
            assert_eq!(macs(&out), (HOST_MAC, LAN_MAC));
            assert_eq!(ends(&out), (ip(own), ip(source), 64));
            // It quotes the packet as it was sent.
            assert_eq!(icmp(&out), (kind, 0, 0, packet[14..].to_vec()));
            rig.dropped(true, Reason::TtlExceeded, 1);
        }
    }
}

#[test]
fn a_datagram_too_big_for_the_next_link_is_refused_with_the_mtu_rfc1191_rfc8201() {
    let mut rig = Rig::known();
    // Packets out have 1,400 octets at most, packets in 1,500.
    let fits = udp(LAN, "10.0.0.5", "192.0.2.9", 9, 1_400 - 28);
    assert_eq!(rig.receive(LAN, &fits).len(), 1);
    let big = udp(LAN, "10.0.0.5", "192.0.2.9", 9, 1_401 - 28);
    assert!(rig.receive(LAN, &big).is_empty());
    let (kind, code, word, quoted) = icmp(&rig.only(LAN));
    assert_eq!((kind, code, word), (3, 4, 1_400));
    assert_eq!(quoted, big[14..14 + 576 - 28], "576 octets at most");
    let big = udp(LAN, "fd00:1::5", "fd00:7::9", 9, 1_401 - 48);
    assert!(rig.receive(LAN, &big).is_empty());
    let (kind, code, word, quoted) = icmp(&rig.only(LAN));
    assert_eq!((kind, code, word), (2, 0, 1_400));
    assert_eq!(quoted, big[14..14 + 1_280 - 48], "1,280 octets at most");
    rig.dropped(true, Reason::TooBig, 2);
}

#[test]
fn what_shows_behind_the_chain_is_told_through_it() {
    // The chain has made a packet longer than the link takes.
    let mut rig = Rig::known();
    let big = udp(LAN, "198.51.100.10", "192.0.2.9", 8, 1_401 - 28);
    rig.send(LAN, &big);
    rig.dropped(false, Reason::TooBig, 1);
    assert!(rig.out(LAN).is_empty() && rig.out(WAN).is_empty());
    let told = rig.returned(Side::Outside);
    assert_eq!(told.len(), 1);
    // As from the next link: to the address that the NAT has given.
    assert_eq!(ends(&told[0]).0, ip("198.51.100.1"));
    assert_eq!(ends(&told[0]).1, ip("198.51.100.10"));
    assert_eq!(icmp(&told[0]).3, big[14..14 + 548]);
    // Back from the chain, translated, it goes to the host; not one hop less.
    let mut translated = told[0].clone();
    translated[30..34].copy_from_slice(&[10, 0, 0, 5]);
    translated[24..26].fill(0);
    let sum = weir_packet::checksum::internet(&translated[14..34]);
    translated[24..26].copy_from_slice(&sum.to_be_bytes());
    rig.send(WAN, &translated);
    assert_eq!(
        ends(&rig.only(LAN)),
        (ip("198.51.100.1"), ip("10.0.0.5"), 64)
    );
}

#[test]
fn an_error_that_no_longer_goes_through_the_chain_is_not_counted_so() {
    let mut rig = Rig::new();
    let host = udp(WAN, "192.0.2.9", "10.0.0.9", 9, 10);
    rig.forward(WAN, &host);
    for second in 1..=3 {
        rig.tick(after(second));
    }
    assert_eq!(rig.router.counts().errors_through_chain, 1);
    assert!(rig.router.has_returned());
    rig.router.finish(&mut rig.pool);
    assert_eq!(rig.router.counts().errors_through_chain, 0);
}

#[test]
fn no_error_about_errors_groups_or_later_fragments_rfc1122_3_2_2_rfc4443_2_4() {
    // A time exceeded whose own time is up.
    let mut rig = Rig::known();
    let packet = udp(LAN, "10.0.0.5", "192.0.2.9", 1, 10);
    rig.receive(LAN, &packet);
    let mut error = rig.only(LAN);
    error[..6].copy_from_slice(&LAN_MAC.0);
    error[22] = 1;
    error[26..30].copy_from_slice(&[10, 0, 0, 5]);
    error[30..34].copy_from_slice(&[192, 0, 2, 9]);
    let fix = |bytes: &mut Vec<u8>| {
        bytes[24..26].fill(0);
        let sum = weir_packet::checksum::internet(&bytes[14..34]);
        bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    };
    fix(&mut error);
    assert!(rig.receive(LAN, &error).is_empty());
    rig.dropped(true, Reason::TtlExceeded, 2);
    assert!(rig.out(LAN).is_empty());
    // A later fragment.
    let mut later = packet;
    later[20..22].copy_from_slice(&100u16.to_be_bytes());
    fix(&mut later);
    assert!(rig.receive(LAN, &later).is_empty());
    assert!(rig.out(LAN).is_empty());
    // The first fragment's sender is told.
    later[20..22].copy_from_slice(&0x2000u16.to_be_bytes());
    fix(&mut later);
    rig.receive(LAN, &later);
    rig.only(LAN);
    // An ICMPv6 error.
    let mut six = udp(LAN, "fd00:1::5", "fd00:7::9", 1, 10);
    rig.receive(LAN, &six);
    rig.only(LAN);
    six[20] = 58;
    six[54] = 1;
    rig.receive(LAN, &six);
    assert!(rig.out(LAN).is_empty());
    // An echo request is none.
    six[54] = 128;
    rig.receive(LAN, &six);
    rig.only(LAN);
    assert_eq!(rig.router.counts().errors, 4);
}

#[test]
fn other_refusals_have_their_codes() {
    for (packet, kind, code) in [
        (udp(LAN, "fd00:1::5", "2001:db8::9", 9, 10), 1, 0),
        (udp(LAN, "10.0.0.5", "10.0.0.6", 9, 10), 3, 13),
        (udp(LAN, "fd00:1::5", "fd00:1::6", 9, 10), 1, 1),
        // Nobody listens on the router (RFC 1122 section 4.1.3.1).
        (udp(LAN, "10.0.0.5", "10.0.0.1", 1, 10), 3, 3),
        (udp(LAN, "fd00:1::5", "fd00:1::1", 1, 10), 1, 4),
    ] {
        let mut rig = Rig::known();
        rig.receive(LAN, &packet);
        let told = icmp(&rig.only(LAN));
        assert_eq!((told.0, told.1), (kind, code), "{packet:x?}");
    }
}

#[test]
fn no_more_errors_than_so_many_a_second_rfc1812_4_3_2_8() {
    let mut config = config();
    config.limits.errors = 20;
    config.neighbours = vec![NeighbourConfig {
        port: LAN,
        address: ip("10.0.0.5"),
        mac: HOST_MAC,
    }];
    let mut rig = Rig::of(config);
    let packet = udp(LAN, "10.0.0.5", "192.0.2.9", 1, 10);
    let burst = |rig: &mut Rig| {
        (0..100).for_each(|_| drop(rig.receive(LAN, &packet)));
        rig.out(LAN).len()
    };
    // A tenth of a second's at once, then as many as the time has given.
    assert_eq!(burst(&mut rig), 2);
    rig.now = START.plus(50_000_000);
    assert_eq!(burst(&mut rig), 1);
    rig.now = after(5);
    assert_eq!(burst(&mut rig), 2);
    assert_eq!(rig.router.counts().errors_limited, 295);
    // Those that path discovery needs have a limit of their own.
    let big = udp(LAN, "10.0.0.5", "192.0.2.9", 9, 1_450);
    rig.receive(LAN, &big);
    assert_eq!(icmp(&rig.only(LAN)).1, 4);
}

#[test]
fn redirects_change_no_route_and_reach_nobody_rfc1812_5_2_7_2() {
    let mut rig = Rig::known();
    let gate = std::net::Ipv4Addr::new(198, 51, 100, 253);
    for to in ["198.51.100.1", "198.51.100.10"] {
        let builder = PacketBuilder::ethernet2(GATE_MAC.0, WAN_MAC.0);
        let (IpAddr::V4(from), IpAddr::V4(to)) = (ip("198.51.100.254"), ip(to)) else {
            unreachable!()
        };
        let builder = builder.ipv4(from.octets(), to.octets(), 64);
        let header = etherparse::icmpv4::RedirectHeader {
            code: etherparse::icmpv4::RedirectCode::RedirectForHost,
            gateway_internet_address: gate.octets(),
        };
        let quote = &udp(WAN, "198.51.100.10", "192.0.2.9", 9, 10)[14..];
        let mut bytes = Vec::new();
        let builder = builder.icmpv4(etherparse::Icmpv4Type::Redirect(header));
        builder.write(&mut bytes, quote).unwrap();
        assert!(rig.receive(WAN, &bytes).is_empty());
    }
    for to in ["fd00:2::1", "fe80::ff:fe00:2", "fd00:9::80"] {
        let bytes =
            super::discovery::message(WAN_MAC, ("fe80::5", to), (137, 0), "fd00:2::fd", None);
        assert!(rig.receive(WAN, &bytes).is_empty());
    }
    rig.dropped(true, Reason::Redirect, 5);
    assert!(rig.out(WAN).is_empty());
    rig.forward(LAN, &udp(LAN, "10.0.0.5", "192.0.2.9", 9, 10));
    assert_eq!(macs(&rig.only(WAN)).0, GATE_MAC);
}
