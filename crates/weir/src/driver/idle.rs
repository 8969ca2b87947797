//! What a thread does that has nothing to do.

use std::time::Duration;

/// Rounds without work after which a thread sleeps instead of giving way.
const ROUNDS: u32 = 512;
/// How long it sleeps.
const NAP: Duration = Duration::from_micros(50);

/// Counts rounds without work.
#[derive(Debug, Default)]
pub(super) struct Idle {
    rounds: u32,
}

impl Idle {
    /// After a round. A thread never spins without giving way: several may
    /// share a core, and the one that it waits for may be the one that it
    /// keeps from running.
    pub(super) fn after(&mut self, worked: bool) {
        if worked {
            self.rounds = 0;
            return;
        }
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds < ROUNDS {
            std::thread::yield_now();
        } else {
            std::thread::park_timeout(NAP);
        }
    }
}
