//! What threads may keep of the free frames of one packet memory: what one of them hoards
//! another lacks, and at last the ports' thread takes nothing in any more.

use weir_packet::shares::{BATCH, HIGH, LARGE_HIGH, SHARE};
use weir_protocol::in_process::{BURST, PER_PACKET, kept_back};

use crate::check::Invariant;
use crate::world::World;
use crate::world::links::ProcessNo;

/// Free small frames that a runtime has at most when it is quiet: what it gives nothing back
/// of, and what it may have got in its last round beyond the batch that it gave then.
const MOST: usize = HIGH + 2 * BATCH + BURST * PER_PACKET;
/// Large ones: all that are too many it gives back at once.
const MOST_LARGE: usize = LARGE_HIGH + BURST;
/// Small frames in the reserve: what the ports' thread leaves there, and a batch of each runtime.
const RESERVED: usize = SHARE as usize + BATCH;

impl World<'_> {
    /// The ports' thread took packets in: what is kept back for entries, events and messages
    /// is there still.
    pub(super) fn look_at_reserve(&mut self, switch: ProcessNo, members: usize) {
        let living = self.processes.get(switch).and_then(|p| p.living.as_ref());
        let Some(free) = living.map(|(_, pool)| pool.available()) else {
            return;
        };
        let right = kept_back(members);
        if free < right {
            let text = format!("the ports left {free} free frames, {right} are kept back");
            self.checker.violated(Invariant::Conservation, None, text);
        }
    }

    /// All is let out: no runtime, and not the reserve, has more free frames than it may keep.
    pub(in crate::world) fn look_for_hoards(&mut self) {
        let Some(threads) = &self.threads else {
            return;
        };
        let pool_of = |no: ProcessNo| Some(&self.processes.get(no)?.living.as_ref()?.1);
        let mut text = None;
        for (no, _) in threads.runtimes.iter().filter(|(_, t)| t.supply.is_none()) {
            let Some(pool) = pool_of(*no) else {
                continue;
            };
            let (small, large) = (pool.available_small(), pool.available_large());
            if small > MOST || large > MOST_LARGE {
                text = Some(format!("r{no} keeps {small} + {large} free frames"));
            }
        }
        if let Some(pool) = self.switch.and_then(pool_of) {
            let runtimes = threads.runtimes.len();
            let (small, large) = (pool.memory().in_reserve(), pool.memory().large_in_reserve());
            if small > RESERVED + runtimes * BATCH || large > runtimes * MOST_LARGE {
                text = Some(format!("the reserve keeps {small} + {large} frames"));
            }
        }
        if let Some(text) = text {
            self.checker.violated(Invariant::Leak, None, text);
        }
    }
}
