//! The engine under a switch, case by case: silence, losses, fragments, what is
//! full.

mod common;
#[path = "common/follower.rs"]
mod follower;

use common::{ALIAS, BUFFER, DROP, EMIT, EMIT_MANY, OPEN_ALIAS, PASS, QUIET, TURN};
use follower::{Follower, Numbered, Part, UNIT, count, numbered, special, stage, udp, wide};
use weir_packet::{MemoryLayout, frame_flags as flags};
use weir_runtime::SnapshotError;
use weir_runtime::harness::Craft;

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
    let (applied, dropped, lost) = {
        let entries = engine.apply_with(&packets, elsewhere.len());
        let dropped = entries
            .iter()
            .filter(|e| e.parts == [Part::Dropped])
            .count();
        let named = entries
            .iter()
            .filter(|e| e.notes().iter().any(|n| n.starts_with("Alias")));
        let lost = entries.iter().flat_map(|e| e.notes()).filter_map(|note| {
            let count = note.strip_prefix("EmitsLost { count: ")?;
            count.strip_suffix(" }")?.parse::<u64>().ok()
        });
        (named.count(), dropped, lost.sum::<u64>())
    };
    let report = engine.engine.report();
    assert_eq!(report.notes_lost, 0);
    assert_eq!(report.flows.aliases, applied as u64, "each name was told");
    assert_eq!(count(&engine, "no_frame"), dropped as u64);
    assert!(report.emits_lost > 0 && applied > 0, "{report:?}");
    assert_eq!(report.emits_lost, lost, "each is told");
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
