//! The functions that read HTTP, through the engine: connections made by hand,
//! byte streams of libhtp's test suite, and real captures.

mod support;

use serde_json::Value;
use support::{Talk, events, traces};
use weir_functions::http::{Http, Settings};
use weir_functions::http_classifier::{self, HttpClassifier};
use weir_functions::url_counter::{self, UrlCounter};
use weir_functions::url_validator::{self, Action, UrlValidator};
use weir_nf::host::Target;
use weir_nf::packet::Side;
use weir_runtime::harness::{Craft, Harness};

const CLIENT: &str = "10.0.0.1:40000";
const SERVER: &str = "192.0.2.80:8123";

/// (method, url, status) of an event; 0 for none.
fn short(event: &Value) -> (String, String, u64) {
    let http = &event["http"];
    let text = |name: &str| http[name].as_str().unwrap_or("-").to_owned();
    (
        text("http_method"),
        text("url"),
        http["status"].as_u64().unwrap_or(0),
    )
}

fn run(turns: &[(bool, &[u8])]) -> Vec<(String, String, u64)> {
    run_events(turns).iter().map(short).collect()
}

fn run_events(turns: &[(bool, &[u8])]) -> Vec<Value> {
    let mut harness = Harness::of::<Http>(Settings::default());
    let mut talk = Talk::open(&mut harness, CLIENT, SERVER);
    for (from_server, bytes) in turns {
        talk.say(&mut harness, *from_server, bytes);
    }
    talk.close(&mut harness);
    harness.finish();
    events(&mut harness)
}

fn is(found: &[(String, String, u64)], expected: &[(&str, &str, u64)]) {
    let found: Vec<(&str, &str, u64)> = found
        .iter()
        .map(|(m, u, s)| (m.as_str(), u.as_str(), *s))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn an_event_has_suricatas_fields() {
    let found = run_events(&[
        (
            false,
            b"GET /a?b=1 HTTP/1.1\r\nHost: example.org:8123\r\nUser-Agent: me\r\nReferer: http://x/\r\n\r\n",
        ),
        (
            true,
            b"HTTP/1.1 302 Found\r\nContent-Type: text/html; charset=x\r\nLocation: /c\r\nContent-Length: 3\r\n\r\nabc",
        ),
    ]);
    assert_eq!(found.len(), 1);
    let event = &found[0];
    assert_eq!(event["event_type"], "http");
    assert_eq!(event["src_ip"], "10.0.0.1");
    assert_eq!(event["dest_port"], 8123);
    assert_eq!(event["proto"], "TCP");
    let expected = serde_json::json!({
        "hostname": "example.org", "url": "/a?b=1", "http_user_agent": "me",
        "http_refer": "http://x/", "http_method": "GET", "protocol": "HTTP/1.1",
        "http_content_type": "text/html", "status": 302, "redirect": "/c", "length": 3,
    });
    assert_eq!(event["http"], expected);
}

#[test]
fn pipelined_requests_meet_their_responses() {
    let found = run(&[
        (false, b"GET /1 HTTP/1.1\r\n\r\nHEAD /2 HTTP/1.1\r\n\r\nPOST /3 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nGET /\r\n0\r\nT: v\r\n\r\nGET /4 HTTP/1.1\r\n\r\n"),
        (true, b"HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\nHTTP/1.1 500 no\r\nHTTP/1.1 201 x\r\nContent-Length: 99\r\n\r\n"),
        (true, b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
        (true, b"HTTP/1.0 203 x\r\n\r\nuntil close HTTP/1.1 999"),
    ]);
    is(
        &found,
        &[
            ("GET", "/1", 200),
            ("HEAD", "/2", 201),
            ("POST", "/3", 202),
            ("GET", "/4", 203),
        ],
    );
}

#[test]
fn a_request_without_response_is_reported_at_the_end() {
    let found = run(&[(false, b"GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\n")]);
    is(&found, &[("GET", "/1", 0), ("GET", "/2", 0)]);
    // not even its head is complete
    is(
        &run(&[(false, b"GET /3 HTTP/1.1\r\nHost: x")]),
        &[("GET", "/3", 0)],
    );
    is(&run(&[(false, b"GET /4 HTT")]), &[]);
}

#[test]
fn connect_and_upgrade_end_http_until_it_starts_again() {
    let found = run(&[
        (false, b"CONNECT example.org:80 HTTP/1.1\r\n\r\n"),
        (true, b"HTTP/1.1 200 OK\r\n\r\n"),
        (false, b"GET /inner HTTP/1.1\r\n\r\n"),
        (true, b"HTTP/1.1 404 no\r\nContent-Length: 0\r\n\r\n"),
    ]);
    is(
        &found,
        &[("CONNECT", "example.org:80", 200), ("GET", "/inner", 404)],
    );
    let found = run(&[
        (false, b"GET /chat HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"),
        (true, b"HTTP/1.1 101 Switching\r\n\r\n\x81\x05hello"),
        (false, b"\x81\x85\x01\x02\x03\x04abcde"),
    ]);
    is(&found, &[("GET", "/chat", 101)]);
}

#[test]
fn a_refused_body_is_not_waited_for() {
    let found = run(&[
        (
            false,
            b"PUT /1 HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 50\r\n\r\n",
        ),
        (true, b"HTTP/1.1 417 no\r\nContent-Length: 0\r\n\r\n"),
        (false, b"GET /2 HTTP/1.1\r\n\r\n"),
        (true, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ]);
    is(&found, &[("PUT", "/1", 417), ("GET", "/2", 200)]);
}

#[test]
fn lost_bytes_are_skipped_by_count_or_up_to_the_next_message() {
    let mut harness = Harness::of::<Http>(Settings::default());
    let mut talk = Talk::open(&mut harness, CLIENT, SERVER);
    talk.say(
        &mut harness,
        false,
        b"POST /1 HTTP/1.1\r\nContent-Length: 10000\r\n\r\n",
    );
    talk.lose(false, 10_000);
    talk.say(&mut harness, false, b"GET /2 HTTP/1.1\r\n\r\n");
    talk.say(&mut harness, false, b"GET /lost HTTP/1.1\r\nHost: ");
    talk.lose(false, 100);
    talk.say(
        &mut harness,
        false,
        b" rest of a body GET /3 HTTP/1.1\r\n\r\nbodyGET /4 HTTP/1.1\r\n\r\n",
    );
    harness.finish();
    let found: Vec<_> = events(&mut harness).iter().map(short).collect();
    let urls: Vec<&str> = found.iter().map(|(_, url, _)| url.as_str()).collect();
    assert_eq!(urls, ["/1", "/2", "/lost", "/4"]);
    assert_eq!(harness.counter("http", "lost_bytes"), 10_100);
}

#[test]
fn what_is_no_http_gives_no_event() {
    for bytes in [
        &b"SSH-2.0-OpenSSH_9.6\r\n"[..],
        b"EHLO example.org\r\n250 GET / HTTP\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"OPTIONS rtsp://a/ RTSP/1.0\r\nCSeq: 1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &[b'\n'; 1_400],
        &[0; 1_400],
    ] {
        is(&run(&[(false, bytes), (true, bytes)]), &[]);
    }
}

#[test]
fn a_head_over_the_limit_is_reported_by_what_fits() {
    let mut settings = Settings::default();
    settings.reading.head_limit = 1_024;
    let mut harness = Harness::of::<Http>(settings);
    let mut talk = Talk::open(&mut harness, CLIENT, SERVER);
    talk.say(
        &mut harness,
        false,
        b"POST /1 HTTP/1.1\r\nContent-Length: 3\r\n",
    );
    for _ in 0..100 {
        talk.say(&mut harness, false, b"X-Filler: GET / HTTP/1.1\r\n");
    }
    talk.say(&mut harness, false, b"\r\nabcGET /2 HTTP/1.1\r\n\r\n");
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(1_200));
    talk.say(&mut harness, false, long.as_bytes());
    talk.say(&mut harness, false, b"GET /3 HTTP/1.1\r\n\r\n");
    harness.finish();
    let urls: Vec<String> = events(&mut harness).iter().map(|e| short(e).1).collect();
    assert_eq!(urls, ["/1", "/2", "/3"]);
    assert_eq!(harness.counter("http", "too_long"), 1);
}

#[test]
fn settings_that_cannot_be_kept_are_refused() {
    let mut settings = Settings::default();
    settings.reading.window = 1;
    let error = Harness::builder().with::<Http>(settings).err().unwrap();
    assert_eq!(error.path, "reading.window");
    assert!(error.help.is_some());
}

/// A `.t` file of libhtp: blocks of bytes from the client and the server.
fn blocks(text: &[u8]) -> Vec<(bool, Vec<u8>)> {
    let mut blocks: Vec<(bool, Vec<u8>)> = Vec::new();
    for line in text.split_inclusive(|&b| b == b'\n') {
        match line.trim_ascii_end() {
            mark @ (b">>>" | b"<<<") => {
                // The line end before a mark belongs to the mark.
                trim_line_end(&mut blocks);
                blocks.push((mark == b"<<<", Vec::new()));
            }
            _ => {
                if let Some((_, bytes)) = blocks.last_mut() {
                    bytes.extend(line);
                }
            }
        }
    }
    blocks
}

fn trim_line_end(blocks: &mut [(bool, Vec<u8>)]) {
    if let Some((_, bytes)) = blocks.last_mut() {
        for end in *b"\n\r" {
            if bytes.last() == Some(&end) {
                bytes.pop();
            }
        }
    }
}

#[test]
fn byte_streams_of_libhtp() {
    let Some(traces) = traces() else {
        return;
    };
    type Expected = &'static [(&'static str, &'static str, u64)];
    let vectors: &[(&str, Expected)] = &[
        ("04-post-urlencoded-chunked.t", &[("POST", "/", 200)]),
        (
            "08-not-pipelined-connection.t",
            &[("GET", "/first", 200), ("GET", "/second", 200)],
        ),
        (
            "12-connect-request.t",
            &[("CONNECT", "www.ssllabs.com:443", 405)],
        ),
        ("22-http_1_1-host_missing", &[("GET", "/?p=%20", 200)]),
        ("25-small-chunks.t", &[("GET", "/?x=y", 200)]),
        ("27-request-trailer-raw.t", &[("POST", "/", 200)]),
        ("29-response-trailer-raw.t", &[("GET", "/?p=%20", 200)]),
        ("35-early-response.t", &[("POST", "/", 400)]),
        (
            "61-empty-line-between-requests.t",
            &[("GET", "/first", 200), ("GET", "/second", 200)],
        ),
        (
            "67-long-request-line.t",
            &[("GET", "/0123456789/0123456789/", 200)],
        ),
        ("71-response-split-chunk.t", &[("GET", "/", 200)]),
        ("75-response-invalid-cl.t", &[("GET", "/", 200)]),
        (
            "77-response-folded-headers.t",
            &[("POST", "/", 200), ("GET", "/", 200)],
        ),
        (
            "97-requests-cut.t",
            &[("GET", "/?p=%20", 0), ("GET", "/?p=%21", 0)],
        ),
        (
            "99-expect-100.t",
            &[("PUT", "/forbidden", 401), ("POST", "/ok", 200)],
        ),
    ];
    for (name, expected) in vectors {
        let text = std::fs::read(traces.join("conformance/libhtp-files").join(name)).unwrap();
        let blocks = blocks(&text);
        let turns: Vec<(bool, &[u8])> = blocks.iter().map(|(s, b)| (*s, b.as_slice())).collect();
        println!("{name}");
        is(&run(&turns), expected);
    }
}

#[test]
fn urls_are_counted_with_their_hosts() {
    let mut harness = Harness::of::<UrlCounter>(url_counter::Settings::default());
    let mut talk = Talk::open(&mut harness, CLIENT, SERVER);
    for text in [
        "GET /a?x=1 HTTP/1.1\r\nHost: Example.org\r\n\r\n",
        "GET http://example.ORG:80/a?x=2 HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\nHost: example.org\r\n\r\n",
        "CONNECT example.net:443 HTTP/1.1\r\n\r\n",
    ] {
        talk.say(&mut harness, false, text.as_bytes());
    }
    let report = harness.finish();
    let counter = report
        .functions
        .iter()
        .find(|f| f.name == "url-counter")
        .unwrap();
    let names: Vec<(&str, u64)> = counter
        .tally
        .iter()
        .map(|(n, c)| (n.as_str(), *c))
        .collect();
    assert_eq!(
        names,
        [
            ("example.net", 1),
            ("example.org/a", 2),
            ("example.org/b", 1)
        ]
    );
    assert_eq!(harness.counter("url-counter", "requests"), 4);
    assert_eq!(harness.counter("url-counter", "urls"), 3);
}

#[test]
fn a_connection_with_an_attack_is_blocked_across_segments() {
    let settings = || url_validator::Settings {
        action: Action::Drop,
        form_body: true,
        ..url_validator::Settings::default()
    };
    let mut harness = Harness::of::<UrlValidator>(settings());
    let mut talk = Talk::open(&mut harness, CLIENT, SERVER);
    assert!(talk.say(&mut harness, false, b"GET /?id=1%27+UNI"));
    assert!(talk.say(
        &mut harness,
        false,
        b"ON/**/SELECT+1 HTTP/1.1\r\nHost: x\r\n"
    ));
    assert!(!talk.say(&mut harness, false, b"\r\n"));
    assert!(!talk.say(&mut harness, true, b"HTTP/1.1 200 OK\r\n\r\n"));
    let found = events(&mut harness);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["alert"]["action"], "blocked");
    assert_eq!(found[0]["alert"]["signature_id"], 1_000_001);
    assert_eq!(found[0]["http"]["url"], "/?id=1%27+UNION/**/SELECT+1");
    assert_eq!(
        harness.finish().drops,
        [("url-validator.blocked".to_owned(), 2)]
    );

    let mut harness = Harness::of::<UrlValidator>(settings());
    let mut talk = Talk::open(&mut harness, CLIENT, SERVER);
    let head = b"POST /login HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 24\r\n\r\n";
    assert!(talk.say(&mut harness, false, head));
    assert!(talk.say(&mut harness, false, b"user=a'+or+'"));
    assert!(!talk.say(&mut harness, false, b"1'%3d'1&x=yz"));
    assert_eq!(harness.finish().drops.len(), 1);
}

#[test]
fn attacks_in_captures_raise_alarms_and_other_captures_do_not() {
    let Some(traces) = traces() else {
        return;
    };
    let alarms = |name: &str| {
        let mut harness = Harness::of::<UrlValidator>(url_validator::Settings::default());
        let found = support::run(
            &mut harness,
            &support::load(&traces.join("traces").join(name)),
        );
        for event in &found {
            assert_eq!(event["event_type"], "alert");
        }
        found.len()
    };
    let attacks = [
        ("h-attack/ndpi__sql_injection.pcap", 1),
        ("b-http/zeek__cooper-grill-dvwa.pcapng", 3),
        ("h-attack/trex-core__asa_exploit.pcap", 1),
    ];
    for (name, expected) in attacks {
        assert_eq!(alarms(name), expected, "{name}");
    }
    let summary = std::fs::read_to_string(traces.join("truth/summary.tsv")).unwrap();
    let mut quiet = 0;
    for row in summary.lines().skip(1) {
        let name = row.split('\t').next().unwrap();
        let known = attacks.iter().any(|(attack, _)| *attack == name);
        if known || !traces.join("traces").join(name).exists() {
            continue;
        }
        assert_eq!(alarms(name), 0, "{name}");
        quiet += 1;
    }
    println!("no alarm in {quiet} other captures");
    assert!(quiet > 100, "too few captures: {quiet}");
}

#[test]
fn flows_are_classified_once() {
    let classify = |first: &[&[u8]], server: &'static str| {
        let mut harness = Harness::builder()
            .with::<HttpClassifier>(http_classifier::Settings::default())
            .unwrap()
            .links(vec![Target::Out, Target::Drop])
            .build();
        let mut talk = Talk::open(&mut harness, CLIENT, server);
        first
            .iter()
            .map(|bytes| talk.say(&mut harness, false, bytes))
            .collect::<Vec<bool>>()
    };
    // the port guesses, the first bytes decide, and nothing changes it later
    assert_eq!(
        classify(&[b"GET / HTTP/1.1\r\n", b"\x00\x01"], SERVER),
        [true, true]
    );
    assert_eq!(
        classify(&[b"PO", b"ST / H", b"x"], SERVER),
        [false, true, true]
    );
    assert_eq!(
        classify(&[b"SSH-2.0", b"GET / HTTP/1.1\r\n"], "192.0.2.80:80"),
        [false, false]
    );
    assert_eq!(
        classify(&[b"HT", b"TP/1.1 200 OK"], "192.0.2.80:80"),
        [true, true]
    );
    let mut harness = Harness::builder()
        .with::<HttpClassifier>(http_classifier::Settings::default())
        .unwrap()
        .links(vec![Target::Out, Target::Drop])
        .build();
    let datagram = Craft::udp("[2001:db8::1]:9", "[2001:db8::2]:80")
        .payload(b"GET / ")
        .build();
    assert!(harness.send_from(Side::Inside, &datagram).is_empty());
    assert_eq!(harness.counter("http-classifier", "other_flows"), 1);
}
