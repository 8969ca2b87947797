//! Rules on messages of application protocols, handed in as a caller does.

mod common;

use weir_signatures::*;

const HTTP: ParseOptions = ParseOptions {
    unsupported: Unsupported::Refuse,
    protocols: AppProtocols::NONE.with(AppProtocol::Http),
};

/// The rules that match when these messages are handed in, one after the other, as parts of one.
fn sids(options: &str, calls: &[(Phase, &[Bytes<'_>])]) -> usize {
    let text = format!("alert tcp any any -> any any ({options} sid:1;)");
    let parsed = parse_rules_with(&text, &Variables::stock(), HTTP).unwrap();
    let set = RuleSet::compile(parsed.rules, CompileOptions::default()).unwrap();
    let mut scratch = Scratch::new(set.len());
    let (mut state, mut bits) = (MessageState::default(), FlowVars::default());
    let mut found = 0;
    for &(phase, buffers) in calls {
        let message = Transaction {
            numbers: &[],
            events: AppEvents::NONE,
            protocol: AppProtocol::Http,
            phase,
            buffers,
            payload: b"GET /a/b?c=d HTTP/1.1\r\n",
        };
        let flow = common::flow(view::TCP);
        set.inspect_transaction(
            &flow,
            &message,
            &mut state,
            &mut bits,
            &mut scratch,
            &mut |alert| {
                assert_eq!(alert.matched_in, MatchedIn::Message);
                found += 1;
            },
        );
    }
    found
}

#[test]
fn conditions_look_into_their_buffers() {
    let head = [
        Bytes::whole(Buffer::HttpMethod, b"GET"),
        Bytes::whole(Buffer::HttpUri, b"/a/b?c=d"),
        Bytes::whole(
            Buffer::HttpHeader,
            b"Host: example.org\r\nUser-Agent: x\r\n",
        ),
    ];
    for (options, matches) in [
        (
            r#"http.uri; content:"/a"; startswith; content:"d"; distance:5; endswith;"#,
            1,
        ),
        (
            r#"content:"GET"; http_method; content:"/b"; http_uri; pcre:"/c=[a-f]$/U";"#,
            1,
        ),
        (r#"content:"POST"; http_method; content:"/b"; http_uri;"#, 0),
        (r#"content:"GET"; http_uri;"#, 0),
        (r#"uricontent:"B?c"; nocase;"#, 1),
        (r#"uricontent:"B?c";"#, 0),
        (
            r#"content:!"Referer"; http_header; content:"/a"; http_uri;"#,
            1,
        ),
        (
            r#"content:!"Host"; http_header; content:"/a"; http_uri;"#,
            0,
        ),
        // Without cookies there is no buffer, and no match, negated or not.
        (r#"content:!"x"; http_cookie; content:"/a"; http_uri;"#, 0),
        (r#"urilen:8; pcre:"/^\/a/U";"#, 1),
        (r#"urilen:>8; content:"/a"; http_uri;"#, 0),
        (
            r#"http.method; content:"GET"; bsize:3; pkt_data; content:"HTTP/1.1";"#,
            1,
        ),
        (
            r#"http.method; content:"GET"; pkt_data; content:"HTTP/1.0";"#,
            0,
        ),
        (r#"content:"c="; http_uri; isdataat:1,relative;"#, 1),
        (r#"content:"c="; http_uri; isdataat:!1,relative;"#, 0),
        (
            r#"http.uri; content:"/"; byte_test:1,>,0x60,0,relative;"#,
            1,
        ),
        (r#"flow:to_client; http.uri; content:"/a";"#, 9),
    ] {
        if matches == 9 {
            let text = format!("alert tcp any any -> any any ({options} sid:1;)");
            let errors = parse_rules_with(&text, &Variables::stock(), HTTP).unwrap_err();
            assert!(
                errors[0].message.contains("opposite directions"),
                "{errors:?}"
            );
            continue;
        }
        assert_eq!(sids(options, &[(Phase::Head, &head)]), matches, "{options}");
    }
}

#[test]
fn bodies_come_in_windows() {
    let uri = Bytes::whole(Buffer::HttpUri, b"/upload");
    let body = |bytes, complete| Bytes {
        buffer: Buffer::HttpRequestBody,
        bytes,
        offset: 0,
        complete,
    };
    let calls: [(Phase, &[Bytes<'_>]); 3] = [
        (Phase::Head, &[uri]),
        (Phase::Body, &[uri, body(b"name=ev", false)]),
        (Phase::Body, &[uri, body(b"name=evil&x", true)]),
    ];
    for (options, matches) in [
        (
            r#"content:"/upload"; http_uri; content:"name"; http_client_body;"#,
            1,
        ),
        (
            r#"content:"/upload"; http_uri; content:"evil"; http_client_body;"#,
            1,
        ),
        (r#"content:"/upload"; http_uri;"#, 1),
        // What later bytes can undo waits for them.
        (
            r#"content:"/upload"; http_uri; content:!"&x"; http_client_body;"#,
            0,
        ),
        (
            r#"content:"name"; http_client_body; content:!"&y"; http_client_body;"#,
            1,
        ),
        (r#"http.request_body; content:"ev"; endswith;"#, 0),
        (r#"http.request_body; content:"&x"; endswith;"#, 1),
        (r#"http.request_body; content:"name"; bsize:7;"#, 0),
        (r#"http.request_body; content:"name"; bsize:11;"#, 1),
    ] {
        assert_eq!(sids(options, &calls), matches, "{options}");
    }
}

#[test]
fn buffers_are_changed_before_conditions_look() {
    let body = |bytes, complete| Bytes {
        buffer: Buffer::HttpRequestBody,
        bytes,
        offset: 0,
        complete,
    };
    let head = [
        Bytes::whole(Buffer::HttpHost, b"www.example.org"),
        Bytes::whole(Buffer::HttpUri, b"/A b%41+c"),
    ];
    let calls: [(Phase, &[Bytes<'_>]); 3] = [
        (Phase::Head, &head),
        (Phase::Body, &[head[0], head[1], body(b"ab", false)]),
        (Phase::Body, &[head[0], head[1], body(b"abc", true)]),
    ];
    for (options, matches) in [
        (
            r#"http.host; dotprefix; content:".www.example.org"; startswith; endswith;"#,
            1,
        ),
        (
            r#"http.host; dotprefix; content:".example.org"; endswith; bsize:16;"#,
            1,
        ),
        (r#"http.host; content:".www"; bsize:15;"#, 0),
        // The buffer as it is, and changed, in one rule.
        (
            r#"http.host; content:"www"; startswith; http.host; dotprefix; content:".www"; startswith;"#,
            1,
        ),
        (
            r#"http.uri; to_lowercase; content:"/a b%41"; startswith;"#,
            1,
        ),
        (
            r#"http.uri; url_decode; strip_whitespace; content:"/AbAc"; bsize:5;"#,
            1,
        ),
        (
            r#"http.uri; strip_whitespace; url_decode; content:"/AbA c"; bsize:6;"#,
            1,
        ),
        (r#"http.uri; xor:"01"; content:".@!c$50*b";"#, 1),
        // Without a content to look for, and negated.
        (r#"http.uri; to_uppercase; pcre:"/^\/A B%41\+C$/";"#, 1),
        (r#"http.uri; to_uppercase; content:!"c"; content:"/A";"#, 1),
        (r#"http.uri; content:!"c"; content:"/A";"#, 0),
        // The hash of a whole body (of "abc": RFC 1321 section A.5), and no hash of a part.
        (
            r#"http.request_body; to_md5; content:"|90 01 50 98 3c d2 4f b0 d6 96 3f 7d 28 e1 7f 72|";"#,
            1,
        ),
        (
            r#"http.request_body; to_sha1; bsize:20; content:"|a9 99 3e 36|"; startswith;"#,
            1,
        ),
        (
            r#"http.request_body; to_sha256; bsize:32; content:"|ba 78 16 bf|"; startswith;"#,
            1,
        ),
    ] {
        assert_eq!(sids(options, &calls), matches, "{options}");
        assert_eq!(
            sids(options, &calls[..2]),
            usize::from(matches == 1 && !options.contains("body")),
            "{options}"
        );
    }
}

/// A rule with these options is refused, and the message says this.
#[track_caller]
fn refused(options: &str, expected: &str) {
    let text = format!("alert tcp any any -> any any ({options} sid:1;)");
    let known = ParseOptions {
        protocols: HTTP.protocols.with(AppProtocol::Dns).with(AppProtocol::Tls),
        ..HTTP
    };
    let errors = parse_rules_with(&text, &Variables::stock(), known).unwrap_err();
    assert!(
        errors[0].message.contains(expected),
        "{options}: {errors:?}"
    );
}

#[test]
fn conditions_on_messages_that_are_wrong() {
    for (options, expected) in [
        (
            r#"dotprefix; content:"a";"#,
            "needs the keyword of a buffer",
        ),
        (
            r#"http.uri; content:"a"; to_lowercase;"#,
            "comes before the conditions",
        ),
        (r#"http.uri; xor:"0"; content:"a";"#, "hexadecimal"),
        (r#"http.uri; xor; content:"a";"#, "needs a value"),
        (r#"http.uri; to_md5:1; content:"a";"#, "takes no value"),
        (r#"tcp.hdr; to_md5; content:"a";"#, "messages only"),
        (
            r#"app-layer-protocol:tls; http.uri; content:"a";"#,
            "asks for tls and for http",
        ),
        (
            r#"dns.opcode:1; app-layer-event:tls.invalid_certificate;"#,
            "asks for dns and for tls",
        ),
        (
            r#"http.uri; dotprefix; dotprefix; dotprefix; dotprefix; dotprefix; dotprefix; dotprefix; dotprefix; dotprefix; dotprefix; dotprefix; dotprefix; dotprefix; dotprefix; dotprefix; dotprefix; dotprefix; content:"a";"#,
            "at most 16",
        ),
        (r#"tls.version:2;"#, "is not sslv3, 1.0"),
        (
            r#"http.uri; http.host; content:"a";"#,
            "nothing is asked of the buffer `http.uri`",
        ),
        (
            r#"http.uri; to_lowercase;"#,
            "nothing is asked of the buffer",
        ),
        (
            r#"app-layer-protocol:!http; http.uri; content:"a";"#,
            "no flow of the rule speaks http",
        ),
        (
            r#"app-layer-event:ssh.long_baner;"#,
            "unsupported keyword `app-layer-event:ssh.long_baner`",
        ),
        (
            r#"app-layer-protocol:http,to_server;"#,
            "unsupported keyword `app-layer-protocol:http,to_server`",
        ),
    ] {
        refused(options, expected);
    }
}

#[test]
fn a_group_of_an_expression_is_looked_at() {
    let head = [Bytes::whole(Buffer::HttpHost, b"www.example.org")];
    for (options, matches) in [
        (
            r#"http.host; pcrexform:"^www\.([a-z]+)"; content:"example"; bsize:7;"#,
            1,
        ),
        (
            r#"http.host; pcrexform:"^ftp\.([a-z]+)"; content:"www.example.org"; bsize:15;"#,
            1,
        ),
    ] {
        assert_eq!(sids(options, &[(Phase::Head, &head)]), matches, "{options}");
    }
}

#[test]
fn further_conditions_that_are_wrong() {
    for (options, expected) in [
        (
            r#"http.uri; pcrexform:"a"; content:"a";"#,
            "has not one group",
        ),
        (r#"http.uri; pcrexform:a; content:"a";"#, "in quotes"),
        (r#"base64_data; content:"a";"#, "needs a `base64_decode`"),
        (r#"base64_decode; base64_data;"#, "nothing is asked"),
        (
            r#"content:"x"; base64_decode; base64_data; content:"y"; http_uri;"#,
            "behind `base64_data`",
        ),
        (
            r#"distance:zz; requires:version > 8;"#,
            "requires version > 8",
        ),
        (
            r#"base64_decode:bytes 0; base64_data; content:"a";"#,
            "0 bytes",
        ),
        (
            r#"base64_decode:bytes 70000; base64_data; content:"a";"#,
            "up to 65535",
        ),
        (
            r#"base64_decode:big; base64_data; content:"a";"#,
            "`big` is not known",
        ),
        (r#"stream_size:server;"#, "a number"),
        (r#"stream_size:all,<,3;"#, "is not client, server"),
        (r#"requires:version 7;"#, "is not a range of versions"),
        (r#"requires:lua;"#, "requires lua"),
        (r#"requires:version > 8;"#, "requires version > 8"),
    ] {
        refused(options, expected);
    }
}

#[test]
fn what_is_cut_off_is_not_complete() {
    let mut bytes = vec![b'a'; 70_000];
    bytes[65_535] = b'Q';
    bytes[69_999] = b'z';
    let body = Bytes {
        buffer: Buffer::HttpRequestBody,
        bytes: &bytes,
        offset: 0,
        complete: true,
    };
    let calls: [(Phase, &[Bytes<'_>]); 1] = [(Phase::Body, &[body])];
    for (options, matches) in [
        (r#"to_lowercase; content:"aq";"#, 1),
        (r#"to_lowercase; content:"q"; endswith;"#, 0),
        (r#"to_lowercase; bsize:65536;"#, 0),
        (r#"to_lowercase; to_sha256; bsize:32;"#, 0),
        // A hash is of all that is handed in.
        (r#"to_sha256; bsize:32;"#, 1),
    ] {
        let options = format!("http.request_body; {options}");
        assert_eq!(sids(&options, &calls), matches, "{options}");
    }
}
