//! `pcre`: from Perl's regular expressions to those of `fancy-regex`, whose work per match is bounded.
//!
//! Expressions without lookaround and backreferences are searched in time linear in the buffer; others
//! may step back [`BACKTRACKS`] times per search, beyond which they do not match (and are counted).

use std::sync::Arc;

use fancy_regex::{BytesMode, Regex, RegexBuilder};

use crate::buffers::Buffer;
use crate::error::{Fault, SkipReason, Span};

/// Most steps back in one search; Suricata's default `match-limit` is 3,500 too.
const BACKTRACKS: usize = 3_500;

/// Most bytes that one expression's lazily built automaton may take.
const AUTOMATON_BYTES: usize = 128 << 10;

/// Most bytes that one expression's program may take.
const PROGRAM_BYTES: usize = 1 << 20;

/// A regular expression ready to be searched for.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// As `fancy-regex` reads it.
    text: String,
    regex: Arc<Regex>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

/// The outcome of one search.
pub(crate) enum Search {
    /// Start and end of the first match.
    Found(usize, usize),
    Absent,
    /// The search took too many steps.
    Limit,
}

impl Pattern {
    /// The first match that begins at or after `from`.
    pub(crate) fn find(&self, data: &[u8], from: usize) -> Search {
        match self.regex.find_from_pos(data, from) {
            Ok(Some(found)) => Search::Found(found.start(), found.end()),
            Ok(None) => Search::Absent,
            Err(_) => Search::Limit,
        }
    }

    /// What the first group has found; `None` where the expression is not found.
    pub(crate) fn first_group<'d>(&self, data: &'d [u8]) -> Option<&'d [u8]> {
        let found = self.regex.captures(data).ok().flatten()?;
        found.get(1).map(|group| group.as_bytes())
    }
}

/// A `pcre` condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pcre {
    /// The expression.
    pub pattern: Pattern,
    /// `!`: it must not match.
    pub negated: bool,
    /// `R`: it is searched behind the match before.
    pub relative: bool,
    /// What follows the bytes at hand can make a match undone (`$`, lookahead, `\b`).
    pub looks_ahead: bool,
}

/// The flags behind an expression.
#[derive(Debug, Clone, Copy, Default)]
struct Flags {
    caseless: bool,
    multi_line: bool,
    dot_all: bool,
    extended: bool,
    anchored: bool,
    dollar_end_only: bool,
    ungreedy: bool,
    relative: bool,
}

/// The buffer that a flag of `pcre` stands for.
fn buffer_of(flag: char) -> Option<Buffer> {
    Some(match flag {
        'U' => Buffer::HttpUri,
        'I' => Buffer::HttpRawUri,
        'H' => Buffer::HttpHeader,
        'D' => Buffer::HttpRawHeader,
        'M' => Buffer::HttpMethod,
        'C' => Buffer::HttpCookie,
        'P' => Buffer::HttpRequestBody,
        'Q' => Buffer::HttpResponseBody,
        'S' => Buffer::HttpStatusCode,
        'Y' => Buffer::HttpStatusMessage,
        'V' => Buffer::HttpUserAgent,
        'W' => Buffer::HttpHost,
        'Z' => Buffer::HttpRawHost,
        _ => return None,
    })
}

/// Reads the value of `pcre`: `[!]"/EXPRESSION/FLAGS"`. Gives the condition and the buffer that its flags
/// name.
pub(crate) fn parse(text: &str, value: Span) -> Result<(Pcre, Option<Buffer>), Fault> {
    let written = value.of(text);
    let (negated, quoted) = match written.strip_prefix('!') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, written),
    };
    let shape = || {
        Fault::new(value, "the value of `pcre` is not an expression")
            .help("write `pcre:\"/EXPRESSION/FLAGS\"`")
    };
    // Suricata takes an expression without quotes as well.
    let inner = match quoted.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"').ok_or_else(shape)?,
        None => quoted,
    };
    let inner = inner.strip_prefix('m').unwrap_or(inner);
    let body = inner.strip_prefix('/').ok_or_else(shape)?;
    let (expression, words) = body.rsplit_once('/').ok_or_else(shape)?;
    // What the groups find would be recorded under these names.
    let (words, names) = words.split_once(',').unwrap_or((words, ""));
    let is_name = |name: &str| {
        let kinds = ["flow:", "pkt:", "alert:"];
        kinds.iter().any(|kind| {
            name.trim()
                .strip_prefix(kind)
                .is_some_and(|name| !name.is_empty())
        })
    };
    if !names.is_empty() && !names.split(',').all(is_name) {
        let message = format!("`{}` names no variables of `pcre`", names.trim());
        return Err(
            Fault::new(value, message).help("write `pcre:\"/EXPRESSION/FLAGS, flow:NAME\"`")
        );
    }
    let (flags, buffer) = read_flags(words, value)?;
    let translated = translate(expression, flags);
    let regex = build(&translated, flags, value, "pcre")?;
    let ahead = ["$", "(?=", "(?!", "\\b", "\\B", "\\Z", "\\z"];
    Ok((
        Pcre {
            looks_ahead: ahead.iter().any(|part| expression.contains(part)),
            pattern: Pattern {
                text: format!("{translated}/{words}"),
                regex: Arc::new(regex),
            },
            negated,
            relative: flags.relative,
        },
        buffer,
    ))
}

fn build(translated: &str, flags: Flags, value: Span, keyword: &str) -> Result<Regex, Fault> {
    RegexBuilder::new(translated)
        .bytes_mode(BytesMode::Ascii)
        .unicode_mode(false)
        .case_insensitive(flags.caseless)
        .multi_line(flags.multi_line)
        .dot_matches_new_line(flags.dot_all)
        .ignore_whitespace(flags.extended)
        .backtrack_limit(BACKTRACKS)
        .delegate_size_limit(PROGRAM_BYTES)
        .delegate_dfa_size_limit(AUTOMATON_BYTES)
        .build()
        .map_err(|error| {
            Fault::new(
                value,
                format!("this expression of `{keyword}` is not supported: {error}"),
            )
            .skip(SkipReason::Keywords(vec![keyword.to_string()]))
        })
}

/// Reads the value of `pcrexform`: an expression in quotes, with a group.
pub(crate) fn parse_capture(text: &str, value: Span) -> Result<Pattern, Fault> {
    let written = value.of(text);
    let inner = written.strip_prefix('"');
    let expression = inner
        .and_then(|rest| rest.strip_suffix('"'))
        .ok_or_else(|| {
            Fault::new(
                value,
                "the value of `pcrexform` is not an expression in quotes",
            )
            .help("write `pcrexform:\"user=([a-z]+)\"`")
        })?;
    let translated = translate(expression, Flags::default());
    let regex = build(&translated, Flags::default(), value, "pcrexform")?;
    if regex.captures_len() != 2 {
        let message = "the expression of `pcrexform` has not one group";
        return Err(Fault::new(value, message).help("put the part that is wanted in parentheses"));
    }
    Ok(Pattern {
        text: translated,
        regex: Arc::new(regex),
    })
}

fn read_flags(words: &str, value: Span) -> Result<(Flags, Option<Buffer>), Fault> {
    let mut flags = Flags::default();
    let mut buffer = None;
    for flag in words.chars() {
        match flag {
            'i' => flags.caseless = true,
            'm' => flags.multi_line = true,
            's' => flags.dot_all = true,
            'x' => flags.extended = true,
            'A' => flags.anchored = true,
            'E' => flags.dollar_end_only = true,
            'G' => flags.ungreedy = true,
            'R' => flags.relative = true,
            // Raw bytes are what is searched, and the limit of steps is that of all expressions.
            'B' | 'O' => {}
            flag => match buffer_of(flag) {
                Some(named) if buffer.is_none_or(|known| known == named) => buffer = Some(named),
                Some(_) => {
                    return Err(Fault::new(value, "the flags of `pcre` name two buffers"));
                }
                None => {
                    return Err(Fault::new(value, format!("unknown flag `{flag}` of `pcre`")).help(
                        "flags are i m s x A E G R B O, and U I H D M C P Q S Y V W Z for buffers",
                    ));
                }
            },
        }
    }
    Ok((flags, buffer))
}

/// The buffer that the flags of a `pcre` option name, for a look before the rule is read.
pub(crate) fn named_buffer(written: &str) -> Option<Buffer> {
    let written = written.trim_end();
    let (_, words) = written
        .strip_suffix('"')
        .unwrap_or(written)
        .rsplit_once('/')?;
    words.chars().find_map(buffer_of)
}

/// Writes what Perl reads otherwise in the way that `fancy-regex` reads it.
fn translate(expression: &str, flags: Flags) -> String {
    let mut out = String::with_capacity(expression.len() + 16);
    if flags.ungreedy {
        out.push_str("(?U)");
    }
    if flags.anchored {
        out.push_str("\\A(?:");
    }
    let mut rest = expression;
    let mut class = false;
    let mut class_start = false;
    while let Some(character) = rest.chars().next() {
        let after = rest.get(character.len_utf8()..).unwrap_or("");
        let first_in_class = std::mem::take(&mut class_start);
        let mut taken = character.len_utf8();
        match character {
            '\\' => {
                taken += push_escape(&mut out, after, class);
            }
            '[' if !class => {
                class = true;
                class_start = true;
                out.push('[');
                if after.starts_with('^') {
                    out.push('^');
                    taken += 1;
                }
            }
            // A bracket that comes first stands for itself.
            ']' if class && first_in_class => out.push_str("\\]"),
            ']' if class => {
                class = false;
                out.push(']');
            }
            '[' if after.starts_with(':') && after.contains(":]") => {
                let end = after.find(":]").map_or(0, |end| end + 2);
                out.push('[');
                out.push_str(after.get(..end).unwrap_or(""));
                taken += end;
            }
            '[' | '&' | '~' if class => {
                out.push('\\');
                out.push(character);
            }
            '-' if class && after.starts_with('-') => out.push_str("\\-"),
            '{' if !class && !is_repetition(after) => out.push_str("\\{"),
            '{' if !class => {
                let end = after.find('}').map_or(0, |end| end + 1);
                out.push('{');
                out.push_str(after.get(..end).unwrap_or(""));
                taken += end;
            }
            '}' if !class => out.push_str("\\}"),
            // Perl's `$` also stands before a last line end.
            '$' if !class && flags.dollar_end_only && !flags.multi_line => out.push_str("\\z"),
            '$' if !class && !flags.multi_line => out.push_str("(?=\\n?\\z)"),
            _ => out.push(character),
        }
        rest = rest.get(taken..).unwrap_or("");
    }
    if flags.anchored {
        out.push(')');
    }
    out
}

/// True if what follows a `{` makes it a repetition.
fn is_repetition(after: &str) -> bool {
    let Some((inside, _)) = after.split_once('}') else {
        return false;
    };
    let number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    match inside.split_once(',') {
        Some((low, high)) => !low.is_empty() && number(low) && number(high),
        None => !inside.is_empty() && number(inside),
    }
}

/// Writes an escape; `after` is what follows the backslash. Gives how many bytes of it were taken.
fn push_escape(out: &mut String, after: &str, class: bool) -> usize {
    let group = after
        .strip_prefix("g{")
        .and_then(|rest| rest.split_once('}'));
    if let Some((number, _)) = group {
        // A reference to a group by its number.
        out.push_str("(?:\\");
        out.push_str(number);
        out.push(')');
        return number.len() + 3;
    }
    let escaped = after.chars().next();
    match escaped {
        // Words begin and end so in `fancy-regex`; in Perl these are plain.
        Some(plain @ ('<' | '>')) => out.push(plain),
        // A horizontal space in Perl, a hexadecimal digit there.
        Some('h') if class => out.push_str(" \\t"),
        Some('h') => out.push_str("[ \\t]"),
        Some(' ') => out.push_str("\\x20"),
        Some('_') => out.push('_'),
        Some(other) if !other.is_ascii() => out.push(other),
        Some(other) => {
            out.push('\\');
            out.push(other);
        }
        None => out.push_str("\\\\"),
    }
    escaped.map_or(0, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(value: &str, data: &[u8]) -> bool {
        let (pcre, _) = parse(value, Span::new(0, value.len())).unwrap();
        matches!(pcre.pattern.find(data, 0), Search::Found(..))
    }

    #[test]
    fn perl_is_read_as_perl_reads_it() {
        for (value, data, found) in [
            (r#""/a[[b]c/""#, &b"a[c"[..], true),
            (r#""/a[]b]c/""#, b"a]c", true),
            (r#""/a[^]]c/""#, b"a]c", false),
            (r#""/\<a\>/""#, b"<a>", true),
            (r#""/a{b}/""#, b"a{b}", true),
            (r#""/a{2,}/""#, b"aa", true),
            (r#""/a$/""#, b"a\n", true),
            (r#""/a$/E""#, b"a\n", false),
            (r#""/^b/""#, b"a\nb", false),
            (r#""/^b/m""#, b"a\nb", true),
            (r#""/a.b/""#, b"a\nb", false),
            (r#""/a.b/s""#, b"a\nb", true),
            (r#""/a b/xi""#, b"AB", true),
            (r#""/\xff\x00/""#, b"\xff\x00", true),
            (r#""/(a)\1b/""#, b"aab", true),
            (r#""/(a)\g{1}1/""#, b"aa1", true),
            (r#""/(?<!a)b/""#, b"ab", false),
            (r#""/b/A""#, b"ab", false),
            (r#""/^[&~|-]+$/""#, b"&~|-", true),
            (r#""/[[:alpha:]]1/""#, b"x1", true),
        ] {
            assert_eq!(matches(value, data), found, "{value} on {data:?}");
        }
    }

    #[test]
    fn work_is_bounded() {
        let value = r#""/^(?:(?:a(?!z)|aa(?!z))+)+b?dc/""#;
        let (pcre, _) = parse(value, Span::new(0, value.len())).unwrap();
        let data = [&[b'a'; 64][..], b"bc"].concat();
        assert!(matches!(pcre.pattern.find(&data, 0), Search::Limit));
    }

    #[test]
    fn flags_name_buffers() {
        let value = r#"!"/a/Ui""#;
        let (pcre, buffer) = parse(value, Span::new(0, value.len())).unwrap();
        assert!(pcre.negated && !pcre.relative);
        assert_eq!(buffer, Some(Buffer::HttpUri));
        assert_eq!(named_buffer(value), Some(Buffer::HttpUri));
        for (value, words) in [
            (r#""/a/UH""#, "two buffers"),
            (r#""/a/k""#, "unknown flag"),
            (r#""a""#, "not an expression"),
            (r#""/(a/""#, "not supported"),
        ] {
            let fault = parse(value, Span::new(0, value.len())).unwrap_err();
            assert!(fault.message.contains(words), "{}", fault.message);
        }
    }
}
