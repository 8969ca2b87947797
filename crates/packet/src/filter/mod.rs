//! Filters: which packets or flows somebody means, as they write it.
//!
//! `tcp port 80 and host 10.0.0.1`, near to what pcap filters look like. One
//! language for flows and packets: docs/filter.md is its manual. A filter is a
//! list of operations on a stack of bits, so that it is bounded
//! and costs no allocation when it is asked.

mod read;

pub use read::PHASES;
#[cfg(test)]
mod tests;

use core::fmt;
use std::net::IpAddr;

use crate::{Direction, FlowKey, Headers, KeyOptions, KeyOutcome, Prefix, flow_key, protocol::ip};

/// Most octets of a filter's text.
pub const MOST_TEXT: usize = 4_096;
/// Most operations (words and what joins them) of a filter.
pub const MOST_OPERATIONS: usize = 512;
/// How deep parentheses and `not` may be inside one another.
pub const MOST_DEPTH: usize = 48;
// Each level keeps at most a bit for an `or` and one for an `and`.
const _: () = assert!(2 * (MOST_DEPTH + 1) + 1 < 128);

/// A filter that was read.
///
/// ```
/// use weir_packet::filter::{Facts, Filter};
/// use weir_packet::{Direction, FlowKey};
///
/// let filter: Filter = "tcp port 80 and not net 192.0.2.0/24".parse()?;
/// let (key, direction) = FlowKey::new(
///     [10, 0, 0, 1].into(), 40_000, [10, 0, 0, 2].into(), 80, 6, 0, 0,
/// );
/// assert!(filter.matches(&Facts::of_flow(&key, direction).facts()));
/// # Ok::<(), weir_packet::filter::FilterError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    operations: Vec<Operation>,
    text: String,
}

/// Why a text is no filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// Where, in octets from the start of the text.
    pub at: usize,
    /// The fault and how to mend it.
    pub message: String,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "filter, column {}: {}", self.at + 1, self.message)
    }
}

impl core::error::Error for FilterError {}

/// On which end a word looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Either,
    Source,
    Destination,
    Client,
    Server,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Not,
    All,
    Host(End, Prefix),
    Port(End, Vec<(u16, u16)>),
    Protocol(u8),
    Ipv4,
    Ipv6,
    Arp,
    Vlan(Option<u16>),
    Chain(String),
    Phase(String),
    Id(u64),
}

/// Two end points of a packet or flow: addresses and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Source of a packet; of a flow, its client.
    pub source: (IpAddr, u16),
    /// Destination of a packet; of a flow, its server.
    pub destination: (IpAddr, u16),
    /// Protocol number.
    pub protocol: u8,
}

impl Ends {
    /// Of a key, with what travels in this direction.
    pub fn of(key: &FlowKey, direction: Direction) -> Ends {
        Ends {
            source: key.source(direction),
            destination: key.destination(direction),
            protocol: key.proto(),
        }
    }

    /// The keys of ICMP queries have an identifier in the ports' place.
    fn has_ports(&self) -> bool {
        matches!(self.protocol, ip::TCP | ip::UDP | ip::SCTP)
    }
}

/// Facts about a packet or flow. A word about something that is not known does not match.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// Its names, the first its own: a flow's key and its aliases; a packet's
    /// addresses, and those of the packet that it quotes (ICMP errors). A word
    /// matches if it matches any.
    pub names: &'a [Ends],
    /// VLAN ids.
    pub vlans: &'a [u16],
    /// Is ARP.
    pub arp: bool,
    /// The chain.
    pub chain: Option<&'a str>,
    /// Phase of the connection (`established`).
    pub phase: Option<&'a str>,
    /// Number of the flow.
    pub id: Option<u64>,
    /// True where the names' source is the flow's client; of flows it always
    /// is.
    pub to_server: Option<bool>,
}

/// [`Facts`] of one flow or packet by itself.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    names: [Option<Ends>; 2],
    filled: [Ends; 2],
    vlans: [u16; 2],
    vlan_count: usize,
    arp: bool,
    to_server: Option<bool>,
}

const NOWHERE: Ends = Ends {
    source: (IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0),
    destination: (IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0),
    protocol: 0,
};

impl Own {
    fn new(names: [Option<Ends>; 2]) -> Own {
        let mut filled = [NOWHERE; 2];
        for (place, name) in filled.iter_mut().zip(names.iter().flatten()) {
            *place = *name;
        }
        Own {
            names,
            filled,
            vlans: [0; 2],
            vlan_count: 0,
            arp: false,
            to_server: None,
        }
    }

    /// The facts; more may be added.
    pub fn facts(&self) -> Facts<'_> {
        let known = self.names.iter().flatten().count();
        Facts {
            names: self.filled.get(..known).unwrap_or(&[]),
            vlans: self.vlans.get(..self.vlan_count).unwrap_or(&[]),
            arp: self.arp,
            to_server: self.to_server,
            ..Facts::default()
        }
    }
}

impl Facts<'_> {
    /// Of a flow, with the direction of its client's packets.
    pub fn of_flow(key: &FlowKey, client: Direction) -> Own {
        Own {
            to_server: Some(true),
            ..Own::new([Some(Ends::of(key, client)), None])
        }
    }

    /// Of a packet by itself, whose headers were parsed to
    /// [`crate::Depth::L4`].
    pub fn of_packet(bytes: &[u8], headers: &Headers) -> Own {
        let own = own_ends(bytes, headers);
        // An ICMP error is also about the packet that it quotes.
        let quoted = match flow_key(bytes, headers, &KeyOptions::default()) {
            KeyOutcome::Flow(key, direction) => Some(Ends::of(&key, direction)),
            _ => None,
        };
        let quoted = quoted.filter(|quoted| Some(*quoted) != own && own.is_some());
        let vlan_count = usize::from(headers.vlans).min(headers.vlan.len());
        Own {
            vlans: headers.vlan,
            vlan_count,
            arp: headers.is_arp(),
            ..Own::new([own, quoted])
        }
    }
}

/// Addresses and ports of a packet as its headers have them.
fn own_ends(bytes: &[u8], headers: &Headers) -> Option<Ends> {
    let l3 = usize::from(headers.l3);
    let (source, destination) = if headers.is_ipv4() {
        let [source, destination] = crate::key::ipv4_addresses(bytes, l3)?;
        (IpAddr::V4(source.into()), IpAddr::V4(destination.into()))
    } else if headers.is_ipv6() {
        let [source, destination] = crate::key::ipv6_addresses(bytes, l3)?;
        let address = |words: [u64; 2]| {
            IpAddr::V6((u128::from(words[0]) << 64 | u128::from(words[1])).into())
        };
        (address(source), address(destination))
    } else {
        return None;
    };
    let later = headers.is_later_fragment();
    let ports = if later { None } else { headers.ports(bytes) };
    let (from, to) = ports.unwrap_or((0, 0));
    Some(Ends {
        source: (source, from),
        destination: (destination, to),
        protocol: headers.proto,
    })
}

impl Filter {
    /// The filter that everything matches.
    pub fn all() -> Filter {
        Filter::default()
    }

    /// True if everything matches.
    pub fn takes_all(&self) -> bool {
        self.operations.is_empty()
    }

    /// True if this matches.
    pub fn matches(&self, facts: &Facts<'_>) -> bool {
        // Reading bounds the depth, so no bit is shifted out.
        let mut stack: u128 = 1;
        for operation in &self.operations {
            let bit = match operation {
                Operation::And => {
                    let top = stack & 1;
                    stack >>= 1;
                    stack &= !1 | top;
                    continue;
                }
                Operation::Or => {
                    let top = stack & 1;
                    stack >>= 1;
                    stack |= top;
                    continue;
                }
                Operation::Not => {
                    stack ^= 1;
                    continue;
                }
                word => word.holds(facts),
            };
            stack = stack << 1 | u128::from(bit);
        }
        stack & 1 != 0
    }

    /// True if a packet matches by itself. Words about its flow don't.
    pub fn matches_packet(&self, bytes: &[u8], headers: &Headers) -> bool {
        self.takes_all() || self.matches(&Facts::of_packet(bytes, headers).facts())
    }
}

impl Operation {
    fn holds(&self, facts: &Facts<'_>) -> bool {
        let any = |holds: &dyn Fn(&Ends) -> bool| facts.names.iter().any(holds);
        match self {
            Operation::All => true,
            Operation::Host(end, prefix) => any(&|ends| {
                end.any(ends, facts.to_server, |(address, _)| {
                    contains(prefix, address)
                })
            }),
            Operation::Port(end, ranges) => any(&|ends| {
                let within = |(_, port)| ranges.iter().any(|(a, b)| (*a..=*b).contains(&port));
                ends.has_ports() && end.any(ends, facts.to_server, within)
            }),
            Operation::Protocol(number) => any(&|ends| ends.protocol == *number),
            Operation::Ipv4 => any(&|ends| ends.source.0.is_ipv4()),
            Operation::Ipv6 => any(&|ends| ends.source.0.is_ipv6()),
            Operation::Arp => facts.arp,
            Operation::Vlan(None) => !facts.vlans.is_empty(),
            Operation::Vlan(Some(id)) => facts.vlans.contains(id),
            Operation::Chain(name) => facts.chain == Some(name),
            Operation::Phase(name) => facts.phase == Some(name),
            Operation::Id(id) => facts.id == Some(*id),
            // Operations that join words are worked off before.
            Operation::And | Operation::Or | Operation::Not => false,
        }
    }
}

/// True if an address is in a network.
fn contains(prefix: &Prefix, address: IpAddr) -> bool {
    match (prefix.address(), address) {
        (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) => {
            match Prefix::new(address, prefix.length()) {
                Ok(own) | Err(crate::PrefixError::HostBits(own)) => own == *prefix,
                Err(crate::PrefixError::NotAPrefix | crate::PrefixError::Mapped(_)) => false,
            }
        }
        _ => false,
    }
}

impl End {
    fn any(
        self,
        ends: &Ends,
        to_server: Option<bool>,
        holds: impl Fn((IpAddr, u16)) -> bool,
    ) -> bool {
        match (self, to_server) {
            (End::Either, _) => holds(ends.source) || holds(ends.destination),
            (End::Source, _) | (End::Client, Some(true)) | (End::Server, Some(false)) => {
                holds(ends.source)
            }
            (End::Destination, _) | (End::Server, Some(true)) | (End::Client, Some(false)) => {
                holds(ends.destination)
            }
            (End::Client | End::Server, None) => false,
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.takes_all() { "all" } else { &self.text })
    }
}
