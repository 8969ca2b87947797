//! `plan:` — how a chain is compiled.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use crate::compile::{
    Graph, MOST_CORES, MOST_INSTANCES, Mode, Options, Parallel, Passes, PlanOption, PortCosts,
    compile,
};
use crate::diagnostic::{Report, Span};
use crate::nearest::suggestion;
use crate::tree::{Node, Value};
use crate::{read, threads};

/// Keys of `plan:`.
pub(crate) const KEYS: [&str; 11] = [
    "mode",
    "stages",
    "cores",
    "instances",
    "processes",
    "untrusted",
    "affinity",
    "passes",
    "parallel",
    "cycles",
    "costs",
];
/// Keys of `costs:`.
const COSTS: [&str; 7] = [
    "classify", "enter", "ring", "copy", "sync", "unknown", "margin",
];
const PARALLEL: [(&str, Parallel); 3] = [
    ("never", Parallel::Never),
    ("auto", Parallel::Auto),
    ("always", Parallel::Always),
];
/// Most cycles that anything is thought to cost.
const MOST_CYCLES: u64 = 1_000_000_000;

/// Options with the places where the file gives them.
type Places = Vec<(PlanOption, Span)>;

/// Reads the mapping; what it does not say stays as it is by default. `graph`
/// is the chain, where it could be built: then what the options ask of it is
/// checked too.
pub(crate) fn read(node: &Node, graph: Option<&Graph>, report: &mut Report<'_>) -> Options {
    let mut options = Options::default();
    let mut places: Places = Vec::new();
    let before = report.errors();
    let what = "a mapping like `mode: pipeline`";
    let Some(entries) = node.entries() else {
        let help = "leave it out for what is usual: a plan as gains are expected";
        report.expected_help(node, what, help);
        return options;
    };
    let mut parallel = None;
    for (key, value) in entries {
        let Some(&name) = KEYS.iter().find(|known| key.text() == Some(**known)) else {
            report.unknown_key(key, &KEYS);
            continue;
        };
        places.push((place(name, ""), key.span));
        match name {
            "mode" => {
                if let Some(mode) = read::choice(value, &Mode::NAMES, report) {
                    options.mode = mode;
                }
            }
            "stages" => options.cuts = names(name, value, &mut places, report),
            "processes" => options.processes = names(name, value, &mut places, report),
            "untrusted" => options.untrusted = names(name, value, &mut places, report),
            "cores" => options.cores = threads::cores(value, report),
            "instances" => {
                let read = numbers(name, value, 0..=u64::from(u16::MAX), &mut places, report);
                options.instances = read
                    .into_iter()
                    .map(|(n, count)| (n, count as u16))
                    .collect();
            }
            "affinity" => {
                let read = numbers(name, value, 0..=MOST_CORES as u64 - 1, &mut places, report);
                options.affinity = read.into_iter().map(|(n, at)| (n, at as usize)).collect();
            }
            "passes" => {
                if let Some(passes) = passes(value, report) {
                    options.passes(passes);
                }
            }
            "parallel" => parallel = read::choice(value, &PARALLEL, report),
            "cycles" => {
                let read = numbers(name, value, 0..=MOST_CYCLES, &mut places, report);
                options.cycles = read
                    .into_iter()
                    .map(|(n, cycles)| (n, cycles as u32))
                    .collect();
            }
            _ => costs(value, &mut options.costs, report),
        }
    }
    options.parallel = parallel.unwrap_or(options.parallel);
    // A file that names the beginnings of stages wants stages.
    if !options.cuts.is_empty() && node.get("mode").is_none() {
        options.mode = Mode::Pipeline;
    }
    if let Some(graph) = graph
        && report.errors() == before
    {
        against(graph, &options, node, &places, report);
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

/// A name, or a list of them.
fn names(
    key: &'static str,
    value: &Node,
    places: &mut Places,
    report: &mut Report<'_>,
) -> Vec<String> {
    let what = "an instance or processor, or a list of them";
    let items = read::one_or_more(value, what, report).unwrap_or(&[]);
    let mut out: Vec<String> = Vec::new();
    for item in items {
        let Some(name) = read::word(item, "an instance or processor", report) else {
            continue;
        };
        if out.iter().any(|before| before == name) {
            report.error(item.span, format!("`{name}` is here twice"));
            continue;
        }
        places.push((place(key, name), item.span));
        out.push(name.to_owned());
    }
    out
}

/// Numbers by name.
fn numbers(
    key: &'static str,
    value: &Node,
    range: core::ops::RangeInclusive<u64>,
    places: &mut Places,
    report: &mut Report<'_>,
) -> BTreeMap<String, u64> {
    let what = "a mapping from instances or processors to numbers";
    let mut out = BTreeMap::new();
    for (name, value) in read::map(value, what, report).unwrap_or(&[]) {
        let Some(text) = name.text().filter(|text| !text.is_empty()) else {
            report.expected(name, "an instance or processor");
            continue;
        };
        places.push((place(key, text), name.span));
        if let Some(number) = read::integer(value, range.clone(), report) {
            out.insert(text.to_owned(), number);
        }
    }
    out
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

fn costs(value: &Node, costs: &mut PortCosts, report: &mut Report<'_>) {
    for (key, value) in read::map(value, "a mapping like `ring: 60`", report).unwrap_or(&[]) {
        let (place, most) = match key.text().unwrap_or("") {
            "classify" => (&mut costs.classify, MOST_CYCLES),
            "enter" => (&mut costs.enter, MOST_CYCLES),
            "ring" => (&mut costs.ring, MOST_CYCLES),
            "copy" => (&mut costs.copy, MOST_CYCLES),
            "sync" => (&mut costs.sync, MOST_CYCLES),
            "unknown" => (&mut costs.unknown, MOST_CYCLES),
            "margin" => (&mut costs.margin, 1_000),
            _ => {
                report.unknown_key(key, &COSTS);
                continue;
            }
        };
        if let Some(cycles) = read::integer(value, 0..=most, report) {
            *place = cycles as u32;
        }
    }
}

/// JSON Schema of the mapping.
pub(crate) fn schema() -> Json {
    let some = |value: Json, description: &str| {
        json!({
            "description": description,
            "anyOf": [value, {"type": "array", "minItems": 1, "items": value}],
        })
    };
    let by_name = |least: u64, most: u64, description: &str| {
        json!({
            "description": description,
            "type": "object",
            "additionalProperties": {"type": "integer", "minimum": least, "maximum": most},
        })
    };
    let mut costs = Map::new();
    for name in COSTS {
        let most = if name == "margin" { 1_000 } else { MOST_CYCLES };
        let value = json!({"type": "integer", "minimum": 0, "maximum": most});
        costs.insert(name.to_owned(), value);
    }
    json!({
        "description": "How the chain is compiled.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "mode": {
                "description": "One stage (`rtc`), several (`pipeline`), or as gains are expected.",
                "enum": Mode::NAMES.map(|(name, _)| name),
            },
            "stages": some(
                json!({"type": "string", "minLength": 1}),
                "Instances or processors that begin a stage.",
            ),
            "cores": threads::cores_schema("Cores that stages are kept on, in the order of their use."),
            "instances": by_name(
                1,
                u64::from(MOST_INSTANCES),
                "Instances of the stage that has this instance or processor.",
            ),
            "processes": some(
                json!({"type": "string", "minLength": 1}),
                "Instances or processors that run in a process of their own, on the same packet memory.",
            ),
            "untrusted": some(
                json!({"type": "string", "minLength": 1}),
                "Instances or processors that run in a process of their own that is not trusted: packets are copied to it and checked when they come back.",
            ),
            "affinity": by_name(
                0,
                MOST_CORES as u64 - 1,
                "Core of the stage that has this instance or processor.",
            ),
            "passes": {
                "description": "Passes of the compiler that are on.",
                "anyOf": [
                    {"enum": ["none", "all", "consolidate", "hoist", "parallel"]},
                    {"type": "array", "items": {"enum": Passes::NAMES}},
                ],
            },
            "parallel": {
                "description": "When independent neighbours run side by side.",
                "enum": PARALLEL.map(|(name, _)| name),
            },
            "cycles": by_name(
                0,
                MOST_CYCLES,
                "Cycles per packet of a processor, an instance or a function.",
            ),
            "costs": {
                "description": "Cycles per packet that ports and engines cost.",
                "type": "object",
                "additionalProperties": false,
                "properties": costs,
            },
        },
    })
}
