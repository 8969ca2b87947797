//! The switch's side of a lease.

use weir_packet::Time;

use super::{Ask, DRIFT, LONGEST, Told, Want};

/// Leases after whose end a tenant that could not renew its own gives up.
const PATIENCE: u64 = 2;

/// How a contender stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// Another switch has the place, or the voters have not said that it is free.
    Waits,
    /// It has asked for the place, in this generation.
    Asks(u16),
    /// It has had the place in this generation; whether it has it now, [`Contender::holds`] says.
    Has(u16),
    /// It had the place, and can't have it again in its generation.
    Lost,
}

/// A voter as its contender knows it.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Its last answer.
    told: Option<Told>,
    /// When it was asked for the newest promise of this generation.
    granted: Option<Time>,
}

/// A switch that would like the place, or has it.
#[derive(Clone, Debug)]
pub struct Contender {
    start: u32,
    voters: Vec<Known>,
    length: u64,
    interval: u64,
    stand: Stand,
    /// When it asks next.
    next: Time,
    /// When it may ask for the place.
    not_before: Time,
    /// When it began to ask for the place.
    since: Time,
    attempts: u32,
    dead: Option<u32>,
    /// The generation in which it has asked in vain: voters are told that others may have the place.
    in_vain: Option<u16>,
    /// The generation in which it asked last, and does not ask again.
    tried: u16,
}

impl Contender {
    /// One with this `start`, of so many voters. `length` and `interval` in ns: of a lease, and
    /// between two questions. The length is at least four intervals.
    pub fn new(now: Time, start: u32, voters: usize, length: u64, interval: u64) -> Contender {
        let interval = interval.clamp(1, LONGEST / 4);
        Contender {
            start,
            voters: vec![Known::default(); voters],
            length: length.clamp(4 * interval, LONGEST),
            interval,
            stand: Stand::Waits,
            next: now,
            not_before: now,
            since: now,
            attempts: 0,
            dead: None,
            in_vain: None,
            tried: 0,
        }
    }

    /// How it stands.
    pub fn stand(&self) -> Stand {
        self.stand
    }

    /// A switch with this start is known to be dead: nobody need wait for the end of its lease.
    pub fn know_dead(&mut self, now: Time, start: u32) {
        if self.dead.replace(start) != Some(start) {
            self.next = now;
        }
    }

    /// When its lease ends; `None` while it has none.
    pub fn until(&self) -> Option<Time> {
        if !matches!(self.stand, Stand::Has(_)) {
            return None;
        }
        let mut granted: Vec<Time> = self.voters.iter().filter_map(|its| its.granted).collect();
        granted.sort_unstable_by(|a, b| b.cmp(a));
        let last = granted.get(self.majority() - 1)?;
        Some(last.plus(self.length - self.length / DRIFT))
    }

    /// True while it may do what the switch alone may.
    pub fn holds(&self, now: Time) -> bool {
        self.until().is_some_and(|until| now < until)
    }

    /// When [`Contender::poll`] has something to do.
    pub fn next(&self) -> Time {
        self.next
    }

    /// The question that is due, to all voters.
    pub fn poll(&mut self, now: Time) -> Option<Ask> {
        self.judge(now);
        if now < self.next || self.stand == Stand::Lost {
            return None;
        }
        self.next = now.plus(self.interval);
        if let Some(generation) = self.in_vain.take() {
            return Some(self.ask(now, Want::Withdraw(generation)));
        }
        let want = match self.stand {
            Stand::Has(generation) if self.holds(now) => Want::Keep(generation),
            Stand::Asks(generation) => Want::Place(generation),
            Stand::Has(generation) if self.may_renew() => Want::Place(generation),
            Stand::Has(_) | Stand::Waits | Stand::Lost => Want::Look,
        };
        Some(self.ask(now, want))
    }

    /// Gives the place up, or does not want it any more: the question that says so.
    pub fn leave(&mut self, now: Time) -> Option<Ask> {
        let stand = core::mem::replace(&mut self.stand, Stand::Lost);
        match stand {
            Stand::Asks(generation) => Some(self.ask(now, Want::Withdraw(generation))),
            Stand::Has(generation) => Some(self.ask(now, Want::Leave(generation))),
            Stand::Waits | Stand::Lost => None,
        }
    }

    /// A voter's answer, `voter` by its place. False where it is none to a question of this one's.
    pub fn hear(&mut self, now: Time, voter: usize, told: Told) -> bool {
        let Some(known) = self.voters.get_mut(voter) else {
            return false;
        };
        if told.start != self.start || told.asked > now {
            return false;
        }
        if known.told.is_none_or(|before| before.asked <= told.asked) {
            known.told = Some(told);
        }
        let (Stand::Asks(generation) | Stand::Has(generation)) = self.stand else {
            return true;
        };
        let own = [Want::Place(generation), Want::Keep(generation)];
        if told.granted && own.contains(&told.want) {
            known.granted = known.granted.max(Some(told.asked));
        }
        self.judge(now);
        true
    }

    /// Voters that have answered lately, by their places.
    pub fn heard(&self, now: Time) -> impl Iterator<Item = usize> {
        let oldest = self.lately(now);
        let all = self.voters.iter().enumerate();
        let lately = all.filter(move |(_, its)| its.told.is_some_and(|told| told.asked >= oldest));
        lately.map(|(voter, _)| voter)
    }

    /// Since its lease has ended most voters have answered, and say that nobody else has the place.
    /// One that hears no answers must not ask: voters that hear it would keep the place for it.
    fn may_renew(&self) -> bool {
        let until = self.until().unwrap_or(self.since);
        let told = self.voters.iter().filter_map(|its| its.told);
        let told = told.filter(|told| told.asked >= until);
        let own = told.filter(|told| told.by.is_none_or(|by| by.start == self.start));
        own.count() >= self.majority()
    }

    fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    fn lately(&self, now: Time) -> Time {
        Time(now.0.saturating_sub(self.length))
    }

    fn ask(&self, now: Time, want: Want) -> Ask {
        Ask {
            asked: now,
            start: self.start,
            want,
            length: self.length,
            dead: self.dead,
        }
    }

    /// Looks whether it stands otherwise by now.
    fn judge(&mut self, now: Time) {
        match self.stand {
            Stand::Waits => self.stand_up(now),
            Stand::Asks(generation) => {
                self.stand = Stand::Has(generation);
                if self.holds(now) {
                    return;
                }
                self.stand = Stand::Asks(generation);
                if now.since(self.since) >= self.length {
                    self.in_vain = Some(generation);
                    self.next = now;
                    self.back_off(now);
                }
            }
            Stand::Has(generation) => {
                let until = self.until().unwrap_or(self.since);
                let replaced = |its: &&Known| {
                    let by = its.told.and_then(|told| told.by);
                    by.is_some_and(|by| by.start != self.start && by.generation >= generation)
                };
                let others = self.voters.iter().filter(replaced).count();
                let can_not = others > self.voters.len() - self.majority();
                if can_not || now > until.plus(PATIENCE * self.length) {
                    self.stand = Stand::Lost;
                }
            }
            Stand::Lost => {}
        }
    }

    /// Asks for the place where most voters say that nobody has it.
    fn stand_up(&mut self, now: Time) {
        if now < self.not_before {
            return;
        }
        let oldest = self.lately(now);
        let told = self.voters.iter().filter_map(|its| its.told);
        let told = told.filter(|told| told.asked >= oldest);
        let free = told.clone().filter(|told| told.free).count();
        if free < self.majority() {
            return;
        }
        let newest = told.map(|told| told.newest).max().unwrap_or(0);
        let newest = newest.max(self.tried);
        // Generations have run out: nobody gets the place before the voters start anew.
        let Some(generation) = newest.checked_add(1) else {
            return;
        };
        for its in &mut self.voters {
            its.granted = None;
        }
        self.stand = Stand::Asks(generation);
        self.tried = generation;
        (self.since, self.next) = (now, now);
    }

    /// Others ask at the same time: waits for a time of its own.
    fn back_off(&mut self, now: Time) {
        self.attempts = self.attempts.wrapping_add(1);
        let mixed = u64::from(self.start ^ self.attempts.wrapping_mul(0x9e37_79b9));
        let mixed = mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32;
        self.not_before = now.plus(self.length + mixed % self.length);
        self.stand = Stand::Waits;
    }
}
