//! Small readers of nodes that report what they can't read.

use core::ops::RangeInclusive;

use crate::diagnostic::{Report, Span};
use crate::nearest::{listed, suggestion};
use crate::tree::{Node, Value, shorten};

/// Longest name of a chain, an instance or a port.
pub(crate) const LONGEST_NAME: usize = 64;

impl Report<'_> {
    pub(crate) fn expected(&mut self, node: &Node, what: &str) {
        self.error(node.span, format!("expected {what}, found {}", node.kind()));
    }

    pub(crate) fn expected_help(&mut self, node: &Node, what: &str, help: &str) {
        let message = format!("expected {what}, found {}", found(node));
        self.error_help(node.span, message, help);
    }

    pub(crate) fn unknown_key(&mut self, key: &Node, known: &[&str]) {
        let name = key.text().unwrap_or("");
        if name.is_empty() || name == "<<" {
            return; // reported where it was read
        }
        if self.full() {
            return self.error(key.span, "");
        }
        let message = format!("unknown key `{}`", shorten(name));
        match suggestion(name, "keys here", known) {
            Some(help) => self.error_help(key.span, message, help),
            None => self.error(key.span, message),
        }
    }
}

/// The entries of a mapping.
pub(crate) fn map<'n>(
    node: &'n Node,
    what: &str,
    report: &mut Report<'_>,
) -> Option<&'n [(Node, Node)]> {
    let entries = node.entries();
    if entries.is_none() {
        report.expected(node, what);
    }
    entries
}

/// Name of a node's kind, for messages: an empty list is called so.
fn found(node: &Node) -> String {
    match &node.value {
        Value::List(items) if items.is_empty() => "an empty list".to_owned(),
        _ => node.kind().to_string(),
    }
}

/// The items of a list that is not empty, or else what to write.
pub(crate) fn list_help<'n>(
    node: &'n Node,
    what: &str,
    help: &str,
    report: &mut Report<'_>,
) -> Option<&'n [Node]> {
    match &node.value {
        Value::List(items) if !items.is_empty() => Some(items),
        _ => {
            report.expected_help(node, what, help);
            None
        }
    }
}

/// The items of a list that is not empty.
pub(crate) fn list<'n>(node: &'n Node, what: &str, report: &mut Report<'_>) -> Option<&'n [Node]> {
    match &node.value {
        Value::List(items) if items.is_empty() => {
            report.error(node.span, format!("expected {what}, found an empty list"));
            None
        }
        Value::List(items) => Some(items),
        _ => {
            report.expected(node, what);
            None
        }
    }
}

/// The items of a list, or the one value that stands for them.
pub(crate) fn items(node: &Node) -> &[Node] {
    match &node.value {
        Value::List(items) => items,
        _ => core::slice::from_ref(node),
    }
}

/// One value, or a list of some.
pub(crate) fn one_or_more<'n>(
    node: &'n Node,
    what: &str,
    report: &mut Report<'_>,
) -> Option<&'n [Node]> {
    match &node.value {
        Value::List(_) => list(node, what, report),
        _ => Some(core::slice::from_ref(node)),
    }
}

/// A word.
pub(crate) fn word<'n>(node: &'n Node, what: &str, report: &mut Report<'_>) -> Option<&'n str> {
    match node.text() {
        Some(text) if !node.is_null() => Some(text),
        _ => {
            report.expected(node, what);
            None
        }
    }
}

/// A name that may be a part of `--set` paths, drop reasons and file names.
pub(crate) fn name<'n>(node: &'n Node, what: &str, report: &mut Report<'_>) -> Option<&'n str> {
    let text = word(node, what, report)?;
    let good = text.len() <= LONGEST_NAME
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|octet| octet.is_ascii_alphanumeric() || octet == b'-' || octet == b'_');
    if !good {
        report.error_help(
            node.span,
            format!("`{}` can't be {what}", shorten(text)),
            format!(
                "names have letters, digits, `-` and `_`, start with a letter or digit, \
                 and are at most {LONGEST_NAME} long"
            ),
        );
        return None;
    }
    Some(text)
}

/// A whole number.
pub(crate) fn integer(
    node: &Node,
    range: RangeInclusive<u64>,
    report: &mut Report<'_>,
) -> Option<u64> {
    if let Value::Scalar { text, plain: true } = &node.value
        && let Ok(number) = text.parse::<u64>()
        && range.contains(&number)
    {
        return Some(number);
    }
    let what = format!("a whole number from {} to {}", range.start(), range.end());
    report.expected(node, &what);
    None
}

/// `true` or `false`.
pub(crate) fn boolean(node: &Node, report: &mut Report<'_>) -> Option<bool> {
    match &node.value {
        Value::Scalar { text, plain: true } if text == "true" => Some(true),
        Value::Scalar { text, plain: true } if text == "false" => Some(false),
        _ => {
            report.expected(node, "`true` or `false`");
            None
        }
    }
}

/// One of some words.
pub(crate) fn choice<T: Copy>(
    node: &Node,
    choices: &[(&str, T)],
    report: &mut Report<'_>,
) -> Option<T> {
    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    let text = word(node, &format!("one of {}", listed(&names)), report)?;
    let found = choices.iter().find(|(name, _)| *name == text);
    if found.is_none() {
        if report.full() {
            report.error(node.span, "");
            return None;
        }
        report.error_help(
            node.span,
            format!("`{}` is not one of the values here", shorten(text)),
            suggestion(text, "values", &names).unwrap_or_default(),
        );
    }
    found.map(|(_, value)| *value)
}

/// Reports what a unit or the like can't read.
pub(crate) fn parsed<T>(
    span: Span,
    result: Result<T, String>,
    report: &mut Report<'_>,
) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(message) => {
            report.error(span, message);
            None
        }
    }
}
