//! `scaling:` of a composition: the number of runtimes follows their load.

use serde::Serialize;

use crate::diagnostic::{Report, Span};

/// How the number of runtimes follows their load. What is missing the drivers know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ComposedScaling {
    /// Fewest runtimes.
    pub minimum: u32,
    /// Most runtimes.
    pub maximum: u32,
    /// Time between two decisions, in ms.
    pub interval_ms: Option<u32>,
    /// Time after an overload or a change before a runtime is drained, in ms.
    pub cool_down_ms: Option<u32>,
    /// Units that are moved at a time.
    pub batch: Option<u32>,
    /// Percentage of the time that ports may wait for a runtime.
    pub held_back: Option<u32>,
    /// Percentage of what one can do under which all must be before one is drained.
    pub calm: Option<u32>,
    /// Packets per second that one runtime can take, where that is known.
    pub capacity: Option<u64>,
}

impl ComposedScaling {
    /// The runtimes of the start are within the bounds, and there are places for the most.
    pub(super) fn fits(&self, at: Span, (all, most): (u32, Option<u32>), report: &mut Report<'_>) {
        let (minimum, maximum) = (self.minimum, self.maximum);
        // One is missing, or no number of runtimes: that is told already.
        if minimum == 0 || maximum == 0 {
            return;
        }
        if minimum > maximum {
            let message = format!("`minimum` {minimum} is above `maximum` {maximum}");
            report.error_help(at, message, "no number of runtimes fits: swap them");
        } else if !(minimum..=maximum).contains(&all) {
            let message = format!(
                "the hosts have {all} runtimes at the start, and `scaling` is {minimum} to {maximum}"
            );
            report.error_help(at, message, "let the numbers of the hosts be within that");
        }
        if let Some(most) = most.filter(|most| *most < maximum) {
            report.error_help(
                at,
                format!("`maximum` is {maximum}, and there may be {most} runtimes"),
                format!("say `maximum: {most}`, or let `most_runtimes` be more"),
            );
        }
    }
}
