//! Sockets to agents.

use std::net::{SocketAddr, UdpSocket};

/// Network identifier of links in VXLAN-GPE.
pub(super) const NETWORK: u32 = 0x0077_6569;

/// A socket of any address and port, that reaches `agent`.
pub(super) fn socket_for(agent: SocketAddr) -> std::io::Result<UdpSocket> {
    UdpSocket::bind::<SocketAddr>(match agent {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0; 16], 0).into(),
    })
}
