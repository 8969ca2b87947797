//! Findings of `--audit`: functions that break their descriptors.

use serde_json::{Value, json};
use weir_runtime::Lie;

use super::summary::{Ended, More};
use crate::args::Run;

/// Adds what was found, and warns of it.
pub(super) fn add(args: &Run, lies: Vec<Lie>, of_run: &mut Ended) {
    let warnings = lies.iter().map(|lie| format!("audit: {lie}"));
    of_run.warnings.extend(warnings);
    if args.audit {
        of_run.more.push(Box::new(Audit(lies)));
    }
}

/// The findings of a run.
struct Audit(Vec<Lie>);

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
