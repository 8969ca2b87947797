//! How the threads of a crew rest: they give way, then sleep until one of the
//! others has something for them.

use std::sync::Arc;
use std::time::Duration;

use weir_io::{Bell, Idle, IdlePolicy, Nap};

use super::ClusterError;

/// How long a thread sleeps that nobody wakes. Whoever has something for it
/// rings; this is for what comes without a bell (a deadline, the word to end).
const SLEEP: Duration = Duration::from_millis(20);

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

    /// After a round; one with work may have given work to others.
    pub(super) fn after(&mut self, worked: bool) {
        if worked {
            self.wake_others();
        }
        self.pause(worked);
    }

    /// As [`Sleeper::after`], where the others were woken already.
    pub(super) fn pause(&mut self, worked: bool) {
        let bell = self.bells.0.get(self.me);
        if worked && self.lies {
            self.lies = false;
            bell.inspect(|bell| bell.rise());
        }
        if self.idle.rest(worked) == Nap::No {
            return;
        }
        let Some(bell) = bell else { return };
        if self.lies {
            bell.sleep(self.most);
            bell.rise();
        } else {
            bell.lie_down();
        }
        self.lies = !self.lies;
    }
}

/// How the threads of a crew that never sleeps rest: they only give way.
pub(super) const WAKEFUL: IdlePolicy = IdlePolicy {
    spins: 0,
    yields: 512,
    nap: Duration::ZERO,
    work: 0,
};
