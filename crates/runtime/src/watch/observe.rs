//! The points at which bursts are observed: before and after classification, around
//! each function, and before packets leave.

use weir_packet::{Frame, FramePool, PacketMemory};

use super::current::Before;
use super::watches::{Watches, Why};
use crate::classify::Classified;
use crate::drops::EngineDrop;
use crate::execute::Dispositions;
use crate::runtime::Runtime;

impl Runtime {
    /// Lends the watches, where there are any and what is done is let out.
    fn watching(&mut self, look: impl FnOnce(&mut Runtime, &mut Watches)) {
        if self.world.silent {
            return;
        }
        if let Some(mut watches) = self.observers.watches.take() {
            look(self, &mut watches);
            self.observers.watches = Some(watches);
        }
    }

    /// A burst is to begin with the first of these frames: how many it may
    /// have.
    #[cold]
    pub(crate) fn watch_begin(&mut self, memory: &PacketMemory, frames: &mut [Frame]) -> usize {
        let mut n = frames.len();
        self.watching(|runtime, watches| {
            watches.dropped.clear();
            n = runtime.isolate(watches, memory, frames);
        });
        n
    }

    /// Its packets have their flows.
    #[cold]
    pub(crate) fn watch_classified(&mut self, memory: &PacketMemory, frames: &[Frame]) {
        self.watching(|runtime, watches| {
            runtime.tap_in(watches, memory, frames);
            if let Some(current) = &mut watches.current {
                runtime.trace_flow(current);
            }
        });
    }

    /// Calls function `number` and looks on.
    #[cold]
    #[inline(never)]
    pub(crate) fn call_observed(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        frames: &mut [Frame],
        number: usize,
        mask: u64,
    ) {
        let made = self.world.emits.frames.len();
        let before = self.watch_before(memory, frames, number, mask, made);
        if self.observers.audits() {
            self.call_audited(pool, memory, frames, number, mask);
        } else {
            self.call(pool, memory, frames, number, mask);
        }
        self.watch_after(memory, frames, number, mask, made, before);
    }

    /// Function `number` is not called: the verdicts of an earlier one stand
    /// for its own.
    #[cold]
    pub(crate) fn watch_recalled(
        &mut self,
        memory: &PacketMemory,
        frames: &[Frame],
        number: usize,
        mask: u64,
    ) {
        let made = self.world.emits.frames.len();
        let before = self.watch_before(memory, frames, number, mask, made);
        self.watch_after(memory, frames, number, mask, made, before);
    }

    fn watch_before(
        &mut self,
        memory: &PacketMemory,
        frames: &[Frame],
        number: usize,
        mask: u64,
        made: usize,
    ) -> Option<Before> {
        let mut before = None;
        self.watching(|runtime, watches| {
            runtime.tap_before(watches, memory, frames, number, mask);
            if let (Some(_), Some(frame)) = (&watches.current, frames.first()) {
                before = Some(runtime.before_step(memory, frame, number, made));
            }
        });
        before
    }

    fn watch_after(
        &mut self,
        memory: &PacketMemory,
        frames: &[Frame],
        number: usize,
        mask: u64,
        made: usize,
        before: Option<Before>,
    ) {
        self.watching(|runtime, watches| {
            runtime.tap_after(watches, memory, frames, number, mask, made);
            if let (Some(before), Some(frame)) = (before, frames.first())
                && let Some(mut current) = watches.current.take()
            {
                runtime.after_step(watches, &mut current, memory, frame, number, before);
                watches.current = Some(current);
            }
        });
    }

    /// The engine itself drops packet `i` of the burst.
    pub(crate) fn watch_drop(&mut self, i: usize, why: Why) {
        self.watching(|_, watches| watches.dropped.push((i as u8, why)));
    }

    /// The engine drops packet `i` of the burst: counted, and noted where
    /// somebody looks on.
    #[cold]
    pub(crate) fn refuse_packet(&mut self, i: usize, reason: EngineDrop) {
        self.counts.drop_packet(reason);
        if self.observers.are_there() {
            self.watch_drop(i, Why::Engine(reason));
        }
    }

    /// The engine drops a packet outside a burst's order, such as one that has
    /// waited: counted, and shown.
    #[cold]
    pub(crate) fn give_up_packet(
        &mut self,
        memory: &PacketMemory,
        frame: &Frame,
        reason: EngineDrop,
    ) {
        self.counts.drop_packet(reason);
        if !self.observers.are_there() {
            return;
        }
        let why = Why::Engine(reason);
        self.watching(|runtime, watches| {
            runtime.tap_drop(watches, memory, frame, why);
            if watches.current.is_some() {
                // It is the one at hand: it is told with its disposition.
                watches.dropped.push((0, why));
            } else {
                watches.give_up(runtime.functions.chain(), memory, frame, why);
            }
        });
    }

    /// The burst's packets are about to leave.
    #[cold]
    pub(crate) fn watch_leave(
        &mut self,
        memory: &PacketMemory,
        frames: &[Frame],
        found: &Classified,
        dispositions: &Dispositions,
    ) {
        self.watching(|runtime, watches| {
            for number in 0..watches.dropped.len() {
                let (i, why) = watches.dropped[number];
                if let Some(frame) = frames.get(usize::from(i)) {
                    runtime.tap_drop(watches, memory, frame, why);
                }
            }
            runtime.tap_out(watches, memory, frames, found, dispositions);
            if let Some(frame) = frames.first()
                && let Some(mut current) = watches.current.take()
            {
                runtime.trace_leave(watches, &mut current, memory, frame, found, dispositions);
                watches.current = Some(current);
            }
            // Notes from here on are of the fragment memory.
            watches.dropped.clear();
        });
    }

    /// They have left.
    #[cold]
    pub(crate) fn watch_end(&mut self) {
        self.watching(|runtime, watches| {
            runtime.end_current(watches);
            watches.dropped.clear();
            Runtime::drop_ended_taps(watches);
        });
        self.observers.put_away();
    }
}
