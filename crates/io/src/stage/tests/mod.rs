//! Tests of the ports between stages.

mod point;

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
