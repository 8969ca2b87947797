//! The first look at a burst: headers, keys and hashes, packet by packet.

use weir_nf::host::BURST;
use weir_packet::{
    Direction, FlowKey, Frame, FrameMeta, Headers, KeyOptions, KeyOutcome, LinkType, Malformed,
    PLAINEST_L4, PacketMemory, ParseOptions, classify, frame_flags, key_of_plainest,
    parse_plainest,
};

use crate::flows::window::{self, Segment};
use crate::scratch::{Lead, Lookup};

/// How many frames ahead packets are prefetched.
pub(crate) const AHEAD: usize = 4;

/// Result of parsing a burst, as masks.
#[derive(Clone, Copy, Default)]
pub(crate) struct Kinds {
    /// Packets with a flow key.
    pub(crate) flows: u64,
    /// Later fragments: no ports, so no key.
    pub(crate) later: u64,
    /// Malformed packets, also those that a lenient parse accepts.
    pub(crate) faulty: u64,
    pub(crate) alive: u64,
    /// Bytes of all packets together: no mask.
    pub(crate) bytes: u64,
}

/// Output of [`look_for_keys`], by packet.
pub(crate) struct ParseOutput<'a> {
    pub(crate) headers: &'a mut [Headers; BURST],
    pub(crate) lookups: &'a mut [Lookup; BURST],
    pub(crate) faults: &'a mut [Malformed; BURST],
}

/// A burst, and how its packets are read.
#[derive(Clone, Copy)]
struct Burst<'a> {
    memory: &'a PacketMemory,
    frames: &'a [Frame],
    options: &'a ParseOptions,
    keys: &'a KeyOptions,
}

/// Parses the packets and computes their keys; `lead` says what a key leads to, and prefetches it. With `ACKS` the
/// numbers of TCP segments with ACK alone are noted. All packets are `alive`, also faulty ones: the
/// caller decides. Packets are parsed further than to [`weir_packet::Depth::L2`].
#[inline(always)]
pub(crate) fn look_for_keys<const ACKS: bool>(
    memory: &PacketMemory,
    frames: &[Frame],
    options: &ParseOptions,
    keys: &KeyOptions,
    looked: ParseOutput<'_>,
    lead: impl Fn(&FrameMeta, &FlowKey) -> Lead + Copy,
) -> Kinds {
    let mut kinds = Kinds::default();
    let n = frames.len().min(BURST);
    let frames = &frames[..n];
    let (all_headers, all_lookups) = (&mut looked.headers[..n], &mut looked.lookups[..n]);
    let burst = Burst {
        memory,
        frames,
        options,
        keys,
    };
    // Only packets without a key set a bit: they are rare.
    let mut keyless = 0;
    for i in 0..n {
        if let Some(next) = frames.get(i + AHEAD) {
            memory.prefetch(next);
        }
        let (meta, bytes) = memory.read(&frames[i]);
        kinds.bytes += u64::from(meta.len);
        let (headers, lookup) = (&mut all_headers[i], &mut all_lookups[i]);
        match parse_plainest(bytes, meta.link, options, headers) {
            Some(head) if meta.flags & frame_flags::TURNED == 0 => {
                if ACKS {
                    // Other protocols have no flags.
                    lookup.is_ack = window::has_ack_alone(headers.tcp_flags);
                    if lookup.is_ack
                        && let Some(tcp) = head[PLAINEST_L4..].first_chunk()
                    {
                        let length = headers.end.wrapping_sub(u32::from(headers.payload));
                        lookup.segment = Segment::of(tcp, length);
                    }
                }
                let (key, direction) = key_of_plainest(head, keys);
                let lead = lead(meta, &key);
                lookup.note(key, direction, lead);
            }
            _ => {
                let fault = &mut looked.faults[i];
                match look_closer(&burst, i, headers, lookup, fault, lead) {
                    Looked::Flow => {}
                    Looked::LaterFragment => {
                        (keyless, kinds.later) = (keyless | 1 << i, kinds.later | 1 << i)
                    }
                    Looked::NoKey => keyless |= 1 << i,
                    Looked::Faulty => {
                        (keyless, kinds.faulty) = (keyless | 1 << i, kinds.faulty | 1 << i)
                    }
                }
            }
        }
    }
    kinds.alive = crate::scratch::all(n);
    kinds.flows = kinds.alive & !keyless;
    if options.lenient {
        for (i, headers) in all_headers.iter().enumerate() {
            if let Some(fault) = headers.damage() {
                looked.faults[i] = fault;
                kinds.faulty |= 1 << i;
            }
        }
    }
    kinds
}

/// Result of [`look_closer`].
#[derive(Clone, Copy)]
enum Looked {
    Flow,
    LaterFragment,
    NoKey,
    Faulty,
}

/// What [`look_for_keys`] does, for a packet that is not as nearly all are. By itself, and with little
/// that the loop has in registers.
#[inline(never)]
fn look_closer(
    burst: &Burst<'_>,
    i: usize,
    headers: &mut Headers,
    lookup: &mut Lookup,
    fault: &mut Malformed,
    lead: impl Fn(&FrameMeta, &FlowKey) -> Lead,
) -> Looked {
    let (meta, bytes) = burst.memory.read(&burst.frames[i]);
    match classify(bytes, meta.link, burst.options, burst.keys, headers) {
        Ok(KeyOutcome::Flow(mut key, direction)) => {
            if meta.flags & frame_flags::TURNED != 0 {
                key = turned(&key, direction);
            }
            let lead = lead(meta, &key);
            lookup.note(key, direction, lead);
            lookup.is_ack = false;
            if window::is_ack_alone(headers)
                && let Some(segment) = Segment::read(bytes, headers)
            {
                (lookup.is_ack, lookup.segment) = (true, segment);
            }
            Looked::Flow
        }
        Ok(KeyOutcome::LaterFragment(_)) => Looked::LaterFragment,
        Ok(KeyOutcome::None) => Looked::NoKey,
        Err(found) => {
            *fault = found;
            *headers = unread(meta.link, bytes);
            Looked::Faulty
        }
    }
}

#[cold]
fn turned(key: &FlowKey, direction: Direction) -> FlowKey {
    key.turned(direction)
}

/// Headers of a packet that can't be parsed: link type and length only.
#[allow(clippy::field_reassign_with_default)] // a field is the parser's own
pub(crate) fn unread(link: LinkType, bytes: &[u8]) -> Headers {
    let mut headers = Headers::default();
    headers.end = bytes.len() as u32;
    headers.link = link;
    headers
}
