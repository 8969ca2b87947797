//! An output at the end of a bad link, by the times of its packets.

use weir_packet::{Frame, FramePool, Time};

use super::frames::add;
use super::{Link, LinkSettings};
use crate::port::{OutputPort, PortCounters, PortError};

/// An output whose packets go through a link. Their times are those of their
/// arrival, so the result is the same whenever it is written; what is on its way
/// at the end arrives.
pub struct EmulatedOutput {
    inner: Box<dyn OutputPort>,
    link: Link<Frame>,
    arrived: Vec<Frame>,
    /// The latest time of a packet.
    now: Time,
}

impl std::fmt::Debug for EmulatedOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmulatedOutput").finish_non_exhaustive()
    }
}

impl EmulatedOutput {
    /// Puts a link of these settings in front of an output; `number` tells links
    /// of the same settings apart.
    pub fn new(inner: Box<dyn OutputPort>, settings: LinkSettings, number: u8) -> EmulatedOutput {
        EmulatedOutput {
            inner,
            link: Link::new(settings, 2 * u64::from(number) + 1),
            arrived: Vec::new(),
            now: Time::ZERO,
        }
    }

    /// Takes out what has arrived by a time.
    fn arrive(&mut self, until: Time, pool: &FramePool) {
        while let Some((due, mut frame)) = self.link.arrived(until) {
            pool.memory().meta_mut(&mut frame).time = due;
            self.arrived.push(frame);
        }
    }
}

impl OutputPort for EmulatedOutput {
    fn send(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) -> Result<(), PortError> {
        for frame in frames.drain(..) {
            // Packets may be out of order; a link's clock does not go back.
            self.now = self.now.max(pool.memory().meta(&frame).time);
            self.arrive(self.now, pool);
            self.link.put(self.now, pool, frame);
        }
        match self.arrived.is_empty() {
            true => Ok(()),
            false => self.inner.send(pool, &mut self.arrived),
        }
    }

    fn finish(&mut self, pool: &mut FramePool) -> Result<(), PortError> {
        self.arrive(Time(u64::MAX), pool);
        let sent = self.inner.send(pool, &mut self.arrived);
        sent.and(self.inner.finish(pool))
    }

    fn counters(&self) -> PortCounters {
        let mut counters = self.inner.counters();
        add(&mut counters, self.link.counts(), 0);
        // Each packet that was to go out is counted once, copies apart.
        counters.packets -= self.link.counts().duplicated.min(counters.packets);
        counters
    }
}
