//! Connections that were under way before the balancer knew them, and of which the
//! server speaks first: after a restart, or when a server repeats its last segment
//! after the flow has ended here.
//!
//! The client knows the virtual address only. It would answer the server's own
//! address with a reset, which ends the connection at the server.

use core::net::IpAddr;

use weir_nf::packet::tcp::flag;
use weir_nf::prelude::*;
use weir_nf::tcp_seen;

use super::{Connection, Count, LoadBalancer, Pool, Server, Tuple, alias, to_octets};

impl Pool {
    /// The virtual address and port whose connections this server may answer, if one only.
    /// With `opened` the server looks like the client of a connection of its own.
    fn answers_from(&self, tuple: &Tuple, opened: bool) -> Option<(&Server, IpAddr, u16)> {
        let (source, source_port, proto) = (tuple.source, tuple.source_port, tuple.proto);
        let takes_one_port = matches!(self.ports.as_slice(), [(port, last)] if port == last);
        if opened && !takes_one_port {
            return None;
        }
        if !self.protocols.contains(&proto) {
            return None;
        }
        let mut servers = self
            .servers
            .iter()
            .filter(|server| server.address == source);
        let server = servers.find(|server| server.port.is_none_or(|port| port == source_port))?;
        let port = match (server.port, self.ports.as_slice()) {
            // Servers are asked at the port that the client asked for.
            (None, []) => source_port,
            (None, ports) => ports
                .iter()
                .any(|(a, b)| (a..=b).contains(&&source_port))
                .then_some(source_port)?,
            (Some(_), &[(port, last)]) if port == last => port,
            (Some(_), _) => return None,
        };
        let mut vips = self
            .vips
            .iter()
            .filter(|vip| vip.is_ipv4() == source.is_ipv4());
        let vip = *vips.next()?;
        vips.next().is_none().then_some((server, vip, port))
    }
}

impl LoadBalancer {
    /// The state of a TCP connection whose first packet here is its server's.
    #[cold]
    pub(super) fn rejoin(
        &self,
        packet: &Packet<'_>,
        flow: &FlowInfo<'_>,
        tuple: &Tuple,
        cx: &mut Context<'_>,
    ) -> Option<Connection> {
        let headers = packet.headers();
        let under_way = headers.is_tcp()
            && headers.tcp_flags & flag::SYN == 0
            && flow.tcp_seen() & tcp_seen::MIDSTREAM != 0;
        if !under_way {
            return None;
        }
        let mut services = self
            .pools
            .iter()
            .filter_map(|pool| pool.answers_from(tuple, flow.to_server()));
        let (spoke, vip, vip_port) = services.next()?;
        if services.next().is_some() {
            return None;
        }
        // The client's packets go to the virtual address.
        let named = Tuple {
            source: vip,
            source_port: vip_port,
            ..*tuple
        };
        let (key, client) = alias(&named, flow);
        cx.alias(key, client);
        cx.count(Count::Balanced, 1);
        cx.tally(spoke.count_as.as_bytes(), 1);
        Some(Connection {
            vip: to_octets(vip),
            server: to_octets(tuple.source),
            vip_port,
            server_port: tuple.source_port,
            family: if vip.is_ipv4() { 4 } else { 6 },
            reserved: [0; 3],
        })
    }
}
