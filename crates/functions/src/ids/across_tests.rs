//! What goes beyond one rule on one flow, through the engine: flows that are passed, bits of hosts, files of values.

use super::tests::{Connection, Files, ids, refused, sids, with};
use super::*;
use weir_runtime::harness::{Craft, Harness};

/// Sends a datagram at once, or so many milliseconds after the last one; true where it comes out.
fn send(harness: &mut Harness, after: u64, (from, to): (&str, &str), payload: &[u8]) -> bool {
    harness.advance_ms(after);
    let datagram = Craft::udp(from, to).payload(payload).build();
    !harness.send(&datagram).is_empty()
}

#[test]
fn a_rule_passes_the_rest_of_the_flow() {
    let rules = r#"pass tcp any any -> any 80 (flow:established,to_server; content:"allowed"; sid:1;)
pass tcp any any -> any 81 (alert; sid:2;)
pass http any any -> any 82 (http.host; content:"good"; sid:3;)
pass tcp any any -> any 83 (dsize:4; sid:4;)
drop tcp any any -> any any (content:"attack"; sid:7;)
alert http any any -> any any (http.method; content:"GET"; sid:8;)"#;
    let request = |host: &str| format!("GET /attack HTTP/1.1\r\nHost: {host}\r\n\r\n");
    for (port, first, expected, later, passes) in [
        // What is told before stays told.
        (80, "attack".to_owned(), &[7][..], &[][..], false),
        (80, "allowed".to_owned(), &[], &[], true),
        (80, "nothing".to_owned(), &[], &[7], false),
        // The rule tells of it once, with the first packet.
        (81, "attack".to_owned(), &[], &[], true),
        // Of the packet itself no other alert is told either.
        (82, request("good"), &[], &[], true),
        (82, request("bad"), &[7, 8], &[], false),
        // A condition on a packet passes that packet alone.
        (83, "abcd".to_owned(), &[], &[7], false),
    ] {
        let mut harness = ids(Settings {
            action: Act::Rule,
            ..with(rules)
        });
        let mut connection = Connection::open_to(&mut harness, &format!("192.0.2.1:{port}"));
        let told = sids(&mut harness);
        assert_eq!(told, if port == 81 { &[2][..] } else { &[] }, "{port}");
        connection.up(&mut harness, first.as_bytes());
        assert_eq!(sids(&mut harness), expected, "{port} {first}");
        let out = connection.up(&mut harness, b"attack");
        assert_eq!(sids(&mut harness), later, "{port} {first}");
        assert_eq!(!out.is_empty(), passes, "{port} {first}");
    }
}

#[test]
fn a_message_passes_the_datagram_that_brings_it() {
    let rules = r#"pass dns any any -> any any (dns.query; content:"good"; sid:1;)
drop udp any any -> any 53 (sid:2;)"#;
    let query = |name: &str| {
        let mut query = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, name.len() as u8];
        query.extend_from_slice(name.as_bytes());
        query.extend_from_slice(&[0, 0, 1, 0, 1]);
        query
    };
    for (name, passes, expected) in [("good", true, &[][..]), ("evil", false, &[2])] {
        let mut harness = ids(Settings {
            action: Act::Rule,
            ..with(rules)
        });
        let ends = ("10.0.0.1:9", "192.0.2.1:53");
        assert_eq!(send(&mut harness, 0, ends, &query(name)), passes, "{name}");
        assert_eq!(sids(&mut harness), expected, "{name}");
        assert_eq!(
            send(&mut harness, 1, ends, &query("evil")),
            passes,
            "{name}"
        );
        assert_eq!(sids(&mut harness), [0; 0], "{name}");
    }
}

#[test]
fn records_of_a_passed_flow_go_on() {
    let mut harness = ids(Settings {
        records: vec![RecordKind::Http],
        ..with(
            "pass tcp any any -> any any (sid:1;)\nalert tcp any any -> any any (content:\"GET\"; sid:7;)",
        )
    });
    let mut connection = Connection::open(&mut harness);
    connection.up(&mut harness, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    connection.down(
        &mut harness,
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    );
    let events = harness.events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].contains("\"event_type\":\"http\""), "{events:?}");
}

#[test]
fn bits_of_hosts_are_seen_by_other_flows() {
    let rules = r#"alert udp any any -> any 1 (noalert; content:"knock"; xbits:set,knocked,track ip_src,expire 10; sid:1;)
alert udp any any -> any 2 (content:"open"; xbits:isset,knocked,track ip_src; sid:2;)
alert udp any any -> any 3 (content:"open"; hostbits:isnotset,knocked,src; hostbits:set,seen,dst,5; sid:3;)
alert udp any any -> any any (content:"pair"; xbits:toggle,both,track ip_pair; sid:4;)
alert udp any any -> any any (content:"pair"; xbits:isset,both,track ip_pair; sid:5;)
alert udp any any -> any 4 (content:"host"; hostbits:set,late,src; sid:6;)
alert udp any any -> any 5 (content:"host"; hostbits:isset,late,src; sid:7;)"#;
    let mut harness = ids(with(rules));
    let (a, b) = ("10.0.0.1:9", "10.0.0.2:9");
    for (after, ends, payload, expected) in [
        (0, (a, "192.0.2.1:2"), "open", &[][..]),
        (1, (a, "192.0.2.7:1"), "knock", &[]),
        (1, (a, "192.0.2.1:2"), "open", &[2]),
        (1, (b, "192.0.2.1:2"), "open", &[]),
        (1, (a, "192.0.2.1:3"), "open", &[]),
        (1, (b, "192.0.2.1:3"), "open", &[3]),
        // 10 s are over.
        (10_000, (a, "192.0.2.1:2"), "open", &[]),
        (1, (a, "192.0.2.1:3"), "open", &[3]),
        // A rule that sets a bit comes before one that asks for it, and either order is the same pair.
        (1, (a, "10.0.0.2:7"), "pair", &[4, 5]),
        (1, (b, "10.0.0.1:8"), "pair", &[4]),
        // Where a rule does not say how long, a host's bit stays for 300 s.
        (1, (a, "192.0.2.1:4"), "host", &[6]),
        (299_000, (a, "192.0.2.1:5"), "host", &[7]),
        (2_000, (a, "192.0.2.1:5"), "host", &[]),
        (1, ("[2001:db8::1]:1", "[2001:db8::2]:1"), "pair", &[4, 5]),
    ] {
        assert!(send(&mut harness, after, ends, payload.as_bytes()));
        assert_eq!(sids(&mut harness), expected, "{ends:?} {payload}");
    }
    // Those that are not told are not counted.
    assert_eq!(harness.counter("ids", "alerts"), 4 + 4 + 5 + 3);
}

#[test]
fn what_waits_for_other_flows_drops_nothing() {
    let settings = |rule: &str| Settings {
        action: Act::Rule,
        ..with(rule)
    };
    let rule = r#"drop udp any any -> any any (content:"x"; xbits:isset,a,track ip_src; sid:1;)
drop udp any any -> any any (content:"y"; xbits:set,a,track ip_src; sid:2;)"#;
    let builder = Harness::builder().with::<Ids>(settings(rule)).unwrap();
    let warning = builder.warnings()[0].to_string();
    assert!(warning.contains("1 rules that would drop"), "{warning}");
    let mut harness = builder.build();
    let ends = |port| (format!("10.0.0.1:{port}"), "192.0.2.1:1");
    for (port, payload, passes, expected) in [
        (1, b"x", true, &[][..]),
        (2, b"y", false, &[2]),
        (3, b"x", true, &[1]),
    ] {
        let (from, to) = ends(port);
        assert_eq!(send(&mut harness, 0, (&from, to), payload), passes);
        assert_eq!(sids(&mut harness), expected);
    }
    for (rule, part) in [
        (
            "pass udp any any -> any any (xbits:isset,a,track ip_src; sid:1;)",
            "can't wait for",
        ),
        (
            "alert udp any any -> any any (xbits:isset,a,track ip_src; flowbits:set,b; sid:1;)",
            "can't write variables",
        ),
        (
            "alert udp any any -> any any (xbits:isset,a; sid:1;)",
            "owner is missing",
        ),
        (
            "alert udp any any -> any any (xbits:isset,a,track tx; sid:1;)",
            "owns no bits",
        ),
        (
            "alert udp any any -> any any (xbits:jump,a,track ip_src; sid:1;)",
            "unknown command",
        ),
        (
            "alert udp any any -> any any (xbits:set,a\"b,track ip_src; sid:1;)",
            "not the name",
        ),
    ] {
        let error = refused(settings(rule), &[]).to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_set_has_one_file_and_one_type() {
    static FILES: &[(&str, &str)] = &[("hosts", "YQ==\n"), ("other", "Yg==\n")];
    let load = "alert http any any -> any any (http.host; dataset:isset,a,type string,load hosts; sid:1;)\n";
    for (other, part) in [
        (
            "http.host; dataset:isset,a,type string,load other;",
            "two files or types",
        ),
        (
            "http.host; dataset:isset,a,type md5;",
            "values of another type",
        ),
        (
            "http.host; content:\"a\"; ip.src; dataset:isnotset,a;",
            "values of another type",
        ),
    ] {
        let rules = format!("{load}alert http any any -> any any ({other} sid:2;)");
        let error = refused(with(&rules), FILES).to_string();
        assert!(error.contains(part), "{other}: {error}");
        // Where rules may be left out, these are, and the warning says why.
        let settings = Settings {
            unsupported: OnUnsupported::Skip,
            ..with(&rules)
        };
        let builder = Harness::builder().with_sources::<Ids>(settings, &mut Files(FILES));
        let builder = builder.unwrap();
        let warning = builder.warnings()[0].to_string();
        assert!(
            warning.contains(part) && warning.contains("left out"),
            "{warning}"
        );
    }
    // A file of hashes has no name.
    let hashes = "alert http any any -> any any (filemd5:a; sid:1;)\n\
                  alert http any any -> any any (http.host; dataset:isset,a; sid:2;)";
    let error = refused(with(hashes), &[("a", "")]).to_string();
    assert!(error.contains("no rule says where"), "{error}");
}

const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\nHost: bad.example\r\nUser-Agent: curl\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";

/// Signatures of a request and its response.
fn http(settings: Settings, files: &'static [(&'static str, &'static str)]) -> Vec<u64> {
    let builder = Harness::builder().with_sources::<Ids>(settings, &mut Files(files));
    let mut harness = builder.unwrap().build();
    let mut connection = Connection::open(&mut harness);
    connection.up(&mut harness, REQUEST);
    connection.down(&mut harness, RESPONSE);
    let mut told = sids(&mut harness);
    told.sort_unstable();
    told.dedup();
    told
}

#[test]
fn values_are_looked_up_in_files() {
    static FILES: &[(&str, &str)] = &[
        ("sets/hosts", "# hosts\nYmFkLmV4YW1wbGU=\n"),
        ("sets/md5", "900150983cd24fb0d6963f7d28e17f72  abc.txt\n"),
        ("sets/scores", "Y3VybA==,300\n"),
        ("sets/addresses", "10.0.0.1\n2001:db8::1\n"),
        (
            "sets/x.rules",
            r#"alert http any any -> any any (http.host; dataset:isset,hosts,type string,load hosts; sid:1;)
alert http any any -> any any (http.user_agent; dataset:isset,hosts; sid:2;)
alert http any any -> any any (http.user_agent; dataset:isnotset,hosts; sid:3;)
alert http any any -> any any (filemd5:md5; sid:4;)
alert http any any -> any any (filemd5:!md5; sid:5;)
alert http any any -> any any (http.user_agent; datarep:agents,>,200,load scores,type string; sid:6;)
alert http any any -> any any (http.user_agent; datarep:agents,<,200,load scores,type string; sid:7;)
alert http any any -> any any (http.host; content:"bad"; ip.src; dataset:isset,ips,type ip,load addresses; sid:8;)
alert http any any -> any any (http.host; content:"bad"; ip.dst; dataset:isset,ips; sid:9;)
alert http any any -> any any (http.host; content:"bad"; iprep:src,BadHosts,>,50; sid:10;)
alert http any any -> any any (http.host; content:"bad"; iprep:dst,BadHosts,>,50; sid:11;)
alert http any any -> any any (http.host; content:"bad"; iprep:any,CnC,=,7; sid:12;)
alert http any any -> any any (http.host; content:"bad"; iprep:both,CnC,=,7; sid:13;)
"#,
        ),
        ("categories", "1,BadHosts,those\n2,CnC,these\n"),
        (
            "reputations",
            "10.0.0.0/24,1,60\n192.0.2.1,1,40\n192.0.2.0/24,2,7\n",
        ),
    ];
    let settings = Settings {
        rule_files: vec!["sets/x.rules".to_owned()],
        reputation_categories: vec!["categories".to_owned()],
        reputation_files: vec!["reputations".to_owned()],
        ..Settings::default()
    };
    assert_eq!(http(settings, FILES), [1, 3, 4, 6, 8, 10, 12]);
}

#[test]
fn faults_of_files_are_told() {
    static FILES: &[(&str, &str)] = &[("bad", "\n?\n")];
    let rule = |options: &str| {
        with(&format!(
            "alert tcp any any -> any any (sid:1;)\nalert http any any -> any any (http.host; {options} sid:2;)"
        ))
    };
    for (options, parts) in [
        (
            "dataset:isset,a,type string,load missing;",
            ["no such file", "rules:2"],
        ),
        (
            "dataset:isset,a,type string,load bad;",
            ["bad:2: `?` is not in base 64", "rules:2"],
        ),
        ("dataset:isset,a;", ["no rule says where", "rules:2"]),
        (
            "dataset:isset,a,load bad;",
            ["a type is missing", "type string"],
        ),
        ("dataset:isset,a,type ip,load bad;", ["needs `ip.src`", ""]),
        (
            "content:\"a\"; ip.src; dataset:isset,a,type string,load bad;",
            ["values are addresses", ""],
        ),
        (
            "content:\"a\"; ip.src;",
            ["nothing is asked of `ip.src`", ""],
        ),
        (
            "content:\"a\"; ip.src; content:\"b\";",
            ["does not look at addresses", ""],
        ),
        (
            "dataset:set,a,type string;",
            ["unsupported keyword `dataset", ""],
        ),
        (
            "content:\"a\"; iprep:src,Bad,>,1;",
            ["needs files of reputations", "rules:2"],
        ),
        ("content:\"a\"; iprep:src,Bad,>;", ["it has four parts", ""]),
        (
            "datarep:a,>,70000,type string,load bad;",
            ["above 65535", ""],
        ),
    ] {
        let error = format!("{:?}", refused(rule(options), FILES));
        let line = parts[1].split_once(':').map(|(_, line)| line);
        assert!(error.contains(parts[0]), "{options}: {error}");
        if let Some(line) = line.filter(|_| parts[1].starts_with("rules:")) {
            assert!(
                error.contains(&format!("(\"rules\", {line}, 1)")),
                "{options}: {error}"
            );
        }
    }
}

#[test]
fn faults_of_reputations_are_told() {
    static FILES: &[(&str, &str)] = &[
        ("categories", "1,BadHosts,those\n"),
        ("scores", "1.2.3.4,1,999\n"),
    ];
    let rule = |options: &str| {
        with(&format!(
            "alert http any any -> any any (http.host; {options} sid:2;)"
        ))
    };
    let files = Settings {
        reputation_categories: vec!["categories".to_owned()],
        reputation_files: vec!["scores".to_owned()],
        ..rule("content:\"a\"; iprep:src,Other,>,1;")
    };
    let error = refused(files.clone(), FILES).to_string();
    assert!(error.contains("scores up to 127"), "{error}");
    let files = Settings {
        reputation_files: Vec::new(),
        ..files
    };
    let error = refused(files, FILES).to_string();
    assert!(error.contains("no category `Other`"), "{error}");
}
