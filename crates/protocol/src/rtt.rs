//! The round trip and the wait before something is sent again: for frames of a
//! stream, and for what switch and actors repeat until it is answered.

/// Round trips waited for before something is sent again (design 5).
pub(crate) const ROUND_TRIPS: u64 = 10;

/// A measured round trip. Times are in nanoseconds.
#[derive(Debug)]
pub(crate) struct RoundTrip {
    smoothed: Option<u64>,
    /// Doublings of the wait since the last measurement.
    back_off: u32,
    first: u64,
    shortest: u64,
    longest: u64,
}

impl RoundTrip {
    /// With a trip of `first` before there is a measurement, and waits of at
    /// least `shortest`, at most `longest`.
    pub(crate) const fn new(first: u64, shortest: u64, longest: u64) -> RoundTrip {
        RoundTrip {
            smoothed: None,
            back_off: 0,
            first,
            shortest,
            longest,
        }
    }

    /// True before there is anything to go by.
    pub(crate) const fn is_unknown(&self) -> bool {
        self.smoothed.is_none() && self.back_off == 0
    }

    /// A frame that was sent once was acknowledged after this many nanoseconds
    /// (the other end's delay is in it). Weighs one eighth (RFC 6298 section 2).
    pub(crate) const fn measure(&mut self, nanoseconds: u64) {
        self.back_off = 0;
        self.smoothed = Some(match self.smoothed {
            None => nanoseconds,
            Some(old) => old - old / 8 + nanoseconds / 8,
        });
    }

    /// Nothing was answered in time: the next wait is twice as long,
    /// until there is a measurement again (Karn).
    pub(crate) fn back_off(&mut self) {
        self.back_off = (self.back_off + 1).min(32);
    }

    pub(crate) const fn smoothed(&self) -> Option<u64> {
        self.smoothed
    }

    /// The wait before a frame is sent again.
    pub(crate) fn wait(&self) -> u64 {
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
        let mut trip = RoundTrip::new(1_000, 500, 100_000);
        assert!(trip.is_unknown());
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
