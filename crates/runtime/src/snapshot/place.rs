//! From a snapshot, read and checked, to a unit.

use weir_nf::BufferPool;
use weir_nf::host::FlowHead;

use super::SnapshotError;
use super::format::{Parsed, Record, Shape, Slot, SlotBytes};
use crate::flows::HAS_TABLE;
use crate::follow::following;
use crate::fragments::Owner;
use crate::functions::RunNode;
use crate::runtime::Runtime;

impl Runtime {
    /// Refuses a snapshot of another stage.
    pub(super) fn check_stage(&self, parsed: &Parsed<'_>) -> Result<(), SnapshotError> {
        let other = |what: &str| Err(SnapshotError::Layout(what.to_owned()));
        if parsed.shapes.len() != self.functions.nodes().len() {
            return other("its number of functions");
        }
        for (node, shape) in self.functions.nodes().iter().zip(&parsed.shapes) {
            let layout = node.processor.state();
            if shape.name != node.name.as_bytes() {
                let name = String::from_utf8_lossy(shape.name);
                return other(&format!("{name} in the place of {}", node.name));
            }
            if shape.scope != node.scope.map_or(u8::MAX, |scope| scope as u8) {
                return other(&format!("the scope of {}", node.name));
            }
            if shape.stats != layout.stats_bytes as usize || shape.buffers != layout.buffers {
                return other(&format!("the counters or buffers of {}", node.name));
            }
            if shape.version == layout.version && shape.state != layout.bytes as usize {
                return other(&format!("the state of {}", node.name));
            }
            let same = shape.flow_state == layout.flow_bytes as usize;
            if shape.flow_version == layout.flow_version && !same {
                return other(&format!("the flow state of {}", node.name));
            }
        }
        let scopes = self.table.as_ref().map_or(0, |table| table.scopes.len());
        if parsed.levels.len() != scopes + 1 {
            return other("its scopes");
        }
        if parsed
            .flows()
            .iter()
            .any(|flow| flow.head.key.chain() != self.reading.key().chain)
        {
            return other("its chain");
        }
        Ok(())
    }

    /// Installs all records, coarsest level first, in unit `unit` (0: this
    /// engine is alone); takes them all back where one has no place.
    pub(super) fn place_all(
        &mut self,
        unit: u64,
        parsed: &Parsed<'_>,
    ) -> Result<(), SnapshotError> {
        let mut placed: Vec<Vec<u32>> = Vec::new();
        let mut result = Ok(());
        let levels = parsed.levels.len();
        'all: for (depth, wanted) in parsed.levels.iter().enumerate() {
            placed.push(Vec::new());
            for record in wanted {
                let parent = depth
                    .checked_sub(1)
                    .and_then(|above| placed.get(above)?.get(record.parent as usize).copied());
                let level = levels - 1 - depth;
                let done = self.place(
                    unit,
                    level,
                    record,
                    parent,
                    &parsed.shapes,
                    &mut placed[depth],
                );
                if let Err(error) = done {
                    result = Err(error);
                    break 'all;
                }
            }
        }
        if result.is_ok() {
            self.place_datagrams(unit, parsed, placed.last().map_or(&[], |flows| &flows[..]));
        } else {
            for (depth, records) in placed.iter().enumerate().rev() {
                for &record in records {
                    self.take_back(levels - 1 - depth, record);
                }
            }
        }
        result
    }

    fn place_datagrams(&mut self, unit: u64, parsed: &Parsed<'_>, flows: &[u32]) {
        if parsed.datagrams.is_empty() {
            return;
        }
        let internal = &mut self.counts.internal;
        let Some((table, follow)) = following(internal, &mut self.table, &mut self.follow) else {
            return;
        };
        let known = follow.units.get_mut(unit);
        let Some(known) = self
            .counts
            .internal
            .expect(known, "the unit's place was made its own")
        else {
            return;
        };
        for datagram in &parsed.datagrams {
            // `Parsed::of` has refused others.
            let flow = flows[datagram.flow as usize];
            let owner = Owner {
                flow,
                id: table.flows.blocks.head(flow).id,
                direction: datagram.direction,
            };
            let noted = follow
                .datagrams
                .first(known, datagram.key, owner, datagram.seen);
            let forgotten = u64::from(!noted);
            self.counts.so_far.datagrams_forgotten += forgotten;
        }
    }

    fn place(
        &mut self,
        unit: u64,
        level: usize,
        wanted: &Record<'_>,
        parent: Option<u32>,
        shapes: &[Shape<'_>],
        placed: &mut Vec<u32>,
    ) -> Result<(), SnapshotError> {
        let table = self.table.as_mut().ok_or(SnapshotError::NoFlow)?;
        let key = wanted.head.key;
        let hash = table.hash(&key);
        let taken = match level.checked_sub(1) {
            // Under a switch names are those of a unit, and this one is new.
            _ if unit != 0 => false,
            None => table.knows(&key),
            Some(scope) => table.scopes[scope].records.find(&key, hash).is_some(),
        };
        if taken {
            return Err(SnapshotError::Exists);
        }
        let records = table.level_mut(level);
        let record = records
            .open(&key, hash, wanted.head.id, wanted.head.last_seen)
            .ok_or(SnapshotError::Full)?;
        placed.push(record);
        if let Some(follow) = &mut self.follow
            && level == 0
        {
            follow.units.add(unit, record);
        }
        let head = records.blocks.head_mut(record);
        *head = FlowHead {
            bits: wanted.head.bits | FlowHead::LIVE,
            ..wanted.head
        };
        let cold = &mut records.cold[record as usize];
        cold.opened = wanted.opened;
        cold.parent = parent.map_or(0, |parent| parent + 1);
        for ((node, shape), slot) in self.functions.nodes().iter().zip(shapes).zip(&wanted.slots) {
            let (opened, changed) = slot.bits(node);
            let head = records.blocks.head_mut(record);
            head.opened |= opened;
            head.changed |= changed;
            let block = records.blocks.bytes_mut(record);
            if let Slot::Open(bytes) = slot {
                place_slot(node, shape, bytes, block, &mut self.world.buffers)?;
            }
            if let Some(flow_state) = slot.flow_state(level) {
                place_flow_state(node, shape, flow_state, block)?;
            }
        }
        if unit == 0 {
            table.reserve_id(wanted.head.id);
        }
        if let Some(parent) = parent {
            // Level n + 1 is scope number n.
            table.scopes[level].records.cold[parent as usize].holders += 1;
        }
        if level == 0 {
            table.watch(record);
        }
        // A new name goes to the front of the list.
        for alias in wanted.aliases.iter().rev() {
            if unit == 0 && table.knows(&alias.key) {
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
    pub(super) fn take_back(&mut self, level: usize, record: u32) {
        let Some(table) = self.counts.internal.expect(self.table.as_mut(), HAS_TABLE) else {
            return;
        };
        let records = table.level_mut(level);
        for node in self.functions.nodes() {
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
            None => {
                if let Some(follow) = &mut self.follow {
                    follow.take_out(record);
                }
                table.remove_flow(record);
            }
            Some(scope) => table.remove_unit(scope, record),
        }
    }
}

/// Writes a function's state, counters and buffers into a block.
fn place_slot(
    node: &RunNode,
    shape: &Shape<'_>,
    bytes: &SlotBytes<'_>,
    block: &mut [u8],
    buffers: &mut BufferPool,
) -> Result<(), SnapshotError> {
    let layout = node.processor.state();
    let place = |from: u32, len: u32| from as usize..from as usize + len as usize;
    let state = block.get_mut(place(node.slot.state, layout.bytes));
    if !state.is_some_and(|state| node.processor.upgrade(shape.version, bytes.state, state)) {
        return Err(SnapshotError::Version(node.name.clone()));
    }
    if let Some(stats) = block.get_mut(place(node.slot.stats, layout.stats_bytes)) {
        stats.copy_from_slice(bytes.stats);
    }
    let limit = node.processor.descriptor().buffer_bytes;
    for (i, content) in bytes.buffers.iter().enumerate() {
        let (mut handle, mut changed) = (0, false);
        let mut buffer = buffers.open(&mut handle, limit, &mut changed);
        buffer.extend(content).map_err(|_| SnapshotError::Full)?;
        let at = node.slot.buffers + i as u32 * 8;
        if let Some(place) = block.get_mut(place(at, 8)) {
            place.copy_from_slice(&handle.to_ne_bytes());
        }
    }
    Ok(())
}

/// Writes what a function remembers of a flow into the flow's block. A snapshot of
/// a stage without flow states has none: they are all zeros then.
fn place_flow_state(
    node: &RunNode,
    shape: &Shape<'_>,
    from: &[u8],
    block: &mut [u8],
) -> Result<(), SnapshotError> {
    let layout = node.processor.state();
    if layout.flow_bytes == 0 || shape.flow_state == 0 && shape.flow_version == 0 {
        return Ok(());
    }
    let start = node.slot.flow_state as usize;
    let place = block.get_mut(start..start + layout.flow_bytes as usize);
    let upgrade = |place| node.processor.upgrade_flow(shape.flow_version, from, place);
    if place.is_some_and(upgrade) {
        Ok(())
    } else {
        Err(SnapshotError::Version(node.name.clone()))
    }
}
