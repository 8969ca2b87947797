//! A switch that did not run for so long that its runtimes elsewhere wait for another one.

use weir_packet::Time;

/// First words of the error with which such a run ends. Errors of threads are text.
pub const STOOD_STILL: &str = "the switch stood still";
/// First words of the error of a run that may be its run's switch no more.
pub const GAVE_WAY: &str = "the switch gives way";
/// First words of the end of a switch that has left its runtimes to another one, as it was told.
pub const HANDED_OVER: &str = "the runtimes are left to another switch";

/// Patiences after such a pause within which a runtime that is gone counts as one that has gone
/// because of it.
const AFTER: u64 = 3;

/// When the switch's thread ran.
#[derive(Debug, Default)]
pub(super) struct Stillness {
    /// The last round; zero before the first.
    last: Time,
    /// The end of the last long pause, and its length in ns.
    pause: Option<(Time, u64)>,
}

impl Stillness {
    /// A round begins. `patience`: the time in ns after which silence counts as death.
    pub(super) fn round(&mut self, now: Time, patience: u64) {
        let pause = now.since(self.last);
        if self.last > Time::ZERO && pause > patience {
            self.pause = Some((now, pause));
        }
        self.last = now;
    }

    /// The length in ns of a pause because of which a runtime may be gone now.
    pub(super) fn lately(&self, now: Time, patience: u64) -> Option<u64> {
        let (end, length) = self.pause?;
        (now.since(end) <= AFTER * patience).then_some(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_pause_is_told_for_a_while() {
        let patience = 100;
        let mut still = Stillness::default();
        for now in [1_000, 1_050, 1_150] {
            still.round(Time(now), patience);
            assert_eq!(still.lately(Time(now), patience), None);
        }
        still.round(Time(1_500), patience);
        assert_eq!(still.lately(Time(1_500), patience), Some(350));
        still.round(Time(1_800), patience);
        assert_eq!(still.lately(Time(1_800), patience), Some(300));
        for now in (1_850..2_150).step_by(50) {
            still.round(Time(now), patience);
        }
        assert_eq!(still.lately(Time(2_100), patience), Some(300));
        assert_eq!(still.lately(Time(2_101), patience), None);
    }
}
