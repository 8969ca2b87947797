use super::*;
use crate::{LinkType, ParseOptions, parse};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::net::IpAddr;

fn ipv4(proto: u8, source: [u8; 4], destination: [u8; 4], rest: &[u8]) -> Vec<u8> {
    let total = (20 + rest.len()) as u16;
    let mut packet = vec![0x45, 0, 0, 0, 0x12, 0x34, 0, 0, 64, proto, 0, 0];
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet.extend(source);
    packet.extend(destination);
    packet.extend(rest);
    packet
}

fn ipv6(proto: u8, source: u8, destination: u8, rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, proto, 64];
    packet[4..6].copy_from_slice(&(rest.len() as u16).to_be_bytes());
    for last in [source, destination] {
        packet.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    packet.extend(rest);
    packet
}

fn outcome(packet: &[u8], options: &KeyOptions) -> KeyOutcome {
    let headers = parse(packet, LinkType::RawIp, &ParseOptions::default()).expect("a packet");
    flow_key(packet, &headers, options)
}

fn flow(packet: &[u8]) -> (FlowKey, Direction) {
    match outcome(packet, &KeyOptions::default()) {
        KeyOutcome::Flow(key, direction) => (key, direction),
        other => panic!("{other:?}"),
    }
}

const A: [u8; 4] = [10, 0, 0, 1];
const B: [u8; 4] = [10, 0, 0, 2];
const PORTS: [u8; 8] = [0x9c, 0x40, 0, 53, 0, 8, 0, 0];
const BACK: [u8; 8] = [0, 53, 0x9c, 0x40, 0, 8, 0, 0];

#[test]
fn both_directions_meet() {
    let (there, way) = flow(&ipv4(17, A, B, &PORTS));
    let (back, other) = flow(&ipv4(17, B, A, &BACK));
    assert_eq!((there, way), (back, other.opposite()));
    assert_eq!(there.source(way), (IpAddr::from(A), 40_000));
    assert_eq!(there.destination(way), (IpAddr::from(B), 53));
    assert_eq!(there.to_words()[5], 17);
    let (there, way) = flow(&ipv6(17, 1, 2, &PORTS));
    let (back, other) = flow(&ipv6(17, 2, 1, &BACK));
    assert_eq!((there, way), (back, other.opposite()));
    assert!(there.is_ipv6());
    assert_eq!(
        there.to_string(),
        "udp [2001:db8::1]:40000 - [2001:db8::2]:53"
    );
    // One host with itself: the ports decide.
    let (there, way) = flow(&ipv4(17, A, A, &PORTS));
    let (back, other) = flow(&ipv4(17, A, A, &BACK));
    assert_eq!((there, way), (back, other.opposite()));
}

#[test]
fn echo_request_and_reply_meet() {
    let request = [8, 0, 0, 0, 0x12, 0x34, 0, 1];
    let reply = [0, 0, 0, 0, 0x12, 0x34, 0, 1];
    let (there, way) = flow(&ipv4(1, A, B, &request));
    let (back, other) = flow(&ipv4(1, B, A, &reply));
    assert_eq!((there, way), (back, other.opposite()));
    assert_eq!(there.a().1, 0x1234);
    let (there, _) = flow(&ipv6(58, 1, 2, &[128, 0, 0, 0, 0x12, 0x34, 0, 1]));
    let (back, _) = flow(&ipv6(58, 2, 1, &[129, 0, 0, 0, 0x12, 0x34, 0, 1]));
    assert_eq!(there, back);
    let addresses = KeyOptions {
        icmp: IcmpKey::Addresses,
        ..KeyOptions::default()
    };
    match outcome(&ipv4(1, A, B, &request), &addresses) {
        KeyOutcome::Flow(key, _) => assert_eq!((key.a().1, key.b().1), (0, 0)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn errors_travel_with_the_flow_that_they_quote() {
    let sent = ipv4(17, A, B, &PORTS);
    let mut error = vec![3, 3, 0, 0, 0, 0, 0, 0];
    error.extend(&sent);
    // From a router in between, to A: against the direction of what A sent.
    let (key, way) = flow(&ipv4(1, [192, 0, 2, 7], A, &error));
    let (about, direction) = flow(&sent);
    assert_eq!((key, way), (about, direction.opposite()));

    let sent = ipv6(17, 1, 2, &PORTS);
    let mut error = vec![1, 4, 0, 0, 0, 0, 0, 0];
    error.extend(&sent);
    let (key, way) = flow(&ipv6(58, 9, 1, &error));
    let (about, direction) = flow(&sent);
    assert_eq!((key, way), (about, direction.opposite()));

    // An error about an echo request.
    let ping = ipv4(1, A, B, &[8, 0, 0, 0, 0x12, 0x34, 0, 1]);
    let mut error = vec![11, 0, 0, 0, 0, 0, 0, 0];
    error.extend(&ping);
    assert_eq!(flow(&ipv4(1, [192, 0, 2, 7], A, &error)).0, flow(&ping).0);

    // A quote that is too short leaves the error by itself.
    let (key, _) = flow(&ipv4(1, B, A, &[3, 3, 0, 0, 0, 0, 0, 0, 0x45, 0]));
    assert_eq!((key.proto(), key.a()), (1, (IpAddr::from(A), 0)));
}

#[test]
fn fragments_share_a_key() {
    let mut first = ipv4(17, A, B, &PORTS);
    first[6] = 0x20;
    let mut later = ipv4(17, A, B, b"the rest");
    later[7] = 1;
    let options = KeyOptions::default();
    assert!(matches!(outcome(&first, &options), KeyOutcome::Flow(key, _) if key.b().1 == 53));
    let KeyOutcome::LaterFragment(key) = outcome(&later, &options) else {
        panic!("later")
    };
    let headers = parse(&first, LinkType::RawIp, &ParseOptions::default()).expect("a packet");
    assert_eq!(FragmentKey::of(&first, &headers, &options), Some(key));
    assert_eq!(
        (key.id(), key.source(), key.destination()),
        (0x1234, A.into(), B.into())
    );

    let header = |offset: u16| {
        [
            17,
            0,
            (offset >> 8) as u8,
            offset as u8,
            0xde,
            0xad,
            0xbe,
            0xef,
        ]
    };
    let first = ipv6(44, 1, 2, &[&header(1)[..], &PORTS].concat());
    let later = ipv6(44, 1, 2, &[&header(8)[..], b"rest"].concat());
    assert!(matches!(outcome(&first, &options), KeyOutcome::Flow(key, _) if key.b().1 == 53));
    let KeyOutcome::LaterFragment(key) = outcome(&later, &options) else {
        panic!("later")
    };
    let headers = parse(&first, LinkType::RawIp, &ParseOptions::default()).expect("a packet");
    assert_eq!(FragmentKey::of(&first, &headers, &options), Some(key));
    assert_eq!(key.id(), 0xdead_beef);

    // Later fragments need not repeat the first one's next header.
    let mut other = later;
    other[40] = 60;
    assert!(matches!(outcome(&other, &options), KeyOutcome::LaterFragment(k) if k == key));

    // An atomic fragment is whole, whatever its reserved bits say.
    let reserved = ipv6(44, 1, 2, &[&header(6)[..], &PORTS].concat());
    assert_eq!(flow(&reserved).0, flow(&ipv6(17, 1, 2, &PORTS)).0);
    let headers = parse(&reserved, LinkType::RawIp, &ParseOptions::default()).expect("a packet");
    assert!(!headers.is_fragment());
    let atomic = ipv6(44, 1, 2, &[&header(0)[..], &PORTS].concat());
    assert_eq!(flow(&atomic).0, flow(&ipv6(17, 1, 2, &PORTS)).0);
}

#[test]
fn the_way_around_gives_the_same_key_as_the_fast_one() {
    let packet = ipv4(
        6,
        A,
        B,
        &[
            0, 80, 0x9c, 0x40, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0,
        ],
    );
    let headers = parse(&packet, LinkType::RawIp, &ParseOptions::default()).expect("a packet");
    for options in [
        KeyOptions::default(),
        KeyOptions {
            chain: 3,
            zone: true,
            ..Default::default()
        },
    ] {
        let headers = Headers {
            zone: 77,
            ..headers
        };
        let fast = flow_key(&packet, &headers, &options);
        assert_eq!(Some(fast), any_key(&packet, &headers, &options));
        let KeyOutcome::Flow(key, way) = fast else {
            panic!("{fast:?}")
        };
        let zone = if options.zone { 77 } else { 0 };
        let new = FlowKey::new(A.into(), 80, B.into(), 40_000, 6, zone, options.chain);
        assert_eq!((key, way), new);
        assert_eq!((key.zone(), key.chain()), (zone, options.chain));
        assert_eq!(key.with_chain(9).chain(), 9);
        assert_eq!(key.with_chain(9).with_chain(options.chain), key);
    }
}

/// Keys that differ in few bits spread evenly over buckets taken from the low, the middle or
/// the high bits, and hashes do not collide.
#[test]
fn hash_spreads() {
    const BUCKETS: usize = 4096;
    let mut keys = Vec::new();
    for client in 0..64u32 {
        for port in 0..1024u16 {
            let source = IpAddr::from((0x0a00_0000 + client).to_be_bytes());
            keys.push(FlowKey::new(source, 1024 + port, B.into(), 80, 6, 0, 0).0);
        }
    }
    for client in 0..256u128 {
        for port in 0..256u16 {
            let source = IpAddr::from((0x2001_0db8_u128 << 96 | client).to_be_bytes());
            let server = IpAddr::from((0x2001_0db8_u128 << 96 | 1 << 64).to_be_bytes());
            keys.push(FlowKey::new(source, 1024 + port, server, 80, 6, 0, 0).0);
        }
    }
    for seed in [0, 1, 0xdead_beef_0bad_cafe] {
        let hashes: BTreeSet<u64> = keys.iter().map(|k| k.hash(seed)).collect();
        assert_eq!(hashes.len(), keys.len());
        for shift in [0, 7, 26, 52] {
            let mut buckets = vec![0u32; BUCKETS];
            for hash in &hashes {
                buckets[(hash >> shift) as usize % BUCKETS] += 1;
            }
            let mean = keys.len() as f64 / BUCKETS as f64;
            let chi2: f64 = buckets
                .iter()
                .map(|&n| (f64::from(n) - mean).powi(2) / mean)
                .sum();
            // Chi-squared with 4,095 degrees of freedom: standard deviation about 90.
            assert!(
                (chi2 - 4095.0).abs() < 6.0 * 90.5,
                "seed {seed} shift {shift}: {chi2}"
            );
        }
    }
}

proptest! {
    #[test]
    fn keys_are_symmetric(
        v6: bool, s in any::<u128>(), sp: u16, d in any::<u128>(), dp: u16,
        proto: u8, zone: u32, chain: u8, seed: u64,
    ) {
        let address = |n: u128| if v6 { IpAddr::V6(n.into()) } else { IpAddr::V4((n as u32).into()) };
        let (s, d) = (address(s), address(d));
        let (key, way) = FlowKey::new(s, sp, d, dp, proto, zone, chain);
        let (back, other) = FlowKey::new(d, dp, s, sp, proto, zone, chain);
        prop_assert_eq!(key, back);
        if (s, sp) != (d, dp) {
            prop_assert_eq!(way, other.opposite());
        }
        prop_assert_eq!(key.hash(seed), back.hash(seed));
        prop_assert_eq!(key.source(way), (s, sp));
        prop_assert_eq!(key.destination(way), (d, dp));
        prop_assert_eq!((key.proto(), key.zone(), key.chain()), (proto, zone, chain));
        prop_assert!(key.a() <= key.b());
        prop_assert_eq!(FlowKey::from_words(key.to_words()), key);
    }

    /// One changed bit changes about half of the hash, in both of its halves.
    #[test]
    fn hash_avalanches(words in any::<[u64; 4]>(), ports: u64, bit in 0usize..64, seed: u64) {
        let mut total = [0u32; 2];
        let words = [words[0], words[1], words[2], words[3], ports, kind(6, 0, true)];
        let key = FlowKey::from_words(words);
        for word in 0..5 {
            let mut other = words;
            other[word] ^= 1 << bit;
            let other = FlowKey::from_words(other);
            let changed = key.hash(seed) ^ other.hash(seed);
            total[0] += (changed as u32).count_ones();
            total[1] += ((changed >> 32) as u32).count_ones();
        }
        // 160 bits in each half; the mean is 80, the standard deviation about 6.3.
        prop_assert!(total.iter().all(|&n| n > 30 && n < 130), "{total:?}");
    }
}
