//! `placement:` — which node of a run is on which thread of which process.

use core::fmt;

use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::diagnostic::Report;
use crate::form::{Form, List, Own};
use crate::keys::Keys;
use crate::tree::Node;
use crate::{read, threads};

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
    /// Place in the chain file, as `FILE:LINE`.
    #[serde(skip)]
    pub written_at: String,
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

/// Keys of `placement:`.
pub(crate) fn keys() -> Keys<Placing> {
    let about = "Which node runs on which thread of which process, as `weir plan --placement` \
                 shows it.";
    Keys::<Placing>::new("a mapping like `threads: [{nodes: [ports]}]`", about)
        .help("leave it out, and weir chooses")
        .key(
            "threads",
            "Threads of the main process. The first has the ports.",
            Threads,
            |placing, threads| placing.threads = threads,
        )
        .needed("write `threads:` with a list; the first one has the node `ports`")
        .key(
            "processes",
            "Nodes that have a process each.",
            nodes(),
            |placing, nodes| {
                placing.processes = nodes;
            },
        )
}

/// Keys of a thread.
pub(crate) fn thread_keys() -> Keys<PlacedThread> {
    Keys::<PlacedThread>::new("a thread like `{nodes: [ports], core: 0}`", "")
        .key(
            "nodes",
            "Its nodes, in the order in which it steps them.",
            nodes(),
            |thread, nodes| thread.nodes = nodes,
        )
        .needed("write `nodes:` with a list of names")
        .key(
            "core",
            "The core that it is kept on.",
            threads::core(),
            |thread, core| {
                thread.core = Some(core as usize);
            },
        )
}

/// Reads the mapping.
pub(crate) fn read(node: &Node, report: &mut Report<'_>) -> Placing {
    let read = keys().read(node, report).unwrap_or_default();
    let written_at = report.texts.line(node.span);
    Placing { written_at, ..read }
}

/// A list of threads.
struct Threads;

impl Form for Threads {
    type Value = Vec<PlacedThread>;

    fn read(&self, node: &Node, report: &mut Report<'_>) -> Option<Vec<PlacedThread>> {
        let threads = List("a list of threads", thread_keys()).read(node, report)?;
        if threads.len() > MOST_THREADS {
            report.error(node.span, format!("a run has 1 to {MOST_THREADS} threads"));
        }
        Some(threads)
    }

    fn schema(&self) -> Json {
        let mut schema = List("", thread_keys()).schema();
        schema["maxItems"] = json!(MOST_THREADS);
        schema
    }
}

/// Names of nodes.
fn nodes() -> List<Own<String>> {
    let schema = || json!({"type": "string", "minLength": 1, "maxLength": LONGEST});
    List("a list of nodes", Own(name, schema))
}

fn name(item: &Node, report: &mut Report<'_>) -> Option<String> {
    let name = read::word(item, "the name of a node", report)?;
    if name.is_empty() || name.len() > LONGEST {
        let message = format!("the name of a node has 1 to {LONGEST} characters");
        report.error(item.span, message);
        return None;
    }
    Some(name.to_owned())
}
