//! Faults of a run, and their end.

use weir_control::lease::Stand;

use super::super::check::{Rule, Violation};
use super::super::scene::Kind;
use super::{Event, World};

impl World {
    /// Something fails, and later something else does.
    pub(super) fn trouble(&mut self) {
        if self.is_quiet {
            return;
        }
        let next = self.now + 1 + self.random.below(2 * self.scene.gap);
        self.at(next, Event::Trouble);
        let Some(kind) = self.random.pick(&self.scene.kinds).copied() else {
            return;
        };
        // The guarded tenant and its voters have faults of their own.
        let others = (0..self.scene.places).filter(|place| self.guarded != Some(*place));
        let others: Vec<usize> = others.collect();
        let Some(place) = self.random.pick(&others).copied() else {
            return;
        };
        let voter = self.random.below(self.scene.voters as u64) as usize;
        self.faults += 1;
        match kind {
            Kind::CutPair => self.cut(&[place], voter..voter + 1),
            Kind::CutOne if self.random.chance(500) => {
                self.cut(&[place], 0..self.scene.voters);
            }
            Kind::CutOne => self.cut(&others, voter..voter + 1),
            Kind::Crash => self.end(place),
            Kind::Stop => self.stop(place),
            Kind::CrashVoter if !self.scene.guarded => {
                let most = self.random.within(1, 3) * self.scene.length;
                let back = self.now + self.random.below(most);
                self.crash_voter(voter, back);
            }
            Kind::StopVoter if !self.scene.guarded => {
                let back = self.now + self.some_leases();
                self.stop_voter(voter, back);
            }
            Kind::CrashVoter | Kind::StopVoter => {}
            Kind::Leave => self.leave(place),
            Kind::Dead => self.tell_dead(place),
            Kind::Know => self.tell_generation(voter),
        }
    }

    /// A time of up to four leases, most often short.
    fn some_leases(&mut self) -> u64 {
        let most = self.random.within(1, 4 * self.scene.length);
        self.random.within(1, most)
    }

    /// Nothing gets from places to voters, or back, or both.
    fn cut(&mut self, places: &[usize], voters: core::ops::Range<usize>) {
        let until = self.now + self.some_leases();
        self.cut_until(places, voters, until);
    }

    fn cut_until(&mut self, places: &[usize], voters: core::ops::Range<usize>, until: u64) {
        let ways = self.random.below(3);
        for place in places.iter().copied() {
            for voter in voters.clone() {
                let Some(cut) = self.cuts.get_mut(place * self.scene.voters + voter) else {
                    continue;
                };
                if ways != 1 {
                    cut[0] = cut[0].max(until);
                }
                if ways != 0 {
                    cut[1] = cut[1].max(until);
                }
            }
        }
    }

    fn stop(&mut self, place: usize) {
        let back = self.now + self.some_leases();
        if let Some(stops) = self.seats.get_mut(place).and_then(|seat| seat.stop()) {
            self.at(back, Event::Resume { place, stops });
        }
    }

    /// A contender goes on: it may act before it hears anything.
    pub(super) fn resume(&mut self, place: usize, stops: u32) -> Result<(), Violation> {
        let seat = self.seats.get_mut(place);
        let Some(waits) = seat.and_then(|seat| seat.resume(stops)) else {
            return Ok(());
        };
        self.look()?;
        if self.random.chance(500) {
            self.settle(place);
        }
        for (voter, told) in waits {
            self.told(place, voter, told);
            self.look()?;
        }
        self.settle(place);
        Ok(())
    }

    fn crash_voter(&mut self, voter: usize, back: u64) {
        if self.booths.get_mut(voter).is_some_and(|booth| booth.die()) {
            self.check.dies(voter);
            self.at(back, Event::StartVoter { voter });
        }
    }

    pub(super) fn start_voter(&mut self, voter: usize) {
        let now = self.now;
        let Some(booth) = self.booths.get_mut(voter) else {
            return;
        };
        if booth.start(now) {
            self.check.starts(now, voter);
            if self.scene.told {
                booth.know(self.check.newest());
            }
        }
    }

    fn stop_voter(&mut self, voter: usize, back: u64) {
        if let Some(stops) = self.booths.get_mut(voter).and_then(|booth| booth.stop()) {
            self.at(back, Event::ResumeVoter { voter, stops });
        }
    }

    pub(super) fn resume_voter(&mut self, voter: usize, stops: u32) {
        let booth = self.booths.get_mut(voter);
        let waits = booth.and_then(|booth| booth.resume(stops));
        for (place, ask) in waits.into_iter().flatten() {
            self.asked(place, voter, ask);
        }
    }

    fn leave(&mut self, place: usize) {
        let now = self.now;
        let ask = self.seats.get_mut(place).and_then(|seat| seat.leave(now));
        if let Some(ask) = ask {
            self.ask_all(place, ask);
        }
        self.settle(place);
    }

    /// A contender hears of one that is dead, most often the last one.
    fn tell_dead(&mut self, place: usize) {
        let now = self.now;
        let start = if self.random.chance(700) {
            self.dead.last()
        } else {
            self.random.pick(&self.dead)
        };
        if let (Some(start), Some(seat)) = (start, self.seats.get_mut(place)) {
            seat.know_dead(now, *start);
            self.settle(place);
        }
    }

    fn tell_generation(&mut self, voter: usize) {
        let newest = self.check.newest();
        if let Some(booth) = self.booths.get_mut(voter) {
            booth.know(newest);
        }
    }

    /// Before faults began somebody has got the place, with the promises of all voters.
    pub(super) fn guard(&mut self) -> Result<(), Violation> {
        let now = self.now;
        let holds = |place: &usize| self.seats.get(*place)?.holds(now, None);
        let mut places = 0..self.scene.places;
        let found = places.find_map(|place| Some((place, holds(&place)?.0)));
        let has = |tenant| self.booths.iter().all(|booth| booth.has(now, tenant));
        let Some((guarded, tenant)) = found.filter(|(_, tenant)| has(*tenant)) else {
            let text = "nobody has all promises, and nothing has failed";
            return Err(Violation::new(Rule::Progress, now, text));
        };
        self.guarded = Some(guarded);
        self.check.guard(tenant);
        for place in 0..self.scene.places {
            let at = now + self.random.below(self.scene.length);
            self.at(at, Event::Start { place });
        }
        self.at(now, Event::Trouble);
        // Who found the place free before has asked in vain by then, and its questions have come.
        let calm = if self.scene.contested {
            2 * self.scene.length + self.scene.length / 4 + self.scene.latest.max(self.scene.delay)
        } else {
            0
        };
        self.at(now + calm, Event::Stretch);
        Ok(())
    }

    /// Some voters, fewer than half, are cut off from the guarded tenant, die or stand still. A stretch
    /// later they are there again, and then others.
    pub(super) fn stretch(&mut self) {
        let Some(guarded) = self.guarded.filter(|_| !self.is_quiet) else {
            return;
        };
        let length = self.scene.length;
        let back = self.now + self.some_leases();
        let most = self.scene.voters - self.scene.majority();
        let count = self.random.below(most as u64 + 1) as usize;
        let first = self.random.below(self.scene.voters as u64) as usize;
        for voter in first..first + count {
            let voter = voter % self.scene.voters;
            self.faults += 1;
            match self.random.below(4) {
                0 => self.crash_voter(voter, back),
                1 => self.stop_voter(voter, back),
                _ => self.cut_until(&[guarded], voter..voter + 1, back),
            }
        }
        // One that has started promises after a lease, and answers to others are old after two more.
        let wait = 3 * length + length / 4 + 3 * self.scene.interval;
        self.at(back + wait, Event::Stretch);
    }

    /// Faults end: cuts heal, who stands still goes on, and all start but some voters, fewer than half.
    pub(super) fn quiet(&mut self) {
        self.is_quiet = true;
        self.cuts.fill([0; 2]);
        let count = (self.scene.voters - self.scene.majority()) as u64;
        let mut dead = self.random.below(count + 1);
        for voter in 0..self.scene.voters {
            let stops = self.booths.get(voter).map_or(0, |booth| booth.stops());
            self.at(self.now, Event::ResumeVoter { voter, stops });
            let is_dead = self
                .booths
                .get(voter)
                .is_some_and(|booth| !booth.is_there());
            if is_dead && dead == 0 {
                self.at(self.now, Event::StartVoter { voter });
            } else if is_dead {
                dead -= 1;
                self.plan.retain(|_, event| !starts(event, voter));
            }
        }
        for place in 0..self.scene.places {
            let stops = self.seats.get(place).map_or(0, |seat| seat.stops());
            self.at(self.now, Event::Resume { place, stops });
            let stand = self.seats.get(place).and_then(|seat| seat.stand());
            if matches!(stand, None | Some(Stand::Lost)) {
                let at = self.now + self.random.below(self.scene.interval);
                self.at(at, Event::Start { place });
            }
        }
        let messages = self.plan.iter().filter(|(_, event)| is_message(event));
        let last = messages.map(|((at, _), _)| *at).max().unwrap_or(0);
        // An answer to a question of before is on its way for this long.
        self.at(last.max(self.now) + 2 * self.scene.quick(), Event::Calm);
    }
}

fn is_message(event: &Event) -> bool {
    matches!(event, Event::Ask { .. } | Event::Told { .. })
}

fn starts(event: &Event, voter: usize) -> bool {
    matches!(event, Event::StartVoter { voter: its } if *its == voter)
}
