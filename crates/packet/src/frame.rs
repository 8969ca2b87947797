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
/// memory at other addresses agree on it, and it can't be copied: whoever
/// holds it is the owner. Giving it back to a [`crate::FramePool`] is the
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

/// What has become of a packet that a switch sent to a runtime, or what a
/// frame beside it holds. Everything that a packet causes comes back to the
/// switch with its unit, view and clock: side frames first ([`Fate::Emitted`],
/// [`Fate::Notes`]), then the packet's own frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Fate {
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

impl Fate {
    /// The fate of this number, if there is one.
    pub const fn from_u8(number: u8) -> Option<Fate> {
        Some(match number {
            0 => Fate::Pending,
            1 => Fate::Out,
            2 => Fate::Dropped,
            3 => Fate::Turned,
            4 => Fate::Applied,
            5 => Fate::Emitted,
            6 => Fate::Notes,
            _ => return None,
        })
    }

    /// True where the frame closes its packet's entry: it is the packet's own.
    pub const fn closes(self) -> bool {
        matches!(
            self,
            Fate::Out | Fate::Dropped | Fate::Turned | Fate::Applied
        )
    }
}

/// What travels with a packet beside its bytes: one cache line at the start
/// of the frame.
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
    /// What has become of it.
    pub fate: Fate,
    /// Where the packet goes next, between the stages of a plan: 0 out of the
    /// chain, else the number of a function in the whole plan, plus one; or
    /// [`FrameMeta::NOTICES`].
    pub next: u8,
    pub(crate) reserved: [u8; 2],
}

const _: () = assert!(META_BYTES == 64, "metadata is one cache line");

impl FrameMeta {
    /// As `next`: the frame holds no packet but what the first stage of a plan
    /// tells the later ones of its flows. It travels in order with the
    /// packets, to every stage.
    pub const NOTICES: u8 = u8::MAX;

    /// True where the frame holds notices between stages, no packet.
    #[inline]
    pub const fn is_notices(&self) -> bool {
        self.next == FrameMeta::NOTICES
    }

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
}
