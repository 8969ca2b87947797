//! Functions under other settings in the place of those that run, between two bursts.
//!
//! Flows, states, counters and tallies stay. Who calls has made sure that the functions may be
//! replaced ([`Processor::replaces`](weir_nf::host::Processor::replaces)), and keeps the old ones
//! until all engines have the new ones: freeing a large set of rules takes longer than a burst.

use weir_nf::host::NewFunction;

use crate::runtime::Runtime;

impl Runtime {
    /// Puts functions in the places of those of their names, where it has them: how many.
    pub fn replace(&mut self, functions: &[NewFunction]) -> usize {
        let mut replaced = 0;
        for new in functions {
            let Some(node) = self.functions.named_mut(&new.name) else {
                continue;
            };
            debug_assert_eq!(
                node.processor.descriptor().name,
                new.processor.descriptor().name,
                "a function is replaced by one of its kind"
            );
            node.space = new.processor.work_space();
            node.processor = new.processor.clone();
            replaced += 1;
        }
        replaced
    }
}
