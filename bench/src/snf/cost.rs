//! §9.7: what flowlets cost, in time of this machine and of the real code; and the bandwidth of
//! copies that go ahead.

use std::hint::black_box;

use serde_json::json;
use weir_packet::{Time, no_advice};
use weir_protocol::flowlets::{FlowletSettings, Flowlets, Slot};

use super::bed::{Setting, StateMode};
use super::figures::run;
use super::report::Report;
use super::scene::{Scene, UNITS, modes};
use super::trace::Shape;
use crate::chain::{self, Texts};
use crate::clock::timed;
use crate::seeded::Seeded;
use crate::stats::Spread;

/// Rounds of each measurement.
const ROUNDS: usize = 9;
/// Packets ahead for which the record is fetched, as the switch does it for a burst.
const AHEAD: usize = 16;
/// Bytes of headers around a state on its way: Ethernet, IPv4, UDP, message.
const HEADERS: u64 = 14 + 20 + 8 + 24;
/// Nanoseconds of the time-out here.
const GAP: u64 = 2_000_000_000;
/// Virtual nanoseconds between packets: 10 million packets per second.
const SPACING: u64 = 100;

/// Packets in a random order of flows.
struct Bench {
    flowlets: Flowlets,
    order: Vec<u32>,
    usable: Vec<Slot>,
    owners: Vec<Slot>,
    now: u64,
}

impl Bench {
    fn new(flows: usize, packets: usize, runtimes: Slot, seed: u64) -> Result<Bench, String> {
        // All flows' last packets are within half of it.
        let settings = FlowletSettings {
            gap: GAP,
            ..FlowletSettings::DEFAULT
        };
        let flowlets = Flowlets::new(settings, flows, seed, no_advice);
        let mut flowlets = flowlets.map_err(|error| error.to_string())?;
        let usable: Vec<Slot> = (1..=runtimes).collect();
        usable.iter().for_each(|slot| flowlets.admit(*slot));
        let mut random = Seeded::new(seed);
        let order = (0..packets).map(|_| random.below(flows) as u32).collect();
        let mut bench = Bench {
            flowlets,
            order,
            usable,
            owners: vec![0; flows],
            now: 1_000_000,
        };
        // Each flow is known before anything is measured.
        for flow in 0..flows as u32 {
            bench.boundary(flow);
        }
        Ok(bench)
    }

    /// A flowlet begins with a packet.
    fn boundary(&mut self, flow: u32) {
        let now = Time(self.now);
        let owner = self.owners[flow as usize];
        self.flowlets.end(flow);
        let pick = self.flowlets.pick(flow, &self.usable, [owner, 0]);
        let slot = pick.map_or(1, |pick| pick.slot);
        self.flowlets.begin(flow, now, slot);
        self.owners[flow as usize] = slot;
        self.flowlets.count(flow, now, slot, 600);
        self.now += SPACING;
    }

    /// The loop around what is measured: the order, the owners, fetching.
    fn bare(&mut self) -> u64 {
        let mut sum = 0;
        for at in 0..self.order.len() {
            if let Some(next) = self.order.get(at + AHEAD) {
                self.flowlets.prefetch(*next);
            }
            sum += u64::from(self.owners[self.order[at] as usize]);
            self.now += SPACING;
        }
        sum
    }

    /// The cost of each packet: the test whether it begins a flowlet (none does), and its count.
    fn packets(&mut self) -> u64 {
        let now = Time(self.now);
        let mut sum = 0;
        for at in 0..self.order.len() {
            if let Some(next) = self.order.get(at + AHEAD) {
                self.flowlets.prefetch(*next);
            }
            let flow = self.order[at];
            let owner = self.owners[flow as usize];
            sum += u64::from(self.flowlets.begins(flow, now, 60));
            self.flowlets.count(flow, now, owner, 0);
            sum += u64::from(owner);
            self.now += SPACING;
        }
        sum
    }

    /// Each packet is a boundary.
    fn boundaries(&mut self) -> u64 {
        for at in 0..self.order.len() {
            if let Some(next) = self.order.get(at + AHEAD) {
                self.flowlets.prefetch(*next);
            }
            self.flowlets.advance(Time(self.now));
            self.boundary(self.order[at]);
        }
        self.now
    }

    /// Copies go ahead for all that are quiet, once.
    fn copies(&mut self) -> u64 {
        let mut count = 0;
        let now = Time(self.now + GAP / 2);
        while let Some(flow) = self.flowlets.due(now) {
            let owner = self.owners[flow as usize];
            black_box(self.flowlets.likely(flow, &self.usable, [owner, 0]));
            count += 1;
        }
        count
    }
}

/// Untimed, for callgrind: so many packets or boundaries over 1,000 flows and 10 runtimes.
pub(super) fn count(what: &str, number: usize) -> Result<(), String> {
    let mut bench = Bench::new(1_000, number, 10, 1)?;
    let done = match what {
        "bare" => bench.bare(),
        "packets" => bench.packets(),
        "boundaries" => bench.boundaries(),
        _ => return Err("write `snf count bare|packets|boundaries NUMBER`".to_owned()),
    };
    black_box(done);
    Ok(())
}

/// Nanoseconds of each: per packet, per boundary, per state that goes ahead.
fn measure(flows: usize, packets: usize, runtimes: Slot, seed: u64) -> Result<[Spread; 3], String> {
    let mut samples: [Vec<f64>; 3] = Default::default();
    for round in 0..ROUNDS {
        let mut bench = Bench::new(flows, packets, runtimes, seed + round as u64)?;
        let each = |ns: u64, number: u64| ns as f64 / number.max(1) as f64;
        let (bare, sum) = timed(|| bench.bare());
        black_box(sum);
        let (with, sum) = timed(|| bench.packets());
        black_box(sum);
        samples[0].push(each(with, packets as u64) - each(bare, packets as u64));
        let (boundaries, sum) = timed(|| bench.boundaries());
        black_box(sum);
        samples[1].push(each(boundaries, packets as u64) - each(bare, packets as u64));
        let (copies, number) = timed(|| bench.copies());
        samples[2].push(each(copies, number));
    }
    Ok(samples.map(|samples| Spread::of(&samples)))
}

/// The table of times.
pub(super) fn times(report: &mut Report, scene: Scene) -> Result<(), String> {
    let mut rows = Vec::new();
    for flows in [1_000_usize, 1_000_000] {
        let flows = (flows / scene.parts as usize).max(1_000);
        for runtimes in [10, 100] {
            let packets = ((1 << 20) / scene.parts as usize).max(1_000);
            let spreads = measure(flows, packets, runtimes, scene.seed)?;
            let [packet, boundary, copy] = &spreads;
            report.raw(&json!({
                "figure": "9.7 time", "flows": flows, "runtimes": runtimes,
                "packet_ns": packet.median, "boundary_ns": boundary.median,
                "copy_ns": copy.median,
            }))?;
            let cell = |spread: &Spread| {
                let Spread {
                    median,
                    lower_quartile,
                    upper_quartile,
                    ..
                } = spread;
                format!("{median:.1} ({lower_quartile:.1}–{upper_quartile:.1})")
            };
            let mut row = vec![flows.to_string(), runtimes.to_string()];
            row.extend([packet, boundary, copy].map(cell));
            row.push(format!("{:.1}", 1e3 / boundary.median.max(1e-3)));
            row.push("1 µs per flowlet".to_owned());
            rows.push(row);
        }
    }
    let columns = [
        "flows",
        "runtimes",
        "packet, ns",
        "boundary, ns",
        "copy ahead, ns",
        "million boundaries per second",
        "paper",
    ];
    report.table(
        "§9.7: cost of flowlets (thread time of this machine)",
        &columns,
        &rows,
    );
    Ok(())
}

/// The paper's functions, ours, and the paper's Mbit/s.
const FUNCTIONS: [(&str, &str, &str); 5] = [
    ("NAT", "nat44", "3.62"),
    ("load balancer", "load-balancer", "4.13"),
    ("IDS", "ids", "3.12"),
    ("UDP whitelister", "firewall", "2.9"),
    ("policer", "policer", "4.8"),
];

/// The table of bandwidth: states of weir's functions, as large as they are.
pub(super) fn bandwidth(report: &mut Report, scene: Scene) -> Result<(), String> {
    let trace = scene.trace(Shape::wan());
    let [.., (mode, _)] = modes();
    let outcome = run(
        &trace,
        Setting {
            units: UNITS,
            ..scene.setting(mode, StateMode::Proactive)
        },
    )?;
    let per_second = outcome.copies as f64 / outcome.seconds;
    let in_vain = 1.0 - outcome.used as f64 / outcome.copies.max(1) as f64;
    let mut rows = Vec::new();
    for (name, function, paper) in FUNCTIONS {
        let mut texts = Texts(&[("bench.rules", RULE)]);
        let stage = chain::stage(&[function], &mut texts)?;
        let layouts = stage.nodes.iter().map(|node| node.processor.state());
        let state: u64 = layouts
            .map(|layout| u64::from(layout.bytes + layout.flow_bytes))
            .sum();
        let bits = per_second * (state + HEADERS) as f64 * 8.0;
        report.raw(&json!({
            "figure": "9.7 bandwidth", "function": function, "state_bytes": state,
            "copies_per_s": per_second, "in_vain": in_vain, "bits_per_s": bits,
        }))?;
        rows.push(vec![
            format!("{name} (`{function}`)"),
            state.to_string(),
            format!("{per_second:.0}"),
            super::report::percent(in_vain),
            format!("{:.1}", bits / 1e6),
            format!("{:.2} %", bits / outcome.offered() * 100.0),
            paper.to_owned(),
        ]);
    }
    let columns = [
        "function",
        "state, bytes",
        "copies per second",
        "in vain",
        "Mbit/s",
        "of the traffic",
        "paper, Mbit/s",
    ];
    report.table("§9.7: bandwidth of copies ahead", &columns, &rows);
    Ok(())
}

/// A rule, so that the IDS has one.
const RULE: &str = "alert tcp any any -> any any (content:\"weir-bench\"; sid:1;)\n";
