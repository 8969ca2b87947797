//! A later stage: states under the first one's record numbers.
//!
//! Nothing that comes in frames is believed: a record that does not exist or
//! is not the packet's flow, a function that is not here, a notice that
//! contradicts what is known, are counted (`misplaced`, and
//! [`crate::Report::bad_notices`]) and do nothing else.

use weir_nf::CloseReason;
use weir_nf::host::{BURST, FlowHead, NO_FLOW, Place, UnitPlace};
use weir_packet::{Frame, FrameKind, FrameMeta, FramePool, PacketMemory, Time, parse_into};

use super::code_of;
use super::fed::Member;
use super::notices::{self, End, FlowOpened, Notice};
use crate::classify::Classified;
use crate::drops::EngineDrop;
use crate::execute::Dispositions;
use crate::look::unread;
use crate::runtime::Runtime;
use crate::scratch::{MAX_SCOPES, bytes_of};

/// The work on a burst's packets, as masks.
#[derive(Clone, Copy, Default)]
struct Sorted {
    /// For functions of this stage.
    entered: u64,
    /// For others, or for none.
    passed: u64,
}

impl Runtime {
    /// [`Runtime::process`] of a later stage.
    #[inline(never)]
    pub(crate) fn process_fed(
        &mut self,
        pool: &mut FramePool,
        input: &mut Vec<Frame>,
        output: &mut Vec<Frame>,
    ) {
        let memory = self.waiting.take_memory(pool);
        let last = self.plan.fed().is_some_and(|fed| fed.last);
        while !input.is_empty() {
            let burst = &input[..input.len().min(BURST)];
            for frame in burst {
                memory.prefetch(frame);
            }
            let other = |frame: &Frame| memory.meta(frame).kind != FrameKind::Packet;
            let n = burst.iter().position(other).unwrap_or(burst.len());
            if n > 0 {
                self.burst_fed(pool, &memory, input, output, n);
                continue;
            }
            let frame = input.remove(0);
            let (meta, bytes) = memory.read(&frame);
            if !meta.kind.is_notice() {
                output.push(frame);
                continue;
            }
            for notice in notices::read(bytes) {
                let good = notice.is_ok_and(|notice| self.apply_notice(pool, &notice));
                if let (false, Some(fed)) = (good, self.plan.fed_mut()) {
                    fed.bad_notices += 1;
                }
            }
            if last {
                pool.give(frame);
            } else {
                output.push(frame);
            }
        }
        self.waiting.put_memory(memory);
    }

    fn burst_fed(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        input: &mut Vec<Frame>,
        output: &mut Vec<Frame>,
        mut n: usize,
    ) {
        let start = self.cost.now();
        if let Some(first) = input.first() {
            self.now = self.now.max(memory.meta(first).time.0);
        }
        if self.observers.are_there() {
            n = self.watch_begin(memory, &mut input[..n]);
        }
        let frames = &mut input[..n];
        let mut sorted = self.sort(memory, frames);
        self.number(memory, frames, &mut sorted);
        if self.observers.are_there() {
            self.watch_classified(memory, frames);
        }
        let bytes = bytes_of(memory, frames);
        self.counts.take_in(n, bytes);
        let found = Classified {
            count: n,
            alive: sorted.entered,
            held: 0,
            bytes,
        };
        let mut dispositions = Dispositions::default();
        if sorted.entered != 0 {
            dispositions = self.run(pool, memory, frames, &found);
        }
        self.address(memory, &mut input[..n], dispositions.out, sorted.passed);
        dispositions.out |= sorted.passed;
        if self.observers.are_there() {
            self.watch_leave(memory, &input[..n], &found, &dispositions);
        }
        if self.plan.fed().is_some_and(|fed| !fed.last) {
            self.mark_emitted(memory);
        }
        self.leave(pool, memory, input, output, &found, dispositions);
        if self.observers.are_there() {
            self.watch_end();
        }
        self.cost.end_burst(start);
    }

    /// Sorts packets by where they go, reads the headers of those that are for
    /// this stage, and fetches their flows' blocks.
    fn sort(&mut self, memory: &PacketMemory, frames: &[Frame]) -> Sorted {
        let mut sorted = Sorted::default();
        let mut misplaced = 0u64;
        let Some(fed) = self
            .counts
            .internal
            .expect(self.plan.fed(), "a later stage is fed")
        else {
            return sorted;
        };
        let scratch = &mut *self.scratch;
        for (i, frame) in frames.iter().enumerate().take(BURST) {
            let bit = 1u64 << i;
            let (meta, bytes) = memory.read(frame);
            let Some(next) = meta.next.checked_sub(1) else {
                sorted.passed |= bit;
                continue;
            };
            let number = next.checked_sub(fed.first).map(usize::from);
            let Some(input) = number.and_then(|n| scratch.inputs.get_mut(n)) else {
                if number.is_some() && !fed.last {
                    sorted.passed |= bit;
                } else {
                    misplaced |= bit;
                }
                continue;
            };
            *input |= bit;
            sorted.entered |= bit;
            let place = Place::of_carried(meta.place());
            if let Some(table) = &self.table
                && (place.flow as usize) < table.flows.blocks.count()
            {
                table
                    .flows
                    .blocks
                    .prefetch(place.flow, self.reading.block_lines());
            }
            scratch.places[i] = place;
            // The first stage has dropped what is malformed; what an earlier
            // function has made of a packet since is for its reader.
            if let Some(options) = self.reading.parse() {
                let headers = &mut scratch.headers[i];
                if parse_into(bytes, meta.link, options, headers).is_err() {
                    *headers = unread(meta.link, bytes);
                }
            }
        }
        self.refuse_misplaced(misplaced);
        sorted
    }

    /// Packets that are for no function here, or not of the flow they say.
    #[inline]
    fn refuse_misplaced(&mut self, mut misplaced: u64) {
        while misplaced != 0 {
            self.refuse_packet(misplaced.trailing_zeros() as usize, EngineDrop::Misplaced);
            misplaced &= misplaced - 1;
        }
    }

    /// Numbers the packets in their flows and units. Those whose flow is not
    /// what they say are dropped.
    fn number(&mut self, memory: &PacketMemory, frames: &[Frame], sorted: &mut Sorted) {
        let (Some(table), Some(fed)) = (&mut self.table, self.plan.fed()) else {
            for place in &mut self.scratch.places {
                *place = Place::NONE;
            }
            return;
        };
        let scratch = &mut *self.scratch;
        let mut misplaced = 0;
        let mut left = sorted.entered;
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            let bit = left & left.wrapping_neg();
            left &= left - 1;
            let flow = scratch.places[i].flow;
            if flow == NO_FLOW {
                continue;
            }
            let unit = memory.meta(&frames[i]).unit;
            let known = (flow as usize) < table.flows.blocks.count() && {
                let head = table.flows.blocks.head(flow);
                head.bits & FlowHead::LIVE != 0
                    && (head.id == unit || fed.members[flow as usize].unit == unit)
            };
            let joined = known
                && table.scopes.iter_mut().enumerate().all(|(number, scope)| {
                    let units = &fed.members[flow as usize].units;
                    let Some(unit) = units[number].checked_sub(1) else {
                        return false;
                    };
                    let head = scope.records.blocks.head_mut(unit);
                    head.clock += 1;
                    let clock = head.clock;
                    scratch.units[number][i] = UnitPlace { clock, unit };
                    head.bits & FlowHead::LIVE != 0
                });
            if !joined {
                sorted.entered &= !bit;
                for input in &mut scratch.inputs {
                    *input &= !bit;
                }
                scratch.places[i] = Place::NONE;
                misplaced |= bit;
                continue;
            }
            let head = table.flows.blocks.head_mut(flow);
            head.clock += 1;
            scratch.places[i].clock = head.clock;
        }
        self.refuse_misplaced(misplaced);
    }

    /// Writes where packets go next; what leaves the plan gets its metadata
    /// back.
    fn address(&mut self, memory: &PacketMemory, frames: &mut [Frame], ran: u64, passed: u64) {
        let last = self.plan.fed().is_some_and(|fed| fed.last);
        let mut left = if last { ran | passed } else { ran };
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            left &= left - 1;
            let meta = memory.meta_mut(&mut frames[i]);
            if last {
                give_back(meta);
            } else {
                meta.next = self.scratch.next[i];
            }
        }
    }

    /// For a later stage that takes the place of one that is lost, before its
    /// first packet: opens the flows that are open, as the first stage tells
    /// ([`Runtime::open_flows`]). Their states begin anew, which functions can
    /// see ([`weir_nf::FlowInfo`]). How many flows there were.
    pub fn learn(&mut self, pool: &mut FramePool, told: &[u8]) -> u64 {
        if let Some(fed) = self.plan.fed_mut() {
            fed.learned = true;
        }
        for notice in notices::read(told) {
            let good = match notice {
                Ok(Notice::FlowOpened(mut flow)) => {
                    flow.bits |= FlowHead::AFTER_LOSS;
                    self.apply_opened(&flow)
                }
                Ok(other) => self.apply_notice(pool, &other),
                Err(_) => false,
            };
            if let (false, Some(fed)) = (good, self.plan.fed_mut()) {
                fed.bad_notices += 1;
            }
        }
        self.plan.fed().map_or(0, |fed| fed.flows)
    }

    /// Does what a notice says; false where it can't be right.
    #[inline(never)]
    fn apply_notice(&mut self, pool: &mut FramePool, notice: &Notice) -> bool {
        match notice {
            Notice::FlowOpened(flow) => self.apply_opened(flow),
            Notice::UnitOpened {
                scope,
                record,
                id,
                key,
            } => {
                let (Some(table), Some(fed)) = (&mut self.table, self.plan.fed_mut()) else {
                    // A stage without states.
                    return true;
                };
                let scope = table.scopes.iter_mut().find(|s| code_of(s.scope) == *scope);
                let Some(scope) = scope else { return true };
                if fed.learned && scope.records.holds(*record, key, *id) {
                    // Known already, as after `learn`.
                    return true;
                }
                let taken = scope.records.take(*record, key, *id, FlowHead::LIVE);
                fed.units += u64::from(taken);
                taken
            }
            Notice::FlowEnded(end) => self.apply_end(pool, None, end),
            Notice::UnitEnded { scope, end } => {
                let scopes = self.table.iter().flat_map(|table| &table.scopes);
                let mut codes = scopes.map(|s| code_of(s.scope));
                match codes.position(|code| code == *scope) {
                    Some(scope) => self.apply_end(pool, Some(scope), end),
                    None => true,
                }
            }
        }
    }

    fn apply_opened(&mut self, flow: &FlowOpened) -> bool {
        let (Some(table), Some(fed)) = (&mut self.table, self.plan.fed_mut()) else {
            return true;
        };
        let records = &table.flows;
        if fed.learned && records.holds(flow.record, &flow.key, flow.id) {
            // Known already, as after `learn`.
            return true;
        }
        let mut units = [0; MAX_SCOPES];
        for (place, scope) in units.iter_mut().zip(&table.scopes) {
            let told = flow.units.as_slice().iter();
            let mut told = told.filter(|(code, _)| *code == code_of(scope.scope));
            let unit = told.next().map(|(_, record)| *record);
            match unit.filter(|&record| scope.records.is_live(record)) {
                Some(record) => *place = record + 1,
                None => return false,
            }
        }
        let bits = flow.bits & (FlowHead::CLIENT_IS_B | FlowHead::AFTER_LOSS) | FlowHead::LIVE;
        if !table.flows.take(flow.record, &flow.key, flow.id, bits) {
            return false;
        }
        let Some(member) = fed.members.get_mut(flow.record as usize) else {
            return false;
        };
        *member = Member {
            unit: flow.unit,
            units,
        };
        fed.flows += 1;
        self.counts.open_flow();
        true
    }

    fn apply_end(&mut self, pool: &mut FramePool, scope: Option<usize>, end: &End) -> bool {
        let Some(table) = &mut self.table else {
            return true;
        };
        let records = match scope {
            None => &mut table.flows,
            Some(scope) => &mut table.scopes[scope].records,
        };
        if !records.is_live(end.record) || records.blocks.head(end.record).id != end.id {
            return false;
        }
        end.set(records.blocks.head_mut(end.record));
        self.now = end.now;
        self.end_fed(pool, scope, end.record, end.why);
        true
    }

    /// Ends a record: its functions are told, and it is free.
    pub(crate) fn end_fed(
        &mut self,
        pool: &mut FramePool,
        scope: Option<usize>,
        record: u32,
        why: Option<CloseReason>,
    ) {
        if let Some(why) = why {
            self.close_states(pool, scope, record, why);
        }
        let (Some(table), Some(fed)) = (&mut self.table, self.plan.fed_mut()) else {
            return;
        };
        match scope {
            None => {
                table.flows.blocks.head_mut(record).bits = 0;
                fed.flows = fed.flows.saturating_sub(1);
                if let Some(why) = why {
                    self.counts.end_flow(why);
                }
            }
            Some(scope) => {
                let blocks = &mut table.scopes[scope].records.blocks;
                blocks.head_mut(record).bits = 0;
                fed.units = fed.units.saturating_sub(1);
            }
        }
    }

    /// Ends what the first stage has not ended: it is gone.
    pub(crate) fn finish_fed(
        &mut self,
        pool: &mut FramePool,
        now: Time,
        mut events: impl FnMut(&mut weir_nf::EventLog),
    ) {
        self.now = self.now.max(now.0);
        events(&mut self.world.events);
        let scopes = self.table.as_ref().map_or(0, |table| table.scopes.len());
        for scope in core::iter::once(None).chain((0..scopes).map(Some)) {
            let live: Vec<u32> = match (&self.table, scope) {
                (Some(table), None) => table.flows.live().collect(),
                (Some(table), Some(scope)) => table.scopes[scope].records.live().collect(),
                (None, _) => Vec::new(),
            };
            for records in live.chunks(crate::scratch::FLOWS_AT_THE_END) {
                for &record in records {
                    self.end_fed(pool, scope, record, Some(CloseReason::Shutdown));
                    if self.world.events.is_half_full() {
                        events(&mut self.world.events);
                    }
                }
                events(&mut self.world.events);
            }
        }
        self.drop_asked(pool);
    }
}

/// The metadata that a packet leaves with: as of a runtime that is alone.
fn give_back(meta: &mut FrameMeta) {
    meta.next = 0;
    meta.view = u64::from(meta.place().record != NO_FLOW);
}
