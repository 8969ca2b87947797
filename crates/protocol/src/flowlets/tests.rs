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
    let mut flowlets = flowlets(FlowletSettings::default());
    assert_eq!(flowlets.demand(1), 0);
    // 1,000 bytes in one packet: over one gap.
    packet(&mut flowlets, 1, MS, 1_000, 1);
    packet(&mut flowlets, 1, 3 * MS, 3_000, 1);
    assert_eq!(
        (flowlets.demand(1), flowlets.demand(2)),
        (2_000_000, 2_000_000)
    );
    packet(&mut flowlets, 1, 5 * MS, 60, 1);
    // Half of 2 MB/s and 6 MB/s.
    assert_eq!(flowlets.demand(1), 4_000_000);
    assert_eq!(flowlets.demand(2), 4_000_000, "the mean of both");
}

#[test]
fn the_fullest_with_room_wins_unless_the_state_is_elsewhere() {
    let mut flowlets = flowlets(FlowletSettings {
        capacity: 100_000_000,
        ..FlowletSettings::default()
    });
    let usable = [1, 2, 3];
    flowlets.loads.promise(1, 95_000_000);
    flowlets.loads.promise(2, 50_000_000);
    flowlets.loads.promise(3, 30_000_000);
    // A demand of 10 MB/s does not fit into the first.
    packet(&mut flowlets, 1, 10 * MS, 5_000, 8);
    flowlets.end(1);
    let pick = |flowlets: &mut Flowlets, holder| flowlets.pick(1, &usable, [holder, 0]).unwrap();
    assert_eq!(
        pick(&mut flowlets, 8),
        Pick {
            slot: 2,
            has_state: false
        }
    );
    // 30 % and α = 25 % are more than 50 %.
    assert_eq!(
        pick(&mut flowlets, 3),
        Pick {
            slot: 3,
            has_state: true
        }
    );
    flowlets.loads.release(3, 10_000_000);
    assert_eq!(
        pick(&mut flowlets, 3),
        Pick {
            slot: 2,
            has_state: false
        }
    );
    flowlets.loads.promise(2, 45_000_000);
    flowlets.loads.promise(3, 75_000_000);
    assert_eq!(
        pick(&mut flowlets, 2),
        Pick {
            slot: 1,
            has_state: false
        }
    );
    assert_eq!(flowlets.counts().get(FlowletCount::Overfull), 1);
    assert_eq!(flowlets.pick(1, &[], [0, 0]), None);
}

#[test]
fn copies_go_ahead_once_per_quiet_and_are_worth_nothing_after_a_packet() {
    let mut flowlets = flowlets(FlowletSettings::default());
    packet(&mut flowlets, 5, 10 * MS, 100, 1);
    assert_eq!(flowlets.due(Time(10 * MS + 249_000)), None);
    assert_eq!(flowlets.due(Time(10 * MS + 250_000)), Some(5));
    let copies = flowlets.likely(5, &[1, 2, 3, 4, 6], 1);
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
    flowlets.likely(5, &[1, 2], 1);
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
        let [slot, ..] = flowlets.likely(1, &[1, 2, 3], 0);
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
    assert_eq!(flowlets.due(Time(500 * MS)), None);
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
    flowlets.loads.promise(1, 90_000_000);
    assert!(!flowlets.wants_more(&[1]));
    flowlets.loads.promise(1, 1_000_000);
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
        flowlets.likely(1, &[1, 2, 3, 4], 0);
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
