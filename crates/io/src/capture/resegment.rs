//! The same byte streams in other segments.
//!
//! A function that reads TCP streams must find the same in them however they were cut.
//! [`resegment`] makes from one capture as many others as there are seeds.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::reader::Record;
use super::tcp_segment::{Endpoint, FIN, RST, SYN, Segment, URG};
use crate::generator::random::Random;

/// A captured packet that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRecord {
    /// When it was captured, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Its length on the wire in bytes.
    pub wire_len: u32,
    /// Link type (`LINKTYPE_*` of the tcpdump.org registry).
    pub dlt: u32,
    /// Index of its interface in the capture.
    pub interface: u32,
    /// The captured bytes.
    pub data: Vec<u8>,
}

impl From<Record<'_>> for OwnedRecord {
    fn from(record: Record<'_>) -> Self {
        Self {
            time_ns: record.time_ns,
            wire_len: record.wire_len,
            dlt: record.dlt,
            interface: record.interface,
            data: record.data.to_vec(),
        }
    }
}

/// How streams are disturbed. A percentage of 0 turns a disturbance off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResegmentOptions {
    /// Payload bytes of the new segments, drawn evenly; default 1 to 7. A lower bound of 0
    /// counts as 1, an empty range as its lower bound.
    pub sizes: RangeInclusive<u16>,
    /// Percent of the new segments that come later than they should; default 10.
    pub displaced_percent: u8,
    /// Over how many later segments of the same direction a displaced one moves at most;
    /// default 3. 1 swaps neighbours.
    pub max_distance: u8,
    /// Most segments displaced in one flow, both directions together; default 64.
    pub max_displaced_per_flow: u32,
    /// Percent of the new segments that come twice; default 5.
    pub duplicate_percent: u8,
    /// Percent of the new segments that also carry the first bytes of the next; default 10.
    pub overlap_percent: u8,
}

impl Default for ResegmentOptions {
    fn default() -> Self {
        Self {
            sizes: 1..=7,
            displaced_percent: 10,
            max_distance: 3,
            max_displaced_per_flow: 64,
            duplicate_percent: 5,
            overlap_percent: 10,
        }
    }
}

impl ResegmentOptions {
    /// Only cut: no segment is displaced, doubled or overlapping.
    pub fn cut_only() -> Self {
        Self {
            displaced_percent: 0,
            duplicate_percent: 0,
            overlap_percent: 0,
            ..Self::default()
        }
    }
}

/// State of one direction of a connection.
#[derive(Default)]
struct Direction {
    /// The receiver knows where the stream begins: segments may come out of order.
    begun: bool,
    /// Number of the current run of packets that follow one another without gap or repetition.
    run: u64,
    end: u32,
}

struct Piece {
    record: OwnedRecord,
    /// Run that the piece may be displaced within, and its flow.
    movable: Option<(u64, [Endpoint; 2])>,
}

/// Cuts each TCP segment of a capture into small ones, some of them displaced, doubled or
/// overlapping with the same bytes; the streams stay the same. Sequence numbers, lengths and
/// checksums are right.
///
/// Unchanged stay: all packets without a payload, with SYN, RST or URG, IP fragments, packets
/// that were not captured as a whole, packets in tunnels, and link types other than Ethernet
/// (with VLAN tags), raw IP, Linux cooked and BSD loopback. Never displaced are the segment with
/// FIN, and the first one of a stream whose SYN the capture lacks, since it alone tells where the
/// stream begins. No segment moves past a packet that is not the next data of its own direction,
/// nor past a retransmission, so where a stream contradicts itself it does so in the same order.
///
/// The times of the capture stay in order: a new segment gets that of the packet it was cut from,
/// or of the place it moved to.
pub fn resegment(
    packets: &[OwnedRecord],
    options: &ResegmentOptions,
    seed: u64,
) -> Vec<OwnedRecord> {
    let mut random = Random::new(seed);
    let mut pieces = cut_all(packets, options, &mut random);
    displace(&mut pieces, options, &mut random);
    pieces.into_iter().map(|piece| piece.record).collect()
}

fn cut_all(packets: &[OwnedRecord], options: &ResegmentOptions, random: &mut Random) -> Vec<Piece> {
    let mut directions: BTreeMap<(Endpoint, Endpoint), Direction> = BTreeMap::new();
    let mut pieces = Vec::with_capacity(packets.len());
    let mut runs = 0;
    for packet in packets {
        let Some(segment) = Segment::find(packet.dlt, &packet.data) else {
            pieces.push(unchanged(packet));
            continue;
        };
        let ends = (segment.source, segment.destination);
        let direction = directions.entry(ends).or_default();
        let flags = segment.flags();
        if flags & SYN != 0 {
            direction.begun = true;
            direction.end = segment.sequence().wrapping_add(1);
        }
        let length = segment.payload().len();
        if length == 0 || flags & (SYN | RST | URG) != 0 {
            pieces.push(unchanged(packet));
            continue;
        }
        if direction.run == 0 || segment.sequence() != direction.end {
            runs += 1;
            direction.run = runs;
        }
        direction.end = segment.sequence().wrapping_add(length as u32);
        let mut flow = [segment.source, segment.destination];
        flow.sort_unstable();
        cut(packet, &segment, options, random, |record, last| {
            let movable = direction.begun && !(last && flags & FIN != 0);
            direction.begun = true;
            pieces.push(Piece {
                record,
                movable: movable.then_some((direction.run, flow)),
            });
        });
    }
    pieces
}

fn unchanged(packet: &OwnedRecord) -> Piece {
    Piece {
        record: packet.clone(),
        movable: None,
    }
}

/// Cuts one packet; `give` gets each piece and whether it holds the payload's last byte.
fn cut(
    packet: &OwnedRecord,
    segment: &Segment<'_>,
    options: &ResegmentOptions,
    random: &mut Random,
    mut give: impl FnMut(OwnedRecord, bool),
) {
    let length = segment.payload().len();
    let smallest = (*options.sizes.start()).max(1);
    let largest = (*options.sizes.end()).max(smallest);
    let draw =
        |random: &mut Random| random.between(u32::from(smallest), u32::from(largest)) as usize;
    let mut start = 0;
    while start < length {
        let end = (start + draw(random)).min(length);
        let mut reach = end;
        if random.percent(options.overlap_percent) {
            reach = (end + random.between(1, u32::from(largest)) as usize).min(length);
        }
        let copies = 1 + u32::from(random.percent(options.duplicate_percent));
        for _ in 0..copies {
            if let Some(data) = segment.cut(start..reach) {
                let record = OwnedRecord {
                    wire_len: data.len() as u32,
                    data,
                    ..*packet
                };
                give(record, reach == length);
            }
        }
        start = end;
    }
}

/// Moves some pieces behind later ones of the same run.
fn displace(pieces: &mut [Piece], options: &ResegmentOptions, random: &mut Random) {
    let mut displaced: BTreeMap<[Endpoint; 2], u32> = BTreeMap::new();
    let mut at = 0;
    while let Some(rest) = pieces.get_mut(at..) {
        at += 1;
        let Some((run, flow)) = rest.first().and_then(|piece| piece.movable) else {
            if rest.is_empty() {
                break;
            }
            continue;
        };
        if !random.percent(options.displaced_percent) {
            continue;
        }
        let wanted = random.between(1, u32::from(options.max_distance.max(1))) as usize;
        let same_run = |piece: &&Piece| piece.movable.is_some_and(|(other, _)| other == run);
        let distance = rest
            .iter()
            .skip(1)
            .take(wanted)
            .take_while(same_run)
            .count();
        let count = displaced.entry(flow).or_default();
        if distance == 0 || *count >= options.max_displaced_per_flow {
            continue;
        }
        let moved = &mut rest[..=distance];
        *count += 1;
        for index in 0..distance {
            // The bytes move, the times stay, so that the capture remains in order of time.
            let (left, right) = moved.split_at_mut(index + 1);
            if let (Some(a), Some(b)) = (left.last_mut(), right.first_mut()) {
                std::mem::swap(&mut a.record, &mut b.record);
                std::mem::swap(&mut a.record.time_ns, &mut b.record.time_ns);
            }
        }
        at += distance;
    }
}
