//! The traffic generator as a port.

use weir_packet::{Frame, FrameMeta, FramePool, HEADROOM, NoFrame, Side, Time};

use super::{InputPort, PortCounters, PortError, Received};
use crate::generator::{Generator, GeneratorSpec};

/// Packets from the generator; what comes from outside is marked so.
pub struct GeneratorInput {
    generator: Generator,
    number: u8,
    side: Side,
    packets: u64,
    bytes: u64,
    /// Packets to come in all, where the settings say it.
    total: Option<u64>,
}

impl std::fmt::Debug for GeneratorInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GeneratorInput")
            .field("packets", &self.packets)
            .finish_non_exhaustive()
    }
}

impl GeneratorInput {
    /// As ingress port `number`. Requests come from `side`, responses from the
    /// other one.
    pub fn new(spec: &GeneratorSpec, number: u8, side: Side) -> GeneratorInput {
        GeneratorInput {
            generator: Generator::new(spec),
            number,
            side,
            packets: 0,
            bytes: 0,
            total: spec.packets(),
        }
    }
}

impl InputPort for GeneratorInput {
    fn receive(
        &mut self,
        pool: &mut FramePool,
        into: &mut Vec<Frame>,
        max: usize,
    ) -> Result<Received, PortError> {
        let room = self.generator.max_frame_len();
        for _ in 0..max {
            let mut frame = match pool.take(room) {
                Ok(frame) => frame,
                Err(NoFrame::Exhausted) => return Ok(Received::More),
                Err(NoFrame::TooLarge) => {
                    let message =
                        format!("packets of {room} bytes fit no frame: use a smaller size");
                    return Err(PortError::new("gen", message));
                }
            };
            let (meta, place) = pool.memory().split_mut(&mut frame);
            let made = place
                .get_mut(HEADROOM..)
                .and_then(|place| self.generator.next(place));
            let Some(made) = made else {
                pool.give(frame);
                return Ok(Received::End);
            };
            self.packets += 1;
            self.bytes += made.len as u64;
            *meta = FrameMeta::received(Time(made.time_ns), made.len as u32);
            meta.sequence = self.packets;
            meta.port = self.number;
            meta.side = if made.side_outside {
                self.side.opposite()
            } else {
                self.side
            };
            into.push(frame);
        }
        Ok(Received::More)
    }

    fn counters(&self) -> PortCounters {
        PortCounters {
            packets: self.packets,
            bytes: self.bytes,
            ..PortCounters::default()
        }
    }

    fn progress(&self) -> Option<f64> {
        self.total
            .map(|total| self.packets as f64 / total.max(1) as f64)
    }
}
