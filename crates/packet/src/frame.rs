//! A frame's descriptor and the metadata that travels with it.

use crate::{LinkType, Time};

/// Bytes of a frame in front of which [`FrameMeta`] lies.
pub const META_BYTES: usize = core::mem::size_of::<FrameMeta>();

/// Bytes left free in front of a received packet: room for an Ethernet, an
/// NSH and weir's own header between hosts.
pub const HEADROOM: usize = 128;

/// The right to use one frame of a packet memory.
///
/// It is an offset (in lines of 64 bytes), so that processes which map the
/// memory at other addresses agree on it, and it can't be copied: its
/// holder is the owner. Giving it back to a [`crate::FramePool`] is the
/// holder's duty; the pool's `outstanding` count shows what was forgotten.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a frame that is not given back to its pool is leaked"]
pub struct Frame {
    pub(crate) line: u32,
    pub(crate) memory: u32,
}

impl Frame {
    /// Offset of the frame in its packet memory, in bytes.
    pub const fn offset(&self) -> usize {
        self.line as usize * 64
    }
}

/// Which side of the chain a port is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Side {
    /// Towards the clients or the network that is protected.
    #[default]
    Inside = 0,
    /// Towards the rest of the world.
    Outside = 1,
}

impl Side {
    /// The other side.
    pub const fn opposite(self) -> Side {
        match self {
            Side::Inside => Side::Outside,
            Side::Outside => Side::Inside,
        }
    }

    /// The name used in chain files.
    pub const fn name(self) -> &'static str {
        match self {
            Side::Inside => "inside",
            Side::Outside => "outside",
        }
    }
}

/// Marks on a frame.
pub mod frame_flags {
    /// The packet is applied a second time: nothing of it may be let out.
    pub const NO_OUTPUT: u8 = 1;
    /// The packet was made by a network function, not received.
    pub const EMITTED: u8 = 2;
    /// The packet was turned back by a network function (NAT hairpin) and is
    /// on its second way through the chain.
    pub const TURNED: u8 = 4;
    /// The packet's view starts from no state: its unit is new.
    pub const FRESH: u8 = 8;
    /// There is no packet: the switch could not send it again. Applied as one
    /// that does nothing.
    pub const LOST: u8 = 16;
    /// There is no packet: what is due in the unit at this time ends.
    pub const TICK: u8 = 32;
    /// With [`FRESH`]: the unit's state was lost, the flow may be in the
    /// middle of a connection.
    pub const AFTER_LOSS: u8 = 64;
    /// The switch sends the packet once more.
    pub const REPEATED: u8 = 128;
}

/// Disposition of a packet that a switch sent to a runtime, or content of a frame beside it. Everything
/// that a packet causes comes back to the
/// switch with its unit, view and clock: side frames first ([`Disposition::Emitted`],
/// [`Disposition::Notes`]), then the packet's own frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Disposition {
    /// None yet: on its way to a runtime.
    #[default]
    Pending = 0,
    /// The packet is to leave.
    Out = 1,
    /// It was dropped (counted by the runtime under its reason).
    Dropped = 2,
    /// It is to enter the switch once more, as from the other side.
    Turned = 3,
    /// It was no packet (a tick, a lost one) and has been applied.
    Applied = 4,
    /// A packet that a function made, beside the packet itself.
    Emitted = 5,
    /// Notes beside the packet: aliases, ends, events.
    Notes = 6,
}

impl Disposition {
    /// The disposition of this number, if there is one.
    pub const fn from_u8(number: u8) -> Option<Disposition> {
        Some(match number {
            0 => Disposition::Pending,
            1 => Disposition::Out,
            2 => Disposition::Dropped,
            3 => Disposition::Turned,
            4 => Disposition::Applied,
            5 => Disposition::Emitted,
            6 => Disposition::Notes,
            _ => return None,
        })
    }

    /// True where the frame closes its packet's entry: it is the packet's own.
    pub const fn closes(self) -> bool {
        matches!(
            self,
            Disposition::Out | Disposition::Dropped | Disposition::Turned | Disposition::Applied
        )
    }
}

/// Content of a frame that goes from one stage of a plan to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// A packet.
    #[default]
    Packet = 0,
    /// A notice: what the first stage says of a flow, in order with the
    /// packets. Its [`FrameMeta::place`] names the flow's record.
    Notice = 1,
    /// The same for a further branch or instance of a stage: it ends at the
    /// port behind that, since the notice itself goes on elsewhere.
    NoticeCopy = 2,
    /// No packet: the end of an instance's turn (a balanced port that gives
    /// bursts in turn). A stage passes it on untouched, in its place.
    TurnEnd = 3,
}

impl FrameKind {
    /// True for a notice and for a copy of one: a stage takes both alike.
    #[inline]
    pub const fn is_notice(self) -> bool {
        matches!(self, FrameKind::Notice | FrameKind::NoticeCopy)
    }
}

/// Facts that the first stage of a plan found out about a packet, for the stages behind it:
/// [`FrameMeta::place`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the flow's record; [`Place::NO_FLOW`] for none.
    pub record: u32,
    /// TCP tracking's findings about the packet, as the engine packs them.
    pub tcp: u16,
    /// The flow's phase as of the packet, as the engine numbers it.
    pub phase: u8,
    /// The packet's direction in its flow, as the engine numbers it.
    pub direction: u8,
}

impl Place {
    /// That of a packet that belongs to no flow.
    pub const NONE: Place = Place {
        record: Place::NO_FLOW,
        tcp: 0,
        phase: 0,
        direction: 0,
    };
    /// The record of a packet that belongs to no flow.
    pub const NO_FLOW: u32 = u32::MAX;
}

/// Bits of [`FrameMeta::path`]: a bit each for the functions before the last bit, which stands for
/// all functions from there on.
pub const PATH_BITS: usize = 24;

/// Metadata that travels with a packet beside its bytes: one cache line at the start of the frame.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct FrameMeta {
    /// Ingress time.
    pub time: Time,
    /// Number of the packet at its ingress port, from 1.
    pub sequence: u64,
    /// Unit (flow or scope key) the packet belongs to; 0 before
    /// classification.
    pub unit: u64,
    /// Number of the packet within its unit and stage.
    pub clock: u64,
    /// View in which the clock was given (48 bits on the wire).
    pub view: u64,
    /// Bytes of packet in the frame.
    pub len: u32,
    /// Bytes the packet had on the wire; more than `len` where a capture cut
    /// it.
    pub wire_len: u32,
    /// First byte of the packet, counted from the end of this metadata.
    pub start: u16,
    /// Chain (its number in the configuration).
    pub chain: u16,
    /// Tenant.
    pub tenant: u16,
    /// Ingress port.
    pub port: u8,
    /// Side of the ingress port.
    pub side: Side,
    /// How the packet's first bytes are to be read.
    pub link: LinkType,
    /// See [`frame_flags`].
    pub flags: u8,
    /// Link type as its capture file names it (`LINKTYPE_*` of the tcpdump.org
    /// registry); 0 where only `link` says it.
    pub dlt: u16,
    /// Disposition of the packet.
    pub disposition: Disposition,
    /// Next processor between the stages of a plan: 0 leaves the chain, else the number of a
    /// processor in the plan, from 1.
    pub next: u8,
    /// Content of the frame, between the stages of a plan.
    pub kind: FrameKind,
    /// Traces that follow it, a bit each; 0 for none.
    pub(crate) watched: u8,
}

const _: () = assert!(META_BYTES == 64, "metadata is one cache line");

impl FrameMeta {
    /// Metadata of a packet just received.
    pub fn received(time: Time, len: u32) -> FrameMeta {
        FrameMeta {
            time,
            len,
            wire_len: len,
            start: HEADROOM as u16,
            ..FrameMeta::default()
        }
    }

    /// The traces that follow the packet, a bit each; 0 for none.
    #[inline]
    pub const fn watched(&self) -> u8 {
        self.watched
    }

    /// Has these traces follow the packet.
    #[inline]
    pub const fn watch(&mut self, traces: u8) {
        self.watched = traces;
    }

    /// Functions that a packet has passed, in an entry: bit n is function n of the stage, and the last
    /// bit all from there on. It lies in [`FrameMeta::tenant`] and [`FrameMeta::next`], which say
    /// nothing in an entry.
    #[inline]
    pub const fn path(&self) -> u32 {
        self.tenant as u32 | (self.next as u32) << 16
    }

    /// Sets [`FrameMeta::path`]; bits from [`PATH_BITS`] on are left out.
    #[inline]
    pub const fn set_path(&mut self, path: u32) {
        self.tenant = path as u16;
        self.next = (path >> 16) as u8;
    }

    /// Findings of the first stage of a plan, packed into [`FrameMeta::view`]: between stages that
    /// holds this and no view.
    #[inline]
    pub const fn place(&self) -> Place {
        Place {
            record: self.view as u32,
            tcp: (self.view >> 32) as u16,
            phase: (self.view >> 48) as u8,
            direction: (self.view >> 56) as u8,
        }
    }

    /// Sets [`FrameMeta::place`], in place of the view.
    #[inline]
    pub const fn set_place(&mut self, place: Place) {
        self.view = place.record as u64
            | (place.tcp as u64) << 32
            | (place.phase as u64) << 48
            | (place.direction as u64) << 56;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_comes_back_as_it_was_set() {
        for path in [0, 1, 0x0001_0000, 0x00ab_cdef, (1 << PATH_BITS) - 1] {
            let mut meta = FrameMeta::default();
            meta.set_path(path);
            assert_eq!(meta.path(), path);
        }
    }

    #[test]
    fn a_place_comes_back_as_it_was_set() {
        for place in [
            Place {
                record: 0x0102_0304,
                tcp: 0x0506,
                phase: 7,
                direction: 8,
            },
            Place {
                record: Place::NO_FLOW,
                tcp: 0,
                phase: 255,
                direction: 0,
            },
        ] {
            let mut meta = FrameMeta::default();
            meta.set_place(place);
            assert_eq!(meta.place(), place);
        }
    }
}
