//! What the actors say: entries and states, to the switch and to replicas.

use std::collections::BTreeMap;

use weir_packet::Time;

use super::{ActorCount, Actors};
use crate::ids::{Peer, RuntimeId, UnitId, View};
use crate::message::{EntryBatch, Message, StateUpdate};
use crate::plant::Plant;

impl Actors {
    pub(super) fn tell_switch(&mut self, message: Message) {
        let switch = Peer::Switch(self.generation);
        self.outbox.messages.push((switch, message));
    }

    pub(super) fn tell_runtime(&mut self, runtime: RuntimeId, message: Message) {
        self.outbox.messages.push((Peer::Runtime(runtime), message));
    }

    /// Notes whether a function changed its state of the unit since the last
    /// look; both who copies and who replicates want to know.
    pub(super) fn look_for_change(&mut self, unit: UnitId) {
        if self.engine.take_changed(unit.0)
            && let Some(cold) = self.cold.get_mut(&unit)
        {
            cold.live.changed = true;
            if let Some(copying) = &mut cold.copying {
                copying.dirty = true;
            }
        }
    }

    /// Sends the entries of a burst to the units' replicas, each unit's with
    /// its state after them.
    pub(super) fn replicate(&mut self, batches: BTreeMap<(RuntimeId, UnitId), EntryBatch>) {
        let mut of_replica: BTreeMap<RuntimeId, Vec<EntryBatch>> = BTreeMap::new();
        for ((replica, unit), mut batch) in batches {
            self.look_for_change(unit);
            let Some(cold) = self.cold.get_mut(&unit) else {
                continue;
            };
            let changed = core::mem::take(&mut cold.live.changed);
            batch.state = if changed || !self.engine.has_unit(unit.0) {
                self.counts.add(ActorCount::ReplicatedWhole);
                StateUpdate::Full(self.export(unit))
            } else {
                let mut touched = Vec::new();
                self.engine.export_touch(unit.0, &mut touched);
                StateUpdate::Touched(touched)
            };
            self.counts.add(ActorCount::Replicated);
            of_replica.entry(replica).or_default().push(batch);
        }
        for (replica, batches) in of_replica {
            self.tell_runtime(replica, Message::Entries(batches));
        }
    }

    /// The first word of a view, or the same once more: to the replica the
    /// whole state with all outputs that are kept, or the outputs to the
    /// switch. `held`: the switch is to hear that the view can be settled.
    pub(super) fn say(&mut self, now: Time, unit: UnitId, held: bool) {
        let Some(hot) = self.table.live(unit) else {
            return;
        };
        let mut batch = EntryBatch {
            unit,
            view: hot.view,
            clock: hot.clock,
            state: StateUpdate::Omitted,
            entries: Vec::new(),
        };
        let mut replica = None;
        if let Some(cold) = self.cold.get_mut(&unit) {
            cold.live.said = now;
            batch.entries = cold.live.kept.to_vec();
            replica = cold.live.replica;
            if self.settings.plant == Some(Plant::OwnerForgets) {
                cold.live.kept.clear();
            }
        }
        if let Some(replica) = replica {
            self.look_for_change(unit);
            batch.state = StateUpdate::Whole(self.export(unit));
            if let Some(cold) = self.cold.get_mut(&unit) {
                cold.live.changed = false;
            }
            self.counts.add(ActorCount::ReplicatedWhole);
            return self.tell_runtime(replica, Message::Entries(vec![batch]));
        }
        if !batch.entries.is_empty() {
            self.tell_switch(Message::Entries(vec![batch]));
        }
        if held {
            self.held(unit, hot.view);
        }
    }

    pub(super) fn held(&mut self, unit: UnitId, view: View) {
        self.counts.add(ActorCount::Held);
        self.tell_switch(Message::Held { unit, view });
    }

    /// The outputs of an actor that is kept as bytes, once more, the way they
    /// went before.
    pub(super) fn say_of_stored(&mut self, unit: UnitId, view: View) {
        let stored = self.cold.get(&unit).and_then(|c| c.stored.get(&view));
        let Some(stored) = stored else {
            return;
        };
        let mut batch = EntryBatch {
            unit,
            view,
            clock: stored.clock,
            state: StateUpdate::Omitted,
            entries: stored.kept.to_vec(),
        };
        match stored.peer {
            Some(replica) => {
                batch.state = StateUpdate::Whole(stored.state.clone());
                self.tell_runtime(replica, Message::Entries(vec![batch]));
            }
            None => self.tell_switch(Message::Entries(vec![batch])),
        }
    }
}
