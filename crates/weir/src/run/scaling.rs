//! `--scaling`: carries out on a running cluster what a [`weir_control::Policy`] decides.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant, SystemTime};

use weir_control::scaling::{Action, Decision};
use weir_control::{Ahead, Load, Places, Policy, Scaling, ScalingSettings};
use weir_ctl::command::{Decided, Resize, RuntimeLoad, ScalingCounts};
use weir_graph::ScriptMode;
use weir_packet::Time;
use weir_protocol::RuntimeId;

use crate::args::ScalingBy;
use crate::driver::Cluster;

use super::resize::Leaving;

/// Looks at the load between two decisions.
const LOOKS: u32 = 20;
/// Time in which a runtime that was started has to come; another place is tried then.
const PATIENCE: Duration = Duration::from_secs(30);
/// Shortest time between two looks: each counts the packets that are on their way.
const SHORTEST_LOOK: Duration = Duration::from_millis(5);
/// Newest decisions that `weir get scaling` shows.
const SHOWN: usize = 20;

/// See the module.
#[derive(Debug)]
pub(super) struct Scaler {
    scaling: Box<dyn Policy>,
    begun: Instant,
    looked: Instant,
    decided: Instant,
    loads: Vec<(RuntimeId, Load)>,
    /// Moves of the last decisions, by source and target.
    moves: Vec<(RuntimeId, RuntimeId)>,
    /// The place of a runtime that was started and has not come, and since when.
    awaited: Option<(usize, Instant)>,
    /// Places at which a runtime was started and did not come.
    failed_places: BTreeSet<usize>,
    started: u64,
    drained: u64,
    moved: u64,
    refused: u64,
    decisions: VecDeque<Decided>,
}

impl Scaler {
    /// By drops and waits at the input, or with flowlets by what they need.
    ///
    /// # Errors
    ///
    /// Settings that make no sense.
    pub(super) fn new(by: &ScalingBy, has_flowlets: bool) -> Result<Scaler, String> {
        let now = Instant::now();
        let settings = ScalingSettings {
            patience: PATIENCE.as_nanos() as u64,
            ..by.0
        };
        let scaling: Result<Box<dyn Policy>, _> = match has_flowlets {
            true => Ahead::new(settings).map(|policy| Box::new(policy) as _),
            false => Scaling::new(settings).map(|policy| Box::new(policy) as _),
        };
        Ok(Scaler {
            scaling: scaling.map_err(|why| why.to_string())?,
            begun: now,
            looked: now,
            decided: now,
            loads: Vec::new(),
            moves: Vec::new(),
            awaited: None,
            failed_places: BTreeSet::new(),
            started: 0,
            drained: 0,
            moved: 0,
            refused: 0,
            decisions: VecDeque::with_capacity(SHOWN),
        })
    }

    /// Looks at the load where it is time to, and does what that asks for.
    pub(super) fn attend(&mut self, cluster: &mut Cluster, leaving: &mut Leaving) {
        let now = Instant::now();
        let interval = Duration::from_nanos(self.scaling.settings().report_interval);
        let look = (interval / LOOKS).max(SHORTEST_LOOK);
        let since = now - self.looked;
        if since < look {
            return;
        }
        self.looked = now;
        // A thread that slept for longer had nothing to hold back.
        cluster.look_at_load(since.min(2 * look), &self.moves);
        if now - self.decided < interval {
            return;
        }
        self.decided = now;
        self.moves.clear();
        self.await_started(cluster);
        self.loads = cluster.loads();
        // A runtime that an operator drains no longer counts.
        let emptied = self.scaling.leaving();
        if let Some(id) = emptied.filter(|id| cluster.is_kept(*id)) {
            // The load is another one by the time there is one to take its flows.
            leaving.stays(cluster, id);
            let mode = self.scaling.settings().mode;
            self.scaling.refused(&Action::Drain { runtime: id, mode });
            self.note(Err(format!(
                "runtime {} stays: no other one is ready",
                id.0
            )));
            return;
        }
        self.loads
            .retain(|(id, _)| !cluster.drains(*id) || emptied == Some(*id));
        // A drain by an operator and an upgrade wait for places and flows: scaling changes neither meanwhile.
        if leaving.has_others_than(emptied, cluster) {
            return;
        }
        let places = Places {
            coming: cluster.to_come().len(),
            free: cluster.free_places_but(&self.closed_places(cluster, leaving)),
        };
        let runtimes: Vec<RuntimeId> = self.loads.iter().map(|(id, _)| *id).collect();
        let at = u64::try_from((now - self.begun).as_nanos()).unwrap_or(u64::MAX);
        let need = cluster.flowlet_need();
        let decisions = self
            .scaling
            .step(Time(at), &self.loads, &need, &runtimes, places);
        for decision in decisions {
            self.carry_out(&decision, cluster, leaving);
        }
    }

    /// Checks a number of runtimes that an operator asks for.
    ///
    /// # Errors
    ///
    /// It is not within the bounds; for people.
    pub(super) fn allows(&self, runtimes: u32) -> Result<(), String> {
        let settings = self.scaling.settings();
        let (minimum, maximum) = (settings.minimum, settings.maximum);
        match (minimum..=maximum).contains(&runtimes) {
            true => Ok(()),
            false => Err(format!(
                "scaling keeps {minimum} to {maximum} runtimes here, and {runtimes} is not within that"
            )),
        }
    }

    /// Gives up a runtime that was started and does not come: its host may be gone, or full.
    fn await_started(&mut self, cluster: &mut Cluster) {
        let Some((place, since)) = self.awaited else {
            return;
        };
        match cluster.coming_at(place) {
            None => {
                self.awaited = None;
                // It is over, and was never ready.
                match cluster.free_at(place).is_some() {
                    true => self.failed_places.insert(place),
                    false => self.failed_places.remove(&place),
                };
            }
            Some(_) if since.elapsed() < PATIENCE => {}
            Some(id) => {
                cluster.give_up(id);
                self.awaited = None;
                self.failed_places.insert(place);
                self.scaling.refused(&Action::Add);
                let what = format!(
                    "runtime {} does not come: another place is tried next",
                    id.0
                );
                self.note(Err(what));
            }
        }
    }

    /// Places at which scaling starts no runtime: an operator has emptied them, or none came there
    /// when it was last tried, and another one is free.
    fn closed_places(&self, cluster: &Cluster, leaving: &Leaving) -> BTreeSet<usize> {
        let emptied = leaving.emptied();
        let all: BTreeSet<usize> = emptied.union(&self.failed_places).copied().collect();
        match cluster.free_places_but(&all) {
            0 => emptied.clone(),
            _ => all,
        }
    }

    fn add(&mut self, cluster: &mut Cluster, leaving: &Leaving) -> Result<RuntimeId, String> {
        let closed = self.closed_places(cluster, leaving);
        if !self.failed_places.is_subset(&closed) {
            // All were tried: it is the first one's turn again.
            self.failed_places.clear();
        }
        let added = cluster.add_but_at(&closed);
        if let Ok(id) = added {
            self.awaited = Some((cluster.place_of(id), Instant::now()));
        }
        added.map_err(|error| error.to_string())
    }

    fn carry_out(&mut self, decision: &Decision, cluster: &mut Cluster, leaving: &mut Leaving) {
        let why = decision.why;
        let done = match decision.action {
            Action::Add => match self.add(cluster, leaving) {
                Ok(id) => {
                    self.started += 1;
                    let what = format!("starts runtime {}: {why}", id.0);
                    cluster.tell_scaled(what.clone());
                    Ok(what)
                }
                Err(error) => Err(format!("one more runtime can't start: {error}")),
            },
            Action::Move {
                from,
                to,
                count,
                mode,
            } => match cluster.move_some((from, to), count, mode) {
                Ok(units) => {
                    self.moves.push((from, to));
                    self.moved += u64::from(units);
                    Ok(format!(
                        "moves {units} units from runtime {} to runtime {}: {why}",
                        from.0, to.0
                    ))
                }
                Err(error) => Err(format!(
                    "no unit moves from runtime {} to runtime {}: {error}",
                    from.0, to.0
                )),
            },
            // It drains already, and `Leaving` repeats that while its units stay.
            Action::Drain { runtime, .. } if cluster.drains(runtime) => return,
            Action::Drain { runtime, .. } => {
                let drain = Resize::Drain(vec![runtime.0], ScriptMode::Push);
                match leaving.begin(cluster, &drain) {
                    Ok(_) => {
                        self.drained += 1;
                        let what = format!("drains runtime {}: {why}", runtime.0);
                        cluster.tell_scaled(what.clone());
                        Ok(what)
                    }
                    Err(error) => Err(format!("runtime {} is not drained: {error}", runtime.0)),
                }
            }
            // `Leaving` ends it, as it does one that an operator drains.
            Action::Remove { .. } => return,
        };
        if done.is_err() {
            self.scaling.refused(&decision.action);
        }
        self.note(done);
    }

    /// Keeps a decision, or why it was refused, for `weir get scaling`.
    fn note(&mut self, done: Result<String, String>) {
        self.refused += u64::from(done.is_err());
        if self.decisions.len() == SHOWN {
            self.decisions.pop_front();
        }
        self.decisions.push_back(Decided {
            at: SystemTime::now(),
            what: done.unwrap_or_else(|why| why),
        });
    }

    /// The state that `weir get scaling` and the metrics show.
    pub(super) fn counts(&self) -> ScalingCounts {
        let settings = self.scaling.settings();
        let load = |(id, load): &(RuntimeId, Load)| {
            let rates = self.scaling.rates(*id);
            RuntimeLoad {
                id: id.0,
                units: load.units,
                packets: rates.map(|rates| rates.packets),
                held_back: rates.unwrap_or_default().held_back,
            }
        };
        ScalingCounts {
            started: self.started,
            drained: self.drained,
            moved: self.moved,
            refused: self.refused,
            bounds: (settings.minimum, settings.maximum),
            interval: Duration::from_nanos(settings.report_interval),
            peak: self.scaling.peak(),
            loads: self.loads.iter().map(load).collect(),
            decisions: self.decisions.iter().cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::ClusterBed;

    /// A host that an operator drains before it is taken down stays empty.
    #[test]
    fn nothing_starts_at_a_place_that_an_operator_has_emptied() {
        let mut bed = ClusterBed::new(2, Vec::new());
        let mut scaler = Scaler::new(&"1-3".parse().unwrap(), false).unwrap();
        let mut leaving = Leaving::default();
        let drain = Resize::Drain(vec![1], ScriptMode::Push);
        leaving.begin(&mut bed.cluster, &drain).unwrap();
        leaving.note_request(&bed.cluster, &drain);
        bed.until("it is gone", |cluster| {
            leaving.attend(cluster);
            cluster.going() == 0 && cluster.free_at(0).is_some()
        });
        while bed.cluster.free_places() > 1 {
            let id = scaler.add(&mut bed.cluster, &leaving).unwrap();
            assert_ne!(bed.cluster.place_of(id), 0);
        }
        let refused = scaler.add(&mut bed.cluster, &leaving).unwrap_err();
        assert!(refused.contains("no place is left"), "{refused}");
        // `weir scale` frees it.
        leaving.note_request(&bed.cluster, &Resize::Scale(3, ScriptMode::Push));
        let id = scaler.add(&mut bed.cluster, &leaving).unwrap();
        assert_eq!(bed.cluster.place_of(id), 0);
        bed.until("it runs", |cluster| cluster.runs(id));
        bed.finish();
    }

    /// Its host was away for a while.
    #[test]
    fn a_place_at_which_none_came_is_tried_again() {
        let mut bed = ClusterBed::new(1, Vec::new());
        let mut scaler = Scaler::new(&"1-2".parse().unwrap(), false).unwrap();
        let leaving = Leaving::default();
        for _ in 0..2 {
            let id = scaler.add(&mut bed.cluster, &leaving).unwrap();
            let place = bed.cluster.place_of(id);
            scaler.awaited = Instant::now()
                .checked_sub(PATIENCE)
                .map(|then| (place, then));
            scaler.await_started(&mut bed.cluster);
            assert_eq!(scaler.refused, 1, "it was given up");
            scaler.refused = 0;
            bed.until("its place is free", |cluster| {
                cluster.free_at(place).is_some()
            });
        }
        bed.finish();
    }

    #[test]
    fn an_operator_stays_within_the_bounds() {
        let scaler = Scaler::new(&"2-3".parse().unwrap(), false).unwrap();
        assert!(scaler.allows(2).is_ok() && scaler.allows(3).is_ok());
        for beyond in [0, 1, 4] {
            let why = scaler.allows(beyond).unwrap_err();
            assert!(why.contains("2 to 3 runtimes"), "{why}");
        }
    }
}
