//! Rewritten packets, judged by checksums computed anew.

use super::*;
use proptest::prelude::*;
use weir_nf::packet::checksum::{self, Verdict};
use weir_nf::packet::{FrameMeta, HEADROOM, LinkType, ParseOptions, Time, parse};
use weir_runtime::harness::Craft;

/// Parses an Ethernet frame.
pub(crate) fn parsed(frame: &[u8]) -> Headers {
    parse(frame, LinkType::Ethernet, &ParseOptions::default()).expect("a sound packet")
}

/// Asserts that no checksum of the frame is wrong.
pub(crate) fn assert_right(frame: &[u8]) {
    let headers = parsed(frame);
    assert_ne!(
        checksum::check_ipv4(frame, &headers),
        Verdict::Bad,
        "IPv4 {frame:02x?}"
    );
    assert_ne!(
        checksum::check_transport(frame, &headers),
        Verdict::Bad,
        "transport {frame:02x?}"
    );
}

/// Calls `work` with a frame as a packet and gives the frame afterwards.
pub(crate) fn with_packet(frame: &[u8], work: impl FnOnce(&mut Packet<'_>)) -> Vec<u8> {
    let mut headers = parsed(frame);
    let mut meta = FrameMeta::received(Time::from_secs(1), frame.len() as u32);
    let mut room = vec![0; HEADROOM + frame.len()];
    room[HEADROOM..].copy_from_slice(frame);
    work(&mut Packet::new(&mut meta, &mut room, &mut headers));
    room.split_off(HEADROOM)
}

/// An ICMP (or ICMPv6) error from `source` to `target` that quotes the first
/// `octets` of the IP packet in `frame`.
pub(crate) fn error_about(
    source: &str,
    target: &str,
    kind: (u8, u8),
    frame: &[u8],
    octets: usize,
) -> Vec<u8> {
    let l3 = usize::from(parsed(frame).l3);
    let quoted = &frame[l3..frame.len().min(l3 + octets)];
    Craft::ping(source, target)
        .icmp(kind.0, kind.1)
        .payload(quoted)
        .build()
}

/// Source and destination of the packet that an error quotes, and whether the
/// quoted IPv4 header's checksum is right.
pub(crate) fn quoted_ends(frame: &[u8]) -> (String, String, bool) {
    let headers = parsed(frame);
    let at = usize::from(headers.l4) + 8;
    let quoted = &frame[at..];
    let (addresses, l4, right) = if quoted[0] >> 4 == 4 {
        (
            addresses(quoted, 0, true, false).unwrap(),
            20,
            checksum::ipv4_is_right(&quoted[..20]),
        )
    } else {
        (addresses(quoted, 0, false, true).unwrap(), 40, true)
    };
    let icmp = matches!(quoted[if l4 == 20 { 9 } else { 6 }], 1 | 58);
    let (a, b) = if icmp {
        let id = read_u16(quoted, l4 + 4).unwrap();
        (id, id)
    } else {
        (
            read_u16(quoted, l4).unwrap(),
            read_u16(quoted, l4 + 2).unwrap(),
        )
    };
    (
        format!("{}:{a}", addresses.0),
        format!("{}:{b}", addresses.1),
        right,
    )
}

fn frame(kind: usize, v6: bool, payload: &[u8]) -> Vec<u8> {
    let (a, b) = if v6 {
        ("[2001:db8::1]:1000", "[2001:db8::2]:2000")
    } else {
        ("10.0.0.1:1000", "192.0.2.1:2000")
    };
    let craft = match kind {
        0 => Craft::tcp(a, b),
        1 => Craft::udp(a, b),
        _ => Craft::ping(a, b),
    };
    craft.payload(payload).build()
}

proptest! {
    #[test]
    fn checksums_stay_right(
        kind in 0usize..3,
        v6: bool,
        source: bool,
        new in any::<u128>(),
        port in any::<u16>(),
        payload in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let frame = frame(kind, v6, &payload);
        let address: IpAddr = if v6 {
            Ipv6Addr::from(new).into()
        } else {
            Ipv4Addr::from(new as u32).into()
        };
        let side = if source { End::Source } else { End::Destination };
        let changed = with_packet(&frame, |packet| {
            rewrite_end(packet, side, address, port).expect("whole");
        });
        assert_right(&changed);
        with_packet(&changed, |packet| {
            let tuple = Tuple::of(packet).unwrap();
            let got = if source {
                (tuple.source, tuple.source_port)
            } else {
                (tuple.destination, tuple.destination_port)
            };
            assert_eq!(got, (address, port));
        });
        // And back again.
        let (old, old_port) = with_tuple(&frame, source);
        let back = with_packet(&changed, |packet| {
            rewrite_end(packet, side, old, old_port).expect("whole");
        });
        let (right, left) = (parsed(&back), parsed(&frame));
        prop_assert_eq!(&back[usize::from(right.l3)..], &frame[usize::from(left.l3)..]);
    }

    #[test]
    fn errors_stay_right(
        kind in 0usize..3,
        v6: bool,
        source: bool,
        new in any::<u128>(),
        port in any::<u16>(),
        payload in prop::collection::vec(any::<u8>(), 0..60),
        cut in 0usize..200,
    ) {
        let frame = frame(kind, v6, &payload);
        let least = if v6 { 48 } else { 28 };
        let (from, to, kinds) = if v6 {
            ("[2001:db8::9]:0", "[2001:db8::1]:0", (1, 4))
        } else {
            ("203.0.113.9:0", "10.0.0.1:0", (3, 3))
        };
        let about = error_about(from, to, kinds, &frame, least + cut);
        let address: IpAddr = if v6 {
            Ipv6Addr::from(new).into()
        } else {
            Ipv4Addr::from(new as u32).into()
        };
        let side = if source { End::Source } else { End::Destination };
        let changed = with_packet(&about, |packet| {
            let quote = quote(packet).expect("a quote");
            rewrite_error(packet, &quote, side, address, port, Some((End::Destination, address)))
                .expect("whole");
        });
        assert_right(&changed);
        let (a, b, right) = quoted_ends(&changed);
        prop_assert!(right);
        let text = if source { a } else { b };
        prop_assert_eq!(text, format!("{address}:{port}"));
    }
}

fn with_tuple(frame: &[u8], source: bool) -> (IpAddr, u16) {
    let mut got = None;
    with_packet(frame, |packet| got = Tuple::of(packet));
    let tuple = got.unwrap();
    if source {
        (tuple.source, tuple.source_port)
    } else {
        (tuple.destination, tuple.destination_port)
    }
}

#[test]
fn a_checksum_of_zero_stays_zero() {
    let mut packet = frame(1, false, b"x");
    let at = usize::from(parsed(&packet).l4) + 6;
    packet[at] = 0;
    packet[at + 1] = 0;
    let changed = with_packet(&packet, |packet| {
        rewrite_end(packet, End::Source, "203.0.113.7".parse().unwrap(), 9).expect("whole");
    });
    assert_eq!(changed[at..at + 2], [0, 0]);
    assert_right(&changed);
}

#[test]
fn a_later_fragment_gets_the_address_only() {
    let packet = Craft::udp("10.0.0.1:1000", "192.0.2.1:2000")
        .fragment(0x0003)
        .payload(&[9; 24])
        .build();
    let changed = with_packet(&packet, |packet| {
        rewrite_end(packet, End::Source, "203.0.113.7".parse().unwrap(), 9).expect("whole");
    });
    assert_eq!(changed[34..], packet[34..]);
    assert_eq!(changed[26..30], [203, 0, 113, 7]);
    assert_right(&changed);
}

/// A redirect or an advertisement has other data where a query has its id.
#[test]
fn a_quoted_message_without_an_id_is_none_of_a_flow() {
    for (kind, is_query) in [(8, true), (0, true), (5, false), (9, false), (3, false)] {
        let frame = Craft::ping("10.0.0.1:1000", "192.0.2.1:2000");
        let frame = frame.icmp(kind, 0).build();
        let about = error_about("203.0.113.9:0", "10.0.0.1:0", (3, 3), &frame, 40);
        with_packet(&about, |packet| {
            let ports = quote(packet).map(|quote| quote.ports());
            assert_eq!(ports, is_query.then_some((1_000, 1_000)), "{kind}");
        });
    }
}

/// The CRC of a packet whose other fragments are elsewhere can't be computed.
#[test]
fn sctp_is_not_rewritten_with_a_stale_checksum() {
    let sctp = |fragment: u16| {
        let mut frame = Craft::udp("10.0.0.1:1000", "192.0.2.1:2000")
            .fragment(fragment)
            .payload(&[7; 24])
            .build();
        frame[23] = ip::SCTP;
        let headers = parsed(&frame);
        checksum::fill(&mut frame, &headers);
        frame
    };
    let rewrite = |frame: &[u8], port| {
        let mut done = None;
        let address = "203.0.113.7".parse().unwrap();
        let changed = with_packet(frame, |packet| {
            done = rewrite_end(packet, End::Source, address, port);
        });
        done.map(|()| changed)
    };
    const MORE: u16 = 0x2000;
    let whole = rewrite(&sctp(0), 9).expect("it is whole");
    assert_eq!(
        checksum::check_transport(&whole, &parsed(&whole)),
        Verdict::Good
    );
    assert_eq!(rewrite(&sctp(MORE), 9), None);
    // Addresses are not in the checksum.
    assert!(rewrite(&sctp(MORE), 1_000).is_some());
    assert!(rewrite(&sctp(3), 9).is_some());
}
