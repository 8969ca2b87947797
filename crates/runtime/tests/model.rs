//! The engine against a model of one infinitely fast runtime that works on
//! one packet after another (I6): the same outputs in the same order, the same
//! states.

mod common;

use std::collections::BTreeMap;

use common::{BUFFER, DROP, LABEL, PASS, Probe, QUIET, REFUSE, numbers};
use proptest::prelude::*;
use weir_nf::host::FlowOptions;
use weir_nf::prelude::*;
use weir_runtime::harness::{Craft, Harness};

#[derive(Clone, Copy, Debug)]
struct Step {
    client: u8,
    tcp: bool,
    back: bool,
    /// SYN, RST or (most often) ACK.
    flags: u8,
    what: u8,
    wait_ms: u64,
    /// The burst ends here.
    flush: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let what = prop_oneof![
        6 => Just(PASS), 2 => Just(DROP), 1 => Just(LABEL), 2 => Just(BUFFER),
        1 => Just(REFUSE), 1 => Just(QUIET)
    ];
    let wait = prop_oneof![8 => Just(0u64), 4 => 0u64..2_000, 1 => 9_000u64..11_000, 1 => 230_000u64..310_000];
    let step = (
        0u8..6,
        any::<bool>(),
        any::<bool>(),
        0u8..6,
        what,
        wait,
        prop::bool::weighted(0.2),
    );
    let step = step.prop_map(|(client, tcp, back, flags, what, wait_ms, flush)| Step {
        client,
        tcp,
        back,
        flags,
        what,
        wait_ms,
        flush,
    });
    prop::collection::vec(step, 1..200)
}

impl Step {
    fn packet(&self, number: usize) -> Vec<u8> {
        let (client, server) = (
            format!("10.0.0.{}:1000", self.client),
            "192.0.2.1:80".to_owned(),
        );
        let (from, to) = if self.back {
            (server, client)
        } else {
            (client, server)
        };
        let craft = if self.tcp {
            Craft::tcp(&from, &to).flags(["S", "R", "A", "A", "A", "A"][usize::from(self.flags)])
        } else {
            Craft::udp(&from, &to)
        };
        let payload = [&[self.what][..], &number.to_be_bytes()].concat();
        craft.payload(&payload).build()
    }
}

/// A flow of the model.
#[derive(Clone, Copy, Debug)]
struct Model {
    last_ms: u64,
    tcp: bool,
    client_is_back: bool,
    acks: [bool; 2],
    syn: bool,
    /// Both have acknowledged something before a SYN came.
    under_way: bool,
    reset: bool,
    open: bool,
    clock: u64,
    n: u64,
    seen: u64,
    buffered: u64,
}

impl Model {
    fn new(step: &Step) -> Model {
        Model {
            last_ms: 0,
            tcp: step.tcp,
            client_is_back: step.back,
            acks: [false; 2],
            syn: false,
            under_way: false,
            reset: false,
            open: false,
            clock: 0,
            n: 0,
            seen: 0,
            buffered: 0,
        }
    }

    fn idle_ms(&self) -> u64 {
        match (self.tcp, self.reset) {
            (false, _) => 300_000,
            (true, true) => 10_000,
            _ if self.under_way => 7_440_000,
            _ => 240_000,
        }
    }

    fn follow(&mut self, step: &Step) {
        let from_server = step.back != self.client_is_back;
        match step.flags {
            0 => self.syn |= !from_server,
            // No answer comes here to a SYN: a reset that acknowledges nothing is
            // about an earlier connection then.
            1 => self.reset |= !self.syn || self.under_way,
            _ => self.acks[usize::from(from_server)] = true,
        }
        self.under_way |= !self.syn && !self.reset && self.acks == [true; 2];
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Result {
    out: Vec<u64>,
    n: Vec<u64>,
    clock: Vec<u64>,
    seen: Vec<u64>,
    buffered: Vec<u64>,
    closed: Vec<u64>,
    flows: u64,
    dropped: u64,
}

fn model(steps: &[Step]) -> Result {
    let mut flows: BTreeMap<(u8, bool), Model> = BTreeMap::new();
    let mut result = Result::default();
    let mut now = 0;
    for (number, step) in steps.iter().enumerate() {
        now += step.wait_ms;
        let key = (step.client, step.tcp);
        if let Some(flow) = flows.get(&key) {
            let reused = flow.tcp && flow.reset && step.flags == 0;
            if now - flow.last_ms > flow.idle_ms() || reused {
                result.closed.extend(flow.open.then_some(flow.n));
                flows.remove(&key);
            }
        }
        let flow = flows.entry(key).or_insert_with(|| {
            result.flows += 1;
            Model::new(step)
        });
        flow.last_ms = now;
        flow.clock += 1;
        flow.follow(step);
        if !flow.open && step.what == REFUSE {
            result.dropped += 1;
            continue;
        }
        flow.open = true;
        flow.seen += 1;
        if step.what != QUIET {
            flow.n += 1;
        }
        if step.what == BUFFER {
            flow.buffered = if flow.buffered + 9 <= 4_096 {
                flow.buffered + 9
            } else {
                flow.buffered
            };
        }
        result.n.push(flow.n);
        result.clock.push(flow.clock);
        result.seen.push(flow.seen);
        result.buffered.push(flow.buffered);
        if step.what == DROP {
            result.dropped += 1;
        } else {
            result.out.push(number as u64);
        }
    }
    for flow in flows.values().filter(|flow| flow.open) {
        result.closed.push(flow.n);
    }
    result.closed.sort_unstable();
    result
}

fn engine(steps: &[Step]) -> Result {
    let builder = Harness::builder().flows(FlowOptions {
        max: 64,
        ..FlowOptions::default()
    });
    let mut harness = builder.with::<Probe<0>>(()).expect("none").build();
    let mut result = Result::default();
    let mut out = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        harness.advance_ms(step.wait_ms);
        harness.queue(Side::Inside, &step.packet(number));
        if step.flush {
            out.extend(harness.flush());
        }
    }
    out.extend(harness.flush());
    result.out = out
        .iter()
        .filter_map(|out| out.bytes.last_chunk::<8>())
        .map(|number| u64::from_be_bytes(*number))
        .collect();
    let report = harness.finish();
    let events = harness.events();
    result.n = numbers(&events, "probe", "n");
    result.clock = numbers(&events, "probe", "clock");
    result.seen = numbers(&events, "probe", "seen");
    result.buffered = numbers(&events, "probe", "buffered");
    result.closed = numbers(&events, "closed", "n");
    result.closed.sort_unstable();
    result.flows = report.flows.seen;
    result.dropped = report.dropped();
    assert_eq!(report.flows.buffer_bytes, 0);
    result
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_engine_does_what_one_packet_at_a_time_would(steps in steps()) {
        prop_assert_eq!(engine(&steps), model(&steps));
    }

    /// Whatever the functions do and however small everything is, no packet
    /// and no state is lost.
    #[test]
    fn everything_is_accounted_for(
        packets in prop::collection::vec((0u8..12, 0u8..9, any::<bool>(), 0u64..40_000), 1..300),
        max in 1u32..8,
        held in 0u32..4,
        refuse: bool,
    ) {
        let mut builder = Harness::builder().flows(FlowOptions {
            max,
            held_fragments: held,
            buffer_bytes: 1,
            when_full: if refuse {
                weir_nf::host::WhenFull::Refuse
            } else {
                weir_nf::host::WhenFull::Evict
            },
            ..FlowOptions::default()
        });
        builder = builder.with::<Probe<1>>(()).expect("none");
        builder = builder.with::<Probe<2>>(()).expect("none");
        let mut harness = builder.with::<Probe<0>>(()).expect("none").build();
        for (i, &(client, what, flush, wait)) in packets.iter().enumerate() {
            harness.advance_ms(wait);
            let craft = Craft::udp(&format!("10.0.0.{client}:7"), "192.0.2.1:80");
            let craft = match client % 4 {
                0 => craft.ip_id(u16::from(what)).fragment([0x2000, 2, 0x2002][i % 3]),
                _ => craft,
            };
            let mut bytes = craft.payload(&[what; 20]).build();
            if client == 11 {
                bytes.truncate(usize::from(what) * 5);
            }
            harness.queue(Side::Inside, &bytes);
            if flush {
                harness.flush();
                prop_assert!(harness.report().balances());
            }
        }
        harness.flush();
        let report = harness.finish(); // checks the balance and the frames
        prop_assert_eq!(report.flows.buffer_bytes, 0);
        prop_assert_eq!((report.flows.units, report.flows.active), (0, 0));
        for function in &report.functions {
            prop_assert_eq!(function.counters[0].1, function.counters[1].1, "opened and closed");
        }
    }
}
