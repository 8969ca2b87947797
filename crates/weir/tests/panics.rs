//! A function that panics ends a run of several threads with its name; nothing
//! hangs. Behind a switch the other runtimes go on.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use weir::driver::{
    ChainPlan, Cluster, ClusterEnd, ClusterSettings, ExecError, Executor, Pace, Pipeline,
    PipelineSettings, Workers, WorkersSettings,
};
use weir_functions::nop::Settings;
use weir_graph::compile::{Balance, Mode, Options, Parallel, compile};
use weir_io::port::{PortSpec, Received};
use weir_nf::Sources;
use weir_nf::host::Kind;
use weir_nf::prelude::*;
use weir_protocol::RuntimeId;
use weir_protocol::message::{MoveMode, Selection};

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

weir_nf::labels! {
    /// Why [`Dies`] drops.
    enum Reason: Counter<Packets> {
        /// It is one of ten.
        Tenth = "tenth",
    }
}

/// By how often they panic.
static APPLIED: [AtomicU32; 4] = [const { AtomicU32::new(0) }; 4];

/// Panics so many times: each time when all of its kind have seen a thousand packets
/// more. Drops one of ten before.
#[derive(Debug)]
struct Dies<const TIMES: u32>;

impl<const TIMES: u32> NetworkFunction for Dies<TIMES> {
    type Settings = Settings;
    type State = ();
    type FlowState = ();
    type Stats = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        needs: Needs::Flow,
        drops: Reason::TABLE,
        ..Descriptor::new(if TIMES == 1 { "once" } else { "thrice" }, "panics")
    };

    fn new(_: Settings, _: &mut SetUp<'_>) -> Result<Dies<TIMES>, SettingsError> {
        Ok(Dies)
    }

    fn process(&self, _: &mut Packet<'_>, _: &mut Flow<'_, Self>, _: &mut Context<'_>) -> Verdict {
        let seen = APPLIED[TIMES as usize].fetch_add(1, Ordering::Relaxed);
        let dies = seen.is_multiple_of(1_000) && (1..=TIMES).contains(&(seen / 1_000));
        assert!(!dies, "a thousand is enough");
        match seen % 10 {
            0 => Verdict::Drop(Reason::Tenth.into()),
            _ => Verdict::Pass,
        }
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
    kinds.push(Kind::of::<Dies<1>>());
    kinds.push(Kind::of::<Dies<3>>());
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
    while start.elapsed() < Duration::from_secs(120) {
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
    let mut executor = Pipeline::start(
        vec![ChainPlan {
            plan,
            stages,
            texts: Vec::new(),
        }],
        settings,
    )
    .unwrap();
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

/// Counts of a run of 20,000 packets over so many runtimes, some of which die of `bad`,
/// and how many packets left. In its second half the successors of the dead get all flows
/// of a runtime that lives.
fn survive(bad: &str, runtimes: u32) -> (ClusterEnd, usize) {
    let settings = ClusterSettings {
        runtimes,
        most_runtimes: runtimes,
        ..ClusterSettings::default()
    };
    let mut cluster = Cluster::start(&[chain(bad).stage], settings).unwrap();
    let spec: (Option<&str>, PortSpec) = PortSpec::parse("gen:flows=50,packets=20000").unwrap();
    let mut input = spec.1.open_input(0, Side::Inside).unwrap();
    let (mut frames, mut out, mut events) = (Vec::new(), Vec::new(), Vec::new());
    let start = Instant::now();
    let (mut ended, mut taken, mut left) = (false, 0, 0);
    let mut successors: Vec<RuntimeId> = Vec::new();
    assert!(cluster.places().iter().all(|place| place.deaths == 0));
    loop {
        assert!(start.elapsed() < Duration::from_secs(120), "it hangs");
        for id in (runtimes + 1..=2 * runtimes).map(RuntimeId) {
            if cluster.runs(id) && !successors.contains(&id) {
                successors.push(id);
                let mut others = (1..=runtimes).map(RuntimeId);
                let other = others.find(|other| cluster.runs(*other)).unwrap();
                let _ = cluster.move_units(None, (other, id), &Selection::All, MoveMode::Pull);
                // A script that names the dead one does not meet its successor.
                cluster.remove(RuntimeId(id.0 - runtimes));
                assert!(cluster.runs(id));
                let places = cluster.places();
                let its = places.iter().find(|place| place.id == id.0).unwrap();
                assert_eq!((its.place, its.state), (id.0 - runtimes, "ready"));
                assert_eq!(its.deaths, 1, "{places:?}");
            }
        }
        let waits = taken >= 10_000 && successors.is_empty();
        let room = cluster.room().min(64);
        if !ended && !waits && room > 0 {
            let received = input.receive(&mut cluster.pool, &mut frames, room);
            ended = !matches!(received, Ok(Received::More));
            taken += frames.len();
            cluster.take(0, &mut frames);
        }
        let worked = cluster.step(&mut out, &mut events, true).unwrap();
        left += out.len();
        cluster.pool.give_all(&mut out);
        if ended && !worked && cluster.is_quiet() {
            break;
        }
    }
    (cluster.finish().unwrap().0, left)
}

/// Holds the end of a run in which so many runtimes have died of a bug.
fn check_deaths(end: &ClusterEnd, deaths: usize) {
    let report = &end.reports[0];
    assert_eq!(report.packets_in, 20_000);
    assert!(report.balances(), "{report:?}");
    assert_eq!(end.count("suspected"), deaths as u64);
    assert!(end.count("unit_lost") > 0);
    assert_eq!(end.deaths.len(), deaths, "{:?}", end.deaths);
    for death in &end.deaths {
        for part in [
            "runtime ",
            "died of a bug",
            "a thousand is enough",
            "takes its place",
        ] {
            assert!(death.contains(part), "{death}");
        }
    }
    assert_eq!(end.leaked, 0, "frames leaked");
}

#[test]
fn a_runtime_that_dies_leaves_the_others_at_work_and_gets_a_successor() {
    let (end, left) = survive("once", 3);
    check_deaths(&end, 1);
    // The successor of one of 1, 2 and 3 has its id plus 3.
    let living = end.runtimes.iter().filter(|runtime| !runtime.died);
    let ids: Vec<u32> = living.map(|runtime| runtime.id.0).collect();
    let mut places: Vec<u32> = ids.iter().map(|id| (id - 1) % 3).collect();
    places.sort_unstable();
    assert_eq!(places, [0, 1, 2]);
    assert_eq!(ids.iter().filter(|id| **id > 3).count(), 1, "{ids:?}");
    let successor = end.runtimes.iter().find(|runtime| runtime.id.0 > 3);
    assert!(
        successor.is_some_and(|runtime| runtime.packets > 0),
        "{:?}",
        end.runtimes
    );
    let drops = &end.reports[0].drops;
    let drop = |name: &str| {
        let found = drops.iter().find(|(known, _)| known == name);
        found.map_or(0, |(_, n)| *n)
    };
    // What was on its way, and what it had dropped, has a name.
    assert!(
        drop("owner_lost") > 0 && drop("once.tenth") > 0,
        "{drops:?}"
    );
    let dead = end.runtimes.iter().filter(|runtime| runtime.died);
    assert!(dead.map(|runtime| runtime.packets).sum::<u64>() > 0);
    assert!(left > 15_000, "{left} {drops:?}");
}

#[test]
fn of_three_runtimes_in_turn_leaves_their_memory() {
    let (end, left) = survive("thrice", 5);
    check_deaths(&end, 3);
    // A second successor of one place starts after a pause, which the run may not last for.
    let living = end.runtimes.iter().filter(|runtime| !runtime.died);
    assert!((4..=5).contains(&living.count()), "{:?}", end.runtimes);
    assert!(left > 10_000, "{left} {:?}", end.reports[0].drops);
}
