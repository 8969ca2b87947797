//! GENEVE (RFC 8926).

use crate::malformed::Malformed;
use crate::wire::{BufferTooSmall, room, views};

fn check(head: &[u8; 8], rest: usize) -> Result<(), Malformed> {
    if head[0] >> 6 != 0 {
        Err(Malformed::GeneveBadVersion)
    } else if usize::from(head[0] & 0x3f) * 4 > rest {
        Err(Malformed::GeneveTruncated)
    } else {
        Ok(())
    }
}

views! {
    /// A GENEVE header with its options.
    GeneveView, GeneveViewMut [8] or GeneveTruncated, checked by check;
    /// Flags: 0x80 control packet, 0x40 critical options.
    flags / set_flags: u8 = 1;
    /// EtherType of the payload.
    protocol / set_protocol: u16 = 2;
    /// The network identifier in the upper 24 bits.
    word / set_word: u32 = 4;
}

impl<'a> GeneveView<'a> {
    /// Octets of the header, options included: 8 to 260.
    #[inline]
    pub fn header_len(&self) -> usize {
        Self::SIZE + self.options_len()
    }

    fn options_len(&self) -> usize {
        usize::from(self.head[0] & 0x3f) * 4
    }

    /// The network identifier, 24 bits.
    #[inline]
    pub fn vni(&self) -> u32 {
        self.word() >> 8
    }

    /// The options.
    #[inline]
    pub fn options(&self) -> GeneveOptions<'a> {
        GeneveOptions {
            bytes: self.rest.get(..self.options_len()).unwrap_or(&[]),
        }
    }

    /// Payload behind the header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.rest.get(self.options_len()..).unwrap_or(&[])
    }
}

/// One option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GeneveOption<'a> {
    /// Organisation that defined it.
    pub class: u16,
    /// Its type; the highest bit marks a critical one.
    pub kind: u8,
    /// Its data, a multiple of four octets.
    pub data: &'a [u8],
}

/// The options of a GENEVE header. Ends behind the first fault.
#[derive(Clone, Debug)]
pub struct GeneveOptions<'a> {
    bytes: &'a [u8],
}

impl<'a> Iterator for GeneveOptions<'a> {
    type Item = Result<GeneveOption<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = core::mem::take(&mut self.bytes);
        if bytes.is_empty() {
            return None;
        }
        let split = bytes.split_first_chunk::<4>().and_then(|(head, rest)| {
            Some((
                head,
                rest.split_at_checked(usize::from(head[3] & 0x1f) * 4)?,
            ))
        });
        let Some((&[a, b, kind, _], (data, rest))) = split else {
            return Some(Err(Malformed::GeneveTruncated));
        };
        self.bytes = rest;
        Some(Ok(GeneveOption {
            class: u16::from_be_bytes([a, b]),
            kind,
            data,
        }))
    }
}

/// A GENEVE header as values. Options are kept as octets, at most 252.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GeneveRepr<'a> {
    /// The network identifier, 24 bits.
    pub vni: u32,
    /// EtherType of the payload.
    pub protocol: u16,
    /// True if this is a control packet.
    pub control: bool,
    /// True if an option is critical.
    pub critical: bool,
    /// Options, a multiple of four octets.
    pub options: &'a [u8],
}

impl<'a> GeneveRepr<'a> {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Malformed::GeneveTruncated`], [`Malformed::GeneveBadVersion`].
    pub fn parse(bytes: &'a [u8]) -> Result<GeneveRepr<'a>, Malformed> {
        let view = GeneveView::new(bytes)?;
        Ok(GeneveRepr {
            vni: view.vni(),
            protocol: view.protocol(),
            control: view.flags() & 0x80 != 0,
            critical: view.flags() & 0x40 != 0,
            options: view.options().bytes,
        })
    }

    /// Octets that [`emit`](GeneveRepr::emit) writes: the header with its options, which are
    /// padded to a multiple of four and cut at 252.
    pub fn header_len(&self) -> usize {
        GeneveView::SIZE + self.options.len().min(252).next_multiple_of(4)
    }

    /// Writes the header and returns its length.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than [`header_len`](GeneveRepr::header_len).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let length = self.header_len();
        let room = room(buffer, length)?;
        if let Some(first) = room.first_mut() {
            *first = ((length - GeneveView::SIZE) / 4) as u8;
        }
        if let Ok(mut view) = GeneveViewMut::new(room) {
            view.set_flags(u8::from(self.control) << 7 | u8::from(self.critical) << 6);
            view.set_protocol(self.protocol);
            view.set_word(self.vni << 8);
            for (place, octet) in view.rest_mut().iter_mut().zip(self.options) {
                *place = *octet;
            }
        }
        Ok(length)
    }
}
