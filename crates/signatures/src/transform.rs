//! Changes made to a buffer before conditions look at it (`dotprefix`, `to_lowercase`, ...).

use std::ops::Range;

use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::Sha256;

use crate::buffers::{Buffer, Phase, Transaction};
use crate::error::{Fault, Span};
use crate::pcre::{self, Pattern};

/// Most bytes of a buffer that are changed; what lies behind is not looked at.
const MOST: usize = 64 << 10;
/// Most bytes of changed buffers of a message; those behind are not there for rules.
const MOST_TOGETHER: usize = 1 << 20;
/// Most changes of a buffer.
pub(crate) const MOST_CHANGES: usize = 16;
/// Most bytes of the key of `xor`.
const LONGEST_KEY: usize = 255;

/// A change of a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transform {
    /// `dotprefix`: a dot is put in front.
    DotPrefix,
    /// `to_lowercase`.
    Lowercase,
    /// `to_uppercase`.
    Uppercase,
    /// `strip_whitespace`: white space is taken out.
    StripWhitespace,
    /// `compress_whitespace`: of white space in a row the first byte stays.
    CompressWhitespace,
    /// `url_decode`: `%41` and `+` are decoded.
    UrlDecode,
    /// `xor`: with the bytes of a key, again and again.
    Xor(Vec<u8>),
    /// `pcrexform`: what the group of an expression has found; no change where it is not found.
    Pcre(Pattern),
    /// `header_lowercase`: names of header lines in lower case.
    HeaderLowercase,
    /// `strip_pseudo_headers`: lines that begin with a colon are taken out.
    StripPseudoHeaders,
    /// `to_md5`: the 16 bytes of the MD5 of a complete buffer.
    Md5,
    /// `to_sha1`: the 20 bytes of the SHA-1 of a complete buffer.
    Sha1,
    /// `to_sha256`: the 32 bytes of the SHA-256 of a complete buffer.
    Sha256,
}

impl Transform {
    /// The change that a keyword without a value stands for.
    fn named(keyword: &str) -> Option<Transform> {
        Some(match keyword {
            "dotprefix" => Transform::DotPrefix,
            "to_lowercase" => Transform::Lowercase,
            "to_uppercase" => Transform::Uppercase,
            "strip_whitespace" => Transform::StripWhitespace,
            "compress_whitespace" => Transform::CompressWhitespace,
            "url_decode" => Transform::UrlDecode,
            "header_lowercase" => Transform::HeaderLowercase,
            "strip_pseudo_headers" => Transform::StripPseudoHeaders,
            "to_md5" => Transform::Md5,
            "to_sha1" => Transform::Sha1,
            "to_sha256" => Transform::Sha256,
            _ => return None,
        })
    }

    /// True if the keyword is one of a change.
    pub(crate) fn is_keyword(keyword: &str) -> bool {
        Transform::has_value(keyword) || Transform::named(keyword).is_some()
    }

    /// True if the keyword has a value.
    pub(crate) fn has_value(keyword: &str) -> bool {
        matches!(keyword, "xor" | "pcrexform")
    }

    /// The change that a keyword and its value stand for; `None` if the keyword is another one.
    pub(crate) fn parse(keyword: &str, text: &str, value: Span) -> Result<Option<Self>, Fault> {
        if keyword == "pcrexform" {
            return pcre::parse_capture(text, value).map(|found| Some(Transform::Pcre(found)));
        }
        if keyword != "xor" {
            return Ok(Transform::named(keyword));
        }
        let written = value.of(text).trim().trim_matches('"');
        let key = hexadecimal(written).filter(|key| key.len() <= LONGEST_KEY);
        let key = key.ok_or_else(|| {
            Fault::new(
                value,
                "`xor` needs a key of hexadecimal digits, at most 255 bytes",
            )
            .help("write `xor:\"0d0ac8ff\"`")
        })?;
        Ok(Some(Transform::Xor(key)))
    }

    /// Only a complete buffer can be changed so.
    fn needs_all(&self) -> bool {
        matches!(self, Transform::Pcre(_)) || self.is_hash()
    }

    /// True where the result is a hash.
    fn is_hash(&self) -> bool {
        matches!(self, Transform::Md5 | Transform::Sha1 | Transform::Sha256)
    }

    /// Changes the bytes `from` into `into`, which is empty. More may follow them if they are not `complete`.
    fn apply(&self, from: &[u8], complete: bool, into: &mut Vec<u8>) {
        match self {
            Transform::DotPrefix if from.is_empty() => {}
            Transform::DotPrefix => {
                into.push(b'.');
                into.extend_from_slice(from);
            }
            Transform::Lowercase => into.extend(from.iter().map(u8::to_ascii_lowercase)),
            Transform::Uppercase => into.extend(from.iter().map(u8::to_ascii_uppercase)),
            Transform::StripWhitespace => {
                into.extend(from.iter().filter(|byte| !is_space(**byte)));
            }
            Transform::CompressWhitespace => {
                let mut before = false;
                for &byte in from {
                    let space = is_space(byte);
                    if !(space && before) {
                        into.push(byte);
                    }
                    before = space;
                }
            }
            Transform::UrlDecode => {
                // What later bytes may still change waits for them.
                let cut = from.iter().rev().take(2).position(|&byte| byte == b'%');
                let cut = cut.filter(|_| !complete).map_or(0, |behind| behind + 1);
                url_decode(from.get(..from.len() - cut).unwrap_or(from), into);
            }
            Transform::Xor(key) => {
                into.extend(from.iter().zip(key.iter().cycle()).map(|(a, b)| a ^ b));
            }
            Transform::Pcre(pattern) => {
                into.extend_from_slice(pattern.first_group(from).unwrap_or(from));
            }
            Transform::HeaderLowercase => header_lowercase(from, into),
            Transform::StripPseudoHeaders => {
                for line in from.split_inclusive(|&byte| byte == b'\n') {
                    if line.first() != Some(&b':') {
                        into.extend_from_slice(line);
                    }
                }
            }
            Transform::Md5 => into.extend_from_slice(&Md5::digest(from)),
            Transform::Sha1 => into.extend_from_slice(&Sha1::digest(from)),
            Transform::Sha256 => into.extend_from_slice(&Sha256::digest(from)),
        }
    }
}

/// A buffer with changes, at which a rule of a rule set looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) buffer: Buffer,
    pub(crate) transforms: Vec<Transform>,
    /// Rules of messages' heads, and of bodies, look at it.
    pub(crate) phases: [bool; 2],
}

/// Place of a [`Variant`] in its rule set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Changes(u32);

impl Changes {
    /// The variant of this place among those of the rule set.
    fn of(place: usize) -> Changes {
        // Fewer than there are rules.
        Changes(place as u32)
    }
}

/// The variants of a rule set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Variants(Vec<Variant>);

impl Variants {
    /// The place of a buffer with changes, as a rule of this phase looks at it; `None` without changes.
    pub(crate) fn add(
        &mut self,
        buffer: Buffer,
        transforms: &[Transform],
        phase: Phase,
    ) -> Option<Changes> {
        if transforms.is_empty() {
            return None;
        }
        let same = |known: &Variant| known.buffer == buffer && known.transforms == transforms;
        let place = self.0.iter().position(same).unwrap_or_else(|| {
            self.0.push(Variant {
                buffer,
                transforms: transforms.to_vec(),
                phases: [false; 2],
            });
            self.0.len() - 1
        });
        if let Some(variant) = self.0.get_mut(place) {
            variant.phases[phase as usize] = true;
        }
        Some(Changes::of(place))
    }
}

/// The changed buffers of one message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changed {
    bytes: Vec<u8>,
    spare: [Vec<u8>; 2],
    spans: Vec<(Changes, Range<usize>, bool)>,
    /// Buffers that were left out, since the scratch was made.
    pub(crate) cut: u64,
}

impl Changed {
    /// Makes the buffers that rules of the message's phase look at.
    pub(crate) fn fill(&mut self, message: &Transaction<'_>, variants: &Variants) {
        self.bytes.clear();
        self.spans.clear();
        for (place, variant) in variants.0.iter().enumerate() {
            if !variant.phases[message.phase as usize] {
                continue;
            }
            for buffer in message.buffers {
                let mut transforms = variant.transforms.iter();
                let hashed = transforms.any(Transform::needs_all);
                // A hash is short whatever it is of: it is of the whole buffer.
                let first = variant.transforms.first();
                let most = match first.is_some_and(Transform::is_hash) {
                    true => usize::MAX,
                    false => MOST,
                };
                let complete = buffer.complete && buffer.bytes.len() <= most;
                if buffer.buffer != variant.buffer || hashed && !complete {
                    continue;
                }
                let start = self.bytes.len();
                if start > MOST_TOGETHER {
                    self.cut += 1;
                    continue;
                }
                let [now, next] = &mut self.spare;
                now.clear();
                now.extend_from_slice(buffer.bytes.get(..most).unwrap_or(buffer.bytes));
                for transform in &variant.transforms {
                    next.clear();
                    transform.apply(now, complete, next);
                    std::mem::swap(now, next);
                }
                self.bytes.extend_from_slice(now);
                let span = start..self.bytes.len();
                self.spans.push((Changes::of(place), span, complete));
            }
        }
    }

    /// The buffers of a variant, each with whether it is complete.
    pub(crate) fn of(&self, changes: Changes) -> impl Iterator<Item = (&[u8], bool)> {
        let spans = self.spans.iter();
        spans
            .filter(move |(known, ..)| *known == changes)
            .map(|(_, span, complete)| (self.bytes.get(span.clone()).unwrap_or(&[]), *complete))
    }
}

/// Bytes written as hexadecimal digits; `None` where they are not, or nothing.
pub(crate) fn hexadecimal(written: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = written.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |&[high, low]: &[u8; 2]| Some((digit(high)? << 4 | digit(low)?) as u8);
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    bytes.filter(|bytes| rest.is_empty() && !bytes.is_empty())
}

/// White space as C's `isspace` has it.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | 9..=13)
}

fn url_decode(from: &[u8], into: &mut Vec<u8>) {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let mut at = 0;
    while let Some(&byte) = from.get(at) {
        at += 1;
        let pair = (digit(from.get(at)), digit(from.get(at + 1)));
        match (byte, pair) {
            (b'%', (Some(high), Some(low))) => {
                // Two hexadecimal digits fit a byte.
                into.push((high << 4 | low) as u8);
                at += 2;
            }
            (b'+', _) => into.push(b' '),
            (byte, _) => into.push(byte),
        }
    }
}

fn header_lowercase(from: &[u8], into: &mut Vec<u8>) {
    let mut name = true;
    for &byte in from {
        into.push(if name {
            byte.to_ascii_lowercase()
        } else {
            byte
        });
        match byte {
            b':' => name = false,
            b'\n' => name = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change() {
        for (transform, before, after) in [
            (Transform::DotPrefix, "", ""),
            (Transform::DotPrefix, "example.org", ".example.org"),
            (Transform::Lowercase, "aBC1", "abc1"),
            (Transform::Uppercase, "aBC1", "ABC1"),
            (Transform::StripWhitespace, " a\t b\r\n", "ab"),
            (Transform::CompressWhitespace, "a\t \r\nb c", "a\tb c"),
            (Transform::UrlDecode, "%41+b%4", "A b%4"),
            (Transform::Xor(vec![1, 2]), "ab", "``"),
            (
                Transform::HeaderLowercase,
                "Ab: Cd\r\nEF:G",
                "ab: Cd\r\nef:G",
            ),
            (
                Transform::StripPseudoHeaders,
                ":a: b\r\nc: d\r\n",
                "c: d\r\n",
            ),
        ] {
            let mut changed = Vec::new();
            transform.apply(before.as_bytes(), true, &mut changed);
            assert_eq!(changed, after.as_bytes(), "{transform:?}");
        }
    }

    #[test]
    fn what_may_still_change_waits() {
        for (before, after) in [
            ("a%", "a"),
            ("a%4", "a"),
            ("a%41", "aA"),
            ("a%4%", "a%4"),
            ("", ""),
        ] {
            let mut changed = Vec::new();
            Transform::UrlDecode.apply(before.as_bytes(), false, &mut changed);
            assert_eq!(changed, after.as_bytes(), "{before}");
        }
    }
}
