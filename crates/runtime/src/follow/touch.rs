//! What the engine itself keeps of a unit's flows, as bytes: all that a packet
//! changes where no function changes its state.
//!
//! ```text
//! number of the unit, number of records (32 bits),
//! records in a snapshot's order { touch }
//! ```

use crate::bytes::Reader;
use crate::runtime::Runtime;
use crate::snapshot::format::{put_touch, read_touch};
use crate::snapshot::{SnapshotError, checked_touches};

impl Runtime {
    /// Appends what the engine itself keeps of the unit's flows (times, clocks,
    /// phases): all that a packet changes where no function changes its state.
    /// Counters ([`weir_nf::Stats`]) are not in it: they travel with the next
    /// whole state. Nothing where the unit has no flow.
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
        let mut touches = checked_touches(reader, opened.into_iter())?.into_iter();
        for (level, members) in members.iter().enumerate().rev() {
            for (&member, touch) in members.iter().zip(touches.by_ref()) {
                let Some(table) = &mut self.table else {
                    return Err(SnapshotError::NoFlow);
                };
                let records = match level.checked_sub(1) {
                    None => &mut table.flows,
                    Some(scope) => &mut table.scopes[scope].records,
                };
                read_touch(&mut Reader(touch), records.blocks.head_mut(member))?;
                if level == 0 {
                    table.wheel.remove(member);
                    table.watch(member);
                }
            }
        }
        Ok(())
    }
}
