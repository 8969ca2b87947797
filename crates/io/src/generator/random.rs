//! A small generator of pseudo-random numbers: the packets of a run depend on its seed alone.

/// The wyrand step: a counter with an odd stride, and one wide multiplication to mix it.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

const STRIDE: u64 = 0xa076_1d64_78bd_642f;
const MIX: u64 = 0xe703_7ed1_a0b4_28db;

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    (wide >> 64) as u64 ^ wide as u64
}

/// A well-mixed number that depends only on the two given.
#[inline]
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    fold(fold(a ^ STRIDE, b ^ MIX) ^ STRIDE, MIX)
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds must not begin with neighbouring states.
        Self {
            state: mix(seed, 0x9e37_79b9_7f4a_7c15),
        }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STRIDE);
        fold(self.state, self.state ^ MIX)
    }

    /// A number below `bound`; 0 if `bound` is 0. The bias is below 2^-32.
    #[inline]
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        scale(self.next(), bound)
    }

    /// A number from `low` to `high`, both included.
    #[inline]
    pub(crate) fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below((high - low.min(high)).saturating_add(1))
    }

    /// True in `percent` of 100 cases.
    #[inline]
    pub(crate) fn percent(&mut self, percent: u8) -> bool {
        self.below(100) < u32::from(percent)
    }
}

/// The upper half of `random`, brought below `bound`.
#[inline]
pub(crate) fn scale(random: u64, bound: u32) -> u32 {
    (((random >> 32) * u64::from(bound)) >> 32) as u32
}
