//! Forms of values: how each is read, and how JSON Schema describes it.

use core::ops::RangeInclusive;

use serde_json::{Value as Json, json};

use crate::diagnostic::{Report, Span};
use crate::read;
use crate::tree::Node;
use crate::units;

/// A form of a value.
pub(crate) trait Form {
    /// The type of a value that was read.
    type Value;

    /// Reads a node; `None`, with an error in the report, where it is not of this form.
    fn read(&self, node: &Node, report: &mut Report<'_>) -> Option<Self::Value>;

    /// JSON Schema of the form.
    fn schema(&self) -> Json;
}

/// `true` or `false`.
pub(crate) struct Boolean;

impl Form for Boolean {
    type Value = bool;

    fn read(&self, node: &Node, report: &mut Report<'_>) -> Option<bool> {
        read::boolean(node, report)
    }

    fn schema(&self) -> Json {
        json!({"type": "boolean"})
    }
}

/// A whole number of a range.
pub(crate) struct Integer(pub(crate) RangeInclusive<u64>);

impl Form for Integer {
    type Value = u64;

    fn read(&self, node: &Node, report: &mut Report<'_>) -> Option<u64> {
        read::integer(node, self.0.clone(), report)
    }

    fn schema(&self) -> Json {
        json!({"type": "integer", "minimum": self.0.start(), "maximum": self.0.end()})
    }
}

/// One of some words.
pub(crate) struct Choice<T: 'static>(pub(crate) &'static [(&'static str, T)]);

impl<T: Copy> Form for Choice<T> {
    type Value = T;

    fn read(&self, node: &Node, report: &mut Report<'_>) -> Option<T> {
        read::choice(node, self.0, report)
    }

    fn schema(&self) -> Json {
        let names: Vec<&str> = self.0.iter().map(|(name, _)| *name).collect();
        json!({"enum": names})
    }
}

/// Text, without the blanks around it.
pub(crate) struct Text;

impl Form for Text {
    type Value = String;

    fn read(&self, node: &Node, report: &mut Report<'_>) -> Option<String> {
        let text = read::word(node, "text", report)?;
        Some(text.trim().to_owned())
    }

    fn schema(&self) -> Json {
        json!({"type": "string"})
    }
}

/// A name; the text says of what, for errors.
pub(crate) struct Name(pub(crate) &'static str);

impl Form for Name {
    type Value = String;

    fn read(&self, node: &Node, report: &mut Report<'_>) -> Option<String> {
        read::name(node, self.0, report).map(str::to_owned)
    }

    fn schema(&self) -> Json {
        json!({"$ref": "#/$defs/weir-name"})
    }
}

/// JSON Schema of names: the definition `weir-name`.
pub(crate) fn name_schema() -> Json {
    json!({
        "type": "string",
        "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]*$",
        "maxLength": read::LONGEST_NAME,
    })
}

/// A time in milliseconds, as `5m` or `never`.
pub(crate) struct Duration;

impl Form for Duration {
    type Value = u32;

    fn read(&self, node: &Node, report: &mut Report<'_>) -> Option<u32> {
        let text = read::word(node, "a duration like `5m`", report)?;
        read::parsed(node.span, units::duration(text), report)
    }

    fn schema(&self) -> Json {
        json!({
            "type": "string",
            "pattern": "^(never|([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$",
            "minLength": 2,
        })
    }
}

/// The items that can be read; the others are in the report.
fn read_each<F: Form>(form: &F, items: &[Node], report: &mut Report<'_>) -> Vec<F::Value> {
    let read = items.iter().filter_map(|node| form.read(node, report));
    read.collect()
}

/// A value, or a list of some; the text says so, for errors.
pub(crate) struct OneOrMore<F>(pub(crate) &'static str, pub(crate) F);

impl<F: Form> Form for OneOrMore<F> {
    type Value = Vec<F::Value>;

    fn read(&self, node: &Node, report: &mut Report<'_>) -> Option<Vec<F::Value>> {
        let items = read::one_or_more(node, self.0, report)?;
        Some(read_each(&self.1, items, report))
    }

    fn schema(&self) -> Json {
        let one = self.1.schema();
        json!({"anyOf": [one, {"type": "array", "minItems": 1, "items": one}]})
    }
}

/// A list that is not empty; the text says of what, for errors.
pub(crate) struct List<F>(pub(crate) &'static str, pub(crate) F);

impl<F: Form> Form for List<F> {
    type Value = Vec<F::Value>;

    fn read(&self, node: &Node, report: &mut Report<'_>) -> Option<Vec<F::Value>> {
        let items = read::list(node, self.0, report)?;
        Some(read_each(&self.1, items, report))
    }

    fn schema(&self) -> Json {
        json!({"type": "array", "minItems": 1, "items": self.1.schema()})
    }
}

/// A value and its place.
pub(crate) struct Placed<F>(pub(crate) F);

impl<F: Form> Form for Placed<F> {
    type Value = (F::Value, Span);

    fn read(&self, node: &Node, report: &mut Report<'_>) -> Option<(F::Value, Span)> {
        Some((self.0.read(node, report)?, node.span))
    }

    fn schema(&self) -> Json {
        self.0.schema()
    }
}

/// A form of one key alone: its reader beside its schema.
pub(crate) struct Own<T>(
    pub(crate) fn(&Node, &mut Report<'_>) -> Option<T>,
    pub(crate) fn() -> Json,
);

impl<T> Form for Own<T> {
    type Value = T;

    fn read(&self, node: &Node, report: &mut Report<'_>) -> Option<T> {
        (self.0)(node, report)
    }

    fn schema(&self) -> Json {
        (self.1)()
    }
}

/// A node that is read later, since its meaning depends on others.
pub(crate) struct Later(pub(crate) Json);

impl Form for Later {
    type Value = Node;

    fn read(&self, node: &Node, _: &mut Report<'_>) -> Option<Node> {
        Some(node.clone())
    }

    fn schema(&self) -> Json {
        self.0.clone()
    }
}
