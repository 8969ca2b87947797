//! One packet memory in several processes of a trust domain.
//!
//! The memory lies in a mapping that all of them have, at whatever address. A
//! process is a *member* with a number; beside the frames lies a table with the member
//! that each frame belongs to. Frames are handed over as offsets
//! ([`PacketMemory::hand_over`], [`PacketMemory::take_over`]), over a ring say;
//! the taker writes its member into the table. So, when a process dies, it is
//! known which frames it had, and they come back ([`PacketMemory::reclaim`]).
//!
//! # Safety
//!
//! A [`Frame`] exists in the process of member *s* only while the table says *s*
//! of it: all frames belong to [`MemberId::MAIN`] at first, whose process alone has
//! a pool made of them; `take_over` makes one only of what belongs to another
//! member and says so at once; `hand_over` ends the process's own. That what was
//! handed over is taken over once, by the process that it was handed to, is the
//! ring's: it has one reader and one writer, and what the reader wrote (the
//! table) it wrote before it gave the place in the ring back. Processes that
//! share a memory are one program that keeps to this; one that is not trusted
//! gets no such memory. The ranges of bytes are fixed by the
//! layout, to which the mapping's length is held.

use core::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;

use crate::frame::Frame;
use crate::layout::{Divisor, MemoryLayout};
use crate::mapping::{Mapping, MappingTooSmall, MemberId, Shared, extent};
use crate::memory::PacketMemory;

/// Takes over frames of one other process: see [`PacketMemory::take_over`].
#[derive(Clone, Copy, Debug)]
pub struct Taker<'a> {
    memory: &'a PacketMemory,
    owners: &'a [AtomicU8],
    me: MemberId,
    from: MemberId,
    // Copies, which nothing written here can change.
    small: Divisor,
    large_from: u32,
    id: u32,
}

impl Taker<'_> {
    /// The frame of this number; `None` where it names none, or one that is
    /// not the other process's.
    #[inline]
    pub fn take(&self, descriptor: u32) -> Option<Frame> {
        self.takes(descriptor).then(|| self.frame(descriptor))
    }

    /// Those of all these numbers, at the end of `into`: how many of them named
    /// none.
    pub fn take_all(&self, mut descriptors: &[u32], into: &mut Vec<Frame>) -> usize {
        let mut bad = 0;
        loop {
            // Two plain loops: what each needs stays in registers.
            let first_bad = descriptors.iter().position(|&d| !self.takes(d));
            let (good, rest) = descriptors.split_at(first_bad.unwrap_or(descriptors.len()));
            into.extend(good.iter().map(|&d| self.frame(d)));
            let Some((_, rest)) = rest.split_first() else {
                return bad;
            };
            bad += 1;
            descriptors = rest;
        }
    }

    /// Makes the frame of this number this process's, if it is the other one's.
    #[inline]
    fn takes(&self, descriptor: u32) -> bool {
        let number = if descriptor < self.large_from {
            self.small.whole(descriptor)
        } else {
            self.memory.number_at(descriptor)
        };
        let owner = number.and_then(|number| self.owners.get(number as usize));
        let its = owner.is_some_and(|owner| owner.load(Ordering::Relaxed) == self.from.number());
        if let Some(owner) = owner.filter(|_| its) {
            owner.store(self.me.number(), Ordering::Relaxed);
        }
        its
    }

    /// One that was made this process's, once.
    #[inline]
    fn frame(&self, descriptor: u32) -> Frame {
        Frame {
            line: descriptor,
            memory: self.id,
        }
    }
}

impl PacketMemory {
    /// Bytes of a mapping for frames of this layout: [`PacketMemory::in_mapping`].
    pub const fn bytes_in_mapping(layout: &MemoryLayout) -> usize {
        extent(layout).1
    }

    /// Packet memory in a mapping, for the process of this member. Only that of
    /// [`MemberId::MAIN`] has frames at first; the pools of others begin empty
    /// ([`crate::FramePool::empty`]).
    ///
    /// # Errors
    ///
    /// If the mapping is too small.
    ///
    /// # Panics
    ///
    /// As [`PacketMemory::new`].
    pub fn in_mapping(
        layout: MemoryLayout,
        mapping: Box<dyn Mapping>,
        member: MemberId,
    ) -> Result<Arc<PacketMemory>, MappingTooSmall> {
        let shared = Shared::new(&layout, mapping, member)?;
        Ok(PacketMemory::over(layout, shared, member != MemberId::MAIN))
    }

    /// This process's member; `None` where the memory is not in a mapping.
    pub fn member(&self) -> Option<MemberId> {
        self.shared().map(|shared| shared.member())
    }

    /// Gives a frame up, to be taken over by another process: the number that
    /// names it there.
    ///
    /// # Panics
    ///
    /// If it is a frame of another memory: a fault of the program.
    #[inline]
    pub fn hand_over(&self, frame: Frame) -> u32 {
        (self.giver())(frame)
    }

    /// [`PacketMemory::hand_over`] for many frames.
    #[inline]
    pub fn giver(&self) -> impl Fn(Frame) -> u32 + 'static + use<> {
        let id = self.id();
        move |frame| {
            assert!(
                frame.memory == id,
                "a frame is handed over in its own memory"
            );
            frame.line
        }
    }

    /// Takes over a frame that the process of member `from` handed to this one.
    /// `None` where the number names no frame, or one that is not `from`'s.
    #[inline]
    pub fn take_over(&self, descriptor: u32, from: MemberId) -> Option<Frame> {
        self.taker(from)?.take(descriptor)
    }

    /// For taking over many frames of one process; `None` where the memory is
    /// of this process alone.
    #[inline]
    pub fn taker(&self, from: MemberId) -> Option<Taker<'_>> {
        let shared = self.shared().filter(|shared| shared.member() != from)?;
        let (small, large_from) = self.small();
        Some(Taker {
            memory: self,
            owners: shared.owners(),
            me: shared.member(),
            from,
            small,
            large_from,
            id: self.id(),
        })
    }

    /// After a process died while it took over frames that `from` had handed to it: makes those it
    /// had not taken out of the ring `from`'s again, for its successor.
    ///
    /// # Safety
    ///
    /// The process of member `dead` is over, and no other has its member. `in_ring` names
    /// frames in the ring from `from` to it.
    pub unsafe fn hand_over_again(&self, dead: MemberId, from: MemberId, in_ring: &[u32]) {
        let Some(shared) = self.shared() else { return };
        for &descriptor in in_ring {
            let number = self.number_at(descriptor);
            let owner = number.and_then(|number| shared.owners().get(number as usize));
            // Only what is the dead one's is nobody's now.
            if let Some(owner) = owner.filter(|o| o.load(Ordering::Relaxed) == dead.number()) {
                owner.store(from.number(), Ordering::Relaxed);
            }
        }
    }

    /// Takes back all frames of a process that is over, but those that it
    /// handed over and that are still on their way, in rings from it.
    ///
    /// # Safety
    ///
    /// The process of member `dead` is over, and no other has its member yet. All
    /// that is in rings from it was named in `on_the_way`, and of each such
    /// ring the place of its reader was read (acquire) before this call.
    pub unsafe fn reclaim(&self, dead: MemberId, on_the_way: &[u32]) -> Vec<Frame> {
        let Some(shared) = self.shared().filter(|shared| shared.member() != dead) else {
            return Vec::new();
        };
        let mut moving: Vec<u32> = on_the_way
            .iter()
            .filter_map(|&descriptor| self.number_at(descriptor))
            .collect();
        moving.sort_unstable();
        let mut back = Vec::new();
        for (number, owner) in shared.owners().iter().enumerate() {
            let number = number as u32;
            if owner.load(Ordering::Relaxed) == dead.number()
                && moving.binary_search(&number).is_err()
            {
                owner.store(shared.member().number(), Ordering::Relaxed);
                back.push(self.frame_at(number));
            }
        }
        back
    }

    /// Takes back these frames of a process that is over, and no others.
    ///
    /// # Safety
    ///
    /// As [`PacketMemory::reclaim`]; none of them is on its way.
    pub unsafe fn reclaim_only<'a>(
        &self,
        dead: MemberId,
        these: impl IntoIterator<Item = &'a u32>,
    ) -> Vec<Frame> {
        let mut back = Vec::new();
        let Some(shared) = self.shared().filter(|shared| shared.member() != dead) else {
            return back;
        };
        for number in these.into_iter().filter_map(|&at| self.number_at(at)) {
            let owner = shared.owners().get(number as usize);
            if let Some(owner) = owner.filter(|o| o.load(Ordering::Relaxed) == dead.number()) {
                owner.store(shared.member().number(), Ordering::Relaxed);
                back.push(self.frame_at(number));
            }
        }
        back
    }

    /// Frames that belong to a member now, about: those that are handed over are
    /// their giver's until they are taken over.
    pub fn belonging_to(&self, member: MemberId) -> usize {
        let owners = self.shared().map_or(&[][..], Shared::owners);
        let theirs = |owner: &&AtomicU8| owner.load(Ordering::Relaxed) == member.number();
        owners.iter().filter(theirs).count()
    }
}

#[cfg(test)]
#[path = "members_tests.rs"]
mod tests;
