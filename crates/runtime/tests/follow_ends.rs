//! Ticks: what is due ends, and the flow that a tick names.

mod common;
#[path = "common/follower.rs"]
mod follower;

use common::{PASS, Probe};
use follower::{Follower, Numbered, Part, START, UNIT, numbered, special, stage, udp, wide};
use weir_nf::host::FlowOptions;
use weir_nf::prelude::*;
use weir_packet::frame_flags as flags;
use weir_runtime::harness::{Craft, Harness};
use weir_runtime::notes::{self, Note};

#[test]
fn a_tick_ends_what_is_due_in_its_unit_and_no_more() {
    for (stage, closed) in [(stage(), 1), (wide(), 3)] {
        let mut engine = Follower::new(&stage);
        let mut due = Vec::new();
        let now = |ms: u64| Time((START + ms) * 1_000_000);
        assert_eq!(engine.engine.next_due(), None);
        engine.apply(&[
            numbered(UNIT, 1, 0, udp(1, PASS)),
            numbered(UNIT + 1, 1, 0, udp(2, PASS)),
            numbered(UNIT + 2, 1, 250_000, udp(3, PASS)),
        ]);
        engine.engine.due_units(now(299_000), 9, &mut due);
        assert!(due.is_empty());
        assert!(
            engine
                .engine
                .next_due()
                .is_some_and(|at| at > now(299_000) && at <= now(301_000))
        );
        // Nothing is due yet: an entry all the same, and the clock moves.
        let entry = engine.apply([&special(UNIT, 2, 299_000, flags::TICK)]);
        assert_eq!(entry[0].parts, [Part::Applied]);
        assert!(engine.engine.has_unit(UNIT));
        engine.engine.due_units(now(302_000), 9, &mut due);
        due.sort_unstable();
        assert_eq!(due, [UNIT, UNIT + 1]);
        due.clear();
        engine.engine.due_units(now(302_500), 9, &mut due);
        assert!(due.is_empty(), "said already");
        engine.engine.due_units(now(304_000), 1, &mut due);
        assert_eq!(
            due.len(),
            1,
            "again, as no tick came, and as many as are asked for"
        );
        // Ticks and packets in one call.
        let entries = engine.apply(&[
            numbered(UNIT + 2, 2, 304_000, udp(3, PASS)),
            special(UNIT, 3, 304_000, flags::TICK),
            numbered(UNIT + 1, 2, 200_000, udp(2, PASS)),
            special(UNIT + 1, 3, 304_000, flags::TICK),
            numbered(UNIT, 4, 304_000, udp(1, PASS)),
        ]);
        assert_eq!(entries[1].parts.last(), Some(&Part::Applied));
        let notes = entries[1].notes();
        assert!(notes[0].starts_with("FlowEnded"), "{notes:?}");
        assert_eq!(notes.len(), 1 + closed);
        assert!(
            notes[1].contains("\"timestamp\":\"2023-11-14T22:18:24.000000+0000\""),
            "{notes:?}"
        );
        assert_eq!(
            entries[3].parts,
            [Part::Applied],
            "a late packet kept it alive"
        );
        let notes = entries[4].notes();
        let opened = notes.iter().any(|note| note.contains("FlowOpened"));
        assert_eq!(opened, closed > 1, "a unit of one flow keeps its key");
        let flows = engine.engine.report().flows;
        assert_eq!((flows.active, flows.seen), (3, 4));
        assert_eq!(flows.ended, [(CloseReason::Idle, 1)]);
    }
}

#[test]
fn a_tick_ends_many_flows_bit_by_bit() {
    let options = FlowOptions {
        max: 2_000,
        ..FlowOptions::default()
    };
    let builder = Harness::builder().flows(options);
    let stage = builder.with::<Probe<1>>(()).expect("none").stage();
    let mut engine = Follower::new(&stage);
    let packets: Vec<Numbered> = (1..=1_200)
        .map(|n| numbered(UNIT, n, n, udp(n as u16, PASS)))
        .collect();
    for some in packets.chunks(100) {
        engine.apply(some);
    }
    let mut ended = Vec::new();
    for (clock, left) in [(1_201, 688), (1_202, 176), (1_203, 0), (1_204, 0)] {
        let entry = engine
            .apply([&special(UNIT, clock, 400_000, flags::TICK)])
            .remove(0);
        ended.extend(
            entry
                .notes()
                .into_iter()
                .filter(|n| n.starts_with("FlowEnded")),
        );
        assert_eq!(engine.engine.report().flows.active, left);
    }
    assert_eq!(ended.len(), 1_200);
    assert_eq!(engine.engine.report().notes_lost, 0);
    assert!(!engine.engine.has_unit(UNIT));
}

#[test]
fn a_tick_that_names_a_flow_ends_that_one_of_its_unit() {
    for stage in [stage(), wide()] {
        let mut engine = Follower::new(&stage);
        engine.apply(&[
            numbered(UNIT, 1, 0, udp(1, PASS)),
            numbered(UNIT + 1, 1, 0, udp(2, PASS)),
        ]);
        let flow = |engine: &Follower, unit: u64| {
            let mut records = 0..engine.engine.flow_records();
            let of = |r: &u32| engine.engine.unit_under_switch(*r) == Some(unit);
            let found = records.by_ref().filter(of);
            found.filter_map(|r| engine.engine.open_flow(r)).next()
        };
        let key = flow(&engine, UNIT).expect("it is open").key;
        let mut note = Vec::new();
        notes::write(&Note::FlowEnded { key }, &mut note);
        let end = |unit: u64, clock: u64| Numbered {
            bytes: note.clone(),
            ..special(unit, clock, 1, flags::TICK)
        };
        // Of another unit, damaged, and then the one.
        let damaged = Numbered {
            bytes: note[..9].to_vec(),
            ..special(UNIT, 2, 1, flags::TICK)
        };
        let entries = engine.apply(&[end(UNIT + 1, 2), damaged, end(UNIT, 3), end(UNIT, 4)]);
        let ended = |at: usize| {
            let notes = entries[at].notes();
            notes.iter().any(|note| note.starts_with("FlowEnded"))
        };
        assert_eq!([0, 1, 2, 3].map(ended), [false, false, true, false]);
        assert!(flow(&engine, UNIT).is_none() && flow(&engine, UNIT + 1).is_some());
        assert_eq!(
            engine.engine.report().flows.ended,
            [(CloseReason::Ended, 1)]
        );
    }
}

#[test]
fn the_end_of_an_engine_tells_of_every_flow() {
    let options = FlowOptions {
        max: 2_000,
        ..FlowOptions::default()
    };
    let builder = Harness::builder().flows(options);
    let stage = builder.with::<Probe<0>>(()).expect("none").stage();
    let mut engine = Follower::new(&stage);
    for n in 0..1_000 {
        engine.apply([&numbered(1 << 32 | n, 1, 0, udp(n as u16, PASS))]);
    }
    let mut closed = 0;
    let Follower { engine, pool } = &mut engine;
    engine.finish_with(pool, Time::ZERO, |log: &mut weir_nf::EventLog| {
        let lines = String::from_utf8_lossy(log.lines()).into_owned();
        closed += lines.lines().filter(|l| l.contains("\"shutdown\"")).count();
        log.clear();
    });
    assert_eq!(closed, 1_000);
    assert_eq!((engine.events().lost(), engine.active_flows()), (0, 0));
    assert!(!engine.has_unit(1 << 32));
}

/// A unit that lives elsewhere by now may have left a flow of the same key behind.
#[test]
fn a_tick_finds_the_flow_of_its_own_unit_among_those_of_one_key() {
    let builder = Harness::builder().with::<Probe<0>>(()).expect("none");
    let stage = builder.stage();
    let packet = Craft::udp("10.0.0.1:1", "192.0.2.1:53")
        .payload(&[PASS; 40])
        .build();
    for order in [[UNIT, UNIT + 1], [UNIT + 1, UNIT]] {
        let mut engine = Follower::new(&stage);
        engine.apply(&[
            numbered(UNIT, 1, 0, packet.clone()),
            numbered(UNIT + 1, 1, 0, packet.clone()),
        ]);
        let key = engine.engine.open_flow(0).expect("it is open").key;
        let mut note = Vec::new();
        notes::write(&Note::FlowEnded { key }, &mut note);
        for (unit, left) in order.into_iter().zip([1, 0]) {
            engine.apply(&[Numbered {
                flags: flags::TICK,
                ..numbered(unit, 2, 0, note.clone())
            }]);
            assert_eq!(engine.engine.active_flows(), left);
        }
    }
}
