//! Bytes that are written in hexadecimal digits.

/// The number that hexadecimal digits write.
pub(crate) fn hex(bytes: Option<&[u8]>) -> Option<u32> {
    bytes?
        .iter()
        .try_fold(0, |n, &b| Some(n << 4 | char::from(b).to_digit(16)?))
}

/// Decodes `%XX` (RFC 3986 section 2.1) and, where `wide`, `%uXXXX`; a `%` before anything else stays.
pub(crate) fn decode(mut bytes: &[u8], wide: bool, out: &mut Vec<u8>) {
    while let Some((&byte, rest)) = bytes.split_first() {
        bytes = rest;
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let is_wide = wide && matches!(rest.first(), Some(b'u' | b'U'));
        if is_wide && let Some(code) = hex(rest.get(1..5)) {
            out.push(narrow(code));
            bytes = rest.get(5..).unwrap_or(&[]);
        } else if let Some(code) = hex(rest.get(..2)) {
            out.push(code as u8);
            bytes = rest.get(2..).unwrap_or(&[]);
        } else {
            out.push(b'%');
        }
    }
}

/// The byte that a server takes a character of two bytes for.
fn narrow(code: u32) -> u8 {
    match code {
        0..=0xff => code as u8,
        // Full-width forms of ASCII.
        0xff01..=0xff5e => (code - 0xff00 + 0x20) as u8,
        0x2215 | 0x2044 => b'/',
        _ => b'?',
    }
}
