//! No stock function does what its descriptor does not say: each of them over
//! real captures, packet by packet, against what it declares. The graph
//! compiler believes descriptors.

mod support;

use support::settings::needed;
use support::{load, traces};
use weir_functions::kinds;
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

#[test]
fn no_stock_function_lies() {
    let Some(folder) = traces() else { return };
    let mut packets = Vec::new();
    for name in CAPTURES {
        packets.extend(load(&folder.join("traces").join(name)));
    }
    assert!(packets.len() > 10_000, "the captures are there");
    let mut pool = FramePool::with_layout(MemoryLayout::default());
    let mut lies = Vec::new();
    let mut ran = 0;
    for kind in kinds() {
        let name = kind.descriptor.name;
        let (mut pools, mut warnings) = (Vec::new(), Vec::new());
        let mut sources = NoSources;
        let mut set_up = SetUp::new(&mut sources, &mut pools, &mut warnings, 7);
        let settings = needed(name).unwrap_or_else(kind.default);
        let Ok(processor) = (kind.make)(settings, &mut set_up) else {
            eprintln!("{name}: needs settings");
            continue;
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
            audit: true,
            ..RuntimeConfig::default()
        };
        let mut runtime = Runtime::new(&stage, config).expect("it can be run");
        let (mut input, mut output) = (Vec::new(), Vec::new());
        for (number, packet) in packets.iter().enumerate() {
            let mut meta = FrameMeta::received(Time(packet.time_ns), 0);
            meta.link = LinkType::from_dlt(packet.dlt);
            meta.sequence = number as u64 + 1;
            meta.side = if number % 5 == 4 {
                Side::Outside
            } else {
                Side::Inside
            };
            if let Ok(frame) = pool.copy(&packet.data, meta) {
                input.push(frame);
            }
            if number % 64 == 63 || number + 1 == packets.len() {
                runtime.process(&mut pool, &mut input, &mut output);
                pool.give_all(&mut output);
                runtime.events().clear();
            }
        }
        runtime.finish(&mut pool);
        let report = runtime.report();
        assert!(report.balances(), "{name}: {report:?}");
        assert!(report.functions[0].packets > 1_000, "{name} has run");
        lies.extend(runtime.lies().iter().map(ToString::to_string));
        ran += 1;
    }
    assert!(ran + 2 >= kinds().len(), "nearly all can be tried: {ran}");
    assert!(lies.is_empty(), "{lies:#?}");
}
