//! The unit that the packets of each conversation were in last, and since when each
//! unit is idle: by the packets of the plan, not by what the switch says of them.

use std::collections::BTreeMap;

use weir_packet::Time;
use weir_protocol::UnitId;

use super::outside::{Kind, Sighting};
use crate::chain::IdleTimes;
use crate::traffic::{Ends, START};

/// Homes of the conversations of a plan.
#[derive(Debug, Default)]
pub(super) struct Homes {
    /// Unit of the last packet of each direction of a conversation, and the
    /// generation of the switch that numbered it.
    last: BTreeMap<(u32, Kind, Option<Ends>), (UnitId, u16)>,
    /// Units with nothing but whole UDP packets so far, and the time of the
    /// last one; `None` where something else was in it.
    idle_since: BTreeMap<UnitId, Option<u64>>,
    idle: IdleTimes,
    /// Nanoseconds by which a flow may end late, where nothing keeps its owner.
    late: Option<u64>,
}

impl Homes {
    /// Says how long flows may be idle, and how late they may end.
    pub(super) fn set_idle(&mut self, idle: IdleTimes, late: Option<u64>) {
        self.idle = idle;
        self.late = late;
    }

    /// A packet was numbered in a unit by the switch of this generation: gives the
    /// other unit that packets of its conversation and direction were in before.
    /// Without `seen` nobody knows its flow, or the chain sends it back to its own
    /// clients.
    pub(super) fn routed(
        &mut self,
        id: UnitId,
        seen: Option<Sighting>,
        generation: u16,
    ) -> Option<UnitId> {
        let idle = self.idle_since.entry(id).or_insert(Some(0));
        let Some(seen) = seen else {
            *idle = None;
            return None;
        };
        if seen.kind != Kind::Udp {
            *idle = None;
        }
        if seen.kind == Kind::Unordered {
            return None;
        }
        let direction = (seen.flow, seen.kind, seen.answer);
        // A restarted switch may give a name to the flow that an alias had hidden
        // before: an open fault (docs/simulator.md).
        let before = self.last.insert(direction, (id, generation));
        let before = before.filter(|(other, life)| *other != id && *life == generation);
        before.map(|(other, _)| other)
    }

    /// A packet that came in at `time` was applied.
    pub(super) fn applied(&mut self, id: UnitId, time: Time) {
        if let Some(Some(since)) = self.idle_since.get_mut(&id) {
            *since = time.0;
        }
    }

    /// From now on the unit's end says nothing of idle times.
    pub(super) fn end_asked(&mut self, id: UnitId) {
        self.idle_since.insert(id, None);
    }

    /// A tick has ended the last flow of a unit; gives what is wrong with that.
    pub(super) fn expired(&self, id: UnitId, now: u64) -> Option<String> {
        let last = (*self.idle_since.get(&id)?)?;
        let quiet = (now + START).saturating_sub(last);
        let expected = self.idle.udp;
        let is_late = self.late.is_some_and(|late| quiet > expected + late);
        (quiet < expected || is_late).then(|| {
            format!(
                "its last flow ends {} us after its last packet, {} us are its time-out",
                quiet / 1_000,
                expected / 1_000
            )
        })
    }

    /// The unit is over.
    pub(super) fn forget(&mut self, id: UnitId) {
        self.idle_since.remove(&id);
    }
}
