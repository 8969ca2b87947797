//! The test bed: a switch, a network with delays, units with queues, states that follow the work.
//!
//! Packets are taken in the order of time. A unit serves first come, first served, so when a
//! packet is done follows from what came before it, and no event is needed for it. Events are
//! only: a state has arrived where packets wait for it; a state goes ahead; units come and go.
//!
//! A packet's latency is from its arrival at the unit until the unit is done with it: waiting
//! for state, waiting in the queue, work. The way through the network is the same for all, and is
//! not in it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use weir::driver::Histogram;
use weir_protocol::flowlets::Slot;

use super::assign::{Assigner, Known, Mode, Placement};
use super::trace::{Packet, Trace};
use super::units::{UnitSettings, Units, Utilisation};

/// Nanoseconds between looks at the number of units.
const TICK: u64 = 1_000_000;
/// Nanoseconds of an epoch, over which figures are taken (SNF §9).
pub(super) const EPOCH: u64 = 100_000_000;

/// Nanoseconds between checkpoints (FTMB's, as SNF §9.4 has them).
const CHECKPOINT: u64 = 50_000_000;

/// How states follow the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateMode {
    /// Copies go ahead to units that are likely to be next; what is nowhere ready is pulled.
    Proactive,
    /// Pulled from the unit that had it.
    Reactive,
    /// In a store: written when a flow is quiet, or when its flowlet ends; read at each start.
    Store,
    /// So too, and not read where the unit has not changed.
    CachedStore,
    /// No state, or none that anything waits for.
    None,
}

impl StateMode {
    pub(super) const ALL: [StateMode; 4] = [
        StateMode::Store,
        StateMode::CachedStore,
        StateMode::Reactive,
        StateMode::Proactive,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            StateMode::Proactive => "proactive",
            StateMode::Reactive => "reactive",
            StateMode::Store => "store, read at each start",
            StateMode::CachedStore => "store, read where the unit changed",
            StateMode::None => "none",
        }
    }
}

/// Times of the network and of states, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// From one machine to another.
    pub(super) way: u64,
    /// To take a state out of a unit, and again to put it into one.
    pub(super) pack: u64,
    /// Time from a request to the store to its answer.
    pub(super) store: u64,
}

impl Times {
    /// From the beginning of a copy until another unit has it.
    pub(super) fn copy(&self) -> u64 {
        2 * self.pack + self.way
    }
}

/// A run's settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) mode: Mode,
    pub(super) state: StateMode,
    pub(super) times: Times,
    pub(super) units: UnitSettings,
    pub(super) seed: u64,
    /// Units are looked at, as if they died, each so many nanoseconds; 0: they are not.
    pub(super) probe: u64,
}

/// A unit at a moment, as if it died then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// Flows whose flowlet is under way there.
    pub(super) flows: u64,
    /// Nanoseconds of work in its queue.
    pub(super) backlog: u64,
    /// Bytes that came since the last checkpoint.
    pub(super) since: u64,
}

/// One epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch {
    /// Bits per second that came.
    pub(super) offered: f64,
    /// Units that were there, on average.
    pub(super) units: f64,
}

/// Results of a run.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) packets: u64,
    /// Packets that units were done with.
    pub(super) done: u64,
    /// Packets that were done before one that came earlier in their flow.
    pub(super) reordered: u64,
    pub(super) latency: Histogram,
    pub(super) epochs: Vec<Epoch>,
    pub(super) utilisation: Vec<Utilisation>,
    /// Decisions about a flow or flowlet.
    pub(super) chances: u64,
    /// Flows (or flowlets) that changed their unit, and how many of them had to wait.
    pub(super) moved: u64,
    pub(super) waited: u64,
    /// Of those: since a size was reached, with no quiet in which a copy could go ahead; and
    /// since the copy was on its way still. The rest had no copy where they went.
    pub(super) waited_by_size: u64,
    pub(super) waited_by_late: u64,
    /// Flowlets that could not move: their state was on its way.
    pub(super) bound: u64,
    /// No unit had room.
    pub(super) overfull: u64,
    /// Copies that went ahead, and those that a flowlet found.
    pub(super) copies: u64,
    pub(super) used: u64,
    /// States that were pulled, or read from a store; and written to it.
    pub(super) pulls: u64,
    pub(super) written: u64,
    /// States of units that were let go, moved to others meanwhile.
    pub(super) rehomed: u64,
    /// Seconds of units, all together; and of the trace.
    pub(super) unit_seconds: f64,
    pub(super) seconds: f64,
    pub(super) bytes: u64,
    /// `alpha` (parts per hundred) and copies at the end.
    pub(super) adapted: (u32, u8),
    /// The first unit, again and again.
    pub(super) probes: Vec<Probe>,
}

impl Outcome {
    /// Units on average.
    pub(super) fn units(&self) -> f64 {
        self.unit_seconds / self.seconds.max(1e-9)
    }

    /// Bits per second that came, on average.
    pub(super) fn offered(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.seconds.max(1e-9)
    }

    /// Share of moved flowlets that waited for nothing.
    pub(super) fn ready(&self) -> f64 {
        1.0 - self.waited as f64 / self.moved.max(1) as f64
    }
}

/// A flow, as the network knows it.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    owner: Slot,
    /// When its last packet came.
    last: u64,
    /// Packets wait at its unit for the state.
    held: bool,
    /// When its state went or goes ahead; 0 where it did not since the last packet.
    ahead: u64,
    /// When the unit is done with all its packets that did not wait.
    done: u64,
}

/// A packet that waits: when it came to the unit, and its bytes.
type Held = (u64, u16);

/// One run.
struct Bed {
    setting: Setting,
    assigner: Assigner,
    units: Units,
    flows: Vec<Flow>,
    held: BTreeMap<u32, Vec<Held>>,
    /// When whose state is there.
    arrivals: BinaryHeap<Reverse<(u64, u32)>>,
    outcome: Outcome,
    next_tick: u64,
    next_epoch: u64,
    epoch_bytes: u64,
    epoch_units: (u64, u64),
}

/// Runs a trace.
pub(super) fn run(trace: &Trace, setting: Setting) -> Result<Outcome, String> {
    let flows = trace.flows();
    let limits = (setting.units.capacity, setting.units.most);
    let mut bed = Bed {
        assigner: Assigner::new(&setting.mode, flows, limits, setting.seed)?,
        units: Units::new(setting.units),
        flows: vec![Flow::default(); flows as usize],
        held: BTreeMap::new(),
        arrivals: BinaryHeap::new(),
        outcome: Outcome::default(),
        next_tick: 0,
        next_epoch: EPOCH,
        epoch_bytes: 0,
        epoch_units: (0, 0),
        setting,
    };
    for packet in trace.packets() {
        bed.until(packet.at);
        bed.packet(packet);
    }
    let end = trace.packets().last().map_or(0, |packet| packet.at);
    Ok(bed.finish(end))
}

impl Bed {
    /// All that happens until `now`.
    fn until(&mut self, now: u64) {
        while self.next_tick <= now {
            let at = self.next_tick;
            self.next_tick += TICK;
            self.tick(at);
            if at >= self.next_epoch {
                self.next_epoch += EPOCH;
                self.epoch(at);
            }
        }
        self.assigner.advance(now);
        while let Some(flow) = self.assigner.due(now) {
            self.ahead(flow, now);
        }
        self.release(now + self.setting.times.way);
    }

    /// States arrive until `until`: packets that wait for them go into the queue.
    fn release(&mut self, until: u64) {
        while let Some(&Reverse((at, number))) = self.arrivals.peek()
            && at <= until
        {
            self.arrivals.pop();
            self.flows[number as usize].held = false;
            for (came, bytes) in self.held.remove(&number).unwrap_or_default() {
                self.admit(number, at, came, bytes);
            }
        }
    }

    /// A packet goes into the queue of its unit at `at`; it came at `came`.
    fn admit(&mut self, number: u32, at: u64, came: u64, bytes: u16) {
        let flow = &mut self.flows[number as usize];
        let done = self.units.admit(flow.owner, at, bytes);
        self.outcome.reordered += u64::from(done < flow.done);
        flow.done = done;
        self.outcome.done += 1;
        self.outcome.latency.add(done.saturating_sub(came));
    }

    fn packet(&mut self, packet: &Packet) {
        let at = packet.at + self.setting.times.way;
        let flow = self.flows[packet.flow as usize];
        let known = Known {
            owner: flow.owner,
            settled: !flow.held,
            owner_has_state: self.setting.state != StateMode::Store,
        };
        let placement = self.assigner.packet(packet, self.units.usable(), known);
        self.outcome.packets += 1;
        self.outcome.bytes += u64::from(packet.bytes);
        self.epoch_bytes += u64::from(packet.bytes);
        if placement.begins {
            self.outcome.chances += 1;
            self.outcome.bound += u64::from(flow.held);
            if flow.owner == 0 {
                self.flows[packet.flow as usize].owner = placement.slot;
            } else if !flow.held {
                let (number, now) = (packet.flow, packet.at);
                self.begin(number, now, placement);
            }
        }
        let flow = &mut self.flows[packet.flow as usize];
        (flow.ahead, flow.last) = (0, packet.at);
        if self.flows[packet.flow as usize].held {
            let waiting = self.held.entry(packet.flow).or_default();
            waiting.push((at, packet.bytes));
        } else {
            self.admit(packet.flow, at, at, packet.bytes);
        }
    }

    /// A flow's next packets go to a unit from `now` on.
    fn begin(&mut self, number: u32, now: u64, placement: Placement) {
        let Placement { slot, copied, .. } = placement;
        let times = self.setting.times;
        let flow = &mut self.flows[number as usize];
        let there = now + times.way;
        let has_moved = flow.owner != slot;
        // A read of the store, from the unit.
        let read = 2 * times.way + times.store + times.pack;
        let written = match flow.ahead {
            0 => flow.done.max(there),
            ahead => flow.done.max(ahead),
        };
        let written = written + times.pack + times.way + times.store;
        let ready = match self.setting.state {
            StateMode::None => there,
            StateMode::Store => written.max(there) + read,
            _ if !has_moved => there,
            StateMode::CachedStore => written.max(there) + read,
            StateMode::Proactive if copied => there.max(flow.done.max(flow.ahead) + times.copy()),
            StateMode::Proactive | StateMode::Reactive => {
                // The unit asks the one before, which is first done with what it has.
                (there + times.way).max(flow.done) + times.copy()
            }
        };
        flow.owner = slot;
        // No unit works on a flow that another one is not done with.
        let ready = if has_moved {
            ready.max(flow.done)
        } else {
            ready
        };
        let waits = ready > there;
        flow.held = waits;
        self.outcome.moved += u64::from(has_moved);
        self.outcome.waited += u64::from(has_moved && waits);

        if has_moved && waits {
            self.outcome.waited_by_size += u64::from(!copied && !placement.after_gap);
            self.outcome.waited_by_late += u64::from(copied);
        }
        self.outcome.used += u64::from(copied && has_moved);
        let is_store = matches!(
            self.setting.state,
            StateMode::Store | StateMode::CachedStore
        );
        let reads = match self.setting.state {
            StateMode::Store => true,
            StateMode::None => false,
            _ => has_moved && !copied,
        };
        self.outcome.pulls += u64::from(reads);
        self.outcome.written += u64::from(is_store && flow.ahead == 0);
        if waits {
            self.arrivals.push(Reverse((ready, number)));
        }
    }

    /// A flow is quiet: its state goes ahead, if that is how states go.
    fn ahead(&mut self, number: u32, now: u64) {
        let flow = &mut self.flows[number as usize];
        let owner = flow.owner;
        if owner == 0 || flow.held {
            return;
        }
        // The switch tells the unit.
        flow.ahead = now + self.setting.times.way;
        match self.setting.state {
            StateMode::Proactive => {
                let to = self.assigner.likely(number, self.units.usable(), owner);
                self.outcome.copies += to.iter().filter(|slot| **slot != 0).count() as u64;
            }
            StateMode::Store | StateMode::CachedStore => self.outcome.written += 1,
            StateMode::Reactive | StateMode::None => {}
        }
    }

    /// Units are started and counted; flows are re-allocated.
    fn tick(&mut self, now: u64) {
        self.units.tick(now);
        self.probe(now);
        let usable = self.units.usable().to_vec();
        self.epoch_units.0 += self.units.provisioned() as u64;
        self.epoch_units.1 += 1;
        self.assigner.advance(now);
        for (flow, slot) in self.assigner.moves(now, &usable) {
            // One whose state is on its way stays where it is.
            if !self.flows[flow as usize].held {
                self.outcome.chances += 1;
                let placement = Placement {
                    slot,
                    begins: true,
                    after_gap: false,
                    copied: false,
                };
                self.begin(flow, now, placement);
            }
        }
        if self.assigner.wants_more(&usable) {
            self.units.start(now);
        }
    }

    fn probe(&mut self, now: u64) {
        if now.is_multiple_of(CHECKPOINT) {
            self.units.checkpoint();
        }
        let probe = self.setting.probe;
        if probe == 0 || !now.is_multiple_of(probe) || now < EPOCH {
            return;
        }
        let Mode::Flowlet(settings) = self.setting.mode else {
            return;
        };
        let under_way = |flow: &&Flow| flow.owner == 1 && now < flow.last + settings.gap;
        self.outcome.probes.push(Probe {
            flows: self.flows.iter().filter(under_way).count() as u64,
            backlog: self.units.backlog(1, now),
            since: self.units.since(1),
        });
    }

    fn epoch(&mut self, now: u64) {
        let (sum, ticks) = core::mem::take(&mut self.epoch_units);
        self.outcome.epochs.push(Epoch {
            offered: core::mem::take(&mut self.epoch_bytes) as f64 * 8e9 / EPOCH as f64,
            units: sum as f64 / ticks.max(1) as f64,
        });
        self.units.epoch(EPOCH, &mut self.outcome.utilisation);
        let idle = self.assigner.idle(self.units.usable());
        for _ in 0..idle {
            let usable = self.units.usable();
            let fewer = &usable[..usable.len() - 1];
            let gone = usable.len() > 1 && !self.assigner.wants_more(fewer);
            let Some(gone) = gone.then(|| self.units.let_go(now)).flatten() else {
                break;
            };
            self.rehome(gone);
        }
    }

    /// A unit was let go: the states that it had go to the first one, meanwhile.
    fn rehome(&mut self, gone: Slot) {
        let first = self.units.usable().first().copied().unwrap_or(1);
        for flow in self.flows.iter_mut().filter(|flow| flow.owner == gone) {
            flow.owner = first;
            self.outcome.rehomed += 1;
        }
    }

    fn finish(mut self, end: u64) -> Outcome {
        self.release(u64::MAX);
        self.units.tick(end);
        self.outcome.unit_seconds = self.units.seconds();
        self.outcome.seconds = end as f64 / 1e9;
        self.outcome.overfull = self.assigner.overfull();
        let adapted = self.assigner.flowlets().map(|flowlets| flowlets.adapted());
        self.outcome.adapted = adapted.unwrap_or_default();
        self.outcome
    }
}
