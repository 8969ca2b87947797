//! The cost of each rule, for who asks for it: how often it was tried and matched, and how long that took.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::rule::Rule;

/// The cost of one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleCost {
    /// Its generator.
    pub gid: u32,
    /// Its number.
    pub sid: u32,
    /// Attempts on packets, streams and messages, behind the search for patterns that chooses the rules.
    pub tried: u64,
    /// Attempts that matched.
    pub matched: u64,
    /// Time of all attempts.
    pub took: Duration,
    /// Time of the longest attempt.
    pub longest: Duration,
}

/// The costs of the rules of a set, as work spaces note them. Each attempt costs two readings of the clock and a
/// lock: it is for a look at rules, not for traffic.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// By the rules' order of evaluation.
    costs: Arc<Mutex<Vec<RuleCost>>>,
}

impl Profile {
    /// The rules that were tried, in order of evaluation.
    pub fn costs(&self) -> Vec<RuleCost> {
        let costs = self.costs.lock().unwrap_or_else(PoisonError::into_inner);
        costs
            .iter()
            .filter(|cost| cost.tried > 0)
            .copied()
            .collect()
    }

    fn note(&self, number: u32, rule: &Rule, took: Duration, matched: bool) {
        let mut costs = self.costs.lock().unwrap_or_else(PoisonError::into_inner);
        let number = number as usize;
        if costs.len() <= number {
            costs.resize(number + 1, RuleCost::default());
        }
        if let Some(cost) = costs.get_mut(number) {
            cost.gid = rule.gid;
            cost.sid = rule.sid;
            cost.tried += 1;
            cost.matched += u64::from(matched);
            cost.took += took;
            cost.longest = cost.longest.max(took);
        }
    }
}

/// The clock of a work space, which runs where there is a profile.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock {
    pub(crate) profile: Option<Profile>,
}

impl Clock {
    /// The time, where it is of use.
    #[inline]
    pub(crate) fn start(&self) -> Option<Instant> {
        self.profile.as_ref().map(|_| Instant::now())
    }

    /// Notes an attempt that began at `start`.
    #[inline]
    pub(crate) fn stop(&self, start: Option<Instant>, (number, rule): (u32, &Rule), matched: bool) {
        if let (Some(profile), Some(start)) = (&self.profile, start) {
            profile.note(number, rule, start.elapsed(), matched);
        }
    }
}
