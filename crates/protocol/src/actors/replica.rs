//! The replica's side: stores what an owner sends, then passes it on.

use weir_packet::{FramePool, Time};
use weir_runtime::Runtime;

use super::cold::{Keeper, Role, Stored};

use super::kept::Kept;
use super::table::UNSURE;
use super::{ActorCount, Actors, Place};
use crate::ids::{Clock, RuntimeId, UnitId, View};
use crate::message::{EntryBatch, Message, StateUpdate};
use crate::plant::Plant;

/// What has become of a batch.
enum Taken {
    /// It is stored; its outputs go on to the switch. True: the switch is also
    /// to hear that the view's state is held.
    Stored(bool),
    No(ActorCount),
}

impl Actors {
    /// Entries of an owner whose units' copies are kept here.
    pub(super) fn store(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        from: RuntimeId,
        batches: Vec<EntryBatch>,
    ) {
        let mut on: Vec<EntryBatch> = Vec::new();
        let mut held: Vec<(UnitId, View)> = Vec::new();
        for mut batch in batches {
            let (unit, view) = (batch.unit, batch.view);
            match self.store_batch(now, pool, from, &mut batch) {
                Taken::No(why) => self.counts.add(why),
                Taken::Stored(new) => {
                    self.counts.add(ActorCount::ReplicaStored);
                    if new {
                        held.push((unit, view));
                    }
                    if !batch.entries.is_empty() {
                        batch.state = StateUpdate::Omitted;
                        on.push(batch);
                    }
                }
            }
        }
        if !on.is_empty() {
            self.tell_switch(Message::Entries(on));
        }
        for (unit, view) in held {
            self.held(unit, view);
        }
    }

    fn store_batch(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        from: RuntimeId,
        batch: &mut EntryBatch,
    ) -> Taken {
        let (unit, view) = (batch.unit, batch.view);
        if view.generation() < self.generation {
            return Taken::No(ActorCount::EntriesFenced);
        }
        if !is_sound(batch) {
            return Taken::No(ActorCount::MessageRefused);
        }
        let plant = self.settings.plant;
        let mut place = self.whereabouts(unit, view);
        if place == Place::Live && self.is_astray(unit, batch) {
            self.drop_astray(unit);
            place = Place::Unknown;
        }
        let resumed = self.cold.get(&unit).map_or(View::NONE, |c| c.live.resumed);
        if place == Place::Stale && plant == Some(Plant::NoFence)
            || resumed == view && plant == Some(Plant::SharedActor)
        {
            return self.overwrite(batch);
        }
        match place {
            Place::Stale => Taken::No(ActorCount::EntriesFenced),
            Place::Stored => self.update(from, batch),
            Place::Unknown if self.claim(pool, unit, view) => {
                // Its first word was lost: with what follows it can't begin.
                let StateUpdate::Whole(state) = &mut batch.state else {
                    return Taken::No(ActorCount::EntriesGap);
                };
                let stored = Stored {
                    role: Role::Replica,
                    peer: Some(from),
                    clock: batch.clock,
                    state: state.take(),
                    kept: self.kept_of(batch),
                    said: now,
                };
                let cold = self.cold.entry(unit).or_default();
                cold.stored.insert(view, stored);
                self.counts.add(ActorCount::ReplicaBegun);
                Taken::Stored(true)
            }
            // A view that was opened here has its owner here.
            _ => Taken::No(ActorCount::MessageRefused),
        }
    }

    /// True where a packet that went astray has begun an actor here, of a view
    /// whose owner is another: it sends its state. What the switch has said is
    /// never doubted for a runtime's word.
    fn is_astray(&self, unit: UnitId, batch: &EntryBatch) -> bool {
        self.settings.keep_outputs
            && matches!(batch.state, StateUpdate::Whole(_))
            && self
                .table
                .live(unit)
                .is_some_and(|hot| hot.flags & UNSURE != 0)
    }

    /// Forgets the live actor that a packet which went astray has begun.
    pub(super) fn drop_astray(&mut self, unit: UnitId) {
        self.counts.add(ActorCount::Astray);
        self.engine.forget_unit(unit.0);
        self.cold.entry(unit).or_default().live = Keeper::default();
        self.unmake_live(unit, View::NONE);
    }

    fn kept_of(&self, batch: &EntryBatch) -> Kept {
        if self.settings.plant == Some(Plant::ReplicaForgets) {
            return Kept::default();
        }
        Kept::after(batch.entries.clone(), Clock::ZERO)
    }

    /// Brings a copy up to date: state, clock and outputs together, or nothing.
    fn update(&mut self, from: RuntimeId, batch: &mut EntryBatch) -> Taken {
        let kept = self.kept_of(batch);
        let stored = self.cold.get_mut(&batch.unit);
        let stored = stored.and_then(|cold| cold.stored.get_mut(&batch.view));
        let Some(stored) = stored.filter(|s| s.role == Role::Replica && s.peer == Some(from))
        else {
            return Taken::No(ActorCount::MessageRefused);
        };
        if batch.clock < stored.clock {
            return Taken::No(ActorCount::MessageStale);
        }
        let first = batch.entries.first().map_or(batch.clock, |e| e.clock);
        let again = batch.clock == stored.clock;
        match &mut batch.state {
            StateUpdate::Full(state) | StateUpdate::Whole(state) => {
                if !again && (first > stored.clock.next() || batch.entries.is_empty()) {
                    return Taken::No(ActorCount::EntriesGap);
                }
                stored.state = state.take();
            }
            StateUpdate::Touched(touched) => {
                if again || first != stored.clock.next() {
                    return Taken::No(ActorCount::EntriesGap);
                }
                if let Some(state) = &mut stored.state
                    && Runtime::touch_snapshot(state, touched).is_err()
                {
                    return Taken::No(ActorCount::EntriesGap);
                }
            }
            StateUpdate::Omitted => return Taken::No(ActorCount::MessageRefused),
        }
        stored.clock = batch.clock;
        for entry in kept.to_vec() {
            stored.kept.push(entry);
        }
        Taken::Stored(again)
    }

    /// What a replica without a fence would do: whatever comes goes into the
    /// newest actor that there is. For the planted bugs only.
    fn overwrite(&mut self, batch: &mut EntryBatch) -> Taken {
        let unit = batch.unit;
        let (StateUpdate::Full(Some(state)) | StateUpdate::Whole(Some(state))) = &batch.state
        else {
            return Taken::Stored(false);
        };
        if let Some(mut hot) = self.table.live(unit) {
            self.engine.forget_unit(unit.0);
            if self.engine.install_unit(unit.0, state).is_ok() {
                hot.clock = batch.clock;
                self.table.set(hot);
            }
            if let Some(cold) = self.cold.get_mut(&unit) {
                for entry in &batch.entries {
                    cold.live.kept.push(entry.clone());
                }
            }
        } else if let Some(cold) = self.cold.get_mut(&unit)
            && let Some(mut newest) = cold.stored.last_entry()
        {
            let stored = newest.get_mut();
            stored.clock = batch.clock;
            stored.state = Some(state.clone());
            for entry in &batch.entries {
                stored.kept.push(entry.clone());
            }
        }
        Taken::Stored(true)
    }

    /// The switch has let out what is up to `out`, whichever view it came by.
    pub(super) fn let_out(&mut self, unit: UnitId, out: Clock) {
        let Some(cold) = self.cold.get_mut(&unit) else {
            return;
        };
        let mut done = cold.live.kept.trim(out);
        if done > 0 {
            self.table.confirm(unit);
        }
        for stored in cold.stored.values_mut() {
            done += stored.kept.trim(out);
        }
        self.counts.add_many(ActorCount::OutputsDone, done);
        self.tidy(unit);
    }
}

/// True where the entries are of consecutive clocks and end at the batch's.
fn is_sound(batch: &EntryBatch) -> bool {
    let follow = |pair: &[crate::message::Entry]| match pair {
        [one, two] => one.clock.next() == two.clock,
        _ => true,
    };
    batch.entries.windows(2).all(follow)
        && batch.entries.last().is_none_or(|e| e.clock == batch.clock)
}
