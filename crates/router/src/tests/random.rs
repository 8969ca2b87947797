//! Random packets: no panic, every packet accounted for, every frame home
//! ([`Rig`]'s drop looks).

use proptest::prelude::*;

use super::*;

/// Something that a link may bring.
fn frames() -> impl Strategy<Value = (usize, Vec<u8>)> {
    let hosts4 = prop::sample::select(vec![
        "10.0.0.5",
        "10.0.0.9",
        "10.0.0.1",
        "10.0.0.255",
        "198.51.100.10",
        "198.51.100.254",
        "203.0.113.80",
        "192.0.2.9",
        "224.0.0.1",
    ]);
    let hosts6 = prop::sample::select(vec![
        "fd00:1::5",
        "fd00:1::1",
        "fd00:2::fe",
        "fd00:7::9",
        "fd00:9::80",
        "fe80::5",
        "ff02::1",
        "::",
    ]);
    let ends = prop_oneof![(hosts4.clone(), hosts4), (hosts6.clone(), hosts6)];
    let packet = (0usize..2, ends, 0u8..4, 0usize..1_500, 0u8..4).prop_map(
        |(at, (source, destination), ttl, size, kind)| {
            let v4 = ip(source).is_ipv4();
            let bytes = match kind {
                0 => echo(at, source, destination),
                1 if v4 => {
                    let to = mac_of(at).0;
                    arp(to, 1, (HOST_MAC, source), (GATE_MAC, destination))
                }
                2 if v4 => {
                    let to = mac_of(at).0;
                    arp(to, 2, (GATE_MAC, source), (to, destination))
                }
                _ => udp(at, source, destination, ttl, size),
            };
            (at, bytes)
        },
    );
    // With some octets wrong, and cut.
    let damage = prop::collection::vec((0usize..100, any::<u8>()), 0..4);
    (packet, damage, prop::option::of(0usize..120)).prop_map(|((at, mut bytes), damage, cut)| {
        for (place, value) in damage {
            if let Some(octet) = bytes.get_mut(place) {
                *octet = value;
            }
        }
        bytes.truncate(cut.unwrap_or(usize::MAX));
        (at, bytes)
    })
}

proptest! {
    #[test]
    fn nothing_is_lost_and_nothing_panics(
        steps in prop::collection::vec((frames(), 0u64..3, any::<bool>()), 1..60),
    ) {
        let mut config = config();
        config.limits.neighbours = 6;
        config.limits.held = 8;
        config.limits.held_each = 3;
        let mut rig = Rig::of(config);
        for ((at, bytes), seconds, straight) in steps {
            rig.tick(rig.now.plus(seconds * SECOND));
            // Through a chain that passes everything, or out of one that made it.
            if straight {
                rig.send(at, &bytes);
            } else {
                rig.forward(at, &bytes);
            }
            for side in [Side::Inside, Side::Outside] {
                for error in rig.returned(side) {
                    rig.send(side as usize, &error);
                }
            }
            for at in [LAN, WAN] {
                for frame in rig.out(at) {
                    prop_assert_eq!(macs(&frame).1, mac_of(at).0, "its own address");
                    let most = [1_514, 1_414][at];
                    prop_assert!(frame.len() <= most, "{at} {} {:02x?}", frame.len(), &frame[..60]);
                }
            }
            prop_assert!(rig.router.counts().balance());
        }
    }
}
