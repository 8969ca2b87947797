//! `flowlets:` of a composition: units are given to runtimes anew at each flowlet.

use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::diagnostic::Report;
use crate::form::{Boolean, Choice, Integer, Own};
use crate::keys::Keys;
use crate::read;
use crate::tree::Node;
use crate::units;

/// How units are given out by flowlet. What is missing the drivers know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ComposedFlowlets {
    /// Time without a packet after which a flowlet begins, in nanoseconds.
    pub gap: Option<u64>,
    /// Bytes of a flowlet, at most.
    pub size: Option<u32>,
    /// Worth of having the state, in parts per hundred.
    pub alpha: Option<u32>,
    /// Runtimes that get a copy of the state ahead.
    pub copies: Option<u8>,
    /// Bytes per second that one runtime can do.
    pub capacity: Option<u64>,
    /// Percentage of it up to which a runtime is filled.
    pub target: Option<u32>,
    /// How a runtime is chosen.
    pub packing: Option<&'static str>,
    /// Whether `alpha` and `copies` follow what is measured.
    pub adapts: Option<bool>,
}

/// Names of [`ComposedFlowlets::packing`].
const PACKING: Choice<&str> = Choice(&[
    ("greedy", "greedy"),
    ("best-fit", "best-fit"),
    ("hash", "hash"),
]);

/// Keys of `flowlets:`.
pub(crate) fn flowlet_keys() -> Keys<ComposedFlowlets> {
    Keys::<ComposedFlowlets>::new("a mapping like `{gap: 500us, capacity: 1Gbit}`", "")
        .key(
            "gap",
            "Time without a packet after which a flowlet begins; `500us` without it.",
            Own(gap, short_time_schema),
            |by, gap| by.gap = Some(gap),
        )
        .key(
            "size",
            "Bytes of a flowlet, at most; 15000 without it.",
            Integer(1..=u64::from(u32::MAX)),
            |by, size| by.size = Some(size as u32),
        )
        .key(
            "capacity",
            "What one runtime can do, as `100Mbit`; `1Gbit` without it.",
            Own(bit_rate, bit_rate_schema),
            |by, capacity| by.capacity = Some(capacity),
        )
        .key(
            "target",
            "Percentage of the capacity up to which a runtime is filled with flows whose state it does not have; 80 without it.",
            Integer(1..=100),
            |by, percent| by.target = Some(percent as u32),
        )
        .key(
            "packing",
            "How a runtime is chosen: `greedy`, `best-fit` or `hash`; `greedy` without it.",
            PACKING,
            |by, packing| by.packing = Some(packing),
        )
        .key(
            "alpha",
            "What it is worth that a runtime has the state, in percent of its utilisation; 25 without it.",
            Integer(0..=1_000),
            |by, alpha| by.alpha = Some(alpha as u32),
        )
        .key(
            "copies",
            "Runtimes that get a copy of the state in the gap, 9 at most; 3 without it.",
            Integer(0..=9),
            |by, copies| by.copies = Some(copies as u8),
        )
        .key(
            "adapts",
            "Whether `alpha` and `copies` follow what is measured; `true` without it.",
            Boolean,
            |by, adapts| by.adapts = Some(adapts),
        )
}

fn gap(node: &Node, report: &mut Report<'_>) -> Option<u64> {
    let text = read::word(node, "a short time like `500us`", report)?;
    read::parsed(node.span, units::short_time(text), report)
}

/// Bytes per second of a rate in bits per second.
pub(super) fn bit_rate(node: &Node, report: &mut Report<'_>) -> Option<u64> {
    let text = read::word(node, "a rate like `100Mbit`", report)?;
    read::parsed(node.span, units::bit_rate(text), report)
}

fn short_time_schema() -> Json {
    json!({"type": "string", "pattern": "^[0-9]+(us|ms|s)$"})
}

pub(super) fn bit_rate_schema() -> Json {
    json!({"type": "string", "pattern": "^[0-9]+[kMG]bit(/s)?$"})
}
