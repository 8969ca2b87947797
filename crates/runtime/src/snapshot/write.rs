//! From a unit to a snapshot's bytes.

use std::collections::BTreeMap;

use weir_packet::FlowKey;

use super::format::{MAGIC, MAGIC_3, put_touch};
use crate::bytes::{put_bytes, put_key};
use crate::flows::records::Records;
use crate::follow::Follow;
use crate::runtime::Runtime;

/// Records of a unit, by level: flows first.
pub(crate) type Members = Vec<Vec<u32>>;

impl Runtime {
    /// Records of level `level`: 0 for flows, n + 1 for scope number n.
    pub(crate) fn level(&self, level: usize) -> Option<&Records> {
        self.table.as_ref()?.level(level)
    }

    /// Records of the unit of the flow under `key`. Where units are wider than
    /// flows, by a walk over all flows.
    pub(super) fn members(&self, key: &FlowKey) -> Option<Members> {
        let table = self.table.as_ref()?;
        let flow = table.flow_of(key)?;
        if table.scopes.is_empty() {
            return Some(vec![vec![flow]]);
        }
        let root = table.root_of(0, flow)?;
        let flows = table.flows.live();
        let flows = flows.filter(|&flow| table.root_of(0, flow) == Some(root));
        Some(self.with_scopes(flows.collect()))
    }

    /// Records of a unit under a switch, flows in the order of their opening;
    /// `None` where it has no flow here.
    pub(crate) fn members_of(&self, unit: u64) -> Option<Members> {
        let follow = self.follow.as_ref()?;
        let flows: Vec<u32> = follow.units.flows(unit).collect();
        (!flows.is_empty()).then(|| self.with_scopes(flows))
    }

    /// Adds the records that these flows belong to, in the order of their
    /// first flows.
    fn with_scopes(&self, flows: Vec<u32>) -> Members {
        let scopes = self.table.as_ref().map_or(0, |table| table.scopes.len());
        let mut members = vec![flows];
        for level in 0..scopes {
            let Some(cold) = self.level(level).map(|records| &records.cold) else {
                break;
            };
            let mut seen = std::collections::BTreeSet::new();
            let above = members[level]
                .iter()
                .filter_map(|&record| cold.get(record as usize)?.parent.checked_sub(1))
                .filter(|&parent| seen.insert(parent))
                .collect();
            members.push(above);
        }
        members
    }

    /// Appends the whole snapshot of a unit.
    pub(super) fn write(&self, unit: u64, members: &Members, out: &mut Vec<u8>) {
        let has_flow_states = self.functions.has_flow_states();
        out.extend_from_slice(if has_flow_states { MAGIC } else { MAGIC_3 });
        out.extend(unit.to_le_bytes());
        out.push(self.functions.nodes().len() as u8);
        for node in self.functions.nodes() {
            let layout = node.processor.state();
            put_bytes(out, node.name.as_bytes());
            out.push(node.scope.map_or(u8::MAX, |scope| scope as u8));
            out.extend(layout.version.to_le_bytes());
            out.extend(layout.bytes.to_le_bytes());
            out.extend(layout.stats_bytes.to_le_bytes());
            out.push(layout.buffers);
            if has_flow_states {
                out.extend(layout.flow_version.to_le_bytes());
                out.extend(layout.flow_bytes.to_le_bytes());
            }
        }
        out.push(members.len() as u8 - 1);
        for (level, records) in members.iter().enumerate().rev() {
            out.extend((records.len() as u32).to_le_bytes());
            let above = members.get(level + 1).into_iter().flatten();
            let above: BTreeMap<u32, u32> = above.copied().zip(0..).collect();
            for &record in records {
                self.write_record(level, record, &above, out);
            }
        }
        match &self.follow {
            Some(follow) => follow.write_datagrams(unit, &members[0], out),
            None => out.push(0),
        }
    }

    fn write_record(
        &self,
        level: usize,
        record: u32,
        above: &BTreeMap<u32, u32>,
        out: &mut Vec<u8>,
    ) {
        let (Some(records), Some(table)) = (self.level(level), &self.table) else {
            return;
        };
        let head = records.blocks.head(record);
        let cold = &records.cold[record as usize];
        let parent = cold.parent.checked_sub(1).and_then(|p| above.get(&p));
        out.extend(parent.copied().unwrap_or(u32::MAX).to_le_bytes());
        put_key(out, &head.key);
        out.extend(head.id.to_le_bytes());
        put_touch(out, head, cold.opened);
        let aliases = table.aliases_from(cold.aliases);
        let count_at = out.len();
        out.extend(0u32.to_le_bytes());
        let mut count = 0u32;
        for alias in aliases {
            put_key(out, &alias.key);
            out.push(alias.client as u8 | (alias.side as u8) << 1);
            count += 1;
        }
        out[count_at..count_at + 4].copy_from_slice(&count.to_le_bytes());
        let block = records.blocks.bytes(record);
        let part = |from: u32, len: u32| {
            let from = from as usize;
            block.get(from..from + len as usize).unwrap_or(&[])
        };
        for node in self.functions.nodes() {
            let (slot, layout) = (&node.slot, node.processor.state());
            if node.scope.map_or(0, |scope| scope + 1) != level {
                // A function of a wider scope keeps a mark in each flow, and a
                // state of it.
                let marked = level == 0 && head.opened & slot.flow_bit != 0;
                out.push(u8::from(marked));
                if marked {
                    out.extend_from_slice(part(slot.flow_state, layout.flow_bytes));
                }
                continue;
            }
            let opened = head.opened & slot.bit != 0;
            out.push(u8::from(opened));
            if !opened {
                continue;
            }
            out.extend_from_slice(part(slot.state, layout.bytes));
            out.extend_from_slice(part(slot.stats, layout.stats_bytes));
            for handle in part(slot.buffers, slot.buffer_count * 8).chunks_exact(8) {
                let mut word = [0; 8];
                word.copy_from_slice(handle);
                put_bytes(out, self.world.buffers.bytes(u64::from_ne_bytes(word)));
            }
            if level == 0 {
                out.extend_from_slice(part(slot.flow_state, layout.flow_bytes));
            }
        }
    }
}

impl Follow {
    /// Appends the datagrams that are remembered of the unit; `flows` are its records.
    fn write_datagrams(&self, unit: u64, flows: &[u32], out: &mut Vec<u8>) {
        let mut known = Vec::new();
        if let Some(unit) = self.units.get(unit) {
            known.extend(self.datagrams.of(unit).copied());
        }
        if known.is_empty() {
            out.push(0);
            return;
        }
        let numbers: BTreeMap<u32, u32> = flows.iter().copied().zip(0..).collect();
        out.push(known.len() as u8);
        for datagram in known.iter().rev() {
            for word in datagram.key.to_words() {
                out.extend(word.to_le_bytes());
            }
            out.extend(datagram.seen.to_le_bytes());
            // Every remembered flow lives: it takes its datagrams along.
            let flow = numbers.get(&datagram.flow.flow).copied();
            out.extend(flow.unwrap_or(0).to_le_bytes());
            out.push(datagram.flow.direction as u8);
        }
    }
}
