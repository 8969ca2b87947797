//! When to start a runtime, what to move to it, and when to stop one: the rules
//! of NFActor §4.3 (Scaling), as a state machine without I/O.
//!
//! *Out.* A runtime that loses packets at its input is overloaded. One more is
//! started, and 500 flows at a time go there until nothing is lost any more. When
//! the new one is full as well, one more is started. Where ports wait instead of losing
//! packets, a runtime for which they wait too long is overloaded ([`Load::held_back`]).
//!
//! *In.* When all runtimes take in less than half of the most that one took in at
//! the last overload, the least loaded one is emptied, and stopped when it is empty.
//!
//! Where units are given out by flowlet, SNF's policy does instead ([`Ahead`]); both are a
//! [`Policy`].
//!
//! Decisions that the paper leaves open:
//!
//! - How often and how fast: see [`ScalingSettings`]. Scaling out is quick, scaling
//!   in waits (`calm_reports`, `cool_down`) and leaves room (`full`), so that noise
//!   around a limit changes nothing.
//! - A missing report says nothing: the runtime's load is unknown, which is neither
//!   overload nor calm. Nothing is emptied while a load is unknown.
//! - Moves to a runtime stop when, by estimate (the units' mean rate at their
//!   source), it will have as much as one could do at the overload.
//! - What one can do is what one took in at the last overload, and at least half of what was known
//!   before: a runtime that stood still for a moment looks overloaded, too.
//! - A runtime with one unit can't be relieved: no runtime is started for it.
//! - At the maximum of runtimes the least loaded one with room takes the flows, if it was not
//!   overloaded itself a short while ago: where all have too much, nothing moves.
//! - No more than one runtime is being started, and no more than one emptied.

mod ahead;
mod decision;
mod load;
mod settings;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod waiting_tests;

use core::fmt;
use std::collections::BTreeMap;

use weir_packet::Time;
use weir_protocol::ids::RuntimeId;

pub use ahead::Ahead;
pub use decision::{Action, Decision, Why};
pub use load::{Load, Rates};
pub use settings::{ScalingSettings, SettingsError};

/// Places of runtimes beside those that run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// At which one is about to come: one that starts, or the successor of a dead one.
    pub coming: usize,
    /// At which one more may be started.
    pub free: usize,
}

/// What flowlets need, where units are given out by them; else nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// The runtimes are so full that one more is to be started.
    pub more: bool,
    /// Runtimes that have nothing to do, the last one first.
    pub idle: Vec<RuntimeId>,
    /// Bytes per second of all together.
    pub load: u64,
    /// Bytes per second that all together can do.
    pub room: u64,
}

/// A policy: when to start a runtime, what to move to it, and when to stop one.
pub trait Policy: fmt::Debug + Send {
    /// Decides; see [`Scaling::step`]. `need` is that of flowlets.
    fn step(
        &mut self,
        now: Time,
        reports: &[(RuntimeId, Load)],
        need: &Need,
        cluster: &[RuntimeId],
        places: Places,
    ) -> Vec<Decision>;

    /// Takes back what could not be carried out: it may be decided again.
    fn refused(&mut self, action: &Action);

    /// The runtime that is being emptied.
    fn leaving(&self) -> Option<RuntimeId>;

    /// Its settings.
    fn settings(&self) -> &ScalingSettings;

    /// The rates of a runtime between its last two reports, where it looks at them.
    fn rates(&self, _: RuntimeId) -> Option<Rates> {
        None
    }

    /// Packets per second that one runtime can take, where it is measured.
    fn peak(&self) -> Option<u64> {
        None
    }
}

impl Policy for Scaling {
    fn step(
        &mut self,
        now: Time,
        reports: &[(RuntimeId, Load)],
        _: &Need,
        cluster: &[RuntimeId],
        places: Places,
    ) -> Vec<Decision> {
        Scaling::step(self, now, reports, cluster, places)
    }

    fn refused(&mut self, action: &Action) {
        Scaling::refused(self, action);
    }

    fn leaving(&self) -> Option<RuntimeId> {
        Scaling::leaving(self)
    }

    fn settings(&self) -> &ScalingSettings {
        Scaling::settings(self)
    }

    fn rates(&self, runtime: RuntimeId) -> Option<Rates> {
        Scaling::rates(self, runtime)
    }

    fn peak(&self) -> Option<u64> {
        Scaling::peak(self)
    }
}

/// The state of a runtime, from its reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// When it was last heard of; `None`: never.
    at: Option<Time>,
    /// The report of that time.
    said: Load,
    /// Between its last two reports; `None` after one.
    rates: Option<Rates>,
    /// Reports in a row that told of an overload.
    hot: u32,
    /// The last report that did.
    hot_at: Option<Time>,
}

impl Seen {
    /// Packets per second.
    fn rate(&self) -> Option<u64> {
        self.rates.map(|rates| rates.packets)
    }
}

/// The decision maker. Its whole state is a few numbers per runtime; the same calls
/// give the same actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaling {
    settings: ScalingSettings,
    seen: BTreeMap<RuntimeId, Seen>,
    /// Most packets per second that one runtime took in at the last overload.
    peak: Option<u64>,
    /// When somebody was last overloaded, or the set of runtimes last changed.
    last_change: Time,
    /// Reports in a row at which all was calm.
    calm: u32,
    /// A runtime was asked for then, and has not come.
    starting: Option<Time>,
    /// The runtime that takes flows in this overload: the newest one.
    relief: Option<RuntimeId>,
    /// The runtime that is drained, and when the action was last given.
    leaving: Option<(RuntimeId, Time)>,
}

impl Scaling {
    /// Of a cluster of which nothing is known yet.
    ///
    /// # Errors
    ///
    /// Settings that make no sense.
    pub fn new(settings: ScalingSettings) -> Result<Scaling, SettingsError> {
        settings.check()?;
        Ok(Scaling {
            settings,
            seen: BTreeMap::new(),
            peak: (settings.capacity > 0).then_some(settings.capacity),
            last_change: Time::ZERO,
            calm: 0,
            starting: None,
            relief: None,
            leaving: None,
        })
    }

    /// Most packets per second that one runtime took in at the last overload (or
    /// [`ScalingSettings::capacity`]); `None` before the first one.
    pub fn peak(&self) -> Option<u64> {
        self.peak
    }

    /// The runtime that is being emptied.
    pub fn leaving(&self) -> Option<RuntimeId> {
        self.leaving.map(|(runtime, _)| runtime)
    }

    /// The rates of a runtime between its last two reports.
    pub fn rates(&self, runtime: RuntimeId) -> Option<Rates> {
        self.seen.get(&runtime).and_then(|seen| seen.rates)
    }

    /// The settings.
    pub fn settings(&self) -> &ScalingSettings {
        &self.settings
    }

    /// Decides. To be called once per report interval: `reports` are those that came
    /// since the last call, `cluster` who runs now, the one that is being emptied included.
    /// Reports of runtimes outside the cluster are ignored.
    pub fn step(
        &mut self,
        now: Time,
        reports: &[(RuntimeId, Load)],
        cluster: &[RuntimeId],
        places: Places,
    ) -> Vec<Decision> {
        let mut actions = Vec::new();
        self.follow_cluster(now, cluster);
        self.hear(now, reports);
        self.scale_out(now, cluster, places, &mut actions);
        self.scale_in(now, cluster, &mut actions);
        actions
    }

    /// Adds runtimes that joined and removes those that left.
    fn follow_cluster(&mut self, now: Time, cluster: &[RuntimeId]) {
        let before = self.seen.len();
        self.seen.retain(|runtime, _| cluster.contains(runtime));
        let mut changed = self.seen.len() != before;
        for &runtime in cluster {
            if self.seen.contains_key(&runtime) {
                continue;
            }
            changed = true;
            let first = Seen {
                at: None,
                said: Load::default(),
                rates: None,
                hot: 0,
                hot_at: None,
            };
            self.seen.insert(runtime, first);
            if self.starting.take().is_some() {
                self.relief = Some(runtime);
            }
        }
        if changed {
            self.last_change = now;
        }
        let runs = |runtime: &RuntimeId| cluster.contains(runtime);
        self.relief = self.relief.filter(runs);
        self.leaving = self.leaving.filter(|(runtime, _)| runs(runtime));
    }

    /// Takes reports in.
    fn hear(&mut self, now: Time, reports: &[(RuntimeId, Load)]) {
        for (runtime, said) in reports {
            let Some(seen) = self.seen.get_mut(runtime) else {
                continue;
            };
            if seen.at == Some(now) {
                continue;
            }
            seen.rates = seen.at.and_then(|at| said.since(&seen.said, now.since(at)));
            seen.hot = match seen.rates {
                Some(rates) if self.settings.is_overload(&rates) => seen.hot.saturating_add(1),
                _ => 0,
            };
            if seen.hot > 0 {
                seen.hot_at = Some(now);
            }
            (seen.at, seen.said) = (Some(now), *said);
        }
    }

    /// True where the last report is not older than three intervals.
    fn is_fresh(&self, now: Time, seen: &Seen) -> bool {
        seen.at
            .is_some_and(|at| now.since(at) <= self.settings.report_interval.saturating_mul(3))
    }

    fn is_leaving(&self, runtime: RuntimeId) -> bool {
        self.leaving() == Some(runtime)
    }

    /// Notes what one runtime can do, where one is overloaded.
    fn note_overload(&mut self, now: Time, is_overload: bool) {
        let most = self.seen.values().filter_map(Seen::rate).max();
        if let (Some(most @ 1..), true) = (most, is_overload) {
            // An overload goes on while it is not calm for a cool-down.
            let goes_on = self.relief.is_some() || self.starting.is_some();
            self.peak = Some(match self.peak {
                Some(peak) if goes_on => peak.max(most),
                // One that stood still for a moment took in little: that is not what it can do.
                Some(peak) => most.max(peak / 2),
                None => most,
            });
            self.last_change = now;
        } else if now.since(self.last_change) >= self.settings.cool_down {
            self.relief = None;
        }
    }

    fn scale_out(
        &mut self,
        now: Time,
        cluster: &[RuntimeId],
        places: Places,
        actions: &mut Vec<Decision>,
    ) {
        // Only a report of now can say that a runtime is hot: moves that were asked
        // for at the last step show in no older one.
        let hot: Vec<(RuntimeId, Seen)> = self
            .seen
            .iter()
            .filter(|(_, seen)| seen.at == Some(now) && seen.hot >= self.settings.hot_reports)
            .map(|(runtime, seen)| (*runtime, *seen))
            .collect();
        self.note_overload(now, !hot.is_empty());
        let overdue = |asked: Time| now.since(asked) >= self.settings.patience;
        if self.starting.is_some_and(overdue) {
            self.starting = None;
        }
        let mut load: BTreeMap<RuntimeId, u64> = self
            .seen
            .iter()
            .map(|(runtime, seen)| (*runtime, seen.rate().unwrap_or(0)))
            .collect();
        let all = cluster.len() + places.coming;
        let few = all < self.settings.minimum as usize;
        let mut wanted = few.then_some(Why::BelowMinimum);
        for (from, seen) in &hot {
            if self.is_leaving(*from) || seen.said.units < 2 {
                continue;
            }
            // Half of what a runtime has is enough for one step: moving all of few
            // units would move the hot spot.
            let count = self.settings.batch.min(seen.said.units / 2);
            let per_unit = seen.rate().unwrap_or(0) / u64::from(seen.said.units.max(1));
            let why = Why::Overload {
                runtime: *from,
                rates: seen.rates.unwrap_or_default(),
            };
            let Some(to) = self.target(now, *from, &hot, &load, (cluster, places)) else {
                wanted = wanted.or(Some(why));
                continue;
            };
            if let Some(load) = load.get_mut(&to) {
                *load += per_unit * u64::from(count);
            }
            let action = Action::Move {
                from: *from,
                to,
                count,
                mode: self.settings.mode,
            };
            actions.push(Decision { action, why });
        }
        if let Some(why) = wanted
            && self.starting.is_none()
            && self.may_add(cluster, places)
        {
            self.starting = Some(now);
            self.last_change = now;
            let action = Action::Add;
            actions.push(Decision { action, why });
        }
    }

    /// The runtime to take flows of an overloaded one; `None` if one more is needed.
    fn target(
        &self,
        now: Time,
        from: RuntimeId,
        hot: &[(RuntimeId, Seen)],
        load: &BTreeMap<RuntimeId, u64>,
        (cluster, places): (&[RuntimeId], Places),
    ) -> Option<RuntimeId> {
        let peak = self.peak.unwrap_or(u64::MAX);
        let has_room = |runtime: &RuntimeId| {
            *runtime != from
                && !self.is_leaving(*runtime)
                && hot.iter().all(|(other, _)| other != runtime)
                && load.get(runtime).is_some_and(|load| *load < peak)
        };
        if self.starting.is_some() || self.may_add(cluster, places) {
            return self.relief.filter(has_room);
        }
        // Where all have more than they can do, flows would go to and fro for ever.
        let memory = u64::from(self.settings.calm_reports) * self.settings.report_interval;
        let was_hot = |runtime: &RuntimeId| {
            let hot_at = self.seen.get(runtime).and_then(|seen| seen.hot_at);
            hot_at.is_some_and(|at| now.since(at) < memory)
        };
        let takes = |runtime: &RuntimeId| has_room(runtime) && !was_hot(runtime);
        if let Some(relief) = self.relief.filter(takes) {
            return Some(relief);
        }
        cluster
            .iter()
            .copied()
            .filter(takes)
            .min_by_key(|runtime| (load.get(runtime).copied(), *runtime))
    }

    fn scale_in(&mut self, now: Time, cluster: &[RuntimeId], actions: &mut Vec<Decision>) {
        if let Some((runtime, said)) = self.leaving {
            let report = self.seen.get(&runtime).filter(|seen| seen.at == Some(now));
            if report.is_some_and(|seen| seen.said.units == 0) {
                let action = Action::Remove { runtime };
                let why = Why::Empty;
                actions.push(Decision { action, why });
            } else if now.since(said) >= self.settings.patience {
                self.leaving = Some((runtime, now));
                actions.push(self.drain(runtime, Why::NotEmpty));
            }
            self.calm = 0;
            return;
        }
        let Some(why) = self.calm(now, cluster) else {
            self.calm = 0;
            return;
        };
        self.calm = self.calm.saturating_add(1);
        if self.calm < self.settings.calm_reports
            || now.since(self.last_change) < self.settings.cool_down
        {
            return;
        }
        let least = self
            .seen
            .iter()
            .min_by_key(|(runtime, seen)| (seen.rate(), seen.said.units, **runtime));
        if let Some((&runtime, _)) = least {
            self.leaving = Some((runtime, now));
            self.last_change = now;
            self.calm = 0;
            actions.push(self.drain(runtime, why));
        }
    }

    /// True where one more may be started, and there is a place for it. Those that are about to come
    /// count, however long that takes: their hosts may be down.
    fn may_add(&self, cluster: &[RuntimeId], places: Places) -> bool {
        places.free > 0 && cluster.len() + places.coming < self.settings.maximum as usize
    }

    /// Takes back what could not be carried out: it may be decided again.
    pub fn refused(&mut self, action: &Action) {
        match action {
            Action::Add => self.starting = None,
            Action::Drain { .. } => (self.leaving, self.calm) = (None, 0),
            Action::Move { .. } | Action::Remove { .. } => {}
        }
    }

    fn drain(&self, runtime: RuntimeId, why: Why) -> Decision {
        let mode = self.settings.mode;
        let action = Action::Drain { runtime, mode };
        Decision { action, why }
    }

    /// Why one runtime less would do; `None` where it would not.
    fn calm(&self, now: Time, cluster: &[RuntimeId]) -> Option<Why> {
        let peak = self.peak?;
        let stay = (self.seen.len() as u64).saturating_sub(1);
        if cluster.len() <= self.settings.minimum as usize || stay == 0 || self.starting.is_some() {
            return None;
        }
        let share = |of: u64, parts: u32| of.saturating_mul(u64::from(parts)) / 1_000;
        let mut total = 0u64;
        for seen in self.seen.values() {
            match seen.rate() {
                Some(rate)
                    if self.is_fresh(now, seen)
                        && seen.hot == 0
                        && rate < share(peak, self.settings.calm) =>
                {
                    total = total.saturating_add(rate);
                }
                _ => return None,
            }
        }
        let fits = total <= share(peak.saturating_mul(stay), self.settings.full);
        fits.then_some(Why::Calm { total, peak })
    }
}
