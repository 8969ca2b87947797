//! Port blocks: who has which, and which ports are leased and have names that live.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use weir_nf::{PoolId, PoolSpec, PortLease, PortSpace};
use weir_packet::protocol::ip;
use weir_packet::{FlowKey, Time};

use super::runtimes::Slot;
use super::{Switch, SwitchCount};
use crate::ids::UnitId;
use crate::message::{DOUBTS, Message};
use crate::plant::Plant;

const SPACES: usize = 3;

/// Blocks that are said again at a time.
const SAID_AGAIN: usize = 8;

/// A port in one space.
#[derive(Clone, Copy, Debug, Default)]
struct Port {
    /// Aliases that lie on it, whoever has them, and one for a unit that holds it without
    /// an alias.
    names: u16,
    /// An entry that leased it was let out. Then it has a name. A port may have a name and
    /// no lease: a packet to an external port without a mapping opens a flow under it.
    leased: bool,
}

#[derive(Debug, Default)]
pub(super) struct Block {
    /// The runtime that has it; 0 for nobody.
    holder: Slot,
    /// By space and number; none before the first name.
    ports: Vec<Port>,
    /// Ports with a name, per space.
    used: [u32; SPACES],
}

impl Block {
    fn live(&self) -> u32 {
        self.used.iter().sum()
    }
}

#[derive(Debug)]
struct Pool {
    spec: PoolSpec,
    /// Blocks of an address.
    blocks: usize,
    /// All blocks, address by address.
    all: Vec<Block>,
    /// When a runtime last got a block that it seemed not to need.
    granted: BTreeMap<Slot, Time>,
}

impl Pool {
    fn ports_of(&self, block: usize) -> core::ops::Range<u32> {
        let size = u32::from(self.spec.block);
        let start = block as u32 * size;
        let from = start.max(u32::from(self.spec.first));
        let to = (start + size).min(u32::from(self.spec.last) + 1);
        from..to.max(from)
    }

    /// Who has fewer ports left of an address gets a block.
    fn half_block(&self) -> u32 {
        u32::from(self.spec.block) / 2
    }

    fn blocks_at(&self, address: usize) -> core::ops::Range<usize> {
        address * self.blocks..(address + 1) * self.blocks
    }
}

/// The lender of ports.
#[derive(Debug)]
pub(super) struct Lessor {
    pools: Vec<Pool>,
    /// Pool and number of each address.
    addresses: BTreeMap<IpAddr, Vec<(usize, usize)>>,
    /// A switch before this one has granted blocks.
    restarted: bool,
    /// Runtimes that asked in vain: slot, pool, number of the address.
    waiting: BTreeSet<(Slot, usize, usize)>,
    /// A block may have become free since the waiting runtimes were served last.
    may_serve: bool,
    /// Ports that were leased and got no name, by the unit that has them.
    held: BTreeMap<UnitId, Vec<(PoolId, PortLease)>>,
    /// Ports that a unit had a name on when this switch took it over from the one before.
    restored: BTreeMap<UnitId, Vec<(PoolId, PortLease)>>,
}

/// A leased port whose last name has gone: the holder of its block, and the port.
pub(super) type Freed = (Slot, PoolId, PortLease);

impl Lessor {
    pub(super) fn new(specs: &[PoolSpec]) -> Lessor {
        let mut addresses: BTreeMap<IpAddr, Vec<(usize, usize)>> = BTreeMap::new();
        let mut pools = Vec::with_capacity(specs.len());
        for (number, spec) in specs.iter().enumerate() {
            let blocks = 65_536_usize.div_ceil(usize::from(spec.block.max(1)));
            let all = blocks * spec.addresses.len();
            for (at, address) in spec.addresses.iter().enumerate() {
                addresses.entry(*address).or_default().push((number, at));
            }
            pools.push(Pool {
                spec: spec.clone(),
                blocks,
                all: (0..all).map(|_| Block::default()).collect(),
                granted: BTreeMap::new(),
            });
        }
        Lessor {
            pools,
            addresses,
            restarted: false,
            waiting: BTreeSet::new(),
            may_serve: false,
            held: BTreeMap::new(),
            restored: BTreeMap::new(),
        }
    }

    /// Blocks that runtimes had before are not known: those with names are
    /// nobody's until they are claimed.
    pub(super) fn restarted(&mut self) {
        self.restarted = true;
    }

    /// A runtime says that it has a block.
    pub(super) fn claim(&mut self, slot: Slot, pool: PoolId, address: u16, block: u16) {
        let Some(pool) = self.pools.get_mut(usize::from(pool.0)) else {
            return;
        };
        let at = usize::from(address) * pool.blocks + usize::from(block);
        if usize::from(block) < pool.blocks
            && let Some(block) = pool.all.get_mut(at)
        {
            block.holder = slot;
        }
    }

    /// The ports that a name takes up: each end that lies in a pool.
    pub(super) fn ports(&self, key: &FlowKey) -> [Option<(usize, usize, PortSpace, u16)>; 2] {
        let space = match key.proto() {
            ip::TCP => PortSpace::Tcp,
            ip::UDP => PortSpace::Udp,
            ip::ICMP | ip::ICMPV6 => PortSpace::Icmp,
            _ => return [None, None],
        };
        [key.a(), key.b()].map(|(address, port)| {
            let pools = self.addresses.get(&address)?;
            let &(pool, number) = pools.iter().find(|(pool, _)| {
                self.pools
                    .get(*pool)
                    .is_some_and(|pool| (pool.spec.first..=pool.spec.last).contains(&port))
            })?;
            Some((pool, number, space, port))
        })
    }

    /// The holder of a port's block, the port, and the number of ports with a name in the
    /// block and space.
    fn port_mut(
        &mut self,
        pool: usize,
        address: usize,
        space: PortSpace,
        port: u16,
    ) -> Option<(Slot, &mut Port, &mut u32)> {
        let pool = self.pools.get_mut(pool)?;
        let size = usize::from(pool.spec.block);
        let at = address * pool.blocks + usize::from(port) / size;
        let block = pool.all.get_mut(at)?;
        if block.ports.is_empty() {
            block.ports = vec![Port::default(); size * SPACES];
        }
        let at = space as usize * size + usize::from(port) % size;
        let used = block.used.get_mut(space as usize)?;
        Some((block.holder, block.ports.get_mut(at)?, used))
    }

    /// True where the name lies on the port.
    pub(super) fn lies_on(&self, key: &FlowKey, pool: PoolId, lease: PortLease) -> bool {
        let port = (
            usize::from(pool.0),
            usize::from(lease.address),
            lease.space,
            lease.port,
        );
        self.ports(key).contains(&Some(port))
    }

    /// A name is registered.
    pub(super) fn named(&mut self, key: &FlowKey) {
        for (pool, address, space, port) in self.ports(key).into_iter().flatten() {
            self.name_port(pool, address, space, port);
        }
    }

    /// A unit has this name from the switch before. Of a unit of one flow it says nothing
    /// of leases: the unit may have got names that no entry asked for.
    pub(super) fn restored(&mut self, unit: UnitId, key: &FlowKey, is_wide: bool) {
        self.named(key);
        for (pool, address, space, port) in self.ports(key).into_iter().flatten() {
            if is_wide {
                let lease = PortLease {
                    address: address as u16,
                    port,
                    space,
                };
                let all = self.restored.entry(unit).or_default();
                all.push((PoolId(pool as u8), lease));
            }
        }
    }

    /// A flow of the unit, known from the switch before, has an end on a port. It may have leased
    /// it without an alias, of a runtime that is dead, and nobody would say so: the unit has
    /// the port until it ends.
    pub(super) fn hold(&mut self, unit: UnitId, key: &FlowKey) {
        for (pool, address, space, port) in self.ports(key).into_iter().flatten() {
            let lease = PortLease {
                address: address as u16,
                port,
                space,
            };
            self.lease(unit, PoolId(pool as u8), lease, false);
        }
    }

    /// True where the unit had a name on the port, and has it no more: nobody has one now, or the
    /// port is leased by another unit's claim. The flow that had the port is over.
    fn has_lost_name(&self, unit: UnitId, pool: PoolId, lease: PortLease) -> bool {
        let restored = self.restored.get(&unit);
        let had_one = restored.is_some_and(|all| all.contains(&(pool, lease)));
        let port = self.port(pool, lease);
        had_one && port.is_none_or(|port| port.names == 0 || port.leased)
    }

    fn name_port(&mut self, pool: usize, address: usize, space: PortSpace, port: u16) {
        if let Some((_, port, used)) = self.port_mut(pool, address, space, port) {
            port.names = port.names.saturating_add(1);
            *used += u32::from(port.names == 1);
        }
    }

    /// A name has gone: gives the leased ports that have none left.
    pub(super) fn unnamed(&mut self, key: &FlowKey) -> [Option<Freed>; 2] {
        self.ports(key).map(|port| {
            let (pool, address, space, port) = port?;
            self.unname_port(pool, address, space, port)
        })
    }

    fn unname_port(
        &mut self,
        pool: usize,
        address: usize,
        space: PortSpace,
        port: u16,
    ) -> Option<Freed> {
        let (holder, record, used) = self.port_mut(pool, address, space, port)?;
        record.names = record.names.checked_sub(1)?;
        if record.names > 0 {
            return None;
        }
        let was_leased = core::mem::take(&mut record.leased);
        *used = used.saturating_sub(1);
        self.may_serve |= *used == 0;
        let lease = PortLease {
            address: address as u16,
            port,
            space,
        };
        was_leased.then_some((holder, PoolId(pool as u8), lease))
    }

    /// A port was leased in an entry that was let out. Without a name of the unit's it is
    /// the unit's until that ends: true then.
    pub(super) fn lease(
        &mut self,
        unit: UnitId,
        pool: PoolId,
        lease: PortLease,
        is_named: bool,
    ) -> bool {
        let (number, address) = (usize::from(pool.0), usize::from(lease.address));
        let Some((_, port, _)) = self.port_mut(number, address, lease.space, lease.port) else {
            return false;
        };
        port.leased = true;
        if is_named {
            return false;
        }
        let held = self.held.entry(unit).or_default();
        if held.contains(&(pool, lease)) {
            return false;
        }
        held.push((pool, lease));
        self.name_port(number, address, lease.space, lease.port);
        true
    }

    /// The unit is over: gives the ports that it held and that have no name.
    pub(super) fn let_go(&mut self, unit: UnitId) -> Vec<Freed> {
        self.restored.remove(&unit);
        let held = self.held.remove(&unit).unwrap_or_default();
        held.into_iter()
            .filter_map(|(pool, lease)| {
                let (pool, address) = (usize::from(pool.0), usize::from(lease.address));
                self.unname_port(pool, address, lease.space, lease.port)
            })
            .collect()
    }

    /// All blocks.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.pools.iter().flat_map(|pool| &pool.all)
    }

    /// Ports that units have until they end, or had before a restart, but for one unit.
    pub(super) fn held_but(&self, but: UnitId) -> usize {
        let units = self.held.keys().chain(self.restored.keys());
        units.filter(|unit| **unit != but).count()
    }

    /// Where the ports' books and these names, all aliases that there are, disagree, in words.
    pub(super) fn audit(&self, names: &[FlowKey]) -> Option<String> {
        let mut right: BTreeMap<(usize, usize, u8, u16), u16> = BTreeMap::new();
        for (pool, address, space, port) in names.iter().flat_map(|key| self.ports(key)).flatten() {
            *right.entry((pool, address, space as u8, port)).or_default() += 1;
        }
        for (pool, lease) in self.held.values().flatten() {
            let (pool, address) = (usize::from(pool.0), usize::from(lease.address));
            let port = (pool, address, lease.space as u8, lease.port);
            *right.entry(port).or_default() += 1;
        }
        for (number, pool) in self.pools.iter().enumerate() {
            let size = usize::from(pool.spec.block.max(1));
            for (at, block) in pool.all.iter().enumerate() {
                let mut used = [0; SPACES];
                for (place, port) in block.ports.iter().enumerate() {
                    let (space, offset) = (place / size, place % size);
                    let address = at / pool.blocks;
                    let port_number = (at % pool.blocks * size + offset) as u16;
                    let key = (number, address, space as u8, port_number);
                    let names = right.remove(&key).unwrap_or(0);
                    if port.names != names || port.leased && names == 0 {
                        return Some(format!(
                            "port {port_number} has {} names, {names} is right",
                            port.names
                        ));
                    }
                    if let Some(used) = used.get_mut(space) {
                        *used += u32::from(names > 0);
                    }
                }
                if used != block.used {
                    let says = block.used;
                    return Some(format!(
                        "ports used in a block: {says:?}, {used:?} is right"
                    ));
                }
            }
        }
        let port = right.first_key_value();
        port.map(|((.., port), _)| format!("port {port} has a name that is not counted"))
    }

    /// The block of a port, and the port's place in it.
    fn block_of(&self, pool: PoolId, lease: PortLease) -> Option<(&Block, usize)> {
        let pool = self.pools.get(usize::from(pool.0))?;
        let size = usize::from(pool.spec.block.max(1));
        let at = usize::from(lease.address) * pool.blocks + usize::from(lease.port) / size;
        let place = lease.space as usize * size + usize::from(lease.port) % size;
        Some((pool.all.get(at)?, place))
    }

    fn port(&self, pool: PoolId, lease: PortLease) -> Option<&Port> {
        let (block, place) = self.block_of(pool, lease)?;
        block.ports.get(place)
    }

    /// True where a port is leased, or is of no block of `slot`'s.
    pub(super) fn is_leased(&self, slot: Slot, pool: PoolId, lease: PortLease) -> bool {
        let port = self.port(pool, lease);
        !self.is_in_block_of(slot, pool, lease) || port.is_some_and(|port| port.leased)
    }

    /// True where a port is of a block of `slot`'s.
    fn is_in_block_of(&self, slot: Slot, pool: PoolId, lease: PortLease) -> bool {
        let block = self.block_of(pool, lease);
        block.is_some_and(|(block, _)| block.holder == slot)
    }

    /// Ports without a name that `slot` has of an address, in the space where
    /// it has fewest; and whether it has a block of it at all.
    fn left(&self, pool: &Pool, slot: Slot, address: usize) -> (bool, u32) {
        let mut free = [0u32; SPACES];
        let mut any = false;
        for (number, block) in pool.all[pool.blocks_at(address)].iter().enumerate() {
            if block.holder == slot {
                any = true;
                for (free, used) in free.iter_mut().zip(block.used) {
                    *free += (pool.ports_of(number).len() as u32).saturating_sub(used);
                }
            }
        }
        (any, free.into_iter().min().unwrap_or(0))
    }
}

impl Switch {
    /// One block of each address for a runtime that has none of it.
    pub(super) fn grant_first(&mut self, _now: Time, slot: Slot) {
        if self.runtimes.is_logger(slot) {
            return;
        }
        for pool in 0..self.lessor.pools.len() {
            for address in 0..self.addresses_of(pool) {
                let has = self
                    .lessor
                    .pools
                    .get(pool)
                    .is_some_and(|p| self.lessor.left(p, slot, address).0);
                if !has {
                    self.grant(slot, pool, address);
                }
            }
        }
    }

    fn addresses_of(&self, pool: usize) -> usize {
        self.lessor
            .pools
            .get(pool)
            .map_or(0, |pool| pool.spec.addresses.len())
    }

    /// A runtime has few ports left in a pool: a block of each address of
    /// which it has less than half a one. One that seems to have enough has taken what is not
    /// let out yet, or a grant is on its way: it gets a block now and then, or, where
    /// nothing is lost on the way, each time that it asks.
    pub(super) fn lease_wanted(&mut self, now: Time, slot: Slot, pool: PoolId) {
        let number = usize::from(pool.0);
        let Some(pool) = self.lessor.pools.get(number) else {
            self.counts.add(SwitchCount::MessageMisdirected);
            return;
        };
        if self.recovery.is_some() {
            // The taken blocks are not known yet.
            let all = 0..pool.spec.addresses.len();
            let all = all.map(|address| (slot, number, address));
            return self.lessor.waiting.extend(all);
        }
        let mut needed = Vec::new();
        let mut least = (u32::MAX, 0);
        for address in 0..pool.spec.addresses.len() {
            let (_, left) = self.lessor.left(pool, slot, address);
            least = least.min((left, address));
            if left < pool.half_block() {
                needed.push(address);
            }
        }
        if needed.is_empty() {
            if !self.settings.lossless && !self.may_have_more(now, slot, number) {
                return;
            }
            needed.push(least.1);
        }
        for address in needed {
            self.grant(slot, number, address);
        }
    }

    /// True now and then of a runtime that seems to have enough. It is told again what it may not
    /// have heard of.
    fn may_have_more(&mut self, now: Time, slot: Slot, number: usize) -> bool {
        self.say_blocks_again(slot, number);
        let pause = self.settings.repeat_after.saturating_mul(4);
        let Some(pool) = self.lessor.pools.get_mut(number) else {
            return false;
        };
        let last = pool.granted.get(&slot);
        let may = last.is_none_or(|last| now.since(*last) >= pause);
        if may {
            pool.granted.insert(slot, now);
        }
        may
    }

    /// A runtime that runs low may not have heard of a block: those without a name are said
    /// again, a few at a time. It takes each once.
    fn say_blocks_again(&mut self, slot: Slot, number: usize) {
        let Some(pool) = self.lessor.pools.get(number) else {
            return;
        };
        let unused = pool.all.iter().enumerate();
        let unused = unused.filter(|(_, block)| block.holder == slot && block.live() == 0);
        let unused: Vec<usize> = unused.take(SAID_AGAIN).map(|(at, _)| at).collect();
        let blocks = pool.blocks;
        for at in unused {
            self.counts.add(SwitchCount::BlockSaidAgain);
            self.tell(
                slot,
                Message::LeaseGranted {
                    pool: PoolId(number as u8),
                    address: (at / blocks) as u16,
                    block: (at % blocks) as u16,
                },
            );
        }
    }

    /// A runtime does not know whether its ports are still in use.
    pub(super) fn ports_doubted(
        &mut self,
        from: Slot,
        pool: PoolId,
        doubts: Vec<(PortLease, Option<UnitId>)>,
    ) {
        if self.recovery.is_some() || doubts.len() > DOUBTS {
            // Not all names are known yet; it asks again.
            return;
        }
        let (mut leased, mut free) = (Vec::new(), Vec::new());
        for (lease, unit) in doubts {
            // A port that another unit has by its claim this one may have, too: it is leased
            // until both are over.
            let goes_on = self.lessor.restarted
                && self.lessor.is_in_block_of(from, pool, lease)
                && self.lease_goes_on(unit, pool, lease);
            if goes_on || self.lessor.is_leased(from, pool, lease) {
                leased.push(lease);
            } else if self.lessor.restarted || !unit.is_some_and(|unit| self.may_still_lease(unit))
            {
                free.push(lease);
            }
        }
        self.counts
            .add_many(SwitchCount::PortUnnamed, free.len() as u64);
        if !(free.is_empty() && leased.is_empty()) {
            self.tell(from, Message::PortsKnown { pool, free, leased });
        }
    }

    /// Packets of the unit are on their way: the entry that leased the port may be with the
    /// unit's new holders, and be let out yet. Its owner asks again.
    fn may_still_lease(&self, unit: UnitId) -> bool {
        if self.settings.plant == Some(Plant::DoubtedFree) {
            return false;
        }
        let place = self.units.find(unit);
        let unit = place.map(|place| self.units.at(place));
        unit.is_some_and(|unit| unit.out < unit.sent)
    }

    /// The switch before this one may have let out the entry in which `unit` leased the
    /// port: as long as the unit lives the port is its, since its state may have it. True
    /// then. The unit of packets without a flow leases nothing, and never ends.
    fn lease_goes_on(&mut self, unit: Option<UnitId>, pool: PoolId, lease: PortLease) -> bool {
        let is_live = |unit: &UnitId| {
            self.units.find(*unit).is_some()
                && unit.0 != self.classifier.liaison()
                && self.settings.plant != Some(Plant::LeasesNotRestored)
        };
        let Some(unit) = unit.filter(is_live) else {
            return false;
        };
        // A unit of one flow may have got names that no entry asked for
        // ([`Switch::restore_names`]): they do not tell when a port is free.
        let is_named = self.classifier.has_wide_units() && {
            let mut names = self.classifier.aliases_of(unit.0);
            names.any(|key| self.lessor.lies_on(&key, pool, lease))
        };
        if !is_named && self.lessor.has_lost_name(unit, pool, lease) {
            return false;
        }
        if self.lessor.lease(unit, pool, lease, is_named) {
            self.counts.add(SwitchCount::PortHeld);
        }
        true
    }

    /// Grants free blocks to runtimes that asked in vain and are short of ports still.
    pub(super) fn serve_waiting(&mut self) {
        let may_serve = self.recovery.is_none() && !self.lessor.waiting.is_empty();
        if !may_serve || !core::mem::take(&mut self.lessor.may_serve) {
            return;
        }
        for (slot, number, address) in core::mem::take(&mut self.lessor.waiting) {
            let pool = self.lessor.pools.get(number);
            let is_short = pool
                .is_some_and(|pool| self.lessor.left(pool, slot, address).1 < pool.half_block());
            if is_short && self.runtimes.is_here(slot) {
                self.grant_or_wait(slot, number, address);
            }
        }
    }

    /// A runtime is gone, or all blocks are known: some may be free.
    pub(super) fn blocks_may_be_free(&mut self) {
        self.lessor.may_serve = true;
        self.serve_waiting();
    }

    /// Grants a block of an address. Where none is free, which is counted, the runtime waits.
    fn grant(&mut self, slot: Slot, number: usize, address: usize) {
        if !self.grant_or_wait(slot, number, address) {
            self.counts.add(SwitchCount::NoBlock);
        }
    }

    /// Grants a block of an address; false where none is free: the runtime waits for one.
    fn grant_or_wait(&mut self, slot: Slot, number: usize, address: usize) -> bool {
        let Some(pool) = self.lessor.pools.get(number) else {
            return false;
        };
        // Blocks that another switch may have granted, from the low end, come last.
        let last = pool.blocks.saturating_sub(1);
        let mut order = (0..pool.blocks).map(|at| match self.lessor.restarted {
            true => last - at,
            false => at,
        });
        let from = address * pool.blocks;
        let found = order.find(|&block| {
            !pool.ports_of(block).is_empty()
                && pool.all.get(from + block).is_some_and(|b| self.is_free(b))
        });
        let Some(block) = found else {
            // No event says when the packets of a holder that is gone are over: look again.
            let mut all = pool.all[pool.blocks_at(address)].iter();
            self.lessor.may_serve |= all.any(|block| self.is_left_behind(block));
            self.lessor.waiting.insert((slot, number, address));
            return false;
        };
        self.lessor.waiting.remove(&(slot, number, address));
        let mut again = false;
        if let Some(record) = self
            .lessor
            .pools
            .get_mut(number)
            .and_then(|pool| pool.all.get_mut(from + block))
        {
            again = record.holder != 0;
            record.holder = slot;
        }
        self.counts.add(if again {
            SwitchCount::BlockGrantedAgain
        } else {
            SwitchCount::BlockGranted
        });
        self.tell(
            slot,
            Message::LeaseGranted {
                pool: PoolId(number as u8),
                address: address as u16,
                block: block as u16,
            },
        );
        true
    }

    /// True where a pool has a block that may be granted: for tests.
    pub fn has_free_block(&self) -> bool {
        self.lessor.pools.iter().any(|pool| {
            let all = pool.all.iter().enumerate();
            let mut all = all.map(|(at, block)| (pool.ports_of(at % pool.blocks), block));
            all.any(|(ports, block)| !ports.is_empty() && self.is_free(block))
        })
    }

    /// True of a block that nobody has and nobody can get.
    pub(super) fn is_lost(&self, block: &Block) -> bool {
        (block.holder == 0 || self.runtimes.is_gone(block.holder)) && !self.is_free(block)
    }

    /// A block may be granted where nobody has it, or its holder is gone,
    /// nothing that it numbered is on its way, and no name lies in it.
    fn is_free(&self, block: &Block) -> bool {
        if block.holder == 0 {
            return block.live() == 0;
        }
        if self.settings.plant == Some(Plant::BlockLeasedAgain) {
            return self.runtimes.is_gone(block.holder);
        }
        let era = self.runtimes.get(block.holder).map_or(0, |gone| gone.era);
        self.is_left_behind(block) && self.kept.is_over(era)
    }

    /// The holder of the block is gone, and no name lies in it.
    fn is_left_behind(&self, block: &Block) -> bool {
        block.holder != 0 && self.runtimes.is_gone(block.holder) && block.live() == 0
    }
}
