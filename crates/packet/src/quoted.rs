//! The packet that an ICMP error is about.

use crate::headers::{HeaderFlags, Headers};
use crate::ipv6::{MAX_EXTENSIONS, extension_len};
use crate::protocol::ip;
use crate::read::{be8, be16, chunk};

/// Offsets of the headers of a quoted packet, from the start of the frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quoted {
    /// True if the quoted packet is IPv6.
    pub ipv6: bool,
    /// Its network header.
    pub l3: usize,
    /// Its transport header, of which eight octets may be all there is (RFC 792).
    pub l4: usize,
    /// Its IP protocol.
    pub proto: u8,
    /// Its source port; for ICMP queries their id; 0 for protocols with neither.
    pub source_port: u16,
    /// Its destination port; for ICMP queries their id; 0 for protocols with neither.
    pub destination_port: u16,
}

impl Quoted {
    /// The packet quoted by the ICMP or ICMPv6 error that `headers` found in `bytes`.
    ///
    /// `None` where the packet is no error, or quotes nothing that has a flow: too little of it
    /// is there, it is a later fragment, or itself an ICMP error.
    pub fn of(bytes: &[u8], headers: &Headers) -> Option<Quoted> {
        if !headers.flags.contains(HeaderFlags::ICMP_ERROR) {
            return None;
        }
        let bytes = bytes.get(..headers.end as usize)?;
        let l3 = usize::from(headers.payload);
        let first = be8(bytes, l3)?;
        let ipv6 = headers.is_ipv6();
        let (proto, l4) = match (first >> 4, ipv6) {
            (4, false) => {
                let head = chunk::<20>(bytes, l3)?;
                let length = usize::from(first & 0xf) * 4;
                if length < 20 || u16::from_be_bytes([head[6], head[7]]) & 0x1fff != 0 {
                    return None;
                }
                (head[9], l3 + length)
            }
            (6, true) => {
                let head = chunk::<40>(bytes, l3)?;
                let (mut next, mut here) = (head[6], l3 + 40);
                for _ in 0..MAX_EXTENSIONS {
                    if !ip::is_extension(next) {
                        break;
                    }
                    let [following, size, place @ ..] = *chunk::<4>(bytes, here)?;
                    if next == ip::FRAGMENT && u16::from_be_bytes(place) & 0xfff8 != 0 {
                        return None;
                    }
                    here += extension_len(next, size);
                    next = following;
                }
                (next, here)
            }
            _ => return None,
        };
        let (source_port, destination_port) = match proto {
            ip::TCP | ip::UDP | ip::SCTP => (be16(bytes, l4)?, be16(bytes, l4 + 2)?),
            ip::ICMP | ip::ICMPV6 => {
                if !is_query(proto, be8(bytes, l4)?) {
                    return None;
                }
                let id = be16(bytes, l4 + 4)?;
                (id, id)
            }
            _ => (0, 0),
        };
        Some(Quoted {
            ipv6,
            l3,
            l4,
            proto,
            source_port,
            destination_port,
        })
    }
}

/// True if an ICMP (or ICMPv6) message of this type has an identifier at octet 4.
pub fn is_query(proto: u8, kind: u8) -> bool {
    match proto {
        // Echo, timestamp, information, address mask (RFC 792, RFC 950), extended echo (RFC 8335).
        ip::ICMP => matches!(kind, 0 | 8 | 13..=18 | 42 | 43),
        // Echo (RFC 4443), extended echo.
        _ => matches!(kind, 128 | 129 | 160 | 161),
    }
}
