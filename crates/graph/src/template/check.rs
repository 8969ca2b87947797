//! Faults of templates that do not depend on their settings.

use std::collections::BTreeSet;

use weir_nf::host::Kind;

use crate::diagnostic::{Report, Span};
use crate::links::{self, Exits, To};
use crate::nearest::suggestion;
use crate::raw::RawEntry;
use crate::template::expand::{Of, labels, of};
use crate::template::library::Library;
use crate::template::raw::Template;
use crate::template::reference::{self, Form};
use crate::template::setting::Type;
use crate::tree::{Node, Value, shorten};

/// Checks all templates of a library. Without `sound`, some could not be read:
/// what follows from that isn't told.
pub(crate) fn all(library: &Library, kinds: &[Kind], sound: bool, report: &mut Report<'_>) {
    for template in library.list() {
        one(template, library, kinds, sound, report);
    }
    cycles(library, report);
}

fn one(
    template: &Template,
    library: &Library,
    kinds: &[Kind],
    sound: bool,
    report: &mut Report<'_>,
) {
    let before = report.errors();
    let of: Vec<Option<Of<'_>>> = template
        .entries
        .iter()
        .map(|entry| of(entry, kinds, library, report))
        .collect();
    for entry in &template.entries {
        if let Some(settings) = &entry.settings {
            references(settings, template, false, report);
        }
        if let Some(when) = &entry.when {
            condition(when, template, report);
        }
    }
    let names = template.label_names();
    let exits = Exits::Template(&names);
    let next = links::resolve(&template.entries, &labels(&of), exits, report);
    if report.errors() == before && sound {
        emitted(template, &next, report);
    }
}

/// Each label is led to by some link.
fn emitted(template: &Template, next: &[Vec<To>], report: &mut Report<'_>) {
    for (number, label) in template.labels.iter().enumerate() {
        let exit = To::Exit(number + 1);
        if !next.iter().flatten().any(|to| *to == exit) {
            report.error_help(
                label.span,
                format!("nothing leaves by the label `{}`", label.name),
                format!(
                    "let a link of a processor lead to `exit {}`, or leave the label out",
                    label.name
                ),
            );
        }
    }
}

/// Each `$name` is a setting's.
fn references(node: &Node, template: &Template, in_list: bool, report: &mut Report<'_>) {
    match &node.value {
        Value::Scalar { text, .. } => {
            let form = match reference::form(text) {
                Ok(form) => form,
                Err(message) => {
                    let help = "write `$$` for a dollar sign";
                    return report.error_help(node.span, message, help);
                }
            };
            if let (Form::Entries(name), false) = (&form, in_list) {
                report.error_help(
                    node.span,
                    format!("`${name}...` stands for the entries of a list, but here is no list"),
                    format!("write `${name}`, or `[${name}...]`"),
                );
            }
            if let (Form::Entries(name), true) = (&form, in_list)
                && let Some(setting) = template.setting(name)
                && !matches!(setting.kind, Type::List | Type::Any)
            {
                report.error_help(
                    node.span,
                    format!(
                        "`${name}...` stands for the entries of a list, but `{name}` is of the \
                         type `{}`",
                        setting.kind.name()
                    ),
                    format!("write `${name}`, or make the setting one of `type: list`"),
                );
            }
            for name in reference::names(&form) {
                known(name, node.span, template, report);
            }
        }
        Value::List(items) => {
            for item in items {
                references(item, template, true, report);
            }
        }
        Value::Map(entries) => {
            for (_, value) in entries {
                references(value, template, false, report);
            }
        }
    }
}

fn known(name: &str, span: Span, template: &Template, report: &mut Report<'_>) {
    if template.setting(name).is_none() && !report.full() {
        let names = template.setting_names();
        let help = suggestion(name, "its settings", &names);
        report.error_help(
            span,
            format!("this template has no setting `{}`", shorten(name)),
            help.unwrap_or_else(|| "it has none at all: write it under `settings:`".to_owned()),
        );
    }
}

/// `when: $name`, or `when: {name: VALUE}`.
fn condition(when: &Node, template: &Template, report: &mut Report<'_>) {
    const HELP: &str = "write `when: $setting`, or `when: {setting: VALUE}`";
    match &when.value {
        Value::Scalar { text, .. } => match reference::form(text) {
            Ok(Form::Whole(name)) => known(name, when.span, template, report),
            _ => report.error_help(
                when.span,
                format!("expected a condition, found {}", when.kind()),
                HELP,
            ),
        },
        Value::List(_) => report.error_help(when.span, "expected a condition, found a list", HELP),
        Value::Map(entries) => {
            for (key, value) in entries {
                let name = key.text().unwrap_or("");
                known(name, key.span, template, report);
                let Some(setting) = template.setting(name) else {
                    continue;
                };
                let values = match &value.value {
                    Value::List(values) => values.as_slice(),
                    _ => core::slice::from_ref(value),
                };
                for value in values {
                    setting.check(value, report);
                }
            }
        }
    }
}

/// No template contains itself.
fn cycles(library: &Library, report: &mut Report<'_>) {
    let mut done: BTreeSet<&str> = BTreeSet::new();
    for template in library.list() {
        let mut way = Vec::new();
        visit(template, library, &mut way, &mut done, report);
    }
}

/// `way` are the templates around this one, each with its entry that leads on.
/// It is never longer than there are templates ([`crate::Templates::MOST`]).
fn visit<'l>(
    template: &'l Template,
    library: &'l Library,
    way: &mut Vec<(&'l Template, &'l RawEntry)>,
    done: &mut BTreeSet<&'l str>,
    report: &mut Report<'_>,
) {
    if done.contains(template.name.as_str()) {
        return;
    }
    for entry in &template.entries {
        let Some(inner) = library.find(&entry.kind) else {
            continue;
        };
        way.push((template, entry));
        match way.iter().position(|(outer, _)| outer.name == inner.name) {
            None => visit(inner, library, way, done, report),
            Some(from) => {
                let names: Vec<String> = way
                    .iter()
                    .skip(from)
                    .map(|(outer, _)| outer.name.as_str())
                    .chain([inner.name.as_str()])
                    .map(|name| format!("`{name}`"))
                    .collect();
                report.error_help(
                    entry.kind_span,
                    format!(
                        "the template `{}` contains itself: {}",
                        inner.name,
                        names.join(" → ")
                    ),
                    "a template is made of functions and of other templates",
                );
            }
        }
        way.pop();
    }
    done.insert(&template.name);
}
