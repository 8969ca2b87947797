//! The part of a summary about events that were not written.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::summary::More;
use crate::driver::EventFile;

/// Events that were not written, and why.
pub(super) struct EventsTold {
    /// The run went on where they could not be; `None` where it would have ended.
    lost: Option<u64>,
    /// Their functions limit them.
    limited: u64,
    /// Windows that ended early.
    forgotten: u64,
}

impl EventsTold {
    /// At the end of a run; those that go on without a reader have `lost` some.
    pub(super) fn of(events: &EventFile, lost: Option<u64>) -> EventsTold {
        let limiter = events.limiter();
        EventsTold {
            lost,
            limited: limiter.kept_back(),
            forgotten: limiter.forgotten(),
        }
    }
}

impl More for EventsTold {
    fn add_json(&self, value: &mut Value) {
        if let Some(lost) = self.lost {
            value["events_lost"] = json!(lost);
        }
        value["events_limited"] = json!(self.limited);
        value["event_windows_forgotten"] = json!(self.forgotten);
    }

    fn add_text(&self, text: &mut String) {
        // Writing to a `String` can't fail.
        if let Some(lost @ 1..) = self.lost {
            let _ = writeln!(text, "\n{lost} events could not be written");
        }
        if self.limited > 0 {
            let _ = writeln!(
                text,
                "\n{} events were kept back by thresholds",
                self.limited
            );
        }
        if self.forgotten > 0 {
            let _ = writeln!(
                text,
                "{} windows of thresholds ended early: there were too many",
                self.forgotten
            );
        }
    }
}
