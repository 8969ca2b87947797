//! Lengths of time on the command line.

use std::time::Duration;

/// A length of time in seconds, as `60`, `0.5` or `1s`.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let text = text.strip_suffix('s').unwrap_or(text);
    let seconds: f64 = text.parse().map_err(|_| "write seconds, as 60 or 0.5")?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| "write seconds from 0 on, as 60 or 0.5".to_owned())
}
