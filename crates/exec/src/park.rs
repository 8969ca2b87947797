//! How threads rest that have no work: they give way to others, then park
//! until another thread has queued something for them.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_io::shared::Waker as ProcessWaker;
use weir_io::{Idle, IdlePolicy, Nap, Waker};

use crate::node::Round;
use crate::supervise::ExecError;

/// How long a thread sleeps at most. A thread that queues something for it
/// wakes it; this bounds what comes without a waker: a deadline, a command, the
/// order to stop.
const LONGEST: Duration = Duration::from_millis(100);

/// The idle policy of threads that never park: they only give way.
pub const NEVER_PARK: IdlePolicy = IdlePolicy {
    spins: 0,
    yields: 512,
    nap: Duration::ZERO,
    work: 0,
};

/// The wakers of all threads of a run, by the threads' places. The calling
/// thread, which has the ports, has place 0.
#[derive(Clone, Debug)]
pub struct Wakers(Arc<[Waker]>);

impl Wakers {
    /// Wakers for the calling thread and so many others.
    ///
    /// # Errors
    ///
    /// No file descriptor is left.
    pub fn new(others: usize) -> Result<Wakers, ExecError> {
        let wakers = (0..=others).map(|_| Waker::new()).collect::<Result<_, _>>();
        wakers
            .map(Wakers)
            .map_err(|error| ExecError(format!("can't make what wakes threads: {error}")))
    }

    /// The waker of the thread at `place`, for another process that writes into
    /// one of its rings.
    ///
    /// # Errors
    ///
    /// There is no such thread, or no file descriptor is left.
    pub fn for_process(&self, place: usize) -> Result<ProcessWaker, ExecError> {
        let fail = |error: std::io::Error| ExecError(format!("can't pass a waker on: {error}"));
        let waker = self.0.get(place);
        let waker = waker.ok_or_else(|| ExecError("a thread without a waker".to_owned()))?;
        let fd = waker.as_fd().try_clone_to_owned().map_err(fail)?;
        Ok(ProcessWaker::from_fd(fd))
    }

    /// Wakes all threads but the one at `place`.
    pub fn wake_others(&self, place: usize) {
        let others = self.0.iter().enumerate().filter(|(at, _)| *at != place);
        Waker::wake_all(others.map(|(_, waker)| waker));
    }
}

/// Inputs of a thread beside the queues of other threads, which use its
/// waker. An input is told when the thread parks, so that writers in other processes
/// know whether to wake it.
pub trait Parks {
    /// The thread is about to sleep. False where it must not.
    fn prepare_park(&mut self) -> bool;
    /// The thread is awake.
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

/// Decides what a worker does between two rounds: go on, give way or sleep.
pub trait IdleStrategy {
    /// After a round. Wakes other threads that the round gave something to.
    ///
    /// # Errors
    ///
    /// The kernel can't wait: it has no memory.
    fn after(&mut self, round: Round, reads: &mut impl Parks) -> Result<(), String>;
}

/// A thread that reads only queues of threads.
impl Parks for () {
    fn prepare_park(&mut self) -> bool {
        true
    }
    fn unpark(&mut self) {}
}

/// What wakes a thread.
#[derive(Debug)]
enum Own {
    /// Its place among the wakers of its process.
    Thread(Wakers, usize),
    /// The writers of its rings, in other processes. They wake it only while its
    /// rings say that it sleeps.
    Process(ProcessWaker),
}

/// Parks one thread.
#[derive(Debug)]
pub struct Parker {
    idle: Idle,
    own: Own,
    /// It has prepared to park, and looks at its queues once more.
    prepared: bool,
    longest: Duration,
}

impl Parker {
    /// For the thread at `place`.
    pub fn new(wakers: &Wakers, place: usize, policy: IdlePolicy) -> Parker {
        Parker {
            idle: Idle::new(policy),
            own: Own::Thread(wakers.clone(), place),
            prepared: false,
            longest: LONGEST,
        }
    }

    /// For the only worker of a process.
    pub fn of_process(waker: ProcessWaker, policy: IdlePolicy) -> Parker {
        Parker {
            idle: Idle::new(policy),
            own: Own::Process(waker),
            prepared: false,
            longest: LONGEST,
        }
    }

    /// Never sleeps for longer than `longest`, nor than 100 ms.
    #[must_use]
    pub fn at_most(mut self, longest: Duration) -> Parker {
        self.longest = self.longest.min(longest);
        self
    }

    /// The thread's waker, and how long it sleeps at most, for a thread that
    /// waits for file descriptors by itself.
    pub fn waker(&self) -> Option<(&Waker, Duration)> {
        Some((self.own_waker()?, self.longest))
    }

    fn own_waker(&self) -> Option<&Waker> {
        match &self.own {
            Own::Thread(wakers, place) => wakers.0.get(*place),
            Own::Process(_) => None,
        }
    }

    /// One more for the same thread, which has not waited yet.
    #[must_use]
    pub fn anew(&self) -> Parker {
        let own = match &self.own {
            Own::Thread(wakers, place) => Own::Thread(wakers.clone(), *place),
            Own::Process(waker) => Own::Process(waker.clone()),
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
        if let Own::Thread(wakers, place) = &self.own {
            wakers.wake_others(*place);
        }
    }

    /// After a round that queued nothing, or whose readers were woken: gives
    /// way or sleeps where there was no work for long enough.
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

    /// After a round that left something for which there was no room. Nobody
    /// wakes the thread when there is some, so it only gives way and naps.
    pub fn hold(&mut self, worked: bool, reads: &mut impl Parks) {
        self.stay_awake(reads);
        self.idle.after(worked);
    }

    fn sleep(&self, reads: &impl Parks) {
        let mut fds = Vec::with_capacity(4);
        match &self.own {
            Own::Thread(wakers, place) => fds.extend(wakers.0.get(*place).map(|w| w.as_fd())),
            Own::Process(waker) => fds.push(waker.as_fd()),
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
        // A failed poll returns at once; the thread reads its queues again.
        let _ = poll(&mut polled, Some(&longest));
    }

    fn stay_awake(&mut self, reads: &mut impl Parks) {
        if std::mem::take(&mut self.prepared) {
            self.unpark(reads);
        }
    }

    /// The thread is about to sleep by itself. False where it must not. It must
    /// [unpark](Parker::unpark) in any case.
    pub fn prepare_park(&self, reads: &mut impl Parks) -> bool {
        self.own_waker().inspect(|waker| waker.prepare_park());
        reads.prepare_park()
    }

    /// The thread is awake.
    pub fn unpark(&self, reads: &mut impl Parks) {
        match &self.own {
            Own::Thread(..) => drop(self.own_waker().inspect(|waker| waker.unpark())),
            Own::Process(waker) => waker.quiet(),
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
            true => self.hold(active, reads),
        }
        Ok(())
    }
}
