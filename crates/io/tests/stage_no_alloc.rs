//! The ports between stages allocate nothing per packet.

#[path = "../../packet/tests/counting/mod.rs"]
mod counting;

use weir_io::stage::{
    FurtherBranch, ParallelSettings, QueuePorts, Regions, StageInput, StageOutput,
    balanced_by_flow, balanced_in_turn, parallel,
};
use weir_packet::{
    Frame, FrameKind, FrameMeta, FramePool, MemoryLayout, PacketMemory, ParseOptions, Place,
};

/// Frames at a time: more than a ring holds, so that some wait.
const BURST: u32 = 64;
const PLACES: usize = 24;

struct Way {
    front: Box<dyn StageOutput>,
    queues: Vec<QueuePorts>,
    behind: Box<dyn StageInput>,
}

/// Packets and notices of many flows through the ports, bursts of them; gives
/// how many came out.
fn through(way: &mut Way, pool: &mut FramePool, memory: &PacketMemory, bursts: u32) -> u64 {
    let (mut burst, mut queue_burst) = (Vec::with_capacity(128), Vec::with_capacity(128));
    let mut out: Vec<Frame> = Vec::with_capacity(128);
    let mut came = 0;
    for number in 0..bursts {
        for at in 0..BURST {
            let mut meta = FrameMeta::default();
            meta.next = 1;
            let record = number.wrapping_mul(7).wrapping_add(at * at) % 50;
            meta.unit = record.into();
            meta.set_place(Place {
                record,
                ..Place::NONE
            });
            if at % 16 == 5 {
                meta.kind = FrameKind::Notice;
            }
            burst.push(pool.copy(b"something", meta).expect("a frame"));
        }
        let mut left = BURST;
        while left > 0 {
            way.front.give(&mut burst);
            for queue in &mut way.queues {
                queue.input.take(&mut queue_burst, 32);
                queue.output.give(&mut queue_burst);
                assert!(queue_burst.is_empty(), "the ring behind has room");
            }
            while way.behind.take(&mut out, 32) > 0 {}
            for frame in &out {
                assert!(matches!(
                    memory.meta(frame).kind,
                    FrameKind::Packet | FrameKind::Notice
                ));
            }
            left -= out.len() as u32;
            came += out.len() as u64;
            pool.give_all(&mut out);
        }
    }
    came
}

#[test]
fn no_packet_costs_an_allocation() {
    let mut pool = FramePool::with_layout(MemoryLayout {
        small_frames: 1_024,
        ..MemoryLayout::default()
    });
    let memory = pool.memory().clone();
    let flows = balanced_by_flow(3, PLACES, pool.share(100, 3)).expect("ports");
    let turns = balanced_in_turn(3, PLACES, 16, pool.share(100, 3)).expect("ports");
    let branch = |entry, writes| FurtherBranch { entry, writes };
    let settings = ParallelSettings {
        places: PLACES,
        group: 1..=3,
        further: vec![branch(2, Regions::NONE), branch(3, Regions::ALL)],
        exit: None,
        parse: ParseOptions::default(),
    };
    let side = parallel(&settings, pool.share(100, 3)).expect("ports");
    let mut ways = [flows, turns].map(|ports| Way {
        front: ports.output,
        queues: ports.queues,
        behind: ports.input,
    });
    let mut side = Way {
        front: Box::new(side.branch),
        queues: side.queues,
        behind: Box::new(side.sync),
    };
    for (name, way) in ["by flow", "in turn", "parallel"]
        .into_iter()
        .zip(ways.iter_mut().chain([&mut side]))
    {
        // What the ports keep has found its size by then.
        through(way, &mut pool, &memory, 200);
        // Three lists of that function are made anew, and thrown away.
        counting::count(true);
        let came = through(way, &mut pool, &memory, 2_000);
        counting::count(false);
        assert_eq!(came, 2_000 * u64::from(BURST), "{name}");
        assert_eq!(counting::counted(), 2 * 3, "{name}");
    }
}
