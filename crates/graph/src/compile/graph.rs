//! A chain as a graph of processors: what the passes read and change.

use weir_nf::host::{SharedProcessor, Target};
use weir_nf::{Needs, Parts, Scope};

/// A chain as a graph. Links lead forward: the order of the nodes is one in
/// which each comes before all that its links lead to, and the first gets
/// every packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The processors.
    pub nodes: Vec<Processor>,
}

/// A processor of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Its name, unlike every other's: the instance's, or
    /// `INSTANCE/PROCESSOR` where the instance is a template's.
    pub name: String,
    /// The entry of the chain file that it is of.
    pub instance: String,
    /// Name of the function.
    pub kind: String,
    /// Its settings in one canonical spelling: processors of one kind whose
    /// texts are equal behave alike.
    pub settings: String,
    /// What it does to packets, under its settings.
    pub effects: Effects,
    /// Names of its links: `pass`, then its labels.
    pub labels: Vec<String>,
    /// Where its links lead, in the order of `labels`.
    pub next: Vec<Target>,
    /// An earlier processor whose verdicts stand for this one's.
    pub same_as: Option<usize>,
}

/// What a processor does, as far as the passes must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effects {
    /// How much of a packet must be parsed for it.
    pub needs: Needs,
    /// What keeps one state of it together.
    pub scope: Scope,
    /// Parts of a packet that it reads.
    pub reads: Parts,
    /// Parts of a packet that it may change.
    pub writes: Parts,
    /// Keeps state per flow or scope key.
    pub stateful: bool,
    /// May drop.
    pub drops: bool,
    /// Makes packets of its own.
    pub emits: bool,
    /// Writes events.
    pub events: bool,
    /// Counts: has counters of its own, statistics per flow, or a tally.
    pub counts: bool,
    /// Takes resources that flows share.
    pub shares: bool,
    /// Gives flows further names.
    pub aliases: bool,
    /// May send packets back through the chain.
    pub turns: bool,
    /// Cycles that a packet costs; 0 where that is not known.
    pub cycles: u32,
}

impl Effects {
    /// What a function does that was built from its settings.
    pub fn of(processor: &SharedProcessor) -> Effects {
        let descriptor = processor.descriptor();
        let state = processor.state();
        Effects {
            needs: descriptor.needs,
            scope: processor.scope(),
            reads: descriptor.reads,
            writes: descriptor.writes,
            stateful: state.bytes > 0 || state.buffers > 0,
            drops: !descriptor.drops.is_empty(),
            emits: descriptor.emits,
            events: descriptor.events,
            counts: !descriptor.counters.is_empty()
                || descriptor.tally > 0
                || state.stats_bytes > 0,
            shares: descriptor.shares,
            aliases: descriptor.aliases,
            turns: descriptor.turns,
            cycles: descriptor.cycles,
        }
    }
}
