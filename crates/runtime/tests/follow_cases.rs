//! The engine under a switch, case by case: silence, ticks, losses, fragments,
//! leases, what is full, what is damaged.

mod common;
#[path = "common/follower.rs"]
mod follower;

use common::{ALIAS, BUFFER, DROP, EMIT, EMIT_MANY, OPEN_ALIAS, PASS, Probe, QUIET, TURN};
use follower::{Follower, Numbered, Part};
use proptest::prelude::*;
use weir_nf::host::{FlowOptions, Stage};
use weir_nf::prelude::*;
use weir_nf::{PoolId, PoolSpec, PortLease, PortSpace, Want};
use weir_packet::{MemoryLayout, frame_flags as flags};
use weir_runtime::harness::{Craft, Harness};
use weir_runtime::notes::{self, Note};
use weir_runtime::{Runtime, SnapshotError};

const START: u64 = 1_700_000_000_000;
const UNIT: u64 = 1 << 32 | 3;

fn small() -> FlowOptions {
    FlowOptions {
        max: 8,
        ..FlowOptions::default()
    }
}

fn stage() -> Stage {
    let builder = Harness::builder().flows(small());
    builder.with::<Probe<0>>(()).expect("none").stage()
}

/// Clients, and pairs of them with servers, beside flows.
fn wide() -> Stage {
    let builder = Harness::builder().flows(small());
    let builder = builder.with::<Probe<1>>(()).expect("none");
    let builder = builder.with::<Probe<2>>(()).expect("none");
    builder.with::<Probe<0>>(()).expect("none").stage()
}

fn udp(port: u16, what: u8) -> Vec<u8> {
    Craft::udp(&format!("10.0.0.1:{port}"), "192.0.2.1:53")
        .payload(&[what; 40])
        .build()
}

fn numbered(unit: u64, clock: u64, ms: u64, bytes: Vec<u8>) -> Numbered {
    Numbered {
        unit,
        clock,
        time_ms: START + ms,
        flags: 0,
        side: Side::Inside,
        bytes,
    }
}

fn special(unit: u64, clock: u64, ms: u64, flag: u8) -> Numbered {
    Numbered {
        flags: flag,
        ..numbered(unit, clock, ms, Vec::new())
    }
}

fn count(engine: &Follower, name: &str) -> u64 {
    let drops = engine.engine.report().drops;
    drops.iter().find(|(n, _)| n == name).map_or(0, |(_, n)| *n)
}

#[test]
fn what_is_applied_a_second_time_is_not_heard() {
    for stage in [stage(), wide()] {
        let whats = [
            PASS, EMIT, DROP, BUFFER, ALIAS, TURN, QUIET, OPEN_ALIAS, EMIT_MANY, 0x55,
        ];
        let mut packets: Vec<Numbered> = (1..)
            .zip(whats)
            .map(|(clock, what)| numbered(UNIT, clock, clock * 1_000, udp(1, what)))
            .collect();
        // A malformed one, a flow that ends and begins, and a tick that ends it.
        packets.push(numbered(UNIT, 11, 12_000, udp(1, 0)[..20].to_vec()));
        packets.push(numbered(UNIT, 12, 400_000, udp(1, PASS)));
        packets.push(special(UNIT, 13, 500_000, flags::LOST));
        let silent = |packet: &Numbered| Numbered {
            flags: packet.flags | flags::NO_OUTPUT,
            ..packet.clone()
        };
        let (mut loud, mut quiet) = (Follower::new(&stage), Follower::new(&stage));
        let entries = loud.apply(&packets);
        assert!(entries.iter().any(|entry| entry.parts.len() > 1));
        let before = quiet.engine.report();
        let copies: Vec<Numbered> = packets.iter().map(silent).collect();
        assert_eq!(quiet.apply(&copies), []);
        assert_eq!(quiet.export(UNIT), loud.export(UNIT));
        assert!(quiet.engine.take_changed(UNIT));
        let mut after = quiet.engine.report();
        assert_eq!(
            (after.flows.active, after.flows.buffer_bytes > 0),
            (1, false)
        );
        assert_eq!(after.flows.aliases, loud.engine.report().flows.aliases);
        assert_eq!(after.packets_in, 0);
        after.flows = before.flows.clone();
        after.engine_cycles = before.engine_cycles;
        for (function, old) in after.functions.iter_mut().zip(&before.functions) {
            function.cycles = old.cycles;
        }
        assert_eq!(after, before, "nothing was counted");
        // A tick that nobody hears.
        let tick = special(UNIT, 14, 900_000, flags::TICK | flags::NO_OUTPUT);
        assert_eq!(quiet.apply([&tick]), []);
        assert!(!quiet.engine.has_unit(UNIT) && quiet.engine.take_changed(UNIT));
        assert_eq!(quiet.engine.report().flows.ended, []);
        // Loud and silent ones in one call are told apart.
        let both = [
            silent(&numbered(UNIT + 1, 1, 0, udp(2, PASS))),
            numbered(UNIT + 1, 2, 0, udp(2, PASS)),
            silent(&numbered(UNIT + 1, 3, 0, udp(2, PASS))),
        ];
        assert_eq!(quiet.apply(&both).len(), 1);
        assert_eq!(quiet.engine.report().packets_in, 1);
    }
}

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
        assert_eq!(flows.ended, [("timeout", 1)]);
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
        assert_eq!(engine.engine.report().flows.ended, [("ended", 1)]);
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

#[test]
fn a_lost_packet_moves_the_clock_alone() {
    for stage in [stage(), wide()] {
        let mut engine = Follower::new(&stage);
        engine.apply([&numbered(UNIT, 1, 0, udp(1, PASS))]);
        assert!(engine.engine.take_changed(UNIT));
        let before = engine.touch(UNIT);
        let lost = special(UNIT, 2, 999_999_999, flags::LOST);
        assert_eq!(engine.apply([&lost])[0].parts, [Part::Applied]);
        assert!(!engine.engine.take_changed(UNIT));
        let differing = before
            .iter()
            .zip(engine.touch(UNIT))
            .filter(|(a, b)| **a != *b)
            .count();
        assert_eq!(differing, 1, "one byte of one clock");
        // One of a unit that is not here makes none.
        engine.apply([
            &special(UNIT + 1, 1, 0, flags::LOST),
            &special(UNIT + 1, 2, 0, flags::TICK),
        ]);
        assert!(!engine.engine.has_unit(UNIT + 1) && engine.export(UNIT + 1).is_none());
    }
}

#[test]
fn later_fragments_find_their_flow_after_a_move() {
    let datagram = |id: u16, part: u16| {
        let craft = Craft::udp("10.0.0.1:1", "192.0.2.1:53").ip_id(id);
        craft.fragment(part).payload(&[PASS; 16]).build()
    };
    let (first, later) = (0x2000, 0x0003);
    for stage in [stage(), wide()] {
        let (mut a, mut b) = (Follower::new(&stage), Follower::new(&stage));
        a.apply(&[
            numbered(UNIT, 1, 0, datagram(7, first)),
            numbered(UNIT, 2, 1, datagram(8, first)),
            numbered(UNIT, 3, 2, datagram(7, later)),
        ]);
        assert_eq!(a.engine.report().fragments_alone, 0);
        assert!(a.engine.take_changed(UNIT));
        assert!(a.hand_over(UNIT, &mut b));
        let entries = b.apply(&[
            numbered(UNIT, 4, 3, datagram(8, later)),
            numbered(UNIT, 5, 4, datagram(9, later)),
            numbered(UNIT, 6, 40_000, datagram(8, later)),
        ]);
        let is_alone = |n: usize| {
            entries[n]
                .notes()
                .iter()
                .any(|note| note.contains("\"alone\""))
        };
        assert_eq!([0, 1, 2].map(is_alone), [false, true, true]);
        assert_eq!(b.engine.report().fragments_alone, 2);
        // What is remembered goes with the flow.
        let packets = [
            numbered(UNIT, 7, 400_000, datagram(10, first)),
            numbered(UNIT, 8, 400_000, datagram(8, later)),
            special(UNIT, 9, 800_000, flags::TICK),
            numbered(UNIT, 10, 800_000, datagram(10, later)),
        ];
        b.apply(&packets);
        assert!(!b.engine.has_unit(UNIT));
    }
}

#[test]
fn packets_without_a_flow_have_entries_in_the_liaison_unit() {
    let mut engine = Follower::new(&stage());
    let liaison = 1 << 32 | 8;
    let arp = [&[0xff; 12][..], &[8, 6], &[0; 28]].concat();
    let entries = engine.apply(&[
        numbered(liaison, 1, 0, arp.clone()),
        numbered(UNIT, 1, 0, udp(1, PASS)),
        numbered(liaison, 2, 0, arp.clone()),
    ]);
    assert_eq!(entries[0].parts.last(), Some(&Part::Out(arp)));
    assert_eq!(entries[2].notes().len(), 1);
    assert!(!engine.engine.has_unit(liaison) && !engine.engine.take_changed(liaison));
    let mut none = Vec::new();
    assert_eq!(
        engine.engine.export_unit(liaison, &mut none),
        Err(SnapshotError::NoFlow)
    );
    assert!(none.is_empty() && engine.touch(liaison).is_empty());
}

#[test]
fn a_later_life_in_a_place_is_another_unit() {
    for stage in [stage(), wide()] {
        let mut engine = Follower::new(&stage);
        engine.apply([&numbered(UNIT, 1, 0, udp(1, BUFFER))]);
        let old = engine.export(UNIT).expect("it is there");
        let next = UNIT + (1 << 32);
        // The old life was ended elsewhere.
        let entries = engine.apply([&numbered(next, 1, 10, udp(1, PASS))]);
        assert!(
            entries[0]
                .notes()
                .iter()
                .all(|note| !note.contains("closed"))
        );
        assert!(engine.engine.has_unit(next) && !engine.engine.has_unit(UNIT));
        assert_eq!(engine.engine.report().flows.active, 1);
        // Packets and states of the old one come too late.
        let entries = engine.apply([&numbered(UNIT, 2, 20, udp(1, PASS))]);
        assert_eq!(entries[0].parts, [Part::Dropped]);
        assert_eq!(count(&engine, "no_such_unit"), 1);
        assert_eq!(
            engine.engine.install_unit(UNIT, &old),
            Err(SnapshotError::Exists)
        );
        // No place, no unit.
        for unit in [0, 9, 1 << 32 | 9, u64::MAX] {
            let entries = engine.apply([&numbered(unit, 1, 20, udp(4, PASS))]);
            assert_eq!(entries[0].parts, [Part::Dropped]);
            assert!(!engine.engine.has_unit(unit));
        }
        assert_eq!(count(&engine, "no_such_unit"), 5);
    }
}

#[test]
fn two_units_may_have_one_key_for_a_while() {
    let mut engine = Follower::new(&stage());
    let other = 5 << 32 | 1;
    let entries = engine.apply(&[
        numbered(UNIT, 1, 0, udp(1, ALIAS)),
        numbered(other, 1, 0, udp(1, ALIAS)),
        numbered(UNIT, 2, 0, udp(1, PASS)),
        numbered(other, 2, 0, udp(1, PASS)),
        numbered(other, 3, 0, udp(1, PASS)),
    ]);
    let clocks: Vec<u64> = entries
        .iter()
        .map(|entry| common::numbers(&entry.notes(), "probe", "n")[0])
        .collect();
    assert_eq!(clocks, [1, 1, 2, 2, 3]);
    assert!(engine.engine.forget_unit(UNIT));
    let entries = engine.apply([&numbered(other, 4, 0, udp(1, PASS))]);
    assert_eq!(common::numbers(&entries[0].notes(), "probe", "n"), [4]);
    assert_eq!(engine.engine.report().flows.aliases, 1);
}

#[test]
fn a_full_table_drops_with_an_entry() {
    let mut engine = Follower::new(&stage());
    let packets: Vec<Numbered> = (0..9)
        .map(|n| numbered(1 << 32 | n, 1, n * 400_000, udp(n as u16, PASS)))
        .collect();
    let entries = engine.apply(&packets);
    assert_eq!(
        entries[8].parts,
        [Part::Dropped],
        "idle or not, no other unit makes room"
    );
    assert_eq!(count(&engine, "flow_table_full"), 1);
    let bytes = engine.export(1 << 32).expect("it is there");
    let mut other = Follower::new(&stage());
    other.apply(&packets[1..]);
    assert_eq!(
        other.engine.install_unit(1 << 32, &bytes),
        Err(SnapshotError::Full)
    );
    assert!(!other.engine.has_unit(1 << 32));
    assert!(other.engine.forget_unit(1 << 32 | 5));
    assert_eq!(other.engine.install_unit(1 << 32, &bytes), Ok(()));
    assert_eq!(
        other.engine.install_unit(1 << 32, &bytes),
        Err(SnapshotError::Exists)
    );
    assert_eq!(
        other.engine.install_unit(1 << 32 | 5, &bytes),
        Err(SnapshotError::Corrupt)
    );
}

#[test]
fn a_flow_after_a_loss_is_marked() {
    for stage in [stage(), wide()] {
        let (mut a, mut b) = (Follower::new(&stage), Follower::new(&stage));
        let mut packet = numbered(UNIT, 41, 0, udp(1, PASS));
        packet.flags = flags::FRESH | flags::AFTER_LOSS;
        let entry = a.apply([&packet]).remove(0);
        assert_eq!(common::numbers(&entry.notes(), "probe", "after_loss"), [1]);
        a.hand_over(UNIT, &mut b);
        let entry = b.apply([&numbered(UNIT, 42, 0, udp(1, PASS))]).remove(0);
        assert_eq!(common::numbers(&entry.notes(), "probe", "after_loss"), [1]);
        let entry = b.apply([&numbered(UNIT + 1, 1, 0, udp(2, PASS))]).remove(0);
        assert_eq!(common::numbers(&entry.notes(), "probe", "after_loss"), [0]);
    }
}

#[test]
fn what_must_not_be_lost_has_a_frame_or_the_packet_is_not_applied() {
    let layout = MemoryLayout {
        small_frames: 70,
        large_frames: 1,
        ..MemoryLayout::default()
    };
    let mut engine = Follower::with_memory(&stage(), layout);
    // So many wait elsewhere that a burst of these has too few for its notes.
    let mut elsewhere: Vec<_> = (0..60)
        .map(|_| engine.pool.take(10).expect("a frame"))
        .collect();
    let packets: Vec<Numbered> = (0..8)
        .map(|n| {
            numbered(
                1 << 32 | n,
                1,
                0,
                udp(n as u16, if n % 2 == 0 { ALIAS } else { EMIT_MANY }),
            )
        })
        .collect();
    let (applied, dropped) = {
        let entries = engine.apply_with(&packets, elsewhere.len());
        let dropped = entries
            .iter()
            .filter(|e| e.parts == [Part::Dropped])
            .count();
        let named = entries
            .iter()
            .filter(|e| e.notes().iter().any(|n| n.starts_with("Alias")));
        (named.count(), dropped)
    };
    let report = engine.engine.report();
    assert_eq!(report.notes_lost, 0);
    assert_eq!(report.flows.aliases, applied as u64, "each name was told");
    assert_eq!(count(&engine, "no_frame"), dropped as u64);
    assert!(report.emits_lost > 0 && applied > 0, "{report:?}");
    // None at all.
    while let Ok(frame) = engine.pool.take(10) {
        elsewhere.push(frame);
        if engine.pool.available() == 1 {
            break;
        }
    }
    let entries = engine.apply_with(&[numbered(UNIT, 1, 0, udp(99, ALIAS))], elsewhere.len());
    assert_eq!(entries[0].parts, [Part::Dropped]);
    assert!(!engine.engine.has_unit(UNIT));
    assert_eq!(count(&engine, "no_frame"), dropped as u64 + 1);
    let entries = engine.apply_with(
        &[special(1 << 32, 2, 900_000, flags::TICK)],
        elsewhere.len(),
    );
    assert_eq!(entries[0].parts, [Part::Applied]);
    assert_eq!(engine.engine.report().ticks_lost, 1);
    assert!(engine.engine.has_unit(1 << 32), "it is due again");
    engine.pool.give_all(&mut elsewhere);
    let entries = engine.apply([&special(1 << 32, 3, 900_000, flags::TICK)]);
    assert!(entries[0].notes()[0].starts_with("FlowEnded"));
}

#[test]
fn one_packet_may_not_ask_for_the_share_of_others() {
    let mut engine = Follower::new(&stage());
    let greedy: Vec<Numbered> = (1..=64)
        .map(|n| numbered(UNIT, n, 0, udp(1, EMIT_MANY)))
        .collect();
    for entry in engine.apply(&greedy) {
        let emitted = entry
            .parts
            .iter()
            .filter(|p| matches!(p, Part::Emitted(..)))
            .count();
        assert_eq!(emitted, 3);
    }
    assert_eq!(engine.engine.report().emits_lost, 0);
}

#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Port(u16);

impl State for Port {}

/// Takes a port for each flow and gives it back.
#[derive(Debug)]
struct Lessee(PoolId);

impl NetworkFunction for Lessee {
    type Settings = ();
    type State = Port;
    type Stats = ();
    type FlowState = ();
    const DESCRIPTOR: Descriptor = Descriptor {
        needs: Needs::Flow,
        shares: true,
        drops: &["none_left"],
        ..Descriptor::new("lessee", "Takes a port")
    };

    fn new(_: (), set_up: &mut SetUp<'_>) -> Result<Self, SettingsError> {
        let spec = PoolSpec {
            addresses: vec!["198.51.100.1".parse().expect("an address")],
            first: 1_024,
            last: u16::MAX,
            block: 64,
        };
        Ok(Lessee(set_up.lease("pool", spec)?))
    }

    fn open(
        &self,
        _: &Packet<'_>,
        _: &FlowInfo<'_>,
        cx: &mut Context<'_>,
    ) -> Result<Port, DropReason> {
        let lease = cx.leases.take(self.0, 0, PortSpace::Udp, Want::default());
        lease.map(|lease| Port(lease.port)).ok_or(DropReason(0))
    }

    fn process(
        &self,
        _: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        let (info, port) = (flow.info, flow.state.0);
        cx.event("port", &info).number("port", u64::from(port));
        Verdict::Pass
    }

    fn close(&self, flow: &mut Flow<'_, Self>, _: CloseReason, cx: &mut Context<'_>) {
        let lease = PortLease {
            address: 0,
            port: flow.state.0,
            space: PortSpace::Udp,
        };
        cx.leases.give(self.0, lease);
    }
}

#[test]
fn leases_are_granted_told_and_freed_by_the_switch() {
    let builder = Harness::builder().flows(small());
    let stage = builder.with::<Lessee>(()).expect("none").stage();
    let mut owner = Follower::new(&stage);
    assert!(!owner.engine.is_replayable());
    assert!(Follower::new(&wide()).engine.is_replayable());
    let pool = PoolId(0);
    assert!(owner.engine.leases().is_low(pool));
    let entries = owner.apply([&numbered(UNIT, 1, 0, udp(1, PASS))]);
    assert_eq!(entries[0].parts, [Part::Dropped], "nothing was granted");
    owner.engine.leases_mut().grant(pool, 0, 100);
    assert!(!owner.engine.leases().is_low(pool));
    let packets: Vec<Numbered> = (0..4)
        .map(|n| numbered(1 << 32 | (n + 4), 2, 0, udp(n as u16, PASS)))
        .collect();
    let entries = owner.apply(&packets);
    let ports: Vec<u64> = entries
        .iter()
        .map(|entry| {
            let notes = entry.notes();
            let port = common::numbers(&notes, "port", "port")[0];
            assert!(notes[0].starts_with("Leased") && notes[0].contains(&format!("port: {port}")));
            assert!((6_400..6_464).contains(&port));
            port
        })
        .collect();
    // A second engine, fed in another order, is told what the first took.
    let mut reference = Follower::new(&stage);
    for number in [2, 0, 3, 1] {
        let lease = PortLease {
            address: 0,
            port: ports[number] as u16,
            space: PortSpace::Udp,
        };
        reference.engine.leases_mut().script(pool, lease);
        assert_eq!(
            reference.apply([&packets[number]]),
            [entries[number].clone()]
        );
        assert_eq!(reference.engine.leases().scripted(), 0);
    }
    // The end of the flow frees nothing; the switch's word does.
    assert_eq!(owner.engine.leases().leased(), 4);
    owner.apply([&special(1 << 32 | 4, 3, 400_000, flags::TICK)]);
    assert_eq!(owner.engine.leases().leased(), 4);
    let lease = PortLease {
        address: 0,
        port: ports[0] as u16,
        space: PortSpace::Udp,
    };
    owner.engine.leases_mut().free(pool, lease);
    assert_eq!(owner.engine.leases().leased(), 3);
}

#[test]
fn names_are_read_from_a_snapshot() {
    let mut engine = Follower::new(&wide());
    let mut packets = vec![
        numbered(UNIT, 1, 0, udp(1, ALIAS)),
        numbered(UNIT, 2, 0, udp(2, OPEN_ALIAS)),
    ];
    let back = Craft::udp("192.0.2.9:7", "198.51.100.1:2")
        .payload(&[PASS])
        .build();
    packets.push(Numbered {
        side: Side::Outside,
        ..numbered(UNIT, 3, 0, back)
    });
    let entries = engine.apply(&packets);
    let told = |entry: usize| {
        let notes = entries[entry].notes();
        notes
            .into_iter()
            .filter(|n| n.starts_with("Alias"))
            .collect::<Vec<_>>()
    };
    let bytes = engine.export(UNIT).expect("it is there");
    let (flows, aliases) = engine.engine.read_names(&bytes).expect("it is whole");
    assert_eq!(flows.len(), 3);
    let client: std::net::IpAddr = "10.0.0.1".parse().expect("an address");
    let scope = engine.engine.read_scope_key(&bytes).expect("it is whole");
    let scope = scope.expect("the unit is a client's");
    let ends = [scope.a(), scope.b()];
    assert!(ends.contains(&(client, 0)), "{scope}");
    assert!(ends.contains(&([0, 0, 0, 0].into(), 0)), "{scope}");
    for (key, client_is_b) in &flows[..2] {
        assert_eq!((if *client_is_b { key.b() } else { key.a() }).0, client);
    }
    assert_eq!(aliases.len(), 2);
    let alias = aliases
        .iter()
        .find(|(_, alias)| !alias.open)
        .expect("there is one");
    let open = aliases
        .iter()
        .find(|(_, alias)| alias.open)
        .expect("there is one");
    assert_eq!(alias.0, flows[0].0);
    assert!(
        told(0)[0].contains(&format!("{:?}", alias.1)),
        "{:?}",
        told(0)
    );
    assert!(
        told(1)[0].contains(&format!("{:?}", open.1)),
        "{:?}",
        told(1)
    );
    assert!(flows.iter().any(|(key, _)| *key == open.0));
    assert!(told(2).is_empty(), "it came through the open one");
    let mut other = Follower::new(&stage());
    assert!(matches!(
        other.engine.read_names(&bytes),
        Err(SnapshotError::Layout(_))
    ));
    assert!(matches!(
        other.engine.read_scope_key(&bytes),
        Err(SnapshotError::Layout(_))
    ));
    other.apply([&numbered(UNIT, 1, 0, udp(1, PASS))]);
    let bytes = other.export(UNIT).expect("it is there");
    assert_eq!(other.engine.read_scope_key(&bytes), Ok(None));
}

#[test]
fn touches_fit_their_unit_only() {
    let mut engine = Follower::new(&wide());
    engine.apply(&[
        numbered(UNIT, 1, 0, udp(1, PASS)),
        numbered(UNIT + 1, 1, 0, udp(1, PASS)),
    ]);
    let (mut bytes, touch) = (
        engine.export(UNIT).expect("it is there"),
        engine.touch(UNIT),
    );
    let before = bytes.clone();
    let others = engine.touch(UNIT + 1);
    assert_eq!(
        Runtime::touch_snapshot(&mut bytes, &others),
        Err(SnapshotError::Corrupt)
    );
    assert_eq!(
        engine.engine.install_touch(UNIT, &others),
        Err(SnapshotError::Corrupt)
    );
    assert_eq!(
        engine.engine.install_touch(UNIT + 2, &touch),
        Err(SnapshotError::NoFlow)
    );
    for len in 0..touch.len() {
        assert!(Runtime::touch_snapshot(&mut bytes, &touch[..len]).is_err());
        assert!(engine.engine.install_touch(UNIT, &touch[..len]).is_err());
    }
    assert_eq!(
        (&bytes, engine.export(UNIT).as_ref()),
        (&before, Some(&before))
    );
    // Another life of the same flow in the same unit.
    engine.apply([&numbered(UNIT, 2, 400_000, udp(1, PASS))]);
    let later = engine.touch(UNIT);
    assert_eq!(later.len(), touch.len());
    assert_eq!(
        Runtime::touch_snapshot(&mut bytes, &later),
        Err(SnapshotError::Corrupt)
    );
    assert_eq!(
        engine.engine.install_touch(UNIT, &touch),
        Err(SnapshotError::Corrupt)
    );
}

#[test]
fn an_engine_that_is_alone_takes_no_units_snapshot() {
    let mut engine = Follower::new(&stage());
    engine.apply([&numbered(UNIT, 1, 0, udp(1, PASS))]);
    let bytes = engine.export(UNIT).expect("it is there");
    let mut alone = Harness::of_stage(&stage());
    let refused =
        |result: Result<(), SnapshotError>| matches!(result, Err(SnapshotError::Layout(_)));
    assert!(refused(alone.runtime().install(&bytes)));
    assert!(refused(alone.runtime().install_unit(UNIT, &bytes)));
    alone.send(&udp(1, PASS));
    let key = engine.engine.read_names(&bytes).expect("it is whole").0[0].0;
    let own = alone.runtime().export(&key).expect("it is there");
    assert!(engine.engine.install_unit(0, &own).is_err());
    assert!(refused(engine.engine.install(&own)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever comes is refused or installed, and leaves nothing behind.
    #[test]
    fn damaged_snapshots_and_touches_are_refused(
        at in 0usize..4_000,
        bit in 0u8..8,
        cut in prop::option::of(0usize..4_000),
        wide_one: bool,
    ) {
        let stage = if wide_one { wide() } else { stage() };
        let mut engine = Follower::new(&stage);
        engine.apply(&[
            numbered(UNIT, 1, 0, udp(1, ALIAS)),
            numbered(UNIT, 2, 0, udp(1, BUFFER)),
            numbered(UNIT, 3, 0, udp(1, OPEN_ALIAS)),
        ]);
        let (mut bytes, mut touch) = (engine.export(UNIT).unwrap(), engine.touch(UNIT));
        let whole = bytes.clone();
        for bytes in [&mut bytes, &mut touch] {
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            if let Some(cut) = cut {
                bytes.truncate(cut);
            }
        }
        let mut other = Follower::new(&stage);
        let _ = other.engine.read_names(&bytes);
        let _ = Runtime::touch_snapshot(&mut whole.clone(), &touch);
        let _ = engine.engine.install_touch(UNIT, &touch);
        if other.engine.install_unit(UNIT, &bytes).is_ok() {
            other.apply(&[
                numbered(UNIT, 4, 0, udp(1, BUFFER)),
                special(UNIT, 5, 900_000_000, flags::TICK),
            ]);
            other.engine.forget_unit(UNIT);
        }
        let flows = other.engine.report().flows;
        prop_assert_eq!((flows.active, flows.units, flows.aliases, flows.buffer_bytes), (0, 0, 0, 0));
        prop_assert!(other.engine.install_unit(UNIT, &whole).is_ok());
        prop_assert_eq!(other.export(UNIT), Some(whole));
    }
}

/// Writes what the payload says over its state, whether it is that already.
#[derive(Debug)]
struct Writer;

impl NetworkFunction for Writer {
    type Settings = ();
    type State = Port;
    type Stats = [u64; 1];
    type FlowState = ();
    const DESCRIPTOR: Descriptor = Descriptor {
        needs: Needs::Flow,
        buffers: 1,
        buffer_bytes: 64,
        ..Descriptor::new("writer", "Writes its state")
    };

    fn new(_: (), _: &mut SetUp<'_>) -> Result<Self, SettingsError> {
        Ok(Writer)
    }

    fn open(
        &self,
        _: &Packet<'_>,
        _: &FlowInfo<'_>,
        _: &mut Context<'_>,
    ) -> Result<Port, DropReason> {
        Ok(Port(0))
    }

    fn process(
        &self,
        packet: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        flow.stats[0] += 1;
        let what = packet.payload().first().copied().unwrap_or(0);
        if what < 100 {
            flow.state.0 = u16::from(what);
        } else if let Some(mut buffer) = flow.buffer(0, cx) {
            let _ = buffer.resize(usize::from(what - 100));
        }
        Verdict::Pass
    }
}

#[test]
fn a_state_written_with_what_it_was_has_not_changed() {
    let builder = Harness::builder().flows(small());
    let stage = builder.with::<Writer>(()).expect("none").stage();
    let mut engine = Follower::new(&stage);
    let whats = [5, 5, 5, 6, 6, 5, 110, 110, 111, 5, 6];
    let changed: Vec<bool> = (1..)
        .zip(whats)
        .map(|(clock, what)| {
            engine.apply([&numbered(UNIT, clock, 0, udp(1, what))]);
            engine.engine.take_changed(UNIT)
        })
        .collect();
    // The second one only says what the state is from then on.
    let expected = [
        true, true, false, true, false, true, true, false, true, false, true,
    ];
    assert_eq!(changed, expected);
    assert!(!engine.engine.take_changed(UNIT));
}

fn to(server: &str, what: u8) -> Vec<u8> {
    Craft::udp("10.0.0.1:1", &format!("{server}:53"))
        .payload(&[what; 40])
        .build()
}

#[test]
fn an_open_alias_that_goes_before_its_unit_is_noted() {
    let by_client = Harness::builder().flows(small());
    let by_client = by_client.with::<Probe<1>>(()).expect("none").stage();
    // The pair's record ends and the client's unit lives on; where there is
    // none but the client's, the unit may still begin anew.
    for (stage, lives) in [(wide(), true), (by_client, false)] {
        let (mut engine, mut quiet) = (Follower::new(&stage), Follower::new(&stage));
        let mut packets = vec![numbered(UNIT, 1, 0, to("192.0.2.1", OPEN_ALIAS))];
        if lives {
            packets.push(numbered(UNIT, 2, 200_000, to("192.0.2.2", PASS)));
        }
        packets.push(special(UNIT, 3, 400_000, flags::TICK));
        let entries = engine.apply(&packets);
        let name = |notes: Vec<String>, kind: &str| {
            let note = notes.into_iter().find(|note| note.starts_with(kind));
            note.unwrap_or_default()
        };
        let alias = name(entries[0].notes(), "Alias ");
        let notes = entries.last().expect("there is one").notes();
        let ends: Vec<&str> = notes
            .iter()
            .filter_map(|note| note.split(' ').next())
            .filter(|kind| kind.ends_with("Ended"))
            .collect();
        assert_eq!(ends, ["FlowEnded", "AliasEnded"], "{notes:?}");
        let key = name(notes, "AliasEnded");
        let key = key.split_once("key: ").map_or("", |(_, key)| key);
        let key = key.trim_end_matches(" }");
        assert!(!key.is_empty() && alias.contains(key), "{alias} {key}");
        assert_eq!(engine.engine.has_unit(UNIT), lives);
        assert_eq!(engine.engine.report().flows.aliases, 0);
        // Applied again, the same goes unheard.
        for packet in &mut packets {
            packet.flags |= flags::NO_OUTPUT;
        }
        assert_eq!(quiet.apply(&packets), []);
        assert_eq!(quiet.export(UNIT), engine.export(UNIT));
        assert_eq!(quiet.engine.report().flows.aliases, 0);
    }
}

#[test]
fn a_flow_opened_in_a_wide_unit_that_is_known_is_noted() {
    // The end of a flow that a tick brings about may reach the switch after
    // the packet that opens it again.
    for (stage, wide) in [(wide(), true), (stage(), false)] {
        let mut engine = Follower::new(&stage);
        let mut packets = vec![
            numbered(UNIT, 1, 0, udp(1, PASS)),
            numbered(UNIT, 2, 1, udp(1, PASS)),
            special(UNIT, 3, 400_000, flags::TICK),
            numbered(UNIT, 4, 400_000, udp(1, PASS)),
            numbered(UNIT, 5, 400_001, udp(1, PASS)),
        ];
        if wide {
            packets.push(numbered(UNIT, 6, 400_002, udp(2, PASS)));
        }
        let entries = engine.apply(&packets);
        let opened: Vec<u64> = entries
            .iter()
            .filter(|entry| entry.notes().iter().any(|n| n.starts_with("FlowOpened")))
            .map(|entry| entry.clock)
            .collect();
        assert_eq!(opened, if wide { vec![4, 6] } else { vec![] });
    }
}
