//! When a stage of a plan gets one more instance: a state machine without I/O.
//!
//! A stage that is too slow loses packets where they come in: its ring is full.
//! If that lasts for [`InstancesSettings::window`] the stage gets
//! one more instance, and then nothing more for some time
//! ([`InstancesSettings::cool_down`]), so that what was added can show its
//! effect. It never takes one away: a stage's flows would have to move.
//!
//! A missing report says nothing: after a gap the time of losses begins anew.

#[cfg(test)]
mod tests;

use core::fmt;

use weir_packet::Time;

/// Settings of [`Instances`]. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstancesSettings {
    /// Packets per second lost at the stage's input from which on it is too
    /// slow. Default 100; 0 is refused.
    pub drops: u64,
    /// How long it must lose as many, report by report. Default 2 s.
    pub window: u64,
    /// Longest time between two reports that are taken together. Default 3 s;
    /// 0 is refused.
    pub gap: u64,
    /// Time after a new instance in which there is no other. Default 10 s.
    pub cool_down: u64,
    /// Most instances. Default 4; 0 is refused.
    pub most: u16,
}

impl Default for InstancesSettings {
    fn default() -> InstancesSettings {
        InstancesSettings {
            drops: 100,
            window: 2_000_000_000,
            gap: 3_000_000_000,
            cool_down: 10_000_000_000,
            most: 4,
        }
    }
}

/// Settings that make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstancesError {
    /// The setting that is zero and may not be.
    pub setting: &'static str,
}

impl fmt::Display for InstancesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the setting `{}` must not be 0", self.setting)
    }
}

impl std::error::Error for InstancesError {}

/// How many instances one stage has, and when there is to be one more.
///
/// ```
/// use weir_control::{Instances, InstancesSettings};
/// use weir_packet::Time;
///
/// let mut stage = Instances::new(InstancesSettings::default(), 1)?;
/// let second = 1_000_000_000;
/// // Every second a thousand more packets were lost in all.
/// assert_eq!(stage.report(Time(0), 0), None);
/// assert_eq!(stage.report(Time(second), 1_000), None);
/// assert_eq!(stage.report(Time(2 * second), 2_000), Some(2));
/// # Ok::<(), weir_control::InstancesError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Instances {
    settings: InstancesSettings,
    count: u16,
    /// The last report: when, and packets lost in all.
    last: Option<(Time, u64)>,
    /// Since when it is too slow.
    slow_since: Option<Time>,
    /// When the last instance was added.
    grown: Option<Time>,
}

impl Instances {
    /// A stage with `count` instances, one at least.
    ///
    /// # Errors
    ///
    /// A setting that is zero and may not be.
    pub fn new(settings: InstancesSettings, count: u16) -> Result<Instances, InstancesError> {
        for (setting, zero) in [
            ("drops", settings.drops == 0),
            ("gap", settings.gap == 0),
            ("most", settings.most == 0),
        ] {
            if zero {
                return Err(InstancesError { setting });
            }
        }
        Ok(Instances {
            settings,
            count: count.max(1),
            last: None,
            slow_since: None,
            grown: None,
        })
    }

    /// Instances that the stage has.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Takes in that the stage has lost `dropped` packets at its input since it
    /// began, all instances together. Gives the new number of instances where
    /// there is to be one more.
    pub fn report(&mut self, now: Time, dropped: u64) -> Option<u16> {
        let before = self.last.replace((now, dropped));
        // A number that went back is of a stage that began anew.
        let step = before.filter(|(then, lost)| {
            let time = now.since(*then);
            dropped >= *lost && time > 0 && time <= self.settings.gap
        });
        let Some((then, lost)) = step else {
            self.slow_since = None;
            return None;
        };
        let rate = u128::from(dropped - lost) * 1_000_000_000 / u128::from(now.since(then));
        if rate < u128::from(self.settings.drops) {
            self.slow_since = None;
            return None;
        }
        let since = *self.slow_since.get_or_insert(then);
        let rests = self
            .grown
            .is_some_and(|grown| now.since(grown) < self.settings.cool_down);
        if rests || now.since(since) < self.settings.window || self.count >= self.settings.most {
            return None;
        }
        self.count += 1;
        self.grown = Some(now);
        self.slow_since = None;
        Some(self.count)
    }
}
