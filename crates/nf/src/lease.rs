//! Leased resources: port blocks of NAT pools.
//!
//! A pool's ports belong to the party that grants blocks of them: the engine itself
//! where it is alone, else the home switch. A runtime hands out single ports
//! of the blocks it holds. The state of a flow keeps a [`PortLease`], a
//! number, and the end of the flow gives it back. Under a switch the flow may
//! end elsewhere, so [`Leases::give`] does nothing there: the switch says when
//! the port's name is gone ([`Leases::free`]).

use std::collections::VecDeque;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolId(pub u8);

/// Which numbers are told apart: a port of TCP and the same port of UDP are
/// different leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortLease {
    /// Number of the address in its pool.
    pub address: u16,
    /// The port.
    pub port: u16,
    /// Protocol whose ports these are.
    pub space: PortSpace,
}

/// Properties that a port should have.
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
    /// Places to look for the next port: of any, of the even, of the odd ones.
    cursors: [Cursor; 3],
}

/// A place that goes round all ports: through the words, then on to their next
/// bits. So a port rests as long as it can before it is used again: its
/// last peer may remember the last connection from it for a while.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    word: usize,
    bit: u32,
}

impl Cursor {
    /// The next port of `free` among those of a parity (as a mask of bits,
    /// `stride` apart), and leaves the place behind it.
    fn next(&mut self, free: &[u64], parity: u64, stride: u32) -> Option<u16> {
        for _ in 0..=free.len() {
            let (word, bit) = (self.word, self.bit);
            self.word += 1;
            if self.word >= free.len() {
                self.word = 0;
                self.bit = (bit + stride) % 64;
            }
            let candidates = free.get(word).copied().unwrap_or(0) & parity;
            if candidates != 0 {
                let ahead = candidates.rotate_right(bit).trailing_zeros();
                return Some((word * 64) as u16 + ((bit + ahead) % 64) as u16);
            }
        }
        None
    }
}

#[derive(Debug)]
struct Pool {
    spec: PoolSpec,
    /// One per address and space.
    maps: Vec<Bitmap>,
    /// Ports leased per block, per address and space.
    used: Vec<u16>,
    /// Blocks granted, likewise.
    granted: Vec<bool>,
    /// Ports free here, per address and space.
    free: Vec<u32>,
    leased: u64,
    failures: u64,
    low: bool,
    /// Leases that come next, whatever is free.
    script: VecDeque<PortLease>,
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
        let number = address * SPACES + space as usize;
        // No search through the whole map for each packet that finds nothing.
        if *self.free.get(number)? == 0 {
            return None;
        }
        let map = self.maps.get_mut(number)?;
        if let Some(port) = want.port {
            let word = map.free.get_mut(usize::from(port) / 64)?;
            if *word >> (port % 64) & 1 == 1 {
                *word &= !(1 << (port % 64));
                return Some(port);
            }
        }
        let (cursor, parity, stride) = match want {
            Want {
                port: Some(port),
                parity: true,
            } if port % 2 == 1 => (2, 0xaaaa_aaaa_aaaa_aaaa, 2),
            Want {
                port: Some(_),
                parity: true,
            } => (1, 0x5555_5555_5555_5555, 2),
            _ => (0, u64::MAX, 1),
        };
        let port = map.cursors[cursor].next(&map.free, parity, stride)?;
        map.free[usize::from(port) / 64] &= !(1 << (port % 64));
        Some(port)
    }
}

impl Pool {
    /// Ports have come: are there enough now?
    fn judge(&mut self) {
        if self.low {
            let ports = u32::from(self.spec.last - self.spec.first) + 1;
            let block = u32::from(self.spec.block).min(ports);
            self.low = self.free.iter().any(|&free| free < block);
        }
    }
}

/// Most leases that are noted for one burst.
const NOTED: usize = 1_024;

/// The leases of one runtime.
#[derive(Debug, Default)]
pub struct Leases {
    pools: Vec<Pool>,
    /// Place in its burst of the packet that a function works on.
    pub(crate) packet: u8,
    /// Ports leased in this burst, and the packet that caused it; under a switch.
    taken: Option<Vec<(u8, PoolId, PortLease)>>,
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
                        cursors: [Cursor {
                            word: usize::from(spec.first) / 64,
                            bit: 0,
                        }; 3],
                    })
                    .collect();
                let mut pool = Pool {
                    spec: spec.clone(),
                    maps,
                    used: Vec::new(),
                    granted: Vec::new(),
                    free: vec![0; spec.addresses.len() * SPACES],
                    leased: 0,
                    failures: 0,
                    low: true,
                    script: VecDeque::new(),
                };
                pool.used = vec![0; pool.blocks() * spec.addresses.len() * SPACES];
                pool.granted = vec![false; pool.used.len()];
                pool
            })
            .collect();
        Leases {
            pools,
            packet: 0,
            taken: None,
        }
    }

    /// Under a switch: notes what is taken, and gives nothing back by itself.
    pub(crate) fn attribute(&mut self) {
        self.taken = Some(Vec::with_capacity(NOTED));
    }

    /// Leases taken since [`Leases::clear_taken`], each with the place in its
    /// burst of the packet that took it; nothing where the runtime is alone.
    pub fn taken(&self) -> &[(u8, PoolId, PortLease)] {
        self.taken.as_deref().unwrap_or(&[])
    }

    /// Forgets which leases were taken. They stay leased.
    pub fn clear_taken(&mut self) {
        if let Some(taken) = &mut self.taken {
            taken.clear();
        }
    }

    /// True where more ports of the pool should be asked for: one of its
    /// addresses has less than half a block of some kind left here, or a port
    /// could not be had. False again when each has as many as a block.
    pub fn is_low(&self, pool: PoolId) -> bool {
        let pool = self.pools.get(usize::from(pool.0));
        pool.is_some_and(|pool| pool.low)
    }

    /// Pools of the stage.
    pub fn pools(&self) -> impl Iterator<Item = PoolId> + use<> {
        (0..self.pools.len()).map(|pool| PoolId(pool as u8))
    }

    /// The addresses, ports and block size of a pool.
    pub fn spec(&self, pool: PoolId) -> Option<&PoolSpec> {
        self.pools.get(usize::from(pool.0)).map(|pool| &pool.spec)
    }

    /// Makes `lease` what the next [`Leases::take`] of its pool, address and
    /// space gives, after those said before, whatever is granted here: a
    /// second engine takes what the first one took.
    pub fn script(&mut self, pool: PoolId, lease: PortLease) {
        if let Some(pool) = self.pools.get_mut(usize::from(pool.0)) {
            pool.script.push_back(lease);
        }
    }

    /// Leases that were said by [`Leases::script`] and not taken yet.
    pub fn scripted(&self) -> usize {
        self.pools.iter().map(|pool| pool.script.len()).sum()
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
        let blocks = pool.blocks();
        for space in 0..SPACES {
            let number = usize::from(address) * SPACES + space;
            let place = number * blocks + usize::from(block);
            let (Some(map), Some(granted), Some(free)) = (
                pool.maps.get_mut(number),
                pool.granted.get_mut(place),
                pool.free.get_mut(number),
            ) else {
                continue;
            };
            // A block that is granted again has no lease left, even where
            // this runtime did not hear of the last ones that ended.
            if let Some(used) = pool.used.get_mut(place) {
                pool.leased -= u64::from(core::mem::take(used));
            }
            *granted = true;
            for port in from..to {
                let word = &mut map.free[port as usize / 64];
                *free += u32::from(*word >> (port % 64) & 1 == 0);
                *word |= 1 << (port % 64);
            }
        }
        pool.judge();
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
        let id = pool;
        let pool = self.pools.get_mut(usize::from(id.0))?;
        let scripted = pool
            .script
            .pop_front_if(|next| next.address == address && next.space == space);
        let lease = match scripted {
            Some(lease) => lease,
            None => {
                let Some(port) = pool.find(usize::from(address), space, want) else {
                    pool.failures += 1;
                    pool.low = true;
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
                let free = &mut pool.free[usize::from(address) * SPACES + space as usize];
                *free -= 1;
                pool.low |= *free < u32::from(pool.spec.block) / 2;
                lease
            }
        };
        if let Some(taken) = &mut self.taken
            && taken.len() < NOTED
        {
            taken.push((self.packet, id, lease));
        }
        Some(lease)
    }

    /// Gives a port back: the flow that had it has ended. One that is not
    /// leased is ignored, so that a repeated end of a flow frees nothing
    /// twice. Under a switch nothing happens.
    pub fn give(&mut self, pool: PoolId, lease: PortLease) {
        if self.taken.is_none() {
            self.free(pool, lease);
        }
    }

    /// Makes a port of a block that is held here free again. One that is not
    /// leased, or not of such a block, is ignored.
    pub fn free(&mut self, pool: PoolId, lease: PortLease) {
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
        if map.free[word] & bit == 0 && pool.granted[block] && pool.used[block] > 0 {
            map.free[word] |= bit;
            pool.free[usize::from(lease.address) * SPACES + lease.space as usize] += 1;
            pool.used[block] -= 1;
            pool.leased -= 1;
            pool.judge();
        }
    }

    /// True of a port of a block that is held here, if nobody has it.
    pub fn is_free(&self, pool: PoolId, lease: PortLease) -> bool {
        let pool = self.pools.get(usize::from(pool.0));
        let number = usize::from(lease.address) * SPACES + lease.space as usize;
        let map = pool.and_then(|pool| pool.maps.get(number));
        map.is_some_and(|map| map.free[usize::from(lease.port) / 64] >> (lease.port % 64) & 1 == 1)
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

    #[test]
    fn under_a_switch_ports_come_back_on_its_word_only() {
        let (pool, tcp) = (PoolId(0), PortSpace::Tcp);
        let mut leases = Leases::new(&[PoolSpec {
            addresses: vec!["192.0.2.1".parse().unwrap()],
            first: 0,
            last: u16::MAX,
            block: 64,
        }]);
        leases.attribute();
        assert!(leases.is_low(pool));
        leases.grant(pool, 0, 3);
        assert!(!leases.is_low(pool));
        leases.packet = 7;
        let mut last = None;
        for _ in 0..33 {
            last = leases.take(pool, 0, tcp, Want::default());
        }
        let last = last.unwrap();
        assert_eq!(leases.taken().last(), Some(&(7, pool, last)));
        assert!(leases.is_low(pool) && leases.leased() == 33);
        leases.give(pool, last);
        assert_eq!(leases.leased(), 33);
        leases.free(pool, last);
        leases.free(pool, last);
        assert_eq!(leases.leased(), 32);
        // of a block that is not held here
        leases.free(pool, PortLease { port: 9, ..last });
        assert_eq!(leases.leased(), 32);
        assert!(leases.is_low(pool));
        leases.grant(pool, 0, 4);
        assert!(!leases.is_low(pool));
        // a block granted again is whole
        leases.grant(pool, 0, 3);
        assert_eq!(leases.leased(), 0);
    }

    #[test]
    fn a_script_says_which_ports_come_next() {
        let (pool, tcp) = (PoolId(0), PortSpace::Tcp);
        let mut leases = Leases::new(&[PoolSpec {
            addresses: vec!["192.0.2.1".parse().unwrap(); 2],
            first: 0,
            last: u16::MAX,
            block: 64,
        }]);
        let said = PortLease {
            address: 1,
            port: 777,
            space: tcp,
        };
        leases.script(pool, said);
        assert_eq!(leases.take(pool, 0, tcp, Want::default()), None);
        assert_eq!(leases.take(pool, 1, tcp, Want::default()), Some(said));
        assert_eq!(leases.take(pool, 1, tcp, Want::default()), None);
        assert_eq!((leases.scripted(), leases.leased()), (0, 0));
    }

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

    /// The remote end may remember the last connection from a port.
    #[test]
    fn a_port_rests_while_others_have_not_been_used() {
        for (want, ports) in [
            (Want::default(), 1_024),
            (
                Want {
                    port: Some(1),
                    parity: true,
                },
                512,
            ),
        ] {
            let mut leases = pool(1_024, 2_047);
            let mut last = std::collections::BTreeMap::new();
            // One connection after another: each port is given back at once.
            for turn in 0..4_000u32 {
                let lease = leases.take(PoolId(0), 0, PortSpace::Tcp, want).unwrap();
                leases.give(PoolId(0), lease);
                if let Some(before) = last.insert(lease.port, turn) {
                    assert_eq!(turn - before, ports, "{}", lease.port);
                }
            }
            assert_eq!(last.len(), ports as usize);
        }
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
