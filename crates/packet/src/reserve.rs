//! The reserve that the pools of one memory share: batches of free frames, in
//! no pool, for a pool that runs out.
//!
//! A stack of batches, each a list of frames; both are lists of frame numbers
//! in two arrays, so nothing is allocated. A whole batch is pushed or taken by
//! one exchange of the stack's top: no lock, and one atomic operation for 64
//! frames or so.
//!
//! # Order
//!
//! The writes of a pusher (the lists, and all it did to the frames) are released by its exchange
//! of the top and acquired by that of the taker. A taker reads
//! below the top before it knows whether the top is still its own; the top
//! carries a count that every exchange moves on, so that what it read counts
//! only if nothing was exchanged since.

use super::atomic::{AtomicU32, AtomicU64, Ordering};

/// Batches of frames, by their numbers.
#[derive(Debug)]
pub(crate) struct Reserve {
    /// Exchanges in the upper half; below, the first frame of the topmost batch
    /// plus one, 0 for none.
    top: AtomicU64,
    /// By frame: the next one of its batch plus one.
    next: Box<[AtomicU32]>,
    /// By the first frame of a batch: that of the batch below, plus one.
    below: Box<[AtomicU32]>,
    /// Frames here, about.
    count: AtomicU32,
}

impl Reserve {
    pub(crate) fn new(frames: usize) -> Reserve {
        let zeros = || (0..frames).map(|_| AtomicU32::new(0)).collect();
        Reserve {
            top: AtomicU64::new(0),
            next: zeros(),
            below: zeros(),
            count: AtomicU32::new(0),
        }
    }

    /// Frames here, about.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed) as usize
    }

    /// Pushes a batch: frames that are the caller's, by their numbers.
    pub(crate) fn push(&self, frames: impl IntoIterator<Item = u32>) {
        let (mut first, mut count) = (0, 0u32);
        for number in frames {
            if let Some(next) = self.next.get(number as usize) {
                next.store(first, Ordering::Relaxed);
                first = number + 1;
                count += 1;
            }
        }
        let Some(below) = (first as usize)
            .checked_sub(1)
            .and_then(|number| self.below.get(number))
        else {
            return;
        };
        // Before the batch can be taken, or the count would go below zero.
        self.count.fetch_add(count, Ordering::Relaxed);
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            below.store(top as u32, Ordering::Relaxed);
            let new = moved_on(top, first);
            let done =
                self.top
                    .compare_exchange_weak(top, new, Ordering::AcqRel, Ordering::Relaxed);
            match done {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// Takes a batch: calls `each` with its frames, which are the caller's from
    /// then on. False where there is none.
    pub(crate) fn pop(&self, mut each: impl FnMut(u32)) -> bool {
        let mut top = self.top.load(Ordering::Acquire);
        let mut number = loop {
            let Some(number) = (top as u32).checked_sub(1) else {
                return false;
            };
            let below = self.below.get(number as usize);
            let below = below.map_or(0, |below| below.load(Ordering::Relaxed));
            let new = moved_on(top, below);
            let done =
                self.top
                    .compare_exchange_weak(top, new, Ordering::AcqRel, Ordering::Acquire);
            match done {
                Ok(_) => break number,
                Err(now) => top = now,
            }
        };
        let mut count = 0;
        loop {
            let next = self.next.get(number as usize);
            let next = next.map_or(0, |next| next.load(Ordering::Relaxed));
            each(number);
            count += 1;
            match next.checked_sub(1) {
                Some(next) => number = next,
                None => break,
            }
        }
        self.count.fetch_sub(count, Ordering::Relaxed);
        true
    }
}

/// The top after another exchange.
const fn moved_on(top: u64, first: u32) -> u64 {
    ((top >> 32).wrapping_add(1) << 32) | first as u64
}
