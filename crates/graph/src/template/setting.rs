//! A template's own settings: what they may be.

use crate::de::{Scalar, resolve};
use crate::diagnostic::Report;
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

const KEYS: [&str; 6] = [
    "type",
    "items",
    "values",
    "default",
    "required",
    "description",
];

impl Setting {
    pub(crate) fn read(name: &Node, node: &Node, report: &mut Report<'_>) -> Option<Setting> {
        let text = read::name(name, "the name of a setting", report)?;
        let what = "a mapping with `type`, `default`, `description`, `required`, `values` or \
                    `items`";
        for (key, _) in read::map(node, what, report)? {
            if !KEYS.contains(&key.text().unwrap_or("")) {
                report.unknown_key(key, &KEYS);
            }
        }
        let values = match node.get("values") {
            Some(values) => {
                let help = "list what it may be, `[a, b]`, or leave `values` out";
                read::list_help(values, "a list of values", help, report)?.to_vec()
            }
            None => Vec::new(),
        };
        let kind = match node.get("type") {
            Some(kind) => read::choice(kind, &Type::NAMES, report)?,
            None if !values.is_empty() => Type::Text,
            None => {
                report.error_help(
                    name.span,
                    format!("the key `type` of the setting `{text}` is missing"),
                    format!("types: {}", listed(&Type::names())),
                );
                return None;
            }
        };
        let items = match node.get("items") {
            None => Type::Any,
            Some(items) if kind == Type::List => read::choice(items, &Type::NAMES, report)?,
            Some(items) => {
                report.error_help(
                    items.span,
                    format!("`items` of the setting `{text}`, which is no list"),
                    "leave it out, or write `type: list`",
                );
                return None;
            }
        };
        for value in &values {
            if !kind.fits(value) {
                report.expected(value, kind.wanted());
            }
        }
        let required = match node.get("required") {
            Some(required) => read::boolean(required, report)?,
            None => false,
        };
        let setting = Setting {
            name: text.to_owned(),
            kind,
            items,
            values,
            default: node.get("default").filter(|node| !node.is_null()).cloned(),
            required,
            description: match node.get("description") {
                Some(text) => read::word(text, "text", report)?.trim().to_owned(),
                None => String::new(),
            },
        };
        if let Some(default) = &setting.default {
            if required {
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
