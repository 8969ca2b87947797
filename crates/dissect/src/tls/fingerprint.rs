//! Fingerprints of hellos: JA3 and JA3S (github.com/salesforce/ja3), JA4 (github.com/FoxIO-LLC/ja4).

use std::io::Write;

use md5::{Digest, Md5};
use sha2::Sha256;

use super::hello::{Bytes, Hello, is_grease, words};

/// Appends numbers joined by dashes, without GREASE.
fn joined(numbers: impl Iterator<Item = u16>, out: &mut Vec<u8>) {
    let numbers = numbers.filter(|&number| !is_grease(number));
    for (at, number) in numbers.enumerate() {
        let dash = if at > 0 { "-" } else { "" };
        // Memory can be written to.
        let _ = write!(out, "{dash}{number}");
    }
}

fn kinds<'a>(hello: &Hello<'a>) -> impl Iterator<Item = u16> + Clone + use<'a> {
    hello.extensions().map(|(kind, _)| kind)
}

/// Appends the JA3 string of a client hello.
pub(super) fn ja3(hello: &Hello<'_>, out: &mut Vec<u8>) {
    // Memory can be written to.
    let _ = write!(out, "{},", hello.version);
    joined(words(hello.ciphers), out);
    out.push(b',');
    joined(kinds(hello), out);
    out.push(b',');
    let groups = hello
        .extension(10)
        .and_then(|content| Bytes(content).vector(2));
    joined(words(groups.unwrap_or(&[])), out);
    out.push(b',');
    let points = hello
        .extension(11)
        .and_then(|content| Bytes(content).vector(1));
    joined(points.unwrap_or(&[]).iter().map(|&b| u16::from(b)), out);
}

/// Appends the JA3S string of a server hello.
pub(super) fn ja3s(hello: &Hello<'_>, out: &mut Vec<u8>) {
    let _ = write!(out, "{},", hello.version);
    joined(words(hello.ciphers), out);
    out.push(b',');
    joined(kinds(hello), out);
}

/// Appends the MD5 of a JA3 string in lower case hexadecimal.
pub(super) fn hash(string: &[u8], out: &mut Vec<u8>) {
    for byte in Md5::digest(string) {
        let _ = write!(out, "{byte:02x}");
    }
}

/// Appends the first 12 digits of a SHA-256, or zeros for nothing.
fn short_hash(text: &str, out: &mut Vec<u8>) {
    if text.is_empty() {
        out.extend_from_slice(b"000000000000");
        return;
    }
    for byte in Sha256::digest(text.as_bytes()).iter().take(6) {
        let _ = write!(out, "{byte:02x}");
    }
}

fn hexadecimal(numbers: impl Iterator<Item = u16>) -> String {
    let texts: Vec<String> = numbers.map(|number| format!("{number:04x}")).collect();
    texts.join(",")
}

/// Appends the JA4 fingerprint of a client hello over TCP.
pub(super) fn ja4(hello: &Hello<'_>, out: &mut Vec<u8>) {
    let version = match hello.version(true) {
        0x0304 => "13",
        0x0303 => "12",
        0x0302 => "11",
        0x0301 => "10",
        0x0300 => "s3",
        _ => "00",
    };
    let mut ciphers: Vec<u16> = words(hello.ciphers).filter(|&c| !is_grease(c)).collect();
    let all: Vec<u16> = kinds(hello).filter(|&kind| !is_grease(kind)).collect();
    let name = if hello.extension(0).is_some() {
        'd'
    } else {
        'i'
    };
    let (ciphers_count, extensions_count) = (ciphers.len().min(99), all.len().min(99));
    let _ = write!(
        out,
        "t{version}{name}{ciphers_count:02}{extensions_count:02}"
    );
    protocol(hello, out);
    ciphers.sort_unstable();
    out.push(b'_');
    short_hash(&hexadecimal(ciphers.into_iter()), out);
    // Without the server name and the protocols, which the first part tells.
    let mut sorted: Vec<u16> = all
        .into_iter()
        .filter(|kind| !matches!(kind, 0 | 16))
        .collect();
    sorted.sort_unstable();
    let mut text = hexadecimal(sorted.into_iter());
    let algorithms = hello
        .extension(13)
        .and_then(|content| Bytes(content).vector(2));
    let algorithms = words(algorithms.unwrap_or(&[])).filter(|&word| !is_grease(word));
    let algorithms = hexadecimal(algorithms);
    if !algorithms.is_empty() {
        text = format!("{text}_{algorithms}");
    }
    out.push(b'_');
    short_hash(&text, out);
}

/// First and last character of the first protocol that is offered (RFC 7301).
fn protocol(hello: &Hello<'_>, out: &mut Vec<u8>) {
    let list = hello
        .extension(16)
        .and_then(|content| Bytes(content).vector(2));
    let first = list.and_then(|list| Bytes(list).vector(1)).unwrap_or(&[]);
    match (first.first(), first.last()) {
        (Some(a), Some(b)) if a.is_ascii_alphanumeric() && b.is_ascii_alphanumeric() => {
            out.extend_from_slice(&[*a, *b]);
        }
        (Some(a), Some(b)) => {
            let (a, b) = (format!("{a:02x}"), format!("{b:02x}"));
            out.extend(a.bytes().take(1).chain(b.bytes().skip(1)));
        }
        _ => out.extend_from_slice(b"00"),
    }
}
