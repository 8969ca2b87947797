//! Idle threads: a thread without work yields the processor, then sleeps in `poll`
//! until another thread has queued something for it.

use std::cell::Cell;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_io::shared::Waker as ProcessWaker;
use weir_io::{Idle, IdlePolicy, Nap, Waker};

use crate::error::ExecError;
use crate::node::Round;

/// Longest sleep. Queued work wakes a thread at once; this bounds the delay of
/// events without a waker: deadlines, commands, shutdown.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// The idle policy of threads that never park: they only yield.
pub const NEVER_PARK: IdlePolicy = IdlePolicy {
    spins: 0,
    yields: 512,
    nap: Duration::ZERO,
    work: 0,
};

/// The wakers of all threads of a run, by thread index. Index 0 is the calling
/// thread, which owns the ports.
#[derive(Clone, Debug)]
pub struct Wakers(Arc<[Waker]>);

impl Wakers {
    /// Wakers for the calling thread and `others` more threads.
    ///
    /// # Errors
    ///
    /// No file descriptor is left.
    pub fn new(others: usize) -> Result<Wakers, ExecError> {
        let wakers = (0..=others).map(|_| Waker::new()).collect::<Result<_, _>>();
        wakers
            .map(Wakers)
            .map_err(|error| ExecError(format!("can't create a waker: {error}")))
    }

    /// The waker of the thread at `place`, for another process that writes into
    /// one of its rings.
    ///
    /// # Errors
    ///
    /// There is no such thread, or no file descriptor is left.
    pub fn for_process(&self, place: usize) -> Result<ProcessWaker, ExecError> {
        let fail = |error: std::io::Error| ExecError(format!("can't duplicate a waker: {error}"));
        let waker = self.0.get(place);
        let waker = waker.ok_or_else(|| ExecError(format!("thread {place} has no waker")))?;
        let fd = waker.as_fd().try_clone_to_owned().map_err(fail)?;
        Ok(ProcessWaker::from_fd(fd))
    }

    /// Wakes all threads but the one at `place`.
    pub fn wake_others(&self, place: usize) {
        let others = self.0.iter().enumerate().filter(|(at, _)| *at != place);
        Waker::wake_all(others.map(|(_, waker)| waker));
    }
}

/// Inputs of a thread that are not queues within its process: rings that other
/// processes write, and file descriptors. Each is told when the thread sleeps, because a
/// writer in another process wakes only a reader that sleeps.
pub trait Parks {
    /// Called before the thread sleeps. False if it must not: input is waiting.
    fn prepare_park(&mut self) -> bool;
    /// Called after the thread has slept, or did not after all.
    fn unpark(&mut self);
    /// Descriptors that wake the thread when they can be read.
    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        let _ = into;
    }
    /// How long the thread may sleep: until its next deadline.
    fn longest(&self) -> Duration {
        Duration::MAX
    }
}

/// Decides what a worker does between two rounds: continue, yield or sleep.
pub trait IdleStrategy {
    /// Called after each round. Wakes the other threads if the round queued work for them.
    ///
    /// # Errors
    ///
    /// The kernel has no memory to wait with.
    fn after(&mut self, round: Round, reads: &mut impl Parks) -> Result<(), String>;
}

/// A thread whose only inputs are queues within its process.
impl Parks for () {
    fn prepare_park(&mut self) -> bool {
        true
    }
    fn unpark(&mut self) {}
}

thread_local! {
    static ASLEEP: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Time that the calling thread has slept in its [`Parker`]s.
pub fn asleep() -> Duration {
    ASLEEP.get()
}

/// A thread's own waker.
#[derive(Debug)]
enum OwnWaker {
    /// The wakers of the process, and the index of this thread.
    Thread(Wakers, usize),
    /// A waker that is shared with the processes that write to this one's rings. They
    /// use it only while a ring says that its reader sleeps.
    Process(ProcessWaker),
}

/// Parks one thread.
#[derive(Debug)]
pub struct Parker {
    idle: Idle,
    own: OwnWaker,
    /// The sleep is announced to writers; one more round checks the queues before
    /// it, so that no wake-up is missed.
    prepared: bool,
    longest: Duration,
}

impl Parker {
    /// For the thread at `place`.
    pub fn new(wakers: &Wakers, place: usize, policy: IdlePolicy) -> Parker {
        Parker {
            idle: Idle::new(policy),
            own: OwnWaker::Thread(wakers.clone(), place),
            prepared: false,
            longest: MAX_SLEEP,
        }
    }

    /// For the only worker of a process.
    pub fn of_process(waker: ProcessWaker, policy: IdlePolicy) -> Parker {
        Parker {
            idle: Idle::new(policy),
            own: OwnWaker::Process(waker),
            prepared: false,
            longest: MAX_SLEEP,
        }
    }

    /// Limits each sleep to `longest`; it is never longer than 100 ms.
    #[must_use]
    pub fn with_max_sleep(mut self, longest: Duration) -> Parker {
        self.longest = self.longest.min(longest);
        self
    }

    /// The thread's waker and longest sleep, for a thread with a `poll` of its own.
    /// `None` for the worker of a stage's process.
    pub fn waker(&self) -> Option<(&Waker, Duration)> {
        Some((self.own_waker()?, self.longest))
    }

    fn own_waker(&self) -> Option<&Waker> {
        match &self.own {
            OwnWaker::Thread(wakers, place) => wakers.0.get(*place),
            OwnWaker::Process(_) => None,
        }
    }

    /// A new parker for the same thread, with its idle counters at zero.
    #[must_use]
    pub fn anew(&self) -> Parker {
        let own = match &self.own {
            OwnWaker::Thread(wakers, place) => OwnWaker::Thread(wakers.clone(), *place),
            OwnWaker::Process(waker) => OwnWaker::Process(waker.clone()),
        };
        Parker {
            idle: self.idle.anew(),
            own,
            prepared: false,
            longest: self.longest,
        }
    }

    /// Wakes the other threads of the process: something was queued for them.
    pub fn wake_others(&self) {
        if let OwnWaker::Thread(wakers, place) = &self.own {
            wakers.wake_others(*place);
        }
    }

    /// Called after a round, once its readers were woken. Yields while idle for a short
    /// time, then announces the sleep, and sleeps after one more round without work.
    pub fn pause(&mut self, worked: bool, reads: &mut impl Parks) {
        if worked {
            self.stay_awake(reads);
        }
        if self.idle.rest(worked) == Nap::No {
            return;
        }
        if !self.prepared && self.prepare_park(reads) {
            self.prepared = true;
            return;
        }
        if self.prepared {
            self.sleep(reads);
        }
        self.prepared = false;
        self.unpark(reads);
    }

    /// Called after a round that found a full queue. No waker signals room in a queue,
    /// so the thread yields or naps for a short time, but does not sleep.
    pub fn wait_for_room(&mut self, worked: bool, reads: &mut impl Parks) {
        self.stay_awake(reads);
        self.idle.after(worked);
    }

    fn sleep(&self, reads: &impl Parks) {
        let mut fds = Vec::with_capacity(4);
        match &self.own {
            OwnWaker::Thread(wakers, place) => fds.extend(wakers.0.get(*place).map(|w| w.as_fd())),
            OwnWaker::Process(waker) => fds.push(waker.as_fd()),
        }
        reads.descriptors(&mut fds);
        let fds = fds.into_iter();
        let mut polled: Vec<PollFd<'_>> = fds
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let longest = self.longest.min(reads.longest());
        let longest = Timespec {
            tv_sec: longest.as_secs() as i64,
            tv_nsec: i64::from(longest.subsec_nanos()),
        };
        let began = Instant::now();
        // A failed poll returns at once; the thread reads its queues again.
        let _ = poll(&mut polled, Some(&longest));
        ASLEEP.set(ASLEEP.get() + began.elapsed());
    }

    fn stay_awake(&mut self, reads: &mut impl Parks) {
        if std::mem::take(&mut self.prepared) {
            self.unpark(reads);
        }
    }

    /// Announces a sleep in the thread's own `poll`. False if it must not sleep. Call
    /// [`Parker::unpark`] afterwards in either case.
    pub fn prepare_park(&self, reads: &mut impl Parks) -> bool {
        if let Some(waker) = self.own_waker() {
            waker.prepare_park();
        }
        reads.prepare_park()
    }

    /// Withdraws the announcement of a sleep, and clears the waker.
    pub fn unpark(&self, reads: &mut impl Parks) {
        match &self.own {
            OwnWaker::Thread(..) => {
                if let Some(waker) = self.own_waker() {
                    waker.unpark();
                }
            }
            OwnWaker::Process(waker) => waker.quiet(),
        }
        reads.unpark();
    }
}

impl IdleStrategy for Parker {
    fn after(&mut self, round: Round, reads: &mut impl Parks) -> Result<(), String> {
        let active = round.worked || round.gave;
        if active {
            self.wake_others();
        }
        match round.blocked {
            false => self.pause(active, reads),
            true => self.wait_for_room(active, reads),
        }
        Ok(())
    }
}
