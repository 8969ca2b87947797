//! Memory of a socket's, mapped: what rings lie in.
//!
//! # Safety
//!
//! A mapping is made by the kernel at our request and lives exactly as long as
//! [`Mapping`]. Addresses are given out only of ranges found to be inside it and
//! aligned; those who are given one keep the mapping as long as they use it.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// Memory of a socket's, mapped.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

impl Mapping {
    /// Maps `len` octets of the socket's, from `offset` on.
    pub(super) fn new(fd: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<Mapping> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                fd.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        match NonNull::new(start.cast()) {
            Some(start) => Ok(Mapping { start, len }),
            None => Err(io::Error::other("a ring is mapped at address 0")),
        }
    }

    /// The address of `count` values at `offset`, if they are in it and aligned.
    pub(super) fn at<T>(&self, offset: u64, count: usize) -> io::Result<NonNull<T>> {
        let len = count.checked_mul(size_of::<T>());
        let end = len.and_then(|len| usize::try_from(offset).ok()?.checked_add(len));
        if end.is_none_or(|end| end > self.len) || !offset.is_multiple_of(align_of::<T>() as u64) {
            return Err(io::Error::other("the kernel describes a ring wrongly"));
        }
        // SAFETY: the range was found to be inside the mapping.
        Ok(unsafe { self.start.add(offset as usize) }.cast())
    }
}

// SAFETY: plain memory; what is done with addresses of it is its users'.
unsafe impl Send for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, which nothing uses any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
