//! Stages that share a core (µNF, Fig. 5): chains of 1 to 9 stages that swap
//! MAC addresses, a thread each, all on one core, with and without giving way
//! by themselves, under the system's fair scheduler and `SCHED_FIFO`; beside
//! them the same chain run to completion by one thread (Fig. 10). Another core
//! feeds the first ring and empties the last one.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use weir_io::port::InputPort;
use weir_io::stage::{PointInput, PointOutput, StageInput, StageOutput, point};
use weir_io::{Idle, IdlePolicy};
use weir_nf::host::Stage;
use weir_packet::{Frame, FramePool};

use super::hot_thread::{fifo, pin};
use crate::chain::{self, Texts};
use crate::line::{self, BATCH, Traffic};
use crate::log::{self, Log};
use crate::plot::{Axis, Line, Plot, svg};
use crate::stats::Spread;

/// Frames on their way round.
const FRAMES: usize = 2_048;
/// Places of a ring.
const RING: usize = 512;
const LONGEST: usize = 9;
const WARM_UP: Duration = Duration::from_millis(100);
const MEASURED: Duration = Duration::from_millis(300);
const ROUNDS: usize = 5;
/// Bursts after which a stage gives way by itself.
const BURSTS: u32 = 4;
/// The core of the stages, and that of the feeder.
const SHARED: usize = 1;
const FEEDER: usize = 0;

/// How the stages share their core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// One thread runs the chain to completion.
    Completion,
    /// A thread per stage.
    Threads { yields: bool, fifo: bool },
}

impl Way {
    const ALL: [Way; 5] = [
        Way::Completion,
        Way::Threads {
            yields: true,
            fifo: false,
        },
        Way::Threads {
            yields: true,
            fifo: true,
        },
        Way::Threads {
            yields: false,
            fifo: false,
        },
        Way::Threads {
            yields: false,
            fifo: true,
        },
    ];

    const fn name(self) -> &'static str {
        match self {
            Way::Completion => "run to completion",
            Way::Threads {
                yields: true,
                fifo: false,
            } => "fair, giving way",
            Way::Threads {
                yields: true,
                fifo: true,
            } => "FIFO, giving way",
            Way::Threads {
                yields: false,
                fifo: false,
            } => "fair, spinning",
            Way::Threads {
                yields: false,
                fifo: true,
            } => "FIFO, spinning",
        }
    }
}

pub(super) fn table() -> Result<(), String> {
    if thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Err("two cores are needed".to_owned());
    }
    let mut log = Log::create("sharing.jsonl")?;
    println!(
        "MAC-swap stages on one core, Mpps, medians of {ROUNDS} rounds of {} ms",
        MEASURED.as_millis()
    );
    print!("{:>6}", "stages");
    for way in Way::ALL {
        print!(" {:>18}", way.name());
    }
    println!();
    let mut lines = Way::ALL.map(|way| (way, Vec::new(), Vec::new()));
    for length in 1..=LONGEST {
        print!("{length:>6}");
        for (way, points, band) in &mut lines {
            let mut samples = Vec::new();
            let mut refused = None;
            for _ in 0..ROUNDS {
                match rate(*way, length) {
                    Ok(rate) => samples.push(rate),
                    Err(why) => {
                        refused = Some(why);
                        break;
                    }
                }
            }
            if let Some(why) = refused {
                print!(" {:>18}", "refused");
                log.line(&json!({"way": way.name(), "stages": length, "refused": why}))?;
                continue;
            }
            let spread = Spread::of(&samples);
            print!(" {:>18.3}", spread.median);
            points.push((length as f64, spread.median));
            band.push((spread.lower_quartile, spread.upper_quartile));
            log.line(&json!({"way": way.name(), "stages": length, "mpps": samples}))?;
        }
        println!();
    }
    let mut plot = Plot::new(
        "MAC-swap stages that share a core",
        Axis::new("stages"),
        Axis::log("Mpps"),
    );
    for (way, points, band) in lines {
        let line = Line::new(way.name(), points).band(band).dots();
        plot = plot.line(match way {
            Way::Threads { yields: false, .. } => line.dashed(),
            _ => line,
        });
    }
    log::plot("sharing.svg", &svg(&[plot]))?;
    log.finish()
}

/// Million packets a second through a chain of so many stages.
fn rate(way: Way, length: usize) -> Result<f64, String> {
    let (threads, per_thread) = match way {
        Way::Completion => (1, length),
        Way::Threads { .. } => (length, 1),
    };
    let stage = chain::stage(&vec!["mac-swap"; per_thread], &mut Texts(&[]))?;
    let mut pool = line::pool()?;
    let shares: Vec<FramePool> = (0..threads).map(|_| pool.share(0, 0)).collect();
    let stop = AtomicBool::new(false);
    let done = AtomicU64::new(0);
    // All are pinned and under their scheduler before the first one works.
    let ready = Barrier::new(threads + 1);
    let (mut first, mut input) = point(RING);
    let mut ends = Vec::new();
    for _ in 1..threads {
        let (output, next) = point(RING);
        ends.push((input, output));
        input = next;
    }
    let (output, mut last) = point(RING);
    ends.push((input, output));
    thread::scope(|scope| {
        let handles: Vec<_> = ends
            .into_iter()
            .zip(shares)
            .map(|((input, output), pool)| {
                let (stage, stop, ready) = (&stage, &stop, &ready);
                scope.spawn(move || run_stage(way, stage, pool, input, output, stop, ready))
            })
            .collect();
        let (stop, done, ready) = (&stop, &done, &ready);
        let feeder = scope.spawn(move || feed(&mut first, &mut last, pool, stop, done, ready));
        thread::sleep(WARM_UP);
        let (start, before) = (Instant::now(), done.load(Ordering::Relaxed));
        thread::sleep(MEASURED);
        let (took, after) = (start.elapsed(), done.load(Ordering::Relaxed));
        stop.store(true, Ordering::Relaxed);
        for handle in handles {
            handle.join().map_err(|_| "a stage failed".to_owned())??;
        }
        feeder
            .join()
            .map_err(|_| "the feeder failed".to_owned())??;
        Ok((after - before) as f64 / took.as_secs_f64() / 1e6)
    })
}

/// One stage's thread: what a pipeline does, until it is stopped.
fn run_stage(
    way: Way,
    stage: &Stage,
    mut pool: FramePool,
    mut input: PointInput,
    mut output: PointOutput,
    stop: &AtomicBool,
    ready: &Barrier,
) -> Result<(), String> {
    let (yields, is_fifo) = match way {
        Way::Completion => (true, false),
        Way::Threads { yields, fifo } => (yields, fifo),
    };
    let placed = pin(SHARED).and_then(|()| if is_fifo { fifo() } else { Ok(()) });
    let runtime = line::runtime(stage);
    ready.wait();
    placed?;
    let mut runtime = runtime?;
    let mut idle = Idle::new(IdlePolicy {
        spins: if yields { 0 } else { u32::MAX },
        yields: u32::MAX,
        nap: Duration::ZERO,
        work: if yields { BURSTS } else { 0 },
    });
    let (mut burst, mut done) = (Vec::with_capacity(BATCH), Vec::with_capacity(4 * BATCH));
    while !stop.load(Ordering::Relaxed) {
        let mut worked = false;
        if done.is_empty() && input.take(&mut burst, BATCH) > 0 {
            runtime.process(&mut pool, &mut burst, &mut done);
            worked = true;
        }
        worked |= output.give(&mut done) > 0;
        idle.after(worked);
    }
    Ok(())
}

/// Sends the same frames round and round.
fn feed(
    first: &mut PointOutput,
    last: &mut PointInput,
    mut pool: FramePool,
    stop: &AtomicBool,
    done: &AtomicU64,
    ready: &Barrier,
) -> Result<(), String> {
    let placed = pin(FEEDER);
    let mut frames: Vec<Frame> = Vec::with_capacity(FRAMES);
    let traffic = Traffic {
        flows: 1_000,
        settings: "size=64".to_owned(),
    };
    let filled = traffic.uniform().and_then(|mut source| {
        while frames.len() < FRAMES {
            source
                .receive(&mut pool, &mut frames, BATCH)
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    });
    ready.wait();
    placed.and(filled)?;
    let mut came = Vec::with_capacity(BATCH);
    while !stop.load(Ordering::Relaxed) {
        let count = last.take(&mut came, BATCH);
        if count > 0 {
            done.fetch_add(count as u64, Ordering::Relaxed);
            frames.append(&mut came);
        }
        if first.give(&mut frames) == 0 && count == 0 {
            std::hint::spin_loop();
        }
    }
    Ok(())
}
