//! An engine under a switch, fed by hand.
#![allow(dead_code, unreachable_pub, missing_docs)]

use weir_nf::host::{FlowOptions, Stage};
use weir_nf::prelude::*;
use weir_packet::{Disposition, FrameMeta, FramePool, LinkType, MemoryLayout, frame_flags};
use weir_runtime::harness::{Craft, Harness};
use weir_runtime::notes::{self, Note};
use weir_runtime::{Runtime, RuntimeConfig};

use crate::common::Probe;

/// The view that all packets carry.
pub const VIEW: u64 = 0x1_0000_0007;

/// A packet as a switch sends it.
#[derive(Clone, Debug)]
pub struct Numbered {
    pub unit: u64,
    pub clock: u64,
    pub time_ms: u64,
    pub flags: u8,
    pub side: Side,
    pub bytes: Vec<u8>,
}

/// One frame of an entry, in words that can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Out(Vec<u8>),
    Dropped,
    Turned(Vec<u8>, Side),
    Applied,
    Emitted(Vec<u8>, Side),
    Notes(Vec<String>),
}

/// What one packet caused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub unit: u64,
    pub clock: u64,
    pub parts: Vec<Part>,
}

impl Entry {
    pub fn notes(&self) -> Vec<String> {
        let notes = self.parts.iter().filter_map(|part| match part {
            Part::Notes(notes) => Some(notes.clone()),
            _ => None,
        });
        notes.flatten().collect()
    }
}

#[derive(Debug)]
pub struct Follower {
    pub engine: Runtime,
    pub pool: FramePool,
}

fn describe(note: &Note<'_>) -> String {
    match note {
        Note::Event(line) => String::from_utf8_lossy(line).into_owned(),
        other => format!("{other:?}"),
    }
}

impl Follower {
    pub fn new(stage: &Stage) -> Follower {
        Follower::with_memory(
            stage,
            MemoryLayout {
                small_frames: 2_048,
                ..MemoryLayout::default()
            },
        )
    }

    pub fn with_memory(stage: &Stage, layout: MemoryLayout) -> Follower {
        let config = RuntimeConfig {
            seed: 42,
            event_bytes: 1,
            follows: true,
            ..RuntimeConfig::default()
        };
        Follower {
            engine: Runtime::new(stage, config).expect("the stage runs"),
            pool: FramePool::with_layout(layout),
        }
    }

    /// Applies packets in one call; gives their entries.
    pub fn apply<'p>(&mut self, packets: impl IntoIterator<Item = &'p Numbered>) -> Vec<Entry> {
        self.apply_with(packets, 0)
    }

    /// The same while so many frames are elsewhere.
    pub fn apply_with<'p>(
        &mut self,
        packets: impl IntoIterator<Item = &'p Numbered>,
        elsewhere: usize,
    ) -> Vec<Entry> {
        let mut input = Vec::new();
        let mut sent = Vec::new();
        for packet in packets {
            let mut meta = FrameMeta::received(Time(packet.time_ms * 1_000_000), 0);
            meta.unit = packet.unit;
            meta.clock = packet.clock;
            meta.view = VIEW;
            meta.flags = packet.flags;
            meta.side = packet.side;
            meta.link = LinkType::Ethernet;
            meta.sequence = packet.unit << 20 | packet.clock;
            if packet.flags & frame_flags::NO_OUTPUT == 0 {
                sent.push((packet.unit, packet.clock));
            }
            input.push(
                self.pool
                    .copy(&packet.bytes, meta)
                    .expect("a frame is free"),
            );
        }
        let mut frames = Vec::new();
        self.engine.apply(&mut self.pool, &mut input, &mut frames);
        assert!(input.is_empty());
        let memory = self.pool.memory().clone();
        let mut entries: Vec<Entry> = Vec::new();
        let mut closed = true;
        for frame in frames {
            let (meta, bytes) = memory.read(&frame);
            assert_eq!(meta.view, VIEW);
            if closed {
                entries.push(Entry {
                    unit: meta.unit,
                    clock: meta.clock,
                    parts: Vec::new(),
                });
            }
            let entry = entries.last_mut().expect("one was begun");
            assert_eq!((entry.unit, entry.clock), (meta.unit, meta.clock));
            entry.parts.push(match meta.disposition {
                Disposition::Pending => panic!("a frame without a disposition"),
                Disposition::Out => Part::Out(bytes.to_vec()),
                Disposition::Dropped => Part::Dropped,
                Disposition::Turned => {
                    assert!(meta.flags & frame_flags::TURNED != 0);
                    Part::Turned(bytes.to_vec(), meta.side)
                }
                Disposition::Applied => Part::Applied,
                Disposition::Emitted => {
                    assert!(meta.flags & frame_flags::EMITTED != 0);
                    Part::Emitted(bytes.to_vec(), meta.side)
                }
                Disposition::Notes => Part::Notes(
                    notes::read(bytes)
                        .map(|note| describe(&note.expect("the notes are whole")))
                        .collect(),
                ),
            });
            closed = meta.disposition.closes();
            self.pool.give(frame);
        }
        assert!(closed, "the last entry is closed");
        let got: Vec<_> = entries.iter().map(|e| (e.unit, e.clock)).collect();
        assert_eq!(got, sent, "an entry for each packet, in order");
        assert_eq!(self.pool.outstanding(), elsewhere, "no frame is kept");
        let report = self.engine.report();
        assert!(report.balances(), "{report:?}");
        entries
    }

    pub fn export(&self, unit: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.engine.export_unit(unit, &mut bytes).ok()?;
        Some(bytes)
    }

    pub fn touch(&self, unit: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.engine.export_touch(unit, &mut bytes);
        bytes
    }

    /// Moves a unit to another engine as bytes; false where it has none here.
    pub fn hand_over(&mut self, unit: u64, to: &mut Follower) -> bool {
        let bytes = self.export(unit);
        assert_eq!(bytes.is_some(), self.engine.has_unit(unit));
        assert_eq!(self.engine.forget_unit(unit), bytes.is_some());
        assert!(!self.engine.has_unit(unit) && !self.engine.forget_unit(unit));
        let Some(bytes) = bytes else {
            return false;
        };
        to.engine.install_unit(unit, &bytes).expect("there is room");
        assert_eq!(to.export(unit), Some(bytes), "it is what was sent");
        true
    }
}

/// Time of the first packet, in ms.
pub const START: u64 = 1_700_000_000_000;
/// A unit: place 3 in its first life.
pub const UNIT: u64 = 1 << 32 | 3;

/// Room for 8 flows.
pub fn small() -> FlowOptions {
    FlowOptions {
        max: 8,
        ..FlowOptions::default()
    }
}

/// One function with a state per flow.
pub fn stage() -> Stage {
    let builder = Harness::builder().flows(small());
    builder.with::<Probe<0>>(()).expect("none").stage()
}

/// Clients, and pairs of them with servers, beside flows.
pub fn wide() -> Stage {
    let builder = Harness::builder().flows(small());
    let builder = builder.with::<Probe<1>>(()).expect("none");
    let builder = builder.with::<Probe<2>>(()).expect("none");
    builder.with::<Probe<0>>(()).expect("none").stage()
}

/// A packet of client `10.0.0.1:port`; `what` tells the probes what to do.
pub fn udp(port: u16, what: u8) -> Vec<u8> {
    Craft::udp(&format!("10.0.0.1:{port}"), "192.0.2.1:53")
        .payload(&[what; 40])
        .build()
}

/// A packet from inside, `ms` after the start.
pub fn numbered(unit: u64, clock: u64, ms: u64, bytes: Vec<u8>) -> Numbered {
    Numbered {
        unit,
        clock,
        time_ms: START + ms,
        flags: 0,
        side: Side::Inside,
        bytes,
    }
}

/// A packet that is only its flags: a tick, a lost one.
pub fn special(unit: u64, clock: u64, ms: u64, flag: u8) -> Numbered {
    Numbered {
        flags: flag,
        ..numbered(unit, clock, ms, Vec::new())
    }
}

/// Packets dropped under this reason.
pub fn count(engine: &Follower, name: &str) -> u64 {
    let drops = engine.engine.report().drops;
    drops.iter().find(|(n, _)| n == name).map_or(0, |(_, n)| *n)
}
