//! Notices of the first stage to the later ones.

use weir_nf::host::BURST;
use weir_packet::{Frame, FramePool};

use super::notices::LONGEST;

/// Ends in a burst, at most: see `expire` and `open`, which ends what is due
/// for each packet that finds the table full.
const ENDS_PER_BURST: usize = BURST * (BURST + 3) + 256;

/// Notices on their way to the later stages.
#[derive(Debug)]
pub(crate) struct Feed {
    /// Notices that are in no frame yet.
    pub(super) told: Vec<u8>,
    /// Packets of a burst behind them; the report counts them as out.
    pub(super) waiting: Vec<Frame>,
}

impl Feed {
    pub(crate) fn new(flows: u32, scopes: usize) -> Feed {
        let ends = ENDS_PER_BURST.min(flows as usize + 2 * BURST);
        Feed {
            told: Vec::with_capacity((ends + 2 * BURST) * (scopes + 1) * LONGEST),
            waiting: Vec::with_capacity(BURST + weir_nf::host::MAX_EMITS),
        }
    }

    /// Forgets what was not told, and drops what waits for it.
    pub(crate) fn drop_told(&mut self, pool: &mut FramePool) {
        self.told.clear();
        pool.give_all(&mut self.waiting);
    }
}
