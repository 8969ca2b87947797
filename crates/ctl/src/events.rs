//! Events of a run's runtimes and hosts, for operators (`weir events`). The threads that look after these
//! write them, the control interface reads them.
//!
//! Lines that functions write about flows are something else: a run's event file has those.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::command::Site;

/// Events that are kept: the oldest are forgotten first.
pub const KEPT: usize = 1_000;
/// Longest reason of a death, in octets: a panic or an agent may say a lot.
const LONGEST: usize = 1_024;

/// The kind of an event, with its facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A runtime starts: its thread or process was made.
    RuntimeStarts,
    /// It may own units, so long after its start.
    RuntimeReady(Duration),
    /// It has died, or did not start.
    RuntimeDied {
        /// Why, and what comes of it.
        why: String,
        /// The runtime that takes its place.
        next: Option<u32>,
    },
    /// It gives away the units that it owns.
    RuntimeDrains {
        /// So many.
        units: u64,
    },
    /// It has finished, as it was told to.
    RuntimeEnded,
    /// Units go to another runtime, as was asked for.
    UnitsMove {
        /// The other runtime.
        to: u32,
        /// So many.
        units: u64,
    },
    /// Every unit has an owner again, and a replica if it is to have one; no move is under way.
    Recovered {
        /// Time since the first death was noticed.
        after: Duration,
        /// Units that were lost meanwhile.
        lost: u64,
    },
    /// The switch has died: why, and what comes of it.
    SwitchDied(String),
    /// A switch has started and takes over the runtimes that the one before has left.
    TookOver {
        /// Generation of the switch: 2 is the first one that takes over.
        generation: u16,
        /// Number of these runtimes.
        runtimes: usize,
    },
    /// The agent of a host is ready.
    HostReady,
    /// The agent of a host has died, or did not start: why.
    HostDied(String),
    /// The agent or the switch of a host has become another program: which one.
    Upgraded(String),
    /// A runtime is started or drained, as its load and that of others ask for: why.
    Scaled(String),
}

impl What {
    /// Every kind.
    pub const KINDS: [&'static str; 13] = [
        "runtime_starts",
        "runtime_ready",
        "runtime_died",
        "runtime_drains",
        "runtime_ended",
        "units_move",
        "recovered",
        "switch_died",
        "took_over",
        "host_ready",
        "host_died",
        "upgraded",
        "scaled",
    ];

    /// Its kind in a word, one of [`What::KINDS`].
    pub const fn kind(&self) -> &'static str {
        let place = match self {
            What::RuntimeStarts => 0,
            What::RuntimeReady(_) => 1,
            What::RuntimeDied { .. } => 2,
            What::RuntimeDrains { .. } => 3,
            What::RuntimeEnded => 4,
            What::UnitsMove { .. } => 5,
            What::Recovered { .. } => 6,
            What::SwitchDied(_) => 7,
            What::TookOver { .. } => 8,
            What::HostReady => 9,
            What::HostDied(_) => 10,
            What::Upgraded(_) => 11,
            What::Scaled(_) => 12,
        };
        What::KINDS[place]
    }

    /// Units that it is about: those that are given away, moved or lost.
    pub const fn units(&self) -> Option<u64> {
        match self {
            What::RuntimeDrains { units } | What::UnitsMove { units, .. } => Some(*units),
            What::Recovered { lost, .. } => Some(*lost),
            _ => None,
        }
    }

    /// The other runtime: the one that takes the place of a dead one, or gets units.
    pub const fn other(&self) -> Option<u32> {
        match self {
            What::RuntimeDied { next, .. } => *next,
            What::UnitsMove { to, .. } => Some(*to),
            _ => None,
        }
    }

    /// How long it took.
    pub const fn took(&self) -> Option<Duration> {
        match self {
            What::RuntimeReady(after) | What::Recovered { after, .. } => Some(*after),
            _ => None,
        }
    }

    /// Cuts a reason to its bound.
    fn cut(&mut self) {
        if let What::RuntimeDied { why, .. } | What::HostDied(why) | What::SwitchDied(why) = self
            && why.len() > LONGEST
        {
            why.truncate(why.floor_char_boundary(LONGEST));
            why.push('…');
        }
    }
}

/// For people.
impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::RuntimeStarts => f.write_str("starts"),
            What::RuntimeReady(after) => {
                write!(f, "is ready, {:.3} s after its start", after.as_secs_f64())
            }
            What::RuntimeDied { why, .. } | What::HostDied(why) | What::SwitchDied(why) => {
                f.write_str(why)
            }
            What::RuntimeDrains { units } => write!(f, "gives its units away: {units}"),
            What::RuntimeEnded => f.write_str("has ended"),
            What::UnitsMove { to, units } => write!(f, "units go to runtime {to}: {units}"),
            What::Recovered { after, lost } => write!(
                f,
                "every unit has its owner again, and its replica if it is to have one, {:.3} s \
                 after the death was noticed; units lost: {lost}",
                after.as_secs_f64()
            ),
            What::TookOver {
                generation,
                runtimes,
            } => write!(
                f,
                "switch {generation} takes the runtimes of the one before over: {runtimes}"
            ),
            What::HostReady => f.write_str("its agent is ready"),
            What::Scaled(what) => f.write_str(what),
            What::Upgraded(to) => write!(f, "upgraded: {to}"),
        }
    }
}

/// The subject of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// A runtime, by its number, and where it is.
    Runtime(u32, Site),
    /// A host, by its name.
    Host(String),
    /// All of them.
    Cluster,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number in the run: the first is 1, and each has the next one.
    pub number: u64,
    /// When it was noted.
    pub at: SystemTime,
    /// Its subject.
    pub about: About,
    /// Its kind and facts.
    pub what: What,
}

#[derive(Debug, Default)]
struct Kept {
    noted: u64,
    newest: VecDeque<Event>,
}

/// The newest events of a run, shared. None is on the way of a packet.
#[derive(Clone, Debug, Default)]
pub struct Events(Arc<Mutex<Kept>>);

impl Events {
    /// Notes what has happened now.
    pub fn note(&self, about: About, mut what: What) {
        what.cut();
        let mut kept = self.locked();
        kept.noted += 1;
        if kept.newest.len() == KEPT {
            kept.newest.pop_front();
        }
        let number = kept.noted;
        kept.newest.push_back(Event {
            number,
            at: SystemTime::now(),
            about,
            what,
        });
    }

    /// The number of the newest one; 0 where nothing has happened: a run without a switch has no
    /// runtimes that it looks after.
    pub fn newest(&self) -> u64 {
        self.locked().noted
    }

    /// Those after a number, `most` at most, the oldest first. Where its number is not the
    /// next one, those between are forgotten.
    pub fn after(&self, number: u64, most: usize) -> Vec<Event> {
        let kept = self.locked();
        let first = kept.newest.partition_point(|event| event.number <= number);
        kept.newest.iter().skip(first).take(most).cloned().collect()
    }

    /// Events that a panic left are as good as before: each is written at once.
    fn locked(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(events: &[Event]) -> Vec<u64> {
        events.iter().map(|event| event.number).collect()
    }

    #[test]
    fn they_are_read_in_parts_and_in_order() {
        let events = Events::default();
        assert!(events.after(0, 10).is_empty());
        for host in ["alpha", "beta", "gamma"] {
            events.note(About::Host(host.to_owned()), What::HostReady);
        }
        assert_eq!(numbers(&events.after(0, 2)), [1, 2]);
        assert_eq!(numbers(&events.after(2, 2)), [3]);
        assert!(events.after(3, 2).is_empty());
        assert_eq!(events.after(1, 1)[0].about, About::Host("beta".to_owned()));
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let events = Events::default();
        for units in 0..KEPT as u64 + 5 {
            events.note(About::Cluster, What::RuntimeDrains { units });
        }
        let all = events.after(0, 2 * KEPT);
        assert_eq!(all.len(), KEPT);
        assert_eq!((all[0].number, all[0].what.units()), (6, Some(5)));
        assert_eq!(numbers(&events.after(KEPT as u64 + 4, 9)), [1_005]);
    }

    #[test]
    fn a_long_reason_is_cut() {
        let events = Events::default();
        let why = "ä".repeat(LONGEST);
        events.note(About::Host("beta".to_owned()), What::HostDied(why));
        let kept = events.after(0, 1).remove(0).what.to_string();
        assert_eq!(kept, format!("{}…", "ä".repeat(LONGEST / 2)));
        assert_eq!(events.newest(), 1);
    }

    #[test]
    fn kinds_are_those_of_the_table() {
        let some = [
            What::RuntimeStarts,
            What::RuntimeReady(Duration::from_millis(20)),
            What::RuntimeDied {
                why: "it was killed".to_owned(),
                next: Some(4),
            },
            What::RuntimeDrains { units: 1 },
            What::RuntimeEnded,
            What::UnitsMove { to: 2, units: 1 },
            What::Recovered {
                after: Duration::from_millis(410),
                lost: 2,
            },
            What::SwitchDied("it was killed".to_owned()),
            What::TookOver {
                generation: 2,
                runtimes: 3,
            },
            What::HostReady,
            What::HostDied("it was killed".to_owned()),
            What::Upgraded("the next one".to_owned()),
            What::Scaled("starts runtime 3".to_owned()),
        ];
        let kinds: Vec<&str> = some.iter().map(What::kind).collect();
        assert_eq!(kinds, What::KINDS);
        assert_eq!(
            some[6].to_string(),
            "every unit has its owner again, and its replica if it is to have one, 0.410 s after the \
             death was noticed; units lost: 2"
        );
    }
}
