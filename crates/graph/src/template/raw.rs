//! A template as written.

use serde_json::{Value as Json, json};

use crate::diagnostic::{Report, Span};
use crate::form::{Form as _, Later, Name, Placed, Text};
use crate::keys::Keys;
use crate::links::PASS;
use crate::raw::{Form, MAX_FUNCTIONS, RawEntry};
use crate::template::setting::{self, Setting};
use crate::tree::{self, Node, shorten};
use crate::{raw, read};

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

/// A template as written.
#[derive(Default)]
pub(crate) struct Written {
    name: Option<(String, Span)>,
    summary: String,
    manual: String,
    settings: Option<Node>,
    labels: Option<Node>,
    processors: Option<Node>,
}

/// Keys of a template.
pub(crate) fn keys() -> Keys<Written> {
    let name = json!({"$ref": "#/$defs/weir-name"});
    let label = json!({"$ref": "#/$defs/weir-name", "not": {"const": PASS}});
    let mapping = |most: usize, names: &Json, values: Json| {
        Later(json!({"anyOf": [{"type": "null"}, {
            "type": "object",
            "maxProperties": most,
            "propertyNames": names,
            "additionalProperties": values,
        }]}))
    };
    let settings = mapping(MAX_SETTINGS, &name, setting::schema());
    let labels = mapping(MAX_LABELS, &label, json!({"type": ["string", "null"]}));
    let processors = json!({
        "type": "array",
        "minItems": 1,
        "maxItems": MAX_FUNCTIONS,
        "items": {"anyOf": [
            {"type": "string", "description": "A function or template."},
            {"$ref": "#/$defs/processor"},
        ]},
    });
    let what = "a template: a mapping with `template` and `processors`";
    Keys::<Written>::new(
        what,
        "A network function that is a small graph of processors.",
    )
    .key(
        "template",
        "Its name.",
        Placed(Name("the name of a template")),
        |w, name| {
            w.name = Some(name);
        },
    )
    .needed("name the template: `template: application-firewall`")
    .key("summary", "One line about it.", Text, |w, text| {
        w.summary = text
    })
    .key("manual", "What its users should know.", Text, |w, text| {
        w.manual = text
    })
    .key(
        "settings",
        "What a chain may set.",
        settings,
        |w, settings| {
            w.settings = Some(settings);
        },
    )
    .key(
        "labels",
        "Ways out beside `pass`, and what leaves by them.",
        labels,
        |w, labels| w.labels = Some(labels),
    )
    .key(
        "processors",
        "What it is made of, in order.",
        Later(processors),
        |w, processors| w.processors = Some(processors),
    )
    .needed("list what the template is made of under `processors:`")
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
    let Some(root) = tree::parse_at(text, source, offset, report).filter(|root| !root.is_null())
    else {
        if report.errors() == before {
            let start = Span::start_of(text);
            report.error_help(
                start,
                "there is no template in this file",
                "write `template: NAME`, and its processors in a list under `processors:`",
            );
        }
        return None;
    };
    let written = keys().read(&root, report)?;
    let entries = match &written.processors {
        Some(list) => raw::entries(list, Form::Template, report),
        None => Vec::new(),
    };
    let settings = settings(written.settings.as_ref(), report);
    let labels = labels(written.labels.as_ref(), report);
    let (name, name_span) = written.name?;
    Some(Template {
        name,
        name_span,
        summary: written.summary,
        manual: written.manual,
        settings,
        labels,
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
