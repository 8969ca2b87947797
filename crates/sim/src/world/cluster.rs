//! The world outside the cluster: agents, the coordinator, and the
//! look at what is left to do.

use std::collections::BTreeSet;

use weir_packet::FlowKey;
use weir_protocol::journal::{Done, Start};
use weir_protocol::message::{CLAIMS, Claim, Message, MoveMode, Selection};
use weir_protocol::{Actors, Clock, Peer, RuntimeId, Switch, UnitId, View};

use super::links::ProcessNo;
use super::process::{Body, Process};
use super::processes::Processes;
use super::{Event, LOOK, Phase, World};
use crate::check::{Cluster, Invariant};
use crate::fault::Fault;
use crate::random::mix;
use crate::slip::Slip;

/// Repeat intervals, for each window of units, in which a unit gets a replica:
/// without loss, and where words are lost or have no room.
const PROTECTED: [u64; 2] = [8, 32];
/// Looks between two at the protection of units, each of which walks through all of them:
/// bounds are many times as long.
const PROTECTION_EVERY: u64 = 4;
/// Looks in which a drain is taken back once.
const TAKEN_BACK: u64 = 16;
/// Faults that lose words: after a cut a stream waits for long before it tries again.
const LOSING: [Fault; 7] = [
    Fault::Loss,
    Fault::LossyBurst,
    Fault::Partition,
    Fault::OneWay,
    Fault::CutOff,
    Fault::FullBuffers,
    Fault::Forgery,
];

/// The processes, as the checker sees them.
pub(super) struct Seen<'a>(pub(super) &'a Processes);

impl Seen<'_> {
    fn of(&self, runtime: RuntimeId) -> Option<&Process> {
        self.0.runtime(runtime)
    }

    /// The newest switch, where it runs and has heard all claims: an older one may run
    /// still, but nobody will hear it.
    fn switch(&self) -> Option<&Switch> {
        let is_switch = |process: &&Process| matches!(process.peer, Peer::Switch(_));
        let newest = self.0.iter().rev().find(is_switch)?;
        newest.switch().filter(|switch| !switch.is_recovering())
    }

    /// True where the runtime may own units.
    pub(super) fn is_useful(&self, runtime: RuntimeId) -> bool {
        self.of(runtime).is_some_and(Process::is_useful)
    }
}

impl Cluster for Seen<'_> {
    fn is_gone(&self, runtime: RuntimeId) -> bool {
        self.of(runtime)
            .is_none_or(|process| !process.is_alive() || process.suspected)
    }

    fn stored(&self, runtime: RuntimeId, unit: UnitId, view: weir_protocol::View) -> Option<Clock> {
        match &self.of(runtime)?.living.as_ref()?.0 {
            Body::Runtime(actors) => actors.stored(unit, view),
            Body::Switch(_) => None,
        }
    }

    fn host(&self, runtime: RuntimeId) -> Option<u32> {
        self.of(runtime)?.host()
    }

    fn is_logger(&self, runtime: RuntimeId) -> bool {
        self.of(runtime).is_some_and(|process| process.is_logger)
    }

    fn has_runtimes(&self) -> bool {
        self.0.iter().any(Process::is_useful)
    }

    fn is_suspicion_lost(&self, runtime: RuntimeId) -> bool {
        let in_service = self.0.iter().filter(|p| p.is_alive() && !p.suspected);
        let mut actors = in_service.filter_map(Process::actors);
        let knows = |actors: &Actors| actors.suspected().any(|other| other == runtime);
        self.of(runtime).is_some_and(Process::was_suspected) && !actors.any(knows)
    }

    fn takes_units(&self, runtime: RuntimeId) -> bool {
        self.of(runtime).is_some_and(World::takes_units)
    }

    fn packets_since(&self, unit: UnitId) -> Option<Clock> {
        self.switch()?.packets_since(unit)
    }

    fn unit_of_name(&self, key: &FlowKey) -> Option<UnitId> {
        let unit = self.switch()?.classifier().unit_of_name(key);
        unit.map(UnitId)
    }
}

impl World<'_> {
    /// Units are protected in time, but for what keeps the switch from it: a
    /// restart, a pause, a cut, a death that it was not told of.
    pub(super) fn look_at_protection(&mut self) {
        if !(self.now / LOOK).is_multiple_of(PROTECTION_EVERY) {
            return;
        }
        let disturbed = self.processes.iter().any(|p| {
            let is_runtime = p.runtime().is_some();
            p.paused_until.is_some() || is_runtime && !p.is_alive() && !p.suspected
        });
        if disturbed || self.recovering || !self.has_recovered() || self.links.is_cut(self.now) {
            return;
        }
        let settings = self.switch_settings();
        let turns = 1 + self.checker.units.len() as u64 / u64::from(settings.window);
        let is_losing = LOSING.iter().any(|fault| self.plan.faults.has(*fault));
        let [quiet, lossy] = PROTECTED;
        let intervals = if is_losing { lossy } else { quiet };
        let bound = intervals * settings.repeat_after * turns;
        let keepers: Vec<RuntimeId> = self.keeper_ids();
        let seen = Seen(&self.processes);
        self.checker
            .protects((PROTECTION_EVERY * LOOK, bound), &keepers, &seen);
    }

    /// Runtimes and loggers that may keep copies.
    pub(super) fn keeper_ids(&self) -> Vec<RuntimeId> {
        let keepers = self.processes.iter().filter(|p| p.is_keeper());
        keepers.filter_map(Process::runtime).collect()
    }

    /// True where the switch runs and has heard all claims.
    pub(super) fn has_recovered(&self) -> bool {
        let switch = self.running_switch();
        switch.is_some_and(|switch| !switch.is_recovering())
    }

    /// Kills a process: its memory is gone.
    pub(super) fn kill(&mut self, no: ProcessNo) {
        self.merge_counts(no);
        if self.switch == Some(no) {
            self.look_at_drops();
        }
        self.look_at_books(no);
        let now = self.now;
        if self.threads.is_some() {
            self.end_thread(no);
        }
        let Some(process) = self.processes.get_mut(no) else {
            return;
        };
        process.end(&mut self.pools);
        process.died = Some(now);
        process.paused_until = None;
        process.inbox.clear();
        let name = process.name();
        self.say(None, || format!("{name} dies"));
        self.others().for_each(|other| other.kill(no));
    }

    pub(super) fn merge_counts(&mut self, no: ProcessNo) {
        let Some(process) = self.processes.get(no) else {
            return;
        };
        match process.living.as_ref().map(|(body, _)| body) {
            Some(Body::Switch(switch)) => {
                for (what, count) in switch.counts().iter() {
                    merge(&mut self.counts, "switch", what, count);
                }
                for (what, count) in switch.flowlets().iter().flat_map(|f| f.counts().iter()) {
                    merge(&mut self.counts, "flowlets", what, count);
                }
            }
            Some(Body::Runtime(actors)) => {
                for (what, count) in actors.counts().iter() {
                    merge(&mut self.counts, "actors", what, count);
                }
            }
            None => {}
        }
        if let Some(streams) = process.streams.as_ref().filter(|_| process.is_alive()) {
            for (what, count) in streams.counts().iter() {
                merge(&mut self.counts, "stream", what, count);
            }
        }
    }

    /// The switch is told that a runtime is dead.
    pub(super) fn notice(&mut self, no: ProcessNo) {
        let Some(id) = self.runtime_id(no) else {
            return;
        };
        let Some(switch_no) = self.switch else {
            // The agent tells the next one.
            self.schedule(self.now + LOOK, Event::Notice(no));
            return;
        };
        let paused = self.processes.get(switch_no).and_then(|p| p.paused_until);
        if let (Some(until), Some(_)) = (paused, &self.threads) {
            // The switch's thread joins others when it runs.
            return self.schedule(until, Event::Notice(no));
        }
        self.others_notice(no);
        // One that was suspected before may be waited for by the next switch.
        let serves = self.running_switch().is_some_and(|s| s.is_in_service(id));
        if let Some(process) = self.processes.get_mut(no) {
            if process.suspected && !serves {
                return;
            }
            process.suspect();
        }
        if self.settings.slip() == Some(Slip::DeathUntold) {
            return;
        }
        self.say(None, || format!("V is told that r{} is dead", id.0));
        self.join_thread(no);
        if self.processes.get(no).is_some_and(|p| !p.is_alive()) {
            self.close_streams(no);
            self.watch_no_more(no);
        }
        let time = self.time();
        if self.random.chance(500) {
            self.coordinator_says(Message::Suspect { runtime: id });
        } else if let Some((Body::Switch(switch), pool)) = self
            .processes
            .get_mut(switch_no)
            .and_then(|p| p.living.as_mut())
        {
            switch.suspect(time, pool, id);
        }
        self.flush(switch_no);
        self.reconfigure();
    }

    /// A runtime hears of who runs.
    pub(super) fn configure(&mut self, no: ProcessNo) {
        let useful = self.useful();
        let mut runtimes: Vec<RuntimeId> = useful
            .iter()
            .filter_map(|no| self.runtime_id(*no))
            .collect();
        runtimes.sort_unstable();
        let time = self.time_at(no);
        let by_message = self.random.chance(500);
        let Some(process) = self.processes.get_mut(no) else {
            return;
        };
        if let Some((Body::Runtime(actors), pool)) = process.living.as_mut() {
            if by_message {
                let message = Message::NotifyClusterCfg { runtimes };
                actors.message(time, pool, Peer::Coordinator, message);
            } else {
                actors.cluster(&runtimes);
            }
        }
        self.flush(no);
    }

    pub(super) fn restart_switch(&mut self) {
        if self.switch.is_some() {
            return;
        }
        let started = self.start_switch();
        let mut others = self.others().map(World::start_switch);
        if started
            .and_then(|()| others.try_for_each(|other| other))
            .is_err()
        {
            drop(others);
            self.count("switch_not_started");
            return;
        }
        drop(others);
        self.leave_out();
        let others = self.others.iter();
        let others: Vec<Vec<RuntimeId>> = others.map(World::suspected_and_named).collect();
        let mut named = self.suspected_and_named();
        named.retain(|id| others.iter().all(|its| its.contains(id)));
        self.recover_switch(&named);
        self.others().for_each(|other| other.recover_switch(&named));
    }

    /// The switch that has started asks the runtimes, those that the switch before suspected as far
    /// as they are named.
    fn recover_switch(&mut self, named: &[RuntimeId]) {
        let is_named = |p: &Process| p.runtime().is_some_and(|id| named.contains(&id));
        let runtimes: Vec<(ProcessNo, RuntimeId, bool)> = self
            .processes
            .iter()
            .enumerate()
            .filter(|(_, p)| !p.suspected || is_named(p))
            .filter(|(_, p)| p.is_alive() || p.died.is_some() && !p.draining)
            .filter_map(|(no, p)| Some((no, p.runtime()?, p.draining)))
            .collect();
        let ids: Vec<RuntimeId> = runtimes.iter().map(|(_, id, _)| *id).collect();
        let hosts: Vec<(RuntimeId, u32)> = runtimes
            .iter()
            .filter_map(|(no, id, _)| Some((*id, self.processes.get(*no)?.host()?)))
            .collect();
        let loggers: Vec<RuntimeId> = runtimes
            .iter()
            .filter(|(no, ..)| self.processes.get(*no).is_some_and(|p| p.is_logger))
            .map(|(_, id, _)| *id)
            .collect();
        let generation = self.generation;
        self.say(None, || format!("V{generation} starts"));
        let (time, mut refused) = (self.time(), Vec::new());
        if let Some(Body::Switch(switch)) = self.current_switch() {
            loggers.into_iter().for_each(|id| switch.set_logger(id));
            switch.recover(time, &ids);
            for (id, host) in hosts {
                switch.set_host(id, host);
            }
            for (no, id, draining) in &runtimes {
                if *draining && switch.drain(time, *id, MoveMode::Push).is_err() {
                    refused.push(*no);
                }
            }
        }
        // Where nobody can take its units the drain is off, as one that is asked for then.
        for no in refused {
            if let Some(process) = self.processes.get_mut(no) {
                process.draining = false;
            }
        }
        self.forge_claim(&ids);
        self.recovering = true;
        self.taken = 0;
        self.out = (0, 0);
        self.before = self.checker.tally;
        self.checker.begin_ledger();
        self.after_switch();
    }

    /// Suspected runtimes that live and that the next switch is told of all the same, in
    /// one restart of two. All others have heard of the suspicion, so that one of them
    /// tells the switch.
    fn suspected_and_named(&self) -> Vec<RuntimeId> {
        let drawn = mix(self.plan.seed, 0x5e00 + u64::from(self.generation));
        if drawn.is_multiple_of(2) {
            return Vec::new();
        }
        let alive = self.processes.iter().filter(|p| p.is_alive());
        let (zombies, others): (Vec<&Process>, Vec<&Process>) = alive.partition(|p| p.suspected);
        let actors: Vec<&Actors> = others.into_iter().filter_map(Process::actors).collect();
        let is_known = |id: &RuntimeId| {
            let knows = |actors: &&Actors| actors.suspected().any(|other| other == *id);
            !actors.is_empty() && actors.iter().all(knows)
        };
        let zombies = zombies.into_iter().filter_map(Process::runtime);
        zombies.filter(is_known).collect()
    }

    /// A restarted switch that was told of a suspected runtime has it in service where
    /// nobody who had heard of the suspicion could tell: they are gone meanwhile. And one
    /// that a switch had taken back is suspected again where somebody has heard of the
    /// suspicion alone.
    fn follow_suspicions(&mut self) {
        let switch = self.switch.and_then(|no| self.processes.get(no));
        let Some(switch) = switch.and_then(Process::switch) else {
            return;
        };
        let serves = |p: &Process| Some(switch.is_in_service(p.runtime()?));
        // One that died meanwhile may be taken back until the switch is told.
        let all = self.processes.iter().enumerate();
        let changed = all.filter_map(|(no, p)| {
            let serves = serves(p).filter(|serves| p.is_alive() || *serves)?;
            (p.suspected == serves).then_some((no, serves))
        });
        let changed: Vec<(ProcessNo, bool)> = changed.collect();
        for (no, serves) in changed {
            let (what, how) = match serves {
                true => ("suspected_taken_back", "takes back"),
                false => ("suspected_again", "suspects again"),
            };
            self.count(what);
            if let Some(process) = self.processes.get_mut(no) {
                process.suspected = !serves;
                let name = process.name();
                self.say(None, || format!("V {how} {name}"));
            }
            if serves {
                self.watch_again(no);
            }
        }
    }

    /// The next switch is not told of a runtime that lives: it counts as
    /// suspected.
    fn leave_out(&mut self) {
        if !self.plan.faults.has(Fault::Unlisted) || self.phase != Phase::Busy {
            return;
        }
        let drawn = mix(self.plan.seed, u64::from(self.generation)) as u32;
        let left_out = self.victim(drawn);
        if let Some(no) = left_out {
            self.suspect_everywhere(no);
            let name = self.name_of(no);
            self.count("runtimes_unlisted");
            self.say(None, || format!("the next V is not told of {name}"));
            let later = self.random.below(10_000_000);
            self.start_later(no, later);
        }
    }

    /// A runtime that was cut off is suspected, as soon as it may.
    pub(super) fn distrust(&mut self, no: ProcessNo) {
        let lives = self
            .processes
            .get(no)
            .is_some_and(|p| p.is_alive() && !p.suspected);
        if !lives || self.phase != Phase::Busy {
            return;
        }
        if self.switch.is_some() && self.may_fail(no) {
            return self.suspect(no);
        }
        self.schedule(self.now + LOOK, Event::Distrust(no));
    }

    /// A runtime will claim what it does not have. First it announces an answer
    /// that never ends.
    fn forge_claim(&mut self, ids: &[RuntimeId]) {
        self.liar = ids
            .first()
            .copied()
            .filter(|_| self.plan.faults.has(Fault::Forgery));
        let Some(from) = self.liar else {
            return;
        };
        let message = Message::Claims {
            generation: self.generation,
            piece: 0,
            pieces: u32::MAX,
            claims: vec![made_up_claim()],
            suspected: Vec::new(),
        };
        let (time, from) = (self.time(), Peer::Runtime(from));
        let process = self.switch.and_then(|no| self.processes.get_mut(no));
        if let Some((Body::Switch(switch), pool)) = process.and_then(|p| p.living.as_mut()) {
            switch.message(time, pool, from, message);
        }
        self.count("forged");
    }

    /// Adds what the runtime does not have to what it claims.
    pub(super) fn lie(&mut self, from: ProcessNo, message: &mut Message) {
        if let Message::Claims { claims, .. } = message
            && claims.len() < CLAIMS
            && self.liar.is_some()
            && self.liar == self.runtime_id(from)
        {
            claims.push(made_up_claim());
            self.count("forged");
        }
    }

    /// An answer that the coordinator asked for.
    pub(super) fn coordinator_hears(&mut self, from: ProcessNo, message: &Message) {
        if let (Message::Workload(load), Some(id)) = (message, self.runtime_id(from)) {
            self.loads.insert(id, u64::from(load.units));
            self.count("workloads_heard");
        }
    }

    /// Scaling: the loads that were heard of decide; more are asked for.
    pub(super) fn scale(&mut self) {
        let useful = self.useful();
        let ids: Vec<RuntimeId> = useful
            .iter()
            .filter_map(|no| self.runtime_id(*no))
            .collect();
        let loads = core::mem::take(&mut self.loads);
        let load = |id: &RuntimeId| loads.get(id).copied();
        let most = ids.iter().filter_map(|id| Some((load(id)?, *id))).max();
        let least = ids.iter().filter_map(|id| Some((load(id)?, *id))).min();
        if let (Some((high, from)), Some((low, to))) = (most, least)
            && high > low + 1
        {
            let number = ((high - low) / 2) as u32;
            self.count("scaled");
            self.checker.overtakes_moves(Some(from), to);
            self.coordinator_says(Message::SetMigrationTarget {
                from,
                to,
                what: Selection::Number(number),
                mode: MoveMode::Push,
            });
        }
        for no in useful {
            let time = self.time_at(no);
            if let Some((Body::Runtime(actors), pool)) =
                self.processes.get_mut(no).and_then(|p| p.living.as_mut())
            {
                actors.message(time, pool, Peer::Coordinator, Message::PollWorkload);
            }
            self.flush(no);
        }
    }

    /// A restarted switch knows by now which units there are: what it says
    /// next, of these and of others that it begins in their place, counts from
    /// here.
    pub(super) fn note_recovery(&mut self, journal: &[Done]) {
        if !self.recovering || !self.has_recovered() {
            return;
        }
        self.recovering = false;
        self.follow_suspicions();
        let mut live: BTreeSet<UnitId> = match self.current_switch() {
            // One without an owner began with a packet that came meanwhile.
            Some(Body::Switch(switch)) => switch
                .live_units()
                .filter(|unit| switch.owner_of(*unit).is_some())
                .collect(),
            _ => BTreeSet::new(),
        };
        for done in journal.iter().rev() {
            match *done {
                Done::Ended { unit } | Done::OwnerLost { unit, .. } => live.insert(unit),
                Done::Opened {
                    unit,
                    from: Start::Nothing,
                    ..
                } => live.remove(&unit),
                _ => false,
            };
        }
        let live: Vec<UnitId> = live.into_iter().collect();
        let switch = self.switch.and_then(|no| self.processes.get(no));
        let switch = switch.and_then(Process::switch);
        let unit_of = |key: &FlowKey| switch?.classifier().unit_of_name(key).map(UnitId);
        let seen = Seen(&self.processes);
        self.checker.restart_is_over(&live, unit_of, &seen);
    }

    /// Looks after what is left to do.
    pub(super) fn look(&mut self) {
        if (self.now / LOOK).is_multiple_of(64) {
            self.check_report();
            self.look_at_all_books();
        }
        if self.phase != Phase::Over {
            self.compare_copies(self.now / LOOK);
        }
        self.ports_pass_time();
        if !self.follows() {
            self.take_drains_back(self.now / LOOK);
            self.let_drained_leave();
        }
        self.look_at_protection();
        self.look_at_silence();
        match self.phase {
            // When all chains have their packets.
            Phase::Busy if self.now < self.plan.end || self.follows() || self.is_waited_for() => {}
            Phase::Busy => self.heal(),
            Phase::Draining => self.drain_phase(),
            Phase::Expiring => self.expiring_phase(),
            Phase::Leaving => self.leaving_phase(),
            _ => {}
        }
        let later = match self.phase {
            Phase::Leaving => 32 * LOOK,
            _ => LOOK,
        };
        self.schedule(self.now + later, Event::Look);
    }

    /// True where a thread's pause lasts longer than the traffic.
    fn is_waited_for(&self) -> bool {
        let is_paused = |process: &Process| process.paused_until.is_some();
        self.threads.is_some() && self.processes.iter().any(is_paused)
    }

    /// I1 at any time: the switch's own report, and what was seen of it.
    pub(super) fn check_report(&mut self) {
        let (taken, out) = (self.taken, self.out);
        let Some(Body::Switch(switch)) = self.current_switch() else {
            return;
        };
        let report = switch.report();
        let reported = (report.packets_out, report.bytes_out);
        if !report.balances() || report.packets_in != taken || reported != out {
            let ((packets, bytes), report) = (out, report);
            let text = format!(
                "{taken} packets were taken, {packets} of {bytes} bytes left, and the report is \
                 {report:?}"
            );
            self.checker.violated(Invariant::Conservation, None, text);
        }
    }

    /// Takes some drains back, as a driver does whose other runtimes are gone.
    fn take_drains_back(&mut self, look: u64) {
        if !self.plan.take_back || !mix(self.plan.seed, look).is_multiple_of(TAKEN_BACK) {
            return;
        }
        let drains = |its: &Process| its.draining && its.is_alive() && !its.suspected;
        let Some(no) = self.processes.iter().position(drains) else {
            return;
        };
        if let Some(id) = self.runtime_id(no) {
            self.say(None, || format!("r{} is drained no more", id.0));
            self.keep_drained((no, id));
        }
    }

    /// Each chain's switch lets a drained runtime own units again.
    fn keep_drained(&mut self, (no, id): (ProcessNo, RuntimeId)) {
        let time = self.time();
        if let Some(Body::Switch(switch)) = self.current_switch()
            && switch.keep(time, id)
            && let Some(process) = self.processes.get_mut(no)
        {
            process.draining = false;
            self.checker.was_kept(id);
            self.count("drains_taken_back");
        }
        self.after_switch();
        self.reconfigure();
        self.others().for_each(|other| other.keep_drained((no, id)));
    }

    fn let_drained_leave(&mut self) {
        for no in 0..self.processes.len() {
            let draining = self
                .processes
                .get(no)
                .is_some_and(|p| p.draining && p.is_alive() && !p.suspected);
            let Some(id) = self.runtime_id(no).filter(|_| draining) else {
                continue;
            };
            if self.may_leave(id) {
                self.let_leave(no, id);
                self.kill(no);
                self.join_thread(no);
                self.close_streams(no);
                self.has_left(no);
                if self.phase == Phase::Busy {
                    let later = self.random.below(10_000_000);
                    self.start_later(no, later);
                }
            }
        }
    }

    /// Checks what a runtime still has in its hands when it leaves.
    pub(super) fn check_left(&mut self, no: ProcessNo) {
        let left = self.processes.get_mut(no).and_then(|p| p.living.as_mut());
        let Some((Body::Runtime(actors), pool)) = left else {
            return;
        };
        actors.finish(pool);
        // A thread's share is no memory of its own.
        let outstanding = pool.outstanding();
        if outstanding > 0 && self.threads.is_none() {
            let text = format!("a drained runtime leaves with {outstanding} frames");
            self.checker.violated(Invariant::Conservation, None, text);
        }
    }
}

fn merge<K: weir_telemetry::Label>(
    counts: &mut std::collections::BTreeMap<String, u64>,
    of: &str,
    what: K,
    count: u64,
) {
    *counts.entry(format!("{of}.{}", what.name())).or_default() += count;
}

fn made_up_claim() -> Claim {
    Claim {
        unit: UnitId(1 << 40 | 1_001),
        view: View(1 << 48 | 7),
        owner: true,
        clock: Clock(3),
        state: true,
        key: None,
        flows: Vec::new(),
        aliases: Vec::new(),
    }
}
