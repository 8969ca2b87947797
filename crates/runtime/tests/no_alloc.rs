//! No packet costs an allocation, whatever happens to its flow.

mod common;
#[path = "../../packet/tests/counting/mod.rs"]
mod counting;

use common::Probe;
use weir_nf::host::{AliasRequest, FlowOptions, Stage};
use weir_nf::prelude::*;
use weir_packet::{FrameMeta, FramePool, MemoryLayout, frame_flags};
use weir_runtime::harness::{Craft, Harness};
use weir_runtime::{Classifier, Runtime, RuntimeConfig};

/// Packets of all kinds: opens, closes, reuse, fragments in and out of order,
/// malformed ones, ones that make events, buffers, emits, turns.
fn packets() -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for i in 0..3_000u32 {
        let client = format!("10.0.{}.{}:{}", i % 3, i * 7 % 251, 1_000 + i % 5);
        let what = [(i % 9) as u8; 40];
        let again = format!("10.8.0.1:{}", i / 7 % 5);
        packets.push(match i % 7 {
            0 => Craft::tcp(&again, "192.0.2.1:80").flags("S").build(),
            1 => Craft::tcp("192.0.2.1:80", &again).flags("RA").build(),
            2 => Craft::udp("10.9.9.9:5", "192.0.2.1:5")
                .ip_id((i / 28 + i / 7 % 4 / 3 * 1_000) as u16)
                .fragment([3, 0x2000, 0x2006, 9][(i / 7) as usize % 4])
                .payload(&what)
                .build(),
            3 => Craft::ping(&client, "192.0.2.9:1").build()[..30].to_vec(),
            4 => Craft::udp("[2001:db8::1]:9", "[2001:db8::2]:53")
                .payload(&what)
                .build(),
            _ => Craft::udp(&client, "192.0.2.1:53").payload(&what).build(),
        });
    }
    packets
}

/// The same under a switch: units by client, entries, ticks, silence, refusals.
fn units_cost_no_allocation() {
    let builder = Harness::builder().flows(FlowOptions {
        max: 400,
        buffer_bytes: 1 << 20,
        ..FlowOptions::default()
    });
    let builder = builder.with::<Probe<1>>(()).expect("none");
    let stage = builder.with::<Probe<0>>(()).expect("none").stage();
    let config = RuntimeConfig {
        seed: 5,
        event_bytes: 1,
        follows: true,
        ..RuntimeConfig::default()
    };
    let mut runtime = Runtime::new(&stage, config).expect("it can be run");
    let mut pool = FramePool::with_layout(MemoryLayout::default());
    let packets = packets();
    let mut input = Vec::with_capacity(256);
    let mut entries = Vec::with_capacity(2_048);
    let mut due = Vec::with_capacity(512);
    let mut clock = 0;
    let mut now = Time::from_secs(1_000);
    for round in 0..4 {
        for chunk in packets.chunks(100) {
            now = now.plus(20_000_000_000);
            for packet in chunk {
                let mut meta = FrameMeta::received(now, 0);
                let client = packet.get(26..34).unwrap_or(&[0; 8]);
                let unit = client
                    .iter()
                    .fold(0, |sum, byte| sum * 3 + u64::from(*byte))
                    % 60;
                clock += 1;
                meta.unit = 1 << 32 | unit;
                meta.clock = clock;
                meta.flags = match clock % 50 {
                    7 => frame_flags::NO_OUTPUT,
                    9 => frame_flags::LOST,
                    _ => 0,
                };
                input.push(pool.copy(packet, meta).expect("a frame is free"));
            }
            counting::count(round > 0);
            runtime.due_units(now, 50, &mut due);
            for unit in due.drain(..) {
                let mut meta = FrameMeta::received(now, 0);
                meta.unit = unit;
                meta.clock = clock;
                meta.flags = frame_flags::TICK;
                input.push(pool.copy(&[], meta).expect("a frame is free"));
            }
            runtime.apply(&mut pool, &mut input, &mut entries);
            pool.give_all(&mut entries);
            counting::count(false);
        }
        let report = runtime.report();
        assert!(report.balances(), "{report:?}");
    }
    let report = runtime.report();
    let ended: Vec<_> = report.flows.ended.named().map(|(why, _)| why).collect();
    for why in ["reset", "timeout", "reused"] {
        assert!(ended.contains(&why), "{ended:?}");
    }
    assert!(report.emitted > 0 && report.events > 1_000);
    assert_eq!(report.notes_lost, 0);
}

/// The same in a first and a later stage: notices, places, states.
fn stages_cost_no_allocation() {
    let flows = FlowOptions {
        max: 400,
        held_fragments: 16,
        buffer_bytes: 1 << 20,
        ..FlowOptions::default()
    };
    let whole = common::line::written(&[(0, 9), (1, 2), (0, 3), (2, 1)], flows);
    let stages = common::line::cut(&whole, &[0, 1, 3]);
    let mut line = common::line::Line::new(&stages, 4_096, 0);
    let packets = packets();
    let mut queues: Vec<Vec<_>> = (0..4).map(|_| Vec::with_capacity(4_096)).collect();
    let mut now = Time::from_secs(1_000);
    for round in 0..4 {
        for chunk in packets.chunks(100) {
            now = now.plus(20_000_000_000);
            for packet in chunk {
                let meta = FrameMeta::received(now, 0);
                queues[0].push(line.pool.copy(packet, meta).expect("a frame is free"));
            }
            counting::count(round > 0);
            for (i, stage) in line.stages.iter_mut().enumerate() {
                let (before, after) = queues.split_at_mut(i + 1);
                let (Some(input), Some(output)) = (before.last_mut(), after.first_mut()) else {
                    continue;
                };
                stage.process(&mut line.pool, input, output);
                stage.events().clear();
            }
            line.pool.give_all(&mut queues[3]);
            counting::count(false);
        }
    }
    for stage in &line.stages {
        let report = stage.report();
        assert!(
            report.balances() && report.flows.ended.named().count() >= 3,
            "{report:?}"
        );
        assert!(
            report.packets_out > 1_000 && report.events > 1_000,
            "{report:?}"
        );
        assert_eq!(report.bad_notices, 0);
    }
}

#[test]
fn bursts_cost_no_allocation() {
    stages_cost_no_allocation();
    assert_eq!(counting::counted(), 0, "allocations in stages");
    units_cost_no_allocation();
    assert_eq!(counting::counted(), 0, "allocations under a switch");
    let builder = Harness::builder().flows(FlowOptions {
        max: 400,
        held_fragments: 16,
        buffer_bytes: 1 << 20,
        ..FlowOptions::default()
    });
    let builder = builder.with::<Probe<1>>(()).expect("none");
    let stage = builder.with::<Probe<0>>(()).expect("none").stage();
    let config = RuntimeConfig {
        seed: 5,
        event_bytes: 1 << 16,
        ..RuntimeConfig::default()
    };
    let mut runtime = Runtime::new(&stage, config).expect("it can be run");
    let mut pool = FramePool::with_layout(MemoryLayout::default());
    let packets = packets();
    let mut input = Vec::with_capacity(256);
    let mut output = Vec::with_capacity(1_024);
    let mut now = Time::from_secs(1_000);
    for round in 0..4 {
        for chunk in packets.chunks(100) {
            now = now.plus(20_000_000_000);
            for packet in chunk {
                let meta = FrameMeta::received(now, 0);
                input.push(pool.copy(packet, meta).expect("a frame is free"));
            }
            // The first round warms up.
            counting::count(round > 0);
            runtime.process(&mut pool, &mut input, &mut output);
            pool.give_all(&mut output);
            runtime.events().clear();
            counting::count(false);
        }
        let report = runtime.report();
        assert!(report.balances(), "{report:?}");
    }
    let report = runtime.report();
    let ended: Vec<_> = report.flows.ended.named().map(|(why, _)| why).collect();
    for why in ["reset", "timeout", "evicted", "reused"] {
        assert!(ended.contains(&why), "{ended:?}");
    }
    assert!(report.emitted > 0 && report.events > 1_000);
    assert!(
        report
            .drops
            .iter()
            .any(|(name, _)| name == "fragment_timeout")
    );
    assert_eq!(counting::counted(), 0, "allocations");
    classify(&stage, config, &packets);
    assert_eq!(counting::counted(), 0, "allocations to classify");
}

/// The same packets through a switch's classifier; units end as it fills.
fn classify(stage: &Stage, config: RuntimeConfig, packets: &[Vec<u8>]) {
    let mut classifier = Classifier::new(stage, config).expect("it can be run");
    let mut pool = FramePool::with_layout(MemoryLayout::default());
    let mut input = Vec::with_capacity(256);
    let mut output = Vec::with_capacity(1_024);
    let mut flows = Vec::with_capacity(400);
    let mut freed = Vec::with_capacity(400);
    let mut now = Time::from_secs(1_000);
    let (mut named, mut ended) = (0, 0);
    for (round, chunk) in packets.chunks(100).enumerate() {
        now = now.plus(20_000_000_000);
        for packet in chunk {
            let meta = FrameMeta::received(now, 0);
            input.push(pool.copy(packet, meta).expect("a frame is free"));
        }
        counting::count(true);
        classifier.classify(&mut pool, &mut input, &mut output);
        let unit = output.first().map(|frame| pool.memory().meta(frame).unit);
        if let Some(unit) = unit {
            flows.clear();
            classifier.flows_of(unit, &mut flows);
            for (number, flow) in flows.iter().enumerate().take(3) {
                let end = std::net::IpAddr::from([198, 51, 100, number as u8]);
                let (key, client) = FlowKey::one_end(end, 9 + round as u16, 6, 0, 0);
                let request = AliasRequest {
                    flow: 0,
                    key,
                    client,
                    side: Side::Inside,
                    open: number == 0,
                };
                named += u32::from(classifier.add_alias(unit, flow, &request));
            }
            if round % 3 == 0 {
                classifier.remove_unit(unit, &mut freed);
            } else if let Some(flow) = flows.first() {
                classifier.end_flow(unit, flow, &mut freed);
            }
            ended += freed.drain(..).count();
        }
        pool.give_all(&mut output);
        counting::count(false);
    }
    let report = classifier.report();
    assert!(report.balances(), "{report:?}");
    assert!(named > 20 && ended > 10, "{named} {ended}");
    for reason in ["flow_table_full", "fragment_timeout"] {
        assert!(
            report.drops.iter().any(|(name, _)| name == reason),
            "{report:?}"
        );
    }
    classifier.finish(&mut pool);
    assert_eq!(pool.outstanding(), 0);
}
