//! The time of packets that come in live.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use weir_packet::Time;

/// Nanoseconds since 1970 that never go back: the time of day when it was
/// started, and what has passed since.
#[derive(Clone, Copy, Debug)]
pub struct LiveClock {
    start: Instant,
    since_1970: u64,
}

impl LiveClock {
    /// Starts it.
    pub fn start() -> LiveClock {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        LiveClock {
            start: Instant::now(),
            // A machine that thinks it is before 1970 begins there.
            since_1970: now.map_or(0, |now| now.as_nanos() as u64),
        }
    }

    /// The time now.
    #[inline]
    pub fn now(&self) -> Time {
        Time(self.since_1970 + self.start.elapsed().as_nanos() as u64)
    }
}
