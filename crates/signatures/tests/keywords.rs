//! Each keyword, read and matched.

mod common;

use common::{Stream, packet, rule_set, sids};
use weir_signatures::*;

/// Whether a rule with these options matches a UDP packet with this payload.
fn on_payload(options: &str, payload: &[u8]) -> bool {
    let set = rule_set(&format!("alert udp any any -> any any ({options} sid:1;)"));
    sids(&set, &packet(view::UDP, payload)) == [1]
}

#[track_caller]
fn payloads(options: &str, matching: &[&str], others: &[&str]) {
    for payload in matching {
        assert!(
            on_payload(options, payload.as_bytes()),
            "{options} on {payload:?}"
        );
    }
    for payload in others {
        assert!(
            !on_payload(options, payload.as_bytes()),
            "{options} on {payload:?}"
        );
    }
}

#[test]
fn content_and_its_modifiers() {
    payloads(r#"content:"abc";"#, &["abc", "xabcx"], &["ABC", "ab", ""]);
    payloads(r#"content:"aBc"; nocase;"#, &["ABC", "xabc"], &["ab"]);
    payloads(r#"content:"a|00 62|c";"#, &["a\0bc"], &["abc"]);
    payloads(r#"content:!"abc";"#, &["ab"], &["abc", ""]);
    payloads(
        r#"content:"abc"; offset:2;"#,
        &["xxabc", "abcabc"],
        &["xabc"],
    );
    payloads(r#"content:"abc"; depth:4;"#, &["abc", "xabc"], &["xxabc"]);
    payloads(
        r#"content:"abc"; offset:1; depth:4;"#,
        &["xabc", "xxabc"],
        &["abc", "xxxabc"],
    );
    payloads(r#"content:"abc"; startswith;"#, &["abcd"], &["xabc"]);
    payloads(
        r#"content:"abc"; endswith;"#,
        &["xabc", "abcabc"],
        &["abcx"],
    );
    payloads(
        r#"content:"abc"; startswith; endswith;"#,
        &["abc"],
        &["abcd", "xabc"],
    );
    payloads(r#"content:"abc"; rawbytes;"#, &["abc"], &["ab"]);
    payloads(
        r#"content:"a"; content:"b"; distance:1;"#,
        &["axb", "axxb"],
        &["ab", "ba"],
    );
    payloads(
        r#"content:"a"; content:"b"; within:2;"#,
        &["ab", "axb", "axxab"],
        &["axxb"],
    );
    payloads(
        r#"content:"a"; content:"b"; distance:1; within:2;"#,
        &["axb", "axxb"],
        &["ab", "axxxb"],
    );
    payloads(
        r#"content:"abc"; content:"b"; distance:-2; within:1;"#,
        &["abc"],
        &["acb"],
    );
    payloads(
        r#"content:"a"; content:!"b"; within:2;"#,
        &["ax", "abaxx"],
        &["ab", "axb"],
    );
    payloads(
        r#"content:"a"; content:!"b"; distance:0;"#,
        &["ba", "abxa"],
        &["ab"],
    );
    payloads(
        r#"content:"a"; content:!"b"; endswith;"#,
        &["a", "abx"],
        &["ab"],
    );
    for fast in ["fast_pattern;", "fast_pattern:only;", "fast_pattern:1,4;"] {
        payloads(
            &format!(r#"content:"abcdef"; {fast} content:"xy";"#),
            &["xyabcdef"],
            &["abcdef", "xbcdex"],
        );
    }
}

#[test]
fn a_choice_that_fails_later_is_given_up() {
    payloads(
        r#"content:"a"; content:"b"; within:1; content:"c"; within:1;"#,
        &["abc", "ababc", "aabxabc"],
        &["abxc"],
    );
}

#[test]
fn only_packets_with_payload_have_contents() {
    payloads("dsize:0;", &[""], &["a"]);
    payloads(r#"content:!"a"; dsize:<9;"#, &["b"], &["", "a"]);
}

#[test]
fn sizes() {
    payloads("dsize:3;", &["abc"], &["ab", "abcd"]);
    payloads("dsize:!3;", &["ab"], &["abc"]);
    payloads("dsize:>2;", &["abc"], &["ab"]);
    payloads("dsize:1<>4;", &["ab", "abc"], &["a", "abcd"]);
}

fn on_packet(options: &str, packet: &PacketView<'_>) -> bool {
    let set = rule_set(&format!("alert ip any any -> any any ({options} sid:1;)"));
    sids(&set, packet) == [1]
}

#[test]
fn tcp_fields() {
    let with_flags = |flags: u8| {
        let mut packet = packet(view::TCP, b"");
        packet.tcp = Some(TcpFields {
            flags,
            sequence: 7,
            acknowledgement: 8,
            window: 9,
        });
        packet
    };
    let (syn, syn_ack, none) = (with_flags(0x02), with_flags(0x12), with_flags(0));
    let syn_ecn = with_flags(0xc2);
    for (options, matching, others) in [
        ("flags:S;", vec![&syn], vec![&syn_ack, &syn_ecn, &none]),
        ("tcp.flags:SA;", vec![&syn_ack], vec![&syn]),
        ("flags:S,CE;", vec![&syn, &syn_ecn], vec![&syn_ack]),
        ("flags:S,12;", vec![&syn, &syn_ecn], vec![&syn_ack]),
        ("flags:+S;", vec![&syn, &syn_ack, &syn_ecn], vec![&none]),
        ("flags:S+;", vec![&syn, &syn_ack], vec![&none]),
        ("flags:*AF;", vec![&syn_ack], vec![&syn]),
        ("flags:!SA;", vec![&syn, &none], vec![&syn_ack]),
        ("flags:0;", vec![&none], vec![&syn]),
        ("seq:7;", vec![&syn], vec![]),
        ("tcp.seq:8;", vec![], vec![&syn]),
        ("ack:8;", vec![&syn], vec![]),
        ("tcp.ack:7;", vec![], vec![&syn]),
        ("window:9;", vec![&syn], vec![]),
        ("tcp.window:!9;", vec![], vec![&syn]),
    ] {
        for packet in matching {
            assert!(on_packet(options, packet), "{options}");
        }
        for packet in others {
            assert!(!on_packet(options, packet), "{options}");
        }
        assert!(!on_packet(options, &packet(view::UDP, b"")), "{options}");
    }
}

#[test]
fn icmp_and_ip_fields() {
    let mut echo = packet(view::ICMP, b"");
    echo.icmp = Some(IcmpFields {
        kind: 8,
        code: 0,
        id: Some(21781),
        sequence: Some(5),
    });
    echo.ip_options = &[1, 7, 7, 4, 0, 0, 0, 0, 0];
    for (options, expected) in [
        ("itype:8;", true),
        ("itype:<15;", true),
        ("itype:>8;", false),
        ("itype:7<>20;", true),
        ("icode:0;", true),
        ("icode:>0;", false),
        ("icmp_id:21781;", true),
        ("icmp_id:\"21782\";", false),
        ("icmp_seq:5;", true),
        ("icmp_seq:6;", false),
        ("ipopts:rr;", true),
        ("ipopts:nop;", true),
        ("ipopts:eol;", true),
        ("ipopts:any;", true),
        ("ipopts:ts;", false),
        ("ttl:64;", true),
        ("ttl:<64;", false),
        ("id:77;", true),
        ("id:78;", false),
        ("ip_proto:icmp;", true),
        ("ip_proto:!1;", false),
        ("ip_proto:<2;", true),
    ] {
        assert_eq!(on_packet(options, &echo), expected, "{options}");
    }
    // Behind the end of the options, and in one of a wrong length, nothing is read.
    echo.ip_options = &[0, 7, 3, 4];
    assert!(!on_packet("ipopts:rr;", &echo));
    echo.ip_options = &[68, 1, 7, 3];
    assert!(on_packet("ipopts:ts;", &echo) && !on_packet("ipopts:rr;", &echo));
    assert!(!on_packet("ipopts:any;", &packet(view::UDP, b"")));
}

#[test]
fn headers() {
    let matches = |header: &str, packet: &PacketView<'_>| {
        let set = rule_set(&format!("alert {header} (sid:1;)"));
        sids(&set, packet) == [1]
    };
    let (tcp, udp, icmp) = (
        packet(view::TCP, b""),
        packet(view::UDP, b""),
        packet(view::ICMP, b""),
    );
    let mut icmpv6 = packet(view::ICMPV6, b"");
    icmpv6.flow.source = "fe80::1".parse().unwrap();
    icmpv6.flow.destination = "ff02::1".parse().unwrap();
    let any = "any any -> any any";
    for (protocol, expected) in [
        ("tcp", [true, false, false, false]),
        ("tcp-pkt", [true, false, false, false]),
        ("udp", [false, true, false, false]),
        ("icmp", [false, false, true, true]),
        ("icmpv4", [false, false, true, false]),
        ("icmpv6", [false, false, false, true]),
        ("ip", [true, true, true, true]),
        ("ip4", [true, true, true, false]),
        ("ipv6", [false, false, false, true]),
        ("sctp", [false, false, false, false]),
    ] {
        let found = [&tcp, &udp, &icmp, &icmpv6]
            .map(|packet| matches(&format!("{protocol} {any}"), packet));
        assert_eq!(found, expected, "{protocol}");
    }
    // 10.0.0.1:50000 to 192.0.2.1:80
    for (ends, expected) in [
        ("10.0.0.0/8 any -> 192.0.2.0/24 80", true),
        ("192.0.2.0/24 80 -> 10.0.0.0/8 any", false),
        ("192.0.2.0/24 80 <> 10.0.0.0/8 any", true),
        ("$HOME_NET any -> $EXTERNAL_NET $HTTP_PORTS", true),
        ("!10.0.0.1 any -> any any", false),
        ("any 1024: -> any ![80,443]", false),
        ("any [1024:,!50001] -> any [80,443]", true),
        ("[fe80::/10, 10.0.0.1] any -> any any", true),
    ] {
        assert_eq!(matches(&format!("tcp {ends}"), &tcp), expected, "{ends}");
        assert_eq!(matches(&format!("udp {ends}"), &udp), expected, "{ends}");
    }
    // Without ports, a rule with ports does not match.
    assert!(!matches("ip any 0 -> any any", &icmp));
    assert!(matches("icmpv6 any any -> ff00::/8 any", &icmpv6));
}

#[test]
fn flow_conditions() {
    let with = |to_server: bool, established: bool| {
        let mut packet = packet(view::UDP, b"abc");
        packet.flow.to_server = to_server;
        packet.flow.established = established;
        packet
    };
    for (value, expected) in [
        // (to server, established), (to server, not), (to client, established), (to client, not)
        ("established", [true, false, true, false]),
        ("not_established", [false, true, false, true]),
        ("to_server", [true, true, false, false]),
        ("from_client", [true, true, false, false]),
        ("to_client,established", [false, false, true, false]),
        ("from_server, not_established", [false, false, false, true]),
        ("stateless", [true, true, true, true]),
        ("no_stream", [true, true, true, true]),
        ("only_stream", [false, false, false, false]),
        ("no_frag", [true, true, true, true]),
        ("only_frag", [false, false, false, false]),
    ] {
        let set = rule_set(&format!(
            "alert udp any any -> any any (flow:{value}; content:\"abc\"; sid:1;)"
        ));
        let found = [
            with(true, true),
            with(true, false),
            with(false, true),
            with(false, false),
        ]
        .map(|packet| sids(&set, &packet) == [1]);
        assert_eq!(found, expected, "{value}");
    }
    let set = rule_set("alert udp any any -> any any (flow:only_frag; sid:1;)");
    let mut reassembled = packet(view::UDP, b"");
    reassembled.reassembled = true;
    assert_eq!(sids(&set, &reassembled), [1]);
}

#[test]
fn flowbits_follow_the_order_of_evaluation() {
    let set = rule_set(
        r#"
        alert ip any any -> any any (flowbits:isset,b; sid:1;)
        alert ip any any -> any any (flowbits:isset,a; flowbits:toggle,b; sid:2;)
        alert ip any any -> any any (flowbits:set,a; dsize:>0; sid:3;)
        alert ip any any -> any any (flowbits:isnotset,a|c; dsize:>0; sid:4;)
        alert ip any any -> any any (flowbits:isset,c|a; sid:5;)
        alert ip any any -> any any (flowbits:set,x; flowbits:noalert; dsize:>0; sid:6;)
        alert ip any any -> any any (flowbits:isset,x; noalert; sid:7;)
        alert ip any any -> any any (flowbits:unset,x; dsize:9; sid:8;)
        "#,
    );
    let order: Vec<u32> = set.rules().map(|rule| rule.sid).collect();
    assert_eq!(order, [3, 6, 8, 2, 1, 4, 5, 7]);
    let mut bits = FlowVars::default();
    let mut scratch = Scratch::new(set.len());
    let mut run = |payload: &[u8]| {
        let mut sids = Vec::new();
        set.inspect_packet(
            &packet(view::UDP, payload),
            &mut bits,
            &mut scratch,
            &mut |alert| {
                sids.push(alert.rule.sid);
            },
        );
        sids
    };
    assert_eq!(run(b""), [0u32; 0]);
    // c is never set, so that one of a and c is not set.
    assert_eq!(run(b"x"), [3, 2, 1, 4, 5]);
    // The second time b is cleared again.
    assert_eq!(run(b""), [2, 5]);
}

#[test]
fn priorities_and_actions_order_rules() {
    let set = rule_set(
        r#"
        alert ip any any -> any any (dsize:3; priority:5; sid:1;)
        alert ip any any -> any any (dsize:3; classtype:trojan-activity; sid:2;)
        alert ip any any -> any any (dsize:3; sid:3;)
        reject ip any any -> any any (dsize:3; priority:9; sid:4;)
        drop ip any any -> any any (dsize:3; sid:5;)
        pass ip any any -> any any (content:"xyz"; sid:6;)
        "#,
    );
    assert_eq!(sids(&set, &packet(view::UDP, b"abc")), [5, 4, 2, 3, 1]);
    let mut alerts = 0;
    let inspection = set.inspect_packet(
        &packet(view::UDP, b"xyz"),
        &mut FlowVars::default(),
        &mut Scratch::new(0),
        &mut |_| alerts += 1,
    );
    assert_eq!(
        (inspection, alerts),
        (
            Inspection {
                alerts: 0,
                passed: true,
                passed_flow: false,
                wrote_vars: false,
                vars_lost: 0,
            },
            0
        )
    );
    set.inspect_packet(
        &packet(view::UDP, b"abc"),
        &mut FlowVars::default(),
        &mut Scratch::new(0),
        &mut |alert| {
            let expected = match alert.rule.sid {
                1 => (5, ""),
                2 => (1, "A Network Trojan was detected"),
                4 => (9, ""),
                _ => (3, ""),
            };
            assert_eq!((alert.priority, alert.category), expected);
        },
    );
}

#[test]
fn address_only_rules_are_tried_once_per_direction() {
    let set = rule_set(
        "alert tcp 10.0.0.1 any -> any any (sid:1;)\nalert tcp 10.0.0.1 any -> any 80 (sid:2;)\n\
         alert tcp 10.0.0.1 any -> any any (flow:established; sid:3;)",
    );
    let mut packet = packet(view::TCP, b"");
    assert_eq!(sids(&set, &packet), [1, 2, 3]);
    packet.first_in_direction = false;
    assert_eq!(sids(&set, &packet), [2, 3]);
}

#[test]
fn where_tcp_rules_look() {
    let set = rule_set(
        r#"
        alert tcp any any -> any any (content:"EVIL"; sid:1;)
        alert tcp-stream any any -> any any (content:"EVIL"; sid:2;)
        alert tcp-pkt any any -> any any (content:"EVIL"; sid:3;)
        alert tcp any any -> any any (content:"EVIL"; flow:only_stream; sid:4;)
        alert tcp any any -> any any (content:"EVIL"; flow:no_stream; sid:5;)
        alert tcp any any -> any any (content:"EVIL"; offset:1; sid:6;)
        alert tcp any any -> any any (content:"EVIL"; flags:+A; sid:7;)
        alert ip any any -> any any (content:"EVIL"; sid:8;)
        "#,
    );
    let mut segment = packet(view::TCP, b"xEVIL");
    assert_eq!(
        sids(&set, &segment),
        [1, 3, 5, 6, 7, 8],
        "not part of a stream"
    );
    segment.in_stream = true;
    assert_eq!(sids(&set, &segment), [3, 5, 6, 7], "the packet of a stream");
    let mut stream = Stream::new(&set);
    stream.give(b"xEVIL", false);
    let found: Vec<u32> = stream.alerts.iter().map(|alert| alert.0).collect();
    assert_eq!(found, [1, 2, 4, 6, 8], "the stream");

    let mut both = Vec::new();
    let bytes = StreamBytes {
        window: b"xEVIL",
        new_from: 0,
        offset: 0,
        last: false,
    };
    let mut options = CompileOptions::default();
    for repeat in [false, true] {
        options.report_packet_and_stream = repeat;
        let set = RuleSet::compile(set.rules().cloned().collect(), options.clone()).unwrap();
        both.clear();
        set.inspect_segment(
            &segment,
            &mut StreamState::default(),
            &bytes,
            &mut FlowVars::default(),
            &mut Scratch::new(0),
            &mut |alert| both.push(alert.rule.sid),
        );
        let expected: &[u32] = if repeat {
            &[1, 2, 3, 4, 5, 6, 6, 7, 8]
        } else {
            &[1, 2, 3, 4, 5, 6, 7, 8]
        };
        assert_eq!(both, expected);
    }
}

/// An IPv4 packet with this second byte and these flags and fragment offset.
fn with_header(tos: u8, fragment: u16) -> Vec<u8> {
    let mut header = vec![0x45, tos, 0, 20, 0, 1];
    header.extend(fragment.to_be_bytes());
    header.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    header
}

#[test]
fn fields_of_the_ipv4_header() {
    for (option, header, expected) in [
        ("fragbits:M", (0, 0x2000), true),
        ("fragbits:M", (0, 0x6000), false),
        ("fragbits:+M", (0, 0x6000), true),
        ("fragbits:*MD", (0, 0x4000), true),
        ("fragbits:!MD", (0, 0x4000), true),
        ("fragbits:!MD", (0, 0x6000), false),
        ("fragbits:M,D", (0, 0x6000), true),
        ("fragbits:R", (0, 0x8000), true),
        ("fragoffset:>0", (0, 0x2001), true),
        ("fragoffset:0", (0, 0x2000), true),
        ("fragoffset:8191", (0, 0x1fff), true),
        ("tos:8", (8, 0), true),
        ("tos:!8", (8, 0), false),
        ("tos:x10", (16, 0), true),
        ("sameip", (0, 0), false),
    ] {
        let rule = format!("alert ip any any -> any any ({option}; sid:1;)");
        let set = rule_set(&rule);
        let header = with_header(header.0, header.1);
        let mut view = packet(view::UDP, b"x");
        view.network_header = &header;
        assert_eq!(sids(&set, &view) == [1], expected, "{option}");
        if option == "sameip" {
            view.flow.destination = view.flow.source;
            assert_eq!(sids(&set, &view), [1]);
        } else {
            view.network_header = &[0x60; 40];
            assert!(sids(&set, &view).is_empty(), "IPv6: {option}");
        }
    }
}

#[test]
fn flowints_count_over_packets() {
    let set = rule_set(
        "alert udp any any -> any any (content:\"try\"; flowint:tries,+,1; noalert; sid:1;)\n\
         alert udp any any -> any any (content:\"try\"; flowint:tries,>=,3; sid:2;)\n\
         alert udp any any -> any any (content:\"end\"; flowint:tries,==,4; sid:3;)",
    );
    let mut vars = FlowVars::default();
    let mut scratch = Scratch::new(set.len());
    let mut alerts = Vec::new();
    for payload in ["try", "end", "try", "try", "try", "end"] {
        let view = packet(view::UDP, payload.as_bytes());
        set.inspect_packet(&view, &mut vars, &mut scratch, &mut |alert| {
            alerts.push(alert.rule.sid);
        });
    }
    assert_eq!(alerts, [2, 2, 3]);
    // 40 bits are more than a flow has room for.
    let many: String = (1..=40)
        .map(|bit| {
            format!(
                "alert udp any any -> any any (flowbits:set,b{bit}; content:\"x\"; sid:{bit};)\n"
            )
        })
        .collect();
    let set = rule_set(&many);
    let mut scratch = Scratch::new(set.len());
    set.inspect_packet(
        &packet(view::UDP, b"x"),
        &mut vars,
        &mut scratch,
        &mut |_| {},
    );
    assert_eq!((vars.count(), scratch.counters().flow_vars_lost), (32, 8));
}

#[test]
fn bytes_in_base_64() {
    // "arg=" and "this is a test" (RFC 4648 section 10 has shorter ones).
    let coded = "arg=dGhpcyBpcyBhIHRlc3Q=";
    for (options, matches) in [
        (
            r#"content:"arg="; base64_decode:relative; base64_data; content:"is a test"; endswith;"#,
            true,
        ),
        (
            r#"content:"arg"; base64_decode:offset 1, relative; base64_data; content:"THIS"; nocase; startswith;"#,
            true,
        ),
        (
            r#"content:"arg="; base64_decode:bytes 8, relative; base64_data; content:"this i"; bsize:6;"#,
            true,
        ),
        (
            r#"content:"arg="; base64_decode:bytes 8, relative; base64_data; content:"test";"#,
            false,
        ),
        (
            r#"base64_decode:offset 4; base64_data; content:"this"; content:"test"; distance:6; within:4;"#,
            true,
        ),
        (r#"base64_decode; base64_data; content:"this";"#, false),
        (
            r#"content:"arg="; base64_decode:relative; base64_data; content:!"this";"#,
            false,
        ),
        (
            r#"content:"arg="; base64_decode:relative; base64_data; content:"this"; pkt_data; content:"arg";"#,
            true,
        ),
        (
            r#"content:"arg="; base64_decode:relative; base64_data; pcre:"/a\stest$/";"#,
            true,
        ),
        (
            r#"base64_decode:offset 4000; base64_data; content:!"this";"#,
            false,
        ),
    ] {
        assert_eq!(on_payload(options, coded.as_bytes()), matches, "{options}");
    }
}

#[test]
fn numbers_out_of_the_payload_are_counts_and_places() {
    payloads(
        r#"byte_extract:1,0,count,string,dec; byte_test:count,=,77,1,string,dec;"#,
        &["277", "2770"],
        &["3770", "27", "x77"],
    );
    payloads(
        r#"byte_extract:1,0,place,string,dec; content:"a"; offset:place; depth:1;"#,
        &["3xxa", "1a", "9xxxxxxxxa"],
        &["3xa", "3xxxa"],
    );
    // A jump in front of the payload is one to its start.
    payloads(
        r#"content:"bc"; byte_jump:0,0,relative,post_offset -9; content:"a"; within:1;"#,
        &["abc"],
        &["xabc"],
    );
}

#[test]
fn streams_and_their_events() {
    let mut tcp = packet(view::TCP, b"data");
    tcp.stream_bytes = Some([100, 2_000]);
    for (options, matches) in [
        ("stream_size:client,<,101;", true),
        ("stream_size:client,<,100;", false),
        ("stream_size:server,>=,2000;", true),
        ("stream_size:both,>,99;", true),
        ("stream_size:both,>,100;", false),
        ("stream_size:either,>,100;", true),
        ("stream-event:pkt_invalid_timestamp;", false),
    ] {
        assert_eq!(on_packet(options, &tcp), matches, "{options}");
    }
    tcp.stream_bytes = None;
    assert!(!on_packet("stream_size:client,<,101;", &tcp));
    tcp.stream_events = StreamEvents::NONE.with(StreamEvent::InvalidTimestamp);
    assert!(on_packet("stream-event:pkt_invalid_timestamp;", &tcp));
}

#[test]
fn a_rule_that_passes_may_tell() {
    let set = rule_set(
        "pass udp any any -> any any (content:\"a\"; alert; sid:1;)\n\
         pass udp any any -> any any (content:\"b\"; sid:2;)\n\
         alert udp any any -> any any (content:\"c\"; sid:3;)",
    );
    assert_eq!(sids(&set, &packet(view::UDP, b"ac")), [1]);
    let nothing: [u32; 0] = [];
    assert_eq!(sids(&set, &packet(view::UDP, b"bc")), nothing);
}

#[test]
fn what_a_rule_requires() {
    payloads(
        r#"content:"a"; requires:version >= 7.0.3 < 8, keyword base64_data;"#,
        &["a"],
        &["b"],
    );
}
