//! Processes of a run: seats of contenders and booths of voters.

use weir_control::lease::{Ask, Contender, Stand, Tenant, Told};
use weir_packet::Time;

use super::super::check::Holder;
use super::super::clock::Clock;
use super::super::plant::{Plant, PlantedVoter};
use super::super::scene::Scene;
use super::pause::Pause;
use crate::random::Random;

/// Clocks are read in whole ns: an end is a few too late.
const ROUNDED: u64 = 4;

/// A host that has a contender, one start after another.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    clock: Clock,
    contender: Option<Contender>,
    start: u32,
    pause: Pause<Told>,
    /// When it is polled next.
    due: Option<u64>,
    /// When it asked last, on its own clock.
    asked: Time,
    /// The newest generation that a voter has told.
    newest: u16,
    /// A voter that it does not know of.
    unknown: Option<usize>,
    voters: usize,
}

impl Seat {
    pub(super) fn draw(random: &mut Random, scene: &Scene) -> Seat {
        Seat {
            clock: Clock::draw(random, scene.length),
            contender: None,
            start: 0,
            pause: Pause::new(),
            due: None,
            asked: Time::ZERO,
            newest: 0,
            unknown: None,
            voters: scene.voters,
        }
    }

    pub(super) fn is_there(&self) -> bool {
        self.contender.is_some()
    }

    pub(super) fn is_still(&self) -> bool {
        self.pause.is_on()
    }

    pub(super) fn stand(&self) -> Option<Stand> {
        self.contender.as_ref().map(Contender::stand)
    }

    pub(super) fn start(
        &mut self,
        now: u64,
        place: usize,
        start: u32,
        scene: &Scene,
        plant: Option<Plant>,
    ) {
        let local = self.clock.local(now);
        self.unknown = match plant {
            Some(Plant::HalfIsEnough) if scene.voters.is_multiple_of(2) => {
                Some(place % scene.voters)
            }
            _ => None,
        };
        let known = scene.voters - usize::from(self.unknown.is_some());
        let contender = Contender::new(local, start, known, scene.length, scene.interval);
        self.contender = Some(contender);
        (self.start, self.due, self.asked, self.newest) = (start, None, local, 0);
    }

    /// Its contender has ended: the start, if there was one.
    pub(super) fn end(&mut self) -> Option<u32> {
        self.contender.take()?;
        self.pause.clear();
        self.due = None;
        Some(self.start)
    }

    /// When it is to be polled, if that is not planned.
    pub(super) fn plan_poll(&mut self, now: u64, jitter: u64) -> Option<u64> {
        let contender = self.contender.as_ref().filter(|_| !self.pause.is_on())?;
        let next = self.clock.when(contender.next());
        let due = next.max(now) + 1 + jitter;
        // One that is due sooner is enough.
        if self
            .due
            .is_some_and(|planned| planned >= now && planned <= due)
        {
            return None;
        }
        self.due = Some(due);
        Some(due)
    }

    pub(super) fn is_due(&self, now: u64) -> bool {
        self.due == Some(now) && !self.pause.is_on()
    }

    pub(super) fn poll(&mut self, now: u64, is_late: impl Fn(Stand, bool) -> bool) -> Option<Ask> {
        let local = self.clock.local(now);
        self.due = None;
        let contender = self.contender.as_mut()?;
        self.asked = local;
        let ask = contender.poll(local);
        ask.filter(|_| !is_late(contender.stand(), contender.holds(local)))
    }

    /// An answer has come: the time on its own clock and its start, unless the answer has to wait.
    pub(super) fn is_ready(&mut self, now: u64, voter: usize, told: Told) -> Option<(Time, u32)> {
        self.contender.as_ref()?;
        if self.pause.is_on() {
            self.pause.keep(voter, told);
            return None;
        }
        Some((self.clock.local(now), self.start))
    }

    pub(super) fn hear(&mut self, now: u64, voter: usize, told: Told) {
        let voter = match self.unknown {
            Some(unknown) if unknown == voter => return,
            Some(unknown) if unknown < voter => voter - 1,
            _ => voter,
        };
        self.newest = self.newest.max(told.newest);
        if let Some(contender) = self.contender.as_mut() {
            contender.hear(self.clock.local(now), voter, told);
        }
    }

    /// Takes the place for free without having looked.
    pub(super) fn believe_free(&mut self, now: u64, told: impl Fn(Time, u32, u16) -> Told) {
        if self.stand() == Some(Stand::Waits) {
            let told = told(self.clock.local(now), self.start, self.newest);
            for voter in 0..self.voters {
                self.hear(now, voter, told);
            }
        }
    }

    /// Who it is, and the true time of the end of its lease, while it holds the place.
    pub(super) fn holds(&self, now: u64, plant: Option<Plant>) -> Option<(Tenant, u64)> {
        let contender = self.contender.as_ref()?;
        let Stand::Has(generation) = contender.stand() else {
            return None;
        };
        let local = match plant {
            Some(Plant::OldTime) => self.asked,
            _ => self.clock.local(now),
        };
        let until = contender.until().filter(|_| contender.holds(local))?;
        let start = self.start;
        Some((Tenant { generation, start }, self.clock.when(until)))
    }

    /// It stands still from now on; the number of times that it has.
    pub(super) fn stop(&mut self) -> Option<u32> {
        self.contender.as_ref()?;
        let stops = self.pause.begin()?;
        self.due = None;
        Some(stops)
    }

    /// It goes on: answers that have waited.
    pub(super) fn resume(&mut self, stops: u32) -> Option<Vec<(usize, Told)>> {
        self.pause.end(stops)
    }

    pub(super) fn stops(&self) -> u32 {
        self.pause.stops()
    }

    pub(super) fn leave(&mut self, now: u64) -> Option<Ask> {
        if self.pause.is_on() {
            return None;
        }
        self.contender.as_mut()?.leave(self.clock.local(now))
    }

    pub(super) fn know_dead(&mut self, now: u64, start: u32) {
        let local = self.clock.local(now);
        if let Some(contender) = self.contender.as_mut().filter(|_| !self.pause.is_on()) {
            contender.know_dead(local, start);
        }
    }
}

/// A voter's process.
#[derive(Clone, Debug)]
pub(super) struct Booth {
    clock: Clock,
    voter: Option<PlantedVoter>,
    plant: Option<Plant>,
    pause: Pause<Ask>,
}

impl Booth {
    pub(super) fn draw(random: &mut Random, scene: &Scene, plant: Option<Plant>) -> Booth {
        let clock = Clock::draw(random, scene.length);
        Booth {
            clock,
            voter: Some(PlantedVoter::new(clock.local(0), plant)),
            plant,
            pause: Pause::new(),
        }
    }

    pub(super) fn is_there(&self) -> bool {
        self.voter.is_some()
    }

    pub(super) fn hear(&mut self, now: u64, place: usize, ask: &Ask) -> Option<Told> {
        let voter = self.voter.as_mut()?;
        if self.pause.is_on() {
            self.pause.keep(place, *ask);
            return None;
        }
        Some(voter.hear(self.clock.local(now), ask))
    }

    /// It lives, and has promised the place to a holder for as long as its lease.
    pub(super) fn has_promised(&self, holder: &Holder) -> bool {
        let until = self.clock.local(holder.until.saturating_sub(ROUNDED));
        let voter = self.voter.as_ref();
        voter.is_some_and(|voter| voter.tenant(until) == Some(holder.tenant))
    }

    /// True time `now`: it has this tenant.
    pub(super) fn has(&self, now: u64, tenant: Tenant) -> bool {
        let voter = self.voter.as_ref();
        voter.is_some_and(|voter| voter.tenant(self.clock.local(now)) == Some(tenant))
    }

    pub(super) fn know(&mut self, generation: u16) {
        if let Some(voter) = self.voter.as_mut() {
            voter.know(generation);
        }
    }

    /// False where it was dead.
    pub(super) fn die(&mut self) -> bool {
        self.pause.clear();
        self.voter.take().is_some()
    }

    /// False where it lived.
    pub(super) fn start(&mut self, now: u64) -> bool {
        if self.voter.is_some() {
            return false;
        }
        self.voter = Some(PlantedVoter::new(self.clock.local(now), self.plant));
        true
    }

    pub(super) fn stop(&mut self) -> Option<u32> {
        self.voter.as_ref()?;
        self.pause.begin()
    }

    /// It goes on: questions that have waited.
    pub(super) fn resume(&mut self, stops: u32) -> Option<Vec<(usize, Ask)>> {
        self.pause.end(stops)
    }

    pub(super) fn stops(&self) -> u32 {
        self.pause.stops()
    }
}
