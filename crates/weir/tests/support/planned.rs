//! A chain as written and by a plan, in this process: what each of them made.

use std::collections::BTreeMap;

use weir::driver::{ChainPlan, Executor, Pace, Pipeline, PipelineSettings};
use weir_graph::Chain;
use weir_graph::compile::{Balance, Plan, Step};
use weir_io::port::{MergedInput, Received};
use weir_packet::{Frame, FrameMeta, FramePool, LinkType, MemoryLayout, Time, frame_flags};
use weir_runtime::{FunctionState, Report, Rest, Role, Runtime, RuntimeConfig};

use super::compare::event_lines;

/// Packets that are worked on at a time, by all alike: which packets are of one
/// burst says when flows that are idle by then are ended.
const BURST: usize = 64;

/// Packets of an input, with what their ports said of them.
pub(crate) type Packets = Vec<(FrameMeta, Vec<u8>)>;

/// All packets of an input, as far as it can be read.
pub(crate) fn read(mut input: MergedInput) -> Packets {
    let mut pool = FramePool::with_layout(MemoryLayout::default());
    let (mut frames, mut packets) = (Vec::new(), Vec::new());
    loop {
        let received = input.receive(&mut pool, &mut frames, BURST);
        for frame in frames.drain(..) {
            let (meta, bytes) = pool.memory().read(&frame);
            packets.push((*meta, bytes.to_vec()));
            pool.give(frame);
        }
        if !matches!(received, Ok(Received::More)) {
            return packets;
        }
    }
}

fn frames_of(packets: &[(FrameMeta, Vec<u8>)], pool: &mut FramePool) -> Vec<Frame> {
    let frame = |(meta, bytes): &(FrameMeta, Vec<u8>)| pool.copy(bytes, *meta).unwrap();
    packets.iter().map(frame).collect()
}

/// A packet that came out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Left {
    pub(crate) time: u64,
    pub(crate) side: u8,
    pub(crate) link: LinkType,
    pub(crate) sequence: u64,
    pub(crate) unit: u64,
    pub(crate) bytes: Vec<u8>,
}

/// What a chain made of its input.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    /// In the order in which they left.
    pub(crate) out: Vec<Left>,
    /// Packets that functions made.
    pub(crate) emitted: Vec<Left>,
    /// Lines, sorted: all that they say.
    pub(crate) events: Vec<String>,
    /// Lines by type and flow, in the order in which they were written.
    pub(crate) told: BTreeMap<(String, String), Vec<String>>,
    /// What was open when the input had ended; none where stages have threads.
    pub(crate) states: Option<Vec<FunctionState>>,
    pub(crate) report: Report,
}

impl Made {
    /// Without events of a type.
    pub(crate) fn without(&self, kind: &str) -> Made {
        let text = format!("\"event_type\":\"{kind}\"");
        let mut made = self.clone();
        made.events.retain(|event| !event.contains(&text));
        made.told.retain(|(event, _), _| event != kind);
        made
    }
}

pub(crate) fn config(role: Role) -> RuntimeConfig {
    RuntimeConfig {
        seed: 1,
        event_bytes: 1 << 20,
        role,
        ..RuntimeConfig::default()
    }
}

#[derive(Default)]
struct Sink {
    out: Vec<Left>,
    emitted: Vec<Left>,
    events: Vec<u8>,
}

impl Sink {
    fn take(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        for frame in frames.drain(..) {
            let (meta, bytes) = pool.memory().read(&frame);
            assert!(meta.next == 0 && !meta.kind.is_notice(), "{meta:?}");
            let left = Left {
                time: meta.time.0,
                side: meta.side as u8,
                link: meta.link,
                sequence: meta.sequence,
                unit: meta.unit,
                bytes: bytes.to_vec(),
            };
            match meta.flags & frame_flags::EMITTED {
                0 => self.out.push(left),
                _ => self.emitted.push(left),
            }
            pool.give(frame);
        }
    }

    fn hear(&mut self, log: &mut weir_nf::EventLog) {
        self.events.extend_from_slice(log.lines());
        assert_eq!(log.lost(), 0);
        log.clear();
    }

    fn made(self, report: Report, states: Option<Vec<FunctionState>>) -> Made {
        assert!(report.balances(), "{report:?}");
        assert_eq!(report.bad_notices, 0);
        let text = String::from_utf8(self.events).unwrap();
        let mut told: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for line in text.lines() {
            let field = |name: &str| {
                let rest = line.split_once(&format!("\"{name}\":"));
                let value = rest.and_then(|(_, rest)| rest.split([',', '}']).next());
                value.unwrap_or("").trim_matches('"').to_owned()
            };
            let of = (field("event_type"), field("flow_id"));
            told.entry(of).or_default().push(line.to_owned());
        }
        Made {
            out: self.out,
            emitted: self.emitted,
            events: event_lines(&text),
            told,
            states,
            report,
        }
    }
}

/// The chain as written, on one runtime.
pub(crate) fn as_written(chain: &Chain, packets: &[(FrameMeta, Vec<u8>)]) -> Made {
    line(vec![chain.stage.clone()], packets, 0)
}

/// Number of an engine's stages: those of the plan one after another.
pub(crate) fn is_line(plan: &Plan) -> bool {
    let alone = |step: &Step| matches!(step, Step::Stage(stage) if stage.instances <= 1);
    plan.steps.iter().all(alone)
}

/// The chain by a plan whose steps are one stage each, on this thread, where
/// later stages take portions of any size.
pub(crate) fn by_line(
    chain: &Chain,
    plan: &Plan,
    packets: &[(FrameMeta, Vec<u8>)],
    portions: u64,
) -> Made {
    let stages = plan.stages(&chain.stage).unwrap();
    line(stages.into_iter().flatten().collect(), packets, portions)
}

struct Line {
    stages: Vec<Runtime>,
    pool: FramePool,
    /// What waits before each stage, and behind the last one.
    queues: Vec<Vec<Frame>>,
    portions: u64,
    sink: Sink,
}

impl Line {
    fn step(&mut self, i: usize, portion: usize) {
        let mut input = core::mem::take(&mut self.queues[i]);
        let rest = input.split_off(portion.min(input.len()));
        let output = &mut self.queues[i + 1];
        self.stages[i].process(&mut self.pool, &mut input, output);
        input.extend(rest);
        self.queues[i] = input;
        self.sink.hear(self.stages[i].events());
    }

    fn run(&mut self) {
        loop {
            self.step(0, usize::MAX);
            for i in 1..self.stages.len() {
                while !self.queues[i].is_empty() {
                    self.portions = self.portions.wrapping_mul(6_364_136_223_846_793_005) | 1;
                    let portion = (self.portions >> 33) as usize % 90 + 1;
                    self.step(i, portion);
                }
            }
            if let Some(out) = self.queues.last_mut() {
                self.sink.take(&mut self.pool, out);
            }
            if self.queues[0].is_empty() && !self.stages[0].waits_for_frames() {
                return;
            }
        }
    }
}

fn line(
    stages: Vec<weir_nf::host::Stage>,
    packets: &[(FrameMeta, Vec<u8>)],
    portions: u64,
) -> Made {
    let last = stages.len() - 1;
    let runtimes = stages.iter().enumerate().map(|(i, stage)| {
        let role = match i {
            _ if last == 0 => Role::Alone,
            0 => Role::First(Rest::of(&stages[1..]).unwrap()),
            i => Role::later(&stages, i == last),
        };
        Runtime::new(stage, config(role)).unwrap()
    });
    let mut line = Line {
        stages: runtimes.collect(),
        pool: FramePool::with_layout(MemoryLayout::default()),
        queues: Vec::new(),
        portions: portions | 1,
        sink: Sink::default(),
    };
    line.queues.resize_with(stages.len() + 1, Vec::new);
    for burst in packets.chunks(BURST) {
        let frames = frames_of(burst, &mut line.pool);
        line.queues[0].extend(frames);
        line.run();
    }
    line.run();
    let states = line.stages.iter().flat_map(Runtime::states);
    let mut states: Vec<FunctionState> = states.collect();
    states.sort();
    let mut told = last == 0;
    while !told {
        let (queue, sink) = (&mut line.queues[1], &mut line.sink);
        let first = &mut line.stages[0];
        told = first.finish_first(&mut line.pool, Time::ZERO, queue, |log| sink.hear(log));
        line.run();
    }
    for stage in &mut line.stages {
        assert!(last == 0 || stage.active_flows() == 0, "all ends have come");
        let sink = &mut line.sink;
        stage.finish_with(&mut line.pool, Time::ZERO, |log| sink.hear(log));
    }
    assert_eq!(line.pool.outstanding(), 0, "frames leaked");
    let reports: Vec<Report> = line.stages.iter().map(Runtime::report).collect();
    line.sink.made(Report::chain(&reports), Some(states))
}

/// The chain by any plan, with a thread per stage; the number of threads, too.
pub(crate) fn by_threads(
    chain: &Chain,
    plan: Plan,
    packets: &[(FrameMeta, Vec<u8>)],
) -> (Made, usize) {
    let stages = plan.stages(&chain.stage).unwrap();
    let settings = PipelineSettings {
        pace: Pace::default(),
        engine: config(Role::Alone),
        ..PipelineSettings::default()
    };
    let mut executor = Pipeline::start(
        vec![ChainPlan {
            plan,
            stages,
            texts: Vec::new(),
        }],
        settings,
    )
    .unwrap();
    let mut sink = Sink::default();
    let mut bursts = packets.chunks(BURST).peekable();
    let mut out = Vec::new();
    while bursts.peek().is_some() || !executor.is_over() {
        if executor.room() >= BURST
            && let Some(burst) = bursts.next()
        {
            let mut frames = frames_of(burst, executor.pool());
            executor.take(0, &mut frames);
        } else if bursts.peek().is_none() {
            executor.stop();
        }
        executor.step(&mut out, &mut sink.events).unwrap();
        executor.parker().inspect(|park| park.wake_others());
        std::thread::yield_now();
        sink.take(executor.pool(), &mut out);
    }
    let mut end = executor.end();
    assert_eq!(end.leaked, 0);
    let chain = end.chains.remove(0);
    (sink.made(chain.report, None), chain.threads.len())
}

/// In which order what a plan makes must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// Packets of all flows together, not only of each.
    packets: bool,
    /// Packets that functions made: where one makes them.
    emitted: bool,
    /// Events of a type and flow: where no two functions write the same type.
    events: bool,
}

impl Order {
    /// What the plan promises.
    pub(crate) fn of(plan: &Plan) -> Order {
        let nodes = &plan.written.nodes;
        let balanced = plan.steps.iter().flat_map(Step::stages);
        let mut balanced = balanced.filter(|stage| stage.balance == Balance::Flow);
        let packets = balanced.all(|stage| stage.instances <= 1);
        let emitters = nodes.iter().filter(|node| node.effects.emits).count();
        // Functions of one type of event: `alert`.
        let type_of = |kind: &str| match kind {
            "ids" | "url-validator" | "firewall" | "udp-whitelist" => "alert".to_owned(),
            other => other.to_owned(),
        };
        let writers = nodes.iter().filter(|node| node.effects.events);
        let mut types: Vec<String> = writers.map(|node| type_of(&node.kind)).collect();
        let all = types.len();
        types.sort_unstable();
        types.dedup();
        Order {
            packets,
            emitted: packets && emitters <= 1,
            events: types.len() == all,
        }
    }
}

fn first_difference<T: PartialEq>(a: &[T], b: &[T]) -> Option<usize> {
    let differs = a.iter().zip(b).position(|(a, b)| a != b);
    differs.or((a.len() != b.len()).then_some(a.len().min(b.len())))
}

#[track_caller]
fn same_packets(written: &[Left], planned: &[Left], ordered: bool, about: &str) {
    if ordered {
        if let Some(at) = first_difference(written, planned) {
            panic!(
                "{about}: packet {at} of {} differs, of {} by the plan:\n{:?}\n{:?}",
                written.len(),
                planned.len(),
                written.get(at),
                planned.get(at)
            );
        }
        return;
    }
    let flows = |all: &[Left]| {
        let mut flows: BTreeMap<_, Vec<Left>> = BTreeMap::new();
        for left in all {
            flows.entry(left.unit).or_default().push(left.clone());
        }
        // Packets without a flow have no order among instances.
        if let Some(packets) = flows.get_mut(&0) {
            packets.sort();
        }
        flows
    };
    let (written, planned) = (flows(written), flows(planned));
    for (unit, packets) in &written {
        let other = planned.get(unit).map_or(&[][..], Vec::as_slice);
        if let Some(at) = first_difference(packets, other) {
            panic!(
                "{about}: packet {at} of {} of unit {unit} differs, of {} by the plan:\n{:?}\n{:?}",
                packets.len(),
                other.len(),
                packets.get(at),
                other.get(at)
            );
        }
    }
    assert_eq!(written.len(), planned.len(), "{about}");
}

fn sorted<T: Ord + Clone>(all: &[T]) -> Vec<T> {
    let mut sorted = all.to_vec();
    sorted.sort();
    sorted
}

/// A plan made what the chain as written does.
#[track_caller]
pub(crate) fn same(written: &Made, planned: &Made, order: Order, about: &str) {
    let (a, b) = (&written.report, &planned.report);
    for function in &a.functions {
        let found = b.functions.iter().find(|f| f.name == function.name);
        let mut other = found
            .unwrap_or_else(|| panic!("{about}: no {}", function.name))
            .clone();
        other.cycles = function.cycles;
        other.tally.sort();
        let mut function = function.clone();
        function.tally.sort();
        assert_eq!(function, other, "{about}");
    }
    assert_eq!(sorted(&a.drops), sorted(&b.drops), "{about}");
    assert_eq!(sorted(&a.malformed), sorted(&b.malformed), "{about}");
    same_packets(&written.out, &planned.out, order.packets, about);
    if order.emitted {
        same_packets(&written.emitted, &planned.emitted, true, about);
    } else {
        let (a, b) = (sorted(&written.emitted), sorted(&planned.emitted));
        same_packets(&a, &b, true, about);
    }
    let odd = |a: &Made, b: &Made| a.events.iter().find(|e| !b.events.contains(e)).cloned();
    assert_eq!(
        (odd(written, planned), odd(planned, written)),
        (None, None),
        "{about}"
    );
    assert_eq!(written.events.len(), planned.events.len(), "{about}");
    if order.events {
        assert!(written.told == planned.told, "{about}: order of events");
    }
    if let (Some(a), Some(b)) = (&written.states, &planned.states) {
        let found = first_difference(a, b);
        let at = |all: &[FunctionState]| found.and_then(|at| all.get(at).cloned());
        assert_eq!(at(a), at(b), "{about}: states");
    }
    let counts = |r: &Report| {
        [
            r.packets_in,
            r.bytes_in,
            r.packets_out,
            r.bytes_out,
            r.emitted,
            r.held,
            r.events,
            r.events_lost,
            r.flows.seen,
            r.flows.active,
        ]
    };
    assert_eq!(counts(a), counts(b), "{about}");
    assert_eq!(a.flows.ended, b.flows.ended, "{about}");
}
