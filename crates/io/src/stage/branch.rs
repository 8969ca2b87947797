//! Branch: the same packets to several stages.

use std::ops::RangeInclusive;
use std::sync::Arc;

use weir_packet::{Frame, FrameKind, MOST_BRANCHES, NoFrame, PacketMemory};

use super::pressure::Pressure;
use super::{Lender, PortCounts, Refused, StageError, StageOutput};

/// Gives the packets that are for a parallel step to all its branches: the
/// frames themselves to the first, a copy to each other one.
///
/// Packets for other stages go along the first queue only; of a
/// [`FrameKind::Notice`] each further branch gets a
/// [`FrameKind::NoticeCopy`]. A packet goes to all queues or to none: where one
/// has no room, or no frame is left for a copy, it waits. A further branch
/// whose thread is gone gets nothing any more, and is not waited for.
#[derive(Debug)]
pub struct Branch {
    first: Box<dyn StageOutput>,
    further: Vec<Further>,
    group: RangeInclusive<u8>,
    memory: Arc<PacketMemory>,
    lender: Lender,
    /// Frames for the first queue, in one call.
    ready: Vec<Frame>,
    pressure: Pressure,
    counts: PortCounts,
}

#[derive(Debug)]
struct Further {
    output: Box<dyn StageOutput>,
    /// Processor at which copies enter it.
    entry: u8,
    /// Frames that pass, in one call.
    ready: Vec<Frame>,
    gone: bool,
}

impl Branch {
    /// A port before a parallel step: packets whose `next` is in `group` are
    /// for it. `further` are the other branches' queues, each with the `next`
    /// that its copies get; their numbers, from 0 and in this order, are those
    /// of their marks. `lender` lends the frames for copies.
    ///
    /// # Errors
    ///
    /// No further branch, more than [`MOST_BRANCHES`], or a lender whose
    /// frames are not enough for the copies of one packet.
    pub fn new(
        first: Box<dyn StageOutput>,
        further: Vec<(Box<dyn StageOutput>, u8)>,
        group: RangeInclusive<u8>,
        mut lender: Lender,
    ) -> Result<Branch, StageError> {
        let branches = further.len();
        if branches == 0 {
            return Err(StageError::TooFew);
        }
        if branches > MOST_BRANCHES {
            return Err(StageError::TooManyBranches { branches });
        }
        lender.has_for_each_size(branches)?;
        let further = further
            .into_iter()
            .map(|(output, entry)| Further {
                output,
                entry,
                ready: Vec::new(),
                gone: false,
            })
            .collect();
        Ok(Branch {
            first,
            further,
            group,
            memory: Arc::clone(lender.memory()),
            lender,
            ready: Vec::new(),
            pressure: Pressure::default(),
            counts: PortCounts::default(),
        })
    }

    /// Makes the copies of one frame for all branches that are there, or none,
    /// and says in its marks for which.
    fn copy(&mut self, frame: &Frame, kind: FrameKind) -> Result<(), NoFrame> {
        let (&(mut meta), bytes) = self.memory.read(frame);
        meta.kind = kind;
        let marks = self.memory.marks();
        let mut branches = 0u16;
        for (branch, further) in self.further.iter().enumerate() {
            branches |= u16::from(!further.gone) << branch;
        }
        // Before the copies, which are of this round of the frame.
        let packet = kind == FrameKind::Packet;
        let number = self.memory.number(frame);
        let origin = marks.expect(number, if packet { branches } else { 0 });
        for (branch, further) in self.further.iter_mut().enumerate() {
            if further.gone {
                continue;
            }
            if packet {
                meta.next = further.entry;
            }
            match self.lender.copy(bytes, meta) {
                Ok(copy) => {
                    if packet {
                        marks.set_origin(self.memory.number(&copy), Some(origin));
                    }
                    further.ready.push(copy);
                }
                Err(error) => {
                    marks.reset(number);
                    // Those before it have a copy already.
                    for further in self.further.iter_mut().take(branch).filter(|f| !f.gone) {
                        if let Some(copy) = further.ready.pop() {
                            marks.set_origin(self.memory.number(&copy), None);
                            self.lender.give(copy);
                        }
                    }
                    return Err(error);
                }
            }
        }
        let copies = u64::from(branches.count_ones());
        self.counts.copies += copies;
        self.counts.copied_bytes += copies * bytes.len() as u64;
        Ok(())
    }

    /// Makes ready what one frame needs; false where it has to wait.
    fn prepare(&mut self, frame: &Frame, room: usize, copied: &mut usize) -> bool {
        let meta = self.memory.meta(frame);
        let notice = meta.kind == FrameKind::Notice;
        let branched = meta.kind == FrameKind::Packet && self.group.contains(&meta.next);
        if notice || branched {
            if *copied >= room {
                return false;
            }
            let kind = if notice {
                FrameKind::NoticeCopy
            } else {
                FrameKind::Packet
            };
            match self.copy(frame, kind) {
                Ok(()) => {}
                Err(NoFrame::Exhausted) => return false,
                Err(NoFrame::TooLarge) => self.counts.uncopied += 1,
            }
            *copied += 1;
        } else {
            // Marks of the frame's last use, if its packet was lost on the
            // way, are of no meaning.
            self.memory.marks().reset(self.memory.number(frame));
        }
        if branched {
            self.counts.branched += 1;
        } else {
            self.counts.passed += 1;
        }
        true
    }
}

impl StageOutput for Branch {
    fn give(&mut self, frames: &mut Vec<Frame>) -> usize {
        let offered = frames.len();
        let room = self.first.room();
        let mut copies_room = usize::MAX;
        for further in &mut self.further {
            further.gone = further.gone || further.output.is_gone();
            if !further.gone {
                copies_room = copies_room.min(further.output.room());
            }
        }
        let (mut given, mut copied) = (0, 0);
        for frame in frames.iter().take(room) {
            if !self.prepare(frame, copies_room, &mut copied) {
                break;
            }
            given += 1;
        }
        for further in &mut self.further {
            further.output.give(&mut further.ready);
            // There was room: what is left has no reader any more.
            for copy in further.ready.drain(..) {
                let number = self.memory.number(&copy);
                self.memory.marks().set_origin(number, None);
                self.lender.give(copy);
            }
        }
        self.ready.extend(frames.drain(..given));
        self.first.give(&mut self.ready);
        if !self.ready.is_empty() {
            given -= self.ready.len();
            frames.splice(0..0, self.ready.drain(..));
        }
        self.pressure.after(offered, given);
        given
    }

    /// Of packets that small frames hold.
    fn room(&self) -> usize {
        let queues = self.further.iter().filter(|further| !further.gone);
        let copies = self.lender.available() / self.further.len();
        queues
            .map(|further| further.output.room())
            .fold(self.first.room().min(copies), usize::min)
    }

    /// True where the first branch is gone. Without a further one packets go
    /// on.
    fn is_gone(&self) -> bool {
        self.first.is_gone()
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
