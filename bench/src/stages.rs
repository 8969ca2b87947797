//! A chain cut into stages on one thread, without rings: what handing packets from one stage to
//! the next costs by itself.

use weir_nf::host::{Stage, Target};
use weir_runtime::{Report, Rest, Role, Runtime, RuntimeConfig};

use crate::line::CONFIG;

/// Runtimes for a chain in a row, cut before the functions of these numbers.
pub(crate) fn runtimes(whole: &Stage, cuts: &[usize]) -> Result<Vec<Runtime>, String> {
    let starts = core::iter::once(0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain([whole.nodes.len()]);
    let stages: Vec<Stage> = starts
        .zip(ends)
        .map(|(start, end)| part(whole, start, end))
        .collect();
    let rest = Rest::of(stages.iter().skip(1)).map_err(|error| error.to_string())?;
    let last = stages.len() - 1;
    let roles = stages.iter().enumerate().map(|(i, stage)| {
        let role = match i {
            0 => Role::First(rest),
            i => Role::later(&stages, i == last),
        };
        let config = RuntimeConfig { role, ..CONFIG };
        Runtime::new(stage, config).map_err(|error| error.to_string())
    });
    roles.collect()
}

/// The functions from `start` to before `end`.
fn part(whole: &Stage, start: usize, end: usize) -> Stage {
    let mut stage = whole.clone();
    stage.first = start as u8;
    stage.nodes = whole.nodes[start..end].to_vec();
    for target in stage.nodes.iter_mut().flat_map(|node| &mut node.next) {
        *target = match *target {
            Target::Node(n) if n >= end => Target::Later(n as u8),
            Target::Node(n) => Target::Node(n - start),
            other => other,
        };
    }
    stage
}

/// The report of all stages.
pub(crate) fn report(stages: &[Runtime]) -> Report {
    let reports: Vec<Report> = stages.iter().map(Runtime::report).collect();
    Report::chain(&reports)
}
