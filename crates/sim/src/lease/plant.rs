//! Planted bugs: each has to be found by a rule.
//!
//! They stand between the state machines and the world, and change what a voter or a contender hears
//! or says. The state machines have no line for them.

use weir_control::lease::{Ask, Stand, Tenant, Told, Voter, Want};
use weir_packet::Time;

/// A bug of a voter or of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// A voter that has just started promises at once.
    PromisesAtOnce,
    /// A voter now and then forgets its tenant.
    TenantForgotten,
    /// A voter promises the place in a generation that is not newer.
    OlderGeneration,
    /// A voter promises for half of what it was asked for.
    LengthIgnored,
    /// A voter takes the word of one contender that it leaves for that of another one.
    LeaveOfAnybody,
    /// A voter takes the word of a contender that it leaves, of an older generation, for this one.
    LeaveOfBefore,
    /// A voter that hears of any death frees the place.
    AnyDeath,
    /// A voter says yes to its tenant before, too.
    TenantBefore,
    /// A voter does not let its tenant renew.
    RenewalRefused,
    /// A voter takes a promise that was in vain for one that was used.
    WithdrawalIgnored,
    /// A voter that knows of a generation refuses it to its tenant, too.
    KnownRefused,
    /// A contender counts from when it hears.
    CountsFromHearing,
    /// Half of an even number of voters is enough for a contender.
    HalfIsEnough,
    /// One voter's promise is enough for a contender.
    OneIsEnough,
    /// A contender takes answers to the start before it in its place.
    AnswersOfBefore,
    /// A contender asks for the place without looking.
    NoLook,
    /// A contender looks at its lease with the time of its last question.
    OldTime,
    /// A tenant asks again when its lease is over.
    AsksLate,
}

impl Plant {
    /// All.
    pub const ALL: [Plant; 18] = [
        Plant::PromisesAtOnce,
        Plant::TenantForgotten,
        Plant::OlderGeneration,
        Plant::LengthIgnored,
        Plant::LeaveOfAnybody,
        Plant::LeaveOfBefore,
        Plant::AnyDeath,
        Plant::TenantBefore,
        Plant::RenewalRefused,
        Plant::WithdrawalIgnored,
        Plant::KnownRefused,
        Plant::CountsFromHearing,
        Plant::HalfIsEnough,
        Plant::OneIsEnough,
        Plant::AnswersOfBefore,
        Plant::NoLook,
        Plant::OldTime,
        Plant::AsksLate,
    ];

    /// Its name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Plant::PromisesAtOnce => "promises-at-once",
            Plant::TenantForgotten => "tenant-forgotten",
            Plant::OlderGeneration => "older-generation",
            Plant::LengthIgnored => "length-ignored",
            Plant::LeaveOfAnybody => "leave-of-anybody",
            Plant::LeaveOfBefore => "leave-of-before",
            Plant::AnyDeath => "any-death",
            Plant::TenantBefore => "tenant-before",
            Plant::RenewalRefused => "renewal-refused",
            Plant::WithdrawalIgnored => "withdrawal-ignored",
            Plant::KnownRefused => "known-refused",
            Plant::CountsFromHearing => "counts-from-hearing",
            Plant::HalfIsEnough => "half-is-enough",
            Plant::OneIsEnough => "one-is-enough",
            Plant::AnswersOfBefore => "answers-of-before",
            Plant::NoLook => "no-look",
            Plant::OldTime => "old-time",
            Plant::AsksLate => "asks-late",
        }
    }
}

/// A voter, perhaps with a bug.
#[derive(Clone, Debug)]
pub(super) struct PlantedVoter {
    voter: Voter,
    plant: Option<Plant>,
    born: Time,
    heard: u64,
    /// Its last tenant, and the one before.
    last: Option<Tenant>,
    before: Option<Tenant>,
}

impl PlantedVoter {
    pub(super) fn new(now: Time, plant: Option<Plant>) -> PlantedVoter {
        let born = match plant {
            Some(Plant::PromisesAtOnce) => Time::ZERO,
            _ => now,
        };
        PlantedVoter {
            voter: Voter::new(born),
            plant,
            born,
            heard: 0,
            last: None,
            before: None,
        }
    }

    pub(super) fn know(&mut self, generation: u16) {
        self.voter.know(generation);
    }

    pub(super) fn tenant(&self, now: Time) -> Option<Tenant> {
        self.voter.tenant(now)
    }

    pub(super) fn hear(&mut self, now: Time, ask: &Ask) -> Told {
        let mut ask = *ask;
        self.heard += 1;
        let had = self.voter.tenant(now);
        self.mistake(&mut ask, had);
        let mut told = self.voter.hear(now, &ask);
        self.misspeak(now, &ask, had, &mut told);
        if told.granted && told.by.is_some() && told.by != self.last {
            self.before = core::mem::replace(&mut self.last, told.by);
        }
        told
    }

    /// Changes a question before it is heard.
    fn mistake(&mut self, ask: &mut Ask, had: Option<Tenant>) {
        ask.want = match (self.plant, ask.want) {
            (Some(Plant::WithdrawalIgnored), Want::Withdraw(generation)) => Want::Leave(generation),
            (Some(Plant::KnownRefused), Want::Keep(generation)) => Want::Place(generation),
            (_, want) => want,
        };
        match (self.plant, had) {
            (Some(Plant::LengthIgnored), _) => ask.length /= 2,
            (Some(Plant::AnyDeath), Some(had)) if ask.dead.is_some() => {
                ask.dead = Some(had.start);
            }
            (Some(Plant::LeaveOfAnybody), Some(had)) if is_end(ask.want) => {
                ask.want = Want::Leave(had.generation);
                ask.start = had.start;
            }
            (Some(Plant::LeaveOfBefore), Some(had))
                if is_end(ask.want) && had.start == ask.start =>
            {
                ask.want = Want::Leave(had.generation);
            }
            _ => {}
        }
    }

    /// Changes an answer, or what the voter knows after it.
    fn misspeak(&mut self, now: Time, ask: &Ask, had: Option<Tenant>, told: &mut Told) {
        let (Want::Place(generation) | Want::Keep(generation)) = ask.want else {
            return;
        };
        let own = Tenant {
            generation,
            start: ask.start,
        };
        match self.plant {
            Some(Plant::TenantForgotten) if self.heard.is_multiple_of(16) => {
                self.voter = Voter::new(Time::ZERO);
                self.voter.know(told.newest);
            }
            Some(Plant::OlderGeneration)
                if !told.granted && told.by.is_none() && now.since(self.born) >= ask.length =>
            {
                self.voter = Voter::new(Time::ZERO);
                *told = self.voter.hear(now, ask);
            }
            Some(Plant::TenantBefore) if self.before == Some(own) => told.granted = true,
            Some(Plant::RenewalRefused) if had == Some(own) => told.granted = false,
            _ => {}
        }
    }
}

/// A contender says so that it has the place no more.
fn is_end(want: Want) -> bool {
    matches!(want, Want::Leave(_) | Want::Withdraw(_))
}

/// What a contender with a bug hears: the places of the voters that seem to say so, and the answer.
pub(super) fn misheard(plant: Option<Plant>, now: Time, start: u32, told: &mut Told) {
    match plant {
        Some(Plant::CountsFromHearing) => told.asked = now,
        Some(Plant::AnswersOfBefore) => told.start = start,
        _ => {}
    }
}

/// A contender of this stand does not ask, though it should.
pub(super) fn is_late(plant: Option<Plant>, stand: Stand, holds: bool) -> bool {
    plant == Some(Plant::AsksLate) && holds && matches!(stand, Stand::Has(_))
}

/// What a contender that does not look takes for the answer of each voter.
pub(super) fn unlooked(now: Time, start: u32, newest: u16) -> Told {
    Told {
        asked: now,
        start,
        want: Want::Look,
        granted: false,
        by: None,
        free: true,
        newest,
    }
}
