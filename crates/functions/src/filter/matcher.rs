//! One entry of the filter: as it is written, and ready to be compared with packets.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::SettingsError;
use weir_nf::packet::{ByteSet, Packet, Prefixes};

use crate::rewrite;
use crate::words::Words;

/// Conditions; a packet must meet every one that is given, and may be in any of the values of
/// each. One without a condition meets every packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Match {
    /// IP protocols: `tcp`, `udp`, `sctp`, `icmp`, `icmpv6`, `gre`, `esp`, or a number.
    pub protocol: Words,
    /// Source addresses and prefixes.
    pub from: Words,
    /// Source ports and ranges such as `1024-65535`.
    pub from_port: Words,
    /// Destination addresses and prefixes.
    pub to: Words,
    /// Destination ports and ranges.
    pub to_port: Words,
    /// Differentiated services code points, 0 to 63 (RFC 2474), and ranges of them.
    pub dscp: Words,
    /// IDs and ranges of the outermost VLAN tag; 0 for untagged.
    pub vlan: Words,
    /// IP versions: `ipv4`, `ipv6`, or `other` for what is not IP.
    pub network: Words,
}

/// Fields that entries look at, read once per packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    addresses: Option<(IpAddr, IpAddr)>,
    ports: Option<(u16, u16)>,
    protocol: u8,
    dscp: u8,
    vlan: u16,
    network: u8,
}

const IPV4: u8 = 1;
const IPV6: u8 = 2;
const OTHER: u8 = 4;

impl Fields {
    /// The addresses are read only where some entry asks for them.
    #[inline]
    pub(crate) fn of(packet: &Packet<'_>, addresses: bool) -> Fields {
        let headers = packet.headers();
        let (dscp, network) = match packet.network() {
            &[first, second, ..] if headers.is_ip() => {
                let class = u16::from_be_bytes([first, second]) >> 4;
                if headers.is_ipv4() {
                    (second >> 2, IPV4)
                } else {
                    (class as u8 >> 2, IPV6)
                }
            }
            _ => (0, OTHER),
        };
        Fields {
            addresses: if addresses {
                rewrite::addresses_of(packet)
            } else {
                None
            },
            ports: headers.ports(packet.bytes()),
            protocol: headers.proto,
            dscp,
            vlan: headers.outer_vlan().unwrap_or(0),
            network,
        }
    }
}

/// Inclusive ranges of numbers; none at all means no condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Ranges(Vec<(u16, u16)>);

impl Ranges {
    #[inline]
    fn allow(&self, value: Option<u16>) -> bool {
        self.0.is_empty()
            || value.is_some_and(|value| {
                self.0
                    .iter()
                    .any(|&(first, last)| first <= value && value <= last)
            })
    }

    fn parse(path: &str, words: &Words, most: u16) -> Result<Ranges, SettingsError> {
        let range = |word: &str| {
            let (first, last) = match word.split_once('-') {
                Some((first, last)) => (first.trim().parse().ok()?, last.trim().parse().ok()?),
                None => {
                    let one = word.parse().ok()?;
                    (one, one)
                }
            };
            (first <= last && last <= most).then_some((first, last))
        };
        words
            .iter()
            .map(|word| {
                range(word).ok_or_else(|| {
                    SettingsError::new(path, format!("`{word}` is no number or range"))
                        .help(format!("write 0 to {most}, or a range such as 10-20"))
                })
            })
            .collect::<Result<_, _>>()
            .map(Ranges)
    }
}

/// An entry.
#[derive(Clone, Debug)]
pub(crate) struct Matcher {
    /// `None` for no condition.
    protocols: Option<ByteSet>,
    from: Prefixes,
    to: Prefixes,
    from_port: Ranges,
    to_port: Ranges,
    dscp: Ranges,
    vlan: Ranges,
    network: u8,
}

impl Matcher {
    pub(crate) fn new(path: &str, entry: &Match) -> Result<Matcher, SettingsError> {
        let at = |name: &str| format!("{path}.{name}");
        Ok(Matcher {
            protocols: protocols(&at("protocol"), &entry.protocol)?,
            from: prefixes(&at("from"), &entry.from)?,
            to: prefixes(&at("to"), &entry.to)?,
            from_port: Ranges::parse(&at("from-port"), &entry.from_port, u16::MAX)?,
            to_port: Ranges::parse(&at("to-port"), &entry.to_port, u16::MAX)?,
            dscp: Ranges::parse(&at("dscp"), &entry.dscp, 63)?,
            vlan: Ranges::parse(&at("vlan"), &entry.vlan, 4_095)?,
            network: networks(&at("network"), &entry.network)?,
        })
    }

    /// True if it looks at addresses.
    pub(crate) fn needs_addresses(&self) -> bool {
        !self.from.is_empty() || !self.to.is_empty()
    }

    #[inline]
    pub(crate) fn meets(&self, fields: &Fields) -> bool {
        // A packet that is not IP has no code point, though the field is 0.
        let dscp = (fields.network != OTHER).then_some(u16::from(fields.dscp));
        let protocol = |set: &ByteSet| fields.network != OTHER && set.contains(fields.protocol);
        self.network & fields.network != 0
            && self.protocols.as_ref().is_none_or(protocol)
            && self.to_port.allow(fields.ports.map(|ports| ports.1))
            && self.from_port.allow(fields.ports.map(|ports| ports.0))
            && self.dscp.allow(dscp)
            && self.vlan.allow(Some(fields.vlan))
            && has(&self.from, fields.addresses.map(|both| both.0))
            && has(&self.to, fields.addresses.map(|both| both.1))
    }
}

/// No prefix at all is no condition.
#[inline]
fn has(prefixes: &Prefixes, address: Option<IpAddr>) -> bool {
    prefixes.is_empty() || address.is_some_and(|address| prefixes.contains(address))
}

fn prefixes(path: &str, words: &Words) -> Result<Prefixes, SettingsError> {
    Prefixes::parse(words.iter()).map_err(|message| SettingsError::new(path, message))
}

fn protocols(path: &str, words: &Words) -> Result<Option<ByteSet>, SettingsError> {
    const NAMES: [(&str, u8); 7] = [
        ("tcp", 6),
        ("udp", 17),
        ("sctp", 132),
        ("icmp", 1),
        ("icmpv6", 58),
        ("gre", 47),
        ("esp", 50),
    ];
    if words.is_empty() {
        return Ok(None);
    }
    let mut set = ByteSet::default();
    for word in words.iter() {
        let named = NAMES.iter().find(|(name, _)| *name == word);
        let Some(number) = named.map(|known| known.1).or_else(|| word.parse().ok()) else {
            return Err(
                SettingsError::new(path, format!("`{word}` is no IP protocol"))
                    .help("write tcp, udp, sctp, icmp, icmpv6, gre, esp, or a number to 255"),
            );
        };
        set.insert(number);
    }
    Ok(Some(set))
}

fn networks(path: &str, words: &Words) -> Result<u8, SettingsError> {
    if words.is_empty() {
        return Ok(IPV4 | IPV6 | OTHER);
    }
    words.iter().try_fold(0, |set, word| match word {
        "ipv4" => Ok(set | IPV4),
        "ipv6" => Ok(set | IPV6),
        "other" => Ok(set | OTHER),
        _ => Err(
            SettingsError::new(path, format!("`{word}` is no IP version"))
                .help("write ipv4, ipv6 or other"),
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Fields {
        Fields {
            addresses: Some(("10.0.0.1".parse().unwrap(), "192.0.2.1".parse().unwrap())),
            ports: Some((40_000, 443)),
            protocol: 6,
            dscp: 46,
            vlan: 7,
            network: IPV4,
        }
    }

    #[test]
    fn each_condition_counts() {
        let meets = |change: &dyn Fn(&mut Match)| {
            let mut entry = Match::default();
            change(&mut entry);
            Matcher::new("x", &entry).unwrap().meets(&fields())
        };
        assert!(meets(&|_| {}));
        type Case = (fn(&mut Match) -> &mut Words, &'static str, &'static str);
        let cases: [Case; 8] = [
            (|m| &mut m.protocol, "udp,6", "udp,17"),
            (|m| &mut m.from, "::/0,10.0.0.0/24", "10.0.1.0/24"),
            (|m| &mut m.to, "192.0.2.1", "::/0"),
            (|m| &mut m.from_port, "1024-65535", "80"),
            (|m| &mut m.to_port, "80,443", "444-500"),
            (|m| &mut m.dscp, "46", "0-45"),
            (|m| &mut m.vlan, "1-10", "0"),
            (|m| &mut m.network, "ipv4", "ipv6,other"),
        ];
        for (field, right, wrong) in cases {
            assert!(meets(&|m| *field(m) = Words::from(right)), "{right}");
            assert!(!meets(&|m| *field(m) = Words::from(wrong)), "{wrong}");
        }
    }

    #[test]
    fn what_is_missing_meets_no_condition_on_it() {
        let none = Fields {
            addresses: None,
            ports: None,
            protocol: 0,
            dscp: 0,
            vlan: 0,
            network: OTHER,
        };
        let entry = |change: &dyn Fn(&mut Match)| {
            let mut entry = Match::default();
            change(&mut entry);
            Matcher::new("x", &entry).unwrap()
        };
        assert!(!entry(&|m| m.protocol = Words::from("0")).meets(&none));
        assert!(!entry(&|m| m.to_port = Words::from("0-65535")).meets(&none));
        assert!(!entry(&|m| m.dscp = Words::from("0")).meets(&none));
        assert!(!entry(&|m| m.from = Words::from("0.0.0.0/0,::/0")).meets(&none));
        assert!(entry(&|m| m.network = Words::from("other")).meets(&none));
    }

    #[test]
    fn faults_name_the_place() {
        let fault = |change: &dyn Fn(&mut Match)| {
            let mut entry = Match::default();
            change(&mut entry);
            Matcher::new("drop[3]", &entry).unwrap_err()
        };
        assert_eq!(fault(&|m| m.dscp = Words::from("64")).path, "drop[3].dscp");
        assert_eq!(
            fault(&|m| m.to_port = Words::from("9-5")).path,
            "drop[3].to-port"
        );
        assert_eq!(
            fault(&|m| m.to = Words::from("10.0.0/8")).path,
            "drop[3].to"
        );
        assert_eq!(
            fault(&|m| m.protocol = Words::from("tpc")).path,
            "drop[3].protocol"
        );
        assert_eq!(
            fault(&|m| m.network = Words::from("ip")).path,
            "drop[3].network"
        );
    }
}
