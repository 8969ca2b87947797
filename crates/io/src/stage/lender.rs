//! Frames that a port lends, and how they come back.
//!
//! A port that copies has a pool of its own. The copies end in other threads,
//! from where rings bring them back: a pool has no lock.

use std::sync::Arc;

use rtrb::{Consumer, Producer, RingBuffer};
use weir_packet::{Frame, FrameMeta, FramePool, NoFrame, PacketMemory};

use super::StageError;

/// A pool whose frames are used in other threads.
#[derive(Debug)]
pub struct Lender {
    pool: FramePool,
    returns: Vec<Consumer<Frame>>,
    /// Frames that the pool began with.
    frames: usize,
}

/// The return path for frames of a [`Lender`], from one thread.
#[derive(Debug)]
pub struct ReturnPath {
    ring: Producer<Frame>,
    /// Frames without a place: only where more come back than were lent.
    waiting: Vec<Frame>,
}

impl Lender {
    /// Lends frames of this share of a pool.
    pub fn new(pool: FramePool) -> Lender {
        Lender {
            frames: pool.available(),
            pool,
            returns: Vec::new(),
        }
    }

    /// A return path, for one thread.
    pub fn return_path(&mut self) -> ReturnPath {
        let (producer, consumer) = RingBuffer::new(self.frames.max(1));
        self.returns.push(consumer);
        ReturnPath {
            ring: producer,
            waiting: Vec::new(),
        }
    }

    /// The memory that the frames lie in.
    pub fn memory(&self) -> &Arc<PacketMemory> {
        self.pool.memory()
    }

    /// Frames that can be lent now, those of both sizes together.
    pub fn available(&self) -> usize {
        let back = self.returns.iter().map(Consumer::slots);
        self.pool.available() + back.sum::<usize>()
    }

    /// Makes sure that there are `needed` frames of each size at least.
    pub(super) fn has_for_each_size(&mut self, needed: usize) -> Result<(), StageError> {
        let layout = *self.memory().layout();
        let mut large = 0;
        if layout.large_frames > 0 {
            large = layout.largest_packet();
        }
        let mut frames = Vec::with_capacity(2 * needed);
        let sizes = [large, 0];
        for size in &sizes[usize::from(large == 0)..] {
            frames.extend((0..needed).map_while(|_| self.pool.take(*size).ok()));
        }
        let missing = frames.len() < needed * (1 + usize::from(large > 0));
        self.pool.give_all(&mut frames);
        if missing {
            return Err(StageError::PoolTooSmall { needed });
        }
        Ok(())
    }

    /// A frame that holds a copy of `bytes`, with `meta`.
    ///
    /// # Errors
    ///
    /// As [`FramePool::copy`].
    pub fn copy(&mut self, bytes: &[u8], meta: FrameMeta) -> Result<Frame, NoFrame> {
        match self.pool.copy(bytes, meta) {
            Err(NoFrame::Exhausted) => {
                self.collect();
                self.pool.copy(bytes, meta)
            }
            done => done,
        }
    }

    /// Takes a frame back that was not used.
    pub fn give(&mut self, frame: Frame) {
        self.pool.give(frame);
    }

    /// Takes in what has come back.
    pub fn collect(&mut self) {
        for back in &mut self.returns {
            let frames = back.slots();
            if frames > 0
                && let Ok(chunk) = back.read_chunk(frames)
            {
                chunk.into_iter().for_each(|frame| self.pool.give(frame));
            }
        }
    }

    /// The pool, with all that has come back. To be called when the threads
    /// that have its frames are over: what comes back later is lost.
    pub fn into_pool(mut self) -> FramePool {
        self.collect();
        self.pool
    }
}

impl ReturnPath {
    /// Sends a frame back.
    pub fn send(&mut self, frame: Frame) {
        while let Some(waiting) = self.waiting.pop() {
            if let Err(rtrb::PushError::Full(waiting)) = self.ring.push(waiting) {
                self.waiting.push(waiting);
                break;
            }
        }
        if let Err(rtrb::PushError::Full(frame)) = self.ring.push(frame) {
            self.waiting.push(frame);
        }
    }
}
