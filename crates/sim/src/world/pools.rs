//! Packet memory of processes, used again from run to run: to reserve and clear
//! it costs more than a short run does.

use weir_packet::{FramePool, MemoryLayout};

/// Pools that are kept at most.
const MOST: usize = 24;

/// Packet memory that no process uses now.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    /// Each with its number of small frames.
    free: Vec<(u32, FramePool)>,
}

/// A copy has no memory of its own yet.
impl Clone for Pools {
    fn clone(&self) -> Pools {
        Pools::default()
    }
}

impl Pools {
    /// A pool with `frames` frames for what an Ethernet carries.
    pub(super) fn take(&mut self, frames: u32) -> FramePool {
        match self.free.iter().position(|(size, _)| *size == frames) {
            Some(at) => self.free.swap_remove(at).1,
            None => FramePool::with_layout(layout(frames)),
        }
    }

    /// Keeps a pool for another process, unless frames of it are missing: they
    /// died with their process.
    pub(super) fn give(&mut self, pool: FramePool) {
        let frames = pool.memory().layout().small_frames;
        if pool.outstanding() == 0 && self.free.len() < MOST {
            self.free.push((frames, pool));
        }
    }
}

const fn layout(frames: u32) -> MemoryLayout {
    MemoryLayout {
        small_frames: frames,
        small_bytes: 33 * 64,
        large_frames: 8,
        large_bytes: 1_025 * 64,
    }
}
