//! Templates: what becomes of an entry that names one, and what is wrong with
//! templates and their settings, by file, line and column.

mod common;

use std::collections::BTreeMap;

use common::{KINDS, Texts};
use weir_graph::{
    ChainFile, Diagnostic, Input, Override, Severity, Templates, describe, load_with,
};
use weir_nf::host::Target;

/// A template with all there is.
const GUARD: &str = "\
template: guard
summary: looks twice
settings:
  ports: {type: list, items: integer, default: [80, 443]}
  from: {type: text}
  default: {values: [accept, drop], default: drop}
  rules: {type: list}
  check: {type: boolean, default: true}
  mode: {values: [fast, slow], default: fast}
labels:
  rest: What is not of the ports.
processors:
  - ip-check:
    when: $check
  - classify: {ports: $ports}
    links: {other: exit rest, late: drop}
  - firewall:
      default: $default
      rules:
        - {action: accept, source: $from}
        - $rules...
    as: wall
    when: {mode: [fast, other]}
  - monitor: {rate: 1.5}
";

/// [`GUARD`] without the value that its `mode` can't have.
fn guard() -> String {
    GUARD.replace("[fast, other]", "fast")
}

fn load(chain: &str, templates: &[&str], sets: &[&str]) -> Result<ChainFile, Vec<Diagnostic>> {
    let mut all = Templates::none();
    for (number, text) in (1..).zip(templates) {
        all.add(format!("t{number}.yaml"), *text);
    }
    let overrides: Vec<Override> = sets.iter().map(|set| set.parse().unwrap()).collect();
    let input = Input {
        name: "edge.yaml",
        text: chain,
        kinds: KINDS,
        overrides: &overrides,
        seed: 7,
    };
    load_with(&input, &all, &mut Texts(BTreeMap::new()))
}

#[track_caller]
fn good(chain: &str, templates: &[&str], sets: &[&str]) -> ChainFile {
    match load(chain, templates, sets) {
        Ok(file) => file,
        Err(list) => panic!("{}", weir_graph::render(&list)),
    }
}

fn brief(diagnostic: &Diagnostic) -> String {
    let Diagnostic {
        file, line, column, ..
    } = diagnostic;
    let mut out = format!("{file}:{line}:{column} {}", diagnostic.message);
    if let Some(help) = &diagnostic.help {
        out.push_str(" | ");
        out.push_str(help);
    }
    out
}

#[track_caller]
fn bad(chain: &str, templates: &[&str], sets: &[&str], expected: &[&str]) {
    let found: Vec<String> = match load(chain, templates, sets) {
        Ok(_) => vec!["nothing".to_owned()],
        Err(list) => list
            .iter()
            .filter(|d| d.severity == Severity::Error)
            .map(brief)
            .collect(),
    };
    assert_eq!(found, expected, "\n{chain}\n{}", templates.join("\n---\n"));
}

/// `NAME KIND SETTINGS LABEL>TARGET` of each processor, with all its links.
fn graph(file: &ChainFile) -> Vec<String> {
    let chain = &file.chains[0];
    let names = |target: &Target| match target {
        Target::Node(at) => chain.graph.nodes[*at].name.clone(),
        Target::Out => "out".to_owned(),
        Target::Drop => "drop".to_owned(),
        Target::Later(_) => panic!("no later stage"),
    };
    let nodes = &chain.graph.nodes;
    assert_eq!(nodes.len(), chain.stage.nodes.len());
    nodes
        .iter()
        .zip(&chain.stage.nodes)
        .map(|(node, of_stage)| {
            assert_eq!((&node.name, &node.next), (&of_stage.name, &of_stage.next));
            assert_eq!(node.same_as, None);
            let links = node.labels.iter().zip(&node.next);
            let links: Vec<String> = links
                .map(|(label, to)| format!("{label}>{}", names(to)))
                .collect();
            format!(
                "{} {} {} {}",
                node.name,
                node.kind,
                node.settings,
                links.join(" ")
            )
        })
        .collect()
}

#[test]
fn an_entry_becomes_its_processors() {
    let file = good(
        "chain: edge\nnfs:\n  - guard:\n      from: 10.0.0.1\n    as: a\n    links: {rest: tail}\n  - whitelist\n  - monitor:\n    as: tail\n",
        &[&guard()],
        &[],
    );
    assert_eq!(
        graph(&file),
        [
            "a/ip-check ip-check  pass>a/classify",
            "a/classify classify {\"ports\":[80,443]} pass>a/wall other>tail late>drop",
            "a/wall firewall {\"default\":\"drop\",\"rules\":[{\"action\":\"accept\",\"source\":\"10.0.0.1\"}]} pass>a/monitor",
            "a/monitor monitor {\"rate\":1.5} pass>whitelist",
            "whitelist whitelist  pass>tail",
            "tail monitor  pass>out",
        ]
    );
    let chain = &file.chains[0];
    let [instance] = chain.instances.as_slice() else {
        panic!("one instance");
    };
    assert_eq!(
        (instance.name.as_str(), instance.template.as_str()),
        ("a", "guard")
    );
    assert_eq!(instance.processors.len(), 4);
    assert!(instance.left_out.is_empty());
    assert!(chain.graph.nodes[..4].iter().all(|n| n.instance == "a"));
    assert_eq!(chain.graph.nodes[4].instance, "whitelist");
    let text = describe(chain).to_string();
    assert!(
        text.contains("a (guard) is a/ip-check, a/classify, a/wall, a/monitor\n"),
        "{text}"
    );
}

#[test]
fn settings_leave_processors_and_values_out() {
    // Without `from` its rule goes; with null for the ports the setting goes, and
    // then there is nothing left of `classify`'s settings, which it needs.
    let file = good(
        "chain: edge\nnfs:\n  - guard:\n      check: false\n      rules: [{action: drop}, {action: {rate-limit: 3}}]\n",
        &[&guard()],
        &[],
    );
    assert_eq!(
        graph(&file),
        [
            "guard/classify classify {\"ports\":[80,443]} pass>guard/wall other>out late>drop",
            "guard/wall firewall {\"default\":\"drop\",\"rules\":[{\"action\":\"accept\"},{\"action\":\"drop\"},{\"action\":{\"rate-limit\":3}}]} pass>guard/monitor",
            "guard/monitor monitor {\"rate\":1.5} pass>out",
        ]
    );
    assert_eq!(file.chains[0].instances[0].left_out, ["guard/ip-check"]);
    let file = good(
        "chain: edge\nnfs: [guard]\n",
        &[&guard()],
        &["guard.mode=slow"],
    );
    assert_eq!(
        file.chains[0].instances[0].processors,
        ["guard/ip-check", "guard/classify", "guard/monitor"]
    );
    assert_eq!(file.chains[0].instances[0].left_out, ["guard/wall"]);
}

#[test]
fn what_only_a_left_out_processor_leads_to_is_left_out() {
    let split = "template: split\nsettings:\n  sort: {type: boolean, default: true}\nprocessors:\n  - classify: {ports: [1, 2]}\n    when: $sort\n    links: {pass: exit pass, late: exit pass}\n  - monitor\n";
    let file = good(
        "chain: edge\nnfs: [ip-check, split, whitelist]\n",
        &[split],
        &[],
    );
    assert_eq!(file.chains[0].stage.nodes.len(), 4);
    let chain = "chain: edge\nnfs: [ip-check, split, whitelist]\n";
    bad(
        chain,
        &[split],
        &["split.sort=false"],
        &[
            "edge.yaml:2:17 nothing is left of `split` with these settings: each of its processors \
           is left out | `weir nf show split` says which settings leave them out",
        ],
    );
    // A chain's entry that only such a label leads to.
    let label = "template: label\nsettings:\n  sort: {type: boolean, default: true}\nlabels: {rest: }\nprocessors:\n  - classify: {ports: [1, 2]}\n    when: $sort\n    links: {other: exit rest}\n  - monitor\n";
    let chain =
        "chain: edge\nnfs:\n  - label:\n    links: {pass: out, rest: whitelist}\n  - whitelist\n";
    good(chain, &[label], &[]);
    bad(
        chain,
        &[label],
        &["label.sort=false"],
        &[
            "edge.yaml:5:5 nothing leads to `whitelist`: no packet can reach it | leave it out, or \
           let a link before it lead there; what would lead there may be left out by a template's \
           settings (`weir check` shows it)",
        ],
    );
}

#[test]
fn templates_may_be_made_of_templates() {
    let inner = "template: inner\nsettings:\n  rate: {type: number, required: true}\n  most: {type: number}\nlabels: {odd: odd ones}\nprocessors:\n  - classify: {ports: [1, 2]}\n    links: {other: exit odd}\n  - monitor: {rate: $rate}\n";
    let outer = "template: outer\nsettings:\n  r: {type: number, default: 2}\nprocessors:\n  - ip-check\n  - inner: {rate: $r, most: $nothing}\n    as: in\n    links: {odd: drop}\n  - monitor\n"
        .replace("settings:\n", "settings:\n  nothing: {type: number}\n");
    let file = good(
        "chain: edge\nnfs: [outer]\n",
        &[&outer, inner],
        &["outer.r=7"],
    );
    assert_eq!(
        graph(&file),
        [
            "outer/ip-check ip-check  pass>outer/in/classify",
            "outer/in/classify classify {\"ports\":[1,2]} pass>outer/in/monitor other>drop late>outer/in/monitor",
            "outer/in/monitor monitor {\"rate\":7} pass>outer/monitor",
            "outer/monitor monitor  pass>out",
        ]
    );
    bad(
        "chain: edge\nnfs: [outer]\n",
        &[&outer, inner],
        &["outer.r=null"],
        &[
            "t1.yaml:7:5 `outer/in` needs the setting `rate`: number | write `inner: {rate: ...}` \
           (read for `outer/in`, which edge.yaml:2 asks for)",
        ],
    );
}

#[test]
fn texts_that_are_wrong_are_told_at_the_value_in_them() {
    let text = "template: t\nsettings:\n  a: {type: list}\n  b: {type: text}\nprocessors:\n  - firewall:\n      rules: [{action: accept, source: \"$a-$b\"}]\n";
    bad(
        "chain: edge\nnfs:\n  - t: {a: [x, 2], b: c}\n",
        &[text],
        &[],
        &[
            "edge.yaml:3:23 t/firewall.rules[0].source: that is no address | write one like \
             `10.0.0.1`",
        ],
    );
    bad(
        "chain: edge\nnfs:\n  - t: {a: [[x]], b: c}\n",
        &[text],
        &[],
        &["edge.yaml:3:12 `a` is put into a text: it can't be a list of lists or mappings"],
    );
}

#[test]
fn settings_of_an_instance() {
    let chain = |settings: &str| format!("chain: edge\nnfs:\n  - guard: {settings}\n    as: g\n");
    let template = guard();
    let case = |settings: &str, expected: &[&str]| {
        bad(&chain(settings), &[&template], &[], expected);
    };
    case(
        "{prots: [80]}",
        &["edge.yaml:3:13 unknown key `prots` | did you mean `ports`?"],
    );
    case(
        "[80]",
        &["edge.yaml:3:12 expected a mapping of settings, found a list"],
    );
    case(
        "{ports: 80, check: 1, from: [a], default: maybe}",
        &[
            "edge.yaml:3:20 expected a list, found `80`",
            "edge.yaml:3:31 expected `true` or `false`, found `1`",
            "edge.yaml:3:40 expected text, found a list",
            "edge.yaml:3:54 `maybe` is not one of the values of `default` | values: `accept`, `drop`",
        ],
    );
    case(
        "{ports: [80, x]}",
        &["edge.yaml:3:25 expected a whole number, found `x`"],
    );
    // What only the processor knows to be wrong, where it stands in the chain.
    case(
        "{ports: [80, 70000]}",
        &["edge.yaml:3:25 expected a whole number from 0 to 65535, found `70000`"],
    );
    case(
        "{from: nowhere}",
        &["edge.yaml:3:19 g/wall.rules[0].source: that is no address | write one like `10.0.0.1`"],
    );
    case(
        "{rules: [{action: dorp}]}",
        &["edge.yaml:3:30 `dorp` is not one of the values here | did you mean `drop`?"],
    );
    case(
        "{ports: [80]}",
        &["edge.yaml:3:20 expected a list of 2, found 1 entries"],
    );
    bad(
        "chain: edge\nnfs: [guard]\n",
        &[&template],
        &["guard.ports=[1]"],
        &["--set guard.ports:1:13 expected a list of 2, found 1 entries"],
    );
    bad(
        "chain: edge\nnfs: [guard]\n",
        &[&template],
        &["guard.wall=3", "gaurd.check=true"],
        &[
            "--set guard.wall:1:7 unknown key `wall` | keys here: `ports`, `from`, `default`, \
             `rules`, `check`, `mode`",
            "--set gaurd.check:1:1 there is no instance `gaurd` in the chain | did you mean \
             `guard`?",
        ],
    );
}

#[test]
fn required_settings() {
    let template = "template: need\nsettings:\n  address:\n    type: text\n    required: true\n    description: Where it is.\nprocessors:\n  - firewall: {rules: [{action: accept, source: $address}]}\n";
    let missing = "`need` needs the setting `address`: text (Where it is.) | write `need: \
                   {address: ...}`";
    bad(
        "chain: edge\nnfs:\n  - need\n",
        &[template],
        &[],
        &[&format!("edge.yaml:3:5 {missing}")],
    );
    bad(
        "chain: edge\nnfs:\n  - need: {address: null}\n",
        &[template],
        &[],
        &[&format!("edge.yaml:3:12 {missing}")],
    );
    good(
        "chain: edge\nnfs: [need]\n",
        &[template],
        &["need.address=10.0.0.1"],
    );
}

#[test]
fn errors_in_a_template_say_for_whom_it_was_read() {
    let template = "template: wrong\nprocessors:\n  - firewall: {rules: [{action: accept, source: here}], log-drops: 3}\n";
    bad(
        "chain: edge\nnfs:\n  - monitor\n  - wrong:\n    as: w\n",
        &[template],
        &[],
        &[
            "t1.yaml:3:68 expected `true` or `false`, found `3` | read for `w/firewall`, which \
             edge.yaml:4 asks for",
        ],
    );
    bad(
        "chain: edge\nnfs: [wrong]\n",
        &[&template.replace(", log-drops: 3", "")],
        &[],
        &[
            "t1.yaml:3:49 wrong/firewall.rules[0].source: that is no address | write one like \
             `10.0.0.1` (read for `wrong/firewall`, which edge.yaml:2 asks for)",
        ],
    );
}

#[test]
fn links_of_a_template() {
    let chain = "chain: edge\nnfs: [monitor]\n";
    let case = |processors: &str, expected: &[&str]| {
        let text = format!("template: t\nprocessors:\n{processors}");
        bad(chain, &[&text], &[], expected);
    };
    case(
        "  - montior\n",
        &[
            "t1.yaml:3:5 there is no function `montior` | did you mean `monitor`? `weir nf list` shows all",
        ],
    );
    case(
        "  - classify:\n    links: {othr: drop}\n",
        &[
            "t1.yaml:4:13 `classify` has no label `othr` | did you mean `other`? its labels: `pass`, `other`, `late`",
        ],
    );
    case(
        "  - classify:\n    links: {other: montor}\n  - monitor\n",
        &["t1.yaml:4:20 there is no instance `montor` in this template | did you mean `monitor`?"],
    );
    case(
        "  - classify:\n    links: {other: out}\n  - monitor\n",
        &[
            "t1.yaml:4:20 there is no instance `out` in this template | a template is left by `exit pass`, or by `exit LABEL` with one of its `labels`",
        ],
    );
    case(
        "  - classify:\n    links: {other: exit rest}\n  - monitor\n",
        &[
            "t1.yaml:4:20 this template declares no label `rest` | write `rest: MEANING` under `labels:`",
        ],
    );
    case(
        "  - monitor:\n    links: {pass: ip-check}\n  - firewall:\n    links: {pass: monitor}\n  - ip-check:\n    links: {pass: firewall}\n",
        &[
            "t1.yaml:6:19 a loop: `monitor` → `ip-check` → `firewall` → `monitor` | a link leads to a later processor, `exit LABEL` or `drop`",
            "t1.yaml:8:19 a loop: `firewall` → `monitor` → `ip-check` → `firewall` | a link leads to a later processor, `exit LABEL` or `drop`",
        ],
    );
    case(
        "  - monitor:\n    links: {pass: exit pass}\n  - ip-check\n",
        &[
            "t1.yaml:5:5 nothing leads to `ip-check`: no packet can reach it | leave it out, or let a link before it lead there",
        ],
    );
    case(
        "  - monitor:\n    as: a\n  - ip-check:\n    as: a\n",
        &["t1.yaml:6:9 the instance `a` is here twice | give each entry a name of its own"],
    );
    case(
        "  - monitor:\n    link: {pass: drop}\n",
        &[
            "t1.yaml:4:5 unknown key `link` beside the function `monitor` | settings are indented under `monitor:`; beside it are `as`, `links` and `when`; another function begins with `- `",
        ],
    );
    bad(
        chain,
        &["template: t\nlabels:\n  rest: the rest\nprocessors: [monitor]\n"],
        &[],
        &[
            "t1.yaml:3:3 nothing leaves by the label `rest` | let a link of a processor lead to `exit rest`, or leave the label out",
        ],
    );
    // A chain's links to a template's labels.
    let guard = guard();
    bad(
        "chain: edge\nnfs:\n  - guard:\n    links: {rst: drop}\n",
        &[&guard],
        &[],
        &[
            "edge.yaml:4:13 `guard` has no label `rst` | did you mean `rest`? its labels: `pass`, `rest`",
        ],
    );
    bad(
        "chain: edge\nnfs:\n  - guard:\n    links: {rest: monitor}\n  - whitelist:\n    links: {pass: guard}\n  - monitor\n",
        &[&guard],
        &[],
        &[
            "edge.yaml:6:19 a loop: `guard` → `whitelist` → `guard` | a link leads to a later entry, `out` or `drop`",
        ],
    );
}

#[test]
fn what_a_template_is_made_of() {
    let chain = "chain: edge\nnfs: [monitor]\n";
    let case = |text: &str, expected: &[&str]| bad(chain, &[text], &[], expected);
    case(
        "",
        &[
            "t1.yaml:1:1 there is no template in this file | write `template: NAME`, and its processors in a list under `processors:`",
        ],
    );
    case(
        "- a\n",
        &[
            "t1.yaml:1:1 expected a template: a mapping with `template` and `processors`, found a list",
        ],
    );
    case(
        "processors: [monitor]\n",
        &[
            "t1.yaml:1:1 the key `template` is missing | name the template: `template: application-firewall`",
        ],
    );
    case(
        "template: t\n",
        &[
            "t1.yaml:1:1 the key `processors` is missing | list what the template is made of under `processors:`",
        ],
    );
    case(
        "template: t\nprocessors: []\n",
        &[
            "t1.yaml:2:13 expected a list of processors, one at least, found an empty list | begin each with a dash: `- ip-check`, or `- NAME: {settings}`",
        ],
    );
    case(
        "template: t\nprocesors: [monitor]\nprocessors: [monitor]\n",
        &["t1.yaml:2:1 unknown key `procesors` | did you mean `processors`?"],
    );
    case(
        "template: monitor\nprocessors: [ip-check]\n",
        &["t1.yaml:1:11 `monitor` is the name of a function | give the template another name"],
    );
    bad(
        chain,
        &[
            "template: t\nprocessors: [ip-check]\n",
            "template: t\nprocessors: [monitor]\n",
        ],
        &[],
        &[
            "t2.yaml:1:11 the template `t` is here twice | the first one is at t1.yaml:1: give each a name of its own",
        ],
    );
    case(
        "template: t\nlabels: {pass: all}\nprocessors: [monitor]\n",
        &[
            "t1.yaml:2:10 the label `pass` is there without a word | leave it out: `exit pass` leads to it",
        ],
    );
    case(
        "template: t\nsettings:\n  a: {}\n  b: {type: txt}\n  c: {type: list, items: integer, default: [1, x]}\n  d: {type: text, default: [a]}\n  e: {type: text, required: true, default: a}\n  f: {type: text, items: text}\n  g: {values: [a, b], default: c}\n  h: {type: text, defalt: x}\n  i j: {type: text}\nprocessors: [monitor]\n",
        &[
            "t1.yaml:3:3 the key `type` of the setting `a` is missing | types: `text`, `integer`, `number`, `boolean`, `list`, `mapping`, `any`",
            "t1.yaml:4:13 `txt` is not one of the values here | did you mean `text`?",
            "t1.yaml:5:48 expected a whole number, found `x`",
            "t1.yaml:6:28 expected text, found a list",
            "t1.yaml:7:44 a default of the setting `e`, which is required | leave out one of both",
            "t1.yaml:8:26 `items` of the setting `f`, which is no list | leave it out, or write `type: list`",
            "t1.yaml:9:32 `c` is not one of the values of `g` | values: `a`, `b`",
            "t1.yaml:10:19 unknown key `defalt` | did you mean `default`?",
            "t1.yaml:11:3 `i j` can't be the name of a setting | names have letters, digits, `-` and `_`, start with a letter or digit, and are at most 64 long",
        ],
    );
}

#[test]
fn a_template_that_can_not_be_read_is_told_once() {
    bad(
        "chain: edge\nnfs: [mine, monitor]\n",
        &["template: mine\nprocessors: [monitor\n"],
        &[],
        &["t1.yaml:2:13 not YAML: unclosed bracket '['"],
    );
}

#[test]
fn references_and_conditions() {
    let chain = "chain: edge\nnfs: [monitor]\n";
    let case = |processor: &str, expected: &[&str]| {
        let text = format!(
            "template: t\nsettings:\n  rate: {{type: number}}\n  mode: {{values: [a, b]}}\nprocessors:\n{processor}"
        );
        bad(chain, &[&text], &[], expected);
    };
    case(
        "  - monitor: {rate: $rat}\n",
        &["t1.yaml:6:21 this template has no setting `rat` | did you mean `rate`?"],
    );
    case(
        "  - monitor: {rate: 1$}\n",
        &[
            "t1.yaml:6:21 `$` without the name of a setting behind it | write `$$` for a dollar sign",
        ],
    );
    case(
        "  - monitor: {rate: \"${rate\"}\n",
        &["t1.yaml:6:21 `${` without `}` | write `$$` for a dollar sign"],
    );
    case(
        "  - monitor: {rate: $rate...}\n",
        &[
            "t1.yaml:6:21 `$rate...` stands for the entries of a list, but here is no list | write `$rate`, or `[$rate...]`",
        ],
    );
    case(
        "  - monitor: {rate: [$rate...]}\n",
        &[
            "t1.yaml:6:22 `$rate...` stands for the entries of a list, but `rate` is of the type `number` | write `$rate`, or make the setting one of `type: list`",
        ],
    );
    case(
        "  - monitor:\n    when: rate\n",
        &[
            "t1.yaml:7:11 expected a condition, found `rate` | write `when: $setting`, or `when: {setting: VALUE}`",
        ],
    );
    case(
        "  - monitor:\n    when: {mod: a}\n",
        &["t1.yaml:7:12 this template has no setting `mod` | did you mean `mode`?"],
    );
    case(
        "  - monitor:\n    when: {mode: c}\n",
        &["t1.yaml:7:18 `c` is not one of the values of `mode` | values: `a`, `b`"],
    );
    // The same in a chain: `when` is a template's.
    bad(
        "chain: edge\nnfs:\n  - monitor:\n    when: $a\n",
        &[],
        &[],
        &[
            "edge.yaml:4:5 unknown key `when` beside the function `monitor` | settings are indented under `monitor:`; beside it are `as` and `links`; another function begins with `- `",
        ],
    );
}

#[test]
fn a_template_that_contains_itself() {
    let chain = "chain: edge\nnfs: [a]\n";
    let help = "a template is made of functions and of other templates";
    bad(
        chain,
        &["template: a\nprocessors: [monitor, a]\n"],
        &[],
        &[&format!(
            "t1.yaml:2:23 the template `a` contains itself: `a` → `a` | {help}"
        )],
    );
    bad(
        chain,
        &[
            "template: a\nprocessors: [monitor, b]\n",
            "template: b\nprocessors:\n  - c\n",
            "template: c\nprocessors: [a]\n",
        ],
        &[],
        &[&format!(
            "t3.yaml:2:14 the template `a` contains itself: `a` → `b` → `c` → `a` | {help}"
        )],
    );
}

/// Templates t0 to t`most`, each `each` times the one before it.
fn tower(most: usize, each: usize) -> Vec<String> {
    let mut all = vec!["template: t0\nprocessors: [monitor]\n".to_owned()];
    for level in 1..=most {
        let inner = vec![format!("t{}", level - 1); each].join(", ");
        all.push(format!("template: t{level}\nprocessors: [{inner}]\n"));
    }
    all
}

#[test]
fn hostile_templates_are_bounded() {
    let load_tower = |most: usize, each: usize| {
        let all = tower(most, each);
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let chain = format!("chain: edge\nnfs:\n  - monitor\n  - t{most}\n");
        load(&chain, &all, &[]).map(|file| file.chains[0].stage.nodes.len())
    };
    assert_eq!(load_tower(5, 2), Ok(33));
    assert_eq!(load_tower(7, 1), Ok(2));
    let briefs = |result: Result<usize, Vec<Diagnostic>>| -> Vec<String> {
        result.unwrap_err().iter().map(brief).collect()
    };
    let many = "edge.yaml:4:5 templates make more than 64 processors of this chain: it has at most \
                64 | split it into several chains";
    assert_eq!(briefs(load_tower(6, 2)), [many]);
    assert_eq!(briefs(load_tower(7, 64)), [many]);
    let deep = "edge.yaml:4:5 `t8` has templates inside one another more than 8 deep | use fewer \
                levels";
    assert_eq!(briefs(load_tower(8, 1)), [deep]);
    assert_eq!(briefs(load_tower(8, 64)), [deep]);
    assert_eq!(briefs(load_tower(250, 64)).len(), 1);

    // A setting that is put in many times.
    let text = "x".repeat(100_000);
    let uses = "$a ".repeat(100_000);
    let bomb = format!(
        "template: bomb\nsettings:\n  a: {{type: text, default: {text}}}\nprocessors:\n  - firewall: {{rules: [{{action: accept, source: \"{uses}\"}}]}}\n"
    );
    bad(
        "chain: edge\nnfs: [bomb]\n",
        &[&bomb],
        &[],
        &[
            "edge.yaml:2:7 templates make more than 4194304 octets of settings (at `bomb/firewall`) | use shorter values",
        ],
    );
    // Nesting that neither the chain nor the template has alone.
    let nested =
        |levels: usize, inner: &str| format!("{}{inner}{}", "[".repeat(levels), "]".repeat(levels));
    let deep = format!(
        "template: deep\nsettings:\n  a: {{type: any}}\nprocessors:\n  - firewall: {{rules: {}}}\n",
        nested(50, "$a")
    );
    bad(
        &format!("chain: edge\nnfs:\n  - deep: {{a: {}}}\n", nested(50, "1")),
        &[&deep],
        &[],
        &["edge.yaml:3:5 the settings of `deep/firewall` have more than 64 levels of nesting"],
    );
    let many = format!(
        "template: many\nprocessors:\n{}",
        "  - monitor\n".repeat(65)
    );
    bad(
        "chain: edge\nnfs: [monitor]\n",
        &[&many],
        &[],
        &[
            "t1.yaml:67:5 65 processors: a template has at most 64 | split it into several templates",
        ],
    );
}

#[test]
fn a_chain_of_templates_counts_its_processors() {
    let four = "template: four\nprocessors: [ip-check, monitor, monitor, monitor]\n";
    let chain = |times: usize| format!("chain: edge\nnfs:\n{}", "  - four\n".repeat(times));
    let file = good(&chain(16), &[four], &[]);
    assert_eq!(file.chains[0].stage.nodes.len(), 64);
    assert_eq!(file.chains[0].stage.nodes[63].name, "four-16/monitor-3");
    bad(
        &chain(17),
        &[four],
        &[],
        &[
            "edge.yaml:19:5 templates make more than 64 processors of this chain: it has at most 64 | split it into several chains",
        ],
    );
}

#[test]
fn scopes_are_told_at_the_chain() {
    let whitelist = "template: w\nprocessors: [ip-check, whitelist]\n";
    bad(
        "chain: edge\nnfs:\n  - balancer\n  - w\n",
        &[whitelist],
        &[],
        &[
            "edge.yaml:4:5 `w/whitelist` keeps its state per client-address, `balancer` per server-address: neither contains the other, so they can't be in one chain | put them in two chains, one behind the other, or leave one out",
        ],
    );
}
