//! The runtime that functions prefer as the owner of a flow.

use weir_nf::{Cluster, RuntimeId};
use weir_packet::FlowKey;

use crate::runtime::Runtime;

impl Runtime {
    /// The owner that the functions of the stage prefer for the flow under `key`: the
    /// answer of the first, in the order of the chain, that has one. `None`
    /// where there is no such flow or it may stay where it is.
    pub fn preferred_owner(&mut self, key: &FlowKey, cluster: &Cluster<'_>) -> Option<RuntimeId> {
        let flow = self.table.as_ref()?.flow_of(key)?;
        self.owner_for(flow, cluster)
    }

    /// The owner that the functions prefer for the unit, under a switch: the
    /// answer for the first of its flows for which one has an answer.
    pub fn preferred_owner_of(&mut self, unit: u64, cluster: &Cluster<'_>) -> Option<RuntimeId> {
        let known = self.follow.as_ref()?.units.get(unit)?;
        let (mut next, mut left) = (known.first.checked_sub(1), known.flows);
        while let Some(flow) = next {
            if let Some(owner) = self.owner_for(flow, cluster) {
                return Some(owner);
            }
            // Of most units there is one: no need to look for another.
            left = left.checked_sub(1).filter(|left| *left > 0)?;
            next = self.follow.as_ref()?.units.after(flow);
        }
        None
    }

    fn owner_for(&mut self, flow: u32, cluster: &Cluster<'_>) -> Option<RuntimeId> {
        let table = self.table.as_mut()?;
        self.functions.nodes().iter().find_map(|node| {
            let mut record = flow;
            if let Some(scope) = node.scope {
                let mut parent = table.flows.cold.get(record as usize)?.parent;
                for above in table.scopes.get(..=scope)? {
                    record = parent.checked_sub(1)?;
                    parent = above.records.cold.get(record as usize)?.parent;
                }
            }
            let records = match node.scope {
                None => &mut table.flows,
                Some(scope) => &mut table.scopes.get_mut(scope)?.records,
            };
            node.processor
                .preferred_owner(&mut records.blocks, record, &node.slot, cluster)
        })
    }
}
