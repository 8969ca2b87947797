//! Balanced in turn: bursts to one instance of a stage after another.

use std::sync::Arc;

use weir_packet::{Frame, FrameKind, FrameMeta, NoFrame, PacketMemory, Place};

use super::pressure::Pressure;
use super::return_queue::ReturnQueue;
use super::{Lender, PortCounts, Refused, ReturnPath, StageError, StageInput, StageOutput};

/// Gives bursts to the instances in turn: for stages that keep no state.
///
/// A turn is a number of packets. A frame of [`FrameKind::TurnEnd`] behind
/// them tells [`MergeTurns`] when to go on to the next instance, so
/// that all packets come out in the order in which they went in, whatever the
/// instances drop. Each notice goes to all instances: the frame itself where
/// its turn is, copies ([`FrameKind::NoticeCopy`]) to the others.
///
/// An instance whose thread is gone is left out; packets that it had are lost.
#[derive(Debug)]
pub struct InTurn {
    queues: Vec<TurnQueue>,
    memory: Arc<PacketMemory>,
    lender: Lender,
    turn: usize,
    /// The instance whose turn it is.
    current: usize,
    /// Packets it was given in this turn.
    given: usize,
    /// Frames that are given, in one call.
    offers: Vec<Frame>,
    pressure: Pressure,
    counts: PortCounts,
}

#[derive(Debug)]
struct TurnQueue {
    output: Box<dyn StageOutput>,
    room: usize,
    gone: bool,
    ready: Vec<Frame>,
}

impl InTurn {
    /// A port before the instances at the other ends of `queues`, with `turn`
    /// packets in a turn (0 is taken as 1). `lender` lends frames for turns'
    /// ends and copies of notices.
    ///
    /// # Errors
    ///
    /// Fewer than two queues, a queue with less than two places, or a lender
    /// that has not a frame of each size per queue.
    pub fn new(
        queues: Vec<Box<dyn StageOutput>>,
        turn: usize,
        mut lender: Lender,
    ) -> Result<InTurn, StageError> {
        if queues.len() < 2 {
            return Err(StageError::TooFew);
        }
        if queues.iter().any(|queue| queue.room() < 2) {
            return Err(StageError::QueueTooShort { needed: 2 });
        }
        lender.has_for_each_size(queues.len())?;
        let queues = queues
            .into_iter()
            .map(|output| TurnQueue {
                output,
                room: 0,
                gone: false,
                ready: Vec::new(),
            })
            .collect();
        Ok(InTurn {
            queues,
            memory: Arc::clone(lender.memory()),
            lender,
            turn: turn.max(1),
            current: 0,
            given: 0,
            offers: Vec::new(),
            pressure: Pressure::default(),
            counts: PortCounts::default(),
        })
    }

    /// Looks at the queues, and at whose turn it is. False where none is left.
    fn look(&mut self) -> bool {
        for queue in &mut self.queues {
            queue.gone = queue.gone || queue.output.is_gone();
            queue.room = queue.output.room();
        }
        if self.queues.iter().all(|queue| queue.gone) {
            return false;
        }
        while self
            .queues
            .get(self.current)
            .is_some_and(|queue| queue.gone)
        {
            self.advance();
        }
        true
    }

    fn advance(&mut self) {
        self.given = 0;
        self.current = (self.current + 1) % self.queues.len();
    }

    /// Ends the turn, so that the next instance has its; false where there is
    /// no frame or no place for the mark now.
    fn end_turn(&mut self) -> bool {
        let place = self.queues.get(self.current);
        if place.is_none_or(|queue| queue.ready.len() >= queue.room) {
            return false;
        }
        let mut meta = FrameMeta::default();
        meta.kind = FrameKind::TurnEnd;
        meta.set_place(Place::NONE);
        let Ok(mark) = self.lender.copy(&[], meta) else {
            return false;
        };
        if let Some(queue) = self.queues.get_mut(self.current) {
            queue.ready.push(mark);
            self.counts.turns += 1;
        }
        self.advance();
        while self
            .queues
            .get(self.current)
            .is_some_and(|queue| queue.gone)
        {
            self.advance();
        }
        true
    }

    /// Copies of a notice for all queues but the current one; false, and none,
    /// where one has no room or there are no frames.
    fn copy_notice(&mut self, frame: &Frame) -> bool {
        let (&(mut meta), bytes) = self.memory.read(frame);
        meta.kind = FrameKind::NoticeCopy;
        let current = self.current;
        let others = |(place, queue): &(usize, &mut TurnQueue)| *place != current && !queue.gone;
        let full = |queue: &TurnQueue| queue.ready.len() >= queue.room;
        // A frame stays for the turn's end: without that the port behind would
        // never come to the copies that are ahead in the other queues.
        if self.lender.available() < self.queues.len()
            || (self.queues.iter_mut().enumerate())
                .filter(others)
                .any(|(_, queue)| full(queue))
        {
            return false;
        }
        let queues = self.queues.iter_mut().enumerate().filter(others);
        let mut copies = 0;
        for (made, (_, queue)) in queues.enumerate() {
            match self.lender.copy(bytes, meta) {
                Ok(copy) => {
                    queue.ready.push(copy);
                    copies += 1;
                }
                // Not so with any queue then. Engines write notices into frames
                // with the usual headroom, whose bytes fit another.
                Err(NoFrame::TooLarge) => return true,
                Err(NoFrame::Exhausted) => {
                    for (_, queue) in self.queues.iter_mut().enumerate().filter(others).take(made) {
                        if let Some(copy) = queue.ready.pop() {
                            self.lender.give(copy);
                        }
                    }
                    return false;
                }
            }
        }
        self.counts.copies += copies;
        self.counts.copied_bytes += copies * bytes.len() as u64;
        true
    }

    /// Makes sure that one frame can go to the current queue, with all that
    /// belongs to it; false where it has to wait.
    fn prepare(&mut self, frame: &Frame) -> bool {
        if self.given >= self.turn && !self.end_turn() {
            return false;
        }
        // A place stays for the turn's end.
        let room = |queue: &TurnQueue| queue.ready.len() + 1 < queue.room;
        if !self.queues.get(self.current).is_some_and(room) {
            return false;
        }
        if self.memory.meta(frame).kind != FrameKind::Notice || self.copy_notice(frame) {
            return true;
        }
        // Other queues may be full of copies that are taken only in their turn.
        self.end_turn();
        false
    }
}

impl StageOutput for InTurn {
    fn give(&mut self, frames: &mut Vec<Frame>) -> usize {
        let offered = frames.len();
        if !self.look() {
            self.pressure.after(offered, 0);
            return 0;
        }
        let mut offers = core::mem::take(&mut self.offers);
        core::mem::swap(frames, &mut offers);
        let mut rest = offers.drain(..);
        for frame in rest.by_ref() {
            if !self.prepare(&frame) {
                frames.push(frame);
                break;
            }
            if let Some(queue) = self.queues.get_mut(self.current) {
                queue.ready.push(frame);
                self.given += 1;
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

    /// Each packet may need a turn's end behind it, and each notice a copy for
    /// each instance.
    fn room(&self) -> usize {
        let queues = self.queues.iter().filter(|queue| !queue.output.is_gone());
        let rooms = queues.map(|queue| queue.output.room());
        let least = rooms.min().unwrap_or(0).saturating_sub(1);
        least
            .div_ceil(2)
            .min(self.lender.available() / (self.queues.len() + 1))
    }

    /// True where all instances are gone.
    fn is_gone(&self) -> bool {
        self.queues.iter().all(|queue| queue.output.is_gone())
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

/// Takes from several instances in the same turns in which
/// [`InTurn`] gave: the order is that before the instances.
///
/// Turns' ends and copies of notices end here. An instance that is gone is
/// left out when all that it gave was taken.
#[derive(Debug)]
pub struct MergeTurns {
    queues: Vec<ReturnQueue>,
    memory: Arc<PacketMemory>,
    back: ReturnPath,
    current: usize,
}

impl MergeTurns {
    /// A port behind these queues, in the order of the instances, with a way
    /// return path for what the balanced port lent.
    pub fn new(
        queues: Vec<Box<dyn StageInput>>,
        memory: Arc<PacketMemory>,
        back: ReturnPath,
    ) -> MergeTurns {
        MergeTurns {
            queues: ReturnQueue::all(queues),
            memory,
            back,
            current: 0,
        }
    }

    /// Takes from the queue whose turn it is; true when its turn has ended.
    fn take_turn(&mut self, into: &mut Vec<Frame>, max: usize, taken: &mut usize) -> bool {
        let queue = &mut self.queues[self.current];
        while *taken < max {
            queue.fill(max);
            let Some(frame) = queue.ahead.pop_front() else {
                return queue.is_over();
            };
            match self.memory.meta(&frame).kind {
                FrameKind::TurnEnd => {
                    self.back.send(frame);
                    return true;
                }
                FrameKind::NoticeCopy => self.back.send(frame),
                FrameKind::Packet | FrameKind::Notice => {
                    into.push(frame);
                    *taken += 1;
                }
            }
        }
        false
    }
}

impl StageInput for MergeTurns {
    fn take(&mut self, into: &mut Vec<Frame>, max: usize) -> usize {
        let mut taken = 0;
        // At the end each queue is over, and none of them has a turn.
        let mut over = 0;
        while over < self.queues.len() && self.take_turn(into, max, &mut taken) {
            over = match self.queues.get(self.current) {
                Some(queue) if queue.is_over() => over + 1,
                _ => 0,
            };
            self.current = (self.current + 1) % self.queues.len();
        }
        taken
    }

    fn waiting(&self) -> usize {
        ReturnQueue::waiting(&self.queues)
    }

    fn is_over(&self) -> bool {
        self.queues.iter().all(ReturnQueue::is_over)
    }
}
