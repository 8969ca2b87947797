//! Parallel branches and cuts, each rule with its reason.

use super::*;
use crate::compile::sketch;

fn pipeline(cores: usize) -> Options {
    Options {
        mode: Mode::Pipeline,
        cores: (0..cores).collect(),
        ..Options::default()
    }
}

fn always(cores: usize) -> Options {
    Options {
        parallel: Parallel::Always,
        ..pipeline(cores)
    }
}

fn by_hand(cuts: &[&str]) -> Options {
    Options {
        cuts: cuts.iter().map(|name| (*name).to_owned()).collect(),
        ..pipeline(0)
    }
}

fn faults(lines: &[&str], options: &Options) -> Vec<String> {
    let faults = compile("test", &sketch::graph(lines), options).unwrap_err();
    faults.iter().map(ToString::to_string).collect()
}

#[test]
fn one_core_runs_to_completion() {
    let lines = ["a", "b drops", "c"];
    let one = plan(&lines, &Options::default());
    assert_eq!(one.line(), "a b c");
    assert_eq!(
        one.why(Pass::Stage),
        ["- one stage: no cores were given (about 150 cycles per packet)"]
    );
    let rtc = Options {
        mode: Mode::RunToCompletion,
        cores: vec![3, 4],
        ..Options::default()
    };
    let one = plan(&lines, &rtc);
    assert_eq!(one.line(), "a b c");
    assert_eq!(one.steps[0].stages()[0].core, Some(3));
    assert_eq!(
        one.why(Pass::Stage),
        ["- one stage: run to completion was asked for"]
    );
}

#[test]
fn a_stage_per_processor_without_cores() {
    assert_eq!(plan(&["a", "b", "c"], &pipeline(0)).line(), "a | b | c");
    let nat = plan(&["a", "nat aliases", "b", "c"], &pipeline(0));
    assert_eq!(nat.line(), "a nat | b | c");
    assert_eq!(
        nat.why(Pass::Stage)[0],
        "+ 3 stages: a pipeline without a number of cores has a stage per processor; but the first stage has 2, since \
         `nat` gives flows further names, which only the first stage knows"
    );
}

#[test]
fn the_best_cut_has_the_least_slowest_stage() {
    let lines = [
        "a cycles=100",
        "b cycles=400",
        "c cycles=100",
        "d cycles=300",
    ];
    assert_eq!(plan(&lines, &pipeline(2)).line(), "a b | c d");
    assert_eq!(plan(&lines, &pipeline(3)).line(), "a | b | c d");
    assert_eq!(plan(&lines, &pipeline(1)).line(), "a b c d");
    let two = plan(&lines, &pipeline(2));
    assert_eq!(
        two.why(Pass::Stage),
        [
            "+ 2 stages: the best cut for 2 cores; the slowest costs 590 of 960 cycles, rings included",
            "+ stage 1: `a`, `b`, about 590 cycles; on core 0",
            "+ stage 2: `c`, `d`, about 455 cycles; on core 1",
        ]
    );
}

#[test]
fn auto_cuts_only_where_it_pays() {
    let auto = Options {
        cores: vec![0, 1],
        ..Options::default()
    };
    let light = plan(&["a", "b"], &auto);
    assert_eq!(light.line(), "a b");
    assert_eq!(
        light.why(Pass::Stage),
        [
            "- one stage: no cut is better than none: the slowest costs 120 of 120 cycles, rings \
          included"
        ]
    );
    let middling = plan(&["a cycles=60", "b cycles=60"], &auto);
    assert_eq!(
        middling.why(Pass::Stage),
        [
            "- one stage: cut for 2 cores the slowest costs 150 of 180 cycles, rings included: more \
          than 144, so it does not pay"
        ]
    );
    let heavy = plan(&["a cycles=500", "b cycles=500"], &auto);
    assert_eq!(heavy.line(), "a | b");
}

#[test]
fn a_cut_keeps_verdicts_together_or_takes_them_back() {
    // Cut behind `b` it would run again in the second stage.
    let lines = [
        "a k=x cycles=300",
        "b cycles=200",
        "c k=x cycles=300",
        "d cycles=450",
    ];
    let cheap = plan(&lines, &pipeline(2));
    assert_eq!(cheap.line(), "a b c | d");
    assert_eq!(cheap.root("c"), Some("a"));
    let cut = plan(&["a k=x", "b", "c k=x", "d k=x"], &by_hand(&["c"]));
    assert_eq!(cut.line(), "a b | c d");
    assert_eq!((cut.root("c"), cut.root("d")), (None, Some("c")));
    assert_eq!(
        cut.why(Pass::Stage)[1..3],
        [
            "+ `c` is in another stage than `a`, and verdicts stay in their stage: it runs itself",
            "+ `d` is in another stage than `a`, and verdicts stay in their stage: the verdicts of \
             `c` stand for it"
        ]
    );
}

#[test]
fn what_was_hoisted_for_another_stage_goes_again() {
    let lines = [
        "p labels=u next=a,b",
        "a k=h labels=o next=out,out",
        "b k=h labels=o",
    ];
    let cut = plan(&lines, &by_hand(&["a"]));
    assert_eq!(cut.line(), "p | a b");
    assert_eq!(cut.graph, cut.written);
    let hoisted = cut.why(Pass::Hoist);
    assert!(
        hoisted[0].starts_with("- ") && hoisted[0].ends_with("(taken back when stages were cut)"),
        "{hoisted:?}"
    );
    assert_eq!(plan(&lines, &pipeline(0)).line(), "p | a | b");
}

#[test]
fn a_merge_across_a_cut_is_told_as_taken_back() {
    let lines = ["a k=x", "b", "c k=x"];
    let cut = plan(&lines, &by_hand(&["c"]));
    assert_eq!(
        cut.why(Pass::Consolidate),
        [
            "- `c` is not run again: every packet that gets here was shown to `a`, and nothing in \
             between changes what it looks at (taken back when stages were cut)"
        ]
    );
    assert_eq!(cut.root("c"), None);
    assert!(merged(&lines).why(Pass::Consolidate)[0].starts_with("+ "));
}

#[test]
fn cuts_by_hand_and_what_they_may_not() {
    let lines = ["t/a", "t/b", "nat aliases", "c", "u/d", "u/e"];
    assert_eq!(
        plan(&lines, &by_hand(&["c", "u"])).line(),
        "t/a t/b nat | c | u/d u/e"
    );
    assert_eq!(
        faults(&lines, &by_hand(&["t/b"])),
        [
            "plan.stages: no stage can begin with `t/b`: `nat` gives flows further names, which only \
          the first stage knows\n   = help: it stays in the first stage, with all that is before \
          it: cut behind it"
        ]
    );
    assert_eq!(
        faults(&lines, &by_hand(&["u/x"])),
        [
            "plan.stages: there is no instance or processor `u/x` in this chain\n   = help: did you \
          mean `u/d`?"
        ]
    );
    let auto = Options {
        mode: Mode::Auto,
        ..by_hand(&["c"])
    };
    assert_eq!(
        faults(&lines, &auto),
        [
            "plan.stages: stages by hand are of a pipeline\n   = help: write `mode: pipeline`, or \
          take `stages` away"
        ]
    );
}

#[test]
fn instances_get_a_stage_and_a_balanced_port() {
    let options = |name: &str, count: u16| Options {
        instances: [(name.to_owned(), count)].into(),
        cores: vec![2, 3, 4],
        ..Options::default()
    };
    let lines = [
        "a",
        "look reads=network",
        "c",
        "keep state",
        "wide state client",
    ];
    let plan_of = |name| plan(&lines, &options(name, 2));
    let turns = plan_of("look");
    assert_eq!(turns.line(), "a | look | c keep wide");
    let stage = &turns.steps[1].stages()[0];
    assert_eq!((stage.instances, stage.balance), (2, Balance::RoundRobin));
    assert_eq!(stage.core, Some(3));
    assert_eq!(
        turns.why(Pass::Stage)[2],
        "+ stage 2: `look`, about 58 cycles; 2 instances, in turn, since nothing there keeps \
         state or needs the order of a flow; on core 3"
    );
    let flows = plan_of("keep");
    let stage = &flows
        .steps
        .iter()
        .flat_map(Step::stages)
        .find(|s| s.instances == 2)
        .unwrap();
    assert_eq!(stage.balance, Balance::Flow);
    // Output that comes behind a burst would come behind its turn.
    for does in ["emits", "events", "tally"] {
        let line = format!("look reads=network {does}");
        let bound = plan(&[lines[0], &line, lines[2]], &options("look", 2));
        let stage = &bound.steps[1].stages()[0];
        assert_eq!(
            (stage.instances, stage.balance),
            (2, Balance::Flow),
            "{does}"
        );
    }
    for (name, count, message) in [
        ("look", 0, "`look` can't have 0 instances"),
        ("look", 65, "`look` can't have 65 instances"),
        ("a", 2, "it is in the first stage"),
        (
            "wide",
            2,
            "it keeps its state per client-address, and each instance would see a part",
        ),
        ("lok", 2, "did you mean `look`?"),
    ] {
        let faults = faults(&lines, &options(name, count));
        assert!(faults[0].contains(message), "{faults:?}");
    }
    let rtc = Options {
        mode: Mode::RunToCompletion,
        ..options("look", 2)
    };
    assert!(faults(&lines, &rtc)[0].contains("the chain is one stage"));
}

#[test]
fn readers_run_side_by_side_where_asked() {
    let lines = ["a", "b reads=network", "c reads=network", "d drops"];
    let side = plan(&lines, &always(0));
    assert_eq!(side.line(), "a | b & c | d");
    assert_eq!(
        side.why(Pass::Parallelise),
        [
            "+ `b`, `c` run side by side, as asked: 30 of 60 cycles of latency against 370 for rings, \
          1 copies and the join"
        ]
    );
    // Only those of which none decides what happens, and none sees another's
    // changes.
    for (other, line) in [
        ("c reads=network writes=network", "a | b & c | d"),
        ("c reads=network labels=x", "a | b | c | d"),
        ("c reads=network drops", "a | b | c | d"),
        ("c reads=network emits", "a | b | c | d"),
        ("c reads=network aliases", "a b c | d"),
    ] {
        let lines = [lines[0], lines[1], other, lines[3]];
        assert_eq!(plan(&lines, &always(0)).line(), line, "{other}");
    }
    let lines = [
        "a",
        "b reads=network writes=network",
        "c reads=network",
        "d drops",
    ];
    let apart = plan(&lines, &always(0));
    assert_eq!(apart.line(), "a | b | c | d");
    assert_eq!(
        apart.why(Pass::Parallelise)[0],
        "- not beside `c`: `b` writes network header, which `c` looks at"
    );
    let lines = [
        "a",
        "b reads=network+link writes=link",
        "c reads=network+payload writes=payload",
        "d reads=network writes=payload",
    ];
    assert_eq!(plan(&lines, &always(0)).line(), "a | b & c | d");
}

#[test]
fn parallel_branches_need_cores_and_a_gain() {
    let auto = |cores: usize| Options {
        cores: (0..cores).collect(),
        ..Options::default()
    };
    let lines = [
        "a",
        "b reads=network cycles=700",
        "c reads=network cycles=700",
        "d drops",
    ];
    assert_eq!(plan(&lines, &auto(4)).line(), "a | b & c | d");
    assert_eq!(
        plan(&lines, &auto(3)).why(Pass::Parallelise),
        ["- `b`, `c` could run side by side, on 4 cores: there are 3"]
    );
    let cheap = [
        "a",
        "b reads=network cycles=100",
        "c reads=network cycles=100",
        "d drops",
    ];
    assert_eq!(
        plan(&cheap, &auto(4)).why(Pass::Parallelise),
        [
            "- `b`, `c` could run side by side, but would gain 100 of 200 cycles of latency against \
          370 for rings, 1 copies and the join"
        ]
    );
    let rtc = Options {
        mode: Mode::RunToCompletion,
        ..auto(4)
    };
    assert_eq!(plan(&lines, &rtc).line(), "a b c d");
}

#[test]
fn cycles_are_of_a_processor_its_instance_or_its_function() {
    let options = Options {
        cycles: [("t", 300), ("f", 50), ("t/c", 7)]
            .map(|(name, n)| (name.to_owned(), n))
            .into(),
        ..pipeline(0)
    };
    let plan = plan(&["t/a", "t/b", "t/c", "d k=f", "e cycles=0"], &options);
    let cycles: Vec<u32> = plan.graph.nodes.iter().map(|n| n.effects.cycles).collect();
    assert_eq!(cycles, [100, 100, 7, 50, 0]);
    assert!(plan.why(Pass::Stage)[5].contains("(`e` taken as 30 each: not known)"));
}

#[test]
fn flags_win_over_the_file() {
    let file = Options {
        parallel: Parallel::Always,
        instances: [("b".to_owned(), 2)].into(),
        cycles: [("a".to_owned(), 1), ("b".to_owned(), 2)].into(),
        ..by_hand(&["b"])
    };
    let flags = Flags {
        mode: Some(Mode::RunToCompletion),
        passes: Some("consolidate,parallel".parse().unwrap()),
        cores: Some(vec![7]),
        cycles: [("b".to_owned(), 5)].into(),
    };
    let options = file.clone().with(&flags);
    assert_eq!(options.mode, Mode::RunToCompletion);
    assert!(options.cuts.is_empty() && options.instances.is_empty());
    assert!(options.consolidate && !options.hoist);
    assert_eq!(options.parallel, Parallel::Always);
    assert_eq!(
        (options.cores, options.cycles["a"], options.cycles["b"]),
        (vec![7], 1, 5)
    );
    assert_eq!(file.clone().with(&Flags::default()), file);
    assert_eq!("none".parse(), Ok(Passes::NONE));
    assert_eq!("all".parse(), Ok(Passes::ALL));
    assert_eq!(
        "hois".parse::<Passes>(),
        Err("there is no pass `hois`: did you mean `hoist`?".to_owned())
    );
    assert_eq!("rtc".parse(), Ok(Mode::RunToCompletion));
    assert_eq!(
        "rct".parse::<Mode>(),
        Err("`rct` is no plan: `auto`, `rtc`, `pipeline`".to_owned())
    );
}

#[test]
fn no_group_has_more_branches_than_packets_have_marks() {
    let names: Vec<String> = (0..40).map(|n| format!("look{n}")).collect();
    let lines: Vec<&str> = names.iter().map(String::as_str).collect();
    let plan = plan(&lines, &always(0));
    let sizes: Vec<usize> = plan.steps.iter().map(|s| s.stages().len()).collect();
    assert_eq!(sizes, [1, 17, 17, 5]);
    assert_eq!(weir_packet::MOST_BRANCHES + 1, 17);
}
