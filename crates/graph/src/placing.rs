//! `placement:` — which node of a run is on which thread of which process.

use core::fmt;

use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::compile::MOST_CORES;
use crate::diagnostic::Report;
use crate::read;
use crate::tree::Node;

/// Keys of `placement:`.
const KEYS: [&str; 2] = ["threads", "processes"];
/// Keys of a thread.
const OF_THREAD: [&str; 2] = ["nodes", "core"];
/// Most threads of a run.
const MOST_THREADS: usize = 256;
/// Longest name of a node.
const LONGEST: usize = 128;

/// A thread as a file places it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PlacedThread {
    /// Names of its nodes, in the order in which it steps them.
    pub nodes: Vec<String>,
    /// The core that it is kept on.
    pub core: Option<usize>,
}

/// Placement of nodes as a file gives it. The nodes follow from the chains' plans and the form of
/// the run, so the executor's side checks the names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Placing {
    /// Threads of the main process. The first has the ports.
    pub threads: Vec<PlacedThread>,
    /// Nodes that have a process each.
    pub processes: Vec<String>,
}

impl fmt::Display for Placing {
    /// For people, as `weir check` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (threads, processes) = (self.threads.len(), self.processes.len());
        write!(f, "placed on {threads} threads")?;
        match processes {
            0 => Ok(()),
            _ => write!(f, ", {processes} nodes in processes of their own"),
        }
    }
}

/// Reads the mapping.
pub(crate) fn read(node: &Node, report: &mut Report<'_>) -> Placing {
    let mut placing = Placing::default();
    let Some(entries) = node.entries() else {
        let what = "a mapping like `threads: [{nodes: [ports]}]`";
        report.expected_help(node, what, "leave it out, and weir chooses");
        return placing;
    };
    for (key, value) in entries {
        match key.text().unwrap_or("") {
            "threads" => {
                let items = read::list(value, "a list of threads", report).unwrap_or(&[]);
                if items.is_empty() || items.len() > MOST_THREADS {
                    report.error(value.span, format!("a run has 1 to {MOST_THREADS} threads"));
                }
                placing.threads = items.iter().map(|item| thread(item, report)).collect();
            }
            "processes" => placing.processes = names(value, report),
            _ => report.unknown_key(key, &KEYS),
        }
    }
    if placing.threads.is_empty() && node.get("threads").is_none() {
        report.error_help(
            node.span,
            "a placement says which nodes are on which thread",
            "write `threads:` with a list; the first one has the node `ports`",
        );
    }
    placing
}

fn thread(node: &Node, report: &mut Report<'_>) -> PlacedThread {
    let mut thread = PlacedThread::default();
    let Some(entries) = node.entries() else {
        report.expected(node, "a thread like `{nodes: [ports], core: 0}`");
        return thread;
    };
    for (key, value) in entries {
        match key.text().unwrap_or("") {
            "nodes" => thread.nodes = names(value, report),
            "core" => {
                let core = read::integer(value, 0..=MOST_CORES as u64 - 1, report);
                thread.core = core.map(|core| core as usize);
            }
            _ => report.unknown_key(key, &OF_THREAD),
        }
    }
    if node.get("nodes").is_none() {
        report.error(node.span, "a thread has `nodes`");
    }
    thread
}

fn names(value: &Node, report: &mut Report<'_>) -> Vec<String> {
    let items = read::list(value, "a list of nodes", report).unwrap_or(&[]);
    let name = |item| {
        let name = read::word(item, "the name of a node", report)?;
        if name.is_empty() || name.len() > LONGEST {
            let message = format!("the name of a node has 1 to {LONGEST} characters");
            report.error(item.span, message);
            return None;
        }
        Some(name.to_owned())
    };
    items.iter().filter_map(name).collect()
}

/// JSON Schema of the mapping.
pub(crate) fn schema() -> Json {
    let nodes = |description: &str| {
        json!({
            "description": description,
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": LONGEST},
        })
    };
    json!({
        "description": "Which node runs on which thread of which process, as `weir plan --placement` shows it.",
        "type": "object",
        "required": ["threads"],
        "additionalProperties": false,
        "properties": {
            "threads": {
                "description": "Threads of the main process. The first has the ports.",
                "type": "array",
                "minItems": 1,
                "maxItems": MOST_THREADS,
                "items": {
                    "type": "object",
                    "required": ["nodes"],
                    "additionalProperties": false,
                    "properties": {
                        "nodes": nodes("Its nodes, in the order in which it steps them."),
                        "core": {
                            "description": "The core that it is kept on.",
                            "type": "integer",
                            "minimum": 0,
                            "maximum": MOST_CORES - 1,
                        },
                    },
                },
            },
            "processes": nodes("Nodes that have a process each."),
        },
    })
}
