//! The start of a switch that takes the runtimes of the one before over.
//!
//! They come first: the switch asks them for what they have, holds packets until all have
//! answered, and goes on from that (`weir_protocol::Switch::recover`). The other places get their
//! runtimes when that has begun, and no packet waits for those.

use weir_ctl::events::{About, What};
use weir_exec::ExecError;
use weir_protocol::RuntimeId;

use super::member::State;
use super::phase::Phase;
use super::{Chain, Cluster};

impl Cluster {
    /// Takes the survivors over, and has runtimes started at the other places.
    ///
    /// # Errors
    ///
    /// A thread that can't be started or pinned.
    pub(super) fn take_over(&mut self) -> Result<(), ExecError> {
        self.phase = Phase::TakesOver;
        for survivor in self.found.survivors.clone() {
            self.place(survivor.id)?;
        }
        self.start_placed()?;
        let (mut out, mut events) = (Vec::new(), Vec::new());
        while self.members.iter().any(|its| its.state == State::Starts) {
            self.step(&mut out, &mut events, true)?;
        }
        self.phase = Phase::Runs;
        self.recover();
        for id in self.at_start() {
            self.place(id)?;
        }
        self.start_placed()
    }

    /// Has the switches ask the survivors that are there.
    fn recover(&mut self) {
        let here = self.members.iter().filter(|member| member.is_ready());
        let here: Vec<RuntimeId> = here.map(|member| member.ends.id).collect();
        let generation = self.found.generation;
        for id in &here {
            self.introduce(*id);
        }
        let runtimes = self.running().len();
        let what = What::TookOver {
            generation,
            runtimes,
        };
        self.settings.happened.note(About::Cluster, what);
        self.await_recovery();
        let now = self.clock.now();
        for Chain { switch, .. } in &mut self.chains {
            switch.recover(now, &here);
        }
        for id in here {
            self.set_host(id);
        }
        for chain in 0..self.chains.len() {
            self.send(chain, now);
        }
        self.tell_who_runs();
    }
}
