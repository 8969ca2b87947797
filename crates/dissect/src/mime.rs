//! Parts of a mail: MIME (RFC 2045, 2046), and their names (RFC 2183, 2047, 2231).
//!
//! Parts are leaves: entities of the types `multipart`, `message/rfc822` and `message/global` are opened. A mail without
//! MIME is one part. Where mail readers treat a malformed mail differently, each of their readings is taken, so that
//! rules see every part that a receiver may see.

use std::borrow::Cow;

use crate::percent::{self, hex};

/// Depth at which parts in parts are no longer opened.
const DEEPEST: usize = 10;
/// Most parts of a mail; those behind are not looked at.
const MOST: usize = 64;
/// Bytes that are looked at for each byte of a mail, at most: parts in parts are looked at at each depth.
const MOST_WORK: usize = 32;
/// Most fields of one name that are looked at.
const MOST_FIELDS: usize = 8;

/// A decoded part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its file's name; empty where it has none.
    pub(crate) name: Vec<u8>,
    pub(crate) bytes: Vec<u8>,
    /// It ends where the mail or its delimiter says so.
    pub(crate) complete: bool,
}

/// The parts of a mail, one at least. One that is `torn` has a hole somewhere, so that no part is complete; of one
/// that is `cut` the end is missing.
pub(crate) fn parts(mail: &[u8], torn: bool, cut: bool) -> Vec<Part> {
    let mut opener = Opener {
        parts: Vec::new(),
        room: mail.len().saturating_mul(MOST_WORK),
    };
    opener.entity(mail, !cut, 0);
    let mut parts = opener.parts;
    if parts.is_empty() {
        parts.push(Part {
            name: Vec::new(),
            bytes: mail.to_vec(),
            complete: !cut,
        });
    }
    for part in &mut parts {
        part.complete &= !torn;
    }
    parts
}

/// Opens a mail.
struct Opener {
    parts: Vec<Part>,
    /// Bytes of entities that are looked at from now on, at most.
    room: usize,
}

impl Opener {
    fn entity(&mut self, bytes: &[u8], complete: bool, depth: usize) {
        let Some(room) = self.room.checked_sub(bytes.len()) else {
            return;
        };
        if self.parts.len() >= MOST {
            return;
        }
        self.room = room;
        let (header, body) = split(bytes);
        let header = Header::read(header);
        if depth < DEEPEST {
            let mut kinds = header.kinds.iter();
            if kinds.any(|kind| self.open(kind, &header, (body, complete), depth)) {
                return;
            }
        }
        let mut named = header.dispositions.iter();
        let name = named.find_map(|field| parameter(field, "filename"));
        let mut kinds = header.kinds.iter();
        let name = name.or_else(|| kinds.find_map(|field| parameter(field, "name")));
        let name = words(&name.unwrap_or_default());
        let readings = header.encodings().into_iter().map(|encoding| Part {
            name: name.clone(),
            bytes: encoding.decode(body).into_owned(),
            complete,
        });
        self.parts.extend(readings);
    }

    /// Opens an entity of this type that has parts; false where it has none.
    fn open(
        &mut self,
        kind: &[u8],
        header: &Header,
        (body, complete): (&[u8], bool),
        depth: usize,
    ) -> bool {
        let word = token(kind, b";").to_ascii_lowercase();
        let is_mail = matches!(&word[..], b"message/rfc822" | b"message/global");
        let boundary = parameter(kind, "boundary").unwrap_or_default();
        let boundary = boundary.trim_ascii_end();
        if !is_mail && (!word.starts_with(b"multipart/") || boundary.is_empty()) {
            return false;
        }
        // Entities with parts must not be encoded (RFC 2045 section 6.4). Some readers decode them, and some don't.
        let mut encodings = header.encodings();
        if !encodings.contains(&Encoding::Plain) {
            encodings.push(Encoding::Plain);
        }
        let mut is_opened = false;
        for encoding in encodings {
            let body = encoding.decode(body);
            is_opened |= match is_mail {
                false => self.multipart((&body, complete), boundary, depth),
                true if split(&body).0.is_empty() => false,
                true => {
                    self.entity(&body, complete, depth + 1);
                    true
                }
            };
        }
        is_opened
    }

    /// Opens the entities between delimiters; false where there is none.
    fn multipart(
        &mut self,
        (body, complete): (&[u8], bool),
        boundary: &[u8],
        depth: usize,
    ) -> bool {
        let mut begun: Option<usize> = None;
        let mut is_opened = false;
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
                self.entity(part, true, depth + 1);
            }
            is_opened |= begun.is_some();
            // Parts may follow behind the last delimiter, too: not all readers stop there.
            begun = (!is_last).then_some(at);
        }
        if let Some(from) = begun {
            self.entity(body.get(from..).unwrap_or(&[]), complete, depth + 1);
        }
        is_opened || begun.is_some()
    }
}

/// Whether a delimiter is the last one; `None` where the line is no delimiter.
fn delimiter(line: &[u8], boundary: &[u8]) -> Option<bool> {
    let rest = line.strip_prefix(b"--")?.strip_prefix(boundary)?;
    let (is_last, rest) = match rest.strip_prefix(b"--") {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    // Blanks may follow (RFC 2046 section 5.1.1); anything else makes it another word.
    rest.trim_ascii().is_empty().then_some(is_last)
}

/// The header, and what follows the first empty line. Where no line before that is a field, there is no header.
fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let mut at = 0;
    let mut has_field = false;
    for line in bytes.split_inclusive(|&b| b == b'\n') {
        if matches!(line, b"\r\n" | b"\n") {
            let (header, rest) = bytes.split_at_checked(at).unwrap_or((bytes, &[]));
            return match has_field || at == 0 {
                true => (header, rest.get(line.len()..).unwrap_or(&[])),
                false => (&[], bytes),
            };
        }
        has_field |= field(line).is_some();
        at += line.len();
    }
    match has_field {
        true => (bytes, &[]),
        false => (&[], bytes),
    }
}

/// The name of a field of a header (RFC 5322 section 2.2), and its value on this line.
fn field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|&b| b == b':')?;
    let (name, value) = line.split_at_checked(colon)?;
    let name = name.trim_ascii_end();
    let is_name = !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
    is_name.then(|| (name, value.get(1..).unwrap_or(&[]).trim_ascii()))
}

/// The fields of an entity's header that say how it is read, folded lines joined.
#[derive(Debug, Default)]
struct Header {
    kinds: Vec<Vec<u8>>,
    encodings: Vec<Vec<u8>>,
    dispositions: Vec<Vec<u8>>,
}

impl Header {
    fn read(header: &[u8]) -> Header {
        let mut read = Header::default();
        let mut last: Option<&mut Vec<u8>> = None;
        for line in header.split(|&b| b == b'\n') {
            if line.starts_with(b" ") || line.starts_with(b"\t") {
                if let Some(last) = &mut last {
                    last.push(b' ');
                    last.extend_from_slice(line.trim_ascii());
                }
                continue;
            }
            // Lines that are no fields are skipped.
            let Some((name, value)) = field(line) else {
                continue;
            };
            let values = match name.to_ascii_lowercase().as_slice() {
                b"content-type" => &mut read.kinds,
                b"content-transfer-encoding" => &mut read.encodings,
                b"content-disposition" => &mut read.dispositions,
                _ => {
                    last = None;
                    continue;
                }
            };
            if values.len() < MOST_FIELDS {
                values.push(value.to_vec());
            }
            last = values.last_mut();
        }
        read
    }

    /// How the body may be encoded: some readers take the first of several fields, and some the last.
    fn encodings(&self) -> Vec<Encoding> {
        let mut all: Vec<Encoding> = self
            .encodings
            .iter()
            .map(|field| Encoding::of(field))
            .collect();
        if all.is_empty() {
            all.push(Encoding::Plain);
        }
        all.dedup();
        let last = all.len() - 1;
        all.drain(1..last.max(1));
        all
    }
}

/// How the body of an entity is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Plain,
    Base64,
    QuotedPrintable,
}

impl Encoding {
    fn of(field: &[u8]) -> Encoding {
        let word = token(field, b"; \t(").to_ascii_lowercase();
        let word = word.strip_prefix(b"\"").unwrap_or(&word);
        match word.strip_suffix(b"\"").unwrap_or(word) {
            b"base64" => Encoding::Base64,
            b"quoted-printable" => Encoding::QuotedPrintable,
            _ => Encoding::Plain,
        }
    }

    fn decode(self, body: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Encoding::Plain => body.into(),
            Encoding::Base64 => base64(body).into(),
            Encoding::QuotedPrintable => quoted_printable(body, false).into(),
        }
    }
}

/// The text before the first of these bytes, without blanks at its ends.
fn token<'a>(field: &'a [u8], ends: &[u8]) -> &'a [u8] {
    let end = field.iter().position(|b| ends.contains(b));
    field
        .get(..end.unwrap_or(field.len()))
        .unwrap_or(field)
        .trim_ascii()
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
        match hex(text.get(at..at + 2)) {
            Some(code) => {
                // Two hexadecimal digits fit a byte.
                out.push(code as u8);
                at += 2;
            }
            None => {
                // The line goes on; blanks before the line's end do not count.
                let rest = text.get(at..).unwrap_or(&[]);
                let blanks = rest
                    .iter()
                    .take_while(|b| matches!(b, b' ' | b'\t'))
                    .count();
                match rest.get(blanks..) {
                    Some([b'\r', b'\n', ..]) => at += blanks + 2,
                    Some([b'\n', ..]) => at += blanks + 1,
                    _ => out.push(byte),
                }
            }
        }
    }
    out
}

/// A parameter of a field: `name=`, encoded words and all, or `name*=` and `name*0=` and so on (RFC 2231).
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
    joined.or_else(|| find(name).map(|(_, value)| value.to_vec()))
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
                let word = match name.trim_ascii().eq_ignore_ascii_case(b"boundary") {
                    true => token(value, b" \t"),
                    false => value.trim_ascii(),
                };
                (Cow::Borrowed(word), behind)
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

/// Takes `CHARSET'LANGUAGE'` off the front of a value.
fn without_charset(value: &[u8]) -> &[u8] {
    value.splitn(3, |&b| b == b'\'').nth(2).unwrap_or(value)
}

fn percent(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    percent::decode(value, false, &mut out);
    out
}

/// A value whose encoded words (RFC 2047) are decoded; of their character sets bytes are kept as they are.
fn words(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    let mut after_word = false;
    while let Some(at) = rest.windows(2).position(|pair| pair == b"=?") {
        let (before, word) = rest.split_at(at);
        let Some((text, behind)) = encoded_word(word) else {
            out.extend_from_slice(before);
            out.extend_from_slice(b"=?");
            rest = word.get(2..).unwrap_or(&[]);
            after_word = false;
            continue;
        };
        // Blanks between two encoded words are not part of the text.
        if !after_word || !before.iter().all(u8::is_ascii_whitespace) {
            out.extend_from_slice(before);
        }
        out.extend(text);
        rest = behind;
        after_word = true;
    }
    out.extend_from_slice(rest);
    out
}

/// Longest encoded word (RFC 2047 section 2 has 75).
const LONGEST_WORD: usize = 1_000;

/// The text of an encoded word at the start, and what follows it.
fn encoded_word(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let short = bytes.get(..LONGEST_WORD).unwrap_or(bytes);
    let mut fields = short.get(2..)?.splitn(4, |&b| b == b'?');
    let (charset, kind, text, behind) = (
        fields.next()?,
        fields.next()?,
        fields.next()?,
        fields.next()?,
    );
    behind.strip_prefix(b"=")?;
    let text_of = match kind {
        b"B" | b"b" => base64(text),
        b"Q" | b"q" => quoted_printable(text, true),
        _ => return None,
    };
    let length = "=????=".len() + charset.len() + kind.len() + text.len();
    Some((text_of, bytes.get(length..)?))
}

#[cfg(test)]
#[path = "mime_tests.rs"]
mod tests;
