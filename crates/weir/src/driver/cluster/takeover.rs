//! The start of a switch that takes the runtimes of the one before over.
//!
//! They come first: the switch asks them for what they have, holds packets until all have
//! answered, and goes on from that (`weir_protocol::Switch::recover`). The other places get their
//! runtimes when that has begun, and no packet waits for those.

use weir_ctl::events::{About, What};
use weir_exec::ExecError;
use weir_protocol::RuntimeId;

use super::member::State;
use super::{Chain, Cluster};

/// What the switch's thread is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first runtimes start: the run does not begin without one of them.
    Starts,
    /// Links to runtimes of the switch before are made. No switch knows any of them yet.
    TakesOver,
    /// The run outlives deaths.
    Runs,
}

/// The id of the first runtime at a place, of so many, under a switch of this generation. Ids of
/// earlier switches are lower.
pub(super) fn first_id(generation: u16, place: u32, places: u32) -> RuntimeId {
    let before = u32::from(generation.saturating_sub(1)) << 16;
    let rounded = before.div_ceil(places.max(1)) * places.max(1);
    RuntimeId(rounded.saturating_add(place + 1))
}

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
        for place in 0..self.settings.runtimes as usize {
            let free = self.members.get(place);
            let free = free.filter(|member| member.state == State::Absent);
            if let Some(id) = free.map(|member| member.ends.id) {
                self.place(id)?;
            }
        }
        self.start_placed()
    }

    /// Has the switches ask the survivors that are there.
    fn recover(&mut self) {
        let here = self.members.iter().filter(|member| member.takes_units());
        let here: Vec<RuntimeId> = here.map(|member| member.ends.id).collect();
        let generation = self.found.generation;
        let runtimes = here.len();
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

#[cfg(test)]
mod tests {
    use super::super::super::wiring::place_of;
    use super::*;

    #[test]
    fn each_switch_has_ids_of_its_own() {
        for places in [1, 2, 3, 7, 64, 128] {
            let mut last = 0;
            for generation in 1..=9 {
                for place in 0..places {
                    let RuntimeId(id) = first_id(generation, place, places);
                    assert!(id > last, "{generation}, {place} of {places}");
                    assert_eq!(place_of(RuntimeId(id), places as usize), place as usize);
                    last = id;
                }
            }
        }
        assert_eq!(first_id(1, 0, 3), RuntimeId(1));
        // The last generation has room for its first ones.
        assert!(first_id(u16::MAX, 127, 128) < RuntimeId(u32::MAX));
    }
}
