//! Heads of HTTP messages: the first line and the fields that matter.

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
    /// `Transfer-Encoding` names `chunked`.
    pub chunked: bool,
    /// `Expect: 100-continue`.
    pub expects_continue: bool,
    /// `Location`.
    pub location: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    /// Reads the lines after the first one.
    fn parse(mut lines: &'a [u8]) -> Fields<'a> {
        let mut fields = Fields::default();
        while !lines.is_empty() {
            let (line, rest) = field_line(lines);
            lines = rest;
            let Some(colon) = line.iter().position(|&b| b == b':') else {
                continue;
            };
            let (name, value) = line.split_at(colon);
            let name = name.trim_ascii();
            let value = value.get(1..).unwrap_or(&[]).trim_ascii();
            fields.set(name, value);
        }
        fields
    }

    fn set(&mut self, name: &[u8], value: &'a [u8]) {
        fn first<'a>(field: &mut Option<&'a [u8]>, value: &'a [u8]) {
            field.get_or_insert(value);
        }
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        match name.len() {
            4 if is(b"host") => first(&mut self.host, value),
            6 if is(b"expect") => {
                self.expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
            }
            7 if is(b"referer") => first(&mut self.referer, value),
            8 if is(b"location") => first(&mut self.location, value),
            10 if is(b"user-agent") => first(&mut self.user_agent, value),
            12 if is(b"content-type") => first(&mut self.content_type, value),
            14 if is(b"content-length") => {
                self.content_length = self.content_length.or_else(|| number(value));
            }
            17 if is(b"transfer-encoding") => {
                self.chunked |= value
                    .split(|&b| b == b',')
                    .any(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"chunked"));
            }
            _ => {}
        }
    }
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

/// One field with the lines that continue it, and the rest.
pub fn field_line(lines: &[u8]) -> (&[u8], &[u8]) {
    let mut end = 0;
    loop {
        let rest = lines.get(end..).unwrap_or(&[]);
        end += match rest.iter().position(|&b| b == b'\n') {
            Some(at) => at + 1,
            None => rest.len(),
        };
        match lines.get(end) {
            Some(b' ' | b'\t') => {}
            _ => return lines.split_at(end),
        }
    }
}

pub(super) fn split_first_line(head: &[u8]) -> (&[u8], &[u8]) {
    match head.iter().position(|&b| b == b'\n') {
        Some(at) => head.split_at(at + 1),
        None => (head, &[]),
    }
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
        let (line, rest) = split_first_line(head);
        RequestHead {
            line: RequestLine::parse(line),
            fields: Fields::parse(rest),
        }
    }

    /// The host that is asked: of an absolute target, else of the `Host`
    /// field; without the port.
    pub fn hostname(&self) -> Option<&'a [u8]> {
        let authority = match self.absolute() {
            Some((authority, _)) => authority,
            None if self.line.method == b"CONNECT" => self.line.target,
            None => self.fields.host?,
        };
        let host = authority.rsplit(|&b| b == b'@').next().unwrap_or(authority);
        if host.first() == Some(&b'[') {
            let end = host.iter().position(|&b| b == b']')?;
            return host.get(..=end);
        }
        host.split(|&b| b == b':').next()
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
        let (line, rest) = split_first_line(head);
        ResponseHead {
            line: StatusLine::parse(line),
            fields: Fields::parse(rest),
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
        if status == 101 || (method == b"CONNECT" && (200..300).contains(&status)) {
            Body::Tunnel
        } else if method == b"HEAD" || (100..200).contains(&status) || matches!(status, 204 | 304) {
            Body::None
        } else if self.fields.chunked {
            Body::Chunked
        } else {
            match self.fields.content_length {
                None => Body::UntilClose,
                Some(0) => Body::None,
                Some(length) => Body::Length(length),
            }
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
        assert_eq!(body("HTTP/1.0 200 x\r\n\r\n", "GET"), Body::UntilClose);
        let both =
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n";
        assert_eq!(body(both, "GET"), Body::Chunked);
        let bad = "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n";
        assert_eq!(body(bad, "GET"), Body::UntilClose);
    }
}
