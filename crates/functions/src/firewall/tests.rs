//! The firewall through the engine.

use super::*;
use crate::hand_over::OneFlow;
use crate::rewrite::tests::{assert_right, error_about, parsed};
use weir_nf::host::bind;
use weir_nf::packet::LinkType;
use weir_runtime::harness::{Craft, Harness};

fn settings(default: Action, rules: &[&str]) -> Settings {
    Settings {
        default,
        rules: rules
            .iter()
            .map(|r| Written::Text((*r).to_owned()))
            .collect(),
        ..Settings::default()
    }
}

fn firewall(default: Action, rules: &[&str]) -> Harness {
    Harness::of::<Firewall>(settings(default, rules))
}

#[test]
fn the_first_rule_that_matches_decides() {
    let mut harness = firewall(
        Action::Drop,
        &[
            "drop tcp from 10.0.0.66 to any port 80",
            "accept tcp from 10.0.0.0/8, 2001:db8::/32 to any port 80,443,8000-8999",
            "accept udp to not 192.0.2.0/24 port 53",
            "drop from any port 7",
        ],
    );
    for (packet, passes) in [
        (Craft::tcp("10.0.0.1:1", "192.0.2.1:80"), true),
        (Craft::tcp("10.0.0.66:1", "192.0.2.1:80"), false),
        (Craft::tcp("10.0.0.66:1", "192.0.2.1:443"), true),
        (Craft::tcp("10.0.0.1:1", "192.0.2.1:8500"), true),
        (Craft::tcp("10.0.0.1:1", "192.0.2.1:9000"), false),
        (Craft::tcp("11.0.0.1:1", "192.0.2.1:80"), false),
        (Craft::tcp("[2001:db8::1]:1", "[2001:db8:1::1]:443"), true),
        (Craft::tcp("[2001:db9::1]:1", "[2001:db8:1::1]:443"), false),
        (Craft::udp("10.0.0.1:1", "192.0.2.1:53"), false),
        (Craft::udp("10.0.0.1:1", "192.0.3.1:53"), true),
        (Craft::ping("10.0.0.1:1", "192.0.2.1:0"), false),
    ] {
        let frame = packet.clone().flags("S").build();
        assert_eq!(
            harness.send(&frame).len(),
            usize::from(passes),
            "{packet:?}"
        );
    }
    harness.finish();
}

#[test]
fn replies_and_errors_follow_the_verdict_on_their_connection() {
    let mut harness = firewall(Action::Drop, &["accept out"]);
    let (a, b) = ("10.0.0.1:1000", "192.0.2.1:53");
    let out = Side::Outside;
    // from outside, unasked
    assert!(
        harness
            .send_from(out, &Craft::udp(b, "10.0.0.9:5").build())
            .is_empty()
    );
    let query = Craft::udp(a, b).build();
    assert_eq!(harness.send(&query).len(), 1);
    assert_eq!(harness.send_from(out, &Craft::udp(b, a).build()).len(), 1);
    let error = error_about("203.0.113.1:0", "10.0.0.1:0", (11, 0), &query, 28);
    assert_eq!(harness.send_from(out, &error).len(), 1);
    let unasked = Craft::udp("10.0.0.1:1", "198.51.100.1:2").build();
    let error = error_about("203.0.113.1:0", "10.0.0.1:0", (11, 0), &unasked, 28);
    assert!(harness.send_from(out, &error).is_empty());
    // and the connection that it was about is not blocked by it
    assert_eq!(harness.send(&unasked).len(), 1);
    assert_eq!(harness.send_from(out, &error).len(), 1);
    assert_eq!(harness.finish().drops, [("firewall.denied".to_owned(), 2)]);
}

#[test]
fn rules_are_searched_once_per_connection() {
    let mut harness = firewall(Action::Accept, &["drop to any port 1"]);
    for i in 0..50 {
        let (a, b) = ("10.0.0.1:1000", "192.0.2.1:80");
        let packet = if i % 2 == 0 {
            Craft::tcp(a, b)
        } else {
            Craft::tcp(b, a)
        };
        assert_eq!(harness.send(&packet.build()).len(), 1);
    }
    assert_eq!(harness.counter("firewall", "lookups"), 1);
}

#[test]
fn tcp_without_syn_is_invalid_where_asked() {
    let mut strict = settings(Action::Accept, &[]);
    strict.midstream = Midstream::Drop;
    let mut harness = Harness::of::<Firewall>(strict.clone());
    let (a, b) = ("10.0.0.1:1000", "192.0.2.1:80");
    assert!(harness.send(&Craft::tcp(a, b).build()).is_empty());
    // a SYN makes it a connection
    assert_eq!(harness.send(&Craft::tcp(a, b).flags("S").build()).len(), 1);
    assert_eq!(harness.send(&Craft::tcp(b, a).flags("SA").build()).len(), 1);
    assert_eq!(harness.send(&Craft::tcp(a, b).build()).len(), 1);
    assert_eq!(harness.finish().drops, [("firewall.invalid".to_owned(), 1)]);
    // a rule may decide otherwise
    strict.rules = vec![Written::Text(
        "accept state invalid to any port 80".to_owned(),
    )];
    let mut harness = Harness::of::<Firewall>(strict);
    assert_eq!(harness.send(&Craft::tcp(a, b).build()).len(), 1);
    assert!(
        harness
            .send(&Craft::tcp(a, "192.0.2.1:81").build())
            .is_empty()
    );
}

/// A connection at these numbers, and a reset of its server's elsewhere.
#[test]
fn a_reset_outside_of_the_window_is_invalid() {
    let (a, b) = ("10.0.0.1:1000", "192.0.2.1:80");
    let begin = |harness: &mut Harness| {
        let packets = [
            Craft::tcp(a, b).flags("S").seq(999).ack(0),
            Craft::tcp(b, a).flags("SA").seq(4_999).ack(1_000),
            Craft::tcp(a, b).seq(1_000).ack(5_000),
        ];
        for packet in packets {
            assert_eq!(harness.send(&packet.build()).len(), 1);
        }
    };
    let reset = |seq| Craft::tcp(b, a).flags("R").seq(seq).ack(0).build();
    let mut harness = firewall(Action::Accept, &["drop to any port 1"]);
    begin(&mut harness);
    assert!(harness.send(&reset(3_000_000_000)).is_empty());
    assert_eq!(harness.send(&reset(6_000)).len(), 1);
    assert_eq!(harness.send(&reset(5_000)).len(), 1);
    let report = harness.finish();
    assert_eq!(report.drops, [("firewall.invalid".to_owned(), 1)]);
    assert_eq!(report.flows.resets_ignored, 1);
    // Both the setting and a rule may decide otherwise.
    let mut lax = settings(Action::Accept, &[]);
    lax.resets = Resets::Accept;
    for (settings, passed) in [
        (lax.clone(), 1),
        (settings(Action::Accept, &["accept state invalid"]), 1),
        (
            Settings {
                rules: vec![Written::Text("drop state invalid".to_owned())],
                ..lax
            },
            0,
        ),
    ] {
        let mut harness = Harness::of::<Firewall>(settings);
        begin(&mut harness);
        assert_eq!(harness.send(&reset(3_000_000_000)).len(), passed);
    }
}

#[test]
fn conditions_on_single_packets_are_checked_on_each() {
    let mut harness = firewall(
        Action::Drop,
        &[
            "drop tcp flags syn,fin name both",
            "drop icmp icmp-type 13",
            "accept tcp",
            "accept icmp",
            "drop tcp flags rst",
        ],
    );
    let tcp = |flags: &str| {
        Craft::tcp("10.0.0.1:1", "192.0.2.1:80")
            .flags(flags)
            .build()
    };
    assert_eq!(harness.send(&tcp("S")).len(), 1);
    assert_eq!(harness.send(&tcp("A")).len(), 1);
    assert_eq!(harness.send(&tcp("SF")).len(), 0);
    assert_eq!(harness.send(&tcp("A")).len(), 1);
    // this rule stands behind the one that decided
    assert_eq!(harness.send(&tcp("R")).len(), 1);
    let icmp = |kind| {
        Craft::ping("10.0.0.1:7", "192.0.2.1:1")
            .icmp(kind, 0)
            .build()
    };
    assert_eq!(harness.send(&icmp(8)).len(), 1);
    assert_eq!(harness.send(&icmp(13)).len(), 0);
    assert_eq!(harness.send(&icmp(8)).len(), 1);
}

#[test]
fn layer_two_rules_and_what_is_not_ip() {
    let mut harness = Harness::of::<Firewall>(Settings {
        non_ip: NonIp::Drop,
        ..settings(
            Action::Drop,
            &[
                "accept ethertype arp from-mac 02:00:00:00:00:01",
                "accept vlan 100-199",
                "drop ethertype 0x88cc",
                "accept",
            ],
        )
    });
    let arp = |last: u8| {
        let mut frame = vec![0xff; 6];
        frame.extend([2, 0, 0, 0, 0, last, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        frame.extend([0; 20]);
        frame
    };
    assert_eq!(harness.send(&arp(1)).len(), 1);
    assert_eq!(harness.send(&arp(2)).len(), 0);
    let udp = Craft::udp("10.0.0.1:1", "192.0.2.1:2");
    assert_eq!(harness.send(&udp.clone().vlan(150).build()).len(), 1);
    assert_eq!(harness.send(&udp.build()).len(), 1);
    let mut lldp = vec![2; 12];
    lldp.extend([0x88, 0xcc, 0, 0]);
    assert_eq!(harness.send(&lldp).len(), 0);
    let drops = harness.finish().drops;
    assert!(
        drops.contains(&("firewall.non_ip".to_owned(), 1)),
        "{drops:?}"
    );
    assert!(
        drops.contains(&("firewall.denied".to_owned(), 1)),
        "{drops:?}"
    );
}

#[test]
fn reject_answers_the_sender() {
    for (a, b) in [
        ("10.0.0.1:1000", "192.0.2.1:80"),
        ("[2001:db8::1]:1000", "[2001:db8::2]:80"),
    ] {
        let mut harness = firewall(Action::Reject, &[]);
        let syn = Craft::tcp(a, b).flags("S").seq(77).payload(b"xyz").build();
        let out = harness.send(&syn);
        assert_eq!(out.len(), 1);
        let headers = parsed(&out[0]);
        assert_right(&out[0]);
        assert_eq!(headers.tcp_flags, 0x14);
        assert_eq!(headers.ports(&out[0]), Some((80, 1000)));
        let l4 = usize::from(headers.l4);
        assert_eq!(out[0][l4 + 8..l4 + 12], 81u32.to_be_bytes());
        assert_eq!(out[0][..6], syn[6..12], "it goes back to the sender");
        // with ACK the reset takes its sequence number from it
        let data = Craft::tcp(a, b).ack(500).build();
        let out = harness.send(&data);
        let l4 = usize::from(parsed(&out[0]).l4);
        assert_eq!(out[0][l4 + 4..l4 + 8], 500u32.to_be_bytes());
        assert_eq!(parsed(&out[0]).tcp_flags, 0x04);
        // resets are not answered
        assert!(
            harness
                .send(&Craft::tcp(a, b).flags("R").build())
                .is_empty()
        );
        let out = harness.send(&Craft::udp(a, b).payload(&[5; 900]).build());
        assert_right(&out[0]);
        let l4 = usize::from(parsed(&out[0]).l4);
        let kind = if a.starts_with('[') { [1, 1] } else { [3, 13] };
        assert_eq!(out[0][l4..l4 + 2], kind);
        // errors are not answered either
        let error = error_about(
            a,
            b,
            if a.starts_with('[') { (1, 0) } else { (3, 0) },
            &syn,
            60,
        );
        assert!(harness.send(&error).is_empty());
        let report = harness.finish();
        assert_eq!(report.drops, [("firewall.rejected".to_owned(), 5)]);
    }
}

#[test]
fn reject_answers_through_a_backbone() {
    let customers = Craft::udp("10.0.0.1:1000", "192.0.2.1:80").build();
    let backbone = [[0xbb; 6], [0xaa; 6]].concat();
    let frame = [&backbone[..], &[0x88, 0xe7, 0x20, 1, 2, 3], &customers].concat();
    let out = firewall(Action::Reject, &[]).send(&frame);
    assert_eq!(out[0][..12], [[0xaa; 6], [0xbb; 6]].concat());
    assert_eq!(out[0][12..18], frame[12..18], "the same service instance");
    let swapped = [&customers[6..12], &customers[..6]].concat();
    assert_eq!(out[0][18..30], swapped);
    assert_right(&out[0]);
}

/// One that drops what is open and that its rules refuse.
fn make(default: Action, rules: &[&str]) -> Firewall {
    make_with(default, rules, OnReload::Drop)
}

fn make_with(default: Action, rules: &[&str], on_reload: OnReload) -> Firewall {
    let (mut pools, mut warnings, mut sources) = (Vec::new(), Vec::new(), weir_nf::NoSources);
    let mut set_up = SetUp::new(&mut sources, &mut pools, &mut warnings, 1);
    let settings = Settings {
        on_reload,
        ..settings(default, rules)
    };
    Firewall::new(settings, &mut set_up).unwrap()
}

#[test]
fn an_open_connection_that_changed_rules_refuse_goes_on_unless_they_say_otherwise() {
    let before = bind(make(Action::Accept, &[]));
    let there = Craft::tcp("10.0.0.1:1000", "192.0.2.1:22").build();
    let back = Craft::tcp("192.0.2.1:22", "10.0.0.1:1000").build();
    for (on_reload, passes) in [
        (OnReload::Keep, true),
        (OnReload::Drop, false),
        (OnReload::Reject, false),
    ] {
        let rules = ["drop to any port 22"];
        let after = bind(make_with(Action::Accept, &rules, on_reload));
        let mut flow = OneFlow::new(&before);
        assert!(flow.apply(&before, &there).is_some());
        for packet in [&back, &there] {
            assert_eq!(
                flow.apply(&after, packet).is_some(),
                passes,
                "{on_reload:?}"
            );
        }
        // One that goes on does so under rules that change once more.
        let again = bind(make_with(Action::Drop, &["drop tcp"], on_reload));
        assert_eq!(
            flow.apply(&again, &there).is_some(),
            passes,
            "{on_reload:?}"
        );
        // New ones are judged by the rules that there are.
        assert!(OneFlow::new(&after).apply(&after, &there).is_none());
    }
    // A rule for new connections accepts those that it has let in, and refuses new ones alone.
    let new_only = ["accept tcp to any port 22 state new"];
    let accepts = bind(make_with(Action::Drop, &new_only, OnReload::Drop));
    let refuses = bind(make_with(
        Action::Accept,
        &["drop tcp state new"],
        OnReload::Drop,
    ));
    let mut flow = OneFlow::new(&before);
    assert!(flow.apply(&before, &there).is_some());
    for after in [&accepts, &refuses, &accepts] {
        assert!(flow.apply(after, &back).is_some());
        assert!(flow.apply(after, &there).is_some());
    }
    assert!(OneFlow::new(&refuses).apply(&refuses, &there).is_none());
    // A refused connection stays refused until changed rules accept it.
    let closed = bind(make_with(Action::Drop, &[], OnReload::Keep));
    let mut refused = OneFlow::new(&closed);
    assert!(refused.apply(&closed, &there).is_none());
    let still = bind(make_with(Action::Drop, &["accept udp"], OnReload::Keep));
    assert!(refused.apply(&still, &there).is_none());
    assert!(refused.apply(&before, &there).is_some());
}

#[test]
fn a_verdict_of_older_rules_is_looked_up_again() {
    let (to_22, to_23) = (
        make(Action::Accept, &["drop to any port 22"]),
        make(Action::Accept, &["drop to any port 23"]),
    );
    assert_ne!(to_22.generation, to_23.generation);
    assert_eq!(
        to_22.generation,
        make(Action::Accept, &["drop to any port 22"]).generation,
        "the same rules have the same generation wherever they run"
    );
    let (to_22, to_23) = (bind(to_22), bind(to_23));
    let there = Craft::tcp("10.0.0.1:1000", "192.0.2.1:23").build();
    let back = Craft::tcp("192.0.2.1:23", "10.0.0.1:1000").build();
    let mut flow = OneFlow::new(&to_22);
    assert!(flow.apply(&to_22, &there).is_some());
    // the answer is what the new rules see first: judged as the connection
    assert!(flow.apply(&to_23, &back).is_none());
    assert!(flow.apply(&to_23, &there).is_none());
    assert!(flow.apply(&to_22, &back).is_some());
    // a connection that was let in under older rules is `established`
    let strict = bind(make(Action::Drop, &["accept state established"]));
    assert!(flow.apply(&strict, &there).is_some());
    assert!(OneFlow::new(&strict).apply(&strict, &there).is_none());
}

#[test]
fn rules_that_make_no_sense_are_refused_with_their_place() {
    for (rule, path, part) in [
        (
            "accept tcp from 10.0.0.0/33",
            "rules[1].from",
            "is not a prefix",
        ),
        (
            "accept icmp to any port 80",
            "rules[1].to-port",
            "have ports",
        ),
        ("accept tcp to any port 90-80", "rules[1].to-port", "90-80"),
        ("accept udp flags syn", "rules[1].tcp-flags", "no TCP flags"),
        ("accept tcp flags sin", "rules[1].tcp-flags", "sin"),
        ("accept state old", "rules[1].state", "old"),
        ("accept vlan 5000", "rules[1].vlan", "5000"),
        ("accept from-mac 1:2:3", "rules[1].from-mac", "1:2:3"),
        ("accept sideways", "rules[1]", "character 8"),
        ("accept to not any", "rules[1].to", "matches nothing"),
    ] {
        let error = Harness::builder()
            .with::<Firewall>(settings(Action::Drop, &["accept", rule]))
            .unwrap_err();
        assert_eq!(error.path, path, "{error}");
        assert!(error.message.contains(part), "{error}");
    }
}

#[test]
fn settings_come_as_texts_and_maps() {
    let settings: Settings = serde_json::from_str(
        r#"{"default": "drop", "rules": ["accept tcp to any port 80",
            {"action": "accept", "protocol": "udp", "to-port": [53, "100-200"], "log": true, "name": "dns"}]}"#,
    )
    .unwrap();
    let mut harness = Harness::of::<Firewall>(settings);
    assert_eq!(
        harness
            .send(&Craft::udp("10.0.0.1:1", "192.0.2.1:150").build())
            .len(),
        1
    );
    assert_eq!(
        harness
            .send(&Craft::udp("10.0.0.1:1", "192.0.2.1:99").build())
            .len(),
        0
    );
    let events = harness.events();
    assert!(events[0].contains(r#""event_type":"accept""#) && events[0].contains("dns"));
    let error =
        serde_json::from_str::<Settings>(r#"{"rules": [{"action": "accept", "form": "x"}]}"#)
            .unwrap_err();
    assert!(error.to_string().contains("form"), "{error}");
}

#[test]
fn dropped_connections_are_logged_once() {
    let mut harness = firewall(Action::Accept, &["drop to any port 22 log name \"no ssh\""]);
    for _ in 0..3 {
        harness.send(&Craft::tcp("10.0.0.1:1", "192.0.2.1:22").flags("S").build());
    }
    let events = harness.events();
    assert_eq!(events.len(), 1);
    assert!(events[0].contains(r#""event_type":"drop""#) && events[0].contains("no ssh"));
}

#[test]
fn raw_ip_is_filtered_too() {
    let mut harness = firewall(Action::Drop, &["accept udp"]);
    let frame = Craft::udp("10.0.0.1:1", "192.0.2.1:2").build();
    harness.queue_link(Side::Inside, LinkType::RawIp, &frame[14..]);
    assert_eq!(harness.flush().len(), 1);
}

#[test]
fn what_was_refused_one_way_may_be_opened_the_other_way() {
    let rules = &[
        "accept out tcp",
        "accept out udp name questions",
        "accept in tcp to any port 22",
    ];
    let (inside, outside) = (Side::Inside, Side::Outside);
    let (a, b) = ("10.0.0.1:1000", "192.0.2.1:2000");
    // Both ends of a UDP conversation send first, through a firewall each.
    let mut harness = firewall(Action::Drop, rules);
    let (ask, answer) = (Craft::udp(a, b).build(), Craft::udp(b, a).build());
    for _ in 0..3 {
        assert!(harness.send_from(outside, &answer).is_empty());
    }
    assert_eq!(harness.send_from(inside, &ask).len(), 1);
    for _ in 0..3 {
        assert_eq!(harness.send_from(outside, &answer).len(), 1);
        assert_eq!(harness.send_from(inside, &ask).len(), 1);
    }
    // TCP that was there before the firewall, and whose server is heard first.
    let (data, ack) = (Craft::tcp(b, a).build(), Craft::tcp(a, b).build());
    assert_eq!(harness.send_from(outside, &data).len(), 1);
    assert_eq!(harness.send_from(inside, &ack).len(), 1);
    assert_eq!(harness.send_from(outside, &data).len(), 1);
    // An error about a connection that was refused opens nothing.
    let refused = Craft::tcp("192.0.2.1:2000", "10.0.0.1:3000")
        .flags("S")
        .build();
    assert!(harness.send_from(outside, &refused).is_empty());
    let error = error_about("10.0.0.9:0", "192.0.2.1:0", (3, 3), &refused, 28);
    assert!(harness.send_from(inside, &error).is_empty());
    assert!(harness.send_from(outside, &refused).is_empty());
    assert_eq!(harness.finish().drops, [("firewall.denied".to_owned(), 6)]);
    // A TCP connection must start with a SYN, at either end.
    let mut strict = settings(Action::Drop, rules);
    strict.midstream = Midstream::Drop;
    let mut harness = Harness::of::<Firewall>(strict);
    let syn = Craft::tcp(a, b).flags("S").build();
    assert!(harness.send_from(outside, &data).is_empty());
    assert!(harness.send_from(inside, &ack).is_empty());
    assert_eq!(harness.send_from(inside, &syn).len(), 1);
    assert_eq!(harness.send_from(outside, &data).len(), 1);
}

#[test]
fn a_download_goes_on_after_a_restart_and_its_server_opens_nothing() {
    let (inside, outside) = (Side::Inside, Side::Outside);
    let (client, server) = ("10.0.0.1:40000", "192.0.2.1:80");
    let from_server = |flags: &str| Craft::tcp(server, client).flags(flags).build();
    let from_client = |flags: &str| Craft::tcp(client, server).flags(flags).build();
    let rules = &["accept out tcp"];
    let mut harness = firewall(Action::Drop, rules);
    for _ in 0..3 {
        assert_eq!(harness.send_from(outside, &from_server("A")).len(), 1);
    }
    // Nothing tells an outsider's segment from a server's, but a SYN does.
    assert!(harness.send_from(outside, &from_server("S")).is_empty());
    assert!(harness.send_from(outside, &from_server("SA")).is_empty());
    // A host without the connection answers by a reset, which proves nothing.
    assert_eq!(harness.send_from(inside, &from_client("R")).len(), 1);
    assert!(harness.send_from(outside, &from_server("S")).is_empty());
    assert_eq!(harness.finish().drops, [("firewall.denied".to_owned(), 3)]);

    // Once the client has spoken, the connection is like any other.
    let mut harness = firewall(Action::Drop, rules);
    assert_eq!(harness.send_from(outside, &from_server("A")).len(), 1);
    assert_eq!(harness.send_from(inside, &from_client("A")).len(), 1);
    assert_eq!(harness.send_from(outside, &from_server("A")).len(), 1);
    harness.finish();

    // Rules that accept neither end's opening let nothing pass.
    let mut harness = firewall(Action::Drop, &["accept out tcp to any port 443"]);
    assert!(harness.send_from(outside, &from_server("A")).is_empty());
    // Nor does a first reset, nor what a strict firewall wants a SYN for.
    let mut harness = firewall(Action::Drop, rules);
    assert!(harness.send_from(outside, &from_server("RA")).is_empty());
    let mut strict = settings(Action::Drop, rules);
    strict.midstream = Midstream::Drop;
    let mut harness = Harness::of::<Firewall>(strict);
    assert!(harness.send_from(outside, &from_server("A")).is_empty());
}

#[test]
fn resets_outside_of_a_joined_connections_window_are_invalid_too() {
    let (client, server) = ("10.0.0.1:40000", "192.0.2.1:80");
    for (resets, passed) in [(Resets::Drop, 0), (Resets::Accept, 1)] {
        let mut settings = settings(Action::Drop, &["accept out tcp"]);
        settings.resets = resets;
        let mut harness = Harness::of::<Firewall>(settings);
        let from_server = |flags: &str, seq| {
            let segment = Craft::tcp(server, client).flags(flags);
            segment.seq(seq).ack(5_000).build()
        };
        let data = from_server("A", 1_000);
        assert_eq!(harness.send_from(Side::Outside, &data).len(), 1);
        // A joined connection's scale is not known: 2^30 numbers each way are in its window.
        for forged in [
            from_server("R", 1 << 31),
            Craft::tcp(client, server).flags("R").seq(1 << 31).build(),
        ] {
            let side = match forged[26] {
                10 => Side::Inside,
                _ => Side::Outside,
            };
            assert_eq!(harness.send_from(side, &forged).len(), passed, "{resets:?}");
        }
        // Its own reset passes.
        let reset = from_server("R", 1_000);
        assert_eq!(harness.send_from(Side::Outside, &reset).len(), 1);
        let dropped = harness.finish().drops;
        let invalid = dropped.iter().map(|(name, n)| (name.as_str(), *n));
        let expected = [("firewall.invalid", 2)];
        assert!(
            invalid.eq(expected.into_iter().filter(|_| passed == 0)),
            "{dropped:?}"
        );
    }
}

#[test]
fn a_syn_ack_that_answers_nothing_opens_nothing() {
    let (inside, outside) = (Side::Inside, Side::Outside);
    let (host, outsider) = ("10.0.0.1:22", "192.0.2.66:50000");
    let there = |flags: &str| Craft::tcp(outsider, host).flags(flags).build();
    let back = |flags: &str| Craft::tcp(host, outsider).flags(flags).build();
    for midstream in [Midstream::Accept, Midstream::Drop] {
        let mut settings = settings(Action::Drop, &["accept out tcp"]);
        settings.midstream = midstream;
        let mut harness = Harness::of::<Firewall>(settings);
        // The host is not the client of a connection that it never asked for.
        assert!(harness.send_from(outside, &there("SA")).is_empty());
        assert!(harness.send_from(outside, &there("S")).is_empty());
        assert!(harness.send_from(outside, &there("A")).is_empty());
        // The host may still open a connection of its own by the same ports.
        assert_eq!(harness.send_from(inside, &back("S")).len(), 1);
        assert_eq!(harness.send_from(outside, &there("SA")).len(), 1);
        harness.finish();
    }
}
