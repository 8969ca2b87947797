//! What a run of captures made, to be compared with what another made.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Runs to its end: the packets, the lines of events (sorted), the summary.
#[track_caller]
pub(crate) fn made(run: &mut Command, folder: &Path) -> (Vec<u8>, Vec<String>, Value) {
    let (out, events) = (folder.join("out.pcapng"), folder.join("events.json"));
    run.args(["--seed", "1", "--quiet", "--output", "json"]);
    run.arg("--out").arg(&out).arg("--events").arg(&events);
    // Events are appended, and a folder may have those of a run before.
    let _ = std::fs::remove_file(&events);
    let done = run.output().unwrap();
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{run:?}: {text}");
    let events = std::fs::read_to_string(events).unwrap();
    let mut lines: Vec<String> = events.lines().map(str::to_owned).collect();
    lines.sort();
    let summary = serde_json::from_slice(&done.stdout).unwrap();
    (std::fs::read(out).unwrap(), lines, summary)
}

/// All numbers of a summary that don't depend on how fast it went.
pub(crate) fn counts(summary: &Value) -> Value {
    let mut counts = serde_json::json!({});
    for key in [
        "packets_in",
        "packets_out",
        "emitted",
        "drops",
        "flows",
        "malformed",
    ] {
        counts[key] = summary[key].clone();
    }
    for (name, nf) in summary["nfs"].as_object().unwrap() {
        for key in ["packets", "bytes", "dropped", "counters", "tally"] {
            counts[name][key] = nf[key].clone();
        }
    }
    counts
}
