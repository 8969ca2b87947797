//! Waking a thread that sleeps because its rings were empty.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// A bell beside a thread's bed.
///
/// Who has put something into a ring of the thread's rings: a fence and a look
/// at one word where the thread is awake. The thread lies down
/// ([`Bell::lie_down`]), *then looks at its rings once more*, and only then
/// sleeps. Either it sees what was put in, or the other sees that it has lain
/// down: each has its fence between its write and its look.
#[derive(Debug)]
pub struct Bell {
    lies: AtomicBool,
    event: OwnedFd,
}

impl Bell {
    /// A bell.
    ///
    /// # Errors
    ///
    /// There is no file descriptor left.
    pub fn new() -> io::Result<Bell> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Bell {
            lies: AtomicBool::new(false),
            event,
        })
    }

    /// Wakes the thread if it has lain down. What was put into its rings
    /// before, it will see.
    #[inline]
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        self.ring_after_fence();
    }

    /// Rings all of these, with one fence.
    #[inline]
    pub fn ring_all<'a>(bells: impl IntoIterator<Item = &'a Bell>) {
        fence(Ordering::SeqCst);
        bells.into_iter().for_each(Bell::ring_after_fence);
    }

    #[inline]
    fn ring_after_fence(&self) {
        if self.lies.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if self.lies.swap(false, Ordering::Relaxed) {
            // It can't be full: a sleeper takes all of it.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    /// The thread is about to sleep. It has to look at its rings once more
    /// before it does, and to [rise](Bell::rise) in any case.
    pub fn lie_down(&self) {
        self.lies.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The thread is awake.
    pub fn rise(&self) {
        self.lies.store(false, Ordering::Relaxed);
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }

    /// Sleeps until the bell rings, for at most so long.
    pub fn sleep(&self, most: Duration) {
        let most = Timespec {
            tv_sec: most.as_secs() as i64,
            tv_nsec: i64::from(most.subsec_nanos()),
        };
        let mut fds = [PollFd::new(&self.event, PollFlags::IN)];
        // Where it can't sleep the thread looks again at once.
        let _ = poll(&mut fds, Some(&most));
    }
}

impl AsFd for Bell {
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
        let bell = Bell::new().unwrap();
        bell.ring();
        let began = Instant::now();
        bell.lie_down();
        bell.sleep(Duration::from_millis(20));
        assert!(began.elapsed() >= Duration::from_millis(20), "it was awake");
        bell.ring();
        bell.sleep(Duration::from_secs(60));
        assert!(began.elapsed() < Duration::from_secs(30));
        bell.rise();
    }

    /// Two threads that pass a number to and fro, each asleep in between: one
    /// wake-up lost would cost the whole sleep.
    #[test]
    fn no_wake_up_is_lost() {
        let bells = [(); 2].map(|()| Arc::new(Bell::new().unwrap()));
        let number = Arc::new(AtomicU64::new(0));
        const ROUNDS: u64 = 10_000;
        let thread = |me: u64| {
            let (bells, number) = (bells.clone(), Arc::clone(&number));
            std::thread::spawn(move || {
                let [mine, other] = [me, 1 - me].map(|n| &bells[n as usize]);
                let mut longest = Duration::ZERO;
                loop {
                    let now = number.load(Ordering::Acquire);
                    if now >= ROUNDS {
                        other.ring();
                        return longest;
                    }
                    if now % 2 == me {
                        number.store(now + 1, Ordering::Release);
                        other.ring();
                        continue;
                    }
                    mine.lie_down();
                    if number.load(Ordering::Acquire) == now {
                        let began = Instant::now();
                        mine.sleep(Duration::from_secs(60));
                        longest = longest.max(began.elapsed());
                    }
                    mine.rise();
                }
            })
        };
        for thread in [thread(0), thread(1)] {
            assert!(thread.join().unwrap() < Duration::from_secs(50));
        }
    }
}
