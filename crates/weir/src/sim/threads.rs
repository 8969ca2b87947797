//! Seeds on several threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::args::Sim;
use crate::exit::Failure;

/// Runs the seeds on as many threads as were asked for. `add` runs one, and says whether it held.
pub(super) fn seeds<C: Default + Send>(
    args: &Sim,
    add: impl Fn(&mut C, u64) -> Result<bool, String> + Sync,
    merge: impl Fn(&mut C, C) + Sync,
) -> Result<C, Failure> {
    let next = AtomicU64::new(0);
    let failures = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let sum: Mutex<Result<C, String>> = Mutex::new(Ok(C::default()));
    let done = AtomicU64::new(0);
    let start = Instant::now();
    let over = || args.most.is_some_and(|most| start.elapsed() >= most);
    std::thread::scope(|scope| {
        for _ in 0..args.jobs {
            scope.spawn(|| {
                let mut mine = C::default();
                let mut error = None;
                while !stop.load(Ordering::Relaxed) && !over() {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= args.seeds {
                        break;
                    }
                    match add(&mut mine, args.seed.wrapping_add(number)) {
                        Ok(true) => {}
                        Ok(false) => {
                            let failed = failures.fetch_add(1, Ordering::Relaxed) + 1;
                            if failed >= args.most_failures {
                                stop.store(true, Ordering::Relaxed);
                            }
                        }
                        Err(text) => {
                            error = Some(text);
                            stop.store(true, Ordering::Relaxed);
                        }
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
                if let Ok(mut sum) = sum.lock() {
                    match (error, sum.as_mut()) {
                        (Some(text), _) => *sum = Err(text),
                        (None, Ok(sum)) => merge(sum, mine),
                        (None, Err(_)) => {}
                    }
                }
                done.fetch_add(args.seeds, Ordering::Relaxed);
            });
        }
        if !args.quiet && args.seeds > 1 {
            progress(args, &done);
        }
    });
    match sum.into_inner() {
        Ok(Ok(sum)) => Ok(sum),
        Ok(Err(text)) => Err(Failure::outside(text)),
        Err(_) => Err(Failure::outside("a thread of the simulator died")),
    }
}

fn progress(args: &Sim, done: &AtomicU64) {
    let bar = indicatif::ProgressBar::new(args.seeds);
    if let Ok(style) = indicatif::ProgressStyle::with_template("{bar:40} {pos}/{len} seeds {eta}") {
        bar.set_style(style);
    }
    loop {
        let now = done.load(Ordering::Relaxed);
        if now >= args.seeds {
            break;
        }
        bar.set_position(now);
        std::thread::sleep(Duration::from_millis(100));
    }
    bar.finish_and_clear();
}
