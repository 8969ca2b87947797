//! Waiting without work: first spinning a little, then asleep.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long a driver looks for packets before it sleeps. Falling asleep and
/// waking cost about as much, so a stream with smaller gaps does not pay for
/// them. It does not call `sched_yield` meanwhile: a thread that does so on a
/// core with other work gets it back after their time slices, milliseconds
/// later, while a sleeper is woken at once.
const SPIN: Duration = Duration::from_micros(20);

/// Looks in a row in which nothing came, after which it mostly goes to sleep at
/// once: what brings packets may want this core, or they are further apart.
const IN_VAIN: u32 = 8;
/// Then it looks before one sleep of so many.
const TRY: u64 = 16;

/// Decides between looking again and sleeping.
#[derive(Debug, Default)]
pub struct Waiter {
    state: State,
    /// Looks that were in vain, in a row.
    in_vain: u32,
    /// Times that it slept.
    slept: u64,
    /// How long, together.
    asleep: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Busy,
    /// Nothing was found since then.
    Looking(Instant),
    /// It may sleep.
    Tired,
}

impl Waiter {
    /// Something was found.
    #[inline]
    pub fn busy(&mut self) {
        if let State::Looking(_) = self.state {
            self.in_vain = 0;
        }
        self.state = State::Busy;
    }

    /// Nothing was found, and the caller will not sleep.
    pub fn stay_awake(&mut self) {
        self.state = State::Busy;
        self.in_vain = 0;
    }

    /// Nothing was found. For a while it returns true: look again. Then it
    /// returns false: sleep.
    #[inline]
    pub fn spin(&mut self) -> bool {
        std::hint::spin_loop();
        match self.state {
            State::Busy if self.in_vain < IN_VAIN || self.slept.is_multiple_of(TRY) => {
                self.state = State::Looking(Instant::now());
                true
            }
            State::Looking(since) if since.elapsed() < SPIN => true,
            State::Looking(_) => {
                self.in_vain = self.in_vain.saturating_add(1);
                self.state = State::Tired;
                false
            }
            State::Busy | State::Tired => false,
        }
    }

    /// Sleeps until one of `fds` has something (an error is something), a
    /// signal comes, or `most` is over.
    ///
    /// # Errors
    ///
    /// If the kernel can't wait: it has no memory.
    pub fn sleep(&mut self, fds: &[BorrowedFd<'_>], most: Duration) -> std::io::Result<()> {
        self.slept += 1;
        self.state = State::Tired;
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks until it may sleep: whether it looked at all.
    fn looks(waiter: &mut Waiter) -> bool {
        let mut looked = false;
        while waiter.spin() {
            looked = true;
        }
        looked
    }

    #[test]
    fn who_looks_in_vain_looks_seldom() {
        let mut waiter = Waiter::default();
        let sleep = |waiter: &mut Waiter| waiter.sleep(&[], Duration::ZERO).unwrap();
        for _ in 0..IN_VAIN {
            assert!(looks(&mut waiter));
            assert!(!waiter.spin(), "once tired it sleeps");
            sleep(&mut waiter);
            waiter.busy();
        }
        let mut looked = 0;
        for _ in 0..10 * TRY {
            looked += u32::from(looks(&mut waiter));
            sleep(&mut waiter);
            assert!(!waiter.spin(), "woken for nothing it sleeps on");
            waiter.busy();
        }
        assert_eq!(looked, 10);
        // Once something comes meanwhile it looks each time again.
        while !waiter.spin() {
            sleep(&mut waiter);
            waiter.busy();
        }
        for _ in 0..100 {
            waiter.busy();
            assert!(waiter.spin());
        }
        // So does who never sleeps.
        for _ in 0..2 * IN_VAIN {
            assert!(looks(&mut waiter));
            waiter.stay_awake();
        }
    }
}
