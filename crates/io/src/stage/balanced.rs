//! Balanced: one stage as several instances.

use std::sync::Arc;

use weir_packet::{Frame, FrameKind, FrameMeta, NoFrame, PacketMemory, Place};

use super::pressure::Pressure;
use super::{Lender, Refused, StageError, StageOutput};

/// Gives each flow's packets to one instance of the stage behind: the one of
/// its record's number, as the first stage noted it ([`FrameMeta::place`]).
///
/// Notices about a flow go to its instance. Packets without a flow go to the
/// first. Order holds for each flow; where one instance has no room, the
/// packets of others overtake its own.
#[derive(Debug)]
pub struct ByFlow {
    lanes: Vec<FlowLane>,
    memory: Arc<PacketMemory>,
    rest: Vec<Frame>,
    pressure: Pressure,
}

#[derive(Debug)]
struct FlowLane {
    output: Box<dyn StageOutput>,
    room: usize,
    ready: Vec<Frame>,
}

impl ByFlow {
    /// A port before the instances at the other ends of `lanes`.
    ///
    /// # Errors
    ///
    /// Fewer than two lanes.
    pub fn new(
        lanes: Vec<Box<dyn StageOutput>>,
        memory: Arc<PacketMemory>,
    ) -> Result<ByFlow, StageError> {
        if lanes.len() < 2 {
            return Err(StageError::TooFew);
        }
        let lanes = lanes
            .into_iter()
            .map(|output| FlowLane {
                output,
                room: 0,
                ready: Vec::new(),
            })
            .collect();
        Ok(ByFlow {
            lanes,
            memory,
            rest: Vec::new(),
            pressure: Pressure::default(),
        })
    }

    /// Number of the instance that has the frame's flow.
    fn lane_of(&self, frame: &Frame) -> usize {
        match self.memory.meta(frame).place().record {
            Place::NO_FLOW => 0,
            record => record as usize % self.lanes.len(),
        }
    }
}

impl StageOutput for ByFlow {
    fn give(&mut self, frames: &mut Vec<Frame>) -> usize {
        let offered = frames.len();
        for lane in &mut self.lanes {
            lane.room = lane.output.room();
        }
        for frame in frames.drain(..) {
            let place = self.lane_of(&frame);
            match self.lanes.get_mut(place) {
                Some(lane) if lane.ready.len() < lane.room => lane.ready.push(frame),
                _ => self.rest.push(frame),
            }
        }
        for lane in &mut self.lanes {
            lane.output.give(&mut lane.ready);
            // There was room: what is left has no reader any more.
            frames.append(&mut lane.ready);
        }
        frames.append(&mut self.rest);
        let given = offered - frames.len();
        self.pressure.after(offered, given);
        given
    }

    fn room(&self) -> usize {
        let rooms = self.lanes.iter().map(|lane| lane.output.room());
        rooms.min().unwrap_or(0)
    }

    /// True where any instance is gone: the state of its flows is lost.
    fn is_gone(&self) -> bool {
        self.lanes.iter().any(|lane| lane.output.is_gone())
    }

    fn refused(&self) -> Refused {
        self.pressure.refused()
    }
}

/// Gives bursts to the instances in turn: for stages that keep no state.
///
/// A turn is a number of packets. A frame of [`FrameKind::TurnEnd`] behind
/// them tells [`super::MergeTurns`] when to go on to the next instance, so
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
        for (made, (_, lane)) in lanes.enumerate() {
            match self.lender.copy(bytes, meta) {
                Ok(copy) => lane.ready.push(copy),
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

    fn close(self: Box<Self>) -> Option<Lender> {
        Some(self.lender)
    }
}
