//! Many packets by one system call: `sendmmsg` on frames.
//!
//! # Safety
//!
//! The kernel is given, for each message, the bytes of one frame, borrowed for the
//! call, to read. The addresses are written anew before each call and not used
//! after. How many were sent is bounded by how many were given.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use weir_packet::{Frame, PacketMemory};

use super::socket::check;

/// Packets per call.
pub(crate) const BURST: usize = 64;

/// Memory for the calls.
pub(crate) struct Burst {
    headers: Vec<libc::mmsghdr>,
    vectors: Vec<libc::iovec>,
}

// SAFETY: the addresses in it are not used outside the calls that write them.
unsafe impl Send for Burst {}

impl std::fmt::Debug for Burst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Burst").finish_non_exhaustive()
    }
}

impl Burst {
    pub(crate) fn new() -> Burst {
        // SAFETY: C structures of numbers and pointers that may be null.
        let (header, vector) = unsafe {
            (
                std::mem::zeroed::<libc::mmsghdr>(),
                std::mem::zeroed::<libc::iovec>(),
            )
        };
        Burst {
            headers: vec![header; BURST],
            vectors: vec![vector; BURST],
        }
    }

    /// Sends the packets of `frames`: how many, at least one. The error is that
    /// of the first packet.
    pub(crate) fn send(
        &mut self,
        fd: BorrowedFd<'_>,
        memory: &PacketMemory,
        frames: &[Frame],
    ) -> io::Result<usize> {
        let count = frames.len().min(BURST);
        let rows = self.headers.iter_mut().zip(&mut self.vectors);
        for (frame, (header, vector)) in frames.iter().zip(rows) {
            let bytes = memory.bytes(frame);
            // The kernel only reads it.
            vector.iov_base = bytes.as_ptr().cast_mut().cast();
            vector.iov_len = bytes.len();
            header.msg_len = 0;
            let header = &mut header.msg_hdr;
            header.msg_name = std::ptr::null_mut();
            header.msg_namelen = 0;
            header.msg_iov = vector;
            header.msg_iovlen = 1;
            header.msg_control = std::ptr::null_mut();
            header.msg_controllen = 0;
            header.msg_flags = 0;
        }
        // SAFETY: module documentation; `count` headers were written above.
        let sent = unsafe {
            libc::sendmmsg(
                fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT as _,
            )
        };
        Ok((check(sent)? as usize).min(count))
    }
}
