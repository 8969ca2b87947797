//! One more instance of a slow stage: two threads on cores of their own, each
//! with a ring full of HTTP packets and an HTTP classifier, against one.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use serde_json::json;
use weir_io::port::{GeneratorInput, InputPort};
use weir_io::stage::{PointInput, PointOutput, StageInput, StageOutput, point};
use weir_nf::host::Stage;
use weir_packet::{Frame, FramePool};
use weir_runtime::Runtime;

use super::hot_thread::pin;
use crate::chain::{self, Texts};
use crate::clock::timed;
use crate::line::{self, BATCH, Traffic};
use crate::log::Log;
use crate::stats::Spread;

/// Packets that a ring is filled with: what a level-2 cache does not hold, as
/// where packets come from another core.
const RING: usize = 4_096;
/// Fillings of a round.
const FILLINGS: usize = 32;
const ROUNDS: usize = 11;
const TARGET: f64 = 1.8;

/// One instance and what feeds it.
struct Instance {
    pool: FramePool,
    source: GeneratorInput,
    ring: (PointOutput, PointInput),
    runtime: Runtime,
    burst: Vec<Frame>,
    output: Vec<Frame>,
}

impl Instance {
    fn new(stage: &Stage) -> Result<Instance, String> {
        let traffic = Traffic {
            flows: 1_000,
            settings: "size=512,payload=http,proto=tcp".to_owned(),
        };
        Ok(Instance {
            pool: line::pool()?,
            source: traffic.uniform()?,
            ring: point(RING),
            runtime: line::runtime(stage)?,
            burst: Vec::with_capacity(BATCH),
            output: Vec::with_capacity(4 * BATCH),
        })
    }

    /// Fills the ring, untimed.
    fn fill(&mut self) -> Result<(), String> {
        for _ in 0..RING / BATCH {
            self.source
                .receive(&mut self.pool, &mut self.burst, BATCH)
                .map_err(|error| error.to_string())?;
            self.ring.0.give(&mut self.burst);
            if !self.burst.is_empty() {
                return Err("the ring has no room".to_owned());
            }
        }
        Ok(())
    }

    /// Takes all that is in the ring through the stage.
    fn drain(&mut self) {
        while self.ring.1.take(&mut self.burst, BATCH) > 0 {
            self.runtime
                .process(&mut self.pool, &mut self.burst, &mut self.output);
            self.pool.give_all(&mut self.output);
        }
    }
}

pub(super) fn table() -> Result<(), String> {
    let stage = chain::stage(&["http-classifier"], &mut Texts(&[]))?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        return Err("two cores are needed".to_owned());
    }
    let mut log = Log::create("scale-out.jsonl")?;
    let (mut one, mut two, mut gain) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let single = rate(&stage, 1)?;
        let double = rate(&stage, 2)?;
        one.push(single);
        two.push(double);
        gain.push(double / single);
    }
    let [one, two, gain] = [one, two, gain].map(|samples| (Spread::of(&samples), samples));
    println!("instances of an HTTP classifier, 512-byte HTTP packets from full rings, a core each");
    println!("medians of {ROUNDS} rounds of {FILLINGS} rings of {RING} packets");
    println!("  one   {:6.2} Mpps", one.0.median);
    println!("  two   {:6.2} Mpps together", two.0.median);
    println!(
        "  gain  {:6.2} (quartiles {:.2}–{:.2}), target at least {TARGET}",
        gain.0.median, gain.0.lower_quartile, gain.0.upper_quartile
    );
    log.line(&json!({
        "what": "scale-out of http-classifier", "rings": FILLINGS, "ring": RING,
        "one_mpps": one.1, "two_mpps": two.1, "gain": gain.1, "target": TARGET,
    }))?;
    log.finish()
}

/// Million packets a second of so many instances together: the time of a
/// filling is that of the slowest.
fn rate(stage: &Stage, instances: usize) -> Result<f64, String> {
    let barrier = Barrier::new(instances);
    let times: Vec<Result<Vec<Duration>, String>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..instances)
            .map(|core| {
                let barrier = &barrier;
                scope.spawn(move || work(stage, core, barrier))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a thread failed".to_owned())?)
            .collect()
    });
    let times = times.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut whole = Duration::ZERO;
    for filling in 0..FILLINGS {
        whole += times
            .iter()
            .filter_map(|times| times.get(filling))
            .max()
            .copied()
            .unwrap_or_default();
    }
    Ok((instances * FILLINGS * RING) as f64 / whole.as_secs_f64() / 1e6)
}

fn work(stage: &Stage, core: usize, barrier: &Barrier) -> Result<Vec<Duration>, String> {
    let mut ready = pin(core).and_then(|()| Instance::new(stage));
    if let Ok(instance) = &mut ready {
        // Once untimed: flows are opened, memory is there.
        if let Err(error) = instance.fill() {
            ready = Err(error);
        } else {
            instance.drain();
        }
    }
    let mut times = Vec::with_capacity(FILLINGS);
    for _ in 0..FILLINGS {
        if let Ok(instance) = &mut ready
            && let Err(error) = instance.fill()
        {
            ready = Err(error);
        }
        // Both begin together, also where one has failed.
        barrier.wait();
        // The thread's own time: it never waits, and what other programs take
        // from its core is not its doing.
        let (spent, ()) = timed(|| {
            if let Ok(instance) = &mut ready {
                instance.drain();
            }
        });
        times.push(Duration::from_nanos(spent));
    }
    let report = ready?.runtime.report();
    if report.dropped() > 0 || report.packets_in != ((FILLINGS + 1) * RING) as u64 {
        return Err(format!("packets were lost: {report:?}"));
    }
    Ok(times)
}
