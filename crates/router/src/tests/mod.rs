//! The rules of a router, one by one, each with where it is written.

mod claims;
mod discovery;
mod errors;
mod forward;
mod neighbours;
mod random;
mod wireless;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::PacketBuilder;
use weir_packet::arp::ArpRepr;
use weir_packet::{Frame, FrameMeta, FramePool, MacAddr, MemoryLayout, Side, Time};

use crate::{Config, Limits, NeighbourConfig, Owned, PortConfig, Reason, RouteConfig, Router};

const LAN: usize = 0;
const WAN: usize = 1;
const LAN_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const WAN_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const HOST_MAC: MacAddr = MacAddr([2, 0, 0, 0, 1, 5]);
const GATE_MAC: MacAddr = MacAddr([2, 0, 0, 0, 2, 5]);
const SECOND: u64 = 1_000_000_000;
const START: Time = Time(1_000 * SECOND);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn after(seconds: u64) -> Time {
    START.plus(seconds * SECOND)
}

/// A router between a LAN and a WAN, whose NAT has 198.51.100.10 and whose load
/// balancer has 203.0.113.80 and fd00:9::80.
fn config() -> Config {
    let port = |side, mac, mtu, addresses: &[(&str, u8)]| PortConfig {
        side,
        mac,
        mtu,
        addresses: addresses.iter().map(|(a, n)| (ip(a), *n)).collect(),
        wire: true,
    };
    let route = |to: &str, via: &str, port| RouteConfig {
        to: to.parse().unwrap(),
        via: Some(ip(via)),
        port,
    };
    let owned = |prefix: &str, side| Owned {
        addresses: prefix.parse().unwrap(),
        side,
    };
    Config {
        ports: vec![
            port(
                Side::Inside,
                LAN_MAC,
                1_500,
                &[("10.0.0.1", 24), ("fd00:1::1", 64)],
            ),
            port(
                Side::Outside,
                WAN_MAC,
                1_400,
                &[("198.51.100.1", 24), ("fd00:2::1", 64)],
            ),
        ],
        routes: vec![
            route("0.0.0.0/0", "198.51.100.254", WAN),
            route("fd00::/16", "fd00:2::fe", WAN),
        ],
        neighbours: Vec::new(),
        owned: vec![
            owned("198.51.100.10/32", Some(Side::Outside)),
            owned("203.0.113.80/32", None),
            owned("fd00:9::80/128", None),
        ],
        limits: Limits::default(),
        seed: 7,
    }
}

/// A router with its frames; the chain passes everything.
struct Rig {
    router: Router,
    pool: FramePool,
    now: Time,
}

impl Rig {
    fn new() -> Rig {
        Rig::of(config())
    }

    fn of(config: Config) -> Rig {
        Rig {
            router: Router::new(&config).unwrap(),
            pool: FramePool::with_layout(MemoryLayout {
                small_frames: 512,
                ..MemoryLayout::default()
            }),
            now: START,
        }
    }

    /// A router that knows its neighbours.
    fn known() -> Rig {
        let mut config = config();
        for (port, address, mac) in [
            (LAN, "10.0.0.5", HOST_MAC),
            (LAN, "fd00:1::5", HOST_MAC),
            (WAN, "198.51.100.254", GATE_MAC),
            (WAN, "fd00:2::fe", GATE_MAC),
        ] {
            config.neighbours.push(NeighbourConfig {
                port,
                address: ip(address),
                mac,
            });
        }
        Rig::of(config)
    }

    fn frame(&mut self, at: usize, bytes: &[u8]) -> Frame {
        let mut meta = FrameMeta::received(self.now, bytes.len() as u32);
        meta.port = at as u8;
        meta.side = [Side::Inside, Side::Outside][at];
        self.pool.copy(bytes, meta).unwrap()
    }

    /// Receives the frame, and returns what goes to the chain.
    fn receive(&mut self, at: usize, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut frames = vec![self.frame(at, bytes)];
        self.router
            .receive(self.now, at, &mut self.pool, &mut frames);
        self.bytes(frames)
    }

    /// Sends a packet that came in by `at` as the chain lets it out.
    fn send(&mut self, at: usize, bytes: &[u8]) {
        let mut frames = vec![self.frame(at, bytes)];
        self.router.send(self.now, &mut self.pool, &mut frames);
        assert!(frames.is_empty());
    }

    /// In by a port and through a chain that passes everything.
    fn forward(&mut self, at: usize, bytes: &[u8]) {
        for packet in self.receive(at, bytes) {
            self.send(at, &packet);
        }
    }

    fn tick(&mut self, now: Time) {
        self.now = now;
        self.router.tick(now, &mut self.pool);
    }

    fn bytes(&mut self, frames: Vec<Frame>) -> Vec<Vec<u8>> {
        let memory = self.pool.memory().clone();
        let take = |frame: Frame| {
            let bytes = memory.bytes(&frame).to_vec();
            self.pool.give(frame);
            bytes
        };
        frames.into_iter().map(take).collect()
    }

    /// Takes the frames that leave by a port.
    fn out(&mut self, at: usize) -> Vec<Vec<u8>> {
        let frames = std::mem::take(self.router.output(at).unwrap());
        self.bytes(frames)
    }

    /// Errors that go through the chain from a side.
    fn returned(&mut self, side: Side) -> Vec<Vec<u8>> {
        let frames = std::mem::take(self.router.returned(side));
        self.bytes(frames)
    }

    /// The only packet that leaves by a port.
    #[track_caller]
    fn only(&mut self, at: usize) -> Vec<u8> {
        let mut out = self.out(at);
        assert_eq!(out.len(), 1, "{:?}", self.router.counts());
        out.remove(0)
    }

    #[track_caller]
    fn dropped(&self, before: bool, reason: Reason, count: u64) {
        let counts = self.router.counts();
        let found = match before {
            true => counts.before().get(reason),
            false => counts.behind().get(reason),
        };
        assert_eq!(found, count, "{} of {counts:?}", reason.name());
    }
}

impl Drop for Rig {
    /// Every packet is accounted for, and every frame comes home.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let waiting = u64::from(self.router.waiting());
        let counts = self.router.counts().clone();
        assert!(counts.balance(), "{counts:?}, {waiting} wait");
        self.router.finish(&mut self.pool);
        assert_eq!(self.pool.outstanding(), 0);
    }
}

fn mac_of(at: usize) -> (MacAddr, MacAddr) {
    match at {
        LAN => (LAN_MAC, HOST_MAC),
        _ => (WAN_MAC, GATE_MAC),
    }
}

/// A UDP packet to the router's hardware address.
fn udp(at: usize, source: &str, destination: &str, ttl: u8, size: usize) -> Vec<u8> {
    let (to, from) = mac_of(at);
    let builder = PacketBuilder::ethernet2(from.0, to.0);
    let builder = match (ip(source), ip(destination)) {
        (IpAddr::V4(a), IpAddr::V4(b)) => builder.ipv4(a.octets(), b.octets(), ttl),
        (IpAddr::V6(a), IpAddr::V6(b)) => builder.ipv6(a.octets(), b.octets(), ttl),
        _ => panic!("two families"),
    };
    let mut out = Vec::new();
    let payload = vec![0x5a; size];
    builder.udp(1_234, 80).write(&mut out, &payload).unwrap();
    out
}

/// An echo request.
fn echo(at: usize, source: &str, destination: &str) -> Vec<u8> {
    let (to, from) = mac_of(at);
    let builder = PacketBuilder::ethernet2(from.0, to.0);
    let mut out = Vec::new();
    match (ip(source), ip(destination)) {
        (IpAddr::V4(a), IpAddr::V4(b)) => builder
            .ipv4(a.octets(), b.octets(), 9)
            .icmpv4_echo_request(7, 1)
            .write(&mut out, b"hello"),
        (IpAddr::V6(a), IpAddr::V6(b)) => builder
            .ipv6(a.octets(), b.octets(), 9)
            .icmpv6_echo_request(7, 1)
            .write(&mut out, b"hello"),
        _ => panic!("two families"),
    }
    .unwrap();
    out
}

/// An ARP packet in a frame.
fn arp(to: MacAddr, operation: u16, sender: (MacAddr, &str), target: (MacAddr, &str)) -> Vec<u8> {
    let mut out = [&to.0[..], &sender.0.0, &[0x08, 0x06]].concat();
    let mut body = [0; 28];
    let v4 = |text: &str| text.parse::<Ipv4Addr>().unwrap();
    let packet = ArpRepr {
        operation,
        sender_mac: sender.0,
        sender: v4(sender.1),
        target_mac: target.0,
        target: v4(target.1),
    };
    packet.emit(&mut body).unwrap();
    out.extend(body);
    out
}

/// Parses a frame.
fn parsed(bytes: &[u8]) -> etherparse::PacketHeaders<'_> {
    etherparse::PacketHeaders::from_ethernet_slice(bytes).unwrap()
}

fn macs(bytes: &[u8]) -> (MacAddr, MacAddr) {
    let mac = |at: usize| MacAddr(bytes[at..at + 6].try_into().unwrap());
    (mac(0), mac(6))
}

/// Source, destination, time to live; the IPv4 checksum is right.
#[track_caller]
fn ends(bytes: &[u8]) -> (IpAddr, IpAddr, u8) {
    match parsed(bytes).net.unwrap() {
        etherparse::NetHeaders::Ipv4(header, _) => {
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            (
                Ipv4Addr::from(header.source).into(),
                Ipv4Addr::from(header.destination).into(),
                header.time_to_live,
            )
        }
        etherparse::NetHeaders::Ipv6(header, _) => (
            Ipv6Addr::from(header.source).into(),
            Ipv6Addr::from(header.destination).into(),
            header.hop_limit,
        ),
        other => panic!("{other:?}"),
    }
}

/// An ICMP or ICMPv6 message: type, code, the word behind, the rest. Its
/// checksum is right.
#[track_caller]
fn icmp(bytes: &[u8]) -> (u8, u8, u32, Vec<u8>) {
    let v6 = bytes[12..14] == [0x86, 0xdd];
    let at = 14 + if v6 { 40 } else { 20 };
    let message = &bytes[at..];
    let mut sum = weir_packet::checksum::Sum::new();
    if let (true, (IpAddr::V6(a), IpAddr::V6(b), _)) = (v6, ends(bytes)) {
        sum = sum.pseudo_ipv6(a, b, 58, message.len() as u32);
    }
    assert_eq!(sum.bytes(message).folded(), 0xffff, "the checksum");
    assert_eq!(
        bytes[at - if v6 { 34 } else { 11 }],
        if v6 { 58 } else { 1 }
    );
    let word = u32::from_be_bytes(message[4..8].try_into().unwrap());
    (message[0], message[1], word, message[8..].to_vec())
}
