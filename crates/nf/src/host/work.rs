//! A burst on its way through a stage: what the engine hands to a function.

use weir_packet::{Direction, Frame, Headers, PacketMemory};

use super::{Blocks, Slot};

/// Most packets of a burst: one bit each of a mask.
pub const BURST: usize = 64;

/// Record number of a packet that has no flow.
pub const NO_FLOW: u32 = u32::MAX;

/// A packet's place in its flow, as of that packet: several packets of one
/// flow may be in a burst, and each is worked on as if it were alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Place {
    /// Number of the packet in its flow.
    pub clock: u64,
    /// Flow record, or [`NO_FLOW`].
    pub flow: u32,
    /// Events seen of TCP so far.
    pub tcp: u16,
    /// Phase of the connection, a [`crate::Phase`].
    pub phase: u8,
    /// Direction relative to the flow's key.
    pub direction: Direction,
}

impl Place {
    /// Of a packet without a flow.
    pub const NONE: Place = Place {
        clock: 0,
        flow: NO_FLOW,
        tcp: 0,
        phase: 0,
        direction: Direction::Forward,
    };

    /// Facts that travel with the packet to a later stage: all but the clock.
    #[inline]
    pub fn carried(&self) -> weir_packet::Place {
        weir_packet::Place {
            record: self.flow,
            tcp: self.tcp,
            phase: self.phase,
            direction: self.direction as u8,
        }
    }

    /// The place that came with a packet, without a clock.
    #[inline]
    pub fn of_carried(carried: weir_packet::Place) -> Place {
        Place {
            clock: 0,
            flow: carried.record,
            tcp: carried.tcp,
            phase: carried.phase,
            direction: if carried.direction & 1 == 0 {
                Direction::Forward
            } else {
                Direction::Reverse
            },
        }
    }
}

/// A packet's place in the unit of a wider scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitPlace {
    /// Number of the packet in its unit.
    pub clock: u64,
    /// Record of the unit.
    pub unit: u32,
}

/// One call's work: the packets (bits of `mask`) of a burst that reach a
/// function, and where its verdicts go.
#[derive(Debug)]
pub struct Work<'a> {
    /// Memory in which the frames lie.
    pub memory: &'a PacketMemory,
    /// The burst.
    pub frames: &'a mut [Frame],
    /// Parsed headers, packet by packet.
    pub headers: &'a mut [Headers],
    /// Each packet's place in its flow.
    pub places: &'a [Place; BURST],
    /// Packets to work on.
    pub mask: u64,
    /// Blocks of the flows.
    pub blocks: &'a mut Blocks,
    /// For a function with a wider scope: blocks of the scope's keys and the
    /// place of each packet in them.
    pub scoped: Option<(&'a mut Blocks, &'a [UnitPlace; BURST])>,
    /// Place of the function's state in a block.
    pub slot: Slot,
    /// Verdicts.
    pub outcome: &'a mut Outcome,
}

/// Most links out of a function, the first (`pass`) included.
pub const MAX_LABELS: usize = 8;

/// Verdicts of one function on one burst, as masks.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Packets per link; the first is `pass`.
    pub labels: [u64; MAX_LABELS],
    /// Packets dropped.
    pub dropped: u64,
    /// Packets to turn.
    pub turned: u64,
    /// Packets that changed a state, of all functions since the engine looked.
    pub changed: u64,
    /// Reason of each packet that is dropped.
    pub reasons: [u8; BURST],
}

impl Default for Outcome {
    fn default() -> Outcome {
        Outcome {
            labels: [0; MAX_LABELS],
            dropped: 0,
            turned: 0,
            changed: 0,
            reasons: [0; BURST],
        }
    }
}

impl Outcome {
    /// Forgets all verdicts, but not what changed.
    #[inline]
    pub fn clear(&mut self) {
        self.labels = [0; MAX_LABELS];
        self.dropped = 0;
        self.turned = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_travel_with_packets() {
        const { assert!(NO_FLOW == weir_packet::Place::NO_FLOW) };
        for flow in [0, 1, 0x1234_5678, NO_FLOW] {
            for direction in [Direction::Forward, Direction::Reverse] {
                let place = Place {
                    clock: 0,
                    flow,
                    tcp: 0x1fe,
                    phase: 4,
                    direction,
                };
                let mut meta = weir_packet::FrameMeta::default();
                meta.set_place(place.carried());
                assert_eq!(Place::of_carried(meta.place()), place);
            }
        }
    }
}
