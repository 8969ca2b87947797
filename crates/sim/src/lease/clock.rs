//! Clocks of processes: none shows true time.

use weir_packet::Time;

use crate::random::Random;

const MILLION: i128 = 1_000_000;
/// Most parts in a million by which a clock is fast or slow. Two clocks differ by less than the 2 %
/// that leases allow for.
const FASTEST: u64 = 9_000;

/// A process's clock: it began somewhere, and runs at a rate of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    offset: u64,
    /// Parts in a million by which it is fast.
    fast: i64,
}

impl Clock {
    pub(super) fn draw(random: &mut Random, length: u64) -> Clock {
        let offset = if random.chance(200) {
            random.below(length)
        } else {
            random.below(1 << 60)
        };
        let fast = match random.below(4) {
            0 => FASTEST as i64,
            1 => -(FASTEST as i64),
            _ => random.within(0, 2 * FASTEST) as i64 - FASTEST as i64,
        };
        Clock { offset, fast }
    }

    /// What it shows at a true time.
    pub(super) fn local(&self, at: u64) -> Time {
        let passed = i128::from(at) * (MILLION + i128::from(self.fast)) / MILLION;
        Time(self.offset + passed as u64)
    }

    /// The first true time at which it shows this.
    pub(super) fn when(&self, local: Time) -> u64 {
        let shown = i128::from(local.0.saturating_sub(self.offset));
        let rate = MILLION + i128::from(self.fast);
        ((shown * MILLION + rate - 1) / rate) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let mut random = Random::new(1, 0);
        for _ in 0..1_000 {
            let clock = Clock::draw(&mut random, 1_000_000);
            let at = random.below(1 << 45);
            let first = clock.when(clock.local(at));
            assert!(first <= at && at - first <= 1);
            assert_eq!(clock.local(first), clock.local(at));
        }
    }
}
