//! Equal classification on several branches is done before they part.
//!
//! If equal processors stand on the branches of one point and together get all its packets, one
//! more of their kind is put before the point, and its verdicts stand for theirs. It sees packets
//! that none of them alone saw, so the pass takes only processors that look, and keep, count and
//! drop nothing. The gain: fewer calls per burst, and equal processors behind the branches need no
//! call either, since the new one has seen their packets too.

use weir_nf::host::Target;

use super::graph::{Graph, Processor};
use super::plan::{Decision, Pass};
use super::same::{always_runs, listed, stands_for};
use super::ways::Ways;

/// Hoists what may be, the nearest point first.
pub(super) fn hoist(graph: &mut Graph, decisions: &mut Vec<Decision>) {
    let mut told: Vec<Vec<String>> = Vec::new();
    loop {
        let ways = Ways::of(graph);
        let mut found = None;
        for point in (0..graph.nodes.len()).rev() {
            for members in groups(graph, &ways, point) {
                match refusal(graph, &ways, point, &members) {
                    None => found = found.or(Some((point, members))),
                    Some(why) => {
                        let about = names(graph, &members);
                        if !told.contains(&about) {
                            told.push(about.clone());
                            let why = format!("{} stay apart: {why}", quoted(&about));
                            decisions.push(Decision {
                                pass: Pass::Hoist,
                                done: false,
                                why,
                                about,
                            });
                        }
                    }
                }
            }
            if found.is_some() {
                break;
            }
        }
        let Some((point, members)) = found else {
            return;
        };
        if graph.nodes.len() >= super::graph::MOST_PROCESSORS {
            return;
        }
        decisions.push(put_before(graph, point, &members));
    }
}

fn names(graph: &Graph, numbers: &[usize]) -> Vec<String> {
    let name = |&number: &usize| graph.nodes[number].name.clone();
    numbers.iter().map(name).collect()
}

fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// Equal processors that are called, on branches of `point`: of each kind and
/// settings those that packets of the point meet first, where they are on
/// several branches and no later point parts them all.
fn groups(graph: &Graph, ways: &Ways, point: usize) -> Vec<Vec<usize>> {
    let branches: Vec<usize> = graph.followers(point).collect();
    if branches.len() < 2 {
        return Vec::new();
    }
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for number in point + 1..graph.nodes.len() {
        let node = &graph.nodes[number];
        if node.same_as.is_some() || !ways.dominates(point, number) {
            continue;
        }
        let group = groups
            .iter_mut()
            .find(|group| graph.nodes[group[0]].equals(node));
        match group {
            Some(group) if group.iter().any(|&first| ways.leads(first, number)) => {}
            Some(group) => group.push(number),
            None => groups.push(vec![number]),
        }
    }
    groups.retain(|group| {
        let behind_all = |number: usize| group.iter().all(|&m| ways.dominates(number, m));
        group.len() > 1 && !(point + 1..graph.nodes.len()).any(behind_all)
    });
    groups
}

/// Why a group may not be hoisted before `point`.
fn refusal(graph: &Graph, ways: &Ways, point: usize, members: &[usize]) -> Option<String> {
    let effects = &graph.nodes[*members.first()?].effects;
    if let Some(why) = always_runs(effects) {
        return Some(why.to_owned());
    }
    for (does, why) in [
        (effects.stateful, "they keep state"),
        (effects.counts, "they count"),
        (effects.drops, "they may drop"),
    ] {
        if does {
            return Some(why.to_owned());
        }
    }
    let looks = effects.looks_at();
    for number in (point..graph.nodes.len()).filter(|number| !members.contains(number)) {
        let node = &graph.nodes[number];
        let before_one = members.iter().any(|&member| ways.leads(number, member));
        let of_point = number == point || ways.dominates(point, number);
        if of_point && before_one && node.effects.disturbs().meets(looks) {
            return Some(format!(
                "`{}` writes {} before them",
                node.name,
                listed(node.effects.writes)
            ));
        }
    }
    missed(graph, point, members)
}

/// Why not all packets of `point` get to one of the members.
fn missed(graph: &Graph, point: usize, members: &[usize]) -> Option<String> {
    let mut seen = vec![false; graph.nodes.len()];
    let mut left = vec![point];
    while let Some(at) = left.pop() {
        if core::mem::replace(&mut seen[at], true) {
            continue;
        }
        let node = &graph.nodes[at];
        if node.effects.drops || node.effects.turns {
            return Some(format!(
                "they do not get all packets of `{}`: `{}` may drop or turn some before",
                graph.nodes[point].name, node.name
            ));
        }
        for target in &node.next {
            match target {
                Target::Node(next) if members.contains(next) => {}
                Target::Node(next) => left.push(*next),
                _ => {
                    return Some(format!(
                        "they do not get all packets of `{}`: some leave at `{}`",
                        graph.nodes[point].name, node.name
                    ));
                }
            }
        }
    }
    None
}

fn put_before(graph: &mut Graph, point: usize, members: &[usize]) -> Decision {
    let model = &graph.nodes[members[0]];
    let name = format!("{}@{}", model.name, graph.nodes[point].name);
    let new = Processor {
        name: name.clone(),
        instance: name.clone(),
        next: vec![Target::Node(point + 1); model.labels.len()],
        same_as: None,
        ..model.clone()
    };
    let mut about = vec![name.clone(), graph.nodes[point].name.clone()];
    about.extend(names(graph, members));
    graph.insert(point, new);
    let members: Vec<usize> = members.iter().map(|member| member + 1).collect();
    for node in &mut graph.nodes {
        if node.same_as.is_some_and(|root| members.contains(&root)) {
            node.same_as = Some(point);
        }
    }
    for &member in &members {
        graph.nodes[member].same_as = Some(point);
    }
    let ways = Ways::of(graph);
    let mut more = Vec::new();
    for later in point + 1..graph.nodes.len() {
        let node = &graph.nodes[later];
        if node.same_as.is_none()
            && node.equals(&graph.nodes[point])
            && stands_for(graph, &ways, point, later).is_ok()
        {
            more.push(later);
        }
    }
    for number in point + 1..graph.nodes.len() {
        let node = &mut graph.nodes[number];
        if more.contains(&number) || node.same_as.is_some_and(|root| more.contains(&root)) {
            node.same_as = Some(point);
        }
    }
    let mut why = format!(
        "{} run once as `{name}`, before `{}`: together they get all its packets, and nothing \
         before them changes what they look at",
        quoted(&about[2..]),
        about[1]
    );
    if !more.is_empty() {
        let more = names(graph, &more);
        why.push_str(&format!("; its verdicts also stand for {}", quoted(&more)));
        about.extend(more);
    }
    Decision {
        pass: Pass::Hoist,
        about,
        done: true,
        why,
    }
}
