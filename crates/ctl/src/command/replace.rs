//! Functions under other settings in the places of those that run.

use weir_nf::host::{NewFunction, Stage};

/// Functions to put in the places of those of their names, chain by chain in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct Replacement {
    chains: Vec<Vec<NewFunction>>,
    /// Stands for all chains with these functions, wherever they are loaded.
    digest: u64,
}

impl Replacement {
    /// One of these functions; chains without any have an empty list.
    pub fn new(chains: Vec<Vec<NewFunction>>) -> Replacement {
        Replacement { chains, digest: 0 }
    }

    /// The same, where a number stands for all chains with these functions.
    pub fn of(self, digest: u64) -> Replacement {
        Replacement { digest, ..self }
    }

    /// The number that stands for all chains with these functions; 0 where none does.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// All functions of these stages, one stage per chain.
    pub fn whole(stages: &[Stage]) -> Replacement {
        let functions = |stage: &Stage| stage.nodes.iter().map(NewFunction::of).collect();
        Replacement::new(stages.iter().map(functions).collect())
    }

    /// The functions of a chain.
    pub fn of_chain(&self, chain: usize) -> &[NewFunction] {
        self.chains.get(chain).map_or(&[], Vec::as_slice)
    }

    /// The stages, one per chain, with these functions in them.
    pub fn applied(&self, stages: &[Stage]) -> Vec<Stage> {
        let mut stages = stages.to_vec();
        for (chain, stage) in stages.iter_mut().enumerate() {
            stage.replace(self.of_chain(chain));
        }
        stages
    }
}
