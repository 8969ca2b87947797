//! `flows:` — how a chain keeps flows.

use weir_nf::host::{FlowOptions, OnMalformed, Timeouts, WhenFull};
use weir_packet::IcmpKey;

use crate::diagnostic::Report;
use crate::read;
use crate::tree::Node;
use crate::units;

/// Keys of `flows:`.
pub(crate) const KEYS: [&str; 10] = [
    "max",
    "when-full",
    "timeouts",
    "inner",
    "zone",
    "icmp",
    "malformed",
    "track",
    "buffers",
    "held-fragments",
];

/// Keys of `timeouts:`.
pub(crate) const TIMEOUTS: [&str; 8] = [
    "tcp-opening",
    "tcp-established",
    "tcp-closing",
    "tcp-closed",
    "udp",
    "icmp",
    "other",
    "reuse",
];

/// Most flows of a chain.
pub(crate) const MAX_FLOWS: u64 = 1 << 28;
/// Most octets of side buffers of a chain.
pub(crate) const MAX_BUFFERS: u64 = 1 << 36;
/// Most later fragments that wait.
pub(crate) const MAX_HELD: u64 = 1 << 20;

/// Reads the mapping; what it does not say stays as it is by default.
pub(crate) fn read(node: &Node, report: &mut Report<'_>) -> FlowOptions {
    let mut flows = FlowOptions::default();
    let Some(entries) = read::map(node, "a mapping like `max: 1000000`", report) else {
        return flows;
    };
    for (key, value) in entries {
        match key.text().unwrap_or("") {
            "max" => put(
                &mut flows.max,
                read::integer(value, 1..=MAX_FLOWS, report).map(|n| n as u32),
            ),
            "when-full" => put(
                &mut flows.when_full,
                read::choice(
                    value,
                    &[("evict", WhenFull::Evict), ("refuse", WhenFull::Refuse)],
                    report,
                ),
            ),
            "timeouts" => timeouts(value, &mut flows.timeouts, report),
            "inner" => put(&mut flows.inner, read::boolean(value, report)),
            "zone" => put(&mut flows.zone, read::boolean(value, report)),
            "icmp" => put(
                &mut flows.icmp,
                read::choice(
                    value,
                    &[
                        ("conversation", IcmpKey::Conversation),
                        ("addresses", IcmpKey::Addresses),
                    ],
                    report,
                ),
            ),
            "malformed" => put(
                &mut flows.malformed,
                read::choice(
                    value,
                    &[("drop", OnMalformed::Drop), ("pass", OnMalformed::Pass)],
                    report,
                ),
            ),
            "track" => put(
                &mut flows.always,
                read::choice(value, &[("always", true), ("auto", false)], report),
            ),
            "buffers" => put(&mut flows.buffer_bytes, buffers(value, report)),
            "held-fragments" => put(
                &mut flows.held_fragments,
                read::integer(value, 0..=MAX_HELD, report).map(|n| n as u32),
            ),
            _ => report.unknown_key(key, &KEYS),
        }
    }
    flows
}

fn put<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
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

fn timeouts(node: &Node, timeouts: &mut Timeouts, report: &mut Report<'_>) {
    if node.text() == Some("none") {
        *timeouts = Timeouts::NONE;
        return;
    }
    let what = "`none` or a mapping like `{udp: 5m}`";
    let Some(entries) = read::map(node, what, report) else {
        return;
    };
    for (key, value) in entries {
        let place = match key.text().unwrap_or("") {
            "tcp-opening" => &mut timeouts.tcp_opening,
            "tcp-established" => &mut timeouts.tcp_established,
            "tcp-closing" => &mut timeouts.tcp_closing,
            "tcp-closed" => &mut timeouts.tcp_closed,
            "udp" => &mut timeouts.udp,
            "icmp" => &mut timeouts.icmp,
            "other" => &mut timeouts.other,
            "reuse" => {
                put(&mut timeouts.reuse, read::boolean(value, report));
                continue;
            }
            _ => {
                report.unknown_key(key, &TIMEOUTS);
                continue;
            }
        };
        if let Some(text) = read::word(value, "a duration like `5m`", report) {
            put(
                place,
                read::parsed(value.span, units::duration(text), report),
            );
        }
    }
}
