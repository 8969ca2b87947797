//! Packets that come at their time, whatever becomes of those before.

use std::time::Instant;

use weir_io::port::{GeneratorInput, InputPort};
use weir_packet::{Frame, FramePool, Time};

/// A source of so many packets a second.
///
/// A packet's time is when it should have come: one that had to wait because
/// the receiver was late counts its wait as latency.
pub(crate) struct Paced {
    source: GeneratorInput,
    rate: u64,
    start: Instant,
    sent: u64,
    /// Packet time of the start.
    base: u64,
}

impl Paced {
    /// From now on.
    pub(crate) fn new(source: GeneratorInput, rate: u64, base: u64) -> Paced {
        Paced {
            source,
            rate,
            start: Instant::now(),
            sent: 0,
            base,
        }
    }

    /// Packet time, now.
    pub(crate) fn now(&self) -> u64 {
        self.base + self.start.elapsed().as_nanos() as u64
    }

    /// Packets that are due, `most` at most.
    pub(crate) fn receive(
        &mut self,
        pool: &mut FramePool,
        into: &mut Vec<Frame>,
        most: usize,
    ) -> Result<(), String> {
        let elapsed = self.start.elapsed().as_nanos();
        let due = (elapsed * u128::from(self.rate) / 1_000_000_000) as u64;
        let count = most.min(due.saturating_sub(self.sent) as usize);
        if count == 0 {
            return Ok(());
        }
        let first = into.len();
        self.source
            .receive(pool, into, count)
            .map_err(|error| error.to_string())?;
        let memory = pool.memory().clone();
        for frame in into.iter_mut().skip(first) {
            let ns = u128::from(self.sent) * 1_000_000_000 / u128::from(self.rate);
            memory.meta_mut(frame).time = Time(self.base + ns as u64);
            self.sent += 1;
        }
        Ok(())
    }
}
