//! Carries out `weir flows` on the threads that hold the flows. Listing and ending flows
//! visits every record, in slices between bursts: a packet waits for one slice at most.

use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use weir_packet::filter::{Ends, Facts, Filter};
use weir_packet::{FlowKey, Time};
use weir_runtime::{FlowName, OpenFlow, Remembered, Runtime};

use super::part::Part;
use super::reply::Reply;
use super::target::CommandTarget;

/// Flow records visited per slice.
const RECORDS_PER_SLICE: u32 = 1_024;
/// Most flows ended per slice, so that their events fit the event log.
const ENDS_PER_SLICE: usize = 128;

/// Sort order: packets, age and idle time descending; addresses ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowSort {
    /// By chain, thread and flow id; the walk stops at the limit.
    None,
    /// Most packets first.
    Packets,
    /// Oldest first.
    Age,
    /// Longest idle first.
    Idle,
    /// By the client's address and port.
    Client,
    /// By the server's address and port.
    Server,
}

/// Arguments of a flow listing.
#[derive(Clone, Debug)]
pub struct FlowsQuery {
    /// Flows that it matches are listed.
    pub filter: Arc<Filter>,
    /// Their order.
    pub sort: FlowSort,
    /// The order is turned round.
    pub reverse: bool,
    /// Most flows of the reply.
    pub limit: usize,
}

/// Identifies a flow of an earlier listing.
#[derive(Clone, Copy, Debug)]
pub struct FlowQuery {
    /// Index of the flow's chain.
    pub chain: usize,
    /// Number of its record in the flow table.
    pub record: u32,
    /// Its id; another one means that the record has a new flow.
    pub id: u64,
}

/// A snapshot of an open flow, taken at `now`.
#[derive(Clone, Debug)]
pub struct FlowSeen {
    /// Index of the flow's thread; 0 until the replies of several threads are merged.
    pub thread: u32,
    /// Index of the flow's chain.
    pub number: usize,
    /// Name of the chain.
    pub chain: String,
    /// The flow.
    pub flow: OpenFlow,
    /// Its further names.
    pub names: Vec<FlowName>,
    /// The time of the snapshot.
    pub now: Time,
}

/// One thread's reply about one flow.
#[derive(Clone, Debug, Default)]
pub struct FlowParts {
    /// The flow, if its first stage runs on this thread.
    pub seen: Option<FlowSeen>,
    /// The states of the flow on this thread, each with the index of its stage.
    pub states: Vec<(usize, Remembered)>,
}

/// A flow with its states.
#[derive(Clone, Debug)]
pub struct StatesSeen {
    /// The flow.
    pub seen: FlowSeen,
    /// Its states, in the order of the chain.
    pub states: Vec<Remembered>,
}

/// The flows that match.
#[derive(Clone, Debug, Default)]
pub struct FlowsFound {
    /// Those of the reply, at most as many as were asked for.
    pub flows: Vec<FlowSeen>,
    /// Open flows that match.
    pub matched: u64,
    /// Open flows visited, whether or not they match.
    pub active: u64,
    /// False if the walk stopped at the limit; the counts are partial then.
    pub whole: bool,
    /// The thread has a flow table.
    pub here: bool,
}

/// Sorts flows into the order in which they are shown.
pub fn in_order(flows: &mut [FlowSeen], sort: FlowSort, reverse: bool) {
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
        // Break ties, so that the same request gives the same order.
        order
            .then(a.number.cmp(&b.number))
            .then(a.thread.cmp(&b.thread))
            .then(a.flow.id.cmp(&b.flow.id))
    });
}

#[derive(Debug)]
enum Task {
    List {
        wanted: FlowsQuery,
        found: FlowsFound,
        reply: Option<Reply<FlowsFound>>,
    },
    End {
        filter: Arc<Filter>,
        ended: Option<Ended>,
        reply: Option<Reply<Option<Ended>>>,
    },
}

/// Counts of ended flows.
#[derive(Debug, Default)]
pub struct Ended {
    /// Flows that this thread ended itself.
    ended_here: u64,
    /// Hashes of the flows that a switch was asked to end. A flow that moves between
    /// runtimes may be found twice, so [`Ended::count`] removes duplicates.
    asked: Vec<u64>,
}

impl Ended {
    /// Its numbers: flows that ended, and hashes of those that a switch was asked to end.
    pub fn into_parts(self) -> (u64, Vec<u64>) {
        (self.ended_here, self.asked)
    }

    /// From the numbers that another process told.
    pub fn from_parts((ended_here, asked): (u64, Vec<u64>)) -> Ended {
        Ended { ended_here, asked }
    }

    /// Total over several threads; each flow counts once.
    pub fn count(all: impl IntoIterator<Item = Ended>) -> u64 {
        let (mut here, mut asked) = (0, Vec::new());
        for ended in all {
            here += ended.ended_here;
            asked.extend(ended.asked);
        }
        asked.sort_unstable();
        asked.dedup();
        here + asked.len() as u64
    }
}

/// Hash of a flow's chain, unit and key. Unit ids are never reused.
fn flow_hash(flow: (usize, u64, [u64; 6])) -> u64 {
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
    pub(super) fn list(wanted: FlowsQuery, reply: Reply<FlowsFound>) -> Walk {
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

    /// Visits one slice. True if the walk is complete or its caller has gone.
    pub(super) fn step(&mut self, target: &mut dyn CommandTarget) -> bool {
        if self.task.is_abandoned() {
            return true;
        }
        if matches!(self.task, Task::End { .. }) && target.room_for_ends() < ENDS_PER_SLICE {
            return false;
        }
        let now = target.now();
        let Walk {
            chain,
            record,
            task,
        } = self;
        let (number, mut more, mut asked) = (*chain, false, Vec::new());
        // A thread with flow tables runs all chains: the first index without a part
        // ends the walk.
        target.parts(&mut |mut part| {
            if part.stage != 0 || part.chain != number {
                return;
            }
            let now = now.unwrap_or(part.runtime.now());
            more = task.step(&mut part, now, record, &mut asked);
            if !more {
                *chain = usize::MAX; // stopped at the limit
            } else if *record >= part.runtime.flow_records() {
                *chain += 1;
                *record = 0;
            }
        });
        if let Task::End { ended, .. } = task {
            for (unit, key) in asked {
                if target.ask_for_end(number, unit, key) {
                    let asked = &mut ended.get_or_insert_default().asked;
                    asked.push(flow_hash((number, unit, key.to_words())));
                }
            }
            target.take_events();
        }
        if more {
            return false;
        }
        self.task.reply(self.chain != usize::MAX);
        true
    }
}

impl Task {
    /// Visits one slice of a runtime's records from `record` on, and advances
    /// `record`. Flows that a switch must end are added to `asked`. False if the
    /// limit was reached.
    fn step(
        &mut self,
        part: &mut Part<'_>,
        now: Time,
        record: &mut u32,
        asked: &mut Vec<(u64, FlowKey)>,
    ) -> bool {
        let runtime = &mut *part.runtime;
        let last = runtime
            .flow_records()
            .min(record.saturating_add(RECORDS_PER_SLICE));
        match self {
            Task::List { wanted, found, .. } => {
                found.here = true;
                for record in *record..last {
                    if !add_if_match(runtime, part.chain, record, now, wanted, found) {
                        return false;
                    }
                }
                *record = last;
            }
            Task::End { filter, ended, .. } => {
                let mut here = 0;
                while *record < last && here + asked.len() < ENDS_PER_SLICE {
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
                ended.get_or_insert_default().ended_here += here as u64;
            }
        }
        true
    }

    fn is_abandoned(&self) -> bool {
        match self {
            Task::List { reply, .. } => reply.as_ref().is_none_or(Reply::is_closed),
            Task::End { reply, .. } => reply.as_ref().is_none_or(Reply::is_closed),
        }
    }

    fn reply(&mut self, whole: bool) {
        match self {
            Task::List {
                wanted,
                found,
                reply,
            } => {
                let mut found = std::mem::take(found);
                sort_and_truncate(&mut found.flows, wanted);
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

/// Sorts, and truncates to the limit.
fn sort_and_truncate(flows: &mut Vec<FlowSeen>, wanted: &FlowsQuery) {
    in_order(flows, wanted.sort, wanted.reverse);
    flows.truncate(wanted.limit);
}

/// Adds the flow of a record to `found` if it matches. False if the limit was reached.
fn add_if_match(
    runtime: &Runtime,
    number: usize,
    record: u32,
    now: Time,
    wanted: &FlowsQuery,
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
    // Truncate from time to time, to hold at most twice the limit or 1,024 flows.
    if found.flows.len() >= 2 * wanted.limit.max(512) {
        sort_and_truncate(&mut found.flows, wanted);
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

/// A flow, if it is still open, and its states on this thread.
pub(super) fn parts_of(query: FlowQuery, target: &mut dyn CommandTarget) -> FlowParts {
    let now = target.now();
    let mut all = FlowParts::default();
    target.parts(&mut |part| {
        let runtime = &*part.runtime;
        let here = part.chain == query.chain && runtime.holds_flow(query.record, query.id);
        if !here {
            return;
        }
        if part.stage == 0
            && let Some(flow) = runtime.open_flow(query.record)
        {
            let now = now.unwrap_or(runtime.now());
            all.seen = Some(seen(runtime, query.chain, flow, now));
        }
        let states = runtime.remembered(query.record).into_iter();
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
        let asked = |unit: u64| flow_hash((0, unit, [1, 2, 3, 4, 5, unit]));
        let one = Ended {
            ended_here: 3,
            asked: vec![asked(1), asked(2)],
        };
        let other = Ended {
            ended_here: 4,
            asked: vec![asked(2), asked(3), flow_hash((1, 2, [1, 2, 3, 4, 5, 2]))],
        };
        assert_eq!(Ended::count([one, other]), 7 + 4);
    }
}
