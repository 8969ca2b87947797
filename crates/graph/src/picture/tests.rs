use weir_nf::host::Target;
use weir_nf::{Needs, Parts, Scope};

use super::{dot, explain, plan_data, svg, text, unknown};
use crate::compile::{
    Balance, Decision, Effects, Graph, Home, Pass, Plan, PlannedStage, Processor, Step,
};

fn node(name: &str, kind: &str, next: &[Target], same_as: Option<usize>) -> Processor {
    let labels = ["pass", "http", "<odd>"];
    Processor {
        name: name.to_owned(),
        instance: name.split('/').next().unwrap_or(name).to_owned(),
        kind: kind.to_owned(),
        settings: "{}".to_owned(),
        effects: Effects {
            needs: Needs::Network,
            scope: Scope::Flow,
            reads: Parts::NETWORK,
            writes: Parts::NONE,
            stateful: false,
            drops: true,
            emits: false,
            events: false,
            counts: false,
            tally: false,
            shares: false,
            aliases: false,
            turns: false,
            gives: u64::MAX,
            cycles: 30,
        },
        labels: labels
            .iter()
            .take(next.len())
            .map(|l| (*l).to_owned())
            .collect(),
        next: next.to_vec(),
        same_as,
    }
}

fn stage(nodes: core::ops::Range<usize>, core: usize) -> PlannedStage {
    PlannedStage {
        home: Home::Main,
        nodes,
        instances: 1 + core as u16,
        balance: Balance::Flow,
        core: Some(core),
        cycles: 60,
    }
}

fn plan() -> Plan {
    use Target::{Drop, Node, Out};
    let nodes = |same| {
        vec![
            node("fw/check", "ip-check", &[Node(1)], None),
            node("fw/sort", "classifier", &[Node(2), Node(3), Drop], None),
            node("app/check", "ip-check", &[Node(3)], same),
            node("app/urls", "url-validator", &[Out], None),
        ]
    };
    Plan {
        chain: "a \"chain\" & more".to_owned(),
        written: Graph { nodes: nodes(None) },
        graph: Graph {
            nodes: nodes(Some(0)),
        },
        steps: vec![Step::Stage(stage(0..3, 0)), Step::Stage(stage(3..4, 1))],
        decisions: vec![
            Decision {
                pass: Pass::Consolidate,
                about: vec!["app/check".to_owned(), "fw/check".to_owned()],
                done: true,
                why: "the same work".to_owned(),
            },
            Decision {
                pass: Pass::Parallelise,
                about: vec!["fw/sort".to_owned()],
                done: false,
                why: "it labels packets".to_owned(),
            },
        ],
    }
}

#[test]
fn the_text_shows_both_graphs_their_links_and_the_reasons() {
    let text = text(&plan());
    let expected = "\
chain a \"chain\" & more: 4 processors; 3 are called

as written
  ├─ fw/check   ip-check
  ├─ fw/sort    classifier
  │    ├ http → app/urls
  │    └ <odd> → drop
  ├─ app/check  ip-check
  └─ app/urls   url-validator

as it runs
  stage 1 (core 0, about 60 cycles per packet)
    ├─ fw/check   ip-check
    ├─ fw/sort    classifier
    │    ├ http → app/urls
    │    └ <odd> → drop
    └─ app/check  ip-check  = fw/check, not called again
  stage 2 (core 1, 2 instances, by flow, about 60 cycles per packet)
    └─ app/urls  url-validator

why
  ✓ consolidate  app/check: the same work
  – parallelise  fw/sort: it labels packets
";
    assert_eq!(text, expected);
}

#[test]
fn one_nf_is_explained_with_the_decisions_about_it_alone() {
    let plan = plan();
    let app = explain(&plan, "app").expect("there");
    assert!(
        app.contains("the verdicts of fw/check stand for its"),
        "{app}"
    );
    assert!(app.contains("runs in stage 2"), "{app}");
    assert!(
        app.contains("the same work") && !app.contains("labels packets"),
        "{app}"
    );
    assert!(
        explain(&plan, "fw/sort")
            .expect("there")
            .contains("labels packets")
    );
    assert_eq!(explain(&plan, "nobody"), None);
    let plans = [plan];
    assert_eq!(unknown(&plans, "ap"), "did you mean `app`?");
    assert_eq!(unknown(&plans, "fw/sorts"), "did you mean `fw/sort`?");
    assert_eq!(unknown(&plans, "nobody"), "it has fw, app");
}

#[test]
fn links_that_no_packet_takes_are_not_shown() {
    let mut plan = plan();
    plan.written.nodes[1].effects.gives = 1 << 2;
    let text = text(&plan);
    assert_eq!(text.matches("http → app/urls").count(), 1, "{text}");
    assert_eq!(text.matches("<odd> → drop").count(), 2, "{text}");
}

#[test]
fn data_says_links_stages_and_who_stands_for_whom() {
    let data = plan_data(&plan());
    assert_eq!(data.runs[2].same_as.as_deref(), Some("fw/check"));
    assert_eq!(data.written[2].same_as, None);
    let links: Vec<_> = data.runs[1]
        .links
        .iter()
        .map(|l| (l.label.as_str(), l.to.as_str()))
        .collect();
    assert_eq!(
        links,
        [
            ("pass", "app/check"),
            ("http", "app/urls"),
            ("<odd>", "drop")
        ]
    );
    assert_eq!(data.stages[1].processors, ["app/urls"]);
    assert_eq!(
        (data.stages[1].core, data.stages[1].instances),
        (Some(1), 2)
    );
}

#[test]
fn pictures_are_well_formed_whatever_the_names_are() {
    let plan = plan();
    let svg = svg(&plan);
    assert!(!svg.contains("<odd>") && svg.contains("&lt;odd&gt;"));
    assert_eq!(svg.matches("<rect ").count(), 1 + 4 + 4 + 2);
    assert_eq!(svg.matches("<path d=\"M").count() - 1, 6 + 6);
    let mut open = 0i32;
    for part in svg.split('<').skip(1) {
        match part.as_bytes() {
            [b'/', ..] => open -= 1,
            _ if part.split('>').next().is_some_and(|tag| tag.ends_with('/')) => {}
            _ => open += 1,
        }
        assert!(open >= 0);
    }
    assert_eq!(open, 0, "each element is closed");
    let dot = dot(&plan);
    assert!(dot.starts_with("digraph \"a \\\"chain\\\" & more\" {"));
    assert!(dot.contains("r1 -> r3 [label=\"http\"];"));
    assert!(dot.contains("r0 -> r2 [style=dotted"));
    assert_eq!(dot.matches('{').count(), dot.matches('}').count());
}
