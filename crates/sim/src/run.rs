//! One run: a plan, carried out.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use crate::check::{Invariant, Violation};
use crate::plan::Plan;
use crate::settings::Settings;
use crate::trace::Trace;
use crate::world::pools::Pools;
use crate::world::{Outcome, World};

/// Carries a plan out. A panic of the code under test is a violation, too.
///
/// # Errors
///
/// A chain that can't be built: a fault of this crate.
pub fn run(settings: &Settings, plan: &Plan, trace: Trace) -> Result<(Outcome, Trace), String> {
    run_in(settings, plan, trace, &mut Pools::default())
}

/// The same with packet memory of a run before it.
pub(crate) fn run_in(
    settings: &Settings,
    plan: &Plan,
    trace: Trace,
    pools: &mut Pools,
) -> Result<(Outcome, Trace), String> {
    let done = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(settings, plan, trace, core::mem::take(pools))?;
        world.run();
        let (outcome, trace, left) = world.outcome();
        *pools = left;
        Ok((outcome, trace))
    }));
    done.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no words");
        let outcome = Outcome {
            violation: Some(Violation {
                invariant: Invariant::Panic,
                at: 0,
                unit: None,
                text: text.to_owned(),
            }),
            ..Outcome::default()
        };
        Ok((outcome, Trace::default()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Faults;
    use crate::settings::Mode;

    /// Seeds in which an operator's end met a switch that had just started again, a reply that began
    /// the flow anew, and a switch's death.
    #[test]
    fn flows_that_somebody_ends_break_nothing() {
        for (seed, packets, flows, moves) in [
            (11, 2_000, 80, 120),
            (32, 1_500, 60, 100),
            (49, 1_500, 60, 100),
        ] {
            let settings = Settings {
                packets,
                flows,
                moves,
                ..Settings::default()
            };
            let plan = Plan::draw(seed, &settings, None);
            let (outcome, _) = run(&settings, &plan, Trace::default()).unwrap();
            assert_eq!(outcome.violation, None, "seed {seed}");
            assert!(
                outcome
                    .world
                    .get("ends_asked")
                    .is_some_and(|ends| *ends > 3)
            );
        }
    }

    /// One host: queues, all its faults, limits that are reached, and every replication. In seed 5036 the flow
    /// that somebody had ended was forgotten with the runtime that had the tick. In the next two
    /// the target of a move died before all was here that its source had put out.
    #[test]
    fn threads_of_one_process_break_nothing() {
        let mut world = std::collections::BTreeMap::<&str, u64>::new();
        for seed in [1, 2, 3, 4, 5, 6, 7, 8, 5_036, 771_070, 772_459] {
            let settings = Settings {
                mode: Some(Mode::Ring),
                faults: match seed {
                    5_036 => "crash".parse().unwrap(),
                    _ => Faults::HOSTILE,
                },
                packets: 1_000,
                flows: 60,
                moves: 30,
                ..Settings::default()
            };
            let plan = Plan::draw(seed, &settings, None);
            let (outcome, _) = run(&settings, &plan, Trace::default()).unwrap();
            assert_eq!(outcome.violation, None, "seed {seed}");
            for (name, count) in outcome.world {
                *world.entry(name).or_default() += count;
            }
        }
        for name in [
            "crashes",
            "crashes_at_work",
            "left",
            "messages_passed_on",
            "queues_full",
            "ports_waited_for_queues",
        ] {
            assert!(world.get(name).is_some_and(|count| *count > 0), "{name}");
        }
    }

    /// A pull came before the word that closed its view, which waited for room in the queue: it
    /// was forgotten, and asked for again five seconds later. In the last seed a runtime that had
    /// not run for long asked for packets that were in its queue.
    #[test]
    fn what_overtakes_on_one_host_is_not_lost() {
        for (seed, replication) in [
            (8_041, "every-5"),
            (7_005, "each-burst"),
            (11_041, "each-burst"),
            (17_033, "each-burst"),
        ] {
            let settings = Settings {
                mode: Some(Mode::Ring),
                faults: Faults::HOSTILE,
                some_faults: false,
                replication: Some(replication.parse().unwrap()),
                packets: 600,
                flows: 40,
                moves: 100,
                ..Settings::default()
            };
            let plan = Plan::draw(seed, &settings, None);
            let (outcome, _) = run(&settings, &plan, Trace::default()).unwrap();
            assert_eq!(outcome.violation, None, "seed {seed}");
        }
    }

    /// An owner without a replica had applied again what was let out, and said so only when it
    /// was asked once more.
    #[test]
    fn an_owner_alone_says_that_it_has_all() {
        let settings = Settings {
            mode: Some(Mode::Ring),
            faults: Faults::HOSTILE,
            some_faults: false,
            packets: 600,
            flows: 40,
            moves: 100,
            ..Settings::default()
        };
        let plan = Plan::draw(7_797, &settings, None);
        let (outcome, _) = run(&settings, &plan, Trace::default()).unwrap();
        assert_eq!(outcome.violation, None);
    }

    /// Deaths and pauses are noticed by silence, and a host's loss loses nothing.
    #[test]
    fn silence_is_suspected_and_hosts_are_lost() {
        let mut world = std::collections::BTreeMap::<&str, u64>::new();
        for seed in 1..25 {
            let settings = Settings {
                faults: "crash,pause,host-loss".parse().unwrap(),
                heartbeats: Some(true),
                packets: 600,
                flows: 60,
                moves: 20,
                ..Settings::default()
            };
            let plan = Plan::draw(seed, &settings, None);
            let (outcome, _) = run(&settings, &plan, Trace::default()).unwrap();
            assert_eq!(outcome.violation, None, "seed {seed}");
            for (name, count) in outcome.world {
                *world.entry(name).or_default() += count;
            }
        }
        for name in [
            "deaths_noticed_by_beats",
            "alive_suspected_by_beats",
            "started_anew_after_hold_down",
            "hosts_lost",
        ] {
            assert!(world.get(name).is_some_and(|count| *count > 0), "{name}");
        }
    }

    /// Chains behind the same runtimes: each has packets of its own, and the same deaths. One seed is
    /// one run still.
    #[test]
    fn several_chains_break_nothing() {
        let mut seen = 0;
        for seed in 0..8 {
            let settings = Settings {
                faults: Faults::HOSTILE,
                chains: 3,
                packets: 300,
                flows: 30,
                moves: 20,
                ..Settings::default()
            };
            let plan = Plan::draw(seed, &settings, None);
            assert_eq!(plan.others.len(), 2);
            let (one, first) = run(&settings, &plan, Trace::kept()).unwrap();
            let (two, second) = run(&settings, &plan, Trace::kept()).unwrap();
            assert_eq!(one.violation, None, "seed {seed}");
            assert_eq!(one, two);
            assert_eq!(first.lines(), second.lines());
            for chain in ["chain 1: V", "chain 2: V"] {
                let mut lines = first.lines().iter();
                assert!(lines.any(|line| line.text.starts_with(chain)), "{seed}");
            }
            seen += one.world.get("crashes").copied().unwrap_or(0);
        }
        assert!(seen > 3, "{seen} crashes");
    }

    #[test]
    fn one_seed_gives_one_run_bit_for_bit() {
        let settings = Settings {
            packets: 600,
            flows: 60,
            moves: 20,
            ..Settings::default()
        };
        for seed in 0..6 {
            let plan = Plan::draw(seed, &settings, None);
            let (one, first) = run(&settings, &plan, Trace::kept()).unwrap();
            let (two, second) = run(&settings, &plan, Trace::kept()).unwrap();
            assert_eq!(one, two);
            assert_eq!(first.lines(), second.lines());
            assert!(first.lines().len() > 1_000);
        }
    }

    #[test]
    fn a_quiet_run_lets_everything_out() {
        let settings = Settings {
            faults: Faults::NONE,
            packets: 1_000,
            flows: 50,
            moves: 0,
            ..Settings::default()
        };
        for seed in 0..7 {
            let plan = Plan::draw(seed, &settings, None);
            let (outcome, _) = run(&settings, &plan, Trace::default()).unwrap();
            assert_eq!(outcome.violation, None, "seed {seed}");
            let tally = outcome.tally;
            assert!(tally.numbered > 900, "{tally:?}");
            assert_eq!(tally.let_out - tally.ticks, tally.numbered);
            assert_eq!((tally.owner_lost, tally.switch_restart), (0, 0));
            assert!(tally.ended > 0 && tally.states > 0);
        }
    }
}
