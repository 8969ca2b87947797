//! `flows:` — how a chain keeps flows.

use serde_json::{Value as Json, json};
use weir_nf::host::{FlowOptions, OnMalformed, Timeouts, WhenFull};
use weir_packet::IcmpKey;

use crate::diagnostic::Report;
use crate::form::{Boolean, Choice, Duration, Form as _, Integer, Own};
use crate::keys::Keys;
use crate::read;
use crate::tree::Node;
use crate::units;

/// Most flows of a chain.
pub(crate) const MAX_FLOWS: u64 = 1 << 28;
/// Most octets of side buffers of a chain.
pub(crate) const MAX_BUFFERS: u64 = 1 << 36;
/// Most later fragments that wait.
pub(crate) const MAX_HELD: u64 = 1 << 20;

/// Keys of `flows:`.
pub(crate) fn keys() -> Keys<FlowOptions> {
    const WHEN_FULL: &[(&str, WhenFull)] =
        &[("evict", WhenFull::Evict), ("refuse", WhenFull::Refuse)];
    const ICMP: &[(&str, IcmpKey)] = &[
        ("conversation", IcmpKey::Conversation),
        ("addresses", IcmpKey::Addresses),
    ];
    const MALFORMED: &[(&str, OnMalformed)] =
        &[("drop", OnMalformed::Drop), ("pass", OnMalformed::Pass)];
    const TRACK: &[(&str, bool)] = &[("always", true), ("auto", false)];
    Keys::<FlowOptions>::new(
        "a mapping like `max: 1000000`",
        "How the chain keeps flows.",
    )
    .key(
        "max",
        "Most flows at a time.",
        Integer(1..=MAX_FLOWS),
        |f, n| {
            f.max = n as u32;
        },
    )
    .key(
        "when-full",
        "A new flow when there are as many.",
        Choice(WHEN_FULL),
        |f, when| f.when_full = when,
    )
    .key(
        "timeouts",
        "When silence ends a flow.",
        Own(timeouts, timeouts_schema),
        |f, timeouts| f.timeouts = timeouts,
    )
    .key(
        "inner",
        "Open tunnels (VXLAN, GENEVE, GRE, MPLS, IP in IP) and take the inner packet's addresses.",
        Boolean,
        |f, inner| f.inner = inner,
    )
    .key(
        "zone",
        "VLAN and tunnel ids are part of a flow's key.",
        Boolean,
        |f, zone| f.zone = zone,
    )
    .key(
        "icmp",
        "An echo's id makes a flow, an error belongs to the flow that it quotes; `addresses`: all \
             ICMP between two hosts is one flow.",
        Choice(ICMP),
        |f, icmp| f.icmp = icmp,
    )
    .key(
        "malformed",
        "Packets whose headers contradict themselves are dropped under the reason's name; `pass`: \
             counted and sent on.",
        Choice(MALFORMED),
        |f, malformed| f.malformed = malformed,
    )
    .key(
        "track",
        "`always`: keep flows even if no function needs them.",
        Choice(TRACK),
        |f, always| f.always = always,
    )
    .key(
        "buffers",
        "Memory for what functions must keep beyond a flow's fixed state.",
        Own(buffers, buffers_schema),
        |f, bytes| f.buffer_bytes = bytes,
    )
    .key(
        "held-fragments",
        "Later fragments that may wait for their first.",
        Integer(0..=MAX_HELD),
        |f, n| f.held_fragments = n as u32,
    )
}

/// Keys of `timeouts:`.
pub(crate) fn timeout_keys() -> Keys<Timeouts> {
    type Timeout = fn(&mut Timeouts) -> &mut u32;
    let timeouts: [(_, _, Timeout); 7] = [
        ("tcp-opening", "Before the handshake is complete.", |t| {
            &mut t.tcp_opening
        }),
        ("tcp-established", "Established.", |t| {
            &mut t.tcp_established
        }),
        ("tcp-closing", "After one FIN.", |t| &mut t.tcp_closing),
        ("tcp-closed", "After both FINs, or a reset.", |t| {
            &mut t.tcp_closed
        }),
        ("udp", "UDP (RFC 4787 REQ-5).", |t| &mut t.udp),
        ("icmp", "ICMP (RFC 5508 REQ-2).", |t| &mut t.icmp),
        ("other", "All else.", |t| &mut t.other),
    ];
    let keys = Keys::new("`none` or a mapping like `{udp: 5m}`", "");
    let keys = timeouts
        .into_iter()
        .fold(keys, |keys, (name, about, timeout)| {
            keys.key(name, about, Duration, move |t, ms| *timeout(t) = ms)
        });
    let about = "A SYN on a closed connection begins a new flow.";
    keys.key("reuse", about, Boolean, |t: &mut Timeouts, reuse| {
        t.reuse = reuse
    })
}

/// Reads the mapping; what it does not say stays as it is by default.
pub(crate) fn read(node: &Node, report: &mut Report<'_>) -> FlowOptions {
    keys().read(node, report).unwrap_or_default()
}

fn buffers_schema() -> Json {
    json!({"anyOf": [
        {"type": "integer", "minimum": 0, "maximum": MAX_BUFFERS},
        {"type": "string", "pattern": "^[0-9]+ *(B|[kK]B|MB|GB|KiB|MiB|GiB)?$"},
    ]})
}

fn buffers(value: &Node, report: &mut Report<'_>) -> Option<usize> {
    let text = read::word(value, "a size like `64MiB`", report)?;
    let size = units::size(text).and_then(|size| {
        if size > MAX_BUFFERS {
            return Err(format!("`{text}` is too much: the most is `64GiB`"));
        }
        usize::try_from(size).map_err(|_| format!("`{text}` is too much for this machine"))
    });
    read::parsed(value.span, size, report)
}

fn timeouts_schema() -> Json {
    json!({"anyOf": [{"const": "none"}, timeout_keys().schema()]})
}

fn timeouts(node: &Node, report: &mut Report<'_>) -> Option<Timeouts> {
    match node.text() {
        Some("none") => Some(Timeouts::NONE),
        _ => timeout_keys().read(node, report),
    }
}
