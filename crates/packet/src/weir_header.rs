//! weir's own header, between a network service header and the packet: what of a frame's
//! metadata ([`crate::FrameMeta`]) neither of them holds.

use crate::frame::{Disposition, Side};
use crate::link::LinkType;
use crate::malformed::Malformed;
use crate::time::Time;
use crate::wire::{BufferTooSmall, room, views};

/// Version of the header.
pub const VERSION: u8 = 1;

fn check(head: &[u8; 52], rest: usize) -> Result<(), Malformed> {
    if head[0] != VERSION {
        return Err(Malformed::WeirBadVersion);
    }
    let length = u32::from_be_bytes([head[36], head[37], head[38], head[39]]);
    if length as usize != rest {
        return Err(Malformed::WeirTruncated);
    }
    let known = Disposition::from_u8(head[1]).is_some()
        && head[2] <= Side::Outside as u8
        && LinkType::from_u8(head[4]) as u8 == head[4];
    if known {
        Ok(())
    } else {
        Err(Malformed::WeirBadValue)
    }
}

views! {
    /// A header of weir's; the packet follows.
    WeirView, WeirViewMut [52] or WeirTruncated, checked by check;
    /// Version of the header.
    version / set_version: u8 = 0;
    /// Its [`Disposition`].
    disposition / set_disposition: u8 = 1;
    /// Side of the ingress port ([`Side`]).
    side / set_side: u8 = 2;
    /// Ingress port.
    port / set_port: u8 = 3;
    /// How the packet's first octets are to be read ([`LinkType`]).
    link / set_link: u8 = 4;
    /// The packet's number in its unit: the 8 bits above those of the service header.
    clock_high / set_clock_high: u8 = 5;
    /// Link type as its capture file names it.
    dlt / set_dlt: u16 = 6;
    /// Unit that the packet belongs to.
    unit / set_unit: u64 = 8;
    /// Ingress time, nanoseconds since the Unix epoch.
    time / set_time: u64 = 16;
    /// Number of the packet at its ingress port.
    sequence / set_sequence: u64 = 24;
    /// Octets that the packet had on the wire.
    wire_len / set_wire_len: u32 = 32;
    /// Octets of packet that follow, all that is left of the frame.
    length / set_length: u32 = 36;
    /// Tenant.
    tenant / set_tenant: u16 = 40;
    /// The view: the 16 bits above those of the service header.
    view_high / set_view_high: u16 = 42;
    /// Keyed tag over both headers and the packet; itself and the TTL count as 0.
    tag / set_tag: u64 = 44;
}

/// A header of weir's as values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WeirRepr {
    /// Disposition of the packet.
    pub disposition: Disposition,
    /// Side of the ingress port.
    pub side: Side,
    /// Ingress port.
    pub port: u8,
    /// How the packet's first octets are to be read.
    pub link: LinkType,
    /// Clock, the 8 bits above the 40 of the service header.
    pub clock_high: u8,
    /// Link type as its capture file names it.
    pub dlt: u16,
    /// Unit that the packet belongs to.
    pub unit: u64,
    /// Ingress time.
    pub time: Time,
    /// Number of the packet at its ingress port.
    pub sequence: u64,
    /// Octets that the packet had on the wire.
    pub wire_len: u32,
    /// Octets of packet that follow.
    pub length: u32,
    /// Tenant.
    pub tenant: u16,
    /// View, the 16 bits above the 48 of the service header.
    pub view_high: u16,
    /// Keyed tag.
    pub tag: u64,
}

impl WeirRepr {
    /// Octets of the header.
    pub const LEN: usize = WeirView::SIZE;

    /// Reads the header at the start of `bytes`, which end with the packet.
    ///
    /// # Errors
    ///
    /// [`Malformed::WeirTruncated`], [`Malformed::WeirBadVersion`], [`Malformed::WeirBadValue`].
    pub fn parse(bytes: &[u8]) -> Result<WeirRepr, Malformed> {
        let view = WeirView::new(bytes)?;
        Ok(WeirRepr {
            disposition: Disposition::from_u8(view.disposition()).ok_or(Malformed::WeirBadValue)?,
            side: match view.side() {
                0 => Side::Inside,
                _ => Side::Outside,
            },
            port: view.port(),
            link: LinkType::from_u8(view.link()),
            clock_high: view.clock_high(),
            dlt: view.dlt(),
            unit: view.unit(),
            time: Time(view.time()),
            sequence: view.sequence(),
            wire_len: view.wire_len(),
            length: view.length(),
            tenant: view.tenant(),
            view_high: view.view_high(),
            tag: view.tag(),
        })
    }

    /// Octets that [`emit`](WeirRepr::emit) writes.
    pub const fn header_len(&self) -> usize {
        WeirRepr::LEN
    }

    /// Writes the header and returns its length. The packet comes behind it.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than [`header_len`](WeirRepr::header_len).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let room = room(buffer, WeirRepr::LEN)?;
        if let Some(version) = room.first_mut() {
            *version = VERSION;
        }
        // A header of zeros and a version, with nothing behind it, is one.
        if let Ok(mut view) = WeirViewMut::new(room) {
            view.set_disposition(self.disposition as u8);
            view.set_side(self.side as u8);
            view.set_port(self.port);
            view.set_link(self.link as u8);
            view.set_clock_high(self.clock_high);
            view.set_dlt(self.dlt);
            view.set_unit(self.unit);
            view.set_time(self.time.0);
            view.set_sequence(self.sequence);
            view.set_wire_len(self.wire_len);
            view.set_length(self.length);
            view.set_tenant(self.tenant);
            view.set_view_high(self.view_high);
            view.set_tag(self.tag);
        }
        Ok(WeirRepr::LEN)
    }
}
