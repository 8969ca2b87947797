//! Commands of the main process to a stage's process (traces, taps, flows), and the
//! answers: on a socket of their own with a thread at either end, so that no packet
//! waits for them.

use serde::{Deserialize, Serialize};
use weir_nf::host::Stage;
use weir_nf::{ShownField, ShownValue};
use weir_runtime::Remembered;
use weir_runtime::watch::TapPoint;

use crate::observe::TapSpec;

/// Kinds of messages: to the stage's process the first ([`Ask`]), from it the
/// others. Those begin with a number: of the question, or of the watch.
pub(super) const ASK: u8 = 1;
/// It is done.
pub(super) const DONE: u8 = 2;
/// The states of a flow: a list of [`SaidState`], as JSON.
pub(super) const STATES: u8 = 3;
/// How many parts of a trace were lost so far, and a part as a message of the
/// control interface; none where only that has changed.
pub(super) const TRACED: u8 = 4;
/// Copies of a tap, as a message of the control interface.
pub(super) const TAPPED: u8 = 5;

/// Longest message.
pub(super) const LONGEST: usize = 16 << 20;

/// A question. The next one is sent when this one is answered.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ask {
    pub(super) number: u64,
    pub(super) what: What,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum What {
    /// To begin a trace. Only the first stage asks whether a packet matches.
    Trace {
        watch: u64,
        slot: u8,
        full: bool,
    },
    EndTrace {
        slot: u8,
    },
    /// To begin a tap. How many packets are enough is known where they are
    /// taken together.
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
    /// The states of a flow.
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

impl What {
    pub(super) fn tap(watch: u64, tap: u64, spec: &TapSpec) -> What {
        What::Tap {
            watch,
            tap,
            points: spec.points.iter().map(Point::of).collect(),
            filter: spec.filter.to_string(),
            snap_len: spec.snap_len,
        }
    }
}

/// A function's state.
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
