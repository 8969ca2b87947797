//! The check bites: plans that were tampered with are refused.

use weir_nf::host::Target;

use super::random::Dice;
use super::*;

/// A plan of the lines with `change` made to it, and what the check says.
fn tampered(lines: &[&str], options: &Options, change: impl Fn(&mut Plan)) -> String {
    let mut plan = plan(lines, options);
    assert!(check(&plan).is_ok());
    change(&mut plan);
    check(&plan).unwrap_err().message
}

const LINES: [&str; 5] = [
    "a k=x drops reads=network",
    "fw drops",
    "w reads=network writes=network",
    "b k=x drops reads=network",
    "c k=x drops reads=network",
];

#[test]
fn a_wrong_verdict_is_refused() {
    let one = Options::default();
    let set = |number: usize, root: usize| {
        move |plan: &mut Plan| plan.graph.nodes[number].same_as = Some(root)
    };
    assert_eq!(
        tampered(&LINES[..4], &one, set(3, 0)),
        "`b` stands on one that saw the packet otherwise"
    );
    assert_eq!(
        tampered(&LINES, &one, set(1, 0)),
        "`fw` stands on one that can't stand for it"
    );
    assert_eq!(
        tampered(&LINES, &one, set(3, 4)),
        "`b` stands on one that can't stand for it"
    );
    let branches = ["p labels=l next=a,b", "a k=x next=b", "b k=x"];
    assert_eq!(
        tampered(&branches, &one, set(2, 1)),
        "a packet comes to `b` that was not at the one it stands on"
    );
    let counts = ["a k=x counts", "fw drops", "b k=x counts"];
    assert_eq!(
        tampered(&counts, &one, set(2, 0)),
        "`b` stands on `a`, but they do not get the same packets"
    );
}

#[test]
fn a_lost_or_moved_processor_is_refused() {
    let one = Options::default();
    let links =
        |number: usize, to: Target| move |plan: &mut Plan| plan.graph.nodes[number].next[0] = to;
    assert_eq!(
        tampered(&LINES, &one, |plan| {
            plan.graph.remove(1);
            plan.steps = plan_of_one(4);
        }),
        "`fw` is in the plan 0 times"
    );
    assert_eq!(
        tampered(&LINES, &one, links(0, Target::Node(2))),
        "nothing leads to `fw`"
    );
    assert_eq!(
        tampered(&LINES, &one, links(4, Target::Drop)),
        "a packet is dropped by `c`, link 0, and should be out"
    );
    assert_eq!(
        tampered(&LINES, &one, links(2, Target::Node(1))),
        "a link of `w` does not lead forward"
    );
    let parted = ["p labels=l next=a,b", "a next=out", "b"];
    let swap = |plan: &mut Plan| plan.graph.nodes[0].next.swap(0, 1);
    assert_eq!(
        tampered(&parted, &one, swap),
        "a packet that `b` should see next is shown to `a`"
    );
    assert_eq!(
        tampered(&["a", "b"], &one, |plan| plan.graph.nodes[0]
            .effects
            .drops = true),
        "`a` is not as written"
    );
}

fn plan_of_one(count: usize) -> Vec<Step> {
    vec![Step::Stage(PlannedStage {
        home: Home::Main,
        nodes: 0..count,
        instances: 1,
        balance: Balance::Flow,
        core: None,
        cycles: 0,
    })]
}

#[test]
fn wrong_stages_are_refused() {
    let options = Options {
        mode: Mode::Pipeline,
        parallel: Parallel::Always,
        ..Options::default()
    };
    let lines = [
        "a",
        "nat aliases",
        "b",
        "keep state",
        "w reads=network writes=network",
        "d",
    ];
    let stage = |plan: &mut Plan, step: usize, change: &dyn Fn(&mut PlannedStage)| match &mut plan
        .steps[step]
    {
        Step::Stage(stage) => change(stage),
        Step::Parallel(stages) => change(&mut stages[0]),
    };
    assert_eq!(plan(&lines, &options).line(), "a nat | b & keep & w | d");
    assert_eq!(
        tampered(&lines, &options, |plan| stage(plan, 0, &|s| s.nodes = 0..1)),
        "the stages do not follow one another at 1"
    );
    assert_eq!(
        tampered(&lines, &options, |plan| {
            plan.steps.pop();
        }),
        "no stage has processor 5"
    );
    assert_eq!(
        tampered(&lines, &options, |plan| stage(plan, 0, &|s| s.instances =
            2)),
        "`a` can't be there several times"
    );
    assert_eq!(
        tampered(&lines, &options, |plan| {
            let Step::Parallel(stages) = &mut plan.steps[1] else {
                panic!()
            };
            stages[1].balance = Balance::RoundRobin;
        }),
        "`keep` can't get packets in turn"
    );
    assert_eq!(
        tampered(&lines, &options, |plan| {
            let Step::Parallel(stages) = &mut plan.steps[1] else {
                panic!()
            };
            stages[1].instances = 2;
        }),
        "`keep` can't have instances beside other stages"
    );
    // Packets that a function makes come behind the packets of its burst: in turn they would come
    // out a round late.
    let emits = ["a", "echo reads=network emits", "d drops"];
    let two = Options {
        mode: Mode::Pipeline,
        instances: [("echo".to_owned(), 2)].into(),
        ..Options::default()
    };
    assert_eq!(
        tampered(&emits, &two, |plan| stage(plan, 1, &|s| {
            assert_eq!((s.instances, s.balance), (2, Balance::Flow));
            s.balance = Balance::RoundRobin;
        })),
        "`echo` can't get packets in turn"
    );
    let split = |plan: &mut Plan| {
        let mut tail = plan.steps[0].stages()[0].clone();
        tail.nodes = 1..2;
        stage(plan, 0, &|s| s.nodes = 0..1);
        plan.steps.insert(1, Step::Stage(tail));
    };
    assert_eq!(
        tampered(&lines, &options, split),
        "`nat` is not in the first stage"
    );
    let beside = |plan: &mut Plan| {
        let one = |nodes| PlannedStage {
            home: Home::Main,
            nodes,
            balance: Balance::Flow,
            ..plan.steps[0].stages()[0].clone()
        };
        plan.steps = vec![
            Step::Stage(one(0..4)),
            Step::Parallel(vec![one(4..5), one(5..6)]),
        ];
    };
    assert_eq!(
        tampered(&lines, &options, beside),
        "`d` sees a packet that others have changed otherwise"
    );
}

/// A change at random that can't mean the same.
fn tamper(plan: &mut Plan, dice: &mut Dice) -> Option<String> {
    let count = plan.graph.nodes.len();
    let number = dice.roll(count);
    let links = plan.graph.nodes[number].next.len();
    let node = &mut plan.graph.nodes[number];
    match dice.roll(3) {
        0 => {
            // Its packets miss the next one.
            let link = dice.roll(links);
            let Target::Node(next) = node.next[link] else {
                return None;
            };
            let past = plan.graph.nodes[next].next[0];
            plan.graph.nodes[number].next[link] = past;
            Some(format!("link {link} of {number} skips {next}"))
        }
        1 => {
            let link = dice.roll(links);
            let target = match node.next[link] {
                Target::Drop => Target::Out,
                _ => Target::Drop,
            };
            node.next[link] = target;
            Some(format!("link {link} of {number} leads to {target:?}"))
        }
        _ => {
            let root = dice.roll(number.max(1));
            if root == number {
                return None;
            }
            plan.graph.nodes[number].same_as = Some(root);
            Some(format!("{number} stands on {root}"))
        }
    }
}

#[test]
fn random_changes_are_refused() {
    let mut refused = 0;
    for seed in 0..2_000 {
        let mut dice = Dice::new(seed);
        let mut graph = dice.graph();
        // Settings differ: links between equal processors may never be taken, and a change of
        // one would mean nothing.
        for (number, node) in graph.nodes.iter_mut().enumerate() {
            node.settings = format!("s{number}");
        }
        let options = dice.options(&graph);
        let Ok(mut plan) = compile("random", &graph, &options) else {
            continue;
        };
        // A parallel step's branches have one way on: changes there that lead
        // to the same end mean the same.
        if plan.steps.iter().any(|step| step.stages().len() > 1) {
            continue;
        }
        if let Some(what) = tamper(&mut plan, &mut dice) {
            refused += 1;
            assert!(check(&plan).is_err(), "seed {seed}: {what}\n{plan:#?}");
        }
    }
    eprintln!("refused: {refused}");
    assert!(refused > 300, "{refused}");
}
