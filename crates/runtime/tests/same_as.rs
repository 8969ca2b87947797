//! Functions that stand for others: remembered verdicts.

mod common;
#[path = "common/follower.rs"]
mod follower;

use std::collections::BTreeMap;

use follower::{Follower, Numbered};
use weir_nf::host::{Stage, Target};
use weir_nf::prelude::*;
use weir_runtime::harness::{Craft, Harness};
use weir_runtime::{Runtime, RuntimeConfig};

/// Sorts packets by the second byte of their payload: 0 passes, 1 is labelled,
/// 2 is dropped; counts them all.
struct Sorter;

weir_nf::labels! {
    /// Drop reasons.
    enum Reason: Counter<Packets> {
        /// Its second byte is 2.
        Two = "two",
    }
}

weir_nf::labels! {
    /// Counters.
    enum Count: Counter<Packets> {
        /// Packets that it saw.
        Seen = "seen",
        /// Packets whose second byte is 1.
        Ones = "ones",
    }
}

impl NetworkFunction for Sorter {
    type Settings = ();
    type State = ();
    type Stats = ();
    type FlowState = ();
    const DESCRIPTOR: Descriptor = Descriptor {
        needs: Needs::Transport,
        reads: Parts::PAYLOAD,
        drops: Reason::TABLE,
        labels: &["one"],
        counters: Count::TABLE,
        ..Descriptor::new("sorter", "Sorts packets by their payload")
    };
    fn new(_: (), _: &mut SetUp<'_>) -> Result<Self, SettingsError> {
        Ok(Sorter)
    }
    fn without_flow(&self, packet: &mut Packet<'_>, cx: &mut Context<'_>) -> Verdict {
        cx.count(Count::Seen, 1);
        match packet.payload().get(1) {
            Some(1) => {
                cx.count(Count::Ones, 1);
                Verdict::Label(1)
            }
            Some(2) => Verdict::Drop(Reason::Two.into()),
            _ => Verdict::Pass,
        }
    }
}

/// sorter → probe (a function between) → sorter, whose label is dropped.
fn stage(same_as: Option<usize>) -> Stage {
    let builder = Harness::builder().with::<Sorter>(()).expect("none");
    let builder = builder.links(vec![Target::Node(1), Target::Node(1)]);
    let builder = builder.with::<common::Probe<0>>(()).expect("none");
    let builder = builder.with::<Sorter>(()).expect("none");
    let mut stage = builder.links(vec![Target::Out, Target::Drop]).stage();
    stage.nodes[0].next = vec![Target::Node(1), Target::Node(1)];
    stage.nodes[2].same_as = same_as;
    stage
}

type Counts = BTreeMap<String, Vec<u64>>;

/// Runs packets of these payloads; gives what comes out, each function's
/// numbers, and the drops.
fn run(stage: &Stage, payloads: &[[u8; 2]]) -> (Vec<Vec<u8>>, Counts, Vec<(String, u64)>) {
    let mut harness = Harness::of_stage(stage);
    for payload in payloads {
        let craft = Craft::udp("10.0.0.1:7", "192.0.2.1:80").payload(payload);
        harness.queue(Side::Inside, &craft.build());
    }
    let out = harness.flush().into_iter().map(|out| out.bytes).collect();
    let report = harness.finish();
    let functions = report.functions.iter().map(|f| {
        let mut numbers = vec![f.packets, f.bytes, f.dropped];
        numbers.extend(f.counters.iter().map(|(_, n)| n));
        (f.name.clone(), numbers)
    });
    let functions = functions.collect();
    (out, functions, report.drops)
}

#[test]
fn the_later_ones_numbers_go_on_as_if_it_had_run() {
    // Nothing drops before the second one here: its counters are exact.
    let payloads: Vec<[u8; 2]> = (0..500u32)
        .map(|i| [common::QUIET, (i * 7 % 5 / 3) as u8])
        .collect();
    let want = run(&stage(None), &payloads);
    assert_eq!(want.1["sorter-2"][4], 200, "labelled");
    assert_eq!(run(&stage(Some(0)), &payloads), want);
}

#[test]
fn labels_hold_for_what_survives_drops_between() {
    let payloads: Vec<[u8; 2]> = (0..300u32)
        .map(|i| [[common::PASS, common::DROP][i as usize % 2], (i % 3) as u8])
        .collect();
    let (out, functions, drops) = run(&stage(Some(0)), &payloads);
    let (want_out, want_functions, want_drops) = run(&stage(None), &payloads);
    assert_eq!((out.len(), &out), (50, &want_out));
    assert_eq!(drops, want_drops);
    assert!(
        drops.contains(&("sorter-2.one".to_owned(), 50)),
        "{drops:?}"
    );
    for name in ["sorter", "sorter-2"] {
        let (got, want) = (&functions[name], &want_functions[name]);
        assert_eq!(got[..3], want[..3], "packets, bytes, drops");
    }
    assert_eq!(want_functions["sorter-2"][3], 100, "it would have counted");
    assert_eq!(functions["sorter-2"][3], 0, "other packets reached it");
}

#[test]
fn wrong_ones_are_refused() {
    let refused = |stage: Stage| {
        let error = Runtime::new(&stage, RuntimeConfig::default()).unwrap_err();
        assert!(error.0.contains("can't stand for another"), "{error}");
    };
    refused(stage(Some(2)));
    refused(stage(Some(9)));
    refused(stage(Some(1)));
    let mut chained = stage(Some(0));
    chained.nodes[1].processor = chained.nodes[0].processor.clone();
    chained.nodes[1].same_as = Some(0);
    chained.nodes[2].same_as = Some(1);
    refused(chained);
}

#[test]
fn an_engine_under_a_switch_remembers_verdicts_too() {
    // Seven flows, some packets of which are labelled and some dropped.
    let packets: Vec<Numbered> = (0..420u64)
        .map(|n| {
            let flow = n % 7;
            let payload = [u8::from(n % 11 == 3) * common::DROP, (n * n % 5 % 3) as u8];
            let craft = Craft::udp(&format!("10.0.0.1:{}", flow + 7), "192.0.2.1:80");
            Numbered {
                unit: 1 << 32 | flow,
                clock: n / 7 + 1,
                time_ms: 1_700_000_000_000 + n,
                flags: 0,
                side: Side::Inside,
                bytes: craft.payload(&payload).build(),
            }
        })
        .collect();
    for size in [1, 6, 64, packets.len()] {
        let mut with = Follower::new(&stage(Some(0)));
        let mut without = Follower::new(&stage(None));
        for some in packets.chunks(size) {
            let entries = with.apply(some);
            assert!(!entries.is_empty());
            assert_eq!(entries, without.apply(some), "{size} at a time");
        }
        let (with, without) = (with.engine.report(), without.engine.report());
        assert_eq!(with.drops, without.drops);
        assert!(with.dropped() > 100, "{:?}", with.drops);
        let numbers = |report: &weir_runtime::Report| -> Vec<[u64; 3]> {
            let functions = report.functions.iter();
            functions.map(|f| [f.packets, f.bytes, f.dropped]).collect()
        };
        assert_eq!(numbers(&with), numbers(&without));
    }
}
