//! Trying a function out: a runtime with one chain, fed by hand.
//!
//! ```
//! use weir_runtime::harness::{Craft, Harness};
//! use weir_nf::prelude::*;
//!
//! /// Drops every second packet of a flow.
//! struct EverySecond;
//!
//! weir_nf::labels! {
//!     /// Drop reasons.
//!     enum Reason: Counter<Packets> {
//!         /// It is every second packet of its flow.
//!         Second = "second",
//!     }
//! }
//!
//! impl NetworkFunction for EverySecond {
//!     type Settings = ();
//!     type State = ();
//!     type Stats = ();
//!     type FlowState = ();
//!     const DESCRIPTOR: Descriptor = Descriptor {
//!         needs: Needs::Flow,
//!         drops: Reason::TABLE,
//!         ..Descriptor::new("every-second", "Drops every second packet of a flow")
//!     };
//!     fn new(_: (), _: &mut SetUp<'_>) -> Result<Self, SettingsError> {
//!         Ok(EverySecond)
//!     }
//!     fn open(&self, _: &Packet<'_>, _: &FlowInfo<'_>, _: &mut Context<'_>) -> Result<(), DropReason> {
//!         Ok(())
//!     }
//!     fn process(&self, _: &mut Packet<'_>, flow: &mut Flow<'_, Self>, _: &mut Context<'_>) -> Verdict {
//!         if flow.info.clock() % 2 == 0 { Verdict::Drop(Reason::Second.into()) } else { Verdict::Pass }
//!     }
//! }
//!
//! let mut harness = Harness::of::<EverySecond>(());
//! let packet = Craft::udp("10.0.0.1:1000", "192.0.2.1:53").payload(b"hello").build();
//! assert_eq!(harness.send(&packet).len(), 1);
//! assert_eq!(harness.send(&packet).len(), 0);
//! assert_eq!(harness.report().drops, [("every-second.second".to_owned(), 1)]);
//! ```

use weir_nf::host::{FlowOptions, Node, SharedProcessor, Stage, Target, bind};
use weir_nf::{EventLimiter, NetworkFunction, NoSources, PoolSpec, SetUp, SettingsError, Sources};
use weir_packet::{Frame, FrameMeta, FramePool, LinkType, MemoryLayout, Side, Time};

pub use weir_packet::Craft;

use crate::{Report, Runtime, RuntimeConfig};

/// Builds a [`Harness`].
#[derive(Default)]
pub struct HarnessBuilder {
    nodes: Vec<Node>,
    flows: FlowOptions,
    pools: Vec<PoolSpec>,
    warnings: Vec<SettingsError>,
}

impl core::fmt::Debug for HarnessBuilder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("HarnessBuilder")
            .field("nodes", &self.nodes)
            .finish_non_exhaustive()
    }
}

impl HarnessBuilder {
    /// Adds a function at the end of the chain.
    ///
    /// # Errors
    ///
    /// The error of [`NetworkFunction::new`].
    pub fn with<N: NetworkFunction>(self, settings: N::Settings) -> Result<Self, SettingsError> {
        self.with_sources::<N>(settings, &mut NoSources)
    }

    /// Adds a function whose settings name texts.
    ///
    /// # Errors
    ///
    /// The error of [`NetworkFunction::new`].
    pub fn with_sources<N: NetworkFunction>(
        mut self,
        settings: N::Settings,
        sources: &mut dyn Sources,
    ) -> Result<Self, SettingsError> {
        let mut set_up = SetUp::new(sources, &mut self.pools, &mut self.warnings, 7);
        let processor = bind(N::new(settings, &mut set_up)?);
        Ok(self.with_processor(processor))
    }

    /// Adds a function that is built already. Its name in the chain is that of
    /// its kind, with a number from the second one on.
    #[must_use]
    pub fn with_processor(mut self, processor: SharedProcessor) -> Self {
        let kind = processor.descriptor().name;
        let same = self
            .nodes
            .iter()
            .filter(|n| n.processor.descriptor().name == kind)
            .count();
        let name = if same == 0 {
            kind.to_owned()
        } else {
            format!("{kind}-{}", same + 1)
        };
        if let Some(last) = self.nodes.len().checked_sub(1) {
            self.nodes[last].next = vec![Target::Node(last + 1)];
        }
        self.nodes.push(Node {
            name,
            processor,
            same_as: None,
            next: vec![Target::Out],
        });
        self
    }

    /// Sets where the links of the function added last lead: `pass`, then its
    /// labels.
    #[must_use]
    pub fn links(mut self, next: Vec<Target>) -> Self {
        if let Some(node) = self.nodes.last_mut() {
            node.next = next;
        }
        self
    }

    /// How flows are kept.
    #[must_use]
    pub fn flows(mut self, flows: FlowOptions) -> Self {
        self.flows = flows;
        self
    }

    /// Warnings of the functions' constructors.
    pub fn warnings(&self) -> &[SettingsError] {
        &self.warnings
    }

    /// The chain, ready to run in a runtime of the caller's.
    pub fn stage(self) -> Stage {
        Stage {
            chain: "harness".to_owned(),
            number: 0,
            first: 0,
            nodes: self.nodes,
            flows: self.flows,
            pools: self.pools,
            sets: weir_nf::Sets::default(),
        }
    }

    /// The harness.
    ///
    /// # Panics
    ///
    /// If the chain can't be run; a test wants to know.
    pub fn build(self) -> Harness {
        Harness::of_stage(&self.stage())
    }
}

/// A runtime with one chain, fed by hand.
#[derive(Debug)]
pub struct Harness {
    runtime: Runtime,
    pool: FramePool,
    now: Time,
    sequence: u64,
    input: Vec<Frame>,
    output: Vec<Frame>,
    limiter: EventLimiter,
}

/// A packet that came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Out {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The side it came from; it leaves on the opposite one.
    pub from: Side,
    /// Its ingress time.
    pub time: Time,
}

impl Harness {
    /// An empty chain to add functions to.
    pub fn builder() -> HarnessBuilder {
        HarnessBuilder {
            flows: FlowOptions {
                max: 1 << 16,
                buffer_bytes: 16 << 20,
                ..FlowOptions::default()
            },
            ..HarnessBuilder::default()
        }
    }

    /// A chain of one function.
    ///
    /// # Panics
    ///
    /// If the function refuses its settings; use [`Harness::builder`] to
    /// see the error.
    pub fn of<N: NetworkFunction>(settings: N::Settings) -> Harness {
        match Harness::builder().with::<N>(settings) {
            Ok(builder) => builder.build(),
            Err(error) => panic!("{}: {error}", N::DESCRIPTOR.name),
        }
    }

    /// A chain that was compiled elsewhere.
    ///
    /// # Panics
    ///
    /// If the stage can't be run.
    pub fn of_stage(stage: &Stage) -> Harness {
        let config = RuntimeConfig {
            seed: 42,
            event_bytes: 8 << 20,
            ..RuntimeConfig::default()
        };
        let runtime = match Runtime::new(stage, config) {
            Ok(runtime) => runtime,
            Err(error) => panic!("{error}"),
        };
        let layout = MemoryLayout {
            small_frames: 2_048,
            ..MemoryLayout::default()
        };
        Harness {
            runtime,
            pool: FramePool::with_layout(layout),
            now: Time::from_secs(1_700_000_000),
            sequence: 0,
            input: Vec::new(),
            output: Vec::new(),
            limiter: EventLimiter::default(),
        }
    }

    /// The time that the next packets carry.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Sets the time that the next packets carry.
    pub fn set_time(&mut self, now: Time) {
        self.now = now;
    }

    /// Moves time on.
    pub fn advance_ms(&mut self, milliseconds: u64) {
        self.now = self.now.plus(milliseconds * 1_000_000);
    }

    /// Moves time on without a packet, as a live run does: flows that are idle
    /// for too long end. [`Harness::advance_ms`] says only what time the next
    /// packets carry.
    pub fn pass_ms(&mut self, milliseconds: u64) {
        self.advance_ms(milliseconds);
        while self
            .runtime
            .pass_time(&mut self.pool, self.now, &mut self.output)
        {}
    }

    /// Sends an Ethernet frame in from inside; gives what comes out.
    pub fn send(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.send_from(Side::Inside, bytes)
    }

    /// Sends an Ethernet frame in from a side; gives what comes out.
    pub fn send_from(&mut self, side: Side, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.queue(side, bytes);
        self.flush().into_iter().map(|out| out.bytes).collect()
    }

    /// Queues a frame, to be sent in one burst with others by
    /// [`Harness::flush`].
    pub fn queue(&mut self, side: Side, bytes: &[u8]) {
        self.queue_link(side, LinkType::Ethernet, bytes);
    }

    /// The same for another link type.
    ///
    /// # Panics
    ///
    /// If no frame is free: more than 2,048 packets were queued.
    pub fn queue_link(&mut self, side: Side, link: LinkType, bytes: &[u8]) {
        self.sequence += 1;
        let mut meta = FrameMeta::received(self.now, bytes.len() as u32);
        meta.side = side;
        meta.link = link;
        meta.sequence = self.sequence;
        match self.pool.copy(bytes, meta) {
            Ok(frame) => self.input.push(frame),
            Err(error) => panic!("no frame for a packet of {} bytes: {error:?}", bytes.len()),
        }
    }

    /// Runs what is queued and gives what comes out, in order.
    pub fn flush(&mut self) -> Vec<Out> {
        self.runtime
            .process(&mut self.pool, &mut self.input, &mut self.output);
        let memory = self.pool.memory().clone();
        self.output
            .drain(..)
            .map(|frame| {
                let meta = memory.meta(&frame);
                let out = Out {
                    bytes: memory.bytes(&frame).to_vec(),
                    from: meta.side,
                    time: meta.time,
                };
                self.pool.give(frame);
                out
            })
            .collect()
    }

    /// Events since the last call, a JSON line each; those over their limit are left out, as in a run.
    pub fn events(&mut self) -> Vec<String> {
        let log = self.runtime.events();
        let mut written = Vec::new();
        self.limiter.pass(log.lines(), &mut written);
        let lines = String::from_utf8_lossy(&written)
            .lines()
            .map(str::to_owned)
            .collect();
        log.clear();
        lines
    }

    /// Counts so far.
    pub fn report(&self) -> Report {
        self.runtime.report()
    }

    /// Value of a counter of the first function of this kind or name; 0 where
    /// there is none.
    pub fn counter(&self, function: &str, counter: &str) -> u64 {
        self.report()
            .functions
            .iter()
            .filter(|f| f.name == function)
            .flat_map(|f| f.counters.clone())
            .find(|(name, _)| *name == counter)
            .map_or(0, |(_, value)| value)
    }

    /// The runtime itself.
    pub fn runtime(&mut self) -> &mut Runtime {
        &mut self.runtime
    }

    /// Ends all flows; gives the counts. Every frame must be back then, and
    /// every packet accounted for.
    ///
    /// # Panics
    ///
    /// If a frame leaked or the counts do not balance.
    pub fn finish(&mut self) -> Report {
        self.runtime.finish(&mut self.pool);
        let report = self.runtime.report();
        assert!(report.balances(), "packets are unaccounted for: {report:?}");
        assert_eq!(self.pool.outstanding(), 0, "frames leaked");
        report
    }
}
