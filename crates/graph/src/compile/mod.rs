//! The compiler: a chain as written in, a plan out. A pure function, in passes
//! that can be read one by one.
//!
//! [`compile`] runs them: `consolidate`, `hoist`, `parallelise`, `stage`, and
//! then `check`, which knows nothing of how the others work.

mod check;
mod consolidate;
mod costs;
mod fault;
mod flags;
mod graph;
mod hoist;
mod options;
mod parallelise;
mod plan;
mod same;
mod stage;
mod stages;
mod validate;
mod walk;
mod ways;

#[cfg(test)]
pub(crate) mod sketch;
#[cfg(test)]
mod tests;

pub use check::check;
pub use costs::PortCosts;
pub use fault::{PlanFault, PlanOption};
pub use flags::{Flags, Passes};

pub use graph::{Effects, Graph, MOST_PROCESSORS, Processor};
pub use options::{MOST_CORES, MOST_INSTANCES, Mode, Options, Parallel};
pub use plan::{Balance, Decision, Home, Pass, Plan, PlannedStage, Step};
pub use validate::validate;

/// Compiles the chain `chain`, templates expanded, into a plan.
///
/// # Errors
///
/// All faults of the options; or a fault of the plan, which is a bug of the compiler
/// (`PlanFault.bug`).
pub fn compile(chain: &str, written: &Graph, options: &Options) -> Result<Plan, Vec<PlanFault>> {
    let faults = validate(written, options);
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut written = written.clone();
    costs::apply(&mut written, &options.cycles);
    let mut graph = written.clone();
    let mut decisions = expanded(&written);
    if options.consolidate {
        consolidate::consolidate(&mut graph, &mut decisions);
    }
    // Hoisting moves work into another stage: an untrusted function would get into the main
    // process.
    if options.hoist && options.untrusted.is_empty() {
        hoist::hoist(&mut graph, &mut decisions);
    }
    let groups = parallelise::parallelise(&graph, options, &mut decisions);
    let steps = stage::stage(&mut graph, &written, groups, options, &mut decisions)?;
    let mut plan = Plan {
        chain: chain.to_owned(),
        written,
        graph,
        steps,
        decisions,
    };
    let seen = check(&plan).map_err(|fault| vec![fault])?;
    plan.decisions.push(Decision {
        pass: Pass::Check,
        about: Vec::new(),
        done: true,
        why: seen,
    });
    Ok(plan)
}

/// The pass that came before: what became of templates when the chain was
/// loaded.
fn expanded(written: &Graph) -> Vec<Decision> {
    let mut decisions: Vec<Decision> = Vec::new();
    for node in &written.nodes {
        if node.name == node.instance {
            continue;
        }
        let known = decisions
            .iter_mut()
            .find(|decision| decision.about.first() == Some(&node.instance));
        match known {
            Some(decision) => decision.about.push(node.name.clone()),
            None => decisions.push(Decision {
                pass: Pass::Expand,
                about: vec![node.instance.clone(), node.name.clone()],
                done: true,
                why: String::new(),
            }),
        }
    }
    for decision in &mut decisions {
        if let Some((instance, processors)) = decision.about.split_first() {
            let names: Vec<String> = processors.iter().map(|name| format!("`{name}`")).collect();
            decision.why = format!(
                "`{instance}` is of a template: it became {}",
                names.join(", ")
            );
        }
    }
    decisions
}
