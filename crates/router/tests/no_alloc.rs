//! No packet costs an allocation, whatever the router does with it: forwarded,
//! held, cut, answered, refused, dropped.

#[path = "../../packet/tests/counting/mod.rs"]
mod counting;

use etherparse::PacketBuilder;
use weir_packet::{FrameMeta, FramePool, MacAddr, MemoryLayout, Side, Time};
use weir_router::{Config, Limits, Owned, PortConfig, RouteConfig, Router};

const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
const HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

fn config() -> Config {
    let port = |at: usize, side, mtu, addresses: [(&str, u8); 2]| PortConfig {
        side,
        mac: MACS[at],
        mtu,
        addresses: addresses.map(|(a, n)| (a.parse().unwrap(), n)).to_vec(),
        wire: true,
    };
    let route = |to: &str, via: &str| RouteConfig {
        to: to.parse().unwrap(),
        via: Some(via.parse().unwrap()),
        port: 1,
    };
    Config {
        ports: vec![
            port(
                0,
                Side::Inside,
                1_500,
                [("10.0.0.1", 24), ("fd00:1::1", 64)],
            ),
            port(
                1,
                Side::Outside,
                1_400,
                [("198.51.100.1", 24), ("fd00:2::1", 64)],
            ),
        ],
        routes: vec![
            route("0.0.0.0/0", "198.51.100.254"),
            route("::/0", "fd00:2::fe"),
        ],
        neighbours: Vec::new(),
        owned: vec![Owned {
            addresses: "198.51.100.10/32".parse().unwrap(),
            side: Some(Side::Outside),
        }],
        // So small that all of it is full at times.
        limits: Limits {
            neighbours: 16,
            held: 24,
            held_each: 8,
            ..Limits::default()
        },
        seed: 7,
    }
}

fn udp(at: usize, source: &str, destination: &str, ttl: u8, size: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let builder = PacketBuilder::ethernet2(HOST.0, MACS[at].0);
    let builder = match (source.parse().unwrap(), destination.parse().unwrap()) {
        (std::net::IpAddr::V4(a), std::net::IpAddr::V4(b)) => {
            builder.ipv4(a.octets(), b.octets(), ttl)
        }
        (std::net::IpAddr::V6(a), std::net::IpAddr::V6(b)) => {
            builder.ipv6(a.octets(), b.octets(), ttl)
        }
        _ => panic!("two families"),
    };
    builder
        .udp(1_234, 80)
        .write(&mut out, &vec![0; size])
        .unwrap();
    // It may be cut, where it is of odd length.
    if source.contains('.') && size % 2 == 1 {
        out[20] = 0;
        out[24..26].fill(0);
        let sum = weir_packet::checksum::internet(&out[14..34]);
        out[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    out
}

fn arp(at: usize, operation: u8, sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
    let mut out = [
        &[0xff; 6][..],
        &HOST.0,
        &[8, 6, 0, 1, 8, 0, 6, 4, 0, operation],
    ]
    .concat();
    out.extend(HOST.0);
    out.extend(sender);
    out.extend(MACS[at].0);
    out.extend(target);
    out
}

/// Frames by the port where they come in.
fn frames() -> Vec<(usize, Vec<u8>)> {
    let mut all = Vec::new();
    for n in 2..60 {
        let host = format!("10.0.0.{n}");
        let six = format!("fd00:1::{n:x}");
        all.push((0, udp(0, &host, "192.0.2.9", 64, 100)));
        all.push((0, udp(0, &host, "192.0.2.9", 64, 1_441)));
        all.push((0, udp(0, &host, "192.0.2.9", 64, 1_440)));
        all.push((0, udp(0, &host, "192.0.2.9", 1, 100)));
        all.push((0, udp(0, &host, "10.0.0.1", 64, 100)));
        all.push((0, udp(0, &host, "10.0.0.99", 64, 100)));
        all.push((0, udp(0, &six, "fd00:7::9", 64, 1_400)));
        all.push((0, udp(0, &six, "fd00:7::9", 64, 100)));
        all.push((1, udp(1, "192.0.2.9", &host, 64, 100)));
        all.push((1, udp(1, "fd00:7::9", &six, 64, 100)));
        all.push((1, udp(1, "192.0.2.9", "198.51.100.10", 64, 100)));
        all.push((0, arp(0, 1 + n % 2, [10, 0, 0, n], [10, 0, 0, 1])));
        if n % 16 == 0 {
            all.push((1, arp(1, 2, [198, 51, 100, 254], [198, 51, 100, 1])));
            all.push((0, arp(0, 1, [10, 0, 0, 1], [10, 0, 0, 1])));
        }
        let mut echo = Vec::new();
        PacketBuilder::ethernet2(HOST.0, MACS[0].0)
            .ipv4([10, 0, 0, n], [10, 0, 0, 1], 9)
            .icmpv4_echo_request(7, 1)
            .write(&mut echo, b"hello")
            .unwrap();
        all.push((0, echo));
        all.push((0, vec![0xff; usize::from(n)]));
    }
    all
}

#[test]
fn packets_cost_no_allocation() {
    let mut router = Router::new(&config()).unwrap();
    let mut pool = FramePool::with_layout(MemoryLayout::default());
    let mut burst = Vec::with_capacity(64);
    let mut own = Vec::with_capacity(1_024);
    let frames = frames();
    let mut now = Time::from_secs(1_000);
    router.begin(now, &mut pool);
    for round in 0..4 {
        for chunk in frames.chunks(16) {
            now = now.plus(50_000_000);
            for at in [0, 1] {
                for (_, bytes) in chunk.iter().filter(|(port, _)| *port == at) {
                    let mut meta = FrameMeta::received(now, bytes.len() as u32);
                    meta.port = at as u8;
                    meta.side = [Side::Inside, Side::Outside][at];
                    burst.push(pool.copy(bytes, meta).expect("a frame is free"));
                }
                counting::count(round > 0);
                router.tick(now, &mut pool);
                router.receive(now, at, &mut pool, &mut burst);
                router.send(now, &mut pool, &mut burst);
                while router.has_returned() {
                    for side in [Side::Inside, Side::Outside] {
                        own.append(router.returned(side));
                    }
                    router.send(now, &mut pool, &mut own);
                }
                for port in [0, 1] {
                    if let Some(out) = router.output(port) {
                        pool.give_all(out);
                    }
                }
                counting::count(false);
            }
        }
    }
    assert_eq!(counting::counted(), 0);
    let counts = router.counts().clone();
    assert!(counts.balance());
    // All of it was tried.
    for (what, count) in [
        ("sent", counts.sent),
        ("fragments", counts.fragments),
        ("echo", counts.echo),
        ("errors", counts.errors),
        ("errors through the chain", counts.errors_through_chain),
        ("asked", counts.asked),
        ("answered", counts.answered),
        ("conflicts", counts.conflicts),
    ] {
        assert!(count > 0, "{what}: {counts:?}");
    }
    let dropped: Vec<&str> = counts.drops().named().map(|(reason, _)| reason).collect();
    for reason in [
        "ttl_exceeded",
        "too_big",
        "same_side",
        "hold_full",
        "unresolved",
    ] {
        assert!(dropped.contains(&reason), "{reason}: {dropped:?}");
    }
    router.finish(&mut pool);
    assert_eq!(pool.outstanding(), 0);
}
