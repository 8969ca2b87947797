//! The changes of a packet that no function's state has, as bytes: the engine's own
//! records of a unit's flows, and the functions' counters.
//!
//! ```text
//! number of the unit, number of records (32 bits),
//! records in a snapshot's order { touch },
//! records in a snapshot's order { counters of the open slots }
//! ```
//!
//! Before version 3 of snapshots there was no second list: counters stay as they
//! are then.

use crate::bytes::Reader;
use crate::flows::HAS_TABLE;
use crate::runtime::Runtime;
use crate::snapshot::format::{put_touch, read_touch};
use crate::snapshot::{SnapshotError, checked_touches};

impl Runtime {
    /// Appends what the engine itself keeps of the unit's flows (times, clocks,
    /// phases) and the functions' counters ([`weir_nf::Stats`]): all that a
    /// packet changes where no function changes its state. Nothing where the
    /// unit has no flow.
    pub fn export_touch(&self, unit: u64, out: &mut Vec<u8>) {
        let Some(members) = self.members_of(unit) else {
            return;
        };
        let records: usize = members.iter().map(Vec::len).sum();
        out.extend(unit.to_le_bytes());
        out.extend((records as u32).to_le_bytes());
        for (level, members) in members.iter().enumerate().rev() {
            for &member in members {
                if let Some(records) = self.level(level) {
                    let opened = records.cold.get(member as usize).map_or(0, |c| c.opened);
                    put_touch(out, records.blocks.head(member), opened);
                }
            }
        }
        for (level, members) in members.iter().enumerate().rev() {
            for &member in members {
                self.each_counter(level, member, |counters| out.extend_from_slice(counters));
            }
        }
    }

    fn each_counter(&self, level: usize, record: u32, mut give: impl FnMut(&[u8])) {
        let Some(records) = self.level(level) else {
            return;
        };
        let block = records.blocks.bytes(record);
        for place in self
            .functions
            .counters_of(level, records.blocks.head(record).opened)
        {
            give(block.get(place).unwrap_or(&[]));
        }
    }

    /// Bytes of the counters of all records of a unit.
    fn counter_bytes(&self, members: &[Vec<u32>]) -> usize {
        let mut bytes = 0;
        for (level, members) in members.iter().enumerate() {
            for &member in members {
                self.each_counter(level, member, |counters| bytes += counters.len());
            }
        }
        bytes
    }

    fn install_counters(&mut self, members: &[Vec<u32>], mut counters: &[u8]) {
        for (level, members) in members.iter().enumerate().rev() {
            for &member in members {
                let opened = self
                    .level(level)
                    .map_or(0, |records| records.blocks.head(member).opened);
                let places: Vec<_> = self.functions.counters_of(level, opened).collect();
                let Some(table) = self.counts.internal.expect(self.table.as_mut(), HAS_TABLE)
                else {
                    return;
                };
                let records = table.level_mut(level);
                let block = records.blocks.bytes_mut(member);
                for place in places {
                    let split = counters.split_at_checked(place.len());
                    let split = self
                        .counts
                        .internal
                        .expect(split, "counters of the length checked");
                    let Some((own, rest)) = split else {
                        return;
                    };
                    counters = rest;
                    if let Some(place) = block.get_mut(place) {
                        place.copy_from_slice(own);
                    }
                }
            }
        }
    }

    /// A number that changes with the phases of the unit's flows, their time-outs, and what TCP
    /// segments are judged by.
    pub fn phases_of(&self, unit: u64) -> u64 {
        let mut sum = 0u64;
        let flows = self
            .members_of(unit)
            .and_then(|levels| levels.into_iter().next());
        for flow in flows.unwrap_or_default() {
            let Some(records) = self.level(0) else { break };
            let head = records.blocks.head(flow);
            let marks =
                u32::from_le_bytes([head.phase, head.bits, 0, 0]) | u32::from(head.tcp) << 16;
            let numbers = head
                .sent
                .iter()
                .chain(&head.acked)
                .chain([&head.idle_ms, &marks]);
            for number in numbers {
                sum = (sum.rotate_left(7) ^ u64::from(*number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            }
        }
        sum
    }

    /// Brings a unit that lives here up to date with the bytes of
    /// [`Runtime::export_touch`].
    ///
    /// # Errors
    ///
    /// They are damaged, the unit is not here, or a flow of it is not the one
    /// that they are of. Nothing has changed then.
    pub fn install_touch(&mut self, unit: u64, touch: &[u8]) -> Result<(), SnapshotError> {
        let members = self.members_of(unit).ok_or(SnapshotError::NoFlow)?;
        let mut reader = Reader(touch);
        let records: usize = members.iter().map(Vec::len).sum();
        if reader.u64()? != unit || reader.u32()? as usize != records {
            return Err(SnapshotError::Corrupt);
        }
        let opened: Vec<u64> = members
            .iter()
            .enumerate()
            .rev()
            .filter_map(|(level, members)| Some((self.level(level)?, members)))
            .flat_map(|(records, members)| {
                let cold = &records.cold;
                members
                    .iter()
                    .map(|&m| cold.get(m as usize).map_or(0, |c| c.opened))
            })
            .collect();
        let (touches, counters) = checked_touches(reader, opened.into_iter())?;
        if counters.is_some_and(|counters| counters.len() != self.counter_bytes(&members)) {
            return Err(SnapshotError::Corrupt);
        }
        let mut touches = touches.into_iter();
        for (level, members) in members.iter().enumerate().rev() {
            for (&member, touch) in members.iter().zip(touches.by_ref()) {
                let Some(table) = self.counts.internal.expect(self.table.as_mut(), HAS_TABLE)
                else {
                    return Err(SnapshotError::NoFlow);
                };
                let records = table.level_mut(level);
                read_touch(&mut Reader(touch), records.blocks.head_mut(member))?;
                if level == 0 {
                    table.wheel.remove(member);
                    table.watch(member);
                }
            }
        }
        if let Some(counters) = counters {
            self.install_counters(&members, counters);
        }
        Ok(())
    }
}
