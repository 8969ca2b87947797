//! `threads:` — the cores of a run's threads, whether they sleep, and whom they go before.

use core::fmt;

use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::compile::MOST_CORES;
use crate::diagnostic::Report;
use crate::read;
use crate::tree::Node;

/// Keys of `threads:`.
pub(crate) const KEYS: [&str; 3] = ["cores", "busy-poll", "first"];

/// Settings of the threads that run a file's chains. A command line's `--cores`, `--busy-poll` and
/// `--first` win over them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Threads {
    /// Cores that the threads are kept on, in the order of their use; none
    /// leaves them to the kernel.
    pub cores: Vec<usize>,
    /// No thread ever sleeps.
    pub busy_poll: bool,
    /// Threads that move packets between interfaces go before all others of their cores.
    pub first: bool,
}

impl fmt::Display for Threads {
    /// For people, as `weir check` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("threads")?;
        if let [first, others @ ..] = self.cores.as_slice() {
            write!(f, " on cores {first}")?;
            others.iter().try_for_each(|core| write!(f, ", {core}"))?;
        }
        f.write_str(if self.busy_poll {
            " never sleep"
        } else {
            " sleep when idle"
        })?;
        f.write_str(if self.first {
            ", before all others"
        } else {
            ""
        })
    }
}

/// Reads the mapping; what it does not say stays as it is by default.
pub(crate) fn read(node: &Node, report: &mut Report<'_>) -> Threads {
    let mut threads = Threads::default();
    let Some(entries) = node.entries() else {
        let what = "a mapping like `cores: [0, 1]`";
        let help = "leave it out for threads on any core, which sleep when idle";
        report.expected_help(node, what, help);
        return threads;
    };
    for (key, value) in entries {
        match key.text().unwrap_or("") {
            "cores" => threads.cores = cores(value, report),
            "busy-poll" => {
                threads.busy_poll = read::boolean(value, report).unwrap_or_default();
            }
            "first" => threads.first = read::boolean(value, report).unwrap_or_default(),
            _ => report.unknown_key(key, &KEYS),
        }
    }
    threads
}

/// Numbers of cores. Several threads may share one.
pub(crate) fn cores(value: &Node, report: &mut Report<'_>) -> Vec<usize> {
    let what = "the number of a core, or a list of them";
    let items = read::one_or_more(value, what, report).unwrap_or(&[]);
    let number = |item| read::integer(item, 0..=MOST_CORES as u64 - 1, report);
    items
        .iter()
        .filter_map(number)
        .map(|n| n as usize)
        .collect()
}

/// JSON Schema of one core or a list of them.
pub(crate) fn cores_schema(description: &str) -> Json {
    let core = json!({"type": "integer", "minimum": 0, "maximum": MOST_CORES - 1});
    json!({
        "description": description,
        "anyOf": [core, {"type": "array", "minItems": 1, "items": core}],
    })
}

/// JSON Schema of the mapping.
pub(crate) fn schema() -> Json {
    json!({
        "description": "The threads that run the chains; the command line wins over it.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "cores": cores_schema("Cores that threads are kept on, in the order of their use, as by `--cores`."),
            "busy-poll": {
                "description": "No thread ever sleeps, as by `--busy-poll`.",
                "type": "boolean",
            },
            "first": {
                "description": "With interfaces: threads that move packets go before all others of their cores, as by `--first`.",
                "type": "boolean",
            },
        },
    })
}
