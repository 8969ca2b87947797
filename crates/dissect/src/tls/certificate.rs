//! Names, serial number and validity of a certificate (RFC 5280), as Suricata shows them.

use std::io::Write;

use sha1::{Digest, Sha1};

use super::der::Der;
use crate::field::{Field, Number};
use crate::values::Values;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 2;
const OBJECT: u8 = 6;
const UTC_TIME: u8 = 0x17;
const BMP_STRING: u8 = 0x1e;

/// Adds the fields of a certificate; false where it can't be read to the end of its names.
pub(super) fn put(certificate: &[u8], values: &mut Values) -> bool {
    values.make(Field::TlsFingerprint, |out| {
        pairs(&Sha1::digest(certificate), false, out);
    });
    read(certificate, values).is_some()
}

fn read(certificate: &[u8], values: &mut Values) -> Option<()> {
    let mut body = Der(Der(Der(certificate).expect(SEQUENCE)?).expect(SEQUENCE)?);
    let (mut tag, mut content) = body.next()?;
    if tag == 0xa0 {
        // The version, where it is not the first.
        (tag, content) = body.next()?;
    }
    if tag != INTEGER {
        return None;
    }
    values.make(Field::TlsSerial, |out| pairs(content, true, out));
    body.expect(SEQUENCE)?;
    let issuer = body.expect(SEQUENCE)?;
    values.make(Field::TlsIssuer, |out| name(issuer, out));
    let mut validity = Der(body.expect(SEQUENCE)?);
    for number in [Number::TlsNotBefore, Number::TlsNotAfter] {
        let (tag, text) = validity.next()?;
        if let Some(seconds) = time(tag, text) {
            values.number(number, seconds);
        }
    }
    let subject = body.expect(SEQUENCE)?;
    values.make(Field::TlsSubject, |out| name(subject, out));
    Some(())
}

/// `0A:FF`, or in lower case.
fn pairs(bytes: &[u8], upper: bool, out: &mut Vec<u8>) {
    for (at, byte) in bytes.iter().enumerate() {
        let colon = if at > 0 { ":" } else { "" };
        // Memory can be written to.
        let _ = if upper {
            write!(out, "{colon}{byte:02X}")
        } else {
            write!(out, "{colon}{byte:02x}")
        };
    }
}

/// A name: `C=US, O=Example`, in the order of the certificate.
fn name(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let mut sets = Der(bytes);
    while let Some(set) = sets.expect(SET) {
        let mut pairs = Der(set);
        while let Some(pair) = pairs.expect(SEQUENCE) {
            let mut pair = Der(pair);
            let (Some(kind), Some((tag, value))) = (pair.expect(OBJECT), pair.next()) else {
                return;
            };
            if out.len() > start {
                out.extend_from_slice(b", ");
            }
            attribute(kind, out);
            out.push(b'=');
            if tag == BMP_STRING {
                out.extend(value.chunks_exact(2).filter_map(|pair| pair.get(1)));
            } else {
                out.extend_from_slice(value);
            }
        }
    }
}

/// Short name of an attribute (RFC 4519 section 2), or its number.
fn attribute(object: &[u8], out: &mut Vec<u8>) {
    let short = match object {
        [0x55, 4, 3] => "CN",
        [0x55, 4, 4] => "SN",
        [0x55, 4, 5] => "serialNumber",
        [0x55, 4, 6] => "C",
        [0x55, 4, 7] => "L",
        [0x55, 4, 8] => "ST",
        [0x55, 4, 9] => "street",
        [0x55, 4, 10] => "O",
        [0x55, 4, 11] => "OU",
        [0x55, 4, 12] => "title",
        [0x55, 4, 42] => "GN",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25] => "DC",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1] => "UID",
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1] => "emailAddress",
        _ => "",
    };
    if short.is_empty() {
        dotted(object, out);
    } else {
        out.extend_from_slice(short.as_bytes());
    }
}

/// `1.2.840` of an object identifier (X.690 section 8.19).
fn dotted(object: &[u8], out: &mut Vec<u8>) {
    let (mut number, mut first) = (0u64, true);
    for &byte in object {
        number = number.wrapping_shl(7) | u64::from(byte & 0x7f);
        if byte & 0x80 != 0 {
            continue;
        }
        // Memory can be written to.
        let _ = if first {
            let root = (number / 40).min(2);
            write!(out, "{root}.{}", number - root * 40)
        } else {
            write!(out, ".{number}")
        };
        (number, first) = (0, false);
    }
}

/// Seconds of Unix time of `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ` (RFC 5280 section 4.1.2.5).
fn time(tag: u8, text: &[u8]) -> Option<i64> {
    let number = |bytes: &[u8]| {
        bytes.iter().try_fold(0i64, |n, b| {
            b.is_ascii_digit().then(|| n * 10 + i64::from(b - b'0'))
        })
    };
    let (year, rest) = if tag == UTC_TIME {
        let (year, rest) = text.split_at_checked(2)?;
        let year = number(year)?;
        (if year < 50 { 2000 + year } else { 1900 + year }, rest)
    } else {
        let (year, rest) = text.split_at_checked(4)?;
        (number(year)?, rest)
    };
    let part = |at: usize| rest.get(at..at + 2).and_then(number);
    let (month, day) = (part(0)?, part(2)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days since 1970 by counting years from March.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = year * 365 + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (month * 153 + 2) / 5
        + day
        - 1
        - 719_468;
    Some(days * 86_400 + part(4)? * 3_600 + part(6)? * 60 + part(8).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(time(UTC_TIME, b"700101000000Z"), Some(0));
        assert_eq!(time(UTC_TIME, b"240229123456Z"), Some(1_709_210_096));
        assert_eq!(time(0x18, b"20500101000000Z"), Some(2_524_608_000));
        assert_eq!(time(UTC_TIME, b"99xx"), None);
        assert_eq!(time(UTC_TIME, b"991301000000Z"), None);
    }

    #[test]
    fn names_and_numbers() {
        let mut out = Vec::new();
        let bytes = b"\x31\x0b\x30\x09\x06\x03\x55\x04\x06\x13\x02US\x31\x0c\x30\x0a\x06\x03\x2a\x03\x04\x0c\x03a,b";
        name(bytes, &mut out);
        assert_eq!(out, b"C=US, 1.2.3.4=a,b");
        out.clear();
        pairs(&[0, 0xab], true, &mut out);
        assert_eq!(out, b"00:AB");
    }
}
