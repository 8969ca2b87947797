//! `plan:` — how a chain is compiled.

use core::ops::RangeInclusive;
use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use crate::compile::{
    Graph, MOST_CORES, MOST_INSTANCES, Mode, Options, Parallel, Passes, PlanOption, PortCosts,
    compile,
};
use crate::diagnostic::{Report, Span};
use crate::form::{Choice, Form, Integer, Own};
use crate::keys::Keys;
use crate::nearest::suggestion;
use crate::tree::{Node, Value};
use crate::{read, threads};

const PARALLEL: &[(&str, Parallel)] = &[
    ("never", Parallel::Never),
    ("auto", Parallel::Auto),
    ("always", Parallel::Always),
];
/// Most cycles that anything is thought to cost.
const MOST_CYCLES: u64 = 1_000_000_000;

/// Options with the places where the file gives them.
type Places = Vec<(PlanOption, Span)>;

/// The mapping as written.
#[derive(Default)]
pub(crate) struct Written {
    options: Options,
    mode: Option<Mode>,
    parallel: Option<Parallel>,
    places: Places,
}

impl Written {
    /// Notes where the names of an option are.
    fn named(&mut self, key: &'static str, names: Vec<(String, Span)>) -> Vec<String> {
        let noted = names.into_iter().map(|(name, span)| {
            self.places.push((place(key, &name), span));
            name
        });
        noted.collect()
    }

    fn counted<N: TryFrom<u64>>(
        &mut self,
        key: &'static str,
        counts: Vec<(String, Span, Option<u64>)>,
    ) -> BTreeMap<String, N> {
        let noted = counts.into_iter().filter_map(|(name, span, count)| {
            self.places.push((place(key, &name), span));
            // The form's range is one of the type's.
            Some((name, N::try_from(count?).ok()?))
        });
        noted.collect()
    }
}

/// Keys of `plan:`.
pub(crate) fn keys() -> Keys<Written> {
    let about = "How the chain is compiled.";
    let keys = Keys::<Written>::new("a mapping like `mode: pipeline`", about)
        .help("leave it out for what is usual: a plan as gains are expected")
        .key(
            "mode",
            "One stage (`rtc`), several (`pipeline`), or as gains are expected (`auto`).",
            Choice(&Mode::NAMES),
            |w, mode| w.mode = Some(mode),
        )
        .key("stages", "Instances or processors that begin a stage.", Names, |w, names| {
            w.options.cuts = w.named("stages", names);
        })
        .key(
            "cores",
            "Cores that stages are kept on, in the order of their use.",
            threads::cores(),
            |w, cores| w.options.cores = threads::numbers(&cores),
        )
        .key(
            "instances",
            "Instances of the stage that has this instance or processor.",
            // The compiler says why others can't be.
            ByName(0..=u64::from(u16::MAX), 1..=u64::from(MOST_INSTANCES)),
            |w, counts| w.options.instances = w.counted("instances", counts),
        )
        .key(
            "processes",
            "Instances or processors that run in a process of their own, on the same packet memory.",
            Names,
            |w, names| w.options.processes = w.named("processes", names),
        )
        .key(
            "untrusted",
            "Instances or processors that run in a process of their own that is not trusted: \
             packets are copied to it and checked when they come back.",
            Names,
            |w, names| w.options.untrusted = w.named("untrusted", names),
        );
    with_compiler(keys)
}

/// The keys about what the compiler does and thinks.
fn with_compiler(keys: Keys<Written>) -> Keys<Written> {
    let cores = 0..=MOST_CORES as u64 - 1;
    keys.key(
        "affinity",
        "Core of the stage that has this instance or processor.",
        ByName(cores.clone(), cores),
        |w, at| w.options.affinity = w.counted("affinity", at),
    )
    .key(
        "passes",
        "Passes of the compiler that are on.",
        Own(passes, passes_schema),
        |w, passes| w.options.passes(passes),
    )
    .key(
        "parallel",
        "When independent neighbours run side by side.",
        Choice(PARALLEL),
        |w, parallel| w.parallel = Some(parallel),
    )
    .key(
        "cycles",
        "Cycles per packet of a processor, an instance or a function.",
        ByName(0..=MOST_CYCLES, 0..=MOST_CYCLES),
        |w, cycles| w.options.cycles = w.counted("cycles", cycles),
    )
    .key(
        "costs",
        "Cycles per packet that ports and engines cost.",
        cost_keys(),
        |w, costs| w.options.costs = costs,
    )
}

/// Keys of `costs:`.
pub(crate) fn cost_keys() -> Keys<PortCosts> {
    type Cost = fn(&mut PortCosts) -> &mut u32;
    let costs: [(_, _, _, Cost); 7] = [
        (
            "classify",
            "Parsing, key and flow look-up in the first stage.",
            MOST_CYCLES,
            |c| &mut c.classify,
        ),
        (
            "enter",
            "A packet's way into a later stage.",
            MOST_CYCLES,
            |c| &mut c.enter,
        ),
        (
            "ring",
            "One side of a ring between two threads.",
            MOST_CYCLES,
            |c| &mut c.ring,
        ),
        (
            "copy",
            "A copy of a packet for a parallel branch.",
            MOST_CYCLES,
            |c| &mut c.copy,
        ),
        ("sync", "Joining the branches.", MOST_CYCLES, |c| {
            &mut c.sync
        }),
        (
            "unknown",
            "A processor of which nothing is known.",
            MOST_CYCLES,
            |c| &mut c.unknown,
        ),
        (
            "margin",
            "Per thousand of the whole that `auto` must gain before it cuts.",
            1_000,
            |c| &mut c.margin,
        ),
    ];
    let keys = Keys::new("a mapping like `ring: 60`", "");
    costs
        .into_iter()
        .fold(keys, |keys, (name, about, most, cost)| {
            keys.key(name, about, Integer(0..=most), move |c, n| {
                *cost(c) = n as u32
            })
        })
}

/// Reads the mapping; what it does not say stays as it is by default. `graph`
/// is the chain, where it could be built: then what the options ask of it is
/// checked too.
pub(crate) fn read(node: &Node, graph: Option<&Graph>, report: &mut Report<'_>) -> Options {
    let before = report.errors();
    let keys = keys();
    let mut written = keys.read(node, report).unwrap_or_default();
    for (key, _) in node.entries().unwrap_or(&[]) {
        let known = key.text().and_then(|text| keys.name(text));
        let at = known.map(|name| (place(name, ""), key.span));
        written.places.extend(at);
    }
    let mut options = written.options;
    // `passes` may say more of it, whichever comes first.
    options.parallel = written.parallel.unwrap_or(options.parallel);
    // A file that names the beginnings of stages wants stages.
    let by_cuts = (!options.cuts.is_empty()).then_some(Mode::Pipeline);
    options.mode = written.mode.or(by_cuts).unwrap_or(options.mode);
    if let Some(graph) = graph
        && report.errors() == before
    {
        against(graph, &options, node, &written.places, report);
    }
    options
}

fn place(key: &'static str, name: &str) -> PlanOption {
    PlanOption {
        key,
        name: name.to_owned(),
    }
}

/// Checks the options against the chain; errors carry the options' places.
fn against(
    graph: &Graph,
    options: &Options,
    node: &Node,
    places: &Places,
    report: &mut Report<'_>,
) {
    for name in options.cycles.keys() {
        if !graph
            .nodes
            .iter()
            .any(|n| n.is_called(name) || n.kind == *name)
        {
            let at = span(&place("cycles", name), places).unwrap_or(node.span);
            let mut known: Vec<&str> = graph.nodes.iter().map(|n| n.instance.as_str()).collect();
            known.extend(graph.nodes.iter().map(|n| n.kind.as_str()));
            known.extend(graph.nodes.iter().map(|n| n.name.as_str()));
            known.sort_unstable();
            known.dedup();
            report.error_help(
                at,
                format!("there is no instance, processor or function `{name}` in this chain"),
                suggestion(name, "here are", &known).unwrap_or_default(),
            );
        }
    }
    for fault in compile("", graph, options).err().unwrap_or_default() {
        let at = fault
            .option
            .as_ref()
            .and_then(|option| {
                span(option, places).or_else(|| span(&place(option.key, ""), places))
            })
            .unwrap_or(node.span);
        match fault.help {
            Some(help) => report.error_help(at, fault.message, help),
            None => report.error(at, fault.message),
        }
    }
}

fn span(option: &PlanOption, places: &Places) -> Option<Span> {
    let found = places.iter().find(|(known, _)| known == option);
    found.map(|(_, span)| *span)
}

/// A name or a list of them, each once.
struct Names;

impl Form for Names {
    type Value = Vec<(String, Span)>;

    fn read(&self, node: &Node, report: &mut Report<'_>) -> Option<Self::Value> {
        let what = "an instance or processor, or a list of them";
        let mut out: Self::Value = Vec::new();
        for item in read::one_or_more(node, what, report)? {
            let Some(name) = read::word(item, "an instance or processor", report) else {
                continue;
            };
            if out.iter().any(|(before, _)| before == name) {
                report.error(item.span, format!("`{name}` is here twice"));
                continue;
            }
            out.push((name.to_owned(), item.span));
        }
        Some(out)
    }

    fn schema(&self) -> Json {
        let one = json!({"type": "string", "minLength": 1});
        json!({"anyOf": [one, {"type": "array", "minItems": 1, "items": one}]})
    }
}

/// Numbers by name: those that are read, and those that a schema allows.
struct ByName(RangeInclusive<u64>, RangeInclusive<u64>);

impl Form for ByName {
    /// `None` for a number that could not be read.
    type Value = Vec<(String, Span, Option<u64>)>;

    fn read(&self, node: &Node, report: &mut Report<'_>) -> Option<Self::Value> {
        let what = "a mapping from instances or processors to numbers";
        let mut out = Vec::new();
        for (name, value) in read::map(node, what, report)? {
            let Some(text) = name.text().filter(|text| !text.is_empty()) else {
                report.expected(name, "an instance or processor");
                continue;
            };
            let number = read::integer(value, self.0.clone(), report);
            out.push((text.to_owned(), name.span, number));
        }
        Some(out)
    }

    fn schema(&self) -> Json {
        let number = Integer(self.1.clone()).schema();
        json!({"type": "object", "additionalProperties": number})
    }
}

fn passes(value: &Node, report: &mut Report<'_>) -> Option<Passes> {
    match value.text() {
        Some("none") => return Some(Passes::NONE),
        Some("all") => return Some(Passes::ALL),
        _ => {}
    }
    // An empty list is a way to say none.
    if matches!(&value.value, Value::List(items) if items.is_empty()) {
        return Some(Passes::NONE);
    }
    let mut passes = Passes::NONE;
    for item in read::one_or_more(value, "`none`, `all` or a list of passes", report)? {
        let choices = Passes::WORDS.map(|name| (name, name));
        let name = read::choice(item, &choices, report)?;
        if !passes.add(name) {
            let message = format!("`{name}` stands alone, without other passes");
            report.error_help(item.span, message, format!("write `passes: {name}`"));
            return None;
        }
    }
    Some(passes)
}

fn passes_schema() -> Json {
    json!({"anyOf": [
        {"enum": Passes::WORDS},
        {"type": "array", "items": {"enum": Passes::NAMES}},
    ]})
}
