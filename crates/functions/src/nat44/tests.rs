//! The NAT through the engine; docs/nat44.md names these tests.

mod standards;

use super::*;
use crate::rewrite::tests::{assert_right, error_about, parsed, quoted_ends, with_packet};
use crate::words::Words;
use proptest::prelude::*;
use weir_runtime::harness::{Craft, Harness};

const INSIDE: Side = Side::Inside;
const OUTSIDE: Side = Side::Outside;

fn settings() -> Settings {
    Settings {
        pool: Words::from("198.51.100.1"),
        ..Settings::default()
    }
}

fn strict() -> Settings {
    Settings {
        filtering: Some(Behaviour::AddressAndPortDependent),
        ..settings()
    }
}

/// Source and destination as `ADDRESS:PORT`.
fn ends(frame: &[u8]) -> (String, String) {
    let mut got = None;
    with_packet(frame, |packet| got = Tuple::of(packet));
    let tuple = got.unwrap();
    (
        format!("{}:{}", tuple.source, tuple.source_port),
        format!("{}:{}", tuple.destination, tuple.destination_port),
    )
}

type Make = fn(&str, &str) -> Craft;
const PORTED: [Make; 2] = [Craft::tcp, Craft::udp];

/// Sends from inside and gives the external end that the packet got.
fn out(harness: &mut Harness, make: Make, client: &str, server: &str) -> Option<String> {
    let frames = harness.send_from(
        INSIDE,
        &make(client, server).flags("S").payload(b"abc").build(),
    );
    let frame = frames.first()?;
    assert_right(frame);
    assert_eq!(ends(frame).1, server);
    Some(ends(frame).0)
}

/// Sends from outside and gives the internal end that the packet reached.
fn back(harness: &mut Harness, make: Make, server: &str, external: &str) -> Option<String> {
    let frames = harness.send_from(OUTSIDE, &make(server, external).payload(b"defg").build());
    let frame = frames.first()?;
    assert_right(frame);
    assert_eq!(ends(frame).0, server);
    Some(ends(frame).1)
}

fn dropped(harness: &Harness, reason: &str) -> u64 {
    let name = format!("nat44.{reason}");
    harness
        .report()
        .drops
        .iter()
        .filter(|(have, _)| *have == name)
        .map(|(_, n)| n)
        .sum()
}

#[test]
fn mapping_is_endpoint_independent() {
    for make in PORTED {
        let mut harness = Harness::of::<Nat44>(settings());
        let a = out(&mut harness, make, "10.0.0.1:5000", "192.0.2.1:80").unwrap();
        let b = out(&mut harness, make, "10.0.0.1:5000", "192.0.2.2:81").unwrap();
        assert_eq!(a, b);
        assert!(a.starts_with("198.51.100.1:"));
        let c = out(&mut harness, make, "10.0.0.2:5000", "192.0.2.1:80").unwrap();
        assert_ne!(a, c);
        assert_eq!(harness.counter("nat44", "created"), 2);
        // each answer finds its client
        assert_eq!(
            back(&mut harness, make, "192.0.2.1:80", &a).unwrap(),
            "10.0.0.1:5000"
        );
        assert_eq!(
            back(&mut harness, make, "192.0.2.2:81", &a).unwrap(),
            "10.0.0.1:5000"
        );
        assert_eq!(
            back(&mut harness, make, "192.0.2.1:80", &c).unwrap(),
            "10.0.0.2:5000"
        );
        assert_eq!(harness.report().flows.seen, 3, "answers open no flows");
        harness.finish();
    }
}

#[test]
fn mapping_is_per_connection_where_asked() {
    let mut harness = Harness::of::<Nat44>(Settings {
        mapping: Behaviour::AddressAndPortDependent,
        ..settings()
    });
    let a = out(&mut harness, Craft::udp, "10.0.0.1:5000", "192.0.2.1:80").unwrap();
    let b = out(&mut harness, Craft::udp, "10.0.0.1:5000", "192.0.2.2:80").unwrap();
    assert_ne!(a, b);
    assert_eq!(
        back(&mut harness, Craft::udp, "192.0.2.2:80", &b).unwrap(),
        "10.0.0.1:5000"
    );
    assert_eq!(back(&mut harness, Craft::udp, "192.0.2.9:80", &b), None);
    harness.finish();
}

#[test]
fn filtering_is_as_asked() {
    for make in PORTED {
        let mut open = Harness::of::<Nat44>(settings());
        let external = out(&mut open, make, "10.0.0.1:5000", "192.0.2.1:80").unwrap();
        assert_eq!(
            back(&mut open, make, "203.0.113.5:9", &external).unwrap(),
            "10.0.0.1:5000"
        );
        // the client's answer to the stranger goes out of the same port
        assert_eq!(
            out(&mut open, make, "10.0.0.1:5000", "203.0.113.5:9").unwrap(),
            external
        );
        assert_eq!(open.report().flows.seen, 2);
        open.finish();
        let mut closed = Harness::of::<Nat44>(strict());
        let external = out(&mut closed, make, "10.0.0.1:5000", "192.0.2.1:80").unwrap();
        assert_eq!(back(&mut closed, make, "203.0.113.5:9", &external), None);
        assert_eq!(back(&mut closed, make, "192.0.2.1:81", &external), None);
        assert_eq!(
            back(&mut closed, make, "192.0.2.1:80", &external).unwrap(),
            "10.0.0.1:5000"
        );
        assert_eq!(dropped(&closed, "no_mapping"), 2);
        // once the client has sent there, it may come
        out(&mut closed, make, "10.0.0.1:5000", "203.0.113.5:9").unwrap();
        assert_eq!(
            back(&mut closed, make, "203.0.113.5:9", &external).unwrap(),
            "10.0.0.1:5000"
        );
        closed.finish();
    }
}

#[test]
fn what_comes_unasked_is_dropped_and_not_answered() {
    let mut harness = Harness::of::<Nat44>(settings());
    for make in PORTED {
        assert_eq!(
            back(&mut harness, make, "203.0.113.5:9", "198.51.100.1:7777"),
            None
        );
    }
    let syn = Craft::tcp("203.0.113.5:9", "198.51.100.1:7777")
        .flags("S")
        .build();
    assert!(harness.send_from(OUTSIDE, &syn).is_empty());
    assert_eq!(harness.finish().emitted, 0);
}

#[test]
fn a_client_keeps_its_external_address() {
    let mut harness = Harness::of::<Nat44>(Settings {
        pool: Words::from("198.51.100.0/28"),
        ..settings()
    });
    let mut used = std::collections::BTreeSet::new();
    for client in 1..40 {
        let mut addresses = std::collections::BTreeSet::new();
        for port in 0..5 {
            let make = PORTED[port % 2];
            let from = format!("10.0.0.{client}:{}", 5_000 + port);
            let external = out(&mut harness, make, &from, "192.0.2.1:80").unwrap();
            addresses.insert(external.split(':').next().unwrap().to_owned());
        }
        assert_eq!(addresses.len(), 1, "paired");
        used.extend(addresses);
    }
    assert!(used.len() > 8, "clients are spread: {used:?}");
    harness.finish();
}

#[test]
fn ports_are_kept_or_keep_their_parity() {
    let mut harness = Harness::of::<Nat44>(settings());
    let mut port = |client: &str| -> u16 {
        let external = out(&mut harness, Craft::udp, client, "192.0.2.1:80").unwrap();
        external.split(':').nth(1).unwrap().parse().unwrap()
    };
    assert_eq!(port("10.0.0.1:5001"), 5_001);
    for i in 2..60 {
        let got = port(&format!("10.0.0.{i}:5001"));
        assert!(got % 2 == 1 && got != 5_001 && got >= 1_024);
    }
    assert_eq!(port("10.0.0.1:80") % 2, 0);
    let mut harness = Harness::of::<Nat44>(Settings {
        preserve_port: false,
        ..settings()
    });
    let external = out(&mut harness, Craft::udp, "10.0.0.1:5001", "192.0.2.1:80").unwrap();
    let got: u16 = external.split(':').nth(1).unwrap().parse().unwrap();
    assert!(got != 5_001 && got % 2 == 1);
}

#[test]
fn no_port_is_given_twice() {
    let mut harness = Harness::of::<Nat44>(Settings {
        ports: "2000-2127".to_owned(),
        block: 64,
        ..settings()
    });
    let mut seen = std::collections::BTreeSet::new();
    for i in 0..128 {
        let client = format!("10.0.{i}.1:5000");
        assert!(seen.insert(out(&mut harness, Craft::udp, &client, "192.0.2.1:80").unwrap()));
    }
    assert_eq!(
        out(&mut harness, Craft::udp, "10.1.0.1:5000", "192.0.2.1:80"),
        None
    );
    assert_eq!(dropped(&harness, "no_port"), 1);
    // TCP's ports are others
    assert!(out(&mut harness, Craft::tcp, "10.1.0.1:5000", "192.0.2.1:80").is_some());
    harness.finish();
    assert_eq!(
        harness.runtime().leases().leased(),
        0,
        "all ports come back"
    );
}

#[test]
fn ports_come_back_when_flows_end_and_are_used_again() {
    let mut harness = Harness::of::<Nat44>(Settings {
        ports: "2000-2063".to_owned(),
        block: 64,
        ..settings()
    });
    for round in 0..5u8 {
        for i in 0..64u8 {
            let client = format!("10.{round}.{i}.1:5000");
            assert!(out(&mut harness, Craft::udp, &client, "192.0.2.1:80").is_some());
            // a second flow of the same mapping
            assert!(out(&mut harness, Craft::udp, &client, "192.0.2.2:80").is_some());
        }
        assert_eq!(harness.runtime().leases().leased(), 64);
        // 5 minutes: RFC 4787 REQ-5's recommended time-out
        harness.advance_ms(301_000);
        for _ in 0..6 {
            harness.advance_ms(1_000);
            harness.send(&Craft::udp("203.0.113.1:1", "203.0.113.2:2").build());
        }
        assert_eq!(harness.runtime().leases().leased(), 0);
    }
    assert_eq!(harness.counter("nat44", "created"), 320);
    assert_eq!(harness.counter("nat44", "deleted"), 320);
    harness.finish();
}

/// A client takes the same port again at once, while the server still answers
/// the last connection: the new one keeps its mapping though it pauses.
#[test]
fn a_mapping_outlives_late_words_about_the_last_connection() {
    let (client, server) = ("10.0.0.1:5000", "192.0.2.1:80");
    for late in ["R", "FA"] {
        let mut harness = Harness::of::<Nat44>(Settings {
            ports: "2000-2063".to_owned(),
            block: 64,
            ..settings()
        });
        let mut say = |flags: &str| {
            let frames =
                harness.send_from(INSIDE, &Craft::tcp(client, server).flags(flags).build());
            let external = ends(&frames[0]).0;
            (external, frames.len())
        };
        // The last connection's last ACK, after its flow was over.
        let (external, _) = say("A");
        assert_eq!(say("S").0, external);
        for flags in [late, "SA"] {
            let answer = Craft::tcp(server, &external).flags(flags).build();
            assert_eq!(harness.send_from(OUTSIDE, &answer).len(), 1, "{late}");
        }
        let ack = Craft::tcp(client, server).flags("A").build();
        assert_eq!(ends(&harness.send_from(INSIDE, &ack)[0]).0, external);
        // Longer than what is closed is kept.
        harness.advance_ms(60_000);
        let data = Craft::tcp(client, server)
            .flags("PA")
            .payload(b"data")
            .build();
        let frames = harness.send_from(INSIDE, &data);
        assert_eq!(ends(&frames[0]).0, external, "{late}");
        assert_eq!(harness.counter("nat44", "created"), 1, "{late}");
    }
}

#[test]
fn mappings_live_for_as_long_as_the_standards_ask() {
    let mut harness = Harness::of::<Nat44>(strict());
    let server = "192.0.2.1:80";
    // UDP: 2 minutes at least (4787 REQ-5)
    let udp = out(&mut harness, Craft::udp, "10.0.0.1:5000", server).unwrap();
    // TCP, established: 2 h 4 min at least (5382 REQ-5)
    let tcp = out(&mut harness, Craft::tcp, "10.0.0.2:5000", server).unwrap();
    let answer = Craft::tcp(server, &tcp).flags("SA").build();
    assert_eq!(harness.send_from(OUTSIDE, &answer).len(), 1);
    let ack = Craft::tcp("10.0.0.2:5000", server).flags("A").build();
    assert_eq!(harness.send_from(INSIDE, &ack).len(), 1);
    harness.advance_ms(120_000);
    // outbound packets refresh (4787 REQ-6)
    assert_eq!(
        out(&mut harness, Craft::udp, "10.0.0.1:5000", server).unwrap(),
        udp
    );
    harness.advance_ms(290_000);
    assert!(back(&mut harness, Craft::udp, server, &udp).is_some());
    harness.advance_ms(301_000);
    assert_eq!(back(&mut harness, Craft::udp, server, &udp), None);
    harness.advance_ms(7_440_000 - 711_000 - 1_000);
    assert_eq!(
        back(&mut harness, Craft::tcp, server, &tcp).unwrap(),
        "10.0.0.2:5000"
    );
    harness.advance_ms(7_441_000);
    assert_eq!(back(&mut harness, Craft::tcp, server, &tcp), None);
}

/// Two clients inside reach each other by their external ends, and each sees
/// the other's external end (RFC 4787 REQ-9).
fn hairpin(make: Make, settings: Settings, both_first: bool) {
    let mut harness = Harness::of::<Nat44>(settings);
    let (a, b) = ("10.0.0.1:5000", "10.0.0.2:6000");
    let ext_a = out(&mut harness, make, a, "192.0.2.1:80").unwrap();
    let ext_b = out(&mut harness, make, b, "192.0.2.1:80").unwrap();
    if both_first {
        // Filtering by the other end: b must have sent to a first.
        harness.send_from(INSIDE, &make(b, &ext_a).build());
    }
    for round in 0..3 {
        harness.queue(INSIDE, &make(a, &ext_b).payload(b"ping").build());
        let there = harness.flush();
        assert_eq!(
            there.len(),
            1,
            "round {round}: {:?}",
            harness.report().drops
        );
        assert_right(&there[0].bytes);
        assert_eq!(ends(&there[0].bytes), (ext_a.clone(), b.to_owned()));
        assert_eq!(there[0].from, OUTSIDE, "it leaves inside");
        harness.queue(INSIDE, &make(b, &ext_a).payload(b"pong").build());
        let back = harness.flush();
        assert_eq!(back.len(), 1, "round {round}: {:?}", harness.report().drops);
        assert_right(&back[0].bytes);
        assert_eq!(ends(&back[0].bytes), (ext_b.clone(), a.to_owned()));
    }
    harness.finish();
}

#[test]
fn hairpins_turn_with_the_external_source() {
    for make in PORTED {
        hairpin(make, settings(), false);
        hairpin(make, settings(), true);
        hairpin(make, strict(), true);
    }
}

#[test]
fn hairpins_may_be_switched_off() {
    let mut harness = Harness::of::<Nat44>(Settings {
        hairpin: false,
        ..settings()
    });
    let external = out(&mut harness, Craft::udp, "10.0.0.2:6000", "192.0.2.1:80").unwrap();
    let frame = Craft::udp("10.0.0.1:5000", &external).build();
    assert!(harness.send_from(INSIDE, &frame).is_empty());
    assert_eq!(dropped(&harness, "hairpin_off"), 1);
}

#[test]
fn errors_about_hairpins_turn_too() {
    let mut harness = Harness::of::<Nat44>(settings());
    let (a, b) = ("10.0.0.1:5000", "10.0.0.2:6000");
    let ext_a = out(&mut harness, Craft::udp, a, "192.0.2.1:80").unwrap();
    let ext_b = out(&mut harness, Craft::udp, b, "192.0.2.1:80").unwrap();
    let got = harness.send_from(INSIDE, &Craft::udp(a, &ext_b).build());
    let host_a = ext_a.split(':').next().unwrap();
    let error = error_about("10.0.0.2:0", &format!("{host_a}:0"), (3, 3), &got[0], 60);
    let out = harness.send_from(INSIDE, &error);
    assert_eq!(out.len(), 1, "{:?}", harness.report().drops);
    assert_right(&out[0]);
    assert_eq!(quoted_ends(&out[0]), (a.to_owned(), ext_b, true));
    assert!(ends(&out[0]).1.starts_with("10.0.0.1:"));
}

#[test]
fn queries_are_mapped_by_their_id() {
    let mut harness = Harness::of::<Nat44>(settings());
    let ping = Craft::ping("10.0.0.1:77", "192.0.2.1:1")
        .payload(b"x")
        .build();
    let other = Craft::ping("10.0.0.2:77", "192.0.2.1:1").build();
    let frame = harness.send_from(INSIDE, &ping).remove(0);
    assert_right(&frame);
    let id = ends(&frame).0.split(':').nth(1).unwrap().to_owned();
    let second = harness.send_from(INSIDE, &other).remove(0);
    assert_ne!(ends(&second).0, ends(&frame).0);
    let reply = Craft::ping(&format!("192.0.2.1:{id}"), "198.51.100.1:1")
        .icmp(0, 0)
        .build();
    let got = harness.send_from(OUTSIDE, &reply).remove(0);
    assert_right(&got);
    assert_eq!(ends(&got).1, "10.0.0.1:77");
    // the same id to another host is the same mapping (5508 REQ-1)
    let elsewhere = Craft::ping("10.0.0.1:77", "192.0.2.9:1").build();
    assert_eq!(
        ends(&harness.send_from(INSIDE, &elsewhere)[0]).0,
        ends(&frame).0
    );
    // 60 s at least (5508 REQ-2)
    harness.advance_ms(59_000);
    assert_eq!(harness.send_from(OUTSIDE, &reply).len(), 1);
    harness.finish();
}

#[test]
fn errors_from_outside_reach_the_client() {
    for make in [Craft::tcp as Make, Craft::udp, Craft::ping] {
        for octets in [28, 40, 500] {
            let mut harness = Harness::of::<Nat44>(settings());
            let frame = make("10.0.0.1:5000", "192.0.2.1:5000")
                .payload(&[7; 33])
                .build();
            let sent = harness.send_from(INSIDE, &frame).remove(0);
            let external = ends(&sent).0;
            // from a router on the way, and from the server itself
            for source in ["203.0.113.1:0", "192.0.2.1:0"] {
                let error = error_about(source, "198.51.100.1:0", (3, 4), &sent, octets);
                let got = harness.send_from(OUTSIDE, &error);
                assert_eq!(got.len(), 1, "{:?}", harness.report().drops);
                assert_right(&got[0]);
                let (from, to, right) = quoted_ends(&got[0]);
                assert_eq!(from, "10.0.0.1:5000");
                assert!(to.starts_with("192.0.2.1:") && right);
                assert!(ends(&got[0]).1.starts_with("10.0.0.1:"));
                assert!(ends(&got[0]).0.starts_with(source.trim_end_matches(":0")));
                if octets > 28 {
                    // the whole quote is what the client sent
                    let l3 = usize::from(parsed(&frame).l3);
                    let quote = &got[0][usize::from(parsed(&got[0]).l4) + 8..];
                    let n = quote.len();
                    assert_eq!(quote, &frame[l3..l3 + n]);
                }
            }
            // an error ends nothing (4787 REQ-12, 5382 REQ-10, 5508 REQ-6)
            assert_eq!(ends(&harness.send_from(INSIDE, &frame)[0]).0, external);
            assert_eq!(harness.counter("nat44", "created"), 1);
            harness.finish();
        }
    }
}

#[test]
fn errors_from_inside_hide_the_inside() {
    let mut harness = Harness::of::<Nat44>(settings());
    let external = out(&mut harness, Craft::udp, "10.0.0.1:5000", "192.0.2.1:80").unwrap();
    let answer = Craft::udp("192.0.2.1:80", &external)
        .payload(&[3; 20])
        .build();
    let got = harness.send_from(OUTSIDE, &answer).remove(0);
    // from the client, and from a router between it and the NAT
    for source in ["10.0.0.1:0", "10.255.0.1:0"] {
        let error = error_about(source, "192.0.2.1:0", (3, 3), &got, 500);
        let out = harness.send_from(INSIDE, &error).remove(0);
        assert_right(&out);
        assert_eq!(
            quoted_ends(&out),
            ("192.0.2.1:80".to_owned(), external.clone(), true)
        );
        assert!(
            ends(&out).0.starts_with("198.51.100.1:"),
            "{:?}",
            ends(&out)
        );
        let quote = &out[usize::from(parsed(&out).l4) + 8..];
        assert_eq!(quote, &answer[14..14 + quote.len()]);
    }
}

#[test]
fn errors_without_a_mapping_are_dropped() {
    let mut harness = Harness::of::<Nat44>(settings());
    let never = Craft::udp("198.51.100.1:5000", "192.0.2.1:80").build();
    let error = error_about("203.0.113.1:0", "198.51.100.1:0", (3, 1), &never, 60);
    assert!(harness.send_from(OUTSIDE, &error).is_empty());
    let never = Craft::udp("192.0.2.1:80", "10.0.0.1:5000").build();
    let error = error_about("10.0.0.1:0", "192.0.2.1:0", (3, 3), &never, 60);
    assert!(harness.send_from(INSIDE, &error).is_empty());
    assert_eq!(dropped(&harness, "no_mapping"), 2);
}

#[test]
fn fragments_are_translated_in_any_order() {
    for later_first in [false, true] {
        let mut harness = Harness::of::<Nat44>(settings());
        let udp = |fragment, bytes: &[u8]| {
            Craft::udp("10.0.0.1:5000", "192.0.2.1:80")
                .ip_id(7)
                .fragment(fragment)
                .payload(bytes)
                .build()
        };
        let (first, later) = (udp(0x2000, &[1; 16]), udp(0x0003, &[2; 16]));
        let order = if later_first {
            [&later, &first]
        } else {
            [&first, &later]
        };
        let mut got = Vec::new();
        for frame in order {
            got.extend(harness.send_from(INSIDE, frame));
        }
        assert_eq!(got.len(), 2, "{:?}", harness.report().drops);
        for frame in &got {
            assert_right(frame);
            assert_eq!(frame[26..30], [198, 51, 100, 1]);
        }
        let rest = got.iter().find(|f| f[20..22] == [0, 3]).unwrap();
        assert_eq!(rest[34..], [2; 16], "data are not touched");
        harness.finish();
    }
}

#[test]
fn udp_without_a_checksum_has_none_afterwards() {
    let mut harness = Harness::of::<Nat44>(settings());
    let mut frame = Craft::udp("10.0.0.1:5000", "192.0.2.1:80")
        .payload(b"x")
        .build();
    frame[40] = 0;
    frame[41] = 0;
    let got = harness.send_from(INSIDE, &frame).remove(0);
    assert_eq!(got[40..42], [0, 0]);
    assert_right(&got);
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let mut harness = Harness::of::<Nat44>(settings());
    for frame in [
        Craft::udp("203.0.113.1:5000", "192.0.2.1:80").build(),
        Craft::tcp("[2001:db8::1]:5000", "[2001:db8::2]:80").build(),
        Craft::ping("203.0.113.1:5", "192.0.2.1:80").build(),
    ] {
        assert_eq!(
            harness.send_from(INSIDE, &frame),
            std::slice::from_ref(&frame)
        );
    }
    // TTL and payload stay (no ALG)
    let frame = Craft::tcp("10.0.0.1:5000", "192.0.2.1:21")
        .ttl(9)
        .payload(b"PORT 10,0,0,1,19,137\r\n")
        .build();
    let got = harness.send_from(INSIDE, &frame).remove(0);
    assert_eq!((got[22], &got[54..]), (9, &frame[54..]));
}

#[test]
fn forged_sources_and_unknown_protocols_are_dropped() {
    let mut harness = Harness::of::<Nat44>(settings());
    let forged = Craft::udp("10.0.0.1:5000", "192.0.2.1:80").build();
    assert!(harness.send_from(OUTSIDE, &forged).is_empty());
    assert_eq!(dropped(&harness, "spoofed"), 1);
    let mut gre = Craft::udp("10.0.0.9:5000", "192.0.2.1:80").build();
    gre[23] = 47;
    let sum = weir_nf::packet::checksum::internet(&{
        let mut head = gre[14..34].to_vec();
        head[10] = 0;
        head[11] = 0;
        head
    });
    gre[24..26].copy_from_slice(&sum.to_be_bytes());
    assert!(harness.send_from(INSIDE, &gre).is_empty());
    assert_eq!(dropped(&harness, "protocol"), 1);
}

#[test]
fn tcp_opens_from_both_ends_at_once() {
    // 5382 REQ-2: simultaneous open
    let mut harness = Harness::of::<Nat44>(settings());
    let external = out(&mut harness, Craft::tcp, "10.0.0.1:5000", "192.0.2.1:80").unwrap();
    let syn = Craft::tcp("192.0.2.1:80", &external).flags("S").build();
    let got = harness.send_from(OUTSIDE, &syn).remove(0);
    assert_right(&got);
    assert_eq!(ends(&got).1, "10.0.0.1:5000");
    let answer = Craft::tcp("10.0.0.1:5000", "192.0.2.1:80")
        .flags("SA")
        .build();
    assert_eq!(ends(&harness.send_from(INSIDE, &answer)[0]).0, external);
}

#[test]
fn mappings_are_logged() {
    let mut harness = Harness::of::<Nat44>(settings());
    out(&mut harness, Craft::udp, "10.0.0.1:5000", "192.0.2.1:80").unwrap();
    out(&mut harness, Craft::udp, "10.0.0.1:5000", "192.0.2.2:80").unwrap();
    harness.finish();
    let events = harness.events();
    assert_eq!(events.len(), 2, "{events:?}");
    for (event, what) in events.iter().zip(["create", "delete"]) {
        let event: serde_json::Value = serde_json::from_str(event).unwrap();
        assert_eq!(event["event_type"], "nat");
        assert_eq!(event["proto"], "UDP");
        assert_eq!(event["nat"]["event"], what);
        assert_eq!(event["nat"]["internal_ip"], "10.0.0.1");
        assert_eq!(event["nat"]["internal_port"], 5000);
        assert_eq!(event["nat"]["external_ip"], "198.51.100.1");
        assert_eq!(event["nat"]["external_port"], 5000);
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let change = |f: fn(&mut Settings)| {
        let mut settings = settings();
        f(&mut settings);
        settings
    };
    for (settings, path) in [
        (Settings::default(), "pool"),
        (change(|s| s.pool = Words::from("10.0.0.5")), "pool"),
        (change(|s| s.pool = Words::from("2001:db8::1")), "pool"),
        (change(|s| s.pool = Words::from("198.0.0.0/8")), "pool"),
        (
            change(|s| s.pool = Words::from("198.51.100.1,198.51.100.1")),
            "pool",
        ),
        (change(|s| s.ports = "5-4".to_owned()), "ports"),
        (change(|s| s.block = 100), "block"),
        (change(|s| s.inside = Words::default()), "inside"),
        (
            change(|s| {
                s.mapping = Behaviour::AddressAndPortDependent;
                s.filtering = Some(Behaviour::EndpointIndependent);
            }),
            "filtering",
        ),
    ] {
        let error = Harness::builder().with::<Nat44>(settings).unwrap_err();
        assert_eq!(error.path, path, "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// For any packets of clients, answers come back to the one who asked, unchanged but
    /// for the addresses, and no two of them share an external end.
    #[test]
    fn translation_reverses(
        talks in prop::collection::vec(
            (0usize..3, 0u8..6, 1_000u16..1_006, 0u8..4, 80u16..83), 1..60),
        strict_filter: bool,
    ) {
        let mut harness = Harness::of::<Nat44>(if strict_filter { strict() } else { settings() });
        let mut owners = std::collections::BTreeMap::new();
        for (kind, client, port, server, server_port) in talks {
            let make = [Craft::tcp as Make, Craft::udp, Craft::ping][kind];
            let from = format!("10.0.0.{client}:{port}");
            let to = format!("192.0.2.{server}:{server_port}");
            let sent = harness.send_from(INSIDE, &make(&from, &to).payload(b"question").build());
            prop_assert_eq!(sent.len(), 1);
            assert_right(&sent[0]);
            let (external, _) = ends(&sent[0]);
            let owner = owners.entry((kind, external.clone())).or_insert_with(|| from.clone());
            prop_assert_eq!(&*owner, &from);
            let id = external.rsplit(':').next().unwrap();
            let answer = if kind == 2 {
                Craft::ping(&format!("192.0.2.{server}:{id}"), "198.51.100.1:0").icmp(0, 0)
            } else {
                make(&to, &external)
            };
            let got = harness.send_from(OUTSIDE, &answer.payload(b"answer").build());
            prop_assert_eq!(got.len(), 1);
            assert_right(&got[0]);
            prop_assert_eq!(&ends(&got[0]).1, &from);
            prop_assert!(got[0].ends_with(b"answer"));
        }
        harness.finish();
        prop_assert_eq!(harness.runtime().leases().leased(), 0);
    }
}

#[test]
fn an_answer_in_the_same_burst_finds_its_mapping() {
    for make in PORTED {
        let mut harness = Harness::of::<Nat44>(strict());
        harness.queue(INSIDE, &make("10.0.0.1:5000", "192.0.2.1:80").build());
        harness.queue(INSIDE, &make("10.0.0.2:5001", "192.0.2.1:80").build());
        harness.queue(OUTSIDE, &make("192.0.2.1:80", "198.51.100.1:5000").build());
        harness.queue(OUTSIDE, &make("192.0.2.1:80", "198.51.100.1:5001").build());
        let out = harness.flush();
        assert_eq!(out.len(), 4, "{:?}", harness.report().drops);
        assert_eq!(ends(&out[2].bytes).1, "10.0.0.1:5000");
        assert_eq!(harness.finish().flows.seen, 2);
    }
}

#[test]
fn it_stands_for_its_pool_outside_and_for_nothing_else() {
    for (pool, expected) in [
        ("198.51.100.1", &["198.51.100.1"][..]),
        (
            "198.51.100.8/30, 203.0.113.7",
            &[
                "198.51.100.8",
                "198.51.100.9",
                "198.51.100.10",
                "198.51.100.11",
                "203.0.113.7",
            ],
        ),
    ] {
        let settings = Settings {
            pool: Words::from(pool),
            ..settings()
        };
        let builder = Harness::builder().with::<Nat44>(settings).unwrap();
        let stage = builder.stage();
        let owned: Vec<_> = stage
            .nodes
            .iter()
            .flat_map(|n| n.processor.owns())
            .collect();
        // Inside its clients' own addresses are used; nobody sends there to a pool.
        assert!(owned.iter().all(|one| one.side == Some(OUTSIDE)));
        let found: Vec<String> = owned.iter().map(|one| one.addresses.to_string()).collect();
        let expected: Vec<String> = expected.iter().map(|a| format!("{a}/32")).collect();
        assert_eq!(found, expected);
    }
}

/// weir was started again in the middle of connections: a client keeps its port, and its
/// server is not taken for the client, whatever ports they have.
#[test]
fn a_connection_under_way_goes_on_whatever_its_ports() {
    for client_port in [1_500, 5_000, 20_000, 33_000, 50_000] {
        for server_port in [80, 2_049, 8_080, 33_000, 40_000, 60_000] {
            for mapping in [
                Behaviour::EndpointIndependent,
                Behaviour::AddressAndPortDependent,
            ] {
                let mut harness = Harness::of::<Nat44>(Settings {
                    mapping,
                    ..settings()
                });
                let (client, server) = (
                    format!("10.0.0.1:{client_port}"),
                    format!("192.0.2.1:{server_port}"),
                );
                let external = format!("198.51.100.1:{client_port}");
                let late = Craft::tcp(&server, &external).flags("A").payload(b"late");
                assert!(harness.send_from(OUTSIDE, &late.build()).is_empty());
                let ack = Craft::tcp(&client, &server).flags("A").build();
                let sent = harness.send_from(INSIDE, &ack);
                let ports = format!("{client_port} to {server_port}");
                assert_eq!(sent.len(), 1, "{ports}: {:?}", harness.report().drops);
                assert_eq!(
                    ends(&sent[0]),
                    (external.clone(), server.clone()),
                    "{ports}"
                );
                let answered = harness.send_from(OUTSIDE, &late.build());
                assert_eq!(answered.len(), 1, "{ports}: {:?}", harness.report().drops);
                assert_eq!(ends(&answered[0]), (server, client), "{ports}");
                harness.finish();
            }
        }
    }
}
