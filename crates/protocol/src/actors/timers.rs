//! Timers of the actors. A unit has one timer, for whatever of it is
//! due first.

use weir_packet::{FramePool, Time};

use super::table::{COPYING, Hot, SILENT};
use super::{ActorCount, Actors};
use crate::ids::{Clock, UnitId};
use crate::message::Message;
use crate::plant::Plant;
use crate::settings::LAST_RESORT;

impl Actors {
    /// Does what is due: repeats, expiry.
    pub fn tick(&mut self, now: Time, pool: &mut FramePool) {
        while let Some(&(at, unit)) = self.timers.first() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            if let Some(cold) = self.cold.get_mut(&unit) {
                cold.timer = None;
            }
            if self.settings.plant != Some(Plant::NoRepeats) {
                self.unit_due(now, unit);
            }
            self.tidy(unit);
        }
        for unit in core::mem::take(&mut self.ready) {
            self.release(now, pool, unit);
        }
        if self.sweep_at.is_some_and(|at| at <= now) {
            self.sweep(now, pool);
        }
        self.age_copies(now);
        self.ask_ticks(now);
        self.want_leases(now);
        self.ask_about_ports(now);
        self.flush(now, pool);
    }

    /// When [`Actors::tick`] has something to do next.
    pub fn next_deadline(&self) -> Option<Time> {
        let timer = self.timers.first().map(|(at, _)| *at);
        let ready = (!self.ready.is_empty()).then_some(Time::ZERO);
        [
            timer,
            ready,
            self.sweep_at,
            self.dues_at(),
            self.doubts_at(),
            self.leases_at(),
            self.copies.age_at(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// How long something is kept that may never be asked for.
    pub(super) fn patience(&self) -> u64 {
        let most = self.settings.repeat_after.max(self.wait());
        most.saturating_mul(64)
    }

    /// Time after which what was not answered is sent again: ten round trips. A
    /// path that loses nothing is not measured.
    pub(super) fn wait(&self) -> u64 {
        match self.settings.lossless {
            false if !self.trip.is_unknown() => self.trip.wait(),
            _ => self.settings.repeat_after,
        }
    }

    /// Time after which what is missing is asked for again: on a path that loses nothing it is
    /// on its way.
    pub(super) fn until_asked_again(&self) -> u64 {
        match self.settings.lossless {
            true => self.settings.repeat_after.saturating_mul(LAST_RESORT),
            false => self.wait(),
        }
    }

    /// Time for which outputs that were said are not said again, when their packets come again.
    /// A path that loses nothing repeats a packet only if the switch dropped its entry for
    /// want of a frame: once is enough for all packets of one burst.
    pub(super) fn until_said_again(&self) -> u64 {
        match self.settings.lossless {
            true => 1,
            false => self.wait() / 2,
        }
    }

    /// Notes when an entry was sent, one at a time. The switch says when it has
    /// let it out.
    pub(super) fn sample(&mut self, now: Time, unit: UnitId, clock: Clock) {
        match self.sample {
            None => self.sample = Some((unit, clock, now)),
            // It was not answered in time.
            Some((_, _, sent)) if now.since(sent) >= self.trip.wait() => {
                self.trip.back_off();
                self.sample = Some((unit, clock, now));
            }
            Some(_) => {}
        }
    }

    /// The unit's entries up to `out` were let out.
    pub(super) fn measure(&mut self, now: Time, unit: UnitId, out: Clock) {
        if let Some((of, clock, sent)) = self.sample
            && of == unit
            && clock <= out
        {
            self.sample = None;
            self.trip.measure(now.since(sent));
        }
    }

    /// The unit's entries are said once more: of one that was sent twice nobody
    /// knows which time was answered (Karn).
    pub(super) fn unsample(&mut self, unit: UnitId) {
        if self.sample.is_some_and(|(of, ..)| of == unit) {
            self.sample = None;
        }
    }

    /// Sets the unit's timer, if it would not go off before. The unit has
    /// something beside its record.
    pub(super) fn arm(&mut self, unit: UnitId, at: Time) {
        let Some(cold) = self.cold.get_mut(&unit) else {
            return;
        };
        match cold.timer {
            Some(before) if before <= at => {}
            before => {
                if let Some(before) = before {
                    self.timers.remove(&(before, unit));
                }
                cold.timer = Some(at);
                self.timers.insert((at, unit));
            }
        }
    }

    fn unit_due(&mut self, now: Time, unit: UnitId) {
        let dues = [
            self.pull_again(now, unit),
            self.repeat_again(now, unit),
            self.state_due(now, unit),
            self.end_again(now, unit),
            self.give_up(now, unit),
        ];
        if let Some(next) = dues.into_iter().flatten().min() {
            self.arm(unit, next);
        }
    }

    fn pull_again(&mut self, now: Time, unit: UnitId) -> Option<Time> {
        let waiting = self.cold.get(&unit)?.waiting?;
        if waiting.due > now {
            return Some(waiting.due);
        }
        self.pull(now, unit);
        Some(self.cold.get(&unit)?.waiting?.due)
    }

    /// Asks the source of a view that is open here for its state.
    pub(super) fn pull(&mut self, now: Time, unit: UnitId) {
        let due = now.plus(self.until_asked_again());
        let waiting = self.cold.get_mut(&unit).and_then(|c| c.waiting.as_mut());
        let Some(waiting) = waiting else { return };
        waiting.due = due;
        let again = core::mem::replace(&mut waiting.asked, true);
        let (open, source) = (waiting.open, waiting.source);
        self.counts.add(match again {
            true => ActorCount::PullRepeated,
            false => ActorCount::PullSent,
        });
        let pull = Message::Pull {
            unit,
            old: open.old,
            new: open.view,
            at: open.base,
        };
        self.tell_runtime(source, pull);
        self.arm(unit, due);
    }

    /// Asks again for what is missing between the packets that are here.
    fn repeat_again(&mut self, now: Time, unit: UnitId) -> Option<Time> {
        let asked = self.cold.get(&unit)?.live.asked?;
        let hot = self.table.live(unit);
        let lacks = |hot: &Hot| hot.flags & SILENT != 0 || self.hold.has((unit, hot.view));
        let Some(hot) = hot.filter(lacks) else {
            self.cold.get_mut(&unit)?.live.asked = None;
            return None;
        };
        let due = asked.plus(self.until_asked_again());
        if due <= now {
            self.ask_repeat(now, hot);
            return Some(now.plus(self.until_asked_again()));
        }
        Some(due)
    }

    /// Gives up what was to be followed by something that never came.
    fn give_up(&mut self, now: Time, unit: UnitId) -> Option<Time> {
        let cold = self.cold.get_mut(&unit)?;
        if cold.preferred.is_some_and(|(_, until)| until <= now) {
            cold.preferred = None;
        }
        if cold.ahead.as_ref().is_some_and(|ahead| ahead.4 <= now) {
            cold.ahead = None;
            self.counts.add(ActorCount::MessageStale);
        }
        if cold
            .staged
            .as_ref()
            .is_some_and(|staged| staged.until <= now)
        {
            cold.staged = None;
        }
        let is_waiting = cold.waiting.is_some();
        if cold.copying.is_some_and(|copying| copying.until <= now) && cold.closing.is_none() {
            cold.copying = None;
            self.counts.add(ActorCount::CopyingGivenUp);
            self.mark(unit, 0, COPYING);
        }
        let early = self.cold.get(&unit)?.early;
        if early.is_some_and(|early| early.until <= now) && !is_waiting {
            self.give_up_early(unit, ActorCount::EarlyGivenUp);
        }
        let cold = self.cold.get(&unit)?;
        let later = |until: Time| until.max(now.plus(self.wait()));
        [
            cold.preferred.map(|(_, until)| until),
            cold.ahead.as_ref().map(|ahead| ahead.4),
            cold.staged.as_ref().map(|staged| staged.until),
            cold.copying.map(|copying| later(copying.until)),
            cold.early.map(|early| later(early.until)),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    // ---- held packets

    /// Held packets are looked through after a while, where they would be sent again.
    pub(super) fn sweep_after(&mut self, now: Time) {
        if self.settings.lossless && self.settings.plant != Some(Plant::HeldSwept) {
            return;
        }
        let at = now.plus(self.settings.repeat_after.saturating_mul(8));
        self.sweep_at.get_or_insert(at);
    }

    /// Drops held packets that nobody has asked for, or that are over.
    fn sweep(&mut self, now: Time, pool: &mut FramePool) {
        self.sweep_at = None;
        let since = Time(
            now.0
                .saturating_sub(self.settings.repeat_after.saturating_mul(8)),
        );
        let (table, cold) = (&self.table, &self.cold);
        let dropped = self.hold.sweep(pool, since, |unit, view| {
            let waits = |c: &super::Cold| c.waiting.is_some_and(|w| w.open.view == view);
            table.live(unit).is_some_and(|hot| hot.view == view)
                || cold.get(&unit).is_some_and(waits)
        });
        self.counts.add_many(ActorCount::HoldDropped, dropped);
        if self.hold.held() > 0 {
            self.sweep_after(now);
        }
    }
}
