//! A ring of numbers between two processes: one writes, one reads.
//!
//! All of it is atomic words in memory that both have; positions are counted,
//! never addresses, and each side keeps its own position to itself: what it
//! shows of it is for the other one to read, and nobody reads back what the
//! other may have written over it. So a neighbour that writes nonsense into the
//! words is found out ([`Nonsense`]), or gets and gives nonsense, but harms
//! nothing beside its own ring.
//!
//! ```text
//! words   0 tail   written positions            by the writer
//!        32 head   read positions               by the reader
//!        64 reader sleeps                       set by the reader, cleared by who wakes it
//!        96 writer is done                      by the writer
//!        97 reader is gone                      by the reader
//!       128 the places
//! ```
//!
//! Words that one side writes have 128 bytes of their own (processors fetch lines in
//! pairs); words that are written once are elsewhere, so that reading them costs
//! nothing. Each side remembers the other's position as it saw it last, looking
//! again only when that is not enough: in a batch of 32 the two meet once.
//!
//! # Falling asleep
//!
//! The reader says that it sleeps, then looks once more whether something came;
//! the writer shows what came, then asks whether the reader sleeps. Both say
//! and ask by exchanging the same word, and exchanges of a word have one order.
//! If the writer's comes later, it finds the reader asleep and wakes it; if the
//! reader's comes later, it acquires what the writer had released before, and
//! sees what came. The model in `tests/ring_model.rs` goes through the orders.

use std::ops::Deref;

use super::atomic::{AtomicU32, Ordering};

const TAIL: usize = 0;
const HEAD: usize = 32;
const ASLEEP: usize = 64;
const WRITER_DONE: usize = 96;
const READER_GONE: usize = 97;
const PLACES: usize = 128;

/// Words of a ring with so many places.
pub const fn words_for(places: u32) -> usize {
    PLACES + places as usize
}

/// The other side's position makes no sense, or the ring's size: nothing more
/// goes this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonsense;

impl std::fmt::Display for Nonsense {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a ring's position makes no sense")
    }
}

impl std::error::Error for Nonsense {}

/// Number of the last place, where the words are a ring: a power of two places.
fn mask(words: &[AtomicU32]) -> Result<u32, Nonsense> {
    let places = words.len().checked_sub(PLACES).ok_or(Nonsense)?;
    let places = u32::try_from(places).map_err(|_| Nonsense)?;
    if places.is_power_of_two() && places <= 1 << 30 {
        Ok(places - 1)
    } else {
        Err(Nonsense)
    }
}

/// The writing side.
#[derive(Debug)]
pub struct Writer<W> {
    words: W,
    mask: u32,
    /// Positions written, shown or not.
    next: u32,
    /// The reader's position as last seen.
    seen: u32,
}

impl<W: Deref<Target = [AtomicU32]>> Writer<W> {
    /// Of a new ring, all zeros, or of one whose last writer is over.
    ///
    /// # Errors
    ///
    /// If the words are no ring.
    pub fn attach(words: W) -> Result<Writer<W>, Nonsense> {
        let mask = mask(&words)?;
        let next = words[TAIL].load(Ordering::Acquire);
        let seen = words[HEAD].load(Ordering::Acquire);
        if next.wrapping_sub(seen) > mask + 1 {
            return Err(Nonsense);
        }
        words[WRITER_DONE].store(0, Ordering::Release);
        Ok(Writer {
            words,
            mask,
            next,
            seen,
        })
    }

    /// Places that are free, as last seen; looks again where these are fewer
    /// than `wanted`.
    ///
    /// # Errors
    ///
    /// If the reader has read what was not written.
    #[inline]
    pub fn free(&mut self, wanted: u32) -> Result<u32, Nonsense> {
        let size = self.mask + 1;
        let mut used = self.next.wrapping_sub(self.seen);
        if size - used < wanted {
            let head = self.words[HEAD].load(Ordering::Acquire);
            used = self.next.wrapping_sub(head);
            if used > size {
                return Err(Nonsense);
            }
            self.seen = head;
        }
        Ok(size - used)
    }

    /// Places that are free now; none where that makes no sense.
    pub fn room(&self) -> u32 {
        let head = self.words[HEAD].load(Ordering::Acquire);
        let used = self.next.wrapping_sub(head);
        (self.mask + 1).saturating_sub(used)
    }

    /// Writes the next places: no more than [`Writer::free`] said are free.
    #[inline]
    pub fn write(&mut self, mut values: impl ExactSizeIterator<Item = u32>) {
        let first = (self.next & self.mask) as usize;
        self.next = self.next.wrapping_add(values.len() as u32);
        let (again, straight) = self.words[PLACES..].split_at(first);
        // `straight` is the first of the two, so that no value is taken in vain if it ends.
        for (place, value) in straight.iter().zip(&mut values) {
            place.store(value, Ordering::Relaxed);
        }
        for (place, value) in again.iter().zip(&mut values) {
            place.store(value, Ordering::Relaxed);
        }
    }

    /// Shows the reader what was written. True where it sleeps: wake it.
    #[inline]
    #[must_use = "a reader that sleeps is to be woken"]
    pub fn publish(&mut self) -> bool {
        self.words[TAIL].store(self.next, Ordering::Release);
        self.wakes()
    }

    /// The reader has died, and may have written over the positions: they are again what they
    /// were when they made sense last. No reader is attached.
    pub fn mend(&mut self) {
        let head = self.words[HEAD].load(Ordering::Acquire);
        if self.next.wrapping_sub(head) > self.mask + 1 {
            self.words[HEAD].store(self.seen, Ordering::Release);
        }
        self.words[TAIL].store(self.next, Ordering::Release);
    }

    /// Says that nothing more will come, as far as this writer goes. True where
    /// the reader sleeps.
    #[must_use = "a reader that sleeps is to be woken"]
    pub fn finish(&mut self) -> bool {
        self.words[WRITER_DONE].store(1, Ordering::Release);
        self.wakes()
    }

    #[inline]
    fn wakes(&self) -> bool {
        self.words[ASLEEP].swap(0, Ordering::AcqRel) != 0
    }

    /// True where the reader has said that it reads no more.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.words[READER_GONE].load(Ordering::Relaxed) != 0
    }
}

/// The reading side.
#[derive(Debug)]
pub struct Reader<W> {
    words: W,
    mask: u32,
    /// Positions read, given back or not.
    next: u32,
    /// The writer's position as last seen.
    seen: u32,
}

impl<W: Deref<Target = [AtomicU32]>> Reader<W> {
    /// Of a new ring, all zeros, or of one whose last reader is over.
    ///
    /// # Errors
    ///
    /// If the words are no ring.
    pub fn attach(words: W) -> Result<Reader<W>, Nonsense> {
        let mask = mask(&words)?;
        let next = words[HEAD].load(Ordering::Acquire);
        let seen = words[TAIL].load(Ordering::Acquire);
        if seen.wrapping_sub(next) > mask + 1 {
            return Err(Nonsense);
        }
        words[READER_GONE].store(0, Ordering::Release);
        Ok(Reader {
            words,
            mask,
            next,
            seen,
        })
    }

    /// Places that were written and not read, as of now.
    ///
    /// # Errors
    ///
    /// If more was written than there are places.
    #[inline]
    pub fn waiting(&self) -> Result<u32, Nonsense> {
        let tail = self.words[TAIL].load(Ordering::Acquire);
        let there = tail.wrapping_sub(self.next);
        if there > self.mask + 1 {
            return Err(Nonsense);
        }
        Ok(there)
    }

    /// Reads as many places as there are, or as `into` has room for: how many.
    /// They are the writer's again at [`Reader::release`].
    ///
    /// # Errors
    ///
    /// As [`Reader::waiting`].
    #[inline]
    pub fn read(&mut self, into: &mut [u32]) -> Result<usize, Nonsense> {
        let mut there = self.seen.wrapping_sub(self.next);
        if there == 0 {
            there = self.waiting()?;
            self.seen = self.next.wrapping_add(there);
        }
        let count = (there as usize).min(into.len());
        let first = (self.next & self.mask) as usize;
        self.next = self.next.wrapping_add(count as u32);
        let (again, straight) = self.words[PLACES..].split_at(first);
        let (before, behind) = into[..count].split_at_mut(count.min(straight.len()));
        for (value, place) in before.iter_mut().zip(straight) {
            *value = place.load(Ordering::Relaxed);
        }
        for (value, place) in behind.iter_mut().zip(again) {
            *value = place.load(Ordering::Relaxed);
        }
        Ok(count)
    }

    /// Gives back the places that were read.
    #[inline]
    pub fn release(&mut self) {
        self.words[HEAD].store(self.next, Ordering::Release);
    }

    /// The writer has died, and may have written over the positions: they make sense again, and
    /// what it has left unread is skipped. No writer is attached.
    pub fn mend(&mut self) {
        let waiting = self.waiting();
        match waiting {
            Ok(left) => self.next = self.next.wrapping_add(left),
            Err(_) => self.words[TAIL].store(self.next, Ordering::Release),
        }
        self.seen = self.next;
        self.words[HEAD].store(self.next, Ordering::Release);
    }

    /// Says that the reader sleeps. False where it may not, since something
    /// is there, or nothing will come any more.
    #[must_use = "with false the reader stays awake"]
    pub fn fall_asleep(&mut self) -> bool {
        self.words[ASLEEP].swap(1, Ordering::AcqRel);
        let nothing = self.words[TAIL].load(Ordering::Acquire) == self.next;
        let may = nothing && self.words[WRITER_DONE].load(Ordering::Acquire) == 0;
        if !may {
            self.awake();
        }
        may
    }

    /// Says that the reader is awake: the writer need not wake it.
    pub fn awake(&mut self) {
        // An exchange, too: a plain store would end the chain by which the next
        // one sees what the writer did before its last.
        self.words[ASLEEP].swap(0, Ordering::AcqRel);
    }

    /// True where the writer is done and all was read.
    #[inline]
    pub fn is_over(&self) -> bool {
        // In this order: what was written before the end is seen after it.
        self.words[WRITER_DONE].load(Ordering::Acquire) != 0
            && self.words[TAIL].load(Ordering::Acquire) == self.next
    }

    /// Says that this reader reads no more.
    pub fn leave(&mut self) {
        self.words[READER_GONE].store(1, Ordering::Release);
    }
}

/// Content of a ring now, for a third party: numbers that were written and not
/// read. Some may be read meanwhile; nothing that was read
/// before is, and nothing is left out where its writer is over.
pub fn peek(words: &[AtomicU32]) -> Result<Vec<u32>, Nonsense> {
    let mask = mask(words)?;
    let tail = words[TAIL].load(Ordering::Acquire);
    let head = words[HEAD].load(Ordering::Acquire);
    let there = tail.wrapping_sub(head);
    if there > mask + 1 {
        return Err(Nonsense);
    }
    let places = (0..there).map(|i| PLACES + (head.wrapping_add(i) & mask) as usize);
    Ok(places
        .map(|place| words[place].load(Ordering::Relaxed))
        .collect())
}

/// Gives all places of a ring whose reader is over back to its writer.
///
/// # Errors
///
/// If the words are no ring.
pub fn empty(words: &[AtomicU32]) -> Result<(), Nonsense> {
    mask(words)?;
    let tail = words[TAIL].load(Ordering::Acquire);
    words[HEAD].store(tail, Ordering::Release);
    Ok(())
}
