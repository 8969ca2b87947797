//! Leased resources: port blocks of NAT pools.
//!
//! A pool's ports belong to whoever grants blocks of them (in one process the
//! engine; later the home switch). A runtime hands out single ports of the
//! blocks it holds. The state of a flow keeps a [`PortLease`], a number, and
//! the end of the flow gives it back.

use std::net::IpAddr;

/// Addresses and ports that a network function shares out among flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// Addresses, in the order of their numbers.
    pub addresses: Vec<IpAddr>,
    /// First port.
    pub first: u16,
    /// Last port.
    pub last: u16,
    /// Ports in a block, a multiple of 64.
    pub block: u16,
}

/// Number of a pool in this stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolId(pub u8);

/// Which numbers are told apart: a port of TCP and the same port of UDP are
/// different leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PortSpace {
    /// TCP ports.
    Tcp = 0,
    /// UDP ports.
    Udp = 1,
    /// ICMP query identifiers.
    Icmp = 2,
}

/// One port (or ICMP identifier) of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortLease {
    /// Number of the address in its pool.
    pub address: u16,
    /// The port.
    pub port: u16,
    /// What kind of port.
    pub space: PortSpace,
}

/// What a port should be like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Want {
    /// Best this port.
    pub port: Option<u16>,
    /// Keep `port`'s parity (RFC 4787 §4.2.2) if it can't be had itself.
    pub parity: bool,
}

#[derive(Debug)]
struct Bitmap {
    /// Bit set: the port is free here, that is, granted and not leased.
    free: Vec<u64>,
    cursor: usize,
}

#[derive(Debug)]
struct Pool {
    spec: PoolSpec,
    /// One per address and space; made when the first block is granted.
    maps: Vec<Bitmap>,
    /// Ports leased per block, per address and space.
    used: Vec<u16>,
    leased: u64,
    failures: u64,
}

const SPACES: usize = 3;

impl Pool {
    fn blocks(&self) -> usize {
        65_536_usize.div_ceil(usize::from(self.spec.block))
    }

    fn block_of(&self, lease: PortLease) -> usize {
        (usize::from(lease.address) * SPACES + lease.space as usize) * self.blocks()
            + usize::from(lease.port) / usize::from(self.spec.block)
    }

    fn find(&mut self, address: usize, space: PortSpace, want: Want) -> Option<u16> {
        let map = self.maps.get_mut(address * SPACES + space as usize)?;
        if let Some(port) = want.port {
            let word = map.free.get_mut(usize::from(port) / 64)?;
            if *word >> (port % 64) & 1 == 1 {
                *word &= !(1 << (port % 64));
                return Some(port);
            }
        }
        let parity = match want {
            Want {
                port: Some(port),
                parity: true,
            } if port % 2 == 1 => 0xaaaa_aaaa_aaaa_aaaa,
            Want {
                port: Some(_),
                parity: true,
            } => 0x5555_5555_5555_5555,
            _ => u64::MAX,
        };
        let words = map.free.len();
        for step in 0..words {
            let at = (map.cursor + step) % words;
            let candidates = map.free[at] & parity;
            if candidates != 0 {
                let bit = candidates.trailing_zeros();
                map.free[at] &= !(1 << bit);
                // The next flow looks one word on, so that a port rests a
                // while before it is used again.
                map.cursor = (at + 1) % words;
                return Some((at * 64) as u16 + bit as u16);
            }
        }
        None
    }
}

/// The leases of one runtime.
#[derive(Debug, Default)]
pub struct Leases {
    pools: Vec<Pool>,
}

impl Leases {
    /// For pools in the order of their [`PoolId`]s; no block is held yet.
    pub fn new(specs: &[PoolSpec]) -> Leases {
        let pools = specs
            .iter()
            .map(|spec| {
                let maps = (0..spec.addresses.len() * SPACES)
                    .map(|_| Bitmap {
                        free: vec![0; 1_024],
                        cursor: usize::from(spec.first) / 64,
                    })
                    .collect();
                let mut pool = Pool {
                    spec: spec.clone(),
                    maps,
                    used: Vec::new(),
                    leased: 0,
                    failures: 0,
                };
                pool.used = vec![0; pool.blocks() * spec.addresses.len() * SPACES];
                pool
            })
            .collect();
        Leases { pools }
    }

    /// Grants every block of every pool: this runtime is alone.
    pub fn grant_all(&mut self) {
        for pool in 0..self.pools.len() {
            let (addresses, blocks) = (
                self.pools[pool].spec.addresses.len(),
                self.pools[pool].blocks(),
            );
            for address in 0..addresses {
                for block in 0..blocks {
                    self.grant(PoolId(pool as u8), address as u16, block as u16);
                }
            }
        }
    }

    /// Grants one block, in all port spaces. Ports outside the pool's range
    /// are left out; a pool or address that does not exist is ignored.
    pub fn grant(&mut self, pool: PoolId, address: u16, block: u16) {
        let Some(pool) = self.pools.get_mut(usize::from(pool.0)) else {
            return;
        };
        let start = u32::from(block) * u32::from(pool.spec.block);
        let from = start.max(u32::from(pool.spec.first));
        let to = (start + u32::from(pool.spec.block)).min(u32::from(pool.spec.last) + 1);
        for space in 0..SPACES {
            if let Some(map) = pool.maps.get_mut(usize::from(address) * SPACES + space) {
                for port in from..to {
                    map.free[port as usize / 64] |= 1 << (port % 64);
                }
            }
        }
    }

    /// Addresses of a pool.
    pub fn addresses(&self, pool: PoolId) -> &[IpAddr] {
        self.pools
            .get(usize::from(pool.0))
            .map_or(&[], |pool| &pool.spec.addresses)
    }

    /// Leases a port of address number `address`; `None` (and a count) where
    /// none is left.
    pub fn take(
        &mut self,
        pool: PoolId,
        address: u16,
        space: PortSpace,
        want: Want,
    ) -> Option<PortLease> {
        let pool = self.pools.get_mut(usize::from(pool.0))?;
        let found = pool.find(usize::from(address), space, want);
        let Some(port) = found else {
            pool.failures += 1;
            return None;
        };
        let lease = PortLease {
            address,
            port,
            space,
        };
        let block = pool.block_of(lease);
        pool.used[block] += 1;
        pool.leased += 1;
        Some(lease)
    }

    /// Gives a port back. One that is not leased is ignored, so that a
    /// repeated end of a flow frees nothing twice.
    pub fn give(&mut self, pool: PoolId, lease: PortLease) {
        let Some(pool) = self.pools.get_mut(usize::from(pool.0)) else {
            return;
        };
        let block = pool.block_of(lease);
        let Some(map) = pool
            .maps
            .get_mut(usize::from(lease.address) * SPACES + lease.space as usize)
        else {
            return;
        };
        let (word, bit) = (usize::from(lease.port) / 64, 1u64 << (lease.port % 64));
        if map.free[word] & bit == 0 && pool.used[block] > 0 {
            map.free[word] |= bit;
            pool.used[block] -= 1;
            pool.leased -= 1;
        }
    }

    /// Ports leased now, over all pools.
    pub fn leased(&self) -> u64 {
        self.pools.iter().map(|pool| pool.leased).sum()
    }

    /// Times no port was left, over all pools.
    pub fn failures(&self) -> u64 {
        self.pools.iter().map(|pool| pool.failures).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(first: u16, last: u16) -> Leases {
        let mut leases = Leases::new(&[PoolSpec {
            addresses: vec!["192.0.2.1".parse().unwrap()],
            first,
            last,
            block: 64,
        }]);
        leases.grant_all();
        leases
    }

    #[test]
    fn every_port_is_leased_once_and_comes_back() {
        let mut leases = pool(1_000, 1_199);
        let mut seen = std::collections::BTreeSet::new();
        while let Some(lease) = leases.take(PoolId(0), 0, PortSpace::Udp, Want::default()) {
            assert!((1_000..1_200).contains(&lease.port) && seen.insert(lease.port));
        }
        assert_eq!(
            (seen.len(), leases.leased(), leases.failures()),
            (200, 200, 1)
        );
        // another space is another set of ports
        assert!(
            leases
                .take(PoolId(0), 0, PortSpace::Tcp, Want::default())
                .is_some()
        );
        for &port in &seen {
            let lease = PortLease {
                address: 0,
                port,
                space: PortSpace::Udp,
            };
            leases.give(PoolId(0), lease);
            leases.give(PoolId(0), lease);
        }
        assert_eq!(leases.leased(), 1);
    }

    #[test]
    fn wishes_are_kept_where_they_can_be() {
        let mut leases = pool(1_024, u16::MAX);
        let want = Want {
            port: Some(5_001),
            parity: true,
        };
        let mut take = || {
            leases
                .take(PoolId(0), 0, PortSpace::Udp, want)
                .unwrap()
                .port
        };
        assert_eq!(take(), 5_001);
        for _ in 0..100 {
            assert_eq!(take() % 2, 1);
        }
    }

    #[test]
    fn nothing_is_leased_before_a_grant() {
        let spec = PoolSpec {
            addresses: vec!["::1".parse().unwrap()],
            first: 1,
            last: 9,
            block: 64,
        };
        let mut leases = Leases::new(&[spec]);
        assert!(
            leases
                .take(PoolId(0), 0, PortSpace::Tcp, Want::default())
                .is_none()
        );
        leases.grant(PoolId(0), 0, 0);
        assert!(
            leases
                .take(PoolId(0), 0, PortSpace::Tcp, Want::default())
                .is_some()
        );
    }
}
