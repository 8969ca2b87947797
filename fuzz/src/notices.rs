//! Any bytes as what the first stage of a plan tells a later one: it panics at
//! none, accounts for every packet and frame, and its flows come to an end.

use weir_graph::compile::{Mode, Options, compile};
use weir_nf::NoSources;
use weir_nf::host::Stage;
use weir_packet::{FrameKind, FrameMeta, FramePool, MemoryLayout, Place, Side, Time};
use weir_runtime::harness::Craft;
use weir_runtime::{Rest, Role, Runtime, RuntimeConfig};

use crate::input::Input;

/// A chain in stages; the second has states of three widths, and a stage more
/// is behind it.
const CHAIN: &str = "
chain: c
flows: {max: 8, buffers: 64KiB}
nfs: [counter, udp-whitelist, http, {policer: {rate: 100pps}}, monitor, nop]
plan: {mode: pipeline, stages: [udp-whitelist, nop]}
";

fn stages() -> &'static [Stage] {
    static STAGES: std::sync::OnceLock<Vec<Stage>> = std::sync::OnceLock::new();
    STAGES.get_or_init(|| {
        let input = weir_graph::Input {
            name: "chain",
            text: CHAIN,
            kinds: weir_functions::kinds(),
            overrides: &[],
            seed: 1,
        };
        let file = weir_graph::load(&input, &mut NoSources);
        let file = file.unwrap_or_else(|list| panic!("{}", weir_graph::render(&list)));
        let chain = &file.chains[0];
        let options = Options {
            consolidate: false,
            ..chain.plan.clone()
        };
        assert_eq!(options.mode, Mode::Pipeline);
        let plan = compile("c", &chain.graph, &options).expect("it is right");
        let stages = plan.stages(&chain.stage).expect("it is the chain's");
        stages.into_iter().flatten().collect()
    })
}

fn runtime(stage: &Stage, role: Role) -> Runtime {
    let config = RuntimeConfig {
        seed: 1,
        event_bytes: 1 << 16,
        role,
        ..RuntimeConfig::default()
    };
    Runtime::new(stage, config).expect("the stage runs")
}

fn packets() -> Vec<Vec<u8>> {
    let web = |flags| Craft::tcp("10.0.0.1:1000", "192.0.2.1:80").flags(flags);
    vec![
        web("S").build(),
        web("PA").payload(b"GET / HTTP/1.1\r\n\r\n").build(),
        Craft::udp("10.0.0.1:7", "192.0.2.1:53")
            .payload(b"x")
            .build(),
        Craft::ping("10.0.0.2:7", "192.0.2.1:1").build(),
        web("R").build(),
    ]
}

/// What a first stage makes of some packets: frames' kind and bytes.
fn told() -> Vec<(FrameMeta, Vec<u8>)> {
    let stages = stages();
    let rest = Rest::of(&stages[1..]).expect("they nest");
    let mut first = runtime(&stages[0], Role::First(rest));
    let mut pool = FramePool::with_layout(MemoryLayout::default());
    let mut input = Vec::new();
    for (number, bytes) in packets().iter().enumerate() {
        let time = Time::from_secs(1_000 + number as u64);
        let frame = pool.copy(bytes, FrameMeta::received(time, 0));
        input.push(frame.expect("a frame is free"));
    }
    let mut output = Vec::new();
    first.process(&mut pool, &mut input, &mut output);
    while !first.finish_first(&mut pool, Time::ZERO, &mut output, |_| {}) {}
    let memory = pool.memory().clone();
    let frames = output.drain(..).map(|frame| {
        let (meta, bytes) = memory.read(&frame);
        let told = (*meta, bytes.to_vec());
        pool.give(frame);
        told
    });
    frames.collect()
}

/// Chunks, each a frame: of an even first byte notices, of an odd one a packet
/// whose place is in the bytes behind it.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let stages = stages();
    let mut later = runtime(&stages[1], Role::later(stages, false));
    let mut pool = FramePool::with_layout(MemoryLayout {
        small_frames: 256,
        large_frames: 2,
        ..MemoryLayout::default()
    });
    let packets = packets();
    let mut output = Vec::new();
    let mut frames = 0;
    while !input.is_empty() && frames < 200 {
        frames += 1;
        let kind = input.u8();
        let mut meta = FrameMeta::received(Time::from_secs(1_000 + frames), 0);
        meta.side = [Side::Inside, Side::Outside][usize::from(kind >> 7)];
        let bytes = if kind & 1 == 0 {
            meta.kind = FrameKind::Notice;
            input.chunk()
        } else {
            meta.next = input.u8();
            meta.unit = u64::from(input.u8());
            meta.set_place(Place {
                record: u32::from(input.u8()),
                phase: kind >> 1 & 7,
                ..Place::NONE
            });
            &packets[usize::from(kind >> 4) % packets.len()]
        };
        let Ok(frame) = pool.copy(bytes, meta) else {
            continue;
        };
        later.process(&mut pool, &mut vec![frame], &mut output);
        assert!(later.report().balances());
        later.events().clear();
        let memory = pool.memory().clone();
        for frame in output.drain(..) {
            assert!(memory.meta(&frame).len as usize <= 262_144);
            pool.give(frame);
        }
    }
    assert!(later.active_flows() <= 8);
    later.finish(&mut pool);
    assert!(later.report().balances());
    assert_eq!(pool.outstanding(), 0, "frames leaked");
}

/// What a first stage says, frame by frame.
pub fn example() -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, (meta, told)) in told().iter().enumerate() {
        if meta.kind == FrameKind::Notice {
            bytes.push(0);
            bytes.extend((told.len() as u16).to_be_bytes());
            bytes.extend(told);
        } else {
            let place = meta.place();
            let what = (number as u8 % 5) << 4 | (place.phase & 7) << 1 | 1;
            bytes.extend([what, meta.next, meta.unit as u8, place.record as u8]);
        }
    }
    bytes
}
