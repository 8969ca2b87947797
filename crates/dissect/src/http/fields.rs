//! From a message's head to its fields.

use super::ending::{FieldLines, HeadOf, is_name, name_and_value, split_first_line, without_nul};
use super::head::{RequestHead, ResponseHead};
use super::odd::{note_fields, note_request};
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
    /// Place of the first header of this name.
    first: usize,
}

/// The headers of a head, its first line left out.
struct Headers<'a> {
    list: Vec<Header<'a>>,
}

impl<'a> Headers<'a> {
    fn parse(head: &'a [u8], of: HeadOf) -> Headers<'a> {
        let mut list: Vec<Header<'a>> = FieldLines::new(head, of)
            .map(name_and_value)
            .filter(|(name, value)| !name.is_empty() || !value.is_empty())
            .take(MOST_HEADERS)
            .enumerate()
            .map(|(first, (name, value))| Header { name, value, first })
            .collect();
        // Sorted, so that many headers of long names cost no square of comparisons.
        let key = |name: &[u8]| -> Vec<u8> {
            without_nul(name).map(|b| b.to_ascii_lowercase()).collect()
        };
        let mut keys: Vec<(Vec<u8>, usize)> = list
            .iter()
            .filter(|header| !header.name.is_empty())
            .map(|header| (key(header.name), header.first))
            .collect();
        keys.sort_unstable();
        for same in keys.chunk_by(|a, b| a.0 == b.0) {
            let first = same.first().map_or(0, |(_, place)| *place);
            for (_, place) in same {
                if let Some(header) = list.get_mut(*place) {
                    header.first = first;
                }
            }
        }
        Headers { list }
    }

    /// Writes the values of all headers whose first one this is, joined by `, `.
    fn joined(&self, first: usize, out: &mut Vec<u8>) {
        let all = self.list.iter().filter(|header| header.first == first);
        for (number, header) in all.enumerate() {
            if number > 0 {
                out.extend_from_slice(b", ");
            }
            unfold(header.value, out);
        }
    }

    /// Place of the first header of a name.
    fn find(&self, name: &[u8]) -> Option<usize> {
        let found = self.list.iter().find(|header| is_name(header.name, name));
        found.map(|header| header.first)
    }

    /// The headers, each name where it is first.
    fn distinct(&self) -> impl Iterator<Item = &Header<'a>> {
        let all = self.list.iter().enumerate();
        all.filter(|(place, header)| *place == header.first)
            .map(|(_, header)| header)
    }

    /// The headers without cookies.
    fn without(&self, cookie: &'a [u8]) -> impl Iterator<Item = &Header<'a>> {
        self.distinct()
            .filter(move |header| !is_name(header.name, cookie))
    }

    /// Writes `Name: value`.
    fn line(&self, header: &Header<'a>, out: &mut Vec<u8>) {
        out.extend_from_slice(header.name);
        out.extend_from_slice(b": ");
        self.joined(header.first, out);
    }

    /// Normalised lines.
    fn lines(&self, cookie: &'a [u8], out: &mut Vec<u8>) {
        for header in self.without(cookie) {
            self.line(header, out);
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

fn put_headers(head: &[u8], of: HeadOf, values: &mut Values) {
    let (cookie, each, single): (&[u8], _, &[_]) = match of {
        HeadOf::Request => (b"cookie", Field::HttpRequestHeader, &REQUEST_VALUES),
        HeadOf::Response => (b"set-cookie", Field::HttpResponseHeader, &RESPONSE_VALUES),
    };
    let (line, lines) = split_first_line(head, of);
    let headers = Headers::parse(head, of);
    values.make(Field::HttpHeader, |out| headers.lines(cookie, out));
    values.put(Field::HttpRawHeader, lines);
    values.make(Field::HttpHeaderNames, |out| {
        out.extend_from_slice(b"\r\n");
        for header in headers.without(cookie) {
            out.extend_from_slice(header.name);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
    });
    for header in headers.distinct() {
        values.make(each, |out| headers.line(header, out));
    }
    values.make(Field::HttpStart, |out| {
        out.extend_from_slice(without_end(line));
        out.extend_from_slice(b"\r\n");
        headers.lines(cookie, out);
        out.extend_from_slice(b"\r\n");
    });
    for &(field, name) in single {
        if let Some(first) = headers.find(name) {
            values.make(field, |out| headers.joined(first, out));
        }
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Codings of the body behind a head.
pub(super) fn codings(head: &[u8], of: HeadOf) -> Codings {
    let headers = Headers::parse(head, of);
    let mut value = Vec::new();
    if let Some(first) = headers.find(b"content-encoding") {
        headers.joined(first, &mut value);
    }
    Codings::parse(&without_nul(&value).collect::<Vec<u8>>())
}

/// Fields of a request's head.
pub(super) fn put_request(head: &[u8], values: &mut Values) {
    let request = RequestHead::parse(head);
    let line = without_end(split_first_line(head, HeadOf::Request).0);
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
    note_request(head, &request, values);
    put_headers(head, HeadOf::Request, values);
}

/// Fields of a response's head.
pub(super) fn put_response(head: &[u8], values: &mut Values) {
    let line = without_end(split_first_line(head, HeadOf::Response).0);
    values.put(Field::HttpResponseLine, line);
    let (protocol, rest) = word(line);
    let (code, message) = word(rest);
    values.put(Field::HttpProtocol, protocol);
    values.put(Field::HttpStatusCode, code);
    values.put(Field::HttpStatusMessage, message.trim_ascii());
    let status = ResponseHead::parse(head).line.status;
    values.number(Number::ReplyCode, i64::from(status));
    note_fields(head, HeadOf::Response, values);
    put_headers(head, HeadOf::Response, values);
}

/// A word, and what follows it and its blanks.
fn word(bytes: &[u8]) -> (&[u8], &[u8]) {
    let bytes = bytes.trim_ascii_start();
    let end = bytes.iter().position(|&b| matches!(b, b' ' | b'\t'));
    let (word, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
    (word, rest.trim_ascii_start())
}
