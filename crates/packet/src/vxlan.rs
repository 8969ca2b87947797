//! VXLAN (RFC 7348).

use crate::malformed::Malformed;
use crate::wire::{BufferTooSmall, room, views};

views! {
    /// A VXLAN header; an Ethernet frame follows.
    VxlanView, VxlanViewMut [8] or VxlanTruncated;
    /// Flags; 0x08 says that the network identifier counts, 0x04 (VXLAN-GPE) that the next
    /// protocol does.
    flags / set_flags: u8 = 0;
    /// VXLAN-GPE: the next protocol.
    next / set_next: u8 = 3;
    /// The network identifier in the upper 24 bits.
    word / set_word: u32 = 4;
}

impl VxlanView<'_> {
    /// The network identifier, where the header has one.
    #[inline]
    pub fn vni(&self) -> Option<u32> {
        if self.flags() & 0x08 != 0 {
            Some(self.word() >> 8)
        } else {
            None
        }
    }
}

/// A VXLAN header as values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VxlanRepr {
    /// The network identifier, 24 bits.
    pub vni: u32,
}

impl VxlanRepr {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Malformed::VxlanTruncated`]; [`Malformed::WrongKind`] without a network identifier.
    pub fn parse(bytes: &[u8]) -> Result<VxlanRepr, Malformed> {
        let vni = VxlanView::new(bytes)?.vni().ok_or(Malformed::WrongKind)?;
        Ok(VxlanRepr { vni })
    }

    /// Octets that [`emit`](VxlanRepr::emit) writes.
    pub const fn header_len(&self) -> usize {
        VxlanView::SIZE
    }

    /// Writes the header and returns its length.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than [`header_len`](VxlanRepr::header_len).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let room = room(buffer, self.header_len())?;
        if let Ok(mut view) = VxlanViewMut::new(room) {
            view.set_flags(0x08);
            view.set_word(self.vni << 8);
        }
        Ok(self.header_len())
    }
}

/// A VXLAN-GPE header (draft-ietf-nvo3-vxlan-gpe) as values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VxlanGpeRepr {
    /// The network identifier, 24 bits.
    pub vni: u32,
    /// The next protocol.
    pub next: u8,
}

impl VxlanGpeRepr {
    /// Octets of the header.
    pub const LEN: usize = VxlanView::SIZE;
    /// UDP port of VXLAN-GPE.
    pub const PORT: u16 = 4790;
    /// Next protocol: an Ethernet frame.
    pub const ETHERNET: u8 = 3;

    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Malformed::VxlanTruncated`]; [`Malformed::WrongKind`] without a network identifier or
    /// a next protocol.
    pub fn parse(bytes: &[u8]) -> Result<VxlanGpeRepr, Malformed> {
        let view = VxlanView::new(bytes)?;
        let vni = view.vni().ok_or(Malformed::WrongKind)?;
        match view.flags() & 0x04 != 0 {
            true => Ok(VxlanGpeRepr {
                vni,
                next: view.next(),
            }),
            false => Err(Malformed::WrongKind),
        }
    }

    /// Writes the header and returns its length.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than [`VxlanGpeRepr::LEN`].
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let room = room(buffer, VxlanGpeRepr::LEN)?;
        if let Ok(mut view) = VxlanViewMut::new(room) {
            view.set_flags(0x0c);
            view.set_next(self.next);
            view.set_word(self.vni << 8);
        }
        Ok(VxlanGpeRepr::LEN)
    }
}
