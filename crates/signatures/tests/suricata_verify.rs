//! The tests of Suricata's own suite that need nothing but what this crate knows: the same alerts per rule.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::capture;
use common::session::Run;
use common::traces::traces;
use weir_signatures::*;

/// What is needed of other crates: opening VXLAN, fragments and extension headers of IPv6.
const NOT_HERE: [&str; 4] = [
    "ipv6-hdr-keyword-02",
    "vxlan-decoder-02",
    "vxlan-decoder-07-arp",
    "ipv6-evasion__ipv6-malformed-fragments-36",
];

/// Tests of rules that Suricata reports twice for the same bytes, and weir once where a segment holds them.
const ONCE: [&str; 1] = ["detect-bytetest-02"];

/// The alerts per rule that `expected.json` says Suricata gave.
fn expected(folder: &Path) -> (BTreeMap<u32, usize>, bool) {
    let text = std::fs::read_to_string(folder.join("expected.json")).unwrap();
    let object = text
        .split("\"observed_suricata_7_0_10\": {")
        .nth(1)
        .unwrap()
        .split('}')
        .next()
        .unwrap();
    let counts = object
        .split(',')
        .filter(|entry| entry.contains(':'))
        .map(|entry| {
            let (sid, count) = entry.split_once(':').unwrap();
            (
                sid.trim().trim_matches('"').parse().unwrap(),
                count.trim().parse().unwrap(),
            )
        });
    let arguments = text
        .split("\"suricata_args\":")
        .nth(1)
        .unwrap()
        .split("upstream")
        .next()
        .unwrap();
    (
        counts.collect(),
        arguments.contains("stream.midstream=true"),
    )
}

#[test]
fn the_same_alerts_as_suricata() {
    let Some(traces) = traces() else {
        return;
    };
    let folder = traces.join("ids/suricata-verify");
    let index = std::fs::read_to_string(folder.join("INDEX.tsv")).unwrap();
    let (mut run, mut wrong, mut left_out) = (0, Vec::new(), Vec::new());
    for line in index.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let &[name, class, ..] = fields.as_slice() else {
            continue;
        };
        if class == "class" || NOT_HERE.contains(&name) {
            continue;
        }
        let folder = folder.join(name);
        let rules = std::fs::read_to_string(folder.join("test.rules")).unwrap();
        let skip = ParseOptions {
            unsupported: Unsupported::Skip,
            ..ParseOptions::default()
        };
        let parsed = parse_rules_with(&rules, &Variables::stock(), skip).unwrap();
        if !parsed.skipped.is_empty() {
            let names: Vec<&str> = parsed.skipped_by_name().into_keys().collect();
            left_out.push(format!("{name} {names:?}"));
            continue;
        }
        let set = RuleSet::compile(parsed.rules, CompileOptions::default()).unwrap();
        let (mut expected, midstream) = expected(&folder);
        let packets = capture::read(&folder.join("input.pcap"));
        if packets.is_empty() {
            left_out.push(format!("{name} (no pcap)"));
            continue;
        }
        for cut in [usize::MAX, 1, 3, 7] {
            let mut state = Run::new(&set, midstream, cut);
            for packet in &packets {
                state.packet(packet);
            }
            state.finish();
            if ONCE.contains(&name) {
                // Suricata reports the same bytes in the packet and in the stream.
                state.alerts.values_mut().for_each(|count| *count = 1);
                expected.values_mut().for_each(|count| *count = 1);
            }
            if state.alerts != expected {
                wrong.push(format!(
                    "{name}, cut {cut}: {:?} instead of {expected:?}",
                    state.alerts
                ));
            }
        }
        run += 1;
    }
    eprintln!("{run} tests of suricata-verify, left out: {left_out:#?}");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(run >= 34, "{run}");
}
