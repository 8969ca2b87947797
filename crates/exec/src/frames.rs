//! Free frames of one packet memory, in the pools of several threads.

use rtrb::Consumer;
use weir_packet::{Frame, FramePool};

pub use weir_packet::shares::{
    BATCH, HIGH, LARGE_HIGH, LARGE_SHARE, LOW, SHARE, balance, settle, take_reserve,
};

/// Moves the frames of a queue into a pool.
pub fn take_in(pool: &mut FramePool, queue: &mut Consumer<Frame>) {
    let frames = queue.slots();
    if frames > 0
        && let Ok(chunk) = queue.read_chunk(frames)
    {
        chunk.into_iter().for_each(|frame| pool.give(frame));
    }
}
