//! The world: processes, links, and what happens when, in virtual time.

mod accounts;
mod beats;
mod carried;
mod chains;
mod cluster;
mod compare;
mod deliver;
mod drops;
mod ending;
mod forgery;
mod forgets;
mod heard;
pub(crate) mod links;
pub(crate) mod pools;
mod ports;
mod probes;
pub(crate) mod process;
mod processes;
mod queue;
mod ring;
mod steps;
mod threads;
mod wire;

use std::collections::{BTreeMap, VecDeque};

use weir_nf::host::Stage;
use weir_packet::{FramePool, Time};
use weir_protocol::flowlets::{FlowletSettings, Packing};
use weir_protocol::heartbeat::{Beat, Heartbeats};
use weir_protocol::message::{Message, MoveMode};
use weir_protocol::settings::{ActorSettings, Dispatch, SwitchSettings};
use weir_protocol::{Actors, Peer, RuntimeId, Switch, View, in_process};
use weir_runtime::{Runtime, RuntimeConfig};

use crate::bug::Bug;
use crate::check::{Checker, Invariant, Reference, Tally, Violation};
use crate::fault::Fault;
use crate::plan::Plan;
use crate::random::{Random, mix};
use crate::settings::{Mode, Settings};
use crate::trace::Trace;
use crate::traffic::{Ends, START};

use carried::Carried;
use heard::Heard;
use links::{Links, ProcessNo};
use pools::Pools;
use process::{Body, Delivery, Process};
use processes::Processes;
use queue::Queue;
use threads::Threads;

/// Nanoseconds between two looks at what is left to do.
const LOOK: u64 = 500_000;
/// Nanoseconds after the end of traffic and faults in which all must be let
/// out.
const DRAIN: u64 = 1_500_000_000;
/// Nanoseconds after that in which all flows must have ended: the longest
/// time-out of the chains is half a second, owners look for what is due once a second and
/// ask again with the next, the rest is for ticks that wait for room and for the end itself.
const EXPIRE: u64 = 3_500_000_000;
/// Nanoseconds after that in which nothing of them may be left, beside the time
/// for which a switch keeps units that were lost ([`ORPHANED`]).
const LEAVE: u64 = 2_000_000_000;
/// Nanoseconds by which a flow may end late: owners look for what is due once a second, and the
/// rest is for the ways of the tick.
const ENDS_LATE: u64 = 1_020_000_000;
/// Faults that keep nobody from ending a flow in time.
const UNHURRIED: [Fault; 3] = [Fault::Delay, Fault::Reorder, Fault::Duplicate];
/// Intervals of repeats after which a switch forgets a unit that was lost, and in which
/// a runtime asks about the unit's ports if it does not hear that they are free.
const ORPHANED: u64 = 1_000 + 300;
/// Places of units that a runtime has room for while no switch runs that it could
/// ask: more than the chains' flow tables have.
const PLACES: u32 = 1 << 13;
/// Events per packet and step after which a run is thought to be stuck.
const EVENTS: u64 = 2_000;

/// Draws the seeds whose switches begin with [`LATE_VIEW`].
const LATE: u64 = 0x1a7e;
/// A number of a view: 100 views later they pass a border of 32 bits, near the last of
/// 48.
const LATE_VIEW: u64 = View::LAST_NUMBER - (1 << 32) - 100;

/// Something that happens.
#[derive(Debug)]
enum Event {
    /// Packets of the plan come in, these of its list.
    Packets(core::ops::Range<usize>),
    /// A step of the plan.
    Step(usize),
    /// Something arrives.
    Arrival {
        to: ProcessNo,
        from: ProcessNo,
        /// Time up to which the sender had to live for it.
        sent: u64,
        what: Delivery,
    },
    /// A process's next heartbeat is due.
    Beat(ProcessNo),
    /// A heartbeat arrives.
    Beats {
        to: ProcessNo,
        from: ProcessNo,
        beat: Beat,
    },
    /// A thread does the next part of its round.
    Round(ProcessNo),
    /// A process asked to be called.
    Wake(ProcessNo),
    /// A pause ends.
    Resume(ProcessNo),
    /// A runtime's death is noticed.
    Notice(ProcessNo),
    /// A runtime or a logger starts.
    Start { is_logger: bool },
    /// The switch starts again.
    Restart,
    /// A switch that was replaced ends.
    End(ProcessNo),
    /// A runtime that was cut off is suspected.
    Distrust(ProcessNo),
    /// A runtime hears of who runs.
    Configure(ProcessNo),
    /// Look for work that is left.
    Look,
}

/// The report of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The first invariant that did not hold.
    pub violation: Option<Violation>,
    /// The checker's counts.
    pub tally: Tally,
    /// The counts of switches, actors and streams, by name.
    pub counts: BTreeMap<String, u64>,
    /// The world's counts, by name.
    pub world: BTreeMap<&'static str, u64>,
    /// Virtual time of the whole run, in nanoseconds.
    pub time: u64,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Traffic and faults.
    Busy,
    /// No fault and no packet comes any more; all must be let out.
    Draining,
    /// All flows must end.
    Expiring,
    /// All that was kept for them must go.
    Leaving,
    Over,
}

pub(crate) struct World<'a> {
    settings: &'a Settings,
    plan: &'a Plan,
    stage: Stage,
    random: Random,
    now: u64,
    queue: Queue<Event>,
    processes: Processes,
    /// The current switch, if it runs.
    switch: Option<ProcessNo>,
    generation: u16,
    next_runtime: u32,
    links: Links,
    /// Processes are threads of one, and links are queues.
    threads: Option<Threads>,
    checker: Checker,
    pub(crate) trace: Trace,
    /// Ends of flows as their servers see them, by conversation and protocol.
    observed: BTreeMap<(u32, u8), Ends>,
    /// The packets that servers answered to, by number in the plan.
    answered: BTreeMap<u64, Ends>,
    counts: BTreeMap<String, u64>,
    world: BTreeMap<&'static str, u64>,
    phase: Phase,
    /// When faults and traffic were over.
    healed_at: u64,
    /// When all was let out after that.
    drained_at: u64,
    /// When all flows had ended.
    ended_at: u64,
    /// Packets given to the current switch.
    taken: u64,
    /// Packets that left it, and their bytes.
    out: (u64, u64),
    /// Units per runtime, as the scaling step last heard.
    loads: BTreeMap<RuntimeId, u64>,
    /// How often a step was put off.
    tries: BTreeMap<usize, u32>,
    /// A restarted switch gathers claims.
    recovering: bool,
    /// The tally when the switch began.
    before: Tally,
    /// The next state that travels is damaged in this way.
    sabotage: Option<u64>,
    /// Claims what it does not have.
    liar: Option<RuntimeId>,
    /// Frames that were sent lately, to be damaged and sent once more.
    recent: VecDeque<(ProcessNo, Vec<u8>)>,
    /// Whom each process hears, where there are heartbeats.
    beats: BTreeMap<ProcessNo, Heartbeats<ProcessNo>>,
    /// Since when the switch watches without a pause.
    watching_since: u64,
    /// Since when runtimes run low of ports.
    low_since: BTreeMap<ProcessNo, u64>,
    /// When the switch may have thought itself cut off last.
    cut_off_at: u64,
    /// Since when the switch may have thought itself cut off; `None` where it may not now.
    cut_off_since: Option<u64>,
    /// When the switch has sent its last beats.
    switch_beaten: u64,
    /// Since when most peers may be silent, whatever was judged meanwhile.
    most_silent_since: Option<u64>,
    /// Packet memory for processes to come.
    pools: Pools,
    /// Messages of each process, by kind.
    words: BTreeMap<(ProcessNo, &'static str), u64>,
    /// What the switch has heard of whom.
    heard: BTreeMap<ProcessNo, Heard>,
    /// Messages in streams.
    carried: Carried,
    /// The number of its chain; the one with number 0 does what happens to processes.
    chain_no: usize,
    /// The worlds of the other chains, where there are some.
    others: Vec<World<'a>>,
}

impl<'a> World<'a> {
    /// A cluster, started.
    pub(crate) fn new(
        settings: &'a Settings,
        plan: &'a Plan,
        trace: Trace,
        pools: Pools,
    ) -> Result<World<'a>, String> {
        let mut world = World::of_chain(settings, plan, 0, (trace, pools))?;
        for (number, other) in (1..).zip(&plan.others) {
            let with = (Trace::default(), world.pools.half());
            let other = World::of_chain(settings, other, number, with)?;
            world.others.push(other);
        }
        Ok(world)
    }

    /// One chain's part of it.
    fn of_chain(
        settings: &'a Settings,
        plan: &'a Plan,
        chain_no: usize,
        (trace, pools): (Trace, Pools),
    ) -> Result<World<'a>, String> {
        let stage = plan.chain.build(plan.seed)?;
        let config = engine_config(plan.seed);
        let engine = Runtime::new(&stage, config).map_err(|e| e.to_string())?;
        let kept = u32::from(!plan.faults.has(Fault::NothingKept));
        let replication = plan.replication.for_chain(engine.is_replayable(), kept);
        let mut world = World {
            settings,
            plan,
            stage,
            random: Random::new(plan.seed, 6 + 0x100 * chain_no as u64),
            now: 0,
            queue: Queue::new(),
            processes: Processes::default(),
            switch: None,
            generation: 0,
            next_runtime: 1,
            links: Links::new(plan.seed, plan.faults),
            threads: (plan.mode == Mode::Ring)
                .then(|| Threads::new(plan, settings.runtimes.max(1))),
            checker: Checker::new(replication, Reference::new(engine)),
            trace,
            observed: BTreeMap::new(),
            answered: BTreeMap::new(),
            counts: BTreeMap::new(),
            world: BTreeMap::new(),
            phase: Phase::Busy,
            healed_at: 0,
            drained_at: 0,
            ended_at: 0,
            taken: 0,
            out: (0, 0),
            loads: BTreeMap::new(),
            tries: BTreeMap::new(),
            recovering: false,
            before: Tally::default(),
            sabotage: None,
            liar: None,
            recent: VecDeque::new(),
            beats: BTreeMap::new(),
            watching_since: 0,
            low_since: BTreeMap::new(),
            cut_off_at: 0,
            cut_off_since: None,
            switch_beaten: 0,
            most_silent_since: None,
            pools,
            words: BTreeMap::new(),
            heard: BTreeMap::new(),
            carried: Carried::default(),
            chain_no,
            others: Vec::new(),
        };
        world.begin_run()?;
        Ok(world)
    }

    /// Starts the processes, and plans packets and steps.
    fn begin_run(&mut self) -> Result<(), String> {
        let plan = self.plan;
        self.checker.lossless = plan.mode == Mode::Ring;
        self.checker.keeps_packets = self.switch_settings().kept > 0;
        self.checker.lenient = plan.faults.has(Fault::DoubleCrash);
        // Times of packets jump with the switch's clock.
        if !plan.faults.has(Fault::Skew) {
            let late = UNHURRIED
                .iter()
                .fold(plan.faults, |f, fault| f.without(*fault));
            let late = late.is_empty().then_some(ENDS_LATE);
            let idle = plan.chain.idle_times(plan.seed);
            self.checker.idle_times(idle, late);
        }
        self.start_switch()?;
        for _ in 0..self.settings.runtimes.max(1) {
            self.start_member(false)?;
        }
        for _ in 0..plan.loggers {
            self.start_member(true)?;
        }
        let packets = &plan.packets;
        let mut from = 0;
        while let Some(first) = packets.get(from) {
            let same = packets.iter().skip(from).take(64);
            let count = same.take_while(|packet| packet.at == first.at).count();
            self.schedule(first.at, Event::Packets(from..from + count));
            from += count;
        }
        for (number, (at, _)) in plan.steps.iter().enumerate() {
            self.schedule(*at, Event::Step(number));
        }
        self.schedule(LOOK, Event::Look);
        Ok(())
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.queue.push(at.max(self.now), event);
    }

    /// The time on the switch's clock.
    fn time(&self) -> Time {
        self.time_at(self.switch.unwrap_or(0))
    }

    /// The time on the clock of a process.
    fn time_at(&self, no: ProcessNo) -> Time {
        Time(START + self.now + self.processes.get(no).map_or(0, |p| p.skew))
    }

    /// By how much the clock of the process with the next number is ahead.
    fn next_skew(&self) -> u64 {
        let drawn = mix(self.plan.seed, 0x5000 + self.processes.len() as u64);
        match self.plan.faults.has(Fault::Skew) && drawn.is_multiple_of(2) {
            true => (drawn >> 8) % 2_000_000_000,
            false => 0,
        }
    }

    fn add_process(&mut self, mut process: Process) {
        process.skew = self.next_skew();
        self.processes.push(process);
    }

    /// Small frames in the memory of a switch and of a runtime.
    fn frames(&self) -> (u32, u32) {
        match (self.small(), self.plan.faults.has(Fault::FewFrames)) {
            (_, true) => (384, 512),
            (true, false) => (448, 6_144),
            (false, false) => (6_144, 6_144),
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.world.entry(what).or_default() += 1;
    }

    /// Runs until nothing is left to do, or an invariant does not hold.
    pub(crate) fn run(&mut self) {
        let all = [self.plan].into_iter().chain(&self.plan.others);
        let size: usize = all.map(|plan| plan.packets.len() + plan.steps.len()).sum();
        let most = 1_000_000 + EVENTS * size as u64;
        let mut events = 0;
        while self.one_event() {
            events += 1;
            if events > most {
                let text = format!("{events} events, and no end");
                self.checker.violated(Invariant::Stuck, None, text);
            }
            if self.violation().is_some() || self.is_over() {
                break;
            }
        }
    }

    /// Something happens at this time.
    fn begin(&mut self, now: u64) {
        self.now = now;
        self.checker.at(now);
        self.trace.at(now);
    }

    /// The next event happens; false where there is none.
    fn own_event(&mut self) -> bool {
        let Some((at, event)) = self.queue.pop() else {
            return false;
        };
        self.begin(at);
        self.happen(event);
        true
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Packets(range) => self.packets(range),
            Event::Step(number) => self.step(number),
            Event::Arrival {
                to,
                from,
                sent,
                what,
            } => self.arrive(to, from, sent, what),
            Event::Beat(no) => self.beat(no),
            Event::Beats { to, from, beat } => self.beat_arrives(to, from, beat),
            Event::Round(no) => self.round(no),
            Event::Wake(no) => self.wake(no),
            Event::Resume(no) => self.resume(no),
            Event::Notice(no) => self.notice(no),
            Event::Start { is_logger } => {
                if self.start_member(is_logger).is_err() {
                    self.count("runtime_not_started");
                }
            }
            Event::Restart => self.restart_switch(),
            Event::End(no) => {
                if self.processes.get(no).is_some_and(Process::is_alive) {
                    self.kill(no);
                    self.close_streams(no);
                }
            }
            Event::Distrust(no) => self.distrust(no),
            Event::Configure(no) => self.configure(no),
            Event::Look => {
                self.look_at_ports();
                self.look_at_low_pools();
                self.look_at_answers();
                self.look();
            }
        }
    }

    fn small(&self) -> bool {
        self.plan.faults.has(Fault::FullBuffers)
    }

    /// Nanoseconds after which processes send again what was not answered. Most
    /// seeds wait longer than an answer takes; some do not, so that repeats
    /// overtake answers.
    pub(super) fn repeat_after(&self) -> u64 {
        if self.threads.is_some() {
            return in_process::REPEAT_AFTER;
        }
        let impatient = mix(self.plan.seed, 78) % 100 < 10;
        match (self.plan.faults.has(Fault::Delay), impatient) {
            (false, _) => 2_000_000,
            (true, true) => 5_000_000,
            (true, false) => 12_000_000,
        }
    }

    /// Flowlets that are cut often and fit badly, so that units change owners all the time.
    fn flowlet_settings(&self) -> Option<FlowletSettings> {
        let drawn = |number: u64| mix(self.plan.seed, 90 + number);
        self.plan.flowlets.then(|| FlowletSettings {
            gap: [200_000, 2_000_000, 10_000_000, 50_000_000][(drawn(0) % 4) as usize],
            size: [400, 3_000, 15_000][(drawn(1) % 3) as usize],
            copies: [0, 1, 3, 9][(drawn(2) % 4) as usize],
            alpha: [0, 25, 90][(drawn(3) % 3) as usize],
            capacity: [2_000, 20_000, 200_000][(drawn(4) % 3) as usize],
            packing: Packing::ALL[(drawn(5) % 3) as usize].1,
            ..FlowletSettings::DEFAULT
        })
    }

    fn switch_settings(&self) -> SwitchSettings {
        let drawn = mix(self.plan.seed, 77);
        let small = self.small();
        let dispatch = [Dispatch::RoundRobin, Dispatch::LeastLoaded, Dispatch::Hash];
        let dispatch = dispatch[(drawn % 3) as usize];
        let plant = self.settings.plant.and_then(Bug::plant);
        if let Some(threads) = &self.threads {
            let settings = in_process::switch_with(dispatch, threads.keeping());
            return SwitchSettings {
                plant,
                window: if small { 8 } else { settings.window },
                flowlets: self.flowlet_settings(),
                ..settings
            };
        }
        SwitchSettings {
            generation: self.generation,
            replication: self.plan.replication,
            dispatch,
            flowlets: self.flowlet_settings(),
            kept: match (self.plan.faults.has(Fault::NothingKept), small) {
                (true, _) => 0,
                // Fewer places than frames, or more.
                (_, true) => [48, 4_096][(drawn / 3 % 2) as usize],
                _ => 4_096,
            },
            window: match small {
                true => 8,
                false => [128, 1_000][(drawn / 6 % 2) as usize],
            },
            repeat_after: self.repeat_after(),
            repeat_within: (500_000, 20_000_000),
            recovery_held: if small { 16 } else { 512 },
            pieces: [1, 2, 64][(drawn / 12 % 3) as usize],
            reserve: 64,
            acknowledge: true,
            lossless: false,
            plant,
        }
    }

    fn actor_settings(&self, id: RuntimeId, is_logger: bool) -> ActorSettings {
        let plant = self.settings.plant.and_then(Bug::plant);
        if let Some(threads) = &self.threads {
            return ActorSettings {
                is_logger,
                plant,
                ..in_process::actors_with(id, threads.layout().small_frames, threads.keeping())
            };
        }
        ActorSettings {
            id,
            is_logger,
            held: match (self.small(), self.frames().1) {
                (true, _) => 24,
                // Held packets leave frames for the entries that packets cause.
                (false, frames) => frames * 2 / 3,
            },
            keep_outputs: true,
            waits: false,
            lossless: false,
            repeat_after: self.repeat_after(),
            repeat_within: (500_000, 20_000_000),
            // Little is too much for one message.
            longest: if self.small() { 4_096 } else { 64 << 10 },
            at_once: if self.small() { 8 << 10 } else { 128 << 10 },
            most: 512 << 10,
            ahead: if self.small() { 512 } else { 64 << 20 },
            plant,
        }
    }

    fn start_switch(&mut self) -> Result<(), String> {
        self.generation += 1;
        let config = engine_config(self.plan.seed);
        let settings = self.switch_settings();
        let mut switch = Switch::new(&self.stage, config, settings).map_err(|e| e.to_string())?;
        switch.outbox.journal.start();
        if mix(self.plan.seed, LATE).is_multiple_of(4) {
            switch.begin_at_view(LATE_VIEW);
        }
        let peer = Peer::Switch(self.generation);
        let no = self.processes.len();
        let wire = !self.settings.plain_links && self.threads.is_none();
        let layout = self.threads.as_ref().map(Threads::layout);
        let layout = layout.unwrap_or_else(|| pools::layout(self.frames().0));
        let pool = self.pools.take(layout);
        let body = Body::Switch(Box::new(switch));
        self.add_process(Process::new((peer, no), body, no, (wire, pool)));
        self.switch = Some(no);
        self.start_beating(no);
        Ok(())
    }

    fn start_member(&mut self, is_logger: bool) -> Result<(), String> {
        let id = RuntimeId(self.next_runtime);
        self.next_runtime += 1;
        let config = engine_config(self.plan.seed);
        let engine = Runtime::new(&self.stage, config).map_err(|e| e.to_string())?;
        let places = match self.current_switch() {
            Some(Body::Switch(switch)) => switch.classifier().places() as u32,
            _ => PLACES,
        };
        let settings = self.actor_settings(id, is_logger);
        let body = Body::Runtime(Box::new(Actors::with_places(
            engine,
            settings,
            places,
            weir_packet::no_advice,
        )));
        let (pool, wire) = match self.share(self.processes.len()) {
            Some(share) => (share, false),
            None => {
                let layout = pools::layout(self.frames().1);
                (self.pools.take(layout), !self.settings.plain_links)
            }
        };
        let switch = self.switch.unwrap_or(0);
        let start = (Peer::Runtime(id), self.processes.len());
        let mut process = Process::new(start, body, switch, (wire, pool));
        process.host = id.0.checked_rem(self.plan.hosts);
        process.is_logger = is_logger;
        let host = process.host;
        let no = self.processes.len();
        self.add_process(process);
        self.start_beating(no);
        let role = if is_logger { ", a logger," } else { "" };
        self.say(None, || format!("r{}{role} starts", id.0));
        let time = self.time();
        if let Some(Body::Switch(switch)) = self.current_switch() {
            if is_logger {
                switch.set_logger(id);
            }
            switch.join(time, id);
            if let Some(host) = host {
                switch.set_host(id, host);
            }
        }
        self.after_switch();
        self.reconfigure();
        self.others()
            .try_for_each(|other| other.start_member(is_logger))
    }

    /// The memory of the runtime's thread with this number, where it is a thread.
    fn share(&mut self, no: ProcessNo) -> Option<FramePool> {
        let threads = self.threads.as_mut()?;
        let switch = self
            .switch
            .and_then(|switch| self.processes.get_mut(switch));
        let (_, pool) = switch?.living.as_mut()?;
        Some(threads.start(no, pool))
    }

    /// The current switch's state, if it runs.
    fn running_switch(&self) -> Option<&Switch> {
        self.processes.get(self.switch?)?.switch()
    }

    fn current_switch(&mut self) -> Option<&mut Body> {
        let no = self.switch?;
        let process = self.processes.get_mut(no)?;
        process.living.as_mut().map(|(body, _)| body)
    }

    /// Runtimes hear of who runs, each in its time.
    fn reconfigure(&mut self) {
        for no in 0..self.processes.len() {
            let alive = self.processes.get(no).is_some_and(Process::is_useful);
            if alive {
                let later = self.random.below(2_000_000);
                self.schedule(self.now + later, Event::Configure(no));
            }
        }
    }

    /// Runtimes that may own units.
    fn useful(&self) -> Vec<ProcessNo> {
        self.numbers_of(Process::is_useful)
    }

    fn numbers_of(&self, is_one: impl Fn(&Process) -> bool) -> Vec<ProcessNo> {
        let all = self.processes.iter().enumerate();
        all.filter(|(_, p)| is_one(p)).map(|(no, _)| no).collect()
    }

    /// A runtime or logger of those that may keep copies.
    fn nth_keeper(&self, number: u32) -> Option<ProcessNo> {
        let keepers = self.numbers_of(Process::is_keeper);
        let place = (number as usize).checked_rem(keepers.len())?;
        keepers.get(place).copied()
    }

    /// One starts in the place of a member that fails.
    fn start_later(&mut self, no: ProcessNo, later: u64) {
        let is_logger = self.processes.get(no).is_some_and(|p| p.is_logger);
        self.schedule(self.now + later, Event::Start { is_logger });
    }

    fn nth_useful(&self, number: u32) -> Option<ProcessNo> {
        let useful = self.useful();
        let place = (number as usize).checked_rem(useful.len())?;
        useful.get(place).copied()
    }

    fn runtime_id(&self, no: ProcessNo) -> Option<RuntimeId> {
        self.processes.get(no).and_then(Process::runtime)
    }

    /// Writes a line of the trace.
    fn say(&mut self, unit: Option<weir_protocol::UnitId>, text: impl FnOnce() -> String) {
        self.trace.say(unit, text);
    }

    /// The report of the run.
    pub(crate) fn outcome(mut self) -> (Outcome, Trace, Pools) {
        for no in 0..self.processes.len() {
            self.merge_counts(no);
        }
        self.join_memory();
        for process in self.processes.iter_mut() {
            process.end(&mut self.pools);
        }
        self.world.insert("frames_lost", self.links.lost);
        self.world.insert("frames_doubled", self.links.duplicated);
        self.world.insert("frames_reordered", self.links.reordered);
        let violation = self.violation();
        for other in core::mem::take(&mut self.others) {
            let (other, _, pools) = other.outcome();
            self.pools.merge(pools);
            self.checker.tally.add(&other.tally);
            for (name, count) in other.counts {
                *self.counts.entry(name).or_default() += count;
            }
            for (name, count) in other.world {
                *self.world.entry(name).or_default() += count;
            }
        }
        let outcome = Outcome {
            violation,
            tally: self.checker.tally,
            counts: self.counts,
            world: self.world,
            time: self.now,
        };
        (outcome, self.trace, self.pools)
    }

    fn coordinator_says(&mut self, message: Message) {
        let Some(no) = self.switch else {
            return;
        };
        let time = self.time();
        if let Some((Body::Switch(switch), pool)) =
            self.processes.get_mut(no).and_then(|p| p.living.as_mut())
        {
            switch.message(time, pool, Peer::Coordinator, message);
        }
        self.flush(no);
    }
}

/// How all engines of a run are made: alike, so that they are equal.
fn engine_config(seed: u64) -> RuntimeConfig {
    RuntimeConfig {
        seed,
        event_bytes: 1 << 18,
        follows: true,
        ..RuntimeConfig::default()
    }
}

/// Modes by number.
pub(crate) const MODES: [MoveMode; 3] = [MoveMode::Push, MoveMode::Pull, MoveMode::Reprocess];
