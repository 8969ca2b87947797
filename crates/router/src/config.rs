//! The configuration of a router.

use std::net::IpAddr;

use weir_packet::{MacAddr, Prefix, Side};

/// A port of the router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Its side of the chain.
    pub side: Side,
    /// Its hardware address.
    pub mac: MacAddr,
    /// Octets of the largest datagram that its link takes.
    pub mtu: u16,
    /// Its addresses, each with its network's length. Where there is an IPv6
    /// address and none is link-local, the port makes itself one of its
    /// hardware address (RFC 4291 appendix A).
    pub addresses: Vec<(IpAddr, u8)>,
    /// True if there is a link with neighbours. Without one, frames are taken as
    /// if they were for the router, what they say of their own link is not
    /// heeded, and packets leave at once, to no station.
    pub wire: bool,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteConfig {
    /// Destinations.
    pub to: Prefix,
    /// The next router; none where the destinations are on the link.
    pub via: Option<IpAddr>,
    /// Number of the port.
    pub port: usize,
}

/// A neighbour that need not be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighbourConfig {
    /// Number of the port.
    pub port: usize,
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address.
    pub mac: MacAddr,
}

/// Addresses that functions of the chain stand for: virtual addresses of a load
/// balancer, the pool of a NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owned {
    /// Which.
    pub addresses: Prefix,
    /// The side where neighbours are answered that ask for them; both where
    /// there is none.
    pub side: Option<Side>,
}

/// Times and bounds, nanoseconds and counts. [`Limits::default`] is what the
/// RFCs say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Neighbours that are remembered, 2^20 at most; 4,096.
    pub neighbours: u32,
    /// Packets that wait for one neighbour to answer; 64. RFC 4861 section
    /// 7.2.2 asks for one at least.
    pub held_each: u32,
    /// Packets that wait for neighbours in all; 1,024.
    pub held: u32,
    /// How long a neighbour that answered is trusted; 30 s (RFC 4861 section
    /// 10, REACHABLE_TIME).
    pub reachable: u64,
    /// How long after the first packet to a neighbour that is no longer trusted
    /// it is asked; 5 s (DELAY_FIRST_PROBE_TIME).
    pub delay: u64,
    /// Between two questions; 1 s (RETRANS_TIMER).
    pub retry: u64,
    /// Questions without an answer until a neighbour counts as gone; 3
    /// (MAX_UNICAST_SOLICIT, MAX_MULTICAST_SOLICIT).
    pub questions: u8,
    /// How long nobody asks again for one that is gone; 1 s.
    pub gone: u64,
    /// ICMP errors of one kind and second; 1,000, after a burst of as many
    /// tenths (RFC 1812 section 4.3.2.8, RFC 4443 section 2.4 (f)).
    pub errors: u32,
}

const SECOND: u64 = 1_000_000_000;

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            neighbours: 4_096,
            held_each: 64,
            held: 1_024,
            reachable: 30 * SECOND,
            delay: 5 * SECOND,
            retry: SECOND,
            questions: 3,
            gone: SECOND,
            errors: 1_000,
        }
    }
}

/// A router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its ports, at most 255, in the order of their numbers.
    pub ports: Vec<PortConfig>,
    /// Its routes; the ports' own networks are added to them.
    pub routes: Vec<RouteConfig>,
    /// Neighbours that need not be asked for.
    pub neighbours: Vec<NeighbourConfig>,
    /// Addresses of the chain's functions.
    pub owned: Vec<Owned>,
    /// Times and bounds.
    pub limits: Limits,
    /// Seed of the hash of neighbours, so that nobody can make them collide.
    pub seed: u64,
}

/// A configuration that no router can be made of: a fault of the caller, which
/// has checked what operators write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub String);

impl core::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for ConfigError {}

impl Config {
    /// Fails with the first fault of the configuration.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let wrong = |text: String| Err(ConfigError(text));
        if self.ports.is_empty() || self.ports.len() > 255 {
            return wrong(format!(
                "a router has 1 to 255 ports, not {}",
                self.ports.len()
            ));
        }
        for port in &self.ports {
            if port.mac.is_multicast() {
                return wrong(format!("{} is the address of a group", port.mac));
            }
            for (address, length) in &port.addresses {
                let most = if address.is_ipv4() { 32 } else { 128 };
                if *length > most || address.is_multicast() || address.is_unspecified() {
                    return wrong(format!("{address}/{length} is no address of a port"));
                }
            }
        }
        let ports = self.routes.iter().map(|route| route.port);
        let ports = ports.chain(self.neighbours.iter().map(|n| n.port));
        if let Some(port) = ports.clone().find(|port| *port >= self.ports.len()) {
            return wrong(format!("there is no port {port}"));
        }
        let pinned = self.routes.len() + self.neighbours.len();
        let limits = &self.limits;
        if limits.neighbours as usize <= pinned || limits.neighbours > 1 << 20 {
            return wrong(format!(
                "{} neighbours are too few for {pinned} written ones, or over 2^20",
                limits.neighbours
            ));
        }
        Ok(())
    }
}
