//! Spreading connections over servers: Maglev hashing and a memory per
//! connection.

mod maglev;
mod rejoin;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::Owned;
use weir_nf::packet::protocol::ip;
use weir_nf::packet::{Direction, FlowKey, HeaderFlags, Prefix};
use weir_nf::prelude::*;

use crate::rewrite::{self, End, Tuple};
use crate::words::Words;

/// Settings of [`LoadBalancer`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Services: an address that clients connect to, and its servers.
    pub services: Vec<Service>,
    /// Places in each look-up table, a prime: at least 100 times the number of
    /// servers keeps shares and disruption small. 65,537 by default.
    pub table_size: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            services: Vec::new(),
            table_size: 65_537,
        }
    }
}

/// An address that clients connect to.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Service {
    /// Virtual addresses, IPv4 or IPv6.
    pub vip: Words,
    /// Ports; all if missing.
    #[serde(default)]
    pub port: Words,
    /// `tcp`, `udp` or `sctp`; all three if missing.
    #[serde(default)]
    pub protocol: Words,
    /// Servers.
    #[serde(default)]
    pub backends: Vec<Backend>,
    /// Input of the choice of a server: `connection` (addresses and ports; the default) or
    /// `client` (the client's address only).
    #[serde(default)]
    pub hash: HashOf,
    /// Name in counts and events; the first address if missing.
    #[serde(default)]
    pub name: Option<String>,
}

/// Input of the choice of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HashOf {
    /// Both addresses, both ports and the protocol.
    #[default]
    Connection,
    /// The client's address.
    Client,
}

/// A server.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Backend {
    /// Its address.
    pub address: IpAddr,
    /// Its port; the port that the client used if missing.
    #[serde(default)]
    pub port: Option<u16>,
    /// Its share of new connections, relative to the others', up to 65,535;
    /// 1 if missing.
    #[serde(default = "one")]
    pub weight: u32,
    /// True: it gets no new connections and keeps those it has.
    #[serde(default)]
    pub drain: bool,
}

fn one() -> u32 {
    1
}

#[derive(Debug)]
struct Server {
    address: IpAddr,
    port: Option<u16>,
    /// Name in the tally.
    count_as: String,
}

#[derive(Debug)]
struct Pool {
    vips: Vec<IpAddr>,
    ports: Vec<(u16, u16)>,
    protocols: Vec<u8>,
    hash: HashOf,
    servers: Vec<Server>,
    table_ipv4: Vec<u16>,
    table_ipv6: Vec<u16>,
}

impl Pool {
    /// True where it takes all that `other` would; may be false though it does.
    fn covers(&self, other: &Pool) -> bool {
        let all = [(0, u16::MAX)];
        let theirs = match other.ports.as_slice() {
            [] => &all[..],
            some => some,
        };
        let within = |(a, b): &(u16, u16)| self.ports.iter().any(|(c, d)| c <= a && b <= d);
        other.vips.iter().all(|vip| self.vips.contains(vip))
            && other
                .protocols
                .iter()
                .all(|proto| self.protocols.contains(proto))
            && (self.ports.is_empty() || theirs.iter().all(within))
    }

    fn takes(&self, tuple: &Tuple) -> bool {
        self.vips.contains(&tuple.destination)
            && self.protocols.contains(&tuple.proto)
            && (self.ports.is_empty()
                || self
                    .ports
                    .iter()
                    .any(|&(a, b)| (a..=b).contains(&tuple.destination_port)))
    }
}

/// The server of a connection: enough to serve it without the settings that
/// chose it.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Connection {
    /// Addresses; IPv4 fills the first four octets.
    vip: [u8; 16],
    server: [u8; 16],
    vip_port: u16,
    server_port: u16,
    /// 0: not balanced; 4 or 6: balanced, of this family.
    family: u8,
    reserved: [u8; 3],
}

impl State for Connection {}

fn to_octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(a) => {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&a.octets());
            octets
        }
        IpAddr::V6(a) => a.octets(),
    }
}

impl Connection {
    fn address(&self, octets: &[u8; 16]) -> IpAddr {
        if self.family == 4 {
            let [a, b, c, d, ..] = *octets;
            Ipv4Addr::new(a, b, c, d).into()
        } else {
            Ipv6Addr::from(*octets).into()
        }
    }

    fn vip(&self) -> IpAddr {
        self.address(&self.vip)
    }

    fn server(&self) -> IpAddr {
        self.address(&self.server)
    }
}

/// The function.
#[derive(Debug)]
pub struct LoadBalancer {
    pools: Vec<Pool>,
    seed: u64,
}

weir_nf::labels! {
    /// Drop reasons.
    enum Reason: Counter<Packets> {
        /// No server is there for its service.
        NoServer = "no_server",
        /// Its headers can't be rewritten (damaged, not all there), or it is a fragment of SCTP.
        Untranslatable = "untranslatable",
    }
}

weir_nf::labels! {
    /// Counters.
    enum Count: Counter<Packets> {
        /// Connections that were given a server.
        Balanced = "balanced": Counter<Flows>,
    }
}

impl LoadBalancer {
    fn pool(&self, tuple: &Tuple) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.takes(tuple))
    }

    fn choose<'p>(&self, pool: &'p Pool, tuple: &Tuple) -> Option<&'p Server> {
        let word = |address: IpAddr| match address {
            IpAddr::V4(a) => u64::from(u32::from(a)),
            IpAddr::V6(a) => {
                let a = u128::from(a);
                maglev::mix((a >> 64) as u64) ^ a as u64
            }
        };
        let mut hash = maglev::mix(self.seed ^ word(tuple.source));
        if pool.hash == HashOf::Connection {
            hash = maglev::mix(hash ^ word(tuple.destination));
            let ports = u64::from(tuple.source_port) << 16 | u64::from(tuple.destination_port);
            hash = maglev::mix(hash ^ ports << 8 ^ u64::from(tuple.proto));
        }
        let table = if tuple.destination.is_ipv4() {
            &pool.table_ipv4
        } else {
            &pool.table_ipv6
        };
        let place = hash.checked_rem(table.len() as u64)?;
        let server = *table.get(place as usize)?;
        pool.servers.get(usize::from(server))
    }

    #[cold]
    fn error(packet: &mut Packet<'_>, state: &Connection) -> Verdict {
        let (vip, server) = (state.vip(), state.server());
        let Some((quote, (source, destination))) =
            rewrite::quote(packet).zip(rewrite::addresses_of(packet))
        else {
            return Verdict::Drop(Reason::Untranslatable.into());
        };
        let done = if quote.destination == server {
            // From the servers' side, about a packet to the server: the
            // client knows of the virtual address only.
            let outer = (source == server).then_some((End::Source, vip));
            rewrite::rewrite_error(packet, &quote, End::Destination, vip, state.vip_port, outer)
        } else if quote.source == vip {
            // From the clients' side, about an answer.
            let outer = (destination == vip).then_some((End::Destination, server));
            rewrite::rewrite_error(
                packet,
                &quote,
                End::Source,
                server,
                state.server_port,
                outer,
            )
        } else {
            Some(())
        };
        match done {
            Some(()) => Verdict::Pass,
            None => Verdict::Drop(Reason::Untranslatable.into()),
        }
    }
}

impl NetworkFunction for LoadBalancer {
    type Settings = Settings;
    type State = Connection;
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "\
Spreads connections to a virtual address over servers, by rewriting the
destination (and the source of answers); clients' addresses stay. A new
connection goes to the server that Maglev's table (NSDI 2016) names for its
addresses and ports, so several balancers with the same settings choose alike, and
few connections would be chosen differently when a server comes or goes. The
choice is then remembered with the connection: a changed list of servers, weight
or `drain` moves no existing connection.

A connection that was under way when this balancer started goes on: a client's
packet is balanced like a first one, a server's gets the one virtual address that
has this server (where several have it, it passes untouched).

ICMP errors are translated with the packet they quote; later fragments follow the
first. A fragment of SCTP whose port would change is dropped as `untranslatable`:
the checksum covers octets that it has not. Where no server may take a new connection its packets are dropped as
`no_server`. All else passes untouched. Answers must come back through this chain.
The servers and their connections are in the tally as SERVICE/ADDRESS:PORT.",
        needs: Needs::Flow,
        reads: Parts::NETWORK.and(Parts::TRANSPORT).and(Parts::PAYLOAD),
        writes: Parts::NETWORK.and(Parts::TRANSPORT).and(Parts::PAYLOAD),
        drops: Reason::TABLE,
        counters: Count::TABLE,
        aliases: true,
        tally: 1_024,
        cycles: 30,
        ..Descriptor::new(
            "load-balancer",
            "Spreads connections over servers (Maglev), each staying with its own",
        )
    };

    fn new(settings: Settings, set_up: &mut SetUp<'_>) -> Result<LoadBalancer, SettingsError> {
        if settings.services.is_empty() {
            return Err(SettingsError::new("services", "there is nothing to balance").help(
                "give at least one service: `services: [{vip: 192.0.2.10, port: 80, backends: [{address: 10.0.0.1}]}]`",
            ));
        }
        if !maglev::is_prime(settings.table_size) || settings.table_size > 10_000_000 {
            return Err(SettingsError::new(
                "table-size",
                format!("{} is no prime up to 10,000,000", settings.table_size),
            )
            .help("65537 does for up to 600 servers, 655373 for up to 6,000"));
        }
        let mut pools = Vec::with_capacity(settings.services.len());
        for (i, service) in settings.services.iter().enumerate() {
            pools.push(pool(i, service, settings.table_size, set_up)?);
        }
        warn_of_services(&settings.services, &pools, set_up);
        Ok(LoadBalancer {
            pools,
            seed: set_up.seed,
        })
    }

    /// The virtual addresses; clients may be on either side.
    fn owns(&self) -> Vec<Owned> {
        let mut owned: Vec<Owned> = Vec::new();
        for pool in &self.pools {
            let all = [(0, u16::MAX)];
            let ports = match pool.ports.as_slice() {
                [] => &all[..],
                some => some,
            };
            for vip in &pool.vips {
                let bits = if vip.is_ipv4() { 32 } else { 128 };
                let Ok(addresses) = Prefix::new(*vip, bits) else {
                    continue;
                };
                owned.extend(ports.iter().map(|ports| Owned {
                    addresses,
                    ports: Some(*ports),
                    side: None,
                }));
            }
        }
        owned
    }

    fn open(
        &self,
        packet: &Packet<'_>,
        flow: &FlowInfo<'_>,
        cx: &mut Context<'_>,
    ) -> Result<Connection, DropReason> {
        // The packet's own addresses: a function before this one may have
        // changed those of the key.
        let Some(tuple) = Tuple::of(packet) else {
            return Ok(Connection::default());
        };
        if packet.headers().flags.contains(HeaderFlags::ICMP_ERROR) {
            return Ok(Connection::default());
        }
        let Some(pool) = self.pool(&tuple) else {
            return Ok(self.rejoin(packet, flow, &tuple, cx).unwrap_or_default());
        };
        let server = self.choose(pool, &tuple).ok_or(Reason::NoServer)?;
        let state = Connection {
            vip: to_octets(tuple.destination),
            server: to_octets(server.address),
            vip_port: tuple.destination_port,
            server_port: server.port.unwrap_or(tuple.destination_port),
            family: if tuple.destination.is_ipv4() { 4 } else { 6 },
            reserved: [0; 3],
        };
        // Answers come from the server, not from the virtual address.
        let answered = Tuple {
            destination: server.address,
            destination_port: state.server_port,
            ..tuple
        };
        let (key, client) = alias(&answered, flow);
        cx.alias(key, client);
        cx.count(Count::Balanced, 1);
        cx.tally(server.count_as.as_bytes(), 1);
        Ok(state)
    }

    #[inline]
    fn show(&self, state: &Connection, (): &(), shown: &mut Shown) {
        if state.family == 0 {
            shown.flag("balanced", false);
            return;
        }
        let end = |address, port| std::net::SocketAddr::new(address, port);
        shown
            .flag("balanced", true)
            .text("vip", end(state.vip(), state.vip_port))
            .text("server", end(state.server(), state.server_port));
    }

    fn process(
        &self,
        packet: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        _: &mut Context<'_>,
    ) -> Verdict {
        let state = *flow.state;
        if state.family == 0 {
            return Verdict::Pass;
        }
        if packet.headers().flags.contains(HeaderFlags::ICMP_ERROR) {
            return LoadBalancer::error(packet, &state);
        }
        let Some((source, destination)) = rewrite::addresses_of(packet) else {
            return Verdict::Drop(Reason::Untranslatable.into());
        };
        let done = if destination == state.vip() {
            rewrite::rewrite_end(packet, End::Destination, state.server(), state.server_port)
        } else if source == state.server() {
            rewrite::rewrite_end(packet, End::Source, state.vip(), state.vip_port)
        } else {
            Some(())
        };
        match done {
            Some(()) => Verdict::Pass,
            None => Verdict::Drop(Reason::Untranslatable.into()),
        }
    }
}

/// The flow's key under another name of its packet at hand, and the client's direction there.
fn alias(renamed: &Tuple, flow: &FlowInfo<'_>) -> (FlowKey, Direction) {
    let (key, direction) = renamed.key(flow.key());
    match flow.to_server() {
        true => (key, direction),
        false => (key, direction.opposite()),
    }
}

/// Services that an operator may not mean as they are.
fn warn_of_services(services: &[Service], pools: &[Pool], set_up: &mut SetUp<'_>) {
    for (i, (service, pool)) in services.iter().zip(pools).enumerate() {
        let at = |field: &str, message: &str| {
            SettingsError::new(format!("services[{i}]{field}"), message)
        };
        if pool.ports.is_empty() {
            set_up.warn_at(
                at(
                    "",
                    "this service has no port: connections to all ports go to its servers",
                )
                .help("write `port: 0-65535` where that is meant"),
            );
        }
        let mut before = services.iter().take(i);
        if service.name.is_some() && before.any(|other| other.name == service.name) {
            let message = "an earlier service has the same name: counts don't tell them apart";
            set_up.warn_at(at(".name", message).help("rename one"));
        }
        if pools.iter().take(i).any(|first| first.covers(pool)) {
            let message = "this service gets no connection: an earlier one takes them all";
            set_up.warn_at(at("", message).help("put it before that one, or leave it out"));
        }
    }
}

/// Makes service number `i` ready.
fn pool(
    i: usize,
    service: &Service,
    size: u32,
    set_up: &mut SetUp<'_>,
) -> Result<Pool, SettingsError> {
    let bad = |field: &str, message: String| {
        SettingsError::new(format!("services[{i}].{field}"), message)
    };
    let vips: Vec<IpAddr> = words(&service.vip, virtual_address).map_err(|m| bad("vip", m))?;
    let first = *vips
        .first()
        .ok_or_else(|| bad("vip", "a service has at least one address".into()))?;
    let ports = words(&service.port, port_range).map_err(|m| bad("port", m))?;
    let mut protocols = words(&service.protocol, protocol).map_err(|m| bad("protocol", m))?;
    if protocols.is_empty() {
        protocols = vec![ip::TCP, ip::UDP, ip::SCTP];
    }
    let name = service.name.clone().unwrap_or_else(|| first.to_string());
    let mut servers: Vec<Server> = Vec::with_capacity(service.backends.len());
    let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
    for (j, backend) in service.backends.iter().enumerate() {
        let wrong =
            |(field, message): (&str, String)| bad(&format!("backends[{j}].{field}"), message);
        let label = label(backend, &vips).map_err(wrong)?;
        let count_as = format!("{name}/{label}");
        if servers.iter().any(|s| s.count_as == count_as) {
            let error = wrong(("address", format!("{label} is in the list twice")));
            return Err(error.help("give it a higher weight instead"));
        }
        let weight = if backend.drain { 0 } else { backend.weight };
        let (mine, other) = match backend.address.is_ipv4() {
            true => (weight, 0),
            false => (0, weight),
        };
        ipv4.push((label.clone(), mine));
        ipv6.push((label, other));
        servers.push(Server {
            address: backend.address,
            port: backend.port,
            count_as,
        });
    }
    if servers.len() >= usize::from(maglev::NOBODY) {
        return Err(bad(
            "backends",
            "a service has at most 65,534 servers".into(),
        ));
    }
    warn_of_servers(
        &name,
        &vips,
        [("IPv4", &ipv4), ("IPv6", &ipv6)],
        size,
        set_up,
    );
    Ok(Pool {
        vips,
        ports,
        protocols,
        hash: service.hash,
        servers,
        table_ipv4: maglev::table(&ipv4, size, set_up.seed),
        table_ipv6: maglev::table(&ipv6, size, set_up.seed),
    })
}

fn words<T>(words: &Words, read: fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    words.iter().map(read).collect()
}

fn virtual_address(word: &str) -> Result<IpAddr, String> {
    word.parse().map_err(|_| format!("`{word}` is no address"))
}

fn port_range(word: &str) -> Result<(u16, u16), String> {
    let (a, b) = word.split_once('-').unwrap_or((word, word));
    match (a.parse(), b.parse()) {
        (Ok(a), Ok(b)) if a <= b => Ok((a, b)),
        _ => Err(format!("`{word}` is no port or range")),
    }
}

fn protocol(word: &str) -> Result<u8, String> {
    match word {
        "tcp" => Ok(ip::TCP),
        "udp" => Ok(ip::UDP),
        "sctp" => Ok(ip::SCTP),
        _ => Err(format!("`{word}` is not `tcp`, `udp` or `sctp`")),
    }
}

/// A server's address, and its port if it has one; or the field that is wrong, and why.
fn label(backend: &Backend, vips: &[IpAddr]) -> Result<String, (&'static str, String)> {
    let address = backend.address;
    if backend.weight > 65_535 {
        return Err(("weight", "a weight is 0 to 65,535".into()));
    }
    if vips.contains(&address) {
        let message = "a server has an address of its own, not the virtual one";
        return Err(("address", message.into()));
    }
    if !vips.iter().any(|vip| vip.is_ipv4() == address.is_ipv4()) {
        let message = "no virtual address of this service is of the server's family";
        return Err(("address", message.into()));
    }
    match backend.port {
        Some(0) => Err(("port", "a port is 1 to 65535".into())),
        Some(port) => Ok(SocketAddr::new(address, port).to_string()),
        None => Ok(address.to_string()),
    }
}

/// Warns of an address family without servers, and of one with too many for the table's `size`.
fn warn_of_servers(
    service: &str,
    vips: &[IpAddr],
    families: [(&str, &Vec<(String, u32)>); 2],
    size: u32,
    set_up: &mut SetUp<'_>,
) {
    for (family, list) in families {
        let wanted = vips.iter().any(|vip| vip.is_ipv4() == (family == "IPv4"));
        if wanted && list.iter().all(|(_, weight)| *weight == 0) {
            set_up.warn(format!(
                "service {service}: no {family} server takes new connections; they are dropped as no_server"
            ));
        }
        let taking = list.iter().filter(|(_, weight)| *weight > 0).count();
        if taking * 100 > size as usize {
            set_up.warn(format!(
                "service {service}: a table of {size} places is small for {taking} servers; shares will differ"
            ));
        }
    }
}
