//! Commands to a stage's process and its replies, as bytes.
//!
//! They have a socket of their own with a thread at either end, so that no packet
//! waits for them.

use serde::{Deserialize, Serialize};
use weir_ctl::observe::TapSpec;
use weir_nf::host::Stage;
use weir_nf::{ShownField, ShownValue};
use weir_runtime::Remembered;
use weir_runtime::watch::TapPoint;

/// Kinds of messages. The first goes to the stage's process ([`NumberedCommand`]). The others
/// come from it and begin with a number: of the command, or of the watch.
pub(super) const COMMAND: u8 = 1;
/// It is done.
pub(super) const DONE: u8 = 2;
/// The states of a flow: a list of [`SaidState`], as JSON.
pub(super) const STATES: u8 = 3;
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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum WireCommand {
    /// Begins a trace. Only the first stage asks whether a packet matches.
    Trace {
        watch: u64,
        slot: u8,
        full: bool,
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
    /// Tells the states of a flow.
    Flow {
        record: u32,
        id: u64,
    },
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
pub(super) struct SaidState {
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
    pub(super) fn of(state: Remembered) -> SaidState {
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
    pub(super) fn remembered(self, stage: &Stage) -> Option<Remembered> {
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
