//! TAP interfaces.
//!
//! # Safety
//!
//! Each `ioctl` is given an `ifreq` of its stack frame, zeroed, whose name ends
//! in a zero.

#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt as _;

use super::socket;

/// Opens the TAP interface of this name, which is made if it is not there and
/// then lives as long as the file. Each read gives a packet and each write
/// takes one; neither waits.
pub(crate) fn open(name: &str) -> io::Result<File> {
    open_with(name, 0)
}

/// The same for whole packets with a header of what is left to a card, as a
/// virtual machine has it.
#[cfg(test)]
pub(crate) fn open_with_offload_headers(name: &str) -> io::Result<File> {
    open_with(name, libc::IFF_VNET_HDR)
}

fn open_with(name: &str, flags: libc::c_int) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")?;
    // SAFETY: a C structure of numbers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    for (to, &from) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | flags) as libc::c_short;
    // SAFETY: module documentation.
    let set = unsafe {
        libc::ioctl(
            file.as_raw_fd(),
            libc::TUNSETIFF as _,
            std::ptr::from_mut(&mut request),
        )
    };
    socket::check(set)?;
    Ok(file)
}

/// True where the interface behind the file is still there, in whichever
/// network namespace it may be by now.
pub(crate) fn is_there(file: &File) -> bool {
    // SAFETY: a C structure of numbers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // SAFETY: module documentation.
    let asked = unsafe {
        libc::ioctl(
            file.as_raw_fd(),
            libc::TUNGETIFF as _,
            std::ptr::from_mut(&mut request),
        )
    };
    asked >= 0
}
