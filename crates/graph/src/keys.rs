//! The keys of a mapping, each defined once: from the definition come its reader, the
//! errors of unknown and missing keys, its JSON Schema, and what the manual must say
//! (`keys_tests.rs`).

use serde_json::{Map, Value as Json, json};

use crate::diagnostic::Report;
use crate::form::Form;
use crate::tree::Node;

/// A mapping that is read into a `T`.
pub(crate) struct Keys<T> {
    /// The mapping in words, for errors: `a mapping like ...`.
    what: &'static str,
    /// Advice where the value is no mapping.
    help: Option<&'static str>,
    about: &'static str,
    keys: Vec<Key<T>>,
    /// Keys that stand elsewhere: what is wrong with one here, and what to do.
    elsewhere: Vec<(&'static str, &'static str, &'static str)>,
    /// A key of another form of the mapping, which may have been meant.
    suggested: Option<&'static str>,
}

struct Key<T> {
    name: &'static str,
    about: &'static str,
    /// Advice where it is missing; `None` where it need not be there.
    needed: Option<&'static str>,
    value: Box<dyn Value<T>>,
}

/// The value of a key.
trait Value<T> {
    /// Reads it into a `T`.
    fn read(&self, into: &mut T, node: &Node, report: &mut Report<'_>);

    fn schema(&self) -> Json;
}

/// A form, and where its value goes.
struct Put<F, P>(F, P);

impl<T, F: Form, P: Fn(&mut T, F::Value)> Value<T> for Put<F, P> {
    fn read(&self, into: &mut T, node: &Node, report: &mut Report<'_>) {
        if let Some(value) = self.0.read(node, report) {
            (self.1)(into, value);
        }
    }

    fn schema(&self) -> Json {
        self.0.schema()
    }
}

impl<T> Keys<T> {
    /// A mapping without keys yet. `what` stands after `expected` in an error; `about`
    /// is its description, empty for none.
    pub(crate) fn new(what: &'static str, about: &'static str) -> Keys<T> {
        Keys {
            what,
            help: None,
            about,
            keys: Vec::new(),
            elsewhere: Vec::new(),
            suggested: None,
        }
    }

    /// Advice where the value is no mapping.
    pub(crate) fn help(mut self, help: &'static str) -> Keys<T> {
        self.help = Some(help);
        self
    }

    /// A key with a value of this form, which `put` puts where it belongs. The manual
    /// has its `about` in the key's row, without the full stop.
    pub(crate) fn key<F: Form + 'static>(
        mut self,
        name: &'static str,
        about: &'static str,
        form: F,
        put: impl Fn(&mut T, F::Value) + 'static,
    ) -> Keys<T> {
        self.keys.push(Key {
            name,
            about,
            needed: None,
            value: Box::new(Put(form, put)),
        });
        self
    }

    /// The key that was added last must be there; `help` says what to write.
    pub(crate) fn needed(mut self, help: &'static str) -> Keys<T> {
        if let Some(last) = self.keys.last_mut() {
            last.needed = Some(help);
        }
        self
    }

    /// A key that stands elsewhere: what it is not, and what to do.
    pub(crate) fn elsewhere(
        mut self,
        name: &'static str,
        what: &'static str,
        help: &'static str,
    ) -> Keys<T> {
        self.elsewhere.push((name, what, help));
        self
    }

    /// A key of another form of the mapping, which may have been meant by an unknown one.
    pub(crate) fn suggested(mut self, name: &'static str) -> Keys<T> {
        self.suggested = Some(name);
        self
    }

    /// Names of the keys, in order.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.keys.iter().map(|key| key.name).collect()
    }

    /// The key of this name.
    pub(crate) fn name(&self, text: &str) -> Option<&'static str> {
        let mut names = self.keys.iter().map(|key| key.name);
        names.find(|name| *name == text)
    }

    /// Reads a mapping into `into`, which keeps what the mapping does not say. False
    /// where it is none.
    pub(crate) fn read_into(&self, into: &mut T, node: &Node, report: &mut Report<'_>) -> bool {
        let Some(entries) = node.entries() else {
            match self.help {
                Some(help) => report.expected_help(node, self.what, help),
                None => report.expected(node, self.what),
            }
            return false;
        };
        for (name, value) in entries {
            let key = self.keys.iter().find(|key| name.text() == Some(key.name));
            match key {
                Some(key) => key.value.read(into, value, report),
                None => self.refuse(name, report),
            }
        }
        for key in &self.keys {
            if let Some(help) = key.needed
                && node.get(key.name).is_none()
            {
                let message = format!("the key `{}` is missing", key.name);
                report.error_help(node.span, message, help);
            }
        }
        true
    }

    /// Reports a key that is none of these.
    fn refuse(&self, key: &Node, report: &mut Report<'_>) {
        let mut elsewhere = self.elsewhere.iter();
        match elsewhere.find(|(name, ..)| key.text() == Some(name)) {
            Some((name, what, help)) => {
                report.error_help(key.span, format!("`{name}` is not {what}"), *help);
            }
            None => {
                let names: Vec<&str> = self.names().into_iter().chain(self.suggested).collect();
                report.unknown_key(key, &names);
            }
        }
    }

    /// JSON Schema of the mapping with all keys.
    pub(crate) fn schema(&self) -> Json {
        self.schema_of(&self.names())
    }

    /// JSON Schema of the mapping with these keys.
    pub(crate) fn schema_of(&self, names: &[&str]) -> Json {
        let keys = self.keys.iter().filter(|key| names.contains(&key.name));
        let mut properties = Map::new();
        let mut required: Vec<&str> = Vec::new();
        for key in keys {
            let schema = described(key.about, key.value.schema());
            properties.insert(key.name.to_owned(), schema);
            required.extend(key.needed.map(|_| key.name));
        }
        let mut schema = json!({"type": "object"});
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        schema["additionalProperties"] = json!(false);
        schema["properties"] = properties.into();
        described(self.about, schema)
    }

    /// Names of the keys, and what each is for.
    #[cfg(test)]
    pub(crate) fn told(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.keys.iter().map(|key| (key.name, key.about))
    }
}

impl<T: Default> Form for Keys<T> {
    type Value = T;

    fn read(&self, node: &Node, report: &mut Report<'_>) -> Option<T> {
        let mut value = T::default();
        self.read_into(&mut value, node, report).then_some(value)
    }

    fn schema(&self) -> Json {
        Keys::schema(self)
    }
}

/// A schema with its description first.
fn described(about: &str, schema: Json) -> Json {
    if about.is_empty() {
        return schema;
    }
    let mut with = Map::from_iter([("description".to_owned(), json!(about))]);
    if let Json::Object(own) = schema {
        with.extend(own);
    }
    with.into()
}
