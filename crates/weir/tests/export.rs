//! Events for collectors, over real sockets, and read by another program (tshark).

mod support;
#[path = "support/tshark.rs"]
mod tshark;

use std::io::Read as _;
use std::net::{TcpListener, UdpSocket};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use support::{Folder, Ran, capture, example, run};
use tshark::{has_tshark, tshark};

/// A run of `monitor` over a capture with flows of both versions of IP, with events for these targets.
fn monitored(targets: &[&str]) -> Ran {
    let (chain, capture) = (example("monitor.yaml"), capture("mixed.pcapng"));
    let mut words = vec!["run", &chain, "--in", &capture, "--quiet"];
    for target in targets {
        words.extend(["--events", target]);
    }
    run(words)
}

/// Events of a file of this type; of all types without one.
fn events(path: &str, kind: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines
        .filter(|event: &Value| kind.is_empty() || event["event_type"] == kind)
        .collect()
}

/// The values of a field in all messages of a file, in their order.
fn all(ipfix: &str, field: &str) -> Vec<String> {
    let messages = tshark(ipfix, &[field]);
    let values = messages.iter().flat_map(|fields| fields[0].split(','));
    let values = values.filter(|value| !value.is_empty());
    values.map(str::to_owned).collect()
}

/// Takes one connection, and gives all that comes by it.
fn received(listener: TcpListener) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut octets = Vec::new();
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_to_end(&mut octets).unwrap();
        octets
    })
}

/// Another program reads in the messages what the lines say.
#[track_caller]
fn says_the_same(ipfix: &str, flows: &[Value]) {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "0".to_owned(),
        other => other.to_string(),
    };
    let told = |path: &str| -> Vec<String> {
        let values = flows.iter().map(|flow| flow.pointer(path));
        values
            .map(|value| text(value.unwrap_or(&Value::Null)))
            .collect()
    };
    let both = |[one, other]: [&str; 2]| -> Vec<String> {
        let pairs = told(one).into_iter().zip(told(other));
        pairs.flat_map(|(one, other)| [one, other]).collect()
    };
    assert_eq!(all(ipfix, "cflow.flow_id"), told("/flow_id"));
    assert_eq!(all(ipfix, "cflow.srcport"), told("/src_port"));
    assert_eq!(all(ipfix, "cflow.dstport"), told("/dest_port"));
    let octets = both(["/flow/bytes_toserver", "/flow/bytes_toclient"]);
    assert_eq!(all(ipfix, "cflow.layer2_octet_total_count"), octets);
    let packets = both(["/flow/pkts_toserver", "/flow/pkts_toclient"]);
    assert_eq!(all(ipfix, "cflow.permanent_packets"), packets);
    for (path, v4, v6) in [
        ("/src_ip", "cflow.srcaddr", "cflow.srcaddrv6"),
        ("/dest_ip", "cflow.dstaddr", "cflow.dstaddrv6"),
    ] {
        let (sixes, fours): (Vec<String>, Vec<String>) =
            told(path).into_iter().partition(|text| text.contains(':'));
        assert!(!sixes.is_empty() && !fours.is_empty());
        assert_eq!(all(ipfix, v4), fours);
        assert_eq!(all(ipfix, v6), sixes);
    }
}

#[test]
fn flows_in_a_file_are_read_by_another_program() {
    if !has_tshark() {
        return;
    }
    let folder = Folder::new();
    let (json, ipfix) = (folder.path("events.json"), folder.path("flows.ipfix"));
    let ran = monitored(&[&json, &format!("ipfix:{ipfix}")]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    says_the_same(&ipfix, &events(&json, "flow"));
}

/// Collectors receive the same records over UDP and TCP.
#[test]
fn flows_come_to_collectors() {
    if !has_tshark() {
        return;
    }
    let folder = Folder::new();
    let json = folder.path("events.json");
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    let listener = TcpListener::bind("[::1]:0").unwrap();
    let udp = format!("ipfix:udp:{}", datagrams.local_addr().unwrap());
    let tcp = format!("ipfix:tcp:{}", listener.local_addr().unwrap());
    let stream = received(listener);
    let ran = monitored(&[&json, &udp, &tcp]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let flows = events(&json, "flow");
    let stream = stream.join().unwrap();
    says_the_same(&folder.write("stream.ipfix", stream), &flows);
    // The socket has all of it: the run is over.
    datagrams.set_nonblocking(true).unwrap();
    let (mut all, mut one) = (Vec::new(), [0; 2_000]);
    while let Ok(octets) = datagrams.recv(&mut one) {
        assert!(octets <= 1_232, "{octets}");
        all.extend_from_slice(&one[..octets]);
    }
    says_the_same(&folder.write("datagrams.ipfix", all), &flows);
}

#[test]
fn mappings_of_a_nat_are_read_by_another_program() {
    if !has_tshark() {
        return;
    }
    let folder = Folder::new();
    let (json, ipfix) = (folder.path("events.json"), folder.path("nat.ipfix"));
    let (inside, outside) = (capture("nat-inside.pcap"), capture("nat-outside.pcap"));
    let ran = run([
        "run",
        &example("nat.yaml"),
        "--in",
        &format!("inside={inside}"),
        "--in",
        &format!("outside={outside}"),
        "--events",
        &json,
        "--events",
        &format!("ipfix:{ipfix}"),
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let mappings = events(&json, "nat");
    // IANA's numbers of NAT44 BIB create and delete.
    let what = mappings.iter().map(|event| match &event["nat"]["event"] {
        Value::String(text) if text == "create" => "8".to_owned(),
        _ => "9".to_owned(),
    });
    let what: Vec<String> = what.collect();
    assert!(what.contains(&"8".to_owned()) && what.contains(&"9".to_owned()));
    assert_eq!(all(&ipfix, "cflow.nat_event"), what);
    for (name, field) in [
        ("external_ip", "cflow.post_natsource_ipv4_address"),
        ("external_port", "cflow.post_naptsource_transport_port"),
    ] {
        let told = mappings.iter().map(|event| match &event["nat"][name] {
            Value::String(text) => text.clone(),
            number => number.to_string(),
        });
        assert_eq!(all(&ipfix, field), told.collect::<Vec<String>>());
    }
    // Flows are between them, which have the same elements for sources.
    let sources = events(&json, "").into_iter().map(|event| {
        let nat = event["nat"]["internal_ip"].as_str();
        nat.or(event["src_ip"].as_str()).unwrap().to_owned()
    });
    assert_eq!(
        all(&ipfix, "cflow.srcaddr"),
        sources.collect::<Vec<String>>()
    );
}

/// One message an event: in a datagram, or with its length before it.
#[test]
fn syslog_messages_come_to_collectors() {
    let folder = Folder::new();
    let json = folder.path("events.json");
    let datagrams = UdpSocket::bind("[::1]:0").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = format!("syslog:udp:{}", datagrams.local_addr().unwrap());
    let tcp = format!("syslog:tcp:{}", listener.local_addr().unwrap());
    let stream = received(listener);
    let ran = monitored(&[&json, &udp, &tcp]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let stream = String::from_utf8(stream.join().unwrap()).unwrap();
    let mut rest = stream.as_str();
    let mut one = [0; 65_536];
    let patience = Some(Duration::from_secs(10));
    datagrams.set_read_timeout(patience).unwrap();
    for line in std::fs::read_to_string(&json).unwrap().lines() {
        let octets = datagrams.recv(&mut one).unwrap();
        let message = std::str::from_utf8(&one[..octets]).unwrap();
        // Facility local5, informational: RFC 5424 §6.2.1.
        assert!(
            message.starts_with("<174>1 2026-11-21T01:38:0"),
            "{message}"
        );
        assert!(message.ends_with(&format!(" - {line}")), "{message}");
        assert_eq!(message.split(' ').nth(3), Some("weir"));
        let (length, after) = rest.split_once(' ').unwrap();
        let (message, after) = after.split_at(length.parse().unwrap());
        assert!(message.ends_with(&format!(" - {line}")), "{message}");
        rest = after;
    }
    assert_eq!(rest, "");
}

#[test]
fn a_collector_that_can_not_be_is_refused() {
    for (target, code, part) in [
        ("syslog:events", 2, "write syslog:udp:HOST[:PORT]"),
        ("ipfix:udp:127.0.0.1:x", 2, "no HOST[:PORT]"),
        (
            "syslog:tcp:127.0.0.1:1",
            1,
            "start the program that listens there first",
        ),
    ] {
        let ran = monitored(&[target]);
        assert_eq!(ran.code, code, "{}", ran.err);
        assert!(ran.err.contains(part), "{}", ran.err);
    }
}
