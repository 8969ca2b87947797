//! The headers of link layers other than Ethernet: where they lead.

use crate::link::LinkType;
use crate::malformed::Malformed;
use crate::protocol::{ethertype, ppp};
use crate::read::{be8, be16, be32, chunk};
use crate::walk::{Layer, Walk};

impl Walk<'_> {
    /// Reads what the frame starts with.
    pub(crate) fn link(&mut self) -> Result<Layer, Malformed> {
        let bytes = self.bytes;
        let truncated = Malformed::LinkTruncated;
        Ok(match self.headers.link {
            LinkType::Ethernet => Layer::Ethernet(0),
            LinkType::RawIp => Layer::Ip(0),
            LinkType::LinuxSll => cooked(be16(bytes, 14).ok_or(truncated)?, 16),
            LinkType::LinuxSll2 => {
                let kind = be16(bytes, 0).ok_or(truncated)?;
                chunk::<20>(bytes, 0).ok_or(truncated)?;
                cooked(kind, 20)
            }
            LinkType::Null | LinkType::Loop => {
                // AF_INET is 2 everywhere; AF_INET6 is 10 (Linux), 23 (Windows), 24 (NetBSD,
                // OpenBSD), 28 (FreeBSD) or 30 (Darwin). A family fits in one octet, so both byte
                // orders can be accepted. Some systems write an EtherType, some PPP's header.
                let family = be32(bytes, 0).ok_or(truncated)?;
                if family == 0xff03_0000 | u32::from(ppp::IPV4) {
                    return Ok(Layer::Ppp(0));
                }
                let version = be8(bytes, 4).map(|octet| octet >> 4);
                match family.min(family.swap_bytes()) {
                    2 => self.network(ethertype::IPV4, 4)?,
                    10 | 24 | 28 | 30 => self.network(ethertype::IPV6, 4)?,
                    // 23 is IPX on BSD.
                    23 if version == Some(6) => self.network(ethertype::IPV6, 4)?,
                    kind if kind > 1_500 && kind <= u32::from(u16::MAX) => {
                        Layer::EtherType(kind as u16, 4)
                    }
                    _ => Layer::Done,
                }
            }
            LinkType::Ppp => Layer::Ppp(0),
            LinkType::PppHdlc => match be8(bytes, 0).ok_or(truncated)? {
                0x0f | 0x8f => Layer::EtherType(be16(bytes, 2).ok_or(truncated)?, 4),
                _ => Layer::Ppp(0),
            },
            LinkType::CiscoHdlc => Layer::EtherType(be16(bytes, 2).ok_or(truncated)?, 4),
            LinkType::FrameRelay => self.frame_relay()?,
            LinkType::Nflog => self.nflog()?,
            LinkType::Opaque => Layer::Done,
        })
    }

    /// RFC 2427: Q.922 address, control, then a network-layer identifier.
    fn frame_relay(&mut self) -> Result<Layer, Malformed> {
        let truncated = Malformed::LinkTruncated;
        let mut at = 0;
        // The lowest bit is set in the last octet of the address (2 to 4 octets).
        while at < 4 && be8(self.bytes, at).ok_or(truncated)? & 1 == 0 {
            at += 1;
        }
        at += 1;
        if be8(self.bytes, at).ok_or(truncated)? != 0x03 {
            // Cisco's encapsulation: an EtherType right after the address.
            return Ok(Layer::EtherType(
                be16(self.bytes, at).ok_or(truncated)?,
                at + 2,
            ));
        }
        at += 1;
        if be8(self.bytes, at).ok_or(truncated)? == 0 {
            at += 1; // a pad octet aligns what follows
        }
        Ok(match be8(self.bytes, at).ok_or(truncated)? {
            0xcc => self.network(ethertype::IPV4, at + 1)?,
            0x8e => self.network(ethertype::IPV6, at + 1)?,
            0x80 => {
                let kind = be16(self.bytes, at + 4).ok_or(truncated)?;
                Layer::EtherType(kind, at + 6)
            }
            _ => Layer::Done,
        })
    }

    /// Netfilter log: family, version, resource id, then attributes in host byte order.
    fn nflog(&mut self) -> Result<Layer, Malformed> {
        const PAYLOAD: u16 = 9;
        let truncated = Malformed::LinkTruncated;
        let family = be8(self.bytes, 0).ok_or(truncated)?;
        let mut at = 4;
        // Each step moves on by at least four octets.
        while let Some(&[l0, l1, t0, t1]) = chunk::<4>(self.bytes, at) {
            // The files do not say which byte order; captures from big-endian hosts are rare.
            let length = usize::from(u16::from_le_bytes([l0, l1]));
            if length < 4 {
                return Err(truncated);
            }
            if u16::from_le_bytes([t0, t1]) & 0x7fff == PAYLOAD {
                return match family {
                    2 => self.network(ethertype::IPV4, at + 4),
                    10 => self.network(ethertype::IPV6, at + 4),
                    _ => Ok(Layer::Done),
                };
            }
            at += length.next_multiple_of(4);
        }
        Ok(Layer::Done)
    }
}

/// Layer that a Linux cooked header's protocol leads to.
fn cooked(kind: u16, at: usize) -> Layer {
    match kind {
        0x0004 => Layer::Llc(at),
        // Below the EtherTypes the field has Linux' own meanings (802.3 without LLC, CAN, ...).
        _ if kind < ethertype::FIRST => Layer::Done,
        _ => Layer::EtherType(kind, at),
    }
}
