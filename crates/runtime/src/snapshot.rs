//! Snapshots: a unit with all its flows and states as bytes, and back.
//!
//! A unit is what moves: a flow, or with wider scopes the coarsest scope key
//! with everything below it. The bytes carry, for each function of the stage,
//! its name and the version and sizes of its state; a snapshot is refused for
//! another layout, never for newer settings. A state of an older version goes
//! through the function's `upgrade`.
//!
//! All numbers are little endian:
//!
//! ```text
//! magic, functions { name, scope, version, state, stats, buffers },
//! levels from the coarsest scope down to the flows {
//!     records { parent, key, times, phase, clock, aliases, slots } }
//! ```

use weir_nf::host::{AliasRequest, FlowHead};
use weir_packet::{Direction, FlowKey, Side};

use crate::flows::records::Records;
use crate::runtime::Runtime;

const MAGIC: &[u8; 8] = b"weirsn\x00\x01";

/// Why a snapshot was not made or not installed. After an error nothing has
/// changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// There is no flow under this key, or the stage keeps none.
    NoFlow,
    /// The bytes are no snapshot, or not all of one.
    Corrupt,
    /// The snapshot is of another stage; says what differs.
    Layout(String),
    /// This function has no way from the state's version to its own.
    Version(String),
    /// A flow, unit or alias of the snapshot exists here already.
    Exists,
    /// No record, alias or side buffer is free for it.
    Full,
}

impl core::fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            SnapshotError::NoFlow => f.write_str("there is no such flow"),
            SnapshotError::Corrupt => f.write_str("the bytes are no whole snapshot"),
            SnapshotError::Layout(what) => write!(f, "the snapshot is of another stage: {what}"),
            SnapshotError::Version(name) => {
                write!(f, "{name} can't make its state from that of the snapshot")
            }
            SnapshotError::Exists => f.write_str("a flow of the snapshot exists here already"),
            SnapshotError::Full => f.write_str("there is no room for the snapshot"),
        }
    }
}

impl std::error::Error for SnapshotError {}

/// One record, read and checked but not installed.
struct Wanted<'a> {
    parent: u32,
    head: FlowHead,
    opened: u64,
    view: u64,
    aliases: Vec<AliasRequest>,
    slots: Vec<Option<SlotBytes<'a>>>,
}

/// What one function keeps in a record.
struct SlotBytes<'a> {
    state: &'a [u8],
    stats: &'a [u8],
    buffers: Vec<&'a [u8]>,
}

/// What a snapshot says of a function.
struct Shape {
    version: u16,
    state: usize,
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], SnapshotError> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(SnapshotError::Corrupt)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| SnapshotError::Corrupt)
    }

    fn u8(&mut self) -> Result<u8, SnapshotError> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Result<u16, SnapshotError> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, SnapshotError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, SnapshotError> {
        self.array().map(u64::from_le_bytes)
    }

    /// A key whose end points are in their order.
    fn key(&mut self) -> Result<FlowKey, SnapshotError> {
        let mut words = [0; 6];
        for word in &mut words {
            *word = self.u64()?;
        }
        let key = FlowKey::from_words(words);
        let ((a, a_port), (b, b_port)) = (key.a(), key.b());
        let (proto, zone, chain) = (key.proto(), key.zone(), key.chain());
        let (same, way) = FlowKey::new(a, a_port, b, b_port, proto, zone, chain);
        let forms = [Direction::Forward, Direction::Reverse].map(|way| same.turned(way));
        if (same == key || forms.contains(&key)) && way == Direction::Forward {
            Ok(key)
        } else {
            Err(SnapshotError::Corrupt)
        }
    }
}

fn put_key(out: &mut Vec<u8>, key: &FlowKey) {
    for word in key.to_words() {
        out.extend(word.to_le_bytes());
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}

impl Runtime {
    /// The unit of the flow under `key` as bytes: its flows, states, counters,
    /// side buffers and aliases. Nothing changes here. With wider scopes the
    /// unit's flows are found by a walk over all flows.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::NoFlow`].
    pub fn export(&self, key: &FlowKey) -> Result<Vec<u8>, SnapshotError> {
        let members = self.members(key).ok_or(SnapshotError::NoFlow)?;
        let mut out = MAGIC.to_vec();
        out.push(self.nodes.len() as u8);
        for node in &self.nodes {
            let layout = node.processor.state();
            let name = node.name.as_bytes();
            put_bytes(&mut out, name);
            out.push(node.scope.map_or(u8::MAX, |scope| scope as u8));
            out.extend(layout.version.to_le_bytes());
            out.extend(layout.bytes.to_le_bytes());
            out.extend(layout.stats_bytes.to_le_bytes());
            out.push(layout.buffers);
        }
        out.push(members.len() as u8 - 1);
        for (scope, records) in members.iter().enumerate().rev() {
            out.extend((records.len() as u32).to_le_bytes());
            for &record in records {
                self.export_record(scope, record, &members, &mut out);
            }
        }
        Ok(out)
    }

    /// Records of level `level`: 0 for flows, n + 1 for scope number n.
    fn level(&self, level: usize) -> Option<&Records> {
        let table = self.table.as_ref()?;
        match level.checked_sub(1) {
            None => Some(&table.flows),
            Some(scope) => table.scopes.get(scope).map(|scope| &scope.records),
        }
    }

    /// Records of the unit of a flow, by level.
    pub(crate) fn members(&self, key: &FlowKey) -> Option<Vec<Vec<u32>>> {
        let table = self.table.as_ref()?;
        let flow = table.flow_of(key)?;
        let levels = table.scopes.len();
        let root_of = |flow: u32| {
            (0..levels).try_fold(flow, |record, level| {
                let parent = self.level(level)?.cold.get(record as usize)?.parent;
                parent.checked_sub(1)
            })
        };
        if levels == 0 {
            return Some(vec![vec![flow]]);
        }
        let root = root_of(flow)?;
        let mut members = vec![Vec::new(); levels + 1];
        members[0] = table
            .flows
            .live()
            .filter(|&flow| root_of(flow) == Some(root))
            .collect();
        for level in 0..levels {
            let cold = &self.level(level)?.cold;
            let parents = members[level].iter();
            let mut above: Vec<u32> = parents
                .filter_map(|&record| cold.get(record as usize)?.parent.checked_sub(1))
                .collect();
            above.sort_unstable();
            above.dedup();
            members[level + 1] = above;
        }
        Some(members)
    }

    fn export_record(&self, level: usize, record: u32, members: &[Vec<u32>], out: &mut Vec<u8>) {
        let (Some(records), Some(table)) = (self.level(level), &self.table) else {
            return;
        };
        let head = records.blocks.head(record);
        let cold = &records.cold[record as usize];
        let parent = cold.parent.checked_sub(1).and_then(|parent| {
            let above = members.get(level + 1)?;
            above.binary_search(&parent).ok()
        });
        out.extend(parent.map_or(u32::MAX, |p| p as u32).to_le_bytes());
        put_key(out, &head.key);
        out.extend(head.last_seen.to_le_bytes());
        out.extend(head.idle_ms.to_le_bytes());
        out.push(head.phase);
        out.push(head.bits & FlowHead::CLIENT_IS_B);
        out.extend(head.tcp.to_le_bytes());
        out.extend(head.id.to_le_bytes());
        out.extend(head.clock.to_le_bytes());
        out.extend(cold.opened.to_le_bytes());
        out.extend(cold.view.to_le_bytes());
        let aliases: Vec<_> = table.aliases_from(cold.aliases).collect();
        out.extend((aliases.len() as u32).to_le_bytes());
        for alias in aliases {
            put_key(out, &alias.key);
            out.push(alias.client as u8 | (alias.side as u8) << 1);
        }
        let block = records.blocks.bytes(record);
        for node in &self.nodes {
            let slot = &node.slot;
            if node.scope.map_or(0, |scope| scope + 1) != level {
                // A function of a wider scope keeps a mark in each flow.
                let marked = level == 0 && head.opened & slot.flow_bit != 0;
                out.push(u8::from(marked));
                continue;
            }
            let opened = head.opened & slot.bit != 0;
            out.push(u8::from(opened));
            if !opened {
                continue;
            }
            let layout = node.processor.state();
            let part = |from: u32, len: u32| {
                let from = from as usize;
                block.get(from..from + len as usize).unwrap_or(&[])
            };
            out.extend(part(slot.state, layout.bytes));
            out.extend(part(slot.stats, layout.stats_bytes));
            for handle in part(slot.buffers, slot.buffer_count * 8).chunks_exact(8) {
                let mut word = [0; 8];
                word.copy_from_slice(handle);
                put_bytes(out, self.world.buffers.bytes(u64::from_ne_bytes(word)));
            }
        }
    }

    /// Makes a unit out of what [`Runtime::export`] gave, here or in another
    /// runtime with the same stage.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`]; nothing has changed then.
    pub fn install(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        let mut reader = Reader(bytes);
        if reader.array::<8>()? != *MAGIC {
            return Err(SnapshotError::Corrupt);
        }
        let shapes = self.read_shapes(&mut reader)?;
        let scopes = self.table.as_ref().map_or(0, |table| table.scopes.len());
        if usize::from(reader.u8()?) != scopes {
            return Err(SnapshotError::Layout("its scopes".to_owned()));
        }
        // From the coarsest level down.
        let mut levels: Vec<Vec<Wanted<'_>>> = Vec::new();
        for level in (0..=scopes).rev() {
            let count = reader.u32()?;
            let above = levels.last().map_or(0, Vec::len);
            let mut records = Vec::new();
            for _ in 0..count {
                let record = self.read_record(&mut reader, level, &shapes)?;
                let top = level == scopes;
                let fits = if top {
                    record.parent == u32::MAX
                } else {
                    (record.parent as usize) < above
                };
                if !fits || (level > 1 && !record.aliases.is_empty()) {
                    return Err(SnapshotError::Corrupt);
                }
                records.push(record);
            }
            if records.is_empty() || (level == scopes && records.len() != 1) {
                return Err(SnapshotError::Corrupt);
            }
            levels.push(records);
        }
        if !reader.0.is_empty() || has_orphans(&levels) {
            return Err(SnapshotError::Corrupt);
        }
        self.place_all(&levels, &shapes)
    }

    fn read_shapes(&self, reader: &mut Reader<'_>) -> Result<Vec<Shape>, SnapshotError> {
        let other = |what: &str| Err(SnapshotError::Layout(what.to_owned()));
        if usize::from(reader.u8()?) != self.nodes.len() {
            return other("its number of functions");
        }
        let mut shapes = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let length = reader.u32()? as usize;
            let name = reader.take(length)?;
            let scope = reader.u8()?;
            let version = reader.u16()?;
            let state = reader.u32()? as usize;
            let stats = reader.u32()?;
            let buffers = reader.u8()?;
            let layout = node.processor.state();
            if name != node.name.as_bytes() {
                let name = String::from_utf8_lossy(name);
                return other(&format!("{name} in the place of {}", node.name));
            }
            if scope != node.scope.map_or(u8::MAX, |scope| scope as u8) {
                return other(&format!("the scope of {}", node.name));
            }
            if stats != layout.stats_bytes || buffers != layout.buffers {
                return other(&format!("the counters or buffers of {}", node.name));
            }
            if version == layout.version && state != layout.bytes as usize {
                return other(&format!("the state of {}", node.name));
            }
            shapes.push(Shape { version, state });
        }
        Ok(shapes)
    }

    fn read_record<'a>(
        &self,
        reader: &mut Reader<'a>,
        level: usize,
        shapes: &[Shape],
    ) -> Result<Wanted<'a>, SnapshotError> {
        let parent = reader.u32()?;
        let key = reader.key()?;
        let mut head = FlowHead {
            key,
            last_seen: reader.u64()?,
            idle_ms: reader.u32()?,
            phase: reader.u8()?,
            bits: reader.u8()?,
            tcp: reader.u16()?,
            id: reader.u64()?,
            clock: reader.u64()?,
            opened: 0,
            changed: 0,
        };
        if head.phase > 4 || head.bits & !FlowHead::CLIENT_IS_B != 0 || head.id == u64::MAX {
            return Err(SnapshotError::Corrupt);
        }
        if level == 0 && key.chain() != self.key.chain {
            return Err(SnapshotError::Layout("its chain".to_owned()));
        }
        let (opened, view) = (reader.u64()?, reader.u64()?);
        let mut aliases = Vec::new();
        for _ in 0..reader.u32()? {
            let key = reader.key()?;
            let bits = reader.u8()?;
            if bits > 3 {
                return Err(SnapshotError::Corrupt);
            }
            aliases.push(AliasRequest {
                flow: u32::MAX,
                key,
                client: if bits & 1 == 0 {
                    Direction::Forward
                } else {
                    Direction::Reverse
                },
                side: if bits & 2 == 0 {
                    Side::Inside
                } else {
                    Side::Outside
                },
                open: level == 1,
            });
        }
        let mut slots = Vec::with_capacity(shapes.len());
        for (node, shape) in self.nodes.iter().zip(shapes) {
            let here = node.scope.map_or(0, |scope| scope + 1) == level;
            let is_open = match reader.u8()? {
                0 => false,
                1 => true,
                _ => return Err(SnapshotError::Corrupt),
            };
            if !here {
                if is_open && level != 0 {
                    return Err(SnapshotError::Corrupt);
                }
                head.opened |= if is_open { node.slot.flow_bit } else { 0 };
            }
            if !here || !is_open {
                slots.push(None);
                continue;
            }
            head.opened |= node.slot.bit;
            let layout = node.processor.state();
            let state = reader.take(shape.state)?;
            let stats = reader.take(layout.stats_bytes as usize)?;
            let mut buffers = Vec::new();
            for _ in 0..layout.buffers {
                let length = reader.u32()? as usize;
                buffers.push(reader.take(length)?);
            }
            slots.push(Some(SlotBytes {
                state,
                stats,
                buffers,
            }));
        }
        head.changed = head.opened;
        Ok(Wanted {
            parent,
            head,
            opened,
            view,
            aliases,
            slots,
        })
    }

    /// Installs records that were checked, coarsest level first; takes them
    /// all back where one has no place.
    fn place_all(
        &mut self,
        levels: &[Vec<Wanted<'_>>],
        shapes: &[Shape],
    ) -> Result<(), SnapshotError> {
        let mut placed: Vec<Vec<u32>> = Vec::new();
        let mut result = Ok(());
        'all: for (depth, wanted) in levels.iter().enumerate() {
            let level = levels.len() - 1 - depth;
            placed.push(Vec::new());
            for record in wanted {
                let parent = depth
                    .checked_sub(1)
                    .and_then(|above| placed.get(above)?.get(record.parent as usize).copied());
                match self.place(level, record, parent, shapes, &mut placed[depth]) {
                    Ok(()) => {}
                    Err(error) => {
                        result = Err(error);
                        break 'all;
                    }
                }
            }
        }
        if result.is_err() {
            for (depth, records) in placed.iter().enumerate().rev() {
                for &record in records {
                    self.take_back(levels.len() - 1 - depth, record);
                }
            }
        }
        result
    }

    fn place(
        &mut self,
        level: usize,
        wanted: &Wanted<'_>,
        parent: Option<u32>,
        shapes: &[Shape],
        placed: &mut Vec<u32>,
    ) -> Result<(), SnapshotError> {
        let table = self.table.as_mut().ok_or(SnapshotError::NoFlow)?;
        let key = wanted.head.key;
        let hash = table.hash(&key);
        let taken = match level.checked_sub(1) {
            None => table.knows(&key),
            Some(scope) => table.scopes[scope].records.find(&key, hash).is_some(),
        };
        if taken {
            return Err(SnapshotError::Exists);
        }
        let records = match level.checked_sub(1) {
            None => &mut table.flows,
            Some(scope) => &mut table.scopes[scope].records,
        };
        let record = records
            .open(&key, hash, wanted.head.id, wanted.head.last_seen)
            .ok_or(SnapshotError::Full)?;
        placed.push(record);
        let head = records.blocks.head_mut(record);
        *head = FlowHead {
            bits: wanted.head.bits | FlowHead::LIVE,
            ..wanted.head
        };
        let cold = &mut records.cold[record as usize];
        cold.opened = wanted.opened;
        cold.view = wanted.view;
        cold.parent = parent.map_or(0, |parent| parent + 1);
        for ((node, shape), slot) in self.nodes.iter().zip(shapes).zip(&wanted.slots) {
            let Some(bytes) = slot else { continue };
            let layout = node.processor.state();
            let block = records.blocks.bytes_mut(record);
            let place = |from: u32, len: u32| from as usize..from as usize + len as usize;
            let state = block.get_mut(place(node.slot.state, layout.bytes));
            let made = state
                .is_some_and(|state| node.processor.upgrade(shape.version, bytes.state, state));
            if !made {
                return Err(SnapshotError::Version(node.name.clone()));
            }
            if let Some(stats) = block.get_mut(place(node.slot.stats, layout.stats_bytes)) {
                stats.copy_from_slice(bytes.stats);
            }
            let limit = node.processor.descriptor().buffer_bytes;
            for (i, content) in bytes.buffers.iter().enumerate() {
                let (mut handle, mut changed) = (0, false);
                let mut buffer = self.world.buffers.open(&mut handle, limit, &mut changed);
                buffer.extend(content).map_err(|_| SnapshotError::Full)?;
                let at = node.slot.buffers + i as u32 * 8;
                if let Some(place) = block.get_mut(place(at, 8)) {
                    place.copy_from_slice(&handle.to_ne_bytes());
                }
            }
        }
        table.reserve_id(wanted.head.id);
        if let Some(parent) = parent {
            // Level n + 1 is scope number n.
            table.scopes[level].records.cold[parent as usize].holders += 1;
        }
        if level == 0 {
            table.watch(record);
        }
        for alias in &wanted.aliases {
            if table.knows(&alias.key) {
                return Err(SnapshotError::Exists);
            }
            if !table.name(record, alias) {
                return Err(SnapshotError::Full);
            }
        }
        Ok(())
    }

    /// Takes a record away without telling any function, with its buffers and
    /// aliases.
    fn take_back(&mut self, level: usize, record: u32) {
        let Some(table) = self.table.as_mut() else {
            return;
        };
        let records = match level.checked_sub(1) {
            None => &mut table.flows,
            Some(scope) => &mut table.scopes[scope].records,
        };
        for node in &self.nodes {
            if node.scope.map_or(0, |scope| scope + 1) != level {
                continue;
            }
            for i in 0..node.slot.buffer_count {
                let at = (node.slot.buffers + i * 8) as usize;
                let mut word = [0; 8];
                if let Some(handle) = records.blocks.bytes(record).get(at..at + 8) {
                    word.copy_from_slice(handle);
                }
                self.world.buffers.release(&mut u64::from_ne_bytes(word));
            }
        }
        match level.checked_sub(1) {
            None => table.remove_flow(record),
            Some(scope) => table.remove_unit(scope, record),
        }
    }

    /// Forgets the unit of the flow under `key` without telling any function:
    /// it lives on elsewhere. False where there is none.
    pub fn forget(&mut self, key: &FlowKey) -> bool {
        let Some(members) = self.members(key) else {
            return false;
        };
        for (level, records) in members.iter().enumerate() {
            for &record in records {
                self.take_back(level, record);
            }
        }
        true
    }
}

/// True where a unit has no record below it: it would never end.
fn has_orphans(levels: &[Vec<Wanted<'_>>]) -> bool {
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
