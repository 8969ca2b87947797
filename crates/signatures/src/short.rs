//! Fast patterns of one to three bytes, which the automaton is no help for: a bitmap of the last two bytes,
//! then the patterns themselves. Bytes before the ones to be scanned must be at hand.

#[derive(Debug, Clone)]
pub(crate) struct Shorts {
    /// Pairs of bytes (in any case) with which a pattern may end.
    pairs: Box<[u64; 1024]>,
    /// By last byte in lower case: patterns (in lower case) and their numbers.
    by_last: Vec<Vec<(Box<[u8]>, u32)>>,
}

impl Shorts {
    /// `patterns` with their numbers, each of one to three bytes.
    pub(crate) fn new<'a>(patterns: impl Iterator<Item = (&'a [u8], u32)>) -> Self {
        let mut shorts = Shorts {
            pairs: Box::new([0; 1024]),
            by_last: vec![Vec::new(); 256],
        };
        for (pattern, number) in patterns {
            let lower = pattern.to_ascii_lowercase();
            let Some((&last, before)) = lower.split_last() else {
                continue;
            };
            let befores: Vec<u8> = match before.last() {
                Some(&byte) => vec![byte, byte.to_ascii_uppercase()],
                None => (0..=255).collect(),
            };
            for before in befores {
                for last in [last, last.to_ascii_uppercase()] {
                    let pair = usize::from(u16::from_le_bytes([before, last]));
                    shorts.pairs[pair / 64] |= 1 << (pair % 64);
                }
            }
            shorts.by_last[usize::from(last)].push((lower.into_boxed_slice(), number));
        }
        shorts
    }

    /// Calls `found` with each pattern that ends in `data` behind `start`, and the index behind its end.
    #[inline]
    pub(crate) fn scan(&self, data: &[u8], start: usize, found: &mut impl FnMut(u32, usize)) {
        // Eight bytes hold seven pairs. Only one branch is taken for all of them.
        let mut at = start;
        if at == 0 {
            if let Some(&byte) = data.first() {
                self.check(data, 0, byte, found);
            }
            at = 1;
        }
        // The pairs end at `at` and after it.
        let mut rest = data.get(at - 1..).unwrap_or(&[]);
        while let Some((&eight, _)) = rest.split_first_chunk::<8>() {
            let word = u64::from_le_bytes(eight);
            let mut hits = 0u64;
            for place in 0..7 {
                hits |= self.ends_with((word >> (8 * place)) as u16) << place;
            }
            while hits != 0 {
                // At most 6, so that the byte after it is one of the eight.
                let place = hits.trailing_zeros() as usize;
                self.check(data, at + place, eight[place + 1], found);
                hits &= hits - 1;
            }
            at += 7;
            rest = rest.get(7..).unwrap_or(&[]);
        }
        for pair in rest.windows(2) {
            if let &[before, last] = pair {
                if self.ends_with(u16::from_le_bytes([before, last])) != 0 {
                    self.check(data, at, last, found);
                }
                at += 1;
            }
        }
    }

    #[inline(always)]
    fn ends_with(&self, pair: u16) -> u64 {
        // There is a bit for each pair.
        self.pairs[usize::from(pair / 64)] >> (pair % 64) & 1
    }

    #[cold]
    fn check(&self, data: &[u8], at: usize, last: u8, found: &mut impl FnMut(u32, usize)) {
        let last = usize::from(last.to_ascii_lowercase());
        for (pattern, number) in self.by_last.get(last).map_or(&[][..], Vec::as_slice) {
            let part = (at + 1)
                .checked_sub(pattern.len())
                .and_then(|from| data.get(from..=at));
            if part.is_some_and(|part| part.eq_ignore_ascii_case(pattern)) {
                found(*number, at + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_all(
            patterns in prop::collection::vec("[abA\\x00]{1,3}", 1..6),
            data in "[abAB\\x00]{0,30}",
            start in 0usize..30,
        ) {
            let data = data.as_bytes();
            let start = start.min(data.len());
            let shorts = Shorts::new(patterns.iter().map(String::as_bytes).zip(0..));
            let mut found = Vec::new();
            shorts.scan(data, start, &mut |number, end| found.push((number, end)));
            found.sort_unstable();
            let mut expected = Vec::new();
            for (number, pattern) in patterns.iter().enumerate() {
                for end in start + 1..=data.len() {
                    if end >= pattern.len()
                        && data[end - pattern.len()..end].eq_ignore_ascii_case(pattern.as_bytes())
                    {
                        expected.push((number as u32, end));
                    }
                }
            }
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
