//! Planned views: the source applies up to the base and sends, the target
//! takes over.

use weir_packet::{FramePool, Time};
use weir_runtime::SnapshotError;

use super::cold::{Ahead, Closing, Keeper, Role, Stored, Waiting};
use super::kept::Kept;
use super::table::{Hot, REPLICA, UNSURE};
use super::{ActorCount, Actors, Place};
use crate::ids::{Clock, RuntimeId, UnitId, View};
use crate::message::{Image, Message, MoveMode, Open, Origin, Refusal};
use crate::plant::Plant;

/// States and other things for views that are not open here yet, at most. The
/// switch's window is smaller; after a death it opens one more view per unit with packets on
/// their way.
const AHEAD: usize = 4_096;

impl Actors {
    // ---- the target's side

    pub(super) fn open(&mut self, now: Time, pool: &mut FramePool, open: Open) {
        let (unit, view) = (open.unit, open.view);
        if view.generation() != self.generation || open.replica == Some(self.settings.id) {
            return self.counts.add(ActorCount::MessageRefused);
        }
        match self.whereabouts(unit, view) {
            Place::Unknown => {}
            Place::Live => return self.opened_again(now, &open),
            Place::Waiting => return,
            Place::Refused => {
                let why = self.cold.get(&unit).and_then(|cold| cold.refused);
                let why = why.map_or(Refusal::Full, |(_, why)| why);
                return self.refuse(unit, view, why);
            }
            Place::Nowhere => return self.refuse(unit, view, Refusal::Full),
            Place::Stale | Place::Stored => return self.counts.add(ActorCount::MessageStale),
        }
        if !self.claim(pool, unit, view) {
            return self.counts.add(ActorCount::MessageStale);
        }
        match open.origin {
            Origin::Nothing { after_loss } => self.open_empty(now, pool, &open, after_loss),
            Origin::Planned { source } => self.open_planned(now, pool, &open, source),
            Origin::Resumed { source } if source == self.settings.id => {
                self.open_resumed(now, pool, &open);
            }
            Origin::Resumed { source } => self.open_from_logger(now, &open, source),
        }
        self.tidy(unit);
    }

    /// The switch has not heard that the view is held; or its first packets
    /// were here before the word of its replica.
    fn opened_again(&mut self, now: Time, open: &Open) {
        let (unit, replica) = (open.unit, open.replica);
        self.mark(unit, 0, UNSURE);
        let cold = self.cold.entry(unit).or_default();
        if replica.is_some() && cold.live.replica != replica {
            cold.live.replica = replica;
            cold.live.every = open.every;
            self.mark(unit, REPLICA, 0);
        }
        self.say(now, unit, true);
        self.tidy(unit);
    }

    fn open_empty(&mut self, now: Time, pool: &mut FramePool, open: &Open, after_loss: bool) {
        self.counts.add(match after_loss {
            true => ActorCount::AfterLoss,
            false => ActorCount::OpenedEmpty,
        });
        self.retire(open.unit);
        let image = Image {
            clock: open.base,
            state: None,
            since: open.base,
            outputs: Vec::new(),
        };
        self.install(now, pool, open, image);
    }

    fn open_planned(&mut self, now: Time, pool: &mut FramePool, open: &Open, source: RuntimeId) {
        let unit = open.unit;
        if source == self.settings.id {
            return self.counts.add(ActorCount::MessageRefused);
        }
        self.counts.add(ActorCount::OpenedPlanned);
        // The source has the view's actor: one that lives here was begun by a
        // packet that went astray, and is no copy of it.
        if self
            .table
            .live(unit)
            .is_some_and(|hot| hot.view == open.old)
        {
            self.drop_astray(unit);
        }
        let early = self.cold.get(&unit).and_then(|cold| cold.early);
        if early.is_none_or(|early| early.old != open.old || early.from != source) {
            self.retire(unit);
        }
        // A replica's copy may be all that is needed.
        let stored = self.cold.get(&unit).and_then(|c| c.stored.get(&open.old));
        if let Some(stored) = stored
            && stored.clock == open.base
            && stored.kept.covers(open.out, open.base)
        {
            let image = image_of(stored);
            self.counts.add(ActorCount::PullSpared);
            self.retire(unit);
            self.install(now, pool, open, image);
            return;
        }
        if let Some(image) = self.take_copy(source, open) {
            self.retire(unit);
            self.install(now, pool, open, image);
            return;
        }
        // Time for a state that is on its way unasked.
        let due = now.plus(self.wait() / 8);
        let cold = self.cold.entry(unit).or_default();
        cold.refused = None;
        cold.waiting = Some(Waiting {
            open: *open,
            source,
            due,
            asked: false,
        });
        match cold.ahead.take() {
            Some((from, old, new, ahead, _)) if new == open.view => {
                self.arrived(now, pool, from, unit, (old, new), ahead);
            }
            ahead => cold.ahead = ahead,
        }
        if self.cold.get(&unit).is_some_and(|c| c.waiting.is_some()) {
            self.arm(unit, due);
        }
    }

    /// A view after a failure, of which a logger has the state: it is asked for it.
    fn open_from_logger(&mut self, now: Time, open: &Open, logger: RuntimeId) {
        let unit = open.unit;
        self.counts.add(ActorCount::OpenedFromLogger);
        self.retire(unit);
        let cold = self.cold.entry(unit).or_default();
        cold.refused = None;
        cold.ahead = None;
        cold.waiting = Some(Waiting {
            open: *open,
            source: logger,
            due: now,
            asked: false,
        });
        self.pull(now, unit);
    }

    /// The source's message at the base arrives: the state, or the end of its copies.
    pub(super) fn arrived(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        from: RuntimeId,
        unit: UnitId,
        (old, new): (View, View),
        what: Ahead,
    ) {
        if new.generation() < self.generation || old >= new {
            return self.counts.add(ActorCount::MessageStale);
        }
        match self.whereabouts(unit, new) {
            Place::Waiting => {}
            Place::Unknown => return self.keep_ahead(now, from, unit, (old, new), what),
            Place::Nowhere => return self.counts.add(ActorCount::MessageRefused),
            _ => return self.counts.add(ActorCount::MessageStale),
        }
        let waiting = self.cold.get(&unit).and_then(|cold| cold.waiting);
        let Some(waiting) = waiting else {
            return self.internal.note("a view that waits and is not there");
        };
        let clock = match &what {
            Ahead::State(image) => image.clock,
            Ahead::Copied { clock, .. } => *clock,
        };
        let open = waiting.open;
        // A logger has what its owner had sent when it died.
        let is_planned = matches!(open.origin, Origin::Planned { .. });
        let is_source = waiting.source == from || self.settings.plant == Some(Plant::SenderUnseen);
        if !is_source || open.old != old || is_planned && open.base != clock {
            return self.counts.add(ActorCount::MessageRefused);
        }
        match what {
            Ahead::State(mut image) => {
                let span = (image.since.max(open.out), image.clock);
                let outputs = self.joined(from, (unit, old), span, &image.outputs);
                let Some(outputs) = outputs else {
                    // The pull that is due asks for them.
                    return self.counts.add(ActorCount::OutputsMissing);
                };
                if !is_planned {
                    self.count_restart(&open, &image.outputs);
                }
                image.outputs = outputs;
                self.unstage(unit);
                self.retire(unit);
                self.install(now, pool, &open, image);
            }
            Ahead::Copied {
                changed,
                touched,
                outputs,
                ..
            } if is_planned => self.copied(now, pool, &open, changed, &touched, outputs),
            Ahead::Copied { .. } => self.counts.add(ActorCount::MessageRefused),
        }
    }

    /// A state may come before its view is open here.
    fn keep_ahead(
        &mut self,
        now: Time,
        from: RuntimeId,
        unit: UnitId,
        (old, new): (View, View),
        what: Ahead,
    ) {
        if self.cold.len() >= AHEAD {
            let others = self.cold.values().filter(|cold| cold.ahead.is_some());
            if others.count() >= AHEAD {
                // The target will ask for it.
                return self.counts.add(ActorCount::MessageRefused);
            }
        }
        let until = now.plus(self.patience());
        let cold = self.cold.entry(unit).or_default();
        if cold.ahead.as_ref().is_some_and(|ahead| ahead.2 > new) {
            return self.counts.add(ActorCount::MessageStale);
        }
        cold.ahead = Some((from, old, new, what, until));
        self.counts.add(ActorCount::StateAhead);
        self.arm(unit, until);
    }

    /// Makes `image` the live actor of an open view, if the engine takes it,
    /// and goes on with what waits for it.
    pub(super) fn install(&mut self, now: Time, pool: &mut FramePool, open: &Open, image: Image) {
        let (unit, view) = (open.unit, open.view);
        match &image.state {
            None => self.counts.add(ActorCount::NothingInstalled),
            Some(state) => match self.engine.install_unit(unit.0, state) {
                Ok(()) => self.counts.add(ActorCount::StateInstalled),
                Err(error) => {
                    let why = match error {
                        SnapshotError::Corrupt => Refusal::Corrupt,
                        SnapshotError::Layout(_) | SnapshotError::Version(_) => Refusal::Layout,
                        _ => Refusal::Full,
                    };
                    return self.refuse(unit, view, why);
                }
            },
        }
        let kept = Kept::after(image.outputs, open.out);
        self.take_over(now, pool, open, image.clock, kept);
    }

    /// The engine has the state: the view goes on from `clock`.
    pub(super) fn take_over(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        open: &Open,
        clock: Clock,
        kept: Kept,
    ) {
        let (unit, view) = (open.unit, open.view);
        self.make_live(pool, unit, view, clock);
        let cold = self.cold.entry(unit).or_default();
        cold.waiting = None;
        cold.closing = None;
        cold.copying = None;
        cold.early = None;
        cold.ending = None;
        cold.refused = None;
        if cold.ahead.as_ref().is_some_and(|ahead| ahead.2 <= view) {
            cold.ahead = None;
        }
        cold.live = Keeper {
            replica: open.replica,
            every: open.every,
            silent: open.out,
            kept,
            ..Keeper::default()
        };
        if open.replica.is_some() {
            self.mark(unit, REPLICA, 0);
        }
        self.apply_again(now, open, clock);
        if self.settings.plant == Some(Plant::TargetForgets)
            && let Origin::Planned { source } = open.origin
        {
            let forget = Message::Forget {
                unit,
                below: view,
                ended: false,
            };
            self.tell_runtime(source, forget);
        }
        self.say(now, unit, true);
        self.release(now, pool, unit);
        self.flush(now, pool);
        // Nothing of the unit may have been left where it comes from.
        self.look_for_end(now, unit, false);
        self.tidy(unit);
    }

    /// The view can't be taken; who repeats its opening hears it again.
    pub(super) fn refuse(&mut self, unit: UnitId, view: View, why: Refusal) {
        self.counts.add(match why {
            Refusal::Full => ActorCount::RefusedFull,
            Refusal::Layout => ActorCount::RefusedLayout,
            Refusal::Corrupt => ActorCount::RefusedCorrupt,
            Refusal::NoState => ActorCount::RefusedNoState,
            Refusal::TooLong => ActorCount::RefusedTooLong,
        });
        if self.table.of(unit).is_some() {
            let cold = self.cold.entry(unit).or_default();
            cold.waiting = None;
            cold.refused = Some((view, why));
        }
        self.tell_switch(Message::Refuse { unit, view, why });
    }

    // ---- the source's side

    /// The view `old` ends after `at`.
    pub(super) fn closed(
        &mut self,
        now: Time,
        unit: UnitId,
        (old, at): (View, Clock),
        (new, to, mode): (View, RuntimeId, MoveMode),
    ) {
        if new <= old || new.generation() != self.generation || to == self.settings.id {
            return self.counts.add(ActorCount::MessageRefused);
        }
        match self.whereabouts(unit, old) {
            Place::Live => self.end_view(now, unit, at, (new, to, mode)),
            // Given away already, or put aside for a view after a failure.
            _ => self.counts.add(ActorCount::MessageStale),
        }
    }

    /// The target asks for the state of view `old` at `at`. Only the switch
    /// ends a view: where it has not said so yet, the state leaves when it does.
    pub(super) fn pulled(
        &mut self,
        now: Time,
        from: RuntimeId,
        unit: UnitId,
        (old, at): (View, Clock),
        new: View,
    ) {
        if new <= old || new.generation() < self.generation || from == self.settings.id {
            return self.counts.add(ActorCount::MessageRefused);
        }
        match self.whereabouts(unit, old) {
            Place::Live => self.pulled_live(now, from, unit, at, new),
            Place::Stored => {
                let stored = self.cold.get(&unit).and_then(|c| c.stored.get(&old));
                match stored {
                    Some(s) if s.role == Role::Source && s.clock == at => {
                        self.counts.add(ActorCount::PullAnswered);
                        self.send_stored(unit, old, (new, from));
                    }
                    Some(s) if s.role == Role::Replica && self.settings.is_logger => {
                        self.counts.add(ActorCount::LoggerAnswered);
                        self.send_stored(unit, old, (new, from));
                    }
                    _ => self.counts.add(ActorCount::MessageStale),
                }
            }
            // The view is over, or it has never heard of it.
            Place::Stale | Place::Unknown if self.settings.is_logger => {
                self.counts.add(ActorCount::LoggerLacks);
                let (view, why) = (new, Refusal::NoState);
                self.tell_runtime(from, Message::Refuse { unit, view, why });
            }
            Place::Stale | Place::Unknown => self.counts.add(ActorCount::MessageStale),
            _ => self.counts.add(ActorCount::MessageRefused),
        }
    }

    fn pulled_live(&mut self, now: Time, from: RuntimeId, unit: UnitId, at: Clock, new: View) {
        let Some(hot) = self.table.live(unit) else {
            return self.internal.note("a live actor without a record");
        };
        let cold = self.cold.entry(unit).or_default();
        let Some(closing) = cold.closing.as_mut() else {
            if self.settings.plant != Some(Plant::PullForgotten) {
                cold.pulled = Some((new, from));
            }
            return self.counts.add(ActorCount::PullEarly);
        };
        if closing.new != new || closing.to != from || hot.limit != at {
            return self.counts.add(ActorCount::MessageRefused);
        }
        closing.pulled = true;
        if hot.clock == at {
            self.close(now, unit);
        } else if !self.settings.lossless {
            // Else they are on their way.
            self.ask_repeat(now, hot);
        }
    }

    fn end_view(
        &mut self,
        now: Time,
        unit: UnitId,
        at: Clock,
        (new, to, mode): (View, RuntimeId, MoveMode),
    ) {
        let Some(hot) = self.table.live(unit) else {
            return self.internal.note("a live actor without a record");
        };
        let known = self.cold.get(&unit).and_then(|cold| cold.closing);
        let fits = match known {
            Some(known) => known.new == new && known.to == to && hot.limit == at,
            None => !hot.is_closing() && at >= hot.clock,
        };
        if !fits {
            return self.counts.add(ActorCount::MessageRefused);
        }
        let cold = self.cold.entry(unit).or_default();
        let was_pulled = cold.pulled.take() == Some((new, to));
        cold.closing = Some(Closing {
            new,
            to,
            mode,
            pulled: was_pulled || known.is_some_and(|known| known.pulled),
        });
        let hot = Hot { limit: at, ..hot };
        self.table.set(hot);
        if known.is_none() {
            self.counts.add(ActorCount::Closing);
        }
        if hot.clock == at {
            self.close(now, unit);
        } else if known.is_some() {
            // Said again, and still not there: the view's last packets may be
            // lost, and none comes after them that would show the gap.
            self.ask_repeat(now, hot);
        }
    }

    /// The last packet of the live actor's view has been applied: the state
    /// leaves, a copy stays until the switch says that it may be forgotten.
    pub(super) fn close(&mut self, now: Time, unit: UnitId) {
        let hot = self.table.live(unit).filter(|hot| hot.clock == hot.limit);
        let (Some(hot), Some(cold)) = (hot, self.cold.get_mut(&unit)) else {
            return self.internal.note("a view closes that is not at its end");
        };
        let (closing, copying) = (cold.closing.take(), cold.copying.take());
        let Some(closing) = closing else {
            return;
        };
        cold.ending = None;
        cold.preferred = None;
        self.counts.add(ActorCount::Closed);
        self.send_owed(now, hot);
        let touched = self.touched(unit);
        self.put_aside(hot, Role::Source);
        self.engine.forget_unit(unit.0);
        self.unmake_live(unit, hot.view);
        let stored = self.cold.get(&unit).and_then(|c| c.stored.get(&hot.view));
        let Some(stored) = stored else {
            return self.internal.note("an actor put aside that is not there");
        };
        let copied = copying.filter(|c| c.to == closing.to && closing.mode == MoveMode::Reprocess);
        let outputs = stored.kept.after_clock(Clock::ZERO, self.settings.longest);
        if let (Some(copying), (outputs, true)) = (copied, outputs)
            && !closing.pulled
        {
            let copied = Message::Copied {
                unit,
                old: hot.view,
                new: closing.new,
                clock: hot.clock,
                changed: copying.changed,
                touched,
                outputs,
            };
            self.tell_runtime(closing.to, copied);
        } else if closing.pulled || closing.mode != MoveMode::Pull {
            if closing.pulled {
                self.counts.add(ActorCount::PullAnswered);
            }
            self.send_stored(unit, hot.view, (closing.new, closing.to));
        }
    }

    /// The source of a view that waits here can't send its state.
    pub(super) fn refused_by(&mut self, from: RuntimeId, unit: UnitId, view: View, why: Refusal) {
        let waiting = self.cold.get(&unit).and_then(|cold| cold.waiting);
        match waiting {
            Some(w) if w.source == from && w.open.view == view => self.refuse(unit, view, why),
            _ => self.counts.add(ActorCount::MessageStale),
        }
    }
}

/// A stored actor as a state to install, whole.
pub(super) fn image_of(stored: &Stored) -> Image {
    Image {
        clock: stored.clock,
        state: stored.state.clone(),
        since: stored.kept.since(stored.clock),
        outputs: stored.kept.to_vec(),
    }
}
