//! Which unit has which alias, by the switch's journal and by the notes of
//! what was let out.

use std::collections::{BTreeMap, BTreeSet};

use weir_packet::{Disposition, FlowKey};
use weir_protocol::UnitId;
use weir_protocol::message::Entry;
use weir_runtime::notes::{self, Note};

/// Aliases that were registered and have not ended.
#[derive(Debug, Default)]
pub(super) struct Aliases {
    /// Whose each is: the unit, and the flow if it is a flow's.
    of: BTreeMap<FlowKey, (UnitId, Option<FlowKey>)>,
}

impl Aliases {
    /// The switch has registered a name; gives another unit that has it.
    pub(super) fn add(&mut self, key: FlowKey, unit: UnitId) -> Option<UnitId> {
        let other = self.of.insert(key, (unit, None));
        other.map(|(other, _)| other).filter(|other| *other != unit)
    }

    /// The unit that has the name.
    pub(super) fn unit_of(&self, key: &FlowKey) -> Option<UnitId> {
        self.of.get(key).map(|(unit, _)| *unit)
    }

    /// The unit has no names any more.
    pub(super) fn forget(&mut self, id: UnitId) {
        self.of.retain(|_, (unit, _)| *unit != id);
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
        // What ends and begins in one entry is registered by now.
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
                    let (unit, of) = self.of.entry(request.key).or_insert((id, None));
                    if *unit == id && !request.open {
                        *of = Some(flow);
                    }
                }
                Note::FlowEnded { key } => self.of.retain(|name, (unit, flow)| {
                    *unit != id || *flow != Some(key) || again.contains(name)
                }),
                Note::AliasEnded { key } => match self.unit_of(&key) {
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
