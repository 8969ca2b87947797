//! `match:` — which packets a chain takes.
//!
//! Both directions of a flow must go to the same chain, so an entry looks at
//! both end points: a port or prefix matches where either end has it.

use std::net::IpAddr;

use weir_packet::{
    Direction, FlowKey, Headers, KeyOptions, KeyOutcome, Prefix, PrefixError, Prefixes, flow_key,
    protocol::ip,
};

use crate::diagnostic::Report;
use crate::read;
use crate::tree::{Node, Value, shorten};

/// Keys of an entry.
pub(crate) const KEYS: [&str; 4] = ["protocol", "port", "prefix", "vlan"];

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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    /// Bit per protocol.
    protocols: Option<[u64; 4]>,
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
            let named = facts.protocol.is_some_and(|protocol| {
                protocols
                    .get(usize::from(protocol >> 6))
                    .is_some_and(|word| word >> (protocol & 63) & 1 != 0)
            });
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

/// Reads the list; all packets where it can't be read.
pub(crate) fn read(node: &Node, report: &mut Report<'_>) -> Selector {
    let what = "a list of selectors like `{protocol: tcp, port: 80}`";
    let items = read::list(node, what, report).unwrap_or(&[]);
    Selector {
        entries: items
            .iter()
            .filter_map(|item| entry(item, report))
            .collect(),
    }
}

fn entry(item: &Node, report: &mut Report<'_>) -> Option<Entry> {
    let keys = read::map(item, "a selector like `{protocol: tcp, port: 80}`", report)?;
    let before = report.errors();
    if keys.is_empty() {
        report.error_help(
            item.span,
            "a selector without a key matches everything",
            "name at least one of `protocol`, `port`, `prefix`, `vlan`, \
             or leave `match` out to take all packets",
        );
    }
    let mut entry = Entry::default();
    for (key, value) in keys {
        let name = key.text().unwrap_or("");
        if !KEYS.contains(&name) {
            report.unknown_key(key, &KEYS);
            continue;
        }
        let values = read::one_or_more(value, "at least one value", report).unwrap_or(&[]);
        for value in values {
            match name {
                "protocol" => entry.protocol(value, report),
                "port" => entry.ports.extend(numbers(value, "port", 65_535, report)),
                "vlan" => entry.vlans.extend(numbers(value, "VLAN id", 4_094, report)),
                _ => entry.prefix(value, report),
            }
        }
        let shown: Vec<&str> = values.iter().filter_map(Node::text).collect();
        if !entry.text.is_empty() {
            entry.text.push_str(" with ");
        }
        entry.text.push_str(&format!("{name} {}", shown.join(",")));
    }
    let portless = entry.protocols.is_some_and(|bits| {
        [ip::TCP, ip::UDP, ip::SCTP].iter().all(|&p| {
            bits.get(usize::from(p >> 6))
                .is_some_and(|w| w >> (p & 63) & 1 == 0)
        })
    });
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
    fn protocol(&mut self, value: &Node, report: &mut Report<'_>) {
        let bits = self.protocols.get_or_insert([0; 4]);
        let Some(text) = read::word(value, "a protocol like `tcp`", report) else {
            return;
        };
        let number = match ip::NAMES.iter().find(|(name, _)| *name == text) {
            _ if text == "arp" => {
                self.arp = true;
                return;
            }
            Some((_, number)) => Some(*number),
            None => text.parse().ok(),
        };
        let Some(number) = number else {
            let names: Vec<&str> = ip::NAMES
                .iter()
                .map(|(name, _)| *name)
                .chain(["arp"])
                .collect();
            let help =
                crate::nearest::suggestion(text, "protocols (or a number, 0 to 255)", &names);
            report.error_help(
                value.span,
                format!("there is no protocol `{}`", shorten(text)),
                help.unwrap_or_default(),
            );
            return;
        };
        if let Some(word) = bits.get_mut(usize::from(number >> 6)) {
            *word |= 1 << (number & 63);
        }
    }

    fn prefix(&mut self, value: &Node, report: &mut Report<'_>) {
        let Some(text) = read::word(value, "a prefix like `10.0.0.0/8`", report) else {
            return;
        };
        let prefix: Result<Prefix, PrefixError> = text.parse();
        let prefix = prefix.map_err(|why| format!("`{}` {why}", shorten(text)));
        if let Some(prefix) = read::parsed(value.span, prefix, report) {
            self.prefixes.add(prefix);
        }
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
