//! Placements as data: which node on which thread of which process.
//!
//! A placement is plain: it can be written by hand, printed, drawn at random in
//! a test, and compared. [`Placement::check`] says what is wrong with one.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Takes packets in, sorts them to chains, and sends what leaves.
    Ports,
    /// Sends packets to workers by their pair of hosts.
    Steer,
    /// Numbers the packets of each unit and gives them to their owner.
    Switch,
    /// A whole chain, or all chains of a file.
    Runtime,
    /// A stage of a plan. The first finds and ends flows.
    Stage,
    /// Carries frames from one port to another.
    Carrier,
    /// A stage that is not trusted, behind a border.
    Sandbox,
    /// Passes packets on between the interfaces of a bump while the main process is down.
    Guard,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Ports => "ports",
            Kind::Steer => "steer",
            Kind::Switch => "switch",
            Kind::Runtime => "runtime",
            Kind::Stage => "stage",
            Kind::Carrier => "carrier",
            Kind::Sandbox => "sandbox",
            Kind::Guard => "guard",
        })
    }
}

/// A node in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its name, the only one of its kind: `ports`, `runtime 2`, `web/3`.
    pub name: String,
    /// Kind of the node.
    pub kind: Kind,
    /// Names of the functions that it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
    /// Why it is here, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// A thread and its nodes, which it steps in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thread {
    /// The core that it is kept on; the system decides where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<usize>,
    /// Its nodes.
    pub nodes: Vec<Node>,
}

/// A process and its threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// For people.
    pub name: String,
    /// Its threads. The first of the first process has the ports.
    pub threads: Vec<Thread>,
}

/// How packets get from one node to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeKind {
    /// Both nodes are on the same thread.
    SameThread,
    /// A queue between threads of one process.
    Queue,
    /// A ring between processes that share packet memory.
    Ring,
    /// Copies, to and from a process that is not trusted.
    Border,
}

impl fmt::Display for EdgeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EdgeKind::SameThread => "same thread",
            EdgeKind::Queue => "queue",
            EdgeKind::Ring => "ring",
            EdgeKind::Border => "border",
        })
    }
}

/// Placement of the nodes of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// The main process, then the others.
    pub processes: Vec<Process>,
    /// Names of nodes that packets go between, from and to. What an edge is made
    /// of follows from where its nodes are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edges: Vec<(String, String)>,
}

/// Place of a node: numbers of its process, of its thread there, and of its place on that.
pub type Place = (usize, usize, usize);

impl Placement {
    /// All nodes with their places.
    pub fn nodes(&self) -> impl Iterator<Item = (Place, &Node)> {
        self.processes.iter().enumerate().flat_map(|(p, process)| {
            process
                .threads
                .iter()
                .enumerate()
                .flat_map(move |(t, thread)| {
                    let nodes = thread.nodes.iter().enumerate();
                    nodes.map(move |(n, node)| ((p, t, n), node))
                })
        })
    }

    /// A node by its name.
    pub fn find(&self, name: &str) -> Option<(Place, &Node)> {
        self.nodes().find(|(_, node)| node.name == name)
    }

    /// The thread of a node of the main process; `None` for a node of another
    /// process, or that is not placed.
    pub fn thread_of(&self, name: &str) -> Option<usize> {
        match self.find(name)? {
            ((0, thread, _), _) => Some(thread),
            _ => None,
        }
    }

    /// Cores of the main process's threads.
    pub fn cores(&self) -> Vec<Option<usize>> {
        let main = self.processes.first();
        let threads = main.map_or(&[][..], |main| &main.threads);
        threads.iter().map(|thread| thread.core).collect()
    }

    /// How packets get from one node to another; `None` where one is not placed.
    pub fn edge(&self, from: &str, to: &str) -> Option<EdgeKind> {
        let (a, from) = self.find(from)?;
        let (b, to) = self.find(to)?;
        Some(if from.kind == Kind::Sandbox || to.kind == Kind::Sandbox {
            EdgeKind::Border
        } else if a.0 != b.0 {
            EdgeKind::Ring
        } else if a.1 != b.1 {
            EdgeKind::Queue
        } else {
            EdgeKind::SameThread
        })
    }

    /// Finds what can't be run.
    ///
    /// # Errors
    ///
    /// The first fault, for people.
    pub fn check(&self) -> Result<(), String> {
        let mut seen: BTreeMap<&str, Place> = BTreeMap::new();
        for (place, node) in self.nodes() {
            if seen.insert(&node.name, place).is_some() {
                return Err(format!("node `{}` is placed twice", node.name));
            }
            let alone = self.processes.get(place.0).map_or(0, |p| p.threads.len()) == 1
                && self.nodes().filter(|(other, _)| other.0 == place.0).count() == 1;
            let may_move = matches!(
                node.kind,
                Kind::Stage | Kind::Sandbox | Kind::Runtime | Kind::Guard
            );
            if place.0 > 0 && !may_move {
                return Err(format!(
                    "node `{}` is a {}, which runs in the main process only",
                    node.name, node.kind
                ));
            }
            if place.0 > 0 && !alone {
                return Err(format!(
                    "process `{}` has several nodes: beside the main process each has one",
                    self.processes[place.0].name
                ));
            }
            let apart = match node.kind {
                Kind::Sandbox => "is not trusted",
                Kind::Guard => "outlives the main process",
                _ => "",
            };
            if !apart.is_empty() && place.0 == 0 {
                return Err(format!(
                    "node `{}` {apart}: it needs a process of its own",
                    node.name
                ));
            }
        }
        if seen.get("ports") != Some(&(0, 0, 0)) {
            return Err("the first node of the first thread is `ports`".to_owned());
        }
        if let Some(empty) = self.processes.iter().find(|process| {
            process.threads.is_empty() || process.threads.iter().any(|t| t.nodes.is_empty())
        }) {
            return Err(format!(
                "process `{}` has a thread without nodes",
                empty.name
            ));
        }
        let unknown = |name: &&String| !seen.contains_key(name.as_str());
        let mut ends = self.edges.iter().flat_map(|(from, to)| [from, to]);
        match ends.find(unknown) {
            Some(name) => Err(format!("an edge names `{name}`, which is not placed")),
            None => Ok(()),
        }
    }
}

/// One line per process, thread, node and edge.
impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for process in &self.processes {
            writeln!(f, "process {}", process.name)?;
            for (number, thread) in process.threads.iter().enumerate() {
                match thread.core {
                    Some(core) => writeln!(f, "  thread {number}, core {core}")?,
                    None => writeln!(f, "  thread {number}")?,
                }
                for node in &thread.nodes {
                    write!(f, "    {:<18}", node.name)?;
                    if !node.functions.is_empty() {
                        write!(f, " {}", node.functions.join(", "))?;
                    }
                    if !node.why.is_empty() {
                        write!(f, "  ({})", node.why)?;
                    }
                    writeln!(f)?;
                }
            }
        }
        for (from, to) in &self.edges {
            let kind = self.edge(from, to);
            let kind = kind.map_or_else(|| "nowhere".to_owned(), |kind| kind.to_string());
            writeln!(f, "{from} -> {to}: {kind}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, kind: Kind) -> Node {
        Node {
            name: name.to_owned(),
            kind,
            functions: Vec::new(),
            why: String::new(),
        }
    }

    fn process(name: &str, threads: Vec<Vec<Node>>) -> Process {
        let threads = threads
            .into_iter()
            .map(|nodes| Thread { core: None, nodes });
        Process {
            name: name.to_owned(),
            threads: threads.collect(),
        }
    }

    fn placement() -> Placement {
        let first = vec![node("ports", Kind::Ports), node("web/1", Kind::Stage)];
        let second = vec![node("web/2", Kind::Stage)];
        let edge = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        Placement {
            processes: vec![
                process("main", vec![first, second]),
                process("stage 3", vec![vec![node("web/3", Kind::Stage)]]),
                process("stage 4", vec![vec![node("web/4", Kind::Sandbox)]]),
            ],
            edges: vec![
                edge("ports", "web/1"),
                edge("web/1", "web/2"),
                edge("web/2", "web/3"),
                edge("web/3", "web/4"),
                edge("web/4", "ports"),
            ],
        }
    }

    #[test]
    fn an_edge_is_what_the_places_of_its_nodes_make_it() {
        let placement = placement();
        assert_eq!(placement.check(), Ok(()));
        let edges = placement.edges.iter();
        let kinds: Vec<_> = edges.map(|(a, b)| placement.edge(a, b).unwrap()).collect();
        let border = EdgeKind::Border;
        assert_eq!(
            kinds,
            [
                EdgeKind::SameThread,
                EdgeKind::Queue,
                EdgeKind::Ring,
                border,
                border
            ]
        );
        assert_eq!(placement.thread_of("web/2"), Some(1));
        assert_eq!(placement.thread_of("web/3"), None);
        let text = placement.to_string();
        assert!(text.contains("web/2 -> web/3: ring"), "{text}");
    }

    #[test]
    fn what_can_not_be_run_is_named() {
        let fault = |change: fn(&mut Placement)| {
            let mut changed = placement();
            change(&mut changed);
            changed.check().unwrap_err()
        };
        let twice = fault(|p| p.processes[0].threads[1].nodes[0].name = "web/1".to_owned());
        assert!(twice.contains("`web/1` is placed twice"), "{twice}");
        let away = fault(|p| p.processes[1].threads[0].nodes[0].kind = Kind::Switch);
        assert!(away.contains("main process only"), "{away}");
        let inside = fault(|p| {
            let sandbox = p.processes.remove(2).threads.remove(0);
            p.processes[0].threads.push(sandbox);
        });
        assert!(inside.contains("process of its own"), "{inside}");
        let several = fault(|p| {
            let nodes = p.processes.remove(1).threads.remove(0).nodes;
            p.processes[1].threads[0].nodes.extend(nodes);
        });
        assert!(several.contains("several nodes"), "{several}");
        let no_ports = fault(|p| p.processes[0].threads.swap(0, 1));
        assert!(no_ports.contains("`ports`"), "{no_ports}");
        let empty = fault(|p| p.processes[0].threads.push(Thread::default()));
        assert!(empty.contains("without nodes"), "{empty}");
        let edge = fault(|p| p.edges.push(("ports".to_owned(), "web/9".to_owned())));
        assert!(edge.contains("`web/9`"), "{edge}");
    }
}
