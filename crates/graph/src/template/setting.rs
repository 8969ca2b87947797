//! A template's own settings: what they may be.

use crate::de::{Scalar, resolve};
use serde_json::{Value as Json, json};

use crate::diagnostic::{Report, Span};
use crate::form::{Boolean, Choice, Form as _, Later, Own, Placed, Text};
use crate::keys::Keys;
use crate::nearest::listed;
use crate::read;
use crate::template::canonical::canonical;
use crate::tree::{Node, Value};

/// Type of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Text,
    Integer,
    Number,
    Boolean,
    List,
    Mapping,
    Any,
}

impl Type {
    const NAMES: [(&'static str, Type); 7] = [
        ("text", Type::Text),
        ("integer", Type::Integer),
        ("number", Type::Number),
        ("boolean", Type::Boolean),
        ("list", Type::List),
        ("mapping", Type::Mapping),
        ("any", Type::Any),
    ];

    /// Its name in templates.
    pub(crate) fn name(self) -> &'static str {
        let found = Type::NAMES.iter().find(|(_, one)| *one == self);
        found.map_or("any", |(name, _)| name)
    }

    pub(crate) fn names() -> Vec<&'static str> {
        Type::NAMES.iter().map(|(name, _)| *name).collect()
    }

    /// For "expected ...".
    const fn wanted(self) -> &'static str {
        match self {
            Type::Text => "text",
            Type::Integer => "a whole number",
            Type::Number => "a number",
            Type::Boolean => "`true` or `false`",
            Type::List => "a list",
            Type::Mapping => "a mapping",
            Type::Any => "a value",
        }
    }

    fn fits(self, node: &Node) -> bool {
        let scalar = match &node.value {
            Value::Scalar { text, plain } => resolve(text, *plain),
            Value::List(_) => return matches!(self, Type::List | Type::Any),
            Value::Map(_) => return matches!(self, Type::Mapping | Type::Any),
        };
        match self {
            Type::Any => true,
            Type::List | Type::Mapping => false,
            // A plain number is as good as text.
            Type::Text => !matches!(scalar, Scalar::Null | Scalar::Bool(_)),
            Type::Integer => matches!(scalar, Scalar::Unsigned(_) | Scalar::Signed(_)),
            Type::Number => matches!(
                scalar,
                Scalar::Unsigned(_) | Scalar::Signed(_) | Scalar::Float(_)
            ),
            Type::Boolean => matches!(scalar, Scalar::Bool(_)),
        }
    }
}

/// A setting.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) name: String,
    pub(crate) kind: Type,
    /// Of the entries of a list.
    pub(crate) items: Type,
    /// The only values it may have; empty for all.
    pub(crate) values: Vec<Node>,
    pub(crate) default: Option<Node>,
    pub(crate) required: bool,
    pub(crate) description: String,
}

/// A setting as written.
#[derive(Default)]
pub(crate) struct Written {
    kind: Option<Type>,
    items: Option<(Type, Span)>,
    values: Vec<Node>,
    default: Option<Node>,
    required: bool,
    description: String,
}

/// Keys of a setting.
pub(crate) fn keys() -> Keys<Written> {
    let what = "a mapping with `type`, `default`, `description`, `required`, `values` or `items`";
    let any = || json!({"type": "array", "minItems": 1});
    Keys::<Written>::new(what, "")
        .key(
            "type",
            "What it may be.",
            Choice(&Type::NAMES),
            |w, kind| w.kind = Some(kind),
        )
        .key(
            "items",
            "The type of a list's entries.",
            Placed(Choice(&Type::NAMES)),
            |w, items| w.items = Some(items),
        )
        .key(
            "values",
            "The only values that it may have.",
            Own(values, any),
            |w, values| {
                w.values = values;
            },
        )
        .key(
            "default",
            "Its value where the chain gives none.",
            Later(json!({})),
            |w, default| w.default = (!default.is_null()).then_some(default),
        )
        .key(
            "required",
            "The chain must give one.",
            Boolean,
            |w, required| {
                w.required = required;
            },
        )
        .key("description", "What it is for.", Text, |w, text| {
            w.description = text
        })
}

/// JSON Schema of a setting.
pub(crate) fn schema() -> Json {
    let mut schema = keys().schema();
    schema["anyOf"] = json!([{"required": ["type"]}, {"required": ["values"]}]);
    schema
}

fn values(node: &Node, report: &mut Report<'_>) -> Option<Vec<Node>> {
    let help = "list what it may be, `[a, b]`, or leave `values` out";
    read::list_help(node, "a list of values", help, report).map(<[Node]>::to_vec)
}

impl Setting {
    pub(crate) fn read(name: &Node, node: &Node, report: &mut Report<'_>) -> Option<Setting> {
        let text = read::name(name, "the name of a setting", report)?;
        let before = report.errors();
        let written = keys().read(node, report)?;
        let kind = match written.kind {
            Some(kind) => kind,
            None if !written.values.is_empty() => Type::Text,
            // The values could not be read, and the report says so.
            None if report.errors() > before => return None,
            None => {
                report.error_help(
                    name.span,
                    format!("the key `type` of the setting `{text}` is missing"),
                    format!("types: {}", listed(&Type::names())),
                );
                return None;
            }
        };
        let items = match written.items {
            None => Type::Any,
            Some((items, _)) if kind == Type::List => items,
            Some((_, span)) => {
                report.error_help(
                    span,
                    format!("`items` of the setting `{text}`, which is no list"),
                    "leave it out, or write `type: list`",
                );
                return None;
            }
        };
        for value in &written.values {
            if !kind.fits(value) {
                report.expected(value, kind.wanted());
            }
        }
        let setting = Setting {
            name: text.to_owned(),
            kind,
            items,
            values: written.values,
            default: written.default,
            required: written.required,
            description: written.description,
        };
        if let Some(default) = &setting.default {
            if setting.required {
                report.error_help(
                    default.span,
                    format!("a default of the setting `{text}`, which is required"),
                    "leave out one of both",
                );
            }
            setting.check(default, report);
        }
        Some(setting)
    }

    /// True if a value may be this setting's; reports the fault otherwise.
    pub(crate) fn check(&self, value: &Node, report: &mut Report<'_>) -> bool {
        if value.is_null() {
            return true; // taken away
        }
        if !self.kind.fits(value) {
            report.expected(value, self.kind.wanted());
            return false;
        }
        if let Value::List(items) = &value.value {
            let bad = items.iter().find(|item| !self.items.fits(item));
            if let Some(item) = bad {
                report.expected(item, self.items.wanted());
                return false;
            }
        }
        if !self.values.is_empty() && !self.allows(value) {
            let names: Vec<&str> = self.values.iter().filter_map(Node::text).collect();
            report.error_help(
                value.span,
                format!(
                    "{} is not one of the values of `{}`",
                    value.kind(),
                    self.name
                ),
                format!("values: {}", listed(&names)),
            );
            return false;
        }
        true
    }

    /// True if the value is among the allowed ones.
    pub(crate) fn allows(&self, value: &Node) -> bool {
        self.values.is_empty() || self.values.iter().any(|one| same(one, value))
    }

    /// Its type in words.
    pub(crate) fn words(&self) -> String {
        if !self.values.is_empty() {
            let names: Vec<&str> = self.values.iter().filter_map(Node::text).collect();
            return names.join(" | ");
        }
        match (self.kind, self.items) {
            (Type::List, Type::Any) => "list".to_owned(),
            (Type::List, items) => format!("list of {}", items.name()),
            (kind, _) => kind.name().to_owned(),
        }
    }
}

/// True if two values are the same, whatever their spelling.
pub(crate) fn same(a: &Node, b: &Node) -> bool {
    match (a.text(), b.text()) {
        (Some(a), Some(b)) if a == b => true,
        _ => canonical(Some(a)) == canonical(Some(b)),
    }
}
