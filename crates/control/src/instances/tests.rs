use super::*;

const SECOND: u64 = 1_000_000_000;

fn settings() -> InstancesSettings {
    InstancesSettings::default()
}

/// When instances come, as (second, number), where `lost` are lost in each.
fn run(settings: InstancesSettings, lost: &[u64]) -> Vec<(u64, u16)> {
    let mut stage = Instances::new(settings, 1).unwrap();
    let mut total = 0;
    assert_eq!(stage.report(Time(0), 0), None);
    let mut grown = Vec::new();
    for (second, lost) in (1..).zip(lost) {
        total += lost;
        if let Some(count) = stage.report(Time(second * SECOND), total) {
            grown.push((second, count));
        }
    }
    grown
}

#[test]
fn steady_losses_bring_one_more_and_then_a_rest() {
    assert_eq!(run(settings(), &[500; 30]), [(2, 2), (12, 3), (22, 4)]);
}

#[test]
fn a_peak_brings_none() {
    assert_eq!(run(settings(), &[9_000, 0, 9_000, 99, 9_000, 0]), []);
    assert_eq!(run(settings(), &[99; 20]), []);
    assert_eq!(run(settings(), &[100; 5]), [(2, 2)]);
}

#[test]
fn losses_that_end_after_a_new_instance_bring_no_other() {
    let mut lost = vec![500; 5];
    lost.extend([0; 20]);
    assert_eq!(run(settings(), &lost), [(2, 2)]);
}

#[test]
fn there_are_never_more_than_the_most() {
    let most = InstancesSettings {
        most: 2,
        cool_down: 0,
        ..settings()
    };
    assert_eq!(run(most, &[500; 30]), [(2, 2)]);
}

#[test]
fn without_reports_nothing_is_known() {
    let mut stage = Instances::new(settings(), 1).unwrap();
    assert_eq!(stage.report(Time(0), 0), None);
    assert_eq!(stage.report(Time(SECOND), 1_000), None);
    // Four seconds of silence: what was lost in them may be of one moment.
    assert_eq!(stage.report(Time(5 * SECOND), 9_000), None);
    assert_eq!(stage.report(Time(6 * SECOND), 10_000), None);
    assert_eq!(stage.report(Time(7 * SECOND), 11_000), Some(2));
    // The stage began anew, or two reports are of one time.
    assert_eq!(stage.report(Time(20 * SECOND), 5), None);
    assert_eq!(stage.report(Time(20 * SECOND), 5_000), None);
    assert_eq!(stage.report(Time(19 * SECOND), 9_000), None);
    assert_eq!(stage.count(), 2);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    for (setting, bad) in [
        (
            "drops",
            InstancesSettings {
                drops: 0,
                ..settings()
            },
        ),
        (
            "gap",
            InstancesSettings {
                gap: 0,
                ..settings()
            },
        ),
        (
            "most",
            InstancesSettings {
                most: 0,
                ..settings()
            },
        ),
    ] {
        let error = Instances::new(bad, 1).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("the setting `{setting}` must not be 0")
        );
    }
    assert_eq!(Instances::new(settings(), 0).unwrap().count(), 1);
}
