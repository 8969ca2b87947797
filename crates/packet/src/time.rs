//! Flow time: the instant a packet entered weir, in nanoseconds.

use core::fmt;
use core::str::FromStr;

/// Nanoseconds since the Unix epoch, stamped once, at ingress.
///
/// Time below the drivers is always the time of a packet: expiry, replay and
/// reprocessing give the same answer whenever they run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Time(pub u64);

impl Time {
    /// The epoch; also "never".
    pub const ZERO: Time = Time(0);

    /// From whole seconds since the epoch.
    pub const fn from_secs(seconds: u64) -> Time {
        Time(seconds.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds from `earlier` to here; 0 where `earlier` is later
    /// (captures are not always in order).
    pub const fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// This instant moved on by `nanoseconds`.
    pub const fn plus(self, nanoseconds: u64) -> Time {
        Time(self.0.saturating_add(nanoseconds))
    }
}

/// ISO 8601 in UTC with microseconds, as Suricata's EVE writes it:
/// `2026-11-21T00:10:00.123456+0000`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / 1_000_000_000;
        let micros = self.0 % 1_000_000_000 / 1_000;
        let (year, month, day) = civil_from_days((seconds / 86_400) as i64);
        let (h, m, s) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{micros:06}+0000"
        )
    }
}

/// Reads what [`Time`] is printed as; further digits of the second are ignored.
impl FromStr for Time {
    type Err = NoTime;

    fn from_str(text: &str) -> Result<Time, NoTime> {
        let (day, rest) = text.split_once('T').ok_or(NoTime)?;
        let (clock, rest) = rest.split_once('.').ok_or(NoTime)?;
        let fraction = rest.strip_suffix("+0000").ok_or(NoTime)?;
        let [year, month, day] = three(day, '-').ok_or(NoTime)?;
        let [h, m, s] = three(clock, ':').ok_or(NoTime)?;
        if !fraction.bytes().all(|octet| octet.is_ascii_digit()) {
            return Err(NoTime);
        }
        let micros = fraction.get(..6).ok_or(NoTime)?;
        let micros: u64 = micros.parse().map_err(|_| NoTime)?;
        let is_one = (1970..2554).contains(&year)
            && (1..=12).contains(&month)
            && (1..=31).contains(&day)
            && h < 24
            && m < 60
            && s < 60;
        if !is_one {
            return Err(NoTime);
        }
        let days = days_from_civil(i64::from(year), month, day) as u64;
        let seconds = days * 86_400 + u64::from(h * 3_600 + m * 60 + s);
        Ok(Time(seconds * 1_000_000_000 + micros * 1_000))
    }
}

/// Three numbers with a sign between them.
fn three(text: &str, sign: char) -> Option<[u32; 3]> {
    let mut parts = text.split(sign).map(|part| part.parse().ok());
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

/// The text is no time as [`Time`] is printed, from 1970 to 2553.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoTime;

impl fmt::Display for NoTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no time: write 2026-11-28T12:00:00.000000+0000")
    }
}

impl core::error::Error for NoTime {}

/// Number of the day of a proleptic Gregorian date since 1970-01-01: [`civil_from_days`] backwards.
///
/// Of a day that a month does not have, it is that of as many days behind the month's first.
pub const fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = year - (month <= 2) as i64;
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 } as i64;
    let day_of_year = (153 * shifted_month + 2) / 5 + day as i64 - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Proleptic Gregorian date, as year, month and day, of a day number since 1970-01-01; days before it are negative.
///
/// Years are counted from March, so that the leap day is the last of the year.
pub const fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    } as u32;
    let year = year_of_era + era * 400 + (month <= 2) as i64;
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read() {
        for days in (0..212_000_u64).step_by(17) {
            let time = Time((days * 86_400 + days % 86_400) * 1_000_000_000 + days * 1_000);
            assert_eq!(time.to_string().parse(), Ok(time));
        }
        for wrong in [
            "",
            "2026-11-28",
            "2026-11-28T12:00:00+0000",
            "2026-11-28T12:00:00.000000",
            "2026-11-28T12:00:00.000000+0100",
            "2026-13-28T12:00:00.000000+0000",
            "1969-11-28T12:00:00.000000+0000",
            "2026-11-28T24:00:00.000000+0000",
            "2026-11-28T12:00:00.000000+0100+0000",
            "2026-11-28T12:00:00.+00001+0000",
            "2026-11-28-1T12:00:00.000000+0000",
            "x-11-28T12:00:00.000000+0000",
        ] {
            assert_eq!(wrong.parse::<Time>(), Err(NoTime), "{wrong}");
        }
    }

    #[test]
    fn prints_known_instants() {
        assert_eq!(Time::ZERO.to_string(), "1970-01-01T00:00:00.000000+0000");
        // `date -u -d @1367526033` and `date -u -d @951827696`
        assert_eq!(
            Time(1_367_526_033_491_822_000).to_string(),
            "2013-05-02T20:20:33.491822+0000"
        );
        assert_eq!(
            Time::from_secs(951_827_696).to_string(),
            "2000-02-29T12:34:56.000000+0000"
        );
        assert_eq!(
            Time::from_secs(4_323_283_200).to_string(),
            "2107-01-01T00:00:00.000000+0000"
        );
    }

    #[test]
    fn never_runs_backwards() {
        assert_eq!(Time(5).since(Time(9)), 0);
        assert_eq!(Time(u64::MAX).plus(1), Time(u64::MAX));
    }
}
