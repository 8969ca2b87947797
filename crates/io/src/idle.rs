//! Idle policy of a thread between its rounds: spin, yield, sleep.

use std::time::Duration;

/// When a thread that shares its core gives way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdlePolicy {
    /// Rounds without work in which it only spins. More than 0 is for a
    /// thread that has its core alone: where several share one, the thread
    /// that it waits for may be the one that it keeps from running.
    pub spins: u32,
    /// Rounds without work after those in which it gives way to other threads
    /// of its core (`sched_yield`).
    pub yields: u32,
    /// How long it sleeps in each round without work after that; zero goes on
    /// giving way.
    pub nap: Duration,
    /// Rounds with work after which it gives way once; 0 for never, which
    /// leaves it to the system's scheduler.
    pub work: u32,
}

impl Default for IdlePolicy {
    /// No spinning, 512 rounds of giving way, naps of 50 µs, and no giving
    /// way while there is work.
    fn default() -> IdlePolicy {
        IdlePolicy {
            spins: 0,
            yields: 512,
            nap: Duration::from_micros(50),
            work: 0,
        }
    }
}

/// Follows an [`IdlePolicy`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Idle {
    policy: IdlePolicy,
    /// Rounds without work.
    idle: u32,
    /// Rounds with work since it last gave way.
    busy: u32,
}

impl Idle {
    /// Follows this policy.
    pub const fn new(policy: IdlePolicy) -> Idle {
        Idle {
            policy,
            idle: 0,
            busy: 0,
        }
    }

    /// The same policy, from the start.
    #[must_use]
    pub const fn anew(&self) -> Idle {
        Idle::new(self.policy)
    }

    /// After a round.
    pub fn after(&mut self, worked: bool) {
        if self.rest(worked) == Nap::Due {
            std::thread::park_timeout(self.policy.nap);
        }
    }

    /// As [`Idle::after`], but for the nap: that is the caller's, who may be
    /// woken from it.
    #[must_use]
    pub fn rest(&mut self, worked: bool) -> Nap {
        match self.step(worked) {
            Step::Go => {}
            Step::Spin => std::hint::spin_loop(),
            Step::GiveWay => std::thread::yield_now(),
            Step::Nap => return Nap::Due,
        }
        Nap::No
    }

    fn step(&mut self, worked: bool) -> Step {
        let IdlePolicy {
            spins,
            yields,
            nap,
            work,
        } = self.policy;
        if worked {
            self.idle = 0;
            self.busy = self.busy.saturating_add(1);
            if work == 0 || self.busy < work {
                return Step::Go;
            }
            self.busy = 0;
            return Step::GiveWay;
        }
        self.busy = 0;
        self.idle = self.idle.saturating_add(1);
        if self.idle <= spins {
            Step::Spin
        } else if self.idle <= spins.saturating_add(yields) || nap.is_zero() {
            Step::GiveWay
        } else {
            Step::Nap
        }
    }
}

/// The part of [`Idle::rest`] that is left to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nap {
    /// It is time to sleep.
    Due,
    /// There is work, or there was a moment ago.
    No,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Go,
    Spin,
    GiveWay,
    Nap,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spins_then_gives_way_then_sleeps() {
        let mut idle = Idle::new(IdlePolicy {
            spins: 2,
            yields: 1,
            work: 2,
            ..IdlePolicy::default()
        });
        let mut steps = |worked: &[bool]| -> Vec<Step> {
            worked.iter().map(|&worked| idle.step(worked)).collect()
        };
        let waiting = [Step::Spin, Step::Spin, Step::GiveWay, Step::Nap, Step::Nap];
        assert_eq!(steps(&[false; 5]), waiting);
        assert_eq!(steps(&[true, false]), [Step::Go, Step::Spin]);
        assert_eq!(
            steps(&[true; 4]),
            [Step::Go, Step::GiveWay, Step::Go, Step::GiveWay]
        );
    }

    #[test]
    fn without_a_nap_it_goes_on_giving_way() {
        let mut idle = Idle::new(IdlePolicy {
            nap: Duration::ZERO,
            ..IdlePolicy::default()
        });
        assert!((0..2_000).all(|_| idle.step(false) == Step::GiveWay));
        assert!((0..2_000).all(|_| idle.step(true) == Step::Go));
    }
}
