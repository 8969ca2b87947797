//! Reads from where nothing may be for a while: a pipe, say. A run that waited in a read would neither
//! let out what comes back from other threads nor answer commands.

use std::fs::File;
use std::io::{self, Read, Stdin};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long a read waits for bytes, in ms, before it says [`io::ErrorKind::WouldBlock`]; below 0
/// without end. Clones are the same one.
#[derive(Clone, Debug)]
pub(super) struct Patience(Arc<AtomicI32>);

impl Patience {
    /// It waits without end.
    pub(super) const ENDLESS: i32 = -1;

    pub(super) fn set(&self, ms: i32) {
        self.0.store(ms, Ordering::Relaxed);
    }
}

/// A source of bytes that may wait.
pub(super) struct Pipe<R> {
    from: R,
    patience: Patience,
}

impl<R: Read + AsFd> Pipe<R> {
    /// Waits without end until it is told otherwise.
    pub(super) fn new(from: R) -> (Pipe<R>, Patience) {
        let patience = Patience(Arc::new(AtomicI32::new(Patience::ENDLESS)));
        let pipe = Pipe {
            from,
            patience: patience.clone(),
        };
        (pipe, patience)
    }
}

impl<R: Read + AsFd> Read for Pipe<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let ms = self.patience.0.load(Ordering::Relaxed);
        if ms >= 0 && !is_there(self.from.as_fd(), ms)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.from.read(into)
    }
}

/// True where a read would not wait: for bytes, or the end.
fn is_there(from: BorrowedFd<'_>, ms: i32) -> io::Result<bool> {
    let most = Timespec {
        tv_sec: i64::from(ms / 1_000),
        tv_nsec: i64::from(ms % 1_000) * 1_000_000,
    };
    match poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&most)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Standard input without a buffer of its own: what that had would not be seen by `poll`.
pub(super) fn standard(stdin: &Stdin) -> io::Result<File> {
    Ok(File::from(stdin.as_fd().try_clone_to_owned()?))
}
