//! Settings of a link, and their syntax.

use std::fmt;
use std::str::FromStr;

/// Settings of one direction of a link. Shares are in parts of a million, times
/// in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSettings {
    /// Packets lost.
    pub loss: u32,
    /// Packets that come twice.
    pub duplicate: u32,
    /// Packets that come later than ones behind them.
    pub reorder: u32,
    /// How much later those come.
    pub late: u64,
    /// Delay of every packet.
    pub delay: u64,
    /// The delay is more or less than that by up to as much, at random. Packets
    /// keep their order: one that is faster waits for those before it.
    pub jitter: u64,
    /// Bits per second that the link carries, frame bytes alone; 0 for no
    /// limit.
    pub rate: u64,
    /// Most packets under way; those beyond it are dropped, counted.
    pub limit: u32,
    /// Seed of its choices.
    pub seed: u64,
}

impl Default for LinkSettings {
    /// A perfect link with room for 1,000 packets.
    fn default() -> LinkSettings {
        LinkSettings {
            loss: 0,
            duplicate: 0,
            reorder: 0,
            late: 1_000_000,
            delay: 0,
            jitter: 0,
            rate: 0,
            limit: 1_000,
            seed: 0,
        }
    }
}

/// Most packets that a link may hold.
const MOST: u32 = 65_536;
/// Longest times.
const LONGEST: u64 = 10_000_000_000;

const EXPECTED: &str = "expected a list like \
     `loss=1%,delay=20ms,jitter=5ms,reorder=2%,late=1ms,duplicate=1%,rate=100Mbit,limit=1000,seed=7`";

impl FromStr for LinkSettings {
    type Err = String;

    fn from_str(text: &str) -> Result<LinkSettings, String> {
        let mut link = LinkSettings::default();
        for item in text.split(',') {
            let (key, value) = item
                .split_once('=')
                .ok_or_else(|| format!("`{item}` has no value; {EXPECTED}"))?;
            let bad = || format!("`{value}` can't be the {key}; {EXPECTED}");
            match key {
                "loss" => link.loss = share(value).ok_or_else(bad)?,
                "duplicate" => link.duplicate = share(value).ok_or_else(bad)?,
                "reorder" => link.reorder = share(value).ok_or_else(bad)?,
                "late" => link.late = duration(value).ok_or_else(bad)?,
                "delay" => link.delay = duration(value).ok_or_else(bad)?,
                "jitter" => link.jitter = duration(value).ok_or_else(bad)?,
                "rate" => link.rate = rate(value).ok_or_else(bad)?,
                "limit" => {
                    let limit = value.parse().ok().filter(|n| (1..=MOST).contains(n));
                    link.limit = limit.ok_or_else(bad)?;
                }
                "seed" => link.seed = value.parse().map_err(|_| bad())?,
                _ => return Err(format!("there is no `{key}` of a link; {EXPECTED}")),
            }
        }
        Ok(link)
    }
}

impl fmt::Display for LinkSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |n: u32| f64::from(n) / 10_000.0;
        write!(
            f,
            "loss={}%,delay={}us,jitter={}us,reorder={}%,late={}us,duplicate={}%",
            percent(self.loss),
            self.delay / 1_000,
            self.jitter / 1_000,
            percent(self.reorder),
            self.late / 1_000,
            percent(self.duplicate),
        )?;
        if self.rate > 0 {
            write!(f, ",rate={}bit", self.rate)?;
        }
        write!(f, ",limit={},seed={}", self.limit, self.seed)
    }
}

/// Parts of a million of `1.5%`.
fn share(text: &str) -> Option<u32> {
    let percent: f64 = text.strip_suffix('%')?.parse().ok()?;
    (0.0..=100.0)
        .contains(&percent)
        .then(|| (percent * 10_000.0).round() as u32)
}

/// Nanoseconds of `2ms` or `50us`, ten seconds at most.
fn duration(text: &str) -> Option<u64> {
    let (number, factor) = [("ms", 1_000_000), ("us", 1_000), ("s", 1_000_000_000)]
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))?;
    let ns = number.parse::<u64>().ok()?.checked_mul(factor)?;
    (ns <= LONGEST).then_some(ns)
}

/// Bits per second of `100Mbit`, `64kbit`, `1Gbit` or `9600bit`.
fn rate(text: &str) -> Option<u64> {
    let text = text.strip_suffix("bit")?;
    let (number, factor) = [("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)]
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))
        .unwrap_or((text, 1));
    let rate = number.parse::<u64>().ok()?.checked_mul(factor)?;
    // Slower than that a packet takes longer than any wait.
    (1_000..=1_000_000_000_000).contains(&rate).then_some(rate)
}
