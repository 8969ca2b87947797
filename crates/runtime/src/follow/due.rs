//! Deadlines of units, and the ticks that end flows.

use weir_nf::CloseReason;
use weir_nf::host::Timeouts;
use weir_packet::{FlowKey, FramePool, Time};

use super::apply::ENDS_PER_TICK;
use super::units::place_of;
use super::{FOLLOWS, following};
use crate::classify::ended_by_silence;
use crate::flows::records::ALIAS;
use crate::runtime::Runtime;

/// When a unit is proposed again if no tick has come, in nanoseconds: with the next second, which
/// the wheel counts by.
const AGAIN: u64 = 500_000_000;

impl Runtime {
    /// Ends the flows of a unit that have been idle for their time-out at
    /// `now`: the tick with number `clock`.
    pub(super) fn end_due_in(&mut self, pool: &mut FramePool, unit: u64, now: u64, clock: u64) {
        let Some(follow) = self.counts.internal.expect(self.follow.as_mut(), FOLLOWS) else {
            return;
        };
        let Some(known) = follow.units.get_mut(unit) else {
            return;
        };
        known.proposed = 0;
        let mut next = known.first.checked_sub(1);
        let before = follow.ends;
        while let Some(flow) = next {
            let internal = &mut self.counts.internal;
            let Some((table, follow)) = following(internal, &mut self.table, &mut self.follow)
            else {
                return;
            };
            next = follow.units.after(flow);
            let head = table.flows.blocks.head_mut(flow);
            let idle = u64::from(head.idle_ms).saturating_mul(1_000_000);
            if head.idle_ms == Timeouts::NEVER || now <= head.last_seen.saturating_add(idle) {
                continue;
            }
            if follow.ends.wrapping_sub(before) >= ENDS_PER_TICK {
                return;
            }
            head.clock = clock;
            let why = ended_by_silence(head);
            self.end_flow(pool, flow, why);
        }
    }

    /// Ends the flow of a unit under this key, as somebody has asked: the tick
    /// with number `clock`.
    pub(super) fn end_one_in(
        &mut self,
        pool: &mut FramePool,
        unit: u64,
        key: &FlowKey,
        clock: u64,
    ) {
        let internal = &mut self.counts.internal;
        let Some((table, follow)) = following(internal, &mut self.table, &mut self.follow) else {
            return;
        };
        let units = &follow.units;
        if units.get(unit).is_none() {
            return;
        }
        // A flow of another unit, which lives elsewhere by now, may have the same key.
        let entry = table.entry_of(units, place_of(unit), key);
        if let Some(flow) = entry.filter(|entry| entry & ALIAS == 0) {
            table.flows.blocks.head_mut(flow).clock = clock;
            self.end_flow(pool, flow, CloseReason::Ended);
        }
    }

    /// Units in which something is due at `now`, at most `most` of them, each
    /// at most once until a tick has come for it or half a second has passed.
    pub fn due_units(&mut self, now: Time, most: usize, units: &mut Vec<u64>) {
        let (Some(table), Some(follow)) = (&mut self.table, &mut self.follow) else {
            return;
        };
        let mut left = most;
        while left > 0
            && let Some(flow) = table.wheel.due(now.0)
        {
            let head = table.flows.blocks.head(flow);
            if head.idle_ms == Timeouts::NEVER {
                continue;
            }
            let idle = u64::from(head.idle_ms).saturating_mul(1_000_000);
            let idle_at = head.last_seen.saturating_add(idle);
            if now.0 <= idle_at {
                table.wheel.insert(flow, idle_at.saturating_add(1));
                continue;
            }
            // If no tick comes it is proposed again.
            table.wheel.insert(flow, now.0.saturating_add(AGAIN));
            let place = follow.units.place(flow);
            let Some(unit) = follow.units.at_place_of(u64::from(place)) else {
                continue;
            };
            let id = unit.id;
            if unit.proposed != 0 && now.0 < (unit.proposed - 1).saturating_add(AGAIN) {
                continue;
            }
            if let Some(unit) = follow.units.get_mut(id) {
                unit.proposed = now.0.saturating_add(1);
                units.push(id);
                left -= 1;
            }
        }
    }

    /// No tick was asked for a unit that [`Runtime::due_units`] gave: it is given again.
    pub fn not_asked(&mut self, unit: u64) {
        if let Some(known) = self.follow.as_mut().and_then(|f| f.units.get_mut(unit)) {
            known.proposed = 0;
        }
    }

    /// A time before which nothing is due.
    pub fn next_due(&self) -> Option<Time> {
        let table = self.table.as_ref()?;
        table.wheel.next().map(Time)
    }
}
