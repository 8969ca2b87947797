//! Serde's errors in the words of chain files.

use core::fmt;

use serde::de::{self, Expected, Unexpected};

use crate::nearest::suggestion;
use crate::tree::shorten;

/// Why a node can't be what it should be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) message: String,
    pub(crate) help: Option<String>,
    /// A word that the reader was looking at.
    pub(crate) about: Option<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Fault {
        let mut message = message.to_string();
        if message.starts_with("data did not match any variant of untagged enum") {
            message = "this is in none of the forms that are allowed here".to_owned();
        }
        Fault {
            message,
            help: None,
            about: None,
        }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Fault {
        let wanted = wanted(&expected.to_string());
        let mut fault = Fault::custom(format!("expected {wanted}, found {}", shown(&found)));
        if let Unexpected::Str(text) = found {
            fault.about = Some(text.to_owned());
            if wanted.contains("number") && text.parse::<f64>().is_ok() {
                fault.help = Some("write it without quotes".to_owned());
            }
        } else if wanted == "text" && matches!(found, Unexpected::Bool(_)) {
            fault.help = Some("write it in quotes".to_owned());
        }
        fault
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Fault {
        let wanted = wanted(&expected.to_string());
        let mut fault = Fault::custom(format!("expected {wanted}, found {}", shown(&found)));
        fault.about = match found {
            Unexpected::Str(text) => Some(text.to_owned()),
            Unexpected::Unsigned(number) => Some(number.to_string()),
            Unexpected::Signed(number) => Some(number.to_string()),
            _ => None,
        };
        fault
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Fault {
        let wanted = wanted(&expected.to_string());
        Fault::custom(format!("expected {wanted}, found {length} entries"))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Fault {
        Fault {
            message: format!("`{}` is not one of the values here", shorten(variant)),
            help: suggestion(variant, "values", expected),
            about: Some(variant.to_owned()),
        }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Fault {
        Fault {
            message: format!("unknown key `{}`", shorten(field)),
            help: suggestion(field, "keys here", expected)
                .or_else(|| Some("no key is known here".to_owned())),
            about: Some(field.to_owned()),
        }
    }

    fn missing_field(field: &'static str) -> Fault {
        Fault::custom(format!("the key `{field}` is missing"))
    }

    fn duplicate_field(field: &'static str) -> Fault {
        Fault::custom(format!("the key `{field}` is here twice"))
    }
}

fn shown(found: &Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => format!("`{value}`"),
        Unexpected::Unsigned(value) => format!("`{value}`"),
        Unexpected::Signed(value) => format!("`{value}`"),
        Unexpected::Float(value) => format!("`{value}`"),
        Unexpected::Str(text) => format!("`{}`", shorten(text)),
        Unexpected::Unit | Unexpected::Option => "nothing".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a mapping".to_owned(),
        other => other.to_string(),
    }
}

/// Serde's "expected ..." in the words of chain files.
fn wanted(expected: &str) -> String {
    let range =
        |least: &str, most: &dyn fmt::Display| format!("a whole number from {least} to {most}");
    match expected {
        "u8" => range("0", &u8::MAX),
        "u16" => range("0", &u16::MAX),
        "u32" => range("0", &u32::MAX),
        "u64" | "usize" => "a whole number, at least 0".to_owned(),
        "i8" => range("-128", &i8::MAX),
        "i16" => range("-32768", &i16::MAX),
        "i32" => range("-2147483648", &i32::MAX),
        "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a nonzero u8" => range("1", &u8::MAX),
        "a nonzero u16" => range("1", &u16::MAX),
        "a nonzero u32" => range("1", &u32::MAX),
        "a boolean" => "`true` or `false`".to_owned(),
        "a string" | "a borrowed string" | "string" => "text".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a mapping".to_owned(),
        other if other.starts_with("struct ") => "a mapping of settings".to_owned(),
        other if other.starts_with("enum ") || other.starts_with("variant ") => {
            "one of the named values".to_owned()
        }
        other
            if other.starts_with("internally tagged enum ")
                || other.starts_with("adjacently tagged enum ") =>
        {
            "a mapping of settings".to_owned()
        }
        other => match other.strip_prefix("a tuple of size ") {
            Some(size) => format!("a list of {size}"),
            None => other.to_owned(),
        },
    }
}
