use super::*;
use crate::protocol::ip;
use crate::{LinkType, ParseOptions, parse};
use proptest::prelude::*;

/// RFC 1071 as it is written: one 16-bit word after another.
fn slow(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(u16::from_be_bytes([
            pair[0],
            pair.get(1).copied().unwrap_or(0),
        ]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn slow_crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for &octet in bytes {
        crc ^= u32::from(octet);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0x82f6_3b78
            } else {
                crc >> 1
            };
        }
    }
    !crc
}

#[test]
fn known_crc32c() {
    // RFC 3720 appendix B.4.
    assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
}

#[test]
fn udp_without_checksum_stays_without() {
    let change = Change::new().word(1, 2);
    assert_eq!(change.apply_udp(0), 0);
    // A change that would give zero gives the other zero.
    assert_eq!(Change::new().word(0x1234, 0x1235).apply(1), 0);
    assert_eq!(Change::new().word(0x1234, 0x1235).apply_udp(1), 0xffff);
}

#[test]
fn fills_what_it_checks() {
    for proto in [ip::TCP, ip::UDP, ip::SCTP, ip::ICMP] {
        let mut packet = vec![
            0x45, 0, 0, 60, 0, 9, 0, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        packet.extend((0u8..40).map(|n| n.wrapping_mul(37)));
        packet[32] = 0x50;
        packet[24..26].copy_from_slice(&40u16.to_be_bytes());
        let headers = parse(&packet, LinkType::RawIp, &ParseOptions::default()).expect("a packet");
        assert_eq!(check_ipv4(&packet, &headers), Verdict::Bad);
        assert_eq!(check_transport(&packet, &headers), Verdict::Bad);
        assert!(fill(&mut packet, &headers));
        assert_eq!(check_ipv4(&packet, &headers), Verdict::Good);
        assert_eq!(check_transport(&packet, &headers), Verdict::Good);
        packet[59] ^= 1;
        assert_eq!(check_transport(&packet, &headers), Verdict::Bad);
    }
}

#[test]
fn fills_ipv6() {
    for proto in [ip::TCP, ip::UDP, ip::ICMPV6] {
        let mut packet = vec![0x60, 0, 0, 0, 0, 40, proto, 64];
        packet.extend((0u8..72).map(|n| n.wrapping_mul(91)));
        packet[52] = 0x50;
        packet[44..46].copy_from_slice(&40u16.to_be_bytes());
        let headers = parse(&packet, LinkType::RawIp, &ParseOptions::default()).expect("a packet");
        assert!(fill(&mut packet, &headers));
        assert_eq!(check_transport(&packet, &headers), Verdict::Good);
    }
}

proptest! {
    #[test]
    fn wide_sum_is_the_plain_sum(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert_eq!(internet(&bytes), slow(&bytes));
    }

    #[test]
    fn tables_give_the_plain_crc(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(crc32c(&bytes), slow_crc32c(&bytes));
    }

    #[test]
    fn incremental_is_full(
        mut bytes in proptest::collection::vec(any::<u8>(), 20..60),
        word in any::<u16>(), long in any::<u32>(), v6 in any::<[u8; 16]>(),
    ) {
        bytes[0] = 0x45; // never all zero, as in any real header
        if bytes.len() % 2 == 1 { bytes.pop(); }
        let mut sum = internet(&bytes);
        let old = u16::from_be_bytes([bytes[2], bytes[3]]);
        bytes[2..4].copy_from_slice(&word.to_be_bytes());
        sum = Change::new().word(old, word).apply(sum);
        prop_assert_eq!(sum, internet(&bytes));

        let old = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        bytes[4..8].copy_from_slice(&long.to_be_bytes());
        sum = Change::from_bits(Change::new().long(old, long).to_bits()).apply(sum);
        prop_assert_eq!(sum, internet(&bytes));

        let old: [u8; 16] = bytes[4..20].try_into().expect("sixteen");
        bytes[4..20].copy_from_slice(&v6);
        let change = Change::new().ipv6(old.into(), v6.into());
        sum = change.and(Change::new()).apply(sum);
        prop_assert_eq!(sum, internet(&bytes));
    }
}
