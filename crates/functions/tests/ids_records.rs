//! Records of real captures do not depend on where flows are, nor on how their streams are cut.
//!
//! The captures are those in the folder of shared traces; without it the tests are skipped.

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use weir_functions::ids::{AlertField, FileHash, Ids, RecordKind, Settings};
use weir_io::capture::{OwnedRecord, ResegmentOptions, resegment};
use weir_nf::host::Stage;
use weir_runtime::harness::Harness;

/// Records, each with how often it is there.
type Records = BTreeMap<String, usize>;

/// This capture lacks packets of the client. A gap is given up after a number of packets, so that cuts decide whether a
/// response comes before the requests behind the gap.
const LOSES_PACKETS: &str = "zeek__zero-length-bodies-with-drops";
/// Captures up to this many bytes are taken.
const LONGEST: u64 = 300 << 10;

/// Captures with their names.
fn captures() -> Option<Vec<(String, Vec<OwnedRecord>)>> {
    let mut folders = vec![support::traces()?];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).ok()? {
            let path = entry.ok()?.path();
            let length = path.metadata().ok()?.len();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "pcap") && length < LONGEST {
                files.push(path);
            }
        }
    }
    files.sort();
    let capture = |path: &PathBuf| (path.display().to_string(), support::load(path));
    Some(files.iter().map(capture).collect())
}

fn stage(records: &[RecordKind]) -> Stage {
    let rules = [
        r#"alert http any any -> any any (http.stat_code; content:"200"; sid:1;)"#,
        r#"alert http any any -> any any (http.method; content:"GET"; sid:2;)"#,
        r#"alert dns any any -> any any (dns.query; content:"."; sid:3;)"#,
        r#"alert tls any any -> any any (tls.sni; content:"."; sid:4;)"#,
    ];
    Harness::builder()
        .with::<Ids>(Settings {
            rules: rules.join("\n"),
            records: records.to_vec(),
            file_hashes: vec![FileHash::Sha256],
            alert_fields: vec![AlertField::App],
            ..Settings::default()
        })
        .expect("the settings are right")
        .flows(support::inner_flows())
        .stage()
}

/// Counts events without their times and packet numbers.
fn counted(events: Vec<Value>) -> Records {
    let mut records = Records::new();
    for mut event in events {
        let Some(fields) = event.as_object_mut() else {
            panic!("{event}");
        };
        for name in ["timestamp", "pcap_cnt", "flow_id"] {
            fields.remove(name);
        }
        *records.entry(event.to_string()).or_default() += 1;
    }
    records
}

const TRANSACTIONS: [RecordKind; 7] = [
    RecordKind::Http,
    RecordKind::Dns,
    RecordKind::Tls,
    RecordKind::Ssh,
    RecordKind::Smtp,
    RecordKind::Ftp,
    RecordKind::Fileinfo,
];

fn compare(kinds: &[RecordKind], least: usize, run: impl Fn(&Stage, &[OwnedRecord]) -> Vec<Value>) {
    let Some(captures) = captures() else { return };
    let stage = stage(kinds);
    let (mut all, mut wrong) = (0, Vec::new());
    for (name, packets) in &captures {
        if name.contains(LOSES_PACKETS) {
            continue;
        }
        let plain = counted(support::run(&mut Harness::of_stage(&stage), packets));
        all += plain.values().sum::<usize>();
        let other = counted(run(&stage, packets));
        let differs = |of: &Records, than: &Records| -> Vec<String> {
            let records = of
                .iter()
                .filter(|(record, count)| than.get(*record) != Some(count));
            records
                .map(|(record, count)| format!("{count} x {record}"))
                .collect()
        };
        let (lacks, has) = (differs(&plain, &other), differs(&other, &plain));
        if !lacks.is_empty() || !has.is_empty() {
            wrong.push(format!("{name} lacks {lacks:#?}, has {has:#?}"));
        }
    }
    println!("{all} records in {} captures", captures.len());
    let count = wrong.len();
    assert!(wrong.is_empty(), "{count} captures: {}", wrong.join("\n"));
    assert!(all >= least, "{all} records");
}

#[test]
fn records_do_not_depend_on_moves() {
    compare(&TRANSACTIONS, 1_000, support::run_moving);
}

#[test]
fn records_do_not_depend_on_segments() {
    for seed in [1, 2] {
        compare(&TRANSACTIONS, 1_000, |stage, packets| {
            let packets = resegment(packets, &ResegmentOptions::default(), seed);
            support::run(&mut Harness::of_stage(stage), &packets)
        });
    }
}
