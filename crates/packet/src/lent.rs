//! Frames that something outside the program has: a kernel, a device, another
//! process.

use std::sync::Arc;

use crate::frame::Frame;
use crate::memory::{FramePool, PacketMemory};

/// Small frames that were lent to something outside, which names them by
/// offsets in the packet memory.
///
/// A frame that is lent is nobody's in the program: no reference to its bytes
/// can be had, so its holder may write them. It comes back once, and only
/// if it was lent: an offset from outside that makes no sense gives `None`,
/// never a second owner of a frame. Frames that are lent when this is dropped
/// are lost to their pool.
///
/// ```
/// use weir_packet::{FramePool, Lent, MemoryLayout};
///
/// let mut pool = FramePool::with_layout(MemoryLayout::default());
/// let mut lent = Lent::new(pool.memory());
/// let frame = pool.take(60)?;
/// let offset = lent.lend(frame).expect("a small frame");
/// let back = lent.take_back(offset + 320).expect("any octet of it names it");
/// assert!(lent.take_back(offset).is_none());
/// pool.give(back);
/// # Ok::<(), weir_packet::NoFrame>(())
/// ```
#[derive(Debug)]
pub struct Lent {
    memory: Arc<PacketMemory>,
    /// A bit per small frame, by its number.
    bits: Box<[u64]>,
    count: usize,
    /// Bits to shift if the size of a frame is a power of two.
    shift: Option<u32>,
}

impl Lent {
    /// None is lent yet.
    pub fn new(memory: &Arc<PacketMemory>) -> Lent {
        let layout = memory.layout();
        let bytes = layout.small_bytes;
        Lent {
            memory: Arc::clone(memory),
            bits: vec![0; (layout.small_frames as usize).div_ceil(64)].into_boxed_slice(),
            count: 0,
            shift: bytes.is_power_of_two().then(|| bytes.trailing_zeros()),
        }
    }

    /// Lends a frame: its offset in the packet memory, in bytes. A large frame
    /// comes back at once.
    ///
    /// # Panics
    ///
    /// If it is a frame of another memory: a fault of the program.
    #[inline]
    pub fn lend(&mut self, frame: Frame) -> Result<u64, Frame> {
        assert!(
            frame.memory == self.memory.id(),
            "a frame is lent with the memory it came from"
        );
        let offset = frame.offset() as u64;
        let number = self.number(offset);
        let Some(word) = self.bits.get_mut(number / 64) else {
            return Err(frame);
        };
        if number >= self.memory.layout().small_frames as usize {
            return Err(frame);
        }
        debug_assert!(*word & (1 << (number % 64)) == 0, "a frame has one owner");
        *word |= 1 << (number % 64);
        self.count += 1;
        Ok(offset)
    }

    /// Takes the frame back in which the octet at `offset` lies; `None` where
    /// there is no such frame, or it was not lent.
    #[inline]
    pub fn take_back(&mut self, offset: u64) -> Option<Frame> {
        let number = self.number(offset);
        let word = self.bits.get_mut(number / 64)?;
        let bit = 1 << (number % 64);
        if *word & bit == 0 {
            return None;
        }
        *word &= !bit;
        self.count -= 1;
        Some(self.frame(number))
    }

    /// Gives all frames that are lent back to their pool, once nothing outside
    /// touches them any more: how many there were.
    pub fn take_back_all(&mut self, pool: &mut FramePool) -> usize {
        let count = self.count;
        for number in 0..self.bits.len() * 64 {
            let word = &mut self.bits[number / 64];
            let bit = 1 << (number % 64);
            if *word & bit != 0 {
                *word &= !bit;
                pool.give(self.frame(number));
            }
        }
        self.count = 0;
        count
    }

    /// Frames that are lent now.
    pub fn count(&self) -> usize {
        self.count
    }

    #[inline]
    fn number(&self, offset: u64) -> usize {
        let number = match self.shift {
            Some(shift) => offset >> shift,
            None => offset / u64::from(self.memory.layout().small_bytes),
        };
        usize::try_from(number).unwrap_or(usize::MAX)
    }

    /// Only for a number whose bit was set: the one owner there is.
    #[inline]
    fn frame(&self, number: usize) -> Frame {
        Frame {
            line: number as u32 * (self.memory.layout().small_bytes / 64),
            memory: self.memory.id(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FrameMeta, MemoryLayout};

    fn pool(small_bytes: u32) -> FramePool {
        FramePool::with_layout(MemoryLayout {
            small_frames: 70,
            small_bytes,
            large_frames: 1,
            large_bytes: 4_096,
        })
    }

    #[test]
    fn a_frame_comes_back_once_with_its_bytes() {
        for bytes in [2_048, 33 * 64] {
            let mut pool = pool(bytes);
            let mut lent = Lent::new(pool.memory());
            let mut offsets = Vec::new();
            for i in 0..70u8 {
                let frame = pool.copy(&[i; 40], FrameMeta::default()).unwrap();
                let offset = lent.lend(frame).unwrap();
                assert!(offset.is_multiple_of(u64::from(bytes)));
                offsets.push(offset);
            }
            assert_eq!((lent.count(), pool.outstanding()), (70, 70));
            for (i, &offset) in offsets.iter().enumerate().step_by(2) {
                let frame = lent.take_back(offset + u64::from(bytes) - 1).unwrap();
                assert_eq!(pool.memory().bytes(&frame), [i as u8; 40]);
                assert!(lent.take_back(offset).is_none());
                pool.give(frame);
            }
            assert_eq!(lent.take_back_all(&mut pool), 35);
            assert_eq!((lent.count(), pool.outstanding()), (0, 0));
        }
    }

    #[test]
    fn what_is_not_lent_or_no_frame_is_refused() {
        let mut pool = pool(2_048);
        let mut lent = Lent::new(pool.memory());
        for offset in [0, 2_048, 70 * 2_048, 127 * 2_048, 128 * 2_048, u64::MAX] {
            assert!(lent.take_back(offset).is_none(), "{offset}");
        }
        let large = pool.take(3_000).unwrap();
        let large = lent.lend(large).unwrap_err();
        pool.give(large);
        assert_eq!(pool.outstanding(), 0);
    }
}
