//! `requires`: what a rule needs of the engine that reads it.

use crate::error::{Fault, SkipReason};
use crate::raw_option::RawOption;

/// The release of Suricata whose rules are read as it reads them.
const VERSION: [u32; 3] = [7, 0, 10];

/// Checks that all is there that a rule requires; a rule that requires more is left out like one with an
/// unsupported keyword. `is_keyword` tells the keywords that are known.
pub(crate) fn check(
    text: &str,
    option: &RawOption,
    is_keyword: fn(&str) -> bool,
) -> Result<(), Fault> {
    for part in option.value.of(text).split(',').map(str::trim) {
        let (kind, wanted) = part.split_once(char::is_whitespace).unwrap_or((part, ""));
        let wanted = wanted.trim();
        let met = match kind {
            "feature" => false,
            "keyword" => is_keyword(wanted),
            "version" => {
                let mut alternatives = wanted.split('|').map(version_holds);
                alternatives
                    .try_fold(false, |met, holds| Some(met | holds?))
                    .ok_or_else(|| {
                        Fault::new(
                            option.value,
                            format!("`{wanted}` is not a range of versions"),
                        )
                        .help("write `requires:version >= 7.0.3`")
                    })?
            }
            // What later releases know.
            _ => false,
        };
        if !met {
            return Err(
                Fault::new(option.value, format!("the rule requires {part}"))
                    .skip(SkipReason::Keywords(vec![format!("requires:{part}")])),
            );
        }
    }
    Ok(())
}

/// Comparisons that hold together, as `>= 7.0.3 < 8`; `None` where they are none.
fn version_holds(range: &str) -> Option<bool> {
    let mut rest = range.trim();
    let mut holds = !rest.is_empty();
    while !rest.is_empty() {
        let behind = rest.trim_start_matches(['<', '>', '=']);
        let (operator, version) = rest.split_at(rest.len() - behind.len());
        let version = version.trim_start();
        let end = version.find([' ', '<', '>', '=']).unwrap_or(version.len());
        let (version, next) = version.split_at(end);
        rest = next.trim_start();
        let mut numbers = [0; 3];
        for (number, word) in version.split('.').enumerate() {
            *numbers.get_mut(number)? = word.parse().ok()?;
        }
        holds &= match operator {
            "<" => VERSION < numbers,
            "<=" => VERSION <= numbers,
            ">" => VERSION > numbers,
            ">=" => VERSION >= numbers,
            "=" | "==" => VERSION == numbers,
            _ => return None,
        };
    }
    (!range.trim().is_empty()).then_some(holds)
}

#[cfg(test)]
mod tests {
    use super::version_holds;

    #[test]
    fn versions_compare() {
        for (range, expected) in [
            (">= 7", Some(true)),
            (">=7.0.3<8", Some(true)),
            (">= 7.0.3 < 7.0.10", Some(false)),
            ("< 8.0.0", Some(true)),
            ("> 8", Some(false)),
            ("7", None),
            (">= 7.x", None),
            (">= 7.0.0.1", None),
            ("", None),
        ] {
            assert_eq!(version_holds(range), expected, "{range}");
        }
    }
}
