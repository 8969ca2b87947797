//! From plans, or numbers of workers or runtimes, to a [`Placement`]; and from a
//! placement to the threads of nodes.

use weir_exec::Placement;
use weir_exec::placement::{Kind, Node, Process, Thread};
use weir_graph::Placing;
use weir_graph::compile::{Home, Step};

use super::{ChainPlan, Spread};

/// Name of the node of a stage in its step, counted from 0; `place` is the
/// number of its branch, and of the instance.
pub(crate) fn node_name(chain: &str, number: usize, step: &Step, place: (usize, usize)) -> String {
    let number = number + 1;
    match is_wide(step) {
        true => format!("{chain}/{number}.{}", place.0 + place.1 + 1),
        false => format!("{chain}/{number}"),
    }
}

/// Name of the node that carries frames to a step, counted from 0.
pub(crate) fn carrier_name(chain: &str, number: usize) -> String {
    format!("{chain}/to {}", number + 1)
}

fn is_wide(step: &Step) -> bool {
    !matches!(step.stages(), [only] if only.instances <= 1)
}

fn node(name: String, kind: Kind, functions: Vec<String>, why: &str) -> Node {
    Node {
        name,
        kind,
        functions,
        why: why.to_owned(),
    }
}

fn process(name: String, core: Option<usize>, node: Node) -> Process {
    let nodes = vec![node];
    Process {
        name,
        threads: vec![Thread { core, nodes }],
    }
}

/// The main process with its first thread, which has the ports.
fn main_process(core: Option<usize>, why: &str) -> Process {
    let ports = node("ports".to_owned(), Kind::Ports, Vec::new(), why);
    process("main".to_owned(), core, ports)
}

/// Chains as their plans cut them: a thread per stage and instance, and a
/// process for each stage that is to have one. `homes` are by chain and step;
/// what it does not name is in the main process.
pub(crate) fn of_plans(chains: &[ChainPlan], homes: &[Vec<Home>]) -> Placement {
    let first = chains.first().and_then(|chain| chain.plan.steps.first());
    let core = first.and_then(|step| step.stages().first()?.core);
    let mut placement = Placement {
        processes: vec![main_process(core, "the calling thread has the ports")],
        edges: Vec::new(),
    };
    for (number, chain) in chains.iter().enumerate() {
        let homes = homes.get(number).map_or(&[][..], Vec::as_slice);
        place_chain(&mut placement, chain, homes);
    }
    placement
}

fn place_chain(placement: &mut Placement, chain: &ChainPlan, homes: &[Home]) {
    let name = &chain.plan.chain;
    // The nodes that feed the next step; and true if their outputs are merged
    // in one port, which only a node can read.
    let (mut before, mut joined) = (vec!["ports".to_owned()], false);
    for (number, step) in chain.plan.steps.iter().enumerate() {
        let home = homes.get(number).copied().unwrap_or_default();
        let wide = is_wide(step);
        // A process takes over the ring of a process before it.
        let reads_ring = matches!(home, Home::Process) && !wide;
        let from_process = number > 0
            && matches!(homes.get(number - 1), Some(Home::Process))
            && !is_wide(&chain.plan.steps[number - 1]);
        let carried = match (wide || home == Home::Tenant, reads_ring) {
            (true, _) => joined || from_process,
            (_, true) => joined,
            _ => false,
        };
        if carried {
            let carrier = carrier_name(name, number);
            let why = "reads a port of several and writes one";
            connect(placement, &mut before, std::slice::from_ref(&carrier));
            let core = step.stages().first().filter(|_| wide).and_then(|s| s.core);
            on_own_thread(
                placement,
                core,
                node(carrier, Kind::Carrier, Vec::new(), why),
            );
        }
        let mut here = Vec::new();
        for (branch, planned) in step.stages().iter().enumerate() {
            let nodes = chain.plan.graph.nodes.get(planned.nodes.clone());
            let functions = nodes.unwrap_or(&[]).iter().map(|node| node.name.clone());
            let functions: Vec<String> = functions.collect();
            for instance in 0..usize::from(planned.instances.max(1)) {
                let at = node_name(name, number, step, (branch, instance));
                here.push(at.clone());
                let functions = functions.clone();
                let stage = node(at, Kind::Stage, functions, "");
                place_stage(placement, stage, (number, home, wide), planned.core);
            }
        }
        connect(placement, &mut before, &here);
        joined = wide || home == Home::Tenant;
    }
    connect(placement, &mut before, &["ports".to_owned()]);
}

/// Places a stage of a step: on the ports' thread where that is the first, in a
/// process where it has a home elsewhere, else on a thread of its own.
fn place_stage(
    placement: &mut Placement,
    mut stage: Node,
    (number, home, wide): (usize, Home, bool),
    core: Option<usize>,
) {
    if number == 0 {
        stage.why = "the first stage finds and ends flows".to_owned();
        return placement.processes[0].threads[0].nodes.push(stage);
    }
    stage.why = match home {
        Home::Process if !wide => "a process of its own",
        Home::Tenant if !wide => "it is not trusted",
        _ => "a stage has a thread of its own",
    }
    .to_owned();
    match home {
        Home::Main => on_own_thread(placement, core, stage),
        _ if wide => on_own_thread(placement, core, stage),
        Home::Process | Home::Tenant => {
            if home == Home::Tenant {
                stage.kind = Kind::Sandbox;
            }
            let name = stage.name.clone();
            placement.processes.push(process(name, core, stage));
        }
    }
}

fn on_own_thread(placement: &mut Placement, core: Option<usize>, node: Node) {
    let nodes = vec![node];
    placement.processes[0].threads.push(Thread { core, nodes });
}

fn connect(placement: &mut Placement, before: &mut Vec<String>, here: &[String]) {
    for from in before.iter() {
        let edges = here.iter().map(|to| (from.clone(), to.clone()));
        placement.edges.extend(edges);
    }
    *before = here.to_vec();
}

/// Equal nodes behind a node that sends packets to them.
fn spread(
    (sender, kind, why): (&str, Kind, &str),
    (each, count): (&str, usize),
    cores: &[usize],
) -> Placement {
    let spread = Spread::one_each(cores, count);
    let mut placement = Placement {
        processes: vec![main_process(
            spread.ports_core(),
            "the calling thread has the ports",
        )],
        edges: vec![("ports".to_owned(), sender.to_owned())],
    };
    let sends = node(sender.to_owned(), kind, Vec::new(), why);
    placement.processes[0].threads[0].nodes.push(sends);
    for number in 0..count {
        let name = format!("{each} {}", number + 1);
        for (from, to) in [(sender, &*name), (&*name, sender)] {
            placement.edges.push((from.to_owned(), to.to_owned()));
        }
        let runs = node(
            name,
            Kind::Runtime,
            Vec::new(),
            "whole chains, on a thread of its own",
        );
        on_own_thread(&mut placement, spread.of(number).1, runs);
    }
    placement
        .edges
        .push((sender.to_owned(), "ports".to_owned()));
    placement
}

/// Workers that packets are steered to.
pub(crate) fn of_workers(workers: usize, cores: &[usize]) -> Placement {
    let why = "flows of a pair of hosts stay together: no switch is needed";
    spread(("steer", Kind::Steer, why), ("worker", workers), cores)
}

/// Runtimes behind a switch, on threads, or with `processes` in processes.
pub(crate) fn of_runtimes(runtimes: usize, cores: &[usize], processes: bool) -> Placement {
    let why = "the switch numbers packets, so that flows can move";
    let mut placement = spread(("switch", Kind::Switch, why), ("runtime", runtimes), cores);
    if processes {
        for mut thread in placement.processes[0].threads.split_off(1) {
            for mut node in thread.nodes.drain(..) {
                node.why = "whole chains, in a process of its own".to_owned();
                let name = node.name.clone();
                placement.processes.push(process(name, thread.core, node));
            }
        }
    }
    placement
}

/// Name of the node of a fail-open bump's guardian.
pub(crate) const GUARD: &str = "guard";

/// Adds the guardian of a bump that fails open.
pub(crate) fn add_guard(placement: &mut Placement) {
    let why = "passes packets on while the main process is down, and starts it again";
    let guard = node(GUARD.to_owned(), Kind::Guard, Vec::new(), why);
    let guardian = process("guardian".to_owned(), None, guard);
    placement.processes.push(guardian);
}

/// The placement without the guardian, whose process is none of the run's; true where it had
/// one.
pub(crate) fn without_guard(placement: &mut Placement) -> bool {
    let before = placement.processes.len();
    let guards = |process: &Process| {
        let mut nodes = process.threads.iter().flat_map(|thread| &thread.nodes);
        nodes.any(|node| node.kind == Kind::Guard)
    };
    placement.processes.retain(|process| !guards(process));
    placement.processes.len() < before
}

/// A placement as a chain file writes it: with the names of nodes alone.
pub(crate) fn of_file(placing: &Placing) -> Placement {
    let named = |name: &String| {
        let kind = match name.as_str() {
            "ports" => Kind::Ports,
            "steer" => Kind::Steer,
            "switch" => Kind::Switch,
            GUARD => Kind::Guard,
            name if name.contains("/to ") => Kind::Carrier,
            name if name.contains('/') => Kind::Stage,
            _ => Kind::Runtime,
        };
        node(name.clone(), kind, Vec::new(), "")
    };
    let threads = placing.threads.iter().map(|thread| Thread {
        core: thread.core,
        nodes: thread.nodes.iter().map(named).collect(),
    });
    let main = Process {
        name: "main".to_owned(),
        threads: threads.collect(),
    };
    let others = placing.processes.iter();
    let others = others.map(|name| process(name.clone(), None, named(name)));
    Placement {
        processes: std::iter::once(main).chain(others).collect(),
        edges: Vec::new(),
    }
}

/// The node that packets pass before they get to runtimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Nothing: stages of plans.
    Stages,
    /// So many runtimes behind a switch.
    Runtimes(u32),
    /// So many workers that packets are steered to.
    Workers(u32),
}

/// The form of a placement.
///
/// # Errors
///
/// Runtimes without a node that sends them packets, or with two, too many of
/// them, or with other names than [`spread_of`] takes.
pub(crate) fn form_of(placement: &Placement) -> Result<Form, String> {
    spread_of(placement)?;
    let count = |kind: Kind| {
        placement
            .nodes()
            .filter(|(_, node)| node.kind == kind)
            .count()
    };
    let runtimes = u32::try_from(count(Kind::Runtime)).unwrap_or(u32::MAX);
    if runtimes > weir_graph::MOST_RUNTIMES {
        return Err(format!(
            "there may be {} runtimes",
            weir_graph::MOST_RUNTIMES
        ));
    }
    match (count(Kind::Switch), count(Kind::Steer), runtimes) {
        (0, 0, 0) => Ok(Form::Stages),
        (1, 0, 1..) => Ok(Form::Runtimes(runtimes)),
        (0, 1, 1..) => match placement.nodes().find(|((process, ..), _)| *process > 0) {
            None => Ok(Form::Workers(runtimes)),
            Some((_, worker)) => Err(format!(
                "node `{}` is a worker, which runs in the main process only",
                worker.name
            )),
        },
        _ => {
            let why = "runtimes go with one node that sends them packets, `switch` or `steer`";
            Err(why.to_owned())
        }
    }
}

/// How a placement spreads its runtimes or workers, in the order of their
/// numbers.
///
/// # Errors
///
/// Nodes that are not called `runtime 1`, `runtime 2` and so on, or `worker 1`.
pub(crate) fn spread_of(placement: &Placement) -> Result<Spread, String> {
    let runtimes = placement
        .nodes()
        .filter(|(_, node)| node.kind == Kind::Runtime);
    let count = runtimes.count();
    let mut cores = placement.cores();
    let mut thread = |number: usize| {
        let named = |each: &str| placement.find(&format!("{each} {number}"));
        let ((at, thread, _), _) = named("runtime").or_else(|| named("worker"))?;
        if at == 0 {
            return Some(thread);
        }
        // A process counts as one more thread.
        let core = placement.processes.get(at)?.threads.get(thread)?.core;
        cores.push(core);
        Some(cores.len() - 1)
    };
    let threads: Vec<usize> = (1..=count).map_while(&mut thread).collect();
    match threads.len() == count {
        true => Ok(Spread::new(threads, cores)),
        false => Err(format!(
            "a placement of {count} runtimes calls them `runtime 1` to `runtime {count}`, or `worker`"
        )),
    }
}

/// Applies a given placement to plans: its threads and cores, with the edges of the
/// plans. Carriers that it leaves out have threads of their own.
///
/// # Errors
///
/// A stage that is not placed, a node that the plans have not, or a node where
/// it can't be.
pub(crate) fn fitted(given: &Placement, expected: &Placement) -> Result<Placement, String> {
    let mut fitted = given.clone();
    fitted.edges.clone_from(&expected.edges);
    for (_, node) in given.nodes() {
        if node.kind != Kind::Carrier && expected.find(&node.name).is_none() {
            return Err(format!("the plan has no node `{}`", node.name));
        }
    }
    for process in &mut fitted.processes {
        for thread in &mut process.threads {
            // A carrier that is not needed here is left out.
            thread.nodes.retain_mut(|node| {
                let known = expected.find(&node.name);
                if let Some((_, known)) = known {
                    node.kind = known.kind;
                    node.functions.clone_from(&known.functions);
                }
                known.is_some()
            });
        }
    }
    for ((process, thread, _), node) in expected.nodes() {
        match given.find(&node.name) {
            None if node.kind == Kind::Carrier => on_own_thread(&mut fitted, None, node.clone()),
            None => return Err(format!("node `{}` of the plan is not placed", node.name)),
            Some((at, _)) if (process, thread) == (0, 0) && (at.0, at.1) != (0, 0) => {
                return Err(format!(
                    "node `{}` is not on the first thread, which has the ports: {}",
                    node.name, node.why
                ));
            }
            Some((at, _)) if (at.0 == 0) != (process == 0) && node.kind != Kind::Runtime => {
                return Err(format!("node `{}` can't be in that process", node.name));
            }
            Some(_) => {}
        }
    }
    Ok(fitted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_are_spread_as_placed_or_refused() {
        let placed = of_runtimes(3, &[4, 5], false);
        assert_eq!(placed.check(), Ok(()));
        assert_eq!(spread_of(&placed).unwrap(), Spread::one_each(&[4, 5], 3));
        let mut together = placed.clone();
        let last = together.processes[0].threads.pop().unwrap();
        together.processes[0].threads[1].nodes.extend(last.nodes);
        let spread = spread_of(&together).unwrap();
        let threads: Vec<usize> = (0..3).map(|node| spread.of(node).0).collect();
        assert_eq!(threads, [1, 2, 1]);
        together.processes[0].threads[1].nodes[1].name = "runtime 7".to_owned();
        assert!(spread_of(&together).unwrap_err().contains("runtime 3"));
    }

    #[test]
    fn a_placement_must_fit_its_plan() {
        let expected = of_workers(2, &[]);
        let mut missing = expected.clone();
        missing.processes[0].threads.pop();
        let error = fitted(&missing, &expected).unwrap_err();
        assert!(error.contains("`worker 2`"), "{error}");
        let error = fitted(&of_workers(3, &[]), &expected).unwrap_err();
        assert!(error.contains("has no node `worker 3`"), "{error}");
        let mut moved = expected.clone();
        let steer = moved.processes[0].threads[0].nodes.pop().unwrap();
        moved.processes[0].threads[1].nodes.push(steer);
        let error = fitted(&moved, &expected).unwrap_err();
        assert!(
            error.contains("`steer` is not on the first thread"),
            "{error}"
        );
        assert_eq!(fitted(&expected, &expected).unwrap(), expected);
    }
}
