//! UDP (RFC 768).

use crate::checksum::Sum;
use crate::malformed::Malformed;
use crate::wire::{BufferTooSmall, room, views};

views! {
    /// A UDP header. The length is not checked, since captures cut packets.
    UdpView, UdpViewMut [8] or UdpTruncated, found by is_udp at l4;
    /// The source port.
    source_port / set_source_port: u16 = 0;
    /// The destination port.
    destination_port / set_destination_port: u16 = 2;
    /// Octets of header and payload; 0 in jumbograms.
    length / set_length: u16 = 4;
    /// The checksum; 0 for none.
    checksum / set_checksum: u16 = 6;
}

impl<'a> UdpView<'a> {
    /// The payload: to the end that the header declares, as far as it is there. All that is
    /// there where the length is below 8.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        match usize::from(self.length()).checked_sub(Self::SIZE) {
            Some(length) => self.rest.get(..length).unwrap_or(self.rest),
            None => self.rest,
        }
    }
}

impl UdpViewMut<'_> {
    /// Computes and writes the checksum of header and payload; `pseudo` is the pseudo-header's
    /// sum ([`Sum::pseudo_ipv4`], [`Sum::pseudo_ipv6`]) with the header's own length.
    pub fn fill_checksum(&mut self, pseudo: Sum) {
        self.set_checksum(0);
        let sum = pseudo
            .bytes(self.head)
            .bytes(self.view().payload())
            .checksum();
        self.set_checksum(if sum == 0 { 0xffff } else { sum });
    }
}

/// A UDP header as values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpRepr {
    /// The source port.
    pub source_port: u16,
    /// The destination port.
    pub destination_port: u16,
    /// Octets of payload.
    pub payload_len: u16,
}

impl UdpRepr {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Malformed::UdpTruncated`]; [`Malformed::UdpBadLength`] for a length below 8.
    pub fn parse(bytes: &[u8]) -> Result<UdpRepr, Malformed> {
        let view = UdpView::new(bytes)?;
        Ok(UdpRepr {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
            payload_len: view
                .length()
                .checked_sub(8)
                .ok_or(Malformed::UdpBadLength)?,
        })
    }

    /// Octets that [`emit`](UdpRepr::emit) writes.
    pub const fn header_len(&self) -> usize {
        UdpView::SIZE
    }

    /// Writes the header with a checksum of zero ([`UdpViewMut::fill_checksum`] needs the
    /// payload) and returns its length. A length above 65,535 is written as 65,535.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than [`header_len`](UdpRepr::header_len).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let room = room(buffer, self.header_len())?;
        if let Ok(mut view) = UdpViewMut::new(room) {
            view.set_source_port(self.source_port);
            view.set_destination_port(self.destination_port);
            view.set_length(self.payload_len.saturating_add(8));
        }
        Ok(self.header_len())
    }
}
