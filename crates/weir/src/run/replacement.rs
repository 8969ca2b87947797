//! The functions that a changed chain file puts in the place of those that run.

use weir_ctl::command::Replacement;
use weir_graph::Change;
use weir_nf::host::{NewFunction, Node};

use crate::driver::ChainPlan;
use crate::driver::process::digest_of_chains;

/// The functions that have changed, as the plans of the changed file have them. The compiler may have
/// put one of them elsewhere under a name of its own: those come along in a chain with a change.
pub(super) fn of(changes: &[Change], plans: &[ChainPlan]) -> Replacement {
    let chains = plans.iter().enumerate();
    let functions = chains.map(|(number, chain)| {
        let of_chain = changes.iter().filter(|change| change.chain == number);
        let changed: Vec<&str> = of_chain.map(|change| change.new.name.as_str()).collect();
        if changed.is_empty() {
            return Vec::new();
        }
        let written = |name: &str| chain.plan.written.nodes.iter().any(|at| at.name == name);
        let nodes = chain.stages.iter().flatten().flat_map(|stage| &stage.nodes);
        let is_new = |node: &&Node| changed.contains(&&*node.name) || !written(&node.name);
        nodes.filter(is_new).map(NewFunction::of).collect()
    });
    Replacement::new(functions.collect()).of(digest_of_chains(plans))
}
