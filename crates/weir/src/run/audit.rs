//! What `--audit` found: functions that do what their descriptors don't say.

use serde_json::{Value, json};
use weir_runtime::Lie;

use super::summary::More;

/// The findings of a run.
pub(super) struct Audit(pub(super) Vec<Lie>);

/// The same as warnings.
pub(super) fn warnings(lies: &[Lie]) -> Vec<String> {
    lies.iter().map(|lie| format!("audit: {lie}")).collect()
}

impl More for Audit {
    fn add_json(&self, value: &mut Value) {
        let lies = self.0.iter().map(|lie| {
            json!({
                "function": lie.function,
                "nf": lie.nf,
                "what": lie.what,
                "packet": lie.packet,
            })
        });
        value["audit"] = lies.collect();
    }

    fn add_text(&self, text: &mut String) {
        let found = match self.0.len() {
            0 => "each function did what its descriptor says".to_owned(),
            n => format!("{n} findings, see the warnings"),
        };
        text.push_str(&format!("\naudit: {found}\n"));
    }
}
