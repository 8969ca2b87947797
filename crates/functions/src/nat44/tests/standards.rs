//! Further rows of docs/nat44.md: time-outs of a chain's own, zones, sizes,
//! checksums, messages that are neither query nor error.

use super::*;
use weir_nf::host::{FlowOptions, Timeouts};
use weir_nf::packet::checksum;

fn with_timeouts(timeouts: Timeouts) -> Harness {
    let flows = FlowOptions {
        timeouts,
        ..FlowOptions::default()
    };
    let builder = Harness::builder().with::<Nat44>(strict()).unwrap();
    builder.flows(flows).build()
}

fn segment(harness: &mut Harness, side: Side, from: &str, to: &str, flags: &str) -> usize {
    let frame = Craft::tcp(from, to).flags(flags).build();
    harness.send_from(side, &frame).len()
}

/// How long, in seconds, a mapping is found by a packet from outside after
/// `prepare`, which gets the client, the server and the external end.
fn kept(timeouts: Timeouts, seconds: u64, prepare: fn(&mut Harness, &str, &str, &str)) -> bool {
    let mut harness = with_timeouts(timeouts);
    let (client, server) = ("10.0.0.1:5000", "192.0.2.1:80");
    let external = out(&mut harness, Craft::tcp, client, server).unwrap();
    prepare(&mut harness, client, server, &external);
    harness.advance_ms(seconds * 1_000);
    back(&mut harness, Craft::tcp, server, &external).is_some()
}

fn established(harness: &mut Harness, client: &str, server: &str, external: &str) {
    assert_eq!(segment(harness, OUTSIDE, server, external, "SA"), 1);
    assert_eq!(segment(harness, INSIDE, client, server, "A"), 1);
}

fn half_closed(harness: &mut Harness, client: &str, server: &str, external: &str) {
    established(harness, client, server, external);
    assert_eq!(segment(harness, INSIDE, client, server, "FA"), 1);
}

fn reset(harness: &mut Harness, client: &str, server: &str, external: &str) {
    established(harness, client, server, external);
    // translated like any other segment (RFC 7857 section 2.2)
    assert_eq!(segment(harness, OUTSIDE, server, external, "RA"), 1);
}

#[test]
fn tcp_that_opens_or_closes_is_kept() {
    // 5382 REQ-5: 4 minutes in transit
    let by_default = Timeouts::default();
    assert!(kept(by_default, 239, |_, _, _, _| {}));
    assert!(!kept(by_default, 241, |_, _, _, _| {}));
    assert!(kept(by_default, 239, half_closed));
    assert!(!kept(by_default, 241, half_closed));
    // after the end: weir's own value
    assert!(kept(by_default, 9, reset));
    assert!(!kept(by_default, 11, reset));
}

/// RFC 5961, RFC 7857 section 2.2: only a reset at the number that its receiver expects ends a
/// mapping soon; it is translated all the same.
#[test]
fn guessed_resets_end_no_mapping() {
    fn guess(harness: &mut Harness, server: &str, external: &str, seq: u32) {
        let frame = Craft::tcp(server, external).flags("R").seq(seq).build();
        assert_eq!(harness.send_from(OUTSIDE, &frame).len(), 1);
    }
    assert!(kept(
        Timeouts::default(),
        7_000,
        |harness, client, server, external| {
            established(harness, client, server, external);
            guess(harness, server, external, 3_000_000_000);
        }
    ));
    let in_window = |harness: &mut Harness, client: &str, server: &str, external: &str| {
        established(harness, client, server, external);
        guess(harness, server, external, 10_000);
    };
    assert!(kept(Timeouts::default(), 239, in_window));
    assert!(!kept(Timeouts::default(), 241, in_window));
}

#[test]
fn time_outs_are_the_chains() {
    // 5382 REQ-5a; RFC 7857 section 2.2: 4 minutes after a reset
    let ours = Timeouts {
        tcp_opening: 30_000,
        tcp_closed: 240_000,
        udp: 120_000,
        ..Timeouts::default()
    };
    assert!(kept(ours, 239, reset));
    assert!(!kept(ours, 241, reset));
    assert!(kept(ours, 29, |_, _, _, _| {}));
    assert!(!kept(ours, 31, |_, _, _, _| {}));
    // 4787 REQ-5b
    for (seconds, there) in [(119, true), (121, false)] {
        let mut harness = with_timeouts(ours);
        let (client, server) = ("10.0.0.1:5000", "192.0.2.1:53");
        let external = out(&mut harness, Craft::udp, client, server).unwrap();
        harness.advance_ms(seconds * 1_000);
        let found = back(&mut harness, Craft::udp, server, &external).is_some();
        assert_eq!(found, there, "after {seconds} s");
    }
}

#[test]
fn vlans_may_overlap() {
    // 4787 REQ-7: the same client on two VLANs is two clients
    let mut harness = Harness::of::<Nat44>(settings());
    let from = |vlan: u16| {
        let packet = Craft::udp("10.0.0.1:5000", "192.0.2.1:53").vlan(vlan);
        packet.payload(b"?").build()
    };
    let first = harness.send_from(INSIDE, &from(7)).remove(0);
    let second = harness.send_from(INSIDE, &from(8)).remove(0);
    assert_ne!(ends(&first).0, ends(&second).0);
    for (vlan, frame) in [(7, &first), (8, &second)] {
        let answer = Craft::udp("192.0.2.1:53", &ends(frame).0).vlan(vlan);
        let got = harness.send_from(OUTSIDE, &answer.build()).remove(0);
        assert_eq!(ends(&got).1, "10.0.0.1:5000");
        assert_eq!(got[14..16], [0, vlan as u8], "the tag stays");
    }
    assert_eq!(harness.counter("nat44", "created"), 2);
}

#[test]
fn no_packet_changes_its_size() {
    // 4787 REQ-13: nothing grows, so DF never stands in the way
    let mut harness = Harness::of::<Nat44>(settings());
    for size in [0, 1, 1_472, 8_972] {
        for make in [Craft::tcp as Make, Craft::udp, Craft::ping] {
            let packet = make("10.0.0.1:5000", "192.0.2.1:80").fragment(0x4000);
            let sent = packet.payload(&vec![5; size]).build();
            let got = harness.send_from(INSIDE, &sent).remove(0);
            assert_right(&got);
            assert_eq!(got.len(), sent.len());
            assert_eq!(got[20..22], [0x40, 0], "DF stays");
        }
    }
    assert_eq!(harness.finish().emitted, 0);
}

#[test]
fn a_wrong_checksum_stays_wrong() {
    // 5508 REQ-3: the receiver sees that the error is damaged
    let mut harness = Harness::of::<Nat44>(settings());
    let frame = Craft::udp("10.0.0.1:5000", "192.0.2.1:80").build();
    let sent = harness.send_from(INSIDE, &frame).remove(0);
    let mut error = error_about("203.0.113.1:0", "198.51.100.1:0", (3, 1), &sent, 60);
    let at = usize::from(parsed(&error).l4) + 2;
    error[at] ^= 0x10;
    let got = harness.send_from(OUTSIDE, &error).remove(0);
    assert_eq!(
        checksum::check_transport(&got, &parsed(&got)),
        checksum::Verdict::Bad
    );
}

#[test]
fn neither_query_nor_error_is_dropped() {
    // 5508 REQ-11: a router solicitation
    let mut harness = Harness::of::<Nat44>(settings());
    let inside = Craft::ping("10.0.0.1:1", "192.0.2.1:1").icmp(10, 0);
    assert!(harness.send_from(INSIDE, &inside.build()).is_empty());
    assert_eq!(dropped(&harness, "protocol"), 1);
    let outside = Craft::ping("192.0.2.1:1", "198.51.100.1:1").icmp(10, 0);
    assert!(harness.send_from(OUTSIDE, &outside.build()).is_empty());
    assert_eq!(dropped(&harness, "no_mapping"), 1);
    assert_eq!(harness.finish().emitted, 0);
}

/// Every row of docs/nat44.md names tests, and they are here or in the file above.
#[test]
fn every_row_names_its_test() {
    let tests = [include_str!("../tests.rs"), include_str!("standards.rs")].concat();
    let table = include_str!("../../../../../docs/nat44.md");
    let rows = table.lines().filter(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.trim_matches('|').split('|').collect::<Vec<_>>());
    let mut seen = 0;
    for row in cells {
        let [requirement, _, named] = row[..] else {
            panic!("{row:?}: a row has three cells");
        };
        if requirement.contains("---") || named.trim() == "test" {
            continue;
        }
        seen += 1;
        let names: Vec<&str> = named.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "{requirement}: no test");
        for name in names {
            assert!(
                tests.contains(&format!("fn {name}(")),
                "{requirement}: {name}"
            );
        }
    }
    assert!(seen > 35, "{seen} rows");
}

#[test]
fn minutes_of_silence_free_the_port_and_are_logged() {
    let mut harness = Harness::of::<Nat44>(settings());
    assert!(out(&mut harness, Craft::udp, "10.0.0.1:5000", "192.0.2.1:53").is_some());
    harness.events();
    harness.pass_ms(299_000);
    assert_eq!(
        harness.report().flows.ports_leased,
        1,
        "five minutes are not over"
    );
    assert!(harness.events().is_empty());
    harness.pass_ms(2_000);
    assert_eq!(harness.report().flows.ports_leased, 0);
    let events = harness.events();
    assert!(
        events.len() == 1 && events[0].contains("\"delete\""),
        "{events:?}"
    );
    harness.finish();
}

#[test]
fn all_functions_and_the_table_of_flows_name_a_flow_by_one_number() {
    use crate::monitor::Monitor;
    let builder = Harness::builder().with::<Monitor>(Default::default());
    let builder = builder.unwrap().with::<Nat44>(settings()).unwrap();
    let mut harness = builder.build();
    for port in 5_000..5_003 {
        let client = format!("10.0.0.1:{port}");
        let external = out(&mut harness, Craft::udp, &client, "192.0.2.1:53").unwrap();
        // The answer's flow, by its other name, is the same one.
        assert!(back(&mut harness, Craft::udp, "192.0.2.1:53", &external).is_some());
    }
    let ids: Vec<u64> = (0..3)
        .map(|record| harness.runtime().open_flow(record).unwrap().id)
        .collect();
    harness.pass_ms(400_000);
    let events = harness.events();
    let of = |kind: &str, field: &str| -> Vec<u64> {
        let name = format!("\"{field}\":");
        let lines = events.iter().filter(|line| line.contains(kind));
        let mut ids: Vec<u64> = lines
            .filter_map(|line| line.split_once(&name))
            .map(|(_, rest)| rest.split([',', '}']).next().unwrap().parse().unwrap())
            .collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(of("\"event_type\":\"flow\"", "flow_id"), ids);
    assert_eq!(of("\"create\"", "flow_id"), ids);
    // A mapping is not a flow: its end names the mapping, as its beginning does.
    assert!(of("\"delete\"", "flow_id").is_empty());
    assert_eq!(of("\"delete\"", "unit_id"), of("\"create\"", "unit_id"));
    assert_eq!(of("\"delete\"", "unit_id").len(), 3);
}
