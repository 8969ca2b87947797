//! Memory that a burst's packets will need, asked for ahead.

use weir_nf::host::BURST;

use super::FlowTable;
use super::index::NONE;
use super::records::ALIAS;
use crate::scratch::Lookup;

impl FlowTable {
    /// Looks the packets of `flows` up, and fetches `lines` lines of the blocks of their candidates,
    /// also behind aliases. A candidate has the hash of the key; the key itself is compared later.
    #[inline(never)]
    pub(crate) fn fetch(&self, lookups: &mut [Lookup; BURST], flows: u64, lines: usize) {
        let mut aliased = 0;
        let mut left = flows;
        while left != 0 {
            let i = left.trailing_zeros() as usize % BURST;
            left &= left - 1;
            let lookup = &mut lookups[i];
            let entry = self.flows.index.candidate(lookup.hash);
            lookup.candidate = entry;
            if entry & ALIAS == 0 {
                self.flows.blocks.prefetch(entry, lines);
            } else if entry != NONE {
                self.aliases.prefetch(entry & !ALIAS);
                aliased |= 1 << i;
            }
        }
        self.of_each(lookups, aliased, |table, flow| {
            table.flows.blocks.prefetch(flow, lines);
        });
    }

    /// The flow that an index entry, fetched before, stands for.
    #[inline(always)]
    fn flow_behind(&self, entry: u32) -> Option<u32> {
        if entry & ALIAS == 0 {
            return Some(entry);
        }
        let alias = (entry != NONE).then(|| self.aliases.get(entry & !ALIAS))?;
        (!alias.open).then_some(alias.owner)
    }

    /// Fetches the blocks of the units of the packets of `flows`, whose candidates are known.
    #[inline(never)]
    pub(crate) fn fetch_units(&self, lookups: &[Lookup; BURST], flows: u64) {
        self.of_each(lookups, flows, |table, flow| {
            if let Some(cold) = table.flows.cold.get(flow as usize) {
                weir_packet::prefetch::read(cold);
            }
        });
        self.of_each(lookups, flows, |table, flow| {
            let mut parent = table.flows.cold.get(flow as usize).map_or(0, |c| c.parent);
            for (number, scope) in table.scopes.iter().enumerate() {
                let Some(record) = parent.checked_sub(1) else {
                    return;
                };
                let records = &scope.records;
                records.blocks.prefetch(record, records.blocks.stride());
                if number + 1 == table.scopes.len() {
                    return;
                }
                parent = records.cold.get(record as usize).map_or(0, |c| c.parent);
            }
        });
    }

    #[inline(always)]
    fn of_each(&self, lookups: &[Lookup; BURST], mut flows: u64, fetch: impl Fn(&FlowTable, u32)) {
        while flows != 0 {
            let i = flows.trailing_zeros() as usize % BURST;
            flows &= flows - 1;
            if let Some(flow) = self.flow_behind(lookups[i].candidate) {
                fetch(self, flow);
            }
        }
    }
}
