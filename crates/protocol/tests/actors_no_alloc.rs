//! A packet in its turn costs an actor no allocation.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_nf::prelude::*;
use weir_packet::{FrameMeta, FramePool, MemoryLayout, frame_flags};
use weir_protocol::actors::Actors;
use weir_protocol::settings::ActorSettings;
use weir_runtime::harness::{Craft, Harness};
use weir_runtime::{Runtime, RuntimeConfig};

struct Counting;

static ON: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicU64 = AtomicU64::new(0);

// SAFETY: hands everything on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if ON.load(Ordering::Relaxed) {
            COUNT.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if ON.load(Ordering::Relaxed) {
            COUNT.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's promise is the same.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts packets.
struct Count;

#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Packets(u64);
impl State for Packets {}

impl NetworkFunction for Count {
    type Settings = ();
    type State = Packets;
    type Stats = ();
    const DESCRIPTOR: Descriptor = Descriptor {
        needs: Needs::Flow,
        ..Descriptor::new("count", "Counts")
    };

    fn new((): (), _: &mut SetUp<'_>) -> Result<Self, SettingsError> {
        Ok(Count)
    }

    fn open(
        &self,
        _: &Packet<'_>,
        _: &FlowInfo<'_>,
        _: &mut Context<'_>,
    ) -> Result<Packets, DropReason> {
        Ok(Packets(0))
    }

    fn process(
        &self,
        _: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        _: &mut Context<'_>,
    ) -> Verdict {
        flow.state.0 += 1;
        Verdict::Pass
    }
}

#[test]
fn first_packets_and_later_ones_cost_no_allocation() {
    const UNITS: u64 = 200;
    let stage = match Harness::builder().with::<Count>(()) {
        Ok(builder) => builder.stage(),
        Err(error) => panic!("{error}"),
    };
    let config = RuntimeConfig {
        follows: true,
        ..RuntimeConfig::default()
    };
    let engine = Runtime::new(&stage, config).expect("the stage can be run");
    let settings = ActorSettings {
        keep_outputs: false,
        ..ActorSettings::default()
    };
    let mut actors = Actors::new(engine, settings);
    let mut pool = FramePool::with_layout(MemoryLayout::default());
    let memory = pool.memory().clone();
    actors.outbox.entries.reserve(4_096);
    let mut frames = Vec::with_capacity(1_024);
    let mut done = 0;
    for clock in 1..=20u64 {
        for unit in 0..UNITS {
            let source = format!("10.0.0.{unit}:1000");
            let bytes = Craft::udp(&source, "192.0.2.9:53").payload(b"x").build();
            let mut meta = FrameMeta::received(weir_packet::Time::from_secs(1_000), 0);
            meta.unit = 1 << 32 | unit;
            meta.view = 1 << 32 | (unit + 1);
            meta.clock = clock;
            meta.flags = if clock < 3 { frame_flags::FRESH } else { 0 };
            frames.push(pool.copy(&bytes, meta).expect("a frame is free"));
        }
        ON.store(true, Ordering::Relaxed);
        actors.frames(weir_packet::Time(1), &mut pool, &mut frames);
        ON.store(false, Ordering::Relaxed);
        for frame in actors.outbox.entries.drain(..) {
            assert!(memory.meta(&frame).fate.closes());
            done += 1;
            pool.give(frame);
        }
    }
    assert_eq!(done, 20 * UNITS);
    assert_eq!(COUNT.load(Ordering::Relaxed), 0);
}
