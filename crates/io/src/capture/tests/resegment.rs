//! The streams of resegmented captures are those of the originals.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use proptest::prelude::*;

use super::super::tcp_segment::{Endpoint, FIN, RST, SYN, Segment, URG};
use super::super::{OwnedRecord, ResegmentOptions, resegment};
use super::{read_all, traces};
use crate::generator::check::{checksums_hold, lengths_hold};

const CATEGORIES: [&str; 8] = [
    "a-mixed",
    "b-http",
    "c-malformed",
    "d-encap",
    "e-mptcp",
    "f-ipv6",
    "g-format",
    "h-attack",
];

type Direction = (Endpoint, Endpoint);

/// Each byte of each direction of a capture as (sequence number, byte), first come first kept.
fn streams(records: &[OwnedRecord]) -> BTreeMap<Direction, BTreeMap<u32, u8>> {
    let mut streams: BTreeMap<Direction, BTreeMap<u32, u8>> = BTreeMap::new();
    for record in records {
        let Some(segment) = Segment::find(record.dlt, &record.data) else {
            continue;
        };
        let stream = streams
            .entry((segment.source, segment.destination))
            .or_default();
        for (sequence, byte) in (0u32..).zip(segment.payload()) {
            let sequence = segment.sequence().wrapping_add(sequence);
            stream.entry(sequence).or_insert(*byte);
        }
    }
    streams
}

/// Segments of each flow that come before one of an earlier sequence number.
fn displaced(records: &[OwnedRecord]) -> BTreeMap<[Endpoint; 2], u32> {
    let mut ends: BTreeMap<Direction, u32> = BTreeMap::new();
    let mut displaced: BTreeMap<[Endpoint; 2], u32> = BTreeMap::new();
    for record in records {
        let Some(segment) = Segment::find(record.dlt, &record.data) else {
            continue;
        };
        let length = segment.payload().len() as u32;
        let end = segment.sequence().wrapping_add(length);
        let highest = ends
            .entry((segment.source, segment.destination))
            .or_insert(end);
        if length > 0 && end.wrapping_sub(*highest) as i32 > 0 {
            *highest = end;
        } else if length > 0 && (segment.sequence().wrapping_sub(*highest) as i32) < 0 {
            let mut flow = [segment.source, segment.destination];
            flow.sort_unstable();
            *displaced.entry(flow).or_default() += 1;
        }
    }
    displaced
}

fn load(name: &str) -> Option<Vec<OwnedRecord>> {
    let file = fs::read(traces()?.join("traces").join(name)).unwrap();
    let (records, error) = read_all(&file);
    assert!(error.is_none(), "{error:?}");
    Some(records)
}

fn cuttable(record: &OwnedRecord) -> bool {
    Segment::find(record.dlt, &record.data).is_some_and(|segment| {
        !segment.payload().is_empty() && segment.flags() & (SYN | RST | URG) == 0
    })
}

#[test]
fn streams_of_all_traces_stay_the_same() {
    let Some(folder) = traces() else { return };
    let mut compared = 0;
    for category in CATEGORIES {
        for entry in fs::read_dir(folder.join("traces").join(category)).unwrap() {
            let path = entry.unwrap().path();
            let (records, _) = read_all(&fs::read(&path).unwrap());
            let before = streams(&records);
            if before.values().all(BTreeMap::is_empty) || records.len() > 2_000 {
                continue;
            }
            let cut = resegment(&records, &ResegmentOptions::default(), compared);
            assert_eq!(streams(&cut), before, "{}", path.display());
            let kept: BTreeSet<_> = records
                .iter()
                .filter(|r| !cuttable(r))
                .map(|r| &r.data)
                .collect();
            for record in &cut {
                if kept.contains(&record.data) {
                    continue;
                }
                let segment = Segment::find(record.dlt, &record.data).unwrap();
                assert!((1..=14).contains(&segment.payload().len()));
                assert!(
                    checksums_hold(record.dlt, &record.data),
                    "{}",
                    path.display()
                );
                assert!(lengths_hold(record.dlt, &record.data), "{}", path.display());
            }
            let in_order = |records: &[OwnedRecord]| records.is_sorted_by_key(|r| r.time_ns);
            assert!(in_order(&cut) || !in_order(&records), "{}", path.display());
            compared += 1;
        }
    }
    assert!(compared > 200, "{compared}");
}

#[test]
fn packets_without_payload_stay_in_place() {
    let Some(records) = load("b-http/zeek__206_example_c.pcap") else {
        return;
    };
    let cut = resegment(&records, &ResegmentOptions::default(), 7);
    let others = |records: &[OwnedRecord]| -> Vec<OwnedRecord> {
        records
            .iter()
            .filter(|record| !cuttable(record))
            .cloned()
            .collect()
    };
    assert_eq!(others(&cut), others(&records));
    assert!(cut.len() > records.len() * 10);
}

#[test]
fn knobs_turn_disturbances_off_and_bound_them() {
    let Some(records) = load("b-http/zeek__pipelined-requests.pcap") else {
        return;
    };
    let size = |records: &[OwnedRecord]| -> usize {
        let payload =
            |r: &OwnedRecord| Segment::find(r.dlt, &r.data).map_or(0, |s| s.payload().len());
        records.iter().map(payload).sum()
    };
    assert!(displaced(&records).is_empty(), "a capture in order");

    let plain = resegment(&records, &ResegmentOptions::cut_only(), 1);
    assert_eq!(size(&plain), size(&records), "nothing twice");
    assert!(displaced(&plain).is_empty());
    let sizes: BTreeSet<usize> = plain
        .iter()
        .filter(|record| cuttable(record))
        .filter_map(|record| Some(Segment::find(record.dlt, &record.data)?.payload().len()))
        .collect();
    assert_eq!(sizes, (1..=7).collect());

    let some = ResegmentOptions {
        displaced_percent: 30,
        max_displaced_per_flow: 20,
        max_distance: 1,
        ..ResegmentOptions::cut_only()
    };
    let some = displaced(&resegment(&records, &some, 1));
    assert_eq!(some.values().copied().collect::<Vec<_>>(), [20]);

    let twice = ResegmentOptions {
        duplicate_percent: 50,
        ..ResegmentOptions::cut_only()
    };
    let ratio = size(&resegment(&records, &twice, 1)) * 100 / size(&records);
    assert!((140..160).contains(&ratio), "{ratio}");
    let lap = ResegmentOptions {
        overlap_percent: 100,
        ..ResegmentOptions::cut_only()
    };
    let ratio = size(&resegment(&records, &lap, 1)) * 100 / size(&records);
    assert!((180..210).contains(&ratio), "{ratio}");

    let again = ResegmentOptions::default();
    assert_eq!(
        resegment(&records, &again, 5),
        resegment(&records, &again, 5)
    );
    assert_ne!(
        resegment(&records, &again, 5),
        resegment(&records, &again, 6)
    );
}

#[test]
fn fin_stays_last_and_a_stream_without_syn_keeps_its_beginning() {
    for name in ["b-http/zeek__get_nosyn.pcap", "b-http/zeek__get.pcap"] {
        let Some(records) = load(name) else { return };
        let options = ResegmentOptions {
            displaced_percent: 90,
            ..Default::default()
        };
        for seed in 0..50 {
            let cut = resegment(&records, &options, seed);
            let mut firsts: BTreeMap<Direction, u32> = BTreeMap::new();
            let mut begun = BTreeSet::new();
            let mut finished: BTreeMap<Direction, u32> = BTreeMap::new();
            for record in &cut {
                let segment = Segment::find(record.dlt, &record.data).unwrap();
                let direction = (segment.source, segment.destination);
                let end = segment
                    .sequence()
                    .wrapping_add(segment.payload().len() as u32);
                if segment.flags() & SYN != 0 {
                    begun.insert(direction);
                    continue;
                }
                if segment.flags() & FIN != 0 {
                    finished.entry(direction).or_insert(end);
                }
                if let Some(last) = finished.get(&direction) {
                    assert!(end.wrapping_sub(*last) as i32 <= 1);
                }
                if !begun.contains(&direction) && !segment.payload().is_empty() {
                    let first = firsts.entry(direction).or_insert(segment.sequence());
                    assert!(
                        segment.sequence().wrapping_sub(*first) as i32 >= 0,
                        "{name} {seed}"
                    );
                }
            }
            assert!(!finished.is_empty());
        }
    }
}

proptest! {
    #[test]
    fn noise_is_left_alone_or_cut_without_panic(
        mut data in proptest::collection::vec(any::<u8>(), 0..200),
        dlt in prop_oneof![Just(0), Just(1), Just(101), Just(113), Just(276)],
        plausible: bool,
        seed: u64,
    ) {
        if plausible && data.len() > 60 {
            data[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
            data[16..18].copy_from_slice(&[0, 50]);
            data[20..22].copy_from_slice(&[0, 0]);
            data[23] = 6;
            data[46] = 0x50;
        }
        let record = OwnedRecord { time_ns: 1, wire_len: 200, dlt, interface: 0, data };
        let cut = resegment(&[record.clone(), record], &ResegmentOptions::default(), seed);
        prop_assert!(cut.len() >= 2);
    }
}
