//! Finding one byte string in a buffer, with or without regard to case.

use memchr::memmem;

use crate::frequency::byte_rarity;

/// A byte string and the means to find it.
#[derive(Debug, Clone)]
pub(crate) struct Needle {
    /// In lower case when case does not matter.
    bytes: Box<[u8]>,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    /// Case matters, or the needle has no letters.
    Exact(Box<memmem::Finder<'static>>),
    /// The two rarest bytes are looked for first.
    AnyCase([Probe; 2]),
}

/// A byte at a place of the needle.
#[derive(Debug, Clone, Copy)]
struct Probe {
    at: usize,
    /// The bit that makes both cases of a letter the same; 0 for other bytes.
    fold: u8,
    folded: u8,
}

impl Probe {
    fn new(bytes: &[u8], at: usize) -> Self {
        let byte = bytes.get(at).copied().unwrap_or(0);
        let fold = if byte.is_ascii_alphabetic() { 0x20 } else { 0 };
        Probe {
            at,
            fold,
            folded: byte | fold,
        }
    }

    #[inline(always)]
    fn fits(self, byte: u8) -> bool {
        byte | self.fold == self.folded
    }
}

impl Needle {
    pub(crate) fn new(bytes: &[u8], nocase: bool) -> Self {
        if nocase && bytes.iter().any(u8::is_ascii_alphabetic) {
            let bytes = bytes.to_ascii_lowercase();
            let rarest = |but: Option<usize>| {
                let places = (0..bytes.len()).filter(|&at| Some(at) != but);
                places.max_by_key(|&at| bytes.get(at).map(|&byte| byte_rarity(byte)))
            };
            let first = rarest(None).unwrap_or(0);
            let second = rarest(Some(first)).unwrap_or(first);
            Needle {
                kind: Kind::AnyCase([Probe::new(&bytes, first), Probe::new(&bytes, second)]),
                bytes: bytes.into_boxed_slice(),
            }
        } else {
            Needle {
                bytes: bytes.into(),
                kind: Kind::Exact(Box::new(memmem::Finder::new(bytes).into_owned())),
            }
        }
    }

    /// How seldom the needle is likely to be found: the sum of its bytes' rarities, and its length.
    pub(crate) fn rarity(&self) -> u32 {
        self.bytes.iter().map(|&byte| byte_rarity(byte) + 1).sum()
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True if the needle stands at `start`; bytes behind the end of the buffer are taken to fit.
    pub(crate) fn may_stand_at(&self, buffer: &[u8], start: usize) -> bool {
        let rest = buffer.get(start..).unwrap_or(&[]);
        let length = rest.len().min(self.bytes.len());
        let (Some(part), Some(bytes)) = (rest.get(..length), self.bytes.get(..length)) else {
            return true;
        };
        match self.kind {
            Kind::Exact(_) => part == bytes,
            Kind::AnyCase(_) => part.eq_ignore_ascii_case(bytes),
        }
    }

    /// Start of the first occurrence that begins at or after `from` and ends at or before `to`.
    pub(crate) fn find(&self, buffer: &[u8], from: usize, to: usize) -> Option<usize> {
        let area = buffer.get(from..to.min(buffer.len()))?;
        let last = area.len().checked_sub(self.bytes.len())?;
        let found = match &self.kind {
            Kind::Exact(finder) => finder.find(area),
            Kind::AnyCase(probes) => self.find_any_case(area, last, *probes),
        };
        found.map(|at| from + at)
    }

    /// The first occurrence that begins at `last` or before. The loops over blocks have no branches, so that
    /// the compiler turns them into vector instructions.
    fn find_any_case(&self, area: &[u8], last: usize, [a, b]: [Probe; 2]) -> Option<usize> {
        const BLOCK: usize = 32;
        let check = |start: usize| {
            let part = area.get(start..start + self.bytes.len());
            part.is_some_and(|part| part.eq_ignore_ascii_case(&self.bytes))
        };
        // The bytes at the places of the probes, for each possible start.
        let first = area.get(a.at..=a.at + last)?;
        let second = area.get(b.at..=b.at + last)?;
        let (mut start, mut first_rest, mut second_rest) = (0, first, second);
        while let (Some((first, first_next)), Some((second, second_next))) = (
            first_rest.split_first_chunk::<BLOCK>(),
            second_rest.split_first_chunk::<BLOCK>(),
        ) {
            let mut hit = false;
            for at in 0..BLOCK {
                hit |= a.fits(first[at]) & b.fits(second[at]);
            }
            if hit {
                for at in 0..BLOCK {
                    if a.fits(first[at]) && b.fits(second[at]) && check(start + at) {
                        return Some(start + at);
                    }
                }
            }
            start += BLOCK;
            (first_rest, second_rest) = (first_next, second_next);
        }
        (start..=last).find(|&at| check(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive(buffer: &[u8], needle: &[u8], nocase: bool, from: usize, to: usize) -> Option<usize> {
        (from..=to.min(buffer.len()).checked_sub(needle.len())?).find(|&at| {
            let part = &buffer[at..at + needle.len()];
            part == needle || nocase && part.eq_ignore_ascii_case(needle)
        })
    }

    proptest! {
        #[test]
        fn finds_what_a_plain_loop_finds(
            buffer in "[abAB\\-]{0,40}|[abAB\\-]{90,140}",
            needle in "[abAB\\-]{1,4}|[ab]{5,9}",
            nocase: bool,
            from in 0usize..45,
            to in prop_oneof![0usize..45, 45usize..150],
        ) {
            let found = Needle::new(needle.as_bytes(), nocase).find(buffer.as_bytes(), from, to);
            prop_assert_eq!(found, naive(buffer.as_bytes(), needle.as_bytes(), nocase, from, to));
        }
    }
}
