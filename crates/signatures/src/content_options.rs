//! The modifiers of `content`.

use crate::byte_options::Names;
use crate::compare::parse_number;
use crate::content::{Content, FastPattern, Place};
use crate::error::{Fault, Span};
use crate::raw_option::RawOption;

/// The largest offset, depth, distance and within, in bytes.
const FARTHEST: u32 = 65_535;

/// Adds a modifier to the content it follows.
pub(crate) fn apply_content_modifier(
    text: &str,
    option: &RawOption,
    content: &mut Content,
    names: &Names,
) -> Result<(), Fault> {
    let keyword = option.keyword.as_str();
    if let Some(named) = named_place(text, option, names) {
        if content.variables.iter().any(|known| known.0 == named.0) {
            let message = format!("`{keyword}` is given twice for the same `content`");
            return Err(Fault::new(option.name, message));
        }
        content.variables.push(named);
        return Ok(());
    }
    let twice = |given: bool| {
        if given {
            let message = format!("`{keyword}` is given twice for the same `content`");
            Err(Fault::new(option.name, message))
        } else {
            Ok(())
        }
    };
    match keyword {
        "nocase" => {
            twice(content.nocase)?;
            content.nocase = true;
        }
        "rawbytes" => content.rawbytes = true,
        "startswith" => {
            twice(content.starts_with)?;
            content.starts_with = true;
        }
        "endswith" => {
            twice(content.ends_with)?;
            content.ends_with = true;
        }
        "offset" => {
            twice(content.offset.is_some())?;
            content.offset = Some(number(text, option)?);
        }
        "depth" => {
            twice(content.depth.is_some())?;
            content.depth = Some(number(text, option)?);
        }
        "within" => {
            twice(content.within.is_some())?;
            content.within = Some(number(text, option)?);
        }
        "distance" => {
            twice(content.distance.is_some())?;
            content.distance = Some(signed(text, option)?);
        }
        "fast_pattern" => {
            twice(content.fast_pattern.is_some())?;
            content.fast_pattern = Some(fast_pattern(text, option, content)?);
        }
        _ => {
            let message = format!("`{keyword}` is not a modifier of `content`");
            return Err(Fault::new(option.name, message));
        }
    }
    Ok(())
}

/// The place and the variable, where a modifier names one.
fn named_place(text: &str, option: &RawOption, names: &Names) -> Option<(Place, u8)> {
    let place = match option.keyword.as_str() {
        "offset" => Place::Offset,
        "depth" => Place::Depth,
        "distance" => Place::Distance,
        "within" => Place::Within,
        _ => return None,
    };
    Some((place, names.get(option.value.of(text))?))
}

fn number(text: &str, option: &RawOption) -> Result<u32, Fault> {
    parse_number(option.value.of(text), FARTHEST).map_err(|reason| value_fault(option, &reason))
}

fn signed(text: &str, option: &RawOption) -> Result<i32, Fault> {
    let written = option.value.of(text);
    let (negative, digits) = match written.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, written),
    };
    let size = parse_number(digits, FARTHEST).map_err(|reason| value_fault(option, &reason))?;
    // At most 65535, so that the sign fits as well.
    Ok(if negative {
        -(size as i32)
    } else {
        size as i32
    })
}

fn value_fault(option: &RawOption, reason: &str) -> Fault {
    let fault = Fault::new(
        option.value,
        format!("the value of `{}`: {reason}", option.keyword),
    );
    fault.help(
        "give a number, or the name of a variable that `byte_extract` or `byte_math` read before",
    )
}

fn fast_pattern(text: &str, option: &RawOption, content: &Content) -> Result<FastPattern, Fault> {
    let written = option.value.of(text);
    if !option.has_value || written.eq_ignore_ascii_case("only") {
        return Ok(FastPattern::Whole);
    }
    let bad = || {
        Fault::new(
            option.value,
            format!("`{written}` is not a value of `fast_pattern`"),
        )
        .help("write `fast_pattern`, `fast_pattern:only` or `fast_pattern:OFFSET,LENGTH`")
    };
    let (offset, length) = written.split_once(',').ok_or_else(bad)?;
    let offset = parse_number(offset, FARTHEST).map_err(|_| bad())?;
    let length = parse_number(length, FARTHEST).map_err(|_| bad())?;
    let end = offset as usize + length as usize;
    if length == 0 || end > content.bytes.len() {
        return Err(Fault::new(
            option.value,
            format!(
                "`fast_pattern:{written}` lies outside the content, which has {} bytes",
                content.bytes.len()
            ),
        ));
    }
    Ok(FastPattern::Part { offset, length })
}

/// Checks what can be checked only when all modifiers are known.
pub(crate) fn check_contents(contents: &[Content], spans: &[Span]) -> Result<(), Fault> {
    let mut fast = 0;
    for (content, &span) in contents.iter().zip(spans) {
        let length = content.bytes.len();
        let too_small = |keyword: &str, value: u32| {
            if (value as usize) < length {
                let message = format!(
                    "`{keyword}` {value} is smaller than the content, which has {length} bytes"
                );
                Err(Fault::new(span, message).help("such a content can never be found"))
            } else {
                Ok(())
            }
        };
        let absolute = content.offset.is_some() || content.depth.is_some();
        if content.is_relative() && absolute {
            return Err(Fault::new(
                span,
                "`distance` and `within` cannot be used with `offset` and `depth` for the same content",
            )
            .help("the former count from the match before, the latter from the start"));
        }
        if content.starts_with && (absolute || content.is_relative()) {
            return Err(Fault::new(
                span,
                "`startswith` cannot be used with `offset`, `depth`, `distance` and `within`",
            ));
        }
        if let Some(depth) = content.depth {
            too_small("depth", depth)?;
        }
        if let Some(within) = content.within {
            too_small("within", within)?;
        }
        if content.fast_pattern.is_some() {
            fast += 1;
            if fast > 1 {
                return Err(Fault::new(span, "a rule has one `fast_pattern` at most"));
            }
        }
    }
    Ok(())
}
