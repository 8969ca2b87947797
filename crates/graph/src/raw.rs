//! A chain file as written: chains and entries with their places, names
//! resolved, nothing checked yet.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::diagnostic::{Report, Span};
use crate::form::{Form as _, Later, Name, Placed};
use crate::keys::Keys;
use crate::read;
use crate::tree::{Node, shorten};

/// Keys that hold for a file: beside `chain`, or beside `chains`.
pub(crate) const NETWORK: &str = "network";
pub(crate) const THREADS: &str = "threads";
pub(crate) const PLACEMENT: &str = "placement";
pub(crate) const SETS: &str = "sets";
const OF_FILE: [&str; 4] = [NETWORK, THREADS, PLACEMENT, SETS];
/// Most functions of a chain.
pub(crate) const MAX_FUNCTIONS: usize = 64;
/// Most chains of a file: their number is an octet of the flow key.
const MAX_CHAINS: usize = 255;
/// Names that mean something else where an instance may be named.
const RESERVED: [&str; 3] = ["out", "drop", "flows"];

/// Forms in which entries are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `nfs:` of a chain.
    Chain,
    /// `processors:` of a template.
    Template,
}

impl Form {
    /// Keys that may stand beside a function's name, each with its description.
    const fn keys(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Form::Chain => &[
                ("as", "Name of this instance; the function's if left out."),
                ("links", "Where its links lead; the next entry if left out."),
            ],
            Form::Template => &[
                ("as", "Its name in this template."),
                (
                    "links",
                    "Where its links lead; the next processor if left out.",
                ),
                (
                    "when",
                    "It is there only if the setting is given and not false, or has one of these \
                     values.",
                ),
            ],
        }
    }

    fn has_key(self, name: &str) -> bool {
        self.keys().iter().any(|(key, _)| *key == name)
    }

    /// The keys in a sentence.
    fn keys_text(self) -> String {
        let mut keys: Vec<String> = self
            .keys()
            .iter()
            .map(|(key, _)| format!("`{key}`"))
            .collect();
        let last = keys.pop().unwrap_or_default();
        format!("{} and {last}", keys.join(", "))
    }

    /// JSON Schemas of the keys: those given, in the order of the keys, with their descriptions.
    pub(crate) fn properties(
        self,
        schemas: impl IntoIterator<Item = Value>,
    ) -> impl Iterator<Item = (String, Value)> {
        let keys = self.keys().iter().zip(schemas);
        keys.map(|((key, description), mut schema)| {
            schema["description"] = json!(description);
            ((*key).to_owned(), schema)
        })
    }
}

/// A chain.
#[derive(Debug, Default)]
pub(crate) struct RawChain {
    pub(crate) name: String,
    pub(crate) name_span: Span,
    pub(crate) ports: Option<Node>,
    pub(crate) selector: Option<Node>,
    pub(crate) flows: Option<Node>,
    pub(crate) plan: Option<Node>,
    pub(crate) tenant: Option<String>,
    /// `nfs:`, until its entries are read.
    nfs: Option<Node>,
    pub(crate) entries: Vec<RawEntry>,
}

/// An entry of `nfs:`.
#[derive(Debug)]
pub(crate) struct RawEntry {
    pub(crate) kind: String,
    pub(crate) kind_span: Span,
    pub(crate) instance: String,
    pub(crate) settings: Option<Node>,
    pub(crate) links: Vec<RawLink>,
    /// Condition under which it is there; templates only.
    pub(crate) when: Option<Node>,
}

/// An entry of `links:`.
#[derive(Debug)]
pub(crate) struct RawLink {
    pub(crate) label: String,
    pub(crate) label_span: Span,
    pub(crate) target: String,
    pub(crate) target_span: Span,
}

/// A file with several chains; what holds for it is read beside the chains.
#[derive(Default)]
pub(crate) struct RawFile {
    chains: Option<Node>,
    ports: Option<Node>,
}

/// A value that a definition of the schema describes.
fn defined(name: &str) -> Later {
    Later(json!({"$ref": format!("#/$defs/weir-{name}")}))
}

/// Keys of a file with several chains.
pub(crate) fn file_keys() -> Keys<RawFile> {
    let chains = json!({
        "type": "array",
        "minItems": 1,
        "maxItems": MAX_CHAINS,
        "items": {"$ref": "#/$defs/weir-chain"},
    });
    let about = "Several chains; a packet goes to the first that takes it.";
    let keys = Keys::<RawFile>::new("a mapping with `chain` and `nfs`", "")
        .key("chains", about, Later(chains), |file, chains| {
            file.chains = Some(chains)
        })
        .needed("list the chains of the file under `chains:`")
        .key("ports", "", defined("ports"), |file, ports| {
            file.ports = Some(ports)
        });
    of_file(keys)
}

/// The keys that hold for a file, which are read apart.
fn of_file<T>(keys: Keys<T>) -> Keys<T> {
    keys.key(
        NETWORK,
        "How weir stands in the network.",
        defined("network"),
        |_, _| {},
    )
    .key(
        THREADS,
        "The threads' cores, and whether they sleep.",
        defined("threads"),
        |_, _| {},
    )
    .key(
        PLACEMENT,
        "Which node runs on which thread of which process.",
        defined("placement"),
        |_, _| {},
    )
    .key(
        SETS,
        "Sets of addresses that rules name.",
        defined("sets"),
        |_, _| {},
    )
}

/// Keys of a chain; the only one of a file has those of the file, too.
pub(crate) fn chain_keys(alone: bool) -> Keys<RawChain> {
    let functions = json!({
        "type": "array",
        "minItems": 1,
        "maxItems": MAX_FUNCTIONS,
        "items": {"$ref": "#/$defs/weir-entry"},
    });
    let what = match alone {
        true => "a mapping with `chain` and `nfs`",
        false => "a chain: a mapping with `chain` and `nfs`",
    };
    let keys = Keys::<RawChain>::new(what, "")
        .key(
            "chain",
            "Name of the chain.",
            Placed(Name("the name of a chain")),
            |raw, name| {
                (raw.name, raw.name_span) = name;
            },
        )
        .needed("name the chain: `chain: edge`")
        .key("ports", "Named ports.", defined("ports"), |raw, ports| {
            raw.ports = Some(ports)
        })
        .key(
            "match",
            "Which packets the chain takes.",
            defined("selectors"),
            |raw, selector| raw.selector = Some(selector),
        )
        .key(
            "tenant",
            "Name of the tenant whom the chain is billed to; the composition's, or `default`, without it.",
            Name("the name of a tenant"),
            |raw, tenant| raw.tenant = Some(tenant),
        )
        .key(
            "flows",
            "How flows are kept.",
            defined("flows"),
            |raw, flows| {
                raw.flows = Some(flows);
            },
        )
        .key(
            "plan",
            "How the chain is compiled.",
            defined("plan"),
            |raw, plan| {
                raw.plan = Some(plan);
            },
        )
        .key(
            "nfs",
            "Functions and templates, in order.",
            Later(functions),
            |raw, nfs| {
                raw.nfs = Some(nfs);
            },
        )
        .needed("list the functions of the chain under `nfs:`");
    if alone {
        return of_file(keys).suggested("chains");
    }
    OF_FILE.into_iter().fold(keys, |keys, name| {
        let help = "write it beside `chains`: it holds for all of them";
        keys.elsewhere(name, "a key of one chain among several", help)
    })
}
/// The chains of a file.
pub(crate) fn read(root: &Node, report: &mut Report<'_>) -> Vec<RawChain> {
    if root.get("chains").is_none() {
        return chain(root, &chain_keys(true), report).into_iter().collect();
    }
    let file = file_keys().read(root, report).unwrap_or_default();
    let chains = file.chains.as_ref();
    let items = chains.and_then(|chains| read::list(chains, "a list of chains", report));
    let items = items.unwrap_or(&[]);
    if let Some(item) = items.get(MAX_CHAINS) {
        report.error(item.span, format!("more than {MAX_CHAINS} chains"));
        return Vec::new();
    }
    let keys = chain_keys(false);
    let mut out: Vec<RawChain> = Vec::new();
    for item in items {
        let Some(mut chain) = chain(item, &keys, report) else {
            continue;
        };
        if chain.ports.is_none() {
            chain.ports.clone_from(&file.ports);
        }
        if let Some(first) = out.iter().find(|other| other.name == chain.name) {
            let first = report.texts.line(first.name_span);
            report.error_help(
                chain.name_span,
                format!("the chain `{}` is here twice", chain.name),
                format!("the first one is at {first}: give each a name of its own"),
            );
        }
        out.push(chain);
    }
    out
}

fn chain(node: &Node, keys: &Keys<RawChain>, report: &mut Report<'_>) -> Option<RawChain> {
    let mut raw = keys.read(node, report)?;
    if raw.name.is_empty() {
        raw.name_span = node.get("chain").map_or(node.span, |name| name.span);
    }
    if let Some(functions) = raw.nfs.take() {
        raw.entries = entries(&functions, Form::Chain, report);
    }
    Some(raw)
}

/// A list of entries, each with a name of its own.
pub(crate) fn entries(node: &Node, form: Form, report: &mut Report<'_>) -> Vec<RawEntry> {
    let (what, most, help, one) = match form {
        Form::Chain => (
            "a list of functions, one at least",
            "functions: a chain has at most",
            "split it into several chains",
            "begin each with a dash: `- ip-check`, or `- NAME: {settings}`",
        ),
        Form::Template => (
            "a list of processors, one at least",
            "processors: a template has at most",
            "split it into several templates",
            "begin each with a dash: `- ip-check`, or `- NAME: {settings}`",
        ),
    };
    let items = read::list_help(node, what, one, report).unwrap_or(&[]);
    if let Some(item) = items.get(MAX_FUNCTIONS) {
        let message = format!("{} {most} {MAX_FUNCTIONS}", items.len());
        report.error_help(item.span, message, help);
        return Vec::new();
    }
    let entries: Vec<(RawEntry, Option<Node>)> = items
        .iter()
        .filter_map(|item| entry(item, form, report))
        .collect();
    name_instances(entries, report)
}

/// An entry and its `as`.
fn entry(item: &Node, form: Form, report: &mut Report<'_>) -> Option<(RawEntry, Option<Node>)> {
    let bare = |name: &str, span: Span| RawEntry {
        kind: name.to_owned(),
        kind_span: span,
        instance: String::new(),
        settings: None,
        links: Vec::new(),
        when: None,
    };
    let Some(keys) = item.entries() else {
        let what = "the name of a function, or `NAME: {settings}`";
        let name = read::word(item, what, report)?;
        return Some((bare(name, item.span), None));
    };
    let mut functions = keys
        .iter()
        .filter(|(key, _)| !form.has_key(key.text().unwrap_or("")));
    let Some((key, settings)) = functions.next() else {
        report.error_help(
            item.span,
            "an entry that names no function",
            "write `- NAME`, or `- NAME: {settings}`",
        );
        return None;
    };
    let mut raw = bare(key.text().unwrap_or(""), key.span);
    if !settings.is_null() {
        raw.settings = Some(settings.clone());
    }
    for (other, _) in functions {
        let name = shorten(other.text().unwrap_or(""));
        report.error_help(
            other.span,
            format!("unknown key `{name}` beside the function `{}`", raw.kind),
            format!(
                "settings are indented under `{}:`; beside it are {}; \
                 another function begins with `- `",
                raw.kind,
                form.keys_text()
            ),
        );
    }
    if form == Form::Template {
        raw.when = item.get("when").cloned();
    }
    if let Some(links) = item.get("links") {
        let what = "a mapping of labels like `{pass: out}`";
        if links.entries().is_none() {
            let help = "write `links: {LABEL: TARGET}`, or leave it out: packets go on to the next";
            report.expected_help(links, what, help);
        }
        for (label, target) in links.entries().unwrap_or(&[]) {
            let what = match form {
                Form::Chain => "an instance, `out` or `drop`",
                Form::Template => "a processor, `exit LABEL` or `drop`",
            };
            let Some(to) = read::word(target, what, report) else {
                continue;
            };
            raw.links.push(RawLink {
                label: label.text().unwrap_or("").to_owned(),
                label_span: label.span,
                target: to.to_owned(),
                target_span: target.span,
            });
        }
    }
    Some((raw, item.get("as").cloned()))
}

/// Gives each entry its own name: the one after `as`, else the function's, with
/// a number where that is taken.
fn name_instances(
    entries: Vec<(RawEntry, Option<Node>)>,
    report: &mut Report<'_>,
) -> Vec<RawEntry> {
    let mut taken: BTreeSet<String> = RESERVED.map(str::to_owned).into();
    let mut out: Vec<RawEntry> = Vec::new();
    for (mut entry, given) in entries {
        if let Some(node) = given
            && let Some(name) = read::name(&node, "the name of an instance", report)
        {
            if RESERVED.contains(&name) {
                report.error_help(
                    node.span,
                    format!("an instance can't be called `{name}`: the word has a meaning here"),
                    "choose another name",
                );
            } else if !taken.insert(name.to_owned()) {
                report.error_help(
                    node.span,
                    format!("the instance `{name}` is here twice"),
                    "give each entry a name of its own",
                );
            } else {
                entry.instance = name.to_owned();
            }
        }
        out.push(entry);
    }
    for entry in &mut out {
        if !entry.instance.is_empty() {
            continue;
        }
        let mut name = entry.kind.clone();
        let mut number = 2;
        while !taken.insert(name.clone()) {
            name = format!("{}-{number}", entry.kind);
            number += 1;
        }
        entry.instance = name;
    }
    out
}
