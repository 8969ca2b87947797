//! Point to point: a ring from one thread to another.

use rtrb::{Consumer, Producer, RingBuffer};
use weir_packet::Frame;

use super::pressure::Pressure;
use super::{Refused, StageInput, StageOutput};

/// A ring with `places` places (frames; 0 is taken as 1): the end of the stage
/// before, and that of the stage behind.
pub fn point(places: usize) -> (PointOutput, PointInput) {
    let (producer, consumer) = RingBuffer::new(places.max(1));
    let output = PointOutput {
        ring: producer,
        pressure: Pressure::default(),
    };
    (output, PointInput { ring: consumer })
}

/// The end that frames are given to.
#[derive(Debug)]
pub struct PointOutput {
    ring: Producer<Frame>,
    pressure: Pressure,
}

/// The end that frames are taken from.
#[derive(Debug)]
pub struct PointInput {
    ring: Consumer<Frame>,
}

impl StageOutput for PointOutput {
    fn give(&mut self, frames: &mut Vec<Frame>) -> usize {
        let offered = frames.len();
        let given = self.room().min(offered);
        if given > 0
            && let Ok(chunk) = self.ring.write_chunk_uninit(given)
        {
            chunk.fill_from_iter(frames.drain(..given));
        }
        self.pressure.after(offered, given);
        given
    }

    fn room(&self) -> usize {
        if self.ring.is_abandoned() {
            0
        } else {
            self.ring.slots()
        }
    }

    fn is_gone(&self) -> bool {
        self.ring.is_abandoned()
    }

    fn refused(&self) -> Refused {
        self.pressure.refused()
    }
}

impl StageInput for PointInput {
    fn take(&mut self, into: &mut Vec<Frame>, max: usize) -> usize {
        let count = self.ring.slots().min(max);
        if count == 0 {
            return 0;
        }
        match self.ring.read_chunk(count) {
            Ok(chunk) => {
                into.extend(chunk);
                count
            }
            Err(_) => 0,
        }
    }

    fn waiting(&self) -> usize {
        self.ring.slots()
    }

    fn is_over(&self) -> bool {
        // In this order: what was given before the end is seen after it.
        self.ring.is_abandoned() && self.ring.is_empty()
    }
}
