//! No stock function allocates for a packet: all of them over real captures
//! with flows that open, close, expire and are evicted, and with events.

#[path = "../../packet/tests/counting/mod.rs"]
mod counting;
mod support;

use support::settings::needed;
use support::{load, traces};
use weir_functions::compression::PayloadCompressor;
use weir_functions::kinds;
use weir_io::capture::OwnedRecord;
use weir_nf::host::FlowOptions;
use weir_nf::packet::{FrameMeta, FramePool, LinkType, MemoryLayout, Side, Time};
use weir_nf::{NoSources, SetUp};
use weir_runtime::harness::Harness;
use weir_runtime::{Runtime, RuntimeConfig};

const CAPTURES: [&str; 4] = [
    "a-mixed/pcapplusplus__example.pcap",
    "a-mixed/snabb__sanitized4k.pcap",
    "a-mixed/try-zeek__sumstat.pcap",
    "a-mixed/malcolm-test-artifacts__Modicon.pcap",
];

/// What a decompressor has to do with: the packets as they come from a compressor.
fn compressed(packets: &[OwnedRecord]) -> Vec<OwnedRecord> {
    let mut compressor = Harness::of::<PayloadCompressor>(Default::default());
    let coded = packets.iter().filter_map(|packet| {
        let link = LinkType::from_dlt(packet.dlt);
        compressor.queue_link(Side::Inside, link, &packet.data);
        let mut packet = packet.clone();
        packet.data = compressor.flush().pop()?.bytes;
        Some(packet)
    });
    let coded = coded.collect();
    assert!(compressor.counter("payload-compressor", "compressed") > 1_000);
    coded
}

#[test]
fn no_stock_function_allocates_for_a_packet() {
    let Some(folder) = traces() else { return };
    let mut packets = Vec::new();
    for name in CAPTURES {
        packets.extend(load(&folder.join("traces").join(name)));
    }
    assert!(packets.len() > 10_000, "the captures are there");
    let mut pool = FramePool::with_layout(MemoryLayout::default());
    let mut unbuilt = Vec::new();
    let coded = compressed(&packets);
    for kind in kinds() {
        let name = kind.descriptor.name;
        let packets = if name == "payload-decompressor" {
            &coded
        } else {
            &packets
        };
        let (mut pools, mut warnings) = (Vec::new(), Vec::new());
        let mut sources = NoSources;
        let mut set_up = SetUp::new(&mut sources, &mut pools, &mut warnings, 7);
        let settings = needed(name).unwrap_or_else(kind.default);
        let processor = match (kind.make)(settings, &mut set_up) {
            Ok(processor) => processor,
            Err(error) => {
                unbuilt.push(format!("{name}: {error}"));
                continue;
            }
        };
        let builder = Harness::builder().flows(FlowOptions {
            max: 500,
            ..FlowOptions::default()
        });
        let mut stage = builder.with_processor(processor).stage();
        stage.pools = pools;
        let config = RuntimeConfig {
            seed: 3,
            event_bytes: 1 << 20,
            ..RuntimeConfig::default()
        };
        let mut runtime = Runtime::new(&stage, config).expect("it can be run");
        let mut input = Vec::with_capacity(64);
        let mut output = Vec::with_capacity(1_024);
        for round in 0..2u64 {
            for burst in packets.chunks(64) {
                for packet in burst {
                    // The second round comes a day later.
                    let time = Time(packet.time_ns).plus(round * 86_400_000_000_000);
                    let mut meta = FrameMeta::received(time, 0);
                    meta.link = LinkType::from_dlt(packet.dlt);
                    if let Ok(frame) = pool.copy(&packet.data, meta) {
                        input.push(frame);
                    }
                }
                counting::count(round > 0);
                runtime.process(&mut pool, &mut input, &mut output);
                counting::count(false);
                pool.give_all(&mut output);
                runtime.events().clear();
            }
        }
        let report = runtime.report();
        assert!(report.balances(), "{name}: {report:?}");
        assert!(report.packets_in >= 20_000);
        assert_eq!(counting::counted(), 0, "{name} allocates");
        runtime.finish(&mut pool);
        assert_eq!(pool.outstanding(), 0, "{name} leaks frames");
    }
    assert_eq!(
        unbuilt,
        Vec::<String>::new(),
        "give them settings in support/settings.rs"
    );
}
