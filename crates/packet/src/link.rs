//! Link types: the header at the start of a frame, as capture formats number it.

/// The layer at which a frame starts.
///
/// Numbers on the outside are DLT/LINKTYPE values (tcpdump.org/linktypes.html);
/// the kinds that differ only in number are one variant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum LinkType {
    /// Ethernet II or 802.3, without preamble and FCS.
    #[default]
    Ethernet = 0,
    /// An IPv4 or IPv6 packet; the version field says which.
    RawIp,
    /// Linux cooked capture, version 1 (16-byte header).
    LinuxSll,
    /// Linux cooked capture, version 2 (20-byte header).
    LinuxSll2,
    /// BSD loopback: a 32-bit address family in the byte order of the host that captured.
    Null,
    /// OpenBSD loopback: the same in network byte order.
    Loop,
    /// PPP, with or without the address and control octets FF 03.
    Ppp,
    /// PPP in HDLC-like framing, or Cisco HDLC, told apart by the first octet.
    PppHdlc,
    /// Cisco HDLC.
    CiscoHdlc,
    /// Frame relay (RFC 2427).
    FrameRelay,
    /// Linux netfilter log: attributes, one of which is the IP packet.
    Nflog,
    /// Any other kind: packets are counted and have no flow.
    Opaque,
}

impl LinkType {
    /// Every variant, in numeric order.
    pub const ALL: [LinkType; 12] = [
        LinkType::Ethernet,
        LinkType::RawIp,
        LinkType::LinuxSll,
        LinkType::LinuxSll2,
        LinkType::Null,
        LinkType::Loop,
        LinkType::Ppp,
        LinkType::PppHdlc,
        LinkType::CiscoHdlc,
        LinkType::FrameRelay,
        LinkType::Nflog,
        LinkType::Opaque,
    ];

    /// The link type of a capture file's number; [`LinkType::Opaque`] where it is not known.
    pub const fn from_dlt(dlt: u32) -> LinkType {
        match dlt {
            1 => LinkType::Ethernet,
            // 12 and 14 are what the BSDs write for raw IP; 228 and 229 are IPv4 and IPv6 only.
            12 | 14 | 101 | 228 | 229 => LinkType::RawIp,
            113 => LinkType::LinuxSll,
            276 => LinkType::LinuxSll2,
            0 => LinkType::Null,
            108 => LinkType::Loop,
            9 => LinkType::Ppp,
            50 => LinkType::PppHdlc,
            104 => LinkType::CiscoHdlc,
            107 => LinkType::FrameRelay,
            239 => LinkType::Nflog,
            _ => LinkType::Opaque,
        }
    }

    /// The number to write into a capture file; `None` for [`LinkType::Opaque`].
    pub const fn to_dlt(self) -> Option<u32> {
        Some(match self {
            LinkType::Ethernet => 1,
            LinkType::RawIp => 101,
            LinkType::LinuxSll => 113,
            LinkType::LinuxSll2 => 276,
            LinkType::Null => 0,
            LinkType::Loop => 108,
            LinkType::Ppp => 9,
            LinkType::PppHdlc => 50,
            LinkType::CiscoHdlc => 104,
            LinkType::FrameRelay => 107,
            LinkType::Nflog => 239,
            LinkType::Opaque => return None,
        })
    }

    /// The variant with this discriminant; [`LinkType::Opaque`] where there is none.
    pub const fn from_u8(value: u8) -> LinkType {
        if (value as usize) < Self::ALL.len() {
            Self::ALL[value as usize]
        } else {
            LinkType::Opaque
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip() {
        for (number, link) in LinkType::ALL.into_iter().enumerate() {
            assert_eq!(link as usize, number);
            assert_eq!(LinkType::from_u8(number as u8), link);
            match link.to_dlt() {
                Some(dlt) => assert_eq!(LinkType::from_dlt(dlt), link),
                None => assert_eq!(link, LinkType::Opaque),
            }
        }
        assert_eq!(LinkType::from_u8(200), LinkType::Opaque);
        assert_eq!(LinkType::from_dlt(127), LinkType::Opaque);
    }
}
