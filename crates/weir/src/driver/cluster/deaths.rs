//! Runtimes that are over: as they were told to, or by a bug.

use std::time::{Duration, Instant};

use weir_ctl::command::{RuntimePlaceCounts, Site as PlaceSite};
use weir_ctl::events::What;
use weir_exec::ExecError;
use weir_packet::Time;
use weir_protocol::RuntimeId;
use weir_protocol::in_process::{BURST, FRAMES_ON_THE_WAY};
use weir_protocol::switch::Share;

use super::super::link::Lease;
use super::super::runtime_done::RuntimeDone;
use super::super::wiring::NO_CHAIN;
use super::Cluster;
use super::member::{Member, NO_MEMBER, Site, State};
use super::phase::Phase;
use super::stillness::{GAVE_WAY, STOOD_STILL};
use crate::say::say;

/// Frames that may be lost with runtimes that die: a quarter of those for packets under
/// way. No death should take any; a run that has lost so many ends before it stands still.
const MOST_LOST: u64 = FRAMES_ON_THE_WAY as u64;
/// Longest start of a process: it loads its chains and reserves memory.
pub(super) const START_PATIENCE: Duration = Duration::from_secs(60);
/// Longest time in which a runtime ends all its flows.
pub(super) const FINISH_PATIENCE: Duration = Duration::from_secs(15);

impl Cluster {
    /// Joins the runtimes that are over, those in `processes` at a price. One that has died takes the states of
    /// its units along; the run goes on with the others.
    pub(super) fn join_ended(&mut self, now: Time, processes: bool) -> Result<(), ExecError> {
        // Others may not have heard of a death yet. What they say to a place without a
        // runtime would fill its queues, and a run that ends waits for what waits there.
        for member in &mut self.members {
            if let Site::Thread {
                theirs: Some(theirs),
                ..
            } = &mut member.site
            {
                theirs.clear_unread();
            }
        }
        let mut result = Ok(());
        for (place, ended) in self.ended(now, processes) {
            // Each is over, whatever became of another.
            result = result.and(self.note_ended(place, ended, now));
        }
        result
    }

    /// Fails over from runtimes that have died before their processes have ended: the kernel
    /// takes a process's memory down first. [`Cluster::join_ended`] does the rest. This is
    /// polled; a thread that sleeps is woken by the process's end.
    pub(super) fn fail_over_early(&mut self, now: Time) {
        for place in 0..self.members.len() {
            let Some(member) = self.members.get_mut(place) else {
                continue;
            };
            let serves = member.serves();
            let Site::Process(home) = &mut member.site else {
                continue;
            };
            if !serves || !home.is_dying() {
                continue;
            }
            // A bug may have overwritten the word: a process that runs on must not stay.
            home.end_process();
            member.failed_over = true;
            // Ports take no packets in while some wait for room.
            member.give_back_waiting(&mut self.pool);
            self.await_recovery();
            self.hear_out(place, now);
            self.suspect(place, now);
        }
    }

    /// Silence in ns after which a runtime elsewhere and this switch suspect each other.
    pub(super) fn patience(&self) -> Option<u64> {
        let remote = self.settings.remote.as_ref();
        remote.map(|remote| remote.beats.0 * u64::from(remote.beats.1))
    }

    /// Goes on only as the run's switch, where several hosts have one: no packet of one that has
    /// lost its place leaves.
    ///
    /// # Errors
    ///
    /// Another one may have its place.
    pub(crate) fn keep_place(&self) -> Result<(), ExecError> {
        match self.lease() {
            Some(lease) => (lease.go_on()).map_err(|why| ExecError(format!("{GAVE_WAY}: {why}"))),
            None => Ok(()),
        }
    }

    /// Leaves place and runtimes to another switch, at once: this one must do nothing any more.
    pub(crate) fn leave_place(&self) {
        if let Some(lease) = self.lease() {
            lease.leave();
        }
    }

    fn lease(&self) -> Option<&Lease> {
        self.settings.remote.as_ref()?.lease.as_ref()
    }

    /// Ends a run whose runtimes have left it because it stood still: they have all states, and
    /// another switch can take them over, while this one would start others without.
    ///
    /// # Errors
    ///
    /// It is so.
    pub(super) fn give_way(&self, place: usize, now: Time) -> Result<(), ExecError> {
        let remote = self.settings.remote.as_ref();
        // Flows go on without a logger.
        let is_logger = self.members.get(place).is_some_and(|its| its.is_logger);
        let is_far = remote.is_some_and(|remote| remote.agent_of(place).is_some()) && !is_logger;
        let pause = self.patience().filter(|_| is_far);
        let pause = pause.and_then(|patience| self.still.lately(now, patience));
        match pause.map(Duration::from_nanos) {
            None => Ok(()),
            Some(pause) => Err(ExecError(format!(
                "{STOOD_STILL} for {:.1} s, and its runtimes wait for another one: start it again",
                pause.as_secs_f64()
            ))),
        }
    }

    /// Goes on without a runtime that has ended.
    ///
    /// # Errors
    ///
    /// The run can't go on without it.
    fn note_ended(
        &mut self,
        place: usize,
        ended: Result<RuntimeDone, ExecError>,
        now: Time,
    ) -> Result<(), ExecError> {
        let Some(member) = self.internal.expect(self.members.get_mut(place), NO_MEMBER) else {
            return Ok(());
        };
        let was_known = member.failed_over;
        let is_kept = std::mem::take(&mut member.kept);
        let before = match member.enter(State::Gone) {
            // It was to leave.
            State::Runs if is_kept => State::Drains,
            before => before,
        };
        let RuntimeId(id) = member.ends.id;
        // All that it has said counts, so that is heard before its ends of the edges are
        // cleared, whichever way it went.
        self.hear_out(place, now);
        let why = match (ended, before) {
            (Ok(end), State::Leaves) => {
                self.take_back(place);
                self.ends.push(end);
                self.tell(RuntimeId(id), What::RuntimeEnded);
                return Ok(());
            }
            (Err(why), State::Leaves) => {
                self.take_back(place);
                self.note_death(
                    place,
                    &why,
                    ("it was to finish, and what it had not told is lost", None),
                );
                return self.bound_losses(&why);
            }
            (Ok(_), _) => ExecError(format!("runtime {id} stopped by itself")),
            (Err(why), _) => why,
        };
        if self.phase == Phase::Runs && matches!(before, State::Runs | State::Drains) {
            self.give_way(place, now)?;
        }
        // One that did not start had nothing.
        if !was_known && matches!(before, State::Runs | State::Drains) {
            self.await_recovery();
        }
        self.fail_over(place, now);
        if self.phase == Phase::Starts && before == State::Starts {
            return Err(why);
        }
        self.plan_successor(place, before, &why);
        let goes_on = |its: &Member| !its.is_logger && (its.is_up() || its.is_to_come());
        // A switch that takes over has runtimes started when it knows who is left.
        if self.phase != Phase::TakesOver && !self.members.iter().any(goes_on) {
            return Err(why);
        }
        self.bound_losses(&why)
    }

    /// Ends a run that has lost too many frames with runtimes that died.
    fn bound_losses(&self, why: &ExecError) -> Result<(), ExecError> {
        if self.lost <= MOST_LOST {
            return Ok(());
        }
        let (why, lost) = (&why.0, self.lost);
        let why = format!("{why}; {lost} frames are lost with runtimes that died");
        Err(ExecError(why))
    }

    /// Ends processes that take too long to start or to finish.
    pub(super) fn kill_late(&mut self) {
        let now = Instant::now();
        for member in &mut self.members {
            let Some(why) = member.is_late(now) else {
                continue;
            };
            // Once is enough; a thread can't be ended.
            member.late_at = None;
            if let Some(home) = member.process() {
                home.kill(why);
            }
        }
    }

    /// Ids of runtimes that were told to finish, and have not.
    pub(crate) fn unfinished(&self) -> Vec<u32> {
        let members = self.members.iter();
        let leaves = members.filter(|member| member.state == State::Leaves);
        leaves.map(|member| member.ends.id.0).collect()
    }

    /// True where no runtime is left, and none will come.
    pub(crate) fn is_deserted(&self) -> bool {
        let gone = |member: &Member| match member.state {
            State::Absent => true,
            State::Gone => member.successor_at.is_none(),
            _ => false,
        };
        self.members.iter().all(|its| its.is_logger || gone(its))
    }

    /// The runtimes that have ended since the last call, by place, with their reports or why
    /// there is none.
    fn ended(
        &mut self,
        now: Time,
        processes: bool,
    ) -> Vec<(usize, Result<RuntimeDone, ExecError>)> {
        let mut all = Vec::new();
        for (number, ended) in self.team.join_each() {
            let is_its = |member: &Member| member.node() == Some(number);
            let place = self.members.iter().position(is_its);
            let Some(place) = self.internal.expect(place, "a node of no runtime") else {
                continue;
            };
            if let Some(Site::Thread { node, .. }) =
                self.members.get_mut(place).map(|m| &mut m.site)
            {
                *node = None;
            }
            all.push((place, ended));
        }
        if !processes {
            return all;
        }
        self.looked = now;
        for (place, member) in self.members.iter_mut().enumerate() {
            let Some(home) = member.process() else {
                continue;
            };
            if let Some(ended) = home.look() {
                all.push((place, ended));
            }
        }
        all
    }

    /// Places of runtimes, for who looks on.
    pub fn places(&self) -> Vec<RuntimePlaceCounts> {
        let places = (1..).zip(&self.members).filter_map(|(place, member)| {
            let id = member.ends.id;
            let share = |of: fn(&Share) -> u64| {
                let shares = self.chains.iter().map(|at| at.switch.share(id));
                shares.map(|share| of(&share)).sum()
            };
            Some(RuntimePlaceCounts {
                deaths: member.died,
                place,
                id: member.shown_id(self.members.len()).0,
                state: member.word()?,
                since: member.entered.elapsed(),
                site: self.site_of(place as usize - 1, member),
                is_logger: member.is_logger,
                owns: share(|share| share.owns),
                replicas: share(|share| share.replicas),
                unprotected: share(|share| share.unprotected),
            })
        });
        places.collect()
    }

    pub(super) fn site_of(&self, place: usize, member: &Member) -> PlaceSite {
        let remote = self.settings.remote.as_ref();
        match (&member.site, remote.and_then(|all| all.agent_of(place))) {
            (Site::Process(_), _) => PlaceSite::Process,
            (Site::Thread { .. }, Some(agent)) => PlaceSite::Agent(agent),
            (Site::Thread { .. }, None) => PlaceSite::Thread,
        }
    }

    /// Counts a death, or a start that has failed, and says when a successor is to start,
    /// where there is to be one.
    fn plan_successor(&mut self, place: usize, before: State, why: &ExecError) {
        let places = self.members.len();
        let Some(member) = self.internal.expect(self.members.get_mut(place), NO_MEMBER) else {
            return;
        };
        let up = member.since.take().map(|since| since.elapsed());
        let pause = member.deaths.failed(Instant::now(), up);
        let mut successor = None;
        let next = match pause {
            _ if !matches!(before, State::Runs | State::Starts) => {
                "none takes its place: it was to leave".to_owned()
            }
            Some(pause) => {
                member.successor_at = Some(Instant::now() + pause);
                let next = member.next_id(places).0;
                successor = Some(next);
                match pause.is_zero() {
                    true => format!("runtime {next} takes its place"),
                    false => {
                        let pause = pause.as_secs_f64();
                        format!("runtime {next} takes its place in {pause:.1} s")
                    }
                }
            }
            None => format!("none takes its place: one died there {}", member.deaths),
        };
        self.note_death(place, why, (&next, successor));
    }

    /// Counts a death, and says at once why it was and what comes of it.
    fn note_death(&mut self, place: usize, why: &ExecError, (then, next): (&str, Option<u32>)) {
        if let Some(member) = self.members.get_mut(place) {
            member.died += 1;
            // It has left another report, or none.
            member.late_at = None;
            self.ends.note_dead(member.ends.id);
        }
        let death = format!("{}; {then}", why.0);
        say(format_args!("warning: {death}"));
        if let Some(member) = self.members.get(place) {
            let why = death.clone();
            self.tell(member.ends.id, What::RuntimeDied { why, next });
        }
        self.deaths.push(death);
    }

    /// Starts the successors that are due, and with each those of the runtimes that shared
    /// its thread and died with it: they share one again.
    ///
    /// # Errors
    ///
    /// None runs, and none can be started any more.
    pub(super) fn start_successors(&mut self) -> Result<(), ExecError> {
        if self.phase == Phase::TakesOver {
            // The switch asks the survivors first.
            return Ok(());
        }
        let (now, spread) = (Instant::now(), &self.settings.spread);
        let is_due = |member: &Member| member.successor_at.is_some_and(|at| at <= now);
        let due = (0..).zip(&self.members).filter(|(_, its)| is_due(its));
        let threads: Vec<usize> = due.map(|(place, _)| spread.of(place).0).collect();
        if threads.is_empty() {
            return Ok(());
        }
        let places = self.members.len();
        let (mut placed, mut failed) = (Vec::new(), None);
        for place in 0..places {
            let Some(member) = self.internal.expect(self.members.get_mut(place), NO_MEMBER) else {
                continue;
            };
            let (thread, _) = self.settings.spread.of(place);
            if member.successor_at.is_none() || !threads.contains(&thread) {
                continue;
            }
            member.successor_at = None;
            let id = member.next_id(places);
            match self.place(id) {
                Ok(()) => placed.push(place),
                Err(why) => {
                    self.plan_successor(place, State::Starts, &why);
                    failed = Some(why);
                }
            }
        }
        if let Err(why) = self.start_placed() {
            // The others go on.
            for place in placed {
                let member = self.members.get(place);
                if member.is_some_and(|member| member.state == State::Gone) {
                    self.plan_successor(place, State::Starts, &why);
                }
            }
            failed = Some(why);
        }
        match failed {
            Some(why) if self.is_deserted() => Err(why),
            _ => Ok(()),
        }
    }

    /// Hears all that a runtime has said that is over: whoever has a state from it has
    /// applied packets behind those entries.
    pub(super) fn hear_out(&mut self, place: usize, now: Time) {
        while self.hear(place, now) || self.has_left_entries(place) {}
    }

    /// Has the switches go on without a runtime that has died, once it was heard out. Those
    /// that know it are told again, which changes nothing.
    fn fail_over(&mut self, place: usize, now: Time) {
        self.take_back(place);
        self.suspect(place, now);
    }

    /// Tells the switches that a runtime has died.
    pub(super) fn suspect(&mut self, place: usize, now: Time) {
        let member = self.internal.expect(self.members.get(place), NO_MEMBER);
        let Some(id) = member.map(|member| member.ends.id) else {
            return;
        };
        self.echo = None;
        for chain in 0..self.chains.len() {
            if let Some(at) = self.internal.expect(self.chains.get_mut(chain), NO_CHAIN) {
                at.switch.suspect(now, &mut self.pool, id);
            }
            self.send(chain, now);
        }
        self.tell_who_runs();
    }

    /// True where entries of a runtime wait on their way to the switch.
    fn has_left_entries(&self, place: usize) -> bool {
        let mut entries = self.members.get(place).into_iter();
        entries.any(|member| member.ends.entries.iter().any(|ring| !ring.is_empty()))
    }

    /// Takes back the frames of a runtime that is over: its own, those on edges that nobody
    /// reads any more, and an entry that its death has cut. Its ends of the edges are for a
    /// successor.
    pub(super) fn take_back(&mut self, place: usize) {
        let Some(member) = self.internal.expect(self.members.get_mut(place), NO_MEMBER) else {
            return;
        };
        match &mut member.site {
            Site::Thread { theirs, heir, .. } => {
                if let Some(mut left) = heir.take() {
                    self.pool.join(left.pool);
                    self.lost += left.lost;
                    if let Some(counted) = left.counted {
                        self.ends.push(*counted);
                    }
                    let mut unread = Vec::new();
                    for data in &mut left.ends.data {
                        while data.drain(BURST, &mut unread) > 0 {
                            self.pool.give_all(&mut unread);
                        }
                    }
                    left.ends.clear();
                    *theirs = Some(Box::new(left.ends));
                    left.handler.close();
                    if let Some(place) = self.handlers.get_mut(place) {
                        *place = Some(left.handler);
                    }
                }
            }
            Site::Process(home) => {
                if let Some(said) = home.take_said() {
                    self.ends.push(said);
                }
                member.ends.mend();
                if home.take_back(&mut self.pool).is_err() {
                    self.internal
                        .note("a ring of a runtime that has ended is damaged");
                }
            }
        }
        // Others that it has asked for never get to the switch.
        member.ends.gauge.set_ends(self.ends_asked.of(place));
        member.give_back_waiting(&mut self.pool);
        for partial in &mut member.partial {
            self.pool.give_all(partial);
        }
        drop(member.ends.outbox.clear());
    }
}
