//! Counts that an untrusted stage reports: parsed as little as possible, cut to
//! possible values, and bounded over all processes of the stage.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use weir_io::stage::Refused;
use weir_nf::host::Stage;
use weir_nf::{LONGEST_TALLY_NAME, Tally};
use weir_runtime::{EngineDrop, FunctionReport, Lie, Report};
use weir_telemetry::{Counters as _, Label as _};

use super::super::super::process::Said;
use super::super::super::process::said::Counts;

/// Most that a count may be: sums of these are numbers, too.
const MOST_SAID: u64 = 1 << 48;
/// Longest name that is shown, in characters.
const MOST_NAME: usize = 128;
/// Violations of descriptors that are kept.
const MOST_LIES: usize = 64;

const _: () = assert!(LONGEST_TALLY_NAME <= MOST_NAME);

/// Reports of the processes of one stage.
#[derive(Debug, Default)]
pub(super) struct Claims {
    now: Word,
    /// Of those that are over, together.
    past: Report,
    lies: Vec<Lie>,
    busy_ns: u64,
    refused: Refused,
}

/// The last word of the process that there is now. It is long, and costs time
/// to read: that is done when it is asked for, and once.
#[derive(Debug, Default)]
enum Word {
    #[default]
    None,
    Unread(Vec<u8>),
    Read(Box<Said>),
}

impl Claims {
    /// It said this; what it said before is in it.
    pub(super) fn hear(&mut self, said: Vec<u8>) {
        self.now = Word::Unread(said);
    }

    fn read(&mut self, stage: &Stage) -> Option<&Said> {
        if let Word::Unread(bytes) = &self.now {
            let said = (bytes.len() <= longest(stage)).then(|| Said::of_stranger(bytes, stage));
            let said = said.flatten();
            self.now = said.map_or(Word::None, |said| Word::Read(Box::new(said)));
        }
        match &self.now {
            Word::Read(said) => Some(said),
            _ => None,
        }
    }

    /// The process is over: its last word is added to its predecessors'.
    pub(super) fn take_in(&mut self, stage: &Stage) {
        self.past = self.report(stage);
        self.past.flows.nothing_is_open();
        let Some(said) = self.read(stage).cloned() else {
            return;
        };
        self.now = Word::None;
        self.lies.extend(said.lies([stage]));
        self.lies.truncate(MOST_LIES);
        self.busy_ns = self.busy_ns.saturating_add(said.busy_ns);
        self.refused.bursts = self.refused.bursts.saturating_add(said.refused[0]);
        self.refused.frames = self.refused.frames.saturating_add(said.refused[1]);
    }

    /// Counts of all of them.
    pub(super) fn report(&mut self, stage: &Stage) -> Report {
        let now = self.read(stage).map(|said| said.report(stage));
        let mut sum = self.past.clone();
        if let Some(now) = now {
            sum = Report::sum(&[sum, now]);
            limit(&mut sum, stage);
        }
        sum
    }

    /// Violations of descriptors by their functions.
    pub(super) fn take_lies(&mut self) -> Vec<Lie> {
        std::mem::take(&mut self.lies)
    }

    /// Time in which they had something to do.
    pub(super) fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy_ns)
    }

    /// Frames that the port behind them had no room for at first.
    pub(super) fn refused(&self) -> Refused {
        self.refused
    }
}

impl Said {
    /// Parses and sanitises the report of an untrusted stage. Numbers are capped
    /// so that their sums do not overflow; drop reasons that the stage does not
    /// have are removed; tallies become printable text, with no more names than
    /// the functions have room for.
    fn of_stranger(bytes: &[u8], stage: &Stage) -> Option<Said> {
        let mut said: Said = serde_json::from_slice(bytes).ok()?;
        let report = &mut said.report;
        let known = drop_names(stage);
        report.drops.retain(|(name, _)| known.contains(name));
        report.drops.sort();
        report.drops.dedup_by(|a, b| a.0 == b.0);
        report.malformed.clear();
        report.ended.clear();
        let rooms = rooms(stage);
        report.functions.truncate(rooms.len());
        for function in &mut report.functions {
            let room = rooms.get(function.name.as_str()).copied().unwrap_or(0);
            function.counters.iter_mut().for_each(cut);
            let mut report = FunctionReport::default();
            report.set_values(&function.numbers);
            found(&mut function.tally, &mut report.tally_other, room);
            report.values_mut().into_iter().for_each(cut);
            function.numbers = report.values();
        }
        let counts = report.drops.iter_mut().map(|(_, count)| count);
        let numbers = report.numbers.iter_mut().chain(&mut report.flows);
        let others = [&mut said.busy_ns, &mut said.bad];
        counts
            .chain(numbers)
            .chain(&mut said.refused)
            .chain(others)
            .for_each(cut);
        said.lies.truncate(MOST_LIES);
        for lie in &mut said.lies {
            lie.what = printable(&lie.what);
        }
        Some(said)
    }
}

fn cut(count: &mut u64) {
    *count = (*count).min(MOST_SAID);
}

/// Cuts a sum of reports to what one of them could be.
fn limit(report: &mut Report, stage: &Stage) {
    let rooms = rooms(stage);
    for function in &mut report.functions {
        let room = rooms.get(function.name.as_str()).copied().unwrap_or(0);
        keep(&mut function.tally, &mut function.tally_other, room);
        function.counters.iter_mut().for_each(|(_, n)| cut(n));
        function.values_mut().into_iter().for_each(cut);
    }
    report.drops.iter_mut().for_each(|(_, n)| cut(n));
    report.values_mut().into_iter().for_each(cut);
    report.flows.values_mut().into_iter().for_each(cut);
}

/// Names that the tallies of a stage's functions have room for.
fn rooms(stage: &Stage) -> BTreeMap<&str, usize> {
    let nodes = stage.nodes.iter();
    let room = |names: u32| Tally::most(names as usize);
    nodes
        .map(|node| (node.name.as_str(), room(node.processor.descriptor().tally)))
        .collect()
}

/// Longest word that is read at all: a name may be spelled in six times its
/// bytes.
fn longest(stage: &Stage) -> usize {
    let names: usize = rooms(stage).values().sum();
    let drops: usize = drop_names(stage)
        .iter()
        .map(|name| 2 * name.len() + 64)
        .sum();
    (256 << 10) + drops + names * (6 * LONGEST_TALLY_NAME + 48)
}

/// Leaves so many names; what is under the others counts as nobody's.
fn keep(tally: &mut Counts, other: &mut u64, most: usize) {
    let counts = tally.drain(most.min(tally.len())..).map(|(_, count)| count);
    *other = counts.fold(*other, u64::saturating_add);
}

fn found(tally: &mut Counts, other: &mut u64, most: usize) {
    keep(tally, other, most);
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (name, count) in tally.drain(..) {
        let sum = sums.entry(printable(&name)).or_default();
        *sum = sum.saturating_add(count).min(MOST_SAID);
    }
    tally.extend(sums);
}

/// The beginning of a text, without what a terminal would do something for.
pub(super) fn printable(text: &str) -> String {
    let shown = text.chars().filter(|c| !c.is_control());
    shown.take(MOST_NAME).collect()
}

/// The names that a stage's drops may have.
fn drop_names(stage: &Stage) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = EngineDrop::names().map(str::to_owned).collect();
    for node in &stage.nodes {
        let descriptor = node.processor.descriptor();
        let labels = descriptor.labels.iter().copied();
        let reasons = descriptor.drops.iter().map(|reason| reason.name());
        for reason in reasons.chain(["unnamed", "pass"]).chain(labels) {
            names.insert(format!("{}.{reason}", node.name));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weir_functions::{monitor::Monitor, nop::Nop};
    use weir_runtime::harness::Harness;

    use super::*;

    fn stage() -> Stage {
        let builder = Harness::builder().with::<Nop>(Default::default()).unwrap();
        let builder = builder.with::<Monitor>(Default::default()).unwrap();
        builder.stage()
    }

    /// The worst that a process may say, with these names found.
    fn said(stage: &Stage, names: std::ops::Range<usize>) -> Vec<u8> {
        let names = names.map(|n| json!([format!("\u{7}name {n:06}"), u64::MAX]));
        let tally: Vec<_> = names.collect();
        let function = |name: &str| {
            json!({
                "name": name, "numbers": vec![u64::MAX; FunctionReport::TABLE.len()], "counters": vec![u64::MAX; 99], "tally": tally,
            })
        };
        let [nop, monitor] = [&stage.nodes[0].name, &stage.nodes[1].name];
        let lies = vec![json!({"function": nop, "what": "x", "packet": 1}); 80];
        let said = json!({
            "report": {
                "chain": "", "numbers": vec![u64::MAX; Report::TABLE.len()], "malformed": [["x", 1]],
                "drops": [["none.such", u64::MAX]], "tracked": true, "flows": vec![u64::MAX; weir_runtime::FlowReport::TABLE.len()],
                "ended": [], "functions": [function(nop), function(monitor), function("none")],
            },
            "lies": lies, "free": 0, "refused": vec![u64::MAX; 2], "busy_ns": u64::MAX, "bad": 0,
        });
        serde_json::to_vec(&said).unwrap()
    }

    #[test]
    fn what_is_claimed_does_not_grow_with_deaths() {
        let stage = stage();
        let room = Tally::most(stage.nodes[1].processor.descriptor().tally as usize);
        let mut claims = Claims::default();
        for life in 0..40 {
            claims.hear(said(&stage, life * 3_000..(life + 1) * 3_000));
            let (mut once, again) = (claims.report(&stage), claims.report(&stage));
            assert_eq!(once, again, "asking changes nothing");
            claims.take_in(&stage);
            once.flows.nothing_is_open();
            assert_eq!(claims.report(&stage), once);
        }
        let report = claims.report(&stage);
        let [nop, monitor] = report.functions.as_slice() else {
            panic!("{:?}", report.functions);
        };
        assert_eq!((nop.tally.len(), nop.counters.len()), (0, 0));
        assert_eq!(monitor.tally.len(), room);
        assert_eq!(
            (monitor.tally_other, monitor.packets),
            (MOST_SAID, MOST_SAID)
        );
        assert!(
            monitor
                .tally
                .iter()
                .all(|(name, _)| name.starts_with("name "))
        );
        assert!(report.drops.is_empty() && report.malformed.is_empty());
        assert!(report.events <= MOST_SAID && report.flows.seen <= MOST_SAID);
        assert_eq!(claims.take_lies().len(), MOST_LIES);
    }

    #[test]
    fn a_word_is_read_once_and_only_where_it_is_asked_for() {
        let stage = stage();
        let mut claims = Claims::default();
        claims.hear(said(&stage, 0..10));
        assert!(matches!(claims.now, Word::Unread(_)));
        claims.report(&stage);
        assert!(matches!(claims.now, Word::Read(_)));
        claims.hear(b"no word".to_vec());
        assert_eq!(claims.report(&stage), Report::default());
        // Longer than anything that such a stage can have counted.
        let mut long = said(&stage, 0..10);
        long.resize(8 << 20, b' ');
        claims.hear(long);
        assert_eq!(claims.report(&stage), Report::default());
    }

    #[test]
    fn the_same_name_is_one() {
        let mut tally: Counts = [("a", 1), ("\u{1b}a", 2), ("b", 3), ("c", 4)]
            .map(|(name, n)| (name.to_owned(), n))
            .into();
        let mut other = 1;
        found(&mut tally, &mut other, 3);
        let named = |name: &str, n| (name.to_owned(), n);
        assert_eq!((tally, other), (vec![named("a", 3), named("b", 3)], 5));
    }
}
