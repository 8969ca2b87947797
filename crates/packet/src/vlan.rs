//! VLAN tags (IEEE 802.1Q, 802.1ad).

use crate::malformed::Malformed;
use crate::protocol::ethertype;
use crate::read::be16;
use crate::wire::{BufferTooSmall, room, views};

views! {
    /// A tag without the EtherType that announces it: control information, then what follows.
    VlanView, VlanViewMut [4] or VlanTruncated;
    /// Priority, drop eligibility and id.
    tci / set_tci: u16 = 0;
    /// EtherType of the payload.
    ethertype / set_ethertype: u16 = 2;
}

impl VlanView<'_> {
    /// The VLAN id, 0 to 4095. 0 is no VLAN, only a priority.
    #[inline]
    pub fn id(&self) -> u16 {
        self.tci() & 0x0fff
    }

    /// The priority code point, 0 to 7.
    #[inline]
    pub fn priority(&self) -> u8 {
        (self.tci() >> 13) as u8
    }

    /// True if the frame may be dropped first.
    #[inline]
    pub fn drop_eligible(&self) -> bool {
        self.tci() & 0x1000 != 0
    }
}

impl VlanViewMut<'_> {
    /// Writes the VLAN id (its lower 12 bits) and leaves the rest of the control information.
    #[inline]
    pub fn set_id(&mut self, id: u16) {
        self.set_tci(self.tci() & 0xf000 | id & 0x0fff);
    }
}

/// A tag as values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VlanRepr {
    /// The VLAN id, 0 to 4095.
    pub id: u16,
    /// The priority code point, 0 to 7.
    pub priority: u8,
    /// True if the frame may be dropped first.
    pub drop_eligible: bool,
    /// EtherType of the payload.
    pub ethertype: u16,
}

impl VlanRepr {
    /// Reads the tag at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Malformed::VlanTruncated`].
    pub fn parse(bytes: &[u8]) -> Result<VlanRepr, Malformed> {
        let view = VlanView::new(bytes)?;
        Ok(VlanRepr {
            id: view.id(),
            priority: view.priority(),
            drop_eligible: view.drop_eligible(),
            ethertype: view.ethertype(),
        })
    }

    /// Octets that [`emit`](VlanRepr::emit) writes.
    pub const fn header_len(&self) -> usize {
        VlanView::SIZE
    }

    /// Writes the tag and returns its length. Values wider than their fields lose the excess.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than [`header_len`](VlanRepr::header_len).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let room = room(buffer, self.header_len())?;
        if let Ok(mut view) = VlanViewMut::new(room) {
            let eligible = if self.drop_eligible { 0x1000 } else { 0 };
            view.set_tci(u16::from(self.priority & 7) << 13 | eligible | self.id & 0x0fff);
            view.set_ethertype(self.ethertype);
        }
        Ok(self.header_len())
    }
}

/// The tags of a frame from the outside in: all of them, where [`Headers`](crate::Headers)
/// keeps two. Gives the announcing EtherType and the tag; ends at the first one that is cut.
#[derive(Clone, Debug)]
pub struct Tags<'a> {
    bytes: &'a [u8],
    kind: u16,
    at: usize,
}

impl<'a> Tags<'a> {
    /// The tags behind an Ethernet header at `l2` (0, or [`Headers::l2`](crate::Headers::l2)).
    pub fn of_ethernet(bytes: &'a [u8], l2: usize) -> Tags<'a> {
        Tags {
            bytes,
            kind: be16(bytes, l2 + 12).unwrap_or(0),
            at: l2 + 14,
        }
    }
}

impl Iterator for Tags<'_> {
    type Item = (u16, VlanRepr);

    fn next(&mut self) -> Option<(u16, VlanRepr)> {
        if !ethertype::is_vlan(self.kind) {
            return None;
        }
        let tag = VlanRepr::parse(self.bytes.get(self.at..)?).ok()?;
        let announced = self.kind;
        self.at += 4;
        self.kind = tag.ethertype;
        Some((announced, tag))
    }
}
