//! Ports of live units, and the runtimes that lease ports.

use weir_nf::{PoolId, PortLease};
use weir_protocol::{Actors, UnitId};

use super::process::Process;
use super::{Phase, World};
use crate::check::Invariant;

/// Time after which a runtime has the ports that it asks for, nanoseconds.
const LOW: u64 = 100_000_000;

impl World<'_> {
    /// A port that a live unit has, or will have with an entry that may be let out yet, is free in
    /// no runtime that may lease it again.
    pub(super) fn look_at_ports(&mut self) {
        if !self.plan.chain.is_nat() {
            return;
        }
        if let Some((unit, text)) = self.free_and_bound() {
            self.checker.violated(Invariant::Bindings, Some(unit), text);
        }
    }

    /// A runtime that runs low of ports gets more, where there are some: it asks until it does.
    pub(super) fn look_at_low_pools(&mut self) {
        let now = self.now;
        let switch = self.running_switch();
        let lends = switch.is_some_and(|switch| !switch.is_recovering() && switch.has_free_block());
        let process = self.switch.and_then(|no| self.processes.get(no));
        let is_paused = process.is_none_or(|process| process.paused_until.is_some());
        if !lends || is_paused || self.links.is_cut(now) || self.phase != Phase::Busy {
            return self.low_since.clear();
        }
        let is_low = |process: &Process| {
            let is_awake = process.is_useful() && process.paused_until.is_none();
            let engine = process.actors().filter(|_| is_awake).map(Actors::engine);
            engine.is_some_and(|engine| {
                let leases = engine.leases();
                leases.pools().any(|pool| leases.is_low(pool))
            })
        };
        let mut unserved = None;
        for (no, process) in self.processes.iter().enumerate() {
            if !is_low(process) {
                self.low_since.remove(&no);
            } else if *self.low_since.entry(no).or_insert(now) + LOW < now {
                unserved = Some(process.name());
            }
        }
        if let Some(name) = unserved {
            let text = format!("{name} has few ports for {} us, and gets none", LOW / 1_000);
            self.checker.violated(Invariant::Stuck, None, text);
        }
    }

    fn free_and_bound(&self) -> Option<(UnitId, String)> {
        let lives = |id: &UnitId| {
            let unit = self.checker.units.get(id);
            // What a claimed unit has is known when its view opens: its mapping may have
            // ended in an entry that the switch before never let out.
            unit.is_some_and(|unit| unit.is_live() && !unit.adrift && !unit.unopened)
        };
        let ports = self.checker.reference.ports();
        let ports = ports.chain(self.checker.ports_to_come());
        let mut ports = ports.filter(|(unit, _)| lives(unit));
        let useful = || self.processes.iter().filter(|p| p.is_useful());
        let has_free = |process: &Process, (pool, lease): (PoolId, PortLease)| {
            let actors = process.actors();
            actors.is_some_and(|actors| actors.engine().leases().is_free(pool, lease))
        };
        ports.find_map(|(unit, port)| {
            let name = useful().find(|process| has_free(process, port))?.name();
            let (port, space) = (port.1.port, port.1.space);
            let text = format!("{name} may lease port {port} ({space:?}), which the unit has");
            Some((unit, text))
        })
    }
}
