//! Events of packets: what is odd about the extension headers of IPv6 (RFC 8200 section 4) and the length of UDP.

use weir_nf::prelude::*;
use weir_signatures::view::UDP;
use weir_signatures::{DecodeEvent, DecodeEvents};

use super::seen::Fragment;

/// Bytes of the IPv6 header.
const HEADER: usize = 40;
/// Bytes of a fragment header.
const FRAGMENT: usize = 8;
/// `next header` where nothing follows.
const NOTHING: u8 = 59;
/// Bytes of the longest payload (RFC 8200 section 4.5).
const LONGEST: usize = 65_535;

/// Bytes of a UDP header.
const UDP_HEADER: u16 = 8;

/// The events of a packet, and the fragment that it is.
pub(super) fn events(packet: &Packet<'_>) -> (DecodeEvents, Option<Fragment>) {
    let headers = packet.headers();
    let bytes = packet.bytes();
    let network = bytes.get(usize::from(headers.l3)..).unwrap_or(&[]);
    let (mut events, fragment) = match network.first().map(|first| first >> 4) {
        Some(6) => ipv6(network),
        Some(4) => (DecodeEvents::NONE, ipv4_fragment(network)),
        _ => (DecodeEvents::NONE, None),
    };
    if headers.proto == UDP && !headers.is_fragment() {
        let transport = bytes.get(usize::from(headers.l4)..).unwrap_or(&[]);
        events = events.and(udp(transport, network));
    }
    (events, fragment)
}

/// The event of a UDP header (RFC 768): its length is at least that of the header, and what IP carries.
fn udp(transport: &[u8], network: &[u8]) -> DecodeEvents {
    let (Some(&[high, low]), Some(carried)) = (
        transport.get(4..6),
        ip_end(network).and_then(|end| {
            let before = network.len().checked_sub(transport.len())?;
            end.checked_sub(before)
        }),
    ) else {
        return DecodeEvents::NONE;
    };
    let length = u16::from_be_bytes([high, low]);
    // 0 stands for a length beyond 65,535 (RFC 2675 section 4).
    match length == 0 || length >= UDP_HEADER && usize::from(length) <= carried {
        true => DecodeEvents::NONE,
        false => DecodeEvents::NONE.with(DecodeEvent::UdpLengthInvalid),
    }
}

/// Bytes of an IP packet by its header.
fn ip_end(network: &[u8]) -> Option<usize> {
    let word = |at: usize| match network.get(at..at + 2) {
        Some(&[high, low]) => Some(usize::from(u16::from_be_bytes([high, low]))),
        _ => None,
    };
    match network.first()? >> 4 {
        4 => word(2),
        6 => Some(HEADER + word(4)?),
        _ => None,
    }
}

/// The fragment that an IPv4 packet is (RFC 791 section 3.1).
fn ipv4_fragment(network: &[u8]) -> Option<Fragment> {
    let &[first, _, high, low, id_high, id_low, flags, offset, ..] = network else {
        return None;
    };
    let place = u16::from_be_bytes([flags, offset]);
    let (from, more) = ((place & 0x1fff) << 3, place & 0x2000 != 0);
    let size = u16::from_be_bytes([high, low]).checked_sub(u16::from(first & 15) * 4)?;
    (more || from > 0).then(|| Fragment {
        identification: u16::from_be_bytes([id_high, id_low]).into(),
        from,
        to: from.saturating_add(size),
        v6: false,
    })
}

/// The events of an IPv6 packet, and the fragment that it is.
fn ipv6(bytes: &[u8]) -> (DecodeEvents, Option<Fragment>) {
    let mut events = DecodeEvents::NONE;
    let Some((header, rest)) = bytes.split_at_checked(HEADER) else {
        return (events, None);
    };
    if header[0] >> 4 != 6 {
        return (events, None);
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
                return (events.with(DecodeEvent::Ipv6ExtensionCut), None);
            }
            _ => return (events, None),
        };
        let Some((extension, behind)) = rest.split_at_checked(length) else {
            return (events.with(DecodeEvent::Ipv6ExtensionCut), None);
        };
        if next == 44 {
            if fragment {
                return (events.with(DecodeEvent::Ipv6SecondFragmentHeader), None);
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
                let end = offset + behind.len();
                if end > LONGEST {
                    events = events.with(DecodeEvent::Ipv6FragmentTooLarge);
                }
                let id = [extension[4], extension[5], extension[6], extension[7]];
                let fragment = Fragment {
                    identification: u32::from_be_bytes(id),
                    // At most 65,528.
                    from: offset as u16,
                    to: end.min(LONGEST) as u16,
                    v6: true,
                };
                return (events, Some(fragment));
            }
        }
        if matches!(next, 0 | 60) {
            events = events.and(options(extension, next == 0));
        }
        (next, rest) = (extension[0], behind);
        // As in Suricata: a header of any kind has two bytes.
        if rest.len() < 2 && next != NOTHING {
            return (events.with(DecodeEvent::Ipv6ExtensionCut), None);
        }
    }
}

/// The events of a header of options (RFC 8200 section 4.2), behind the next header and the length.
fn options(extension: &[u8], hop_by_hop: bool) -> DecodeEvents {
    /// Router alert (RFC 2711), jumbo payload (RFC 2675), home address (RFC 6275).
    const KNOWN: [u8; 3] = [0x05, 0xc2, 0xc9];
    const PAD_ONE: u8 = 0;
    const PAD: u8 = 1;
    let (unknown, padding) = match hop_by_hop {
        true => (
            DecodeEvent::Ipv6UnknownHopOption,
            DecodeEvent::Ipv6HopPadding,
        ),
        false => (
            DecodeEvent::Ipv6UnknownDestinationOption,
            DecodeEvent::Ipv6DestinationPadding,
        ),
    };
    let mut events = DecodeEvents::NONE;
    let mut rest = extension.get(2..).unwrap_or(&[]);
    let mut only_padding = !rest.is_empty();
    while let Some(&kind) = rest.first() {
        let length = match (kind, rest.get(1)) {
            (PAD_ONE, _) => 1,
            (_, Some(&length)) => 2 + usize::from(length),
            (_, None) => break,
        };
        if !matches!(kind, PAD_ONE | PAD) {
            only_padding = false;
            if !KNOWN.contains(&kind) {
                events = events.with(unknown);
            }
        }
        rest = rest.get(length..).unwrap_or(&[]);
    }
    if only_padding {
        events.with(padding)
    } else {
        events
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
        let (found, _) = ipv6(&packet(next, payload));
        let all = DecodeEvent::ALL.iter();
        let all = all.filter(|&&event| found.contains(event));
        all.map(|event| event.name()).collect()
    }

    #[test]
    fn extensions_are_walked_to_their_end() {
        let nothing: [&str; 0] = [];
        assert_eq!(of(17, &[0; 8]), nothing);
        assert_eq!(of(0, &[59, 0, 5, 2, 0, 0, 1, 0]), nothing);
        assert_eq!(
            of(0, &[59, 0, 1, 4, 0, 0, 0, 0]),
            ["ipv6.hopopts_only_padding"]
        );
        assert_eq!(
            of(60, &[59, 0, 0, 0, 0, 0, 0, 0]),
            ["ipv6.dstopts_only_padding"]
        );
        assert_eq!(
            of(60, &[59, 0, 7, 1, 0, 0, 0, 0]),
            ["ipv6.dstopts_unknown_opt"]
        );
        assert_eq!(of(0, &[17, 0, 5, 2, 0, 0, 1, 0, 1]), ["ipv6.trunc_exthdr"]);
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
        assert_eq!(ipv6(&of_four), (DecodeEvents::NONE, None));
        assert_eq!(ipv6(&of_four[..HEADER - 1]), (DecodeEvents::NONE, None));
    }
}
