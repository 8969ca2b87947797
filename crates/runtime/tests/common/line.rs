//! Chains of test functions, as written and cut into stages.

use std::collections::BTreeMap;

use weir_nf::host::{FlowOptions, Node, Stage, Target, bind};
use weir_nf::prelude::*;
use weir_packet::{Frame, FrameKind, FrameMeta, FramePool, MemoryLayout, frame_flags};
use weir_runtime::{FunctionState, Report, Rest, Role, Runtime, RuntimeConfig};

/// State of [`Worker`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Work {
    pub packets: u64,
    pub random: u64,
    pub last: u64,
}
impl State for Work {
    const VERSION: u16 = 1;
}

/// Does to each packet what its payload and the worker's own number say: drop,
/// label, write, emit, remember, draw, and tell of all of it in events. Its
/// scope: 0 each flow, 1 by client, 2 by pair of hosts, 3 keeps nothing.
#[derive(Debug)]
pub struct Worker<const SCOPE: u8> {
    number: u8,
}

const fn scope_of(number: u8) -> Scope {
    match number {
        1 => Scope::Fields(Fields::CLIENT_ADDRESS),
        2 => Scope::Fields(Fields::CLIENT_ADDRESS.and(Fields::SERVER_ADDRESS)),
        _ => Scope::Flow,
    }
}

impl<const SCOPE: u8> Worker<SCOPE> {
    fn verdict(&self, packet: &mut Packet<'_>, cx: &mut Context<'_>) -> Verdict {
        let Some(&what) = packet.payload().first() else {
            return Verdict::Pass;
        };
        if let Some(byte) = packet.payload_mut().get_mut(1) {
            *byte = byte.wrapping_mul(3).wrapping_add(self.number);
        }
        match what.wrapping_mul(29).wrapping_add(self.number * 7) % 16 {
            0 => Verdict::Drop(Reason::Asked.into()),
            1 | 2 => Verdict::Label(1),
            3 => {
                if let Some([first, second, ..]) = cx.emit(Side::Outside, 60) {
                    (*first, *second) = (self.number, what);
                }
                Verdict::Pass
            }
            _ => Verdict::Pass,
        }
    }
}

weir_nf::labels! {
    /// Drop reasons.
    enum Reason: Counter<Packets> {
        /// It asked for it.
        Asked = "asked",
        /// Its flow was refused.
        Refused = "refused",
    }
}

weir_nf::labels! {
    /// Counters.
    enum Count: Counter<Packets> {
        /// Flows that were opened.
        Opened = "opened",
        /// Flows that were closed.
        Closed = "closed",
        /// Packets without a flow.
        Alone = "alone",
    }
}

impl<const SCOPE: u8> NetworkFunction for Worker<SCOPE> {
    type Settings = u8;
    type State = Work;
    type Stats = [u64; 1];
    type FlowState = ();
    const DESCRIPTOR: Descriptor = Descriptor {
        needs: if SCOPE == 3 {
            Needs::Transport
        } else {
            Needs::Flow
        },
        scope: scope_of(SCOPE),
        reads: Parts::PAYLOAD,
        writes: Parts::PAYLOAD,
        drops: Reason::TABLE,
        labels: &["other"],
        counters: Count::TABLE,
        emits: true,
        events: true,
        buffers: 1,
        buffer_bytes: 64,
        tally: 8,
        ..Descriptor::new(
            ["each", "by-client", "by-pair", "none"][SCOPE as usize],
            "Works",
        )
    };

    fn new(number: u8, _: &mut SetUp<'_>) -> Result<Self, SettingsError> {
        Ok(Worker { number })
    }

    fn open(
        &self,
        packet: &Packet<'_>,
        info: &FlowInfo<'_>,
        cx: &mut Context<'_>,
    ) -> Result<Work, DropReason> {
        if packet
            .payload()
            .first()
            .is_some_and(|b| b % 32 == self.number)
        {
            return Err(Reason::Refused.into());
        }
        cx.count(Count::Opened, 1);
        let random = cx.random() >> 12;
        cx.event("opened", info)
            .number("by", u64::from(self.number))
            .number("random", random);
        Ok(Work::default())
    }

    fn process(
        &self,
        packet: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        flow.stats[0] += 1;
        flow.state.packets += 1;
        flow.state.random ^= cx.random();
        flow.state.last = cx.now().0;
        cx.tally(
            &[packet.payload().first().copied().unwrap_or(0) % 4 + 65],
            1,
        );
        let payload = packet.payload();
        let byte = payload.first().copied().unwrap_or(0);
        if byte % 3 == 0
            && let Some(mut buffer) = flow.buffer(0, cx)
        {
            let _ = buffer.extend(&[byte]);
        }
        let (state, info) = (*flow.state, flow.info);
        cx.event("seen", &info)
            .number("by", u64::from(self.number))
            .number("n", state.packets)
            .number("random", state.random >> 12)
            .number("phase", info.phase() as u64)
            .number("tcp", u64::from(info.tcp_seen()))
            .number("first", u64::from(info.is_first()))
            .number("to_server", u64::from(info.to_server()))
            .number("last", info.last_seen().0);
        self.verdict(packet, cx)
    }

    fn without_flow(&self, packet: &mut Packet<'_>, cx: &mut Context<'_>) -> Verdict {
        cx.count(Count::Alone, 1);
        let random = cx.random() >> 12;
        cx.packet_event("alone")
            .number("by", u64::from(self.number))
            .number("random", random);
        self.verdict(packet, cx)
    }

    fn close(&self, flow: &mut Flow<'_, Self>, why: CloseReason, cx: &mut Context<'_>) {
        cx.count(Count::Closed, 1);
        let (info, state) = (flow.info, *flow.state);
        let random = cx.random() >> 12;
        let now = cx.now();
        cx.flow_event("closed", &info)
            .number("by", u64::from(self.number))
            .text("why", why.name())
            .number("n", state.packets)
            .number("clock", info.clock())
            .number("phase", info.phase() as u64)
            .number("tcp", u64::from(info.tcp_seen()))
            .number("last", info.last_seen().0)
            .number("now", now.0)
            .number("random", random);
    }
}

fn node<const SCOPE: u8>(number: u8) -> Node {
    let (mut none, mut pools, mut warnings) = (weir_nf::NoSources, Vec::new(), Vec::new());
    let mut set_up = SetUp::new(&mut none, &mut pools, &mut warnings, 7);
    let worker = Worker::<SCOPE>::new(number, &mut set_up).expect("no settings");
    Node {
        name: format!("worker-{number}"),
        processor: bind(worker),
        same_as: None,
        next: Vec::new(),
    }
}

/// A function of a chain: its scope, and where its label leads.
pub type Made = (u8, u8);

/// The chain as written, in one stage. A label leads to a function further on,
/// out, or nowhere.
pub fn written(made: &[Made], flows: FlowOptions) -> Stage {
    let last = made.len();
    let nodes = made.iter().enumerate().map(|(i, &(scope, label))| {
        let mut node = match scope % 4 {
            0 => node::<0>(i as u8),
            1 => node::<1>(i as u8),
            2 => node::<2>(i as u8),
            _ => node::<3>(i as u8),
        };
        let next = |n: usize| {
            if n < last {
                Target::Node(n)
            } else {
                Target::Out
            }
        };
        let label = match usize::from(label) % (last + 1) {
            0 => Target::Drop,
            n => next(i + n),
        };
        node.next = vec![next(i + 1), label];
        node
    });
    Stage {
        chain: "line".to_owned(),
        number: 0,
        first: 0,
        nodes: nodes.collect(),
        flows,
        pools: Vec::new(),
        sets: weir_nf::Sets::default(),
    }
}

/// The same in stages that begin at these functions (the first one at 0).
pub fn cut(whole: &Stage, starts: &[usize]) -> Vec<Stage> {
    let ends = starts.iter().skip(1).copied().chain([whole.nodes.len()]);
    let stages = starts.iter().zip(ends).map(|(&start, end)| {
        let mut stage = whole.clone();
        stage.first = start as u8;
        stage.nodes = whole.nodes[start..end].to_vec();
        for target in stage.nodes.iter_mut().flat_map(|node| &mut node.next) {
            *target = match *target {
                Target::Node(n) if n >= end => Target::Later(n as u8),
                Target::Node(n) => Target::Node(n - start),
                other => other,
            };
        }
        stage
    });
    stages.collect()
}

/// A packet that came out, with what its metadata say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub bytes: Vec<u8>,
    pub meta: (u64, u64, u64, u64, u64, u8, u8),
}

/// All that can be told of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Packets by unit, in order.
    pub packets: BTreeMap<u64, Vec<Left>>,
    /// Emitted ones by function.
    pub emitted: BTreeMap<u8, Vec<Vec<u8>>>,
    /// Events by function and flow, in order.
    pub events: BTreeMap<(u64, String), Vec<String>>,
    /// The states before the end.
    pub states: Vec<FunctionState>,
}

impl Told {
    pub fn hear(&mut self, events: &[u8]) {
        for line in String::from_utf8_lossy(events).lines() {
            let field = |name: &str| {
                let rest = line.split(&format!("\"{name}\":")).nth(1)?;
                rest.split([',', '}']).next().map(str::to_owned)
            };
            let by = field("by")
                .and_then(|by| by.parse().ok())
                .expect("a number");
            // Ends of scope keys have no flow.
            let flow = field("flow_id").or_else(|| field("unit_id"));
            let flow = flow.unwrap_or_default();
            self.events
                .entry((by, flow))
                .or_default()
                .push(line.to_owned());
        }
    }

    pub fn take(&mut self, pool: &mut FramePool, output: &mut Vec<Frame>) {
        let memory = pool.memory().clone();
        for frame in output.drain(..) {
            let (meta, bytes) = memory.read(&frame);
            assert!(meta.kind == FrameKind::Packet && meta.next == 0, "{meta:?}");
            if meta.flags & frame_flags::EMITTED != 0 {
                assert_eq!((meta.view, meta.unit), (0, 0));
                self.emitted
                    .entry(bytes[0])
                    .or_default()
                    .push(bytes.to_vec());
            } else {
                let left = Left {
                    bytes: bytes.to_vec(),
                    meta: (
                        meta.time.0,
                        meta.sequence,
                        meta.unit,
                        meta.clock,
                        meta.view,
                        meta.side as u8,
                        meta.flags,
                    ),
                };
                self.packets.entry(meta.unit).or_default().push(left);
            }
            pool.give(frame);
        }
    }
}

/// Stages in a line, joined by queues.
pub struct Line {
    pub stages: Vec<Runtime>,
    pub pool: FramePool,
    /// What waits before each stage.
    pub queues: Vec<Vec<Frame>>,
    pub output: Vec<Frame>,
    /// Makes the sizes of the portions that stages take.
    portions: u64,
}

const EVENT_BYTES: usize = 4 << 20;

pub fn config(role: Role) -> RuntimeConfig {
    RuntimeConfig {
        seed: 42,
        event_bytes: EVENT_BYTES,
        role,
        ..RuntimeConfig::default()
    }
}

impl Line {
    /// One stage is alone; several are the first and its later ones.
    pub fn new(stages: &[Stage], frames: u32, portions: u64) -> Line {
        let last = stages.len() - 1;
        let runtimes = stages.iter().enumerate().map(|(i, stage)| {
            let role = match i {
                _ if last == 0 => Role::Alone,
                0 => Role::First(Rest::of(&stages[1..]).expect("they nest")),
                i => Role::later(stages, i == last),
            };
            Runtime::new(stage, config(role)).expect("the stage runs")
        });
        Line {
            stages: runtimes.collect(),
            pool: FramePool::with_layout(MemoryLayout {
                small_frames: frames,
                large_frames: 0,
                ..MemoryLayout::default()
            }),
            queues: stages.iter().map(|_| Vec::new()).collect(),
            output: Vec::new(),
            portions,
        }
    }

    pub fn push(&mut self, bytes: &[u8], time: Time, sequence: u64) {
        let mut meta = FrameMeta::received(time, 0);
        meta.sequence = sequence;
        let frame = self.pool.copy(bytes, meta).expect("a frame is free");
        self.queues[0].push(frame);
    }

    /// Runs all that is there, later stages in portions of any size.
    pub fn run(&mut self, told: &mut Told) {
        loop {
            self.step(0, usize::MAX, told);
            for i in 1..self.stages.len() {
                while !self.queues[i].is_empty() {
                    self.portions = self.portions.wrapping_mul(6_364_136_223_846_793_005) | 1;
                    let portion = (self.portions >> 33) as usize % 90 + 1;
                    self.step(i, portion, told);
                }
            }
            told.take(&mut self.pool, &mut self.output);
            let first = &self.stages[0];
            if self.queues[0].is_empty() && !first.waits_for_frames() {
                return;
            }
        }
    }

    fn step(&mut self, i: usize, portion: usize, told: &mut Told) {
        let mut input = core::mem::take(&mut self.queues[i]);
        let rest = input.split_off(portion.min(input.len()));
        let output = match self.queues.get_mut(i + 1) {
            Some(queue) => queue,
            None => &mut self.output,
        };
        self.stages[i].process(&mut self.pool, &mut input, output);
        assert!(i == 0 || input.is_empty(), "later stages take all");
        input.extend(rest);
        self.queues[i] = input;
        self.hear(i, told);
        let report = self.stages[i].report();
        assert!(report.balances(), "{report:?}");
    }

    fn hear(&mut self, i: usize, told: &mut Told) {
        let log = self.stages[i].events();
        told.hear(log.lines());
        assert_eq!(log.lost(), 0);
        log.clear();
    }

    /// The states now, and all that ends tell; the report of all stages.
    pub fn finish(mut self, told: &mut Told) -> Report {
        self.run(told);
        let states = self.stages.iter().flat_map(Runtime::states);
        told.states = states.collect();
        told.states.sort();
        if self.stages.len() > 1 {
            loop {
                let (pool, queue) = (&mut self.pool, &mut self.queues[1]);
                let events = |log: &mut weir_nf::EventLog| {
                    told.hear(log.lines());
                    log.clear();
                };
                let done = self.stages[0].finish_first(pool, Time::ZERO, queue, events);
                self.run(told);
                if done {
                    break;
                }
            }
            for stage in &self.stages {
                assert_eq!(stage.active_flows(), 0, "all ends have come");
            }
        }
        for i in 0..self.stages.len() {
            self.stages[i].finish_with(&mut self.pool, Time::ZERO, |log| {
                told.hear(log.lines());
                log.clear();
            });
        }
        assert_eq!(self.pool.outstanding(), 0, "frames leaked");
        let reports: Vec<Report> = self.stages.iter().map(Runtime::report).collect();
        for (one, next) in reports.iter().zip(reports.iter().skip(1)) {
            assert_eq!(
                (one.packets_out, one.bytes_out),
                (next.packets_in, next.bytes_in)
            );
            assert_eq!(next.bad_notices, 0);
        }
        Report::chain(&reports)
    }
}
