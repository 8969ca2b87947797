//! The runtime: a burst in, a burst out, run to completion.

use std::sync::Arc;
use weir_telemetry::Entry;

use weir_nf::host::{
    Aliases, BURST, Emits, FlowOptions, MAX_LABELS, NO_FLOW, OnMalformed, Outcome, Place,
    SharedProcessor, Slot, Stage, StageLayout, Target, UnitPlace, World,
};
use weir_nf::{BufferPool, CloseReason, EventLog, Leases, Needs, Scope, Tally, WorkSpace};
use weir_packet::{
    Advise, Depth, FlowKey, Frame, FramePool, Headers, KeyOptions, Malformed, PacketMemory,
    ParseOptions, Time,
};

use crate::audit::Audit;
use crate::counts::{Cost, Counts};
use crate::flows::FlowTable;
use crate::follow::Follow;
use crate::fragments::Fragments;
use crate::report::{FlowReport, FunctionReport, Report};
use crate::same_as::{Remembered, check_same};
use crate::stages::{Fed, Feed, Kind, Rest, Role, check_role};
use crate::watch::Watches;

/// Most wider scopes in one stage.
pub(crate) const MAX_SCOPES: usize = 4;

/// Flows that end between two looks at the log of events, at the end.
pub(crate) const FLOWS_AT_THE_END: usize = 256;

const NO_UNIT: UnitPlace = UnitPlace {
    clock: 0,
    unit: NO_FLOW,
};

/// What a runtime gets from its driver.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeConfig {
    /// Seed of hashes and random numbers; unpredictable in production, given
    /// in simulation.
    pub seed: u64,
    /// Asks for large pages.
    pub advise: Advise,
    /// A cycle counter, or any clock of fine grain; read once per function and
    /// burst, for the cost counters only.
    pub cycles: fn() -> u64,
    /// Bytes of events kept between two visits of the driver; 0 counts events
    /// and keeps none.
    pub event_bytes: usize,
    /// The engine works under a switch: see [`Runtime::apply`]. It holds no
    /// port block until one is granted.
    pub follows: bool,
    /// What the stage is in its plan.
    pub role: Role,
    /// What each function does is compared with its descriptor, packet by
    /// packet ([`Runtime::lies`]): for trying out, at many times the cost.
    pub audit: bool,
    /// What is done with the runtime when it is made: arming watches.
    pub at_start: Option<RunAtStart>,
}

/// Something to do with each runtime when it is made, wherever that is: it
/// lives as long as the process.
#[derive(Clone, Copy)]
pub struct RunAtStart(&'static (dyn Fn(&mut Runtime) + Send + Sync));

impl RunAtStart {
    /// Keeps `action` for the life of the process.
    pub fn of(action: impl Fn(&mut Runtime) + Send + Sync + 'static) -> RunAtStart {
        RunAtStart(Box::leak(Box::new(action)))
    }
}

impl core::fmt::Debug for RunAtStart {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("RunAtStart")
    }
}

impl Default for RuntimeConfig {
    /// Seed 0, no advice, no cycles, events counted only.
    fn default() -> RuntimeConfig {
        RuntimeConfig {
            seed: 0,
            advise: weir_packet::no_advice,
            cycles: || 0,
            event_bytes: 0,
            follows: false,
            role: Role::Alone,
            audit: false,
            at_start: None,
        }
    }
}

pub(crate) struct RunNode {
    pub(crate) name: String,
    pub(crate) processor: SharedProcessor,
    pub(crate) slot: Slot,
    /// Index of its wider scope.
    pub(crate) scope: Option<usize>,
    pub(crate) next: [Target; MAX_LABELS],
    /// The earlier function whose verdicts stand for this one's.
    pub(crate) same_as: Option<usize>,
    /// What a function that others name said of the burst.
    pub(crate) remembered: Option<Box<Remembered>>,
    pub(crate) labels: Vec<&'static str>,
    /// May change packets, and so their lengths.
    pub(crate) writes: bool,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) cycles: u64,
    pub(crate) dropped: u64,
    pub(crate) drops: Vec<u64>,
    pub(crate) label_drops: [u64; MAX_LABELS],
    pub(crate) counters: Vec<u64>,
    pub(crate) tally: Tally,
    pub(crate) space: WorkSpace,
}

impl RunNode {
    /// Name of a link.
    pub(crate) fn label(&self, label: usize) -> &'static str {
        let named = label.checked_sub(1).and_then(|i| self.labels.get(i));
        named.copied().unwrap_or("pass")
    }
}

/// What a packet's flow is looked up by: one cache line.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
pub(crate) struct Lookup {
    pub(crate) key: FlowKey,
    pub(crate) hash: u64,
    /// Index entry that the hash seems to lead to.
    pub(crate) candidate: u32,
}

pub(crate) struct Scratch {
    pub(crate) headers: [Headers; BURST],
    pub(crate) lookups: [Lookup; BURST],
    pub(crate) places: [Place; BURST],
    /// Sides from which packets of this burst opened flows.
    pub(crate) opened_from: [bool; 2],
    pub(crate) units: [[UnitPlace; BURST]; MAX_SCOPES],
    pub(crate) faults: [Malformed; BURST],
    pub(crate) inputs: Vec<u64>,
    pub(crate) outcome: Outcome,
    /// Where packets go in later stages, as in their metadata.
    pub(crate) next: [u8; BURST],
}

/// One runtime: one stage, its flows, and everything its functions share.
///
/// It is owned by one thread and knows no clock, socket or file; time is that
/// of the packets.
pub struct Runtime {
    pub(crate) chain: String,
    pub(crate) nodes: Vec<RunNode>,
    /// A function of the stage stands for another.
    pub(crate) has_same: bool,
    /// How deep to parse; `None` leaves packets unread.
    pub(crate) parse: Option<ParseOptions>,
    pub(crate) key: KeyOptions,
    pub(crate) options: FlowOptions,
    pub(crate) table: Option<FlowTable>,
    /// What a stage without flows hands to its functions.
    pub(crate) no_blocks: weir_nf::host::Blocks,
    pub(crate) block_lines: usize,
    pub(crate) world: World,
    pub(crate) fragments: Fragments,
    pub(crate) role: Kind,
    /// Number of the stage's first function in the whole plan.
    pub(crate) first: u8,
    /// Of the first of several stages.
    pub(crate) feed: Option<Box<Feed>>,
    /// Of a later stage.
    pub(crate) fed: Option<Box<Fed>>,
    pub(crate) audit: Option<Box<Audit>>,
    /// Traces and taps.
    pub(crate) watches: Option<Box<Watches>>,
    /// There is an audit or a watch.
    pub(crate) observed: bool,
    /// Under a switch.
    pub(crate) follow: Option<Box<Follow>>,
    /// Packets that go through the chain (again) before any new one.
    pub(crate) requeue: Vec<Frame>,
    /// The list that `requeue` is swapped with.
    pub(crate) again: Vec<Frame>,
    /// Fragments on their way out of the fragment memory.
    pub(crate) over: Vec<Frame>,
    /// The memory of the last burst's frames, kept to save counting references.
    pub(crate) memory: Option<Arc<PacketMemory>>,
    pub(crate) scratch: Box<Scratch>,
    pub(crate) counts: Counts,
    pub(crate) cost: Cost,
    /// Time of the latest packet, or of the clock where that goes on.
    pub(crate) now: u64,
}

impl core::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Runtime")
            .field("chain", &self.chain)
            .finish_non_exhaustive()
    }
}

/// A stage that can't be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageError(pub String);

impl core::fmt::Display for StageError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StageError {}

impl Runtime {
    /// Reserves all memory the stage will ever use.
    ///
    /// # Errors
    ///
    /// A stage with more than 64 functions, scopes that do not nest, or links
    /// that lead backwards: what the graph compiler refuses with a place in
    /// the file.
    pub fn new(stage: &Stage, config: RuntimeConfig) -> Result<Runtime, StageError> {
        let options = stage.flows;
        check_nodes(stage)?;
        check_same(stage)?;
        check_role(stage, &config.role, config.follows)?;
        let rest = match &config.role {
            Role::First(rest) => Some(rest),
            _ => None,
        };
        let needs = needs_of(stage).max(rest.map_or(Needs::Link, Rest::needs));
        let mut scopes = nested_scopes(stage)?;
        for scope in rest.into_iter().flat_map(Rest::scopes) {
            add_scope(stage, &mut scopes, scope, 0)?;
        }
        let role = config.role.kind();
        let mut layout = StageLayout::default();
        let mut scope_layouts: Vec<StageLayout> =
            scopes.iter().map(|_| StageLayout::default()).collect();
        let mut nodes = Vec::with_capacity(stage.nodes.len());
        for (number, node) in stage.nodes.iter().enumerate() {
            let descriptor = node.processor.descriptor();
            let scope = scopes
                .iter()
                .position(|(scope, _)| *scope == node.processor.scope());
            // What is not called keeps nothing.
            let scope = scope.filter(|_| node.same_as.is_none());
            let mut slot = Slot::default();
            if node.same_as.is_none() {
                slot = node.processor.place(match scope {
                    Some(scope) => &mut scope_layouts[scope],
                    None => &mut layout,
                });
            }
            if node.same_as.is_none() {
                let scoped = scope.is_some();
                node.processor.place_flow(&mut layout, &mut slot, scoped);
            }
            let named = stage.nodes.iter().any(|n| n.same_as == Some(number));
            let counters = descriptor.counters.len();
            let first = node.next.first().copied().unwrap_or(Target::Out);
            let mut next = [first; MAX_LABELS];
            for (place, &target) in next.iter_mut().zip(&node.next) {
                *place = target;
            }
            nodes.push(RunNode {
                name: node.name.clone(),
                slot,
                scope,
                next,
                same_as: node.same_as,
                remembered: named.then(|| Box::new(Remembered::new(counters))),
                labels: descriptor.labels.to_vec(),
                writes: descriptor.writes != weir_nf::Parts::NONE,
                packets: 0,
                bytes: 0,
                cycles: 0,
                dropped: 0,
                drops: vec![0; descriptor.drops.len() + 1],
                label_drops: [0; MAX_LABELS],
                counters: vec![0; counters],
                tally: Tally::new(descriptor.tally as usize, config.seed),
                space: node.processor.work_space(),
                processor: node.processor.clone(),
            });
        }
        let rewriters = rewriters_of(stage);
        let buffers = stage
            .nodes
            .iter()
            .any(|node| node.processor.descriptor().buffers > 0);
        let buffer_bytes = if buffers { options.buffer_bytes } else { 0 };
        let flow_bytes = match needs {
            Needs::Flow => FlowTable::bytes(&options, &layout, &scope_layouts, rewriters),
            _ => 0,
        };
        check_memory(&stage.chain, &options, flow_bytes, buffer_bytes as u64)?;
        let table = (needs == Needs::Flow).then(|| {
            let scopes = scopes
                .into_iter()
                .zip(scope_layouts)
                .map(|((s, n), l)| (s, n, l))
                .collect();
            if role == Kind::Later {
                return FlowTable::fed(&options, &layout, scopes, config.seed, config.advise);
            }
            FlowTable::new(
                &options,
                &layout,
                scopes,
                rewriters,
                config.seed,
                config.advise,
            )
        });
        let mut leases = Leases::new(&stage.pools);
        if !config.follows {
            leases.grant_all();
        }
        let follow = config.follows.then(|| {
            let flows = table.as_ref().map_or(0, |table| table.flows.blocks.count());
            Box::new(Follow::new(&options, flows, config.advise))
        });
        let flows = table.as_ref().map_or(0, |table| table.flows.blocks.count());
        let mut runtime = Runtime {
            role,
            audit: config.audit.then(|| Box::new(Audit::new(options.inner))),
            watches: None,
            observed: config.audit,
            first: stage.first,
            feed: (role == Kind::First).then(|| {
                let scopes = table.as_ref().map_or(0, |table| table.scopes.len());
                Box::new(Feed::new(flows as u32, scopes))
            }),
            fed: match config.role {
                Role::Later { last, .. } => {
                    Some(Box::new(Fed::new(stage.first, last, flows, config.advise)))
                }
                _ => None,
            },
            chain: stage.chain.clone(),
            block_lines: if layout.is_bare() {
                2
            } else {
                layout.lines().min(4)
            },
            no_blocks: crate::execute::empty_blocks(),
            parse: parse_options(&options, config.role.reads(needs)).map(|parse| ParseOptions {
                lenient: parse.lenient || role == Kind::Later,
                ..parse
            }),
            key: key_options(stage),
            world: World {
                leases,
                buffers: BufferPool::new(buffer_bytes),
                events: match config.event_bytes {
                    0 => EventLog::counting(),
                    bytes => EventLog::new(bytes),
                },
                emits: Emits::new(),
                aliases: Aliases::new(),
                seed: config.seed,
                silent: false,
            },
            follow,
            fragments: Fragments::new(options.held_fragments, config.seed),
            requeue: Vec::with_capacity(BURST + options.held_fragments as usize),
            again: Vec::with_capacity(BURST + options.held_fragments as usize),
            over: Vec::with_capacity(options.held_fragments as usize),
            memory: None,
            scratch: Box::new(Scratch {
                headers: [Headers::default(); BURST],
                lookups: [Lookup::default(); BURST],
                places: [Place::NONE; BURST],
                opened_from: [false; 2],
                units: [[NO_UNIT; BURST]; MAX_SCOPES],
                faults: [crate::classify::NO_FAULT; BURST],
                inputs: vec![0; nodes.len()],
                outcome: Outcome::default(),
                next: [0; BURST],
            }),
            counts: Counts::default(),
            cost: Cost::new(config.cycles),
            now: 0,
            has_same: nodes.iter().any(|node| node.same_as.is_some()),
            nodes,
            table,
            options,
        };
        if config.follows {
            runtime.world.attribute(config.event_bytes > 0);
        }
        if let Some(RunAtStart(action)) = config.at_start {
            action(&mut runtime);
        }
        Ok(runtime)
    }

    /// Takes all packets of `input` through the chain; what comes out is added
    /// to `output`, in order, and what is dropped goes back to `pool`. The
    /// frames must be of `pool`'s memory.
    ///
    /// The first of several stages leaves packets in `input` where no frame is
    /// free to tell the later ones of its flows
    /// ([`Runtime::waits_for_frames`]); the next call goes on with them.
    pub fn process(
        &mut self,
        pool: &mut FramePool,
        input: &mut Vec<Frame>,
        output: &mut Vec<Frame>,
    ) {
        match self.role {
            Kind::Alone => {}
            Kind::First => return self.process_first(pool, input, output),
            Kind::Later => return self.process_fed(pool, input, output),
        }
        self.counts.take_in(input.len(), 0);
        while !input.is_empty() {
            self.burst(pool, input, output, true);
            self.run_requeued(pool, output);
        }
    }

    fn run_requeued(&mut self, pool: &mut FramePool, output: &mut Vec<Frame>) {
        while !self.requeue.is_empty() {
            let mut again = core::mem::replace(&mut self.requeue, core::mem::take(&mut self.again));
            while !again.is_empty() {
                self.burst(pool, &mut again, output, false);
            }
            self.again = again;
        }
    }

    /// Takes at most a burst of packets from the front of `input`.
    pub(crate) fn burst(
        &mut self,
        pool: &mut FramePool,
        input: &mut Vec<Frame>,
        output: &mut Vec<Frame>,
        fresh: bool,
    ) {
        if self.observed {
            self.burst_as::<true>(pool, input, output, fresh);
        } else {
            self.burst_as::<false>(pool, input, output, fresh);
        }
    }

    #[inline(always)]
    fn burst_as<const OBSERVED: bool>(
        &mut self,
        pool: &mut FramePool,
        input: &mut Vec<Frame>,
        output: &mut Vec<Frame>,
        fresh: bool,
    ) {
        let start = self.cost.now();
        let memory = match self.memory.take() {
            Some(memory) if Arc::ptr_eq(&memory, pool.memory()) => memory,
            _ => Arc::clone(pool.memory()),
        };
        let mut n = input.len().min(BURST);
        if let Some(first) = input.first() {
            self.now = self.now.max(memory.meta(first).time.0);
        }
        self.expire(pool);
        if OBSERVED {
            n = self.watch_begin(&memory, &mut input[..n]);
        }
        let found = self.classify(pool, &memory, &mut input[..n]);
        if OBSERVED {
            self.watch_classified(&memory, &input[..found.count]);
        }
        let bytes = bytes_of(&memory, &input[..found.count]);
        if fresh {
            self.counts.take_in(0, bytes);
        }
        let dispositions = self.run(pool, &memory, &mut input[..found.count], &found, bytes);
        if OBSERVED {
            self.watch_leave(&memory, &input[..found.count], &found, &dispositions);
        }
        if self.role == Kind::First {
            self.tell_and_leave(pool, &memory, input, output, &found, dispositions);
        } else {
            self.leave(pool, &memory, input, output, &found, dispositions);
        }
        if OBSERVED {
            self.watch_end();
        }
        self.memory = Some(memory);
        self.cost.end_burst(start);
    }

    /// Ends all flows and gives held packets back to `pool`, as dropped; the
    /// last events are in [`Runtime::events`] afterwards.
    pub fn finish(&mut self, pool: &mut FramePool) {
        self.finish_with(pool, Time::ZERO, |_| {});
    }

    /// The same at a time, if no later packet has come. `events` is shown the
    /// log before, after each few flows, and at the end, and may empty it: so
    /// many may end that it can't hold them all. The first of several stages
    /// ends by [`Runtime::finish_first`] instead: here it tells nobody.
    pub fn finish_with(
        &mut self,
        pool: &mut FramePool,
        now: Time,
        mut events: impl FnMut(&mut EventLog),
    ) {
        if self.role == Kind::Later {
            return self.finish_fed(pool, now, events);
        }
        self.now = self.now.max(now.0);
        events(&mut self.world.events);
        let mut next = Some(0);
        while let Some(from) = next {
            next = self.finish_some(pool, from);
            events(&mut self.world.events);
        }
    }

    /// The same bit by bit, for a runtime that is alone: ends some flows, from
    /// record `from` on (0 at first). Where to go on, until all have ended; their
    /// events are to be taken each time.
    pub fn finish_some(&mut self, pool: &mut FramePool, from: u32) -> Option<u32> {
        self.drop_held(pool, None);
        let mut next = from;
        // Under a switch the log is shared out among a burst's packets, and there is
        // none.
        self.world.events.give_whole();
        for _ in 0..FLOWS_AT_THE_END {
            let flow = self
                .table
                .as_ref()
                .and_then(|table| table.flows.live_from(next).next());
            let Some(flow) = flow else {
                self.drop_told(pool);
                self.drop_asked(pool);
                return None;
            };
            self.end_flow(pool, flow, CloseReason::Shutdown);
            next = flow + 1;
            if self.world.events.is_half_full() {
                break;
            }
        }
        Some(next)
    }

    /// `close` takes no packets, but nothing stops a function from asking.
    pub(crate) fn drop_asked(&mut self, pool: &mut FramePool) {
        for frame in self.world.emits.frames.drain(..) {
            pool.give(frame);
        }
        self.clear_asked();
    }

    /// Forgets the names that functions asked for.
    pub(crate) fn clear_asked(&mut self) {
        self.world.aliases.asked.clear();
        if let Some(causes) = &mut self.world.aliases.causes {
            causes.packets.clear();
        }
    }

    /// Events not yet taken; the driver writes them and clears them.
    pub fn events(&mut self) -> &mut EventLog {
        &mut self.world.events
    }

    /// Port leases.
    pub fn leases(&self) -> &weir_nf::Leases {
        &self.world.leases
    }

    /// Flows open now.
    pub fn active_flows(&self) -> usize {
        match &self.fed {
            Some(fed) => fed.flows as usize,
            None => self.table.as_ref().map_or(0, |table| table.flows.len()),
        }
    }

    /// Packets taken in so far, as in [`Runtime::report`].
    pub fn packets_in(&self) -> u64 {
        self.counts.so_far.packets_in
    }

    /// What was counted so far.
    pub fn report(&self) -> Report {
        let counted = self.counts.report();
        let mut drops = counted.drops;
        for node in &self.nodes {
            let reasons = node.processor.descriptor().drops;
            for (i, &count) in node.drops.iter().enumerate().filter(|(_, n)| **n > 0) {
                let reason = reasons.get(i).map_or("unnamed", |reason| reason.name());
                drops.push((format!("{}.{reason}", node.name), count));
            }
            for (i, &count) in node.label_drops.iter().enumerate().filter(|(_, n)| **n > 0) {
                drops.push((format!("{}.{}", node.name, node.label(i)), count));
            }
        }
        Report {
            chain: self.chain.clone(),
            emits_lost: self.world.emits.lost,
            held: (self.fragments.held() + self.requeue.len() + self.again.len()) as u64,
            drops,
            flows: self.flow_report(counted.flows),
            functions: self.nodes.iter().map(function_report).collect(),
            events: self.world.events.recorded(),
            events_lost: self.world.events.lost(),
            bad_notices: self.fed.as_ref().map_or(0, |fed| fed.bad_notices),
            engine_cycles: self.cost.engine(),
            ..counted
        }
    }

    fn flow_report(&self, counted: FlowReport) -> FlowReport {
        let mut report = FlowReport {
            ports_leased: self.world.leases.leased(),
            buffer_bytes: self.world.buffers.in_use() as u64,
            buffers_refused: self.world.buffers.refused(),
            ..counted
        };
        if let Some(fed) = &self.fed {
            report.active = fed.flows;
            report.units = fed.units;
        } else if let Some(table) = &self.table {
            report.tracked = true;
            report.active = table.flows.len() as u64;
            report.units = table.scopes.iter().map(|s| s.records.len() as u64).sum();
            report.aliases = table.aliases.len() as u64;
            report.aliases_refused = table.aliases_refused + self.world.aliases.refused;
        }
        report
    }
}

#[inline]
pub(crate) fn bytes_of(memory: &PacketMemory, frames: &[Frame]) -> u64 {
    frames
        .iter()
        .map(|frame| u64::from(memory.meta(frame).len))
        .sum()
}

fn function_report(node: &RunNode) -> FunctionReport {
    FunctionReport {
        name: node.name.clone(),
        nf: node.processor.descriptor().name,
        packets: node.packets,
        bytes: node.bytes,
        cycles: node.cycles,
        dropped: node.dropped,
        counters: node
            .processor
            .descriptor()
            .counters
            .iter()
            .map(Entry::name)
            .zip(node.counters.iter().copied())
            .collect(),
        tally: node
            .tally
            .sorted()
            .into_iter()
            .map(|(name, count)| (String::from_utf8_lossy(name).into_owned(), count))
            .collect(),
        tally_other: node.tally.other(),
    }
}

/// Refuses what the engine can't run: more functions than a block has marks
/// for, or links that lead backwards.
pub(crate) fn check_nodes(stage: &Stage) -> Result<(), StageError> {
    if stage.nodes.len() > StageLayout::MAX_FUNCTIONS as usize {
        return Err(StageError(format!(
            "chain {} has more than 64 functions",
            stage.chain
        )));
    }
    let last = stage.nodes.len();
    for (number, node) in stage.nodes.iter().enumerate() {
        let links = node.next.iter().take(MAX_LABELS);
        let mut backwards =
            links.filter(|t| matches!(t, Target::Node(n) if *n <= number || *n >= last));
        if backwards.next().is_some() {
            return Err(StageError(format!(
                "a link of {} leads backwards or nowhere",
                node.name
            )));
        }
    }
    Ok(())
}

/// The most that a function of the stage needs.
pub(crate) fn needs_of(stage: &Stage) -> Needs {
    let needs = stage
        .nodes
        .iter()
        .map(|node| node.processor.descriptor().needs);
    needs
        .max()
        .unwrap_or(Needs::Link)
        .max(if stage.flows.always {
            Needs::Flow
        } else {
            Needs::Link
        })
}

/// Functions that ask for aliases.
pub(crate) fn rewriters_of(stage: &Stage) -> u32 {
    let nodes = stage.nodes.iter();
    nodes
        .filter(|node| node.processor.descriptor().aliases)
        .count() as u32
}

/// How packets are parsed; `None` leaves them unread.
pub(crate) fn parse_options(options: &FlowOptions, needs: Needs) -> Option<ParseOptions> {
    let depth = match needs {
        Needs::Link => return None,
        Needs::Network => Depth::L3,
        Needs::Transport | Needs::Flow => Depth::L4,
    };
    Some(ParseOptions {
        depth,
        inner: options.inner,
        lenient: options.malformed == OnMalformed::Pass,
    })
}

/// How keys are made.
pub(crate) fn key_options(stage: &Stage) -> KeyOptions {
    KeyOptions {
        chain: stage.number,
        zone: stage.flows.zone,
        icmp: stage.flows.icmp,
    }
}

/// The wider scopes of a stage, finest first, each with the first function
/// that has it.
pub(crate) fn nested_scopes(stage: &Stage) -> Result<Vec<(Scope, usize)>, StageError> {
    let mut scopes: Vec<(Scope, usize)> = Vec::new();
    for (number, node) in stage.nodes.iter().enumerate() {
        let scope = node.processor.scope();
        add_scope(stage, &mut scopes, scope, number)?;
    }
    Ok(scopes)
}

/// Adds a scope that function `number` has, if it is a new one.
pub(crate) fn add_scope(
    stage: &Stage,
    scopes: &mut Vec<(Scope, usize)>,
    scope: Scope,
    number: usize,
) -> Result<(), StageError> {
    if scope == Scope::Flow || scopes.iter().any(|(s, _)| *s == scope) {
        return Ok(());
    }
    if let Some((other, _)) = scopes.iter().find(|(s, _)| !s.nests(scope)) {
        let has = |wanted: Scope| {
            let mut nodes = stage.nodes.iter();
            let node = nodes.find(|node| node.processor.scope() == wanted);
            node.map_or("a later stage", |node| node.name.as_str())
        };
        return Err(StageError(format!(
            "{} and {} keep state by keys that do not nest",
            has(scope),
            has(*other)
        )));
    }
    let place = scopes
        .iter()
        .position(|(s, _)| scope.within(*s))
        .unwrap_or(scopes.len());
    scopes.insert(place, (scope, number));
    if scopes.len() > MAX_SCOPES {
        return Err(StageError(format!(
            "chain {} has more than {MAX_SCOPES} scopes",
            stage.chain
        )));
    }
    Ok(())
}

/// Refuses what the machine can't give: memory is reserved when a stage is
/// made, and a reservation that fails would end the process without a word of
/// what asked for it. Pages are only paid for when they are used.
pub(crate) fn check_memory(
    chain: &str,
    options: &FlowOptions,
    flows: u64,
    buffers: u64,
) -> Result<(), StageError> {
    let mut probe: Vec<u8> = Vec::new();
    let all = usize::try_from(flows.saturating_add(buffers)).unwrap_or(usize::MAX);
    probe.try_reserve_exact(all).map_err(|_| {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        StageError(format!(
            "chain {chain}: {} MiB for {} flows (`flows.max`) and {} MiB for side buffers \
             (`flows.buffers`) are more than this machine gives: lower one of them",
            mib(flows),
            options.max,
            mib(buffers)
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_memory_than_there_is_is_an_error_that_names_the_settings() {
        let options = FlowOptions::default();
        assert_eq!(check_memory("c", &options, 1 << 20, 1 << 20), Ok(()));
        for (flows, buffers) in [
            (u64::MAX, 0),
            (0, u64::MAX),
            (u64::MAX, u64::MAX),
            (1 << 62, 1 << 62),
        ] {
            let error = check_memory("edge", &options, flows, buffers).unwrap_err();
            for part in ["chain edge", "`flows.max`", "`flows.buffers`"] {
                assert!(error.0.contains(part), "{error:?}");
            }
        }
    }
}
