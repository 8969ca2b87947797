//! Values of the `$NAME`s that rules use, out of a `suricata.yaml` or a chain file.

use std::collections::BTreeMap;

use crate::diagnostic::{Diagnostic, Report, Span, Texts};
use crate::tree::Node;
use crate::{raw, tree};

/// Name of the function whose settings have `vars`.
const IDS: &str = "ids";

/// Name → value, and the place of the value.
type Found = BTreeMap<String, (String, Span)>;

/// The `vars` of a `suricata.yaml`: those of `address-groups` and of `port-groups`. Nothing else of the file is
/// read.
///
/// # Errors
///
/// What is wrong with that part of the file, also that it is missing.
pub fn suricata_variables(
    name: &str,
    text: &str,
) -> Result<BTreeMap<String, String>, Vec<Diagnostic>> {
    read(name, text, |file, text, report| {
        let Some(part) = section(text, "vars:") else {
            report.error_help(
                Span::start_of(file),
                "there are no `vars`",
                "name a file with `vars:` at the beginning of a line, as Suricata's own has it",
            );
            return Found::new();
        };
        let part_text = text.get(part.clone()).unwrap_or("");
        let root = tree::parse_at(file, part_text, part.start, report);
        let mut found = Found::new();
        for (group, ports) in [("address-groups", false), ("port-groups", true)] {
            let Some(node) = root.as_ref().and_then(|root| root.get("vars")?.get(group)) else {
                continue;
            };
            for (name, (value, span)) in values(node, report) {
                let said_ports = name.ends_with("_PORTS") || name.ends_with("_PORT");
                if said_ports == ports {
                    found.insert(name, (value, span));
                    continue;
                }
                report.error_help(
                    span,
                    format!("`{name}` can't be a name in `{group}` here"),
                    "weir takes names that end in `_PORTS` or `_PORT` for ports, all others for addresses",
                );
            }
        }
        found
    })
}

/// The `vars` of the `ids` functions of a chain file; templates are not looked into.
///
/// # Errors
///
/// What is wrong with the file, also that two functions give a name different values.
pub fn chain_variables(
    name: &str,
    text: &str,
) -> Result<BTreeMap<String, String>, Vec<Diagnostic>> {
    read(name, text, |file, text, report| {
        let mut found = Found::new();
        let Some(root) = tree::parse(file, text, report) else {
            return found;
        };
        let chains = raw::read(&root, report);
        for entry in chains.iter().flat_map(|chain| &chain.entries) {
            let settings = entry.settings.as_ref().filter(|_| entry.kind == IDS);
            let Some(vars) = settings.and_then(|settings| settings.get("vars")) else {
                continue;
            };
            for (name, (value, span)) in values(vars, report) {
                match found.get(&name) {
                    Some((other, first)) if *other != value => {
                        let first = report.texts.line(*first);
                        report.error_help(
                            span,
                            format!("`{name}` has another value at {first}"),
                            "rules are checked with one value of each name: give it with `--var`",
                        );
                    }
                    _ => {
                        found.insert(name, (value, span));
                    }
                }
            }
        }
        found
    })
}

/// Reads a text, and drops the places of what was found.
fn read(
    name: &str,
    text: &str,
    what: impl FnOnce(u32, &str, &mut Report<'_>) -> Found,
) -> Result<BTreeMap<String, String>, Vec<Diagnostic>> {
    let (texts, file, text) = Texts::of(name, text);
    let mut report = Report::new(&texts);
    let found = what(file, text, &mut report);
    if report.errors() > 0 {
        return Err(report.finish());
    }
    let plain = |(name, (value, _))| (name, value);
    Ok(found.into_iter().map(plain).collect())
}

/// The lines of a key at the beginning of a line, up to the next one that begins with something else than space
/// or a comment.
fn section(text: &str, key: &str) -> Option<core::ops::Range<usize>> {
    let mut start = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        match start {
            None if line.starts_with(key) => start = Some(at),
            Some(start) if !line.starts_with([' ', '\t', '#', '\r', '\n']) => {
                return Some(start..at);
            }
            _ => {}
        }
        at += line.len();
    }
    Some(start?..at)
}

/// The entries of a mapping of texts.
fn values(node: &Node, report: &mut Report<'_>) -> Vec<(String, (String, Span))> {
    let Some(entries) = node.entries() else {
        if !node.is_null() {
            let message = format!(
                "expected a mapping of names to values, found {}",
                node.kind()
            );
            report.error(node.span, message);
        }
        return Vec::new();
    };
    let mut all = Vec::new();
    for (name, value) in entries {
        match (name.text(), value.text()) {
            (Some(name), Some(text)) => all.push((name.to_owned(), (text.to_owned(), value.span))),
            _ => report.error_help(
                value.span,
                format!("expected a value in quotes, found {}", value.kind()),
                "write a list in quotes: `\"[10.0.0.0/8,192.168.0.0/16]\"`",
            ),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const SURICATA: &str = "%YAML 1.1\n---\nsuricata-version: \"7.0\"\nvars:\n  # more specific is better\n  \
        address-groups:\n    HOME_NET: \"[10.0.0.0/8]\"\n    #HOME_NET: \"any\"\n\n    EXTERNAL_NET: \"!$HOME_NET\"\n\
        \n  port-groups:\n    HTTP_PORTS: \"80\"\n    DNP3_PORTS: 20000\n\n# Linux\ndefault-log-dir: yes\n";

    #[test]
    fn groups_of_a_suricata_yaml_are_read() {
        let found = suricata_variables("s.yaml", SURICATA).unwrap();
        let found: Vec<(&str, &str)> = found
            .iter()
            .map(|(n, v)| (n.as_str(), v.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("DNP3_PORTS", "20000"),
                ("EXTERNAL_NET", "!$HOME_NET"),
                ("HOME_NET", "[10.0.0.0/8]"),
                ("HTTP_PORTS", "80")
            ]
        );
    }

    #[test]
    fn what_can_not_be_is_told_with_its_line() {
        let list = SURICATA.replace("\"[10.0.0.0/8]\"", "[10.0.0.0/8]");
        let errors = suricata_variables("s.yaml", &list).unwrap_err();
        assert_eq!((errors.len(), errors[0].line), (1, 7), "{errors:?}");
        let name = SURICATA.replace("DNP3_PORTS", "MINE");
        let errors = suricata_variables("s.yaml", &name).unwrap_err();
        assert_eq!((errors.len(), errors[0].line), (1, 14), "{errors:?}");
        let errors = suricata_variables("s.yaml", "outputs: []\n").unwrap_err();
        assert!(errors[0].message.contains("no `vars`"), "{errors:?}");
    }

    #[test]
    fn vars_of_a_chain_file_are_read() {
        let chain = "chain: a\nnfs:\n  - monitor\n  - ids: {vars: {HOME_NET: 10.0.0.0/8}}\n";
        let found = chain_variables("c.yaml", chain).unwrap();
        assert_eq!(
            found.get("HOME_NET").map(String::as_str),
            Some("10.0.0.0/8")
        );
        let two = format!("{chain}  - ids: {{vars: {{HOME_NET: any}}}}\n    as: second\n");
        let errors = chain_variables("c.yaml", &two).unwrap_err();
        assert_eq!((errors.len(), errors[0].line), (1, 5), "{errors:?}");
    }
}
