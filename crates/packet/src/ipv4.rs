//! IPv4 (RFC 791).

use std::net::Ipv4Addr;

use crate::checksum::{self, Change};
use crate::malformed::Malformed;
use crate::wire::{BufferTooSmall, room, views};

fn check(head: &[u8; 20], rest: usize) -> Result<(), Malformed> {
    let length = usize::from(head[0] & 0xf) * 4;
    if head[0] >> 4 != 4 {
        Err(Malformed::Ipv4BadVersion)
    } else if length < 20 {
        Err(Malformed::Ipv4BadHeaderLength)
    } else if length - 20 > rest {
        Err(Malformed::Ipv4Truncated)
    } else {
        Ok(())
    }
}

views! {
    /// An IPv4 header with its options. Version and header length are checked; the total length
    /// is not, since captures cut packets and offload leaves it zero.
    Ipv4View, Ipv4ViewMut [20] or Ipv4Truncated, checked by check, found by is_ipv4 at l3;
    /// Differentiated services and congestion notification together.
    tos / set_tos: u8 = 1;
    /// Octets of header and payload.
    total_length / set_total_length: u16 = 2;
    /// Identification, the same in all fragments of a datagram.
    id / set_id: u16 = 4;
    /// Flags (3 bits) and fragment offset (13 bits, in units of eight octets) together.
    fragment / set_fragment: u16 = 6;
    /// Time to live.
    ttl / set_ttl: u8 = 8;
    /// The protocol of the payload.
    proto / set_proto: u8 = 9;
    /// The header's checksum.
    checksum / set_checksum: u16 = 10;
    /// Source address.
    source / set_source: Ipv4Addr = 12;
    /// Destination address.
    destination / set_destination: Ipv4Addr = 16;
}

impl<'a> Ipv4View<'a> {
    /// Octets of the header, options included: 20 to 60.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.head[0] & 0xf) * 4
    }

    /// The differentiated services code point, 6 bits.
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.tos() >> 2
    }

    /// The explicit congestion notification, 2 bits.
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.tos() & 3
    }

    /// True if the packet must not be fragmented.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.fragment() & 0x4000 != 0
    }

    /// True if fragments follow this one.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.fragment() & 0x2000 != 0
    }

    /// Offset of this fragment's data in the datagram, in octets.
    #[inline]
    pub fn fragment_offset(&self) -> u32 {
        u32::from(self.fragment() & 0x1fff) * 8
    }

    /// The options' octets.
    #[inline]
    pub fn option_bytes(&self) -> &'a [u8] {
        self.rest.get(..self.header_len() - 20).unwrap_or(&[])
    }

    /// The options.
    #[inline]
    pub fn options(&self) -> Ipv4Options<'a> {
        Ipv4Options {
            bytes: self.option_bytes(),
        }
    }

    /// The payload: to the end that the header declares, as far as it is there. All that is
    /// there where the total length is zero or shorter than the header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        let start = self.header_len() - 20;
        match usize::from(self.total_length()).checked_sub(self.header_len()) {
            Some(length) => self.rest.get(start..start + length),
            None => None,
        }
        .or_else(|| self.rest.get(start..))
        .unwrap_or(&[])
    }

    /// The header checksum as it should be.
    pub fn right_checksum(&self) -> u16 {
        let sum = checksum::Sum::new()
            .bytes(&self.head[..10])
            .bytes(&self.head[12..]);
        sum.bytes(self.option_bytes()).checksum()
    }

    /// True if the header's checksum is right.
    #[inline]
    pub fn checksum_is_right(&self) -> bool {
        let sum = checksum::Sum::new()
            .bytes(&self.head[..])
            .bytes(self.option_bytes());
        sum.folded() == 0xffff
    }
}

impl Ipv4ViewMut<'_> {
    /// Computes and writes the header's checksum.
    #[inline]
    pub fn fill_checksum(&mut self) {
        let sum = self.view().right_checksum();
        self.set_checksum(sum);
    }

    /// Counts the TTL down and brings the checksum up to date. Returns the new TTL; at zero
    /// nothing changes and `None` is returned.
    #[inline]
    pub fn decrement_ttl(&mut self) -> Option<u8> {
        let ttl = self.ttl().checked_sub(1)?;
        let old = u16::from_be_bytes([self.ttl(), self.proto()]);
        let new = u16::from_be_bytes([ttl, self.proto()]);
        self.set_ttl(ttl);
        self.set_checksum(Change::new().word(old, new).apply(self.checksum()));
        Some(ttl)
    }
}

/// An option of an IPv4 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv4Option<'a> {
    /// Copied flag, class and number (RFC 791 section 3.1): 7 is record route, 131 and 137 are
    /// source routes, 148 is router alert.
    pub kind: u8,
    /// The octets after kind and length.
    pub data: &'a [u8],
}

/// The options of an IPv4 header, padding left out. Ends behind the first fault.
#[derive(Clone, Debug)]
pub struct Ipv4Options<'a> {
    bytes: &'a [u8],
}

impl<'a> Ipv4Options<'a> {
    /// The options in `bytes`, which are those between header and payload.
    pub const fn new(bytes: &'a [u8]) -> Ipv4Options<'a> {
        Ipv4Options { bytes }
    }
}

impl<'a> Iterator for Ipv4Options<'a> {
    type Item = Result<Ipv4Option<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match *core::mem::take(&mut self.bytes) {
                [] | [0, ..] => return None,
                [1, ref rest @ ..] => self.bytes = rest,
                [_] => return Some(Err(Malformed::Ipv4BadOption)),
                [kind, length, ref rest @ ..] => {
                    let data = usize::from(length).checked_sub(2);
                    let Some((data, rest)) = data.and_then(|n| rest.split_at_checked(n)) else {
                        return Some(Err(Malformed::Ipv4BadOption));
                    };
                    self.bytes = rest;
                    return Some(Ok(Ipv4Option { kind, data }));
                }
            }
        }
    }
}

/// An IPv4 header as values. Options are kept as octets, at most 40.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv4Repr<'a> {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// The protocol of the payload.
    pub proto: u8,
    /// Time to live.
    pub ttl: u8,
    /// Differentiated services and congestion notification.
    pub tos: u8,
    /// Identification.
    pub id: u16,
    /// True if the packet must not be fragmented.
    pub dont_fragment: bool,
    /// True if fragments follow this one.
    pub more_fragments: bool,
    /// Offset of this fragment's data, in octets; a multiple of eight.
    pub fragment_offset: u16,
    /// Octets of payload.
    pub payload_len: u16,
    /// Options, a multiple of four octets.
    pub options: &'a [u8],
}

impl Default for Ipv4Repr<'_> {
    /// No addresses, no protocol, a TTL of 64 and "don't fragment".
    fn default() -> Self {
        Ipv4Repr {
            source: Ipv4Addr::UNSPECIFIED,
            destination: Ipv4Addr::UNSPECIFIED,
            proto: 0,
            ttl: 64,
            tos: 0,
            id: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            payload_len: 0,
            options: &[],
        }
    }
}

impl<'a> Ipv4Repr<'a> {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// Those of [`Ipv4View::new`]; [`Malformed::Ipv4BadTotalLength`] for a total length shorter
    /// than the header, zero included.
    pub fn parse(bytes: &'a [u8]) -> Result<Ipv4Repr<'a>, Malformed> {
        let view = Ipv4View::new(bytes)?;
        let payload_len = view
            .total_length()
            .checked_sub(view.header_len() as u16)
            .ok_or(Malformed::Ipv4BadTotalLength)?;
        Ok(Ipv4Repr {
            source: view.source(),
            destination: view.destination(),
            proto: view.proto(),
            ttl: view.ttl(),
            tos: view.tos(),
            id: view.id(),
            dont_fragment: view.dont_fragment(),
            more_fragments: view.more_fragments(),
            fragment_offset: (view.fragment() & 0x1fff) << 3,
            payload_len,
            options: view.option_bytes(),
        })
    }

    /// Octets that [`emit`](Ipv4Repr::emit) writes: the header with its options, which are
    /// padded to a multiple of four and cut at 40.
    pub fn header_len(&self) -> usize {
        Ipv4View::SIZE + self.options.len().min(40).next_multiple_of(4)
    }

    /// Writes the header with its checksum and returns its length. A total length above 65,535
    /// is written as 65,535; a fragment offset loses its lower three bits.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than [`header_len`](Ipv4Repr::header_len).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let length = self.header_len();
        let room = room(buffer, length)?;
        if let Some(first) = room.first_mut() {
            *first = 0x40 | (length / 4) as u8;
        }
        if let Ok(mut view) = Ipv4ViewMut::new(room) {
            view.set_tos(self.tos);
            view.set_total_length(self.payload_len.saturating_add(length as u16));
            view.set_id(self.id);
            view.set_fragment(
                u16::from(self.dont_fragment) << 14
                    | u16::from(self.more_fragments) << 13
                    | self.fragment_offset >> 3,
            );
            view.set_ttl(self.ttl);
            view.set_proto(self.proto);
            view.set_source(self.source);
            view.set_destination(self.destination);
            for (place, octet) in view.rest_mut().iter_mut().zip(self.options) {
                *place = *octet;
            }
            view.fill_checksum();
        }
        Ok(length)
    }
}
