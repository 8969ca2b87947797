//! Checks of the IP header that a router makes (RFC 1812 section 5.2.2).

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::packet::{HeaderFlags, ParseOptions, checksum, parse};
use weir_nf::prelude::*;

use crate::outer::{Version, outer};

/// Which checks are made, and what becomes of a packet that fails one.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Action on a packet that fails a check.
    pub on_bad: OnBad,
    /// Refuse source addresses that no packet on a network can have, or should have after its
    /// first hop (RFC 1812 section 5.3.7, RFC 4291): loopback, multicast, broadcast, reserved,
    /// and a source that equals the destination.
    pub martians: bool,
    /// Check the checksums of TCP, UDP, SCTP, ICMP and ICMPv6 as well. Captures taken on the
    /// sending host often hold wrong ones, because the network card fills them in.
    pub transport: bool,
}

/// Action on a packet that fails a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnBad {
    /// It is counted and dropped.
    #[default]
    Drop,
    /// It is counted and passes.
    Count,
}

/// Checks the outermost IP header.
#[derive(Debug)]
pub struct IpCheck {
    drop: bool,
    martians: bool,
    transport: bool,
}

weir_nf::labels! {
    /// Faults of a packet: counted, and reasons to drop it.
    enum Fault: Counter<Packets> {
        /// The checksum of its IPv4 header is wrong.
        Checksum = "bad_checksum",
        /// Its time to live, or hop limit, is 0.
        Ttl = "ttl_zero",
        /// Its source address is one that no packet on a network can have.
        Martian = "martian_source",
        /// The checksum of its TCP, UDP, SCTP or ICMP part is wrong.
        Transport = "bad_transport_checksum",
        /// Its IP header is damaged.
        Header = "bad_header",
    }
}

impl NetworkFunction for IpCheck {
    type Settings = Settings;
    type State = ();
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "Checks the outermost IP header: IPv4's header checksum, version, header and \
                 total length, a time to live (hop limit) of zero, and if asked the source \
                 address and the transport checksum. Each fault is counted under its name and \
                 drops the packet, or with `on-bad: count` only counts it.\n\n\
                 Lengths and versions that contradict the packet are found by weir's parser \
                 before any function runs: a chain drops such packets under the parser's reasons \
                 unless it says `malformed: pass`; then those in which an IP header could still \
                 be found are looked at here, and counted as bad_header where it is at fault. A checksum of zero that was left for a network \
                 card to fill in counts as bad. Packets that are not IP pass.",
        needs: Needs::Network,
        // A check of the transport's checksum parses the packet anew, from its first byte.
        reads: Parts::ALL,
        drops: Fault::TABLE,
        counters: Fault::TABLE,
        cycles: 10,
        ..Descriptor::new("ip-check", "checks IP headers")
    };

    fn new(settings: Settings, _: &mut SetUp<'_>) -> Result<IpCheck, SettingsError> {
        Ok(IpCheck {
            drop: settings.on_bad == OnBad::Drop,
            martians: settings.martians,
            transport: settings.transport,
        })
    }

    fn drops(&self) -> bool {
        self.drop
    }

    fn without_flow(&self, packet: &mut Packet<'_>, cx: &mut Context<'_>) -> Verdict {
        match self.fault(packet) {
            None => Verdict::Pass,
            Some(fault) => {
                cx.count(fault, 1);
                if self.drop {
                    Verdict::Drop(fault.into())
                } else {
                    Verdict::Pass
                }
            }
        }
    }

    /// Nearly all packets are IPv4 without options and right: they are told by straight-line
    /// code, and only the rest is looked at closely.
    #[inline]
    fn process_burst(&self, burst: &mut Burst<'_, Self>, cx: &mut Context<'_>) {
        let mask = burst.mask();
        let mut slow = mask;
        if !self.martians && !self.transport {
            let (mut left, mut right) = (mask, 0u64);
            while left != 0 {
                let i = left.trailing_zeros() as usize;
                left &= left - 1;
                right |= u64::from(is_plain_and_right(&burst.packet(i))) << i;
            }
            burst.pass(right);
            slow &= !right;
        }
        while slow != 0 {
            let i = slow.trailing_zeros() as usize;
            slow &= slow - 1;
            burst.step(i, self, cx);
        }
    }
}

/// An undamaged IPv4 packet without options whose checksum is right and whose time to live is
/// not zero.
#[inline(always)]
fn is_plain_and_right(packet: &Packet<'_>) -> bool {
    let headers = packet.headers();
    if !headers.is_ip() || headers.flags.contains(HeaderFlags::DAMAGED) {
        return false;
    }
    let at = usize::from(headers.outer_l3);
    match packet.bytes().get(at..).and_then(<[u8]>::first_chunk) {
        Some(header) => header[0] == 0x45 && header[8] != 0 && sum_is_right(header),
        None => false,
    }
}

/// True if the 16-bit words of the header add up to all ones (RFC 1071). The sum is taken over
/// wider words in the machine's byte order: 2^16 is 1 modulo 65,535, so wide words and swapped
/// octets leave "divisible by 65,535" as it is, and a header is never all zeros.
#[inline(always)]
fn sum_is_right(header: &[u8; 20]) -> bool {
    let word = |at: usize| {
        u64::from(u32::from_ne_bytes([
            header[at],
            header[at + 1],
            header[at + 2],
            header[at + 3],
        ]))
    };
    (word(0) + word(4) + word(8) + word(12) + word(16)) % 0xffff == 0
}

impl IpCheck {
    fn fault(&self, packet: &Packet<'_>) -> Option<Fault> {
        let (version, at) = outer(packet)?;
        let header = packet.bytes().get(at..).unwrap_or(&[]);
        let fault = match version {
            Version::V4 => self.fault_v4(header),
            Version::V6 => self.fault_v6(header),
        };
        fault.or_else(|| self.transport.then(|| transport_fault(packet))?)
    }

    fn fault_v4(&self, header: &[u8]) -> Option<Fault> {
        let Some(fixed) = header.first_chunk::<20>() else {
            return Some(Fault::Header);
        };
        let length = usize::from(fixed[0] & 15) * 4;
        let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        // A total length of zero is how captures show segments that the network card has yet
        // to cut; a capture that was cut may hold less than the total.
        if length < 20 || total != 0 && total < length {
            return Some(Fault::Header);
        }
        let Some(whole) = header.get(..length) else {
            return Some(Fault::Header);
        };
        if !checksum::ipv4_is_right(whole) {
            return Some(Fault::Checksum);
        }
        if fixed[8] == 0 {
            return Some(Fault::Ttl);
        }
        let address = |at: usize| [fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]];
        let bad = self.martians && is_martian_v4(address(12), address(16));
        bad.then_some(Fault::Martian)
    }

    fn fault_v6(&self, header: &[u8]) -> Option<Fault> {
        let Some(fixed) = header.first_chunk::<40>() else {
            return Some(Fault::Header);
        };
        if fixed[7] == 0 {
            return Some(Fault::Ttl);
        }
        let bad = self.martians && is_martian_v6(fixed);
        bad.then_some(Fault::Martian)
    }
}

/// The packet is parsed once more: a chain may have looked at its network header only, or opened
/// a tunnel, and it is the outer packet that is judged.
fn transport_fault(packet: &Packet<'_>) -> Option<Fault> {
    let bytes = packet.bytes();
    let headers = parse(bytes, packet.meta().link, &ParseOptions::default()).ok()?;
    let bad = checksum::check_transport(bytes, &headers) == checksum::Verdict::Bad;
    bad.then_some(Fault::Transport)
}

/// RFC 1812 section 5.3.7. 0.0.0.0 is a host that asks for its address (RFC 2131).
fn is_martian_v4(source: [u8; 4], destination: [u8; 4]) -> bool {
    match source {
        [0, 0, 0, 0] => false,
        [0 | 127 | 224.., ..] => true,
        _ => source == destination,
    }
}

/// Multicast, loopback and IPv4-mapped sources (RFC 4291 sections 2.5.3, 2.5.5.2 and 2.7), and
/// a packet to its own sender. `::` is a host that asks for its address (RFC 4862).
fn is_martian_v6(header: &[u8; 40]) -> bool {
    let mut source = [0; 16];
    source.copy_from_slice(&header[8..24]);
    let value = u128::from_be_bytes(source);
    source[0] == 0xff
        || value == 1
        || value >> 32 == 0xffff
        || value != 0 && source[..] == header[24..40]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1071's sum, word by word.
    fn slow(header: &[u8; 20]) -> bool {
        let mut sum = header
            .chunks(2)
            .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
            .sum::<u32>();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum == 0xffff
    }

    #[test]
    fn the_fast_sum_is_that_of_rfc_1071() {
        let mut header = [0u8; 20];
        let mut random = 1u64;
        let (mut right, mut wrong) = (0, 0);
        for round in 0..20_000u32 {
            for byte in &mut header {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                // Bytes of all ones and all zeros are where ones' complement is subtle.
                *byte = match random >> 60 {
                    0 | 1 => 0xff,
                    2 => 0,
                    _ => (random >> 32) as u8,
                };
            }
            header[0] = 0x45;
            if round % 2 == 0 {
                header[10..12].fill(0);
                let sum = checksum::internet(&header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            assert_eq!(sum_is_right(&header), slow(&header));
            if slow(&header) {
                right += 1
            } else {
                wrong += 1
            }
        }
        assert!(right >= 10_000 && wrong > 9_000);
    }

    #[test]
    fn martians_are_told_from_guests() {
        let there = [198, 51, 100, 7];
        for source in [
            [127, 0, 0, 1],
            [224, 0, 0, 1],
            [255; 4],
            [0, 1, 2, 3],
            [240, 0, 0, 1],
            there,
        ] {
            assert!(is_martian_v4(source, there), "{source:?}");
        }
        for source in [
            [0; 4],
            [10, 0, 0, 1],
            [192, 0, 2, 1],
            [126, 255, 255, 255],
            [1, 0, 0, 0],
        ] {
            assert!(!is_martian_v4(source, there), "{source:?}");
        }
        let header = |source: &str| {
            let mut header = [0u8; 40];
            let octets = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
            header[8..24].copy_from_slice(&octets(source));
            header[24..40].copy_from_slice(&octets("2001:db8::7"));
            header
        };
        for source in ["::1", "ff02::1", "::ffff:192.0.2.1", "2001:db8::7"] {
            assert!(is_martian_v6(&header(source)), "{source}");
        }
        for source in ["::", "fe80::1", "2001:db8::8"] {
            assert!(!is_martian_v6(&header(source)), "{source}");
        }
    }
}
