//! Sync: packets go on when all branches have marked them.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_packet::{Frame, MarkState, Origin, PacketMemory, ParseOptions, frame_flags};

use super::regions::take_over;
use super::{PortCounts, Regions, ReturnPath, StageInput};

/// Packets that are looked at ahead of the one that goes on next, at least.
const WINDOW: usize = 64;

/// Stands behind the first branch and lets its packets go on, in order, each
/// when all further branches have marked it; what they wrote is taken over
/// from their copies.
///
/// Frames that were not branched go on in their turn.
#[derive(Debug)]
pub struct Sync {
    first: Box<dyn StageInput>,
    branches: Vec<Behind>,
    memory: Arc<PacketMemory>,
    back: ReturnPath,
    options: ParseOptions,
    exit: Option<u8>,
    held: VecDeque<Frame>,
    scratch: Vec<Frame>,
    counts: PortCounts,
}

/// A further branch, seen from behind.
#[derive(Debug)]
struct Behind {
    queue: Box<dyn StageInput>,
    writes: Regions,
    copies: VecDeque<Frame>,
    over: bool,
}

impl Sync {
    /// A port behind the first branch's queue and those of all further ones, in
    /// the order of their marks, with what each may write. `exit` is the
    /// `next` that branched packets get (`None`: as the first branch left it);
    /// `options` say how headers are parsed in this chain.
    pub fn new(
        first: Box<dyn StageInput>,
        further: Vec<(Box<dyn StageInput>, Regions)>,
        memory: Arc<PacketMemory>,
        back: ReturnPath,
        exit: Option<u8>,
        options: ParseOptions,
    ) -> Sync {
        let branches = further
            .into_iter()
            .map(|(queue, writes)| Behind {
                queue,
                writes,
                copies: VecDeque::new(),
                over: false,
            })
            .collect();
        Sync {
            first,
            branches,
            memory,
            back,
            options,
            exit,
            held: VecDeque::new(),
            scratch: Vec::new(),
            counts: PortCounts::default(),
        }
    }

    /// The marks of a frame that has to wait for some.
    fn awaited(&self, frame: &Frame) -> Option<MarkState> {
        let state = self.memory.marks().of(self.memory.number(frame));
        // A packet that a function of the first branch made is not the one that was
        // last in its frame.
        let emitted = || self.memory.meta(frame).flags & frame_flags::EMITTED != 0;
        (state.expected != 0 && !emitted()).then_some(state)
    }

    /// Which branches have marked the frame `number`; `None` while one may
    /// still do so.
    fn settled(&mut self, number: u32) -> Option<u16> {
        let marks = self.memory.marks();
        if marks.of(number).missing() == 0 {
            return Some(marks.of(number).marked);
        }
        let mut over = 0;
        for (branch, behind) in self.branches.iter_mut().enumerate() {
            if !behind.over {
                behind.pull(&mut self.scratch);
                behind.over = behind.queue.is_over();
            }
            over |= u16::from(behind.over) << branch;
        }
        // A queue is in order: who marked a later packet is through with this.
        let later = self.held.iter().skip(1);
        let passed = later
            .filter_map(|frame| self.awaited(frame))
            .fold(0, |passed, state| passed | (state.expected & state.marked));
        // Read last: marks made before an end or a later mark are seen now.
        let state = marks.of(number);
        let missing = state.missing();
        if missing & !(over | passed) != 0 {
            return None;
        }
        self.counts.branch_dropped += u64::from((missing & passed).count_ones());
        self.counts.branch_lost += u64::from((missing & !passed).count_ones());
        Some(state.marked)
    }

    /// Takes over what branches wrote, of those that have marked the packet.
    fn join(&mut self, frame: &mut Frame, number: u32, marked: u16) {
        let state = self.memory.marks().of(number);
        for (branch, behind) in self.branches.iter_mut().enumerate() {
            if behind.writes.is_none() || state.expected & marked & (1 << branch) == 0 {
                continue;
            }
            loop {
                if behind.copies.is_empty() {
                    behind.pull(&mut self.scratch);
                }
                // A mark is made behind its copy, so that is here.
                let Some(copy) = behind.copies.pop_front() else {
                    self.counts.branch_lost += 1;
                    break;
                };
                let copy_number = self.memory.number(&copy);
                let marks = self.memory.marks();
                // The frame may have had a packet before that was lost on the
                // way: a copy of that is another round's.
                let of_mine = |of: Origin| of.number() == number && marks.is_current(of);
                let mine = marks.origin(copy_number).is_some_and(of_mine);
                if mine && !take_over(&self.memory, frame, &copy, behind.writes, &self.options) {
                    self.counts.length_changed += 1;
                }
                marks.set_origin(copy_number, None);
                self.back.send(copy);
                if mine {
                    break;
                }
                self.counts.stray += 1;
            }
        }
        self.memory.marks().reset(number);
        if let Some(exit) = self.exit {
            self.memory.meta_mut(frame).next = exit;
        }
        self.counts.joined += 1;
    }

    /// At the end: copies that a branch left behind, because it ended between
    /// a copy and its mark, go back.
    fn clear(&mut self) {
        for behind in &mut self.branches {
            behind.pull(&mut self.scratch);
            for copy in behind.copies.drain(..) {
                let number = self.memory.number(&copy);
                self.memory.marks().set_origin(number, None);
                self.counts.stray += 1;
                self.back.send(copy);
            }
        }
    }
}

impl Behind {
    /// Takes in the copies that are in the queue.
    fn pull(&mut self, scratch: &mut Vec<Frame>) {
        let waiting = self.queue.waiting();
        if waiting > 0 {
            self.queue.take(scratch, waiting);
            self.copies.extend(scratch.drain(..));
        }
    }
}

impl StageInput for Sync {
    fn take(&mut self, into: &mut Vec<Frame>, max: usize) -> usize {
        let want = max.max(WINDOW);
        if self.held.len() < want {
            self.first.take(&mut self.scratch, want - self.held.len());
            self.held.extend(self.scratch.drain(..));
        }
        let mut taken = 0;
        while taken < max
            && let Some(frame) = self.held.front()
        {
            let marked = match self.awaited(frame) {
                None => None,
                Some(_) => {
                    let number = self.memory.number(frame);
                    match self.settled(number) {
                        Some(marked) => Some((number, marked)),
                        None => break,
                    }
                }
            };
            let Some(mut frame) = self.held.pop_front() else {
                break;
            };
            if let Some((number, marked)) = marked {
                self.join(&mut frame, number, marked);
            }
            into.push(frame);
            taken += 1;
        }
        if self.held.is_empty() && self.first.is_over() {
            self.clear();
        }
        taken
    }

    fn counts(&self) -> PortCounts {
        self.counts
    }

    fn waiting(&self) -> usize {
        self.held.len() + self.first.waiting()
    }

    fn is_over(&self) -> bool {
        let left = |behind: &Behind| behind.copies.len() + behind.queue.waiting();
        self.held.is_empty()
            && self.first.is_over()
            && self.branches.iter().all(|behind| left(behind) == 0)
    }
}
