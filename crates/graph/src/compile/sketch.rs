//! Graphs for tests, a line of words per processor:
//! `NAME k=KIND [settings] [labels=A,B] [next=X,Y] [reads=… writes=…] [flags]`.

use weir_nf::host::Target;
use weir_nf::{Fields, Needs, Parts, Scope};

use super::graph::{Effects, Graph, Processor};

/// Effects of a processor that does nothing to any packet.
pub(crate) const IDLE: Effects = Effects {
    needs: Needs::Link,
    scope: Scope::Flow,
    reads: Parts::NONE,
    writes: Parts::NONE,
    stateful: false,
    drops: false,
    emits: false,
    events: false,
    counts: false,
    tally: false,
    shares: false,
    aliases: false,
    turns: false,
    gives: u64::MAX,
    cycles: 30,
};

/// The graph that the lines say. Links that are left out lead to the next
/// line, the last one's out.
pub(crate) fn graph(lines: &[&str]) -> Graph {
    let names: Vec<&str> = lines
        .iter()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    let nodes = lines
        .iter()
        .enumerate()
        .map(|(number, line)| processor(number, line, &names))
        .collect();
    Graph { nodes }
}

fn parts(list: &str) -> Parts {
    list.split('+').fold(Parts::NONE, |parts, name| {
        parts.and(match name {
            "link" => Parts::LINK,
            "network" => Parts::NETWORK,
            "transport" => Parts::TRANSPORT,
            "payload" => Parts::PAYLOAD,
            "all" => Parts::ALL,
            other => panic!("no part {other}"),
        })
    })
}

fn processor(number: usize, line: &str, names: &[&str]) -> Processor {
    let name = names[number];
    let mut node = Processor {
        name: name.to_owned(),
        instance: name.split('/').next().unwrap().to_owned(),
        kind: name.to_owned(),
        settings: String::new(),
        effects: IDLE,
        labels: vec!["pass".to_owned()],
        next: Vec::new(),
        same_as: None,
    };
    let target = |word: &str| match word {
        "out" => Target::Out,
        "drop" => Target::Drop,
        word => Target::Node(names.iter().position(|name| *name == word).unwrap()),
    };
    let effects = &mut node.effects;
    for word in line.split_whitespace().skip(1) {
        match word.split_once('=') {
            Some(("k", kind)) => node.kind = kind.to_owned(),
            Some(("s", settings)) => node.settings = settings.to_owned(),
            Some(("labels", labels)) => {
                node.labels.extend(labels.split(',').map(str::to_owned));
            }
            Some(("next", next)) => node.next = next.split(',').map(target).collect(),
            Some(("reads", list)) => effects.reads = parts(list),
            Some(("writes", list)) => effects.writes = parts(list),
            Some(("cycles", cycles)) => effects.cycles = cycles.parse().unwrap(),
            None => match word {
                "drops" => effects.drops = true,
                "emits" => effects.emits = true,
                "events" => effects.events = true,
                "counts" => effects.counts = true,
                "tally" => effects.tally = true,
                "state" => effects.stateful = true,
                "shares" => effects.shares = true,
                "aliases" => effects.aliases = true,
                "turns" => effects.turns = true,
                "mute" => effects.gives = 0,
                "own" => effects.scope = Scope::Own("token"),
                "client" => effects.scope = Scope::Fields(Fields::CLIENT_ADDRESS),
                other => panic!("no flag {other}"),
            },
            other => panic!("no word {other:?}"),
        }
    }
    let straight = match names.get(number + 1) {
        Some(_) => Target::Node(number + 1),
        None => Target::Out,
    };
    while node.next.len() < node.labels.len() {
        node.next.push(straight);
    }
    node
}
