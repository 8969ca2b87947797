//! Gauges of a runtime's actors.

use super::Actors;
use crate::ids::{Clock, UnitId, View};

/// Sizes at one moment, and the most that was held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActorReport {
    /// Data frames taken in since the start.
    pub packets: u64,
    /// Units owned now.
    pub units: u64,
    /// Actors kept as bytes: replicas' copies, and older views that the switch
    /// has not said to forget.
    pub stored: u64,
    /// Stored replicas' copies.
    pub replicas: u64,
    /// Their bytes, outputs included.
    pub stored_bytes: u64,
    /// Entries that owned units keep until the switch has let them out.
    pub kept: u64,
    /// Their bytes.
    pub kept_bytes: u64,
    /// Packets held now.
    pub held: u64,
    /// Most packets held at one time.
    pub held_most: u64,
    /// Views that are open here and wait for their state.
    pub waiting: u64,
}

impl Actors {
    /// Units owned now, without a walk.
    pub fn owned(&self) -> u64 {
        u64::from(self.live)
    }

    /// Most packets held at one time, without a walk.
    pub fn held_most(&self) -> u64 {
        self.hold.most() as u64
    }

    /// Counts what is held now. It walks over all units that are not plain.
    pub fn report(&self) -> ActorReport {
        let (stored, replicas, stored_bytes) = self.stored_bytes();
        let keepers = || self.cold.values().map(|cold| &cold.live.kept);
        ActorReport {
            packets: self.packets,
            units: self.owned(),
            stored,
            replicas,
            stored_bytes,
            kept: keepers().map(|kept| kept.len() as u64).sum(),
            kept_bytes: keepers().map(|kept| kept.bytes()).sum(),
            held: self.hold.held() as u64,
            held_most: self.held_most(),
            waiting: self.cold.values().filter(|c| c.waiting.is_some()).count() as u64,
        }
    }

    /// The clock up to which this runtime holds state and outputs of a view,
    /// as owner or replica; `None` where it has nothing of it.
    pub fn stored(&self, unit: UnitId, view: View) -> Option<Clock> {
        let live = self.table.of(unit);
        if let Some(hot) = live.filter(|hot| hot.is_live() && hot.view == view) {
            return Some(hot.clock);
        }
        let stored = self.cold.get(&unit)?.stored.get(&view)?;
        Some(stored.clock)
    }
}
