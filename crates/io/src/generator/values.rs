//! The kinds of values that settings have, read from text.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::random::{Random, scale};

/// Choices with weights.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Weighted<T> {
    /// Each choice with the sum of the weights up to and including its own.
    choices: Vec<(T, u32)>,
    total: u32,
}

impl<T: Copy> Weighted<T> {
    pub(super) fn new(weights: &[(T, u32)]) -> Option<Self> {
        let mut total = 0u32;
        let mut choices = Vec::new();
        for &(choice, weight) in weights {
            total = total.checked_add(weight)?;
            if weight > 0 {
                choices.push((choice, total));
            }
        }
        (total > 0).then_some(Self { choices, total })
    }

    /// The choices that can be picked; at least one.
    pub(super) fn choices(&self) -> impl Iterator<Item = T> {
        self.choices.iter().map(|&(choice, _)| choice)
    }

    #[inline]
    pub(super) fn pick(&self, random: u64) -> Option<T> {
        let at = scale(random, self.total);
        let picked = self.choices.iter().find(|(_, sum)| at < *sum);
        picked.map(|&(choice, _)| choice)
    }
}

/// A number from `low` to `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) low: u32,
    pub(super) high: u32,
}

impl Range {
    pub(super) fn count(self) -> u32 {
        (self.high - self.low).saturating_add(1)
    }
}

/// Lengths of frames.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sizes {
    Fixed(u32),
    Between(Range),
    Weighted(Weighted<u32>),
}

impl Sizes {
    pub(super) fn longest(&self) -> u32 {
        match self {
            Self::Fixed(size) => *size,
            Self::Between(range) => range.high,
            Self::Weighted(list) => list.choices().max().unwrap_or(0),
        }
    }

    #[inline]
    pub(super) fn draw(&self, random: &mut Random) -> u32 {
        match self {
            Self::Fixed(size) => *size,
            Self::Between(range) => random.between(range.low, range.high),
            Self::Weighted(list) => list.pick(random.next()).unwrap_or(0),
        }
    }
}

/// Host addresses of a prefix: `first` and the `hosts` − 1 after it. Only the last 32 bits vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hosts<A> {
    pub(super) first: A,
    pub(super) hosts: u32,
    pub(super) network: A,
    pub(super) length: u8,
}

pub(super) fn hosts4(text: &str) -> Option<Hosts<u32>> {
    let (address, length) = prefix(text, 32)?;
    let address = u32::from(address.parse::<Ipv4Addr>().ok()?);
    let host_bits = 32 - u32::from(length);
    let mask = u32::MAX.checked_shl(host_bits).unwrap_or(0);
    let network = address & mask;
    let (skip, hosts) = match host_bits {
        0 | 1 => (0, 1 << host_bits), // RFC 3021: both addresses of a /31 are hosts
        bits => (1, ((1u64 << bits) - 2) as u32),
    };
    Some(Hosts {
        first: network + skip,
        hosts,
        network,
        length,
    })
}

pub(super) fn hosts6(text: &str) -> Option<Hosts<u128>> {
    let (address, length) = prefix(text, 128)?;
    let address = u128::from(address.parse::<Ipv6Addr>().ok()?);
    let host_bits = 128 - u32::from(length);
    let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
    let network = address & mask;
    // The first address of a prefix means any of its routers (RFC 4291 §2.6.1).
    let (skip, hosts) = match host_bits {
        0 | 1 => (0, 1 << host_bits),
        bits => (1, ((1u64 << bits.min(32)) - 2) as u32),
    };
    Some(Hosts {
        first: network + skip,
        hosts,
        network,
        length,
    })
}

fn prefix(text: &str, longest: u8) -> Option<(&str, u8)> {
    match text.split_once('/') {
        None => Some((text, longest)),
        Some((address, length)) => {
            let length = length.parse().ok()?;
            (length <= longest).then_some((address, length))
        }
    }
}

/// `10`, `10k`, `10M`, `10G`.
pub(super) fn number(text: &str) -> Option<u64> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'k' => (text.strip_suffix('k')?, 1_000),
        b'M' => (text.strip_suffix('M')?, 1_000_000),
        b'G' => (text.strip_suffix('G')?, 1_000_000_000),
        _ => (text, 1u64),
    };
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None; // `parse` would take a sign
    }
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// A number from `low` to `high`.
pub(super) fn number_within(text: &str, low: u32, high: u32) -> Option<u32> {
    let value = u32::try_from(number(text)?).ok()?;
    (low..=high).contains(&value).then_some(value)
}

/// `5` or `3-9`, all from `low` to `high`.
pub(super) fn range(text: &str, low: u32, high: u32) -> Option<Range> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let first = number_within(first, low, high)?;
    let last = number_within(last, first, high)?;
    Some(Range {
        low: first,
        high: last,
    })
}

/// `a:3/b:1`, or `a`, or `a/b`.
pub(super) fn weighted<T: Copy>(
    text: &str,
    choice: impl Fn(&str) -> Option<T>,
) -> Option<Weighted<T>> {
    let mut weights = Vec::new();
    for item in text.split('/') {
        let (name, weight) = item.split_once(':').unwrap_or((item, "1"));
        weights.push((choice(name)?, number_within(weight, 0, 1_000_000)?));
    }
    Weighted::new(&weights)
}

/// Nanoseconds of `2m`, `10s`, `1.5s`, `500ms`, `7us`, `9ns`.
pub(super) fn duration(text: &str) -> Option<u64> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (amount, unit) = text.split_at_checked(unit_at)?;
    let unit = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    decimal(amount, unit)
}

/// `units` of a number with at most nine decimals, as in `1.5`.
pub(super) fn decimal(text: &str, units: u64) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || decimals.len() > 9 {
        return None;
    }
    let scale = 10u128.pow(decimals.len() as u32);
    let part = u128::from(decimals.parse::<u64>().ok()?) * u128::from(units) / scale;
    let whole = whole.parse::<u64>().ok()?.checked_mul(units)?;
    whole.checked_add(u64::try_from(part).ok()?)
}

pub(super) fn yes_no(text: &str) -> Option<bool> {
    match text {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}
