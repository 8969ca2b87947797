//! Marker: the end of a further branch.

use std::sync::Arc;

use weir_packet::{Frame, FrameKind, Origin, PacketMemory};

use super::pressure::Pressure;
use super::{PortCounts, Refused, ReturnPath, StageOutput};

/// Marks the packets whose copies a further branch is done with.
///
/// A branch that writes hands its copies on to the sync port, one that only
/// reads sends them back. Copies of notices end here.
#[derive(Debug)]
pub struct Marker {
    memory: Arc<PacketMemory>,
    branch: u8,
    writes: bool,
    /// To the sync port. Of a branch that only reads nothing goes along; the
    /// port sees by it that the branch is there.
    to: Box<dyn StageOutput>,
    back: ReturnPath,
    ready: Vec<Frame>,
    origins: Vec<Origin>,
    pressure: Pressure,
    counts: PortCounts,
}

impl Marker {
    /// The end of the further branch of this number (from 0), with its queue to
    /// the sync port, also where it only reads, and a return path for its copies.
    pub fn new(
        memory: Arc<PacketMemory>,
        branch: u8,
        writes: bool,
        to: Box<dyn StageOutput>,
        back: ReturnPath,
    ) -> Marker {
        Marker {
            memory,
            branch,
            writes,
            to,
            back,
            ready: Vec::new(),
            origins: Vec::new(),
            pressure: Pressure::default(),
            counts: PortCounts::default(),
        }
    }

    /// The packet that this frame is a copy of, if any.
    fn origin(&self, frame: &Frame) -> Option<Origin> {
        let origin = self.memory.marks().origin(self.memory.number(frame))?;
        (self.memory.meta(frame).kind == FrameKind::Packet).then_some(origin)
    }

    fn send_back(&mut self, frame: Frame) {
        let number = self.memory.number(&frame);
        self.memory.marks().set_origin(number, None);
        self.back.send(frame);
    }
}

impl StageOutput for Marker {
    fn give(&mut self, frames: &mut Vec<Frame>) -> usize {
        let offered = frames.len();
        let room = if self.writes {
            self.to.room()
        } else {
            usize::MAX
        };
        let (mut given, mut copies) = (0, 0);
        for frame in frames.iter() {
            let origin = self.origin(frame);
            if origin.is_some() {
                if copies >= room {
                    break;
                }
                copies += 1;
            }
            given += 1;
        }
        for frame in frames.drain(..given) {
            match self.origin(&frame) {
                Some(origin) => {
                    self.origins.push(origin);
                    if self.writes {
                        self.ready.push(frame);
                    } else {
                        self.send_back(frame);
                    }
                }
                None => {
                    if self.memory.meta(&frame).kind != FrameKind::NoticeCopy {
                        self.counts.foreign += 1;
                    }
                    self.send_back(frame);
                }
            }
        }
        // First the copy, then the mark: who sees that finds this.
        self.to.give(&mut self.ready);
        let marked = self.origins.len() - self.ready.len();
        for origin in self.origins.drain(..).take(marked) {
            self.memory.marks().mark(origin, self.branch);
        }
        self.counts.marked += marked as u64;
        // There was room: what is left has no reader any more.
        while let Some(copy) = self.ready.pop() {
            self.send_back(copy);
        }
        self.pressure.after(offered, given);
        given
    }

    fn room(&self) -> usize {
        if self.writes {
            self.to.room()
        } else {
            usize::MAX
        }
    }

    fn is_gone(&self) -> bool {
        self.to.is_gone()
    }

    fn refused(&self) -> Refused {
        self.pressure.refused()
    }

    fn counts(&self) -> PortCounts {
        self.counts
    }
}
