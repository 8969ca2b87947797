//! Waking a process that sleeps: an eventfd, which can be waited for beside
//! sockets and interfaces. For a process that is not trusted a pair of sockets:
//! who has an eventfd, too, may fill it and make its writers wait.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::EventfdFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Wakes a process that sleeps. One for all that it reads from.
#[derive(Clone, Debug)]
pub struct Waker {
    fd: Arc<OwnedFd>,
    is_socket: bool,
}

impl Waker {
    /// A new one.
    ///
    /// # Errors
    ///
    /// If the kernel has no descriptor left.
    pub fn new() -> io::Result<Waker> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Waker::from_fd(rustix::event::eventfd(0, flags)?))
    }

    /// Two ends of one: the first is rung, the second waits. Neither can make
    /// the other wait.
    ///
    /// # Errors
    ///
    /// As [`Waker::new`].
    pub fn pair() -> io::Result<(Waker, Waker)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::DGRAM;
        let (a, b) = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)?;
        Ok((Waker::from_socket(a), Waker::from_socket(b)))
    }

    /// One that was passed on by another process.
    pub fn from_fd(fd: OwnedFd) -> Waker {
        Waker {
            fd: Arc::new(fd),
            is_socket: false,
        }
    }

    /// One end of a pair that was passed on by another process.
    pub fn from_socket(fd: OwnedFd) -> Waker {
        Waker {
            fd: Arc::new(fd),
            is_socket: true,
        }
    }

    /// Wakes who waits for it, or who will.
    pub fn wake(&self) {
        // A counter or socket that is full has rung: EAGAIN. One whose other
        // end is gone wakes nobody.
        if self.is_socket {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let _ = rustix::net::send(&*self.fd, &[1], flags);
        } else {
            let _ = rustix::io::write(&*self.fd, &1u64.to_ne_bytes());
        }
    }

    /// Makes it silent again, for the one who was woken.
    pub fn quiet(&self) {
        let mut count = [0u8; 8];
        if self.is_socket {
            while let Ok(_) | Err(Errno::INTR) =
                rustix::net::recv(&*self.fd, &mut count[..], RecvFlags::DONTWAIT)
            {}
            return;
        }
        while rustix::io::read(&*self.fd, &mut count) == Err(Errno::INTR) {}
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
