//! Settings of flowlets.

use core::fmt;

/// Most runtimes that get a copy of one unit's state ahead of its next flowlet.
pub const MOST_COPIES: usize = 9;

/// Longest gap in nanoseconds: one minute.
const GAP_MOST: u64 = 60_000_000_000;
/// Highest capacity in bytes per second: 80 Tbit/s.
const CAPACITY_MOST: u64 = 10_000_000_000_000;
const _: () = assert!(MOST_COPIES == 9, "as the message says");

/// How a flowlet gets its runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// The runtime with the best score of utilisation + α·has-state, in the order of
    /// joining, among those with room (SNF §4.2).
    #[default]
    Greedy,
    /// The fullest runtime with room, wherever the state is.
    BestFit,
    /// By a hash of the unit, for its life, whatever the load. For comparison.
    Hash,
}

impl Packing {
    /// All, with their names.
    pub const ALL: [(&'static str, Packing); 3] = [
        ("greedy", Packing::Greedy),
        ("best-fit", Packing::BestFit),
        ("hash", Packing::Hash),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let mut all = Packing::ALL.iter();
        all.find(|(_, packing)| *packing == self)
            .map_or("greedy", |(name, _)| name)
    }
}

/// Settings of [`super::Flowlets`]. Times are in nanoseconds, shares in parts per
/// hundred. The defaults are those of SNF's evaluation (§9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowletSettings {
    /// A packet that comes this long after the one before it begins a flowlet. Default 500 µs.
    pub gap: u64,
    /// A flowlet has this many bytes at most. Default 15,000.
    pub size: u32,
    /// What it is worth in the score that a runtime has the state. Default 25.
    pub alpha: u32,
    /// Runtimes that get a copy of the state ahead of the next flowlet, at most
    /// [`MOST_COPIES`]. 0: none does, and states are moved when they are needed. Default 3.
    pub copies: u8,
    /// The copies leave when a flow has been quiet for this share of `gap`. Default 50.
    pub ahead: u32,
    /// Bytes per second that one runtime can do. Default 125,000,000 (1 Gbit/s).
    pub capacity: u64,
    /// Share of the capacity up to which a runtime is filled with flowlets whose state it does
    /// not have; the rest is for those whose state it has. Default 80.
    pub target: u32,
    /// Share of what all runtimes can do above which one more is to be started. Default 90.
    pub start_at: u32,
    /// See [`Packing`].
    pub packing: Packing,
    /// `alpha` and `copies` follow what is measured ([`super::adapt`]); they begin at the
    /// values above. Default on.
    pub adapts: bool,
}

impl FlowletSettings {
    /// The defaults.
    pub const DEFAULT: FlowletSettings = FlowletSettings {
        gap: 500_000,
        size: 15_000,
        alpha: 25,
        copies: 3,
        ahead: 50,
        capacity: 125_000_000,
        target: 80,
        start_at: 90,
        packing: Packing::Greedy,
        adapts: true,
    };

    /// Looks whether the settings make sense.
    ///
    /// # Errors
    ///
    /// The first setting that makes none.
    pub fn check(&self) -> Result<(), FlowletSettingsError> {
        use FlowletSettingsError::{OutOf, Zero};
        let at_least_one = [
            ("gap", self.gap),
            ("size", u64::from(self.size)),
            ("capacity", self.capacity),
            ("target", u64::from(self.target)),
        ];
        if let Some((name, _)) = at_least_one.into_iter().find(|(_, value)| *value == 0) {
            return Err(Zero(name));
        }
        let most = [
            ("gap", self.gap, GAP_MOST, "60s"),
            ("capacity", self.capacity, CAPACITY_MOST, "80000Gbit"),
            ("copies", u64::from(self.copies), MOST_COPIES as u64, "9"),
            ("ahead", u64::from(self.ahead), 99, "99"),
            ("target", u64::from(self.target), 100, "100"),
            ("start_at", u64::from(self.start_at), 100, "100"),
            ("alpha", u64::from(self.alpha), 1_000, "1000"),
        ];
        match most.into_iter().find(|(_, value, most, _)| value > most) {
            Some((name, .., said)) => Err(OutOf(name, said)),
            None => Ok(()),
        }
    }

    /// Time of quiet after which the copies leave, in nanoseconds.
    pub(super) const fn half(&self) -> u64 {
        self.gap / 100 * self.ahead as u64 + self.gap % 100 * self.ahead as u64 / 100
    }

    /// Bytes per second up to which a runtime is filled.
    pub const fn room(&self) -> u64 {
        self.capacity / 100 * self.target as u64
    }
}

impl Default for FlowletSettings {
    fn default() -> FlowletSettings {
        FlowletSettings::DEFAULT
    }
}

/// Settings that make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowletSettingsError {
    /// A number that has to be at least 1 is 0; its name.
    Zero(&'static str),
    /// A number is above the most that it may be; its name, and that number.
    OutOf(&'static str, &'static str),
}

impl fmt::Display for FlowletSettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlowletSettingsError::Zero(name) => write!(f, "`{name}` is 0: write at least 1"),
            FlowletSettingsError::OutOf(name, most) => {
                write!(f, "`{name}` is too large: write {most} at most")
            }
        }
    }
}

impl core::error::Error for FlowletSettingsError {}
