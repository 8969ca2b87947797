//! The voter's side of a lease.

use weir_packet::Time;

use super::{Ask, LONGEST, Tenant, Told, Want};

/// Promises the place of a switch to one at a time.
#[derive(Clone, Debug)]
pub struct Voter {
    born: Time,
    /// The last tenant, and when its lease ends.
    last: Option<(Tenant, Time)>,
    /// The one before it, whose lease had ended, and the newest generation promised then.
    before: (Option<(Tenant, Time)>, u16),
    /// The newest generation promised here.
    promised: u16,
    /// The newest generation that it was told of.
    known: u16,
}

/// All that a voter knows, for one that goes on where this one is. Times are of its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoterState {
    /// When it started.
    pub born: Time,
    /// The last tenant, and when its lease ends.
    pub last: Option<(Tenant, Time)>,
    /// The one before it, and the newest generation promised then.
    pub before: (Option<(Tenant, Time)>, u16),
    /// The newest generation promised.
    pub promised: u16,
    /// The newest generation that it was told of.
    pub known: u16,
}

impl Voter {
    /// Its promises, for a voter that goes on where this one is.
    pub fn state(&self) -> VoterState {
        VoterState {
            born: self.born,
            last: self.last,
            before: self.before,
            promised: self.promised,
            known: self.known,
        }
    }

    /// One that goes on from there.
    pub fn resume(state: VoterState) -> Voter {
        Voter {
            born: state.born,
            last: state.last,
            before: state.before,
            promised: state.promised,
            known: state.known,
        }
    }

    /// A voter that starts `now`: it forgets at its end what it has promised.
    pub fn new(now: Time) -> Voter {
        Voter {
            born: now,
            last: None,
            before: (None, 0),
            promised: 0,
            known: 0,
        }
    }

    /// There is a switch of this generation, or there was one: none gets the place that is not newer,
    /// but the one that has it.
    pub fn know(&mut self, generation: u16) {
        self.known = self.known.max(generation);
    }

    /// The tenant whose lease runs.
    pub fn tenant(&self, now: Time) -> Option<Tenant> {
        let lives = self.last.filter(|(_, until)| *until > now);
        lives.map(|(tenant, _)| tenant)
    }

    /// Answers a question.
    pub fn hear(&mut self, now: Time, ask: &Ask) -> Told {
        if let Some((tenant, until)) = &mut self.last
            && ask.dead == Some(tenant.start)
        {
            *until = now;
        }
        let granted = match ask.want {
            Want::Look => false,
            Want::Place(generation) | Want::Keep(generation) => self.promise(now, generation, ask),
            Want::Leave(generation) => {
                if let Some((_, until)) = self.last_of(ask, generation) {
                    *until = now;
                }
                false
            }
            Want::Withdraw(generation) => {
                if self.last_of(ask, generation).is_some() {
                    (self.last, self.promised) = self.before;
                }
                false
            }
        };
        Told {
            asked: ask.asked,
            start: ask.start,
            want: ask.want,
            granted,
            by: self.tenant(now),
            free: self.is_free(now, ask.length.min(LONGEST)),
            newest: self.promised.max(self.known),
        }
    }

    /// The last promise, if the one that asks has it.
    fn last_of(&mut self, ask: &Ask, generation: u16) -> Option<&mut (Tenant, Time)> {
        let start = ask.start;
        let own = Tenant { generation, start };
        self.last.as_mut().filter(|(last, _)| *last == own)
    }

    /// True where a question for a lease of this length would be granted, its generation aside.
    fn is_free(&self, now: Time, length: u64) -> bool {
        self.tenant(now).is_none() && now.since(self.born) >= length
    }

    fn promise(&mut self, now: Time, generation: u16, ask: &Ask) -> bool {
        let length = ask.length.min(LONGEST);
        let is_free = self.is_free(now, length);
        // A tenant may renew a lease that ran out, as long as no other got one since.
        if let Some((_, until)) = self.last_of(ask, generation) {
            *until = now.plus(length);
            return true;
        }
        // Nobody but the tenant has had the place in the generation in which it has it.
        let keeps = matches!(ask.want, Want::Keep(_)) && generation == self.known;
        let is_newer = generation > self.promised && (generation > self.known || keeps);
        if !is_free || !is_newer {
            return false;
        }
        let start = ask.start;
        self.before = (self.last, self.promised);
        self.last = Some((Tenant { generation, start }, now.plus(length)));
        self.promised = generation;
        true
    }
}
