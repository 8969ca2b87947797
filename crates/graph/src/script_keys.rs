//! The keys of scripts: their readers and their JSON Schema.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde_json::{Value as Json, json};
use weir_packet::protocol::ip;
use weir_packet::{FlowKey, Prefix};

use crate::diagnostic::Report;
use crate::form::{Choice, Form, Integer, Later, OneOrMore, Own};
use crate::keys::Keys;
use crate::nearest::listed;
use crate::read;
use crate::selector::{VALUES, ip_protocol, ports, prefixes, protocol_schema_of};
use crate::tree::Node;

/// Most commands of a script.
pub(crate) const MOST_STEPS: usize = 10_000;
/// Most runtimes that a run may have, added ones included.
pub const MOST_RUNTIMES: u32 = 64;

/// How a move brings states over; the protocol says what each means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScriptMode {
    /// The source sends as soon as it can.
    #[default]
    Push,
    /// The target asks first.
    Pull,
    /// An early snapshot, then copies of packets.
    Reprocess,
}

/// Flows that a `move` takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptFlows {
    /// All that the source has.
    All,
    /// So many.
    Count(u32),
    /// Those with an end in this space; an empty list takes all.
    Space {
        /// Address prefixes.
        prefixes: Vec<Prefix>,
        /// First and last port.
        ports: Vec<(u16, u16)>,
        /// IP protocol numbers.
        protocols: Vec<u8>,
    },
    /// The flow (both ends) or scope (a part of them) with this key, its chain
    /// left 0.
    Key(FlowKey),
}

/// A command by its key.
#[derive(Clone, Copy)]
pub(crate) enum Command {
    Move,
    Drain,
    Add,
    Remove,
}

/// An entry of a script, its values not read yet: they depend on the entries before.
#[derive(Default)]
pub(crate) struct Entry {
    pub(crate) at: Option<Node>,
    pub(crate) command: Option<(Command, Node)>,
}

/// A `move`.
#[derive(Default)]
pub(crate) struct Move {
    pub(crate) from: Option<Node>,
    pub(crate) to: Option<Node>,
    pub(crate) flows: Option<ScriptFlows>,
    pub(crate) mode: ScriptMode,
    pub(crate) chain: Option<Node>,
}

/// A `drain`.
#[derive(Default)]
pub(crate) struct Drain {
    pub(crate) runtime: Option<Node>,
    pub(crate) mode: ScriptMode,
}

/// A space of flows.
#[derive(Default)]
struct Space {
    prefixes: Vec<Prefix>,
    ports: Vec<(u16, u16)>,
    protocols: Vec<u8>,
}

/// Parts of a flow's key.
#[derive(Default)]
struct Ends {
    client: Option<(IpAddr, u16)>,
    server: Option<(IpAddr, u16)>,
    protocol: Option<u8>,
}

const MODE: &str = "How states come over: sent at once, on request, or as an early snapshot and \
                    copies of packets.";
const MODES: Choice<ScriptMode> = Choice(&[
    ("push", ScriptMode::Push),
    ("pull", ScriptMode::Pull),
    ("reprocess", ScriptMode::Reprocess),
]);

/// Keys of an entry.
pub(crate) fn entry_keys() -> Keys<Entry> {
    let set = |command| move |entry: &mut Entry, node| entry.command = Some((command, node));
    let drain = json!({"anyOf": [runtime_schema(), drain_keys().schema()]});
    Keys::<Entry>::new("a command like `{at: 1s, drain: 2}`", "")
        .key(
            "at",
            "Time after the start, or the number of a packet.",
            Later(time_schema()),
            |entry, node| entry.at = Some(node),
        )
        .needed("say when: `at: 100ms`, or `at: {packet: 50000}`")
        .key(
            "move",
            "Moves flows from one runtime to another; all of them if not said which.",
            Later(move_keys().schema()),
            set(Command::Move),
        )
        .key(
            "drain",
            "Gives all flows of a runtime to the others.",
            Later(drain),
            set(Command::Drain),
        )
        .key(
            "add",
            "Starts so many runtimes; they have the next numbers.",
            Later(runtime_schema()),
            set(Command::Add),
        )
        .key(
            "remove",
            "Stops a runtime that was drained.",
            Later(runtime_schema()),
            set(Command::Remove),
        )
}

/// Keys of `at:`.
pub(crate) fn packet_keys() -> Keys<u64> {
    Keys::<u64>::new("a mapping like `{packet: 50000}`", "")
        .key("packet", "", Integer(0..=u64::MAX), |packet, n| *packet = n)
        .needed("write `at: {packet: 50000}`")
}

/// Keys of `move:`.
pub(crate) fn move_keys() -> Keys<Move> {
    let both = "a move names both: `{from: 1, to: 2}`";
    Keys::<Move>::new("a mapping like `{from: 1, to: 2, count: 500}`", "")
        .key("from", "", Later(runtime_schema()), |m, n| m.from = Some(n))
        .needed(both)
        .key("to", "", Later(runtime_schema()), |m, n| m.to = Some(n))
        .needed(both)
        .key(
            "count",
            "So many.",
            Integer(1..=u64::from(u32::MAX)),
            |m, n| m.flows = Some(ScriptFlows::Count(n as u32)),
        )
        .key(
            "flows",
            "Those with an end in this space.",
            Own(space, || not_empty(space_keys().schema())),
            |m, flows| m.flows = Some(flows),
        )
        .key(
            "key",
            "One flow, or (with a part of the keys) one scope.",
            Own(flow_key, || not_empty(end_keys().schema())),
            |m, key| m.flows = Some(ScriptFlows::Key(key)),
        )
        .key("mode", MODE, MODES, |m, mode| m.mode = mode)
        .key(
            "chain",
            "Of this chain only.",
            Later(json!({"type": "string"})),
            |m, node| m.chain = Some(node),
        )
}

/// Keys of `drain:`.
pub(crate) fn drain_keys() -> Keys<Drain> {
    Keys::<Drain>::new("a runtime, or a mapping like `{runtime: 2}`", "")
        .key("runtime", "", Later(runtime_schema()), |drain, node| {
            drain.runtime = Some(node)
        })
        .needed("write `drain: 2`, or `drain: {runtime: 2, mode: pull}`")
        .key("mode", MODE, MODES, |drain, mode| drain.mode = mode)
}

/// Keys of `flows:`.
fn space_keys() -> Keys<Space> {
    Keys::<Space>::new("a mapping like `{port: 80}`", "")
        .key(
            "prefix",
            "Addresses: `10.0.0.0/8`.",
            prefixes(),
            |space, prefixes| space.prefixes = prefixes,
        )
        .key(
            "port",
            "Ports: `80`, `8000-8100`.",
            ports(),
            |space, ports| space.ports = ports,
        )
        .key(
            "protocol",
            "IP protocols.",
            OneOrMore(VALUES, Own(protocol, protocol_schema)),
            |space, protocols| space.protocols = protocols,
        )
}

/// Keys of `key:`; what is left out is not in the scope.
fn end_keys() -> Keys<Ends> {
    let text = || json!({"type": "string"});
    Keys::<Ends>::new(
        "a mapping like `{client: \"10.0.0.1:1234\", server: \"192.0.2.1:80\", protocol: tcp}`",
        "",
    )
    .key("client", "`10.0.0.1:1234`", Own(end, text), |ends, end| {
        ends.client = Some(end)
    })
    .key("server", "`192.0.2.1:80`", Own(end, text), |ends, end| {
        ends.server = Some(end)
    })
    .key("protocol", "", Own(protocol, protocol_schema), |ends, n| {
        ends.protocol = Some(n)
    })
}

fn not_empty(mut schema: Json) -> Json {
    schema["minProperties"] = json!(1);
    schema
}

fn space(node: &Node, report: &mut Report<'_>) -> Option<ScriptFlows> {
    let (keys, errors) = (space_keys(), report.errors());
    let space = keys.read(node, report)?;
    if node.entries().is_some_and(<[_]>::is_empty) {
        let names = listed(&keys.names());
        report.error_help(
            node.span,
            "an empty choice of flows",
            format!("name one of {names}, or leave `flows` out to move all"),
        );
    }
    (report.errors() == errors).then_some(ScriptFlows::Space {
        prefixes: space.prefixes,
        ports: space.ports,
        protocols: space.protocols,
    })
}

/// The key of a flow, or of a scope: what is left out is not in the scope.
fn flow_key(node: &Node, report: &mut Report<'_>) -> Option<FlowKey> {
    let errors = report.errors();
    let ends = end_keys().read(node, report)?;
    if report.errors() > errors {
        return None;
    }
    let Some((first, _)) = ends.client.or(ends.server) else {
        report.error_help(
            node.span,
            "a key without an address",
            "name `client`, `server` or both",
        );
        return None;
    };
    let nowhere = match first {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let (from, from_port) = ends.client.unwrap_or((nowhere, 0));
    let (to, to_port) = ends.server.unwrap_or((nowhere, 0));
    if from.is_ipv4() != to.is_ipv4() {
        report.error(node.span, "one end is IPv4 and the other IPv6");
        return None;
    }
    let protocol = ends.protocol.unwrap_or(0);
    let (key, _) = FlowKey::new(from, from_port, to, to_port, protocol, 0, 0);
    Some(key)
}

fn protocol(node: &Node, report: &mut Report<'_>) -> Option<u8> {
    ip_protocol(node, &[], report)
}

fn protocol_schema() -> Json {
    protocol_schema_of(ip::NAMES.iter().map(|(name, _)| *name))
}

fn runtime_schema() -> Json {
    json!({"type": "integer", "minimum": 1, "maximum": MOST_RUNTIMES})
}

fn time_schema() -> Json {
    json!({"anyOf": [
        {
            "type": "string",
            "pattern": "^(([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$",
            "minLength": 2,
        },
        {"const": 0},
        packet_keys().schema(),
    ]})
}

/// An address, with a port or without.
fn end(node: &Node, report: &mut Report<'_>) -> Option<(IpAddr, u16)> {
    let what = "an address like `10.0.0.1`, or with a port like `10.0.0.1:80`, `[2001:db8::1]:80`";
    let text = read::word(node, what, report)?;
    let address = text.parse::<IpAddr>().map(|address| (address, 0));
    let found = address.or_else(|_| {
        let end = text.parse::<SocketAddr>();
        end.map(|end| (end.ip(), end.port()))
    });
    if found.is_err() {
        report.expected(node, what);
    }
    found.ok()
}

/// JSON Schema (draft 2020-12) of a script for `weir run --script`.
///
/// Rules that depend on earlier commands (the runtimes there are) can't be written in a schema.
pub fn script_schema() -> Json {
    let keys = entry_keys();
    let commands = keys.names().into_iter().skip(1);
    let mut entry = keys.schema();
    entry["oneOf"] = commands.map(|name| json!({"required": [name]})).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "weir script",
        "description": "Timed commands for `weir run --runtimes N --script FILE`, in order.",
        "type": "array",
        "minItems": 1,
        "maxItems": MOST_STEPS,
        "items": entry,
    })
}
