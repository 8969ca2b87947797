//! State blocks: for each flow (or scope key) one contiguous run of cache
//! lines with its key, its times and the states of all functions of a stage.
//!
//! # Safety
//!
//! Blocks are lines of an array of plain words. A block is borrowed from the
//! arena as a whole, shared or exclusive, and cut into head and slots without
//! overlap. Heads and states are types that any bytes are valid for
//! (`FromBytes`); slots are aligned because [`StageLayout`] places them at
//! multiples of their alignment (at most 16) in blocks aligned to 64.

use weir_packet::{Arena, Direction, FlowKey};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Phase, State, Stats};

/// First part of a block: what the engine keeps of every flow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(16))]
pub struct FlowHead {
    /// Key (of the flow, or the scope key).
    pub key: FlowKey,
    /// Time of the last packet.
    pub last_seen: u64,
    /// Time-out in milliseconds at which the flow is idle; `u32::MAX` never.
    pub idle_ms: u32,
    /// A [`Phase`].
    pub phase: u8,
    /// A set of [`FlowHead::CLIENT_IS_B`] and the bits after it.
    pub bits: u8,
    /// State of the engine's TCP tracking.
    pub tcp: u16,
    /// Number of the unit.
    pub id: u64,
    /// Clock of the last packet.
    pub clock: u64,
    /// Bit per function of the stage: its state is open.
    pub opened: u64,
    /// Bit per function: its state changed since the last snapshot.
    pub changed: u64,
    /// Of TCP: the sequence number after all that the client, and the server,
    /// has sent.
    pub sent: [u32; 2],
    /// Of TCP: the number that the client, and the server, expects next.
    pub acked: [u32; 2],
}

/// Bytes of a [`FlowHead`]; states begin there.
pub const HEAD_BYTES: usize = core::mem::size_of::<FlowHead>();
const _: () = assert!(
    HEAD_BYTES == 112,
    "key and last time in the first line, clocks in the second, and room for a small state"
);

impl FlowHead {
    /// Bit of `bits`: the client is the key's B.
    pub const CLIENT_IS_B: u8 = 1;
    /// Bit of `bits`: the block is in use.
    pub const LIVE: u8 = 2;
    /// Bit of `bits`: the unit's state was lost before this flow was opened.
    pub const AFTER_LOSS: u8 = 4;
    /// Bits of `bits` that say how far TCP's windows go; 0 where `sent` and
    /// `acked` say nothing.
    pub const WINDOW: u8 = 0xf0;

    /// Direction of packets from the client.
    #[inline]
    pub fn client_direction(&self) -> Direction {
        if self.bits & Self::CLIENT_IS_B == 0 {
            Direction::Forward
        } else {
            Direction::Reverse
        }
    }

    /// Phase of the connection.
    #[inline]
    pub fn phase(&self) -> Phase {
        Phase::from_u8(self.phase)
    }
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
struct Line([u64; 8]);

/// Place of the state, counters and side-buffer handles of one function in a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Bit in [`FlowHead::opened`] and [`FlowHead::changed`].
    pub bit: u64,
    /// Its bit in the head of each flow's own block, set once a packet of the
    /// flow has reached the function: [`Slot::bit`] where the scope is the flow.
    pub flow_bit: u64,
    /// Offset of the flow's own state in the flow's block.
    pub flow_state: u32,
    /// End of what lies in the flow's block.
    pub flow_end: u32,
    /// Offset of the state.
    pub state: u32,
    /// Offset of the counters.
    pub stats: u32,
    /// Offset of the handles.
    pub buffers: u32,
    /// Number of handles.
    pub buffer_count: u32,
    /// End of the slot.
    pub end: u32,
}

/// Arrangement of the slots of one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageLayout {
    bytes: u32,
    functions: u32,
}

impl Default for StageLayout {
    fn default() -> StageLayout {
        StageLayout {
            bytes: HEAD_BYTES as u32,
            functions: 0,
        }
    }
}

impl StageLayout {
    /// Most functions of one stage.
    pub const MAX_FUNCTIONS: u32 = 64;

    /// Adds a function with `S` and `T` and `buffers` handles.
    ///
    /// # Panics
    ///
    /// Beyond [`StageLayout::MAX_FUNCTIONS`]: a fault of the program.
    pub fn add<S: State, T: Stats>(&mut self, buffers: u8) -> Slot {
        let state = self.reserve::<S>();
        let stats = self.reserve::<T>();
        let buffer_count = u32::from(buffers);
        let buffers = self.reserve_bytes(usize::from(buffers) * 8, 8);
        Slot {
            bit: self.reserve_bit(),
            state,
            stats,
            buffers,
            buffer_count,
            end: self.bytes,
            ..Slot::default()
        }
    }

    /// Adds the state `F` that a function keeps of each flow to these blocks,
    /// which are the flows' own. `scoped` says that its slot is in the blocks of
    /// a wider scope, so that it needs a bit here too.
    ///
    /// # Panics
    ///
    /// As [`StageLayout::add`].
    pub fn add_flow_state<F: State>(&mut self, slot: &mut Slot, scoped: bool) {
        slot.flow_state = self.reserve::<F>();
        slot.flow_end = self.bytes;
        slot.flow_bit = if scoped { self.reserve_bit() } else { slot.bit };
    }

    fn reserve<T>(&mut self) -> u32 {
        const {
            assert!(
                core::mem::align_of::<T>() <= 16,
                "blocks are aligned to 16 inside"
            )
        };
        self.reserve_bytes(core::mem::size_of::<T>(), core::mem::align_of::<T>())
    }

    fn reserve_bytes(&mut self, size: usize, align: usize) -> u32 {
        let start = self.bytes.next_multiple_of(align as u32);
        self.bytes = start + size as u32;
        start
    }

    fn reserve_bit(&mut self) -> u64 {
        assert!(
            self.functions < Self::MAX_FUNCTIONS,
            "a stage has at most 64 functions"
        );
        self.functions += 1;
        1 << (self.functions - 1)
    }

    /// Cache lines of a block.
    pub fn lines(&self) -> usize {
        (self.bytes as usize).div_ceil(64)
    }

    /// True where no function keeps anything in a block.
    pub fn is_bare(&self) -> bool {
        self.bytes as usize == HEAD_BYTES
    }
}

/// The blocks of one runtime and stage.
pub struct Blocks {
    lines: Arena<Line>,
    stride: usize,
}

impl core::fmt::Debug for Blocks {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Blocks")
            .field("count", &self.count())
            .field("stride", &self.stride)
            .finish()
    }
}

impl Blocks {
    /// `count` blocks; pages that are never used cost nothing. `advise` may
    /// ask for large pages.
    pub fn new(count: usize, layout: &StageLayout, advise: weir_packet::Advise) -> Blocks {
        let stride = layout.lines();
        let lines = Arena::zeroed(count * stride, advise);
        Blocks { lines, stride }
    }

    /// Number of blocks.
    pub fn count(&self) -> usize {
        self.lines.len() / self.stride
    }

    /// Cache lines per block.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Asks for the first `lines` lines of a block, of four at most: more would crowd out others.
    #[inline]
    pub fn prefetch(&self, block: u32, lines: usize) {
        let first = self
            .lines
            .as_ptr()
            .wrapping_add(block as usize * self.stride);
        // Every block has two lines; a line too much does no harm.
        weir_packet::prefetch::read(first);
        weir_packet::prefetch::read(first.wrapping_add(1));
        if lines > 2 {
            weir_packet::prefetch::read(first.wrapping_add(2));
            if lines > 3 {
                weir_packet::prefetch::read(first.wrapping_add(3));
            }
        }
    }

    #[inline]
    fn start(&self, block: u32) -> usize {
        let start = block as usize * self.stride;
        // The one check that every access relies on.
        assert!(start + self.stride <= self.lines.len(), "the block exists");
        start
    }

    /// Head of a block.
    #[inline]
    pub fn head(&self, block: u32) -> &FlowHead {
        let start = self.start(block);
        // SAFETY: in bounds (`start`), aligned to 64, any bytes are a head,
        // and a block is at least two lines long.
        unsafe { &*self.lines.as_ptr().add(start).cast::<FlowHead>() }
    }

    /// Head of a block, for writing.
    #[inline]
    pub fn head_mut(&mut self, block: u32) -> &mut FlowHead {
        let start = self.start(block);
        // SAFETY: as `head`, and exclusive through `self`.
        unsafe { &mut *self.lines.as_mut_ptr().add(start).cast::<FlowHead>() }
    }

    /// The whole block as bytes, head included.
    pub fn bytes(&self, block: u32) -> &[u8] {
        let start = self.start(block);
        self.lines[start..start + self.stride].as_bytes()
    }

    /// The same, for writing.
    pub fn bytes_mut(&mut self, block: u32) -> &mut [u8] {
        let start = self.start(block);
        let end = start + self.stride;
        self.lines[start..end].as_mut_bytes()
    }

    /// Makes a block all zeros.
    #[inline]
    pub fn clear(&mut self, block: u32) {
        let start = self.start(block);
        let end = start + self.stride;
        self.lines[start..end].fill(Line([0; 8]));
    }

    /// Head and one function's slot; with the state `F` of the flow where these
    /// are the flows' blocks, with `()` where they are a wider scope's.
    #[inline]
    pub fn open<S: State, T: Stats, F: State>(
        &mut self,
        block: u32,
        slot: &Slot,
    ) -> Opened<'_, S, T, F> {
        let start = self.start(block);
        debug_assert!(slot.end as usize <= self.stride * 64);
        debug_assert!(size_of::<F>() == 0 || slot.flow_end as usize <= self.stride * 64);
        // A state of no size may lie anywhere.
        let flow_state = if size_of::<F>() == 0 {
            0
        } else {
            slot.flow_state as usize
        };
        // SAFETY: in bounds; head, state, counters, handles and the flow's state
        // are disjoint ranges of this block (`StageLayout`), each aligned for its
        // type, and any bytes are valid for each. Exclusive through `self`.
        unsafe {
            let base = self.lines.as_mut_ptr().add(start).cast::<u8>();
            Opened {
                head: &mut *base.cast::<FlowHead>(),
                state: &mut *base.add(slot.state as usize).cast::<S>(),
                stats: &mut *base.add(slot.stats as usize).cast::<T>(),
                buffers: core::slice::from_raw_parts_mut(
                    base.add(slot.buffers as usize).cast::<u64>(),
                    slot.buffer_count as usize,
                ),
                flow_state: &mut *base.add(flow_state).cast::<F>(),
            }
        }
    }

    /// Head of a flow's block and the state of the flow that a function with a
    /// wider scope keeps there.
    #[inline]
    pub fn open_flow<F: State>(&mut self, block: u32, slot: &Slot) -> (&mut FlowHead, &mut F) {
        let opened = self.open::<(), (), F>(
            block,
            &Slot {
                flow_state: slot.flow_state,
                flow_end: slot.flow_end,
                ..Slot::default()
            },
        );
        (opened.head, opened.flow_state)
    }
}

/// A block cut into what one function may touch.
#[derive(Debug)]
pub struct Opened<'a, S, T, F> {
    /// Head of the block.
    pub head: &'a mut FlowHead,
    /// The function's state.
    pub state: &'a mut S,
    /// Its counters.
    pub stats: &'a mut T,
    /// Its side-buffer handles.
    pub buffers: &'a mut [u64],
    /// State of the flow itself.
    pub flow_state: &'a mut F,
}
