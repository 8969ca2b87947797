//! Which unit a conversation's packets are in, and when a unit may end: by the
//! packets of the plan, not by what the switch says of them.

use std::collections::BTreeMap;

use weir_packet::{FlowKey, Time};
use weir_protocol::UnitId;

use super::show::show_unit;
use super::{Checker, Invariant, Kind, Sighting};
use crate::traffic::Ends;
use crate::world::START;

/// Shortest idle time of a flow per transport, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdleTimes {
    /// Of a UDP flow.
    pub(crate) udp: u64,
}

/// What the plan says of units.
#[derive(Debug, Default)]
pub(super) struct Homes {
    /// Unit of the last packet of each direction of a conversation, and the
    /// generation of the switch that numbered it.
    last: BTreeMap<(u32, Kind, Option<Ends>), (UnitId, u16)>,
    /// Units with nothing but whole UDP packets so far, and the time of the
    /// last one; `None` where something else was in it.
    idle_since: BTreeMap<UnitId, Option<u64>>,
    pub(super) idle: IdleTimes,
}

impl Homes {
    /// The unit is over.
    pub(super) fn forget(&mut self, id: UnitId) {
        self.idle_since.remove(&id);
    }
}

impl Checker {
    /// Says how long flows may be idle.
    pub(crate) fn idle_times(&mut self, idle: IdleTimes) {
        self.homes.idle = idle;
    }

    /// A packet of the plan (not a tick) was numbered in a unit: its flow is not in another
    /// one that lives. `key` is what its addresses say, those of its client where
    /// it is on its way to a server.
    pub(crate) fn routed(&mut self, id: UnitId, seen: Option<(Sighting, FlowKey)>) {
        let idle = self.homes.idle_since.entry(id).or_insert(Some(0));
        let Some((seen, key)) = seen else {
            // Nobody knows its flow, or the chain sends it back to its own clients.
            *idle = None;
            return;
        };
        if seen.kind != Kind::Udp {
            *idle = None;
        }
        if seen.kind == Kind::Unordered {
            return;
        }
        let direction = (seen.flow, seen.kind, seen.answer);
        // A restarted switch may give a name to the flow that an alias had hidden
        // before: an open fault (docs/simulator.md).
        let generation = self.highest.generation();
        let before = self.homes.last.insert(direction, (id, generation));
        let before = before.filter(|(other, life)| *other != id && *life == generation);
        let Some((other, _)) = before else {
            return;
        };
        let lives = self
            .units
            .get(&other)
            .is_some_and(|unit| !(unit.ended || unit.lost || unit.unclaimed || unit.adrift));
        let named = self.aliases.unit_of(&key);
        // A name goes before a flow; without one the flow itself counts.
        let is_there = match named {
            Some(named) => named == other,
            None => seen.answer.is_none() && self.reference.flows(other).contains(&key),
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
        if let Some(Some(since)) = self.homes.idle_since.get_mut(&id) {
            *since = time.0;
        }
    }

    /// Somebody asked for the end of a flow of the unit.
    pub(crate) fn end_asked(&mut self, id: UnitId) {
        self.homes.idle_since.insert(id, None);
    }

    /// A tick has ended the last flow of a unit: not before its last packet is as
    /// old as its flows may be idle.
    pub(super) fn expired(&mut self, id: UnitId) {
        let Some(Some(last)) = self.homes.idle_since.get(&id) else {
            return;
        };
        let quiet = (self.now + START).saturating_sub(*last);
        if quiet < self.homes.idle.udp {
            let text = format!(
                "its last flow ends {} us after its last packet, {} us are its time-out",
                quiet / 1_000,
                self.homes.idle.udp / 1_000
            );
            self.violated(Invariant::Expiry, Some(id), text);
        }
    }
}
