//! Ports: where packets come into weir and go out of it.
//!
//! A port moves frames between a packet memory and the world, in bursts. What
//! it can't take in or put out it counts under a reason; it never drops in
//! silence.

mod capture_in;
mod capture_out;
mod generator;
mod memory;
mod merged;
mod null;
mod spec;
#[cfg(test)]
mod tests;

use std::fmt;

use weir_packet::{Frame, FramePool};

pub use capture_in::CaptureInput;
pub use capture_out::CaptureOutput;
pub use generator::GeneratorInput;
pub use memory::{MemoryInput, MemoryOutput, Sent};
pub use merged::MergedInput;
pub use null::Null;
pub use spec::{PortSpec, SpecError, check_apart};

/// A place where packets come in.
pub trait InputPort {
    /// Takes up to `max` packets in, at the end of `into`. Fewer (or none) come
    /// where the pool has no frame left or nothing is there now.
    ///
    /// # Errors
    ///
    /// Where the port can't go on; packets added before stay valid.
    fn receive(
        &mut self,
        pool: &mut FramePool,
        into: &mut Vec<Frame>,
        max: usize,
    ) -> Result<Received, PortError>;

    /// Reads no more. True where the port holds packets that were read and have
    /// not come: those still come, and then the end.
    fn end(&mut self) -> bool {
        false
    }

    /// What was counted so far.
    fn counters(&self) -> PortCounters;

    /// Share of the input that was read, 0 to 1, where it is known.
    fn progress(&self) -> Option<f64> {
        None
    }
}

/// A place where packets go out.
pub trait OutputPort {
    /// Puts all `frames` out and gives them back to `pool`. What can't be put
    /// out is counted.
    ///
    /// # Errors
    ///
    /// Where the port can't go on (the disk is full). The frames are back in
    /// the pool all the same; those that were not put out are counted `failed`.
    fn send(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) -> Result<(), PortError>;

    /// Ends it: puts out what it holds and flushes what is buffered.
    ///
    /// # Errors
    ///
    /// As [`OutputPort::send`].
    fn finish(&mut self, pool: &mut FramePool) -> Result<(), PortError> {
        let _ = pool;
        Ok(())
    }

    /// What was counted so far.
    fn counters(&self) -> PortCounters;
}

/// What came of a call to [`InputPort::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// There may be more.
    More,
    /// That was all.
    End,
}

/// Counts of one port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Packets taken in, or put out.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that could not be, by reason. Those of an input are not in
    /// `packets`.
    pub drops: Vec<(&'static str, u64)>,
    /// Bytes of the packets dropped.
    pub dropped_bytes: u64,
    /// Packets that are in `packets`, but with something an operator should
    /// know of, by name.
    pub noticed: Vec<(&'static str, u64)>,
    /// What a live port really is: the mode that was obtained.
    pub mode: Option<String>,
    /// The input ended before it should have: what is wrong with it. All
    /// packets before were taken in.
    pub cut_short: Option<String>,
}

impl PortCounters {
    /// Packets that could not be taken in or put out.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(|(_, n)| n).sum()
    }

    /// Adds what another member of the same port has counted.
    pub fn add(&mut self, other: &PortCounters) {
        fn merge(sum: &mut Vec<(&'static str, u64)>, other: &[(&'static str, u64)]) {
            for (name, count) in other {
                match sum.iter_mut().find(|(known, _)| known == name) {
                    Some((_, sum)) => *sum += count,
                    None => sum.push((name, *count)),
                }
            }
        }
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.dropped_bytes += other.dropped_bytes;
        merge(&mut self.drops, &other.drops);
        merge(&mut self.noticed, &other.noticed);
        self.mode = self.mode.take().or_else(|| other.mode.clone());
        self.cut_short = self.cut_short.take().or_else(|| other.cut_short.clone());
    }

    pub(crate) fn dropped_for(reasons: &[(&'static str, u64)]) -> Vec<(&'static str, u64)> {
        reasons.iter().copied().filter(|(_, n)| *n > 0).collect()
    }
}

/// A port that can't be opened or can't go on.
#[derive(Debug)]
pub struct PortError {
    /// The port, as it was written.
    pub port: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.port, self.message)
    }
}

impl std::error::Error for PortError {}

impl PortError {
    /// That this port can't go on, and why.
    pub fn new(port: &str, message: impl fmt::Display) -> PortError {
        PortError {
            port: port.to_owned(),
            message: message.to_string(),
        }
    }
}
