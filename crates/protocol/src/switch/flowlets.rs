//! The switch's side of flowlets: it opens the views that [`crate::flowlets`] decides on, and has
//! states sent ahead of them.
//!
//! A flowlet that goes to another runtime is a planned view like any other. A copy ahead spares
//! the pull; whether it is the right one the new owner decides, by view and clock.

use weir_packet::Time;

use super::Switch;
use super::runtimes::Slot;
use super::units::mark;
use crate::flowlets::{FlowletCount, Flowlets};
use crate::ids::{Clock, RuntimeId};
use crate::message::{Message, MoveMode};
use crate::plant::Plant;
use crate::settings::Replication;

/// Units whose states are asked for in one call, at most: the others' turn comes with the next.
const ASKS: usize = 64;

impl Switch {
    /// A packet of a unit with an owner begins a flowlet: finds a runtime for it, and opens a view
    /// there if that is another one.
    #[cold]
    pub(super) fn begin_flowlet(&mut self, now: Time, place: u32) {
        let unit = *self.units.at(place);
        let is_free = unit.is_settled()
            && unit.wanted == 0
            && !unit.has(mark::PREPARING | mark::QUEUED | mark::LONG)
            && !self.sweep.is_unfinished()
            && self.runtimes.is_live(unit.owner)
            && self.may_move();
        let is_done = unit.out == unit.sent;
        let holds = is_done && self.settings.replication == Replication::EachBurst;
        let replica = if holds { unit.replica } else { 0 };
        let Some(flowlets) = &mut self.flowlets else {
            return;
        };
        let is_first = flowlets.is_first(place);
        flowlets.note(match (is_first, flowlets.is_after_gap(place, now)) {
            (true, _) => FlowletCount::First,
            (false, true) => FlowletCount::AfterGap,
            (false, false) => FlowletCount::AfterSize,
        });
        flowlets.end(place);
        if self.settings.plant == Some(Plant::PromiseStays) {
            flowlets.begin(place, now, unit.owner);
        }
        let usable = &self.runtimes.usable;
        let picked = match is_free && !is_first {
            true => flowlets.pick(place, usable, [unit.owner, replica]),
            false => None,
        };
        let Some(picked) = picked.filter(|picked| picked.slot != unit.owner) else {
            flowlets.note(match (is_first, is_free) {
                (false, false) => FlowletCount::Bound,
                _ => FlowletCount::Stayed,
            });
            flowlets.begin(place, now, unit.owner);
            return;
        };
        // What was not let out has to go with the state: a copy has no outputs.
        let is_ready = picked.has_state && is_done;
        if is_ready && flowlets.has_copy(place, picked.slot) {
            flowlets.note(FlowletCount::CopyUsed);
        }
        flowlets.note(match is_ready {
            true => FlowletCount::MovedReady,
            false => FlowletCount::MovedWaiting,
        });
        flowlets.begin(place, now, picked.slot);
        let mode = match is_ready {
            true => MoveMode::Pull,
            false => MoveMode::Push,
        };
        self.open_planned(now, place, picked.slot, mode);
    }

    /// The runtime for a unit's first flowlet, or for one whose runtime goes.
    pub(super) fn dispatch_by_load(&mut self, place: u32, not: Slot) -> Option<Slot> {
        let flowlets = self.flowlets.as_mut()?;
        let usable = &self.runtimes.usable;
        let picked = if usable.contains(&not) && usable.len() > 1 {
            let others: Vec<Slot> = usable.iter().copied().filter(|slot| *slot != not).collect();
            flowlets.pick(place, &others, [0, 0])
        } else {
            flowlets.pick(place, usable, [0, 0])
        };
        picked.map(|picked| picked.slot)
    }

    /// Has the states of quiet units sent to runtimes that are likely to get their next flowlets.
    #[inline]
    pub(super) fn send_states_ahead(&mut self, now: Time) {
        let next = self.flowlets.as_ref().and_then(Flowlets::next_look);
        if next.is_some_and(|at| at <= now) {
            self.look_at_quiet(now);
        }
    }

    fn look_at_quiet(&mut self, now: Time) {
        for _ in 0..ASKS {
            let Some(flowlets) = &mut self.flowlets else {
                return;
            };
            let Some(place) = flowlets.due(now) else {
                return;
            };
            let unit = *self.units.at(place);
            let is_done = unit.is_settled() && unit.out == unit.sent && unit.wanted == 0;
            if unit.id == 0 || unit.has(mark::LONG) || self.recovery.is_some() {
                continue;
            }
            if !is_done {
                flowlets.not_yet(place, now);
                continue;
            }
            let replica = match self.settings.replication {
                Replication::EachBurst => unit.replica,
                _ => 0,
            };
            let holders = [unit.owner, replica];
            let likely = flowlets.likely(place, &self.runtimes.usable, holders);
            let likely = likely.iter().take_while(|slot| **slot != 0);
            let to: Vec<RuntimeId> = likely.filter_map(|&slot| self.runtimes.id(slot)).collect();
            if to.is_empty() {
                continue;
            }
            let ahead = Message::SendAhead {
                unit: unit.id(),
                view: unit.view(),
                clock: Clock(unit.sent),
                to,
            };
            self.tell(unit.owner, ahead);
        }
    }

    /// Another unit has a place now, or nobody.
    pub(super) fn forget_flowlet(&mut self, place: u32) {
        if let Some(flowlets) = &mut self.flowlets {
            flowlets.forget(place);
        }
    }

    /// Flowlets, where units are given out by them.
    pub fn flowlets(&self) -> Option<&Flowlets> {
        self.flowlets.as_ref()
    }

    /// Where units are given out by flowlet: bytes per second of all runtimes and what they can
    /// do, whether one more is to be started, and those that have nothing to do, the last first.
    pub fn flowlet_need(&mut self, now: Time) -> Option<((u64, u64), bool, Vec<RuntimeId>)> {
        let flowlets = self.flowlets.as_mut()?;
        flowlets.advance(now);
        let usable = &self.runtimes.usable;
        let idle = usable.iter().rev().take(flowlets.idle(usable));
        let idle = idle.filter_map(|&slot| self.runtimes.id(slot)).collect();
        let more = flowlets.wants_more(usable);
        Some((flowlets.fullness(usable), more, idle))
    }

    /// Loads of runtimes that may be given flowlets, in bytes per second.
    pub fn loads(&self) -> Vec<(RuntimeId, u64)> {
        let Some(flowlets) = &self.flowlets else {
            return Vec::new();
        };
        let usable = self.runtimes.usable.iter();
        let loads = usable.map(|&slot| Some((self.runtimes.id(slot)?, flowlets.load(slot))));
        loads.flatten().collect()
    }
}
