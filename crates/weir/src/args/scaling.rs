//! `--scaling`: when runtimes are started and drained.

use std::str::FromStr;

use weir_control::ScalingSettings;
use weir_graph::{ComposedScaling, MOST_RUNTIMES, SCALING_INTERVALS};

use super::pairs::read_pairs;

/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;

/// The keys, for errors.
const KEYS: &str = "`interval`, `cool-down`, `batch`, `held-back`, `calm` and `capacity`";

/// Settings of scaling, as text: `1-4,interval=500ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScalingBy(pub(crate) ScalingSettings);

impl FromStr for ScalingBy {
    type Err = String;

    fn from_str(text: &str) -> Result<ScalingBy, String> {
        let mut parts = text.split(',');
        let bounds = parts.next().unwrap_or_default();
        let (minimum, maximum) = bounds
            .split_once('-')
            .and_then(|(least, most)| Some((least.parse().ok()?, most.parse().ok()?)))
            .ok_or_else(|| format!("`{bounds}` is no range of runtimes: write `1-4`, say"))?;
        let mut settings = ScalingSettings {
            minimum,
            maximum,
            ..ScalingSettings::default()
        };
        read_pairs(parts, |key, value| set(&mut settings, key, value))?;
        ScalingBy::new(settings)
    }
}

impl ScalingBy {
    /// Settings that make sense.
    ///
    /// # Errors
    ///
    /// They make none: which, for people.
    pub(crate) fn new(settings: ScalingSettings) -> Result<ScalingBy, String> {
        let interval = u32::try_from(settings.report_interval / MS).unwrap_or(u32::MAX);
        if !SCALING_INTERVALS.contains(&interval) {
            let (least, most) = (SCALING_INTERVALS.start(), SCALING_INTERVALS.end() / 1_000);
            return Err(format!("`interval` is from `{least}ms` to `{most}s`"));
        }
        if settings.maximum > MOST_RUNTIMES {
            return Err(format!("a cluster has at most {MOST_RUNTIMES} runtimes"));
        }
        settings.check().map_err(|why| why.to_string())?;
        Ok(ScalingBy(settings))
    }
}

impl TryFrom<&ComposedScaling> for ScalingBy {
    type Error = String;

    fn try_from(by: &ComposedScaling) -> Result<ScalingBy, String> {
        let usual = ScalingSettings::default();
        let ns = |ms: Option<u32>, usual| ms.map_or(usual, |ms| u64::from(ms) * MS);
        let share = |percent: Option<u32>, usual| percent.map_or(usual, |percent| percent * 10);
        ScalingBy::new(ScalingSettings {
            minimum: by.minimum,
            maximum: by.maximum,
            report_interval: ns(by.interval_ms, usual.report_interval),
            cool_down: ns(by.cool_down_ms, usual.cool_down),
            batch: by.batch.unwrap_or(usual.batch),
            held_back: share(by.held_back, usual.held_back),
            calm: share(by.calm, usual.calm),
            capacity: by.capacity.unwrap_or(usual.capacity),
            ..usual
        })
    }
}

fn set(settings: &mut ScalingSettings, key: &str, value: &str) -> Result<(), String> {
    let wrong = |what: &str| format!("`{key}={value}`: expected {what}");
    let number = || match value.parse() {
        Ok(number @ 1..) => Ok(number),
        _ => Err(wrong("a number from 1 on, as `500`")),
    };
    let time = || {
        let read = weir_graph::duration(value).map(|ms| u64::from(ms) * MS);
        read.map_err(|why| format!("`{key}`: {why}"))
    };
    let percent = || match value.strip_suffix('%').unwrap_or(value).parse::<u32>() {
        Ok(percent @ 0..=100) => Ok(percent * 10),
        _ => Err(wrong("a share, as `10%`")),
    };
    match key {
        "interval" => settings.report_interval = time()?,
        "cool-down" => settings.cool_down = time()?,
        "batch" => {
            let number = value.parse();
            settings.batch = number.map_err(|_| wrong("a number of units, as `500`"))?;
        }
        "held-back" => settings.held_back = percent()?,
        "calm" => settings.calm = percent()?,
        "capacity" => settings.capacity = number()?,
        _ => return Err(format!("there is no setting `{key}`: there are {KEYS}")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_nonsense_is_told() {
        let ScalingBy(read) = "2-8,interval=500ms,cool-down=2s,held-back=5%,capacity=100000"
            .parse()
            .unwrap();
        assert_eq!((read.minimum, read.maximum), (2, 8));
        assert_eq!(read.report_interval, 500 * MS);
        assert_eq!(read.cool_down, 2_000 * MS);
        assert_eq!((read.held_back, read.capacity), (50, 100_000));
        for (text, said) in [
            ("4", "no range of runtimes"),
            ("4-2", "`minimum` is above `maximum`"),
            ("0-2", "`minimum` is 0"),
            ("1-65", "at most 64 runtimes"),
            ("1-2,interval", "has no value"),
            ("1-2,interval=1h", "from `20ms` to `60s`"),
            ("1-2,interval=soon", "`soon` is not a duration"),
            ("1-2,capacity=0", "a number from 1 on"),
            ("1-2,interval=1s,interval=2s", "given twice"),
            ("1-2,batch=0", "`batch` is 0"),
            ("1-2,batch=-1", "expected a number"),
            ("1-2,calm=101%", "expected a share"),
            ("1-2,speed=9", "there is no setting `speed`"),
        ] {
            let why = text.parse::<ScalingBy>().unwrap_err();
            assert!(why.contains(said), "{text}: {why}");
        }
    }
}
