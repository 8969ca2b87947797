//! Responses that hide a body from readers that are stricter than browsers, whole and cut anywhere.

mod common;

use common::{Flow, Run, messages};
use weir_dissect::Limits;

const OK: &str = "HTTP/1.1 200 OK\r\n";

/// The response bodies that are complete, behind these requests.
fn bodies(requests: &str, responses: &str, seed: Option<u64>) -> Vec<String> {
    let flow = Flow {
        tcp: true,
        pieces: vec![
            (true, requests.as_bytes().to_vec()),
            (false, responses.as_bytes().to_vec()),
        ],
        ..Flow::default()
    };
    let run = Run {
        limits: Limits::default(),
        seed,
    };
    let mut found = Vec::new();
    for message in messages(&flow, run) {
        for line in message.lines() {
            found.extend(
                line.strip_prefix("  http.response_body true ")
                    .map(str::to_owned),
            );
        }
    }
    found
}

#[track_caller]
fn check(requests: &str, responses: &str, expected: &[&str]) {
    for seed in std::iter::once(None).chain((1..40).map(Some)) {
        assert_eq!(
            bodies(requests, responses, seed),
            expected,
            "{responses:?}, seed {seed:?}"
        );
    }
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn bodies_are_read_as_browsers_read_them() {
    let chunks = "3\r\nabc\r\n0\r\n\r\n";
    for (head, body, expected) in [
        ("Transfer-Encoding: xchunked;\r\n\r\n", chunks, "abc"),
        ("X: y\rTransfer-Encoding: chunked\r\n\r\n", chunks, "abc"),
        ("X: y\r\n Transfer-Encoding: chunked\r\n\r\n", chunks, "abc"),
        ("Transfer-\0Encoding\x0b: chun\0ked\r\n\r\n", chunks, "abc"),
        ("Transfer-Encoding:\n\0chunked\r\n\r\n", chunks, "abc"),
        ("Transfer-Encoding: chunked\n\r\r\n", chunks, "abc"),
        ("Transfer-Encoding: chunked\n \n", chunks, "abc"),
        (
            "Transfer-Encoding: chunked\r\n\r\n",
            "\x0c3,x\r\nabc\r\n0\r\n\r\n",
            "abc",
        ),
        ("Transfer-Encoding: chunked\r\n\r\n", "no chunk", "no chunk"),
        (":\r\nContent-Length: 3\r\n\r\n", "abc", "abc"),
    ] {
        check(GET, &format!("{OK}{head}{body}"), &[expected]);
    }
}

#[test]
fn statuses_without_a_body_may_have_one() {
    let next = format!("{OK}Content-Length: 3\r\n\r\nabc");
    let two = format!("{GET}{GET}");
    for status in ["204", "304"] {
        let head = format!("HTTP/1.1 {status} x\r\nContent-Length: 5\r\n\r\n");
        check(&two, &format!("{head}12345{next}"), &["12345", "abc"]);
        check(&two, &format!("{head}HTTP4{next}"), &["HTTP4", "abc"]);
        check(&two, &format!("{head}{next}"), &["", "abc"]);
        check(&two, &format!("{head}\r\n{next}"), &["", "abc"]);
        let chunked = format!("HTTP/1.1 {status} x\r\nTransfer-Encoding: chunked\r\n\r\n");
        check(
            &two,
            &format!("{chunked}3\r\nxyz\r\n0\r\n\r\n{next}"),
            &["xyz", "abc"],
        );
        check(&two, &format!("{chunked}\r\n{next}"), &["", "abc"]);
    }
    // An answer before the answer, with a body: the next one is still that of the first request.
    let requests = format!("{GET}HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    let before = "HTTP/1.1 100 x\r\nContent-Length: 1\r\n\r\nx";
    check(&requests, &format!("{before}{next}"), &["x", "abc"]);
}

#[test]
fn a_response_without_a_head_is_a_body() {
    check(GET, "some text\nHTTX\n", &["some text\\nHTTX\\n"]);
    check(GET, "\r\nsome text", &["some text"]);
    let next = format!("{OK}Content-Length: 3\r\n\r\nabc");
    check(GET, &format!("foo\r\n{next}"), &["foo\\r\\n", "abc"]);
    check(GET, &format!(" \r\n{next}"), &["abc"]);
    check(GET, &format!("\0{next}"), &["abc"]);
}

#[test]
fn heads_at_the_bound_do_not_hide_the_body() {
    let most = Limits::default().head;
    for size in most - 3..most + 4 {
        let fixed = format!("{OK}Content-Length: 3\r\nX: \r\n\r\n").len();
        let padding = "a".repeat(size - fixed);
        let head = format!("{OK}Content-Length: 3\r\nX: {padding}\r\n\r\n");
        assert_eq!(head.len(), size);
        check(GET, &format!("{head}abc"), &["abc"]);
    }
}

#[test]
fn requests_are_chunked_only_where_they_say_so() {
    let request = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: notchunked\r\nContent-Length: 3\r\n\r\nxyz";
    let flow = Flow {
        tcp: true,
        pieces: vec![(true, request.as_bytes().to_vec())],
        ..Flow::default()
    };
    let run = Run {
        limits: Limits::default(),
        seed: None,
    };
    let found = messages(&flow, run);
    let body = "  http.request_body true xyz";
    assert!(
        found
            .iter()
            .any(|message| message.lines().any(|line| line == body)),
        "{found:#?}"
    );
}
