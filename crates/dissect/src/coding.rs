//! Content codings (RFC 9110 section 8.4.1): gzip, deflate and brotli, at most two on top of one another.
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

/// Codings of a body, the one applied last in the low four bits; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Codings(u8);

impl Codings {
    /// Reads the value of `Content-Encoding`. Codings that are not known, and a third one, leave the
    /// body as it is.
    pub(crate) fn parse(value: &[u8]) -> Codings {
        let mut codings = Codings::default();
        for name in value.split(|&b| b == b',') {
            let name = name.trim_ascii().to_ascii_lowercase();
            let coding = match &name[..] {
                b"" | b"identity" => continue,
                b"gzip" | b"x-gzip" => Coding::Gzip,
                b"deflate" | b"x-deflate" => Coding::Deflate,
                b"br" => Coding::Brotli,
                _ => return Codings::default(),
            };
            if codings.0 >> 4 != 0 {
                return Codings::default();
            }
            codings.0 = codings.0 << 4 | coding as u8;
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
        let known = byte & 15 <= 3 && byte >> 4 <= 3 && (byte & 15 != 0 || byte == 0);
        known.then_some(Codings(byte))
    }

    fn outer(self) -> Option<Coding> {
        match self.0 & 15 {
            1 => Some(Coding::Gzip),
            2 => Some(Coding::Deflate),
            3 => Some(Coding::Brotli),
            _ => None,
        }
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
    pub(crate) fn decode(
        &mut self,
        codings: Codings,
        coded: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let Some(outer) = codings.outer() else {
            out.clear();
            out.extend_from_slice(coded.get(..limit).unwrap_or(coded));
            return Outcome::Whole;
        };
        let Some(inner) = Codings(codings.0 >> 4).outer() else {
            return self.one(outer, coded, limit, out);
        };
        let mut between = std::mem::take(&mut self.between);
        let first = self.one(outer, coded, limit, &mut between);
        let second = self.one(inner, &between, limit, out);
        self.between = between;
        match (first, second) {
            (Outcome::Bad, Outcome::More) => Outcome::Bad,
            (Outcome::Full, Outcome::More) => Outcome::Full,
            (_, second) => second,
        }
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
        let outcome = Decoder::default().decode(codings, coded, limit, &mut out);
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
            ("identity", b"x".to_vec(), b"x"),
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
        assert_eq!(decode("gzip", b"<html>", 100), (Outcome::Bad, vec![]));
    }

    #[test]
    fn a_bomb_stops_at_the_bound() {
        let zeros = compress_to_vec(&vec![0; 50 << 20], 9);
        let (outcome, out) = decode("deflate", &zeros, 1000);
        assert_eq!((outcome, out.len()), (Outcome::Full, 1000));
    }

    #[test]
    fn unknown_codings_and_three_of_them_are_left() {
        assert!(Codings::parse(b"gzip, compress").is_none());
        assert!(Codings::parse(b"gzip, gzip, gzip").is_none());
    }
}
