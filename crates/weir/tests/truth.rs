//! `examples/count.yaml` and `examples/http.yaml` over all real captures, against what other
//! tools found in them. docs/truth.md says why the rest differs.

mod support;

use std::collections::BTreeMap;

use serde_json::Value;
use support::{example, number, run, summary, traces};

/// Captures whose truth differs for a reason of docs/truth.md, and the column.
const KNOWN: &[(&str, &str)] = &[
    (
        "c-malformed/tcpdump__bad-ipv4-version-pgm-heapoverflow.pcap",
        "flows",
    ),
    ("c-malformed/tcpdump__ipv6_39_byte_header.pcap", "flows"),
    ("c-malformed/tcpdump__ipv6_invalid_length.pcap", "flows"),
    ("c-malformed/ndpi__fuzz-2006-06-26-2594.pcap", "flows"),
    ("d-encap/zeek__cisco-fabric-path.pcap", "flows"),
    (
        "c-malformed/pcapflowlab__18_eoip_truncated_inner_vlan.pcap",
        "vlan_ids",
    ),
];

/// VLAN tags by id, as the summary of a run and the truth have them.
fn vlans(of_run: &Value) -> BTreeMap<String, u64> {
    let tally = of_run
        .pointer("/nfs/monitor/tally")
        .and_then(Value::as_object);
    tally
        .into_iter()
        .flatten()
        .filter_map(|(name, n)| Some((name.strip_prefix("vlan.")?.to_owned(), n.as_u64()?)))
        .collect()
}

fn true_vlans(text: &str) -> BTreeMap<String, u64> {
    text.split(',')
        .filter_map(|pair| pair.split_once(':'))
        .map(|(id, n)| (id.to_owned(), n.parse().unwrap()))
        .collect()
}

#[test]
fn packets_flows_checksums_and_vlans_are_those_of_the_truth() {
    let Some(traces) = traces() else { return };
    let rows = summary(&traces);
    let chain = example("count.yaml");
    let mut wrong: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for row in &rows {
        let name = &row["trace"];
        let path = traces.join("traces").join(name).display().to_string();
        // Less memory than the example's for two million flows: it is given back each time.
        let args = ["run", &chain, "--in", &path, "--set", "flows.max=50000"];
        let ran = run(args.iter().chain(&["--quiet", "--output", "json"]));
        assert_eq!(ran.code, 0, "{name}: {}", ran.err);
        let found = ran.json();
        support::conserved(&found);
        assert_eq!(
            found["packets_out"], found["packets_in"],
            "{name}: counting takes no packet away: {found}"
        );
        let truth = |column: &str| row[column].parse::<u64>().unwrap();
        let columns = [
            ("packets", number(&found, "/packets_in"), truth("packets")),
            ("flows", number(&found, "/flows"), truth("flows_bidir")),
            (
                "bad_ip_csum",
                number(&found, "/nfs/ip-check/counters/bad_checksum"),
                truth("bad_ip_csum"),
            ),
        ];
        let mut differs = |column, found: String, expected: String| {
            println!("{name}: {column}: {found}, and {expected} in truth");
            wrong.entry(column).or_default().push(name.clone());
        };
        for (column, found, expected) in columns {
            if found != expected {
                differs(column, found.to_string(), expected.to_string());
            }
        }
        let (found, expected) = (vlans(&found), true_vlans(&row["vlan_ids"]));
        if found != expected {
            differs("vlan_ids", format!("{found:?}"), format!("{expected:?}"));
        }
    }
    println!("{} captures; differing: {wrong:?}", rows.len());
    assert!(rows.len() > 500, "only {} captures", rows.len());
    for (column, names) in &wrong {
        assert!(
            names.len() * 100 <= rows.len(),
            "{column} differs in {} of {} captures: {names:?}",
            names.len(),
            rows.len()
        );
        for name in names {
            assert!(
                KNOWN.contains(&(name, column)),
                "{name} ({column}) is not in docs/truth.md"
            );
        }
    }
}

/// How often a request (method, URI) was seen.
type Requests = BTreeMap<(String, String), u32>;

fn true_requests(path: &std::path::Path) -> Requests {
    let mut requests = Requests::new();
    let text = std::fs::read(path).unwrap_or_default();
    for row in String::from_utf8_lossy(&text).lines().skip(1) {
        let columns: Vec<&str> = row.split('\t').collect();
        // Rows without a TCP stream are SSDP over UDP.
        if columns[1].is_empty() {
            continue;
        }
        // Frames that complete several requests have them joined by `|`.
        let methods: Vec<&str> = columns[8].split('|').collect();
        let uris: Vec<&str> = match methods.len() {
            1 => vec![columns[10]],
            _ => columns[10].split('|').collect(),
        };
        for (method, uri) in methods.iter().zip(uris) {
            *requests
                .entry(((*method).to_owned(), uri.to_owned()))
                .or_default() += 1;
        }
    }
    requests
}

#[test]
fn http_requests_are_those_of_the_truth() {
    let Some(traces) = traces() else { return };
    let rows = summary(&traces);
    let folder = support::Folder::new();
    let events = folder.path("http.json");
    let chain = example("http.yaml");
    let mut wrong = Vec::new();
    for row in &rows {
        let name = &row["trace"];
        let path = traces.join("traces").join(name).display().to_string();
        // Events are appended: those of an earlier run are not this one's.
        let _ = std::fs::remove_file(&events);
        let args = ["run", &chain, "--in", &path, "--events", &events];
        let ran =
            run(args
                .iter()
                .chain(&["--quiet", "--set", "flows.max=50000", "--output", "json"]));
        assert_eq!(ran.code, 0, "{name}: {}", ran.err);
        let mut found = Requests::new();
        for event in support::events(&events) {
            let http = &event["http"];
            if let (Some(method), Some(url)) = (http["http_method"].as_str(), http["url"].as_str())
            {
                *found
                    .entry((method.to_owned(), url.to_owned()))
                    .or_default() += 1;
            }
        }
        let list = format!("truth/http/{}.tsv", name.replacen('/', "_", 1));
        let expected = true_requests(&traces.join(list));
        if found != expected {
            println!(
                "{name}: {} requests, and {} in truth",
                found.values().sum::<u32>(),
                expected.values().sum::<u32>()
            );
            wrong.push(name.clone());
        }
    }
    println!(
        "HTTP differs in {} of {}: {wrong:?}",
        wrong.len(),
        rows.len()
    );
    assert!(rows.len() > 500, "only {} captures", rows.len());
    assert!(
        wrong.len() * 100 <= rows.len() * 3,
        "HTTP differs in {} of {}: {wrong:?}",
        wrong.len(),
        rows.len()
    );
}
