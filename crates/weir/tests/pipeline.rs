//! Plans over real captures: however a chain is cut, and whatever passes are
//! on, packets, events and counts are those of the chain as written.

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use support::compare::{Seen, event_lines, seen_of};
use support::{example, traces};
use weir::driver::{ChainPlan, Crew, Pace, Pipeline, PipelineSettings};
use weir_graph::compile::{Balance, Mode, Options, Parallel, Step, compile};
use weir_io::port::{MergedInput, PortSpec, Received};
use weir_nf::Sources;
use weir_packet::{Frame, FramePool, MemoryLayout, Side};
use weir_runtime::{Report, Runtime, RuntimeConfig};

struct Beside(PathBuf);

impl Sources for Beside {
    fn text(&mut self, name: &str) -> Result<String, String> {
        std::fs::read_to_string(self.0.join(name)).map_err(|error| error.to_string())
    }
}

fn load(path: &str) -> weir_graph::Chain {
    let text = std::fs::read_to_string(path).unwrap();
    let folder = Path::new(path).parent().unwrap().to_owned();
    load_text(&text, folder)
}

fn load_text(text: &str, folder: PathBuf) -> weir_graph::Chain {
    let set = ["flows.max=60000".parse().unwrap()];
    let input = weir_graph::Input {
        name: "chain.yaml",
        text,
        kinds: weir_functions::kinds(),
        overrides: &set,
        seed: 1,
    };
    let file = weir_graph::load(&input, &mut Beside(folder));
    let mut file = file.unwrap_or_else(|faults| panic!("{}", weir_graph::render(&faults)));
    file.chains.remove(0)
}

/// What a chain made of its input.
#[derive(Clone)]
struct Made {
    out: BTreeMap<Seen, Vec<Vec<u8>>>,
    /// All packets in the order in which they came out.
    all: Vec<Vec<u8>>,
    events: Vec<String>,
    report: Report,
}

impl Made {
    /// Without events of a type.
    fn without(&self, kind: &str) -> Made {
        let text = format!("\"event_type\":\"{kind}\"");
        let mut made = self.clone();
        made.events.retain(|event| !event.contains(&text));
        made
    }
}

fn config() -> RuntimeConfig {
    RuntimeConfig {
        seed: 1,
        event_bytes: 1 << 20,
        ..RuntimeConfig::default()
    }
}

fn open(inputs: &[(PathBuf, Side)]) -> MergedInput {
    let ports = inputs.iter().enumerate().map(|(number, (path, side))| {
        let spec = PortSpec::Capture(path.clone());
        spec.open_input(number as u8, *side).unwrap()
    });
    MergedInput::new(ports.collect())
}

#[derive(Default)]
struct Sink {
    out: BTreeMap<Seen, Vec<Vec<u8>>>,
    all: Vec<Vec<u8>>,
    events: Vec<u8>,
}

impl Sink {
    fn take(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        for frame in frames.drain(..) {
            let (meta, bytes) = pool.memory().read(&frame);
            let seen = seen_of(bytes, meta.link);
            self.all.push(bytes.to_vec());
            self.out.entry(seen).or_default().push(bytes.to_vec());
            pool.give(frame);
        }
    }

    /// Packets without a flow of their own (a fragment's may be any) have no
    /// order among instances.
    fn made(mut self, report: Report) -> Made {
        for (seen, packets) in &mut self.out {
            if seen.contains(&None) {
                packets.sort();
            }
        }
        Made {
            out: self.out,
            all: self.all,
            events: event_lines(std::str::from_utf8(&self.events).unwrap()),
            report,
        }
    }
}

/// The chain as written, on one runtime.
fn as_written(chain: &weir_graph::Chain, inputs: &[(PathBuf, Side)]) -> Made {
    let mut pool = FramePool::with_layout(MemoryLayout::default());
    let mut input = open(inputs);
    let mut runtime = Runtime::new(&chain.stage, config()).unwrap();
    let mut sink = Sink::default();
    let (mut frames, mut out) = (Vec::new(), Vec::new());
    loop {
        let received = input.receive(&mut pool, &mut frames, 64);
        runtime.process(&mut pool, &mut frames, &mut out);
        sink.take(&mut pool, &mut out);
        sink.events.extend_from_slice(runtime.events().lines());
        runtime.events().clear();
        if !matches!(received, Ok(Received::More)) {
            break;
        }
    }
    let events = &mut sink.events;
    runtime.finish_with(&mut pool, weir_packet::Time::ZERO, |log| {
        events.extend_from_slice(log.lines());
        log.clear();
    });
    assert_eq!(pool.outstanding(), 0);
    sink.made(runtime.report())
}

/// The chain by a plan; gives the number of its threads, too.
fn by_plan(
    chain: &weir_graph::Chain,
    options: &Options,
    inputs: &[(PathBuf, Side)],
) -> (Made, usize) {
    let plan = compile(&chain.stage.chain, &chain.graph, options);
    let plan = plan.unwrap_or_else(|faults| panic!("{faults:?}"));
    let stages = plan.stages(&chain.stage).unwrap();
    let settings = PipelineSettings {
        pace: Pace::default(),
        engine: config(),
    };
    let mut crew = Pipeline::start(vec![ChainPlan { plan, stages }], settings).unwrap();
    let mut input = open(inputs);
    let mut sink = Sink::default();
    let (mut frames, mut out) = (Vec::new(), Vec::new());
    let mut ended = false;
    while !ended || !crew.is_over() {
        let room = crew.room().min(64);
        if !ended && room > 0 {
            let received = input.receive(crew.pool(), &mut frames, room);
            ended = !matches!(received, Ok(Received::More));
            crew.take(0, &mut frames);
        } else if ended {
            crew.stop();
        }
        crew.step(&mut out, &mut sink.events, true).unwrap();
        sink.take(crew.pool(), &mut out);
    }
    let mut end = crew.end();
    assert_eq!(end.leaked, 0);
    let chain = end.chains.remove(0);
    assert!(chain.report.balances(), "{:?}", chain.report);
    (sink.made(chain.report), chain.threads.len())
}

fn sorted(counts: &[(String, u64)]) -> Vec<(String, u64)> {
    let mut sorted = counts.to_vec();
    sorted.sort();
    sorted
}

#[track_caller]
fn same(written: &Made, planned: &Made, about: &str) {
    for (seen, packets) in &written.out {
        let other = planned.out.get(seen);
        assert!(
            Some(packets) == other,
            "{about}: packets of {seen:?} differ: {} {:?}",
            packets.len(),
            other.map(Vec::len)
        );
    }
    assert_eq!(written.out.len(), planned.out.len(), "{about}");
    let (a, b) = (&written.report, &planned.report);
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
    assert_eq!(sorted(&a.drops), sorted(&b.drops), "{about}");
    assert_eq!(sorted(&a.malformed), sorted(&b.malformed), "{about}");
    assert_eq!(a.flows.ended, b.flows.ended, "{about}");
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
    let odd = |a: &Made, b: &Made| a.events.iter().find(|e| !b.events.contains(e)).cloned();
    assert_eq!(
        (odd(written, planned), odd(planned, written)),
        (None, None),
        "{about}"
    );
    assert_eq!(written.events.len(), planned.events.len(), "{about}");
}

fn pipeline(passes: bool) -> Options {
    Options {
        mode: Mode::Pipeline,
        parallel: Parallel::Never,
        consolidate: passes,
        hoist: passes,
        ..Options::default()
    }
}

/// Ways of running a chain.
fn ways(chain: &weir_graph::Chain) -> Vec<(String, Options)> {
    let mut ways = Vec::new();
    for passes in [false, true] {
        let name = |what: &str| format!("{what}, passes {passes}");
        let whole = Options {
            mode: Mode::RunToCompletion,
            ..pipeline(passes)
        };
        ways.push((name("rtc"), whole));
        ways.push((name("pipeline"), pipeline(passes)));
        let always = Options {
            parallel: Parallel::Always,
            ..pipeline(passes)
        };
        ways.push((name("parallel"), always));
    }
    // Cut by hand in the middle, and two instances of each stage that may have
    // them.
    let names: Vec<&str> = chain.graph.nodes.iter().map(|n| n.name.as_str()).collect();
    if let Some(middle) = names.get(names.len() / 2).filter(|_| names.len() > 1) {
        let cut = Options {
            cuts: vec![(*middle).to_owned()],
            ..pipeline(true)
        };
        let allowed =
            |options: &Options| compile(&chain.stage.chain, &chain.graph, options).is_ok();
        if allowed(&cut) {
            ways.push((format!("cut at {middle}"), cut));
        }
        // What these know of all flows together each instance finds out.
        let of_all = |kind: &str| ["asset-monitor", "url-counter"].contains(&kind);
        let nodes = chain.graph.nodes.iter().skip(1);
        for node in nodes.filter(|node| !of_all(&node.kind)) {
            let name = &node.name;
            let mut two = pipeline(false);
            two.instances.insert(name.clone(), 2);
            if allowed(&two) {
                ways.push((format!("two of {name}"), two));
            }
        }
    }
    ways
}

fn check(chain: &weir_graph::Chain, inputs: &[(PathBuf, Side)], about: &str) -> [usize; 3] {
    let written = as_written(chain, inputs);
    let mut found = [0; 3];
    for (way, options) in ways(chain) {
        let (planned, threads) = by_plan(chain, &options, inputs);
        let plan = compile(&chain.stage.chain, &chain.graph, &options).unwrap();
        let parallel = plan.steps.iter().any(|s| matches!(s, Step::Parallel(_)));
        let balanced = plan
            .steps
            .iter()
            .flat_map(Step::stages)
            .any(|s| s.instances > 1);
        let about = format!("{about}, {way}");
        if balanced {
            // Which packet of several flows shows a host first is left open.
            same(&written.without("asset"), &planned.without("asset"), &about);
        } else {
            same(&written, &planned, &about);
        }
        found[0] += usize::from(threads > 1);
        found[1] += usize::from(parallel);
        found[2] += usize::from(balanced);
    }
    found
}

const CHAINS: [&str; 7] = [
    "monitor.yaml",
    "http.yaml",
    "count.yaml",
    "ids.yaml",
    "webedge.yaml",
    "branch.yaml",
    "edge.yaml",
];

#[test]
fn examples_come_out_as_written() {
    let captures = |names: &[(&str, Side)]| -> Vec<(PathBuf, Side)> {
        let path = |name: &str| PathBuf::from(support::capture(name));
        names
            .iter()
            .map(|(name, side)| (path(name), *side))
            .collect()
    };
    let mut found = [0; 3];
    for name in CHAINS {
        let chain = load(&example(name));
        for names in [
            &[("mixed.pcapng", Side::Inside)][..],
            &[("web.pcap", Side::Inside)],
            &[("attack.pcap", Side::Inside)],
            &[
                ("edge-inside.pcap", Side::Inside),
                ("edge-outside.pcap", Side::Outside),
            ],
        ] {
            let more = check(&chain, &captures(names), &format!("{name} {}", names[0].0));
            found.iter_mut().zip(more).for_each(|(sum, n)| *sum += n);
        }
    }
    eprintln!("threads, parallel, balanced: {found:?}");
    assert!(found.iter().all(|n| *n > 0), "{found:?}");
}

#[test]
fn captures_come_out_as_written() {
    let Some(traces) = traces() else { return };
    for name in [
        "a-mixed/pcapplusplus__example.pcap",
        "a-mixed/try-zeek__sumstat.pcap",
        "b-http/zeek__206_example_c.pcap",
        "b-http/zeek__methods.pcap",
    ] {
        let input = [(traces.join("traces").join(name), Side::Inside)];
        for chain in CHAINS {
            check(&load(&example(chain)), &input, &format!("{name} {chain}"));
        }
    }
}

/// Stages of functions that keep nothing, with instances that are given bursts
/// in turn: all packets come out in the order as written, not those of a flow
/// alone.
#[test]
fn instances_in_turn_come_out_as_written() {
    let text = "chain: turns\nnfs:\n  - monitor\n  - ip-check\n  - mac-swap\n  - asset-monitor\n";
    let chain = load_text(text, PathBuf::from("."));
    let mut inputs = vec![
        vec![(
            PathBuf::from(support::capture("mixed.pcapng")),
            Side::Inside,
        )],
        vec![(PathBuf::from(support::capture("web.pcap")), Side::Inside)],
        vec![
            (support::capture("edge-inside.pcap").into(), Side::Inside),
            (support::capture("edge-outside.pcap").into(), Side::Outside),
        ],
    ];
    if let Some(traces) = traces() {
        for name in [
            "a-mixed/pcapplusplus__example.pcap",
            "b-http/zeek__methods.pcap",
        ] {
            inputs.push(vec![(traces.join("traces").join(name), Side::Inside)]);
        }
    }
    // One stage of both functions, and a stage each, whose ways meet.
    let cut = |stages: &[&str], instances: &[(&str, u16)]| Options {
        cuts: stages.iter().map(|name| (*name).to_owned()).collect(),
        instances: (instances.iter())
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect(),
        ..pipeline(true)
    };
    let ways = [
        cut(&["ip-check", "asset-monitor"], &[("ip-check", 2)]),
        cut(
            &["ip-check", "mac-swap", "asset-monitor"],
            &[("ip-check", 2), ("mac-swap", 3)],
        ),
        cut(&["ip-check"], &[]),
    ];
    let mut packets = 0;
    for input in &inputs {
        let written = as_written(&chain, input);
        for (number, options) in ways.iter().enumerate() {
            let plan = compile(&chain.stage.chain, &chain.graph, options).unwrap();
            let stages = plan.steps.iter().flat_map(Step::stages);
            let several: Vec<Balance> = stages
                .filter(|stage| stage.instances > 1)
                .map(|stage| stage.balance)
                .collect();
            assert_eq!(several, [Balance::RoundRobin; 2][..[1, 2, 0][number]]);
            let (planned, threads) = by_plan(&chain, options, input);
            // The second way has one that only carries frames.
            assert_eq!(threads, [4, 8, 2][number]);
            let about = format!("{:?}, way {number}", input[0].0);
            same(&written, &planned, &about);
            assert!(written.all == planned.all, "{about}: another order");
        }
        packets += written.all.len();
    }
    assert!(packets > 300, "{packets}");
}
