//! A rule as it is written: a map, or the compact text.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::words::Words;

/// Action of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// They pass.
    #[default]
    Accept,
    /// They are dropped without a word.
    Drop,
    /// They are dropped, and the sender is told: a TCP reset, or an ICMP
    /// (ICMPv6) "administratively prohibited".
    Reject,
}

/// A rule as a map. A packet must meet every condition that is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rule {
    /// `accept`, `drop` or `reject`.
    pub action: Action,
    /// `in`: opened from outside; `out`: opened from inside. Both if missing.
    #[serde(default)]
    pub direction: Words,
    /// IP protocols: `tcp`, `udp`, `sctp`, `icmp`, `icmpv6`, or a number.
    #[serde(default)]
    pub protocol: Words,
    /// Prefixes, and sets of the chain file (`@NAME`), of which the source must be in one. A first
    /// word `not` turns the condition round.
    #[serde(default)]
    pub from: Words,
    /// Source ports and ranges (`1024-65535`); `not` as in `from`.
    #[serde(default)]
    pub from_port: Words,
    /// Prefixes and sets of which the destination must be in one; `not` as in `from`.
    #[serde(default)]
    pub to: Words,
    /// Destination ports and ranges; `not` as in `from`.
    #[serde(default)]
    pub to_port: Words,
    /// ICMP or ICMPv6 types. Checked on every packet.
    #[serde(default)]
    pub icmp_type: Words,
    /// TCP flags that must be set, or with `!` must not: `syn,!ack`. Checked
    /// on every packet.
    #[serde(default)]
    pub tcp_flags: Words,
    /// `new` (the first packet of a connection), `established` (a connection
    /// that is looked up again because the rules changed), `related` (an ICMP
    /// error about a connection), `invalid` (TCP that starts without SYN, see
    /// `midstream`, and resets outside of the window, see `resets`).
    #[serde(default)]
    pub state: Words,
    /// VLAN ids and ranges of the outermost tag; 0 for untagged.
    #[serde(default)]
    pub vlan: Words,
    /// EtherTypes (`ipv4`, `ipv6`, `arp`, or a number such as `0x88cc`). A
    /// rule applies to packets that are not IP only if it has this, `vlan` or
    /// a MAC address.
    #[serde(default)]
    pub ethertype: Words,
    /// Source MAC addresses.
    #[serde(default)]
    pub from_mac: Words,
    /// Destination MAC addresses.
    #[serde(default)]
    pub to_mac: Words,
    /// Record an event whenever the rule decides on a connection.
    #[serde(default)]
    pub log: bool,
    /// Name in events and in the rule counts; its number if missing.
    #[serde(default)]
    pub name: Option<String>,
}

/// A rule in either form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// The compact text.
    Text(String),
    /// The map.
    Map(Box<Rule>),
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Written, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Written;

            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("a rule such as `accept tcp from 10.0.0.0/8 to any port 80`, or a map")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Written, E> {
                Ok(Written::Text(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Written, A::Error> {
                Rule::deserialize(de::value::MapAccessDeserializer::new(map))
                    .map(|rule| Written::Map(Box::new(rule)))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for Written {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "FirewallRule".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let map = generator.subschema_for::<Rule>();
        json_schema!({
            "description": "a rule: compact text, or a map",
            "anyOf": [
                {"type": "string", "examples": ["accept tcp from 10.0.0.0/8 to any port 80,443"]},
                map
            ]
        })
    }
}

/// A fault in a rule's text: place (in characters, from 1) and reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) column: usize,
    pub(crate) message: String,
}

/// The words of a text with their places; a quoted word may hold spaces.
struct Text<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Text<'a> {
    fn column(&self) -> usize {
        self.text.get(..self.at).map_or(0, |t| t.chars().count()) + 1
    }

    fn skip(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn peek(&mut self) -> Option<&'a str> {
        self.skip();
        let rest = &self.text[self.at..];
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').map_or(quoted.len(), |end| end + 1);
            return rest.get(..end + 1);
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        rest.get(..end).filter(|word| !word.is_empty())
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.at += word.len();
        Some(word)
    }

    fn fault<T>(&mut self, message: impl Into<String>) -> Result<T, Fault> {
        self.skip();
        Err(Fault {
            column: self.column(),
            message: message.into(),
        })
    }

    fn action(&mut self) -> Result<Action, Fault> {
        let action = match self.peek() {
            Some("accept") => Action::Accept,
            Some("drop") => Action::Drop,
            Some("reject") => Action::Reject,
            _ => return self.fault("a rule begins with `accept`, `drop` or `reject`"),
        };
        self.next();
        Ok(action)
    }

    /// The value after a keyword, with `not` kept in front.
    fn value(&mut self, keyword: &str) -> Result<Words, Fault> {
        let mut words = Words::default();
        if self.peek() == Some("not") {
            self.next();
            words.0.push("not".to_owned());
        }
        // A comma at the end of a word, or at the start of the next, goes on.
        loop {
            let Some(word) = self.peek() else {
                return self.fault(format!("`{keyword}` needs a value"));
            };
            self.next();
            words.0.extend(Words::from(word).0);
            let more = word.ends_with(',') || self.peek().is_some_and(|w| w.starts_with(','));
            if !more {
                return Ok(words);
            }
        }
    }
}

/// Protocols with names.
pub(crate) const PROTOCOLS: [(&str, u8); 7] = [
    ("tcp", 6),
    ("udp", 17),
    ("sctp", 132),
    ("icmp", 1),
    ("icmpv6", 58),
    ("gre", 47),
    ("esp", 50),
];

fn are_protocols(word: &str) -> bool {
    let known = |w: &str| PROTOCOLS.iter().any(|&(name, _)| name == w);
    word.split(',').all(known)
}

impl Rule {
    /// Reads the compact text; the grammar is in the manual of `firewall`.
    pub(crate) fn parse(text: &str) -> Result<Rule, Fault> {
        let mut words = Text { text, at: 0 };
        let mut rule = Rule {
            action: words.action()?,
            ..Rule::default()
        };
        // `port` belongs to the end (from, to) that was named last.
        let mut end = None;
        while let Some(word) = words.peek() {
            let start = words.at;
            let fresh = |place: &Words, words: &mut Text<'_>| -> Result<(), Fault> {
                if place.is_empty() {
                    return Ok(());
                }
                words.at = start;
                words.fault(format!("`{word}` is given twice"))
            };
            words.next();
            match word {
                "in" | "out" => {
                    fresh(&rule.direction, &mut words)?;
                    rule.direction = Words::from(word);
                }
                "from" | "to" => {
                    let place = match word {
                        "from" => &mut rule.from,
                        _ => &mut rule.to,
                    };
                    fresh(place, &mut words)?;
                    if words.peek() == Some("port") {
                        // `from port 80` is short for `from any port 80`.
                        *place = Words::from("any");
                    } else {
                        *place = words.value(word)?;
                    }
                    end = Some(word);
                }
                "port" => {
                    let place = match end {
                        Some("from") => &mut rule.from_port,
                        Some(_) => &mut rule.to_port,
                        None => {
                            words.at = start;
                            return words.fault("`port` stands after `from ...` or `to ...`");
                        }
                    };
                    fresh(place, &mut words)?;
                    *place = words.value(word)?;
                }
                "log" => rule.log = true,
                "name" => {
                    let Some(name) = words.next() else {
                        return words.fault("`name` needs a value");
                    };
                    rule.name = Some(name.trim_matches('"').to_owned());
                }
                _ => {
                    if let Some(place) = rule.words_after(word) {
                        fresh(place, &mut words)?;
                        *place = words.value(word)?;
                        continue;
                    }
                    if !are_protocols(word) || !rule.protocol.is_empty() {
                        words.at = start;
                        return words.fault(format!("`{word}` is not understood here"));
                    }
                    rule.protocol = Words::from(word);
                }
            }
        }
        Ok(rule)
    }

    /// The field that a keyword sets to the words behind it.
    fn words_after(&mut self, keyword: &str) -> Option<&mut Words> {
        match keyword {
            "proto" => Some(&mut self.protocol),
            "icmp-type" => Some(&mut self.icmp_type),
            "flags" => Some(&mut self.tcp_flags),
            "state" => Some(&mut self.state),
            "vlan" => Some(&mut self.vlan),
            "ethertype" => Some(&mut self.ethertype),
            "from-mac" => Some(&mut self.from_mac),
            "to-mac" => Some(&mut self.to_mac),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_rules() {
        let rule =
            Rule::parse("accept tcp from 10.0.0.0/8, 192.0.2.1 to any port 80,443 log").unwrap();
        assert_eq!(rule.action, Action::Accept);
        assert_eq!(rule.protocol.0, ["tcp"]);
        assert_eq!(rule.from.0, ["10.0.0.0/8", "192.0.2.1"]);
        assert_eq!(rule.to_port.0, ["80", "443"]);
        assert!(rule.log && rule.from_port.is_empty());
        let rule =
            Rule::parse("drop in from not 10.0.0.0/8 port 1-99 to port 53 name \"a b\"").unwrap();
        assert_eq!(rule.from.0, ["not", "10.0.0.0/8"]);
        assert_eq!(
            (rule.from_port.0, rule.to_port.0),
            (vec!["1-99".into()], vec!["53".into()])
        );
        assert_eq!(
            (rule.direction.0, rule.name.as_deref()),
            (vec!["in".into()], Some("a b"))
        );
    }

    #[test]
    fn faults_say_where() {
        for (text, column, part) in [
            ("permit tcp", 1, "begins with"),
            ("accept tcp port 80", 12, "stands after"),
            ("accept tcp from", 16, "needs a value"),
            ("accept tcp fro 10.0.0.0/8", 12, "`fro`"),
            ("drop to ::1 to ::2", 13, "twice"),
            ("", 1, "begins with"),
        ] {
            let fault = Rule::parse(text).unwrap_err();
            assert_eq!(fault.column, column, "{text}: {}", fault.message);
            assert!(fault.message.contains(part), "{text}: {}", fault.message);
        }
    }
}
