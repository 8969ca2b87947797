//! Chain files that are right, and what becomes of them.

mod common;

use common::{KINDS, load_with, read};
use proptest::prelude::*;
use weir_graph::{Chain, ChainFile, Input, Severity, describe};
use weir_nf::host::{Kind, OnMalformed, Target, Timeouts, WhenFull};
use weir_nf::prelude::*;
use weir_packet::{IcmpKey, Side};

const FULL: &str = "\
chain: edge
ports:
  - {name: lan, side: inside}
  - {name: wan, side: outside}
match:
  - {protocol: tcp, port: [80, 8000-8100]}
  - {prefix: 10.0.0.0/8, protocol: [udp, 47]}
  - {vlan: [10, 20]}
flows:
  max: 1000
  when-full: refuse
  timeouts: {tcp-established: 2h4m, udp: 90s, other: never, reuse: false}
  inner: true
  zone: false
  icmp: addresses
  malformed: pass
  track: always
  buffers: 1MiB
  held-fragments: 7
nfs:
  - ip-check
  - firewall:
      default: {rate-limit: 5}
      rules:
        - action: accept
          source: 10.0.0.1
          ports: [80, 443]
  - classify: {ports: [80, 81]}
    as: web
    links: {other: count, late: drop}
  - firewall
  - monitor:
    as: count
";

fn one(text: &str) -> Chain {
    let file = read(text).unwrap_or_else(|list| panic!("{}", weir_graph::render(&list)));
    file.chains.into_iter().next().unwrap()
}

fn names(chain: &Chain) -> Vec<&str> {
    chain.stage.nodes.iter().map(|n| n.name.as_str()).collect()
}

#[test]
fn everything_that_can_be_said() {
    let chain = one(FULL);
    assert_eq!(chain.stage.chain, "edge");
    assert_eq!(
        names(&chain),
        ["ip-check", "firewall", "web", "firewall-2", "count"]
    );
    let web = &chain.stage.nodes[2];
    assert_eq!(
        web.next,
        [Target::Node(3), Target::Node(4), Target::Drop],
        "pass, other, late"
    );
    assert_eq!(chain.stage.nodes[4].next, [Target::Out]);
    let flows = &chain.stage.flows;
    assert_eq!(
        (flows.max, flows.when_full, flows.always, flows.inner),
        (1000, WhenFull::Refuse, true, true)
    );
    assert_eq!(
        (flows.zone, flows.icmp, flows.malformed),
        (false, IcmpKey::Addresses, OnMalformed::Pass)
    );
    assert_eq!((flows.buffer_bytes, flows.held_fragments), (1 << 20, 7));
    assert_eq!(
        flows.timeouts,
        Timeouts {
            tcp_established: 7_440_000,
            udp: 90_000,
            other: Timeouts::NEVER,
            reuse: false,
            ..Timeouts::default()
        }
    );
    let ports: Vec<_> = chain
        .ports
        .iter()
        .map(|port| (port.name.as_str(), port.side))
        .collect();
    assert_eq!(ports, [("lan", Side::Inside), ("wan", Side::Outside)]);
    assert_eq!(
        chain.selector.to_string(),
        "protocol tcp with port 80,8000-8100 or prefix 10.0.0.0/8 with protocol udp,47 or vlan \
         10,20"
    );
}

#[test]
fn what_is_left_out_has_defaults() {
    let chain = one("chain: c\nnfs: [monitor, monitor, monitor]\n");
    assert_eq!(names(&chain), ["monitor", "monitor-2", "monitor-3"]);
    assert_eq!(chain.stage.flows, weir_nf::host::FlowOptions::default());
    assert!(chain.selector.takes_all());
    let sides: Vec<_> = chain.ports.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(sides, ["inside", "outside"]);
    assert_eq!(
        one("chain: c\nflows: {timeouts: none}\nnfs: [monitor]\n")
            .stage
            .flows
            .timeouts,
        Timeouts::NONE
    );
    // A name taken by `as` is passed over.
    let chain = one("chain: c\nnfs:\n  - monitor\n  - ip-check:\n    as: monitor\n");
    assert_eq!(names(&chain), ["monitor-2", "monitor"]);
}

#[test]
fn a_link_backwards_without_a_loop_only_moves_entries() {
    let chain = one(
        "chain: c\nnfs:\n  - classify: {ports: [1, 2]}\n    links: {pass: c, other: b}\n  \
         - monitor:\n    as: b\n    links: {pass: out}\n  - monitor:\n    as: c\n    links: \
         {pass: b}\n",
    );
    assert_eq!(names(&chain), ["classify", "c", "b"]);
    assert_eq!(
        chain.stage.nodes[0].next,
        [Target::Node(1), Target::Node(2), Target::Node(2)],
        "pass: c, other: b, late: what is written next, b"
    );
    assert_eq!(chain.stage.nodes[1].next, [Target::Node(2)]);
}

#[test]
fn pools_and_warnings_are_collected() {
    let file = read("chain: c\nnfs:\n  - nat: {block: 64}\n  - firewall\n").unwrap();
    let blocks: Vec<u16> = file.chains[0].stage.pools.iter().map(|p| p.block).collect();
    assert_eq!(blocks, [64]);
    let [warning] = file.warnings.as_slice() else {
        panic!("one warning: {:?}", file.warnings);
    };
    assert_eq!(
        (warning.line, warning.column, warning.message.as_str()),
        (4, 5, "firewall: it lets everything pass")
    );
    // Two of one pool would mix up clients.
    let errors = read("chain: c\nnfs:\n  - nat: {block: 64}\n  - nat: {block: 128}\n").unwrap_err();
    assert!(errors[0].message.contains("both have ports"), "{errors:?}");
    assert!(read("chain: c\nnfs:\n  - ids: {rules: good.rules}\n").is_ok());
}

/// Gives no label where nothing is sorted.
struct Sorter(bool);

#[derive(Default, serde::Deserialize, schemars::JsonSchema)]
struct SorterSettings {
    #[serde(default)]
    two: bool,
}

impl NetworkFunction for Sorter {
    type Settings = SorterSettings;
    type State = ();
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        labels: &["one", "two"],
        ..Descriptor::new("sorter", "sorts in two or three")
    };

    fn new(settings: SorterSettings, _: &mut SetUp<'_>) -> Result<Sorter, SettingsError> {
        Ok(Sorter(settings.two))
    }

    fn labels_used(&self) -> u64 {
        1 << 1 | u64::from(self.0) << 2
    }
}

#[test]
fn links_of_labels_that_the_settings_leave_out_are_warned_of() {
    let load = |settings: &str| {
        let text =
            format!("chain: c\nnfs:\n  - sorter: {settings}\n    links: {{one: out, two: drop}}\n");
        let input = Input {
            name: "c.yaml",
            text: &text,
            kinds: &[Kind::of::<Sorter>()],
            overrides: &[],
            seed: 7,
        };
        weir_graph::load(&input, &mut common::Texts(Default::default())).unwrap()
    };
    let one = load("{two: false}");
    let said: Vec<_> = one
        .warnings
        .iter()
        .map(|w| (w.line, w.column, w.message.as_str()))
        .collect();
    assert_eq!(
        said,
        [(
            4,
            23,
            "a label nobody gives: `sorter` has no `two` under its settings"
        )]
    );
    assert!(!one.chains[0].graph.nodes[0].gives(2));
    let two = load("{two: true}");
    assert_eq!(two.warnings, []);
    assert!(two.chains[0].graph.nodes[0].gives(2));
}

#[test]
fn anchors_may_be_used() {
    let file = read(
        "chains:\n  - chain: a\n    match: [{vlan: 1}]\n    flows: &f {max: 5}\n    nfs: \
         [monitor]\n  - chain: b\n    flows: *f\n    nfs: [monitor]\n",
    )
    .unwrap();
    assert_eq!(file.chains[1].stage.flows.max, 5);
    assert_eq!(file.chains[1].stage.number, 1);
}

#[test]
fn overrides_win() {
    let file = load_with(
        FULL,
        &[
            "flows.max=9",
            "firewall-2.default=drop",
            "edge.firewall.rules[0].source=10.9.9.9",
        ],
    )
    .unwrap();
    assert_eq!(file.chains[0].stage.flows.max, 9);
    assert_eq!(file.warnings, [], "the second firewall drops now");
    let bad = load_with(FULL, &["firewall.rules[0].source=everywhere"]).unwrap_err();
    let bad = bad.iter().find(|d| d.severity == Severity::Error).unwrap();
    assert_eq!(
        bad.to_string(),
        "--set firewall.rules[0].source: error: firewall.rules[0].source: that is no address\n \
         1 | firewall.rules[0].source=everywhere\n   |                          ^^^^^^^^^^\n   \
         = help: write one like `10.0.0.1`"
    );
}

#[test]
fn described_for_people_and_machines() {
    let described = describe(&one(FULL));
    let text = described.to_string();
    for part in [
        "chain edge\n",
        "lan (inside), wan (outside)",
        "at most 1000, then refuse; kept together per flow",
        "udp 1m30s",
        "pass → firewall-2, other → count, late → drop",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let json = serde_json::to_value(&described).unwrap();
    assert_eq!(json["functions"][2]["links"][1]["to"], "count");
    assert_eq!(json["flows"]["when-full"], "refuse");
    assert_eq!(json["unit"], "flow");

    let wide = describe(&one("chain: c\nnfs: [monitor, whitelist]\n"));
    assert_eq!(wide.unit.as_deref(), Some("client-address"));
    // A setting may make a scope finer; then it gets along with others.
    let fine = "chain: c\nnfs: [whitelist, balancer: {per-connection: true}]\n";
    let fine = describe(&one(fine));
    assert_eq!(fine.unit.as_deref(), Some("client-address"));
    assert_eq!(fine.functions[1].scope.as_deref(), Some("flow"));
    let none = describe(&one("chain: c\nnfs: [ip-check]\n"));
    assert_eq!((none.unit, none.flows, none.needs), (None, None, "network"));
}

/// Texts made of what chain files are made of, so that many get far.
fn nearly() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "chain: a\n",
        "nfs:\n",
        "chains:\n",
        "  - ",
        "- ",
        "firewall",
        "monitor",
        "classify",
        ":",
        ": ",
        "\n",
        "  ",
        "    ",
        "{",
        "}",
        "[",
        "]",
        ",",
        "links: ",
        "pass: out\n",
        "as: x\n",
        "match:\n",
        "flows:\n",
        "ports:\n",
        "max: 5\n",
        "timeouts: none\n",
        "rules:",
        "&a ",
        "*a",
        "!!str ",
        "|\n",
        ">",
        "\"",
        "'",
        "#",
        "---\n",
        "\t",
        "\r",
        "é",
        "\u{feff}",
        "<<: ",
        "? ",
        "vlan: 5",
        "port: 80-90",
        "prefix: ::/0",
        "protocol: 6",
        "default: drop",
        "012",
        "no",
        "~",
    ]);
    prop::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat())
}

fn check(result: Result<ChainFile, Vec<weir_graph::Diagnostic>>, text: &str) {
    match result {
        Ok(file) => {
            for chain in &file.chains {
                assert!(!chain.stage.nodes.is_empty());
                for (number, node) in chain.stage.nodes.iter().enumerate() {
                    for target in &node.next {
                        if let Target::Node(other) = target {
                            assert!(*other > number && *other < chain.stage.nodes.len());
                        }
                    }
                }
                let _ = describe(chain).to_string();
            }
        }
        Err(list) => {
            assert!(!list.is_empty(), "an error says what is wrong");
            let lines = text.split(['\n', '\r']).count();
            for diagnostic in &list {
                assert!(diagnostic.line >= 1 && diagnostic.line <= lines);
                assert!(diagnostic.column >= 1 && diagnostic.length >= 1);
                assert!(!diagnostic.message.is_empty());
            }
            assert!(!weir_graph::render(&list).is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None,
        ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics(text in any::<String>()) {
        check(read(&text), &text);
    }

    #[test]
    fn no_text_that_looks_like_a_chain_panics(text in nearly()) {
        check(read(&text), &text);
    }

    #[test]
    fn no_damage_to_a_chain_file_panics(
        at in 0..FULL.len(), cut in 0..40usize, put in "[ -~\n]{0,6}"
    ) {
        let mut text = FULL.to_owned();
        text.replace_range(at..(at + cut).min(FULL.len()), &put);
        check(read(&text), &text);
    }

    #[test]
    fn no_override_panics(path in "[a-z0-9.\\[\\]]{1,20}", value in any::<String>()) {
        let set = format!("{path}={value}");
        // The place of an override's error is in its own text.
        check(load_with(FULL, &[&set]), &format!("{FULL}{set}"));
        let set = format!("firewall.{path}={value}");
        check(load_with(FULL, &[&set]), &format!("{FULL}{set}"));
    }
}

#[test]
fn kinds_of_these_tests_have_names_of_their_own() {
    let mut names: Vec<_> = KINDS.iter().map(|kind| kind.descriptor.name).collect();
    names.dedup();
    assert_eq!(names.len(), KINDS.len());
}
