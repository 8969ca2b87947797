//! What tenants have used: numbers of ledgers, and what a bill makes of them (docs/billing.md).

use std::collections::BTreeMap;

/// The use of a chain or function. All numbers only ever grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of a chain, packets that it let out; of a function, packets that it was given.
    pub packets: u64,
    /// Their bytes: as they left; of those that were dropped in a function, as they came.
    pub bytes: u64,
    /// Of a chain, packets that a function has dropped.
    pub dropped: u64,
    /// A sample: time of processors that so many packets took.
    pub sampled_ns: u64,
    /// Packets of the sample.
    pub sampled: u64,
}

impl Usage {
    /// From the numbers, in the order of the fields.
    pub fn of_numbers(numbers: [u64; 5]) -> Usage {
        let [packets, bytes, dropped, sampled_ns, sampled] = numbers;
        Usage {
            packets,
            bytes,
            dropped,
            sampled_ns,
            sampled,
        }
    }

    /// True where nothing was used or measured.
    pub fn is_none(&self) -> bool {
        *self == Usage::default()
    }

    /// Adds another one's numbers.
    pub fn add(&mut self, other: &Usage) {
        self.packets = self.packets.saturating_add(other.packets);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.dropped = self.dropped.saturating_add(other.dropped);
        self.sampled_ns = self.sampled_ns.saturating_add(other.sampled_ns);
        self.sampled = self.sampled.saturating_add(other.sampled);
    }

    /// Of each number the greater one: of two reports of what grows, the later.
    pub fn newer(&self, other: &Usage) -> Usage {
        Usage {
            packets: self.packets.max(other.packets),
            bytes: self.bytes.max(other.bytes),
            dropped: self.dropped.max(other.dropped),
            sampled_ns: self.sampled_ns.max(other.sampled_ns),
            sampled: self.sampled.max(other.sampled),
        }
    }

    /// Time of processors for what is billed: each packet is billed once, at what a packet of the sample
    /// took on average, so that work which a fail-over repeats costs nothing. Without a sample `other`
    /// stands for it.
    pub fn compute_ns(&self, other: &Usage) -> u64 {
        let sample = if self.sampled > 0 { self } else { other };
        if sample.sampled == 0 {
            return 0;
        }
        let packets = u128::from(self.packets) + u128::from(self.dropped);
        let ns = packets * u128::from(sample.sampled_ns) / u128::from(sample.sampled);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// A row of a ledger.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsageRow {
    /// Whom it is billed to.
    pub tenant: String,
    /// The chain.
    pub chain: String,
    /// The function of the chain; empty for the chain itself.
    pub function: String,
}

/// A line of a bill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageLine {
    /// What was used.
    pub row: UsageRow,
    /// Hour since 1970; 0 where hours are added up.
    pub hour: u64,
    /// The numbers; a sample is none of them any more.
    pub packets: u64,
    /// Bytes of the packets.
    pub bytes: u64,
    /// Packets that a function has dropped.
    pub dropped: u64,
    /// Time of processors.
    pub compute_ns: u64,
}

/// Hours of which a bill is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hours {
    /// The first one; 0 for all.
    pub from: u64,
    /// The first one that is not; 0 for none.
    pub to: u64,
    /// A line for each.
    pub each: bool,
}

impl Hours {
    fn has(self, hour: u64) -> bool {
        hour >= self.from && (self.to == 0 || hour < self.to)
    }
}

/// Most lines of an answer to who asks for a bill.
const MOST_LINES: usize = 20_000;

/// Puts the entries of ledgers together.
#[derive(Clone, Debug, Default)]
pub struct UsageSum {
    /// By row and ledger.
    all: BTreeMap<(UsageRow, [u8; 16]), BTreeMap<u64, Usage>>,
}

impl UsageSum {
    /// An entry of a ledger. Of two about one hour the later counts.
    pub fn add(&mut self, ledger: [u8; 16], row: UsageRow, hour: u64, usage: &Usage) {
        let hours = self.all.entry((row, ledger)).or_default();
        let known = hours.entry(hour).or_default();
        *known = known.newer(usage);
    }

    /// As many lines as an answer may have, and whether there are more.
    pub fn answer(&self, hours: Hours) -> (Vec<UsageLine>, bool) {
        let mut lines = self.lines(hours);
        let is_cut = lines.len() > MOST_LINES;
        lines.truncate(MOST_LINES);
        (lines, is_cut)
    }

    /// The lines, by tenant, chain, function and hour.
    pub fn lines(&self, hours: Hours) -> Vec<UsageLine> {
        let mut lines: BTreeMap<(&UsageRow, u64), UsageLine> = BTreeMap::new();
        for ((row, _), used) in &self.all {
            let mut whole = Usage::default();
            used.values().for_each(|usage| whole.add(usage));
            for (&hour, usage) in used.iter().filter(|(hour, _)| hours.has(**hour)) {
                let hour = if hours.each { hour } else { 0 };
                let line = lines.entry((row, hour)).or_insert_with(|| UsageLine {
                    row: row.clone(),
                    hour,
                    packets: 0,
                    bytes: 0,
                    dropped: 0,
                    compute_ns: 0,
                });
                line.packets = line.packets.saturating_add(usage.packets);
                line.bytes = line.bytes.saturating_add(usage.bytes);
                line.dropped = line.dropped.saturating_add(usage.dropped);
                line.compute_ns = line.compute_ns.saturating_add(usage.compute_ns(&whole));
            }
        }
        lines.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_adds_up_hours_and_ledgers() {
        let row = |function: &str| UsageRow {
            tenant: "acme".to_owned(),
            chain: "edge".to_owned(),
            function: function.to_owned(),
        };
        let mut sum = UsageSum::default();
        let usage = |packets, sampled| Usage::of_numbers([packets, 60, 1, 10 * sampled, sampled]);
        for report in [3, 5, 4] {
            sum.add([1; 16], row(""), 100, &usage(report, 2));
        }
        sum.add([2; 16], row(""), 100, &usage(10, 0));
        sum.add([1; 16], row(""), 101, &usage(20, 0));
        sum.add([1; 16], row("nat"), 101, &usage(7, 1));
        let shown = |hours: Hours| -> Vec<_> {
            let lines = sum.lines(hours).into_iter();
            lines
                .map(|it| (it.row.function, it.hour, it.packets, it.compute_ns))
                .collect()
        };
        let nat = "nat".to_owned();
        // The other ledger has no sample at all, and this one's second hour takes the first one's.
        let all = [(String::new(), 0, 35, 270), (nat.clone(), 0, 7, 80)];
        assert_eq!(shown(Hours::default()), all);
        let first = Hours {
            to: 101,
            ..Hours::default()
        };
        assert_eq!(shown(first), [(String::new(), 0, 15, 60)]);
        let each = Hours {
            from: 101,
            each: true,
            ..Hours::default()
        };
        let each_of = [(String::new(), 101, 20, 210), (nat, 101, 7, 80)];
        assert_eq!(shown(each), each_of);
    }

    #[test]
    fn packets_cost_what_those_of_the_sample_did() {
        let usage = Usage {
            packets: 900,
            dropped: 100,
            sampled_ns: 5_000,
            sampled: 10,
            ..Usage::default()
        };
        let none = Usage::default();
        assert_eq!(usage.compute_ns(&none), 500_000);
        let unsampled = Usage {
            sampled: 0,
            sampled_ns: 0,
            ..usage
        };
        assert_eq!(unsampled.compute_ns(&none), 0);
        assert_eq!(unsampled.compute_ns(&usage), 500_000);
        let huge = Usage::of_numbers([u64::MAX, 0, 0, u64::MAX, 1]);
        assert_eq!(huge.compute_ns(&none), u64::MAX);
    }

    #[test]
    fn the_later_of_two_reports_counts() {
        let [early, late] = [[1, 2, 3, 4, 5], [1, 3, 3, 4, 9]].map(Usage::of_numbers);
        assert_eq!(early.newer(&late), late);
        assert_eq!(late.newer(&early), late);
        let mut sum = early;
        sum.add(&late);
        assert_eq!(sum, Usage::of_numbers([2, 5, 6, 8, 14]));
    }
}
