//! Symbolic packets go through the chain as written and through its plan, side
//! by side.
//!
//! Both must show the packet to the same processors, in the same order and in
//! the same state, and come to the same end. So one step of the walk is one
//! processor in both graphs; what a pass added is a step of the plan alone. The
//! two give one verdict where they see the same, or where the one that stands
//! for the other saw the same; else every verdict is tried, also where an equal
//! processor said otherwise before. That tries more than can happen, and lets
//! no wrong plan pass.
//!
//! Later steps depend on earlier decisions only through the [`State`]. So the walk goes on from
//! equal states once: the work grows with the graph's size, not with the number of its ways.

use std::collections::{BTreeMap, BTreeSet};

use weir_nf::host::Target;
use weir_nf::{Needs, Parts};

use super::graph::Processor;
use super::plan::{Plan, Step};

/// Most states with the verdicts that stand for later ones; where there are
/// more, the walk begins again without, and tries all verdicts everywhere.
const MOST_REMEMBERED: usize = 1 << 11;
/// Most states without: a plan that needs more is refused. One that the passes
/// make has few at each processor.
const MOST_STATES: usize = 1 << 16;

/// A packet: what each part of it has been through, as a number that is only
/// good for telling whether another one's is equal. 0 is a part not looked at.
type Packet = [u8; 4];

const LAYERS: [Parts; 4] = [
    Parts::LINK,
    Parts::NETWORK,
    Parts::TRANSPORT,
    Parts::PAYLOAD,
];

/// History of a part before another processor changed it: no packet has it any more, and none gets
/// it again.
const PAST: u8 = u8::MAX;

/// View of a packet that a processor gets: the histories of the parts that it may look at; 0 for
/// the others.
fn sight(node: &Processor, packet: &Packet) -> Packet {
    let reads = node.effects.reads;
    // One that does not read the lengths in the network header may still see
    // how long the packet is, which any part may have changed.
    let all = match node.effects.needs {
        Needs::Network | Needs::Transport => false,
        Needs::Link | Needs::Flow => !reads.meets(Parts::NETWORK),
    };
    let mut sees = [false; 4];
    for (seen, layer) in sees.iter_mut().zip(LAYERS) {
        *seen = all || reads.meets(layer);
    }
    let [_, network, transport, payload] = &mut sees;
    *transport |= node.effects.needs == Needs::Transport;
    // A header says where the next one is.
    *transport |= *payload;
    *network |= *transport || node.effects.needs == Needs::Network;
    core::array::from_fn(|i| if sees[i] { packet[i] } else { 0 })
}

/// How a packet ends, with the name of whose doing it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Out,
    Dropped(String, Option<usize>),
    Turned(String),
    Lost,
}

/// Place of a packet in one of the graphs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    At(usize),
    Ended(End),
}

/// All that the walk knows of a packet. The place in the plan comes first: each
/// step leads forward there, so in this order a state comes before all that
/// follow from it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    planned: Place,
    written: Place,
    /// The packet as it is in the plan.
    packet: Packet,
    /// The packet as it is in the chain as written.
    written_packet: Packet,
    /// The packet as it came to the parallel step that it is in, and where that
    /// ends.
    entered: Option<(usize, Packet)>,
    /// Views of the processors that stand for ones ahead, and their verdicts if those are
    /// remembered.
    saw: BTreeMap<usize, (Packet, Option<Says>)>,
    /// Ones that keep state or count, and must get the packet since those that
    /// stand for them got it.
    owed: BTreeSet<usize>,
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

struct Walk<'a> {
    plan: &'a Plan,
    /// For each processor of the plan: its number in the chain as written.
    written: Vec<Option<usize>>,
    /// For each processor of the plan: the ones that stand for it, or for any
    /// that its packets may get to.
    roots: Vec<BTreeSet<usize>>,
}

/// Takes packets through both graphs.
///
/// # Errors
///
/// The first difference.
pub(super) fn walk(plan: &Plan) -> Result<String, String> {
    let nodes = &plan.graph.nodes;
    let mut roots = vec![BTreeSet::new(); nodes.len()];
    for (number, node) in nodes.iter().enumerate().rev() {
        let mut here: BTreeSet<usize> = node.same_as.into_iter().collect();
        for target in &node.next {
            if let Target::Node(next) = target {
                here.extend(roots.get(*next).into_iter().flatten());
            }
        }
        roots[number] = here;
    }
    let by_name = |node: &Processor| plan.written.nodes.iter().position(|w| w.name == node.name);
    let walk = Walk {
        plan,
        written: nodes.iter().map(by_name).collect(),
        roots,
    };
    let place = |count: usize| match count {
        0 => Place::Ended(End::Lost),
        _ => Place::At(0),
    };
    let first = State {
        planned: place(nodes.len()),
        written: place(plan.written.nodes.len()),
        packet: [1; 4],
        written_packet: [1; 4],
        entered: None,
        saw: BTreeMap::new(),
        owed: BTreeSet::new(),
    };
    let ways = match walk.all(first.clone(), true, MOST_REMEMBERED)? {
        Some(1) => "on the one way".to_owned(),
        Some(ways) if ways < u64::MAX => format!("on all {ways} ways"),
        Some(_) => "on all ways".to_owned(),
        // Their number would count some that can't be.
        None => match walk.all(first, false, MOST_STATES)? {
            Some(_) => "on all ways".to_owned(),
            None => return Err(format!("more than {MOST_STATES} states of packets")),
        },
    };
    Ok(format!(
        "{ways} through the chain, the plan shows every packet to the same functions, in the same \
         state, and sends it to the same end"
    ))
}

impl Walk<'_> {
    /// Walks on from a state until all packets are at their ends; says on how
    /// many ways, or `None` where there are more than `most` states.
    fn all(&self, first: State, remember: bool, most: usize) -> Result<Option<u64>, String> {
        // With each state, the number of ways that lead to it.
        let mut ahead = BTreeMap::from([(first, 1_u64)]);
        let mut ways = 0_u64;
        let mut walked = 0;
        while let Some((state, count)) = ahead.pop_first() {
            walked += 1;
            if walked > most {
                return Ok(None);
            }
            let Place::At(number) = state.planned else {
                self.end(&state)?;
                ways = ways.saturating_add(count);
                continue;
            };
            for next in self.step(&state, number, remember)? {
                let known = ahead.entry(next).or_insert(0);
                *known = known.saturating_add(count);
            }
        }
        Ok(Some(ways))
    }

    /// States that a packet may be in after processor `number` of the plan.
    fn step(&self, state: &State, number: usize, remember: bool) -> Result<Vec<State>, String> {
        let nodes = &self.plan.graph.nodes;
        let Some(node) = nodes.get(number) else {
            return Err(format!("a link leads to {number}, which is not there"));
        };
        let mut after = state.clone();
        if after.entered.is_none_or(|(end, _)| number >= end) {
            after.entered = self.parallel(number).map(|end| (end, after.packet));
        }
        // Each branch has a packet of its own, as it was before the step.
        let given = after.entered.map_or(after.packet, |(_, packet)| packet);
        let sees = sight(node, &given);
        let name = &node.name;
        let mut stands = None;
        if let Some(root) = node.same_as {
            match after.saw.get(&root) {
                Some((saw, said)) if *saw == sees => stands = *said,
                Some(_) => {
                    return Err(format!(
                        "`{name}` stands on one that saw the packet otherwise"
                    ));
                }
                None => {
                    return Err(format!(
                        "a packet comes to `{name}` that was not at the one it stands on"
                    ));
                }
            }
        }
        let mut written = None;
        if let Some(same) = self.written.get(number).copied().flatten() {
            let here = self.here(&state.written, same, name)?;
            if sight(here, &after.written_packet) != sees {
                return Err(format!(
                    "`{name}` sees a packet that others have changed otherwise"
                ));
            }
            self.owe(&mut after, number, node)?;
            written = Some(here);
        }
        after.write(node);
        let followed = |says: Says| {
            let mut next = after.clone();
            next.saw.insert(number, (sees, remember.then_some(says)));
            next.planned = follow(node, says);
            if let Some(written) = written {
                next.written = follow(written, says);
            }
            self.forget(&mut next);
            next
        };
        Ok(match stands {
            Some(says) => vec![followed(says)],
            None => sayings(node).into_iter().map(followed).collect(),
        })
    }

    /// The processor that the packet is at in the chain as written, which must
    /// be `same`.
    fn here(&self, place: &Place, same: usize, name: &str) -> Result<&Processor, String> {
        let at = match place {
            Place::At(at) => self.plan.written.nodes.get(*at).map(|node| (*at, node)),
            Place::Ended(_) => None,
        };
        match at {
            Some((at, node)) if at == same => Ok(node),
            Some((_, node)) => Err(format!(
                "a packet that `{}` should see next is shown to `{name}`",
                node.name
            )),
            None => Err(format!("`{name}` is shown a packet that it should not see")),
        }
    }

    /// A processor that keeps state or counts may stand only for one that gets the very same
    /// packets.
    fn owe(&self, state: &mut State, number: usize, node: &Processor) -> Result<(), String> {
        let keeps = |node: &Processor| node.effects.stateful || node.effects.counts;
        if node.same_as.is_some() && keeps(node) && !state.owed.remove(&number) {
            return Err(self.unequal(number));
        }
        let nodes = self.plan.graph.nodes.iter().enumerate();
        let stands = nodes.filter(|(_, other)| other.same_as == Some(number) && keeps(other));
        state.owed.extend(stands.map(|(other, _)| other));
        Ok(())
    }

    fn unequal(&self, number: usize) -> String {
        let nodes = &self.plan.graph.nodes;
        let node = nodes.get(number);
        let root = node.and_then(|node| nodes.get(node.same_as?));
        let name = |node: Option<&Processor>| node.map_or("?", |node| &node.name).to_owned();
        format!(
            "`{}` stands on `{}`, but they do not get the same packets",
            name(node),
            name(root)
        )
    }

    /// End of the parallel step that a processor is in.
    fn parallel(&self, number: usize) -> Option<usize> {
        self.plan.steps.iter().find_map(|step| match step {
            Step::Parallel(_) if step.nodes().contains(&number) => Some(step.nodes().end),
            _ => None,
        })
    }

    /// Drops from a state what nothing ahead can tell, so that states that
    /// differ in nothing else are one.
    fn forget(&self, state: &mut State) {
        match state.planned {
            Place::At(number) => {
                if state.entered.is_some_and(|(end, _)| number >= end) {
                    state.entered = None;
                }
                let roots = self.roots.get(number);
                let needed = |root: &usize| roots.is_some_and(|roots| roots.contains(root));
                state.saw.retain(|root, _| needed(root));
            }
            Place::Ended(_) => {
                state.entered = None;
                state.saw.clear();
            }
        }
        state.renumber();
    }

    /// The plan is at its end with a packet.
    fn end(&self, state: &State) -> Result<(), String> {
        let Place::Ended(planned) = &state.planned else {
            return Err("a packet is left over".to_owned());
        };
        let written = match &state.written {
            Place::Ended(end) => end,
            Place::At(number) => {
                let node = self.plan.written.nodes.get(*number);
                return Err(format!(
                    "`{}` is not shown a packet that it should see",
                    node.map_or("?", |node| &node.name)
                ));
            }
        };
        if planned != written {
            let (planned, written) = (planned.say(), written.say());
            return Err(format!("a packet is {planned}, and should be {written}"));
        }
        if state.packet != state.written_packet {
            return Err("a packet leaves changed otherwise than written".to_owned());
        }
        match state.owed.first() {
            Some(owed) => Err(self.unequal(*owed)),
            None => Ok(()),
        }
    }
}

impl State {
    /// The packets after a processor that saw the same of both: a part that was
    /// equal is equal again, one that was not can't become so. The join of a
    /// parallel step takes over what each branch wrote.
    fn write(&mut self, node: &Processor) {
        // Numbers that no packet has: `renumber` gives at most 3.
        const EQUAL: u8 = 8;
        const OTHER: u8 = 9;
        let written = self.written_packet.iter_mut();
        let parts = written.zip(&mut self.packet).zip(LAYERS);
        for ((written, planned), layer) in parts {
            if node.effects.writes.meets(layer) {
                *planned = if written == planned { EQUAL } else { OTHER };
                *written = EQUAL;
            }
        }
    }

    /// Gives histories numbers in the order in which they stand here. Histories that
    /// no packet has are past.
    fn renumber(&mut self) {
        for layer in 0..LAYERS.len() {
            let mut known = vec![self.written_packet[layer], self.packet[layer]];
            known.extend(self.entered.map(|(_, packet)| packet[layer]));
            let number = |history: u8| match known.iter().position(|other| *other == history) {
                _ if history == 0 => 0,
                Some(place) => place as u8 + 1,
                None => PAST,
            };
            let entered = self.entered.iter_mut().map(|(_, packet)| packet);
            let both = [&mut self.written_packet, &mut self.packet];
            for packet in both
                .into_iter()
                .chain(entered)
                .chain(self.saw.values_mut().map(|(saw, _)| saw))
            {
                packet[layer] = number(packet[layer]);
            }
        }
    }
}

impl End {
    fn say(&self) -> String {
        match self {
            End::Out => "out".to_owned(),
            End::Dropped(by, None) => format!("dropped by `{by}`"),
            End::Dropped(by, Some(link)) => format!("dropped by `{by}`, link {link}"),
            End::Turned(by) => format!("turned by `{by}`"),
            End::Lost => "lost".to_owned(),
        }
    }
}

/// Place that a verdict leads to.
fn follow(node: &Processor, says: Says) -> Place {
    let name = || node.name.clone();
    Place::Ended(match says {
        Says::Drop => End::Dropped(name(), None),
        Says::Turn => End::Turned(name()),
        Says::Link(link) => match node.next.get(link).copied().unwrap_or(Target::Out) {
            Target::Node(next) => return Place::At(next),
            Target::Drop => End::Dropped(name(), Some(link)),
            Target::Out => End::Out,
            _ => End::Lost,
        },
    })
}
