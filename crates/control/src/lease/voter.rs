//! The voter's side of a lease.

use weir_packet::Time;

use super::Tenant;
use super::{Ask, LONGEST, Told, Want};

/// Promises the place of a switch to one at a time.
#[derive(Clone, Debug)]
pub struct Voter {
    born: Time,
    /// The last tenant, and when its lease ends.
    last: Option<(Tenant, Time)>,
    newest: u16,
}

impl Voter {
    /// A voter that starts `now`: it forgets at its end what it has promised.
    pub fn new(now: Time) -> Voter {
        Voter {
            born: now,
            last: None,
            newest: 0,
        }
    }

    /// There is a switch of this generation, or there was one: none gets the place that is not newer.
    pub fn know(&mut self, generation: u16) {
        self.newest = self.newest.max(generation);
    }

    /// Who has the place.
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
            Want::Place(generation) => self.promise(now, generation, ask),
            Want::Leave(generation) => {
                let own = Tenant {
                    generation,
                    start: ask.start,
                };
                if let Some((_, until)) = self.last.as_mut().filter(|(last, _)| *last == own) {
                    *until = now;
                }
                false
            }
        };
        Told {
            asked: ask.asked,
            want: ask.want,
            granted,
            by: self.tenant(now),
            newest: self.newest,
        }
    }

    fn promise(&mut self, now: Time, generation: u16, ask: &Ask) -> bool {
        let length = ask.length.min(LONGEST);
        let own = Tenant {
            generation,
            start: ask.start,
        };
        // Whose lease ran out may have it again, as long as nobody else has had it.
        let renews = self.last.is_some_and(|(last, _)| last == own);
        let is_free = self.tenant(now).is_none() && now.since(self.born) >= length;
        let may = renews || (is_free && generation > self.newest);
        if may {
            self.last = Some((own, now.plus(length)));
            self.know(generation);
        }
        may
    }
}
