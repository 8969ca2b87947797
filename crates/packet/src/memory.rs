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
//! out its pool once; a share of a pool is made of frames of that pool), by
//! [`crate::Lent`], of a frame that it took before and for each of these once, and
//! of one that another process gave up (the module `members`, with the argument for
//! several processes), and again of one that a pool put into the reserve. It
//! can't be copied, so at most one exists per range of bytes. It names its
//! memory, and every access checks that name. A shared reference to the frame
//! gives shared access to its bytes, an exclusive one gives exclusive access,
//! so Rust's aliasing rules for the descriptor carry over to the bytes. A frame
//! reaches another thread only by ways that move values between threads, which
//! order what was written before with what is read after.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;

use crate::arena::{Advise, Arena};
use crate::frame::{Frame, FrameMeta, HEADROOM, META_BYTES};
use crate::layout::{Divisor, MemoryLayout, check};
use crate::ledger::{Holder, Ledger};
use crate::mapping::Shared;
use crate::marks::Marks;

use crate::reserve::Reserve;

static NEXT_MEMORY: AtomicU32 = AtomicU32::new(1);

/// Memory that holds the frames.
#[derive(Debug)]
enum Bytes {
    #[allow(dead_code)] // Kept for its memory, which `start` points to.
    Own(Arena<[u64; 8]>),
    Shared(Shared),
}

/// One mapping full of frames.
#[derive(Debug)]
pub struct PacketMemory {
    bytes: Bytes,
    /// Its first byte.
    start: NonNull<u8>,
    layout: MemoryLayout,
    /// First line of the large frames.
    large_from: u32,
    id: u32,
    pooled: AtomicBool,
    marks: Marks,
    /// Frames that are in no pool: small ones, and large ones.
    reserve: Reserve,
    large_reserve: Reserve,
    ledger: Option<Ledger>,
    /// Lines of a frame of each size, to divide by.
    small: Divisor,
    large: Divisor,
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
    /// If a frame is not a multiple of 64 bytes, has no room for a packet or more than 4 MiB, or
    /// the sum is over 256 GiB: faults of the program, not of its input.
    pub fn new(layout: MemoryLayout, advise: Advise) -> Arc<PacketMemory> {
        PacketMemory::own(layout, advise, false)
    }

    /// The same, with a ledger of who had each frame last: for finding those
    /// that are leaked ([`PacketMemory::held`]) or given back twice
    /// ([`PacketMemory::doubled`]). It costs an atomic word or two per packet.
    ///
    /// # Panics
    ///
    /// As [`PacketMemory::new`].
    pub fn checked(layout: MemoryLayout, advise: Advise) -> Arc<PacketMemory> {
        PacketMemory::own(layout, advise, true)
    }

    fn own(layout: MemoryLayout, advise: Advise, checked: bool) -> Arc<PacketMemory> {
        check(&layout);
        let lines = Arena::<[u64; 8]>::zeroed(layout.total_bytes() / 64, advise);
        let start = NonNull::new(lines.raw().cast()).unwrap_or(NonNull::dangling());
        PacketMemory::at(layout, Bytes::Own(lines), start, false, checked)
    }

    /// Says that `holder` has these frames now; nothing without a ledger.
    #[inline]
    pub fn hold<'a>(&self, frames: impl IntoIterator<Item = &'a Frame>, holder: Holder) {
        if let Some(ledger) = &self.ledger {
            for frame in frames {
                ledger.hold(self.number(frame), holder);
            }
        }
    }

    /// Frames that are in no pool, by who had them last; none without a ledger.
    pub fn held(&self) -> Vec<(Holder, usize)> {
        self.ledger.as_ref().map_or_else(Vec::new, Ledger::out)
    }

    /// Times that a frame was given back that was in a pool already, and for
    /// the first few who gave it back first and then. Such a frame stays in its
    /// pool once. Nothing without a ledger.
    pub fn doubled(&self) -> (usize, Vec<(Holder, Holder)>) {
        self.ledger
            .as_ref()
            .map_or_else(Default::default, Ledger::doubled)
    }

    /// Free small frames in the reserve that the memory's pools share, about.
    pub fn in_reserve(&self) -> usize {
        self.reserve.count()
    }

    /// The same of large frames.
    pub fn large_in_reserve(&self) -> usize {
        self.large_reserve.count()
    }

    /// In a mapping; `pooled` where another process has all frames at first.
    pub(crate) fn over(layout: MemoryLayout, shared: Shared, pooled: bool) -> Arc<PacketMemory> {
        check(&layout);
        let start = shared.start();
        PacketMemory::at(layout, Bytes::Shared(shared), start, pooled, false)
    }

    fn at(
        layout: MemoryLayout,
        bytes: Bytes,
        start: NonNull<u8>,
        pooled: bool,
        checked: bool,
    ) -> Arc<PacketMemory> {
        let frames = layout.small_frames as usize + layout.large_frames as usize;
        Arc::new(PacketMemory {
            bytes,
            start,
            layout,
            large_from: layout.small_frames * (layout.small_bytes / 64),
            id: NEXT_MEMORY.fetch_add(1, Ordering::Relaxed),
            pooled: AtomicBool::new(pooled),
            marks: Marks::new(frames),
            reserve: Reserve::new(layout.small_frames as usize),
            large_reserve: Reserve::new(layout.large_frames as usize),
            ledger: checked.then(|| Ledger::new(frames)),
            small: Divisor::new(layout.small_bytes / 64),
            large: Divisor::new(layout.large_bytes / 64),
        })
    }

    /// The part that is shared with other processes, if any.
    #[inline]
    pub(crate) fn shared(&self) -> Option<&Shared> {
        match &self.bytes {
            Bytes::Own(_) => None,
            Bytes::Shared(shared) => Some(shared),
        }
    }

    /// The number of the frame that begins at a line; `None` where none does.
    #[inline]
    pub(crate) fn number_at(&self, line: u32) -> Option<u32> {
        match line.checked_sub(self.large_from) {
            None => self.small.whole(line),
            Some(behind) => {
                let number = self.large.whole(behind)?;
                let known = number < self.layout.large_frames;
                known.then_some(self.layout.small_frames + number)
            }
        }
    }

    /// Divisor for the lines of small frames, and the end of these.
    #[inline]
    pub(crate) fn small(&self) -> (Divisor, u32) {
        (self.small, self.large_from)
    }

    /// The frame of a number, to be made for its one owner only.
    pub(crate) fn frame_at(&self, number: u32) -> Frame {
        let line = match number.checked_sub(self.layout.small_frames) {
            None => number * (self.layout.small_bytes / 64),
            Some(large) => self.large_from + large * (self.layout.large_bytes / 64),
        };
        Frame {
            line,
            memory: self.id,
        }
    }

    /// The sizes it was made with.
    pub const fn layout(&self) -> &MemoryLayout {
        &self.layout
    }

    /// Address and length in bytes of the small frames, which come first in the
    /// memory: for drivers that have the kernel or a device read and write
    /// frames that were lent to it ([`crate::Lent`]). It is aligned to a page
    /// where the memory has 2 MiB or more. Nothing else may be reached by it.
    pub fn small_frames(&self) -> (*mut u8, usize) {
        let bytes = self.layout.small_frames as usize * self.layout.small_bytes as usize;
        (self.start.as_ptr(), bytes)
    }

    /// The number that its frames bear.
    #[inline]
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Marks on its frames, by their numbers.
    pub const fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Number of the frame in this memory: the small ones from 0, the large
    /// ones after them.
    ///
    /// # Panics
    ///
    /// If the frame is one of another memory: a fault of the program.
    #[inline]
    pub fn number(&self, frame: &Frame) -> u32 {
        assert!(
            frame.memory == self.id,
            "a frame is used with the memory it came from"
        );
        match frame.line.checked_sub(self.large_from) {
            None => self.small.quotient(frame.line),
            Some(behind) => self.layout.small_frames + self.large.quotient(behind),
        }
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
            unsafe { self.start.as_ptr().add(frame.offset()) },
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
        let bytes = match room.get(first..first + meta.len as usize) {
            Some(bytes) => bytes,
            None => nothing(),
        };
        (meta, bytes)
    }

    /// Metadata for writing, and the packet's bytes.
    #[inline]
    pub fn read_mut<'a>(&'a self, frame: &'a mut Frame) -> (&'a mut FrameMeta, &'a [u8]) {
        let (meta, room) = self.split_mut(frame);
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
        // Any address will do, so whose frame it is need not be checked.
        let start = self.start.as_ptr().wrapping_add(frame.offset());
        crate::prefetch::read(start);
        crate::prefetch::read(start.wrapping_add(META_BYTES + HEADROOM));
    }
}

/// The bytes of a packet that does not lie in its frame: there is none.
#[cold]
fn nothing<'a>() -> &'a [u8] {
    &[]
}

/// The free frames of a packet memory, last in, first out: the frame given
/// out next is the one most likely still in a cache.
///
/// # Several threads
///
/// Threads that work on frames of one memory have a pool each: one is made by
/// [`FramePool::new`], the others are its shares ([`FramePool::share`]). No
/// lock and no atomic number is in any of them. A frame may be taken in one
/// pool, go to another thread and be given back there. So pools drift: where
/// one thread receives all packets and another sends them, frames pile up with
/// the second. The driver keeps the balance: each thread looks, once in a
/// while, whether its pool has many more free frames than it began with
/// ([`FramePool::surplus`]) and sends some of them
/// ([`FramePool::take_spare`]) over a ring to one that has fewer, which puts
/// them into its pool ([`FramePool::give_all`]). A frame that comes back to the
/// thread it was taken in, as a packet does whose entry returns to the switch,
/// changes no balance.
///
/// ```
/// use weir_packet::{FramePool, MemoryLayout};
///
/// let mut pool = FramePool::with_layout(MemoryLayout::default());
/// let mut share = pool.share(1_000, 10);
/// let frame = pool.take(60)?;
/// share.give(frame);
/// assert_eq!((pool.surplus(), share.surplus()), (-1, 1));
/// assert_eq!(FramePool::outstanding_of([&pool, &share]), 0);
///
/// let mut spare = Vec::with_capacity(64);
/// share.take_spare(1, &mut spare);
/// pool.give_all(&mut spare);
/// assert_eq!((pool.surplus(), share.surplus()), (0, 0));
///
/// pool.join(share); // its thread is over
/// assert_eq!(pool.outstanding(), 0);
/// # Ok::<(), weir_packet::NoFrame>(())
/// ```
#[derive(Debug)]
pub struct FramePool {
    memory: Arc<PacketMemory>,
    small: Vec<Frame>,
    large: Vec<Frame>,
    /// Frames that are this pool's, wherever they are: small, large. Those of
    /// all shares of a memory are all its frames.
    quota: [u32; 2],
    /// Small frames of the quota that are in rings of ports ([`FramePool::set_aside`]).
    aside: u32,
    /// The holder that takes and gives here, for the ledger.
    holder: Holder,
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
            quota: [layout.small_frames, layout.large_frames],
            aside: 0,
            holder: 0,
            memory,
        })
    }

    /// A pool of its own with the default layout and no advice: for tests
    /// and tools.
    pub fn with_layout(layout: MemoryLayout) -> FramePool {
        FramePool::new(PacketMemory::new(layout, crate::no_advice)).expect("the memory is new")
    }

    /// A pool without a frame, for a process that others hand frames to
    /// ([`PacketMemory::in_mapping`]).
    pub fn empty(memory: Arc<PacketMemory>) -> FramePool {
        let layout = *memory.layout();
        FramePool {
            small: Vec::with_capacity(layout.small_frames as usize),
            large: Vec::with_capacity(layout.large_frames as usize),
            quota: [0; 2],
            aside: 0,
            holder: 0,
            memory,
        }
    }

    /// A pool for another thread with so many of this one's free frames, or as
    /// many as there are. It has room for all frames of the memory, so that
    /// giving frames back never allocates.
    #[must_use = "frames of a share that is dropped are lost"]
    pub fn share(&mut self, small: u32, large: u32) -> FramePool {
        let layout = *self.memory.layout();
        let mut share = FramePool {
            memory: Arc::clone(&self.memory),
            small: Vec::with_capacity(layout.small_frames as usize),
            large: Vec::with_capacity(layout.large_frames as usize),
            quota: [0; 2],
            aside: 0,
            holder: 0,
        };
        move_last(&mut self.small, small as usize, &mut share.small);
        move_last(&mut self.large, large as usize, &mut share.large);
        share.quota = [share.small.len() as u32, share.large.len() as u32];
        for (mine, moved) in self.quota.iter_mut().zip(share.quota) {
            *mine -= moved;
        }
        share
    }

    /// Takes in a share whose thread is over, with what it still had out.
    ///
    /// # Panics
    ///
    /// If it is a share of another memory: a fault of the program.
    pub fn join(&mut self, mut share: FramePool) {
        assert!(
            share.memory.id == self.memory.id,
            "a share goes back to its own memory"
        );
        self.small.append(&mut share.small);
        self.large.append(&mut share.large);
        for (mine, theirs) in self.quota.iter_mut().zip(share.quota) {
            *mine += theirs;
        }
    }

    /// Says who takes and gives frames here, for the ledger
    /// ([`PacketMemory::checked`]); 0 at first.
    pub fn set_holder(&mut self, holder: Holder) {
        self.holder = holder;
    }

    /// Gives up to `count` free small frames to the reserve that all pools of
    /// the memory share, for whichever runs out: one atomic operation, no lock.
    /// How many they were.
    pub fn to_reserve(&mut self, count: usize) -> usize {
        let left = self.small.len().saturating_sub(count);
        let given = self.small.len() - left;
        let memory = &self.memory;
        let lines = self.small.drain(left..);
        memory
            .reserve
            .push(lines.map(|frame| frame.line / (memory.layout.small_bytes / 64)));
        given
    }

    /// Takes one batch of the reserve, as it was given: how many frames; none
    /// where the reserve is empty.
    pub fn from_reserve(&mut self) -> usize {
        let before = self.small.len();
        let (memory, small) = (&self.memory, &mut self.small);
        memory
            .reserve
            .pop(|number| small.push(memory.frame_at(number)));
        self.small.len() - before
    }

    /// As [`FramePool::to_reserve`], with large frames.
    pub fn large_to_reserve(&mut self, count: usize) -> usize {
        let left = self.large.len().saturating_sub(count);
        let given = self.large.len() - left;
        let (memory, first) = (&self.memory, self.memory.layout.small_frames);
        let frames = self.large.drain(left..);
        let numbers = frames.map(|frame| memory.number(&frame) - first);
        memory.large_reserve.push(numbers);
        given
    }

    /// As [`FramePool::from_reserve`], with large frames.
    pub fn large_from_reserve(&mut self) -> usize {
        let before = self.large.len();
        let (memory, large) = (&self.memory, &mut self.large);
        let first = memory.layout.small_frames;
        memory
            .large_reserve
            .pop(|number| large.push(memory.frame_at(first + number)));
        self.large.len() - before
    }

    /// Moves `count` free small frames, or as many as there are, to the end of
    /// `into`, for the pool of another thread. Until that has them
    /// ([`FramePool::give_all`]) they count as out.
    pub fn take_spare(&mut self, count: usize, into: &mut Vec<Frame>) {
        move_last(&mut self.small, count, into);
    }

    /// The same for large frames.
    pub fn take_spare_large(&mut self, count: usize, into: &mut Vec<Frame>) {
        move_last(&mut self.large, count, into);
    }

    /// Small frames that can be taken now.
    #[inline]
    pub fn available_small(&self) -> usize {
        self.small.len()
    }

    /// Small frames that the pool has more than it began with; negative where
    /// it has fewer.
    #[inline]
    pub fn surplus(&self) -> isize {
        self.small.len() as isize - self.quota[0] as isize
    }

    /// Frames, of both sizes, that can be taken now.
    #[inline]
    pub fn available(&self) -> usize {
        self.small.len() + self.large.len()
    }

    /// Large frames that can be taken now.
    #[inline]
    pub fn available_large(&self) -> usize {
        self.large.len()
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
        let mut taken = None;
        if len + META_BYTES + HEADROOM <= layout.small_bytes as usize {
            taken = self.small.pop();
        } else if len > layout.largest_packet() {
            return Err(NoFrame::TooLarge);
        }
        let frame = taken.or_else(|| self.large.pop());
        self.memory.hold(&frame, self.holder);
        frame.ok_or(NoFrame::Exhausted)
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
        if let Some(ledger) = &self.memory.ledger
            && !ledger.give(self.memory.number(&frame), self.holder)
        {
            return;
        }
        // Both lists have room for all frames of their size, so `push` never
        // allocates.
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

    /// Sets aside so many small frames for the rings of a port, or takes that back where the
    /// number is negative. The port takes and gives them like others; they don't count where it
    /// is asked whether frames are scarce or low, since they are out for as long as the port is
    /// open.
    pub fn set_aside(&mut self, small: i32) {
        self.aside = self.aside.saturating_add_signed(small);
    }

    /// True where less than half of the frames of this one's size, among those
    /// that the pool began with and has not set aside, are free. Callers keep no frames for
    /// later then: waiting packets must leave room for those they wait for.
    pub fn is_scarce(&self, frame: &Frame) -> bool {
        let (free, all) = self.free_like(frame);
        free < all / 2
    }

    /// True where less than an eighth of the frames of this one's size, among
    /// those that the pool began with and has not set aside, are free, or less than 64 of them where
    /// it began with more than twice as many: what can come again is not to
    /// wait in frames then.
    pub fn is_low(&self, frame: &Frame) -> bool {
        let (free, all) = self.free_like(frame);
        free < low_of(all)
    }

    /// Free large frames below which [`FramePool::is_low`] is true of one.
    pub fn low_large(&self) -> usize {
        low_of(self.quota[1] as usize)
    }

    /// Free frames of this one's size, and those that the pool began with and has not set aside.
    fn free_like(&self, frame: &Frame) -> (usize, usize) {
        let (free, all) = if frame.line < self.memory.large_from {
            (self.small.len(), self.quota[0].saturating_sub(self.aside))
        } else {
            (self.large.len(), self.quota[1])
        };
        (free, all as usize)
    }

    /// Frames that are out of the pool now: 0 at the end of a clean run. Of a
    /// share, those that it has fewer than it began with, wherever they are:
    /// [`FramePool::outstanding_of`] all shares is what is out.
    pub fn outstanding(&self) -> usize {
        self.quota_of_all().saturating_sub(self.available())
    }

    /// Frames that are in none of these pools, all shares of one memory.
    pub fn outstanding_of<'a>(shares: impl IntoIterator<Item = &'a FramePool>) -> usize {
        let (mut all, mut free) = (0, 0);
        for share in shares {
            all += share.quota_of_all();
            free += share.available();
        }
        all.saturating_sub(free)
    }

    fn quota_of_all(&self) -> usize {
        self.quota[0] as usize + self.quota[1] as usize
    }
}

/// Moves the last `count` elements, or as many as there are.
/// See [`FramePool::is_low`].
fn low_of(all: usize) -> usize {
    (all / 8).max(64.min(all / 2))
}

fn move_last(from: &mut Vec<Frame>, count: usize, to: &mut Vec<Frame>) {
    let left = from.len().saturating_sub(count);
    to.extend(from.drain(left..));
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
