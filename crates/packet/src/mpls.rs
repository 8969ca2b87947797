//! MPLS label stacks (RFC 3032, RFC 5462).

use crate::malformed::Malformed;
use crate::wire::{BufferTooSmall, room, views};

views! {
    /// One entry of a label stack.
    MplsView, MplsViewMut [4] or MplsTruncated;
    /// Label, traffic class, bottom of stack and TTL together.
    entry / set_entry: u32 = 0;
    /// The TTL.
    ttl / set_ttl: u8 = 3;
}

impl MplsView<'_> {
    /// The label, 20 bits.
    #[inline]
    pub fn label(&self) -> u32 {
        self.entry() >> 12
    }

    /// The traffic class, 0 to 7.
    #[inline]
    pub fn class(&self) -> u8 {
        (self.entry() >> 9) as u8 & 7
    }

    /// True if this is the last entry of the stack.
    #[inline]
    pub fn is_bottom(&self) -> bool {
        self.entry() & 0x100 != 0
    }
}

/// An entry as values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MplsRepr {
    /// The label, 20 bits.
    pub label: u32,
    /// The traffic class, 0 to 7.
    pub class: u8,
    /// True if this is the last entry of the stack.
    pub bottom: bool,
    /// The TTL.
    pub ttl: u8,
}

impl MplsRepr {
    /// Reads the entry at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Malformed::MplsTruncated`].
    pub fn parse(bytes: &[u8]) -> Result<MplsRepr, Malformed> {
        let view = MplsView::new(bytes)?;
        Ok(MplsRepr {
            label: view.label(),
            class: view.class(),
            bottom: view.is_bottom(),
            ttl: view.ttl(),
        })
    }

    /// Octets that [`emit`](MplsRepr::emit) writes.
    pub const fn header_len(&self) -> usize {
        MplsView::SIZE
    }

    /// Writes the entry and returns its length. Values wider than their fields lose the excess.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than [`header_len`](MplsRepr::header_len).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let room = room(buffer, self.header_len())?;
        if let Ok(mut view) = MplsViewMut::new(room) {
            view.set_entry(
                self.label << 12
                    | u32::from(self.class & 7) << 9
                    | u32::from(self.bottom) << 8
                    | u32::from(self.ttl),
            );
        }
        Ok(self.header_len())
    }
}

/// The entries of a stack, top first. Ends behind the bottom entry, or with the fault that
/// there is none.
#[derive(Clone, Debug)]
pub struct Labels<'a> {
    bytes: &'a [u8],
    done: bool,
}

impl<'a> Labels<'a> {
    /// The stack at the start of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Labels<'a> {
        Labels { bytes, done: false }
    }
}

impl Iterator for Labels<'_> {
    type Item = Result<MplsRepr, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let entry = MplsRepr::parse(self.bytes);
        self.done = !matches!(entry, Ok(MplsRepr { bottom: false, .. }));
        self.bytes = self.bytes.get(MplsView::SIZE..).unwrap_or(&[]);
        Some(entry)
    }
}
