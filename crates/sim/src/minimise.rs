//! Makes a failing run smaller, so that a person can read it.

use crate::check::Invariant;
use crate::fault::Fault;
use crate::plan::Plan;
use crate::run::run;
use crate::settings::Settings;
use crate::trace::Trace;
use crate::world::Outcome;

/// Most runs that it takes.
const RUNS: u32 = 400;

/// A smaller plan that fails in the same way, with its outcome and its trace.
#[derive(Debug)]
pub struct Minimal {
    /// The plan.
    pub plan: Plan,
    /// What it does.
    pub outcome: Outcome,
    /// What happens in it.
    pub trace: Trace,
    /// Runs that it took.
    pub runs: u32,
}

struct Search<'a> {
    settings: &'a Settings,
    invariant: Invariant,
    best: Plan,
    runs: u32,
}

impl Search<'_> {
    /// Takes a plan if it still fails.
    fn take(&mut self, plan: Plan) -> bool {
        if self.runs >= RUNS {
            return false;
        }
        self.runs += 1;
        let fails = run(self.settings, &plan, Trace::default())
            .ok()
            .and_then(|(outcome, _)| outcome.violation)
            .filter(|violation| violation.invariant == self.invariant);
        if let Some(violation) = fails {
            self.best = plan;
            // Nothing that comes later matters; a run that got stuck needs
            // its end where it was.
            if self.invariant != Invariant::Stuck {
                self.best.packets.retain(|packet| packet.at <= violation.at);
                self.best.steps.retain(|(at, _)| *at <= violation.at);
            }
            return true;
        }
        false
    }

    /// Leaves out parts of a list, larger ones first.
    fn thin<T: Clone>(&mut self, get: impl Fn(&Plan) -> Vec<T>, set: impl Fn(&mut Plan, Vec<T>)) {
        let mut size = get(&self.best).len().div_ceil(2);
        while size > 0 && self.runs < RUNS {
            let mut from = 0;
            let mut any = false;
            while from < get(&self.best).len() && self.runs < RUNS {
                let all = get(&self.best);
                let to = (from + size).min(all.len());
                let mut fewer = all.clone();
                fewer.drain(from..to);
                let mut plan = self.best.clone();
                set(&mut plan, fewer);
                if self.take(plan) {
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

/// Makes a failing plan smaller: fewer kinds of faults, flows, steps, packets.
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
    search.take(plan.clone());
    for fault in Fault::ALL {
        let mut fewer = search.best.clone();
        if fewer.faults.has(fault) {
            fewer.faults = fewer.faults.without(fault);
            fewer.steps.retain(|(_, step)| step.fault() != Some(fault));
            search.take(fewer);
        }
    }
    let flows = |plan: &Plan| {
        let mut flows: Vec<u32> = plan.packets.iter().map(|p| p.flow).collect();
        flows.sort_unstable();
        flows.dedup();
        flows
    };
    search.thin(flows, |plan, flows| {
        plan.packets
            .retain(|packet| flows.binary_search(&packet.flow).is_ok());
    });
    search.thin(|plan| plan.steps.clone(), |plan, steps| plan.steps = steps);
    search.thin(
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
