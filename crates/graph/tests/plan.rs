//! `plan:` of a chain file, and stages of compiled chains.

mod common;

use common::read;
use weir_graph::Chain;
use weir_graph::compile::{Balance, Home, Mode, Options, Parallel, Plan, compile};
use weir_nf::host::Target;

const CHAIN: &str = "chain: edge
nfs:
  - ip-check
  - balancer
  - classify:
      ports: [80, 443]
    as: web
    links: {other: firewall}
  - ip-check
  - firewall
  - monitor: {}
";

fn chain(plan: &str) -> Chain {
    let text = format!("{CHAIN}plan: {plan}\n");
    let file = read(&text).unwrap_or_else(|list| panic!("{}", weir_graph::render(&list)));
    file.chains.into_iter().next().unwrap()
}

fn compiled(chain: &Chain) -> Plan {
    let plan = compile(&chain.stage.chain, &chain.graph, &chain.plan);
    plan.unwrap_or_else(|faults| panic!("{faults:?}"))
}

/// `LINE:COLUMN MESSAGE | HELP` of everything that is wrong; the value of
/// `plan` begins in line 12, column 7.
fn errors(plan: &str) -> Vec<String> {
    let text = format!("{CHAIN}plan: {plan}\n");
    let list = read(&text).expect_err("it is wrong");
    list.iter()
        .filter(|d| d.severity == weir_graph::Severity::Error)
        .map(|d| {
            let help = d.help.as_ref().map(|help| format!(" | {help}"));
            let (line, column, message) = (d.line, d.column, &d.message);
            format!("{line}:{column} {message}{}", help.unwrap_or_default())
        })
        .collect()
}

#[test]
fn everything_that_can_be_said() {
    let chain = chain(
        "{mode: pipeline, stages: [web, monitor], cores: [0, 3, 0], instances: {web: 2}, \
         affinity: {monitor: 5}, passes: [consolidate], parallel: never, \
         cycles: {web: 50, firewall: 70}, costs: {ring: 60, margin: 100}}",
    );
    let options = &chain.plan;
    assert_eq!(options.mode, Mode::Pipeline);
    assert_eq!(options.cuts, ["web", "monitor"]);
    assert_eq!(options.cores, [0, 3, 0]);
    assert_eq!(options.instances["web"], 2);
    assert_eq!(options.affinity["monitor"], 5);
    assert!(options.consolidate && !options.hoist);
    assert_eq!(options.parallel, Parallel::Never);
    assert_eq!(
        (options.cycles["web"], options.cycles["firewall"]),
        (50, 70)
    );
    assert_eq!((options.costs.ring, options.costs.margin), (60, 100));
    assert_eq!(options.costs.classify, Options::default().costs.classify);
    let plan = compiled(&chain);
    let stages: Vec<_> = plan.steps.iter().flat_map(|step| step.stages()).collect();
    assert_eq!(stages.len(), 3);
    assert_eq!((stages[1].instances, stages[1].balance), (2, Balance::Flow));
    assert_eq!(
        stages.iter().map(|s| s.core).collect::<Vec<_>>(),
        [Some(0), Some(3), Some(5)]
    );
}

#[test]
fn short_forms() {
    assert_eq!(chain("{}").plan, Options::default());
    let by_hand = chain("{stages: web}").plan;
    assert_eq!((by_hand.mode, by_hand.cuts.len()), (Mode::Pipeline, 1));
    let none = chain("{passes: none}").plan;
    assert!(!none.consolidate && !none.hoist && none.parallel == Parallel::Never);
    assert_eq!(chain("{cores: 3}").plan.cores, [3]);
    assert_eq!(chain("{passes: [], mode: rtc}").plan, Options::as_written());
}

#[test]
fn what_is_wrong_has_its_place() {
    let mut wrong = Vec::new();
    for (plan, expected) in [
        (
            "5",
            "12:7 expected a mapping like `mode: pipeline`, found `5` | leave it out for what is \
             usual: a plan as gains are expected",
        ),
        (
            "{mod: rtc}",
            "12:8 unknown key `mod` | did you mean `mode`?",
        ),
        (
            "{mode: rct}",
            "12:14 `rct` is not one of the values here | did you mean `rtc`?",
        ),
        (
            "{stages: [wbe]}",
            "12:17 there is no instance or processor `wbe` in this chain | did you mean `web`?",
        ),
        (
            "{mode: auto, stages: [web]}",
            "12:29 stages by hand are of a pipeline | write `mode: pipeline`, or take `stages` away",
        ),
        ("{stages: [web, web]}", "12:22 `web` is here twice"),
        (
            "{instances: {web: 0}}",
            "12:20 `web` can't have 0 instances | a stage has 1 to 64 instances; to leave a \
             function out, take it from `nfs`",
        ),
        (
            "{instances: {web: 65}}",
            "12:20 `web` can't have 65 instances | a stage has 1 to 64 instances; to leave a \
             function out, take it from `nfs`",
        ),
        (
            "{instances: {web: many}}",
            "12:25 expected a whole number from 0 to 65535, found `many`",
        ),
        (
            "{instances: {ip-check: 2}}",
            "12:20 `ip-check` can't have 2 instances: it is in the first stage | the first stage \
             has the flows: run the whole chain several times with `--workers`",
        ),
        (
            "{stages: [monitor], instances: {web: 2}}",
            "12:39 `web` can't have 2 instances: it is in the first stage | the first stage has \
             the flows: cut before it, or run the whole chain several times with `--workers`",
        ),
        (
            "{cores: [1024]}",
            "12:16 expected a whole number from 0 to 1023, found `1024`",
        ),
        (
            "{affinity: {nat: 1}}",
            "12:19 there is no instance or processor `nat` in this chain | instances and \
             processors: `ip-check`, `balancer`, `web`, `ip-check-2`, `firewall`, `monitor`",
        ),
        (
            "{cycles: {clasify: 1}}",
            "12:17 there is no instance, processor or function `clasify` in this chain | did you \
             mean `classify`?",
        ),
        (
            "{passes: [hoist, merge]}",
            "12:24 `merge` is not one of the values here | values: `none`, `all`, \
             `consolidate`, `hoist`, `parallel`",
        ),
        (
            "{passes: [none, all]}",
            "12:17 `none` stands alone, without other passes | write `passes: none`",
        ),
        (
            "{costs: {rings: 1}}",
            "12:16 unknown key `rings` | did you mean `ring`?",
        ),
        (
            "{parallel: ever}",
            "12:18 `ever` is not one of the values here | did you mean `never`?",
        ),
    ] {
        let said = errors(plan);
        if said != [expected] {
            wrong.push((plan, said));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn one_stage_is_what_was_written() {
    let mut chain = chain("{passes: none}");
    let plan = compiled(&chain);
    let stages = plan.stages(&chain.stage).unwrap();
    let [step] = stages.as_slice() else {
        panic!("{} steps", stages.len());
    };
    let [stage] = step.as_slice() else {
        panic!("{} stages", step.len());
    };
    assert_eq!(stage.first, 0);
    for (one, other) in stage.nodes.iter().zip(&chain.stage.nodes) {
        assert_eq!(
            (&one.name, &one.next, one.same_as),
            (&other.name, &other.next, None)
        );
        assert!(std::sync::Arc::ptr_eq(&one.processor, &other.processor));
    }
    assert_eq!(stage.nodes.len(), chain.stage.nodes.len());
    chain.stage.nodes.pop();
    assert_eq!(
        plan.stages(&chain.stage).unwrap_err(),
        "the plan of the chain `edge` has a processor `monitor` that the stage lacks"
    );
}

#[test]
fn links_lead_into_later_stages() {
    let chain = chain("{stages: [web, firewall], passes: none}");
    let stages: Vec<_> = compiled(&chain).stages(&chain.stage).unwrap().concat();
    assert_eq!(
        stages.iter().map(|s| s.first).collect::<Vec<_>>(),
        [0, 2, 4]
    );
    let next = |stage: usize, node: usize| stages[stage].nodes[node].next.as_slice();
    assert_eq!(next(0, 0), [Target::Node(1)]);
    assert_eq!(next(0, 1), [Target::Later(2)]);
    // pass, other, late
    assert_eq!(
        next(1, 0),
        [Target::Node(1), Target::Later(4), Target::Node(1)]
    );
    assert_eq!(next(1, 1), [Target::Later(4)]);
    assert_eq!(next(2, 0), [Target::Node(1)]);
    assert_eq!(next(2, 1), [Target::Out]);
    assert!(stages.iter().all(|stage| stage.flows == chain.stage.flows));
}

#[test]
fn verdicts_stay_by_number_in_their_stage() {
    let text = "chain: a
nfs: [monitor, classify: {ports: [1, 2]}, {classify: {ports: [1, 2]}, as: again}]
plan: {stages: classify}
";
    let file = read(text).unwrap_or_else(|list| panic!("{}", weir_graph::render(&list)));
    let chain = &file.chains[0];
    let stages: Vec<_> = compiled(chain).stages(&chain.stage).unwrap().concat();
    assert_eq!((stages[1].first, stages[1].nodes[1].same_as), (1, Some(0)));
}

#[test]
fn branches_lead_past_their_step() {
    let chain = chain("{mode: pipeline, stages: [firewall], parallel: always}");
    let plan = compiled(&chain);
    let stages = plan.stages(&chain.stage).unwrap();
    let branches = stages
        .iter()
        .find(|step| step.len() > 1)
        .expect("a parallel step");
    assert_eq!(branches.len(), 2);
    assert_eq!((branches[0].first, branches[1].first), (4, 5));
    for branch in branches {
        assert_eq!(
            branch.nodes[0].next,
            [Target::Out],
            "both lead past the step"
        );
    }
}

#[test]
fn who_is_not_trusted_has_a_process_of_its_own_however_the_chain_is_cut() {
    for plan in [
        "{untrusted: monitor, processes: [firewall]}",
        "{mode: pipeline, untrusted: [monitor], processes: firewall}",
        "{mode: auto, cores: [0], untrusted: [monitor], processes: firewall}",
        "{stages: firewall, untrusted: [monitor], processes: firewall}",
        "{cores: [0, 1], parallel: always, untrusted: [monitor], processes: firewall}",
    ] {
        let plan = compiled(&chain(plan));
        let homes: Vec<(Vec<&str>, Home)> = (plan.steps.iter())
            .flat_map(|step| step.stages())
            .map(|stage| {
                let nodes = plan.graph.nodes[stage.nodes.clone()].iter();
                (nodes.map(|n| n.name.as_str()).collect(), stage.home)
            })
            .filter(|(_, home)| *home != Home::Main)
            .collect();
        let wanted = [
            (vec!["firewall"], Home::Process),
            (vec!["monitor"], Home::Tenant),
        ];
        assert_eq!(homes, wanted);
    }
}

#[test]
fn who_can_have_no_process_is_told_so() {
    let wrong = |plan: &str, place: &str, message: &str, help: &str| {
        let errors = errors(plan);
        let hit = |e: &String| e.starts_with(place) && e.contains(message) && e.contains(help);
        assert!(errors.iter().any(hit), "{plan}: {errors:?}");
    };
    wrong(
        "{untrusted: moniter}",
        "12:19 ",
        "no instance or processor `moniter`",
        "monitor",
    );
    wrong(
        "{untrusted: [monitor, monitor]}",
        "12:29 ",
        "here twice",
        "",
    );
    wrong(
        "{untrusted: ip-check}",
        "12:19 ",
        "the first of the chain",
        "write something before",
    );
    wrong(
        "{mode: rtc, untrusted: monitor}",
        "12:30 ",
        "the chain is one stage",
        "never runs in the main",
    );
    wrong(
        "{mode: rtc, processes: monitor}",
        "12:30 ",
        "the chain is one stage",
        "mode: pipeline",
    );
    let both = "{mode: pipeline, instances: {firewall: 2}, untrusted: firewall}";
    wrong(
        both,
        "12:61 ",
        "both instances and a process",
        "one of the two",
    );
    wrong(
        "{processes: monitor, untrusted: monitor}",
        "12:39 ",
        "both in `processes` and",
        "",
    );
    wrong("{untrusted: {}}", "12:19 ", "", "");
}
