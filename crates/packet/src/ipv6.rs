//! IPv6 with its extension headers (RFC 8200).

use std::net::Ipv6Addr;

use crate::malformed::Malformed;
use crate::protocol::ip;
use crate::wire::{BufferTooSmall, room, views};

fn check(head: &[u8; 40], _: usize) -> Result<(), Malformed> {
    if head[0] >> 4 == 6 {
        Ok(())
    } else {
        Err(Malformed::Ipv6BadVersion)
    }
}

views! {
    /// An IPv6 header. The payload length is not checked, since captures cut packets and offload
    /// leaves it zero.
    Ipv6View, Ipv6ViewMut [40] or Ipv6Truncated, checked by check, found by is_ipv6 at l3;
    /// Version, traffic class and flow label together.
    first / set_first: u32 = 0;
    /// Octets after this header, extension headers included.
    payload_length / set_payload_length: u16 = 4;
    /// Type of the header or payload behind this header.
    next_header / set_next_header: u8 = 6;
    /// The hop limit, IPv4's TTL.
    hop_limit / set_hop_limit: u8 = 7;
    /// Source address.
    source / set_source: Ipv6Addr = 8;
    /// Destination address.
    destination / set_destination: Ipv6Addr = 24;
}

impl<'a> Ipv6View<'a> {
    /// The traffic class, IPv4's TOS.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (self.first() >> 20) as u8
    }

    /// The flow label, 20 bits.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        self.first() & 0x000f_ffff
    }

    /// Bytes behind this header, to the end that it declares, as far as they are there. All that
    /// are there if the payload length is zero.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        match usize::from(self.payload_length()) {
            0 => self.rest,
            length => self.rest.get(..length).unwrap_or(self.rest),
        }
    }

    /// The extension headers.
    #[inline]
    pub fn extensions(&self) -> Extensions<'a> {
        Extensions {
            next: self.next_header(),
            bytes: self.payload(),
        }
    }
}

impl Ipv6ViewMut<'_> {
    /// Writes the traffic class.
    #[inline]
    pub fn set_traffic_class(&mut self, class: u8) {
        self.set_first(self.first() & !0x0ff0_0000 | u32::from(class) << 20);
    }

    /// Writes the flow label (its lower 20 bits).
    #[inline]
    pub fn set_flow_label(&mut self, label: u32) {
        self.set_first(self.first() & !0x000f_ffff | label & 0x000f_ffff);
    }

    /// Counts the hop limit down. Returns the new one; at zero nothing changes and `None` is
    /// returned.
    #[inline]
    pub fn decrement_hop_limit(&mut self) -> Option<u8> {
        let limit = self.hop_limit().checked_sub(1)?;
        self.set_hop_limit(limit);
        Some(limit)
    }
}

/// One extension header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extension<'a> {
    /// Its own number: [`ip::HOP_BY_HOP`], [`ip::ROUTING`], [`ip::FRAGMENT`], [`ip::AH`] or
    /// [`ip::DESTINATION`].
    pub kind: u8,
    /// Type of the header or payload behind it.
    pub next: u8,
    /// The whole header.
    pub bytes: &'a [u8],
}

impl<'a> Extension<'a> {
    /// The fragment header, if this is one.
    pub fn fragment(&self) -> Option<FragmentView<'a>> {
        if self.kind == ip::FRAGMENT {
            FragmentView::new(self.bytes).ok()
        } else {
            None
        }
    }
}

/// The extension headers of a packet. Ends at the first other header, behind a later fragment's
/// header (its data have no headers), or with a fault.
#[derive(Clone, Debug)]
pub struct Extensions<'a> {
    next: u8,
    bytes: &'a [u8],
}

impl<'a> Extensions<'a> {
    /// The headers in `bytes`, of which the first one is `next`.
    pub const fn new(next: u8, bytes: &'a [u8]) -> Extensions<'a> {
        Extensions { next, bytes }
    }

    /// The header after those that were read: the transport's, in the end.
    pub const fn next_header(&self) -> u8 {
        self.next
    }

    /// The octets after the headers that were read.
    pub const fn rest(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Result<Extension<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let kind = self.next;
        if !ip::is_extension(kind) {
            return None;
        }
        let fault = Some(Err(Malformed::Ipv6BadExtension));
        let Some(&[next, size]) = self.bytes.first_chunk::<2>() else {
            self.next = ip::NONE;
            return fault;
        };
        let length = extension_len(kind, size);
        let Some((bytes, rest)) = self.bytes.split_at_checked(length) else {
            self.next = ip::NONE;
            return fault;
        };
        self.bytes = rest;
        self.next = next;
        let extension = Extension { kind, next, bytes };
        if extension.fragment().is_some_and(|f| f.offset() != 0) {
            self.next = ip::NONE;
        }
        Some(Ok(extension))
    }
}

/// IPv6 extension headers in one packet. RFC 8504 section 5.3 lets a host refuse long chains.
pub(crate) const MAX_EXTENSIONS: usize = 16;

/// Octets of an extension header whose length field is `size` (RFC 8200 section 4, RFC 4302
/// section 2.2).
pub(crate) const fn extension_len(kind: u8, size: u8) -> usize {
    match kind {
        ip::FRAGMENT => 8,
        ip::AH => (size as usize + 2) * 4,
        _ => (size as usize + 1) * 8,
    }
}

views! {
    /// A fragment header.
    FragmentView, FragmentViewMut [8] or Ipv6BadExtension;
    /// Type of the header or payload behind this header in the first fragment.
    next_header / set_next_header: u8 = 0;
    /// Offset (13 bits, in units of eight octets), two reserved bits, "more fragments".
    place / set_place: u16 = 2;
    /// Identification, the same in all fragments of a packet.
    id / set_id: u32 = 4;
}

impl FragmentView<'_> {
    /// Offset of this fragment's data in the fragmentable part, in octets.
    #[inline]
    pub fn offset(&self) -> u16 {
        self.place() & 0xfff8
    }

    /// True if fragments follow this one.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.place() & 1 != 0
    }
}

/// A fragment header as values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FragmentRepr {
    /// Type of the header or payload behind this header in the first fragment.
    pub next_header: u8,
    /// Offset of this fragment's data, in octets; a multiple of eight.
    pub offset: u16,
    /// True if fragments follow this one.
    pub more_fragments: bool,
    /// Identification.
    pub id: u32,
}

impl FragmentRepr {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Malformed::Ipv6BadExtension`].
    pub fn parse(bytes: &[u8]) -> Result<FragmentRepr, Malformed> {
        let view = FragmentView::new(bytes)?;
        Ok(FragmentRepr {
            next_header: view.next_header(),
            offset: view.offset(),
            more_fragments: view.more_fragments(),
            id: view.id(),
        })
    }

    /// Octets that [`emit`](FragmentRepr::emit) writes.
    pub const fn header_len(&self) -> usize {
        FragmentView::SIZE
    }

    /// Writes the header and returns its length. The offset loses its lower three bits.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than [`header_len`](FragmentRepr::header_len).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let room = room(buffer, self.header_len())?;
        if let Ok(mut view) = FragmentViewMut::new(room) {
            view.set_next_header(self.next_header);
            view.set_place(self.offset & 0xfff8 | u16::from(self.more_fragments));
            view.set_id(self.id);
        }
        Ok(self.header_len())
    }
}

/// An IPv6 header as values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv6Repr {
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// Type of the header or payload behind this header.
    pub next_header: u8,
    /// The hop limit.
    pub hop_limit: u8,
    /// The traffic class.
    pub traffic_class: u8,
    /// The flow label, 20 bits.
    pub flow_label: u32,
    /// Octets after this header.
    pub payload_len: u16,
}

impl Default for Ipv6Repr {
    /// No addresses, no next header and a hop limit of 64.
    fn default() -> Self {
        Ipv6Repr {
            source: Ipv6Addr::UNSPECIFIED,
            destination: Ipv6Addr::UNSPECIFIED,
            next_header: ip::NONE,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
            payload_len: 0,
        }
    }
}

impl Ipv6Repr {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// Those of [`Ipv6View::new`].
    pub fn parse(bytes: &[u8]) -> Result<Ipv6Repr, Malformed> {
        let view = Ipv6View::new(bytes)?;
        Ok(Ipv6Repr {
            source: view.source(),
            destination: view.destination(),
            next_header: view.next_header(),
            hop_limit: view.hop_limit(),
            traffic_class: view.traffic_class(),
            flow_label: view.flow_label(),
            payload_len: view.payload_length(),
        })
    }

    /// Octets that [`emit`](Ipv6Repr::emit) writes.
    pub const fn header_len(&self) -> usize {
        Ipv6View::SIZE
    }

    /// Writes the header and returns its length.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than [`header_len`](Ipv6Repr::header_len).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let room = room(buffer, self.header_len())?;
        if let Some(first) = room.first_mut() {
            *first = 0x60;
        }
        if let Ok(mut view) = Ipv6ViewMut::new(room) {
            view.set_traffic_class(self.traffic_class);
            view.set_flow_label(self.flow_label);
            view.set_payload_length(self.payload_len);
            view.set_next_header(self.next_header);
            view.set_hop_limit(self.hop_limit);
            view.set_source(self.source);
            view.set_destination(self.destination);
        }
        Ok(self.header_len())
    }
}
