//! Several chains behind one set of processes, as where a file has several: the switch's process has
//! a switch for each of them, and a runtime's has the actors of each.
//!
//! Each chain is a world with a checker, a plan of packets and moves, and memory of its own. The
//! first one leads: it owns the others, runs their events between its own, and does to
//! all of them in the same moment what happens to processes and links. What a failure may be is asked of
//! all.

use weir_protocol::message::MoveMode;
use weir_protocol::{RuntimeId, Switch};

use super::cluster::Seen;
use super::links::{Links, ProcessNo};
use super::process::{Body, Process};
use super::{Event, Phase, World};
use crate::check::Violation;
use crate::slip::Slip;

impl<'a> World<'a> {
    /// True where it is another chain's that does what happens to processes.
    pub(super) const fn follows(&self) -> bool {
        self.chain_no > 0
    }

    /// The other chains' worlds, at this time.
    pub(super) fn others(&mut self) -> impl Iterator<Item = &mut World<'a>> {
        for other in &mut self.others {
            other.begin(self.now);
        }
        self.others.iter_mut()
    }

    /// The world whose event is next, 0 for this one's own; one that is over has none.
    fn next_world(&self) -> Option<usize> {
        let goes_on = |world: &World<'_>| world.phase != Phase::Over;
        let own = self.queue.next_at().filter(|_| goes_on(self));
        let others = self.others.iter().map(|other| {
            let at = other.queue.next_at();
            at.filter(|_| goes_on(other))
        });
        let all = [own].into_iter().chain(others).enumerate();
        let next = all.filter_map(|(number, at)| Some((at?, number))).min();
        next.map(|(_, number)| number)
    }

    /// Has the next event of any chain happen; false where there is none.
    pub(super) fn one_event(&mut self) -> bool {
        let number = match self.others.is_empty() {
            true => Some(0),
            false => self.next_world(),
        };
        let Some(number) = number else {
            return false;
        };
        let Some(place) = number.checked_sub(1) else {
            return self.own_event();
        };
        let Some(other) = self.others.get_mut(place) else {
            return false;
        };
        // All lines go to one trace, in their order.
        core::mem::swap(&mut self.trace, &mut other.trace);
        other.trace.of_chain(number);
        let happened = other.own_event();
        other.trace.of_chain(0);
        core::mem::swap(&mut self.trace, &mut other.trace);
        // The others do what this world does: its time is theirs.
        self.now = self.now.max(other.now);
        happened
    }

    /// The first violation in any chain.
    pub(super) fn violation(&self) -> Option<Violation> {
        let others = self.others.iter().map(|other| {
            let violation = other.checker.violation()?;
            let text = format!("chain {}: {}", other.chain_no, violation.text);
            Some(Violation {
                text,
                ..violation.clone()
            })
        });
        let own = self.checker.violation().cloned();
        own.or_else(|| others.flatten().next())
    }

    /// True where all chains' runs are over.
    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over && self.others.iter().all(|other| other.phase == Phase::Over)
    }

    /// True where a death of these is one that loses nothing in any chain.
    pub(super) fn can_lose(&self, dying: &[RuntimeId]) -> bool {
        let here = self.checker.can_lose(dying, &Seen(&self.processes));
        here && self.others.iter().all(|other| other.can_lose(dying))
    }

    /// Runtimes may die that some unit depends on: none of this chain's is promised any more.
    pub(super) fn more_than_promised(&mut self, dying: &[RuntimeId]) {
        if !self.checker.can_lose(dying, &Seen(&self.processes)) {
            self.count("beyond_promise");
            self.checker.lenient = true;
        }
        self.others()
            .for_each(|other| other.more_than_promised(dying));
    }

    /// Tells the other chains' switches of a death.
    pub(super) fn others_notice(&mut self, no: ProcessNo) {
        if self.settings.slip() != Some(Slip::DeathToldToOne) {
            self.others().for_each(|other| other.notice(no));
        }
    }

    /// Does something to the links of all chains, which are the same.
    pub(super) fn each_link(&mut self, change: impl Fn(&mut Links)) {
        change(&mut self.links);
        for other in &mut self.others {
            change(&mut other.links);
        }
    }

    /// The switch's process is gone, or another is to take its place.
    pub(super) fn switch_is_gone(&mut self) {
        self.switch = None;
        self.checker.switch_is_gone();
        self.others().for_each(World::switch_is_gone);
    }

    /// True where some chain takes the process for dead, and it lives; or it is a switch
    /// that was replaced.
    pub(super) fn is_zombie(&self, no: ProcessNo) -> bool {
        let is_one = |process: &Process| {
            let is_old = process.runtime().is_none() && Some(no) != self.switch;
            process.is_alive() && (process.suspected || is_old)
        };
        self.processes.get(no).is_some_and(is_one)
            || self.others.iter().any(|other| other.is_zombie(no))
    }

    /// A runtime is gone that one chain took for dead: those that did not are to hear of its death.
    pub(super) fn tell_trusting(&mut self, no: ProcessNo) {
        let Some(id) = self.runtime_id(no) else {
            return;
        };
        let trusts = |world: &World<'_>| {
            let process = world.processes.get(no);
            let serves = |switch: &Switch| switch.is_in_service(id);
            // One that gathers claims may wait for it.
            process.is_some_and(|process| !process.suspected)
                || world.running_switch().is_some_and(serves)
        };
        if !self.others.is_empty() && (trusts(self) || self.others.iter().any(trusts)) {
            self.schedule(self.now, Event::Notice(no));
        }
    }

    /// Some chain would have too few runtimes left for a drain.
    pub(super) fn is_too_small_to_drain(&self) -> bool {
        self.useful().len() < 3 || self.others.iter().any(World::is_too_small_to_drain)
    }

    /// Each chain's switch gives a runtime's units away.
    pub(super) fn drain_runtime(&mut self, (no, id): (ProcessNo, RuntimeId), mode: MoveMode) {
        let time = self.time();
        if let Some(Body::Switch(switch)) = self.current_switch()
            && switch.drain(time, id, mode).is_ok()
            && let Some(process) = self.processes.get_mut(no)
        {
            process.draining = true;
            self.count("drained");
        }
        self.after_switch();
        self.reconfigure();
        self.others()
            .for_each(|other| other.drain_runtime((no, id), mode));
    }

    /// A drained runtime may leave: it has no unit of any chain.
    pub(super) fn may_leave(&self, id: RuntimeId) -> bool {
        let is_drained = |switch: &Switch| switch.is_drained(id);
        let here = self.running_switch().is_some_and(is_drained);
        let sees_one = self.settings.slip() == Some(Slip::LeavesWithUnits);
        let mut others = self.others.iter();
        here && (sees_one || others.all(|other| other.phase != Phase::Over && other.may_leave(id)))
    }

    /// Each chain's switch lets a runtime go.
    pub(super) fn let_leave(&mut self, no: ProcessNo, id: RuntimeId) {
        let time = self.time();
        if let Some(Body::Switch(switch)) = self.current_switch() {
            switch.leave(time, id);
        }
        self.after_switch();
        self.say(None, || format!("r{} leaves", id.0));
        self.count("left");
        self.check_left(no);
        self.others().for_each(|other| other.let_leave(no, id));
    }

    /// A runtime that has left is no failure in any chain.
    pub(super) fn has_left(&mut self, no: ProcessNo) {
        if let Some(process) = self.processes.get_mut(no) {
            process.suspect();
        }
        self.others().for_each(|other| other.has_left(no));
    }

    /// The runtime counts as suspected in all chains: the next switch is not told of it.
    pub(super) fn suspect_everywhere(&mut self, no: ProcessNo) {
        if let Some(process) = self.processes.get_mut(no) {
            process.suspect();
        }
        self.others().for_each(|other| other.suspect_everywhere(no));
    }
}
