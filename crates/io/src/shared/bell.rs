//! Waking a process that sleeps: an eventfd, which can be waited for beside
//! sockets and interfaces.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::EventfdFlags;
use rustix::io::Errno;

/// What a process waits for when it sleeps. One for all that it reads from.
#[derive(Clone, Debug)]
pub struct Bell(Arc<OwnedFd>);

impl Bell {
    /// A new one.
    ///
    /// # Errors
    ///
    /// Where the kernel has no descriptor left.
    pub fn new() -> io::Result<Bell> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Bell(Arc::new(rustix::event::eventfd(0, flags)?)))
    }

    /// One that was passed on by another process.
    pub fn from_fd(fd: OwnedFd) -> Bell {
        Bell(Arc::new(fd))
    }

    /// Wakes who waits for it, or who will.
    pub fn ring(&self) {
        // A counter that is full has rung: EAGAIN. Nothing else can fail.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    /// Makes it silent again, for the one who was woken.
    pub fn quiet(&self) {
        let mut count = [0u8; 8];
        while rustix::io::read(&*self.0, &mut count) == Err(Errno::INTR) {}
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
