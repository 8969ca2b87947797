//! Settings given beside the file: `--set firewall.default=drop`.

use core::str::FromStr;

use crate::diagnostic::{Report, Span, Texts};
use crate::nearest::suggestion;
use crate::raw::RawChain;
use crate::tree::{self, Node, Value, shorten};

/// A setting that wins over the file's.
///
/// The path is `INSTANCE.KEY`, deeper as `INSTANCE.KEY.KEY` or
/// `INSTANCE.KEY[2]`; `flows.KEY` is a chain's `flows`. It is meant for every
/// chain of the file that has the instance; `CHAIN.INSTANCE.KEY` is for one.
///
/// ```
/// let set: weir_graph::Override = "firewall.default=drop".parse()?;
/// assert_eq!((set.path.as_str(), set.value.as_str()), ("firewall.default", "drop"));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Which setting.
    pub path: String,
    /// Its value, as YAML.
    pub value: String,
}

impl FromStr for Override {
    type Err = String;

    fn from_str(text: &str) -> Result<Override, String> {
        match text.split_once('=') {
            Some((path, value)) if !path.is_empty() => Ok(Override {
                path: path.to_owned(),
                value: value.to_owned(),
            }),
            _ => Err(format!(
                "`{}` is no setting: write one like `firewall.default=drop`",
                shorten(text)
            )),
        }
    }
}

/// A part of a path and the octets where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String, core::ops::Range<usize>),
    Index(usize, core::ops::Range<usize>),
}

/// Reads `a.b[2].c`; `None` where it is no path.
pub(crate) fn path(text: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut at = 0;
    for part in text.split('.') {
        let (key, mut rest) = part.split_at(part.find('[').unwrap_or(part.len()));
        if key.is_empty() {
            return None;
        }
        steps.push(Step::Key(key.to_owned(), at..at + key.len()));
        let mut inside = at + key.len();
        while !rest.is_empty() {
            let (index, tail) = rest.strip_prefix('[')?.split_once(']')?;
            let length = index.len() + 2;
            steps.push(Step::Index(index.parse().ok()?, inside..inside + length));
            inside += length;
            rest = tail;
        }
        at += part.len() + 1;
    }
    Some(steps)
}

/// Adds the overrides to the texts of a load; what [`apply`] needs of them.
pub(crate) fn texts(overrides: &[Override], texts: &mut Texts) -> Vec<u32> {
    overrides
        .iter()
        .map(|set| {
            let shown = format!("{}={}", set.path, set.value);
            texts.add(format!("--set {}", set.path), shown)
        })
        .collect()
}

/// Writes the overrides into the chains.
pub(crate) fn apply(
    overrides: &[Override],
    texts: &[u32],
    chains: &mut [RawChain],
    report: &mut Report<'_>,
) {
    for (set, &text) in overrides.iter().zip(texts) {
        one(set, text, chains, report);
    }
}

fn one(set: &Override, text: u32, chains: &mut [RawChain], report: &mut Report<'_>) {
    let span = |range: core::ops::Range<usize>| Span {
        text,
        start: range.start as u32,
        end: range.end as u32,
    };
    let whole = span(0..set.path.len());
    let Some(steps) = path(&set.path) else {
        report.error_help(
            whole,
            format!("`{}` is not the path of a setting", shorten(&set.path)),
            "write one like `firewall.default` or `firewall.rules[0].action`",
        );
        return;
    };
    let offset = set.path.len() + 1;
    let before = report.errors();
    let Some(value) = tree::parse_at(text, &set.value, offset, report) else {
        if report.errors() == before {
            report.error(whole, format!("no value is given for `{}`", set.path));
        }
        return;
    };

    let (only, owner, owner_span, rest) = owner_of(&steps, chains, &span);
    let is_meant = |chain: &&RawChain| only.is_none_or(|only| chain.name == only);
    let meant: Vec<&RawChain> = chains.iter().filter(is_meant).collect();
    if !owner.is_empty() && !meant.iter().any(|chain| has(chain, owner)) {
        let entries = meant.iter().flat_map(|chain| &chain.entries);
        let names = entries.map(|entry| entry.instance.as_str());
        let names: Vec<&str> = names.chain(["flows"]).collect();
        let message = format!("there is no instance `{}` in the chain", shorten(owner));
        let help = suggestion(owner, "instances", &names).unwrap_or_default();
        report.error_help(owner_span, message, help);
        return;
    }
    if rest.is_empty() {
        report.error_help(
            whole,
            format!("`{}` names no setting", set.path),
            format!("write `{}.KEY=VALUE`", set.path),
        );
        return;
    }
    let mut failed = None;
    for chain in chains.iter_mut() {
        if only.is_some_and(|only| chain.name != only) {
            continue;
        }
        let places = chain
            .entries
            .iter_mut()
            .filter(|entry| entry.instance == owner)
            .map(|entry| &mut entry.settings)
            .chain((owner == "flows").then_some(&mut chain.flows));
        for place in places {
            // All of it or nothing: a half-written setting gives errors of its own.
            let mut root = place.clone().unwrap_or_else(|| null(owner_span));
            match write(&mut root, rest, &value, &span) {
                Ok(()) => *place = Some(root),
                Err(problem) => failed = failed.or(Some(problem)),
            }
        }
    }
    if let Some((range, message)) = failed {
        report.error(span(range), message);
    }
}

/// True if the chain has an instance of this name, or `flows` is meant.
fn has(chain: &RawChain, name: &str) -> bool {
    name == "flows" || chain.entries.iter().any(|entry| entry.instance == name)
}

/// The chain that a path names, if it names one; the instance whose setting it is, empty for none, and
/// its place; and the path from there on. The path begins with an instance of any chain, or else with a
/// chain and its instance.
fn owner_of<'p>(
    steps: &'p [Step],
    chains: &[RawChain],
    span: &impl Fn(core::ops::Range<usize>) -> Span,
) -> (Option<&'p str>, &'p str, Span, &'p [Step]) {
    let key = |at: usize| match steps.get(at) {
        Some(Step::Key(key, range)) => Some((key.as_str(), span(range.clone()))),
        _ => None,
    };
    let rest = |from: usize| steps.get(from..).unwrap_or(&[]);
    let (first, first_span) = key(0).expect("a path begins with a key");
    let is_chain = chains.iter().any(|chain| chain.name == first);
    if chains.iter().any(|chain| has(chain, first)) || !is_chain {
        return (None, first, first_span, rest(1));
    }
    match key(1) {
        Some((second, span)) => (Some(first), second, span, rest(2)),
        None => (Some(first), "", first_span, &[]),
    }
}

fn null(span: Span) -> Node {
    Node {
        value: Value::Scalar {
            text: String::new(),
            plain: true,
        },
        span,
    }
}

type Problem = (core::ops::Range<usize>, String);

fn write(
    node: &mut Node,
    steps: &[Step],
    value: &Node,
    span: &dyn Fn(core::ops::Range<usize>) -> Span,
) -> Result<(), Problem> {
    let Some((step, rest)) = steps.split_first() else {
        *node = value.clone();
        return Ok(());
    };
    match step {
        Step::Key(key, range) => {
            if node.is_null() {
                node.value = Value::Map(Vec::new());
                node.span = span(range.clone());
            }
            let found = node.kind();
            let Value::Map(entries) = &mut node.value else {
                let message = format!("`{key}` is looked for in a mapping, but there is {found}");
                return Err((range.clone(), message));
            };
            let here = span(range.clone());
            let place = match entries.iter().position(|(k, _)| k.text() == Some(key)) {
                Some(place) => place,
                None => {
                    entries.push((Node::scalar(key, here), null(here)));
                    entries.len() - 1
                }
            };
            match entries.get_mut(place) {
                Some((_, inner)) => write(inner, rest, value, span),
                None => Ok(()),
            }
        }
        Step::Index(index, range) => {
            let problem = match &mut node.value {
                Value::List(items) => match items.get_mut(*index) {
                    Some(inner) => return write(inner, rest, value, span),
                    None => format!("there is no entry {index}: the list has {}", items.len()),
                },
                _ => format!(
                    "entry {index} of a list is meant, but there is {}",
                    node.kind()
                ),
            };
            Err((range.clone(), problem))
        }
    }
}

/// The place of the setting at `steps`, or of the nearest one around it.
pub(crate) fn locate(settings: &Node, steps: &[Step]) -> Option<Span> {
    let mut node = settings;
    let mut found = None;
    for step in steps {
        let inner = match (step, &node.value) {
            (Step::Key(key, _), Value::Map(_)) => node.get(key),
            (Step::Index(index, _), Value::List(items)) => items.get(*index),
            _ => None,
        };
        let Some(inner) = inner else {
            break;
        };
        found = Some(inner.span);
        node = inner;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_paths() {
        let steps = path("rules[2].source").unwrap();
        assert_eq!(
            steps,
            [
                Step::Key("rules".into(), 0..5),
                Step::Index(2, 5..8),
                Step::Key("source".into(), 9..15)
            ]
        );
        for bad in ["", "a.", ".a", "a[", "a[x]", "a[1]b", "a..b"] {
            assert_eq!(path(bad), None, "{bad}");
        }
        assert!("novalue".parse::<Override>().is_err());
    }
}
