//! A port without a wire: its packets are played, and nobody is there.

use super::*;

/// The router with a LAN that is not there.
fn wireless() -> Rig {
    let mut config = config();
    config.ports[LAN].wire = false;
    config.neighbours.push(NeighbourConfig {
        port: WAN,
        address: ip("198.51.100.254"),
        mac: GATE_MAC,
    });
    Rig::of(config)
}

#[test]
fn what_is_played_is_taken_as_if_it_were_for_the_router() {
    let mut rig = wireless();
    let mut packet = udp(LAN, "10.0.0.5", "192.0.2.9", 9, 10);
    packet[..6].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
    rig.forward(LAN, &packet);
    assert_eq!(macs(&rig.only(WAN)), (GATE_MAC, WAN_MAC));
    // A frame for many is still none for the router.
    packet[0] = 3;
    rig.receive(LAN, &packet);
    rig.dropped(true, Reason::LinkBroadcast, 1);
}

#[test]
fn what_goes_there_leaves_at_once_to_nobody() {
    let mut rig = wireless();
    for host in ["10.0.0.77", "fd00:1::77"] {
        let from = if host.contains(':') {
            "fd00:7::9"
        } else {
            "192.0.2.9"
        };
        rig.forward(WAN, &udp(WAN, from, host, 9, 10));
        let out = rig.only(LAN);
        assert_eq!(macs(&out), (MacAddr::default(), LAN_MAC));
        assert_eq!(ends(&out).1, ip(host));
    }
    // And what the router answers itself.
    rig.receive(LAN, &echo(LAN, "10.0.0.5", "10.0.0.1"));
    assert_eq!(macs(&rig.only(LAN)).0, MacAddr::default());
    assert_eq!(rig.router.counts().asked, 0);
    assert_eq!(rig.router.waiting(), 0);
}

#[test]
fn nobody_is_asked_or_believed_there() {
    let mut rig = wireless();
    rig.router.begin(START, &mut rig.pool);
    rig.tick(START.plus(SECOND));
    assert_eq!(rig.out(LAN), [] as [Vec<u8>; 0]);
    assert!(!rig.out(WAN).is_empty());
    // Somebody had the router's address when the packets were recorded.
    let nobody = MacAddr::default();
    let theft = arp(
        MacAddr::BROADCAST,
        1,
        (HOST_MAC, "10.0.0.1"),
        (nobody, "10.0.0.1"),
    );
    let question = arp(
        MacAddr::BROADCAST,
        1,
        (HOST_MAC, "10.0.0.5"),
        (nobody, "10.0.0.1"),
    );
    let claim = discovery::message(
        discovery::GROUP,
        ("fd00:1::1", "ff02::1"),
        (136, 0x20),
        "fd00:1::1",
        Some((2, HOST_MAC)),
    );
    for said in [theft, question, claim] {
        rig.receive(LAN, &said);
    }
    rig.dropped(true, Reason::NoWire, 3);
    assert_eq!(rig.router.conflicts(), []);
    assert_eq!(rig.out(LAN), [] as [Vec<u8>; 0]);
}
