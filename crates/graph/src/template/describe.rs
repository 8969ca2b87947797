//! Descriptions of templates, for `weir nf`.

use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use weir_nf::host::Kind;

use crate::diagnostic::{Diagnostic, Report, Texts};
use crate::links;
use crate::links::{Exits, PASS, To};
use crate::raw::RawEntry;
use crate::template::canonical::{canonical, json as json_of};
use crate::template::expand::{labels, of};
use crate::template::library::Library;
use crate::template::raw::Template;
use crate::template::{Templates, check, schema, setting};
use crate::tree::{Node, Value};

/// A template.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TemplateDescription {
    /// Its name.
    pub name: String,
    /// Its file; `weir:…` where it comes with weir.
    pub file: String,
    /// One line about it.
    pub summary: String,
    /// Manual by its author.
    pub manual: String,
    /// Its settings.
    pub settings: Vec<SettingDescription>,
    /// Its labels, without `pass`.
    pub labels: Vec<TemplateLabel>,
    /// Its processors.
    pub processors: Vec<TemplateProcessor>,
}

impl TemplateDescription {
    /// JSON Schema of its settings.
    pub(crate) fn settings_schema(&self) -> Json {
        let properties: Map<String, Json> = self
            .settings
            .iter()
            .map(|setting| (setting.name.clone(), setting.schema.clone()))
            .collect();
        let required: Vec<&str> = self
            .settings
            .iter()
            .filter(|setting| setting.required)
            .map(|setting| setting.name.as_str())
            .collect();
        let mut schema = json!({
            "type": "object",
            "additionalProperties": false,
            "properties": properties,
        });
        if let (Json::Object(keys), false) = (&mut schema, required.is_empty()) {
            keys.insert("required".to_owned(), json!(required));
        }
        schema
    }
}

/// A setting of a template.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SettingDescription {
    /// Its name.
    pub name: String,
    /// Its type in words.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its value where none is given; none where it then has none.
    pub default: Option<Json>,
    /// True if one must be given.
    pub required: bool,
    /// Purpose of the setting.
    pub description: String,
    /// JSON Schema of its values.
    #[serde(skip)]
    pub schema: Json,
}

/// A label of a template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TemplateLabel {
    /// Its name.
    pub name: String,
    /// Packets that leave by it.
    pub description: String,
}

/// A processor of a template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TemplateProcessor {
    /// Its name in the template.
    pub name: String,
    /// The function or template.
    pub nf: String,
    /// Its settings as JSON with sorted keys, with `$name` where a setting of
    /// the template is put in; empty for none.
    pub settings: String,
    /// The condition under which it is there, in words; none if it always is.
    pub when: Option<String>,
    /// Targets of `pass` and of the labels that the template links; others lead to the next
    /// processor.
    pub links: Vec<TemplateLink>,
}

/// A link of a template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TemplateLink {
    /// Its label.
    pub label: String,
    /// Target: a processor, `exit LABEL` or `drop`.
    pub to: String,
}

/// All templates, in the order of their names.
///
/// # Errors
///
/// The faults of the templates.
///
/// # Example
///
/// ```
/// use weir_graph::{Templates, describe_templates};
///
/// let mut mine = Templates::none();
/// mine.add("mine.yaml", "template: mine\nprocessors: [montior]\n");
/// let errors = describe_templates(&mine, &[]).unwrap_err();
/// assert_eq!(errors[0].message, "there is no function `montior`");
/// ```
pub fn describe_templates(
    templates: &Templates,
    kinds: &[Kind],
) -> Result<Vec<TemplateDescription>, Vec<Diagnostic>> {
    let mut texts = Texts::default();
    let mut library = Library::texts(templates, kinds, &mut texts);
    let mut report = Report::new(&texts);
    let sound = library.read_all(kinds, &mut report);
    check::all(&library, kinds, sound, &mut report);
    if report.errors() > 0 {
        return Err(report.finish());
    }
    let mut all: Vec<TemplateDescription> = library
        .list()
        .iter()
        .map(|template| one(template, &library, kinds, &mut report))
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

fn one(
    template: &Template,
    library: &Library,
    kinds: &[Kind],
    report: &mut Report<'_>,
) -> TemplateDescription {
    let of: Vec<_> = template
        .entries
        .iter()
        .map(|entry| of(entry, kinds, library, report))
        .collect();
    let exits = template.label_names();
    let labels = labels(&of);
    let next = links::resolve(&template.entries, &labels, Exits::Template(&exits), report);
    let name_of = |to: &To| match to {
        To::Entry(at) => template
            .entries
            .get(*at)
            .map_or_else(String::new, |entry| entry.instance.clone()),
        To::Exit(label) => {
            let label = label.checked_sub(1).and_then(|at| exits.get(at));
            format!("exit {}", label.unwrap_or(&PASS))
        }
        To::Drop => "drop".to_owned(),
    };
    let processor = |(entry, (labels, next)): (&RawEntry, (&Option<Vec<&str>>, &Vec<To>))| {
        let labels = labels.iter().flatten().copied();
        TemplateProcessor {
            name: entry.instance.clone(),
            nf: entry.kind.clone(),
            settings: canonical(entry.settings.as_ref()),
            when: entry.when.as_ref().map(condition),
            links: [PASS]
                .into_iter()
                .chain(labels)
                .zip(next)
                .filter(|(label, _)| {
                    *label == PASS || entry.links.iter().any(|link| link.label == *label)
                })
                .map(|(label, to)| TemplateLink {
                    label: label.to_owned(),
                    to: name_of(to),
                })
                .collect(),
        }
    };
    TemplateDescription {
        name: template.name.clone(),
        file: report.texts.name(template.name_span.text).to_owned(),
        summary: template.summary.clone(),
        manual: template.manual.clone(),
        settings: template.settings.iter().map(described).collect(),
        labels: template
            .labels
            .iter()
            .map(|label| TemplateLabel {
                name: label.name.clone(),
                description: label.description.clone(),
            })
            .collect(),
        processors: template
            .entries
            .iter()
            .zip(labels.iter().zip(&next))
            .map(processor)
            .collect(),
    }
}

fn described(setting: &setting::Setting) -> SettingDescription {
    SettingDescription {
        name: setting.name.clone(),
        kind: setting.words(),
        default: setting.default.as_ref().and_then(json_of),
        required: setting.required,
        description: setting.description.clone(),
        schema: schema::of_setting(setting),
    }
}

/// A condition in words.
fn condition(when: &Node) -> String {
    match &when.value {
        Value::Map(entries) => {
            let parts: Vec<String> = entries
                .iter()
                .map(|(key, value)| {
                    let values: Vec<String> = match &value.value {
                        Value::List(items) => items.iter().map(word).collect(),
                        _ => vec![word(value)],
                    };
                    format!("{} is {}", key.text().unwrap_or(""), values.join(" or "))
                })
                .collect();
            parts.join(" and ")
        }
        _ => {
            let name = when.text().unwrap_or("").trim_start_matches('$');
            format!("{} is given", name.trim_matches(['{', '}']))
        }
    }
}

fn word(node: &Node) -> String {
    match node.text() {
        _ if node.is_null() => "not given".to_owned(),
        Some(text) => text.to_owned(),
        None => canonical(Some(node)),
    }
}
