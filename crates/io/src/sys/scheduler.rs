//! How the kernel's scheduler treats the calling thread.
//!
//! # Safety
//!
//! The call reads a structure that lives until it returns, and whose length is said in it.

#![allow(unsafe_code)]

use std::io;
use std::time::Duration;

/// `struct sched_attr` of Linux 3.14.
#[repr(C)]
#[derive(Debug, Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Gives the calling thread this nice value, and slices of this length (since
/// Linux 6.12; older ones take no notice): when it wakes, one with longer
/// slices does not finish its own first.
///
/// # Errors
///
/// `EPERM` where it may not be less nice (`CAP_SYS_NICE`, `RLIMIT_NICE`).
pub(crate) fn set(nice: i32, slice: Duration) -> io::Result<()> {
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: libc::SCHED_OTHER as u32,
        nice,
        runtime: slice.as_nanos() as u64,
        ..Attributes::default()
    };
    // SAFETY: see the module; 0 is the calling thread.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
