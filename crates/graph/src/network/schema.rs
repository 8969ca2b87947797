//! JSON Schema of `network:`.

use serde_json::{Value, json};

use super::{LEAST_MTU, MODES, MOST_ADDRESSES, MOST_MTU, MOST_NEIGHBOURS, MOST_ROUTES, ON_FAILURE};

/// JSON Schema of the mapping.
pub(crate) fn schema() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let network = text("Address with its network's length: `10.0.0.1/24`, `2001:db8::1/64`.");
    let port = json!({
        "$ref": "#/$defs/weir-name",
        "description": "Port; needed where the address does not say which.",
    });
    let mac = json!({
        "description": "Hardware address: `02:00:00:00:00:01`.",
        "type": "string",
        "pattern": "^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$",
    });
    let on_failure = json!({
        "description": "What happens to packets when weir can't work on them: nothing passes, or \
                        everything.",
        "enum": ON_FAILURE.map(|(name, _)| name),
    });
    let routed_port = json!({
        "type": "object",
        "required": ["addresses"],
        "additionalProperties": false,
        "properties": {
            "addresses": {
                "description": "Its addresses, each with its network's length.",
                "anyOf": [
                    network,
                    {"type": "array", "minItems": 1, "maxItems": MOST_ADDRESSES, "items": network},
                ],
            },
            "mtu": {
                "description": "Octets of the largest datagram that it sends; the interface's if \
                                left out.",
                "type": "integer", "minimum": LEAST_MTU, "maximum": MOST_MTU,
            },
            "mac": mac,
        },
    });
    let route = json!({
        "type": "object",
        "required": ["to"],
        "additionalProperties": false,
        "anyOf": [{"required": ["via"]}, {"required": ["port"]}],
        "properties": {
            "to": text("Destinations: `0.0.0.0/0` is all of IPv4."),
            "via": text("The next router, on the link of a port."),
            "port": port,
        },
    });
    let neighbour = json!({
        "type": "object",
        "required": ["address", "mac"],
        "additionalProperties": false,
        "properties": {"address": text("Its address."), "mac": mac, "port": port},
    });
    let of_router = json!({
        "type": "object",
        "required": ["mode", "ports"],
        "additionalProperties": false,
        "properties": {
            "mode": {"const": "router", "description": "Forwards between the networks of its ports."},
            "ports": {
                "description": "Every port of the chains, with its addresses.",
                "type": "object",
                "minProperties": 1,
                "propertyNames": {"$ref": "#/$defs/weir-name"},
                "additionalProperties": routed_port,
            },
            "routes": {
                "description": "Routes; the ports' own networks need none.",
                "type": "array", "minItems": 1, "maxItems": MOST_ROUTES, "items": route,
            },
            "neighbours": {
                "description": "Neighbours whose hardware addresses are not asked for.",
                "type": "array", "minItems": 1, "maxItems": MOST_NEIGHBOURS, "items": neighbour,
            },
        },
    });
    let of_bump = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "mode": {"const": "bump", "description": "In a wire, between two ports."},
            "on-failure": on_failure,
        },
    });
    let of_tap = json!({
        "type": "object",
        "required": ["mode"],
        "additionalProperties": false,
        "properties": {"mode": {"const": "tap", "description": "A copy; nothing leaves."}},
    });
    let names = MODES.map(|(name, _)| name).join(", ");
    json!({
        "description": format!("How weir stands in the network: {names}."),
        "anyOf": [of_bump, of_router, of_tap],
    })
}
