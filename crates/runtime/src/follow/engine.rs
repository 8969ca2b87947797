//! The books of an engine under a switch: its units' names, changes of their states, and
//! their ends.

use weir_nf::CloseReason;
use weir_packet::FlowKey;

use super::following;
use super::names::Named;
use super::units::BELONGINGS;
use super::{Turn, What};
use crate::runtime::Runtime;

impl Runtime {
    /// Gives flows the names that one function asked for.
    #[cold]
    pub(crate) fn register_in_units(&mut self) {
        let internal = &mut self.counts.internal;
        let Some((table, follow)) = following(internal, &mut self.table, &mut self.follow) else {
            return self.clear_asked();
        };
        let mut asked = core::mem::take(&mut self.world.aliases.asked);
        let causes = self.world.aliases.causes.as_ref();
        for (number, request) in asked.iter().enumerate() {
            let cause = causes.and_then(|causes| causes.packets.get(number));
            match table.name_in(&follow.units, request) {
                Named::Had => {}
                Named::Refused => table.aliases_refused += u64::from(!self.world.silent),
                Named::New => {
                    let unit = follow.units.unit_of(request.flow).map_or(0, |u| u.id);
                    follow.units.mark(unit, BELONGINGS);
                    if !self.world.silent {
                        let key = table.flows.blocks.head(request.flow).key;
                        let cause = cause.copied().unwrap_or(0);
                        follow.named.push((cause, key, *request));
                    }
                }
            }
        }
        asked.clear();
        self.world.aliases.asked = asked;
        self.clear_asked();
    }

    /// True where the unit has a flow here.
    pub fn has_unit(&self, unit: u64) -> bool {
        let follow = self.follow.as_ref();
        follow.is_some_and(|follow| follow.units.has_flows(unit))
    }

    /// True where a function's state of the unit, the phase of a connection,
    /// or the set of its flows, aliases or fragments, is not what it was at the
    /// last call (or install).
    /// A state that was written with what it was has not changed, apart from
    /// the first time after one of the others has.
    pub fn take_changed(&mut self, unit: u64) -> bool {
        let follow = self.follow.as_mut();
        let Some(known) = follow.and_then(|follow| follow.units.get_mut(unit)) else {
            return false;
        };
        let changed = core::mem::take(&mut known.changed);
        if changed & BELONGINGS != 0 {
            known.fingerprint = 0;
        }
        if changed & BELONGINGS != 0 || changed == 0 {
            return changed != 0;
        }
        // Written, which is not to say changed.
        let now = self.fingerprint(unit);
        let follow = self.follow.as_mut();
        let Some(known) = follow.and_then(|follow| follow.units.get_mut(unit)) else {
            return true;
        };
        let before = core::mem::replace(&mut known.fingerprint, now);
        before != now
    }

    /// A number of 64 bits that stands for all that functions keep of a unit;
    /// never 0. It is keyed with the engine's seed.
    fn fingerprint(&self, unit: u64) -> u64 {
        let mut sum = self.world.seed;
        for (level, records) in self.members_of(unit).iter().flatten().enumerate() {
            for &record in records {
                self.add_fingerprint(level, record, &mut sum);
            }
        }
        sum.max(1)
    }

    fn add_fingerprint(&self, level: usize, record: u32, sum: &mut u64) {
        let Some(records) = self.level(level) else {
            return;
        };
        let opened = records.blocks.head(record).opened;
        add(sum, &opened.to_le_bytes());
        let block = records.blocks.bytes(record);
        let part = |from: u32, len: u32| {
            let from = from as usize;
            block.get(from..from + len as usize).unwrap_or(&[])
        };
        for node in self.functions.nodes() {
            let (slot, layout) = (&node.slot, node.processor.state());
            if level == 0 && layout.flow_bytes > 0 && opened & slot.flow_bit != 0 {
                add(sum, part(slot.flow_state, layout.flow_bytes));
            }
            if node.scope.map_or(0, |scope| scope + 1) != level || opened & slot.bit == 0 {
                continue;
            }
            add(sum, part(slot.state, layout.bytes));
            for handle in part(slot.buffers, slot.buffer_count * 8).chunks_exact(8) {
                let mut word = [0; 8];
                word.copy_from_slice(handle);
                add(sum, self.world.buffers.bytes(u64::from_ne_bytes(word)));
            }
        }
    }

    /// True where a packet may be applied twice in two places: no function
    /// takes a resource that flows share (ports of a NAT).
    pub fn is_replayable(&self) -> bool {
        !self
            .functions
            .nodes()
            .iter()
            .any(|node| node.processor.descriptor().shares)
    }

    /// Fetches what the first look at a unit's packet reads: a hint for one
    /// that is soon given to [`Runtime::apply`].
    #[inline]
    pub fn expect(&self, unit: u64) {
        if let Some(follow) = &self.follow {
            follow.units.fetch_shortcut(unit);
        }
    }

    /// The same for [`Runtime::preferred_owner_of`].
    pub fn expect_preference_of(&self, unit: u64) {
        if let Some(follow) = &self.follow {
            follow.units.fetch(unit);
        }
    }

    /// Port leases, to grant blocks and free ports.
    pub fn leases_mut(&mut self) -> &mut weir_nf::Leases {
        &mut self.world.leases
    }

    /// Notes the end of a flow that the packet in place `cause` of the burst
    /// has brought about. Nothing is noted where that packet is applied a
    /// second time, nor of an engine that stops.
    pub(crate) fn note_end(&mut self, cause: u8, key: FlowKey, why: CloseReason) {
        self.note_that(cause, key, What::FlowEnded, why);
    }

    /// The same for the open aliases of a record of scope number `scope`,
    /// which ends with its last flow.
    pub(crate) fn note_names_end(&mut self, scope: usize, record: u32, why: CloseReason) {
        let cause = self.world.cause();
        let mut link = self.table.as_ref().map_or(0, |table| {
            let records = table.scopes.get(scope).map(|scope| &scope.records.cold);
            let cold = records.and_then(|cold| cold.get(record as usize));
            cold.map_or(0, |cold| cold.aliases)
        });
        while let (Some(number), Some(table)) = (link.checked_sub(1), &self.table) {
            let alias = *table.aliases.get(number);
            link = alias.next;
            self.note_that(cause, alias.key, What::AliasEnded, why);
        }
    }

    fn note_that(&mut self, cause: u8, key: FlowKey, what: What, why: CloseReason) {
        let Some(follow) = &mut self.follow else {
            return;
        };
        follow.ends = follow.ends.wrapping_add(1);
        if !self.world.silent && why != CloseReason::Shutdown {
            follow.turns.push(Turn { cause, key, what });
        }
    }
}

/// Adds bytes, with their length, to a fingerprint: a folded multiplication
/// per word.
fn add(sum: &mut u64, bytes: &[u8]) {
    let mut mix = |word: u64| {
        let wide = u128::from(*sum ^ word) * 0x9e37_79b9_7f4a_7c15;
        *sum = (wide as u64 ^ (wide >> 64) as u64).wrapping_add(0x8cb9_2ba7_2f3d_8dd7);
    };
    mix(bytes.len() as u64);
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(u64::from_le_bytes(word));
    }
}
