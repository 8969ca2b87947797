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

mod flowlets;
mod keys;
mod prices;
mod scaling;
mod tenants;

use core::fmt;
use std::net::SocketAddr;

use serde::Serialize;

use crate::Override;
use crate::diagnostic::{Diagnostic, Report, Severity, Span, Texts};
use crate::form::Form as _;
use crate::read;
use crate::script_keys::MOST_RUNTIMES;
use crate::tree::{self, Node};

pub use flowlets::ComposedFlowlets;
#[cfg(test)]
pub(crate) use flowlets::flowlet_keys;
pub(crate) use keys::composition_keys;
use keys::{Draft, DraftHost, MOST_HOSTS};
pub use keys::{INTERVALS as SCALING_INTERVALS, composition_schema};
#[cfg(test)]
pub(crate) use keys::{host_keys, port_keys, scaling_keys};
#[cfg(test)]
pub(crate) use prices::price_keys;
pub use prices::{NANO, Prices};
pub use scaling::ComposedScaling;
pub use tenants::ComposedTenant;
#[cfg(test)]
pub(crate) use tenants::tenant_keys;

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
    /// Runtimes on it at the start.
    pub runtimes: u32,
    /// Runtimes that there may be on it at a time.
    pub most_runtimes: u32,
    /// Loggers on it.
    pub loggers: u32,
    /// Address at which the others reach its agent, where all hosts have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<SocketAddr>,
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
    /// Units are given out by flowlet.
    pub flowlets: Option<ComposedFlowlets>,
    /// Interval of heartbeats.
    pub heartbeat_ms: Option<u32>,
    /// Runtimes that there may be at a time, as the file says of all hosts together.
    most_runtimes: Option<u32>,
    /// A host says how many it may have.
    #[serde(skip)]
    hosts_say: bool,
    /// When runtimes are started and drained as their load asks for.
    pub scaling: Option<Placed<ComposedScaling>>,
    /// Name under which chains are billed that name no tenant themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Limits of tenants.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<Placed<ComposedTenant>>,
    /// Prices of what tenants use. A change of them takes no restart.
    #[serde(skip)]
    pub prices: Option<Prices>,
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

    /// Loggers of all hosts together.
    pub fn loggers(&self) -> u32 {
        self.hosts.iter().map(|host| host.loggers).sum()
    }

    /// The host of each logger, as its number.
    pub fn logger_places(&self) -> Vec<usize> {
        let hosts = self.hosts.iter().enumerate();
        hosts
            .flat_map(|(at, host)| (0..host.loggers).map(move |_| at))
            .collect()
    }

    /// Runtimes that there may be at a time, where the file says so.
    pub fn most_runtimes(&self) -> Option<u32> {
        let of_hosts = self.hosts.iter().map(|host| host.most_runtimes).sum();
        self.most_runtimes.or(self.hosts_say.then_some(of_hosts))
    }

    /// The host of each place of a runtime, as its number: those of the start first, then those of
    /// hosts that may have more, one of each host in turn.
    pub fn places(&self) -> Vec<usize> {
        let hosts = || self.hosts.iter().enumerate();
        let at_start = hosts().flat_map(|(at, host)| (0..host.runtimes).map(move |_| at));
        let most = self.hosts.iter().map(|host| host.most_runtimes).max();
        let later = (0..most.unwrap_or(0)).flat_map(|turn| {
            let more = move |host: &ComposedHost| host.runtimes + turn < host.most_runtimes;
            hosts().filter_map(move |(at, host)| more(host).then_some(at))
        });
        at_start.chain(later).collect()
    }

    /// True where the hosts have addresses, so that each is a machine of its own.
    pub fn has_addresses(&self) -> bool {
        self.hosts.iter().all(|host| host.address.is_some())
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
            if host.most_runtimes > runtimes {
                write!(f, ", {} at most", host.most_runtimes)?;
            }
            if host.loggers > 0 {
                write!(f, ", {} loggers", host.loggers)?;
            }
            if let Some(address) = host.address {
                write!(f, ", at {address}")?;
            }
            if *name == self.switch {
                write!(f, ", the switch and the ports")?;
            } else if self.stands_by(name) {
                write!(f, ", a switch that stands by")?;
            }
        }
        if let Some(most) = self.most_runtimes() {
            write!(f, "\n  {most} runtimes at most")?;
        }
        if let Some(Placed { value: by, .. }) = &self.scaling {
            let (least, most) = (by.minimum, by.maximum);
            write!(f, "\n  {least} to {most} runtimes, as their load asks for")?;
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
    loggers(&draft, &hosts, report);
    addresses(&draft, report);
    standby(&draft, &hosts, switch.as_deref(), report);
    let set = draft.set.iter().filter_map(|(text, span)| {
        let read = text.parse::<Override>();
        read::parsed(*span, read, report)
    });
    let set = set.collect();
    let hosts_say = hosts_say(&draft);
    let tenants = tenants::tenants(draft.tenants, report);
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
        flowlets: draft.flowlets.map(|(by, _)| by),
        heartbeat_ms: draft.heartbeat_ms,
        most_runtimes: draft.most_runtimes.map(|(most, _)| most),
        hosts_say,
        scaling: draft.scaling.map(|(value, span)| Placed {
            value,
            place: report.texts.place(span),
        }),
        tenant: draft.tenant,
        tenants: (tenants.into_iter())
            .map(|(value, span)| Placed {
                value,
                place: report.texts.place(span),
            })
            .collect(),
        prices: draft.prices,
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
    for (host, _) in &draft.hosts {
        let Some((name, span)) = &host.name else {
            continue;
        };
        let runtimes = host.runtimes;
        if let Some((most, at)) = host.most_runtimes
            && most < runtimes
        {
            let message =
                format!("it has {runtimes} runtimes at the start, and there may be {most}");
            report.error_help(
                at,
                message,
                format!("say `most_runtimes: {runtimes}` or more"),
            );
        }
        if hosts.iter().any(|host| host.name == *name) {
            let message = format!("there is a host `{name}` above");
            report.error_help(*span, message, "give each host a name of its own");
        }
        hosts.push(ComposedHost {
            name: name.clone(),
            runtimes,
            most_runtimes: host.most_runtimes.map_or(runtimes, |(most, _)| most),
            loggers: host.loggers.map_or(0, |(loggers, _)| loggers),
            address: host.address.map(|(at, _)| at),
        });
    }
    hosts
}

/// All hosts have addresses, or none has; each host another one.
fn addresses(draft: &Draft, report: &mut Report<'_>) {
    let with = |(host, at): &(DraftHost, Span)| host.address.ok_or(*at);
    let read: Vec<_> = draft.hosts.iter().map(with).collect();
    let Some(first) = read.iter().position(Result::is_ok) else {
        return;
    };
    for (at, host) in read.iter().enumerate() {
        let (address, span) = match host {
            Ok(with) => with,
            Err(span) => {
                let message = "the other hosts have no address of this one to reach it at";
                report.error_help(
                    *span,
                    message,
                    "say `address: 10.0.9.1:4790`, say, of all hosts, or of none",
                );
                continue;
            }
        };
        let before = read.get(first..at).unwrap_or_default();
        let mut before = before.iter().flatten();
        if before.any(|(other, _)| other.ip() == address.ip()) {
            let message = format!(
                "a host above has the address {}: hosts are told apart by it",
                address.ip()
            );
            report.error_help(*span, message, "give each host an address of its own");
        }
    }
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

/// True where a host says how many runtimes it may have.
fn hosts_say(draft: &Draft) -> bool {
    let mut hosts = draft.hosts.iter();
    hosts.any(|(host, _)| host.most_runtimes.is_some())
}

/// Loggers have something to keep, and runtimes and loggers together are as many as a run may have.
fn loggers(draft: &Draft, hosts: &[ComposedHost], report: &mut Report<'_>) {
    let first = draft.hosts.iter().find_map(|(host, _)| host.loggers);
    let Some((_, at)) = first.filter(|_| hosts.iter().any(|host| host.loggers > 0)) else {
        return;
    };
    let replication = draft.replication.as_ref().map(|(how, _)| how.as_str());
    if matches!(replication, None | Some("none")) {
        let message = "loggers keep copies of states, and none are made";
        report.error_help(at, message, "say `replication: each-burst` beside `hosts`");
    }
    let runtimes: u32 = hosts.iter().map(|host| host.most_runtimes).sum();
    let runtimes = runtimes.max(draft.most_runtimes.map_or(0, |(most, _)| most));
    let scaled = draft.scaling.as_ref().map_or(0, |(by, _)| by.maximum);
    let runtimes = runtimes.max(scaled);
    let loggers: u32 = hosts.iter().map(|host| host.loggers).sum();
    if runtimes <= MOST_RUNTIMES && runtimes + loggers > MOST_RUNTIMES {
        let message = format!(
            "{runtimes} runtimes and {loggers} loggers make {}: a cluster has at most \
             {MOST_RUNTIMES} of both",
            runtimes + loggers
        );
        report.error_help(at, message, "give the hosts fewer");
    }
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
    let of_hosts: u32 = hosts.iter().map(|host| host.most_runtimes).sum();
    if of_hosts > MOST_RUNTIMES && all <= MOST_RUNTIMES {
        let message = format!(
            "the hosts may have {of_hosts} runtimes together: a cluster has at most {MOST_RUNTIMES}"
        );
        report.error_help(*at, message, "let `most_runtimes` of hosts be less");
    }
    if let Some((most, at)) = draft.most_runtimes
        && hosts_say(draft)
        && of_hosts < most
    {
        let message = format!("the hosts may have {of_hosts} runtimes together, and not {most}");
        report.error_help(at, message, "let `most_runtimes` of a host be more");
    }
    if let (Some((_, at)), Some(_)) = (&draft.flowlets, draft.dispatch) {
        let message = "`flowlets` gives out all flows: `dispatch` says nothing beside it";
        report.error_help(*at, message, "leave one of them out");
    }
    if let Some((by, at)) = &draft.scaling {
        let said = draft.most_runtimes.map(|(most, _)| most);
        let places = said.or(hosts_say(draft).then_some(of_hosts));
        by.fits(*at, (all, places), report);
    }
}
