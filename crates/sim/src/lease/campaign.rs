//! Many runs, and the search for planted bugs.

use super::check::Violation;
use super::plant::Plant;
use super::world::run;

/// Seeds in which a planted bug has to be found.
pub const MOST: u64 = 10_000;

/// Bugs whose first seed, from 1 on, is far, and a seed shortly before it. A change of the draws
/// outdates this table.
const NEAR: [(Plant, u64); 2] = [
    (Plant::PromisesAtOnce, 510),
    (Plant::AnswersOfBefore, 1_030),
];

/// A seed that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    seed: u64,
    violation: Violation,
}

impl Failed {
    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The rule that it broke.
    pub fn violation(&self) -> &Violation {
        &self.violation
    }
}

/// What several seeds did.
#[derive(Clone, Debug, Default)]
pub struct Campaign {
    seeds: u64,
    events: u64,
    tenants: u64,
    faults: u64,
    waited: u64,
    failed: Vec<Failed>,
}

impl Campaign {
    /// Runs a seed; false where it fails.
    pub fn add_seed(&mut self, seed: u64, plant: Option<Plant>) -> bool {
        let outcome = run(seed, plant);
        self.seeds += 1;
        self.events += outcome.events();
        self.tenants += outcome.tenants();
        self.faults += outcome.faults();
        self.waited = self.waited.max(outcome.waited());
        let Some(violation) = outcome.violation().cloned() else {
            return true;
        };
        self.failed.push(Failed { seed, violation });
        false
    }

    /// Adds what another one did.
    pub fn merge(&mut self, other: Campaign) {
        self.seeds += other.seeds;
        self.events += other.events;
        self.tenants += other.tenants;
        self.faults += other.faults;
        self.waited = self.waited.max(other.waited);
        self.failed.extend(other.failed);
        self.failed.sort_by_key(|failed| failed.seed);
    }

    /// Seeds that were run.
    pub fn seeds(&self) -> u64 {
        self.seeds
    }

    /// Steps of all runs.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Contenders that have had the place.
    pub fn tenants(&self) -> u64 {
        self.tenants
    }

    /// Faults beside those of messages.
    pub fn faults(&self) -> u64 {
        self.faults
    }

    /// Hundredths of a lease from the end of faults until somebody had the place, at most.
    pub fn waited(&self) -> u64 {
        self.waited
    }

    /// Seeds that failed, in order.
    pub fn failed(&self) -> &[Failed] {
        &self.failed
    }
}

/// The seed from which a bug is looked for, where no other is asked for.
pub fn near(plant: Plant) -> u64 {
    let known = NEAR.iter().find(|(its, _)| *its == plant);
    known.map_or(1, |(_, seed)| *seed)
}

/// Runs seeds with a planted bug from `first` on, until one fails that holds without it. `go_on` is
/// asked before each seed.
pub fn find(plant: Plant, first: u64, go_on: impl Fn() -> bool) -> Campaign {
    let mut sum = Campaign::default();
    for seed in first..first.saturating_add(MOST) {
        if !go_on() {
            break;
        }
        if sum.add_seed(seed, Some(plant)) {
            continue;
        }
        if run(seed, None).violation().is_none() {
            break;
        }
        sum.failed.clear();
    }
    sum
}
