//! GRE (RFC 2784, RFC 2890). Version 1 (PPTP, RFC 2637) is opened by the parser only.

use crate::checksum;
use crate::malformed::Malformed;
use crate::read::be32;
use crate::wire::{BufferTooSmall, room, views};

const CHECKSUM: u16 = 0x8000;
const ROUTING: u16 = 0x4000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;

/// Octets of the optional fields that the flags announce.
const fn optional(flags: u16) -> usize {
    let each = [CHECKSUM, KEY, SEQUENCE];
    let mut length = 0;
    let mut n = 0;
    while n < each.len() {
        if flags & each[n] != 0 {
            length += 4;
        }
        n += 1;
    }
    length
}

fn check(head: &[u8; 4], rest: usize) -> Result<(), Malformed> {
    let flags = u16::from_be_bytes([head[0], head[1]]);
    if flags & 7 != 0 {
        Err(Malformed::GreBadVersion)
    } else if flags & ROUTING != 0 {
        Err(Malformed::WrongKind)
    } else if optional(flags) > rest {
        Err(Malformed::GreTruncated)
    } else {
        Ok(())
    }
}

views! {
    /// A GRE header of version 0, without source routes.
    GreView, GreViewMut [4] or GreTruncated, checked by check;
    /// Flags and version.
    flags / set_flags: u16 = 0;
    /// EtherType of the payload.
    protocol / set_protocol: u16 = 2;
}

impl<'a> GreView<'a> {
    /// Octets of the header, optional fields included: 4 to 16.
    #[inline]
    pub fn header_len(&self) -> usize {
        Self::SIZE + optional(self.flags())
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> Option<u32> {
        self.field(KEY, CHECKSUM)
    }

    /// The sequence number.
    #[inline]
    pub fn sequence(&self) -> Option<u32> {
        self.field(SEQUENCE, CHECKSUM | KEY)
    }

    /// The checksum over header and payload.
    #[inline]
    pub fn checksum(&self) -> Option<u16> {
        self.field(CHECKSUM, 0).map(|word| (word >> 16) as u16)
    }

    fn field(&self, flag: u16, before: u16) -> Option<u32> {
        let flags = self.flags();
        if flags & flag == 0 {
            None
        } else {
            be32(self.rest, optional(flags & before))
        }
    }

    /// Payload behind the header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.rest.get(optional(self.flags())..).unwrap_or(&[])
    }
}

impl GreViewMut<'_> {
    /// Computes and writes the checksum, if the header has one.
    pub fn fill_checksum(&mut self) {
        if self.flags() & CHECKSUM == 0 {
            return;
        }
        if let Some(field) = self.rest.first_chunk_mut::<4>() {
            *field = [0; 4];
        }
        let sum = checksum::Sum::new()
            .bytes(self.head)
            .bytes(self.rest)
            .checksum();
        if let Some(field) = self.rest.first_chunk_mut::<2>() {
            *field = sum.to_be_bytes();
        }
    }
}

/// A GRE header as values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GreRepr {
    /// EtherType of the payload.
    pub protocol: u16,
    /// True if there is a checksum.
    pub checksum: bool,
    /// The key.
    pub key: Option<u32>,
    /// The sequence number.
    pub sequence: Option<u32>,
}

impl GreRepr {
    /// Reads the header at the start of `bytes`. The checksum is not looked at.
    ///
    /// # Errors
    ///
    /// [`Malformed::GreTruncated`], [`Malformed::GreBadVersion`]; [`Malformed::WrongKind`] with
    /// source routes.
    pub fn parse(bytes: &[u8]) -> Result<GreRepr, Malformed> {
        let view = GreView::new(bytes)?;
        Ok(GreRepr {
            protocol: view.protocol(),
            checksum: view.checksum().is_some(),
            key: view.key(),
            sequence: view.sequence(),
        })
    }

    fn flags(&self) -> u16 {
        let mut flags = 0;
        if self.checksum {
            flags |= CHECKSUM;
        }
        if self.key.is_some() {
            flags |= KEY;
        }
        if self.sequence.is_some() {
            flags |= SEQUENCE;
        }
        flags
    }

    /// Octets that [`emit`](GreRepr::emit) writes: the header with its optional fields.
    pub fn header_len(&self) -> usize {
        GreView::SIZE + optional(self.flags())
    }

    /// Writes the header with a checksum of zero ([`GreViewMut::fill_checksum`] needs the
    /// payload) and returns its length.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than [`header_len`](GreRepr::header_len).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let length = self.header_len();
        let (head, fields) = room(buffer, length)?.split_at_mut(GreView::SIZE);
        if let Ok(mut view) = GreViewMut::new(head) {
            view.set_flags(self.flags());
            view.set_protocol(self.protocol);
        }
        let checksum = if self.checksum { Some(0) } else { None };
        let words = [checksum, self.key, self.sequence];
        for (place, word) in fields.chunks_exact_mut(4).zip(words.into_iter().flatten()) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        Ok(length)
    }
}
