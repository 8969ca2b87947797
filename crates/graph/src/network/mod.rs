//! `network:` — how weir stands in the network: a bump in the wire, a router,
//! or a tap.

mod keys;
mod read;

use core::fmt;
use std::net::IpAddr;

use serde::{Serialize, Serializer};
use weir_packet::{MacAddr, Prefix, Side};

#[cfg(test)]
pub(crate) use keys::keys;
pub(crate) use keys::schema;
pub(crate) use read::read;

/// Most addresses of a port.
pub(crate) const MOST_ADDRESSES: usize = 64;
/// Most routes, those of the ports' own networks apart.
pub(crate) const MOST_ROUTES: usize = 65_536;
/// Most neighbours that are written down.
pub(crate) const MOST_NEIGHBOURS: usize = 4_096;
/// Smallest datagram that every IPv4 link takes whole (RFC 791 section 3.2).
pub(crate) const LEAST_MTU: u64 = 68;
/// The same for IPv6 (RFC 8200 section 5).
pub(crate) const LEAST_MTU6: u16 = 1_280;
/// Largest datagram that a frame of an interface holds.
pub(crate) const MOST_MTU: u64 = 9_216;

/// The names of the modes.
pub(crate) const MODES: [(&str, Mode); 3] = [
    ("bump", Mode::Bump),
    ("router", Mode::Router),
    ("tap", Mode::Tap),
];
/// The names of [`OnFailure`].
pub(crate) const ON_FAILURE: [(&str, OnFailure); 2] =
    [("closed", OnFailure::Closed), ("open", OnFailure::Open)];

/// A mode by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Bump,
    Router,
    Tap,
}

/// How weir stands in the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// In a wire: what comes in on one side leaves on the other, its addresses
    /// of the link untouched.
    Bump {
        /// Treatment of packets while weir can't work on them.
        on_failure: OnFailure,
    },
    /// As a router: it has addresses, answers for them, and finds the next hop
    /// of what leaves.
    Router(Routing),
    /// Beside a wire: it is given a copy, and nothing leaves.
    Tap,
}

impl Default for Network {
    /// A bump in the wire that fails closed.
    fn default() -> Network {
        Network::Bump {
            on_failure: OnFailure::Closed,
        }
    }
}

impl Network {
    /// True of a bump whose packets pass while weir can't work on them.
    pub const fn fails_open(&self) -> bool {
        matches!(
            self,
            Network::Bump {
                on_failure: OnFailure::Open
            }
        )
    }

    /// The name of the mode in chain files: `bump`, `router` or `tap`.
    pub const fn mode(&self) -> &'static str {
        match self {
            Network::Bump { .. } => "bump",
            Network::Router(_) => "router",
            Network::Tap => "tap",
        }
    }
}

/// Treatment of packets while weir can't work on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Nothing passes.
    #[default]
    Closed,
    /// Everything passes as it came.
    Open,
}

impl OnFailure {
    /// The name in chain files.
    pub const fn name(self) -> &'static str {
        match self {
            OnFailure::Closed => "closed",
            OnFailure::Open => "open",
        }
    }
}

/// A router's addresses, routes and neighbours, checked: each route and
/// neighbour leads to a port that reaches it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Routing {
    /// Its ports: all that the chains of the file name, in their order.
    pub ports: Vec<RoutedPort>,
    /// Routes as written; the ports' own networks are not among them.
    pub routes: Vec<Route>,
    /// Neighbours whose hardware addresses are known beforehand.
    pub neighbours: Vec<StaticNeighbour>,
}

/// A port of a router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RoutedPort {
    /// Its name.
    pub name: String,
    /// Its side of the chains.
    #[serde(serialize_with = "side")]
    pub side: Side,
    /// Its addresses, each with its network's length.
    #[serde(serialize_with = "shown_list")]
    pub addresses: Vec<PortAddress>,
    /// Octets of the largest datagram that it sends; the interface's if
    /// missing.
    pub mtu: Option<u16>,
    /// Its hardware address; the interface's if missing.
    #[serde(serialize_with = "shown_option")]
    pub mac: Option<MacAddr>,
}

/// An address of a port and its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortAddress {
    /// The address.
    pub address: IpAddr,
    /// Leading bits that its network has in common.
    pub length: u8,
}

impl PortAddress {
    /// The network that it is in.
    pub fn network(&self) -> Option<Prefix> {
        match Prefix::new(self.address, self.length) {
            Ok(prefix) | Err(weir_packet::PrefixError::HostBits(prefix)) => Some(prefix),
            Err(_) => None,
        }
    }

    /// True where `address` is in its network.
    pub fn reaches(&self, address: IpAddr) -> bool {
        self.network()
            .is_some_and(|network| network.contains(address))
    }
}

impl fmt::Display for PortAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Route {
    /// Destinations that take it, where no longer prefix does.
    #[serde(serialize_with = "shown")]
    pub to: Prefix,
    /// The next router; without it the destinations are on the port's link.
    pub via: Option<IpAddr>,
    /// Number of the port in [`Routing::ports`].
    #[serde(skip)]
    pub port: usize,
}

/// A neighbour whose hardware address is known beforehand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StaticNeighbour {
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address.
    #[serde(serialize_with = "shown")]
    pub mac: MacAddr,
    /// Number of the port in [`Routing::ports`].
    #[serde(skip)]
    pub port: usize,
}

impl Serialize for Network {
    /// `{"mode": …}` with what the mode has.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "kebab-case")]
        struct Shown<'a> {
            mode: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            on_failure: Option<&'static str>,
            #[serde(flatten)]
            routing: Option<&'a Routing>,
        }
        let (on_failure, routing) = match self {
            Network::Bump { on_failure } => (Some(on_failure.name()), None),
            Network::Router(routing) => (None, Some(routing)),
            Network::Tap => (None, None),
        };
        let shown = Shown {
            mode: self.mode(),
            on_failure,
            routing,
        };
        shown.serialize(serializer)
    }
}

impl fmt::Display for Network {
    /// For people, as `weir check` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let routing = match self {
            Network::Bump { on_failure } => {
                return write!(f, "network bump, fails {}", on_failure.name());
            }
            Network::Tap => return f.write_str("network tap: nothing leaves"),
            Network::Router(routing) => routing,
        };
        f.write_str("network router")?;
        for port in &routing.ports {
            let addresses: Vec<String> =
                port.addresses.iter().map(PortAddress::to_string).collect();
            write!(f, "\n  port {}: {}", port.name, addresses.join(", "))?;
            if let Some(mtu) = port.mtu {
                write!(f, "; MTU {mtu}")?;
            }
            if let Some(mac) = port.mac {
                write!(f, "; MAC {mac}")?;
            }
        }
        let name = |port: usize| routing.ports.get(port).map_or("", |port| &port.name);
        for route in &routing.routes {
            write!(f, "\n  route {}", route.to)?;
            if let Some(via) = route.via {
                write!(f, " via {via}")?;
            }
            write!(f, " on {}", name(route.port))?;
        }
        for neighbour in &routing.neighbours {
            let StaticNeighbour { address, mac, port } = neighbour;
            write!(f, "\n  neighbour {address} is {mac} on {}", name(*port))?;
        }
        Ok(())
    }
}

fn side<S: Serializer>(side: &Side, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(side.name())
}

fn shown<S: Serializer>(value: &dyn fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn shown_option<T: fmt::Display, S: Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

fn shown_list<T: fmt::Display, S: Serializer>(
    values: &[T],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(T::to_string))
}
