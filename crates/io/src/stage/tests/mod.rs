//! Tests of the ports between stages.

mod balanced;
mod lost;
mod parallel;
mod point;
mod threads;
mod world;

use weir_packet::{Frame, FrameMeta, FramePool, MemoryLayout};

use super::*;

/// A pool of small frames and a few large ones.
fn pool(small: u32) -> FramePool {
    FramePool::with_layout(MemoryLayout {
        small_frames: small,
        small_bytes: 512,
        large_frames: 4,
        large_bytes: 4_096,
    })
}

/// A packet with this number.
fn packet(pool: &mut FramePool, sequence: u64) -> Frame {
    let mut meta = FrameMeta::default();
    meta.sequence = sequence;
    pool.copy(&sequence.to_be_bytes(), meta).expect("a frame")
}

/// Numbers of the frames, which go back to the pool.
fn numbers(pool: &mut FramePool, frames: &mut Vec<Frame>) -> Vec<u64> {
    let memory = pool.memory().clone();
    let numbers = frames
        .iter()
        .map(|frame| memory.meta(frame).sequence)
        .collect();
    pool.give_all(frames);
    numbers
}

/// A generator of test choices (SplitMix64).
struct Choices(u64);

impl Choices {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}
