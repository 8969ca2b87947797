//! Makes a failing run smaller, so that a person can read it.

use crate::check::Invariant;
use crate::fault::Fault;
use crate::plan::Plan;
use crate::run::run;
use crate::settings::Settings;
use crate::trace::Trace;
use crate::world::Outcome;

/// Most candidate runs of one minimisation.
const MAX_RUNS: u32 = 400;

/// A smaller plan that fails in the same way, with its outcome and its trace.
#[derive(Debug)]
pub struct Minimal {
    /// The plan.
    pub plan: Plan,
    /// How the smaller plan ends.
    pub outcome: Outcome,
    /// The full trace of the smaller plan.
    pub trace: Trace,
    /// Candidate runs, without the first run and the last one.
    pub runs: u32,
}

struct Search<'a> {
    settings: &'a Settings,
    invariant: Invariant,
    /// The smallest failing plan so far.
    best: Plan,
    runs: u32,
}

impl Search<'_> {
    /// Runs a candidate, and keeps it as the best if it violates the same invariant.
    /// False also where no runs are left.
    fn try_candidate(&mut self, plan: Plan) -> bool {
        if self.runs >= MAX_RUNS {
            return false;
        }
        self.runs += 1;
        let fails = run(self.settings, &plan, Trace::default())
            .ok()
            .and_then(|(outcome, _)| outcome.violation)
            .filter(|violation| violation.invariant == self.invariant);
        if let Some(violation) = fails {
            self.best = plan;
            // Packets and steps after the violation don't matter. Not so for
            // `Stuck`: it is found at the end of the run, which must not move.
            if self.invariant != Invariant::Stuck {
                cut(&mut self.best, violation.at);
            }
            return true;
        }
        false
    }

    /// Removes parts of a list while the run still fails: halves first, then ever
    /// smaller parts, at last single elements (delta debugging).
    fn remove_parts<T: Clone>(
        &mut self,
        get: impl Fn(&Plan) -> Vec<T>,
        set: impl Fn(&mut Plan, Vec<T>),
    ) {
        let mut size = get(&self.best).len().div_ceil(2);
        while size > 0 && self.runs < MAX_RUNS {
            let mut from = 0;
            let mut any = false;
            while from < get(&self.best).len() && self.runs < MAX_RUNS {
                let all = get(&self.best);
                let to = (from + size).min(all.len());
                let mut fewer = all.clone();
                fewer.drain(from..to);
                let mut plan = self.best.clone();
                set(&mut plan, fewer);
                if self.try_candidate(plan) {
                    any = true;
                } else {
                    from += size;
                }
            }
            if size == 1 && !any {
                break;
            }
            size = if size == 1 { 1 } else { size / 2 };
        }
    }
}

/// Leaves out what comes after a time.
fn cut(plan: &mut Plan, time: u64) {
    plan.packets.retain(|packet| packet.at <= time);
    plan.steps.retain(|(at, _)| *at <= time);
    plan.others.iter_mut().for_each(|other| cut(other, time));
}

/// Leaves out a kind of faults.
fn leave_out(plan: &mut Plan, fault: Fault) {
    plan.faults = plan.faults.without(fault);
    plan.steps.retain(|(_, step)| step.fault() != Some(fault));
    let others = plan.others.iter_mut();
    others.for_each(|other| leave_out(other, fault));
}

/// Makes a failing plan smaller: fewer chains, kinds of faults, flows, steps, packets.
///
/// # Errors
///
/// The plan does not fail, or can't be run.
pub fn minimise(settings: &Settings, plan: &Plan) -> Result<Minimal, String> {
    let (outcome, _) = run(settings, plan, Trace::default())?;
    let Some(violation) = outcome.violation else {
        return Err("the run does not fail".to_owned());
    };
    let mut search = Search {
        settings,
        invariant: violation.invariant,
        best: plan.clone(),
        runs: 0,
    };
    // Cuts what comes after the violation.
    search.try_candidate(plan.clone());
    search.remove_parts(
        |plan| plan.others.clone(),
        |plan, others| plan.others = others,
    );
    for fault in Fault::ALL {
        let mut fewer = search.best.clone();
        if fewer.faults.has(fault) {
            leave_out(&mut fewer, fault);
            search.try_candidate(fewer);
        }
    }
    let flows = |plan: &Plan| {
        let mut flows: Vec<u32> = plan.packets.iter().map(|p| p.flow).collect();
        flows.sort_unstable();
        flows.dedup();
        flows
    };
    search.remove_parts(flows, |plan, flows| {
        plan.packets
            .retain(|packet| flows.binary_search(&packet.flow).is_ok());
    });
    search.remove_parts(|plan| plan.steps.clone(), |plan, steps| plan.steps = steps);
    search.remove_parts(
        |plan| plan.packets.clone(),
        |plan, packets| plan.packets = packets,
    );
    let (outcome, trace) = run(settings, &search.best, Trace::kept())?;
    Ok(Minimal {
        plan: search.best,
        outcome,
        trace,
        runs: search.runs,
    })
}
