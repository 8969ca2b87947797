//! Which hosts, services and clients a network has, told from what they send.

mod banner;
mod stack;
mod systems;

use core::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::packet::{MacAddr, tcp::flag};
use weir_nf::prelude::*;
use weir_nf::tcp_seen;

use crate::name::Name;
use crate::words::Words;
use banner::Banner;
use stack::Stack;
use weir_nf::packet::Prefixes;

/// Kinds of assets to look for, and the ports to look at.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Operating systems, by the first TCP segment of each side.
    pub systems: bool,
    /// Services, by what they answer first.
    pub services: bool,
    /// Client software, by what it asks first.
    pub clients: bool,
    /// Hardware addresses, by ARP and IPv6 neighbour discovery.
    pub hosts: bool,
    /// Report assets with addresses in these networks only; all if empty.
    pub networks: Words,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            systems: true,
            services: true,
            clients: true,
            hosts: true,
            networks: Words::default(),
        }
    }
}

/// Reports hosts, their systems, services and clients, once each.
#[derive(Debug)]
pub struct AssetMonitor {
    systems: bool,
    services: bool,
    clients: bool,
    hosts: bool,
    networks: Prefixes,
}

/// Parts of a flow that were looked at already.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Seen {
    /// Bits [`SYN`], [`SYN_ACK`], [`SERVICE`], [`CLIENT`].
    done: u8,
    /// Payloads looked at without a find, towards the server and towards the client.
    looks: [u8; 2],
    reserved: u8,
}

impl State for Seen {
    const VERSION: u16 = 1;
}

const SYN: u8 = 1;
const SYN_ACK: u8 = 2;
const SERVICE: u8 = 4;
const CLIENT: u8 = 8;

/// Payloads of one direction that are looked at before a flow is left alone.
const MOST_LOOKS: u8 = 4;

weir_nf::labels! {
    /// Counters.
    enum Count: Counter<Packets> {
        /// Operating systems that were found.
        Systems = "systems": Counter<Times>,
        /// Services that were found.
        Services = "services": Counter<Times>,
        /// Client programs that were found.
        Clients = "clients": Counter<Times>,
        /// Hosts that were found by their hardware address.
        Hosts = "hosts": Counter<Times>,
        /// Handshakes of systems that no fingerprint names.
        UnknownSystems = "unknown_systems": Counter<Times>,
        /// Finds that were not reported: the table of what is known was full.
        TableFull = "table_full": Counter<Times>,
    }
}

/// An asset to report.
struct Asset<'a> {
    kind: &'static str,
    counter: Count,
    address: IpAddr,
    port: Option<u16>,
    protocol: &'static str,
    service: &'a str,
    fingerprint: &'a [u8],
    detail: &'a [u8],
    distance: Option<u8>,
    mac: Option<MacAddr>,
}

impl NetworkFunction for AssetMonitor {
    type Settings = Settings;
    type State = Seen;
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "Finds out, without sending a packet, which hosts, operating systems, services \
                 and client programs a network has, as PRADS and p0f do, and writes an `asset` \
                 event for each, the first time it is seen.\n\n\
                 kind os: from the order of TCP options, window, window scale and time to live \
                 of a SYN or SYN+ACK, compared with a short table of coarse signatures; where \
                 none fits, detail is unknown. The fingerprint is written as p0f (version 3) \
                 writes raw signatures, so that it can be looked up elsewhere; distance is the \
                 number of routers in between, as far as the time to live tells.\n\
                 kind service: SSH, HTTP, SMTP, FTP, POP3, IMAP, TLS, MySQL, VNC, RDP, SMB, \
                 Telnet, DNS, NTP, DHCP, SIP and SSDP servers, by the first bytes they send, \
                 with the software's name where it says one.\n\
                 kind client: User-Agents of HTTP and SIP, SSH and TLS clients, and DHCP clients \
                 with host name, vendor class and the parameters they ask for.\n\
                 kind host: a hardware address and its IP address, from ARP and IPv6 neighbour \
                 discovery.\n\n\
                 An asset is reported once per runtime: a table of names that were reported \
                 keeps repetitions away, and two runtimes, or one that was started again, may \
                 each report it. The table has room for 16,384 assets; when it is full further \
                 ones are counted as table_full and not reported. Only the first four payloads \
                 of a direction are looked at, and a banner that is split over several segments \
                 is recognised by its first one or not at all.",
        needs: Needs::Flow,
        reads: Parts::ALL,
        counters: Count::TABLE,
        tally: 16_384,
        events: true,
        cycles: 60,
        ..Descriptor::new(
            "asset-monitor",
            "finds hosts, systems, services and clients passively",
        )
    };

    fn new(settings: Settings, set_up: &mut SetUp<'_>) -> Result<AssetMonitor, SettingsError> {
        let networks = Prefixes::parse(settings.networks.iter())
            .map_err(|message| SettingsError::new("networks", message))?;
        let Settings {
            systems,
            services,
            clients,
            hosts,
            ..
        } = settings;
        if !(systems || services || clients || hosts) {
            set_up.warn("asset-monitor looks for nothing: all of its settings are false");
        }
        Ok(AssetMonitor {
            systems,
            services,
            clients,
            hosts,
            networks,
        })
    }

    #[inline]
    fn show(&self, state: &Seen, (): &(), shown: &mut Shown) {
        for (bit, name) in [
            (SYN, "syn_seen"),
            (SYN_ACK, "syn_ack_seen"),
            (SERVICE, "service_done"),
            (CLIENT, "client_done"),
        ] {
            shown.flag(name, state.done & bit != 0);
        }
        let [to_server, to_client] = state.looks;
        shown
            .number("looks_to_server", to_server)
            .number("looks_to_client", to_client);
    }

    fn process(
        &self,
        packet: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        let headers = packet.headers();
        let way = usize::from(!flow.info.to_server());
        if headers.is_tcp() {
            if headers.tcp_flags & flag::SYN != 0 {
                self.look_at_stack(packet, flow, cx);
            } else if flow.state.looks[way & 1] < MOST_LOOKS && !packet.payload().is_empty() {
                self.look_at_stream(packet, flow, way & 1, cx);
            }
        } else if headers.is_udp() {
            if flow.state.looks[way & 1] < MOST_LOOKS && !packet.payload().is_empty() {
                self.look_at_datagram(packet, flow, way & 1, cx);
            }
        } else if headers.is_icmpv6() && self.hosts {
            self.look_at_neighbour(packet, &flow.info, cx);
        }
        Verdict::Pass
    }

    /// ARP: the sender says which address it has.
    fn without_flow(&self, packet: &mut Packet<'_>, cx: &mut Context<'_>) -> Verdict {
        let headers = packet.headers();
        if self.hosts && headers.is_arp() {
            let body = packet.bytes().get(usize::from(headers.l3)..);
            // Ethernet, IPv4, their lengths, operation, hardware and protocol address.
            if let Some(&[0, 1, 8, 0, 6, 4, _, _, a, b, c, d, e, f, i, j, k, l]) =
                body.and_then(<[u8]>::first_chunk)
            {
                let address = Ipv4Addr::new(i, j, k, l);
                // A probe (RFC 5227) names no sender yet.
                if !address.is_unspecified() {
                    let mac = MacAddr([a, b, c, d, e, f]);
                    self.report_host(IpAddr::V4(address), mac, "ARP", None, cx);
                }
            }
        }
        Verdict::Pass
    }
}

impl AssetMonitor {
    #[inline(never)]
    fn look_at_stack(&self, packet: &Packet<'_>, flow: &mut Flow<'_, Self>, cx: &mut Context<'_>) {
        if !self.systems {
            return;
        }
        let answer = packet.headers().tcp_flags & flag::ACK != 0;
        let bit = if answer { SYN_ACK } else { SYN };
        if flow.state.done & bit != 0 {
            return;
        }
        flow.state.done |= bit;
        let Some(stack) = Stack::of(packet) else {
            return;
        };
        let name = systems::system(&stack);
        if name.is_none() {
            cx.count(Count::UnknownSystems, 1);
        }
        let mut fingerprint = Name::<120>::new("");
        // A fingerprint that does not fit is cut.
        let _ = write!(fingerprint, "{stack}");
        let (address, port) = flow.info.key().source(flow.info.direction());
        let asset = Asset {
            kind: "os",
            counter: Count::Systems,
            address,
            port: answer.then_some(port),
            protocol: "TCP",
            service: "",
            fingerprint: fingerprint.as_bytes(),
            detail: name.unwrap_or("unknown").as_bytes(),
            distance: Some(stack.distance()),
            mac: None,
        };
        self.report(&asset, Some(&flow.info), cx);
    }

    #[inline(never)]
    fn look_at_stream(
        &self,
        packet: &Packet<'_>,
        flow: &mut Flow<'_, Self>,
        way: usize,
        cx: &mut Context<'_>,
    ) {
        flow.state.looks[way & 1] += 1;
        let (address, port) = flow.info.key().source(flow.info.direction());
        let (_, peer_port) = flow.info.key().destination(flow.info.direction());
        // Of a connection that was under way the lower port is taken for the server's.
        let by_server = if flow.info.tcp_seen() & tcp_seen::MIDSTREAM == 0 {
            way == 1
        } else {
            port < peer_port
        };
        let (bit, found) = if by_server && self.services {
            (SERVICE, banner::service(packet.payload(), port))
        } else if !by_server && self.clients {
            (CLIENT, banner::client(packet.payload()))
        } else {
            return;
        };
        if let Some(found) = found
            && flow.state.done & bit == 0
        {
            flow.state.done |= bit;
            flow.state.looks[way & 1] = MOST_LOOKS;
            self.report_banner(
                &found,
                address,
                by_server.then_some(port),
                "TCP",
                &flow.info,
                cx,
            );
        }
    }

    #[inline(never)]
    fn look_at_datagram(
        &self,
        packet: &Packet<'_>,
        flow: &mut Flow<'_, Self>,
        way: usize,
        cx: &mut Context<'_>,
    ) {
        flow.state.looks[way & 1] += 1;
        let payload = packet.payload();
        let (address, port) = flow.info.key().source(flow.info.direction());
        let (_, peer_port) = flow.info.key().destination(flow.info.direction());
        let mut found_any = false;
        if self.services
            && let Some(found) = banner::udp_service(payload, port)
        {
            self.report_banner(&found, address, Some(port), "UDP", &flow.info, cx);
            found_any = true;
        }
        if self.clients {
            if let Some(found) = banner::udp_client(payload, peer_port) {
                self.report_banner(&found, address, None, "UDP", &flow.info, cx);
                found_any = true;
            }
            // All hosts without an address ask in one flow (0.0.0.0 to broadcast), so that each
            // message is looked at.
            if peer_port == 67
                && let Some(found) = banner::dhcp(payload)
            {
                self.report_dhcp(&found, address, &flow.info, cx);
                flow.state.looks[way & 1] = 0;
            }
        }
        if found_any {
            flow.state.looks[way & 1] = MOST_LOOKS;
        }
    }

    /// ICMPv6 neighbour solicitation and advertisement (RFC 4861 sections 4.3 and 4.4).
    #[inline(never)]
    fn look_at_neighbour(&self, packet: &Packet<'_>, info: &FlowInfo<'_>, cx: &mut Context<'_>) {
        const SOLICITATION: u8 = 135;
        const ADVERTISEMENT: u8 = 136;
        let (message, header) = (packet.transport(), packet.network());
        let Some(head) = message.first_chunk::<24>() else {
            return;
        };
        // Only a neighbour's packet still has the hop limit 255.
        if !matches!(head[0], SOLICITATION | ADVERTISEMENT) || header.get(7) != Some(&255) {
            return;
        }
        let (octets, wanted) = if head[0] == SOLICITATION {
            (header.get(8..24), 1)
        } else {
            (head.get(8..24), 2)
        };
        let Some(address) = octets
            .and_then(<[u8]>::first_chunk::<16>)
            .map(|octets| Ipv6Addr::from(*octets))
            .filter(|address| !address.is_unspecified())
        else {
            return;
        };
        let mut options = message.get(24..).unwrap_or(&[]);
        while let [kind, eights, ..] = *options {
            let length = usize::from(eights) * 8;
            if let (true, Some(&[_, _, a, b, c, d, e, f])) =
                (kind == wanted, options.first_chunk::<8>())
            {
                let mac = MacAddr([a, b, c, d, e, f]);
                self.report_host(IpAddr::V6(address), mac, "IPv6-ICMP", Some(info), cx);
                return;
            }
            options = match options.get(length..) {
                Some(rest) if length > 0 => rest,
                _ => return,
            };
        }
    }

    fn report_banner(
        &self,
        found: &Banner<'_>,
        address: IpAddr,
        port: Option<u16>,
        protocol: &'static str,
        info: &FlowInfo<'_>,
        cx: &mut Context<'_>,
    ) {
        let service = port.is_some();
        let asset = Asset {
            kind: if service { "service" } else { "client" },
            counter: if service {
                Count::Services
            } else {
                Count::Clients
            },
            address,
            port,
            protocol,
            service: found.service,
            fingerprint: b"",
            detail: found.detail,
            distance: None,
            mac: None,
        };
        self.report(&asset, Some(info), cx);
    }

    fn report_dhcp(
        &self,
        found: &banner::Dhcp<'_>,
        source: IpAddr,
        info: &FlowInfo<'_>,
        cx: &mut Context<'_>,
    ) {
        let address = match found.address {
            [0, 0, 0, 0] => source,
            known => IpAddr::V4(Ipv4Addr::from(known)),
        };
        let mut detail = Name::<96>::new("");
        detail.add(found.name);
        if !found.vendor.is_empty() {
            detail.add(b" (");
            detail.add(found.vendor);
            detail.add(b")");
        }
        let mut fingerprint = Name::<120>::new("");
        for (number, parameter) in found.parameters.iter().enumerate() {
            fingerprint.add(if number == 0 { b"" } else { b"," });
            fingerprint.number(u64::from(*parameter));
        }
        let asset = Asset {
            kind: "client",
            counter: Count::Clients,
            address,
            port: None,
            protocol: "UDP",
            service: "dhcp",
            fingerprint: fingerprint.as_bytes(),
            detail: detail.as_bytes().trim_ascii(),
            distance: None,
            mac: Some(MacAddr(found.mac)),
        };
        self.report(&asset, Some(info), cx);
    }

    fn report_host(
        &self,
        address: IpAddr,
        mac: MacAddr,
        protocol: &'static str,
        info: Option<&FlowInfo<'_>>,
        cx: &mut Context<'_>,
    ) {
        let asset = Asset {
            kind: "host",
            counter: Count::Hosts,
            address,
            port: None,
            protocol,
            service: "",
            fingerprint: b"",
            detail: b"",
            distance: None,
            mac: Some(mac),
        };
        self.report(&asset, info, cx);
    }

    /// Writes the event if this asset was not seen before.
    fn report(&self, asset: &Asset<'_>, info: Option<&FlowInfo<'_>>, cx: &mut Context<'_>) {
        if !self.networks.is_empty() && !self.networks.contains(asset.address) {
            return;
        }
        match cx.tally(asset.name().as_bytes(), 1) {
            Some(0) => {}
            Some(_) => return,
            None => return cx.count(Count::TableFull, 1),
        }
        cx.count(asset.counter, 1);
        let mut event = match info {
            Some(info) => cx.event("asset", info),
            None => cx.packet_event("asset"),
        };
        event
            .object("asset")
            .text("kind", asset.kind)
            .address("ip", asset.address);
        if let Some(port) = asset.port {
            event.number("port", u64::from(port));
        }
        event.text("proto", asset.protocol);
        if let Some(mac) = asset.mac {
            event.display("mac", mac);
        }
        if !asset.service.is_empty() {
            event.text("service", asset.service);
        }
        if !asset.fingerprint.is_empty() {
            event.bytes("fingerprint", asset.fingerprint);
        }
        if !asset.detail.is_empty() {
            event.bytes("detail", asset.detail);
        }
        if let Some(distance) = asset.distance {
            event.number("distance", u64::from(distance));
        }
        event.end();
    }
}

impl Asset<'_> {
    /// Under which name it is remembered; the list of names is the list of assets in a run's
    /// report. A system counts by its name if it has one: windows vary from one connection to
    /// the next.
    fn name(&self) -> Name<120> {
        let mut name = Name::new(self.kind);
        // A name that is too long is cut; assets that differ only behind the cut count as one.
        let _ = write!(name, " {}", self.address);
        if let (Some(port), "service") = (self.port, self.kind) {
            let _ = write!(name, " {}/{port}", self.protocol);
        }
        if let Some(mac) = self.mac {
            let _ = write!(name, " {mac}");
        }
        if !self.service.is_empty() {
            let _ = write!(name, " {}", self.service);
        }
        let known = !self.detail.is_empty() && self.detail != b"unknown";
        let last = if known { self.detail } else { self.fingerprint };
        if !last.is_empty() {
            name.add(b" ");
            name.add(last);
        }
        name
    }
}
