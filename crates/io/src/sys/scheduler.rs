//! How the kernel's scheduler treats the calling thread. By system calls: musl's functions of
//! these names do nothing, since POSIX means processes by them.
//!
//! # Safety
//!
//! The calls read or write the kernel's `sched_param`, which is one number that lives until they
//! return, or take numbers.

#![allow(unsafe_code)]

use std::io;

/// Policies of `sched(7)`, with their priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// As all programs are.
    Other,
    /// Real-time, before all that are not: until it sleeps.
    Fifo(i32),
}

/// Gives the calling thread a policy.
///
/// # Errors
///
/// `EPERM` where it may not be real-time (`CAP_SYS_NICE`, `RLIMIT_RTPRIO`, a control group that has
/// no real-time share).
pub(crate) fn set(policy: Policy) -> io::Result<()> {
    let (policy, priority) = match policy {
        Policy::Other => (libc::SCHED_OTHER, 0),
        Policy::Fifo(priority) => (libc::SCHED_FIFO, priority),
    };
    // SAFETY: see the module; 0 is the calling thread.
    match unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// True if the calling thread has [`Policy::Fifo`] at this priority.
pub(crate) fn has_fifo(priority: i32) -> bool {
    let mut found: i32 = 0;
    // SAFETY: see the module; 0 is the calling thread.
    let read = unsafe { libc::syscall(libc::SYS_sched_getparam, 0, &raw mut found) } == 0;
    // SAFETY: it takes a number.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    read && policy == i64::from(libc::SCHED_FIFO) && found == priority
}
