//! Facts about a flow that a network function gets beside its state.

use weir_packet::{Direction, FlowKey, Time};

use crate::event::EventIds;
use crate::host::{FlowHead, Place};
use crate::phase::{Phase, tcp_seen};

/// Facts about a flow beside its state, and about the packet's place in it.
#[derive(Clone, Copy, Debug)]
pub struct FlowInfo<'a> {
    head: &'a FlowHead,
    unit: u64,
    clock: u64,
    last_seen: Time,
    tcp: u16,
    phase: u8,
    direction: Direction,
    first: bool,
    /// The head is a scope key's, which has no flow any more.
    of_unit: bool,
}

impl<'a> FlowInfo<'a> {
    /// Of a flow as it stands after its last packet; `direction` is relative
    /// to its key, and it is in the unit `unit` at `clock`.
    #[inline]
    pub fn new(head: &'a FlowHead, direction: Direction, unit: u64, clock: u64) -> FlowInfo<'a> {
        FlowInfo {
            head,
            unit,
            clock,
            last_seen: Time(head.last_seen),
            tcp: head.tcp,
            phase: head.phase,
            direction,
            first: false,
            of_unit: false,
        }
    }

    /// Of a scope key whose last flow has ended: `head` is its own.
    pub fn of_unit(head: &'a FlowHead) -> FlowInfo<'a> {
        FlowInfo {
            of_unit: true,
            ..FlowInfo::new(head, head.client_direction(), head.id, head.clock)
        }
    }

    /// Of a flow as it stands with a packet that came at `time`, in the unit
    /// `unit` at `clock`; later packets may have moved the head on already.
    #[inline(always)]
    pub fn at(
        head: &'a FlowHead,
        place: &Place,
        time: Time,
        unit: u64,
        clock: u64,
    ) -> FlowInfo<'a> {
        FlowInfo {
            head,
            unit,
            clock,
            last_seen: time,
            tcp: place.tcp,
            phase: place.phase,
            direction: place.direction,
            first: false,
            of_unit: false,
        }
    }

    /// The same, and whether this packet is the flow's first one here.
    #[inline]
    #[must_use]
    pub fn first_here(mut self, first: bool) -> FlowInfo<'a> {
        self.first = first;
        self
    }

    /// True for the first packet of this flow that reaches the function: the
    /// place for what a function with a wider scope does once per flow, such
    /// as asking for an alias. (A packet may say so again where nothing keeps
    /// count.)
    #[inline]
    pub fn is_first(&self) -> bool {
        self.first
    }

    /// Key of the packet's flow: the addresses and ports with which its first
    /// packet came in.
    #[inline]
    pub fn key(&self) -> &'a FlowKey {
        &self.head.key
    }

    /// Number of the flow: the `flow_id` of events and traces, and what
    /// `weir flows 'id N'` finds. No other flow of the run's chain has it. Where
    /// a scope key has ended with its last flow, that of the scope key.
    #[inline]
    pub fn id(&self) -> u64 {
        shown_id(self.head.id)
    }

    /// Number of the unit: of the function's scope key where its scope is wider
    /// than the flow (the `unit_id` of events), else of the flow.
    #[inline]
    pub fn unit(&self) -> u64 {
        shown_id(self.unit)
    }

    /// Ids in its events: the flow's, unless only a scope key is left, and the unit's if the scope
    /// is wider than the flow.
    pub(crate) fn ids(&self) -> EventIds {
        EventIds {
            flow: (!self.of_unit).then(|| self.id()),
            unit: (self.of_unit || self.unit != self.head.id).then(|| self.unit()),
        }
    }

    /// Number of this packet in its unit, from 1, as the stage counts that the
    /// function runs in.
    ///
    /// A plan may cut a chain into stages, and each stage numbers the packets that get to it: a
    /// packet that an earlier stage drops, or that is for none of a stage's functions, has no
    /// number there. So the number says which
    /// packet of the stage this is, and depends on where the chain is cut. Do
    /// not decide by it, nor write it where it can be compared; to count
    /// packets keep a count in the function's state.
    #[inline]
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// Direction of this packet relative to the key.
    #[inline]
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Direction of packets from client to server relative to the key.
    #[inline]
    pub fn client_direction(&self) -> Direction {
        self.head.client_direction()
    }

    /// True where this packet goes from client to server, that is, in the
    /// direction of the flow's first packet.
    #[inline]
    pub fn to_server(&self) -> bool {
        self.direction == self.head.client_direction()
    }

    /// Phase of the connection as of this packet.
    #[inline]
    pub fn phase(&self) -> Phase {
        Phase::from_u8(self.phase)
    }

    /// Ingress time of the flow's last packet; this packet's, while one is
    /// being worked on. In [`NetworkFunction::close`](crate::NetworkFunction::close) the end of the flow's
    /// traffic, whenever the end is noticed.
    #[inline]
    pub fn last_seen(&self) -> Time {
        self.last_seen
    }

    /// True where the state of the flow's unit was lost with the runtimes that
    /// held it: the flow may be in the middle of a connection.
    #[inline]
    pub fn is_after_loss(&self) -> bool {
        self.head.bits & FlowHead::AFTER_LOSS != 0
    }

    /// Events seen of a TCP connection so far, as a set of [`tcp_seen`].
    #[inline]
    pub fn tcp_seen(&self) -> u16 {
        self.tcp & tcp_seen::ALL
    }
}

/// A flow's or unit's number as people and programs see it: below 2^53, so that
/// readers of JSON that take numbers for floating point do not round it. The
/// numbers that a switch gives grow beyond after many lives of one place in its
/// table; they are mixed then, into the upper half of that range.
#[inline]
pub fn shown_id(id: u64) -> u64 {
    const EXACT: u64 = 1 << 53;
    if id < EXACT {
        return id;
    }
    // The finisher of splitmix64.
    let mut x = (id ^ id >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ x >> 31) >> 12 | EXACT >> 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_long_runs_are_exact_in_json_and_differ() {
        for exact in [0, 1, (1 << 53) - 1] {
            assert_eq!(shown_id(exact), exact);
        }
        // The lives of one place in a switch's table, up to the last one.
        let lives = (1 << 21..(1 << 21) + 1_000).chain(u64::from(u32::MAX) - 1_000..1 << 32);
        let shown: std::collections::BTreeSet<u64> =
            lives.clone().map(|life| shown_id(life << 32 | 7)).collect();
        assert_eq!(shown.len(), lives.count());
        assert!(shown.iter().all(|id| (1 << 52..1 << 53).contains(id)));
    }
}
