//! Facts about packets and connections that rules ask for.

use std::net::IpAddr;

use weir_nf::packet::{LinkType, Packet, Side, tcp};
use weir_nf::{FlowInfo, tcp_seen};

use crate::rewrite;

/// Connection states, as bits.
pub(crate) mod state {
    pub(crate) const NEW: u8 = 1;
    pub(crate) const ESTABLISHED: u8 = 2;
    pub(crate) const RELATED: u8 = 4;
    pub(crate) const INVALID: u8 = 8;
    /// Of an open connection under changed rules: what accepts new ones accepts it, and what refuses
    /// these alone does not touch it.
    pub(crate) const OPEN: u8 = NEW | ESTABLISHED;
    /// States that a rule means if it names none: `invalid` must be asked for.
    pub(crate) const ANY: u8 = NEW | ESTABLISHED | RELATED;
}

/// Facts about a packet or connection that rules ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) state: u8,
    /// Side from which the connection was opened (or the packet came).
    pub(crate) side: Side,
    /// Source and destination; `None` for what is not IP.
    pub(crate) ip: Option<(IpAddr, IpAddr)>,
    pub(crate) proto: u8,
    /// `None` where there are none or they are not known.
    pub(crate) ports: Option<(u16, u16)>,
    pub(crate) icmp_type: Option<u8>,
    pub(crate) tcp_flags: Option<u8>,
    pub(crate) vlan: u16,
    pub(crate) ethertype: u16,
    /// Destination and source MAC; `None` where the link has none.
    pub(crate) macs: Option<([u8; 6], [u8; 6])>,
}

/// Facts that one packet alone tells.
pub(super) fn packet_facts(packet: &Packet<'_>) -> Facts {
    let headers = packet.headers();
    let bytes = packet.bytes();
    let l2 = usize::from(headers.l2);
    let macs = bytes
        .get(l2..)
        .and_then(|b| b.first_chunk::<12>())
        .filter(|_| headers.link == LinkType::Ethernet)
        .and_then(|b| {
            let (to, from) = b.split_first_chunk::<6>()?;
            Some((*to, *from.first_chunk::<6>()?))
        });
    let whole = !headers.is_later_fragment();
    Facts {
        state: state::NEW,
        side: packet.side(),
        ip: rewrite::addresses_of(packet),
        proto: headers.proto,
        ports: headers.ports(bytes).filter(|_| whole),
        icmp_type: bytes
            .get(usize::from(headers.l4))
            .copied()
            .filter(|_| whole && (headers.is_icmp() || headers.is_icmpv6())),
        tcp_flags: (headers.is_tcp() && whole).then_some(headers.tcp_flags),
        vlan: headers.outer_vlan().unwrap_or(0),
        ethertype: headers.ethertype,
        macs,
    }
}

/// True for TCP that does not begin with a SYN here: its opening was not seen, or is forged. A
/// SYN+ACK that answers nothing is such a beginning: an outsider sends one so that his host is
/// taken for a server that was asked, and his SYN for the server's.
pub(super) fn begins_in_the_middle(packet: &Packet<'_>, flow: &FlowInfo<'_>) -> bool {
    const ANSWER: u8 = tcp::flag::SYN | tcp::flag::ACK;
    let headers = packet.headers();
    let seen = flow.tcp_seen();
    let answers_nothing = headers.tcp_flags & ANSWER == ANSWER && seen & tcp_seen::SYN == 0;
    headers.is_tcp() && (seen & tcp_seen::MIDSTREAM != 0 || answers_nothing)
}
