//! Port blocks, asked for when they run low and granted by the switch; and the
//! ports in use.
//!
//! The switch gives a port back when its last name goes. It never hears of a
//! port whose lease it did not let out: where the view of such a lease is over,
//! or the switch has started again, the port is in *doubt*, and the switch is
//! asked whether it is leased.

use std::collections::{BTreeMap, BTreeSet};

use weir_nf::{PoolId, PortLease};
use weir_packet::{Disposition, Time};
use weir_runtime::notes::{self, Note};

use super::kept::Kept;
use super::{ActorCount, Actors};
use crate::ids::{Clock, UnitId, View};
use crate::message::{DOUBTS, Entry, Message, Part};
use crate::plant::Plant;

/// A port of a pool.
type Port = (PoolId, PortLease);

/// Repeat intervals after which the switch is asked about a port of a unit that is not here:
/// its word that the port is free may have been lost.
const LOOK_INTERVALS: u64 = 256;

/// The packet that leased a port.
#[derive(Clone, Copy, Debug)]
struct Leased {
    unit: UnitId,
    clock: Clock,
    at: Time,
}

/// The ports of this runtime.
#[derive(Debug, Default)]
pub(super) struct Ports {
    /// Ports in use.
    leased: BTreeMap<Port, Leased>,
    /// Ports in doubt, with the leasing unit.
    doubts: BTreeMap<Port, Option<UnitId>>,
    /// When the switch was last asked about them.
    asked: Option<Time>,
    /// When ports in use were last looked through.
    looked: Time,
}

impl Ports {
    /// Notes the ports that an entry has leased.
    pub(super) fn note(&mut self, at: Time, (unit, clock): (UnitId, Clock), parts: &[Part]) {
        for port in leased_in(parts) {
            self.leased.insert(port, Leased { unit, clock, at });
        }
    }

    /// Ports in use.
    pub(super) fn leased(&self) -> u64 {
        self.leased.len() as u64
    }

    /// Ports in doubt.
    pub(super) fn doubted(&self) -> usize {
        self.doubts.len()
    }

    /// Doubts all ports in use; gives the number in doubt.
    fn doubt_all(&mut self) -> u64 {
        let units = self
            .leased
            .iter()
            .map(|(port, leased)| (*port, Some(leased.unit)));
        self.doubts.extend(units);
        self.asked = None;
        self.doubts.len() as u64
    }

    /// The port is free; false where it was not in use.
    fn free(&mut self, port: Port) -> bool {
        self.doubts.remove(&port);
        self.leased.remove(&port).is_some()
    }
}

/// Ports that were leased in an entry with these parts.
fn leased_in(parts: &[Part]) -> impl Iterator<Item = Port> + '_ {
    let notes = parts.iter().filter(|p| p.disposition == Disposition::Notes);
    notes
        .flat_map(|part| notes::read(&part.bytes))
        .filter_map(|note| match note {
            Ok(Note::Leased { pool, lease }) => Some((pool, lease)),
            _ => None,
        })
}

impl Actors {
    /// True where a switch is known that could grant ports.
    fn may_want_leases(&self) -> bool {
        self.generation != 0 && !self.settings.is_logger
    }

    /// Now, where a pool is low and the switch was not asked yet. The switch remembers the
    /// question.
    pub(super) fn leases_at(&self) -> Option<Time> {
        let is_due = |(pool, asked): &(PoolId, Option<Time>)| {
            asked.is_none() && self.engine.leases().is_low(*pool)
        };
        (self.may_want_leases() && self.wanted.iter().any(is_due)).then_some(Time::ZERO)
    }

    /// Asks for more of each pool that is low, once in a while.
    pub(super) fn want_leases(&mut self, now: Time) {
        if !self.may_want_leases() {
            return;
        }
        for number in 0..self.wanted.len() {
            let (pool, asked) = &mut self.wanted[number];
            let pool = *pool;
            if !self.engine.leases().is_low(pool) {
                *asked = None;
                continue;
            }
            let due = asked.map(|at| at.plus(self.settings.repeat_after));
            if due.is_none_or(|due| due <= now) {
                *asked = Some(now);
                if self.settings.plant != Some(Plant::WordUncounted) {
                    self.counts.add(ActorCount::LeaseWanted);
                }
                self.tell_switch(Message::LeaseWanted { pool });
            }
        }
    }

    pub(super) fn granted(&mut self, pool: PoolId, address: u16, block: u16) {
        if !self.granted.insert((pool.0, address, block)) {
            return self.counts.add(ActorCount::MessageStale);
        }
        self.counts.add(ActorCount::LeaseGranted);
        self.engine.leases_mut().grant(pool, address, block);
        // A pool that is still low is asked for again now: flows take ports faster than repeats come.
        if let Some((_, asked)) = self.wanted.iter_mut().find(|(wanted, _)| *wanted == pool) {
            *asked = None;
        }
    }

    /// Tells a switch that starts again which blocks are held here.
    pub(super) fn claim_blocks(&mut self) {
        let granted: Vec<_> = self.granted.iter().copied().collect();
        for (pool, address, block) in granted {
            self.counts.add(ActorCount::LeaseClaimed);
            self.tell_switch(Message::LeaseGranted {
                pool: PoolId(pool),
                address,
                block,
            });
        }
    }

    /// The switch says that a port is free. One that started again may say so of a port at which
    /// a flow of an earlier packet ended, while a packet that it has not let out has leased the
    /// port anew: the switch is asked then.
    pub(super) fn freed(&mut self, pool: PoolId, lease: PortLease) {
        self.counts.add(ActorCount::PortFreed);
        if let Some(unit) = self.unheard_lessee((pool, lease)) {
            self.counts.add(ActorCount::PortDoubted);
            self.ports.doubts.insert((pool, lease), Some(unit));
            self.ports.asked = None;
            return;
        }
        if self.settings.plant != Some(Plant::PortStaysKnown) {
            self.ports.free((pool, lease));
        }
        self.engine.leases_mut().free(pool, lease);
    }

    /// The unit whose entry leased the port, where that is not known to be let out.
    fn unheard_lessee(&self, port: Port) -> Option<UnitId> {
        let leased = self.ports.leased.get(&port)?;
        let cold = self.cold.get(&leased.unit)?;
        let kept = cold.stored.values().map(|stored| &stored.kept);
        let mut entries = kept.chain([&cold.live.kept]).flat_map(Kept::iter);
        let is_its = |entry: &Entry| {
            entry.clock == leased.clock && leased_in(&entry.parts).any(|its| its == port)
        };
        entries.any(is_its).then_some(leased.unit)
    }

    /// The switch before this one may have let anything out, or not.
    pub(super) fn doubt_all_ports(&mut self) {
        if self.settings.plant != Some(Plant::LeasesForgotten) {
            let doubted = self.ports.doubt_all();
            self.counts.add_many(ActorCount::PortDoubted, doubted);
        }
    }

    /// Actors of a unit are forgotten, with entries that are not known to be let
    /// out: what was leased in those is in doubt, except where the live actor, or
    /// a stored one that stays, has the entry too.
    pub(super) fn doubt_ports(
        &mut self,
        unit: UnitId,
        forgotten: &[Kept],
        stays: impl Fn(View) -> bool,
    ) {
        if self.ports.leased.is_empty() || self.settings.plant == Some(Plant::LeasesForgotten) {
            return;
        }
        let mut doubts = BTreeSet::new();
        for entry in forgotten.iter().flat_map(Kept::iter) {
            let mine = |port: &Port| {
                let leased = self.ports.leased.get(port);
                leased.is_some_and(|leased| (leased.unit, leased.clock) == (unit, entry.clock))
            };
            doubts.extend(leased_in(&entry.parts).filter(mine));
        }
        if let Some(cold) = self.cold.get(&unit) {
            let stored = cold.stored.iter().filter(|(view, _)| stays(**view));
            let stored = stored.map(|(_, stored)| &stored.kept);
            for entry in stored.chain([&cold.live.kept]).flat_map(Kept::iter) {
                for port in leased_in(&entry.parts) {
                    doubts.remove(&port);
                }
            }
        }
        if !doubts.is_empty() {
            self.counts
                .add_many(ActorCount::PortDoubted, doubts.len() as u64);
            for port in doubts {
                self.ports.doubts.insert(port, Some(unit));
            }
            self.ports.asked = None;
        }
    }

    /// Entries up to `out` were let out, of `view` or of one that it follows:
    /// what was leased in the same entries of other views may have been given up
    /// with those.
    pub(super) fn doubt_other_views(&mut self, unit: UnitId, view: View, out: Clock) {
        if self.ports.leased.is_empty() {
            return;
        }
        let Some(cold) = self.cold.get(&unit) else {
            return;
        };
        let others = cold.stored.iter().filter(|(its, _)| **its != view);
        let done: Vec<Kept> = others.map(|(_, stored)| stored.kept.up_to(out)).collect();
        if !done.iter().all(Kept::is_empty) {
            self.doubt_ports(unit, &done, |its| its == view);
        }
    }

    /// When the switch is next asked about ports in doubt.
    pub(super) fn doubts_at(&self) -> Option<Time> {
        let after = self.settings.repeat_after;
        let due = self.ports.asked.map_or(Time::ZERO, |at| at.plus(after));
        let doubts = (!self.ports.doubts.is_empty()).then_some(due);
        let look = self.ports.looked.plus(self.look_interval());
        let look = (!self.ports.leased.is_empty()).then_some(look);
        doubts.into_iter().chain(look).min()
    }

    fn look_interval(&self) -> u64 {
        self.settings.repeat_after.saturating_mul(LOOK_INTERVALS)
    }

    /// Doubts ports that were leased long ago, of units that are not here.
    fn look_after_ports(&mut self, now: Time) {
        let interval = self.look_interval();
        if now.since(self.ports.looked) < interval {
            return;
        }
        self.ports.looked = now;
        if self.settings.plant == Some(Plant::LeasesForgotten) {
            return;
        }
        let is_old = |leased: &Leased| now.since(leased.at) >= interval;
        let leased = self.ports.leased.iter();
        let strange =
            leased.filter(|(_, leased)| is_old(leased) && self.table.live(leased.unit).is_none());
        let strange: Vec<(Port, UnitId)> = strange.map(|(port, l)| (*port, l.unit)).collect();
        let count = strange.len() as u64;
        self.counts.add_many(ActorCount::PortDoubted, count);
        for (port, unit) in strange {
            self.ports.doubts.entry(port).or_insert(Some(unit));
        }
    }

    /// Asks the switch about ports in doubt, once in a while.
    pub(super) fn ask_about_ports(&mut self, now: Time) {
        if self.doubts_at().is_none_or(|at| at > now) {
            return;
        }
        self.look_after_ports(now);
        let again = self
            .ports
            .asked
            .map(|at| at.plus(self.settings.repeat_after));
        if self.ports.doubts.is_empty() || again.is_some_and(|at| at > now) {
            return;
        }
        self.ports.asked = Some(now);
        let mut of_pool: BTreeMap<PoolId, Vec<(PortLease, Option<UnitId>)>> = BTreeMap::new();
        for ((pool, lease), unit) in &self.ports.doubts {
            let doubts = of_pool.entry(*pool).or_default();
            if doubts.len() < DOUBTS {
                doubts.push((*lease, *unit));
            }
        }
        for (pool, doubts) in of_pool {
            self.tell_switch(Message::PortsDoubted { pool, doubts });
        }
    }

    /// The switch's answer.
    pub(super) fn ports_known(
        &mut self,
        pool: PoolId,
        free: Vec<PortLease>,
        leased: Vec<PortLease>,
    ) {
        for lease in leased {
            self.ports.doubts.remove(&(pool, lease));
        }
        for lease in free {
            // A port that was freed meanwhile may be leased anew.
            if self.ports.doubts.contains_key(&(pool, lease)) && self.ports.free((pool, lease)) {
                self.counts.add(ActorCount::PortReturned);
                self.engine.leases_mut().free(pool, lease);
            }
        }
        self.ports.asked = None;
    }
}
