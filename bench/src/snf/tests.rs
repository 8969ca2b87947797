//! Runs in small: what must hold whatever the figures are.

use weir_protocol::flowlets::{FlowletSettings, Packing};

use super::assign::Mode;
use super::bed::{Outcome, Setting, StateMode, run};
use super::scene::{Scene, UNITS, modes};
use super::trace::{Shape, Trace};
use super::units::{Pace, UnitSettings};

const SCENE: Scene = Scene { parts: 16, seed: 3 };
/// Where figures are compared: some seconds, so that queues grow and estimates settle.
const LONGER: Scene = Scene { parts: 4, seed: 1 };

fn runs(trace: &Trace, mode: Mode, state: StateMode, pace: Pace) -> Outcome {
    let units = UnitSettings { pace, ..UNITS };
    let setting = Setting {
        units,
        ..SCENE.setting(mode, state)
    };
    run(trace, setting).unwrap()
}

#[test]
fn no_packet_is_lost_or_overtaken_whoever_decides() {
    let trace = SCENE.trace(Shape::wan());
    let mut cases: Vec<(Mode, StateMode)> = modes().to_vec();
    cases.extend(StateMode::ALL.map(|state| (Mode::Flowlet(FlowletSettings::DEFAULT), state)));
    cases.extend([Packing::BestFit, Packing::Hash].map(|packing| {
        let settings = FlowletSettings {
            packing,
            ..FlowletSettings::DEFAULT
        };
        (Mode::Flowlet(settings), StateMode::Proactive)
    }));
    for (mode, state) in cases {
        for pace in [Pace::Strict, Pace::Share(1_000_000)] {
            let outcome = runs(&trace, mode, state, pace);
            let case = format!("{} {} {pace:?}", mode.name(), state.name());
            assert_eq!(outcome.packets, trace.packets().len() as u64, "{case}");
            assert_eq!(outcome.done, outcome.packets, "{case}");
            assert_eq!(outcome.latency.count(), outcome.packets, "{case}");
            assert_eq!(outcome.reordered, 0, "{case}");
            assert!(outcome.units() >= outcome.offered() / 1e9, "{case}");
        }
    }
}

#[test]
fn a_run_follows_from_its_seed() {
    let trace = SCENE.trace(Shape::wan());
    let [.., (mode, state)] = modes();
    let figures = |seed| {
        let outcome = run(
            &trace,
            Setting {
                seed,
                ..SCENE.setting(mode, state)
            },
        );
        let outcome = outcome.unwrap();
        let latency = [0.25, 0.5, 0.99].map(|share| outcome.latency.quantile(share));
        (latency, outcome.moved, outcome.copies, outcome.used)
    };
    assert_eq!(figures(7), figures(7));
    assert_ne!(figures(7), figures(8), "the seed draws the copies");
}

#[test]
fn flowlets_beat_decisions_per_flow() {
    let trace = LONGER.trace(Shape::edge());
    let [vanilla, smart, _, flowlet] =
        modes().map(|(mode, state)| runs(&trace, mode, state, Pace::Strict));
    let p99 = |outcome: &Outcome| outcome.latency.quantile(0.99);
    assert!(
        p99(&flowlet) * 4 < p99(&vanilla),
        "{} {}",
        p99(&flowlet),
        p99(&vanilla)
    );
    assert!(
        p99(&flowlet) * 2 < p99(&smart),
        "{} {}",
        p99(&flowlet),
        p99(&smart)
    );
    assert!(flowlet.chances > 4 * vanilla.chances);
}

#[test]
fn copies_ahead_spare_most_of_the_waiting() {
    let trace = LONGER.trace(Shape::wan());
    let [store, _, reactive, proactive] = StateMode::ALL.map(|state| {
        let mode = Mode::Flowlet(FlowletSettings::DEFAULT);
        runs(&trace, mode, state, Pace::Share(1_000_000))
    });
    assert_eq!((reactive.ready(), reactive.copies), (0.0, 0));
    assert!(proactive.ready() > 0.7, "{}", proactive.ready());
    assert!(proactive.waited < reactive.waited);
    assert!(proactive.used <= proactive.copies && proactive.used > 0);
    let p75 = |outcome: &Outcome| outcome.latency.quantile(0.75);
    assert!(
        p75(&proactive) * 10 < p75(&store),
        "{} {}",
        p75(&proactive),
        p75(&store)
    );
}

#[test]
fn units_come_and_go_with_the_load() {
    let trace = LONGER.trace(Shape::wan());
    let [.., (mode, state)] = modes();
    let outcome = run(&trace, SCENE.setting(mode, state)).unwrap();
    let units = |of: fn(f64, f64) -> f64, from: f64| {
        outcome
            .epochs
            .iter()
            .map(|epoch| epoch.units)
            .fold(from, of)
    };
    assert!(units(f64::max, 0.0) >= 6.0);
    // The trace ends with the load near its lowest.
    assert!(outcome.epochs.last().unwrap().units < units(f64::max, 0.0) - 2.0);
    assert!(outcome.units() < 2.0 * outcome.offered() / 1e9);
}

#[test]
fn a_size_bounds_what_a_burst_can_do() {
    let trace = SCENE.trace(Shape::wan().attacked(10));
    let chances = |size| {
        let settings = FlowletSettings {
            size,
            ..FlowletSettings::DEFAULT
        };
        let mode = Mode::Flowlet(settings);
        runs(&trace, mode, StateMode::Proactive, Pace::Strict).chances
    };
    assert!(chances(15_000) > chances(u32::MAX));
}
