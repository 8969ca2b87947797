//! Balanced in turn: bursts to one instance of a stage after another.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_packet::{Frame, FrameKind, FrameMeta, NoFrame, PacketMemory, Place};

use super::pressure::Pressure;
use super::{Lender, PortCounts, Refused, StageError, StageInput, StageOutput, WayHome};

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
    lanes: Vec<TurnLane>,
    memory: Arc<PacketMemory>,
    lender: Lender,
    turn: usize,
    /// The instance whose turn it is.
    current: usize,
    /// Packets it was given in this turn.
    given: usize,
    /// What is given, in one call.
    offers: Vec<Frame>,
    pressure: Pressure,
    counts: PortCounts,
}

#[derive(Debug)]
struct TurnLane {
    output: Box<dyn StageOutput>,
    room: usize,
    gone: bool,
    ready: Vec<Frame>,
}

impl InTurn {
    /// A port before the instances at the other ends of `lanes`, with `turn`
    /// packets in a turn (0 is taken as 1). `lender` lends frames for turns'
    /// ends and copies of notices.
    ///
    /// # Errors
    ///
    /// Fewer than two lanes, a lane with less than two places, or a lender
    /// that has not a frame of each size per lane.
    pub fn new(
        lanes: Vec<Box<dyn StageOutput>>,
        turn: usize,
        mut lender: Lender,
    ) -> Result<InTurn, StageError> {
        if lanes.len() < 2 {
            return Err(StageError::TooFew);
        }
        if lanes.iter().any(|lane| lane.room() < 2) {
            return Err(StageError::LaneTooShort { needed: 2 });
        }
        lender.has_for_each_size(lanes.len())?;
        let lanes = lanes
            .into_iter()
            .map(|output| TurnLane {
                output,
                room: 0,
                gone: false,
                ready: Vec::new(),
            })
            .collect();
        Ok(InTurn {
            lanes,
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

    /// Looks at the lanes, and at whose turn it is. False where none is left.
    fn look(&mut self) -> bool {
        for lane in &mut self.lanes {
            lane.gone = lane.gone || lane.output.is_gone();
            lane.room = lane.output.room();
        }
        if self.lanes.iter().all(|lane| lane.gone) {
            return false;
        }
        while self.lanes.get(self.current).is_some_and(|lane| lane.gone) {
            self.advance();
        }
        true
    }

    fn advance(&mut self) {
        self.given = 0;
        self.current = (self.current + 1) % self.lanes.len();
    }

    /// Ends the turn, so that the next instance has its; false where there is
    /// no frame or no place for the mark now.
    fn end_turn(&mut self) -> bool {
        let place = self.lanes.get(self.current);
        if place.is_none_or(|lane| lane.ready.len() >= lane.room) {
            return false;
        }
        let mut meta = FrameMeta::default();
        meta.kind = FrameKind::TurnEnd;
        meta.set_place(Place::NONE);
        let Ok(mark) = self.lender.copy(&[], meta) else {
            return false;
        };
        if let Some(lane) = self.lanes.get_mut(self.current) {
            lane.ready.push(mark);
            self.counts.turns += 1;
        }
        self.advance();
        while self.lanes.get(self.current).is_some_and(|lane| lane.gone) {
            self.advance();
        }
        true
    }

    /// Copies of a notice for all lanes but the current one; false, and none,
    /// where one has no room or there are no frames.
    fn copy_notice(&mut self, frame: &Frame) -> bool {
        let (&(mut meta), bytes) = self.memory.read(frame);
        meta.kind = FrameKind::NoticeCopy;
        let current = self.current;
        let others = |(place, lane): &(usize, &mut TurnLane)| *place != current && !lane.gone;
        let full = |lane: &TurnLane| lane.ready.len() >= lane.room;
        // A frame stays for the turn's end: without that the port behind would
        // never come to the copies that are ahead in the other lanes.
        if self.lender.available() < self.lanes.len()
            || (self.lanes.iter_mut().enumerate())
                .filter(others)
                .any(|(_, lane)| full(lane))
        {
            return false;
        }
        let lanes = self.lanes.iter_mut().enumerate().filter(others);
        let mut copies = 0;
        for (made, (_, lane)) in lanes.enumerate() {
            match self.lender.copy(bytes, meta) {
                Ok(copy) => {
                    lane.ready.push(copy);
                    copies += 1;
                }
                // Not so with any lane then. Engines write notices into frames
                // with the usual headroom, whose bytes fit another.
                Err(NoFrame::TooLarge) => return true,
                Err(NoFrame::Exhausted) => {
                    for (_, lane) in self.lanes.iter_mut().enumerate().filter(others).take(made) {
                        if let Some(copy) = lane.ready.pop() {
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

    /// Makes sure that one frame can go to the current lane, with all that
    /// belongs to it; false where it has to wait.
    fn prepare(&mut self, frame: &Frame) -> bool {
        if self.given >= self.turn && !self.end_turn() {
            return false;
        }
        // A place stays for the turn's end.
        let room = |lane: &TurnLane| lane.ready.len() + 1 < lane.room;
        if !self.lanes.get(self.current).is_some_and(room) {
            return false;
        }
        if self.memory.meta(frame).kind != FrameKind::Notice || self.copy_notice(frame) {
            return true;
        }
        // Other lanes may be full of copies that are taken only in their turn.
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
            if let Some(lane) = self.lanes.get_mut(self.current) {
                lane.ready.push(frame);
                self.given += 1;
            }
        }
        frames.extend(rest);
        self.offers = offers;
        for lane in &mut self.lanes {
            lane.output.give(&mut lane.ready);
            // There was room: what is left has no reader any more, and goes
            // where frames come from that are lost with their instance.
            for frame in lane.ready.drain(..) {
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
        let lanes = self.lanes.iter().filter(|lane| !lane.output.is_gone());
        let rooms = lanes.map(|lane| lane.output.room());
        let least = rooms.min().unwrap_or(0).saturating_sub(1);
        least
            .div_ceil(2)
            .min(self.lender.available() / (self.lanes.len() + 1))
    }

    /// True where all instances are gone.
    fn is_gone(&self) -> bool {
        self.lanes.iter().all(|lane| lane.output.is_gone())
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
    lanes: Vec<BackLane>,
    memory: Arc<PacketMemory>,
    home: WayHome,
    current: usize,
    scratch: Vec<Frame>,
}

#[derive(Debug)]
struct BackLane {
    input: Box<dyn StageInput>,
    /// What was taken out of it and is for later.
    ahead: VecDeque<Frame>,
}

impl BackLane {
    fn is_over(&self) -> bool {
        self.ahead.is_empty() && self.input.is_over()
    }
}

impl MergeTurns {
    /// A port behind these lanes, in the order of the instances, with a way
    /// home for what the balanced port lent.
    pub fn new(
        lanes: Vec<Box<dyn StageInput>>,
        memory: Arc<PacketMemory>,
        home: WayHome,
    ) -> MergeTurns {
        let lanes = lanes.into_iter().map(|input| BackLane {
            input,
            ahead: VecDeque::new(),
        });
        MergeTurns {
            lanes: lanes.collect(),
            memory,
            home,
            current: 0,
            scratch: Vec::new(),
        }
    }

    /// Takes from the lane whose turn it is; true when its turn has ended.
    fn take_turn(&mut self, into: &mut Vec<Frame>, max: usize, taken: &mut usize) -> bool {
        let Some(lane) = self.lanes.get_mut(self.current) else {
            return false;
        };
        while *taken < max {
            if lane.ahead.is_empty() {
                lane.input.take(&mut self.scratch, max);
                lane.ahead.extend(self.scratch.drain(..));
            }
            let Some(frame) = lane.ahead.pop_front() else {
                return lane.is_over();
            };
            match self.memory.meta(&frame).kind {
                FrameKind::TurnEnd => {
                    self.home.send(frame);
                    return true;
                }
                FrameKind::NoticeCopy => self.home.send(frame),
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
        // At the end each lane is over, and none of them has a turn.
        let mut over = 0;
        while over < self.lanes.len() && self.take_turn(into, max, &mut taken) {
            over = match self.lanes.get(self.current) {
                Some(lane) if lane.is_over() => over + 1,
                _ => 0,
            };
            self.current = (self.current + 1) % self.lanes.len();
        }
        taken
    }

    fn waiting(&self) -> usize {
        let lanes = self.lanes.iter();
        lanes
            .map(|lane| lane.ahead.len() + lane.input.waiting())
            .sum()
    }

    fn is_over(&self) -> bool {
        self.lanes.iter().all(BackLane::is_over)
    }
}
