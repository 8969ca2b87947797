//! The failures that are within the promise.
//!
//! The design promises that any one runtime's death loses nothing, and "one at
//! a time" is about dependence: a unit must not lose both holders of its state.
//! So a failure may come at any moment, in the middle of moves, of other
//! failures' repair and of a switch restart, as long as each unit keeps a
//! holder.

use weir_protocol::journal::{Done, Start};
use weir_protocol::settings::Replication;
use weir_protocol::{Clock, RuntimeId, UnitId};

use super::unit::UnitRecord;
use super::{Checker, Cluster, Invariant};

impl Checker {
    /// True where no unit depends on `dying` alone: their death at once, on top of
    /// what is gone already, is one that the design promises to survive. Without
    /// a runtime it is the switch that dies.
    pub(crate) fn can_lose(&self, dying: &[RuntimeId], cluster: &dyn Cluster) -> bool {
        let alive = |r: RuntimeId| !dying.contains(&r) && !cluster.is_gone(r);
        let survives = |(id, unit): (&UnitId, &UnitRecord)| {
            if unit.ended || unit.lost {
                return true;
            }
            if self.replication == Replication::None {
                // A death loses units, by name; but a switch that starts again would
                // go on from the older copy of a move's source.
                let has_switch = !dying.is_empty() && cluster.packets_since(*id).is_some();
                let settled = unit.settled.or(unit.before).map(|settled| settled.owner);
                return has_switch || alive(unit.current.owner) && settled.is_none_or(alive);
            }
            // Where the switch has packets that no other state contains, the unit
            // depends on it too.
            let is_periodic = matches!(self.replication, Replication::Every(_));
            let has_switch = !dying.is_empty() && cluster.packets_since(*id).is_some();
            unit.survives(&alive, is_periodic)
                && (!is_periodic || has_switch || unit.is_whole(*id, &alive, cluster))
        };
        self.units.iter().all(survives)
    }

    /// I5 where replicas get the state every so many packets: a replica's state
    /// and the packets that the switch has are all that was let out.
    pub(crate) fn recoverable(&mut self, journal: &[Done], cluster: &dyn Cluster) {
        if !matches!(self.replication, Replication::Every(_)) {
            return;
        }
        for done in journal {
            let (Done::LetOut { unit: id, .. } | Done::Settled { unit: id, .. }) = *done else {
                continue;
            };
            let Some(unit) = self.units.get(&id).filter(|unit| !unit.ended) else {
                continue;
            };
            let holder = unit.settled.and_then(|s| Some((s.view, s.replica?)));
            let Some((view, replica)) = holder.filter(|(_, r)| !cluster.is_gone(*r)) else {
                continue;
            };
            let (held, since) = (cluster.stored(replica, id, view), cluster.packets_since(id));
            if held < since {
                let show = |clock: Option<Clock>| clock.map_or(0, |clock| clock.0);
                let text = format!(
                    "replica {} holds the state up to {}, and the switch has packets after {} only",
                    replica.0,
                    show(held),
                    show(since)
                );
                return self.violated(Invariant::OutputCommit, Some(id), text);
            }
        }
    }
}

impl UnitRecord {
    /// True where one that is alive has a state that contains all that was let
    /// out.
    fn is_whole(
        &self,
        id: UnitId,
        alive: &dyn Fn(RuntimeId) -> bool,
        cluster: &dyn Cluster,
    ) -> bool {
        // A view after a failure goes before the copies that it begins from, and an owner that
        // has none yet may get an older one: until it has applied again what was let out the
        // unit depends on the switch.
        let resumes = matches!(self.current.start, Start::Resumed | Start::Claimed(_));
        let settled = self.settled.filter(|_| !resumes);
        let views = [Some(self.current), settled].into_iter().flatten();
        let holders = views.flat_map(|h| [Some((h.view, h.owner)), h.replica.map(|r| (h.view, r))]);
        let mut holders = holders.flatten();
        self.out == 0
            || holders.any(|(view, holder)| {
                alive(holder) && cluster.stored(holder, id, view) >= Some(Clock(self.out))
            })
    }

    fn survives(&self, alive: &dyn Fn(RuntimeId) -> bool, is_periodic: bool) -> bool {
        let current = [Some(self.current.owner), self.current.replica];
        match (self.settled, self.before) {
            (Some(settled), _) => {
                let mut holders = [Some(settled.owner), settled.replica].into_iter();
                // While a restarted switch gathers claims, the owner of a newer
                // view may have the best claim; the switch that takes it
                // depends on that runtime alone until the next view is settled.
                let newer = self.unclaimed && self.current.view != settled.view;
                // One before it, which may run still, may let out more than a replica
                // that outputs don't wait for has.
                let ahead = self.unclaimed && is_periodic;
                // What both holders of a newer view have said may settle it after their
                // deaths; older copies are forgotten then.
                current.into_iter().flatten().any(alive)
                    && holders.any(|holder| holder.is_some_and(alive))
                    && (!newer || current.into_iter().flatten().all(alive))
                    && (!ahead || alive(self.current.owner) && alive(settled.owner))
            }
            // The other holder of a view that a restart takes may be behind: what it
            // lacks was not let out, or, where outputs don't wait for it, the switch
            // that had those packets is gone. Of a view that was not settled the best
            // claim's sender alone is known to have the state: until the next view opens
            // this may be any of those that had a part in the view.
            (None, Some(before)) => {
                let mut holders = [Some(before.owner), before.replica].into_iter().flatten();
                let newer = self.unclaimed && self.current.view != before.view;
                let has_both = !is_periodic && !self.lone && !newer;
                // `holder` is where its view began, which may have forgotten it by now.
                let has_all = || current.into_iter().flatten().all(alive);
                let has_best = match (self.unopened, self.lone) {
                    (true, false) => has_all(),
                    (true, true) => has_all() && alive(self.current.holder),
                    (false, _) => alive(self.current.holder),
                };
                has_best || has_both && holders.any(alive)
            }
            // Nothing of the first view was let out, and its packets are kept. But what its
            // holders have said may settle it after their deaths.
            (None, None) => current.into_iter().flatten().any(alive),
        }
    }
}
