//! A chain as a graph of processors: what the passes read and change.

use weir_nf::host::{SharedProcessor, Target};
use weir_nf::{Needs, Parts, Scope};

/// Most processors of a graph: a packet between two stages carries the number
/// of its next one in an octet.
pub const MOST_PROCESSORS: usize = 254;

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
    /// The entry of the chain file that it is of; its own name where a pass
    /// added it.
    pub instance: String,
    /// Name of the function.
    pub kind: String,
    /// Its settings in one canonical spelling: processors of one kind whose
    /// texts are equal behave alike.
    pub settings: String,
    /// Its effects on packets, under its settings.
    pub effects: Effects,
    /// Names of its links: `pass`, then its labels.
    pub labels: Vec<String>,
    /// Targets of its links, in the order of `labels`.
    pub next: Vec<Target>,
    /// An earlier processor whose verdicts stand for this one's.
    pub same_as: Option<usize>,
}

/// Effects of a processor, as far as the passes must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effects {
    /// How much of a packet must be parsed for it.
    pub needs: Needs,
    /// Packets that share one state of it.
    pub scope: Scope,
    /// Parts of a packet that it reads.
    pub reads: Parts,
    /// Parts of a packet that it may change.
    pub writes: Parts,
    /// Keeps state, buffers or statistics per flow or scope key.
    pub stateful: bool,
    /// May drop, under its settings.
    pub drops: bool,
    /// Makes packets of its own.
    pub emits: bool,
    /// Writes events.
    pub events: bool,
    /// Counts packets that pass: has counters of its own that are not named as
    /// its drop reasons, or any where it never drops.
    pub counts: bool,
    /// Has a tally.
    pub tally: bool,
    /// Takes resources that flows share.
    pub shares: bool,
    /// Gives flows further names.
    pub aliases: bool,
    /// May send packets back through the chain.
    pub turns: bool,
    /// Labels that it may give, under its settings: bit `n` is the link `n` of
    /// [`Processor::labels`]. For what people are told: a plan holds whatever
    /// label is given.
    pub gives: u64,
    /// Cycles that a packet costs; 0 where that is not known.
    pub cycles: u32,
}

impl Processor {
    /// True where the two are of one kind and have equal settings.
    pub fn equals(&self, other: &Processor) -> bool {
        self.kind == other.kind && self.settings == other.settings
    }

    /// True where packets may leave by the link `link`, by what the function
    /// says of its settings. `pass` is always one.
    pub fn gives(&self, link: usize) -> bool {
        link == 0 || link >= 64 || self.effects.gives >> link & 1 != 0
    }

    /// True where `name` is its own or its instance's.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.instance == name
    }
}

impl Graph {
    /// Processors that the links of a processor lead to, each once and in the order of the links.
    pub fn followers(&self, number: usize) -> impl Iterator<Item = usize> {
        let links = self.nodes.get(number).map_or(&[][..], |node| &node.next);
        links.iter().enumerate().filter_map(|(at, link)| {
            let first = links.get(..at).is_some_and(|before| !before.contains(link));
            match link {
                Target::Node(next) if first && *next < self.nodes.len() => Some(*next),
                _ => None,
            }
        })
    }

    /// Puts a processor in before number `at`. All links that led to what was
    /// there lead to it.
    pub(super) fn insert(&mut self, at: usize, node: Processor) {
        for other in &mut self.nodes {
            // Links to `at` now lead to the new one, which has its number.
            other.renumber(|number| number + usize::from(number > at));
            other.same_as = other.same_as.map(|e| e + usize::from(e >= at));
        }
        self.nodes.insert(at, node);
    }

    /// Takes a processor out; what led to it leads where its first link does.
    pub(super) fn remove(&mut self, at: usize) {
        let past = self.nodes.remove(at);
        let instead = past.next.first().copied().unwrap_or(Target::Out);
        for other in &mut self.nodes {
            for link in &mut other.next {
                if *link == Target::Node(at) {
                    *link = instead;
                }
            }
            other.renumber(|number| number - usize::from(number > at));
            other.same_as = other.same_as.map(|e| e - usize::from(e > at));
        }
    }
}

impl Processor {
    fn renumber(&mut self, new: impl Fn(usize) -> usize) {
        for link in &mut self.next {
            if let Target::Node(number) = link {
                *number = new(*number);
            }
        }
    }
}

impl Effects {
    /// Parts that decide what it does: what it reads, what the parser tells it,
    /// and all of the packet where it does not read the network header, whose
    /// lengths would tell that the packet has grown or shrunk.
    pub fn looks_at(&self) -> Parts {
        let parsed = match self.needs {
            Needs::Link | Needs::Flow => Parts::NONE,
            Needs::Network => Parts::NETWORK,
            Needs::Transport => Parts::NETWORK.and(Parts::TRANSPORT),
        };
        let parts = self.reads.and(parsed);
        if parts.meets(Parts::NETWORK) {
            parts
        } else {
            Parts::ALL
        }
    }

    /// Parts that others may see changed after it: what it writes, and above a
    /// header that it writes what is found by that header's fields (lengths,
    /// protocol).
    pub fn disturbs(&self) -> Parts {
        let mut parts = self.writes;
        if parts.meets(Parts::NETWORK) {
            parts = parts.and(Parts::TRANSPORT);
        }
        if parts.meets(Parts::TRANSPORT) {
            parts = parts.and(Parts::PAYLOAD);
        }
        parts
    }

    /// True where a plan must leave it in the first stage, with all that is
    /// before it.
    pub fn stays_first(&self) -> bool {
        self.aliases || self.turns || matches!(self.scope, Scope::Own(_))
    }

    /// Effects of a function that was built from its settings.
    pub fn of(processor: &SharedProcessor) -> Effects {
        let descriptor = processor.descriptor();
        let state = processor.state();
        Effects {
            needs: descriptor.needs,
            scope: processor.scope(),
            reads: descriptor.reads,
            writes: descriptor.writes,
            stateful: state.bytes > 0 || state.buffers > 0 || state.stats_bytes > 0,
            drops: processor.drops(),
            emits: descriptor.emits,
            events: descriptor.events,
            counts: descriptor.counters.iter().any(|counter| {
                let mut drops = descriptor.drops.iter();
                !processor.drops() || !drops.any(|drop| drop.name() == counter.name())
            }),
            tally: descriptor.tally > 0,
            shares: descriptor.shares,
            aliases: descriptor.aliases,
            turns: descriptor.turns,
            gives: processor.labels_used(),
            cycles: descriptor.cycles,
        }
    }
}
