//! Later fragments follow the first one of their datagram.

mod common;

use common::{Probe, numbers};
use weir_nf::host::FlowOptions;
use weir_nf::prelude::*;
use weir_runtime::harness::{Craft, Harness};

fn harness(flows: FlowOptions) -> Harness {
    let builder = Harness::builder().flows(flows).with::<Probe<0>>(());
    builder.expect("no settings").build()
}

/// Fragment `part` of a datagram of three, with its part as the last octet.
fn fragment(id: u16, part: u16) -> Vec<u8> {
    let more = if part < 2 { 0x2000 } else { 0 };
    let payload = [&[0u8; 15][..], &[part as u8]].concat();
    Craft::udp("10.0.0.1:1000", "192.0.2.1:53")
        .ip_id(id)
        .fragment(more | (part * 3))
        .payload(&payload)
        .build()
}

fn parts(harness: &mut Harness) -> Vec<u8> {
    let out = harness.flush();
    out.iter()
        .filter_map(|out| out.bytes.last().copied())
        .collect()
}

#[test]
fn follow_the_first_in_any_order_and_any_burst() {
    for order in [[0, 1, 2], [1, 0, 2], [1, 2, 0], [2, 1, 0]] {
        for alone in [true, false] {
            let mut harness = harness(FlowOptions::default());
            let mut out = Vec::new();
            for part in order {
                harness.queue(Side::Inside, &fragment(5, part));
                if alone {
                    out.extend(parts(&mut harness));
                }
            }
            out.extend(parts(&mut harness));
            // the first one, those that waited for it, those that came after
            let waited = order.iter().take_while(|p| **p != 0);
            let after = order.iter().skip_while(|p| **p != 0).skip(1);
            let expected: Vec<u8> = [0]
                .iter()
                .chain(waited)
                .chain(after)
                .map(|p| *p as u8)
                .collect();
            assert_eq!(out, expected, "{order:?} {alone}");
            assert_eq!(numbers(&harness.events(), "probe", "n"), [1, 2, 3]);
            let report = harness.finish();
            assert_eq!((report.flows.seen, report.held), (1, 0));
        }
    }
}

#[test]
fn wait_no_longer_than_they_may_and_no_more_than_there_is_room_for() {
    let mut harness = harness(FlowOptions {
        held_fragments: 3,
        ..FlowOptions::default()
    });
    for id in 0..5 {
        harness.queue(Side::Inside, &fragment(id, 1));
    }
    assert!(harness.flush().is_empty());
    let report = harness.report();
    assert_eq!(report.held, 3);
    assert_eq!(report.drops, [("fragments_full".to_owned(), 2)]);
    assert!(report.balances());
    harness.advance_ms(31_000);
    harness.send(&Craft::udp("10.0.0.9:1", "10.0.0.8:2").build());
    assert!(
        harness
            .report()
            .drops
            .contains(&("fragment_timeout".to_owned(), 3))
    );
    harness.finish();
}

#[test]
fn pass_without_a_flow_where_none_may_wait() {
    let mut harness = harness(FlowOptions {
        held_fragments: 0,
        ..FlowOptions::default()
    });
    assert_eq!(harness.send(&fragment(1, 1)).len(), 1);
    assert_eq!(harness.counter("probe", "alone"), 1);
    harness.finish();
}

#[test]
fn of_a_flow_that_has_ended_wait_and_are_counted() {
    let mut harness = harness(FlowOptions {
        max: 1,
        ..FlowOptions::default()
    });
    harness.send(&fragment(1, 0));
    harness.send(&Craft::udp("10.0.0.9:1", "10.0.0.8:2").build()); // evicts it
    assert_eq!(harness.send(&fragment(1, 1)).len(), 0);
    let report = harness.finish();
    assert_eq!(report.drops, [("fragment_timeout".to_owned(), 1)]);
}

#[test]
fn waiting_fragments_leave_frames_for_what_they_wait_for() {
    for len in [16, 4_000] {
        let mut harness = harness(FlowOptions {
            held_fragments: 1 << 20,
            ..FlowOptions::default()
        });
        // More datagrams without a first fragment than there are frames.
        for id in 0..4_000 {
            let fragment = Craft::udp("10.0.0.1:1000", "192.0.2.1:53")
                .ip_id(id)
                .fragment(100)
                .payload(&vec![7; len])
                .build();
            assert_eq!(harness.send(&fragment).len(), 0);
        }
        let report = harness.report();
        let full: u64 = report.drops.iter().map(|(_, n)| n).sum();
        assert_eq!(report.drops, [("fragments_full".to_owned(), full)]);
        assert!(report.held > 50 && report.held + full == 4_000);
        let packet = Craft::udp("10.0.0.2:1000", "192.0.2.1:53").build();
        assert_eq!(harness.send(&packet).len(), 1);
        assert_eq!(harness.finish().held, 0);
    }
}
