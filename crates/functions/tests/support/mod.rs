//! Captures for tests: where they are, how they run through a chain.

// Each test file uses a part of this.
#![allow(dead_code)]

pub(crate) mod settings;

use std::fs::File;
use std::path::{Path, PathBuf};

use weir_io::capture::{CaptureReader, OwnedRecord};
use weir_nf::host::{FlowOptions, OnMalformed, Timeouts};
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
        // Straight to standard error: the harness keeps what a passed test prints.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"SKIPPED: no folder of captures (../shared/traces or WEIR_TRACES)\n",
        );
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

/// A TCP connection made by hand.
pub(crate) struct Talk {
    client: &'static str,
    server: &'static str,
    next: [u32; 2],
}

impl Talk {
    /// With its handshake.
    pub(crate) fn open(harness: &mut Harness, client: &'static str, server: &'static str) -> Talk {
        use weir_runtime::harness::Craft;
        let packets = [
            Craft::tcp(client, server).flags("S").seq(999),
            Craft::tcp(server, client).flags("SA").seq(4_999).ack(1_000),
            Craft::tcp(client, server).flags("A").seq(1_000).ack(5_000),
        ];
        for packet in packets {
            harness.send(&packet.build());
        }
        Talk {
            client,
            server,
            next: [1_000, 5_000],
        }
    }

    /// A segment of the next bytes; gives whether it came out.
    pub(crate) fn say(&mut self, harness: &mut Harness, from_server: bool, bytes: &[u8]) -> bool {
        use weir_runtime::harness::Craft;
        let (from, to) = if from_server {
            (self.server, self.client)
        } else {
            (self.client, self.server)
        };
        let side = usize::from(from_server);
        let packet = Craft::tcp(from, to)
            .flags("PA")
            .seq(self.next[side])
            .ack(self.next[1 - side])
            .payload(bytes)
            .build();
        self.next[side] = self.next[side].wrapping_add(bytes.len() as u32);
        !harness.send(&packet).is_empty()
    }

    /// Leaves bytes out, as if lost.
    pub(crate) fn lose(&mut self, from_server: bool, count: u32) {
        let side = usize::from(from_server);
        self.next[side] = self.next[side].wrapping_add(count);
    }

    /// Both directions close.
    pub(crate) fn close(&mut self, harness: &mut Harness) {
        use weir_runtime::harness::Craft;
        for (from, to, side) in [(self.client, self.server, 0), (self.server, self.client, 1)] {
            let packet = Craft::tcp(from, to)
                .flags("FA")
                .seq(self.next[side])
                .ack(self.next[1 - side])
                .build();
            harness.send(&packet);
            self.next[side] += 1;
        }
    }
}

/// The events so far, parsed.
pub(crate) fn events(harness: &mut Harness) -> Vec<serde_json::Value> {
    let parse = |line: &String| {
        serde_json::from_str(line).unwrap_or_else(|e| panic!("not JSON: {e}: {line}"))
    };
    harness.events().iter().map(parse).collect()
}

/// Sends all packets through two engines; every tenth packet all flows move from one to the other.
pub(crate) fn run_moving(
    stage: &weir_nf::host::Stage,
    packets: &[OwnedRecord],
) -> Vec<serde_json::Value> {
    let mut here = Harness::of_stage(stage);
    let mut there = Harness::of_stage(stage);
    let mut lines = Vec::new();
    for packets in packets.chunks(10) {
        for packet in packets {
            here.set_time(Time(packet.time_ns));
            here.queue_link(Side::Inside, LinkType::from_dlt(packet.dlt), &packet.data);
        }
        here.flush();
        lines.extend(here.events());
        for record in 0..here.runtime().flow_records() {
            let Some(flow) = here.runtime().open_flow(record) else {
                continue;
            };
            let bytes = here.runtime().export(&flow.key).expect("the flow is there");
            assert!(here.runtime().forget(&flow.key));
            there
                .runtime()
                .install(&bytes)
                .unwrap_or_else(|error| panic!("{error}"));
        }
        std::mem::swap(&mut here, &mut there);
    }
    here.finish();
    there.finish();
    lines.extend(here.events());
    lines.extend(there.events());
    let value = |line: String| serde_json::from_str(&line).unwrap();
    lines.into_iter().map(value).collect()
}

/// Flows in tunnels, too, with malformed packets and room for what rules look back at.
pub(crate) fn inner_flows() -> FlowOptions {
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
