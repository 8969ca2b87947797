//! The policy that goes with flowlets (SNF §4.2): one more runtime is started before those that run
//! are full, and the last ones are let go when they have nothing to do.
//!
//! Flowlets fill runtimes in their order, so the last ones are idle first, and no unit has to be
//! moved when one more comes: the next flowlets go there. A runtime that is idle may own units of
//! flows that are quiet; its drain moves them.

use weir_packet::Time;
use weir_protocol::ids::RuntimeId;

use super::{Action, Decision, Load, Need, Places, Policy, ScalingSettings, SettingsError, Why};

/// The decision maker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ahead {
    settings: ScalingSettings,
    /// A runtime was asked for then.
    starting: Option<Time>,
    /// One is to come since then: one that starts, or the successor of a dead one.
    coming: Option<Time>,
    /// So many were to come at the last step.
    were_coming: usize,
    /// Those that ran at the last step.
    cluster: Vec<RuntimeId>,
    leaving: Option<RuntimeId>,
    /// Steps in a row at which the same last runtime had nothing to do.
    idle: Option<(RuntimeId, u32)>,
    last_change: Time,
}

impl Ahead {
    /// Of a cluster of which nothing is known yet.
    ///
    /// # Errors
    ///
    /// Settings that make no sense.
    pub fn new(settings: ScalingSettings) -> Result<Ahead, SettingsError> {
        settings.check()?;
        Ok(Ahead {
            settings,
            starting: None,
            coming: None,
            were_coming: 0,
            cluster: Vec::new(),
            leaving: None,
            idle: None,
            last_change: Time::ZERO,
        })
    }

    /// Notes who came and went, whoever asked for it.
    fn follow(&mut self, now: Time, cluster: &[RuntimeId]) {
        let has_come = cluster.iter().any(|id| !self.cluster.contains(id));
        let has_gone = self.cluster.iter().any(|id| !cluster.contains(id));
        let is_overdue = |at: Time| now.since(at) >= self.settings.patience;
        if has_come || self.starting.is_some_and(is_overdue) {
            self.starting = None;
        }
        if has_come {
            self.coming = None;
        }
        if has_come || has_gone {
            self.last_change = now;
            self.cluster = cluster.to_vec();
        }
    }

    fn start(
        &mut self,
        now: Time,
        need: &Need,
        cluster: &[RuntimeId],
        places: Places,
    ) -> Option<Decision> {
        self.follow(now, cluster);
        // A host may be away for long; each one more that is to come is waited for.
        if places.coming > self.were_coming || self.coming.is_none() {
            self.coming = Some(now);
        }
        self.coming = self.coming.filter(|_| places.coming > 0);
        self.were_coming = places.coming;
        let patience = self.settings.patience;
        let may_come = self.coming.is_some_and(|since| now.since(since) < patience);
        let all = cluster.len() + places.coming;
        let why = match all < self.settings.minimum as usize {
            true => Why::BelowMinimum,
            false => Why::AlmostFull {
                load: need.load,
                room: need.room,
            },
        };
        let is_needed = need.more || why == Why::BelowMinimum;
        let may = places.free > 0 && all < self.settings.maximum as usize;
        if !is_needed || !may || may_come || self.starting.is_some() {
            return None;
        }
        self.starting = Some(now);
        self.last_change = now;
        Some(Decision {
            action: Action::Add,
            why,
        })
    }

    fn let_go(&mut self, now: Time, need: &Need, cluster: &[RuntimeId]) -> Option<Decision> {
        self.leaving = self.leaving.filter(|leaving| cluster.contains(leaving));
        let last = need
            .idle
            .first()
            .copied()
            .filter(|last| cluster.contains(last));
        self.idle = last.map(|last| match self.idle {
            Some((before, steps)) if before == last => (last, steps.saturating_add(1)),
            _ => (last, 1),
        });
        let (runtime, steps) = self.idle?;
        let may = !need.more
            && self.leaving.is_none()
            && self.starting.is_none()
            && cluster.len() > self.settings.minimum as usize
            && steps >= self.settings.calm_reports
            && now.since(self.last_change) >= self.settings.cool_down;
        if !may {
            return None;
        }
        self.leaving = Some(runtime);
        self.last_change = now;
        self.idle = None;
        let mode = self.settings.mode;
        Some(Decision {
            action: Action::Drain { runtime, mode },
            why: Why::Idle,
        })
    }
}

impl Policy for Ahead {
    fn step(
        &mut self,
        now: Time,
        _: &[(RuntimeId, Load)],
        need: &Need,
        cluster: &[RuntimeId],
        places: Places,
    ) -> Vec<Decision> {
        let start = self.start(now, need, cluster, places);
        let go = self.let_go(now, need, cluster);
        start.into_iter().chain(go).collect()
    }

    fn refused(&mut self, action: &Action) {
        match action {
            Action::Add => self.starting = None,
            Action::Drain { .. } => self.leaving = None,
            Action::Move { .. } | Action::Remove { .. } => {}
        }
    }

    fn leaving(&self) -> Option<RuntimeId> {
        self.leaving
    }

    fn settings(&self) -> &ScalingSettings {
        &self.settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const FREE: Places = Places { coming: 0, free: 8 };

    fn ids(ids: &[u32]) -> Vec<RuntimeId> {
        ids.iter().copied().map(RuntimeId).collect()
    }

    fn need(more: bool, idle: &[u32]) -> Need {
        Need {
            more,
            idle: ids(idle),
            load: 95,
            room: 100,
        }
    }

    fn ahead() -> Ahead {
        Ahead::new(ScalingSettings {
            maximum: 3,
            calm_reports: 3,
            ..ScalingSettings::default()
        })
        .unwrap()
    }

    #[test]
    fn one_is_started_before_all_are_full_and_one_at_a_time() {
        let mut ahead = ahead();
        let mut step = |at, more, cluster: &[u32], places| {
            let decisions = ahead.step(Time(at * S), &[], &need(more, &[]), &ids(cluster), places);
            decisions.iter().filter(|d| d.action == Action::Add).count()
        };
        assert_eq!(step(1, false, &[1], FREE), 0);
        assert_eq!(step(2, true, &[1], FREE), 1);
        let coming = Places { coming: 1, free: 7 };
        assert_eq!(step(3, true, &[1], coming), 0, "it is on its way");
        assert_eq!(step(4, true, &[1], FREE), 0, "it was asked for");
        assert_eq!(
            step(5, true, &[1, 2], FREE),
            1,
            "it has come, and is not enough"
        );
        assert_eq!(step(6, true, &[1, 2, 3], FREE), 0, "the most");
        let none = Places { coming: 0, free: 0 };
        assert_eq!(step(7, true, &[1, 2], none), 0, "no place");
        assert_eq!(step(60, true, &[1, 2], FREE), 1, "it never came");
        assert_eq!(step(61, true, &[1], coming), 0);
        assert_eq!(step(92, true, &[1], coming), 1, "its host is away");
        let two = Places { coming: 2, free: 6 };
        assert_eq!(step(93, true, &[1], two), 0, "another one is on its way");
        assert_eq!(
            step(94, true, &[1, 2], coming),
            0,
            "one has come, and not the other"
        );
        assert_eq!(step(120, true, &[1], coming), 0, "one has died");
        assert_eq!(step(124, true, &[1], coming), 1);
    }

    #[test]
    fn the_last_is_let_go_when_it_was_idle_for_long_enough() {
        let mut ahead = ahead();
        let mut step = |at, idle: &[u32], cluster: &[u32]| {
            let need = need(false, idle);
            let decisions = ahead.step(Time(at * S), &[], &need, &ids(cluster), FREE);
            decisions.first().map(|decision| decision.action)
        };
        let drain = |id| {
            let (runtime, mode) = (RuntimeId(id), ScalingSettings::default().mode);
            Some(Action::Drain { runtime, mode })
        };
        assert_eq!(step(1, &[], &[1, 2, 3]), None);
        for at in 20..22 {
            assert_eq!(step(at, &[3, 2], &[1, 2, 3]), None);
        }
        assert_eq!(step(22, &[], &[1, 2, 3]), None, "it had work");
        for at in 23..25 {
            assert_eq!(step(at, &[3], &[1, 2, 3]), None);
        }
        assert_eq!(step(25, &[3], &[1, 2, 3]), drain(3));
        assert_eq!(step(26, &[3, 2], &[1, 2, 3]), None, "one at a time");
        for at in 30..40 {
            assert_eq!(step(at, &[2], &[1, 2]), None, "a cool-down after it");
        }
        assert_eq!(step(40, &[2], &[1, 2]), drain(2));
        for at in 50..60 {
            assert_eq!(step(at, &[1], &[1]), None, "the fewest");
        }
    }

    #[test]
    fn what_is_refused_is_decided_again() {
        let mut ahead = ahead();
        let add = |ahead: &mut Ahead, at| {
            ahead.step(Time(at * S), &[], &need(true, &[]), &ids(&[1]), FREE)
        };
        assert_eq!(add(&mut ahead, 1).len(), 1);
        assert_eq!(add(&mut ahead, 2).len(), 0);
        ahead.refused(&Action::Add);
        assert_eq!(add(&mut ahead, 3).len(), 1);
    }
}
