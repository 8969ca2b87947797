//! Packet memory: fixed frames in one mapping, handed out as descriptors.
//!
//! A memory has two sizes of frame. Small ones hold anything an Ethernet
//! carries; a few large ones hold the reassembled or offloaded packets that
//! captures contain. A packet is always contiguous.
//!
//! # Safety
//!
//! The argument for this module's `unsafe` in one place. A [`Frame`] can be
//! made only by [`FramePool::new`] (once per line range, since a memory gives
//! out its pool once) and can't be copied, so at most one exists per range of
//! bytes. It names its memory, and every access checks that name. A shared
//! reference to the frame gives shared access to its bytes, an exclusive one
//! gives exclusive access, so Rust's aliasing rules for the descriptor carry
//! over to the bytes.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;

use crate::arena::{Advise, Arena};
use crate::frame::{Frame, FrameMeta, HEADROOM, META_BYTES};

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

    const fn total_bytes(&self) -> usize {
        self.small_frames as usize * self.small_bytes as usize
            + self.large_frames as usize * self.large_bytes as usize
    }
}

static NEXT_MEMORY: AtomicU32 = AtomicU32::new(1);

/// One mapping full of frames.
#[derive(Debug)]
pub struct PacketMemory {
    lines: Arena<[u64; 8]>,
    layout: MemoryLayout,
    /// First line of the large frames.
    large_from: u32,
    id: u32,
    pooled: AtomicBool,
}

// SAFETY: the bytes are reached only through frames (module documentation),
// which are exclusive; everything else in here is immutable or atomic.
unsafe impl Send for PacketMemory {}
// SAFETY: as above.
unsafe impl Sync for PacketMemory {}

impl PacketMemory {
    /// Reserves the memory.
    ///
    /// # Panics
    ///
    /// Where a frame is not a multiple of 64 bytes, has no room for a packet,
    /// or the sum is over 256 GiB: faults of the program, not of its input.
    pub fn new(layout: MemoryLayout, advise: Advise) -> Arc<PacketMemory> {
        for bytes in [layout.small_bytes, layout.large_bytes] {
            assert!(bytes.is_multiple_of(64), "a frame is whole cache lines");
            assert!(
                bytes as usize > META_BYTES + HEADROOM,
                "a frame has room for a packet"
            );
        }
        let total = layout.total_bytes();
        assert!(
            total > 0 && total / 64 < u32::MAX as usize,
            "offsets fit a descriptor"
        );
        let id = NEXT_MEMORY.fetch_add(1, Ordering::Relaxed);
        let lines = Arena::zeroed(total / 64, advise);
        Arc::new(PacketMemory {
            lines,
            layout,
            large_from: layout.small_frames * (layout.small_bytes / 64),
            id,
            pooled: AtomicBool::new(false),
        })
    }

    /// The sizes it was made with.
    pub const fn layout(&self) -> &MemoryLayout {
        &self.layout
    }

    #[inline]
    fn place(&self, frame: &Frame) -> (*mut u8, usize) {
        // A frame of another memory would alias one of this: refuse always,
        // not in debug builds only.
        assert!(
            frame.memory == self.id,
            "a frame is used with the memory it came from"
        );
        let bytes = if frame.line < self.large_from {
            self.layout.small_bytes
        } else {
            self.layout.large_bytes
        };
        // SAFETY: a frame's offset was computed by the pool inside the total.
        (
            unsafe { self.lines.raw().cast::<u8>().add(frame.offset()) },
            bytes as usize,
        )
    }

    /// Bytes a packet in this frame may have at most, headroom included.
    pub fn room(&self, frame: &Frame) -> usize {
        self.place(frame).1 - META_BYTES
    }

    /// The frame's metadata.
    #[inline]
    pub fn meta<'a>(&'a self, frame: &'a Frame) -> &'a FrameMeta {
        let (start, _) = self.place(frame);
        // SAFETY: frames start on a line and their first line is always a
        // valid `FrameMeta` (all zero, or written as one); shared while
        // `frame` is borrowed shared.
        unsafe { &*start.cast::<FrameMeta>() }
    }

    /// The frame's metadata, for writing.
    #[inline]
    pub fn meta_mut<'a>(&'a self, frame: &'a mut Frame) -> &'a mut FrameMeta {
        let (start, _) = self.place(frame);
        // SAFETY: as in `meta`, and exclusive through `frame`.
        unsafe { &mut *start.cast::<FrameMeta>() }
    }

    /// Metadata and the whole room behind it, for writing.
    #[inline]
    pub fn split_mut<'a>(&'a self, frame: &'a mut Frame) -> (&'a mut FrameMeta, &'a mut [u8]) {
        let (start, bytes) = self.place(frame);
        // SAFETY: exclusive through `frame`; the two ranges are disjoint and
        // inside the frame.
        unsafe {
            (
                &mut *start.cast::<FrameMeta>(),
                core::slice::from_raw_parts_mut(start.add(META_BYTES), bytes - META_BYTES),
            )
        }
    }

    /// Metadata and the packet's bytes.
    #[inline]
    pub fn read<'a>(&'a self, frame: &'a Frame) -> (&'a FrameMeta, &'a [u8]) {
        let (start, bytes) = self.place(frame);
        // SAFETY: as in `meta`; the slice is cut to the frame below.
        let (meta, room) = unsafe {
            (
                &*start.cast::<FrameMeta>(),
                core::slice::from_raw_parts(start.add(META_BYTES), bytes - META_BYTES),
            )
        };
        let first = meta.start as usize;
        let bytes = room.get(first..first + meta.len as usize);
        (meta, bytes.unwrap_or(&[]))
    }

    /// The packet's bytes.
    #[inline]
    pub fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.read(frame).1
    }

    /// Asks the processor to fetch the frame's metadata and first packet line.
    #[inline]
    pub fn prefetch(&self, frame: &Frame) {
        let (start, _) = self.place(frame);
        crate::prefetch::read(start);
        crate::prefetch::read(start.wrapping_add(META_BYTES + HEADROOM));
    }
}

/// The free frames of a packet memory, last in, first out: the frame given
/// out next is the one most likely still in a cache.
#[derive(Debug)]
pub struct FramePool {
    memory: Arc<PacketMemory>,
    small: Vec<Frame>,
    large: Vec<Frame>,
}

/// A packet longer than every frame, or no frame left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoFrame {
    /// Longer than the largest frame: counted `frame_too_large`.
    TooLarge,
    /// All frames are in use: counted `no_frame`.
    Exhausted,
}

impl FramePool {
    /// All frames of `memory`; `None` if they were taken before.
    pub fn new(memory: Arc<PacketMemory>) -> Option<FramePool> {
        if memory.pooled.swap(true, Ordering::Relaxed) {
            return None;
        }
        let layout = *memory.layout();
        let id = memory.id;
        let frames = |count: u32, bytes: u32, from: u64| {
            (0..count)
                .rev()
                .map(|i| Frame {
                    line: ((from + u64::from(i) * u64::from(bytes)) / 64) as u32,
                    memory: id,
                })
                .collect::<Vec<_>>()
        };
        let small_total = u64::from(layout.small_frames) * u64::from(layout.small_bytes);
        Some(FramePool {
            small: frames(layout.small_frames, layout.small_bytes, 0),
            large: frames(layout.large_frames, layout.large_bytes, small_total),
            memory,
        })
    }

    /// A pool of its own with the default layout and no advice: for tests
    /// and tools.
    pub fn with_layout(layout: MemoryLayout) -> FramePool {
        FramePool::new(PacketMemory::new(layout, crate::no_advice)).expect("the memory is new")
    }

    /// A pool of its own with so many of this one's frames, or as many as
    /// there are.
    pub fn share(&mut self, small: u32, large: u32) -> FramePool {
        let take = |from: &mut Vec<Frame>, count: u32| {
            let left = from.len().saturating_sub(count as usize);
            from.split_off(left)
        };
        FramePool {
            memory: self.memory.clone(),
            small: take(&mut self.small, small),
            large: take(&mut self.large, large),
        }
    }

    /// Frames that can be taken now.
    pub fn available(&self) -> usize {
        self.small.len() + self.large.len()
    }

    /// The memory that the frames lie in.
    pub fn memory(&self) -> &Arc<PacketMemory> {
        &self.memory
    }

    /// A frame with room for `len` bytes of packet behind the headroom. Its
    /// metadata is that of its last use: the taker writes it.
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<Frame, NoFrame> {
        let layout = self.memory.layout();
        if len + META_BYTES + HEADROOM <= layout.small_bytes as usize {
            if let Some(frame) = self.small.pop() {
                return Ok(frame);
            }
        } else if len > layout.largest_packet() {
            return Err(NoFrame::TooLarge);
        }
        self.large.pop().ok_or(NoFrame::Exhausted)
    }

    /// A frame that holds a copy of `bytes`, with `meta`'s `start`, `len` set.
    pub fn copy(&mut self, bytes: &[u8], meta: FrameMeta) -> Result<Frame, NoFrame> {
        let mut frame = self.take(bytes.len())?;
        let (place, room) = self.memory.split_mut(&mut frame);
        *place = FrameMeta {
            start: HEADROOM as u16,
            len: bytes.len() as u32,
            ..meta
        };
        room[HEADROOM..HEADROOM + bytes.len()].copy_from_slice(bytes);
        Ok(frame)
    }

    /// Takes a frame back.
    #[inline]
    pub fn give(&mut self, frame: Frame) {
        assert!(
            frame.memory == self.memory.id,
            "a frame goes back to its own pool"
        );
        // Neither list can grow past the frames it was made with, so `push`
        // never allocates.
        if frame.line < self.memory.large_from {
            self.small.push(frame);
        } else {
            self.large.push(frame);
        }
    }

    /// Takes frames back in bulk.
    #[inline]
    pub fn give_all(&mut self, frames: &mut Vec<Frame>) {
        for frame in frames.drain(..) {
            self.give(frame);
        }
    }

    /// True where less than half of the frames of this one's size are free.
    /// Who keeps frames for later keeps none then: packets that wait must
    /// leave room for those they wait for.
    pub fn is_scarce(&self, frame: &Frame) -> bool {
        let layout = self.memory.layout();
        let (free, all) = if frame.line < self.memory.large_from {
            (self.small.len(), layout.small_frames)
        } else {
            (self.large.len(), layout.large_frames)
        };
        free < all as usize / 2
    }

    /// Frames that are out of the pool now: 0 at the end of a clean run.
    pub fn outstanding(&self) -> usize {
        let layout = self.memory.layout();
        (layout.small_frames + layout.large_frames) as usize - self.small.len() - self.large.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Time, no_advice};

    fn tiny() -> MemoryLayout {
        MemoryLayout {
            small_frames: 4,
            small_bytes: 512,
            large_frames: 2,
            large_bytes: 4096,
        }
    }

    #[test]
    fn frames_hold_what_was_written_and_do_not_overlap() {
        let mut pool = FramePool::with_layout(tiny());
        let memory = pool.memory().clone();
        let frames: Vec<Frame> = (0..6u8)
            .map(|i| {
                let bytes = vec![i; if i < 4 { 300 } else { 3_000 }];
                pool.copy(&bytes, FrameMeta::received(Time(u64::from(i)), 0))
                    .unwrap()
            })
            .collect();
        assert_eq!(
            pool.copy(&[0; 10], FrameMeta::default()).err(),
            Some(NoFrame::Exhausted)
        );
        for (i, frame) in frames.iter().enumerate() {
            assert!(memory.bytes(frame).iter().all(|&b| b == i as u8));
            assert_eq!(memory.meta(frame).time, Time(i as u64));
        }
        assert_eq!(pool.outstanding(), 6);
        frames.into_iter().for_each(|frame| pool.give(frame));
        assert_eq!(pool.outstanding(), 0);
    }

    #[test]
    fn a_packet_larger_than_every_frame_is_named() {
        let mut pool = FramePool::with_layout(tiny());
        let largest = tiny().largest_packet();
        assert_eq!(
            pool.copy(&vec![0; largest + 1], FrameMeta::default()).err(),
            Some(NoFrame::TooLarge)
        );
        let frame = pool.copy(&vec![7; largest], FrameMeta::default()).unwrap();
        assert_eq!(pool.memory().bytes(&frame).len(), largest);
        pool.give(frame);
    }

    #[test]
    fn small_packets_take_large_frames_when_small_ones_run_out() {
        let mut pool = FramePool::with_layout(tiny());
        let frames: Vec<Frame> = (0..6).map(|_| pool.take(64).unwrap()).collect();
        assert_eq!(pool.take(64).err(), Some(NoFrame::Exhausted));
        frames.into_iter().for_each(|frame| pool.give(frame));
    }

    #[test]
    #[should_panic(expected = "memory it came from")]
    fn a_frame_of_another_memory_is_refused() {
        let mut one = FramePool::with_layout(tiny());
        let two = FramePool::with_layout(tiny());
        let frame = one.take(10).unwrap();
        two.memory().bytes(&frame);
    }

    #[test]
    fn a_memory_gives_its_frames_out_once() {
        let memory = PacketMemory::new(tiny(), no_advice);
        assert!(FramePool::new(memory.clone()).is_some());
        assert!(FramePool::new(memory).is_none());
    }
}
