//! Failures of a guardian's engines.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::summary::More;
use crate::output::thousands;

/// Failures of earlier engines, and what passed meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failures {
    /// Engines that died.
    pub(crate) count: u64,
    /// Packets that passed unprocessed, and their bytes.
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Time without an engine.
    pub(crate) down: Duration,
    /// Time since the first engine was started.
    pub(crate) since: Duration,
}

impl More for Failures {
    fn add_json(&self, value: &mut Value) {
        value["failures"] = json!({
            "engines": self.count,
            "passed_packets": self.packets,
            "passed_bytes": self.bytes,
            "down_s": self.down.as_secs_f64(),
        });
    }

    fn add_text(&self, text: &mut String) {
        if self.count > 0 {
            // Writing to a `String` can't fail.
            let _ = writeln!(
                text,
                "\nthe engine died {} times: {} packets ({} bytes) passed unprocessed in {:.1} s",
                self.count,
                thousands(self.packets),
                thousands(self.bytes),
                self.down.as_secs_f64()
            );
        }
    }
}
