//! One walk over a packet's headers.

use crate::headers::{HeaderFlags, Headers};
use crate::key::{Direction, FlowKey, KeyOptions, kind};
use crate::link::LinkType;
use crate::malformed::Malformed;
use crate::packet_key::{KeyOutcome, flow_key};
use crate::protocol::{ethertype, ip, port};
use crate::read::{be16, be32, chunk};
use crate::walk::Walk;

pub use crate::walk::{Depth, ParseOptions};

/// Reads the headers of one frame.
///
/// A frame that the capture cut inside the transport payload is fine
/// ([`HeaderFlags::CUT`]); one that is cut inside a header is not. Other protocols than IP
/// are not malformed: they have no IP flag.
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
    if options.depth != Depth::L2
        && let Some((found, _)) = plainest(bytes, link, options.inner)
    {
        return Ok(found.headers());
    }
    parse_other(bytes, link, options)
}

/// [`parse`] into a place that is there already, a burst's array say, which saves a copy.
/// After an error `headers` has what it had before.
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
    if options.depth != Depth::L2 && parse_plainest(bytes, link, options, headers).is_some() {
        return Ok(());
    }
    parse_other_into(bytes, link, options, headers)
}

/// Octets of the frames that [`parse_plainest`] takes, at least: all that it reads. Ethernet pads
/// its frames to more.
pub const PLAINEST: usize = PLAINEST_L4 + 14;
/// Offset of their transport headers, of which the first 14 octets end with TCP's flags.
pub const PLAINEST_L4: usize = 14 + 20;

/// [`parse_into`] for the plainest of plain packets, which nearly all are: whole TCP and UDP over
/// untagged IPv4. The frame's length is looked at once: with the headers come the octets that were
/// read, transport header at [`PLAINEST_L4`]. `None` says nothing about the packet, and `headers` has
/// what it had before. For depths beyond [`Depth::L2`].
#[inline(always)]
pub fn parse_plainest<'a>(
    bytes: &'a [u8],
    link: LinkType,
    options: &ParseOptions,
    headers: &mut Headers,
) -> Option<&'a [u8; PLAINEST]> {
    debug_assert!(options.depth != Depth::L2);
    let (found, head) = plainest(bytes, link, options.inner)?;
    found.put(headers);
    Some(head)
}

/// The flow of a packet that [`parse_plainest`] took.
#[inline(always)]
pub fn key_of_plainest(head: &[u8; PLAINEST], options: &KeyOptions) -> (FlowKey, Direction) {
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let ports = word(PLAINEST_L4);
    FlowKey::ipv4(
        (word(PLAINEST_L4 - 8), (ports >> 16) as u16),
        (word(PLAINEST_L4 - 4), ports as u16),
        0,
        kind(head[PLAINEST_L4 - 11], options.chain, false),
    )
}

#[inline(always)]
fn plainest(bytes: &[u8], link: LinkType, inner: bool) -> Option<(Plain, &[u8; PLAINEST])> {
    if link != LinkType::Ethernet {
        return None;
    }
    let head = bytes.first_chunk::<PLAINEST>()?;
    if [head[12], head[13]] != ethertype::IPV4.to_be_bytes() {
        return None;
    }
    let found = plain_ipv4(head, bytes.len(), 14, inner)?;
    Some((found, head))
}

/// [`parse`] without the ways for plain packets, which tests hold against it.
///
/// # Errors
///
/// As [`parse`].
#[doc(hidden)]
pub fn parse_generally(
    bytes: &[u8],
    link: LinkType,
    options: &ParseOptions,
) -> Result<Headers, Malformed> {
    Walk::new(bytes, link, options).run()
}

#[inline(never)]
fn parse_other(bytes: &[u8], link: LinkType, options: &ParseOptions) -> Result<Headers, Malformed> {
    if link == LinkType::Ethernet
        && options.depth != Depth::L2
        && let Some(found) = plain(bytes, options.inner)
    {
        return Ok(found.headers());
    }
    Walk::new(bytes, link, options).run()
}

#[inline(never)]
fn parse_other_into(
    bytes: &[u8],
    link: LinkType,
    options: &ParseOptions,
    headers: &mut Headers,
) -> Result<(), Malformed> {
    if link == LinkType::Ethernet
        && options.depth != Depth::L2
        && let Some(found) = plain(bytes, options.inner)
    {
        found.put(headers);
        return Ok(());
    }
    *headers = Walk::new(bytes, link, options).run()?;
    Ok(())
}

/// [`parse_into`] and [`flow_key`] in one, which saves reading back what was
/// just written.
///
/// # Errors
///
/// As [`parse`].
///
/// # Example
///
/// ```
/// use weir_packet::{
///     Headers, KeyOptions, KeyOutcome, LinkType, ParseOptions, classify, flow_key, parse,
/// };
///
/// let packet = [
///     0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, //
///     0x03, 0xe8, 0x00, 0x35, 0, 8, 0, 0,
/// ];
/// let (what, which) = (ParseOptions::default(), KeyOptions::default());
/// let mut headers = Headers::default();
/// let outcome = classify(&packet, LinkType::RawIp, &what, &which, &mut headers)?;
/// assert_eq!(headers, parse(&packet, LinkType::RawIp, &what)?);
/// assert_eq!(outcome, flow_key(&packet, &headers, &which));
/// # Ok::<(), weir_packet::Malformed>(())
/// ```
// Called, it would hand the key over through memory: narrow stores, wide loads that wait for them.
#[inline(always)]
pub fn classify(
    bytes: &[u8],
    link: LinkType,
    options: &ParseOptions,
    key_options: &KeyOptions,
    headers: &mut Headers,
) -> Result<KeyOutcome, Malformed> {
    if options.depth != Depth::L2
        && let Some(head) = parse_plainest(bytes, link, options, headers)
    {
        let (key, direction) = key_of_plainest(head, key_options);
        return Ok(KeyOutcome::Flow(key, direction));
    }
    parse_other_into(bytes, link, options, headers)?;
    Ok(flow_key(bytes, headers, key_options))
}

/// Fields that differ among plain packets. They are few enough to stay in registers; `Headers`
/// would be built in memory in narrow stores and then copied in wide loads, which wait for them.
#[derive(Clone, Copy)]
struct Plain {
    l3: u16,
    l4: u16,
    payload: u16,
    end: u32,
    ethertype: u16,
    flags: HeaderFlags,
    proto: u8,
    tcp_flags: u8,
    vlans: u8,
    vlan: [u16; 2],
}

impl Plain {
    #[inline(always)]
    fn headers(self) -> Headers {
        Headers {
            end: self.end,
            zone: match self.vlans {
                2 => u32::from(self.vlan[0]) << 12 | u32::from(self.vlan[1]),
                _ => u32::from(self.vlan[0]),
            },
            l3: self.l3,
            l4: self.l4,
            payload: self.payload,
            outer_l3: self.l3,
            ethertype: self.ethertype,
            l2: 0,
            vlan: self.vlan,
            flags: self.flags,
            proto: self.proto,
            tcp_flags: self.tcp_flags,
            vlans: self.vlans,
            damage: 0,
            tunnels: 0,
            link: LinkType::Ethernet,
        }
    }

    /// Writes every field of `place`, one by one.
    #[inline(always)]
    fn put(self, place: &mut Headers) {
        let found = self.headers();
        place.end = found.end;
        place.zone = found.zone;
        place.l3 = found.l3;
        place.l4 = found.l4;
        place.payload = found.payload;
        place.outer_l3 = found.outer_l3;
        place.ethertype = found.ethertype;
        place.l2 = found.l2;
        place.vlan = found.vlan;
        place.flags = found.flags;
        place.proto = found.proto;
        place.tcp_flags = found.tcp_flags;
        place.vlans = found.vlans;
        place.damage = found.damage;
        place.tunnels = found.tunnels;
        place.link = found.link;
    }
}

/// The straight way for nearly all packets: Ethernet with at most two tags, IPv4 without options
/// or fragments or IPv6 without extension headers, TCP or UDP, all of it consistent. `None` sends
/// the packet to the walker, which says what is wrong.
#[inline(always)]
fn plain(bytes: &[u8], inner: bool) -> Option<Plain> {
    let mut kind = be16(bytes, 12)?;
    let mut l3 = 14;
    let mut vlan = [0; 2];
    let mut vlans = 0;
    for place in &mut vlan {
        if !ethertype::is_vlan(kind) {
            break;
        }
        let tag = be32(bytes, l3)?;
        *place = (tag >> 16) as u16 & 0x0fff;
        kind = tag as u16;
        vlans += 1;
        l3 += 4;
    }
    let found = match kind {
        ethertype::IPV4 => plain_ipv4(bytes, bytes.len(), l3, inner)?,
        ethertype::IPV6 => plain_ipv6(bytes, l3, inner)?,
        _ => return None,
    };
    Some(Plain {
        vlan,
        vlans,
        ..found
    })
}

/// IPv4 at `l3` of a frame of `length` octets, which begins with `bytes`.
#[inline(always)]
fn plain_ipv4(bytes: &[u8], length: usize, l3: usize, inner: bool) -> Option<Plain> {
    // IPv4 and the eight octets that UDP has and TCP has at least.
    let head = chunk::<28>(bytes, l3)?;
    let total = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let fragment = u16::from_be_bytes([head[6], head[7]]) & 0x3fff;
    if head[0] != 0x45 || total > length - l3 || fragment != 0 {
        return None;
    }
    // Below zero it is too short for any transport.
    let rest = total as isize - 20;
    let found = plain_transport(bytes, head[9], l3 + 20, rest, inner)?;
    Some(Plain {
        l3: l3 as u16,
        ethertype: ethertype::IPV4,
        flags: found.flags.union(HeaderFlags::IPV4),
        ..found
    })
}

#[inline(always)]
fn plain_ipv6(bytes: &[u8], l3: usize, inner: bool) -> Option<Plain> {
    let head = chunk::<48>(bytes, l3)?;
    let rest = usize::from(u16::from_be_bytes([head[4], head[5]]));
    if head[0] >> 4 != 6 || rest > bytes.len() - l3 - 40 {
        return None;
    }
    let found = plain_transport(bytes, head[6], l3 + 40, rest as isize, inner)?;
    Some(Plain {
        l3: l3 as u16,
        ethertype: ethertype::IPV6,
        flags: found.flags.union(HeaderFlags::IPV6),
        ..found
    })
}

/// TCP or UDP at `l4`, of which the IP header says that it has `rest` octets.
#[inline(always)]
fn plain_transport(bytes: &[u8], proto: u8, l4: usize, rest: isize, inner: bool) -> Option<Plain> {
    let (length, flags, tcp_flags);
    match proto {
        ip::UDP => {
            let head = chunk::<8>(bytes, l4)?;
            let declared = usize::from(u16::from_be_bytes([head[4], head[5]]));
            if declared < 8 || declared as isize > rest {
                return None;
            }
            if inner && port::is_tunnel(u16::from_be_bytes([head[2], head[3]])) {
                return None;
            }
            (length, flags, tcp_flags) = (8, HeaderFlags::UDP, 0);
        }
        ip::TCP => {
            let [offset, bits] = *chunk::<2>(bytes, l4 + 12)?;
            length = usize::from(offset >> 4) * 4;
            if length < 20 || length as isize > rest {
                return None;
            }
            (flags, tcp_flags) = (HeaderFlags::TCP, bits);
        }
        _ => return None,
    }
    Some(Plain {
        l3: 0,
        l4: l4 as u16,
        payload: (l4 + length) as u16,
        end: l4 as u32 + rest as u32,
        ethertype: 0,
        flags,
        proto,
        tcp_flags,
        vlans: 0,
        vlan: [0; 2],
    })
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
