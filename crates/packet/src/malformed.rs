//! Why a packet could not be read: one reason per way in which a header is wrong.

use weir_telemetry::{Label, labels};

labels! {
    /// Why a packet could not be read.
    ///
    /// `as usize` gives an index below [`Malformed::COUNT`], for arrays of counters.
    #[repr(u8)]
    pub enum Malformed: Counter<Packets> {
        /// The frame ends inside the link layer's header (Ethernet: 14 octets).
        EthernetTruncated = "ethernet_truncated",
        /// The frame ends inside an 802.2 LLC or SNAP header.
        LlcTruncated = "llc_truncated",
        /// The frame ends inside a link header other than Ethernet's.
        LinkTruncated = "link_truncated",
        /// The frame ends inside an 802.1Q tag.
        VlanTruncated = "vlan_truncated",
        /// The frame ends inside an MPLS label stack.
        MplsTruncated = "mpls_truncated",
        /// The frame ends inside a PPPoE header.
        PppoeTruncated = "pppoe_truncated",
        /// PPPoE's version or type is not 1 (RFC 2516 section 4).
        PppoeBadVersion = "pppoe_bad_version",
        /// The frame ends inside a PPP header.
        PppTruncated = "ppp_truncated",
        /// The frame ends inside a network service header, or the header is too short for its kind.
        NshTruncated = "nsh_truncated",
        /// The version of a network service header is not 0 (RFC 8300 section 2.2).
        NshBadVersion = "nsh_bad_version",
        /// A data frame between hosts ends inside weir's own header, or its packet is not of the
        /// length that the header declares.
        WeirTruncated = "weir_truncated",
        /// A version of weir's own header that is not known.
        WeirBadVersion = "weir_bad_version",
        /// A field of weir's own header has a value that it can't have.
        WeirBadValue = "weir_bad_value",
        /// The frame ends inside the header of an actor frame, or is not of the length that the
        /// header declares.
        ActorTruncated = "actor_truncated",
        /// A version of actor frames that is not known.
        ActorBadVersion = "actor_bad_version",
        /// The frame ends inside an ARP packet.
        ArpTruncated = "arp_truncated",
        /// More headers, tags or tunnels inside one another than weir follows.
        TooManyLayers = "too_many_layers",
        /// The first header after the link header lies more than 65,535 octets into the frame.
        HeadersTooLong = "headers_too_long",
        /// An IP packet was announced and its version is neither 4 nor 6.
        IpBadVersion = "ip_bad_version",
        /// The packet ends inside the IPv4 header.
        Ipv4Truncated = "ipv4_truncated",
        /// IPv4 was announced and the version field says otherwise.
        Ipv4BadVersion = "ipv4_bad_version",
        /// IPv4's header length is below 20 octets.
        Ipv4BadHeaderLength = "ipv4_bad_header_length",
        /// IPv4's total length is shorter than its header (zero is allowed: offload).
        Ipv4BadTotalLength = "ipv4_bad_total_length",
        /// An IPv4 option runs over the end of the header.
        Ipv4BadOption = "ipv4_bad_option",
        /// The packet ends inside the IPv6 header.
        Ipv6Truncated = "ipv6_truncated",
        /// IPv6 was announced and the version field says otherwise.
        Ipv6BadVersion = "ipv6_bad_version",
        /// The packet ends inside an IPv6 extension header.
        Ipv6BadExtension = "ipv6_bad_extension",
        /// More IPv6 extension headers than weir follows.
        Ipv6TooManyExtensions = "ipv6_too_many_extensions",
        /// The packet ends inside the TCP header.
        TcpTruncated = "tcp_truncated",
        /// TCP's data offset is below 20 octets or beyond the segment.
        TcpBadOffset = "tcp_bad_offset",
        /// A TCP option runs over the end of the header.
        TcpBadOption = "tcp_bad_option",
        /// The packet ends inside the UDP header.
        UdpTruncated = "udp_truncated",
        /// UDP's length is below 8 octets or beyond the IP packet.
        UdpBadLength = "udp_bad_length",
        /// The packet ends inside the SCTP common header.
        SctpTruncated = "sctp_truncated",
        /// An SCTP chunk's length is below 4 octets or beyond the packet.
        SctpBadChunk = "sctp_bad_chunk",
        /// The packet ends inside the ICMP header.
        IcmpTruncated = "icmp_truncated",
        /// The packet ends inside the ICMPv6 header.
        Icmpv6Truncated = "icmpv6_truncated",
        /// The packet ends inside the VXLAN header.
        VxlanTruncated = "vxlan_truncated",
        /// The packet ends inside the GENEVE header or its options.
        GeneveTruncated = "geneve_truncated",
        /// GENEVE's version is not 0.
        GeneveBadVersion = "geneve_bad_version",
        /// The packet ends inside the GRE header.
        GreTruncated = "gre_truncated",
        /// GRE's version is neither 0 nor 1.
        GreBadVersion = "gre_bad_version",
        /// A format's own field says that it is of another kind than the view that reads it
        /// (ARP for other hardware than Ethernet, say).
        WrongKind = "wrong_kind",
    }
}

impl Malformed {
    /// How many reasons there are.
    pub const COUNT: usize = <Malformed as Label>::ALL.len();

    /// Every reason, in the order of their indices.
    pub const ALL: &'static [Malformed] = <Malformed as Label>::ALL;

    /// The name under which packets with this fault are counted, in snake case.
    pub const fn reason(self) -> &'static str {
        self.name()
    }

    /// The reason with this index.
    pub const fn from_index(index: usize) -> Option<Malformed> {
        if index < Self::COUNT {
            Some(Self::ALL[index])
        } else {
            None
        }
    }
}

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.reason())
    }
}

impl core::error::Error for Malformed {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_those_of_the_table() {
        for (index, &reason) in Malformed::ALL.iter().enumerate() {
            assert_eq!(reason as usize, index);
            assert_eq!(Malformed::from_index(index), Some(reason));
        }
        assert_eq!(Malformed::from_index(Malformed::COUNT), None);
    }
}
