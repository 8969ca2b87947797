//! Pipes as sources of captures. A read of an empty pipe returns at once: a thread that waited in it would
//! neither let out what comes back from other threads nor answer commands.

use std::fs::File;
use std::io::{self, Read, Stdin};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A pipe's patience: while it has some, reads wait for bytes; afterwards they say
/// [`io::ErrorKind::WouldBlock`] where none are there. Clones are the same one.
#[derive(Clone, Debug)]
pub(super) struct Patience(Arc<AtomicBool>);

impl Patience {
    /// Reads wait no more.
    pub(super) fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// A source of bytes that may wait.
pub(super) struct Pipe<R> {
    from: R,
    patience: Patience,
}

impl<R: Read + AsFd> Pipe<R> {
    /// One that is patient.
    pub(super) fn new(from: R) -> (Pipe<R>, Patience) {
        let patience = Patience(Arc::new(AtomicBool::new(true)));
        let pipe = Pipe {
            from,
            patience: patience.clone(),
        };
        (pipe, patience)
    }
}

impl<R: Read + AsFd> Read for Pipe<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let is_patient = self.patience.0.load(Ordering::Relaxed);
        if !is_patient && !is_there(self.from.as_fd())? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.from.read(into)
    }
}

/// True where a read would not wait: for bytes, or the end.
fn is_there(from: BorrowedFd<'_>) -> io::Result<bool> {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    match poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&now)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Standard input without a buffer of its own: what that had would not be seen by `poll`.
pub(super) fn standard(stdin: &Stdin) -> io::Result<File> {
    Ok(File::from(stdin.as_fd().try_clone_to_owned()?))
}
