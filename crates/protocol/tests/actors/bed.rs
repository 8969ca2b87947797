//! A few runtimes on a bench.

use std::collections::BTreeMap;

use weir_nf::host::{FlowOptions, Stage, Timeouts};
use weir_nf::{NetworkFunction, RuntimeId};
use weir_packet::{
    Disposition, Frame, FrameMeta, FramePool, MemoryLayout, Side, Time, frame_flags,
};
use weir_protocol::actors::{ActorCount, Actors};
use weir_protocol::ids::{Clock, Peer, UnitId, View};
use weir_protocol::message::{EntryBatch, Image, Message, MoveMode, Open, Origin};
use weir_protocol::plant::Plant;
use weir_protocol::settings::ActorSettings;
use weir_runtime::harness::{Craft, Harness};
use weir_runtime::{Runtime, RuntimeConfig};

use crate::functions::Ledger;

pub(crate) const FRESH: u8 = frame_flags::FRESH;
pub(crate) const REPEATED: u8 = frame_flags::REPEATED;
pub(crate) const MS: u64 = 1_000_000;
/// Idle time of a UDP flow.
pub(crate) const IDLE_MS: u32 = 500;

pub(crate) const SWITCH: Peer = Peer::Switch(1);

/// The view with this number in the first generation.
pub(crate) const fn view(number: u64) -> View {
    View(1 << 48 | number)
}

/// The first life in a place.
pub(crate) const fn unit(place: u64) -> UnitId {
    UnitId(1 << 32 | place)
}

pub(crate) const fn runtime(id: u32) -> Peer {
    Peer::Runtime(RuntimeId(id))
}

/// What came back for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) view: View,
    pub(crate) clock: u64,
    pub(crate) disposition: Disposition,
    /// Its last byte.
    pub(crate) count: u8,
}

pub(crate) struct Bed {
    pub(crate) pool: FramePool,
    pub(crate) now: Time,
    pub(crate) actors: BTreeMap<u32, Actors>,
}

/// How the runtimes of a bed are.
#[derive(Clone, Copy, Default)]
pub(crate) struct Kind {
    pub(crate) forget_outputs: bool,
    pub(crate) is_logger: bool,
    pub(crate) held: Option<u32>,
    pub(crate) plant: Option<Plant>,
    pub(crate) flows: Option<u32>,
    /// Bytes of a state.
    pub(crate) most: Option<usize>,
    pub(crate) repeat_within: Option<(u64, u64)>,
}

pub(crate) fn stage_of<N: NetworkFunction>(flows: u32) -> Stage
where
    N::Settings: Default,
{
    let builder = Harness::builder().with::<N>(N::Settings::default());
    let builder = builder.expect("the function takes its defaults");
    let options = FlowOptions {
        max: flows,
        timeouts: Timeouts {
            udp: IDLE_MS,
            ..Timeouts::default()
        },
        ..FlowOptions::default()
    };
    builder.flows(options).stage()
}

pub(crate) fn engine_of(stage: &Stage) -> Runtime {
    let config = RuntimeConfig {
        seed: 5,
        event_bytes: 1 << 16,
        follows: true,
        ..RuntimeConfig::default()
    };
    Runtime::new(stage, config).expect("the stage can be run")
}

impl Bed {
    /// Runtimes 1 to `count` with a [`Ledger`].
    pub(crate) fn new(count: u32) -> Bed {
        Bed::of(count, Kind::default())
    }

    pub(crate) fn of(count: u32, kind: Kind) -> Bed {
        let mut bed = Bed {
            pool: FramePool::with_layout(MemoryLayout {
                small_frames: 512,
                large_frames: 2,
                ..MemoryLayout::default()
            }),
            now: Time::from_secs(1_700_000_000),
            actors: BTreeMap::new(),
        };
        for id in 1..=count {
            bed.add(id, kind, &stage_of::<Ledger>(kind.flows.unwrap_or(64)));
        }
        bed
    }

    pub(crate) fn add(&mut self, id: u32, kind: Kind, stage: &Stage) {
        let settings = ActorSettings {
            id: RuntimeId(id),
            is_logger: kind.is_logger,
            keep_outputs: !kind.forget_outputs,
            waits: kind.forget_outputs,
            lossless: kind.forget_outputs,
            held: kind.held.unwrap_or(100),
            plant: kind.plant,
            // Whatever the round trip: here time stands still.
            repeat_within: kind.repeat_within.unwrap_or((10 * MS, 10 * MS)),
            most: kind.most.unwrap_or(ActorSettings::default().most),
            ..ActorSettings::default()
        };
        let engine = engine_of(stage);
        let actors = Actors::with_places(engine, settings, 256, weir_packet::no_advice);
        self.actors.insert(id, actors);
    }

    pub(crate) fn at(&mut self, id: u32) -> &mut Actors {
        self.actors.get_mut(&id).expect("the runtime is on the bed")
    }

    pub(crate) fn count(&self, id: u32, what: ActorCount) -> u64 {
        self.actors[&id].counts().get(what)
    }

    /// A packet of the flow that belongs to the unit's place. Its time depends
    /// on its clock alone.
    pub(crate) fn frame(
        &mut self,
        (unit, view, clock): (UnitId, View, u64),
        flags: u8,
        payload: &[u8],
    ) -> Frame {
        let source = format!("10.0.0.{}:1000", unit.slot() % 250 + 1);
        let bytes = Craft::udp(&source, "192.0.2.9:53").payload(payload).build();
        let time = Time::from_secs(1_700_000_000).plus(clock * MS);
        let mut meta = FrameMeta::received(time, 0);
        meta.side = Side::Inside;
        meta.sequence = clock;
        meta.flags = flags;
        meta.unit = unit.0;
        meta.view = view.0;
        meta.clock = clock;
        let mut frame = self.pool.copy(&bytes, meta).expect("a frame is free");
        let memory = self.pool.memory().clone();
        memory.meta_mut(&mut frame).wire_len = bytes.len() as u32;
        frame
    }

    /// Gives a runtime one packet; what comes back for it at once.
    pub(crate) fn data(
        &mut self,
        to: u32,
        name: (UnitId, View, u64),
        flags: u8,
        payload: &[u8],
    ) -> Vec<Got> {
        let frame = self.frame(name, flags, payload);
        self.burst(to, vec![frame])
    }

    pub(crate) fn burst(&mut self, to: u32, mut frames: Vec<Frame>) -> Vec<Got> {
        let now = self.now;
        let actors = self.actors.get_mut(&to).expect("the runtime is on the bed");
        actors.frames(now, &mut self.pool, &mut frames);
        assert!(frames.is_empty());
        self.got(to)
    }

    /// The entries in a runtime's outbox.
    pub(crate) fn got(&mut self, of: u32) -> Vec<Got> {
        let frames = core::mem::take(&mut self.at(of).outbox.entries);
        let memory = self.pool.memory().clone();
        let mut got = Vec::new();
        for frame in frames {
            let (meta, bytes) = memory.read(&frame);
            got.push(Got {
                view: View(meta.view),
                clock: meta.clock,
                disposition: meta.disposition,
                count: bytes.last().copied().unwrap_or(0),
            });
            self.pool.give(frame);
        }
        got
    }

    pub(crate) fn tell(&mut self, to: u32, from: Peer, message: Message) {
        let now = self.now;
        let actors = self.actors.get_mut(&to).expect("the runtime is on the bed");
        actors.message(now, &mut self.pool, from, message);
    }

    pub(crate) fn tick(&mut self, of: u32) {
        let now = self.now;
        let actors = self.actors.get_mut(&of).expect("the runtime is on the bed");
        actors.tick(now, &mut self.pool);
    }

    pub(crate) fn later(&mut self, ms: u64) {
        self.now = self.now.plus(ms * MS);
    }

    /// Takes the messages from a runtime's outbox.
    pub(crate) fn said(&mut self, of: u32) -> Vec<(Peer, Message)> {
        core::mem::take(&mut self.at(of).outbox.messages)
    }

    /// The one message in a runtime's outbox; to whom it is must be right.
    pub(crate) fn said_to(&mut self, of: u32, to: Peer) -> Message {
        let mut said = self.said(of);
        assert_eq!(said.len(), 1, "{said:?}");
        let (peer, message) = said.remove(0);
        assert_eq!(peer, to, "{message:?}");
        message
    }

    /// Carries messages between runtimes until none is left; those to others
    /// are given.
    pub(crate) fn carry(&mut self) -> Vec<(u32, Message)> {
        let mut others = Vec::new();
        loop {
            let ids: Vec<u32> = self.actors.keys().copied().collect();
            let mut moved = false;
            for id in ids {
                for (peer, message) in self.said(id) {
                    match peer {
                        Peer::Runtime(RuntimeId(to)) if self.actors.contains_key(&to) => {
                            moved = true;
                            self.tell(to, runtime(id), message);
                        }
                        _ => others.push((id, message)),
                    }
                }
            }
            if !moved {
                return others;
            }
        }
    }

    /// Packets 1 to `last` in the unit's first view, all at once.
    pub(crate) fn start(&mut self, at: u32, unit: UnitId, first: View, last: u64) -> Vec<Got> {
        let frames = (1..=last)
            .map(|clock| self.frame((unit, first, clock), FRESH, b"c--"))
            .collect();
        self.burst(at, frames)
    }

    /// The unit's whole state in a runtime's engine.
    pub(crate) fn state(&mut self, at: u32, unit: UnitId) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let engine = self.at(at).engine();
        engine.export_unit(unit.0, &mut bytes).ok().map(|()| bytes)
    }

    /// The state that a single engine has after these packets.
    pub(crate) fn reference(&mut self, unit: UnitId, payloads: &[&[u8]]) -> Vec<u8> {
        let mut engine = engine_of(&stage_of::<Ledger>(64));
        let mut frames = Vec::new();
        for (number, payload) in payloads.iter().enumerate() {
            let name = (unit, view(1), number as u64 + 1);
            frames.push(self.frame(name, 0, payload));
        }
        let mut entries = Vec::new();
        engine.apply(&mut self.pool, &mut frames, &mut entries);
        self.pool.give_all(&mut entries);
        let mut bytes = Vec::new();
        engine
            .export_unit(unit.0, &mut bytes)
            .expect("the unit has a state");
        bytes
    }

    /// The run has ended at a runtime.
    pub(crate) fn finish(&mut self, number: u32) {
        let actors = self.actors.get_mut(&number);
        let actors = actors.expect("the runtime is on the bed");
        actors.finish(&mut self.pool);
    }

    /// No frame is lost when all runtimes have ended.
    pub(crate) fn end(mut self) {
        let ids: Vec<u32> = self.actors.keys().copied().collect();
        for id in ids {
            let _ = self.got(id);
            let actors = self.actors.get_mut(&id).expect("the runtime is on the bed");
            actors.finish(&mut self.pool);
            actors.engine_mut().finish(&mut self.pool);
        }
        assert_eq!(self.pool.outstanding(), 0, "frames leaked");
    }
}

pub(crate) fn planned(unit: UnitId, (old, new): (View, View), base: u64, source: u32) -> Open {
    Open {
        unit,
        view: new,
        old,
        base: Clock(base),
        out: Clock(base),
        origin: Origin::Planned {
            source: RuntimeId(source),
        },
        replica: None,
        every: 0,
    }
}

pub(crate) fn resumed(unit: UnitId, (old, new): (View, View), out: u64, source: u32) -> Open {
    Open {
        origin: Origin::Resumed {
            source: RuntimeId(source),
        },
        ..planned(unit, (old, new), out, source)
    }
}

pub(crate) fn closed(unit: UnitId, (old, new): (View, View), at: u64, to: u32) -> Message {
    Message::Closed {
        unit,
        old,
        at: Clock(at),
        new,
        to: RuntimeId(to),
        mode: MoveMode::Push,
    }
}

pub(crate) fn held(unit: UnitId, view: View) -> Message {
    Message::Held { unit, view }
}

/// Clocks of a batch's entries.
pub(crate) fn clocks(batch: &EntryBatch) -> Vec<u64> {
    batch.entries.iter().map(|entry| entry.clock.0).collect()
}

/// The one batch of an `Entries` message.
pub(crate) fn batch(message: Message) -> EntryBatch {
    match message {
        Message::Entries(mut batches) if batches.len() == 1 => batches.remove(0),
        other => panic!("not one batch: {other:?}"),
    }
}

/// The image of a `State` message.
pub(crate) fn image(message: Message) -> Image {
    match message {
        Message::State { image, .. } => image,
        other => panic!("no state: {other:?}"),
    }
}

pub(crate) fn out(view: View, clock: u64, count: u8) -> Got {
    Got {
        view,
        clock,
        disposition: Disposition::Out,
        count,
    }
}
