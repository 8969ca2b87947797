//! Each tenant's part of the packets that may be on their way: dynamic thresholds (Choudhury and
//! Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998).
//!
//! A tenant may have so many packets on their way as a multiple of those that are still free. One
//! that is alone gets two thirds of the room, and leaves one free; where another one comes, its part
//! shrinks as packets leave. No part is kept for who has nothing on its way.

use super::shares::weights;

/// Sum of the multiples of those that have something on their way: where all want more than there
/// is, one third stays free.
const FACTOR: u64 = 2;
/// Packets that a tenant may have on their way in any case: a batch of a port, so that none is shut
/// out by the weights of others.
const LEAST: u64 = 64;

/// See the module.
#[derive(Clone, Debug)]
pub struct Room {
    /// Tenant, by chain.
    of_chain: Vec<usize>,
    /// Packets on their way, counted anew by each call, and weight, by tenant.
    tenants: Vec<(u64, u32)>,
}

impl Room {
    /// For chains of these tenants with these weights.
    pub fn new(shares: &[(u16, u32)]) -> Room {
        let of_chain = shares.iter().map(|(tenant, _)| usize::from(*tenant));
        Room {
            of_chain: of_chain.collect(),
            tenants: weights(shares).into_iter().map(|it| (0, it)).collect(),
        }
    }

    /// Packets more that the tenant of `chain` may have on their way, where `free` more have room
    /// and each chain has so many as `on_their_way` says.
    pub fn left(&mut self, chain: usize, free: u64, on_their_way: impl Fn(usize) -> u64) -> u64 {
        let Some(tenant) = self.of_chain.get(chain).copied() else {
            return free;
        };
        self.tenants.iter_mut().for_each(|(has, _)| *has = 0);
        for (chain, tenant) in self.of_chain.iter().enumerate() {
            if let Some((has, _)) = self.tenants.get_mut(*tenant) {
                *has += on_their_way(chain);
            }
        }
        let (has, weight) = self.tenants.get(tenant).copied().unwrap_or((0, 1));
        let others = self.tenants.iter().enumerate();
        let others = others.filter(|(other, (has, _))| *other != tenant && *has > 0);
        let others: u64 = others.map(|(_, (_, weight))| u64::from(*weight)).sum();
        let weight = u64::from(weight);
        let most = free.saturating_mul(FACTOR * weight) / (weight + others);
        most.max(LEAST).saturating_sub(has).min(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chains take as much as they may, and packets of all leave, for long; what each has.
    fn filled(shares: &[(u16, u32)], who: &[usize], all: u64) -> Vec<u64> {
        let mut room = Room::new(shares);
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
        assert!((1_990..=2_010).contains(&has[0]), "{has:?}");
        // Whatever it weighs, and how many others there are.
        let has = filled(&[(0, 1), (1, 1_000), (2, 7)], &[0], 3_000);
        assert!((1_990..=2_010).contains(&has[0]), "{has:?}");
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
        let mut room = Room::new(&[(0, 1_000), (1, 1)]);
        assert_eq!(room.left(0, 10, |_| 0), 10);
        assert_eq!(room.left(0, 0, |_| 0), 0);
        assert_eq!(room.left(7, 10, |_| 0), 10);
    }

    #[test]
    fn the_lightest_is_not_shut_out() {
        let mut room = Room::new(&[(0, 1), (1, 1_000)]);
        let of_other = |chain: usize| 5_000 * chain as u64;
        assert_eq!(room.left(0, 100, of_other), 64);
        assert_eq!(room.left(0, 40, of_other), 40);
    }
}
