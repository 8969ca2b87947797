//! The remains of runtimes that are over. A run may last for months and see many of them, so
//! all of it is bounded: counts are summed up, and of the oldest deaths only the number is kept.

use std::collections::VecDeque;

use weir_protocol::RuntimeId;
use weir_runtime::{Lie, Report, add_named};

use super::super::runtime_done::RuntimeDone;
use super::end::RuntimeEnd;

/// Runtimes that died, or that were let go, of which the summary has a line each.
const MOST_ENDS: usize = 256;
/// Deaths of which the summary has a warning each.
const MOST_DEATHS: usize = 64;
/// Violations of descriptors that are kept.
const MOST_LIES: usize = 1_024;

/// Counts of runtimes that are over.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// Sums, per chain.
    pub(super) reports: Vec<Report>,
    /// Sums of what actors counted.
    pub(super) counts: Vec<(String, u64)>,
    pub(super) lies: Vec<Lie>,
    /// Those that finished as they were told to, oldest first; the first one may stand for several.
    finished: VecDeque<RuntimeEnd>,
    /// Those that died, likewise.
    dead: VecDeque<RuntimeEnd>,
    /// Events of flows that ended with the run, by the runtime's number.
    events: Vec<(u32, Vec<u8>)>,
}

impl Ended {
    /// Adds what a runtime has left.
    pub(super) fn push(&mut self, mut done: RuntimeDone) {
        for (chain, report) in done.reports.iter().enumerate() {
            match self.reports.get_mut(chain) {
                Some(sum) => sum.add(report),
                None => self.reports.push(report.clone()),
            }
        }
        add_named(&mut self.counts, &done.counts);
        let room = MOST_LIES.saturating_sub(self.lies.len());
        self.lies.extend(done.lies.drain(..).take(room));
        if !done.events.is_empty() {
            self.events
                .push((done.id.0, std::mem::take(&mut done.events)));
        }
        let end = RuntimeEnd {
            id: done.id,
            packets: done.packets,
            units: done.units,
            busy: done.busy,
            held_most: done.held_most,
            died: done.died,
            is_logger: false,
        };
        match end.died {
            true => push(&mut self.dead, end),
            false => push(&mut self.finished, end),
        }
    }

    /// Has a line for a runtime that died, also where it has told nothing yet.
    pub(super) fn note_dead(&mut self, id: RuntimeId) {
        if self.dead.iter().rev().all(|end| end.id != id) {
            self.push(RuntimeDone::of(id, Vec::new()).of_dead());
        }
    }

    /// Moves the events to the end of `into`, in the order of the runtimes; true where there
    /// were any.
    pub(super) fn take_events(&mut self, into: &mut Vec<u8>) -> bool {
        let any = self.has_events();
        self.events.sort_by_key(|(id, _)| *id);
        for (_, mut lines) in self.events.drain(..) {
            into.append(&mut lines);
        }
        any
    }

    pub(super) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Counts of each runtime, in the order of their numbers.
    pub(super) fn take_runtimes(&mut self) -> Vec<RuntimeEnd> {
        let mut all: Vec<RuntimeEnd> = self.finished.drain(..).chain(self.dead.drain(..)).collect();
        all.sort_by_key(|end| end.id);
        all
    }
}

/// Adds an end; the oldest ones are summed up where there are many.
fn push(ends: &mut VecDeque<RuntimeEnd>, end: RuntimeEnd) {
    ends.push_back(end);
    if ends.len() > MOST_ENDS
        && let (Some(oldest), Some(next)) = (ends.pop_front(), ends.front_mut())
    {
        next.packets += oldest.packets;
        next.busy += oldest.busy;
        next.held_most = next.held_most.max(oldest.held_most);
    }
}

/// Why runtimes have died while the run went on.
#[derive(Debug, Default)]
pub(super) struct Deaths {
    last: VecDeque<String>,
    count: u64,
}

impl Deaths {
    pub(super) fn push(&mut self, why: String) {
        self.count += 1;
        self.last.push_back(why);
        if self.last.len() > MOST_DEATHS {
            self.last.pop_front();
        }
    }

    pub(super) fn any(&self) -> bool {
        self.count > 0
    }

    /// The last ones, behind how many more there were.
    pub(super) fn take(&mut self) -> Vec<String> {
        let more = self.count - self.last.len() as u64;
        let more = (more > 0).then(|| format!("{more} more runtimes have died before those below"));
        self.count = 0;
        more.into_iter().chain(self.last.drain(..)).collect()
    }

    #[cfg(test)]
    pub(super) fn last(&self) -> Option<&String> {
        self.last.back()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn done(id: u32, died: bool) -> RuntimeDone {
        let report = Report {
            packets_in: 2,
            ..Report::default()
        };
        RuntimeDone {
            packets: 2,
            busy: Duration::from_millis(1),
            reports: vec![report],
            counts: vec![("held".to_owned(), 3)],
            died,
            ..RuntimeDone::of(RuntimeId(id), Vec::new())
        }
    }

    #[test]
    fn one_that_died_before_it_told_anything_has_a_line() {
        let mut ended = Ended::default();
        ended.note_dead(RuntimeId(3));
        ended.push(done(1, false));
        let runtimes = ended.take_runtimes();
        let seen = runtimes.iter().map(|end| (end.id.0, end.packets, end.died));
        assert_eq!(seen.collect::<Vec<_>>(), [(1, 2, false), (3, 0, true)]);
    }

    #[test]
    fn many_deaths_take_bounded_memory_and_are_all_counted() {
        let (mut ended, mut deaths) = (Ended::default(), Deaths::default());
        let many = 10 * MOST_ENDS as u32;
        for id in 1..=many {
            ended.push(done(id, true));
            deaths.push(format!("runtime {id} has died"));
        }
        ended.push(done(many + 1, false));
        ended.note_dead(RuntimeId(many));
        assert_eq!(ended.dead.len(), MOST_ENDS);
        assert_eq!(ended.reports[0].packets_in, 2 * u64::from(many + 1));
        assert_eq!(ended.counts, [("held".to_owned(), 3 * u64::from(many + 1))]);
        let runtimes = ended.take_runtimes();
        let packets: u64 = runtimes.iter().map(|end| end.packets).sum();
        assert_eq!(packets, 2 * u64::from(many + 1));
        assert_eq!(runtimes.last().map(|end| end.id.0), Some(many + 1));
        let said = deaths.take();
        assert_eq!(said.len(), MOST_DEATHS + 1);
        let more = many as usize - MOST_DEATHS;
        assert_eq!(
            said[0],
            format!("{more} more runtimes have died before those below")
        );
    }
}
