//! One term by itself, then terms of several coordinators in made-up time: from a seed they are stopped and
//! go on, messages are late or lost, and etcd is away.

use std::collections::BTreeMap;

use weir_api::v1;

use crate::host::Latest;

use super::super::link::is_done;
use super::super::wire::{KeyValue, RangeResponse, ResponseOp, TxnResponse};
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
        write: Write,
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
        write: Write,
        answer: TxnResponse,
    },
    /// To an agent: what its host has to run.
    Shares {
        term: i64,
        revision: u64,
    },
}

/// A revision, to be written at a version of the key `leader`.
#[derive(Clone, Copy, PartialEq)]
struct Write {
    revision: u64,
    version: i64,
}

struct Coordinator {
    /// The term in which it believes to lead, and the revision that it has.
    leads: Option<(Term, u64)>,
    /// The version of the key `leader`, as it knows it.
    version: i64,
    /// The write under way, and when it is sent again.
    writes: Option<(Write, u64)>,
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
    version: i64,
    away_until: u64,
    written: (i64, u64),
    // The agent: the latest that it has heard, and what it runs.
    latest: Latest,
    runs: (i64, u64),
    terms: u64,
    late: u64,
    /// Writes that came once more, and later than another one.
    stale: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let coordinator = |turn| Coordinator {
            leads: None,
            version: 0,
            writes: None,
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
            version: 0,
            away_until: 0,
            written: (0, 0),
            latest: Latest::default(),
            runs: (0, 0),
            terms: 0,
            late: 0,
            stale: 0,
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
            coordinator.writes = None;
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
            0 => self.write(turn, number, revision + 1),
            1 | 2 => self.send(Message::Shares {
                term: number,
                revision,
            }),
            _ => {}
        }
    }

    /// Begins to write a revision, or sends the write under way again: nobody knows whether it was done.
    fn write(&mut self, turn: usize, term: i64, revision: u64) {
        let now = self.now;
        let coordinator = &mut self.coordinators[turn];
        let version = coordinator.version;
        let begun = Write { revision, version };
        let (write, again) = coordinator.writes.get_or_insert((begun, now));
        if now < *again {
            return;
        }
        let write = *write;
        *again = now + 1_500;
        self.send(Message::Write {
            by: turn,
            term,
            write,
        });
    }

    /// etcd takes a write, where it is the next one.
    fn put(&mut self, term: i64, write: Write) -> TxnResponse {
        let leader = self.leader.map_or(0, |(term, _)| term);
        let succeeded = leader == term && write.version == self.version;
        if succeeded {
            assert_eq!(write.revision, self.written.1 + 1, "not the next one");
            self.changes += 1;
            self.version += 1;
            self.written = (term, write.revision);
        } else if leader == term && write.version + 1 < self.version {
            self.stale += 1;
        }
        let read = KeyValue {
            create_revision: leader,
            version: self.version,
            ..KeyValue::default()
        };
        let range = RangeResponse {
            kvs: if leader > 0 { vec![read] } else { Vec::new() },
            more: false,
        };
        TxnResponse {
            header: None,
            succeeded,
            responses: match succeeded {
                true => Vec::new(),
                false => vec![ResponseOp { range: Some(range) }],
            },
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
                self.version = 1;
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
            Message::Write { by, term, write } => {
                let answer = self.put(term, write);
                self.send(Message::Written {
                    by,
                    term,
                    write,
                    answer,
                });
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
        let coordinator = &mut self.coordinators[by];
        match (message, &mut coordinator.leads) {
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
                coordinator.version = 1;
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
                    term: of,
                    write,
                    answer,
                    ..
                },
                Some((term, has)),
            ) if term.number() == of => {
                // An answer to a write that was answered already says nothing.
                if coordinator
                    .writes
                    .is_none_or(|(under_way, _)| under_way != write)
                {
                    return;
                }
                coordinator.writes = None;
                if answer.succeeded || is_done(&answer, term, write.version) {
                    *has = write.revision;
                    coordinator.version = write.version + 1;
                } else {
                    term.end("another one leads");
                }
            }
            _ => {}
        }
    }
}

#[test]
fn never_two_lead_and_no_host_goes_back() {
    let (mut terms, mut late, mut revisions, mut stale) = (0, 0, 0, 0);
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
        stale += world.stale;
        revisions += world.written.1;
    }
    // All that is looked for has happened.
    assert!(
        terms > 1_000 && late > 10 && revisions > 1_000 && stale > 10,
        "{terms} {late} {revisions} {stale}"
    );
}
