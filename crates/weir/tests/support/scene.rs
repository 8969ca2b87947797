//! Random chains and templates of the stock functions, as an operator would
//! write them, and random ways of compiling them.

use std::cell::RefCell;

use weir_graph::compile::{Graph, Mode, Options, Parallel};
use weir_graph::{Chain, Input, Templates, load_with, render};

use super::dice::Dice;

/// A setting: name and value in YAML's flow style.
type Setting = (&'static str, &'static str);

/// A function or a template that comes with weir.
pub(crate) struct Stock {
    pub(crate) name: &'static str,
    labels: &'static [&'static str],
    /// Settings to choose from.
    ways: &'static [&'static [Setting]],
}

const CLASSES: &[&str] = &[
    "class-1", "class-2", "class-3", "class-4", "class-5", "class-6",
];
const WEB: Setting = (
    "classes",
    "[{protocol: tcp, to-port: 80}, {protocol: tcp, from-port: 80}, {protocol: udp}]",
);
const HOSTS: Setting = (
    "classes",
    "[{to: 198.18.0.0/17}, {network: ipv6, protocol: [tcp, icmpv6]}, {dscp: 8}]",
);
const SERVICE: Setting = (
    "services",
    "[{vip: [198.18.0.1, 198.18.0.2, 198.18.0.3], port: 80, name: web, backends: [{address: 198.51.100.11}, {address: \
     198.51.100.12, weight: 3}]}]",
);
const ATTACKS: Setting = ("rules", "$RULES");

/// Signatures: in settings a text of several lines.
const RULES: &str = r#"'alert tcp any any -> any any (msg:"get"; content:"GET "; sid:1; rev:1;)'"#;
const DROPPING: &str = r#"'drop udp any any -> any any (msg:"x"; content:"a"; dsize:>40; sid:2;)'"#;

/// All of them.
pub(crate) const STOCK: &[Stock] = &[
    Stock {
        name: "application-firewall",
        labels: &["other"],
        ways: &[
            &[],
            &[("ports", "null")],
            &[("action", "alert"), ("form-body", "true")],
        ],
    },
    Stock {
        name: "asset-monitor",
        labels: &[],
        ways: &[&[], &[("hosts", "false")]],
    },
    Stock {
        name: "classifier",
        labels: CLASSES,
        ways: &[&[WEB], &[HOSTS], &[WEB]],
    },
    Stock {
        name: "counter",
        labels: &[],
        ways: &[&[]],
    },
    Stock {
        name: "edge-firewall",
        labels: &[],
        ways: &[
            &[("default", "accept"), ("blocked", "[198.18.7.0/24]")],
            &[
                ("rules", "[accept out tcp, accept in from 10.0.0.0/9]"),
                ("log", "true"),
            ],
            &[("default", "reject"), ("martians", "true")],
        ],
    },
    Stock {
        name: "filter",
        labels: CLASSES,
        ways: &[
            &[("drop", "[{protocol: udp, to-port: 443}]"), WEB],
            &[("accept", "[{protocol: tcp}]"), ("otherwise", "drop")],
            &[HOSTS],
        ],
    },
    Stock {
        name: "firewall",
        labels: &[],
        ways: &[
            &[],
            &[
                ("default", "drop"),
                (
                    "rules",
                    "[accept tcp to any port 80 log name web, accept udp]",
                ),
            ],
            &[
                ("default", "drop"),
                (
                    "rules",
                    "[accept tcp to any port 80 log name web, accept icmp, reject udp to any port 443]",
                ),
            ],
            &[(
                "rules",
                "[reject tcp from 10.0.0.0/9 to any port 80, drop in]",
            )],
        ],
    },
    Stock {
        name: "flow-nop",
        labels: &[],
        ways: &[&[]],
    },
    Stock {
        name: "http",
        labels: &[],
        ways: &[&[], &[("reading", "{ports: [80], head-limit: 2048}")]],
    },
    Stock {
        name: "http-classifier",
        labels: &["other"],
        ways: &[&[], &[("payload", "false")], &[("ports", "[80]")]],
    },
    Stock {
        name: "ids",
        labels: &[],
        ways: &[
            &[ATTACKS],
            &[("rules", DROPPING), ("action", "rule")],
            &[("rules", RULES), ("action", "drop"), ("midstream", "true")],
        ],
    },
    Stock {
        name: "ip-check",
        labels: &[],
        ways: &[
            &[],
            &[("martians", "true")],
            &[("on-bad", "count")],
            &[("on-bad", "count"), ("transport", "true")],
            &[("transport", "true")],
        ],
    },
    Stock {
        name: "load-balancer",
        labels: &[],
        ways: &[&[SERVICE], &[SERVICE, ("table-size", "251")]],
    },
    Stock {
        name: "load-balancing",
        labels: &[],
        ways: &[
            &[
                ("address", "198.18.0.1"),
                ("servers", "[{address: 198.51.100.11}]"),
                ("route", "true"),
            ],
            &[
                ("address", "[198.18.0.2, 198.18.0.3]"),
                ("port", "80"),
                (
                    "servers",
                    "[{address: 198.51.100.11}, {address: 198.51.100.12}]",
                ),
                ("rate", "100pps"),
            ],
        ],
    },
    Stock {
        name: "mac-swap",
        labels: &[],
        ways: &[&[]],
    },
    Stock {
        name: "monitor",
        labels: &[],
        ways: &[
            &[],
            &[("events", "false")],
            &[("active-timeout", "1"), ("vlans", "false")],
        ],
    },
    Stock {
        name: "monitoring",
        labels: &[],
        ways: &[
            &[],
            &[("urls", "true"), ("sizes", "true")],
            &[("check", "false"), ("events", "false")],
        ],
    },
    Stock {
        name: "nat44",
        labels: &[],
        ways: &[
            &[("pool", "203.0.113.0/28")],
            &[
                ("pool", "203.0.113.1"),
                ("mapping", "address-and-port-dependent"),
                ("log", "false"),
            ],
        ],
    },
    Stock {
        name: "nop",
        labels: &[],
        ways: &[&[]],
    },
    Stock {
        name: "payload-compressor",
        labels: &[],
        ways: &[
            &[("ports", "[80]")],
            &[("ports", "[80, 443]"), ("direction", "to-server")],
        ],
    },
    Stock {
        name: "payload-decompressor",
        labels: &[],
        ways: &[
            &[("ports", "[80]")],
            &[("ports", "[80, 443]"), ("direction", "to-client")],
        ],
    },
    Stock {
        name: "policer",
        labels: &["exceeded"],
        ways: &[
            &[("rate", "20pps"), ("burst", "4packets")],
            &[("rate", "40kbit"), ("action", "mark"), ("dscp", "8")],
            &[("rate", "2kB"), ("burst", "2kB"), ("action", "label")],
        ],
    },
    Stock {
        name: "size-histogram",
        labels: &[],
        ways: &[&[], &[("check-sequence", "true")]],
    },
    Stock {
        name: "syn-guard",
        labels: &[],
        ways: &[&[], &[("max-half-open", "2"), ("log", "true")]],
    },
    Stock {
        name: "ttl",
        labels: &[],
        ways: &[&[], &[("icmp", "true"), ("address", "192.0.2.254")]],
    },
    Stock {
        name: "udp-whitelist",
        labels: &[],
        ways: &[
            &[],
            &[
                ("log", "true"),
                ("learn", "[{port: 80}]"),
                ("lifetime", "20"),
            ],
        ],
    },
    Stock {
        name: "url-counter",
        labels: &[],
        ways: &[&[], &[("host", "false"), ("query", "true")]],
    },
    Stock {
        name: "url-validator",
        labels: &[],
        ways: &[
            &[("action", "alert")],
            &[("action", "drop"), ("cross-site-scripting", "true")],
        ],
    },
    Stock {
        name: "wan-optimizer",
        labels: &[],
        ways: &[
            &[("site", "clients")],
            &[("site", "servers"), ("smallest", "20")],
        ],
    },
];

fn value(text: &'static str) -> &'static str {
    if text == "$RULES" { RULES } else { text }
}

/// A random chain, and the templates that it names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scene {
    pub(crate) chain: String,
    pub(crate) templates: Vec<String>,
}

/// What a template of the scene offers.
struct Own {
    name: String,
    has_label: bool,
    /// Settings with other values than their defaults.
    settings: Vec<(String, &'static str)>,
}

/// What an entry is made of: few for a chain, so that many are equal.
#[derive(Clone, Copy)]
enum Choice {
    Stock(usize, usize),
    Own(usize),
}

struct Writer<'a> {
    dice: &'a mut Dice,
    palette: Vec<Choice>,
    own: Vec<Own>,
}

impl Writer<'_> {
    /// `count` entries, each reached by a link. In a template values may be
    /// settings of its own, which are added to `settings`.
    fn entries(
        &mut self,
        count: usize,
        owns: usize,
        mut settings: Option<&mut Vec<(String, String, &'static str)>>,
        exit: Option<bool>,
    ) -> String {
        let mut text = String::new();
        let palette: Vec<Choice> = self
            .palette
            .iter()
            .copied()
            .filter(|choice| !matches!(choice, Choice::Own(n) if *n >= owns))
            .collect();
        let reached = RefCell::new(vec![false; count + 1]);
        let mut number = 0;
        while number < count {
            if count - number >= 4 && self.dice.one_in(6) {
                text.push_str(&self.diamond(&palette, number));
                reached.borrow_mut()[number + 3] = true;
                number += 3;
                continue;
            }
            let choice = *self.dice.pick(&palette);
            let (name, labels, given): (String, &[&str], Vec<String>) = match choice {
                Choice::Stock(stock, way) => {
                    let stock = &STOCK[stock];
                    let mut given = Vec::new();
                    for (key, text) in stock.ways[way % stock.ways.len()] {
                        let mut said = value(text).to_owned();
                        if let Some(settings) = &mut settings
                            && self.dice.one_in(2)
                        {
                            let name = format!("s{}", settings.len());
                            // Another value of the same setting, if there is one.
                            let others: Vec<&'static str> = stock
                                .ways
                                .iter()
                                .flat_map(|way| way.iter())
                                .filter(|(other, _)| other == key)
                                .map(|(_, text)| value(text))
                                .collect();
                            let other = *self.dice.pick(&others);
                            settings.push((name.clone(), said, other));
                            said = format!("${name}");
                        }
                        given.push(format!("{key}: {said}"));
                    }
                    (stock.name.to_owned(), stock.labels, given)
                }
                Choice::Own(number) => {
                    let own = &self.own[number];
                    let mut given = Vec::new();
                    for (key, other) in &own.settings {
                        if self.dice.one_in(3) {
                            given.push(format!("{key}: {other}"));
                        }
                    }
                    let labels: &[&str] = if own.has_label { &["away"] } else { &[] };
                    (own.name.clone(), labels, given)
                }
            };
            let target = |dice: &mut Dice| match (dice.roll(8), exit) {
                (0, _) => "drop".to_owned(),
                (1, None) => "out".to_owned(),
                (1, Some(true)) => "exit away".to_owned(),
                (1 | 2, Some(_)) => "exit pass".to_owned(),
                _ if number + 1 >= count => match exit {
                    None => "out".to_owned(),
                    Some(_) => "exit pass".to_owned(),
                },
                _ => {
                    let to = number + 1 + dice.roll(count - number - 1);
                    reached.borrow_mut()[to] = true;
                    format!("n{to}")
                }
            };
            let mut links = Vec::new();
            let mut on = labels.is_empty();
            for label in labels {
                if self.dice.one_in(2) {
                    links.push(format!("{label}: {}", target(self.dice)));
                } else {
                    on = true;
                }
            }
            // What is next must be reached by something.
            let free = reached.borrow()[number + 1] || (!labels.is_empty() && on);
            if free && self.dice.one_in(2) {
                links.push(format!("pass: {}", target(self.dice)));
            } else {
                reached.borrow_mut()[number + 1] = true;
            }
            text.push_str(&format!("  - {name}: {{{}}}\n", given.join(", ")));
            text.push_str(&format!("    as: n{number}\n"));
            if !links.is_empty() {
                text.push_str(&format!("    links: {{{}}}\n", links.join(", ")));
            }
            if let Some(settings) = &mut settings
                && self.dice.one_in(6)
            {
                let name = format!("s{}", settings.len());
                settings.push((name.clone(), "true".to_owned(), "false"));
                text.push_str(&format!("    when: ${name}\n"));
            }
            number += 1;
        }
        text
    }

    /// A point and two branches that begin alike and meet again.
    fn diamond(&mut self, palette: &[Choice], at: usize) -> String {
        let looking = [
            stock("classifier", 1),
            stock("classifier", 1),
            stock("nop", 0),
        ];
        let looking = *self.dice.pick(&looking);
        let choice = *self.dice.pick(palette);
        let Choice::Stock(number, way) = (match choice {
            Choice::Stock(..) if self.dice.one_in(3) => choice,
            _ => looking,
        }) else {
            return String::new();
        };
        let Stock { name, labels, ways } = &STOCK[number];
        let way = ways[way % ways.len()];
        let given: Vec<String> = way
            .iter()
            .map(|(k, v)| format!("{k}: {}", value(v)))
            .collect();
        let given = given.join(", ");
        let (left, right, end) = (at + 1, at + 2, at + 3);
        let links = labels.iter().chain(&["pass"]);
        let links: Vec<String> = links.map(|label| format!("{label}: n{end}")).collect();
        let links = links.join(", ");
        format!(
            "  - classifier: {{{}: {}}}\n    as: n{at}\n    links: {{class-1: n{right}, class-2: \
             n{right}}}\n  - {name}: {{{given}}}\n    as: n{left}\n    links: {{{links}}}\n  - \
             {name}: {{{given}}}\n    as: n{right}\n    links: {{{links}}}\n",
            WEB.0, WEB.1
        )
    }
}

fn stock(name: &str, way: usize) -> Choice {
    let number = STOCK.iter().position(|stock| stock.name == name);
    Choice::Stock(number.unwrap(), way)
}

/// Functions that neither drop nor write packets: what may run side by side.
const LOOKING: [&str; 9] = [
    "asset-monitor",
    "classifier",
    "counter",
    "flow-nop",
    "http",
    "http-classifier",
    "monitor",
    "size-histogram",
    "url-counter",
];

impl Scene {
    pub(crate) fn random(dice: &mut Dice) -> Scene {
        let mut palette = Vec::new();
        let looking = dice.one_in(4);
        for _ in 0..2 + dice.roll(4) {
            let way = dice.roll(12);
            let choice = match looking {
                true => stock(LOOKING[dice.roll(LOOKING.len())], way),
                false => Choice::Stock(dice.roll(STOCK.len()), way),
            };
            // Those that only look are what passes are about.
            palette.extend(std::iter::repeat_n(choice, 1 + dice.roll(2)));
        }
        if dice.one_in(2) {
            let often = ["ip-check", "classifier", "http-classifier", "counter"];
            let name = dice.pick(&often);
            palette.push(stock(name, dice.roll(12)));
        }
        let templates = dice.roll(4);
        let mut scene = Scene::default();
        let mut writer = Writer {
            dice,
            palette,
            own: Vec::new(),
        };
        for number in 0..templates {
            let has_label = writer.dice.one_in(2);
            let mut settings = Vec::new();
            let count = 1 + writer.dice.roll(4);
            let body = writer.entries(count, number, Some(&mut settings), Some(has_label));
            let mut text = format!("template: t{number}\nsummary: made\n");
            if !settings.is_empty() {
                text.push_str("settings:\n");
            }
            for (name, default, _) in &settings {
                text.push_str(&format!("  {name}: {{type: any, default: {default}}}\n"));
            }
            if has_label && body.contains("exit away") {
                text.push_str("labels: {away: Away.}\n");
            }
            text.push_str("processors:\n");
            text.push_str(&body);
            let has_label = body.contains("exit away");
            writer.own.push(Own {
                name: format!("t{number}"),
                has_label,
                settings: settings
                    .into_iter()
                    .map(|(n, _, other)| (n, other))
                    .collect(),
            });
            writer.palette.extend([Choice::Own(number); 2]);
            scene.templates.push(text);
        }
        let count = 1 + writer.dice.roll(8);
        let body = writer.entries(count, templates, None, None);
        scene.chain = format!("chain: random\nflows: {}\nnfs:\n{body}", flows(writer.dice));
        scene
    }

    pub(crate) fn load(&self) -> Result<Chain, String> {
        let mut templates = Templates::shipped();
        for (number, text) in self.templates.iter().enumerate() {
            templates.add(format!("t{number}.yaml"), text.clone());
        }
        let input = Input {
            name: "chain.yaml",
            text: &self.chain,
            kinds: weir_functions::kinds(),
            overrides: &[],
            seed: 1,
        };
        let file = load_with(&input, &templates, &mut weir_nf::NoSources);
        let mut file = file.map_err(|faults| render(&faults))?;
        Ok(file.chains.remove(0))
    }
}

/// How flows are kept. Memory for side buffers is each stage's own, so that
/// what does not fit says nothing of plans: it is not made short.
fn flows(dice: &mut Dice) -> String {
    let mut keys = vec![format!(
        "max: {}",
        dice.pick(&[12, 100, 3_000, 3_000, 3_000])
    )];
    for (key, values) in [
        ("when-full", &["evict", "refuse"][..]),
        ("malformed", &["drop", "pass"]),
        ("inner", &["false", "true"]),
        ("zone", &["true", "false"]),
        ("icmp", &["conversation", "addresses"]),
        ("track", &["auto", "always"]),
        ("held-fragments", &["0", "3", "256"]),
        (
            "timeouts",
            &["{udp: 1s, tcp-established: 3s}", "{reuse: false}"],
        ),
    ] {
        if dice.one_in(3) {
            keys.push(format!("{key}: {}", dice.pick(values)));
        }
    }
    format!("{{{}}}", keys.join(", "))
}

/// Random options; not all of them are allowed for each chain.
pub(crate) fn options(dice: &mut Dice, graph: &Graph) -> Options {
    let mode = *dice.pick(&[
        Mode::RunToCompletion,
        Mode::Pipeline,
        Mode::Pipeline,
        Mode::Auto,
    ]);
    let mut options = Options {
        consolidate: !dice.one_in(4),
        hoist: !dice.one_in(4),
        parallel: *dice.pick(&[
            Parallel::Never,
            Parallel::Never,
            Parallel::Auto,
            Parallel::Always,
        ]),
        mode,
        ..Options::default()
    };
    if dice.one_in(2) {
        options.cores = (0..dice.roll(5)).collect();
    }
    let name = |dice: &mut Dice| {
        let node = dice.pick(&graph.nodes);
        match dice.one_in(3) {
            true => node.instance.clone(),
            false => node.name.clone(),
        }
    };
    if mode == Mode::Pipeline && dice.one_in(3) {
        options.cuts = (0..1 + dice.roll(2)).map(|_| name(dice)).collect();
    }
    // What these know of all flows together each instance finds out.
    let of_all = |kind: &str| ["asset-monitor", "url-counter"].contains(&kind);
    if dice.one_in(3) && !graph.nodes.iter().any(|node| of_all(&node.kind)) {
        let instances = 2 + dice.roll(2) as u16;
        options.instances.insert(name(dice), instances);
    }
    if dice.one_in(4) {
        options.cycles.insert(name(dice), dice.roll(900) as u32);
    }
    options
}
