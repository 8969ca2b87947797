//! The parser of a flow: its bytes in a side buffer, and the same alive.
//!
//! The parser's bytes are in a side buffer, and move with the flow: a head, a
//! snapshot, and the segments since, so that a segment costs its own length and
//! not that of the state. A parser that lives on in the work space spares
//! reading them. It belongs to one history of one flow: its token is computed
//! from all that the parser was given, and the one in the side buffer must be
//! the same.

use weir_dissect::{Dissector, Limits, Scratch as Means, Take};
use weir_nf::Buffer;
use weir_nf::prelude::*;
use weir_signatures::MessageState;

/// Parsers that live on in the work space of one runtime.
const LIVE: usize = 128;
/// Bytes of segments behind a snapshot; as many as the snapshot has, if that is more.
const LOG: usize = 4096;
/// Segments behind a snapshot, which bounds the work of reading them again.
const SEGMENTS: u32 = 64;
/// Version of what is in the side buffer; the snapshot has one of its own.
const VERSION: u32 = 2;
/// Bytes before those of a segment: their number, and the direction in the highest bit.
const MARK: usize = 4;
const TO_CLIENT: u32 = 1 << 31;

const LIMITS: Limits = Limits::DEFAULT;
/// Most bytes in the side buffer when the snapshot was just written.
pub(super) const MOST_BYTES: usize = size_of::<Head>() + LIMITS.snapshot_bytes();

/// First in the side buffer.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Head {
    version: u32,
    /// Bytes of the snapshot, which follows.
    snapshot: u32,
    /// Segments behind it.
    segments: u32,
    unused: u32,
    pub(super) token: u64,
    /// Rules that have matched on the current messages: to the server, to the client.
    pub(super) matched: [MessageState; 2],
}

impl Head {
    /// Of a flow that begins.
    pub(super) fn new(flow: u64) -> Head {
        Head {
            version: VERSION,
            token: flow,
            ..Head::default()
        }
    }
}

/// What a parser is given.
#[derive(Clone, Copy)]
pub(super) enum Input<'a> {
    /// The next bytes of a stream.
    Stream(&'a [u8]),
    /// A datagram.
    Datagram(&'a [u8]),
    /// So many bytes of a stream are lost.
    Gap(u64),
    /// The stream ends.
    End,
}

/// Parsers of one runtime, each in the place that its flow's number gives.
pub(super) struct Parsers {
    live: Vec<Option<Live>>,
    pub(super) means: Means,
    /// Bytes on their way into a side buffer.
    pub(super) saved: Vec<u8>,
}

/// A parser that lives on.
pub(super) struct Live {
    pub(super) flow: u64,
    pub(super) token: u64,
    pub(super) parser: Dissector,
}

impl Parsers {
    /// Room for parsers, where rules need them.
    pub(super) fn new(needed: bool) -> Parsers {
        let places = if needed { LIVE } else { 0 };
        Parsers {
            live: (0..places).map(|_| None).collect(),
            means: Means::default(),
            saved: Vec::new(),
        }
    }

    pub(super) fn place(&mut self, flow: u64) -> Option<&mut Option<Live>> {
        self.live.get_mut(flow as usize % LIVE)
    }

    /// The parser of this history of a flow, out of its place or out of `bytes`;
    /// `None` where another release wrote those.
    pub(super) fn get(&mut self, flow: u64, head: &Head, bytes: &[u8]) -> Option<Dissector> {
        let place = self.place(flow)?;
        if let Some(live) = place.take_if(|live| live.flow == flow)
            && live.token == head.token
        {
            return Some(live.parser);
        }
        if bytes.is_empty() {
            return Some(Dissector::new());
        }
        if head.version != VERSION {
            return None;
        }
        let (snapshot, mut log) = bytes
            .get(size_of::<Head>()..)?
            .split_at_checked(head.snapshot as usize)?;
        let mut parser = Dissector::load(snapshot, &LIMITS, &mut self.means).ok()?;
        while let Some((mark, rest)) = log.split_first_chunk::<MARK>() {
            let mark = u32::from_le_bytes(*mark);
            let (segment, rest) = rest.split_at_checked((mark & !TO_CLIENT) as usize)?;
            let to_server = mark & TO_CLIENT == 0;
            parser.stream(to_server, segment, &LIMITS, &mut self.means, &mut |_| {});
            log = rest;
        }
        Some(parser)
    }
}

/// Adds a segment behind the snapshot; false where a new snapshot is due.
pub(super) fn append(
    buffer: &mut Buffer<'_>,
    mut head: Head,
    to_server: bool,
    bytes: &[u8],
) -> bool {
    let start = size_of::<Head>() + head.snapshot as usize;
    let old = buffer.len();
    let new = old + MARK + bytes.len();
    let room = LOG.max(head.snapshot as usize);
    if old < start || new > start + room || head.segments == SEGMENTS || buffer.resize(new).is_err()
    {
        return false;
    }
    head.segments += 1;
    let mark = bytes.len() as u32 | if to_server { 0 } else { TO_CLIENT };
    let all = buffer.as_mut_slice();
    if let Some((front, (place, segment))) = all
        .split_at_mut_checked(old)
        .and_then(|(front, back)| Some((front, back.split_at_mut_checked(MARK)?)))
    {
        place.copy_from_slice(&mark.to_le_bytes());
        segment.copy_from_slice(bytes);
        head.write_to_prefix(front).is_ok()
    } else {
        false
    }
}

/// Writes the parser's state anew; false where there is no memory for it.
pub(super) fn snapshot(
    buffer: &mut Buffer<'_>,
    mut head: Head,
    parser: &Dissector,
    saved: &mut Vec<u8>,
) -> bool {
    saved.clear();
    parser.save(saved);
    (head.snapshot, head.segments) = (saved.len() as u32, 0);
    buffer.clear();
    buffer.extend(head.as_bytes()).is_ok() && buffer.extend(saved).is_ok()
}

/// The token of a history that goes on with these bytes. Which token comes is a
/// bijection of the one before, so that different histories stay apart.
fn next_token(token: u64, kind: u64, bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let step = |token: u64, word: u64| (token ^ word).wrapping_mul(ODD).rotate_left(29);
    let (words, rest) = bytes.as_chunks::<8>();
    let token = step(token, kind | (bytes.len() as u64) << 8);
    let token = words
        .iter()
        .fold(token, |token, word| step(token, u64::from_le_bytes(*word)));
    rest.iter()
        .fold(token, |token, &byte| step(token, u64::from(byte)))
}

/// A parser is given more; gives the token of its history.
pub(super) fn give(
    parser: &mut Dissector,
    (to_server, input): (bool, Input<'_>),
    token: u64,
    means: &mut Means,
    take: &mut Take<'_>,
) -> u64 {
    let kind = u64::from(!to_server);
    match input {
        Input::Stream(bytes) => {
            parser.stream(to_server, bytes, &LIMITS, means, take);
            next_token(token, kind, bytes)
        }
        Input::Datagram(bytes) => {
            parser.datagram(to_server, bytes, means, take);
            next_token(token, kind | 2, bytes)
        }
        Input::Gap(count) => {
            parser.gap(to_server, count, &LIMITS, means, take);
            next_token(token, kind | 4, &count.to_le_bytes())
        }
        Input::End => {
            parser.end(to_server, &LIMITS, means, take);
            next_token(token, kind | 8, &[])
        }
    }
}
