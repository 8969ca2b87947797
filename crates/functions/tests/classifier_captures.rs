//! The switch's classifier over real captures: its units are those that an
//! engine makes of the same packets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_functions::words::Words;
use weir_functions::{firewall, nat44, nop, udp_whitelist};
use weir_nf::host::{FlowOptions, Stage, Timeouts};
use weir_nf::packet::{Frame, FrameMeta, FramePool, LinkType, MemoryLayout, Side, Time};
use weir_runtime::harness::{Harness, HarnessBuilder};
use weir_runtime::{Classifier, Report, Runtime, RuntimeConfig};

#[path = "support/mod.rs"]
mod support;

/// All captures below the folder.
fn captures(root: PathBuf) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![root]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|e| e == "pcap" || e == "pcapng")
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Units and what they were given to.
#[derive(Debug, Default)]
struct Pairs {
    /// By the engine's unit, 0 for packets without one.
    pairs: BTreeMap<u64, u64>,
    back: BTreeMap<u64, u64>,
}

impl Pairs {
    fn pair(&mut self, engine: u64, classifier: u64) -> bool {
        *self.pairs.entry(engine).or_insert(classifier) == classifier
            && *self.back.entry(classifier).or_insert(engine) == engine
    }
}

/// Packets that could be compared, and units.
fn compare(path: &Path, stage: &Stage, burst: usize) -> (usize, usize) {
    let layout = MemoryLayout {
        small_frames: 1_024,
        ..MemoryLayout::default()
    };
    let mut pool = FramePool::with_layout(layout);
    let config = RuntimeConfig {
        seed: 3,
        ..RuntimeConfig::default()
    };
    let mut engine = Runtime::new(stage, config).expect("the stage is right");
    let mut classifier = Classifier::new(stage, config).expect("the stage is right");
    let liaison = classifier.liaison();
    let mut pairs = Pairs::default();
    let mut compared = 0;
    // Fragments may come out of their burst later in one than in the other:
    // units are compared at the end of the capture.
    let mut units: [BTreeMap<u64, u64>; 2] = Default::default();
    for (number, packets) in support::load(path).chunks(burst).enumerate() {
        let mut copies: [Vec<Frame>; 2] = Default::default();
        for (i, packet) in packets.iter().enumerate() {
            let mut meta = FrameMeta::received(Time(packet.time_ns), 0);
            meta.link = LinkType::from_dlt(packet.dlt);
            meta.sequence = (number * burst + i) as u64 + 1;
            meta.side = if meta.sequence.is_multiple_of(3) {
                Side::Outside
            } else {
                Side::Inside
            };
            for copy in &mut copies {
                if let Ok(frame) = pool.copy(&packet.data, meta) {
                    copy.push(frame);
                }
            }
        }
        let [mut to_engine, mut to_classifier] = copies;
        let mut output: [Vec<Frame>; 2] = Default::default();
        engine.process(&mut pool, &mut to_engine, &mut output[0]);
        classifier.classify(&mut pool, &mut to_classifier, &mut output[1]);
        for (output, units) in output.iter_mut().zip(&mut units) {
            for frame in output.iter() {
                let meta = pool.memory().meta(frame);
                units.insert(meta.sequence, meta.unit);
            }
            pool.give_all(output);
        }
    }
    for (sequence, &unit) in &units[0] {
        let Some(&other) = units[1].get(sequence) else {
            panic!("{}: packet {sequence} is missing", path.display());
        };
        assert_eq!(unit == 0, other == liaison, "packet {sequence}");
        assert!(
            pairs.pair(unit, other),
            "{}: packet {sequence} is in another unit",
            path.display()
        );
        compared += 1;
    }
    let [engine_report, report] = [engine.report(), classifier.report()];
    assert!(report.balances());
    assert_eq!(report.malformed, engine_report.malformed);
    // An engine cuts bursts where a flow may ask for an alias, and looks more
    // often whether a fragment has waited too long.
    assert_eq!(
        waited(&report),
        waited(&engine_report),
        "{}",
        path.display()
    );
    assert_eq!(report.flows.seen, engine_report.flows.seen);
    engine.finish(&mut pool);
    classifier.finish(&mut pool);
    assert_eq!(pool.outstanding(), 0);
    (compared, pairs.pairs.len())
}

/// Fragments that wait or have waited for nothing.
fn waited(report: &Report) -> u64 {
    let timeouts = report
        .drops
        .iter()
        .filter(|(reason, _)| reason == "fragment_timeout");
    report.held + timeouts.map(|(_, count)| count).sum::<u64>()
}

fn over_all(name: &str, chain: impl Fn(HarnessBuilder) -> HarnessBuilder) {
    let Some(root) = support::traces() else {
        return;
    };
    // Nothing ends: the engine ends what is silent, the classifier waits for
    // its word.
    let builder = Harness::builder().flows(FlowOptions {
        max: 1 << 14,
        timeouts: Timeouts::NONE,
        always: true,
        ..FlowOptions::default()
    });
    let stage = chain(builder).stage();
    let (mut total, mut files) = ((0, 0), 0);
    for path in captures(root) {
        for burst in [1, 50] {
            let (packets, units) = compare(&path, &stage, burst);
            total = (total.0 + packets, total.1 + units);
        }
        files += 1;
    }
    eprintln!(
        "{name}: {files} captures, {} packets, {} units",
        total.0, total.1
    );
    assert!(total.0 > 20_000 && total.1 > 1_000, "{total:?}");
}

fn whitelist() -> udp_whitelist::Settings {
    udp_whitelist::Settings {
        allow: Words::from("0.0.0.0/0, ::/0"),
        ..udp_whitelist::Settings::default()
    }
}

fn nat() -> nat44::Settings {
    nat44::Settings {
        pool: Words::from("198.18.0.0/28"),
        inside: Words::from("0.0.0.0/1,128.0.0.0/2,192.0.0.0/6,196.0.0.0/7"),
        ..nat44::Settings::default()
    }
}

#[test]
fn units_of_one_flow() {
    over_all("flows", |chain| {
        let chain = chain.with::<nop::Nop>(Default::default());
        let accept = firewall::Settings {
            rules: vec![firewall::Written::Text("accept".to_owned())],
            ..firewall::Settings::default()
        };
        chain
            .and_then(|chain| chain.with::<firewall::Firewall>(accept))
            .expect("settings that make sense")
    });
}

#[test]
fn units_of_one_client() {
    over_all("clients", |chain| {
        chain
            .with::<udp_whitelist::UdpWhitelist>(whitelist())
            .expect("settings that make sense")
    });
}

#[test]
fn units_of_one_mapping() {
    over_all("mappings", |chain| {
        chain
            .with::<nat44::Nat44>(nat())
            .expect("settings that make sense")
    });
}

#[test]
fn units_of_one_client_with_mappings_below() {
    over_all("clients with mappings", |chain| {
        chain
            .with::<udp_whitelist::UdpWhitelist>(whitelist())
            .and_then(|chain| chain.with::<nat44::Nat44>(nat()))
            .expect("settings that make sense")
    });
}
