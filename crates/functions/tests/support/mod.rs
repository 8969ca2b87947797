//! Captures for tests: where they are, how they run through a chain.

// Each test file uses a part of this.
#![allow(dead_code)]

use std::fs::File;
use std::path::{Path, PathBuf};

use weir_io::capture::{CaptureReader, OwnedRecord};
use weir_nf::packet::{LinkType, Side, Time};
use weir_runtime::harness::Harness;

/// The folder of real captures; says so where it is missing.
pub(crate) fn traces() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let places = [
        Some(beside),
        std::env::var_os("WEIR_TRACES").map(PathBuf::from),
    ];
    let found = places
        .into_iter()
        .flatten()
        .find(|p| p.join("truth").is_dir());
    if found.is_none() {
        eprintln!("SKIPPED: no folder of captures (../shared/traces or WEIR_TRACES)");
    }
    found
}

/// All packets of a capture, as far as it can be read.
pub(crate) fn load(path: &Path) -> Vec<OwnedRecord> {
    let file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut packets = Vec::new();
    let mut reader = match CaptureReader::open(file) {
        Ok(reader) => reader,
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            return packets;
        }
    };
    loop {
        match reader.next() {
            Ok(Some(record)) => packets.push(record.into()),
            Ok(None) => return packets,
            Err(error) => {
                eprintln!("{}: {error}", path.display());
                return packets;
            }
        }
    }
}

/// Sends all packets through, ends the flows and gives the events.
pub(crate) fn run(harness: &mut Harness, packets: &[OwnedRecord]) -> Vec<serde_json::Value> {
    let mut events = Vec::new();
    let mut lines = |harness: &mut Harness| {
        for line in harness.events() {
            events.push(
                serde_json::from_str(&line).unwrap_or_else(|e| panic!("not JSON: {e}: {line}")),
            );
        }
    };
    for burst in packets.chunks(32) {
        for packet in burst {
            harness.set_time(Time(packet.time_ns));
            harness.queue_link(Side::Inside, LinkType::from_dlt(packet.dlt), &packet.data);
        }
        harness.flush();
        lines(harness);
    }
    harness.finish();
    lines(harness);
    assert_eq!(harness.runtime().events().lost(), 0, "events were lost");
    events
}
