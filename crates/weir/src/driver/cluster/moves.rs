//! Moves of flows between runtimes, and runtimes that come and go.

use std::collections::BTreeSet;

use weir_ctl::events::What;
use weir_exec::ExecError;
use weir_packet::Time;
use weir_protocol::message::{MoveMode, Selection};
use weir_protocol::switch::MoveError;
use weir_protocol::{RuntimeId, Switch};

use super::super::wiring::{NO_CHAIN, place_of};
use super::deaths::FINISH_PATIENCE;
use super::member::{Member, NO_MEMBER, Site, State};
use super::phase::Phase;
use super::{Chain, Cluster};
use crate::say::say;

/// Why no other process could go on with a switch's flows.
pub(crate) const ENDS_WITH_SWITCH: &str = "its runtimes end with its process, so nobody could go on \
                                           with its flows: runtimes of agents outlive it (`weir \
                                           up`, `weir run --hosts`)";

impl Cluster {
    /// Moves what `what` selects of the units that `from` owns, in one chain
    /// or all; gives their number.
    ///
    /// # Errors
    ///
    /// See [`MoveError`]; in several chains, that of the last one where no
    /// unit of any could be moved.
    pub fn move_units(
        &mut self,
        chain: Option<usize>,
        (from, to): (RuntimeId, RuntimeId),
        what: &Selection,
        mode: MoveMode,
    ) -> Result<u32, MoveError> {
        let now = self.clock.now();
        let mut moved = Err(MoveError::Nothing);
        for number in 0..self.chains.len() {
            if chain.is_some_and(|only| only != number) {
                continue;
            }
            let Some(at) = self.internal.expect(self.chains.get_mut(number), NO_CHAIN) else {
                continue;
            };
            let asked = at.switch.move_units(now, Some(from), to, what, mode);
            moved = together(moved, asked);
            self.send(number, now);
        }
        if let Ok(units @ 1..) = moved {
            let what = What::UnitsMove {
                to: to.0,
                units: units.into(),
            };
            self.tell(from, what);
        }
        moved
    }

    /// Moves up to so many units of all chains together; gives their number.
    ///
    /// # Errors
    ///
    /// As [`Cluster::move_units`].
    pub(crate) fn move_some(
        &mut self,
        between: (RuntimeId, RuntimeId),
        count: u32,
        mode: MoveMode,
    ) -> Result<u32, MoveError> {
        let owns = |chain: &Chain| chain.switch.share(between.0).owns;
        let all: u64 = self.chains.iter().map(owns).sum();
        let mut moved = Err(MoveError::Nothing);
        for chain in 0..self.chains.len() {
            // As many of each chain as it has of all.
            let its = self.chains.get(chain).map_or(0, owns);
            let share = (u64::from(count) * its).div_ceil(all.max(1));
            let what = Selection::Number(u32::try_from(share).unwrap_or(count).min(count));
            if share == 0 {
                continue;
            }
            let asked = self.move_units(Some(chain), between, &what, mode);
            moved = together(moved, asked);
        }
        moved
    }

    /// Gives all units of a runtime to the others.
    ///
    /// # Errors
    ///
    /// There is no such runtime, or none to take its units.
    pub fn drain(&mut self, runtime: RuntimeId, mode: MoveMode) -> Result<(), MoveError> {
        let (now, units) = (self.clock.now(), self.units_of(runtime));
        for chain in 0..self.chains.len() {
            if let Some(at) = self.internal.expect(self.chains.get_mut(chain), NO_CHAIN) {
                at.switch.drain(now, runtime, mode)?;
            }
            self.send(chain, now);
        }
        let before = self.member(runtime);
        let before = before.map(|member| {
            (member.drained, member.kept) = (mode, false);
            member.enter(State::Drains)
        });
        // One that drains already is asked again where its units do not go.
        if before.is_some_and(|before| before != State::Drains) {
            self.tell(runtime, What::RuntimeDrains { units });
        }
        self.tell_who_runs();
        Ok(())
    }

    /// Takes the drain of a runtime back where no other one is ready: ports would wait for the next
    /// one, for as long as its host is away, while this one has what the flows need. True where one
    /// was taken back.
    pub(super) fn keep_last(&mut self, now: Time) -> bool {
        let drains = |its: &Member| its.state == State::Drains && its.serves() && !its.is_logger;
        if self.phase != Phase::Runs || self.members.iter().any(Member::takes_units) {
            return false;
        }
        let Some(place) = self.members.iter().position(drains) else {
            return false;
        };
        let Some(member) = self.internal.expect(self.members.get_mut(place), NO_MEMBER) else {
            return false;
        };
        member.enter(State::Runs);
        member.kept = true;
        let id = member.ends.id;
        for chain in 0..self.chains.len() {
            if let Some(at) = self.internal.expect(self.chains.get_mut(chain), NO_CHAIN) {
                at.switch.keep(now, id);
            }
            self.send(chain, now);
        }
        self.tell_who_runs();
        say(format_args!(
            "warning: runtime {} keeps its flows until another one is ready to take them",
            id.0
        ));
        true
    }

    /// Drains those again whose drain was taken back, where another one is ready.
    pub(super) fn drain_kept(&mut self) {
        for place in 0..self.members.len() {
            let is_other = |(other, its): (usize, &Member)| other != place && its.takes_units();
            let kept = self.members.get(place);
            let kept = kept.filter(|its| its.kept && its.takes_units());
            if let Some((id, mode)) = kept.map(|its| (its.ends.id, its.drained))
                && self.members.iter().enumerate().any(is_other)
            {
                // Where it is refused, it is asked for again.
                let _ = self.drain(id, mode);
            }
        }
    }

    /// True of one whose drain was taken back, and goes on when another one is ready.
    pub(crate) fn is_kept(&self, runtime: RuntimeId) -> bool {
        let mut kept = self.members.iter().filter(|its| its.kept);
        kept.any(|its| its.ends.id == runtime && its.takes_units())
    }

    /// A drain that was taken back does not go on: of one runtime, or of all.
    pub(crate) fn keep_for_good(&mut self, only: Option<RuntimeId>) {
        let members = self.members.iter_mut();
        let meant = members.filter(|its| only.is_none_or(|only| its.ends.id == only));
        meant.for_each(|its| its.kept = false);
    }

    /// Starts one more runtime, which joins as soon as its memory is reserved: at a place that had
    /// none yet, else where one is over.
    ///
    /// # Errors
    ///
    /// There are as many as there may be, or no thread can be started.
    pub fn add(&mut self) -> Result<RuntimeId, ExecError> {
        self.add_but_at(&BTreeSet::new())
    }

    /// The same, at none of these places.
    ///
    /// # Errors
    ///
    /// As [`Cluster::add`].
    pub(crate) fn add_but_at(&mut self, not: &BTreeSet<usize>) -> Result<RuntimeId, ExecError> {
        let most = self.most_runtimes();
        let id = self.free_but_at(not).first().copied();
        let id = id.ok_or_else(|| ExecError(format!("no place is left of {most}")))?;
        self.start_free(id)?;
        Ok(id)
    }

    /// The place of a runtime.
    pub(crate) fn place_of(&self, runtime: RuntimeId) -> usize {
        place_of(runtime, self.members.len())
    }

    /// The runtime that may be started at this place.
    pub(crate) fn free_at(&self, place: usize) -> Option<RuntimeId> {
        let member = self.members.get(place)?;
        // Runtimes of one thread start and end together.
        let is_alone = !self.shares_thread(place);
        member.free_for(self.members.len()).filter(|_| is_alone)
    }

    /// The runtime that is about to come at this place.
    pub(crate) fn coming_at(&self, place: usize) -> Option<RuntimeId> {
        let member = self.members.get(place)?;
        member
            .is_to_come()
            .then(|| member.shown_id(self.members.len()))
    }

    /// Ids of loggers that may be started: those that were drained, say.
    pub(crate) fn free_loggers(&self) -> Vec<RuntimeId> {
        let members = self.members.iter().enumerate();
        let loggers = members.filter(|(_, its)| its.is_logger);
        loggers
            .filter_map(|(place, _)| self.free_at(place))
            .collect()
    }

    /// Places of loggers that are to end.
    pub(crate) fn leaving_loggers(&self) -> BTreeSet<usize> {
        let is_leaving = |its: &Member| matches!(its.state, State::Drains | State::Leaves);
        let members = self.members.iter().enumerate();
        let leaving = members.filter(|(_, its)| its.is_logger && is_leaving(its));
        leaving.map(|(place, _)| place).collect()
    }

    /// Starts that runtime.
    ///
    /// # Errors
    ///
    /// No thread can be started.
    pub(crate) fn start_free(&mut self, runtime: RuntimeId) -> Result<(), ExecError> {
        self.place(runtime)?;
        self.start_placed()
    }

    /// Whether another process can go on with all flows where this one ends.
    ///
    /// # Errors
    ///
    /// It can't: why, for people.
    pub(crate) fn may_hand_over(&self) -> Result<(), String> {
        let Some(remote) = &self.settings.remote else {
            return Err(ENDS_WITH_SWITCH.to_owned());
        };
        let members = self.members.iter().enumerate();
        let mut here = members.filter(|(place, _)| remote.agent_of(*place).is_none());
        let busy = here.find(|(_, member)| {
            member.is_up() || member.is_to_come() || member.state == State::Leaves
        });
        match busy {
            None => Ok(()),
            Some((_, member)) => Err(format!(
                "runtime {0} would end with the switch's process, which it is in: `weir drain {0}` \
                 first",
                member.shown_id(self.members.len()).0
            )),
        }
    }

    /// Ids of the runtimes that may be started but at these places, those of places that had none first.
    fn free_but_at(&self, not: &BTreeSet<usize>) -> Vec<RuntimeId> {
        let members = self.members.iter().enumerate();
        let members = members.filter(|(place, its)| !its.is_logger && !not.contains(place));
        let mut free: Vec<(bool, RuntimeId)> = members
            .filter_map(|(place, its)| Some((its.state != State::Absent, self.free_at(place)?)))
            .collect();
        free.sort_by_key(|(again, _)| *again);
        free.into_iter().map(|(_, id)| id).collect()
    }

    /// Runtimes that may be started now, at none of these places.
    pub(crate) fn free_places_but(&self, not: &BTreeSet<usize>) -> usize {
        self.free_but_at(not).len()
    }

    /// Runtimes that may be started now.
    pub(crate) fn free_places(&self) -> usize {
        self.free_places_but(&BTreeSet::new())
    }

    /// True where the thread of a place has a runtime of another one, too.
    fn shares_thread(&self, place: usize) -> bool {
        let spread = &self.settings.spread;
        let mut others = (0..)
            .zip(&self.members)
            .filter(|(other, _)| *other != place);
        others.any(|(other, member)| {
            let is_there = member.node().is_some() || member.is_to_come();
            is_there && spread.of(other).0 == spread.of(place).0
        })
    }

    /// True where `runtime` is on a thread with others, and can't end without them.
    pub(crate) fn is_bound(&self, runtime: RuntimeId) -> bool {
        let place = place_of(runtime, self.members.len());
        let is_thread = |member: &Member| matches!(member.site, Site::Thread { .. });
        self.members.get(place).is_some_and(is_thread) && self.shares_thread(place)
    }

    /// Has a runtime not start that was to: true where it was.
    pub(crate) fn give_up(&mut self, runtime: RuntimeId) -> bool {
        let places = self.members.len();
        let mut coming = self.members.iter().filter(|member| member.is_to_come());
        let Some(member) = coming.find(|member| member.shown_id(places) == runtime) else {
            return false;
        };
        let (id, waits) = (member.ends.id, member.successor_at.is_some());
        self.stop(id, FINISH_PATIENCE);
        if waits {
            self.tell(runtime, What::RuntimeEnded);
        }
        true
    }

    /// Stops a drained runtime. False: it has units still; ask again later.
    pub fn remove(&mut self, runtime: RuntimeId) -> bool {
        let drained = |chain: &Chain| chain.switch.is_drained(runtime);
        if !self.chains.iter().all(drained) {
            return false;
        }
        let now = self.clock.now();
        for chain in 0..self.chains.len() {
            if let Some(at) = self.internal.expect(self.chains.get_mut(chain), NO_CHAIN) {
                at.switch.leave(now, runtime);
            }
            self.send(chain, now);
        }
        // Its answer is not waited for any more, and counts no more.
        self.echo = None;
        self.stop(runtime, FINISH_PATIENCE);
        true
    }

    /// Places of runtimes, loggers not among them.
    pub(crate) fn most_runtimes(&self) -> usize {
        self.settings.runtime_places() as usize
    }

    /// Stops a runtime that drains and has nothing left but replicas that no other runtime can take:
    /// their units go on without a replica. Gives false, and does nothing, where it has more (a unit
    /// that has gone has not yet come to its new owner, say), or another runtime can take them.
    pub(crate) fn dismiss(&mut self, runtime: RuntimeId) -> bool {
        let place = place_of(runtime, self.members.len());
        // A thread that stood still may not know of a death: then the copies are all that is left.
        self.fail_over_early(self.clock.now());
        let spare = |chain: &Chain| chain.switch.is_only_replica(runtime);
        let keepers = self.members.iter().filter(|member| member.is_ready());
        let others_come = self.members.iter().any(Member::is_to_come);
        // Flows need a runtime, whether or not there are some just now.
        if !self.is_logger(runtime) && self.running().is_empty() {
            return false;
        }
        // The one that is left can't keep copies of its own units.
        if keepers.count() > 1 || others_come || !self.chains.iter().all(spare) {
            return false;
        }
        // To the switches it is one that has died: they ask it for nothing more.
        let now = self.clock.now();
        self.hear_out(place, now);
        self.suspect(place, now);
        self.stop(runtime, FINISH_PATIENCE);
        true
    }

    /// Ids of the runtimes that may get units, in the order of their places.
    pub(crate) fn running(&self) -> Vec<RuntimeId> {
        let running = self.members.iter().filter(|member| member.takes_units());
        running.map(|member| member.ends.id).collect()
    }

    /// Ids of those that start, or are to.
    pub(crate) fn to_come(&self) -> Vec<RuntimeId> {
        let places = self.members.len();
        let runtimes = self.members.iter().filter(|member| !member.is_logger);
        let coming = runtimes.filter(|member| member.is_to_come());
        coming.map(|member| member.shown_id(places)).collect()
    }

    /// Runtimes that are to end, and have not.
    pub(crate) fn going(&self) -> usize {
        let is_going = |member: &&Member| {
            matches!(member.state, State::Drains | State::Leaves) && !member.is_logger
        };
        self.members.iter().filter(is_going).count()
    }

    /// Units that a runtime owns.
    pub(crate) fn units_of(&self, runtime: RuntimeId) -> u64 {
        let shares = self.chains.iter().map(|at| at.switch.share(runtime).owns);
        shares.sum()
    }

    /// True where `runtime` gives its units away, and lives.
    pub(crate) fn drains(&self, runtime: RuntimeId) -> bool {
        let mut members = self.members.iter();
        members.any(|member| {
            member.ends.id == runtime && member.state == State::Drains && !member.failed_over
        })
    }

    /// True where `runtime` can own units.
    pub fn runs(&self, runtime: RuntimeId) -> bool {
        let mut members = self.members.iter();
        members.any(|its| its.ends.id == runtime && its.state == State::Runs && !its.is_logger)
    }

    /// True where `id` is a logger that keeps copies, or starts.
    pub(crate) fn has_logger(&self, id: RuntimeId) -> bool {
        let places = self.members.len();
        let mut loggers = self.members.iter().filter(|member| member.is_logger);
        loggers.any(|its| (its.is_ready() || its.is_to_come()) && its.shown_id(places) == id)
    }

    /// True where `runtime` has run, and is over: it never runs again. A successor has another id.
    pub(crate) fn has_ended(&self, runtime: RuntimeId) -> bool {
        let place = place_of(runtime, self.members.len());
        let member = self.members.get(place);
        member.is_some_and(|member| member.has_ended(runtime))
    }

    /// A number that differs once something has been let out, dropped or settled.
    pub(crate) fn progress(&self) -> [u64; 3] {
        let done = |switch: &Switch| {
            let report = switch.report();
            report.packets_out + report.drops.iter().map(|(_, n)| n).sum::<u64>()
        };
        let done = self.chains.iter().map(|chain| done(&chain.switch)).sum();
        [done, self.in_flight(), self.moves_under_way()]
    }

    /// Packets that are on their way.
    pub fn in_flight(&self) -> u64 {
        let chains = self.chains.iter();
        chains.map(|chain| chain.switch.in_flight()).sum()
    }

    /// Units that change their owner, or wait for it.
    pub fn moves_under_way(&self) -> u64 {
        let chains = self.chains.iter();
        chains.map(|chain| chain.switch.moves_under_way()).sum()
    }
}

/// The units that two chains' moves are about: an error where neither moves any.
fn together(
    before: Result<u32, MoveError>,
    asked: Result<u32, MoveError>,
) -> Result<u32, MoveError> {
    match (before, asked) {
        (Ok(before), Ok(more)) => Ok(before + more),
        (Ok(before), Err(_)) => Ok(before),
        (Err(_), asked) => asked,
    }
}
