//! Runtimes that are over: as they were told to, or by a bug.

use weir_exec::{ExecError, frames};
use weir_packet::Time;

use super::super::wiring::NO_CHAIN;
use super::Cluster;
use super::member::{Member, NO_MEMBER, State};

impl Cluster {
    /// Joins the runtimes that are over. One that has died takes the states of
    /// its units along; the run goes on with the others.
    pub(super) fn join_ended(&mut self, now: Time) -> Result<(), ExecError> {
        for (node, ended) in self.team.join_each() {
            let is_its = |member: &Member| member.node == Some(node);
            let Some(place) = self.members.iter().position(is_its) else {
                continue;
            };
            let Some(member) = self.internal.expect(self.members.get_mut(place), NO_MEMBER) else {
                continue;
            };
            member.node = None;
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
            if !has_others || before == State::Starts {
                return Err(why);
            }
            self.fail_over(place, now);
            self.deaths.push(why.0);
        }
        Ok(())
    }

    /// Has the switches go on without a runtime that has died. All that it has
    /// said counts, so that is heard first: whoever has a state from it has
    /// applied packets behind those entries.
    fn fail_over(&mut self, place: usize, now: Time) {
        while self.has_left_words(place) {
            self.hear(place, now);
        }
        self.take_back(place);
        let Some(id) = self.members.get(place).map(|member| member.ends.id) else {
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

    /// True where something of a runtime waits in its queues to the switch.
    fn has_left_words(&self, place: usize) -> bool {
        self.members.get(place).is_some_and(|member| {
            let ends = &member.ends;
            !ends.inbox.is_empty() || ends.entries.iter().any(|ring| !ring.is_empty())
        })
    }

    /// Takes back the frames of a runtime that is over: its own, those in queues
    /// that nobody reads any more, and an entry that its death has cut.
    fn take_back(&mut self, place: usize) {
        let Some(member) = self.members.get_mut(place) else {
            return;
        };
        if let Some(left) = member.ends.gauge.take_left() {
            self.pool.join(left.pool);
            for mut unread in left.data {
                frames::take_in(&mut self.pool, &mut unread);
            }
        }
        for queue in &mut member.ends.data {
            queue.take_waiting().for_each(|frame| self.pool.give(frame));
        }
        for partial in &mut member.partial {
            self.pool.give_all(partial);
        }
        member.ends.outbox.take_waiting().for_each(drop);
    }
}
