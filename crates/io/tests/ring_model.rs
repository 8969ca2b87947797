//! Rings between processes under all orders of their steps that the memory
//! model allows: `RUSTFLAGS="--cfg loom" cargo test -p weir-io --release
//! --test ring_model`.

#![allow(unexpected_cfgs)]
#![cfg(loom)]

mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};
}
#[allow(dead_code, unreachable_pub)]
#[path = "../src/shared/spsc.rs"]
mod spsc;

use std::ops::Deref;

use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::sync::{Arc, Notify};
use loom::thread;

use spsc::{Reader, Writer, words_for};

const PLACES: u32 = 2;

/// Memory that both sides have.
#[derive(Clone)]
struct Shared(Arc<Vec<AtomicU32>>);

impl Shared {
    fn new() -> Shared {
        let words = (0..words_for(PLACES)).map(|_| AtomicU32::new(0));
        Shared(Arc::new(words.collect()))
    }
}

impl Deref for Shared {
    type Target = [AtomicU32];
    fn deref(&self) -> &[AtomicU32] {
        &self.0
    }
}

/// All orders with up to three places where one side stops in the middle for
/// the other: without a bound the loops that wait take days.
fn model(run: impl Fn() + std::marker::Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

/// What is written into frames: nothing but the ring orders it.
fn frames() -> Arc<Vec<AtomicU32>> {
    Arc::new((0..3).map(|_| AtomicU32::new(0)).collect())
}

#[test]
fn what_is_read_is_what_was_written_and_so_are_the_frames() {
    model(|| {
        let (shared, frames) = (Shared::new(), frames());
        let mut reader = Reader::attach(shared.clone()).unwrap();
        let writer = {
            let frames = frames.clone();
            thread::spawn(move || {
                let mut writer = Writer::attach(shared).unwrap();
                let mut next = 0;
                while next < 3 {
                    // More than the ring has places, so it goes round.
                    if writer.free(1).unwrap() == 0 {
                        thread::yield_now();
                        continue;
                    }
                    frames[next].store(10 + next as u32, Relaxed);
                    writer.write([next as u32].into_iter());
                    let _ = writer.publish();
                    next += 1;
                }
                let _ = writer.finish();
            })
        };
        let mut came: Vec<u32> = Vec::new();
        loop {
            let over = reader.is_over();
            let mut values = [0; 2];
            let count = reader.read(&mut values).unwrap();
            came.extend(&values[..count]);
            reader.release();
            for value in &came[came.len() - count..] {
                assert_eq!(frames[*value as usize].load(Relaxed), 10 + value);
            }
            if count == 0 {
                if over {
                    break;
                }
                thread::yield_now();
            }
        }
        assert_eq!(came, [0, 1, 2]);
        writer.join().unwrap();
    });
}

/// The reader sleeps whenever it may: a wake-up that is lost leaves it asleep
/// for ever, which loom finds as a deadlock.
#[test]
fn no_wake_up_is_lost() {
    model(|| {
        let (shared, waker) = (Shared::new(), Arc::new(Notify::new()));
        let mut reader = Reader::attach(shared.clone()).unwrap();
        let writer = {
            let waker = waker.clone();
            thread::spawn(move || {
                let mut writer = Writer::attach(shared).unwrap();
                for value in 0..2 {
                    assert!(writer.free(1).unwrap() > 0);
                    writer.write([value].into_iter());
                    if writer.publish() {
                        waker.notify();
                    }
                }
                if writer.finish() {
                    waker.notify();
                }
            })
        };
        let mut came = 0;
        loop {
            let over = reader.is_over();
            let count = reader.read(&mut [0; 2]).unwrap();
            reader.release();
            came += count;
            if count > 0 {
                continue;
            }
            if over {
                break;
            }
            if reader.fall_asleep() {
                waker.wait();
                reader.awake();
            }
        }
        assert_eq!(came, 2);
        writer.join().unwrap();
    });
}

/// Who looks at a ring whose writer is over, while its reader goes on, misses
/// nothing that the reader has not taken.
#[test]
fn what_a_dead_writer_left_is_seen() {
    model(|| {
        let (shared, frames) = (Shared::new(), frames());
        let mut writer = Writer::attach(shared.clone()).unwrap();
        for value in 0..2 {
            writer.write([value].into_iter());
        }
        let _ = writer.publish();
        let reader = {
            let (shared, frames) = (shared.clone(), frames.clone());
            thread::spawn(move || {
                let mut reader = Reader::attach(shared).unwrap();
                for _ in 0..2 {
                    // As a frame's new owner is written down before its place
                    // is given back.
                    let mut value = [0];
                    if reader.read(&mut value).unwrap() == 1 {
                        frames[value[0] as usize].store(1, Relaxed);
                    }
                    reader.release();
                }
            })
        };
        let left = spsc::peek(&shared).unwrap();
        for value in 0..2u32 {
            let taken = frames[value as usize].load(Relaxed) == 1;
            assert!(taken || left.contains(&value));
        }
        reader.join().unwrap();
    });
}
