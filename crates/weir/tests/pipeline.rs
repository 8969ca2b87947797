//! Plans over real captures: however a chain is cut, and whatever passes are
//! on, packets, events and counts are those of the chain as written.

mod support;

use std::path::{Path, PathBuf};

use support::planned::{Order, Packets, as_written, by_threads, read, same};
use support::{example, traces};
use weir_graph::compile::{Balance, Mode, Options, Parallel, Step, compile};
use weir_io::port::{MergedInput, PortSpec};
use weir_nf::Sources;
use weir_packet::Side;

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

fn open(inputs: &[(PathBuf, Side)]) -> Packets {
    let ports = inputs.iter().enumerate().map(|(number, (path, side))| {
        let spec = PortSpec::Capture(path.clone());
        spec.open_input(number as u8, *side).unwrap()
    });
    read(MergedInput::new(ports.collect()))
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
    let packets = open(inputs);
    let written = as_written(chain, &packets);
    let mut found = [0; 3];
    for (way, options) in ways(chain) {
        let plan = compile(&chain.stage.chain, &chain.graph, &options).unwrap();
        let (planned, threads) = by_threads(chain, plan.clone(), &packets);
        let order = Order::of(&plan);
        let parallel = plan.steps.iter().any(|s| matches!(s, Step::Parallel(_)));
        let balanced = plan
            .steps
            .iter()
            .flat_map(Step::stages)
            .any(|s| s.instances > 1);
        let about = format!("{about}, {way}");
        if balanced {
            // Which packet of several flows shows a host first is left open.
            let planned = planned.without("asset");
            same(&written.without("asset"), &planned, order, &about);
        } else {
            same(&written, &planned, order, &about);
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
    let mut came = 0;
    for input in &inputs {
        let packets = open(input);
        let written = as_written(&chain, &packets);
        for (number, options) in ways.iter().enumerate() {
            let plan = compile(&chain.stage.chain, &chain.graph, options).unwrap();
            let stages = plan.steps.iter().flat_map(Step::stages);
            let several: Vec<Balance> = stages
                .filter(|stage| stage.instances > 1)
                .map(|stage| stage.balance)
                .collect();
            assert_eq!(several, [Balance::RoundRobin; 2][..[1, 2, 0][number]]);
            let order = Order::of(&plan);
            let (planned, threads) = by_threads(&chain, plan, &packets);
            // The second way has one that only carries frames.
            assert_eq!(threads, [4, 8, 2][number]);
            let about = format!("{:?}, way {number}", input[0].0);
            same(&written, &planned, order, &about);
            assert!(written.out == planned.out, "{about}: another order");
        }
        came += written.out.len();
    }
    assert!(came > 300, "{came}");
}
