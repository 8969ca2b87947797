//! The report of a runtime's counts.

use std::collections::BTreeMap;

use weir_nf::CloseReason;
use weir_packet::Internal;
use weir_telemetry::{Counters as _, Counts, counters};

counters! {
    /// Counts of one runtime, from its start.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Report fields chain_counters {
        /// Packets that a chain took in.
        pub packets_in: Counter<Packets>,
        /// Their bytes, as captured.
        pub bytes_in: Counter<Bytes>,
        /// Packets that a chain put out, those that functions made included.
        pub packets_out: Counter<Packets>,
        /// Their bytes, as they left.
        pub bytes_out: Counter<Bytes>,
        /// Packets that functions made.
        pub emitted: Counter<Packets>,
        /// Packets that functions could not make: no frame was free.
        pub emits_lost: Counter<Packets>,
        /// Packets that wait in a chain: later fragments without their first one.
        pub held: Gauge<Packets>,
        /// Events recorded.
        pub events: Counter<Events>,
        /// Events lost, since their buffer was full.
        pub events_lost: Counter<Events>,
        /// Under a switch: aliases, ends and leases that found no frame to travel in.
        pub notes_lost: Counter<Messages>,
        /// Under a switch: ticks that ended nothing because no frame was free.
        pub ticks_lost: Counter<Times>,
        /// Under a switch: later fragments whose first one was never seen.
        pub fragments_alone: Counter<Packets>,
        /// Under a switch: first fragments that found no place to be remembered.
        pub datagrams_forgotten: Counter<Packets>,
        /// In a later stage: notices that could not be right.
        pub bad_notices: Counter<Messages>,
        /// Internal errors: states that cannot occur and did, a bug of weir.
        pub internal: Counter<Times>,
        /// Processor cycles outside functions: parsing, looking up, accounting.
        pub engine_cycles: Counter<Cycles>,
    } and {
        /// Name of the chain.
        pub chain: String,
        /// Packets dropped, by reason: `malformed.…`, an engine's reason, or
        /// `NAME.reason` of a function. Reasons without a packet are left out.
        pub drops: Vec<(String, u64)>,
        /// Malformed packets by reason, dropped or passed on.
        pub malformed: Vec<(String, u64)>,
        /// Flows.
        pub flows: FlowReport,
        /// Functions, in the order of the chain.
        pub functions: Vec<FunctionReport>,
        /// Place in the code of the first internal error.
        pub internal_first: Option<String>,
    }
}

impl Report {
    /// Adds up a plan's stages, from first to last: the report of one
    /// runtime with all their functions. It balances where each of
    /// them does and each took in what the one before it put out.
    ///
    /// Counts of flows are the first one's, which is the only one to open and
    /// end them; counts of what functions keep are summed.
    pub fn chain(stages: &[Report]) -> Report {
        let (Some(first), Some(last)) = (stages.first(), stages.last()) else {
            return Report::default();
        };
        let mut all = Report::sum(stages);
        (all.packets_in, all.bytes_in) = (first.packets_in, first.bytes_in);
        (all.packets_out, all.bytes_out) = (last.packets_out, last.bytes_out);
        all.flows = FlowReport {
            ports_leased: all.flows.ports_leased,
            buffer_bytes: all.flows.buffer_bytes,
            buffers_refused: all.flows.buffers_refused,
            ..first.flows.clone()
        };
        all.malformed = first.malformed.clone();
        all
    }

    /// Adds up runtimes side by side, such as several instances of
    /// one stage: all counts are summed (at most to what a number holds), those
    /// of functions of the same name too. It balances where each of them does.
    pub fn sum(reports: &[Report]) -> Report {
        let mut all = Report::default();
        for report in reports {
            all.add(report);
        }
        all
    }

    /// Adds the internal errors of a part around the engine.
    pub fn add_internal(&mut self, internal: &Internal) {
        self.internal += internal.count();
        if self.internal_first.is_none() {
            self.internal_first = internal.first().map(ToString::to_string);
        }
    }

    /// Adds what another did, as [`Report::sum`] does.
    pub fn add(&mut self, other: &Report) {
        if self.chain.is_empty() {
            self.chain.clone_from(&other.chain);
        }
        self.add_counters(other);
        if self.internal_first.is_none() {
            self.internal_first.clone_from(&other.internal_first);
        }
        add_named(&mut self.drops, &other.drops);
        add_named(&mut self.malformed, &other.malformed);
        self.flows.add(&other.flows);
        for function in &other.functions {
            let mut known = self.functions.iter_mut();
            match known.find(|known| known.name == function.name) {
                Some(known) => known.add(function),
                None => self.functions.push(function.clone()),
            }
        }
    }

    /// Packets dropped for all reasons.
    pub fn dropped(&self) -> u64 {
        let counts = self.drops.iter().map(|(_, n)| *n);
        counts.fold(0, u64::saturating_add)
    }

    /// True where every packet is accounted for:
    /// `packets_in = packets_out − emitted + Σ drops + held`.
    pub fn balances(&self) -> bool {
        self.packets_in + self.emitted == self.packets_out + self.dropped() + self.held
    }
}

counters! {
    /// Flows of a runtime; both directions of a connection are one.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct FlowReport fields flow_counters {
        /// Flows opened.
        pub seen: Counter<Flows> as "weir_flows_opened_total",
        /// Flows open.
        pub active: Gauge<Flows> as "weir_flows",
        /// Units of wider scopes open.
        pub units: Gauge<Units>,
        /// Further names of flows.
        pub aliases: Gauge<Times>,
        /// Further names that could not be had.
        pub aliases_refused: Counter<Times>,
        /// Ports that functions (NATs) have leased.
        pub ports_leased: Gauge<Ports> as "weir_leased_ports",
        /// Bytes of side buffers in use.
        pub buffer_bytes: Gauge<Bytes> as "weir_side_buffer_bytes",
        /// Times that a side buffer could not grow because the arena was used up.
        pub buffers_refused: Counter<Times> as "weir_side_buffers_refused_total",
        /// TCP resets outside of their connection's window, which ended nothing.
        pub resets_ignored: Counter<Packets>,
    } and {
        /// True where the chain keeps flows.
        pub tracked: bool,
        /// Flows ended, by why.
        pub ended: Counts<CloseReason>,
    }
}

impl FlowReport {
    /// Clears the gauges of open flows: the engine is gone.
    pub const fn nothing_is_open(&mut self) {
        self.active = 0;
        self.units = 0;
        self.aliases = 0;
        self.ports_leased = 0;
        self.buffer_bytes = 0;
    }

    fn add(&mut self, other: &FlowReport) {
        self.tracked |= other.tracked;
        self.add_counters(other);
        self.ended.merge(&other.ended);
    }
}

impl FunctionReport {
    fn add(&mut self, other: &FunctionReport) {
        self.add_counters(other);
        add_named(&mut self.counters, &other.counters);
        add_named(&mut self.tally, &other.tally);
        self.tally.sort();
    }
}

/// Adds counts to those of the same names; new names come behind, in their
/// order. Tallies have many: each is looked for in a tree.
pub fn add_named<N: Ord + Clone>(sums: &mut Vec<(N, u64)>, counts: &[(N, u64)]) {
    let mut more: BTreeMap<&N, u64> = BTreeMap::new();
    for (name, n) in counts {
        let sum = more.entry(name).or_default();
        *sum = sum.saturating_add(*n);
    }
    for (name, sum) in sums.iter_mut() {
        if let Some(n) = more.remove(name) {
            *sum = sum.saturating_add(n);
        }
    }
    for (name, _) in counts {
        if let Some(n) = more.remove(name) {
            sums.push((name.clone(), n));
        }
    }
}

counters! {
    /// One function's counts.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct FunctionReport fields function_counters {
        /// Packets that reached a function.
        pub packets: Counter<Packets>,
        /// Their bytes, as they came.
        pub bytes: Counter<Bytes>,
        /// Processor cycles spent in a function, by the clock that the driver gave.
        pub cycles: Counter<Cycles>,
        /// Packets that a function dropped.
        pub dropped: Counter<Packets>,
        /// What a function's tally had no place for.
        pub tally_other: Counter<Times>,
    } and {
        /// Name in the chain.
        pub name: String,
        /// Kind of function.
        pub nf: &'static str,
        /// Its own counters.
        pub counters: Vec<(&'static str, u64)>,
        /// Its tally: names found at run time.
        pub tally: Vec<(String, u64)>,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::cmp::Ordering;

    use super::*;

    thread_local!(static COMPARED: Cell<u64> = const { Cell::new(0) });

    #[derive(Clone, Debug)]
    struct Name(u32);

    impl Ord for Name {
        fn cmp(&self, other: &Name) -> Ordering {
            COMPARED.set(COMPARED.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Name {
        fn partial_cmp(&self, other: &Name) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl PartialEq for Name {
        fn eq(&self, other: &Name) -> bool {
            self.cmp(other) == Ordering::Equal
        }
    }

    impl Eq for Name {}

    #[test]
    fn many_names_are_added_without_comparing_each_with_each() {
        const NAMES: u32 = 4_000;
        let counts = |from: u32| (from..from + NAMES).map(|n| (Name(n), 1)).collect();
        let mut sums: Vec<(Name, u64)> = counts(0);
        let more: Vec<(Name, u64)> = counts(NAMES / 2);
        add_named(&mut sums, &more);
        let twice = sums.iter().filter(|(_, n)| *n == 2).count();
        assert_eq!((sums.len(), twice), (6_000, 2_000));
        let compared = COMPARED.get();
        assert!(compared < u64::from(NAMES) * 200, "{compared}");
        assert!(sums.is_sorted(), "new names come behind, in their order");
    }

    #[test]
    fn reports_add_up_by_name() {
        let report = |drops: &[(&str, u64)], packets| Report {
            packets_in: packets,
            drops: drops.iter().map(|(n, c)| ((*n).to_owned(), *c)).collect(),
            functions: vec![FunctionReport {
                packets,
                counters: vec![("seen", packets)],
                ..FunctionReport::default()
            }],
            ..Report::default()
        };
        let mut all = report(&[("a", 1), ("b", 2)], 10);
        all.add(&report(&[("b", 5), ("c", 1)], 7));
        assert_eq!(all.packets_in, 17);
        assert_eq!(all.functions[0].counters, [("seen", 17)]);
        let drops: Vec<(&str, u64)> = all.drops.iter().map(|(n, c)| (n.as_str(), *c)).collect();
        assert_eq!(drops, [("a", 1), ("b", 7), ("c", 1)]);
    }

    #[test]
    fn sums_end_where_numbers_do() {
        let report = Report {
            packets_in: u64::MAX - 1,
            drops: vec![("a".to_owned(), u64::MAX - 1), ("b".to_owned(), 7)],
            ..Report::default()
        };
        let sum = Report::sum(&[report.clone(), report]);
        assert_eq!((sum.packets_in, sum.dropped()), (u64::MAX, u64::MAX));
        assert_eq!(sum.drops[1].1, 14);
    }
}
