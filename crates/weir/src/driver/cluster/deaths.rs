//! Runtimes that are over: as they were told to, or by a bug.

use weir_exec::{ExecError, frames};
use weir_packet::Time;

use super::Cluster;
use super::member::{Member, State};

impl Cluster {
    /// Joins the runtimes that are over. One that has died takes the states of
    /// its units along; the run goes on with the others.
    pub(super) fn join_ended(&mut self, now: Time) -> Result<(), ExecError> {
        for (node, ended) in self.team.join_each() {
            let is_its = |member: &Member| member.node == Some(node);
            let Some(place) = self.members.iter().position(is_its) else {
                continue;
            };
            let Some(member) = self.members.get_mut(place) else {
                continue;
            };
            member.node = None;
            let before = std::mem::replace(&mut member.state, State::Gone);
            let id = member.ends.id.0;
            let why = match ended {
                Ok(mut end) if before == State::Leaves => {
                    // Frames that were sent to it too late.
                    frames::empty(&mut self.pool, &mut end.pool);
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

    /// Has the switches go on without a runtime that has died.
    fn fail_over(&mut self, place: usize, now: Time) {
        let Some(member) = self.members.get_mut(place) else {
            return;
        };
        let id = member.ends.id;
        // Nobody reads them any more; frames in the rings are lost with it.
        for queue in &mut member.ends.data {
            queue.take_waiting().for_each(|frame| self.pool.give(frame));
        }
        member.ends.outbox.take_waiting().for_each(drop);
        self.echo = None;
        for chain in 0..self.chains.len() {
            if let Some(at) = self.chains.get_mut(chain) {
                at.switch.suspect(now, &mut self.pool, id);
            }
            self.send(chain, now);
        }
        self.tell_who_runs();
    }
}
