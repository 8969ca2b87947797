//! Flows through the engine: what a function sees of them, when they end, what
//! happens when the table is full.

mod common;

use common::{DROP, EMIT, LABEL, Probe, REFUSE, TURN, numbers, reasons};
use weir_nf::host::{FlowOptions, OnMalformed, Target, Timeouts, WhenFull};
use weir_nf::prelude::*;
use weir_packet::{FramePool, MemoryLayout};
use weir_runtime::harness::{Craft, Harness};

fn harness(flows: FlowOptions) -> Harness {
    let builder = Harness::builder().flows(flows).with::<Probe<0>>(());
    builder.expect("no settings").build()
}

fn udp(client: u8, first: u8) -> Vec<u8> {
    Craft::udp(&format!("10.0.0.{client}:1000"), "192.0.2.1:53")
        .payload(&[first, 9])
        .build()
}

fn tcp(port: u16, flags: &str, back: bool) -> Vec<u8> {
    let (client, server) = (format!("10.0.0.1:{port}"), "192.0.2.1:80".to_owned());
    let (from, to) = if back {
        (server, client)
    } else {
        (client, server)
    };
    Craft::tcp(&from, &to).flags(flags).build()
}

fn drops(harness: &Harness, reason: &str) -> u64 {
    let report = harness.report();
    let found = report.drops.iter().find(|(name, _)| name == reason);
    found.map_or(0, |(_, n)| *n)
}

#[test]
fn a_packet_is_seen_as_of_itself_however_bursts_are_cut() {
    let packets = [
        tcp(1, "S", false),
        tcp(1, "SA", true),
        tcp(1, "A", false),
        tcp(1, "FA", false),
        tcp(1, "FA", true),
        tcp(1, "A", false),
    ];
    let seen = |burst: usize| {
        let mut harness = harness(FlowOptions::default());
        for chunk in packets.chunks(burst) {
            for packet in chunk {
                harness.queue(Side::Inside, packet);
            }
            harness.flush();
        }
        let events = harness.events();
        harness.finish();
        ["clock", "phase", "n", "random", "first", "to_server"]
            .map(|field| numbers(&events, "probe", field))
    };
    let alone = seen(1);
    assert_eq!(alone[0], [1, 2, 3, 4, 5, 6]);
    assert_eq!(alone[1], [0, 1, 2, 3, 4, 4]);
    assert_eq!(alone[4], [1, 0, 0, 0, 0, 0]);
    let mut different = alone[3].clone();
    different.dedup();
    assert_eq!(different.len(), 6, "a random number per packet");
    for burst in 2..=6 {
        assert_eq!(seen(burst), alone, "bursts of {burst}");
    }
}

#[test]
fn a_flow_ends_by_its_own_time_before_the_wheel_comes_round() {
    let mut harness = harness(FlowOptions {
        timeouts: Timeouts {
            udp: 1_500,
            ..Timeouts::default()
        },
        ..FlowOptions::default()
    });
    harness.send(&udp(1, 0));
    harness.advance_ms(1_500);
    harness.send(&udp(1, 0)); // at the limit: lives on
    harness.advance_ms(1_501);
    harness.send(&udp(1, 0)); // over it: another flow
    // and in the middle of a burst
    harness.queue(Side::Inside, &udp(1, 0));
    harness.advance_ms(86_400_000);
    harness.queue(Side::Inside, &udp(1, 0));
    assert_eq!(harness.flush().len(), 2);
    let events = harness.events();
    assert_eq!(numbers(&events, "probe", "n"), [1, 2, 1, 2, 1]);
    assert_eq!(reasons(&events, "probe"), ["timeout", "timeout"]);
    assert_eq!(harness.finish().flows.seen, 3);
}

#[test]
fn each_protocol_and_phase_has_its_own_time() {
    let wait = |packets: &[Vec<u8>], seconds: u64| {
        let mut harness = harness(FlowOptions::default());
        for packet in packets {
            harness.send(packet);
        }
        harness.advance_ms(seconds * 1_000 + 1);
        harness.send(packets.last().expect("a packet"));
        let seen = harness.report().flows.seen;
        harness.finish();
        seen == 2
    };
    let open = vec![tcp(1, "S", false), tcp(1, "SA", true)];
    assert!(!wait(&open, 239) && wait(&open, 240));
    let established = [open, vec![tcp(1, "A", false)]].concat();
    assert!(!wait(&established, 7_439) && wait(&established, 7_440));
    let closing = [established.clone(), vec![tcp(1, "FA", true)]].concat();
    assert!(!wait(&closing, 239) && wait(&closing, 240));
    let closed = [closing, vec![tcp(1, "FA", false)]].concat();
    assert!(!wait(&closed, 9) && wait(&closed, 10));
    let reset = [established, vec![tcp(1, "R", true)]].concat();
    assert!(!wait(&reset, 9) && wait(&reset, 10));
    assert!(!wait(&[udp(1, 0)], 299) && wait(&[udp(1, 0)], 300));
    let ping = [Craft::ping("10.0.0.1:5", "10.0.0.2:1").build()];
    assert!(!wait(&ping, 59) && wait(&ping, 60));
}

#[test]
fn a_closed_connection_leaves_the_table_in_its_short_time() {
    let mut harness = harness(FlowOptions::default());
    for packet in [
        tcp(1, "S", false),
        tcp(1, "SA", true),
        tcp(1, "A", false),
        tcp(1, "R", true),
    ] {
        harness.send(&packet);
    }
    assert_eq!(harness.runtime().active_flows(), 1);
    harness.advance_ms(12_000);
    harness.send(&udp(1, 0));
    assert_eq!(harness.runtime().active_flows(), 1, "only the UDP flow");
    assert_eq!(reasons(&harness.events(), "probe"), ["reset"]);
}

#[test]
fn time_that_runs_backwards_ends_nothing_and_days_end_all() {
    let mut harness = harness(FlowOptions::default());
    let now = harness.now();
    for client in 0..50 {
        harness.send(&udp(client, 0));
    }
    harness.set_time(Time(now.0 - 500_000_000_000));
    harness.send(&udp(1, 0));
    assert_eq!(harness.report().flows.ended, []);
    harness.set_time(now);
    harness.advance_ms(3 * 86_400_000);
    harness.send(&udp(60, 0));
    assert_eq!(harness.runtime().active_flows(), 1);
    harness.finish();
}

#[test]
fn a_syn_on_a_closed_connection_begins_another_also_in_one_burst() {
    for one_burst in [false, true] {
        let mut harness = harness(FlowOptions::default());
        for packet in [
            tcp(1, "S", false),
            tcp(1, "RA", true),
            tcp(2, "S", false),
            tcp(1, "S", false),
            tcp(1, "SA", true),
        ] {
            harness.queue(Side::Inside, &packet);
            if !one_burst {
                harness.flush();
            }
        }
        harness.flush();
        let events = harness.events();
        assert_eq!(
            numbers(&events, "probe", "n"),
            [1, 2, 1, 1, 2],
            "{one_burst}"
        );
        assert_eq!(reasons(&events, "probe"), ["reused"]);
        assert_eq!(harness.finish().flows.seen, 3);
    }
}

#[test]
fn a_full_table_refuses_or_evicts_the_longest_idle() {
    for (when_full, seen, dropped) in [(WhenFull::Refuse, 4, 2), (WhenFull::Evict, 6, 0)] {
        let mut harness = harness(FlowOptions {
            max: 4,
            when_full,
            ..FlowOptions::default()
        });
        for client in 1..=6 {
            harness.advance_ms(10);
            harness.send(&udp(client, 0));
            harness.advance_ms(10);
            harness.send(&udp(1, 0));
        }
        assert_eq!(drops(&harness, "flow_table_full"), dropped);
        let report = harness.finish();
        assert_eq!(report.flows.seen, seen);
        let events = harness.events();
        let evicted = reasons(&events, "probe")
            .iter()
            .filter(|w| *w == "evicted")
            .count();
        assert_eq!(evicted as u64, seen - 4);
        // client 1 was never the longest idle
        assert_eq!(numbers(&events, "closed", "n").iter().max(), Some(&7));
    }
}

#[test]
fn flows_that_are_over_make_room_before_any_is_refused() {
    let mut harness = harness(FlowOptions {
        max: 2,
        when_full: WhenFull::Refuse,
        ..FlowOptions::default()
    });
    harness.queue(Side::Inside, &udp(1, 0));
    harness.queue(Side::Inside, &udp(2, 0));
    harness.advance_ms(400_000);
    harness.queue(Side::Inside, &udp(3, 0));
    assert_eq!(harness.flush().len(), 2, "flows in the burst stay");
    harness.send(&udp(2, 0));
    assert_eq!(harness.send(&udp(3, 0)).len(), 1);
    harness.finish();
}

#[test]
fn a_table_of_one_flow_serves_a_burst_of_many() {
    let mut harness = harness(FlowOptions {
        max: 1,
        ..FlowOptions::default()
    });
    for client in 0..200 {
        harness.queue(Side::Inside, &udp(client % 7, 0));
    }
    assert_eq!(harness.flush().len(), 200);
    assert_eq!(harness.finish().flows.seen, 200);
}

#[test]
fn a_malformed_packet_is_counted_once_though_the_burst_is_cut_before_it() {
    for malformed in [OnMalformed::Drop, OnMalformed::Pass] {
        let mut harness = harness(FlowOptions {
            max: 1,
            malformed,
            ..FlowOptions::default()
        });
        let mut broken = udp(1, 0);
        broken[14] = 0x4f;
        for client in 0..10 {
            harness.queue(Side::Inside, &udp(client, 0));
        }
        harness.queue(Side::Inside, &broken);
        let out = harness.flush().len();
        assert_eq!(
            out,
            if malformed == OnMalformed::Pass {
                11
            } else {
                10
            }
        );
        let report = harness.finish();
        assert_eq!(
            report.malformed.iter().map(|(_, n)| n).sum::<u64>(),
            1,
            "{report:?}"
        );
    }
}

#[test]
fn a_new_flow_in_an_old_record_knows_nothing_of_it() {
    let mut harness = harness(FlowOptions {
        max: 1,
        ..FlowOptions::default()
    });
    harness.send(
        &Craft::udp("10.0.0.1:1", "10.0.0.2:2")
            .payload(&[common::BUFFER; 700])
            .build(),
    );
    assert!(harness.report().flows.buffer_bytes > 0);
    harness.send(&udp(2, 0));
    let events = harness.events();
    assert_eq!(numbers(&events, "probe", "n"), [1, 1]);
    assert_eq!(numbers(&events, "probe", "seen"), [1, 1]);
    assert_eq!(numbers(&events, "probe", "buffered"), [700, 0]);
    assert_eq!(harness.finish().flows.buffer_bytes, 0);
}

#[test]
fn a_refused_open_drops_and_is_asked_again() {
    let mut harness = harness(FlowOptions::default());
    assert_eq!(harness.send(&udp(1, REFUSE)).len(), 0);
    assert_eq!(harness.send(&udp(1, REFUSE)).len(), 0);
    assert_eq!(harness.send(&udp(1, 0)).len(), 1);
    assert_eq!(harness.send(&udp(1, REFUSE)).len(), 1, "open already");
    assert_eq!(drops(&harness, "probe.refused"), 2);
    assert_eq!(harness.counter("probe", "opened"), 1);
    harness.finish();
    assert_eq!(harness.counter("probe", "closed"), 1);
}

#[test]
fn a_function_behind_one_that_drops_opens_nothing() {
    let builder = Harness::builder().with::<Probe<0>>(()).expect("none");
    let mut harness = builder.with::<Probe<0>>(()).expect("none").build();
    harness.send(&udp(1, DROP));
    assert_eq!(harness.counter("probe", "opened"), 1);
    assert_eq!(harness.counter("probe-2", "opened"), 0);
    harness.finish();
    assert_eq!(harness.counter("probe-2", "closed"), 0);
}

#[test]
fn wider_scopes_share_a_state_that_ends_with_its_last_flow() {
    let builder = Harness::builder().with::<Probe<1>>(()).expect("none");
    let builder = builder.with::<Probe<2>>(()).expect("none");
    let mut harness = builder.with::<Probe<0>>(()).expect("none").build();
    let flow = |client: u8, port: u16, server: u8| {
        Craft::udp(
            &format!("10.0.0.{client}:{port}"),
            &format!("192.0.2.{server}:53"),
        )
        .build()
    };
    for (client, port, server) in [(1, 1, 1), (1, 2, 1), (1, 1, 2), (2, 1, 1), (1, 1, 1)] {
        harness.queue(Side::Inside, &flow(client, port, server));
    }
    harness.flush();
    let events = harness.events();
    assert_eq!(numbers(&events, "by-client", "n"), [1, 2, 3, 1, 4]);
    assert_eq!(numbers(&events, "by-client", "clock"), [1, 2, 3, 1, 4]);
    assert_eq!(numbers(&events, "by-client", "first"), [1, 1, 1, 1, 0]);
    assert_eq!(numbers(&events, "by-pair", "n"), [1, 2, 1, 1, 3]);
    assert_eq!(numbers(&events, "probe", "n"), [1, 1, 1, 1, 2]);
    assert_eq!(harness.report().flows.units, 2 + 3);
    // One flow of the pair lives on, and so do the pair and the client.
    harness.advance_ms(200_000);
    harness.send(&flow(1, 2, 1));
    harness.advance_ms(200_000);
    harness.send(&flow(1, 2, 1));
    let events = harness.events();
    assert_eq!(reasons(&events, "probe").len(), 3);
    assert_eq!(reasons(&events, "by-pair").len(), 2);
    assert_eq!(reasons(&events, "by-client").len(), 1);
    assert_eq!(numbers(&events, "by-client", "n"), [5, 6]);
    harness.finish();
    for (name, closed) in [("by-client", 2), ("by-pair", 3), ("probe", 4)] {
        assert_eq!(harness.counter(name, "opened"), closed, "{name}");
        assert_eq!(harness.counter(name, "closed"), closed, "{name}");
    }
}

#[test]
fn a_scope_of_its_own_is_keyed_by_the_function() {
    let mut harness = Harness::of::<Probe<3>>(());
    for client in ["10.1.1.1:1", "10.2.2.2:2", "11.1.1.1:3"] {
        harness.send(&Craft::udp(client, "192.0.2.1:53").build());
    }
    assert_eq!(numbers(&harness.events(), "by-octet", "n"), [1, 2, 1]);
    harness.finish();
}

#[test]
fn links_lead_where_they_say_and_joins_keep_order() {
    let run = |other: Target| {
        let builder = Harness::builder().with::<Probe<0>>(()).expect("none");
        let builder = builder.with::<Probe<1>>(()).expect("none");
        let mut stage = builder.with::<Probe<2>>(()).expect("none").stage();
        stage.nodes[0].next = vec![Target::Node(2), other];
        stage.nodes[1].next = vec![Target::Node(2)];
        let mut harness = Harness::of_stage(&stage);
        for (client, what) in [(1, 0), (2, LABEL), (3, 0), (4, LABEL), (5, DROP)] {
            harness.queue(Side::Inside, &udp(client, what));
        }
        let out = harness.flush();
        let report = harness.finish();
        let packets: Vec<u64> = report.functions.iter().map(|f| f.packets).collect();
        let clients: Vec<u8> = out.iter().map(|out| out.bytes[29]).collect();
        (packets, clients, report.drops)
    };
    let asked = ("probe.asked".to_owned(), 1);
    let both = run(Target::Node(1));
    assert_eq!(both, (vec![5, 2, 4], vec![1, 2, 3, 4], vec![asked.clone()]));
    let out = run(Target::Out);
    assert_eq!(out, (vec![5, 0, 2], vec![1, 2, 3, 4], vec![asked.clone()]));
    let dropped = ("probe.other".to_owned(), 2);
    let drop = run(Target::Drop);
    assert_eq!(drop, (vec![5, 0, 2], vec![1, 3], vec![asked, dropped]));
}

#[test]
fn a_packet_turns_once() {
    let mut harness = harness(FlowOptions::default());
    assert_eq!(harness.send(&udp(1, TURN)).len(), 0);
    assert_eq!(drops(&harness, "turned_twice"), 1);
    // on its second way it is of a flow of its own
    assert_eq!(numbers(&harness.events(), "probe", "n"), [1, 1]);
    harness.finish();
}

#[test]
fn packets_that_functions_make_leave_and_are_counted() {
    let mut harness = harness(FlowOptions::default());
    let out = harness.send(&udp(1, EMIT));
    assert_eq!(out.len(), 2);
    assert_eq!(out[1][0], 0xee);
    let report = harness.finish();
    assert_eq!((report.emitted, report.packets_out), (1, 2));
}

#[test]
fn an_icmp_error_moves_no_phase_of_the_flow_it_quotes() {
    let mut harness = harness(FlowOptions::default());
    let quoted = tcp(7, "S", false);
    let mut error = Craft::ping("192.0.2.1:0", "10.0.0.1:0")
        .payload(&quoted[14..])
        .build();
    error[34] = 3; // destination unreachable
    error[35] = 1;
    harness.send(&quoted);
    harness.send(&error);
    let events = harness.events();
    assert_eq!(numbers(&events, "probe", "phase"), [0, 0]);
    assert_eq!(numbers(&events, "probe", "to_server"), [1, 0]);
    harness.finish();
    // The error alone opens the flow that it is about: its client is whoever
    // sent the packet that is quoted, so the flow's own packets fit later.
    harness.send(&error);
    assert_eq!(numbers(&harness.events(), "probe", "to_server"), [0]);
}

#[test]
fn packets_without_flow_have_random_numbers_of_their_own() {
    let mut arp = vec![0xff; 12];
    arp.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
    arp.extend([0; 20]);
    let run = |between: bool| {
        let mut harness = harness(FlowOptions::default());
        harness.queue(
            Side::Inside,
            &if between { udp(1, 0) } else { udp(2, DROP) },
        );
        harness.queue(Side::Inside, &arp);
        harness.queue(Side::Inside, &arp);
        harness.flush();
        numbers(&harness.events(), "alone", "random")
    };
    assert_eq!(run(true), run(false));
    assert_ne!(run(true)[0], run(true)[1]);
}

#[test]
fn silence_ends_flows_without_a_packet_some_per_call() {
    let mut engine = harness(FlowOptions::default());
    for client in 0..200 {
        engine.send(&udp(client, 0));
    }
    engine.events();
    engine.pass_ms(299_000);
    assert_eq!(engine.report().flows.active, 200);
    engine.advance_ms(60_000);
    let now = engine.now();
    let mut pool = FramePool::with_layout(MemoryLayout::default());
    let mut output = Vec::new();
    let mut calls = 1;
    while engine.runtime().pass_time(&mut pool, now, &mut output) {
        calls += 1;
    }
    assert!(calls > 3, "bounded per call: {calls}");
    let report = engine.report();
    assert_eq!((report.flows.active, report.packets_in), (0, 200));
    assert_eq!(report.flows.ended, [(CloseReason::Idle, 200)]);
    assert_eq!(engine.events().len(), 200);
    // Time does not run backwards.
    engine
        .runtime()
        .pass_time(&mut pool, Time::ZERO, &mut output);
    assert_eq!(engine.runtime().now(), now);
    engine.finish();
}

#[test]
fn a_download_under_way_has_its_client_though_the_server_is_seen_first() {
    let mut engine = harness(FlowOptions::default());
    let segment = |from: &str, to: &str| Craft::tcp(from, to).flags("A").payload(&[0, 9]).build();
    let (client, server) = ("10.0.0.1:40000", "192.0.2.1:80");
    engine.send_from(Side::Outside, &segment(server, client));
    engine.send(&segment(client, server));
    engine.send_from(Side::Outside, &segment(server, client));
    assert_eq!(numbers(&engine.events(), "probe", "to_server"), [0, 1, 0]);
    // A SYN says who the client is, whatever its ports.
    let syn = Craft::tcp("192.0.2.1:80", "10.0.0.2:50000").flags("S");
    engine.send(&syn.payload(&[0, 9]).build());
    assert_eq!(numbers(&engine.events(), "probe", "to_server"), [1]);
    engine.finish();
}
