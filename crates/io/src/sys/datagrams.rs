//! Many datagrams with one call: `sendmmsg` and `recvmmsg`.
//!
//! # Safety
//!
//! The kernel is given arrays of this stack frame with their exact lengths; each message has one
//! piece of memory, a part of the caller's that its borrow keeps alive and that no other piece
//! overlaps. How much was received is held against the piece's length.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::socket::check;

/// Datagrams of one call, at most.
pub(crate) const AT_ONCE: usize = 32;

const NO_PIECE: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

/// Headers without a message.
fn headers() -> [libc::mmsghdr; AT_ONCE] {
    // SAFETY: C structures of numbers and pointers, for which zeros are a value.
    unsafe { std::mem::zeroed() }
}

/// Sends datagrams over a connected socket, at most [`AT_ONCE`]: how many the kernel took.
pub(crate) fn send<'a>(
    socket: BorrowedFd<'_>,
    datagrams: impl Iterator<Item = &'a [u8]>,
) -> io::Result<usize> {
    let (mut pieces, mut headers) = ([NO_PIECE; AT_ONCE], headers());
    let mut count = 0;
    for ((piece, header), datagram) in pieces.iter_mut().zip(&mut headers).zip(datagrams) {
        piece.iov_base = datagram.as_ptr().cast_mut().cast();
        piece.iov_len = datagram.len();
        header.msg_hdr.msg_iov = piece;
        header.msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let first = headers.as_mut_ptr();
    // musl's flags have another type.
    // SAFETY: module documentation; the kernel only reads the datagrams.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), first, count, flags as _) };
    Ok(check(sent)? as usize)
}

/// Receives datagrams into equal parts of `room`, at most [`AT_ONCE`]: how many, with their
/// lengths. Octets beyond a part are lost.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    room: &mut [u8],
    part: usize,
    lengths: &mut [usize; AT_ONCE],
) -> io::Result<usize> {
    let (mut pieces, mut headers) = ([NO_PIECE; AT_ONCE], headers());
    let mut count = 0;
    let parts = room.chunks_exact_mut(part.max(1));
    for ((piece, header), part) in pieces.iter_mut().zip(&mut headers).zip(parts) {
        piece.iov_base = part.as_mut_ptr().cast();
        piece.iov_len = part.len();
        header.msg_hdr.msg_iov = piece;
        header.msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    let flags = libc::MSG_DONTWAIT;
    let none = std::ptr::null_mut();
    let first = headers.as_mut_ptr();
    // SAFETY: module documentation; the parts don't overlap.
    let received = unsafe { libc::recvmmsg(socket.as_raw_fd(), first, count, flags as _, none) };
    let received = check(received)? as usize;
    for (length, header) in lengths.iter_mut().zip(&headers).take(received) {
        *length = (header.msg_len as usize).min(part);
    }
    Ok(received.min(AT_ONCE))
}
