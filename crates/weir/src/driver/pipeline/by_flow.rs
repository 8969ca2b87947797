//! A stage's flows over its instances, and what the first stage says of flows
//! to all of them.
//!
//! A frame of notices speaks of many flows, so each instance gets it: the
//! frame itself goes to the first, copies to the others, in order with each
//! one's packets. Behind the instances it goes on when all are through with it:
//! so it stays behind the packets that were before it, and before those that
//! were behind it, whichever instance they went through. The copies end there.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_io::stage::{LanePorts, Lender, Refused, StageInput, StageOutput, WayHome, point};
use weir_packet::{Frame, FrameKind, FramePool, PacketMemory, Place};

/// The ports of a stage whose instances each have their flows.
pub(super) struct ByFlowPorts {
    pub(super) front: Box<dyn StageOutput>,
    pub(super) lanes: Vec<LanePorts>,
    pub(super) behind: Box<dyn StageInput>,
}

/// Makes them; `pool` is for copies of notices.
pub(super) fn by_flow(instances: usize, places: usize, pool: FramePool) -> ByFlowPorts {
    let memory = Arc::clone(pool.memory());
    let mut lender = Lender::new(pool);
    let home = lender.way_home();
    let (mut lanes, mut to, mut from) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..instances {
        let (to_instance, input) = point(places);
        let (output, from_instance) = point(places);
        lanes.push(LanePorts {
            input: Box::new(input),
            output: Box::new(output),
        });
        to.push(Way {
            output: Box::new(to_instance) as Box<dyn StageOutput>,
            room: 0,
            ready: Vec::new(),
        });
        from.push(Back {
            input: Box::new(from_instance),
            frames: VecDeque::new(),
            taken: Vec::new(),
        });
    }
    let spread = Spread {
        ways: to,
        memory: Arc::clone(&memory),
        lender,
        refused: Refused::default(),
        counted: 0,
    };
    let gather = Gather {
        lanes: from,
        memory,
        home,
    };
    ByFlowPorts {
        front: Box::new(spread),
        lanes,
        behind: Box::new(gather),
    }
}

#[derive(Debug)]
struct Way {
    output: Box<dyn StageOutput>,
    room: usize,
    ready: Vec<Frame>,
}

/// In front of the instances.
#[derive(Debug)]
struct Spread {
    ways: Vec<Way>,
    memory: Arc<PacketMemory>,
    lender: Lender,
    refused: Refused,
    /// Frames that were refused before and are at the head again.
    counted: usize,
}

/// The instance of a unit: a flow, or the widest of what the chain's functions
/// keep state by. So what a function behind the instances keeps for several
/// flows together sees their packets in their order.
fn instance_of(unit: u64, instances: usize) -> usize {
    // Numbers of units may have a stride.
    let mixed = unit.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(mixed) * instances as u128) >> 64) as usize
}

impl Spread {
    /// Puts a frame into its way; gives it back where there is no room.
    fn put(&mut self, frame: Frame) -> Result<(), Frame> {
        let meta = *self.memory.meta(&frame);
        if meta.kind == FrameKind::Notice {
            return self.tell_all(frame);
        }
        let number = match meta.place().record {
            Place::NO_FLOW => 0,
            _ => instance_of(meta.unit, self.ways.len()),
        };
        match self.ways.get_mut(number) {
            Some(way) if way.ready.len() < way.room => {
                way.ready.push(frame);
                Ok(())
            }
            _ => Err(frame),
        }
    }

    fn tell_all(&mut self, frame: Frame) -> Result<(), Frame> {
        if self.ways.iter().any(|way| way.ready.len() >= way.room) {
            return Err(frame);
        }
        let (meta, bytes) = self.memory.read(&frame);
        let mut copy = *meta;
        copy.kind = FrameKind::NoticeCopy;
        let mut copies = Vec::new();
        for _ in 1..self.ways.len() {
            match self.lender.copy(bytes, copy) {
                Ok(copy) => copies.push(copy),
                Err(_) => {
                    copies.into_iter().for_each(|copy| self.lender.give(copy));
                    return Err(frame);
                }
            }
        }
        let frames = std::iter::once(frame).chain(copies);
        for (way, frame) in self.ways.iter_mut().zip(frames) {
            way.ready.push(frame);
        }
        Ok(())
    }
}

impl StageOutput for Spread {
    fn give(&mut self, frames: &mut Vec<Frame>) -> usize {
        let offered = frames.len();
        for way in &mut self.ways {
            // None is ready but for a reader that has gone.
            way.room = way.output.room();
        }
        let mut left = Vec::new();
        let mut all = frames.drain(..);
        for frame in all.by_ref() {
            // No frame overtakes another: a notice may be among them.
            if let Err(frame) = self.put(frame) {
                left.push(frame);
                break;
            }
        }
        left.extend(all);
        *frames = left;
        for way in &mut self.ways {
            way.output.give(&mut way.ready);
        }
        let given = offered - frames.len();
        let again = self.counted.min(offered).saturating_sub(given);
        let new = frames.len().saturating_sub(again);
        if new > 0 {
            self.refused.bursts += 1;
            self.refused.frames += new as u64;
        }
        self.counted = frames.len();
        given
    }

    fn room(&self) -> usize {
        let rooms = self.ways.iter().map(|way| way.output.room());
        rooms.min().unwrap_or(0)
    }

    fn is_gone(&self) -> bool {
        self.ways.iter().any(|way| way.output.is_gone())
    }

    fn refused(&self) -> Refused {
        self.refused
    }

    fn close(self: Box<Self>) -> Option<Lender> {
        Some(self.lender)
    }
}

/// Behind the instances.
#[derive(Debug)]
struct Gather {
    lanes: Vec<Back>,
    memory: Arc<PacketMemory>,
    home: WayHome,
}

#[derive(Debug)]
struct Back {
    input: Box<dyn StageInput>,
    /// What was taken out of the ring; nothing more is while a notice is first.
    frames: VecDeque<Frame>,
    taken: Vec<Frame>,
}

impl Back {
    /// Moves packets up to the next notice to `into`, at most `max` of them.
    fn packets(&mut self, memory: &PacketMemory, into: &mut Vec<Frame>, max: usize) {
        if self.frames.is_empty() {
            self.input.take(&mut self.taken, max);
            self.frames.extend(self.taken.drain(..));
        }
        for _ in 0..max {
            let packet = |frame: &mut Frame| !memory.meta(frame).kind.is_notice();
            match self.frames.pop_front_if(packet) {
                Some(frame) => into.push(frame),
                None => return,
            }
        }
    }

    fn is_over(&self) -> bool {
        self.frames.is_empty() && self.input.is_over()
    }

    /// True where a notice is first, or nothing will ever be.
    fn is_through(&self, memory: &PacketMemory) -> bool {
        match self.frames.front() {
            Some(frame) => memory.meta(frame).kind.is_notice(),
            None => self.input.is_over(),
        }
    }
}

impl StageInput for Gather {
    fn take(&mut self, into: &mut Vec<Frame>, max: usize) -> usize {
        let before = into.len();
        loop {
            for lane in &mut self.lanes {
                let room = max.saturating_sub(into.len() - before);
                lane.packets(&self.memory, into, room);
            }
            let through = self.lanes.iter().all(|lane| lane.is_through(&self.memory));
            if into.len() - before >= max || !through {
                break;
            }
            let mut told = false;
            for lane in &mut self.lanes {
                let Some(frame) = lane.frames.pop_front() else {
                    continue;
                };
                told = true;
                match self.memory.meta(&frame).kind {
                    FrameKind::NoticeCopy => self.home.send(frame),
                    _ => into.push(frame),
                }
            }
            if !told {
                break;
            }
        }
        into.len() - before
    }

    fn waiting(&self) -> usize {
        let lanes = self.lanes.iter();
        lanes
            .map(|lane| lane.frames.len() + lane.input.waiting())
            .sum()
    }

    fn is_over(&self) -> bool {
        self.lanes.iter().all(Back::is_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::{FrameMeta, MemoryLayout};

    #[test]
    fn flows_keep_to_their_instance_and_notices_come_to_all_in_order() {
        let mut pool = FramePool::with_layout(MemoryLayout::default());
        let copies = pool.share(64, 1);
        let mut ports = by_flow(3, 64, copies);
        let mut frames = Vec::new();
        for number in 0..30u32 {
            let mut meta = FrameMeta::default();
            meta.sequence = u64::from(number);
            meta.unit = u64::from(number % 7);
            meta.set_place(Place {
                record: number % 7,
                ..Place::NONE
            });
            if number % 10 == 5 {
                meta.kind = FrameKind::Notice;
            }
            frames.push(pool.copy(b"x", meta).unwrap());
        }
        assert_eq!(ports.front.give(&mut frames), 30);
        assert_eq!(ports.front.refused(), Refused::default());
        let lanes = ports.lanes.iter_mut().enumerate();
        for (number, lane) in lanes {
            let mut got = Vec::new();
            lane.input.take(&mut got, 64);
            let metas: Vec<FrameMeta> = got.iter().map(|f| *pool.memory().meta(f)).collect();
            assert!(metas.windows(2).all(|w| w[0].sequence < w[1].sequence));
            let (notices, packets): (Vec<FrameMeta>, Vec<FrameMeta>) =
                metas.iter().partition(|meta| meta.kind.is_notice());
            assert_eq!(notices.len(), 3);
            let copies = |meta: &FrameMeta| (meta.kind == FrameKind::Notice) == (number == 0);
            assert!(notices.iter().all(copies));
            let mine = |meta: &FrameMeta| instance_of(meta.unit, 3) == number;
            assert!(!packets.is_empty() && packets.iter().all(mine));
            lane.output.give(&mut got);
        }
        let mut out = Vec::new();
        while ports.behind.take(&mut out, 4) > 0 {}
        assert_eq!(out.len(), 30, "copies of notices end here");
        // None has passed a notice.
        let metas: Vec<FrameMeta> = out.iter().map(|f| *pool.memory().meta(f)).collect();
        for (at, notice) in metas.iter().enumerate() {
            if notice.kind.is_notice() {
                let (before, behind) = (&metas[..at], &metas[at..]);
                assert!(before.iter().all(|m| m.sequence < notice.sequence));
                assert!(behind.iter().all(|m| m.sequence >= notice.sequence));
            }
        }
        pool.give_all(&mut out);
        pool.join(ports.front.close().unwrap().into_pool());
        assert_eq!(pool.outstanding(), 0);
    }

    #[test]
    fn what_has_no_room_stays_in_order() {
        let mut pool = FramePool::with_layout(MemoryLayout::default());
        let copies = pool.share(64, 1);
        let mut ports = by_flow(2, 2, copies);
        let mut frame = |unit| {
            let mut meta = FrameMeta::default();
            meta.unit = unit;
            meta.set_place(Place {
                record: 0,
                ..Place::NONE
            });
            pool.copy(b"x", meta).unwrap()
        };
        // The third has no room, and those behind it wait with it.
        let mut frames: Vec<Frame> = [0, 0, 0, 1].map(&mut frame).into();
        assert_eq!(ports.front.give(&mut frames), 2);
        assert_eq!(ports.front.give(&mut frames), 0);
        let refused = Refused {
            bursts: 1,
            frames: 2,
        };
        assert_eq!((frames.len(), ports.front.refused()), (2, refused));
        pool.give_all(&mut frames);
    }
}
