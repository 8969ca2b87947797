//! Links that packets go through, and how ports count what those did.

use weir_packet::{Frame, FramePool, Time};

use super::{Link, LinkCounts};
use crate::port::{PortCounters, PortDrop, PortNotice};

impl Link<Frame> {
    /// Sends a frame; one that is lost goes back to the pool.
    pub(super) fn put(&mut self, now: Time, pool: &mut FramePool, frame: Frame) {
        let memory = std::sync::Arc::clone(pool.memory());
        let octets = memory.meta(&frame).len as usize;
        let back = self.send(now, octets, frame, |frame| {
            let (meta, bytes) = memory.read(frame);
            pool.copy(bytes, *meta).ok()
        });
        if let Some(frame) = back {
            pool.give(frame);
        }
    }
}

/// Counts of a link, as a port has them.
pub(super) fn add(counters: &mut PortCounters, link: LinkCounts, left: u64) {
    let (drops, noticed) = (&mut counters.drops, &mut counters.noticed);
    drops.add_many(PortDrop::EmulatedLoss, link.lost);
    drops.add_many(PortDrop::EmulatedOverflow, link.overflow);
    drops.add_many(PortDrop::EmulatedUnfinished, left);
    noticed.add_many(PortNotice::EmulatedDuplicate, link.duplicated);
    noticed.add_many(PortNotice::EmulatedReorder, link.reordered);
}
