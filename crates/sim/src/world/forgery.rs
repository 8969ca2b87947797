//! Forgeries by somebody who knows what a process waits for: all is right but who says it,
//! or how far.

use weir_packet::Disposition;
use weir_protocol::journal::Start;
use weir_protocol::message::{Image, Message, StateUpdate};
use weir_protocol::settings::Replication;
use weir_protocol::{Clock, Peer, RuntimeId, UnitId};

use super::World;
use super::links::ProcessNo;
use super::steps::made_up_entries;
use crate::check::UnitRecord;
use crate::random::mix;

impl World<'_> {
    /// Something is said of a unit that would be believed of another; false where there is
    /// no such unit now.
    pub(super) fn forge_knowing(&mut self, number: u64) -> bool {
        let forge = match mix(number, 70) % 3 {
            0 => World::entries_of_another,
            1 => World::state_of_another,
            _ => World::entries_past_the_end,
        };
        let units = self.checker.units.iter();
        let mut units = units.filter(|(_, record)| record.is_live());
        let forged = units.find_map(|(unit, record)| forge(self, *unit, record));
        let Some((unit, to, from, message)) = forged else {
            return false;
        };
        self.hear_forged(to, Some(unit), from, message);
        true
    }

    /// A replica hears the next entry of its view from a runtime that is not its owner.
    fn entries_of_another(&self, unit: UnitId, record: &UnitRecord) -> Option<Forged> {
        let (view, replica) = (record.current.view, record.current.replica?);
        let to = self.process_of(Peer::Runtime(replica))?;
        let actors = self.processes.get(to)?.actors()?;
        let clock = actors.stored(unit, view)?.next();
        let mut message = made_up_entries(unit, view, clock, Disposition::Out);
        if let Message::Entries(batches) = &mut message {
            batches
                .iter_mut()
                .for_each(|batch| batch.state = StateUpdate::Full(None));
        }
        Some((unit, to, self.outsider(record)?, message))
    }

    /// The owner of a view that is not settled hears from a third that there is no state.
    fn state_of_another(&self, unit: UnitId, record: &UnitRecord) -> Option<Forged> {
        let (current, settled) = (record.current, record.settled?);
        let to = self.process_of(Peer::Runtime(current.owner))?;
        let clock = Clock(current.base);
        let image = Image {
            clock,
            state: None,
            since: clock,
            outputs: Vec::new(),
        };
        let message = Message::State {
            unit,
            old: settled.view,
            new: current.view,
            image,
        };
        let is_open = settled.view < current.view;
        is_open.then_some((unit, to, self.outsider(record)?, message))
    }

    /// The speaker of a view that was closed as planned goes on after its end.
    fn entries_past_the_end(&self, unit: UnitId, record: &UnitRecord) -> Option<Forged> {
        let (current, settled) = (record.current, record.settled?);
        let is_closed = settled.view < current.view && current.start == Start::Planned;
        let clock = Clock(record.out.max(current.base) + 1);
        let message = made_up_entries(unit, settled.view, clock, Disposition::Out);
        // Who sends a view's entries to the switch.
        let by_replica = self.plan.replication == Replication::EachBurst;
        let replica = settled.replica.filter(|_| by_replica);
        let speaker = replica.unwrap_or(settled.owner);
        let is_next = is_closed && clock.0 <= record.sent;
        is_next.then_some((unit, self.switch?, speaker, message))
    }

    /// A runtime that has nothing to do with the unit.
    pub(super) fn outsider(&self, record: &UnitRecord) -> Option<RuntimeId> {
        let holders = [Some(record.current), record.settled, record.before];
        let is_one = |id: RuntimeId| {
            let mut views = holders.iter().flatten();
            views.any(|view| view.owner == id || view.replica == Some(id))
        };
        let mut useful = self.useful().into_iter();
        useful.find_map(|no| self.runtime_id(no).filter(|id| !is_one(*id)))
    }
}

/// The unit, who hears it, who seems to say it, and what.
type Forged = (UnitId, ProcessNo, RuntimeId, Message);
