//! Warnings of datagrams that an agent refuses: anybody may send some, so they are limited.

use std::time::{Duration, Instant};

/// Between two warnings.
const PAUSE: Duration = Duration::from_secs(1);

/// Limits warnings to one in [`PAUSE`]; the next one has the number of those that were kept back.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    last: Option<Instant>,
    kept_back: u64,
}

impl Refusals {
    /// One is refused now: how many were kept back before, if this is to be told.
    pub(super) fn tell(&mut self, now: Instant) -> Option<u64> {
        let recently = |last| now.duration_since(last) < PAUSE;
        if self.last.is_some_and(recently) {
            self.kept_back += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.kept_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_told_once_a_second_with_its_size() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        let told: Vec<Option<u64>> = [0, 1, 999, 1_000, 1_001, 2_500]
            .map(|ms| refusals.tell(start + Duration::from_millis(ms)))
            .into();
        assert_eq!(told, [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
