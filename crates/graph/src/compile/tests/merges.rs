//! Consolidation and hoisting, each rule with its reason.

use super::*;

const CHECK: &str = "k=check reads=network";

fn with(line: &str, rest: &str) -> String {
    format!("{line} {CHECK} {rest}")
}

fn merged_of(lines: &[String]) -> Plan {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    merged(&lines)
}

#[test]
fn equal_work_is_done_once_across_drops() {
    let plan = merged_of(&[
        with("a/check", "drops"),
        "a/fw drops state reads=network".to_owned(),
        with("b/check", "drops"),
    ]);
    assert_eq!(plan.root("b/check"), Some("a/check"));
    assert_eq!(
        plan.why(Pass::Consolidate),
        [
            "+ `b/check` is not run again: every packet that gets here was shown to `a/check`, and \
          nothing in between changes what it looks at"
        ]
    );
    assert_eq!(
        plan.why(Pass::Expand),
        [
            "+ `a` is of a template: it became `a/check`, `a/fw`",
            "+ `b` is of a template: it became `b/check`"
        ]
    );
    let check = &plan.why(Pass::Check)[0];
    assert!(
        check.starts_with("+ on all 3 ways through the chain"),
        "{check}"
    );
}

#[test]
fn a_writer_in_between_keeps_both() {
    let plan = merged_of(&[
        with("a", ""),
        "monitor writes=network reads=network".to_owned(),
        with("b", ""),
    ]);
    assert_eq!(plan.root("b"), None);
    assert_eq!(
        plan.why(Pass::Consolidate),
        ["- `b` is run again: equal to `a`, but `monitor` writes network header in between"]
    );
    // Fields of the network header say where the transport header is.
    let plan = merged(&[
        "a k=ports reads=network+transport",
        "nat reads=network writes=network",
        "b k=ports reads=network+transport",
    ]);
    assert_eq!(plan.root("b"), None);
    // The link header says nothing of what is above it.
    let plan = merged_of(&[with("a", ""), "swap writes=link".to_owned(), with("b", "")]);
    assert_eq!(plan.root("b"), Some("a"));
    // One that reads no header still sees the length.
    let plan = merged(&["a k=size", "zip reads=payload writes=payload", "b k=size"]);
    assert_eq!(plan.root("b"), None);
    // A writer that packets do not meet in between is none.
    let plan = merged_of(&[
        with("a", ""),
        "part labels=other next=b,zip".to_owned(),
        with("b", "next=out"),
        "zip writes=all".to_owned(),
    ]);
    assert_eq!(plan.root("b"), Some("a"));
}

#[test]
fn what_counts_or_keeps_state_merges_on_the_very_same_packets_only() {
    for what in ["counts", "state"] {
        let plan = merged_of(&[with("a", what), "x".to_owned(), with("b", what)]);
        assert_eq!(plan.root("b"), Some("a"), "{what}");
        let plan = merged_of(&[with("a", what), "fw drops".to_owned(), with("b", what)]);
        assert_eq!(plan.root("b"), None, "{what}");
        let plan = merged_of(&[
            with("a", what),
            "part labels=other next=b,out".to_owned(),
            with("b", what),
        ]);
        assert_eq!(plan.root("b"), None, "{what}");
    }
    let plan = merged_of(&[
        with("a", "counts"),
        "fw drops".to_owned(),
        with("b", "counts"),
    ]);
    assert_eq!(
        plan.why(Pass::Consolidate),
        ["- `b` is run again: equal to `a`, but it counts, and `fw` may drop before it"]
    );
    // Branches that meet again part no packets.
    let plan = merged_of(&[
        with("a", "state"),
        "part labels=other next=b,x".to_owned(),
        "x next=b".to_owned(),
        with("b", "state"),
    ]);
    assert_eq!(plan.root("b"), Some("a"));
}

#[test]
fn what_acts_is_never_left_out() {
    for (what, why) in [
        ("emits", "it makes packets of its own"),
        ("events", "it writes events"),
        ("tally", "it keeps a tally"),
        ("shares", "it takes what flows share"),
        ("aliases", "it gives flows further names"),
        ("turns", "it may turn packets back"),
        ("writes=payload", "it changes packets"),
    ] {
        let plan = merged_of(&[with("a", what), with("b", what)]);
        assert_eq!(plan.root("b"), None, "{what}");
        assert_eq!(
            plan.why(Pass::Consolidate),
            [format!("- `b` is run again: equal to `a`, but {why}")]
        );
    }
}

#[test]
fn only_equal_settings_and_dominated_processors_merge() {
    let plan = merged(&["a k=check s=1", "b k=check s=2", "c k=other s=1"]);
    assert!(plan.why(Pass::Consolidate).is_empty());
    let plan = merged(&["p labels=x next=a,b", "a k=check", "b k=check"]);
    assert_eq!(plan.root("b"), None);
    assert_eq!(
        plan.why(Pass::Consolidate),
        ["- `b` is run again: equal to `a`, but packets get here that were not there"]
    );
}

#[test]
fn nothing_is_merged_where_passes_are_off() {
    let lines = [
        "a k=check",
        "p labels=x next=b,c",
        "b k=check next=out",
        "c k=check",
    ];
    let plan = plan(&lines, &Options::as_written());
    assert!(plan.graph.nodes.iter().all(|node| node.same_as.is_none()));
    assert_eq!(plan.graph, plan.written);
    assert_eq!(plan.line(), "a p b c");
}

#[test]
fn equal_classification_on_branches_is_hoisted() {
    let plan = merged(&[
        "p labels=udp next=a,b",
        "a k=http labels=other reads=network next=end,end",
        "b k=http labels=other reads=network next=end,out",
        "end k=http labels=other reads=network",
    ]);
    assert_eq!(plan.line(), "a@p p a b end");
    for name in ["a", "b", "end"] {
        assert_eq!(plan.root(name), Some("a@p"));
    }
    assert_eq!(
        plan.why(Pass::Hoist),
        [
            "+ `a`, `b` run once as `a@p`, before `p`: together they get all its packets, and \
          nothing before them changes what they look at; its verdicts also stand for `end`"
        ]
    );
}

#[test]
fn hoisting_keeps_its_rules() {
    let refused = |lines: &[&str], why: &str| {
        let plan = merged(lines);
        assert_eq!(plan.graph.nodes.len(), lines.len(), "{lines:?}");
        assert_eq!(
            plan.why(Pass::Hoist),
            [format!("- `a`, `b` stay apart: {why}")]
        );
    };
    refused(
        &[
            "p labels=u next=a,b",
            "a k=h counts next=out",
            "b k=h counts",
        ],
        "they count",
    );
    refused(
        &["p labels=u next=a,b", "a k=h drops next=out", "b k=h drops"],
        "they may drop",
    );
    refused(
        &["p drops labels=u next=a,b", "a k=h next=out", "b k=h"],
        "they do not get all packets of `p`: `p` may drop or turn some before",
    );
    refused(
        &["p labels=u,v next=a,b,out", "a k=h next=out", "b k=h"],
        "they do not get all packets of `p`: some leave at `p`",
    );
    refused(
        &[
            "p labels=u next=a,w",
            "a k=h next=out",
            "w writes=all next=b",
            "b k=h",
        ],
        "`w` writes link, network, transport and payload before them",
    );
}

#[test]
fn a_chain_with_very_many_ways_is_checked_at_once() {
    // 32 times a classifier and what a class of it is sent through: more than
    // 10^15 ways, few states.
    let lines: Vec<String> = (0..32)
        .flat_map(|n| {
            let past = if n == 31 {
                "out".to_owned()
            } else {
                format!("c{}", n + 1)
            };
            [
                format!(
                    "c{n} k=c s={} reads=network labels=l,m next={past},a{n},{past}",
                    n % 20
                ),
                format!("a{n} counts"),
            ]
        })
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let plan = merged(&lines);
    let merges = plan.graph.nodes.iter().filter(|n| n.same_as.is_some());
    assert_eq!(merges.count(), 12);
    let found = plan.why(Pass::Check).remove(0);
    assert!(found.starts_with("+ on all ways"), "{found}");
    let mut wrong = plan;
    wrong.graph.nodes[60].next[2] = wrong.graph.nodes[60].next[1];
    assert!(check(&wrong).is_err());
}
