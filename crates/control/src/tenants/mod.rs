//! Tenants that share a run: what each may send at most, and its part where they want more than
//! there is (docs/tenants.md).
//!
//! - [`Quotas`]: a bound of each tenant's rate, whatever else goes on.
//! - [`Room`]: each tenant's part of the packets that may be on their way.
//! - [`Turns`]: each tenant's part of a runtime's time.
//!
//! All three are state machines without I/O: drivers bring packets, counts and clocks.

mod quota;
mod room;
mod turns;

use std::fmt;

pub use quota::Quotas;
pub use room::Room;
pub use turns::Turns;

/// Largest weight.
pub const MOST_WEIGHT: u32 = 1_000;
/// Largest rate in packets per second.
pub const MOST_PACKETS: u64 = 1_000_000_000;
/// Largest rate in bytes per second: of 1 Tbit/s.
pub const MOST_BYTES: u64 = 125_000_000_000;
/// Bounds of a burst, in nanoseconds: 1 ms to 10 s.
pub const BURSTS: (u64, u64) = (1_000_000, 10_000_000_000);

/// What a tenant may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantLimits {
    /// Its part where tenants want more than there is, as 1 of the sum of all; 1 to
    /// [`MOST_WEIGHT`].
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

/// The tenants of a run, and whose each chain is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenants {
    limits: Vec<TenantLimits>,
    of_chain: Vec<u16>,
}

impl Tenants {
    /// Chains of tenants with these names, in the order of the chains. Tenants that `limits` does
    /// not name have the defaults.
    pub fn new(of_chain: &[&str], limits: &[(String, TenantLimits)]) -> Tenants {
        let mut names: Vec<&str> = Vec::new();
        let mut numbers = Vec::new();
        for name in of_chain {
            let known = names.iter().position(|known| known == name);
            let number = known.unwrap_or(names.len());
            if known.is_none() {
                names.push(name);
            }
            numbers.push(u16::try_from(number).unwrap_or(u16::MAX));
        }
        let of = |name: &&str| {
            let found = limits.iter().find(|(known, _)| known == name);
            found.map_or(TenantLimits::DEFAULT, |(_, limits)| *limits)
        };
        Tenants {
            limits: names.iter().map(of).collect(),
            of_chain: numbers,
        }
    }

    /// The tenant of each chain and its weight, where there are several tenants to share by them.
    pub fn shares(&self) -> Option<Vec<(u16, u32)>> {
        let weight = |tenant: &u16| {
            self.limits
                .get(usize::from(*tenant))
                .map_or(1, |it| it.weight)
        };
        let shares = self.of_chain.iter().map(|tenant| (*tenant, weight(tenant)));
        (self.limits.len() > 1).then(|| shares.collect())
    }

    /// The bounds of the rates, where there are some.
    pub fn quotas(&self) -> Option<Quotas> {
        let bounded = |it: &TenantLimits| it.packets.is_some() || it.bytes.is_some();
        let any = self.limits.iter().any(bounded);
        any.then(|| Quotas::new(&self.limits, &self.of_chain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_of_one_name_are_of_one_tenant() {
        let three = TenantLimits {
            weight: 3,
            ..TenantLimits::DEFAULT
        };
        let tenants = Tenants::new(&["a", "b", "a"], &[("a".to_owned(), three)]);
        assert_eq!(tenants.shares(), Some(vec![(0, 3), (1, 1), (0, 3)]));
        assert!(tenants.quotas().is_none());
        assert_eq!(Tenants::new(&["a", "a"], &[]).shares(), None);
    }

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
