//! Ownership of addresses: asked for, announced, claimed by others.

use super::discovery::{GROUP, message};
use super::*;

const NOBODY: MacAddr = MacAddr([0; 6]);
const TENTH: u64 = SECOND / 10;

/// An ARP packet to all that asks for `target`.
fn request(mac: MacAddr, sender: &str, target: &str) -> Vec<u8> {
    arp(MacAddr::BROADCAST, 1, (mac, sender), (NOBODY, target))
}

/// Begins, and gives what the LAN was asked.
fn begun(rig: &mut Rig) -> Vec<Vec<u8>> {
    rig.router.begin(START, &mut rig.pool);
    rig.out(WAN);
    rig.out(LAN)
}

/// Targets of the solicitations or advertisements among these.
fn targets(frames: &[Vec<u8>], kind: u8) -> Vec<Ipv6Addr> {
    let of_kind = frames
        .iter()
        .filter(|f| f[12..14] == [0x86, 0xdd] && f[54] == kind);
    let target = |frame: &Vec<u8>| <[u8; 16]>::try_from(&frame[62..78]).unwrap().into();
    of_kind.map(target).collect()
}

#[test]
fn it_asks_whether_somebody_has_its_addresses_rfc5227_2_1_1_rfc4862_5_4_2() {
    let mut rig = Rig::new();
    let asked = begun(&mut rig);
    // Nothing says yet that they are its own.
    assert!(asked.contains(&request(LAN_MAC, "0.0.0.0", "10.0.0.1")));
    assert!(asked.contains(&request(LAN_MAC, "0.0.0.0", "203.0.113.80")));
    let own = targets(&asked, 135);
    assert_eq!(own, ["fd00:1::1", "fe80::ff:fe00:1", "fd00:9::80"].map(ip));
    assert_eq!(asked.len(), 2 + 3);
    for frame in asked.iter().filter(|frame| frame[12] == 0x86) {
        let (from, to, hops) = ends(frame);
        assert_eq!((from, hops), (ip("::"), 255));
        assert!(to.is_multicast());
        // Without the option that would say whose question it is.
        assert_eq!(frame.len(), 14 + 40 + 24);
        icmp(frame);
    }
    // It answers from the first moment.
    rig.receive(LAN, &request(HOST_MAC, "10.0.0.5", "10.0.0.1"));
    assert_eq!(macs(&rig.only(LAN)), (HOST_MAC, LAN_MAC));
}

#[test]
fn it_announces_its_addresses_twice_rfc5227_2_3_rfc4861_7_2_6() {
    let mut rig = Rig::new();
    begun(&mut rig);
    rig.tick(START.plus(TENTH - 1));
    assert!(rig.out(LAN).is_empty());
    for time in [START.plus(TENTH), START.plus(TENTH + 2 * SECOND)] {
        assert_eq!(rig.router.next_tick(), time);
        rig.tick(time);
        let (lan, wan) = (rig.out(LAN), rig.out(WAN));
        assert!(lan.contains(&request(LAN_MAC, "10.0.0.1", "10.0.0.1")));
        assert!(lan.contains(&request(LAN_MAC, "203.0.113.80", "203.0.113.80")));
        assert!(!lan.contains(&request(LAN_MAC, "198.51.100.10", "198.51.100.10")));
        assert!(wan.contains(&request(WAN_MAC, "198.51.100.10", "198.51.100.10")));
        // Two of IPv4; its own IPv6 addresses, and the virtual one.
        assert_eq!(lan.len(), 2 + 2 + 1);
        assert_eq!(targets(&lan, 136).len(), 3);
    }
    assert_eq!(rig.router.next_tick(), Time(u64::MAX));
}

#[test]
fn in_the_place_of_another_it_announces_at_once_and_pools_too() {
    let mut config = config();
    let pool = "198.51.100.64/30".parse().unwrap();
    config.owned.push(Owned {
        addresses: pool,
        side: Some(Side::Outside),
    });
    let mut rig = Rig::of(config);
    rig.router.take_over(START);
    assert!(rig.out(LAN).is_empty() && rig.out(WAN).is_empty());
    for time in [0, TENTH, TENTH + 2 * SECOND].map(|later| START.plus(later)) {
        assert_eq!(rig.router.next_tick(), time);
        rig.tick(time);
        let (lan, wan) = (rig.out(LAN), rig.out(WAN));
        assert!(lan.contains(&request(LAN_MAC, "10.0.0.1", "10.0.0.1")));
        for last in 64..68 {
            let address = format!("198.51.100.{last}");
            assert!(
                wan.contains(&request(WAN_MAC, &address, &address)),
                "{address}"
            );
        }
        assert!(!wan.contains(&request(WAN_MAC, "198.51.100.68", "198.51.100.68")));
        assert!(targets(&lan, 136).len() >= 3);
    }
    assert_eq!(rig.router.next_tick(), Time(u64::MAX));
}

#[test]
fn an_address_that_somebody_has_is_not_announced_and_told_of() {
    let mut rig = Rig::new();
    begun(&mut rig);
    // As hosts defend theirs.
    let reply = arp(LAN_MAC, 2, (HOST_MAC, "10.0.0.1"), (LAN_MAC, "0.0.0.0"));
    rig.receive(LAN, &reply);
    let all = ("fd00:1::1", "ff02::1");
    let option = Some((2, HOST_MAC));
    let defence = message(GROUP, all, (136, 0x20), "fd00:1::1", option);
    rig.receive(LAN, &defence);
    rig.receive(LAN, &defence);
    // Once for each: it says that the address is its own, as RFC 5227 2.4 (c) has it.
    let told = rig.out(LAN);
    assert_eq!(told.len(), 2);
    assert_eq!(told[0], request(LAN_MAC, "10.0.0.1", "10.0.0.1"));
    assert_eq!(
        targets(&told, 136),
        ["fd00:1::1".parse::<Ipv6Addr>().unwrap()]
    );
    let found: Vec<_> = rig
        .router
        .conflicts()
        .iter()
        .map(|c| (c.port, c.address, c.mac, c.times))
        .collect();
    let expected = [("10.0.0.1", 1), ("fd00:1::1", 2)];
    assert_eq!(
        found,
        expected.map(|(a, times)| (LAN, ip(a), HOST_MAC, times))
    );
    assert_eq!(rig.router.counts().conflicts, 3);
    rig.tick(START.plus(TENTH));
    let told = rig.out(LAN);
    assert_eq!(told.len(), 3);
    assert!(!told.contains(&request(LAN_MAC, "10.0.0.1", "10.0.0.1")));
    assert!(!targets(&told, 136).contains(&"fd00:1::1".parse().unwrap()));
}

#[test]
fn its_own_questions_that_come_back_are_no_claims() {
    let mut rig = Rig::new();
    for question in begun(&mut rig) {
        rig.receive(LAN, &question);
    }
    assert_eq!(rig.router.conflicts(), []);
    assert!(rig.out(LAN).is_empty());
}

#[test]
fn who_asks_for_its_address_to_have_it_is_answered_and_counted_rfc5227_2_1_1() {
    let mut rig = Rig::new();
    rig.receive(LAN, &request(HOST_MAC, "0.0.0.0", "10.0.0.1"));
    let answer = arp(HOST_MAC, 2, (LAN_MAC, "10.0.0.1"), (HOST_MAC, "0.0.0.0"));
    assert_eq!(rig.only(LAN)[14..], answer[14..]);
    assert_eq!(rig.router.conflicts().len(), 1);
    // For one of its own it may ask.
    rig.receive(LAN, &request(HOST_MAC, "0.0.0.0", "10.0.0.77"));
    assert_eq!(rig.router.counts().conflicts, 1);
}

#[test]
fn only_so_many_claims_are_remembered_and_all_are_counted() {
    let mut config = config();
    let pool = "198.51.100.0/24".parse().unwrap();
    config.owned = vec![Owned {
        addresses: pool,
        side: None,
    }];
    let mut rig = Rig::of(config);
    for n in 0..100 {
        rig.receive(
            WAN,
            &request(GATE_MAC, "0.0.0.0", &format!("198.51.100.{n}")),
        );
    }
    rig.out(WAN);
    assert_eq!(rig.router.conflicts().len(), 64);
    assert_eq!(rig.router.counts().conflicts, 100);
}
