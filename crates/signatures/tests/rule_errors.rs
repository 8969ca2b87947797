//! Faulty rules: what is said about them, and where.

use weir_signatures::*;

/// The only error of a rule with these options.
#[track_caller]
fn error(options: &str) -> RuleError {
    let text = format!("alert tcp any any -> any any ({options})");
    let mut errors = parse_rules(&text, &Variables::stock()).expect_err(&text);
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors.remove(0)
}

#[test]
fn options_that_are_wrong() {
    for (options, words, marked) in [
        ("msg:\"x\";", "no `sid`", ""),
        ("sid:0;", "at least 1", "0"),
        ("sid:x;", "`x` is not a number", "x"),
        ("sid:4294967296;", "above 4294967295", "4294967296"),
        ("sid;", "`sid` needs a value", "sid"),
        ("sid:1; sid:2;", "given twice", "sid"),
        ("nocase; sid:1;", "needs a `content` before it", "nocase"),
        ("depth:3; sid:1;", "needs a `content` before it", "depth"),
        (
            "content:\"abc\"; depth:2; sid:1;",
            "smaller than the content",
            "content:\"abc\"",
        ),
        (
            "content:\"abc\"; within:2; sid:1;",
            "smaller than the content",
            "content:\"abc\"",
        ),
        (
            "content:\"abc\"; depth:3; distance:1; sid:1;",
            "cannot be used with `offset`",
            "content:\"abc\"",
        ),
        (
            "content:\"abc\"; startswith; offset:1; sid:1;",
            "`startswith` cannot",
            "content:\"abc\"",
        ),
        ("content:\"abc\"; nocase:1; sid:1;", "takes no value", "1"),
        ("content:\"abc\"; offset:x; sid:1;", "not a number", "x"),
        (
            "content:\"abc\"; offset:1; offset:2; sid:1;",
            "given twice",
            "offset",
        ),
        (
            "content:\"abc\"; fast_pattern:2,2; sid:1;",
            "outside the content",
            "2,2",
        ),
        (
            "content:\"abc\"; fast_pattern:x; sid:1;",
            "not a value",
            "x",
        ),
        (
            "content:\"a\"; fast_pattern; content:\"b\"; fast_pattern; sid:1;",
            "one `fast_pattern`",
            "content:\"b\"",
        ),
        ("content:\"a;b\"; sid:1;", "`b\"` is not a keyword", "b\""),
        ("content:\"|0|\"; sid:1;", "odd number", "|"),
        ("content:\"\"; sid:1;", "empty", "\"\""),
        (
            "flow:sideways; sid:1;",
            "unknown `flow` value `sideways`",
            "sideways",
        ),
        (
            "flow:to_server,to_client; sid:1;",
            "contradicts `to_server`",
            "to_client",
        ),
        (
            "flow:established,not_established; sid:1;",
            "contradicts",
            "not_established",
        ),
        ("flow:only_stream; dsize:3; sid:1;", "stream only", "dsize"),
        ("flowbits:isset; sid:1;", "needs one name", "isset"),
        (
            "flowbits:put,a; sid:1;",
            "unknown `flowbits` command `put`",
            "put",
        ),
        ("flowbits:set,a|b; sid:1;", "one name only", "a|b"),
        ("flags:SX; sid:1;", "`X` is not a TCP flag", "SX"),
        ("itype:256; sid:1;", "above 255", "256"),
        ("ipopts:xx; sid:1;", "unknown IP option", "xx"),
        ("ip_proto:nonsense; sid:1;", "`ip_proto`", "nonsense"),
        ("target:us; sid:1;", "unknown target", "us"),
        ("reference:x; sid:1;", "needs a system and an id", "x"),
        ("priority:0; sid:1;", "at least 1", "0"),
        ("msg:x; sid:1;", "double quotes", "x"),
        ("sid:1", "does not end with `;`", "sid:1"),
        ("lua:x; sid:1;", "unsupported keyword `lua`", "lua"),
        (
            "http.uri; content:\"x\"; sid:1;",
            "unsupported keyword `http.uri`",
            "http.uri",
        ),
    ] {
        let error = error(options);
        assert!(error.message.contains(words), "{options}: {error}");
        assert_eq!(error.line, 1);
        if !marked.is_empty() {
            let text: Vec<char> = format!("alert tcp any any -> any any ({options})")
                .chars()
                .collect();
            let found: String = text[error.column - 1..][..error.length].iter().collect();
            assert_eq!(found, marked, "{options}: {error}");
        }
    }
}

#[test]
fn headers_that_are_wrong() {
    for (rule, words) in [
        (
            "alert tcp any any -> any (sid:1;)",
            "7 parts, this one has 6",
        ),
        (
            "warn tcp any any -> any any (sid:1;)",
            "unknown action `warn`",
        ),
        (
            "alert tpc any any -> any any (sid:1;)",
            "unknown protocol `tpc`",
        ),
        (
            "alert http any any -> any any (sid:1;)",
            "unsupported protocol `http`",
        ),
        ("alert tcp any any <- any any (sid:1;)", "`<-`"),
        (
            "alert tcp any any any any any (sid:1;)",
            "where the arrow belongs",
        ),
        (
            "alert tcp $NO any -> any any (sid:1;)",
            "unknown address variable `$NO`",
        ),
        (
            "alert tcp any $NO -> any any (sid:1;)",
            "unknown port variable `$NO`",
        ),
        ("alert tcp any any -> any any sid:1;", "no options"),
        ("alert tcp any any -> any any (sid:1;", "no closing `)`"),
    ] {
        let errors = parse_rules(rule, &Variables::stock()).expect_err(rule);
        assert!(errors[0].message.contains(words), "{rule}: {}", errors[0]);
    }
}

#[test]
fn all_faults_of_a_file_are_reported_with_their_lines() {
    let text = "# fine\nalert tcp any any -> any any (sid:1;)\n\nalert tcp any any -> any any (\\\n  \
                content:\"a\"; \\\n  dsize:x; sid:2;)\nalert tcp any any -> any any (msg:\"3\";)\r\n";
    let errors = parse_rules(text, &Variables::stock()).unwrap_err();
    let places: Vec<(usize, usize, usize)> = errors
        .iter()
        .map(|error| (error.line, error.column, error.length))
        .collect();
    assert_eq!(places[0], (6, 9, 1));
    assert_eq!(places[1].0, 7);
    assert_eq!(places.len(), 2);
    assert!(
        errors[0]
            .to_string()
            .starts_with("line 6, column 9: the value of `dsize`")
    );
}

#[test]
fn the_same_sid_twice() {
    let rule = |sid: u32, rev: u32| {
        format!("alert tcp any any -> any any (dsize:{rev}; sid:{sid}; rev:{rev};)\n")
    };
    let text = [rule(1, 1), rule(2, 1), rule(1, 1)].concat();
    let errors = parse_rules(&text, &Variables::stock()).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].line, 3);
    assert!(
        errors[0].message.contains("already used in line 1"),
        "{}",
        errors[0]
    );

    let text = [rule(1, 1), rule(1, 3), rule(1, 2)].concat();
    let parsed = parse_rules_with(&text, &Variables::stock(), ParseOptions::default()).unwrap();
    assert_eq!(parsed.rules.len(), 1);
    assert_eq!(parsed.rules[0].rev, 3);
    let lines: Vec<usize> = parsed.skipped.iter().map(|skipped| skipped.line).collect();
    assert_eq!(lines, [1, 3]);
    assert!(
        parsed
            .skipped
            .iter()
            .all(|skipped| skipped.reason == SkipReason::OlderRevision)
    );

    let text =
        "alert ip any any -> any any (sid:1; gid:1;)\nalert ip any any -> any any (sid:1; gid:2;)";
    assert_eq!(parse_rules(text, &Variables::stock()).unwrap().len(), 2);
}

#[test]
fn skipped_rules_are_listed_with_what_they_use() {
    let text = r#"
alert tcp any any -> any any (lua:a; geoip:src,US; lua:b; sid:1;)
alert tcp any any -> any any (content:"x"; sid:2;)
alert dns any any -> any any (dns.query; content:"x"; sid:3;)
"#;
    let options = ParseOptions {
        unsupported: Unsupported::Skip,
        ..ParseOptions::default()
    };
    let parsed = parse_rules_with(text, &Variables::stock(), options).unwrap();
    assert_eq!(parsed.rules.len(), 1);
    assert_eq!(
        parsed.skipped,
        [
            Skipped {
                line: 2,
                sid: Some(1),
                reason: SkipReason::Keywords(vec!["lua".into(), "geoip".into()]),
            },
            Skipped {
                line: 4,
                sid: Some(3),
                reason: SkipReason::Protocol("dns".into())
            },
        ]
    );
    let counts: Vec<(&str, usize)> = parsed.skipped_by_name().into_iter().collect();
    assert_eq!(counts, [("dns", 1), ("geoip", 1), ("lua", 1)]);
    let refused = parse_rules(text, &Variables::stock()).unwrap_err();
    assert_eq!(refused.len(), 2);
    assert!(
        refused[0]
            .help
            .as_deref()
            .unwrap()
            .contains("unsupported: skip")
    );
}

#[test]
fn everything_a_rule_says_is_kept() {
    let rules = parse_rules(
        r#"reject tcp $HOME_NET 1024: <> any [80,443] (msg:"a \"b\" \; c"; gid:3; sid:7; rev:2; classtype:misc-attack; priority:2; reference:url,x.org/a,b; reference:cve,2020-1; metadata:a b, c d; target:src_ip; flow:established,to_server; content:"x|3a|"; nocase; fast_pattern; noalert;)"#,
        &Variables::stock(),
    )
    .unwrap();
    let rule = &rules[0];
    assert_eq!(rule.message, r#"a "b" ; c"#);
    assert_eq!(
        (rule.gid, rule.sid, rule.rev, rule.priority),
        (3, 7, 2, Some(2))
    );
    assert_eq!(rule.classtype.as_deref(), Some("misc-attack"));
    assert_eq!(
        rule.references,
        [
            ("url".into(), "x.org/a,b".into()),
            ("cve".into(), "2020-1".into())
        ]
    );
    assert_eq!(rule.metadata, ["a b", "c d"]);
    assert_eq!(rule.target, Some(Target::Source));
    assert!(rule.bidirectional && rule.noalert && rule.action == Action::Reject);
    assert_eq!(rule.flow.direction, Some(Direction::ToServer));
    assert_eq!(rule.contents[0].bytes, b"x:");
    assert_eq!(rule.source_ports.ranges(), [(1024, 65535)]);
}

#[test]
fn too_many_flowbits_name_the_rule() {
    let text: String = (0..=MAX_FLOW_VARS)
        .map(|number| {
            format!(
                "alert ip any any -> any any (flowbits:set,bit{number}; sid:{};)\n",
                number + 1
            )
        })
        .collect();
    let rules = parse_rules(&text, &Variables::stock()).unwrap();
    assert!(RuleSet::compile(rules[..MAX_FLOW_VARS].to_vec(), CompileOptions::default()).is_ok());
    let error = RuleSet::compile(rules, CompileOptions::default()).unwrap_err();
    assert_eq!(
        error,
        CompileError::TooManyFlowbits {
            line: MAX_FLOW_VARS + 1,
            sid: MAX_FLOW_VARS as u32 + 1,
            name: format!("bit{MAX_FLOW_VARS}")
        }
    );
}

#[test]
fn automata_get_smaller_to_fit_and_refuse_when_they_cannot() {
    let text: String = (0..200u32)
        .map(|number| {
            let number = u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            format!(
                "alert tcp any any -> any any (content:\"{number:020x}\"; sid:{};)\n",
                number >> 40 | 1
            )
        })
        .collect();
    let rules = parse_rules(&text, &Variables::stock()).unwrap();
    let size = |bytes: usize| {
        let options = CompileOptions {
            automaton_bytes: bytes,
            ..CompileOptions::default()
        };
        RuleSet::compile(rules.clone(), options).map(|set| set.prefilter_size())
    };
    let (patterns, full) = size(64 << 20).unwrap();
    assert_eq!(patterns, 200);
    let (_, small) = size(full / 2).unwrap();
    assert!(small <= full / 2 && small > 0);
    assert!(matches!(
        size(100),
        Err(CompileError::AutomatonTooLarge {
            limit: 100,
            rules: 200
        })
    ));
}
