//! The keys of compositions: their readers and their JSON Schema.

use std::net::SocketAddr;

use serde_json::{Value as Json, json};

use crate::diagnostic::{Report, Span};
use crate::form::{
    Choice, Duration, Form as _, Integer, Later, List, Name, OneOrMore, Own, Placed,
};
use crate::keys::Keys;
use crate::script_keys::MOST_RUNTIMES;
use crate::tree::Node;
use crate::{form, read};

use super::flowlets::{ComposedFlowlets, flowlet_keys};
use super::prices::{Prices, price_keys};
use super::scaling::ComposedScaling;
use super::tenants::{DraftTenant, tenant_keys};

/// Most hosts of a composition.
pub(crate) const MOST_HOSTS: usize = 64;
/// Shortest and longest interval of heartbeats, in ms.
const HEARTBEATS: core::ops::RangeInclusive<u32> = 1..=10_000;

/// Shortest and longest interval between two decisions of scaling, in ms: a load is measured in some
/// twenty looks, and one that is not looked at for a minute is not followed.
pub const INTERVALS: core::ops::RangeInclusive<u32> = 20..=60_000;

/// Words for how new flows are given to runtimes.
const DISPATCH: Choice<&str> = Choice(&[
    ("round-robin", "round-robin"),
    ("least-loaded", "least-loaded"),
    ("hash", "hash"),
]);

/// A composition before its parts are held against one another.
#[derive(Default)]
pub(crate) struct Draft {
    pub(super) name: Option<String>,
    pub(super) chain: Option<(String, Span)>,
    pub(super) templates: Vec<(String, Span)>,
    pub(super) set: Vec<(String, Span)>,
    pub(super) hosts: Vec<(DraftHost, Span)>,
    pub(super) switch: Option<Node>,
    pub(super) standby: Vec<(String, Span)>,
    pub(super) ports: DraftPorts,
    pub(super) replication: Option<(String, Span)>,
    pub(super) dispatch: Option<&'static str>,
    pub(super) flowlets: Option<(ComposedFlowlets, Span)>,
    pub(super) heartbeat_ms: Option<u32>,
    pub(super) most_runtimes: Option<(u32, Span)>,
    pub(super) scaling: Option<(ComposedScaling, Span)>,
    pub(super) tenant: Option<String>,
    pub(super) tenants: Vec<(DraftTenant, Span)>,
    pub(super) prices: Option<Prices>,
}

/// A host.
#[derive(Default)]
pub(crate) struct DraftHost {
    pub(super) name: Option<(String, Span)>,
    pub(super) runtimes: u32,
    pub(super) most_runtimes: Option<(u32, Span)>,
    pub(super) loggers: Option<(u32, Span)>,
    pub(super) address: Option<(SocketAddr, Span)>,
}

/// The ports.
#[derive(Default)]
pub(crate) struct DraftPorts {
    pub(super) inputs: Vec<(String, Span)>,
    pub(super) outputs: Vec<(String, Span)>,
}

/// Keys of a composition.
pub(crate) fn composition_keys() -> Keys<Draft> {
    let keys = Keys::<Draft>::new("a mapping that begins with `composition: NAME`", "");
    of_tenants(settings(parts(keys)))
}

/// The keys that must be there.
fn parts(keys: Keys<Draft>) -> Keys<Draft> {
    keys.key(
        "composition",
        "Name of the cluster, by which `weir get` and others find it.",
        Name("the name of a composition"),
        |draft, name| draft.name = Some(name),
    )
    .needed("begin with `composition: NAME`")
    .key(
        "chain",
        "Path of the chain file, from the folder of this file.",
        text("the path of a chain file"),
        |draft, chain| draft.chain = Some(chain),
    )
    .needed("write `chain: FILE`")
    .key(
        "hosts",
        "The hosts, each with its runtimes.",
        List(
            "a list of hosts like `{name: alpha, runtimes: 1}`",
            Placed(host_keys()),
        ),
        |draft, hosts| draft.hosts = hosts,
    )
    .needed("write `hosts:` with a list like `- {name: alpha, runtimes: 1}`")
    .key(
        "switch",
        "Name of the host that has the switch and the ports.",
        Later(form::name_schema()),
        |draft, node| draft.switch = Some(node),
    )
    .needed("write `switch: NAME` with the name of a host")
    .key(
        "ports",
        "Where packets come from and go.",
        port_keys(),
        |draft, ports| draft.ports = ports,
    )
    .needed("write `ports: {in: gen:flows=300,packets=2M}`, say")
}

/// The keys that may be there.
fn settings(keys: Keys<Draft>) -> Keys<Draft> {
    keys.key(
        "standby",
        "Hosts with a switch that stands by, and takes over where the one that runs is gone.",
        OneOrMore("names of hosts", text("the name of a host")),
        |draft, hosts| draft.standby = hosts,
    )
    .key(
        "replication",
        "When a second runtime has a flow's state, as `weir run --replication` takes it.",
        Placed(Own(replication, replication_schema)),
        |draft, how| draft.replication = Some(how),
    )
    .key(
        "dispatch",
        "How new flows are given to runtimes, as `weir run --dispatch` takes it.",
        DISPATCH,
        |draft, how| draft.dispatch = Some(how),
    )
    .key(
        "flowlets",
        "New and open flows are given to runtimes by load, at each flowlet; without it a flow stays where it began.",
        Placed(flowlet_keys()),
        |draft, by| draft.flowlets = Some(by),
    )
    .key(
        "heartbeat",
        "Interval of heartbeats between hosts, `1ms` to `10s`; without it `250ms`, and `20ms` where hosts have addresses.",
        Own(heartbeat, || Duration.schema()),
        |draft, ms| draft.heartbeat_ms = Some(ms),
    )
    .key(
        "most_runtimes",
        "Runtimes that `weir scale` may have run at a time; as many as the hosts have without it.",
        Placed(Integer(1..=u64::from(MOST_RUNTIMES))),
        |draft, (most, at)| draft.most_runtimes = Some((most as u32, at)),
    )
    .key(
        "scaling",
        "Runtimes are started and drained as their load asks for; as many as the hosts have stay without it.",
        Placed(scaling_keys()),
        |draft, by| draft.scaling = Some(by),
    )
    .key(
        "set",
        "Settings of the chain that are overridden, as `weir run --set` takes them.",
        OneOrMore("settings like `firewall.default=drop`", text("a setting")),
        |draft, set| draft.set = set,
    )
    .key(
        "templates",
        "Folders with templates that the chain may name.",
        OneOrMore("folders", text("a folder")),
        |draft, folders| draft.templates = folders,
    )
}

/// The keys of what tenants use and may have.
fn of_tenants(keys: Keys<Draft>) -> Keys<Draft> {
    keys.key(
        "tenant",
        "Name under which chains are billed that name no tenant themselves; `default` without it.",
        Name("the name of a tenant"),
        |draft, tenant| draft.tenant = Some(tenant),
    )
    .key(
        "tenants",
        "What tenants may send, and their parts where they want more than there is; each may have all without it.",
        List(
            "a list of tenants like `{name: acme, rate: 100Mbit}`",
            Placed(tenant_keys()),
        ),
        |draft, tenants| draft.tenants = tenants,
    )
    .key(
        "prices",
        "Prices of what tenants use, for `weir bill`.",
        price_keys(),
        |draft, prices| draft.prices = Some(prices),
    )
}

/// Keys of a host.
pub(crate) fn host_keys() -> Keys<DraftHost> {
    Keys::<DraftHost>::new("a host like `{name: alpha, runtimes: 1}`", "")
        .key(
            "name",
            "Name of the host.",
            Placed(Name("the name of a host")),
            |host, name| host.name = Some(name),
        )
        .needed("give the host a name: `name: alpha`")
        .key(
            "runtimes",
            "Runtimes on it at the start; none without it.",
            Integer(0..=u64::from(MOST_RUNTIMES)),
            |host, n| host.runtimes = n as u32,
        )
        .key(
            "address",
            "Address and UDP port of its agent, which the other hosts reach it at: `weir up --host` needs it.",
            Placed(Own(address, address_schema)),
            |host, at| host.address = Some(at),
        )
        .key(
            "most_runtimes",
            "Runtimes that `weir scale` and `scaling` may have on it; as many as at the start without it.",
            Placed(Integer(0..=u64::from(MOST_RUNTIMES))),
            |host, (most, at)| host.most_runtimes = Some((most as u32, at)),
        )
        .key(
            "loggers",
            "Loggers on it, which keep copies of the states of all runtimes and run no packets; none without it.",
            Placed(Integer(0..=u64::from(MOST_RUNTIMES))),
            |host, (n, at)| host.loggers = Some((n as u32, at)),
        )
}

/// Keys of `scaling:`.
pub(crate) fn scaling_keys() -> Keys<ComposedScaling> {
    const RUNTIMES: Integer = Integer(1..=MOST_RUNTIMES as u64);
    const PERCENT: Integer = Integer(0..=100);
    Keys::<ComposedScaling>::new("a mapping like `{minimum: 1, maximum: 4}`", "")
        .key("minimum", "Fewest runtimes.", RUNTIMES, |by, n| {
            by.minimum = n as u32;
        })
        .needed("say how few runtimes there may be: `minimum: 1`")
        .key("maximum", "Most runtimes.", RUNTIMES, |by, n| {
            by.maximum = n as u32;
        })
        .needed("say how many runtimes there may be: `maximum: 4`")
        .key(
            "interval",
            "Time between two decisions, `20ms` to `60s`; `1s` without it.",
            Own(interval, || Duration.schema()),
            |by, ms| by.interval_ms = Some(ms),
        )
        .key(
            "cool_down",
            "Time after an overload, or a change of the runtimes, before one is drained; `10s` without it.",
            Duration,
            |by, ms| by.cool_down_ms = Some(ms),
        )
        .key(
            "batch",
            "Units that are moved from an overloaded runtime at a time; 500 without it.",
            Integer(1..=u64::from(u32::MAX)),
            |by, n| by.batch = Some(n as u32),
        )
        .key(
            "held_back",
            "Percentage of the time that ports may wait for a runtime before it is overloaded; 10 without it.",
            PERCENT,
            |by, n| by.held_back = Some(n as u32),
        )
        .key(
            "calm",
            "Percentage of what one runtime can take under which all must be before one is drained; 50 without it.",
            PERCENT,
            |by, n| by.calm = Some(n as u32),
        )
        .key(
            "capacity",
            "Packets per second that one runtime can take, where that is known; measured at overloads without it.",
            Integer(1..=u64::MAX),
            |by, n| by.capacity = Some(n),
        )
}

/// Keys of `ports:`.
pub(crate) fn port_keys() -> Keys<DraftPorts> {
    Keys::<DraftPorts>::new("a mapping like `{in: gen, out: out.pcap}`", "")
        .key(
            "in",
            "Ports that packets come in by, as `weir run --in` takes them.",
            OneOrMore("ports", port()),
            |ports, inputs| ports.inputs = inputs,
        )
        .needed("say where packets come from: `in: gen:flows=300,packets=2M`, say")
        .key(
            "out",
            "Ports that packets leave by; nowhere without it.",
            OneOrMore("ports", port()),
            |ports, outputs| ports.outputs = outputs,
        )
}

/// Text with its place; `what` is for errors.
fn text(what: &'static str) -> Placed<Words> {
    Placed(Words(what))
}

/// Text that is not empty; the word says of what, for errors.
pub(crate) struct Words(&'static str);

impl form::Form for Words {
    type Value = String;

    fn read(&self, node: &Node, report: &mut Report<'_>) -> Option<String> {
        let text = read::word(node, self.0, report)?.trim();
        if text.is_empty() {
            report.error(node.span, format!("expected {}, found nothing", self.0));
            return None;
        }
        Some(text.to_owned())
    }

    fn schema(&self) -> Json {
        json!({"type": "string", "minLength": 1})
    }
}

/// A port, as the command line takes it.
fn port() -> Placed<Own<String>> {
    fn read(node: &Node, report: &mut Report<'_>) -> Option<String> {
        match node.is_null() {
            // To YAML it is nothing; as a port it is a word.
            true if node.text() == Some("null") => Some("null".to_owned()),
            _ => form::Form::read(&Words("a port"), node, report),
        }
    }
    let schema = || json!({"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}]});
    Placed(Own(read, schema))
}

/// An agent's address: that of a host, which others can name.
fn address(node: &Node, report: &mut Report<'_>) -> Option<SocketAddr> {
    const EXPECTED: &str = "an address and a UDP port like `10.0.9.1:4790` or `[2001:db8::1]:4790`";
    let text = read::word(node, EXPECTED, report)?;
    match text.parse::<SocketAddr>() {
        Ok(at) if at.port() == 0 => {
            report.error(node.span, "other hosts need its port: 0 is none");
            None
        }
        Ok(at) if at.ip().is_unspecified() || at.ip().is_multicast() => {
            let message = format!("{} is no address of a host", at.ip());
            report.error(node.span, message);
            None
        }
        Ok(at) => Some(at),
        Err(_) => {
            report.error(node.span, format!("expected {EXPECTED}, found `{text}`"));
            None
        }
    }
}

fn address_schema() -> Json {
    json!({"type": "string", "pattern": "^([0-9.]+|\\[[0-9A-Fa-f:.]+\\]):[0-9]+$"})
}

/// The protocol reads it.
fn replication(node: &Node, report: &mut Report<'_>) -> Option<String> {
    read::word(node, "`none`, `each-burst` or `every-N`", report).map(str::to_owned)
}

fn replication_schema() -> Json {
    json!({"type": "string", "pattern": "^(none|each-burst|every-[0-9]+)$"})
}

fn interval(node: &Node, report: &mut Report<'_>) -> Option<u32> {
    let ms = Duration.read(node, report)?;
    if !INTERVALS.contains(&ms) {
        let message = "an interval of decisions is from `20ms` to `60s`";
        report.error(node.span, message);
        return None;
    }
    Some(ms)
}

fn heartbeat(node: &Node, report: &mut Report<'_>) -> Option<u32> {
    let ms = Duration.read(node, report)?;
    if !HEARTBEATS.contains(&ms) {
        report.error(
            node.span,
            "an interval of heartbeats is from `1ms` to `10s`",
        );
        return None;
    }
    Some(ms)
}

/// JSON Schema (draft 2020-12) of a composition for `weir up`.
///
/// Rules between values (each host has a name of its own, `switch` names one) can't be written in a
/// schema, nor what only the drivers know of ports.
pub fn composition_schema() -> Json {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "weir composition",
        "description": "A whole cluster, which `weir up FILE` runs.",
        "$defs": {"weir-name": form::name_schema()},
    });
    if let (Json::Object(whole), Json::Object(keys)) = (&mut schema, composition_keys().schema()) {
        whole.extend(keys);
    }
    schema["properties"]["hosts"]["maxItems"] = json!(MOST_HOSTS);
    schema
}
