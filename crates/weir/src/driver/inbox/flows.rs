//! Questions about flows. Those that need a look at every flow walk over them
//! in slices, so that packets never wait for all of it.

use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use weir_packet::filter::{Ends, Facts, Filter};
use weir_packet::{FlowKey, Time};
use weir_runtime::{FlowName, OpenFlow, Remembered, Runtime};

use super::super::executor::Part;
use super::{Reply, Shows};

/// Records that are looked at in a slice.
const SLICE: u32 = 1_024;
/// Flows that are ended in a slice: their events must fit the log.
const ENDS: usize = 128;

/// What to sort flows by; most first, but for the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowSort {
    /// As they are found.
    None,
    Packets,
    Age,
    Idle,
    Client,
    Server,
}

/// Which flows are to be listed.
#[derive(Clone, Debug)]
pub(crate) struct FlowsQuestion {
    pub(crate) filter: Arc<Filter>,
    pub(crate) sort: FlowSort,
    pub(crate) reverse: bool,
    pub(crate) limit: usize,
}

/// One flow that was seen before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowQuestion {
    /// Number of its chain.
    pub(crate) chain: usize,
    pub(crate) record: u32,
    pub(crate) id: u64,
}

/// An open flow, seen at a time.
#[derive(Clone, Debug)]
pub(crate) struct FlowSeen {
    /// Number of its thread, which whoever asks several of them writes here.
    pub(crate) thread: u32,
    /// Number of its chain, and the chain's name.
    pub(crate) number: usize,
    pub(crate) chain: String,
    pub(crate) flow: OpenFlow,
    pub(crate) names: Vec<FlowName>,
    pub(crate) now: Time,
}

/// What a thread knows of one flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlowParts {
    /// The flow, where this thread has opened it.
    pub(crate) seen: Option<FlowSeen>,
    /// Its states here, each with the number of its stage.
    pub(crate) states: Vec<(usize, Remembered)>,
}

/// A flow with its states.
#[derive(Clone, Debug)]
pub(crate) struct StatesSeen {
    pub(crate) seen: FlowSeen,
    pub(crate) states: Vec<Remembered>,
}

/// The flows that match.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlowsFound {
    pub(crate) flows: Vec<FlowSeen>,
    pub(crate) matched: u64,
    /// Flows that were open.
    pub(crate) active: u64,
    /// All flows were looked at.
    pub(crate) whole: bool,
    /// The thread runs chains.
    pub(crate) here: bool,
}

/// Puts the flows that are to be shown first.
pub(crate) fn in_order(flows: &mut [FlowSeen], sort: FlowSort, reverse: bool) {
    let client = |seen: &FlowSeen| seen.flow.key.source(seen.flow.client);
    let server = |seen: &FlowSeen| seen.flow.key.destination(seen.flow.client);
    flows.sort_by(|a, b| {
        let order = match sort {
            FlowSort::None => Ordering::Equal,
            FlowSort::Packets => b.flow.packets.cmp(&a.flow.packets),
            FlowSort::Age => a.flow.opened.cmp(&b.flow.opened),
            FlowSort::Idle => a.flow.last_seen.cmp(&b.flow.last_seen),
            FlowSort::Client => client(a).cmp(&client(b)),
            FlowSort::Server => server(a).cmp(&server(b)),
        };
        let order = if reverse { order.reverse() } else { order };
        // The same question gives the same list.
        order
            .then(a.number.cmp(&b.number))
            .then(a.thread.cmp(&b.thread))
            .then(a.flow.id.cmp(&b.flow.id))
    });
}

#[derive(Debug)]
enum Task {
    List {
        wanted: FlowsQuestion,
        found: FlowsFound,
        reply: Option<Reply<FlowsFound>>,
    },
    End {
        filter: Arc<Filter>,
        ended: Option<Ended>,
        reply: Option<Reply<Option<Ended>>>,
    },
}

/// Flows that were ended.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// By the thread that was asked.
    here: u64,
    /// A number of each that a switch was asked to end: one that moves is met
    /// where it was and where it is.
    asked: Vec<u64>,
}

impl Ended {
    /// How many flows these are together.
    pub(crate) fn count(all: impl IntoIterator<Item = Ended>) -> u64 {
        let (mut here, mut asked) = (0, Vec::new());
        for ended in all {
            here += ended.here;
            asked.extend(ended.asked);
        }
        asked.sort_unstable();
        asked.dedup();
        here + asked.len() as u64
    }
}

/// Stands for a flow: its chain, unit and key. Units' numbers are never used
/// again.
fn number_of(flow: (usize, u64, [u64; 6])) -> u64 {
    let mut hasher = DefaultHasher::new();
    flow.hash(&mut hasher);
    hasher.finish()
}

/// A walk over all flows of a thread, chain by chain.
#[derive(Debug)]
pub(super) struct Walk {
    chain: usize,
    record: u32,
    task: Task,
}

impl Walk {
    pub(super) fn list(wanted: FlowsQuestion, reply: Reply<FlowsFound>) -> Walk {
        Walk::new(Task::List {
            wanted,
            found: FlowsFound::default(),
            reply: Some(reply),
        })
    }

    pub(super) fn end(filter: Arc<Filter>, reply: Reply<Option<Ended>>) -> Walk {
        Walk::new(Task::End {
            filter,
            ended: None,
            reply: Some(reply),
        })
    }

    fn new(task: Task) -> Walk {
        Walk {
            chain: 0,
            record: 0,
            task,
        }
    }

    /// Goes on for a slice: true where it has come to its end, or nobody waits
    /// for it any more.
    pub(super) fn step(&mut self, shows: &mut dyn Shows) -> bool {
        if self.task.is_forgotten() {
            return true;
        }
        if matches!(self.task, Task::End { .. }) && shows.room_for_ends() < ENDS {
            return false;
        }
        let now = shows.now();
        let Walk {
            chain,
            record,
            task,
        } = self;
        let (number, mut more, mut asked) = (*chain, false, Vec::new());
        shows.parts(&mut |mut part| {
            if part.stage != 0 || part.chain != number {
                return;
            }
            let now = now.unwrap_or(part.runtime.now());
            more = task.step(&mut part, now, record, &mut asked);
            if !more {
                *chain = usize::MAX;
            } else if *record >= part.runtime.flow_records() {
                *chain += 1;
                *record = 0;
            }
        });
        if let Task::End { ended, .. } = task {
            for (unit, key) in asked {
                if shows.ask_for_end(number, unit, key) {
                    let asked = &mut ended.get_or_insert_default().asked;
                    asked.push(number_of((number, unit, key.to_words())));
                }
            }
            shows.take_events();
        }
        if more {
            return false;
        }
        self.task.done(self.chain != usize::MAX);
        true
    }
}

impl Task {
    /// Looks at the flows of a runtime from `record` on; those that a switch is
    /// to end go to `asked`. False where enough was found.
    fn step(
        &mut self,
        part: &mut Part<'_>,
        now: Time,
        record: &mut u32,
        asked: &mut Vec<(u64, FlowKey)>,
    ) -> bool {
        let runtime = &mut *part.runtime;
        let last = runtime.flow_records().min(record.saturating_add(SLICE));
        match self {
            Task::List { wanted, found, .. } => {
                found.here = true;
                for record in *record..last {
                    if !look(runtime, part.chain, record, now, wanted, found) {
                        return false;
                    }
                }
                *record = last;
            }
            Task::End { filter, ended, .. } => {
                let mut here = 0;
                while *record < last && here + asked.len() < ENDS {
                    let record = std::mem::replace(record, *record + 1);
                    let flow = runtime.open_flow(record);
                    let Some(flow) = flow.filter(|flow| matches(filter, runtime, flow)) else {
                        continue;
                    };
                    if let Some(unit) = runtime.unit_under_switch(record) {
                        asked.push((unit, flow.key));
                    } else if runtime.end_open_flow(part.pool, record, flow.id, part.output) {
                        here += 1;
                    }
                }
                ended.get_or_insert_default().here += here as u64;
            }
        }
        true
    }

    fn is_forgotten(&self) -> bool {
        match self {
            Task::List { reply, .. } => reply.as_ref().is_none_or(Reply::is_closed),
            Task::End { reply, .. } => reply.as_ref().is_none_or(Reply::is_closed),
        }
    }

    fn done(&mut self, whole: bool) {
        match self {
            Task::List {
                wanted,
                found,
                reply,
            } => {
                let mut found = std::mem::take(found);
                shorten(&mut found.flows, wanted);
                found.whole = whole;
                if let Some(reply) = reply.take() {
                    let _ = reply.send(found);
                }
            }
            Task::End { ended, reply, .. } => {
                if let Some(reply) = reply.take() {
                    let _ = reply.send(ended.take());
                }
            }
        }
    }
}

/// Sorts, and keeps no more than is wanted.
fn shorten(flows: &mut Vec<FlowSeen>, wanted: &FlowsQuestion) {
    in_order(flows, wanted.sort, wanted.reverse);
    flows.truncate(wanted.limit);
}

/// Looks at a record: false where enough was found.
fn look(
    runtime: &Runtime,
    number: usize,
    record: u32,
    now: Time,
    wanted: &FlowsQuestion,
    found: &mut FlowsFound,
) -> bool {
    let Some(flow) = runtime.open_flow(record) else {
        return true;
    };
    found.active += 1;
    if !matches(&wanted.filter, runtime, &flow) {
        return true;
    }
    found.matched += 1;
    found.flows.push(seen(runtime, number, flow, now));
    if wanted.sort == FlowSort::None {
        return found.flows.len() < wanted.limit;
    }
    // Sorted now and then, so that what is kept is bounded.
    if found.flows.len() >= 2 * wanted.limit.max(512) {
        shorten(&mut found.flows, wanted);
    }
    true
}

fn seen(runtime: &Runtime, number: usize, flow: OpenFlow, now: Time) -> FlowSeen {
    FlowSeen {
        thread: 0,
        number,
        chain: runtime.chain().to_owned(),
        names: runtime.flow_names(flow.record),
        now,
        flow,
    }
}

fn matches(filter: &Filter, runtime: &Runtime, flow: &OpenFlow) -> bool {
    if filter.takes_all() {
        return true;
    }
    let own = Ends::of(&flow.key, flow.client);
    let others = runtime.flow_names(flow.record);
    let others = others.iter().map(|name| Ends::of(&name.key, name.client));
    let names: Vec<Ends> = std::iter::once(own).chain(others).collect();
    filter.matches(&Facts {
        names: &names,
        chain: Some(runtime.chain()),
        phase: Some(flow.phase.name()),
        id: Some(flow.id),
        to_server: Some(true),
        ..Facts::default()
    })
}

/// A flow, if it is still there, and its states.
pub(super) fn parts_of(asked: FlowQuestion, shows: &mut dyn Shows) -> FlowParts {
    let now = shows.now();
    let mut all = FlowParts::default();
    shows.parts(&mut |part| {
        let runtime = &*part.runtime;
        let here = part.chain == asked.chain && runtime.holds_flow(asked.record, asked.id);
        if !here {
            return;
        }
        if part.stage == 0
            && let Some(flow) = runtime.open_flow(asked.record)
        {
            let now = now.unwrap_or(runtime.now());
            all.seen = Some(seen(runtime, asked.chain, flow, now));
        }
        let states = runtime.remembered(asked.record).into_iter();
        all.states.extend(states.map(|state| (part.stage, state)));
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flow that moves while it is ended is in two runtimes.
    #[test]
    fn a_flow_that_was_asked_for_twice_has_ended_once() {
        let asked = |unit: u64| number_of((0, unit, [1, 2, 3, 4, 5, unit]));
        let one = Ended {
            here: 3,
            asked: vec![asked(1), asked(2)],
        };
        let other = Ended {
            here: 4,
            asked: vec![asked(2), asked(3), number_of((1, 2, [1, 2, 3, 4, 5, 2]))],
        };
        assert_eq!(Ended::count([one, other]), 7 + 4);
    }
}
