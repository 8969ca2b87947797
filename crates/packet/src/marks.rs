//! Marks on frames whose packets several stages work on at the same time.
//!
//! One word per frame of the packet memory, by the frame's number, beside the
//! frames: a branch marks a packet while another thread owns its frame. The
//! branching port says which marks are to come ([`Marks::expect`]) before it hands
//! the frame on; each branch adds its mark when it is done with its copy
//! ([`Marks::mark`]); the sync port looks at the word
//! ([`Marks::of`]) and resets it ([`Marks::reset`]).
//!
//! The marks are a set, one bit per branch, so that it is known which are
//! missing; their number is the counter of the design. All of it is plain
//! atomic words, which processes that map the memory can share as well.
//!
//! A frame may go home before all its marks have come, where the first branch
//! dropped its packet, and be branched again with another one. So each use has
//! a round, and a copy carries that of the packet it is of ([`Origin`]): a mark
//! of an earlier round is none.
//!
//! # Order
//!
//! Marks are added with release order and read with acquire order, and adding
//! is one read-modify-write: who sees a mark sees all that its branch did
//! before, whatever other marks came between. `expect` and `reset` are plain
//! stores by the owner of the frame; the ring that hands the frame, or its
//! copies, on orders them before marks. A late mark either exchanges the word
//! of its own round, and then comes before the owner's store in the word's
//! order and is overwritten, or finds another round and is void.

use super::atomic::{AtomicU64, Ordering};

/// Most branches whose marks a packet can wait for.
pub const MOST_BRANCHES: usize = 16;

/// The marks of all frames of a packet memory.
#[derive(Debug)]
pub struct Marks {
    /// The round in the upper half; below it, 16 bits each, marks expected and
    /// those that came.
    words: Box<[AtomicU64]>,
    /// Of a copy: the round of the frame that it is a copy of, and the frame's
    /// number plus 1; 0 for none.
    origins: Box<[AtomicU64]>,
}

/// The packet that a copy is of: its frame's number, and which of the frame's
/// uses. Made by [`Marks::expect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    number: u32,
    round: u32,
}

impl Origin {
    /// Number of the frame.
    #[inline]
    pub const fn number(self) -> u32 {
        self.number
    }
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

/// The round of a word.
const fn round(word: u64) -> u32 {
    (word >> 32) as u32
}

impl Marks {
    /// For so many frames.
    pub(crate) fn new(frames: usize) -> Marks {
        let zeros = || (0..frames).map(|_| AtomicU64::new(0)).collect();
        Marks {
            words: zeros(),
            origins: zeros(),
        }
    }

    /// Begins a round of the frame of this number: says which marks it waits
    /// for, a bit per branch. Marks of earlier rounds are gone, and none of
    /// those that come late counts. By the owner of the frame, before it or a
    /// copy goes on.
    #[inline]
    pub fn expect(&self, number: u32, branches: u16) -> Origin {
        let mut origin = Origin { number, round: 0 };
        if let Some(word) = self.words.get(number as usize) {
            // Only the owner changes the round.
            origin.round = round(word.load(Ordering::Relaxed)).wrapping_add(1);
            let new = u64::from(origin.round) << 32 | u64::from(branches) << 16;
            word.store(new, Ordering::Relaxed);
        }
        origin
    }

    /// Adds the mark of a branch, 0 to 15, to the packet that a copy is of;
    /// nothing where its frame has begun another round.
    #[inline]
    pub fn mark(&self, of: Origin, branch: u8) {
        let Some(word) = self.words.get(of.number as usize) else {
            return;
        };
        let mut old = word.load(Ordering::Relaxed);
        while round(old) == of.round {
            let new = old | 1 << (branch & 15);
            match word.compare_exchange_weak(old, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => old = now,
            }
        }
    }

    /// The marks of the frame of this number, in its present round.
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

    /// Takes all marks off, when none is waited for any more. By the owner of
    /// the frame.
    #[inline]
    pub fn reset(&self, number: u32) {
        self.expect(number, 0);
    }

    /// True where the frame is still in the round that this is of.
    #[inline]
    pub fn is_current(&self, of: Origin) -> bool {
        let word = self.words.get(of.number as usize);
        word.is_some_and(|word| round(word.load(Ordering::Relaxed)) == of.round)
    }

    /// Says what the frame `copy` holds a copy of, or that it holds none. By
    /// the owner of the copy.
    #[inline]
    pub fn set_origin(&self, copy: u32, of: Option<Origin>) {
        if let Some(origin) = self.origins.get(copy as usize) {
            let word = of.map_or(0, |of| {
                u64::from(of.round) << 32 | u64::from(of.number.wrapping_add(1))
            });
            origin.store(word, Ordering::Relaxed);
        }
    }

    /// Frame that this one is a copy of. For the owner of the copy.
    #[inline]
    pub fn origin(&self, copy: u32) -> Option<Origin> {
        let word = self.origins.get(copy as usize)?.load(Ordering::Relaxed);
        Some(Origin {
            number: (word as u32).checked_sub(1)?,
            round: round(word),
        })
    }
}
