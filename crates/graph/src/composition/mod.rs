//! Compositions: a whole cluster in one file, which `weir up` runs.
//!
//! ```yaml
//! composition: edge
//! chain: webedge.yaml
//! hosts:
//!   - {name: alpha, runtimes: 1}
//!   - {name: beta, runtimes: 2}
//! switch: alpha
//! ports:
//!   in: gen:flows=300,packets=2M
//! replication: each-burst
//! ```
//!
//! What only the drivers know (ports, the chain file itself) they check, and report at the places that
//! a composition keeps of its values ([`Composition::fault`]).

mod keys;

use core::fmt;

use serde::Serialize;

use crate::Override;
use crate::diagnostic::{Diagnostic, Report, Severity, Span, Texts};
use crate::form::Form as _;
use crate::read;
use crate::script_keys::MOST_RUNTIMES;
use crate::tree::{self, Node};

pub(crate) use keys::composition_keys;
pub use keys::composition_schema;
use keys::{Draft, DraftHost, MOST_HOSTS};
#[cfg(test)]
pub(crate) use keys::{host_keys, port_keys};

/// A value, and its place in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Placed<T> {
    /// The value.
    pub value: T,
    /// Line, column, and length in characters.
    #[serde(skip)]
    place: (usize, usize, usize),
}

/// A host of a composition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ComposedHost {
    /// Its name.
    pub name: String,
    /// Runtimes on it.
    pub runtimes: u32,
}

/// A composition that was read. The values that drivers read are text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Composition {
    /// Name of the instance.
    #[serde(rename = "composition")]
    pub name: String,
    /// Path of the chain file, from the folder of this file.
    pub chain: Placed<String>,
    /// Folders with templates, likewise.
    pub templates: Vec<Placed<String>>,
    /// Settings of the chain that are overridden.
    #[serde(skip)]
    pub set: Vec<Override>,
    /// The hosts, in order.
    pub hosts: Vec<ComposedHost>,
    /// Name of the host that has the switch and the ports: one of `hosts`.
    pub switch: String,
    /// Names of hosts with a switch that stands by.
    pub standby: Vec<Placed<String>>,
    /// Ports that packets come in by, as `weir run --in` takes them.
    #[serde(rename = "in")]
    pub inputs: Vec<Placed<String>>,
    /// Ports that packets leave by.
    #[serde(rename = "out")]
    pub outputs: Vec<Placed<String>>,
    /// When a second runtime has a flow's state.
    pub replication: Option<Placed<String>>,
    /// How new flows are given to runtimes.
    pub dispatch: Option<&'static str>,
    /// Interval of heartbeats.
    pub heartbeat_ms: Option<u32>,
    /// Runtimes that there may be at a time; as many as the hosts have without it.
    pub most_runtimes: Option<u32>,
    #[serde(skip)]
    file: String,
    #[serde(skip)]
    text: String,
}

impl Composition {
    /// Runtimes of all hosts together.
    pub fn runtimes(&self) -> u32 {
        self.hosts.iter().map(|host| host.runtimes).sum()
    }

    /// True of a host with a switch that stands by.
    pub fn stands_by(&self, host: &str) -> bool {
        self.standby.iter().any(|name| name.value == host)
    }

    /// An error at one of its values; `help` says how to mend it.
    pub fn fault<T>(&self, at: &Placed<T>, message: &str, help: Option<&str>) -> Diagnostic {
        self.said(Severity::Error, at, message, help)
    }

    /// A warning at one of its values.
    pub fn warning<T>(&self, at: &Placed<T>, message: &str, help: Option<&str>) -> Diagnostic {
        self.said(Severity::Warning, at, message, help)
    }

    fn said<T>(
        &self,
        severity: Severity,
        at: &Placed<T>,
        message: &str,
        help: Option<&str>,
    ) -> Diagnostic {
        let (text, message) = (Some(&*self.text), message.to_owned());
        let said = Diagnostic::new(severity, &self.file, text, at.place, message);
        match help {
            Some(help) => said.with_help(help),
            None => said,
        }
    }
}

impl fmt::Display for Composition {
    /// For people, as `weir check` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "composition {}: chain {}", self.name, self.chain.value)?;
        let replication = self.replication.as_ref();
        let replication = replication.map_or("none", |how| how.value.as_str());
        write!(f, ", replication {replication}")?;
        for host in &self.hosts {
            let (name, runtimes) = (&host.name, host.runtimes);
            write!(f, "\n  host {name}: {runtimes} runtimes")?;
            if *name == self.switch {
                write!(f, ", the switch and the ports")?;
            } else if self.stands_by(name) {
                write!(f, ", a switch that stands by")?;
            }
        }
        if let Some(most) = self.most_runtimes {
            write!(f, "\n  {most} runtimes at most")?;
        }
        for (way, ports) in [("in ", &self.inputs), ("out", &self.outputs)] {
            for port in ports {
                write!(f, "\n  {way} {}", port.value)?;
            }
        }
        Ok(())
    }
}

/// True of a text that is meant to be a composition: its root has the key `composition`.
pub fn is_composition(text: &str) -> bool {
    let (texts, file, text) = Texts::of("", text);
    let root = tree::parse(file, text, &mut Report::new(&texts));
    root.is_some_and(|root| root.get("composition").is_some())
}

/// Reads a composition.
///
/// # Errors
///
/// Everything that is wrong with it, by line.
///
/// ```
/// use weir_graph::load_composition;
///
/// let text = "composition: edge\nchain: edge.yaml\nhosts: [{name: a, runtimes: 1}]\n\
///             switch: b\nports: {in: gen}\n";
/// let errors = load_composition("edge-cluster.yaml", text).unwrap_err();
/// assert_eq!((errors[0].line, errors[0].message.as_str()), (4, "there is no host `b`"));
/// ```
pub fn load_composition(name: &str, text: &str) -> Result<Composition, Vec<Diagnostic>> {
    let (texts, file, text) = Texts::of(name, text);
    let mut report = Report::new(&texts);
    let read = match tree::parse(file, text, &mut report) {
        Some(root) => composition(&root, &mut report),
        None => {
            if report.errors() == 0 {
                let help = "begin with `composition: NAME`, `chain: FILE` and `hosts:`";
                report.error_help(Span::start_of(file), "the file is empty", help);
            }
            None
        }
    };
    match read {
        Some(composition) if report.errors() == 0 => Ok(Composition {
            file: name.to_owned(),
            text: text.to_owned(),
            ..composition
        }),
        _ => Err(report.finish()),
    }
}

fn composition(root: &Node, report: &mut Report<'_>) -> Option<Composition> {
    let draft = composition_keys().read(root, report)?;
    let hosts = hosts(&draft, report);
    let switch = draft
        .switch
        .as_ref()
        .and_then(|node| host_of(node, &hosts, report));
    runtimes(&draft, &hosts, report);
    standby(&draft, &hosts, switch.as_deref(), report);
    let set = draft.set.iter().filter_map(|(text, span)| {
        let read = text.parse::<Override>();
        read::parsed(*span, read, report)
    });
    let set = set.collect();
    let (inputs, outputs) = (draft.ports.inputs, draft.ports.outputs);
    let place = |(value, span): (String, Span)| Placed {
        value,
        place: report.texts.place(span),
    };
    let all = |values: Vec<(String, Span)>| values.into_iter().map(place).collect();
    Some(Composition {
        name: draft.name?,
        chain: place(draft.chain?),
        templates: all(draft.templates),
        set,
        hosts,
        switch: switch?,
        standby: all(draft.standby),
        inputs: all(inputs),
        outputs: all(outputs),
        replication: draft.replication.map(place),
        dispatch: draft.dispatch,
        heartbeat_ms: draft.heartbeat_ms,
        most_runtimes: draft.most_runtimes.map(|(most, _)| most),
        file: String::new(),
        text: String::new(),
    })
}

/// Hosts of which most say which switch runs: two are a majority when one is gone.
const FEWEST_HOSTS: usize = 3;

/// The hosts of switches that stand by are others than that of the switch, each once.
fn standby(draft: &Draft, hosts: &[ComposedHost], switch: Option<&str>, report: &mut Report<'_>) {
    for (at, (name, span)) in draft.standby.iter().enumerate() {
        if !hosts.iter().any(|host| host.name == *name) {
            report.error(*span, format!("there is no host `{name}`"));
        } else if switch == Some(name) {
            report.error(*span, format!("`{name}` has the switch itself"));
        } else if draft.standby[..at].iter().any(|(before, _)| before == name) {
            report.error(*span, format!("`{name}` stands by already"));
        }
    }
    if let Some((_, span)) = draft.standby.first()
        && hosts.len() < FEWEST_HOSTS
    {
        report.error_help(
            *span,
            format!("most hosts say which switch runs, so there must be {FEWEST_HOSTS} at least"),
            "add a host: `- {name: witness}` needs no runtimes",
        );
    }
}

/// The hosts, each name once.
fn hosts(draft: &Draft, report: &mut Report<'_>) -> Vec<ComposedHost> {
    let mut hosts: Vec<ComposedHost> = Vec::new();
    if let Some((_, extra)) = draft.hosts.get(MOST_HOSTS) {
        report.error(
            *extra,
            format!("a composition has at most {MOST_HOSTS} hosts"),
        );
    }
    for (DraftHost { name, runtimes }, _) in &draft.hosts {
        let Some((name, span)) = name else {
            continue;
        };
        if hosts.iter().any(|host| host.name == *name) {
            let message = format!("there is a host `{name}` above");
            report.error_help(*span, message, "give each host a name of its own");
        }
        hosts.push(ComposedHost {
            name: name.clone(),
            runtimes: *runtimes,
        });
    }
    hosts
}

/// The name of a host, which must be one of these.
fn host_of(node: &Node, hosts: &[ComposedHost], report: &mut Report<'_>) -> Option<String> {
    let name = read::word(node, "the name of a host", report)?;
    let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    if !names.contains(&name) && !names.is_empty() {
        let help = crate::nearest::suggestion(name, "hosts", &names).unwrap_or_default();
        report.error_help(node.span, format!("there is no host `{name}`"), help);
    }
    Some(name.to_owned())
}

/// As many runtimes as a run may have, and at least one.
fn runtimes(draft: &Draft, hosts: &[ComposedHost], report: &mut Report<'_>) {
    let Some((_, at)) = draft.hosts.first() else {
        return;
    };
    let all = hosts.iter().map(|host| host.runtimes).sum();
    match all {
        0 => report.error_help(
            *at,
            "no host has a runtime",
            "say `runtimes: 1` of at least one host",
        ),
        1..=MOST_RUNTIMES => {}
        _ => report.error_help(
            *at,
            format!("that makes {all} runtimes: a cluster has at most {MOST_RUNTIMES}"),
            "give the hosts fewer",
        ),
    }
    if let Some((most, at)) = draft.most_runtimes
        && most < all
    {
        report.error_help(
            at,
            format!("the hosts have {all} runtimes, and there may be {most}"),
            format!("say `most_runtimes: {all}` or more"),
        );
    }
}
