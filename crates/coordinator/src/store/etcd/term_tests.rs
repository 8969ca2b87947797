//! One term by itself, then terms of several coordinators in made-up time: from a seed they are stopped and
//! go on, messages are late or lost, and etcd is away.

use std::collections::BTreeMap;

use weir_api::v1;

use crate::host::Latest;

use super::*;

#[test]
fn it_lasts_as_long_as_the_lease() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let term = Term::new(7, 1, start, LEASE);
    assert!(term.leads(at(4)) && !term.leads(at(5)));
    // It counts from when it was asked, not from when the answer came.
    term.goes_on(at(3), LEASE);
    assert!(term.leads(at(7)) && !term.leads(at(8)));
    // A late answer takes nothing back.
    term.goes_on(at(1), LEASE);
    assert!(term.leads(at(7)));
    term.goes_on(at(6), Duration::ZERO);
    assert!(!term.leads(at(6)));
    term.end("something else");
    assert_eq!(term.over.borrow().as_deref(), Some("its lease is over"));
    // What is over does not begin again.
    term.goes_on(at(7), LEASE);
    assert!(!term.leads(at(7)));
}

/// Coordinators, and seconds of made-up time.
const COORDINATORS: usize = 3;
const SECONDS: u64 = 120;
/// Milliseconds of a step.
const STEP: u64 = 50;

/// Numbers from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// What is under way.
enum Message {
    /// To etcd: a coordinator wants to lead, asks for its lease, or writes the next revision.
    Campaign {
        by: usize,
        asked: u64,
    },
    Keep {
        by: usize,
        lease: i64,
        asked: u64,
    },
    Write {
        by: usize,
        term: i64,
        revision: u64,
    },
    /// Back from etcd.
    Leads {
        by: usize,
        term: i64,
        revision: u64,
        asked: u64,
    },
    Kept {
        by: usize,
        lease: i64,
        asked: u64,
        lasts: bool,
    },
    Written {
        by: usize,
        term: i64,
        revision: Option<u64>,
    },
    /// To an agent: what its host has to run.
    Shares {
        term: i64,
        revision: u64,
    },
}

struct Coordinator {
    /// The term in which it believes to lead, and the revision that it has.
    leads: Option<(Term, u64)>,
    stopped_until: u64,
    next_keep: u64,
    next_attempt: u64,
}

/// All of it at one moment.
struct World {
    start: Instant,
    now: u64,
    dice: Dice,
    under_way: BTreeMap<(u64, u64), Message>,
    count: u64,
    coordinators: Vec<Coordinator>,
    // etcd: its revision, who leads until when, and what was written last by which term.
    changes: i64,
    leader: Option<(i64, u64)>,
    away_until: u64,
    written: (i64, u64),
    // The agent: the latest that it has heard, and what it runs.
    latest: Latest,
    runs: (i64, u64),
    terms: u64,
    late: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let coordinator = |turn| Coordinator {
            leads: None,
            stopped_until: 0,
            next_keep: 0,
            next_attempt: turn * 100,
        };
        World {
            start: Instant::now(),
            now: 0,
            dice: Dice(seed),
            under_way: BTreeMap::new(),
            count: 0,
            coordinators: (0..COORDINATORS as u64).map(coordinator).collect(),
            changes: 0,
            leader: None,
            away_until: 0,
            written: (0, 0),
            latest: Latest::default(),
            runs: (0, 0),
            terms: 0,
            late: 0,
        }
    }

    fn at(&self, now: u64) -> Instant {
        self.start + Duration::from_millis(now)
    }

    /// Sends it, most often soon, and sometimes never.
    fn send(&mut self, message: Message) {
        let delay = match self.dice.below(20) {
            0 => return,
            1 => self.dice.below(8_000),
            _ => self.dice.below(60),
        };
        self.count += 1;
        self.under_way
            .insert((self.now + delay, self.count), message);
    }

    fn step(&mut self) {
        self.now += STEP;
        if self.dice.below(400) == 0 {
            self.away_until = self.now + self.dice.below(9_000);
        }
        while let Some(entry) = self.under_way.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let message = entry.remove();
            self.take(message);
        }
        for turn in 0..COORDINATORS {
            self.act(turn);
        }
        let leading = self.coordinators.iter().filter(|it| {
            let leads = it.leads.as_ref();
            leads.is_some_and(|(term, _)| term.leads(self.at(self.now)))
        });
        assert!(leading.count() <= 1, "two lead at {} ms", self.now);
    }

    /// What a coordinator does by itself.
    fn act(&mut self, turn: usize) {
        if self.coordinators[turn].stopped_until > self.now {
            return;
        }
        if self.dice.below(200) == 0 {
            self.coordinators[turn].stopped_until = self.now + self.dice.below(15_000);
            return;
        }
        let now = self.at(self.now);
        let asked = self.now;
        let coordinator = &mut self.coordinators[turn];
        let Some((term, revision)) = &coordinator.leads else {
            if coordinator.next_attempt <= asked {
                coordinator.next_attempt = asked + 500;
                self.send(Message::Campaign { by: turn, asked });
            }
            return;
        };
        if now >= term.lasts_until() {
            term.end("silence");
        }
        if !term.leads(now) {
            coordinator.leads = None;
            return;
        }
        let (number, lease, revision) = (term.number(), term.lease(), *revision);
        if coordinator.next_keep <= asked {
            coordinator.next_keep = asked + 1_000;
            self.send(Message::Keep {
                by: turn,
                lease,
                asked,
            });
        }
        match self.dice.below(10) {
            0 => self.send(Message::Write {
                by: turn,
                term: number,
                revision: revision + 1,
            }),
            1 | 2 => self.send(Message::Shares {
                term: number,
                revision,
            }),
            _ => {}
        }
    }

    /// What comes of a message.
    fn take(&mut self, message: Message) {
        let lasts = LEASE.as_millis() as u64;
        let is_away = self.away_until > self.now;
        if self.leader.is_some_and(|(_, until)| until <= self.now) && !is_away {
            self.leader = None;
        }
        match message {
            // What goes to etcd while that is away is lost.
            Message::Campaign { .. } | Message::Keep { .. } | Message::Write { .. } if is_away => {}
            Message::Campaign { by, asked } if self.leader.is_none() => {
                self.changes += 1;
                self.leader = Some((self.changes, self.now + lasts));
                let (term, revision) = (self.changes, self.written.1);
                self.send(Message::Leads {
                    by,
                    term,
                    revision,
                    asked,
                });
            }
            Message::Campaign { .. } => {}
            Message::Keep { by, lease, asked } => {
                let is_its = self.leader.is_some_and(|(term, _)| term == lease);
                if is_its {
                    self.leader = Some((lease, self.now + lasts));
                }
                self.send(Message::Kept {
                    by,
                    lease,
                    asked,
                    lasts: is_its,
                });
            }
            Message::Write { by, term, revision } => {
                let is_its = self.leader.is_some_and(|(leads, _)| leads == term);
                // A term's own writes come one after the other: it waits for each.
                let is_next = revision == self.written.1 + 1;
                if is_its && is_next {
                    self.changes += 1;
                    self.written = (term, revision);
                }
                let revision = is_its.then_some(self.written.1);
                self.send(Message::Written { by, term, revision });
            }
            Message::Shares { term, revision } => {
                let said = v1::Shares {
                    store: vec![1; 16],
                    term: term as u64,
                    ..v1::Shares::default()
                };
                if self.latest.takes(&said) {
                    assert!(term >= self.runs.0, "an older term was heard");
                    self.runs = (term, revision);
                } else {
                    self.late += 1;
                }
            }
            Message::Leads { .. } | Message::Kept { .. } | Message::Written { .. } => {
                self.answer(message);
            }
        }
    }

    /// An answer comes to a coordinator; where that is stopped, later.
    fn answer(&mut self, message: Message) {
        let (Message::Leads { by, .. } | Message::Kept { by, .. } | Message::Written { by, .. }) =
            message
        else {
            return;
        };
        let until = self.coordinators[by].stopped_until;
        if until > self.now {
            self.count += 1;
            self.under_way.insert((until, self.count), message);
            return;
        }
        let start = self.start;
        let at = |now| start + Duration::from_millis(now);
        let leads = &mut self.coordinators[by].leads;
        match (message, leads) {
            (
                Message::Leads {
                    term,
                    revision,
                    asked,
                    ..
                },
                leads @ None,
            ) => {
                *leads = Some((Term::new(term, term, at(asked), LEASE), revision));
                self.terms += 1;
            }
            (
                Message::Kept {
                    lease,
                    asked,
                    lasts,
                    ..
                },
                Some((term, _)),
            ) if term.lease() == lease => {
                term.goes_on(at(asked), if lasts { LEASE } else { Duration::ZERO });
            }
            (
                Message::Written {
                    term: of, revision, ..
                },
                Some((term, has)),
            ) if term.number() == of => match revision {
                Some(revision) => *has = revision.max(*has),
                None => term.end("another one leads"),
            },
            _ => {}
        }
    }
}

#[test]
fn never_two_lead_and_no_host_goes_back() {
    let (mut terms, mut late, mut revisions) = (0, 0, 0);
    for seed in 0..300 {
        let mut world = World::new(seed);
        let mut newest = (0, 0);
        while world.now < SECONDS * 1_000 {
            world.step();
            // What etcd has only grows, in terms and in revisions.
            assert!(
                world.written >= newest && world.written.0 >= newest.0,
                "seed {seed}"
            );
            assert!(world.written.1 >= newest.1, "seed {seed}");
            newest = world.written;
        }
        terms += world.terms;
        late += world.late;
        revisions += world.written.1;
    }
    // All that is looked for has happened.
    assert!(
        terms > 1_000 && late > 10 && revisions > 1_000,
        "{terms} {late} {revisions}"
    );
}
