//! Records through the engine.

use serde_json::{Value, json};
use weir_runtime::harness::{Craft, Harness};

use super::tests::{Connection, ids, with};
use super::*;

fn recording(rules: &str, records: &[RecordKind]) -> Settings {
    Settings {
        records: records.to_vec(),
        file_hashes: match records.contains(&RecordKind::Fileinfo) {
            true => vec![FileHash::Md5],
            false => vec![],
        },
        ..with(rules)
    }
}

/// The events since the last call, each with its type.
fn events(harness: &mut Harness) -> Vec<(String, Value)> {
    let lines = harness.events();
    let values = lines
        .iter()
        .map(|line| -> Value { serde_json::from_str(line).unwrap() });
    let typed = values.map(|value| (value["event_type"].as_str().unwrap().to_owned(), value));
    typed.collect()
}

/// The kinds of the events since the last call.
fn kinds(harness: &mut Harness) -> Vec<String> {
    events(harness).into_iter().map(|(kind, _)| kind).collect()
}

#[test]
fn an_http_record_joins_a_request_with_its_response() {
    let mut harness = ids(recording("", &[RecordKind::Http]));
    let mut connection = Connection::open(&mut harness);
    connection.up(
        &mut harness,
        b"GET /a?b HTTP/1.1\r\nHost: Example.org:8080\r\nUser-Agent: curl\r\nReferer: r\r\n\r\n\
          HEAD /next HTTP/1.1\r\nHost: other\r\n\r\n",
    );
    assert_eq!(kinds(&mut harness), [""; 0]);
    connection.down(
        &mut harness,
        b"HTTP/1.1 302 Found\r\nContent-Type: text/html; charset=x\r\nLocation: /c\r\nContent-Length: 3\r\n\r\nab",
    );
    assert_eq!(kinds(&mut harness), [""; 0]);
    connection.down(
        &mut harness,
        b"cHTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
    );
    let events = events(&mut harness);
    let [(_, first), (_, second)] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(
        first["http"],
        json!({
            "hostname": "example.org", "http_port": 8080, "url": "/a?b", "http_user_agent": "curl",
            "http_content_type": "text/html", "http_refer": "r", "http_method": "GET",
            "protocol": "HTTP/1.1", "status": 302, "redirect": "/c", "length": 3
        })
    );
    // The ends are those of the client's packets.
    assert_eq!(
        (&first["src_ip"], &first["dest_port"], &first["tx_id"]),
        (&json!("10.0.0.1"), &json!(80), &json!(0))
    );
    assert_eq!(
        second["http"],
        json!({
            "hostname": "other", "url": "/next", "http_method": "HEAD", "protocol": "HTTP/1.1",
            "status": 200, "length": 0
        })
    );
    assert_eq!(second["tx_id"], 1);
    harness.finish();
    assert_eq!(harness.counter("ids", "records"), 2);
}

#[test]
fn a_request_without_a_response_is_told_when_the_flow_ends() {
    let mut harness = ids(recording("", &[RecordKind::Http]));
    let mut connection = Connection::open(&mut harness);
    connection.up(&mut harness, b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    harness.finish();
    let events = events(&mut harness);
    assert_eq!(events.len(), 1);
    assert_eq!(
        events[0].1["http"],
        json!({"hostname": "x", "url": "/a", "http_method": "GET", "protocol": "HTTP/1.1", "length": 0})
    );
}

#[test]
fn no_more_requests_wait_than_there_is_room_for() {
    let mut harness = ids(recording("", &[RecordKind::Http]));
    let mut connection = Connection::open(&mut harness);
    for number in 0..40 {
        let request = format!("GET /{number} HTTP/1.1\r\nHost: x\r\n\r\n");
        connection.up(&mut harness, request.as_bytes());
    }
    for _ in 0..9 {
        connection.down(&mut harness, b"HTTP/1.1 204 No\r\n\r\n");
    }
    let events = events(&mut harness);
    for (number, (_, event)) in events.iter().enumerate() {
        let url = if number < 8 { Value::Null } else { json!("/8") };
        assert_eq!(
            (&event["http"]["url"], &event["tx_id"]),
            (&url, &json!(number))
        );
    }
    assert_eq!(events.len(), 9);
    assert_eq!(harness.counter("ids", "records_lost"), 8);
}

#[test]
fn alerts_tell_of_their_transaction() {
    let rules = r#"alert http any any -> any any (http.stat_code; content:"404"; metadata:a b, a c, d; sid:1;)
alert tcp any any -> any any (content:"nothing"; sid:2;)"#;
    let mut harness = ids(with(rules));
    let mut connection = Connection::open(&mut harness);
    connection.up(&mut harness, b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n");
    connection.down(
        &mut harness,
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    );
    let events = events(&mut harness);
    let [(_, stream), (_, message)] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(stream["alert"]["signature_id"], 2);
    assert_eq!(stream["http"]["url"], "/nothing");
    assert_eq!(
        message["alert"]["metadata"],
        json!({"a": ["b", "c"], "d": [""]})
    );
    assert_eq!(message["app_proto"], "http");
    assert_eq!(message["tx_id"], 0);
    assert_eq!(
        message["http"],
        json!({
            "hostname": "x", "url": "/nothing", "http_method": "GET", "protocol": "HTTP/1.1",
            "status": 404, "length": 0
        })
    );
}

#[test]
fn alerts_tell_only_what_is_asked_for() {
    let rules = r#"alert tcp any any -> any any (content:"not"; metadata:a b; sid:2;)"#;
    for (fields, shown) in [
        (vec![], vec![]),
        (vec![AlertField::Payload], vec!["payload"]),
        (
            vec![AlertField::PayloadPrintable, AlertField::Packet],
            vec!["payload_printable", "packet"],
        ),
    ] {
        let mut harness = ids(Settings {
            alert_fields: fields,
            ..with(rules)
        });
        let mut connection = Connection::open(&mut harness);
        connection.up(&mut harness, b"GET /\x00not HTTP/1.1\r\n\r\n");
        let (_, event) = &events(&mut harness)[0];
        assert_eq!(event["alert"]["metadata"], Value::Null);
        for name in ["payload", "payload_printable", "packet", "http"] {
            assert_eq!(event.get(name).is_some(), shown.contains(&name), "{name}");
        }
        for (name, value) in [
            ("payload", "R0VUIC8Abm90IEhUVFAvMS4xDQoNCg=="),
            ("payload_printable", "GET /.not HTTP/1.1\r\n\r\n"),
        ] {
            assert!(
                event.get(name).is_none_or(|found| found == value),
                "{event}"
            );
        }
    }
}

/// A message of DNS: an identification, flags, one question for `a.example`, answers and authorities as they are.
fn dns(flags: u16, answers: &[&[u8]], authorities: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34];
    bytes.extend(flags.to_be_bytes());
    let counts = [1, answers.len() as u16, authorities.len() as u16, 0];
    bytes.extend(counts.iter().flat_map(|count| count.to_be_bytes()));
    bytes.extend(b"\x01a\x07example\x00\x00\x01\x00\x01");
    for record in answers.iter().chain(authorities) {
        bytes.extend_from_slice(record);
    }
    bytes
}

#[test]
fn queries_and_answers_of_dns_are_told() {
    let rules = r#"alert dns any any -> any any (dns.query; content:"example"; sid:1;)"#;
    let mut harness = ids(recording(rules, &[RecordKind::Dns]));
    let (client, server) = ("10.0.0.1:4000", "192.0.2.1:53");
    let query = dns(0x0100, &[], &[]);
    harness.send(&Craft::udp(client, server).payload(&query).build());
    let sent = events(&mut harness);
    let question = json!({
        "type": "query", "id": 0x1234, "rrname": "a.example", "rrtype": "A", "opcode": 0, "tx_id": 0
    });
    assert_eq!(sent[0].1["dns"], json!({ "query": [question] }));
    assert_eq!((&sent[1].0[..], &sent[1].1["dns"]), ("dns", &question));
    let answer = dns(
        0x8583,
        &[
            b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x7f\x00\x00\x01",
            b"\xc0\x0c\x00\x10\x00\x01\x00\x00\x00\x3c\x00\x06\x01x\x03y\"z",
            b"\xc0\x0c\x01\x00\x00\x01\x00\x00\x00\x3c\x00\x01\x01",
        ],
        &[b"\xc0\x0c\x00\x02\x00\x01\x00\x00\x00\x05\x00\x02\xc0\x0c"],
    );
    harness.send(&Craft::udp(server, client).payload(&answer).build());
    let sent = events(&mut harness);
    let (_, record) = sent.iter().find(|(kind, _)| kind == "dns").unwrap();
    assert_eq!(
        record["dns"],
        json!({
            "version": 2, "type": "answer", "id": 0x1234, "flags": "8583", "qr": true, "aa": true,
            "rd": true, "ra": true, "opcode": 0, "rrname": "a.example", "rrtype": "A", "rcode": "NXDOMAIN",
            "answers": [
                {"rrname": "a.example", "rrtype": "A", "ttl": 60, "rdata": "127.0.0.1"},
                {"rrname": "a.example", "rrtype": "TXT", "ttl": 60, "rdata": "x"},
                {"rrname": "a.example", "rrtype": "TXT", "ttl": 60, "rdata": "y\"z"},
                {"rrname": "a.example", "rrtype": "256", "ttl": 60}
            ],
            "grouped": {"A": ["127.0.0.1"], "TXT": ["x", "y\"z"]},
            "authorities": [{"rrname": "a.example", "rrtype": "NS", "ttl": 5, "rdata": "a.example"}],
            "tx_id": 1
        })
    );
    assert_eq!(record["src_ip"], "10.0.0.1");
}

#[test]
fn files_in_mails_are_looked_into() {
    let rules = r#"alert smtp any any -> any any (file.data; content:"abc"; startswith; sid:1;)
alert smtp any any -> any any (file.name; content:"x.exe"; file.data; content:"abc"; sid:2;)
alert smtp any any -> any any (fileext:"txt"; file.data; content:"abc"; sid:3;)
alert smtp any any -> any any (filesize:3; sid:4;)
alert smtp any any -> any any (file.data; to_md5; content:"|90 01 50 98 3c d2 4f b0 d6 96 3f 7d 28 e1 7f 72|"; sid:5;)
alert smtp any any -> any any (file.data; content:"hello"; sid:6;)
alert smtp any any -> any any (file.data; content:"YWJj"; sid:7;)"#;
    let mut settings = recording(rules, &[RecordKind::Fileinfo, RecordKind::Smtp]);
    settings.file_hashes = vec![FileHash::Md5];
    let mut harness = ids(settings);
    let mut connection = Connection::open_to(&mut harness, "192.0.2.1:25");
    connection.down(&mut harness, b"220 mail ESMTP\r\n");
    connection.up(
        &mut harness,
        b"EHLO me\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\n",
    );
    connection.down(&mut harness, b"250 ok\r\n250 ok\r\n250 ok\r\n354 go\r\n");
    connection.up(
        &mut harness,
        b"Subject: x\r\nContent-Type: multipart/mixed; boundary=q\r\n\r\n--q\r\n\r\nhello\r\n--q\r\n\
          Content-Disposition: attachment; filename=\"x.exe\"\r\nContent-Transfer-Encoding: base64\r\n\r\nYW",
    );
    connection.up(&mut harness, b"Jj\r\n--q\r\n\r\nbye\r\n--q--\r\n.\r\n");
    let events = events(&mut harness);
    let alerts = events.iter().filter(|(kind, _)| kind == "alert");
    let mut sids: Vec<u64> = alerts
        .map(|(_, event)| event["alert"]["signature_id"].as_u64().unwrap())
        .collect();
    sids.sort_unstable();
    assert_eq!(sids, [1, 2, 4, 5, 6]);
    let of = |wanted: &str| {
        let mut found = events.iter().filter(|(kind, _)| kind == wanted);
        let (_, event) = found.next().unwrap();
        assert!(found.next().is_none());
        event.clone()
    };
    let file = of("fileinfo");
    assert_eq!(
        file["fileinfo"],
        json!({"filename": "x.exe", "gaps": false, "state": "CLOSED", "stored": false, "size": 3, "tx_id": 0,
               "md5": "900150983cd24fb0d6963f7d28e17f72"})
    );
    assert_eq!(
        (&file["app_proto"], &file["smtp"]["mail_from"]),
        (&json!("smtp"), &json!("<a@b>"))
    );
    assert_eq!(of("smtp")["smtp"]["helo"], "me");
}

#[test]
fn mails_and_commands_are_told() {
    let mut harness = ids(recording("", &[RecordKind::Smtp, RecordKind::Ftp]));
    let mut connection = Connection::open_to(&mut harness, "192.0.2.1:25");
    connection.down(&mut harness, b"220 mail ESMTP\r\n");
    connection.up(&mut harness, b"EHLO me\r\n");
    connection.down(&mut harness, b"250 ok\r\n");
    connection.up(
        &mut harness,
        b"MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nRCPT TO:<e@f>\r\nDATA\r\n",
    );
    connection.down(&mut harness, b"250 ok\r\n250 ok\r\n250 ok\r\n354 go\r\n");
    connection.up(&mut harness, b"text\r\n.\r\n");
    let (kind, mail) = &events(&mut harness)[0];
    assert_eq!(kind, "smtp");
    assert_eq!(
        mail["smtp"],
        json!({"helo": "me", "mail_from": "<a@b>", "rcpt_to": ["<c@d>", "<e@f>"]})
    );

    let mut connection = Connection::open_to(&mut harness, "192.0.2.2:21");
    connection.down(&mut harness, b"220-Welcome\r\n220 to FTP\r\n");
    connection.up(&mut harness, b"PASV\r\n");
    connection.down(&mut harness, b"227 Entering (192,0,2,2,4,1)\r\n");
    connection.up(&mut harness, b"EPRT |2|2001:db8::1|5282|\r\nLIST\r\n");
    connection.down(&mut harness, b"200 ok\r\n150 here\r\n226 done\r\n");
    let records: Vec<Value> = events(&mut harness)
        .iter()
        .map(|e| e.1["ftp"].clone())
        .collect();
    let ftp = |rest: Value| {
        let mut record = json!({
            "command_truncated": false, "reply_truncated": false, "reply_received": "yes"
        });
        record
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        record
    };
    assert_eq!(
        records,
        [
            ftp(json!({"completion_code": ["220"], "reply": ["Welcome", "to FTP"]})),
            ftp(json!({
                "command": "PASV", "command_data": "", "completion_code": ["227"],
                "reply": ["Entering (192,0,2,2,4,1)"], "dynamic_port": 1025, "mode": "passive"
            })),
            ftp(json!({
                "command": "EPRT", "command_data": "|2|2001:db8::1|5282|", "completion_code": ["200"],
                "reply": ["ok"], "dynamic_port": 5282, "mode": "active"
            })),
            ftp(json!({
                "command": "LIST", "command_data": "", "completion_code": ["150", "226"],
                "reply": ["here", "done"]
            })),
        ]
    );
}

#[test]
fn files_and_anomalies_are_told() {
    let mut harness = ids(recording("", &[RecordKind::Fileinfo, RecordKind::Anomaly]));
    let mut connection = Connection::open(&mut harness);
    connection.up(
        &mut harness,
        b"POST /up HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
    );
    connection.down(
        &mut harness,
        b"HTTP/1.1 200 OK\r\nContent-Disposition: attachment; filename=\"f.bin\"\r\n\r\nab",
    );
    connection.down(&mut harness, b"c");
    harness.finish();
    let events = events(&mut harness);
    let files: Vec<&Value> = events
        .iter()
        .filter(|e| e.0 == "fileinfo")
        .map(|e| &e.1)
        .collect();
    let [up, down] = files[..] else {
        panic!("{events:?}");
    };
    for (file, name, source) in [(up, "/up", "10.0.0.1"), (down, "f.bin", "192.0.2.1")] {
        assert_eq!(
            file["fileinfo"],
            json!({
                "filename": name, "gaps": false, "state": "CLOSED",
                "md5": "900150983cd24fb0d6963f7d28e17f72", "stored": false, "size": 3, "tx_id": 0
            })
        );
        assert_eq!(
            (&file["src_ip"], &file["http"]["url"]),
            (&json!(source), &json!("/up"))
        );
    }
    let odd: Vec<&Value> = events
        .iter()
        .filter(|e| e.0 == "anomaly")
        .map(|e| &e.1["anomaly"])
        .collect();
    assert_eq!(
        odd,
        [&json!({
            "app_proto": "http", "type": "applayer", "event": "MISSING_HOST_HEADER", "layer": "proto_parser"
        })]
    );
}

#[test]
fn rules_look_at_names_and_sizes_of_files() {
    let rules = r#"alert http any any -> any any (flow:to_client; file.name; content:"/dir/a.exe"; bsize:10; sid:1;)
alert http any any -> any any (fileext:"EXE"; sid:2;)
alert http any any -> any any (filename:"dir"; filesize:3; sid:3;)
alert http any any -> any any (filesize:>3; sid:4;)
alert http any any -> any any (fileext:!"exe"; sid:5;)
alert http any any -> any any (file.name; content:"b.bin"; startswith; endswith; sid:6;)"#;
    let cases: [(&[u8], &[u8], &[u64]); 3] = [
        (
            b"GET /dir/a.exe?x HTTP/1.1\r\nHost: h\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            &[1, 2, 3],
        ),
        (
            b"GET /dir/a.exe?x HTTP/1.1\r\nHost: h\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Disposition: attachment; filename=b.bin\r\n\r\nabcd",
            &[4, 5, 6],
        ),
        (
            b"POST /dir/up.exe HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
            b"HTTP/1.1 204 No\r\n\r\n",
            &[2, 3],
        ),
    ];
    for (up, down, expected) in cases {
        // Nothing else asks for transactions.
        let mut harness = ids(Settings {
            alert_fields: vec![],
            ..with(rules)
        });
        let mut connection = Connection::open(&mut harness);
        connection.up(&mut harness, up);
        connection.down(&mut harness, down);
        let mut found = super::tests::sids(&mut harness);
        found.sort_unstable();
        assert_eq!(found, expected);
    }
}

#[test]
fn what_a_blocked_flow_has_said_is_told() {
    let rules = r#"drop http any any -> any any (http.uri; content:"evil"; sid:1;)"#;
    let mut harness = ids(Settings {
        action: Act::Rule,
        ..recording(rules, &[RecordKind::Http])
    });
    let mut connection = Connection::open(&mut harness);
    connection.up(&mut harness, b"GET /evil HTTP/1.1\r\nHost: x\r\n\r\n");
    connection.up(&mut harness, b"GET /more HTTP/1.1\r\nHost: x\r\n\r\n");
    harness.finish();
    let told: Vec<(String, Value)> = events(&mut harness)
        .into_iter()
        .map(|(kind, event)| (kind, event["http"]["url"].clone()))
        .collect();
    assert_eq!(
        told,
        [
            ("alert".to_owned(), json!("/evil")),
            ("http".to_owned(), json!("/evil"))
        ]
    );
}

#[test]
fn an_alert_of_a_stream_is_about_the_message_that_its_bytes_complete() {
    let rules = r#"alert tcp any any -> any any (flow:to_client; content:"second"; sid:1;)
alert tcp any any -> any any (flow:to_client; content:"part"; sid:2;)
alert http any any -> any any (http.stat_code; content:"999"; sid:3;)"#;
    let mut harness = ids(with(rules));
    let mut connection = Connection::open(&mut harness);
    for request in ["/1", "/2", "/3"] {
        let request = format!("GET {request} HTTP/1.1\r\nHost: x\r\n\r\n");
        connection.up(&mut harness, request.as_bytes());
    }
    connection.down(
        &mut harness,
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab",
    );
    connection.down(
        &mut harness,
        b"HTTP/1.1 201 OK\r\nContent-Length: 6\r\n\r\nsecond",
    );
    connection.down(
        &mut harness,
        b"HTTP/1.1 202 OK\r\nContent-Length: 90\r\n\r\n",
    );
    connection.down(&mut harness, b"a part of it");
    let told: Vec<(Value, Value, Value)> = events(&mut harness)
        .into_iter()
        .map(|(_, event)| {
            let (http, number) = (event["http"].clone(), event["tx_id"].clone());
            (http["url"].clone(), http["status"].clone(), number)
        })
        .collect();
    assert_eq!(
        told,
        [
            (json!("/2"), json!(201), json!(1)),
            (json!("/3"), json!(202), json!(2))
        ]
    );
}

#[test]
fn a_file_that_was_cut_is_none_that_is_closed() {
    for (head, whole) in [
        ("Content-Length: 9", false),
        ("Transfer-Encoding: chunked", false),
        ("Content-Length: 5", true),
        ("Connection: close", true),
    ] {
        let mut harness = ids(recording("", &[RecordKind::Fileinfo]));
        let mut connection = Connection::open(&mut harness);
        connection.up(&mut harness, b"GET /f HTTP/1.1\r\nHost: x\r\n\r\n");
        let response = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n5\r\nabcde\r\n");
        let bytes = match head {
            "Transfer-Encoding: chunked" => response,
            _ => response.replace("5\r\nabcde\r\n", "abcde"),
        };
        connection.down(&mut harness, bytes.as_bytes());
        harness.finish();
        let files = events(&mut harness);
        assert_eq!(files.len(), 1, "{head}");
        let file = &files[0].1["fileinfo"];
        assert_eq!(file["state"] == "CLOSED", whole, "{head}");
        assert_eq!(file.get("md5").is_some(), whole, "{head}");
        assert_eq!(file["size"], 5);
    }
}

#[test]
fn commands_without_replies_are_told_when_the_flow_ends() {
    let mut harness = ids(recording("", &[RecordKind::Ftp]));
    let mut connection = Connection::open_to(&mut harness, "192.0.2.2:21");
    connection.down(&mut harness, b"220 FTP\r\n");
    connection.up(&mut harness, b"USER a\r\nPASS b\r\nQUIT\r\n");
    connection.down(&mut harness, b"331 password\r\n");
    harness.finish();
    let told: Vec<(Value, Value)> = events(&mut harness)
        .into_iter()
        .map(|(_, event)| {
            (
                event["ftp"]["command"].clone(),
                event["ftp"]["reply_received"].clone(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (Value::Null, json!("yes")),
            (json!("USER"), json!("yes")),
            (json!("PASS"), json!("no")),
            (json!("QUIT"), json!("no"))
        ]
    );
}

#[test]
fn a_long_head_hides_no_alert() {
    let rules = r#"alert http any any -> any any (http.uri; content:"evil"; sid:1;)"#;
    let mut harness = ids(with(rules));
    let mut connection = Connection::open(&mut harness);
    let request = [
        b"GET /evil",
        &[0xff; 4_000][..],
        b" HTTP/1.1\r\nHost: x\r\n\r\n",
    ]
    .concat();
    for piece in request.chunks(1_000) {
        connection.up(&mut harness, piece);
    }
    let told = events(&mut harness);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].1["alert"]["signature_id"], 1);
}

#[test]
fn odd_packets_are_told_from_their_senders() {
    let mut harness = ids(recording("", &[RecordKind::Anomaly, RecordKind::Http]));
    let mut connection = Connection::open(&mut harness);
    connection.up(&mut harness, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    // Timestamps that were not agreed on.
    let options = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0];
    let packet = Craft::tcp("192.0.2.1:80", "10.0.0.1:40000")
        .seq(500)
        .ack(128);
    harness.send(
        &packet
            .options(&options)
            .payload(b"HTTP/1.1 204 No\r\n\r\n")
            .build(),
    );
    let told = events(&mut harness);
    let odd: Vec<&Value> = told
        .iter()
        .filter(|e| e.0 == "anomaly")
        .map(|e| &e.1)
        .collect();
    assert_eq!(odd.len(), 1, "{told:?}");
    assert_eq!(
        odd[0]["anomaly"],
        json!({"type": "stream", "event": "stream.pkt_invalid_timestamp"})
    );
    assert_eq!(odd[0]["src_ip"], "192.0.2.1");
}

#[test]
fn hashes_that_no_record_shows_are_refused() {
    let error = super::tests::refused(
        Settings {
            file_hashes: vec![FileHash::Sha1],
            records: vec![RecordKind::Http],
            ..with("")
        },
        &[],
    );
    assert!(
        error.to_string().contains("no record shows the hashes"),
        "{error}"
    );
}
