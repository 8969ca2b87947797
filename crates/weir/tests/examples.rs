//! Every example over its capture.

mod support;

use std::collections::BTreeMap;

use serde_json::Value;
use support::{Folder, capture, events, example, number, packets, run_json, sum};

/// Examples and the captures that they run over.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("bump.yaml", &["web.pcap"]),
    ("monitor.yaml", &["mixed.pcapng"]),
    ("count.yaml", &["mixed.pcapng"]),
    ("http.yaml", &["web.pcap"]),
    ("ids.yaml", &["attack.pcap"]),
    (
        "nat.yaml",
        &["inside=nat-inside.pcap", "outside=nat-outside.pcap"],
    ),
    ("webedge.yaml", &["attack.pcap"]),
    ("office.yaml", &["attack.pcap"]),
    (
        "edge.yaml",
        &["lan=edge-inside.pcap", "wan=edge-outside.pcap"],
    ),
    (
        "edge-router.yaml",
        &["lan=edge-inside.pcap", "wan=edge-outside.pcap"],
    ),
    ("router.yaml", &["lan=nat-inside.pcap"]),
    ("branch.yaml", &["mixed.pcapng"]),
    ("two-chains.yaml", &["mixed.pcapng"]),
    ("tenant.yaml", &["web.pcap"]),
    ("sets.yaml", &["mixed.pcapng"]),
];

/// Runs an example over its captures; gives the summary and the events.
fn run_example(name: &str, folder: &Folder, extra: &[&str]) -> (Value, Vec<Value>) {
    let (_, inputs) = EXAMPLES.iter().find(|e| e.0 == name).unwrap();
    let file = folder.path("events.json");
    // Events are appended: an earlier run of the test may have left some.
    let _ = std::fs::remove_file(&file);
    let mut args = vec!["--events".to_owned(), file.clone()];
    for input in *inputs {
        let port = match input.split_once('=') {
            Some((port, file)) => format!("{port}={}", capture(file)),
            None => capture(input),
        };
        args.extend(["--in".to_owned(), port]);
    }
    args.extend(extra.iter().map(|arg| (*arg).to_owned()));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let summary = run_json(&example(name), &args);
    (summary, events(&file))
}

fn kinds(events: &[Value]) -> BTreeMap<&str, usize> {
    let mut kinds = BTreeMap::new();
    for event in events {
        *kinds
            .entry(event["event_type"].as_str().unwrap())
            .or_default() += 1;
    }
    kinds
}

fn of_kind<'e>(events: &'e [Value], kind: &'e str) -> impl Iterator<Item = &'e Value> {
    events.iter().filter(move |e| e["event_type"] == kind)
}

#[test]
fn there_is_a_test_for_each_example() {
    let mut there: Vec<String> = std::fs::read_dir(support::root().join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".yaml"))
        .collect();
    there.sort();
    let mut known: Vec<&str> = EXAMPLES.iter().map(|e| e.0).collect();
    // Compositions, which `up.rs` runs and `coordinator.rs` applies.
    known.extend(["cluster.yaml", "hosts.yaml"]);
    known.sort_unstable();
    assert_eq!(there, known);
}

#[test]
fn summaries_have_what_programs_rely_on() {
    let folder = Folder::new();
    for (name, inputs) in EXAMPLES {
        let (summary, _) = run_example(name, &folder, &[]);
        for key in [
            "packets_in",
            "packets_out",
            "bytes_in",
            "bytes_out",
            "emitted",
            "held",
            "flows",
        ] {
            assert!(summary[key].is_u64(), "{name}: {key}: {summary}");
        }
        for key in ["elapsed_s", "ns_per_packet"] {
            assert!(
                summary[key].as_f64().unwrap() > 0.0,
                "{name}: {key}: {summary}"
            );
        }
        for key in ["drops", "malformed"] {
            sum(&summary, &format!("/{key}"));
        }
        let nfs = summary["nfs"].as_object().unwrap();
        assert!(!nfs.is_empty(), "{name}");
        for (nf, counts) in nfs {
            for key in ["packets", "bytes", "cycles"] {
                assert!(counts[key].is_u64(), "{name}: {nf}: {key}: {counts}");
            }
            assert!(counts["counters"].is_object(), "{name}: {nf}");
        }
        let (mut all, mut bytes) = (0, 0);
        for input in *inputs {
            let file = input.rsplit('=').next().unwrap();
            let (list, cut) = packets(&capture(file));
            assert_eq!(cut, None, "{file}");
            all += list.len() as u64;
            bytes += list.iter().map(|p| p.data.len() as u64).sum::<u64>();
        }
        assert_eq!(number(&summary, "/packets_in"), all, "{name}");
        assert_eq!(number(&summary, "/bytes_in"), bytes, "{name}");
        assert!(number(&summary, "/flows") > 0, "{name}: {summary}");
    }
}

#[test]
fn every_example_checks_without_a_warning() {
    for (name, _) in EXAMPLES {
        let ran = support::run(["check", &example(name)]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{name}");
        let described = ran.out.lines().any(|line| line.starts_with("chain "));
        assert!(described, "{name}: {}", ran.out);
    }
}

/// Names as in Suricata's eve.json.
#[test]
fn events_have_the_names_of_eve() {
    let folder = Folder::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (name, _) in EXAMPLES {
        let (summary, events) = run_example(name, &folder, &[]);
        let told: u64 = summary["chains"]
            .as_object()
            .unwrap()
            .values()
            .map(|chain| chain["events"].as_u64().unwrap())
            .sum();
        assert_eq!(told, events.len() as u64, "{name}");
        for event in &events {
            let kind = event["event_type"].as_str().unwrap();
            let timestamp = event["timestamp"].as_str().unwrap();
            // As in 2026-11-21T01:38:05.232613+0000.
            assert_eq!(timestamp.len(), 31, "{event}");
            assert!(timestamp.ends_with("+0000") && timestamp.contains('T'));
            // An asset has one address, and a mapping that ends has no other end.
            let ends = kind != "asset" && event["nat"]["event"] != "delete";
            for key in ["src_ip", "dest_ip"].iter().filter(|_| ends) {
                let text = event[key].as_str().unwrap_or_else(|| panic!("{event}"));
                assert!(text.parse::<std::net::IpAddr>().is_ok(), "{event}");
            }
            if kind != "asset" {
                // Of a mapping that ends no flow is left.
                let about = if ends { "flow_id" } else { "unit_id" };
                assert!(event[about].is_u64() && event["proto"].is_string());
            }
            assert!(event[kind].is_object(), "no `{kind}` in {event}");
            *seen.entry(kind.to_owned()).or_default() += 1;
        }
    }
    for kind in ["alert", "asset", "drop", "flow", "http", "nat"] {
        assert!(seen.contains_key(kind), "no {kind} event: {seen:?}");
    }
}

#[test]
fn monitor_adds_up() {
    let folder = Folder::new();
    let (summary, events) = run_example("monitor.yaml", &folder, &[]);
    let counters = &summary["nfs"]["monitor"]["counters"];
    assert_eq!(counters["packets"], summary["packets_in"]);
    let kinds = kinds(&events);
    assert_eq!(kinds["flow"] as u64, number(&summary, "/flows"));
    // Packets of flows are those of IP; what is not IP is in no flow.
    let in_flows: u64 = of_kind(&events, "flow")
        .map(|e| number(e, "/flow/pkts_toserver") + number(e, "/flow/pkts_toclient"))
        .sum();
    let ip = number(counters, "/ipv4") + number(counters, "/ipv6");
    assert_eq!(in_flows, ip, "{summary}");
    assert!(kinds["asset"] > 5, "{kinds:?}");
}

#[test]
fn count_finds_vlans_and_touches_nothing() {
    let folder = Folder::new();
    let out = folder.path("out.pcapng");
    let (summary, events) = run_example("count.yaml", &folder, &["--out", &out]);
    assert!(events.is_empty());
    let tally = &summary["nfs"]["monitor"]["tally"];
    for vlan in ["vlan.100", "vlan.101", "vlan.200", "vlan.300"] {
        assert_eq!(tally[vlan], 4, "{summary}");
    }
    assert_eq!(
        number(&summary, "/nfs/ip-check/counters/bad_checksum"),
        0,
        "the captures were recorded with checksums computed"
    );
    let data =
        |path: &str| -> Vec<Vec<u8>> { packets(path).0.into_iter().map(|p| p.data).collect() };
    assert_eq!(data(&out), data(&capture("mixed.pcapng")));
}

#[test]
fn http_sees_each_request_with_its_answer() {
    let folder = Folder::new();
    let (summary, events) = run_example("http.yaml", &folder, &[]);
    let mut lines: Vec<String> = of_kind(&events, "http")
        .map(|e| {
            let http = &e["http"];
            let text = |key: &str| http[key].as_str().unwrap_or("-").to_owned();
            format!(
                "{} {} {} {}",
                text("http_method"),
                text("hostname"),
                text("url"),
                http["status"]
            )
        })
        .collect();
    lines.sort();
    let expected = [
        "GET 198.51.100.11 /small.txt 200",
        "GET www.example.com /large.bin 200",
        "GET www.example.com /medium.txt 200",
        "GET www.example.com /medium.txt 206",
        "GET www.example.com /missing.txt 404",
        "GET www.example.com /old 301",
        "GET www.example.com /page.html 200",
        "GET www.example.com /page.html 200",
        "GET www.example.com /page.html 200",
        "GET www.example.com /search?q=flow+state 200",
        "GET www.example.com /small.txt 200",
        "GET www.example.com /small.txt 200",
        "HEAD www.example.com /page.html 200",
        "POST www.example.com /login 302",
    ];
    assert_eq!(lines, expected);
    let tally = &summary["nfs"]["url-counter"]["tally"];
    assert_eq!(tally["www.example.com/page.html"], 4, "{summary}");
}

#[test]
fn ids_finds_the_attacks_and_no_more() {
    let folder = Folder::new();
    let (_, events) = run_example("ids.yaml", &folder, &[]);
    let mut sids: BTreeMap<u64, u32> = BTreeMap::new();
    for alert in of_kind(&events, "alert") {
        *sids
            .entry(number(alert, "/alert/signature_id"))
            .or_default() += 1;
    }
    let expected = [
        (1_000_001, 1),
        (1_000_002, 2),
        (1_000_101, 1),
        (1_000_102, 1),
        (1_000_103, 1),
        (1_000_104, 1),
        (1_000_106, 1),
    ];
    assert_eq!(sids, expected.into());
}

/// The packets that go to the clients are the answers of the capture, with the addresses that
/// the clients know, and right checksums.
#[test]
fn nat_takes_every_answer_back_to_its_client() {
    let folder = Folder::new();
    let (lan, wan) = (folder.path("lan.pcap"), folder.path("wan.pcap"));
    let outputs = [format!("inside={lan}"), format!("outside={wan}")];
    let (summary, events) = run_example(
        "nat.yaml",
        &folder,
        &["--out", &outputs[0], "--out", &outputs[1]],
    );
    assert_eq!(sum(&summary, "/drops"), 0, "{summary}");
    let sent = packets(&capture("nat-inside.pcap")).0;
    let answers = packets(&capture("nat-outside.pcap")).0;
    let (to_clients, to_servers) = (packets(&lan).0, packets(&wan).0);
    assert_eq!(
        (to_clients.len(), to_servers.len()),
        (answers.len(), sent.len())
    );
    for packet in &to_servers {
        assert_eq!(packet.data[26..30], [203, 0, 113, 1], "source");
    }
    let mut clients = [0; 3];
    for (packet, before) in to_clients.iter().zip(&answers) {
        assert_eq!(packet.time_ns, before.time_ns);
        let [10, 0, 1, client @ 11..=13] = packet.data[30..34] else {
            panic!("to {:?}", &packet.data[30..34]);
        };
        clients[usize::from(client) - 11] += 1;
    }
    assert!(clients.iter().all(|n| *n > 5), "{clients:?}");
    // Checked by another function, over transport checksums as well.
    let strict = folder.write(
        "strict.yaml",
        "chain: strict\nnfs:\n  - ip-check: {transport: true}\n",
    );
    for file in [&lan, &wan] {
        let summary = run_json(&strict, &["--in", file]);
        assert_eq!(sum(&summary, "/drops"), 0, "{file}: {summary}");
    }
    // Three clients, one source port: three external ports, the first one kept.
    let mut ports: Vec<u64> = of_kind(&events, "nat")
        .filter(|e| e["nat"]["event"] == "create" && e["nat"]["internal_port"] == 40_000)
        .map(|e| number(e, "/nat/external_port"))
        .collect();
    assert_eq!((ports.len(), ports[0]), (3, 40_000), "{ports:?}");
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 3, "{ports:?}");
    let ends = of_kind(&events, "nat").filter(|e| e["nat"]["event"] == "delete");
    assert_eq!(
        ends.count() as u64,
        number(&summary, "/nfs/nat44/counters/created")
    );
}

#[test]
fn a_tenants_function_reads_what_is_for_it() {
    let folder = Folder::new();
    let (summary, events) = run_example("tenant.yaml", &folder, &[]);
    let process = &summary["processes"][0];
    assert_eq!(process["trusted"], false, "{summary}");
    assert_eq!(process["died"], 0, "{summary}");
    // As many requests as the operator's own reader finds.
    let (_, own) = run_example("http.yaml", &folder, &[]);
    assert!(kinds(&own)["http"] > 0);
    assert_eq!(kinds(&events)["http"], kinds(&own)["http"], "{summary}");
}

#[test]
fn webedge_stops_the_attacks_and_serves_the_rest() {
    let folder = Folder::new();
    let (summary, events) = run_example("webedge.yaml", &folder, &[]);
    let alerts: Vec<&Value> = of_kind(&events, "alert").collect();
    assert_eq!(alerts.len(), 7, "{alerts:#?}");
    for alert in &alerts {
        assert_eq!(alert["alert"]["action"], "blocked");
        assert_eq!(alert["src_ip"], "10.0.1.12", "the attacker");
    }
    // 48 ports were tried, two of them let in; one connection gets one event.
    assert_eq!(of_kind(&events, "drop").count(), 46);
    assert!(number(&summary, "/drops/firewall.denied") >= 46);
    assert!(number(&summary, "/drops/url-validator.blocked") >= 7);
}

#[test]
fn edge_does_it_all_at_once() {
    let folder = Folder::new();
    let (lan, wan) = (folder.path("lan.pcap"), folder.path("wan.pcap"));
    let outputs = [format!("lan={lan}"), format!("wan={wan}")];
    let (summary, events) = run_example(
        "edge.yaml",
        &folder,
        &["--out", &outputs[0], "--out", &outputs[1]],
    );
    // Telnet and mail with their answers, and two strangers.
    assert_eq!(number(&summary, "/drops/firewall.denied"), 6, "{summary}");
    assert_eq!(sum(&summary, "/drops"), 6, "{summary}");
    let kinds = kinds(&events);
    assert_eq!((kinds["http"], kinds["drop"]), (5, 6), "{kinds:?}");
    let sids: Vec<u64> = of_kind(&events, "alert")
        .map(|e| number(e, "/alert/signature_id"))
        .collect();
    assert_eq!(sids, [1_000_001, 1_000_101]);
    // Clients see the virtual address only, servers the public one only.
    for packet in &packets(&lan).0 {
        if packet.data[23] == 6 {
            assert_eq!(packet.data[26..30], [203, 0, 113, 80]);
        }
        assert_eq!(packet.data[30..33], [10, 0, 1]);
    }
    for packet in &packets(&wan).0 {
        assert_eq!(packet.data[26..30], [203, 0, 113, 1]);
        assert_eq!(packet.data[30..34], [198, 51, 100, 11]);
    }
}

#[test]
fn branch_sorts_packets() {
    let folder = Folder::new();
    let (summary, _) = run_example("branch.yaml", &folder, &[]);
    let packets = |name: &str| number(&summary, &format!("/nfs/{name}/packets"));
    assert!(packets("url-counter") > 20 && packets("slow") > 20);
    assert_eq!(
        packets("url-counter") + packets("slow"),
        packets("http-classifier")
    );
    assert_eq!(
        packets("everything") + number(&summary, "/nfs/slow/dropped"),
        packets("ip-check")
    );
}

#[test]
fn two_chains_share_the_packets() {
    let folder = Folder::new();
    let (summary, _) = run_example("two-chains.yaml", &folder, &[]);
    let of = |chain: &str| number(&summary, &format!("/chains/{chain}/packets_in"));
    assert_eq!(
        of("web") + of("names") + of("rest"),
        number(&summary, "/packets_in")
    );
    assert_eq!(of("names"), 12, "six questions, six answers: {summary}");
    assert_eq!(number(&summary, "/nfs/web.http/counters/requests"), 2);
}

/// Seeds decide hashes and nothing that is seen from outside.
#[test]
fn the_seed_changes_no_result() {
    let folder = Folder::new();
    for name in ["http.yaml", "webedge.yaml", "monitor.yaml", "count.yaml"] {
        let result = |seed: &str| {
            let (mut summary, mut events) = run_example(name, &folder, &["--seed", seed]);
            for key in ["elapsed_s", "ns_per_packet", "seed", "chains"] {
                summary.as_object_mut().unwrap().remove(key);
            }
            for nf in summary["nfs"].as_object_mut().unwrap().values_mut() {
                let nf = nf.as_object_mut().unwrap();
                nf.remove("cycles");
                nf.remove("cycles_per_packet");
            }
            // Flows that end together do so in the order of the table.
            events.sort_by_key(Value::to_string);
            (summary, events)
        };
        assert_eq!(result("1"), result("2"), "{name}");
    }
}

#[test]
fn sets_decide_on_both_ends() {
    let folder = Folder::new();
    let (summary, _) = run_example("sets.yaml", &folder, &[]);
    let tally = &summary["nfs"]["firewall"]["tally"];
    for (rule, connections) in [("blocked", 5), ("to-blocked", 1), ("names", 6)] {
        assert_eq!(tally[rule], connections, "{tally}");
    }
    assert_eq!(number(&summary, "/drops/firewall.denied"), 40);
}
