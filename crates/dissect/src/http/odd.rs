//! Anomalies of a head, under Suricata's names.

use super::ending::{FieldLines, HeadOf, is_name, name_and_value};
use super::head::RequestHead;
use crate::field::Notice;
use crate::values::Values;

/// Notes anomalies in the head of a request.
pub(super) fn note_request(head: &[u8], request: &RequestHead<'_>, values: &mut Values) {
    let hosts = note_fields(head, HeadOf::Request, values);
    if request.line.version == b"HTTP/1.1" && hosts == 0 {
        values.notice(Notice::HttpHostMissing);
    }
    let authority = request.authority();
    let differs = |host: &[u8]| authority.is_some_and(|other| !other.eq_ignore_ascii_case(host));
    if hosts > 1 || request.fields.host.is_some_and(differs) {
        values.notice(Notice::HttpHostAmbiguous);
    }
    if is_encoded_twice(request.path_and_query()) {
        values.notice(Notice::HttpEncodedTwice);
    }
}

/// Notes anomalies in the fields of a head; gives the number of `Host` fields.
pub(super) fn note_fields(head: &[u8], of: HeadOf, values: &mut Values) -> u32 {
    let [colon, length, twice] = match of {
        HeadOf::Request => [
            Notice::HttpRequestColon,
            Notice::HttpRequestLength,
            Notice::HttpRequestLengthTwice,
        ],
        HeadOf::Response => [
            Notice::HttpResponseColon,
            Notice::HttpResponseLength,
            Notice::HttpResponseLengthTwice,
        ],
    };
    let (mut lengths, mut hosts) = (0u32, 0u32);
    for line in FieldLines::new(head, of) {
        let (name, value) = name_and_value(line);
        if name.is_empty() && value.is_empty() {
            continue;
        }
        if !line.contains(&b':') {
            values.notice(colon);
        }
        if is_name(name, b"content-length") {
            lengths += 1;
            if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
                values.notice(length);
            }
        }
        hosts += u32::from(is_name(name, b"host"));
        if of == HeadOf::Request && is_name(name, b"authorization") && !is_known_scheme(value) {
            values.notice(Notice::HttpAuthorizationUnknown);
        }
    }
    if lengths > 1 {
        values.notice(twice);
    }
    hosts
}

/// Schemes that are read (RFC 7617, RFC 7616, RFC 6750).
fn is_known_scheme(value: &[u8]) -> bool {
    let scheme = value.split(|&b| b == b' ').next().unwrap_or(value);
    let known: [&[u8]; 3] = [b"basic", b"digest", b"bearer"];
    known.iter().any(|name| scheme.eq_ignore_ascii_case(name))
}

/// True where decoding gives another byte in percent encoding.
fn is_encoded_twice(target: &[u8]) -> bool {
    target.windows(5).any(|w| {
        matches!(w, [b'%', b'2', b'5', high, low]
            if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn odd(head: &str, of: HeadOf) -> Vec<&'static str> {
        let mut values = Values::default();
        match of {
            HeadOf::Request => {
                let request = RequestHead::parse(head.as_bytes());
                note_request(head.as_bytes(), &request, &mut values);
            }
            HeadOf::Response => {
                note_fields(head.as_bytes(), of, &mut values);
            }
        }
        values
            .notices()
            .iter()
            .map(|notice| notice.name())
            .collect()
    }

    #[test]
    fn odd_heads_are_told() {
        let nothing: [&str; 0] = [];
        let request = |head: &str| odd(head, HeadOf::Request);
        assert_eq!(
            request("GET http://a/%25 HTTP/1.1\r\nHost: A\r\nAuthorization: Basic x\r\n\r\n"),
            nothing
        );
        assert_eq!(request("GET / HTTP/1.0\r\n\r\n"), nothing);
        assert_eq!(
            request("GET /%252e HTTP/1.1\r\nno colon\r\n\r\n"),
            [
                "http.request_field_missing_colon",
                "http.missing_host_header",
                "http.double_encoded_uri"
            ]
        );
        assert_eq!(
            request(
                "POST http://b/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: x\r\n\r\n"
            ),
            [
                "http.invalid_content_length_field_in_request",
                "http.duplicate_content_length_field_in_request",
                "http.host_header_ambiguous"
            ]
        );
        assert_eq!(
            request("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\nAuthorization: Turbo x\r\n\r\n"),
            [
                "http.request_auth_unrecognized",
                "http.host_header_ambiguous"
            ]
        );
        assert_eq!(
            odd(
                "HTTP/1.1 200 ok\r\nx\r\nContent-Length:\r\n\r\n",
                HeadOf::Response
            ),
            [
                "http.response_field_missing_colon",
                "http.invalid_content_length_field_in_response"
            ]
        );
    }
}
