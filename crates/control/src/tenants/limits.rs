//! The limits of a tenant: its weight, its rates and its burst.

use std::fmt;

/// Largest weight.
pub const MOST_WEIGHT: u32 = 1_000;
/// Largest rate in packets per second.
pub const MOST_PACKETS: u64 = 1_000_000_000;
/// Largest rate in bytes per second: of 1 Tbit/s.
pub const MOST_BYTES: u64 = 125_000_000_000;
/// Bounds of a burst, in nanoseconds: 1 ms to 10 s.
pub const BURSTS: (u64, u64) = (1_000_000, 10_000_000_000);

/// Limits of a tenant. Rates are those of all its chains together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantLimits {
    /// Where tenants want more than there is, its part is its weight, divided by the sum of the
    /// weights of those that do; 1 to [`MOST_WEIGHT`].
    pub weight: u32,
    /// Packets per second, at most [`MOST_PACKETS`].
    pub packets: Option<u64>,
    /// Bytes per second, at most [`MOST_BYTES`].
    pub bytes: Option<u64>,
    /// Time for which it may send at once what it has not sent before, in ns; within [`BURSTS`].
    pub burst: u64,
}

impl TenantLimits {
    /// Weight 1, and no bound of the rate.
    pub const DEFAULT: TenantLimits = TenantLimits {
        weight: 1,
        packets: None,
        bytes: None,
        burst: 100_000_000,
    };

    /// Refuses what is out of bounds.
    ///
    /// # Errors
    ///
    /// The value that is.
    pub fn check(&self) -> Result<(), BadLimits> {
        let within = |value: Option<u64>, most: u64| value.is_none_or(|n| (1..=most).contains(&n));
        if !(1..=MOST_WEIGHT).contains(&self.weight) {
            return Err(BadLimits::Weight);
        }
        if !within(self.packets, MOST_PACKETS) {
            return Err(BadLimits::Packets);
        }
        if !within(self.bytes, MOST_BYTES) {
            return Err(BadLimits::Bytes);
        }
        match (BURSTS.0..=BURSTS.1).contains(&self.burst) {
            true => Ok(()),
            false => Err(BadLimits::Burst),
        }
    }
}

impl Default for TenantLimits {
    fn default() -> TenantLimits {
        TenantLimits::DEFAULT
    }
}

/// Why limits are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadLimits {
    /// The weight is 0, or beyond [`MOST_WEIGHT`].
    Weight,
    /// The rate of packets is 0, or beyond [`MOST_PACKETS`].
    Packets,
    /// The rate of bytes is 0, or beyond [`MOST_BYTES`].
    Bytes,
    /// The burst is not within [`BURSTS`].
    Burst,
}

impl fmt::Display for BadLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadLimits::Weight => "a weight is 1 to 1000",
            BadLimits::Packets => "a rate is 1 to 1000000000 packets per second",
            BadLimits::Bytes => "a rate is at most `1000Gbit`",
            BadLimits::Burst => "a burst is `1ms` to `10s`",
        })
    }
}

impl std::error::Error for BadLimits {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        let good = TenantLimits::DEFAULT;
        assert_eq!(good.check(), Ok(()));
        let bad = [
            (TenantLimits { weight: 0, ..good }, BadLimits::Weight),
            (
                TenantLimits {
                    weight: MOST_WEIGHT + 1,
                    ..good
                },
                BadLimits::Weight,
            ),
            (
                TenantLimits {
                    packets: Some(0),
                    ..good
                },
                BadLimits::Packets,
            ),
            (
                TenantLimits {
                    packets: Some(MOST_PACKETS + 1),
                    ..good
                },
                BadLimits::Packets,
            ),
            (
                TenantLimits {
                    bytes: Some(0),
                    ..good
                },
                BadLimits::Bytes,
            ),
            (
                TenantLimits {
                    bytes: Some(MOST_BYTES + 1),
                    ..good
                },
                BadLimits::Bytes,
            ),
            (
                TenantLimits {
                    burst: BURSTS.0 - 1,
                    ..good
                },
                BadLimits::Burst,
            ),
            (
                TenantLimits {
                    burst: BURSTS.1 + 1,
                    ..good
                },
                BadLimits::Burst,
            ),
        ];
        for (limits, why) in bad {
            assert_eq!(limits.check(), Err(why));
        }
    }
}
