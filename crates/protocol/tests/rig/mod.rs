//! A switch with its runtimes played by hand.
#![allow(dead_code, unreachable_pub, missing_docs)]

use weir_nf::host::{FlowOptions, Stage};
use weir_nf::prelude::*;
use weir_packet::{
    Disposition, Frame, FrameMeta, FramePool, LinkType, MemoryLayout, Side, Time, frame_flags,
};
use weir_protocol::message::{Message, Open};
use weir_protocol::settings::SwitchSettings;
use weir_protocol::switch::{Switch, SwitchCount, SwitchDrop};
use weir_protocol::{Clock, Peer, RuntimeId, UnitId, View};
use weir_runtime::RuntimeConfig;
use weir_runtime::harness::{Craft, Harness};

/// Needs flows, and lets all pass.
#[derive(Debug)]
pub struct Pass;

#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Nothing(u64);
impl State for Nothing {
    const VERSION: u16 = 1;
}

impl NetworkFunction for Pass {
    type Settings = ();
    type State = Nothing;
    type Stats = ();
    type FlowState = ();
    const DESCRIPTOR: Descriptor = Descriptor {
        needs: Needs::Flow,
        aliases: true,
        ..Descriptor::new("pass", "lets all pass")
    };

    fn new((): (), _: &mut SetUp<'_>) -> Result<Pass, SettingsError> {
        Ok(Pass)
    }
}

pub fn stage() -> Stage {
    stage_of(64)
}

/// One with room for so many flows.
pub fn stage_of(max: u32) -> Stage {
    let flows = FlowOptions {
        max,
        held_fragments: 4,
        ..FlowOptions::default()
    };
    let builder = Harness::builder().flows(flows).with::<Pass>(());
    builder.expect("no settings").stage()
}

/// What a data frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub unit: UnitId,
    pub view: View,
    pub clock: Clock,
    pub flags: u8,
    pub tag: u8,
}

pub struct Rig {
    pub switch: Switch,
    pub pool: FramePool,
    pub now: Time,
}

pub const MS: u64 = 1_000_000;

pub fn rt(number: u32) -> RuntimeId {
    RuntimeId(number)
}

impl Rig {
    pub fn new(settings: SwitchSettings, runtimes: u32) -> Rig {
        Rig::of(&stage(), settings, runtimes)
    }

    pub fn of(stage: &Stage, settings: SwitchSettings, runtimes: u32) -> Rig {
        let layout = MemoryLayout {
            small_frames: 2_048,
            large_frames: 2,
            ..MemoryLayout::default()
        };
        let config = RuntimeConfig::default();
        let mut rig = Rig {
            switch: Switch::new(stage, config, settings).expect("the stage is right"),
            pool: FramePool::with_layout(layout),
            now: Time::from_secs(1_000),
        };
        for number in 1..=runtimes {
            rig.switch.join(rig.now, rt(number));
        }
        rig.messages();
        rig
    }

    /// A packet of client number `flow`, with `tag` as its last octet.
    pub fn frame(&mut self, flow: u8, tag: u8) -> Frame {
        self.frame_from(&format!("10.0.0.{flow}:1000"), tag)
    }

    /// A packet from an address and port.
    pub fn frame_from(&mut self, from: &str, tag: u8) -> Frame {
        let bytes = Craft::udp(from, "192.0.2.1:53").payload(&[tag]).build();
        let mut meta = FrameMeta::received(self.now, bytes.len() as u32);
        (meta.side, meta.link) = (Side::Inside, LinkType::Ethernet);
        self.pool.copy(&bytes, meta).expect("a frame is free")
    }

    pub fn send(&mut self, flow: u8, tag: u8) {
        let mut frames = vec![self.frame(flow, tag)];
        self.switch.ingress(self.now, &mut self.pool, &mut frames);
        assert!(frames.is_empty());
        self.check();
    }

    pub fn see(&self, frame: &Frame) -> Seen {
        let (meta, bytes) = self.pool.memory().read(frame);
        Seen {
            unit: UnitId(meta.unit),
            view: View(meta.view),
            clock: Clock(meta.clock),
            flags: meta.flags,
            tag: bytes.last().copied().unwrap_or(0),
        }
    }

    /// The frames in the queue of a runtime.
    pub fn queue(&mut self, number: u32) -> Vec<Frame> {
        let queues = &mut self.switch.outbox.queues;
        let queue = queues.iter_mut().find(|queue| queue.to == rt(number));
        queue
            .map(|queue| std::mem::take(&mut queue.frames))
            .unwrap_or_default()
    }

    pub fn seen(&self, frames: &[Frame]) -> Vec<Seen> {
        frames.iter().map(|frame| self.see(frame)).collect()
    }

    pub fn clocks(&self, frames: &[Frame]) -> Vec<u64> {
        frames.iter().map(|frame| self.see(frame).clock.0).collect()
    }

    pub fn drop_all(&mut self, frames: Vec<Frame>) {
        frames.into_iter().for_each(|frame| self.pool.give(frame));
    }

    /// Which of the runtimes 1 to 9 has frames in its queue.
    pub fn who(&self) -> Vec<u32> {
        let queues = self.switch.outbox.queues.iter();
        queues
            .filter(|queue| !queue.frames.is_empty())
            .map(|queue| queue.to.0)
            .collect()
    }

    /// Gives frames back as entries with `disposition`.
    pub fn answer(&mut self, number: u32, mut frames: Vec<Frame>, disposition: Disposition) {
        let memory = self.pool.memory().clone();
        for frame in &mut frames {
            let meta = memory.meta_mut(frame);
            let none = frame_flags::TICK | frame_flags::LOST;
            meta.disposition = if meta.flags & none != 0 {
                Disposition::Applied
            } else {
                disposition
            };
        }
        self.switch
            .entries(self.now, &mut self.pool, rt(number), &mut frames);
        self.check();
    }

    /// A runtime applies all that is in its queue.
    pub fn serve(&mut self, number: u32) {
        let frames = self.queue(number);
        self.answer(number, frames, Disposition::Out);
    }

    /// Tags of the packets that were let out.
    pub fn out(&mut self) -> Vec<u8> {
        let frames = std::mem::take(&mut self.switch.outbox.out);
        let tags = frames.iter().map(|frame| self.see(frame).tag).collect();
        self.drop_all(frames);
        tags
    }

    pub fn messages(&mut self) -> Vec<(Peer, Message)> {
        std::mem::take(&mut self.switch.outbox.messages)
    }

    pub fn to(&mut self, number: u32) -> Vec<Message> {
        let messages = self.messages();
        let (mine, others) = messages
            .into_iter()
            .partition(|(to, _)| *to == Peer::Runtime(rt(number)));
        self.switch.outbox.messages = others;
        mine.into_iter().map(|(_, message)| message).collect()
    }

    pub fn open(&mut self, number: u32) -> Option<Open> {
        self.to(number).into_iter().find_map(|m| match m {
            Message::Open(open) => Some(open),
            _ => None,
        })
    }

    pub fn say(&mut self, number: u32, message: Message) {
        let from = Peer::Runtime(rt(number));
        self.switch.message(self.now, &mut self.pool, from, message);
        self.check();
    }

    pub fn end_flow(&mut self, unit: UnitId, key: &weir_packet::FlowKey) -> bool {
        let asked = self.switch.end_flow(self.now, &mut self.pool, unit, key);
        self.check();
        asked
    }

    pub fn pass(&mut self, milliseconds: u64) {
        self.now = self.now.plus(milliseconds * MS);
        while self.switch.next_deadline().is_some_and(|at| at <= self.now) {
            self.switch.tick(self.now, &mut self.pool);
            if self.switch.next_deadline() == Some(Time::ZERO) {
                continue;
            }
            break;
        }
        self.check();
    }

    pub fn suspect(&mut self, number: u32) {
        self.switch.suspect(self.now, &mut self.pool, rt(number));
        self.pass(0);
    }

    pub fn count(&self, what: SwitchCount) -> u64 {
        self.switch.counts().get(what)
    }

    pub fn dropped(&self, what: SwitchDrop) -> u64 {
        self.switch.drops().get(what)
    }

    pub fn check(&self) {
        let report = self.switch.report();
        assert!(report.balances(), "{report:?}");
    }

    /// Ends the run: all frames are back.
    pub fn end(mut self) {
        for number in 1..10 {
            let frames = self.queue(number);
            self.drop_all(frames);
        }
        self.out();
        self.switch.finish(&mut self.pool);
        self.check();
        assert_eq!(self.pool.outstanding(), 0);
        assert_eq!(self.switch.report().held, 0);
    }
}
