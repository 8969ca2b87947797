//! Parts of a mail: MIME (RFC 2045, 2046), and their names (RFC 2183, 2047, 2231).
//!
//! A part is a leaf: what has a type `multipart` or `message/rfc822` is opened. A mail without MIME is one part.
//! What is wrong with a mail is read as mail readers read it: what hides a part from readers of rules only would
//! still be opened by its receiver.

use std::borrow::Cow;

/// Depth at which parts in parts are no longer opened.
const DEEPEST: usize = 10;
/// Most parts of a mail; those behind are not looked at.
const MOST: usize = 64;
/// Bytes of a header that are looked at.
const HEADER: usize = 16 << 10;

/// A decoded part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its file's name; empty where it has none.
    pub(crate) name: Vec<u8>,
    pub(crate) bytes: Vec<u8>,
    /// It ends where the mail or its delimiter says so.
    pub(crate) complete: bool,
}

/// The parts of a mail, of which all is there where it is `complete`.
pub(crate) fn parts(mail: &[u8], complete: bool) -> Vec<Part> {
    let mut parts = Vec::new();
    entity(mail, complete, 0, &mut parts);
    parts
}

fn entity(bytes: &[u8], complete: bool, depth: usize, parts: &mut Vec<Part>) {
    if parts.len() >= MOST {
        return;
    }
    let (header, body) = split(bytes);
    let header = Header::read(header);
    let kind = header.kind.split(|&b| b == b';').next().unwrap_or(&[]);
    let kind = kind.trim_ascii().to_ascii_lowercase();
    if depth < DEEPEST {
        if kind.starts_with(b"multipart/")
            && let Some(boundary) = parameter(&header.kind, "boundary")
            && !boundary.is_empty()
            && multipart(body, complete, &boundary, depth, parts)
        {
            return;
        }
        if kind == b"message/rfc822" {
            return entity(body, complete, depth + 1, parts);
        }
    }
    let name = parameter(&header.disposition, "filename");
    let name = name.or_else(|| parameter(&header.kind, "name"));
    parts.push(Part {
        name: name.unwrap_or_default(),
        bytes: decoded(body, &header.encoding),
        complete,
    });
}

/// Opens the entities between delimiters; false where there is none.
fn multipart(
    body: &[u8],
    complete: bool,
    boundary: &[u8],
    depth: usize,
    parts: &mut Vec<Part>,
) -> bool {
    let mut begun: Option<usize> = None;
    let mut at = 0;
    for line in body.split_inclusive(|&b| b == b'\n') {
        let start = at;
        at += line.len();
        let Some(is_last) = delimiter(line, boundary) else {
            continue;
        };
        if let Some(from) = begun {
            // The line end before a delimiter belongs to it.
            let part = body.get(from..start).unwrap_or(&[]);
            let part = part.strip_suffix(b"\n").unwrap_or(part);
            let part = part.strip_suffix(b"\r").unwrap_or(part);
            entity(part, true, depth + 1, parts);
        }
        begun = (!is_last).then_some(at);
        if is_last {
            return true;
        }
    }
    let Some(from) = begun else {
        return false;
    };
    entity(body.get(from..).unwrap_or(&[]), complete, depth + 1, parts);
    true
}

/// Whether a delimiter is the last one; `None` of a line that is none.
fn delimiter(line: &[u8], boundary: &[u8]) -> Option<bool> {
    let rest = line.strip_prefix(b"--")?.strip_prefix(boundary)?;
    let (is_last, rest) = match rest.strip_prefix(b"--") {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    // Blanks may follow (RFC 2046 section 5.1.1); anything else makes it another word.
    rest.trim_ascii().is_empty().then_some(is_last)
}

/// The header, and what follows the first empty line.
fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let mut at = 0;
    for line in bytes.split_inclusive(|&b| b == b'\n') {
        // A line that is no field of a header: there is none.
        let is_field = line.contains(&b':') || line.starts_with(b" ") || line.starts_with(b"\t");
        if matches!(line, b"\r\n" | b"\n") {
            return bytes
                .split_at_checked(at)
                .map_or((bytes, &[]), |(header, rest)| {
                    (header, rest.get(line.len()..).unwrap_or(&[]))
                });
        }
        if !is_field {
            break;
        }
        at += line.len();
    }
    (&[], bytes)
}

/// The fields of an entity's header that say how it is read, folded lines joined.
#[derive(Debug, Default)]
struct Header {
    kind: Vec<u8>,
    encoding: Vec<u8>,
    disposition: Vec<u8>,
}

impl Header {
    fn read(header: &[u8]) -> Header {
        let mut read = Header::default();
        let mut field: Option<&mut Vec<u8>> = None;
        let header = header.get(..HEADER).unwrap_or(header);
        for line in header.split(|&b| b == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.starts_with(b" ") || line.starts_with(b"\t") {
                if let Some(field) = &mut field {
                    field.push(b' ');
                    field.extend_from_slice(line.trim_ascii());
                }
                continue;
            }
            let colon = line.iter().position(|&b| b == b':').unwrap_or(line.len());
            let (name, value) = line.split_at(colon);
            field = match name.trim_ascii().to_ascii_lowercase().as_slice() {
                b"content-type" => Some(&mut read.kind),
                b"content-transfer-encoding" => Some(&mut read.encoding),
                b"content-disposition" => Some(&mut read.disposition),
                _ => None,
            };
            // The last of several counts.
            if let Some(field) = &mut field {
                field.clear();
                field.extend_from_slice(value.get(1..).unwrap_or(&[]).trim_ascii());
            }
        }
        read
    }
}

fn decoded(body: &[u8], encoding: &[u8]) -> Vec<u8> {
    match encoding.trim_ascii().to_ascii_lowercase().as_slice() {
        b"base64" => base64(body),
        b"quoted-printable" => quoted_printable(body, false),
        _ => body.to_vec(),
    }
}

/// RFC 2045 section 6.8: bytes that are no digits are passed over.
fn base64(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut word, mut digits) = (0u32, 0);
    for &byte in text {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                flush(&mut out, word, digits);
                (word, digits) = (0, 0);
                continue;
            }
            _ => continue,
        };
        word = word << 6 | u32::from(digit);
        digits += 1;
        if digits == 4 {
            flush(&mut out, word, digits);
            (word, digits) = (0, 0);
        }
    }
    flush(&mut out, word, digits);
    out
}

/// The bytes of up to four digits.
fn flush(out: &mut Vec<u8>, word: u32, digits: u32) {
    let word = word << (6 * (4 - digits));
    let [_, bytes @ ..] = word.to_be_bytes();
    let count = (digits * 6 / 8) as usize;
    out.extend_from_slice(bytes.get(..count).unwrap_or(&bytes));
}

/// RFC 2045 section 6.7; in a name `_` is a blank (RFC 2047 section 4.2).
fn quoted_printable(text: &[u8], name: bool) -> Vec<u8> {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        if byte == b'_' && name {
            out.push(b' ');
            continue;
        }
        if byte != b'=' {
            out.push(byte);
            continue;
        }
        match (digit(text.get(at)), digit(text.get(at + 1))) {
            (Some(high), Some(low)) => {
                // Two hexadecimal digits fit a byte.
                out.push((high << 4 | low) as u8);
                at += 2;
            }
            _ => match text.get(at..) {
                // The line goes on.
                Some([b'\r', b'\n', ..]) => at += 2,
                Some([b'\n', ..]) => at += 1,
                _ => out.push(byte),
            },
        }
    }
    out
}

/// A parameter of a field, decoded: `name=`, or `name*=` and `name*0=` and so on (RFC 2231).
fn parameter(field: &[u8], name: &str) -> Option<Vec<u8>> {
    let all = parameters(field);
    let find = |wanted: &str| all.iter().find(|(known, _)| known == wanted.as_bytes());
    if let Some((_, value)) = find(&format!("{name}*")) {
        return Some(percent(without_charset(value)));
    }
    let mut joined: Option<Vec<u8>> = None;
    for number in 0..MOST {
        let encoded = find(&format!("{name}*{number}*"));
        let value: Cow<'_, [u8]> = match (encoded, find(&format!("{name}*{number}"))) {
            (Some((_, value)), _) if number == 0 => percent(without_charset(value)).into(),
            (Some((_, value)), _) => percent(value).into(),
            (None, Some((_, value))) => Cow::Borrowed(value),
            (None, None) => break,
        };
        joined.get_or_insert_default().extend_from_slice(&value);
    }
    joined.or_else(|| find(name).map(|(_, value)| words(value)))
}

/// Parameters behind a field's value, with their names in lower case.
fn parameters(field: &[u8]) -> Vec<(Vec<u8>, Cow<'_, [u8]>)> {
    let mut all = Vec::new();
    let start = field.iter().position(|&b| b == b';').unwrap_or(field.len());
    let mut rest = field.get(start..).unwrap_or(&[]);
    while all.len() < 2 * MOST {
        let separates = |b: &u8| *b == b';' || b.is_ascii_whitespace();
        let blanks = rest.iter().take_while(|b| separates(b)).count();
        rest = rest.get(blanks..).unwrap_or(&[]);
        let Some(equals) = rest.iter().position(|b| matches!(b, b'=' | b';')) else {
            break;
        };
        let (name, behind) = rest.split_at(equals);
        let Some(value) = behind.strip_prefix(b"=") else {
            rest = behind;
            continue;
        };
        let value = value.trim_ascii_start();
        let (value, behind) = match value.strip_prefix(b"\"") {
            Some(quoted) => quoted_string(quoted),
            None => {
                let end = value.iter().position(|&b| b == b';').unwrap_or(value.len());
                let (value, behind) = value.split_at(end);
                (Cow::Borrowed(value.trim_ascii()), behind)
            }
        };
        all.push((name.trim_ascii().to_ascii_lowercase(), value));
        rest = behind;
    }
    all
}

/// The text up to the closing quote, and what follows that.
fn quoted_string(text: &[u8]) -> (Cow<'_, [u8]>, &[u8]) {
    let mut value = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => break,
            b'\\' => {
                value.extend(text.get(at));
                at += 1;
            }
            byte => value.push(byte),
        }
    }
    (value.into(), text.get(at..).unwrap_or(&[]))
}

/// What follows `CHARSET'LANGUAGE'`.
fn without_charset(value: &[u8]) -> &[u8] {
    value.splitn(3, |&b| b == b'\'').nth(2).unwrap_or(value)
}

fn percent(value: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let mut out = Vec::with_capacity(value.len());
    let mut at = 0;
    while let Some(&byte) = value.get(at) {
        at += 1;
        match (byte, digit(value.get(at)), digit(value.get(at + 1))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high << 4 | low) as u8);
                at += 2;
            }
            (byte, ..) => out.push(byte),
        }
    }
    out
}

/// A value whose encoded words (RFC 2047) are decoded; of their character sets bytes are kept as they are.
fn words(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    let mut after_word = false;
    while let Some(at) = rest.windows(2).position(|pair| pair == b"=?") {
        let (before, word) = rest.split_at(at);
        // Blanks between two words are none of the text.
        let joins = after_word && before.iter().all(u8::is_ascii_whitespace);
        if !joins {
            out.extend_from_slice(before);
        }
        let mut fields = word.get(2..).unwrap_or(&[]).splitn(4, |&b| b == b'?');
        let (_, kind, text, behind) = (fields.next(), fields.next(), fields.next(), fields.next());
        let (Some(kind), Some(text), Some(behind)) = (
            kind,
            text,
            behind.and_then(|behind| behind.strip_prefix(b"=")),
        ) else {
            rest = word;
            break;
        };
        match kind {
            b"B" | b"b" => out.extend(base64(text)),
            b"Q" | b"q" => out.extend(quoted_printable(text, true)),
            _ => out.extend_from_slice(text),
        }
        rest = behind;
        after_word = true;
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
#[path = "mime_tests.rs"]
mod tests;
