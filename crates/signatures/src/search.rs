//! Finding one byte string in a buffer, with or without regard to case.

use memchr::memmem;

use crate::frequency::byte_rarity;

/// A byte string and the means to find it.
#[derive(Debug, Clone)]
pub(crate) struct Needle {
    bytes: Box<[u8]>,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    /// Case matters, or the needle has no letters.
    Exact(Box<memmem::Finder<'static>>),
    /// Bytes are in lower case. Its rarest byte, in both cases, is looked for first.
    AnyCase { rarest: usize, lower: u8, upper: u8 },
}

impl Needle {
    pub(crate) fn new(bytes: &[u8], nocase: bool) -> Self {
        if nocase && bytes.iter().any(u8::is_ascii_alphabetic) {
            let bytes = bytes.to_ascii_lowercase();
            let (rarest, &byte) = bytes
                .iter()
                .enumerate()
                .max_by_key(|&(_, &byte)| byte_rarity(byte))
                .unwrap_or((0, &0));
            Needle {
                kind: Kind::AnyCase {
                    rarest,
                    lower: byte,
                    upper: byte.to_ascii_uppercase(),
                },
                bytes: bytes.into_boxed_slice(),
            }
        } else {
            Needle {
                bytes: bytes.into(),
                kind: Kind::Exact(Box::new(memmem::Finder::new(bytes).into_owned())),
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Start of the first occurrence that begins at or after `from` and ends at or before `to`.
    pub(crate) fn find(&self, buffer: &[u8], from: usize, to: usize) -> Option<usize> {
        let length = self.bytes.len();
        let to = to.min(buffer.len());
        let area = buffer.get(from..to)?;
        if area.len() < length {
            return None;
        }
        match &self.kind {
            Kind::Exact(finder) => finder.find(area).map(|at| from + at),
            &Kind::AnyCase {
                rarest,
                lower,
                upper,
            } => {
                // The rarest byte stands at `rarest` in an occurrence; only these places are of interest.
                let last = area.len() - length;
                let mut start = 0;
                while start <= last {
                    let rest = area.get(start + rarest..=last + rarest)?;
                    start += if lower == upper {
                        memchr::memchr(lower, rest)?
                    } else {
                        memchr::memchr2(lower, upper, rest)?
                    };
                    let candidate = area.get(start..start + length)?;
                    if candidate.eq_ignore_ascii_case(&self.bytes) {
                        return Some(from + start);
                    }
                    start += 1;
                }
                None
            }
        }
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
            buffer in "[abAB\\-]{0,40}",
            needle in "[abAB\\-]{1,4}",
            nocase: bool,
            from in 0usize..45,
            to in 0usize..45,
        ) {
            let found = Needle::new(needle.as_bytes(), nocase).find(buffer.as_bytes(), from, to);
            prop_assert_eq!(found, naive(buffer.as_bytes(), needle.as_bytes(), nocase, from, to));
        }
    }
}
