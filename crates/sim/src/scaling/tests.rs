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
