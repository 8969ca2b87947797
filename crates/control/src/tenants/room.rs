//! Each tenant's part of the packets that may be on their way: dynamic thresholds (Choudhury and
//! Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998).
//!
//! A tenant may have so many packets on their way as a multiple of those that are still free. One
//! that is alone gets most of the room, and leaves some free; where another one comes, its part
//! shrinks as packets leave. No part is kept for who wants none.

/// Sum of the multiples of all tenants: where all want more than there is, one third stays free.
const FACTOR: u64 = 2;

/// See the module.
#[derive(Clone, Debug)]
pub struct Room {
    /// Tenant and weight, by chain.
    shares: Vec<(u16, u32)>,
    /// Sum of the weights of all tenants.
    sum: u64,
}

impl Room {
    /// For chains of these tenants with these weights.
    pub fn new(shares: &[(u16, u32)]) -> Room {
        let mut weights: Vec<(u16, u32)> = shares.to_vec();
        weights.sort_unstable();
        weights.dedup_by_key(|(tenant, _)| *tenant);
        Room {
            shares: shares.to_vec(),
            sum: weights.iter().map(|(_, weight)| u64::from(*weight)).sum(),
        }
    }

    /// Packets more that the tenant of `chain` may have on their way, where `free` more have room
    /// and each chain has so many as `on_their_way` says.
    pub fn left(&self, chain: usize, free: u64, on_their_way: impl Fn(usize) -> u64) -> u64 {
        let Some((tenant, weight)) = self.shares.get(chain) else {
            return free;
        };
        let chains = self.shares.iter().enumerate();
        let of_tenant = chains.filter(|(_, (other, _))| other == tenant);
        let has: u64 = of_tenant.map(|(chain, _)| on_their_way(chain)).sum();
        let most = free.saturating_mul(FACTOR * u64::from(*weight)) / self.sum.max(1);
        most.saturating_sub(has).min(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chains take as much as they may, and packets of all leave, for long; what each has.
    fn filled(shares: &[(u16, u32)], who: &[usize], all: u64) -> Vec<u64> {
        let room = Room::new(shares);
        let mut has = vec![0u64; shares.len()];
        for _ in 0..10_000 {
            for chain in who {
                let free = all - has.iter().sum::<u64>();
                has[*chain] += room.left(*chain, free, |chain| has[chain]).min(4);
            }
            for its in &mut has {
                *its = its.saturating_sub(1);
            }
        }
        has
    }

    #[test]
    fn one_that_is_alone_leaves_room_for_who_comes() {
        let has = filled(&[(0, 1), (1, 1)], &[0], 3_000);
        assert!((1_490..=1_500).contains(&has[0]), "{has:?}");
        let has = filled(&[(0, 3), (1, 1)], &[0], 3_000);
        assert!((1_790..=1_800).contains(&has[0]), "{has:?}");
    }

    #[test]
    fn all_together_have_parts_by_weight() {
        let has = filled(&[(0, 1), (1, 3)], &[0, 1], 3_000);
        assert!((490..=510).contains(&has[0]), "{has:?}");
        assert!((1_490..=1_510).contains(&has[1]), "{has:?}");
        // Chains of one tenant share its part.
        let has = filled(&[(0, 1), (1, 1), (0, 1)], &[0, 1, 2], 3_000);
        let of_first = has[0] + has[2];
        assert!(of_first.abs_diff(has[1]) < 20, "{has:?}");
    }

    #[test]
    fn never_more_than_is_free() {
        let room = Room::new(&[(0, 1_000), (1, 1)]);
        assert_eq!(room.left(0, 10, |_| 0), 10);
        assert_eq!(room.left(0, 0, |_| 0), 0);
        assert_eq!(room.left(7, 10, |_| 0), 10);
    }
}
