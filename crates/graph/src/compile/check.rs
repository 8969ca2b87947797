//! The plan is held against the chain as written.
//!
//! This pass shares nothing with the others: where they reason about dominance
//! and writers, it takes symbolic packets through both graphs. A *way* is one
//! choice of every verdict; equal processors give equal verdicts to packets
//! that are equal in what they look at, since that is what equal means. On each
//! way both graphs must show the packet to the same processors, in the same
//! order, in the same state, and come to the same end. Ways are enumerated; of
//! a graph with very many, the rest is sampled with a fixed seed.

use std::collections::BTreeMap;

use weir_nf::Parts;
use weir_nf::host::Target;

use super::fault::PlanFault;
use super::graph::{Graph, Processor};
use super::plan::{Balance, Plan, Step};

/// Ways that are tried one after another.
const MOST_WAYS: usize = 1 << 14;
/// Ways that are tried at random where there are more.
const SAMPLES: usize = 1 << 12;

/// Checks a plan; says what was tried.
///
/// # Errors
///
/// The first thing that is wrong, which is a mistake of the compiler.
pub fn check(plan: &Plan) -> Result<String, PlanFault> {
    let result = structure(plan).and_then(|()| ways(plan));
    result.map_err(PlanFault::bug)
}

/// What holds of a plan whatever packets come.
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
                if e.writes != Parts::NONE
                    || e.stateful
                    || e.drops
                    || e.emits
                    || e.events
                    || e.counts
                    || e.tally
                    || e.shares
                    || e.aliases
                    || e.turns
                {
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
            let e = &node.effects;
            let acts = e.writes != Parts::NONE
                || e.emits
                || e.events
                || e.tally
                || e.shares
                || e.aliases
                || e.turns;
            if !good || acts {
                return Err(format!("`{name}` stands on one that can't stand for it"));
            }
        }
    }
    Ok(())
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

/// A packet: what each part of it has been through, as a number per history.
type Packet = [u32; 4];

const LAYERS: [Parts; 4] = [
    Parts::LINK,
    Parts::NETWORK,
    Parts::TRANSPORT,
    Parts::PAYLOAD,
];

/// What a processor sees of a packet: the histories of the parts that it may
/// look at; 0 for the others.
fn sight(node: &Processor, packet: &Packet) -> Packet {
    let reads = node.effects.reads;
    // One that does not read the lengths in the network header may still see
    // how long the packet is, which any part may have changed.
    let all = match node.effects.needs {
        weir_nf::Needs::Network | weir_nf::Needs::Transport => false,
        weir_nf::Needs::Link | weir_nf::Needs::Flow => !reads.meets(Parts::NETWORK),
    };
    let mut sees = [false; 4];
    for (seen, layer) in sees.iter_mut().zip(LAYERS) {
        *seen = all || reads.meets(layer);
    }
    let [_, network, transport, payload] = &mut sees;
    *transport |= node.effects.needs == weir_nf::Needs::Transport;
    // A header says where the next one is.
    *transport |= *payload;
    *network |= *transport || node.effects.needs == weir_nf::Needs::Network;
    core::array::from_fn(|i| if sees[i] { packet[i] } else { 0 })
}

/// The verdict of a processor: a link by its number, a drop or a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Says {
    Link(usize),
    Drop,
    Turn,
}

fn sayings(node: &Processor) -> Vec<Says> {
    let mut says: Vec<Says> = (0..node.next.len().max(1)).map(Says::Link).collect();
    if node.effects.drops {
        says.push(Says::Drop);
    }
    if node.effects.turns {
        says.push(Says::Turn);
    }
    says
}

/// Whose verdict: processors of one kind and settings are one where they keep
/// nothing, else each is its own, but for those that the plan says are one.
type Who = (String, String, String);

/// The choices of one way.
struct Oracle<'a> {
    /// Choices that are made again: (chosen, out of).
    choices: &'a mut Vec<(usize, usize)>,
    used: usize,
    random: Option<u64>,
    said: BTreeMap<(Who, Packet), Says>,
    histories: BTreeMap<(Who, usize, Packet, u32), u32>,
}

impl Oracle<'_> {
    fn says(&mut self, who: &Who, node: &Processor, sees: Packet) -> Says {
        if let Some(says) = self.said.get(&(who.clone(), sees)) {
            return *says;
        }
        let sayings = sayings(node);
        let chosen = match (self.choices.get(self.used), &mut self.random) {
            (Some((chosen, _)), _) => *chosen,
            (None, Some(random)) => {
                *random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (*random >> 33) as usize % sayings.len()
            }
            (None, None) => 0,
        };
        if self.used == self.choices.len() {
            self.choices.push((chosen, sayings.len()));
        }
        self.used += 1;
        let says = sayings.get(chosen).copied().unwrap_or(Says::Link(0));
        self.said.insert((who.clone(), sees), says);
        says
    }

    /// The packet after a processor that saw `sees` of it.
    fn written(&mut self, who: &Who, node: &Processor, sees: Packet, packet: &mut Packet) {
        for (number, layer) in LAYERS.into_iter().enumerate() {
            if node.effects.writes.meets(layer) {
                let next = self.histories.len() as u32 + 1;
                let key = (who.clone(), number, sees, packet[number]);
                packet[number] = *self.histories.entry(key).or_insert(next);
            }
        }
    }
}

/// What a packet met on a way.
#[derive(Debug, Default, PartialEq, Eq)]
struct Met {
    /// Processors as written, and what they saw.
    shown: Vec<(String, Packet)>,
    /// How it ended.
    end: String,
    /// What it was like at the end.
    packet: Packet,
}

struct Checker<'a> {
    plan: &'a Plan,
    /// By number in the chain as written, and in the plan.
    who: [Vec<Who>; 2],
}

fn ways(plan: &Plan) -> Result<String, String> {
    let root_of = |name: &str| {
        let nodes = &plan.graph.nodes;
        let node = nodes.iter().find(|node| node.name == name)?;
        nodes.get(node.same_as?).map(|root| root.name.clone())
    };
    let who = |node: &Processor| -> Who {
        // Writers that keep nothing write the same where they see the same.
        let own = match node.effects.stateful || node.effects.counts || node.effects.shares {
            true => root_of(&node.name).unwrap_or(node.name.clone()),
            false => String::new(),
        };
        (node.kind.clone(), node.settings.clone(), own)
    };
    let names = |graph: &Graph| graph.nodes.iter().map(who).collect();
    let checker = Checker {
        plan,
        who: [names(&plan.written), names(&plan.graph)],
    };
    let mut choices: Vec<(usize, usize)> = Vec::new();
    let mut tried = 0;
    loop {
        checker.way(&mut choices, None)?;
        tried += 1;
        // The next way: the last choice that has one left.
        while let Some((chosen, of)) = choices.pop() {
            if chosen + 1 < of {
                choices.push((chosen + 1, of));
                break;
            }
        }
        if choices.is_empty() {
            return Ok(format!(
                "on all {tried} ways through the chain, the plan shows every packet to the same \
                 functions, in the same state, and sends it to the same end"
            ));
        }
        if tried == MOST_WAYS {
            break;
        }
    }
    for seed in 0..SAMPLES as u64 {
        checker.way(
            &mut Vec::new(),
            Some(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        )?;
    }
    Ok(format!(
        "on {MOST_WAYS} ways through the chain and {SAMPLES} more at random, the plan shows every \
         packet to the same functions, in the same state, and sends it to the same end"
    ))
}

impl Checker<'_> {
    /// Takes one packet through both graphs.
    fn way(&self, choices: &mut Vec<(usize, usize)>, random: Option<u64>) -> Result<(), String> {
        let mut oracle = Oracle {
            choices,
            used: 0,
            random,
            said: BTreeMap::new(),
            histories: BTreeMap::new(),
        };
        let written = self.as_written(&mut oracle);
        let planned = self.as_planned(&mut oracle)?;
        if written != planned {
            return Err(difference(&written, &planned));
        }
        self.together(&written)
    }

    fn as_written(&self, oracle: &mut Oracle<'_>) -> Met {
        let nodes = &self.plan.written.nodes;
        let mut met = Met::default();
        let mut at = Target::Node(0);
        while let Target::Node(number) = at
            && let (Some(node), Some(who)) = (nodes.get(number), self.who[0].get(number))
        {
            let sees = sight(node, &met.packet);
            met.shown.push((node.name.clone(), sees));
            let says = oracle.says(who, node, sees);
            oracle.written(who, node, sees, &mut met.packet);
            at = follow(node, says, &mut met.end);
        }
        end(at, &mut met.end);
        met
    }

    fn as_planned(&self, oracle: &mut Oracle<'_>) -> Result<Met, String> {
        let nodes = &self.plan.graph.nodes;
        let mut met = Met::default();
        let mut said: BTreeMap<usize, (Packet, Says)> = BTreeMap::new();
        // The packet as it came to a parallel step, and where that ends.
        let mut entered: Option<(usize, Packet)> = None;
        let mut at = Target::Node(0);
        while let Target::Node(number) = at
            && let (Some(node), Some(who)) = (nodes.get(number), self.who[1].get(number))
        {
            if entered.is_none_or(|(end, _)| number >= end) {
                entered = self.parallel(number).map(|end| (end, met.packet));
            }
            // Each branch has a packet of its own, as it was before the step.
            let given = entered.map_or(met.packet, |(_, packet)| packet);
            let sees = sight(node, &given);
            let says = match node.same_as {
                None => oracle.says(who, node, sees),
                Some(root) => match said.get(&root) {
                    Some((saw, says)) if *saw == sees => *says,
                    Some(_) => {
                        return Err(format!(
                            "`{}` stands on one that saw the packet otherwise",
                            node.name
                        ));
                    }
                    None => {
                        return Err(format!(
                            "a packet comes to `{}` that was not at the one it stands on",
                            node.name
                        ));
                    }
                },
            };
            said.insert(number, (sees, says));
            if self.plan.written.nodes.iter().any(|w| w.name == node.name) {
                met.shown.push((node.name.clone(), sees));
            }
            // The join takes over what each branch wrote.
            oracle.written(who, node, sees, &mut met.packet);
            at = follow(node, says, &mut met.end);
        }
        end(at, &mut met.end);
        Ok(met)
    }

    /// Where the parallel step ends that a processor is in.
    fn parallel(&self, number: usize) -> Option<usize> {
        self.plan.steps.iter().find_map(|step| match step {
            Step::Parallel(_) if step.nodes().contains(&number) => Some(step.nodes().end),
            _ => None,
        })
    }

    /// What keeps state or counts stands only on one that gets the very same
    /// packets.
    fn together(&self, met: &Met) -> Result<(), String> {
        let nodes = &self.plan.graph.nodes;
        let seen = |name: &str| met.shown.iter().find(|(shown, _)| shown == name);
        for node in nodes {
            let Some(root) = node.same_as.and_then(|root| nodes.get(root)) else {
                continue;
            };
            let keeps = node.effects.stateful || node.effects.counts;
            let (here, there) = (seen(&node.name), seen(&root.name));
            if keeps && here.map(|(_, saw)| saw) != there.map(|(_, saw)| saw) {
                return Err(format!(
                    "`{}` stands on `{}`, but they do not get the same packets",
                    node.name, root.name
                ));
            }
        }
        Ok(())
    }
}

fn follow(node: &Processor, says: Says, end: &mut String) -> Target {
    match says {
        Says::Link(link) => {
            let target = node.next.get(link).copied().unwrap_or(Target::Out);
            if target == Target::Drop {
                *end = format!("dropped by `{}`, link {link}", node.name);
            }
            target
        }
        Says::Drop => {
            *end = format!("dropped by `{}`", node.name);
            Target::Drop
        }
        Says::Turn => {
            *end = format!("turned by `{}`", node.name);
            Target::Out
        }
    }
}

fn end(at: Target, end: &mut String) {
    if end.is_empty() {
        *end = match at {
            Target::Out => "out".to_owned(),
            other => format!("lost at {other:?}"),
        };
    }
}

fn difference(written: &Met, planned: &Met) -> String {
    let pairs = written.shown.iter().zip(&planned.shown);
    for ((name, saw), (other, sees)) in pairs {
        if name != other {
            return format!("a packet that `{name}` should see next is shown to `{other}`");
        }
        if saw != sees {
            return format!("`{name}` sees a packet that others have changed otherwise");
        }
    }
    let missing = written.shown.get(planned.shown.len());
    let more = planned.shown.get(written.shown.len());
    match (missing, more) {
        (Some((name, _)), _) => format!("`{name}` is not shown a packet that it should see"),
        (_, Some((name, _))) => format!("`{name}` is shown a packet that it should not see"),
        _ if written.end != planned.end => {
            format!("a packet is {}, and should be {}", planned.end, written.end)
        }
        _ => "a packet leaves changed otherwise than written".to_owned(),
    }
}
