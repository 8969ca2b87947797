//! Marks on frames whose packets several stages work on at the same time.
//!
//! One word per frame of the packet memory, by the frame's number, beside the
//! frames: a branch marks a packet while another thread owns its frame. Who
//! branches says which marks are to come ([`Marks::expect`]) before it hands
//! the frame on; each branch adds its mark when it is done with its copy
//! ([`Marks::mark`]); whoever waits for them all looks at the word
//! ([`Marks::of`]) and resets it ([`Marks::reset`]).
//!
//! The marks are a set, one bit per branch, so that it is known which are
//! missing; their number is the counter of the design. All of it is plain
//! atomic words, which processes that map the memory can share as well.
//!
//! # Order
//!
//! Marks are added with release order and read with acquire order, and adding
//! is one read-modify-write: who sees a mark sees all that its branch did
//! before, whatever other marks came between. `expect` and `reset` are plain
//! stores by the owner of the frame; the ring that hands the frame, or its
//! copies, on orders them before marks.

use super::atomic::{AtomicU32, Ordering};

/// Most branches whose marks a packet can wait for.
pub const MOST_BRANCHES: usize = 16;

/// The marks of all frames of a packet memory.
#[derive(Debug)]
pub struct Marks {
    /// Marks expected in the upper half, those that came in the lower.
    words: Box<[AtomicU32]>,
    /// Of a copy: number of the frame that it is a copy of, plus 1.
    origins: Box<[AtomicU32]>,
}

/// The marks of one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkState {
    /// Those that are to come, a bit per branch; none for a packet that was
    /// not branched.
    pub expected: u16,
    /// Those that have come.
    pub marked: u16,
}

impl MarkState {
    /// Those that have not come yet.
    #[inline]
    pub const fn missing(self) -> u16 {
        self.expected & !self.marked
    }
}

impl Marks {
    /// For so many frames.
    pub(crate) fn new(frames: usize) -> Marks {
        let zeros = || (0..frames).map(|_| AtomicU32::new(0)).collect();
        Marks {
            words: zeros(),
            origins: zeros(),
        }
    }

    /// Says which marks the frame of this number waits for, a bit per branch.
    /// By the owner of the frame, before it or a copy goes on.
    #[inline]
    pub fn expect(&self, number: u32, branches: u16) {
        if let Some(word) = self.words.get(number as usize) {
            word.store(u32::from(branches) << 16, Ordering::Relaxed);
        }
    }

    /// Adds the mark of a branch, 0 to 15, to the frame of this number.
    #[inline]
    pub fn mark(&self, number: u32, branch: u8) {
        if let Some(word) = self.words.get(number as usize) {
            word.fetch_or(1 << (branch & 15), Ordering::Release);
        }
    }

    /// The marks of the frame of this number.
    #[inline]
    pub fn of(&self, number: u32) -> MarkState {
        let word = self
            .words
            .get(number as usize)
            .map_or(0, |word| word.load(Ordering::Acquire));
        MarkState {
            expected: (word >> 16) as u16,
            marked: word as u16,
        }
    }

    /// Takes all marks off, when none is to come any more. By the owner of the
    /// frame.
    #[inline]
    pub fn reset(&self, number: u32) {
        if let Some(word) = self.words.get(number as usize) {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Says that the frame `copy` holds a copy of the frame `of`, or of none.
    /// By the owner of the copy.
    #[inline]
    pub fn set_origin(&self, copy: u32, of: Option<u32>) {
        if let Some(origin) = self.origins.get(copy as usize) {
            origin.store(of.map_or(0, |of| of.wrapping_add(1)), Ordering::Relaxed);
        }
    }

    /// The frame that this one holds a copy of. For the owner of the copy.
    #[inline]
    pub fn origin(&self, copy: u32) -> Option<u32> {
        self.origins
            .get(copy as usize)?
            .load(Ordering::Relaxed)
            .checked_sub(1)
    }
}
