//! A snapshot's bytes, read and checked for what does not depend on the stage.
//!
//! All numbers are little endian:
//!
//! ```text
//! magic, number of the unit (0: of an engine that is alone),
//! functions { name, scope, version, state, stats, buffers, flow version, flow state },
//! levels from the coarsest scope down to the flows {
//!     records { parent, key, id, touch, aliases, slots } },
//! datagrams { key, time, flow, direction }, oldest first
//! touch: last packet, idle, phase, bits, tcp, clock, first packet,
//!     sent by client and server, expected by client and server
//! ```
//!
//! Version 4 has the states that functions with a wider scope keep of each flow; version 3 is written
//! where there are none, and has no flow version and flow state. Before version 3 a touch ended with
//! the first packet: TCP's numbers are learned anew from the next segments then.

use weir_nf::host::{AliasRequest, FlowHead, NO_FLOW};
use weir_packet::{Direction, FragmentKey};
use zerocopy::FromZeros;

use super::error::SnapshotError;
use crate::bytes::{Damaged, Reader};
use crate::flows::window;
use crate::follow::datagrams::{PER_UNIT, direction_from};
use crate::functions::RunNode;
use crate::notes::client_and_side;

pub(super) const MAGIC: &[u8; 8] = b"weirsn\x00\x04";
/// Of stages that keep no flow states.
pub(super) const MAGIC_3: &[u8; 8] = b"weirsn\x00\x03";
const MAGIC_2: &[u8; 8] = b"weirsn\x00\x02";

/// Bytes of what the engine itself keeps of a record.
pub(crate) const TOUCH: usize = 48;
/// The same before version 3.
pub(crate) const TOUCH_2: usize = 32;

/// Bits of a head that travel.
const BITS: u8 = FlowHead::CLIENT_IS_B | FlowHead::AFTER_LOSS | FlowHead::WINDOW;

/// The layout of a function's states in a snapshot.
pub(super) struct Shape<'a> {
    pub(super) name: &'a [u8],
    /// Number of its wider scope; 255 for none.
    pub(super) scope: u8,
    pub(super) version: u16,
    pub(super) state: usize,
    pub(super) stats: usize,
    pub(super) buffers: u8,
    pub(super) flow_version: u16,
    pub(super) flow_state: usize,
}

impl Shape<'_> {
    /// Level of its records: 0 for flows, n + 1 for scope number n.
    fn level(&self) -> usize {
        match self.scope {
            u8::MAX => 0,
            scope => usize::from(scope) + 1,
        }
    }
}

/// The states of one function in a record.
pub(super) struct SlotBytes<'a> {
    pub(super) state: &'a [u8],
    pub(super) stats: &'a [u8],
    pub(super) buffers: Vec<&'a [u8]>,
    /// Its state per flow, where the record is a flow.
    pub(super) flow_state: &'a [u8],
}

/// A function's part of a record.
pub(super) enum Slot<'a> {
    /// Its states are in records of another level.
    Elsewhere,
    /// The same in a flow of which a packet has reached the function: what it
    /// remembers of the flow.
    OfFlow(&'a [u8]),
    /// It has no state here.
    Closed,
    Open(SlotBytes<'a>),
}

impl<'a> Slot<'a> {
    /// The bits of `opened` and of `changed` that a function with this part has in the record's head.
    pub(super) fn bits(&self, node: &RunNode) -> (u64, u64) {
        match self {
            Slot::Elsewhere | Slot::Closed => (0, 0),
            Slot::OfFlow(_) => (node.slot.flow_bit, 0),
            Slot::Open(_) => (node.slot.bit, node.slot.bit),
        }
    }

    /// The function's state of the flow itself, in a record of this level.
    pub(super) fn flow_state(&self, level: usize) -> Option<&'a [u8]> {
        match self {
            Slot::OfFlow(flow_state) => Some(flow_state),
            Slot::Open(bytes) if level == 0 => Some(bytes.flow_state),
            _ => None,
        }
    }
}

/// One record.
pub(super) struct Record<'a> {
    /// Number, in the level above, of the record that it belongs to.
    pub(super) parent: u32,
    /// Without what functions have opened.
    pub(super) head: FlowHead,
    pub(super) opened: u64,
    /// In the order of the list: the latest first.
    pub(super) aliases: Vec<AliasRequest>,
    pub(super) slots: Vec<Slot<'a>>,
    /// Offset of its touch.
    touch_at: usize,
}

/// A datagram whose first fragment was seen.
pub(super) struct DatagramBytes {
    pub(super) key: FragmentKey,
    pub(super) seen: u64,
    /// Number of its flow in the snapshot.
    pub(super) flow: u32,
    pub(super) direction: Direction,
}

/// A whole snapshot.
pub(super) struct Parsed<'a> {
    pub(super) unit: u64,
    /// Bytes of its touches: [`TOUCH`] or [`TOUCH_2`].
    pub(super) touch: usize,
    pub(super) shapes: Vec<Shape<'a>>,
    /// From the coarsest scope's one record down to the flows.
    pub(super) levels: Vec<Vec<Record<'a>>>,
    pub(super) datagrams: Vec<DatagramBytes>,
}

impl From<Damaged> for SnapshotError {
    fn from(_: Damaged) -> SnapshotError {
        SnapshotError::Corrupt
    }
}

impl<'a> Parsed<'a> {
    /// Reads all of `bytes`.
    pub(super) fn of(bytes: &'a [u8]) -> Result<Parsed<'a>, SnapshotError> {
        let mut reader = Reader(bytes);
        let (touch, has_flow_states) = match &reader.array::<8>()? {
            MAGIC => (TOUCH, true),
            MAGIC_3 => (TOUCH, false),
            MAGIC_2 => (TOUCH_2, false),
            _ => return Err(SnapshotError::Corrupt),
        };
        let unit = reader.u64()?;
        let mut shapes = Vec::new();
        for _ in 0..reader.u8()? {
            let mut shape = Shape {
                name: reader.counted()?,
                scope: reader.u8()?,
                version: reader.u16()?,
                state: reader.u32()? as usize,
                stats: reader.u32()? as usize,
                buffers: reader.u8()?,
                flow_version: 0,
                flow_state: 0,
            };
            if has_flow_states {
                shape.flow_version = reader.u16()?;
                shape.flow_state = reader.u32()? as usize;
            }
            shapes.push(shape);
        }
        let scopes = usize::from(reader.u8()?);
        let mut levels: Vec<Vec<Record<'a>>> = Vec::new();
        for level in (0..=scopes).rev() {
            let above = levels.last().map_or(0, Vec::len);
            let mut records = Vec::new();
            for _ in 0..reader.u32()? {
                let record = read_record(&mut reader, bytes.len(), level, &shapes, touch)?;
                let fits = if level == scopes {
                    record.parent == u32::MAX
                } else {
                    (record.parent as usize) < above
                };
                let named = level <= 1 || record.aliases.is_empty();
                let bits = level == 0 || record.head.bits == 0;
                if !fits || !named || !bits {
                    return Err(SnapshotError::Corrupt);
                }
                records.push(record);
            }
            // A wider unit is one record at the top.
            if records.is_empty() || (level == scopes && level > 0 && records.len() != 1) {
                return Err(SnapshotError::Corrupt);
            }
            levels.push(records);
        }
        let flows = levels.last().map_or(0, Vec::len);
        let mut datagrams = Vec::new();
        for _ in 0..reader.u8()? {
            datagrams.push(read_datagram(&mut reader, flows)?);
        }
        if !reader.0.is_empty() || datagrams.len() > PER_UNIT || has_orphans(&levels) {
            return Err(SnapshotError::Corrupt);
        }
        Ok(Parsed {
            unit,
            touch,
            shapes,
            levels,
            datagrams,
        })
    }

    /// The flows.
    pub(super) fn flows(&self) -> &[Record<'a>] {
        self.levels.last().map_or(&[], |flows| &flows[..])
    }

    /// Of each record, in the order of the bytes: where its touch begins, and
    /// the time of its first packet.
    pub(super) fn touches(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let records = self.levels.iter().flatten();
        records.map(|record| (record.touch_at, record.opened))
    }
}

fn read_record<'a>(
    reader: &mut Reader<'a>,
    total: usize,
    level: usize,
    shapes: &[Shape<'a>],
    touch: usize,
) -> Result<Record<'a>, SnapshotError> {
    let parent = reader.u32()?;
    let mut head = FlowHead::new_zeroed();
    head.key = reader.key()?;
    head.id = reader.u64()?;
    if head.id == u64::MAX {
        return Err(SnapshotError::Corrupt);
    }
    let touch_at = total - reader.0.len();
    let opened = read_touch(&mut Reader(reader.take(touch)?), &mut head)?;
    let mut aliases = Vec::new();
    for _ in 0..reader.u32()? {
        let (key, bits) = (reader.key()?, reader.u8()?);
        if bits > 3 {
            return Err(SnapshotError::Corrupt);
        }
        let (client, side) = client_and_side(bits);
        aliases.push(AliasRequest {
            flow: NO_FLOW,
            key,
            client,
            side,
            open: level == 1,
        });
    }
    let slots: Result<_, _> = shapes
        .iter()
        .map(|shape| read_slot(reader, level, shape))
        .collect();
    Ok(Record {
        parent,
        head,
        opened,
        aliases,
        slots: slots?,
        touch_at,
    })
}

/// Reads a function's part of a record of this level.
fn read_slot<'a>(
    reader: &mut Reader<'a>,
    level: usize,
    shape: &Shape<'a>,
) -> Result<Slot<'a>, SnapshotError> {
    let is_open = match reader.u8()? {
        0 => false,
        1 => true,
        _ => return Err(SnapshotError::Corrupt),
    };
    match (shape.level() == level, is_open) {
        (false, false) => Ok(Slot::Elsewhere),
        (false, true) if level == 0 => Ok(Slot::OfFlow(reader.take(shape.flow_state)?)),
        (false, true) => Err(SnapshotError::Corrupt),
        (true, false) => Ok(Slot::Closed),
        (true, true) => {
            let (state, stats) = (reader.take(shape.state)?, reader.take(shape.stats)?);
            let buffers: Result<_, _> = (0..shape.buffers).map(|_| reader.counted()).collect();
            let flow_state = if level == 0 { shape.flow_state } else { 0 };
            Ok(Slot::Open(SlotBytes {
                state,
                stats,
                buffers: buffers?,
                flow_state: reader.take(flow_state)?,
            }))
        }
    }
}

fn read_datagram(reader: &mut Reader<'_>, flows: usize) -> Result<DatagramBytes, SnapshotError> {
    let mut words = [0; 6];
    for word in &mut words {
        *word = reader.u64()?;
    }
    let (seen, flow) = (reader.u64()?, reader.u32()?);
    let direction = direction_from(reader.u8()?);
    match direction {
        Some(direction) if (flow as usize) < flows => Ok(DatagramBytes {
            key: FragmentKey::from_words(words),
            seen,
            flow,
            direction,
        }),
        _ => Err(SnapshotError::Corrupt),
    }
}

/// Appends what the engine itself keeps of a record.
pub(crate) fn put_touch(out: &mut Vec<u8>, head: &FlowHead, opened: u64) {
    out.extend(head.last_seen.to_le_bytes());
    out.extend(head.idle_ms.to_le_bytes());
    out.push(head.phase);
    out.push(head.bits & BITS);
    out.extend(head.tcp.to_le_bytes());
    out.extend(head.clock.to_le_bytes());
    out.extend(opened.to_le_bytes());
    for number in head.sent.iter().chain(&head.acked) {
        out.extend(number.to_le_bytes());
    }
}

/// Reads it back, from all that the reader has; other bits of `head` stay. Gives the time of the first
/// packet, which a touch does not change: one with another time is of another
/// life of the flow.
pub(crate) fn read_touch(
    reader: &mut Reader<'_>,
    head: &mut FlowHead,
) -> Result<u64, SnapshotError> {
    let (last_seen, idle_ms) = (reader.u64()?, reader.u32()?);
    let (phase, bits) = (reader.u8()?, reader.u8()?);
    let (tcp, clock) = (reader.u16()?, reader.u64()?);
    if phase > 4 || bits & !BITS != 0 || tcp & !window::MARKS != 0 {
        return Err(SnapshotError::Corrupt);
    }
    head.last_seen = last_seen;
    head.idle_ms = idle_ms;
    head.phase = phase;
    head.bits = head.bits & !BITS | bits;
    head.tcp = tcp;
    head.clock = clock;
    let opened = reader.u64()?;
    (head.sent, head.acked) = ([0; 2], [0; 2]);
    if reader.0.is_empty() {
        // Of an older version: the numbers are not known.
        head.bits &= !FlowHead::WINDOW;
    } else {
        for number in head.sent.iter_mut().chain(&mut head.acked) {
            *number = reader.u32()?;
        }
    }
    Ok(opened)
}

/// True where a unit has no record below it: it would never end.
fn has_orphans(levels: &[Vec<Record<'_>>]) -> bool {
    levels.windows(2).any(|pair| {
        let mut held = vec![false; pair[0].len()];
        for record in &pair[1] {
            if let Some(held) = held.get_mut(record.parent as usize) {
                *held = true;
            }
        }
        held.contains(&false)
    })
}
