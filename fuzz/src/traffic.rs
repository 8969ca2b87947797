//! Bytes as a story of packets: raw frames, and well-formed ones of a few
//! conversations, their answers, and errors about them.

use weir_packet::{Headers, LinkType, ParseOptions, Side, checksum, parse};
use weir_runtime::harness::Craft;

use crate::input::Input;

/// Something that happens.
#[derive(Clone, Debug)]
pub enum Step {
    /// A packet arrives.
    Packet(Arrival),
    /// The packet that left last is answered, with these TCP flags.
    Answer(u8),
    /// An ICMP error arrives about the packet that left last, with this code.
    Error(u8),
    /// The packet that arrived last arrives again, on this side.
    Again(Side),
    /// Time goes by, in milliseconds.
    Wait(u64),
    /// Time goes back, in milliseconds.
    Back(u64),
    /// What is queued goes through, as one burst or several.
    Flush,
}

/// A packet that arrives.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// On which side.
    pub side: Side,
    /// How it begins.
    pub link: LinkType,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its headers and checksums are right.
    pub sound: bool,
}

/// Conversations that well-formed packets belong to: `(client, server)`.
const CONVERSATIONS: [(&str, &str); 12] = [
    ("10.0.0.1:40000", "198.51.100.1:80"),
    ("10.0.0.2:40000", "198.51.100.1:80"),
    ("10.0.0.1:40001", "192.0.2.80:80"),
    ("10.0.0.3:5353", "198.51.100.2:53"),
    ("10.0.0.1:7", "198.51.100.3:1"),
    ("10.0.0.2:40002", "203.0.113.1:1024"),
    ("198.51.100.9:50000", "203.0.113.1:1025"),
    ("198.51.100.9:50001", "192.0.2.80:80"),
    ("10.0.0.4:68", "198.51.100.1:22"),
    ("[2001:db8::1]:40000", "[2001:db8:1::80]:80"),
    ("[2001:db8::2]:5353", "[2001:db8:1::1]:53"),
    ("[2001:db8::1]:7", "[2001:db8:1::1]:1"),
];

/// TCP flags as [`Craft::flags`] takes them.
const FLAGS: [&str; 16] = [
    "S", "SA", "A", "PA", "FA", "R", "RA", "FPA", "", "SF", "SFR", "U", "PAU", "F", "P", "SR",
];

/// Reads steps; at most this many, so that a run stays short.
pub fn steps(input: &mut Input<'_>, most: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut sequence = [[0_u32; 2]; CONVERSATIONS.len()];
    while !input.is_empty() && steps.len() < most {
        let op = input.u8();
        let side = if op & 16 == 0 {
            Side::Inside
        } else {
            Side::Outside
        };
        steps.push(match op & 15 {
            0 => Step::Packet(Arrival {
                side,
                link: LinkType::Ethernet,
                bytes: input.chunk().to_vec(),
                sound: false,
            }),
            1 => Step::Packet(Arrival {
                side,
                link: LinkType::from_u8(input.u8() % 12),
                bytes: input.chunk().to_vec(),
                sound: false,
            }),
            2..=9 => Step::Packet(well_formed(op, side, input, &mut sequence)),
            10 => Step::Answer(input.u8()),
            11 => Step::Error(input.u8()),
            12 => Step::Again(side),
            13 if op & 32 == 0 => Step::Wait(u64::from(input.u8())),
            13 => Step::Wait(u64::from(input.u16()) * 1_000),
            14 => Step::Back(u64::from(input.u8()) * 100),
            _ => Step::Flush,
        });
    }
    steps
}

fn well_formed(op: u8, side: Side, input: &mut Input<'_>, sequence: &mut [[u32; 2]]) -> Arrival {
    let number = usize::from(input.u8()) % CONVERSATIONS.len();
    let (client, server) = CONVERSATIONS[number];
    let back = op & 32 != 0;
    let (from, to) = if back {
        (server, client)
    } else {
        (client, server)
    };
    let more = input.u8();
    let length = usize::from(input.u8());
    let payload = input.bytes(length);
    let ttl = if more & 128 != 0 { more & 3 } else { 64 };
    let mut fragment = false;
    let mut packet = match op & 15 {
        2..=5 => {
            let flags = FLAGS[usize::from(more & 15)];
            let place = &mut sequence[number];
            let seq = place[usize::from(back)];
            let length = payload.len() as u32 + u32::from(flags.contains(['S', 'F']));
            // Mostly what comes next, sometimes what came or what comes later.
            let shift = if op & 64 != 0 {
                i32::from(input.u8() as i8)
            } else {
                0
            };
            place[usize::from(back)] = seq.wrapping_add(length);
            Craft::tcp(from, to)
                .flags(flags)
                .seq(seq.wrapping_add_signed(shift).wrapping_add(1_000))
                .ack(place[usize::from(!back)].wrapping_add(1_000))
        }
        6 | 7 => Craft::udp(from, to),
        8 => {
            let kind = if client.starts_with('[') {
                [128, 129][usize::from(back)]
            } else {
                [8, 0][usize::from(back)]
            };
            Craft::ping(from, to).icmp(kind, 0)
        }
        _ => {
            fragment = true;
            let field = [0x2000, 0x0001, 0x2001, 0x0002, 0x4000, 0x1fff][usize::from(more % 6)];
            Craft::udp(from, to)
                .fragment(field)
                .ip_id(u16::from(more >> 6))
        }
    };
    if op & 128 != 0 {
        packet = packet.vlan(u16::from(more));
    }
    Arrival {
        side,
        link: LinkType::Ethernet,
        bytes: packet.ttl(ttl).payload(payload).build(),
        sound: !fragment,
    }
}

fn headers(bytes: &[u8], link: LinkType) -> Option<Headers> {
    parse(bytes, link, &ParseOptions::default()).ok()
}

/// The answer to a packet: ends swapped, TCP flags as given.
pub fn answer(bytes: &[u8], link: LinkType, flags: u8) -> Option<Vec<u8>> {
    let headers = headers(bytes, link)?;
    let l3 = usize::from(headers.l3);
    let (at, width) = if headers.is_ipv4() {
        (l3 + 12, 4)
    } else {
        (l3 + 8, 16)
    };
    headers.ports(bytes)?;
    let l4 = usize::from(headers.l4);
    let mut answer = bytes.to_vec();
    swap(&mut answer, at, width)?;
    swap(&mut answer, l4, 2)?;
    if headers.is_tcp() {
        swap(&mut answer, l4 + 4, 4)?;
        *answer.get_mut(l4 + 13)? = flags & 0x3f;
    }
    let headers = parse(&answer, link, &ParseOptions::default()).ok()?;
    checksum::fill(&mut answer, &headers);
    Some(answer)
}

fn swap(bytes: &mut [u8], at: usize, width: usize) -> Option<()> {
    let (a, b) = bytes.get_mut(at..at + 2 * width)?.split_at_mut(width);
    a.swap_with_slice(b);
    Some(())
}

/// An ICMP error about an Ethernet frame with IP.
pub fn error(bytes: &[u8], link: LinkType, code: u8) -> Option<Vec<u8>> {
    let headers = headers(bytes, link)?;
    let l3 = usize::from(headers.l3);
    let quoted = bytes.get(l3..(usize::from(headers.l4) + 8).min(bytes.len()))?;
    let address = |at: usize, width: usize| -> Option<String> {
        let octets = bytes.get(at..at + width)?;
        Some(match <[u8; 4]>::try_from(octets) {
            Ok(four) => format!("{}:0", std::net::Ipv4Addr::from(four)),
            Err(_) => format!(
                "[{}]:0",
                std::net::Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?)
            ),
        })
    };
    let (source, destination, kind) = if headers.is_ipv4() {
        (
            address(l3 + 12, 4)?,
            address(l3 + 16, 4)?,
            if code & 16 == 0 { 3 } else { 11 },
        )
    } else if headers.is_ipv6() {
        (
            address(l3 + 8, 16)?,
            address(l3 + 24, 16)?,
            if code & 16 == 0 { 1 } else { 2 },
        )
    } else {
        return None;
    };
    Some(
        Craft::ping(&destination, &source)
            .icmp(kind, code & 15)
            .payload(quoted)
            .build(),
    )
}
