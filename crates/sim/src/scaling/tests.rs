use super::*;

/// A hundredth of the flows, and a curve that is over sooner.
fn small() -> Load {
    Load {
        low: 2_000,
        high: 20_000,
        before: 5,
        rise: 60,
        hold: 70,
        fall: 60,
        after: 95,
        ..Load::default()
    }
    .scaled(100)
}

#[test]
fn the_curve_rises_and_falls() {
    let load = Load::default();
    for (second, flows) in [(0, 2_000), (30, 2_000), (90, 16_000), (150, 30_000)] {
        assert_eq!(
            load.wanted(second * 1_000).round() as u32,
            flows,
            "{second}"
        );
    }
    for (second, flows) in [(269, 30_000), (330, 16_000), (390, 2_000), (479, 2_000)] {
        assert_eq!(
            load.wanted(second * 1_000).round() as u32,
            flows,
            "{second}"
        );
    }
    assert_eq!(load.seconds(), 480);
    assert_eq!(
        (small().low, small().capacity, small().scaling.batch),
        (20, 1_000, 5)
    );
}

#[test]
fn runtimes_follow_the_load_and_nothing_else_is_lost() {
    let mut samples = Vec::new();
    let load = small();
    let summary = run(&load, &mut |sample| samples.push(sample.clone())).unwrap();
    assert_eq!((summary.reordered, summary.doubled), (0, 0));
    // Every packet left, or was lost at a full input.
    assert_eq!(
        summary.offered,
        summary.out + summary.lost + summary.dropped,
        "{summary:?}"
    );
    assert_eq!((summary.dropped, summary.held), (0, 0));
    // 200 flows × 20 / 1,000 = 4 runtimes.
    assert!((4..=7).contains(&summary.most_runtimes), "{summary:?}");
    assert_eq!(summary.runtimes, 1, "{summary:?}");
    assert_eq!(summary.added, summary.removed);
    assert!(summary.moved > 0);
    assert!(summary.lost > 0, "without a loss nothing is added");
    assert!(summary.lost * 100 < summary.offered, "{summary:?}");
    // While the load falls nothing is lost.
    let falling = samples.iter().filter(|s| s.second >= 165);
    assert_eq!(falling.map(|s| s.lost).sum::<u64>(), 0);
    // The offered load is what was asked for, once flows have lived their time.
    let high = samples.iter().find(|s| s.second == 130).unwrap();
    assert!((3_800..=4_200).contains(&high.offered), "{high:?}");
}

#[test]
fn a_seed_gives_one_run() {
    let load = Load {
        rise: 20,
        hold: 10,
        fall: 5,
        after: 5,
        ..small()
    };
    let once = || {
        let mut samples = Vec::new();
        let summary = run(&load, &mut |sample| samples.push(sample.clone())).unwrap();
        (samples, summary)
    };
    assert_eq!(once(), once());
}
