//! One walk over a packet's headers.

use crate::headers::{HeaderFlags, Headers};
use crate::key::{Direction, FlowKey, KeyOptions, KeyOutcome, flow_key};
use crate::link::LinkType;
use crate::malformed::Malformed;
use crate::protocol::{ethertype, ip, port};
use crate::walk::Walk;

/// How deep to parse.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub enum Depth {
    /// Link layer and tags: `l3` and `ethertype` are set; no network header is looked at.
    L2,
    /// Network headers with their extensions: addresses, fragments and `proto` are known.
    L3,
    /// Transport headers too.
    #[default]
    L4,
}

/// What to parse.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ParseOptions {
    /// How deep.
    pub depth: Depth,
    /// Open tunnels (at [`Depth::L4`] only): VXLAN, GENEVE, GRE (also in UDP, ERSPAN and PPTP),
    /// MPLS, IPv4 and IPv6 in IP. Fragments are not opened, since the rest of the inner packet
    /// is elsewhere.
    pub inner: bool,
    /// Pass over a fault behind intact IP addresses instead of refusing the packet: it keeps
    /// what was readable, has [`HeaderFlags::DAMAGED`] and names the fault in
    /// [`Headers::damage`]. A transport header that is cut counts as present while its ports
    /// are there. A fault inside a tunnel leaves the tunnel closed.
    pub lenient: bool,
}

/// Reads the headers of one frame.
///
/// A frame that the capture cut inside the transport payload is fine
/// ([`HeaderFlags::CUT`]); one that is cut inside a header is not. What is not IP is not
/// malformed: it has no IP flag.
///
/// # Errors
///
/// The first fault found, from the outside in.
///
/// # Example
///
/// ```
/// use weir_packet::{LinkType, Malformed, ParseOptions, parse};
///
/// let ipv4 = [
///     0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, // IPv4
///     0x03, 0xe8, 0x00, 0x35, 0, 8, 0, 0, // UDP 1000 -> 53
/// ];
/// let headers = parse(&ipv4, LinkType::RawIp, &ParseOptions::default())?;
/// assert!(headers.is_ipv4() && headers.is_udp());
/// assert_eq!(headers.ports(&ipv4), Some((1000, 53)));
/// assert_eq!(
///     parse(&ipv4[..22], LinkType::RawIp, &ParseOptions::default()),
///     Err(Malformed::UdpTruncated)
/// );
/// # Ok::<(), Malformed>(())
/// ```
#[inline]
pub fn parse(bytes: &[u8], link: LinkType, options: &ParseOptions) -> Result<Headers, Malformed> {
    let mut headers = Headers::default();
    parse_into(bytes, link, options, &mut headers)?;
    Ok(headers)
}

/// [`parse`] into a place of the caller's, which saves a copy per packet. After an error the
/// place holds nothing of use.
///
/// # Errors
///
/// As [`parse`].
#[inline]
pub fn parse_into(
    bytes: &[u8],
    link: LinkType,
    options: &ParseOptions,
    headers: &mut Headers,
) -> Result<(), Malformed> {
    if let LinkType::Ethernet = link
        && let Depth::L4 = options.depth
        && let Some(head) = bytes.first_chunk::<42>()
        && plain(head, bytes, options.inner, headers).is_some()
    {
        return Ok(());
    }
    walk(bytes, link, options, headers)
}

#[inline(never)]
fn walk(
    bytes: &[u8],
    link: LinkType,
    options: &ParseOptions,
    headers: &mut Headers,
) -> Result<(), Malformed> {
    *headers = Walk::new(bytes, link, options).run()?;
    Ok(())
}

/// What [`parse_flow`] says of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowSeen {
    /// It travels this way in the flow whose key was written.
    Flow(Direction),
    /// It is a later fragment.
    LaterFragment,
    /// It has no flow.
    None,
}

/// [`parse_into`], [`flow_key`] and [`FlowKey::hash`] in one: writes headers and, where there is
/// a flow, its key and hash.
///
/// # Errors
///
/// As [`parse`].
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub fn parse_flow(
    bytes: &[u8],
    link: LinkType,
    options: &ParseOptions,
    keys: &KeyOptions,
    seed: u64,
    headers: &mut Headers,
    key: &mut FlowKey,
    hash: &mut u64,
) -> Result<FlowSeen, Malformed> {
    if let LinkType::Ethernet = link
        && let Depth::L4 = options.depth
        && let Some(head) = bytes.first_chunk::<42>()
        && plain(head, bytes, options.inner, headers).is_some()
    {
        // No tag was seen, so the zone is 0 whatever the options say.
        let (found, way) = FlowKey::of_plain(head, keys.chain);
        *hash = found.hash_ipv4(seed);
        *key = found;
        return Ok(FlowSeen::Flow(way));
    }
    look_closer(bytes, link, options, keys, seed, headers, key, hash)
}

#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn look_closer(
    bytes: &[u8],
    link: LinkType,
    options: &ParseOptions,
    keys: &KeyOptions,
    seed: u64,
    headers: &mut Headers,
    key: &mut FlowKey,
    hash: &mut u64,
) -> Result<FlowSeen, Malformed> {
    walk(bytes, link, options, headers)?;
    Ok(match flow_key(bytes, headers, keys) {
        KeyOutcome::Flow(found, way) => {
            *key = found;
            *hash = found.hash(seed);
            FlowSeen::Flow(way)
        }
        KeyOutcome::LaterFragment(_) => FlowSeen::LaterFragment,
        KeyOutcome::None => FlowSeen::None,
    })
}

/// What all plain packets have in common.
const PLAIN: Headers = Headers {
    end: 0,
    zone: 0,
    l3: 14,
    l4: 34,
    payload: 42,
    outer_l3: 14,
    ethertype: ethertype::IPV4,
    l2: 0,
    vlan: [0; 2],
    flags: HeaderFlags::IPV4.union(HeaderFlags::UDP),
    proto: ip::UDP,
    tcp_flags: 0,
    vlans: 0,
    damage: 0,
    tunnels: 0,
    link: LinkType::Ethernet,
};

/// The straight way for nearly all packets: Ethernet, IPv4 without options or fragments, TCP or
/// UDP, all of it consistent. `head` is the start of `bytes`: Ethernet, IPv4 and the eight octets
/// that UDP has and TCP has at least. `None` sends the packet to the walker, which says what is
/// wrong.
#[inline(always)]
fn plain(head: &[u8; 42], bytes: &[u8], inner: bool, headers: &mut Headers) -> Option<()> {
    const L3: usize = 14;
    const L4: usize = 34;
    const IPV4: u32 = (ethertype::IPV4 as u32) << 16 | 0x4500;
    let half = |at: usize| usize::from(u16::from_be_bytes([head[at], head[at + 1]]));
    let start = u32::from_be_bytes([head[12], head[13], head[14], head[15]]);
    let total = half(16);
    // EtherType, version and header length; length; fragments.
    if start & 0xffff_ff00 != IPV4 || total > bytes.len() - L3 || half(20) & 0x3fff != 0 {
        return None;
    }
    match head[23] {
        ip::UDP => {
            let length = half(38);
            // `length >= 8` and this bound it from both sides.
            if length < 8 || length + 20 > total {
                return None;
            }
            if inner && port::is_tunnel(half(36) as u16) {
                return None;
            }
            *headers = PLAIN;
        }
        ip::TCP => {
            let [offset, bits] = *bytes.get(L4 + 12..)?.first_chunk::<2>()?;
            let length = usize::from(offset >> 4) * 4;
            if length < 20 || length + 20 > total {
                return None;
            }
            *headers = Headers {
                payload: 0,
                flags: HeaderFlags::IPV4.union(HeaderFlags::TCP),
                proto: ip::TCP,
                ..PLAIN
            };
            headers.payload = (L4 + length) as u16;
            headers.tcp_flags = bits;
        }
        _ => return None,
    }
    headers.end = (L3 + total) as u32;
    Some(())
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
