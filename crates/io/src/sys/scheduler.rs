//! How the kernel's scheduler treats the calling thread.
//!
//! # Safety
//!
//! The call reads a structure that lives until it returns.

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
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: see the module; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the calling thread has [`Policy::Fifo`].
pub(crate) fn is_fifo() -> bool {
    // SAFETY: it takes a number; 0 is the calling thread.
    unsafe { libc::sched_getscheduler(0) == libc::SCHED_FIFO }
}
