//! Ports in memory: for tests and for programs that hold packets already.

use weir_packet::{Frame, FrameMeta, FramePool, NoFrame};

use super::{InputPort, OutputPort, PortCounters, PortDrop, PortError, Received};

/// Gives out packets that it was given.
#[derive(Clone, Debug, Default)]
pub struct MemoryInput {
    packets: std::collections::VecDeque<(FrameMeta, Vec<u8>)>,
    taken: u64,
    bytes: u64,
    too_large: u64,
}

impl MemoryInput {
    /// These packets, in this order; `start`, `len` and `sequence` of their
    /// metadata are set when they are given out.
    pub fn new(packets: impl IntoIterator<Item = (FrameMeta, Vec<u8>)>) -> MemoryInput {
        MemoryInput {
            packets: packets.into_iter().collect(),
            ..MemoryInput::default()
        }
    }
}

impl InputPort for MemoryInput {
    fn receive(
        &mut self,
        pool: &mut FramePool,
        into: &mut Vec<Frame>,
        max: usize,
    ) -> Result<Received, PortError> {
        for _ in 0..max {
            let Some((meta, bytes)) = self.packets.front() else {
                return Ok(Received::End);
            };
            let sequence = self.taken + self.too_large + 1;
            let mut meta = *meta;
            meta.sequence = sequence;
            match pool.copy(bytes, meta) {
                Ok(frame) => {
                    self.taken += 1;
                    self.bytes += bytes.len() as u64;
                    into.push(frame);
                }
                Err(NoFrame::TooLarge) => self.too_large += 1,
                Err(NoFrame::Exhausted) => return Ok(Received::More),
            }
            self.packets.pop_front();
        }
        Ok(Received::More)
    }

    fn counters(&self) -> PortCounters {
        PortCounters {
            packets: self.taken,
            bytes: self.bytes,
            drops: [(PortDrop::FrameTooLarge, self.too_large)]
                .into_iter()
                .collect(),
            ..PortCounters::default()
        }
    }
}

/// A packet that went out.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Its metadata.
    pub meta: FrameMeta,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Keeps the packets that go out.
#[derive(Clone, Debug, Default)]
pub struct MemoryOutput {
    /// The packets, in order.
    pub sent: Vec<Sent>,
}

impl OutputPort for MemoryOutput {
    fn send(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) -> Result<(), PortError> {
        for frame in frames.drain(..) {
            let (meta, bytes) = pool.memory().read(&frame);
            self.sent.push(Sent {
                meta: *meta,
                bytes: bytes.to_vec(),
            });
            pool.give(frame);
        }
        Ok(())
    }

    fn counters(&self) -> PortCounters {
        PortCounters {
            packets: self.sent.len() as u64,
            bytes: self.sent.iter().map(|s| s.bytes.len() as u64).sum(),
            ..PortCounters::default()
        }
    }
}
