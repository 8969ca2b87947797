//! Large arrays of zeros: reserved at once, paid for when touched.
//!
//! # Safety
//!
//! An arena owns one allocation, made with alignment 16 (for which the system
//! allocator maps zero pages instead of writing zeros) and with room to move
//! the start up to a large page's boundary. Any bytes are a valid `T`
//! (`FromBytes`), zeros included, and the range from `start` holds `len` of
//! them.

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

use zerocopy::{FromBytes, IntoBytes};

/// Asks the system for large pages behind a range of memory. The drivers own
/// system calls, so they pass the function in; [`no_advice`] does nothing.
pub type Advise = fn(&mut [u8]);

/// An [`Advise`] that leaves the memory as it is.
pub fn no_advice(_: &mut [u8]) {}

const LARGE_PAGE: usize = 2 << 20;

/// A fixed number of `T`, all zero at first, aligned to a large page where
/// they fill one.
#[derive(Debug)]
pub struct Arena<T> {
    start: NonNull<T>,
    len: usize,
    raw: NonNull<u8>,
    layout: Layout,
}

// SAFETY: an arena owns its elements as a `Vec` does.
unsafe impl<T: Send> Send for Arena<T> {}
// SAFETY: as above; shared access gives shared access to the elements only.
unsafe impl<T: Sync> Sync for Arena<T> {}

impl<T: FromBytes + IntoBytes> Arena<T> {
    /// `len` elements of zeros.
    ///
    /// # Panics
    ///
    /// If the size overflows: a fault of the program.
    pub fn zeroed(len: usize, advise: Advise) -> Arena<T> {
        let bytes = len
            .checked_mul(size_of::<T>())
            .expect("the size of an arena fits");
        let align = if bytes >= LARGE_PAGE {
            LARGE_PAGE
        } else {
            align_of::<T>().max(64)
        };
        let layout = Layout::from_size_align(bytes + align, 16).expect("the size of an arena fits");
        // SAFETY: the layout's size is at least `align`, so not zero.
        let raw = unsafe { alloc_zeroed(layout) };
        let Some(raw) = NonNull::new(raw) else {
            handle_alloc_error(layout)
        };
        let skip = raw.as_ptr().align_offset(align);
        debug_assert!(skip < align);
        // SAFETY: `skip < align` and `bytes + align` bytes were allocated.
        let start = unsafe { raw.add(skip) }.cast::<T>();
        // SAFETY: `bytes` initialised bytes at `start`, nobody else has them.
        advise(unsafe { core::slice::from_raw_parts_mut(start.cast().as_ptr(), bytes) });
        Arena {
            start,
            len,
            raw,
            layout,
        }
    }
}

impl<T> Arena<T> {
    /// Its first element, without making a reference.
    #[inline]
    pub fn as_ptr(&self) -> *const T {
        self.start.as_ptr()
    }

    /// The same, for writing.
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.start.as_ptr()
    }

    /// Its first element for writing through a shared reference, for owners
    /// that hand out disjoint parts themselves.
    #[inline]
    pub(crate) fn raw(&self) -> *mut T {
        self.start.as_ptr()
    }
}

impl<T> Deref for Arena<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: module documentation.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Arena<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: module documentation; exclusive through `self`.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for Arena<T> {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this very layout; `T` is plain
        // data and needs no drop.
        unsafe { dealloc(self.raw.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_zero_aligned_and_writable_to_its_end() {
        // Miri would take an hour over each octet of the largest.
        for len in [0, 1, 1_000, 600_000] {
            let mut arena = Arena::<[u64; 8]>::zeroed(len, |bytes| {
                assert!(
                    bytes
                        .iter()
                        .step_by(if cfg!(miri) { 4_097 } else { 1 })
                        .all(|&b| b == 0)
                );
            });
            assert_eq!(arena.len(), len);
            assert!(arena.as_ptr().addr().is_multiple_of(if len > 40_000 {
                LARGE_PAGE
            } else {
                64
            }));
            if let Some(last) = arena.last_mut() {
                last[7] = 5;
                assert_eq!(arena[len - 1], [0, 0, 0, 0, 0, 0, 0, 5]);
            }
        }
    }
}
