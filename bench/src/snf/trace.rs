//! Traffic of a shape: packets of flows, in the order of time.
//!
//! A flow is small (a few packets) or large (a bounded Pareto number of packets). It sends
//! *windows*: packets at the speed of its access link, then a pause. How much a window brings
//! changes from phase to phase, so a flow's past says only so much about its future. Flows begin
//! along a load that rises and falls. All is drawn from a seed.

use crate::seeded::Seeded;

/// Nanoseconds of a second.
const SECOND: f64 = 1e9;
/// Packets of a burst of an attacker, and their bytes (SNF §9.5).
const BURST: (u32, u16) = (20, 1_400);
/// Nanoseconds between packets of such a burst: 10 Gbit/s.
const BURST_SPACING: u64 = 1_120;
/// Nanoseconds that one phase of a large flow lasts.
const PHASE: f64 = 200e6;
/// Most bits per second of a flow: no unit can do more, however work is given out.
const FASTEST: f64 = 800e6;
/// Intervals of the load over time.
const STEPS: usize = 256;

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// When it comes, in nanoseconds.
    pub(super) at: u64,
    /// Its flow, from 0.
    pub(super) flow: u32,
    /// Its bytes.
    pub(super) bytes: u16,
}

/// Sizes of packets.
#[derive(Clone, Copy, Debug)]
enum Sizes {
    /// Mostly full ones, with some small and some of 1,500 bytes.
    Full(u16),
    /// Log-normal around a median.
    Around(f64, f64),
}

/// Parameters of traffic.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    name: &'static str,
    /// Flows.
    flows: u32,
    /// Packets, about.
    packets: u64,
    /// Share of flows that are small.
    small: f64,
    /// Most packets of a small flow, and fewest of a large one.
    edge: u32,
    /// Exponent of the bounded Pareto distribution of large flows' packets.
    exponent: f64,
    sizes: Sizes,
    /// Mean load in bits per second.
    load: f64,
    /// Median rate of a large flow in bits per second, spread (sigma of the logarithm), most.
    rate: (f64, f64, f64),
    /// Median time from window to window in nanoseconds, and spread.
    round: (f64, f64),
    /// Median speed of access links in bits per second, and spread.
    access: (f64, f64),
    /// How far the load goes up and down, as a share of its mean.
    swing: f64,
    /// Every so many flows bring bursts of an attacker; 0: none do.
    attack: u32,
}

impl Shape {
    /// The paper's first trace: 199k flows, 6.4M packets, median 1,434 B, 5 % of flows over
    /// 10 KB. Load, rates and windows are not published: those here give about as many flowlets
    /// per flow as the paper counts.
    pub(super) fn wan() -> Shape {
        Shape {
            name: "wan",
            flows: 199_000,
            packets: 6_400_000,
            small: 0.95,
            edge: 9,
            exponent: 0.5,
            sizes: Sizes::Full(1_434),
            load: 6e9,
            rate: (40e6, 0.9, 300e6),
            round: (5e6, 0.8),
            access: (1e9, 0.5),
            swing: 0.5,
            attack: 0,
        }
    }

    /// The paper's second trace: 1.7k flows, 3.8M packets, median 368 B.
    pub(super) fn edge() -> Shape {
        Shape {
            name: "few-flows",
            flows: 1_700,
            packets: 3_800_000,
            small: 0.5,
            edge: 9,
            exponent: 0.4,
            sizes: Sizes::Around(368.0, 0.8),
            load: 3e9,
            ..Shape::wan()
        }
    }

    /// With bursts of an attacker in every so many flows.
    pub(super) fn attacked(self, every: u32) -> Shape {
        Shape {
            attack: every,
            ..self
        }
    }

    /// At another mean load, in bits per second.
    pub(super) fn at(self, load: f64) -> Shape {
        Shape { load, ..self }
    }

    /// With so many times fewer flows and packets, in a time as much shorter. Large flows are cut
    /// to what fits into it.
    pub(super) fn scaled(mut self, parts: u32) -> Shape {
        let parts = parts.max(1);
        self.flows = (self.flows / parts).max(1);
        self.packets = (self.packets / u64::from(parts)).max(1);
        self
    }

    /// Mean bytes of a packet of a large flow.
    fn mean_bytes(&self) -> f64 {
        match self.sizes {
            Sizes::Full(full) => 0.2 * 130.0 + 0.7 * f64::from(full) + 0.1 * 1_500.0,
            // Of a log-normal distribution, cut at 60 and 1,500: 0.93 by experiment.
            Sizes::Around(median, sigma) => 0.93 * median * (sigma * sigma / 2.0).exp(),
        }
    }

    fn bytes(&self, draw: &mut Draw) -> u16 {
        match self.sizes {
            Sizes::Full(full) => match draw.below(10) {
                0 | 1 => 60 + draw.below(140) as u16,
                9 => 1_500,
                _ => full,
            },
            Sizes::Around(median, sigma) => {
                draw.log_normal(median, sigma).clamp(60.0, 1_500.0) as u16
            }
        }
    }

    /// Packets that a large flow has on average.
    fn mean_large(&self) -> f64 {
        let small = f64::from(self.flows) * self.small;
        let large = (f64::from(self.flows) - small).max(1.0);
        let in_small = small * f64::from(self.edge) * SMALL_MEAN;
        ((self.packets as f64 - in_small) / large).max(f64::from(self.edge) + 1.0)
    }

    /// Most packets of a large flow: with it the distribution has its mean.
    fn most(&self) -> f64 {
        let (low, mean) = (f64::from(self.edge) + 1.0, self.mean_large());
        let (mut below, mut above) = (low * 1.01, 1e9);
        for _ in 0..100 {
            let middle = (below * above).sqrt();
            if pareto_mean(low, middle, self.exponent) < mean {
                below = middle;
            } else {
                above = middle;
            }
        }
        below
    }

    /// Seconds of traffic.
    pub(super) fn seconds(&self) -> f64 {
        self.packets as f64 * self.mean_bytes() * 8.0 / self.load
    }
}

/// Mean packets of a small flow, as a share of the most.
const SMALL_MEAN: f64 = 0.5;

/// Mean of a Pareto distribution from `low` to `high`.
fn pareto_mean(low: f64, high: f64, exponent: f64) -> f64 {
    let mass = 1.0 - (low / high).powf(exponent);
    let whole = exponent / (1.0 - exponent) * low.powf(exponent);
    whole * (high.powf(1.0 - exponent) - low.powf(1.0 - exponent)) / mass
}

/// Draws of several distributions.
struct Draw(Seeded);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound)
    }

    /// From 0 to 1, both not included.
    fn unit(&mut self) -> f64 {
        ((self.0.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Box and Muller's.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        radius * (core::f64::consts::TAU * self.unit()).cos()
    }

    fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        median * (sigma * self.normal()).exp()
    }

    fn pareto(&mut self, low: f64, high: f64, exponent: f64) -> f64 {
        let mass = 1.0 - (low / high).powf(exponent);
        low / (1.0 - self.unit() * mass).powf(1.0 / exponent)
    }
}

/// Traffic.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    shape: Shape,
    packets: Vec<Packet>,
}

/// Statistics of the traffic that was drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) flows: u32,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    /// Of packets, in bytes.
    pub(super) median: u16,
    /// Share of flows with more than 10 KB.
    pub(super) large: f64,
    /// Of all packets' values: the same for the same trace.
    pub(super) print: u64,
}

impl Trace {
    /// Draws it.
    pub(super) fn draw(shape: Shape, seed: u64) -> Trace {
        let mut maker = Maker::new(shape, seed);
        for flow in 0..maker.shape.flows {
            maker.flow(flow);
        }
        let mut packets = maker.packets;
        packets.sort_by_key(|packet| packet.at);
        Trace {
            shape: maker.shape,
            packets,
        }
    }

    /// Its packets, in the order of time.
    pub(super) fn packets(&self) -> &[Packet] {
        &self.packets
    }

    /// Its shape.
    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Its flows.
    pub(super) fn flows(&self) -> u32 {
        self.shape.flows
    }

    /// The name of its shape.
    pub(super) fn name(&self) -> &'static str {
        self.shape.name
    }

    /// Counts it.
    pub(super) fn facts(&self) -> Facts {
        let mut of_flows = vec![0_u64; self.shape.flows as usize];
        let mut sizes = vec![0_u64; 1 << 16];
        let mut print = 0xcbf2_9ce4_8422_2325_u64;
        for packet in &self.packets {
            of_flows[packet.flow as usize] += u64::from(packet.bytes);
            sizes[usize::from(packet.bytes)] += 1;
            for word in [packet.at, u64::from(packet.flow), u64::from(packet.bytes)] {
                print = (print ^ word).wrapping_mul(0x0100_0000_01b3);
            }
        }
        let half = self.packets.len() as u64 / 2;
        let mut seen = 0;
        let median = sizes.iter().position(|count| {
            seen += count;
            seen > half
        });
        let large = of_flows.iter().filter(|bytes| **bytes > 10_000).count();
        let ends = (self.packets.first(), self.packets.last());
        let length = match ends {
            (Some(first), Some(last)) => last.at - first.at,
            _ => 0,
        };
        Facts {
            flows: self.shape.flows,
            packets: self.packets.len() as u64,
            bytes: of_flows.iter().sum(),
            seconds: length as f64 / SECOND,
            median: median.unwrap_or(0) as u16,
            large: large as f64 / f64::from(self.shape.flows.max(1)),
            print,
        }
    }
}

/// Draws packets of flow after flow.
struct Maker {
    draw: Draw,
    shape: Shape,
    /// Nanoseconds from the first beginning to the last end.
    length: f64,
    most: f64,
    /// Share of flows that begin before the end of each step.
    begins: Vec<f64>,
    packets: Vec<Packet>,
}

impl Maker {
    fn new(shape: Shape, seed: u64) -> Maker {
        // Three times up and down, with a little noise of a shorter period.
        let height = |step: usize| {
            let at = step as f64 / STEPS as f64 * core::f64::consts::TAU;
            1.0 - shape.swing * (3.0 * at).cos() * (0.8 + 0.2 * (17.0 * at).sin())
        };
        let mut sum = 0.0;
        let mut begins: Vec<f64> = (0..STEPS)
            .map(|step| {
                sum += height(step);
                sum
            })
            .collect();
        begins.iter_mut().for_each(|share| *share /= sum);
        Maker {
            draw: Draw(Seeded::new(seed)),
            length: shape.seconds() * SECOND,
            most: shape.most(),
            packets: Vec::with_capacity(shape.packets as usize * 9 / 8),
            begins,
            shape,
        }
    }

    /// When something of `length` begins.
    fn beginning(&mut self, length: f64) -> u64 {
        let share = self.draw.unit();
        let step = self.begins.partition_point(|before| *before < share);
        let before = if step == 0 {
            0.0
        } else {
            self.begins[step - 1]
        };
        let here = (self.begins[step.min(STEPS - 1)] - before).max(1e-12);
        let at = (step as f64 + (share - before) / here) / STEPS as f64;
        // Time 0 is none.
        1_000_000 + (at * (self.length - length).max(0.0)) as u64
    }

    fn flow(&mut self, flow: u32) {
        let attacks = self.shape.attack > 0 && flow.is_multiple_of(self.shape.attack);
        let is_small = self.draw.unit() < self.shape.small;
        if is_small {
            self.small(flow, attacks);
        } else {
            self.large(flow, attacks);
        }
    }

    /// Up to `edge` packets, half of them of less than 300 bytes, the first alone.
    fn small(&mut self, flow: u32, attacks: bool) {
        let count = 1 + self.draw.below(self.shape.edge as usize - 1);
        let round = self.round();
        let mut at = self.beginning(2.0 * round);
        if attacks {
            self.burst(flow, at);
        }
        for number in 0..count {
            let bytes = match self.draw.below(2) {
                0 => 60 + self.draw.below(240) as u16,
                _ => self.shape.bytes(&mut self.draw),
            };
            self.packets.push(Packet { at, flow, bytes });
            // After the first: a handshake.
            at += match number {
                0 => round as u64,
                _ => 1 + (f64::from(bytes) * 8.0 * SECOND / self.shape.access.0) as u64,
            };
        }
    }

    fn round(&mut self) -> f64 {
        let (median, sigma) = self.shape.round;
        self.draw.log_normal(median, sigma).clamp(20e3, 20e6)
    }

    /// Windows of packets at the access link's speed, once per round-trip.
    fn large(&mut self, flow: u32, attacks: bool) {
        let low = f64::from(self.shape.edge) + 1.0;
        let mut left = self.draw.pareto(low, self.most, self.shape.exponent) as u64;
        let (median, sigma, most) = self.shape.rate;
        let mean = self.shape.mean_bytes();
        let wanted = self.draw.log_normal(median, sigma).min(most);
        // What is too slow to end within the trace is faster; what cannot is cut.
        left = left.min((0.7 * self.length / SECOND * most / 8.0 / mean) as u64);
        let least = left as f64 * mean * 8.0 / (0.7 * self.length / SECOND);
        let rate = wanted.max(least);
        let round = self.round();
        let access = self
            .draw
            .log_normal(self.shape.access.0, self.shape.access.1);
        let access = access.clamp(2.0 * rate, 10e9);
        let length = left as f64 * mean * 8.0 / rate * SECOND;
        let mut at = self.beginning(length) as f64;
        let (mut phase, mut factor) = (f64::NEG_INFINITY, 1.0);
        while left > 0 {
            if at > phase {
                // A new phase: from a third to three times as much, the mean unchanged.
                phase = at + PHASE;
                factor = self
                    .draw
                    .log_normal(0.885, 0.5)
                    .min(3.0)
                    .min(FASTEST / rate);
            }
            if attacks {
                self.burst(flow, at as u64);
            }
            let window = (rate * factor * round / SECOND / 8.0 / mean).max(1.0);
            let window = (window + self.draw.unit() - 0.5).round().max(1.0) as u64;
            // With small windows, windows follow one another more quickly.
            let pause = window as f64 * mean * 8.0 / (rate * factor) * SECOND;
            let began = at;
            for _ in 0..window.min(left) {
                let bytes = self.shape.bytes(&mut self.draw);
                let packet = Packet {
                    at: at as u64,
                    flow,
                    bytes,
                };
                self.packets.push(packet);
                at += (f64::from(bytes) * 8.0 / access * SECOND).max(1.0);
            }
            left -= window.min(left);
            at = at.max(began + pause * (0.75 + 0.5 * self.draw.unit()));
        }
    }

    /// A burst of an attacker.
    fn burst(&mut self, flow: u32, at: u64) {
        for number in 0..u64::from(BURST.0) {
            self.packets.push(Packet {
                at: at + number * BURST_SPACING,
                flow,
                bytes: BURST.1,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_have_the_shape_that_they_are_named_after() {
        for (shape, median, large) in [
            (Shape::wan(), 1_434..=1_434, 0.03..0.08),
            (Shape::edge(), 300..=420, 0.2..0.7),
        ] {
            let shape = shape.scaled(4);
            let wanted = shape.packets as f64;
            let facts = Trace::draw(shape, 1).facts();
            assert!(median.contains(&facts.median), "{facts:?}");
            assert!(large.contains(&facts.large), "{facts:?}");
            let share = facts.packets as f64 / wanted;
            assert!((0.5..1.3).contains(&share), "{share}: {facts:?}");
        }
    }

    #[test]
    fn a_seed_is_a_trace() {
        let print = |seed| Trace::draw(Shape::wan().scaled(64), seed).facts().print;
        assert_eq!(print(3), print(3));
        assert_ne!(print(3), print(4));
    }

    #[test]
    fn packets_come_in_order_and_attackers_bring_more() {
        let plain = Trace::draw(Shape::wan().scaled(64), 1);
        let in_order = |trace: &Trace| {
            let mut pairs = trace.packets().windows(2);
            pairs.all(|pair| pair[0].at <= pair[1].at)
        };
        assert!(in_order(&plain));
        let attacked = Trace::draw(Shape::wan().attacked(10).scaled(64), 1);
        assert!(in_order(&attacked));
        assert!(attacked.packets().len() > plain.packets().len());
    }
}
