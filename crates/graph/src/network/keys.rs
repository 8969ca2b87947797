//! The keys of `network:` and of what is in it.

use serde_json::{Value as Json, json};
use weir_packet::MacAddr;

use super::{
    LEAST_MTU, MODES, MOST_ADDRESSES, MOST_MTU, MOST_NEIGHBOURS, MOST_ROUTES, Mode, ON_FAILURE,
    OnFailure,
};
use crate::diagnostic::{Report, Span};
use crate::form::{Choice, Integer, Later, Own, Placed};
use crate::keys::Keys;
use crate::read;
use crate::tree::{Node, shorten};

/// Keys that only a router has.
pub(super) const ROUTER_KEYS: [&str; 3] = ["ports", "routes", "neighbours"];

/// The mapping as written. A router's keys are read once the mode is known.
#[derive(Default)]
pub(crate) struct Written {
    pub(super) mode: Option<Mode>,
    pub(super) on_failure: Option<OnFailure>,
    pub(super) ports: Option<Node>,
    pub(super) routes: Option<Node>,
    pub(super) neighbours: Option<Node>,
}

/// Keys of `network:`.
pub(crate) fn keys() -> Keys<Written> {
    let name = json!({"$ref": "#/$defs/weir-name"});
    let ports = json!({
        "type": "object",
        "minProperties": 1,
        "propertyNames": name,
        "additionalProperties": port_keys().schema(),
    });
    let mut route = route_keys().schema();
    route["anyOf"] = json!([{"required": ["via"]}, {"required": ["port"]}]);
    let list = |most: usize, item: Json| {
        Later(json!({"type": "array", "minItems": 1, "maxItems": most, "items": item}))
    };
    Keys::<Written>::new("a mapping like `mode: router`", "")
        .help("leave it out for a bump in the wire: two ports, nothing to set")
        .key("mode", "", Choice(&MODES), |w, mode| w.mode = Some(mode))
        .key(
            "on-failure",
            "What happens to packets when weir can't work on them: nothing passes, or everything.",
            Choice(&ON_FAILURE),
            |w, on_failure| w.on_failure = Some(on_failure),
        )
        .key(
            "ports",
            "Every port of the chains, with its addresses.",
            Later(ports),
            |w, ports| w.ports = Some(ports),
        )
        .key(
            "routes",
            "Routes; the ports' own networks need none.",
            list(MOST_ROUTES, route),
            |w, routes| w.routes = Some(routes),
        )
        .key(
            "neighbours",
            "Neighbours whose hardware addresses are not asked for.",
            list(MOST_NEIGHBOURS, neighbour_keys().schema()),
            |w, neighbours| w.neighbours = Some(neighbours),
        )
}

/// A port of a router as written.
#[derive(Default)]
pub(super) struct WrittenPort {
    pub(super) addresses: Option<Node>,
    pub(super) mtu: Option<(u64, Span)>,
    pub(super) mac: Option<MacAddr>,
}

/// Keys of a router's port.
pub(super) fn port_keys() -> Keys<WrittenPort> {
    let network = json!({
        "type": "string",
        "description": "Address with its network's length: `10.0.0.1/24`, `2001:db8::1/64`.",
    });
    let addresses = json!({"anyOf": [
        network,
        {"type": "array", "minItems": 1, "maxItems": MOST_ADDRESSES, "items": network},
    ]});
    Keys::<WrittenPort>::new("a mapping like `addresses: [10.0.0.1/24]`", "")
        .key(
            "addresses",
            "Its addresses, each with its network's length.",
            Later(addresses),
            |port, addresses| port.addresses = Some(addresses),
        )
        .key(
            "mtu",
            "Octets of the largest datagram that it sends; the interface's if left out.",
            Placed(Integer(LEAST_MTU..=MOST_MTU)),
            |port, mtu| port.mtu = Some(mtu),
        )
        .key(
            "mac",
            "Its hardware address.",
            Own(mac, mac_schema),
            |port, mac| {
                port.mac = Some(mac);
            },
        )
}

/// A route or a neighbour as written.
#[derive(Default)]
pub(super) struct WrittenHop {
    /// `to` or `address`.
    pub(super) whom: Option<Node>,
    pub(super) via: Option<Node>,
    pub(super) port: Option<Node>,
    pub(super) mac: Option<MacAddr>,
}

fn text() -> Later {
    Later(json!({"type": "string"}))
}

fn with_port(keys: Keys<WrittenHop>) -> Keys<WrittenHop> {
    keys.key(
        "port",
        "Port; needed where the address does not say which.",
        Later(json!({"$ref": "#/$defs/weir-name"})),
        |hop, port| hop.port = Some(port),
    )
}

/// Keys of a route.
pub(super) fn route_keys() -> Keys<WrittenHop> {
    let what = "a route like `{to: 0.0.0.0/0, via: 192.0.2.254}`";
    let keys = Keys::<WrittenHop>::new(what, "")
        .key(
            "to",
            "Destinations: `0.0.0.0/0` is all of IPv4.",
            text(),
            |hop, to| {
                hop.whom = Some(to);
            },
        )
        .needed("say where it leads: `to: 0.0.0.0/0` is everywhere")
        .key(
            "via",
            "The next router, on the link of a port.",
            text(),
            |hop, via| {
                hop.via = Some(via);
            },
        );
    with_port(keys)
}

/// Keys of a neighbour.
pub(super) fn neighbour_keys() -> Keys<WrittenHop> {
    let what = "a neighbour like `{address: 10.0.0.5, mac: 02:00:00:00:00:05}`";
    let help = "write a neighbour like `{address: 10.0.0.5, mac: 02:00:00:00:00:05}`";
    let keys = Keys::<WrittenHop>::new(what, "")
        .key("address", "Its address.", text(), |hop, address| {
            hop.whom = Some(address);
        })
        .needed(help)
        .key(
            "mac",
            "Its hardware address.",
            Own(mac, mac_schema),
            |hop, mac| {
                hop.mac = Some(mac);
            },
        )
        .needed(help);
    with_port(keys)
}

fn mac(value: &Node, report: &mut Report<'_>) -> Option<MacAddr> {
    let text = read::word(value, "a MAC address like `02:00:00:00:00:01`", report)?;
    let fault = match text.parse::<MacAddr>() {
        Ok(mac) if mac.is_multicast() => "is the address of a group",
        Ok(mac) if mac == MacAddr::default() => "is no address",
        Ok(mac) => return Some(mac),
        Err(_) => "is no MAC address",
    };
    report.error_help(
        value.span,
        format!("`{}` {fault}", shorten(text)),
        "write one like `02:00:00:00:00:01`",
    );
    None
}

fn mac_schema() -> Json {
    json!({"type": "string", "pattern": "^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$"})
}

/// JSON Schema of the mapping: one of the three modes.
pub(crate) fn schema() -> Json {
    let keys = keys();
    let form = |mode: &str, about: &str, more: &[&str], required: &[&str]| {
        let mut form = keys.schema_of(&[&["mode"], more].concat());
        form["properties"]["mode"] = json!({"const": mode, "description": about});
        if !required.is_empty() {
            form["required"] = json!(required);
        }
        form
    };
    let names = MODES.map(|(name, _)| name).join(", ");
    json!({
        "description": format!("How weir stands in the network: {names}."),
        "anyOf": [
            form("bump", "In a wire, between two ports.", &["on-failure"], &[]),
            form(
                "router",
                "Forwards between the networks of its ports.",
                &ROUTER_KEYS,
                &["mode", "ports"],
            ),
            form("tap", "A copy; nothing leaves.", &[], &["mode"]),
        ],
    })
}
