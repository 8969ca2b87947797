//! The packets of a flow are in one unit, and a flow ends when it was idle for
//! its time: held against the packets of the plan.

use weir_packet::{FlowKey, Time};
use weir_protocol::UnitId;

use super::show::show_unit;
use super::{Checker, Invariant, Sighting};
use crate::chain::IdleTimes;

impl Checker {
    /// Says how long flows may be idle, and how late they may end, where anybody knows.
    pub(crate) fn idle_times(&mut self, idle: IdleTimes, late: Option<u64>) {
        self.homes.set_idle(idle, late);
    }

    /// A packet of the plan (not a tick) was numbered in a unit: its flow is not in another
    /// one that lives. `key` is what its addresses say, those of its client where
    /// it is on its way to a server.
    pub(crate) fn routed(&mut self, id: UnitId, seen: Option<(Sighting, FlowKey)>) {
        let generation = self.highest.generation();
        let routed = seen.map(|(seen, _)| seen);
        let other = self.homes.routed(id, routed, generation);
        let (Some(other), Some((seen, key))) = (other, seen) else {
            return;
        };
        let lives = self
            .units
            .get(&other)
            .is_some_and(|unit| unit.is_live() && !unit.adrift);
        let named = self.aliases.unit_of(&key);
        // A name goes before a flow; without one the flow itself counts, unless its name
        // had passed to a unit that was lost since.
        let is_there = match named {
            Some(named) => named == other,
            None => {
                seen.answer.is_none()
                    && !self.aliases.is_foreign(&key, other)
                    && self.reference.flows(other).contains(&key)
            }
        };
        if lives && is_there {
            let text = format!(
                "packet {} of flow {} is taken for {}, and {key} is of {}",
                seen.number,
                seen.flow,
                show_unit(id),
                show_unit(other)
            );
            self.violated(Invariant::OneUnit, Some(id), text);
        }
    }

    /// A packet that came in at `time` was applied.
    pub(super) fn applied(&mut self, id: UnitId, time: Time) {
        self.homes.applied(id, time);
    }

    /// Somebody asked for the end of a flow of the unit.
    pub(crate) fn end_asked(&mut self, id: UnitId) {
        self.homes.end_asked(id);
    }

    /// A tick has ended the last flow of a unit: not before its last packet is as
    /// old as its flows may be idle, and not long after.
    pub(super) fn expired(&mut self, id: UnitId) {
        if let Some(text) = self.homes.expired(id, self.now) {
            self.violated(Invariant::Expiry, Some(id), text);
        }
    }
}
