//! Independent neighbours run side by side.
//!
//! For a straight line of processors of which none decides whether or where a
//! packet goes on, each may be given the packet at once, where none changes
//! what a later one looks at. A join then waits for all of them, and takes
//! over what each wrote: so no two write the same part. The order of their
//! effects on one packet is lost between them, but each sees its packets in
//! order.

use core::ops::Range;

use weir_nf::host::Target;

use super::graph::Graph;
use super::options::{Mode, Options, Parallel};
use super::plan::{Decision, Pass};
use super::same::listed;
use super::validate::{first_called, last_of_first};

/// Groups of processors that run side by side, each a range of numbers.
pub(super) fn parallelise(
    graph: &Graph,
    options: &Options,
    decisions: &mut Vec<Decision>,
) -> Vec<Range<usize>> {
    if options.parallel == Parallel::Never {
        return Vec::new();
    }
    let mut groups = Vec::new();
    // The first stage gives flows to all others: no branch can be it.
    let mut from = last_of_first(graph).map_or(1, |last| last + 1);
    while from < graph.nodes.len() {
        let mut to = from + 1;
        let mut why = alone(graph, options, from);
        if why.is_none() {
            while to < graph.nodes.len() {
                why = joins(graph, options, from..to, to);
                if why.is_some() {
                    break;
                }
                to += 1;
            }
        }
        let group = from..to;
        if group.len() > 1 {
            let (done, why) = judge(graph, options, &group);
            tell(decisions, graph, &group, done, why);
            if done {
                groups.push(group);
            }
        } else if let (Some(why), Some(next)) = (why, graph.nodes.get(to))
            && follows(graph, from, to)
            && (options.parallel == Parallel::Always || options.cores.len() > 2)
        {
            // One that was not even a candidate says nothing of its neighbour.
            let pair = from..to + 1;
            let why = format!("not beside `{}`: {why}", next.name);
            tell(decisions, graph, &pair, false, why);
        }
        from = to;
    }
    groups
}

fn tell(
    decisions: &mut Vec<Decision>,
    graph: &Graph,
    group: &Range<usize>,
    done: bool,
    why: String,
) {
    decisions.push(Decision {
        pass: Pass::Parallelise,
        about: graph.nodes[group.clone()]
            .iter()
            .map(|node| node.name.clone())
            .collect(),
        done,
        why,
    });
}

/// Why a processor can't be a branch.
fn alone(graph: &Graph, options: &Options, number: usize) -> Option<String> {
    let node = &graph.nodes[number];
    let effects = &node.effects;
    let name = &node.name;
    if node.labels.len() > 1 {
        return Some(format!("`{name}` decides where packets go"));
    }
    for (does, what) in [
        (effects.drops, "may drop"),
        (effects.emits, "makes packets of its own"),
        (effects.shares, "takes what flows share"),
        (effects.stays_first(), "stays in the first stage"),
    ] {
        if does {
            return Some(format!("`{name}` {what}"));
        }
    }
    if node.next.first() == Some(&Target::Drop) {
        return Some(format!("`{name}` drops all packets"));
    }
    if node.same_as.is_some() {
        return Some(format!("`{name}` is not called: another's verdicts stand"));
    }
    if graph
        .nodes
        .iter()
        .any(|other| other.same_as == Some(number))
    {
        return Some(format!("the verdicts of `{name}` stand for others'"));
    }
    if options.apart().any(|other| node.is_called(other)) {
        return Some(format!("`{name}` has a process of its own"));
    }
    let several = |(other, count): (&String, &u16)| *count > 1 && node.is_called(other);
    if options.instances.iter().any(several) {
        return Some(format!("`{name}` has instances of its own"));
    }
    None
}

/// True where every packet of `to` comes straight from `from`, and all of
/// `from`'s packets go there.
fn follows(graph: &Graph, from: usize, to: usize) -> bool {
    let sources = (0..to).filter(|&number| graph.nodes[number].next.contains(&Target::Node(to)));
    graph.nodes[from]
        .next
        .iter()
        .all(|next| *next == Target::Node(to))
        && sources.eq([from])
}

/// Why processor `next` can't be a further branch of a group.
fn joins(graph: &Graph, options: &Options, group: Range<usize>, next: usize) -> Option<String> {
    if group.len() > weir_packet::MOST_BRANCHES {
        return Some(format!(
            "a packet has marks for {} branches beside the first",
            weir_packet::MOST_BRANCHES
        ));
    }
    if let Some(why) = alone(graph, options, next) {
        return Some(why);
    }
    let node = &graph.nodes[next];
    if !follows(graph, next - 1, next) {
        return Some(format!("`{}` gets other packets", node.name));
    }
    let cut = |name: &String| first_called(graph, name) == Some(next);
    if options.cuts.iter().any(cut) {
        return Some(format!("a stage was asked to begin with `{}`", node.name));
    }
    graph.nodes[group].iter().find_map(|before| {
        let writes = before.effects.writes;
        if before.effects.disturbs().meets(node.effects.looks_at()) {
            Some(format!(
                "`{}` writes {}, which `{}` looks at",
                before.name,
                listed(writes),
                node.name
            ))
        } else if writes.meets(node.effects.writes) {
            Some(format!(
                "`{}` and `{}` both write {}",
                before.name,
                node.name,
                listed(writes)
            ))
        } else {
            None
        }
    })
}

/// Decides on a group, with the reason.
fn judge(graph: &Graph, options: &Options, group: &Range<usize>) -> (bool, String) {
    let nodes = &graph.nodes[group.clone()];
    let costs = &options.costs;
    let cycles: Vec<u32> = nodes.iter().map(|node| costs.of(&node.effects)).collect();
    let names: Vec<String> = nodes.iter().map(|n| format!("`{}`", n.name)).collect();
    let names = names.join(", ");
    if options.mode == Mode::RunToCompletion {
        return (
            false,
            format!("{names} could run side by side, but the chain is one stage"),
        );
    }
    let sum: u32 = cycles.iter().fold(0, |sum, n| sum.saturating_add(*n));
    let most = cycles.iter().copied().max().unwrap_or(0);
    let gain = sum - most;
    let copies = cycles.len() as u32 - 1;
    let price = costs
        .ring
        .saturating_mul(4)
        .saturating_add(costs.copy.saturating_mul(copies))
        .saturating_add(costs.sync);
    let figures = format!(
        "{gain} of {sum} cycles of latency against {price} for rings, {copies} copies and the join"
    );
    if options.parallel == Parallel::Always {
        return (
            true,
            format!("{names} run side by side, as asked: {figures}"),
        );
    }
    let behind = usize::from(group.end < graph.nodes.len());
    let cores = 1 + cycles.len() + behind;
    if options.cores.len() < cores {
        return (
            false,
            format!(
                "{names} could run side by side, on {cores} cores: there are {}",
                options.cores.len()
            ),
        );
    }
    match gain > price {
        true => (
            true,
            format!("{names} run side by side: they gain {figures}"),
        ),
        false => (
            false,
            format!("{names} could run side by side, but would gain {figures}"),
        ),
    }
}
