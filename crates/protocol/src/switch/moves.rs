//! Moves: asked for, queued, opened as the window allows.

use std::collections::VecDeque;

use weir_packet::{FramePool, Time};

use super::runtimes::{Slot, Standing};
use super::units::{ANY, REPLICA, mark};
use super::{MoveError, Switch, SwitchCount};
use crate::ids::{RuntimeId, UnitId, View};
use crate::message::{MoveMode, Selection};
use crate::plant::Plant;

/// How often a unit is tried elsewhere, and an owner asked for a snapshot,
/// before it is left as it is.
pub(super) const TRIES: u8 = 8;

/// The queue of moves; what is wanted is in the units' records.
#[derive(Debug, Default)]
pub(super) struct Moves {
    queue: VecDeque<UnitId>,
    /// Owners asked for an early snapshot that have not answered.
    pub(super) preparing: u32,
    /// How units of draining runtimes are moved.
    pub(super) drain_mode: MoveMode,
}

impl Moves {
    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Units in the queue; some may be over.
    pub(super) fn queue(&self) -> impl Iterator<Item = UnitId> + '_ {
        self.queue.iter().copied()
    }
}

/// The mode of a number in [`super::units::Unit::mode`].
pub(super) const fn mode_of(number: u8) -> MoveMode {
    match number {
        1 => MoveMode::Pull,
        2 => MoveMode::Reprocess,
        _ => MoveMode::Push,
    }
}

const fn number_of(mode: MoveMode) -> u8 {
    match mode {
        MoveMode::Push => 0,
        MoveMode::Pull => 1,
        MoveMode::Reprocess => 2,
    }
}

impl Switch {
    /// Moves what `what` selects of `from`'s units to `to`; gives the number
    /// of units. Views open as the window allows; a unit that waits for
    /// another move goes where it was asked to last.
    ///
    /// # Errors
    ///
    /// See [`MoveError`].
    pub fn move_units(
        &mut self,
        now: Time,
        from: Option<RuntimeId>,
        to: RuntimeId,
        what: &Selection,
        mode: MoveMode,
    ) -> Result<u32, MoveError> {
        let target = self.runtimes.find(to).ok_or(MoveError::UnknownTarget)?;
        if self.runtimes.is_draining(target) {
            return Err(MoveError::Draining);
        }
        if self.runtimes.is_logger(target) {
            return Err(MoveError::Logger);
        }
        if !self.runtimes.is_live(target) {
            return Err(MoveError::UnknownTarget);
        }
        let source = match from {
            Some(id) => {
                let slot = self.runtimes.find(id).ok_or(MoveError::UnknownSource)?;
                if !self.runtimes.is_here(slot) {
                    return Err(MoveError::UnknownSource);
                }
                slot
            }
            None => 0,
        };
        if source == target {
            if self.settings.plant == Some(crate::plant::Plant::NonsenseTaken) {
                return Ok(0);
            }
            return Err(MoveError::Same);
        }
        let places = self.select(source, target, what);
        if places.is_empty() {
            return Err(MoveError::Nothing);
        }
        for &place in &places {
            self.want(place, target, mode);
        }
        self.pump(now, None);
        Ok(places.len() as u32)
    }

    /// All units of `runtime` go elsewhere and no new ones come.
    ///
    /// # Errors
    ///
    /// There is no such runtime, or none to take its units.
    pub fn drain(
        &mut self,
        now: Time,
        runtime: RuntimeId,
        mode: MoveMode,
    ) -> Result<(), MoveError> {
        let slot = self
            .runtimes
            .find(runtime)
            .ok_or(MoveError::UnknownSource)?;
        if !self.runtimes.is_here(slot) {
            return Err(MoveError::UnknownSource);
        }
        // Another runtime takes its units, any member the copies of a logger.
        let is_logger = self.runtimes.is_logger(slot);
        let takes = |other| other != slot && (is_logger || !self.runtimes.is_logger(other));
        if !self.runtimes.keepers().any(takes) {
            return Err(MoveError::UnknownTarget);
        }
        self.moves.drain_mode = mode;
        self.runtimes.stand(slot, Standing::Draining);
        self.sweep.start(self.units.top());
        self.tell_cluster();
        self.pump(now, None);
        Ok(())
    }

    /// Takes a drain back: the runtime may own units again. Those that have gone stay where they
    /// are, and what is under way comes to its end. False, and nothing done, where it does not drain.
    pub fn keep(&mut self, now: Time, runtime: RuntimeId) -> bool {
        let slot = self.runtimes.find(runtime);
        let Some(slot) = slot.filter(|slot| self.runtimes.is_draining(*slot)) else {
            return false;
        };
        self.counts.add(SwitchCount::DrainTakenBack);
        if self.settings.plant == Some(Plant::KeptDrained) {
            return true;
        }
        self.runtimes.stand(slot, Standing::Live);
        // Units that have no owner, or no replica, may have it now.
        self.sweep.start(self.units.top());
        self.tell_cluster();
        self.pump(now, None);
        true
    }

    /// Notes where a unit is wanted.
    pub(super) fn want(&mut self, place: u32, target: Slot, mode: MoveMode) {
        let unit = self.units.at_mut(place);
        let before = core::mem::replace(&mut unit.wanted, target);
        unit.mode = number_of(mode);
        self.counts.add(if before == 0 {
            SwitchCount::MoveQueued
        } else {
            SwitchCount::MoveReplaced
        });
        self.stop_preparing(place);
        self.queue(place);
    }

    /// Puts a unit into the queue, once.
    pub(super) fn queue(&mut self, place: u32) {
        let unit = self.units.at_mut(place);
        if unit.marks & mark::QUEUED == 0 {
            unit.marks |= mark::QUEUED;
            let id = unit.id();
            self.moves.queue.push_back(id);
        }
    }

    /// True where one more view may be open.
    pub(super) fn window_is_open(&self) -> bool {
        self.pendings.unsettled + self.moves.preparing < self.settings.window.max(1)
    }

    /// True where a move may begin: what a failure needs goes before.
    pub(super) fn may_move(&self) -> bool {
        self.window_is_open() && !self.forgets.is_full() && self.has_views()
    }

    /// Opens what is wanted, as far as the window allows. Without a pool it
    /// stops at what needs one.
    pub(super) fn pump(&mut self, now: Time, mut pool: Option<&mut FramePool>) {
        while self.may_move() {
            let Some(&id) = self.moves.queue.front() else {
                return;
            };
            let place = id.slot();
            let unit = *self.units.at(place);
            if unit.wanted == REPLICA && unit.id() == id && pool.is_none() {
                return;
            }
            self.moves.queue.pop_front();
            if unit.id() != id {
                continue;
            }
            self.units.at_mut(place).marks &= !mark::QUEUED;
            let is_planted = self.settings.plant == Some(Plant::MoveForgotten);
            if unit.owner == 0 || is_planted && place % 3 == 0 {
                self.units.at_mut(place).wanted = 0;
            } else if unit.is_settled() && unit.wanted != 0 && !self.needs_view(place) {
                self.begin_wanted(now, place, pool.as_deref_mut());
            }
        }
    }

    fn begin_wanted(&mut self, now: Time, place: u32, pool: Option<&mut FramePool>) {
        let unit = *self.units.at(place);
        if unit.wanted == REPLICA {
            self.units.at_mut(place).wanted = 0;
            if let Some(pool) = pool
                && self.lacks_replica(&unit)
            {
                self.counts.add(SwitchCount::ReplicaChanged);
                let settled = (unit.view(), unit.owner, unit.replica);
                self.open_resumed(now, pool, place, unit.owner, settled);
            }
            return;
        }
        // The target may have gone itself; from a runtime that drains
        // it goes anyway.
        let lost = !self.runtimes.is_live(unit.wanted) && self.runtimes.is_draining(unit.owner);
        let target = if unit.wanted == ANY || lost {
            self.dispatch(unit.id, unit.owner).unwrap_or(0)
        } else {
            unit.wanted
        };
        if target == unit.owner || !self.runtimes.is_live(target) {
            self.units.at_mut(place).wanted = 0;
            self.counts.add(SwitchCount::MoveVoid);
            // The need of a replica had to stand back for the move.
            if self.lacks_replica(&unit) {
                self.want(place, REPLICA, MoveMode::Push);
            }
            return;
        }
        let mode = mode_of(unit.mode);
        if mode == MoveMode::Reprocess && !unit.has(mark::PREPARING) {
            let unit = self.units.at_mut(place);
            unit.wanted = target;
            unit.marks |= mark::PREPARING;
            unit.tries = 0;
            let (id, view) = (unit.id(), unit.view());
            self.moves.preparing += 1;
            self.counts.add(SwitchCount::Prepared);
            self.send_prepare(place);
            self.timers.views.push_back((now, id, view));
            return;
        }
        self.units.at_mut(place).wanted = 0;
        self.open_planned(now, place, target, mode);
    }

    /// An owner (or the coordinator) asks for a move.
    pub(super) fn move_asked(
        &mut self,
        now: Time,
        from: Option<Slot>,
        (id, view): (UnitId, View),
        to: RuntimeId,
        mode: MoveMode,
    ) {
        let Some(place) = self.units.find(id) else {
            self.counts.add(SwitchCount::MessageUnknownUnit);
            if let Some(slot) = from {
                self.disown(slot, id);
            }
            return;
        };
        let unit = *self.units.at(place);
        if unit.view() != view {
            self.counts.add(SwitchCount::MessageOldView);
            return;
        }
        if from.is_some_and(|slot| slot != unit.owner) {
            self.counts.add(SwitchCount::MessageNotOwner);
            return;
        }
        let target = self.runtimes.find(to).unwrap_or(0);
        let is_answer = unit.has(mark::PREPARING) && unit.wanted == target && from.is_some();
        if !self.runtimes.may_own(target) || target == unit.owner || unit.owner == 0 {
            self.counts.add(SwitchCount::MoveRefused);
            if is_answer {
                // The target went while the owner prepared: the move is void, and
                // what it held up goes on.
                self.want(place, target, mode);
                self.pump(now, None);
            }
            return;
        }
        if is_answer {
            self.stop_preparing(place);
            self.units.at_mut(place).wanted = 0;
            self.open_planned(now, place, target, mode);
            return;
        }
        self.want(place, target, mode);
        self.pump(now, None);
    }
}
