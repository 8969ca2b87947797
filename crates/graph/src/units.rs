//! Durations and sizes as people write them.

use weir_nf::host::Timeouts;

/// Milliseconds of `90s`, `5m`, `2h4m`, `1d`, `500ms`; [`Timeouts::NEVER`] of
/// `never`.
///
/// # Errors
///
/// A message for people.
pub fn duration(text: &str) -> Result<u32, String> {
    if text == "never" {
        return Ok(Timeouts::NEVER);
    }
    const UNITS: [(&str, u64); 5] = [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1_000),
        ("ms", 1),
    ];
    let bad = || {
        format!(
            "`{text}` is not a duration: write one like `90s`, `5m`, `2h4m`, `500ms` or `never`"
        )
    };
    let (mut total, mut rest, mut from) = (0u64, text, 0);
    while !rest.is_empty() {
        let (number, tail) = digits(rest).ok_or_else(bad)?;
        let end = tail
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        if unit.is_empty() {
            return Err(format!(
                "`{text}` has no unit: write `{text}s` for seconds, or one like `5m`, `2h4m`"
            ));
        }
        // Each unit once, from large to small.
        let place = UNITS
            .iter()
            .skip(from)
            .position(|(name, _)| *name == unit)
            .ok_or_else(bad)?
            + from;
        let factor = UNITS.get(place).map_or(1, |(_, factor)| *factor);
        total = number
            .checked_mul(factor)
            .and_then(|part| total.checked_add(part))
            .ok_or_else(bad)?;
        from = place + 1;
        rest = tail;
    }
    match u32::try_from(total) {
        _ if text.is_empty() => Err(bad()),
        Ok(0) => Err(format!("`{text}` is no time at all: the least is `1ms`")),
        Ok(Timeouts::NEVER) | Err(_) => Err(format!(
            "`{text}` is too long: the most is `49d`, or `never`"
        )),
        Ok(milliseconds) => Ok(milliseconds),
    }
}

/// Octets of `4096`, `64KiB`, `64MiB`, `1GiB` or `64MB`.
///
/// # Errors
///
/// A message for people.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let bad =
        || format!("`{text}` is not a size: write one like `4096`, `64KiB`, `64MiB` or `1GiB`");
    let (number, unit) = digits(text).ok_or_else(bad)?;
    let factor = match unit.trim_start() {
        "" | "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(bad()),
    };
    number.checked_mul(factor).ok_or_else(bad)
}

/// Nanoseconds of `500us`, `2ms` or `1s`: times that are too short for [`duration`].
///
/// # Errors
///
/// A message for people.
pub fn short_time(text: &str) -> Result<u64, String> {
    let bad = || format!("`{text}` is not a short time: write one like `500us`, `2ms` or `1s`");
    let (number, unit) = digits(text).ok_or_else(bad)?;
    let factor = match unit {
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(bad()),
    };
    match number.checked_mul(factor).ok_or_else(bad)? {
        0 => Err(format!("`{text}` is no time at all: the least is `1us`")),
        time => Ok(time),
    }
}

/// Bytes per second of a rate in bits per second: `500kbit`, `100Mbit`, `1Gbit`.
///
/// # Errors
///
/// A message for people.
pub fn bit_rate(text: &str) -> Result<u64, String> {
    let bad = || format!("`{text}` is not a rate: write one like `100Mbit` or `1Gbit`");
    let (number, unit) = digits(text).ok_or_else(bad)?;
    let factor = match unit.strip_suffix("/s").unwrap_or(unit) {
        "kbit" => 1_000,
        "Mbit" => 1_000_000,
        "Gbit" => 1_000_000_000,
        _ => return Err(bad()),
    };
    match number.checked_mul(factor).ok_or_else(bad)? / 8 {
        0 => Err(format!("`{text}` is no rate at all: the least is `1kbit`")),
        rate => Ok(rate),
    }
}

/// A number at the start, and the rest.
fn digits(text: &str) -> Option<(u64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    Some((number.parse().ok()?, rest))
}

/// [`duration`] backwards.
pub(crate) fn show_duration(milliseconds: u32) -> String {
    if milliseconds == Timeouts::NEVER {
        return "never".to_owned();
    }
    let mut rest = milliseconds;
    let mut out = String::new();
    for (unit, factor) in [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1_000),
        ("ms", 1),
    ] {
        if rest >= factor {
            out.push_str(&format!("{}{unit}", rest / factor));
            rest %= factor;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_times_and_rates_are_read() {
        assert_eq!(short_time("500us"), Ok(500_000));
        assert_eq!(short_time("1s"), Ok(1_000_000_000));
        for bad in ["", "5", "us", "0us", "1m", "1.5ms", "99999999999999999999s"] {
            assert!(short_time(bad).is_err(), "{bad}");
        }
        assert_eq!(bit_rate("1Gbit"), Ok(125_000_000));
        assert_eq!(bit_rate("80kbit/s"), Ok(10_000));
        for bad in ["", "5", "0Mbit", "1MB", "1Gbit/m", "-1Gbit"] {
            assert!(bit_rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(duration("90s"), Ok(90_000));
        assert_eq!(duration("2h4m"), Ok(7_440_000));
        assert_eq!(duration("1d2h3m4s5ms"), Ok(93_784_005));
        assert_eq!(duration("never"), Ok(Timeouts::NEVER));
        for bad in [
            "",
            "90",
            "s",
            "5 m",
            "4m2h",
            "1h1h",
            "-5s",
            "1.5s",
            "5min",
            "50d",
            "0s",
            "99999999999999999999s",
            "18446744073709551615d",
        ] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        for text in ["90s", "2h4m", "500ms", "never"] {
            let read = duration(text).unwrap();
            assert_eq!(duration(&show_duration(read)), Ok(read));
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("64 MB"), Ok(64_000_000));
        for bad in ["", "MiB", "1.5GiB", "-1", "64mib", "99999999999GiB"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
