//! `match:` — which packets a chain takes.
//!
//! Both directions of a flow must go to the same chain, so an entry looks at
//! both end points: a port or prefix matches where either end has it.

use std::net::IpAddr;

use serde_json::{Value as Json, json};
use weir_packet::{
    ByteSet, Direction, FlowKey, Headers, KeyOptions, KeyOutcome, Prefix, PrefixError, Prefixes,
    flow_key, protocol::ip,
};

use crate::diagnostic::Report;
use crate::form::{Form, OneOrMore, Own};
use crate::keys::Keys;
use crate::nearest::suggestion;
use crate::read;
use crate::tree::{Node, Value, shorten};

/// Which packets a chain takes: those that match any entry, or all packets
/// where there is none.
///
/// An entry matches if all its keys do. A flow's packets are judged by its key:
/// an ICMP error goes where the flow that it quotes goes. A later fragment whose
/// flow is not known yet is judged by addresses, protocol and VLAN, so it
/// matches no entry that asks for a port; give its flow's key where it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    entries: Vec<Entry>,
}

/// An entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    protocols: Option<ByteSet>,
    arp: bool,
    /// First and last.
    ports: Vec<(u16, u16)>,
    vlans: Vec<(u16, u16)>,
    prefixes: Prefixes,
    text: String,
}

/// Fields of a packet that entries look at.
struct Facts {
    addresses: Option<[IpAddr; 2]>,
    ports: Option<[u16; 2]>,
    protocol: Option<u8>,
}

impl Facts {
    fn of(key: &FlowKey) -> Facts {
        let (from, from_port) = key.source(Direction::Forward);
        let (to, to_port) = key.destination(Direction::Forward);
        let protocol = key.proto();
        Facts {
            addresses: Some([from, to]),
            // The keys of ICMP queries have an identifier in the ports' place.
            ports: matches!(protocol, ip::TCP | ip::UDP | ip::SCTP).then_some([from_port, to_port]),
            protocol: Some(protocol),
        }
    }

    fn of_packet(bytes: &[u8], headers: &Headers) -> Facts {
        match flow_key(bytes, headers, &KeyOptions::default()) {
            KeyOutcome::Flow(key, _) => Facts::of(&key),
            KeyOutcome::LaterFragment(key) => Facts {
                addresses: Some([key.source(), key.destination()]),
                ports: None,
                protocol: Some(headers.proto),
            },
            KeyOutcome::None => Facts {
                addresses: None,
                ports: None,
                protocol: None,
            },
        }
    }
}

impl Selector {
    /// The selector of a chain without `match`.
    pub fn all() -> Selector {
        Selector::default()
    }

    /// True if every packet matches.
    #[inline]
    pub fn takes_all(&self) -> bool {
        self.entries.is_empty()
    }

    /// True if the chain takes this packet. `key` is the key of its flow, of any chain and zone;
    /// without one it is made of the headers, which must have been parsed to
    /// [`weir_packet::Depth::L4`].
    pub fn matches(&self, bytes: &[u8], headers: &Headers, key: Option<&FlowKey>) -> bool {
        if self.entries.is_empty() {
            return true;
        }
        let facts = match key {
            Some(key) => Facts::of(key),
            None => Facts::of_packet(bytes, headers),
        };
        self.entries
            .iter()
            .any(|entry| entry.matches(headers, &facts))
    }
}

impl Entry {
    fn matches(&self, headers: &Headers, facts: &Facts) -> bool {
        if let Some(protocols) = &self.protocols {
            let named = facts
                .protocol
                .is_some_and(|number| protocols.contains(number));
            if !(named || self.arp && headers.is_arp()) {
                return false;
            }
        }
        if !self.ports.is_empty()
            && !facts
                .ports
                .is_some_and(|ports| ports.iter().any(|port| within(&self.ports, *port)))
        {
            return false;
        }
        if !self.prefixes.is_empty()
            && !facts
                .addresses
                .is_some_and(|ends| ends.iter().any(|end| self.prefixes.contains(*end)))
        {
            return false;
        }
        self.vlans.is_empty()
            || headers
                .vlan
                .iter()
                .take(usize::from(headers.vlans))
                .any(|vlan| within(&self.vlans, *vlan))
    }
}

fn within(ranges: &[(u16, u16)], value: u16) -> bool {
    ranges
        .iter()
        .any(|(first, last)| (*first..=*last).contains(&value))
}

impl core::fmt::Display for Selector {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.entries.is_empty() {
            return f.write_str("every packet");
        }
        for (number, entry) in self.entries.iter().enumerate() {
            if number > 0 {
                f.write_str(" or ")?;
            }
            f.write_str(&entry.text)?;
        }
        Ok(())
    }
}

/// A protocol of an entry.
#[derive(Clone, Copy)]
pub(crate) enum Protocol {
    Arp,
    Ip(u8),
}

/// The form of lists of values.
pub(crate) const VALUES: &str = "at least one value";

/// Values of a key that takes prefixes.
pub(crate) fn prefixes() -> OneOrMore<Own<Prefix>> {
    OneOrMore(VALUES, Own(prefix, || json!({"type": "string"})))
}

/// Values of a key that takes ports and ranges of them.
pub(crate) fn ports() -> OneOrMore<Numbers> {
    OneOrMore(VALUES, Numbers("port", 65_535))
}

/// Keys of an entry.
pub(crate) fn keys() -> Keys<Entry> {
    Keys::<Entry>::new("a selector like `{protocol: tcp, port: 80}`", "")
        .key(
            "protocol",
            "It is the IP protocol.",
            OneOrMore(VALUES, Own(protocol, protocol_schema)),
            Entry::protocols,
        )
        .key(
            "port",
            "Source or destination port is it or in the range.",
            ports(),
            |entry, ports| entry.ports = ports,
        )
        .key(
            "prefix",
            "Source or destination address is in it.",
            prefixes(),
            |entry, prefixes| prefixes.iter().for_each(|&p| entry.prefixes.add(p)),
        )
        .key(
            "vlan",
            "It is the VLAN id, 0 to 4094, or in the range.",
            OneOrMore(VALUES, Numbers("VLAN id", 4_094)),
            |entry, vlans| entry.vlans = vlans,
        )
}

/// Reads the list; all packets where it can't be read.
pub(crate) fn read(node: &Node, report: &mut Report<'_>) -> Selector {
    let what = "a list of selectors like `{protocol: tcp, port: 80}`";
    let items = read::list(node, what, report).unwrap_or(&[]);
    let keys = keys();
    Selector {
        entries: items
            .iter()
            .filter_map(|item| entry(item, &keys, report))
            .collect(),
    }
}

fn entry(item: &Node, keys: &Keys<Entry>, report: &mut Report<'_>) -> Option<Entry> {
    let before = report.errors();
    if item.entries().is_some_and(<[_]>::is_empty) {
        report.error_help(
            item.span,
            "a selector without a key matches everything",
            "name at least one of `protocol`, `port`, `prefix`, `vlan`, \
             or leave `match` out to take all packets",
        );
    }
    let mut entry = keys.read(item, report)?;
    let shown = item.entries().unwrap_or(&[]).iter().map(|(key, value)| {
        let values = read::items(value).iter().filter_map(Node::text);
        let values: Vec<&str> = values.collect();
        format!("{} {}", key.text().unwrap_or(""), values.join(","))
    });
    entry.text = shown.collect::<Vec<_>>().join(" with ");
    let ported = [ip::TCP, ip::UDP, ip::SCTP];
    let portless = entry
        .protocols
        .is_some_and(|protocols| !ported.iter().any(|number| protocols.contains(*number)));
    if portless && let Some(port) = item.get("port") {
        report.error_help(
            port.span,
            "only `tcp`, `udp` and `sctp` have ports: this selector can't match",
            "leave `port` out, or name another protocol",
        );
    }
    (report.errors() == before).then_some(entry)
}

impl Entry {
    fn protocols(&mut self, protocols: Vec<Protocol>) {
        let set = self.protocols.get_or_insert_default();
        for protocol in protocols {
            match protocol {
                Protocol::Arp => self.arp = true,
                Protocol::Ip(number) => set.insert(number),
            }
        }
    }
}

fn protocol(value: &Node, report: &mut Report<'_>) -> Option<Protocol> {
    match value.text() {
        Some("arp") => Some(Protocol::Arp),
        _ => ip_protocol(value, &["arp"], report).map(Protocol::Ip),
    }
}

/// Number of an IP protocol; `others` are names that may stand here as well.
pub(crate) fn ip_protocol(value: &Node, others: &[&str], report: &mut Report<'_>) -> Option<u8> {
    let text = read::word(value, "a protocol like `tcp`", report)?;
    let known = ip::NAMES.iter().find(|(name, _)| *name == text);
    let number = known.map(|(_, n)| *n).or_else(|| text.parse().ok());
    if number.is_none() {
        let what = "protocols (or a number, 0 to 255)";
        let names = ip::NAMES.iter().map(|(name, _)| *name);
        let names: Vec<&str> = names.chain(others.iter().copied()).collect();
        report.error_help(
            value.span,
            format!("there is no protocol `{}`", shorten(text)),
            suggestion(text, what, &names).unwrap_or_default(),
        );
    }
    number
}

/// JSON Schema of a protocol.
pub(crate) fn protocol_schema() -> Json {
    let names = ip::NAMES.iter().map(|(name, _)| *name);
    protocol_schema_of(names.chain(["arp"]))
}

/// JSON Schema of a protocol with one of these names, or a number.
pub(crate) fn protocol_schema_of(names: impl Iterator<Item = &'static str>) -> Json {
    let names: Vec<&str> = names.collect();
    json!({"anyOf": [
        {"enum": names},
        {"type": "integer", "minimum": 0, "maximum": 255},
    ]})
}

fn prefix(value: &Node, report: &mut Report<'_>) -> Option<Prefix> {
    let text = read::word(value, "a prefix like `10.0.0.0/8`", report)?;
    let prefix: Result<Prefix, PrefixError> = text.parse();
    let prefix = prefix.map_err(|why| format!("`{}` {why}", shorten(text)));
    read::parsed(value.span, prefix, report)
}

/// Numbers of this kind up to the most: one, or a range as `80-90`.
pub(crate) struct Numbers(pub(crate) &'static str, pub(crate) u16);

impl Form for Numbers {
    type Value = (u16, u16);

    fn read(&self, node: &Node, report: &mut Report<'_>) -> Option<(u16, u16)> {
        numbers(node, self.0, self.1, report)
    }

    fn schema(&self) -> Json {
        json!({"anyOf": [
            {"type": "integer", "minimum": 0, "maximum": self.1},
            {"type": "string", "pattern": "^[0-9]+(-[0-9]+)?$"},
        ]})
    }
}

/// A number, or a range as `80-90`.
pub(crate) fn numbers(
    value: &Node,
    what: &str,
    most: u16,
    report: &mut Report<'_>,
) -> Option<(u16, u16)> {
    let bad = format!("a {what} from 0 to {most}, or a range like `10-20`");
    let number = |text: &str| -> Option<u16> {
        let digits = !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit());
        let number: u16 = digits.then(|| text.parse().ok()).flatten()?;
        (number <= most).then_some(number)
    };
    let range = match &value.value {
        Value::Scalar { text, .. } => match text.split_once('-') {
            Some((first, last)) => number(first).zip(number(last)),
            None => number(text).map(|number| (number, number)),
        },
        _ => None,
    };
    match range {
        None => report.expected(value, &bad),
        Some((first, last)) if first > last => {
            report.error(
                value.span,
                format!("the range ends before it starts: `{last}-{first}`?"),
            );
            return None;
        }
        Some(_) => {}
    }
    range
}
