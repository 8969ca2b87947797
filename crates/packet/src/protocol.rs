//! Numbers that name what follows a header: EtherTypes, IP protocols, PPP
//! protocols and the UDP ports of tunnels.

/// EtherTypes (IEEE 802 Numbers, IANA).
pub mod ethertype {
    /// IPv4 (RFC 894).
    pub const IPV4: u16 = 0x0800;
    /// ARP (RFC 826).
    pub const ARP: u16 = 0x0806;
    /// IPv6 (RFC 2464).
    pub const IPV6: u16 = 0x86dd;
    /// 802.1Q customer tag.
    pub const VLAN: u16 = 0x8100;
    /// 802.1ad service tag.
    pub const QINQ: u16 = 0x88a8;
    /// Service tag as used before 802.1ad.
    pub const QINQ_OLD: u16 = 0x9100;
    /// MPLS, unicast (RFC 5332).
    pub const MPLS: u16 = 0x8847;
    /// MPLS, upstream-assigned label (RFC 5332).
    pub const MPLS_UPSTREAM: u16 = 0x8848;
    /// PPPoE session (RFC 2516).
    pub const PPPOE_SESSION: u16 = 0x8864;
    /// PPP in GRE (RFC 2637).
    pub const PPP: u16 = 0x880b;
    /// Transparent Ethernet bridging: a whole Ethernet frame (RFC 1701).
    pub const ETHERNET: u16 = 0x6558;
    /// Backbone service instance tag (802.1ah): a whole frame in a frame.
    pub const PBB: u16 = 0x88e7;
    /// VN-Tag of a port extender (proposed as 802.1Qbh; Cisco).
    pub const VN_TAG: u16 = 0x8926;
    /// Aruba's tunnels of access points in GRE: 802.11 frames (first and last).
    pub const ARUBA: (u16, u16) = (0x8200, 0x8370);
    /// Cisco FabricPath.
    pub const FABRICPATH: u16 = 0x8903;
    /// ERSPAN types I and II in GRE.
    pub const ERSPAN: u16 = 0x88be;
    /// ERSPAN type III in GRE.
    pub const ERSPAN_III: u16 = 0x22eb;
    /// Ethernet over IP in GRE version 1 (MikroTik).
    pub const EOIP: u16 = 0x6400;
    /// Network service header (RFC 8300).
    pub const NSH: u16 = 0x894f;
    /// Local experimental EtherType 1 (IEEE 802): weir's actor messages.
    pub const ACTOR: u16 = 0x88b5;
    /// Local experimental EtherType 2: control frames of weir's links.
    pub const LINK: u16 = 0x88b6;
    /// Below this value the field is an 802.3 length.
    pub const FIRST: u16 = 0x0600;

    /// True if `value` announces a VLAN tag.
    #[inline]
    pub const fn is_vlan(value: u16) -> bool {
        matches!(value, VLAN | QINQ | QINQ_OLD)
    }
}

/// IP protocol numbers and IPv6 next headers (IANA Protocol Numbers).
pub mod ip {
    /// IPv6 hop-by-hop options (RFC 8200 section 4.3).
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP (RFC 792).
    pub const ICMP: u8 = 1;
    /// IGMP (RFC 3376).
    pub const IGMP: u8 = 2;
    /// IPv4 in IP (RFC 2003).
    pub const IPV4: u8 = 4;
    /// TCP (RFC 9293).
    pub const TCP: u8 = 6;
    /// UDP (RFC 768).
    pub const UDP: u8 = 17;
    /// IPv6 in IP (RFC 4213).
    pub const IPV6: u8 = 41;
    /// IPv6 routing header (RFC 8200 section 4.4).
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header (RFC 8200 section 4.5).
    pub const FRAGMENT: u8 = 44;
    /// GRE (RFC 2784).
    pub const GRE: u8 = 47;
    /// IPsec ESP (RFC 4303).
    pub const ESP: u8 = 50;
    /// IPsec authentication header (RFC 4302).
    pub const AH: u8 = 51;
    /// ICMPv6 (RFC 4443).
    pub const ICMPV6: u8 = 58;
    /// IPv6 no next header (RFC 8200 section 4.7).
    pub const NONE: u8 = 59;
    /// IPv6 destination options (RFC 8200 section 4.6).
    pub const DESTINATION: u8 = 60;
    /// SCTP (RFC 9260).
    pub const SCTP: u8 = 132;
    /// MPLS in IP (RFC 4023).
    pub const MPLS: u8 = 137;

    /// True if `value` is an IPv6 extension header that has another header after it.
    #[inline]
    pub const fn is_extension(value: u8) -> bool {
        matches!(value, HOP_BY_HOP | ROUTING | FRAGMENT | AH | DESTINATION)
    }

    /// Those that have a word in chain files and in filters.
    pub const NAMES: [(&str, u8); 9] = [
        ("tcp", TCP),
        ("udp", UDP),
        ("icmp", ICMP),
        ("icmpv6", ICMPV6),
        ("sctp", SCTP),
        ("gre", GRE),
        ("esp", ESP),
        ("ah", AH),
        ("igmp", IGMP),
    ];
}

/// PPP protocol numbers (RFC 1661, IANA).
pub mod ppp {
    /// IPv4 (RFC 1332).
    pub const IPV4: u16 = 0x0021;
    /// IPv6 (RFC 5072).
    pub const IPV6: u16 = 0x0057;
    /// MPLS, unicast (RFC 3032).
    pub const MPLS: u16 = 0x0281;
}

/// UDP ports on which a tunnel listens.
pub mod port {
    /// VXLAN (RFC 7348).
    pub const VXLAN: u16 = 4789;
    /// VXLAN on the port that Linux had before it was assigned one.
    pub const VXLAN_OLD: u16 = 8472;
    /// GENEVE (RFC 8926).
    pub const GENEVE: u16 = 6081;
    /// GRE in UDP (RFC 8086).
    pub const GRE: u16 = 4754;
    /// Packets of GTP's users (3GPP TS 29.281).
    pub const GTP_U: u16 = 2152;

    /// True if a datagram to this port may hold another packet.
    #[inline]
    pub const fn is_tunnel(port: u16) -> bool {
        matches!(port, VXLAN | VXLAN_OLD | GENEVE | GRE | GTP_U)
    }
}
