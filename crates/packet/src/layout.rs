//! The sizes of a packet memory's frames, and where each lies.

use crate::frame::{HEADROOM, META_BYTES};

/// How many frames of which size a packet memory has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLayout {
    /// Number of small frames.
    pub small_frames: u32,
    /// Bytes of a small frame, metadata and headroom included; a multiple of
    /// 64. An odd number of lines spreads frames over all cache sets.
    pub small_bytes: u32,
    /// Number of large frames.
    pub large_frames: u32,
    /// Bytes of a large frame, likewise.
    pub large_bytes: u32,
}

impl Default for MemoryLayout {
    /// 4,096 frames for packets up to 1,856 bytes and 160 for packets up to
    /// 256 KiB; pages that are never used cost nothing.
    fn default() -> MemoryLayout {
        MemoryLayout {
            small_frames: 4_096,
            small_bytes: 33 * 64,
            large_frames: 160,
            large_bytes: 262_144 + 5 * 64,
        }
    }
}

impl MemoryLayout {
    /// Largest packet that fits any frame, in bytes.
    pub const fn largest_packet(&self) -> usize {
        let bytes = if self.large_frames > 0 {
            self.large_bytes
        } else {
            self.small_bytes
        };
        (bytes as usize).saturating_sub(META_BYTES + HEADROOM)
    }

    pub(crate) const fn total_bytes(&self) -> usize {
        self.small_frames as usize * self.small_bytes as usize
            + self.large_frames as usize * self.large_bytes as usize
    }
}

/// Refuses sizes that can't be.
///
/// # Panics
///
/// If a size is impossible.
pub(crate) fn check(layout: &MemoryLayout) {
    for bytes in [layout.small_bytes, layout.large_bytes] {
        assert!(bytes.is_multiple_of(64), "a frame is whole cache lines");
        assert!(
            bytes as usize > META_BYTES + HEADROOM,
            "a frame has room for a packet"
        );
        assert!(bytes / 64 < 1 << 16, "a frame has less than 4 MiB");
    }
    let total = layout.total_bytes();
    assert!(
        total > 0 && total / 64 < u32::MAX as usize,
        "offsets fit a descriptor"
    );
}

/// Divides line numbers by the lines of a frame, with a multiplication.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    by: u32,
    /// 2^64 / by, rounded up: exact for all numbers of 32 bits.
    inverse: u64,
}

impl Divisor {
    pub(crate) const fn new(by: u32) -> Divisor {
        Divisor {
            by,
            // A frame has more than one line (`check`).
            inverse: u64::MAX / by as u64 + 1,
        }
    }

    #[inline]
    pub(crate) fn quotient(self, number: u32) -> u32 {
        ((u128::from(number) * u128::from(self.inverse)) >> 64) as u32
    }

    /// The quotient, where nothing is left over.
    #[inline]
    pub(crate) fn whole(self, number: u32) -> Option<u32> {
        let quotient = self.quotient(number);
        (quotient.wrapping_mul(self.by) == number).then_some(quotient)
    }
}
