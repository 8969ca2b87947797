//! Waiting without work: first spinning a little, then asleep.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long a driver looks for packets before it sleeps. Falling asleep and
/// waking cost about as much, so a stream with smaller gaps never pays for
/// them. It does not give way (`sched_yield`) meanwhile: whoever does so on a
/// core with other work gets it back after their time slices, milliseconds
/// later, while a sleeper is woken at once.
const SPIN: Duration = Duration::from_micros(20);

/// Decides between looking again and sleeping.
#[derive(Debug, Default)]
pub struct Waiter {
    /// Since when nothing was found.
    idle: Option<Instant>,
    /// Times that it slept.
    slept: u64,
    /// How long, together.
    asleep: Duration,
}

impl Waiter {
    /// Something was found.
    #[inline]
    pub fn busy(&mut self) {
        self.idle = None;
    }

    /// Nothing was found. For a while it returns true: look again. Then it
    /// returns false: sleep.
    #[inline]
    pub fn spin(&mut self) -> bool {
        std::hint::spin_loop();
        let idle = *self.idle.get_or_insert_with(Instant::now);
        idle.elapsed() < SPIN
    }

    /// Sleeps until one of `fds` has something (an error is something), a
    /// signal comes, or `most` is over.
    ///
    /// # Errors
    ///
    /// Where the kernel can't wait: it has no memory.
    pub fn sleep(&mut self, fds: &[BorrowedFd<'_>], most: Duration) -> std::io::Result<()> {
        self.slept += 1;
        let start = Instant::now();
        let mut polled: Vec<PollFd<'_>> = fds
            .iter()
            .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
            .collect();
        let most = Timespec {
            tv_sec: most.as_secs() as i64,
            tv_nsec: i64::from(most.subsec_nanos()),
        };
        let woken = poll(&mut polled, Some(&most));
        self.asleep += start.elapsed();
        match woken {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// How long it slept so far.
    pub fn asleep(&self) -> Duration {
        self.asleep
    }

    /// Times that it slept so far.
    pub fn slept(&self) -> u64 {
        self.slept
    }
}
