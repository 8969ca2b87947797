//! An audit finds functions that lie, also on threads.

use weir::driver::{Cluster, ClusterSettings, Executor as _, Workers, WorkersSettings};
use weir_functions::nop::Settings;
use weir_io::port::{PortSpec, Received};
use weir_nf::Sources;
use weir_nf::host::Kind;
use weir_nf::prelude::*;
use weir_packet::{Frame, FramePool};
use weir_runtime::{Lie, RuntimeConfig};

/// Says that it writes nothing, and writes the payload.
#[derive(Debug)]
struct Liar;

impl NetworkFunction for Liar {
    type Settings = Settings;
    type State = ();
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        needs: Needs::Flow,
        ..Descriptor::new("liar", "writes what it does not say")
    };

    fn new(_: Settings, _: &mut SetUp<'_>) -> Result<Liar, SettingsError> {
        Ok(Liar)
    }

    fn process(
        &self,
        packet: &mut Packet<'_>,
        _: &mut Flow<'_, Self>,
        _: &mut Context<'_>,
    ) -> Verdict {
        if let Some(first) = packet.payload_mut().first_mut() {
            *first ^= 1;
        }
        Verdict::Pass
    }
}

struct Nothing;

impl Sources for Nothing {
    fn text(&mut self, name: &str) -> Result<String, String> {
        Err(format!("there is no {name}"))
    }
}

fn stage() -> weir_nf::host::Stage {
    let kinds = [Kind::of::<Liar>()];
    let input = weir_graph::Input {
        name: "chain.yaml",
        text: "chain: c\nflows: {max: 1000}\nnfs: [liar]\n",
        kinds: &kinds,
        overrides: &[],
        seed: 1,
    };
    let file = weir_graph::load(&input, &mut Nothing).unwrap();
    file.chains[0].stage.clone()
}

fn packets(pool: &mut FramePool) -> Vec<Frame> {
    let text = "gen:flows=10,packets=100,size=200";
    let spec: (Option<&str>, PortSpec) = PortSpec::parse(text).unwrap();
    let mut input = spec.1.open_input(0, Side::Inside).unwrap();
    let mut frames = Vec::new();
    while matches!(input.receive(pool, &mut frames, 64), Ok(Received::More)) {}
    frames
}

fn found(lies: &[Lie]) {
    let lie = lies.first().expect("nothing was found");
    assert_eq!(lie.nf, "liar", "{lie}");
    assert!(lie.what.contains("payload"), "{lie}");
}

fn engine() -> RuntimeConfig {
    RuntimeConfig {
        audit: true,
        ..RuntimeConfig::default()
    }
}

#[test]
fn of_workers() {
    let settings = WorkersSettings {
        workers: 2,
        engine: engine(),
        ..WorkersSettings::default()
    };
    let mut executor = Workers::start(&[stage()], &settings).unwrap();
    let mut frames = packets(executor.pool());
    executor.take(0, &mut frames);
    let (mut out, mut events) = (Vec::new(), Vec::new());
    while !executor.is_over() {
        executor.step(&mut out, &mut events).unwrap();
        executor.parker().inspect(|park| park.wake_others());
        std::thread::yield_now();
        executor.stop();
    }
    assert_eq!(out.len(), 100);
    executor.pool().give_all(&mut out);
    found(&executor.end().lies);
}

#[test]
fn of_runtimes() {
    let settings = ClusterSettings {
        runtimes: 2,
        most_runtimes: 2,
        engine: engine(),
        ..ClusterSettings::default()
    };
    let mut cluster = Cluster::start(&[stage()], settings).unwrap();
    let mut frames = packets(&mut cluster.pool);
    cluster.take(0, &mut frames);
    let (mut out, mut events) = (Vec::new(), Vec::new());
    while !cluster.is_quiet() {
        cluster.step(&mut out, &mut events, true).unwrap();
    }
    assert_eq!(out.len(), 100);
    cluster.pool.give_all(&mut out);
    let (end, _) = cluster.finish().unwrap();
    found(&end.lies);
}
