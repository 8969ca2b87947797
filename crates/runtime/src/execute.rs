//! From flows to verdicts: the functions of the stage, one call each per
//! burst, and what becomes of the packets.

use weir_nf::host::{BURST, MAX_LABELS, Target, Work};
use weir_packet::{FragmentKey, Frame, FramePool, PacketMemory, Time, frame_flags};

use crate::classify::Classified;
use crate::drops::EngineDrop;
use crate::flows::HAS_TABLE;
use crate::functions::RunNode;
use crate::runtime::Runtime;
use crate::scratch::all;
use crate::stages::Kind;

/// The dispositions of a burst's packets, as masks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dispositions {
    pub(crate) out: u64,
    pub(crate) turned: u64,
    /// Packets whose bytes were counted last, as a mask, and how many these are.
    pub(crate) sized: (u64, u64),
}

impl Dispositions {
    /// Before the first function.
    fn of(found: &Classified) -> Dispositions {
        Dispositions {
            sized: (all(found.count), found.bytes),
            ..Dispositions::default()
        }
    }
}

impl Runtime {
    /// Takes a classified burst through the functions.
    #[inline(never)]
    pub(crate) fn run(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        frames: &mut [Frame],
        found: &Classified,
    ) -> Dispositions {
        let mut dispositions = Dispositions::of(found);
        let Some(first) = self.scratch.inputs.first_mut() else {
            dispositions.out = found.alive;
            return dispositions;
        };
        match self.plan.kind() {
            Kind::Alone => *first = found.alive,
            Kind::First => (*first, self.scratch.next) = (found.alive, [0; BURST]),
            Kind::Later => self.scratch.next = [0; BURST],
        }
        self.functions.forget_verdicts();
        let mut last = self.cost.now();
        for number in 0..self.functions.nodes().len() {
            let mask = core::mem::take(&mut self.scratch.inputs[number]);
            self.scratch.passed[number] = mask;
            if mask == 0 {
                continue;
            }
            if dispositions.sized.0 != mask {
                dispositions.sized = (mask, bytes_of(memory, frames, mask));
            }
            let node = &mut self.functions.nodes_mut()[number];
            if !self.world.silent {
                node.packets += u64::from(mask.count_ones());
                node.bytes += dispositions.sized.1;
            }
            let scratch = &mut *self.scratch;
            scratch.outcome.clear();
            if let Some(earlier) = node.same_as {
                let internal = &mut self.counts.internal;
                let outcome = &mut scratch.outcome;
                self.functions
                    .recall(number, earlier, mask, outcome, internal);
                if self.observers.are_there() {
                    self.watch_recalled(memory, frames, number, mask);
                }
                self.settle(number, mask, memory, frames, &mut dispositions);
                continue;
            }
            if let Some(remembered) = &mut node.remembered {
                remembered.before(mask, &node.counters);
            }
            if self.observers.are_there() {
                self.call_observed(pool, memory, frames, number, mask);
            } else {
                self.call(pool, memory, frames, number, mask);
            }
            last = self.charge(number, last);
            let node = &mut self.functions.nodes_mut()[number];
            if node.writes {
                dispositions.sized = (0, 0);
            }
            if let Some(remembered) = &mut node.remembered {
                remembered.after(&self.scratch.outcome, &node.counters);
            }
            self.settle(number, mask, memory, frames, &mut dispositions);
            if !self.world.aliases.asked.is_empty() {
                self.register_asked(pool, found.count);
            }
        }
        dispositions
    }

    /// Charges function `number` with the cycles since `last`; returns the present reading. There is one
    /// reading per function: sending on what it decided counts as the cost of the next one, or of the engine.
    #[inline(always)]
    fn charge(&mut self, number: usize, last: u64) -> u64 {
        let now = self.cost.now();
        let spent = now.wrapping_sub(last);
        self.functions.nodes_mut()[number].cycles += spent;
        self.cost.add_function(spent);
        now
    }

    /// Registers the names that the functions have asked for in the first `count` packets of the burst.
    fn register_asked(&mut self, pool: &mut FramePool, count: usize) {
        match self.follow {
            Some(_) => self.register_in_units(),
            None => self.register_aliases(pool, count),
        }
    }

    /// Calls function `number` with the packets of `mask`.
    #[inline(always)]
    pub(crate) fn call(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        frames: &mut [Frame],
        number: usize,
        mask: u64,
    ) {
        let first = u32::from(self.functions.first());
        let (node, no_blocks) = self.functions.callable(number);
        let scratch = &mut *self.scratch;
        let cx = self.world.context(
            pool,
            &mut node.counters,
            &mut node.tally,
            first + number as u32,
            Time(self.now),
        );
        let mut cx = cx.lend(&mut node.space);
        let (blocks, scoped) = match &mut self.table {
            Some(table) => (
                &mut table.flows.blocks,
                node.scope
                    .map(|s| (&mut table.scopes[s].records.blocks, &scratch.units[s])),
            ),
            None => (no_blocks, None),
        };
        node.processor.run(
            Work {
                memory,
                frames,
                headers: &mut scratch.headers[..],
                places: &scratch.places,
                mask,
                blocks,
                scoped,
                slot: node.slot,
                outcome: &mut scratch.outcome,
            },
            &mut cx,
        );
    }

    /// Sends packets on by the verdicts of function `number`. Each packet it
    /// was given goes one way: a drop or a turn counts before a link, a lower
    /// link before a higher one.
    #[inline(always)]
    fn settle(
        &mut self,
        number: usize,
        given: u64,
        memory: &PacketMemory,
        frames: &mut [Frame],
        dispositions: &mut Dispositions,
    ) {
        let node = &mut self.functions.nodes_mut()[number];
        let outcome = &self.scratch.outcome;
        if outcome.labels[0] == given && outcome.dropped | outcome.turned == 0 {
            match node.next[0] {
                Target::Out => dispositions.out |= given,
                Target::Later(function) => {
                    send_later(&mut self.scratch.next, function, given);
                    dispositions.out |= given;
                }
                Target::Node(next) => self.scratch.inputs[next] |= given,
                Target::Drop => self.settle_ways(number, given, memory, frames, dispositions),
            }
        } else {
            self.settle_ways(number, given, memory, frames, dispositions);
        }
    }

    #[inline(never)]
    fn settle_ways(
        &mut self,
        number: usize,
        given: u64,
        memory: &PacketMemory,
        frames: &mut [Frame],
        dispositions: &mut Dispositions,
    ) {
        let node = &mut self.functions.nodes_mut()[number];
        let outcome = &self.scratch.outcome;
        let dropped = outcome.dropped & given;
        let turned = outcome.turned & given & !dropped;
        let mut left = given & !dropped & !turned;
        for label in 0..MAX_LABELS {
            let mask = outcome.labels[label] & left;
            left &= !mask;
            if mask == 0 {
                continue;
            }
            match node.next[label] {
                Target::Out => dispositions.out |= mask,
                Target::Node(next) => self.scratch.inputs[next] |= mask,
                Target::Later(function) => {
                    let next = &mut self.scratch.next;
                    send_later(next, function, mask);
                    dispositions.out |= mask;
                }
                Target::Drop if self.world.silent => {}
                Target::Drop => {
                    node.label_drops[label] += u64::from(mask.count_ones());
                    node.dropped += u64::from(mask.count_ones());
                }
            }
        }
        if self.world.silent {
            return;
        }
        if dropped != 0 {
            count_drops(node, dropped, &outcome.reasons);
        }
        while left != 0 {
            self.refuse_packet(left.trailing_zeros() as usize, EngineDrop::NoVerdict);
            left &= left - 1;
        }
        let mut turned = turned;
        while turned != 0 {
            let i = turned.trailing_zeros() as usize;
            turned &= turned - 1;
            let (meta, _) = memory.split_mut(&mut frames[i]);
            // A later stage has no way back to the first one.
            if meta.flags & frame_flags::TURNED == 0 && self.plan.kind() != Kind::Later {
                meta.flags |= frame_flags::TURNED;
                meta.side = meta.side.opposite();
                dispositions.turned |= 1 << i;
            } else {
                self.refuse_packet(i, EngineDrop::TurnedTwice);
            }
        }
    }

    #[cold]
    fn register_aliases(&mut self, pool: &mut FramePool, count: usize) {
        let mut asked = core::mem::take(&mut self.world.aliases.asked);
        for request in asked.drain(..) {
            let Some(table) = self.counts.internal.expect(self.table.as_mut(), HAS_TABLE) else {
                break;
            };
            if table.add_alias(&request) {
                continue;
            }
            // The name may be that of a flow which came before the mapping
            // and got nowhere: it makes room, unless it has packets here.
            let other = table
                .flow_of(&request.key)
                .filter(|&f| !self.is_busy(f, count));
            if let Some(other) = other {
                self.end_flow(pool, other, weir_nf::CloseReason::Reused);
            }
            if let Some(table) = self.table.as_mut()
                && !(other.is_some() && table.add_alias(&request))
            {
                table.aliases_refused += 1;
            }
        }
        self.world.aliases.asked = asked;
    }

    /// Hands the burst's packets on: out, back through the chain, into the
    /// fragment memory, or back to the pool.
    #[inline(never)]
    pub(crate) fn leave(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        input: &mut Vec<Frame>,
        output: &mut Vec<Frame>,
        found: &Classified,
        dispositions: Dispositions,
    ) {
        let n = found.count;
        let all = all(n);
        let (sized, bytes) = dispositions.sized;
        let bytes = if dispositions.out == sized {
            bytes
        } else if dispositions.out == all {
            crate::scratch::bytes_of(memory, &input[..n])
        } else {
            bytes_of(memory, input, dispositions.out)
        };
        self.counts.put_out(dispositions.out.count_ones(), bytes);
        if dispositions.out == all && n == input.len() {
            output.append(input);
        } else if dispositions.out == all {
            output.extend(input.drain(..n));
        } else {
            for (i, frame) in input.drain(..n).enumerate() {
                if dispositions.out >> i & 1 != 0 {
                    output.push(frame);
                } else if dispositions.turned >> i & 1 != 0 {
                    self.waiting.requeue().push(frame);
                } else if found.held >> i & 1 != 0 {
                    self.hold(pool, memory, i, frame);
                } else {
                    pool.give(frame);
                }
            }
        }
        if !self.world.emits.frames.is_empty() {
            let emitted = &self.world.emits.frames;
            let bytes = crate::scratch::bytes_of(memory, emitted);
            self.counts.emit(emitted.len());
            self.counts.put_out(emitted.len() as u32, bytes);
            output.append(&mut self.world.emits.frames);
        }
    }

    fn hold(&mut self, pool: &mut FramePool, memory: &PacketMemory, i: usize, frame: Frame) {
        let key = FragmentKey::of(
            memory.bytes(&frame),
            &self.scratch.headers[i],
            self.reading.key(),
        );
        match key {
            Some(key) if self.fragments.has_room_for(0) && !pool.is_scarce(&frame) => {
                let now = memory.meta(&frame).time.0;
                self.fragments.hold(key, frame, now);
            }
            _ => {
                self.give_up_packet(memory, &frame, EngineDrop::FragmentsFull);
                pool.give(frame);
            }
        }
    }
}

/// Notes that packets of `mask` go to a function of a later stage.
#[inline]
fn send_later(next: &mut [u8; BURST], function: u8, mut mask: u64) {
    while mask != 0 {
        next[mask.trailing_zeros() as usize] = function.saturating_add(1);
        mask &= mask - 1;
    }
}

fn bytes_of(memory: &PacketMemory, frames: &[Frame], mut mask: u64) -> u64 {
    let mut bytes = 0;
    while mask != 0 {
        bytes += u64::from(memory.meta(&frames[mask.trailing_zeros() as usize]).len);
        mask &= mask - 1;
    }
    bytes
}

fn count_drops(node: &mut RunNode, mut mask: u64, reasons: &[u8]) {
    node.dropped += u64::from(mask.count_ones());
    while mask != 0 {
        let i = mask.trailing_zeros() as usize;
        mask &= mask - 1;
        // The last place takes reasons that the descriptor does not name.
        let reason = usize::from(reasons[i]).min(node.drops.len() - 1);
        node.drops[reason] += 1;
    }
}
