//! Packets as they were numbered.

use weir_packet::{Disposition, frame_flags};
use weir_protocol::message::{Entry, Part};

/// A number and its packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbered {
    /// The packet as it was sent first.
    pub(crate) part: Option<Part>,
    /// The switch said that it can't send it again.
    pub(crate) lost: bool,
}

impl Numbered {
    /// The packet that was applied, by what was made of it: the packet, or that it was
    /// lost. `None` where neither was ever sent.
    pub(crate) fn applied(&self, made: &Entry) -> Option<Part> {
        let applied = made.parts.last().map(|p| p.disposition) == Some(Disposition::Applied);
        let tick = |p: &Part| p.flags & frame_flags::TICK != 0;
        match &self.part {
            Some(part) if !applied => Some(part.clone()),
            Some(part) if tick(part) => {
                // Made anew where no copy was kept: its time is what counts.
                let mut part = part.clone();
                part.time = made.parts.last()?.time;
                Some(part)
            }
            _ if applied && self.lost => {
                let last = made.parts.last()?;
                let mut part = last.clone();
                part.disposition = Disposition::Pending;
                part.flags = frame_flags::LOST;
                part.bytes.clear();
                Some(part)
            }
            _ => None,
        }
    }
}
