//! Rings that the program shares with the kernel: AF_XDP's four.
//!
//! # Safety
//!
//! A ring is mapped by the kernel at our request for exactly as long as
//! [`Mapping`] lives, with the size that covers the largest offset used: each
//! offset that the kernel names is checked against it and for alignment when
//! the ring is made. The two indices and the flags are only ever accessed as
//! atomics. A slot is written only while it is the producer's (its number is
//! not yet published and less than `size` ahead of the consumer's index), and
//! read only while it is the consumer's (published, not yet released);
//! publishing and releasing are `Release`, looking at the other side's index
//! `Acquire`. The other side is the kernel: an index of its that makes no sense
//! (more than the ring holds) is an error, and no slot is touched by it.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::mapping::Mapping;

/// Both ends' view of a ring.
struct Ring<T> {
    _mapping: Mapping,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    slots: NonNull<T>,
    size: u32,
}

// SAFETY: the mapping belongs to the ring, and the process's other threads
// don't know it.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    fn new(
        fd: BorrowedFd<'_>,
        page_offset: u64,
        at: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Ring<T>> {
        if !size.is_power_of_two() {
            return Err(io::Error::other("a ring's size is a power of two"));
        }
        let slots = u64::from(size) * size_of::<T>() as u64;
        let len = at
            .desc
            .checked_add(slots)
            .and_then(|len| usize::try_from(len).ok())
            .filter(|&len| len < 1 << 30)
            .ok_or_else(|| io::Error::other("the kernel describes a ring wrongly"))?;
        let mapping = Mapping::new(fd, page_offset, len)?;
        Ok(Ring {
            producer: mapping.at(at.producer, 1)?,
            consumer: mapping.at(at.consumer, 1)?,
            flags: mapping.at(at.flags, 1)?,
            slots: mapping.at(at.desc, size as usize)?,
            _mapping: mapping,
            size,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: module documentation.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: module documentation.
        unsafe { self.consumer.as_ref() }
    }

    fn needs_wake_up(&self) -> bool {
        // SAFETY: module documentation.
        let flags = unsafe { self.flags.as_ref() };
        flags.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    fn slot(&self, number: u32) -> NonNull<T> {
        // SAFETY: the mask keeps the number below `size`.
        unsafe { self.slots.add((number & (self.size - 1)) as usize) }
    }
}

fn nonsense() -> io::Error {
    io::Error::other("the kernel's index of a ring makes no sense")
}

/// A ring that the program fills: fill and transmit ring.
pub(crate) struct Producer<T> {
    ring: Ring<T>,
    /// Slots written, published or not.
    next: u32,
    /// The kernel's index as last seen.
    consumed: u32,
}

impl<T> std::fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer")
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl<T: Copy> Producer<T> {
    pub(crate) fn new(
        fd: BorrowedFd<'_>,
        page_offset: u64,
        at: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Producer<T>> {
        let ring = Ring::new(fd, page_offset, at, size)?;
        let next = ring.producer().load(Ordering::Relaxed);
        let consumed = ring.consumer().load(Ordering::Acquire);
        Ok(Producer {
            ring,
            next,
            consumed,
        })
    }

    /// Slots that are free now.
    pub(crate) fn free(&mut self) -> io::Result<u32> {
        self.consumed = self.ring.consumer().load(Ordering::Acquire);
        let used = self.next.wrapping_sub(self.consumed);
        self.ring.size.checked_sub(used).ok_or_else(nonsense)
    }

    /// Slots that the kernel has not taken yet.
    pub(crate) fn waiting(&mut self) -> io::Result<u32> {
        Ok(self.ring.size - self.free()?)
    }

    /// Writes the next slot, to be published; false where the ring, as last
    /// looked at, is full.
    #[inline]
    pub(crate) fn write(&mut self, value: T) -> bool {
        if self.next.wrapping_sub(self.consumed) >= self.ring.size {
            return false;
        }
        // SAFETY: module documentation: the slot is the producer's.
        unsafe { self.ring.slot(self.next).write(value) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Shows the kernel what was written.
    #[inline]
    pub(crate) fn publish(&mut self) {
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// The kernel sleeps and wants to be called.
    #[inline]
    pub(crate) fn needs_wake_up(&self) -> bool {
        self.ring.needs_wake_up()
    }
}

/// A ring that the kernel fills: receive and completion ring.
pub(crate) struct Consumer<T> {
    ring: Ring<T>,
    /// Slots read, released or not.
    next: u32,
}

impl<T> std::fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer")
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl<T: Copy> Consumer<T> {
    pub(crate) fn new(
        fd: BorrowedFd<'_>,
        page_offset: u64,
        at: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Consumer<T>> {
        let ring = Ring::new(fd, page_offset, at, size)?;
        let next = ring.consumer().load(Ordering::Relaxed);
        Ok(Consumer { ring, next })
    }

    /// Reads up to `most` slots, which are released: how many.
    #[inline]
    pub(crate) fn read(&mut self, most: u32, mut each: impl FnMut(T)) -> io::Result<u32> {
        let produced = self.ring.producer().load(Ordering::Acquire);
        let there = produced.wrapping_sub(self.next);
        if there > self.ring.size {
            return Err(nonsense());
        }
        let count = there.min(most);
        for _ in 0..count {
            // SAFETY: module documentation: the slot is the consumer's.
            each(unsafe { self.ring.slot(self.next).read() });
            self.next = self.next.wrapping_add(1);
        }
        if count > 0 {
            self.ring.consumer().store(self.next, Ordering::Release);
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::{AsFd as _, FromRawFd as _};
    use std::os::unix::fs::FileExt as _;

    use super::*;

    const SIZE: u32 = 4;
    const AT: libc::xdp_ring_offset = libc::xdp_ring_offset {
        producer: 0,
        consumer: 64,
        desc: 128,
        flags: 68,
    };

    /// Memory that the test plays the kernel on.
    fn memory() -> File {
        // SAFETY: a name that ends in a zero; the descriptor is new.
        let file = unsafe {
            let fd = libc::memfd_create(c"ring".as_ptr(), libc::MFD_CLOEXEC);
            assert!(fd >= 0);
            File::from_raw_fd(fd)
        };
        file.set_len(4_096).unwrap();
        file
    }

    fn set(file: &File, at: u64, value: u32) {
        file.write_all_at(&value.to_ne_bytes(), at).unwrap();
    }

    fn get(file: &File, at: u64) -> u32 {
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, at).unwrap();
        u32::from_ne_bytes(bytes)
    }

    #[test]
    fn a_producer_fills_what_is_free_and_goes_round() {
        let file = memory();
        // Just before the index goes round.
        for at in [AT.producer, AT.consumer] {
            set(&file, at, u32::MAX - 1);
        }
        let mut ring = Producer::<u64>::new(file.as_fd(), 0, &AT, SIZE).unwrap();
        assert_eq!(ring.free().unwrap(), 4);
        for value in 10..14u64 {
            assert!(ring.write(value));
        }
        assert!(!ring.write(14));
        assert_eq!(get(&file, AT.producer), u32::MAX - 1, "not shown yet");
        ring.publish();
        assert_eq!(get(&file, AT.producer), 2);
        assert_eq!((ring.waiting().unwrap(), ring.free().unwrap()), (4, 0));
        set(&file, AT.consumer, 1);
        assert_eq!(ring.free().unwrap(), 3);
        assert!(ring.write(14));
        // Slot 2 of 4 has the value that was written as number 2^32 - 2, and
        // slot 2 again the newest.
        assert_eq!(get(&file, AT.desc + 8 * 2), 14);
        assert!(!ring.needs_wake_up());
        set(&file, AT.flags, libc::XDP_RING_NEED_WAKEUP);
        assert!(ring.needs_wake_up());
    }

    #[test]
    fn a_consumer_reads_what_was_published_once() {
        let file = memory();
        let mut ring = Consumer::<u64>::new(file.as_fd(), 0, &AT, SIZE).unwrap();
        for (slot, value) in (20..24u32).enumerate() {
            set(&file, AT.desc + 8 * slot as u64, value);
        }
        let read = |ring: &mut Consumer<u64>, most| {
            let mut all = Vec::new();
            ring.read(most, |value| all.push(value)).map(|_| all)
        };
        assert_eq!(read(&mut ring, 9).unwrap(), []);
        set(&file, AT.producer, 3);
        assert_eq!(read(&mut ring, 2).unwrap(), [20, 21]);
        assert_eq!(get(&file, AT.consumer), 2);
        assert_eq!(read(&mut ring, 9).unwrap(), [22]);
        assert_eq!(read(&mut ring, 9).unwrap(), []);
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        let file = memory();
        let mut fill = Producer::<u64>::new(file.as_fd(), 0, &AT, SIZE).unwrap();
        let mut receive = Consumer::<u64>::new(file.as_fd(), 0, &AT, SIZE).unwrap();
        // More is consumed than was produced, more produced than fits.
        set(&file, AT.consumer, 1);
        assert!(fill.free().is_err() && fill.waiting().is_err());
        set(&file, AT.producer, SIZE + 1);
        assert!(
            receive
                .read(1, |_| panic!("a slot that is not there"))
                .is_err()
        );
        // Offsets that are no multiples, or beyond everything.
        for at in [
            libc::xdp_ring_offset { producer: 2, ..AT },
            libc::xdp_ring_offset {
                consumer: 4_093,
                ..AT
            },
            libc::xdp_ring_offset {
                flags: 1 << 40,
                ..AT
            },
            libc::xdp_ring_offset { desc: 132, ..AT },
            libc::xdp_ring_offset {
                desc: u64::MAX - 8,
                ..AT
            },
        ] {
            assert!(Producer::<u64>::new(file.as_fd(), 0, &at, SIZE).is_err());
        }
        assert!(Consumer::<u64>::new(file.as_fd(), 0, &AT, 3).is_err());
    }
}
