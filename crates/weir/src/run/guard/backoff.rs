//! How long to wait before an engine is started again.

use std::time::{Duration, Instant};

/// The first pause.
const FIRST: Duration = Duration::from_millis(100);
/// The longest.
const LONGEST: Duration = Duration::from_secs(10);
/// An engine that ran for so long was well.
const WELL: Duration = Duration::from_secs(30);

/// Pauses that double from failure to failure, until one has run for a while.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    up: Option<Instant>,
}

impl Backoff {
    /// An engine runs.
    pub(super) fn up(&mut self, now: Instant) {
        self.up = Some(now);
    }

    /// An engine has died: how long to wait.
    pub(super) fn pause(&mut self, now: Instant) -> Duration {
        if self.up.take().is_some_and(|up| now - up >= WELL) {
            self.failures = 0;
        }
        let pause = FIRST.saturating_mul(1 << self.failures.min(16));
        self.failures += 1;
        pause.min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit_and_begin_anew_after_a_good_run() {
        let mut backoff = Backoff::default();
        let now = Instant::now();
        let mut pauses =
            |count| -> Vec<u128> { (0..count).map(|_| backoff.pause(now).as_millis()).collect() };
        assert_eq!(pauses(3), [100, 200, 400]);
        assert_eq!(pauses(40).last(), Some(&10_000));
        backoff.up(now);
        assert_eq!(backoff.pause(now + WELL / 2).as_millis(), 10_000);
        backoff.up(now);
        assert_eq!(backoff.pause(now + WELL), FIRST);
    }
}
