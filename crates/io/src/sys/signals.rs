//! Signals as descriptors to wait on: those that end the program, and SIGHUP.
//!
//! # Safety
//!
//! The signal sets are values of this stack frame, made by `sigemptyset`; the
//! read is into an array of the length that is given.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use super::socket;

/// SIGINT and SIGTERM as a descriptor; neither kills the process any more.
/// Open it before other threads are started: they inherit the signal mask.
#[derive(Debug)]
pub struct EndSignals(OwnedFd);

impl EndSignals {
    /// Blocks the signals for this thread and for those that it starts.
    ///
    /// # Errors
    ///
    /// The kernel refuses, for want of file descriptors, say.
    pub fn open() -> io::Result<EndSignals> {
        open(&END).map(EndSignals)
    }

    /// True where one arrived since the last call.
    pub fn came(&self) -> bool {
        came(&self.0)
    }

    /// Unblocks the signals for the calling thread: the next one kills the process.
    pub fn release(&self) {
        // SAFETY: module documentation; the default action is no function of this program.
        unsafe {
            // A shell has programs in the background ignore SIGINT.
            for signal in END {
                libc::signal(signal, libc::SIG_DFL);
            }
            let set = set_of(&END);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        }
    }

    /// Kills the process as an unhandled SIGTERM does.
    pub fn kill(&self) {
        self.release();
        // SAFETY: it takes no pointers.
        unsafe {
            libc::raise(libc::SIGTERM);
        }
    }
}

impl AsFd for EndSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// SIGHUP as a descriptor; it does not kill the process any more, nor the
/// processes that this one starts, which inherit the signal mask.
///
/// Each of several is told of every signal, whichever of them read it.
#[derive(Debug)]
pub struct Hangups {
    descriptor: OwnedFd,
    /// Signals of this process that it was told of.
    told: AtomicU64,
}

/// Signals that were read so far.
static HANGUPS: AtomicU64 = AtomicU64::new(0);

impl Hangups {
    /// Blocks SIGHUP for this thread and for those that it starts.
    ///
    /// # Errors
    ///
    /// The kernel refuses, for want of file descriptors, say.
    pub fn open() -> io::Result<Hangups> {
        let descriptor = open(&[libc::SIGHUP])?;
        Ok(Hangups {
            descriptor,
            told: AtomicU64::new(HANGUPS.load(Ordering::Relaxed)),
        })
    }

    /// True where one arrived since the last call.
    pub fn came(&self) -> bool {
        if came(&self.descriptor) {
            HANGUPS.fetch_add(1, Ordering::Relaxed);
        }
        let now = HANGUPS.load(Ordering::Relaxed);
        self.told.swap(now, Ordering::Relaxed) != now
    }
}

impl AsFd for Hangups {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// The signals that ask the program to end.
const END: [libc::c_int; 2] = [libc::SIGINT, libc::SIGTERM];

/// Blocks signals and opens a descriptor to read them from.
fn open(signals: &[libc::c_int]) -> io::Result<OwnedFd> {
    // SAFETY: module documentation.
    let fd = unsafe {
        let set = set_of(signals);
        let blocked = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        if blocked != 0 {
            return Err(io::Error::from_raw_os_error(blocked));
        }
        let flags = libc::SFD_NONBLOCK | libc::SFD_CLOEXEC;
        socket::check(libc::signalfd(-1, &raw const set, flags))?
    };
    // SAFETY: the kernel just gave this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// True where a signal could be read.
fn came(fd: &OwnedFd) -> bool {
    let mut information = [0u8; size_of::<libc::signalfd_siginfo>()];
    // SAFETY: module documentation.
    let read = unsafe {
        libc::read(
            fd.as_raw_fd(),
            information.as_mut_ptr().cast(),
            information.len(),
        )
    };
    read > 0
}

fn set_of(signals: &[libc::c_int]) -> libc::sigset_t {
    // SAFETY: module documentation; all zeros are a valid set.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        set
    }
}
