//! Sets of addresses of a run that commands change (docs/sets.md).

use std::collections::BTreeMap;

use weir_ctl::sets::Book;
use weir_graph::ChainFile;
use weir_graph::compile::Home;

use crate::args::Run;
use crate::driver::ChainPlan;
use crate::exit::Failure;
use crate::set_log;

fn failed(error: std::io::Error) -> Failure {
    Failure::outside(format!(
        "what was done with sets before can't be read: {error}"
    ))
}

/// Has the sets be what commands have made of them in a process before this one.
pub(super) fn restore(file: &ChainFile) -> Result<(), Failure> {
    let Some(log) = set_log::log().map_err(failed)? else {
        return Ok(());
    };
    Book::new(&file.sets, |_| None, Some(log))
        .map(drop)
        .map_err(failed)
}

/// Sets that can't change while a run lasts, and why.
pub(super) fn fixed(args: &Run, file: &ChainFile, plans: &[ChainPlan]) -> BTreeMap<String, String> {
    let mut fixed = BTreeMap::new();
    if args.standby {
        let why = "switches stand by that would not know of the change (`--standby`): change the \
                   file, and restart all of them";
        let names = file.sets.iter().map(|of| of.set.name.to_string());
        fixed.extend(names.map(|name| (name, why.to_owned())));
        return fixed;
    }
    for (chain, plan) in file.chains.iter().zip(plans) {
        let stages = plan.plan.steps.iter().flat_map(|step| step.stages());
        let apart = stages.filter(|stage| stage.home == Home::Tenant);
        let names = apart.flat_map(|stage| plan.plan.graph.nodes.get(stage.nodes.clone()));
        let names: Vec<&str> = names.flatten().map(|node| node.name.as_str()).collect();
        let nodes = chain.stage.nodes.iter();
        for node in nodes.filter(|node| names.contains(&node.name.as_str())) {
            for named in node.processor.sets() {
                let why = format!(
                    "the function `{}` looks into it, whose stage is not trusted (`untrusted`) and \
                     takes no commands: that takes a restart",
                    node.name
                );
                fixed.insert(named.name.to_string(), why);
            }
        }
    }
    fixed
}
