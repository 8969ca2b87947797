//! Comparisons with a number, as `dsize`, `itype`, `ttl` and their like write them.

/// A condition on a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// The number itself (`8`).
    Equal(u32),
    /// Any other number (`!8`, `!=8`).
    NotEqual(u32),
    /// Smaller (`<8`).
    Less(u32),
    /// Smaller or equal (`<=8`).
    LessEqual(u32),
    /// Greater (`>8`).
    Greater(u32),
    /// Greater or equal (`>=8`).
    GreaterEqual(u32),
    /// Between the two numbers, which are not included themselves (`7<>20`, `7-20`).
    Between(u32, u32),
}

impl Compare {
    /// True if `value` meets the condition.
    #[inline]
    pub fn holds(&self, value: u32) -> bool {
        match *self {
            Compare::Equal(number) => value == number,
            Compare::NotEqual(number) => value != number,
            Compare::Less(number) => value < number,
            Compare::LessEqual(number) => value <= number,
            Compare::Greater(number) => value > number,
            Compare::GreaterEqual(number) => value >= number,
            Compare::Between(low, high) => value > low && value < high,
        }
    }

    /// Reads a condition whose operator and number are given apart. The error says what is wrong.
    pub(crate) fn of_words(operator: &str, number: &str, max: u32) -> Result<Compare, String> {
        match operator {
            "<" | ">" | "=" | "<=" | ">=" => Compare::parse(&format!("{operator}{number}"), max),
            _ => Err(format!("`{operator}` is no operator")),
        }
    }

    /// Reads a condition whose numbers are at most `max`. The error says what is wrong.
    pub(crate) fn parse(text: &str, max: u32) -> Result<Compare, String> {
        let number = |part: &str| parse_number(part, max);
        let text = text.trim();
        for separator in ["<>", "-"] {
            if let Some((low, high)) = text.split_once(separator)
                && !low.trim().is_empty()
            {
                let (low, high) = (number(low)?, number(high)?);
                // Both ends are excluded, so that the range must hold at least one number between them.
                return if low.saturating_add(1) < high {
                    Ok(Compare::Between(low, high))
                } else {
                    Err(format!("no number lies between {low} and {high}"))
                };
            }
        }
        let condition = if let Some(rest) = text.strip_prefix("!=").or(text.strip_prefix('!')) {
            Compare::NotEqual(number(rest)?)
        } else if let Some(rest) = text.strip_prefix("<=") {
            Compare::LessEqual(number(rest)?)
        } else if let Some(rest) = text.strip_prefix('<') {
            Compare::Less(number(rest)?)
        } else if let Some(rest) = text.strip_prefix(">=") {
            Compare::GreaterEqual(number(rest)?)
        } else if let Some(rest) = text.strip_prefix('>') {
            Compare::Greater(number(rest)?)
        } else {
            Compare::Equal(number(text.strip_prefix('=').unwrap_or(text))?)
        };
        match condition {
            Compare::Less(0) => Err("no number is smaller than 0".to_string()),
            Compare::Greater(limit) if limit == max => {
                Err(format!("no value is greater than {max}"))
            }
            condition => Ok(condition),
        }
    }
}

/// A decimal number from 0 to `max`; digits only.
pub(crate) fn parse_number(text: &str, max: u32) -> Result<u32, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("a number is missing".to_string());
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("`{text}` is not a number"));
    }
    match text.parse::<u32>() {
        Ok(number) if number <= max => Ok(number),
        _ => Err(format!(
            "{text} is above {max}, the largest value possible here"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_operator() {
        for (text, expected) in [
            ("8", Compare::Equal(8)),
            ("=8", Compare::Equal(8)),
            ("!8", Compare::NotEqual(8)),
            ("!= 8", Compare::NotEqual(8)),
            ("< 8", Compare::Less(8)),
            ("<=8", Compare::LessEqual(8)),
            (">8", Compare::Greater(8)),
            (">=8", Compare::GreaterEqual(8)),
            ("7<>20", Compare::Between(7, 20)),
            ("7-20", Compare::Between(7, 20)),
            (" 7 <> 20 ", Compare::Between(7, 20)),
        ] {
            assert_eq!(Compare::parse(text, 255), Ok(expected), "{text}");
        }
        for text in [
            "", "x", "256", "<0", ">255", "7<>8", "9<>3", "-1", "1x", "+1", "<>3",
        ] {
            assert!(Compare::parse(text, 255).is_err(), "{text}");
        }
    }

    #[test]
    fn between_leaves_out_its_ends() {
        let between = Compare::Between(7, 20);
        assert!(!between.holds(7) && between.holds(8) && between.holds(19) && !between.holds(20));
    }
}
