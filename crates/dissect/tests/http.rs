//! HTTP in real captures against tshark.

mod common;

use std::collections::BTreeMap;

use common::Run;
use weir_dissect::Limits;

/// Lines of messages in which a field stands, by its bytes.
fn of(messages: &[String], field: &str, found: &mut BTreeMap<String, i32>, sign: i32) {
    for message in messages.iter().filter(|m| m.contains(" Head\n")) {
        for line in message.lines() {
            // tshark leaves an empty target out.
            if let Some(value) = line.strip_prefix(&format!("  {field} true "))
                && !value.is_empty()
            {
                *found.entry(format!("{field} {value}")).or_default() += sign;
            }
        }
    }
}

const FIELDS: [(&str, &str); 8] = [
    ("http.request.method", "http.method"),
    ("http.request.uri", "http.uri.raw"),
    ("http.user_agent", "http.user_agent"),
    ("http.host", "http.host.raw"),
    ("http.response.code", "http.stat_code"),
    ("http.response.phrase", "http.stat_msg"),
    ("http.content_type", "http.content_type"),
    ("http.location", "http.location"),
];

#[test]
fn fields_are_those_of_tshark() {
    let Some(traces) = common::traces::traces() else {
        return;
    };
    let mut compared = 0;
    for name in [
        "b-http/zeek__get.pcap",
        "b-http/zeek__get-gzip.pcap",
        "b-http/zeek__methods.pcap",
        "b-http/zeek__pipelined-requests.pcap",
        "b-http/zeek__100-continue.pcap",
        "b-http/zeek__206_example_c.pcap",
        "a-mixed/zeek__workshop_2011_browse.pcap",
        "a-mixed/zeek__wikipedia.pcap",
        "h-attack/malcolm-test-artifacts__apache_exploit_success.pcap",
        "h-attack/malcolm-test-artifacts__log4j-attack.pcap",
    ] {
        let file = traces.join("traces").join(name);
        assert!(file.is_file(), "{} is missing", file.display());
        let names: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
        let Some(rows) = common::tshark(&file, "http && tcp", &names) else {
            return;
        };
        let mut difference = BTreeMap::new();
        for row in rows {
            for (column, (_, field)) in row.iter().zip(FIELDS) {
                let values = column.split('|').filter(|v| !v.is_empty());
                let code = row[4] == "100";
                for value in values.filter(|_| !code) {
                    *difference.entry(format!("{field} {value}")).or_default() += 1;
                    compared += 1;
                }
            }
        }
        for flow in common::flows(&file) {
            let run = Run {
                limits: Limits::default(),
                seed: None,
            };
            let messages = common::messages(&flow, run);
            for (_, field) in FIELDS {
                of(&messages, field, &mut difference, -1);
            }
        }
        difference.retain(|_, count| *count != 0);
        assert!(
            difference.is_empty(),
            "{name}: tshark has more (+) or less (-): {difference:#?}"
        );
    }
    assert!(compared > 500, "{compared} fields");
}

fn talk(pieces: &[(bool, &[u8])]) -> Vec<String> {
    let flow = common::Flow {
        tcp: true,
        pieces: pieces
            .iter()
            .map(|(up, bytes)| (*up, bytes.to_vec()))
            .collect(),
        ..Default::default()
    };
    let limits = Limits {
        body: 2000,
        ..Limits::default()
    };
    common::messages(&flow, Run { limits, seed: None })
}

/// The last values of a field in each message that has it, with whether they are complete.
fn values<'m>(messages: &'m [String], field: &str) -> Vec<&'m str> {
    let start = format!("  {field} ");
    let lines = messages.iter().flat_map(|message| message.lines());
    lines.filter_map(|line| line.strip_prefix(&start)).collect()
}

#[test]
fn bodies_of_all_framings() {
    let messages = talk(&[
        (true, b"HEAD /1 HTTP/1.1\r\nHost: A.Example:80\r\n\r\nGET /2 HTTP/1.1\r\n\r\n"),
        (true, b"POST /3 HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"),
        (false, b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nHTTP/1.1 304 Not Modified\r\n\r\n"),
        (false, b"HTTP/1.1 100 Continue\r\n\r\n"),
        (true, b"abc"),
        (false, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"),
        (true, b"GET http://h/%2e/4%2F?q=%41 HTTP/1.0\r\nCookie: a=b\r\nX: 1\r\nx: 2\r\n y\r\n\r\n"),
        (false, b"HTTP/1.0 404 Not Found\r\n\r\nuntil the end"),
    ]);
    assert_eq!(
        values(&messages, "http.stat_code").len(),
        6,
        "{messages:#?}"
    );
    assert_eq!(values(&messages, "http.request_body"), ["true abc"]);
    assert_eq!(
        values(&messages, "http.response_body"),
        ["true hello", "true until the end"]
    );
    assert_eq!(values(&messages, "file.data").len(), 3);
    assert_eq!(values(&messages, "http.uri").last(), Some(&"true /4/?q=A"));
    assert_eq!(values(&messages, "http.cookie"), ["true a=b"]);
    assert_eq!(values(&messages, "http.header").last(), Some(&"true "));
    assert!(values(&messages, "http.header").contains(&r"true X: 1, 2 y\r\n"));
    assert!(values(&messages, "http.header_names").contains(&r"true \r\nX\r\n\r\n"));
    assert_eq!(values(&messages, "http.host"), ["true a.example", "true h"]);
}

#[test]
fn a_body_of_a_real_server_is_decompressed() {
    let Some(traces) = common::traces::traces() else {
        return;
    };
    let file = traces.join("traces/b-http/zeek__get-gzip.pcap");
    let flows = common::flows(&file);
    let run = Run {
        limits: Limits::default(),
        seed: None,
    };
    let messages = common::messages(&flows[0], run);
    let bodies = values(&messages, "http.response_body");
    assert_eq!(bodies.len(), 1);
    assert!(
        bodies[0].starts_with("true ") && !bodies[0].contains(r"\x"),
        "{bodies:?}"
    );
    assert_eq!(values(&messages, "file.data"), bodies);
    assert!(
        messages.iter().all(|message| message.ends_with("[]")),
        "{messages:#?}"
    );
}

#[test]
fn a_body_beyond_the_bound_is_not_complete() {
    let text = [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"[..],
        &[b'x'; 5000],
    ]
    .concat();
    let messages = talk(&[(true, b"GET / HTTP/1.1\r\n\r\n"), (false, &text)]);
    let bodies = values(&messages, "http.response_body");
    assert_eq!((bodies.len(), bodies[0].len()), (1, "false ".len() + 2000));
    assert!(messages[2].ends_with("[HttpBodyLimit]"), "{}", messages[2]);
}
