//! Offsets of a packet's headers: the result of one parse.

use crate::link::LinkType;
use crate::malformed::Malformed;

/// A set of facts about a packet's headers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct HeaderFlags(u16);

impl HeaderFlags {
    /// No fact.
    pub const EMPTY: HeaderFlags = HeaderFlags(0);
    /// `l3` is a checked IPv4 header.
    pub const IPV4: HeaderFlags = HeaderFlags(1 << 0);
    /// `l3` is a checked IPv6 header.
    pub const IPV6: HeaderFlags = HeaderFlags(1 << 1);
    /// `l3` is an ARP packet.
    pub const ARP: HeaderFlags = HeaderFlags(1 << 2);
    /// `l4` is a TCP header.
    pub const TCP: HeaderFlags = HeaderFlags(1 << 3);
    /// `l4` is a UDP header.
    pub const UDP: HeaderFlags = HeaderFlags(1 << 4);
    /// `l4` is an SCTP common header.
    pub const SCTP: HeaderFlags = HeaderFlags(1 << 5);
    /// `l4` is an ICMP header (over IPv4).
    pub const ICMP: HeaderFlags = HeaderFlags(1 << 6);
    /// `l4` is an ICMPv6 header (over IPv6).
    pub const ICMPV6: HeaderFlags = HeaderFlags(1 << 7);
    /// The ICMP message is an error, which quotes the packet that it is about.
    pub const ICMP_ERROR: HeaderFlags = HeaderFlags(1 << 8);
    /// A part of a fragmented datagram (more fragments, or an offset).
    pub const FRAGMENT: HeaderFlags = HeaderFlags(1 << 9);
    /// A fragment with an offset: `l4` and `payload` are where its data starts.
    pub const LATER_FRAGMENT: HeaderFlags = HeaderFlags(1 << 10);
    /// The frame holds less than the IP header declares (a snapped capture).
    pub const CUT: HeaderFlags = HeaderFlags(1 << 11);
    /// At least one tunnel was opened: `l3`, `l4` and `payload` are the inner packet's.
    pub const TUNNEL: HeaderFlags = HeaderFlags(1 << 12);
    /// IPv4 options or IPv6 extension headers are present.
    pub const OPTIONS: HeaderFlags = HeaderFlags(1 << 13);
    /// A lenient parse passed over a fault; [`Headers::damage`] names it.
    pub const DAMAGED: HeaderFlags = HeaderFlags(1 << 14);
    /// The IP header declares no length (segmentation offload): the captured length counts.
    pub const NO_LENGTH: HeaderFlags = HeaderFlags(1 << 15);

    /// The set as a number.
    #[inline]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The set with this number.
    #[inline]
    pub const fn from_bits(bits: u16) -> HeaderFlags {
        HeaderFlags(bits)
    }

    /// True if all facts of `other` hold.
    #[inline]
    pub const fn contains(self, other: HeaderFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if any fact of `other` holds.
    #[inline]
    pub const fn intersects(self, other: HeaderFlags) -> bool {
        self.0 & other.0 != 0
    }

    /// Both sets together.
    #[inline]
    pub const fn union(self, other: HeaderFlags) -> HeaderFlags {
        HeaderFlags(self.0 | other.0)
    }

    /// This set without `other`.
    #[inline]
    pub const fn without(self, other: HeaderFlags) -> HeaderFlags {
        HeaderFlags(self.0 & !other.0)
    }
}

impl core::ops::BitOr for HeaderFlags {
    type Output = HeaderFlags;
    #[inline]
    fn bitor(self, other: HeaderFlags) -> HeaderFlags {
        self.union(other)
    }
}

impl core::ops::BitOrAssign for HeaderFlags {
    #[inline]
    fn bitor_assign(&mut self, other: HeaderFlags) {
        self.0 |= other.0;
    }
}

impl core::fmt::Debug for HeaderFlags {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        const NAMES: [&str; 16] = [
            "IPV4",
            "IPV6",
            "ARP",
            "TCP",
            "UDP",
            "SCTP",
            "ICMP",
            "ICMPV6",
            "ICMP_ERROR",
            "FRAGMENT",
            "LATER_FRAGMENT",
            "CUT",
            "TUNNEL",
            "OPTIONS",
            "DAMAGED",
            "NO_LENGTH",
        ];
        let mut names = NAMES
            .iter()
            .enumerate()
            .filter(|(bit, _)| self.0 & (1 << bit) != 0);
        match names.next() {
            None => f.write_str("EMPTY"),
            Some((_, first)) => {
                f.write_str(first)?;
                names.try_for_each(|(_, name)| write!(f, " | {name}"))
            }
        }
    }
}

/// Offsets and kinds of a packet's headers, from one [`parse`](crate::parse::parse).
///
/// Offsets count octets from the first one of the frame. An offset is meaningful only where
/// the flags say that the header is there; it is 0 otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Headers {
    /// End of the IP datagram inside the frame: the smaller of what is captured and what the IP
    /// header declares, so that Ethernet padding and trailers lie after it. The frame's length
    /// for other protocols.
    pub end: u32,
    /// Number that keeps equal addresses apart: the VLAN id (one tag), `outer << 12 | inner` (two
    /// or more), or behind a backbone tag (802.1ah) its service instance with bit 30 set
    /// (customers' VLANs in it are not told apart), or, once a tunnel was opened, the tunnel's VNI
    /// or key with the highest bit set.
    pub zone: u32,
    /// The network-layer header: IPv4, IPv6 or ARP, or whatever `ethertype` names.
    pub l3: u16,
    /// The transport header, or what follows the IP headers.
    pub l4: u16,
    /// The transport payload. Equal to `l4` if the transport is not known.
    pub payload: u16,
    /// The network header of the outermost packet; equal to `l3` unless a tunnel was opened.
    pub outer_l3: u16,
    /// EtherType of what is at `l3`; PPP and other link layers are translated to it. 0 if unknown.
    pub ethertype: u16,
    /// The innermost Ethernet header, where there is one (0 for the frame's own).
    pub l2: u16,
    /// VLAN ids (12 bits) of the first two tags.
    pub vlan: [u16; 2],
    /// Facts about the headers.
    pub flags: HeaderFlags,
    /// The IP protocol of what is at `l4`: for IPv6 the last next-header value. 0 if no IP.
    pub proto: u8,
    /// TCP's flag octet (CWR ECE URG ACK PSH RST SYN FIN); 0 without TCP.
    pub tcp_flags: u8,
    /// VLAN tags seen; may exceed 2.
    pub vlans: u8,
    /// [`Malformed`] index plus one of a fault passed over by a lenient parse; 0 for none.
    pub(crate) damage: u8,
    /// Tunnels opened.
    pub tunnels: u8,
    /// Link type: the header at the start of the frame.
    pub link: LinkType,
}

const _: () = assert!(size_of::<Headers>() == 32);

impl Headers {
    /// True if the (innermost) packet is IPv4.
    #[inline]
    pub const fn is_ipv4(&self) -> bool {
        self.flags.contains(HeaderFlags::IPV4)
    }

    /// True if the (innermost) packet is IPv6.
    #[inline]
    pub const fn is_ipv6(&self) -> bool {
        self.flags.contains(HeaderFlags::IPV6)
    }

    /// True if the packet is IPv4 or IPv6.
    #[inline]
    pub const fn is_ip(&self) -> bool {
        self.flags
            .intersects(HeaderFlags::IPV4.union(HeaderFlags::IPV6))
    }

    /// True if the frame holds an ARP packet.
    #[inline]
    pub const fn is_arp(&self) -> bool {
        self.flags.contains(HeaderFlags::ARP)
    }

    /// True if `l4` is a TCP header.
    #[inline]
    pub const fn is_tcp(&self) -> bool {
        self.flags.contains(HeaderFlags::TCP)
    }

    /// True if `l4` is a UDP header.
    #[inline]
    pub const fn is_udp(&self) -> bool {
        self.flags.contains(HeaderFlags::UDP)
    }

    /// True if `l4` is an SCTP header.
    #[inline]
    pub const fn is_sctp(&self) -> bool {
        self.flags.contains(HeaderFlags::SCTP)
    }

    /// True if `l4` is an ICMP header over IPv4.
    #[inline]
    pub const fn is_icmp(&self) -> bool {
        self.flags.contains(HeaderFlags::ICMP)
    }

    /// True if `l4` is an ICMPv6 header.
    #[inline]
    pub const fn is_icmpv6(&self) -> bool {
        self.flags.contains(HeaderFlags::ICMPV6)
    }

    /// True if `l4` starts with a source and a destination port (TCP, UDP, SCTP).
    #[inline]
    pub const fn has_ports(&self) -> bool {
        self.flags.intersects(
            HeaderFlags::TCP
                .union(HeaderFlags::UDP)
                .union(HeaderFlags::SCTP),
        )
    }

    /// True if the packet is a part of a fragmented datagram.
    #[inline]
    pub const fn is_fragment(&self) -> bool {
        self.flags.contains(HeaderFlags::FRAGMENT)
    }

    /// The id of the outermost VLAN tag, if there is one.
    #[inline]
    pub const fn outer_vlan(&self) -> Option<u16> {
        match self.vlans {
            0 => None,
            _ => Some(self.vlan[0]),
        }
    }

    /// True if the packet is a fragment without the transport header.
    #[inline]
    pub const fn is_later_fragment(&self) -> bool {
        self.flags.contains(HeaderFlags::LATER_FRAGMENT)
    }

    /// True if the capture holds less than the packet declares.
    #[inline]
    pub const fn is_cut(&self) -> bool {
        self.flags.contains(HeaderFlags::CUT)
    }

    /// Octets from the transport header to the end of the datagram, as far as captured.
    #[inline]
    pub const fn l4_len(&self) -> u32 {
        self.end.saturating_sub(self.l4 as u32)
    }

    /// Octets of transport payload, as far as captured. A UDP length that is shorter than the IP
    /// payload is not looked at.
    #[inline]
    pub const fn payload_len(&self) -> u32 {
        self.end.saturating_sub(self.payload as u32)
    }

    /// The transport payload, as far as captured.
    #[inline]
    pub fn payload_of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes
            .get(self.payload as usize..self.end as usize)
            .unwrap_or(&[])
    }

    /// The transport header and its payload, as far as captured.
    #[inline]
    pub fn l4_of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes
            .get(self.l4 as usize..self.end as usize)
            .unwrap_or(&[])
    }

    /// The fault that a lenient parse passed over.
    #[inline]
    pub const fn damage(&self) -> Option<Malformed> {
        match self.damage {
            0 => None,
            n => Malformed::from_index(n as usize - 1),
        }
    }

    /// Source and destination port; `None` where the transport has none.
    #[inline]
    pub fn ports(&self, bytes: &[u8]) -> Option<(u16, u16)> {
        if !self.has_ports() {
            return None;
        }
        let [a, b, c, d] = *crate::read::chunk::<4>(bytes, self.l4 as usize)?;
        Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
    }
}
