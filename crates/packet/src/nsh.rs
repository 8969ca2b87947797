//! Network service header (RFC 8300), and weir's use of its fixed context.

use crate::malformed::Malformed;
use crate::wire::{BufferTooSmall, room, views};

/// Protocols behind a network service header (RFC 8300 section 11.2.5).
pub mod next {
    /// IPv4.
    pub const IPV4: u8 = 1;
    /// IPv6.
    pub const IPV6: u8 = 2;
    /// An Ethernet frame.
    pub const ETHERNET: u8 = 3;
    /// Another network service header.
    pub const NSH: u8 = 4;
    /// MPLS.
    pub const MPLS: u8 = 5;
    /// Experiment 1: what weir announces its own header with.
    pub const EXPERIMENT: u8 = 0xfe;
}

/// TTL of a header that is newly made (RFC 8300 section 2.2).
pub const INITIAL_TTL: u8 = 63;

/// Set in the first word: operations and maintenance, no packet of a user.
const OAM: u16 = 0x2000;

fn check(head: &[u8; 8], rest: usize) -> Result<(), Malformed> {
    if head[0] >> 6 != 0 {
        Err(Malformed::NshBadVersion)
    } else if usize::from(head[1] & 0x3f) * 4 > NshView::SIZE + rest
        || head[1] & 0x3f < (NshView::SIZE / 4) as u8
    {
        Err(Malformed::NshTruncated)
    } else {
        Ok(())
    }
}

views! {
    /// A network service header: base and service path header, then metadata.
    NshView, NshViewMut [8] or NshTruncated, checked by check;
    /// From the top: version (2 bits), OAM, a free bit, TTL (6 bits), length in words of four
    /// octets (6 bits).
    first / set_first: u16 = 0;
    /// Four free bits and the type of the metadata: 1 for 16 fixed octets, 2 for a list.
    kind / set_kind: u8 = 2;
    /// Protocol of the payload (see [`next`]).
    next_protocol / set_next_protocol: u8 = 3;
    /// Service path (24 bits) and service index (8 bits).
    word / set_word: u32 = 4;
}

impl<'a> NshView<'a> {
    /// Octets of the header, metadata included: 8 to 252.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.first() & 0x3f) * 4
    }

    /// True if this is for operations and maintenance.
    #[inline]
    pub fn oam(&self) -> bool {
        self.first() & OAM != 0
    }

    /// Service functions forwarders that it may pass yet, 0 to 63.
    #[inline]
    pub fn ttl(&self) -> u8 {
        (self.first() >> 6 & 0x3f) as u8
    }

    /// Type of the metadata.
    #[inline]
    pub fn metadata_type(&self) -> u8 {
        self.kind() & 0xf
    }

    /// The service path, 24 bits.
    #[inline]
    pub fn path(&self) -> u32 {
        self.word() >> 8
    }

    /// The place on the path, which counts down.
    #[inline]
    pub fn index(&self) -> u8 {
        self.word() as u8
    }

    /// The metadata.
    #[inline]
    pub fn metadata(&self) -> &'a [u8] {
        self.rest
            .get(..self.header_len().saturating_sub(Self::SIZE))
            .unwrap_or(&[])
    }

    /// Payload behind the header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.rest
            .get(self.header_len().saturating_sub(Self::SIZE)..)
            .unwrap_or(&[])
    }
}

impl NshViewMut<'_> {
    /// Counts down the TTL, as who forwards the packet to another forwarder must, and gives what
    /// is left; `None` where the packet may not go on. A TTL of 0 on arrival means 63 after the
    /// count (RFC 8300 section 2.2: senders of older drafts wrote none).
    pub fn decrement_ttl(&mut self) -> Option<u8> {
        let first = self.first();
        let ttl = match self.view().ttl() {
            0 => INITIAL_TTL,
            ttl => ttl - 1,
        };
        self.set_first(first & !0x0fc0 | u16::from(ttl) << 6);
        Some(ttl).filter(|&ttl| ttl > 0)
    }
}

/// A header with fixed metadata (type 1) as values. Free bits are written as zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NshRepr {
    /// True if this is for operations and maintenance.
    pub oam: bool,
    /// Forwarders that it may pass, 0 to 63.
    pub ttl: u8,
    /// Protocol of the payload (see [`next`]).
    pub next_protocol: u8,
    /// The service path, 24 bits.
    pub path: u32,
    /// The place on the path.
    pub index: u8,
    /// The fixed context.
    pub context: [u8; 16],
}

impl NshRepr {
    /// Octets of the header.
    pub const LEN: usize = 24;

    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Malformed::NshTruncated`], [`Malformed::NshBadVersion`]; [`Malformed::WrongKind`] with
    /// metadata of another type or length.
    pub fn parse(bytes: &[u8]) -> Result<NshRepr, Malformed> {
        let view = NshView::new(bytes)?;
        let context = view.metadata().try_into();
        match context {
            Ok(context) if view.metadata_type() == 1 => Ok(NshRepr {
                oam: view.oam(),
                ttl: view.ttl(),
                next_protocol: view.next_protocol(),
                path: view.path(),
                index: view.index(),
                context,
            }),
            _ => Err(Malformed::WrongKind),
        }
    }

    /// Octets that [`emit`](NshRepr::emit) writes.
    pub const fn header_len(&self) -> usize {
        NshRepr::LEN
    }

    /// Writes the header and returns its length.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than [`header_len`](NshRepr::header_len).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let room = room(buffer, NshRepr::LEN)?;
        let words = NshRepr::LEN as u16 / 4;
        let oam = if self.oam { OAM } else { 0 };
        // The length is what a view is opened with.
        if let Some(length) = room.get_mut(1) {
            *length = words as u8;
        }
        if let Ok(mut view) = NshViewMut::new(room) {
            view.set_first(oam | u16::from(self.ttl & 0x3f) << 6 | words);
            view.set_kind(1);
            view.set_next_protocol(self.next_protocol);
            view.set_word(self.path << 8 | u32::from(self.index));
            for (place, octet) in view.rest_mut().iter_mut().zip(self.context) {
                *place = octet;
            }
        }
        Ok(NshRepr::LEN)
    }
}

/// weir's use of the fixed context. From the first octet, in network order: view (48 bits), clock
/// (40), source (16), replica (16), flags (8).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NshContext {
    /// View in which the clock was given, 48 bits.
    pub view: u64,
    /// Number of the packet in its unit, 40 bits.
    pub clock: u64,
    /// Owner of the unit before the view; 0 for nobody.
    pub source: u16,
    /// Replica of the unit; 0 for nobody.
    pub replica: u16,
    /// See [`crate::frame_flags`].
    pub flags: u8,
}

impl NshContext {
    /// Reads a fixed context.
    pub const fn from_bytes(bytes: [u8; 16]) -> NshContext {
        let bits = u128::from_be_bytes(bytes);
        NshContext {
            view: (bits >> 80) as u64,
            clock: (bits >> 40) as u64 & 0xff_ffff_ffff,
            source: (bits >> 24) as u16,
            replica: (bits >> 8) as u16,
            flags: bits as u8,
        }
    }

    /// As a fixed context; `None` where view or clock have more bits than there is room for.
    pub const fn to_bytes(self) -> Option<[u8; 16]> {
        if self.view >> 48 != 0 || self.clock >> 40 != 0 {
            return None;
        }
        let bits = (self.view as u128) << 80
            | (self.clock as u128) << 40
            | (self.source as u128) << 24
            | (self.replica as u128) << 8
            | self.flags as u128;
        Some(bits.to_be_bytes())
    }
}
