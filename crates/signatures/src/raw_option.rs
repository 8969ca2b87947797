//! A rule's options as written: where each begins and ends, its keyword and its value.

use crate::error::{Fault, Span};

/// An option as written: keyword in lower case, and its value, empty where there is none.
#[derive(Debug)]
pub(crate) struct RawOption {
    pub(crate) keyword: String,
    pub(crate) name: Span,
    pub(crate) value: Span,
    pub(crate) has_value: bool,
}

/// Splits the options at the `;` that are not escaped.
pub(crate) fn split(text: &str, body: Span) -> Result<Vec<RawOption>, Fault> {
    let mut options = Vec::new();
    let mut start = body.start;
    let mut escaped = false;
    for (at, byte) in body.of(text).bytes().enumerate() {
        let at = body.start + at;
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b';' => {
                options.extend(read_option(text, Span::new(start, at).trim(text))?);
                start = at + 1;
            }
            _ => {}
        }
    }
    let rest = Span::new(start, body.end).trim(text);
    if rest.of(text).is_empty() {
        Ok(options)
    } else {
        Err(Fault::new(rest, "an option does not end with `;`"))
    }
}

fn read_option(text: &str, span: Span) -> Result<Option<RawOption>, Fault> {
    let written = span.of(text);
    if written.is_empty() {
        // A doubled `;` does no harm.
        return Ok(None);
    }
    let (name, value, has_value) = match written.find(':') {
        Some(colon) => (
            Span::new(span.start, span.start + colon).trim(text),
            Span::new(span.start + colon + 1, span.end).trim(text),
            true,
        ),
        None => (span, Span::new(span.end, span.end), false),
    };
    let keyword = name.of(text).to_ascii_lowercase();
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    if keyword.is_empty() || !keyword.bytes().all(is_word) {
        return Err(
            Fault::new(span, format!("`{}` is not a keyword", name.of(text)))
                .help("a `;` inside quotes is written `\\;`"),
        );
    }
    Ok(Some(RawOption {
        keyword,
        name,
        value,
        has_value,
    }))
}
