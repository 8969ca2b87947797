//! Memory and rings that all processes of a run share.

use std::sync::Arc;

use weir_exec::ExecError;
use weir_io::shared::{self, SharedMapping, SharedMemory, Words, spsc};
use weir_packet::{MemberId, MemoryLayout, PacketMemory};

use super::start::{ProcessCommand, outside};

/// Packet memory, a mapping for rings and status words, and members for processes.
pub(in super::super) struct SharedRoom {
    memory: SharedMemory,
    rings: SharedMapping,
    used: usize,
    members: u8,
    command: ProcessCommand,
}

impl SharedRoom {
    /// With packet memory of this layout, and so many words for rings and the like, each
    /// of which begins at a line of its own ([`SharedRoom::words_of`]).
    ///
    /// # Errors
    ///
    /// The kernel has not so much memory.
    pub(in super::super) fn new(
        layout: MemoryLayout,
        words: usize,
        command: ProcessCommand,
    ) -> Result<SharedRoom, ExecError> {
        let rings = SharedMapping::create("weir-rings", (words * 4).max(4));
        Ok(SharedRoom {
            memory: shared::packet_memory(layout).map_err(outside)?,
            rings: rings.map_err(outside)?,
            used: 0,
            members: 0,
            command,
        })
    }

    /// Words that something of so many takes here.
    pub(in super::super) const fn words_of(words: usize) -> usize {
        words.next_multiple_of(32)
    }

    /// Words that a ring of so many places takes here.
    pub(in super::super) const fn ring_words(places: u32) -> usize {
        SharedRoom::words_of(spsc::words_for(places))
    }

    pub(in super::super) fn memory(&self) -> &Arc<PacketMemory> {
        &self.memory.memory
    }

    /// Page size of the packet memory, as text.
    pub(in super::super) fn pages(&self) -> String {
        self.memory.pages.to_string()
    }

    /// Command that starts a process.
    pub(in super::super) fn command(&self) -> &ProcessCommand {
        &self.command
    }

    /// The files of packet memory and rings, for a process.
    pub(in super::super) fn files(&self) -> [SharedMapping; 2] {
        [self.memory.file().clone(), self.rings.clone()]
    }

    /// A member for one more process.
    ///
    /// # Errors
    ///
    /// There are as many as there may be.
    pub(in super::super) fn member(&mut self) -> Result<MemberId, ExecError> {
        self.members = self.members.saturating_add(1);
        MemberId::new(self.members)
            .ok_or_else(|| ExecError("there are more processes than members".into()))
    }

    /// Room for so many words: its offset in bytes.
    pub(in super::super) fn place(&mut self, words: usize) -> usize {
        let at = self.used;
        self.used += SharedRoom::words_of(words) * 4;
        at
    }

    /// Room for a ring of so many places.
    pub(in super::super) fn place_ring(&mut self, places: u32) -> usize {
        self.place(spsc::words_for(places))
    }

    /// The words of a ring.
    ///
    /// # Errors
    ///
    /// They are not here.
    pub(in super::super) fn ring(&self, at: usize, places: u32) -> Result<Words, ExecError> {
        self.words(at, spsc::words_for(places))
    }

    /// So many words at an offset.
    ///
    /// # Errors
    ///
    /// They are not here.
    pub(in super::super) fn words(&self, at: usize, count: usize) -> Result<Words, ExecError> {
        self.rings.words(at, count).map_err(outside)
    }
}

/// A layout as words: small frames and their bytes, large ones and theirs.
pub(in super::super) fn layout_words(layout: &MemoryLayout) -> [u32; 4] {
    [
        layout.small_frames,
        layout.small_bytes,
        layout.large_frames,
        layout.large_bytes,
    ]
}

/// The layout that these words are.
pub(in super::super) fn layout_of(words: [u32; 4]) -> MemoryLayout {
    let [small_frames, small_bytes, large_frames, large_bytes] = words;
    MemoryLayout {
        small_frames,
        small_bytes,
        large_frames,
        large_bytes,
    }
}
