//! Rules of `ids` on messages of application protocols, while their flow moves.

mod support;

use support::Talk;
use weir_functions::ids::{Ids, Settings};
use weir_nf::host::{FlowOptions, Stage};
use weir_nf::packet::FlowKey;
use weir_runtime::harness::{Craft, Harness};

const CLIENT: &str = "10.0.0.1:1000";
const SERVER: &str = "192.0.2.1:80";

fn stage(rules: &str) -> Stage {
    Harness::builder()
        .with::<Ids>(Settings {
            rules: rules.to_owned(),
            ..Settings::default()
        })
        .unwrap_or_else(|error| panic!("{error}"))
        .flows(FlowOptions {
            max: 16,
            buffer_bytes: 4 << 20,
            ..FlowOptions::default()
        })
        .stage()
}

fn sids(harness: &mut Harness) -> Vec<u64> {
    let sid = |line: String| {
        let event: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        event["alert"]["signature_id"].as_u64().expect("a number")
    };
    let mut sids: Vec<u64> = harness.events().into_iter().map(sid).collect();
    sids.sort_unstable();
    sids
}

/// Key of the only flow.
fn key(harness: &mut Harness) -> FlowKey {
    let runtime = harness.runtime();
    let mut flows = (0..runtime.flow_records()).filter_map(|record| runtime.open_flow(record));
    flows.next().expect("a flow").key
}

fn taken(from: &mut Harness) -> Vec<u8> {
    let key = key(from);
    let bytes = from.runtime().export(&key).expect("the flow is there");
    assert!(from.runtime().forget(&key));
    bytes
}

/// A body of gzip (RFC 1952) in blocks of deflate that are stored.
fn gzip(text: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    let blocks = text.chunks(1_000);
    let count = blocks.len();
    for (number, block) in blocks.enumerate() {
        let len = block.len() as u16;
        out.push(u8::from(number + 1 == count));
        out.extend(len.to_le_bytes());
        out.extend((!len).to_le_bytes());
        out.extend(block);
    }
    out.extend([0; 8]);
    out
}

const RULES: &str = r#"alert tcp any any -> any any (content:"/secret"; http_uri; sid:1;)
alert tcp any any -> any any (flow:established,to_client; file.data; content:"<evil>"; content:"<end>"; distance:0; sid:2;)
alert tcp any any -> any any (flow:to_client; http.stat_code; content:"200"; http.response_body; content:"never"; sid:3;)
alert tcp any any -> any any (flow:to_client; file.data; content:"<end>"; endswith; sid:4;)
"#;

#[test]
fn a_gzip_body_is_read_wherever_its_flow_lives() {
    let stage = stage(RULES);
    let text = [
        b"<evil>".to_vec(),
        b"filling ".repeat(4_000),
        b"<end>".to_vec(),
    ]
    .concat();
    let body = gzip(&text);
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let answer = [head.as_bytes(), &body].concat();
    for (size, moving) in [(1_400, false), (1_400, true), (97, false), (97, true)] {
        let (mut here, mut there) = (Harness::of_stage(&stage), Harness::of_stage(&stage));
        let mut talk = Talk::open(&mut here, CLIENT, SERVER);
        let mut found = Vec::new();
        let request = b"GET /%73ecret HTTP/1.1\r\nHost: a\r\n\r\n";
        let parts = request.chunks(7).map(|part| (false, part));
        for (from_server, part) in parts.chain(answer.chunks(size).map(|part| (true, part))) {
            talk.say(&mut here, from_server, part);
            found.extend(sids(&mut here));
            if moving {
                let bytes = taken(&mut here);
                // Each engine has a parser of an older state when the flow comes back.
                there.runtime().install(&bytes).expect("it fits");
                std::mem::swap(&mut here, &mut there);
            }
        }
        found.sort_unstable();
        assert_eq!(found, [1, 2, 4], "segments of {size}, moving: {moving}");
        for mut harness in [here, there] {
            assert_eq!(harness.counter("ids", "messages_lost"), 0);
            harness.finish();
        }
    }
}

#[test]
fn an_older_state_that_comes_back_goes_on_from_there() {
    let stage = stage(RULES);
    let mut harness = Harness::of_stage(&stage);
    let mut talk = Talk::open(&mut harness, CLIENT, SERVER);
    talk.say(&mut harness, false, b"GET /sec");
    let key = key(&mut harness);
    let old = harness.runtime().export(&key).expect("it is there");
    let segment = |bytes: &[u8]| {
        let segment = Craft::tcp(CLIENT, SERVER).flags("PA").seq(1_008).ack(5_000);
        segment.payload(bytes).build()
    };
    harness.send(&segment(b"ond HTTP/1.1\r\n\r\n"));
    assert_eq!(sids(&mut harness), [0; 0]);
    // What was sent since is not known to who took over: other bytes come.
    assert!(harness.runtime().forget(&key));
    harness.runtime().install(&old).expect("it fits");
    harness.send(&segment(b"ret HTTP/1.1\r\n\r\n"));
    assert_eq!(sids(&mut harness), [1]);
    harness.finish();
}

#[test]
fn names_in_datagrams_are_found() {
    let stage = stage(
        r#"alert udp any any -> any 53 (dns.query; content:"evil.example"; endswith; sid:1;)"#,
    );
    let mut harness = Harness::of_stage(&stage);
    let mut query = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend(b"\x04evil\x07example\0\0\x01\0\x01");
    let packet = Craft::udp("10.0.0.1:999", "192.0.2.1:53").payload(&query);
    for _ in 0..2 {
        harness.send(&packet.build());
        assert_eq!(sids(&mut harness), [1]);
        let bytes = taken(&mut harness);
        harness.runtime().install(&bytes).expect("it fits");
    }
    // Another protocol over UDP.
    let other = Craft::udp("10.0.0.1:998", "192.0.2.1:54").payload(b"no DNS");
    harness.send(&other.build());
    assert_eq!(sids(&mut harness), [0; 0]);
    harness.finish();
}
