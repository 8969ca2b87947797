//! Last holder of each frame: for finding frames that are leaked, or given back twice.
//!
//! A word per frame says whether it is in a pool or out, and which holder (a
//! port, a stage; the driver numbers them) had it last. Memory has one only
//! where it was asked for ([`crate::PacketMemory::checked`]): without it a
//! frame costs nothing of this.

use std::sync::atomic::{AtomicU32, Ordering};

/// Holder of a frame: a number that the driver gives a name.
pub type Holder = u16;

/// Frames given back twice that are remembered.
const REMEMBERED: usize = 16;
const OUT: u32 = 1 << 31;

/// Records about frames.
#[derive(Debug)]
pub(crate) struct Ledger {
    words: Box<[AtomicU32]>,
    doubled: AtomicU32,
    /// First and second giver of each of the first few.
    givers: [AtomicU32; REMEMBERED],
}

impl Ledger {
    pub(crate) fn new(frames: usize) -> Ledger {
        Ledger {
            words: (0..frames).map(|_| AtomicU32::new(0)).collect(),
            doubled: AtomicU32::new(0),
            givers: [const { AtomicU32::new(0) }; REMEMBERED],
        }
    }

    /// The frame of this number is with `holder` from now on.
    pub(crate) fn hold(&self, number: u32, holder: Holder) {
        if let Some(word) = self.words.get(number as usize) {
            word.store(OUT | u32::from(holder), Ordering::Relaxed);
        }
    }

    /// The frame was given back by `holder`; false where it was in a pool
    /// already.
    pub(crate) fn give(&self, number: u32, holder: Holder) -> bool {
        let word = self.words.get(number as usize);
        debug_assert!(word.is_some(), "a frame has a word");
        let Some(word) = word else { return true };
        let before = word.swap(u32::from(holder), Ordering::Relaxed);
        if before & OUT != 0 {
            return true;
        }
        let count = self.doubled.fetch_add(1, Ordering::Relaxed);
        if let Some(givers) = self.givers.get(count as usize) {
            let both = (before & 0xffff) << 16 | u32::from(holder);
            givers.store(both, Ordering::Relaxed);
        }
        false
    }

    /// Frames that are out, by who had them last.
    pub(crate) fn out(&self) -> Vec<(Holder, usize)> {
        let mut out: Vec<(Holder, usize)> = Vec::new();
        for word in &self.words {
            let word = word.load(Ordering::Relaxed);
            if word & OUT == 0 {
                continue;
            }
            let holder = word as Holder;
            match out.iter_mut().find(|(known, _)| *known == holder) {
                Some((_, count)) => *count += 1,
                None => out.push((holder, 1)),
            }
        }
        out.sort_unstable();
        out
    }

    /// Times that a frame was given back twice, and who did so for the first
    /// few: first and second giver.
    pub(crate) fn doubled(&self) -> (usize, Vec<(Holder, Holder)>) {
        let count = self.doubled.load(Ordering::Relaxed) as usize;
        let both = self.givers.iter().take(count);
        let both = both.map(|both| both.load(Ordering::Relaxed));
        (count, both.map(|b| ((b >> 16) as u16, b as u16)).collect())
    }
}
