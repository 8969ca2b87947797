//! Events of packets: what is odd about the extension headers of IPv6 (RFC 8200 section 4).

use weir_nf::prelude::*;
use weir_signatures::{DecodeEvent, DecodeEvents};

/// Bytes of the IPv6 header.
const HEADER: usize = 40;
/// Bytes of a fragment header.
const FRAGMENT: usize = 8;
/// `next header` where nothing follows.
const NOTHING: u8 = 59;
/// Bytes of the longest payload (RFC 8200 section 4.5).
const LONGEST: usize = 65_535;

/// The events of a packet.
pub(super) fn events(packet: &Packet<'_>) -> DecodeEvents {
    let start = usize::from(packet.headers().l3);
    packet.bytes().get(start..).map_or(DecodeEvents::NONE, ipv6)
}

/// The events of an IPv6 packet; none of any other.
fn ipv6(bytes: &[u8]) -> DecodeEvents {
    let mut events = DecodeEvents::NONE;
    let Some((header, rest)) = bytes.split_at_checked(HEADER) else {
        return events;
    };
    if header[0] >> 4 != 6 {
        return events;
    }
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let mut rest = rest.get(..length).unwrap_or(rest);
    let (mut next, mut fragment) = (header[6], false);
    loop {
        let length = match (next, rest.get(1)) {
            (44, _) => FRAGMENT,
            (0 | 43 | 60 | 135 | 139 | 140, Some(&length)) => 8 * (usize::from(length) + 1),
            (51, Some(&length)) => 4 * (usize::from(length) + 2),
            (0 | 43 | 51 | 60 | 135 | 139 | 140, None) => {
                return events.with(DecodeEvent::Ipv6ExtensionCut);
            }
            _ => return events,
        };
        let Some((extension, behind)) = rest.split_at_checked(length) else {
            return events.with(DecodeEvent::Ipv6ExtensionCut);
        };
        if next == 44 {
            if fragment {
                return events.with(DecodeEvent::Ipv6SecondFragmentHeader);
            }
            fragment = true;
            let place = u16::from_be_bytes([extension[2], extension[3]]);
            let (offset, more) = (usize::from(place & !7), place & 1 != 0);
            if offset == 0 && !more {
                events = events.with(DecodeEvent::Ipv6UselessFragmentHeader);
            } else {
                if more && behind.len() % 8 != 0 {
                    events = events.with(DecodeEvent::Ipv6FragmentLength);
                }
                if offset + behind.len() > LONGEST {
                    events = events.with(DecodeEvent::Ipv6FragmentTooLarge);
                }
                return events;
            }
        }
        (next, rest) = (extension[0], behind);
        // As in Suricata: a header of any kind has two bytes.
        if rest.len() < 2 && next != NOTHING {
            return events.with(DecodeEvent::Ipv6ExtensionCut);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(next: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        (bytes[0], bytes[6]) = (0x60, next);
        bytes[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
        bytes.extend_from_slice(payload);
        bytes
    }

    fn of(next: u8, payload: &[u8]) -> Vec<&'static str> {
        let found = ipv6(&packet(next, payload));
        let all = DecodeEvent::ALL.iter();
        let all = all.filter(|&&event| found.contains(event));
        all.map(|event| event.name()).collect()
    }

    #[test]
    fn extensions_are_walked_to_their_end() {
        let nothing: [&str; 0] = [];
        assert_eq!(of(17, &[0; 8]), nothing);
        assert_eq!(of(0, &[59, 0, 1, 4, 0, 0, 0, 0]), nothing);
        assert_eq!(of(0, &[17, 0, 1, 4, 0, 0, 0, 0, 1]), ["ipv6.trunc_exthdr"]);
        assert_eq!(of(0, &[17, 1, 1, 4, 0, 0, 0, 0]), ["ipv6.trunc_exthdr"]);
        assert_eq!(of(60, &[]), ["ipv6.trunc_exthdr"]);
        assert_eq!(of(44, &[17; 7]), ["ipv6.trunc_exthdr"]);
        let whole = [44, 0, 0, 0, 0, 0, 0, 1];
        let twice = [whole, [17, 0, 0, 0, 0, 0, 0, 1]].concat();
        assert_eq!(
            of(44, &twice),
            ["ipv6.exthdr_dupl_fh", "ipv6.exthdr_useless_fh"]
        );
        let first = [&[17, 0, 0, 1, 0, 0, 0, 1][..], &[0; 9]].concat();
        assert_eq!(of(44, &first), ["ipv6.frag_invalid_length"]);
        let last = [&[17, 0, 0xff, 0xf8, 0, 0, 0, 1][..], &[0; 8]].concat();
        assert_eq!(of(44, &last), ["ipv6.frag_pkt_too_large"]);
        let mut of_four = packet(44, &first);
        of_four[0] = 0x45;
        assert_eq!(ipv6(&of_four), DecodeEvents::NONE);
        assert_eq!(ipv6(&of_four[..HEADER - 1]), DecodeEvents::NONE);
    }
}
