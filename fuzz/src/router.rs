//! Any story of frames on the links of a router, through a chain that passes
//! everything: every frame is accounted for and comes home, what leaves has the
//! port's own address and fits its link, what is forwarded has one hop less, and
//! what the router makes is well-formed.

use weir_packet::checksum::{Verdict, check_ipv4, check_transport};
use weir_packet::{
    Frame, FrameMeta, FramePool, LinkType, MacAddr, MemoryLayout, ParseOptions, Side, Time,
    frame_flags, parse,
};
use weir_router::{Config, Limits, NeighbourConfig, Owned, PortConfig, RouteConfig, Router};
use weir_runtime::harness::Craft;

use crate::input::Input;

const SECOND: u64 = 1_000_000_000;
/// Most steps of a story.
const MOST: usize = 256;
/// Its ports: side, hardware address, MTU.
const PORTS: [(Side, MacAddr, u16); 3] = [
    (Side::Inside, MacAddr([2, 0, 0, 0, 0, 1]), 1_500),
    (Side::Outside, MacAddr([2, 0, 0, 0, 0, 2]), 1_280),
    (Side::Outside, MacAddr([2, 0, 0, 0, 0, 3]), 600),
];
/// Who may send to whom.
const HOSTS: [&str; 10] = [
    "10.0.0.5",
    "10.0.0.1",
    "10.0.0.255",
    "198.51.100.254",
    "198.51.100.10",
    "192.0.2.9",
    "203.0.113.80",
    "100.64.0.1",
    "224.0.0.1",
    "169.254.1.1",
];
const HOSTS_V6: [&str; 8] = [
    "fd00:1::5",
    "fd00:1::1",
    "fd00:2::fe",
    "fd00:7::9",
    "fd00:9::80",
    "fe80::5",
    "ff02::1:ff00:1",
    "::",
];

fn config(small: bool) -> Config {
    let address = |text: &str| text.parse().expect("an address of ours");
    let port = |number: usize, addresses: &[(&str, u8)]| {
        let (side, mac, mtu) = PORTS[number];
        PortConfig {
            side,
            mac,
            mtu,
            addresses: addresses.iter().map(|(a, n)| (address(a), *n)).collect(),
            wire: true,
        }
    };
    let route = |to: &str, via: &str, port| RouteConfig {
        to: to.parse().expect("a prefix of ours"),
        via: Some(address(via)),
        port,
    };
    let owned = |prefix: &str, side| Owned {
        addresses: prefix.parse().expect("a prefix of ours"),
        side,
    };
    let limits = Limits::default();
    Config {
        ports: vec![
            port(0, &[("10.0.0.1", 24), ("fd00:1::1", 64)]),
            port(1, &[("198.51.100.1", 24), ("fd00:2::1", 64)]),
            port(2, &[("100.64.0.2", 30)]),
        ],
        routes: vec![
            route("0.0.0.0/0", "198.51.100.254", 1),
            route("192.0.2.0/24", "100.64.0.1", 2),
            route("::/0", "fd00:2::fe", 1),
        ],
        // A small one has to ask for its next hops.
        neighbours: match small {
            true => Vec::new(),
            false => vec![NeighbourConfig {
                port: 2,
                address: address("100.64.0.1"),
                mac: MacAddr([2, 0, 0, 0, 9, 9]),
            }],
        },
        owned: vec![
            owned("198.51.100.10/32", Some(Side::Outside)),
            owned("203.0.113.80/32", None),
            owned("fd00:9::80/128", None),
        ],
        limits: match small {
            true => Limits {
                neighbours: 6,
                held: 8,
                held_each: 3,
                errors: 20,
                ..limits
            },
            false => limits,
        },
        seed: 7,
    }
}

/// The first byte chooses the router, the rest is a story.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let mut bench = Bench::new(&config(input.u8() & 1 == 1));
    for _ in 0..MOST {
        if input.is_empty() {
            break;
        }
        bench.step(&mut input);
        bench.look();
    }
    bench.finish();
}

struct Bench {
    router: Router,
    pool: FramePool,
    now: Time,
}

impl Bench {
    fn new(config: &Config) -> Bench {
        Bench {
            router: Router::new(config).expect("a configuration of ours"),
            pool: FramePool::with_layout(MemoryLayout {
                small_frames: 64,
                large_frames: 2,
                large_bytes: 65_536 + 5 * 64,
                ..MemoryLayout::default()
            }),
            now: Time(1_000 * SECOND),
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let op = input.u8();
        let at = usize::from(op >> 4) % PORTS.len();
        match op & 15 {
            0 => self.router.begin(self.now, &mut self.pool),
            1 => {
                self.now = self.now.plus(u64::from(input.u16()) * 1_000_000);
                self.router.tick(self.now, &mut self.pool);
            }
            2 => self.arrive(at, input.chunk(), op & 128 != 0),
            // As it is, or as a frame for the router.
            3 => {
                let mut bytes = input.chunk().to_vec();
                if let Some(to) = bytes.first_chunk_mut::<6>() {
                    *to = PORTS[at].1.0;
                }
                self.arrive(at, &bytes, op & 128 != 0);
            }
            4..=6 => {
                let bytes = arp(at, input);
                self.arrive(at, &bytes, false);
            }
            7..=8 => {
                let bytes = discovery(at, input);
                self.arrive(at, &bytes, false);
            }
            _ => {
                let bytes = packet(at, op, input);
                self.arrive(at, &bytes, op & 128 != 0);
            }
        }
    }

    /// A frame on a link, through the chain or straight out of it.
    fn arrive(&mut self, at: usize, bytes: &[u8], straight: bool) {
        let mut meta = FrameMeta::received(self.now, bytes.len() as u32);
        meta.port = at as u8;
        meta.side = PORTS[at].0;
        let Ok(frame) = self.pool.copy(bytes, meta) else {
            return; // the port drops it
        };
        let mut frames = vec![frame];
        if !straight {
            self.router
                .receive(self.now, at, &mut self.pool, &mut frames);
            let memory = self.pool.memory();
            if let Some(frame) = frames.first() {
                let after = memory.bytes(frame);
                assert_eq!(
                    hops(after).map(|hops| hops + 1),
                    hops(bytes),
                    "one hop less"
                );
            }
        }
        self.router.send(self.now, &mut self.pool, &mut frames);
        assert!(frames.is_empty());
    }

    /// Takes what leaves and looks at it.
    fn look(&mut self) {
        // Errors go through the chain the other way.
        while self.router.has_returned() {
            for side in [Side::Inside, Side::Outside] {
                let mut frames = std::mem::take(self.router.returned(side));
                self.router.send(self.now, &mut self.pool, &mut frames);
            }
        }
        for (at, (_, mac, mtu)) in PORTS.into_iter().enumerate() {
            let frames = self.router.output(at).map(std::mem::take);
            for frame in frames.into_iter().flatten() {
                self.left(&frame, mac, mtu);
                self.pool.give(frame);
            }
        }
        let waiting = u64::from(self.router.waiting());
        let counts = self.router.counts();
        assert!(counts.balance(), "{counts:?}, {waiting} wait");
    }

    fn left(&self, frame: &Frame, mac: MacAddr, mtu: u16) {
        let (meta, bytes) = self.pool.memory().read(frame);
        assert_eq!(bytes.get(6..12), Some(&mac.0[..]), "its own address");
        if let Some(length) = datagram(bytes) {
            assert!(length <= usize::from(mtu), "{length} octets on {mtu}");
        }
        if meta.flags & frame_flags::EMITTED == 0 {
            return;
        }
        // An echo request may come with a wrong checksum, and is given back so.
        let headers = parse(bytes, LinkType::Ethernet, &ParseOptions::default());
        let headers = headers.unwrap_or_else(|fault| panic!("{fault:?}: {bytes:02x?}"));
        assert_ne!(check_ipv4(bytes, &headers), Verdict::Bad, "{bytes:02x?}");
        let kind = bytes.get(usize::from(headers.l4)).copied();
        let reply = matches!(
            (headers.is_ipv4(), kind),
            (true, Some(0)) | (false, Some(129))
        );
        if !reply {
            let verdict = check_transport(bytes, &headers);
            assert_ne!(verdict, Verdict::Bad, "{bytes:02x?}");
        }
    }

    fn finish(&mut self) {
        self.router.finish(&mut self.pool);
        assert!(self.router.counts().balance());
        assert_eq!(self.pool.outstanding(), 0, "frames leaked");
    }
}

/// Time to live or hop limit.
fn hops(bytes: &[u8]) -> Option<u8> {
    match bytes.get(12..14)? {
        [8, 0] => bytes.get(22).copied(),
        _ => bytes.get(21).copied(),
    }
}

/// Octets of the datagram, as its header has them.
fn datagram(bytes: &[u8]) -> Option<usize> {
    let word = |at: usize| {
        Some(usize::from(u16::from_be_bytes([
            *bytes.get(at)?,
            *bytes.get(at + 1)?,
        ])))
    };
    match word(12)? {
        0x0800 => word(16),
        0x86dd => Some(word(18)? + 40),
        _ => None,
    }
}

fn to_router(at: usize, mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[..6].copy_from_slice(&PORTS[at].1.0);
    bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 8, at as u8]);
    bytes
}

/// A packet of one host to another.
fn packet(at: usize, op: u8, input: &mut Input<'_>) -> Vec<u8> {
    let (from, to, more) = (input.u8(), input.u8(), input.u8());
    let length = usize::from(input.u16()) % 2_000;
    let ends = [from, to].map(|number| match more & 64 {
        0 => format!("{}:80", HOSTS[usize::from(number) % HOSTS.len()]),
        _ => format!("[{}]:80", HOSTS_V6[usize::from(number) % HOSTS_V6.len()]),
    });
    let packet = match op & 15 {
        9 | 10 => Craft::udp(&ends[0], &ends[1]),
        11 => Craft::tcp(&ends[0], &ends[1]),
        12 => Craft::udp(&ends[0], &ends[1])
            .fragment([0x4000, 0x2000, 7, 0x6001][usize::from(more & 3)]),
        13 => Craft::ping(&ends[0], &ends[1]).icmp([8, 128][usize::from(more >> 6 & 1)], 0),
        _ => Craft::ping(&ends[0], &ends[1]).icmp(input.u8(), more & 7),
    };
    let ttl = match more & 128 {
        0 => 64,
        _ => more & 3,
    };
    to_router(at, packet.ttl(ttl).payload(&vec![0x5a; length]).build())
}

/// An ARP packet.
fn arp(at: usize, input: &mut Input<'_>) -> Vec<u8> {
    let (from, to, more) = (input.u8(), input.u8(), input.u8());
    let octets = |number: u8| match number {
        255 => [0; 4],
        _ => HOSTS[usize::from(number) % HOSTS.len()]
            .parse::<std::net::Ipv4Addr>()
            .map_or([0; 4], |address| address.octets()),
    };
    let mac = [2, 0, 0, 0, 8, more >> 4];
    let mut bytes = vec![0xff; 6];
    if more & 4 != 0 {
        bytes.copy_from_slice(&PORTS[at].1.0);
    }
    bytes.extend(mac);
    bytes.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1 + (more & 1)]);
    bytes.extend(mac);
    bytes.extend(octets(from));
    bytes.extend(PORTS[at].1.0);
    bytes.extend(octets(to));
    bytes
}

/// A solicitation, an advertisement or a redirect.
fn discovery(at: usize, input: &mut Input<'_>) -> Vec<u8> {
    let (from, to, target, more) = (input.u8(), input.u8(), input.u8(), input.u8());
    let host = |number: u8| HOSTS_V6[usize::from(number) % HOSTS_V6.len()];
    let octets = |number: u8| {
        let address = host(number).parse::<std::net::Ipv6Addr>();
        address.map_or([0; 16], |address| address.octets())
    };
    // Behind type, code and checksum: flags, which [`Craft`] takes for an echo's
    // numbers (its ports), and then the target.
    let ends = (
        format!("[{}]:{}", host(from), u16::from(more) << 8),
        format!("[{}]:0", host(to)),
    );
    let mut body = octets(target).to_vec();
    if more & 8 != 0 {
        body.extend([1 + (more >> 1 & 1), 1, 2, 0, 0, 0, 8, more >> 4]);
    }
    let kind = [135, 136, 137, 134][usize::from(more & 3)];
    let packet = Craft::ping(&ends.0, &ends.1).icmp(kind, 0);
    let ttl = if more & 4 == 0 { 255 } else { 64 };
    to_router(at, packet.ttl(ttl).payload(&body).build())
}

/// Stories to start from: questions, answers and packets of all kinds on each
/// port, with time between them.
pub fn examples() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for small in [0, 1] {
        let mut story = vec![small, 0];
        for port in 0..3_u8 {
            let on = |op: u8| op | port << 4;
            for other in 0..10 {
                story.extend([on(4), other, 1, 0, on(5), other, other + 1, 5]);
                story.extend([on(7), other, 6, 1, 8, on(8), other, 1, other, 0x19]);
                for kind in 9..14 {
                    story.extend([on(kind), other, other + 3, 0, 0, 40]);
                    story.extend([on(kind), other, other + 2, 64, 5, 220]);
                    story.extend([on(kind), other, other + 5, 129, 0, 9]);
                }
                story.extend([on(14), other, other + 1, 4, 0, 50, 3]);
                story.extend([1, 3, 232]);
            }
            all.push(story.clone());
        }
    }
    all
}
