//! Neighbour discovery (RFC 4861).

use weir_packet::checksum::Sum;

use super::*;
use crate::NeighbourState;

/// A solicitation or advertisement with an option, in a frame, checksum right.
pub(super) fn message(
    to: MacAddr,
    (source, destination): (&str, &str),
    (kind, flags): (u8, u8),
    target: &str,
    option: Option<(u8, MacAddr)>,
) -> Vec<u8> {
    let v6 = |text: &str| text.parse::<Ipv6Addr>().unwrap();
    let mut body = vec![kind, 0, 0, 0, flags, 0, 0, 0];
    body.extend(v6(target).octets());
    if let Some((kind, mac)) = option {
        body.extend([kind, 1]);
        body.extend(mac.0);
    }
    let (source, destination) = (v6(source), v6(destination));
    let sum = Sum::new()
        .pseudo_ipv6(source, destination, 58, body.len() as u32)
        .bytes(&body)
        .checksum();
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut out = [&to.0[..], &HOST_MAC.0, &[0x86, 0xdd, 0x60, 0, 0, 0]].concat();
    out.extend((body.len() as u16).to_be_bytes());
    out.extend([58, 255]);
    out.extend(source.octets());
    out.extend(destination.octets());
    out.extend(body);
    out
}

pub(super) const GROUP: MacAddr = MacAddr([0x33, 0x33, 0xff, 0, 0, 1]);

fn solicitation() -> Vec<u8> {
    let ends = ("fd00:1::5", "ff02::1:ff00:1");
    message(GROUP, ends, (135, 0), "fd00:1::1", Some((1, HOST_MAC)))
}

#[test]
fn a_solicitation_is_answered_7_2_4() {
    let mut rig = Rig::new();
    assert!(rig.receive(LAN, &solicitation()).is_empty());
    let out = rig.only(LAN);
    assert_eq!(macs(&out), (HOST_MAC, LAN_MAC));
    assert_eq!(ends(&out), (ip("fd00:1::1"), ip("fd00:1::5"), 255));
    let (kind, code, flags, rest) = icmp(&out);
    // A router's, asked for, and to override.
    assert_eq!((kind, code, flags), (136, 0, 0xe000_0000));
    let own: Ipv6Addr = "fd00:1::1".parse().unwrap();
    assert_eq!(rest, [&own.octets()[..], &[2, 1], &LAN_MAC.0].concat());
    // The sender of the solicitation is remembered.
    rig.forward(WAN, &udp(WAN, "fd00:7::9", "fd00:1::5", 9, 10));
    assert_eq!(macs(&rig.only(LAN)).0, HOST_MAC);
}

#[test]
fn virtual_and_link_local_addresses_are_answered_for_and_no_others() {
    let mut rig = Rig::new();
    for (target, group, answered) in [
        ("fd00:9::80", "ff02::1:ff00:80", true),
        ("fe80::ff:fe00:1", "ff02::1:ff00:1", true),
        ("fd00:1::6", "ff02::1:ff00:6", false),
        ("fd00:2::1", "ff02::1:ff00:1", false),
    ] {
        let ask = message(
            GROUP,
            ("fd00:1::5", group),
            (135, 0),
            target,
            Some((1, HOST_MAC)),
        );
        rig.receive(LAN, &ask);
        assert_eq!(rig.out(LAN).len(), usize::from(answered), "{target}");
    }
    // To the address itself, too: a neighbour makes sure.
    let ask = message(
        LAN_MAC,
        ("fd00:1::5", "fd00:9::80"),
        (135, 0),
        "fd00:9::80",
        None,
    );
    assert!(rig.receive(LAN, &ask).is_empty());
    assert_eq!(ends(&rig.only(LAN)).0, ip("fd00:9::80"));
}

#[test]
fn who_wants_its_address_is_told_that_it_is_taken_rfc4862_5_4_3() {
    let mut rig = Rig::new();
    let ends_of = ("::", "ff02::1:ff00:1");
    let ask = message(GROUP, ends_of, (135, 0), "fd00:1::1", None);
    rig.receive(LAN, &ask);
    let out = rig.only(LAN);
    assert_eq!(macs(&out).0, MacAddr([0x33, 0x33, 0, 0, 0, 1]));
    assert_eq!(ends(&out).1, ip("ff02::1"));
    assert_eq!(icmp(&out).2, 0xa000_0000, "not asked for by anybody");
    assert_eq!(rig.router.counts().conflicts, 1);
}

#[test]
fn what_fails_a_check_is_dropped_7_1_1_and_7_1_2() {
    let good = solicitation();
    let bad = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        bytes
    };
    let both = ("fd00:1::5", "ff02::1:ff00:1");
    let cases = [
        bad(&|b| b[21] = 254),
        bad(&|b| b[56] ^= 1),
        // An option of no length.
        bad(&|b| {
            b[79] = 0;
            let fixed = u16::from_be_bytes([b[56], b[57]]).wrapping_add(1);
            b[56..58].copy_from_slice(&fixed.to_be_bytes());
        }),
        message(GROUP, both, (135, 0), "ff02::1", None),
        // From nowhere, but not to the group of the target.
        message(GROUP, ("::", "ff02::1"), (135, 0), "fd00:1::1", None),
        message(
            GROUP,
            ("::", "ff02::1:ff00:1"),
            (135, 0),
            "fd00:1::1",
            Some((1, HOST_MAC)),
        ),
        // "Solicited", but to a group.
        message(
            GROUP,
            ("fd00:1::5", "ff02::1"),
            (136, 0x40),
            "fd00:1::5",
            Some((2, HOST_MAC)),
        ),
    ];
    for (number, bytes) in cases.iter().enumerate() {
        let mut rig = Rig::new();
        assert!(rig.receive(LAN, bytes).is_empty());
        rig.dropped(true, Reason::BadDiscovery, 1);
        assert!(rig.out(LAN).is_empty(), "case {number}");
    }
}

#[test]
fn a_neighbour_is_asked_for_and_its_answer_taken_7_2_2_and_7_2_5() {
    let mut rig = Rig::new();
    rig.forward(WAN, &udp(WAN, "fd00:7::9", "fd00:1::5", 9, 10));
    let asked = rig.only(LAN);
    assert_eq!(
        macs(&asked),
        (MacAddr([0x33, 0x33, 0xff, 0, 0, 5]), LAN_MAC)
    );
    assert_eq!(ends(&asked), (ip("fd00:1::1"), ip("ff02::1:ff00:5"), 255));
    let (kind, _, _, rest) = icmp(&asked);
    assert_eq!((kind, &rest[16..]), (135, &[1, 1, 2, 0, 0, 0, 0, 1][..]));
    let answer = |flags, mac| {
        let ends = ("fd00:1::5", "fd00:1::1");
        message(LAN_MAC, ends, (136, flags), "fd00:1::5", Some((2, mac)))
    };
    rig.receive(LAN, &answer(0x60, HOST_MAC));
    assert_eq!(macs(&rig.only(LAN)).0, HOST_MAC);
    let state = |rig: &Rig| rig.router.neighbours().next().unwrap().state;
    assert_eq!(state(&rig), NeighbourState::Reachable);
    // Another address that must not override: not trusted, but not taken.
    let other = MacAddr([2, 0, 0, 0, 1, 6]);
    let next = |rig: &mut Rig| {
        rig.forward(WAN, &udp(WAN, "fd00:7::9", "fd00:1::5", 9, 10));
        macs(&rig.only(LAN)).0
    };
    rig.receive(LAN, &answer(0x40, other));
    assert_eq!(state(&rig), NeighbourState::Stale);
    assert_eq!(next(&mut rig), HOST_MAC);
    // One that overrides is taken.
    rig.receive(LAN, &answer(0x20, other));
    assert_eq!(next(&mut rig), other);
    // Nobody is remembered who was not asked for.
    let stranger = message(
        LAN_MAC,
        ("fd00:1::7", "fd00:1::1"),
        (136, 0x60),
        "fd00:1::7",
        Some((2, other)),
    );
    rig.receive(LAN, &stranger);
    assert_eq!(rig.router.neighbours().count(), 1);
}
