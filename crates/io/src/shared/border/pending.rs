//! Notices that a tenant is to be told of when it is ready.

use std::collections::VecDeque;

use weir_packet::FrameMeta;

/// Bytes of notices that are kept at most.
const MOST: usize = 16 << 20;

/// Notices in their order, as copies.
#[derive(Debug, Default)]
pub(super) struct PendingNotices {
    /// Metadata, room in its frame, and length.
    notices: VecDeque<(FrameMeta, usize, usize)>,
    bytes: VecDeque<u8>,
}

impl PendingNotices {
    pub(super) fn is_empty(&self) -> bool {
        self.notices.is_empty()
    }

    /// Adds one; false where that is too much.
    pub(super) fn add(&mut self, meta: &FrameMeta, room: usize, bytes: &[u8]) -> bool {
        let each = self.notices.len() * size_of::<(FrameMeta, usize, usize)>();
        let fits = each + self.bytes.len() + bytes.len() <= MOST;
        if fits {
            self.notices.push_back((*meta, room, bytes.len()));
            self.bytes.extend(bytes);
        }
        fits
    }

    /// The first one: its metadata, the room in its frame, and its bytes.
    pub(super) fn first(&mut self) -> Option<(&FrameMeta, usize, &[u8])> {
        let (meta, room, len) = self.notices.front()?;
        let bytes = match self.bytes.as_slices().0.get(..*len) {
            Some(_) => self.bytes.as_slices().0,
            // Around the end: once per length of all that there is.
            None => self.bytes.make_contiguous(),
        };
        Some((meta, *room, bytes.get(..*len)?))
    }

    pub(super) fn drop_first(&mut self) {
        if let Some((_, _, len)) = self.notices.pop_front() {
            self.bytes.drain(..len);
        }
        if self.notices.is_empty() {
            // Its memory was for a start under load: most have none.
            *self = PendingNotices::default();
        }
    }

    pub(super) fn clear(&mut self) {
        *self = PendingNotices::default();
    }
}
