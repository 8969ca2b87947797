//! The end of a run: all is let out, flows end, and nothing is left over.

use core::fmt::Write;

use weir_protocol::actors::ActorCount;
use weir_protocol::switch::SwitchCount;
use weir_protocol::{Peer, Switch, UnitId};

use super::cluster::Seen;
use super::drops::is_after_numbering;
use super::links::ProcessNo;
use super::process::{Body, Process};
use super::threads::Threads;
use super::{DRAIN, EXPIRE, Event, LEAVE, ORPHANED, Phase, World};
use crate::check::{Invariant, show_unit, show_view};

/// Nanoseconds for ticks that a full stream refuses: the engine says a second later that their
/// units are due, and a stream may refuse those of many units at once.
const REFUSED_TICKS: u64 = 4_000_000_000;

/// Nanoseconds after the end of traffic and faults in which moves that were taken on have an
/// answer: most units are over before [`DRAIN`] is, and then nobody waits for their moves. A
/// window of views that is small against the units takes longer ([`World::answered`]).
const ANSWERED: u64 = 200_000_000;

/// Counts of a switch that stay at nothing where queues lose nothing and nobody dies.
const HASTE: [SwitchCount; 8] = [
    SwitchCount::EntryDuplicate,
    SwitchCount::EntryNotOwner,
    SwitchCount::EntryUnknownUnit,
    SwitchCount::Repeated,
    SwitchCount::LostSent,
    SwitchCount::EntryNotSent,
    SwitchCount::EntryTorn,
    SwitchCount::EntryNoFrame,
];
/// As many of them, the first ones, may be where outputs are kept.
const SAID_TWICE: usize = 3;
/// Views whose owner says again what was not let out.
const RESUMED: [SwitchCount; 3] = [
    SwitchCount::ReplicaChanged,
    SwitchCount::ResumedAtOwner,
    SwitchCount::ResumedAtReplica,
];
/// Counts of actors that stay at nothing with them.
const ACTORS_HASTE: [ActorCount; 4] = [
    ActorCount::HoldDropped,
    ActorCount::HoldOverflow,
    ActorCount::RepeatAsked,
    ActorCount::Duplicate,
];

impl World<'_> {
    /// Faults and traffic are over.
    pub(super) fn heal(&mut self) {
        self.say(None, || "faults and traffic are over".to_owned());
        self.begin_to_drain();
        for no in 0..self.processes.len() {
            let is_zombie = self.is_zombie(no);
            self.end_pause(no);
            if is_zombie {
                self.kill(no);
                self.close_streams(no);
                self.tell_of_zombie(no);
                self.tell_trusting(no);
            }
        }
        if self.switch.is_none() {
            self.schedule(self.now, Event::Restart);
        }
    }

    /// Time for an answer to moves: units wait for one another where the window is full.
    fn answered(&self) -> u64 {
        let window = self.switch_settings().window.max(1);
        let live = self.checker.units.values().filter(|unit| unit.is_live());
        ANSWERED + live.count() as u64 / u64::from(window) * self.repeat_after()
    }

    fn begin_to_drain(&mut self) {
        self.phase = Phase::Draining;
        self.healed_at = self.now;
        self.links.heal();
        self.others().for_each(World::begin_to_drain);
    }

    /// A process that stands still goes on.
    fn end_pause(&mut self, no: ProcessNo) {
        let process = self.processes.get_mut(no);
        if let Some(process) = process.filter(|process| process.paused_until.is_some()) {
            process.paused_until = Some(self.now);
            self.schedule(self.now, Event::Resume(no));
        }
        self.others().for_each(|other| other.end_pause(no));
    }

    pub(super) fn drain_phase(&mut self) {
        let unnoticed = self
            .processes
            .iter()
            .any(|p| !p.is_alive() && !p.suspected && p.runtime().is_some());
        let at_port = self.threads.as_ref().map_or(0, Threads::at_port);
        let busy = unnoticed || !self.has_recovered() || self.recovering || at_port > 0;
        let seen = Seen(&self.processes);
        let keepers = self.keeper_ids();
        let unanswered = self.checker.unanswered(|id| seen.is_useful(id));
        let is_late = self.now > self.healed_at + self.answered();
        if let Some((unit, text)) = unanswered.clone().filter(|_| is_late && !busy) {
            return self.checker.violated(Invariant::Stuck, Some(unit), text);
        }
        let waiting = self
            .checker
            .waiting()
            .or_else(|| self.checker.unprotected(&keepers, &seen))
            .or_else(|| self.checker.behind(&seen))
            .or(unanswered);
        if !busy && waiting.is_none() {
            self.compare_states();
            self.compare_gauge();
            self.look_for_hoards();
            self.drained_at = self.now;
            self.phase = Phase::Expiring;
        } else if self.now > self.healed_at + DRAIN {
            let (unit, text) = match waiting {
                Some((unit, text)) => (Some(unit), text),
                None if at_port > 0 => (None, self.waits_at_port(at_port)),
                None => (None, self.not_recovered()),
            };
            self.checker.violated(Invariant::Stuck, unit, text);
        }
    }

    /// Packets that find no room, and who has the frames.
    fn waits_at_port(&self, packets: usize) -> String {
        let mut text = format!("{packets} packets wait at the port; free frames, small and large:");
        for process in self.processes.iter() {
            if let Some((_, pool)) = &process.living {
                let (small, large) = (pool.available_small(), pool.available_large());
                let _ = write!(text, " {} {small}+{large}", process.name());
            }
        }
        if let Some((_, pool)) = self.processes.iter().find_map(|p| p.living.as_ref()) {
            let memory = pool.memory();
            let (small, large) = (memory.in_reserve(), memory.large_in_reserve());
            let _ = write!(text, ", in reserve {small}+{large}");
        }
        text
    }

    /// Whom a switch waits for that does not recover.
    fn not_recovered(&self) -> String {
        let serves = |id| self.running_switch().is_some_and(|s| s.is_in_service(id));
        let here = self
            .processes
            .iter()
            .filter(|p| p.runtime().is_some_and(serves));
        let here: Vec<String> = here
            .map(|p| format!("{}{}", p.name(), if p.is_alive() { "" } else { " (dead)" }))
            .collect();
        format!("the switch does not recover, of {}", here.join(", "))
    }

    /// I6 at the end: the owners' states are those of the reference, counters
    /// included.
    fn compare_states(&mut self) {
        let mut differ = None;
        let mut compared = 0;
        for (id, unit) in &self.checker.units {
            if unit.ended || unit.lost || unit.adrift {
                continue;
            }
            let peer = Peer::Runtime(unit.current.owner);
            let owner = self.processes.iter().find(|p| p.peer == peer);
            let Some(Body::Runtime(actors)) =
                owner.and_then(|p| p.living.as_ref()).map(|(body, _)| body)
            else {
                continue;
            };
            let mut bytes = Vec::new();
            let has = actors.engine().export_unit(id.0, &mut bytes).is_ok();
            let state = has.then_some(bytes);
            let right = self.checker.reference.state(*id);
            compared += 1;
            if state != right {
                let show = |state: &Option<Vec<u8>>| match state {
                    Some(bytes) => format!("{} bytes", bytes.len()),
                    None => "nothing".to_owned(),
                };
                let at = state
                    .iter()
                    .flatten()
                    .zip(right.iter().flatten())
                    .position(|(a, b)| a != b);
                let text = format!(
                    "at {} the state of view {} is {}, {} is right; they differ at {at:?}: {} and {}",
                    unit.out,
                    show_view(unit.current.view),
                    show(&state),
                    show(&right),
                    around(&state, at),
                    around(&right, at),
                );
                differ = Some((*id, text));
                break;
            }
        }
        self.checker.tally.states += compared;
        if let Some((unit, text)) = differ {
            self.checker
                .violated(Invariant::Equivalence, Some(unit), text);
        }
    }

    /// The switch's gauge of units without a replica is right.
    fn compare_gauge(&mut self) {
        let right = self.checker.without_replica();
        let Some(switch) = self.running_switch() else {
            return;
        };
        let gauge = switch.report().unprotected;
        if gauge != right {
            let text = format!("{right} units have no replica, the switch says {gauge}");
            self.checker.violated(Invariant::Protection, None, text);
        }
    }

    pub(super) fn expiring_phase(&mut self) {
        let Some(Body::Switch(switch)) = self.current_switch() else {
            return;
        };
        let liaison = UnitId(switch.classifier().liaison());
        let is_recovering = switch.is_recovering();
        let left = self
            .checker
            .units
            .iter()
            .filter(|(id, unit)| **id != liaison && !unit.ended && !unit.lost)
            // Units that a replaced switch began after its successor had heard all are nobody's.
            .find(|(_, unit)| !unit.unclaimed || is_recovering)
            .map(|(id, unit)| (*id, unit.out));
        // An owner asks for ticks by its own clock.
        let mut behind = self.processes.iter().map(|p| p.skew).max().unwrap_or(0);
        if self.small() {
            behind += REFUSED_TICKS;
        }
        match left {
            None if self.checker.waiting().is_none() => {
                self.ended_at = self.now;
                self.phase = Phase::Leaving;
            }
            Some((unit, out)) if self.now > self.drained_at + EXPIRE + behind => {
                let text = format!("unit {} does not end, after {out}", show_unit(unit));
                self.checker.violated(Invariant::Stuck, Some(unit), text);
            }
            _ => {}
        }
    }

    /// A switch that gathers claims may wait for a runtime that the one before suspected.
    fn tell_of_zombie(&mut self, no: ProcessNo) {
        let id = self.runtime_id(no);
        let is_waited_for = |switch: &Switch| id.is_some_and(|id| switch.is_in_service(id));
        if self.running_switch().is_some_and(is_waited_for)
            && let Some(process) = self.processes.get_mut(no)
        {
            process.suspected = false;
            self.notice(no);
        }
    }

    /// All flows have ended: in a while everything of them is gone, and then the
    /// packets are counted.
    pub(super) fn leaving_phase(&mut self) {
        match self.left_over() {
            Some(text) if self.now > self.ended_at + LEAVE + ORPHANED * self.repeat_after() => {
                self.checker.violated(Invariant::Leak, None, text);
            }
            Some(_) => {}
            None => {
                self.look_at_all_books();
                self.check_balance();
                self.phase = Phase::Over;
            }
        }
    }

    /// The rest of flows that have ended: in each engine, in its actors, at
    /// the switch. The unit of packets without a flow does not end.
    fn left_over(&mut self) -> Option<String> {
        let (mut owned, mut copied) = (0, 0);
        for process in self.processes.iter() {
            let Some(actors) = process.actors() else {
                continue;
            };
            let report = actors.report();
            owned += report.units;
            copied += report.replicas;
            let left = [
                ("flows", actors.engine().active_flows() as u64),
                // With full buffers the switch's word of what was let out may be lost.
                ("entries", if self.small() { 0 } else { report.kept }),
                ("packets", report.held),
                ("views that wait", report.waiting),
                ("older states", report.stored - report.replicas),
                ("leased ports", actors.engine().leases().leased()),
            ];
            if let Some((what, number)) = left.iter().find(|(_, number)| *number > 0) {
                return Some(format!("{} keeps {number} {what}", process.name()));
            }
        }
        let switch = self.running_switch()?;
        let liaison = UnitId(switch.classifier().liaison());
        let its = self.checker.units.get(&liaison);
        let its = its.filter(|unit| unit.is_live()).map(|unit| unit.current);
        let copy = its.and_then(|its| its.replica);
        if owned > u64::from(its.is_some()) || copied > u64::from(copy.is_some()) {
            return Some(format!("runtimes keep {owned} units and {copied} copies"));
        }
        let report = switch.report();
        let left = [
            ("packets", switch.in_flight()),
            ("views that are not settled", report.unsettled),
            ("moves", report.queued),
            ("units", report.units.saturating_sub(1)),
        ];
        if let Some((what, number)) = left.iter().find(|(_, number)| *number > 0) {
            return Some(format!("the switch keeps {number} {what}"));
        }
        let under_way = self.messages_under_way();
        let undelivered = || (under_way > 0).then(|| format!("streams keep {under_way} messages"));
        let drained = self.never_drained();
        drained
            .or_else(|| self.left_in_books())
            .or_else(undelivered)
    }

    /// A runtime that the switch waits for, though it has no unit but that of what has no
    /// flow: it could never leave.
    fn never_drained(&self) -> Option<String> {
        let switch = self.running_switch()?;
        let liaison = UnitId(switch.classifier().liaison());
        let its = self.checker.units.get(&liaison).map(|unit| unit.current);
        let here = self.processes.iter();
        let here = here.filter(|p| p.is_alive() && !p.suspected);
        let mut runtimes = here.filter_map(|process| process.runtime());
        let kept = runtimes.find(|id| {
            let has_it = its.is_some_and(|its| its.owner == *id || its.replica == Some(*id));
            !has_it && !switch.is_drained(*id)
        });
        kept.map(|id| format!("the switch waits for r{}, which has no unit", id.0))
    }

    /// Queues lose nothing: without a death, and a view that an owner resumes, nothing is said
    /// again, dropped or called lost.
    fn look_at_haste(&mut self, switch: &[(&'static str, u64)]) {
        if self.threads.is_none() || self.world.contains_key("crashes") {
            return;
        }
        let mut said = switch.to_vec();
        for actors in self.processes.iter().filter_map(Process::actors) {
            said.extend(ACTORS_HASTE.map(|what| (what.name(), actors.counts().get(what))));
        }
        if let Some((what, count)) = said.iter().find(|(_, count)| *count > 0) {
            let text = format!("nobody died, and {what} is {count}");
            self.checker.violated(Invariant::ExactlyOnce, None, text);
        }
    }

    /// I1 at the end: what came in is accounted for, and every frame is back.
    fn check_balance(&mut self) {
        let (tally, before) = (self.checker.tally, self.before);
        let entered = self.taken + tally.turned - before.turned;
        let numbered = tally.numbered - before.numbered;
        let Some(no) = self.switch else {
            return;
        };
        let Some((Body::Switch(switch), pool)) =
            self.processes.get_mut(no).and_then(|p| p.living.as_mut())
        else {
            return;
        };
        switch.finish(pool);
        let report = switch.report();
        let counts = switch.counts();
        let mut haste = HASTE.map(|what| (what.name(), counts.get(what)));
        if self.checker.keeps_packets {
            // A new owner says, too, what its source put out and was not let out yet.
            haste.iter_mut().take(SAID_TWICE).for_each(|(_, n)| *n = 0);
        }
        let goes_on = RESUMED.iter().any(|what| counts.get(*what) > 0);
        let own: u64 = report
            .drops
            .iter()
            .filter(|(reason, _)| !is_after_numbering(reason))
            .map(|(_, count)| count)
            .sum();
        let balance = (entered, numbered + own);
        if report.held > 0 {
            let text = format!("the switch still holds packets: {report:?}");
            self.checker.violated(Invariant::Conservation, None, text);
        }
        self.look_at_drops();
        if !goes_on {
            self.look_at_haste(&haste);
        }
        self.flush(no);
        self.check_report();
        if balance.0 != balance.1 {
            let text = format!(
                "{} packets entered the switch, {numbered} were numbered and {own} dropped",
                balance.0
            );
            self.checker.violated(Invariant::Conservation, None, text);
        }
        self.check_frames();
    }

    /// Every frame is back in its pool, and no engine met what cannot be.
    fn check_frames(&mut self) {
        for process in self.processes.iter() {
            let Some((body, pool)) = process.living.as_ref() else {
                continue;
            };
            let outstanding = match self.threads {
                Some(_) => 0,
                None => pool.outstanding(),
            };
            if let Body::Runtime(actors) = body
                && actors.engine().report().internal > 0
            {
                let text = format!("the engine of {} met what cannot be", process.name());
                self.checker.violated(Invariant::Panic, None, text);
            }
            if outstanding > 0 {
                let text = format!("{} keeps {outstanding} frames", process.name());
                self.checker.violated(Invariant::Conservation, None, text);
            }
        }
        if let Some(threads) = &self.threads {
            let pools = self.processes.iter().filter_map(|p| p.living.as_ref());
            let missing = threads.missing(pools.map(|(_, pool)| pool));
            if missing > 0 {
                let text = format!("{missing} frames are in no pool of the process");
                self.checker.violated(Invariant::Conservation, None, text);
            }
        }
        let outstanding = self.checker.reference.outstanding();
        if outstanding > 0 {
            let text = format!("the reference keeps {outstanding} frames");
            self.checker.violated(Invariant::Conservation, None, text);
        }
    }
}

/// The bytes at a place, as people read them.
fn around(state: &Option<Vec<u8>>, at: Option<usize>) -> String {
    let from = at.unwrap_or(0) & !7;
    let bytes = state.iter().flatten().skip(from).take(16);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}
