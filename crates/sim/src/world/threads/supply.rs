//! Free frames of a runtime that is a process: they come and go over queues of their own, as
//! in the driver (`weir::driver`: `supply.rs`, `cluster/process/home.rs`).

use weir_packet::shares::{BATCH, HIGH, LARGE_HIGH, LARGE_SHARE, SHARE};
use weir_packet::{Frame, FramePool};

use crate::world::ring::Ring;

/// Places of each queue.
const PLACES: usize = 512;

/// The queues, and what the process has said of its pool.
#[derive(Debug)]
pub(super) struct Supply {
    to_it: Ring<Frame>,
    home: Ring<Frame>,
    free: usize,
    free_large: usize,
}

impl Supply {
    pub(super) fn new() -> Supply {
        Supply {
            to_it: Ring::new(PLACES),
            home: Ring::new(PLACES),
            free: 0,
            free_large: 0,
        }
    }

    /// Frames on their way.
    pub(super) fn frames(&self) -> usize {
        self.to_it.len() + self.home.len()
    }

    /// The process is over: its queues are emptied.
    pub(super) fn take_back(&mut self, pool: &mut FramePool) {
        let mut all = Vec::new();
        self.take_all(&mut all);
        pool.give_all(&mut all);
    }

    pub(super) fn take_all(&mut self, into: &mut Vec<Frame>) {
        into.extend(self.to_it.take(usize::MAX));
        into.extend(self.home.take(usize::MAX));
    }

    /// The runtime evens out the number of its free frames. True where the switch's thread
    /// has something to do for it.
    pub(super) fn settle(&mut self, pool: &mut FramePool) -> bool {
        let mut spare: Vec<Frame> = self.to_it.take(BATCH).collect();
        pool.give_all(&mut spare);
        let room = (PLACES - self.home.len()).min(BATCH);
        if pool.available_large() > LARGE_HIGH {
            let large = pool.available_large() - LARGE_SHARE as usize;
            pool.take_spare_large(room.min(large), &mut spare);
        } else if pool.available_small() > HIGH {
            pool.take_spare(room, &mut spare);
        }
        spare.into_iter().for_each(|frame| self.home.push(frame));
        self.free = pool.available_small();
        self.free_large = pool.available_large();
        self.free < SHARE as usize || !self.home.is_empty()
    }

    /// True where the process finds free frames in its queue.
    pub(super) fn brings(&self) -> bool {
        !self.to_it.is_empty()
    }

    /// True where it has no frames yet.
    pub(super) fn is_new(&self) -> bool {
        self.free == 0
    }

    /// The switch's thread keeps the balance of a process's free frames.
    pub(super) fn attend(&mut self, pool: &mut FramePool) {
        let mut frames: Vec<Frame> = self.home.take(BATCH).collect();
        pool.give_all(&mut frames);
        // Frames that were sent and not yet taken count, or they would be sent again.
        if self.to_it.is_empty() {
            if self.free_large < LARGE_SHARE as usize / 2 {
                pool.take_spare_large(LARGE_SHARE as usize, &mut frames);
            }
            if self.free < SHARE as usize {
                pool.take_spare(BATCH, &mut frames);
            }
            frames.into_iter().for_each(|frame| self.to_it.push(frame));
        }
    }
}
