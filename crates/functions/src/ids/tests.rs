//! The IDS through the engine, packet by packet; captures are in
//! tests/ids_truth.rs.

use super::*;
use weir_nf::host::FlowOptions;
use weir_nf::{SettingsError, Sources};
use weir_runtime::harness::{Craft, Harness};

const CLIENT: &str = "10.0.0.1:40000";
const SERVER: &str = "192.0.2.1:80";

pub(super) struct Files(pub(super) &'static [(&'static str, &'static str)]);

impl Sources for Files {
    fn text(&mut self, name: &str) -> Result<String, String> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, text)| (*text).to_owned())
            .ok_or_else(|| "no such file".to_owned())
    }
}

pub(super) fn with(rules: &str) -> Settings {
    Settings {
        rules: rules.to_owned(),
        ..Settings::default()
    }
}

pub(super) fn ids(settings: Settings) -> Harness {
    Harness::of::<Ids>(settings)
}

pub(super) fn refused(
    settings: Settings,
    files: &'static [(&'static str, &'static str)],
) -> SettingsError {
    match Harness::builder().with_sources::<Ids>(settings, &mut Files(files)) {
        Ok(_) => panic!("the settings were accepted"),
        Err(error) => error,
    }
}

/// Signatures of the alerts since the last call.
pub(super) fn sids(harness: &mut Harness) -> Vec<u64> {
    let events = harness.events();
    let sid = |line: &String| {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(event["event_type"], "alert");
        event["alert"]["signature_id"].as_u64().unwrap()
    };
    events.iter().map(sid).collect()
}

/// A connection of one client, by sequence numbers.
pub(super) struct Connection {
    server: String,
    up: u32,
    down: u32,
}

impl Connection {
    pub(super) fn open(harness: &mut Harness) -> Connection {
        Connection::open_to(harness, SERVER)
    }

    pub(super) fn open_to(harness: &mut Harness, server: &str) -> Connection {
        let up = Craft::tcp(CLIENT, server);
        harness.send(&up.clone().flags("S").seq(99).build());
        harness.send(
            &Craft::tcp(server, CLIENT)
                .flags("SA")
                .seq(499)
                .ack(100)
                .build(),
        );
        harness.send(&up.flags("A").seq(100).ack(500).build());
        Connection {
            server: server.to_owned(),
            up: 100,
            down: 500,
        }
    }

    /// From the client; gives what comes out.
    pub(super) fn up(&mut self, harness: &mut Harness, payload: &[u8]) -> Vec<Vec<u8>> {
        let packet = Craft::tcp(CLIENT, &self.server).seq(self.up).ack(self.down);
        self.up += payload.len() as u32;
        harness.send(&packet.payload(payload).build())
    }

    /// From the server.
    pub(super) fn down(&mut self, harness: &mut Harness, payload: &[u8]) -> Vec<Vec<u8>> {
        let packet = Craft::tcp(&self.server, CLIENT).seq(self.down).ack(self.up);
        self.down += payload.len() as u32;
        harness.send(&packet.payload(payload).build())
    }
}

#[test]
fn a_pattern_over_two_segments_is_reported_as_eve() {
    let mut harness = ids(with(
        r#"alert tcp any any -> any 80 (msg:"passwords"; flow:established,to_server; content:"/etc/passwd"; classtype:web-application-attack; sid:7; rev:3;)"#,
    ));
    let mut connection = Connection::open(&mut harness);
    connection.up(&mut harness, b"GET /etc/pa");
    assert_eq!(harness.events(), [""; 0]);
    connection.up(&mut harness, b"sswd HTTP/1.0\r\n");
    let events = harness.events();
    let event: serde_json::Value = serde_json::from_str(&events[0]).unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(
        event["alert"],
        serde_json::json!({
            "action": "allowed", "gid": 1, "signature_id": 7, "rev": 3, "signature": "passwords",
            "category": "Web Application Attack", "severity": 1
        })
    );
    assert_eq!(
        (&event["src_ip"], &event["src_port"]),
        (&"10.0.0.1".into(), &40000.into())
    );
    assert_eq!(
        (&event["dest_ip"], &event["dest_port"]),
        (&"192.0.2.1".into(), &80.into())
    );
    assert_eq!(
        (&event["proto"], &event["direction"]),
        (&"TCP".into(), &"to_server".into())
    );
    assert_eq!(event["pcap_cnt"], 5);
    harness.finish();
    assert_eq!(harness.counter("ids", "alerts"), 1);
}

#[test]
fn out_of_order_and_held_bytes_are_inspected_once() {
    let mut harness = ids(with(
        r#"alert tcp any any -> any any (content:"abcdef"; sid:1;)
alert tcp any any -> any any (content:"defghi"; sid:2;)"#,
    ));
    let mut connection = Connection::open(&mut harness);
    connection.up += 3;
    connection.up(&mut harness, b"defghi");
    assert_eq!(sids(&mut harness), [0; 0]);
    connection.up = 100;
    connection.up(&mut harness, b"abc");
    assert_eq!(sids(&mut harness), [1, 2]);
    // A copy with other bytes changes nothing.
    connection.up = 100;
    connection.up(&mut harness, b"abcdefghi");
    assert_eq!(sids(&mut harness), [0; 0]);
    // Bytes behind a hole are inspected when the flow ends.
    connection.up += 1000;
    connection.up(&mut harness, b"abcdef");
    assert_eq!(sids(&mut harness), [0; 0]);
    harness.finish();
    assert!(harness.counter("ids", "lost_bytes") >= 1000);
}

#[test]
fn bytes_in_a_syn_wait_for_the_handshake() {
    let rules = r#"alert tcp any any -> any any (flow:established,to_server; content:"evil"; sid:1;)
alert tcp any any -> any any (flow:not_established; content:"evil"; sid:2;)"#;
    let mut harness = ids(with(rules));
    let up = Craft::tcp(CLIENT, SERVER);
    harness.send(&up.clone().flags("S").seq(99).payload(b"an evil").build());
    harness.send(
        &Craft::tcp(SERVER, CLIENT)
            .flags("SA")
            .seq(499)
            .ack(107)
            .build(),
    );
    assert_eq!(sids(&mut harness), [0; 0]);
    harness.send(&up.clone().flags("A").seq(107).ack(500).build());
    assert_eq!(sids(&mut harness), [1]);
    // Never answered: looked at when the flow ends.
    harness.send(
        &Craft::tcp("10.0.0.2:1", SERVER)
            .flags("S")
            .payload(b"evil")
            .build(),
    );
    assert_eq!(sids(&mut harness), [0; 0]);
    harness.finish();
    assert_eq!(sids(&mut harness), [2]);
}

#[test]
fn a_message_ends_when_the_other_side_answers() {
    let mut harness = ids(with(
        r#"alert tcp any any -> any any (flow:to_server; content:"quit"; endswith; sid:1;)"#,
    ));
    let mut connection = Connection::open(&mut harness);
    connection.up(&mut harness, b"quit");
    connection.up(&mut harness, b" not");
    connection.down(&mut harness, b"what?");
    assert_eq!(sids(&mut harness), [0; 0]);
    connection.up(&mut harness, b"qu");
    connection.up(&mut harness, b"it");
    assert_eq!(sids(&mut harness), [0; 0]);
    connection.down(&mut harness, b"bye");
    assert_eq!(sids(&mut harness), [1]);
}

#[test]
fn drop_takes_the_packet_and_the_rest_of_its_flow() {
    let rules = r#"drop tcp any any -> any any (content:"evil"; sid:1;)
alert tcp any any -> any any (content:"odd"; sid:2;)"#;
    let run = |action| {
        let mut harness = ids(Settings {
            action,
            ..with(rules)
        });
        let mut connection = Connection::open(&mut harness);
        let out = [
            connection.up(&mut harness, b"ev").len(),
            connection.up(&mut harness, b"il").len(),
            connection.down(&mut harness, b"answer").len(),
        ];
        let found = sids(&mut harness);
        let mut other = harness;
        // Another flow goes on.
        let packet = Craft::udp("10.0.0.9:9", "192.0.2.1:53").payload(b"odd");
        assert_eq!(other.send(&packet.build()).len(), 1);
        other.finish();
        (out, found, other.report().drops)
    };
    assert_eq!(run(Act::Alert), ([1, 1, 1], vec![1], vec![]));
    let dropped = vec![("ids.rule".to_owned(), 2)];
    assert_eq!(run(Act::Drop), ([1, 0, 0], vec![1], dropped.clone()));
    assert_eq!(run(Act::Rule), ([1, 0, 0], vec![1], dropped));

    let mut harness = ids(Settings {
        action: Act::Rule,
        ..with(rules)
    });
    let mut connection = Connection::open(&mut harness);
    assert_eq!(connection.up(&mut harness, b"odd").len(), 1);
    assert_eq!(sids(&mut harness), [2]);
    let mut harness = ids(Settings {
        action: Act::Drop,
        ..with(rules)
    });
    let mut connection = Connection::open(&mut harness);
    assert_eq!(connection.up(&mut harness, b"odd").len(), 0);
    assert!(harness.events()[0].contains(r#""action":"blocked""#));
}

#[test]
fn datagrams_of_both_versions() {
    let mut harness = ids(with(
        r#"alert udp any any -> any 53 (flow:to_server; content:"evil"; sid:1;)
alert udp any any -> any any (flow:established; content:"evil"; sid:2;)
alert ip6 any any -> 2001:db8::/32 any (ttl:7; dsize:4; sid:3;)"#,
    ));
    for (client, server) in [
        ("10.0.0.1:1000", "192.0.2.1:53"),
        ("[2001:db8::1]:1000", "[2001:db8::2]:53"),
    ] {
        let v6 = client.starts_with('[');
        let up = Craft::udp(client, server).payload(b"evil").ttl(7).build();
        harness.send(&up);
        assert_eq!(sids(&mut harness), [1, 3][..1 + usize::from(v6)]);
        harness.send(&Craft::udp(server, client).payload(b"evil").ttl(9).build());
        assert_eq!(sids(&mut harness), [2]);
        harness.send(&up);
        assert_eq!(sids(&mut harness), [1, 2, 3][..2 + usize::from(v6)]);
    }
}

#[test]
fn flowbits_live_as_long_as_the_flow() {
    let mut harness = ids(with(
        r#"alert tcp any any -> any any (flow:to_server; content:"login"; flowbits:set,in; flowbits:noalert; sid:1;)
alert tcp any any -> any any (flow:to_client; content:"secret"; flowbits:isset,in; sid:2;)"#,
    ));
    let mut connection = Connection::open(&mut harness);
    connection.down(&mut harness, b"secret");
    connection.up(&mut harness, b"login");
    assert_eq!(sids(&mut harness), [0; 0]);
    connection.down(&mut harness, b"another secret");
    assert_eq!(sids(&mut harness), [2]);
    Connection::open_to(&mut harness, "192.0.2.7:80");
    harness.send(
        &Craft::tcp("192.0.2.7:80", CLIENT)
            .seq(500)
            .payload(b"secret")
            .build(),
    );
    assert_eq!(sids(&mut harness), [0; 0]);
}

#[test]
fn an_icmp_error_is_told_with_its_own_addresses() {
    let mut harness = ids(with(
        "alert icmp any any -> any any (itype:3; icode:1; sid:1;)",
    ));
    Connection::open(&mut harness);
    let quoted = Craft::tcp(CLIENT, SERVER).flags("A").build();
    let error = Craft::ping("192.0.2.254:0", "10.0.0.1:0")
        .icmp(3, 1)
        .payload(&quoted[14..42]);
    harness.send(&error.build());
    let events = harness.events();
    let event: serde_json::Value = serde_json::from_str(&events[0]).unwrap();
    assert_eq!(event["src_ip"], "192.0.2.254");
    assert_eq!(event["proto"], "ICMP");
    assert!(event.get("src_port").is_none());
}

#[test]
fn fragments_are_inspected_one_by_one() {
    let mut harness = ids(with(
        r#"alert udp any any -> any 53 (content:"second"; sid:1;)"#,
    ));
    let first = Craft::udp(CLIENT, "192.0.2.1:53")
        .payload(b"the first")
        .fragment(0x2000);
    let later = Craft::udp(CLIENT, "192.0.2.1:53")
        .payload(b"the second")
        .fragment(3);
    harness.send(&first.build());
    assert_eq!(harness.send(&later.build()).len(), 1);
    assert_eq!(sids(&mut harness), [1]);
}

#[test]
fn without_memory_for_windows_segments_are_still_searched() {
    let settings = with(r#"alert tcp any any -> any any (content:"evil"; sid:1;)"#);
    let mut harness = Harness::builder()
        .with::<Ids>(settings)
        .unwrap()
        .flows(FlowOptions {
            max: 16,
            buffer_bytes: 0,
            ..FlowOptions::default()
        })
        .build();
    let mut connection = Connection::open(&mut harness);
    connection.up(&mut harness, b"all evil");
    assert_eq!(sids(&mut harness), [1]);
    assert_eq!(harness.counter("ids", "no_window"), 1);
    harness.finish();
}

#[test]
fn connections_without_handshake_are_picked_up_where_asked_for() {
    let rules = r#"alert tcp any any -> any any (flow:established; content:"evil"; sid:1;)
alert tcp any any -> any any (flow:not_established; content:"evil"; sid:2;)"#;
    for (midstream, expected) in [(false, [0, 0, 2]), (true, [1, 0, 0])] {
        let mut harness = ids(Settings {
            midstream,
            ..with(rules)
        });
        let mut connection = Connection {
            server: SERVER.to_owned(),
            up: 7,
            down: 9,
        };
        connection.up(&mut harness, b"a request of some length");
        let mut found = Vec::new();
        for payload in [&b"not so ev"[..], b"il", b"... evil"] {
            connection.up(&mut harness, payload);
            found.extend(sids(&mut harness).first().copied());
        }
        let expected: Vec<u64> = expected.into_iter().filter(|&sid| sid > 0).collect();
        assert_eq!(found, expected, "midstream: {midstream}");
    }
}

#[test]
fn errors_of_rules_say_where() {
    let error = refused(Settings::default(), &[]);
    assert!(error.to_string().contains("there are no rules"), "{error}");
    let text = "alert tcp any any -> any any (content:\"a\"; lua:b; sid:1;)\n\n\
                alert tcp any any -> any any (sip.uri; sid:2;)\n";
    let error = refused(with(text), &[]);
    assert_eq!(error.at, Some(("rules".to_owned(), 1, 44)));
    assert!(
        error.message.contains("unsupported keyword `lua`"),
        "{error}"
    );
    assert!(
        error
            .message
            .contains("rules:3:31: unsupported keyword `sip.uri`"),
        "{error}"
    );
    assert!(error.help.unwrap().contains("unsupported: skip"));

    let files = || Settings {
        rule_files: vec!["a.rules".into(), "b.rules".into()],
        ..Settings::default()
    };
    let error = refused(files(), &[("a.rules", "# none\n")]);
    assert_eq!(
        (error.path.as_str(), error.message.as_str()),
        ("rule-files[1]", "no such file")
    );
    let twice = &[
        ("a.rules", "alert ip any any -> any any (sid:5; rev:1;)"),
        ("b.rules", "#\nalert ip any any -> any any (sid:5; rev:1;)"),
    ];
    let error = refused(files(), twice);
    assert_eq!(error.at, Some(("b.rules".to_owned(), 2, 1)));
    assert!(
        error.message.contains("already used in a.rules, line 1"),
        "{error}"
    );

    let error = refused(
        Settings {
            vars: [("HOME_NET".to_owned(), "10.0.0.0/99".to_owned())].into(),
            ..with("alert ip any any -> any any (sid:1;)")
        },
        &[],
    );
    assert_eq!(error.path, "vars.HOME_NET");
    for (path, settings) in [
        (
            "window",
            Settings {
                window: 100,
                ..with(text)
            },
        ),
        (
            "reorder",
            Settings {
                reorder: 1 << 20,
                ..with(text)
            },
        ),
    ] {
        assert_eq!(refused(settings, &[]).path, path);
    }
}

#[test]
fn rules_that_are_left_out_are_counted_by_keyword() {
    let settings = Settings {
        unsupported: OnUnsupported::Skip,
        ..with(
            "alert tcp any any -> any any (lua:b; sid:1;)\n\
             alert tcp any any -> any any (lua:b; sid:2;)\n\
             alert udp any any -> any any (content:\"evil\"; sid:3;)\n",
        )
    };
    let builder = Harness::builder().with::<Ids>(settings).unwrap();
    let warnings = builder.warnings().iter();
    assert_eq!(
        warnings.map(|w| w.message.as_str()).collect::<Vec<_>>(),
        ["rules: 2 of 3 rules are left out, they use: lua 2"]
    );
    let mut harness = builder.build();
    harness.send(
        &Craft::udp("10.0.0.1:1", "10.0.0.2:2")
            .payload(b"evil")
            .build(),
    );
    assert_eq!(sids(&mut harness), [3]);
}

#[test]
fn of_a_rule_in_two_files_the_higher_revision_counts() {
    let settings = Settings {
        rule_files: vec!["a.rules".into(), "b.rules".into()],
        ..Settings::default()
    };
    let mut files = Files(&[
        (
            "a.rules",
            "alert udp any any -> any any (content:\"old\"; sid:1; rev:1;)",
        ),
        (
            "b.rules",
            "alert udp any any -> any any (content:\"new\"; sid:1; rev:2;)",
        ),
    ]);
    let builder = Harness::builder().with_sources::<Ids>(settings, &mut files);
    let mut harness = builder.unwrap().build();
    for (payload, alerts) in [(b"old", 0), (b"new", 1)] {
        let packet = Craft::udp("10.0.0.1:1", "10.0.0.2:2").payload(payload);
        harness.send(&packet.build());
        assert_eq!(sids(&mut harness).len(), alerts);
    }
}

/// Rules of all kinds that name an application protocol.
const BY_APPLICATION: &str = r#"
    alert http any any -> any any (content:"GE"; sid:1;)
    alert smtp any any -> any any (content:"GE"; sid:2;)
    alert tcp any any -> any any (app-layer-protocol:http; sid:3;)
    alert tcp any any -> any any (app-layer-protocol:!http; sid:4;)
    alert tcp any any -> any any (app-layer-protocol:failed; sid:5;)
    alert tcp any any -> any any (app-layer-protocol:!ssh; content:"x"; sid:6;)
    alert http any any -> any any (http.method; content:"GET"; sid:7;)
    alert ssh any any -> any any (flow:established; sid:8;)"#;

#[test]
fn rules_that_name_a_protocol_wait_until_it_is_known() {
    let request = b"GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n";
    for cut in [1, 2, 3, 5, request.len()] {
        let mut harness = ids(with(BY_APPLICATION));
        let mut connection = Connection::open_to(&mut harness, SERVER);
        for piece in request.chunks(cut) {
            connection.up(&mut harness, piece);
        }
        connection.down(&mut harness, b"HTTP/1.1 204 No Content\r\n\r\n");
        for payload in [&b"GET"[..], b" / HT"] {
            connection.up(&mut harness, payload);
        }
        let mut found = sids(&mut harness);
        found.sort_unstable();
        let once = |sid| found.iter().filter(|&&known| known == sid).count();
        // A match of a stream is tried again in the next message.
        assert_eq!(
            (once(1), once(2), once(7), once(8)),
            (2, 0, 1, 0),
            "{cut}: {found:?}"
        );
        assert_eq!((once(3), once(4), once(5)), (2, 0, 0), "{cut}: {found:?}");
        assert_eq!(once(6), 1, "{cut}: {found:?}");
    }
}

#[test]
fn what_no_parser_knows_has_failed() {
    let mut harness = ids(with(BY_APPLICATION));
    let mut connection = Connection::open_to(&mut harness, SERVER);
    for _ in 0..64 {
        connection.up(&mut harness, &[b'x'; 1000]);
        connection.down(&mut harness, &[b'y'; 1000]);
    }
    let found = sids(&mut harness);
    for (sid, times) in [(1, 0), (3, 0), (4, 2), (5, 2)] {
        let here = found.iter().filter(|&&known| known == sid).count();
        assert_eq!(here, times, "{sid}: {found:?}");
    }
    assert!(found.contains(&6));
}

#[test]
fn datagrams_are_of_dns_or_of_nothing() {
    let rules = r#"
        alert dns any any -> any any (content:"|07|example"; sid:1;)
        alert udp any any -> any any (app-layer-protocol:dns; sid:2;)
        alert udp any any -> any any (app-layer-protocol:!dns; content:"hello"; sid:3;)
        alert dns any any -> any any (app-layer-event:dns.z_flag_set; sid:4;)
        alert dns any any -> any any (dns.opcode:!0; sid:5;)
        alert dns any any -> any any (dns.opcode:0; dns.rrtype:1; dns.query; dotprefix; content:".example.org"; endswith; sid:6;)
        alert dns any any -> any any (dns.rcode:3; sid:7;)"#;
    let mut harness = ids(with(rules));
    let query = b"\0\x01\x01\x40\0\x01\0\0\0\0\0\0\x07example\x03org\0\0\x01\0\x01";
    harness.send(
        &Craft::udp("10.0.0.1:1", "10.0.0.2:5300")
            .payload(query)
            .build(),
    );
    let mut found = sids(&mut harness);
    found.sort_unstable();
    assert_eq!(found, [1, 2, 4, 6]);
    let response = [b"\0\x01\x81\x83".as_slice(), &query[4..]].concat();
    let answer = Craft::udp("10.0.0.2:5300", "10.0.0.1:1").payload(&response);
    harness.send(&answer.build());
    let mut found = sids(&mut harness);
    found.sort_unstable();
    assert_eq!(found, [1, 2, 7]);
    harness.send(
        &Craft::udp("10.0.0.1:2", "10.0.0.2:5300")
            .payload(b"hello")
            .build(),
    );
    assert_eq!(sids(&mut harness), [3]);
}

#[test]
fn header_options_are_read() {
    let rules = r#"
        alert tcp any any -> any any (flags:S; tcp.mss:<537; sid:1;)
        alert ipv6 any any -> any any (icmpv6.mtu:<1280; sid:2;)"#;
    let mut harness = ids(with(rules));
    for (options, alerts) in [
        (&b"\x01\x01\x01\x00"[..], 0),
        (b"\x02\x04\x05\xb4", 0),
        (b"\x01\x01\x01\x01\x02\x04\x02\x18", 1),
    ] {
        let packet = Craft::tcp(CLIENT, SERVER).flags("S").options(options);
        harness.send(&packet.build());
        assert_eq!(sids(&mut harness).len(), alerts, "{options:?}");
    }
}

#[test]
fn lists_leave_out_take_drop_and_change() {
    let settings = Settings {
        rules: r#"alert udp any any -> any any (content:"a"; sid:1;)
            # alert udp any any -> any any (content:"b"; sid:2;)
            alert udp any any -> any any (content:"c"; sid:3;)"#
            .to_owned(),
        disable_files: vec!["disable.conf".into()],
        enable_files: vec!["enable.conf".into()],
        drop_files: vec!["drop.conf".into()],
        modify_files: vec!["modify.conf".into()],
        action: Act::Rule,
        ..Settings::default()
    };
    let mut files = Files(&[
        ("disable.conf", "1"),
        ("enable.conf", "2"),
        ("drop.conf", "re:content:.b"),
        ("modify.conf", r#"3 "\"(c)\"" "\"\1c\"""#),
    ]);
    let builder = Harness::builder().with_sources::<Ids>(settings.clone(), &mut files);
    let mut harness = builder.unwrap().build();
    for (payload, alerts, out) in [
        ("a", vec![], 1),
        ("b", vec![2], 0),
        ("c", vec![], 1),
        ("cc", vec![3], 1),
    ] {
        let packet = Craft::udp("10.0.0.1:1", &format!("10.0.0.2:{}", payload.len() + out))
            .payload(payload.as_bytes());
        assert_eq!(harness.send(&packet.build()).len(), out, "{payload}");
        assert_eq!(sids(&mut harness), alerts, "{payload}");
    }
    let error = refused(settings, &[("disable.conf", "1\nx")]);
    assert_eq!(
        (error.path.as_str(), error.at),
        ("disable-files[0]", Some(("disable.conf".to_owned(), 2, 1)))
    );
}

/// Alerts of rules over a connection: what the sides send, in turn.
fn alerts_of(rules: &str, sent: &[(bool, &[u8])]) -> Vec<u64> {
    let mut harness = ids(with(rules));
    let mut connection = Connection::open(&mut harness);
    for (up, payload) in sent {
        if *up {
            connection.up(&mut harness, payload);
        } else {
            connection.down(&mut harness, payload);
        }
    }
    harness.finish();
    let mut found = sids(&mut harness);
    found.sort_unstable();
    found
}

#[test]
fn the_other_side_may_decide_what_a_flow_speaks() {
    let mail: [(bool, &[u8]); 2] = [(false, b"220 evil mail\r\n"), (true, b"EHLO me\r\n")];
    let rules = r#"
        alert smtp any any -> any any (content:"evil"; sid:1;)
        alert smtp any any -> any any (content:"220"; offset:0; depth:3; sid:2;)
        alert tcp any any -> any any (content:"evil"; sid:3;)"#;
    assert_eq!(alerts_of(rules, &mail), [1, 2, 3]);
    let other: [(bool, &[u8]); 3] = [
        (false, b"220 hello\r\n"),
        (true, b"hello I am no mail\r\n"),
        (false, &[0; 100]),
    ];
    let rules = r#"
        alert tcp any any -> any any (app-layer-protocol:failed; content:"220 hello"; sid:1;)
        alert tcp any any -> any any (app-layer-protocol:!http; content:"hello I"; sid:2;)"#;
    assert_eq!(alerts_of(rules, &other), [1, 2]);
    // One side says nothing at all: nothing is known before the end.
    assert_eq!(alerts_of(rules, &[(true, b"\xff\xff hello I")]), [2]);
}

#[test]
fn rules_that_ask_for_a_protocol_leave_the_others_alone() {
    let rules = r#"
        alert tcp any any -> any any (content:"GET /x"; flowbits:set,a; noalert; sid:3;)
        alert tcp any any -> any any (http.uri; content:"/x"; flowbits:isset,a; sid:4;)"#;
    let request: [(bool, &[u8]); 1] = [(true, b"GET /x HTTP/1.0\r\n\r\n")];
    assert_eq!(alerts_of(rules, &request), [4]);
    let asks = format!("{rules}\nalert ssh any any -> any any (sid:9;)");
    assert_eq!(alerts_of(&asks, &request), [4]);

    let mut rules = String::from(
        r#"alert tcp any any -> any any (content:"ab"; fast_pattern; content:"cd"; distance:0; sid:100;)"#,
    );
    for sid in 1..8 {
        rules += &format!("\nalert http any any -> any any (pcre:\"/zzz{sid}/\"; sid:{sid};)");
    }
    let pieces: [(bool, &[u8]); 4] = [
        (true, b"\xff\xff ab"),
        (true, b"x1"),
        (true, b"x2"),
        (true, b"cd\r\n"),
    ];
    assert_eq!(alerts_of(&rules, &pieces), [100]);
}

#[test]
fn a_protocol_alone_is_of_the_packet_that_decides() {
    let rules = "drop tcp any any -> any any (app-layer-protocol:ssh; sid:1;)";
    let settings = Settings {
        action: Act::Rule,
        ..with(rules)
    };
    let mut harness = ids(settings);
    let mut connection = Connection::open(&mut harness);
    assert_eq!(connection.up(&mut harness, b"SSH-2.0-x\r\n").len(), 0);
    assert_eq!(sids(&mut harness), [1]);
    let rules = r#"
        alert tcp any any -> any any (content:"evil"; flowbits:set,x; noalert; sid:1;)
        alert tcp any any -> any any (app-layer-protocol:http; flowbits:isset,x; sid:2;)"#;
    let requests: [(bool, &[u8]); 4] = [
        (true, b"GET /a HTTP/1.1\r\n\r\n"),
        (false, b"HTTP/1.1 204 No\r\n\r\n"),
        (true, b"GET /evil HTTP/1.1\r\n\r\n"),
        (true, b"GET /b HTTP/1.1\r\n\r\n"),
    ];
    assert!(alerts_of(rules, &requests).contains(&2));
}

#[test]
fn contents_beside_events_and_numbers_count() {
    let rules = r#"
        alert dns any any -> any any (app-layer-event:dns.z_flag_set; content:"neverthere"; sid:1;)
        alert udp any any -> any any (dns.opcode:0; content:!"example"; sid:2;)
        alert udp any any -> any any (dns.opcode:0; content:"example"; sid:3;)"#;
    let query = b"\0\x01\x01\x40\0\x01\0\0\0\0\0\0\x07example\x03org\0\0\x01\0\x01";
    let mut harness = ids(with(rules));
    // Neither nothing nor the first part of a datagram decides.
    let udp = Craft::udp("10.0.0.1:1", "10.0.0.2:5300");
    harness.send(&udp.clone().build());
    harness.send(&udp.clone().fragment(0x2000).payload(&query[..16]).build());
    assert_eq!(sids(&mut harness), [0; 0]);
    harness.send(&udp.payload(query).build());
    assert_eq!(sids(&mut harness), [3]);
}
