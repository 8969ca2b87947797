//! Opening tunnels: what lies behind GRE, VXLAN, GENEVE, GTP and IP in IP.

use crate::malformed::Malformed;
use crate::protocol::{ethertype, ip, port};
use crate::read::{be8, be16, be32, chunk};
use crate::walk::{Layer, Walk};

// Flags of GRE.
const CHECKSUM: u16 = 0x8000;
const ROUTING: u16 = 0x4000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
const ACKNOWLEDGEMENT: u16 = 0x0080;

impl Walk<'_> {
    /// Opens an IP protocol that carries another packet.
    pub(crate) fn open_ip(&mut self, at: usize) -> Result<Layer, Malformed> {
        match self.headers.proto {
            ip::IPV4 => self.open(0, Layer::Ipv4(at)),
            ip::IPV6 => self.open(0, Layer::Ipv6(at)),
            ip::MPLS => self.open(0, Layer::Mpls(at)),
            _ => self.gre(at),
        }
    }

    /// Opens a UDP datagram, where its destination port names a tunnel.
    pub(crate) fn open_udp(&mut self, destination: u16, at: usize) -> Result<Layer, Malformed> {
        let bytes = self.visible();
        match destination {
            port::VXLAN | port::VXLAN_OLD => {
                // RFC 7348 section 5. Without the I flag this is something else on the port.
                let head = match chunk::<8>(bytes, at) {
                    Some(head) => head,
                    None => return self.fault(Malformed::VxlanTruncated),
                };
                if head[0] & 0x08 == 0 {
                    return Ok(Layer::Done);
                }
                let vni = u32::from_be_bytes([0, head[4], head[5], head[6]]);
                self.open(vni, Layer::Ethernet(at + 8))
            }
            port::GENEVE => {
                // RFC 8926 section 3.4.
                let head = match chunk::<8>(bytes, at) {
                    Some(head) => head,
                    None => return self.fault(Malformed::GeneveTruncated),
                };
                if head[0] >> 6 != 0 {
                    return self.fault(Malformed::GeneveBadVersion);
                }
                let inside = at + 8 + usize::from(head[0] & 0x3f) * 4;
                if inside > bytes.len() {
                    return self.fault(Malformed::GeneveTruncated);
                }
                let kind = u16::from_be_bytes([head[2], head[3]]);
                let vni = u32::from_be_bytes([0, head[4], head[5], head[6]]);
                self.open(vni, Layer::EtherType(kind, inside))
            }
            port::GRE => self.gre(at),
            port::GTP_U => self.gtp(at),
            _ => Ok(Layer::Done),
        }
    }

    /// GTP-U (3GPP TS 29.281 section 5.1). Messages that carry no user's packet have no flow of their own.
    fn gtp(&mut self, at: usize) -> Result<Layer, Malformed> {
        const VERSION_1: u8 = 0b0011_0000;
        const OPTIONS: u8 = 0b0000_0111;
        const USER_PACKET: u8 = 255;

        let bytes = self.visible();
        let head = match chunk::<8>(bytes, at) {
            Some(head) if head[0] & 0xf0 == VERSION_1 && head[1] == USER_PACKET => head,
            _ => return Ok(Layer::Done),
        };
        let mut inside = at + 8;
        if head[0] & OPTIONS != 0 {
            let mut next = be8(bytes, inside + 3);
            inside += 4;
            // Each extension says its length, in units of four octets, and ends with the next
            // one's type.
            while next.is_some_and(|kind| kind != 0) {
                let length = usize::from(be8(bytes, inside).unwrap_or(0)) * 4;
                if length == 0 {
                    return Ok(Layer::Done);
                }
                inside += length;
                next = be8(bytes, inside - 1);
            }
            if next.is_none() {
                return Ok(Layer::Done);
            }
        }
        let end = at + 8 + usize::from(u16::from_be_bytes([head[2], head[3]]));
        // Without the tunnel's number: each direction has one of its own.
        match user_packet(bytes, inside, end) {
            Some(layer) => self.open(0, layer),
            None => Ok(Layer::Done),
        }
    }

    /// Aruba's GRE: an 802.11 frame without its check sequence (IEEE 802.11-2020 section 9.3.2).
    /// Encrypted frames, and frames that carry no data, have no flow.
    fn wireless(&mut self, key: u32, at: usize) -> Result<Layer, Malformed> {
        const KIND: u8 = 0b0000_1111;
        const DATA: u8 = 0b0000_1000;
        const NO_DATA: u8 = 0b0100_0000;
        const QOS: u8 = 0b1000_0000;
        const BETWEEN_STATIONS: u8 = 0b11;
        const PROTECTED: u8 = 0b0100_0000;
        const ORDERED: u8 = 0b1000_0000;
        const AGGREGATE: u8 = 0b1000_0000;

        let bytes = self.visible();
        let Some([control, flags]) = chunk::<2>(bytes, at).copied() else {
            return self.fault(Malformed::GreTruncated);
        };
        if control & KIND != DATA || control & NO_DATA != 0 || flags & PROTECTED != 0 {
            return Ok(Layer::Done);
        }
        let mut inside = at + 24;
        if flags & BETWEEN_STATIONS == BETWEEN_STATIONS {
            inside += 6;
        }
        if control & QOS != 0 {
            if be8(bytes, inside).is_none_or(|qos| qos & AGGREGATE != 0) {
                return Ok(Layer::Done);
            }
            inside += 2;
            if flags & ORDERED != 0 {
                inside += 4;
            }
        }
        match chunk::<8>(bytes, inside) {
            Some(&[0xaa, 0xaa, 3, _, _, _, k0, k1]) => self.open(
                key,
                Layer::EtherType(u16::from_be_bytes([k0, k1]), inside + 8),
            ),
            _ => Ok(Layer::Done),
        }
    }

    /// GRE (RFC 2784, 2890), version 1 for PPTP (RFC 2637).
    fn gre(&mut self, at: usize) -> Result<Layer, Malformed> {
        let bytes = self.visible();
        let Some(start) = be32(bytes, at) else {
            return self.fault(Malformed::GreTruncated);
        };
        let (flags, kind) = ((start >> 16) as u16, start as u16);
        let mut inside = at + 4;
        match flags & 7 {
            0 => {
                if flags & ROUTING != 0 {
                    return Ok(Layer::Done); // source routes: obsolete since RFC 2784
                }
                if flags & CHECKSUM != 0 {
                    inside += 4;
                }
                let mut key = 0;
                if flags & KEY != 0 {
                    let Some(found) = be32(bytes, inside) else {
                        return self.fault(Malformed::GreTruncated);
                    };
                    key = found & 0x7fff_ffff;
                    inside += 4;
                }
                if flags & SEQUENCE != 0 {
                    inside += 4;
                }
                if inside > bytes.len() {
                    return self.fault(Malformed::GreTruncated);
                }
                match kind {
                    // Type I has no header of its own, type II is announced by a sequence number.
                    ethertype::ERSPAN if flags & SEQUENCE == 0 => {
                        self.open(key, Layer::Ethernet(inside))
                    }
                    ethertype::ERSPAN => self.open(key, Layer::Ethernet(inside + 8)),
                    ethertype::ERSPAN_III => {
                        let Some(head) = chunk::<12>(bytes, inside) else {
                            return self.fault(Malformed::GreTruncated);
                        };
                        let more = if head[11] & 1 != 0 { 8 } else { 0 };
                        self.open(key, Layer::Ethernet(inside + 12 + more))
                    }
                    _ if (ethertype::ARUBA.0..=ethertype::ARUBA.1).contains(&kind) => {
                        self.wireless(key, inside)
                    }
                    0 => Ok(Layer::Done), // keepalive
                    _ => self.open(key, Layer::EtherType(kind, inside)),
                }
            }
            1 => self.gre_version_1(at, flags, kind),
            _ => self.fault(Malformed::GreBadVersion),
        }
    }

    fn gre_version_1(&mut self, at: usize, flags: u16, kind: u16) -> Result<Layer, Malformed> {
        let bytes = self.visible();
        let Some(tunnel) = be16(bytes, at + 6) else {
            return self.fault(Malformed::GreTruncated);
        };
        let mut inside = at + 8;
        if kind == ethertype::EOIP {
            return self.open(u32::from(tunnel), Layer::Ethernet(inside));
        }
        if kind != ethertype::PPP || flags & SEQUENCE == 0 {
            return Ok(Layer::Done); // an acknowledgement alone
        }
        inside += 4;
        if flags & ACKNOWLEDGEMENT != 0 {
            inside += 4;
        }
        if inside > bytes.len() {
            return self.fault(Malformed::GreTruncated);
        }
        // No key: each direction of a PPTP call has a call id of its own.
        self.open(0, Layer::Ppp(inside))
    }
}

/// Payload of a GTP-U packet from `at` to `end`: IP or Ethernet. Only the session tells which
/// (3GPP TS 23.501 section 5.6.10); so a payload with IP's version and its length counts as IP,
/// another one with the type of an Ethernet frame as Ethernet.
fn user_packet(bytes: &[u8], at: usize, end: usize) -> Option<Layer> {
    let version = |at| be8(bytes, at).map(|octet| octet >> 4);
    let length = match version(at)? {
        4 => be16(bytes, at + 2).map(usize::from),
        6 => be16(bytes, at + 4).map(|length| usize::from(length) + 40),
        _ => None,
    };
    let is_frame = match be16(bytes, at + 12).unwrap_or(0) {
        ethertype::IPV4 => version(at + 14) == Some(4),
        ethertype::IPV6 => version(at + 14) == Some(6),
        kind => kind == ethertype::ARP || ethertype::is_vlan(kind),
    };
    if is_frame && length.is_none_or(|length| at + length != end) {
        return Some(Layer::Ethernet(at));
    }
    matches!(version(at)?, 4 | 6).then_some(Layer::Ip(at))
}
