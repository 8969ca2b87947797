//! Settings that are one value or a list of values.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

/// One word, words joined by commas, a number, or a list of words and numbers:
/// `80`, `80,443`, `[80, 8000-8999]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words(pub Vec<String>);

impl Words {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, text: &str) {
        self.0.extend(
            text.split(',')
                .map(str::trim)
                .filter(|word| !word.is_empty())
                .map(str::to_owned),
        );
    }
}

impl From<&str> for Words {
    fn from(text: &str) -> Words {
        let mut words = Words::default();
        words.add(text);
        words
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Words, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Words;

            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("a word, a number, or a list of them")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Words, E> {
                Ok(Words::from(text))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Words, E> {
                Ok(Words(vec![number.to_string()]))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Words, E> {
                Ok(Words(vec![number.to_string()]))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Words, E> {
                Ok(Words::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Words, A::Error> {
                let mut all = Words::default();
                while let Some(Words(some)) = list.next_element()? {
                    all.0.extend(some);
                }
                Ok(all)
            }
        }
        deserializer.deserialize_any(Collect)
    }
}

impl JsonSchema for Words {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Words".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "one value, values joined by commas, or a list of values",
            "anyOf": [
                {"type": "string"},
                {"type": "integer"},
                {"type": "array", "items": {"type": ["string", "integer"]}}
            ]
        })
    }
}
