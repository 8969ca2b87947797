//! Free frames of a runtime: where they come from when it runs short, and where they go
//! when it has too many.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_exec::frames::{self, BATCH, HIGH, LARGE_HIGH, LARGE_SHARE};
use weir_io::shared::{RingInput, RingOutput, Words};
use weir_io::stage::{StageInput as _, StageOutput as _};
use weir_packet::{Frame, FramePool};

use super::gauge::{FREE, FREE_LARGE};

/// See the module.
#[derive(Debug)]
pub(super) enum Supply {
    /// The reserve of the packet memory, which all threads of a process share.
    Reserve,
    /// Rings from and to the main process.
    Rings(RingSupply),
}

/// See [`Supply::Rings`].
#[derive(Debug)]
pub(super) struct RingSupply {
    pub(super) from_main: RingInput,
    pub(super) to_main: RingOutput,
    pub(super) status: Arc<Words>,
    pub(super) spare: Vec<Frame>,
}

impl Supply {
    /// Evens out the number of free frames. True where something was given that another
    /// thread may wait for.
    pub(super) fn settle(&mut self, pool: &mut FramePool) -> bool {
        let rings = match self {
            Supply::Reserve => return frames::settle(pool),
            Supply::Rings(rings) => rings,
        };
        if rings.from_main.take(&mut rings.spare, BATCH) > 0 {
            pool.give_all(&mut rings.spare);
        }
        let room = rings.to_main.room().min(BATCH);
        if pool.available_large() > LARGE_HIGH {
            let spare = pool.available_large() - LARGE_SHARE as usize;
            pool.take_spare_large(room.min(spare), &mut rings.spare);
        } else if pool.available_small() > HIGH {
            pool.take_spare(room, &mut rings.spare);
        }
        if !rings.spare.is_empty() {
            rings.to_main.give(&mut rings.spare);
            pool.give_all(&mut rings.spare);
        }
        let said = |free: usize| u32::try_from(free).unwrap_or(u32::MAX);
        rings.status[FREE].store(said(pool.available_small()), Ordering::Relaxed);
        rings.status[FREE_LARGE].store(said(pool.available_large()), Ordering::Relaxed);
        false
    }

    /// Numbers that named no frame.
    pub(super) fn bad(&self) -> u64 {
        match self {
            Supply::Reserve => 0,
            Supply::Rings(rings) => rings.from_main.bad(),
        }
    }

    /// The runtime is about to sleep; false where it must not.
    pub(super) fn prepare_park(&mut self) -> bool {
        match self {
            Supply::Reserve => true,
            Supply::Rings(rings) => rings.from_main.prepare_park(),
        }
    }

    /// The runtime is awake.
    pub(super) fn unpark(&mut self) {
        if let Supply::Rings(rings) = self {
            rings.from_main.unpark();
        }
    }
}
