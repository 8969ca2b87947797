//! Ports of live units, and the runtimes that lease ports.

use weir_nf::{PoolId, PortLease};
use weir_protocol::UnitId;

use super::World;
use super::process::Process;
use crate::check::Invariant;

impl World<'_> {
    /// A port that a live unit has is free in no runtime that may lease it again.
    pub(super) fn look_at_ports(&mut self) {
        if let Some((unit, text)) = self.free_and_bound() {
            self.checker.violated(Invariant::Bindings, Some(unit), text);
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
