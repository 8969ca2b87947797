//! Moves of flows between runtimes, and runtimes that come and go.

use weir_exec::ExecError;
use weir_protocol::message::{MoveMode, Selection};
use weir_protocol::switch::MoveError;
use weir_protocol::{RuntimeId, Switch};

use super::super::wiring::{NO_CHAIN, place_of};
use super::deaths::FINISH_PATIENCE;
use super::member::State;
use super::{Chain, Cluster};

impl Cluster {
    /// Moves what `what` selects of the units that `from` owns, in one chain
    /// or all; gives their number.
    ///
    /// # Errors
    ///
    /// See [`MoveError`]; in several chains, that of the last one where no
    /// unit of any could be moved.
    pub fn move_units(
        &mut self,
        chain: Option<usize>,
        (from, to): (RuntimeId, RuntimeId),
        what: &Selection,
        mode: MoveMode,
    ) -> Result<u32, MoveError> {
        let now = self.clock.now();
        let mut moved = Err(MoveError::Nothing);
        for number in 0..self.chains.len() {
            if chain.is_some_and(|only| only != number) {
                continue;
            }
            let Some(at) = self.internal.expect(self.chains.get_mut(number), NO_CHAIN) else {
                continue;
            };
            let asked = at.switch.move_units(now, Some(from), to, what, mode);
            moved = match (moved, asked) {
                (Ok(before), Ok(more)) => Ok(before + more),
                (Ok(before), Err(_)) => Ok(before),
                (Err(_), asked) => asked,
            };
            self.send(number, now);
        }
        moved
    }

    /// Gives all units of a runtime to the others.
    ///
    /// # Errors
    ///
    /// There is no such runtime, or none to take its units.
    pub fn drain(&mut self, runtime: RuntimeId, mode: MoveMode) -> Result<(), MoveError> {
        let now = self.clock.now();
        for chain in 0..self.chains.len() {
            if let Some(at) = self.internal.expect(self.chains.get_mut(chain), NO_CHAIN) {
                at.switch.drain(now, runtime, mode)?;
            }
            self.send(chain, now);
        }
        if let Some(member) = self.member(runtime) {
            member.enter(State::Drains);
        }
        self.tell_who_runs();
        Ok(())
    }

    /// Starts one more runtime, which joins as soon as its memory is reserved.
    ///
    /// # Errors
    ///
    /// There are as many as there may be, or no thread can be started.
    pub fn add(&mut self) -> Result<RuntimeId, ExecError> {
        let most = self.members.len();
        let next = self.members.iter().find_map(|member| member.free_for(most));
        let id = next.ok_or_else(|| ExecError(format!("there may be {most} runtimes")))?;
        self.place(id)?;
        self.start_placed()?;
        Ok(id)
    }

    /// Stops a drained runtime. False: it has units still; ask again later.
    pub fn remove(&mut self, runtime: RuntimeId) -> bool {
        let drained = |chain: &Chain| chain.switch.is_drained(runtime);
        if !self.chains.iter().all(drained) {
            return false;
        }
        let now = self.clock.now();
        for chain in 0..self.chains.len() {
            if let Some(at) = self.internal.expect(self.chains.get_mut(chain), NO_CHAIN) {
                at.switch.leave(now, runtime);
            }
            self.send(chain, now);
        }
        self.stop(runtime, FINISH_PATIENCE);
        true
    }

    /// Places of runtimes.
    pub(crate) fn most_runtimes(&self) -> usize {
        self.members.len()
    }

    /// Ids of the runtimes that run or start, and are not to leave, in the order of their places.
    pub(crate) fn serving(&self) -> Vec<RuntimeId> {
        let serving = self.members.iter().filter(|member| {
            let runs = member.state == State::Runs && !member.failed_over;
            runs || member.is_to_come()
        });
        serving.map(|member| member.ends.id).collect()
    }

    /// True where `runtime` gives its units away, and lives.
    pub(crate) fn drains(&self, runtime: RuntimeId) -> bool {
        let mut members = self.members.iter();
        members.any(|member| {
            member.ends.id == runtime && member.state == State::Drains && !member.failed_over
        })
    }

    /// True where `runtime` can own units.
    pub fn runs(&self, runtime: RuntimeId) -> bool {
        let mut members = self.members.iter();
        members.any(|member| member.ends.id == runtime && member.state == State::Runs)
    }

    /// True where `runtime` has died, or is over: it never runs again. A successor has another
    /// id.
    pub fn has_died(&self, runtime: RuntimeId) -> bool {
        let place = place_of(runtime, self.members.len());
        let member = self.members.get(place);
        member.is_some_and(|member| member.is_dead(runtime))
    }

    /// A number that differs once something has been let out, dropped or settled.
    pub(crate) fn progress(&self) -> [u64; 3] {
        let done = |switch: &Switch| {
            let report = switch.report();
            report.packets_out + report.drops.iter().map(|(_, n)| n).sum::<u64>()
        };
        let done = self.chains.iter().map(|chain| done(&chain.switch)).sum();
        [done, self.in_flight(), self.moves_under_way()]
    }

    /// Packets that are on their way.
    pub fn in_flight(&self) -> u64 {
        let chains = self.chains.iter();
        chains.map(|chain| chain.switch.in_flight()).sum()
    }

    /// Units that change their owner, or wait for it.
    pub fn moves_under_way(&self) -> u64 {
        let chains = self.chains.iter();
        chains.map(|chain| chain.switch.moves_under_way()).sum()
    }
}
