//! How the threads of a crew rest: they give way, then sleep until one of the
//! others has something for them.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use weir_io::shared::Bell as ProcessBell;
use weir_io::stage::StageInput;
use weir_io::{Bell, Idle, IdlePolicy, Nap};

use super::ClusterError;

/// How long a thread sleeps that nobody wakes. Whoever has something for it
/// rings; this is for what comes without a bell (a deadline, a question, the word
/// to end).
const SLEEP: Duration = Duration::from_millis(100);

/// The bells of a crew: the ports' thread has the first.
#[derive(Clone, Debug)]
pub(crate) struct Bells(Arc<[Bell]>);

impl Bells {
    /// Bells for the ports' thread and so many others.
    pub(super) fn new(others: usize) -> Result<Bells, ClusterError> {
        let bells = (0..=others).map(|_| Bell::new()).collect::<Result<_, _>>();
        bells
            .map(Bells)
            .map_err(|error| ClusterError(format!("can't make what wakes threads: {error}")))
    }

    /// What wakes this thread, for a process that writes into a ring of its.
    pub(super) fn for_process(&self, thread: usize) -> Result<ProcessBell, ClusterError> {
        let fail = |error: std::io::Error| ClusterError(format!("can't pass a bell on: {error}"));
        let bell = self.0.get(thread);
        let bell = bell.ok_or_else(|| ClusterError("a thread without a bell".to_owned()))?;
        let fd = bell.as_fd().try_clone_to_owned().map_err(fail)?;
        Ok(ProcessBell::from_fd(fd))
    }

    /// Wakes all threads but this one.
    pub(super) fn ring_others(&self, me: usize) {
        let others = self.0.iter().enumerate().filter(|(place, _)| *place != me);
        Bell::ring_all(others.map(|(_, bell)| bell));
    }
}

/// How one thread rests.
#[derive(Debug)]
pub(super) struct Sleeper {
    idle: Idle,
    bells: Bells,
    me: usize,
    /// It has lain down, and looks once more.
    lies: bool,
    most: Duration,
}

impl Sleeper {
    /// How thread `me` rests (0 has the ports).
    pub(super) fn new(bells: &Bells, me: usize, policy: IdlePolicy) -> Sleeper {
        Sleeper {
            idle: Idle::new(policy),
            bells: bells.clone(),
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

    /// The thread's bell, and how long it sleeps at most.
    pub(super) fn bed(&self) -> Option<(&Bell, Duration)> {
        Some((self.bells.0.get(self.me)?, self.most))
    }

    /// Wakes the others: something was put into their rings.
    pub(super) fn wake_others(&self) {
        self.bells.ring_others(self.me);
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
        if !self.lies && self.lie_down(reads) {
            self.lies = true;
            return;
        }
        if self.lies {
            let bell = self.bells.0.get(self.me);
            bell.inspect(|bell| bell.sleep(self.most));
        }
        self.lies = false;
        self.rise(reads);
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
            self.rise(reads);
        }
    }

    /// The thread is about to sleep by itself; false where it may not. It is
    /// to [rise](Sleeper::rise) in any case.
    pub(super) fn lie_down(&self, reads: &mut impl Reads) -> bool {
        self.bells.0.get(self.me).inspect(|bell| bell.lie_down());
        reads.lie_down()
    }

    /// The thread is awake.
    pub(super) fn rise(&self, reads: &mut impl Reads) {
        self.bells.0.get(self.me).inspect(|bell| bell.rise());
        reads.rise();
    }
}

/// What a thread reads that others than threads may write: it is told when the
/// thread lies down, as [`StageInput::lie_down`].
pub(super) trait Reads {
    /// False where the thread may not sleep.
    fn lie_down(&mut self) -> bool;
    fn rise(&mut self);
}

/// Threads alone.
impl Reads for () {
    fn lie_down(&mut self) -> bool {
        true
    }
    fn rise(&mut self) {}
}

impl Reads for Box<dyn StageInput> {
    fn lie_down(&mut self) -> bool {
        self.as_mut().lie_down()
    }
    fn rise(&mut self) {
        self.as_mut().rise();
    }
}

/// How the threads of a crew that never sleeps rest: they only give way.
pub(super) const WAKEFUL: IdlePolicy = IdlePolicy {
    spins: 0,
    yields: 512,
    nap: Duration::ZERO,
    work: 0,
};
