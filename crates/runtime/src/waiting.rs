//! Frames that a runtime has between bursts.

use std::sync::Arc;

use weir_nf::host::BURST;
use weir_packet::{Frame, FramePool, PacketMemory};

/// Frames between bursts, and their memory.
pub(crate) struct Waiting {
    /// Packets that go through the chain (again) before any new one.
    requeue: Vec<Frame>,
    /// The list that `requeue` is swapped with.
    again: Vec<Frame>,
    /// Fragments on their way out of the fragment memory.
    over: Vec<Frame>,
    /// The memory of the last burst's frames, kept to save counting references.
    memory: Option<Arc<PacketMemory>>,
}

impl Waiting {
    pub(crate) fn new(held_fragments: usize) -> Waiting {
        Waiting {
            requeue: Vec::with_capacity(BURST + held_fragments),
            again: Vec::with_capacity(BURST + held_fragments),
            over: Vec::with_capacity(held_fragments),
            memory: None,
        }
    }

    /// Packets that go through the chain again.
    pub(crate) fn len(&self) -> usize {
        self.requeue.len() + self.again.len()
    }

    /// The queue of packets that go through the chain again.
    pub(crate) fn requeue(&mut self) -> &mut Vec<Frame> {
        &mut self.requeue
    }

    /// The packets that go through the chain again now, given back by
    /// [`Waiting::put_again`]; `None` where there are none.
    #[inline]
    pub(crate) fn take_again(&mut self) -> Option<Vec<Frame>> {
        if self.again.is_empty() {
            if self.requeue.is_empty() {
                return None;
            }
            core::mem::swap(&mut self.again, &mut self.requeue);
        }
        Some(core::mem::take(&mut self.again))
    }

    /// Gives back what [`Waiting::take_again`] gave: what is left goes first.
    pub(crate) fn put_again(&mut self, again: Vec<Frame>) {
        self.again = again;
    }

    /// The list for fragments on their way out; it is given back empty.
    pub(crate) fn take_over(&mut self) -> Vec<Frame> {
        core::mem::take(&mut self.over)
    }

    pub(crate) fn put_over(&mut self, over: Vec<Frame>) {
        self.over = over;
    }

    /// The memory of `pool`'s frames, to be given back.
    #[inline]
    pub(crate) fn take_memory(&mut self, pool: &FramePool) -> Arc<PacketMemory> {
        match self.memory.take() {
            Some(memory) if Arc::ptr_eq(&memory, pool.memory()) => memory,
            _ => Arc::clone(pool.memory()),
        }
    }

    #[inline]
    pub(crate) fn put_memory(&mut self, memory: Arc<PacketMemory>) {
        self.memory = Some(memory);
    }
}
