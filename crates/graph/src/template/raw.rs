//! A template as written.

use crate::diagnostic::{Report, Span};
use crate::links::PASS;
use crate::raw::{Form, MAX_FUNCTIONS, RawEntry};
use crate::template::setting::Setting;
use crate::tree::{self, Node, shorten};
use crate::{raw, read};

/// Keys of a template.
pub(crate) const KEYS: [&str; 6] = [
    "template",
    "summary",
    "manual",
    "settings",
    "labels",
    "processors",
];
/// Most labels of a template beside `pass`.
pub(crate) const MAX_LABELS: usize = 16;
/// Most settings of a template.
pub(crate) const MAX_SETTINGS: usize = 64;

/// A template.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) name: String,
    pub(crate) name_span: Span,
    pub(crate) summary: String,
    pub(crate) manual: String,
    pub(crate) settings: Vec<Setting>,
    pub(crate) labels: Vec<Label>,
    pub(crate) entries: Vec<RawEntry>,
}

/// A way out of a template beside `pass`.
#[derive(Debug)]
pub(crate) struct Label {
    pub(crate) name: String,
    pub(crate) span: Span,
    pub(crate) description: String,
}

impl Template {
    pub(crate) fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.name == name)
    }

    pub(crate) fn setting_names(&self) -> Vec<&str> {
        self.settings.iter().map(|s| s.name.as_str()).collect()
    }

    /// Its labels behind `pass`.
    pub(crate) fn label_names(&self) -> Vec<&str> {
        self.labels.iter().map(|l| l.name.as_str()).collect()
    }
}

/// Reads a template. `None` where it can't even be told what it is called.
pub(crate) fn parse(text: u32, report: &mut Report<'_>) -> Option<Template> {
    let source = report.texts.text(text);
    // A byte order mark is no part of the first line.
    let (offset, source) = match source.strip_prefix('\u{feff}') {
        Some(rest) => (source.len() - rest.len(), rest),
        None => (0, source),
    };
    let before = report.errors();
    let what = "a template: a mapping with `template` and `processors`";
    let Some(root) = tree::parse_at(text, source, offset, report).filter(|root| !root.is_null())
    else {
        if report.errors() == before {
            let start = Span {
                text,
                start: 0,
                end: 0,
            };
            report.error_help(
                start,
                "there is no template in this file",
                "write `template: NAME`, and its processors in a list under `processors:`",
            );
        }
        return None;
    };
    let keys = read::map(&root, what, report)?;
    for (key, _) in keys {
        if !KEYS.contains(&key.text().unwrap_or("")) {
            report.unknown_key(key, &KEYS);
        }
    }
    let head = keys.first().map_or(root.span, |(key, _)| key.span);
    let Some(name) = root.get("template") else {
        report.error_help(
            head,
            "the key `template` is missing",
            "name the template: `template: application-firewall`",
        );
        return None;
    };
    let text_of = |key: &str, report: &mut Report<'_>| match root.get(key) {
        Some(node) => read::word(node, "text", report).unwrap_or("").trim().into(),
        None => String::new(),
    };
    let entries = match root.get("processors") {
        Some(list) => raw::entries(list, Form::Template, report),
        None => {
            report.error_help(
                name.span,
                "the key `processors` is missing",
                "list what the template is made of under `processors:`",
            );
            Vec::new()
        }
    };
    Some(Template {
        name: read::name(name, "the name of a template", report)?.to_owned(),
        name_span: name.span,
        summary: text_of("summary", report),
        manual: text_of("manual", report),
        settings: settings(root.get("settings"), report),
        labels: labels(root.get("labels"), report),
        entries,
    })
}

fn settings(node: Option<&Node>, report: &mut Report<'_>) -> Vec<Setting> {
    let Some(node) = node.filter(|node| !node.is_null()) else {
        return Vec::new();
    };
    let what = "a mapping of settings, each with its `type`";
    let entries = read::map(node, what, report).unwrap_or(&[]);
    if let Some((key, _)) = entries.get(MAX_SETTINGS) {
        report.error(key.span, format!("more than {MAX_SETTINGS} settings"));
        return Vec::new();
    }
    entries
        .iter()
        .filter_map(|(name, value)| Setting::read(name, value, report))
        .collect()
}

fn labels(node: Option<&Node>, report: &mut Report<'_>) -> Vec<Label> {
    let Some(node) = node.filter(|node| !node.is_null()) else {
        return Vec::new();
    };
    let what = "a mapping of labels and what leaves by them";
    let entries = read::map(node, what, report).unwrap_or(&[]);
    if let Some((key, _)) = entries.get(MAX_LABELS) {
        report.error(key.span, format!("more than {MAX_LABELS} labels"));
        return Vec::new();
    }
    let mut out = Vec::new();
    for (key, value) in entries {
        let Some(name) = read::name(key, "the name of a label", report) else {
            continue;
        };
        if name == PASS {
            report.error_help(
                key.span,
                format!("the label `{}` is there without a word", shorten(name)),
                "leave it out: `exit pass` leads to it",
            );
            continue;
        }
        out.push(Label {
            name: name.to_owned(),
            span: key.span,
            description: match value.is_null() {
                true => String::new(),
                false => read::word(value, "text", report)
                    .unwrap_or("")
                    .trim()
                    .to_owned(),
            },
        });
    }
    out
}

/// Most processors of a template.
pub(crate) const MAX_PROCESSORS: usize = MAX_FUNCTIONS;
