//! The round trip and the wait before a frame is sent again.

use super::settings::StreamSettings;

/// Round trips waited for before a frame is sent again.
const ROUND_TRIPS: u64 = 10;

/// Measured round trip of a stream.
#[derive(Debug)]
pub(super) struct RoundTrip {
    smoothed: Option<u64>,
    /// Doublings of the wait since the last measurement.
    back_off: u32,
    first: u64,
    shortest: u64,
    longest: u64,
}

impl RoundTrip {
    pub(super) const fn new(settings: &StreamSettings) -> RoundTrip {
        RoundTrip {
            smoothed: None,
            back_off: 0,
            first: settings.round_trip,
            shortest: settings.shortest_wait,
            longest: settings.longest_wait,
        }
    }

    /// A frame that was sent once was acknowledged after this many nanoseconds
    /// (the other end's delay is in it). Weighs one eighth (RFC 6298 section 2).
    pub(super) const fn measure(&mut self, nanoseconds: u64) {
        self.back_off = 0;
        self.smoothed = Some(match self.smoothed {
            None => nanoseconds,
            Some(old) => old - old / 8 + nanoseconds / 8,
        });
    }

    /// What was sent was not answered in time: the next wait is twice as long,
    /// until there is a measurement again (Karn).
    pub(super) fn back_off(&mut self) {
        self.back_off = (self.back_off + 1).min(32);
    }

    pub(super) const fn smoothed(&self) -> Option<u64> {
        self.smoothed
    }

    /// The wait before a frame is sent again.
    pub(super) fn wait(&self) -> u64 {
        let trip = self.smoothed.unwrap_or(self.first);
        trip.saturating_mul(ROUND_TRIPS)
            .clamp(self.shortest, self.longest)
            .saturating_mul(1 << self.back_off)
            .min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_ten_round_trips_and_doubles() {
        let settings = StreamSettings {
            round_trip: 1_000,
            shortest_wait: 500,
            longest_wait: 100_000,
            ..StreamSettings::default()
        };
        let mut trip = RoundTrip::new(&settings);
        assert_eq!(trip.wait(), 10_000);
        trip.back_off();
        trip.back_off();
        assert_eq!(trip.wait(), 40_000);
        (0..99).for_each(|_| trip.back_off());
        assert_eq!(trip.wait(), 100_000);
        trip.measure(2_000);
        assert_eq!((trip.smoothed(), trip.wait()), (Some(2_000), 20_000));
        trip.measure(10_000);
        assert_eq!(trip.smoothed(), Some(3_000));
        (0..200).for_each(|_| trip.measure(1));
        assert_eq!(trip.wait(), 500);
    }
}
