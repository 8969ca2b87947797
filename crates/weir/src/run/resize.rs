//! Runtimes that come and go while a cluster runs, as an operator asks (`weir drain`,
//! `weir scale`).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use weir_ctl::command::{Resize, Resized};
use weir_graph::ScriptMode;
use weir_protocol::RuntimeId;

use crate::driver::Cluster;

use super::player::move_mode;
use crate::say::say;

/// A runtime that drains and owns as many units as this long ago is drained again: the one that was to
/// take them may have died.
const STILL: Duration = Duration::from_millis(500);

/// The runtimes that are to end as soon as they have given their units away.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    leavers: Vec<Leaver>,
    /// Places at which another one starts when they are free.
    renewed: BTreeSet<usize>,
    /// Places that an operator has emptied: scaling starts nothing there.
    emptied: BTreeSet<usize>,
}

#[derive(Debug)]
struct Leaver {
    id: RuntimeId,
    mode: ScriptMode,
    units: u64,
    /// Since when it has so many.
    since: Instant,
}

impl Leaving {
    /// Begins what is asked for.
    ///
    /// # Errors
    ///
    /// Nothing has begun: why. A thread that can't be started is an error after others have.
    pub(super) fn begin(
        &mut self,
        cluster: &mut Cluster,
        wanted: &Resize,
    ) -> Result<Resized, String> {
        match wanted {
            Resize::Drain(ids, mode) => {
                let resized = self.checked(cluster, ids, *mode)?;
                for id in ids {
                    self.renewed.remove(&cluster.place_of(RuntimeId(*id)));
                }
                Ok(resized)
            }
            Resize::Renew(ids, mode) => {
                let resized = self.checked(cluster, ids, *mode)?;
                let places = ids.iter().map(|id| cluster.place_of(RuntimeId(*id)));
                self.renewed.extend(places);
                Ok(resized)
            }
            Resize::Scale(count, mode) => {
                // Drains that were taken back are over: this says how many there are to be.
                self.leavers.retain(|leaver| !cluster.is_kept(leaver.id));
                cluster.keep_for_good(None);
                let resized = self.scale(cluster, *count as usize, *mode)?;
                // A logger that is on its way out comes back when it is over.
                self.renewed = cluster.leaving_loggers();
                Ok(resized)
            }
        }
    }

    /// Notes an operator's request: the places of drained runtimes stay empty until `weir scale`.
    pub(super) fn note_request(&mut self, cluster: &Cluster, wanted: &Resize) {
        match wanted {
            Resize::Drain(ids, _) => {
                let places = ids.iter().map(|id| cluster.place_of(RuntimeId(*id)));
                self.emptied.extend(places);
            }
            Resize::Renew(..) => {}
            Resize::Scale(..) => self.emptied.clear(),
        }
    }

    /// True while a runtime other than `own` leaves, or one is to be renewed.
    /// One that keeps its flows until another one is ready waits for that, and doesn't count.
    pub(super) fn has_others_than(&self, own: Option<RuntimeId>, cluster: &Cluster) -> bool {
        let others = |leaver: &Leaver| Some(leaver.id) != own && !cluster.is_kept(leaver.id);
        !self.renewed.is_empty() || self.leavers.iter().any(others)
    }

    /// Its drain was taken back, and does not go on.
    pub(super) fn stays(&mut self, cluster: &mut Cluster, runtime: RuntimeId) {
        cluster.keep_for_good(Some(runtime));
        self.leavers.retain(|leaver| leaver.id != runtime);
    }

    /// Places that an operator has emptied.
    pub(super) fn emptied(&self) -> &BTreeSet<usize> {
        &self.emptied
    }

    fn checked(
        &mut self,
        cluster: &mut Cluster,
        ids: &[u32],
        mode: ScriptMode,
    ) -> Result<Resized, String> {
        let ids: Vec<RuntimeId> = ids.iter().map(|id| RuntimeId(*id)).collect();
        check(cluster, &ids)?;
        self.drain(cluster, &ids, mode)
    }

    /// Drains those that run, and has those not start that were to.
    fn drain(
        &mut self,
        cluster: &mut Cluster,
        ids: &[RuntimeId],
        mode: ScriptMode,
    ) -> Result<Resized, String> {
        let mut resized = Resized::default();
        for id in ids {
            if !cluster.give_up(*id) {
                let drained = cluster.drain(*id, move_mode(mode));
                drained.map_err(|why| why.to_string())?;
                self.leavers.retain(|leaver| leaver.id != *id);
                self.leavers.push(Leaver {
                    id: *id,
                    mode,
                    units: cluster.units_of(*id),
                    since: Instant::now(),
                });
            }
            resized.draining.push(id.0);
        }
        Ok(resized)
    }

    fn scale(
        &mut self,
        cluster: &mut Cluster,
        count: usize,
        mode: ScriptMode,
    ) -> Result<Resized, String> {
        let most = cluster.most_runtimes();
        if count == 0 {
            return Err("a cluster has at least one runtime".to_owned());
        }
        if count > most {
            let places = if most == 1 { "place" } else { "places" };
            return Err(format!(
                "this instance has {most} {places} for runtimes: `--most-runtimes {count}`, or \
                 `most_runtimes: {count}` in the composition, makes more at its start"
            ));
        }
        let (running, to_come) = (cluster.running(), cluster.to_come());
        let there = running.len() + to_come.len();
        let wanted = count.saturating_sub(there);
        if wanted > cluster.free_places() {
            return Err(match cluster.going() {
                0 => "there is no place to start more: those that are free share a thread with \
                      others"
                    .to_owned(),
                going => format!(
                    "{going} of the {most} places are of runtimes that are on their way out: try \
                     again when they have ended"
                ),
            });
        }
        // Those that do not run yet go first.
        let surplus = running.iter().chain(&to_come).rev();
        let surplus: Vec<RuntimeId> = surplus.take(there.saturating_sub(count)).copied().collect();
        check(cluster, &surplus)?;
        let mut resized = self.drain(cluster, &surplus, mode)?;
        for _ in 0..wanted {
            let added = cluster.add().map_err(|why| why.to_string())?;
            resized.started.push(added.0);
        }
        // Those that were drained come back with it.
        for id in cluster.free_loggers() {
            match cluster.start_free(id) {
                Ok(()) => resized.started.push(id.0),
                Err(why) => say(format_args!(
                    "warning: logger {} does not start: {why}",
                    id.0
                )),
            }
        }
        Ok(resized)
    }

    /// Ends those that have nothing left. One that has died is no longer waited for.
    pub(super) fn attend(&mut self, cluster: &mut Cluster) {
        self.leavers.retain_mut(|leaver| {
            if cluster.is_kept(leaver.id) {
                return true;
            }
            if !cluster.drains(leaver.id) || cluster.remove(leaver.id) {
                return false;
            }
            !leaver.look(cluster)
        });
        self.renewed.retain(|place| {
            let Some(next) = cluster.free_at(*place) else {
                return true;
            };
            if let Err(error) = cluster.start_free(next) {
                say(format_args!(
                    "warning: place {} stays without a runtime: {error}",
                    place + 1
                ));
            }
            false
        });
    }

    /// The run ends: no place gets another runtime.
    pub(super) fn end(&mut self) {
        self.renewed.clear();
    }
}

impl Leaver {
    /// Asks for its units again where none has moved for a while. True where it is let go
    /// because nobody can take the replicas that it has.
    fn look(&mut self, cluster: &mut Cluster) -> bool {
        if self.since.elapsed() < STILL {
            return false;
        }
        let units = cluster.units_of(self.id);
        if units == self.units && units > 0 && !cluster.running().is_empty() {
            // It is refused where nobody can take them: they stay, and are asked for again.
            let _ = cluster.drain(self.id, move_mode(self.mode));
        }
        (self.units, self.since) = (units, Instant::now());
        units == 0 && cluster.dismiss(self.id)
    }
}

/// Refuses runtimes that can't be drained together.
fn check(cluster: &Cluster, ids: &[RuntimeId]) -> Result<(), String> {
    let (running, to_come) = (cluster.running(), cluster.to_come());
    for id in ids {
        let runtime = id.0;
        if cluster.is_bound(*id) {
            return Err(format!(
                "runtime {runtime} shares its thread with others (placement): `weir move` empties \
                 it, but it can't end alone"
            ));
        }
        let is_there = running.contains(id) || to_come.contains(id) || cluster.drains(*id);
        if is_there || cluster.has_logger(*id) {
            continue;
        }
        return Err(match cluster.has_ended(*id) {
            true => format!("runtime {runtime} is over: `weir get runtimes` lists those that run"),
            false => format!("there is no runtime {runtime}: `weir get runtimes` lists them"),
        });
    }
    let stays = |all: &[RuntimeId]| all.iter().any(|id| !ids.contains(id));
    if running.is_empty() && !ids.is_empty() && !to_come.is_empty() && !stays(&to_come) {
        return Err(
            "no runtime is ready, and no other one is to come: it is what the flows wait for"
                .to_owned(),
        );
    }
    let takes_any = ids.iter().any(|id| running.contains(id));
    if takes_any && running.iter().all(|id| ids.contains(id)) {
        let most = running.len() + to_come.len() + 1;
        return Err(match ids {
            [only] => format!(
                "runtime {} is the only one that is ready: start another one before \
                 (`weir scale {most}`)",
                only.0
            ),
            _ => format!(
                "no other runtime is ready to take their flows: start one before \
                 (`weir scale {most}`)"
            ),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::ClusterBed;

    /// Asks, and has what was begun go on until the cluster is as `is_so` says.
    fn ask(
        bed: &mut ClusterBed,
        wanted: &Resize,
        mut is_so: impl FnMut(&mut Cluster) -> bool,
    ) -> Result<Resized, String> {
        let mut leaving = Leaving::default();
        let resized = leaving.begin(&mut bed.cluster, wanted)?;
        bed.until("it is done", |cluster| {
            leaving.attend(cluster);
            leaving.leavers.is_empty() && is_so(cluster)
        });
        Ok(resized)
    }

    fn drain(ids: &[u32]) -> Resize {
        Resize::Drain(ids.to_vec(), ScriptMode::Push)
    }

    fn ids(ids: &[u32]) -> Vec<RuntimeId> {
        ids.iter().map(|id| RuntimeId(*id)).collect()
    }

    #[test]
    fn a_place_is_used_again_after_those_that_had_no_runtime() {
        let mut bed = ClusterBed::new(2, Vec::new());
        let drained = ask(&mut bed, &drain(&[1]), |cluster| cluster.going() == 0).unwrap();
        assert_eq!(drained.draining, [1]);
        let scale = Resize::Scale(3, ScriptMode::Pull);
        let scaled = ask(&mut bed, &scale, |cluster| cluster.running().len() == 3).unwrap();
        assert_eq!(scaled.started, [3, 4]);
        assert_eq!(bed.cluster.running(), ids(&[4, 2, 3]));
        // Those of the last places go first.
        let scale = Resize::Scale(1, ScriptMode::Push);
        let scaled = ask(&mut bed, &scale, |cluster| cluster.going() == 0).unwrap();
        assert_eq!(scaled.draining, [3, 2]);
        assert_eq!(bed.cluster.running(), ids(&[4]));
        bed.finish();
    }

    /// Its units have another owner as soon as their views are open: it has their states for a while
    /// yet, and would take them along.
    #[test]
    fn one_whose_states_are_on_their_way_is_not_let_go() {
        let mut bed = ClusterBed::new(2, Vec::new());
        for _ in 0..8 {
            bed.packet(1_000);
        }
        bed.until("quiet", Cluster::is_quiet);
        let leaver = RuntimeId(1);
        assert!(bed.cluster.units_of(leaver) > 0);
        let mut leaving = Leaving::default();
        let pull = Resize::Drain(vec![leaver.0], ScriptMode::Pull);
        leaving.begin(&mut bed.cluster, &pull).unwrap();
        // The switch hears of the last one's state in a later round.
        bed.until("all have another owner", |cluster| {
            cluster.units_of(leaver) == 0
        });
        assert!(!bed.cluster.dismiss(leaver));
        bed.until("it is gone", |cluster| {
            leaving.attend(cluster);
            leaving.leavers.is_empty() && cluster.going() == 0
        });
        assert_eq!(bed.finish().count("unit_lost"), 0);
    }

    /// Whoever was to take its flows is gone: it keeps them until another one is ready.
    #[test]
    fn a_drain_is_taken_back_where_no_other_one_is_ready() {
        let mut bed = ClusterBed::new(2, Vec::new());
        for _ in 0..8 {
            bed.packet(1_000);
        }
        bed.until("quiet", Cluster::is_quiet);
        let leaver = RuntimeId(1);
        let mut leaving = Leaving::default();
        leaving.begin(&mut bed.cluster, &drain(&[1])).unwrap();
        bed.fail_over(1);
        bed.until("it keeps its flows", |cluster| cluster.runs(leaver));
        leaving.attend(&mut bed.cluster);
        assert!(bed.cluster.is_kept(leaver) && leaving.leavers.len() == 1);
        assert!(!leaving.has_others_than(None, &bed.cluster));
        bed.come_back(1);
        bed.until("it is gone", |cluster| {
            leaving.attend(cluster);
            leaving.leavers.is_empty() && cluster.going() == 0
        });
        assert_eq!(bed.cluster.running(), ids(&[2]));
        let end = bed.finish();
        assert_eq!(end.count("drain_taken_back"), 1);
        assert_eq!(end.count("unit_lost"), 0);
    }

    /// An operator says how many there are to be: that counts, and not the drain of before.
    #[test]
    fn a_scale_ends_a_drain_that_was_taken_back() {
        let mut bed = ClusterBed::new(2, Vec::new());
        let mut leaving = Leaving::default();
        leaving.begin(&mut bed.cluster, &drain(&[1])).unwrap();
        bed.fail_over(1);
        bed.until("it keeps its flows", |cluster| {
            cluster.is_kept(RuntimeId(1))
        });
        let scale = Resize::Scale(2, ScriptMode::Push);
        let scaled = leaving.begin(&mut bed.cluster, &scale).unwrap();
        assert_eq!((scaled.started.len(), scaled.draining.len()), (0, 0));
        bed.come_back(1);
        bed.until("both run", |cluster| cluster.running().len() == 2);
        assert!(leaving.leavers.is_empty() && !bed.cluster.is_kept(RuntimeId(1)));
        bed.finish();
    }

    #[test]
    fn runtimes_of_one_thread_are_not_parted() {
        let mut bed = ClusterBed::new(3, vec![1, 1, 2, 3]);
        for bound in [1, 2] {
            let refused = ask(&mut bed, &drain(&[bound]), |_| true).unwrap_err();
            assert!(refused.contains("shares its thread"), "{refused}");
        }
        ask(&mut bed, &drain(&[3]), |cluster| cluster.going() == 0).unwrap();
        assert_eq!(bed.cluster.running(), ids(&[1, 2]));
        bed.finish();
    }

    /// It counts until its successor does: no other one is started beside that.
    #[test]
    fn a_death_that_is_not_yet_over_makes_nobody_start() {
        let mut bed = ClusterBed::new(2, Vec::new());
        bed.fail_over(0);
        assert_eq!(bed.cluster.running().len() + bed.cluster.to_come().len(), 2);
        let mut leaving = Leaving::default();
        let scale = Resize::Scale(2, ScriptMode::Push);
        let scaled = leaving.begin(&mut bed.cluster, &scale).unwrap();
        assert_eq!((scaled.started.len(), scaled.draining.len()), (0, 0));
    }

    /// A run that has no runtime, and gets none, would drop all without a word.
    #[test]
    fn the_only_one_that_is_to_come_stays() {
        let mut bed = ClusterBed::new(1, Vec::new());
        while bed.cluster.to_come().is_empty() {
            bed.kill();
        }
        let next = bed.cluster.to_come();
        let refused = ask(&mut bed, &drain(&[next[0].0]), |_| true).unwrap_err();
        assert!(refused.contains("what the flows wait for"), "{refused}");
        bed.until("it runs", |cluster| cluster.running().len() == 1);
        bed.finish();
    }

    #[test]
    fn one_that_is_to_come_is_given_up() {
        let mut bed = ClusterBed::new(2, Vec::new());
        bed.kill();
        // The first successor starts at once, the next one after a pause.
        bed.until("its successor runs", |cluster| cluster.running().len() == 2);
        while bed.cluster.to_come().is_empty() {
            bed.kill();
        }
        let next = bed.cluster.to_come();
        assert!(!bed.cluster.runs(next[0]));
        let given_up = ask(&mut bed, &drain(&[next[0].0]), |cluster| {
            cluster.to_come().is_empty() && cluster.going() == 0
        });
        assert_eq!(given_up.unwrap().draining, [next[0].0]);
        assert_eq!(bed.cluster.running().len(), 1);
        bed.finish();
    }
}
