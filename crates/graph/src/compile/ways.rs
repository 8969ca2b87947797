//! Which ways packets may go through a graph.

use weir_nf::host::Target;

use super::graph::Graph;

/// A set of numbers of processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Set([u64; 4]);

impl Set {
    pub(super) fn insert(&mut self, number: usize) {
        if let Some(word) = self.0.get_mut(number / 64) {
            *word |= 1 << (number % 64);
        }
    }

    pub(super) fn contains(self, number: usize) -> bool {
        let word = self.0.get(number / 64).copied().unwrap_or(0);
        word >> (number % 64) & 1 != 0
    }

    pub(super) fn or(self, other: Set) -> Set {
        Set(core::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    pub(super) fn and(self, other: Set) -> Set {
        Set(core::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        (0..256).filter(move |number| self.contains(*number))
    }
}

/// The ways of a graph whose links lead forward. A processor is on the way
/// from itself to itself.
pub(super) struct Ways {
    /// For each processor, those that its packets may get to.
    ahead: Vec<Set>,
    /// For each processor, those that its packets may come from.
    behind: Vec<Set>,
    /// For each processor, those that all its packets come through: its
    /// dominators.
    through: Vec<Set>,
}

impl Ways {
    pub(super) fn of(graph: &Graph) -> Ways {
        let count = graph.nodes.len();
        let one = |number: usize| {
            let mut set = Set::default();
            set.insert(number);
            set
        };
        let mut ahead: Vec<Set> = (0..count).map(one).collect();
        let mut behind = ahead.clone();
        let mut through: Vec<Option<Set>> = vec![None; count];
        if let Some(first) = through.first_mut() {
            *first = Some(one(0));
        }
        for number in 0..count {
            // A processor that no link leads to is on no way: nothing is known of it.
            let here = through[number].map(|set| set.or(one(number)));
            through[number] = here;
            let past = behind[number];
            for next in graph.followers(number) {
                behind[next] = behind[next].or(past);
                if let Some(here) = here {
                    through[next] = Some(match through[next] {
                        None => here,
                        Some(others) => others.and(here),
                    });
                }
            }
        }
        for number in (0..count).rev() {
            for next in graph.followers(number) {
                ahead[number] = ahead[number].or(ahead[next]);
            }
        }
        let through = through
            .into_iter()
            .enumerate()
            .map(|(number, set)| set.unwrap_or(one(number)))
            .collect();
        Ways {
            ahead,
            behind,
            through,
        }
    }

    /// True where packets of `from` may get to `to`.
    pub(super) fn leads(&self, from: usize, to: usize) -> bool {
        self.ahead[from].contains(to)
    }

    /// True where every packet that gets to `to` was at `from` before.
    pub(super) fn dominates(&self, from: usize, to: usize) -> bool {
        self.through[to].contains(from)
    }

    /// Processors on any way from `from` to `to`, both left out.
    pub(super) fn between(&self, from: usize, to: usize) -> impl Iterator<Item = usize> {
        self.ahead[from]
            .and(self.behind[to])
            .iter()
            .filter(move |number| *number != from && *number != to)
    }

    /// Why a packet of `from` may not get to `to`: a processor that drops it,
    /// or sends it elsewhere, first; `None` where each packet gets there.
    pub(super) fn leak(&self, graph: &Graph, from: usize, to: usize) -> Option<Leak> {
        core::iter::once(from)
            .chain(self.between(from, to))
            .find_map(|number| {
                let node = &graph.nodes[number];
                let away = |target: &Target| match target {
                    Target::Node(next) => !self.leads(*next, to),
                    _ => true,
                };
                if node.effects.drops || node.next.contains(&Target::Drop) {
                    Some(Leak::Drops(number))
                } else if node.effects.turns {
                    Some(Leak::Turns(number))
                } else if node.next.iter().any(away) {
                    Some(Leak::Parts(number))
                } else {
                    None
                }
            })
    }
}

/// Ways on which packets miss a later processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leak {
    Drops(usize),
    Turns(usize),
    Parts(usize),
}

#[cfg(test)]
mod tests {
    use super::super::sketch::graph;
    use super::*;

    #[test]
    fn dominance_ways_and_leaks_of_a_diamond() {
        // a -> b or c, both -> d; b may drop.
        let graph = graph(&[
            "a k=x labels=left next=b,c",
            "b k=b drops next=d",
            "c k=c next=d",
            "d k=x",
        ]);
        let ways = Ways::of(&graph);
        assert!(ways.dominates(0, 3) && !ways.dominates(1, 3) && ways.dominates(3, 3));
        assert!(ways.leads(0, 3) && !ways.leads(1, 2));
        assert_eq!(ways.between(0, 3).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(ways.leak(&graph, 0, 3), Some(Leak::Drops(1)));
        assert_eq!(ways.leak(&graph, 2, 3), None);
        assert_eq!(ways.leak(&graph, 0, 2), Some(Leak::Parts(0)));
    }
}
