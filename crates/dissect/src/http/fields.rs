//! From a message's head to its fields.

use super::head::{RequestHead, ResponseHead, field_line, split_first_line};
use super::uri::{normalise, normalise_host};
use crate::coding::Codings;
use crate::field::{Field, Number};
use crate::values::Values;

/// Header lines that are looked at; libhtp's bound is of the same order.
const MOST_HEADERS: usize = 256;

/// One header: name and value without the blanks around them.
#[derive(Clone, Copy)]
struct Header<'a> {
    name: &'a [u8],
    value: &'a [u8],
}

/// The headers of a head, its first line left out.
struct Headers<'a> {
    list: Vec<Header<'a>>,
}

impl<'a> Headers<'a> {
    fn parse(mut lines: &'a [u8]) -> Headers<'a> {
        let mut list = Vec::new();
        while !lines.is_empty() && list.len() < MOST_HEADERS {
            let (line, rest) = field_line(lines);
            lines = rest;
            let line = line.trim_ascii();
            if line.is_empty() {
                break;
            }
            // As libhtp: without a colon the line is a value.
            let colon = line.iter().position(|&b| b == b':');
            let (name, value) = match colon {
                Some(at) => (line.get(..at), line.get(at + 1..)),
                None => (None, Some(line)),
            };
            list.push(Header {
                name: name.unwrap_or(&[]).trim_ascii(),
                value: value.unwrap_or(&[]).trim_ascii(),
            });
        }
        Headers { list }
    }

    /// Writes the values of all headers of this name, joined by `, `; false without any.
    fn joined(&self, name: &[u8], out: &mut Vec<u8>) -> bool {
        let mut found = false;
        for header in &self.list {
            if header.name.eq_ignore_ascii_case(name) {
                if found {
                    out.extend_from_slice(b", ");
                }
                found = true;
                unfold(header.value, out);
            }
        }
        found
    }

    fn has(&self, name: &[u8]) -> bool {
        let mut names = self.list.iter();
        names.any(|header| header.name.eq_ignore_ascii_case(name))
    }

    /// The headers without cookies, each name where it is first.
    fn distinct(&self, cookie: &'a [u8]) -> impl Iterator<Item = &Header<'a>> {
        let before = |at: usize, name: &[u8]| {
            let earlier = self.list.get(..at).unwrap_or(&[]);
            !name.is_empty() && earlier.iter().any(|h| h.name.eq_ignore_ascii_case(name))
        };
        self.list
            .iter()
            .enumerate()
            .filter(move |(at, header)| {
                !header.name.eq_ignore_ascii_case(cookie) && !before(*at, header.name)
            })
            .map(|(_, header)| header)
    }

    /// Normalised lines.
    fn lines(&self, cookie: &'a [u8], out: &mut Vec<u8>) {
        for header in self.distinct(cookie) {
            out.extend_from_slice(header.name);
            out.extend_from_slice(b": ");
            if header.name.is_empty() {
                unfold(header.value, out);
            } else {
                self.joined(header.name, out);
            }
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Writes a value; a line break and the blanks behind it are one space (RFC 9112 section 5.2).
fn unfold(value: &[u8], out: &mut Vec<u8>) {
    let mut parts = value.split(|&b| b == b'\n');
    if let Some(first) = parts.next() {
        out.extend_from_slice(first.trim_ascii_end());
    }
    for part in parts {
        out.push(b' ');
        out.extend_from_slice(part.trim_ascii());
    }
}

/// Fields that are a header's value.
const REQUEST_VALUES: [(Field, &[u8]); 9] = [
    (Field::HttpUserAgent, b"user-agent"),
    (Field::HttpReferer, b"referer"),
    (Field::HttpAccept, b"accept"),
    (Field::HttpAcceptLanguage, b"accept-language"),
    (Field::HttpAcceptEncoding, b"accept-encoding"),
    (Field::HttpConnection, b"connection"),
    (Field::HttpContentType, b"content-type"),
    (Field::HttpContentLength, b"content-length"),
    (Field::HttpCookie, b"cookie"),
];
const RESPONSE_VALUES: [(Field, &[u8]); 6] = [
    (Field::HttpConnection, b"connection"),
    (Field::HttpContentType, b"content-type"),
    (Field::HttpContentLength, b"content-length"),
    (Field::HttpLocation, b"location"),
    (Field::HttpServer, b"server"),
    (Field::HttpCookie, b"set-cookie"),
];

fn put_headers(head: &[u8], cookie: &[u8], single: &[(Field, &[u8])], values: &mut Values) {
    let (line, lines) = split_first_line(head);
    let headers = Headers::parse(lines);
    values.make(Field::HttpHeader, |out| headers.lines(cookie, out));
    values.put(Field::HttpRawHeader, lines);
    values.make(Field::HttpHeaderNames, |out| {
        out.extend_from_slice(b"\r\n");
        for header in headers.distinct(cookie) {
            out.extend_from_slice(header.name);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
    });
    values.make(Field::HttpStart, |out| {
        out.extend_from_slice(without_end(line));
        out.extend_from_slice(b"\r\n");
        headers.lines(cookie, out);
        out.extend_from_slice(b"\r\n");
    });
    for &(field, name) in single {
        if headers.has(name) {
            values.make(field, |out| {
                headers.joined(name, out);
            });
        }
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Codings of the body behind a head.
pub(super) fn codings(head: &[u8]) -> Codings {
    let headers = Headers::parse(split_first_line(head).1);
    let mut value = Vec::new();
    headers.joined(b"content-encoding", &mut value);
    Codings::parse(&value)
}

/// Fields of a request's head.
pub(super) fn put_request(head: &[u8], values: &mut Values) {
    let request = RequestHead::parse(head);
    let line = without_end(split_first_line(head).0);
    values.put(Field::HttpRequestLine, line);
    values.put(Field::HttpMethod, request.line.method);
    values.make(Field::HttpUri, |out| {
        normalise(request.path_and_query(), out);
    });
    values.put(Field::HttpRawUri, request.line.target);
    if !request.line.version.is_empty() {
        values.put(Field::HttpProtocol, request.line.version);
    }
    if let Some(host) = request.hostname() {
        values.make(Field::HttpHost, |out| normalise_host(host, out));
    }
    if let Some(host) = request.fields.host {
        values.put(Field::HttpRawHost, host);
    }
    put_headers(head, b"cookie", &REQUEST_VALUES, values);
}

/// Fields of a response's head.
pub(super) fn put_response(head: &[u8], values: &mut Values) {
    let line = without_end(split_first_line(head).0);
    values.put(Field::HttpResponseLine, line);
    let (protocol, rest) = word(line);
    let (code, message) = word(rest);
    values.put(Field::HttpProtocol, protocol);
    values.put(Field::HttpStatusCode, code);
    values.put(Field::HttpStatusMessage, message.trim_ascii());
    let status = ResponseHead::parse(head).line.status;
    values.number(Number::ReplyCode, i64::from(status));
    put_headers(head, b"set-cookie", &RESPONSE_VALUES, values);
}

/// A word, and what follows it and its blanks.
fn word(bytes: &[u8]) -> (&[u8], &[u8]) {
    let bytes = bytes.trim_ascii_start();
    let end = bytes.iter().position(|&b| matches!(b, b' ' | b'\t'));
    let (word, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
    (word, rest.trim_ascii_start())
}
