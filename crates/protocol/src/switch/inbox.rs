//! Messages, and who may say what.

use weir_packet::{FramePool, Time};

use super::runtimes::{Slot, Standing};
use super::{Switch, SwitchCount};
use crate::ids::{Clock, Peer, RuntimeId, UnitId, View};
use crate::message::{Message, MoveMode, Workload};
use crate::plant::Plant;

/// The rightful sender of a message about a unit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    /// The owner of its current view.
    ByOwner,
    /// The holder of the current view's state: its replica, if it has one.
    ByHolder,
}

impl Switch {
    /// A message.
    pub fn message(&mut self, now: Time, pool: &mut FramePool, from: Peer, message: Message) {
        match from {
            Peer::Runtime(id) => {
                let slot = self.runtimes.find(id).unwrap_or(0);
                if self.runtimes.is_here(slot) {
                    self.runtime_says(now, pool, slot, message);
                } else {
                    self.counts.add(SwitchCount::MessageFromStranger);
                }
            }
            Peer::Coordinator => self.coordinator_says(now, pool, message),
            Peer::Switch(_) => self.counts.add(SwitchCount::MessageMisdirected),
        }
        self.end_burst(now, pool);
    }

    fn runtime_says(&mut self, now: Time, pool: &mut FramePool, from: Slot, message: Message) {
        match message {
            Message::Entries(batches) => {
                for batch in &batches {
                    self.batch(now, pool, from, batch);
                }
            }
            Message::Held { unit, view } => {
                if let Some(place) = self.said(now, pool, from, (unit, view), Said::ByHolder) {
                    self.held(now, place);
                }
            }
            Message::Stored { unit, view, clock } => {
                if let Some(place) = self.said(now, pool, from, (unit, view), Said::ByHolder) {
                    self.stored(now, pool, place, clock);
                }
            }
            Message::Move {
                unit,
                view,
                to,
                mode,
            } => self.move_asked(now, Some(from), (unit, view), to, mode),
            Message::End { unit, view, clock } => {
                if let Some(place) = self.said(now, pool, from, (unit, view), Said::ByOwner) {
                    self.end_asked(now, pool, place, clock);
                }
            }
            Message::Tick { unit, view } => {
                if let Some(place) = self.said(now, pool, from, (unit, view), Said::ByOwner) {
                    self.tick_asked(now, pool, place);
                }
            }
            Message::Repeat { unit, view, after } => {
                let is_closing = self.units.find(unit).is_some_and(|place| {
                    let pending = self.pendings.get(self.units.at(place).pending);
                    pending.is_some_and(|p| p.planned && p.old == view && p.old_owner == from)
                });
                if is_closing {
                    self.repeat_asked(now, pool, unit.slot(), after);
                } else if let Some(place) = self.said(now, pool, from, (unit, view), Said::ByOwner)
                {
                    self.repeat_asked(now, pool, place, after);
                }
            }
            Message::Refuse { unit, view, why } => {
                if let Some(place) = self.said(now, pool, from, (unit, view), Said::ByOwner) {
                    self.refused(now, pool, place, why);
                }
            }
            Message::Forgotten { unit, below } => self.forgotten(from, unit, below),
            Message::Claims {
                generation,
                piece,
                pieces,
                claims,
                suspected,
            } => {
                if self.recovery.is_some() && generation == self.settings.generation {
                    self.suspected_before(now, pool, &suspected);
                }
                self.claimed(now, pool, from, generation, (piece, pieces), claims);
            }
            Message::LeaseWanted { pool } => self.lease_wanted(now, from, pool),
            Message::PortsDoubted { pool, doubts } => self.ports_doubted(from, pool, doubts),
            Message::LeaseGranted {
                pool,
                address,
                block,
            } => self.block_claimed(from, pool, address, block),
            Message::Workload(_) => {}
            _ => self.counts.add(SwitchCount::MessageMisdirected),
        }
    }

    /// The place of a unit about which `from` may speak in `view`.
    fn said(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        from: Slot,
        (unit, view): (UnitId, View),
        by: Said,
    ) -> Option<u32> {
        let Some(place) = self.units.find(unit) else {
            self.counts.add(SwitchCount::MessageUnknownUnit);
            self.disown(from, unit);
            return None;
        };
        if self.sweep.is_on() && self.needs_view(place) {
            self.react(now, pool, place);
        }
        let record = self.units.at(place);
        if record.view() != view || record.owner == 0 {
            self.counts.add(SwitchCount::MessageOldView);
            self.correct(from, unit, view);
            return None;
        }
        let speaker = match by {
            Said::ByOwner => record.owner,
            Said::ByHolder => record.holder(),
        };
        if speaker != from {
            self.counts.add(SwitchCount::MessageNotOwner);
            return None;
        }
        Some(place)
    }

    /// The state of the current view is held.
    fn held(&mut self, now: Time, place: u32) {
        let unit = self.units.at(place);
        if unit.is_settled() {
            return;
        }
        let out = unit.out;
        if let Some(pending) = self.pendings.get_mut(unit.pending)
            && pending.planned
            && !self.settings.acknowledge
            && self.settings.plant != Some(Plant::SettledBeforeOut)
            && out < pending.base.0
        {
            // The source has not kept what it put out: that must be here
            // before it may forget.
            pending.held = true;
            return;
        }
        self.counts.add(SwitchCount::SettledByHeld);
        self.settle(now, place);
    }

    /// The replica of the current view holds its state after `clock`.
    fn stored(&mut self, now: Time, pool: &mut FramePool, place: u32, clock: Clock) {
        let unit = *self.units.at(place);
        if clock.0 > unit.sent || self.every == 0 || unit.replica == 0 {
            return self.counts.add(SwitchCount::MessageMisdirected);
        }
        self.counts.add(SwitchCount::StateStored);
        let held = match self.settings.plant {
            Some(Plant::HeldTooEarly) => unit.out,
            _ => clock.0,
        };
        self.kept.state_held(place, held, pool);
        self.held(now, place);
        let (unit, view) = (unit.id(), unit.view());
        let owner = self.units.at(place).owner;
        self.tell(owner, Message::Stored { unit, view, clock });
    }

    fn coordinator_says(&mut self, now: Time, pool: &mut FramePool, message: Message) {
        match message {
            Message::PollWorkload => {
                let load = Workload {
                    packets: self.packets.taken,
                    drops: self.dropped_at_input(),
                    units: self.live_units().count() as u32,
                    busy: 0,
                };
                self.outbox
                    .messages
                    .push((Peer::Coordinator, Message::Workload(load)));
            }
            Message::NotifyClusterCfg { runtimes } => self.cluster(now, &runtimes),
            Message::SetMigrationTarget {
                from,
                to,
                what,
                mode,
            } => {
                if self.move_units(now, Some(from), to, &what, mode).is_err() {
                    self.counts.add(SwitchCount::MoveRefused);
                }
            }
            Message::Move {
                unit,
                view,
                to,
                mode,
            } => self.move_asked(now, None, (unit, view), to, mode),
            Message::SetReplica { of, replica } => self.set_replica(of, replica),
            Message::Suspect { runtime } => self.suspect(now, pool, runtime),
            _ => self.counts.add(SwitchCount::MessageMisdirected),
        }
    }

    /// Takes the list of runtimes that may own units: others give theirs away.
    fn cluster(&mut self, now: Time, runtimes: &[RuntimeId]) {
        for &runtime in runtimes {
            if self.runtimes.find(runtime).is_none() {
                self.join(now, runtime);
            }
        }
        let others: Vec<RuntimeId> = self
            .runtimes
            .usable
            .iter()
            .filter_map(|&slot| self.runtimes.id(slot))
            .filter(|id| !runtimes.contains(id))
            .collect();
        for runtime in others {
            if self.drain(now, runtime, MoveMode::Push).is_err() {
                // The last one keeps its units, but takes no new ones.
                let slot = self.runtimes.find(runtime).unwrap_or(0);
                self.runtimes.stand(slot, Standing::Draining);
            }
        }
    }
}
