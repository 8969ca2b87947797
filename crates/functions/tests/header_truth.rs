//! Monitor, IP check and TTL over all real captures, against what other tools say of them.

mod support;

use std::collections::BTreeMap;
use std::fs;

use support::{load, run, traces};
use weir_functions::ip_check::{IpCheck, OnBad, Settings as CheckSettings};
use weir_functions::monitor::{Monitor, Settings as MonitorSettings};
use weir_functions::size_histogram::{Settings as SizeSettings, SizeHistogram};
use weir_nf::host::{FlowOptions, OnMalformed, Timeouts};
use weir_packet::IcmpKey;
use weir_runtime::harness::Harness;

/// A chain that passes every packet on and keeps flows as the truth defines them: by the
/// outermost header, for ever.
fn harness() -> Harness {
    let flows = FlowOptions {
        zone: false,
        icmp: IcmpKey::Addresses,
        malformed: OnMalformed::Pass,
        timeouts: Timeouts::NONE,
        ..FlowOptions::default()
    };
    let check = CheckSettings {
        on_bad: OnBad::Count,
        ..CheckSettings::default()
    };
    Harness::builder()
        .with::<IpCheck>(check)
        .unwrap()
        .with::<SizeHistogram>(SizeSettings::default())
        .unwrap()
        .with::<Monitor>(MonitorSettings::default())
        .unwrap()
        .flows(flows)
        .build()
}

/// What may disagree: trace, column, why.
const KNOWN: &[(&str, &str, &str)] = &[
    (
        "c-malformed/tcpdump__bad-ipv4-version-pgm-heapoverflow.pcap",
        "flows",
        "the header's version is wrong; the other tool makes a flow of it all the same",
    ),
    (
        "c-malformed/tcpdump__ipv6_39_byte_header.pcap",
        "flows",
        "the header is cut in its last address",
    ),
    (
        "c-malformed/tcpdump__ipv6_invalid_length.pcap",
        "flows",
        "the header is cut in its addresses",
    ),
    (
        "c-malformed/pcapflowlab__18_eoip_truncated_inner_vlan.pcap",
        "tags",
        "a tag inside a tunnel, which this chain does not open",
    ),
    (
        "d-encap/zeek__cisco-fabric-path.pcap",
        "flows",
        "eight flows fewer here; not explained yet",
    ),
    (
        "g-format/pcapng-test-generator__output_be-advanced-test102.pcapng",
        "bytes",
        "the sum there takes in records that are no packets",
    ),
    (
        "g-format/pcapng-test-generator__output_le-difficult-test202.pcapng",
        "bytes",
        "the sum there takes in records that are no packets",
    ),
];

/// Captures with later fragments whose first one is missing: these wait in the engine, and are
/// dropped there in the end.
const MOST_WITH_LOST_FRAGMENTS: usize = 8;

#[test]
fn checksums_tags_packets_and_bytes_are_those_of_tshark() {
    let Some(folder) = traces() else { return };
    let table = fs::read_to_string(folder.join("truth/summary.tsv")).unwrap();
    let mut lines = table.lines();
    let names: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let column = |name: &str| names.iter().position(|n| *n == name).unwrap();
    let (packets, bytes) = (column("packets"), column("captured_bytes"));
    let flows = column("flows_bidir");
    let (sums, tags) = (column("bad_ip_csum"), column("vlan_ids"));
    let (mut seen, mut with_lost, mut differ) = (0, 0, Vec::new());
    for line in lines {
        let fields: Vec<&str> = line.split('\t').collect();
        let trace = fields[0];
        let number = |column: usize| fields[column].parse::<u64>().unwrap_or(0);
        let mut harness = harness();
        let records = load(&folder.join("traces").join(trace));
        let mut events = run(&mut harness, &records);
        events.retain(|event| event["flow"]["reason"] != "active");
        let report = harness.report();
        let mut complain = |what: &str, ours: String, theirs: String| {
            let known = |(name, column, _): &(&str, &str, &str)| *name == trace && *column == what;
            if ours != theirs && !KNOWN.iter().any(known) {
                differ.push(format!("{trace}: {what}: {ours} here, {theirs} there"));
            }
        };
        let count = |name: &str| harness.counter("monitor", name);
        complain(
            "packets",
            report.packets_in.to_string(),
            number(packets).to_string(),
        );
        assert_eq!(
            count("packets") + report.dropped(),
            report.packets_in,
            "{trace}"
        );
        seen += 1;
        if report.dropped() != 0 {
            with_lost += 1;
            continue;
        }
        complain(
            "bytes",
            count("bytes").to_string(),
            number(bytes).to_string(),
        );
        complain(
            "flows",
            report.flows.seen.to_string(),
            number(flows).to_string(),
        );
        let bad = harness.counter("ip-check", "bad_checksum");
        complain("bad checksums", bad.to_string(), number(sums).to_string());
        let ours: BTreeMap<String, u64> = report.functions[2]
            .tally
            .iter()
            .map(|(name, count)| (name.trim_start_matches("vlan.").to_owned(), *count))
            .collect();
        let theirs: BTreeMap<String, u64> = fields[tags]
            .split(',')
            .filter_map(|one| one.split_once(':'))
            .map(|(id, count)| (id.to_owned(), count.parse().unwrap()))
            .collect();
        complain("tags", format!("{ours:?}"), format!("{theirs:?}"));
        // What the functions say of one capture agrees with each other.
        let sizes: u64 = report.functions[1].counters.iter().map(|(_, n)| n).sum();
        assert_eq!(sizes, count("packets"), "{trace}");
        let records_of = |way: &str| {
            let of = |event: &serde_json::Value| event["flow"][way].as_u64().unwrap();
            events.iter().map(of).sum::<u64>()
        };
        assert_eq!(
            events.len() as u64,
            report.flows.seen,
            "{trace}: a record per flow"
        );
        let in_flows = records_of("pkts_toserver") + records_of("pkts_toclient");
        assert!(in_flows <= count("packets"), "{trace}");
    }
    assert!(with_lost <= MOST_WITH_LOST_FRAGMENTS, "{with_lost}");
    assert!(seen > 500, "the folder has {seen} captures");
    assert!(
        differ.is_empty(),
        "{} differ:\n{}",
        differ.len(),
        differ.join("\n")
    );
    println!("{seen} captures agree");
}
