//! SCTP (RFC 9260).

use crate::checksum;
use crate::malformed::Malformed;
use crate::wire::{BufferTooSmall, room, views};

views! {
    /// SCTP's common header.
    SctpView, SctpViewMut [12] or SctpTruncated, found by is_sctp at l4;
    /// The source port.
    source_port / set_source_port: u16 = 0;
    /// The destination port.
    destination_port / set_destination_port: u16 = 2;
    /// The verification tag of the association.
    tag / set_tag: u32 = 4;
    /// The CRC32c, its octets in the order in which they are sent.
    checksum / set_checksum: u32 = 8;
}

impl<'a> SctpView<'a> {
    /// The chunks.
    #[inline]
    pub fn chunks(&self) -> Chunks<'a> {
        Chunks { bytes: self.rest }
    }
}

impl SctpViewMut<'_> {
    /// Computes and writes the CRC32c of header and chunks.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let crc = checksum::crc32c_of(&[self.head, self.rest]);
        self.set_checksum(crc.swap_bytes());
    }
}

/// One chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk<'a> {
    /// Kind: 0 DATA, 1 INIT, 2 INIT ACK, 6 ABORT, 7 SHUTDOWN, ...
    pub kind: u8,
    /// Flags, by kind.
    pub flags: u8,
    /// The octets after type, flags and length.
    pub data: &'a [u8],
}

/// The chunks of a packet. Ends behind the first fault.
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    bytes: &'a [u8],
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<Chunk<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = core::mem::take(&mut self.bytes);
        if bytes.is_empty() {
            return None;
        }
        let Some((&[kind, flags, a, b], _)) = bytes.split_first_chunk::<4>() else {
            return Some(Err(Malformed::SctpBadChunk));
        };
        let length = usize::from(u16::from_be_bytes([a, b]));
        let Some(data) = bytes.get(4..length) else {
            return Some(Err(Malformed::SctpBadChunk));
        };
        // Chunks are padded to four octets; the last one's padding may be missing.
        self.bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some(Ok(Chunk { kind, flags, data }))
    }
}

/// SCTP's common header as values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SctpRepr {
    /// The source port.
    pub source_port: u16,
    /// The destination port.
    pub destination_port: u16,
    /// The verification tag.
    pub tag: u32,
}

impl SctpRepr {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Malformed::SctpTruncated`].
    pub fn parse(bytes: &[u8]) -> Result<SctpRepr, Malformed> {
        let view = SctpView::new(bytes)?;
        Ok(SctpRepr {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
            tag: view.tag(),
        })
    }

    /// Octets that [`emit`](SctpRepr::emit) writes.
    pub const fn header_len(&self) -> usize {
        SctpView::SIZE
    }

    /// Writes the header with a checksum of zero ([`SctpViewMut::fill_checksum`] needs the
    /// chunks) and returns its length.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than [`header_len`](SctpRepr::header_len).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let room = room(buffer, self.header_len())?;
        if let Ok(mut view) = SctpViewMut::new(room) {
            view.set_source_port(self.source_port);
            view.set_destination_port(self.destination_port);
            view.set_tag(self.tag);
        }
        Ok(self.header_len())
    }
}
