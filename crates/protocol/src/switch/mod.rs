//! The home switch: numbers packets, says who owns a unit, lets output out.
//!
//! ```text
//! frames ─▶ classifier ─▶ number ─▶ queues ─▶ runtimes
//!                          │ copy              │ entries
//!                        kept ◀──── gate ◀─────┘
//!                          ▲         │ aliases first, then outputs, then `out`
//!        timers: repeats ──┘         ▼
//!                                   out
//! ```
//!
//! `number` and `gate` are the data path: a handful of array accesses per
//! packet on the unit's one cache line. `views`, `failure`, `moves` and
//! `restart` change owners; they may allocate, and run per hand-over.

mod audit;
mod claims;
mod counts;
mod failure;
mod flowlets;
mod forgets;
mod gate;
mod histogram;
mod inbox;
mod kept;
mod leases;
mod leaving;
mod meter;
mod moves;
mod names;
mod number;
mod report;
mod restart;
mod runtimes;
mod select;
mod takeover;
mod timers;
mod units;
mod views;

use std::collections::{BTreeMap, VecDeque};

use weir_nf::host::{NewFunction, Stage};
use weir_packet::{Frame, FramePool, Internal, Time};
use weir_runtime::{Classifier, RuntimeConfig, StageError};

use crate::flowlets::Flowlets;
use crate::ids::{Clock, Peer, RuntimeId, UnitId, View};
use crate::journal::Journal;
use crate::message::Message;
use crate::plant::Plant;
use crate::rtt::{ROUND_TRIPS, RoundTrip};
use crate::settings::{Dispatch, Replication, SwitchSettings};
use weir_telemetry::Counts;

pub use counts::{SwitchCount, SwitchDrop};
pub use histogram::Histogram;
pub use meter::{Meter, Volume};
pub use report::{HandOvers, Share, SwitchReport};

use kept::Kept;
use runtimes::{Runtimes, Slot};
use units::Units;

/// Actions that a switch asks of the driver, which empties it after each call.
#[derive(Debug, Default)]
pub struct SwitchOutbox {
    /// Data frames, a queue per runtime that was ever joined.
    pub queues: Vec<DataQueue>,
    /// Messages, in order per receiver.
    pub messages: Vec<(Peer, Message)>,
    /// Packets let out, in order.
    pub out: Vec<Frame>,
    /// Lines of events (EVE JSON) let out, each ended by a newline.
    pub events: Vec<u8>,
    /// Its actions, in order; off until it is started.
    pub journal: Journal,
}

/// Data frames to one runtime.
#[derive(Debug)]
pub struct DataQueue {
    /// To whom.
    pub to: RuntimeId,
    /// The frames, in order.
    pub frames: Vec<Frame>,
}

/// Why a move is refused. Nothing has happened then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveError {
    /// There is no such runtime.
    UnknownTarget,
    /// There is no such runtime.
    UnknownSource,
    /// The target gives its own flows away.
    Draining,
    /// The target is a logger, which owns no unit.
    Logger,
    /// Source and target are the same.
    Same,
    /// No unit fits the selection.
    Nothing,
}

impl core::fmt::Display for MoveError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            MoveError::UnknownTarget => "there is no such runtime to move to",
            MoveError::UnknownSource => "there is no such runtime to move from",
            MoveError::Draining => "the target gives its own flows away",
            MoveError::Logger => "the target is a logger, which owns no flow",
            MoveError::Same => "source and target are the same",
            MoveError::Nothing => "no unit fits the selection",
        })
    }
}

impl std::error::Error for MoveError {}

/// True where a function takes what flows share: its packets can't be applied
/// twice.
fn shares(stage: &Stage) -> bool {
    let mut nodes = stage.nodes.iter();
    nodes.any(|node| node.processor.descriptor().shares)
}

/// Packets on their way at most where none is kept.
const UNKEPT: usize = 16_384;

/// Packets by what became of them.
#[derive(Clone, Copy, Debug, Default)]
struct Packets {
    taken: u64,
    bytes: u64,
    /// Bytes of those that were not let in.
    refused: u64,
    out: u64,
    bytes_out: u64,
    emitted: u64,
    /// Numbered and not let out.
    flying: u64,
    /// Turned, and not yet numbered again.
    turning: u64,
}

/// The switch of one chain.
#[derive(Debug)]
pub struct Switch {
    /// Actions for the driver.
    pub outbox: SwitchOutbox,
    settings: SwitchSettings,
    /// Packets from one state for a replica to the next; 0: each burst has one.
    every: u32,
    seed: u64,
    classifier: Classifier,
    units: Units,
    kept: Kept,
    runtimes: Runtimes,
    pendings: views::Pendings,
    moves: moves::Moves,
    /// Where units are given out by flowlet.
    flowlets: Option<Flowlets>,
    lessor: leases::Lessor,
    timers: timers::Timers,
    sweep: failure::Sweep,
    recovery: Option<restart::Recovery>,
    leftovers: restart::Leftovers,
    forgets: forgets::Forgets,
    counts: Counts<SwitchCount>,
    drops: Counts<SwitchDrop>,
    internal: Internal,
    packets: Packets,
    meter: Meter,
    hand_overs: Histogram,
    /// Time of the packets that have come.
    packet_time: Time,
    next_view: View,
    /// Last runtime that a unit, or a copy, was given to in turn.
    turn: usize,
    rotation: usize,
    /// Places of units to acknowledge at the end of the burst.
    acks: Vec<u32>,
    /// Ports that became free in this burst; `PortFreed` follows its `Out`s.
    freed: Vec<leases::Freed>,
    classified: Vec<Frame>,
    turned: Vec<Frame>,
    /// By place: ticks in flight that say which flow is to end, where nothing is kept.
    ends_said: BTreeMap<u32, (UnitId, Clock, Vec<u8>)>,
    /// Units whose ticks wait for room.
    ticks: VecDeque<UnitId>,
    /// When they were last tried.
    ticks_tried: Time,
    /// Packets to repeat for which no frame was free.
    owed: timers::Owed,
    /// Time after which what was not answered is sent again.
    wait: u64,
    /// A round trip was measured, or not answered in time, since it was computed.
    is_measured: bool,
    late_names: names::Late,
    leaving: leaving::Leaving,
    takeovers: takeover::Takeovers,
    /// To whom `Forget` was said in this burst, and about what.
    told: (u64, Slot),
}

impl Switch {
    /// Puts functions in the places of those of their names, whose settings have changed.
    pub fn replace(&mut self, functions: &[NewFunction]) {
        self.classifier.replace(functions);
    }

    /// A switch for `stage`, with no runtime yet. All memory of the data path
    /// is reserved here.
    ///
    /// # Errors
    ///
    /// A stage that can't be run.
    pub fn new(
        stage: &Stage,
        config: RuntimeConfig,
        settings: SwitchSettings,
    ) -> Result<Switch, StageError> {
        let classifier = Classifier::new(stage, config)?;
        let places = classifier.places();
        // Where nothing is kept and the way may lose something, what is on its
        // way is kept in mind, to be replaced by `Lost`.
        let most = match settings.kept {
            0 if settings.acknowledge => UNKEPT,
            kept => kept as usize,
        };
        let is_replayable = !shares(stage);
        let mut settings = settings;
        settings.replication = settings.replication.for_chain(is_replayable, settings.kept);
        let every = settings.replication.period();
        let retained = if every > 0 { places } else { 0 };
        let flowlets = settings.flowlets.map(|flowlets| {
            let made = Flowlets::new(flowlets, places, config.seed, config.advise);
            made.map_err(|error| StageError(format!("flowlets: {error}")))
        });
        Ok(Switch {
            every,
            outbox: SwitchOutbox::default(),
            seed: config.seed,
            units: Units::new(places, config.advise),
            kept: Kept::new(most, settings.kept > 0, retained).with_plant(settings.plant),
            runtimes: Runtimes::default(),
            pendings: views::Pendings::default(),
            moves: moves::Moves::default(),
            flowlets: flowlets.transpose()?,
            lessor: leases::Lessor::new(&stage.pools),
            timers: timers::Timers::default(),
            sweep: failure::Sweep::default(),
            recovery: None,
            leftovers: restart::Leftovers::default(),
            forgets: forgets::Forgets::default(),
            counts: Counts::default(),
            drops: Counts::default(),
            internal: Internal::default(),
            packets: Packets::default(),
            meter: Meter::default(),
            hand_overs: Histogram::default(),
            packet_time: Time::ZERO,
            next_view: View::first_of(settings.generation),
            turn: 0,
            rotation: 0,
            acks: Vec::with_capacity(256),
            freed: Vec::new(),
            classified: Vec::with_capacity(256),
            turned: Vec::with_capacity(64),
            ends_said: BTreeMap::new(),
            ticks: VecDeque::new(),
            ticks_tried: Time::ZERO,
            owed: timers::Owed::default(),
            wait: settings.repeat_after,
            is_measured: false,
            late_names: names::Late::default(),
            leaving: leaving::Leaving::default(),
            takeovers: takeover::Takeovers::default(),
            told: (0, 0),
            settings,
            classifier,
        })
    }

    /// A runtime that may own units has come, or a logger ([`Switch::set_logger`]). One
    /// whose id was used before is not taken: an id names one start of a process.
    pub fn join(&mut self, now: Time, runtime: RuntimeId) {
        let Some(slot) = self.take_in(runtime) else {
            self.counts.add(SwitchCount::MessageMisdirected);
            return;
        };
        if self.recovery.is_none() {
            self.grant_first(now, slot);
        }
        for fenced in self.runtimes.fenced() {
            self.tell(slot, Message::Suspect { runtime: fenced });
        }
        self.tell_cluster();
        // Units without a replica get one now, units that wait for a runtime go on, and those
        // of one that drains have somewhere to go.
        let is_awaited =
            self.sweep.awaits_heir() && self.settings.plant != Some(Plant::ComingUnseen);
        let mut here = self.runtimes.here();
        let one_drains = here.any(|slot| self.runtimes.is_draining(slot));
        if self.settings.replication != Replication::None || is_awaited || one_drains {
            self.sweep.start(self.units.top());
        }
    }

    /// Gives a runtime its slot and its queue; `None` if its id was used before, or there are too
    /// many.
    fn take_in(&mut self, runtime: RuntimeId) -> Option<Slot> {
        let slot = self.runtimes.join(runtime, self.unknown_trip())?;
        if let Some(flowlets) = &mut self.flowlets {
            flowlets.admit(slot);
        }
        self.outbox.queues.push(DataQueue {
            to: runtime,
            frames: Vec::with_capacity(256),
        });
        Some(slot)
    }

    /// The round trip to a runtime that has just joined.
    fn unknown_trip(&self) -> RoundTrip {
        let (shortest, longest) = self.settings.repeat_within;
        RoundTrip::new(self.settings.repeat_after / ROUND_TRIPS, shortest, longest)
    }

    /// Says that the member with this id is a logger, before it joins or is asked for
    /// claims ([`Switch::recover`]): it keeps copies of the units of all runtimes, and
    /// owns none ([`crate::settings::ActorSettings::is_logger`]).
    pub fn set_logger(&mut self, logger: RuntimeId) {
        self.runtimes.set_logger(logger);
    }

    /// Says on which host a runtime runs, best before it has units. Replicas are
    /// chosen on other hosts than their owners' where there are any.
    pub fn set_host(&mut self, runtime: RuntimeId, host: u32) {
        let slot = self.runtimes.find(runtime);
        if let Some(slot) = slot.filter(|_| self.settings.plant != Some(Plant::HostsIgnored)) {
            self.runtimes.set_host(slot, host);
            if self.settings.replication != Replication::None {
                // Copies that are on one host with their owner may move.
                self.sweep.start(self.units.top());
            }
        }
    }

    /// Takes a drained runtime out. What it still has is treated as if it had
    /// died.
    pub fn leave(&mut self, _now: Time, runtime: RuntimeId) {
        let Some(slot) = self.runtimes.find(runtime) else {
            return;
        };
        if self.runtimes.is_gone(slot) {
            return;
        }
        let drained = self.is_drained(runtime);
        self.runtimes.stand(slot, runtimes::Standing::Left);
        self.retire(slot);
        if !drained {
            self.sweep.start(self.units.top());
        }
        self.tell_cluster();
        self.blocks_may_be_free();
    }

    /// True where `runtime` owns no unit, keeps no copy, is waited for by no view and does
    /// not keep the word of an end from which older copies are to be forgotten first; also
    /// where there is no such runtime.
    pub fn is_drained(&self, runtime: RuntimeId) -> bool {
        let slot = self.runtimes.find(runtime).unwrap_or(0);
        // The units of a runtime are not known before all claims are.
        self.recovery.is_none()
            && self
                .runtimes
                .get(slot)
                .is_none_or(|r| r.owns == 0 && r.copies == 0 && r.waits == 0)
            && !self.forgets.needs(slot)
            && self.settings.plant != Some(Plant::DrainedUnseen)
    }

    /// True where `runtime` has nothing that another one lacks: it may have copies, but owns no
    /// unit, the owners of its copies are there, and no view waits for what it has. It looks at all
    /// units.
    pub fn is_only_replica(&self, runtime: RuntimeId) -> bool {
        // The units of a runtime are not known before all claims are.
        if self.recovery.is_some() {
            return false;
        }
        let Some(slot) = self.runtimes.find(runtime) else {
            return true;
        };
        let its = self.runtimes.get(slot);
        if its.is_some_and(|its| its.owns > 0 || its.waits > 0) {
            return false;
        }
        let mut units = (0..self.units.top()).map(|place| self.units.at(place));
        !units
            .any(|unit| unit.id != 0 && unit.replica == slot && !self.runtimes.is_here(unit.owner))
    }

    /// True where `runtime` is in service: it joined, and neither left nor is suspected.
    pub fn is_in_service(&self, runtime: RuntimeId) -> bool {
        let slot = self.runtimes.find(runtime);
        slot.is_some_and(|slot| self.runtimes.is_here(slot))
    }

    /// True while `runtime` is to forget what it has of a unit, and has not answered: for tests.
    pub fn is_to_forget(&self, runtime: RuntimeId, unit: UnitId) -> bool {
        let slot = self.runtimes.find(runtime);
        slot.is_some_and(|slot| self.forgets.is_told(slot, unit))
    }

    /// Units that live, by place; the one of what has no flow comes last.
    pub fn live_units(&self) -> impl Iterator<Item = UnitId> + '_ {
        (0..self.units.top())
            .map(|place| self.units.at(place).id())
            .filter(|id| id.0 != 0)
    }

    /// The owner of a unit's current view.
    pub fn owner_of(&self, unit: UnitId) -> Option<RuntimeId> {
        let place = self.units.find(unit)?;
        self.runtimes.id(self.units.at(place).owner)
    }

    /// Time after which what was not answered is sent again now, nanoseconds: ten
    /// round trips of the slowest runtime.
    pub fn repeats_after(&self) -> u64 {
        self.wait
    }

    /// When replicas get the state, for this chain
    /// ([`Replication::for_chain`]).
    pub fn replication(&self) -> Replication {
        self.settings.replication
    }

    /// The clock after which the switch has all packets of a unit, to be applied
    /// again or for the first time; `None` of a unit that is not there.
    pub fn packets_since(&self, unit: UnitId) -> Option<Clock> {
        let place = self.units.find(unit)?;
        Some(Clock(self.kept.since(self.units.at(place))))
    }

    /// How often what happened.
    pub fn counts(&self) -> &Counts<SwitchCount> {
        &self.counts
    }

    /// States that cannot occur, and did: 0 unless weir has a bug.
    pub fn internal(&self) -> &Internal {
        &self.internal
    }

    /// The classifier, for its report and names.
    pub fn classifier(&self) -> &Classifier {
        &self.classifier
    }

    /// Gives all frames back to `pool`: packets that are on their way count as
    /// `unfinished`.
    pub fn finish(&mut self, pool: &mut FramePool) {
        self.classifier.finish(pool);
        for place in 0..self.units.top() {
            let unit = self.units.at_mut(place);
            let sent = unit.sent;
            self.kept.release(unit, sent, false, pool);
            self.kept.state_held(place, u64::MAX, pool);
        }
        for queue in &mut self.outbox.queues {
            pool.give_all(&mut queue.frames);
            let slot = self.runtimes.find(queue.to).unwrap_or(0);
            if let Some(runtime) = self.runtimes.get_mut(slot) {
                pool.give_all(&mut runtime.partial);
            }
        }
        pool.give_all(&mut self.outbox.out);
        let held = self.recovery.as_mut().map_or(0, |recovery| {
            let held = recovery.held.len();
            pool.give_all(&mut recovery.held);
            held
        });
        let left = core::mem::take(&mut self.packets.flying) + held as u64;
        self.drops.add_many(SwitchDrop::Unfinished, left);
    }

    /// Puts a message for a runtime into the outbox; nothing for one that is
    /// gone.
    fn tell(&mut self, slot: Slot, message: Message) {
        if self.runtimes.is_here(slot)
            && let Some(id) = self.runtimes.id(slot)
        {
            self.outbox.messages.push((Peer::Runtime(id), message));
        }
    }

    /// Runtimes that may own units.
    fn owners(&self) -> Vec<RuntimeId> {
        let usable = self.runtimes.usable.iter();
        usable.filter_map(|&slot| self.runtimes.id(slot)).collect()
    }

    /// Tells a replica once more which switch it serves. If its first word of this one
    /// was lost, it passes nothing on, and nothing else is said to a replica before that.
    fn introduce(&mut self, replica: Slot) {
        let runtimes = self.owners();
        self.tell(replica, Message::NotifyClusterCfg { runtimes });
    }

    /// Tells all runtimes who may own units.
    fn tell_cluster(&mut self) {
        let runtimes = self.owners();
        let here: Vec<Slot> = self.runtimes.here().collect();
        for slot in here {
            let runtimes = runtimes.clone();
            self.tell(slot, Message::NotifyClusterCfg { runtimes });
        }
    }

    /// The runtime that gets a unit, by the dispatch policy; `not` only if there is no
    /// other.
    fn dispatch(&mut self, unit: u64, not: Slot) -> Option<Slot> {
        if self.flowlets.is_some() {
            return self.dispatch_by_load(unit as u32, not);
        }
        let usable = &self.runtimes.usable;
        let others = usable.iter().copied().filter(|&slot| slot != not);
        let picked = match self.settings.dispatch {
            Dispatch::RoundRobin => {
                let count = usable.len().max(1);
                self.turn = (self.turn + 1) % count;
                let turn = self.turn;
                (0..count)
                    .filter_map(|step| usable.get((turn + step) % count).copied())
                    .find(|&slot| slot != not)
            }
            Dispatch::LeastLoaded => {
                others.min_by_key(|&slot| self.runtimes.get(slot).map_or(u32::MAX, |r| r.owns))
            }
            Dispatch::Hash => {
                let key = self.classifier.key_of(unit).unwrap_or_default();
                let hash = key.hash(self.seed);
                others.max_by_key(|&slot| {
                    let id = self.runtimes.id(slot).map_or(0, |id| u64::from(id.0) + 1);
                    (hash ^ id.wrapping_mul(0x9e37_79b9_7f4a_7c15))
                        .wrapping_mul(0xd1b5_4a32_d192_ed03)
                        .rotate_left(29)
                        .wrapping_mul(0x8cb9_2ba7_2f3d_8dd7)
                })
            }
        };
        picked.or_else(|| usable.contains(&not).then_some(not))
    }

    /// The member that keeps copies of a unit of `owner`; 0 for nobody.
    fn choose_replica(&mut self, place: u32, owner: Slot) -> Slot {
        let is_long = self.units.at(place).has(units::mark::LONG);
        if self.settings.replication == Replication::None || is_long {
            return 0;
        }
        let asked = self
            .runtimes
            .get(owner)
            .map_or(0, |runtime| runtime.replica);
        // A named one is not taken where another is better.
        let is_worse = self.runtimes.could_be_better(owner, asked);
        if asked != owner && self.runtimes.is_live(asked) && !is_worse {
            return asked;
        }
        let (count, best_rank) = (self.runtimes.keeper_count(), self.runtimes.best_rank());
        let mut best: Option<(u8, Slot)> = None;
        for _ in 0..count {
            self.rotation = (self.rotation + 1) % count;
            let keeper = self.runtimes.keeper(self.rotation);
            let Some(slot) = keeper.filter(|slot| *slot != owner) else {
                continue;
            };
            let rank = self.runtimes.rank(owner, slot);
            if best.is_none_or(|(before, _)| rank <= before) {
                best = Some((rank, slot));
            }
            if rank == best_rank {
                break;
            }
        }
        let (_, replica) = best.unwrap_or_default();
        if self.runtimes.share_host(owner, replica) {
            self.counts.add(SwitchCount::ReplicaOnOneHost);
        }
        replica
    }
}
