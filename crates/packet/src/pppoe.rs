//! PPP over Ethernet (RFC 2516).

use crate::malformed::Malformed;
use crate::wire::{BufferTooSmall, room, views};

fn check(head: &[u8; 6], _: usize) -> Result<(), Malformed> {
    if head[0] == 0x11 {
        Ok(())
    } else {
        Err(Malformed::PppoeBadVersion)
    }
}

views! {
    /// A PPPoE header, of discovery or of a session.
    PppoeView, PppoeViewMut [6] or PppoeTruncated, checked by check;
    /// The code: 0 in a session, the kind of packet in discovery.
    code / set_code: u8 = 1;
    /// The session, 0 before there is one.
    session / set_session: u16 = 2;
    /// Octets after this header, Ethernet padding excluded.
    length / set_length: u16 = 4;
}

impl<'a> PppoeView<'a> {
    /// Payload, as far as declared and there.
    pub fn payload(&self) -> &'a [u8] {
        self.rest
            .get(..usize::from(self.length()))
            .unwrap_or(self.rest)
    }
}

/// A PPPoE header as values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PppoeRepr {
    /// 0 in a session, the kind of packet in discovery.
    pub code: u8,
    /// The session, 0 before there is one.
    pub session: u16,
    /// Octets after this header.
    pub length: u16,
}

impl PppoeRepr {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Malformed::PppoeTruncated`], [`Malformed::PppoeBadVersion`].
    pub fn parse(bytes: &[u8]) -> Result<PppoeRepr, Malformed> {
        let view = PppoeView::new(bytes)?;
        Ok(PppoeRepr {
            code: view.code(),
            session: view.session(),
            length: view.length(),
        })
    }

    /// Octets that [`emit`](PppoeRepr::emit) writes.
    pub const fn header_len(&self) -> usize {
        PppoeView::SIZE
    }

    /// Writes the header and returns its length.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than [`header_len`](PppoeRepr::header_len).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let room = room(buffer, self.header_len())?;
        if let Some(first) = room.first_mut() {
            *first = 0x11;
        }
        if let Ok(mut view) = PppoeViewMut::new(room) {
            view.set_code(self.code);
            view.set_session(self.session);
            view.set_length(self.length);
        }
        Ok(self.header_len())
    }
}
