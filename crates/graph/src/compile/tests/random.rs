//! Random chains under all options: each plan passes the check, which shares
//! nothing with the passes.

use weir_nf::host::Target;
use weir_nf::{Fields, Parts, Scope};

use super::*;
use crate::compile::sketch::IDLE;

/// A generator of numbers (splitmix64).
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ x >> 31) % sides as u64) as usize
    }

    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.roll(n) == 0
    }

    fn parts(&mut self, none: usize) -> Parts {
        let all = [
            Parts::LINK,
            Parts::NETWORK,
            Parts::TRANSPORT,
            Parts::PAYLOAD,
        ];
        let mut parts = Parts::NONE;
        for part in all {
            if self.one_in(none) {
                parts = parts.and(part);
            }
        }
        parts
    }

    fn kind(&mut self) -> (Effects, usize) {
        let mut effects = IDLE;
        effects.needs = [
            weir_nf::Needs::Link,
            weir_nf::Needs::Network,
            weir_nf::Needs::Transport,
            weir_nf::Needs::Flow,
        ][self.roll(4)];
        effects.reads = self.parts(2);
        if self.one_in(3) {
            effects.writes = self.parts(3);
        }
        effects.stateful = self.one_in(5);
        effects.drops = self.one_in(3);
        effects.emits = self.one_in(12);
        effects.events = self.one_in(10);
        effects.counts = self.one_in(5);
        effects.tally = self.one_in(15);
        effects.shares = self.one_in(20);
        effects.aliases = self.one_in(20);
        effects.turns = self.one_in(20);
        effects.cycles = self.roll(12) as u32 * 60;
        effects.scope = match self.roll(12) {
            0 => Scope::Fields(Fields::CLIENT_ADDRESS),
            1 => Scope::Own("token"),
            _ => Scope::Flow,
        };
        let labels = if self.one_in(3) { 1 + self.roll(2) } else { 0 };
        (effects, labels)
    }

    /// A chain of few kinds, so that many are equal, each reached by a link.
    pub(super) fn graph(&mut self) -> Graph {
        let kinds: Vec<(Effects, usize)> = (0..2 + self.roll(4)).map(|_| self.kind()).collect();
        let count = 2 + self.roll(8);
        let mut nodes: Vec<Processor> = (0..count)
            .map(|number| {
                let kind = self.roll(kinds.len());
                let (effects, labels) = kinds[kind];
                let instance = format!("i{}", number / 2);
                let mut link = |at: usize| match self.roll(10) {
                    _ if at == 0 && number + 1 < count => Target::Node(number + 1),
                    0 => Target::Drop,
                    1 => Target::Out,
                    _ if number + 1 == count => Target::Out,
                    n => Target::Node(number + 1 + n % (count - number - 1)),
                };
                let next: Vec<Target> = (0..=labels).map(&mut link).collect();
                Processor {
                    name: format!("{instance}/p{number}"),
                    instance,
                    kind: format!("k{kind}"),
                    settings: format!("s{}", self.roll(5) / 4),
                    effects,
                    labels: (0..=labels).map(|at| format!("l{at}")).collect(),
                    next,
                    same_as: None,
                }
            })
            .collect();
        // Not all straight on: some jump, where another link leads there.
        for number in 0..count.saturating_sub(2) {
            let led = |nodes: &[Processor]| {
                let to = Target::Node(number + 1);
                nodes[..number].iter().any(|node| node.next.contains(&to))
            };
            if led(&nodes) && self.one_in(2) {
                nodes[number].next[0] = Target::Node(number + 2);
            }
        }
        Graph { nodes }
    }

    pub(super) fn options(&mut self, graph: &Graph) -> Options {
        let mode = [
            Mode::Auto,
            Mode::RunToCompletion,
            Mode::Pipeline,
            Mode::Pipeline,
        ][self.roll(4)];
        let mut options = Options {
            consolidate: !self.one_in(5),
            hoist: !self.one_in(5),
            parallel: [Parallel::Never, Parallel::Auto, Parallel::Always][self.roll(3)],
            mode,
            cores: (0..self.roll(6)).collect(),
            ..Options::default()
        };
        let name = |dice: &mut Dice| {
            let node = &graph.nodes[dice.roll(graph.nodes.len())];
            match dice.one_in(3) {
                true => node.instance.clone(),
                false => node.name.clone(),
            }
        };
        if mode == Mode::Pipeline && self.one_in(2) {
            options.cuts = (0..1 + self.roll(3)).map(|_| name(self)).collect();
        }
        if self.one_in(4) {
            options
                .instances
                .insert(name(self), 1 + self.roll(3) as u16);
        }
        if self.one_in(4) {
            options.affinity.insert(name(self), self.roll(4));
        }
        if self.one_in(4) {
            options.cycles.insert(name(self), self.roll(500) as u32);
        }
        options
    }
}

/// How many chains; more with `WEIR_PLANS=N`.
fn rounds() -> u64 {
    option_env!("WEIR_PLANS")
        .and_then(|n| n.parse().ok())
        .unwrap_or(3_000)
}

#[test]
fn every_plan_of_every_chain_means_what_is_written() {
    let mut seen = [0usize; 6];
    for seed in 0..rounds() {
        let mut dice = Dice::new(seed);
        let graph = dice.graph();
        for _ in 0..4 {
            let options = dice.options(&graph);
            match compile("random", &graph, &options) {
                Ok(plan) => {
                    let merged = plan
                        .graph
                        .nodes
                        .iter()
                        .filter(|n| n.same_as.is_some())
                        .count();
                    let branches = plan.steps.iter().filter(|s| s.stages().len() > 1).count();
                    seen[0] += 1;
                    seen[1] += merged;
                    seen[2] += usize::from(plan.graph.nodes.len() > graph.nodes.len());
                    seen[3] += branches;
                    seen[4] += usize::from(plan.steps.len() > 1);
                }
                Err(faults) => {
                    seen[5] += 1;
                    assert!(
                        faults.iter().all(|fault| !fault.bug),
                        "seed {seed}: {faults:#?}\n{graph:#?}\n{options:#?}"
                    );
                }
            }
        }
    }
    eprintln!("plans, merged, hoisted, parallel, cut, refused: {seen:?}");
    assert!(seen.iter().all(|count| *count > 20), "{seen:?}");
}
