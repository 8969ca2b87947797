//! The general parser: a loop over layers, each of which names the next.

use crate::headers::{HeaderFlags, Headers};
use crate::ipv6::{MAX_EXTENSIONS, extension_len};
use crate::link::LinkType;
use crate::malformed::Malformed;
use crate::nsh::{NshView, next};
use crate::protocol::{ethertype, ip, ppp};
use crate::read::{be8, be16, be32, chunk};

/// Layers followed inside one frame (a VLAN tag and an MPLS stack count as one each).
const MAX_LAYERS: usize = 40;
/// Tunnels opened inside one another.
pub(crate) const MAX_TUNNELS: u8 = 8;

/// In a zone: the number of a backbone service instance. Two VLAN ids have 24
/// bits below it, a tunnel has one above.
const SERVICE_INSTANCE: u32 = 1 << 30;

/// How deep to parse.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub enum Depth {
    /// Link layer and tags: `l3` and `ethertype` are set; no network header is looked at.
    L2,
    /// Network headers with their extensions: addresses, fragments and `proto` are known. Of a
    /// plain packet the transport header is known as well, since that costs nothing; a fault in
    /// a transport header is none at this depth.
    L3,
    /// Transport headers too.
    #[default]
    L4,
}

/// Extent of a parse.
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

/// The next header and its place.
#[derive(Clone, Copy)]
pub(crate) enum Layer {
    Ethernet(usize),
    EtherType(u16, usize),
    Llc(usize),
    Ppp(usize),
    Mpls(usize),
    /// IPv4 or IPv6, by the version field.
    Ip(usize),
    Ipv4(usize),
    Ipv6(usize),
    Transport(usize),
    Done,
}

/// One walk over one frame.
pub(crate) struct Walk<'a> {
    pub(crate) bytes: &'a [u8],
    depth: Depth,
    inner: bool,
    lenient: bool,
    pub(crate) headers: Headers,
    /// End of what may be read: the frame, or the datagram that encloses this layer.
    pub(crate) limit: usize,
    /// The headers of the packet around the tunnel that is being looked into.
    outside: Option<Headers>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(bytes: &'a [u8], link: LinkType, options: &ParseOptions) -> Walk<'a> {
        // `end` is 32 bits wide; no frame is longer.
        let bytes = bytes.get(..u32::MAX as usize).unwrap_or(bytes);
        Walk {
            bytes,
            depth: options.depth,
            inner: options.inner && options.depth == Depth::L4,
            lenient: options.lenient,
            headers: Headers {
                end: bytes.len() as u32,
                link,
                ..Headers::default()
            },
            limit: bytes.len(),
            outside: None,
        }
    }

    #[inline(never)]
    pub(crate) fn run(mut self) -> Result<Headers, Malformed> {
        match self.layers() {
            Ok(()) => Ok(self.headers),
            Err(fault) => match self.outside {
                Some(mut outside) if self.lenient => {
                    outside.flags |= HeaderFlags::DAMAGED;
                    outside.damage = fault as u8 + 1;
                    Ok(outside)
                }
                _ => Err(fault),
            },
        }
    }

    fn layers(&mut self) -> Result<(), Malformed> {
        let mut layer = self.link()?;
        for _ in 0..MAX_LAYERS {
            layer = match layer {
                Layer::Ethernet(at) => self.ethernet(at)?,
                Layer::EtherType(kind, at) => self.ethertype(kind, at)?,
                Layer::Llc(at) => self.llc(at)?,
                Layer::Ppp(at) => self.ppp(at)?,
                Layer::Mpls(at) => self.mpls(at)?,
                Layer::Ip(at) => {
                    match be8(self.visible(), at).ok_or(Malformed::Ipv4Truncated)? >> 4 {
                        4 => self.network(ethertype::IPV4, at)?,
                        6 => self.network(ethertype::IPV6, at)?,
                        _ => return Err(Malformed::IpBadVersion),
                    }
                }
                Layer::Ipv4(at) => self.ipv4(at)?,
                Layer::Ipv6(at) => self.ipv6(at)?,
                Layer::Transport(at) => self.transport(at)?,
                Layer::Done => return Ok(()),
            };
        }
        match layer {
            Layer::Done => Ok(()),
            _ => Err(Malformed::TooManyLayers),
        }
    }

    /// The octets that belong to the layer being read.
    #[inline]
    pub(crate) fn visible(&self) -> &'a [u8] {
        self.bytes.get(..self.limit).unwrap_or(self.bytes)
    }

    /// Passes over a fault behind intact addresses, or ends with it.
    pub(crate) fn fault(&mut self, fault: Malformed) -> Result<Layer, Malformed> {
        if !self.lenient {
            return Err(fault);
        }
        self.headers.flags |= HeaderFlags::DAMAGED;
        self.headers.damage = fault as u8 + 1;
        Ok(Layer::Done)
    }

    fn ethernet(&mut self, at: usize) -> Result<Layer, Malformed> {
        let head = chunk::<14>(self.visible(), at).ok_or(Malformed::EthernetTruncated)?;
        self.headers.l2 = offset(at)?;
        Ok(Layer::EtherType(
            u16::from_be_bytes([head[12], head[13]]),
            at + 14,
        ))
    }

    fn ethertype(&mut self, kind: u16, at: usize) -> Result<Layer, Malformed> {
        let bytes = self.visible();
        match kind {
            ethertype::VLAN | ethertype::QINQ | ethertype::QINQ_OLD => {
                let tag = be32(bytes, at).ok_or(Malformed::VlanTruncated)?;
                self.tag((tag >> 16) as u16 & 0x0fff);
                Ok(Layer::EtherType(tag as u16, at + 4))
            }
            ethertype::MPLS | ethertype::MPLS_UPSTREAM => Ok(Layer::Mpls(at)),
            ethertype::PPPOE_SESSION => {
                let head = chunk::<6>(bytes, at).ok_or(Malformed::PppoeTruncated)?;
                if head[0] != 0x11 {
                    return Err(Malformed::PppoeBadVersion);
                }
                Ok(Layer::Ppp(at + 6))
            }
            ethertype::NSH => self.nsh(at),
            // An instance tag with flags and a 24-bit number, then the customer's frame.
            ethertype::PBB => {
                let tag = be32(bytes, at).ok_or(Malformed::VlanTruncated)?;
                if self.headers.tunnels == 0 {
                    self.headers.zone = SERVICE_INSTANCE | tag & 0x00ff_ffff;
                }
                Ok(Layer::Ethernet(at + 4))
            }
            // Four octets of interfaces, which differ between the directions.
            ethertype::VN_TAG => {
                let kind = be16(bytes, at + 4).ok_or(Malformed::VlanTruncated)?;
                Ok(Layer::EtherType(kind, at + 6))
            }
            // A frame in a frame: two octets (forwarding tag, TTL) and the edge's own frame.
            ethertype::FABRICPATH => Ok(Layer::Ethernet(at + 2)),
            ethertype::ETHERNET => Ok(Layer::Ethernet(at)),
            ethertype::PPP => Ok(Layer::Ppp(at)),
            _ if kind < ethertype::FIRST => Ok(Layer::Llc(at)),
            _ => self.network(kind, at),
        }
    }

    /// RFC 8300 section 2: a base header that says how long the whole is and what follows.
    fn nsh(&mut self, at: usize) -> Result<Layer, Malformed> {
        let bytes = self.visible();
        let rest = bytes.get(at..).ok_or(Malformed::NshTruncated)?;
        let nsh = NshView::new(rest)?;
        let inside = at + nsh.header_len();
        match nsh.next_protocol() {
            next::IPV4 => self.network(ethertype::IPV4, inside),
            next::IPV6 => self.network(ethertype::IPV6, inside),
            next::ETHERNET => Ok(Layer::Ethernet(inside)),
            next::MPLS => Ok(Layer::Mpls(inside)),
            _ => self.network(ethertype::NSH, at),
        }
    }

    fn tag(&mut self, id: u16) {
        let headers = &mut self.headers;
        if let Some(place) = headers.vlan.get_mut(usize::from(headers.vlans)) {
            *place = id;
        }
        headers.vlans = headers.vlans.saturating_add(1);
        if headers.tunnels == 0 && headers.zone & SERVICE_INSTANCE == 0 {
            headers.zone = match headers.vlans {
                1 => u32::from(id),
                _ => u32::from(headers.vlan[0]) << 12 | u32::from(headers.vlan[1]),
            };
        }
    }

    /// 802.2: SNAP leads to an EtherType; anything else (spanning tree, IS-IS, ...) has no flow.
    fn llc(&mut self, at: usize) -> Result<Layer, Malformed> {
        let bytes = self.visible();
        let truncated = Malformed::LlcTruncated;
        let [destination, source, control] = *chunk::<3>(bytes, at).ok_or(truncated)?;
        self.headers.l3 = offset(at)?;
        self.headers.outer_l3 = self.headers.l3;
        match (destination, source, control) {
            (0xaa, 0xaa, 0x03) => {
                let [oui @ .., k0, k1] = *chunk::<5>(bytes, at + 3).ok_or(truncated)?;
                let kind = u16::from_be_bytes([k0, k1]);
                match oui {
                    // RFC 1042, and bridged through 802.1H.
                    [0, 0, 0] | [0, 0, 0xf8] if kind >= ethertype::FIRST => {
                        Ok(Layer::EtherType(kind, at + 8))
                    }
                    _ => Ok(Layer::Done),
                }
            }
            // The service access point of IP itself.
            (0x06, 0x06, 0x03) => self.network(ethertype::IPV4, at + 3),
            _ => Ok(Layer::Done),
        }
    }

    fn ppp(&mut self, mut at: usize) -> Result<Layer, Malformed> {
        let bytes = self.visible();
        if chunk::<2>(bytes, at) == Some(&[0xff, 0x03]) {
            at += 2;
        }
        let first = be8(bytes, at).ok_or(Malformed::PppTruncated)?;
        // A protocol number ends with the first odd octet (RFC 1661 section 6.5).
        let protocol = if first & 1 == 1 {
            at += 1;
            u16::from(first)
        } else {
            at += 2;
            be16(bytes, at - 2).ok_or(Malformed::PppTruncated)?
        };
        match protocol {
            ppp::IPV4 => self.network(ethertype::IPV4, at),
            ppp::IPV6 => self.network(ethertype::IPV6, at),
            ppp::MPLS => Ok(Layer::Mpls(at)),
            _ => {
                self.headers.ethertype = 0;
                Ok(Layer::Done)
            }
        }
    }

    /// Skips the label stack. The next header has no type field: IP shows by its version, an
    /// Ethernet pseudowire by its control word (RFC 4385) or by a known EtherType.
    fn mpls(&mut self, mut at: usize) -> Result<Layer, Malformed> {
        let bytes = self.visible();
        loop {
            let entry = be32(bytes, at).ok_or(Malformed::MplsTruncated)?;
            at += 4;
            if entry & 0x100 != 0 {
                break;
            }
        }
        let looks_like_frame = |at: usize| {
            matches!(
                be16(bytes, at + 12),
                Some(
                    ethertype::IPV4
                        | ethertype::IPV6
                        | ethertype::ARP
                        | ethertype::VLAN
                        | ethertype::QINQ
                )
            )
        };
        match be8(bytes, at) {
            None => Err(Malformed::MplsTruncated),
            Some(first) => match first >> 4 {
                4 => self.network(ethertype::IPV4, at),
                6 => self.network(ethertype::IPV6, at),
                0 if looks_like_frame(at + 4) => Ok(Layer::Ethernet(at + 4)),
                _ if looks_like_frame(at) => Ok(Layer::Ethernet(at)),
                _ => self.network(ethertype::MPLS, at),
            },
        }
    }

    /// Enters the network layer.
    pub(crate) fn network(&mut self, kind: u16, at: usize) -> Result<Layer, Malformed> {
        let headers = &mut self.headers;
        headers.ethertype = kind;
        headers.l3 = offset(at)?;
        if headers.tunnels == 0 {
            headers.outer_l3 = headers.l3;
        }
        if self.depth == Depth::L2 {
            return Ok(Layer::Done);
        }
        match kind {
            ethertype::IPV4 => Ok(Layer::Ipv4(at)),
            ethertype::IPV6 => Ok(Layer::Ipv6(at)),
            ethertype::ARP => {
                let bytes = self.visible();
                let head = chunk::<8>(bytes, at).ok_or(Malformed::ArpTruncated)?;
                let length = 8 + 2 * (usize::from(head[4]) + usize::from(head[5]));
                if bytes.len() - at < length {
                    return Err(Malformed::ArpTruncated);
                }
                self.headers.flags |= HeaderFlags::ARP;
                Ok(Layer::Done)
            }
            _ => Ok(Layer::Done),
        }
    }

    fn ipv4(&mut self, at: usize) -> Result<Layer, Malformed> {
        let bytes = self.visible();
        // Said before the length: a first octet that is wrong says more than a short packet.
        if let Some(first) = be8(bytes, at) {
            if first >> 4 != 4 {
                return Err(Malformed::Ipv4BadVersion);
            }
            if first & 0xf < 5 {
                return Err(Malformed::Ipv4BadHeaderLength);
            }
        }
        let head = chunk::<20>(bytes, at).ok_or(Malformed::Ipv4Truncated)?;
        let length = usize::from(head[0] & 0xf) * 4;
        let total = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let fragment = u16::from_be_bytes([head[6], head[7]]);
        let after = at + length;

        self.headers.flags |= HeaderFlags::IPV4;
        self.headers.proto = head[9];
        self.headers.l4 = offset(after)?;
        self.headers.payload = self.headers.l4;
        self.datagram(at, if total == 0 { None } else { Some(total) });
        if length > 20 {
            self.headers.flags |= HeaderFlags::OPTIONS;
        }
        if fragment & 0x3fff != 0 {
            self.headers.flags |= HeaderFlags::FRAGMENT;
        }
        if fragment & 0x1fff != 0 {
            self.headers.flags |= HeaderFlags::LATER_FRAGMENT;
        }
        if after > bytes.len() {
            return self.fault(Malformed::Ipv4Truncated);
        }
        if total != 0 && total < length {
            return self.fault(Malformed::Ipv4BadTotalLength);
        }
        if self.headers.is_later_fragment() {
            return Ok(Layer::Done);
        }
        Ok(Layer::Transport(after))
    }

    /// Narrows the walk to the datagram at `at`, of the length that its header declares.
    fn datagram(&mut self, at: usize, declared: Option<usize>) {
        match declared {
            None => self.headers.flags |= HeaderFlags::NO_LENGTH,
            Some(length) if length > self.limit - at.min(self.limit) => {
                self.headers.flags |= HeaderFlags::CUT;
            }
            Some(length) => self.limit = at + length,
        }
        self.headers.end = self.limit as u32;
    }

    fn ipv6(&mut self, at: usize) -> Result<Layer, Malformed> {
        let bytes = self.visible();
        if let Some(first) = be8(bytes, at)
            && first >> 4 != 6
        {
            return Err(Malformed::Ipv6BadVersion);
        }
        let head = chunk::<40>(bytes, at).ok_or(Malformed::Ipv6Truncated)?;
        let declared = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let mut next = head[6];
        let mut here = at + 40;
        self.headers.flags |= HeaderFlags::IPV6;
        self.headers.proto = next;
        self.headers.l4 = offset(here)?;
        self.headers.payload = self.headers.l4;
        let length = match (declared, next) {
            (0, ip::NONE) => Some(40),
            (0, ip::HOP_BY_HOP) => jumbo(bytes, here).map(|length| length.saturating_add(40)),
            (0, _) => None, // segmentation offload
            (n, _) => Some(n + 40),
        };
        self.datagram(at, length);

        let bytes = self.visible();
        for _ in 0..MAX_EXTENSIONS {
            if !ip::is_extension(next) {
                return Ok(Layer::Transport(here));
            }
            let Some(&[following, size]) = chunk::<2>(bytes, here) else {
                return self.fault(Malformed::Ipv6BadExtension);
            };
            let length = extension_len(next, size);
            if bytes.len() - here < length {
                return self.fault(Malformed::Ipv6BadExtension);
            }
            self.headers.flags |= HeaderFlags::OPTIONS;
            let place = be16(bytes, here + 2).unwrap_or(0);
            let is_fragment = next == ip::FRAGMENT;
            here += length;
            next = following;
            self.headers.proto = next;
            self.headers.l4 = offset(here)?;
            self.headers.payload = self.headers.l4;
            // Offset in the upper 13 bits, "more" in the lowest. Both zero is an atomic
            // fragment, a whole packet (RFC 6946).
            if is_fragment && place & 0xfff9 != 0 {
                self.headers.flags |= HeaderFlags::FRAGMENT;
                if place & 0xfff8 != 0 {
                    self.headers.flags |= HeaderFlags::LATER_FRAGMENT;
                    return Ok(Layer::Done);
                }
            }
        }
        if ip::is_extension(next) {
            return self.fault(Malformed::Ipv6TooManyExtensions);
        }
        Ok(Layer::Transport(here))
    }

    fn transport(&mut self, at: usize) -> Result<Layer, Malformed> {
        if self.depth != Depth::L4 {
            return Ok(Layer::Done);
        }
        let bytes = self.visible();
        let rest = bytes.get(at..).unwrap_or(&[]);
        let is_ipv4 = self.headers.is_ipv4();
        match self.headers.proto {
            ip::TCP => self.tcp(rest, at),
            ip::UDP => self.udp(rest, at),
            ip::SCTP => {
                if rest.len() >= 4 {
                    self.headers.flags |= HeaderFlags::SCTP;
                }
                match rest.len() {
                    12.. => self.payload_at(at + 12),
                    _ => self.fault(Malformed::SctpTruncated),
                }
            }
            ip::ICMP if is_ipv4 => {
                let Some(head) = rest.first_chunk::<8>() else {
                    return self.fault(Malformed::IcmpTruncated);
                };
                self.headers.flags |= HeaderFlags::ICMP;
                if matches!(head[0], 3 | 4 | 5 | 11 | 12) {
                    self.headers.flags |= HeaderFlags::ICMP_ERROR;
                }
                self.payload_at(at + 8)
            }
            ip::ICMPV6 if !is_ipv4 => {
                let Some(head) = rest.first_chunk::<8>() else {
                    return self.fault(Malformed::Icmpv6Truncated);
                };
                self.headers.flags |= HeaderFlags::ICMPV6;
                // RFC 4443 section 2.1: errors have the highest bit clear.
                if matches!(head[0], 1..=127) {
                    self.headers.flags |= HeaderFlags::ICMP_ERROR;
                }
                self.payload_at(at + 8)
            }
            ip::GRE | ip::IPV4 | ip::IPV6 | ip::MPLS if self.may_open() => self.open_ip(at),
            _ => Ok(Layer::Done),
        }
    }

    fn tcp(&mut self, rest: &[u8], at: usize) -> Result<Layer, Malformed> {
        if rest.len() >= 4 {
            self.headers.flags |= HeaderFlags::TCP;
        }
        if let Some(&flags) = rest.get(13) {
            self.headers.tcp_flags = flags;
        }
        let Some(head) = rest.first_chunk::<20>() else {
            return self.fault(Malformed::TcpTruncated);
        };
        let length = usize::from(head[12] >> 4) * 4;
        if length < 20 {
            return self.fault(Malformed::TcpBadOffset);
        }
        if length > rest.len() {
            // Options may be in the next fragment or beyond the snap length.
            let elsewhere = HeaderFlags::CUT | HeaderFlags::FRAGMENT;
            return self.fault(if self.headers.flags.intersects(elsewhere) {
                Malformed::TcpTruncated
            } else {
                Malformed::TcpBadOffset
            });
        }
        self.payload_at(at + length)
    }

    fn udp(&mut self, rest: &[u8], at: usize) -> Result<Layer, Malformed> {
        if rest.len() >= 4 {
            self.headers.flags |= HeaderFlags::UDP;
        }
        let Some(head) = rest.first_chunk::<8>() else {
            return self.fault(Malformed::UdpTruncated);
        };
        self.payload_at(at + 8)?;
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        // Zero stands for "to the end" in jumbograms (RFC 2675 section 4) and offloaded packets.
        let unknown = length == 0
            && (self.headers.flags.contains(HeaderFlags::NO_LENGTH) || rest.len() > 0xffff);
        let elsewhere = HeaderFlags::CUT | HeaderFlags::FRAGMENT | HeaderFlags::NO_LENGTH;
        let beyond = length > rest.len() && !self.headers.flags.intersects(elsewhere);
        if (length < 8 && !unknown) || beyond {
            return self.fault(Malformed::UdpBadLength);
        }
        if self.may_open() {
            return self.open_udp(u16::from_be_bytes([head[2], head[3]]), at + 8);
        }
        Ok(Layer::Done)
    }

    fn payload_at(&mut self, at: usize) -> Result<Layer, Malformed> {
        self.headers.payload = offset(at)?;
        Ok(Layer::Done)
    }

    /// True if a tunnel may be opened here.
    fn may_open(&self) -> bool {
        self.inner && !self.headers.is_fragment() && self.headers.tunnels < MAX_TUNNELS
    }

    /// Starts the packet inside a tunnel; `key` is the VNI or key, 0 where the tunnel has none.
    pub(crate) fn open(&mut self, key: u32, inside: Layer) -> Result<Layer, Malformed> {
        let outer = self.headers;
        self.outside = Some(outer);
        let keep = HeaderFlags::CUT | HeaderFlags::TUNNEL | HeaderFlags::DAMAGED;
        self.headers = Headers {
            zone: 1 << 31 | key,
            flags: HeaderFlags::from_bits(outer.flags.bits() & keep.bits()) | HeaderFlags::TUNNEL,
            l3: 0,
            l4: 0,
            payload: 0,
            ethertype: 0,
            proto: 0,
            tcp_flags: 0,
            tunnels: outer.tunnels + 1,
            ..outer
        };
        match inside {
            Layer::Ipv4(at) => self.network(ethertype::IPV4, at),
            Layer::Ipv6(at) => self.network(ethertype::IPV6, at),
            other => Ok(other),
        }
    }
}

/// The length in a jumbo payload option (RFC 2675) of the hop-by-hop header at `at`.
fn jumbo(bytes: &[u8], at: usize) -> Option<usize> {
    let size = (usize::from(be8(bytes, at + 1)?) + 1) * 8;
    let options = bytes.get(at + 2..(at + size).min(bytes.len()))?;
    let mut here = 0;
    while let Some(&kind) = options.get(here) {
        if kind == 0 {
            here += 1;
            continue;
        }
        let length = *options.get(here + 1)?;
        if kind == 0xc2 && length == 4 {
            return be32(options, here + 2).map(|n| n as usize);
        }
        here += 2 + usize::from(length);
    }
    None
}

/// An offset as [`Headers`] keeps it.
pub(crate) fn offset(at: usize) -> Result<u16, Malformed> {
    u16::try_from(at).map_err(|_| Malformed::HeadersTooLong)
}
