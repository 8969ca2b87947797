//! Packet memory of processes, used again from run to run: to reserve and clear
//! it costs more than a short run does.

use std::cell::RefCell;

use weir_packet::{FramePool, MemoryLayout};

/// Pools that a thread keeps at most.
const MOST: usize = 24;

thread_local! {
    static FREE: RefCell<Vec<(u32, FramePool)>> = const { RefCell::new(Vec::new()) };
}

/// A pool with `frames` frames for what an Ethernet carries.
pub(super) fn take(frames: u32) -> FramePool {
    let known = FREE.with_borrow_mut(|free| {
        let at = free.iter().position(|(size, _)| *size == frames)?;
        Some(free.swap_remove(at).1)
    });
    known.unwrap_or_else(|| FramePool::with_layout(layout(frames)))
}

const fn layout(frames: u32) -> MemoryLayout {
    MemoryLayout {
        small_frames: frames,
        small_bytes: 33 * 64,
        large_frames: 8,
        large_bytes: 1_025 * 64,
    }
}

/// Keeps a pool for the next process, unless frames of it are missing: they
/// died with their process.
pub(super) fn give(pool: FramePool) {
    if pool.outstanding() > 0 {
        return;
    }
    let frames = pool.memory().layout().small_frames;
    FREE.with_borrow_mut(|free| {
        if free.len() < MOST {
            free.push((frames, pool));
        }
    });
}
