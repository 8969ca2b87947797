//! Held against one another: what actors keep in two places, and what is left of it. Tests
//! and the simulator ask; programs do not, for it walks over all units.

use weir_packet::Time;

use super::Actors;
use super::cold::Cold;
use super::table::{GAP, Hot};
use crate::ids::UnitId;

impl Actors {
    /// Units with more than a record, in [`Actors::left_over`].
    pub const NOT_PLAIN: &'static str = "units that are not plain";

    /// A place where the books disagree, in words; `None` unless weir has a bug.
    pub fn audit(&self) -> Option<String> {
        let live = self.table.units().filter(Hot::is_live).count();
        if live != self.live as usize {
            return Some(format!("{} units live, {live} is right", self.live));
        }
        let timers = self.cold.values().filter(|cold| cold.timer.is_some());
        let (has, right) = (self.timers.len(), timers.count());
        if has != right {
            return Some(format!("{has} timers are set, {right} is right"));
        }
        let units = self.table.units().find_map(|hot| self.audit_unit(&hot));
        units
            .or_else(|| self.audit_timers())
            .or_else(|| self.hold.audit())
            .or_else(|| self.audit_ports())
    }

    fn audit_unit(&self, hot: &Hot) -> Option<String> {
        let unit = hot.unit;
        let text = match self.cold.get(&unit) {
            _ if hot.is_live()
                && hot.flags & GAP == 0
                && self.hold.has((unit, hot.view))
                && !self.ready.contains(&unit) =>
            {
                "packets are held, and no gap is noted"
            }
            cold if !hot.is_live()
                && cold.is_none_or(|cold| cold.early.is_none())
                && self.engine.has_unit(unit.0) =>
            {
                "the engine has a state of nobody"
            }
            _ => return None,
        };
        Some(format!("unit {}.{}: {text}", unit.slot(), unit.0 >> 32))
    }

    /// What is due has a timer that goes off by then.
    fn audit_timers(&self) -> Option<String> {
        self.cold.iter().find_map(|(unit, cold)| {
            let due = first_due(cold)?;
            let is_set = cold.timer.is_some_and(|at| at <= due);
            let is_there = cold
                .timer
                .is_none_or(|at| self.timers.contains(&(at, *unit)));
            let name = format!("unit {}.{}", unit.slot(), unit.0 >> 32);
            match (is_set, is_there) {
                (true, true) => None,
                (false, _) => Some(format!("{name}: nothing goes off at {due:?}")),
                (_, false) => Some(format!("{name}: its timer is not there")),
            }
        })
    }

    /// Ports that the engine has leased are known with the packets that leased them, where
    /// the switch may have to be asked about them.
    fn audit_ports(&self) -> Option<String> {
        let (leased, known) = (self.engine.leases().leased(), self.ports.leased());
        let is_wrong = self.settings.keep_outputs && self.run.is_empty() && leased != known;
        is_wrong.then(|| format!("{leased} ports are leased, {known} are known"))
    }

    /// What is left of units that are over, each with its number; nothing where no unit but
    /// `but` is owned or copied here.
    pub fn left_over(&self, but: UnitId) -> Vec<(&'static str, usize)> {
        let others = self.cold.keys().filter(|unit| **unit != but).count();
        let kept = self.cold.iter().filter(|(unit, _)| **unit != but);
        let kept = kept.map(|(_, cold)| cold.live.kept.len()).sum();
        let timers = self.timers.iter().filter(|(_, unit)| *unit != but).count();
        vec![
            (Actors::NOT_PLAIN, others),
            ("entries", kept),
            ("timers", timers),
            ("ports in doubt", self.ports.doubted()),
            ("packets that are ready", self.ready.len()),
        ]
    }
}

/// When something of a unit is due that has a timer of its own.
fn first_due(cold: &Cold) -> Option<Time> {
    [
        cold.waiting.map(|waiting| waiting.due),
        cold.ending.map(|ending| ending.due),
        cold.live.due,
        cold.ahead.as_ref().map(|ahead| ahead.4),
        cold.staged.as_ref().map(|staged| staged.until),
    ]
    .into_iter()
    .flatten()
    .min()
}
