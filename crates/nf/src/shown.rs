//! State of a function, field by field, for people.

/// A value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShownValue {
    /// A number.
    Number(u64),
    /// A truth value.
    Flag(bool),
    /// Anything else, as text.
    Text(String),
}

impl core::fmt::Display for ShownValue {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            ShownValue::Number(value) => write!(f, "{value}"),
            ShownValue::Flag(value) => write!(f, "{value}"),
            ShownValue::Text(value) => f.write_str(value),
        }
    }
}

/// A field by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownField {
    /// Its name, as `to_server.next`.
    pub name: String,
    /// Its value.
    pub value: ShownValue,
}

/// The fields of a state, in the order in which a function tells them
/// ([`crate::NetworkFunction::show`]). For what an operator looks at: it
/// allocates, and no packet's disposition may depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    fields: Vec<ShownField>,
    within: String,
}

impl Shown {
    /// Adds a number.
    pub fn number(&mut self, name: &str, value: impl Into<u64>) -> &mut Self {
        self.add(name, ShownValue::Number(value.into()))
    }

    /// Adds a truth value.
    pub fn flag(&mut self, name: &str, value: bool) -> &mut Self {
        self.add(name, ShownValue::Flag(value))
    }

    /// Adds anything that prints.
    pub fn text(&mut self, name: &str, value: impl core::fmt::Display) -> &mut Self {
        self.add(name, ShownValue::Text(value.to_string()))
    }

    /// Adds bytes, as hexadecimal digits; more than 32 are cut short.
    pub fn bytes(&mut self, name: &str, value: &[u8]) -> &mut Self {
        const MOST: usize = 32;
        let mut text: String = value
            .iter()
            .take(MOST)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        if value.len() > MOST {
            text.push_str(&format!("… ({} bytes)", value.len()));
        }
        self.add(name, ShownValue::Text(text))
    }

    /// Adds the fields that `show` tells under names that begin with `name.`.
    pub fn within(&mut self, name: &str, show: impl FnOnce(&mut Shown)) -> &mut Self {
        let outside = self.within.len();
        self.within.push_str(name);
        self.within.push('.');
        show(self);
        self.within.truncate(outside);
        self
    }

    fn add(&mut self, name: &str, value: ShownValue) -> &mut Self {
        let name = format!("{}{name}", self.within);
        self.fields.push(ShownField { name, value });
        self
    }

    /// True where nothing was told.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The fields.
    pub fn into_fields(self) -> Vec<ShownField> {
        self.fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_order_and_say_within_what_they_are() {
        let mut shown = Shown::default();
        shown.number("a", 1u8).within("side", |side| {
            side.flag("open", true)
                .within("deep", |deep| _ = deep.text("b", "c"));
        });
        shown.bytes("raw", &[0xab; 40]);
        let fields: Vec<String> = shown
            .into_fields()
            .iter()
            .map(|field| format!("{}={}", field.name, field.value))
            .collect();
        assert_eq!(fields[..3], ["a=1", "side.open=true", "side.deep.b=c"]);
        assert!(fields[3].starts_with("raw=abab") && fields[3].ends_with("… (40 bytes)"));
    }
}
