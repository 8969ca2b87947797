//! Where the lines of a head end, and the head itself.
//!
//! A request's line ends with LF; a CR in front belongs to the end (RFC 9112 section 2.2), and an empty line
//! ends the head. Browsers take more than that from a server, and a server that evades inspection sends it
//! (<https://noxxi.de/research/http-evader.html>), so that in a response
//!
//! * a CR that neither CR nor LF follows ends a line,
//! * a CR behind a lone LF belongs to that end,
//! * LF CR CR LF CR LF are two ends, and
//! * a line of one blank and a lone LF ends the head, unless another LF follows.
//!
//! These are the rules of libhtp 0.5, which Suricata 7 uses.

/// The message that a head belongs to. A response's lines end in more ways than a request's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadOf {
    /// A request.
    Request,
    /// A response.
    Response,
}

/// Effect of one byte: a line or the head ends before it, or with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    None,
    /// The line ended before this byte.
    LineBefore,
    /// This byte is the line's last one, or belongs to the end of the line before.
    LineWith,
    /// The head ended before this byte.
    HeadBefore,
    /// This byte is the head's last one.
    HeadWith,
}

/// Place in a line, as far as it bears on the line's end. The numbers are part of states.
mod at {
    pub(super) const START: u8 = 0;
    pub(super) const TEXT: u8 = 1;
    /// Behind nothing but CR.
    pub(super) const EMPTY: u8 = 2;
    /// The same places in a response.
    pub(super) const RESPONSE: u8 = 8;
    pub(super) const RESPONSE_TEXT: u8 = RESPONSE + TEXT;
    pub(super) const RESPONSE_EMPTY: u8 = RESPONSE + EMPTY;
    /// Behind text and CR.
    pub(super) const CARRIAGE_RETURN: u8 = 11;
    /// Behind a lone LF.
    pub(super) const LINE_FEED: u8 = 12;
    /// Behind one blank at the start of a line.
    pub(super) const BLANK: u8 = 13;
    /// Behind a blank and LF.
    pub(super) const BLANK_LINE: u8 = 14;
    /// Behind a lone LF and the CR that belongs to it, and so on.
    pub(super) const LF_CR: u8 = 15;
    pub(super) const LF_CR_CR: u8 = 16;
    pub(super) const LF_CR_CR_LF: u8 = 17;
    pub(super) const LF_CR_CR_LF_CR: u8 = 18;
}

/// Reads a head byte by byte, in whatever pieces, up to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ending(u8);

impl Ending {
    /// In the first line.
    pub(super) fn in_first_line(of: HeadOf) -> Ending {
        match of {
            HeadOf::Request => Ending(at::TEXT),
            HeadOf::Response => Ending(at::RESPONSE_TEXT),
        }
    }

    /// At the start of a line; ends are those of a request, whatever the message.
    pub(super) fn at_line() -> Ending {
        Ending(at::START)
    }

    fn at_line_of(of: HeadOf) -> Ending {
        match of {
            HeadOf::Request => Ending(at::START),
            HeadOf::Response => Ending(at::RESPONSE),
        }
    }

    pub(super) fn to_byte(self) -> u8 {
        self.0
    }

    pub(super) fn from_byte(byte: u8) -> Ending {
        Ending(byte)
    }

    fn feed(&mut self, byte: u8) -> End {
        let (next, end) = match (self.0, byte) {
            (at::START | at::EMPTY, b'\n') => (at::START, End::HeadWith),
            (at::START, b'\r') => (at::EMPTY, End::None),
            (at::TEXT, b'\n') => (at::START, End::LineWith),
            (at::START | at::TEXT | at::EMPTY, _) => (at::TEXT, End::None),

            (at::CARRIAGE_RETURN, b'\n') => (at::RESPONSE, End::LineWith),
            (at::RESPONSE_TEXT | at::CARRIAGE_RETURN, b'\r') => (at::CARRIAGE_RETURN, End::None),
            (at::RESPONSE_TEXT, b'\n') => (at::LINE_FEED, End::LineWith),
            (at::RESPONSE_TEXT, _) => (at::RESPONSE_TEXT, End::None),
            (at::BLANK, b'\r') => (at::CARRIAGE_RETURN, End::None),
            (at::BLANK, b'\n') => (at::BLANK_LINE, End::LineWith),
            (at::BLANK, _) => (at::RESPONSE_TEXT, End::None),
            (at::LINE_FEED, b'\r') => (at::LF_CR, End::LineWith),
            (at::LF_CR, b'\r') => (at::LF_CR_CR, End::None),
            (at::LF_CR_CR, b'\n') => (at::LF_CR_CR_LF, End::LineWith),
            (at::LF_CR_CR_LF, b'\r') => (at::LF_CR_CR_LF_CR, End::None),
            (at::LF_CR_CR_LF_CR, b'\n') => (at::RESPONSE, End::HeadWith),
            (at::BLANK_LINE, b'\n') => (at::RESPONSE, End::HeadWith),
            (at::BLANK_LINE | at::LF_CR_CR_LF | at::LF_CR_CR_LF_CR, _) => {
                (at::RESPONSE, End::HeadBefore)
            }
            (at::RESPONSE_EMPTY | at::RESPONSE | at::LINE_FEED | at::LF_CR, b'\n') => {
                (at::RESPONSE, End::HeadWith)
            }
            // Behind CR alone comes text, be it a blank.
            (at::RESPONSE_EMPTY | at::LF_CR_CR, _) => (at::RESPONSE_TEXT, End::None),
            // The start of a response's line, also behind CR.
            (behind, _) => {
                let next = match byte {
                    b'\r' => at::RESPONSE_EMPTY,
                    b' ' | b'\t' => at::BLANK,
                    _ => at::RESPONSE_TEXT,
                };
                let ended = behind == at::CARRIAGE_RETURN;
                (next, if ended { End::LineBefore } else { End::None })
            }
        };
        self.0 = next;
        end
    }

    /// Counts the bytes in front that cannot end a line.
    fn skip(self, bytes: &[u8]) -> usize {
        let text = match self.0 {
            at::TEXT => bytes.iter().position(|&b| b == b'\n'),
            at::RESPONSE_TEXT => bytes.iter().position(|&b| matches!(b, b'\r' | b'\n')),
            _ => Some(0),
        };
        text.unwrap_or(bytes.len())
    }

    /// Reads on. Returns how many of the bytes belong to the head, and whether it ended behind them.
    pub(super) fn head_bytes(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut read = self.skip(bytes);
        while let Some(&byte) = bytes.get(read) {
            match self.feed(byte) {
                End::HeadBefore => return (read, true),
                End::HeadWith => return (read + 1, true),
                _ => read += 1,
            }
            read += self.skip(bytes.get(read..).unwrap_or(&[]));
        }
        (read, false)
    }

    /// Length of one line, its end included.
    fn line_bytes(&mut self, bytes: &[u8]) -> usize {
        let mut read = self.skip(bytes);
        while let Some(&byte) = bytes.get(read) {
            match self.feed(byte) {
                End::LineBefore | End::HeadBefore if read > 0 => return read,
                End::LineWith | End::HeadWith => {
                    let swallows = self.0 == at::LINE_FEED && bytes.get(read + 1) == Some(&b'\r');
                    return read + 1 + usize::from(swallows);
                }
                _ => read += 1,
            }
            read += self.skip(bytes.get(read..).unwrap_or(&[]));
        }
        bytes.len()
    }
}

/// The first line of a head, its end included, and the rest.
pub(super) fn split_first_line(head: &[u8], of: HeadOf) -> (&[u8], &[u8]) {
    head.split_at(Ending::in_first_line(of).line_bytes(head))
}

/// Length of the head at the start of `bytes`, its empty line included; `None` where its end is missing.
pub fn head_end(bytes: &[u8], of: HeadOf) -> Option<usize> {
    match Ending::in_first_line(of).head_bytes(bytes) {
        (length, true) => Some(length),
        _ => None,
    }
}

/// Fields of a head, each with the lines that continue it (RFC 9112 section 5.2).
///
/// In a response a NUL continues a field as a blank does; and in HTTP/1.1 a line with a colon is a field of its own,
/// though a blank stands in front of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldLines<'a> {
    rest: &'a [u8],
    of: HeadOf,
    colons_begin: bool,
}

impl<'a> FieldLines<'a> {
    /// Reads the lines behind the first one.
    pub(super) fn new(head: &'a [u8], of: HeadOf) -> FieldLines<'a> {
        let (first, rest) = split_first_line(head, of);
        let colons_begin = of == HeadOf::Response && first.starts_with(b"HTTP/1.1");
        FieldLines {
            rest,
            of,
            colons_begin,
        }
    }

    /// True where a line continues the field before it, which has a colon or not.
    fn continues(&self, colon: bool, line: &[u8]) -> bool {
        let begins = match line.first() {
            Some(b' ' | b'\t') => true,
            Some(0) => self.of == HeadOf::Response,
            _ => false,
        };
        begins && !(self.colons_begin && colon && line.contains(&b':'))
    }
}

impl<'a> Iterator for FieldLines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let (mut end, mut colon) = (0, false);
        loop {
            let after = self.rest.get(end..).unwrap_or(&[]);
            let line = Ending::at_line_of(self.of).line_bytes(after);
            let text = after.get(..line).unwrap_or(after);
            if text.is_empty() || end > 0 && !self.continues(colon, text) {
                break;
            }
            colon |= text.contains(&b':');
            end += line;
        }
        let (field, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(field)
    }
}

/// The bytes without NUL, which browsers pass over in names and values.
pub(super) fn without_nul(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.iter().copied().filter(|&b| b != 0)
}

/// A field's name and value without what stands around them: blanks, vertical tabs and NUL. A line without a
/// colon is a value, as in libhtp.
pub(super) fn name_and_value(line: &[u8]) -> (&[u8], &[u8]) {
    let (name, value) = match line.iter().position(|&b| b == b':') {
        Some(colon) => (line.get(..colon), line.get(colon + 1..)),
        None => (None, Some(line)),
    };
    (trim(name.unwrap_or(&[])), trim(value.unwrap_or(&[])))
}

fn trim(mut bytes: &[u8]) -> &[u8] {
    let around = |b: u8| b.is_ascii_whitespace() || matches!(b, 0 | 0x0b);
    while let [first, rest @ ..] = bytes
        && around(*first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && around(*last)
    {
        bytes = rest;
    }
    bytes
}

/// True where a name is this one, in upper or lower case.
pub(super) fn is_name(name: &[u8], known: &[u8]) -> bool {
    // Nearly all names have no NUL, and most are of another length.
    if name.len() == known.len() {
        return name.eq_ignore_ascii_case(known);
    }
    name.len() > known.len()
        && name.contains(&0)
        && without_nul(name)
            .map(|b| b.to_ascii_lowercase())
            .eq(known.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(head: &str, of: HeadOf) -> Vec<String> {
        FieldLines::new(head.as_bytes(), of)
            .map(|line| String::from_utf8_lossy(line).into_owned())
            .collect()
    }

    #[test]
    fn a_response_ends_where_a_browser_sees_its_end() {
        for (head, of_response, of_request) in [
            ("HTTP/1.1 200 ok\r\n\r\nbody", 19, Some(19)),
            ("HTTP/1.1 200 ok\n\nbody", 17, Some(17)),
            ("HTTP/1.1 200 ok\rA: b\r\n\nbody", 23, Some(23)),
            ("HTTP/1.1 200 ok\r\n\r\rnobody\n\n", 27, Some(27)),
            ("HTTP/1.1 200 ok\n\r\r\n\r\nbody", 21, Some(21)),
            ("HTTP/1.1 200 ok\n\r\r\nbody\n\n", 19, Some(25)),
            ("HTTP/1.1 200 ok\n\r\nbody", 18, Some(18)),
            ("HTTP/1.1 200 ok\n \nbody\n\n", 18, Some(24)),
            ("HTTP/1.1 200 ok\n\t\n\n", 19, Some(19)),
        ] {
            assert_eq!(
                head_end(head.as_bytes(), HeadOf::Response),
                Some(of_response),
                "{head:?}"
            );
            assert_eq!(
                head_end(head.as_bytes(), HeadOf::Request),
                of_request,
                "{head:?}"
            );
            // The same in pieces of one byte.
            let mut ending = Ending::in_first_line(HeadOf::Response);
            let mut read = 0;
            for byte in head.as_bytes().chunks(1) {
                let (used, ended) = ending.head_bytes(byte);
                read += used;
                if ended {
                    break;
                }
            }
            assert_eq!(read, of_response, "{head:?}");
        }
        assert_eq!(head_end(b"HTTP/1.1 200 ok\r\n \n", HeadOf::Response), None);
    }

    #[test]
    fn lines_of_a_response_and_their_continuations() {
        let response = |head| fields(head, HeadOf::Response);
        assert_eq!(
            response("HTTP/1.1 200 ok\rA: b\r C: d\r\nE\n\rF: g\n"),
            ["A: b\r", " C: d\r\n", "E\n\r", "F: g\n"]
        );
        assert_eq!(
            response("HTTP/1.0 200\nA: b\n C: d\nE:\n\0f\n"),
            ["A: b\n C: d\n", "E:\n\0f\n"]
        );
        let request = fields(
            "GET / HTTP/1.1\r\nA: b\rC: d\r\n E: f\r\n\0G\r\n\r\n",
            HeadOf::Request,
        );
        assert_eq!(request, ["A: b\rC: d\r\n E: f\r\n", "\0G\r\n", "\r\n"]);
    }

    #[test]
    fn names_and_values() {
        assert_eq!(
            name_and_value(b" a\x0b\0:\0 b :c\r\n"),
            (&b"a"[..], &b"b :c"[..])
        );
        assert_eq!(
            name_and_value(b"no colon\r\n"),
            (&b""[..], &b"no colon"[..])
        );
        assert!(is_name(b"Transfer\0-Encoding", b"transfer-encoding"));
        assert!(!is_name(b"Transfer\0-Encodin", b"transfer-encoding"));
        assert!(!is_name(b"Transfer-Encoding2", b"transfer-encoding"));
    }
}
