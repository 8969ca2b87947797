//! Bytes that wait for earlier ones, in one side buffer.
//!
//! The buffer is a list of ranges in the order of the stream that neither
//! overlap nor touch, each an eight-byte head (sequence number, length) with
//! its bytes behind it. Ranges that come to touch become one, so their number
//! is that of the holes, and it is bounded.

use weir_nf::{Buffer, BufferFull};

use super::segment::distance;

/// Most ranges of one stream.
pub(super) const MOST_RANGES: u16 = 256;
const HEAD: usize = 8;

/// Head of a range.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub(super) seq: u32,
    pub(super) len: u32,
}

impl Range {
    fn end(self) -> u32 {
        self.seq.wrapping_add(self.len)
    }
}

fn range_at(bytes: &[u8], at: usize) -> Option<Range> {
    let [a, b, c, d, e, f, g, h] = *bytes.get(at..)?.first_chunk::<HEAD>()?;
    Some(Range {
        seq: u32::from_le_bytes([a, b, c, d]),
        len: u32::from_le_bytes([e, f, g, h]),
    })
}

fn write_head(bytes: &mut [u8], at: usize, range: Range) {
    if let Some(head) = bytes.get_mut(at..at + HEAD) {
        let (seq, len) = head.split_at_mut(4);
        seq.copy_from_slice(&range.seq.to_le_bytes());
        len.copy_from_slice(&range.len.to_le_bytes());
    }
}

/// The first range.
#[inline]
pub(super) fn front(bytes: &[u8], ranges: u16) -> Option<Range> {
    if ranges == 0 {
        return None;
    }
    range_at(bytes, 0)
}

/// The bytes of the first range.
pub(super) fn front_bytes(bytes: &[u8], ranges: u16) -> &[u8] {
    front(bytes, ranges)
        .and_then(|range| bytes.get(HEAD..HEAD + range.len as usize))
        .unwrap_or(&[])
}

/// Takes the first range out.
pub(super) fn remove_front(ranges: &mut u16, buffer: &mut Buffer<'_>) {
    match front(buffer.as_slice(), *ranges) {
        Some(range) if *ranges > 1 => {
            buffer.consume(HEAD + range.len as usize);
            *ranges -= 1;
        }
        _ => {
            buffer.clear();
            *ranges = 0;
        }
    }
}

/// Adds those bytes that are not there yet.
pub(super) fn insert(
    mut seq: u32,
    mut bytes: &[u8],
    ranges: &mut u16,
    buffer: &mut Buffer<'_>,
) -> Result<(), BufferFull> {
    // The search goes on here: ranges before it end before `seq`.
    let (mut at, mut previous) = (0, None);
    while !bytes.is_empty() {
        let next = range_at(buffer.as_slice(), at);
        if let Some(next) = next
            && distance(next.seq, seq) <= 0
        {
            let covered = distance(next.end(), seq).max(0) as usize;
            let covered = covered.min(bytes.len());
            seq = seq.wrapping_add(covered as u32);
            bytes = bytes.get(covered..).unwrap_or(&[]);
            previous = Some(at);
            at += HEAD + next.len as usize;
            continue;
        }
        let room = next.map_or(bytes.len(), |next| distance(next.seq, seq) as usize);
        let (piece, rest) = bytes.split_at(room.min(bytes.len()));
        let joins_next = next.filter(|_| piece.len() == room);
        let before = previous
            .and_then(|p| Some((p, range_at(buffer.as_slice(), p)?)))
            .filter(|(_, range)| range.end() == seq);
        let count = piece.len() as u32;
        match (before, joins_next) {
            (Some((p, range)), joined) => {
                open(buffer, at, piece)?;
                let mut len = range.len + count;
                if let Some(next) = joined {
                    close(buffer, at + piece.len(), HEAD);
                    len += next.len;
                    *ranges -= 1;
                }
                let head = Range { len, ..range };
                write_head(buffer.as_mut_slice(), p, head);
                at = p;
            }
            (None, Some(next)) => {
                open(buffer, at + HEAD, piece)?;
                let len = next.len + count;
                write_head(buffer.as_mut_slice(), at, Range { seq, len });
            }
            (None, None) => {
                if *ranges >= MOST_RANGES {
                    return Err(BufferFull);
                }
                // Both at once: a failure must leave no half of a range.
                let old = buffer.len();
                buffer.resize(old + HEAD + piece.len())?;
                let all = buffer.as_mut_slice();
                all.copy_within(at..old, at + HEAD + piece.len());
                write_head(all, at, Range { seq, len: count });
                fill(all, at + HEAD, piece);
                *ranges += 1;
            }
        }
        // The walk goes on at the range that holds the piece now.
        seq = seq.wrapping_add(count);
        bytes = rest;
    }
    Ok(())
}

fn fill(all: &mut [u8], at: usize, piece: &[u8]) {
    if let Some(place) = all.get_mut(at..at + piece.len()) {
        place.copy_from_slice(piece);
    }
}

/// Puts `piece` in at `at`.
fn open(buffer: &mut Buffer<'_>, at: usize, piece: &[u8]) -> Result<(), BufferFull> {
    let old = buffer.len();
    buffer.resize(old + piece.len())?;
    let all = buffer.as_mut_slice();
    if at < old {
        all.copy_within(at..old, at + piece.len());
    }
    fill(all, at, piece);
    Ok(())
}

/// Takes `count` bytes out at `at`.
fn close(buffer: &mut Buffer<'_>, at: usize, count: usize) {
    let old = buffer.len();
    if at + count <= old {
        buffer.as_mut_slice().copy_within(at + count..old, at);
        // Shrinking needs no memory and so can't fail.
        let _ = buffer.resize(old - count);
    }
}
