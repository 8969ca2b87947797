//! A runtime's side of the protocol: its flow actors and their hand-over.
//!
//! A runtime has one engine, and the engine at most one state of a unit: that
//! of the unit's *live* actor. The live actor of a unit is a record of 32 bytes
//! at the unit's place (`table.rs`), so that a packet in its turn costs one
//! look at one line. All else is rare and lies beside it (`cold.rs`): actors of
//! other views as bytes (a replica's copy, the source's copy until the switch
//! says to forget it, what was put aside for a view after a failure), and
//! hand-overs under way.
//!
//! An actor is never shared by two views. The switch decides which one counts: a
//! runtime applies the packets of the view it was given last, keeps
//! everything until [`Message::Forget`], and the switch lets out what is right.

mod ahead;
mod audit;
mod calls;
mod cold;
mod compare;
mod counts;
mod ends;
mod failure;
mod handover;
mod hold;
mod kept;
mod leases;
mod periodic;
mod pieces;
mod receive;
mod recover;
mod replica;
mod report;
mod reprocess;
mod speak;
mod table;
mod timers;

use std::collections::{BTreeMap, BTreeSet};

use weir_nf::PoolId;
use weir_packet::{Advise, Frame, FramePool, Internal, Time};
use weir_runtime::Runtime;

use self::ahead::Copies;
use self::cold::{Cold, Role, Stored};
use self::compare::Comparing;
use self::hold::Hold;
use self::kept::Kept;
use self::recover::Answer;
use self::table::{ENDED, Hot, LIVE, Table};
use crate::ids::{Clock, Peer, RuntimeId, UnitId, View};
use crate::message::Message;
use crate::rtt::{ROUND_TRIPS, RoundTrip};
use crate::settings::ActorSettings;
use weir_telemetry::Counts;

pub use self::compare::Compared;
pub use self::counts::ActorCount;
pub use self::report::ActorReport;

/// Actions that a runtime's actors ask of the driver, which empties it after each
/// call.
#[derive(Debug, Default)]
pub struct ActorOutbox {
    /// Entries for the switch, as frames (see the crate's documentation);
    /// where the way there is no ring the driver makes them a message
    /// ([`crate::message::Message::Entries`]).
    pub entries: Vec<Frame>,
    /// Messages, in order per receiver. Where a unit has entries in
    /// `entries`, those come first.
    pub messages: Vec<(Peer, Message)>,
}

/// Places of units where nothing else is said: pages that no unit uses cost
/// nothing.
const PLACES: u32 = 1 << 22;

/// Suspected runtimes that are remembered, those with the highest ids, as the
/// switch does.
const MOST_SUSPECTED: usize = 4_096;

/// Frames that are given to the engine at once.
const RUN: usize = weir_nf::host::BURST;

/// Work for a unit that waits until the packets before it have been applied.
#[derive(Clone, Copy, Debug)]
enum After {
    /// Its view ends here.
    Close(UnitId),
    /// A tick may have left it empty.
    Ticked(UnitId),
    /// Its packet may have left no state.
    Begun(UnitId),
}

/// True of what a logger hears: nothing makes it the owner of a unit, or the target of
/// a move.
fn is_for_logger(message: &Message) -> bool {
    !matches!(
        message,
        Message::Open(_)
            | Message::Closed { .. }
            | Message::Prepare { .. }
            | Message::SendAhead { .. }
            | Message::Ahead { .. }
            | Message::State { .. }
            | Message::Copy { .. }
            | Message::Copied { .. }
            | Message::LeaseGranted { .. }
    )
}

/// The place of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the engine.
    Live,
    /// Open, and its state is still to come.
    Waiting,
    /// Here as bytes.
    Stored,
    /// Its view was refused.
    Refused,
    /// Nowhere, and its view is newer than all that is known here.
    Unknown,
    /// Nowhere, and something newer is known.
    Stale,
    /// Its place is out of range.
    Nowhere,
}

/// The flow actors of one runtime, around its engine.
#[derive(Debug)]
pub struct Actors {
    /// Actions for the driver.
    pub outbox: ActorOutbox,
    engine: Runtime,
    settings: ActorSettings,
    /// Generation of the switch; 0 before it was heard of.
    generation: u16,
    answer: Option<Answer>,
    table: Table,
    cold: BTreeMap<UnitId, Cold>,
    hold: Hold,
    copies: Copies,
    /// Units with held packets whose turn it is, and no frames for what they
    /// cause.
    ready: BTreeSet<UnitId>,
    /// Data frames of the burst that are not looked at yet, the next one last.
    taken: Vec<Frame>,
    /// Packets for the engine, in order.
    run: Vec<Frame>,
    /// Entries on their way into the books.
    scratch: Vec<Frame>,
    /// A unit of the run keeps outputs.
    keeping: bool,
    after: Vec<After>,
    timers: BTreeSet<(Time, UnitId)>,
    /// How long entries take to be let out.
    trip: RoundTrip,
    /// The entry that is measured, and when it was sent.
    sample: Option<(UnitId, Clock, Time)>,
    /// When held packets are looked through.
    sweep_at: Option<Time>,
    /// Units are not asked for dues before.
    dues_from: Time,
    /// Time of the packets that have come to the switch.
    packet_time: Time,
    /// The packets' time at which all units that were due were asked for.
    dues_seen: Time,
    due: Vec<u64>,
    cluster: Vec<RuntimeId>,
    /// The number of the packet in a burst whose unit is asked for its preference.
    turn: usize,
    /// When more ports of each pool were last asked for.
    wanted: Vec<(PoolId, Option<Time>)>,
    /// Blocks granted here: a grant that comes twice grants nothing.
    granted: BTreeSet<(u8, u16, u16)>,
    ports: leases::Ports,
    /// Runtimes that a switch has suspected, for one that starts again.
    suspected: BTreeSet<RuntimeId>,
    live: u32,
    packets: u64,
    drops: u64,
    busy: u32,
    counts: Counts<ActorCount>,
    internal: Internal,
    comparing: Comparing,
}

impl Actors {
    /// Actors over an engine that follows a switch
    /// ([`weir_runtime::RuntimeConfig::follows`]), with room for units at four
    /// million places.
    pub fn new(engine: Runtime, settings: ActorSettings) -> Actors {
        Actors::with_places(engine, settings, PLACES, weir_packet::no_advice)
    }

    /// The same with room for the units of `places` places: as many as the
    /// switch has ([`weir_runtime::Classifier::places`]). A unit
    /// beyond is refused.
    pub fn with_places(
        engine: Runtime,
        settings: ActorSettings,
        places: u32,
        advise: Advise,
    ) -> Actors {
        let wanted = engine.leases().pools().map(|pool| (pool, None)).collect();
        Actors {
            outbox: ActorOutbox::default(),
            engine,
            generation: 0,
            answer: None,
            table: Table::new(places, advise),
            cold: BTreeMap::new(),
            hold: Hold::new(settings.held, !settings.waits),
            copies: Copies::new(settings.ahead),
            settings,
            ready: BTreeSet::new(),
            taken: Vec::with_capacity(RUN),
            run: Vec::with_capacity(2 * RUN),
            scratch: Vec::with_capacity(8 * RUN),
            keeping: false,
            after: Vec::with_capacity(2 * RUN),
            timers: BTreeSet::new(),
            trip: RoundTrip::new(
                settings.repeat_after / ROUND_TRIPS,
                settings.repeat_within.0,
                settings.repeat_within.1,
            ),
            sample: None,
            sweep_at: None,
            dues_from: Time::ZERO,
            packet_time: Time::ZERO,
            dues_seen: Time::ZERO,
            due: Vec::new(),
            cluster: Vec::new(),
            turn: 0,
            wanted,
            granted: BTreeSet::new(),
            ports: leases::Ports::default(),
            suspected: BTreeSet::new(),
            live: 0,
            packets: 0,
            drops: 0,
            busy: 0,
            counts: Counts::default(),
            internal: Internal::default(),
            comparing: Comparing::default(),
        }
    }

    /// A message.
    pub fn message(&mut self, now: Time, pool: &mut FramePool, from: Peer, message: Message) {
        if self.settings.is_logger && !is_for_logger(&message) {
            return self.counts.add(ActorCount::MessageRefused);
        }
        match from {
            Peer::Switch(generation) => self.hear_switch(now, pool, generation, message),
            Peer::Runtime(runtime) => self.hear_runtime(now, pool, runtime, message),
            Peer::Coordinator => self.call(from, message),
        }
        self.flush(now, pool);
    }

    fn hear_switch(&mut self, now: Time, pool: &mut FramePool, generation: u16, message: Message) {
        if generation < self.generation {
            // Its time is over, and so is its word.
            return self.counts.add(ActorCount::MessageStale);
        }
        if let Message::Recover {
            generation: said,
            from,
            most,
        } = message
        {
            return match said == generation {
                true => self.recover(now, pool, generation, (from, most)),
                false => self.counts.add(ActorCount::MessageRefused),
            };
        }
        self.renew(pool, generation);
        match message {
            Message::Open(open) => {
                self.answer = None;
                self.open(now, pool, open);
            }
            Message::Closed {
                unit,
                old,
                at,
                new,
                to,
                mode,
            } => self.closed(now, unit, (old, at), (new, to, mode)),
            Message::Forget { unit, below, ended } => {
                self.forget(pool, unit, below, ended);
                self.forgotten(unit, below);
            }
            Message::Stored { unit, view, clock } => {
                self.state_stored(now, unit, view, clock);
            }
            Message::Out { unit, view, out } => self.let_out(now, unit, view, out),
            Message::Prepare { unit, view, to } => self.prepare(now, unit, view, to),
            Message::SendAhead {
                unit,
                view,
                clock,
                to,
            } => self.copy_to_likely(unit, (view, clock), &to),
            Message::LeaseGranted {
                pool,
                address,
                block,
            } => self.granted(pool, address, block),
            Message::PortFreed { pool, lease } => self.freed(pool, lease),
            Message::Suspect { runtime } => self.remember_suspect(runtime),
            Message::PortsKnown { pool, free, leased } => self.ports_known(pool, free, leased),
            other => self.call(Peer::Switch(generation), other),
        }
    }

    fn hear_runtime(&mut self, now: Time, pool: &mut FramePool, from: RuntimeId, message: Message) {
        match message {
            Message::Entries(batches) => self.store(now, pool, from, batches),
            Message::Pull { unit, old, new, at } => self.pulled(now, from, unit, (old, at), new),
            Message::State {
                unit,
                old,
                new: View::NONE,
                image,
            } => self.early(now, pool, from, unit, old, image),
            Message::State {
                unit,
                old,
                new,
                image,
            } => self.arrived(now, pool, from, unit, (old, new), cold::Ahead::State(image)),
            Message::Ahead { unit, view, image } => {
                self.keep_copy(now, pool, from, unit, view, image)
            }
            Message::Compare {
                unit,
                view,
                clock,
                digest,
                round,
            } => self.compare_copy(from, (unit, view), (clock, digest), round),
            Message::Compared {
                unit,
                view,
                round,
                found,
            } => self.compared_at(now, from, (unit, view), (round, found)),
            Message::Outputs {
                unit,
                view,
                entries,
            } => self.outputs(now, pool, from, (unit, view), entries),
            Message::Refuse { unit, view, why } => self.refused_by(from, unit, view, why),
            Message::Copy {
                unit,
                old,
                clock,
                after,
                packet,
            } => self.copy(now, pool, from, unit, old, (after, clock), &packet),
            Message::Copied {
                unit,
                old,
                new,
                clock,
                changed,
                touched,
                outputs,
            } => {
                let copied = cold::Ahead::Copied {
                    clock,
                    changed,
                    touched,
                    outputs,
                };
                self.arrived(now, pool, from, unit, (old, new), copied);
            }
            Message::Forget { unit, below, .. }
                if self.settings.plant == Some(crate::plant::Plant::TargetForgets) =>
            {
                self.forget(pool, unit, below, false);
            }
            _ => self.counts.add(ActorCount::MessageRefused),
        }
    }

    fn remember_suspect(&mut self, runtime: RuntimeId) {
        self.suspected.insert(runtime);
        if self.suspected.len() > MOST_SUSPECTED {
            self.suspected.pop_first();
        }
    }

    /// Runtimes that run now; what functions prefer is asked with it.
    pub fn cluster(&mut self, runtimes: &[RuntimeId]) {
        self.cluster.clear();
        self.cluster.extend_from_slice(runtimes);
        self.cluster.sort_unstable();
        self.cluster.dedup();
    }

    /// Takes the driver's measure of the load: packets lost at the input since the
    /// start, and parts in a thousand of the time that the thread was busy
    /// lately. Told to who asks ([`Message::PollWorkload`]).
    pub fn set_load(&mut self, drops: u64, busy: u32) {
        self.drops = drops;
        self.busy = busy;
    }

    /// Packets of this time have come, here or elsewhere. Flows are idle by
    /// this time or by that of timers, whichever is later: packets of a
    /// capture bring a time of their own.
    pub fn packets_at(&mut self, time: Time) {
        self.packet_time = self.packet_time.max(time);
    }

    /// The engine, for reports.
    pub fn engine(&self) -> &Runtime {
        &self.engine
    }

    /// The same, to take what it counts and records.
    pub fn engine_mut(&mut self) -> &mut Runtime {
        &mut self.engine
    }

    /// The settings.
    pub fn settings(&self) -> &ActorSettings {
        &self.settings
    }

    /// The counters so far.
    pub fn counts(&self) -> &Counts<ActorCount> {
        &self.counts
    }

    /// States that cannot occur, and did: 0 unless weir has a bug.
    pub fn internal(&self) -> &Internal {
        &self.internal
    }

    /// Gives held packets back to `pool`; they count as dropped. States that
    /// came early leave the engine: their flows are another runtime's, and end
    /// there.
    pub fn finish(&mut self, pool: &mut FramePool) {
        self.give_back(pool);
        for (unit, cold) in &mut self.cold {
            if cold.early.take().is_some() {
                self.engine.forget_unit(unit.0);
            }
        }
    }

    /// Gives all frames back to `pool` and touches nothing else: also where a
    /// function has panicked, so that the engine is not to be called again.
    pub fn give_back(&mut self, pool: &mut FramePool) {
        let dropped = self.hold.clear(pool);
        self.counts.add_many(ActorCount::HoldDropped, dropped);
        self.engine.give_emitted(pool);
        pool.give_all(&mut self.taken);
        pool.give_all(&mut self.run);
        pool.give_all(&mut self.scratch);
        pool.give_all(&mut self.outbox.entries);
    }

    // ---- which actor is where

    /// The highest view known here of the unit whose record this is.
    fn newest(&self, hot: &Hot) -> View {
        let cold = self.cold.get(&hot.unit).map(Cold::newest);
        // Without a live actor the record has the lowest view that may come.
        let own = match hot.is_live() {
            true => hot.view,
            false => View(hot.view.0.saturating_sub(1)),
        };
        own.max(cold.unwrap_or(View::NONE))
    }

    /// True where `view`, of another unit, is older than what is known of the
    /// unit in the place. The fence behind a unit that has ended is the number
    /// of the next view there will be, which may well be another unit's first
    /// in this place.
    fn is_fenced(&self, hot: &Hot, view: View) -> bool {
        if hot.unit.0 == 0 {
            return false;
        }
        let known = match hot.is_live() {
            true => hot.view >= view,
            false => hot.view > view,
        };
        known
            || self
                .cold
                .get(&hot.unit)
                .is_some_and(|cold| cold.newest() >= view)
    }

    fn whereabouts(&self, unit: UnitId, view: View) -> Place {
        let Some(hot) = self.table.at(unit).filter(|_| unit.0 != 0) else {
            return Place::Nowhere;
        };
        if hot.unit != unit {
            // Views are numbered through all units: a later life in the same
            // place has higher ones.
            return match self.is_fenced(&hot, view) {
                true => Place::Stale,
                false => Place::Unknown,
            };
        }
        if hot.is_live() && hot.view == view {
            return Place::Live;
        }
        if hot.is_over(view) {
            return Place::Stale;
        }
        if let Some(cold) = self.cold.get(&unit) {
            if cold.waiting.is_some_and(|w| w.open.view == view) {
                return Place::Waiting;
            }
            if cold.stored.contains_key(&view) {
                return Place::Stored;
            }
            if cold.refused.is_some_and(|(refused, _)| refused == view) {
                return Place::Refused;
            }
            if cold.newest() > view {
                return Place::Stale;
            }
        }
        // The view of a live actor is taken; a fence may be the next one.
        let taken = hot.view > view;
        if taken { Place::Stale } else { Place::Unknown }
    }

    /// Makes the unit's place its own where `view` is newer than all that is
    /// known of another unit there.
    fn claim(&mut self, pool: &mut FramePool, unit: UnitId, view: View) -> bool {
        let Some(hot) = self.table.at(unit).filter(|_| unit.0 != 0) else {
            return false;
        };
        if hot.unit == unit {
            return true;
        }
        if hot.unit.0 != 0 {
            if self.is_fenced(&hot, view) {
                return false;
            }
            self.counts.add(ActorCount::Superseded);
            self.drop_unit(pool, hot.unit);
        }
        self.table.set(Hot {
            unit,
            ..Hot::default()
        });
        true
    }

    /// Forgets everything of a unit; its place stays its own.
    fn drop_unit(&mut self, pool: &mut FramePool, unit: UnitId) {
        let Some(hot) = self.table.of(unit) else {
            return;
        };
        let early = self.cold.get(&unit).is_some_and(|c| c.early.is_some());
        if hot.is_live() || early {
            self.engine.forget_unit(unit.0);
        }
        let fence = self.newest(&hot).next();
        self.unmake_live(unit, fence);
        if let Some(cold) = self.cold.remove(&unit) {
            if let Some(at) = cold.timer {
                self.timers.remove(&(at, unit));
            }
            let stored = cold.stored.into_values().map(|stored| stored.kept);
            let forgotten: Vec<Kept> = stored.chain([cold.live.kept]).collect();
            self.doubt_ports(unit, &forgotten, |_| true);
        }
        let dropped = self.hold.drop_below(pool, unit, fence);
        self.counts.add_many(ActorCount::HoldDropped, dropped);
    }

    /// The engine's state of the unit is from now on that of `view`.
    fn make_live(&mut self, pool: &mut FramePool, unit: UnitId, view: View, clock: Clock) {
        let was = self.table.live(unit).is_some();
        self.live += u32::from(!was);
        self.table.set(Hot {
            unit,
            view,
            flags: LIVE,
            clock,
            limit: Hot::NO_LIMIT,
        });
        let dropped = self.hold.drop_below(pool, unit, view);
        self.counts.add_many(ActorCount::HoldDropped, dropped);
    }

    /// The unit has no live actor any more; views below `fence` are stale.
    fn unmake_live(&mut self, unit: UnitId, fence: View) {
        if let Some(hot) = self.table.of(unit) {
            self.live -= u32::from(hot.is_live());
            self.table.set(Hot {
                view: hot.view.max(fence),
                flags: hot.flags & ENDED,
                ..hot
            });
        }
    }

    /// Sets and clears flags of a record.
    fn mark(&mut self, unit: UnitId, set: u16, clear: u16) {
        if let Some(mut hot) = self.table.of(unit) {
            hot.flags = hot.flags & !clear | set;
            self.table.set(hot);
        }
    }

    /// The unit's state in the engine as bytes; `None` where it has none.
    fn export(&self, unit: UnitId) -> Option<Vec<u8>> {
        let mut state = Vec::new();
        match self.engine.export_unit(unit.0, &mut state) {
            Ok(()) => Some(state),
            Err(_) => None,
        }
    }

    /// Puts a live actor aside as bytes, and an early state away, to make
    /// room for another view's actor.
    fn retire(&mut self, unit: UnitId) {
        if self.cold.get(&unit).is_some_and(|c| c.early.is_some()) {
            self.engine.forget_unit(unit.0);
        }
        if let Some(hot) = self.table.live(unit) {
            self.counts.add(ActorCount::Retired);
            self.put_aside(hot, Role::Retired);
            self.engine.forget_unit(unit.0);
            self.unmake_live(unit, hot.view);
        }
        if let Some(cold) = self.cold.get_mut(&unit) {
            cold.early = None;
            cold.closing = None;
            cold.pulled = None;
            cold.copying = None;
            cold.ending = None;
        }
    }

    /// Keeps a copy of the live actor; what it kept goes with it.
    fn put_aside(&mut self, hot: Hot, role: Role) {
        let state = self.export(hot.unit);
        let cold = self.cold.entry(hot.unit).or_default();
        let keeper = core::mem::take(&mut cold.live);
        let stored = Stored {
            role,
            peer: keeper.passes_on(),
            clock: hot.clock,
            state,
            kept: keeper.kept,
            said: keeper.said,
            cursors: cold::Cursors::default(),
        };
        cold.stored.insert(hot.view, stored);
    }

    /// Drops what lies beside the record where it is of no use.
    fn tidy(&mut self, unit: UnitId) {
        if self.cold.get(&unit).is_some_and(Cold::is_idle) {
            self.cold.remove(&unit);
        }
    }
}
