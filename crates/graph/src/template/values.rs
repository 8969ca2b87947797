//! Values of a template's settings for one entry, and the conditions on them.

use crate::diagnostic::{Report, Span};
use crate::template::raw::Template;
use crate::template::reference::{self, Values};
use crate::template::setting::same;
use crate::tree::{Node, Value, shorten};

/// Place at which a template is expanded.
pub(crate) struct Place<'p> {
    /// Name before its processors' names.
    pub(crate) name: &'p str,
    /// The chain's entry.
    pub(crate) instance: &'p str,
    pub(crate) span: Span,
    /// Place where the template is named.
    pub(crate) kind_span: Span,
    pub(crate) depth: usize,
}

/// The values of a template's settings for one entry.
pub(crate) fn values(
    template: &Template,
    settings: Option<&Node>,
    place: &Place<'_>,
    report: &mut Report<'_>,
) -> Option<Values> {
    let before = report.errors();
    let given: &[(Node, Node)] = match settings.filter(|node| !node.is_null()) {
        None => &[],
        Some(node) => match node.entries() {
            Some(entries) => entries,
            None => {
                report.expected(node, "a mapping of settings");
                return None;
            }
        },
    };
    let names = template.setting_names();
    for (key, value) in given {
        match template.setting(key.text().unwrap_or("")) {
            Some(setting) => {
                setting.check(value, report);
            }
            None if names.is_empty() => {
                let message = format!("unknown key `{}`", shorten(key.text().unwrap_or("")));
                let help = format!("the template `{}` has no settings", template.name);
                report.error_help(key.span, message, help);
            }
            None => report.unknown_key(key, &names),
        }
    }
    let mut values = Values::new();
    for setting in &template.settings {
        let own = given
            .iter()
            .find(|(key, _)| key.text() == Some(setting.name.as_str()));
        let value = match own {
            Some((_, value)) => (!value.is_null()).then(|| value.clone()),
            None => setting.default.clone(),
        };
        if value.is_none() && setting.required {
            let span = own.map_or(place.kind_span, |(key, _)| key.span);
            let meaning = match setting.description.lines().next() {
                Some(line) if !line.is_empty() => format!(" ({line})"),
                _ => String::new(),
            };
            report.error_help(
                span,
                format!(
                    "`{}` needs the setting `{}`: {}{meaning}",
                    place.name,
                    setting.name,
                    setting.words()
                ),
                format!("write `{}: {{{}: ...}}`", template.name, setting.name),
            );
        }
        values.insert(setting.name.clone(), value);
    }
    (report.errors() == before).then_some(values)
}

/// True if a condition holds; the condition was checked before.
pub(crate) fn holds(when: &Node, values: &Values) -> bool {
    let of = |name: &str| values.get(name).and_then(Option::as_ref);
    match &when.value {
        Value::Scalar { text, .. } => match reference::form(text) {
            Ok(reference::Form::Whole(name)) => of(name).is_some_and(says_yes),
            _ => true,
        },
        Value::List(_) => true,
        Value::Map(entries) => entries.iter().all(|(name, value)| {
            let own = name.text().and_then(of);
            let fits = |wanted: &Node| match own {
                Some(own) => same(own, wanted),
                None => wanted.is_null(),
            };
            match &value.value {
                Value::List(values) => values.iter().any(fits),
                _ => fits(value),
            }
        }),
    }
}

/// Neither `false` nor an empty list or mapping.
fn says_yes(value: &Node) -> bool {
    match &value.value {
        Value::Scalar {
            text, plain: true, ..
        } if text.eq_ignore_ascii_case("false") => false,
        Value::Scalar { .. } => !value.is_null(),
        Value::List(items) => !items.is_empty(),
        Value::Map(entries) => !entries.is_empty(),
    }
}
