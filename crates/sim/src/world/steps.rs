//! The steps of a plan, carried out.

use weir_packet::protocol::ip;
use weir_packet::{Disposition, LinkType, Side};
use weir_protocol::message::{
    Entry, EntryBatch, FlowSpace, Image, Message, MoveMode, Open, Origin, Part, Selection,
    StateUpdate,
};
use weir_protocol::{Clock, Peer, RuntimeId, UnitId, View};

use super::deliver::key_of;
use super::links::ProcessNo;
use super::process::{Body, Carried, Delivery, Process};
use super::{Event, MODES, World};
use crate::check::Invariant;
use crate::fault::Fault;
use crate::plan::{Step, What, Who};
use crate::random::mix;
use crate::traffic::ends;

/// Nanoseconds for which a step that can't be done now is put off, and how
/// often.
const LATER: u64 = 250_000;
const PUT_OFF: u32 = 400;
/// Times by which pauses of runtimes on one host are longer.
const LONGER: [u64; 3] = [1, 4, 40];

impl World<'_> {
    pub(super) fn step(&mut self, number: usize) {
        let Some((_, step)) = self.plan.steps.get(number).copied() else {
            return;
        };
        match step {
            Step::Move {
                from,
                to,
                what,
                mode,
                by_message,
            } => self.move_units(from, to, what, mode, by_message),
            Step::NonsenseMove { number } => self.nonsense(number),
            Step::Drain { who, mode } => self.drain(who, mode),
            Step::End { flow } => self.end_flow(number, flow),
            Step::Join => {
                if self.useful().len() < 6 && self.start_member(false).is_err() {
                    self.count("runtime_not_started");
                }
            }
            Step::Scale => self.scale(),
            Step::SetReplica { of, replica } => self.set_replica(of, replica),
            Step::Pause { who, time } => self.pause(who, time),
            Step::Crash {
                who,
                notice,
                restart,
            } => match self.victim(who) {
                Some(no) => self.crash_or_doom(no, notice, restart),
                None => self.put_off(number),
            },
            Step::HostLoss { host, notice } => match self.host_to_lose(host) {
                Some(lost) => {
                    self.count("hosts_lost");
                    self.lose_at_once(&lost, notice);
                }
                None => self.put_off(number),
            },
            Step::AllRuntimes { notice } => self.lose_all_runtimes(notice),
            // Only a switch suspects.
            Step::Suspect { who } => match self.switch.and_then(|_| self.victim(who)) {
                Some(no) => self.suspect(no),
                None => self.put_off(number),
            },
            Step::SwitchCrash { restart } => match self.switch_may_fail() {
                true => self.crash_switch(restart),
                false => self.put_off(number),
            },
            Step::Partition { one, other, time } => self.partition(one, other, time),
            Step::OneWay { from, to, time } => self.one_way(from, to, time),
            Step::Grey {
                one,
                other,
                by,
                time,
            } => self.grey(one, other, by, time),
            Step::CutOff { who, other, notice } => self.cut_off(who, other, notice),
            Step::ClockJump { who, by } => self.jump(who, by),
            Step::Depose { restart, ends } => match self.switch_may_fail() {
                true => self.depose(restart, ends),
                false => self.put_off(number),
            },
            Step::LossyBurst { time } => {
                let until = self.now + time;
                self.say(None, || "links lose most frames".to_owned());
                self.each_link(|links| links.burst(until));
            }
            Step::Forge { who, number } => self.forge(who, number),
        }
    }

    /// A runtime that may fail now, counted from `who`: no unit depends on it
    /// alone, unless two may fail at once.
    pub(super) fn victim(&self, who: u32) -> Option<ProcessNo> {
        let is_candidate = |p: &Process| p.is_alive() && !p.suspected && p.runtime().is_some();
        let candidates = self.processes.iter().enumerate();
        let candidates: Vec<ProcessNo> = candidates
            .filter(|(_, p)| is_candidate(p))
            .map(|(no, _)| no)
            .collect();
        let first = (who as usize).checked_rem(candidates.len())?;
        let mut all = candidates.iter().cycle().skip(first).take(candidates.len());
        all.find(|no| self.may_fail(**no)).copied()
    }

    /// True where a runtime may fail now.
    pub(super) fn may_fail(&self, no: ProcessNo) -> bool {
        let double = self.plan.faults.has(Fault::DoubleCrash);
        // Two are needed for a replica, three for another death.
        if self.useful().len() < if double { 2 } else { 3 } {
            return false;
        }
        double || self.can_lose(self.runtime_id(no).as_slice())
    }

    /// The runtimes of a host that may be lost now, counted from `host`: no unit
    /// depends on them alone, unless several may fail at once.
    fn host_to_lose(&self, host: u32) -> Option<Vec<ProcessNo>> {
        let double = self.plan.faults.has(Fault::DoubleCrash);
        let useful = self.useful();
        let hosts = self.plan.hosts;
        let on = |host: u32| {
            let all = self.processes.iter().enumerate();
            let there = all.filter(|(_, p)| p.is_alive() && p.runtime().is_some());
            let there = there.filter(|(_, p)| p.host() == Some(host));
            there.map(|(no, _)| no).collect::<Vec<ProcessNo>>()
        };
        (0..hosts)
            .map(|n| on(host.wrapping_add(n) % hosts))
            .find(|lost| {
                let left = useful.iter().filter(|no| !lost.contains(no)).count();
                let ids: Vec<RuntimeId> =
                    lost.iter().filter_map(|no| self.runtime_id(*no)).collect();
                let is_promised = || self.can_lose(&ids);
                !lost.is_empty() && left > 0 && (double || is_promised())
            })
    }

    /// All these die at once, and each is noticed in its time.
    fn lose_at_once(&mut self, lost: &[ProcessNo], notice: u64) {
        for &no in lost {
            let (notice, restart) = (
                self.random.below(notice.max(1)),
                self.random.below(20_000_000),
            );
            self.crash(no, notice, Some(restart));
        }
    }

    /// All runtimes die at once. What no logger has is lost.
    fn lose_all_runtimes(&mut self, notice: u64) {
        let lost = self.numbers_of(|p| p.is_alive() && p.runtime().is_some() && !p.is_logger);
        let ids: Vec<RuntimeId> = lost.iter().filter_map(|no| self.runtime_id(*no)).collect();
        self.count("all_runtimes_lost");
        self.more_than_promised(&ids);
        self.lose_at_once(&lost, notice);
    }

    /// True where the switch may fail now.
    fn switch_may_fail(&self) -> bool {
        self.switch.is_some() && self.can_lose(&[])
    }

    /// Comes back to a failure that would be more than is promised now.
    fn put_off(&mut self, number: usize) {
        let tries = self.tries.entry(number).or_default();
        *tries += 1;
        if *tries <= PUT_OFF && self.now + LATER < self.plan.end {
            self.schedule(self.now + LATER, Event::Step(number));
        } else {
            self.count("failures_skipped");
        }
    }

    fn who(&self, who: Who) -> Option<ProcessNo> {
        match who {
            Who::Switch => self.switch,
            Who::Runtime(number) => self.nth_keeper(number),
        }
    }

    fn selection(&self, what: What) -> Selection {
        match what {
            What::Number(number) => Selection::Number(number),
            What::Ports(low, high) => Selection::Space(FlowSpace {
                ports: vec![(low, high)],
                ..FlowSpace::default()
            }),
            What::Protocol(number) => Selection::Space(FlowSpace {
                protocols: vec![number],
                ..FlowSpace::default()
            }),
            What::Prefix(number) => Selection::Space(FlowSpace {
                prefixes: format!("10.0.0.{}/28", u32::from(number) * 16)
                    .parse()
                    .into_iter()
                    .collect(),
                ..FlowSpace::default()
            }),
            What::Flow(flow) => {
                let proto = if flow.is_multiple_of(2) {
                    ip::TCP
                } else {
                    ip::UDP
                };
                let key = key_of(&ends(self.plan.chain, flow), proto);
                Selection::Key(key)
            }
        }
    }

    fn move_units(
        &mut self,
        from: Option<u32>,
        to: u32,
        what: What,
        mode: MoveMode,
        by_message: bool,
    ) {
        let id = |n: u32| self.nth_useful(n).and_then(|no| self.runtime_id(no));
        let (from, Some(to)) = (from.and_then(id), id(to)) else {
            return;
        };
        let what = self.selection(what);
        let time = self.time();
        self.say(None, || {
            let from = from.map_or_else(|| "any".to_owned(), |f| format!("r{}", f.0));
            format!("move {what:?} from {from} to r{}, {mode:?}", to.0)
        });
        if !matches!(what, Selection::Key(_)) || by_message {
            self.checker.overtakes_moves(from, to);
        }
        if let Some(from) = from.filter(|_| by_message) {
            self.coordinator_says(Message::SetMigrationTarget {
                from,
                to,
                what,
                mode,
            });
            return;
        }
        let movable = self.checker.movable(from, to);
        if let Some(Body::Switch(switch)) = self.current_switch() {
            let unit = match &what {
                Selection::Key(key) => switch.classifier().unit_of(key),
                _ => None,
            };
            match switch.move_units(time, from, to, &what, mode) {
                Ok(units) => {
                    *self.world.entry("units_asked_to_move").or_default() += u64::from(units);
                    if units > movable {
                        let text = format!("a move takes {units} units of {movable}");
                        self.checker.violated(Invariant::Books, None, text);
                    }
                    if let Some(unit) = unit {
                        self.checker.move_asked(UnitId(unit), to);
                    }
                }
                Err(_) => self.count("moves_refused"),
            }
        }
        self.after_switch();
    }

    /// An operator asks for the end of a flow, until its unit's switch has numbered it.
    fn end_flow(&mut self, number: usize, flow: u32) {
        let ends = ends(self.plan.chain, flow);
        let keys = [ip::TCP, ip::UDP].map(|proto| key_of(&ends, proto));
        let time = self.time();
        let process = self.switch.and_then(|no| self.processes.get_mut(no));
        let mut taken_on = Vec::new();
        let mut again = process.is_none();
        if let Some((Body::Switch(switch), pool)) = process.and_then(|p| p.living.as_mut()) {
            for key in keys {
                let Some(unit) = switch.classifier().unit_of(&key).map(UnitId) else {
                    continue;
                };
                let before = self.checker.sent_of(unit);
                self.checker.end_asked(unit);
                match switch.end_flow(time, pool, unit, &key) {
                    true => taken_on.push((unit, before)),
                    false => again = true,
                }
            }
        }
        if !taken_on.is_empty() {
            self.count("ends_asked");
            self.say(None, || format!("flow {flow} is to end"));
        }
        if again && self.now + LATER < self.plan.end {
            self.schedule(self.now + LATER, Event::Step(number));
        }
        self.after_switch();
        for (unit, before) in taken_on {
            if let Some(before) = before {
                self.checker.end_taken_on(unit, before);
            }
        }
    }

    fn nonsense(&mut self, number: u32) {
        let some = self
            .nth_useful(number / 4)
            .and_then(|no| self.runtime_id(no));
        let gone = RuntimeId(4_000_000);
        let (Some(some), time) = (some, self.time()) else {
            return;
        };
        let draining = self
            .processes
            .iter()
            .find(|p| p.draining && p.is_alive() && !p.suspected)
            .and_then(|p| p.runtime());
        let Some(Body::Switch(switch)) = self.current_switch() else {
            return;
        };
        let all = &Selection::All;
        let refused = match (number % 4, draining) {
            (0, _) => switch.move_units(time, Some(some), gone, all, MoveMode::Push),
            (1, _) => switch.move_units(time, Some(gone), some, all, MoveMode::Push),
            (2, Some(draining)) => {
                switch.move_units(time, Some(some), draining, all, MoveMode::Push)
            }
            _ => switch.move_units(time, Some(some), some, all, MoveMode::Push),
        };
        if let Ok(units) = refused {
            let text = format!("a move that makes no sense is not refused: {units} units");
            self.checker.violated(Invariant::BadInput, None, text);
        }
        self.count("nonsense_refused");
        self.after_switch();
    }

    fn drain(&mut self, who: u32, mode: MoveMode) {
        if self.is_too_small_to_drain() || self.switch.is_none() {
            return;
        }
        let Some((no, id)) = self
            .nth_useful(who)
            .and_then(|no| Some((no, self.runtime_id(no)?)))
        else {
            return;
        };
        self.say(None, || format!("drain r{}, {mode:?}", id.0));
        self.drain_runtime((no, id), mode);
    }

    fn set_replica(&mut self, of: u32, replica: Option<u32>) {
        let id = |n: u32| self.nth_useful(n).and_then(|no| self.runtime_id(no));
        let Some(of) = id(of) else {
            return;
        };
        let replica = replica.and_then(|n| self.runtime_id(self.nth_keeper(n)?));
        let replica = replica.filter(|replica| *replica != of);
        self.coordinator_says(Message::SetReplica { of, replica });
    }

    fn pause(&mut self, who: Who, time: u64) {
        let Some(no) = self.who(who) else {
            return;
        };
        // On one host all repeat later than over links: some pauses are to be longer, and may
        // be so when the last packet has come.
        let (time, end) = match self.threads.is_some() {
            true => (LONGER[(time % 3) as usize] * time, u64::MAX),
            false => (time, self.plan.end),
        };
        let until = (self.now + time).min(end);
        let Some(process) = self.processes.get_mut(no) else {
            return;
        };
        if process.paused_until.is_some() {
            return;
        }
        process.paused_until = Some(until);
        process.wake_at = None;
        for other in &mut self.others {
            if let Some(process) = other.processes.get_mut(no) {
                process.paused_until = Some(until);
                process.wake_at = None;
            }
        }
        let name = process.name();
        self.say(None, || format!("{name} stops for {} us", time / 1_000));
        self.schedule(until, Event::Resume(no));
    }

    /// A runtime dies; on one host in the middle of its work, in one of two cases.
    fn crash_or_doom(&mut self, no: ProcessNo, notice: u64, restart: Option<u64>) {
        if !self.doom(no, notice, restart) {
            self.crash(no, notice, restart);
        }
    }

    pub(super) fn crash(&mut self, no: ProcessNo, notice: u64, restart: Option<u64>) {
        if self.switch.is_none() || self.recovering {
            self.count("failures_in_restarts");
        } else if self.checker.waiting().is_some() {
            self.count("failures_amid_views");
        }
        self.count("crashes");
        if self.processes.get(no).is_some_and(|p| p.is_logger) {
            self.count("loggers_crashed");
        }
        self.kill(no);
        self.schedule(self.now + notice, Event::Notice(no));
        // Two are needed for a replica, three for another death.
        let few = self.useful().len() < 3;
        if let Some(later) = restart.or_else(|| few.then_some(5_000_000)) {
            self.start_later(no, later);
        }
    }

    pub(super) fn suspect(&mut self, no: ProcessNo) {
        self.count("false_suspicions");
        let later = self.random.below(10_000_000);
        self.start_later(no, later);
        self.notice(no);
    }

    fn crash_switch(&mut self, restart: u64) {
        let Some(no) = self.switch.take() else {
            return;
        };
        self.others().for_each(|other| other.switch = None);
        self.count("switch_crashes");
        self.kill(no);
        self.close_streams(no);
        self.switch_is_gone();
        self.schedule(self.now + restart, Event::Restart);
    }

    fn partition(&mut self, one: Who, other: Who, time: u64) {
        let (Some(one), Some(other)) = (self.who(one), self.who(other)) else {
            return;
        };
        if one == other {
            return;
        }
        let until = (self.now + time).min(self.plan.end);
        self.each_link(|links| links.cut(one, other, until));
        self.say(None, || format!("processes {one} and {other} are cut off"));
    }

    fn one_way(&mut self, from: Who, to: Who, time: u64) {
        if let (Some(from), Some(to)) = (self.who(from), self.who(to)) {
            let until = (self.now + time).min(self.plan.end);
            self.each_link(|links| links.cut_one_way(from, to, until));
            self.count("one_way_cuts");
            self.say(None, || format!("nothing gets from {from} to {to}"));
        }
    }

    fn grey(&mut self, one: Who, other: Who, by: u64, time: u64) {
        if let (Some(one), Some(other)) = (self.who(one), self.who(other)) {
            let until = (self.now + time).min(self.plan.end);
            self.each_link(|links| links.slow(one, other, by, until));
            self.count("slow_links");
            self.say(None, || format!("processes {one} and {other} are slow"));
        }
    }

    /// A cut that lasts; the runtime is suspected for it.
    fn cut_off(&mut self, who: u32, other: Who, notice: u64) {
        let who = self.nth_keeper(who);
        if let (Some(who), Some(other)) = (who, self.who(other))
            && who != other
        {
            let end = self.plan.end;
            self.each_link(|links| links.cut(who, other, end));
            self.count("cut_off");
            self.say(None, || format!("processes {who} and {other} are cut off"));
            self.schedule(self.now + notice, Event::Distrust(who));
        }
    }

    fn jump(&mut self, who: Who, by: u64) {
        let Some(no) = self.who(who) else {
            return;
        };
        self.count("clock_jumps");
        self.say(None, || {
            format!("the clock of process {no} jumps {} us", by / 1_000)
        });
        self.set_clock(no, by);
    }

    fn set_clock(&mut self, no: ProcessNo, ahead: u64) {
        if let Some(process) = self.processes.get_mut(no) {
            process.skew += ahead;
        }
        self.flush(no);
        self.others().for_each(|other| other.set_clock(no, ahead));
    }

    /// Another switch takes this one's place, which does not know it yet.
    fn depose(&mut self, restart: u64, ends: u64) {
        let Some(no) = self.switch else {
            return;
        };
        self.count("switches_deposed");
        self.switch_is_gone();
        self.say(None, || "V is replaced, and goes on".to_owned());
        self.schedule(self.now + restart, Event::Restart);
        self.schedule(self.now + ends, Event::End(no));
    }

    /// Something arrives that no process that keeps the rules has sent.
    fn forge(&mut self, who: Who, number: u64) {
        let Some(to) = self.who(who) else {
            return;
        };
        if mix(number, 51).is_multiple_of(3) && self.forge_knowing(number) {
            return;
        }
        if !self.settings.plain_links && mix(number, 50).is_multiple_of(2) {
            return self.forge_wire(to, number);
        }
        let mut drawn = 0;
        let mut draw = |below: u64| {
            drawn += 1;
            mix(number, drawn) % below.max(1)
        };
        let units = self.checker.units.len() as u64;
        let Some((unit, record)) = self.checker.units.iter().nth(draw(units) as usize) else {
            return;
        };
        let (unit, view) = (*unit, record.current.view);
        let (out, sent) = (record.out, record.sent);
        // The runtime that speaks for the view at the gate.
        let speaker = record.current.replica.unwrap_or(record.current.owner);
        let outsider = self.outsider(record);
        let never = View(view.0 + 1_000_000);
        let from = match outsider {
            Some(id) if draw(3) > 0 => id,
            _ => RuntimeId(4_000_000),
        };
        let unit = if draw(5) == 0 {
            UnitId(mix(number, 99))
        } else {
            unit
        };
        if matches!(who, Who::Runtime(_)) && draw(6) == 0 {
            return self.forge_frame(to, unit, never, Clock(sent + 3));
        }
        if draw(4) == 0 {
            // The next state that travels is damaged, or of another stage.
            self.sabotage = Some(number);
            return;
        }
        let (from, forged) = match (who, draw(4)) {
            // A process that may say it says it wrongly.
            (Who::Switch, 0) => {
                let entries = if number.is_multiple_of(2) {
                    made_up_entries(unit, view, Clock(sent + 1), Disposition::Out)
                } else {
                    made_up_entries(unit, view, Clock(out + 1), Disposition::Emitted)
                };
                (speaker, entries)
            }
            // A unit that never was is to go on here.
            (Who::Runtime(_), 0) => {
                let open = Open {
                    unit: UnitId(1 << 40 | 1_000),
                    view,
                    old: View(view.0.saturating_sub(1)),
                    base: Clock(1),
                    out: Clock(1),
                    origin: Origin::Resumed { source: from },
                    replica: None,
                    every: 0,
                };
                return self.forge_open(to, open);
            }
            _ => (
                from,
                self.forged_message(who, (unit, view, never), (out, sent), from, number),
            ),
        };
        self.hear_forged(to, Some(unit), from, forged);
    }

    /// A process hears a message that `from` has not sent.
    pub(super) fn hear_forged(
        &mut self,
        to: ProcessNo,
        unit: Option<UnitId>,
        from: RuntimeId,
        forged: Message,
    ) {
        self.count("forged");
        self.say(unit, || format!("forged, from r{}: {forged:?}", from.0));
        let time = self.time();
        let Some(process) = self.processes.get_mut(to) else {
            return;
        };
        if process.paused_until.is_some() {
            return;
        }
        let from = Peer::Runtime(from);
        match process.living.as_mut() {
            Some((Body::Switch(switch), pool)) => switch.message(time, pool, from, forged),
            Some((Body::Runtime(actors), pool)) => actors.message(time, pool, from, forged),
            None => {}
        }
        self.flush(to);
    }

    /// The switch says something that it never would.
    fn forge_open(&mut self, to: ProcessNo, mut open: Open) {
        let time = self.time();
        let Some((id, switch)) = self.runtime_id(to).zip(
            self.switch
                .and_then(|no| self.processes.get(no))
                .map(|p| p.peer),
        ) else {
            return;
        };
        open.origin = Origin::Resumed { source: id };
        self.count("forged");
        if let Some((Body::Runtime(actors), pool)) =
            self.processes.get_mut(to).and_then(|p| p.living.as_mut())
        {
            actors.message(time, pool, switch, Message::Open(open));
        }
        self.flush(to);
    }

    /// A message that its sender must not send to this process.
    fn forged_message(
        &self,
        who: Who,
        (unit, view, never): (UnitId, View, View),
        (out, sent): (u64, u64),
        from: RuntimeId,
        number: u64,
    ) -> Message {
        let mut drawn = 60;
        let mut draw = |below: u64| {
            drawn += 1;
            mix(number, drawn) % below.max(1)
        };
        match (who, draw(10)) {
            (Who::Switch, 0 | 1) => made_up_entries(unit, view, Clock(out + 1), Disposition::Out),
            (Who::Switch, 2) => made_up_entries(unit, never, Clock(sent + 1), Disposition::Out),
            (Who::Switch, 3) => Message::Held { unit, view },
            (Who::Switch, 4) => Message::End {
                unit,
                view,
                clock: Clock(sent),
            },
            (Who::Switch, 5) => Message::Tick { unit, view },
            (Who::Switch, 6) => Message::Move {
                unit,
                view,
                to: from,
                mode: MODES[draw(3) as usize],
            },
            // An answer that is waited for is not to be told from the true one.
            (Who::Switch, 7) => Message::Claims {
                generation: self.generation + u16::from(self.is_recovering()),
                piece: 0,
                pieces: 1,
                claims: Vec::new(),
                suspected: Vec::new(),
            },
            (Who::Switch, 8) => Message::PollWorkload,
            (Who::Switch, _) => Message::Repeat {
                unit,
                view,
                after: Clock(u64::MAX),
            },
            (_, 0 | 1) => Message::State {
                unit,
                old: view,
                new: never,
                image: Image {
                    clock: Clock(sent),
                    state: Some(vec![0x5a; 40]),
                    since: Clock(sent),
                    outputs: Vec::new(),
                },
            },
            (_, 2) => Message::Pull {
                unit,
                old: never,
                new: View(never.0 + 1),
                at: Clock(sent),
            },
            (_, 3) => Message::Copied {
                unit,
                old: view,
                new: never,
                clock: Clock(sent),
                changed: Clock(sent),
                touched: vec![1, 2, 3],
                outputs: Vec::new(),
            },
            (_, 4) => Message::Held { unit, view },
            _ => Message::Copy {
                unit,
                old: never,
                clock: Clock(sent),
                after: Clock(out),
                packet: made_up_part(Disposition::Pending),
            },
        }
    }

    fn is_recovering(&self) -> bool {
        let switch = self.running_switch();
        switch.is_some_and(|switch| switch.is_recovering())
    }

    fn forge_frame(&mut self, to: ProcessNo, unit: UnitId, view: View, clock: Clock) {
        let carried = Carried {
            unit,
            view,
            clock,
            part: made_up_part(Disposition::Pending),
        };
        self.count("forged");
        if let Some(switch) = self.switch {
            self.arrive(to, switch, self.now, Delivery::Frames(vec![carried]));
        }
    }
}

fn made_up_part(disposition: Disposition) -> Part {
    Part {
        disposition,
        time: weir_packet::Time(1),
        sequence: 0,
        flags: 0,
        side: Side::Inside,
        port: 0,
        link: LinkType::Ethernet,
        dlt: 0,
        wire_len: 60,
        path: 0,
        bytes: vec![0x66; 60],
    }
}

pub(super) fn made_up_entries(
    unit: UnitId,
    view: View,
    clock: Clock,
    disposition: Disposition,
) -> Message {
    Message::Entries(vec![EntryBatch {
        unit,
        view,
        clock,
        state: StateUpdate::Omitted,
        entries: vec![Entry {
            clock,
            parts: vec![made_up_part(disposition)],
        }],
    }])
}
