//! Port blocks: asked for when they run low, granted by the switch.

use weir_nf::{PoolId, PortLease};
use weir_packet::Time;

use super::{ActorCount, Actors};
use crate::message::Message;

impl Actors {
    /// Asks for more of each pool that is low, once in a while.
    pub(super) fn want_leases(&mut self, now: Time) {
        if self.generation == 0 {
            return;
        }
        for number in 0..self.wanted.len() {
            let Some((pool, asked)) = self.wanted.get_mut(number) else {
                continue;
            };
            let pool = *pool;
            if !self.engine.leases().is_low(pool) {
                *asked = None;
                continue;
            }
            let due = asked.map(|at| at.plus(self.settings.repeat_after));
            if due.is_none_or(|due| due <= now) {
                *asked = Some(now);
                self.counts.add(ActorCount::LeaseWanted);
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

    pub(super) fn freed(&mut self, pool: PoolId, lease: PortLease) {
        self.counts.add(ActorCount::PortFreed);
        self.engine.leases_mut().free(pool, lease);
    }
}
