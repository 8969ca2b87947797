//! What the outside knows of the cluster: agents, the coordinator, and the
//! look at what is left to do.

use std::collections::BTreeSet;

use weir_protocol::journal::{Done, Start};
use weir_protocol::message::{CLAIMS, Claim, Message, MoveMode, Selection};
use weir_protocol::{Clock, Peer, RuntimeId, UnitId, View};

use super::links::ProcessNo;
use super::process::{Body, Process};
use super::{DRAIN, EXPIRE, Event, LOOK, Phase, World};
use crate::check::{Cluster, Invariant, show_unit, show_view};
use crate::fault::Fault;

/// The processes, as the checker sees them.
pub(super) struct Seen<'a>(pub(super) &'a [Process]);

impl Seen<'_> {
    fn of(&self, runtime: RuntimeId) -> Option<&Process> {
        let peer = Peer::Runtime(runtime);
        self.0.iter().find(|process| process.peer == peer)
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
}

impl World<'_> {
    /// True where the switch runs and has heard all claims.
    fn has_recovered(&mut self) -> bool {
        matches!(self.current_switch(), Some(Body::Switch(switch)) if !switch.is_recovering())
    }

    /// Kills a process: its memory is gone.
    pub(super) fn kill(&mut self, no: ProcessNo) {
        self.merge_counts(no);
        let now = self.now;
        let Some(process) = self.processes.get_mut(no) else {
            return;
        };
        process.end();
        process.died = Some(now);
        process.paused_until = None;
        process.inbox.clear();
        let name = process.name();
        self.say(None, || format!("{name} dies"));
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
        if let Some(process) = self.processes.get_mut(no) {
            if process.suspected {
                return;
            }
            process.suspected = true;
        }
        self.say(None, || format!("V is told that r{} is dead", id.0));
        if self.processes.get(no).is_some_and(|p| !p.is_alive()) {
            self.close_streams(no);
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
        let time = self.time();
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
        if self.start_switch().is_err() {
            self.count("switch_not_started");
            return;
        }
        let runtimes: Vec<(ProcessNo, RuntimeId, bool)> = self
            .processes
            .iter()
            .enumerate()
            .filter(|(_, p)| !p.suspected && (p.is_alive() || p.died.is_some() && !p.draining))
            .filter_map(|(no, p)| Some((no, p.runtime()?, p.draining)))
            .collect();
        let ids: Vec<RuntimeId> = runtimes.iter().map(|(_, id, _)| *id).collect();
        let generation = self.generation;
        self.say(None, || format!("V{generation} starts"));
        let time = self.time();
        if let Some(Body::Switch(switch)) = self.current_switch() {
            switch.recover(time, &ids);
            for (_, id, draining) in &runtimes {
                if *draining {
                    // A runtime that can't be drained is asked again later.
                    let _ = switch.drain(time, *id, MoveMode::Push);
                }
            }
        }
        self.forge_claim(&ids);
        self.recovering = true;
        self.taken = 0;
        self.numbered_before = self.checker.tally.numbered;
        self.turned_before = self.checker.tally.dispositions.get(2).copied().unwrap_or(0);
        self.after_switch();
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
            self.coordinator_says(Message::SetMigrationTarget {
                from,
                to,
                what: Selection::Number(number),
                mode: MoveMode::Push,
            });
        }
        let time = self.time();
        for no in useful {
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
        let mut live: BTreeSet<UnitId> = match self.current_switch() {
            Some(Body::Switch(switch)) => switch.live_units().collect(),
            _ => BTreeSet::new(),
        };
        for done in journal.iter().rev() {
            match *done {
                Done::Ended { unit } => live.insert(unit),
                Done::Opened {
                    unit,
                    from: Start::Nothing,
                    ..
                } => live.remove(&unit),
                _ => false,
            };
        }
        let live: Vec<UnitId> = live.into_iter().collect();
        self.checker.restart_is_over(&live, &Seen(&self.processes));
    }

    /// Looks after what is left to do.
    pub(super) fn look(&mut self) {
        if (self.now / LOOK).is_multiple_of(64) {
            self.check_report();
        }
        self.let_drained_leave();
        match self.phase {
            Phase::Busy if self.now >= self.plan.end => self.heal(),
            Phase::Draining => self.drain_phase(),
            Phase::Expiring => self.expiring_phase(),
            _ => {}
        }
        self.schedule(self.now + LOOK, Event::Look);
    }

    /// I1 at any time, by the switch's own report.
    fn check_report(&mut self) {
        let taken = self.taken;
        let Some(Body::Switch(switch)) = self.current_switch() else {
            return;
        };
        let report = switch.report();
        if !report.balances() || report.packets_in != taken {
            let text = format!("{taken} packets were taken, and the report is {report:?}");
            self.checker.violated(Invariant::Conservation, None, text);
        }
    }

    fn let_drained_leave(&mut self) {
        let time = self.time();
        for no in 0..self.processes.len() {
            let draining = self
                .processes
                .get(no)
                .is_some_and(|p| p.draining && p.is_alive() && !p.suspected);
            let Some(id) = self.runtime_id(no).filter(|_| draining) else {
                continue;
            };
            let Some(Body::Switch(switch)) = self.current_switch() else {
                return;
            };
            if switch.is_drained(id) {
                switch.leave(time, id);
                self.after_switch();
                self.say(None, || format!("r{} leaves", id.0));
                self.count("left");
                self.check_left(no);
                self.kill(no);
                self.close_streams(no);
                if let Some(process) = self.processes.get_mut(no) {
                    process.suspected = true;
                }
                if self.phase == Phase::Busy {
                    let later = self.random.below(10_000_000);
                    self.schedule(self.now + later, Event::Start);
                }
            }
        }
    }

    /// What a runtime that leaves still has in its hands.
    fn check_left(&mut self, no: ProcessNo) {
        let left = self.processes.get_mut(no).and_then(|p| p.living.as_mut());
        let Some((Body::Runtime(actors), pool)) = left else {
            return;
        };
        actors.finish(pool);
        let outstanding = pool.outstanding();
        if outstanding > 0 {
            let text = format!("a drained runtime leaves with {outstanding} frames");
            self.checker.violated(Invariant::Conservation, None, text);
        }
    }

    /// Faults and traffic are over.
    fn heal(&mut self) {
        self.say(None, || "faults and traffic are over".to_owned());
        self.phase = Phase::Draining;
        self.links.heal();
        for no in 0..self.processes.len() {
            let Some(process) = self.processes.get_mut(no) else {
                continue;
            };
            let zombie = process.suspected && process.is_alive();
            if process.paused_until.is_some() {
                process.paused_until = Some(self.now);
                self.schedule(self.now, Event::Resume(no));
            }
            if zombie {
                self.kill(no);
                self.close_streams(no);
            }
        }
        if self.switch.is_none() {
            self.schedule(self.now, Event::Restart);
        }
    }

    fn drain_phase(&mut self) {
        let unnoticed = self
            .processes
            .iter()
            .any(|p| !p.is_alive() && !p.suspected && p.runtime().is_some());
        let busy = unnoticed || !self.has_recovered() || self.recovering;
        let waiting = self.checker.waiting();
        if !busy && waiting.is_none() {
            self.compare_states();
            self.phase = Phase::Expiring;
        } else if self.now > self.plan.end + DRAIN {
            let (unit, text) = match waiting {
                Some((unit, text)) => (Some(unit), text),
                None => (None, "the switch does not recover".to_owned()),
            };
            self.checker.violated(Invariant::Stuck, unit, text);
        }
    }

    /// I6 at the end: the owners' states are those of the reference.
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
            let state = has.then(|| crate::check::comparable(bytes));
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

    fn expiring_phase(&mut self) {
        let Some(Body::Switch(switch)) = self.current_switch() else {
            return;
        };
        let liaison = UnitId(switch.classifier().liaison());
        let left = self
            .checker
            .units
            .iter()
            .find(|(id, unit)| **id != liaison && !unit.ended && !unit.lost)
            .map(|(id, unit)| (*id, unit.out));
        match left {
            None if self.checker.waiting().is_none() => {
                self.check_balance();
                self.phase = Phase::Over;
            }
            Some((unit, out)) if self.now > self.plan.end + DRAIN + EXPIRE => {
                let text = format!("unit {} does not end, after {out}", show_unit(unit));
                self.checker.violated(Invariant::Stuck, Some(unit), text);
            }
            _ => {}
        }
    }

    /// I1 at the end: what came in is accounted for, and every frame is back.
    fn check_balance(&mut self) {
        let turned = self.checker.tally.dispositions.get(2).copied().unwrap_or(0);
        let entered = self.taken + turned - self.turned_before;
        let numbered = self.checker.tally.numbered - self.numbered_before;
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
        // Those are of packets that were numbered.
        let after = ["functions", "lost", "owner_lost"];
        let before = report.drops.iter();
        let own: u64 = before
            .filter(|(reason, _)| !after.contains(&reason.as_str()))
            .map(|(_, count)| count)
            .sum();
        let balance = (entered, numbered + own);
        if !report.balances() || report.held > 0 || report.packets_in != self.taken {
            let text = format!("the switch's report does not balance: {report:?}");
            self.checker.violated(Invariant::Conservation, None, text);
        }
        self.flush(no);
        if balance.0 != balance.1 {
            let text = format!(
                "{} packets entered the switch, {numbered} were numbered and {own} dropped",
                balance.0
            );
            self.checker.violated(Invariant::Conservation, None, text);
        }
        for no in 0..self.processes.len() {
            let Some(process) = self.processes.get(no) else {
                continue;
            };
            let Some((_, pool)) = process.living.as_ref() else {
                continue;
            };
            let outstanding = pool.outstanding();
            if outstanding > 0 {
                let text = format!("{} keeps {outstanding} frames", process.name());
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

fn merge<K: weir_protocol::counts::Countable>(
    counts: &mut std::collections::BTreeMap<String, u64>,
    of: &str,
    what: K,
    count: u64,
) {
    *counts.entry(format!("{of}.{}", what.name())).or_default() += count;
}

/// The bytes at a place, as people read them.
fn around(state: &Option<Vec<u8>>, at: Option<usize>) -> String {
    let from = at.unwrap_or(0) & !7;
    let bytes = state.iter().flatten().skip(from).take(16);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

fn made_up_claim() -> Claim {
    Claim {
        unit: UnitId(1 << 40 | 1_001),
        view: View(1 << 32 | 7),
        owner: true,
        clock: Clock(3),
        key: None,
        flows: Vec::new(),
        aliases: Vec::new(),
    }
}
