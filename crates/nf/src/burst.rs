//! A burst as a network function sees it.

use core::marker::PhantomData;

use weir_packet::Packet;

use crate::host::{MAX_LABELS, NO_FLOW, Opened, Work};
use crate::{Context, Flow, FlowInfo, Needs, NetworkFunction, Tracked, Verdict};

/// The packets of a burst that reach a function, in order of arrival.
#[derive(Debug)]
pub struct Burst<'a, N> {
    work: Work<'a>,
    function: PhantomData<N>,
}

impl<'a, N: NetworkFunction> Burst<'a, N> {
    /// Wraps the engine's work for a function.
    pub fn new(work: Work<'a>) -> Burst<'a, N> {
        Burst {
            work,
            function: PhantomData,
        }
    }

    /// Bit i is set where packet i is to be worked on. A function that
    /// overrides [`NetworkFunction::process_burst`] gives each of them a
    /// verdict.
    pub fn mask(&self) -> u64 {
        self.work.mask
    }

    /// Packet `i` (a set bit of [`Burst::mask`]) without its flow.
    #[inline]
    pub fn packet(&mut self, i: usize) -> Packet<'_> {
        let (meta, room) = self.work.memory.split_mut(&mut self.work.frames[i]);
        Packet::new(meta, room, &mut self.work.headers[i])
    }

    /// Verdict on packet `i`.
    #[inline]
    pub fn verdict(&mut self, i: usize, verdict: Verdict) {
        let bit = 1u64 << i;
        let outcome = &mut *self.work.outcome;
        match verdict {
            Verdict::Pass => outcome.labels[0] |= bit,
            Verdict::Label(label) => outcome.labels[usize::from(label) % MAX_LABELS] |= bit,
            Verdict::Turn => outcome.turned |= bit,
            Verdict::Drop(reason) => {
                outcome.dropped |= bit;
                outcome.reasons[i] = reason.number();
            }
        }
    }

    /// All packets pass.
    #[inline]
    pub fn pass_all(&mut self) {
        self.work.outcome.labels[0] |= self.work.mask;
    }

    /// The packets of `mask` pass; bits outside [`Burst::mask`] do nothing.
    #[inline]
    pub fn pass(&mut self, mask: u64) {
        self.work.outcome.labels[0] |= mask & self.work.mask;
    }

    /// Works on packet `i` (a set bit of [`Burst::mask`]) as
    /// [`Burst::for_each`] does, for a function that treats the common packets
    /// of a burst itself and leaves the others to its per-packet calls.
    #[inline]
    pub fn step(&mut self, i: usize, function: &N, cx: &mut Context<'_>) {
        let verdict = if self.work.scoped.is_some() {
            self.judge::<true>(i, function, cx)
        } else {
            self.judge::<false>(i, function, cx)
        };
        self.verdict(i, verdict);
    }

    /// Calls the function packet by packet: opens states where needed, then
    /// [`NetworkFunction::process`], or [`NetworkFunction::without_flow`].
    #[inline]
    pub fn for_each(&mut self, function: &N, cx: &mut Context<'_>) {
        if self.work.scoped.is_some() {
            self.each::<true>(function, cx);
        } else {
            self.each::<false>(function, cx);
        }
    }

    #[inline(always)]
    fn each<const WIDER: bool>(&mut self, function: &N, cx: &mut Context<'_>) {
        let mut left = self.work.mask;
        let mut passed = 0;
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            match self.judge::<WIDER>(i, function, cx) {
                Verdict::Pass => passed |= left & left.wrapping_neg(),
                other => self.verdict(i, other),
            }
            left &= left - 1;
        }
        self.pass(passed);
    }

    #[inline(always)]
    fn judge<const WIDER: bool>(
        &mut self,
        i: usize,
        function: &N,
        cx: &mut Context<'_>,
    ) -> Verdict {
        if matches!(N::DESCRIPTOR.needs, Needs::Flow) {
            self.one::<WIDER>(i, function, cx)
        } else {
            let mut packet = self.packet(i);
            cx.at(i, &packet);
            function.without_flow(&mut packet, cx)
        }
    }

    /// One packet with its flow, whose state is opened first where needed.
    #[inline(always)]
    fn one<const WIDER: bool>(&mut self, i: usize, function: &N, cx: &mut Context<'_>) -> Verdict {
        let work = &mut self.work;
        let place = &work.places[i];
        let (meta, room) = work.memory.split_mut(&mut work.frames[i]);
        let mut packet = Packet::new(meta, room, &mut work.headers[i]);
        let flow = place.flow;
        if flow == NO_FLOW {
            cx.at(i, &packet);
            return function.without_flow(&mut packet, cx);
        }
        let bit = work.slot.bit;
        let (head, state, stats, buffers, flow_state, mut flow_head, clock);
        match &mut work.scoped {
            Some((scoped, units)) if WIDER => {
                let block: Opened<'_, N::State, N::Stats, ()> =
                    scoped.open(units[i].unit, &work.slot);
                (head, state, stats, buffers) =
                    (block.head, block.state, block.stats, block.buffers);
                let own = work.blocks.open_flow::<N::FlowState>(flow, &work.slot);
                (flow_head, flow_state) = (Some(own.0), own.1);
                clock = units[i].clock;
            }
            _ => {
                let block: Opened<'_, N::State, N::Stats, N::FlowState> =
                    work.blocks.open(flow, &work.slot);
                (head, state, stats, buffers) =
                    (block.head, block.state, block.stats, block.buffers);
                (flow_head, flow_state) = (None, block.flow_state);
                clock = place.clock;
            }
        }
        let time = packet.time();
        cx.of(i, &packet, flow, head.id);
        let first = match &flow_head {
            None => head.opened & bit == 0,
            Some(flow_head) => flow_head.opened & work.slot.flow_bit == 0,
        };
        if head.opened & bit == 0 {
            let about = flow_head.as_deref().unwrap_or(head);
            let info = FlowInfo::at(about, place, time, head.id, clock).first_here(first);
            match function.open(&packet, &info, cx) {
                Ok(new) => *state = new,
                Err(reason) => return Verdict::Drop(reason),
            }
            head.opened |= bit;
            head.changed |= bit;
            work.outcome.changed |= 1 << i;
        }
        if let Some(flow_head) = &mut flow_head
            && first
        {
            flow_head.opened |= work.slot.flow_bit;
            work.outcome.changed |= 1 << i;
        }
        let (mut changed, mut buffers_changed, mut flow_changed) = (false, false, false);
        let verdict = {
            let about = flow_head.as_deref().unwrap_or(head);
            let info = FlowInfo::at(about, place, time, head.id, clock).first_here(first);
            let mut flow: Flow<'_, N> = Flow {
                state: Tracked::new(state, &mut changed),
                flow_state: Tracked::new(flow_state, &mut flow_changed),
                stats,
                info,
                buffers,
                buffers_changed: &mut buffers_changed,
            };
            function.process(&mut packet, &mut flow, cx)
        };
        if changed | buffers_changed {
            head.changed |= bit;
            work.outcome.changed |= 1 << i;
        }
        if flow_changed {
            flow_head.unwrap_or(head).changed |= work.slot.flow_bit;
            work.outcome.changed |= 1 << i;
        }
        verdict
    }
}
