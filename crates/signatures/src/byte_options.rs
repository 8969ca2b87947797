//! Values of the keywords that read numbers out of buffers: `isdataat`, `byte_test`, `byte_jump`,
//! `byte_extract`, `byte_math`, `base64_decode`.

use crate::condition::{
    Base64, ByteOperator, Condition, Field, Jump, JumpFrom, MAX_VARIABLES, MathOperator, Number,
};
use crate::error::{Fault, Span};
use crate::raw_option::RawOption;

/// The names of a rule's variables, in the order of their numbers.
#[derive(Debug, Default)]
pub(crate) struct Names(Vec<String>);

impl Names {
    /// A number, or the name of a variable that was read before.
    pub(crate) fn number(&self, word: &str) -> Result<Number, String> {
        let word = word.trim();
        let (sign, magnitude) = match word.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, word),
        };
        let parsed = match magnitude.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16),
            None => magnitude.parse::<i64>(),
        };
        if magnitude.starts_with(|first: char| first.is_ascii_digit()) {
            return parsed
                .map(|value| Number::Fixed(sign * value))
                .map_err(|_| format!("`{word}` is not a number"));
        }
        self.get(word).map(Number::Variable).ok_or_else(|| {
            format!("`{word}` is neither a number nor a variable that was read before")
        })
    }

    /// The variable of a name.
    pub(crate) fn get(&self, name: &str) -> Option<u8> {
        let at = self.0.iter().position(|known| known == name)?;
        u8::try_from(at).ok()
    }

    /// The variable of a name, new or known.
    fn define(&mut self, name: &str) -> Result<u8, String> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        if name.is_empty() || !name.bytes().all(is_name) {
            return Err(format!("`{name}` is not the name of a variable"));
        }
        if let Some(known) = self.get(name) {
            return Ok(known);
        }
        if self.0.len() >= MAX_VARIABLES {
            return Err(format!("a rule has at most {MAX_VARIABLES} variables"));
        }
        self.0.push(name.to_string());
        u8::try_from(self.0.len() - 1).map_err(|_| "too many variables".to_string())
    }
}

/// The condition that an option states, if it is one of these.
pub(crate) fn parse(
    text: &str,
    option: &RawOption,
    names: &mut Names,
) -> Result<Option<Condition>, Fault> {
    let words: Vec<&str> = option.value.of(text).split(',').map(str::trim).collect();
    let condition = match option.keyword.as_str() {
        "isdataat" => data_at(&words, names),
        "byte_test" => byte_test(&words, names),
        "byte_jump" => byte_jump(&words, names),
        "byte_extract" => byte_extract(&words, names),
        "byte_math" => byte_math(&words, names),
        "base64_decode" => base64_decode(&words),
        _ => return Ok(None),
    };
    condition.map(Some).map_err(|reason| {
        let at = Span::new(option.value.start, option.value.end);
        Fault::new(at, format!("the value of `{}`: {reason}", option.keyword))
    })
}

fn data_at(words: &[&str], names: &Names) -> Result<Condition, String> {
    let (&place, rest) = words.split_first().ok_or("a number is missing")?;
    let (negated, place) = match place.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, place),
    };
    let mut relative = false;
    for &word in rest {
        match word {
            "relative" => relative = true,
            "rawbytes" => {}
            other => return Err(unknown(other)),
        }
    }
    Ok(Condition::DataAt {
        at: names.number(place)?,
        relative,
        negated,
    })
}

fn unknown(word: &str) -> String {
    format!("`{word}` is not known here")
}

/// A field that begins here, with nothing said about it.
fn field(bytes: &str, offset: Number, names: &Names) -> Result<Field, String> {
    Ok(Field {
        bytes: names.number(bytes).map_err(|_| {
            format!("`{bytes}` is neither a count of bytes nor a variable that was read before")
        })?,
        digits: None,
        little: false,
        relative: false,
        offset,
        mask: u64::MAX,
    })
}

/// Takes a word that says how a field is read; false if it is none.
fn field_word(field: &mut Field, string: &mut bool, word: &str) -> Result<bool, String> {
    let mut parts = word.split_whitespace();
    match (parts.next().unwrap_or(""), parts.next()) {
        ("relative", None) => field.relative = true,
        ("big", None) => field.little = false,
        ("little", None) => field.little = true,
        ("endian", Some("big")) => field.little = false,
        ("endian", Some("little")) => field.little = true,
        ("string", None) => *string = true,
        ("hex", None) | ("string", Some("hex")) => field.digits = Some(16),
        ("dec", None) | ("string", Some("dec")) => field.digits = Some(10),
        ("oct", None) | ("string", Some("oct")) => field.digits = Some(8),
        ("bitmask", Some(mask)) => {
            let digits = mask.trim_start_matches("0x").trim_start_matches("0X");
            let mask = u64::from_str_radix(digits, 16);
            field.mask = mask
                .ok()
                .filter(|&mask| mask != 0)
                .ok_or("a bit mask is hexadecimal and not 0")?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Most bytes that a field may have.
pub(crate) fn most_bytes(field: &Field) -> i64 {
    if field.digits.is_some() { 23 } else { 8 }
}

/// Checks what was said of a field.
fn checked(mut field: Field, string: bool, zero: bool) -> Result<Field, String> {
    if string {
        field.digits.get_or_insert(10);
    }
    let most = most_bytes(&field);
    match field.bytes {
        Number::Fixed(bytes) if bytes > most || bytes < i64::from(!zero) => {
            Err(format!("{bytes} bytes can't be read, 1 to {most} can"))
        }
        _ => Ok(field),
    }
}

fn byte_test(words: &[&str], names: &Names) -> Result<Condition, String> {
    let &[bytes, operator, value, offset, ref rest @ ..] = words else {
        return Err("write BYTES, OPERATOR, VALUE, OFFSET".to_string());
    };
    let (mut negated, mut sign) = (false, operator);
    if let Some(rest) = operator.strip_prefix('!') {
        negated = true;
        sign = rest.trim();
    }
    let operator = match sign {
        "<" => ByteOperator::Less,
        ">" => ByteOperator::Greater,
        "=" | "==" | "" => ByteOperator::Equal,
        "<=" => ByteOperator::LessEqual,
        ">=" => ByteOperator::GreaterEqual,
        "&" => ByteOperator::And,
        "^" => ByteOperator::Xor,
        other => return Err(unknown(other)),
    };
    let mut field = field(bytes, names.number(offset)?, names)?;
    let mut string = false;
    for &word in rest {
        if !field_word(&mut field, &mut string, word)? {
            return Err(unknown(word));
        }
    }
    Ok(Condition::ByteTest {
        field: checked(field, string, false)?,
        operator,
        negated,
        value: names.number(value)?,
    })
}

fn byte_jump(words: &[&str], names: &Names) -> Result<Condition, String> {
    let &[bytes, offset, ref rest @ ..] = words else {
        return Err("write BYTES, OFFSET".to_string());
    };
    let mut jump = Jump {
        field: field(bytes, names.number(offset)?, names)?,
        multiplier: 1,
        align: false,
        from: JumpFrom::Field,
        post: Number::Fixed(0),
    };
    let mut string = false;
    for &word in rest {
        let mut parts = word.split_whitespace();
        match (parts.next().unwrap_or(""), parts.next()) {
            ("align", None) => jump.align = true,
            ("from_beginning", None) => jump.from = JumpFrom::Start,
            ("from_end", None) => jump.from = JumpFrom::End,
            ("multiplier", Some(value)) => jump.multiplier = multiplier(value)?,
            ("post_offset", Some(value)) => jump.post = names.number(value)?,
            _ if field_word(&mut jump.field, &mut string, word)? => {}
            _ => return Err(unknown(word)),
        }
    }
    // A jump of no bytes goes by `post_offset` alone, from the end for instance.
    jump.field = checked(jump.field, string, true)?;
    Ok(Condition::ByteJump(jump))
}

fn multiplier(word: &str) -> Result<i64, String> {
    match word.parse::<u16>() {
        Ok(value) if value > 0 => Ok(i64::from(value)),
        _ => Err(format!("a multiplier is 1 to 65535, not `{word}`")),
    }
}

fn byte_extract(words: &[&str], names: &mut Names) -> Result<Condition, String> {
    let &[bytes, offset, name, ref rest @ ..] = words else {
        return Err("write BYTES, OFFSET, NAME".to_string());
    };
    let mut field = field(bytes, names.number(offset)?, names)?;
    let (mut scale, mut align, mut string) = (1, 0, false);
    for &word in rest {
        let mut parts = word.split_whitespace();
        match (parts.next().unwrap_or(""), parts.next()) {
            ("multiplier", Some(value)) => scale = multiplier(value)?,
            ("align", Some("2")) => align = 2,
            ("align", Some("4")) => align = 4,
            _ if field_word(&mut field, &mut string, word)? => {}
            _ => return Err(unknown(word)),
        }
    }
    Ok(Condition::ByteExtract {
        field: checked(field, string, false)?,
        multiplier: scale,
        align,
        variable: names.define(name)?,
    })
}

fn byte_math(words: &[&str], names: &mut Names) -> Result<Condition, String> {
    let (mut bytes, mut offset, mut operator, mut value, mut result) =
        (None, None, None, None, None);
    let mut rest = Vec::new();
    for &word in words {
        match word.split_once(char::is_whitespace) {
            Some(("bytes", given)) => bytes = Some(given),
            Some(("offset", given)) => offset = Some(names.number(given)?),
            Some(("rvalue", given)) => value = Some(names.number(given)?),
            Some(("result", given)) => result = Some(given.trim()),
            Some(("oper", given)) => {
                operator = Some(match given.trim() {
                    "+" => MathOperator::Add,
                    "-" => MathOperator::Subtract,
                    "*" => MathOperator::Multiply,
                    "/" => MathOperator::Divide,
                    "<<" => MathOperator::Left,
                    ">>" => MathOperator::Right,
                    other => return Err(unknown(other)),
                });
            }
            _ => rest.push(word),
        }
    }
    let (Some(bytes), Some(offset), Some(operator), Some(value), Some(result)) =
        (bytes, offset, operator, value, result)
    else {
        return Err("bytes, offset, oper, rvalue and result are needed".to_string());
    };
    let mut field = field(bytes, offset, names)?;
    let mut string = false;
    for word in rest {
        if !field_word(&mut field, &mut string, word)? {
            return Err(unknown(word));
        }
    }
    Ok(Condition::ByteMath {
        field: checked(field, string, false)?,
        operator,
        value,
        variable: names.define(result)?,
    })
}

fn base64_decode(words: &[&str]) -> Result<Condition, String> {
    let mut base64 = Base64 {
        bytes: None,
        offset: 0,
        relative: false,
        decoded: Vec::new(),
    };
    let number = |word: &str| {
        let most = Base64::MOST as u32;
        let number = word.trim().parse::<u32>().ok();
        number
            .filter(|&number| number <= most)
            .ok_or_else(|| format!("`{word}` is not a number up to {most}"))
    };
    for &word in words {
        match word.split_once(char::is_whitespace) {
            Some(("bytes", given)) => base64.bytes = Some(number(given)?),
            Some(("offset", given)) => base64.offset = number(given)?,
            None if word == "relative" => base64.relative = true,
            None if word.is_empty() => {}
            _ => return Err(unknown(word)),
        }
    }
    if base64.bytes == Some(0) {
        return Err("0 bytes can't be decoded".to_string());
    }
    Ok(Condition::Base64(base64))
}
