//! Content codings (RFC 9110 section 8.4.1): gzip, deflate and brotli, at most three on top of one another.
//!
//! A state holds the compressed bytes and no decompressor: what they stand for is computed from the first
//! one each time their number has doubled, and at the end of the body. So a snapshot is a copy of bytes,
//! whatever library decompresses, and all of a body's rounds together cost at most twice the last one's
//! input, and at most 18 times the output's bound.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};

/// One coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Coding {
    Gzip = 1,
    Deflate = 2,
    Brotli = 3,
}

/// Most codings on top of one another; Suricata's `response-body-decompress-layer-limit` is 2 by default.
const MOST_CODINGS: u32 = 3;
const CODING_BITS: u32 = 2;
/// Compressed bytes by which it is known whether a coding was applied.
pub(crate) const SURE: usize = 512;
/// Bytes that any text may give as bare deflate, which has nothing to know it by, before it is wrong.
const FEW: usize = 64;

/// Codings of a body, the one applied last in the low two bits, and so on; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Codings(u8);

impl Codings {
    /// Reads the value of `Content-Encoding` as libhtp does, for whom a word that has `gzip` or `deflate` in it
    /// stands for that, and another one for nothing. Codings beyond the third leave the body as it is.
    pub(crate) fn parse(value: &[u8]) -> Codings {
        let mut codings = Codings::default();
        for word in value.split(|b| matches!(b, b',' | b' ' | b'\t')) {
            let word = word.to_ascii_lowercase();
            let has = |name: &[u8]| word.windows(name.len()).any(|part| part == name);
            let coding = if has(b"gzip") {
                Coding::Gzip
            } else if has(b"deflate") {
                Coding::Deflate
            } else if word == b"br" {
                Coding::Brotli
            } else {
                continue;
            };
            if codings.0 >> ((MOST_CODINGS - 1) * CODING_BITS) != 0 {
                return Codings::default();
            }
            codings.0 = codings.0 << CODING_BITS | coding as u8;
        }
        codings
    }

    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn to_byte(self) -> u8 {
        self.0
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Codings> {
        (u32::from(byte) >> (MOST_CODINGS * CODING_BITS) == 0).then_some(Codings(byte))
    }

    /// From the outermost one inwards.
    fn each(self) -> impl Iterator<Item = Coding> {
        (0..MOST_CODINGS).filter_map(move |at| match self.0 >> (at * CODING_BITS) & 3 {
            1 => Some(Coding::Gzip),
            2 => Some(Coding::Deflate),
            3 => Some(Coding::Brotli),
            _ => None,
        })
    }
}

/// How decompressing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The end of the coding was reached.
    Whole,
    /// More input is needed.
    More,
    /// The output is as long as it may be.
    Full,
    /// The input is not of this coding; the output is what could be read.
    Bad,
}

/// Memory to decompress in, once for all flows. Brotli's window, at most 16 MiB, comes on top while it is
/// at work.
#[derive(Default)]
pub(crate) struct Decoder {
    inflate: Box<DecompressorOxide>,
    between: Vec<u8>,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decoder")
    }
}

impl Decoder {
    /// Decompresses `coded` into `out`, which is emptied first, up to `limit` bytes.
    ///
    /// A coding of which the first bytes are not is passed over: servers announce codings that they do not
    /// apply, and browsers show such bodies. [`Outcome::Bad`] is then of none that is. Whether it is passed over
    /// depends on its first [`SURE`] bytes alone, so that nothing that was handed out changes; unless these bytes are
    /// the `last` ones, nothing is decompressed before they are there.
    pub(crate) fn decode(
        &mut self,
        (codings, coded, last): (Codings, &[u8], bool),
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Outcome {
        out.clear();
        out.extend_from_slice(coded.get(..limit).unwrap_or(coded));
        let mut all = Outcome::Bad;
        let mut from = std::mem::take(&mut self.between);
        for (layer, coding) in codings.each().enumerate() {
            let coded = if layer == 0 {
                coded
            } else {
                std::mem::swap(&mut from, out);
                &from[..]
            };
            if !last && coded.len() < SURE {
                out.clear();
                all = Outcome::More;
                break;
            }
            let few = if coding == Coding::Deflate { FEW } else { 0 };
            let is_other = |outcome, out: &[u8]| outcome == Outcome::Bad && out.len() <= few;
            let mut outcome = self.one(coding, coded, limit, out);
            let mut passed_over = is_other(outcome, out);
            if let (true, Some(start)) = (passed_over, coded.get(..SURE)) {
                let at_start = self.one(coding, start, limit, out);
                passed_over = is_other(at_start, out);
                if !passed_over {
                    outcome = self.one(coding, coded, limit, out);
                }
            }
            if passed_over {
                out.clear();
                out.extend_from_slice(coded.get(..limit).unwrap_or(coded));
                continue;
            }
            all = match (all, outcome) {
                // The outer coding was cut at the bound: the inner one gets no more.
                (Outcome::Full, Outcome::More) => Outcome::Full,
                (_, outcome) => outcome,
            };
        }
        self.between = from;
        all
    }

    fn one(&mut self, coding: Coding, coded: &[u8], limit: usize, out: &mut Vec<u8>) -> Outcome {
        out.clear();
        out.resize(limit, 0);
        let (outcome, length) = match coding {
            Coding::Gzip => self.gzip(coded, out),
            Coding::Deflate => {
                let (outcome, _, length) = self.inflate(coded, out, is_zlib(coded));
                (outcome, length)
            }
            Coding::Brotli => brotli(coded, out),
        };
        out.truncate(length);
        outcome
    }

    /// Members, one after another (RFC 1952).
    fn gzip(&mut self, mut coded: &[u8], out: &mut [u8]) -> (Outcome, usize) {
        let mut length = 0;
        loop {
            let header = match gzip_header(coded) {
                Ok(Some(header)) => header,
                Ok(None) => return (Outcome::More, length),
                // Behind a member anything may stand.
                Err(()) if length > 0 => return (Outcome::Whole, length),
                Err(()) => return (Outcome::Bad, length),
            };
            let data = coded.get(header..).unwrap_or(&[]);
            let place = out.get_mut(length..).unwrap_or(&mut []);
            let (outcome, used, written) = self.inflate(data, place, false);
            length += written;
            if outcome != Outcome::Whole {
                return (outcome, length);
            }
            // Check sum and length, four bytes each.
            coded = data.get(used + 8..).unwrap_or(&[]);
            if coded.is_empty() {
                return (Outcome::Whole, length);
            }
            if written == 0 && length == 0 {
                return (Outcome::Bad, 0);
            }
        }
    }

    /// Returns the outcome, bytes used and bytes written.
    fn inflate(&mut self, data: &[u8], out: &mut [u8], zlib: bool) -> (Outcome, usize, usize) {
        use inflate_flags::*;
        self.inflate.init();
        // More input would come: without the flag what is there would not all be read.
        let mut flags = TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF | TINFL_FLAG_HAS_MORE_INPUT;
        if zlib {
            flags |= TINFL_FLAG_PARSE_ZLIB_HEADER;
        }
        let (status, used, written) = decompress(&mut self.inflate, data, out, 0, flags);
        let outcome = match status {
            TINFLStatus::Done | TINFLStatus::Adler32Mismatch => Outcome::Whole,
            TINFLStatus::NeedsMoreInput | TINFLStatus::FailedCannotMakeProgress => Outcome::More,
            TINFLStatus::HasMoreOutput => Outcome::Full,
            _ => Outcome::Bad,
        };
        (outcome, used, written)
    }
}

/// True where a zlib header stands in front (RFC 1950); servers also send bare deflate.
fn is_zlib(coded: &[u8]) -> bool {
    match coded {
        [cmf, flags, ..] => {
            cmf & 15 == 8 && (u16::from(*cmf) << 8 | u16::from(*flags)).is_multiple_of(31)
        }
        [cmf] => cmf & 15 == 8,
        [] => true,
    }
}

/// Length of a gzip header (RFC 1952 section 2.3); `None` where more bytes are needed.
fn gzip_header(coded: &[u8]) -> Result<Option<usize>, ()> {
    const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
    if !coded.iter().zip(MAGIC).all(|(&a, b)| a == b) {
        return Err(());
    }
    let Some(&flags) = coded.get(3) else {
        return Ok(None);
    };
    let mut at = 10;
    if flags & 4 != 0 {
        let Some(&[low, high]) = coded.get(at..at + 2) else {
            return Ok(None);
        };
        at += 2 + usize::from(u16::from_le_bytes([low, high]));
    }
    for text in [8, 16] {
        if flags & text != 0 {
            let rest = coded.get(at..).unwrap_or(&[]);
            let Some(end) = rest.iter().position(|&b| b == 0) else {
                return Ok(None);
            };
            at += end + 1;
        }
    }
    if flags & 2 != 0 {
        at += 2;
    }
    Ok((coded.len() >= at).then_some(at))
}

fn brotli(coded: &[u8], out: &mut [u8]) -> (Outcome, usize) {
    // Strict: no windows beyond 16 MiB (RFC 7932 section 9.1).
    let mut state = BrotliState::new_strict(
        StandardAlloc::default(),
        StandardAlloc::default(),
        StandardAlloc::default(),
    );
    let (mut room, mut written, mut total) = (out.len(), 0, 0);
    let (mut left, mut used) = (coded.len(), 0);
    let result = BrotliDecompressStream(
        &mut left,
        &mut used,
        coded,
        &mut room,
        &mut written,
        out,
        &mut total,
        &mut state,
    );
    let outcome = match result {
        BrotliResult::ResultSuccess => Outcome::Whole,
        BrotliResult::NeedsMoreInput => Outcome::More,
        BrotliResult::NeedsMoreOutput => Outcome::Full,
        BrotliResult::ResultFailure => Outcome::Bad,
    };
    (outcome, written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use miniz_oxide::deflate::{compress_to_vec, compress_to_vec_zlib};

    fn decode(codings: &str, coded: &[u8], limit: usize) -> (Outcome, Vec<u8>) {
        let mut out = Vec::new();
        let codings = Codings::parse(codings.as_bytes());
        let outcome = Decoder::default().decode((codings, coded, true), limit, &mut out);
        (outcome, out)
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut out = vec![0x1f, 0x8b, 8, 8 | 4, 0, 0, 0, 0, 0, 3, 2, 0, 7, 7];
        out.extend_from_slice(b"name\0");
        out.extend(compress_to_vec(text, 6));
        out.extend([0; 8]);
        out
    }

    #[test]
    fn every_coding_gives_the_text_back() {
        let text: Vec<u8> = (0..3000u32)
            .flat_map(|n| n.to_string().into_bytes())
            .collect();
        let zlib = compress_to_vec_zlib(&text, 6);
        let members = [gzip(&text[..100]), gzip(&text[100..])].concat();
        // An empty last block alone (RFC 7932 section 9.2), and one that stores "weir".
        let brotli = [0x8b, 0x01, 0x80, b'w', b'e', b'i', b'r', 0x03];
        for (codings, coded, expected) in [
            ("gzip", gzip(&text), &text[..]),
            ("x-gzip", members, &text),
            ("deflate", zlib, &text),
            ("deflate", compress_to_vec(&text, 6), &text),
            ("gzip, deflate", compress_to_vec(&gzip(&text), 6), &text),
            ("br", brotli.to_vec(), b"weir"),
        ] {
            let (outcome, out) = decode(codings, &coded, 1 << 16);
            assert_eq!((outcome, &out[..]), (Outcome::Whole, expected), "{codings}");
        }
    }

    #[test]
    fn what_is_cut_gives_what_there_is() {
        let text = b"some text that is long enough, some text that is long enough".repeat(40);
        let coded = gzip(&text);
        for cut in 0..coded.len() - 8 {
            let (outcome, out) = decode("gzip", &coded[..cut], 1 << 16);
            assert!(outcome == Outcome::More || cut > coded.len() - 12, "{cut}");
            assert!(text.starts_with(&out));
        }
        let (outcome, out) = decode("gzip", &coded, 100);
        assert_eq!((outcome, &out[..]), (Outcome::Full, &text[..100]));
        assert_eq!(
            decode("gzip", b"<html>", 100),
            (Outcome::Bad, b"<html>".to_vec())
        );
    }

    #[test]
    fn a_bomb_stops_at_the_bound() {
        let zeros = compress_to_vec(&vec![0; 50 << 20], 9);
        let (outcome, out) = decode("deflate", &zeros, 1000);
        assert_eq!((outcome, out.len()), (Outcome::Full, 1000));
    }

    #[test]
    fn codings_are_found_in_odd_values() {
        let gzip = Codings::parse(b"gzip");
        for value in [
            &b"x gzip"[..],
            b"gzip;",
            b": GZip",
            b"\xa0gzip\x0b",
            b"gzip, compress",
        ] {
            assert_eq!(Codings::parse(value), gzip, "{value:?}");
        }
        assert!(Codings::parse(b"compress, identity").is_none());
        assert!(!Codings::parse(b"gzip, gzip, gzip").is_none());
        assert!(Codings::parse(b"gzip, gzip, gzip, gzip").is_none());
    }

    #[test]
    fn codings_that_were_not_applied_are_passed_over() {
        let text = b"some text, some text, some text";
        let deflated = compress_to_vec(text, 6);
        for codings in [
            "deflate, gzip",
            "gzip, deflate",
            "gzip, deflate, gzip",
            "deflate, deflate",
        ] {
            assert_eq!(
                decode(codings, &deflated, 1 << 16),
                (Outcome::Whole, text.to_vec()),
                "{codings}"
            );
        }
        let three = gzip(&compress_to_vec(&gzip(text), 6));
        assert_eq!(
            decode("gzip, deflate, gzip", &three, 1 << 16),
            (Outcome::Whole, text.to_vec())
        );
    }
}
