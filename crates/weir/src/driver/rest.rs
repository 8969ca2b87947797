//! How the threads of a crew rest: they give way, then sleep until one of the
//! others has something for them.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use weir_io::shared::Waker as ProcessWaker;
use weir_io::stage::StageInput;
use weir_io::{Idle, IdlePolicy, Nap, Waker};

use super::ClusterError;

/// How long a thread sleeps that nobody wakes. Whoever has something for it
/// rings; this is for what comes without a waker (a deadline, a question, the word
/// to end).
const SLEEP: Duration = Duration::from_millis(100);

/// The wakers of a crew: the ports' thread has the first.
#[derive(Clone, Debug)]
pub(crate) struct Wakers(Arc<[Waker]>);

impl Wakers {
    /// Wakers for the ports' thread and so many others.
    pub(super) fn new(others: usize) -> Result<Wakers, ClusterError> {
        let wakers = (0..=others).map(|_| Waker::new()).collect::<Result<_, _>>();
        wakers
            .map(Wakers)
            .map_err(|error| ClusterError(format!("can't make what wakes threads: {error}")))
    }

    /// What wakes this thread, for a process that writes into a ring of its.
    pub(super) fn for_process(&self, thread: usize) -> Result<ProcessWaker, ClusterError> {
        let fail = |error: std::io::Error| ClusterError(format!("can't pass a waker on: {error}"));
        let waker = self.0.get(thread);
        let waker = waker.ok_or_else(|| ClusterError("a thread without a waker".to_owned()))?;
        let fd = waker.as_fd().try_clone_to_owned().map_err(fail)?;
        Ok(ProcessWaker::from_fd(fd))
    }

    /// Wakes all threads but this one.
    pub(super) fn wake_others(&self, me: usize) {
        let others = self.0.iter().enumerate().filter(|(place, _)| *place != me);
        Waker::wake_all(others.map(|(_, waker)| waker));
    }
}

/// How one thread rests.
#[derive(Debug)]
pub(super) struct Sleeper {
    idle: Idle,
    wakers: Wakers,
    me: usize,
    /// It has lain down, and looks once more.
    lies: bool,
    most: Duration,
}

impl Sleeper {
    /// How thread `me` rests (0 has the ports).
    pub(super) fn new(wakers: &Wakers, me: usize, policy: IdlePolicy) -> Sleeper {
        Sleeper {
            idle: Idle::new(policy),
            wakers: wakers.clone(),
            me,
            lies: false,
            most: SLEEP,
        }
    }

    /// Never sleeps for longer than this.
    pub(super) fn at_most(mut self, most: Duration) -> Sleeper {
        self.most = self.most.min(most);
        self
    }

    /// The thread's waker, and how long it sleeps at most.
    pub(super) fn bed(&self) -> Option<(&Waker, Duration)> {
        Some((self.wakers.0.get(self.me)?, self.most))
    }

    /// Wakes the others: something was put into their rings.
    pub(super) fn wake_others(&self) {
        self.wakers.wake_others(self.me);
    }

    /// After a round; one with work may have given work to others. `reads` is
    /// told when the thread lies down.
    pub(super) fn after(&mut self, worked: bool, reads: &mut impl Reads) {
        if worked {
            self.wake_others();
        }
        self.pause(worked, reads);
    }

    /// As [`Sleeper::after`], where the others were woken already.
    pub(super) fn pause(&mut self, worked: bool, reads: &mut impl Reads) {
        if worked {
            self.get_up(reads);
        }
        if self.idle.rest(worked) == Nap::No {
            return;
        }
        if !self.lies && self.prepare_park(reads) {
            self.lies = true;
            return;
        }
        if self.lies {
            let waker = self.wakers.0.get(self.me);
            waker.inspect(|waker| waker.sleep(self.most));
        }
        self.lies = false;
        self.unpark(reads);
    }

    /// After a round that left something for which there was no room, the others
    /// were woken: nobody rings when there is some, so the thread only gives way and
    /// naps.
    pub(super) fn hold(&mut self, worked: bool, reads: &mut impl Reads) {
        self.get_up(reads);
        self.idle.after(worked);
    }

    fn get_up(&mut self, reads: &mut impl Reads) {
        if std::mem::take(&mut self.lies) {
            self.unpark(reads);
        }
    }

    /// The thread is about to sleep by itself; false where it may not. It is
    /// to [unpark](Sleeper::unpark) in any case.
    pub(super) fn prepare_park(&self, reads: &mut impl Reads) -> bool {
        self.wakers
            .0
            .get(self.me)
            .inspect(|waker| waker.prepare_park());
        reads.prepare_park()
    }

    /// The thread is awake.
    pub(super) fn unpark(&self, reads: &mut impl Reads) {
        self.wakers.0.get(self.me).inspect(|waker| waker.unpark());
        reads.unpark();
    }
}

/// What a thread reads that others than threads may write: it is told when the
/// thread lies down, as [`StageInput::prepare_park`].
pub(super) trait Reads {
    /// False where the thread may not sleep.
    fn prepare_park(&mut self) -> bool;
    fn unpark(&mut self);
}

/// Threads alone.
impl Reads for () {
    fn prepare_park(&mut self) -> bool {
        true
    }
    fn unpark(&mut self) {}
}

impl Reads for Box<dyn StageInput> {
    fn prepare_park(&mut self) -> bool {
        self.as_mut().prepare_park()
    }
    fn unpark(&mut self) {
        self.as_mut().unpark();
    }
}

/// How the threads of a crew that never sleeps rest: they only give way.
pub(super) const WAKEFUL: IdlePolicy = IdlePolicy {
    spins: 0,
    yields: 512,
    nap: Duration::ZERO,
    work: 0,
};
