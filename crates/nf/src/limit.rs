//! Limits on events: of many that say the same, how many are written.
//!
//! Events of one kind may come from many flows, which live in many runtimes. They are
//! counted where all of them leave: an event that is limited says so in its first field,
//! and [`EventLimiter`], between the run and the file, takes that field away and keeps
//! back what is too much. What is let out once is counted once, so moves, replicas and
//! crashes of runtimes change nothing; a limiter that starts again begins all windows
//! anew.

use core::fmt;

use crate::gate::{self, Bits, Passage};
use crate::timed::Timed;

/// Which events of a window of time are written. A window begins with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// The first so many.
    First,
    /// Each so-manyth.
    Each,
    /// The so-manyth alone.
    Once,
    /// All behind the first so many.
    Behind,
}

/// How many events that share a key are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventLimit {
    /// Which ones.
    pub kind: LimitKind,
    /// The number in [`LimitKind`]; 0 is taken as 1.
    pub count: u32,
    /// Length of a window.
    pub seconds: u32,
}

/// How a limited event begins.
pub(crate) const MARK: &str = "{\"limit\":\"";

impl LimitKind {
    const fn word(self) -> &'static str {
        match self {
            LimitKind::First => "first",
            LimitKind::Each => "each",
            LimitKind::Once => "once",
            LimitKind::Behind => "behind",
        }
    }
}

/// The kind, count and seconds, as a limited event has them; its time (µs) and its key follow.
impl fmt::Display for EventLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.kind.word(), self.count, self.seconds)
    }
}

/// Keeps back the events of a run that are over their limits.
#[derive(Debug, Default)]
pub struct EventLimiter {
    /// Events that share a key, since the first of a window.
    windows: Timed<u32>,
    bits: Bits,
    kept_back: u64,
}

impl EventLimiter {
    /// Adds those of `lines`, which are whole, to `into` that are to be written.
    pub fn pass(&mut self, lines: &[u8], into: &mut Vec<u8>) {
        for line in lines.split_inclusive(|&byte| byte == b'\n') {
            let gated = line.strip_prefix(gate::MARK.as_bytes()).and_then(split);
            match gated.and_then(|(about, rest)| Some((self.bits.pass(about)?, rest))) {
                None => self.limit(line, into),
                Some((Passage::Written, rest)) => {
                    let line = [b"{", rest].concat();
                    self.limit(&line, into);
                }
                Some((Passage::Unmet, _)) => self.kept_back += 1,
                Some((Passage::Silent, _)) => {}
            }
        }
    }

    /// Adds a line, where its limit lets it be written.
    fn limit(&mut self, line: &[u8], into: &mut Vec<u8>) {
        let limited = line.strip_prefix(MARK.as_bytes()).and_then(split);
        match limited.and_then(|(about, rest)| Some((read(about)?, rest))) {
            None => into.extend_from_slice(line),
            Some(((limit, time, key), rest)) => {
                if self.is_written(limit, time, key) {
                    into.push(b'{');
                    into.extend_from_slice(rest);
                } else {
                    self.kept_back += 1;
                }
            }
        }
    }

    /// Events that were not written: over their limits, or bits that they wait for are not set.
    pub fn kept_back(&self) -> u64 {
        self.kept_back
    }

    /// Windows that ended before their time, because there were 65,536 others: the next
    /// event of the key begins a new one. And bits that were forgotten before their time.
    pub fn forgotten(&self) -> u64 {
        self.windows.forgotten() + self.bits.forgotten()
    }

    fn is_written(&mut self, limit: EventLimit, time: u64, key: &[u8]) -> bool {
        let end = time.saturating_add(u64::from(limit.seconds) * 1_000_000);
        let most = limit.count.max(1);
        let count = match self.windows.get_mut(key, time) {
            Some(window) => {
                *window = window.saturating_add(1);
                let count = *window;
                if limit.kind == LimitKind::Each && count >= most {
                    *window = 0;
                }
                count
            }
            // Each event is a first one, and nothing has to be remembered.
            None if most == 1 && limit.kind == LimitKind::Each => 1,
            None => {
                self.windows.put(key, (time, end), 1);
                1
            }
        };
        match limit.kind {
            LimitKind::First => count <= most,
            LimitKind::Each => count >= most,
            LimitKind::Once => count == most,
            LimitKind::Behind => count > most,
        }
    }
}

/// Splits a limited event into the text of its limit and the rest of the line.
fn split(marked: &[u8]) -> Option<(&str, &[u8])> {
    let end = marked.windows(2).position(|pair| pair == b"\",")?;
    let (about, rest) = marked.split_at_checked(end)?;
    Some((core::str::from_utf8(about).ok()?, rest.get(2..)?))
}

/// Limit, time in µs, and key.
fn read(about: &str) -> Option<(EventLimit, u64, &[u8])> {
    let mut words = about.splitn(5, ' ');
    let kind = match words.next()? {
        "first" => LimitKind::First,
        "each" => LimitKind::Each,
        "once" => LimitKind::Once,
        "behind" => LimitKind::Behind,
        _ => return None,
    };
    let limit = EventLimit {
        kind,
        count: words.next()?.parse().ok()?,
        seconds: words.next()?.parse().ok()?,
    };
    let time = words.next()?.parse().ok()?;
    Some((limit, time, words.next()?.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(limit: &str, milliseconds: u64, key: &str) -> String {
        let time = milliseconds * 1_000;
        format!("{{\"limit\":\"{limit} {time} {key}\",\"n\":{milliseconds}}}\n")
    }

    fn written(limiter: &mut EventLimiter, lines: &str) -> Vec<u64> {
        let mut out = Vec::new();
        limiter.pass(lines.as_bytes(), &mut out);
        let text = String::from_utf8(out).expect("it is text");
        let number = |line: &str| line.trim_matches(|c: char| !c.is_ascii_digit()).parse();
        let all = text
            .lines()
            .inspect(|line| assert!(line.starts_with("{\"n\"")));
        all.map(|line| number(line).expect("a number")).collect()
    }

    #[test]
    fn each_kind_lets_its_events_out() {
        for (limit, expected) in [
            ("first 2 10", &[0, 1000, 11_000, 12_000][..]),
            ("each 2 10", &[1000, 3000, 12_000]),
            ("each 1 10", &[0, 1000, 2000, 3000, 4000, 11_000, 12_000]),
            ("once 2 10", &[1000, 12_000]),
            ("behind 2 10", &[2000, 3000, 4000]),
            ("first 9 1", &[0, 1000, 2000, 3000, 4000, 11_000, 12_000]),
        ] {
            let times = [0, 1000, 2000, 3000, 4000, 11_000, 12_000];
            let lines: String = times.map(|time| line(limit, time, "1:7 10.0.0.1")).concat();
            let mut limiter = EventLimiter::default();
            assert_eq!(written(&mut limiter, &lines), expected, "{limit}");
            let kept = times.len() - expected.len();
            assert_eq!(limiter.kept_back(), kept as u64, "{limit}");
        }
    }

    #[test]
    fn keys_are_apart_and_other_lines_pass() {
        let mut limiter = EventLimiter::default();
        let lines = [
            line("once 1 10", 1, "a"),
            line("once 1 10", 2, "b"),
            line("once 1 10", 3, "a"),
        ];
        assert_eq!(written(&mut limiter, &lines.concat()), [1, 2]);
        for other in [
            "{\"limit\":\"many\",\"n\":1}\n",
            "{\"n\":\"limit\"}\n",
            "\n",
            "{\"limit\":\"",
        ] {
            let mut out = Vec::new();
            limiter.pass(other.as_bytes(), &mut out);
            assert_eq!(out, other.as_bytes());
        }
    }

    #[test]
    fn a_gate_comes_before_the_limit() {
        let mut limiter = EventLimiter::default();
        let line = |steps: &str, time: u64| {
            let limited = line("first 1 10", time, "a");
            format!(
                "{{\"gate\":\"told {};{steps}\",{}",
                time * 1_000,
                &limited[1..]
            )
        };
        let lines = [
            // An event that fails its gate is not counted by the limit.
            line("isset 0 b;", 1),
            line("set 10 b;", 2).replace("told", "silent"),
            line("isset 0 b;", 3),
            line("isset 0 b;", 4),
        ];
        assert_eq!(written(&mut limiter, &lines.concat()), [3]);
        assert_eq!(limiter.kept_back(), 2);
    }

    #[test]
    fn windows_are_bounded() {
        let mut limiter = EventLimiter {
            windows: Timed::new(4),
            ..EventLimiter::default()
        };
        for key in 0..100_u64 {
            let line = line("first 1 1000", key, &key.to_string());
            assert_eq!(written(&mut limiter, &line), [key]);
        }
        assert_eq!(limiter.windows.sizes(), (4, 4));
        assert_eq!(limiter.forgotten(), 96);
        // The last four are remembered, and all end.
        let lines = [
            line("first 1 1000", 100, "99"),
            line("first 1 1000", 100, "0"),
        ];
        assert_eq!(written(&mut limiter, &lines.concat()), [100]);
        let late = line("first 1 1", 2_000_000_000, "new");
        assert_eq!(written(&mut limiter, &late), [2_000_000_000]);
        assert_eq!((limiter.windows.sizes().0, limiter.forgotten()), (3, 97));
    }
}
