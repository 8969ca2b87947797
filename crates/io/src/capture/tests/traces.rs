//! All shared captures against what tshark says about them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;

use super::super::CaptureReader;
use super::{read_all, traces};

/// Bytes of custom blocks, which tshark shows as frames of their own: the truth leaves them out of
/// the packets but has them in both sums of bytes.
const CUSTOM_BLOCKS: [(&str, u64); 2] = [
    (
        "pcapng-test-generator__output_be-advanced-test102.pcapng",
        24 + 60 + 32,
    ),
    (
        "pcapng-test-generator__output_le-difficult-test202.pcapng",
        24 + 60 + 32,
    ),
];

/// Gives at most a few bytes per call, as a pipe may.
struct Dripping<R>(R, usize);

impl<R: Read> Read for Dripping<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.1 = self.1 % 97 + 1;
        let most = self.1.min(buffer.len());
        self.0.read(buffer.get_mut(..most).unwrap())
    }
}

#[test]
fn packets_and_bytes_of_all_traces_are_those_of_tshark() {
    let Some(folder) = traces() else { return };
    let truth = fs::read_to_string(folder.join("truth/summary.tsv")).unwrap();
    let mut lines = truth.lines();
    let names: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let (mut compared, mut absent, mut wrong) = (0, 0, Vec::new());
    for line in lines {
        let row: BTreeMap<&str, &str> = names.iter().copied().zip(line.split('\t')).collect();
        let number = |name: &str| row[name].parse::<u64>().unwrap();
        let path = folder.join("traces").join(row["trace"]);
        let Ok(file) = fs::read(&path) else {
            absent += 1;
            continue;
        };
        let (records, error) = read_all(&file);
        let captured: u64 = records.iter().map(|record| record.data.len() as u64).sum();
        let wire: u64 = records
            .iter()
            .map(|record| u64::from(record.wire_len))
            .sum();
        let got = (records.len() as u64, captured, wire);
        let custom = CUSTOM_BLOCKS
            .iter()
            .find(|known| row["trace"].ends_with(known.0));
        let custom = custom.map_or(0, |known| known.1);
        let bytes = |name| number(name) - custom;
        let expected = (
            number("packets"),
            bytes("captured_bytes"),
            bytes("wire_bytes"),
        );
        if got != expected || error.is_some() {
            wrong.push(format!(
                "{}: {got:?}, not {expected:?}; {error:?}",
                row["trace"]
            ));
        }
        compared += 1;
    }
    assert!(compared > 500, "{compared} compared, {absent} absent");
    assert!(
        wrong.is_empty(),
        "{} of {compared}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    eprintln!("{compared} captures compared, {absent} absent");
}

#[test]
fn pcapng_generator_files_have_their_packets() {
    let Some(folder) = traces() else { return };
    let format = folder.join("traces/g-format");
    let mut seen = 0;
    for entry in fs::read_dir(format).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("pcapng-test-generator") {
            continue;
        }
        let file = fs::read(&path).unwrap();
        let (whole, error) = read_all(&file);
        assert!(error.is_none(), "{name}: {error:?}");
        assert!(!whole.is_empty(), "{name}");
        let mut reader = CaptureReader::open(Dripping(file.as_slice(), 0)).unwrap();
        for expected in &whole {
            let record = reader.next().unwrap().unwrap();
            assert_eq!(*expected, record.into(), "{name}");
        }
        assert!(reader.next().unwrap().is_none(), "{name}");
        assert_eq!(reader.packets(), whole.len() as u64);
        assert_eq!(reader.position(), file.len() as u64);
        seen += 1;
    }
    assert!(seen >= 6, "{seen}");
}

#[test]
fn time_beyond_2106_is_read() {
    let Some(folder) = traces() else { return };
    let file = fs::read(folder.join("traces/g-format/tcpdump__time_2107.pcapng")).unwrap();
    let (records, error) = read_all(&file);
    assert!(error.is_none(), "{error:?}");
    assert!(!records.is_empty());
    let y2106 = u64::from(u32::MAX) * 1_000_000_000;
    assert!(records.iter().all(|record| record.time_ns > y2106));
}

#[test]
fn interfaces_of_all_sections_are_told_apart() {
    let Some(folder) = traces() else { return };
    let path = "traces/g-format/zeek__pcapng-multi-interface.pcapng";
    let file = fs::read(folder.join(path)).unwrap();
    let mut reader = CaptureReader::open(file.as_slice()).unwrap();
    let mut used = std::collections::BTreeSet::new();
    while let Some(record) = reader.next().unwrap() {
        used.insert(record.interface);
    }
    assert!(used.len() > 1, "{used:?}");
    assert!(*used.last().unwrap() < reader.interfaces().len() as u32);
}
