//! The functions of a stage, in order, with what each counts and keeps.

use weir_nf::host::{
    Blocks, MAX_LABELS, Outcome, SharedProcessor, Slot, Stage, StageLayout, Target,
};
use weir_nf::{Scope, Tally, WorkSpace};
use weir_packet::Internal;
use weir_telemetry::Entry;

use crate::report::FunctionReport;
use crate::same_as::Remembered;

pub(crate) struct RunNode {
    pub(crate) name: String,
    pub(crate) processor: SharedProcessor,
    pub(crate) slot: Slot,
    /// Index of its wider scope.
    pub(crate) scope: Option<usize>,
    pub(crate) next: [Target; MAX_LABELS],
    /// The earlier function whose verdicts stand for this one's.
    pub(crate) same_as: Option<usize>,
    /// The labels and counts that a function which others name gave the burst.
    pub(crate) remembered: Option<Box<Remembered>>,
    pub(crate) labels: Vec<&'static str>,
    /// May change packets, and so their lengths.
    pub(crate) writes: bool,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) cycles: u64,
    pub(crate) dropped: u64,
    pub(crate) drops: Vec<u64>,
    pub(crate) label_drops: [u64; MAX_LABELS],
    pub(crate) counters: Vec<u64>,
    pub(crate) tally: Tally,
    pub(crate) space: WorkSpace,
}

impl RunNode {
    /// Name of a link.
    pub(crate) fn label(&self, label: usize) -> &'static str {
        let named = label.checked_sub(1).and_then(|i| self.labels.get(i));
        named.copied().unwrap_or("pass")
    }
}

/// The functions of a stage.
pub(crate) struct Functions {
    chain: String,
    /// Number of the first one in the whole plan.
    first: u8,
    nodes: Vec<RunNode>,
    /// One of them stands for another.
    has_same: bool,
    /// Empty blocks for the functions of a stage without flows.
    no_blocks: Blocks,
}

impl Functions {
    /// True if a function keeps a state of each flow beside that of its scope.
    pub(crate) fn has_flow_states(&self) -> bool {
        let mut nodes = self.nodes().iter();
        nodes.any(|node| node.processor.state().flow_bytes > 0)
    }

    /// Places in a record's block of the counters of its open slots, in a
    /// snapshot's order.
    pub(crate) fn counters_of(
        &self,
        level: usize,
        opened: u64,
    ) -> impl Iterator<Item = core::ops::Range<usize>> + '_ {
        let of_level = move |node: &&RunNode| {
            node.scope.map_or(0, |scope| scope + 1) == level && opened & node.slot.bit != 0
        };
        self.nodes().iter().filter(of_level).map(|node| {
            let from = node.slot.stats as usize;
            from..from + node.processor.state().stats_bytes as usize
        })
    }

    /// Those of `stage`; each takes its place in a layout, that of flows or that of
    /// its wider scope.
    pub(crate) fn new(
        stage: &Stage,
        scopes: &[(Scope, usize)],
        layout: &mut StageLayout,
        scope_layouts: &mut [StageLayout],
        seed: u64,
    ) -> Functions {
        let mut nodes = Vec::with_capacity(stage.nodes.len());
        for (number, node) in stage.nodes.iter().enumerate() {
            let descriptor = node.processor.descriptor();
            let scope = scopes
                .iter()
                .position(|(scope, _)| *scope == node.processor.scope());
            // A function that another stands for is not called, and has no state.
            let scope = scope.filter(|_| node.same_as.is_none());
            let mut slot = Slot::default();
            if node.same_as.is_none() {
                slot = node.processor.place(match scope {
                    Some(scope) => &mut scope_layouts[scope],
                    None => layout,
                });
            }
            if node.same_as.is_none() {
                let scoped = scope.is_some();
                node.processor.place_flow(layout, &mut slot, scoped);
            }
            let named = stage.nodes.iter().any(|n| n.same_as == Some(number));
            let counters = descriptor.counters.len();
            let first = node.next.first().copied().unwrap_or(Target::Out);
            let mut next = [first; MAX_LABELS];
            for (place, &target) in next.iter_mut().zip(&node.next) {
                *place = target;
            }
            nodes.push(RunNode {
                name: node.name.clone(),
                slot,
                scope,
                next,
                same_as: node.same_as,
                remembered: named.then(|| Box::new(Remembered::new(counters))),
                labels: descriptor.labels.to_vec(),
                writes: descriptor.writes != weir_nf::Parts::NONE,
                packets: 0,
                bytes: 0,
                cycles: 0,
                dropped: 0,
                drops: vec![0; descriptor.drops.len() + 1],
                label_drops: [0; MAX_LABELS],
                counters: vec![0; counters],
                tally: Tally::new(descriptor.tally as usize, seed),
                space: node.processor.work_space(),
                processor: node.processor.clone(),
            });
        }
        Functions {
            chain: stage.chain.clone(),
            first: stage.first,
            has_same: nodes.iter().any(|node: &RunNode| node.same_as.is_some()),
            nodes,
            no_blocks: Blocks::new(0, &StageLayout::default(), weir_packet::no_advice),
        }
    }

    /// Name of the chain.
    pub(crate) fn chain(&self) -> &str {
        &self.chain
    }

    /// Number of the first function in the whole plan.
    #[inline]
    pub(crate) fn first(&self) -> u8 {
        self.first
    }

    #[inline]
    pub(crate) fn nodes(&self) -> &[RunNode] {
        &self.nodes
    }

    #[inline]
    pub(crate) fn nodes_mut(&mut self) -> &mut [RunNode] {
        &mut self.nodes
    }

    /// The function of a name.
    pub(crate) fn named_mut(&mut self, name: &str) -> Option<&mut RunNode> {
        self.nodes.iter_mut().find(|node| node.name == name)
    }

    /// Function `number` of the stage, and the blocks of a stage without flows.
    #[inline]
    pub(crate) fn callable(&mut self, number: usize) -> (&mut RunNode, &mut Blocks) {
        (&mut self.nodes[number], &mut self.no_blocks)
    }

    /// Gives the packets `given` of function `number` the verdicts that
    /// function `earlier` gave them.
    #[cold]
    pub(crate) fn recall(
        &mut self,
        number: usize,
        earlier: usize,
        given: u64,
        outcome: &mut Outcome,
        internal: &mut Internal,
    ) {
        let (before, after) = self.nodes.split_at_mut(number);
        let remembered = before
            .get(earlier)
            .and_then(|node| node.remembered.as_ref());
        let remembered = internal.expect(remembered, "a function that others name remembers");
        let Some(remembered) = remembered else {
            return;
        };
        let (labels, grown) = remembered.of(given);
        outcome.labels = labels;
        for (counter, grown) in after[0].counters.iter_mut().zip(grown) {
            *counter += grown;
        }
    }

    /// Forgets what was said of the last burst.
    #[inline]
    pub(crate) fn forget_verdicts(&mut self) {
        if self.has_same {
            for remembered in self.nodes.iter_mut().filter_map(|n| n.remembered.as_mut()) {
                remembered.forget();
            }
        }
    }

    /// Adds to the counters of the functions that `number` stands for what its
    /// own grew by at the end of a state.
    pub(crate) fn share_counts(&mut self, number: usize) {
        let (head, tail) = self.nodes.split_at_mut(number + 1);
        let node = &head[number];
        let Some(remembered) = &node.remembered else {
            return;
        };
        for later in tail.iter_mut().filter(|n| n.same_as == Some(number)) {
            let grown = remembered.grown_at_close(&node.counters);
            for (counter, grown) in later.counters.iter_mut().zip(grown) {
                *counter += grown;
            }
        }
    }

    /// Reports of the functions, in the order of the chain.
    pub(crate) fn reports(&self) -> Vec<FunctionReport> {
        self.nodes.iter().map(function_report).collect()
    }

    /// Appends the functions' drops, by name.
    pub(crate) fn drops(&self, drops: &mut Vec<(String, u64)>) {
        for node in &self.nodes {
            let reasons = node.processor.descriptor().drops;
            for (i, &count) in node.drops.iter().enumerate().filter(|(_, n)| **n > 0) {
                let reason = reasons.get(i).map_or("unnamed", |reason| reason.name());
                drops.push((format!("{}.{reason}", node.name), count));
            }
            for (i, &count) in node.label_drops.iter().enumerate().filter(|(_, n)| **n > 0) {
                drops.push((format!("{}.{}", node.name, node.label(i)), count));
            }
        }
    }
}

fn function_report(node: &RunNode) -> FunctionReport {
    FunctionReport {
        name: node.name.clone(),
        nf: node.processor.descriptor().name,
        packets: node.packets,
        bytes: node.bytes,
        cycles: node.cycles,
        dropped: node.dropped,
        counters: node
            .processor
            .descriptor()
            .counters
            .iter()
            .map(Entry::name)
            .zip(node.counters.iter().copied())
            .collect(),
        tally: node
            .tally
            .sorted()
            .into_iter()
            .map(|(name, count)| (String::from_utf8_lossy(name).into_owned(), count))
            .collect(),
        tally_other: node.tally.other(),
    }
}
