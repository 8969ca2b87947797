//! A switch that keeps no copies has no list of what is on its way. On a path
//! that may lose packets it looks over its units now and then: what is missing
//! at two looks is replaced by `Lost`.

use weir_packet::{FramePool, Time};

use super::Switch;
use crate::ids::Clock;

/// What the last look saw.
#[derive(Debug, Default)]
pub(super) struct Missing {
    at: Time,
    /// By place: the unit and its last clock let out, where some were missing.
    seen: Vec<(u64, u64)>,
}

impl Switch {
    fn looks_over(&self) -> bool {
        self.settings.acknowledge && !self.kept.keeps() && self.packets.flying > 0
    }

    /// When the next look is due.
    pub(super) fn next_look(&self) -> Option<Time> {
        let due = self.missing.at.plus(self.settings.repeat_after);
        self.looks_over().then_some(due)
    }

    /// Looks over all units, if it is time.
    pub(super) fn look_over(&mut self, now: Time, pool: &mut FramePool) {
        if !self.looks_over() || now.since(self.missing.at) < self.settings.repeat_after {
            return;
        }
        self.missing.at = now;
        let mut seen = core::mem::take(&mut self.missing.seen);
        seen.resize(self.units.top() as usize, (0, 0));
        for (place, last) in (0..).zip(&mut seen) {
            let unit = *self.units.at(place);
            let is_missing = unit.id != 0 && unit.sent > unit.out;
            if is_missing && *last == (unit.id, unit.out) && unit.owner != 0 {
                self.send_again(now, pool, place, Clock(unit.out));
            }
            *last = if is_missing {
                (unit.id, unit.out)
            } else {
                (0, 0)
            };
        }
        self.missing.seen = seen;
    }
}
