//! The runtime: a burst in, a burst out, run to completion.

use weir_nf::host::{BURST, World};
use weir_nf::{CloseReason, EventLog};
use weir_packet::{Frame, FramePool, Time};

use crate::counts::{Cost, Counts};
use crate::flows::FlowTable;
use crate::follow::Follow;
use crate::fragments::Fragments;
use crate::functions::Functions;
use crate::reading::Reading;
use crate::report::{FlowReport, Report};
use crate::scratch::{FLOWS_AT_THE_END, Scratch};
use crate::stages::{InPlan, Kind};
use crate::waiting::Waiting;
use crate::watch::Observers;

/// One runtime: one stage, its flows, and everything its functions share.
///
/// It is owned by one thread and knows no clock, socket or file; time is that
/// of the packets.
pub struct Runtime {
    pub(crate) functions: Functions,
    pub(crate) reading: Reading,
    /// Flows and their units.
    pub(crate) table: Option<FlowTable>,
    pub(crate) fragments: Fragments,
    /// Services that all functions share.
    pub(crate) world: World,
    pub(crate) plan: InPlan,
    /// Under a switch.
    pub(crate) follow: Option<Box<Follow>>,
    pub(crate) observers: Observers,
    pub(crate) waiting: Waiting,
    pub(crate) scratch: Box<Scratch>,
    pub(crate) counts: Counts,
    pub(crate) cost: Cost,
    /// Time of the latest packet, or of the clock where that goes on.
    pub(crate) now: u64,
}

impl core::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Runtime")
            .field("chain", &self.functions.chain())
            .finish_non_exhaustive()
    }
}

impl Runtime {
    /// Takes all packets of `input` through the chain; what comes out is added
    /// to `output`, in order, and what is dropped goes back to `pool`. The
    /// frames must be of `pool`'s memory.
    ///
    /// The first of several stages leaves packets in `input` where no frame is
    /// free to tell the later ones of its flows
    /// ([`Runtime::waits_for_frames`]); the next call goes on with them.
    pub fn process(
        &mut self,
        pool: &mut FramePool,
        input: &mut Vec<Frame>,
        output: &mut Vec<Frame>,
    ) {
        match self.plan.kind() {
            Kind::Alone => {}
            Kind::First => return self.process_first(pool, input, output),
            Kind::Later => return self.process_fed(pool, input, output),
        }
        self.counts.take_in(input.len(), 0);
        while !input.is_empty() {
            self.burst(pool, input, output, true);
            if self.waiting.len() != 0 {
                self.run_requeued(pool, output);
            }
        }
    }

    #[cold]
    fn run_requeued(&mut self, pool: &mut FramePool, output: &mut Vec<Frame>) {
        while let Some(mut again) = self.waiting.take_again() {
            while !again.is_empty() {
                self.burst(pool, &mut again, output, false);
            }
            self.waiting.put_again(again);
        }
    }

    /// Takes at most a burst of packets from the front of `input`.
    pub(crate) fn burst(
        &mut self,
        pool: &mut FramePool,
        input: &mut Vec<Frame>,
        output: &mut Vec<Frame>,
        fresh: bool,
    ) {
        if self.observers.are_there() {
            self.burst_as::<true>(pool, input, output, fresh);
        } else {
            self.burst_as::<false>(pool, input, output, fresh);
        }
    }

    #[inline(always)]
    fn burst_as<const OBSERVED: bool>(
        &mut self,
        pool: &mut FramePool,
        input: &mut Vec<Frame>,
        output: &mut Vec<Frame>,
        fresh: bool,
    ) {
        let start = self.cost.now();
        let memory = self.waiting.take_memory(pool);
        let mut n = input.len().min(BURST);
        if let Some(first) = input.first() {
            self.now = self.now.max(memory.meta(first).time.0);
        }
        self.expire(pool);
        if OBSERVED {
            n = self.watch_begin(&memory, &mut input[..n]);
        }
        let found = self.classify(pool, &memory, &mut input[..n]);
        if OBSERVED {
            self.watch_classified(&memory, &input[..found.count]);
        }
        if fresh {
            self.counts.take_in(0, found.bytes);
        }
        let dispositions = self.run(pool, &memory, &mut input[..found.count], &found);
        if OBSERVED {
            self.watch_leave(&memory, &input[..found.count], &found, &dispositions);
        }
        if self.plan.kind() == Kind::First {
            self.tell_and_leave(pool, &memory, input, output, &found, dispositions);
        } else {
            self.leave(pool, &memory, input, output, &found, dispositions);
        }
        if OBSERVED {
            self.watch_end();
        }
        self.waiting.put_memory(memory);
        self.cost.end_burst(start);
    }

    /// Ends all flows and gives held packets back to `pool`, as dropped; the
    /// last events are in [`Runtime::events`] afterwards.
    pub fn finish(&mut self, pool: &mut FramePool) {
        self.finish_with(pool, Time::ZERO, |_| {});
    }

    /// The same at a time, if no later packet has come. `events` is shown the
    /// log before, after each few flows, and at the end, and may empty it: so
    /// many may end that it can't hold them all. The first of several stages
    /// ends by [`Runtime::finish_first`] instead: here it tells nobody.
    pub fn finish_with(
        &mut self,
        pool: &mut FramePool,
        now: Time,
        mut events: impl FnMut(&mut EventLog),
    ) {
        if self.plan.kind() == Kind::Later {
            return self.finish_fed(pool, now, events);
        }
        self.now = self.now.max(now.0);
        events(&mut self.world.events);
        let mut next = Some(0);
        while let Some(from) = next {
            next = self.finish_some(pool, from);
            events(&mut self.world.events);
        }
    }

    /// The same bit by bit, for a runtime that is alone: ends some flows, from
    /// record `from` on (0 at first). Where to go on, until all have ended; their
    /// events are to be taken each time.
    pub fn finish_some(&mut self, pool: &mut FramePool, from: u32) -> Option<u32> {
        self.drop_held(pool, None);
        let mut next = from;
        // Under a switch the log is shared out among a burst's packets, and there is
        // none.
        self.world.events.give_whole();
        for _ in 0..FLOWS_AT_THE_END {
            let flow = self
                .table
                .as_ref()
                .and_then(|table| table.flows.live_from(next).next());
            let Some(flow) = flow else {
                if let Some(feed) = self.plan.feed_mut() {
                    feed.drop_told(pool);
                }
                self.drop_asked(pool);
                return None;
            };
            self.end_flow(pool, flow, CloseReason::Shutdown);
            next = flow + 1;
            if self.world.events.is_half_full() {
                break;
            }
        }
        Some(next)
    }

    /// `close` takes no packets, but nothing stops a function from asking.
    pub(crate) fn drop_asked(&mut self, pool: &mut FramePool) {
        for frame in self.world.emits.frames.drain(..) {
            pool.give(frame);
        }
        self.clear_asked();
    }

    /// Forgets the names that functions asked for.
    pub(crate) fn clear_asked(&mut self) {
        self.world.aliases.asked.clear();
        if let Some(causes) = &mut self.world.aliases.causes {
            causes.packets.clear();
        }
    }

    /// Events not yet taken; the driver writes them and clears them.
    pub fn events(&mut self) -> &mut EventLog {
        &mut self.world.events
    }

    /// Port leases.
    pub fn leases(&self) -> &weir_nf::Leases {
        &self.world.leases
    }

    /// Flows open now.
    pub fn active_flows(&self) -> usize {
        match self.plan.fed() {
            Some(fed) => fed.flows as usize,
            None => self.table.as_ref().map_or(0, |table| table.flows.len()),
        }
    }

    /// Packets taken in so far, as in [`Runtime::report`].
    pub fn packets_in(&self) -> u64 {
        self.counts.so_far.packets_in
    }

    /// The counts so far.
    pub fn report(&self) -> Report {
        let counted = self.counts.report();
        let mut drops = counted.drops;
        self.functions.drops(&mut drops);
        Report {
            chain: self.functions.chain().to_owned(),
            emits_lost: self.world.emits.lost,
            held: (self.fragments.held() + self.waiting.len()) as u64,
            drops,
            flows: self.flow_report(counted.flows),
            functions: self.functions.reports(),
            events: self.world.events.recorded(),
            events_lost: self.world.events.lost(),
            bad_notices: self.plan.fed().map_or(0, |fed| fed.bad_notices),
            engine_cycles: self.cost.engine(),
            ..counted
        }
    }

    fn flow_report(&self, counted: FlowReport) -> FlowReport {
        let mut report = FlowReport {
            ports_leased: self.world.leases.leased(),
            buffer_bytes: self.world.buffers.in_use() as u64,
            buffers_refused: self.world.buffers.refused(),
            ..counted
        };
        if let Some(fed) = self.plan.fed() {
            report.active = fed.flows;
            report.units = fed.units;
        } else if let Some(table) = &self.table {
            report.tracked = true;
            report.active = table.flows.len() as u64;
            report.units = table.scopes.iter().map(|s| s.records.len() as u64).sum();
            report.aliases = table.aliases.len() as u64;
            report.aliases_refused = table.aliases_refused + self.world.aliases.refused;
        }
        report
    }
}
