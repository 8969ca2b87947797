//! Stages that a seeded scheduler runs on one thread, in any order of takes
//! and gives.

use std::sync::Arc;

use weir_packet::{FrameKind, LinkType, PacketMemory, Place, ipv4};

use super::*;

/// Work of a stage on a burst; dropped frames go to the end of the bin.
pub(super) type Work = Box<dyn FnMut(&PacketMemory, &mut Vec<Frame>, &mut Vec<Frame>) + Send>;

/// A stage's thread: takes, works, gives; takes nothing while a frame waits.
pub(super) struct Stage {
    pub(super) input: Box<dyn StageInput>,
    pub(super) output: Option<Box<dyn StageOutput>>,
    pub(super) work: Work,
    pub(super) burst: Vec<Frame>,
    bin: Vec<Frame>,
    pub(super) lenders: Vec<Lender>,
}

impl Stage {
    pub(super) fn new(
        input: Box<dyn StageInput>,
        output: Box<dyn StageOutput>,
        work: Work,
    ) -> Stage {
        Stage {
            input,
            output: Some(output),
            work,
            burst: Vec::new(),
            bin: Vec::new(),
            lenders: Vec::new(),
        }
    }

    pub(super) fn of(ports: QueuePorts, work: Work) -> Stage {
        Stage::new(ports.input, ports.output, work)
    }

    /// Passes frames on as they are.
    pub(super) fn idle(ports: QueuePorts) -> Stage {
        Stage::of(ports, Box::new(|_, _, _| {}))
    }

    pub(super) fn is_over(&self) -> bool {
        self.output.is_none()
    }

    /// Gives what waits, or takes up to `max` and works; true where that moved
    /// a frame.
    pub(super) fn step(&mut self, pool: &mut FramePool, max: usize) -> bool {
        let Some(output) = &mut self.output else {
            return false;
        };
        if !self.burst.is_empty() {
            return output.give(&mut self.burst) > 0;
        }
        let taken = self.input.take(&mut self.burst, max);
        assert_eq!(taken, self.burst.len());
        assert!(taken <= max);
        (self.work)(pool.memory(), &mut self.burst, &mut self.bin);
        pool.give_all(&mut self.bin);
        if taken == 0 && self.input.is_over() {
            self.lenders
                .extend(self.output.take().and_then(|output| output.close()));
        }
        taken > 0
    }
}

/// Traffic of a source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    pub(super) frames: u64,
    pub(super) flows: u32,
    /// `next` of packets, besides 0.
    pub(super) next: u8,
    /// One in so many is a notice, and one in so many has another `next`.
    pub(super) notices: usize,
    /// One in so many is long; 0 for none.
    pub(super) long: usize,
}

impl Traffic {
    pub(super) fn of(frames: u64) -> Traffic {
        Traffic {
            frames,
            flows: 5,
            next: 1,
            notices: 9,
            long: 20,
        }
    }

    /// The frame of this number.
    pub(super) fn frame(
        &self,
        pool: &mut FramePool,
        choices: &mut Choices,
        sequence: u64,
    ) -> Option<Frame> {
        let long = self.long > 0 && choices.below(self.long) == 0;
        let bytes = udp(sequence, if long { 900 } else { 40 });
        let mut meta = FrameMeta::default();
        meta.sequence = sequence;
        meta.link = LinkType::RawIp;
        let record = choices.below(self.flows as usize) as u32;
        meta.unit = record.into();
        meta.set_place(Place {
            record,
            ..Place::NONE
        });
        if choices.below(self.notices) == 0 {
            meta.kind = FrameKind::Notice;
        } else if choices.below(7) > 0 {
            meta.next = self.next;
        }
        pool.copy(&bytes, meta).ok()
    }
}

/// A UDP packet in IPv4 whose payload begins with its number.
pub(super) fn udp(sequence: u64, payload: usize) -> Vec<u8> {
    let mut bytes = vec![0; 28 + payload];
    bytes[0] = 0x45;
    bytes[2..4].copy_from_slice(&(28 + payload as u16).to_be_bytes());
    bytes[8] = 64;
    bytes[9] = 17;
    bytes[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    bytes[24..26].copy_from_slice(&(8 + payload as u16).to_be_bytes());
    bytes[28..36].copy_from_slice(&sequence.to_be_bytes());
    assert!(ipv4::Ipv4View::new(&bytes).is_ok());
    bytes
}

/// A source, stages and a sink.
pub(super) struct World {
    pub(super) pool: FramePool,
    pub(super) choices: Choices,
    traffic: Traffic,
    made: u64,
    /// Record, kind and `next` of each frame that went in.
    pub(super) entered: Vec<(Place, FrameKind, u8)>,
    waiting: Vec<Frame>,
    source: Option<Box<dyn StageOutput>>,
    pub(super) stages: Vec<Stage>,
    sink: Box<dyn StageInput>,
    /// Metadata and bytes of each frame that came out.
    pub(super) left: Vec<(FrameMeta, Vec<u8>)>,
    lenders: Vec<Lender>,
}

impl World {
    pub(super) fn new(
        seed: u64,
        pool: FramePool,
        traffic: Traffic,
        source: Box<dyn StageOutput>,
        stages: Vec<Stage>,
        sink: Box<dyn StageInput>,
    ) -> World {
        World {
            pool,
            choices: Choices(seed),
            traffic,
            made: 0,
            entered: Vec::new(),
            waiting: Vec::new(),
            source: Some(source),
            stages,
            sink,
            left: Vec::new(),
            lenders: Vec::new(),
        }
    }

    fn memory(&self) -> Arc<PacketMemory> {
        Arc::clone(self.pool.memory())
    }

    /// One of the threads does a round; true where that moved a frame.
    pub(super) fn step(&mut self) -> bool {
        let who = self.choices.below(self.stages.len() + 2);
        let max = 1 + self.choices.below(9);
        match who.checked_sub(2) {
            None if who == 0 => self.source(max),
            None => self.sink(max),
            Some(stage) => self.stages[stage].step(&mut self.pool, max),
        }
    }

    fn source(&mut self, max: usize) -> bool {
        let Some(output) = &mut self.source else {
            return false;
        };
        for _ in 0..max.saturating_sub(self.waiting.len()) {
            if self.made == self.traffic.frames {
                break;
            }
            let made = self
                .traffic
                .frame(&mut self.pool, &mut self.choices, self.made);
            let Some(frame) = made else { break };
            let meta = self.pool.memory().meta(&frame);
            self.entered.push((meta.place(), meta.kind, meta.next));
            self.waiting.push(frame);
            self.made += 1;
        }
        let room = output.room().min(self.waiting.len());
        let given = output.give(&mut self.waiting);
        // Copies of long packets may lack a frame.
        if self.traffic.long == 0 {
            assert!(given >= room, "given {given} with room for {room}");
        }
        if self.made == self.traffic.frames && self.waiting.is_empty() {
            self.lenders
                .extend(self.source.take().and_then(|output| output.close()));
        }
        given > 0
    }

    fn sink(&mut self, max: usize) -> bool {
        let mut frames = Vec::new();
        self.sink.take(&mut frames, max);
        let memory = self.memory();
        for frame in &frames {
            let (meta, bytes) = memory.read(frame);
            self.left.push((*meta, bytes.to_vec()));
        }
        let taken = frames.len();
        self.pool.give_all(&mut frames);
        taken > 0
    }

    /// True where the source can't give any more.
    pub(super) fn is_gone(&self) -> bool {
        self.source.as_ref().is_some_and(|output| output.is_gone())
    }

    /// Ends the source with all that it has, as a run that fails does.
    pub(super) fn give_up(&mut self) {
        self.pool.give_all(&mut self.waiting);
        self.lenders
            .extend(self.source.take().and_then(|output| output.close()));
    }

    pub(super) fn is_over(&self) -> bool {
        self.source.is_none() && self.stages.iter().all(Stage::is_over) && self.sink.is_over()
    }

    /// Runs to the end.
    pub(super) fn run(&mut self) {
        let mut idle = 0;
        while !self.is_over() {
            idle = if self.step() { 0 } else { idle + 1 };
            assert!(idle < 20_000, "nothing moves: {} out", self.left.len());
        }
    }

    /// Takes all lent frames back; says how many are missing at the end. No
    /// frame has a mark left where none is missing.
    pub(super) fn missing(mut self) -> usize {
        drop(self.source);
        for stage in self.stages {
            self.lenders.extend(stage.lenders);
        }
        for lender in self.lenders {
            self.pool.join(lender.into_pool());
        }
        let missing = self.pool.outstanding();
        let layout = *self.pool.memory().layout();
        for number in 0..layout.small_frames + layout.large_frames {
            let marks = self.pool.memory().marks();
            if missing == 0 {
                assert_eq!(marks.of(number), weir_packet::MarkState::default());
                assert_eq!(marks.origin(number), None);
            }
        }
        missing
    }
}
