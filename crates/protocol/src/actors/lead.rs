//! How far the clock here is ahead of the switch's, by the packets that come from it.

use weir_packet::Time;

/// Packets of this window and the one before it count, in nanoseconds: drift, and a clock
/// that was set, are seen after two.
const WINDOW: u64 = 250_000_000;

/// The least difference between the time here and that of a packet that has just come: the
/// lead of this clock, negative where it is behind, and the shortest way of a packet.
#[derive(Debug, Default)]
pub(super) struct Lead {
    before: Option<i64>,
    current: Option<i64>,
    /// When the current window began.
    since: Time,
}

impl Lead {
    /// A packet has come that the switch numbered at `packet`.
    pub(super) fn note(&mut self, now: Time, packet: Time) {
        let lead = now.0.wrapping_sub(packet.0) as i64;
        if self.current.is_some() && now.since(self.since) >= WINDOW {
            self.before = self.current.take();
        }
        if self.current.is_none() {
            self.since = now;
        }
        self.current = Some(self.current.map_or(lead, |least| least.min(lead)));
    }

    /// What was noted is of another switch's clock.
    pub(super) fn forget(&mut self) {
        *self = Lead::default();
    }

    /// The time here without the lead; the time here before any packet has come.
    pub(super) fn at_switch(&self, now: Time) -> Time {
        Time(now.0.saturating_add_signed(self.least().saturating_neg()))
    }

    /// The time here when it is `then` at the switch.
    pub(super) fn here(&self, then: Time) -> Time {
        Time(then.0.saturating_add_signed(self.least()))
    }

    fn least(&self) -> i64 {
        let noted = [self.before, self.current].into_iter().flatten();
        noted.min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_fastest_packet_says_the_lead() {
        let mut lead = Lead::default();
        let now = Time(100 * SECOND);
        assert_eq!((lead.at_switch(now), lead.here(now)), (now, now));
        // Two seconds behind; packets take 5, 1 and 9 us.
        for way in [5_000, 1_000, 9_000] {
            lead.note(Time(now.0 + way), Time(now.0 + 2 * SECOND));
        }
        let there = Time(now.0 + 2 * SECOND - 1_000);
        assert_eq!(lead.at_switch(now), there);
        assert_eq!(lead.here(there), now);
    }

    #[test]
    fn a_clock_that_was_set_is_known_after_two_windows() {
        let mut lead = Lead::default();
        lead.note(Time(SECOND), Time(SECOND));
        let set = |at: u64| Time(at + SECOND);
        for at in [SECOND, SECOND + WINDOW, SECOND + 2 * WINDOW] {
            lead.note(set(at), Time(at));
        }
        let now = SECOND + 2 * WINDOW;
        assert_eq!(lead.at_switch(set(now)), Time(now));
        lead.forget();
        assert_eq!(lead.at_switch(Time(now)), Time(now));
    }
}
