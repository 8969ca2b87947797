//! Heads of HTTP messages: the first line and the fields that matter.

use super::ending::{FieldLines, HeadOf, is_name, name_and_value, split_first_line, without_nul};
use super::line::{RequestLine, StatusLine};

/// Fields of a message's head, as slices of it; absent ones are `None`. Of a
/// field that is there twice the first counts. A folded value (RFC 9112
/// section 5.2) is given with its line break.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields<'a> {
    /// `Host`.
    pub host: Option<&'a [u8]>,
    /// `User-Agent`.
    pub user_agent: Option<&'a [u8]>,
    /// `Referer`.
    pub referer: Option<&'a [u8]>,
    /// `Content-Type`.
    pub content_type: Option<&'a [u8]>,
    /// `Content-Length`, where it is a number.
    pub content_length: Option<u64>,
    /// `Transfer-Encoding` names `chunked`; a response's has it in it, wherever.
    pub chunked: bool,
    /// `Expect: 100-continue`.
    pub expects_continue: bool,
    /// `Location`.
    pub location: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    fn parse(head: &'a [u8], of: HeadOf) -> Fields<'a> {
        let mut fields = Fields::default();
        for line in FieldLines::new(head, of) {
            let (name, value) = name_and_value(line);
            fields.set(name, value, of);
        }
        fields
    }

    fn set(&mut self, name: &[u8], value: &'a [u8], of: HeadOf) {
        fn first<'a>(field: &mut Option<&'a [u8]>, value: &'a [u8]) {
            field.get_or_insert(value);
        }
        // The first letter rules out nearly all of them.
        let is = |known: &[u8]| is_name(name, known);
        match name.first().map(u8::to_ascii_lowercase) {
            Some(b'h') if is(b"host") => first(&mut self.host, value),
            Some(b'e') if is(b"expect") => {
                self.expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
            }
            Some(b'r') if is(b"referer") => first(&mut self.referer, value),
            Some(b'l') if is(b"location") => first(&mut self.location, value),
            Some(b'u') if is(b"user-agent") => first(&mut self.user_agent, value),
            Some(b'c') if is(b"content-type") => first(&mut self.content_type, value),
            Some(b'c') if is(b"content-length") => {
                self.content_length = self.content_length.or_else(|| number(value));
            }
            Some(b't') if is(b"transfer-encoding") => self.chunked |= names_chunked(value, of),
            _ => {}
        }
    }
}

/// True where `chunked` is one of a request's codings, or stands anywhere in the value of a response, as browsers
/// and libhtp look for it; NUL counts for nothing.
fn names_chunked(value: &[u8], of: HeadOf) -> bool {
    const CHUNKED: &[u8] = b"chunked";
    if of == HeadOf::Request {
        let mut codings = value.split(|&b| b == b',');
        return codings.any(|coding| coding.trim_ascii().eq_ignore_ascii_case(CHUNKED));
    }
    let found = |text: &[u8]| {
        let mut words = text.windows(CHUNKED.len());
        words.any(|word| word.eq_ignore_ascii_case(CHUNKED))
    };
    found(value) || value.contains(&0) && found(&without_nul(value).collect::<Vec<u8>>())
}

/// Digits only (RFC 9112 section 6.2); of a list of equal numbers the first.
fn number(value: &[u8]) -> Option<u64> {
    let value = value.split(|&b| b == b',').next()?.trim_ascii();
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |n, b| {
        let digit = b.is_ascii_digit().then(|| u64::from(b - b'0'))?;
        n.checked_mul(10)?.checked_add(digit)
    })
}

/// A request's head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestHead<'a> {
    /// Its first line.
    pub line: RequestLine<'a>,
    /// Its fields.
    pub fields: Fields<'a>,
}

impl<'a> RequestHead<'a> {
    /// Reads a head, whole or cut anywhere after its first line.
    pub fn parse(head: &'a [u8]) -> RequestHead<'a> {
        RequestHead {
            line: RequestLine::parse(split_first_line(head, HeadOf::Request).0),
            fields: Fields::parse(head, HeadOf::Request),
        }
    }

    /// The host that is asked: of an absolute target, else of the `Host`
    /// field; without the port.
    pub fn hostname(&self) -> Option<&'a [u8]> {
        let authority = match self.absolute() {
            Some((authority, _)) => authority,
            // A path is no authority (RFC 9112 section 3.2.3).
            None if self.line.method == b"CONNECT" && !self.line.target.starts_with(b"/") => {
                self.line.target
            }
            None => self.fields.host?,
        };
        let host = without_user(authority);
        if host.first() == Some(&b'[') {
            let end = host.iter().position(|&b| b == b']')?;
            return host.get(..=end);
        }
        host.split(|&b| b == b':').next()
    }

    /// Host and port of an absolute target.
    pub(super) fn authority(&self) -> Option<&'a [u8]> {
        self.absolute()
            .map(|(authority, _)| without_user(authority))
    }

    /// Path and query of the target.
    pub fn path_and_query(&self) -> &'a [u8] {
        match self.absolute() {
            Some((_, path)) => path,
            None => self.line.target,
        }
    }

    /// Authority and path of an absolute target (RFC 9112 section 3.2.2).
    fn absolute(&self) -> Option<(&'a [u8], &'a [u8])> {
        let target = self.line.target;
        let scheme = target.windows(3).take(8).position(|w| w == b"://")?;
        if !target.get(..scheme)?.iter().all(u8::is_ascii_alphabetic) {
            return None;
        }
        let rest = target.get(scheme + 3..)?;
        let slash = rest
            .iter()
            .position(|&b| matches!(b, b'/' | b'?'))
            .unwrap_or(rest.len());
        Some(rest.split_at(slash))
    }

    /// How its body is framed (RFC 9112 section 6.3).
    pub fn body(&self) -> Body {
        if self.line.method == b"CONNECT" {
            Body::Tunnel
        } else if self.fields.chunked {
            Body::Chunked
        } else {
            match self.fields.content_length {
                None | Some(0) => Body::None,
                Some(length) => Body::Length(length),
            }
        }
    }
}

/// An authority without the user in front (RFC 3986 section 3.2.1).
fn without_user(authority: &[u8]) -> &[u8] {
    authority.rsplit(|&b| b == b'@').next().unwrap_or(authority)
}

/// A response's head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseHead<'a> {
    /// Its first line.
    pub line: StatusLine<'a>,
    /// Its fields.
    pub fields: Fields<'a>,
}

impl<'a> ResponseHead<'a> {
    /// Reads a head, whole or cut anywhere after its first line.
    pub fn parse(head: &'a [u8]) -> ResponseHead<'a> {
        ResponseHead {
            line: StatusLine::parse(split_first_line(head, HeadOf::Response).0),
            fields: Fields::parse(head, HeadOf::Response),
        }
    }

    /// True for 1xx other than 101: the final response is still to come.
    pub fn is_interim(&self) -> bool {
        (100..200).contains(&self.line.status) && self.line.status != 101
    }

    /// How its body is framed, given the method of the request (RFC 9112
    /// section 6.3); an unknown method is empty.
    pub fn body(&self, method: &[u8]) -> Body {
        let status = self.line.status;
        if method == b"HEAD" {
            return Body::None;
        }
        if method == b"CONNECT" && (200..300).contains(&status) {
            return Body::Tunnel;
        }
        let bodiless = (100..200).contains(&status) || matches!(status, 204 | 304);
        match (bodiless, self.fields.chunked, self.fields.content_length) {
            (true, true, _) => Body::ForbiddenChunked,
            (true, false, Some(length)) if length > 0 => Body::ForbiddenLength(length),
            (true, ..) if status == 101 => Body::Tunnel,
            (true, ..) | (false, false, Some(0)) => Body::None,
            (false, true, _) => Body::Chunked,
            (false, false, Some(length)) => Body::Length(length),
            (false, false, None) => Body::UntilClose,
        }
    }
}

/// How a message's body is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// No body.
    None,
    /// So many bytes.
    Length(u64),
    /// Chunks, the last one empty, and trailers (RFC 9112 section 7.1).
    Chunked,
    /// So many bytes after a status that has no body (1xx, 204, 304), unless the next response follows. Browsers
    /// show such a body.
    ForbiddenLength(u64),
    /// The same in chunks.
    ForbiddenChunked,
    /// All until the connection closes.
    UntilClose,
    /// After 101 or CONNECT: the bytes that follow are no longer (this) HTTP.
    Tunnel,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_with_folding_and_bare_line_feeds() {
        let head = RequestHead::parse(
            b"POST http://u@www.example.org:81/a?b HTTP/1.1\nhost: other\n\
              User-Agent: x\r\n\ty\r\nContent-Length:\r\n 12\r\nno colon\r\n\r\n",
        );
        assert_eq!(head.hostname(), Some(&b"www.example.org"[..]));
        assert_eq!(head.path_and_query(), b"/a?b");
        assert_eq!(head.fields.user_agent, Some(&b"x\r\n\ty"[..]));
        assert_eq!(head.body(), Body::Length(12));
        let head = RequestHead::parse(b"GET / HTTP/1.1\r\nHost: [::1]:80\r\n");
        assert_eq!(head.hostname(), Some(&b"[::1]"[..]));
        assert_eq!(head.body(), Body::None);
    }

    #[test]
    fn bodies_of_responses() {
        let body =
            |text: &str, method: &str| ResponseHead::parse(text.as_bytes()).body(method.as_bytes());
        let ok = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(body(ok, "GET"), Body::Length(5));
        assert_eq!(body(ok, "HEAD"), Body::None);
        assert_eq!(body(ok, "CONNECT"), Body::Tunnel);
        assert_eq!(body("HTTP/1.1 304 x\r\n\r\n", "GET"), Body::None);
        assert_eq!(body("HTTP/1.1 101 x\r\n\r\n", "GET"), Body::Tunnel);
        let forbidden = "HTTP/1.1 204 x\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(body(forbidden, "GET"), Body::ForbiddenLength(5));
        assert_eq!(body(forbidden, "HEAD"), Body::None);
        assert_eq!(body("HTTP/1.0 200 x\r\n\r\n", "GET"), Body::UntilClose);
        let both =
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n";
        assert_eq!(body(both, "GET"), Body::Chunked);
        let bad = "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n";
        assert_eq!(body(bad, "GET"), Body::UntilClose);
    }
}
