//! Overloads at which ports wait, and cases in which no runtime can be added.

use super::tests::{FREE, SECOND};
use super::*;

/// Ports that wait for a runtime are a sign of overload as packets that it loses are.
#[test]
fn a_runtime_for_which_ports_wait_is_overloaded() {
    let mut scaling = Scaling::new(ScalingSettings::default()).unwrap();
    let cluster = [RuntimeId(1)];
    let mut decided = Vec::new();
    // A tenth of a second each second, which is forgiven, then a little more.
    for (second, held_back) in [(0, 0), (1, 100), (2, 200), (3, 301)] {
        let load = Load {
            packets: second * 5_000,
            held_back: held_back * 1_000_000,
            units: 40,
            ..Load::default()
        };
        let now = Time(second * SECOND);
        decided.push(scaling.step(now, &[(RuntimeId(1), load)], &cluster, FREE));
    }
    let [first, second, third, fourth] = &decided[..] else {
        panic!("{decided:?}");
    };
    assert!(first.is_empty() && second.is_empty() && third.is_empty());
    assert_eq!(fourth[0].action, Action::Add);
    assert_eq!(
        fourth[0].why.to_string(),
        "runtime 1 took in 5000 packets per second, and ports waited for it 10.1 % of the time"
    );
    assert_eq!(scaling.peak(), Some(5_000));
}

/// Two runtimes that are overloaded in turn, as where both have more than they can do, do not give
/// one another the same flows for ever.
#[test]
fn flows_do_not_go_to_and_fro_where_all_are_overloaded() {
    let settings = ScalingSettings {
        minimum: 2,
        maximum: 2,
        ..ScalingSettings::default()
    };
    let mut scaling = Scaling::new(settings).unwrap();
    let cluster = [RuntimeId(1), RuntimeId(2)];
    let mut held_back = [0, 0];
    let mut moves = Vec::new();
    for second in 0..60u64 {
        held_back[second as usize % 2] += SECOND / 2;
        let load = |at: usize| Load {
            packets: second * (5_000 + at as u64),
            held_back: held_back[at],
            units: 1_000,
            ..Load::default()
        };
        let reports = [(cluster[0], load(0)), (cluster[1], load(1))];
        let decided = scaling.step(Time(second * SECOND), &reports, &cluster, FREE);
        moves.extend(decided.iter().map(|decision| (second, decision.action)));
    }
    // Once, before it is known that the other one is overloaded too.
    assert_eq!(moves.len(), 1, "{moves:?}");
}

/// Without that, what it took in while it stood still would be all that one can do, and no runtime
/// would ever be calm again.
#[test]
fn a_runtime_that_stood_still_says_little_of_what_it_can_do() {
    let mut scaling = Scaling::new(ScalingSettings::default()).unwrap();
    let cluster = [RuntimeId(1)];
    let (mut packets, mut held_back) = (0, 0);
    let mut second = |at: u64, rate: u64, held: u64| {
        packets += rate;
        held_back += held;
        let load = Load {
            packets,
            held_back,
            units: 1,
            ..Load::default()
        };
        scaling.step(Time(at * SECOND), &[(RuntimeId(1), load)], &cluster, FREE);
        scaling.peak()
    };
    assert_eq!(second(0, 0, 0), None);
    assert_eq!(second(1, 0, SECOND), None, "nothing was taken in");
    assert_eq!(second(2, 40_000, SECOND), Some(40_000));
    assert_eq!(second(60, 0, 30 * SECOND), Some(40_000));
    assert_eq!(second(120, 60, 30 * SECOND), Some(20_000));
    assert_eq!(second(121, 30_000, SECOND), Some(30_000));
}

/// A successor is on its way to where one has died: no other one is started for it.
#[test]
fn one_that_is_about_to_come_is_waited_for() {
    let settings = ScalingSettings {
        minimum: 2,
        ..ScalingSettings::default()
    };
    let mut scaling = Scaling::new(settings).unwrap();
    let cluster = [RuntimeId(1)];
    let load = Load {
        units: 10,
        ..Load::default()
    };
    let reports = [(RuntimeId(1), load)];
    assert_eq!(
        scaling.step(Time(0), &reports, &cluster, Places { coming: 1, ..FREE }),
        []
    );
    let decided = scaling.step(Time(SECOND), &reports, &cluster, FREE);
    assert_eq!(decided[0].action, Action::Add);
    assert_eq!(decided[0].why, Why::BelowMinimum);
}

/// Nor do those go to and fro that the newest runtime has relieved another one of.
#[test]
fn the_newest_runtime_gives_no_flows_back_and_takes_them_again() {
    let settings = ScalingSettings {
        maximum: 2,
        ..ScalingSettings::default()
    };
    let mut scaling = Scaling::new(settings).unwrap();
    let mut held_back = [0, 0];
    let (mut cluster, mut moves) = (vec![RuntimeId(1)], Vec::new());
    for second in 0..60u64 {
        let turn = match cluster.len() {
            1 => 0,
            _ => second as usize % 2,
        };
        held_back[turn] += SECOND / 2;
        let load = |at: usize| Load {
            packets: second * (5_000 + at as u64),
            held_back: held_back[at],
            units: 1_000,
            ..Load::default()
        };
        let reports: Vec<_> = cluster
            .iter()
            .enumerate()
            .map(|(at, id)| (*id, load(at)))
            .collect();
        for decision in scaling.step(Time(second * SECOND), &reports, &cluster, FREE) {
            match decision.action {
                Action::Add => cluster.push(RuntimeId(2)),
                action => moves.push((second, action)),
            }
        }
    }
    assert_eq!(cluster.len(), 2);
    assert!(moves.len() <= 2, "{moves:?}");
}

/// Where the host of one is down, or no place is free, the others still take flows from one another.
#[test]
fn flows_move_where_no_runtime_can_be_added() {
    for places in [
        Places { coming: 1, free: 0 },
        Places { coming: 0, free: 0 },
        Places { coming: 1, ..FREE },
    ] {
        let settings = ScalingSettings {
            maximum: 3,
            ..ScalingSettings::default()
        };
        let mut scaling = Scaling::new(settings).unwrap();
        let cluster = [RuntimeId(1), RuntimeId(2)];
        let mut actions = Vec::new();
        for second in 0..3u64 {
            let load = |held_back, rate| Load {
                packets: second * rate,
                held_back: second * held_back,
                units: 1_000,
                ..Load::default()
            };
            let reports = [
                (cluster[0], load(SECOND / 2, 5_000)),
                (cluster[1], load(0, 100)),
            ];
            let decided = scaling.step(Time(second * SECOND), &reports, &cluster, places);
            actions.extend(decided.iter().map(|decision| decision.action));
        }
        let moves = |action: &Action| {
            matches!(
                action,
                Action::Move {
                    from: RuntimeId(1),
                    to: RuntimeId(2),
                    ..
                }
            )
        };
        assert!(
            actions.len() == 2 && actions.iter().all(moves),
            "{actions:?}"
        );
    }
}

/// A refused decision does not block the next one.
#[test]
fn a_refused_decision_is_taken_back() {
    let settings = ScalingSettings {
        capacity: 1_000,
        calm_reports: 1,
        ..ScalingSettings::default()
    };
    let mut scaling = Scaling::new(settings).unwrap();
    let cluster = [RuntimeId(1), RuntimeId(2)];
    let (mut drains, mut adds) = (0, 0);
    for second in 0..40u64 {
        // Calm for a while, then overloaded.
        let over = second.saturating_sub(20);
        let load = Load {
            packets: second * 10,
            held_back: over * SECOND,
            units: 100,
            ..Load::default()
        };
        let reports = cluster.map(|id| (id, load));
        for decision in scaling.step(Time(second * SECOND), &reports, &cluster, FREE) {
            scaling.refused(&decision.action);
            match decision.action {
                Action::Drain { .. } => drains += 1,
                Action::Add => adds += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(scaling.leaving(), None);
    }
    assert!(drains >= 1 && adds >= 19, "{drains} drains, {adds} adds");
}
