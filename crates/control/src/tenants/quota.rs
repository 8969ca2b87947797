//! A bound of each tenant's rate: two token buckets, of packets and of bytes.

use weir_packet::Time;

use super::limits::{BURSTS, TenantLimits};

/// Nanoseconds of a second.
const SECOND: u128 = 1_000_000_000;
/// The longest packet that packet memory holds, in bytes: a bucket has room for it, or it would
/// never pass.
const LONGEST: u64 = 262_144;

/// The buckets of all tenants. Times are those of packets, so that a capture gives the same result
/// each time.
#[derive(Clone, Debug)]
pub struct Quotas {
    tenants: Vec<Buckets>,
    of_chain: Vec<u16>,
}

/// The buckets of a tenant.
#[derive(Clone, Debug)]
struct Buckets {
    /// When they were last filled.
    at: Option<Time>,
    packets: Option<Bucket>,
    bytes: Option<Bucket>,
}

/// A bucket. Its content is in billionths of a token, so that no time is lost by rounding.
#[derive(Clone, Debug)]
struct Bucket {
    per_second: u64,
    most: u128,
    has: u128,
}

impl Bucket {
    /// A full one that lets `least` tokens through at once, at least.
    fn new(per_second: u64, burst: u64, least: u64) -> Bucket {
        let most = u128::from(per_second) * u128::from(burst);
        let most = most.max(u128::from(least) * SECOND);
        Bucket {
            per_second,
            most,
            has: most,
        }
    }

    fn fill(&mut self, ns: u64) {
        let more = u128::from(self.per_second) * u128::from(ns);
        self.has = (self.has + more).min(self.most);
    }

    fn has(&self, tokens: u64) -> bool {
        self.has >= u128::from(tokens) * SECOND
    }

    fn take(&mut self, tokens: u64) {
        self.has -= u128::from(tokens) * SECOND;
    }
}

impl Quotas {
    pub(super) fn new(limits: &[TenantLimits], of_chain: &[u16]) -> Quotas {
        let buckets = |it: &TenantLimits| Buckets {
            at: None,
            packets: it.packets.map(|rate| Bucket::new(rate, it.burst, 1)),
            bytes: it.bytes.map(|rate| Bucket::new(rate, it.burst, LONGEST)),
        };
        Quotas {
            tenants: limits.iter().map(buckets).collect(),
            of_chain: of_chain.to_vec(),
        }
    }

    /// True where the chain's tenant has a bound.
    pub fn bounds(&self, chain: usize) -> bool {
        let tenant = self.of_chain.get(chain);
        let tenant = tenant.and_then(|tenant| self.tenants.get(usize::from(*tenant)));
        tenant.is_some_and(|its| its.packets.is_some() || its.bytes.is_some())
    }

    /// True where the chain's tenant may have a packet of `len` bytes taken in at `time`, which is
    /// then counted. One that is refused costs it nothing. Times that go back fill nothing; after
    /// one that goes back by more than the longest burst they count from there.
    pub fn admits(&mut self, chain: usize, time: Time, len: u32) -> bool {
        let tenant = self.of_chain.get(chain).copied();
        let Some(its) = tenant.and_then(|tenant| self.tenants.get_mut(usize::from(tenant))) else {
            return true;
        };
        let before = *its.at.get_or_insert(time);
        if time.0.saturating_add(BURSTS.1) < before.0 {
            its.at = Some(time);
        } else if time > before {
            its.at = Some(time);
            let ns = time.0 - before.0;
            for bucket in its.packets.iter_mut().chain(&mut its.bytes) {
                bucket.fill(ns);
            }
        }
        let bytes = u64::from(len).min(LONGEST);
        let fits = its.packets.as_ref().is_none_or(|bucket| bucket.has(1))
            && its.bytes.as_ref().is_none_or(|bucket| bucket.has(bytes));
        if fits {
            if let Some(bucket) = &mut its.packets {
                bucket.take(1);
            }
            if let Some(bucket) = &mut its.bytes {
                bucket.take(bytes);
            }
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotas(packets: Option<u64>, bytes: Option<u64>) -> Quotas {
        let limits = TenantLimits {
            packets,
            bytes,
            burst: 10_000_000,
            ..TenantLimits::DEFAULT
        };
        Quotas::new(&[limits, TenantLimits::DEFAULT], &[0, 1, 0])
    }

    /// Offers packets of `len` bytes each `ns` for a second; how many are taken in.
    fn second(quotas: &mut Quotas, chain: usize, ns: u64, len: u32) -> u64 {
        let times = (0..1_000_000_000 / ns).map(|n| Time(n * ns));
        times.filter(|at| quotas.admits(chain, *at, len)).count() as u64
    }

    #[test]
    fn a_rate_is_kept_to_the_packet() {
        // A burst of 10 ms, and what comes in the second.
        assert_eq!(
            second(&mut quotas(Some(1_000), None), 0, 1_000, 64),
            1_010 - 1
        );
        // Less than that passes whole.
        assert_eq!(
            second(&mut quotas(Some(1_000), None), 0, 1_000_000, 64),
            1_000
        );
        // One packet per second passes at a burst that is shorter.
        assert_eq!(second(&mut quotas(Some(1), None), 0, 1_000_000, 64), 1);
    }

    #[test]
    fn bytes_are_bounded_as_packets_are() {
        let taken = second(&mut quotas(None, Some(10_000_000)), 0, 10_000, 1_000);
        // A burst would be 100,000 bytes: less than the longest packet.
        assert_eq!(taken, 10_000 + 262);
        // The smallest rate lets the longest packet through.
        assert_eq!(second(&mut quotas(None, Some(1)), 0, 1_000_000, 262_144), 1);
    }

    #[test]
    fn what_one_bound_refuses_costs_the_other_nothing() {
        let mut quotas = quotas(Some(1_000), Some(1));
        assert!(quotas.admits(0, Time(0), 262_144));
        // No bytes are left: no packets are taken either.
        let refused = (0..100).filter(|n| !quotas.admits(0, Time(*n), 1_000));
        assert_eq!(refused.count(), 100);
        let free = (0..10).filter(|_| quotas.admits(0, Time(100), 0)).count();
        assert_eq!(free, 9);
    }

    #[test]
    fn chains_of_a_tenant_have_one_quota_and_others_none() {
        let mut quotas = quotas(Some(1_000), None);
        assert!(quotas.bounds(0) && !quotas.bounds(1) && quotas.bounds(2) && !quotas.bounds(9));
        let first = (0..5).filter(|_| quotas.admits(0, Time(5), 64)).count();
        let third = (0..50).filter(|_| quotas.admits(2, Time(5), 64)).count();
        assert_eq!((first, third), (5, 5));
        assert!((0..1_000).all(|_| quotas.admits(1, Time(5), 64)));
    }

    #[test]
    fn times_that_go_back_fill_nothing() {
        let mut quotas = quotas(Some(1_000), None);
        let jumps = (0..1_000u64).map(|n| Time(1_000_000_000 + n % 2));
        assert_eq!(jumps.filter(|at| quotas.admits(0, *at, 64)).count(), 10);
        // One that was far ahead does not stop those behind it for long.
        assert!(quotas.admits(0, Time(u64::MAX), 64));
        let later = (0..10_000).filter(|n| quotas.admits(0, Time(n * 100_000), 64));
        assert_eq!(later.count(), 9 + 999);
    }
}
