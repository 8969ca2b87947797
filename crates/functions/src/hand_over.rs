//! For tests: one flow's block, worked on by one instance of a function after
//! another, as when settings change or a flow moves.

use weir_nf::host::{
    Aliases, BURST, Blocks, Emits, FlowHead, Outcome, Place, SharedProcessor, Slot, StageLayout,
    Work, World,
};
use weir_nf::packet::{
    Direction, FlowKey, FrameMeta, FramePool, HEADROOM, KeyOptions, KeyOutcome, MemoryLayout, Time,
    flow_key, no_advice,
};
use weir_nf::{BufferPool, EventLog, Leases, Tally};

use crate::rewrite::tests::parsed;

/// A flow and the world around it.
pub(crate) struct OneFlow {
    pool: FramePool,
    world: World,
    blocks: Blocks,
    slot: Slot,
    key: Option<FlowKey>,
}

impl OneFlow {
    /// With room for the state of `processor`.
    pub(crate) fn new(processor: &SharedProcessor) -> OneFlow {
        let mut layout = StageLayout::default();
        let slot = processor.place(&mut layout);
        OneFlow {
            pool: FramePool::with_layout(MemoryLayout {
                small_frames: 16,
                ..MemoryLayout::default()
            }),
            world: World {
                leases: Leases::new(&[]),
                buffers: BufferPool::new(0),
                events: EventLog::new(1 << 16),
                emits: Emits::new(),
                aliases: Aliases::new(),
                seed: 1,
                silent: false,
            },
            blocks: Blocks::new(1, &layout, no_advice),
            slot,
            key: None,
        }
    }

    /// Applies a frame; gives it as it leaves, or nothing where it is dropped.
    /// The first frame names the flow and its client.
    pub(crate) fn apply(&mut self, processor: &SharedProcessor, frame: &[u8]) -> Option<Vec<u8>> {
        let mut headers = [parsed(frame)];
        let options = KeyOptions::default();
        let KeyOutcome::Flow(key, direction) = flow_key(frame, &headers[0], &options) else {
            panic!("the frame has a flow");
        };
        let reverse = direction == Direction::Reverse;
        let first = *self.key.get_or_insert(key);
        let head = self.blocks.head_mut(0);
        if head.clock == 0 {
            head.key = first;
            head.bits = if reverse { FlowHead::CLIENT_IS_B } else { 0 };
            head.id = 1;
        }
        head.clock += 1;
        let mut places = [Place::NONE; BURST];
        places[0] = Place {
            clock: head.clock,
            flow: 0,
            direction,
            ..Place::NONE
        };
        let meta = FrameMeta::received(Time::from_secs(1), frame.len() as u32);
        let mut frames = [self.pool.copy(frame, meta).expect("a frame is free")];
        let memory = self.pool.memory().clone();
        let descriptor = processor.descriptor();
        let mut counters = vec![0; descriptor.counters.len()];
        let mut tally = Tally::new(16, 1);
        let mut outcome = Outcome::default();
        let mut cx = self.world.context(
            &mut self.pool,
            &mut counters,
            &mut tally,
            0,
            Time::from_secs(1),
        );
        processor.run(
            Work {
                memory: &memory,
                frames: &mut frames,
                headers: &mut headers,
                places: &places,
                mask: 1,
                blocks: &mut self.blocks,
                scoped: None,
                slot: self.slot,
                outcome: &mut outcome,
            },
            &mut cx,
        );
        let [frame] = frames;
        let bytes = memory.bytes(&frame).to_vec();
        assert_eq!(usize::from(memory.meta(&frame).start), HEADROOM);
        self.pool.give(frame);
        (outcome.labels[0] == 1).then_some(bytes)
    }
}
