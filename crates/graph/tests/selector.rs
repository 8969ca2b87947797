//! Which packets a chain takes: the same answer for both directions of a flow.

mod common;

use common::read;
use weir_graph::Selector;
use weir_packet::{
    Direction, FlowKey, Headers, KeyOptions, KeyOutcome, LinkType, ParseOptions, flow_key, parse,
};

fn selector(text: &str) -> Selector {
    let text = format!("chain: c\nmatch:\n{text}nfs: [monitor]\n");
    let file = read(&text).unwrap_or_else(|list| panic!("{}", weir_graph::render(&list)));
    file.chains[0].selector.clone()
}

/// An Ethernet frame with an IPv4 packet in it.
fn ipv4(vlan: Option<u16>, ends: [[u8; 4]; 2], proto: u8, fragment: u16, body: &[u8]) -> Vec<u8> {
    let mut out = vec![2; 12];
    if let Some(vlan) = vlan {
        out.extend([0x81, 0]);
        out.extend(vlan.to_be_bytes());
    }
    out.extend([8, 0]);
    let length = 20 + body.len() as u16;
    out.extend([0x45, 0]);
    out.extend(length.to_be_bytes());
    out.extend([0, 9]);
    out.extend(fragment.to_be_bytes());
    out.extend([64, proto, 0, 0]);
    out.extend(ends.concat());
    out.extend(body);
    out
}

fn udp(source: u16, destination: u16) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(source.to_be_bytes());
    out.extend(destination.to_be_bytes());
    out.extend([0, 8, 0, 0]);
    out
}

fn headers(frame: &[u8]) -> Headers {
    parse(frame, LinkType::Ethernet, &ParseOptions::default()).unwrap()
}

/// The answer without a key, which must be the answer with one.
#[track_caller]
fn takes(selector: &Selector, frame: &[u8]) -> bool {
    let headers = headers(frame);
    let answer = selector.matches(frame, &headers, None);
    for options in [
        KeyOptions::default(),
        KeyOptions {
            chain: 3,
            zone: true,
            ..KeyOptions::default()
        },
    ] {
        if let KeyOutcome::Flow(key, _) = flow_key(frame, &headers, &options) {
            assert_eq!(selector.matches(frame, &headers, Some(&key)), answer);
        }
    }
    answer
}

const A: [u8; 4] = [10, 1, 2, 3];
const B: [u8; 4] = [192, 0, 2, 1];

#[test]
fn both_directions_are_one() {
    for (text, expected) in [
        ("  - {port: 53}\n", true),
        ("  - {port: 54}\n", false),
        ("  - {port: 50-60}\n", true),
        ("  - {protocol: udp}\n", true),
        ("  - {protocol: 17}\n", true),
        ("  - {protocol: [tcp, sctp]}\n", false),
        ("  - {prefix: 10.0.0.0/8}\n", true),
        ("  - {prefix: 11.0.0.0/8}\n", false),
        ("  - {prefix: 0.0.0.0/0}\n", true),
        ("  - {prefix: \"::/0\"}\n", false),
        ("  - {prefix: 192.0.2.1}\n", true),
        ("  - {prefix: 192.0.2.2}\n", false),
        (
            "  - {protocol: udp, port: 53, prefix: 192.0.2.0/24}\n",
            true,
        ),
        ("  - {protocol: tcp, port: 53}\n", false),
        ("  - {protocol: tcp}\n  - {port: 53}\n", true),
        ("  - {vlan: 7}\n", false),
    ] {
        let selector = selector(text);
        let there = ipv4(None, [A, B], 17, 0, &udp(40_000, 53));
        let back = ipv4(None, [B, A], 17, 0, &udp(53, 40_000));
        assert_eq!(takes(&selector, &there), expected, "{text}");
        assert_eq!(takes(&selector, &back), expected, "{text}");
    }
}

#[test]
fn vlans() {
    let selector = selector("  - {vlan: [7, 100-199]}\n");
    for (vlan, expected) in [
        (Some(7), true),
        (Some(0xe007), true), // priority bits are no part of it
        (Some(150), true),
        (Some(8), false),
        (None, false),
    ] {
        let frame = ipv4(vlan, [A, B], 17, 0, &udp(1, 2));
        assert_eq!(takes(&selector, &frame), expected, "{vlan:?}");
    }
}

#[test]
fn icmp_errors_go_where_the_quoted_flow_goes() {
    // Port unreachable from B, quoting UDP 40000 -> 53.
    let quoted = ipv4(None, [A, B], 17, 0, &udp(40_000, 53));
    let mut body = vec![3, 3, 0, 0, 0, 0, 0, 0];
    body.extend(&quoted[14..]);
    let error = ipv4(None, [B, A], 1, 0, &body);
    assert!(takes(&selector("  - {protocol: udp, port: 53}\n"), &error));
    assert!(!takes(&selector("  - {protocol: icmp}\n"), &error));
}

#[test]
fn an_echo_identifier_is_no_port() {
    let echo = ipv4(None, [A, B], 1, 0, &[8, 0, 0, 0, 0, 80, 0, 1]);
    assert!(!takes(&selector("  - {port: 80}\n"), &echo));
    assert!(takes(&selector("  - {protocol: icmp}\n"), &echo));
}

#[test]
fn later_fragments_need_their_flows_key_for_ports() {
    let later = ipv4(None, [A, B], 17, 100, &[0; 16]);
    let fragment = headers(&later);
    let port = selector("  - {port: 53}\n");
    assert!(!port.matches(&later, &fragment, None));
    let (key, way) = FlowKey::new(A.into(), 40_000, B.into(), 53, 17, 0, 0);
    assert_eq!(way, Direction::Forward);
    assert!(port.matches(&later, &fragment, Some(&key)));
    assert!(selector("  - {prefix: 10.0.0.0/8, protocol: udp}\n").matches(&later, &fragment, None));
}

#[test]
fn arp_and_other_frames() {
    let mut arp = vec![2; 12];
    arp.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    arp.extend([0; 20]);
    assert!(takes(&selector("  - {protocol: arp}\n"), &arp));
    assert!(takes(&selector("  - {protocol: [tcp, arp]}\n"), &arp));
    assert!(!takes(&selector("  - {protocol: 0}\n"), &arp));
    assert!(!takes(&selector("  - {prefix: 0.0.0.0/0}\n"), &arp));
    let udp = ipv4(None, [A, B], 17, 0, &udp(1, 2));
    assert!(!takes(&selector("  - {protocol: arp}\n"), &udp));
}

#[test]
fn ipv6() {
    let mut frame = vec![2; 12];
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64]);
    let address = |last: u8| {
        let mut address = [0u8; 16];
        address[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
        address[15] = last;
        address
    };
    frame.extend(address(1));
    frame.extend(address(2));
    frame.extend(udp(5353, 5353));
    for (text, expected) in [
        ("  - {prefix: \"2001:db8::/32\"}\n", true),
        ("  - {prefix: \"2001:db8::2\"}\n", true),
        ("  - {prefix: \"2001:db8::3\"}\n", false),
        ("  - {prefix: [0.0.0.0/0, \"fe80::/10\"]}\n", false),
        ("  - {port: 5353}\n", true),
    ] {
        assert_eq!(takes(&selector(text), &frame), expected, "{text}");
    }
}

#[test]
fn the_first_chain_that_matches_takes_the_packet() {
    let file = read(
        "chains:\n  - chain: dns\n    match: [{port: 53}]\n    nfs: [monitor]\n  - chain: local\n    \
         match: [{prefix: 10.0.0.0/8}]\n    nfs: [monitor]\n",
    )
    .unwrap();
    let chain = |frame: &[u8]| file.chain_of(frame, &headers(frame), None);
    assert_eq!(chain(&ipv4(None, [A, B], 17, 0, &udp(1, 53))), Some(0));
    assert_eq!(chain(&ipv4(None, [A, B], 17, 0, &udp(1, 54))), Some(1));
    assert_eq!(chain(&ipv4(None, [B, B], 17, 0, &udp(1, 54))), None);
}
