//! The engine under a switch: what a unit's packets come to depends on those
//! packets alone, wherever they are applied, in whatever bursts, beside
//! whatever other units.

mod common;
#[path = "common/follower.rs"]
mod follower;

use std::collections::BTreeMap;

use common::{
    ALIAS, BUFFER, DROP, EMIT, EMIT_MANY, LABEL, OPEN_ALIAS, PASS, Probe, QUIET, REFUSE, TURN,
};
use follower::{Entry, Follower, Numbered, Part};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use weir_nf::host::{FlowOptions, Stage};
use weir_nf::prelude::*;
use weir_packet::frame_flags as flags;
use weir_runtime::harness::{Craft, Harness};

#[derive(Clone, Copy, Debug)]
struct Step {
    client: u8,
    server: u8,
    tcp: bool,
    back: bool,
    /// Under the client's alias.
    outside: bool,
    flags: u8,
    what: u8,
    wait_ms: u64,
    /// The call ends here.
    flush: bool,
    /// A unit moves before the call.
    moves: u8,
    kind: u8,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let what = prop_oneof![
        6 => Just(PASS), 2 => Just(DROP), 1 => Just(LABEL), 2 => Just(BUFFER),
        1 => Just(REFUSE), 1 => Just(QUIET), 1 => Just(TURN), 1 => Just(EMIT),
        1 => Just(EMIT_MANY), 3 => Just(ALIAS), 2 => Just(OPEN_ALIAS),
    ];
    let wait = prop_oneof![
        8 => Just(0u64), 4 => 0u64..2_000, 1 => 9_000u64..11_000, 1 => 230_000u64..310_000
    ];
    let who = (0u8..4, 0u8..2, any::<bool>(), any::<bool>(), any::<bool>());
    let step = (
        who,
        0u8..6,
        what,
        wait,
        prop::bool::weighted(0.2),
        0u8..8,
        0u8..30,
    );
    let step = step.prop_map(|(who, flags, what, wait_ms, flush, moves, kind)| Step {
        client: who.0,
        server: who.1,
        tcp: who.2,
        back: who.3,
        outside: who.4,
        flags,
        what,
        wait_ms,
        flush,
        moves,
        kind,
    });
    prop::collection::vec(step, 1..160)
}

impl Step {
    fn packet(&self, number: usize) -> Vec<u8> {
        let client = if self.outside {
            format!("198.51.100.{}:1000", self.client)
        } else {
            format!("10.0.0.{}:1000", self.client)
        };
        let server = format!("192.0.2.{}:80", self.server);
        let (from, to) = if self.back {
            (&server, &client)
        } else {
            (&client, &server)
        };
        let craft = if self.tcp {
            Craft::tcp(from, to).flags(["S", "R", "A", "A", "FA", "A"][usize::from(self.flags)])
        } else {
            Craft::udp(from, to)
        };
        let craft = match self.kind {
            2..4 => craft.ip_id(u16::from(self.flags % 2)).fragment(0x2000),
            4..8 => craft.ip_id(u16::from(self.flags % 2)).fragment(0x0002),
            _ => craft,
        };
        let payload = [&[self.what][..], &number.to_be_bytes()].concat();
        craft.payload(&payload).build()
    }

    /// The unit that a switch would say, more or less: what matters is that
    /// engines do as they are told.
    fn place(&self, wide: bool) -> u64 {
        if wide {
            u64::from(self.client)
        } else {
            u64::from(self.client) * 4 + u64::from(self.server) * 2 + u64::from(self.tcp)
        }
    }
}

fn numbered(steps: &[Step], wide: bool) -> Vec<Numbered> {
    let mut clocks: BTreeMap<u64, u64> = BTreeMap::new();
    let mut now = 1_700_000_000_000;
    let mut packets = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        now += step.wait_ms;
        let unit = 3 << 32 | step.place(wide);
        let clock = clocks.entry(unit).or_default();
        *clock += 1;
        let flags = match step.kind {
            0 => flags::TICK,
            1 => flags::LOST,
            8 => flags::FRESH | flags::AFTER_LOSS,
            9 => flags::REPEATED,
            _ => 0,
        };
        let no_packet = flags & (flags::TICK | flags::LOST) != 0;
        packets.push(Numbered {
            unit,
            clock: *clock,
            time_ms: now,
            flags,
            side: if step.back {
                Side::Outside
            } else {
                Side::Inside
            },
            bytes: if no_packet {
                Vec::new()
            } else {
                step.packet(number)
            },
        });
    }
    packets
}

fn stage(wide: bool) -> Stage {
    let builder = Harness::builder().flows(FlowOptions {
        max: 64,
        ..FlowOptions::default()
    });
    let builder = if wide {
        let builder = builder.with::<Probe<2>>(()).expect("none");
        builder.with::<Probe<1>>(()).expect("none")
    } else {
        builder.with::<Probe<0>>(()).expect("none")
    };
    builder.with::<Probe<0>>(()).expect("none").stage()
}

type ByUnit = BTreeMap<u64, Vec<Entry>>;

fn by_unit(entries: impl IntoIterator<Item = Entry>) -> ByUnit {
    let mut units = ByUnit::new();
    for entry in entries {
        units.entry(entry.unit).or_default().push(entry);
    }
    units
}

/// All packets through one engine, in calls that end where `ends` says.
fn alone(stage: &Stage, packets: &[Numbered], ends: impl Fn(usize) -> bool) -> (ByUnit, Follower) {
    let mut engine = Follower::new(stage);
    let mut entries = Vec::new();
    let mut from = 0;
    for to in 1..=packets.len() {
        if to == packets.len() || ends(to - 1) {
            entries.extend(engine.apply(&packets[from..to]));
            from = to;
        }
    }
    (by_unit(entries), engine)
}

/// Each unit's state, and what is known of it.
fn states(engines: &[&Follower], packets: &[Numbered]) -> BTreeMap<u64, Vec<u8>> {
    let mut states = BTreeMap::new();
    for packet in packets {
        for engine in engines {
            if let Some(bytes) = engine.export(packet.unit) {
                states.insert(packet.unit, bytes);
            }
        }
    }
    states
}

fn check_bursts(steps: &[Step], wide: bool) {
    let stage = stage(wide);
    let packets = numbered(steps, wide);
    let (single, one) = alone(&stage, &packets, |_| true);
    let (bursts, other) = alone(&stage, &packets, |i| steps[i].flush);
    assert_eq!(bursts, single, "bursts do not matter");
    assert_eq!(states(&[&other], &packets), states(&[&one], &packets));
    // Unit after unit: what else an engine has does not matter.
    for (unit, entries) in &single {
        let own: Vec<Numbered> = packets
            .iter()
            .filter(|p| p.unit == *unit)
            .cloned()
            .collect();
        let (apart, _) = alone(&stage, &own, |i| i % 3 == 0);
        assert_eq!(&apart[unit], entries, "other units do not matter");
    }
}

fn check_moves(steps: &[Step], wide: bool) {
    let stage = stage(wide);
    let packets = numbered(steps, wide);
    let (still, one) = alone(&stage, &packets, |_| true);
    let mut engines = [Follower::new(&stage), Follower::new(&stage)];
    let mut at: BTreeMap<u64, usize> = BTreeMap::new();
    let mut entries = Vec::new();
    let mut from = 0;
    for to in 1..=packets.len() {
        let step = steps[to - 1];
        if to < packets.len() && !step.flush {
            continue;
        }
        for (side, engine) in engines.iter_mut().enumerate() {
            let here = packets[from..to]
                .iter()
                .filter(|packet| at.get(&packet.unit).copied().unwrap_or(0) == side);
            entries.extend(engine.apply(here));
        }
        from = to;
        // Units of the last packets, and one that may be anywhere.
        for packet in &packets[to.saturating_sub(usize::from(step.moves))..to] {
            let place = at.entry(packet.unit).or_default();
            let [a, b] = &mut engines;
            let (here, there) = if *place == 0 { (a, b) } else { (b, a) };
            here.hand_over(packet.unit, there);
            *place = 1 - *place;
        }
    }
    assert_eq!(
        by_unit(entries),
        still,
        "where a unit lives does not matter"
    );
    let [a, b] = &mut engines;
    assert_eq!(states(&[a, b], &packets), states(&[&one], &packets));
    for engine in [a, b] {
        for packet in &packets {
            engine.engine.forget_unit(packet.unit);
        }
        let report = engine.engine.report();
        assert_eq!(
            (
                report.flows.active,
                report.flows.units,
                report.flows.aliases,
                report.flows.buffer_bytes
            ),
            (0, 0, 0, 0)
        );
    }
}

/// A copy that is kept by whole states and touches, as a replica keeps it, is
/// what the engine has; apart from counters where nothing else changed.
fn check_touches(steps: &[Step], wide: bool) {
    let stage = stage(wide);
    let packets = numbered(steps, wide);
    let mut engine = Follower::new(&stage);
    let mut copies: BTreeMap<u64, Option<Vec<u8>>> = BTreeMap::new();
    let mut second = Follower::new(&stage);
    let mut touched = 0;
    for packet in &packets {
        engine.apply([packet]);
        let unit = packet.unit;
        if engine.engine.take_changed(unit) {
            let whole = engine.export(unit);
            second.engine.forget_unit(unit);
            if let Some(bytes) = &whole {
                second
                    .engine
                    .install_unit(unit, bytes)
                    .expect("there is room");
            }
            copies.insert(unit, whole);
        } else if let Some(Some(copy)) = copies.get_mut(&unit) {
            let touch = engine.touch(unit);
            weir_runtime::Runtime::touch_snapshot(copy, &touch).expect("they fit");
            second
                .engine
                .install_touch(unit, &touch)
                .expect("it is there");
            touched += 1;
        }
        assert!(!engine.engine.take_changed(unit) && !second.engine.take_changed(unit));
        let copy = copies.get(&unit).cloned().flatten();
        assert_eq!(
            without_counters(&stage, copy.as_deref()),
            without_counters(&stage, engine.export(unit).as_deref())
        );
        assert_eq!(second.export(unit), copy);
    }
    TOUCHED.with(|all| all.set(all.get() + touched));
}

thread_local! {
    static TOUCHED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A state as it is when an engine has been given it and its counters were
/// taken off: nothing shows them but the probes' `seen`.
fn without_counters(stage: &Stage, snapshot: Option<&[u8]>) -> Option<Vec<String>> {
    let snapshot = snapshot?;
    let unit = u64::from_le_bytes(snapshot[8..16].try_into().expect("a unit"));
    let mut engine = Follower::new(stage);
    engine
        .engine
        .install_unit(unit, snapshot)
        .expect("there is room");
    let touch = engine.touch(unit);
    let tick = Numbered {
        unit,
        clock: 1 << 30,
        time_ms: 1_900_000_000_000,
        flags: flags::TICK,
        side: Side::Inside,
        bytes: Vec::new(),
    };
    // What close tells: states, ends, numbers.
    let notes = engine.apply([&tick]).remove(0).notes();
    Some(notes.into_iter().chain([format!("{touch:?}")]).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_units_entries_depend_on_its_packets_alone(steps in steps(), wide: bool) {
        check_bursts(&steps, wide);
    }

    #[test]
    fn a_unit_may_move_between_any_two_bursts(steps in steps(), wide: bool) {
        check_moves(&steps, wide);
    }
}

#[test]
fn a_copy_kept_by_touches_is_the_state() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for wide in [false, true] {
        for _ in 0..20 {
            let steps = steps().new_tree(&mut runner).expect("steps").current();
            check_touches(&steps, wide);
        }
    }
    assert!(
        TOUCHED.with(std::cell::Cell::get) > 100,
        "some packets change no state"
    );
}

#[test]
fn the_test_reaches_what_it_is_about() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for wide in [false, true] {
        for _ in 0..40 {
            let steps = steps().new_tree(&mut runner).expect("steps").current();
            let (entries, _) = alone(&stage(wide), &numbered(&steps, wide), |i| steps[i].flush);
            for part in entries.values().flatten().flat_map(|entry| &entry.parts) {
                let name = match part {
                    Part::Out(_) => "out",
                    Part::Dropped => "dropped",
                    Part::Turned(..) => "turned",
                    Part::Applied => "applied",
                    Part::Emitted(..) => "emitted",
                    Part::Notes(notes) => {
                        for note in notes {
                            let name = ["Alias", "open: true", "FlowEnded", "FlowOpened", "closed"]
                                .into_iter()
                                .find(|name| note.contains(name));
                            *seen.entry(name.unwrap_or("event")).or_default() += 1;
                        }
                        "notes"
                    }
                };
                *seen.entry(name).or_default() += 1;
            }
        }
    }
    for name in [
        "out",
        "dropped",
        "turned",
        "applied",
        "emitted",
        "notes",
        "Alias",
        "FlowEnded",
        "FlowOpened",
        "closed",
        "event",
    ] {
        assert!(
            seen.get(name).copied().unwrap_or(0) > 10,
            "{name}: {seen:?}"
        );
    }
}
