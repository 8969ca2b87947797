//! Signals that ask the program to end, as something to wait for.
//!
//! # Safety
//!
//! The signal sets are values of this stack frame, made by `sigemptyset`; the
//! read is into an array of the length that is given.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::socket;

/// SIGINT and SIGTERM, which from now on end no program but are read here.
/// They must be opened before other threads are started.
#[derive(Debug)]
pub struct EndSignals(OwnedFd);

impl EndSignals {
    /// Takes the signals of this thread and of those it starts.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses, for want of file descriptors, say.
    pub fn open() -> io::Result<EndSignals> {
        // SAFETY: module documentation.
        let fd = unsafe {
            let set = end_signals();
            let blocked =
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            if blocked != 0 {
                return Err(io::Error::from_raw_os_error(blocked));
            }
            let flags = libc::SFD_NONBLOCK | libc::SFD_CLOEXEC;
            socket::check(libc::signalfd(-1, &raw const set, flags))?
        };
        // SAFETY: the kernel just gave this descriptor to us alone.
        Ok(EndSignals(unsafe {
            OwnedFd::from_raw_fd(fd as libc::c_int)
        }))
    }

    /// True where one has come since the last call.
    pub fn came(&self) -> bool {
        let mut information = [0u8; size_of::<libc::signalfd_siginfo>()];
        // SAFETY: module documentation.
        let read = unsafe {
            libc::read(
                self.0.as_raw_fd(),
                information.as_mut_ptr().cast(),
                information.len(),
            )
        };
        read > 0
    }

    /// Gives the signals back to the thread that calls: the next one kills the
    /// program, as without this.
    pub fn release(&self) {
        // SAFETY: module documentation.
        unsafe {
            let set = end_signals();
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        }
    }

    /// Kills the program as SIGTERM does that nobody waits for.
    pub fn kill(&self) {
        self.release();
        // SAFETY: it takes no pointers.
        unsafe {
            libc::raise(libc::SIGTERM);
        }
    }
}

/// SIGINT and SIGTERM.
fn end_signals() -> libc::sigset_t {
    // SAFETY: module documentation; all zeros are a valid set.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGINT);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        set
    }
}

impl AsFd for EndSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
