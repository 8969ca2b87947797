//! A function that panics ends a run of several threads with its name; nothing
//! hangs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use weir::driver::{
    ChainPlan, ExecError, Executor, Pace, Pipeline, PipelineSettings, Workers, WorkersSettings,
};
use weir_functions::nop::Settings;
use weir_graph::compile::{Balance, Mode, Options, Parallel, compile};
use weir_io::port::{PortSpec, Received};
use weir_nf::Sources;
use weir_nf::host::Kind;
use weir_nf::prelude::*;

static SEEN: AtomicU32 = AtomicU32::new(0);

/// Panics when all of its kind have seen a thousand packets. `FLOW`: looks at
/// flows, so that instances get packets by flow, else in turn.
#[derive(Debug)]
struct Bad<const FLOW: bool>;

impl<const FLOW: bool> NetworkFunction for Bad<FLOW> {
    type Settings = Settings;
    type State = ();
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        needs: if FLOW { Needs::Flow } else { Needs::Network },
        ..Descriptor::new(if FLOW { "bad" } else { "bad-alone" }, "panics")
    };

    fn new(_: Settings, _: &mut SetUp<'_>) -> Result<Bad<FLOW>, SettingsError> {
        Ok(Bad)
    }

    fn process(&self, _: &mut Packet<'_>, _: &mut Flow<'_, Self>, _: &mut Context<'_>) -> Verdict {
        let seen = SEEN.fetch_add(1, Ordering::Relaxed);
        assert!(seen < 1_000, "a thousand is enough");
        Verdict::Pass
    }

    fn without_flow(&self, _: &mut Packet<'_>, _: &mut Context<'_>) -> Verdict {
        let seen = SEEN.fetch_add(1, Ordering::Relaxed);
        assert!(seen < 1_000, "a thousand is enough");
        Verdict::Pass
    }
}

struct Nothing;

impl Sources for Nothing {
    fn text(&mut self, name: &str) -> Result<String, String> {
        Err(format!("there is no {name}"))
    }
}

fn chain(bad: &str) -> weir_graph::Chain {
    let mut kinds = weir_functions::kinds().to_vec();
    kinds.push(Kind::of::<Bad<true>>());
    kinds.push(Kind::of::<Bad<false>>());
    let text = format!("chain: c\nflows: {{max: 1000}}\nnfs: [flow-nop, {bad}, nop]\n");
    let input = weir_graph::Input {
        name: "chain.yaml",
        text: &text,
        kinds: &kinds,
        overrides: &[],
        seed: 1,
    };
    weir_graph::load(&input, &mut Nothing)
        .unwrap()
        .chains
        .remove(0)
}

/// Drives until it fails, which it must soon.
fn failure(executor: &mut impl Executor) -> ExecError {
    let spec: (Option<&str>, PortSpec) = PortSpec::parse("gen:flows=10,packets=1000000").unwrap();
    let mut input = spec.1.open_input(0, Side::Inside).unwrap();
    let (mut frames, mut out, mut events) = (Vec::new(), Vec::new(), Vec::new());
    let start = Instant::now();
    let mut ended = false;
    while start.elapsed() < Duration::from_secs(30) {
        let room = executor.room().min(64);
        if ended {
            executor.stop();
        } else if room > 0 {
            let received = input.receive(executor.pool(), &mut frames, room);
            ended = !matches!(received, Ok(Received::More));
            executor.take(0, &mut frames);
        }
        if let Err(error) = executor.step(&mut out, &mut events) {
            return error;
        }
        executor.parker().inspect(|park| park.wake_others());
        std::thread::yield_now();
        executor.pool().give_all(&mut out);
        assert!(!executor.is_over(), "it ended well");
    }
    panic!("it hangs");
}

/// What a plan ends with whose second stage, with so many instances, panics.
fn failure_of_plan(bad: &str, instances: u16, balance: Balance) -> String {
    let chain = chain(bad);
    let options = Options {
        mode: Mode::Pipeline,
        parallel: Parallel::Never,
        instances: [(bad.to_owned(), instances)].into(),
        ..Options::default()
    };
    let plan = compile("c", &chain.graph, &options).unwrap();
    let stages = plan.stages(&chain.stage).unwrap();
    assert_eq!(stages.len(), 3);
    let planned = &plan.steps[1].stages()[0];
    assert_eq!((planned.instances, planned.balance), (instances, balance));
    let settings = PipelineSettings {
        pace: Pace::default(),
        ..PipelineSettings::default()
    };
    let mut executor = Pipeline::start(vec![ChainPlan { plan, stages }], settings).unwrap();
    failure(&mut executor).to_string()
}

#[test]
fn of_a_stage() {
    let error = failure_of_plan("bad", 1, Balance::Flow);
    for part in ["stage 2 (bad) of", "died of a bug", "a thousand is enough"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn of_an_instance() {
    for (bad, balance) in [("bad", Balance::Flow), ("bad-alone", Balance::RoundRobin)] {
        let error = failure_of_plan(bad, 2, balance);
        for part in [
            &format!("stage 2 ({bad}), instance "),
            " of 2, of chain c",
            "died of a bug",
            "a thousand is enough",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }
}

#[test]
fn of_a_worker() {
    let settings = WorkersSettings {
        workers: 2,
        ..WorkersSettings::default()
    };
    let mut executor = Workers::start(&[chain("bad").stage], &settings).unwrap();
    let error = failure(&mut executor).to_string();
    for part in ["worker ", "died of a bug", "a thousand is enough"] {
        assert!(error.contains(part), "{error}");
    }
}
