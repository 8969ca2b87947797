//! Runtimes that are over: as they were told to, or by a bug.

use std::time::Instant;

use weir_ctl::command::RuntimePlaceCounts;
use weir_exec::ExecError;
use weir_packet::Time;
use weir_protocol::in_process::{BURST, FRAMES_ON_THE_WAY};

use super::super::runtime_done::RuntimeDone;
use super::super::wiring::NO_CHAIN;
use super::Cluster;
use super::member::{Member, NO_MEMBER, Site, State};

/// Frames that may be lost with runtimes that die: a quarter of those for packets under
/// way. No death should take any; a run that has lost so many ends before it stands still.
const MOST_LOST: u64 = FRAMES_ON_THE_WAY as u64;

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
        for (place, ended) in self.ended(now, processes) {
            let Some(member) = self.internal.expect(self.members.get_mut(place), NO_MEMBER) else {
                continue;
            };
            let before = std::mem::replace(&mut member.state, State::Gone);
            let id = member.ends.id.0;
            let why = match ended {
                Ok(end) if before == State::Leaves => {
                    self.take_back(place);
                    self.ends.push(end);
                    continue;
                }
                Ok(_) => ExecError(format!("runtime {id} stopped by itself")),
                Err(why) => why,
            };
            let has_others = self.members.iter().any(|m| m.state == State::Runs);
            let is_first = id as usize <= self.members.len();
            if !has_others || before == State::Starts && is_first {
                return Err(why);
            }
            self.fail_over(place, now);
            if self.lost > MOST_LOST {
                let lost = self.lost;
                let why = format!("{}; {lost} frames are lost with runtimes that died", why.0);
                return Err(ExecError(why));
            }
            self.plan_successor(place, before, &why);
        }
        Ok(())
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
            Some(RuntimePlaceCounts {
                deaths: member.died,
                place,
                id: member.ends.id.0,
                state: member.word()?,
            })
        });
        places.collect()
    }

    /// Counts a death, or a start that has failed, and says when a successor is to start,
    /// where there is to be one.
    fn plan_successor(&mut self, place: usize, before: State, why: &ExecError) {
        let places = self.members.len();
        let Some(member) = self.internal.expect(self.members.get_mut(place), NO_MEMBER) else {
            return;
        };
        member.died += 1;
        let up = member.since.take().map(|since| since.elapsed());
        let pause = member.deaths.failed(Instant::now(), up);
        let next = match pause {
            // One that was to leave is not missed.
            _ if !matches!(before, State::Runs | State::Starts) => String::new(),
            Some(pause) => {
                member.successor_at = Some(Instant::now() + pause);
                format!("; runtime {} takes its place", member.next_id(places).0)
            }
            None => format!("; none takes its place: one died there {}", member.deaths),
        };
        self.deaths.push(format!("{}{next}", why.0));
    }

    /// Starts the successors that are due, and with each those of the runtimes that shared
    /// its thread and died with it: they share one again.
    pub(super) fn start_successors(&mut self) {
        let (now, spread) = (Instant::now(), &self.settings.spread);
        let is_due = |member: &Member| member.successor_at.is_some_and(|at| at <= now);
        let due = (0..).zip(&self.members).filter(|(_, its)| is_due(its));
        let threads: Vec<usize> = due.map(|(place, _)| spread.of(place).0).collect();
        if threads.is_empty() {
            return;
        }
        let places = self.members.len();
        let mut placed = Vec::new();
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
                Err(_) => self.internal.note("a successor without queues"),
            }
        }
        let Err(why) = self.start_placed() else {
            return;
        };
        // The others go on.
        for place in placed {
            if self
                .members
                .get(place)
                .is_some_and(|m| m.state == State::Gone)
            {
                self.plan_successor(place, State::Starts, &why);
            }
        }
    }

    /// Has the switches go on without a runtime that has died. All that it has
    /// said counts, so that is heard first: whoever has a state from it has
    /// applied packets behind those entries.
    fn fail_over(&mut self, place: usize, now: Time) {
        while self.hear(place, now) || self.has_left_entries(place) {}
        self.take_back(place);
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
                    self.ends.extend(left.counted.map(|counted| *counted));
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
                self.ends.extend(home.take_said());
                if home.take_back(&mut self.pool).is_err() {
                    self.internal
                        .note("a ring of a runtime that has ended is damaged");
                }
                member.ends.inbox.forget();
            }
        }
        // Others that it has asked for never get to the switch.
        member.ends.gauge.set_ends(self.ends_asked.of(place));
        for queue in &mut member.ends.data {
            self.pool.give_all(&mut queue.take_waiting());
        }
        for partial in &mut member.partial {
            self.pool.give_all(partial);
        }
        drop(member.ends.outbox.clear());
    }
}
