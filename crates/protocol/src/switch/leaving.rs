//! Names of what has ended, while packets that came by them are on their way.
//!
//! A flow's end is let out behind packets that were numbered since: some may be
//! of the flow, and begin it anew where it was. Would its names go at once, the
//! next packet would open the flow in another unit beside that one. So a name
//! leads to its unit until no packet that came by it is on its way. The names
//! of one flow go together.

use std::collections::BTreeMap;

use weir_packet::FlowKey;

use super::Switch;
use super::units::mark;
use crate::ids::{Clock, UnitId};
use crate::plant::Plant;

/// Names that go together.
#[derive(Debug)]
struct Group {
    names: Vec<FlowKey>,
    /// The last packet that was numbered when they were last used: they may go
    /// when it is let out.
    until: Clock,
}

/// All names that leave, by unit. Their number is bounded by that of names.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    of: BTreeMap<UnitId, Vec<Group>>,
}

impl Leaving {
    /// True where names of the unit leave.
    pub(super) fn has(&self, unit: UnitId) -> bool {
        self.of.contains_key(&unit)
    }

    /// Units with names that leave, but for one.
    pub(super) fn others(&self, but: UnitId) -> usize {
        self.of.keys().filter(|unit| **unit != but).count()
    }
}

impl Switch {
    /// True where names must outlive what ended at `clock`: packets were
    /// numbered since.
    fn outlives(&self, unit: UnitId, clock: Clock) -> bool {
        let known = self.units.find(unit).map(|place| self.units.at(place));
        known.is_some_and(|unit| unit.sent > clock.0)
            && self.settings.plant != Some(Plant::NamesGoAtOnce)
    }

    /// A flow has ended with packet `clock` of its unit.
    pub(super) fn flow_ended(&mut self, unit: UnitId, clock: Clock, key: &FlowKey) {
        let mut names = Vec::new();
        if self.outlives(unit, clock) {
            self.classifier.leave_flow(unit.0, key, &mut names);
            self.names_leave(unit, names);
        } else {
            self.classifier.end_flow(unit.0, key, &mut names);
            self.names_gone(&names);
        }
    }

    /// An alias has ended with packet `clock` of its unit.
    pub(super) fn alias_ended(&mut self, unit: UnitId, clock: Clock, key: &FlowKey) {
        if self.outlives(unit, clock) {
            if self.classifier.leave_alias(unit.0, key) {
                self.names_leave(unit, vec![*key]);
            }
        } else if self.classifier.end_alias(unit.0, key) {
            self.names_gone(&[*key]);
        }
    }

    fn names_leave(&mut self, unit: UnitId, names: Vec<FlowKey>) {
        let Some(place) = self.units.find(unit).filter(|_| !names.is_empty()) else {
            return;
        };
        let record = self.units.at_mut(place);
        record.marks |= mark::LEAVING;
        let until = Clock(record.sent);
        let groups = self.leaving.of.entry(unit).or_default();
        // A name that leaves already, and whose flow has ended once more, is in one group:
        // each asks whether it was used, and the answer is given once.
        for group in groups.iter_mut() {
            group.names.retain(|name| !names.contains(name));
        }
        groups.retain(|group| !group.names.is_empty());
        groups.push(Group { names, until });
    }

    /// The flow under this key, or the alias, has begun anew in the unit.
    pub(super) fn name_stays(&mut self, unit: UnitId, key: &FlowKey) {
        for group in self.leaving.of.get_mut(&unit).into_iter().flatten() {
            if group.names.contains(key) {
                group.names.retain(|name| name != key);
                self.classifier.stay(unit.0, key);
            }
        }
    }

    /// Packets of a unit with names that leave were let out: lets those go that
    /// no packet on its way came by.
    pub(super) fn let_names_go(&mut self, place: u32) {
        let unit = self.units.at(place);
        let (id, sent, out) = (unit.id(), Clock(unit.sent), Clock(unit.out));
        let mut gone = Vec::new();
        let groups = self.leaving.of.entry(id).or_default();
        for group in groups.iter_mut().filter(|group| group.until <= out) {
            let mut used = false;
            for name in &group.names {
                used |= self.classifier.was_used(id.0, name);
            }
            if used && sent > out {
                group.until = sent;
                continue;
            }
            for name in group.names.drain(..) {
                self.classifier.end_name(id.0, &name, &mut gone);
            }
        }
        groups.retain(|group| !group.names.is_empty());
        if groups.is_empty() {
            self.leaving.of.remove(&id);
            self.units.at_mut(place).marks &= !mark::LEAVING;
        }
        self.names_gone(&gone);
    }

    /// The unit is over, with all its names.
    pub(super) fn none_leave(&mut self, unit: UnitId) {
        self.leaving.of.remove(&unit);
    }
}
