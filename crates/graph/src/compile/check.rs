//! The plan is held against the chain as written.
//!
//! This pass shares nothing with the others: where they reason about dominance
//! and writers, it takes symbolic packets through both graphs side by side
//! ([`super::walk`]). Here is what must hold whatever packets come.

use weir_nf::Parts;
use weir_nf::host::Target;

use super::fault::PlanFault;
use super::graph::{Effects, Processor};
use super::plan::{Balance, Plan, Step};
use super::walk::walk;

/// Checks a plan; says what was found.
///
/// # Errors
///
/// The first thing that is wrong, which is a mistake of the compiler.
pub fn check(plan: &Plan) -> Result<String, PlanFault> {
    let result = structure(plan).and_then(|()| walk(plan));
    result.map_err(PlanFault::bug)
}

/// Properties that a plan has whatever packets come.
fn structure(plan: &Plan) -> Result<(), String> {
    let nodes = &plan.graph.nodes;
    processors(plan)?;
    let mut at = 0;
    for (number, step) in plan.steps.iter().enumerate() {
        let parallel = matches!(step, Step::Parallel(_));
        if parallel && (number == 0 || step.stages().len() < 2) {
            return Err(format!("step {number} is parallel and may not be"));
        }
        for stage in step.stages() {
            let range = stage.nodes.clone();
            if range.start != at || range.end > nodes.len() || range.is_empty() && !nodes.is_empty()
            {
                return Err(format!("the stages do not follow one another at {at}"));
            }
            at = range.end;
            for node in range.clone().filter_map(|number| nodes.get(number)) {
                if node.same_as.is_some_and(|root| !range.contains(&root)) {
                    return Err(format!("`{}` stands on another stage", node.name));
                }
                if number > 0 && node.effects.stays_first() {
                    return Err(format!("`{}` is not in the first stage", node.name));
                }
                let several = stage.instances > 1;
                let wider = node.effects.stateful && node.effects.scope != weir_nf::Scope::Flow;
                if several && (number == 0 || wider || node.effects.shares) {
                    return Err(format!("`{}` can't be there several times", node.name));
                }
                if several && parallel {
                    let name = &node.name;
                    return Err(format!("`{name}` can't have instances beside other stages"));
                }
                let bound = node.effects.stateful
                    || node.effects.events
                    || node.effects.emits
                    || node.effects.tally;
                if stage.balance == Balance::RoundRobin && bound {
                    return Err(format!("`{}` can't get packets in turn", node.name));
                }
            }
            if stage.instances == 0 {
                return Err(format!("a stage without instances at {}", range.start));
            }
        }
        if parallel {
            branches(plan, step)?;
        }
    }
    if at != nodes.len() {
        return Err(format!("no stage has processor {at}"));
    }
    Ok(())
}

/// Every processor is one of the chain as written, or does nothing but look.
fn processors(plan: &Plan) -> Result<(), String> {
    let nodes = &plan.graph.nodes;
    for written in &plan.written.nodes {
        let count = nodes.iter().filter(|n| n.name == written.name).count();
        if count != 1 {
            return Err(format!("`{}` is in the plan {count} times", written.name));
        }
    }
    for (number, node) in nodes.iter().enumerate() {
        let name = &node.name;
        match plan.written.nodes.iter().find(|w| w.name == *name) {
            Some(w)
                if w.kind == node.kind
                    && w.settings == node.settings
                    && w.effects == node.effects
                    && w.labels == node.labels => {}
            Some(_) => return Err(format!("`{name}` is not as written")),
            None => {
                let e = &node.effects;
                if acts(e) || e.stateful || e.drops || e.counts {
                    return Err(format!("`{name}` was added, and does more than look"));
                }
            }
        }
        if node.next.len() != node.labels.len() {
            return Err(format!("`{name}` has links without labels"));
        }
        for target in &node.next {
            match target {
                Target::Node(next) if *next > number && *next < nodes.len() => {}
                Target::Out | Target::Drop => {}
                _ => return Err(format!("a link of `{name}` does not lead forward")),
            }
        }
        let reached = number == 0
            || nodes
                .iter()
                .take(number)
                .any(|before| before.next.contains(&Target::Node(number)));
        if !reached {
            return Err(format!("nothing leads to `{name}`"));
        }
        if let Some(root) = node.same_as {
            let good = root < number
                && nodes.get(root).is_some_and(|root| {
                    root.same_as.is_none()
                        && root.kind == node.kind
                        && root.settings == node.settings
                });
            if !good || acts(&node.effects) {
                return Err(format!("`{name}` stands on one that can't stand for it"));
            }
        }
    }
    Ok(())
}

/// True if a verdict alone can't stand for a call.
fn acts(e: &Effects) -> bool {
    e.writes != Parts::NONE || e.emits || e.events || e.tally || e.shares || e.aliases || e.turns
}

/// Branches are a straight line of processors that can't be told apart in time.
fn branches(plan: &Plan, step: &Step) -> Result<(), String> {
    let members: Vec<(usize, &Processor)> = step
        .nodes()
        .filter_map(|number| Some((number, plan.graph.nodes.get(number)?)))
        .collect();
    if step.stages().iter().any(|stage| stage.nodes.len() != 1) {
        return Err("a branch is not of one processor".to_owned());
    }
    for (place, (number, node)) in members.iter().enumerate() {
        let e = &node.effects;
        let last = place + 1 == members.len();
        let straight = last || node.next == [Target::Node(number + 1)];
        let entered = plan
            .graph
            .nodes
            .iter()
            .filter(|other| other.next.contains(&Target::Node(*number)))
            .count();
        if node.next.len() != 1
            || node.next.contains(&Target::Drop)
            || !straight
            || place > 0 && entered != 1
            || e.drops
            || e.emits
            || e.turns
            || e.shares
            || e.aliases
        {
            return Err(format!("`{}` can't be a branch", node.name));
        }
        for (_, other) in members.iter().skip(place + 1) {
            if e.writes.meets(other.effects.writes) {
                let (a, b) = (&node.name, &other.name);
                return Err(format!("the branches `{a}` and `{b}` write the same part"));
            }
        }
    }
    Ok(())
}
