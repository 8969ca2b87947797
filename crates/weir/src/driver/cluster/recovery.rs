//! The time from a death until all that it has stopped goes on.

use std::time::{Duration, Instant};

/// Runtimes have died, and not all that this has stopped is known to go on.
#[derive(Debug)]
pub(super) struct Recovery {
    /// When the first one died.
    since: Instant,
    /// Units that were lost before.
    lost: u64,
    /// How long it took, once it is over.
    took: Option<Duration>,
}

impl Recovery {
    /// A runtime has died; so many units were lost before.
    pub(super) fn begin(lost: u64) -> Recovery {
        Recovery {
            since: Instant::now(),
            lost,
            took: None,
        }
    }

    /// One more has died.
    pub(super) fn go_on(&mut self) {
        self.took = None;
    }

    pub(super) const fn is_over(&self) -> bool {
        self.took.is_some()
    }

    pub(super) fn end(&mut self) {
        self.took = Some(self.since.elapsed());
    }

    /// How long it took, and how many of the units `lost` by now were lost in it.
    pub(super) fn told(&self, lost: u64) -> (Duration, u64) {
        let took = self.took.unwrap_or_else(|| self.since.elapsed());
        (took, lost.saturating_sub(self.lost))
    }
}
