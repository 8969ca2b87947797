//! New flows of a unit, and packets in their flow.

use weir_nf::host::FlowHead;
use weir_packet::{Direction, Frame, FrameMeta, FramePool, PacketMemory, frame_flags};

use super::following;
use super::units::{BELONGINGS, mixed_id};
use super::{Turn, What};
use crate::drops::EngineDrop;
use crate::flows::HAS_TABLE;
use crate::open::Home;
use crate::runtime::Runtime;
use crate::scratch::Lookup;

impl Runtime {
    /// Opens a flow in the unit of packet `i`; where the packet goes to an
    /// open alias, in the finest scope's record `scope`. A table that is full
    /// refuses: no flow may end for another unit's sake.
    #[cold]
    #[allow(clippy::too_many_arguments)]
    pub(super) fn open_in_unit(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        frames: &mut [Frame],
        i: usize,
        direction: Direction,
        scope: Option<u32>,
        meta: &FrameMeta,
    ) -> Result<u32, EngineDrop> {
        let Lookup { key, .. } = self.scratch.lookups[i];
        let now = meta.time.0;
        let internal = &mut self.counts.internal;
        let Some((table, follow)) = following(internal, &mut self.table, &mut self.follow) else {
            return Err(EngineDrop::FlowTableFull);
        };
        let Some(unit) = follow.units.get(meta.unit) else {
            return Err(EngineDrop::NoSuchUnit);
        };
        let root = unit.root;
        let id = if table.scopes.is_empty() && unit.first == 0 {
            meta.unit
        } else {
            mixed_id(meta.unit, meta.clock, 0)
        };
        let hash = table.hash(&key);
        let flow = table
            .flows
            .open(&key, hash, id, now)
            .ok_or(EngineDrop::FlowTableFull)?;
        if meta.flags & frame_flags::AFTER_LOSS != 0 {
            table.flows.blocks.head_mut(flow).bits |= FlowHead::AFTER_LOSS;
        }
        self.begin_flow(flow, i, direction, scope.is_some(), meta.side, now);
        let joined = match scope {
            Some(scope) => self.join_unit(flow, scope),
            None => {
                let home = Home {
                    unit: meta.unit,
                    clock: meta.clock,
                    root,
                };
                self.join_units(pool, memory, frames, i, flow, direction, now, Some(home))
            }
        };
        let internal = &mut self.counts.internal;
        let Some((table, follow)) = following(internal, &mut self.table, &mut self.follow) else {
            return Err(EngineDrop::FlowTableFull);
        };
        if !joined {
            table.remove_flow(flow);
            return Err(EngineDrop::ScopeTableFull);
        }
        follow.units.add(meta.unit, flow);
        if let Some(root) = table.root_of(0, flow)
            && !table.scopes.is_empty()
            && let Some(unit) = follow.units.get_mut(meta.unit)
        {
            unit.root = root + 1;
        }
        if !self.world.silent {
            self.counts.open_flow();
        }
        Ok(flow)
    }

    /// Notes the opening of a flow that the switch may not know, or no more.
    #[cold]
    pub(super) fn note_opening(&mut self, i: usize, flow: u32) {
        if self.world.silent {
            return;
        }
        if let (Some(table), Some(follow)) = (&self.table, &mut self.follow) {
            let head = table.flows.blocks.head(flow);
            follow.turns.push(Turn {
                cause: i as u8,
                key: head.key,
                what: What::FlowOpened {
                    client_is_b: head.bits & FlowHead::CLIENT_IS_B != 0,
                },
            });
        }
    }

    /// Notes packet `i` in its flow and units: times, clocks, phase. All clocks
    /// are the switch's.
    pub(super) fn enter_in_unit(
        &mut self,
        i: usize,
        flow: u32,
        direction: Direction,
        meta: &FrameMeta,
        bytes: Option<&[u8]>,
    ) {
        let phase = |runtime: &Runtime| {
            let head = runtime.table.as_ref()?.flows.blocks.head(flow);
            Some((head.phase, head.tcp))
        };
        let before = phase(self);
        self.update_flow(i, flow, direction, meta.time.0, bytes);
        if phase(self) != before
            && let Some(follow) = &mut self.follow
        {
            // Functions see where a connection stands: who applies only the
            // packets that change a state needs this one too.
            follow.units.mark(meta.unit, BELONGINGS);
        }
        let clock = meta.clock;
        self.scratch.places[i].clock = clock;
        let Some(table) = self.counts.internal.expect(self.table.as_mut(), HAS_TABLE) else {
            return;
        };
        table.flows.blocks.head_mut(flow).clock = clock;
        if !table.scopes.is_empty() {
            crate::known::note_units(table, &mut self.scratch.units, i, flow, meta.time.0);
            table.set_clocks(&mut self.scratch.units, i, clock);
        }
    }
}
