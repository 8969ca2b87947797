//! Ends: of flows, of the units they shared, of fragments that waited.

use weir_nf::CloseReason;
use weir_nf::host::Timeouts;
use weir_packet::{FramePool, Time};

use crate::classify::ended_by_silence;
use crate::drops::EngineDrop;
use crate::runtime::{CLOSE_REASONS, Runtime};

/// Flows the wheel may end between two bursts, so that no burst waits long.
const EXPIRIES_PER_BURST: usize = 64;

impl Runtime {
    /// Frees what has been idle for its time-out by now.
    pub(crate) fn expire(&mut self, pool: &mut FramePool) {
        if self.fragments.held() > 0 {
            self.drop_held(pool, Some(self.now));
        }
        self.end_due(pool, 0);
    }

    /// Ends flows that have been idle for their time-out by now, but none of
    /// the first `busy` packets of the burst.
    pub(crate) fn end_due(&mut self, pool: &mut FramePool, busy: usize) {
        for _ in 0..EXPIRIES_PER_BURST {
            let Some(table) = self.table.as_mut() else {
                return;
            };
            let Some(flow) = table.wheel.due(self.now) else {
                return;
            };
            let head = table.flows.blocks.head(flow);
            if head.idle_ms == Timeouts::NEVER {
                continue;
            }
            let idle_at = head
                .last_seen
                .saturating_add(u64::from(head.idle_ms) * 1_000_000);
            let places = &self.scratch.places[..busy];
            if self.now <= idle_at || places.iter().any(|place| place.flow == flow) {
                table.wheel.insert(flow, idle_at.saturating_add(1));
            } else {
                let why = ended_by_silence(head);
                self.end_flow(pool, flow, why);
            }
        }
    }

    /// Drops the fragments that have waited too long by `now`, or all.
    pub(crate) fn drop_held(&mut self, pool: &mut FramePool, now: Option<u64>) {
        let mut over = core::mem::take(&mut self.over);
        self.fragments.expired(now, &mut over);
        for frame in over.drain(..) {
            self.reasons.count(EngineDrop::FragmentTimeout);
            pool.give(frame);
        }
        self.over = over;
    }

    /// Ends a flow: every function that has a state of it is told, then its
    /// aliases and its record go, and its units if it was their last flow.
    #[cold]
    pub(crate) fn end_flow(&mut self, pool: &mut FramePool, flow: u32, why: CloseReason) {
        let now = Time(self.now);
        let Some(table) = self.table.as_mut() else {
            return;
        };
        let head = *table.flows.blocks.head(flow);
        for (number, node) in self.nodes.iter_mut().enumerate() {
            if node.scope.is_none() && head.opened & node.slot.bit != 0 {
                let cx = self.world.context(
                    pool,
                    &mut node.counters,
                    &mut node.tally,
                    number as u32,
                    now,
                );
                let mut cx = cx.lend(&mut node.space);
                let blocks = &mut table.flows.blocks;
                node.processor
                    .close(blocks, flow, &node.slot, None, why, &mut cx);
            }
        }
        let parent = core::mem::take(&mut table.flows.cold[flow as usize].parent);
        table.remove_flow(flow);
        if let Some(i) = CLOSE_REASONS.iter().position(|r| *r == why) {
            self.ended[i] += 1;
        }
        self.let_go(pool, 0, parent, why);
    }

    /// Lets go of a unit (its number plus one) of scope number `scope`; ends it
    /// if nothing else holds on to it.
    fn let_go(&mut self, pool: &mut FramePool, mut scope: usize, mut unit: u32, why: CloseReason) {
        let now = Time(self.now);
        while let Some(record) = unit.checked_sub(1) {
            let Some(table) = self.table.as_mut() else {
                return;
            };
            let Some(scope_table) = table.scopes.get_mut(scope) else {
                return;
            };
            let cold = &mut scope_table.records.cold[record as usize];
            cold.holders = cold.holders.saturating_sub(1);
            if cold.holders > 0 {
                return;
            }
            let parent = cold.parent;
            let opened = scope_table.records.blocks.head(record).opened;
            for (number, node) in self.nodes.iter_mut().enumerate() {
                if node.scope == Some(scope) && opened & node.slot.bit != 0 {
                    let cx = self.world.context(
                        pool,
                        &mut node.counters,
                        &mut node.tally,
                        number as u32,
                        now,
                    );
                    let mut cx = cx.lend(&mut node.space);
                    let blocks = &mut scope_table.records.blocks;
                    node.processor
                        .close(blocks, record, &node.slot, None, why, &mut cx);
                }
            }
            table.remove_unit(scope, record);
            scope += 1;
            unit = parent;
        }
    }

    /// Undoes the hold of a walk that failed: `unit` (plus one) of scope
    /// number `scope` may have been opened for nothing.
    pub(crate) fn release_unit(&mut self, mut scope: usize, mut unit: u32) {
        while let Some(record) = unit.checked_sub(1) {
            let Some(table) = self.table.as_mut() else {
                return;
            };
            let Some(scope_table) = table.scopes.get_mut(scope) else {
                return;
            };
            let cold = &mut scope_table.records.cold[record as usize];
            cold.holders = cold.holders.saturating_sub(1);
            if cold.holders > 0 {
                return;
            }
            unit = cold.parent;
            table.remove_unit(scope, record);
            scope += 1;
        }
    }
}
