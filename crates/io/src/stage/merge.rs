//! Merge: behind the instances of a balanced stage.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_packet::{Frame, FrameKind, PacketMemory};

use super::{StageInput, WayHome};

/// Takes from several instances as it comes: order holds for each instance,
/// and so for each flow behind [`super::ByFlow`].
#[derive(Debug)]
pub struct MergeAny {
    lanes: Vec<Box<dyn StageInput>>,
    /// Who is asked first.
    first: usize,
}

impl MergeAny {
    /// A port behind these lanes.
    pub fn new(lanes: Vec<Box<dyn StageInput>>) -> MergeAny {
        MergeAny { lanes, first: 0 }
    }
}

impl StageInput for MergeAny {
    fn take(&mut self, into: &mut Vec<Frame>, max: usize) -> usize {
        let mut taken = 0;
        let lanes = self.lanes.len();
        for step in 0..lanes {
            let place = (self.first + step) % lanes;
            if let Some(lane) = self.lanes.get_mut(place) {
                taken += lane.take(into, max - taken);
            }
            if taken == max {
                // Who comes next is first the next time: none is left out.
                self.first = (place + 1) % lanes;
                return taken;
            }
        }
        taken
    }

    fn waiting(&self) -> usize {
        self.lanes.iter().map(|lane| lane.waiting()).sum()
    }

    fn is_over(&self) -> bool {
        self.lanes.iter().all(|lane| lane.is_over())
    }
}

/// Takes from several instances in the same turns in which
/// [`super::InTurn`] gave: the order is that before the instances.
///
/// Turns' ends and copies of notices end here. An instance that is gone is
/// left out when all that it gave was taken.
#[derive(Debug)]
pub struct MergeTurns {
    lanes: Vec<TurnLane>,
    memory: Arc<PacketMemory>,
    home: WayHome,
    current: usize,
    scratch: Vec<Frame>,
}

#[derive(Debug)]
struct TurnLane {
    input: Box<dyn StageInput>,
    /// What was taken out of it and is for later.
    ahead: VecDeque<Frame>,
}

impl TurnLane {
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
        let lanes = lanes.into_iter().map(|input| TurnLane {
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
        self.lanes.iter().all(TurnLane::is_over)
    }
}
