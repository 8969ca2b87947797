//! An interface at the end of a bad link.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use weir_packet::{Frame, FramePool, Time};

use super::frames::add;
use super::{Link, LinkSettings};
use crate::live::{LiveClock, LiveOptions, LivePort};
use crate::port::{InputPort, OutputPort, PortCounters, PortError, Received};

/// A live port with a link in each direction, which go by the machine's clock.
pub struct EmulatedPort {
    inner: Box<dyn LivePort>,
    clock: LiveClock,
    mode: String,
    inward: Link<Frame>,
    outward: Link<Frame>,
    /// Packets on their way between the links and the port.
    queue: Vec<Frame>,
    /// Packets and bytes that came in.
    came: (u64, u64),
    /// Packets that were to go out, and the bytes of those that went to the
    /// port, copies apart.
    given: (u64, u64),
    /// Packets that were on their way in when the port was closed.
    left_inward: u64,
    /// The same on their way out; copies are nobody's.
    left_outward: u64,
}

impl std::fmt::Debug for EmulatedPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmulatedPort").finish_non_exhaustive()
    }
}

impl EmulatedPort {
    /// Puts links of these settings in front of a port.
    pub fn new(
        inner: Box<dyn LivePort>,
        settings: LinkSettings,
        options: LiveOptions,
    ) -> EmulatedPort {
        let number = 2 * u64::from(options.number);
        EmulatedPort {
            mode: format!("{}; a link with {settings} is emulated", inner.mode()),
            inner,
            clock: options.clock,
            inward: Link::new(settings, number),
            outward: Link::new(settings, number + 1),
            queue: Vec::new(),
            came: (0, 0),
            given: (0, 0),
            left_inward: 0,
            left_outward: 0,
        }
    }

    /// Packets that have passed the link by now, and whether each is a copy.
    fn goes_out(&mut self, now: Time) -> Option<(Frame, bool)> {
        let copied = self.outward.is_next_a_copy();
        let (_, frame) = self.outward.arrived(now)?;
        Some((frame, copied))
    }

    /// Puts out what has come to the end of its way.
    fn flush(&mut self, now: Time, pool: &mut FramePool) -> Result<(), PortError> {
        while let Some((frame, copied)) = self.goes_out(now) {
            if !copied {
                self.given.1 += u64::from(pool.memory().meta(&frame).len);
            }
            self.queue.push(frame);
        }
        match self.queue.is_empty() {
            true => Ok(()),
            false => self.inner.send(pool, &mut self.queue),
        }
    }
}

impl InputPort for EmulatedPort {
    fn receive(
        &mut self,
        pool: &mut FramePool,
        into: &mut Vec<Frame>,
        max: usize,
    ) -> Result<Received, PortError> {
        let now = self.clock.now();
        let flushed = self.flush(now, pool);
        let mut came = std::mem::take(&mut self.queue);
        let received = self.inner.receive(pool, &mut came, max);
        for frame in came.drain(..) {
            self.inward.put(now, pool, frame);
        }
        self.queue = came;
        let memory = Arc::clone(pool.memory());
        let full = into.len().saturating_add(max);
        while into.len() < full
            && let Some((_, mut frame)) = self.inward.arrived(now)
        {
            let meta = memory.meta_mut(&mut frame);
            meta.time = now;
            self.came.0 += 1;
            self.came.1 += u64::from(meta.len);
            into.push(frame);
        }
        flushed.and(received)
    }

    fn counters(&self) -> PortCounters {
        let mut counters = InputPort::counters(&*self.inner);
        (counters.packets, counters.bytes) = self.came;
        add(&mut counters, self.inward.counts(), self.left_inward);
        counters.mode = Some(self.mode.clone());
        counters
    }
}

impl OutputPort for EmulatedPort {
    fn send(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) -> Result<(), PortError> {
        let now = self.clock.now();
        self.given.0 += frames.len() as u64;
        for frame in frames.drain(..) {
            self.outward.put(now, pool, frame);
        }
        self.flush(now, pool)
    }

    fn finish(&mut self, pool: &mut FramePool) -> Result<(), PortError> {
        self.inner.finish(pool)
    }

    fn counters(&self) -> PortCounters {
        let mut counters = OutputPort::counters(&*self.inner);
        add(&mut counters, self.outward.counts(), self.left_outward);
        // Copies were sent besides: each packet that was to go out is counted
        // once.
        counters.packets = self.given.0.saturating_sub(counters.dropped());
        counters.bytes = self.given.1;
        counters.mode = Some(self.mode.clone());
        counters
    }
}

impl LivePort for EmulatedPort {
    fn mode(&self) -> &str {
        &self.mode
    }

    fn warnings(&self) -> Vec<String> {
        self.inner.warnings()
    }

    fn news(&mut self) -> Option<String> {
        self.inner.news()
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        self.inner.descriptors(into);
    }

    fn next_due(&self) -> Option<Time> {
        let links = [self.inward.next_due(), self.outward.next_due()];
        let dues = links.into_iter().chain([self.inner.next_due()]);
        dues.flatten().min()
    }

    fn check(&mut self) -> Result<(), PortError> {
        self.inner.check()
    }

    fn close(&mut self, pool: &mut FramePool) {
        while let Some((_, frame)) = self.inward.arrived(Time(u64::MAX)) {
            self.left_inward += 1;
            pool.give(frame);
        }
        while let Some((frame, copied)) = self.goes_out(Time(u64::MAX)) {
            self.left_outward += u64::from(!copied);
            pool.give(frame);
        }
        pool.give_all(&mut self.queue);
        self.inner.close(pool);
    }
}
