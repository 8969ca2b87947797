//! Frames of a packet memory that a process has which is not trusted, as the
//! other side of the border sees them: numbers, places and bytes. No [`Frame`]
//! is ever made of one, and nothing there is read as anything but bytes.
//!
//! [`Frame`]: crate::Frame

use core::mem::offset_of;

use crate::frame::{FrameMeta, META_BYTES};
use crate::{MemberId, MemoryLayout};

/// Numbers that a neighbour wrote over a frame's metadata, none of them checked. Other metadata is
/// not read from the neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaidMeta {
    /// As [`FrameMeta::time`].
    pub time: u64,
    /// As [`FrameMeta::len`].
    pub len: u32,
    /// As [`FrameMeta::start`].
    pub start: u16,
    /// As [`FrameMeta::port`].
    pub port: u8,
    /// The number of [`FrameMeta::side`].
    pub side: u8,
    /// The number of [`FrameMeta::link`].
    pub link: u8,
    /// As [`FrameMeta::flags`].
    pub flags: u8,
    /// As [`FrameMeta::next`].
    pub next: u8,
}

impl SaidMeta {
    /// Of a frame's first bytes, which are to be a private copy.
    pub fn read(bytes: &[u8; META_BYTES]) -> SaidMeta {
        SaidMeta {
            time: u64::from_ne_bytes(at(bytes, offset_of!(FrameMeta, time))),
            len: u32::from_ne_bytes(at(bytes, offset_of!(FrameMeta, len))),
            start: u16::from_ne_bytes(at(bytes, offset_of!(FrameMeta, start))),
            port: bytes[offset_of!(FrameMeta, port)],
            side: bytes[offset_of!(FrameMeta, side)],
            link: bytes[offset_of!(FrameMeta, link)],
            flags: bytes[offset_of!(FrameMeta, flags)],
            next: bytes[offset_of!(FrameMeta, next)],
        }
    }
}

fn at<const N: usize>(bytes: &[u8; META_BYTES], offset: usize) -> [u8; N] {
    core::array::from_fn(|i| bytes[offset + i])
}

impl FrameMeta {
    /// Its bytes as they lie in a frame.
    pub fn to_bytes(&self) -> [u8; META_BYTES] {
        let mut bytes = [0; META_BYTES];
        let mut put = |offset: usize, field: &[u8]| {
            bytes[offset..offset + field.len()].copy_from_slice(field);
        };
        put(offset_of!(FrameMeta, time), &self.time.0.to_ne_bytes());
        put(
            offset_of!(FrameMeta, sequence),
            &self.sequence.to_ne_bytes(),
        );
        put(offset_of!(FrameMeta, unit), &self.unit.to_ne_bytes());
        put(offset_of!(FrameMeta, clock), &self.clock.to_ne_bytes());
        put(offset_of!(FrameMeta, view), &self.view.to_ne_bytes());
        put(offset_of!(FrameMeta, len), &self.len.to_ne_bytes());
        put(
            offset_of!(FrameMeta, wire_len),
            &self.wire_len.to_ne_bytes(),
        );
        put(offset_of!(FrameMeta, start), &self.start.to_ne_bytes());
        put(offset_of!(FrameMeta, chain), &self.chain.to_ne_bytes());
        put(offset_of!(FrameMeta, tenant), &self.tenant.to_ne_bytes());
        put(offset_of!(FrameMeta, port), &[self.port]);
        put(offset_of!(FrameMeta, side), &[self.side as u8]);
        put(offset_of!(FrameMeta, link), &[self.link as u8]);
        put(offset_of!(FrameMeta, flags), &[self.flags]);
        put(offset_of!(FrameMeta, dlt), &self.dlt.to_ne_bytes());
        put(
            offset_of!(FrameMeta, disposition),
            &[self.disposition as u8],
        );
        put(offset_of!(FrameMeta, next), &[self.next]);
        put(offset_of!(FrameMeta, kind), &[self.kind as u8]);
        put(offset_of!(FrameMeta, watched), &[self.watched()]);
        bytes
    }
}

impl MemoryLayout {
    /// Frames of both sizes.
    pub const fn frames(&self) -> u32 {
        self.small_frames + self.large_frames
    }

    /// Place and length in bytes of the frame of this number, metadata
    /// included; `None` where there is none.
    pub const fn frame_place(&self, number: u32) -> Option<(usize, usize)> {
        let small = self.small_frames as usize * self.small_bytes as usize;
        if number < self.small_frames {
            let bytes = self.small_bytes as usize;
            return Some((number as usize * bytes, bytes));
        }
        let number = number - self.small_frames;
        if number < self.large_frames {
            let bytes = self.large_bytes as usize;
            return Some((small + number as usize * bytes, bytes));
        }
        None
    }

    /// The number of the frame that a process hands over by this descriptor;
    /// `None` where it names none.
    pub const fn frame_of_descriptor(&self, descriptor: u32) -> Option<u32> {
        let at = descriptor as usize * 64;
        let small = self.small_frames as usize * self.small_bytes as usize;
        let (from, bytes, before) = if at < small {
            (0, self.small_bytes as usize, 0)
        } else {
            (small, self.large_bytes as usize, self.small_frames)
        };
        let number = (at - from) / bytes;
        if !(at - from).is_multiple_of(bytes) || number > u32::MAX as usize {
            return None;
        }
        match before.checked_add(number as u32) {
            Some(number) if number < self.frames() => Some(number),
            _ => None,
        }
    }

    /// The descriptor of a frame, as rings hold it.
    pub const fn descriptor(&self, number: u32) -> Option<u32> {
        match self.frame_place(number) {
            Some((at, _)) => Some((at / 64) as u32),
            None => None,
        }
    }

    /// Place of a frame's owner in the table ([`crate::PacketMemory::take_over`]), and the value
    /// to write there for a frame that the main process hands over.
    pub const fn owner_place(&self, number: u32) -> (usize, u8) {
        (
            self.total_bytes() + number as usize,
            MemberId::MAIN.number(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkType, PacketMemory, Side, Time};

    #[test]
    fn what_is_asked_of_metadata_is_where_it_lies() {
        let mut meta = FrameMeta::received(Time(7), 60);
        (meta.sequence, meta.unit, meta.clock, meta.view) = (1 << 40, 2 << 40, 3 << 40, 4 << 40);
        (meta.wire_len, meta.chain, meta.tenant, meta.port) = (99, 5, 6, 7);
        (meta.side, meta.link, meta.flags) = (Side::Outside, LinkType::RawIp, 9);
        (meta.dlt, meta.next) = (101, 11);
        meta.watch(3);
        let said = SaidMeta::read(&meta.to_bytes());
        let want = SaidMeta {
            time: 7,
            len: 60,
            start: meta.start,
            port: 7,
            side: 1,
            link: LinkType::RawIp as u8,
            flags: 9,
            next: 11,
        };
        assert_eq!(said, want);
    }

    #[test]
    fn descriptors_name_what_the_memory_names() {
        let layout = MemoryLayout {
            small_frames: 5,
            small_bytes: 320,
            large_frames: 3,
            large_bytes: 832,
        };
        let memory = PacketMemory::new(layout, crate::no_advice);
        for descriptor in 0..80 {
            let number = layout.frame_of_descriptor(descriptor);
            assert_eq!(number, memory.number_at(descriptor), "{descriptor}");
            if let Some(number) = number {
                assert_eq!(layout.descriptor(number), Some(descriptor));
            }
        }
        for descriptor in [u32::MAX, u32::MAX - 1, 1 << 31] {
            assert_eq!(layout.frame_of_descriptor(descriptor), None);
        }
        assert_eq!(layout.frame_place(8), None);
    }
}
