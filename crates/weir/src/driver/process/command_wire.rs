//! Commands to the engines of a process and its replies, as bytes.
//!
//! They have a socket of their own with a thread at either end, so that no packet
//! waits for them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_ctl::command::{Comparison, FlowParts, FlowSeen, FlowSort, FlowsFound, FlowsQuery};
use weir_ctl::observe::{TapSpec, TraceSpec};
use weir_nf::host::Stage;
use weir_nf::{Phase, ShownField, ShownValue};
use weir_packet::filter::Filter;
use weir_packet::{Direction, FlowKey, Time};
use weir_protocol::actors::Compared;
use weir_runtime::watch::TapPoint;
use weir_runtime::{FlowName, OpenFlow, Remembered};

use super::Said;

/// Kinds of messages. The first goes to the process ([`NumberedCommand`]). The others
/// come from it and begin with a number: of the command, or of the watch.
pub(super) const COMMAND: u8 = 1;
/// It is done: a [`WireReply`], as JSON.
pub(super) const DONE: u8 = 2;
/// The number of parts of a trace lost so far, and a part as a message of the
/// control interface; no part where only the number has changed.
pub(super) const TRACED: u8 = 4;
/// Copies of a tap, as a message of the control interface.
pub(super) const TAPPED: u8 = 5;

/// Longest message.
pub(super) const LONGEST: usize = 16 << 20;

/// A command. The next one is sent when this one is done.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NumberedCommand {
    pub(super) number: u64,
    pub(super) command: WireCommand,
}

/// The number of a command, whatever it is.
#[derive(Debug, Deserialize)]
pub(super) struct Number {
    pub(super) number: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum WireCommand {
    /// Begins a trace.
    Trace {
        watch: u64,
        slot: u8,
        full: bool,
        /// What to look for; nothing where a first stage elsewhere asks whether a packet
        /// matches.
        of: Option<Traced>,
    },
    EndTrace {
        slot: u8,
    },
    /// Begins a tap. The main process, which gathers the packets, knows how many
    /// are enough.
    Tap {
        watch: u64,
        tap: u64,
        points: Vec<Point>,
        filter: String,
        snap_len: u32,
    },
    EndTap {
        tap: u64,
    },
    /// Tells the counts of all engines.
    Counts,
    /// Lists open flows.
    Flows {
        filter: String,
        sort: u8,
        reverse: bool,
        limit: usize,
    },
    /// Tells of a flow, and its states.
    Flow {
        chain: usize,
        record: u32,
        id: u64,
    },
    /// Ends flows.
    End {
        filter: String,
    },
    /// Tells how far the comparison of copies is.
    Compare {
        begin: bool,
    },
    /// Reads the files again: they are to say what this number stands for.
    Prepare {
        digest: u64,
    },
    /// Takes what was read.
    Replace {
        digest: u64,
    },
    /// Changes a set: a change as text.
    Set {
        change: String,
    },
}

/// The packets to trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Traced {
    filter: String,
    packets: u64,
    flow: bool,
}

impl Traced {
    pub(super) fn of(spec: &TraceSpec) -> Traced {
        Traced {
            filter: spec.filter.to_string(),
            packets: spec.packets,
            flow: spec.flow,
        }
    }
}

/// The trace of these packets, or of all that are marked; `None` where the filter is none.
pub(super) fn trace_spec(traced: Option<Traced>, full: bool) -> Option<TraceSpec> {
    let Some(traced) = traced else {
        return Some(TraceSpec {
            filter: Filter::all(),
            packets: u64::MAX,
            flow: false,
            full,
        });
    };
    Some(TraceSpec {
        filter: traced.filter.parse().ok()?,
        packets: traced.packets,
        flow: traced.flow,
        full,
    })
}

/// The reply to a command.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WireReply {
    /// So many engines have done it.
    Engines(usize),
    /// Number of the process, and the counts of each engine, by chain.
    Counts(u32, Vec<(usize, Said)>),
    /// The flows that match.
    Flows(SaidFlows),
    /// Of a flow.
    Flow(SaidParts),
    /// Ended flows: those that ended there, and hashes of those that the switch was
    /// asked to end; `None` where there is no flow table.
    Ended(Option<(u64, Vec<u64>)>),
    /// There is no such command: the other program is a later one.
    Unknown,
    /// Of copies of units; `None` where there is no runtime.
    Compared(Option<SaidComparison>),
    /// The files were read, or why they can't be taken.
    Prepared(Result<(), String>),
    /// A set has changed, or why it can't.
    Set(Result<(), String>),
}

/// How far a runtime's comparison of copies is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct SaidComparison {
    runtime: u32,
    round: u32,
    left: u64,
    equal: u64,
    differs: u64,
    behind: u64,
    missing: u64,
    over: u64,
    unanswered: u64,
    skipped: u64,
}

impl From<Comparison> for SaidComparison {
    fn from(Comparison { runtime, found }: Comparison) -> SaidComparison {
        SaidComparison {
            runtime,
            round: found.round,
            left: found.left,
            equal: found.equal,
            differs: found.differs,
            behind: found.behind,
            missing: found.missing,
            over: found.over,
            unanswered: found.unanswered,
            skipped: found.skipped,
        }
    }
}

impl From<SaidComparison> for Comparison {
    fn from(said: SaidComparison) -> Comparison {
        Comparison {
            runtime: said.runtime,
            found: Compared {
                round: said.round,
                left: said.left,
                equal: said.equal,
                differs: said.differs,
                behind: said.behind,
                missing: said.missing,
                over: said.over,
                unanswered: said.unanswered,
                skipped: said.skipped,
            },
        }
    }
}

const SORTS: [FlowSort; 6] = [
    FlowSort::None,
    FlowSort::Packets,
    FlowSort::Age,
    FlowSort::Idle,
    FlowSort::Client,
    FlowSort::Server,
];

/// A listing as a command.
pub(super) fn flows_command(query: &FlowsQuery) -> WireCommand {
    let sort = SORTS.iter().position(|sort| *sort == query.sort);
    WireCommand::Flows {
        filter: query.filter.to_string(),
        sort: sort.unwrap_or(0) as u8,
        reverse: query.reverse,
        limit: query.limit,
    }
}

/// The listing; `None` where the filter is none.
pub(super) fn flows_query(
    filter: &str,
    sort: u8,
    (reverse, limit): (bool, usize),
) -> Option<FlowsQuery> {
    Some(FlowsQuery {
        filter: Arc::new(filter.parse().ok()?),
        sort: SORTS.get(usize::from(sort)).copied()?,
        reverse,
        limit,
    })
}

/// Flows of a listing.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SaidFlows {
    flows: Vec<SaidFlow>,
    matched: u64,
    active: u64,
    whole: bool,
    here: bool,
}

impl SaidFlows {
    pub(super) fn of(found: &FlowsFound) -> SaidFlows {
        SaidFlows {
            flows: found.flows.iter().map(SaidFlow::of).collect(),
            matched: found.matched,
            active: found.active,
            whole: found.whole,
            here: found.here,
        }
    }

    pub(super) fn found(self) -> FlowsFound {
        FlowsFound {
            flows: self.flows.into_iter().map(SaidFlow::seen).collect(),
            matched: self.matched,
            active: self.active,
            whole: self.whole,
            here: self.here,
        }
    }
}

/// An open flow.
#[derive(Debug, Serialize, Deserialize)]
struct SaidFlow {
    number: usize,
    chain: String,
    record: u32,
    id: u64,
    key: [u64; 6],
    reverse: bool,
    phase: String,
    packets: u64,
    opened: u64,
    last_seen: u64,
    idle_ms: Option<u32>,
    names: Vec<([u64; 6], bool, bool)>,
    now: u64,
}

const PHASES: [Phase; 5] = [
    Phase::Open,
    Phase::Answered,
    Phase::Established,
    Phase::Closing,
    Phase::Closed,
];

fn direction(reverse: bool) -> Direction {
    match reverse {
        true => Direction::Reverse,
        false => Direction::Forward,
    }
}

impl SaidFlow {
    fn of(seen: &FlowSeen) -> SaidFlow {
        let flow = &seen.flow;
        let reverse = |client| client == Direction::Reverse;
        let names = seen.names.iter();
        SaidFlow {
            number: seen.number,
            chain: seen.chain.clone(),
            record: flow.record,
            id: flow.id,
            key: flow.key.to_words(),
            reverse: reverse(flow.client),
            phase: flow.phase.name().to_owned(),
            packets: flow.packets,
            opened: flow.opened.0,
            last_seen: flow.last_seen.0,
            idle_ms: flow.idle_ms,
            names: names
                .map(|name| (name.key.to_words(), reverse(name.client), name.open))
                .collect(),
            now: seen.now.0,
        }
    }

    fn seen(self) -> FlowSeen {
        let mut phases = PHASES.into_iter();
        let phase = phases.find(|phase| phase.name() == self.phase);
        let names = self.names.into_iter();
        FlowSeen {
            thread: 0,
            number: self.number,
            chain: self.chain,
            flow: OpenFlow {
                record: self.record,
                id: self.id,
                key: FlowKey::from_words(self.key),
                client: direction(self.reverse),
                phase: phase.unwrap_or_default(),
                packets: self.packets,
                opened: Time(self.opened),
                last_seen: Time(self.last_seen),
                idle_ms: self.idle_ms,
            },
            names: names
                .map(|(key, reverse, open)| FlowName {
                    key: FlowKey::from_words(key),
                    client: direction(reverse),
                    open,
                })
                .collect(),
            now: Time(self.now),
        }
    }
}

/// A flow, where its first stage is there, and its states.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SaidParts {
    flow: Option<SaidFlow>,
    states: Vec<SaidState>,
}

impl SaidParts {
    pub(super) fn of(parts: FlowParts) -> SaidParts {
        let states = parts.states.into_iter();
        SaidParts {
            flow: parts.seen.as_ref().map(SaidFlow::of),
            states: states.map(|(_, state)| SaidState::of(state)).collect(),
        }
    }

    /// The parts, of a stage of this number in its chain.
    pub(super) fn parts(self, (number, stage): (usize, &Stage)) -> FlowParts {
        let states = self.states.into_iter();
        let states = states.filter_map(|state| state.remembered(stage));
        FlowParts {
            seen: self.flow.map(SaidFlow::seen),
            states: states.map(|state| (number, state)).collect(),
        }
    }
}

/// A point of a tap that may be in a later stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Point {
    /// In the main process: it keeps its number here.
    Elsewhere,
    Before(String),
    After(String),
    Drops(Option<String>),
}

impl Point {
    fn of(point: &TapPoint) -> Point {
        match point {
            TapPoint::In(_) | TapPoint::Out(_) => Point::Elsewhere,
            TapPoint::Before(name) => Point::Before(name.clone()),
            TapPoint::After(name) => Point::After(name.clone()),
            TapPoint::Drops(reason) => Point::Drops(reason.clone()),
        }
    }

    pub(super) fn here(self) -> TapPoint {
        match self {
            Point::Elsewhere => TapPoint::In(0),
            Point::Before(name) => TapPoint::Before(name),
            Point::After(name) => TapPoint::After(name),
            Point::Drops(reason) => TapPoint::Drops(reason),
        }
    }
}

impl WireCommand {
    pub(super) fn tap(watch: u64, tap: u64, spec: &TapSpec) -> WireCommand {
        WireCommand::Tap {
            watch,
            tap,
            points: spec.points.iter().map(Point::of).collect(),
            filter: spec.filter.to_string(),
            snap_len: spec.snap_len,
        }
    }
}

/// The state of a function for a flow.
#[derive(Debug, Serialize, Deserialize)]
struct SaidState {
    function: String,
    scope: String,
    opened: bool,
    version: u16,
    fields: Vec<(String, String)>,
    state: Vec<u8>,
    stats: Vec<u8>,
    buffers: Vec<usize>,
}

impl SaidState {
    fn of(state: Remembered) -> SaidState {
        let fields = state.fields.into_iter();
        SaidState {
            function: state.function,
            scope: state.scope,
            opened: state.opened,
            version: state.version,
            fields: fields.map(|f| (f.name, f.value.to_string())).collect(),
            state: state.state,
            stats: state.stats,
            buffers: state.buffers,
        }
    }

    /// `None` of a function that the stage does not have.
    fn remembered(self, stage: &Stage) -> Option<Remembered> {
        let node = stage.nodes.iter().find(|node| node.name == self.function)?;
        let fields = self.fields.into_iter();
        Some(Remembered {
            function: self.function,
            kind: node.processor.descriptor().name,
            scope: self.scope,
            opened: self.opened,
            version: self.version,
            fields: fields
                .map(|(name, text)| ShownField {
                    name,
                    value: ShownValue::Text(text),
                })
                .collect(),
            state: self.state,
            stats: self.stats,
            buffers: self.buffers,
        })
    }
}

/// The number that a message begins with, and the rest.
pub(super) fn split(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*number), rest))
}
