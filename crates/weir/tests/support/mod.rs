//! Running the built program, and reading what it wrote.

// Each test file uses a part of this.
#![allow(dead_code)]

pub(crate) mod compare;
pub(crate) mod dice;
pub(crate) mod inputs;
pub(crate) mod planned;
pub(crate) mod scene;

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use weir_io::capture::{CaptureReader, OwnedRecord};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A chain file of `examples/`.
pub(crate) fn example(name: &str) -> String {
    root().join("examples").join(name).display().to_string()
}

/// A capture of `examples/captures/`.
pub(crate) fn capture(name: &str) -> String {
    example(&format!("captures/{name}"))
}

/// The folder of real captures; says so where it is missing.
pub(crate) fn traces() -> Option<PathBuf> {
    let places = [
        Some(root().join("../shared/traces")),
        std::env::var_os("WEIR_TRACES").map(PathBuf::from),
    ];
    let found = places
        .into_iter()
        .flatten()
        .find(|p| p.join("truth").is_dir());
    if found.is_none() {
        // Straight to standard error: the harness keeps what a passed test prints.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"SKIPPED: no folder of captures (../shared/traces or WEIR_TRACES)\n",
        );
    }
    found
}

/// The captures of that folder that have ground truth: rows of its summary, by column name.
pub(crate) fn summary(traces: &Path) -> Vec<std::collections::BTreeMap<String, String>> {
    let text = std::fs::read_to_string(traces.join("truth/summary.tsv")).unwrap();
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split('\t').collect();
    lines
        .map(|line| {
            names
                .iter()
                .map(ToString::to_string)
                .zip(line.split('\t').map(str::to_owned))
                .collect()
        })
        .collect()
}

/// The program, not yet started.
pub(crate) fn weir<I: AsRef<OsStr>>(args: impl IntoIterator<Item = I>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(args).stdin(Stdio::null());
    command
}

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// What a program left behind.
    pub(crate) fn of(output: Output) -> Ran {
        let ran = Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        };
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        ran
    }

    /// The summary as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("not JSON: {e}: {self:?}"))
    }
}

/// Runs the program to its end.
pub(crate) fn run<I: AsRef<OsStr>>(args: impl IntoIterator<Item = I>) -> Ran {
    Ran::of(weir(args).output().unwrap())
}

/// `weir run CHAIN ARGS… --output json`, which must succeed: its summary.
#[track_caller]
pub(crate) fn run_json(chain: &str, args: &[&str]) -> Value {
    let all = ["run", chain, "--quiet", "--output", "json"];
    let ran = run(all.iter().chain(args));
    assert_eq!(ran.code, 0, "{chain} {args:?}: {}", ran.err);
    let summary = ran.json();
    conserved(&summary);
    summary
}

/// A number of the summary; a missing one fails the test.
#[track_caller]
pub(crate) fn number(value: &Value, pointer: &str) -> u64 {
    value
        .pointer(pointer)
        .and_then(Value::as_u64)
        .unwrap_or_else(|| panic!("no number at {pointer} of {value}"))
}

/// The sum of an object's numbers.
#[track_caller]
pub(crate) fn sum(value: &Value, pointer: &str) -> u64 {
    let object = value.pointer(pointer).and_then(Value::as_object);
    let object = object.unwrap_or_else(|| panic!("no object at {pointer} of {value}"));
    object.values().map(|n| n.as_u64().unwrap()).sum()
}

/// Every packet is accounted for.
#[track_caller]
pub(crate) fn conserved(summary: &Value) {
    assert_eq!(
        number(summary, "/packets_in") + number(summary, "/emitted"),
        number(summary, "/packets_out")
            + sum(summary, "/drops")
            + number(summary, "/held")
            + number(summary, "/kept"),
        "{summary}"
    );
    // Flows ended with the run, and what they had with them. A stage whose process was killed
    // has flows of which its successor never hears.
    let stages = summary["processes"].as_array().into_iter().flatten();
    if stages.into_iter().any(|stage| number(stage, "/died") > 0) {
        return;
    }
    for (name, chain) in summary["chains"].as_object().into_iter().flatten() {
        for open in ["active", "units", "aliases", "ports_leased", "buffer_bytes"] {
            let left = chain["flows"][open].as_u64().unwrap_or(0);
            assert_eq!(left, 0, "{name}: {open}: {summary}");
        }
    }
}

/// Deaths of runtimes have lost no packet, and put none out of order.
#[track_caller]
pub(crate) fn nothing_is_lost(summary: &Value) {
    for lost in [
        "owner_lost",
        "lost",
        "runtime_died",
        "unacked_full",
        "frames_short",
    ] {
        assert_eq!(summary["drops"].get(lost), None, "{summary}");
    }
    assert_eq!(summary["hand_overs"]["reordered"], 0, "{summary}");
}

/// A folder of a test's own, gone when it ends.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weir-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a file and gives its path.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays behind in the temporary one harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// All packets of a capture, and why it ended early, if it did.
pub(crate) fn packets(path: &str) -> (Vec<OwnedRecord>, Option<String>) {
    let mut packets = Vec::new();
    let mut reader = match CaptureReader::open(File::open(path).unwrap()) {
        Ok(reader) => reader,
        Err(error) => return (packets, Some(error.to_string())),
    };
    loop {
        match reader.next() {
            Ok(Some(record)) => packets.push(record.into()),
            Ok(None) => return (packets, None),
            Err(error) => return (packets, Some(error.to_string())),
        }
    }
}

/// The events of a file; each line must be JSON.
pub(crate) fn events(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}
