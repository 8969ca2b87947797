//! Alerts of `ids` against those of Suricata, test by test, and again after
//! the streams of every capture were cut into other segments.

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_functions::ids::{Ids, Settings};
use weir_io::capture::{OwnedRecord, ResegmentOptions, resegment};
use weir_nf::host::{FlowOptions, OnMalformed, Timeouts};
use weir_runtime::harness::Harness;

/// Alerts per signature.
type Counts = BTreeMap<u64, u64>;

/// Keywords of rules that are not among those the IDS knows.
const UNKNOWN: [&str; 3] = ["uricontent", "pcre", "isdataat"];

/// Rules whose count is one of packets, so that it changes when packets are
/// cut; `None` stands for all rules of the test.
const COUNT_PACKETS: [(&str, Option<u64>); 4] = [
    // No handshake was seen: the content is looked for in single packets.
    ("alert-testmyids-not-established", None),
    // As before, and most of its rules hold for every packet.
    ("detect-flowbits", None),
    // No content: every packet that is established counts.
    ("like-ip-only-01", None),
    // `tcp-pkt`.
    ("tcp-split-handshake-02-5whs", Some(3)),
];

struct Case {
    name: String,
    settings: Settings,
    packets: Vec<OwnedRecord>,
    expected: Counts,
}

fn cases() -> Option<Vec<Case>> {
    let folder = support::traces()?.join("ids/suricata-verify");
    let Ok(index) = std::fs::read_to_string(folder.join("INDEX.tsv")) else {
        eprintln!("SKIPPED: no {}", folder.display());
        return None;
    };
    let mut cases = Vec::new();
    for row in index.lines().skip(1) {
        let columns: Vec<&str> = row.split('\t').collect();
        let [name, class, _, keywords, ..] = columns[..] else {
            panic!("INDEX.tsv: {row:?}");
        };
        if class != "A-core" || keywords.split(' ').any(|k| UNKNOWN.contains(&k)) {
            continue;
        }
        cases.push(case(&folder.join(name), name));
    }
    Some(cases)
}

fn case(folder: &Path, name: &str) -> Case {
    let text = std::fs::read_to_string(folder.join("expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    let arguments = expected["suricata_args"].to_string();
    let rules = std::fs::read_to_string(folder.join("test.rules")).unwrap();
    Case {
        name: name.to_owned(),
        settings: Settings {
            rules,
            midstream: arguments.contains("stream.midstream=true"),
            ..Settings::default()
        },
        packets: support::load(&input(folder)),
        expected: expected["observed_suricata_7_0_10"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(sid, count)| (sid.parse().unwrap(), count.as_u64().unwrap()))
            .collect(),
    }
}

fn input(folder: &Path) -> PathBuf {
    ["input.pcap", "input.pcapng"]
        .map(|name| folder.join(name))
        .into_iter()
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("no capture in {}", folder.display()))
}

fn options() -> FlowOptions {
    FlowOptions {
        max: 1 << 16,
        inner: true,
        malformed: OnMalformed::Pass,
        buffer_bytes: 64 << 20,
        timeouts: Timeouts {
            reuse: true,
            ..Timeouts::NONE
        },
        ..FlowOptions::default()
    }
}

fn alerts(settings: &Settings, packets: &[OwnedRecord]) -> Counts {
    let mut harness = Harness::builder()
        .with::<Ids>(settings.clone())
        .unwrap_or_else(|error| panic!("{error}"))
        .flows(options())
        .build();
    let mut counts = Counts::new();
    for event in support::run(&mut harness, packets) {
        assert_eq!(event["event_type"], "alert");
        let sid = event["alert"]["signature_id"].as_u64().unwrap();
        *counts.entry(sid).or_default() += 1;
    }
    assert_eq!(
        harness.counter("ids", "alerts"),
        counts.values().sum::<u64>()
    );
    counts
}

#[test]
fn alerts_are_those_of_suricata() {
    let Some(cases) = cases() else { return };
    let (mut right, all) = (0, cases.len());
    for case in &cases {
        let found = alerts(&case.settings, &case.packets);
        if found == case.expected {
            right += 1;
        } else {
            println!("{}: {found:?} instead of {:?}", case.name, case.expected);
        }
    }
    println!("{right} of {all} tests agree");
    assert_eq!((right, all), (24, 24));
}

#[test]
fn alerts_do_not_depend_on_segments() {
    let Some(cases) = cases() else { return };
    let (mut judged, mut wrong) = (0, 0);
    for case in &cases {
        let excluded = |sid: Option<u64>| COUNT_PACKETS.contains(&(case.name.as_str(), sid));
        if excluded(None) {
            continue;
        }
        let mut expected = case.expected.clone();
        expected.retain(|&sid, _| !excluded(Some(sid)));
        for seed in 0..20 {
            let options = ResegmentOptions::default();
            let packets = resegment(&case.packets, &options, seed);
            let mut found = alerts(&case.settings, &packets);
            found.retain(|&sid, _| !excluded(Some(sid)));
            judged += 1;
            if found != expected {
                wrong += 1;
                println!(
                    "{}, seed {seed}: {found:?} instead of {expected:?}",
                    case.name
                );
            }
        }
    }
    println!("{} of {judged} re-segmented captures agree", judged - wrong);
    assert_eq!(wrong, 0);
}
