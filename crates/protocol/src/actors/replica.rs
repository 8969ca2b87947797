//! The replica's side: stores what an owner sends, then passes it on.

use weir_packet::{FramePool, Time};
use weir_runtime::Runtime;

use super::cold::{Cursors, Role, Stored};
use super::kept::Kept;
use super::table::UNSURE;
use super::{ActorCount, Actors, Place};
use crate::delta;
use crate::ids::{Clock, RuntimeId, UnitId, View};
use crate::message::{Change, Entry, EntryBatch, StateUpdate};
use crate::plant::Plant;

/// The result for a batch.
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
        let mut told: Vec<(UnitId, View)> = Vec::new();
        for mut batch in batches {
            let (unit, view) = (batch.unit, batch.view);
            let is_apart = matches!(batch.state, StateUpdate::Apart { .. });
            match self.store_batch(now, pool, from, &mut batch) {
                Taken::No(why) => self.counts.add(why),
                Taken::Stored(_) if is_apart => {
                    self.counts.add(ActorCount::ReplicaStored);
                    told.push((unit, view));
                }
                Taken::Stored(new) => {
                    self.counts.add(ActorCount::ReplicaStored);
                    if new {
                        held.push((unit, view));
                    }
                    if let StateUpdate::Rest { .. } = batch.state {
                        batch.entries = self.outputs_of_copy(unit, view);
                    }
                    if !batch.entries.is_empty() {
                        batch.state = StateUpdate::Omitted;
                        on.push(batch);
                    }
                }
            }
        }
        self.tell_entries(on);
        for (unit, view) in held {
            self.held(unit, view);
        }
        for (unit, view) in told {
            self.tell_stored(unit, view);
        }
    }

    /// The outputs of a copy that the switch may miss: what one repetition says.
    /// A batch lacks the outputs that went ahead.
    fn outputs_of_copy(&self, unit: UnitId, view: View) -> Vec<Entry> {
        let stored = self.cold.get(&unit).and_then(|c| c.stored.get(&view));
        let outputs = stored.map(|s| s.kept.after_clock(Clock::ZERO, self.settings.at_once).0);
        outputs.unwrap_or_default()
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
            Place::Stored if plant == Some(Plant::PassedOnUnstored) => Taken::Stored(true),
            Place::Stored => self.update(from, batch),
            Place::Unknown if self.claim(pool, unit, view) => {
                // Its first word was lost: with what follows it can't begin.
                let since = match &batch.state {
                    StateUpdate::Whole(_) => batch_since(batch),
                    StateUpdate::Rest { since, .. } | StateUpdate::Apart { since, .. } => *since,
                    _ => return Taken::No(ActorCount::EntriesGap),
                };
                if !self.join_staged(from, batch, since) {
                    return Taken::No(ActorCount::OutputsMissing);
                }
                let (StateUpdate::Whole(state)
                | StateUpdate::Rest { state, .. }
                | StateUpdate::Apart { state, .. }) = &mut batch.state
                else {
                    return Taken::No(ActorCount::EntriesGap);
                };
                let stored = Stored {
                    role: Role::Replica,
                    peer: Some(from),
                    clock: batch.clock,
                    state: state.take(),
                    kept: self.kept_of(batch),
                    said: now,
                    cursors: Cursors::default(),
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
    /// whose owner is another: it sends its state. The switch's word is
    /// never doubted for a runtime's.
    fn is_astray(&self, unit: UnitId, batch: &EntryBatch) -> bool {
        self.settings.keep_outputs
            && matches!(
                batch.state,
                StateUpdate::Whole(_) | StateUpdate::Rest { .. } | StateUpdate::Apart { .. }
            )
            && self
                .table
                .live(unit)
                .is_some_and(|hot| hot.flags & UNSURE != 0)
    }

    /// Forgets the live actor that a packet which went astray has begun.
    pub(super) fn drop_astray(&mut self, unit: UnitId) {
        self.counts.add(ActorCount::Astray);
        self.engine.forget_unit(unit.0);
        let live = &mut self.cold.entry(unit).or_default().live;
        let astray = core::mem::take(live).kept;
        self.unmake_live(unit, View::NONE);
        self.doubt_ports(unit, &[astray], |_| true);
    }

    fn kept_of(&self, batch: &EntryBatch) -> Kept {
        if self.settings.plant == Some(Plant::ReplicaForgets) {
            return Kept::default();
        }
        Kept::after(batch.entries.clone(), Clock::ZERO)
    }

    /// Puts the entries after `since` that came ahead of a batch before its own;
    /// false where some are missing.
    fn join_staged(&mut self, from: RuntimeId, batch: &mut EntryBatch, since: Clock) -> bool {
        let of = (batch.unit, batch.view);
        let joined = self.joined(from, of, (since, batch.clock), &batch.entries);
        let Some(entries) = joined else {
            return false;
        };
        batch.entries = entries;
        self.unstage(batch.unit);
        true
    }

    /// The clock of the copy that `from` feeds, where there is one.
    fn copied_to(&self, from: RuntimeId, unit: UnitId, view: View) -> Option<Clock> {
        let stored = self.cold.get(&unit)?.stored.get(&view)?;
        let is_its = stored.peer == Some(from) || self.settings.plant == Some(Plant::SenderUnseen);
        (stored.role == Role::Replica && is_its).then_some(stored.clock)
    }

    /// Brings a copy up to date: state, clock and outputs together, or nothing.
    fn update(&mut self, from: RuntimeId, batch: &mut EntryBatch) -> Taken {
        let apart = match &batch.state {
            StateUpdate::Apart { since, .. } => Some(*since),
            _ => None,
        };
        let Some(clock) = self.copied_to(from, batch.unit, batch.view) else {
            return Taken::No(ActorCount::MessageRefused);
        };
        if clock < batch.clock
            && (apart.is_some() || !batch.entries.is_empty())
            && !self.join_staged(from, batch, apart.unwrap_or(clock))
        {
            return Taken::No(ActorCount::EntriesGap);
        }
        let (kept, older) = (self.kept_of(batch), self.older_state(batch));
        let cold = self.cold.get_mut(&batch.unit);
        let Some(stored) = cold.and_then(|cold| cold.stored.get_mut(&batch.view)) else {
            return Taken::No(ActorCount::MessageRefused);
        };
        if batch.clock < stored.clock {
            return Taken::No(ActorCount::MessageStale);
        }
        let first = batch.entries.first().map_or(batch.clock, |e| e.clock);
        let again = batch.clock == stored.clock;
        match &mut batch.state {
            StateUpdate::Full(state)
            | StateUpdate::Whole(state)
            | StateUpdate::Rest { state, .. } => {
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
            StateUpdate::Delta { from, changes } => {
                if let Some(older) = older {
                    stored.state = older;
                }
                let follows = !again && first == stored.clock.next() && *from == stored.clock;
                let state = stored.state.as_mut().filter(|_| follows);
                leave_one_out(self.settings.plant, changes);
                if !state.is_some_and(|state| delta::apply(state, changes)) {
                    return Taken::No(ActorCount::EntriesGap);
                }
            }
            // Entries missing before its own were let out.
            StateUpdate::Apart { since, state } => {
                if self.settings.plant != Some(Plant::ApartUntrimmed) {
                    stored.kept.trim(*since);
                }
                stored.state = state.take();
            }
            StateUpdate::Omitted => return Taken::No(ActorCount::MessageRefused),
        }
        stored.clock = batch.clock;
        for entry in kept.to_vec() {
            stored.kept.push(entry);
        }
        let whole = stored.kept.is_gapless();
        self.internal.check(whole, "outputs of a copy are missing");
        Taken::Stored(again)
    }

    /// The state of another view that a planted bug takes for this one's.
    fn older_state(&self, batch: &EntryBatch) -> Option<Option<Vec<u8>>> {
        if self.settings.plant != Some(Plant::DeltaOnAnyBase) {
            return None;
        }
        let mut older = self.cold.get(&batch.unit)?.stored.range(..batch.view);
        older.next().map(|(_, older)| older.state.clone())
    }

    /// A replica without a fence: whatever comes goes into the
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
    pub(super) fn let_out(&mut self, now: Time, unit: UnitId, view: View, out: Clock) {
        self.measure(now, unit, out);
        self.doubt_other_views(unit, view, out);
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

/// For a planted bug: the last of several changes is left out.
fn leave_one_out(plant: Option<Plant>, changes: &mut Vec<Change>) {
    if plant == Some(Plant::ChangeLeftOut) && changes.len() > 1 {
        changes.pop();
    }
}

/// The clock before a batch's first entry.
fn batch_since(batch: &EntryBatch) -> Clock {
    let first = batch.entries.first();
    first.map_or(batch.clock, |first| Clock(first.clock.0.saturating_sub(1)))
}

/// True where the entries are of consecutive clocks and end at the batch's.
fn is_sound(batch: &EntryBatch) -> bool {
    let follow = |pair: &[Entry]| match pair {
        [one, two] => one.clock.next() == two.clock,
        _ => true,
    };
    batch.entries.windows(2).all(follow)
        && batch.entries.last().is_none_or(|e| e.clock == batch.clock)
}
