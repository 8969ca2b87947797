//! A bad path between switch and runtimes, emulated: loss, delay, reordering
//! and duplication, from a seed.
//!
//! Frames suffer all of it, an entry as a whole; messages, which travel on
//! reliable streams, are only late.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::str::FromStr;

use weir_packet::{Frame, FramePool, Time};

/// What a path does. Shares are in parts of a million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathSettings {
    /// Frames lost.
    pub loss: u32,
    /// Frames that come twice.
    pub duplicate: u32,
    /// Frames that come later than ones behind them.
    pub reorder: u32,
    /// Delay of every frame and message, in nanoseconds.
    pub delay: u64,
    /// Seed of its choices.
    pub seed: u64,
}

const EXPECTED: &str = "expected a list like `loss=1%,delay=2ms,reorder=5%,duplicate=1%,seed=7`";

impl FromStr for PathSettings {
    type Err = String;

    fn from_str(text: &str) -> Result<PathSettings, String> {
        let mut path = PathSettings::default();
        for item in text.split(',') {
            let (key, value) = item
                .split_once('=')
                .ok_or_else(|| format!("`{item}` has no value; {EXPECTED}"))?;
            let bad = || format!("`{value}` can't be the {key}; {EXPECTED}");
            match key {
                "loss" => path.loss = share(value).ok_or_else(bad)?,
                "duplicate" => path.duplicate = share(value).ok_or_else(bad)?,
                "reorder" => path.reorder = share(value).ok_or_else(bad)?,
                "delay" => path.delay = duration(value).ok_or_else(bad)?,
                "seed" => path.seed = value.parse().map_err(|_| bad())?,
                _ => return Err(format!("there is no `{key}` of a path; {EXPECTED}")),
            }
        }
        Ok(path)
    }
}

impl fmt::Display for PathSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |n: u32| f64::from(n) / 10_000.0;
        write!(
            f,
            "loss={}%,delay={}us,reorder={}%,duplicate={}%,seed={}",
            percent(self.loss),
            self.delay / 1_000,
            percent(self.reorder),
            percent(self.duplicate),
            self.seed
        )
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
    (ns <= 10_000_000_000).then_some(ns)
}

/// Later than the frames behind it by as much.
const REORDERED_BY: u64 = 200_000;

/// Frames of one entry (or one data frame), and when they come out.
#[derive(Debug)]
struct Travelling {
    due: Time,
    /// Breaks ties: first in, first out.
    number: u64,
    frames: Vec<Frame>,
}

impl PartialEq for Travelling {
    fn eq(&self, other: &Travelling) -> bool {
        (self.due, self.number) == (other.due, other.number)
    }
}
impl Eq for Travelling {}
impl PartialOrd for Travelling {
    fn partial_cmp(&self, other: &Travelling) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Travelling {
    fn cmp(&self, other: &Travelling) -> std::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

/// What a path did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounts {
    /// Frames (or entries) lost.
    pub lost: u64,
    /// That came twice.
    pub duplicated: u64,
    /// That came late.
    pub reordered: u64,
}

impl PathCounts {
    /// Adds another's counts.
    pub fn merge(&mut self, other: PathCounts) {
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
    }
}

/// One direction of a path.
#[derive(Debug)]
pub(super) struct Path {
    settings: PathSettings,
    random: u64,
    travelling: BinaryHeap<Reverse<Travelling>>,
    sent: u64,
    pub(super) counts: PathCounts,
}

impl Path {
    /// `number` tells the paths of a cluster apart.
    pub(super) fn new(settings: PathSettings, number: u64) -> Path {
        Path {
            settings,
            random: settings.seed ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            travelling: BinaryHeap::new(),
            sent: 0,
            counts: PathCounts::default(),
        }
    }

    /// Sends frames: those of an entry stay together.
    pub(super) fn send(&mut self, now: Time, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        let mut entry = Vec::new();
        for frame in frames.drain(..) {
            let fate = pool.memory().meta(&frame).fate;
            entry.push(frame);
            if fate == weir_packet::Fate::Pending || fate.closes() {
                self.send_one(now, pool, std::mem::take(&mut entry));
            }
        }
        // An entry always ends in the burst that it begins in.
        pool.give_all(&mut entry);
    }

    fn send_one(&mut self, now: Time, pool: &mut FramePool, mut frames: Vec<Frame>) {
        if self.happens(self.settings.loss) {
            self.counts.lost += 1;
            pool.give_all(&mut frames);
            return;
        }
        let due = now.0 + self.settings.delay;
        if self.happens(self.settings.duplicate)
            && let Some(copies) = copies(pool, &frames)
        {
            self.counts.duplicated += 1;
            self.push(Time(due), copies);
        }
        if self.happens(self.settings.reorder) {
            self.counts.reordered += 1;
            self.push(Time(due + REORDERED_BY), frames);
        } else {
            self.push(Time(due), frames);
        }
    }

    fn push(&mut self, due: Time, frames: Vec<Frame>) {
        self.sent += 1;
        self.travelling.push(Reverse(Travelling {
            due,
            number: self.sent,
            frames,
        }));
    }

    /// Frames that have arrived by now, at the end of `into`.
    pub(super) fn arrived(&mut self, now: Time, into: &mut Vec<Frame>) {
        while let Some(Reverse(first)) = self.travelling.peek()
            && first.due <= now
        {
            if let Some(Reverse(first)) = self.travelling.pop() {
                into.extend(first.frames);
            }
        }
    }

    /// True where nothing is on its way.
    pub(super) fn is_empty(&self) -> bool {
        self.travelling.is_empty()
    }

    /// True for so many of a million.
    fn happens(&mut self, share: u32) -> bool {
        if share == 0 {
            return false;
        }
        // splitmix64
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.random;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ x >> 31) % 1_000_000 < u64::from(share)
    }
}

/// Copies of all frames, or none.
fn copies(pool: &mut FramePool, frames: &[Frame]) -> Option<Vec<Frame>> {
    let memory = pool.memory().clone();
    let mut all = Vec::with_capacity(frames.len());
    for frame in frames {
        let (meta, bytes) = memory.read(frame);
        match pool.copy(bytes, *meta) {
            Ok(copy) => all.push(copy),
            Err(_) => {
                pool.give_all(&mut all);
                return None;
            }
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::{Fate, FrameMeta, MemoryLayout};

    #[test]
    fn settings_are_read_and_shown() {
        let path: PathSettings = "loss=1%,delay=2ms,reorder=5%,duplicate=0.5%,seed=7"
            .parse()
            .unwrap();
        assert_eq!(
            path,
            PathSettings {
                loss: 10_000,
                duplicate: 5_000,
                reorder: 50_000,
                delay: 2_000_000,
                seed: 7
            }
        );
        assert_eq!(path.to_string().parse(), Ok(path));
        for bad in [
            "",
            "loss",
            "loss=1",
            "loss=101%",
            "loss=-1%",
            "delay=2",
            "speed=1%",
            "seed=x",
        ] {
            assert!(bad.parse::<PathSettings>().is_err(), "{bad}");
        }
    }

    #[test]
    fn frames_are_lost_doubled_and_late_as_often_as_asked_and_entries_stay_whole() {
        let mut pool = FramePool::with_layout(MemoryLayout::default());
        let settings = "loss=10%,duplicate=10%,reorder=10%,delay=1ms,seed=3";
        let mut path = Path::new(settings.parse().unwrap(), 0);
        let mut came = Vec::new();
        for round in 0..1_000u64 {
            let mut frames: Vec<Frame> = [Fate::Notes, Fate::Out]
                .iter()
                .map(|fate| {
                    let mut meta = FrameMeta::received(Time(round), 0);
                    (meta.fate, meta.clock) = (*fate, round);
                    pool.copy(&round.to_be_bytes(), meta).unwrap()
                })
                .collect();
            path.send(Time(round), &mut pool, &mut frames);
            path.arrived(Time(round), &mut frames);
            assert!(frames.is_empty(), "nothing is there before its delay");
        }
        path.arrived(Time(1_000 + 1_000_000 + REORDERED_BY), &mut came);
        assert!(path.is_empty());
        let clocks: Vec<u64> = came.iter().map(|f| pool.memory().meta(f).clock).collect();
        assert!(clocks.chunks(2).all(|entry| entry[0] == entry[1]));
        let counts = path.counts;
        assert_eq!(
            clocks.len() as u64,
            2 * (1_000 + counts.duplicated - counts.lost)
        );
        for n in [counts.lost, counts.duplicated, counts.reordered] {
            assert!((60..140).contains(&n), "{counts:?}");
        }
        assert!(clocks.windows(2).any(|pair| pair[0] > pair[1]));
        pool.give_all(&mut came);
        assert_eq!(pool.outstanding(), 0);
    }
}
