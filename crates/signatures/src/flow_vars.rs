//! Flowbits and flowints, the variables that rules set and test in a flow. They are plain data of a fixed layout,
//! valid when zeroed and safe to use whatever their bytes are.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::compare::parse_number;
use crate::error::{Fault, Span};

/// How many names of flowbits a rule set may use, and how many of flowints.
pub const MAX_FLOW_VARS: usize = 4_096;
/// Bits that are set in a flow at a time, at most.
const BITS: usize = 32;
/// Integers that a flow has at a time, at most.
const INTEGERS: usize = 8;

// The number of a name, plus one, fits.
const _: () = assert!(MAX_FLOW_VARS < u16::MAX as usize);

/// The flowbits and flowints of a flow. They are cleared when the rule set has changed, since the numbers of
/// the names belong to the rule set.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct FlowVars {
    generation: u64,
    /// Names of those that are set, plus one; 0 is free.
    bits: [u16; BITS],
    /// Names of the integers, plus one; 0 is free.
    names: [u16; INTEGERS],
    values: [u32; INTEGERS],
}

impl FlowVars {
    /// True of those of a rule set of this generation.
    pub fn is_of(&self, generation: u64) -> bool {
        self.generation == generation
    }

    /// Makes them usable with the rule set of this generation.
    #[inline]
    pub fn adopt(&mut self, generation: u64) {
        if self.generation != generation {
            *self = FlowVars {
                generation,
                ..FlowVars::default()
            };
        }
    }

    /// How many bits are set.
    pub fn count(&self) -> u32 {
        self.bits.iter().filter(|&&bit| bit != 0).count() as u32
    }

    #[inline]
    pub(crate) fn is_set(&self, bit: u16) -> bool {
        self.bits.contains(&(bit + 1))
    }

    /// Sets or clears a bit; false where there is no room for it.
    pub(crate) fn set(&mut self, bit: u16, on: bool) -> bool {
        let place = self.bits.iter().position(|&known| known == bit + 1);
        match (place, on) {
            (Some(_), true) | (None, false) => true,
            (Some(place), false) => {
                self.bits[place] = 0;
                true
            }
            (None, true) => {
                let free = self.bits.iter_mut().find(|known| **known == 0);
                free.map(|free| *free = bit + 1).is_some()
            }
        }
    }

    fn integer(&self, name: u16) -> Option<u32> {
        let place = self.names.iter().position(|&known| known == name + 1)?;
        Some(self.values[place])
    }

    /// False where there is no room for it.
    fn set_integer(&mut self, name: u16, value: u32) -> bool {
        let known = self.names.iter().position(|&known| known == name + 1);
        let place = known.or_else(|| self.names.iter().position(|&known| known == 0));
        let Some(place) = place else { return false };
        self.names[place] = name + 1;
        self.values[place] = value;
        true
    }
}

/// Operation of a `flowint`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowIntKind {
    /// `=`: the integer becomes the value.
    Set,
    /// `+`: the value is added; one that is not there begins with it.
    Add,
    /// `-`: the value is taken away; one that is not there counts as 0.
    Subtract,
    /// `isset`.
    IsSet,
    /// `notset`, `isnotset`.
    IsNotSet,
    /// `==`; no comparison holds for one that is not there.
    Equal,
    /// `!=`.
    NotEqual,
    /// `<`.
    Less,
    /// `<=`.
    LessOrEqual,
    /// `>`.
    Greater,
    /// `>=`.
    GreaterOrEqual,
}

/// The value of a `flowint`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlowIntValue {
    /// This number.
    Number(u32),
    /// The integer of this name; 0 where it is not there.
    Named(String),
}

/// One `flowint` keyword.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowInt {
    /// Name of the integer.
    pub name: String,
    /// Its operation.
    pub kind: FlowIntKind,
    /// 0 for `isset` and `notset`.
    pub value: FlowIntValue,
}

impl FlowIntKind {
    /// True if it changes the integer, rather than asking.
    pub fn writes(self) -> bool {
        use FlowIntKind::{Add, Set, Subtract};
        matches!(self, Set | Add | Subtract)
    }
}

/// The value of a `flowint` with its name as a number.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value {
    Number(u32),
    Named(u16),
}

/// A `flowint` with its names as numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IntegerOperation {
    pub(crate) name: u16,
    pub(crate) kind: FlowIntKind,
    pub(crate) value: Value,
}

impl IntegerOperation {
    fn value(&self, vars: &FlowVars) -> u32 {
        match self.value {
            Value::Number(number) => number,
            Value::Named(name) => vars.integer(name).unwrap_or(0),
        }
    }

    /// True if the test holds; an operation that writes always holds.
    pub(crate) fn holds(&self, vars: &FlowVars) -> bool {
        use FlowIntKind as Kind;
        let (own, value) = (vars.integer(self.name), self.value(vars));
        match self.kind {
            Kind::IsSet => own.is_some(),
            Kind::IsNotSet => own.is_none(),
            Kind::Equal => own.is_some_and(|own| own == value),
            Kind::NotEqual => own.is_some_and(|own| own != value),
            Kind::Less => own.is_some_and(|own| own < value),
            Kind::LessOrEqual => own.is_some_and(|own| own <= value),
            Kind::Greater => own.is_some_and(|own| own > value),
            Kind::GreaterOrEqual => own.is_some_and(|own| own >= value),
            Kind::Set | Kind::Add | Kind::Subtract => true,
        }
    }

    /// Changes the integer, modulo 2^32; false where there is no room for it.
    pub(crate) fn write(&self, vars: &mut FlowVars) -> bool {
        let value = self.value(vars);
        let own = vars.integer(self.name).unwrap_or(0);
        let now = match self.kind {
            FlowIntKind::Set => value,
            FlowIntKind::Add => own.wrapping_add(value),
            FlowIntKind::Subtract => own.wrapping_sub(value),
            _ => return true,
        };
        vars.set_integer(self.name, now)
    }
}

/// Reads `NAME, OPERATION[, VALUE]`.
pub(crate) fn parse_flowint(text: &str, value: Span) -> Result<FlowInt, Fault> {
    let fault = |message: String| {
        Fault::new(value, message).help(
            "write `flowint:name,+,1`; operations are =, +, -, ==, !=, <, <=, >, >=, isset and notset",
        )
    };
    let mut parts = value.of(text).split(',').map(str::trim);
    let is_name = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace);
    let name = parts.next().filter(|name| is_name(name));
    let name = name.ok_or_else(|| fault("`flowint` has no name".to_string()))?;
    let operation = parts.next().unwrap_or("");
    let kind = match operation.to_ascii_lowercase().as_str() {
        "=" => FlowIntKind::Set,
        "+" => FlowIntKind::Add,
        "-" => FlowIntKind::Subtract,
        "isset" => FlowIntKind::IsSet,
        "notset" | "isnotset" => FlowIntKind::IsNotSet,
        "==" => FlowIntKind::Equal,
        "!=" => FlowIntKind::NotEqual,
        "<" => FlowIntKind::Less,
        "<=" => FlowIntKind::LessOrEqual,
        ">" => FlowIntKind::Greater,
        ">=" => FlowIntKind::GreaterOrEqual,
        other => return Err(fault(format!("unknown operation `{other}` of `flowint`"))),
    };
    let operand = parts.next();
    let value = match (kind, operand) {
        (FlowIntKind::IsSet | FlowIntKind::IsNotSet, None) => FlowIntValue::Number(0),
        (FlowIntKind::IsSet | FlowIntKind::IsNotSet, Some(_)) => {
            return Err(fault(format!("`{operation}` takes no value")));
        }
        (_, Some(word)) if word.starts_with(|c: char| c.is_ascii_digit()) => {
            let number = parse_number(word, u32::MAX);
            FlowIntValue::Number(number.map_err(|why| fault(format!("`flowint`: {why}")))?)
        }
        (_, Some(word)) if is_name(word) => FlowIntValue::Named(word.to_string()),
        _ => return Err(fault(format!("`{operation}` needs a number or a name"))),
    };
    match parts.next() {
        None => Ok(FlowInt {
            name: name.to_string(),
            kind,
            value,
        }),
        Some(_) => Err(fault("`flowint` has three parts at most".to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_and_go_and_are_bounded() {
        let mut vars = FlowVars::default();
        for bit in 0..BITS as u16 {
            assert!(!vars.is_set(bit * 100) && vars.set(bit * 100, true) && vars.is_set(bit * 100));
        }
        assert!(!vars.set(1, true) && !vars.is_set(1) && vars.set(0, true) && vars.set(1, false));
        assert!(vars.set(0, false) && !vars.is_set(0) && vars.set(4_095, true));
        assert!(vars.is_set(4_095) && vars.count() == BITS as u32);
        vars.adopt(7);
        assert_eq!(vars.count(), 0);
    }

    #[test]
    fn integers_count_and_compare() {
        let read = |text: &str| parse_flowint(text, Span::new(0, text.len())).expect(text);
        let mut vars = FlowVars::default();
        let mut run = |text: &str| {
            let FlowInt { name, kind, value } = read(text);
            let number = |name: &str| u16::from(name.as_bytes()[0] - b'a');
            let operation = IntegerOperation {
                name: number(&name),
                kind,
                value: match value {
                    FlowIntValue::Number(number) => Value::Number(number),
                    FlowIntValue::Named(name) => Value::Named(number(&name)),
                },
            };
            match kind.writes() {
                true => operation.write(&mut vars),
                false => operation.holds(&vars),
            }
        };
        for (text, expected) in [
            ("a, notset", true),
            ("a,==,0", false),
            ("a,!=,0", false),
            ("a,+,3", true),
            ("a,isset", true),
            ("a,==,3", true),
            ("b,=,a", true),
            ("b,>=,a", true),
            ("b,>,a", false),
            ("b,-,4", true),
            ("b,==,4294967295", true),
            ("a,<,b", true),
            ("a,<=,z", false),
            ("c,=,1", true),
            ("d,=,1", true),
            ("e,=,1", true),
            ("f,=,1", true),
            ("g,=,1", true),
            ("h,=,1", true),
            ("i,=,1", false),
            ("i,isset", false),
            ("h,=,0", true),
        ] {
            assert_eq!(run(text), expected, "{text}");
        }
        for text in [
            "",
            "a",
            "a,??,1",
            "a,+",
            "a,+,",
            "a,isset,1",
            "a,+,1,2",
            "a,+,99999999999",
        ] {
            parse_flowint(text, Span::new(0, text.len())).expect_err(text);
        }
    }
}
