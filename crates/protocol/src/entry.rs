//! Entries in their two forms: frames (rings) and messages (streams).

use weir_packet::{Frame, FrameMeta, FramePool, NoFrame, PacketMemory};

use crate::ids::{Clock, UnitId, View};
use crate::message::{Entry, EntryBatch, Message, Part, StateUpdate};

/// A frame's content as a part of an entry. Only a frame that has left with
/// bytes keeps them: those of a dropped packet are nobody's business.
pub fn to_part(memory: &PacketMemory, frame: &Frame) -> Part {
    let (meta, bytes) = memory.read(frame);
    let keeps = !matches!(
        meta.disposition,
        weir_packet::Disposition::Dropped | weir_packet::Disposition::Applied
    );
    Part {
        disposition: meta.disposition,
        time: meta.time,
        sequence: meta.sequence,
        flags: meta.flags,
        side: meta.side,
        port: meta.port,
        link: meta.link,
        dlt: meta.dlt,
        wire_len: meta.wire_len,
        path: meta.path(),
        bytes: if keeps { bytes.to_vec() } else { Vec::new() },
    }
}

/// A frame of `pool` with a part of an entry (or a packet to apply).
///
/// # Errors
///
/// No frame is free.
pub fn to_frame(
    pool: &mut FramePool,
    (unit, view, clock): (UnitId, View, Clock),
    part: &Part,
) -> Result<Frame, NoFrame> {
    let mut meta = FrameMeta::received(part.time, 0);
    meta.sequence = part.sequence;
    meta.unit = unit.0;
    meta.view = view.0;
    meta.clock = clock.0;
    meta.disposition = part.disposition;
    meta.flags = part.flags;
    meta.side = part.side;
    meta.port = part.port;
    meta.link = part.link;
    meta.dlt = part.dlt;
    meta.set_path(part.path);
    let mut frame = pool.copy(&part.bytes, meta)?;
    let memory = pool.memory();
    let meta = memory.meta_mut(&mut frame);
    meta.wire_len = part.wire_len;
    Ok(frame)
}

/// Entries that are frames as batches, one per run of frames of one unit and view.
pub fn batches(memory: &PacketMemory, frames: &[Frame]) -> Vec<EntryBatch> {
    let mut batches: Vec<EntryBatch> = Vec::new();
    for frame in frames {
        let meta = memory.meta(frame);
        let (unit, view, clock) = (UnitId(meta.unit), View(meta.view), Clock(meta.clock));
        let part = to_part(memory, frame);
        let batch = match batches.last_mut() {
            Some(batch) if batch.unit == unit && batch.view == view => batch,
            _ => {
                batches.push(EntryBatch {
                    unit,
                    view,
                    clock,
                    state: StateUpdate::Omitted,
                    entries: Vec::new(),
                });
                match batches.last_mut() {
                    Some(batch) => batch,
                    None => continue,
                }
            }
        };
        batch.clock = clock;
        match batch.entries.last_mut() {
            Some(entry) if entry.clock == clock => entry.parts.push(part),
            _ => batch.entries.push(Entry {
                clock,
                parts: vec![part],
            }),
        }
    }
    batches
}

/// Batches as many as fit into messages of `longest` bytes, in order. A batch
/// that is longer goes alone.
pub fn bundles(batches: Vec<EntryBatch>, longest: usize) -> Vec<Vec<EntryBatch>> {
    let mut bundles: Vec<Vec<EntryBatch>> = Vec::new();
    let mut bytes = 0;
    for batch in batches {
        let more = batch.wire_len();
        match bundles.last_mut() {
            Some(bundle) if bytes + more <= longest => {
                bundle.push(batch);
                bytes += more;
            }
            _ => {
                bundles.push(vec![batch]);
                bytes = more;
            }
        }
    }
    bundles
}

/// Turns entries that are frames into messages of about `longest` bytes, or of
/// one entry that is longer; the frames go back to `pool`. For drivers whose way
/// to the switch takes no frames.
pub fn messages(pool: &mut FramePool, frames: &mut Vec<Frame>, longest: usize) -> Vec<Message> {
    let mut short: Vec<EntryBatch> = Vec::new();
    let whole = batches(pool.memory(), frames);
    pool.give_all(frames);
    for batch in whole {
        let mut bytes = 0;
        for entry in batch.entries {
            let more = entry.wire_len();
            bytes += more;
            match short.last_mut() {
                Some(last)
                    if (last.unit, last.view) == (batch.unit, batch.view) && bytes <= longest =>
                {
                    last.clock = entry.clock;
                    last.entries.push(entry);
                }
                _ => {
                    bytes = more;
                    short.push(EntryBatch {
                        clock: entry.clock,
                        entries: vec![entry],
                        state: StateUpdate::Omitted,
                        ..batch
                    });
                }
            }
        }
    }
    let bundles = bundles(short, longest);
    bundles.into_iter().map(Message::Entries).collect()
}
