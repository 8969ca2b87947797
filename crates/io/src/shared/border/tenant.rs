//! A tenant's own packet memory and rings, as this side of the border knows them.
//!
//! Both files may be written by the tenant at any time, so each word of them is
//! read once, as an atomic number, into private memory, and only that is looked
//! at. Which frames the tenant has is in a private table.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_packet::{FrameMeta, META_BYTES, MemberId, MemoryLayout, SaidMeta, frame_flags};

use super::Offence;
use crate::shared::spsc::{Nonsense, Reader, Writer, words_for};
use crate::shared::{SharedMapping, Waker, Words};

/// Frames on their way, a power of two, in each of the four rings.
pub const PLACES: u32 = 512;
/// Words of the tenant's status.
pub const STATUS_WORDS: usize = 32;
/// In the status: how many frames of the ring to it the tenant is done with,
/// counted from 0 and around. Written after what became of them was given back.
pub const DONE: usize = 8;
/// Free frames that the tenant has at least, for what it may make; it takes no
/// burst without 64.
const SPARES: usize = 128;
/// Frames and places that are kept for notices, so that packets alone can't
/// hold up what a tenant must be told.
const KEPT: u32 = 64;

/// Offsets in the file of rings, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPlaces {
    /// Rings: frames to the tenant, from it, free frames to it, from it.
    pub rings: [usize; 4],
    /// The status.
    pub status: usize,
}

/// The sizes of a tenant's memory for frames as those of `like`.
pub const fn tenant_layout(like: &MemoryLayout) -> MemoryLayout {
    MemoryLayout {
        small_frames: 2_048,
        large_frames: if like.large_frames < 16 {
            like.large_frames
        } else {
            16
        },
        ..*like
    }
}

const fn ring_places() -> (RingPlaces, usize) {
    let ring = (words_for(PLACES) * 4).next_multiple_of(128);
    let places = RingPlaces {
        rings: [0, ring, 2 * ring, 3 * ring],
        status: 4 * ring,
    };
    (places, 4 * ring + STATUS_WORDS * 4)
}

/// State of a frame of the tenant's, as this side knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// On this side.
    Free,
    /// The tenant has it with the packet or notice of this number.
    Lent(u64),
    /// The same, but nobody waits for it.
    Abandoned(u64),
    /// The tenant has it for packets that it makes.
    Spare,
}

/// A process's memory and rings.
#[derive(Debug)]
pub struct Tenant {
    layout: MemoryLayout,
    files: [SharedMapping; 2],
    memory: Words,
    to: Writer<Words>,
    from: Reader<Words>,
    supply: Writer<Words>,
    freed: Reader<Words>,
    status: Words,
    waker: Waker,
    slots: Box<[Slot]>,
    /// Numbers of free frames, small and large.
    free: [Vec<u32>; 2],
    spares: usize,
    /// Frames given to it, and those that it said it is done with.
    lent: u32,
    done: u32,
    finished: bool,
}

impl Tenant {
    /// New memory and rings, of zeros, for frames of this layout; `waker` wakes
    /// the process.
    ///
    /// # Errors
    ///
    /// If the kernel has no memory or descriptor left.
    pub fn new(layout: MemoryLayout, waker: Waker) -> io::Result<Tenant> {
        let (places, len) = ring_places();
        // Normal pages: of huge ones a hole may be made that can't be filled.
        let frames = layout.owner_place(layout.frames()).0.next_multiple_of(4);
        let files = [
            SharedMapping::create("weir-tenant-packets", frames)?,
            SharedMapping::create("weir-tenant-rings", len)?,
        ];
        let ring = |number: usize| files[1].words(places.rings[number], words_for(PLACES));
        let fail = |error: Nonsense| io::Error::other(error);
        let numbers = |range: std::ops::Range<u32>| range.rev().collect::<Vec<u32>>();
        Ok(Tenant {
            memory: files[0].words(0, frames / 4)?,
            to: Writer::attach(ring(0)?).map_err(fail)?,
            from: Reader::attach(ring(1)?).map_err(fail)?,
            supply: Writer::attach(ring(2)?).map_err(fail)?,
            freed: Reader::attach(ring(3)?).map_err(fail)?,
            status: files[1].words(places.status, STATUS_WORDS)?,
            files,
            waker,
            slots: vec![Slot::Free; layout.frames() as usize].into(),
            free: [
                numbers(0..layout.small_frames),
                numbers(layout.small_frames..layout.frames()),
            ],
            spares: 0,
            lent: 0,
            done: 0,
            finished: false,
            layout,
        })
    }

    /// The files that the process is given: memory, and rings.
    pub fn files(&self) -> &[SharedMapping; 2] {
        &self.files
    }

    /// Offsets of its rings and its status.
    pub fn places(&self) -> RingPlaces {
        ring_places().0
    }

    /// The sizes of its frames.
    pub fn layout(&self) -> &MemoryLayout {
        &self.layout
    }

    /// Words of its status; of what it says there nothing is known.
    ///
    /// # Errors
    ///
    /// None on a file that was made by [`Tenant::new`].
    pub fn status(&self) -> io::Result<Words> {
        self.files[1].words(self.places().status, STATUS_WORDS)
    }

    /// True where a frame with `room` bytes for a packet can be lent now.
    pub(super) fn has_room(&mut self, room: usize, is_notice: bool) -> Result<bool, Offence> {
        let kept = if is_notice { 0 } else { KEPT };
        let places = self.to.free(kept + 1).map_err(|_| Offence::BadPosition)?;
        let class = self.class(room);
        let kept_frames = if class == 0 { kept as usize } else { 0 };
        Ok(places > kept && self.free[class].len() > kept_frames)
    }

    /// Frames that can be lent now, about.
    pub(super) fn room(&self) -> usize {
        let free = self.free[0].len();
        free.min(self.to.room() as usize)
            .saturating_sub(KEPT as usize)
    }

    fn class(&self, room: usize) -> usize {
        usize::from(room + META_BYTES > self.layout.small_bytes as usize)
    }

    /// Lends a copy of a packet under this number: in which frame. None where
    /// no frame is free ([`Tenant::has_room`]) or the packet does not fit.
    pub(super) fn lend(
        &mut self,
        meta: &FrameMeta,
        room: usize,
        bytes: &[u8],
        seq: u64,
    ) -> Option<u32> {
        let class = self.class(room);
        let number = self.free[class].pop()?;
        let (at, len) = self.layout.frame_place(number)?;
        let start = META_BYTES + usize::from(meta.start);
        if start + bytes.len() > len {
            self.free[class].push(number);
            return None;
        }
        store(&self.memory, at, &meta.to_bytes());
        store(&self.memory, at + start, bytes);
        self.slots[number as usize] = Slot::Lent(seq);
        self.hand_over(number);
        let descriptor = self.layout.descriptor(number).unwrap_or(0);
        self.to.write(std::iter::once(descriptor));
        self.lent = self.lent.wrapping_add(1);
        Some(number)
    }

    /// Says in the tenant's own table that a frame is the main process's to
    /// hand over: the tenant's side of a ring looks for that.
    fn hand_over(&self, number: u32) {
        let (at, owner) = self.layout.owner_place(number);
        debug_assert_eq!(owner, MemberId::MAIN.number());
        let mut mask = [0xff; 4];
        mask[at % 4] = owner;
        if let Some(word) = self.memory.get(at / 4) {
            word.fetch_and(u32::from_ne_bytes(mask), Ordering::Relaxed);
        }
    }

    /// Shows the tenant what was lent.
    pub(super) fn publish(&mut self) {
        if self.to.publish() {
            self.waker.wake();
        }
    }

    /// Keeps it in free frames.
    pub(super) fn supply(&mut self) {
        if self.spares >= SPARES {
            return;
        }
        let mut given = false;
        while self.spares < 2 * SPARES
            && self.free[0].len() > KEPT as usize
            && matches!(self.supply.free(1), Ok(1..))
            && let Some(number) = self.free[0].pop()
        {
            self.slots[number as usize] = Slot::Spare;
            self.spares += 1;
            self.hand_over(number);
            let descriptor = self.layout.descriptor(number).unwrap_or(0);
            self.supply.write(std::iter::once(descriptor));
            given = true;
        }
        if given && self.supply.publish() {
            self.waker.wake();
        }
    }

    /// Tells it that nothing more will come, once.
    pub(super) fn finish(&mut self) {
        if !std::mem::replace(&mut self.finished, true) && self.to.finish() {
            self.waker.wake();
        }
    }

    /// Output of the tenant: the number of lent frames that it is done with since the last call,
    /// and the numbers in its two rings. No more
    /// than the rings hold; `None` for done where more than that came.
    pub(super) fn hear(
        &mut self,
        from: &mut Vec<u32>,
        freed: &mut Vec<u32>,
    ) -> Result<Option<u32>, Offence> {
        // Before the rings: what it gave before it said so is seen.
        let done = self.status[DONE].load(Ordering::Acquire);
        let newly = done.wrapping_sub(self.done);
        if newly > self.lent.wrapping_sub(self.done) {
            return Err(Offence::BadPosition);
        }
        let whole = drain(&mut self.from, from)?;
        drain(&mut self.freed, freed)?;
        if !whole {
            return Ok(None);
        }
        self.done = done;
        Ok(Some(newly))
    }

    /// Finds the frame of this descriptor; the tenant must have it.
    pub(super) fn named(&self, descriptor: u32) -> Result<(u32, Slot), Offence> {
        let number = self.layout.frame_of_descriptor(descriptor);
        let slot = number.and_then(|number| Some((number, *self.slots.get(number as usize)?)));
        match slot {
            None => Err(Offence::NoSuchFrame),
            Some((_, Slot::Free)) => Err(Offence::NotLent),
            Some(named) => Ok(named),
        }
    }

    /// Takes a frame back.
    pub(super) fn take_back(&mut self, number: u32) {
        let Some(slot) = self.slots.get_mut(number as usize) else {
            return;
        };
        match std::mem::replace(slot, Slot::Free) {
            Slot::Free => return,
            Slot::Spare => self.spares -= 1,
            Slot::Lent(_) | Slot::Abandoned(_) => {}
        }
        self.free[usize::from(number >= self.layout.small_frames)].push(number);
    }

    /// Leaves it a frame whose packet it dropped. A large one is of no other
    /// use to it, and comes back like the rest.
    pub(super) fn leave(&mut self, number: u32) {
        if let Some(slot) = self.slots.get_mut(number as usize)
            && matches!(slot, Slot::Lent(_))
        {
            *slot = Slot::Spare;
            self.spares += 1;
        }
    }

    /// Nobody waits any longer for what was lent in this frame.
    pub(super) fn abandon(&mut self, number: u32) {
        if let Some(slot) = self.slots.get_mut(number as usize)
            && let Slot::Lent(seq) = *slot
        {
            *slot = Slot::Abandoned(seq);
        }
    }

    /// It is done with what it was lent under this number: where nobody waited
    /// for that and it did not give it back, leaves it the frame. True there.
    pub(super) fn leave_abandoned(&mut self, number: u32, seq: u64) -> bool {
        let Some(slot) = self.slots.get_mut(number as usize) else {
            return false;
        };
        let is_it = *slot == Slot::Abandoned(seq);
        if is_it {
            *slot = Slot::Spare;
            self.spares += 1;
        }
        is_it
    }

    /// A private copy of a frame's metadata.
    pub(super) fn meta(&self, number: u32) -> [u8; META_BYTES] {
        let mut bytes = [0; META_BYTES];
        if let Some((at, _)) = self.layout.frame_place(number) {
            load(&self.memory, at, &mut bytes);
        }
        bytes
    }

    /// True if it says of a frame that it made the packet in it.
    pub(super) fn made(&self, number: u32) -> bool {
        SaidMeta::read(&self.meta(number)).flags & frame_flags::EMITTED != 0
    }

    /// Bytes that a packet may have in a frame, headroom included.
    pub(super) fn room_of(&self, number: u32) -> usize {
        let place = self.layout.frame_place(number);
        place.map_or(0, |(_, len)| len - META_BYTES)
    }

    /// Copies a frame's bytes from `start` (behind the metadata); false where
    /// they are not all inside it.
    pub(super) fn copy(&self, number: u32, start: usize, into: &mut [u8]) -> bool {
        match self.layout.frame_place(number) {
            Some((at, len)) if META_BYTES + start + into.len() <= len => {
                load(&self.memory, at + META_BYTES + start, into);
                true
            }
            _ => false,
        }
    }

    /// Frames that it has.
    #[cfg(test)]
    pub(super) fn has(&self) -> usize {
        self.slots
            .iter()
            .filter(|slot| **slot != Slot::Free)
            .count()
    }
}

/// Reads all that is in a ring, but no more than it holds twice; false where
/// that was not all.
fn drain(ring: &mut Reader<Words>, into: &mut Vec<u32>) -> Result<bool, Offence> {
    let before = into.len();
    loop {
        let mut numbers = [0; 64];
        let read = ring.read(&mut numbers);
        match read.map_err(|_| Offence::BadPosition)? {
            0 => return Ok(true),
            count => into.extend(numbers.iter().take(count)),
        }
        ring.release();
        if into.len() - before >= 2 * PLACES as usize {
            return Ok(false);
        }
    }
}

/// Copies bytes out of words that somebody may be writing: each word is read
/// once.
fn load(words: &[AtomicU32], mut at: usize, mut into: &mut [u8]) {
    let word = |at: usize| {
        let word = words.get(at / 4).map(|word| word.load(Ordering::Relaxed));
        word.unwrap_or(0).to_ne_bytes()
    };
    if !at.is_multiple_of(4) {
        let from = at % 4;
        let count = (4 - from).min(into.len());
        let (head, rest) = into.split_at_mut(count);
        head.copy_from_slice(&word(at)[from..from + count]);
        (at, into) = (at + count, rest);
    }
    let Some(body) = words.get(at / 4..) else {
        return;
    };
    let mut whole = into.chunks_exact_mut(4);
    let mut read = 0;
    for (four, word) in whole.by_ref().zip(body) {
        four.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        read += 4;
    }
    let tail = whole.into_remainder();
    tail.copy_from_slice(&word(at + read)[..tail.len()]);
}

/// Copies bytes into words that are this side's to write for now.
fn store(words: &[AtomicU32], mut at: usize, mut from: &[u8]) {
    let part = |at: usize, bytes: &[u8]| {
        if let Some(word) = words.get(at / 4) {
            let mut whole = word.load(Ordering::Relaxed).to_ne_bytes();
            whole[at % 4..at % 4 + bytes.len()].copy_from_slice(bytes);
            word.store(u32::from_ne_bytes(whole), Ordering::Relaxed);
        }
    };
    if !at.is_multiple_of(4) {
        let (head, rest) = from.split_at((4 - at % 4).min(from.len()));
        part(at, head);
        (at, from) = (at + head.len(), rest);
    }
    let (whole, tail) = from.as_chunks::<4>();
    let body = words.get(at / 4..).unwrap_or(&[]);
    for (four, word) in whole.iter().zip(body) {
        word.store(u32::from_ne_bytes(*four), Ordering::Relaxed);
    }
    part(at + 4 * whole.len(), tail);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_any_place() {
        let words: Vec<AtomicU32> = (0..16).map(|_| AtomicU32::new(u32::MAX)).collect();
        let bytes: Vec<u8> = (1..=40).collect();
        for at in 0..9 {
            for len in 0..40 {
                words
                    .iter()
                    .for_each(|w| w.store(u32::MAX, Ordering::Relaxed));
                store(&words, at, &bytes[..len]);
                let mut all = [0; 64];
                load(&words, 0, &mut all);
                assert_eq!(all[at..at + len], bytes[..len], "{at} {len}");
                assert!(all[..at].iter().chain(&all[at + len..]).all(|b| *b == 255));
                let mut back = vec![0; len];
                load(&words, at, &mut back);
                assert_eq!(back, bytes[..len]);
            }
        }
    }
}
