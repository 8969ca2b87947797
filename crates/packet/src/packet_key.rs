//! Which flow a packet belongs to.

use crate::fragment::FragmentKey;
use crate::headers::{HeaderFlags, Headers};
use crate::key::{Direction, FlowKey, IcmpKey, KeyOptions, ipv4_addresses, ipv6_addresses, kind};
use crate::malformed::Malformed;
use crate::quoted::{Quoted, is_query};
use crate::read::{be8, be16, be32};

/// Which flow a packet belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyOutcome {
    /// This one, in this direction.
    Flow(FlowKey, Direction),
    /// The flow of the datagram's first fragment.
    LaterFragment(FragmentKey),
    /// None: not IP, or (after a lenient parse) too damaged to tell.
    None,
}

/// The flow of a packet that was parsed to [`Depth::L4`](crate::Depth::L4).
///
/// After a shallower parse keys have protocol and addresses only.
///
/// # Example
///
/// ```
/// use weir_packet::{KeyOptions, KeyOutcome, LinkType, ParseOptions, flow_key, parse};
///
/// let packet = [
///     0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, //
///     0x03, 0xe8, 0x00, 0x35, 0, 8, 0, 0,
/// ];
/// let headers = parse(&packet, LinkType::RawIp, &ParseOptions::default())?;
/// let KeyOutcome::Flow(key, direction) = flow_key(&packet, &headers, &KeyOptions::default())
/// else {
///     panic!("UDP has a flow");
/// };
/// assert_eq!(key.to_string(), "udp 10.0.0.1:1000 - 10.0.0.2:53");
/// # Ok::<(), weir_packet::Malformed>(())
/// ```
#[inline]
pub fn flow_key(bytes: &[u8], headers: &Headers, options: &KeyOptions) -> KeyOutcome {
    match plain_key(bytes, headers, options) {
        Some((key, direction)) => KeyOutcome::Flow(key, direction),
        None => any_key(bytes, headers, options).unwrap_or(KeyOutcome::None),
    }
}

/// The key of a packet with ports and without fault; `None` leaves it to [`any_key`].
#[inline(always)]
fn plain_key(
    bytes: &[u8],
    headers: &Headers,
    options: &KeyOptions,
) -> Option<(FlowKey, Direction)> {
    let odd = HeaderFlags::LATER_FRAGMENT | HeaderFlags::DAMAGED;
    if !headers.has_ports() || headers.flags.intersects(odd) {
        return None;
    }
    let ports = be32(bytes, usize::from(headers.l4))?;
    let (source_port, destination_port) = ((ports >> 16) as u16, ports as u16);
    let zone = if options.zone { headers.zone } else { 0 };
    let kind = kind(headers.proto, options.chain, headers.is_ipv6());
    let l3 = usize::from(headers.l3);
    Some(if headers.is_ipv4() {
        let [s, d] = ipv4_addresses(bytes, l3)?;
        FlowKey::ipv4((s, source_port), (d, destination_port), zone, kind)
    } else {
        let [s, d] = ipv6_addresses(bytes, l3)?;
        FlowKey::ipv6((s, source_port), (d, destination_port), zone, kind)
    })
}

/// True if a fault has left too little to tell which flow the packet belongs to: a transport
/// header without its ports, or headers that were not followed to the transport's.
fn is_unknown(headers: &Headers) -> bool {
    match headers.damage() {
        Some(Malformed::Ipv6TooManyExtensions) => true,
        Some(Malformed::TcpTruncated | Malformed::UdpTruncated | Malformed::SctpTruncated) => {
            // With nothing behind the IP header, by its own count, the addresses are all there is.
            let more = HeaderFlags::CUT | HeaderFlags::NO_LENGTH;
            headers.l4_len() > 0 || headers.flags.intersects(more)
        }
        _ => false,
    }
}

#[inline(never)]
fn any_key(bytes: &[u8], headers: &Headers, options: &KeyOptions) -> Option<KeyOutcome> {
    if !headers.is_ip() {
        return None;
    }
    if headers.is_later_fragment() {
        return FragmentKey::of(bytes, headers, options).map(KeyOutcome::LaterFragment);
    }
    let (l3, l4) = (usize::from(headers.l3), usize::from(headers.l4));
    let zone = if options.zone { headers.zone } else { 0 };
    let tuple = |ipv6: bool, l3: usize, proto: u8, ports: (u16, u16)| {
        let kind = kind(proto, options.chain, ipv6);
        Some(if ipv6 {
            let [s, d] = ipv6_addresses(bytes, l3)?;
            FlowKey::ipv6((s, ports.0), (d, ports.1), zone, kind)
        } else {
            let [s, d] = ipv4_addresses(bytes, l3)?;
            FlowKey::ipv4((s, ports.0), (d, ports.1), zone, kind)
        })
    };
    let mut ports = (0, 0);
    if let Some(found) = headers.ports(bytes) {
        ports = found;
    } else if is_unknown(headers) {
        return None;
    } else if options.icmp == IcmpKey::Conversation
        && headers
            .flags
            .intersects(HeaderFlags::ICMP | HeaderFlags::ICMPV6)
    {
        if headers.flags.contains(HeaderFlags::ICMP_ERROR) {
            if let Some(q) = Quoted::of(bytes, headers)
                && let Some((key, direction)) =
                    tuple(q.ipv6, q.l3, q.proto, (q.source_port, q.destination_port))
            {
                return Some(KeyOutcome::Flow(key, direction.opposite()));
            }
        } else if is_query(headers.proto, be8(bytes, l4)?) {
            let id = be16(bytes, l4 + 4)?;
            ports = (id, id);
        }
    }
    let (key, direction) = tuple(headers.is_ipv6(), l3, headers.proto, ports)?;
    Some(KeyOutcome::Flow(key, direction))
}

#[cfg(test)]
#[path = "packet_key_tests.rs"]
mod tests;
