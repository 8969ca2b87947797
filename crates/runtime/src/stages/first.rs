//! The first stage: what it tells the later ones, and in what order.
//!
//! Notices are never lost and never late. They are gathered while a burst is
//! classified and put into frames before its packets. Where no frame is free
//! the burst's packets wait here, and no further packet is taken: what is not
//! taken stays in the input of [`Runtime::process`]. The next call goes on
//! where it stopped. So a driver whose frames are all elsewhere must bring
//! some back before it calls again; packets that leave the last stage do.

use weir_nf::CloseReason;
use weir_nf::host::Place;
use weir_packet::{
    Frame, FrameKind, FrameMeta, FramePool, HEADROOM, META_BYTES, PacketMemory, Time,
};

use super::code_of;
use super::notices::{self, End, FlowOpened, Notice, Units};
use crate::execute::Dispositions;
use crate::flows::FlowTable;
use crate::runtime::Runtime;

/// Frames that functions may not take for packets of theirs, so that notices
/// seldom wait.
const SPARE_FRAMES: usize = 8;

impl FlowTable {
    fn flow_opened(&self, flow: u32) -> Notice {
        let head = self.flows.blocks.head(flow);
        let mut units = Units::default();
        let mut unit = head.id;
        let mut parent = self.flows.cold[flow as usize].parent;
        for scope in &self.scopes {
            let Some(record) = parent.checked_sub(1) else {
                break;
            };
            units.push(code_of(scope.scope), record);
            unit = scope.records.blocks.head(record).id;
            parent = scope.records.cold[record as usize].parent;
        }
        Notice::FlowOpened(FlowOpened {
            record: flow,
            id: head.id,
            unit,
            key: head.key,
            bits: head.bits,
            units,
        })
    }

    fn unit_opened(&self, scope: usize, record: u32) -> Notice {
        let scope = &self.scopes[scope];
        let head = scope.records.blocks.head(record);
        Notice::UnitOpened {
            scope: code_of(scope.scope),
            record,
            id: head.id,
            key: head.key,
        }
    }
}

impl Runtime {
    /// [`Runtime::process`] of a first stage.
    #[inline(never)]
    pub(crate) fn process_first(
        &mut self,
        pool: &mut FramePool,
        input: &mut Vec<Frame>,
        output: &mut Vec<Frame>,
    ) {
        self.world.emits.spare = SPARE_FRAMES;
        while self.tell(pool, output) {
            if let Some(mut again) = self.waiting.take_again() {
                self.burst(pool, &mut again, output, false);
                self.waiting.put_again(again);
            } else if !input.is_empty() {
                let before = input.len();
                self.burst(pool, input, output, true);
                self.counts.take_in(before - input.len(), 0);
            } else {
                return;
            }
        }
    }

    /// True where this is the first stage of several and waits for free frames
    /// to tell the later ones of its flows: until then it takes no packet.
    pub fn waits_for_frames(&self) -> bool {
        let feed = self.plan.feed();
        feed.is_some_and(|feed| !feed.told.is_empty())
    }

    /// Puts what there is to tell into frames, and what waits for it behind.
    /// False where no frame is free.
    pub(crate) fn tell(&mut self, pool: &mut FramePool, output: &mut Vec<Frame>) -> bool {
        let Some(feed) = self.plan.feed_mut() else {
            return true;
        };
        if !feed.told.is_empty() {
            let small = pool.memory().layout().small_bytes as usize;
            let most = small.saturating_sub(META_BYTES + HEADROOM);
            let mut done = 0;
            while let Some(left) = feed.told.get(done..).filter(|left| !left.is_empty()) {
                let whole = notices::whole_within(left, most);
                let mut meta = FrameMeta::received(Time(self.now), 0);
                meta.kind = FrameKind::Notice;
                meta.wire_len = whole as u32;
                let Some(Ok(frame)) = left.get(..whole).map(|text| pool.copy(text, meta)) else {
                    break;
                };
                output.push(frame);
                done += whole;
            }
            feed.told.drain(..done);
        }
        if feed.told.is_empty() {
            output.append(&mut feed.waiting);
            true
        } else {
            false
        }
    }

    /// Hands a burst on to the later stages: to `output` where all was told,
    /// else to those that wait.
    pub(crate) fn tell_and_leave(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        input: &mut Vec<Frame>,
        output: &mut Vec<Frame>,
        found: &crate::classify::Classified,
        dispositions: Dispositions,
    ) {
        let mut out = dispositions.out;
        while out != 0 {
            let i = out.trailing_zeros() as usize;
            out &= out - 1;
            let meta = memory.meta_mut(&mut input[i]);
            meta.next = self.scratch.next[i];
            meta.set_place(self.scratch.places[i].carried());
        }
        self.mark_emitted(memory);
        if self.tell(pool, output) {
            self.leave(pool, memory, input, output, found, dispositions);
            return;
        }
        let feed = self.plan.feed_mut();
        let Some(feed) = self.counts.internal.expect(feed, "the first stage tells") else {
            return;
        };
        let mut waiting = core::mem::take(&mut feed.waiting);
        self.leave(pool, memory, input, &mut waiting, found, dispositions);
        if let Some(feed) = self.plan.feed_mut() {
            feed.waiting = waiting;
        }
    }

    /// Packets that functions made are for no later one and of no flow.
    pub(crate) fn mark_emitted(&mut self, memory: &PacketMemory) {
        for frame in &mut self.world.emits.frames {
            memory.meta_mut(frame).set_place(Place::NONE.carried());
        }
    }

    /// The flows and units that are open now, as bytes for a later stage that
    /// takes the place of one that is lost ([`Runtime::learn`]). Empty where
    /// this is not the first stage of several.
    pub fn open_flows(&self) -> Vec<u8> {
        let mut told = Vec::new();
        let (Some(table), true) = (&self.table, self.plan.feed().is_some()) else {
            return told;
        };
        for (number, scope) in table.scopes.iter().enumerate() {
            for record in scope.records.live() {
                notices::write(&table.unit_opened(number, record), &mut told);
            }
        }
        for flow in table.flows.live() {
            notices::write(&table.flow_opened(flow), &mut told);
        }
        told
    }

    /// A flow was opened and has its units.
    pub(crate) fn tell_flow_opened(&mut self, flow: u32) {
        if let (Some(feed), Some(table)) = (self.plan.feed_mut(), &self.table) {
            notices::write(&table.flow_opened(flow), &mut feed.told);
        }
    }

    /// A unit of scope number `scope` was opened.
    pub(crate) fn tell_unit_opened(&mut self, scope: usize, record: u32) {
        if let (Some(feed), Some(table)) = (self.plan.feed_mut(), &self.table) {
            notices::write(&table.unit_opened(scope, record), &mut feed.told);
        }
    }

    /// A flow, or a unit of scope number `scope`, ends; its record is still
    /// there.
    pub(crate) fn tell_end(&mut self, scope: Option<usize>, record: u32, why: Option<CloseReason>) {
        let (Some(table), Some(feed)) = (&self.table, self.plan.feed_mut()) else {
            return;
        };
        let notice = match scope {
            None => {
                let head = table.flows.blocks.head(record);
                Notice::FlowEnded(End::of(record, head, why, self.now))
            }
            Some(scope) => {
                let scope = &table.scopes[scope];
                let head = scope.records.blocks.head(record);
                Notice::UnitEnded {
                    scope: code_of(scope.scope),
                    end: End::of(record, head, why, self.now),
                }
            }
        };
        notices::write(&notice, &mut feed.told);
    }

    /// Ends all flows at `now`, or at the time of the last packet if that is
    /// later, and tells the later stages: what they must know is added to
    /// `output`. False where frames ran out: the caller sends on what there is
    /// and calls again. `events` is shown the log after each few flows.
    ///
    /// For the first of several stages; a runtime that is alone, and a later
    /// one when all that the first one put out has come to it, ends by
    /// [`Runtime::finish_with`].
    pub fn finish_first(
        &mut self,
        pool: &mut FramePool,
        now: Time,
        output: &mut Vec<Frame>,
        mut events: impl FnMut(&mut weir_nf::EventLog),
    ) -> bool {
        self.process_first(pool, &mut Vec::new(), output);
        self.now = self.now.max(now.0);
        if self.waits_for_frames() {
            return false;
        }
        self.drop_held(pool, None);
        let live: Vec<u32> = match &self.table {
            Some(table) => table.flows.live().collect(),
            None => Vec::new(),
        };
        events(&mut self.world.events);
        for flows in live.chunks(crate::scratch::FLOWS_AT_THE_END) {
            for &flow in flows {
                self.end_flow(pool, flow, CloseReason::Shutdown);
                if self.world.events.is_half_full() {
                    events(&mut self.world.events);
                }
            }
            events(&mut self.world.events);
            if !self.tell(pool, output) {
                return false;
            }
        }
        self.drop_asked(pool);
        true
    }
}
