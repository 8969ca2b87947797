//! The router around a chain: neighbour discovery on the links, next hops, and the
//! ICMP errors for packets that can't be forwarded.
//!
//! A [`Router`] stands around the chain. Frames that a port gave go in by
//! [`Router::receive`]: what is for the chain comes back, ARP and neighbour
//! discovery are dealt with, the rest is answered or dropped under a
//! [`Reason`]. Packets that leave the chain go in by [`Router::send`]: each is
//! given the hardware addresses of its next hop and waits in
//! [`Router::output`] of its port. There is no clock, socket or thread in it:
//! the time is given to it, and [`Router::tick`] says what is due.
//!
//! # Before and behind the chain
//!
//! Checks that need only the packet as its sender sent it come before the chain: time to live, a missing route, and a datagram that no link on the
//! other side takes. So the ICMP error quotes that packet, and no function has
//! seen what is not forwarded. The rest shows only behind the chain, where a
//! NAT may have changed the packet: which link it leaves by, and whether the
//! next hop answers. An error about that quotes the changed packet, so it is
//! sent from where the packet would have gone, *through the chain* the other
//! way ([`Router::returned`]): the NAT translates it as it translates errors of
//! routers further on.
//!
//! The time to live is counted down before the chain, once. Packets that
//! functions make leave as they were made.

mod announce;
mod arp;
mod claims;
mod config;
mod counts;
mod discovery;
mod fragment;
mod icmp;
mod identification;
mod local;
mod neighbours;
mod receive;
mod routes;
mod send;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_packet::protocol::ethertype;
use weir_packet::{Frame, FrameMeta, FramePool, MacAddr, Prefix, PrefixError, Side, Time};

pub use claims::Conflict;
pub use config::{Config, ConfigError, Limits, NeighbourConfig, Owned, PortConfig, RouteConfig};
pub use counts::{Neighbour, Reason, RouterCounts};
pub use neighbours::NeighbourState;

use claims::Claims;
use icmp::{LINK, Limit};
use identification::Identifications;
use neighbours::{Neighbours, Question};
use routes::{Hop, Routes};

/// A port at work.
#[derive(Debug)]
struct Port {
    side: Side,
    mac: MacAddr,
    mtu: usize,
    wire: bool,
    v4: Vec<(Ipv4Addr, Prefix)>,
    v6: Vec<(Ipv6Addr, Prefix)>,
    /// Frames to leave by it.
    out: Vec<Frame>,
}

/// A router around a chain. See the crate's documentation.
#[derive(Debug)]
pub struct Router {
    ports: Vec<Port>,
    routes: Routes,
    neighbours: Neighbours,
    owned: Vec<Owned>,
    /// It has another one's place ([`Router::take_over`]).
    took_over: bool,
    limit: Limit,
    identifications: Identifications,
    counts: RouterCounts,
    /// Errors to go through the chain, by the side that they come in on.
    returned: [Vec<Frame>; 2],
    /// The largest MTU on each side.
    largest: [usize; 2],
    /// Working memory.
    keep: Vec<Frame>,
    ask: Vec<Question>,
    gone: Vec<u32>,
    claims: Claims,
    /// Messages of neighbours for the other routers of the same ports; `None` without
    /// such.
    told: Option<Vec<Frame>>,
}

/// Room for frames at first; more is rarely needed.
const BURST: usize = 256;

impl Router {
    /// Makes a router. All its memory is reserved here.
    ///
    /// # Errors
    ///
    /// The first fault of the configuration.
    pub fn new(config: &Config) -> Result<Router, ConfigError> {
        config.check()?;
        let ports: Vec<Port> = config.ports.iter().map(Port::new).collect();
        let mut neighbours = Neighbours::new(config.limits, config.seed);
        let routes = Routes::new(&entries(config, &ports, &mut neighbours));
        for neighbour in &config.neighbours {
            neighbours.fix(neighbour.port as u8, neighbour.address, neighbour.mac);
        }
        let largest = [Side::Inside, Side::Outside].map(|side| {
            let mine = ports.iter().filter(|port: &&Port| port.side == side);
            mine.map(|port| port.mtu).max().unwrap_or(usize::MAX)
        });
        let burst = || Vec::with_capacity(BURST);
        let slots = neighbours.slots() as usize;
        Ok(Router {
            ports,
            routes,
            neighbours,
            owned: config.owned.clone(),
            took_over: false,
            limit: Limit::new(config.limits.errors),
            identifications: Identifications::new(config.seed),
            counts: RouterCounts::default(),
            returned: [burst(), burst()],
            largest,
            keep: burst(),
            ask: Vec::with_capacity(slots),
            gone: Vec::with_capacity(slots),
            claims: Claims::new(),
            told: None,
        })
    }

    /// From now on other routers have the same ports and addresses: each is to be given
    /// ([`Router::overhear`]) what the others were told. Each answers what comes to it,
    /// and asks for the neighbours that it needs itself; one of them alone is to
    /// [begin](Router::begin).
    pub fn be_one_of_several(&mut self) {
        self.told = Some(Vec::with_capacity(BURST));
    }

    /// Messages of neighbours since the last call, for the other routers of the same
    /// ports. The caller empties the list.
    pub fn told(&mut self) -> Option<&mut Vec<Frame>> {
        self.told.as_mut()
    }

    /// Takes what a neighbour said on port `at` to another router of the same ports.
    /// It is counted there. Frames may wait in [`Router::output`] after it.
    pub fn overhear(&mut self, now: Time, at: usize, pool: &mut FramePool, frame: Frame) {
        let memory = pool.memory().clone();
        let bytes = memory.bytes(&frame);
        match bytes.get(LINK - 2..LINK) {
            Some([high, low]) if u16::from_be_bytes([*high, *low]) == ethertype::ARP => {
                self.overhear_arp(now, pool, at, bytes);
            }
            _ => self.overhear_discovery(now, pool, at, bytes),
        }
        pool.give(frame);
    }

    /// Keeps a frame for the other routers, if there are some.
    fn tell(&mut self, pool: &mut FramePool, frame: Frame) {
        match &mut self.told {
            Some(told) => told.push(frame),
            None => pool.give(frame),
        }
    }

    /// Does what is due by `now`: asks for neighbours once more, gives up those
    /// that don't answer, says where its addresses are. Frames may wait in [`Router::output`] and
    /// [`Router::returned`] after it.
    pub fn tick(&mut self, now: Time, pool: &mut FramePool) {
        if now < self.next_tick() {
            return;
        }
        self.announce(now, pool);
        let mut ask = core::mem::take(&mut self.ask);
        let mut gone = core::mem::take(&mut self.gone);
        self.neighbours.tick(now, &mut ask, &mut gone);
        for question in ask.drain(..) {
            self.ask(now, pool, question);
        }
        for slot in gone.drain(..) {
            while let Some(frame) = self.neighbours.release(slot) {
                self.unresolved(now, pool, frame, slot);
            }
        }
        self.ask = ask;
        self.gone = gone;
    }

    /// When [`Router::tick`] has something to do next; the end of time where
    /// nothing is due.
    pub fn next_tick(&self) -> Time {
        self.neighbours.next_due().min(self.claims.next_due())
    }

    /// Frames to leave by a port: the driver sends them, and
    /// leaves the list empty.
    pub fn output(&mut self, port: usize) -> Option<&mut Vec<Frame>> {
        self.ports.get_mut(port).map(|port| &mut port.out)
    }

    /// ICMP errors to go through the chain as if received on `side`; the
    /// driver gives them to it, and leaves the list empty.
    pub fn returned(&mut self, side: Side) -> &mut Vec<Frame> {
        &mut self.returned[side as usize]
    }

    /// True if errors wait in [`Router::returned`].
    pub fn has_returned(&self) -> bool {
        self.returned.iter().any(|list| !list.is_empty())
    }

    /// Gives back all frames that it holds; packets that waited are counted,
    /// and errors that no longer go through the chain are not.
    pub fn finish(&mut self, pool: &mut FramePool) {
        for slot in 0..self.neighbours.slots() {
            while let Some(frame) = self.neighbours.release(slot) {
                self.counts.drop_behind(Reason::Stopped);
                pool.give(frame);
            }
        }
        for port in &mut self.ports {
            pool.give_all(&mut port.out);
        }
        if let Some(told) = &mut self.told {
            pool.give_all(told);
        }
        for list in &mut self.returned {
            self.counts.errors_through_chain -= list.len() as u64;
            pool.give_all(list);
        }
    }

    /// The counters so far.
    pub fn counts(&self) -> RouterCounts {
        let mut counts = self.counts.clone();
        counts.waiting = u64::from(self.neighbours.waiting());
        counts
    }

    /// Packets that wait for neighbours now.
    pub fn waiting(&self) -> u32 {
        self.neighbours.waiting()
    }

    /// The neighbours that it knows of.
    pub fn neighbours(&self) -> impl Iterator<Item = Neighbour> + '_ {
        self.neighbours.all().map(|(port, address, mac, state)| {
            let known = !matches!(state, NeighbourState::Incomplete | NeighbourState::Failed);
            Neighbour {
                port: usize::from(port),
                address,
                mac: known.then_some(mac),
                state,
            }
        })
    }

    /// True where a neighbour on this port is answered that asks for `address`.
    fn answers_for(&self, at: usize, address: IpAddr) -> bool {
        let Some(port) = self.ports.get(at) else {
            return false;
        };
        port.has(address)
            || self.owned.iter().any(|owned| {
                owned.side.is_none_or(|side| side == port.side) && owned.addresses.contains(address)
            })
    }

    /// True where there may be neighbours on this port's link.
    fn has_wire(&self, at: usize) -> bool {
        self.ports.get(at).is_some_and(|port| port.wire)
    }

    /// True where the host is on this port's link, so that what it says of
    /// itself there can be true.
    fn is_on_link(&self, at: usize, address: IpAddr) -> bool {
        if is_link_local(address) {
            return address.is_ipv6();
        }
        let at = at as u8;
        matches!(self.routes.of(address), Hop::Link { port } if port == at)
            || self.neighbours.find(at, address).is_some()
    }

    /// A frame of these bytes to leave by a port, or none where there is no
    /// room.
    fn make(&mut self, now: Time, pool: &mut FramePool, at: usize, bytes: &[u8]) -> Option<Frame> {
        let side = self.ports.get(at)?.side;
        let mut meta = FrameMeta::received(now, bytes.len() as u32);
        meta.port = at as u8;
        meta.side = side;
        match pool.copy(bytes, meta) {
            Ok(frame) => Some(frame),
            Err(_) => {
                self.counts.unmade += 1;
                None
            }
        }
    }
}

impl Port {
    fn new(config: &PortConfig) -> Port {
        let mut port = Port {
            side: config.side,
            mac: config.mac,
            mtu: usize::from(config.mtu),
            wire: config.wire,
            v4: Vec::new(),
            v6: Vec::new(),
            out: Vec::with_capacity(BURST),
        };
        for &(address, length) in &config.addresses {
            let network = match Prefix::new(address, length) {
                Ok(network) | Err(PrefixError::HostBits(network)) => network,
                Err(PrefixError::NotAPrefix | PrefixError::Mapped(_)) => continue,
            };
            match address {
                IpAddr::V4(address) => port.v4.push((address, network)),
                IpAddr::V6(address) => port.v6.push((address, network)),
            }
        }
        let own = port.v6.iter().any(|(a, _)| a.is_unicast_link_local());
        if !own && !port.v6.is_empty() {
            let address = link_local_of(config.mac);
            port.v6
                .extend(Prefix::new(address.into(), 128).map(|prefix| (address, prefix)));
        }
        port
    }

    fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let v4 = self.v4.iter().map(|(address, _)| IpAddr::V4(*address));
        v4.chain(self.v6.iter().map(|(address, _)| IpAddr::V6(*address)))
    }

    fn has(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.v4.iter().any(|(own, _)| *own == address),
            IpAddr::V6(address) => self.v6.iter().any(|(own, _)| *own == address),
        }
    }

    /// The address from which the port speaks to a host: one in the host's
    /// network where there is one (RFC 1812 section 4.3.2.4, RFC 6724 rule 8).
    fn source_for(&self, host: IpAddr) -> Option<IpAddr> {
        match host {
            IpAddr::V4(_) => {
                let near = self.v4.iter().find(|(_, network)| network.contains(host));
                let (address, _) = near.or(self.v4.first())?;
                Some(IpAddr::V4(*address))
            }
            IpAddr::V6(host) => {
                let local = host.is_unicast_link_local();
                let fit = || {
                    let own = self.v6.iter();
                    own.filter(move |(own, _)| own.is_unicast_link_local() == local)
                };
                let near = fit().find(|(_, network)| network.contains(host.into()));
                let (address, _) = near.or_else(|| fit().next()).or(self.v6.first())?;
                Some(IpAddr::V6(*address))
            }
        }
    }
}

/// All that addresses may lead to, the nearer the later: of equal prefixes the
/// last one holds.
fn entries(config: &Config, ports: &[Port], neighbours: &mut Neighbours) -> Vec<(Prefix, Hop)> {
    let mut entries = Vec::new();
    for route in &config.routes {
        let port = route.port as u8;
        let hop = match route.via {
            None => Hop::Link { port },
            Some(via) => Hop::Via {
                port,
                neighbour: neighbours.pin(port, via).unwrap_or(u32::MAX),
            },
        };
        entries.push((route.to, hop));
    }
    for (port, number) in ports.iter().zip(0..) {
        for (_, network) in &port.v4 {
            entries.push((*network, Hop::Link { port: number }));
        }
        for (address, network) in &port.v6 {
            if !address.is_unicast_link_local() {
                entries.push((*network, Hop::Link { port: number }));
            }
        }
    }
    for (address, network) in ports.iter().flat_map(|port| &port.v4) {
        entries.extend(broadcasts(*address, *network));
    }
    entries.extend(
        config
            .owned
            .iter()
            .map(|owned| (owned.addresses, Hop::Owned)),
    );
    for port in ports {
        for address in port.addresses().filter(|address| !is_link_local(*address)) {
            let mut owned = config.owned.iter();
            let owned = owned.any(|owned| owned.addresses.contains(address));
            let hop = Hop::Local { owned };
            entries.extend(host(address).map(|prefix| (prefix, hop)));
        }
    }
    entries.extend(host(Ipv4Addr::BROADCAST.into()).map(|all| (all, Hop::Broadcast)));
    entries
}

/// The link-local address that follows from a hardware address (RFC 4291
/// appendix A).
fn link_local_of(mac: MacAddr) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0.map(u16::from);
    Ipv6Addr::new(
        0xfe80,
        0,
        0,
        0,
        (a ^ 2) << 8 | b,
        c << 8 | 0xff,
        0xfe00 | d,
        e << 8 | f,
    )
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

const fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The prefix of a single address.
fn host(address: IpAddr) -> Option<Prefix> {
    Prefix::new(address, bits(address)).ok()
}

/// The addresses of a port's network that mean all of its hosts: the last one,
/// and the first, as it once was (RFC 1122 section 3.3.6). A network of two has
/// none (RFC 3021).
fn broadcasts(address: Ipv4Addr, network: Prefix) -> impl Iterator<Item = (Prefix, Hop)> {
    let some = network.length() <= 30;
    let mask = u32::MAX.checked_shl(32 - u32::from(network.length()));
    let mask = mask.unwrap_or(0);
    let (first, last) = (u32::from(address) & mask, u32::from(address) | !mask);
    let both = [first, last].map(|a| host(Ipv4Addr::from(a).into()));
    let both = both.into_iter().flatten().filter(move |_| some);
    both.map(|prefix| (prefix, Hop::Broadcast))
}
