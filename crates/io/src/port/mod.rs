//! Ports: where packets come into weir and go out of it.
//!
//! A port moves frames between a packet memory and the world, in bursts. Each
//! packet that it can't take in or put out is counted under a reason.

mod capture_in;
mod capture_out;
mod counters;
mod generator;
mod memory;
mod merged;
mod null;
mod pipe;
mod spec;
#[cfg(test)]
mod tests;

use std::fmt;

use weir_packet::{Frame, FramePool};

pub use capture_in::CaptureInput;
pub use capture_out::CaptureOutput;
pub use counters::{PortCounters, PortDrop, PortNotice};
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
    /// If the port can't go on; packets added before stay valid.
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

    /// Counts so far.
    fn counters(&self) -> PortCounters;

    /// Share of the input that was read, 0 to 1, where it is known.
    fn progress(&self) -> Option<f64> {
        None
    }
}

/// A place where packets go out.
pub trait OutputPort {
    /// Puts all `frames` out and gives them back to `pool`. Drops are
    /// counted.
    ///
    /// # Errors
    ///
    /// If the port can't go on (the disk is full). The frames are back in
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

    /// Counts so far.
    fn counters(&self) -> PortCounters;
}

/// Result of a call to [`InputPort::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// There may be more.
    More,
    /// That was all.
    End,
}

/// A port that can't be opened or can't go on.
#[derive(Debug)]
pub struct PortError {
    /// The port, as it was written.
    pub port: String,
    /// The fault, and its remedy.
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
