//! First lines of HTTP messages: is this one, and what does it say?
//!
//! RFC 9112 sections 3 and 4; lenient where real traffic and evasions are: a
//! bare LF ends a line, several spaces or tabs separate its parts, spaces in
//! the target are kept, and the version may be missing (HTTP/0.9) or cut.

/// Methods that announce a request even where the version is missing or not
/// seen yet: RFC 9110, WebDAV and its relatives, UPnP, and what RPC over HTTP,
/// Subversion and caches use.
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

/// Methods that are taken for a request even without anything behind them.
const STANDARD: &[&[u8]] = &[b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS"];

/// Bytes after which [`opening`] always knows.
pub const LONGEST_OPENING: usize = 20;

/// Judges a flow's first bytes by themselves: a known method and a space, or
/// `HTTP/` and a digit.
pub fn opening(bytes: &[u8]) -> Start {
    let bytes = bytes.get(..LONGEST_OPENING).unwrap_or(bytes);
    let word = bytes.iter().take_while(|b| is_token(**b)).count();
    let (method, rest) = bytes.split_at(word);
    match rest {
        [] => {
            let begun = bytes.len() < LONGEST_OPENING
                && (METHODS.iter().any(|known| known.starts_with(method))
                    || b"HTTP".starts_with(method));
            if begun { Start::More } else { Start::No }
        }
        [b' ' | b'\t', ..] if METHODS.contains(&method) => Start::Request,
        [b'/', digit, ..] if method.eq_ignore_ascii_case(b"HTTP") && digit.is_ascii_digit() => {
            Start::Response
        }
        [b'/'] if method.eq_ignore_ascii_case(b"HTTP") => Start::More,
        _ => Start::No,
    }
}

/// Longest method that is looked at.
const LONGEST_METHOD: usize = 32;
/// Longest first line of a request whose method is not a known one.
const LONGEST_STRANGE_LINE: usize = 8 * 1024;

/// What the first bytes of a would-be message are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// A request.
    Request,
    /// A response.
    Response,
    /// Too few bytes to say.
    More,
    /// No HTTP/1 message.
    No,
}

/// Judges the first bytes of a would-be message. With `strict` a request must
/// show its version; without it, `GET /x` is one as well.
pub fn start_of(bytes: &[u8], strict: bool) -> Start {
    const RESPONSE: &[u8] = b"HTTP/";
    let common = bytes
        .iter()
        .zip(RESPONSE)
        .take_while(|(a, b)| a.eq_ignore_ascii_case(b))
        .count();
    if common == RESPONSE.len() {
        return match bytes.get(RESPONSE.len()) {
            None => Start::More,
            Some(b) if b.is_ascii_digit() => Start::Response,
            Some(_) => Start::No,
        };
    }
    if common == bytes.len() {
        return Start::More;
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
        None => return Start::More,
        Some(b' ' | b'\t') => {}
        // A request that lacks its target is still one to whoever counts them.
        Some(b'\r' | b'\n') if STANDARD.contains(&method) && !strict => {}
        Some(_) => return Start::No,
    }
    let Some(end) = rest.iter().position(|&b| b == b'\n') else {
        return if !known && rest.len() > LONGEST_STRANGE_LINE {
            Start::No
        } else {
            Start::More
        };
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

/// Splits what follows the method into target and version; the version is
/// empty where the line does not end in one.
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

pub(crate) fn starts_with_ignoring_case(bytes: &[u8], prefix: &[u8]) -> bool {
    bytes
        .get(..prefix.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

/// `tchar` of RFC 9110 section 5.6.2.
pub(crate) fn is_token(b: u8) -> bool {
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
    /// Out of a line that [`start_of`] called a request.
    pub fn parse(line: &'a [u8]) -> RequestLine<'a> {
        let length = line.iter().take_while(|b| is_token(**b)).count();
        let (method, rest) = line.split_at(length);
        let (target, version) = split_target(rest.trim_ascii());
        if target.is_empty() {
            // `OPTIONS HTTP/1.1`: what is there stands where the target goes.
            return RequestLine {
                method,
                target: version,
                version: &[],
            };
        }
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
    /// The status code, 0 where it is no number.
    pub status: u16,
}

impl<'a> StatusLine<'a> {
    /// Out of a line that [`start_of`] called a response.
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

/// Position of a message's first line inside a line that begins with the tail
/// of something else (the body of which a part is lost).
pub(crate) fn start_within(line: &[u8]) -> Option<usize> {
    let text = line.trim_ascii_end();
    let last = last_word(text);
    if starts_with_ignoring_case(last, b"HTTP/1.") && last.len() <= 9 {
        let before = text.len() - last.len();
        // The last method with a target behind it is taken, but `OPTIONS` of
        // ` OPTIONS /` is a word of a line that is no request.
        let request = |at: usize| {
            let rest = text.get(at..).unwrap_or(&[]);
            let word = rest.iter().take_while(|b| is_token(**b)).count();
            let (method, target) = rest.split_at(word);
            METHODS.contains(&method) && target.first() == Some(&b' ') && at + word + 1 < before
        };
        let last = (0..before).rev().find(|&at| request(at))?;
        let word = text.get(..last)?.iter().rev().take_while(|b| is_token(**b));
        // Of `UNLOCK` and `LOCK` the longer.
        let at = (last - word.count()..=last).find(|&at| request(at))?;
        let spaced = at.checked_sub(1).and_then(|i| text.get(i));
        return (!matches!(spaced, Some(b' ' | b'\t'))).then_some(at);
    }
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
            ("", false, More),
            ("G", false, More),
            ("H", false, More),
            ("HEAD", false, More),
            ("GET / HT", false, More),
            ("GET / HTTP/1.1\r", false, More),
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
            ("HTTP/", false, More),
            ("HTTPS", false, More),
            ("HTTP/x", false, No),
            ("\x16\x03\x01", false, No),
            ("EHLO example\r\n", false, No),
        ] {
            assert_eq!(start_of(text.as_bytes(), strict), expected, "{text:?}");
        }
    }

    #[test]
    fn openings() {
        use Start::*;
        for (text, expected) in [
            ("G", More),
            ("GET", More),
            ("GET ", Request),
            ("BASELINE-CONTROL", More),
            ("BASELINE-CONTROL /", Request),
            ("HTTP", More),
            ("HTTP/", More),
            ("HTTP/1", Response),
            ("HTTPS", No),
            ("SSH-2.0-x", No),
            ("EHLO ", No),
            ("\x16\x03", No),
        ] {
            assert_eq!(opening(text.as_bytes()), expected, "{text:?}");
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
