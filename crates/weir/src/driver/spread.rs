//! The assignment of equal nodes to threads.

/// How nodes of one kind, numbered from 0, are spread over threads. Thread 0 is
/// the ports' thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// Cores of the threads, by their numbers; the system decides where there
    /// is none.
    cores: Vec<Option<usize>>,
    /// Threads of the nodes, by the nodes' numbers. A node beyond has a thread
    /// of its own.
    nodes: Vec<usize>,
}

impl Spread {
    /// Each node has a thread of its own. The ports' thread is kept on the first
    /// of `cores`, the others on the rest in turn.
    pub fn one_each(cores: &[usize], nodes: usize) -> Spread {
        let first = cores.first().copied();
        let others = (0..nodes).map(|node| weir_exec::nth_core(cores, node));
        Spread {
            cores: std::iter::once(first).chain(others).collect(),
            nodes: (1..=nodes).collect(),
        }
    }

    /// Nodes on these threads, which are on these cores.
    pub fn new(nodes: Vec<usize>, cores: Vec<Option<usize>>) -> Spread {
        Spread { cores, nodes }
    }

    /// Thread and core of a node.
    pub fn of(&self, node: usize) -> (usize, Option<usize>) {
        let next = || {
            let last = self.nodes.iter().max().copied().unwrap_or(0);
            last + 1 + node - self.nodes.len().min(node)
        };
        let thread = self.nodes.get(node).copied().unwrap_or_else(next);
        (thread, self.cores.get(thread).copied().flatten())
    }

    /// Core of the ports' thread.
    pub fn ports_core(&self) -> Option<usize> {
        self.cores.first().copied().flatten()
    }

    /// The highest number of a thread, with so many nodes.
    pub fn threads(&self, nodes: usize) -> usize {
        (0..nodes).map(|node| self.of(node).0).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_are_not_placed_have_threads_of_their_own() {
        let spread = Spread::new(vec![1, 0, 1], vec![Some(4), Some(5)]);
        let threads: Vec<_> = (0..5).map(|node| spread.of(node)).collect();
        let own = [(2, None), (3, None)];
        assert_eq!(threads[..3], [(1, Some(5)), (0, Some(4)), (1, Some(5))]);
        assert_eq!(threads[3..], own);
        assert_eq!((spread.threads(3), spread.threads(5)), (1, 3));
        let each = Spread::one_each(&[7, 2], 2);
        assert_eq!(each.ports_core(), Some(7));
        assert_eq!([each.of(0), each.of(1)], [(1, Some(2)), (2, Some(2))]);
        assert_eq!(Spread::default().of(0), (1, None));
    }
}
