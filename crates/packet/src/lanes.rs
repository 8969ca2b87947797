//! Several numbers compared at once.
//!
//! # Safety
//!
//! The intrinsics are of SSE2, which every x86-64 processor has; they work on values and touch no
//! memory.

/// The numbers that are `wanted`, as a mask: bit 2·i for number i.
#[inline(always)]
pub fn equal(numbers: &[u16; 8], wanted: u16) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{
            _mm_cmpeq_epi16, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi16,
        };
        let half = |at: usize| {
            numbers[at..at + 4]
                .iter()
                .rev()
                .fold(0u64, |half, &number| half << 16 | u64::from(number)) as i64
        };
        // SAFETY: module documentation.
        let equal = unsafe {
            let numbers = _mm_set_epi64x(half(4), half(0));
            _mm_movemask_epi8(_mm_cmpeq_epi16(numbers, _mm_set1_epi16(wanted as i16)))
        };
        equal as u32 & 0x5555
    }
    #[cfg(not(target_arch = "x86_64"))]
    one_by_one(numbers, wanted)
}

/// True if both are the same. The compiler by itself compares them word by word, with a branch each.
#[inline(always)]
pub fn same(a: &[u64; 6], b: &[u64; 6]) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{
            _mm_and_si128, _mm_cmpeq_epi32, _mm_movemask_epi8, _mm_set_epi64x,
        };
        // SAFETY: module documentation.
        unsafe {
            let pair = |of: &[u64; 6], at: usize| _mm_set_epi64x(of[at + 1] as i64, of[at] as i64);
            let same = |at: usize| _mm_cmpeq_epi32(pair(a, at), pair(b, at));
            let all = _mm_and_si128(_mm_and_si128(same(0), same(2)), same(4));
            _mm_movemask_epi8(all) == 0xffff
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        a == b
    }
}

/// [`equal`] for processors of other kinds.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn one_by_one(numbers: &[u16; 8], wanted: u16) -> u32 {
    let numbers = numbers.iter().enumerate();
    numbers.fold(0, |mask, (i, &number)| {
        mask | u32::from(number == wanted) << (2 * i)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn both_ways_agree(numbers in prop::array::uniform8(0u16..4), wanted in 0u16..4, top: bool) {
            // With and without the top bit.
            let put = |number: u16| if top { !number } else { number };
            let (numbers, wanted) = (numbers.map(put), put(wanted));
            prop_assert_eq!(equal(&numbers, wanted), one_by_one(&numbers, wanted));
        }

        #[test]
        fn words_are_the_same_if_all_bits_are(words: [u64; 6], bit in 0usize..384) {
            let mut other = words;
            prop_assert!(same(&words, &other));
            other[bit / 64] ^= 1 << (bit % 64);
            prop_assert!(!same(&words, &other));
        }
    }
}
