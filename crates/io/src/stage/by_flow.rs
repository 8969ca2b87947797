//! Balanced by flow: each flow at one of several instances of a stage.
//!
//! A frame of notices speaks of many flows, so each instance gets it: the
//! frame itself goes to the first, copies to the others, in order with each
//! one's packets. Behind the instances it goes on when all are through with it,
//! and so stays behind the packets that were before it and before those that
//! were behind it, whichever instance they went through. The copies end there.

use std::sync::Arc;

use weir_packet::{Frame, FrameKind, NoFrame, PacketMemory, Place};

use super::pressure::Pressure;
use super::return_queue::ReturnQueue;
use super::{Lender, PortCounts, Refused, ReturnPath, StageError, StageInput, StageOutput};

/// Gives each flow's packets to one instance of the stage behind: the one of
/// the unit that it is in ([`weir_packet::FrameMeta::unit`]), so that what a
/// function behind the instances keeps for several flows together sees their
/// packets in their order. Notices go to all of them: the frame itself to the
/// first, copies ([`FrameKind::NoticeCopy`]) to the others.
///
/// Packets without a flow go to the first instance. No frame overtakes another
/// here, so that none comes to an instance before a notice about its flow:
/// where one instance has no room, those behind wait with it.
#[derive(Debug)]
pub struct ByFlow {
    queues: Vec<FlowQueue>,
    memory: Arc<PacketMemory>,
    lender: Lender,
    /// Frames that are given, in one call.
    offers: Vec<Frame>,
    pressure: Pressure,
    counts: PortCounts,
    /// A notice could not be told to all, and never will be.
    stuck: bool,
}

#[derive(Debug)]
struct FlowQueue {
    output: Box<dyn StageOutput>,
    room: usize,
    /// Frames that pass, in one call.
    ready: Vec<Frame>,
}

/// The instance of a unit: a flow, or the widest of what the chain's functions
/// keep state by.
pub(super) fn instance_of(unit: u64, instances: usize) -> usize {
    // Numbers of units may have a stride.
    let mixed = unit.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    mixed as usize % instances.max(1)
}

impl FlowQueue {
    fn is_full(&self) -> bool {
        self.ready.len() >= self.room
    }
}

impl ByFlow {
    /// A port before the instances at the other ends of `queues`. `lender`
    /// lends frames for copies of notices.
    ///
    /// # Errors
    ///
    /// Fewer than two queues, or a lender that has not a frame of each size per
    /// queue but one.
    pub fn new(
        queues: Vec<Box<dyn StageOutput>>,
        mut lender: Lender,
    ) -> Result<ByFlow, StageError> {
        if queues.len() < 2 {
            return Err(StageError::TooFew);
        }
        lender.has_for_each_size(queues.len() - 1)?;
        let queues = queues
            .into_iter()
            .map(|output| FlowQueue {
                output,
                room: 0,
                ready: Vec::new(),
            })
            .collect();
        Ok(ByFlow {
            queues,
            memory: Arc::clone(lender.memory()),
            lender,
            offers: Vec::new(),
            pressure: Pressure::default(),
            counts: PortCounts::default(),
            stuck: false,
        })
    }

    /// Number of the queue that a frame itself goes to.
    fn queue_of(&self, frame: &Frame) -> usize {
        let meta = self.memory.meta(frame);
        match meta.place().record {
            _ if meta.kind == FrameKind::Notice => 0,
            Place::NO_FLOW => 0,
            _ => instance_of(meta.unit, self.queues.len()),
        }
    }

    /// Makes copies of a notice ready for all queues but the first; none, and
    /// false, where it has to wait.
    fn copy_notice(&mut self, frame: &Frame) -> bool {
        if self.queues.iter().any(FlowQueue::is_full) {
            return false;
        }
        let (&(mut meta), bytes) = self.memory.read(frame);
        meta.kind = FrameKind::NoticeCopy;
        for number in 1..self.queues.len() {
            let copy = self.lender.copy(bytes, meta);
            match (copy, self.queues.get_mut(number)) {
                (Ok(copy), Some(queue)) => queue.ready.push(copy),
                (copy, _) => {
                    // Engines write notices into frames with the usual
                    // headroom, whose bytes fit another.
                    self.stuck |= matches!(copy, Err(NoFrame::TooLarge));
                    for queue in self.queues.iter_mut().take(number).skip(1) {
                        if let Some(copy) = queue.ready.pop() {
                            self.lender.give(copy);
                        }
                    }
                    return false;
                }
            }
        }
        let copies = self.queues.len() as u64 - 1;
        self.counts.copies += copies;
        self.counts.copied_bytes += copies * bytes.len() as u64;
        true
    }
}

impl StageOutput for ByFlow {
    fn give(&mut self, frames: &mut Vec<Frame>) -> usize {
        let offered = frames.len();
        for queue in &mut self.queues {
            queue.room = queue.output.room();
        }
        let mut offers = core::mem::take(&mut self.offers);
        core::mem::swap(frames, &mut offers);
        let mut rest = offers.drain(..);
        for frame in rest.by_ref() {
            let number = self.queue_of(&frame);
            let notice = self.memory.meta(&frame).kind == FrameKind::Notice;
            let told = !notice || self.copy_notice(&frame);
            match self.queues.get_mut(number) {
                Some(queue) if told && !queue.is_full() => queue.ready.push(frame),
                _ => {
                    frames.push(frame);
                    break;
                }
            }
        }
        frames.extend(rest);
        self.offers = offers;
        for queue in &mut self.queues {
            queue.output.give(&mut queue.ready);
            // There was room: what is left has no reader any more, and goes
            // where frames come from that are lost with their instance.
            for frame in queue.ready.drain(..) {
                self.counts.lost += 1;
                self.lender.give(frame);
            }
        }
        let given = offered - frames.len();
        self.pressure.after(offered, given);
        given
    }

    /// Each frame may be a notice, which needs a place everywhere and copies.
    fn room(&self) -> usize {
        let copies = self.lender.available() / (self.queues.len() - 1).max(1);
        let rooms = self.queues.iter().map(|queue| queue.output.room());
        rooms.fold(copies, usize::min)
    }

    /// True where any instance is gone: the state of its flows is lost.
    fn is_gone(&self) -> bool {
        self.stuck || self.queues.iter().any(|queue| queue.output.is_gone())
    }

    fn refused(&self) -> Refused {
        self.pressure.refused()
    }

    fn counts(&self) -> PortCounts {
        self.counts
    }

    fn close(self: Box<Self>) -> Option<Lender> {
        Some(self.lender)
    }
}

/// Takes from several instances as it comes, but no packet past a notice:
/// order holds for each flow behind [`ByFlow`], and for notices with all.
///
/// Of an instance that is gone it takes what was given.
#[derive(Debug)]
pub struct MergeFlows {
    queues: Vec<ReturnQueue>,
    memory: Arc<PacketMemory>,
    back: ReturnPath,
    /// The instance that is read first.
    first: usize,
}

impl ReturnQueue {
    /// Moves packets up to the next notice to `into`, at most `max`; says how
    /// many.
    fn packets(&mut self, memory: &PacketMemory, into: &mut Vec<Frame>, max: usize) -> usize {
        self.fill(max);
        let mut taken = 0;
        while taken < max
            && let Some(frame) = self
                .ahead
                .pop_front_if(|frame| !memory.meta(frame).kind.is_notice())
        {
            into.push(frame);
            taken += 1;
        }
        taken
    }

    /// True where a notice is first, or nothing will ever be.
    fn is_through(&self, memory: &PacketMemory) -> bool {
        match self.ahead.front() {
            Some(frame) => memory.meta(frame).kind.is_notice(),
            None => self.input.is_over(),
        }
    }
}

impl MergeFlows {
    /// A port behind these queues, in the order of the instances, with a way
    /// return path for copies of notices.
    pub fn new(
        queues: Vec<Box<dyn StageInput>>,
        memory: Arc<PacketMemory>,
        back: ReturnPath,
    ) -> MergeFlows {
        MergeFlows {
            queues: ReturnQueue::all(queues),
            memory,
            back,
            first: 0,
        }
    }

    /// Takes the notice that is first in all queues; false where there is none.
    fn take_notice(&mut self, into: &mut Vec<Frame>) -> bool {
        let mut told = false;
        for queue in &mut self.queues {
            let Some(frame) = queue.ahead.pop_front() else {
                continue;
            };
            told = true;
            match self.memory.meta(&frame).kind {
                FrameKind::NoticeCopy => self.back.send(frame),
                _ => into.push(frame),
            }
        }
        told
    }
}

impl StageInput for MergeFlows {
    fn take(&mut self, into: &mut Vec<Frame>, max: usize) -> usize {
        let (before, queues) = (into.len(), self.queues.len());
        loop {
            for step in 0..queues {
                let number = (self.first + step) % queues;
                let left = max.saturating_sub(into.len() - before);
                if let Some(queue) = self.queues.get_mut(number)
                    && queue.packets(&self.memory, into, left) == left
                {
                    // The next instance is first the next time, so none is left out.
                    self.first = (number + 1) % queues;
                    return into.len() - before;
                }
            }
            let through = |queue: &ReturnQueue| queue.is_through(&self.memory);
            if !self.queues.iter().all(through) || !self.take_notice(into) {
                return into.len() - before;
            }
        }
    }

    fn waiting(&self) -> usize {
        ReturnQueue::waiting(&self.queues)
    }

    fn is_over(&self) -> bool {
        self.queues.iter().all(ReturnQueue::is_over)
    }
}
