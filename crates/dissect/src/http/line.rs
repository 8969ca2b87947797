//! Detects and parses HTTP/1 start lines: request lines and status lines.
//!
//! Follows RFC 9112 sections 3 and 4, but accepts common deviations and evasion
//! attempts: a bare LF ends a line, several spaces or tabs may separate fields,
//! spaces in the target are kept, and the version may be missing (HTTP/0.9) or
//! truncated.

/// Known methods. One of them identifies a request even if the version is missing
/// or not received yet. They come from RFC 9110, WebDAV and its extensions, UPnP,
/// RPC over HTTP, Subversion and HTTP caches.
const METHODS: &[&[u8]] = &[
    b"GET",
    b"POST",
    b"HEAD",
    b"PUT",
    b"DELETE",
    b"OPTIONS",
    b"TRACE",
    b"CONNECT",
    b"PATCH",
    b"LINK",
    b"UNLINK",
    b"PROPFIND",
    b"PROPPATCH",
    b"MKCOL",
    b"COPY",
    b"MOVE",
    b"LOCK",
    b"UNLOCK",
    b"POLL",
    b"SEARCH",
    b"BIND",
    b"UNBIND",
    b"REBIND",
    b"ACL",
    b"REPORT",
    b"CHECKOUT",
    b"CHECKIN",
    b"UNCHECKOUT",
    b"MERGE",
    b"MKACTIVITY",
    b"MKWORKSPACE",
    b"MKCALENDAR",
    b"UPDATE",
    b"LABEL",
    b"VERSION-CONTROL",
    b"BASELINE-CONTROL",
    b"BCOPY",
    b"BDELETE",
    b"BMOVE",
    b"BPROPFIND",
    b"BPROPPATCH",
    b"NOTIFY",
    b"SUBSCRIBE",
    b"UNSUBSCRIBE",
    b"M-SEARCH",
    b"SOURCE",
    b"PURGE",
    b"RPC_CONNECT",
    b"RPC_IN_DATA",
    b"RPC_OUT_DATA",
    b"CCM_POST",
];

/// Methods that count as a request even without a target (`GET\r\n`).
const METHODS_WITHOUT_TARGET: &[&[u8]] = &[b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS"];

/// With this many bytes [`classify_opening`] never returns [`Start::NeedMore`]. Longer than any
/// known method.
pub const LONGEST_OPENING: usize = 20;

/// Classifies a flow by its first bytes, without waiting for a whole line: a known
/// method and a space or tab is a request, `HTTP/` and a digit is a response.
/// [`classify_line`] is stricter: it checks the whole line.
pub fn classify_opening(bytes: &[u8]) -> Start {
    let bytes = bytes.get(..LONGEST_OPENING).unwrap_or(bytes);
    let word = bytes.iter().take_while(|b| is_token(**b)).count();
    let (method, rest) = bytes.split_at(word);
    match rest {
        [] => {
            let begun = bytes.len() < LONGEST_OPENING
                && (METHODS.iter().any(|known| known.starts_with(method))
                    || starts_with_ignoring_case(b"HTTP", method));
            if begun { Start::NeedMore } else { Start::No }
        }
        [b' ' | b'\t', ..] if METHODS.contains(&method) => Start::Request,
        [b'/', digit, ..] if method.eq_ignore_ascii_case(b"HTTP") && digit.is_ascii_digit() => {
            Start::Response
        }
        [b'/'] if method.eq_ignore_ascii_case(b"HTTP") => Start::NeedMore,
        _ => Start::No,
    }
}

/// Start of a response.
pub(super) const RESPONSE: &[u8] = b"HTTP/";
/// Longest method accepted, in bytes.
const LONGEST_METHOD: usize = 32;
/// After an unknown method, the number of bytes without LF at which detection
/// gives up.
const LONGEST_STRANGE_LINE: usize = 8 * 1024;

/// Kinds of first bytes of a possible message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// A request.
    Request,
    /// A response.
    Response,
    /// Undecided: more bytes are needed.
    NeedMore,
    /// Not HTTP/1.
    No,
}

/// Classifies the first line of a possible message. With `strict` a request needs
/// a version; otherwise `GET /x` (HTTP/0.9) is a request, too. After a known method
/// the result is [`Start::NeedMore`] until an LF comes, so the caller bounds the length.
pub fn classify_line(bytes: &[u8], strict: bool) -> Start {
    let common = bytes
        .iter()
        .zip(RESPONSE)
        .take_while(|(a, b)| a.eq_ignore_ascii_case(b))
        .count();
    if common == RESPONSE.len() {
        return match bytes.get(RESPONSE.len()) {
            None => Start::NeedMore,
            Some(b) if b.is_ascii_digit() => Start::Response,
            Some(_) => Start::No,
        };
    }
    if common == bytes.len() {
        return Start::NeedMore;
    }
    let length = bytes
        .iter()
        .take(LONGEST_METHOD + 1)
        .take_while(|b| is_token(**b))
        .count();
    if length == 0 || length > LONGEST_METHOD {
        return Start::No;
    }
    let (method, rest) = bytes.split_at(length);
    let known = METHODS.contains(&method);
    match rest.first() {
        None => return Start::NeedMore,
        Some(b' ' | b'\t') => {}
        // `GET\r\n` has no target, but is counted as a request.
        Some(b'\r' | b'\n') if METHODS_WITHOUT_TARGET.contains(&method) && !strict => {}
        Some(_) => return Start::No,
    }
    let end = rest.iter().position(|&b| b == b'\n');
    if !known && end.unwrap_or(rest.len()) > LONGEST_STRANGE_LINE {
        return Start::No;
    }
    let Some(end) = end else {
        return Start::NeedMore;
    };
    let line = rest.get(..end).unwrap_or(rest).trim_ascii();
    let (target, version) = split_target(line);
    if method == b"PRI" && version.starts_with(b"HTTP/2") {
        return Start::No; // HTTP/2 with prior knowledge (RFC 9113 section 3.4)
    }
    if !version.is_empty() {
        return Start::Request;
    }
    let last = last_word(line);
    if strict || !known || is_other_version(last) {
        return Start::No;
    }
    let plausible = target.is_empty()
        || target.starts_with(b"/")
        || target == b"*"
        || starts_with_ignoring_case(target, b"http")
        || method == b"CONNECT";
    if plausible { Start::Request } else { Start::No }
}

/// Splits the text after the method into target and version. The version is empty
/// if the text does not end in one, or has nothing else.
fn split_target(line: &[u8]) -> (&[u8], &[u8]) {
    let last = last_word(line);
    if last.len() < line.len() && starts_with_ignoring_case(last, b"HTTP/") {
        let target = line.get(..line.len() - last.len()).unwrap_or(line);
        (target.trim_ascii(), last)
    } else {
        (line, &[])
    }
}

fn last_word(line: &[u8]) -> &[u8] {
    line.rsplit(|b| matches!(b, b' ' | b'\t'))
        .next()
        .unwrap_or(line)
}

/// `RTSP/1.0`, `SIP/2.0`, `ICAP/1.0`: the version of another protocol.
fn is_other_version(word: &[u8]) -> bool {
    let Some(slash) = word.iter().position(|&b| b == b'/') else {
        return false;
    };
    let (name, number) = word.split_at(slash);
    !name.is_empty()
        && !name.eq_ignore_ascii_case(b"HTTP")
        && name.iter().all(u8::is_ascii_alphabetic)
        && number.get(1).is_some_and(u8::is_ascii_digit)
        && number.len() <= 4
}

/// True where the bytes begin with these, in upper or lower case.
pub fn starts_with_ignoring_case(bytes: &[u8], prefix: &[u8]) -> bool {
    bytes
        .get(..prefix.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

/// `tchar` of RFC 9110 section 5.6.2.
pub fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

/// A request's first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RequestLine<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The target as sent.
    pub target: &'a [u8],
    /// `HTTP/1.1` and the like; empty for HTTP/0.9.
    pub version: &'a [u8],
}

impl<'a> RequestLine<'a> {
    /// Parses a line for which [`classify_line`] returned [`Start::Request`].
    pub fn parse(line: &'a [u8]) -> RequestLine<'a> {
        let length = line.iter().take_while(|b| is_token(**b)).count();
        let (method, rest) = line.split_at(length);
        let (target, version) = split_target(rest.trim_ascii());
        // Of `OPTIONS HTTP/1.1` the version is the target: see [`split_target`].
        RequestLine {
            method,
            target,
            version,
        }
    }
}

/// A response's first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct StatusLine<'a> {
    /// `HTTP/1.1` and the like.
    pub version: &'a [u8],
    /// The status code: leading digits of the second word, at most three; 0 without
    /// any.
    pub status: u16,
}

impl<'a> StatusLine<'a> {
    /// Parses a line for which [`classify_line`] returned [`Start::Response`].
    pub fn parse(line: &'a [u8]) -> StatusLine<'a> {
        let mut words = line
            .split(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n'))
            .filter(|word| !word.is_empty());
        let version = words.next().unwrap_or(&[]);
        let digits = words.next().unwrap_or(&[]);
        let status = digits
            .iter()
            .take(3)
            .take_while(|b| b.is_ascii_digit())
            .fold(0u16, |n, b| n * 10 + u16::from(b - b'0'));
        StatusLine { version, status }
    }
}

/// Finds a start line that does not begin its line, for example behind the end of
/// a body of which a segment was lost. Returns its offset.
pub fn start_within(line: &[u8]) -> Option<usize> {
    let text = line.trim_ascii_end();
    let last = last_word(text);
    // `HTTP/1.1`; 9 bytes allow a two-digit minor version.
    if starts_with_ignoring_case(last, b"HTTP/1.") && last.len() <= 9 {
        let before = text.len() - last.len();
        // Take the last known method that has a target. After a space or tab it is
        // an ordinary word, not the start of a request (checked below).
        let request = |at: usize| {
            let rest = text.get(at..).unwrap_or(&[]);
            let word = rest.iter().take(LONGEST_METHOD + 1);
            let word = word.take_while(|b| is_token(**b)).count();
            let (method, target) = rest.split_at(word);
            METHODS.contains(&method) && target.first() == Some(&b' ') && at + word + 1 < before
        };
        let last = (0..before).rev().find(|&at| request(at))?;
        let before_it = text.get(..last)?.iter().rev().take(LONGEST_METHOD);
        let word = before_it.take_while(|b| is_token(**b));
        // `UNLOCK` ends in `LOCK`: take the longer method.
        let at = (last - word.count()..=last).find(|&at| request(at))?;
        let spaced = at.checked_sub(1).and_then(|i| text.get(i));
        return (!matches!(spaced, Some(b' ' | b'\t'))).then_some(at);
    }
    // A status line: `HTTP/1.x NNN`, 12 bytes.
    text.windows(12).position(|w| {
        starts_with_ignoring_case(w, b"HTTP/1.")
            && matches!(w, [_, _, _, _, _, _, _, v, b' ', a, b, c]
                if v.is_ascii_digit() && a.is_ascii_digit() && b.is_ascii_digit() && c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts() {
        use Start::*;
        for (text, strict, expected) in [
            ("", false, NeedMore),
            ("G", false, NeedMore),
            ("H", false, NeedMore),
            ("HEAD", false, NeedMore),
            ("GET / HT", false, NeedMore),
            ("GET / HTTP/1.1\r", false, NeedMore),
            ("GET / HTTP/1.1\r\n", true, Request),
            ("GET\t/ HTTP/1.1\n", true, Request),
            ("FOO bar HTTP/1.1\r\n", true, Request),
            ("FOO bar\r\n", false, No),
            ("GET /zeek.html\r\n", false, Request),
            ("GET /zeek.html\r\n", true, No),
            ("GET /HTTP/1.1\r\n", false, Request),
            ("OPTIONS HTTP/1.1\r\n", false, Request),
            ("GET/ HTTP/1.1\r\n", false, No),
            ("GET \r\n", false, Request),
            ("OPTIONS\n", false, Request),
            ("OPTIONS\n", true, No),
            ("COPY\n", false, No),
            ("GET key\r\n", false, No),
            ("get key\r\n", false, No),
            ("OPTIONS rtsp://a/b RTSP/1.0\r\n", false, No),
            ("OPTIONS sip:a SIP/2.0\r\n", false, No),
            ("PRI * HTTP/2.0\r\n", false, No),
            (" GET / HTTP/1.1\r\n", false, No),
            ("HTTP/1.1 200 OK", false, Response),
            ("http/1", false, Response),
            ("HTTP/", false, NeedMore),
            ("HTTPS", false, NeedMore),
            ("HTTP/x", false, No),
            ("\x16\x03\x01", false, No),
            ("EHLO example\r\n", false, No),
        ] {
            assert_eq!(classify_line(text.as_bytes(), strict), expected, "{text:?}");
        }
    }

    #[test]
    fn openings() {
        use Start::*;
        for (text, expected) in [
            ("G", NeedMore),
            ("GET", NeedMore),
            ("GET ", Request),
            ("BASELINE-CONTROL", NeedMore),
            ("BASELINE-CONTROL /", Request),
            ("HTTP", NeedMore),
            ("HTTP/", NeedMore),
            ("HTTP/1", Response),
            ("HTTPS", No),
            ("SSH-2.0-x", No),
            ("EHLO ", No),
            ("\x16\x03", No),
        ] {
            assert_eq!(classify_opening(text.as_bytes()), expected, "{text:?}");
        }
        assert!(METHODS.iter().all(|m| m.len() < LONGEST_OPENING));
    }

    #[test]
    fn lines() {
        let line = RequestLine::parse(b"GET  /a b?c  HTTP/1.0\r");
        assert_eq!(line.target, b"/a b?c");
        assert_eq!(line.version, b"HTTP/1.0");
        assert_eq!(RequestLine::parse(b"OPTIONS HTTP/1.1").target, b"HTTP/1.1");
        assert_eq!(StatusLine::parse(b"HTTP/1.1 404 Not Found\r").status, 404);
        assert_eq!(StatusLine::parse(b"HTTP/1.1\r").status, 0);
    }

    #[test]
    fn messages_inside_a_line() {
        assert_eq!(start_within(b"a=1GET / HTTP/1.1\r\n"), Some(3));
        assert_eq!(start_within(b"</html>HTTP/1.1 200 OK\r\n"), Some(7));
        assert_eq!(start_within(b"nothing HTTP/1.1\r\n"), None);
        assert_eq!(start_within(b"a=1UNLOCK /x HTTP/1.1\r\n"), Some(3));
        assert_eq!(start_within(b""), None);
        assert_eq!(start_within(b" GET / HTTP/1.1\r\n"), None);
        assert_eq!(start_within(b"\x05\x00GET / HTTP/1.1\r\n"), Some(2));
    }
}
