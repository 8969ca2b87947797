//! A packet as a network function sees it.

use crate::frame::FrameMeta;
use crate::{Headers, Side, Time};

/// One packet: its bytes, what was parsed of it, and what travels with it.
///
/// The bytes may be changed in place; [`Packet::prepend`], [`Packet::trim_front`],
/// [`Packet::append`] and [`Packet::truncate`] change where they start and end.
/// After such a change the offsets of [`Packet::headers`] no longer fit until
/// the caller sets them ([`Packet::set_headers`]).
#[derive(Debug)]
pub struct Packet<'a> {
    meta: &'a mut FrameMeta,
    room: &'a mut [u8],
    headers: &'a mut Headers,
}

impl<'a> Packet<'a> {
    /// Joins the parts; `meta.start + meta.len` must lie inside `room`, which
    /// is true of every frame that came from a pool.
    #[inline]
    pub fn new(
        meta: &'a mut FrameMeta,
        room: &'a mut [u8],
        headers: &'a mut Headers,
    ) -> Packet<'a> {
        debug_assert!(usize::from(meta.start) + meta.len as usize <= room.len());
        Packet {
            meta,
            room,
            headers,
        }
    }

    /// The same packet, for a shorter time. Code that hands this to a function of its own for what
    /// is rare keeps the parts of the packet itself in registers.
    #[inline(always)]
    pub fn reborrow(&mut self) -> Packet<'_> {
        Packet {
            meta: self.meta,
            room: self.room,
            headers: self.headers,
        }
    }

    /// The packet from its first link-layer byte.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let start = usize::from(self.meta.start);
        self.room
            .get(start..start + self.meta.len as usize)
            .unwrap_or(&[])
    }

    /// The same, for writing.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let start = usize::from(self.meta.start);
        self.room
            .get_mut(start..start + self.meta.len as usize)
            .unwrap_or(&mut [])
    }

    /// Result of the parser.
    #[inline]
    pub fn headers(&self) -> &Headers {
        self.headers
    }

    /// Replaces what the parser found, after the packet was rebuilt.
    pub fn set_headers(&mut self, headers: Headers) {
        *self.headers = headers;
    }

    /// From the network header to the end of the datagram; empty for what is
    /// not IP.
    #[inline]
    pub fn network(&self) -> &[u8] {
        self.part(self.headers.l3, self.headers.is_ip())
    }

    /// The same, for writing.
    #[inline]
    pub fn network_mut(&mut self) -> &mut [u8] {
        self.part_mut(self.headers.l3, self.headers.is_ip())
    }

    /// From the transport header to the end of the datagram; empty where there
    /// is none (a later fragment, not IP).
    #[inline]
    pub fn transport(&self) -> &[u8] {
        self.part(self.headers.l4, self.has_transport())
    }

    /// The same, for writing.
    #[inline]
    pub fn transport_mut(&mut self) -> &mut [u8] {
        self.part_mut(self.headers.l4, self.has_transport())
    }

    /// Transport payload, without Ethernet padding.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.part(self.headers.payload, self.has_transport())
    }

    /// The same, for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        self.part_mut(self.headers.payload, self.has_transport())
    }

    fn has_transport(&self) -> bool {
        self.headers.is_ip() && !self.headers.is_later_fragment()
    }

    #[inline]
    fn part(&self, from: u16, present: bool) -> &[u8] {
        if !present {
            return &[];
        }
        let end = self.headers.end as usize;
        self.bytes().get(usize::from(from)..end).unwrap_or(&[])
    }

    #[inline]
    fn part_mut(&mut self, from: u16, present: bool) -> &mut [u8] {
        if !present {
            return &mut [];
        }
        let end = self.headers.end as usize;
        self.bytes_mut()
            .get_mut(usize::from(from)..end)
            .unwrap_or(&mut [])
    }

    /// Ingress time.
    #[inline]
    pub fn time(&self) -> Time {
        self.meta.time
    }

    /// Bytes in the frame.
    #[inline]
    pub fn len(&self) -> usize {
        self.meta.len as usize
    }

    /// True for a packet without a byte.
    pub fn is_empty(&self) -> bool {
        self.meta.len == 0
    }

    /// Bytes on the wire; more than [`Packet::len`] where a capture cut it.
    #[inline]
    pub fn wire_len(&self) -> u32 {
        self.meta.wire_len
    }

    /// Side of the ingress port.
    #[inline]
    pub fn side(&self) -> Side {
        self.meta.side
    }

    /// Metadata that travels with the packet.
    #[inline]
    pub fn meta(&self) -> &FrameMeta {
        self.meta
    }

    /// Metadata that travels with the packet, for the engine and for network functions that make
    /// packets.
    pub fn meta_mut(&mut self) -> &mut FrameMeta {
        self.meta
    }

    /// Adds `count` bytes in front and gives them out for writing; `None`
    /// where the headroom is too small (nothing is changed then).
    pub fn prepend(&mut self, count: usize) -> Option<&mut [u8]> {
        let start = usize::from(self.meta.start).checked_sub(count)?;
        self.meta.start = start as u16;
        self.meta.len += count as u32;
        self.meta.wire_len = self.meta.wire_len.saturating_add(count as u32);
        self.room.get_mut(start..start + count)
    }

    /// Takes `count` bytes off the front; `None` where there are fewer.
    pub fn trim_front(&mut self, count: usize) -> Option<()> {
        let len = (self.meta.len as usize).checked_sub(count)?;
        let start = u16::try_from(usize::from(self.meta.start) + count).ok()?;
        self.meta.start = start;
        self.meta.len = len as u32;
        self.meta.wire_len = self.meta.wire_len.saturating_sub(count as u32);
        Some(())
    }

    /// Adds `count` bytes at the end and gives them out for writing; `None`
    /// where the frame is full.
    pub fn append(&mut self, count: usize) -> Option<&mut [u8]> {
        let end = usize::from(self.meta.start) + self.meta.len as usize;
        let added = self.room.get_mut(end..end.checked_add(count)?)?;
        self.meta.len += count as u32;
        self.meta.wire_len = self.meta.wire_len.saturating_add(count as u32);
        Some(added)
    }

    /// Cuts the packet to `len` bytes; does nothing where it is shorter.
    pub fn truncate(&mut self, len: usize) {
        let cut = (self.meta.len as usize).saturating_sub(len) as u32;
        self.meta.len -= cut;
        self.meta.wire_len = self.meta.wire_len.saturating_sub(cut);
    }
}
