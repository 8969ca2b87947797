//! Real captures against what tshark says about them: flows, VLAN ids, bad IPv4 checksums.

mod capture;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use capture::Packet;
use weir_packet::checksum::{Verdict, check_ipv4};
use weir_packet::vlan::Tags;
use weir_packet::{
    IcmpKey, KeyOptions, KeyOutcome, LinkType, Malformed, ParseOptions, flow_key, parse,
};

/// What is compared.
#[derive(Debug, PartialEq, Eq)]
struct Facts {
    packets: usize,
    flows: usize,
    later_fragments: usize,
    vlan_ids: BTreeMap<u16, usize>,
    bad_checksums: usize,
}

/// What weir sees, by the definitions of the truth: the outermost header, no zone, ICMP by its
/// addresses, whatever can still be read of a damaged packet.
fn facts(packets: &[Packet], faults: &mut BTreeMap<&'static str, usize>) -> Facts {
    let outermost = ParseOptions {
        lenient: true,
        ..Default::default()
    };
    let innermost = ParseOptions {
        inner: true,
        ..outermost
    };
    let options = KeyOptions {
        icmp: IcmpKey::Addresses,
        ..Default::default()
    };
    let mut flows = BTreeSet::new();
    let mut facts = Facts {
        packets: packets.len(),
        flows: 0,
        later_fragments: 0,
        vlan_ids: BTreeMap::new(),
        bad_checksums: 0,
    };
    for Packet { link, bytes } in packets {
        match parse(bytes, *link, &outermost) {
            Ok(headers) => {
                if let Some(fault) = headers.damage() {
                    *faults.entry(fault.reason()).or_default() += 1;
                }
                match flow_key(bytes, &headers, &options) {
                    KeyOutcome::Flow(key, _) => {
                        flows.insert(key);
                    }
                    KeyOutcome::LaterFragment(_) => facts.later_fragments += 1,
                    KeyOutcome::None => {}
                }
                if check_ipv4(bytes, &headers) == Verdict::Bad {
                    facts.bad_checksums += 1;
                }
            }
            Err(fault) => *faults.entry(fault.reason()).or_default() += 1,
        }
        // tshark counts the tags of frames inside tunnels too.
        if *link == LinkType::Ethernet {
            let inside = parse(bytes, *link, &innermost).map_or(0, |h| h.l2);
            let outer = Tags::of_ethernet(bytes, 0);
            let inner = (inside > 0).then(|| Tags::of_ethernet(bytes, inside.into()));
            for (_, tag) in outer.chain(inner.into_iter().flatten()) {
                *facts.vlan_ids.entry(tag.id).or_default() += 1;
            }
        }
    }
    facts.flows = flows.len();
    facts
}

/// The rows of `truth/summary.tsv`: trace and facts.
fn truth(path: &Path) -> Vec<(String, Facts)> {
    let text = std::fs::read_to_string(path).expect("summary.tsv");
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().expect("a heading").split('\t').collect();
    let column = |name| {
        names
            .iter()
            .position(|n| *n == name)
            .expect("a known column")
    };
    let [trace, packets, flows, later, vlans, bad] = [
        "trace",
        "packets",
        "flows_bidir",
        "noninit_frags",
        "vlan_ids",
        "bad_ip_csum",
    ]
    .map(column);
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let number = |at: usize| fields[at].parse().expect("a number");
            let vlan_ids = fields[vlans]
                .split(',')
                .filter(|pair| !pair.is_empty())
                .map(|pair| {
                    let (id, count) = pair.split_once(':').expect("id:count");
                    (id.parse().expect("an id"), count.parse().expect("a count"))
                })
                .collect();
            let facts = Facts {
                packets: number(packets),
                flows: number(flows),
                later_fragments: number(later),
                vlan_ids,
                bad_checksums: number(bad),
            };
            (fields[trace].to_owned(), facts)
        })
        .collect()
}

#[test]
fn captures_are_seen_as_tshark_sees_them() {
    let Some(folder) = capture::traces() else {
        return;
    };
    let truth = truth(&folder.join("truth/summary.tsv"));
    assert!(truth.len() > 400, "the truth lists {} traces", truth.len());
    let mut wrong: BTreeMap<&str, usize> = BTreeMap::new();
    let mut faults = BTreeMap::new();
    let mut packets = 0;
    for (trace, expected) in &truth {
        let seen_packets = capture::read(&folder.join("traces").join(trace));
        let mut own = BTreeMap::new();
        let seen = facts(&seen_packets, &mut own);
        packets += seen.packets;
        let mut report = String::new();
        let mut compare = |what, same: bool, seen: String, expected: String| {
            *wrong.entry(what).or_default() += usize::from(!same);
            if !same {
                let _ = write!(report, " {what} {seen} (tshark {expected})");
            }
        };
        macro_rules! compare {
            ($($field:ident),+) => {
                $(compare(
                    stringify!($field),
                    seen.$field == expected.$field,
                    format!("{:?}", seen.$field),
                    format!("{:?}", expected.$field),
                );)+
            };
        }
        compare!(packets, flows, later_fragments, vlan_ids, bad_checksums);
        if !report.is_empty() {
            eprintln!("{trace}:{report}; faults {own:?}");
        }
        for (fault, count) in own {
            *faults.entry(fault).or_insert(0) += count;
        }
    }
    eprintln!(
        "{} traces, {packets} packets; traces that differ: {wrong:?}",
        truth.len()
    );
    eprintln!("faults: {faults:?}");
    for (what, count) in wrong {
        assert!(
            count * 100 <= truth.len(),
            "{what} differs in {count} of {} traces",
            truth.len()
        );
    }
}

/// Every packet of every capture, cut at every length, opened or not: nothing panics.
#[test]
fn cut_captures_never_panic() {
    let Some(folder) = capture::traces() else {
        return;
    };
    let strict = ParseOptions::default();
    let mut reasons: BTreeSet<Malformed> = BTreeSet::new();
    for (trace, _) in truth(&folder.join("truth/summary.tsv")) {
        let mut packets = capture::read(&folder.join("traces").join(&trace));
        packets.truncate(40);
        for Packet { link, bytes } in &packets {
            for length in 0..bytes.len().min(200) {
                let cut = &bytes[..length];
                for options in [
                    strict,
                    ParseOptions {
                        inner: true,
                        ..strict
                    },
                ] {
                    let lenient = ParseOptions {
                        lenient: true,
                        ..options
                    };
                    let result = parse(cut, *link, &options);
                    let passed = parse(cut, *link, &lenient);
                    match result {
                        // Lenience changes nothing about a packet without fault.
                        Ok(headers) => assert_eq!(passed, Ok(headers), "{trace}"),
                        Err(fault) => {
                            reasons.insert(fault);
                            if let Ok(headers) = passed {
                                assert_eq!(headers.damage(), Some(fault), "{trace}");
                            }
                        }
                    }
                    if let Ok(headers) = passed {
                        assert!(headers.end as usize <= length, "{trace}");
                        let _ = flow_key(cut, &headers, &KeyOptions::default());
                    }
                }
            }
        }
    }
    eprintln!("reasons met: {reasons:?}");
    assert!(reasons.len() > 15);
}
