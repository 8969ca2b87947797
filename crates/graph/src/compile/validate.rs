//! Checks of options against the graph, before any pass.

use std::collections::BTreeMap;

use super::fault::PlanFault;
use super::graph::{Graph, MOST_PROCESSORS};
use super::options::{MOST_CORES, MOST_INSTANCES, Mode, Options};
use super::plan::Pass;
use crate::nearest::suggestion;

/// Everything that is wrong with options for this graph.
pub fn validate(graph: &Graph, options: &Options) -> Vec<PlanFault> {
    let mut faults = Vec::new();
    if graph.nodes.len() > MOST_PROCESSORS {
        faults.push(PlanFault {
            pass: Pass::Expand,
            option: None,
            message: format!(
                "{} processors: a chain has at most {MOST_PROCESSORS}, templates expanded",
                graph.nodes.len()
            ),
            help: Some("split it into several chains".to_owned()),
            bug: false,
        });
        return faults;
    }
    let keys = [
        ("stages", options.cuts.iter().collect::<Vec<_>>()),
        ("instances", options.instances.keys().collect()),
        ("processes", options.processes.iter().collect()),
        ("untrusted", options.untrusted.iter().collect()),
        ("affinity", options.affinity.keys().collect()),
    ];
    for (key, names) in keys {
        for name in names {
            if !graph.nodes.iter().any(|node| node.is_called(name)) {
                faults.push(unknown(graph, key, name));
            }
        }
    }
    for (name, &count) in &options.instances {
        if count == 0 || count > MOST_INSTANCES {
            faults.push(
                PlanFault::of(
                    "instances",
                    name,
                    format!("`{name}` can't have {count} instances"),
                )
                .help(format!(
                    "a stage has 1 to {MOST_INSTANCES} instances; to leave a function out, \
                     take it from `nfs`"
                )),
            );
        }
    }
    for &number in options.cores.iter().filter(|n| **n >= MOST_CORES) {
        faults.push(PlanFault::of(
            "cores",
            &number.to_string(),
            format!(
                "there is no core {number}: the highest number is {}",
                MOST_CORES - 1
            ),
        ));
    }
    for (name, &number) in options.affinity.iter().filter(|(_, n)| **n >= MOST_CORES) {
        faults.push(PlanFault::of(
            "affinity",
            name,
            format!(
                "there is no core {number}: the highest number is {}",
                MOST_CORES - 1
            ),
        ));
    }
    if faults.is_empty() {
        cuts(graph, options, &mut faults);
        instances(graph, options, &mut faults);
        processes(graph, options, &mut faults);
    }
    faults
}

fn unknown(graph: &Graph, key: &'static str, name: &str) -> PlanFault {
    let mut names: Vec<&str> = Vec::new();
    for node in &graph.nodes {
        for name in [node.instance.as_str(), node.name.as_str()] {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let fault = PlanFault::of(
        key,
        name,
        format!("there is no instance or processor `{name}` in this chain"),
    );
    match suggestion(name, "instances and processors", &names) {
        Some(help) => fault.help(help),
        None => fault,
    }
}

/// Number of the last processor that stays in the first stage, which takes all
/// before it along.
pub(super) fn last_of_first(graph: &Graph) -> Option<usize> {
    graph
        .nodes
        .iter()
        .rposition(|node| node.effects.stays_first())
}

/// Why a processor stays in the first stage.
pub(super) fn stays_why(graph: &Graph, number: usize) -> String {
    let effects = &graph.nodes[number].effects;
    let why = if effects.aliases {
        "gives flows further names, which only the first stage knows"
    } else if effects.turns {
        "may send packets back through the chain"
    } else {
        "keeps its state by a key of its own, which only the first stage makes"
    };
    format!("`{}` {why}", graph.nodes[number].name)
}

/// The first processor that has a name.
pub(super) fn first_called(graph: &Graph, name: &str) -> Option<usize> {
    graph.nodes.iter().position(|node| node.is_called(name))
}

fn cuts(graph: &Graph, options: &Options, faults: &mut Vec<PlanFault>) {
    if let (Some(name), true) = (options.cuts.first(), options.mode != Mode::Pipeline) {
        faults.push(
            PlanFault::of("stages", name, "stages by hand are of a pipeline")
                .help("write `mode: pipeline`, or take `stages` away"),
        );
        return;
    }
    let last = last_of_first(graph);
    for name in &options.cuts {
        let Some(at) = first_called(graph, name) else {
            continue;
        };
        if let Some(last) = last
            && at > 0
            && at <= last
        {
            faults.push(
                PlanFault::of(
                    "stages",
                    name,
                    format!(
                        "no stage can begin with `{name}`: {}",
                        stays_why(graph, last)
                    ),
                )
                .help("it stays in the first stage, with all that is before it: cut behind it"),
            );
        }
    }
}

fn instances(graph: &Graph, options: &Options, faults: &mut Vec<PlanFault>) {
    let last = last_of_first(graph).map_or(1, |last| last + 1);
    let mut wanted: BTreeMap<usize, (&str, u16)> = BTreeMap::new();
    for (name, &count) in options.instances.iter().filter(|(_, count)| **count > 1) {
        let mut fault = |message: String, help: &str| {
            faults.push(PlanFault::of("instances", name, message).help(help));
        };
        if options.mode == Mode::RunToCompletion {
            fault(
                format!("`{name}` can't have {count} instances: the chain is one stage"),
                "write `mode: pipeline`, or run the whole chain several times with `--workers`",
            );
            continue;
        }
        let numbers: Vec<usize> = (0..graph.nodes.len())
            .filter(|&number| graph.nodes[number].is_called(name))
            .collect();
        if numbers.first().is_some_and(|&first| first < last) {
            fault(
                format!("`{name}` can't have {count} instances: it is in the first stage"),
                "the first stage has the flows: run the whole chain several times with `--workers`",
            );
            continue;
        }
        for &number in &numbers {
            let node = &graph.nodes[number];
            if let Some(why) = alone(&node.effects) {
                fault(
                    format!("`{}` can't have {count} instances: {why}", node.name),
                    "leave it alone in its stage, without instances",
                );
            }
            if let Some((other, n)) = wanted.insert(number, (name, count))
                && n != count
            {
                fault(
                    format!("`{}` is to have {n} and {count} instances", node.name),
                    &format!("`{other}` names it too: say one number"),
                );
            }
        }
    }
}

fn processes(graph: &Graph, options: &Options, faults: &mut Vec<PlanFault>) {
    let last = last_of_first(graph);
    let processes = options.processes.iter().map(|name| ("processes", name));
    let untrusted = options.untrusted.iter().map(|name| ("untrusted", name));
    // Key that has taken each processor: a name may be that of a template's instance.
    let mut taken: BTreeMap<usize, &str> = BTreeMap::new();
    for (key, name) in processes.chain(untrusted) {
        let mut fault = |message: String, help: &str| {
            faults.push(PlanFault::of(key, name, message).help(help));
        };
        let alone = format!("`{name}` can't have a process of its own");
        if options.mode == Mode::RunToCompletion {
            let help = match key {
                "untrusted" => {
                    "who is not trusted never runs in the main process: run it without `rtc`, \
                     `--workers` and `--runtimes`"
                }
                _ => "write `mode: pipeline`, or take the name away",
            };
            fault(format!("{alone}: the chain is one stage"), help);
            continue;
        }
        if options.instances.iter().any(|(other, count)| {
            let both =
                |node: &super::graph::Processor| node.is_called(name) && node.is_called(other);
            *count > 1 && graph.nodes.iter().any(both)
        }) {
            fault(
                format!("`{name}` can't have both instances and a process of its own"),
                "instances are threads of the main process: take it from one of the two",
            );
        }
        let numbers = (0..graph.nodes.len()).filter(|&at| graph.nodes[at].is_called(name));
        let numbers: Vec<usize> = numbers.collect();
        let first = numbers.first().copied().unwrap_or(0);
        if let Some(last) = last.filter(|last| first <= *last) {
            fault(
                format!("{alone}: {}", stays_why(graph, last)),
                "it stays in the first stage, in the main process, with all that is before it",
            );
        } else if first == 0 {
            fault(
                format!("{alone}: it is the first of the chain"),
                "the first stage has the flows, and is the main process's: write something before \
                 it, such as `ip-check`",
            );
        }
        let ends = numbers.last().map_or(0, |last| last + 1);
        if (first..ends).any(|at| !graph.nodes[at].is_called(name)) {
            fault(
                format!("{alone}: others' processors are among its own"),
                "name each of its processors by itself",
            );
        }
        for at in numbers {
            let other = taken.insert(at, name);
            if let Some(other) = other.filter(|other| *other != name.as_str()) {
                let named = &graph.nodes[at].name;
                fault(
                    format!("`{named}` is to have a process as `{other}` and as `{name}`"),
                    "say it once",
                );
            }
        }
        if key == "untrusted" && options.processes.contains(name) {
            fault(
                format!("`{name}` is both in `processes` and in `untrusted`"),
                "`untrusted` alone gives it a process, too",
            );
        }
    }
}

/// Why there can be only one instance of a processor.
pub(super) fn alone(effects: &super::graph::Effects) -> Option<String> {
    if effects.shares {
        return Some("it takes what all flows share".to_owned());
    }
    match effects.scope {
        weir_nf::Scope::Flow => None,
        _ if !effects.stateful => None,
        scope => Some(format!(
            "it keeps its state per {}, and each instance would see a part of it",
            scope.describe()
        )),
    }
}
