//! Cycles per packet: of processors, and of what plans add around them.

use std::collections::BTreeMap;

use super::graph::{Effects, Graph};

/// Cycles that ports and engines cost, besides the processors. The defaults
/// are guesses until `weir bench` has measured a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortCosts {
    /// Parsing, key and flow look-up, in the first stage. Default 60: 20 ns at
    /// 3 GHz (docs/benchmarks.md, `engine 1k`).
    pub classify: u32,
    /// A packet's way into a later stage: headers, place of its flow. Default
    /// 25.
    pub enter: u32,
    /// One side of a ring between two threads: half of what a packet costs to
    /// be handed over, its descriptor's cache line included. Default 30.
    pub ring: u32,
    /// A copy of a packet for a parallel branch. Default 150.
    pub copy: u32,
    /// Joining the branches: counters of other cores, parts taken over.
    /// Default 100.
    pub sync: u32,
    /// Cycles taken for a processor of which nothing is known. Default 30.
    pub unknown: u32,
    /// Parts per thousand of the whole by which the slowest stage must be
    /// below it before [`super::Mode::Auto`] cuts the chain. Default 200.
    pub margin: u32,
}

impl Default for PortCosts {
    fn default() -> PortCosts {
        PortCosts {
            classify: 60,
            enter: 25,
            ring: 30,
            copy: 150,
            sync: 100,
            unknown: 30,
            margin: 200,
        }
    }
}

impl PortCosts {
    /// Cycles taken for a processor.
    pub fn of(&self, effects: &Effects) -> u32 {
        match effects.cycles {
            0 => self.unknown,
            cycles => cycles,
        }
    }
}

/// Puts measured or given cycles into a graph: by name of the processor, of
/// its instance (in equal shares), or of its function.
pub(super) fn apply(graph: &mut Graph, cycles: &BTreeMap<String, u32>) {
    let instances: Vec<String> = graph.nodes.iter().map(|n| n.instance.clone()).collect();
    for node in &mut graph.nodes {
        let given = |name: &str| cycles.get(name).copied();
        let share = |cycles: u32| {
            let parts = instances.iter().filter(|i| **i == node.instance).count() as u32;
            cycles.div_ceil(parts.max(1))
        };
        let cycles = given(&node.name)
            .or_else(|| given(&node.instance).map(share))
            .or_else(|| given(&node.kind));
        if let Some(cycles) = cycles {
            node.effects.cycles = cycles;
        }
    }
}
