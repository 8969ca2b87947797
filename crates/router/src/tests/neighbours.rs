//! Neighbours: asked for, trusted for a while, asked again, given up (RFC 826,
//! RFC 4861 sections 7.2 and 7.3).

use super::*;
use crate::NeighbourState;

fn to_gate(n: usize) -> Vec<u8> {
    udp(LAN, "10.0.0.5", "192.0.2.9", 9, n)
}

fn state_of(rig: &Rig, address: &str) -> Option<NeighbourState> {
    let mut all = rig.router.neighbours();
    all.find(|n| n.address == ip(address)).map(|n| n.state)
}

/// The gate answers the router's question.
fn gate_answers(mac: MacAddr) -> Vec<u8> {
    arp(
        WAN_MAC,
        2,
        (mac, "198.51.100.254"),
        (WAN_MAC, "198.51.100.1"),
    )
}

#[test]
fn packets_wait_until_the_next_hop_has_answered_rfc1122_2_3_2_2() {
    let mut rig = Rig::new();
    for n in [10, 20, 30] {
        rig.forward(LAN, &to_gate(n));
    }
    // One question for all of them.
    let asked = rig.only(WAN);
    let expected = arp(
        MacAddr::BROADCAST,
        1,
        (WAN_MAC, "198.51.100.1"),
        (MacAddr::default(), "198.51.100.254"),
    );
    assert_eq!(asked, expected);
    assert_eq!(rig.router.waiting(), 3);
    rig.receive(WAN, &gate_answers(GATE_MAC));
    // They go in their order.
    let sizes: Vec<usize> = rig.out(WAN).iter().map(|b| b.len() - 42).collect();
    assert_eq!(sizes, [10, 20, 30]);
    assert_eq!(
        state_of(&rig, "198.51.100.254"),
        Some(NeighbourState::Reachable)
    );
    // The next one waits no more.
    rig.forward(LAN, &to_gate(40));
    assert_eq!(macs(&rig.only(WAN)), (GATE_MAC, WAN_MAC));
}

#[test]
fn who_does_not_answer_is_asked_three_times_and_given_up_rfc4861_7_2_2() {
    let mut rig = Rig::new();
    rig.forward(LAN, &to_gate(10));
    rig.only(WAN);
    for second in [1, 2] {
        assert_eq!(rig.router.next_tick(), after(second));
        rig.tick(after(second));
        rig.only(WAN);
    }
    rig.tick(after(3));
    assert!(rig.out(WAN).is_empty());
    rig.dropped(false, Reason::Unresolved, 1);
    // The sender is told: host unreachable, through the chain.
    let told = rig.returned(Side::Outside);
    assert_eq!(told.len(), 1);
    assert_eq!(ends(&told[0]).1, ip("10.0.0.5"));
    assert_eq!((icmp(&told[0]).0, icmp(&told[0]).1), (3, 1));
    assert_eq!(
        state_of(&rig, "198.51.100.254"),
        Some(NeighbourState::Failed)
    );
    // For a second nobody asks.
    rig.forward(LAN, &to_gate(10));
    assert!(rig.out(WAN).is_empty());
    rig.dropped(false, Reason::Unresolved, 2);
    assert_eq!(rig.returned(Side::Outside).len(), 1);
    // Then the next packet does.
    rig.now = after(4);
    rig.forward(LAN, &to_gate(10));
    rig.only(WAN);
    assert_eq!(rig.router.waiting(), 1);
}

#[test]
fn a_neighbour_is_asked_again_while_packets_go_on_rfc4861_7_3_3() {
    let mut rig = Rig::new();
    rig.forward(LAN, &to_gate(10));
    rig.receive(WAN, &gate_answers(GATE_MAC));
    rig.out(WAN);
    // Trusted for 30 s.
    rig.now = after(29);
    rig.forward(LAN, &to_gate(10));
    assert_eq!(
        state_of(&rig, "198.51.100.254"),
        Some(NeighbourState::Reachable)
    );
    rig.now = after(31);
    rig.forward(LAN, &to_gate(10));
    assert_eq!(
        state_of(&rig, "198.51.100.254"),
        Some(NeighbourState::Delay)
    );
    assert_eq!(rig.out(WAN).len(), 2);
    // Five seconds later it is asked, at its address.
    rig.tick(after(36));
    assert_eq!(macs(&rig.only(WAN)), (GATE_MAC, WAN_MAC));
    assert_eq!(
        state_of(&rig, "198.51.100.254"),
        Some(NeighbourState::Probe)
    );
    rig.forward(LAN, &to_gate(10));
    assert_eq!(rig.out(WAN).len(), 1, "packets still go there");
    rig.receive(WAN, &gate_answers(GATE_MAC));
    assert_eq!(
        state_of(&rig, "198.51.100.254"),
        Some(NeighbourState::Reachable)
    );
    assert_eq!(
        rig.router.next_tick(),
        after(37),
        "one look that finds nothing"
    );
    rig.tick(after(37));
    assert_eq!(rig.router.next_tick(), Time(u64::MAX));
}

#[test]
fn who_has_gone_is_looked_for_elsewhere() {
    let mut rig = Rig::new();
    rig.forward(LAN, &to_gate(10));
    rig.receive(WAN, &gate_answers(GATE_MAC));
    rig.now = after(31);
    rig.forward(LAN, &to_gate(10));
    for second in [36, 37, 38, 39] {
        rig.tick(after(second));
    }
    assert_eq!(
        state_of(&rig, "198.51.100.254"),
        Some(NeighbourState::Failed)
    );
    rig.out(WAN);
    // The next packet asks everybody, at once.
    rig.forward(LAN, &to_gate(10));
    assert_eq!(macs(&rig.only(WAN)).0, MacAddr::BROADCAST);
    let other = MacAddr([2, 0, 0, 0, 2, 6]);
    rig.receive(WAN, &gate_answers(other));
    assert_eq!(macs(&rig.only(WAN)).0, other);
}

#[test]
fn another_hardware_address_is_learnt_when_it_is_said_rfc826_rfc5227_3() {
    let mut rig = Rig::new();
    rig.forward(LAN, &to_gate(10));
    rig.receive(WAN, &gate_answers(GATE_MAC));
    rig.out(WAN);
    let other = MacAddr([2, 0, 0, 0, 2, 6]);
    let announced = (other, "198.51.100.254");
    let said = arp(
        MacAddr::BROADCAST,
        1,
        announced,
        (MacAddr::default(), announced.1),
    );
    rig.receive(WAN, &said);
    rig.forward(LAN, &to_gate(10));
    assert_eq!(macs(&rig.only(WAN)).0, other);
    assert_eq!(rig.router.counts().moved, 1);
    // An unknown sender is not remembered.
    let said = arp(
        MacAddr::BROADCAST,
        1,
        (other, "198.51.100.77"),
        (MacAddr::default(), "198.51.100.77"),
    );
    rig.receive(WAN, &said);
    assert_eq!(state_of(&rig, "198.51.100.77"), None);
}

#[test]
fn questions_for_its_addresses_are_answered_rfc826() {
    let mut rig = Rig::new();
    let ask = |target: &str, sender: &str| {
        let from = (HOST_MAC, sender);
        arp(MacAddr::BROADCAST, 1, from, (MacAddr::default(), target))
    };
    for target in ["10.0.0.1", "203.0.113.80"] {
        assert!(rig.receive(LAN, &ask(target, "10.0.0.5")).is_empty());
        let expected = arp(HOST_MAC, 2, (LAN_MAC, target), (HOST_MAC, "10.0.0.5"));
        assert_eq!(rig.only(LAN), expected);
    }
    // The sender of a request is remembered: a packet to it needs no request.
    rig.forward(WAN, &udp(WAN, "192.0.2.9", "10.0.0.5", 9, 10));
    assert_eq!(macs(&rig.only(LAN)).0, HOST_MAC);
    // The pool is answered for outside, not inside; a host's address nowhere.
    for target in ["198.51.100.10", "10.0.0.9", "198.51.100.1"] {
        rig.receive(LAN, &ask(target, "10.0.0.5"));
        assert!(rig.out(LAN).is_empty(), "{target}");
    }
    rig.receive(WAN, &ask("198.51.100.10", "198.51.100.254"));
    rig.only(WAN);
    // A probe has no sender yet (RFC 5227 section 2.1.1).
    rig.receive(LAN, &ask("10.0.0.1", "0.0.0.0"));
    rig.only(LAN);
    assert_eq!(state_of(&rig, "0.0.0.0"), None);
    // Somebody of another network is answered, but not believed.
    rig.receive(LAN, &ask("10.0.0.1", "172.16.0.1"));
    rig.only(LAN);
    assert_eq!(state_of(&rig, "172.16.0.1"), None);
}

#[test]
fn who_takes_its_address_is_told_once_in_ten_seconds_rfc5227_2_4() {
    let mut rig = Rig::new();
    let thief = (HOST_MAC, "10.0.0.1");
    let theft = arp(
        MacAddr::BROADCAST,
        1,
        thief,
        (MacAddr::default(), "10.0.0.1"),
    );
    for _ in 0..5 {
        rig.receive(LAN, &theft);
    }
    let defence = arp(
        MacAddr::BROADCAST,
        1,
        (LAN_MAC, "10.0.0.1"),
        (MacAddr::default(), "10.0.0.1"),
    );
    assert_eq!(rig.only(LAN), defence);
    assert_eq!(rig.router.counts().conflicts, 5);
    rig.now = after(10);
    rig.receive(LAN, &theft);
    rig.only(LAN);
}

#[test]
fn each_address_is_defended_in_its_own_time_rfc5227_2_4() {
    let mut rig = Rig::new();
    let nobody = MacAddr::default();
    let theft = |address: &str| {
        arp(
            MacAddr::BROADCAST,
            1,
            (HOST_MAC, address),
            (nobody, address),
        )
    };
    let defence = |address: &str| arp(MacAddr::BROADCAST, 1, (LAN_MAC, address), (nobody, address));
    for (second, address, defended) in [
        (0, "10.0.0.1", true),
        (4, "203.0.113.80", true),
        (5, "10.0.0.1", false),
        (10, "10.0.0.1", true),
        (13, "203.0.113.80", false),
        (14, "203.0.113.80", true),
    ] {
        rig.now = after(second);
        rig.receive(LAN, &theft(address));
        let told = if defended {
            vec![defence(address)]
        } else {
            Vec::new()
        };
        assert_eq!(rig.out(LAN), told, "{address} after {second} s");
    }
}

#[test]
fn addresses_beyond_those_remembered_share_a_time_of_defence() {
    let mut config = config();
    config.owned = vec![Owned {
        addresses: "198.51.100.0/24".parse().unwrap(),
        side: None,
    }];
    let mut rig = Rig::of(config);
    for round in 0..2 {
        for n in 100..200 {
            let taken = format!("198.51.100.{n}");
            let said = (GATE_MAC, taken.as_str());
            let theft = arp(MacAddr::BROADCAST, 1, said, (MacAddr::default(), &taken));
            rig.receive(WAN, &theft);
        }
        // 64 that are remembered, and one of the others.
        let told = rig.out(WAN).len();
        assert_eq!(told, if round == 0 { 65 } else { 0 });
    }
    assert_eq!(rig.router.counts().conflicts, 200);
}

#[test]
fn what_is_no_arp_is_dropped() {
    let mut rig = Rig::new();
    let good = arp(
        LAN_MAC,
        1,
        (HOST_MAC, "10.0.0.5"),
        (MacAddr::default(), "10.0.0.1"),
    );
    for (at, value) in [(15, 6), (21, 3), (22, 3), (28, 224)] {
        let mut bad = good.clone();
        bad[at] = value;
        rig.receive(LAN, &bad);
    }
    rig.receive(LAN, &good[..41]);
    rig.dropped(true, Reason::BadArp, 5);
    assert!(rig.out(LAN).is_empty());
}

#[test]
fn only_so_many_packets_wait_for_one_and_the_oldest_go_rfc4861_7_2_2() {
    let mut config = config();
    config.limits.held_each = 2;
    config.limits.held = 3;
    let mut rig = Rig::of(config);
    for n in 1..=4 {
        rig.forward(LAN, &to_gate(n));
    }
    rig.dropped(false, Reason::HoldFull, 2);
    rig.out(WAN);
    // Another neighbour's have one place left in all.
    for n in 5..=6 {
        rig.forward(WAN, &udp(WAN, "192.0.2.9", "10.0.0.9", 9, n));
    }
    rig.dropped(false, Reason::HoldFull, 3);
    rig.receive(WAN, &gate_answers(GATE_MAC));
    let sizes: Vec<usize> = rig.out(WAN).iter().map(|b| b.len() - 42).collect();
    assert_eq!(sizes, [3, 4]);
}

#[test]
fn a_full_table_forgets_who_is_not_used_and_keeps_who_is_asked_for_rfc6583() {
    let mut config = config();
    config.limits.neighbours = 8;
    let mut rig = Rig::of(config);
    // Two keep their slots for routes. A scan asks for four (half of the table)
    // and no more.
    for n in 10..30 {
        rig.forward(WAN, &udp(WAN, "192.0.2.9", &format!("10.0.0.{n}"), 9, 10));
    }
    assert_eq!(rig.router.counts().asked, 4);
    let counts = rig.router.counts();
    let full = counts.behind().get(Reason::NeighboursFull);
    assert_eq!(full + counts.behind().get(Reason::Unresolved), 16);
    // The gate, which has a slot of its own, is reached all the same.
    rig.out(WAN);
    rig.forward(LAN, &to_gate(10));
    assert_eq!(rig.router.waiting(), 5);
    // When the questions are over, others have their turn.
    for second in 1..=3 {
        rig.tick(after(second));
    }
    rig.now = after(5);
    rig.out(LAN);
    rig.returned(Side::Inside);
    rig.returned(Side::Outside);
    rig.forward(WAN, &udp(WAN, "192.0.2.9", "10.0.0.5", 9, 10));
    rig.only(LAN);
}

#[test]
fn a_scan_pushes_out_nobody_who_is_there_rfc6583() {
    let mut config = config();
    config.limits.neighbours = 8;
    let mut rig = Rig::of(config);
    let asks = |host: &str| {
        let nobody = MacAddr::default();
        arp(LAN_MAC, 1, (HOST_MAC, host), (nobody, "10.0.0.1"))
    };
    rig.receive(LAN, &asks("10.0.0.5"));
    for second in 0..20 {
        rig.tick(after(second));
        for n in 100..130 {
            rig.forward(WAN, &udp(WAN, "192.0.2.9", &format!("10.0.0.{n}"), 9, 10));
        }
        rig.out(LAN);
        rig.returned(Side::Inside);
        rig.returned(Side::Outside);
    }
    // One that was there all the time without a packet, and one that has come.
    rig.receive(LAN, &asks("10.0.0.6"));
    rig.out(LAN);
    for host in ["10.0.0.5", "10.0.0.6"] {
        rig.forward(WAN, &udp(WAN, "192.0.2.9", host, 9, 10));
        assert_eq!(macs(&rig.only(LAN)).0, HOST_MAC, "{host}");
    }
}

#[test]
fn of_known_neighbours_the_one_that_nobody_uses_makes_room() {
    let mut config = config();
    config.limits.neighbours = 5;
    let mut rig = Rig::of(config);
    let comes = |rig: &mut Rig, host: &str| {
        let nobody = MacAddr::default();
        rig.receive(
            LAN,
            &arp(LAN_MAC, 1, (HOST_MAC, host), (nobody, "10.0.0.1")),
        );
    };
    // Two slots are of routes. All are new, so the first goes.
    for host in ["10.0.0.5", "10.0.0.6", "10.0.0.7", "10.0.0.8"] {
        comes(&mut rig, host);
    }
    assert_eq!(state_of(&rig, "10.0.0.5"), None);
    rig.forward(WAN, &udp(WAN, "192.0.2.9", "10.0.0.6", 9, 10));
    comes(&mut rig, "10.0.0.9");
    assert_eq!(state_of(&rig, "10.0.0.7"), None);
    for host in ["10.0.0.6", "10.0.0.8", "10.0.0.9"] {
        assert!(state_of(&rig, host).is_some(), "{host}");
    }
}

#[test]
fn packets_that_wait_leave_large_frames_for_others() {
    let mut config = config();
    config.ports.iter_mut().for_each(|port| port.mtu = 9_000);
    let mut rig = Rig::of(config);
    rig.pool = FramePool::with_layout(MemoryLayout {
        large_frames: 16,
        ..MemoryLayout::default()
    });
    for _ in 0..16 {
        rig.forward(LAN, &to_gate(5_000));
    }
    rig.dropped(false, Reason::HoldFull, 8);
    assert_eq!(rig.router.waiting(), 8);
    assert_eq!(rig.router.counts().asked, 1);
}

#[test]
fn a_written_neighbour_is_believed_over_the_wire() {
    let mut rig = Rig::known();
    rig.receive(WAN, &gate_answers(HOST_MAC));
    rig.forward(LAN, &to_gate(10));
    assert_eq!(macs(&rig.only(WAN)).0, GATE_MAC);
    assert_eq!(
        state_of(&rig, "198.51.100.254"),
        Some(NeighbourState::Fixed)
    );
}
