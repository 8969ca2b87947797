//! When what has died is started again, and when it is not.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

/// Which failures no longer count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forget {
    /// Those that are older.
    Older(Duration),
    /// All before a start that was at work for so long.
    OnceUpFor(Duration),
}

/// How failures are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartPolicy {
    /// The first restart is at once; pauses begin with the second.
    pub first_at_once: bool,
    /// The first pause. Each failure that counts doubles it.
    pub pause: Duration,
    /// The longest pause.
    pub longest: Duration,
    /// Which failures count.
    pub forget: Forget,
    /// Failures that count, beyond which nothing is started again. `None`: no
    /// limit.
    pub most: Option<usize>,
    /// The same for starts in a row that failed before they got to work, however
    /// much time lies between them.
    pub most_false_starts: Option<usize>,
}

/// Follows a [`RestartPolicy`].
#[derive(Debug)]
pub struct Restarts {
    policy: RestartPolicy,
    /// Failures that count, oldest first. Without a limit only as many as make
    /// a pause longer.
    failures: VecDeque<Instant>,
    false_starts: usize,
}

/// Doublings after which a pause is its longest in any policy.
const DOUBLINGS: usize = 16;

impl Restarts {
    /// None has failed yet.
    pub fn new(policy: RestartPolicy) -> Restarts {
        Restarts {
            policy,
            failures: VecDeque::new(),
            false_starts: 0,
        }
    }

    /// One failed at `now` that was at work for `up`, or never. Gives the pause
    /// before the next start; `None` where there is to be none.
    pub fn failed(&mut self, now: Instant, up: Option<Duration>) -> Option<Duration> {
        let policy = self.policy;
        match up {
            None => self.false_starts += 1,
            Some(_) => self.false_starts = 0,
        }
        match policy.forget {
            Forget::Older(window) => self
                .failures
                .retain(|then| now.saturating_duration_since(*then) < window),
            Forget::OnceUpFor(well) if up.is_some_and(|up| up >= well) => self.failures.clear(),
            Forget::OnceUpFor(_) => {}
        }
        if up.is_some() || !self.counts_apart() {
            self.failures.push_back(now);
        }
        let beyond = |count: usize, most: Option<usize>| most.is_some_and(|most| count > most);
        if beyond(self.failures.len(), policy.most)
            || beyond(self.false_starts, policy.most_false_starts)
        {
            return None;
        }
        let pause = self.pause();
        if policy.most.is_none() && self.failures.len() > DOUBLINGS {
            self.failures.pop_front();
        }
        Some(pause)
    }

    /// A false start is counted apart where that has a limit of its own and failures are
    /// forgotten by their age: the start may have taken longer to fail than that age.
    fn counts_apart(&self) -> bool {
        self.policy.most_false_starts.is_some() && matches!(self.policy.forget, Forget::Older(_))
    }

    fn pause(&self) -> Duration {
        let apart = if self.counts_apart() {
            self.false_starts
        } else {
            0
        };
        let failures = self.failures.len() + apart;
        let before = failures.saturating_sub(1).min(DOUBLINGS) as u32;
        let doubled = match (self.policy.first_at_once, before) {
            (true, 0) => 0,
            (true, before) => 1 << (before - 1),
            (false, before) => 1 << before,
        };
        let pause = self.policy.pause.saturating_mul(doubled);
        pause.min(self.policy.longest)
    }
}

/// Why there is no further start, for people: `9 times within 30 s`.
impl fmt::Display for Restarts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.false_starts, self.policy.forget) {
            (0, Forget::Older(window)) => {
                let (failures, window) = (self.failures.len(), window.as_secs());
                write!(f, "{failures} times within {window} s")
            }
            (0, Forget::OnceUpFor(_)) => write!(f, "{} times", self.failures.len()),
            (failures, _) => write!(f, "{failures} times before it was ready"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Duration = Duration::from_secs(30);
    const UP: Option<Duration> = Some(Duration::from_millis(1));

    fn of_process() -> RestartPolicy {
        RestartPolicy {
            first_at_once: true,
            pause: Duration::ZERO,
            longest: Duration::ZERO,
            forget: Forget::Older(LIFE),
            most: Some(8),
            most_false_starts: Some(2),
        }
    }

    #[test]
    fn failures_are_too_many_only_where_they_are_close() {
        let mut restarts = Restarts::new(of_process());
        let mut now = Instant::now();
        for _ in 0..100 {
            assert_eq!(restarts.failed(now, UP), Some(Duration::ZERO));
            now += LIFE / 8;
        }
        assert!((0..=8).any(|_| restarts.failed(now, UP).is_none()));
        assert_eq!(restarts.to_string(), "9 times within 30 s");
    }

    /// A start that takes a minute to fail is no better than one that fails at
    /// once; and one that works, but dies now and then, is not taken for it.
    #[test]
    fn false_starts_are_counted_apart_and_in_a_row() {
        let mut now = Instant::now();
        let mut restarts = Restarts::new(of_process());
        for _ in 0..3 {
            assert!(restarts.failed(now, UP).is_some());
        }
        for _ in 0..10 {
            assert!(restarts.failed(now, None).is_some());
            assert!(restarts.failed(now, None).is_some());
            now += LIFE;
            assert!(restarts.failed(now, UP).is_some());
        }
        assert!(restarts.failed(now, None).is_some());
        assert!(restarts.failed(now + 2 * LIFE, None).is_some());
        assert!(restarts.failed(now + 4 * LIFE, None).is_none());
        assert_eq!(restarts.to_string(), "3 times before it was ready");
    }

    #[test]
    fn a_pause_grows_with_each_false_start_too() {
        let policy = RestartPolicy {
            pause: Duration::from_secs(1),
            longest: LIFE,
            ..of_process()
        };
        let mut restarts = Restarts::new(policy);
        let now = Instant::now();
        let ups = [UP, None, None, UP, None, None, None];
        let pauses = ups.map(|up| restarts.failed(now, up).map(|pause| pause.as_secs()));
        let grown = [0, 1, 2, 1, 2, 4].map(Some);
        assert_eq!(pauses, [&grown[..], &[None]].concat()[..]);
    }

    #[test]
    fn pauses_double_until_one_has_been_at_work_for_long_or_too_many_failed() {
        let policy = RestartPolicy {
            pause: Duration::from_secs(1),
            longest: LIFE,
            forget: Forget::OnceUpFor(LIFE),
            ..of_process()
        };
        let mut restarts = Restarts::new(policy);
        let now = Instant::now();
        let mut pauses = |up, times| -> Vec<Option<u64>> {
            let one = |_| restarts.failed(now, up).map(|pause| pause.as_secs());
            (0..times).map(one).collect()
        };
        assert_eq!(pauses(UP, 4), [0, 1, 2, 4].map(Some));
        assert_eq!(pauses(Some(LIFE), 2), [0, 0].map(Some));
        assert_eq!(pauses(UP, 6), [1, 2, 4, 8, 16, 30].map(Some));
        assert_eq!(pauses(UP, 2), [Some(30), None]);
        assert_eq!(pauses(Some(LIFE), 1), [Some(0)]);
        assert_eq!(pauses(None, 3), [Some(1), Some(2), None]);
    }

    #[test]
    fn without_a_limit_pauses_grow_to_the_longest_and_memory_does_not() {
        let policy = RestartPolicy {
            first_at_once: false,
            pause: Duration::from_millis(100),
            longest: Duration::from_secs(10),
            forget: Forget::OnceUpFor(LIFE),
            most: None,
            most_false_starts: None,
        };
        let mut restarts = Restarts::new(policy);
        let now = Instant::now();
        let mut pauses = |up, times: usize| -> Vec<u128> {
            let one = |_| restarts.failed(now, up).map(|pause| pause.as_millis());
            (0..times).filter_map(one).collect()
        };
        assert_eq!(pauses(None, 3), [100, 200, 400]);
        assert_eq!(pauses(None, 40).last(), Some(&10_000));
        assert_eq!(pauses(Some(LIFE / 2), 1), [10_000]);
        assert_eq!(pauses(Some(LIFE), 1), [100]);
        assert!(restarts.failures.len() <= DOUBLINGS + 1);
    }
}
