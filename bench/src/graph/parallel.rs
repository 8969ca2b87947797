//! Parallel branches (µNF, Fig. 8): two processors of 0 to 700 cycles a packet
//! one after the other on one core, and side by side on two, joined by branch,
//! marker and sync ports. What is measured is how long a burst takes from the
//! first of them to behind the last.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use weir_io::port::InputPort;
use weir_io::stage::{FurtherBranch, ParallelSettings, QueuePorts, Regions, StageOutput, parallel};
use weir_io::stage::{Parallel, StageInput};
use weir_nf::host::{FlowOptions, Kind, Node, Stage, Target};
use weir_nf::prelude::*;
use weir_packet::{Frame, FramePool, ParseOptions};

use super::hot_thread::pin;
use crate::chain::Texts;
use crate::line::{self, BATCH, Traffic};
use crate::log::{self, Log};
use crate::plot::{Axis, Line, Plot, svg};
use crate::stats::Spread;

/// Bursts that are measured of each form.
const BURSTS: usize = 2_000;
const ROUNDS: usize = 5;
/// Packets of a burst.
const SIZES: [usize; 2] = [1, 32];
const COSTS: [u64; 8] = [0, 100, 200, 300, 400, 500, 600, 700];

/// Settings of a processor that takes a number of cycles.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
struct Cost {
    cycles: u64,
}

/// A processor that takes so many cycles for each packet and looks at nothing.
struct Busy(u64);

impl NetworkFunction for Busy {
    type Settings = Cost;
    type State = ();
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor::new("busy", "takes its time");

    fn new(cost: Cost, _: &mut SetUp<'_>) -> Result<Busy, SettingsError> {
        Ok(Busy(cost.cycles))
    }

    fn without_flow(&self, _: &mut Packet<'_>, _: &mut Context<'_>) -> Verdict {
        let start = weir_io::cycles();
        while weir_io::cycles().wrapping_sub(start) < self.0 {
            std::hint::spin_loop();
        }
        Verdict::Pass
    }
}

/// A stage of so many of them.
fn stage(cycles: u64, count: usize) -> Result<Stage, String> {
    let kind = Kind::of::<Busy>();
    let (mut pools, mut warnings) = (Vec::new(), Vec::new());
    let mut sources = Texts(&[]);
    let mut nodes = Vec::new();
    for number in 0..count {
        let mut set_up = SetUp::new(&mut sources, &mut pools, &mut warnings, 1);
        let processor =
            (kind.make)(Box::new(Cost { cycles }), &mut set_up).map_err(|error| error.message)?;
        nodes.push(Node {
            name: format!("busy-{}", number + 1),
            processor,
            same_as: None,
            next: vec![if number + 1 < count {
                Target::Node(number + 1)
            } else {
                Target::Out
            }],
        });
    }
    Ok(Stage {
        chain: "parallel".to_owned(),
        number: 0,
        first: 0,
        nodes,
        flows: FlowOptions::default(),
        pools,
        sets: weir_nf::Sets::default(),
    })
}

pub(super) fn table() -> Result<(), String> {
    if thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Err("two cores are needed".to_owned());
    }
    let mut log = Log::create("parallel.jsonl")?;
    println!(
        "two processors, ns that a burst of 64-byte packets takes; medians of {ROUNDS} rounds of \
         {BURSTS} bursts"
    );
    println!(
        "{:>7} {:>8} {:>12} {:>12} {:>7}",
        "packets", "cycles", "in turn", "in parallel", "ratio"
    );
    let mut plots = Vec::new();
    for size in SIZES {
        let (mut turn, mut side) = (Vec::new(), Vec::new());
        for cycles in COSTS {
            let (mut one, mut two) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                one.push(in_turn(cycles, size)?);
                two.push(side_by_side(cycles, size)?);
            }
            let (one, two) = (Spread::of(&one), Spread::of(&two));
            println!(
                "{size:>7} {cycles:>8} {:>12.0} {:>12.0} {:>7.2}",
                one.median,
                two.median,
                two.median / one.median
            );
            log.line(&json!({
                "packets": size, "cycles": cycles, "in_turn_ns": one.median,
                "parallel_ns": two.median,
                "in_turn_quartiles_ns": [one.lower_quartile, one.upper_quartile],
                "parallel_quartiles_ns": [two.lower_quartile, two.upper_quartile],
            }))?;
            turn.push((cycles as f64, one.median));
            side.push((cycles as f64, two.median));
        }
        plots.push(
            Plot::new(
                &format!("Two processors, bursts of {size}"),
                Axis::new("cycles of each processor per packet"),
                Axis::new("ns per burst"),
            )
            .line(Line::new("in turn, one core", turn).dots())
            .line(Line::new("in parallel, two cores", side).dots()),
        );
    }
    log::plot("parallel.svg", &svg(&plots))?;
    log.finish()
}

/// Frames of packets for a burst.
fn burst(pool: &mut FramePool, size: usize) -> Result<Vec<Frame>, String> {
    let traffic = Traffic {
        flows: 64,
        settings: "size=64".to_owned(),
    };
    let mut frames = Vec::with_capacity(BATCH);
    traffic
        .uniform()?
        .receive(pool, &mut frames, size)
        .map_err(|error| error.to_string())?;
    Ok(frames)
}

/// Median nanoseconds of a burst through both processors on one core.
fn in_turn(cycles: u64, size: usize) -> Result<f64, String> {
    let stage = stage(cycles, 2)?;
    let work = || {
        pin(0)?;
        let mut pool = line::pool()?;
        let mut frames = burst(&mut pool, size)?;
        let mut runtime = line::runtime(&stage)?;
        let mut out = Vec::with_capacity(BATCH);
        let mut times = Vec::with_capacity(BURSTS);
        for _ in 0..BURSTS {
            let start = Instant::now();
            runtime.process(&mut pool, &mut frames, &mut out);
            times.push(start.elapsed().as_nanos() as f64);
            std::mem::swap(&mut frames, &mut out);
        }
        pool.give_all(&mut frames);
        Ok(Spread::of(&times).median)
    };
    on_thread(work)
}

fn on_thread(work: impl FnOnce() -> Result<f64, String> + Send) -> Result<f64, String> {
    thread::scope(|scope| {
        let done = scope.spawn(work).join();
        done.map_err(|_| "a thread failed".to_owned())?
    })
}

/// The same with the second processor on another core. The first core has the
/// stage before, the first branch and the stage behind: the fewest hand-overs
/// that a plan could have.
fn side_by_side(cycles: u64, size: usize) -> Result<f64, String> {
    let stage = stage(cycles, 1)?;
    let stop = AtomicBool::new(false);
    let ready = Barrier::new(2);
    let mut pool = line::pool()?;
    let settings = ParallelSettings {
        places: 256,
        group: 1..=2,
        further: vec![FurtherBranch {
            entry: 2,
            writes: Regions::NONE,
        }],
        exit: Some(0),
        parse: ParseOptions::default(),
    };
    let copies = pool.share(512, 2);
    let other_pool = pool.share(0, 0);
    let Parallel {
        mut branch,
        queues,
        mut sync,
    } = parallel(&settings, copies).map_err(|error| error.to_string())?;
    let mut queues = queues.into_iter();
    let (Some(mut first), Some(second)) = (queues.next(), queues.next()) else {
        return Err("two branches were wanted".to_owned());
    };
    thread::scope(|scope| {
        let (stage, stop, ready) = (&stage, &stop, &ready);
        let other = scope.spawn(move || other_branch(stage, other_pool, second, stop, ready));
        let here = scope.spawn(move || {
            let prepared = pin(0)
                .and_then(|()| burst(&mut pool, size))
                .and_then(|frames| Ok((frames, line::runtime(stage)?)));
            ready.wait();
            let (mut frames, mut runtime) = prepared?;
            let (mut input, mut out) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
            let mut times = Vec::with_capacity(BURSTS);
            for _ in 0..BURSTS {
                for frame in &mut frames {
                    pool.memory().clone().meta_mut(frame).next = 1;
                }
                let start = Instant::now();
                branch.give(&mut frames);
                first.input.take(&mut input, BATCH);
                runtime.process(&mut pool, &mut input, &mut out);
                first.output.give(&mut out);
                let mut waited = 0u64;
                while frames.len() < size {
                    if sync.take(&mut frames, BATCH) == 0 {
                        waited += 1;
                        std::hint::spin_loop();
                    }
                    if waited > 1 << 32 {
                        return Err("the branches never met".to_owned());
                    }
                }
                times.push(start.elapsed().as_nanos() as f64);
            }
            stop.store(true, Ordering::Relaxed);
            pool.give_all(&mut frames);
            Ok(Spread::of(&times).median)
        });
        let result = here.join().map_err(|_| "a thread failed".to_owned())?;
        stop.store(true, Ordering::Relaxed);
        other.join().map_err(|_| "a thread failed".to_owned())??;
        result
    })
}

fn other_branch(
    stage: &Stage,
    mut pool: FramePool,
    mut ports: QueuePorts,
    stop: &AtomicBool,
    ready: &Barrier,
) -> Result<(), String> {
    let prepared = pin(1).and_then(|()| line::runtime(stage));
    ready.wait();
    let mut runtime = prepared?;
    let (mut input, mut out) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
    while !stop.load(Ordering::Relaxed) {
        if ports.input.take(&mut input, BATCH) == 0 {
            std::hint::spin_loop();
            continue;
        }
        runtime.process(&mut pool, &mut input, &mut out);
        ports.output.give(&mut out);
    }
    Ok(())
}
