//! The only randomness of a simulation: what a seed gives.

/// A generator of numbers (xorshift64*, seeded through splitmix64).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

/// A number that looks random, from numbers that do not (splitmix64).
pub fn mix(seed: u64, number: u64) -> u64 {
    let mut z = seed
        .wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Random {
    /// The numbers of a seed; each `stream` of it is another sequence.
    pub fn new(seed: u64, stream: u64) -> Random {
        Random {
            state: mix(mix(seed, 1), stream) | 1,
        }
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`; 0 where `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(n)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True in `parts` of a thousand cases.
    pub fn chance(&mut self, parts: u64) -> bool {
        self.below(1_000) < parts
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len() as u64) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence_and_bounds_hold() {
        let mut one = Random::new(7, 0);
        let mut two = Random::new(7, 0);
        let mut other = Random::new(7, 1);
        let mut differ = 0;
        for _ in 0..1_000 {
            let number = one.number();
            assert_eq!(number, two.number());
            differ += u32::from(number != other.number());
            assert!((5..=9).contains(&one.within(5, 9)));
            two.within(5, 9);
        }
        assert!(differ > 990);
        assert_eq!((one.below(0), one.pick::<u8>(&[])), (0, None));
    }
}
