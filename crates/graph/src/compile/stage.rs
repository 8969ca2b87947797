//! The graph is cut into stages.
//!
//! One stage is run to completion on one core. Cut by hand, by cost, or at
//! every processor, the graph becomes a line of stages with rings between
//! them. The first stage has the flows; what needs their table stays in it,
//! with all that is before. Verdicts do not cross from one stage to another:
//! a processor whose verdicts came from another stage runs itself.

use core::ops::Range;
use std::collections::BTreeSet;

use super::costs::PortCosts;
use super::fault::PlanFault;
use super::graph::Graph;
use super::options::{Mode, Options};
use super::plan::{Balance, Decision, Home, Pass, PlannedStage, Step};
use super::same::stands_for;
use super::validate::{alone, first_called, last_of_first, stays_why};
use super::ways::Ways;

/// Borders of stages, and the stages that are parallel.
struct Cut {
    /// Numbers of processors before which a stage begins, 0 left out.
    borders: BTreeSet<usize>,
    /// Groups of branches: each processor is a stage.
    groups: Vec<Range<usize>>,
}

/// Cuts the graph; takes back what does not hold across a border.
pub(super) fn stage(
    graph: &mut Graph,
    written: &Graph,
    groups: Vec<Range<usize>>,
    options: &Options,
    decisions: &mut Vec<Decision>,
) -> Result<Vec<Step>, Vec<PlanFault>> {
    let (borders, done, why) = choose(graph, &groups, options);
    let mut cut = Cut { borders, groups };
    let at = decisions.len();
    take_back(graph, written, &mut cut, decisions);
    let steps = steps(graph, options, &cut)?;
    let summary = Decision {
        pass: Pass::Stage,
        about: Vec::new(),
        done,
        why: format!("{}: {why}", count(&steps)),
    };
    decisions.insert(at, summary);
    tell(graph, options, &steps, decisions);
    Ok(steps)
}

fn count(steps: &[Step]) -> String {
    match steps.iter().map(|step| step.stages().len()).sum::<usize>() {
        1 => "one stage".to_owned(),
        count => format!("{count} stages"),
    }
}

/// Chooses the cuts; says whether they are a change, and why.
fn choose(
    graph: &Graph,
    groups: &[Range<usize>],
    options: &Options,
) -> (BTreeSet<usize>, bool, String) {
    let count = graph.nodes.len();
    let first = last_of_first(graph).map_or(1, |last| last + 1);
    let inner = |group: &Range<usize>| group.start + 1..group.end;
    let free = |at: &usize| *at >= first && !groups.iter().any(|group| inner(group).contains(at));
    let mut forced: BTreeSet<usize> = groups
        .iter()
        .flat_map(|group| [group.start, group.end])
        .filter(|at| *at < count)
        .collect();
    // A processor with a process of its own has a stage of its own.
    for name in options.apart() {
        forced.extend(around(graph, name).into_iter().filter(&free));
    }
    let uncut = |why: String| (BTreeSet::new(), false, why);
    if options.mode == Mode::RunToCompletion {
        return uncut("run to completion was asked for".to_owned());
    }
    if !options.cuts.is_empty() {
        let cuts = options
            .cuts
            .iter()
            .filter_map(|name| first_called(graph, name));
        forced.extend(cuts.filter(|at| *at > 0 && free(at)));
        return (forced, true, "cut by hand".to_owned());
    }
    if options.mode == Mode::Pipeline && options.cores.is_empty() {
        let borders: BTreeSet<usize> = (first..count).filter(free).chain(forced).collect();
        let done = !borders.is_empty();
        return (borders, done, why_stage_each(graph, first));
    }
    let by_hand = options.instances.iter().filter(|(_, count)| **count > 1);
    for (name, _) in by_hand {
        forced.extend(around(graph, name).into_iter().filter(&free));
    }
    let whole = cycles_of(graph, options, 0..count);
    if options.mode == Mode::Auto && forced.is_empty() && options.cores.len() < 2 {
        let why = match options.cores.len() {
            0 => "no cores were given",
            _ => "there is one core",
        };
        return uncut(format!("{why} (about {whole} cycles per packet)"));
    }
    let asked = !forced.is_empty();
    let cores = options.cores.len().max(1);
    let (borders, slowest) = cheapest(graph, groups, &forced, first, cores, options);
    let figures = format!("the slowest costs {slowest} of {whole} cycles, rings included");
    if options.mode == Mode::Pipeline || asked {
        let done = !borders.is_empty();
        return (
            borders,
            done,
            format!("{}; {figures}", why_cut(options, asked)),
        );
    }
    let bound = u64::from(whole) * u64::from(1_000u32.saturating_sub(options.costs.margin)) / 1_000;
    if borders.is_empty() {
        return uncut(format!("no cut is better than none: {figures}"));
    }
    if u64::from(slowest) > bound {
        return uncut(format!(
            "cut for {cores} cores {figures}: more than {bound}, so it does not pay"
        ));
    }
    let why = format!("the best cut for {cores} cores: {figures}");
    (borders, true, why)
}

/// Why each processor has a stage of its own but those of the first stage, the first `first` ones.
fn why_stage_each(graph: &Graph, first: usize) -> String {
    let count = graph.nodes.len();
    let mut why = match count {
        1 => "there is one processor".to_owned(),
        _ => "a pipeline without a number of cores has a stage per processor".to_owned(),
    };
    if first > 1 && first <= count {
        let stays = stays_why(graph, first - 1);
        let these = if first == count { "all " } else { "" };
        why.push_str(&format!(
            "; but the first stage has {these}{first}, since {stays}"
        ));
    }
    why
}

/// Why a chain is cut that must be: some cuts are `asked` for, or it is a pipeline.
fn why_cut(options: &Options, asked: bool) -> String {
    let asks = match options.apart().next() {
        Some(_) => "instances, processes and parallel branches",
        None => "instances and parallel branches",
    };
    match (asked, options.cores.len()) {
        (true, 0) => format!("as {asks} ask"),
        (true, n) => format!("as {asks} ask, on {n} cores"),
        (false, n) => format!("the best cut for {n} cores"),
    }
}

/// The borders of a stage that has just the processors of this name.
fn around(graph: &Graph, name: &str) -> Vec<usize> {
    let count = graph.nodes.len();
    let called = |number: &usize| graph.nodes[*number].is_called(name);
    let from = (0..count).find(called).unwrap_or(0);
    let to = (0..count).rfind(called).map_or(0, |last| last + 1);
    [from, to].into_iter().filter(|at| *at < count).collect()
}

/// Cycles per packet of the processors `range` as one stage, its ports and
/// the engine's own work included; of its busiest core where it has instances.
fn cycles_of(graph: &Graph, options: &Options, range: Range<usize>) -> u32 {
    let costs: &PortCosts = &options.costs;
    let mut sum = match range.start {
        0 => costs.classify,
        _ => costs.enter.saturating_add(costs.ring),
    };
    if range.end < graph.nodes.len() {
        sum = sum.saturating_add(costs.ring);
    }
    let mut most = 1;
    for node in &graph.nodes[range.clone()] {
        // A processor is not called if another one in this stage stands for it.
        if node.same_as.is_none_or(|root| root < range.start) {
            sum = sum.saturating_add(costs.of(&node.effects));
        }
        for (name, &count) in &options.instances {
            if node.is_called(name) {
                most = most.max(count);
            }
        }
    }
    sum.div_ceil(u32::from(most))
}

/// Cycles of a stage, or of the dearest branch of a parallel step.
fn cycles_of_step(
    graph: &Graph,
    groups: &[Range<usize>],
    options: &Options,
    range: Range<usize>,
) -> u32 {
    if groups.contains(&range) {
        let branches = range.map(|at| cycles_of(graph, options, at..at + 1));
        return branches
            .max()
            .unwrap_or(0)
            .saturating_add(options.costs.sync);
    }
    cycles_of(graph, options, range)
}

/// The cut into at most `cores` stages whose slowest one costs least, with as
/// few stages as do; more only where `forced` cuts ask for them. Dynamic
/// programming over where the last stage begins. No stage but the first begins
/// before `first`.
fn cheapest(
    graph: &Graph,
    groups: &[Range<usize>],
    forced: &BTreeSet<usize>,
    first: usize,
    cores: usize,
    options: &Options,
) -> (BTreeSet<usize>, u32) {
    let count = graph.nodes.len();
    let whole = |range: &Range<usize>| {
        let starts = range.start == 0 || range.start >= first;
        let split = forced.range(range.start + 1..range.end).next().is_some();
        let inside = groups
            .iter()
            .any(|group| group != range && group.start < range.end && range.start < group.end);
        starts && !split && !inside
    };
    let step = |range: Range<usize>| {
        let cores = cores_of(graph, groups, options, &range);
        (
            range.start,
            cores,
            cycles_of_step(graph, groups, options, range),
        )
    };
    let steps_to = |to: usize| {
        (0..to)
            .map(|from| from..to)
            .filter(&whole)
            .map(step)
            .collect()
    };
    let stages: Vec<Vec<(usize, usize, u32)>> = (0..=count).map(steps_to).collect();
    let most = cores.max(forced.len() + 1 + groups.iter().map(Range::len).sum::<usize>())
        + options
            .instances
            .values()
            .map(|n| usize::from(*n))
            .sum::<usize>();
    let best = best_cuts(&stages, most);
    // Fewest cores that do as well as all; the least that is possible where
    // there are too few.
    let mut possible = (1..=most).filter_map(|k| Some((k, best[k][count]?.0)));
    let within = possible.clone().filter(|(k, _)| *k <= cores);
    let chosen = within
        .min_by_key(|(k, slowest)| (*slowest, *k))
        .or(possible.next());
    let mut borders = BTreeSet::new();
    let Some((mut k, slowest)) = chosen else {
        return (forced.clone(), 0);
    };
    let mut at = count;
    while at > 0 {
        let Some((_, from, used)) = best[k][at] else {
            break;
        };
        if from > 0 {
            borders.insert(from);
        }
        (k, at) = (k - used, from);
    }
    (borders, slowest)
}

/// The best cut of the first `to` processors on `k` cores, at `[k][to]`: what its slowest stage costs,
/// where its last stage begins, and how many cores that one takes. `stages[to]` are the stages that end
/// at `to`: where each begins, its cores and its cost.
fn best_cuts(
    stages: &[Vec<(usize, usize, u32)>],
    most: usize,
) -> Vec<Vec<Option<(u32, usize, usize)>>> {
    let mut best = vec![vec![None; stages.len()]; most + 1];
    for row in &mut best {
        row[0] = Some((0, 0, 0));
    }
    for k in 1..=most {
        for (to, stages) in stages.iter().enumerate().skip(1) {
            for &(from, used, cycles) in stages {
                let Some((before, ..)) = k.checked_sub(used).and_then(|rest| best[rest][from])
                else {
                    continue;
                };
                let slowest = cycles.max(before);
                if best[k][to].is_none_or(|(least, ..)| slowest < least) {
                    best[k][to] = Some((slowest, from, used));
                }
            }
        }
    }
    best
}

/// Cores that a step takes: one for each parallel branch, or for each instance.
fn cores_of(
    graph: &Graph,
    groups: &[Range<usize>],
    options: &Options,
    range: &Range<usize>,
) -> usize {
    if groups.contains(range) {
        return range.len();
    }
    let nodes = &graph.nodes[range.clone()];
    let several = options
        .instances
        .iter()
        .filter(|(name, _)| nodes.iter().any(|node| node.is_called(name)));
    several.map(|(_, n)| usize::from(*n)).fold(1, usize::max)
}

/// Verdicts do not cross a border: what stood on a processor of another stage
/// stands on an equal one of its own, or runs itself; what a pass had added
/// for nobody else goes.
fn take_back(graph: &mut Graph, written: &Graph, cut: &mut Cut, decisions: &mut Vec<Decision>) {
    let ways = Ways::of(graph);
    let stage_of = |number: usize| {
        let in_group = cut.groups.iter().any(|group| group.contains(&number));
        (
            cut.borders.range(..=number).count(),
            in_group.then_some(number),
        )
    };
    for later in 0..graph.nodes.len() {
        let Some(root) = graph.nodes[later].same_as else {
            continue;
        };
        if stage_of(root) == stage_of(later) {
            continue;
        }
        let nearer = (0..later).rev().find(|&earlier| {
            let other = &graph.nodes[earlier];
            stage_of(earlier) == stage_of(later)
                && other.same_as.is_none()
                && other.equals(&graph.nodes[later])
                && stands_for(graph, &ways, earlier, later).is_ok()
        });
        graph.nodes[later].same_as = nearer;
        let name = |number: usize| graph.nodes[number].name.clone();
        let (here, there) = (name(later), name(root));
        let instead = match nearer {
            Some(nearer) => format!("the verdicts of `{}` stand for it", name(nearer)),
            None => "it runs itself".to_owned(),
        };
        undone(decisions, Pass::Consolidate, &here);
        decisions.push(Decision {
            pass: Pass::Stage,
            why: format!(
                "`{here}` is in another stage than `{there}`, and verdicts stay in their stage: \
                 {instead}"
            ),
            about: vec![here, there],
            done: true,
        });
    }
    for number in (0..graph.nodes.len()).rev() {
        let added = !written
            .nodes
            .iter()
            .any(|n| n.name == graph.nodes[number].name);
        let used = graph.nodes.iter().any(|node| node.same_as == Some(number));
        if !added || used {
            continue;
        }
        let name = graph.nodes[number].name.clone();
        graph.remove(number);
        let shift = |at: usize| at - usize::from(at > number);
        cut.borders = cut
            .borders
            .iter()
            .map(|at| shift(*at))
            .filter(|at| *at > 0)
            .collect();
        for group in &mut cut.groups {
            *group = shift(group.start)..shift(group.end);
        }
        undone(decisions, Pass::Hoist, &name);
        decisions.push(Decision {
            pass: Pass::Stage,
            done: true,
            why: format!("`{name}` is gone again: nothing of its stage stands on it"),
            about: vec![name],
        });
    }
    cut.borders.remove(&graph.nodes.len());
}

/// Marks what `pass` decided, first of all about `name`, as taken back.
fn undone(decisions: &mut [Decision], pass: Pass, name: &str) {
    for decision in decisions {
        let first = decision.about.first().is_some_and(|first| first == name);
        if decision.pass == pass && first && decision.done {
            decision.done = false;
            decision.why.push_str(" (taken back when stages were cut)");
        }
    }
}

/// The stages of the cut graph, with instances and cores.
fn steps(graph: &Graph, options: &Options, cut: &Cut) -> Result<Vec<Step>, Vec<PlanFault>> {
    let count = graph.nodes.len();
    let mut starts: Vec<usize> = core::iter::once(0)
        .chain(cut.borders.iter().copied())
        .collect();
    starts.push(count);
    let mut faults = Vec::new();
    let mut cores = options.cores.iter().cycle();
    let mut one = |range: Range<usize>| {
        let instances = instances_of(graph, options, &range, &mut faults);
        let mut kept_on = None;
        for number in 0..instances {
            let next = cores.next().copied();
            if number == 0 {
                kept_on = next;
            }
        }
        PlannedStage {
            instances,
            balance: balance_of(graph, range.clone()).0,
            core: affinity_of(graph, options, &range).or(kept_on),
            cycles: cycles_of(graph, options, range.clone()),
            home: home_of(graph, options, &range),
            nodes: range,
        }
    };
    let steps = starts
        .windows(2)
        .map(|pair| {
            let range = pair[0]..pair[1];
            match cut.groups.contains(&range) {
                true => Step::Parallel(range.map(|at| one(at..at + 1)).collect()),
                false => Step::Stage(one(range)),
            }
        })
        .collect();
    if faults.is_empty() {
        Ok(steps)
    } else {
        Err(faults)
    }
}

/// How many instances a stage has, by the names in it.
fn instances_of(
    graph: &Graph,
    options: &Options,
    range: &Range<usize>,
    faults: &mut Vec<PlanFault>,
) -> u16 {
    let nodes = &graph.nodes[range.clone()];
    let mut found: Option<(&String, u16)> = None;
    for (name, &count) in &options.instances {
        if !nodes.iter().any(|node| node.is_called(name)) {
            continue;
        }
        if let Some((other, n)) = found
            && n != count
        {
            let message = format!(
                "`{name}` is to have {count} instances and `{other}` {n}, but they are in one stage"
            );
            let fault = PlanFault::of("instances", name, message);
            faults.push(fault.help("say one number, or cut between them"));
        }
        found = Some((name, found.map_or(count, |(_, n)| n.max(count))));
    }
    let Some((name, count)) = found.filter(|(_, count)| *count > 1) else {
        return 1;
    };
    if range.start == 0 {
        let message = format!("`{name}` can't have {count} instances: it is in the first stage");
        let help = "the first stage has the flows: cut before it, or run the whole chain several \
                    times with `--workers`";
        faults.push(PlanFault::of("instances", name, message).help(help));
    }
    for node in nodes {
        if let Some(why) = alone(&node.effects) {
            let message = format!(
                "the stage of `{name}` can't have {count} instances: `{}` is in it, and {why}",
                node.name
            );
            faults.push(PlanFault::of("instances", name, message).help("cut between them"));
        }
    }
    count
}

/// Home of a stage's process, by the names in the stage.
fn home_of(graph: &Graph, options: &Options, range: &Range<usize>) -> Home {
    let nodes = &graph.nodes[range.clone()];
    let has = |names: &[String]| {
        let called = |name: &String| nodes.iter().any(|node| node.is_called(name));
        names.iter().any(called)
    };
    if has(&options.untrusted) {
        Home::Tenant
    } else if has(&options.processes) {
        Home::Process
    } else {
        Home::Main
    }
}

/// The core of the first processor that has one.
fn affinity_of(graph: &Graph, options: &Options, range: &Range<usize>) -> Option<usize> {
    graph.nodes[range.clone()].iter().find_map(|node| {
        let given = |name: &String| options.affinity.get(name).copied();
        given(&node.name).or_else(|| given(&node.instance))
    })
}

/// How packets are given to the instances of a stage, and why.
fn balance_of(graph: &Graph, range: Range<usize>) -> (Balance, String) {
    let bound = graph.nodes[range].iter().find_map(|node| {
        let effects = &node.effects;
        [
            (effects.stateful, "keeps state"),
            (effects.tally, "keeps a tally"),
            (
                effects.events,
                "writes events in the order of a flow's packets",
            ),
            (effects.emits, "makes packets in the order of a flow's"),
            (effects.needs == weir_nf::Needs::Flow, "looks at flows"),
        ]
        .into_iter()
        .find_map(|(does, why)| does.then(|| format!("`{}` {why}", node.name)))
    });
    match bound {
        Some(why) => (Balance::Flow, format!("by flow, since {why}")),
        None => (
            Balance::RoundRobin,
            "in turn, since nothing there keeps state or needs the order of a flow".to_owned(),
        ),
    }
}

/// Says what each of several stages is.
fn tell(graph: &Graph, options: &Options, steps: &[Step], decisions: &mut Vec<Decision>) {
    let stages: Vec<(&PlannedStage, bool)> = steps
        .iter()
        .flat_map(|step| {
            let several = matches!(step, Step::Parallel(_));
            step.stages().iter().map(move |stage| (stage, several))
        })
        .collect();
    if stages.len() < 2 {
        return;
    }
    for (number, (stage, parallel)) in stages.iter().enumerate() {
        let nodes = &graph.nodes[stage.nodes.clone()];
        let about: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
        let names: Vec<String> = about.iter().map(|name| format!("`{name}`")).collect();
        let mut why = format!(
            "stage {}: {}, about {} cycles",
            number + 1,
            names.join(", "),
            stage.cycles
        );
        if *parallel {
            why.push_str(", a branch");
        }
        let unknown: Vec<String> = nodes
            .iter()
            .filter(|node| node.effects.cycles == 0)
            .map(|node| format!("`{}`", node.name))
            .collect();
        if !unknown.is_empty() {
            why.push_str(&format!(
                " ({} taken as {} each: not known)",
                unknown.join(", "),
                options.costs.unknown
            ));
        }
        if stage.instances > 1 {
            let (_, reason) = balance_of(graph, stage.nodes.clone());
            why.push_str(&format!("; {} instances, {reason}", stage.instances));
        }
        match stage.home {
            Home::Main => {}
            Home::Process => why.push_str("; a process of its own"),
            Home::Tenant => why.push_str("; a process of its own behind a border: not trusted"),
        }
        if let Some(number) = stage.core {
            why.push_str(&format!("; on core {number}"));
        }
        decisions.push(Decision {
            pass: Pass::Stage,
            about,
            done: true,
            why,
        });
    }
}
