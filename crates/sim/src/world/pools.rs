//! Packet memory of processes, used again from run to run: to reserve and clear
//! it costs more than a short run does.

use weir_packet::{FramePool, MemoryLayout};

/// Pools that are kept at most.
const MOST: usize = 24;

/// Packet memory that no process uses now.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    free: Vec<FramePool>,
}

/// A copy has no memory of its own yet.
impl Clone for Pools {
    fn clone(&self) -> Pools {
        Pools::default()
    }
}

impl Pools {
    /// A pool of this layout.
    pub(super) fn take(&mut self, layout: MemoryLayout) -> FramePool {
        let is_one = |pool: &FramePool| *pool.memory().layout() == layout;
        match self.free.iter().position(is_one) {
            Some(at) => self.free.swap_remove(at),
            None => FramePool::with_layout(layout),
        }
    }

    /// Half of them, for another world.
    pub(super) fn half(&mut self) -> Pools {
        Pools {
            free: self.free.split_off(self.free.len() / 2),
        }
    }

    /// Takes those of another world, as many as are kept.
    pub(super) fn merge(&mut self, other: Pools) {
        let room = MOST.saturating_sub(self.free.len());
        self.free.extend(other.free.into_iter().take(room));
    }

    /// Keeps a pool for another process, unless frames of it are missing: they
    /// died with their process.
    pub(super) fn give(&mut self, pool: FramePool) {
        if pool.outstanding() == 0 && self.free.len() < MOST {
            self.free.push(pool);
        }
    }
}

/// Memory with `frames` frames for what an Ethernet carries.
pub(super) const fn layout(frames: u32) -> MemoryLayout {
    MemoryLayout {
        small_frames: frames,
        small_bytes: 33 * 64,
        large_frames: 8,
        large_bytes: 1_025 * 64,
    }
}
