use super::*;
use crate::{LinkType, ParseOptions, parse};

fn flow(text: &str, key: &FlowKey, client: Direction) -> bool {
    let filter: Filter = text
        .parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    filter.matches(&Facts::of_flow(key, client).facts())
}

fn web() -> (FlowKey, Direction) {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    FlowKey::new(
        address("10.0.0.9"),
        40_000,
        address("10.0.0.1"),
        80,
        6,
        0,
        0,
    )
}

#[test]
fn words_match_what_they_say() {
    let (key, client) = web();
    for (text, expected) in [
        ("", true),
        ("all", true),
        ("tcp", true),
        ("udp", false),
        ("proto 6", true),
        ("proto tcp", true),
        ("ip", true),
        ("ip6", false),
        ("arp", false),
        ("host 10.0.0.1", true),
        ("src host 10.0.0.1", false),
        ("dst host 10.0.0.1", true),
        ("dst 10.0.0.1", true),
        ("client host 10.0.0.9", true),
        ("server net 10.0.0.8/29", false),
        ("client net 10.0.0.8/29", true),
        ("port 80", true),
        ("port 1-79,81-39999", false),
        ("src port 40000", true),
        ("server port 80", true),
        ("client port 80", false),
        ("tcp port 80", true),
        ("udp port 80", false),
        ("vlan", false),
        ("id 7", false),
        ("chain web", false),
        ("not tcp", false),
        ("! udp", true),
        ("!udp", true),
        ("tcp and not port 80 or host 10.0.0.9", true),
        ("tcp and not (port 80 or host 10.0.0.9)", false),
        ("udp or tcp && port 80", true),
        ("udp || icmp", false),
        ("host 2001:db8::1", false),
        ("net ::/0", false),
        ("net 0.0.0.0/0", true),
    ] {
        assert_eq!(flow(text, &key, client), expected, "{text}");
    }
}

#[test]
fn a_word_matches_by_any_name() {
    let (key, client) = web();
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let (alias, from) = FlowKey::new(
        address("192.0.2.1"),
        1_024,
        address("10.0.0.1"),
        80,
        6,
        0,
        0,
    );
    let names = [Ends::of(&key, client), Ends::of(&alias, from)];
    let facts = Facts {
        names: &names,
        chain: Some("edge"),
        phase: Some("established"),
        id: Some(7),
        to_server: Some(true),
        ..Facts::default()
    };
    for (text, expected) in [
        ("client 192.0.2.1", true),
        ("client 10.0.0.9", true),
        ("not host 192.0.2.1", false),
        ("port 1024", true),
        ("chain edge and id 7 phase established", true),
        ("phase open", false),
        ("server host 192.0.2.1", false),
    ] {
        let filter: Filter = text.parse().unwrap();
        assert_eq!(filter.matches(&facts), expected, "{text}");
    }
    let back = Facts {
        to_server: Some(false),
        ..facts
    };
    let server: Filter = "server 10.0.0.9".parse().unwrap();
    assert!(server.matches(&back), "seen from the other side");
}

#[test]
fn packets_match_by_their_headers() {
    // UDP 10.0.0.1:1000 to 10.0.0.2:53, and an ICMP error from 10.0.0.3 about it.
    let udp = [
        0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, //
        0x03, 0xe8, 0x00, 0x35, 0, 8, 0, 0,
    ];
    let mut icmp = vec![
        0x45, 0, 0, 56, 0, 1, 0, 0, 64, 1, 0, 0, 10, 0, 0, 3, 10, 0, 0, 1, //
        3, 3, 0, 0, 0, 0, 0, 0,
    ];
    icmp.extend(udp);
    let matches = |text: &str, bytes: &[u8]| {
        let headers = parse(bytes, LinkType::RawIp, &ParseOptions::default()).unwrap();
        let filter: Filter = text.parse().unwrap();
        filter.matches_packet(bytes, &headers)
    };
    for (text, by_udp, by_icmp) in [
        ("udp port 53", true, true),
        ("icmp", false, true),
        ("src host 10.0.0.3", false, true),
        ("host 10.0.0.2", true, true),
        ("src port 1000", true, false),
        ("ip6 or vlan or arp", false, false),
        ("client host 10.0.0.1", false, false),
    ] {
        assert_eq!(matches(text, &udp), by_udp, "{text} of UDP");
        assert_eq!(matches(text, &icmp), by_icmp, "{text} of ICMP");
    }
}

#[test]
fn errors_say_where_and_what_to_write() {
    for (text, at, part) in [
        ("tcp and", 7, "here must be"),
        ("port", 4, "`port` needs a port"),
        ("port http", 5, "`http` is no port"),
        ("port 90-80", 5, "`90-80` is no port"),
        ("port 65536", 5, "is no port"),
        ("host", 4, "`host` needs an address"),
        ("host and tcp", 5, "`host` needs an address"),
        ("host example.org", 5, "is not a prefix"),
        ("net 10.0.0.1/8", 4, "write `10.0.0.0/8`"),
        ("10.0.0.1", 0, "write `host 10.0.0.1`"),
        ("tcp 80", 4, "write `port 80`"),
        ("(tcp", 0, "not closed"),
        ("tcp)", 3, "closes nothing"),
        ("tco", 0, "`tco` is not understood"),
        ("phase up", 6, "there are open, answered"),
        ("id x", 3, "no number of a flow"),
        ("proto x", 6, "is no protocol"),
        ("not", 3, "here must be"),
        ("src", 3, "`src` needs"),
    ] {
        let error = text.parse::<Filter>().unwrap_err();
        assert_eq!(error.at, at, "{text}: {error}");
        assert!(error.to_string().contains(part), "{text}: {error}");
    }
}

#[test]
fn it_is_bounded_whoever_writes_it() {
    for text in [
        "(".repeat(MOST_DEPTH + 1),
        "not ".repeat(MOST_DEPTH + 1),
        "tcp ".repeat(MOST_OPERATIONS),
        "x".repeat(MOST_TEXT + 1),
        "\u{0}\u{202e}é(".repeat(100),
    ] {
        assert!(text.parse::<Filter>().is_err());
    }
    // The deepest stack that can be written.
    let (key, client) = web();
    let deep = format!(
        "{}tcp{}",
        "udp or tcp and (".repeat(MOST_DEPTH),
        ")".repeat(MOST_DEPTH)
    );
    assert!(flow(&deep, &key, client));
    let deep = deep.replace("(tcp)", "(icmp)");
    assert!(!flow(&deep, &key, client));
}
