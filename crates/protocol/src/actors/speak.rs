//! Messages of the actors: entries and states, to the switch and to replicas.

use std::collections::BTreeMap;

use weir_packet::Time;
use weir_runtime::Runtime;

use super::cold::Basis;
use super::compare::digest;
use super::pieces::cut;
use super::table::SILENT;
use super::{ActorCount, Actors};
use crate::delta;
use crate::entry::bundles;
use crate::ids::{Clock, Peer, RuntimeId, UnitId, View};
use crate::message::{Entry, EntryBatch, Message, Refusal, StateUpdate};
use crate::plant::Plant;

/// A whole state is sent after so many that were sent as changes: what a fault of memory
/// made of a copy does not last.
const CHANGES: u16 = 256;

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
                self.internal.note("entries of a unit that keeps none");
                continue;
            };
            let changed = core::mem::take(&mut cold.live.changed);
            batch.state = if changed || !self.engine.has_unit(unit.0) {
                let Some(state) = self.exported(unit, batch.view) else {
                    continue;
                };
                self.changes_or_all(unit, batch.clock, state)
            } else {
                let mut touched = Vec::new();
                self.engine.export_touch(unit.0, &mut touched);
                self.touch_basis(unit, batch.clock, &touched);
                self.count_octets(touched.len());
                StateUpdate::Touched(touched)
            };
            self.counts.add(ActorCount::Replicated);
            let mut pieces = cut(core::mem::take(&mut batch.entries), self.settings.longest);
            batch.entries = pieces.pop().unwrap_or_default();
            self.send_ahead(replica, (unit, batch.view), pieces);
            of_replica.entry(replica).or_default().push(batch);
        }
        for (replica, batches) in of_replica {
            for batches in bundles(batches, self.settings.longest) {
                self.tell_runtime(replica, Message::Entries(batches));
            }
        }
    }

    /// The state after `clock` as changes of the one that was sent last, where that
    /// is shorter.
    fn changes_or_all(
        &mut self,
        unit: UnitId,
        clock: Clock,
        state: Option<Vec<u8>>,
    ) -> StateUpdate {
        let Some(cold) = self.cold.get_mut(&unit) else {
            self.internal.note("entries of a unit that keeps none");
            return StateUpdate::Full(state);
        };
        let basis = core::mem::take(&mut cold.live.basis);
        let basis = basis.filter(|basis| basis.changes < CHANGES);
        let length = state.as_ref().map_or(0, Vec::len);
        let changes = basis.zip(state.as_ref()).and_then(|(basis, after)| {
            let changes = delta::between(&basis.state, after)?;
            Some((basis, changes))
        });
        cold.live.basis = state.clone().map(|state| Basis {
            clock,
            state,
            changes: changes.as_ref().map_or(0, |(basis, _)| basis.changes + 1),
        });
        let Some((basis, changes)) = changes else {
            self.counts.add(ActorCount::ReplicatedWhole);
            self.count_octets(length);
            return StateUpdate::Full(state);
        };
        let octets = delta::octets(&changes);
        self.counts.add(ActorCount::ReplicatedDelta);
        self.count_octets(octets);
        let spared = length.saturating_sub(octets);
        self.counts
            .add_many(ActorCount::ReplicaOctetsSpared, spared as u64);
        StateUpdate::Delta {
            from: basis.clock,
            changes,
        }
    }

    fn count_octets(&mut self, octets: usize) {
        self.counts
            .add_many(ActorCount::ReplicaOctets, octets as u64);
    }

    /// The replica's copy is touched: what the next state is compared with, too.
    fn touch_basis(&mut self, unit: UnitId, clock: Clock, touched: &[u8]) {
        let Some(cold) = self.cold.get_mut(&unit) else {
            return self.internal.note("entries of a unit that keeps none");
        };
        cold.live.basis = cold.live.basis.take().and_then(|mut basis| {
            basis.clock = clock;
            let is_done = Runtime::touch_snapshot(&mut basis.state, touched).is_ok();
            is_done.then_some(basis)
        });
    }

    /// The unit's state for its replica. One that is too long for a message is
    /// none: the switch is asked for a view without a replica.
    fn exported(&mut self, unit: UnitId, view: View) -> Option<Option<Vec<u8>>> {
        let state = self.export(unit);
        if state.as_ref().is_none_or(|s| s.len() <= self.settings.most) {
            return Some(state);
        }
        self.counts.add(ActorCount::StateTooLong);
        let why = Refusal::TooLong;
        self.tell_switch(Message::Refuse { unit, view, why });
        None
    }

    /// The first word of a view, or the same once more: the outputs that are kept
    /// to the switch, unless the replica passes them on; and to a replica the whole
    /// state. `held`: the switch is to hear that the view can be settled.
    pub(super) fn say(&mut self, now: Time, unit: UnitId, held: bool) {
        let Some(hot) = self.table.live(unit) else {
            return;
        };
        self.unsample(unit);
        let Some(cold) = self.cold.get_mut(&unit) else {
            if held {
                self.held(unit, hot.view);
            }
            return;
        };
        cold.live.said = now;
        let (replica, passes_on) = (cold.live.replica, cold.live.passes_on());
        if passes_on.is_none() {
            let (entries, _) = cold
                .live
                .kept
                .after_clock(Clock::ZERO, self.settings.at_once);
            if self.settings.plant == Some(Plant::OwnerForgets) {
                cold.live.kept.clear();
            }
            self.tell_outputs((unit, hot.view), entries);
        }
        if passes_on.is_some() && !held && self.settings.plant == Some(Plant::GapUnfilled) {
            return;
        }
        match replica {
            Some(_) if held || passes_on.is_some() => self.send_state(now, unit),
            // A state whose packets are to be applied again is not held yet.
            None if held && hot.flags & SILENT == 0 => self.held(unit, hot.view),
            _ => {}
        }
    }

    /// Sends the replica the whole state with all outputs that are kept.
    pub(super) fn send_state(&mut self, now: Time, unit: UnitId) {
        let (at_once, longest) = (self.settings.at_once, self.settings.longest);
        // The word of it takes one way more than an entry's.
        let wait = self.wait().saturating_mul(2);
        let longest_wait = self.settings.repeat_within.1.max(wait);
        let (Some(hot), Some(cold)) = (self.table.live(unit), self.cold.get_mut(&unit)) else {
            return self
                .internal
                .note("a state is sent of a unit that is not here");
        };
        let Some(replica) = cold.live.replica else {
            return self.internal.note("a state is sent to no replica");
        };
        let since = cold.live.kept.since(hot.clock);
        let portion = cold.live.kept.portion(cold.live.cursor, at_once, longest);
        cold.live.cursor = portion.cursor;
        if self.settings.plant == Some(Plant::OwnerForgets) {
            cold.live.kept.clear();
        }
        let every = cold.live.every;
        if every > 0 {
            let doubled = wait.saturating_mul(1 << cold.live.again.min(32));
            let due = now.plus(doubled.min(longest_wait));
            cold.live.due = Some(due);
            self.arm(unit, due);
        }
        self.look_for_change(unit);
        let state = match portion.last.is_some() {
            true => self.exported(unit, hot.view),
            false => None,
        };
        self.send_ahead(replica, (unit, hot.view), portion.ahead);
        let (Some(entries), Some(state)) = (portion.last, state) else {
            return;
        };
        if let Some(cold) = self.cold.get_mut(&unit) {
            cold.live.changed = false;
            cold.live.told = hot.clock;
            // With each burst the basis says it.
            let told = state.as_deref().filter(|_| every > 0);
            cold.live.told_digest = told.map(|state| (digest(state), state.len()));
            let basis = state.clone().filter(|_| every == 0);
            cold.live.basis = basis.map(|state| Basis {
                clock: hot.clock,
                state,
                changes: 0,
            });
        }
        self.counts.add(ActorCount::ReplicatedWhole);
        self.count_octets(state.as_ref().map_or(0, Vec::len));
        let batch = EntryBatch {
            unit,
            view: hot.view,
            clock: hot.clock,
            state: match every {
                0 => whole(state, since, &entries),
                _ => StateUpdate::Apart { since, state },
            },
            entries,
        };
        self.tell_runtime(replica, Message::Entries(vec![batch]));
    }

    pub(super) fn held(&mut self, unit: UnitId, view: View) {
        self.counts.add(ActorCount::Held);
        self.tell_switch(Message::Held { unit, view });
    }

    /// The outputs of an actor that is kept as bytes, once more, the way they
    /// went before.
    pub(super) fn say_of_stored(&mut self, unit: UnitId, view: View) {
        let (at_once, longest) = (self.settings.at_once, self.settings.longest);
        let stored = self
            .cold
            .get_mut(&unit)
            .and_then(|c| c.stored.get_mut(&view));
        let Some(stored) = stored else {
            return self.internal.note("a stored actor that is not there");
        };
        let Some(replica) = stored.peer else {
            let (entries, _) = stored.kept.after_clock(Clock::ZERO, at_once);
            return self.tell_outputs((unit, view), entries);
        };
        let since = stored.kept.since(stored.clock);
        let portion = stored.for_replica(at_once, longest);
        let batch = portion.last.map(|entries| EntryBatch {
            unit,
            view,
            clock: stored.clock,
            state: whole(stored.state.clone(), since, &entries),
            entries,
        });
        self.send_ahead(replica, (unit, view), portion.ahead);
        if let Some(batch) = batch {
            self.tell_runtime(replica, Message::Entries(vec![batch]));
        }
    }

    /// Outputs to the switch, which takes them in any portion.
    fn tell_outputs(&mut self, (unit, view): (UnitId, View), entries: Vec<Entry>) {
        for entries in cut(entries, self.settings.longest) {
            let Some(last) = entries.last() else {
                continue;
            };
            let batch = EntryBatch {
                unit,
                view,
                clock: last.clock,
                state: StateUpdate::Omitted,
                entries,
            };
            self.tell_switch(Message::Entries(vec![batch]));
        }
    }

    /// A replica's entries to the switch: the state stays here.
    pub(super) fn tell_entries(&mut self, batches: Vec<EntryBatch>) {
        let mut short = Vec::new();
        for batch in batches {
            let (unit, view) = (batch.unit, batch.view);
            for entries in cut(batch.entries, self.settings.longest) {
                let clock = entries.last().map_or(batch.clock, |last| last.clock);
                short.push(EntryBatch {
                    unit,
                    view,
                    clock,
                    state: StateUpdate::Omitted,
                    entries,
                });
            }
        }
        for batches in bundles(short, self.settings.longest) {
            self.tell_switch(Message::Entries(batches));
        }
    }
}

/// A whole state, of whose entries some may have gone ahead.
fn whole(state: Option<Vec<u8>>, since: Clock, entries: &[Entry]) -> StateUpdate {
    match entries.first() {
        Some(first) if first.clock > since.next() => StateUpdate::Rest { since, state },
        _ => StateUpdate::Whole(state),
    }
}
