//! What the switch's thread makes of runtimes that die and get successors.

use std::time::{Duration, Instant};

use weir_ctl::events::{About, Event};
use weir_exec::Node as _;
use weir_exec::frames::{LARGE_SHARE, SHARE};
use weir_functions::nop::Settings;
use weir_graph::ChainFile;
use weir_nf::Sources;
use weir_nf::host::Kind;
use weir_nf::prelude::*;
use weir_packet::{Craft, FlowKey, FrameMeta};
use weir_protocol::in_process::FRAMES_ON_THE_WAY;
use weir_runtime::RuntimeConfig;

use super::super::runtime_node::{RuntimeNode, RuntimePlan};
use super::super::spread::Spread;
use super::super::supply::Supply;
use super::super::wiring::Seat;
use super::member::State;
use super::*;

/// Port of a client whose packets are deadly.
const DEADLY: u16 = 666;
/// Port of one whose flow is deadly when it ends.
const DEADLY_END: u16 = 667;

/// Panics where it is asked to.
#[derive(Debug)]
struct Mortal;

fn is_of(key: &FlowKey, port: u16) -> bool {
    key.a().1 == port || key.b().1 == port
}

impl NetworkFunction for Mortal {
    type Settings = Settings;
    type State = ();
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        needs: Needs::Flow,
        ..Descriptor::new("mortal", "panics")
    };

    fn new(_: Settings, _: &mut SetUp<'_>) -> Result<Mortal, SettingsError> {
        Ok(Mortal)
    }

    fn process(
        &self,
        _: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        _: &mut Context<'_>,
    ) -> Verdict {
        assert!(!is_of(flow.info.key(), DEADLY), "it was asked to");
        Verdict::Pass
    }

    fn flow_end(&self, flow: &mut Flow<'_, Self>, _: CloseReason, _: &mut Context<'_>) {
        assert!(!is_of(flow.info.key(), DEADLY_END), "it was asked to");
    }
}

struct Nothing;

impl Sources for Nothing {
    fn text(&mut self, name: &str) -> Result<String, String> {
        Err(format!("there is no {name}"))
    }
}

/// A cluster under test, and the flows that it has seen.
pub(crate) struct Bed {
    pub(crate) cluster: Cluster,
    pub(crate) file: ChainFile,
    flows: u16,
}

impl Bed {
    /// So many runtimes, to which one can be added, on these threads, or each on its own.
    pub(crate) fn new(runtimes: u32, threads: Vec<usize>) -> Bed {
        let mut kinds = weir_functions::kinds().to_vec();
        kinds.push(Kind::of::<Mortal>());
        let input = weir_graph::Input {
            name: "chain.yaml",
            text: "chain: c\nflows: {max: 1000, timeouts: {udp: 1s}}\nnfs: [mortal]\n",
            kinds: &kinds,
            overrides: &[],
            seed: 1,
        };
        let file = weir_graph::load(&input, &mut Nothing).unwrap();
        let settings = ClusterSettings {
            runtimes,
            most_runtimes: runtimes + 1,
            spread: Spread::new(threads, Vec::new()),
            ..ClusterSettings::default()
        };
        let cluster = Cluster::start(&[file.chains[0].stage.clone()], settings).unwrap();
        let flows = 0;
        Bed {
            cluster,
            file,
            flows,
        }
    }

    /// A packet of a new flow from a port, after a second of packet time: the next runtime
    /// gets it.
    pub(crate) fn packet(&mut self, port: u16) {
        self.flows += 1;
        let [high, low] = self.flows.to_be_bytes();
        let bytes = Craft::udp(&format!("10.0.{high}.{low}:{port}"), "10.9.9.9:53").build();
        let meta = FrameMeta::received(Time(1), bytes.len() as u32);
        let frame = self.cluster.pool.copy(&bytes, meta).unwrap();
        self.cluster.take(0, &mut vec![frame]);
    }

    /// Steps until it is so.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Cluster) -> bool) {
        let (mut out, mut events) = (Vec::new(), Vec::new());
        let start = Instant::now();
        while !is_so(&mut self.cluster) {
            assert!(start.elapsed() < Duration::from_secs(60), "never: {what}");
            self.cluster.step(&mut out, &mut events, true).unwrap();
            self.cluster.pool.give_all(&mut out);
        }
    }

    /// Has a runtime die; gives its place.
    pub(crate) fn kill(&mut self) -> usize {
        let before = self.died();
        self.packet(DEADLY);
        self.until("a death", |cluster| {
            cluster.deaths.any() && died(cluster) != before
        });
        let pairs = before.iter().zip(self.died());
        pairs.into_iter().position(|(a, b)| *a != b).unwrap()
    }

    /// Notes a death as the switches are told of it, before its process is over.
    pub(crate) fn fail_over(&mut self, place: usize) {
        self.cluster.members[place].failed_over = true;
    }

    /// Takes that back.
    pub(crate) fn come_back(&mut self, place: usize) {
        self.cluster.members[place].failed_over = false;
    }

    /// One whose only runtime has died too often, with packets on their way.
    pub(crate) fn deserted() -> Bed {
        let mut bed = Bed::new(1, Vec::new());
        let deaths = &mut bed.cluster.members[0].deaths;
        while deaths
            .failed(Instant::now(), Some(Duration::ZERO))
            .is_some()
        {}
        for port in [1_000, DEADLY, 1_001] {
            bed.packet(port);
        }
        let (mut out, mut events) = (Vec::new(), Vec::new());
        let late = Instant::now() + Duration::from_secs(60);
        while bed.cluster.step(&mut out, &mut events, true).is_ok() {
            bed.cluster.pool.give_all(&mut out);
            assert!(Instant::now() < late, "the run goes on");
        }
        bed.cluster.pool.give_all(&mut out);
        bed
    }

    fn died(&self) -> Vec<u64> {
        died(&self.cluster)
    }

    /// All runtimes that were started run.
    fn until_all_run(&mut self) {
        let runs = |m: &Member| matches!(m.state, State::Runs | State::Absent);
        self.until("all run", |cluster| cluster.members.iter().all(runs));
    }

    /// Ends the run, in which no frame may have been lost.
    pub(crate) fn finish(mut self) -> ClusterEnd {
        self.until("quiet", Cluster::is_quiet);
        let (end, _) = self.cluster.finish().unwrap();
        assert_eq!((end.leaked, self.cluster.lost), (0, 0), "frames leaked");
        end
    }
}

fn died(cluster: &Cluster) -> Vec<u64> {
    cluster.members.iter().map(|member| member.died).collect()
}

#[test]
fn one_that_gets_ready_while_runtimes_are_asked_is_asked_too() {
    let mut bed = Bed::new(1, Vec::new());
    bed.until("quiet", Cluster::is_quiet);
    let id = bed.cluster.add().unwrap();
    bed.cluster.echo = None;
    assert!(!bed.cluster.is_quiet());
    bed.until("it runs", |cluster| cluster.runs(id));
    bed.finish();
}

#[test]
fn runtimes_that_shared_a_thread_share_one_again() {
    let mut bed = Bed::new(3, vec![1, 1, 2, 3]);
    // In turn, so that the shared thread dies more often than once.
    for _ in 0..4 {
        bed.kill();
        bed.until_all_run();
    }
    let died = bed.died();
    assert!(died[0] >= 2, "{died:?}");
    assert_eq!(died[0], died[1]);
    bed.finish();
}

#[test]
fn a_successor_that_is_due_a_little_later_starts_with_the_other_of_its_thread() {
    let mut bed = Bed::new(3, vec![1, 1, 2, 3]);
    bed.kill();
    // The first one starts at once, later ones after a pause.
    while bed.cluster.members[0].successor_at.is_none() {
        bed.until_all_run();
        bed.kill();
    }
    let members = &mut bed.cluster.members;
    members[0].successor_at = Some(Instant::now());
    members[1].successor_at = Some(Instant::now() + Duration::from_secs(3600));
    let died = bed.died();
    bed.until_all_run();
    assert_eq!(bed.died(), died);
    bed.finish();
}

/// It is tried again after a pause, three times at most, and keeps no frames.
#[test]
fn a_successor_that_can_not_start_is_tried_again() {
    for times in [2, 3] {
        let mut bed = Bed::new(2, Vec::new());
        // Its thread can't be kept on a core that is not there.
        let bad = vec![Some(1_000_000); 4];
        bed.cluster.settings.spread = Spread::new(Vec::new(), bad);
        let place = bed.kill();
        let so_often = |cluster: &mut Cluster| died(cluster)[place] == 1 + times;
        bed.until("failed starts", so_often);
        bed.cluster.settings.spread = Spread::default();
        let last = bed.cluster.deaths.last().unwrap().clone();
        assert!(last.contains("core 1000000"), "{last}");
        if times == 2 {
            // There are three places.
            let next = RuntimeId(place as u32 + 10);
            let takes = format!("runtime {} takes its place in 0.2 s", next.0);
            assert!(last.ends_with(&takes), "{last}");
            bed.until("a successor", |cluster| cluster.runs(next));
        } else {
            let over = "none takes its place: one died there 3 times before it was ready";
            assert!(last.ends_with(over), "{last}");
            assert_eq!(bed.cluster.places()[place].state, "over");
        }
        bed.finish();
    }
}

#[test]
fn a_function_that_panics_when_a_flow_ends_takes_no_frame_with_it() {
    let mut bed = Bed::new(2, Vec::new());
    bed.packet(DEADLY_END);
    bed.until("quiet", Cluster::is_quiet);
    bed.cluster.pass_time(Time(5_000_000_000));
    bed.until("a death", |cluster| cluster.deaths.any());
    bed.until_all_run();
    bed.finish();
}

/// Neither those that it sends on nor those that go to the reserve are lost.
#[test]
fn a_runtime_counts_the_frames_that_it_does_not_give_back() {
    let mut bed = Bed::new(2, Vec::new());
    for port in 1_000..1_300 {
        bed.packet(port);
    }
    bed.until("quiet", Cluster::is_quiet);
    let cluster = &mut bed.cluster;
    let member = &mut cluster.members[2];
    let Site::Thread { theirs, heir, .. } = &mut member.site else {
        panic!("its runtimes are threads");
    };
    let mut seat = Seat {
        pool: cluster.pool.share(SHARE, LARGE_SHARE),
        ends: *theirs.take().unwrap(),
        handler: cluster.handlers[2].take().unwrap(),
        gauge: member.ends.gauge.clone(),
        supply: Supply::Reserve,
        heir: Some(Arc::clone(heir)),
        lost: 0,
        counted: None,
    };
    // More than it may keep.
    let mut more = Vec::new();
    cluster.pool.take_spare(2 * SHARE as usize, &mut more);
    seat.pool.give_all(&mut more);
    let plan = RuntimePlan {
        stages: cluster.stages.clone(),
        places: vec![1_024],
        config: RuntimeConfig {
            follows: true,
            ..RuntimeConfig::default()
        },
        settings: in_process::actors(RuntimeId(3), 1_024),
        relayed: false,
        clock: cluster.clock,
        shares: None,
        seat,
    };
    let mut node = RuntimeNode::new(plan).unwrap();
    let reserve = cluster.pool.memory().in_reserve();
    node.step().unwrap();
    assert!(cluster.pool.memory().in_reserve() > reserve);
    // Nobody gives it back.
    let _ = node.pool().take(60).unwrap();
    drop(node);
    cluster.take_back(2);
    assert_eq!(cluster.lost, 1);
    cluster.lost = 0;
    let (end, _) = cluster.finish().unwrap();
    assert_eq!(end.leaked, 1);
}

#[test]
fn a_run_ends_where_runtimes_that_died_have_lost_too_many_frames() {
    let mut bed = Bed::new(3, Vec::new());
    bed.cluster.lost = FRAMES_ON_THE_WAY as u64;
    bed.kill();
    bed.until_all_run();
    bed.cluster.lost += 1;
    bed.packet(DEADLY);
    let (mut out, mut events) = (Vec::new(), Vec::new());
    let late = Instant::now() + Duration::from_secs(60);
    let error = loop {
        assert!(Instant::now() < late, "the run goes on");
        if let Err(error) = bed.cluster.step(&mut out, &mut events, true) {
            break error.0;
        }
    };
    let end = "it was asked to; 1025 frames are lost with runtimes that died";
    assert!(error.ends_with(end), "{error}");
}

/// Nobody is left to whom its flows could go; they are as good as ended.
#[test]
fn one_that_dies_as_it_finishes_does_not_end_the_run_in_failure() {
    let mut bed = Bed::new(2, Vec::new());
    bed.packet(DEADLY_END);
    bed.until("quiet", Cluster::is_quiet);
    let end = bed.finish();
    assert_eq!(end.deaths.len(), 1, "{:?}", end.deaths);
    let said = "it was asked to; it was to finish, and what it had not told is lost";
    assert!(end.deaths[0].ends_with(said), "{:?}", end.deaths);
    let died = end.runtimes.iter().filter(|runtime| runtime.died);
    assert_eq!((end.runtimes.len(), died.count()), (2, 1));
}

#[test]
fn the_only_runtime_gets_a_successor() {
    let mut bed = Bed::new(1, Vec::new());
    for _ in 0..3 {
        bed.kill();
        assert!(bed.cluster.room() == 0 || bed.cluster.members[0].is_up());
        bed.until_all_run();
        assert!(bed.cluster.room() > 0);
    }
    let end = bed.finish();
    assert_eq!(end.deaths.len(), 3, "{:?}", end.deaths);
}

/// A successor that starts, or is to start, counts as one that goes on.
#[test]
fn a_second_death_before_a_successor_runs_does_not_end_the_run() {
    let mut bed = Bed::new(2, Vec::new());
    let first = bed.kill();
    let late = Instant::now() + Duration::from_secs(3600);
    while bed.cluster.members[first].successor_at.is_none() {
        bed.until_all_run();
        // In turn, until the place waits for a pause to be over.
        let place = bed.kill();
        if place != first {
            bed.until_all_run();
        }
    }
    bed.cluster.members[first].successor_at = Some(late);
    let second = bed.kill();
    assert_ne!(first, second);
    assert!(!bed.cluster.is_deserted());
    bed.cluster.members[first].successor_at = Some(Instant::now());
    bed.until_all_run();
    bed.finish();
}

/// A start that fails for want of something is tried again.
#[test]
fn a_place_outlives_a_start_that_can_not_be() {
    let mut bed = Bed::new(2, Vec::new());
    let place = bed.kill();
    bed.until_all_run();
    while bed.cluster.members[place].successor_at.is_none() {
        bed.kill();
        if bed.cluster.members[place].state == State::Runs {
            bed.until_all_run();
        }
    }
    let handler = bed.cluster.handlers[place].take();
    assert!(handler.is_some());
    let before = bed.died()[place];
    let failed = |cluster: &mut Cluster| died(cluster)[place] > before;
    bed.until("a start that fails", failed);
    bed.cluster.handlers[place] = handler;
    bed.until_all_run();
    bed.finish();
}

#[test]
fn only_what_starts_or_leaves_is_late() {
    let mut bed = Bed::new(1, Vec::new());
    let now = Instant::now();
    let member = &mut bed.cluster.members[0];
    member.late_at = Some(now);
    let mut late = |state| {
        member.state = state;
        member.is_late(now)
    };
    assert_eq!(late(State::Starts), Some("it was not ready in time"));
    assert_eq!(late(State::Leaves), Some("it did not finish in time"));
    assert_eq!(late(State::Gone), None);
    assert_eq!(late(State::Runs), None);
    bed.cluster.members[0].late_at = Some(now + Duration::from_secs(3600));
    assert_eq!(bed.cluster.members[0].is_late(now), None);
    bed.finish();
}

impl Bed {
    /// What has happened so far: kinds, and the runtimes that they are about.
    fn happened(&self) -> Vec<(&'static str, u32)> {
        let events = self.cluster.settings.happened.after(0, 1_000);
        let one = |event: &Event| match event.about {
            About::Runtime(id, _) => (event.what.kind(), id),
            _ => (event.what.kind(), 0),
        };
        events.iter().map(one).collect()
    }

    /// Steps until the last event is of this kind.
    fn until_told(&mut self, kind: &str) {
        let is_so = |cluster: &mut Cluster| {
            let events = cluster.settings.happened.after(0, 1_000);
            events.last().is_some_and(|event| event.what.kind() == kind)
        };
        self.until(kind, is_so);
    }
}

/// Where nobody is left nothing has recovered before a successor runs.
#[test]
fn the_only_runtime_recovers_with_its_successor() {
    let mut bed = Bed::new(1, Vec::new());
    bed.until_all_run();
    bed.kill();
    bed.until_told("recovered");
    let told = [
        ("runtime_starts", 1),
        ("runtime_ready", 1),
        ("runtime_died", 1),
        ("runtime_starts", 3),
        ("runtime_ready", 3),
        ("recovered", 0),
    ];
    assert_eq!(bed.happened(), told);
    bed.finish();
}

/// A process's runtime is known to be dead before the process has ended, and its successor is
/// planned only then. The ports wait for it where there is no other, and nothing has recovered.
#[test]
fn one_that_is_failed_over_early_is_waited_for() {
    for (runtimes, waits) in [(1, true), (2, false)] {
        let mut bed = Bed::new(runtimes, Vec::new());
        bed.until_all_run();
        bed.cluster.members[0].failed_over = true;
        bed.cluster.await_recovery();
        assert_eq!(bed.cluster.room() == 0, waits);
        let (mut out, mut events) = (Vec::new(), Vec::new());
        for _ in 0..1_000 {
            bed.cluster.step(&mut out, &mut events, false).unwrap();
        }
        assert!(!bed.happened().contains(&("recovered", 0)));
        bed.cluster.members[0].failed_over = false;
        bed.until_told("recovered");
        assert!(bed.cluster.room() > 0);
        bed.finish();
    }
}

/// Neither what did not start nor the second of two deaths tells of a recovery of its own.
#[test]
fn a_recovery_is_told_once() {
    let mut bed = Bed::new(2, Vec::new());
    bed.until_all_run();
    let bad = vec![Some(1_000_000); 4];
    bed.cluster.settings.spread = Spread::new(Vec::new(), bad);
    let place = bed.kill();
    bed.until("failed starts", |cluster| died(cluster)[place] == 3);
    bed.cluster.settings.spread = Spread::default();
    bed.until_all_run();
    let told = bed.happened();
    let count = |kind| told.iter().filter(|(of, _)| *of == kind).count();
    assert_eq!(
        (count("runtime_died"), count("recovered")),
        (3, 1),
        "{told:?}"
    );
    bed.finish();
}
