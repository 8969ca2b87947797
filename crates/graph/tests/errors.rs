//! What is wrong with a chain file: each case is the file and everything that
//! must be said about it, by line and column.

mod common;

use common::{load_with, read};
use weir_graph::{Diagnostic, Severity};

/// `LINE:COLUMN MESSAGE`, with the help after ` | `.
fn brief(diagnostic: &Diagnostic) -> String {
    let mut out = format!(
        "{}:{} {}",
        diagnostic.line, diagnostic.column, diagnostic.message
    );
    if diagnostic.file != "edge.yaml" {
        out = format!("[{}] {out}", diagnostic.file);
    }
    if let Some(help) = &diagnostic.help {
        out.push_str(" | ");
        out.push_str(help);
    }
    out
}

fn errors(result: Result<weir_graph::ChainFile, Vec<Diagnostic>>) -> Vec<String> {
    match result {
        Ok(_) => vec!["nothing".to_owned()],
        Err(list) => list
            .iter()
            .filter(|d| d.severity == Severity::Error)
            .map(brief)
            .collect(),
    }
}

#[track_caller]
fn case(text: &str, expected: &[&str]) {
    assert_eq!(errors(read(text)), expected, "\n{text}");
}

/// A chain whose `nfs` are these lines; they begin in line 3.
#[track_caller]
fn nfs(lines: &str, expected: &[&str]) {
    case(&format!("chain: edge\nnfs:\n{lines}"), expected);
}

/// A chain with one more key; its value begins in line 3.
#[track_caller]
fn with(key: &str, expected: &[&str]) {
    case(&format!("chain: edge\nnfs: [monitor]\n{key}"), expected);
}

#[test]
fn files_without_a_chain() {
    let empty = "1:1 there is no chain in this file | write `chain: NAME`, and its functions in \
                 a list under `nfs:`";
    case("", &[empty]);
    case("# nothing yet\n", &[empty]);
    case("---\n...\n", &[empty]);
    case("null\n", &[empty]);
    case(
        "just text\n",
        &["1:1 expected a mapping with `chain` and `nfs`, found `just text`"],
    );
    case(
        "- a\n",
        &["1:1 expected a mapping with `chain` and `nfs`, found a list"],
    );
    case(
        "nfs: [monitor]\n",
        &["1:1 the key `chain` is missing | name the chain: `chain: edge`"],
    );
    case(
        "chain: edge\n",
        &["1:1 the key `nfs` is missing | list the functions of the chain under `nfs:`"],
    );
    case(
        "chain: edge\nnfs:\n",
        &[
            "2:1 expected a list of functions, one at least, found nothing | begin each with a dash: `- ip-check`, or `- NAME: {settings}`",
        ],
    );
    case(
        "chain: edge\nnfs: []\n",
        &[
            "2:6 expected a list of functions, one at least, found an empty list | begin each with a dash: `- ip-check`, or `- NAME: {settings}`",
        ],
    );
    case(
        "chains: []\n",
        &["1:9 expected a list of chains, found an empty list"],
    );
    case(
        "chain: a b\nnfs: [monitor]\n",
        &[
            "1:8 `a b` can't be the name of a chain | names have letters, digits, `-` and `_`, \
           start with a letter or digit, and are at most 64 long",
        ],
    );
}

#[test]
fn yaml_itself() {
    case(
        "chain: edge\nnfs: [monitor\n",
        &["2:6 not YAML: unclosed bracket '['"],
    );
    case(
        "chain: edge\nnfs:\n\t- monitor\n",
        &[
            "3:1 not YAML: tabs disallowed within this context (block indentation) | indent with spaces, not with tabs",
        ],
    );
    case(
        "chain: \"edge\n",
        &["1:8 not YAML: invalid indentation in multiline quoted scalar | close the quote"],
    );
    case(
        "chain: edge\nnfs: [monitor]\nnfs: [ids]\n",
        &["3:1 the key `nfs` is here twice | the first one is in line 2: keep one"],
    );
    case(
        "chain: edge\nnfs: [monitor]\n---\nchain: b\n",
        &[
            "3:1 a second YAML document starts here | write several chains as a list under `chains:`",
        ],
    );
    nfs(
        "  - firewall: {log-drops: no}\n",
        &[
            "3:27 `no` is a truth value to some YAML readers and text to others | write `false`, or \
           \"no\" in quotes",
        ],
    );
    nfs(
        "  - firewall: {log-drops: On}\n",
        &[
            "3:27 `On` is a truth value to some YAML readers and text to others | write `true`, or \
           \"On\" in quotes",
        ],
    );
    with(
        "flows: {max: 0100}\n",
        &[
            "3:14 `0100` is octal to some YAML readers and decimal to others | write `100`, or \
           \"0100\" in quotes",
        ],
    );
    with(
        "flows: {max: 1_000}\n",
        &[
            "3:14 `1_000` is a number to some YAML readers and text to others | write `1000`, or \
             \"1_000\" in quotes",
        ],
    );
    with(
        "flows: !big {max: 5}\n",
        &["3:13 the tag `!big` has no meaning here | leave it out"],
    );
    with(
        "flows: {<<: {max: 5}}\n",
        &["3:9 `<<` (merge) is not part of YAML 1.2 | write the keys out"],
    );
    with("flows: {[a]: 5}\n", &["3:9 a key is a word, not a list"]);
    with(
        "flows: *nowhere\n",
        &["3:8 not YAML: while parsing node, found unknown anchor"],
    );
}

#[test]
fn keys() {
    with(
        "macth:\n  - {vlan: 5}\n",
        &["3:1 unknown key `macth` | did you mean `match`?"],
    );
    with(
        "colour: red\n",
        &[
            "3:1 unknown key `colour` | keys here: `chain`, `ports`, `match`, `tenant`, `flows`, `plan`, `nfs`, \
           `network`, `threads`, `placement`, `sets`, `chains`",
        ],
    );
    with(
        "flows: {mx: 5}\n",
        &["3:9 unknown key `mx` | did you mean `max`?"],
    );
    case(
        "chains:\n  - chain: a\n    nfs: [monitor]\nnfs: [monitor]\n",
        &[
            "4:1 unknown key `nfs` | keys here: `chains`, `ports`, `network`, `threads`, `placement`, `sets`",
        ],
    );
}

#[test]
fn flows() {
    let long = "flows:\n  max: 0\n  when-full: evcit\n  timeouts: {udp: 5, tcp: 1m, icmp: 5x, \
                other: 0s, reuse: 1}\n  inner: 1\n  icmp: [a]\n  track:\n  buffers: 64mib\n  \
                held-fragments: -1\n";
    with(
        long,
        &[
            "4:8 expected a whole number from 1 to 268435456, found `0`",
            "5:14 `evcit` is not one of the values here | did you mean `evict`?",
            "6:19 `5` has no unit: write `5s` for seconds, or one like `5m`, `2h4m`",
            "6:22 unknown key `tcp` | keys here: `tcp-opening`, `tcp-established`, `tcp-closing`, \
             `tcp-closed`, `udp`, `icmp`, `other`, `reuse`",
            "6:37 `5x` is not a duration: write one like `90s`, `5m`, `2h4m`, `500ms` or `never`",
            "6:48 `0s` is no time at all: the least is `1ms`",
            "6:59 expected `true` or `false`, found `1`",
            "7:10 expected `true` or `false`, found `1`",
            "8:9 expected one of `conversation`, `addresses`, found a list",
            "9:3 expected one of `always`, `auto`, found nothing",
            "10:12 `64mib` is not a size: write one like `4096`, `64KiB`, `64MiB` or `1GiB`",
            "11:19 expected a whole number from 0 to 1048576, found `-1`",
        ],
    );
    with(
        "flows: {timeouts: never}\n",
        &["3:19 expected `none` or a mapping like `{udp: 5m}`, found `never`"],
    );
    with(
        "flows: 5\n",
        &["3:8 expected a mapping like `max: 1000000`, found `5`"],
    );
}

#[test]
fn ports() {
    with(
        "ports:\n  - {name: lan, side: inside}\n  - {name: lan, side: outside}\n  - {name: wan}\n  \
         - {name: x, side: left}\n  - {side: inside, speed: 10}\n  - wan\n",
        &[
            "5:12 the port `lan` is here twice | give each port a name of its own",
            "6:5 the key `side` is missing | write `side: inside` or `side: outside`",
            "7:21 `left` is not one of the values here | values: `inside`, `outside`",
            "8:5 the key `name` is missing | write `name: ...`",
            "8:20 unknown key `speed` | keys here: `name`, `side`",
            "9:5 expected a port like `{name: lan, side: inside}`, found `wan`",
        ],
    );
    case(
        "chains:\n  - chain: a\n    match: [{vlan: 1}]\n    ports: [{name: p, side: inside}]\n    \
         nfs: [monitor]\n  - chain: b\n    ports: [{name: p, side: outside}]\n    nfs: [monitor]\n",
        &[
            "7:12 the port `p` is on side outside here and on side inside in the chain `a` | a port \
           has one side in all chains: change one, or rename it",
        ],
    );
}

#[test]
fn selectors() {
    with(
        "match:\n  - {protocol: tpc}\n  - {port: 70000}\n  - {port: [80, 90-80]}\n  \
         - {prefix: 10.1.2.3/8}\n  - {prefix: 10.0.0.0/33}\n  - {prefix: \"2001:db8::1/32\"}\n  \
         - {vlan: 5000}\n  - {protocol: icmp, port: 80}\n  - {}\n  - {prot: tcp}\n  - {port: []}\n",
        &[
            "4:16 there is no protocol `tpc` | did you mean `tcp`?",
            "5:12 expected a port from 0 to 65535, or a range like `10-20`, found `70000`",
            "6:17 the range ends before it starts: `80-90`?",
            "7:14 `10.1.2.3/8` has bits set after its first 8: write `10.0.0.0/8`",
            "8:14 `10.0.0.0/33` is not a prefix: write one like `10.0.0.0/8` or `2001:db8::/32`",
            "9:14 `2001:db8::1/32` has bits set after its first 32: write `2001:db8::/32`",
            "10:12 expected a VLAN id from 0 to 4094, or a range like `10-20`, found `5000`",
            "11:28 only `tcp`, `udp` and `sctp` have ports: this selector can't match | leave \
             `port` out, or name another protocol",
            "12:5 a selector without a key matches everything | name at least one of `protocol`, \
             `port`, `prefix`, `vlan`, or leave `match` out to take all packets",
            "13:6 unknown key `prot` | did you mean `protocol`?",
            "14:12 expected at least one value, found an empty list",
        ],
    );
    with(
        "match: []\n",
        &["3:8 expected a list of selectors like `{protocol: tcp, port: 80}`, found an empty list"],
    );
}

#[test]
fn several_chains() {
    case(
        "chains:\n  - chain: a\n    nfs: [monitor]\n  - chain: b\n    match: [{vlan: 5}]\n    \
         nfs: [monitor]\n",
        &[
            "4:12 no packet can reach the chain `b`: `a` before it takes all packets | give `a` a \
           `match`, or put `a` last",
        ],
    );
    case(
        "chains:\n  - chain: a\n    match: [{vlan: 5}]\n    nfs: [monitor]\n  - chain: a\n    \
         nfs: [monitr]\n",
        &[
            "5:12 the chain `a` is here twice | the first one is at edge.yaml:2: give each a name \
             of its own",
            "6:11 there is no function `monitr` | did you mean `monitor`? `weir nf list` shows all",
        ],
    );
}

#[test]
fn functions() {
    nfs(
        "  - ip-chek\n  - blockchain\n",
        &[
            "3:5 there is no function `ip-chek` | did you mean `ip-check`? `weir nf list` shows all",
            "4:5 there is no function `blockchain` | `weir nf list` shows all",
        ],
    );
    nfs(
        "  - firewall:\n    default: drop\n",
        &[
            "4:5 unknown key `default` beside the function `firewall` | settings are indented under \
           `firewall:`; beside it are `as` and `links`; another function begins with `- `",
        ],
    );
    nfs(
        "  - as: x\n",
        &["3:5 an entry that names no function | write `- NAME`, or `- NAME: {settings}`"],
    );
    nfs(
        "  - [monitor]\n  -\n",
        &[
            "3:5 expected the name of a function, or `NAME: {settings}`, found a list",
            "4:4 expected the name of a function, or `NAME: {settings}`, found nothing",
        ],
    );
    nfs(
        "  - monitor:\n    as: m\n  - monitor:\n    as: m\n  - monitor:\n    as: out\n",
        &[
            "6:9 the instance `m` is here twice | give each entry a name of its own",
            "8:9 an instance can't be called `out`: the word has a meaning here | choose another \
             name",
        ],
    );
    let many = "  - monitor\n".repeat(65);
    nfs(
        &many,
        &["67:5 65 functions: a chain has at most 64 | split it into several chains"],
    );
    nfs(
        "  - whitelist\n  - monitor\n  - balancer\n",
        &[
            "5:5 `balancer` keeps its state per server-address, `whitelist` per client-address: \
           neither contains the other, so they can't be in one chain | put them in two chains, \
           one behind the other, or leave one out",
        ],
    );
}

#[test]
fn settings() {
    nfs(
        "  - firewall:\n      defalt: drop\n  - firewall:\n      default: drp\n  - firewall:\n      \
         rules:\n        - {action: accept, ports: [80, 70000]}\n  - firewall:\n      rules: \
         drop\n  - firewall: 5\n  - firewall:\n      rules: [{action: drop, sorce: a}]\n  \
         - firewall: {log-drops: \"true\"}\n  - firewall: {rules: [{source: 10.0.0.1}]}\n",
        &[
            "4:7 unknown key `defalt` | did you mean `default`?",
            "6:16 `drp` is not one of the values here | did you mean `drop`?",
            "9:40 expected a whole number from 0 to 65535, found `70000`",
            "11:14 expected a list, found `drop`",
            "12:15 expected a mapping of settings, found `5`",
            "14:30 unknown key `sorce` | did you mean `source`?",
            "15:27 expected `true` or `false`, found `true`",
            "16:24 the key `action` is missing",
        ],
    );
    nfs(
        "  - firewall: {default: {rate-limit: x}}\n  - firewall: {default: rate-limit}\n  \
         - firewall: {default: {drop: 5}}\n  - firewall: {default: {}}\n  - firewall: {default: }\n",
        &[
            "3:38 expected a whole number from 0 to 4294967295, found `x`",
            "4:25 `rate-limit` needs a value | write `rate-limit: ...`",
            "5:32 `drop` takes no value",
            "6:25 expected one key of `accept`, `drop`, `rate-limit`, found 0 keys",
            "7:16 expected one of `accept`, `drop`, `rate-limit`, found nothing",
        ],
    );
    nfs(
        "  - classify: {ports: [1, 2, 3]}\n  - classify: {ports: [1]}\n  - classify: {}\n",
        &[
            "3:23 1 too many: expected 2 entries, found 3",
            "4:23 expected a list of 2, found 1 entries",
            "5:5 the key `ports` is missing",
        ],
    );
    // Settings that would let unknown keys pass.
    nfs(
        "  - monitor: {rate: 0.5, burst: 7}\n",
        &["3:26 unknown key `burst`"],
    );
    nfs(
        "  - monitor: {rate: fast}\n",
        &["3:21 expected a number, found `fast`"],
    );
}

#[test]
fn what_functions_say_themselves() {
    nfs(
        "  - firewall:\n      rules:\n        - action: drop\n        - action: drop\n          \
         source: 10.0.0.300\n",
        &["7:19 firewall.rules[1].source: that is no address | write one like `10.0.0.1`"],
    );
    nfs(
        "  - ids\n  - ids: {rules: none.rules}\n  - ids: {rules: bad.rules}\n    as: deep\n",
        &[
            "3:5 ids: it has no rules | write `rules: FILE`",
            "4:18 ids-2.rules: none.rules can't be read: no such file",
            "[bad.rules] 2:11 the keyword `pcre` is not supported | read for `deep` at edge.yaml:5",
        ],
    );
    nfs(
        "  - nat: {block: 63}\n  - nat\n",
        &[
            "3:18 nat.block: a block is a multiple of 64 ports",
            "4:5 nat-2.block: a block is a multiple of 64 ports",
        ],
    );
}

#[test]
fn links() {
    nfs(
        "  - classify: {ports: [1, 2]}\n    links: {othr: out, pass: nowhere, late: moniter}\n  \
         - monitor\n",
        &[
            "4:13 `classify` has no label `othr` | did you mean `other`? its labels: `pass`, \
             `other`, `late`",
            "4:30 there is no instance `nowhere` in this chain | a link leads to: `classify`, \
             `monitor`, `out`, `drop`",
            "4:45 there is no instance `moniter` in this chain | did you mean `monitor`?",
        ],
    );
    nfs(
        "  - monitor:\n    links: {other: out}\n  - monitor:\n    links: {pass: monitor-2}\n",
        &[
            "4:13 `monitor` has no label `other` | its labels: `pass`",
            "6:19 a loop: `monitor-2` leads to itself | a link leads to a later entry, `out` or \
             `drop`",
        ],
    );
    nfs(
        "  - monitor:\n    as: a\n  - monitor:\n    as: b\n  - classify:\n    as: c\n    links: \
         {other: a}\n",
        &["9:20 a loop: `a` → `b` → `c` → `a` | a link leads to a later entry, `out` or `drop`"],
    );
    nfs(
        "  - monitor:\n    links: {pass: out}\n  - ip-check\n  - monitor\n",
        &[
            "5:5 nothing leads to `ip-check`: no packet can reach it | leave it out, or let a \
             link before it lead there",
            "6:5 nothing leads to `monitor-2`: no packet can reach it | leave it out, or let a \
             link before it lead there",
        ],
    );
    nfs(
        "  - monitor:\n    links: [out]\n",
        &[
            "4:12 expected a mapping of labels like `{pass: out}`, found a list | write `links: {LABEL: TARGET}`, or leave it out: packets go on to the next",
        ],
    );
}

#[test]
fn overrides() {
    let text = "chain: edge\nnfs:\n  - firewall: {default: drop}\n  - monitor\n";
    let set = |sets: &[&str]| errors(load_with(text, sets));
    assert_eq!(set(&["firewall.default=accept"]), ["nothing"]);
    assert_eq!(
        set(&["firewall.defalt=drop"]),
        ["[--set firewall.defalt] 1:10 unknown key `defalt` | did you mean `default`?"]
    );
    assert_eq!(
        set(&["firewall.default=drp"]),
        [
            "[--set firewall.default] 1:18 `drp` is not one of the values here | did you mean `drop`?"
        ]
    );
    assert_eq!(
        set(&[
            "firewal.default=drop",
            "monitor=5",
            "monitor.rate=[",
            "monitor.rate="
        ]),
        [
            "[--set firewal.default] 1:1 there is no instance `firewal` in the chain | did you \
             mean `firewall`?",
            "[--set monitor] 1:1 `monitor` names no setting | write `monitor.KEY=VALUE`",
            "[--set monitor.rate] 1:1 no value is given for `monitor.rate`",
            "[--set monitor.rate] 1:14 not YAML: unclosed bracket '['",
        ]
    );
    assert_eq!(
        set(&[
            "firewall.rules[0].action=drop",
            "firewall.default.x=1",
            "firewall[0=1"
        ]),
        [
            "[--set firewall.rules[0].action] 1:15 entry 0 of a list is meant, but there is nothing",
            "[--set firewall.default.x] 1:18 `x` is looked for in a mapping, but there is `drop`",
            "[--set firewall[0] 1:1 `firewall[0` is not the path of a setting | write one like \
             `firewall.default` or `firewall.rules[0].action`",
        ]
    );
    assert_eq!(
        set(&["flows.max=many"]),
        ["[--set flows.max] 1:11 expected a whole number from 1 to 268435456, found `many`"]
    );
}

#[test]
fn rendered_for_people() {
    let list = read("chain: edge\nnfs:\n  - firewal\n").unwrap_err();
    assert_eq!(
        weir_graph::render(&list),
        "edge.yaml:3:5: error: there is no function `firewal`\n \
         3 |   - firewal\n   |     ^^^^^^^\n   \
         = help: did you mean `firewall`? `weir nf list` shows all\n"
    );
    let list = load_with("chain: edge\nnfs: [monitor]\n", &["monitor.rate=x"]).unwrap_err();
    assert_eq!(
        weir_graph::render(&list),
        "--set monitor.rate: error: expected a number, found `x`\n \
         1 | monitor.rate=x\n   |              ^\n"
    );
}

#[test]
fn a_flood_of_errors_is_bounded() {
    let keys: String = (0..1_000).map(|n| format!("k{n}: 1\n")).collect();
    let list = read(&format!("chain: edge\nnfs: [monitor]\n{keys}")).unwrap_err();
    assert_eq!(list.len(), 50);
    let last = list.last().and_then(|d| d.help.clone()).unwrap_or_default();
    assert!(last.ends_with("and 950 more errors"), "{last}");
}

#[test]
fn a_large_hostile_file_takes_no_more_time_than_a_large_one() {
    let keys = |n: usize| -> String { (0..n).map(|n| format!("      k{n}: out\n")).collect() };
    let many = keys(50_000);
    for text in [
        format!("chain: edge\nnfs:\n  - monitor:\n    links:\n{many}"),
        format!("chain: edge\nnfs:\n  - monitor:\n{many}"),
        format!("chain: edge\nflows:\n{many}nfs: [monitor]\n"),
        format!(
            "chain: edge\nflows:\n{}nfs: [monitor]\n",
            "  no: on\n".repeat(90_000)
        ),
        format!(
            "chain: edge\nnfs: [monitor]\nmatch: [{}]\n",
            "{port: x},".repeat(50_000)
        ),
    ] {
        let list = read(&text).unwrap_err();
        assert!(list.len() <= 50, "{}", list.len());
    }
    let list = read(&"#".repeat(2 << 20)).unwrap_err();
    assert_eq!(
        brief(&list[0]),
        "1:1 the text is longer than 1048576 octets"
    );
}
