use super::*;

const PAYLOAD: usize = 3_500;
const SIZE: u16 = 1_448;

/// The headers of a frame with these octets behind `ETH`, `tags` of them tags.
fn frame(tags: &[u8], kind: u16, ip: &[u8], transport: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend(tags);
    frame.extend(kind.to_be_bytes());
    frame.extend(ip);
    frame.extend(transport);
    frame.extend((0..PAYLOAD).map(|i| ((i * 7) >> 3) as u8));
    frame
}

fn ipv4(protocol: u8, header: usize) -> Vec<u8> {
    let total = (20 + header + PAYLOAD) as u16;
    let mut ip = vec![0x45, 0];
    ip.extend(total.to_be_bytes());
    ip.extend([0xff, 0xff, 0x40, 0, 64, protocol, 0xab, 0xcd]);
    ip.extend([10, 0, 0, 1, 192, 0, 2, 1]);
    ip
}

fn ipv6(next: u8, more: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x60, 0, 0, 0, 0, 0, next, 64];
    ip.extend([0xfd; 16]);
    ip.extend([0xfe; 16]);
    ip.extend(more);
    ip
}

fn tcp() -> Vec<u8> {
    let mut tcp = vec![0x30, 0x39, 0, 80, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 9];
    // Acknowledges, pushes, ends, has reduced its window; an option of 12 octets.
    tcp.extend([0x80, 0x99, 1, 0, 0, 0, 0, 0]);
    tcp.extend([1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]);
    tcp
}

/// Cuts a frame: the segments.
fn cut(whole: &[u8], size: u16) -> Vec<Vec<u8>> {
    cut_with(whole, size, true)
}

fn cut_with(whole: &[u8], size: u16, reduced_once: bool) -> Vec<Vec<u8>> {
    let offload = Offload {
        checksum: None,
        segments: Some(size),
        reduced_once,
    };
    let cut = Cut::of(whole, offload).expect("it is to be cut");
    let mut all = Vec::new();
    while let Some(len) = cut.len(whole, all.len()) {
        let mut segment = vec![0; len];
        assert!(cut.write(whole, all.len(), &mut segment));
        assert!(!cut.write(whole, all.len(), &mut segment[1..]));
        all.push(segment);
    }
    assert!(!cut.write(whole, all.len(), &mut []));
    all
}

/// Octets that contain their checksum, with the pseudo-header of `addresses`.
fn is_right(addresses: &[u8], protocol: u8, transport: &[u8]) -> bool {
    let sum = Sum::new()
        .bytes(addresses)
        .word(u16::from(protocol))
        .long(transport.len() as u32)
        .bytes(transport);
    sum.folded() == 0xffff
}

#[test]
fn tcp_over_ipv4_is_cut_as_a_card_would() {
    for tags in [&[][..], &[0x81, 0, 0, 7]] {
        let whole = frame(tags, IPV4, &ipv4(TCP, 32), &tcp());
        let segments = cut(&whole, SIZE);
        assert_eq!(segments.len(), 3);
        let mut payload: Vec<u8> = Vec::new();
        for (number, segment) in segments.iter().enumerate() {
            let ip = &segment[14 + tags.len()..];
            assert_eq!(segment[..14 + tags.len()], whole[..14 + tags.len()]);
            assert_eq!(Sum::new().bytes(&ip[..20]).folded(), 0xffff);
            assert_eq!(ip[2..4], (ip.len() as u16).to_be_bytes());
            assert_eq!(
                ip[4..6],
                0xffffu16.wrapping_add(number as u16).to_be_bytes()
            );
            let tcp = &ip[20..];
            assert!(is_right(&ip[12..20], TCP, tcp));
            let sequence = 0xffff_fff0u32.wrapping_add(number as u32 * 1_448);
            assert_eq!(tcp[4..8], sequence.to_be_bytes());
            assert_eq!(tcp[13], [0x90, 0x10, 0x19][number]);
            payload.extend(&tcp[32..]);
        }
        assert_eq!(payload, whole[whole.len() - PAYLOAD..]);
    }
}

#[test]
fn the_window_reduced_flag_is_the_firsts_or_a_bit_of_a_counter_rfc3168_rfc9768() {
    let whole = frame(&[], IPV4, &ipv4(TCP, 32), &tcp());
    let flags = |reduced_once| -> Vec<u8> {
        let segments = cut_with(&whole, SIZE, reduced_once);
        for segment in &segments {
            assert!(is_right(&segment[26..34], TCP, &segment[34..]));
        }
        segments.iter().map(|segment| segment[47]).collect()
    };
    assert_eq!(flags(true), [0x90, 0x10, 0x19]);
    assert_eq!(flags(false), [0x90, 0x90, 0x99]);
}

#[test]
fn tcp_over_ipv6_is_cut_also_where_its_length_is_in_an_option() {
    let jumbo = [TCP, 0, 0xc2, 4, 0, 0, 0, 0];
    for ip in [ipv6(TCP, &[]), ipv6(HOP_BY_HOP, &jumbo)] {
        let whole = frame(&[], IPV6, &ip, &tcp());
        let segments = cut(&whole, SIZE);
        assert_eq!(segments.len(), 3);
        for segment in &segments {
            let ip = &segment[14..];
            assert_eq!(ip[4..6], (ip.len() as u16 - 40).to_be_bytes());
            assert_eq!(ip[6], TCP);
            assert!(is_right(&ip[8..40], TCP, &ip[40..]));
        }
        assert!(segments[2].ends_with(&whole[whole.len() - 100..]));
    }
}

#[test]
fn udp_is_cut_into_datagrams() {
    for (kind, ip, header) in [(IPV4, ipv4(UDP, 8), 20), (IPV6, ipv6(UDP, &[]), 40)] {
        let whole = frame(&[], kind, &ip, &[0, 9, 0, 10, 0, 0, 0, 0]);
        let segments = cut(&whole, 1_000);
        assert_eq!(segments.len(), 4);
        for segment in segments {
            let ip = &segment[14..];
            let udp = &ip[header..];
            assert_eq!(udp[4..6], (udp.len() as u16).to_be_bytes());
            let addresses = if header == 20 {
                &ip[12..20]
            } else {
                &ip[8..40]
            };
            assert!(is_right(addresses, UDP, udp));
        }
    }
}

#[test]
fn checksums_are_completed_and_none_is_0() {
    let udp = |last: [u8; 2]| {
        // 0 to 3 are somebody else's; the sum of the pseudo-header stands at 10.
        let mut packet = vec![9, 9, 9, 9, 0, 9, 0, 10, 0, 10, 0x12, 0x34];
        packet.extend(last);
        packet
    };
    let mut packet = udp([1, 2]);
    assert!(complete(&mut packet, (4, 6)));
    let covered = Sum::new().bytes(&packet[4..]).folded();
    assert_eq!(covered, !0x1234);
    // The rest up to 0xffff.
    let rest = !Sum::new().bytes(&udp([0, 0])[4..]).folded();
    let mut packet = udp(rest.to_be_bytes());
    assert!(complete(&mut packet, (4, 6)));
    assert_eq!(packet[10..12], [0xff, 0xff]);
    for nonsense in [(13, 0), (14, 0), (4, 9), (u16::MAX, u16::MAX)] {
        assert!(!complete(&mut udp([0, 0]), nonsense));
    }
}

#[test]
fn what_can_not_be_cut_is_left_as_it_is() {
    let whole = frame(&[], IPV4, &ipv4(TCP, 32), &tcp());
    let offload = |segments, checksum| Offload {
        segments,
        checksum,
        reduced_once: false,
    };
    let size = Some(SIZE);
    assert_eq!(Cut::of(&whole, offload(None, None)), None);
    assert_eq!(Cut::of(&whole, offload(Some(0), None)), None);
    assert!(Cut::of(&whole, offload(size, Some((34, 16)))).is_some());
    // A tunnel: the checksum is further in.
    assert_eq!(Cut::of(&whole, offload(size, Some((84, 16)))), None);
    let other = frame(&[], IPV4, &ipv4(47, 32), &tcp());
    assert_eq!(Cut::of(&other, offload(size, None)), None);
    let arp = frame(&[], 0x0806, &ipv4(TCP, 32), &tcp());
    assert_eq!(Cut::of(&arp, offload(size, None)), None);
    for len in 0..whole.len() - PAYLOAD {
        assert_eq!(Cut::of(&whole[..len], offload(size, None)), None, "{len}");
    }
}

#[test]
fn sctp_has_a_checksum_of_its_own() {
    let mut packet = vec![7; 60];
    assert!(complete(&mut packet, (20, 8)));
    let sum = weir_packet::checksum::sctp(&packet[20..]);
    assert_eq!(packet[28..32], sum.to_le_bytes());
    assert_eq!((&packet[..28], &packet[32..]), (&[7; 28][..], &[7; 28][..]));
    assert!(!complete(&mut packet, (50, 8)));
}
