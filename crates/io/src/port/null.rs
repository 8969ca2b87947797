//! A port with nothing behind it.

use weir_packet::{Frame, FramePool};

use super::{InputPort, OutputPort, PortCounters, PortError, Received};

/// Nothing comes in; what goes out is counted and forgotten.
#[derive(Clone, Debug, Default)]
pub struct Null {
    packets: u64,
    bytes: u64,
}

impl InputPort for Null {
    fn receive(
        &mut self,
        _: &mut FramePool,
        _: &mut Vec<Frame>,
        _: usize,
    ) -> Result<Received, PortError> {
        Ok(Received::End)
    }

    fn counters(&self) -> PortCounters {
        PortCounters::default()
    }
}

impl OutputPort for Null {
    fn send(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) -> Result<(), PortError> {
        self.packets += frames.len() as u64;
        for frame in frames.drain(..) {
            self.bytes += u64::from(pool.memory().meta(&frame).len);
            pool.give(frame);
        }
        Ok(())
    }

    fn counters(&self) -> PortCounters {
        PortCounters {
            packets: self.packets,
            bytes: self.bytes,
            ..PortCounters::default()
        }
    }
}
