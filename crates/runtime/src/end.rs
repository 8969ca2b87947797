//! Ends: of flows, of the units they shared, of fragments that waited.

use weir_nf::CloseReason;
use weir_nf::host::Timeouts;
use weir_packet::{Frame, FramePool, Time};

use crate::classify::ended_by_silence;
use crate::drops::EngineDrop;
use crate::flows::HAS_TABLE;
use crate::runtime::Runtime;
use crate::stages::Kind;

/// Flows the wheel may end between two bursts, so that no burst waits long.
const EXPIRIES_PER_BURST: usize = 64;

impl Runtime {
    /// Moves time on to `now` although no packet has come: ends flows that have
    /// been idle for their time-out (at most 64 per call) and drops fragments
    /// that have waited too long. True where more is due: call again.
    ///
    /// For drivers whose packets carry the time of day. Where packets come from
    /// a capture, time is theirs and nobody calls this. The events are in
    /// [`Runtime::events`] afterwards. The first of several stages adds notices
    /// for the later ones to `output`; a later stage is told by them. Under a
    /// switch nothing happens: there a numbered tick ends what is due.
    pub fn pass_time(&mut self, pool: &mut FramePool, now: Time, output: &mut Vec<Frame>) -> bool {
        if self.follow.is_some() || self.plan.kind() == Kind::Later {
            return false;
        }
        // Notices of earlier ends go first; without a free frame time stands.
        if !self.tell(pool, output) {
            return false;
        }
        self.now = self.now.max(now.0);
        let more = self.expire(pool);
        self.drop_asked(pool);
        self.tell(pool, output);
        more
    }

    /// Frees what has been idle for its time-out by now. True where more is due.
    pub(crate) fn expire(&mut self, pool: &mut FramePool) -> bool {
        if self.fragments.held() > 0 {
            self.drop_held(pool, Some(self.now));
        }
        self.end_due(pool, 0)
    }

    /// Ends flows that have been idle for their time-out by now, but none of
    /// the first `busy` packets of the burst. True where more may be due.
    pub(crate) fn end_due(&mut self, pool: &mut FramePool, busy: usize) -> bool {
        for _ in 0..EXPIRIES_PER_BURST {
            let Some(table) = self.table.as_mut() else {
                return false;
            };
            let Some(flow) = table.wheel.due(self.now) else {
                return false;
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
        true
    }

    /// Drops the fragments that have waited too long by `now`, or all.
    pub(crate) fn drop_held(&mut self, pool: &mut FramePool, now: Option<u64>) {
        let mut over = self.waiting.take_over();
        self.fragments.expired(now, &mut over);
        let memory = pool.memory().clone();
        for frame in over.drain(..) {
            self.give_up_packet(&memory, &frame, EngineDrop::FragmentTimeout);
            pool.give(frame);
        }
        self.waiting.put_over(over);
    }

    /// Ends a flow: every function that has a state of it is told, then its
    /// aliases and its record go, and its units if it was their last flow.
    #[cold]
    pub(crate) fn end_flow(&mut self, pool: &mut FramePool, flow: u32, why: CloseReason) {
        let Some(table) = self.counts.internal.expect(self.table.as_mut(), HAS_TABLE) else {
            return;
        };
        let key = table.flows.blocks.head(flow).key;
        self.close_states(pool, None, flow, why);
        let cause = self.world.cause();
        self.note_end(cause, key, why);
        self.tell_end(None, flow, Some(why));
        let Some(table) = self.counts.internal.expect(self.table.as_mut(), HAS_TABLE) else {
            return;
        };
        let parent = core::mem::take(&mut table.flows.cold[flow as usize].parent);
        if let Some(follow) = &mut self.follow {
            follow.take_out(flow);
        }
        table.remove_flow(flow);
        if !self.world.silent {
            self.counts.end_flow(why);
        }
        self.let_go(pool, 0, parent, Some(why));
    }

    /// Tells the functions that keep states in a flow's record, or in that of
    /// a unit of scope number `scope`, that it ends. Functions with a wider scope
    /// are told of the flow too.
    pub(crate) fn close_states(
        &mut self,
        pool: &mut FramePool,
        scope: Option<usize>,
        record: u32,
        why: CloseReason,
    ) {
        let Some(records) = self.level(scope.map_or(0, |scope| scope + 1)) else {
            return;
        };
        let opened = records.blocks.head(record).opened;
        for number in 0..self.functions.nodes().len() {
            let node = &self.functions.nodes()[number];
            let here = match scope {
                None => opened & node.slot.flow_bit != 0,
                Some(_) => node.scope == scope && opened & node.slot.bit != 0,
            };
            if !here {
                continue;
            }
            let audited = self.observers.audits().then(|| self.before_end(number));
            self.close_state(pool, number, scope, record, why);
            self.functions.share_counts(number);
            if let Some(check) = audited {
                check(self);
            }
        }
        // An ended flow needs no names.
        self.clear_asked();
    }

    /// Tells function `number` that a flow, or the unit of its scope, ends.
    fn close_state(
        &mut self,
        pool: &mut FramePool,
        number: usize,
        scope: Option<usize>,
        record: u32,
        why: CloseReason,
    ) {
        let Some(table) = self.counts.internal.expect(self.table.as_mut(), HAS_TABLE) else {
            return;
        };
        let first = u32::from(self.functions.first());
        let node = &mut self.functions.nodes_mut()[number];
        if let Some(remembered) = &mut node.remembered {
            remembered.before_close(&node.counters);
        }
        let cx = self.world.context(
            pool,
            &mut node.counters,
            &mut node.tally,
            first + number as u32,
            Time(self.now),
        );
        let mut cx = cx.lend(&mut node.space);
        if let Some(scope) = scope {
            let blocks = &mut table.scopes[scope].records.blocks;
            node.processor
                .close(blocks, record, &node.slot, why, &mut cx);
            return;
        }
        let unit = node.scope.and_then(|scope| {
            let unit = match self.plan.fed() {
                Some(fed) => fed.unit_of(record, scope),
                None => table.unit_of(record, scope),
            };
            Some((scope, unit?))
        });
        if node.scope.is_some() && unit.is_none() {
            // A flow that was refused before it joined its unit.
            return;
        }
        let scoped = unit.map(|(scope, unit)| (&mut table.scopes[scope].records.blocks, unit));
        let flows = &mut table.flows.blocks;
        node.processor
            .flow_end(flows, record, scoped, &node.slot, why, &mut cx);
    }

    /// Lets go of a unit (its number plus one) of scope number `scope`; ends
    /// it if nothing else holds on to it, and tells the functions why. Without
    /// a reason it was opened for nothing and no function knows of it.
    pub(crate) fn let_go(
        &mut self,
        pool: &mut FramePool,
        mut scope: usize,
        mut unit: u32,
        why: Option<CloseReason>,
    ) {
        while let Some(record) = unit.checked_sub(1) {
            let Some(table) = self.counts.internal.expect(self.table.as_mut(), HAS_TABLE) else {
                return;
            };
            let cold = &mut table.scopes[scope].records.cold[record as usize];
            cold.holders = cold.holders.saturating_sub(1);
            if cold.holders > 0 {
                return;
            }
            unit = cold.parent;
            if let Some(why) = why {
                self.close_states(pool, Some(scope), record, why);
                self.note_names_end(scope, record, why);
            }
            self.tell_end(Some(scope), record, why);
            if let Some(table) = self.table.as_mut() {
                table.remove_unit(scope, record);
            }
            scope += 1;
        }
    }
}
