//! Room for the burst at hand: what is found of its packets on their way.

use weir_nf::host::{BURST, NO_FLOW, Outcome, Place, UnitPlace};
use weir_packet::{Direction, FlowKey, Frame, Headers, Malformed, PacketMemory};

use crate::flows::window::Segment;

/// Most wider scopes in one stage.
pub(crate) const MAX_SCOPES: usize = 4;

/// Flows that end between two looks at the log of events, at the end.
pub(crate) const FLOWS_AT_THE_END: usize = 256;

/// Initial value of the array of faults; never reported.
pub(crate) const NO_FAULT: Malformed = Malformed::LinkTruncated;

const NO_UNIT: UnitPlace = UnitPlace {
    clock: 0,
    unit: NO_FLOW,
};

/// The inputs of a packet's flow lookup, and what its flow's head is compared with.
#[derive(Clone, Copy, Default)]
pub(crate) struct Lookup {
    pub(crate) key: FlowKey,
    pub(crate) hash: u64,
    /// Index entry that the hash seems to lead to.
    pub(crate) candidate: u32,
    /// Direction in the key.
    pub(crate) direction: Direction,
    /// True for a TCP segment with ACK alone, where that was asked for.
    pub(crate) is_ack: bool,
    /// The numbers of such a segment.
    pub(crate) segment: Segment,
}

/// A key's hash, and the flow that the index has for it.
#[derive(Clone, Copy)]
pub(crate) struct Lead {
    pub(crate) hash: u64,
    pub(crate) candidate: u32,
}

impl Lookup {
    #[inline(always)]
    pub(crate) fn note(&mut self, key: FlowKey, direction: Direction, lead: Lead) {
        (self.key, self.direction) = (key, direction);
        (self.hash, self.candidate) = (lead.hash, lead.candidate);
    }
}

pub(crate) struct Scratch {
    pub(crate) headers: [Headers; BURST],
    pub(crate) lookups: [Lookup; BURST],
    pub(crate) places: [Place; BURST],
    /// Sides from which packets of this burst opened flows.
    pub(crate) opened_from: [bool; 2],
    pub(crate) units: [[UnitPlace; BURST]; MAX_SCOPES],
    pub(crate) faults: [Malformed; BURST],
    pub(crate) inputs: Vec<u64>,
    /// The packets that each function was given, as masks.
    pub(crate) passed: Vec<u64>,
    pub(crate) outcome: Outcome,
    /// The next node of packets in later stages, as in their metadata.
    pub(crate) next: [u8; BURST],
}

impl Scratch {
    /// For a stage of so many functions.
    pub(crate) fn new(functions: usize) -> Scratch {
        Scratch {
            headers: [Headers::default(); BURST],
            lookups: [Lookup::default(); BURST],
            places: [Place::NONE; BURST],
            opened_from: [false; 2],
            units: [[NO_UNIT; BURST]; MAX_SCOPES],
            faults: [NO_FAULT; BURST],
            inputs: vec![0; functions],
            passed: vec![0; functions],
            outcome: Outcome::default(),
            next: [0; BURST],
        }
    }
}

#[inline]
pub(crate) fn bytes_of(memory: &PacketMemory, frames: &[Frame]) -> u64 {
    frames
        .iter()
        .map(|frame| u64::from(memory.meta(frame).len))
        .sum()
}

/// The mask of the packets before the first one of `mask`; of all if there is none.
#[inline]
pub(crate) fn before(mask: u64) -> u64 {
    (mask & mask.wrapping_neg()).wrapping_sub(1)
}

/// The mask of the first `n` packets.
pub(crate) fn all(n: usize) -> u64 {
    u64::MAX.checked_shr(64 - n as u32).unwrap_or(0)
}
