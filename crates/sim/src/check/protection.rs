//! Protection: every unit has a live replica, on another host than its owner
//! where there is one, and a logger if there is one as far away, within a bound after a
//! failure.

use weir_protocol::settings::Replication;
use weir_protocol::{RuntimeId, UnitId};

use super::unit::UnitRecord;
use super::{Checker, Cluster, Invariant};

impl Checker {
    /// A unit that is not protected although one of `keepers` could keep a copy.
    pub(crate) fn unprotected(
        &self,
        keepers: &[RuntimeId],
        cluster: &dyn Cluster,
    ) -> Option<(UnitId, String)> {
        let mut units = self.units.iter();
        units.find_map(|(id, unit)| Some((*id, self.exposure(unit, keepers, cluster)?)))
    }

    /// Units in whose view nobody keeps a copy; 0 where nobody is to.
    pub(crate) fn without_replica(&self) -> u64 {
        let units = self.units.values().filter(|unit| unit.is_live());
        match self.replication {
            Replication::None => 0,
            _ => units.filter(|unit| unit.current.replica.is_none()).count() as u64,
        }
    }

    /// A unit whose owner has still to apply what was let out before it.
    pub(crate) fn behind(&self, cluster: &dyn Cluster) -> Option<(UnitId, String)> {
        self.units.iter().find_map(|(id, unit)| {
            let is_over = !unit.is_live() || unit.sent == 0;
            let stored = cluster.stored(unit.current.owner, *id, unit.current.view)?;
            let text = format!("the owner has applied {} of {}", stored.0, unit.out);
            (!is_over && stored.0 < unit.out).then_some((*id, text))
        })
    }

    /// The part that a unit's protection lacks.
    fn exposure(
        &self,
        unit: &UnitRecord,
        keepers: &[RuntimeId],
        cluster: &dyn Cluster,
    ) -> Option<String> {
        let is_over = !unit.is_live() || unit.sent == 0;
        if is_over || self.replication == Replication::None {
            return None;
        }
        let owner = unit.current.owner;
        let mut others = keepers.iter().filter(|r| **r != owner).peekable();
        others.peek()?;
        let Some(replica) = unit.current.replica.filter(|r| !cluster.is_gone(*r)) else {
            return Some("it has no live replica".to_owned());
        };
        let is_near = |r: RuntimeId| {
            let host = cluster.host(owner);
            host.is_some() && host == cluster.host(r)
        };
        let could = |r: &RuntimeId| cluster.is_logger(*r) && is_near(*r) <= is_near(replica);
        if !cluster.is_logger(replica) && others.clone().any(could) {
            return Some("a runtime keeps its copy, and a logger could".to_owned());
        }
        let host = cluster.host(owner).filter(|_| is_near(replica));
        host.filter(|_| others.any(|other| !is_near(*other)))
            .map(|host| format!("owner and replica are on host {host}"))
    }

    /// So much time has passed in which nothing kept the switch from protecting
    /// units: none is without protection for longer than `bound`.
    pub(crate) fn protects(
        &mut self,
        (passed, bound): (u64, u64),
        keepers: &[RuntimeId],
        cluster: &dyn Cluster,
    ) {
        let mut exposed = core::mem::take(&mut self.exposed);
        let mut late = None;
        exposed.retain(|id, _| self.units.contains_key(id));
        for (id, unit) in &self.units {
            let Some(text) = self.exposure(unit, keepers, cluster) else {
                exposed.remove(id);
                continue;
            };
            let time = exposed.entry(*id).or_default();
            *time += passed;
            if *time > bound {
                late = late.or(Some((*id, text)));
            }
        }
        self.exposed = exposed;
        if let Some((id, text)) = late {
            let text = format!("for {} ms {text}", bound / 1_000_000);
            self.violated(Invariant::Protection, Some(id), text);
        }
    }
}
