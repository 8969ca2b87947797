//! Settings of scaling.

use core::fmt;

use weir_protocol::message::MoveMode;

use super::Rates;

/// Settings of [`super::Scaling`]. Times are in nanoseconds, shares in parts
/// per thousand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScalingSettings {
    /// How often runtimes are asked for their load. A runtime that has not
    /// answered for three intervals is unknown, not idle. Default 1 s.
    pub report_interval: u64,
    /// Packets per second lost at a runtime's input above which it is
    /// overloaded. Default 100.
    pub drops: u64,
    /// Share of the time in which ports waited for a runtime above which it is
    /// overloaded. Default 100 (a tenth).
    pub held_back: u32,
    /// Reports in a row over a threshold before a runtime counts as
    /// overloaded. Default 1, as in the paper; more forgive short bursts and
    /// answer later.
    pub hot_reports: u32,
    /// Units moved away from an overloaded runtime at a time. Default 500.
    pub batch: u32,
    /// How moves bring the state over. Default push.
    pub mode: MoveMode,
    /// A runtime is emptied only while all take in less than this share of the
    /// most that one took in at the last overload. Default 500 (one half).
    pub calm: u32,
    /// ... and only where what all take in would fill those that stay to no
    /// more than this share of it: with two runtimes at just under one half
    /// the paper's rule alone ends where it began. Default 900.
    pub full: u32,
    /// ... and only when that has been so for this many reports in a row.
    /// Default 5.
    pub calm_reports: u32,
    /// ... and only this long after the last overload and the last change of
    /// the set of runtimes. Default 10 s.
    pub cool_down: u64,
    /// A runtime that was asked for and has not come after this time is asked
    /// for again; one that is not empty this long after it was to be emptied is
    /// told again. Default 30 s.
    pub patience: u64,
    /// Fewest runtimes. Default 1.
    pub minimum: u32,
    /// Most runtimes, those that are being emptied included. Default 64.
    pub maximum: u32,
    /// Capacity of one runtime in packets per second, if known beforehand. 0 (the
    /// default): no runtime is drained before the first overload has shown the
    /// capacity.
    pub capacity: u64,
}

impl Default for ScalingSettings {
    fn default() -> ScalingSettings {
        ScalingSettings {
            report_interval: 1_000_000_000,
            drops: 100,
            held_back: 100,
            hot_reports: 1,
            batch: 500,
            mode: MoveMode::Push,
            calm: 500,
            full: 900,
            calm_reports: 5,
            cool_down: 10_000_000_000,
            patience: 30_000_000_000,
            minimum: 1,
            maximum: 64,
            capacity: 0,
        }
    }
}

/// Settings that make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsError {
    /// A number that has to be at least 1 is 0; its name.
    Zero(&'static str),
    /// `minimum` is above `maximum`.
    MinimumAboveMaximum,
    /// A share is above 1,000 parts per thousand; its name.
    AboveWhole(&'static str),
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingsError::Zero(name) => write!(f, "`{name}` is 0: write at least 1"),
            SettingsError::MinimumAboveMaximum => {
                f.write_str("`minimum` is above `maximum`: no number of runtimes fits")
            }
            SettingsError::AboveWhole(name) => {
                write!(f, "`{name}` is above 1000 parts per thousand, the whole")
            }
        }
    }
}

impl core::error::Error for SettingsError {}

impl ScalingSettings {
    /// True where a runtime of such a load is overloaded.
    pub(super) fn is_overload(&self, rates: &Rates) -> bool {
        rates.drops > self.drops || rates.held_back > self.held_back
    }

    /// Looks whether the settings make sense.
    ///
    /// # Errors
    ///
    /// The first setting that makes none.
    pub fn check(&self) -> Result<(), SettingsError> {
        let at_least_one = [
            ("report_interval", self.report_interval),
            ("hot_reports", u64::from(self.hot_reports)),
            ("batch", u64::from(self.batch)),
            ("calm_reports", u64::from(self.calm_reports)),
            ("minimum", u64::from(self.minimum)),
        ];
        if let Some((name, _)) = at_least_one.into_iter().find(|(_, value)| *value == 0) {
            return Err(SettingsError::Zero(name));
        }
        if self.minimum > self.maximum {
            return Err(SettingsError::MinimumAboveMaximum);
        }
        let shares = [
            ("held_back", self.held_back),
            ("calm", self.calm),
            ("full", self.full),
        ];
        match shares.into_iter().find(|(_, share)| *share > 1_000) {
            Some((name, _)) => Err(SettingsError::AboveWhole(name)),
            None => Ok(()),
        }
    }
}
