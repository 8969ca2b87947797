//! Quoted values: the strings of `msg` and the byte strings of `content`.

use crate::error::{Fault, Span};

/// The span between the quotes of a value.
fn unquote(text: &str, span: Span, keyword: &str) -> Result<Span, Fault> {
    let written = span.of(text);
    let Some(rest) = written.strip_prefix('"') else {
        return Err(Fault::new(
            span,
            format!("the value of `{keyword}` must stand in double quotes"),
        ));
    };
    // A quote that is escaped does not end the value.
    let inner = rest.strip_suffix('"').filter(|inner| {
        let escapes = inner
            .bytes()
            .rev()
            .take_while(|&byte| byte == b'\\')
            .count();
        escapes % 2 == 0
    });
    match inner {
        Some(inner) => Ok(Span::new(span.start + 1, span.start + 1 + inner.len())),
        None => Err(Fault::new(
            span,
            format!("the value of `{keyword}` has no closing quote"),
        )
        .help("inside quotes, `;` is written `\\;` and `\"` is written `\\\"`")),
    }
}

/// A quoted string with its escapes resolved; an unneeded backslash is kept.
pub(crate) fn parse_string(text: &str, span: Span, keyword: &str) -> Result<String, Fault> {
    let inner = unquote(text, span, keyword)?;
    let mut value = String::with_capacity(inner.end - inner.start);
    let mut escaped = false;
    for character in inner.of(text).chars() {
        if escaped {
            if !matches!(character, '"' | ';' | ':' | '\\') {
                value.push('\\');
            }
            value.push(character);
            escaped = false;
        } else if character == '\\' {
            escaped = true;
        } else {
            value.push(character);
        }
    }
    if escaped {
        value.push('\\');
    }
    Ok(value)
}

/// The value of `content`: an optional `!`, then bytes in quotes, with `|0d 0a|` for bytes in hexadecimal.
pub(crate) fn parse_bytes(text: &str, span: Span) -> Result<(bool, Vec<u8>), Fault> {
    let mut span = span.trim(text);
    let negated = span.of(text).starts_with('!');
    if negated {
        span = Span::new(span.start + 1, span.end).trim(text);
    }
    check_modifiers(text, span)?;
    let bytes = quoted_bytes(text, unquote(text, span, "content")?)?;
    if bytes.is_empty() {
        return Err(Fault::new(span, "`content` is empty"));
    }
    if bytes.len() > LONGEST {
        return Err(Fault::new(
            span,
            format!("`content` has more than {LONGEST} bytes"),
        ));
    }
    Ok((negated, bytes))
}

/// Refuses modifiers behind the closing quote.
fn check_modifiers(text: &str, span: Span) -> Result<(), Fault> {
    let written = span.of(text);
    if written.starts_with('"')
        && let Some(close) = closing_quote(written)
        && written
            .get(close + 1..)
            .is_some_and(|rest| rest.trim_start().starts_with(','))
    {
        return Err(Fault::new(
            Span::new(span.start + close + 1, span.end),
            "modifiers inside `content` are not supported",
        )
        .help("write each modifier as an option of its own: `content:\"abc\"; nocase;`"));
    }
    Ok(())
}

/// The bytes that the inside of the quotes stands for.
fn quoted_bytes(text: &str, inner: Span) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::with_capacity(inner.end - inner.start);
    // Inside `|...|`: where it was opened, and the first digit of a pair.
    let mut hex: Option<(usize, Option<u8>)> = None;
    let mut escaped = false;
    for (at, byte) in inner.of(text).bytes().enumerate() {
        let at = inner.start + at;
        let here = Span::new(at, at + 1);
        if let Some((opened, digit)) = hex {
            match (byte, digit) {
                (b'|', None) => hex = None,
                (b' ' | b'\t', _) => {}
                (b'|', Some(_)) => {
                    return Err(Fault::new(here, "an odd number of hexadecimal digits")
                        .help("each byte is two digits, as in `|0d 0a|`"));
                }
                (byte, digit) => match ((byte as char).to_digit(16), digit) {
                    (Some(value), None) => hex = Some((opened, Some(value as u8))),
                    (Some(value), Some(high)) => {
                        bytes.push(high << 4 | value as u8);
                        hex = Some((opened, None));
                    }
                    (None, _) => {
                        return Err(Fault::new(here, "not a hexadecimal digit")
                            .help("between two `|` stand only pairs of hexadecimal digits"));
                    }
                },
            }
        } else if escaped {
            escaped = false;
            match byte {
                b'\\' | b'"' | b';' | b':' => bytes.push(byte),
                _ => {
                    return Err(Fault::new(Span::new(at - 1, at + 1), "unknown escape")
                        .help("only \\\\ \\\" \\; and \\: can be escaped; other bytes are written as `|5c|`"));
                }
            }
        } else {
            match byte {
                b'|' => hex = Some((at, None)),
                b'\\' => escaped = true,
                b'"' => {
                    return Err(Fault::new(here, "a quote inside `content` must be escaped")
                        .help("write `\\\"` or `|22|`"));
                }
                byte => bytes.push(byte),
            }
        }
    }
    if let Some((opened, _)) = hex {
        return Err(
            Fault::new(Span::new(opened, opened + 1), "`|` is not closed")
                .help("a `|` that is a byte of its own is written `|7c|`"),
        );
    }
    Ok(bytes)
}

/// The longest content, in bytes.
const LONGEST: usize = 8192;

/// Position of the first quote after the opening one that is not escaped.
fn closing_quote(written: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in written.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Result<(bool, Vec<u8>), Fault> {
        parse_bytes(text, Span::new(0, text.len()))
    }

    #[test]
    fn hexadecimal_and_escapes() {
        assert_eq!(bytes(r#""abc""#).unwrap(), (false, b"abc".to_vec()));
        assert_eq!(
            bytes(r#" ! "a|0D 0a|b""#).unwrap(),
            (true, b"a\r\nb".to_vec())
        );
        assert_eq!(bytes(r#""|0d0A||00|""#).unwrap().1, b"\r\n\0");
        assert_eq!(bytes(r#""\"\;\:\\ \\""#).unwrap().1, br#"";:\ \"#);
        assert_eq!(bytes(r#""|22||3a|:""#).unwrap().1, b"\"::");
        assert_eq!(bytes("\"é\"").unwrap().1, "é".as_bytes());
    }

    #[test]
    fn faults() {
        for (text, words) in [
            (r#""""#, "empty"),
            (r#""||""#, "empty"),
            (r#"abc"#, "double quotes"),
            (r#""abc"#, "no closing quote"),
            (r#""abc\""#, "no closing quote"),
            (r#"""#, "no closing quote"),
            (r#""|0d 0|""#, "odd number"),
            (r#""|0x|""#, "not a hexadecimal"),
            (r#""|0d""#, "not closed"),
            (r#""a\nb""#, "unknown escape"),
            (r#""a"b""#, "must be escaped"),
            (r#""abc", nocase"#, "inside `content`"),
        ] {
            let fault = bytes(text).unwrap_err();
            assert!(fault.message.contains(words), "{text}: {}", fault.message);
        }
    }

    #[test]
    fn strings_keep_what_needs_no_escape() {
        let text = r#""a \"b\" \; c:\\d \x""#;
        let value = parse_string(text, Span::new(0, text.len()), "msg").unwrap();
        assert_eq!(value, r#"a "b" ; c:\d \x"#);
    }
}
