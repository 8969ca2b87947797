//! A serde deserializer over a tree of nodes that remembers where it failed.
//!
//! Settings are read through `erased_serde`, whose errors have no place. So the
//! place is noted on the side: the innermost node whose reading failed is where
//! the error is.

use core::cell::RefCell;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};

use crate::diagnostic::Span;
use crate::fault::Fault;
use crate::nearest::listed;
use crate::tree::{Node, Value, shorten};

/// The first error, and the keys that nothing read.
#[derive(Debug, Default)]
pub(crate) struct Track {
    first: RefCell<Option<(Span, Fault)>>,
    ignored: RefCell<Vec<(Span, String)>>,
}

impl Track {
    pub(crate) fn first(&self) -> Option<(Span, Fault)> {
        self.first.borrow().clone()
    }

    pub(crate) fn ignored(&self) -> Vec<(Span, String)> {
        self.ignored.borrow().clone()
    }

    fn note<T>(&self, node: &Node, result: Result<T, Fault>) -> Result<T, Fault> {
        if let Err(fault) = &result {
            let mut first = self.first.borrow_mut();
            if first.is_none() {
                let span = fault
                    .about
                    .as_deref()
                    .and_then(|about| find(node, about))
                    .unwrap_or(node.span);
                *first = Some((span, fault.clone()));
            }
        }
        result
    }
}

/// The first scalar in `node` that reads `text`: where the reader buffered a
/// node, the error is somewhere inside of it.
fn find(node: &Node, text: &str) -> Option<Span> {
    match &node.value {
        Value::Scalar { text: own, .. } => (own == text).then_some(node.span),
        Value::List(items) => items.iter().find_map(|item| find(item, text)),
        Value::Map(entries) => entries
            .iter()
            .find_map(|(key, value)| find(key, text).or_else(|| find(value, text))),
    }
}

/// Reads one node.
#[derive(Clone, Copy)]
pub(crate) struct NodeDe<'a> {
    node: &'a Node,
    track: &'a Track,
    /// The key before it.
    key: Option<&'a Node>,
}

impl<'a> NodeDe<'a> {
    pub(crate) fn new(node: &'a Node, track: &'a Track) -> NodeDe<'a> {
        NodeDe {
            node,
            track,
            key: None,
        }
    }

    fn list<'de, V: Visitor<'de>>(self, items: &'a [Node], visitor: V) -> Result<V::Value, Fault> {
        let mut access = List {
            items: items.iter(),
            track: self.track,
        };
        let value = visitor.visit_seq(&mut access)?;
        match access.items.len() {
            0 => Ok(value),
            // A tuple takes what it needs: what is left is too much.
            left => Err(Fault::custom(format!(
                "{left} too many: expected {} entries, found {}",
                items.len() - left,
                items.len()
            ))),
        }
    }

    fn map<'de, V: Visitor<'de>>(
        self,
        entries: &'a [(Node, Node)],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_map(Map {
            entries: entries.iter(),
            value: None,
            track: self.track,
        })
    }

    fn any<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.value {
            Value::List(items) => self.list(items, visitor),
            Value::Map(entries) => self.map(entries, visitor),
            Value::Scalar { text, plain } => match resolve(text, *plain) {
                Scalar::Null => visitor.visit_unit(),
                Scalar::Bool(value) => visitor.visit_bool(value),
                Scalar::Unsigned(value) => visitor.visit_u64(value),
                Scalar::Signed(value) => visitor.visit_i64(value),
                Scalar::Float(value) => visitor.visit_f64(value),
                Scalar::Text => visitor.visit_str(text),
            },
        }
    }

    /// Text, or a plain number as it is spelled: `name: 80` is as good as
    /// `name: "80"`.
    fn string<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.value {
            Value::Scalar { text, plain } => match resolve(text, *plain) {
                Scalar::Null => visitor.visit_unit(),
                Scalar::Bool(value) => visitor.visit_bool(value),
                _ => visitor.visit_str(text),
            },
            _ => self.any(visitor),
        }
    }
}

/// A scalar by YAML 1.2's core schema.
pub(crate) enum Scalar {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text,
}

/// Type of a scalar.
pub(crate) fn resolve(text: &str, plain: bool) -> Scalar {
    if !plain {
        return Scalar::Text;
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "true" | "True" | "TRUE" => return Scalar::Bool(true),
        "false" | "False" | "FALSE" => return Scalar::Bool(false),
        _ => {}
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(Ok(value)) = text
            .strip_prefix(prefix)
            .filter(|digits| !digits.starts_with('+'))
            .map(|digits| u64::from_str_radix(digits, radix))
        {
            return Scalar::Unsigned(value);
        }
    }
    if let Ok(value) = text.parse() {
        return Scalar::Unsigned(value);
    }
    if let Ok(value) = text.parse() {
        return Scalar::Signed(value);
    }
    // Rust reads "inf", "nan" and "infinity" as numbers; YAML does not.
    let numeric = text
        .bytes()
        .all(|octet| octet.is_ascii_digit() || b"+-.eE".contains(&octet));
    match text.parse() {
        Ok(value) if numeric => Scalar::Float(value),
        _ => Scalar::Text,
    }
}

macro_rules! noted {
    ($($method:ident => $way:ident),* $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            self.track.note(self.node, self.$way(visitor))
        }
    )*};
}

impl<'de> Deserializer<'de> for NodeDe<'_> {
    type Error = Fault;

    noted! {
        deserialize_any => any,
        deserialize_bool => any,
        deserialize_i8 => any,
        deserialize_i16 => any,
        deserialize_i32 => any,
        deserialize_i64 => any,
        deserialize_i128 => any,
        deserialize_u8 => any,
        deserialize_u16 => any,
        deserialize_u32 => any,
        deserialize_u64 => any,
        deserialize_u128 => any,
        deserialize_f32 => any,
        deserialize_f64 => any,
        deserialize_char => string,
        deserialize_str => string,
        deserialize_string => string,
        deserialize_bytes => string,
        deserialize_byte_buf => string,
        deserialize_unit => any,
        deserialize_seq => any,
        deserialize_map => any,
        deserialize_identifier => string,
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let result = if self.node.is_null() {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        };
        self.track.note(self.node, result)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.track
            .note(self.node, visitor.visit_newtype_struct(self))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        // A list would be read as the fields in their order: nobody means that.
        let result = match &self.node.value {
            Value::Map(entries) => self.map(entries, visitor),
            Value::List(_) => Err(Fault::invalid_type(Unexpected::Seq, &visitor)),
            Value::Scalar { .. } => self.any(visitor),
        };
        self.track.note(self.node, result)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let result = match &self.node.value {
            Value::Map(entries) => match entries.as_slice() {
                [(key, value)] => visitor.visit_enum(Variant {
                    key,
                    value: Some(value),
                    track: self.track,
                }),
                _ => Err(Fault::custom(format!(
                    "expected one key of {}, found {} keys",
                    listed(variants),
                    entries.len()
                ))),
            },
            Value::Scalar { .. } if !self.node.is_null() => visitor.visit_enum(Variant {
                key: self.node,
                value: None,
                track: self.track,
            }),
            _ => Err(Fault::custom(format!(
                "expected one of {}, found {}",
                listed(variants),
                self.node.kind()
            ))),
        };
        self.track.note(self.node, result)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if let Some(key) = self.key {
            let name = key.text().unwrap_or("").to_owned();
            self.track.ignored.borrow_mut().push((key.span, name));
        }
        visitor.visit_unit()
    }
}

struct List<'a> {
    items: core::slice::Iter<'a, Node>,
    track: &'a Track,
}

impl<'de> SeqAccess<'de> for List<'_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some(node) = self.items.next() else {
            return Ok(None);
        };
        let result = seed.deserialize(NodeDe::new(node, self.track));
        self.track.note(node, result).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Map<'a> {
    entries: core::slice::Iter<'a, (Node, Node)>,
    value: Option<(&'a Node, &'a Node)>,
    track: &'a Track,
}

impl<'de> MapAccess<'de> for Map<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some((key, value)) = self.entries.next() else {
            return Ok(None);
        };
        self.value = Some((key, value));
        let result = seed.deserialize(NodeDe::new(key, self.track));
        self.track.note(key, result).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let Some((key, node)) = self.value.take() else {
            return Err(Fault::custom("a value was asked for before its key"));
        };
        let result = seed.deserialize(NodeDe {
            node,
            track: self.track,
            key: Some(key),
        });
        self.track.note(node, result)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

struct Variant<'a> {
    key: &'a Node,
    value: Option<&'a Node>,
    track: &'a Track,
}

impl<'de, 'a> EnumAccess<'de> for Variant<'a> {
    type Error = Fault;
    type Variant = Variant<'a>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Variant<'a>), Fault> {
        let result = seed.deserialize(NodeDe::new(self.key, self.track));
        let variant = self.track.note(self.key, result)?;
        Ok((variant, self))
    }
}

impl<'a> Variant<'a> {
    fn value(&self) -> Result<NodeDe<'a>, Fault> {
        let Some(node) = self.value else {
            let name = shorten(self.key.text().unwrap_or(""));
            let fault = Fault {
                message: format!("`{name}` needs a value"),
                help: Some(format!("write `{name}: ...`")),
                about: None,
            };
            return self.track.note(self.key, Err(fault));
        };
        Ok(NodeDe::new(node, self.track))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        match self.value {
            Some(node) if !node.is_null() => {
                let name = shorten(self.key.text().unwrap_or(""));
                let fault = Fault::custom(format!("`{name}` takes no value"));
                self.track.note(node, Err(fault))
            }
            _ => Ok(()),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        let value = self.value()?;
        let result = seed.deserialize(value);
        self.track.note(value.node, result)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, Fault> {
        self.value()?.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.value()?.deserialize_struct("", fields, visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, plain: bool) -> String {
        match resolve(text, plain) {
            Scalar::Null => "null".to_owned(),
            Scalar::Bool(value) => format!("bool {value}"),
            Scalar::Unsigned(value) => format!("u {value}"),
            Scalar::Signed(value) => format!("i {value}"),
            Scalar::Float(value) => format!("f {value}"),
            Scalar::Text => "text".to_owned(),
        }
    }

    #[test]
    fn scalars_are_read_by_the_core_schema() {
        for (text, expected) in [
            ("", "null"),
            ("~", "null"),
            ("true", "bool true"),
            ("80", "u 80"),
            ("-5", "i -5"),
            ("0x1F", "u 31"),
            ("0o17", "u 15"),
            ("1.5", "f 1.5"),
            ("1e3", "f 1000"),
            ("0x", "text"),
            ("0x+1", "text"),
            ("inf", "text"),
            ("nan", "text"),
            ("-", "text"),
            (".", "text"),
            ("80-90", "text"),
            ("10.0.0.1", "text"),
            ("1:30", "text"),
            ("18446744073709551615", "u 18446744073709551615"),
        ] {
            assert_eq!(shown(text, true), expected, "{text}");
            assert_eq!(shown(text, false), "text", "\"{text}\"");
        }
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
    #[allow(dead_code, reason = "only what can't be read is of interest")]
    enum Tagged {
        Tcp { port: u16 },
        Named { name: Name },
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(try_from = "String")]
    struct Name;

    impl TryFrom<String> for Name {
        type Error = String;

        fn try_from(text: String) -> Result<Name, String> {
            match text.as_str() {
                "good" => Ok(Name),
                _ => Err(format!("`{text}` is no good name")),
            }
        }
    }

    /// Path and message of the error when `text` is read through an erased deserializer.
    fn fails(text: &str) -> (String, String) {
        let mut texts = crate::diagnostic::Texts::default();
        let number = texts.add("f".into(), text.into());
        let mut report = crate::diagnostic::Report::new(&texts);
        let node = crate::tree::parse(number, text, &mut report).expect("YAML");
        let track = Track::default();
        let mut erased = <dyn erased_serde::Deserializer<'_>>::erase(NodeDe::new(&node, &track));
        erased_serde::deserialize::<Vec<Tagged>>(&mut erased).expect_err("an error");
        let (span, fault) = track.first().expect("a place");
        let place = text[span.start as usize..span.end as usize].to_owned();
        (place, fault.message)
    }

    #[test]
    fn buffered_settings_fail_at_the_word_that_is_wrong() {
        for (text, place, message) in [
            (
                "[{kind: tcp, port: 80}, {kind: tcp, port: x}]",
                "x",
                "expected a whole number from 0 to 65535, found `x`",
            ),
            (
                "[{kind: tcp, port: 70000}]",
                "70000",
                "expected a whole number from 0 to 65535, found `70000`",
            ),
            (
                "[{kind: udp}]",
                "udp",
                "`udp` is not one of the values here",
            ),
            (
                "[{kind: tcp, prot: 1, port: 1}]",
                "prot",
                "unknown key `prot`",
            ),
            ("[{kind: tcp}]", "{kind: tcp}", "the key `port` is missing"),
            (
                "[{kind: named, name: bad}]",
                "{kind: named, name: bad}",
                "`bad` is no good name",
            ),
            ("[5]", "5", "expected a mapping of settings, found `5`"),
        ] {
            assert_eq!(
                fails(text),
                (place.to_owned(), message.to_owned()),
                "{text}"
            );
        }
    }
}
