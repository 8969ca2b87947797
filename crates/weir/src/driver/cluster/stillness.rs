//! A switch that did not run for so long that its runtimes elsewhere wait for another one.

use std::time::Duration;

use weir_exec::ExecError;
use weir_packet::Time;

use super::Cluster;

/// First words of the error with which such a run ends. Errors of threads are text.
pub const STOOD_STILL: &str = "the switch stood still";

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

impl Cluster {
    /// Silence in ns after which a runtime elsewhere and this switch suspect each other.
    pub(super) fn patience(&self) -> Option<u64> {
        let remote = self.settings.remote.as_ref();
        remote.map(|remote| remote.beats.0 * u64::from(remote.beats.1))
    }

    /// Ends a run whose runtimes have left it because it stood still: they have all states, and
    /// another switch can take them over, while this one would start others without.
    ///
    /// # Errors
    ///
    /// It is so.
    pub(super) fn give_way(&self, place: usize, now: Time) -> Result<(), ExecError> {
        let remote = self.settings.remote.as_ref();
        let is_far = remote.is_some_and(|remote| remote.agent_of(place).is_some());
        let pause = self.patience().filter(|_| is_far);
        let pause = pause.and_then(|patience| self.still.lately(now, patience));
        match pause.map(Duration::from_nanos) {
            None => Ok(()),
            Some(pause) => Err(ExecError(format!(
                "{STOOD_STILL} for {:.1} s, and its runtimes wait for another one: start it again",
                pause.as_secs_f64()
            ))),
        }
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
