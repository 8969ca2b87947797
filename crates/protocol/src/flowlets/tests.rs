use weir_packet::{Time, no_advice};

use super::*;

const MS: u64 = 1_000_000;

fn flowlets(settings: FlowletSettings) -> Flowlets {
    let mut flowlets = Flowlets::new(settings, 64, 7, no_advice).unwrap();
    (1..=8).for_each(|slot| flowlets.admit(slot));
    flowlets
}

/// A packet of a unit, as the switch treats it; gives whether it began a flowlet.
fn packet(flowlets: &mut Flowlets, place: u32, at: u64, bytes: u32, slot: Slot) -> bool {
    let now = Time(at);
    flowlets.advance(now);
    let begins = flowlets.begins(place, now, bytes);
    if begins {
        flowlets.end(place);
        flowlets.begin(place, now, slot);
    }
    flowlets.count(place, now, slot, bytes);
    begins
}

/// Looks after all that are quiet.
fn look(flowlets: &mut Flowlets, now: Time) {
    while flowlets.due(now).is_some() {}
}

#[test]
fn gaps_and_sizes_cut() {
    let mut flowlets = flowlets(FlowletSettings::default());
    let at = |us: u64| 10 * MS + us * 1_000;
    assert!(packet(&mut flowlets, 3, at(0), 1_500, 1));
    // Nine more fit into 15,000 bytes, 499 µs after one another.
    for n in 1..10 {
        assert!(!packet(&mut flowlets, 3, at(n * 499), 1_500, 1));
    }
    assert!(packet(&mut flowlets, 3, at(10 * 499), 1_500, 1), "by size");
    assert!(!packet(&mut flowlets, 3, at(10 * 499 + 499), 60, 1));
    assert!(
        packet(&mut flowlets, 3, at(11 * 499 + 500), 60, 1),
        "by gap"
    );
}

#[test]
fn rates_are_averages_first_and_then_the_units_own() {
    let mut flowlets = flowlets(FlowletSettings {
        copies: 0,
        ..FlowletSettings::default()
    });
    let mut after_gap = |place, at, bytes| {
        look(&mut flowlets, Time(at));
        packet(&mut flowlets, place, at, bytes, 1);
        [1, 2].map(|place| flowlets.demand(place))
    };
    // 1,000 bytes in one packet: over one gap.
    assert_eq!(after_gap(1, MS, 1_000), [0, 0]);
    assert_eq!(after_gap(1, 3 * MS, 3_000), [2_000_000, 2_000_000]);
    // Half of 2 MB/s and 6 MB/s. What others bring later says nothing of a new one.
    assert_eq!(after_gap(1, 5 * MS, 60), [4_000_000, 2_000_000]);
    assert_eq!(after_gap(3, 6 * MS, 3_000)[1], 2_000_000);
    assert_eq!(after_gap(3, 8 * MS, 60)[1], 4_000_000);
}

#[test]
fn a_flowlet_that_is_not_over_raises_the_estimate_at_once() {
    let mut flowlets = flowlets(FlowletSettings::default());
    packet(&mut flowlets, 1, 10 * MS, 1_000, 1);
    look(&mut flowlets, Time(11 * MS));
    for n in 0..11 {
        packet(&mut flowlets, 1, 12 * MS + n * 1_000, 1_500, 1);
    }
    // 15,000 bytes within 9 µs and a gap; 2 MB/s before.
    assert_eq!(flowlets.demand(1), 29_469_548);
}

/// So many bytes per second come to a runtime, as measured.
fn measured(flowlets: &mut Flowlets, slot: Slot, rate: u32) {
    // One bucket of 500 µs was filled so far.
    flowlets.loads.count(slot, rate / 2_000);
}

/// With runtimes that do 100 MB/s, at a first instant.
fn at_first(target: u32, gap: u64) -> Flowlets {
    let mut flowlets = flowlets(FlowletSettings {
        capacity: 100_000_000,
        target,
        gap,
        ..FlowletSettings::default()
    });
    flowlets.advance(Time(10 * MS));
    flowlets
}

/// A gap so short that a bucket of the measurement has several.
const GAP: u64 = 100_000;

/// A flowlet of one packet is over: 10 MB/s.
fn one_packet(flowlets: &mut Flowlets, place: u32, slot: Slot) {
    packet(flowlets, place, 10 * MS, 1_000, slot);
    let now = Time(10 * MS + 2 * GAP);
    flowlets.advance(now);
    look(flowlets, now);
    flowlets.end(place);
}

#[track_caller]
fn picks(flowlets: &mut Flowlets, place: u32, holder: Slot, slot: Slot, has_state: bool) {
    let pick = flowlets.pick(place, &[1, 2, 3], [holder, 0]);
    assert_eq!(pick, Some(Pick { slot, has_state }));
}

#[test]
fn the_fullest_with_room_wins_unless_the_state_is_elsewhere() {
    let mut flowlets = at_first(100, GAP);
    measured(&mut flowlets, 1, 95_000_000);
    measured(&mut flowlets, 2, 60_000_000);
    measured(&mut flowlets, 3, 40_000_000);
    // A demand of 10 MB/s does not fit into the first.
    one_packet(&mut flowlets, 1, 8);
    picks(&mut flowlets, 1, 8, 2, false);
    // 40 % and α = 25 % are more than 60 %.
    picks(&mut flowlets, 1, 3, 3, true);
    measured(&mut flowlets, 2, 6_000_000);
    picks(&mut flowlets, 1, 3, 2, false);
    // No one has room: the least loaded one, and by α sooner one that has the state.
    measured(&mut flowlets, 2, 28_000_000);
    measured(&mut flowlets, 3, 57_000_000);
    picks(&mut flowlets, 1, 8, 2, false);
    picks(&mut flowlets, 1, 3, 3, true);
    assert_eq!(flowlets.counts().get(FlowletCount::Overfull), 2);
    assert_eq!(flowlets.pick(1, &[], [0, 0]), None);
    assert_eq!(flowlets.counts().get(FlowletCount::Overfull), 2);
}

#[test]
fn room_above_the_target_is_for_those_whose_state_is_there() {
    let mut flowlets = at_first(80, GAP);
    measured(&mut flowlets, 1, 75_000_000);
    measured(&mut flowlets, 2, 69_000_000);
    measured(&mut flowlets, 3, 80_000_000);
    one_packet(&mut flowlets, 1, 8);
    picks(&mut flowlets, 1, 8, 2, false);
    picks(&mut flowlets, 1, 1, 1, true);
}

#[test]
fn what_a_unit_brings_is_not_added_where_it_was_measured() {
    let mut flowlets = at_first(80, GAP);
    // 95 MB/s with the unit's own 10.
    measured(&mut flowlets, 1, 93_000_000);
    measured(&mut flowlets, 2, 85_000_000);
    measured(&mut flowlets, 3, 20_000_000);
    one_packet(&mut flowlets, 1, 1);
    picks(&mut flowlets, 1, 1, 1, true);
    measured(&mut flowlets, 1, 6_000_000);
    picks(&mut flowlets, 1, 1, 3, false);
}

#[test]
fn a_flowlet_cut_by_size_stays_where_there_is_room() {
    let mut flowlets = at_first(100, 500_000);
    measured(&mut flowlets, 1, 70_000_000);
    measured(&mut flowlets, 2, 65_000_000);
    for n in 0..10 {
        packet(&mut flowlets, 1, 10 * MS + n * 1_000, 1_500, 3);
    }
    flowlets.end(1);
    picks(&mut flowlets, 1, 3, 3, true);
    // Not if the state is nowhere, nor if the runtime is full.
    picks(&mut flowlets, 1, 0, 1, false);
    measured(&mut flowlets, 3, 75_000_000);
    flowlets.loads.promise(3, 99_000_000);
    picks(&mut flowlets, 1, 3, 1, false);
}

#[test]
fn packets_back_to_back_are_no_flow_of_line_rate_and_long_runs_are_one() {
    let mut flowlets = flowlets(FlowletSettings::default());
    // 1,500 bytes each 12 µs: 125 MB/s. Ten of them make a flowlet.
    let mut at = 10 * MS;
    let mut demands = Vec::new();
    for _ in 0..200 {
        for _ in 0..10 {
            packet(&mut flowlets, 1, at, 1_500, 1);
            at += 12_000;
        }
        demands.push(flowlets.demand(1));
    }
    // The first: 15,000 bytes within 108 µs, and a gap.
    assert!(demands[1] < 25_000_000, "{demands:?}");
    assert!(
        (110_000_000..=125_000_000).contains(&demands[199]),
        "{demands:?}"
    );
}

#[test]
fn runtimes_that_are_not_needed_are_drained() {
    let mut flowlets = at_first(80, GAP);
    measured(&mut flowlets, 1, 20_000_000);
    measured(&mut flowlets, 2, 20_000_000);
    measured(&mut flowlets, 3, 17_000_000);
    // One is enough for 59 MB/s: that the third has the state does not count.
    one_packet(&mut flowlets, 1, 3);
    picks(&mut flowlets, 1, 3, 1, false);
    // Three are needed for 161 MB/s.
    measured(&mut flowlets, 1, 41_000_000);
    measured(&mut flowlets, 2, 20_000_000);
    measured(&mut flowlets, 3, 41_000_000);
    picks(&mut flowlets, 1, 3, 3, true);
}

#[test]
fn copies_go_ahead_once_per_quiet_and_are_worth_nothing_after_a_packet() {
    let mut flowlets = flowlets(FlowletSettings::default());
    packet(&mut flowlets, 5, 10 * MS, 100, 1);
    assert_eq!(flowlets.due(Time(10 * MS + 249_000)), None);
    assert_eq!(flowlets.due(Time(10 * MS + 250_000)), Some(5));
    let copies = flowlets.likely(5, &[1, 2, 3, 4, 6], [1, 0]);
    let given: Vec<Slot> = copies.into_iter().filter(|slot| *slot != 0).collect();
    assert_eq!(given.len(), 3);
    assert!(given.iter().all(|slot| [2, 3, 4, 6].contains(slot)));
    assert!(given.iter().all(|&slot| flowlets.has_copy(5, slot)));
    assert!(!flowlets.has_copy(5, 1) && !flowlets.has_copy(5, 0));
    assert_eq!(flowlets.due(Time(10 * MS + 300_000)), None);
    // A packet within the gap.
    packet(&mut flowlets, 5, 10 * MS + 400_000, 100, 1);
    assert!(given.iter().all(|&slot| !flowlets.has_copy(5, slot)));
    assert_eq!(flowlets.due(Time(10 * MS + 500_000)), None);
    assert_eq!(flowlets.due(Time(10 * MS + 650_000)), Some(5));
    // The flowlet is over when the gap is.
    flowlets.likely(5, &[1, 2], [1, 0]);
    packet(&mut flowlets, 6, 10 * MS + 700_000, 100, 2);
    assert_eq!(flowlets.due(Time(10 * MS + 899_000)), None);
    assert_eq!(flowlets.due(Time(10 * MS + 900_000)), None);
    assert_eq!(flowlets.loads.promised(1), 0);
    assert!(flowlets.has_copy(5, 2));
    assert_eq!(flowlets.quiet.len(), 1, "one unit is still looked after");
}

#[test]
fn likely_ones_are_the_first_more_often() {
    let mut flowlets = flowlets(FlowletSettings {
        copies: 1,
        ..FlowletSettings::default()
    });
    let mut drawn = [0_u32; 9];
    for _ in 0..11_000 {
        let [slot, ..] = flowlets.likely(1, &[1, 2, 3], [0, 0]);
        drawn[usize::from(slot)] += 1;
    }
    // Weights 1, 1/2 and 1/3: six, three and two of eleven.
    for (slot, expected) in [(1, 6_000_u32), (2, 3_000), (3, 2_000)] {
        assert!(drawn[slot].abs_diff(expected) < 300, "{drawn:?}");
    }
}

#[test]
fn promises_end_with_flowlets_and_units() {
    let mut flowlets = flowlets(FlowletSettings::default());
    packet(&mut flowlets, 1, MS, 10_000, 1);
    packet(&mut flowlets, 1, 2 * MS, 10_000, 1);
    assert_eq!(
        flowlets.load(1),
        20_000_000,
        "promised: three buckets measured less"
    );
    // Long after: nothing is measured any more, the promise is there until it is looked after.
    flowlets.advance(Time(500 * MS));
    assert_eq!(flowlets.load(1), 20_000_000);
    look(&mut flowlets, Time(500 * MS));
    assert_eq!(flowlets.load(1), 0);
    packet(&mut flowlets, 1, 600 * MS, 10, 2);
    flowlets.forget(1);
    flowlets.advance(Time(900 * MS));
    assert_eq!(flowlets.load(2), 0);
    assert!(flowlets.is_first(1));
}

#[test]
fn a_runtime_is_started_ahead_and_the_last_let_go() {
    let mut flowlets = flowlets(FlowletSettings {
        capacity: 100_000_000,
        ..FlowletSettings::default()
    });
    flowlets.advance(Time(10 * MS));
    measured(&mut flowlets, 1, 90_000_000);
    assert!(!flowlets.wants_more(&[1]));
    measured(&mut flowlets, 1, 1_000_000);
    assert!(flowlets.wants_more(&[1]) && !flowlets.wants_more(&[1, 2]));
    assert_eq!(flowlets.idle(&[1, 2, 3]), 2);
    flowlets.loads.promise(2, 1);
    assert_eq!(flowlets.idle(&[1, 2, 3]), 1);
}

#[test]
fn alpha_and_copies_follow_what_is_measured() {
    let mut flowlets = flowlets(FlowletSettings::default());
    let epoch = |flowlets: &mut Flowlets, n: u64, ready: u32, waiting: u32, used: u32| {
        (0..ready).for_each(|_| flowlets.note(FlowletCount::MovedReady));
        (0..waiting).for_each(|_| flowlets.note(FlowletCount::MovedWaiting));
        (0..used).for_each(|_| flowlets.note(FlowletCount::CopyUsed));
        flowlets.likely(1, &[1, 2, 3, 4], [0, 0]);
        flowlets.advance(Time(n * 100 * MS));
        flowlets.adapted()
    };
    assert_eq!(epoch(&mut flowlets, 1, 80, 20, 3), (30, 4));
    assert_eq!(epoch(&mut flowlets, 2, 80, 20, 0), (35, 4));
    assert_eq!(epoch(&mut flowlets, 3, 93, 7, 0), (35, 4));
    assert_eq!(epoch(&mut flowlets, 4, 20, 0, 0), (35, 4), "too few");
    assert_eq!(epoch(&mut flowlets, 5, 100, 0, 0), (30, 3));
    for n in 6..12 {
        epoch(&mut flowlets, n, 100, 0, 0);
    }
    assert_eq!(flowlets.adapted(), (25, 1));
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let default = FlowletSettings::default();
    assert_eq!(default.check(), Ok(()));
    for (settings, said) in [
        (
            FlowletSettings { gap: 0, ..default },
            "`gap` is 0: write at least 1",
        ),
        (
            FlowletSettings {
                copies: 10,
                ..default
            },
            "`copies` is too large: write 9 at most",
        ),
        (
            FlowletSettings {
                target: 0,
                ..default
            },
            "`target` is 0: write at least 1",
        ),
        (
            FlowletSettings {
                ahead: 100,
                ..default
            },
            "`ahead` is too large: write 99 at most",
        ),
    ] {
        assert_eq!(settings.check().unwrap_err().to_string(), said);
        assert!(Flowlets::new(settings, 1, 1, no_advice).is_err());
    }
}

#[test]
fn a_late_look_still_sends_copies_and_one_that_came_too_early_is_made_up_for() {
    let mut flowlets = flowlets(FlowletSettings::default());
    packet(&mut flowlets, 5, 10 * MS, 100, 1);
    // Nobody looked for 20 ms.
    assert_eq!(flowlets.due(Time(30 * MS)), Some(5));
    assert_eq!(flowlets.due(Time(30 * MS)), None);
    look(&mut flowlets, Time(31 * MS));
    assert!(flowlets.quiet.is_empty());
    packet(&mut flowlets, 5, 40 * MS, 100, 1);
    assert_eq!(flowlets.due(Time(40 * MS + 250_000)), Some(5));
    // A packet was on its way still.
    flowlets.not_yet(5, Time(40 * MS + 250_000));
    assert_eq!(flowlets.due(Time(40 * MS + 499_000)), None);
    assert_eq!(flowlets.due(Time(40 * MS + 500_000)), Some(5));
    flowlets.likely(5, &[1, 2], [1, 0]);
    assert!(flowlets.has_copy(5, 2));
    // Another view: the copy is of no use, and what was promised moves.
    assert_eq!(flowlets.load(2), 0);
    flowlets.moved(5, 2);
    assert!(!flowlets.has_copy(5, 2));
}
