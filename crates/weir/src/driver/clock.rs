//! The time of the protocol's timers.

use std::time::Instant;

use weir_packet::Time;

/// Time that passes evenly, from the start of a cluster.
///
/// The protocol's timers (what is sent again, what is given up) run by it.
/// Flows' times do not: packets bring their own, and those of a capture may be
/// years old. It starts at one second, so that it is before any packet's time
/// but not zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Clock {
        Clock(Instant::now())
    }

    pub(super) fn now(&self) -> Time {
        Time(1_000_000_000 + self.0.elapsed().as_nanos() as u64)
    }
}
