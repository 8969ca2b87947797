//! Replay window: each transmission is taken once.

use super::count::Reject;

/// Transmissions behind the newest that can still be taken.
const WINDOW: u64 = 1_024;

/// The newest transmission and which of those before it were seen.
#[derive(Debug, Default)]
pub(super) struct ReplayWindow {
    newest: u64,
    /// Bit n % 1,024 for transmission n.
    seen: [u64; (WINDOW / 64) as usize],
}

impl ReplayWindow {
    const fn place(number: u64) -> (usize, u64) {
        ((number % WINDOW / 64) as usize, 1 << (number % 64))
    }

    /// Checks that a transmission may be taken.
    pub(super) fn check(&self, number: u64) -> Result<(), Reject> {
        if number > self.newest {
            return Ok(());
        }
        // There is no transmission 0.
        if number == 0 || self.newest - number >= WINDOW {
            return Err(Reject::TooOld);
        }
        let (word, bit) = ReplayWindow::place(number);
        match self.seen.get(word) {
            Some(seen) if seen & bit == 0 => Ok(()),
            _ => Err(Reject::Replayed),
        }
    }

    /// Takes a transmission that was checked.
    pub(super) fn mark(&mut self, number: u64) {
        if number > self.newest {
            if number - self.newest >= WINDOW {
                self.seen.fill(0);
            } else {
                for skipped in self.newest + 1..number {
                    self.set(skipped, false);
                }
            }
            self.newest = number;
        }
        self.set(number, true);
    }

    fn set(&mut self, number: u64, value: bool) {
        let (word, bit) = ReplayWindow::place(number);
        if let Some(seen) = self.seen.get_mut(word) {
            *seen = if value { *seen | bit } else { *seen & !bit };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Against a set of all numbers ever seen.
    #[test]
    fn each_number_is_taken_once() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = move |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 11) % below
        };
        let mut window = ReplayWindow::default();
        let (mut seen, mut newest) = (BTreeSet::new(), 0_u64);
        for _ in 0..200_000 {
            let step = if next(100) == 0 { 3_000 } else { 9 };
            let number = (newest + next(step)).saturating_sub(next(step * 60));
            let expected = if number > newest {
                Ok(())
            } else if number == 0 || newest - number >= WINDOW {
                Err(Reject::TooOld)
            } else if seen.contains(&number) {
                Err(Reject::Replayed)
            } else {
                Ok(())
            };
            assert_eq!(window.check(number), expected, "{number} after {newest}");
            if expected.is_ok() {
                window.mark(number);
                seen.insert(number);
                newest = newest.max(number);
            }
        }
        assert_eq!(window.check(0), Err(Reject::TooOld));
    }
}
