//! The unit of each alias, by the switch's journal and by the notes of
//! what was let out.

use std::collections::{BTreeMap, BTreeSet};

use weir_packet::{Disposition, FlowKey};
use weir_protocol::UnitId;
use weir_protocol::message::Entry;
use weir_runtime::notes::{self, Note};

/// Aliases that were registered and have not ended.
#[derive(Debug, Default)]
pub(super) struct Aliases {
    /// The owner of each: the unit, and the flow if it is a flow's.
    of: BTreeMap<FlowKey, (UnitId, Option<FlowKey>)>,
    /// Units that took a name, whose it was, and that unit's last number then.
    waits: Vec<(UnitId, UnitId, u64)>,
    /// Names that a unit asked for and another one kept, or has taken since.
    foreign: BTreeSet<(UnitId, FlowKey)>,
}

impl Aliases {
    /// The switch has registered a name; gives another unit that has it.
    pub(super) fn add(&mut self, key: FlowKey, unit: UnitId) -> Option<UnitId> {
        self.foreign.remove(&(unit, key));
        let other = self.of.insert(key, (unit, None));
        other.map(|(other, _)| other).filter(|other| *other != unit)
    }

    /// A name passes to `unit` from one whose last number is `until`.
    pub(super) fn take(&mut self, key: FlowKey, unit: UnitId, (of, until): (UnitId, u64)) {
        self.of.insert(key, (unit, None));
        self.foreign.remove(&(unit, key));
        self.foreign.insert((of, key));
        self.waits.push((unit, of, until));
    }

    /// A name stays with `of`; false where that does not wait for `unit`.
    pub(super) fn yields(&mut self, key: FlowKey, unit: UnitId, of: UnitId) -> bool {
        self.foreign.insert((unit, key));
        let (mut asked, mut at) = (vec![of], 0);
        while let Some(&next) = asked.get(at) {
            at += 1;
            for (waiting, other, _) in &self.waits {
                if *waiting == next && !asked.contains(other) {
                    asked.push(*other);
                }
            }
        }
        asked.contains(&unit)
    }

    /// A switch that starts again lets out nothing of what was on its way.
    pub(super) fn restart(&mut self) {
        self.waits.clear();
    }

    /// A switch has started again: `unit_of` tells whose a name is now. Who yielded or took
    /// a name is not known any more, and a unit whose claim comes first gets it.
    pub(super) fn restarted(&mut self, unit_of: impl Fn(&FlowKey) -> Option<UnitId>) {
        let is_lost = |key: &FlowKey, unit: UnitId| unit_of(key).is_some_and(|of| of != unit);
        let foreign = &mut self.foreign;
        self.of.retain(|key, (unit, _)| {
            let lost = is_lost(key, *unit);
            if lost {
                foreign.insert((*unit, *key));
            }
            !lost
        });
    }

    /// A unit lets something out: gives one that must have let out more by then.
    /// `out` tells how much each has, or `None` of one that is over.
    pub(super) fn overtakes(
        &mut self,
        unit: UnitId,
        out: impl Fn(UnitId) -> Option<u64>,
    ) -> Option<UnitId> {
        self.waits
            .retain(|(_, of, until)| out(*of).is_some_and(|out| out < *until));
        let found = self.waits.iter().find(|(waiting, ..)| *waiting == unit);
        found.map(|(_, of, _)| *of)
    }

    /// True where the unit has the name, or was told that another one has.
    pub(super) fn is_known(&self, key: &FlowKey, unit: UnitId) -> bool {
        self.unit_of(key) == Some(unit) || self.is_foreign(key, unit)
    }

    /// True where the unit asked for the name in vain, or it has passed on since.
    pub(super) fn is_foreign(&self, key: &FlowKey, unit: UnitId) -> bool {
        self.foreign.contains(&(unit, *key))
    }

    /// The unit that has the name.
    pub(super) fn unit_of(&self, key: &FlowKey) -> Option<UnitId> {
        self.of.get(key).map(|(unit, _)| *unit)
    }

    /// The unit has no names any more.
    pub(super) fn forget(&mut self, id: UnitId) {
        self.of.retain(|_, (unit, _)| *unit != id);
        self.foreign.retain(|(unit, _)| *unit != id);
    }

    /// An entry that was applied and never let out asks for names: a restarted switch gives
    /// the unit those that no other unit claims.
    pub(super) fn claim(&mut self, id: UnitId, made: &Entry) {
        let before: BTreeSet<FlowKey> = self.of.keys().copied().collect();
        self.note(id, made);
        let is_new = |key: &FlowKey, unit: &UnitId| *unit == id && !before.contains(key);
        let foreign = &mut self.foreign;
        self.of.retain(|key, (unit, _)| {
            let new = is_new(key, unit);
            if new {
                foreign.insert((id, *key));
            }
            !new
        });
    }

    /// Names of the unit that it was given, and that have not ended.
    pub(super) fn names_of(&self, id: UnitId) -> impl Iterator<Item = FlowKey> + '_ {
        let own = self.of.iter().filter(move |(_, (unit, _))| *unit == id);
        own.map(|(key, _)| *key)
    }

    /// Takes down what an entry of the unit says of names. Gives a name that
    /// it ends and another unit has.
    pub(super) fn note(&mut self, id: UnitId, made: &Entry) -> Option<(FlowKey, UnitId)> {
        let parts = made
            .parts
            .iter()
            .filter(|part| part.disposition == Disposition::Notes);
        let all = || {
            parts
                .clone()
                .flat_map(|part| notes::read(&part.bytes).flatten())
        };
        // A flow that ends and begins in one entry is registered by now.
        let again: BTreeSet<FlowKey> = all()
            .filter_map(|note| match note {
                Note::Alias { request, .. } => Some(request.key),
                _ => None,
            })
            .collect();
        let mut wrong = None;
        for note in all() {
            match note {
                Note::Alias { flow, request } => {
                    // A name that it was not given may be another unit's key.
                    if !self.foreign.contains(&(id, request.key)) {
                        self.of.entry(request.key).or_insert((id, None));
                    }
                    if let Some((unit, of)) = self.of.get_mut(&request.key)
                        && *unit == id
                        && !request.open
                    {
                        *of = Some(flow);
                    }
                }
                Note::FlowEnded { key } => self.of.retain(|name, (unit, flow)| {
                    *unit != id || *flow != Some(key) || again.contains(name)
                }),
                Note::AliasEnded { key } => match self.unit_of(&key) {
                    Some(unit) if unit != id && self.foreign.contains(&(id, key)) => {}
                    Some(unit) if unit != id => wrong = wrong.or(Some((key, unit))),
                    Some(_) if !again.contains(&key) => {
                        self.of.remove(&key);
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        wrong
    }
}
