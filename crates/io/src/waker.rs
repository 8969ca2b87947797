//! Wakes a thread that parked because its queues were empty.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Wakes one thread.
///
/// A producer calls [`Waker::wake`] after it has filled a queue. While the thread
/// is awake that costs one fence and one load, no system call. The thread calls
/// [`Waker::prepare_park`], *checks its queues once more*, and only then sleeps.
/// Each side has a fence between its own write and its read of the other's, so at
/// least one of them sees the other: no wake-up is lost.
#[derive(Debug)]
pub struct Waker {
    parked: AtomicBool,
    event: OwnedFd,
}

impl Waker {
    /// A waker whose thread is awake.
    ///
    /// # Errors
    ///
    /// No file descriptor is left.
    pub fn new() -> io::Result<Waker> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Waker {
            parked: AtomicBool::new(false),
            event,
        })
    }

    /// Wakes the thread if it parks. It then sees everything that was queued
    /// before this call.
    #[inline]
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        self.wake_if_parked();
    }

    /// Wakes all of these, with one fence.
    #[inline]
    pub fn wake_all<'a>(wakers: impl IntoIterator<Item = &'a Waker>) {
        fence(Ordering::SeqCst);
        wakers.into_iter().for_each(Waker::wake_if_parked);
    }

    #[inline]
    fn wake_if_parked(&self) {
        if self.parked.load(Ordering::Relaxed) {
            self.signal();
        }
    }

    #[cold]
    fn signal(&self) {
        if self.parked.swap(false, Ordering::Relaxed) {
            // The counter cannot overflow: `unpark` reads it back to zero.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    /// Announces that the thread is about to sleep. It must check its queues
    /// once more afterwards, and call [`Waker::unpark`] whether it slept or not.
    pub fn prepare_park(&self) {
        self.parked.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Marks the thread as awake.
    pub fn unpark(&self) {
        self.parked.store(false, Ordering::Relaxed);
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }

    /// Sleeps until [`Waker::wake`] is called, at most for `most`.
    pub fn sleep(&self, most: Duration) {
        let most = Timespec {
            tv_sec: most.as_secs() as i64,
            tv_nsec: i64::from(most.subsec_nanos()),
        };
        let mut fds = [PollFd::new(&self.event, PollFlags::IN)];
        // A failed poll returns at once; the thread checks its queues again.
        let _ = poll(&mut fds, Some(&most));
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::time::Instant;

    #[test]
    fn whoever_lies_down_is_woken_and_whoever_is_awake_costs_nothing() {
        let waker = Waker::new().unwrap();
        waker.wake();
        let began = Instant::now();
        waker.prepare_park();
        waker.sleep(Duration::from_millis(20));
        assert!(began.elapsed() >= Duration::from_millis(20), "it was awake");
        waker.wake();
        waker.sleep(Duration::from_secs(60));
        assert!(began.elapsed() < Duration::from_secs(30));
        waker.unpark();
    }

    /// Two threads that pass a number to and fro, each asleep in between: one
    /// wake-up lost would cost the whole sleep.
    #[test]
    fn no_wake_up_is_lost() {
        let wakers = [(); 2].map(|()| Arc::new(Waker::new().unwrap()));
        let number = Arc::new(AtomicU64::new(0));
        const ROUNDS: u64 = 10_000;
        let thread = |me: u64| {
            let (wakers, number) = (wakers.clone(), Arc::clone(&number));
            std::thread::spawn(move || {
                let [mine, other] = [me, 1 - me].map(|n| &wakers[n as usize]);
                let mut longest = Duration::ZERO;
                loop {
                    let now = number.load(Ordering::Acquire);
                    if now >= ROUNDS {
                        other.wake();
                        return longest;
                    }
                    if now % 2 == me {
                        number.store(now + 1, Ordering::Release);
                        other.wake();
                        continue;
                    }
                    mine.prepare_park();
                    if number.load(Ordering::Acquire) == now {
                        let began = Instant::now();
                        mine.sleep(Duration::from_secs(60));
                        longest = longest.max(began.elapsed());
                    }
                    mine.unpark();
                }
            })
        };
        for thread in [thread(0), thread(1)] {
            assert!(thread.join().unwrap() < Duration::from_secs(50));
        }
    }
}
