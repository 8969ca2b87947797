//! `weir bill`: what tenants have used, and what it costs.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use weir_packet::{civil_from_days, days_from_civil};

use super::At;

/// Hours of a day.
const DAY: u64 = 24;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Packets are billed once, when a switch lets them out (docs/billing.md). Prices are those of the
composition (`prices:`). Times are of UTC.

Examples:
  weir bill
  weir bill edge@coordinator:4791 --tenant acme --from 2026-11-01 --to 2026-12-01
  weir bill edge --by-hour --output csv
  weir bill --ledger /var/lib/weir/edge.ledger --prices edge.yaml")]
pub(crate) struct Bill {
    /// The instance: its name, or the path of its control socket; the one that runs without it. Of a
    /// coordinator, as NAME@COORDINATOR or with `--coordinator`: the composition
    #[arg(value_name = "NAME")]
    pub(crate) instance: Option<String>,
    /// Of this tenant alone
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// From this day or hour on, as 2026-11-01 or 2026-11-01T13
    #[arg(long, value_name = "TIME", value_parser = hour)]
    pub(crate) from: Option<u64>,
    /// Before this day or hour
    #[arg(long, value_name = "TIME", value_parser = hour)]
    pub(crate) to: Option<u64>,
    /// A row for each hour
    #[arg(long)]
    pub(crate) by_hour: bool,
    /// Read the ledgers of this folder, and ask nobody: of a run that is over, say
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["instance", "coordinator", "identity"])]
    pub(crate) ledger: Option<PathBuf>,
    /// Composition whose prices count, in place of those of the instance or coordinator
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) at: At,
    /// How it is printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: BillFormat,
}

/// How a bill is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum BillFormat {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
    /// For spreadsheets
    Csv,
}

/// The hour since 1970 of a time like `2026-11-01` or `2026-11-01T13`.
fn hour(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no time: write `2026-11-01` or `2026-11-01T13`, say");
    let (date, hour) = match text.split_once(['T', ' ']) {
        Some((date, hour)) => (date, number(hour, 2).ok_or_else(wrong)?),
        None => (text, 0),
    };
    let mut parts = date.split('-');
    let mut part = |digits| parts.next().and_then(|text| number(text, digits));
    let (year, month, day) = (part(4), part(2), part(2));
    let (Some(year), Some(month), Some(day), None) = (year, month, day, parts.next()) else {
        return Err(wrong());
    };
    if year < 1970 || !(1..=12).contains(&month) || u64::from(hour) >= DAY {
        return Err(wrong());
    }
    let date = (i64::from(year), month, day);
    let days = days_from_civil(date.0, date.1, date.2);
    if civil_from_days(days) != date {
        return Err(format!("{year}-{month:02} has no day {day}"));
    }
    Ok(days as u64 * DAY + u64::from(hour))
}

/// The time of an hour since 1970, as `2026-11-01T13`.
pub(crate) fn time_of(hour: u64) -> String {
    let (year, month, day) = civil_from_days((hour / DAY) as i64);
    format!("{year}-{month:02}-{day:02}T{:02}", hour % DAY)
}

fn number(text: &str, digits: usize) -> Option<u32> {
    let fits = text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
    fits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_hours_since_1970() {
        for (text, seconds) in [
            ("1970-01-01", 0),
            ("2000-02-29T23", 951_865_200),
            ("2026-11-28", 1_795_824_000),
            ("2100-03-01T05", 4_107_560_400),
        ] {
            assert_eq!(hour(text), Ok(seconds / 3_600), "{text}");
            assert!(time_of(seconds / 3_600).starts_with(text), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "2026",
            "2026-13-01",
            "2026-1-1",
            "2026-01-01T24",
            "1969-12-31",
        ] {
            assert!(hour(text).unwrap_err().contains("is no time"), "{text}");
        }
        assert_eq!(hour("2026-02-29"), Err("2026-02 has no day 29".to_owned()));
    }
}
